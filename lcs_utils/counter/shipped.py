"""Where counters are, and which images they take."""

from pathlib import Path

from lcs_utils import paths
from lcs_utils.clevr.grid import GRID_SIZE

RESOLUTION = 64  # px of the smallest counter, which also takes every smaller size
FOLDER = paths.CHECKPOINTS / "counter"


def folder(resolution: int = RESOLUTION) -> Path:
    """Where the counter for images of `resolution` px is: data/checkpoints/counter64 ... where a size has
    one of its own, data/checkpoints/counter up to 64 px; those that are not shipped are under runs/.
    """
    own = FOLDER.with_name(f"{FOLDER.name}{resolution}")
    if own.exists() or resolution > RESOLUTION:
        return own if own.exists() else paths.RUNS / "checkpoints" / own.name
    return FOLDER


def sizes(resolution: int) -> tuple[int, ...]:
    """Sides in px of the images that a counter of `resolution` takes: 32, 64 ... up to its own."""
    return tuple(GRID_SIZE << level for level in range(1, (resolution // GRID_SIZE).bit_length()))
