"""Shrink PNGs without a visible change: figures and notebooks are part of the repository."""

import io

import numpy as np
from jaxtyping import UInt8
from PIL import Image, PngImagePlugin

from lcs_utils.checks import check_kind

# The largest invisible change in levels of 255, averaged over any TILE x TILE pixels. White areas would
# dilute an average over all pixels: small photographs and color bars would lose their colors.
UNSEEN, TILE = 6.0, 6
# Choice: a picture without a palette is kept in steps of STEP levels: no pixel is more than one of 255 off,
# and the PNG is smaller by a sixth.
STEP = 3
# Methods of `Image.quantize` and rounds of k-means after them: for lines, and to keep rare colors.
PALETTES = ((Image.Quantize.MEDIANCUT, 0), (Image.Quantize.MEDIANCUT, 3), (Image.Quantize.MAXCOVERAGE, 3))


def compact(png: bytes) -> bytes:
    """The same picture with a palette of 256 colors where the change is invisible, else in steps of STEP,
    without an unused alpha channel; the same bytes for the same picture.

    Metadata (`Description`) and resolution are kept. Raises TypeError for anything but bytes, ValueError for
    anything but a PNG.
    """
    check_kind("png", png, bytes, "the bytes of a PNG")
    if not png.startswith(b"\x89PNG"):
        raise ValueError(f"these {len(png)} bytes are no PNG")
    picture = Image.open(io.BytesIO(png))
    if picture.mode == "P":
        return png
    about = PngImagePlugin.PngInfo()
    for key, value in picture.info.items():
        if isinstance(value, str):
            about.add_itxt(key, value)
    if "A" in picture.getbands() and picture.getchannel("A").getextrema()[0] < 255:
        return png  # something shows through
    full = picture.convert("RGB")
    coarse = Image.fromarray(in_steps(np.asarray(full)))
    # the coarse picture is tried too, so that a compact picture stays as it is
    kept = _few_colors(full) or _few_colors(coarse) or coarse
    written = io.BytesIO()
    kept.save(written, "PNG", optimize=True, pnginfo=about, dpi=picture.info.get("dpi", (100, 100)))
    return written.getvalue()


def in_steps(pixels: UInt8[np.ndarray, "h w 3"]) -> UInt8[np.ndarray, "h w 3"]:
    """The nearest multiples of STEP, of which 255 is one."""
    return ((pixels.astype(int) + STEP // 2) // STEP * STEP).astype(np.uint8)


def _few_colors(full: Image.Image) -> Image.Image | None:
    """The picture with a palette of 256 colors, if one of PALETTES changes it by less than UNSEEN."""
    for method, rounds in PALETTES:
        few = full.quantize(256, method, rounds, dither=Image.Dither.NONE)
        if change(np.asarray(few.convert("RGB")), np.asarray(full)) < UNSEEN:
            return few
    return None


def change(one: UInt8[np.ndarray, "h w 3"], other: UInt8[np.ndarray, "h w 3"]) -> float:
    """The mean difference of two pictures, in levels, over the TILE x TILE pixels where they differ most."""
    levels = np.abs(one.astype(float) - other.astype(float)).max(-1)
    height, width = (-(-side // TILE) for side in levels.shape)
    tiles = np.zeros((height * TILE, width * TILE))
    tiles[: levels.shape[0], : levels.shape[1]] = levels
    return float(tiles.reshape(height, TILE, width, TILE).mean((1, 3)).max())
