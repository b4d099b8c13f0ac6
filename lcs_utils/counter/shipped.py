"""Where counters are, and which images they take."""

from pathlib import Path

from lcs_utils import paths
from lcs_utils.clevr.grid import GRID_SIZE

RESOLUTION = 64  # px of the shipped counter, which also takes every smaller size
FOLDER = paths.CHECKPOINTS / "counter"
# trained after the headline of the 64 px nets was fixed with the other: its numbers stand beside it
SECOND = paths.CHECKPOINTS / "counter64"

PLAUSIBLE = 0.5  # from this plausibility on an image looks like CLEVR's


def folder(resolution: int = RESOLUTION) -> Path:
    """Where the counter for images of `resolution` px is: data/checkpoints/counter up to 64 px, then
    counter128 ...; those that are not shipped are under runs/.
    """
    if resolution <= RESOLUTION:
        return FOLDER
    shipped = FOLDER.with_name(f"{FOLDER.name}{resolution}")
    return shipped if shipped.exists() else paths.RUNS / "checkpoints" / shipped.name


def sizes(resolution: int) -> tuple[int, ...]:
    """Sides in px of the images that a counter of `resolution` takes: 32, 64 ... up to its own."""
    return tuple(GRID_SIZE << level for level in range(1, (resolution // GRID_SIZE).bit_length()))
