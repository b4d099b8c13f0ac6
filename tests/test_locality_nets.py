"""Locality of nets: a DDPM as a denoiser, rows and K, the two one-object sets."""

import huggingface_hub
import numpy as np
import pytest
import torch
from diffusers import DDPMPipeline, DDPMScheduler, UNet2DModel

from lcs_utils import (
    centered,
    checkpoints,
    diffusion,
    figures,
    locality,
    nets,
    notebooks,
    paths,
    stats,
    store,
)
from lcs_utils.diffusion import expand
from lcs_utils.evaluation.locality import locality_figures, locality_rates, net_locality
from lcs_utils.evaluation.rows import Row
from lcs_utils.evaluation.studies import middle
from lcs_utils.experiments import EXPERIMENTS, Experiment
from lcs_utils.models import ddpm
from lcs_utils.stats import Interval
from lcs_utils.theory.distributions import gaussian


class GaussianEps:
    """The exact eps of data N(mean, 1) in a variance-preserving process, by real-valued t through the
    schedule.
    """

    def __init__(self, kept, mean):
        self.kept, self.mean = kept, mean

    def __call__(self, x, t):
        kept = expand(self.kept[t.long()].to(x.dtype), x)  # abar
        return (x - kept.sqrt() * self.mean) * (1 - kept).sqrt()


