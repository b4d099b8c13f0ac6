"""Placement one to one, and its null: a net that obeys stands above it, a deaf one does not, wherever its
objects stand.
"""

import subprocess
import sys
from itertools import product

import numpy as np
import pytest

from lcs_utils import nets, paths, stats
from lcs_utils.clevr.grid import TEST_LOCATIONS, apart, cells
from lcs_utils.evaluation import against_null, families, placement, rules
from lcs_utils.evaluation.colors import color_obeyed
from lcs_utils.evaluation.judged import Judged, judge, obeyed
from lcs_utils.evaluation.rows import STANDARD, Row, decode, encode, read_rows, rows_path

CELL = 1 / 16


def pictured(asked, centers, k=None, sample=0, net="exp1", family="spread"):
    """A row whose objects are at `centers`, not judged yet."""
    asked, centers = (np.asarray(points, float).reshape(-1, 2) for points in (asked, centers))
    row = Row(
        net,
        "0" * 12,
        "0" * 12,
        *STANDARD,
        len(asked) if k is None else k,
        sample,
        len(centers),
        0,
        1.0,
        family,
    )
    return row._replace(asked=encode(asked), centers=encode(centers))


def middle(rng, n):
    """`n` objects in the middle, where a net that ignores its conditions might crowd them."""
    return np.clip(rng.normal(0.47, 0.13, (n, 2)), 0, 0.999)


def crowd(rng, n):
    """`n` <= 9 random points of a 3 x 3 grid in the middle, near all of the paper's locations."""
    across, down = np.divmod(rng.permutation(9)[:n], 3)
    return (np.stack([across, down], 1) * 3 + 4 + rng.random((n, 2))) * CELL


def anywhere(rng, n):
    """`n` objects at places that occur in training scenes."""
    known = families.occupied()
    return (known[rng.integers(len(known), size=n)] + rng.random((n, 2))) * CELL


def planted(family, k, obeying, extra=0, deaf=middle, samples=32, seed=0, net="exp1"):
    """Rows of a "net" that draws k + extra objects: obeying(rng) of them in requested cells, the others as
    `deaf` draws. The number that obey is stored in `cleanness`, a field that nothing here reads.
    """
    rng, found = np.random.default_rng([seed, k, list(families.FAMILIES).index(family)]), []
    for i in range(samples):
        asked = families.asked(family, k, i)
        n = max(k + extra, 1)
        m = min(obeying(rng), n, k)
        chosen = cells(asked)[rng.permutation(k)[:m]]
        at = np.concatenate([(chosen + rng.uniform(0.05, 0.95, (m, 2))) * CELL, deaf(rng, n - m)])
        found.append(pictured(asked, at, sample=i, net=net, family=family)._replace(cleanness=float(m)))
    return found


def test_pairs_are_as_many_as_can_be_and_then_the_nearest():
    paper = np.array(TEST_LOCATIONS)
    for k in range(13):
        for tolerance in (0, 1):
            assert len(placement.assigned(paper[:k], paper[:k], tolerance)) == k
    assert (
        len(placement.assigned(paper[:1].repeat(5, 0), paper[:1])) == 1
    )  # one object does not fill five cells
    assert (
        len(placement.assigned(paper[:1], paper[:1].repeat(5, 0))) == 1
    )  # nor do five objects at one location count twice
    # object 0 is near both locations, object 1 only near the first: taking the nearest first would leave
    # one empty
    asked = np.array([[8.5, 8.5], [10.5, 8.5]]) * CELL
    centers = np.array([[9.4, 8.5], [7.5, 8.5]]) * CELL
    assert sorted(map(tuple, placement.assigned(asked, centers).tolist())) == [(0, 1), (1, 0)]
    # both objects are near both: the pairing with the least distance in all
    asked, centers = np.array([[8.5, 8.5], [9.5, 8.5]]) * CELL, np.array([[9.6, 8.5], [8.4, 8.5]]) * CELL
    assert sorted(map(tuple, placement.assigned(asked, centers).tolist())) == [(0, 1), (1, 0)]


