"""The figure of what is measured against its null and the eye, on planted rows whose truth is known."""

import json

import numpy as np
import pytest
from matplotlib import pyplot as plt

from lcs_utils import figure_record
from lcs_utils.evaluation import against_null, families, is_it_real
from lcs_utils.evaluation.eye.hand_count_rows import HandCount, Shown
from lcs_utils.evaluation.rows import STANDARD, Row, encode
from lcs_utils.evaluation.rules import LargestK
from lcs_utils.evaluation.wording import CELLS
from lcs_utils.stats import Interval

NETS = {"obeys": ["exp1", "exp1_seed1"], "is deaf": ["exp2"], "was not measured": ["exp3"]}


def planted(net, family, k, deaf, samples=8):
    """Rows of a net that places an object at each requested location, or at the locations requested of
    another sample.
    """
    found = []
    for i in range(samples):
        asked = families.asked(family, k, i)
        centers = families.asked("spread", k, i + 500) if deaf else asked
        row = Row(net, "0" * 12, "0" * 12, *STANDARD, k, i, k, k, 1.0, family)
        found.append(row._replace(asked=encode(asked), centers=encode(centers)))
    return found


@pytest.fixture(scope="module")
def rows():
    every = [
        (net, family, k)
        for net in ("exp1", "exp1_seed1", "exp2")
        for family in ("spread", "test")
        for k in (1, 2, 3)
    ]
    return [row for net, family, k in every for row in planted(net, family, k, net == "exp2")]


@pytest.fixture(scope="module")
def real(rows):
    looked = [row for row in rows if row.family == "test" and row.net == "exp1" and row.sample < 4]
    hands = [
        HandCount(Shown(*(getattr(row, name) for name in Shown._fields)), row.count + 1, 1, "me")
        for row in looked
    ]
    return is_it_real.is_it_real(rows, NETS, hands)


def test_numbers_are_those_of_the_planted_nets_and_fit_into_json(real):
    numbers = json.loads(json.dumps(figure_record.plain(real.numbers())))
    for family in ("spread", "test"):
        found = numbers["measured"][family]
        assert set(found) == {"obeys", "is deaf"}
        for tolerance in ("within one cell", "exact cell"):
            obeys, deaf = (found[label][tolerance] for label in ("obeys", "is deaf"))
            assert obeys["K"]["paper"]["value"] == 3 and obeys["K"]["paper_null"]["value"] == 0
            assert deaf["K"]["paper"]["value"] <= 1
            assert obeys["at"]["3"]["paper"]["own"]["value"] == 1 and obeys["at"]["3"]["samples"] == 16
            assert (
                obeys["at"]["3"]["filled"]["above"]["value"]
                > 0.5
                > abs(deaf["at"]["3"]["filled"]["above"]["value"])
            )
            assert obeys["at"]["3"]["obeyed"]["value"] == pytest.approx(3, abs=1e-6)
    assert numbers["by_eye"] == {
        "obeys": {
            str(k): {
                name: dict.fromkeys(("value", "low", "high"), n)
                for name, n in (("eye", k + 1), ("counter", k))
            }
            | {"samples": 4}
            for k in (1, 2, 3)
        }
    }


def test_the_table_says_the_null_beside_every_rate(real):
    lines = is_it_real.markdown(real, (1, 3)).splitlines()
    assert len(lines) == 2 + 2 * 2 * 2 and len({line.count("|") for line in lines}) == 1
    obeys = next(line for line in lines if line.startswith("| obeys | random cells | exact cell"))
    assert "| 1.00 (0.00) / 1.00 (0.00) | 1.00 / 1.00 | 1.00 (" in obeys
    assert "| 1.0 / 3.0 | ≥ 3 [3, 3] (0 [0, 0]) | ≥ 3 [3, 3] |" in obeys


def test_the_figure_has_a_column_per_measured_net_and_shows_what_was_looked_at(real):
    figure = is_it_real.plot(real)
    titles = [axes.get_title() for axes in figure.axes[:2]]
    assert (
        titles == ["obeys\n16 samples of each K", "is deaf\n8 samples of each K"]
        and len(figure.axes) == 2 * 4
    )
    success, eye = figure.axes[0], figure.axes[6]
    drawn = {line.get_label(): line.get_ydata() for line in success.lines}
    assert np.array_equal(drawn["within one cell"], [1, 1, 1]) and max(drawn["its null, exact cell"]) < 0.2
    assert {line.get_label() for line in eye.lines} >= {"objects, by eye", "objects, by the counter"}
    keys = [
        axes.get_legend() and [text.get_text() for text in axes.get_legend().get_texts()]
        for axes in figure.axes[1::2]
    ]  # each row is named beside its last panel
    assert keys[0][0] == "within one cell" and keys[1] is None and not figure.legends
    assert keys[2][:2] == list(CELLS.values()) and len(keys[3]) == 3
    plt.close(figure)
    alone = is_it_real.plot(is_it_real.Real(real.measured, {}))
    assert len(alone.axes) == 2 * 3
    plt.close(alone)


def test_rows_of_an_earlier_counter_enter_nothing(rows):
    with pytest.raises(ValueError, match="no rows for exp1 exp1_seed1 exp2 exp3; measure them: python -m"):
        is_it_real.is_it_real([], NETS)
    old = [row._replace(asked="", centers="") for row in rows]
    with pytest.raises(ValueError, match="rows of an earlier counter do not"):
        is_it_real.is_it_real(old, NETS)


def test_what_stands_in_parentheses_is_the_null_not_cells_that_nobody_asked_for():
    own, null, elsewhere, one = (Interval(v, v, v) for v in (0.5, 0.25, 0.75, 1.0))
    rate = against_null.Beside(own, null, one, elsewhere)
    at = against_null.At(rate, rate, rate, one, None, None, one, 8)
    ks = against_null.Ks(*[LargestK(1, 0, 2, False)] * 4)
    made = is_it_real.Real({"spread": {"net": {1: against_null.Found({3: at}, ks)}}}, {})
    line = is_it_real.markdown(made, (3,)).splitlines()[-1]
    assert line.count("0.50 (0.25)") == 2 and "0.75" not in line
