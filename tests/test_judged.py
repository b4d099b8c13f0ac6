"""Intervals of a null vary with the conditions that its pictures are judged at, as those of a rate do."""

from types import SimpleNamespace

import numpy as np
import pytest
from test_placement import pictured, planted

from lcs_utils.evaluation import against_null, families, judged
from lcs_utils.evaluation.judged import by_picture, over_pairs
from lcs_utils.evaluation.rows import read_rows, rows_path
from lcs_utils.stats import drawn_mean, weights

N, TIMES = 40, 8


def pairs(of_condition):
    """(null, values, own): each picture judged at the TIMES conditions that follow its own."""
    own = [SimpleNamespace(sample=i, asked=f"{i}") for i in range(N)]
    null = [SimpleNamespace(sample=i, asked=f"{(i + j) % N}") for i in range(N) for j in range(1, TIMES + 1)]
    return null, np.array([of_condition[int(row.asked)] for row in null]), own


def test_shapes_are_checked_in_tests_where_there_are_arrays():
    """What conftest.py adds: this function itself would take anything."""
    with pytest.raises(Exception, match=r"Type-check error.*over_pictures(.|\n)*'pictures': f64\[3\]"):
        judged.over_pictures([], np.zeros(3))
    assert not hasattr(judged.judge, "__wrapped__")  # without arrays, nothing is added


def test_conditions_alone_vary_the_null_as_much_as_their_number_says():
    effects = np.random.default_rng(0).standard_normal(N)
    null, values, own = pairs(effects)
    drawn = weights([row.asked for row in own], 1)
    found = over_pairs(null, own, drawn, drawn)(values)
    expected = effects.std() / np.sqrt(N)
    assert found[0] == pytest.approx(effects.mean()) and found[1:].std() == pytest.approx(expected, rel=0.25)
    pictures = drawn_mean(by_picture(null, values), drawn)  # the negative case: as if conditions were fixed
    assert pictures[0] == pytest.approx(found[0]) and pictures[1:].std() < 0.7 * expected


def test_at_one_condition_for_all_pictures_alone_vary():
    null, values, _ = pairs(np.arange(N, dtype=float))
    null = [SimpleNamespace(sample=row.sample, asked="all") for row in null]
    own = [SimpleNamespace(sample=i, asked="all") for i in range(5)]
    pictures = weights([f"{i}" for i in range(N)], 2)
    found = over_pairs(null, own, weights(["all"] * 5, 3), pictures)(values)
    assert np.allclose(found, drawn_mean(by_picture(null, values), pictures))


def test_a_draw_without_a_pair_is_no_nan():
    null = [SimpleNamespace(sample=0, asked="b"), SimpleNamespace(sample=1, asked="a")]
    own = [SimpleNamespace(sample=0, asked="a"), SimpleNamespace(sample=1, asked="b")]
    drawn = np.array([[1.0, 1.0], [2.0, 0.0], [0.0, 2.0]])
    assert over_pairs(null, own, drawn, drawn)(np.array([1.0, 0.0])).tolist() == [0.5, 1.0, 0.0]


def test_steps_are_of_the_same_draws():
    rows = read_rows(rows_path("small"))
    alike, apart = against_null.steps(rows, [["exp1"], ["exp1"], ["exp2"]], 6)
    assert alike == (0, 0, 0) and apart.low > 0.2
    back, _ = against_null.steps(rows, [["exp2"], ["exp1"], ["exp1"]], 6)
    assert back.value == pytest.approx(-apart.value) and back.high < 0
    alone = [row for row in rows if row.net == "exp1" and row.k == 6 and row.family == "spread"][:1]
    with pytest.raises(ValueError, match="exp1 has no null at K = 6, family spread"):
        against_null.steps(alone, [["exp1"], ["exp1"]], 6)  # one picture has no other's cells


@pytest.mark.parametrize("family", ["spread", "test"])  # judged, and behind the null of the paper's locations
def test_two_rows_of_one_sample_are_refused(family):
    rows = [row for row in read_rows(rows_path("small")) if row.net == "exp1" and row.k == 4]
    judged.judge(rows, "exp1", 4, family, 1)
    twice = next(row for row in rows if row.family == "spread" and row.sample == 5)
    with pytest.raises(ValueError, match="exp1 has two rows of sample 5 at K = 4, family spread; keep one"):
        judged.judge([*rows, twice], "exp1", 4, family, 1)


def test_one_net_is_a_list_of_one():
    rows = read_rows(rows_path("small"))
    with pytest.raises(TypeError, match="nets must be a sequence, got 'exp1'"):
        against_null.of_nets(rows, "exp1", "spread")


def test_the_same_trainings_fill_no_more_than_themselves():
    """One obeys and one does not: that each group draws the same of them makes all of the difference."""
    nets = ["exp1", "exp1_seed1"]
    rows = [row for net, m in zip(nets, (9, 0)) for row in planted("spread", 2, lambda rng, m=m: m, net=net)]
    assert against_null.steps(rows, [nets, nets], 2) == [(0, 0, 0)]


def test_what_is_filled_whatever_is_asked_for_is_no_step():
    """One net always has an object at every cell that anybody asked for, the other draws nothing."""
    asked = [families.asked("spread", 2, i) for i in range(4)]
    crowded = [pictured(at, np.concatenate(asked), sample=i, net="exp1") for i, at in enumerate(asked)]
    blank = [row._replace(net="exp2", centers="", count=0) for row in crowded]
    assert against_null.of_nets(crowded, ["exp1"], ks=[2]).at[2].filled.own.value == 1
    assert against_null.steps(crowded + blank, [["exp1"], ["exp2"]], 2)[0].value == 0
