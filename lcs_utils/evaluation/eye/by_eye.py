"""Images judged by eye and by the counter: samples of nets among clean and spoiled renders (App. E.2).

found = compare(hand_count_rows.read_counts(), LABELS)
by_eye_figures.plot(found)
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from lcs_utils import paths, store
from lcs_utils.checks import check_choice
from lcs_utils.evaluation import controls, wording
from lcs_utils.evaluation.eye.agreement import Agreement, agreement, confusion, kappa
from lcs_utils.evaluation.eye.hand_count_rows import HandCount
from lcs_utils.evaluation.rows import PLAUSIBLE, Row, read_rows, rows_path
from lcs_utils.evaluation.rules import PAPER_RULE_ALL, PLACES_RULE, LargestK, largest_k
from lcs_utils.evaluation.sizes import SIZES, bare
from lcs_utils.evaluation.tables import say
from lcs_utils.evaluation.training_sets import counted_blind
from lcs_utils.stats import Interval, as_dicts, interval

CONTROLS = controls.ROWS
# the same samples and controls, counted by `shipped.SECOND`
SECOND = paths.COUNTS / "small" / "second_counter.csv.bz2"
SPANS = {"K = 1–3": range(1, 4), "K = 4–6": range(4, 7), "K = 7–9": range(7, 10)}
JUDGED_NETS = (
    "exp1, 64 px",
    "exp1_seed1, 64 px",
    "exp1_seed2, 64 px",
    "exp1/low_noise, 64 px",
    "exp1/stochastic, 64 px",
    "exp1, 64 px by Muon",
    "exp1@100000, 64 px by Muon",
    "exp1@100000/stochastic, 64 px by Muon",
    "exp1@240000, 64 px by Muon",
    "exp1@240000/stochastic, 64 px by Muon",
    "exp1/stochastic, 64 px by Muon",
    "exp1_1-2, 64 px",
    "exp1_1-4, 64 px",
    "exp1_1-5, 64 px",
    "random_1-3, 64 px",
    "drop_one_1-3, 64 px",
    "drop_one_1-4, 64 px",
    "exp2, 64 px",
    "exp2@240000/stochastic, 64 px by Muon",
    "exp2/stochastic, 64 px by Muon",
    "exp3_r2, 64 px",
    "exp3_r2_seed1, 64 px",
    "exp3_r2_seed2, 64 px",
    "exp3_r2/stochastic, 64 px by Muon",
    "exp1, 32 px",
)
SIZE = "64 px unless said"  # what LABELS leave out


def _label(name: str) -> str:
    """A judged net in words: its size where it is not 64 px, Muon after the experiment."""
    said, by_muon, _ = wording.net(name).partition(", 64 px by Muon")
    first, comma, rest = said.removesuffix(", 64 px").partition(",")
    return first + " by Muon" * bool(by_muon) + comma + rest


NETS = {name: _label(name) for name in JUDGED_NETS}
LABELS = {"render, 64 px": "clean renders", "spoiled, 64 px": "spoiled renders"} | NETS
RANDOM = wording.CELLS["spread"]  # said at the end of a label; without it the paper's cells are meant
EYE = "a vision-language model, blind, among controls"
AGAIN = f"{EYE}, another time"  # second judgment of some of the same sheets
# those who judged these nets first, and on the same sheets others and controls, as which counts are recorded
MUON_1 = f"{EYE}, on the sheets of Exp. 1 by Muon"
MUON_23 = f"{EYE}, on the sheets of Exps. 2 and 3 by Muon"
MUON_400 = f"{EYE}, on the sheets of Exp. 1 by Muon on 400,000 images"
MUON_123 = f"{EYE}, on the sheets of Exps. 1, 2 and 3 by Muon on 400,000 images"
JUDGED = {
    MUON_1: ("exp1@240000, 64 px by Muon", "exp1@240000/stochastic, 64 px by Muon"),
    MUON_23: ("exp2@240000/stochastic, 64 px by Muon", "exp3_r2/stochastic, 64 px by Muon"),
    MUON_400: (),
    MUON_123: ("exp1/stochastic, 64 px by Muon", "exp2/stochastic, 64 px by Muon"),
}


class Seen(NamedTuple):
    """Images judged by eye: the share that looks right to the eye and to the counter; mean object counts,
    counter minus eye (`bias`) and eye minus asked for (`extras`).
    """

    samples: int
    eye: Interval
    counter: Interval
    bias: Interval
    extras: Interval


class Compared(NamedTuple):
    """{label: {span of K: Seen}}, the agreement over all images, and its two kappas."""

    seen: dict[str, dict[str, Seen]]
    all: Agreement
    kappa_looks: float
    kappa_counts: float

    def looks(self, name: str, most: int) -> list[bool]:
        """Whether each judged image of a net (all its trainings) at K = 1 to `most` looks right by eye."""
        base, size = name.split(", ")
        of = re.compile(rf"{re.escape(base)}(_seed\d+)?, {size}")
        return [hand.plausible for hand, row in self.all.pairs if of.fullmatch(row.net) and row.k <= most]

    def numbers(self) -> dict[str, Any]:
        """As dicts by words, for JSON."""
        said = {label: as_dicts(spans) for label, spans in self.seen.items()}
        return {"seen": said, "kappa": {"looks wrong": self.kappa_looks, "count": self.kappa_counts}}


def rows(family: str = "test") -> list[Row]:
    """The counter's rows at both sizes for a family of locations (default: the paper's list), with sized net
    names, and the controls' rows.
    """
    found = [
        row._replace(net=f"{row.net}, {size}")
        for preset, size in SIZES.items()
        for row in read_rows(rows_path(preset))
        if row.family == family
    ]
    return found + controls.read()


def second_rows() -> list[Row]:
    """The second counter's rows at 64 px: the paper's list, nets named as in `rows`, and the controls. Warns
    and raises as `store.read_rows`.
    """
    found = [row for row in store.read_rows(SECOND, Row) if row.family == "test"]
    return [row if controls.is_control(row.net) else row._replace(net=f"{row.net}, 64 px") for row in found]


def compare(
    hands: Sequence[HandCount], labels: Mapping[str, str] = LABELS, stored: Sequence[Row] | None = None
) -> Compared:
    """Compare eye and counter on the judged nets and controls of `labels` {sized name: label}.

    Raises ValueError if none was judged.
    """
    mine = [hand for hand in hands if hand.shown.net in labels and hand.counted_by == EYE]
    found = agreement(mine, rows() if stored is None else list(stored))
    seen: dict[str, dict[str, Seen]] = {}
    for name, label in labels.items():
        for span, ks in SPANS.items():
            pairs = [(hand, row) for hand, row in found.pairs if row.net == name and row.k in ks]
            if not pairs:
                continue
            eye, counter, bias, extras = np.array(
                [
                    (
                        hand.plausible,
                        row.plausibility >= PLAUSIBLE,
                        row.count - hand.count,
                        hand.count - row.k,
                    )
                    for hand, row in pairs
                ],
                float,
            ).T
            seen.setdefault(label, {})[span] = Seen(
                len(pairs),
                interval(eye, share=True),
                interval(counter, share=True),
                interval(bias),
                interval(extras),
            )
    counts, looks = kappa(found.counts), kappa(found.plausible)
    return Compared(seen, found, looks, counts)


def compare_everywhere(hands: Sequence[HandCount]) -> Compared:
    """As `compare`, plus nets whose samples at random cells were judged. The agreement covers the paper's
    list only.
    """
    found, random = compare(hands), rows("spread")
    for name, label in NETS.items():
        at = (name, "spread", EYE)
        mine = [hand for hand in hands if (hand.shown.net, hand.shown.family, hand.counted_by) == at]
        if mine:
            found = found._replace(seen=found.seen | compare(mine, {name: f"{label}, {RANDOM}"}, random).seen)
    return found


def by_same_judges(hands: Sequence[HandCount], judges: str) -> Compared:
    """As `compare`, at random cells: the nets that `judges`, a key of JUDGED, judged, and the others on the
    same sheets. Raises ValueError for other judges.
    """
    check_choice("judges", judges, JUDGED)
    first = [hand for hand in hands if hand.counted_by == EYE and hand.shown.net in JUDGED[judges]]
    same = [hand._replace(counted_by=EYE) for hand in hands if hand.counted_by == judges]
    return compare(first + same, stored=rows("spread"))


def passed(hands: Sequence[HandCount], name: str, family: str, most: int) -> dict[str, tuple[int, int]]:
    """{who looked: (images that look right, images)} of a net at K = 1 to `most`: groups of judges differ by
    more than an interval over images.
    """
    found: dict[str, list[int]] = {}
    for hand in hands:
        if (hand.shown.net, hand.shown.family) == (name, family) and hand.shown.k <= most:
            found.setdefault(hand.counted_by, []).append(hand.plausible)
    return {who: (sum(of), len(of)) for who, of in found.items()}


def of_size(hands: Sequence[HandCount], size: str) -> list[HandCount]:
    """EYE's counts for the nets of one size, such as "64 px", with the size dropped from their names."""
    return [
        hand._replace(shown=hand.shown._replace(net=bare(hand.shown.net)))
        for hand in hands
        if hand.counted_by == EYE and hand.shown.net.endswith(f", {size}")
    ]


