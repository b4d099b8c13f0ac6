"""The explorer's picture is a pure function of its state; clicks, slides, toggles change the state and
nothing else.
"""

import asyncio
import io
from concurrent.futures import ThreadPoolExecutor

import matplotlib
import numpy as np
import pytest
import torch
from PIL import Image

from lcs_utils import figures, widgets
from lcs_utils.clevr.conditions import GRID_SIZE
from lcs_utils.diffusion import expand
from lcs_utils.models.local_patch import LocalPatchDenoiser
from lcs_utils.models.unet import EDM2UNet
from lcs_utils.widgets import condition_grid, drawing, explorer, maps
from lcs_utils.widgets import explorer_picture as picture
from lcs_utils.widgets.condition_grid import ConditionSampler

CELLS = (17, 40, 200)


def local(x, sigma, cond):
    """Shrinks each pixel, and each active cell is darkened by its own condition: as local as can be."""
    dark = (
        cond.expand(len(x), -1)
        .reshape(-1, 1, GRID_SIZE, GRID_SIZE)
        .repeat_interleave(2, 2)
        .repeat_interleave(2, 3)
    )
    return x / (1 + expand(sigma, x) ** 2) - 0.5 * dark


def spread(x, sigma, cond):
    """Every pixel hears the mean of all pixels and all conditions alike."""
    return (
        x.mean((2, 3), keepdim=True).expand_as(x) - 0.1 * cond.expand(len(x), -1).sum(1)[:, None, None, None]
    )


@pytest.fixture(scope="module")
def both():
    return maps.Maps({"A: local": local, "B: spread": spread}, (0.1, 1.0, 10.0), 32)


def test_figs_2_and_12_name_nets_with_their_size(both):
    rows, labels, columns, _ = figures.fig02(both, maps.View(1, (2, 3), CELLS), (0, 2))
    assert labels == ["A\nlocal\n32 px", "B\nspread\n32 px"] and len(rows) == 2 and len(columns) == 6
    (of,) = figures.middle_profiles(spread, [torch.zeros(3, 32, 32)], (1.0,))
    _, labels, _ = figures.fig12({"centered": of}, {"centered": torch.ones(1, 1).numpy()})
    assert labels == ["centered, 32 px:\ndenoised", "pixel influence"]


def test_each_column_of_fig_10_says_how_strong_its_brightest_influence_is(both):
    figure, _ = figures.fig10(both, maps.View(1, (2, 3), CELLS), (0, 2))
    assert [text.get_text() for text in figure.texts] == [f"{net}, 32 px" for net in both.nets]
    titles = [axes.get_title() for axes in figure.axes if "max" in axes.get_title()]
    strongest = ("0.87", "0.17")  # a half and a tenth in each of three channels
    assert titles == [f"σ = {sigma}\nmax {most}" for most in strongest for sigma in (0.1, 10)]


def panels(both, view):
    return [both.panel(net, view) for net in both.nets]


def test_panels_hold_the_exact_maps(both):
    view = maps.View(1, (2, 3), CELLS)
    near, far = panels(both, view)
    assert (
        near.window == 1 and far.window > 32
    )  # a corner target: nine tenths of a flat map reach the far side
    assert maps.nearby_share(near, view) == 1.0 and maps.nearby_share(far, view) == pytest.approx(1 / 3)
    assert float(near.conditions[0].nonzero().float().mean(0)[0]) == 2.5  # cell 17: rows 2 and 3


def test_the_picture_is_a_pure_function_of_its_state(both):
    view = maps.View(1, (2, 3), CELLS)
    frame = picture.render(panels(both, view), view, 1.0)
    rows, columns = picture.layout(2, 32)
    assert frame.shape == (5 * rows, 5 * columns, 3) and frame.dtype == np.uint8
    np.testing.assert_array_equal(frame, picture.render(panels(both, view), view, 1.0))
    changes = {"noise": 2}, {"target": (20, 20)}, {"cells": CELLS[:2]}, {"seed": 1}
    for other in (view._replace(**change) for change in changes):
        assert (picture.render(panels(both, other), other, both.sigmas[other.noise]) != frame).any()
    empty = view._replace(cells=())
    assert picture.render(panels(both, empty), empty, 1.0).shape == frame.shape


