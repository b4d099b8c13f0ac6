"""Bootstrap draws that cover training seeds, conditions and noise: the outer ones are drawn first, then those within."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float

from lcs_utils.evaluation.rates import RESAMPLES


def weights(conditions: Sequence[str], seed: int) -> Float[np.ndarray, "draws samples"]:
    """How often each sample counts: first all once, then RESAMPLES bootstrap draws of conditions, and of samples within each."""
    n, rng = len(conditions), np.random.default_rng(seed)
    groups = [np.flatnonzero([c == name for c in conditions]) for name in dict.fromkeys(conditions)]
    drawn = np.ones((1 + RESAMPLES, n))
    if len(groups) in (1, n):  # one condition for all, or one for each sample: either way samples are drawn
        drawn[1:] = rng.multinomial(n, np.full(n, 1 / n), RESAMPLES)
        return drawn
    picked = rng.multinomial(len(groups), np.full(len(groups), 1 / len(groups)), RESAMPLES)
    for group, often in zip(groups, picked.T, strict=True):
        drawn[1:, group] = rng.multinomial(often * len(group), np.full(len(group), 1 / len(group)))
    return drawn


def mean(
    values: Float[np.ndarray, "samples"], drawn: Float[np.ndarray, "draws samples"]
) -> Float[np.ndarray, "draws"]:
    """The mean of the values in each draw."""
    return drawn @ values / drawn.sum(1)


def over_trainings(each: Sequence[Float[np.ndarray, "draws"]], seed: int) -> Float[np.ndarray, "draws"]:
    """The mean over training seeds: first of their values, then of as many seeds drawn with replacement, each with a draw of its own."""
    each = np.stack(each)
    if len(each) == 1:
        return each[0]
    rng, draws = np.random.default_rng(seed), each.shape[1] - 1
    picked = [each[rng.integers(len(each), size=draws), 1 + rng.permutation(draws)] for _ in each]
    return np.concatenate([[each[:, 0].mean()], np.mean(picked, 0)])