class Twice(NamedTuple):
    """Images judged twice by eye: their number, the kappas between the two judgments (looks wrong, count),
    the share with equal counts, and the kappas between counter and eye on the same images.
    """

    pictures: int
    kappa_looks: float
    kappa_counts: float
    same: float
    counter_looks: float
    counter_counts: float


def twice(hands: Sequence[HandCount], found: Compared) -> Twice | None:
    """Agreement of the eye with itself, which no counter can be expected to beat, on those images of `found`
    that were judged twice; None if none were.
    """
    other = {hand.shown: hand for hand in hands if hand.counted_by == AGAIN}
    both = [(hand, other[hand.shown], row) for hand, row in found.all.pairs if hand.shown in other]
    if not both:
        return None

    def kappas(counts: Sequence[tuple[int, int]], looks: Sequence[tuple[bool, bool]]) -> tuple[float, float]:
        table = np.zeros((2, 2), int)
        np.add.at(table, tuple(np.array(looks, int).T), 1)
        return kappa(table), kappa(confusion(*np.array(counts).T))

    counts = [(one.count, again.count) for one, again, _ in both]
    eye = kappas(counts, [(one.plausible, again.plausible) for one, again, _ in both])
    counter = kappas(
        [(one.count, row.count) for one, _, row in both],
        [(one.plausible, row.plausibility >= PLAUSIBLE) for one, _, row in both],
    )
    return Twice(len(both), *eye, float(np.mean([a == b for a, b in counts])), *counter)


