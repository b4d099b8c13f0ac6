"""Small PNGs: lines get a palette, photographs keep every pixel to one level, words stay."""

import io

import numpy as np
import pytest
from matplotlib import pyplot as plt
from PIL import Image, PngImagePlugin

from lcs_utils import plotting
from lcs_utils.compact_png import STEP, UNSEEN, change, compact


def png(array, **options):
    written = io.BytesIO()
    Image.fromarray(array).save(written, "PNG", **options)
    return written.getvalue()


def pixels(data):
    return np.asarray(Image.open(io.BytesIO(data)).convert("RGB"), int)


def test_lines_get_a_palette_and_photographs_keep_every_pixel_to_one_level():
    plotting.use_style()
    figure, axes = plt.subplots()
    axes.plot([1, 3, 2])
    drawn = io.BytesIO()
    figure.savefig(drawn, metadata={"Description": "a line"})
    small = compact(drawn.getvalue())
    assert len(small) < len(drawn.getvalue()) / 2 and Image.open(io.BytesIO(small)).mode == "P"
    assert change(pixels(small), pixels(drawn.getvalue())) < UNSEEN
    assert Image.open(io.BytesIO(small)).info["Description"] == "a line"
    assert compact(drawn.getvalue()) == small == compact(small)
    noise = np.random.default_rng(0).integers(0, 256, (40, 40, 3), dtype=np.uint8)
    small = compact(png(noise))
    assert np.abs(pixels(small) - noise).max() == STEP // 2 == 1 and compact(small) == small
    grainy = (np.mgrid[:128, :128].sum(0)[..., None] * 0.7 + noise[:1, :1] / 9).astype(np.uint8)
    grainy = grainy + np.random.default_rng(1).integers(0, 3, grainy.shape, dtype=np.uint8)
    assert len(compact(png(grainy))) < 0.8 * len(png(grainy, optimize=True))
    assert (pixels(compact(png(noise // STEP * STEP))) == noise // STEP * STEP).all()


def test_a_small_photograph_on_white_keeps_its_colors():
    page = np.full((400, 600, 3), 255, np.uint8)
    page[20:60, 20:60] = np.random.default_rng(0).integers(0, 256, (40, 40, 3))  # 0.7% of the page
    few = np.asarray(Image.fromarray(page).quantize(256, Image.Quantize.MEDIANCUT, dither=0).convert("RGB"))
    assert (
        np.abs(few.astype(int) - page).mean() < 0.3 and change(few, page) > UNSEEN
    )  # a mean would not see it
    assert np.abs(pixels(compact(png(page))) - page).max() == STEP // 2 == 1
    near = page.copy()
    near[::7, ::7] ^= 3
    assert change(near, page) < UNSEEN


def test_a_scale_of_colors_beside_lines_gets_a_palette_that_keeps_it():
    plotting.use_style()
    figure, axes = plt.subplots(figsize=(6, 4))
    for i in range(40):
        axes.plot([0, 1], [i, 40 - i], alpha=0.5)
    figure.colorbar(axes.imshow(np.random.default_rng(0).random((9, 9)), "inferno", extent=(0, 1, 0, 40)))
    drawn = io.BytesIO()
    figure.savefig(drawn)
    small = compact(drawn.getvalue())
    assert change(pixels(small), pixels(drawn.getvalue())) < UNSEEN


def test_what_shows_through_stays_and_other_files_are_named():
    glass = np.full((4, 4, 4), 100, np.uint8)
    assert compact(png(glass)) == png(glass)
    about = PngImagePlugin.PngInfo()
    about.add_text("k", "[1]")
    assert Image.open(io.BytesIO(compact(png(glass[..., :3], pnginfo=about)))).info["k"] == "[1]"
    with pytest.raises(ValueError, match="6 bytes are no PNG"):
        compact(b"GIF89a")
    with pytest.raises(TypeError, match="the bytes of a PNG"):
        compact("x")