@pytest.mark.parametrize("tolerance", [0, 1, 2])
def test_a_row_holds_as_many_pairs_as_are_assigned_and_as_many_objects_near(tolerance):
    rng, differ = np.random.default_rng(tolerance), 0
    for _ in range(300):
        asked, centers = (middle(rng, rng.integers(0, 10)) for _ in range(2))
        pairs = placement.assigned(*(decode(encode(of)) for of in (asked, centers)), tolerance)
        row = pictured(asked, centers)
        close = apart(cells(decode(row.asked)), cells(decode(row.centers))) <= tolerance
        near = int(close.any(0).sum()) if close.size else 0
        assert placement.judged(row, row.asked, tolerance).placed == len(pairs)
        assert placement.near(row, row.asked, tolerance) == near
        differ += near > len(pairs)  # several objects near one location are one pair
    assert differ > 2


def test_the_exact_cell_is_stricter_than_within_one_and_two_cells_off_is_nothing():
    asked = np.array([[8.5, 8.5]]) * CELL

    def pairs(off, tolerance):
        return len(placement.assigned(asked, asked + np.array(off) * CELL, tolerance))

    assert (
        pairs((0.4, -0.4), 0) == 1
        and pairs((1, -1), 0) == 0
        and pairs((1, -1), 1) == 1
        and pairs((2, 0), 1) == 0
    )
    assert (
        len(placement.assigned(asked, np.empty((0, 2)))) == 0
        and len(placement.assigned(np.empty((0, 2)), asked)) == 0
    )


def test_rows_that_do_not_say_where_objects_are_are_refused():
    old = pictured(np.array(TEST_LOCATIONS[:2]), np.array(TEST_LOCATIONS[:2]))._replace(asked="", centers="")
    with pytest.raises(
        ValueError,
        match="a row of exp1 at K = 2 says where 0 locations and 0 of 2 objects are; rows of an earlier",
    ):
        placement.own([old])
    with pytest.raises(
        ValueError, match="no rows for net 'exp1' at K = 3, family spread; measure them: python -m"
    ):
        judge([], "exp1", 3, "spread", 1)


def test_a_row_judged_by_the_rules_of_rates_is_judged_within_the_tolerance():
    asked = families.middles(families.spread_cells(4, np.random.default_rng(0)))
    off = pictured(asked, asked + CELL)  # all one cell off, diagonally
    one, exact = (placement.own([off], tolerance)[0] for tolerance in (1, 0))
    assert (one.placed, exact.placed) == (4, 0)
    for rule in (rules.success, rules.paper_success):
        assert rule(one, nets.trained("exp1")) and not rule(exact, nets.trained("exp1"))


def test_permuted_conditions_are_other_ones_and_the_pictures_stay():
    rows = planted("spread", 3, lambda rng: 3, samples=5)
    null = placement.permuted(rows, rows, times=8)
    assert len(null) == 5 * 4 and {row.sample for row in null} == set(range(5))
    for row in null:
        assert row.asked != rows[row.sample].asked and row.centers == rows[row.sample].centers
    fixed = planted("test", 3, lambda rng: 3, samples=5)
    assert placement.permuted(fixed, fixed) == []  # nothing differs: there is no such null
    again = [row._replace(asked=encode(decode(row.asked)[::-1])) for row in fixed]
    assert placement.permuted(again, fixed) == []  # another order asks for the same cells
    assert len(placement.permuted(fixed, rows)) == 5


def test_cells_never_asked_for_are_never_asked_for():
    for row in planted("test", 6, lambda rng: 6, samples=3):
        judged = placement.elsewhere([row])
        assert judged and all(
            not {*map(tuple, cells(decode(r.asked)))} & {*map(tuple, cells(decode(row.asked)))}
            for r in judged
        )
        (rest,) = placement.others_of_the_list([row], 0)
        assert rest.k == 6 and rest.placed == 0
    with pytest.raises(ValueError, match="K must be 0..9 in family spread, got 10"):
        placement.elsewhere(planted("test", 10, lambda rng: 10, samples=1))


