"""Rates, their intervals and K, on rows whose truth is known."""

import numpy as np
import pytest

from lcs_utils import nets, paths, stats
from lcs_utils.evaluation import rates, rules
from lcs_utils.evaluation.rows import Row
from lcs_utils.experiments import EXPERIMENTS, Experiment


def rows(net, k, good, n, count=None, placed=None, plausibility=1.0):
    """`n` samples at K = k: the first `good` show all K objects, the others none (or `count`, `placed`)."""
    bad = (0 if count is None else count, 0 if placed is None else placed)
    values = [(k, k) if i < good else bad for i in range(n)]
    return [
        Row(net, "0" * 12, "c" * 12, 0, "heun", 2, k, i, *value, plausibility)
        for i, value in enumerate(values)
    ]


def test_known_rates():
    found = rates.rates(rows("exp1", 4, 48, 64, count=5, placed=2), "exp1")[4]
    value = {name: interval.value for name, interval in found.items()}
    assert value == dict(
        exact=0.75,
        within_one=1,
        at_places=0.75,
        filled=0.875,
        count=4.25,
        extras=0.75,
        plausible=1,
        success=0.75,
    )
    for interval in found.values():
        assert interval.low <= interval.value <= interval.high
    assert found["exact"].low == pytest.approx(0.75 - 1.96 * np.sqrt(0.75 * 0.25 / 64), abs=0.02)
    assert rates.rates(rows("exp1", 4, 64, 64, plausibility=0.4), "exp1")[4]["success"].value == 0


def test_samples_drawn_in_several_ways_are_never_mixed():
    standard = [row._replace(solver="dpmpp_2m", steps=14) for row in rows("exp1", 4, 8, 8)]
    coarse = [row._replace(solver="dpmpp_2m", steps=4) for row in rows("exp1", 4, 0, 8)]
    assert rates.rates(standard + coarse, "exp1") == rates.rates(standard, "exp1")
    assert rates.mean_over(standard + coarse, "exp1", "filled", [4]).value == 1
    assert rates.rates(coarse, "exp1")[4]["filled"].value == 0  # a net sampled in one way, whatever it is
    with pytest.raises(ValueError, match="exp1 was sampled in several ways .* none is the standard"):
        rates.rates(coarse + rows("exp1", 4, 8, 8), "exp1")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"preset": "small"}, "rows of exp1 must be of one preset, got 'small', 'tiny'"),
        ({"weights": "1" * 12}, "rows of exp1 must be of one weights, got '000000000000', '111111111111'"),
        ({"counted_by": "d" * 12}, "rows of exp1 must be of one counted_by, got 'cccccccccccc', 'dddd"),
        ({"placed": 2}, "exp1 has 2 objects in place in a sample that shows 1 for 1 asked"),
        ({"count": 3, "placed": 2}, "exp1 has 2 objects in place in a sample that shows 3 for 1 asked"),
    ],
)
@pytest.mark.parametrize("ask", [rates.rates, rules.largest_k])
def test_rows_that_cannot_be_of_one_net_are_refused(ask, change, message):
    ours = rows("exp1", 1, 8, 8)
    ask(ours + [row._replace(net="exp2", **change) for row in ours], "exp1")  # another net's may differ
    with pytest.raises(ValueError, match=message):
        ask([*ours[1:], ours[0]._replace(**change)], "exp1")


def test_a_share_is_between_0_and_1():
    assert stats.interval(np.array([0.5, 2.0])).value == 1.25
    for wrong in (-0.5, 1.5):
        with pytest.raises(ValueError, match=f"a share must be in .0, 1., got {wrong}"):
            stats.interval(np.array([0.5, wrong]), share=True)
    assert stats.interval(np.array([0.5, np.nan]), share=True).value != 0.5  # undefined stays undefined


