"""What notebooks say follows the rows: a changed row changes the sentence, marks say what rows say."""

from types import SimpleNamespace

import numpy as np
import pytest

from lcs_utils import alt_text
from lcs_utils.claims import from_rows
from lcs_utils.clevr.conditions import TEST_LOCATIONS, test_condition
from lcs_utils.evaluation import alt_texts, rates, sentences, strips, table_figures, tables, training_sets
from lcs_utils.evaluation.against_null import Beside
from lcs_utils.evaluation.eye.agreement import agreement
from lcs_utils.evaluation.eye.hand_count_rows import HandCount, Shown
from lcs_utils.evaluation.locality import locality_rates, net_locality, sentences_locality
from lcs_utils.evaluation.rows import Row, encode
from lcs_utils.evaluation.studies.memorization import REAL, Near
from lcs_utils.models.local_patch import patch_conditions
from lcs_utils.stats import Interval

WAY = (0, "dpmpp_2m", 14)


def made(net, filled=1.0, extras=0, ks=range(0, 13), n=8, **more):
    """Rows of a net that fills a share of the asked cells and draws `extras` objects elsewhere."""

    def placed(k):
        return round(filled * k)

    return [
        Row(net, "0" * 12, "c" * 12, *WAY, k, i, placed(k) + extras, placed(k), 1.0, **more)
        for k in ks
        for i in range(n)
    ]


def spoiled(rows):
    """The same rows, except that the first net misses its places from K = 4 to 9."""
    net = rows[0].net
    return [r._replace(placed=0, count=3) if r.net == net and 4 <= r.k <= 9 else r for r in rows]


ROWS = made("exp1") + made("exp2", 0.3)
NETS = {"exp1": "Exp. 1", "exp2": "Exp. 2"}
RATES = tables.net_rates


@pytest.mark.parametrize(
    "say",
    [
        lambda rows: sentences.means(rows, NETS, [4, 5, 6]),
        lambda rows: from_rows.outside(rows, tables.cells(rows, NETS)),
        lambda rows: sentences.adding(RATES(rows, NETS), NETS),
        lambda rows: sentences.training_sets(training_sets.by_objects(rows)),
        lambda rows: sentences.training_sets(training_sets.by_labels(rows)),
        lambda rows: sentences.radius(training_sets.by_radius(rows)[-1:]),
        lambda rows: sentences.whole_image_control(rows, "exp1"),
        lambda rows: alt_texts.tables(tables.cells(rows, NETS)),
        lambda rows: alt_texts.shares(training_sets.by_objects(rows)),
    ],
    ids=lambda say: say.__code__.co_names[1],
)
def test_a_changed_row_changes_the_sentence(say):
    rows = made("exp2") + made("exp1", 0.3) if "by_radius" in say.__code__.co_names else ROWS
    assert say(rows) != say(spoiled(rows))
    assert say(rows) == say(list(reversed(rows)))


def test_means_are_those_of_the_rows():
    said = sentences.means(ROWS, NETS, [5])
    assert "| Exp. 1 | 1.00 [0.63, 1.00] | 1.00 [0.63, 1.00] | ≥ 12 [12, 12] |" in said
    assert "| Exp. 2 | 0.40 [0.40, 0.40] |" in said
    assert "| none | – | – | – |" in sentences.means(ROWS, {"exp3": "none"}, [5])


def test_a_k_outside_the_interval_is_named():
    nine = [row for row in ROWS if row.net == "exp1" and row.k <= 9]
    nine += [row._replace(placed=0) for row in ROWS if row.net == "exp1" and row.k > 9]
    assert "(ours: all samples): nowhere." in from_rows.outside(nine, tables.cells(nine, ["exp1"]))
    bad = spoiled(nine)
    assert "1-3, all labels: 9, ours 3 [3, 3]." in from_rows.outside(bad, tables.cells(bad, ["exp1"]))


def test_training_sets_and_their_figure_use_one_measurement():
    found = training_sets.by_objects(ROWS + made("exp1_1-6", 0.8))
    assert [of.cell.net for of in found] == ["exp1", "exp1_1-6"] and list(found[0].over) == [7, 8, 9]
    figure = table_figures.plot_rows(found, ["a", "b"], {"filled": "cells filled"}, "share")
    drawn = [line.get_xdata() for line in figure.axes[1].lines][0]
    assert list(drawn) == [of.filled.value for of in found]
    assert [text.get_text() for text in figure.axes[0].get_yticklabels()] == ["a", "b"]
    labels = training_sets.by_labels(ROWS)
    assert [of.cell.net for of in labels] == ["exp2", "exp1"] and list(labels[0].over) == [4, 5, 6]