@pytest.mark.parametrize("family", ["spread", "test", "orders"])
def test_a_net_that_obeys_succeeds_far_above_its_null_and_a_deaf_one_does_not(family):
    """The deaf net draws K objects in the middle, which fills many cells of the paper's list: chance, and
    said to be so.
    """
    obeys, deaf = (
        [
            row
            for name in {family, "spread"}
            for k in range(1, 5)
            for row in planted(name, k, how, 0, crowd, 24)
        ]
        for how in (lambda rng: 9, lambda rng: 0)
    )
    found, chance = (against_null.of_nets(rows, ["exp1"], family) for rows in (obeys, deaf))
    for rows, of in ((obeys, found), (deaf, chance)):
        assert against_null.ks_of_nets(rows, ["exp1"], family) == of.k
    assert found.k.placed.value == found.k.paper.value == 4 and found.k.placed_null.value == 0
    for k, at in found.at.items():
        assert at.placed.own.value == at.filled.own.value == 1 and at.obeyed.value == pytest.approx(
            k, abs=1e-6
        )
        assert at.filled.above.low > 0.1 and at.placed.null.value < 0.5
    far = [at.filled.above.value for at in chance.at.values()]
    assert abs(np.mean(far)) < 0.06
    inside = [at.filled.above.low <= 0 <= at.filled.above.high for at in chance.at.values()]
    assert sum(inside) >= len(inside) - 1
    for name in ("paper", "placed"):
        k, null = getattr(chance.k, name), getattr(chance.k, f"{name}_null")
        assert k.value == null.value or (k.low <= null.high and null.low <= k.high)


def test_without_a_null_the_deaf_net_would_pass_at_the_papers_list():
    """Negative case, what made the null necessary: a crowd in the middle fills 8 of the list and passes the
    paper's rule.
    """
    deaf = [row for name in ("test", "spread") for row in planted(name, 8, lambda rng: 0, 0, crowd, 32)]
    at = against_null.of_nets(deaf, ["exp1"], "test").at[8]
    assert at.filled.own.value > 0.8 and at.paper.own.low > 0.25
    for beside in (at.filled, at.paper, at.placed):
        assert beside.above.low <= 0 <= beside.above.high and beside.own.value > beside.elsewhere.high
    assert abs(at.filled.above.value) < 0.06 and at.others.value > 0.6
    assert at.obeyed is None  # so crowded, nothing can be said of who obeys
    alone = against_null.of_nets([row for row in deaf if row.family == "test"], ["exp1"], "test").at[8]
    assert alone.filled.null is None and alone.filled.above is None and alone.obeyed is None


TRUTHS = {
    "none": lambda k, rng: 0,
    "half": lambda k, rng: k // 2,
    "all": lambda k, rng: k,
    "all or none": lambda k, rng: k * int(rng.integers(2)),
}


def test_a_family_of_your_own_has_the_null_of_its_other_conditions():
    rows = [row._replace(family="mine") for row in planted("spread", 4, lambda rng: 4)]
    known = against_null.of_nets([row._replace(family="spread") for row in rows], ["exp1"], "spread").at[4]
    mine = against_null.of_nets(rows, ["exp1"], "mine").at[4]
    assert mine.filled.null == known.filled.null and mine.obeyed == known.obeyed is not None


@pytest.mark.parametrize("family", ["spread", "test"])
@pytest.mark.parametrize(
    ("truth", "deaf"),
    [("none", middle), ("none", anywhere), ("half", middle), ("all", anywhere), ("all or none", middle)],
)
def test_planted_numbers_of_objects_that_obey_come_back(family, truth, deaf):
    """Within .3 objects on average, whether as many, more or fewer objects are drawn than were asked for."""
    for k, tolerance, trials in ((4, 1, 1), (8, 0, 1), (5, 1, 2)):
        errors = []
        for trial, extra in product(range(trials), (-2, 0, 2)):
            seed = 10 * trial + extra + 2
            rows = {
                name: planted(name, k, lambda rng: TRUTHS[truth](k, rng), extra, deaf, 64, seed)
                for name in {family, "spread"}
            }
            own, pictures = rows[family], rows["spread"]
            null = placement.other_conditions(own, pictures)
            judged = Judged(own, null, [], [], pictures)
            drawn = stats.weights([row.asked for row in own], 0)
            mean = obeyed(judged, tolerance, drawn, 0)
            errors.append(mean[0] - np.mean([row.cleanness for row in own]))
        assert abs(np.mean(errors)) < 0.3, (k, tolerance, errors)


def test_objects_one_cell_off_obey_within_one_cell_and_not_in_the_cell_itself():
    rows = [
        row._replace(centers=encode((decode(row.centers) + CELL).clip(0, 0.999)))
        for row in planted("spread", 5, lambda rng: 5)
    ]
    one, exact = (
        against_null.of_nets(rows, ["exp1"], "spread", tolerance).at[5].obeyed for tolerance in (1, 0)
    )
    assert one.value == pytest.approx(5, abs=0.5) and abs(exact.value) < 0.4


