"""How measures rank nets beside an outcome: planted nets, untrained ones too, and two measures apart."""

import numpy as np
import pytest

from lcs_utils.evaluation.features import feature_ranks
from lcs_utils.evaluation.features.feature_ranks import ALL, TRAINED, Correlation
from lcs_utils.stats import rank_correlation

K = {f"net{i}": float(i + (i == 3)) for i in range(8)}  # two nets are tied
GOOD = {net: k / 10 for net, k in zip(K, range(8))}
MIXED = dict(zip(K, (0.4, 0.1, 0.6, 0.2, 0.7, 0.0, 0.5, 0.3)))
UNTRAINED = ("untrained", "untrained_color")


def test_untrained_nets_are_left_out_or_count_as_obeying_nothing():
    values = GOOD | dict.fromkeys(UNTRAINED, 0.9)
    trained, every = (feature_ranks.against_k(values, K, untrained=which) for which in (TRAINED, ALL))
    assert trained == feature_ranks.against_k(GOOD, K)
    assert trained.value > 0.9 and trained.low > 0 and trained.nets == 8
    assert every.value < 0.3 and every.low < 0 and every.nets == 10
    assert feature_ranks.against_k(GOOD | dict.fromkeys(UNTRAINED, -1.0), K, untrained=ALL).low > 0
    shuffled = feature_ranks.against_k(MIXED, K)
    assert shuffled.low < 0 < shuffled.high
    with pytest.raises(ValueError, match="net7 has no K"):
        feature_ranks.against_k(values, {net: v for net, v in K.items() if net != "net7"})
    with pytest.raises(ValueError, match="needs two varying lists"):
        feature_ranks.against_k(dict.fromkeys(K, 1.0), K)


def test_draws_are_rank_correlations_of_nets_drawn_anew():
    """Ties among them: a net drawn twice is tied with itself."""
    draws = feature_ranks.drawn(MIXED, K, seed=3)
    a, b, rng = np.array(list(MIXED.values())), np.array(list(K.values())), np.random.default_rng(3)
    for draw in draws[1:50]:
        which = rng.integers(len(K), size=len(K))
        assert draw == pytest.approx(rank_correlation(a[which].tolist(), b[which].tolist()))
    assert draws[0] == pytest.approx(rank_correlation(a.tolist(), b.tolist()))
    few = feature_ranks.drawn({"a": 0.0, "b": 1.0, "c": 1.0}, {"a": 0.0, "b": 1.0, "c": 2.0})
    assert np.isnan(few).any() and np.isfinite(few[0])  # some draws hold one net only


def test_other_trainings_and_sizes_of_a_net_say_nothing_new():
    again = ("", "_seed1", "/unit", ", 64 px")
    alike = [{f"{net}{name}": v for net, v in of.items() for name in again} for of in (MIXED, K)]
    found, once = feature_ranks.against_k(*alike), feature_ranks.against_k(MIXED, K)
    assert found == once._replace(nets=4 * once.nets) and once.kinds == once.nets == 8


def test_two_measures_are_subtracted_in_the_same_draws():
    better = feature_ranks.beyond(GOOD, MIXED, K)
    assert better.low > 0 and feature_ranks.side(better) == "above zero"
    worse = feature_ranks.beyond(MIXED, GOOD, K)
    assert worse[:3] == pytest.approx((-better.value, -better.high, -better.low))
    assert feature_ranks.side(worse) == "below zero"
    alike = feature_ranks.beyond(GOOD, {net: 2 * v for net, v in GOOD.items()}, K)
    assert alike == Correlation(0, 0, 0, 8, 8) and feature_ranks.side(alike) == "zero within"
    with pytest.raises(ValueError, match="of the same nets"):
        feature_ranks.beyond(GOOD, MIXED | {"net9": 1.0}, K)


def test_the_table_says_how_many_nets_and_where_each_interval_lies():
    values = {"adds": GOOD | {"untrained": 0.9}, "cosine": MIXED | {"untrained": 0.8}}
    each = []
    for which in (TRAINED, ALL):
        of = feature_ranks.correlations(values, {"K": K}, untrained=which)
        apart = feature_ranks.differences(values, {"K": K}, [("adds", "cosine")], untrained=which)
        each.append({"K": of["K"] | apart["K"]})
    table = feature_ranks.markdown(*each)
    assert "K, 8 trained nets, 8 kinds | K, 9 nets, 1 untrained, 9 kinds |" in table
    (line,) = (line for line in table.splitlines() if line.startswith("| adds, less cosine |"))
    assert line.count("[") == 2 and "above zero" in line
    (line,) = (line for line in table.splitlines() if line.startswith("| cosine |"))
    assert "above zero" not in line
    short = {"adds": {"net0": 0.1, "mine": 0.5} | GOOD}  # a net without an outcome is not ranked
    assert feature_ranks.correlations(short, {"K": K})["K"]["adds"].nets == 8


def test_draws_that_do_not_vary_are_left_out_of_the_interval():
    """Of 18 draws that vary, six hold all three nets, at 1.5 / sqrt(3); of the others each is in order."""
    found = feature_ranks.against_k({"a": 0.0, "b": 1.0, "c": 1.0}, {"a": 0.0, "b": 1.0, "c": 2.0})
    assert found == Correlation(0.866, 0.866, 1.0, 3, 3)
