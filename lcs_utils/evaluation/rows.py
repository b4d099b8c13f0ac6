"""Rows of the length-generalization test: one counted sample each, stored as CSV (App. E.2).

All tables are drawn from them.
"""

import warnings
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from lcs_utils import nets, paths, store
from lcs_utils.checks import as_array, check_kind, check_list, check_text, shown
from lcs_utils.counter.shipped import PLAUSIBLE as PLAUSIBLE

RENAMED = {"scenes": "crowded"}  # earlier names of families of conditions

ROUNDING = 1e-6  # of coordinates in float32: a center just inside the image may be stored as 1


class Sampler(NamedTuple):
    """How samples are drawn: the seed of their noise, the solver, its steps."""

    seed: int
    solver: str
    steps: int


STANDARD = Sampler(0, "dpmpp_2m", 14)  # of the samples behind tables and figures


class Row(NamedTuple):
    """One sample: how many objects it shows, how many are at conditioned cells (`placed`), whether it looks
    like CLEVR.
    """

    net: str
    weights: str  # first 12 digits of the SHA-256 of the net's weights, and of the counter's
    counted_by: str
    seed: int
    solver: str
    steps: int
    k: int
    sample: int
    count: int  # type: ignore[assignment]  # a tuple has a method of that name
    placed: int
    plausibility: float
    family: str = "test"  # of the conditioned locations: the paper's, or another of `families.FAMILIES`
    preset: str = "tiny"
    asked: str = (
        ""  # the conditioned locations, and the centers of the objects found, as `encode` writes them
    )
    centers: str = ""
    cleanness: float = -1.0  # how clean the image is, in [0, 1], without asking the counter; -1: not measured

    @property
    def extras(self) -> int:
        """Objects away from every conditioned cell."""
        return self.count - self.placed


def check_row(name: str, row: Row) -> Row:
    """A row of locations or of colors, which are judged alike. Raises TypeError for anything else."""
    if type(row) is Row:  # almost always; the rest takes time
        return row
    fields = ("net", "k", "sample", "count", "placed", "plausibility", "family")
    if not isinstance(row, tuple) or not all(hasattr(row, field) for field in fields):
        raise TypeError(f"{name} must be a Row, got {shown(row)}")
    return row


def check_rows(rows: Iterable[Row]) -> list[Row]:
    """Rows, of locations or of colors, as a list. Raises TypeError for anything else."""
    rows = check_list("rows", rows)
    if set(map(type, rows)) <= {Row}:  # almost always; checking many thousands one by one takes time
        return rows
    for i, row in enumerate(rows):
        check_row(f"rows[{i}]", row)
    return rows


def check_inside(name: str, points: Float[np.ndarray, "..."]) -> None:
    """Raise ValueError for coordinates outside the image, [0, 1), such as pixels; ROUNDING is let through."""
    points = as_array(name, points)
    if not points.size or (points.min() >= -ROUNDING and points.max() <= 1 + ROUNDING):
        return
    found = f"{points.min():g} to {points.max():g}"
    raise ValueError(f"{name} must be in [0, 1), as shares of the image, got {found}")


def encode(points: Float[np.ndarray, "points 2"]) -> str:
    """Points of [0, 1)^2 (x right, y down) as whole thousandths `x y x y ...`: short, and equal on every
    machine.

    Raises ValueError for points that are not finite, lie outside the image (by more than rounding) or are of
    another shape.
    """
    points = as_array("points", points)
    if points.size and (points.ndim > 2 or points.shape[-1:] != (2,)):
        raise ValueError(f"points must have shape [points, 2], got {list(points.shape)}")
    check_inside("points", points)
    return " ".join(str(int(v)) for v in np.floor(points.reshape(-1) * 1000).clip(0, 999))


def decode(text: str) -> Float[np.ndarray, "points 2"]:
    """The points that `encode` wrote, at the middle of their thousandth. Raises ValueError for other text."""
    words = check_kind("points", text, str, "text").split()
    if not all(word.isdecimal() and len(word) <= 3 for word in words) or len(words) % 2:
        raise ValueError(f"points are written as whole thousandths in pairs, got {text!r}")
    return (np.array(words, float).reshape(-1, 2) + 0.5) / 1000


