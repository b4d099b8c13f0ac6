"""Objects that nobody asked for, beside the paper's ranges (Tables 1, 2): verdicts, a table, a sentence."""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from scipy.stats import beta

from lcs_utils.claims import KINDS, NO, OPEN, UNDECIDED, YES
from lcs_utils.claims.from_rows import OUTSIDE, draws
from lcs_utils.evaluation.rows import Row, seeds_of
from lcs_utils.evaluation.tables import Range, ranges
from lcs_utils.evaluation.tables_beyond_chance import Cell
from lcs_utils.nets import trained
from lcs_utils.stats import Interval

HARDLY = "it draws hardly anything"


class Outside(NamedTuple):
    """A net's samples beside one of the paper's ranges of objects, over all its trainings.

    `mean` objects, the `share` of `samples` outside the range (of the training with fewest: `fewest`), and
    how many of `trainings` have at most OUTSIDE there (`few`). `null`: the same pictures asked for as many
    objects as in training, where none is asked for. `draws`: whether the net draws objects at all.
    """

    mean: float
    share: Interval
    samples: int
    fewest: int
    null: float | None
    few: int
    trainings: int
    draws: bool

    @property
    def verdict(self) -> str:
        """Whether all but a share OUTSIDE of the samples lie in the range; undecided where the interval
        allows either, untested where nothing is drawn: such a net has no extra objects either.
        """
        if not self.draws:
            return OPEN
        return YES if self.share.high <= OUTSIDE else NO if self.share.low > OUTSIDE else UNDECIDED


def exact(outside: float, samples: int) -> Interval:
    """A share of samples with its exact 95% interval (Clopper-Pearson)."""
    low, high = beta.ppf([0.025, 0.975], [outside, outside + 1], [samples - outside + 1, samples - outside])
    bounds = (0.0 if outside == 0 else float(low), 1.0 if outside == samples else float(high))
    return Interval(outside / samples, *bounds)


def outside(rows: Sequence[Row], net: str, of: Range) -> Outside | None:
    """Measure a net at the paper's cells against one of its ranges (Tables 1, 2); None if not asked there.

    Trainings share noise and conditions, so they make the share's interval no tighter than one of them. Of
    pictures asked for nothing the null is the same net's, asked for as many as it was trained on.
    """
    rows, most = [row for row in rows if row.family == "test"], trained(net).objects[1]

    def seen(training: str, ks: Sequence[int]) -> np.ndarray:
        return np.array([getattr(row, of.measure) for row in rows if row.net == training and row.k in ks])

    def beyond(values: np.ndarray) -> np.ndarray:
        return (values < of.low) | (values > of.high)

    trainings = [one for one in seeds_of(rows, net) if len(seen(one, of.ks))]
    if not trainings:
        return None
    values = [seen(one, of.ks) for one in trainings]
    every, fewest = np.concatenate(values), min(map(len, values))
    share = float(np.mean([beyond(each).mean() for each in values]))
    null = np.concatenate([seen(one, [most]) for one in trainings]) if of.ks == (0,) else np.array([])
    return Outside(
        mean=float(every.mean()),
        share=exact(share * fewest, fewest),
        samples=len(every),
        fewest=fewest,
        null=float(beyond(null).mean()) if len(null) else None,
        few=sum(bool(beyond(value).mean() <= OUTSIDE) for value in values),
        trainings=len(trainings),
        draws=all(draws(rows, one) for one in trainings),
    )


def say_share(share: Interval) -> str:
    """`5% [2%, 9%]`."""
    return f"{share.value:.0%} [{share.low:.0%}, {share.high:.0%}]"


def within(net: str, of: Range) -> Callable[[Sequence[Row]], tuple[str, str]]:
    """Judge whether a net's samples have as many objects as the paper saw (`Outside.verdict`)."""

    def judge(rows: Sequence[Row]) -> tuple[str, str]:
        found = outside(rows, net, of)
        if found is None or not found.draws:
            return HARDLY if found else "not measured", OPEN
        said = f"{found.mean:.2f} on average, {say_share(found.share)} of {found.samples} samples outside"
        if found.null is not None:
            said += f" (asked for {trained(net).objects[1]}: {found.null:.0%})"
        if found.trainings > 1:
            said += f"; at most {OUTSIDE:.0%} in {found.few} of {found.trainings} trainings"
        return said, found.verdict

    return judge


