"""Counting by looking: blind, resumable, row by row; and agreement measures on tables worked out by hand."""

import math

import numpy as np
import pytest
import torch

from lcs_utils import nets, paths
from lcs_utils.evaluation import controls, family_grids
from lcs_utils.evaluation.eye import hand_counts as hc
from lcs_utils.evaluation.eye.agreement import Agreement, agreement, confusion, kappa
from lcs_utils.evaluation.rows import Row, write_rows
from lcs_utils.widgets.hand_count import HandCounter

SHOWN = [
    hc.Shown(net, "0" * 12, k, i, 0, "heun", 2) for net in ("exp1", "exp2") for k in (1, 4) for i in (0, 1)
]


def test_kappa_of_tables_worked_out_by_hand():
    table = np.array([[20, 5], [10, 15]])  # Cohen's textbook example: 0.7 observed, 0.5 by chance
    assert kappa(table) == pytest.approx(0.4)
    assert kappa(np.diag([3, 4, 5])) == 1 and kappa(np.full((2, 2), 5)) == pytest.approx(0)
    assert kappa(np.array([[0, 5], [5, 0]])) == pytest.approx(-1)
    ordered = np.array([[10, 0, 0], [0, 0, 10], [0, 0, 10]])  # only neighbors are confused
    assert kappa(ordered) == pytest.approx(0.5) and kappa(ordered, 2) == pytest.approx(1 - 10 / 50)
    assert kappa(ordered) < kappa(ordered, 1) < kappa(ordered, 2)
    assert math.isnan(kappa(np.array([[7]])))
    with pytest.raises(ValueError, match="at least one sample"):
        kappa(np.zeros((2, 2), int))


def test_confusion_counts_pairs():
    table = confusion(np.array([0, 2, 2, 1]), np.array([0, 2, 3, 1]))
    assert table.shape == (4, 4) and table.sum() == 4 and table[2, 3] == 1 and np.trace(table) == 3


def rows(difference=0, plausibility=1.0):
    def told(s):
        return (s.net, s.weights, "c" * 12, s.seed, s.solver, s.steps, s.k, s.sample)

    return [Row(*told(s), s.k + difference, s.k, plausibility) for s in SHOWN]


def test_agreement_joins_the_same_samples():
    hands = [hc.HandCount(s, s.k, 1, "me") for s in SHOWN]
    same = agreement(hands, rows())
    assert kappa(same.counts) == 1 and len(same.pairs) == len(SHOWN) and "same count 1.000" in same.lines()[0]
    other = agreement(hands, rows(1, 0.1))
    assert kappa(other.counts) < 0.1 and other.plausible.tolist() == [[0, 0], [8, 0]]
    assert "eye +1.00" in other.lines()[0] and "  Exp. 2: 4 samples, same count 0.00" in "".join(
        other.lines()
    )
    wrong = Agreement(
        [(h._replace(plausible=0), r) for h, r in same.pairs], same.counts, np.array([[1, 3], [0, 0]])
    )
    assert wrong.lines()[2] == "4 samples look wrong, of which the counter takes 3 for plausible"
    assert wrong.lines()[3].endswith(", 0 look right") and not same.lines()[3].endswith(", 0 look right")
    with pytest.raises(ValueError, match="none of 8 hand counts meets a row"):
        agreement(hands, [r._replace(weights="f" * 12) for r in rows()])


def test_the_command_says_which_counter_and_how_many_counts_met_no_row(tmp_path, monkeypatch, capsys):
    elsewhere = [s._replace(net=f"{s.net}, 64 px") for s in SHOWN[:3]]
    hands = [hc.HandCount(s, s.k, 1, "me") for s in (*SHOWN, *elsewhere)]
    write_rows(rows(), tmp_path / "told.csv")
    monkeypatch.setattr(hc, "read_counts", lambda: hands)
    monkeypatch.setattr(hc, "told_path", lambda: tmp_path / "told.csv")
    hc.main(["agreement"])
    said = capsys.readouterr().out
    assert f"counter {'c' * 12} of" in said and "told.csv" in said and "3 of 11 counts meet no row" in said
    assert "8 samples; same count 1.000" in said


