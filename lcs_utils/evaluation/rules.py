"""When a sample succeeds, and K, the most locations up to which a net succeeds (App. E.2, Tables 1, 2)."""

from collections.abc import Callable, Iterable
from typing import NamedTuple

import numpy as np

from lcs_utils.checks import check_count, check_kind
from lcs_utils.evaluation.rows import PLAUSIBLE, Row, by_k, check_row
from lcs_utils.experiments import Experiment
from lcs_utils.nets import trained
from lcs_utils.stats import LEVEL, resampled


class LargestK(NamedTuple):
    """K by a rule, its bootstrap interval, and whether all K measured succeed, so that K may be larger."""

    value: int
    low: int
    high: int
    capped: bool


class Rule(NamedTuple):
    """When a sample succeeds, how many samples are used (None: all), and the share of successes to exceed."""

    succeeds: Callable[[Row, Experiment], bool]
    samples: int | None
    threshold: float
    words: str


def needed(k: int, trained_maximum: int) -> int:
    """How many of K conditioned cells must hold an object (App. E.2): all, or all but one beyond training.

    Choice: beyond training a sample must also place more objects than any training scene had. Otherwise a net
    trained on one object that always draws one would reach K = 2; the paper gives it K = 1 (Table 1).
    """
    check_count("k", k)
    check_count("trained_maximum", trained_maximum)
    return k if k <= trained_maximum else max(k - 1, trained_maximum + 1)


def number_and_places(row: Row, trained_on: Experiment) -> bool:
    """App. E.2 without image quality: exactly K objects in place, or K-1 to K+1 beyond the trained maximum.

    Choice: the tolerance (missing in our copy of the paper) is one object. Choice: "in about the right
    places" is within one cell. Choice: extra objects may stand anywhere, as many as Tables 1 and 2 give in
    parentheses: none with all or random labels, one with one label dropped, all but one of a training image
    with one label, two at most of a local net.
    """
    check_row("row", row)
    check_kind("trained_on", trained_on, Experiment, "an Experiment")
    most = trained_on.objects[1]
    one_label = most - 1 if trained_on.radius is None else min(most - 1, 2)
    more = {"all": 0, "random": 0, "drop_one": min(most - 1, 1)}.get(trained_on.labels, one_label)
    return row.placed >= needed(row.k, most) and row.count <= row.k + (row.k > most) + more


def paper_success(row: Row, trained_on: Experiment) -> bool:
    """Whether a sample succeeds by our best reading of App. E.2: number, places and image are right.

    Choice: image quality is the counter's plausibility.
    """
    return number_and_places(row, trained_on) and row.plausibility >= PLAUSIBLE


def success(row: Row, trained_on: Experiment) -> bool:
    """Whether a sample succeeds by our rule: plausible, `needed` cells filled, extras < trained maximum.

    Choice: the paper's tolerances (App. E.2) are not known; these are ours.
    """
    check_row("row", row)
    check_kind("trained_on", trained_on, Experiment, "an Experiment")
    most = trained_on.objects[1]
    return row.placed >= needed(row.k, most) and row.extras < most and row.plausibility >= PLAUSIBLE


# Choice: over a quarter of samples at every K. App. E.2 names this share beyond training, up to there only
# "exactly K objects"; but it means the largest K at which a net "sometimes succeeds".
PAPER_RULE = Rule(
    paper_success,
    8,
    0.25,
    "the paper's: more than 25% of 8 samples are plausible, with all requested cells filled and no other "
    "object (beyond training: K-1 to K+1 objects, at most one cell empty, more cells filled than a training "
    "image has objects), except for the extra objects that its tables allow (one label dropped: one; one "
    "label: all but one of a training image, of a local net two at most)",
)
PAPER_RULE_ALL = PAPER_RULE._replace(samples=None)  # the same on all our samples
PLACES_RULE = PAPER_RULE_ALL._replace(succeeds=number_and_places)  # the same, however the image looks
OUR_RULE = Rule(
    success,
    None,
    0.5,
    "ours: more than half of all samples are plausible, with all requested cells filled (beyond training: at "
    "most one empty, more filled than a training image has objects) and fewer extra objects than the largest "
    "number in a training image",
)


def largest_k(
    rows: Iterable[Row], net: str, rule: Rule = OUR_RULE, family: str = "test", seed: int = 0
) -> LargestK:
    """The largest K such that every k = 1..K succeeds by `rule` (App. E.2), with its bootstrap interval over
    samples.

    The value uses the first `rule.samples` samples of each k; the interval covers the K that this many
    samples, resampled from all available, would give. Raises ValueError when k = 1 was not measured.
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