def checked(cells: Sequence[Cell]) -> list[tuple[Cell, Range]]:
    """Every range that the paper gives for a trained net of Tables 1 and 2."""
    return [(cell, of) for cell in cells if cell.own is not None for of in ranges(cell.entry)]


class Check(NamedTuple):
    """One net beside one of the paper's ranges; `found` is None where it was not asked."""

    cell: Cell
    of: Range
    found: Outside | None

    @property
    def verdict(self) -> str:
        return self.found.verdict if self.found else OPEN


def checks(rows: Sequence[Row], cells: Sequence[Cell]) -> list[Check]:
    """The checks of `checked`, measured: the verdicts page judges the same numbers."""
    return [Check(cell, of, outside(rows, cell.net, of)) for cell, of in checked(cells)]


def counted(verdicts: Sequence[str]) -> str:
    """`0 reproduced, 9 not, 17 undecided`: reproduced always, others where there are any."""
    number = Counter(verdicts)
    kinds = [kind for kind in KINDS if kind == YES or number[kind]]
    return ", ".join(f"{number[kind]} {kind}" for kind in kinds).replace("not reproduced", "not")


def _entries(check: Check | None) -> list[str]:
    """The paper's range, our mean, the share outside with its null, and the verdict, as a table has them."""
    if check is None:
        return ["–"] * 4  # the paper gives no range
    if check.found is None:
        return [check.of.paper, "–", "–", check.verdict]
    null = "" if check.found.null is None else f" ({check.found.null:.0%})"
    outside = say_share(check.found.share) + null
    return [check.of.paper, f"{check.found.mean:.2f}", outside, check.verdict]


def markdown(found: Sequence[Check]) -> str:
    """A line per net: asked for nothing, then for one object or more, each with the paper's range, our mean,
    the share of samples outside the range (in parentheses its null) and the verdict.
    """
    beside = f"ours, mean | share outside, at most {OUTSIDE:.0%}"
    lines = [
        f"| trained on | labels | none asked: the paper | {beside} (null) | verdict "
        f"| K asked | extras: the paper | {beside} | verdict |",
        "|" + "---|" * 11,
    ]
    for net in dict.fromkeys(check.cell.net for check in found):
        mine = {check.of.ks == (0,): check for check in found if check.cell.net == net}
        cell, none, some = next(iter(mine.values())).cell, mine.get(True), mine.get(False)
        ks = "–".join(map(str, dict.fromkeys((some.of.ks[0], some.of.ks[-1])))) if some else "–"
        line = [cell.trained_on, cell.column, *_entries(none), ks, *_entries(some)]
        lines.append("| " + " | ".join(line) + " |")
    return "\n".join(lines) + "\n"


def too_few(found: Sequence[Check]) -> list[int]:
    """The numbers of samples of a training, of the checks that have too few to be reproduced, whatever they
    find.
    """
    there = [check.found for check in found if check.found]
    return [of.fewest for of in there if exact(0, of.fewest).high > OUTSIDE]


def sentence(found: Sequence[Check]) -> str:
    """How the checks come out, by their intervals and by the shares alone, and how many have too few samples
    to pass.
    """
    there, few = [check.found for check in found if check.found], too_few(found)
    low = sum(of.draws and of.share.value <= OUTSIDE for of in there)
    said = (
        f"{len(found)} checks: {counted([check.verdict for check in found])}. By their shares alone, without "
        f"intervals, {low} are at most {OUTSIDE:.0%}."
    )
    if few:
        said += (
            f" Whatever they find, {len(few)} have too few samples to be reproduced: with {max(few)} or "
            f"fewer, even none outside leaves up to {exact(0, max(few)).high:.1%}."
        )
    return said