def test_where_conditions_overlap_too_much_nothing_is_said_of_obeying():
    rows = planted("spread", 2, lambda rng: 2, samples=2)
    again = [
        rows[0],
        rows[0]._replace(sample=1, asked=encode(decode(rows[0].asked) + CELL * np.array([1, 0]))),
    ]
    judged = judge(again, "exp1", 2, "spread", 1)
    assert judged.null and obeyed(judged, 1, np.ones((1, 2)), 0) is None


def test_where_a_picture_was_asked_for_the_judged_cells_nothing_is_said_of_obeying():
    own, pictures = (planted(family, 1, lambda rng: 1, samples=4) for family in ("test", "spread"))
    pictures[2] = pictures[2]._replace(asked=own[0].asked)  # in no pair of the null
    null = placement.other_conditions(own, pictures)
    assert {row.sample for row in null} == {0, 1, 3}
    assert obeyed(Judged(own, null, [], [], pictures), 1, np.ones((1, 4)), 0) is None


def test_intervals_cover_noise_conditions_and_training_seeds():
    same = stats.weights(["a"] * 16, 0)
    assert same.shape == (1 + stats.RESAMPLES, 16) and (same[0] == 1).all() and (same.sum(1) == 16).all()
    # eight conditions, of which half always succeed: samples alone would vouch for too much
    names, values = [str(i % 8) for i in range(64)], np.array([i % 8 < 4 for i in range(64)], float)

    def spread(conditions):
        return np.std(stats.drawn_mean(values, stats.weights(conditions, 0))[1:])

    assert spread(names) == pytest.approx(np.sqrt(0.25 / 8), rel=0.1) and spread(["a"] * 64) == pytest.approx(
        np.sqrt(0.25 / 64), rel=0.1
    )
    sure = [np.full(1 + stats.RESAMPLES, value) for value in (0.2, 0.8)]
    both = stats.over_trainings(sure, 0)
    values, often = np.unique(np.round(both[1:], 6), return_counts=True)
    assert both[0] == 0.5 and values.tolist() == [0.2, 0.5, 0.8]
    assert often / often.sum() == pytest.approx([0.25, 0.5, 0.25], abs=0.05)  # two drawn, with replacement
    assert (stats.over_trainings(sure[:1], 0) == 0.2).all()
    shared = np.random.default_rng(0).normal(size=1 + stats.RESAMPLES)
    assert (stats.over_trainings([shared, shared], 0) == shared).all()  # one noise: two are no surer than one

    def of(net, obeying):
        return [row for k in (1, 2) for row in planted("spread", k, obeying, samples=8, net=net)]

    rows = of("exp1", lambda rng: 9) + of("exp1_seed1", lambda rng: 0)
    at = against_null.of_nets(rows, ["exp1", "exp1_seed1"], "spread").at[2]
    alone = against_null.of_nets(rows, ["exp1"], "spread").at[2]
    assert at.samples == 16 and at.filled.own.value == pytest.approx(0.5, abs=0.2)
    assert at.filled.own.high - at.filled.own.low > 0.5 > alone.filled.own.high - alone.filled.own.low


def test_trainings_that_draw_alike_are_no_surer_than_one():
    rows = planted("spread", 4, lambda rng: rng.integers(5), samples=24)
    again = [row._replace(net="exp1_seed1") for row in rows]
    one, two = (
        against_null.of_nets(rows + again, nets, "spread").at[4].filled
        for nets in (["exp1"], ["exp1", "exp1_seed1"])
    )
    assert two.own == one.own and two.above == one.above and one.own.high - one.own.low > 0.1


def test_k_ends_at_the_first_number_that_was_not_measured():
    rows = [row for k in (1, 2, 4) for row in planted("spread", k, lambda rng: k)]
    found = against_null.of_nets(rows, ["exp1"], "spread")
    assert set(found.at) == {1, 2, 4} and found.k.placed.value == 2 and found.k.placed.capped


def test_where_all_samples_agree_the_difference_is_as_unsure_as_the_rate():
    right = against_null.of_nets(planted("spread", 2, lambda rng: 2, samples=16), ["exp1"], "spread").at[2]
    own, null, above = right.placed.own, right.placed.null, right.placed.above
    assert own.value == 1 and own.low < 0.9 and above.low <= round(own.low - null.value, 4)
    # none succeeds: the rate may be as high as the exact bound of its samples, and so may the difference
    wrong = planted("spread", 4, lambda rng: 0, samples=16)
    wrong += [row._replace(net="exp1_seed1") for row in wrong]
    one, two = (
        against_null.of_nets(wrong, nets, "spread").at[4] for nets in (["exp1"], ["exp1", "exp1_seed1"])
    )
    own, null, above, _ = one.placed
    assert own.value == 0 and own.high == pytest.approx(1 - 0.025 ** (1 / 16), abs=1e-4)
    assert above.high >= round(own.high - null.value, 4) > 0.1
    # trainings share noise and conditions: two that never succeed say as much as one
    assert two.placed == one.placed and two.paper == one.paper and (one.samples, two.samples) == (16, 32)


