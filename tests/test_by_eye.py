"""Blind looks with controls: controls are what they claim, shown twice; agreement on planted judgments."""

import pytest
import torch

from lcs_utils import nets, paths
from lcs_utils.counter import shipped
from lcs_utils.diffusion import from_uint8
from lcs_utils.evaluation import controls, counting, length_generalization
from lcs_utils.evaluation.eye import by_eye, by_eye_figures
from lcs_utils.evaluation.eye import hand_counts as hc
from lcs_utils.evaluation.eye.hand_count_rows import Shown
from lcs_utils.evaluation.rows import Row
from lcs_utils.evaluation.sheets import read_sheet, rounded
from lcs_utils.plotting import to_uint8


def test_controls_are_the_same_pictures_again_and_spoiled_ones_differ_visibly():
    clean, spoiled = (controls.images(f"{kind}, 32 px", 2, 3) for kind in controls.CONTROLS)
    assert clean.shape == spoiled.shape == (3, 3, 32, 32)
    assert torch.equal(clean[:2], controls.images("render", 2, 2))  # the first ones, whatever was asked for
    assert torch.equal(spoiled[:2], controls.images("spoiled", 2, 2))
    assert ((clean - spoiled).abs().amax((1, 2, 3)) > 0.1).all()
    for name in ("samples", "render, 16 px"):
        with pytest.raises(ValueError, match=name.partition(", ")[2] or name):
            controls.images(name, 2, 1)


def test_sheets_mix_nets_of_two_sizes_and_controls():
    shown = hc.choose(["exp1", "exp1, 64 px", "render, 64 px"], [2], 2)
    assert {s.net for s in shown} == {"exp1", "exp1, 64 px", "render, 64 px"}
    assert len({s.weights for s in shown}) == 3
    sides = {s.net: image.shape[-1] for s, image in zip(shown, hc.images_of(shown), strict=True)}
    assert sides == {"exp1": 32, "exp1, 64 px": 64, "render, 64 px": 64}
    page = hc.sheet(hc.images_of(shown), 0)
    assert page.width == hc.COLUMNS * (hc.SIDE + 8) + 8


def test_pictures_at_random_cells_come_from_their_sheet_where_weights_are_not_shipped():
    shown = hc.choose(["exp2/stochastic, 64 px by Muon"], [2, 3], 2, family="spread")
    sheet = read_sheet("exp2/stochastic", "medium", "spread")
    for s, image in zip(shown, hc.images_of(shown, "medium"), strict=True):
        assert torch.equal(image, from_uint8(torch.from_numpy(sheet.samples[s.k][s.sample])))


def test_colors_do_not_tell_a_net_from_a_control(monkeypatch):
    # sheets are rounded: stored samples come first, and beside a sheet all pictures are rounded alike
    shown = hc.choose(["exp1, 64 px", "render, 64 px"], [2], 1)

    def coarse(image):
        pixels = to_uint8(image)
        return (rounded(pixels) == pixels).all()

    assert all(coarse(image) for image in hc.images_of(shown))
    exact = torch.linspace(-1, 1, 3 * 64 * 64).reshape(1, 3, 64, 64)
    monkeypatch.setattr(hc, "kept_samples", lambda path: 1)
    monkeypatch.setattr(hc, "keep_drawing", lambda *a: iter([exact]))
    monkeypatch.setattr(hc.changes, "denoiser", lambda net, preset: (None, 64))
    assert not any(coarse(image) for image in hc.images_of(shown))


def test_those_who_judged_the_last_net_are_compared_with_themselves():
    """What others said of the same pictures does not count."""
    nets = by_eye.JUDGED[by_eye.MUON_1]
    found = by_eye.by_same_judges(hc.read_counts(), by_eye.MUON_1).seen
    names = {*nets, "render, 64 px", "spoiled, 64 px", "exp1/stochastic, 64 px"}
    assert {by_eye.LABELS[name] for name in names} < set(found) and by_eye.LABELS["exp2, 64 px"] not in found
    others = [hand for hand in hc.read_counts() if hand.counted_by == by_eye.EYE]
    elsewhere = by_eye.by_same_judges(others, by_eye.MUON_1).seen
    assert set(elsewhere) == {by_eye.LABELS[name] for name in nets}
    again = by_eye.LABELS[by_eye.JUDGED[by_eye.MUON_1][1]]  # judged by the next judges, too, each told apart
    every = [by_eye.by_same_judges(hc.read_counts(), of).seen for of in by_eye.JUDGED]
    own, *later = (seen[again] for seen in every if again in seen)  # the last judged another training's end
    assert len(later) == 2 and len(every) == 4 and all(own.keys() > of.keys() == {"K = 1–3"} for of in later)
    each = [of["K = 1–3"] for of in (own, *later)]
    assert {of.samples for of in each} == {48} and len({of.eye.value for of in each}) == 3
    with pytest.raises(ValueError, match="unknown judges .others.; allowed"):
        by_eye.by_same_judges(others, "others")
    (renders, spoiled) = (found[by_eye.LABELS[f"{name}, 64 px"]]["K = 1–3"] for name in ("render", "spoiled"))
    assert renders.eye.low > spoiled.eye.high and renders.samples == spoiled.samples == 18