def test_counts_are_stored_one_by_one_and_replaced_by_the_same_person(tmp_path):
    path = tmp_path / "counts.csv"
    for count in (
        (SHOWN[0], 3, 1, "me"),
        (SHOWN[1], 2, 0, "a model, blind"),
        (SHOWN[0], 4, 1, "me"),
        (SHOWN[0], 5, 1, "you"),
    ):
        hc.record([hc.HandCount(*count)], path)
    assert [(c.count, c.plausible, c.counted_by) for c in hc.read_counts(path)] == [
        (4, 1, "me"),
        (5, 1, "you"),
        (2, 0, "a model, blind"),
    ]
    with pytest.raises(ValueError, match="count >= 0 and who counted"):
        hc.record([hc.HandCount(SHOWN[0], -1, 1, "me")], path)
    with pytest.raises(ValueError, match="who counted, got 3 and ''"):
        hc.record([hc.HandCount(SHOWN[0], 3, 1, "")], path)
    whole = path.read_text()
    path.write_text(whole[:-5])  # cut off within a name
    with pytest.warns(UserWarning, match="which is dropped"):
        assert len(hc.read_counts(path)) == 2
    path.write_text(whole)
    path.write_text(path.read_text().replace("heun,2,test,4", "heun,2,test,four"))
    with pytest.raises(ValueError, match="holds a line that is no row"):
        hc.read_counts(path)


def test_a_count_that_would_spoil_the_shared_file_is_refused_before_it_is_touched(tmp_path):
    path, good = tmp_path / "counts.csv", hc.HandCount(SHOWN[0], 3, 1, "me")
    hc.record([good, hc.HandCount(SHOWN[1], np.int64(2), False, "me")], path)
    assert "True" not in path.read_text() and "False" not in path.read_text()
    hc.record([good._replace(plausible=True, counted_by="you")], path)
    whole = path.read_text()
    assert [(c.count, c.plausible) for c in hc.read_counts(path)] == [(3, 1), (3, 1), (2, 0)]
    for change, error, message in (
        ({"count": 2.5}, TypeError, "count must be a whole number, got 2.5"),
        ({"count": math.nan}, TypeError, "count must be a whole number, got nan"),
        ({"count": True}, TypeError, "count must be a whole number, got True"),
        ({"plausible": 7}, ValueError, r"plausible must be in 0\.\.1, got 7"),
        ({"plausible": "yes"}, TypeError, "plausible must be a whole number, got 'yes'"),
        ({"counted_by": 3}, TypeError, "counted_by must be text, got 3"),
        ({"counted_by": "me\n"}, ValueError, "counted_by must be one line"),
        ({"shown": SHOWN[0]._replace(k=1.5)}, TypeError, "k must be a whole number, got 1.5"),
        ({"shown": tuple(SHOWN[0])}, TypeError, "shown must be a Shown"),
    ):
        with pytest.raises(error, match=message):
            hc.record([good, good._replace(**change)], path)
    assert path.read_text() == whole


def test_answers_are_read_and_bad_lines_named():
    assert hc.answers("0 3\n\n2 11 ?\n", 3) == {0: (3, True), 2: (11, False)}
    wrong = {"0 three": "number count", "3 1": "numbers are 0..2", "0 1\n0 2": "each once", "0 1 x": "number"}
    wrong["0 ² ?"] = "number count"  # a digit, and no number
    for text, message in wrong.items():
        with pytest.raises(ValueError, match=message):
            hc.answers(text, 3)


