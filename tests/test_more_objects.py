"""Fig. 8 beside the null: planted nets are drawn, tabled and said; so is what is not trained."""

import math

import pytest
from test_placement import crowd, planted

from lcs_utils import alt_text
from lcs_utils.evaluation import against_null, tables
from lcs_utils.evaluation.rows import read_rows, rows_path
from lcs_utils.evaluation.studies import more_objects

OBEYING = {"exp1_1": 2, "exp1_1-2": 4, "exp1": 9, "exp2_1-6": 0}  # conditions that a sample obeys at most


def rows(family, most):
    return [
        row
        for net, obeying in OBEYING.items()
        for k in range(1, most + 1)
        for row in planted(family, k, lambda rng, obeying=obeying: obeying, 0, crowd, 16, net=net)
    ]


@pytest.fixture(scope="module")
def found():
    nets = ("exp1_1", "exp1_1-2", "exp1", "exp1_1-5", "exp2_1-6")
    return more_objects.of_nets(rows("spread", 9), nets)


def told(found):
    return {net: of for net, of in found.items() if net != "exp2_1-6"}


def test_nets_are_the_verdicts_and_what_is_not_trained_stays(found):
    assert set(more_objects.NETS) == set(tables.NUMBERS) and more_objects.NETS[0] == "exp1_1"
    assert [of.objects for of in found.values()] == ["1", "1-2", "1-3", "1-5", "1-6, one label"]
    assert [of.paper for of in found.values()] == [1, 5, 9, 10, 1]
    assert [of.random is None for of in found.values()] == [False, False, False, True, False]
    assert all(of.listed is None for of in found.values())  # only random cells were asked for


def test_the_figure_draws_rates_and_their_null_dotted(found):
    figure = more_objects.plot(told(found))
    first, filled, placed = figure.axes
    at = [of.random.at[9] if of.random else None for of in told(found).values()]

    def drawn(axes, style):
        return [list(line.get_ydata()) for line in axes.lines if line.get_linestyle() == style]

    def values(side):
        return [getattr(one.filled, side).value if one else math.nan for one in at]

    assert drawn(filled, "-")[0] == pytest.approx(values("own"), nan_ok=True)
    assert drawn(filled, ":")[0] == pytest.approx(values("null"), nan_ok=True)
    assert drawn(placed, "-")[0][2] == at[2].placed.own.value == 1.0  # this one obeys nine of nine
    assert drawn(placed, ":")[0][2] == at[2].placed.null.value < 0.2
    ks = [of.random.k.placed.value if of.random else math.nan for of in told(found).values()]
    papers, own = drawn(first, "-")
    assert papers == [1, 5, 9, 10] and own == pytest.approx(ks, nan_ok=True)
    nulls = [of.random.k.placed_null.value if of.random else math.nan for of in told(found).values()]
    assert drawn(first, ":")[0] == pytest.approx(nulls, nan_ok=True) and nulls[2] == 0
    assert own[2] == 9 and "^" in {line.get_marker() for line in first.lines}  # no more were asked for
    ticks = [label.get_text() for label in placed.get_xticklabels()]
    assert ticks == ["1", "1-2", "1-3", "1-5\nnot\ntrained"]
    names = {text.get_text() for text in filled.texts}
    assert names == {"K = 6", "K = 9", "null, 6", "null, 9"} and "null" in {
        text.get_text() for text in first.texts
    }
    said = alt_text.given(figure)
    assert "1-3: ≥ 9 [9, 9], the paper's 9; 1-5: not trained. Cells filled at K = 9 (null): 1: " in said
    assert said.endswith(f"1-3: 1.00 ({at[2].filled.null.value:.2f}).")
    numbers = more_objects.numbers(told(found))
    assert numbers["exp1"]["filled"][6] == found["exp1"].random.at[6].filled
    assert numbers["exp1_1-5"]["random"] is numbers["exp1_1-5"]["filled"][9] is None
    with pytest.raises(ValueError, match="no net of Fig. 8 was trained"):
        more_objects.plot({"exp1_1-5": found["exp1_1-5"]})


def test_k_at_the_papers_cells_is_hollow():
    both = rows("spread", 9) + rows("test", 6)
    found = more_objects.of_nets(both, ["exp1_1-2", "exp1"])
    first = more_objects.plot(found).axes[0]
    hollow = [
        line for line in first.lines if line.get_markerfacecolor() == "white" and line.get_marker() != "D"
    ]
    assert [line.get_ydata()[0] for line in hollow] == [of.listed.k.placed.value for of in found.values()]
    line = more_objects.markdown(found).splitlines()[3]
    assert line.startswith("| 1-3 | 9 | ≥ 9 [9, 9] (0 [0,") and "| ≥ 6 [6, 6] (0 [0," in line


def test_the_table_has_a_line_for_every_net(found):
    lines = more_objects.markdown(found, (3, 9)).splitlines()[2:]
    assert lines[2].startswith("| 1-3 | 9 | ≥ 9 [9, 9] (0 [0,")
    at = found["exp1"].random.at
    shares = " / ".join(f"1.00 ({at[k].filled.null.value:.2f})" for k in (3, 9))
    assert f"| {shares} |" in lines[2]
    assert lines[3] == "| 1-5 | 10 | – | – | not trained | – | – |"
    assert lines[4].startswith("| 1-6, one label | 1 |") and len(lines) == 5
    few = found["exp1"].random._replace(at={k: of for k, of in at.items() if k < 4})
    short = more_objects.markdown({"exp1": found["exp1"]._replace(random=few)}, (3, 9))
    assert short.splitlines()[2].endswith(" / – |") and short.count(" / –") == 3


def test_a_net_of_six_objects_is_judged_as_one_of_three():
    shipped = read_rows(rows_path("small"))
    own = {net: against_null.ks_of_nets(shipped, [net], "test").placed for net in ("exp1_1-6", "exp1")}
    by_three = more_objects.by_rule_of_three(shipped)
    assert own["exp1_1-6"].high < 6 < own["exp1"].low <= by_three.low  # at six its own rule asks for just six
    assert by_three != more_objects.by_rule_of_three(shipped, "exp1_1-4")
    with pytest.raises(ValueError, match="nets must hold at least 1"):
        more_objects.by_rule_of_three(shipped, "exp1_1-6_x3")


def test_a_stage_of_a_training_stands_for_its_net_and_takes_all_its_trainings():
    found = more_objects.of_nets(read_rows(rows_path("medium")), ["exp1@100000"])["exp1@100000"]
    assert (found.objects, found.paper) == ("1-3", tables.PAPER["exp1"].k)
    assert found.random.at[9].samples == 2 * 64  # of two trainings, and no other stage


def test_the_table_says_how_many_conditions_are_obeyed_not_how_many_objects_are_drawn(found):
    line = more_objects.markdown(found, (3,)).splitlines()[-1]  # a deaf net, which draws three
    assert float(line.split("|")[-2]) == pytest.approx(0, abs=1)


def test_by_the_rule_of_three_all_trainings_are_judged():
    """The second draws nothing: in a quarter of the draws of two trainings there is no other."""
    how = dict(extra=0, deaf=crowd, samples=8)
    right = [row for k in (1, 2) for row in planted("test", k, lambda rng: 9, **how, net="exp1_1-6")]
    blank = [row._replace(net="exp1_1-6_seed1", count=0, centers="") for row in right]
    assert more_objects.by_rule_of_three(right) == (2, 2, 2, True)
    assert more_objects.by_rule_of_three(right + blank) == (2, 0, 2, True)
