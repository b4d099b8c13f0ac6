"""PNGs as small as they can be without a visible change: figures and notebooks travel with the repository."""

import io

import numpy as np
from PIL import Image, PngImagePlugin

from lcs_utils.checks import check_kind

# Mean change over the picture, in gray levels of 255. Lines and text stay far below; photographs do not, and
# keep all their colors.
UNSEEN = 0.3


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
    few = full.quantize(256, method=Image.Quantize.MEDIANCUT, dither=Image.Dither.NONE)
    change = np.abs(np.asarray(few.convert("RGB"), np.int16) - np.asarray(full, np.int16))
    written = io.BytesIO()
    kept = few if change.mean() < UNSEEN else full
    kept.save(written, "PNG", optimize=True, pnginfo=about, dpi=picture.info.get("dpi", (100, 100)))
    return written.getvalue()
