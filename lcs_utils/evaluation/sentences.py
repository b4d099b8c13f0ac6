"""Measured numbers as Markdown for notebooks 05, 06, A2 to A6, so that no text states them by hand.

Each function takes rows, or what was measured from them, and returns a sentence or a table (App. E.2).
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType

from lcs_utils import nets
from lcs_utils.evaluation import rules, side_tables, wording
from lcs_utils.evaluation.against_null import Found
from lcs_utils.evaluation.eye.agreement import Agreement
from lcs_utils.evaluation.eye.hand_count_rows import HandCount
from lcs_utils.evaluation.rates import mean_over
from lcs_utils.evaluation.rows import PLAUSIBLE, Row
from lcs_utils.evaluation.rules import PAPER_RULE_ALL, largest_k
from lcs_utils.evaluation.strips import Strip
from lcs_utils.evaluation.studies.memorization import PLANTED, RATIO, REAL, Near, likeness, memorized
from lcs_utils.evaluation.tables import say
from lcs_utils.evaluation.training_sets import Measured, blind_successes, counted_blind, one_missing
from lcs_utils.evaluation.wording import EXTRAS, MEASURES
from lcs_utils.stats import Interval, say_interval


def table(head: Sequence[str], lines: Iterable[Sequence[object]]) -> str:
    """A Markdown table."""
    rows = [list(head), ["---"] * len(head), *([str(entry) for entry in line] for line in lines)]
    return "\n".join("| " + " | ".join(row) + " |" for row in rows) + "\n"


def listed(words: Sequence[str]) -> str:
    """`a`, `a and b`, `a, b and c`."""
    return words[0] if len(words) == 1 else ", ".join(words[:-1]) + f" and {words[-1]}"


def span(ks: Sequence[int]) -> str:
    """`K = 4 to 6`, `K = 11`."""
    return f"K = {min(ks)}" + (f" to {max(ks)}" if max(ks) > min(ks) else "")


def either(value: Interval | None) -> str:
    """`0.87 [0.85, 0.88]`, or a dash for what was not measured."""
    return "–" if value is None else say_interval(value)


def of_strip(shown: Strip, labels: Mapping[str, str]) -> str:
    """How many locations asked for hold an object in each row of a strip, as a sentence."""
    said = [
        f"{labels[net]}: {number} of {asked} locations asked for hold an object"
        for net, (number, asked) in shown.held().items()
    ]
    return "In these pictures, " + "; ".join(said) + "."


def means(
    rows: Sequence[Row], nets: Mapping[str, str], ks: Sequence[int], measures=("filled", "success")
) -> str:
    """A table of the means of some measures over `ks`, one line per net {net: words}."""
    head = ["net", *(f"{MEASURES[name]}, {span(ks)}" for name in measures), "K by the paper's rule"]
    lines = []
    for net, label in nets.items():
        measured = {row.k for row in rows if row.net == net and row.family == "test"}
        k = say(largest_k(rows, net, PAPER_RULE_ALL)) if 1 in measured else "–"
        lines.append([label, *(either(mean_over(rows, net, name, ks)) for name in measures), k])
    return table(head, lines)


def training_sets(
    found: Sequence[Measured],
    words: Mapping[str, str] = MappingProxyType({}),
    tolerant: str = "K, one off always allowed",
) -> str:
    """A table of `training_sets`: K, cells filled, objects nobody asked for, and K by the rule that
    `tolerant` names.
    """
    head = [
        "trained on",
        "the paper's K",
        "K by its rule",
        "cells filled",
        EXTRAS,
        tolerant,
    ]
    lines = []
    for of in found:
        name = words.get(of.cell.net, of.cell.trained_on)
        over = f" ({span(of.over)})"
        values = (either(of.filled) + over, either(of.elsewhere), say(of.tolerant))
        lines.append([name, of.cell.paper or "–", say(of.cell.many), *values])
    return table(head, lines)


def longer(along: Mapping[str, Mapping[int, Mapping[str, Interval]]]) -> str:
    """A table of objects nobody asked for along trainings {net: {images: {span: mean}}}."""
    spans = list(next(iter(next(iter(along.values())).values())))
    lines = [
        [wording.net(net), f"{images:,}", *(either(of[words]) for words in spans)]
        for net, stages in along.items()
        for images, of in stages.items()
    ]
    return table(["net", "training images", *(f"{EXTRAS}, {words}" for words in spans)], lines)


def without_clause(rows: Sequence[Row], trainings: Mapping[str, Sequence[str]]) -> str:
    """K of each training at random cells, with and without the clause that beyond training more objects must
    be in place than training showed.
    """
    free = rules.PLACES_RULE._replace(succeeds=one_missing)

    def ks(nets: Sequence[str], rule: rules.Rule) -> str:
        return ", ".join(str(rules.largest_k(rows, net, rule, "spread").value) for net in nets)

    said = [
        f"{words} {ks(of, free)} (with it {ks(of, rules.PLACES_RULE)})" for words, of in trainings.items()
    ]
    return f"Without that clause, K of each training at random cells: {'; '.join(said)}."


def blind(hands: Sequence[HandCount], rows: Sequence[Row], nets: Mapping[str, str], ks: Sequence[int]) -> str:
    """How many samples at `ks` succeed as judged blind, per net."""
    said = []
    for net, label in nets.items():
        good, all_of = blind_successes(hands, rows, net, ks)
        said.append(f"{label}: {good} of {all_of}")
    return (
        f"Samples that succeed by the paper's rule, counted and judged blind, {span(ks)}: "
        + "; ".join(said)
        + "."
    )


def exact(found: Mapping[int, Mapping[str, Mapping[int, Interval]]]) -> str:
    """A table of shares counted exactly, {pixels: {kind of images: {objects: share}}}, for few and many
    objects, with half of their 95% interval: half-widths of independent shares add in quadrature.
    """
    head = ["pixels", "images", "counted exactly, 1 to 6 objects", "7 to 12"]
    lines = []
    for side, kinds in found.items():
        for kind, of in kinds.items():
            few, many = ([of[k] for k in of if k in ks] for ks in (range(1, 7), range(7, 13)))

            def mean(shares: Sequence[Interval]) -> str:
                if not shares:
                    return "–"
                half = math.hypot(*((share.high - share.low) / 2 for share in shares)) / len(shares)
                return f"{sum(share.value for share in shares) / len(shares):.3f} ± {half:.3f}"

            lines.append([side, kind, mean(few), mean(many)])
    return table(head, lines)


def agreement_lines(hands: Agreement) -> str:
    """The agreement of blind counts with the counter as a Markdown list."""
    return "\n".join(
        ("- " if not line.startswith("  ") else "    - ") + line.strip() for line in hands.lines()
    )


def k_by_eye(hands: Sequence[HandCount], rows: Sequence[Row], nets: Mapping[str, str]) -> str:
    """K by the paper's rule on the samples looked at: judged blind, by blind count, by the counter."""
    lines = []
    for net, label in nets.items():
        looks = counted_blind(hands, rows, net)
        number = counted_blind(hands, rows, net, looks=False)
        kinds = ([a for a, _ in looks], [a for a, _ in number], [b for _, b in number])
        lines.append([label, *(say(largest_k(of, net, PAPER_RULE_ALL)) for of in kinds)])
    return table(["net", "K, judged blind (count and looks)", "K, blind count alone", "K, counter"], lines)


