"""PNGs as small as they can be without a visible change: figures and notebooks travel with the repository."""

import io

import numpy as np
from jaxtyping import UInt8
from PIL import Image, PngImagePlugin

from lcs_utils.checks import check_kind

# Mean change over the picture, in gray levels of 255, and over any TILE x TILE pixels of it. Lines and text
# stay far below; photographs and scales of colors do not, even small ones on much white, and keep all colors.
UNSEEN, UNSEEN_ANYWHERE, TILE = 0.4, 16.5, 6


def compact(png: bytes) -> bytes:
    """The same picture with a palette of 256 colors where that changes nothing visible, without an alpha
    channel that hides nothing; the same bytes for the same picture.

    Metadata (`Description`) and resolution stay. Raises TypeError for what are no bytes, ValueError for no
    PNG.
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
    written, kept = io.BytesIO(), full
    for rounds in (0, 3):  # of k-means, which makes a better palette and takes longer
        few = full.quantize(256, Image.Quantize.MEDIANCUT, rounds, dither=Image.Dither.NONE)
        if unseen(np.asarray(few.convert("RGB")), np.asarray(full)):
            kept = few
            break
    kept.save(written, "PNG", optimize=True, pnginfo=about, dpi=picture.info.get("dpi", (100, 100)))
    return written.getvalue()


def unseen(one: UInt8[np.ndarray, "h w 3"], other: UInt8[np.ndarray, "h w 3"]) -> bool:
    """Whether nobody sees that two pictures differ: neither in the mean nor in any small part."""
    change = np.abs(one.astype(float) - other.astype(float)).max(-1)
    height, width = (-(-side // TILE) for side in change.shape)
    tiles = np.zeros((height * TILE, width * TILE))
    tiles[: change.shape[0], : change.shape[1]] = change
    largest = tiles.reshape(height, TILE, width, TILE).mean((1, 3)).max()
    return bool(change.mean() < UNSEEN and largest < UNSEEN_ANYWHERE)
