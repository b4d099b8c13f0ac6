"""Tables 1 and 2 as text from stored rows: the paper's K, ours by its rule and by our own, with intervals.

`table_figures` draws them as dumbbells, `rate_figures` draws rates along K.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from lcs_utils.evaluation.rates import rates
from lcs_utils.evaluation.rows import Row, by_k, preset_of
from lcs_utils.evaluation.rules import OUR_RULE, PAPER_RULE, PAPER_RULE_ALL, LargestK, largest_k
from lcs_utils.nets import CHANGED, parts, trained
from lcs_utils.stats import Interval

RULES = (PAPER_RULE, PAPER_RULE_ALL, OUR_RULE)
COMMAND = "python -m lcs_utils.evaluation.length_generalization"


class Paper(NamedTuple):
    """The paper's K, and the extra objects that it writes in parentheses (lowest, highest)."""

    k: int
    extras: tuple[int, int] = (0, 0)

    def __str__(self) -> str:
        return f"{self.k}" + ("" if self.extras == (0, 0) else " + ({}–{})".format(*self.extras))


# Tables 1 and 2; trained on one object, one label is all labels, so that exp1_1 stands for Exp. 2 too
PAPER = {
    "exp1_1": Paper(1),
    "exp1_1-2": Paper(5),
    "exp1": Paper(9),
    "exp1_1-4": Paper(10),
    "exp1_1-5": Paper(10),
    "exp1_1-6": Paper(11),
    "exp2_1-2": Paper(1, (0, 1)),
    "exp2": Paper(1, (0, 2)),
    "exp2_1-4": Paper(1, (0, 3)),
    "exp2_1-5": Paper(1, (0, 4)),
    "exp2_1-6": Paper(1, (0, 5)),
    "exp3_1": Paper(6),
    "exp3": Paper(9, (0, 2)),
    "exp3_1-5": Paper(10, (0, 2)),
    "random_1-2": Paper(3),
    "random_1-3": Paper(5),
    "random_1-4": Paper(6),
    "random_1-5": Paper(8),
    "random_1-6": Paper(9),
    "drop_one_1-3": Paper(3, (0, 1)),
    "drop_one_1-4": Paper(8, (0, 1)),
    "drop_one_1-5": Paper(9, (0, 1)),
    "drop_one_1-6": Paper(10, (0, 1)),
}
# Fig. 8: all labels, on up to six objects, five, four, three, two, one
NUMBERS = ("exp1_1-6", "exp1_1-5", "exp1_1-4", "exp1", "exp1_1-2", "exp1_1")
SEEN, BEYOND = 3, 6  # most objects in training, and twice as many
# Table 2's second half (lowest, highest). Choice: its caption is lost, and we read it as the objects drawn
# when no location is asked for: it is 0 with all labels, and with one label up to as many as a training image
# holds, one more than the parentheses of the first half, which are beside the object asked for
AT_NONE = {
    "exp1_1": (0, 1),
    "exp1_1-2": (0, 0),
    "exp1": (0, 0),
    "exp1_1-4": (0, 0),
    "exp1_1-5": (0, 0),
    "exp1_1-6": (0, 0),
    "exp2_1-2": (0, 2),
    "exp2": (0, 3),
    "exp2_1-4": (1, 4),
    "exp2_1-5": (0, 5),
    "exp2_1-6": (1, 6),
    "random_1-2": (0, 1),
    "random_1-3": (0, 3),
    "random_1-4": (0, 4),
    "random_1-5": (0, 4),
    "random_1-6": (0, 4),
    "drop_one_1-3": (0, 1),
    "drop_one_1-4": (0, 1),
    "drop_one_1-5": (0, 1),
    "drop_one_1-6": (0, 1),
}
LABELS = {
    "all": "all labels",
    "single": "one label",
    "random": "random number of labels",
    "drop_one": "one label dropped",
    "none": "no label",
}


COLOR_PAPER = {"color_1": 1, "color_1-3": 4, "color_1-5": 7}  # K of Table 1's column of colors


NEAR = 1  # a K this close to the paper's agrees with it


def near(k: LargestK | None, null: LargestK | None, paper: int) -> bool | None:
    """Whether K, with its interval, is above its null's and within NEAR of the paper's.

    None, which decides nothing, where the interval is partly within, where it overlaps the null's, or where
    no more were asked for: a K of at least the paper's may lie far above it.
    """
    if k is None or null is not None and k.value <= null.value:
        return False
    least, most = paper - NEAR, paper + NEAR
    if k.low > most or (k.high < least and not k.capped):
        return False
    if k.capped or k.low < least or k.high > most or (null is not None and k.low <= null.high):
        return None
    return True


