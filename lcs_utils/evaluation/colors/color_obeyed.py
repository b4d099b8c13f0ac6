"""How many of the asked colors a net obeys, compared with a net that ignores them (App. E.4): samples are a
mixture of scenes in which 0, 1, ... objects obey.
"""

from collections.abc import Sequence
from functools import cache

import numpy as np
from jaxtyping import Float, Int

from lcs_utils.evaluation.colors.color import LARGEST_K, ColorRow, N, decode
from lcs_utils.stats import LEVEL, Interval, bounded, read_only

MOST_OBEYED = LARGEST_K - 1  # when all colors are asked for, any object shows one
MOST = 10  # objects that CLEVR's margins leave room for; samples with more are treated as having this many
RESAMPLES, STEPS = 500, 300  # of the bootstrap; of expectation maximization


def covered(colors: int, objects: int) -> Float[np.ndarray, "colors+1"]:
    """Probability that `objects` randomly colored objects show exactly 0, 1, ... of `colors` given colors."""
    chance = np.zeros(colors + 1)
    chance[0] = 1
    for _ in range(objects):
        new = np.arange(colors, -1, -1) / N  # how likely one more object shows one more of them
        chance = chance * (1 - new) + np.concatenate([[0], (chance * new)[:-1]])
    return chance


@cache
def table() -> dict[tuple[int, int], Float[np.ndarray, "obeyed placed"]]:
    """{(K, objects): probability of `placed` given `obeyed`}, exact: each obeying object shows its own asked
    color, all others have random colors.

    The null of "conditions obeyed" for colors, in families that ask for each color at most once; for places
    the null is the net's own images (`judged.obeyed`).
    """
    found = {}
    for k in range(1, LARGEST_K + 1):
        for objects in range(MOST + 1):
            rows = np.zeros((k + 1, k + 1))
            for obeyed in range(k + 1):
                told = min(obeyed, objects)  # no more can obey than there are objects
                rows[obeyed, told:] = covered(k - told, objects - told)
            found[k, objects] = read_only(rows)
    return found


def mixture(
    likelihood: Float[np.ndarray, "kinds obeyed"],
    samples: Float[np.ndarray, "draws kinds"],
    steps: int = STEPS,
) -> Float[np.ndarray, "draws kinds obeyed"]:
    """Posterior probability of 0, 1, ... obeyed for each kind of sample, with the mixture fitted to each draw
    by maximum likelihood (EM).

    `samples` is the number of samples of each kind in each draw.
    """
    weight = np.full((len(samples), likelihood.shape[1]), 1 / likelihood.shape[1])
    total = samples.sum(1, keepdims=True)
    for _ in range(steps):
        weight = weight * ((samples / np.maximum(weight @ likelihood.T, 1e-300)) @ likelihood) / total
    joint = weight[:, None] * likelihood[None]
    return joint / np.maximum(joint.sum(2, keepdims=True), 1e-300)


def _obeyed(
    k: int, kinds: Int[np.ndarray, "kinds 2"], samples: Float[np.ndarray, "draws kinds"]
) -> Float[np.ndarray, "draws"]:
    """Mean number of conditions obeyed in each draw; `kinds` are (placed, objects)."""
    likelihood = np.array([table()[k, min(max(count, place), MOST)][:, place] for place, count in kinds])
    each = np.minimum(np.arange(k + 1)[None], kinds[:, 1:])
    return (samples * (mixture(likelihood, samples) * each).sum(2)).sum(1) / samples.sum(1)


def _deaf(
    k: int, counts: Sequence[int], random: np.random.Generator
) -> tuple[Int[np.ndarray, "kinds 2"], Float[np.ndarray, "draws kinds"]]:
    """Kinds of samples (placed, objects), and draws of them: `counts` objects in random colors."""
    numbers, often = np.unique(counts, return_counts=True)
    laws = {n: table()[k, min(n, MOST)][0] for n in numbers}
    shown = [(place, n, laws[n][place] * of) for n, of in zip(numbers, often) for place in range(k + 1)]
    shown = [(place, n, chance) for place, n, chance in shown if chance]
    chances = np.array([chance for *_, chance in shown]) / len(counts)
    draws = random.multinomial(len(counts), chances / chances.sum(), RESAMPLES)
    return np.array([(place, n) for place, n, _ in shown]), draws.astype(float)


def conditions_obeyed(rows: Sequence[ColorRow], k: int, seed: int = 0) -> Interval:
    """Mean number of the K asked colors that one net's samples obey, whatever else they show, with its
    bootstrap interval (App. E.4).

    Samples are modeled as a mixture of scenes in which 0, 1, ... objects obey. Choice: with few samples the
    likelihood is biased upward where few obey; the bootstrap's estimate of that bias is subtracted, from the
    interval, too. The null is a net that draws as many objects in random colors: if one in forty of its draws
    comes out higher, the interval begins at 0. Raises ValueError without rows of that K, for another K than
    1..7 (when all colors are asked for, any object shows one of them), and for families that ask for a color
    twice.
    """
    mine = [row for row in rows if row.k == k]
    if not mine or not 1 <= k <= MOST_OBEYED:
        raise ValueError(
            f"conditions obeyed need rows of K = {k}, within 1..{MOST_OBEYED}; there are "
            f"{sorted({row.k for row in rows})}"
        )
    if any(decode(row.asked).max() > 1 for row in mine):
        raise ValueError(
            "conditions obeyed are counted where each color is asked for once; this family repeats colors"
        )
    kinds, counts = np.unique([(row.placed, row.count) for row in mine], axis=0, return_counts=True)
    random = np.random.default_rng(seed)
    draws = random.multinomial(len(mine), counts / len(mine), RESAMPLES)
    obeyed = _obeyed(k, kinds, np.concatenate([counts[None], draws]).astype(float))
    found = np.clip(obeyed - (obeyed[1:].mean() - obeyed[0]), 0, k)
    own = bounded(found[0], found[1:], len(mine), float(k))
    null = _obeyed(k, *_deaf(k, [row.count for row in mine], random))
    return own if obeyed[0] > np.quantile(null, (1 + LEVEL) / 2) else own._replace(low=0.0)
