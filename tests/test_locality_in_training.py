"""Conditional locality within training: the estimator of `net_locality` at other K, chance, what is said."""

import pytest
import torch
from torch.nn import functional as F

from lcs_utils import checkpoints, nets, stats, store
from lcs_utils.clevr.conditions import GRID_SIZE, test_condition
from lcs_utils.evaluation.locality import locality_in_training as within
from lcs_utils.evaluation.locality import locality_rates, net_locality
from lcs_utils.models.focus import FocusedDenoiser
from lcs_utils.stats import Interval


def hears(share_elsewhere):
    """A denoiser of 32 px that draws each label in its cell, and `share_elsewhere` of it at all others."""

    def denoise(x_t, sigma, cond):
        told = cond.reshape(-1, 1, GRID_SIZE, GRID_SIZE)
        all_alike = told.sum((2, 3), keepdim=True) * (test_condition(5).reshape(1, 1, GRID_SIZE, -1) > 0)
        drawn = (1 - share_elsewhere) * told + share_elsewhere * all_alike
        return 0.5 * x_t + F.interpolate(drawn, scale_factor=2)

    return denoise


@pytest.fixture()
def few(monkeypatch):
    """Two noise levels, two images."""
    for module in (within, net_locality):
        monkeypatch.setattr(module, "SIGMAS", (0.5, 2.0))
        monkeypatch.setattr(module, "IMAGES", 2)


@pytest.mark.parametrize("k", [2, 3, 5])
def test_a_net_that_hears_all_alike_is_at_chance_and_a_local_one_is_local(k, few):
    for elsewhere, expected in ((0.0, 1.0), (1.0, 1 / k)):
        rows = list(within.net_rows("net", hears(elsewhere), 32, "w", k))
        assert {(row.k, row.image, row.sigma) for row in rows} == {
            (k, i, s) for i in (0, 1) for s in (0.5, 2.0)
        }
        assert [row.within_2 for row in rows] == pytest.approx([expected] * 4, abs=1e-4)


@pytest.mark.parametrize("k", [2, 3])
def test_chance_is_that_of_a_net_that_hears_every_label_at_every_pixel(k, few):
    def denoise(x_t, sigma, cond):
        return 0.5 * x_t + cond.sum(1)[:, None, None, None]

    (share,) = {row.within_2 for row in within.net_rows("net", denoise, 32, "w", k)}
    assert share == pytest.approx(locality_rates.chance_locality(None, k=k), abs=1e-4)


def test_at_five_labels_the_shipped_net_has_the_share_stored_by_net_locality():
    """Images, noise and estimator are the same: one image at one level, from the weights."""
    denoise = checkpoints.load("exp1").denoiser
    weights = nets.row("exp1")["sha256"][:12]
    (stored,) = [
        row
        for row in net_locality.read()
        if (row.net, row.weights, row.image, row.sigma) == ("exp1", weights, 0, net_locality.SIGMAS[0])
    ]
    first = next(within.net_rows("exp1", denoise, 32, weights, net_locality.K))
    assert (first.image, first.sigma) == (0, stored.sigma)
    assert first.within_2 == pytest.approx(stored.within_2, abs=0.01)


def test_a_local_net_is_run_only_where_pixels_count_and_its_share_is_the_same(monkeypatch, few):
    monkeypatch.setattr(within, "SIGMAS", (2.0,))
    monkeypatch.setattr(within, "IMAGES", 1)
    denoise, ran = checkpoints.load("exp3").denoiser, []

    def spy(self, *args, real=FocusedDenoiser.__call__):
        ran.append(len(self.cells))
        return real(self, *args)

    monkeypatch.setattr(FocusedDenoiser, "__call__", spy)
    (row,) = within.net_rows("exp3", denoise, 32, "w", 2)
    assert ran and max(ran) <= 2 * 25
    monkeypatch.setattr(within, "focus", lambda denoise, *_: denoise)
    (whole,) = within.net_rows("exp3", denoise, 32, "w", 2)
    assert row.within_2 == pytest.approx(whole.within_2, abs=1e-4) and len(ran) == 1


def test_cells_around_stop_at_the_border():
    assert within.cells_around([0]) == [0, 1, 2, 16, 17, 18, 32, 33, 34]
    assert len(within.cells_around([8 * 16 + 8, 8 * 16 + 9])) == 30


def test_only_nets_shown_that_many_objects_are_measured(tmp_path, monkeypatch):
    monkeypatch.setattr(within, "path", lambda preset: tmp_path / "rows.csv.bz2")
    for net in ("exp1_1", "color_1-3"):
        with pytest.raises(ValueError, match=f"{net} was not trained on 2 to 3 objects"):
            within.measure(net)


