"""F7: does a measure of features rank the nets as their K does, or as the conditions that they obey?

Intervals are bootstraps over kinds of nets (`net_labels.kind`), the same draws for every measure, so that
two can be subtracted.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

from lcs_utils.evaluation.net_labels import UNTRAINED, kind
from lcs_utils.stats import LEVEL, RESAMPLES, rank_correlation, say_interval

OBEYED = 0.0  # Choice: the outcome of an untrained net, which draws nothing and is not sampled
TRAINED, ALL = False, True  # whether untrained nets are among those that are ranked


class Correlation(NamedTuple):
    """Spearman's rank correlation over `nets` nets, or a difference of two, and its 95% bootstrap interval,
    their `kinds` drawn with replacement.
    """

    value: float
    low: float
    high: float
    nets: int
    kinds: int


def ranked(values: Mapping[str, float], k: Mapping[str, float], untrained: bool = TRAINED) -> list[str]:
    """The nets to rank. Raises ValueError naming a trained net without an outcome `k`."""
    trained = [net for net in values if not net.startswith(UNTRAINED)]
    missing = [net for net in trained if net not in k]
    if missing:
        raise ValueError(f"{', '.join(missing)} {'has' if len(missing) == 1 else 'have'} no K")
    return [net for net in values if untrained or net in trained]


def _ranks(
    values: Float[np.ndarray, "nets"], times: Int[np.ndarray, "draws nets"]
) -> Float[np.ndarray, "draws nets"]:
    """Ranks in draws that hold each net so many times, ties at their mean rank, minus the mean rank."""
    below = (values[None] < values[:, None]) + (values[None] == values[:, None]) / 2
    return times @ below.T - times.sum(1, keepdims=True) / 2


def drawn(
    values: Mapping[str, float], k: Mapping[str, float], seed: int = 0, untrained: bool = TRAINED
) -> Float[np.ndarray, "resamples+1"]:
    """The rank correlation over all nets, then over each bootstrap draw of their kinds, with all nets of a
    kind; nan where a draw does not vary. Raises ValueError as `ranked` and `rank_correlation`.
    """
    nets = ranked(values, k, untrained)
    of = np.array([[values[net] for net in nets], [k.get(net, OBEYED) for net in nets]], float)
    value, rng, members = rank_correlation(*of.tolist()), np.random.default_rng(seed), _members(nets)
    kinds = len(members)
    times = (
        np.stack([np.bincount(rng.integers(kinds, size=kinds), minlength=kinds) for _ in range(RESAMPLES)])
        @ members
    )
    a, b = (_ranks(each, times) for each in of)
    size = np.sqrt((times * a**2).sum(1) * (times * b**2).sum(1))
    found = np.divide((times * a * b).sum(1), size, out=np.full(RESAMPLES, np.nan), where=size > 0)
    return np.array([value, *found])


def _members(nets: Sequence[str]) -> Bool[np.ndarray, "kinds nets"]:
    """For each kind, which nets are of it: trainings, sizes and changed samplings of one net are alike."""
    kinds = [kind(net) for net in nets]
    return np.array([[of == one for of in kinds] for one in dict.fromkeys(kinds)])


def _correlation(draws: Float[np.ndarray, "resamples+1"], nets: Sequence[str]) -> Correlation:
    low, high = np.nanquantile(draws[1:], [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    rounded = (round(float(v), 3) for v in (draws[0], low, high))
    return Correlation(*rounded, len(nets), len(_members(nets)))


def against_k(
    values: Mapping[str, float], k: Mapping[str, float], seed: int = 0, untrained: bool = TRAINED
) -> Correlation:
    """F7: the rank correlation over nets of a measure and K, or conditions obeyed. Raises as `drawn`."""
    return _correlation(drawn(values, k, seed, untrained), ranked(values, k, untrained))


def beyond(
    values: Mapping[str, float],
    others: Mapping[str, float],
    k: Mapping[str, float],
    seed: int = 0,
    untrained: bool = TRAINED,
) -> Correlation:
    """How much better one measure ranks the nets than another, in the same draws of nets.

    Raises ValueError if the measures cover different nets, and as `drawn`.
    """
    if list(values) != list(others):
        raise ValueError(f"both measures must be of the same nets, got {list(values)} and {list(others)}")
    apart = drawn(values, k, seed, untrained) - drawn(others, k, seed, untrained)
    return _correlation(apart, ranked(values, k, untrained))


def known(
    of: Mapping[str, float], reached: Mapping[str, float], untrained: bool = TRAINED
) -> dict[str, float]:
    """Values `of` the nets whose outcome is known, and of untrained nets if `untrained`."""
    return {net: v for net, v in of.items() if net in reached or (untrained and net.startswith(UNTRAINED))}


def correlations(
    values: Mapping[str, Mapping[str, float]],
    outcomes: Mapping[str, Mapping[str, float]],
    seed: int = 0,
    untrained: bool = TRAINED,
) -> dict[str, dict[str, Correlation]]:
    """{outcome: {measure: its rank correlation}}, over the nets whose outcome is known."""
    return {
        outcome: {
            words: against_k(known(of, reached, untrained), reached, seed, untrained)
            for words, of in values.items()
        }
        for outcome, reached in outcomes.items()
    }


def differences(
    values: Mapping[str, Mapping[str, float]],
    outcomes: Mapping[str, Mapping[str, float]],
    pairs: Sequence[tuple[str, str]],
    seed: int = 0,
    untrained: bool = TRAINED,
) -> dict[str, dict[str, Correlation]]:
    """{outcome: {"one measure, less another": how much better it ranks}}, for each pair of measures."""
    return {
        outcome: {
            f"{one}, less {other}": beyond(
                *(known(values[words], reached, untrained) for words in (one, other)),
                reached,
                seed,
                untrained,
            )
            for one, other in pairs
        }
        for outcome, reached in outcomes.items()
    }


def side(of: Correlation) -> str:
    """Where the interval lies: above zero, below it, or around it."""
    return "above zero" if of.low > 0 else "below zero" if of.high < 0 else "zero within"


def markdown(
    trained: Mapping[str, Mapping[str, Correlation]], every: Mapping[str, Mapping[str, Correlation]]
) -> str:
    """{outcome: {measure: correlation}} over trained nets and over all of them as a Markdown table, a column
    for each outcome and set of nets; each interval in words.
    """
    columns = [(outcome, of[outcome], how) for outcome in trained for of, how in ((trained, 0), (every, 1))]
    heads = []
    for outcome, of, how in columns:
        first = next(iter(of.values()))
        added = first.nets - next(iter(trained[outcome].values())).nets
        nets = f"nets, {added} untrained" if how else "trained nets"
        heads.append(f"{outcome}, {first.nets} {nets}, {first.kinds} kinds")
    lines = [f"| rank correlation with | {' | '.join(heads)} |", "|---" * (len(heads) + 1) + "|"]
    for words in next(iter(trained.values())):
        cells = [f"{say_interval(of[words])}, {side(of[words])}" for _, of, _ in columns]
        lines.append(f"| {words} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"