def test_the_papers_rule_allows_the_extras_that_its_tables_write():
    """In parentheses: all but one of a training image's objects with one label, one where one is dropped,
    none otherwise.
    """
    allowed = {}
    for net in ("exp1", "exp2", "exp3", "random_1-3", "drop_one_1-3"):
        shown = [Row(net, "0" * 12, "c" * 12, 0, "heun", 2, 2, 0, 2 + extra, 2, 1.0) for extra in range(5)]
        allowed[net] = sum(rules.paper_success(row, nets.trained(net)) for row in shown) - 1
    assert allowed == {"exp1": 0, "exp2": 2, "exp3": 2, "random_1-3": 0, "drop_one_1-3": 1}


def test_rates_of_zero_and_one_keep_an_interval():
    zero, one = (rates.rates(rows("exp1", 4, good, 64), "exp1")[4]["exact"] for good in (0, 64))
    assert (
        (zero.low, one.high) == (0, 1)
        and zero.high == pytest.approx(0.056, abs=1e-3)
        and one.low == 1 - zero.high
    )
    none = [row for k in (4, 5, 6) for row in rows("exp1", k, 0, 64)]
    pooled = rates.mean_over(none, "exp1", "success", [4, 5, 6])
    assert (pooled.value, pooled.low) == (0, 0) and pooled.high == pytest.approx(
        1 - 0.025 ** (1 / 192), abs=1e-4
    )
    assert rates.mean_over(none, "exp1", "extras", [4, 5, 6]) == (0, 0, 0)  # objects are no share


@pytest.mark.parametrize("truth", [0.03, 0.25, 0.7])
def test_the_interval_covers_the_truth_about_as_often_as_it_says(truth):
    draws = np.random.default_rng(0).random((64, 300)) < truth
    found = [stats.interval(values, share=True) for values in draws.T.astype(float)]
    covered = np.mean([f.low <= truth <= f.high for f in found])
    assert 0.90 <= covered <= 0.995 or (
        truth == 0.03 and covered > 0.8
    )  # the percentile bootstrap's weak end
    wrong = np.mean([f.low <= truth + 0.25 <= f.high for f in found])
    assert wrong < 0.2