def test_patches_hold_two_labels_from_the_k_at_which_two_cells_are_near():
    """By the patches themselves: the labels that `patch_conditions` gives each cell."""
    for radius in (2, 3):
        some, around = training_sets.first_two_labels(radius)
        for k in range(1, 8):
            seen = patch_conditions(test_condition(k)[None], radius, 16)[0, :, :-2].sum(-1)
            labeled = test_condition(k) > 0
            assert ((seen >= 2).any().item(), (seen[labeled] >= 2).any().item()) == (k >= some, k >= around)
    assert training_sets.first_two_labels(1, range(1, 3)) == (None, None)
    assert "r = 3: from K = 2 on, around a label from K = 5 on" in training_sets.two_labels([3])


def hand(row, count, plausible):
    shown = Shown(row.net, row.weights, row.k, row.sample, *WAY)
    return HandCount(shown, count, plausible, "a model")


def test_blind_judgment_stands_beside_the_counter():
    rows = made("exp1", ks=(1, 2), n=4)
    hands = [hand(row, row.count + (row.k == 2), int(row.sample > 0)) for row in rows]
    assert training_sets.blind_successes(hands, rows, "exp1", (1,)) == (3, 4)  # one looks wrong
    assert training_sets.blind_successes(hands, rows, "exp1", (2,)) == (0, 4)  # one object too many
    assert training_sets.blind_successes(hands, rows, "exp2", (1,)) == (0, 0)
    assert "on it: 3 of 4." in sentences.blind(hands, rows, {"exp1": "on it"}, (1,))
    said = sentences.k_by_eye(hands, rows, {"exp1": "Exp. 1"})
    assert "| Exp. 1 | 1 [0, 1] | 1 [1, 1] | ≥ 2 [2, 2] |" in said
    both = agreement(hands, rows)
    assert "| K = 1 to 2 | 8 | 6 | 8 | -0.5 |" in sentences.looks_by_k(both, "exp1", [(1, 2)])
    assert sentences.agreement_lines(both).startswith("- 8 samples; same count 0.500")


def test_copies_are_counted_in_the_sentence():
    near = [Near("exp1", "w", 1, i, 1, i, 0.3, 0.4) for i in range(3)] + [
        Near(REAL, "", 1, 0, 1, 0, 0.3, 0.4)
    ]
    said = sentences.copies(near, {"exp1": "Exp. 1"})
    assert "0 of 3; among renders that no net saw: 0 of 1" in said and "sample is 0.75; a copy" in said
    assert "1 of 3" in sentences.copies([near[0]._replace(distance=0.1), *near[1:]], {"exp1": "Exp. 1"})


def test_a_place_is_found_where_an_object_is_assigned():
    asked = np.array(TEST_LOCATIONS[:3])
    aside = asked[:2] + [0.03, 0]  # half a cell
    row = made("exp1", ks=(3,), n=1, asked=encode(asked), centers=encode(aside))[0]
    row = row._replace(count=2, placed=2)
    points = strips.marked(row, 32)
    assert [found for *_, found in points] == [True, True, False]  # dots, a cross
    assert points[1][:2] == pytest.approx(32 * asked[1] - 0.5, abs=0.05)  # where it was asked for
    with pytest.raises(ValueError, match="rows of an earlier counter do not"):
        strips.marked(row._replace(asked="", centers=""), 32)


def test_a_strip_says_what_its_rows_say(monkeypatch):
    sheet = SimpleNamespace(
        samples={k: np.zeros((8, 3, 32, 32), np.uint8) for k in (1, 2)}, about={"weights": "0" * 12}
    )
    monkeypatch.setattr(strips, "read_sheet", lambda net, preset, family: sheet)

    def at(k):
        return encode(np.array(TEST_LOCATIONS[:k]))

    rows = [row for k in (1, 2) for row in made("exp1", ks=(k,), n=1, asked=at(k), centers=at(k))]
    shown = strips.strip(["exp1"], [1, 2, 3], rows)
    assert shown.captions == [["1 counted", "2", ""]] and shown.images[0][2] is None
    assert shown.numbers() == {
        "K": [1, 2, 3],
        "drawn": {"exp1": [1, 2, None]},
        "found": {"exp1": [1, 2, None]},
    }
    assert "Exp. 1: 3 of 3 locations asked for hold an object" in sentences.of_strip(shown, NETS)
    assert shown.words(["Exp. 1:\nall"]).endswith(
        "locations asked for that hold an object: Exp. 1: all 3 of 3."
    )
    assert alt_text.given(shown.grid(["Exp. 1"])) == shown.words(["Exp. 1"])
    missed = [row._replace(placed=0) for row in rows]
    assert "0 of 3 locations asked for" in sentences.of_strip(strips.strip(["exp1"], [1, 2], missed), NETS)
    dots = strips.strip(["exp1"], [1, 2])
    assert dots.words(["Exp. 1"]) == "Samples asked for 1, 2 objects, a row each: Exp. 1."
    assert dots.captions == [["", ""]] and len(dots.marks[0][1][0]) == 2  # nobody counted
    with pytest.raises(ValueError, match="the stored samples of exp1 are of 0"):
        strips.strip(["exp1"], [1], [rows[0]._replace(weights="other")])


