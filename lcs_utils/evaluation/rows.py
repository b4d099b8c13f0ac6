"""Rows of the length-generalization test: one counted sample each, stored as CSV from which every table is drawn (App. E.2)."""

import re
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from lcs_utils import paths
from lcs_utils.evaluation.families import RENAMED

PLAUSIBLE = 0.5
EARLIER = "9c366c7b46ad"  # the counter of the rows in earlier_counter.csv, which had learned from renders drawn over by our nets
STANDARD = (0, "dpmpp_2m", 14)  # seed, solver and steps of the samples that tables and figures are about


class Row(NamedTuple):
    """One sample: how many objects it shows, how many stand at conditioned cells (`placed`), whether it looks like CLEVR."""

    net: str
    weights: str  # first 12 digits of the SHA-256 of the net's weights, and of the counter's
    counted_by: str
    seed: int
    solver: str
    steps: int
    k: int
    sample: int
    count: int
    placed: int
    plausibility: float
    family: str = "test"  # of the conditioned locations: the paper's, or another of `families.FAMILIES`
    preset: str = "tiny"
    asked: str = ""  # the conditioned locations, and the centers of the objects found, as `encode` writes them
    centers: str = ""
    cleanness: float = -1.0  # how clean the image is, in [0, 1], without asking the counter; -1: not measured

    @property
    def extras(self) -> int:
        """Objects away from every conditioned cell."""
        return self.count - self.placed


def encode(points: Float[np.ndarray, "points 2"]) -> str:
    """Points of [0, 1)^2 (x right, y down) as whole thousandths, `x y` after `x y`: short, and equal on every machine."""
    return " ".join(str(int(v)) for v in np.floor(np.asarray(points, float).reshape(-1) * 1000).clip(0, 999))


def decode(text: str) -> Float[np.ndarray, "points 2"]:
    """The points that `encode` wrote, each in the middle of its thousandth. Raises ValueError for another text."""
    values = np.array(text.split(), float)
    if values.size % 2 or not ((values >= 0) & (values < 1000)).all():
        raise ValueError(f"points are written as whole thousandths in pairs, got {text!r}")
    return (values.reshape(-1, 2) + 0.5) / 1000


def of_net(rows: Iterable[Row], net: str, family: str = "test") -> list[Row]:
    """One net's rows; of a net that was sampled in several ways, those of STANDARD, so that ways are never mixed.

    Raises ValueError when none of several ways is that one.
    """
    mine = [row for row in rows if row.net == net and row.family == family]
    way = lambda row: (row.seed, row.solver, row.steps)
    ways = sorted({way(row) for row in mine})
    if len(ways) > 1 and STANDARD not in ways:
        raise ValueError(f"{net} was sampled in several ways (seed, solver, steps): {ways}; none is the standard, {STANDARD}")
    return [row for row in mine if len(ways) == 1 or way(row) == STANDARD]


def seeds_of(rows: Iterable[Row], net: str) -> list[str]:
    """The measured nets that differ from `net` in nothing but the seed of their training, itself first when it was measured."""
    measured = {row.net for row in rows if row.family == "test" and row.k == 1}  # K needs k = 1
    others = {int(n.removeprefix(f"{net}_seed")): n for n in measured if re.fullmatch(re.escape(net) + r"_seed\d+", n)}
    return [net] * (net in measured) + [others[seed] for seed in sorted(others)]


def rows_path(preset: str = "tiny", name: str = "length_generalization") -> Path:
    """Where a preset's rows are stored: shipped ones in data/counts, those of other presets under runs/."""
    return (paths.COUNTS if preset in paths.SHIPPED else paths.RUNS) / preset / f"{name}.csv"


def told_path(preset: str = "tiny") -> Path:
    """The rows that today's tables are told from: of `tiny` those by the earlier counter, which do not say where objects are."""
    earlier = rows_path(preset, "earlier_counter")
    return earlier if earlier.exists() else rows_path(preset)


def read_rows(path) -> list[Row]:
    """The stored rows, families by today's names. Warns and raises as `paths.read_rows`."""
    rows = paths.read_rows(path, Row)
    return [row._replace(family=RENAMED[row.family]) if row.family in RENAMED else row for row in rows]


def write_rows(rows: Iterable[Row], path) -> None:
    """Write all rows, sorted, whole or not at all; the first line is the command that makes them."""
    command = "python -m lcs_utils.evaluation.length_generalization NET ... --k 0-12 --samples 64"
    paths.write_rows(path, command, Row, rows)
