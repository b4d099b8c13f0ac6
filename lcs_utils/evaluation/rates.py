"""Rates with bootstrap intervals, and K: the largest number of locations up to which a net succeeds (App. E.2, Tables 1, 2)."""

import re
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, UInt

from lcs_utils import checkpoints
from lcs_utils.evaluation.rows import PLAUSIBLE, Row, of_net
from lcs_utils.experiments import EXPERIMENTS, Experiment

LEVEL = 0.95
RESAMPLES = 2000
NUMBERS = ("count", "extras")  # measures in objects; all others are shares


class Interval(NamedTuple):
    """A mean or a rate, and its bootstrap interval of level LEVEL."""

    value: float
    low: float
    high: float


class LargestK(NamedTuple):
    """K by a rule, its bootstrap interval, and whether success reached the largest K measured, so that K may be larger."""

    value: int
    low: int
    high: int
    capped: bool


class Rule(NamedTuple):
    """A sample's success, the share of samples that must exceed `threshold`, and how many samples are looked at (None: all)."""

    succeeds: Callable[[Row, Experiment], bool]
    samples: int | None
    threshold: float
    words: str


def trained(net: str) -> Experiment:
    """The experiment behind a row's net: exp2 for exp2/unit, exp2_seed1, exp2@88000; of your own nets what their row says.

    Raises ValueError for a net that is neither one of the paper's nor a checkpoint.
    """
    base = re.sub(r"(_seed\d+)?(@\d+)?(/\w+)?$", "", net)
    if base not in EXPERIMENTS:
        for name in (net, net.partition("/")[0], base):
            try:
                row = checkpoints.kept_row(name)
            except checkpoints.CheckpointError:
                continue
            return Experiment(base, tuple(row["objects"]), row["labels"], row["radius"])
        raise ValueError(
            f"unknown experiment {base!r}; allowed: {', '.join(EXPERIMENTS)}, your checkpoints, and what you add: "
            f"experiments.EXPERIMENTS[{base!r}] = Experiment({base!r}, objects=(1, 3), labels='all')"
        )
    return EXPERIMENTS[base]


def needed(k: int, trained_maximum: int) -> int:
    """How many of K conditioned cells must hold an object (App. E.2): all, or all but one beyond the trained maximum.

    Choice: beyond it a sample must also place more objects than any training scene had. Otherwise a net trained on one
    object that always draws one would reach K = 2; the paper gives it K = 1 (Table 1).
    """
    return k if k <= trained_maximum else max(k - 1, trained_maximum + 1)


def number_and_places(row: Row, trained_on: Experiment) -> bool:
    """App. E.2 but for image quality: exactly K objects, or K-1 to K+1 beyond the trained maximum, in place.

    Choice: the tolerance (lost in our text) is one object. Choice: "in about the right places" is within one cell. Choice: as
    many more objects may stand anywhere as Tables 1 and 2 write in parentheses: none with all or random labels, one where one
    is dropped, all but one of a training image with one label.
    """
    most = trained_on.objects[1]
    more = {"all": 0, "random": 0, "drop_one": min(most - 1, 1)}.get(trained_on.labels, most - 1)
    return row.placed >= needed(row.k, most) and row.count <= row.k + (row.k > most) + more


def paper_success(row: Row, trained_on: Experiment) -> bool:
    """A sample succeeds as App. E.2 is best read: number and places are right, and so is the image.

    Choice: image quality is the counter's plausibility.
    """
    return number_and_places(row, trained_on) and row.plausibility >= PLAUSIBLE


def success(row: Row, trained_on: Experiment) -> bool:
    """A sample succeeds: `needed` cells hold an object, fewer objects than the trained maximum stand elsewhere, plausible.

    Choice: the paper's tolerances (App. E.2) are not known; these are ours.
    """
    most = trained_on.objects[1]
    return row.placed >= needed(row.k, most) and row.extras < most and row.plausibility >= PLAUSIBLE


PAPER_RULE = Rule(
    paper_success, 8, 0.25,
    "the paper's: 8 samples, more than 25 % succeed, all cells filled and no other object (beyond training K-1 to K+1 objects and "
    "more than in training), but for as many extra ones as its tables allow: with one label all but one of a training image",
)  # fmt: skip
PAPER_RULE_ALL = PAPER_RULE._replace(samples=None)  # the same on all our samples
PLACES_RULE = PAPER_RULE_ALL._replace(succeeds=number_and_places)  # the same, however the image looks
OUR_RULE = Rule(
    success, None, 0.5,
    "ours: all samples, more than half succeed, all cells filled (beyond training K-1, and more than in training), "
    "fewer extras than the trained maximum",
)  # fmt: skip


def by_k(rows: Iterable[Row], net: str, family: str = "test") -> dict[int, list[Row]]:
    """One net's rows by K, ascending, each in the order of its samples. Raises ValueError when there are none."""
    found: dict[int, list[Row]] = {}
    for row in sorted(of_net(rows, net, family)):
        found.setdefault(row.k, []).append(row)
    if not found:
        raise ValueError(f"no rows for net {net!r}; measure it: python -m lcs_utils.evaluation.length_generalization {net}")
    return dict(sorted(found.items()))


def measures(rows: list[Row], trained_on: Experiment) -> dict[str, Float[np.ndarray, "samples"]]:
    """What each sample of one K says (App. E.2): 0 or 1, but `count`, `extras` (objects) and `filled` (share of the K cells).

    exact: K objects; within_one: K-1 to K+1; at_places: every conditioned cell holds an object within one cell; plausible;
    success: as `success` says.
    """
    k, count, placed = (np.array([getattr(r, name) for r in rows], float) for name in ("k", "count", "placed"))
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