def looks_by_k(
    hands: Agreement, net: str, spans: Sequence[Sequence[int]] = ((0, 1, 2, 3), (4, 5, 6), (7, 8, 9))
) -> str:
    """A table by K of a net's samples that were looked at: how many look right to the eye and to the counter,
    and by how much the counter's count exceeds the eye's.
    """
    lines = []
    for ks in spans:
        seen_here = [(hand, row) for hand, row in hands.pairs if row.net == net and row.k in ks]
        if seen_here:
            eye = sum(hand.plausible for hand, _ in seen_here)
            counter = sum(row.plausibility >= PLAUSIBLE for _, row in seen_here)
            more = sum(row.count - hand.count for hand, row in seen_here) / len(seen_here)
            lines.append([span(ks), len(seen_here), eye, counter, f"{more:+.1f}"])
    return table(
        ["", "samples", "look right, blind", "look right to the counter", "count, counter minus blind"], lines
    )


def copies(rows: Sequence[Near], nets: Mapping[str, str]) -> str:
    """How many samples and renders are copies, and the distance ratio of the most copy-like sample."""
    found = memorized(rows)

    def of(names):
        return [value for (net, _), value in found.items() if net in names]

    def total(group):
        return f"{sum(m.copies for m in group)} of {sum(m.samples for m in group)}"

    nearest = min(likeness(row) for row in rows if row.net in nets)
    ours, others = total(of(nets)), total(of([REAL]))
    planted = [f"{m.copies} of {m.samples} at K = {k}" for (net, k), m in found.items() if net == PLANTED]
    caught = f"; among planted copies: {', '.join(planted)}" if planted else ""
    likest = max((likeness(row) for row in rows if row.net == PLANTED), default=None)
    least = "" if likest is None else f", that of the least copy-like planted copy is {likest:.2f}"
    return (
        f"Copies among the samples of {listed(list(nets.values()))}: {ours}; among renders that no net saw: "
        f"{others}{caught}. The distance ratio of the most copy-like sample is {nearest:.2f}{least}; a copy "
        f"has less than {RATIO:g}."
    )


