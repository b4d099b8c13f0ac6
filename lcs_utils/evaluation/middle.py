"""How far the nets of Fig. 12 look from the middle pixel, as rows: `python -m lcs_utils.centered sides`."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from lcs_utils import nets, store
from lcs_utils.evaluation.rows import rows_path

SIGMAS = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 20.0)
COMMAND = "python -m lcs_utils.centered sides"


class MiddleRow(NamedTuple):
    """One image at one noise level: the side (px) of the 90 % square around the middle pixel."""

    net: str
    weights: str
    image: int
    sigma: float
    side: float


def path(preset: str = "tiny") -> Path:
    """Where a preset's rows are stored."""
    return rows_path(preset, "middle")


def write(
    found: dict[str, Float[np.ndarray, "images sigmas"]], sigmas: Sequence[float], preset: str = "tiny"
) -> None:
    """Store the sides {net: sides} that were measured at `sigmas`."""
    rows = [
        MiddleRow(net, nets.row(net, preset)["sha256"][:12], image, sigma, float(side))
        for net, of in found.items()
        for image, sides in enumerate(of)
        for sigma, side in zip(sigmas, sides, strict=True)
    ]
    store.write_rows(path(preset), COMMAND, MiddleRow, rows)


def sides(preset: str = "tiny") -> dict[str, Float[np.ndarray, "images sigmas"]] | None:
    """{net: the stored sides}; None without rows. Raises ValueError, with the command, where they belong to
    other weights.
    """
    rows = store.read_rows(path(preset), MiddleRow)
    for net in sorted({row.net for row in rows}):
        if {row.weights for row in rows if row.net == net} != {nets.row(net, preset)["sha256"][:12]}:
            raise ValueError(f"no rows for today's weights of {net}: {COMMAND}")
    found: dict[str, dict[int, list[float]]] = {}
    for row in sorted(rows):  # of an image, by noise
        found.setdefault(row.net, {}).setdefault(row.image, []).append(row.side)
    return {net: np.array(list(of.values())) for net, of in found.items()} or None