def test_intervals_are_the_same_for_the_same_seed_and_shrink_with_samples():
    few, many = (rates.rates(rows("exp1", 4, n // 2, n), "exp1", seed=3)[4]["exact"] for n in (16, 256))
    assert few == rates.rates(rows("exp1", 4, 8, 16), "exp1", seed=3)[4]["exact"]
    assert few.high - few.low > 3 * (many.high - many.low)


def measured(net, shares, n=64):
    return [row for k, share in enumerate(shares, 1) for row in rows(net, k, round(share * n), n)]


def test_known_rates_give_a_known_k():
    assert rules.largest_k(measured("exp1", [1, 1, 1, 0.9, 0.8, 0.1, 0.9]), "exp1")[:3] == (
        5,
        5,
        5,
    )  # every k <= K
    assert rules.largest_k(measured("exp1", [0.2, 1, 1]), "exp1").value == 0
    everything = rules.largest_k(measured("exp1", [1, 1, 1]), "exp1")
    assert everything.value == 3 and everything.capped
    assert not rules.largest_k(measured("exp1", [1, 1, 0]), "exp1").capped
    unsure = rules.largest_k(measured("exp1", [1, 1, 1, 0.52, 0]), "exp1")
    assert (unsure.value, unsure.low, unsure.high) == (4, 3, 4)
    gap = [row for row in measured("exp1", [1, 1, 1, 1]) if row.k != 3]
    assert rules.largest_k(gap, "exp1").value == 2  # what was not measured did not succeed


def test_known_rates_of_too_few_too_many_and_none_asked_for():
    def of(k, count, placed):
        found = rates.rates(rows("exp1", k, 0, 4, count=count, placed=placed), "exp1")[k]
        return {name: interval.value for name, interval in found.items()}

    near = [of(3, count, 1)["within_one"] for count in range(1, 6)]
    assert near == [0, 1, 1, 1, 0]  # two objects off on either side are too far
    nothing, one = of(0, 0, 0), of(0, 1, 0)
    assert (nothing["filled"], nothing["at_places"], nothing["exact"], nothing["success"]) == (1, 1, 1, 1)
    assert (one["filled"], one["exact"], one["within_one"], one["extras"]) == (1, 0, 1, 1)


def test_a_mean_over_groups_is_no_surer_than_its_smallest_group_makes_it():
    """Each group weighs the same, however many samples it has."""
    both = stats.interval(np.zeros(4), np.zeros(100), share=True)
    assert (both.value, both.low) == (0, 0) and both.high == pytest.approx(1 - 0.025 ** (1 / 8), abs=1e-4)


def test_the_samples_of_different_k_are_drawn_apart():
    """Each of two K is passed in one draw of ten, both in one of a hundred: too few for the interval."""
    shares = [1, 1, 1, 0.42, 0.42]
    assert rules.largest_k(measured("exp1", shares[:4]), "exp1")[:3] == (3, 3, 4)
    assert rules.largest_k(measured("exp1", shares), "exp1")[:3] == (3, 3, 4)


def test_the_papers_rule_looks_at_eight_samples_and_asks_for_more_than_a_quarter():
    for good, expected in ((2, 0), (3, 1)):
        first = measured("exp1", [good / 8], n=8)
        more = [row._replace(sample=row.sample + 8) for row in measured("exp1", [1], n=56)]
        assert rules.largest_k(first + more, "exp1", rules.PAPER_RULE).value == expected
    wide = rules.largest_k(measured("exp1", [1, 0.3]), "exp1", rules.PAPER_RULE)
    assert wide[:3] == (2, 1, 2)  # eight of 64 may find it or not
    assert rules.largest_k(measured("exp1", [1, 0.3]), "exp1")[:3] == (1, 1, 1)


def sample(net, k, count, placed):
    return Row(net, "0" * 12, "c" * 12, 0, "heun", 2, k, 0, count, placed, 1.0)


def test_the_papers_success_is_exact_up_to_the_trained_maximum_and_within_one_beyond():
    exp1, exp2 = nets.trained("exp1"), nets.trained("exp2")

    def good(net, *numbers):
        return rules.paper_success(sample(net, *numbers), nets.trained(net))

    assert good("exp1", 3, 3, 3) and not good("exp1", 3, 4, 3) and not good("exp1", 3, 3, 2)
    assert (
        good("exp1", 4, 5, 4)
        and good("exp1", 5, 4, 4)
        and not good("exp1", 4, 6, 4)
        and not good("exp1", 5, 3, 3)
    )
    assert not good("exp1", 4, 3, 3) and not good("exp1_1", 2, 1, 1)  # no more objects than in training
    assert not good("exp1", 4, 4, 2)  # two of four are elsewhere
    assert good("exp2", 3, 5, 3) and not good("exp2", 3, 6, 3)  # one label: up to two more objects anywhere
    # Table 1's local net of 1-5 objects has two at most, Exp. 2's four
    assert good("exp3_1-5", 5, 7, 5) and not good("exp3_1-5", 5, 8, 5) and good("exp2_1-5", 5, 9, 5)
    assert good("exp3_1", 1, 1, 1) and not good("exp3_1", 1, 2, 1)
    assert good("drop_one_1-3", 3, 4, 3) and not good("drop_one_1-3", 3, 5, 3)  # one dropped: up to one more
    assert (exp1.labels, exp2.labels) == ("all", "single")


def test_success_is_every_cell_within_training_and_all_but_one_beyond_with_few_extras():
    def good(*numbers):
        return rules.success(sample("exp1", *numbers), nets.trained("exp1"))

    assert good(3, 3, 3) and not good(3, 2, 2) and not good(1, 0, 0)
    assert (
        good(5, 4, 4) and not good(5, 3, 3) and not good(4, 3, 3)
    )  # beyond training, more than training showed
    assert good(9, 11, 9) and not good(9, 12, 9)  # three extras, trained on three
    assert not rules.success(sample("exp1", 9, 9, 9)._replace(plausibility=0.1), nets.trained("exp1"))
    assert rules.success(sample("exp1_1", 1, 1, 1), nets.trained("exp1_1"))
    assert not rules.success(sample("exp1_1", 1, 2, 1), nets.trained("exp1_1"))


def test_the_experiment_behind_a_net():
    assert (
        nets.trained("exp2/unit")
        == nets.trained("exp2@88000")
        == nets.trained("exp2_seed1/near")
        == nets.trained("exp2")
    )
    assert nets.trained("exp1_1-6_seed2").objects == (1, 6)
    with pytest.raises(ValueError, match="unknown experiment 'exp9'; allowed: exp1"):
        nets.trained("exp9/unit")


def test_a_net_of_your_own_is_what_its_row_says(tmp_path, monkeypatch):
    monkeypatch.setattr(paths, "CHECKPOINTS", tmp_path)
    (tmp_path / "tiny" / "mine").mkdir(parents=True)
    (tmp_path / "tiny" / "mine" / "row.json").write_text(
        '{"objects": [2, 5], "labels": "single", "radius": 4}'
    )
    assert nets.trained("mine/near4") == Experiment("mine", (2, 5), "single", 4)
    monkeypatch.setitem(EXPERIMENTS, "yours", Experiment("yours", (1, 2)))
    assert nets.trained("yours_seed3@640").objects == (1, 2)


def test_missing_rows_are_named():
    with pytest.raises(ValueError, match="no rows for net 'exp1'; measure it: python -m"):
        rates.rates([], "exp1")
    with pytest.raises(ValueError, match=r"needs rows for k = 1, 2, ...; there are \[0, 2\]"):
        rules.largest_k(rows("exp1", 0, 1, 4) + rows("exp1", 2, 1, 4), "exp1")
    with pytest.raises(ValueError, match="at least one value"):
        stats.interval(np.empty(0))


def test_rates_along_training(monkeypatch):
    """Snapshots stand in the order of their images, the finished net last, other nets and gaps nowhere."""
    monkeypatch.setattr(nets, "images_seen", lambda name, preset: int(name.partition("@")[2] or 900))
    good_at = {"exp1@300": 16, "exp1@20": 4, "exp1": 64, "exp1_seed1@100": 64, "exp1@5/unit": 64}
    found = [row for net, good in good_at.items() for k in (4, 5) for row in rows(net, k, good, 64)] + rows(
        "exp1@40", 4, 64, 64
    )
    along = rates.along_training(found, "exp1", {"success": [4, 5], "extras": [5]})
    assert [(images, value["success"].value) for images, value in along.items()] == [
        (20, 0.0625),
        (300, 0.25),
        (900, 1.0),
    ]
    assert list(rates.along_training(found, "exp1_seed1", {"filled": [4]})) == [100]


def test_kept_draws_are_those_of_their_seed_and_size():
    values = np.random.default_rng(3).random((5, 2))
    for seed, size in ((0, 5), (1, 5), (0, 3), (0, 5)):
        drawn = np.random.default_rng(seed).multinomial(size, np.full(5, 0.2), stats.RESAMPLES)
        assert (drawn.sum(1) == size).all() and np.array_equal(
            stats.resampled(values, seed, size), drawn @ values / size
        )
    large = stats.how_often(2, 70_000, 3, 0)  # beyond what two bytes hold
    assert (large.sum(1, dtype=int) == 70_000).all()


def test_groups_that_hold_the_same_are_drawn_apart():
    """Errors of two means that are drawn apart are smaller by the root of two than of one."""
    values = np.repeat([0.0, 1.0], 32)
    one, two = (found.high - found.low for found in (stats.interval(values), stats.interval(values, values)))
    assert one == pytest.approx(2 * 1.96 * 0.5 / 8, rel=0.1) and two == pytest.approx(one / 2**0.5, rel=0.1)