def test_a_click_finds_its_pixel_in_every_panel():
    for i in range(2):
        for j in range(len(picture.COLUMNS)):
            top, left = i * 34, j * 34
            assert picture.locate(top, left, 2, 32) == (0, 0) and picture.locate(
                top + 31, left + 7, 2, 32
            ) == (
                31,
                7,
            )
            assert picture.locate(top + 32, left, 2, 32) is None
    assert picture.locate(-1, 0, 2, 32) is None and picture.locate(0, 33, 2, 32) is None
    assert picture.locate(*picture.layout(2, 32), 2, 32) is None


def test_a_local_net_is_asked_only_where_it_can_answer():
    torch.manual_seed(0)
    net = EDM2UNet(
        cond_dim=11, channels=8, channel_mult=[1], num_blocks=1, attention_levels=[], unshuffle=2
    ).eval()
    for parameter in net.parameters():  # gains start at 0, which would hear nothing
        parameter.data.add_(0.3 * (parameter.ndim == 0))
    denoise = LocalPatchDenoiser(net, radius=1)
    both = maps.Maps({"C: net": denoise}, (1.0,), 32)
    cells = (0, 18, 200)
    quick = both.conditions("C: net", 0, cells, 0)
    cond, x_t = both.grid(cells), both.noisy(0, cells, 0)
    from lcs_utils import locality

    torch.testing.assert_close(
        quick,
        locality.condition_influence(denoise, x_t, 1.0, cond, locality.without_each(cond)),
        atol=1e-6,
        rtol=1e-4,
    )
    assert float(quick.max()) > 0
    whole = locality.pixel_influence(denoise, x_t, 1.0, cond, [(5, 5)])
    torch.testing.assert_close(both.pixels("C: net", 0, cells, 0, (5, 5))[0], whole[0], atol=1e-7, rtol=1e-4)


class Box:
    """What a checkpoint's pipeline shows of itself."""

    def __init__(self, denoiser):
        self.denoiser, self.config = denoiser, type("Config", (), {"resolution": 32})
        self.net = EDM2UNet(channels=4, channel_mult=[1], num_blocks=1, attention_levels=[])


@pytest.fixture
def live(monkeypatch):
    nets = {"exp1": local, "exp2": spread}
    monkeypatch.setattr(explorer.checkpoints, "load", lambda name, preset: Box(nets[name]))
    return widgets.LocalityExplorer(("exp1", "exp2"), sigmas=(0.1, 2.0, 10.0), cells=CELLS, steps=3)


def test_slide_click_toggle_seed_and_reset_change_the_state(live):
    first, frame = live.view, live.picture.png
    assert first == maps.View(1, (11, 11), CELLS, 0)
    live.slider.value = 2
    assert live.view == first._replace(noise=2) and live.picture.png != frame
    live.picture.chosen = [8, 9, 1]
    assert live.view.target == (8, 9) and "target row 8, column 9" in live.picture.status
    live.picture.chosen = [32, 0, 2]  # between panels: nothing moves
    assert live.view.target == (8, 9)
    live.grid.chosen = [1, 1, 1]  # cell 17, active: goes
    assert live.view.cells == (40, 200)
    live.grid.chosen = [0, 3, 2]
    assert live.view.cells == (3, 40, 200) and live.grid.status == "3 conditions active"
    live.seed.value = 5
    assert live.view.seed == 5
    live.resetter.click()
    assert (
        live.view == first and live.picture.png == frame and live.slider.value == 1 and live.seed.value == 0
    )


def test_what_lies_under_the_cursor_is_said(live):
    live.picture.cursor = [34 + 8, 2 * 34 + 9]
    assert live.picture.here == "row 8, column 9, listens to pixels, Exp. 2"
    live.picture.cursor = [33, 0]
    assert live.picture.here == "between the panels"
    live.grid.cursor = [1, 1]
    assert live.grid.here == "row 1, column 1, active"
    live.grid.cursor = [1, 2]
    assert live.grid.here == "row 1, column 2, inactive"


