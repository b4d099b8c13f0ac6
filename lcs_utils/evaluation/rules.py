"""When a sample succeeds, and K: the largest number of locations up to which a net succeeds (App. E.2, Tables
1, 2).
"""

from collections.abc import Callable, Iterable
from typing import NamedTuple

import numpy as np

from lcs_utils.checks import check_count, check_kind
from lcs_utils.evaluation.rows import PLAUSIBLE, Row, by_k, check_row
from lcs_utils.experiments import Experiment
from lcs_utils.nets import trained
from lcs_utils.stats import LEVEL, resampled


class LargestK(NamedTuple):
    """K by a rule, its bootstrap interval, and whether success reached the largest K measured, so that K
    may be larger.
    """

    value: int
    low: int
    high: int
    capped: bool


class Rule(NamedTuple):
    """A sample's success, the share of samples that must exceed `threshold`, and how many samples are
    looked at (None: all).
    """

    succeeds: Callable[[Row, Experiment], bool]
    samples: int | None
    threshold: float
    words: str


def needed(k: int, trained_maximum: int) -> int:
    """How many of K conditioned cells must hold an object (App. E.2): all, or all but one beyond the
    trained maximum.

    Choice: beyond it a sample must also place more objects than any training scene had. Otherwise a net
    trained on one object that always draws one would reach K = 2; the paper gives it K = 1 (Table 1).
    """
    check_count("k", k)
    check_count("trained_maximum", trained_maximum)
    return k if k <= trained_maximum else max(k - 1, trained_maximum + 1)


def number_and_places(row: Row, trained_on: Experiment) -> bool:
    """App. E.2 but for image quality: exactly K objects, or K-1 to K+1 beyond the trained maximum, in place.

    Choice: the tolerance (lost in our text) is one object. Choice: "in about the right places" is within
    one cell. Choice: as many more objects may stand anywhere as Tables 1 and 2 write in parentheses: none
    with all or random labels, one where one is dropped, all but one of a training image with one label.
    """
    check_row("row", row)
    check_kind("trained_on", trained_on, Experiment, "an Experiment")
    most = trained_on.objects[1]
    more = {"all": 0, "random": 0, "drop_one": min(most - 1, 1)}.get(trained_on.labels, most - 1)
    return row.placed >= needed(row.k, most) and row.count <= row.k + (row.k > most) + more


def paper_success(row: Row, trained_on: Experiment) -> bool:
    """A sample succeeds as App. E.2 is best read: number and places are right, and so is the image.

    Choice: image quality is the counter's plausibility.
    """
    return number_and_places(row, trained_on) and row.plausibility >= PLAUSIBLE


def success(row: Row, trained_on: Experiment) -> bool:
    """A sample succeeds: `needed` cells hold an object, fewer objects than the trained maximum stand
    elsewhere, plausible.

    Choice: the paper's tolerances (App. E.2) are not known; these are ours.
    """
    check_row("row", row)
    check_kind("trained_on", trained_on, Experiment, "an Experiment")
    most = trained_on.objects[1]
    return row.placed >= needed(row.k, most) and row.extras < most and row.plausibility >= PLAUSIBLE


PAPER_RULE = Rule(
    paper_success,
    8,
    0.25,
    "the paper's: 8 samples, more than 25 % succeed, all cells filled and no other object (beyond training "
    "K-1 to K+1 objects and more than in training), but for as many extra ones as its tables allow: with one "
    "label all but one of a training image",
)
PAPER_RULE_ALL = PAPER_RULE._replace(samples=None)  # the same on all our samples
PLACES_RULE = PAPER_RULE_ALL._replace(succeeds=number_and_places)  # the same, however the image looks
OUR_RULE = Rule(
    success,
    None,
    0.5,
    "ours: all samples, more than half succeed, all cells filled (beyond training K-1, and more than in "
    "training), fewer extras than the trained maximum",
)


def largest_k(
    rows: Iterable[Row], net: str, rule: Rule = OUR_RULE, family: str = "test", seed: int = 0
) -> LargestK:
    """The largest K such that every k = 1..K succeeds by `rule` (App. E.2), with its bootstrap interval
    over samples.

    The value looks at the first `rule.samples` samples of each k; the interval says which K that many
    samples, drawn from all that there are, would have given. Raises ValueError when k = 1 was not measured.
    """
    check_kind("rule", rule, Rule, "a Rule")
    check_count("seed", seed)
    groups = by_k(rows, net, family)
    if 1 not in groups:
        raise ValueError(f"K of net {net!r} needs rows for k = 1, 2, ...; there are {list(groups)}")
    measured = next(k for k in range(1, max(groups) + 2) if k not in groups) - 1  # up to the first gap
    trained_on = trained(net, groups[1][0].preset)
    good = [
        np.array([rule.succeeds(row, trained_on) for row in groups[k]], float) for k in range(1, measured + 1)
    ]

    def passes(shares):
        return np.cumprod(np.asarray(shares) > rule.threshold, axis=0).sum(0)

    value = int(passes([values[: rule.samples].mean() for values in good]))
    sizes = [min(rule.samples or len(values), len(values)) for values in good]
    draws = passes(
        [resampled(values, seed + k, size) for k, (values, size) in enumerate(zip(good, sizes, strict=True))]
    )
    low, high = np.quantile(draws, [(1 - LEVEL) / 2, (1 + LEVEL) / 2], method="inverted_cdf")
    return LargestK(value, int(low), int(high), value == measured)