def test_figure_1_draws_curves_over_their_null():
    def at(own, null):
        return Beside(Interval(own, own - 0.1, own), Interval(null, null, null), None, None)

    curves = {"Exp. 1": {1: at(1.0, 0.1), 2: at(0.9, 0.3)}, "Exp. 2": {1: at(0.9, 0.1), 2: at(0.2, 0.15)}}
    shown = strips.Strip([[None, None]] * 2, [[[], []]] * 2, [["", ""]] * 2, {}, {}, [1, 2])
    labels = {"exp1": "Exp. 1: all labels", "exp2": "Exp. 2: one label"}
    *_, axes = strips.figure_1(shown, labels, curves, trained=3).axes
    assert {"Exp. 1", "Exp. 2"} <= {text.get_text() for text in axes.texts}
    assert [list(line.get_ydata()) for line in axes.lines] == [
        [1.0, 0.9],
        [0.9, 0.2],
        [0.1, 0.3],
        [0.1, 0.15],
    ]
    assert alt_texts.figure_1(curves).endswith("at K = 2 Exp. 1 90% and Exp. 2 20%.")


def test_locality_is_said_as_it_was_measured():
    def at(value):
        return Interval(value, value, value)

    levels = net_locality.SIGMAS

    def curve(value):
        return {sigma: at(value if sigma >= 1 else 0.1) for sigma in levels}

    curves = {"exp1": {"within_2": curve(0.6), "window": curve(12), "window_1": curve(20)}}
    titles, twin = {"exp1": "Exp. 1"}, locality_rates.GaussianSides([7.0] * 9, [1.0] * 9, 9.7)
    assert "| Exp. 1 | 0.60 to 0.60 | 0.24 |" in sentences_locality.hears(curves, titles, {"exp1": 0.24})
    assert "| Exp. 1 | 0 (0) | 0 (0) | 12 (20) | 12 (20) |" in sentences_locality.looks(curves, titles, twin)
    rows = [
        net_locality.LocalityRow("exp1", "", 5, image, sigma, 9.0, 0.5, 0.5, min(sigma, 2.0))
        for image in range(3)
        for sigma in levels
    ]
    faint = sentences_locality.fades({"exp1": rows}, titles, 0.5, at=(0.2, 5.0))
    assert "| Exp. 1 | 0.10 [0.10, 0.10] | 1.00 [1.00, 1.00] |" in faint
    assert "| by preconditioning alone | 0.37 | 1.00 |" in faint  # c_out, what F is multiplied by
    assert "length is 9.7 px" in sentences_locality.gaussian(twin)
    target = {"Exp. 1": {"0.2": {"within_2": 0.69, "window": 5}}}
    assert "Exp. 1: 69% at σ = 0.2 (square 5 px)" in sentences_locality.nearby(target)


def test_ks_along_training_are_those_of_the_rule(monkeypatch):
    monkeypatch.setattr(rates.nets, "along", lambda measured, net, preset: {10: f"{net}@10", 900: net})
    rows = made("exp1", ks=range(1, 9)) + made("exp1@10", 0.0, ks=range(1, 7))
    found = rates.with_k(rows, {10: {}, 900: {}}, "exp1")
    assert {images: of["K"].value for images, of in found.items()} == {10: 0, 900: 6}
    said = sentences.along({"exp1": found}, NETS, {"K": "K"})
    assert "| Exp. 1 | 10 | 0 |" in said and "| Exp. 1 | 900 | 6 |" in said


def test_the_interval_of_a_mean_of_shares_is_narrower_than_theirs():
    of = {k: Interval(0.9, 0.84, 0.96) for k in range(1, 10)}
    line = sentences.exact({64: {"clevr": of, "crowded": {7: of[7]}}}).splitlines()
    assert "0.900 ± 0.024 | 0.900 ± 0.035" in line[2]  # of six and of three: .06 / sqrt(6), / sqrt(3)
    assert "– | 0.900 ± 0.060" in line[3]
