"""Claims of the paper that stored rows decide: Tables 1 and 2, shares of labels, object counts, extras."""

from collections.abc import Collection, Sequence

import numpy as np

from lcs_utils.claims import NO, OPEN, YES, Verdict, holds_if, judged
from lcs_utils.evaluation.rates import mean_over
from lcs_utils.evaluation.rows import Row, by_k, seeds_of
from lcs_utils.evaluation.tables import COMMAND, LABELS, PAPER, Cell, Range, cells, markdown, ranges, say
from lcs_utils.nets import trained
from lcs_utils.stats import say_interval

OUTSIDE = 0.05  # Choice: this share of samples may have more or fewer extras than the paper saw
DRAWN = 0.5  # Choice: a net asked for objects that draws fewer than this on average draws nothing

# more labels, fewer labels, and K between the paper's two: 9 > 5 > 3 > 1; on 1-6 objects 11 > 10 > 9 > 1
DOSES = (
    ("exp1", "random_1-3", [6, 7, 8]),
    ("random_1-3", "drop_one_1-3", [4, 5]),
    ("drop_one_1-3", "exp2", [2, 3]),
    ("exp1_1-6", "drop_one_1-6", [11]),
    ("drop_one_1-6", "random_1-6", [10]),
    ("random_1-6", "exp2_1-6", [7, 8, 9]),
)
RANGES = (  # the same for the most objects of a training image: 11 > 9 > 5 > 1
    (6, 3, "exp1_1-6", "exp1", [10, 11]),
    (6, 2, "exp1_1-6", "exp1_1-2", [7, 8, 9]),
    (3, 1, "exp1", "exp1_1", [7, 8, 9]),
)

FIGURES_1_4 = {"exp1", "exp2", "exp3", "exp1_1", "exp3_1"}
ONE_OBJECT = "Fig. 4: trained on one object, a local net places several"
FEWER = "Fig. 8: trained on up to {} objects, a net fills more cells than on up to {}"


def command_of(rows: Sequence[Row], nets: Sequence[str], ks: Sequence[int] = ()) -> str:
    """The command whose rows decide a claim at `ks` (default: all measured), with as many samples."""
    groups = [by_k(rows, net) for net in nets if any(row.net == net and row.family == "test" for row in rows)]
    high = max(ks or [max(group) for group in groups] or [12])
    samples = min(
        (len(found) for group in groups for k, found in group.items() if k in ks or not ks), default=64
    )
    said = f"{COMMAND} {' '.join(nets)} --k {min(ks, default=0)}-{high}"
    return said if samples == 64 else f"{said} --samples {samples}"


def trainings(rows: Sequence[Row], net: str) -> list[str]:
    """`net`, and the measured nets that differ from it only in their training seed."""
    return seeds_of(rows, net) or [net]


def more(rows, claim: str, better: str, worse: str, measure: str, ks: Sequence[int], paper: str) -> Verdict:
    """The verdict on `better` having more of `measure` than `worse` over `ks`: reproduced if no two intervals
    of their trainings overlap.
    """
    nets = [trainings(rows, net) for net in (better, worse)]
    a, b = ([value for net in group if (value := mean_over(rows, net, measure, ks))] for group in nets)
    command = command_of(rows, [better, worse], ks)
    if not a or not b:
        return Verdict(claim, paper, "no rows", OPEN, command)
    verdict, words = judged([x.low > y.high for x in a for y in b], "pairs of trainings")
    each = [
        f"{net} " + ", ".join(map(say_interval, values))
        for net, values in zip((better, worse), (a, b), strict=True)
    ]
    over = f"K = {ks[0]}" + f"–{ks[-1]}" * (len(ks) > 1)
    return Verdict(claim, paper, f"{'; '.join(each)} ({measure}, {over}){words}", verdict, command)


def of_cell(rows: Sequence[Row], cell: Cell) -> Verdict:
    """The verdict on a cell of Table 1 or 2: reproduced if the paper's K, from 8 samples, lies in the
    interval that 8 of ours give.
    """
    claim, paper = f"K of a net trained on {cell.trained_on}, {cell.column}", str(cell.paper)
    command = command_of(rows, [cell.net])
    if cell.many is None:
        return Verdict(claim, paper, "no rows", OPEN, command)
    found = cells(rows, trainings(rows, cell.net))
    verdict, words = judged([c.eight.low <= cell.paper.k <= c.eight.high for c in found])
    if verdict != YES and any(c.many.capped for c in found) and cell.paper.k > cell.many.value:
        verdict, words = OPEN, "; it succeeds up to the largest K asked for"
    each = " / ".join(f"{say(c.many)} on {c.samples} samples, {say(c.eight)} on 8" for c in found)
    return Verdict(
        claim, paper, f"the paper's rule: {each}; our rule: {say(cell.ours)}{words}", verdict, command
    )


def outside(rows: Sequence[Row], found: Sequence[Cell]) -> str:
    """The paper's K that lie outside our interval by its own rule, as a sentence, and the whole table."""
    off = [cell for cell in found if cell.paper and of_cell(rows, cell).verdict == NO]
    said = "; ".join(
        f"{cell.trained_on}, {cell.column}: {cell.paper.k}, ours {say(cell.many)}" for cell in off
    )
    begin = "**The paper's K outside the interval of eight of our samples, by its rule** (ours: all samples):"
    return f"{begin} {said or 'nowhere'}.\n\n{markdown(found)}"


