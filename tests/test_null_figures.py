"""Rates beside their null, drawn and said: what obeys rises above it, what is deaf lies on it."""

import pytest
from test_more_training import planted

from lcs_utils import alt_text
from lcs_utils.evaluation import against_null, null_figures
from lcs_utils.stats import Interval

COLORS = {"obeys": "C0", "deaf": "C1"}


@pytest.fixture(scope="module")
def found():
    rows = planted("exp1", 1.0) + planted("exp2", 0.0)
    return {
        words: against_null.of_nets(rows, [net], "spread")
        for words, net in zip(COLORS, ("exp1", "exp2"), strict=True)
    }


def test_curves_are_the_rates_and_their_null(found):
    figure = null_figures.plot(found, COLORS, trained=3, title="64 px")
    assert figure.get_suptitle() == "64 px"
    titles = [axes.get_title() for axes in figure.axes]
    first = null_figures.MEASURES["placed"]
    assert titles == [
        f"{first}:\nall up to 4, then all but one;\none extra from 4 on, more as in Tables 1, 2;\n"
        "K: as far as it stays above the line",
        *list(null_figures.MEASURES.values())[1:],
    ]
    by_words = dict(zip(titles, figure.axes, strict=True))
    placed = [list(line.get_ydata()) for line in figure.axes[0].lines]
    assert set(placed.pop()) == {0.25}
    assert [len(values) for values in placed] == [3, 4] * 4  # the rule changes after three: no line leads on
    solid, deaf, null, _ = (a + b for a, b in zip(placed[::2], placed[1::2], strict=True))
    assert solid == [at.placed.own.value for at in found["obeys"].at.values()] and min(solid) == 1
    assert null == [at.placed.null.value for at in found["obeys"].at.values()] and max(null) < 0.3
    assert deaf[3:] == pytest.approx(null[3:], abs=0.2)  # what does not listen gets its null
    right, none = (null_figures.said(found[net].at[6].placed) for net in COLORS)
    said = f"64 px. At K = 6 (null) right in number and places obeys {right}, deaf {none};"
    assert alt_text.given(figure).startswith(said)
    assert null_figures.in_words(found, 9) == ""  # up to seven were asked for
    words = {text.get_text() for text in by_words["objects drawn"].texts}
    assert words == set(COLORS)
    with pytest.raises(ValueError, match="no net to draw"):
        null_figures.plot({}, COLORS, trained=3)
    with pytest.raises(
        TypeError, match=r"found\['deaf'\] must be a Found, of `along_k` that of one tolerance"
    ):
        null_figures.plot({"deaf": {1: found["deaf"]}}, COLORS, trained=3)
    with pytest.raises(ValueError, match="unknown color of 'deaf'; allowed: obeys"):
        null_figures.plot(found, {"obeys": "C0"}, trained=3)


def test_the_table_says_k_and_rates_beside_their_null(found):
    obeys, deaf = null_figures.markdown({words: {1: of} for words, of in found.items()}).splitlines()[2:]
    assert obeys.startswith("| obeys, within one cell | ≥ 7 [7, 7] (0 [")
    assert obeys.endswith("| 3.0 / 5.0 / 6.0 / 7.0 |") and "1.00 (" in obeys
    assert deaf.startswith("| deaf, within one cell | 0 [")
    alone = found["obeys"]._replace(at={k: at for k, at in found["obeys"].at.items() if k < 4})
    assert null_figures.markdown({"short": {1: alone}}).splitlines()[2].endswith("/ – / – |")


def test_names_are_clear_of_each_other_around_their_ends():
    assert null_figures._clear([0.1, 0.5], 0.2) == [0.1, 0.5]
    assert null_figures._clear([0.4, 0.4, 0.5], 0.3) == pytest.approx(
        [0.43333 - 0.3, 0.43333, 0.43333 + 0.3], abs=1e-4
    )
    assert null_figures._clear([], 0.1) == []


def test_measures_say_which_nets_they_do_not_tell_apart():
    def net(above, obeyed):
        filled = against_null.Beside(Interval(0.9, 0.8, 1.0), Interval(0.3, 0.3, 0.3), above, None)
        number = Interval(4.0, 4.0, 4.0)
        return against_null.Found(
            {4: against_null.At(filled, filled, filled, number, None, obeyed, number, 8)}, None
        )

    found = {
        "Exp. 1": net(Interval(0.6, 0.5, 0.7), Interval(3.5, 3.2, 3.8)),
        "Exp. 3": net(Interval(0.7, 0.65, 0.75), Interval(3.9, 3.85, 3.95)),
        "Exp. 2": net(Interval(0.1, 0.0, 0.2), None),
    }
    said = null_figures.told_apart(found, 4)
    assert said == (
        "Cells filled above the null at K = 4: Exp. 1 0.60 [0.50, 0.70], Exp. 3 0.70 [0.65, 0.75], Exp. 2 "
        "0.10 [0.00, 0.20] (intervals of Exp. 1 and Exp. 3 overlap). Conditions obeyed: Exp. 1 3.50 "
        "[3.20, 3.80], Exp. 3 3.90 [3.85, 3.95]."
    )
    assert null_figures.told_apart(found, 5) == ""
