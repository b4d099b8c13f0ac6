"""Stored rows of how far Fig. 12's nets look from the middle pixel: `python -m lcs_utils.centered sides`."""

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float

from lcs_utils import nets, store
from lcs_utils.diffusion import from_uint8
from lcs_utils.evaluation.rows import rows_path
from lcs_utils.locality_profile import Look, Profile
from lcs_utils.plotting import to_uint8

SIGMAS = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 20.0)
COMMAND = "python -m lcs_utils.centered sides"


class MiddleRow(NamedTuple):
    """One image at one noise level: the side (px) of the 90% square around the middle pixel."""

    net: str
    weights: str
    image: int
    sigma: float
    side: float


class MapRow(NamedTuple):
    """One pixel of a net's first image at one noise level: its denoised color, and its influence on the
    middle pixel as a share of the largest.
    """

    net: str
    weights: str
    sigma: float
    row: int
    column: int
    red: int
    green: int
    blue: int
    influence: float


def path(preset: str = "tiny") -> Path:
    """Where a preset's rows are stored."""
    return rows_path(preset, "middle")


def maps_path(preset: str = "tiny") -> Path:
    """Where the maps of each net's first image are stored."""
    return rows_path(preset, "middle_maps")


def write(
    sides: Mapping[str, Float[np.ndarray, "images sigmas"]],
    first: Mapping[str, Profile],
    preset: str = "tiny",
) -> None:
    """Store the sides {net: sides} at SIGMAS, and the maps of each net's first image."""
    weights = {net: nets.row(net, preset)["sha256"][:12] for net in sides}
    rows = [
        MiddleRow(net, weights[net], image, sigma, float(side))
        for net, of in sides.items()
        for image, at in enumerate(of)
        for sigma, side in zip(SIGMAS, at, strict=True)
    ]
    store.write_rows(path(preset), COMMAND, MiddleRow, rows)
    rows = []
    for net, profile in first.items():
        for sigma, x0, (of,) in zip(SIGMAS, profile.x0_hat, profile.pixels.double(), strict=True):
            colors, shares = to_uint8(x0), of / of.max()
            for at in np.ndindex(*of.shape):
                share = float(f"{float(shares[at]):.3g}")
                rows.append(MapRow(net, weights[net], sigma, *at, *colors[at].tolist(), share))
    store.write_rows(maps_path(preset), COMMAND, MapRow, rows)


def _read(place, kind, preset):
    """{net: its rows}. Raises ValueError, with the command, if they belong to other weights."""
    found: dict[str, list] = {}
    for row in store.read_rows(place, kind):
        found.setdefault(row.net, []).append(row)
    for net, rows in found.items():
        if {row.weights for row in rows} != {nets.row(net, preset)["sha256"][:12]}:
            raise ValueError(f"no rows for today's weights of {net}: {COMMAND}")
    return found


def sides(preset: str = "tiny") -> dict[str, Float[np.ndarray, "images sigmas"]] | None:
    """{net: the stored sides}, or None without rows. Raises ValueError, with the command, if they belong to
    other weights.
    """
    found = {}
    for net, rows in _read(path(preset), MiddleRow, preset).items():
        images: dict[int, list[float]] = {}
        for row in sorted(rows):  # of an image, by noise
            images.setdefault(row.image, []).append(row.side)
        found[net] = np.array(list(images.values()))
    return found or None


def looks(preset: str = "tiny") -> dict[str, Look]:
    """{net: what Fig. 12 shows of it}, from the stored rows. Raises ValueError as `sides`, and for a net with
    maps whose sides are missing.
    """
    of_side, found = sides(preset) or {}, {}
    for net, rows in _read(maps_path(preset), MapRow, preset).items():
        if net not in of_side:
            raise ValueError(f"{path(preset).name} has no sides of {net}, which has maps: {COMMAND}")
        height, width = max(row.row for row in rows) + 1, max(row.column for row in rows) + 1
        columns = torch.tensor([row[5:] for row in sorted(rows, key=lambda row: row[2:5])])
        maps = columns.unflatten(0, (len(SIGMAS), height, width)).movedim(-1, 1)
        first = torch.from_numpy(of_side[net][0]).long()
        found[net] = Look(from_uint8(maps[:, :3].to(torch.uint8)), maps[:, 3:], first[:, None])
    return found