def beyond(rows: Sequence[Row], cell: Cell, claim: str, yes: bool) -> Verdict:
    """The verdict on K exceeding the most objects in training: the whole interval by the paper's rule does
    (`yes`), or does not.
    """
    most, command = trained(cell.net).objects[1], command_of(rows, [cell.net])
    if cell.many is None:
        return Verdict(claim, "yes", "no rows", OPEN, command)
    found = cells(rows, trainings(rows, cell.net))
    verdict, words = judged([c.many.low > most if yes else c.many.high <= most for c in found])
    each = ", ".join(say(c.many) for c in found)
    return Verdict(
        claim,
        "yes",
        f"trained on at most {most}, K = {each} by its rule, {say(cell.ours)} by ours{words}",
        verdict,
        command,
    )


def draws(rows: Sequence[Row], net: str) -> bool:
    """Whether a net asked for as many objects as in training, or fewer, draws any, DRAWN on average."""
    most = trained(net).objects[1]
    counts = [row.count for row in rows if row.net == net and 1 <= row.k <= most]
    return bool(counts) and float(np.mean(counts)) >= DRAWN


def in_range(rows, net: str, of: Range) -> Verdict:
    """The verdict on numbers of objects (Tables 1, 2): all samples but a share of OUTSIDE lie in the paper's
    range. Untested if a training draws nothing.
    """
    nets = trainings(rows, net)
    shares = []
    for name in nets:
        seen = np.array(
            [getattr(row, of.measure) for k, found in by_k(rows, name).items() if k in of.ks for row in found]
        )
        shares.append(float(np.mean((seen < of.low) | (seen > of.high))))
    verdict, words = judged([share <= OUTSIDE for share in shares])
    if not all(draws(rows, name) for name in nets):
        verdict, words = OPEN, "; it draws hardly anything"
    means = ", ".join(say_interval(mean_over(rows, name, of.measure, of.ks)) for name in nets)
    said = (
        f"{means} on average, {', '.join(f'{share:.0%}' for share in shares)} of the samples outside the "
        f"range{words}"
    )
    return Verdict(f"{of.table}: {of.claim}, {net}", of.paper, said, verdict, command_of(rows, [net], of.ks))


def of_whole_patches(rows: Sequence[Row]) -> list[Verdict]:
    """Whether a local net whose patches are the image fails as Exp. 2 does (App. E.3); none without rows.

    It has to draw the one object of its label first, as Exp. 2 does; a net that does not is not trained.
    """
    one, nets = [1], ("exp3_r15", "exp2")
    if not {(net, 1) for net in nets} <= {(row.net, row.k) for row in rows if row.family == "test"}:
        return []
    filled = {net: mean_over(rows, net, "filled", one) for net in nets}
    k = cells(rows, nets[:1])[0].many
    learned = filled["exp3_r15"].high >= filled["exp2"].low
    said = ", ".join(f"{net} {say_interval(of)}" for net, of in filled.items())
    verdict = holds_if(k.high <= trained("exp3_r15").objects[1]) if learned else OPEN
    words = f"cell filled at K = 1: {said}; K = {say(k)}" + "; hardly trained" * (not learned)
    claim = "App. E.3: a local net whose patches are as large as the image fails as Exp. 2 does"
    return [Verdict(claim, "yes", words, verdict, command_of(rows, nets, one))]


def of_figures_1_and_4(rows: Sequence[Row]) -> list[Verdict]:
    """Which of five nets exceed their training, and which beats another (Figs. 1, 4)."""
    table = {cell.net: cell for cell in cells(rows, ("exp1", "exp2", "exp3"))}
    local = ("exp3", "exp2")
    return [
        beyond(rows, table["exp1"], "Fig. 1: Exp. 1 (all labels) length-generalizes", True),
        beyond(rows, table["exp2"], "Fig. 1: Exp. 2 (one label) does not", False),
        beyond(rows, table["exp3"], "Table 1: Exp. 3 length-generalizes", True),
        *(
            more(rows, claim, *pair, measure, ks, "yes")
            for claim, pair, measure, ks in (
                ("Fig. 1: the labels make the difference", ("exp1", "exp2"), "success", [4, 5, 6]),
                ("Fig. 1: a local net, Exp. 3, repairs Exp. 2", local, "success", [4, 5, 6]),
                ("Fig. 1: Exp. 3 fills the conditioned cells", local, "filled", [4, 5, 6, 7, 8]),
                (ONE_OBJECT, ("exp3_1", "exp1_1"), "filled", [2, 3, 4]),
            )
        ),
    ]


def verdicts(rows: Sequence[Row], told: Collection[str] = ()) -> list[Verdict]:
    """The claims about length generalization that stored rows decide (Figs. 1, 4, 8, Tables 1, 2).

    Nets in `told` have a null elsewhere: their K and ranges are left out, and Figs. 1, 4 if all five are.
    """
    table = [cell for cell in cells(rows) if cell.net not in told]
    measured = {(row.net, row.k) for row in rows if row.family == "test"}
    fewer = [
        more(rows, FEWER.format(most, few), better, worse, "filled", ks, "yes")
        for most, few, better, worse, ks in RANGES
    ]
    doses = [
        more(rows, _dose(better, worse), better, worse, "filled", ks, "yes") for better, worse, ks in DOSES
    ]
    seen = [
        (net, of)
        for net in PAPER
        if net not in told
        for of in ranges(net)
        if {(net, k) for k in of.ks} <= measured
    ]
    return [
        *([] if FIGURES_1_4 <= set(told) else of_figures_1_and_4(rows)),
        *fewer,
        *doses,
        *(in_range(rows, *of) for of in seen),
        *of_whole_patches(rows),
        *(of_cell(rows, cell) for cell in table),
    ]


def _dose(better: str, worse: str) -> str:
    high, low = (LABELS[trained(net).labels] for net in (better, worse))
    return f"Table 2, 1-{trained(better).objects[1]} objects: {high}, more cells filled than with {low}"