def test_all_that_stands_beside_a_rate_is_judged_within_its_tolerance():
    """Here every object is one cell off, so that within one cell far more is filled than in the cell."""
    rows = [
        row._replace(centers=encode((decode(row.centers) + CELL).clip(0, 0.999)))
        for family in ("test", "spread")
        for row in planted(family, 5, lambda rng: 2, 0, anywhere, 16)
    ]
    one, exact = (judge(rows, "exp1", 5, "test", tolerance) for tolerance in (1, 0))
    mine, pictures = ([row for row in rows if row.family == family] for family in ("test", "spread"))
    for tolerance, found in ((1, one), (0, exact)):
        assert found.own == placement.own(mine, tolerance)
        assert found.null == placement.permuted(mine, pictures, tolerance)
        assert found.elsewhere == placement.elsewhere(mine, tolerance)
        assert found.others == placement.others_of_the_list(mine, tolerance)
    for name in ("own", "null", "elsewhere", "others"):
        within, inside = (sum(row.placed for row in getattr(of, name)) for of in (one, exact))
        assert within > 1.5 * inside > 0 or name == "own", name


def test_along_k_judges_at_both_tolerances():
    rows = [
        row._replace(centers=encode((decode(row.centers) + CELL).clip(0, 0.999)))
        for row in planted("spread", 2, lambda rng: 2)
    ]
    found = against_null.along_k(rows, {"off": ["exp1"], "missing": ["exp2"]})
    assert list(found) == ["off"]
    assert {tolerance: of.at[2].filled.own.value for tolerance, of in found["off"].items()} == {1: 1, 0: 0}


def test_cells_elsewhere_are_of_no_sample():
    asked = {encode(families.asked("spread", 6, i)) for i in range(200)}
    judged = placement.elsewhere(planted("spread", 6, lambda rng: 6, samples=8))
    assert len(judged) > 8 and asked.isdisjoint(row.asked for row in judged)


def test_nets_are_compared_where_all_were_measured_and_as_surely_as_the_least():
    deaf = [row for k in (1, 2, 4) for row in planted("spread", k, lambda rng: 0, -9, samples=16)]
    blank = [row._replace(count=0, centers="") for row in deaf]
    fewer = [row._replace(net="exp1_seed1") for row in blank if row.k < 4 and row.sample < 4]
    for nets_ in (["exp1", "exp1_seed1"], ["exp1_seed1", "exp1"]):
        at = against_null.of_nets(blank + fewer, nets_).at
        assert set(at) == {1, 2} and {of.samples for of in at.values()} == {20}
        assert at[2].filled.own.high == pytest.approx(1 - 0.025 ** (1 / 4), abs=1e-4)


def test_a_draw_of_trainings_is_the_same_at_every_k():
    """One of three trainings composes: in a quarter of the draws it is twice, and then passes at every K."""
    draws = [np.full(1 + stats.RESAMPLES, share) for share in (0.6, 0.0, 0.0)]
    found = {k: [{"placed": {"own": of}} for of in draws] for k in range(1, 10)}
    assert against_null.largest_k_of(found, "placed", "own", 0) == (0, 0, 9, False)


def test_families_are_functions_of_family_k_sample_and_seed():
    known, paper = families.occupied(), cells(np.array(TEST_LOCATIONS))
    assert 60 < len(known) < 110
    for k in (1, 5, 9):
        asked = [families.asked("spread", k, i) for i in range(4)]
        assert len({encode(each) for each in asked}) == 4
        for i, each in enumerate(asked):
            where = cells(each)
            assert np.array_equal(each, families.asked("spread", k, i)) and not np.array_equal(
                each, families.asked("spread", k, i, 1)
            )
            assert (apart(where, known).min(1) == 0).all() and (
                apart(where, where) + 99 * np.eye(k)
            ).min() >= families.SPACING
    orders = [families.asked("orders", 12, i) for i in range(16)]
    assert len({encode(each) for each in orders}) == families.ORDERS and np.array_equal(orders[0], orders[8])
    assert all({*map(tuple, cells(each))} == {*map(tuple, paper)} for each in orders)
    assert np.array_equal(families.asked("orders", 5, 3), orders[3][:5])
    with pytest.raises(
        ValueError, match="unknown family of conditions 'moon'; allowed: test, orders, spread, crowded"
    ):
        families.asked("moon", 1, 0)
    with pytest.raises(ValueError, match="K must be 0..9 in family spread, got 10"):
        families.asked("spread", 10, 0)
    with pytest.raises(ValueError, match="no room for 40 of"):
        families.spread_cells(40, np.random.default_rng(0), tries=2)