def test_a_ddpm_is_the_exact_denoiser_of_its_data():
    """x_vp ~ N(sqrt(abar) mean, 1), so D = (x_t + sigma^2 mean) / (1 + sigma^2) at every level of the
    schedule.
    """
    scheduler = DDPMScheduler(num_train_timesteps=100)
    denoise = ddpm.from_scheduler(GaussianEps(scheduler.alphas_cumprod.double(), 3.0), scheduler)
    t = torch.tensor([0, 40, 99])
    sigma = denoise.sigmas[t]
    x = torch.randn(3, 3, 4, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    s2 = expand(sigma, x) ** 2
    torch.testing.assert_close(
        denoise(x, sigma + 1e-9 * sigma), (x + s2 * 3) / (1 + s2), atol=1e-5, rtol=1e-5
    )
    with pytest.raises(ValueError, match="knows sigma from 0.01"):
        denoise(x, torch.tensor([0.001, 1.0, 1.0]))


def test_between_two_steps_a_ddpm_is_asked_at_the_step_between():
    """As ln sigma lies between theirs: the middle of .1 and 10 is 1."""
    known = torch.tensor([0.01, 0.1, 10.0], dtype=torch.float64)
    asked = torch.tensor([0.01, 0.1**1.25, 0.1, 1.0, 10.0], dtype=torch.float64)
    torch.testing.assert_close(ddpm.steps_at(asked, known).tolist(), [0.0, 0.75, 1.0, 1.5, 2.0])


def tiny_ddpm(folder, side):
    """A random pipeline of the classes of CIFAR-10's, saved; its net."""
    torch.manual_seed(0)
    net = UNet2DModel(
        sample_size=side,
        block_out_channels=(8, 8),
        norm_num_groups=4,
        layers_per_block=1,
        attention_head_dim=4,
        down_block_types=("DownBlock2D", "AttnDownBlock2D"),
        up_block_types=("AttnUpBlock2D", "UpBlock2D"),
    )
    DDPMPipeline(net, DDPMScheduler()).save_pretrained(folder)
    return net.eval()


def test_a_saved_ddpm_of_the_same_classes_loads_and_has_maps(tmp_path):
    net = tiny_ddpm(tmp_path, 8)
    denoise = ddpm.load_ddpm(str(tmp_path), revision=None)
    at = torch.tensor([100, 900])
    x, sigma = torch.randn(2, 3, 8, 8), denoise.sigmas[at].float()
    with torch.no_grad():
        eps = net(x / (1 + expand(sigma, x) ** 2).sqrt(), at).sample
    found = (x - denoise(x, sigma).detach()) / expand(sigma, x)
    torch.testing.assert_close(found, eps, atol=1e-4, rtol=1e-3)
    found = locality.pixel_influence(denoise, x[0], 1.0, None, [(4, 4)])
    assert found.shape == (1, 8, 8) and float(found.max()) > 0
    with pytest.raises(ValueError, match="v_prediction"):
        ddpm.from_scheduler(net, DDPMScheduler(prediction_type="v_prediction"))


def test_notebook_07_with_cifar_runs_without_network(tmp_path, monkeypatch):
    """Its own lines, on a net of the hub's name and pinned revision that lies where the hub's cache would
    have it.
    """
    cache = tmp_path / "hub" / f"models--{ddpm.CIFAR10.replace('/', '--')}"
    snapshot = cache / "snapshots" / ddpm.CIFAR10_REVISION
    net = tiny_ddpm(snapshot, 32)
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    monkeypatch.setenv("LCS_FIGURES", str(tmp_path / "figures"))

    cells = [cell.source for cell in notebooks.read("07_locality").cells if cell.cell_type == "code"]
    (branch,) = [i for i, source in enumerate(cells) if "if cifar:" in source]
    names = {"preset": "tiny", "seed": 0, "cifar": True}
    (setup,) = [source for source in cells if "import load_ddpm" in source]
    for source in (setup, *cells[branch : branch + 2]):
        exec(source, names)
    assert list(names["looks"]) == ["centered", "scattered", "CIFAR-10"]
    assert names["sides"]["CIFAR-10"].shape == (6, len(names["steps"]))
    sample = names["samples"][0]  # 18 Heun steps of that very net
    noise = torch.randn(6, 3, 32, 32, generator=torch.Generator().manual_seed(0))
    scheduler = DDPMScheduler()
    again = diffusion.sample(
        ddpm.from_scheduler(net, scheduler), noise, diffusion.karras_sigmas(18, 0.02, 80.0)
    )
    torch.testing.assert_close(sample, diffusion.final(again)[0], atol=1e-3, rtol=1e-3)
    profile = names["looks"]["CIFAR-10"]
    eps = torch.randn(3, 32, 32, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(profile.x_t[0], sample + names["steps"][0] * eps)
    assert profile.pixels.isfinite().all() and bool((profile.pixels.flatten(2).amax(2) > 0).all())
    assert (tmp_path / "figures" / "tiny" / "fig12.png").stat().st_size > 10_000
    cache.rename(cache.with_name("models--gone"))
    with pytest.raises(OSError):  # neither cached nor reachable
        ddpm.load_ddpm()


def test_one_set_is_centered_and_the_other_is_not():
    from lcs_utils.clevr.scenes import project

    def where(name):
        return torch.tensor([project(s)[0].tolist() for s in centered.scenes(name, 50)])

    place = {name: where(name) for name in centered.SPREAD}
    far = {name: float((p - 0.5).abs().max()) for name, p in place.items()}
    assert far["centered"] <= 0.04 + 1e-6 and 0.2 < far["scattered"] <= 0.3 + 1e-6
    data = centered.data("centered", 2)
    assert data.images.shape == (2, 3, 32, 32) and data.locations.shape == (2, 1, 2)
    with pytest.raises(ValueError, match="centered, scattered"):
        centered.scenes("anywhere")


def test_what_fig_12_shows_comes_back_from_rows(tmp_path, monkeypatch):
    net = checkpoints.load("exp1").denoiser
    images = list(diffusion.from_uint8(centered.data("centered", 2).images))
    profiles = figures.middle_profiles(net, images, middle.SIGMAS)
    sides = {"centered": figures.middle_sides(profiles).numpy()}
    monkeypatch.setattr(middle, "rows_path", lambda preset, name: tmp_path / f"{name}.csv.bz2")
    middle.write(sides, {"centered": profiles[0]})
    look = middle.looks()["centered"]
    torch.testing.assert_close(look.x0_hat, profiles[0].x0_hat.clamp(-1, 1), atol=0.5 / 127.5 + 1e-6, rtol=0)
    of = profiles[0].pixels
    torch.testing.assert_close(look.pixels, of / of.amax((2, 3), keepdim=True), atol=1e-6, rtol=0.005)
    assert torch.equal(look.windows, profiles[0].windows) and look.windows.unique().numel() > 1
    middle.path().rename(tmp_path / "elsewhere")
    with pytest.raises(ValueError, match="middle.csv.bz2 has no sides of centered, which has maps: .* sides"):
        middle.looks()
    (tmp_path / "elsewhere").rename(middle.path())
    monkeypatch.setattr(middle.nets, "row", lambda *_: {"sha256": "others"})
    with pytest.raises(ValueError, match="no rows for today's weights of centered.*sides"):
        middle.looks()


def test_rank_correlation_with_ties():
    assert stats.rank_correlation([1, 2, 3, 4], [10, 20, 30, 40]) == pytest.approx(1)
    assert stats.rank_correlation([1, 2, 3], [3, 2, 1]) == pytest.approx(-1)
    assert stats.rank_correlation([1, 2, 2, 3], [1, 2, 3, 4]) == pytest.approx(4.5 / (4.5 * 5) ** 0.5)
    with pytest.raises(ValueError, match="varying"):
        stats.rank_correlation([1, 1, 1], [1, 2, 3])


def test_k_by_filled_cells_stops_at_the_first_failure_and_at_gaps():
    def row(k, placed):
        return Row("exp1", "w", "c", 0, "dpmpp_2m", 14, k, 0, placed, placed, 1.0)

    assert locality_rates.filled_k([row(k, k) for k in range(5)], "exp1") == 4
    assert locality_rates.filled_k([row(1, 1), row(2, 2), row(3, 2), row(4, 4)], "exp1") == 2
    assert locality_rates.filled_k([row(1, 1), row(3, 3)], "exp1") == 1
    assert locality_rates.filled_k([row(1, 0), row(2, 2)], "exp1") == 0


def test_three_quarters_of_the_cells_are_enough_and_less_is_not():
    def filled(*placed):
        return [
            Row("exp1", "w", "c", 0, "dpmpp_2m", 14, k, i, n, n, 1.0)
            for i in (0, 1, 2)
            for k, n in enumerate(placed, 1)
        ]

    assert locality_rates.filled_k(filled(1, 2, 3, 3), "exp1") == 4
    assert locality_rates.filled_k(filled(1, 2, 2, 4), "exp1") == 2


def test_images_are_what_an_interval_of_locality_draws():
    """An image's noise levels are no further images: they would vouch for twice as much."""
    shares = np.linspace(0.1, 0.8, net_locality.IMAGES)
    rows = [
        net_locality.LocalityRow("exp1", "w", 5, image, sigma, 9.0, 0.0, share, 1.0)
        for image, share in enumerate(shares.tolist())
        for sigma in net_locality.SIGMAS
    ]
    found = locality_rates.at_high_noise(rows)
    assert found == stats.interval(shares) and found.high - found.low > 0.25


def test_nets_that_are_ranked_are_finished_unchanged_and_told_places(monkeypatch):
    nets_ = ["exp1", "exp1_seed1", "exp1@320", "exp1/unit", "exp3", "background_one", "color_1-3", "exp2"]
    located = [net_locality.LocalityRow(net, "w", 5, 0, 2.0, 9.0, 0.5, 0.5, 1.0) for net in nets_]
    counted = [Row(net, "w", "c", 0, "heun", 2, 6, 0, 6, 6, 1.0) for net in (*nets_[:-1], "exp1_1")]
    monkeypatch.setattr(locality_rates, "read", lambda preset: located)
    assert locality_rates.measured_nets(counted) == ["exp1", "exp1_seed1"]
    assert locality_rates.measured_nets(counted, whole=False) == ["exp1", "exp1_seed1", "exp3"]


def test_a_field_s_denoiser_widens_with_noise_and_its_score_narrows():
    """On 16 x 16 pixels, one to a cell."""
    at = torch.cartesian_prod(torch.arange(16), torch.arange(16)).double()
    field = gaussian(torch.zeros(256), 0.04 * torch.exp(-torch.cdist(at, at) / 3.0))
    drawn = field.sample(400, torch.Generator().manual_seed(0)).reshape(-1, 16, 16)
    sides = locality_rates.gaussian_sides(drawn)
    assert sides.length == pytest.approx(3.0, rel=0.15) and len(sides.denoiser) == len(net_locality.SIGMAS)
    assert sides.denoiser[0] < 4 < 8 < sides.denoiser[-1] and sides.score[-1] == 1


def test_quantities_stand_side_by_side_where_all_were_measured():
    one, two = Interval(0.1, 0.1, 0.1), Interval(0.2, 0.2, 0.2)
    found = {"exp1": {"locality": {10: one, 20: one, 40: one}, "filled": {20: two, 30: two, 40: two}}}
    turned = locality_rates.by_images(found)
    assert turned == {"exp1": {n: {"locality": one, "filled": two} for n in (20, 40)}}


def test_locality_ranks_nets_at_the_noise_where_it_differs(monkeypatch):
    share = {"exp1": 0.6, "exp2": 0.3, "exp3": 0.9}  # of the cells filled

    def made(net, sigma):
        return (share[net] if sigma >= 1 else 1 - share[net]) / 2

    found = {
        net: [
            net_locality.LocalityRow(net, "w", 5, i, s, 9.0, 0.0, made(net, s), 1.0)
            for s in net_locality.SIGMAS
            for i in range(2)
        ]
        for net in share
    }
    monkeypatch.setattr(locality_rates, "read", lambda preset: [])
    monkeypatch.setattr(locality_rates, "current", lambda rows, nets, preset: found)

    def placed(net, k, i):
        return k if i < 10 * share[net] else 0

    counted = [
        Row(net, "w", "c", 0, "dpmpp_2m", 14, k, i, k, placed(net, k, i), 1.0)
        for net in share
        for k in (4, 5, 6)
        for i in range(10)
    ]
    by_noise = locality_rates.by_noise(counted, list(share))
    assert by_noise == {sigma: pytest.approx(1 if sigma >= 1 else -1) for sigma in net_locality.SIGMAS}


def test_a_missing_net_is_named(capsys):
    with pytest.raises(SystemExit):
        net_locality.main(["exp9"])
    assert "exp9" in capsys.readouterr().err


def test_rows_of_other_weights_are_refused():
    with pytest.raises(ValueError, match="net_locality exp1"):
        net_locality.current(
            [net_locality.LocalityRow("exp1", "0" * 12, 5, 0, 1.0, 1.0, 1.0, 1.0, 1.0)], ["exp1"]
        )


def test_the_twin_field_has_the_images_correlation():
    at = torch.cartesian_prod(torch.arange(6), torch.arange(6)).double()
    p = gaussian(torch.zeros(36), 0.04 * torch.exp(-torch.cdist(at, at) / 3.0))
    twin, length = locality_rates.gaussian_twin(
        p.sample(4000, torch.Generator().manual_seed(0)).reshape(-1, 6, 6)
    )
    assert length == pytest.approx(3.0, rel=0.1)
    torch.testing.assert_close(twin.cov, p.cov, atol=0.004, rtol=0)


def test_locality_along_training_keeps_whole_stages_in_order(monkeypatch):
    share = {"exp1@300": 0.4, "exp1@20": 0.2, "exp1_seed1@50": 0.9}

    def made(net, value, sigmas):
        return [
            net_locality.LocalityRow(
                net, "0" * 12, 5, image, sigma, 9.0, 0.1, value if sigma >= locality_rates.HIGH else 0.0, 1.0
            )
            for sigma in sigmas
            for image in range(net_locality.IMAGES)
        ]

    monkeypatch.setattr(nets, "images_seen", lambda name, preset: int(name.partition("@")[2] or 900))
    rows = [row for net, value in share.items() for row in made(net, value, net_locality.SIGMAS)]
    rows += made("exp1@40", 0.7, net_locality.SIGMAS[:-1]) + made(
        "exp1", 0.6, net_locality.SIGMAS
    )  # @40 was stopped
    found = locality_rates.along_training(rows, "exp1")
    assert [(images, round(value.value, 3)) for images, value in found.items()] == [
        (20, 0.2),
        (300, 0.4),
        (900, 0.6),
    ]


def test_chance_is_what_a_window_alone_gives():
    """Of five conditions, no two within two cells: a window of two hears one label, the whole image all of
    them.
    """
    assert locality_rates.chance_locality(1) == locality_rates.chance_locality(2) == 1
    assert locality_rates.chance_locality(15) == locality_rates.chance_locality(None) < 0.25
    assert 0.7 < locality_rates.chance_locality(3) < 0.75


def test_a_window_is_that_of_the_net_of_its_preset(tmp_path, monkeypatch):
    """A name that two presets share: local in one of them."""
    monkeypatch.setattr(paths, "CHECKPOINTS", tmp_path)
    for size, radius in {"tiny": None, "small": 2}.items():
        row = {"experiment": "mine", "preset": size, "objects": [1, 3], "labels": "single", "radius": radius}
        store.write_json(tmp_path / size / "mine" / "row.json", row)
    flat = dict.fromkeys(net_locality.SIGMAS, Interval(0.5, 0.4, 0.6))
    for size, radius in {"tiny": None, "small": 2}.items():
        curves = {"mine": {"window": flat, "within_2": flat}}
        panel = locality_rates.plot_against_noise(curves, {"mine": "mine"}, preset=size).axes[1]
        assert panel.lines[-1].get_ydata()[0] == locality_rates.chance_locality(radius)


def test_every_net_of_the_tables_has_a_point_of_its_own():
    """Color and words tell all trained nets apart; other seeds are gray."""
    points = {net: locality_figures.point_style(net) for net in locality_figures.KNOWN}
    assert len(set(points.values())) == len(points)
    assert all(point.kind in locality_figures.COLOR_OF and point.words for point in points.values())
    assert points["exp3_r2"].words == "1-3, r = 2" and points["exp1_1-6_x3"].words == "1-6, longer"
    seed = locality_figures.point_style("exp2_seed1")
    assert (seed.color, seed.words) == (locality_figures.SEED, "")


@pytest.mark.parametrize("net", ["mine", "2-4 objects", "exp1/unit", "background_empty", "color_1-3"])
def test_a_net_of_ones_own_has_a_neutral_point_and_its_name(net):
    point = locality_figures.point_style(net)
    assert (point.color, point.marker, point.words) == (locality_figures.NEUTRAL, "D", net)


def thesis(locality):
    def at(value):
        return Interval(value, value, value)

    filled = {net: at(min(1.0, 1.2 * value)) for net, value in locality.items()}
    k = {"K": {net: round(10 * value) for net, value in locality.items()}}
    return locality_rates.AgainstK(
        {net: at(value) for net, value in locality.items()}, dict.fromkeys(locality, 0.24), filled, k
    )


def test_the_thesis_is_drawn_with_its_correlation_and_every_name(monkeypatch):
    monkeypatch.setitem(EXPERIMENTS, "mine", Experiment("mine", objects=(2, 4), labels="random"))
    found = thesis({"exp1": 0.6, "exp1_seed1": 0.55, "exp2": 0.3, "mine": 0.45, "exp3": 0.8})
    figure = locality_figures.plot_against_k(found, {"cells filled": 0.93, "K": 0.58})
    axes = figure.axes[0]
    assert axes.get_title().startswith(
        "Locality and composition at 32 px:\nrank correlation 0.93 over 4 trainings"
    )
    words = [text.get_text() for text in axes.texts]
    assert words.count("1-3") == 3 and "mine" in words and "exp1_seed1" not in words
    drawn = sorted(line.get_xdata()[0] for line in axes.lines if line.get_marker() not in ("", "None", None))
    assert drawn == pytest.approx([0.3, 0.45, 0.55, 0.6, 0.8])
    falling = locality_figures.plot_against_k(found, {"cells filled": -0.5}).axes[0].get_title()
    assert falling.startswith("Locality and composition at 32 px:") and "-0.50" in falling


def test_local_nets_are_not_ranked_among_the_others():
    def at(value):
        return Interval(value, value, value)

    nets = {"exp1": 0.6, "exp2": 0.3, "drop_one_1-3": 0.4, "exp3": 0.8}
    share = {"exp1": at(0.9), "exp2": at(0.2), "drop_one_1-3": at(0.5), "exp3": at(0.1)}
    found = locality_rates.AgainstK({n: at(v) for n, v in nets.items()}, dict.fromkeys(nets, 0.2), share, {})
    assert found.rank_correlations() == {"cells filled": pytest.approx(1)}  # with exp3 it would be -0.2


def test_a_rule_by_which_all_have_the_same_k_ranks_nothing():
    found = thesis({"exp1": 0.6, "exp2": 0.3, "drop_one_1-3": 0.4, "exp1_1": 0.5})
    found = found._replace(k={"K": dict.fromkeys(found.locality, 0)})
    assert set(found.rank_correlations()) == {"cells filled"}
