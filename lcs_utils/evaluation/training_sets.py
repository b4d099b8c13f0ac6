"""What a training set does to composition: number of objects (Fig. 8), labels (Table 2), radius (App. E.3).

One function measures what figures draw, sentences say and notebooks assert.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from lcs_utils.clevr.grid import TEST_LOCATIONS, apart
from lcs_utils.clevr.grid import cells as cells_of
from lcs_utils.evaluation import rules
from lcs_utils.evaluation.eye.agreement import agreement
from lcs_utils.evaluation.eye.hand_count_rows import HandCount
from lcs_utils.evaluation.rates import mean_over
from lcs_utils.evaluation.rows import PLAUSIBLE, Row, of_net, preset_of, seeds_of
from lcs_utils.evaluation.rules import LargestK, largest_k
from lcs_utils.evaluation.tables import Cell, cells
from lcs_utils.experiments import EXP3, RADIUS_SWEEP, Experiment
from lcs_utils.nets import along, trained
from lcs_utils.stats import Interval

BY_OBJECTS = ("exp1_1", "exp1_1-2", "exp1", "exp1_1-4", "exp1_1-5", "exp1_1-6", "exp1_1-6_x3")  # Fig. 8
BY_LABELS = {  # Table 2: few labels first
    3: ("exp2", "drop_one_1-3", "random_1-3", "exp1"),
    6: ("exp2_1-6", "random_1-6", "drop_one_1-6", "exp1_1-6"),
}
BEYOND = range(7, 10)  # more objects than any training image of Fig. 8 had


class Measured(NamedTuple):
    """One training: its table cell, means over some K, and K by a rule chosen after seeing the numbers."""

    cell: Cell
    filled: Interval  # share of the asked cells that hold an object
    success: Interval
    within_one: Interval  # share of samples with K-1 to K+1 objects
    elsewhere: Interval  # objects away from every asked cell
    plausible: Interval
    tolerant: LargestK
    over: Sequence[int]


def one_off(row: Row, _) -> bool:
    """At every K one cell may be empty and one object extra or missing (chosen after seeing the numbers)."""
    return row.placed >= row.k - 1 and abs(row.count - row.k) <= 1 and row.plausibility >= PLAUSIBLE


def one_missing(row: Row, trained_on: Experiment) -> bool:
    """`rules.number_and_places` without the clause that beyond training more objects must be in place than
    training showed: one cell may be empty at every K (chosen after seeing the numbers).
    """
    first = row.k == trained_on.objects[1] + 1  # from the next on one may be empty anyway
    return rules.number_and_places(row._replace(placed=min(row.placed + first, row.k)), trained_on)


def extras_free(row: Row, _) -> bool:
    """One cell may be empty, and extra objects do not count (chosen after seeing the numbers)."""
    return row.placed >= row.k - 1 and row.plausibility >= PLAUSIBLE


def measured(
    rows: Sequence[Row], net: str, over: Sequence[int], tolerant: Callable[[Row, object], bool] = one_off
) -> Measured | None:
    """A training measured over the K of `over`; None if those or K = 1 are missing."""
    cell = cells(rows, [net])[0]
    names = ("filled", "success", "within_one", "extras", "plausible")
    means = [mean_over(rows, net, name, over) for name in names]
    if cell.ours is None or None in means:
        return None
    rule = rules.PAPER_RULE_ALL._replace(succeeds=tolerant)
    return Measured(cell, *means, largest_k(rows, net, rule), list(over))


def by_objects(rows: Sequence[Row]) -> list[Measured]:
    """Nets with all labels, by the objects in training (Fig. 8), at K = 7 to 9."""
    return [found for net in BY_OBJECTS if (found := measured(rows, net, BEYOND))]


def by_labels(rows: Sequence[Row]) -> list[Measured]:
    """Trainings by how many objects are labeled (Table 2), at one to three objects beyond training."""
    found = []
    for most, nets in BY_LABELS.items():
        over = range(most + 1, most + 4)
        found += [of for net in nets if (of := measured(rows, net, over, extras_free))]
    return found


def by_radius(rows: Sequence[Row]) -> list[Measured]:
    """Exp. 3 by its radius, and Exp. 2, whose net sees the whole image (App. E.3), at K = 4 to 6."""
    sweep = sorted((EXP3, *RADIUS_SWEEP), key=lambda exp: exp.radius)
    nets = [exp.name for exp in sweep if seeds_of(rows, exp.name)[:1] == [exp.name]]
    return [found for net in (*nets, "exp2") if (found := measured(rows, net, [4, 5, 6]))]


def first_two_labels(radius: int, ks: Sequence[int] = range(1, 13)) -> tuple[int | None, int | None]:
    """The smallest K of the paper's locations at which a patch of `radius` cells holds two labels, and at
    which one around a label does (None: at none of `ks`). In training no patch of Exp. 3 held two.
    """

    def first(reach):
        for k in ks:
            where = cells_of(np.array(TEST_LOCATIONS[:k]))
            between = apart(where, where)[np.triu_indices(k, 1)]
            if (between <= reach).any():
                return k
        return None

    return first(2 * radius), first(radius)


def two_labels(radii: Sequence[int]) -> str:
    """From which K on a patch holds two labels, for each radius, as a sentence."""
    said = []
    for r in radii:
        some, around = (f"K = {k}" if k else "no K" for k in first_two_labels(r))
        said.append(f"r = {r}: from {some} on, around a label from {around} on")
    return "At the paper's cells two labels stand in one patch, with " + "; ".join(said) + "."


def elsewhere_along_training(
    rows: Sequence[Row], net: str, spans: dict[str, Sequence[int]]
) -> dict[int, dict[str, Interval]]:
    """{training images: {span: objects elsewhere}} of the snapshots of a net and of the finished one."""
    return {
        images: {words: mean_over(rows, stage, "extras", ks) for words, ks in spans.items()}
        for images, stage in along({row.net for row in rows}, net, preset_of(rows)).items()
    }


def counted_blind(
    hands: Sequence[HandCount], rows: Sequence[Row], net: str, looks: bool = True
) -> list[tuple[Row, Row]]:
    """(the row with the blind count, the counter's row) for each of a net's samples that was looked at.

    Places stay the counter's, at most as many as the blind count; with `looks`, plausibility is the blind
    judgment. Empty if nobody looked.
    """
    try:
        pairs = agreement(list(hands), of_net(rows, net)).pairs
    except ValueError:
        return []
    found = []
    for hand, row in pairs:
        blind = row._replace(count=hand.count, placed=min(row.placed, hand.count))
        if looks:
            blind = blind._replace(plausibility=float(hand.plausible))
        found.append((blind, row))
    return found


def blind_successes(
    hands: Sequence[HandCount], rows: Sequence[Row], net: str, ks: Sequence[int]
) -> tuple[int, int]:
    """(samples that succeed by the paper's rule as judged blind, samples that were looked at) at `ks`."""
    pairs = [blind for blind, _ in counted_blind(hands, rows, net) if blind.k in ks]
    return sum(rules.paper_success(row, trained(net, row.preset)) for row in pairs), len(pairs)


def nets(rows: Mapping[str, dict]) -> str:
    """Checkpoints {net: its row} as a Markdown table: size, data, labels, radius, images seen, last error."""
    lines = ["| net | weights | px | objects | labels | sees | images | error |", "|---" * 8 + "|"]
    for name, row in rows.items():
        objects = "-".join(map(str, dict.fromkeys(row["objects"])))
        sees = "whole image" if row["radius"] is None else f"r = {row['radius']}"
        said = (f"{row['parameters'] / 1e6:.2f} M", row["resolution"], objects, row["labels"], sees)
        lines.append(
            "| " + " | ".join(map(str, (name, *said, f"{row['images']:,}", f"{row['error']:.3g}"))) + " |"
        )
    return "\n".join(lines) + "\n"