def test_stored_rows_were_asked_for_what_their_family_asks_for_today():
    """Nets measured later are compared with them, and share their draws of conditions."""
    stored = {
        (row.family, row.k, row.sample, row.seed): row.asked
        for row in read_rows(rows_path("small"))
        if row.sample % 16 == 5
    }
    assert {family for family, *_ in stored} == {"test", "spread", "crowded"}
    for at, asked in stored.items():
        assert encode(families.asked(*at).astype(np.float32)) == asked, at


@pytest.mark.parametrize("family", ["orders", "spread", "crowded"])
def test_another_seed_asks_for_other_conditions(family):
    zero, one = ([encode(families.asked(family, 5, i, seed)) for i in range(8)] for seed in (0, 1))
    assert not {*zero} & {*one}


def test_cells_that_are_never_to_be_drawn_are_not():
    four = families.spread_cells(4, np.random.default_rng(0))
    known = families.occupied()
    rest = known[(apart(known, four) > 0).all(1)]
    found = families.spread_cells(4, np.random.default_rng(1), never=rest)
    assert {*map(tuple, found)} == {*map(tuple, four)} and len(rest) == len(known) - 4
    with pytest.raises(ValueError, match="no room for 5 of 4 cells"):
        families.spread_cells(5, np.random.default_rng(1), never=rest, tries=2)


def test_what_is_written_is_read_at_the_same_cell():
    for family in families.FAMILIES:
        for k in (1, 8):
            asked = families.asked(family, k, 1)
            assert np.array_equal(cells(decode(encode(asked.astype(np.float32)))), cells(asked))


LIGHT = [f"evaluation.{name}" for name in ("placement", "rates", "rules", "against_null", "tables")]


@pytest.mark.parametrize("module", [*LIGHT, "claims.from_rows"])
def test_statistics_of_stored_rows_need_no_torch_and_no_pictures(module):
    heavy, named = (
        "{'torch', 'diffusers', 'matplotlib'}",
        f"lcs_utils.{module}, lcs_utils.claims.from_rows",
    )
    program = f"import sys, {named}; sys.exit(bool({heavy} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", program], cwd=paths.ROOT).returncode == 0


def test_whole_numbers_of_few_bits_are_averaged_as_numbers():
    assert (stats.resampled(np.full(100, 3, np.uint8), 0) == 3).all()


def test_without_a_net_there_are_no_rows():
    with pytest.raises(ValueError, match="nets must hold at least 1"):
        against_null.of_nets(planted("spread", 3, lambda rng: 3), [])


@pytest.mark.parametrize("family", families.FAMILIES)
def test_what_a_cache_hands_out_cannot_be_changed(family):
    """One reader's change would be every later reader's condition."""
    before = families.asked(family, 4, 0).copy()
    for array in (
        families.asked(family, 4, 0),
        families.occupied(),
        families._occupied_apart(),
        families._order(0, 0),
        color_obeyed.table()[3, 4],
        stats.how_often(4, 4, 5, 0),
    ):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 0
    assert np.array_equal(families.asked(family, 4, 0), before)


def test_a_mean_in_a_draw_is_over_as_many_as_are_in_it():
    drawn = np.array([[1.0, 1, 1], [2, 0, 0], [0, 1, 3]])
    assert stats.drawn_mean(np.array([0.0, 1, 1]), drawn).tolist() == pytest.approx([2 / 3, 0, 1])


def test_just_a_quarter_is_not_more_than_a_quarter():
    for share, k in ((0.25, 0), (0.26, 1)):
        found = {1: [{"placed": {"own": np.full(1 + stats.RESAMPLES, share)}}]}
        assert against_null.largest_k_of(found, "placed", "own", 0) == (k, k, k, bool(k))