def along(
    found: Mapping[str, Mapping[int, Mapping[str, Interval]]],
    labels: Mapping[str, str],
    names: Mapping[str, str],
) -> str:
    """A table of every snapshot of each training; of `names` {measure: words}, "K" is a whole number."""
    lines = []
    for net, stages in found.items():
        for images, of in stages.items():
            values = [f"{of[name].value:.0f}" if name == "K" else either(of[name]) for name in names]
            lines.append([labels[net], f"{images:,}", *values])
    return table(["net", "training images", *names.values()], lines)


def ways(rows: Sequence[Row]) -> str:
    """A table of nets sampled by another solver or at other locations (`side_tables.ways`)."""
    head = [
        "net, how sampled",
        "K, paper's rule",
        "K, ours",
        "cells filled, K = 4–6",
        "success, K = 4–6",
        f"{EXTRAS}, K = 1–3",
    ]
    lines = [line.strip("| ").split(" | ") for line in side_tables.ways(rows)]
    return table(head, [[wording.net(how), *values] for how, *values in lines])


def radius(found: Sequence[Measured], preset: str = "tiny") -> str:
    """A table of Exp. 3 by its radius and Exp. 2, with their training images and samples."""
    head = [
        "what a cell sees",
        "K by the paper's rule",
        "K by our rule",
        "cells filled",
        EXTRAS,
        MEASURES["plausible"],
    ]
    lines = []
    for of in found:
        net, r = of.cell.net, nets.trained(of.cell.net, preset).radius
        far = "whole image (Exp. 2)" if r is None else f"r = {r}"
        values = [either(value) for value in (of.filled, of.elsewhere, of.plausible)]
        images = f"{nets.images_seen(net, preset):,}"
        lines.append([far, say(of.cell.many), say(of.cell.ours), *values, images, of.cell.samples])
    return (
        table([*head, "training images", "samples of each K"], lines)
        + f"\nShares and objects: {span(found[0].over)}.\n"
    )


def whole_image_control(rows: Sequence[Row], net: str = "exp3_r15", beside: str = "exp2") -> str:
    """Cells filled by the control that sees the whole image and by Exp. 2, at K = 1 and beyond training."""
    said = []
    for name, label in ((net, "r = 15"), (beside, "Exp. 2")):
        first, more = (mean_over(rows, name, "filled", ks) for ks in ([1], [4, 5, 6]))
        said.append(f"{label} fills {either(first)} of the cells at K = 1 and {either(more)} at K = 4 to 6")
    return "; ".join(said) + "."


def adding(
    rates_of: Mapping[str, Mapping[int, Mapping[str, Interval]]], labels: Mapping[str, str], ks=(2, 3, 4, 6)
) -> str:
    """A table of cells filled, looks (to the counter) and objects drawn where scores are added, by net."""

    def one(of, k, name, digits):
        return f"{of[k][name].value:.{digits}f}" if k in of else "–"

    def joined(of, name, digits):
        return " / ".join(one(of, k, name, digits) for k in ks)

    what = f", K = {' / '.join(map(str, ks))}"
    head = ["net", *(words + what for words in ("cells filled", MEASURES["plausible"], "objects drawn"))]
    lines = [
        [labels[net], joined(of, "filled", 2), joined(of, "plausible", 2), joined(of, "count", 1)]
        for net, of in rates_of.items()
    ]
    return table(head, lines)


def drawn(found: Mapping[str, Found], ks: Sequence[int]) -> str:
    """How many objects nets draw at some K, as a sentence."""
    each = (f"{words} {' / '.join(f'{of.at[k].drawn.value:.1f}' for k in ks)}" for words, of in found.items())
    return f"Objects drawn when asked for {' / '.join(map(str, ks))}: {'; '.join(each)}."
