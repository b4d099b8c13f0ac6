"""Rates with bootstrap intervals, and K: the largest number of locations up to which a net succeeds (App.
E.2, Tables 1, 2).
"""

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from lcs_utils import nets
from lcs_utils.checks import (
    check_choice,
    check_count,
    check_counts,
    check_kind,
    check_text,
)
from lcs_utils.evaluation.rows import PLAUSIBLE, Row, check_row, check_rows, of_net
from lcs_utils.experiments import Experiment
from lcs_utils.nets import trained
from lcs_utils.stats import LEVEL, Interval, interval, resampled

MEASURES = ("exact", "within_one", "at_places", "filled", "count", "extras", "plausible", "success")
NUMBERS = ("count", "extras")  # measures in objects; all others are shares


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
    one cell. Choice: as
    many more objects may stand anywhere as Tables 1 and 2 write in parentheses: none with all or random
    labels, one where one is dropped, all but one of a training image with one label.
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
    "K-1 to K+1 objects and "
    "more than in training), but for as many extra ones as its tables allow: with one label all but one of "
    "a training image",
)
PAPER_RULE_ALL = PAPER_RULE._replace(samples=None)  # the same on all our samples
PLACES_RULE = PAPER_RULE_ALL._replace(succeeds=number_and_places)  # the same, however the image looks
OUR_RULE = Rule(
    success,
    None,
    0.5,
    "ours: all samples, more than half succeed, all cells filled (beyond training K-1, and more than in "
    "training), "
    "fewer extras than the trained maximum",
)


def by_k(rows: Iterable[Row], net: str, family: str = "test") -> dict[int, list[Row]]:
    """One net's rows by K, ascending, each in the order of its samples. Raises ValueError when there are
    none.
    """
    check_text("net", net)
    rows = check_rows(rows)
    found: dict[int, list[Row]] = {}
    for row in sorted(of_net(rows, net, family)):
        found.setdefault(row.k, []).append(row)
    if not found:
        raise ValueError(
            f"no rows for net {net!r}; measure it: python -m lcs_utils.evaluation.length_generalization {net}"
        )
    return dict(sorted(found.items()))


def measures(rows: list[Row], trained_on: Experiment) -> dict[str, Float[np.ndarray, "samples"]]:
    """What each sample of one K says (App. E.2): 0 or 1, but `count`, `extras` (objects) and `filled`
    (share of the K cells).

    exact: K objects; within_one: K-1 to K+1; at_places: every conditioned cell holds an object within one
    cell; plausible;
    success: as `success` says.
    """
    check_kind("trained_on", trained_on, Experiment, "an Experiment")
    rows = check_rows(rows)
    k, count, placed = (
        np.array([getattr(r, name) for r in rows], float) for name in ("k", "count", "placed")
    )
    return {
        "exact": (count == k) * 1.0,
        "within_one": (np.abs(count - k) <= 1) * 1.0,
        "at_places": (placed == k) * 1.0,
        "filled": np.where(k > 0, placed / np.maximum(k, 1), 1.0),
        "count": count,
        "extras": count - placed,
        "plausible": np.array([r.plausibility >= PLAUSIBLE for r in rows], float),
        "success": np.array([success(r, trained_on) for r in rows], float),
    }


def rates(
    rows: Iterable[Row], net: str, family: str = "test", seed: int = 0
) -> dict[int, dict[str, Interval]]:
    """{K: {measure: Interval}} of one net, for the measures of `measures` (App. E.2, Table 1)."""
    found = {k: measures(group, trained(net)) for k, group in by_k(rows, net, family).items()}
    return {
        k: {n: interval(v, seed=seed, share=n not in NUMBERS) for n, v in values.items()}
        for k, values in found.items()
    }


def mean_over(
    rows: Sequence[Row], net: str, measure: str, ks: Sequence[int], seed: int = 0
) -> Interval | None:
    """The mean of `measure` over several K, each K weighing the same, with its bootstrap interval; None
    without rows. Raises ValueError for another measure.
    """
    check_choice("measure", measure, MEASURES)
    ks = check_counts("ks", ks, least=1)
    rows = check_rows(rows)
    if not set(ks) <= {row.k for row in of_net(rows, net)}:
        return None
    found = by_k(rows, net)
    values = [measures(found[k], trained(net))[measure] for k in ks]
    return interval(*values, seed=seed, share=measure not in NUMBERS)


def along_training(
    rows: Sequence[Row], net: str, ks: dict[str, Sequence[int]]
) -> dict[int, dict[str, Interval]]:
    """{training images: {measure: its `mean_over` ks[measure]}} of the snapshots of `net` for which all of
    those were measured.
    """
    found = {}
    for images, stage in nets.along({row.net for row in rows}, net).items():
        values = {name: mean_over(rows, stage, name, over) for name, over in ks.items()}
        measured = {name: value for name, value in values.items() if value is not None}
        if len(measured) == len(values):
            found[images] = measured
    return found


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
    groups, trained_on = by_k(rows, net, family), trained(net)
    if 1 not in groups:
        raise ValueError(f"K of net {net!r} needs rows for k = 1, 2, ...; there are {list(groups)}")
    measured = next(k for k in range(1, max(groups) + 2) if k not in groups) - 1  # up to the first gap
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


def with_k(
    rows: Sequence[Row], found: dict[int, dict[str, Interval]], net: str, most: int = 6
) -> dict[int, dict[str, Interval]]:
    """`along_training` with "K", by the paper's rule on all samples up to K = `most`, at every snapshot."""
    early = [row for row in rows if row.k <= most]
    names = nets.along({row.net for row in rows}, net)
    return {
        images: values | {"K": Interval(*largest_k(early, names[images], PAPER_RULE_ALL)[:3])}
        for images, values in found.items()
    }