def planted(bias=0, looks=1.0, eye=1):
    shown = [
        hc.Shown(net, "0" * 12, k, i, 0, "heun", 2) for net in by_eye.LABELS for k in (2, 5) for i in (0, 1)
    ]
    hands = [hc.HandCount(s, s.k, eye, by_eye.EYE) for s in shown]
    told = [Row(s.net, s.weights, "c", 0, "heun", 2, s.k, s.sample, s.k + bias, s.k, looks) for s in shown]
    return by_eye.compare(hands, stored=told)


def test_planted_judgements_come_back():
    same, more = planted(), planted(bias=1, looks=0.1)
    assert set(same.seen) == set(by_eye.LABELS.values()) and set(same.seen["clean renders"]) == {
        "K = 1–3",
        "K = 4–6",
    }
    of = more.seen["Exp. 1"]["K = 1–3"]
    assert (of.samples, of.eye.value, of.counter.value, of.bias.value, of.extras.value) == (2, 1, 0, 1, 0)
    assert same.kappa_counts == 1 and more.kappa_counts < 0.2
    assert "| Exp. 1, K = 1–3 | 2 | 1.00 | 0.00 | +1.00 | +0.00 |" in by_eye_figures.markdown(more)
    both = by_eye_figures.markdown(same, second=more)  # the second counter's stand after a slash
    assert "| Exp. 1, K = 1–3 | 2 | 1.00 | 1.00 / 0.00 | +0.00 / +1.00 | +0.00 |" in both
    figure = by_eye_figures.plot(same, more)
    assert [text.get_text() for text in figure.legends[0].get_texts()][-1] == "second counter"
    assert len(figure.axes[1].lines) > len(by_eye_figures.plot(same).axes[1].lines)
    assert more.numbers()["seen"]["clean renders"]["K = 4–6"]["bias"]["value"] == 1
    with pytest.raises(ValueError, match="none of 0 hand counts"):
        by_eye.compare([], stored=[])


def test_hands_of_one_size_go_by_the_nets_bare_names():
    shown = [
        hc.Shown(net, "0" * 12, 2, 0, 0, "dpmpp_2m", 14) for net in ("exp1, 64 px", "exp1, 32 px", "exp1")
    ]
    hands = [hc.HandCount(s, 2, 1, who) for s in shown for who in (by_eye.EYE, "somebody else")]
    (mine,) = by_eye.of_size(hands, "64 px")
    assert mine.shown == shown[0]._replace(net="exp1") and mine.counted_by == by_eye.EYE
    assert by_eye.of_size(hands, "128 px") == []


def test_the_second_counters_rows_are_of_what_was_looked_at():
    second = by_eye.second_rows()
    assert {row.counted_by for row in second if not controls.is_control(row.net)} == {
        counting.counter_hash(64, shipped.SECOND)
    }
    looked = by_eye.compare(hc.read_counts(), stored=second)
    assert {"clean renders", "spoiled renders", "Exp. 1"} <= set(looked.seen)


def test_a_counter_that_is_not_trained_is_named_with_its_command(tmp_path, monkeypatch):
    monkeypatch.setattr(paths, "RUNS", tmp_path)
    with pytest.raises(
        nets.CheckpointError, match="no counter in .*counter128; train it: .*--resolution 128"
    ):
        counting.counter_hash(128)


def test_another_counters_rows_need_a_file_of_their_own(capsys):
    for command in (length_generalization.main, controls.main):
        with pytest.raises(SystemExit):
            command(
                ["exp1", "--counter", "x"] if command is length_generalization.main else ["--counter", "x"]
            )
        assert "--rows" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("command", "says"),
    [
        (["--samples", "0"], "--samples must be at least 1, got 0"),
        (["--counter", "nowhere", "--rows", "mine.csv"], "counter: nowhere/row.json is missing"),
    ],
)
def test_controls_that_cannot_be_counted_are_refused_in_a_line(tmp_path, monkeypatch, capsys, command, says):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(controls, "rows", lambda *_: pytest.fail("counted"))
    with pytest.raises(SystemExit):
        controls.main(command)
    assert says in capsys.readouterr().err


def test_the_eye_with_itself_and_k_by_eye():
    shown = [hc.Shown("exp1, 64 px", "0" * 12, k, i, 0, "dpmpp_2m", 14) for k in (1, 2) for i in range(8)]
    first = [hc.HandCount(s, s.k, s.sample % 2, by_eye.EYE) for s in shown]
    second = [
        hand._replace(counted_by=by_eye.AGAIN, count=hand.count + (hand.shown.k == 2)) for hand in first
    ]
    told = [Row(s.net, s.weights, "c", 0, "dpmpp_2m", 14, s.k, s.sample, s.k, s.k, 1.0) for s in shown]
    looked = by_eye.compare(first, stored=told)
    found = by_eye.twice(first + second, looked)
    assert (found.pictures, found.kappa_looks, found.same) == (16, 1, 0.5) and found.kappa_counts < 1
    assert found.counter_counts == 1 and found.counter_looks == 0  # it takes all for right
    gone = [hand._replace(shown=hand.shown._replace(weights="1" * 12)) for hand in second]
    assert by_eye.twice(first, looked) is None and by_eye.twice(first + gone, looked) is None
    line = next(line for line in by_eye.largest(first, told).splitlines() if line.startswith("| Exp. 1 |"))
    assert line.count("2") >= 2 and "Exp. 2" not in by_eye.largest(first, told)  # nobody judged it