@lru_cache(maxsize=128)
def how_often(n: int, size: int, resamples: int, seed: int) -> UInt[np.ndarray, "resamples n"]:
    """How often each of n values is among `size` drawn with replacement; kept, since every net and measure asks for the same."""
    return np.random.default_rng(seed).multinomial(size, np.full(n, 1 / n), resamples).astype(np.min_scalar_type(size))


def resampled(
    values: Float[np.ndarray, "samples ..."], seed: int, size: int | None = None, resamples: int = RESAMPLES
) -> Float[np.ndarray, "resamples ..."]:
    """Means of `size` values (default: as many as there are) drawn with replacement, `resamples` times."""
    size = size or len(values)
    return how_often(len(values), size, resamples, seed) @ values / size


def bounded(value: float, draws: Float[np.ndarray, "draws"], samples: int, most: float | None = None) -> Interval:
    """`value` and the quantiles of its bootstrap `draws`.

    Choice: values that are all the same resample to themselves; where all are 0, or all `most`, the exact binomial
    bound (Clopper-Pearson) stands in, most (1 - ((1 - LEVEL) / 2)^(1/samples)) away.
    """
    low, high = np.quantile(draws, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    if most and high - low < 1e-6 and min(value, most - value) < 1e-6:
        bound = most * (1 - ((1 - LEVEL) / 2) ** (1 / samples))
        low, high = (0.0, bound) if value < 1e-6 else (most - bound, most)
    return Interval(*(round(float(v), 4) for v in (value, low, high)))


def interval(*groups: Float[np.ndarray, "samples"], seed: int = 0, share: bool = False) -> Interval:
    """The mean of groups of values, each group weighing the same, and its bootstrap interval; a `share` lies in [0, 1].

    Raises ValueError without values.
    """
    if not groups or not all(map(len, groups)):
        raise ValueError("an interval needs at least one value")
    draws = np.mean([resampled(values, seed + i) for i, values in enumerate(groups)], axis=0)
    return bounded(np.mean([values.mean() for values in groups]), draws, sum(map(len, groups)), 1.0 if share else None)


def rates(rows: Iterable[Row], net: str, family: str = "test", seed: int = 0) -> dict[int, dict[str, Interval]]:
    """{K: {measure: Interval}} of one net, for the measures of `measures` (App. E.2, Table 1)."""
    found = {k: measures(group, trained(net)) for k, group in by_k(rows, net, family).items()}
    return {k: {n: interval(v, seed=seed, share=n not in NUMBERS) for n, v in values.items()} for k, values in found.items()}


def mean_over(rows: Sequence[Row], net: str, measure: str, ks: Sequence[int], seed: int = 0) -> Interval | None:
    """The mean of `measure` over several K, each K weighing the same, with its bootstrap interval; None without rows."""
    if not set(ks) <= {row.k for row in of_net(rows, net)}:
        return None
    found = by_k(rows, net)
    values = [measures(found[k], trained(net))[measure] for k in ks]
    return interval(*values, seed=seed, share=measure not in NUMBERS)


def stages(rows: Iterable[NamedTuple], net: str) -> dict[int, str]:
    """{training images: name} of the measured snapshots `net`@IMAGES and of the finished net, ascending."""
    names = {name for name in {row.net for row in rows} if re.fullmatch(rf"{net}(@\d+)?", name)}
    return dict(sorted((checkpoints.images(name), name) for name in names))


def along_training(rows: Sequence[Row], net: str, ks: dict[str, Sequence[int]]) -> dict[int, dict[str, Interval]]:
    """{training images: {measure: its `mean_over` ks[measure]}} of the snapshots of `net` for which all of those were measured."""
    found = {n: {name: mean_over(rows, stage, name, over) for name, over in ks.items()} for n, stage in stages(rows, net).items()}
    return {images: values for images, values in found.items() if None not in values.values()}


def largest_k(rows: Iterable[Row], net: str, rule: Rule = OUR_RULE, family: str = "test", seed: int = 0) -> LargestK:
    """The largest K such that every k = 1..K succeeds by `rule` (App. E.2), with its bootstrap interval over samples.

    The value looks at the first `rule.samples` samples of each k; the interval says which K that many samples, drawn from
    all that there are, would have given. Raises ValueError when k = 1 was not measured.
    """
    groups, trained_on = by_k(rows, net, family), trained(net)
    if 1 not in groups:
        raise ValueError(f"K of net {net!r} needs rows for k = 1, 2, ...; there are {list(groups)}")
    measured = next(k for k in range(1, max(groups) + 2) if k not in groups) - 1  # up to the first gap
    good = [np.array([rule.succeeds(row, trained_on) for row in groups[k]], float) for k in range(1, measured + 1)]
    passes = lambda shares: np.cumprod(np.asarray(shares) > rule.threshold, axis=0).sum(0)
    value = int(passes([values[: rule.samples].mean() for values in good]))
    sizes = [min(rule.samples or len(values), len(values)) for values in good]
    draws = passes([resampled(values, seed + k, size) for k, (values, size) in enumerate(zip(good, sizes, strict=True))])
    low, high = np.quantile(draws, [(1 - LEVEL) / 2, (1 + LEVEL) / 2], method="inverted_cdf")
    return LargestK(value, int(low), int(high), value == measured)