class Ks(NamedTuple):
    """K by the paper's rule (App. E.2) on the judged images; None without any: number and places by the eye's
    count (places are the counter's), by the counter's, and with looks judged by eye too.
    """

    eye: LargestK | None
    counter: LargestK | None
    looks: LargestK | None


def largest_of(hands: Sequence[HandCount], stored: Sequence[Row], name: str, family: str = "test") -> Ks:
    """K of one net, named with its size as in NETS, at the locations of one family."""
    net = bare(name)
    mine = [
        hand._replace(shown=hand.shown._replace(net=net, family="test"))  # what rules read
        for hand in hands
        if (hand.shown.net, hand.shown.family, hand.counted_by) == (name, family, EYE)
    ]
    own = [row._replace(net=net, family="test") for row in stored if (row.net, row.family) == (name, family)]
    looks, number = (counted_blind(mine, own, net, looks=looks) for looks in (True, False))
    kinds = (
        ([blind for blind, _ in number], PLACES_RULE),
        ([row for _, row in number], PLACES_RULE),
        ([blind for blind, _ in looks], PAPER_RULE_ALL),
    )
    return Ks(*(largest_k(of, net, rule) if of else None for of, rule in kinds))


def largest(hands: Sequence[HandCount], stored: Sequence[Row] | None = None) -> str:
    """K of every net in NETS that was judged, as a Markdown table."""
    head = f"| net, {SIZE} | number by eye, places by the counter | both by the counter | also looks right |"
    lines = [head, "|---|---|---|---|"]
    told = [*rows(), *rows("spread")] if stored is None else list(stored)
    for name, label in NETS.items():
        for family, words in (("test", ""), ("spread", f", {RANDOM}")):
            found = largest_of(hands, told, name, family)
            if any(found):
                said = " | ".join(say(k) if k else "–" for k in found)
                lines.append(f"| {label}{words} | {said} |")
    return "\n".join(lines) + "\n"