def of_net(rows: Iterable[Row], net: str, family: str = "test") -> list[Row]:
    """One net's rows; if it was sampled in several ways, those of STANDARD, so that ways are never mixed.

    Raises ValueError when none of several ways is STANDARD, for rows of several presets, weights or counters
    and for one with more objects in place than it shows, TypeError for anything but rows.
    """
    check_text("net", net)
    check_text("family", family)
    check_kind("rows", rows, Iterable, "Rows")
    mine = [row for row in rows if row.net == net and row.family == family]

    def way(row):
        return (row.seed, row.solver, row.steps)

    ways = sorted(set(map(way, mine)))
    if len(ways) > 1 and STANDARD not in ways:
        raise ValueError(
            f"{net} was sampled in several ways (seed, solver, steps): {ways}; none is the standard, "
            f"{STANDARD}"
        )
    kept = mine if len(ways) == 1 else [row for row in mine if way(row) == STANDARD]
    made = {(row.preset, row.weights, row.counted_by) for row in kept}
    for field, values in zip(("preset", "weights", "counted_by"), zip(*made), strict=False):
        several = sorted(set(values))
        if len(several) > 1:
            raise ValueError(f"rows of {net} must be of one {field}, got {', '.join(map(repr, several))}")
    for row in kept:
        if row.placed > min(row.count, row.k):
            raise ValueError(
                f"{net} has {row.placed} objects in place in a sample that shows {row.count} for {row.k} "
                "asked"
            )
    return kept


def seeds_of(rows: Iterable[Row], net: str, family: str = "test") -> list[str]:
    """The measured nets that differ from `net` only in their training seed, by seed."""
    return nets.seeds_of({row.net for row in rows if row.family == family and row.k == 1}, net)  # K needs 1


def preset_of(rows: Iterable[Row]) -> str:
    """The preset of the nets that drew these rows, which share one file; `tiny` without rows."""
    return next((row.preset for row in rows), "tiny")


def rows_path(preset: str = "tiny", name: str = "length_generalization") -> Path:
    """Where a preset's rows are stored: shipped ones in data/counts, those of other presets under runs/."""
    return (paths.COUNTS if preset in paths.SHIPPED else paths.RUNS) / preset / f"{name}.csv.bz2"


def of_preset(preset: str = "tiny") -> list[Row]:
    """A preset's stored rows. Warns, with the command, of nets whose weights were replaced after they were
    counted. Raises as `read_rows`.
    """
    rows = read_rows(rows_path(preset))
    old = []
    for net, weights in sorted({(row.net, row.weights) for row in rows}):
        made = None if "/" in net else nets.row_or_none(net, preset)
        if made is not None and made.get("sha256", weights)[: len(weights)] != weights:
            old.append(net)
    if old:
        command = f"python -m lcs_utils.training measure {' '.join(old)} --preset {preset}"
        warnings.warn(f"counted before their weights were replaced: {', '.join(old)}; count again: {command}")
    return rows


def told_path(preset: str = "tiny") -> Path:
    """The rows behind the tables: of `tiny` those of the earlier counter, which lack object locations."""
    earlier = rows_path(preset, "earlier_counter")
    return earlier if earlier.exists() else rows_path(preset)


def read_rows(path) -> list[Row]:
    """The stored rows, with families by their present names. Warns and raises as `store.read_rows`."""
    rows = store.read_rows(path, Row)
    return [row._replace(family=RENAMED[row.family]) if row.family in RENAMED else row for row in rows]


def write_rows(rows: Iterable[Row], path, counter: str | Path | None = None) -> None:
    """Write all rows, sorted, whole or not at all, after a line with the command that makes them.

    The command names the folder of another `counter`, if one was used.
    """
    command = "python -m lcs_utils.evaluation.length_generalization NET ... --k 0-12 --samples 64"
    if counter is not None:
        command += f" --counter {paths.shown(Path(counter))} --rows FILE"
    store.write_rows(path, command, Row, rows)


def by_k(rows: Iterable[Row], net: str, family: str = "test") -> dict[int, list[Row]]:
    """One net's rows by K, ascending, each ordered by sample. Raises ValueError when there are none."""
    check_text("net", net)
    rows = check_rows(rows)
    found: dict[int, list[Row]] = {}
    for row in sorted(of_net(rows, net, family)):
        found.setdefault(row.k, []).append(row)
    if not found:
        preset = next((row.preset for row in rows), "PRESET")
        command = f"python -m lcs_utils.training measure {net} --preset {preset}"
        raise ValueError(f"no rows for net {net!r}; measure it: {command}")
    return dict(sorted(found.items()))
