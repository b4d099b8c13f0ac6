"""Hand counts as rows: which sample was looked at, what was seen, and the file that stores them."""

from typing import NamedTuple

from lcs_utils import paths, store

COUNTS = paths.COUNTS / "hand_counts.csv.bz2"


class Shown(NamedTuple):
    """The sample that is looked at: the fields that identify it among the rows."""

    net: str
    weights: str
    k: int
    sample: int
    seed: int
    solver: str
    steps: int
    family: str = "test"  # of `families.FAMILIES`


class HandCount(NamedTuple):
    """One sample counted by looking; `counted_by` says who or what looked."""

    shown: Shown
    count: int
    plausible: int  # 1 or 0
    counted_by: str


# A line of the file: what was looked at, field by field, then what was seen.
Line = NamedTuple("Line", [*Shown.__annotations__.items(), *list(HandCount.__annotations__.items())[1:]])


def read_counts(path=COUNTS) -> list[HandCount]:
    """The stored hand counts. Warns and raises as `store.read_rows`."""
    n = len(Shown._fields)
    return [HandCount(Shown(*line[:n]), *line[n:]) for line in store.read_rows(path, Line)]


def write_counts(counts: list[HandCount], path=COUNTS) -> None:
    """Write all hand counts, sorted, whole or not at all; the first line says how they came about."""
    command = "python -m lcs_utils.evaluation.hand_counts record FOLDER ANSWERS --counted-by WHO"
    store.write_rows(path, command, Line, [(*c.shown, *c[1:]) for c in counts])


def record(new: list[HandCount], path=COUNTS) -> None:
    """Add counts to the file at once, replacing earlier counts of the same samples by the same person.

    Raises ValueError for a negative count or an empty `counted_by`.
    """
    for c in new:
        if c.count < 0 or not c.counted_by:
            raise ValueError(
                f"a hand count needs a count >= 0 and who counted, got {c.count} and {c.counted_by!r}"
            )
    taken = {(c.shown, c.counted_by) for c in new}
    with store.exclusive(path):
        write_counts([c for c in read_counts(path) if (c.shown, c.counted_by) not in taken] + new, path)
