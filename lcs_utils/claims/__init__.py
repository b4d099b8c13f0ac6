"""Claims of the paper and verdicts on them; a claim without numbers is untested."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from lcs_utils.stats import Interval

YES, PARTLY, NO, OPEN = "reproduced", "partly", "not reproduced", "untested"
UNDECIDED = "undecided"  # measured, but the interval allows either
KINDS = (YES, PARTLY, NO, UNDECIDED, OPEN)


class Verdict(NamedTuple):
    """One claim, what the paper reports, what we measured, the verdict, and the command that decides it."""

    claim: str
    paper: str
    ours: str
    verdict: str
    command: str


class Claim(NamedTuple):
    """A claim: `numbers(preset)` measures it (None: nothing was measured), `judge` turns that into (ours, the
    verdict); `notebook` plots the same numbers.
    """

    claim: str
    paper: str
    notebook: str
    numbers: Callable[[str], Any]
    judge: Callable[[Any], tuple[str, str]]


def holds_if(holds: bool) -> str:
    """The verdict on a claim that holds or does not."""
    return YES if holds else NO


def lies_above(one: Interval, other: Interval) -> bool | None:
    """Whether an interval lies above another; None, which decides nothing, where they overlap."""
    return True if one.low > other.high else False if one.high < other.low else None


def judged(holds: Sequence[bool | None], what: str = "trainings") -> tuple[str, str]:
    """The verdict on a claim tested several times (None: undecided), and "; holds in n of m" if more than
    once.
    """
    verdict = YES if all(holds) else PARTLY if any(holds) else NO if False in holds else UNDECIDED
    return verdict, f"; holds in {sum(map(bool, holds))} of {len(holds)} {what}" if len(holds) > 1 else ""
