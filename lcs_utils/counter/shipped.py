"""Where counters are stored, and which image sizes they take."""

from pathlib import Path

from lcs_utils import paths
from lcs_utils.clevr.grid import GRID_SIZE

RESOLUTION = 64  # px of the shipped counter, which also takes every smaller size
FOLDER = paths.CHECKPOINTS / "counter"
# trained after the headline numbers of the 64 px nets were fixed with the other; reported beside it
SECOND = paths.CHECKPOINTS / "counter64"

PLAUSIBLE = 0.5  # least plausibility of an image that counts as plausible


def folder(resolution: int = RESOLUTION) -> Path:
    """Where the counter for images of `resolution` px is stored: data/checkpoints/counter up to 64 px, then
    counter128 ...; under runs/ if it is not shipped.
    """
    if resolution <= RESOLUTION:
        return FOLDER
    shipped = FOLDER.with_name(f"{FOLDER.name}{resolution}")
    return shipped if shipped.exists() else paths.RUNS / "checkpoints" / shipped.name


def sizes(resolution: int) -> tuple[int, ...]:
    """Sides in px of the images that a counter of `resolution` takes: 32, 64 ... up to its own."""
    return tuple(GRID_SIZE << level for level in range(1, (resolution // GRID_SIZE).bit_length()))
