"""Intervals and correlations: bootstrap draws over samples, conditions and trainings, exact bounds, ranks."""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, UInt

from lcs_utils.checks import as_array, check_count, check_flag, check_number, shown

LEVEL = 0.95
RESAMPLES = 2000


class Interval(NamedTuple):
    """A mean or a rate, and its bootstrap interval of level LEVEL."""

    value: float
    low: float
    high: float


def say_interval(value: Interval) -> str:
    """`0.87 [0.85, 0.88]`."""
    return f"{value.value:z.2f} [{value.low:z.2f}, {value.high:z.2f}]"


def as_dicts(value: Any) -> Any:
    """Named tuples as dicts by their fields, also inside dicts, for JSON."""
    if isinstance(value, tuple) and hasattr(value, "_asdict"):
        value = value._asdict()
    return {key: as_dicts(each) for key, each in value.items()} if isinstance(value, dict) else value


def read_only(array: np.ndarray) -> np.ndarray:
    """The array itself, locked: what a cache hands out is the same for all who ask, so none may change it."""
    array.setflags(write=False)
    return array


@lru_cache(maxsize=128)
def how_often(n: int, size: int, resamples: int, seed: int) -> UInt[np.ndarray, "resamples n"]:
    """How often each of n values is among `size` drawn with replacement; cached, since every net and measure
    needs the same. Read-only.
    """
    drawn = np.random.default_rng(seed).multinomial(size, np.full(n, 1 / n), resamples)
    return read_only(drawn.astype(np.min_scalar_type(size)))


def resampled(
    values: Float[np.ndarray, "samples ..."], seed: int, size: int | None = None, resamples: int = RESAMPLES
) -> Float[np.ndarray, "resamples ..."]:
    """Means of `size` values (default: as many as there are) drawn with replacement, `resamples` times.

    Raises ValueError without values or for anything but numbers; NaN (undefined) stays NaN.
    """
    values = np.asarray(values)
    if not values.ndim or not len(values) or values.dtype.kind not in "fiub":
        raise ValueError(f"values must be numbers [samples, ...], at least one; got {shown(values)}")
    check_count("seed", seed)
    check_count("resamples", resamples, 1)
    size = len(values) if size is None else check_count("size", size, 1)
    return how_often(len(values), size, resamples, seed) @ values.astype(float) / size


def bounded(
    value: float, draws: Float[np.ndarray, "draws"], samples: int, most: float | None = None
) -> Interval:
    """`value` and the quantiles of its bootstrap `draws`.

    Choice: equal values resample to themselves; where all are 0, or all `most`, the exact binomial bound
    (Clopper-Pearson) is used instead, most (1 - ((1 - LEVEL) / 2)^(1/samples)) away.
    """
    value = float(as_array("value", value, (), finite=False))  # nan where nothing is defined
    draws = as_array("draws", draws, ("draws",), finite=False)
    if not len(draws):
        raise ValueError("an interval needs at least one draw, got []")
    check_count("samples", samples, 1)
    if most is not None:
        check_number("most", most, 0, above=True)
    low, high = np.quantile(draws, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    if most and high - low < 1e-6 and min(value, most - value) < 1e-6:
        bound = most * (1 - ((1 - LEVEL) / 2) ** (1 / samples))
        low, high = (0.0, bound) if value < 1e-6 else (most - bound, most)
    return Interval(*(round(float(v), 4) for v in (value, low, high)))


def interval(*groups: Float[np.ndarray, "samples"], seed: int = 0, share: bool = False) -> Interval:
    """The mean over groups of values, each group with the same weight, and its bootstrap interval; a `share`
    lies in [0, 1].

    Raises ValueError without values, and for a share outside [0, 1].
    """
    arrays = [as_array("a group", group, ("samples",), finite=False) for group in groups]
    check_count("seed", seed)
    check_flag("share", share)
    if not arrays or not all(map(len, arrays)):
        raise ValueError(f"an interval needs at least one value, got {shown(groups)}")
    values = np.concatenate(arrays)
    if share and len(wrong := values[(values < -1e-9) | (values > 1 + 1e-9)]):
        raise ValueError(f"a share must be in [0, 1], got {wrong[0]:g}")
    draws = np.mean([resampled(values, seed + i) for i, values in enumerate(arrays)], axis=0)
    return bounded(
        np.mean([values.mean() for values in arrays]),
        draws,
        min(map(len, arrays)) * len(arrays),  # each group weighs the same
        1.0 if share else None,
    )


def weights(conditions: Sequence[str], seed: int) -> Float[np.ndarray, "draws samples"]:
    """How often each sample counts: in row 0 once each, then in RESAMPLES bootstrap draws of conditions, and
    of samples within each. Read-only.
    """
    return _weights(tuple(conditions), seed)


@lru_cache(maxsize=64)  # nets asked for the same conditions have the same draws
def _weights(conditions: tuple[str, ...], seed: int) -> Float[np.ndarray, "draws samples"]:
    n, rng = len(conditions), np.random.default_rng(seed)
    groups = [np.flatnonzero([c == name for c in conditions]) for name in dict.fromkeys(conditions)]
    drawn = np.ones((1 + RESAMPLES, n))
    if len(groups) in (1, n):  # one condition for all, or one for each sample: either way samples are drawn
        drawn[1:] = rng.multinomial(n, np.full(n, 1 / n), RESAMPLES)
    else:
        picked = rng.multinomial(len(groups), np.full(len(groups), 1 / len(groups)), RESAMPLES)
        for group, often in zip(groups, picked.T, strict=True):
            drawn[1:, group] = rng.multinomial(often * len(group), np.full(len(group), 1 / len(group)))
    return read_only(drawn)


def drawn_mean(
    values: Float[np.ndarray, "samples"], drawn: Float[np.ndarray, "draws samples"]
) -> Float[np.ndarray, "draws"]:
    """The mean of the values in each draw."""
    return drawn @ values / drawn.sum(1)


def over_trainings(each: Sequence[Float[np.ndarray, "draws"]], seed: int) -> Float[np.ndarray, "draws"]:
    """The mean over training seeds: in draw 0 of all seeds, then of as many drawn with replacement.

    Draw i is the same in all of them: trainings share their conditions and start from the same noise.
    """
    table = np.stack(each)
    picked = np.random.default_rng(seed).integers(len(table), size=(len(table), table.shape[1]))
    picked[:, 0] = np.arange(len(table))
    return table[picked, np.arange(table.shape[1])].mean(0)


def rank_correlation(a: Sequence[float], b: Sequence[float]) -> float:
    """Spearman's rank correlation in [-1, 1], ties at their mean rank. Raises ValueError unless both lists
    vary over >= 3 points and are finite.
    """
    finite = bool(np.isfinite([*a, *b]).all())
    if not finite or len(a) != len(b) or len(a) < 3 or len(set(a)) < 2 or len(set(b)) < 2:
        raise ValueError(
            "a rank correlation needs two varying lists of 3 or more finite numbers, got "
            f"{list(a)} and {list(b)}"
        )

    from scipy.stats import rankdata  # slow to import

    return float(np.corrcoef(rankdata(a), rankdata(b))[0, 1])
