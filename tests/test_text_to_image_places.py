"""Where places look while a prompt is drawn: eq. (9) at the sampler's states, its squares, what is said."""

from dataclasses import replace

import pytest
import torch
from matplotlib import pyplot as plt
from matplotlib.patches import Rectangle
from tiny_standin import TINY

from lcs_utils import locality
from lcs_utils.text_to_image import adapter, places, prompts, report, row_figures, standin, truth

STUDY = replace(prompts.SMALL, steps=3, at=(1, 3), guidance=2.0)
TEXT = "a red cube"


@pytest.fixture(scope="module")
def denoiser():
    """A picture that is wider than high."""
    return adapter.PromptDenoiser(standin.untrained(TINY), 16, 24)


@pytest.fixture(scope="module")
def other():
    return adapter.PromptDenoiser(standin.untrained(TINY, 1), 16, 24)


def test_the_untrained_net_is_where_the_trained_one_is():
    assert places.bare(STUDY, device="meta").pipeline.unet.device.type == "meta"


def test_targets_are_the_middles_of_equal_parts():
    assert places.grid_targets(16, 16) == [(4, 4), (4, 12), (12, 4), (12, 12)]
    assert places.grid_targets(128, 128) == [(32, 32), (32, 96), (96, 32), (96, 96)]  # SDXL
    assert places.grid_targets(9, 12, 3)[::4] == [(1, 2), (4, 6), (7, 10)]
    with pytest.raises(ValueError, match="each"):
        places.grid_targets(16, 16, 4)


def test_a_place_s_map_is_eq_9_at_the_sampler_s_state_before_each_step_asked(denoiser, other, monkeypatch):
    """And SDXL fits: one target at a time, blocks recomputed, and the net is left as it was."""
    asked, unet = [], denoiser.pipeline.unet

    def spy(net, x_t, sigma, cond, targets, chunk=None, real=locality.pixel_influence):
        pipeline = getattr(net, "__self__", net).pipeline
        asked.append((chunk, pipeline.unet.is_gradient_checkpointing, x_t.dtype))
        return real(net, x_t, sigma, cond, targets, chunk=chunk)

    monkeypatch.setattr(places.locality, "pixel_influence", spy)
    latents, found = places.looks(denoiser, STUDY, TEXT, 5, other)
    monkeypatch.undo()
    assert asked == [(1, True, torch.float32)] * 4 and not unet.is_gradient_checkpointing
    states = list(prompts.sampling(denoiser, TEXT, 3, 2.0, 1, 5))
    assert torch.equal(latents, states[-1].x_t[0]) and len(found) == 2
    targets = places.grid_targets(*denoiser.latent_shape[1:])
    for moment, state in zip(found, (states[0], states[2]), strict=True):
        assert moment.sigma == state.sigma
        for net, sides in ((denoiser, moment.sides), (other, moment.untrained)):
            asked = net.noise if net is other else net  # an untrained net's D holds its x_t
            maps = locality.pixel_influence(asked, state.x_t[0], state.sigma, net.condition(TEXT), targets)
            assert sides == locality.locality_window(maps, targets).tolist()
            if net is denoiser:
                torch.testing.assert_close(moment.maps, maps)
    assert places.looks(denoiser, STUDY, TEXT, 5)[1][0].untrained == []


def test_a_net_that_recomputes_already_keeps_doing_so(other):
    unet = other.pipeline.unet
    unet.enable_gradient_checkpointing()
    with places.checkpointed(unet):
        pass
    assert unet.is_gradient_checkpointing
    unet.disable_gradient_checkpointing()


def test_a_half_precision_net_has_the_same_maps(denoiser):
    half = adapter.PromptDenoiser(standin.untrained(TINY), 16, 24)
    half.pipeline.unet.to(torch.bfloat16)
    x_t = torch.randn(denoiser.latent_shape, generator=torch.Generator().manual_seed(0))
    targets = places.grid_targets(*denoiser.latent_shape[1:])
    for state in (x_t, x_t.bfloat16()):
        one, two = (places.influence(net, state, 1.0, TEXT, targets) for net in (denoiser, half))
        assert two.dtype == torch.float32 and float((one - two).abs().max()) < 0.02 * float(one.max())


