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


def say_interval(value: Interval) -> str:
    """`0.87 [0.85, 0.88]`."""
    return f"{value.value:z.2f} [{value.low:z.2f}, {value.high:z.2f}]"


def judged(holds: Sequence[bool], what: str = "trainings") -> tuple[str, str]:
    """The verdict on a claim tested in several trainings, and "; holds in n of m" if there are several."""
    verdict = YES if all(holds) else PARTLY if any(holds) else NO
    return verdict, f"; holds in {sum(holds)} of {len(holds)} {what}" if len(holds) > 1 else ""