def test_more_objects_than_a_control_has_are_refused_before_anything_is_drawn(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(hc, "images_of", lambda *_: pytest.fail("drawn"))
    monkeypatch.setattr(hc.changes, "weights", lambda net, preset: "0" * 12)
    for name, k, said in (
        ("render, 64 px", 13, "0..12, got 13"),
        ("exp1, 64 px", 10, "0..9 in family spread"),
    ):
        with pytest.raises(SystemExit):
            hc.main(["sheets", str(tmp_path), "--nets", name, "--k", str(k), "--family", "spread"])
        assert said in capsys.readouterr().err
    with pytest.raises(ValueError, match=r"k of a control must be in 0\.\.12, got 13"):
        controls.images("render, 64 px", 13, 1)


def test_a_round_is_blind_in_random_order_and_goes_on(tmp_path, monkeypatch):
    monkeypatch.setattr(
        hc, "images_of", lambda shown, preset: [torch.full((3, 4, 4), s.k / 4) for s in shown]
    )
    monkeypatch.setattr(nets, "row", lambda net, preset: {"sha256": "0" * 64})
    shown = hc.choose(["exp1", "exp2"], [1, 4], 2, 1, (0, "heun", 2))
    assert sorted(s._replace(seed=0) for s in shown) == sorted(SHOWN) and shown != sorted(shown)

    def again(order):
        return hc.choose(["exp1", "exp2"], [1, 4], 2, order, (0, "heun", 2))

    assert shown == again(1) != again(2)
    path = tmp_path / "counts.csv"
    widget = HandCounter(*(lambda s: (s.pictures, s.record, s.done))(hc.session(shown, "me", path)))
    for position, count in enumerate((5, 0, 2)):
        widget.answer = [position, count, 1]
    widget.answer = [2, 9, 1]  # too late: the third picture is answered
    widget.back += 1
    widget.answer = [2, 1, 0]
    assert repr(widget).startswith("8 pictures to be counted")
    assert widget.position == 3 and {(c.shown, c.count, c.plausible) for c in hc.read_counts(path)} == {
        (shown[0], 5, 1),
        (shown[1], 0, 1),
        (shown[2], 1, 0),
    }
    sent = repr(widget.get_state(["png", "position", "total", "answer", "back"]))
    assert "exp" not in sent and "heun" not in sent
    again = hc.session(shown, "me", path)
    assert again.done == 3 and again.shown == shown
    assert hc.session(shown, "you", path).done == 0
    with pytest.raises(ValueError, match="need pictures"):
        HandCounter([], again.record)


def test_sheets_show_numbers_only():
    page = hc.sheet([torch.zeros(3, 32, 32)] * 7, first=20)
    assert page.size == (5 * 328 + 8, 2 * (320 + 22 + 8) + 8)


def test_pictures_counted_by_eye_are_those_of_their_family(tmp_path, monkeypatch):
    """Each is drawn as its name says, and stored where its family's samples are."""

    def paints(x_t, sigma, cond):
        return cond.reshape(-1, 1, 16, 16).expand(-1, 3, -1, -1)

    monkeypatch.setattr(paths, "RUNS", tmp_path)
    monkeypatch.setattr(paths, "DATA", tmp_path)
    monkeypatch.setattr(nets, "row", lambda net, preset: {"sha256": "0" * 64})
    monkeypatch.setattr(hc.changes, "denoiser", lambda net, preset: (paints, 16))
    for family in ("test", "spread", "crowded"):
        shown = hc.choose(["mine"], [3, 5], 2, way=(1, "heun", 2), family=family)
        for s, image in zip(shown, hc.images_of(shown), strict=True):
            asked = family_grids.grids(family_grids.locations(family, s.k, 2, seed=1))[s.sample]
            torch.testing.assert_close(image[0].flatten(), asked, atol=1e-5, rtol=0)
            key = dict(k=s.k, seed=1, solver="heun", steps=2, weights="0" * 12, family=family)
            kept = np.load(hc.samples_path("mine", "tiny", **key))
            assert np.array_equal(kept[s.sample], image.numpy())