def looked(sides, untrained=()):
    """Two noise levels of four maps of 16 x 16 latents."""
    maps = torch.rand(4, 16, 16, generator=torch.Generator().manual_seed(0))
    return [places.Looked(sigma, maps, sides, list(untrained)) for sigma in (9.0, 0.5)]


def test_squares_are_said_beside_all_alike_and_an_untrained_net():
    found = [(None, looked([3, 5, 7, 9], [5, 5, 5, 5])), (None, looked([1, 1, 1, 25], [9, 9, 9, 9]))]
    said = places.numbers(["one", "two"], found)
    assert said["prompts"]["two"]["0.5"] == {"side": [1, 1, 1, 25], "untrained": [9, 9, 9, 9]}
    assert said["all latents alike"] == 23.5 and said["targets"][1] == (4, 12)
    words = places.words(said)
    assert "| this model, mean (least to most) of 8 | 6.5 (1 to 25) | 6.5 (1 to 25) |" in words
    assert "| before any training, the same states | 7.0 (5 to 9) | 7.0 (5 to 9) |" in words
    assert "than one that depends on all latents alike at no noise level." in words
    assert "farther than before any training at no noise level." in words
    words = places.words(places.numbers(["one"], found[:1]))
    assert "alike at σ = 9, 0.5." in words and "before any training at σ = 9, 0.5." in words
    words = places.words(places.numbers(["one"], [(None, looked([3, 5, 7, 9]))]))
    assert "training" not in words  # SDXL: no untrained net


def test_all_alike_is_the_square_that_holds_nine_tenths_of_the_latents():
    """A square of side s around (4, 4) of 16 x 16 covers (4 + (s + 1) / 2)^2 latents: 23 for 256."""
    assert places.side_of_all_alike([(4, 4)], 16, 16) == 23


def test_the_picture_marks_targets_and_every_map_its_square(denoiser):
    maps = torch.rand(4, 8, 12, generator=torch.Generator().manual_seed(0))
    found = [places.Looked(s, maps, [1, 3, 5, 7], null) for s, null in ((9.0, [9] * 4), (0.5, [7] * 4))]
    latents = torch.zeros(denoiser.latent_shape)
    figure = places.plot_looks(denoiser, TEXT, latents, found)
    picture, *panels = figure.axes[:9]
    targets = places.grid_targets(8, 12)
    dots = [line.get_xydata()[0].tolist() for line in picture.lines]
    assert dots == [[column, row] for row, column in targets]
    for k, axes in enumerate(panels):
        (square,) = [patch for patch in axes.patches if isinstance(patch, Rectangle)]
        side, (row, column) = found[0].sides[k % 4], targets[k % 4]
        assert square.get_width() == square.get_height() == side
        assert (square.get_x() + side / 2, square.get_y() + side / 2) == (column, row)
        assert axes.get_title().splitlines()[-1] == f"{side} ({9 if k < 4 else 7})"
        torch.testing.assert_close(
            torch.tensor(axes.images[0].get_array().data), maps[k % 4] / maps[k % 4].max()
        )
    assert [axes.get_ylabel() for axes in panels[::4]] == ["σ = 9", "σ = 0.5"]
    bare = places.plot_looks(denoiser, TEXT, latents, [of._replace(untrained=[]) for of in found])
    assert bare.axes[1].get_title() == "a\n1" and "training" not in bare.axes[9].texts[0].get_text()
    plt.close("all")


def test_one_figure_has_the_auc_above_and_the_own_part_below():
    rows = truth.read()
    settings = report.OF_ALL, report.NETS, report.CONTROLS, report.SIGMAS
    figure = row_figures.plot_words_at_objects(rows, *settings)
    above, below = figure.subfigs
    assert len(above.axes) == len(report.SIGMAS) and len(below.axes) == len(report.OF_ALL)
    assert {axes.get_xlabel() for axes in above.axes} == {"AUC"}
    for axes, case in zip(below.axes, report.OF_ALL, strict=True):
        for k, net in enumerate(report.NETS):
            own = [row_figures.one(rows, net, "own part", case, sigma=s).value for s in report.SIGMAS]
            assert axes.containers[k].lines[0].get_ydata().tolist() == own
        assert axes.lines[-1].get_ydata()[0] == 0.5
    assert below.axes[0].get_ylabel() == "own part\n(share per place)" and above.legends and below.legends
    plt.close("all")