def test_k_by_eye_keeps_families_apart():
    shown = [hc.Shown("exp1, 64 px", "0" * 12, k, i, 0, "dpmpp_2m", 14) for k in (1, 2, 3) for i in range(8)]
    spread = [s._replace(family="spread") for s in shown]
    hands = [hc.HandCount(s, 1, 1, by_eye.EYE) for s in shown]  # one object, whatever is asked for
    hands += [hc.HandCount(s, s.k, 1, by_eye.EYE) for s in spread]
    told = [
        Row(s.net, s.weights, "c", 0, "dpmpp_2m", 14, s.k, s.sample, s.k, s.k, 1.0, family=s.family)
        for s in shown + spread
    ]
    test, random = (
        by_eye.largest_of(hands, told, "exp1, 64 px", family).eye.value for family in ("test", "spread")
    )
    assert (test, random) == (1, 3)
    assert by_eye.largest_of(hands, told, "exp1, 64 px", "crowded").eye is None


def test_what_was_seen_at_random_cells_stands_beside_the_papers_list_and_not_in_it():
    hands = hc.read_counts()
    listed, both = by_eye.compare(hands), by_eye.compare_everywhere(hands)
    beside = {label for label in both.seen if label.endswith(by_eye.RANDOM)}
    assert beside and {k: v for k, v in both.seen.items() if k not in beside} == listed.seen
    assert both.kappa_looks == listed.kappa_looks and len(both.all.pairs) == len(listed.all.pairs)
    of_the_list = [hand for hand in hands if hand.shown.family == "test"]
    assert not any(label.endswith(by_eye.RANDOM) for label in by_eye.compare_everywhere(of_the_list).seen)


def test_each_group_of_judges_is_counted_apart():
    def hand(k, sample, plausible, who, family="spread"):
        return hc.HandCount(
            Shown("exp1, 64 px", "0" * 12, k, sample, 0, "heun", 8, family), k, plausible, who
        )

    hands = [hand(1, 0, 1, "one"), hand(2, 0, 0, "one"), hand(1, 0, 1, "other"), hand(4, 0, 1, "one")]
    hands += [
        hand(1, 1, 1, "one", "test"),
        hands[0]._replace(shown=hands[0].shown._replace(net="exp2, 64 px")),
    ]
    assert by_eye.passed(hands, "exp1, 64 px", "spread", 3) == {"one": (1, 2), "other": (1, 1)}


def test_pictures_up_to_k_hold_those_at_k_itself():
    shown = [hc.Shown("exp1, 64 px", "0" * 12, k, 0, 0, "heun", 8, "spread") for k in (3, 4)]
    hands = [hc.HandCount(s, s.k, 1, "one") for s in shown]
    assert by_eye.passed(hands, "exp1, 64 px", "spread", 3) == {"one": (1, 1)}
    told = [Row(s.net, s.weights, "c", 0, "heun", 8, s.k, 0, s.k, s.k, 1.0, "spread") for s in shown]
    mine = [hand._replace(counted_by=by_eye.EYE) for hand in hands]
    found = by_eye.compare(mine, {"exp1, 64 px": "Exp. 1"}, told)
    assert found.looks("exp1, 64 px", 3) == [1] and found.looks("exp1, 64 px", 2) == []


def test_extra_objects_are_what_the_eye_saw_beyond_what_was_asked_for():
    """Of two asked for, the eye sees five and the counter four, one of them in its place."""
    shown = [hc.Shown("exp1, 64 px", "0" * 12, 2, i, 0, "heun", 2) for i in (0, 1)]
    hands = [hc.HandCount(s, 5, 1, by_eye.EYE) for s in shown]
    told = [Row(s.net, s.weights, "c", 0, "heun", 2, 2, s.sample, 4, 1, 1.0) for s in shown]
    seen = by_eye.compare(hands, {"exp1, 64 px": "Exp. 1"}, told).seen["Exp. 1"]["K = 1–3"]
    assert (seen.extras.value, seen.bias.value) == (3, -1)


def test_what_looks_wrong_to_the_eye_does_not_count_where_looks_are_judged():
    shown = [hc.Shown("exp1, 64 px", "0" * 12, k, i, 0, "heun", 2) for k in (1, 2) for i in range(8)]
    hands = [hc.HandCount(s, s.k, int(s.k == 1), by_eye.EYE) for s in shown]  # at two, all look wrong
    told = [Row(s.net, s.weights, "c", 0, "heun", 2, s.k, s.sample, s.k, s.k, 1.0) for s in shown]
    found = by_eye.largest_of(hands, told, "exp1, 64 px")
    assert [k.value for k in found] == [2, 2, 1]
