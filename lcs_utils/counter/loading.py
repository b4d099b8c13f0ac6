"""Load the counter for an image size. The net, and diffusers with it, is imported only then, so that code
that only reads stored rows does without.
"""

from pathlib import Path
from typing import TYPE_CHECKING

from lcs_utils.counter import shipped

if TYPE_CHECKING:
    from lcs_utils.counter.net import ObjectCounter


def load(resolution: int = shipped.RESOLUTION, folder: str | Path | None = None) -> "ObjectCounter":
    """The counter for images of `resolution` px (the shipped one if that is not trained), or the one in
    `folder`. Raises as `ObjectCounter.from_pretrained`.
    """
    from lcs_utils.counter.net import ObjectCounter

    if folder is not None:
        return ObjectCounter.from_pretrained(folder)
    fitting = shipped.folder(resolution)
    return ObjectCounter.from_pretrained(fitting if fitting.exists() else shipped.FOLDER)