def test_once_seen_the_other_noise_levels_are_computed_between_events(live):
    async def look():
        live.picture._handle_custom_msg({"seen": True}, [])
        while not live.filling.done():
            await asyncio.sleep(0.01)

    with ThreadPoolExecutor() as own:  # the browser tests leave a running loop in this thread
        own.submit(asyncio.run, look()).result()
    computed = live.maps.conditions.cache_info().misses
    for noise in range(3):
        live.show(live.view._replace(noise=noise))
    assert live.maps.conditions.cache_info().misses == computed == 6  # two nets, three levels


def test_maps_are_kept_up_to_a_number_of_bytes_whatever_their_size():
    for side, floats in ((32, 4 * 32**2), (128, 4 * 128**2)):
        of = maps.Maps({}, (1.0,), side)
        sizes = {
            of.scene: 3,
            of.noisy: 3,
            of.denoised: 3,
            of.pixels: 1,
            of.conditions: 12,
            of.one_condition: 1,
        }
        for cache, images in sizes.items():
            bound = cache.cache_info().maxsize * images * floats
            assert maps.KEPT / 2 < bound <= maps.KEPT


def test_samples_come_from_this_condition_and_go_with_it(live):
    live.sampler.click()
    assert set(live.samples) == {"Exp. 1: all labels", "Exp. 2: one label"} and live.progress.value == 6
    assert not live.sampler.disabled and not live.progress.visible
    live.slider.value = 0
    assert live.samples
    live.grid.chosen = [5, 5, 1]
    assert not live.samples


def test_the_explorer_is_a_widget_a_picture_and_words(live):
    bundle, metadata = live._repr_mimebundle_()
    assert metadata["image/png"]["alt"] == bundle["text/plain"]
    assert "application/vnd.jupyter.widget-view+json" in bundle
    np.testing.assert_array_equal(np.asarray(Image.open(io.BytesIO(bundle["image/png"]))), live.frame)
    assert bundle["text/plain"].startswith("noise level 2, target row 11")
    assert live.picture.label and live.grid.label and live.sampler.tooltip