def test_rows_are_stored_once_and_those_of_other_weights_refused(tmp_path, monkeypatch, few):
    monkeypatch.setattr(within, "path", lambda preset: tmp_path / "rows.csv.bz2")
    monkeypatch.setattr(within.changes, "denoiser", lambda *_: (hears(0.2), 32))
    with pytest.raises(ValueError, match="locality_in_training exp1 --preset tiny"):
        within.current("exp1")
    within.measure("exp1")
    found = within.current("exp1")
    assert {k: len(rows) for k, rows in found.items()} == {2: 4, 3: 4}
    monkeypatch.setattr(within.changes, "denoiser", None)  # a second time nothing is loaded
    within.measure("exp1")
    rows = [row._replace(weights="others") for row in within.read()]
    store.write_rows(within.path("tiny"), within.COMMAND, within.InTrainingRow, rows)
    with pytest.raises(ValueError, match="locality_in_training exp1 --preset tiny"):
        within.current("exp1")


def made(one, two):
    """Exps. 1 and 2 with these shares at K = 2 and 3 (each +- 0.01), chance .5 and .33."""

    def of(net, shares):
        each = {k: Interval(share, share - 0.01, share + 0.01) for k, share in zip((2, 3), shares)}
        return within.Heard(net, "tiny", each | {5: Interval(0.4, 0.3, 0.5)}, {2: 0.5, 3: 0.33, 5: 0.24})

    return [of("exp1", one), of("exp2", two)]


@pytest.mark.parametrize(
    ("one", "two", "verdict"),
    [
        ((0.9, 0.8), (0.5, 0.3), "exists"),
        ((0.9, 0.31), (0.5, 0.3), "exists at some K"),
        ((0.45, 0.31), (0.3, 0.2), "does not exist"),  # apart, and both below chance
        ((0.9, 0.8), (0.89, 0.85), "does not exist"),
    ],
)
def test_the_contrast_is_said_by_intervals_and_chance(one, two, verdict):
    said = within.sentence(made(one, two))
    assert f"**Within training the contrast {verdict}**, at 32 px: Exp. 1 against Exp. 2 has" in said
    assert f"{one[0]:.2f} against {two[0]:.2f} at K = 2 (chance 0.50) and {one[1]:.2f} against" in said
    assert "| Exp. 2, 32 px |" in said and "K = 3, within training | K = 5, beyond training" in said


def test_all_shipped_nets_have_rows_of_their_weights_and_stand_beside_five_labels():
    found = within.shipped()
    assert [(each.preset, each.net) for each in found] == [
        (preset, net) for preset, names in within.SHIPPED.items() for net in names
    ]
    for each in found:
        assert list(each.share) == [2, 3, 5] and nets.folder(each.net, each.preset).exists()
        rows = net_locality.current(net_locality.read(each.preset), [each.net], each.preset)[each.net]
        assert each.share[5] == locality_rates.at_high_noise(rows)
        assert all(isinstance(of, stats.Interval) and 0 < of.low <= 1 for of in each.share.values())
    weights = {(p, n) for p, names in within.SHIPPED.items() for n in names}
    with_weights = {
        (path.parent.parent.parent.name, path.parent.parent.name)
        for path in checkpoints.paths.CHECKPOINTS.glob("*/exp*/net/diffusion_pytorch_model.safetensors")
    }
    three = {
        (p, n) for p, n in with_weights if p in ("tiny", "medium") and nets.trained(n, p).objects == (1, 3)
    }
    assert weights == three


@pytest.mark.parametrize("module", [net_locality, within])
def test_each_image_has_a_noise_of_its_own_scaled_to_every_level(module, few, monkeypatch):
    """So that a level is what its row says, and images are not more alike than images are."""
    images, seen = torch.full((2, 3, 32, 32), 0.2), []
    images[1] = -0.3
    monkeypatch.setattr(within, "test_scenes", lambda *_: images)

    def denoise(x_t, sigma, cond):
        seen.append((float(sigma[0]), x_t[0].detach()))
        return hears(0.2)(x_t, sigma, cond)

    given = images if module is net_locality else 32
    rows = list(module.net_rows("net", denoise, given, "w", 2, seed=3))
    noise = [torch.randn(3, 32, 32, generator=torch.Generator().manual_seed(3000 + i)) for i in (0, 1)]
    wanted = {(s, i): images[i] + s * noise[i] for i in (0, 1) for s in (0.5, 2.0)}
    found = [{at for at, x in wanted.items() if at[0] == s and torch.allclose(x, x_t)} for s, x_t in seen]
    assert all(map(len, found)) and set().union(*found) == set(wanted)
    assert [(row.sigma, row.image) for row in rows] == list(wanted)


@pytest.mark.parametrize("module", [net_locality, within])
def test_a_net_that_is_measured_again_replaces_its_own_rows_alone(module, few, tmp_path, monkeypatch):
    weights = {"exp1": "old", "exp2": "other"}
    monkeypatch.setattr(module, "path", lambda preset="tiny": tmp_path / "rows.csv.bz2")
    monkeypatch.setattr(module.changes, "denoiser", lambda *_: (hears(0.2), 32))
    monkeypatch.setattr(module.changes, "weights", lambda net, preset: weights[net])
    for net in weights:
        module.measure(net)
    before = module.read()
    weights["exp1"] = "new"
    module.measure("exp1")
    after = module.read()
    assert {(row.net, row.weights) for row in after} == {("exp1", "new"), ("exp2", "other")}
    assert [r for r in after if r.net == "exp2"] == [r for r in before if r.net == "exp2"] != []
    assert len(after) == len(before)