class Range(NamedTuple):
    """Numbers of objects that the paper saw, from `low` to `high` (Tables 1, 2); `measure` is a Row's."""

    table: str
    claim: str
    measure: str
    ks: tuple[int, ...]
    low: int
    high: int

    @property
    def paper(self) -> str:
        return f"{self.low}–{self.high}" if self.high else "0"


def ranges(net: str) -> list[Range]:
    """The ranges of objects that the tables give for a net of PAPER: those in parentheses, at every K at
    which the paper's net succeeds and which a training image holds; and the second half of Table 2.

    With all labels no parentheses mean none; of a random number of labels they say nothing.
    """
    paper, exp = PAPER[net], trained(net)
    upto = min(paper.k, exp.objects[1])
    words = "objects that nobody asked for, K = 1" + f"–{upto}" * (upto > 1)
    beside = Range("Tables 1, 2", words, "extras", tuple(range(1, upto + 1)), *paper.extras)
    found = [beside] if exp.labels != "random" else []
    if net in AT_NONE:
        words = "objects drawn when none is asked for"
        found.append(Range("Table 2, second half", words, "count", (0,), *AT_NONE[net]))
    return found


class Cell(NamedTuple):
    """One net of Table 1 or 2: the paper's K (None: not in its tables), ours by each rule (None: no rows).

    `eight` and `many` follow the paper's rule, on 8 samples as there and on all; `ours` is our rule on all.
    """

    net: str
    column: str
    trained_on: str
    paper: Paper | None
    eight: LargestK | None
    many: LargestK | None
    ours: LargestK | None
    samples: int


def column(net: str, preset: str = "tiny") -> str:
    """The table's column: which labels, whether the net is local, and the training seed unless it is 0."""
    exp = trained(net, preset)
    _, seed, _, change = parts(net)
    words = f"; {CHANGED.get(change, change)}" if change else ""
    how = ", local" if exp.radius is not None else ", embedding of one size" if exp.normalize_label else ""
    return LABELS.get(exp.labels, exp.labels) + how + (f" (seed {seed})" if seed else "") + words


def cells(rows: Sequence[Row], nets: Iterable[str] = tuple(PAPER), seed: int = 0) -> list[Cell]:
    """Tables 1 and 2, one cell per net, measured or not. Raises ValueError for an unknown net."""
    found, measured = [], {row.net for row in rows if row.family == "test" and row.k == 1}
    for net in nets:
        have, mine = net in measured, [row for row in rows if row.net == net]
        preset = preset_of(mine)
        exp = trained(net, preset)
        low, high = exp.objects
        scenes = (f"{low}" if low == high else f"{low}-{high}") + ", longer" * (exp.times > 1)
        found.append(
            Cell(
                net,
                column(net, preset),
                scenes,
                PAPER.get(net),
                *(largest_k(mine, net, rule, seed=seed) if have else None for rule in RULES),
                min(map(len, by_k(mine, net).values())) if have else 0,
            )
        )
    return found


def say(k: LargestK | None) -> str:
    """`5 [4, 6]`, after `≥` if success reached the largest K measured; a dash if not measured."""
    return "–" if k is None else f"{'≥ ' if k.capped else ''}{k.value} [{k.low}, {k.high}]"


def markdown(found: Sequence[Cell]) -> str:
    """The cells as a Markdown table, the paper's number beside ours (Tables 1 and 2)."""
    lines = [
        "| trained on | labels | K, paper (8 samples, by eye) | its rule, 8 samples | its rule, all samples "
        "| our rule, all samples "
        "| samples for each K |",
        "|---|---|---|---|---|---|---|",
    ]
    for cell in found:
        k = map(say, (cell.eight, cell.many, cell.ours))
        said = (cell.trained_on, cell.column, str(cell.paper or "–"), *k, str(cell.samples or "not measured"))
        lines.append("| " + " | ".join(said) + " |")
    return "\n".join(lines) + "\n"


def net_rates(
    rows: Sequence[Row], nets: Iterable[str], seed: int = 0
) -> dict[str, dict[int, dict[str, Interval]]]:
    """{net: {K: {measure: Interval}}} for `rate_figures.plot_rates` (App. E.2)."""
    return {net: rates(rows, net, seed=seed) for net in nets}