def test_the_sampler_counts_what_it_draws():
    def counter(images):
        from lcs_utils.counter.net import Counts

        dark = images[0, 0] < -0.25
        center = dark.nonzero().float().mean(0).flip(0)[None, None] / 32
        one = torch.ones(1)
        return Counts(torch.tensor([1]), center, dark.reshape(1, -1), one, one)

    live = ConditionSampler({"A": local}, counter, k=1, steps=2)
    (cell,) = live.cells
    live.sampler.click()
    image, centers, count = live.drawn["A"]
    assert (count, live.text) == (1, "A: asked for 1, counted 1")
    assert centers[0] == pytest.approx(((cell % 16 + 0.25) / 16, (cell // 16 + 0.25) / 16), abs=0.02)
    live.canvases["A"].chosen = [0, 0, 1]
    assert live.cells == (0, cell) and not live.drawn and live.text == "A: asked for 2, press Sample"
    live.sampler.click()
    live.seed.value += 1  # samples of another seed
    assert not live.drawn and live.text == "A: asked for 2, press Sample"
    live.clearer.click()
    assert live.cells == ()
    named = ConditionSampler({"r < 3 <i>": local}, counter, k=1, steps=2)
    assert "<b>r &lt; 3 &lt;i&gt;: asked for 1, press Sample</b>" == named.captions["r < 3 <i>"].value
    with pytest.raises(ValueError, match="256"):
        live.set_cells((256,))
    assert "image/png" in live._repr_mimebundle_()[0]


def test_without_a_kernel_every_grid_of_the_sampler_has_its_words_above():
    nets = {"A": local, "B": local}
    live = ConditionSampler(nets, lambda images: pytest.fail("nothing is sampled"), k=1, steps=2)
    shown = np.asarray(Image.open(io.BytesIO(live._repr_mimebundle_()[0]["image/png"])))
    height, width = live.frames[0].shape[:2]
    head = shown[: shown.shape[0] - height]
    for left, frame in zip((0, shown.shape[1] - width), live.frames, strict=True):
        np.testing.assert_array_equal(shown[-height:, left : left + width], frame)
        inked = np.argwhere(head[:, left : left + width].min(-1) < 128)
        assert len(inked) > 100 and inked[:, 1].max() < width - 10, "words, and room for them"
    one, two = (condition_grid.titled([frame], [said]) for frame, said in zip(live.frames, live.words))
    np.testing.assert_array_equal(shown[:, :width], one)
    np.testing.assert_array_equal(shown[:, -width:], two)
    assert live.words == ["A: asked for 1, press Sample", "B: asked for 1, press Sample"]
    assert (one != two).any(), "each its own words"


def test_heat_and_mix_at_their_ends():
    influence = np.array([[0.0, 1.0], [0.25, 4.0]])
    colors = drawing.heat(influence)
    assert tuple(colors[0, 0]) == (0, 0, 4) and colors[1, 1].sum() > colors[0, 1].sum() > colors[1, 0].sum()
    assert not drawing.heat(0 * influence)[..., 0].any()
    middle = np.array(matplotlib.colormaps["inferno"](127)[:3]) * 255
    assert np.allclose(drawing.heat(np.array([[1.0, 4.0]]))[0, 0], middle, atol=0.6)  # the root of a quarter
    mixed = drawing.mix(np.stack([influence, 0 * influence]))
    assert tuple(mixed[1, 1]) == drawing.CONDITION_COLORS[0] and not mixed[0, 0].any()
    assert not drawing.mix(np.zeros((0, 2, 2))).any()


# Machado, Oliveira, Fernandes (2009): linear RGB as seen without red, green or blue cones.
EYES = {
    "all cones": np.eye(3),
    "no red": [[0.152, 1.053, -0.205], [0.115, 0.786, 0.099], [-0.004, -0.048, 1.052]],
    "no green": [[0.367, 0.861, -0.228], [0.280, 0.673, 0.047], [-0.012, 0.043, 0.969]],
    "no blue": [[1.256, -0.077, -0.179], [-0.078, 0.931, 0.148], [0.005, 0.691, 0.304]],
}


def nearest_colors(colors):
    """The smallest CIELAB distance (1976) between two of `colors` (sRGB, 0..255) that any of `EYES` sees."""
    share = np.asarray(colors) / 255
    linear = np.where(share <= 0.04045, share / 12.92, ((share + 0.055) / 1.055) ** 2.4)
    to_xyz = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])
    found = []
    for eye in EYES.values():
        xyz = np.clip(linear @ np.array(eye).T, 0, 1) @ to_xyz.T / to_xyz.sum(1)
        f = np.where(xyz > 0.008856, np.cbrt(xyz), 7.787 * xyz + 16 / 116)
        lab = np.stack([116 * f[:, 1] - 16, 500 * (f[:, 0] - f[:, 1]), 200 * (f[:, 1] - f[:, 2])], 1)
        distance = np.linalg.norm(lab[:, None] - lab, axis=-1)
        found.append(distance[np.triu_indices(len(colors), 1)].min())
    return min(found)


def test_twelve_conditions_have_colors_that_every_eye_tells_apart():
    assert nearest_colors([drawing.color_of(k) for k in range(12)]) > 15
    assert nearest_colors([drawing.color_of(k) for k in range(13)]) == 0  # the 13th has its number only
    red_and_green = [(200, 0, 0), (115, 105, 0)]
    assert nearest_colors(red_and_green) < 15, "the eye without red or green cones sees one color"


def test_conditions_are_numbered_beside_their_discs_and_in_the_grid():
    view = maps.View(0, (2, 3), (0, 17, 255))
    assert picture.grid_marks(view.cells)[1] == (1.5, 1.5, "2")
    numbers = picture.marks(2, view, 32)
    assert [number for *_, number in numbers] == ["1", "2", "3"] * 2
    rows, columns = picture.layout(2, 32)
    for row, column, _ in numbers:
        assert picture.CONDITIONS == column // 34 and 0 < row < rows and column < columns
    assert picture.locate(*(int(v) for v in numbers[4][:2]), 2, 32) is not None


def test_the_sampler_carries_no_color():
    from lcs_utils.widgets.condition_grid import render

    frame = render((3, 40, 200), None, []).astype(int)
    assert np.ptp(frame, axis=2).max() == 0 and frame.std() > 10
