"""Hand counts as rows: which sample was looked at, what was seen, and the file that stores them."""

from typing import Any, NamedTuple

import numpy as np

from lcs_utils import paths, store
from lcs_utils.checks import check_count, check_kind, check_list

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
    command = "python -m lcs_utils.evaluation.eye.hand_counts record FOLDER ANSWERS --counted-by WHO"
    store.write_rows(path, command, Line, [(*c.shown, *c[1:]) for c in counts])


def checked(c: HandCount) -> HandCount:
    """A hand count as it is stored, True and False as 1 and 0: the file is shared, and a field of another
    kind makes all of it unreadable.

    Raises TypeError for a field of the wrong kind, ValueError for a count below 0, a `plausible` other than
    0 and 1, an empty `counted_by`, and text with line breaks.
    """
    check_kind("a hand count", c, HandCount, "a HandCount")
    check_kind("shown", c.shown, Shown, "a Shown")
    if isinstance(c.plausible, (bool, np.bool_)):
        c = c._replace(plausible=int(c.plausible))
    told: dict[str, Any] = dict(zip(Line._fields, (*c.shown, *c[1:]), strict=True))
    for name, kind in Line.__annotations__.items():
        check_kind(name, told[name], str, "text") if kind is str else check_count(name, told[name], None)
        if kind is str and "".join(told[name].splitlines()) != told[name]:
            raise ValueError(f"{name} must be one line, got {told[name]!r}")
    if c.count < 0 or not c.counted_by:
        raise ValueError(
            f"a hand count needs a count >= 0 and who counted, got {c.count} and {c.counted_by!r}"
        )
    check_count("plausible", c.plausible, 0, 1)
    return c


def record(new: list[HandCount], path=COUNTS) -> None:
    """Add counts to the file at once, replacing earlier counts of the same samples by the same person.

    Raises ValueError or TypeError, naming the value, for a count that is not read again as it was given.
    """
    new = [checked(c) for c in check_list("hand counts", new)]
    taken = {(c.shown, c.counted_by) for c in new}
    with store.exclusive(path):
        write_counts([c for c in read_counts(path) if (c.shown, c.counted_by) not in taken] + new, path)
