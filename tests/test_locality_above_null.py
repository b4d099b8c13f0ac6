"""Locality is held against what conditions cause: a net that is deaf lies on the null, however many cells it
fills.
"""

import json
from itertools import combinations

import pytest
from test_placement import crowd, planted

from lcs_utils import paths
from lcs_utils.evaluation import against_null, alt_texts
from lcs_utils.evaluation.locality import locality_above_null, locality_figures, locality_rates
from lcs_utils.evaluation.locality.net_locality import LocalityRow
from lcs_utils.stats import Interval

OBEYED = {"exp1": 6, "random_1-3": 4, "drop_one_1-3": 2, "exp2": 0}
LOCALITY = dict(zip(OBEYED, (0.6, 0.5, 0.4, 0.25), strict=True))


@pytest.fixture
def found(monkeypatch):
    """Nets that obey so many of six conditions and draw the rest in the middle."""
    rows = [
        row
        for net, obeyed in OBEYED.items()
        for row in planted("spread", 6, lambda rng, obeyed=obeyed: obeyed, 0, crowd, 64, net=net)
    ]
    monkeypatch.setattr(locality_above_null, "measured_nets", lambda rows, preset: [*OBEYED, "exp1_1"])
    monkeypatch.setattr(locality_above_null.net_locality, "read", lambda preset: [])
    monkeypatch.setattr(locality_above_null.net_locality, "current", lambda rows, nets, preset: LOCALITY)
    monkeypatch.setattr(
        locality_above_null, "at_high_noise", lambda value: Interval(value, value - 0.02, value + 0.02)
    )
    return locality_above_null.above_null(rows)


def test_a_deaf_net_lies_on_the_null_and_others_as_far_above_as_they_obey(found):
    assert list(found.above) == list(OBEYED)  # one was not asked for six random cells
    values = [of.value for of in found.above.values()]
    assert values == sorted(values, reverse=True) and values[0] > 0.4 > 0.05 > abs(values[-1])
    assert found.above["exp2"].low <= 0 < found.above["drop_one_1-3"].low and found.null["exp2"] > 0.1


def test_a_net_that_draws_just_what_it_is_asked_for_is_the_ceiling():
    """Whatever the net itself draws: of a deaf one's rows only what was asked is read."""
    rows = {obeyed: planted("spread", 6, lambda rng: obeyed, 0, crowd, 64, net="exp1") for obeyed in (6, 0)}
    own = {obeyed: against_null.of_nets(of, ["exp1"], "spread").at[6].filled for obeyed, of in rows.items()}
    assert own[6].own.value == 1 and abs(own[0].above.value) < 0.1
    for of in rows.values():
        assert abs(against_null.perfect(of, 6) - own[6].above.value) < 1e-9 and own[6].above.value < 0.8
    with pytest.raises(ValueError, match="exp3"):
        against_null.perfect(rows[6], 6, "exp3")


def test_the_correlation_is_one_in_order_and_minus_one_turned_around(found):
    assert locality_above_null.ranked(found)["all"].value == 1
    few = "never shown 6 objects"
    assert set(locality_above_null.ranked(found)) == {"all", few}  # no three nets are told alike
    for field in ("locality", "above"):  # equal values have no order, however wide their intervals are
        same = {net: Interval(0.3, 0.3 - i / 10, 0.4) for i, net in enumerate(found.locality)}
        assert not locality_above_null.ranked(found._replace(**{field: same}))
    wide = found._replace(
        locality=found.locality | {"exp1_1-6": Interval(0.1, 0.1, 0.1)},
        above=found.above | {"exp1_1-6": Interval(0.5, 0.5, 0.5)},
    )
    assert set(wide.of(few).above) == set(found.above)
    assert locality_above_null.ranked(wide)[few].value == 1 > locality_above_null.ranked(wide)["all"].value
    turned = dict(zip(OBEYED, reversed(found.locality.values()), strict=True))
    assert found._replace(locality=turned).correlation().value == -1
    again = {"exp1_seed1": 0.62, "exp1_seed2": 0.55}
    more = found._replace(
        locality=found.locality | {net: Interval(v, v, v) for net, v in again.items()},
        above=found.above | dict.fromkeys(again, found.above["exp1"]),
    )
    ranks = locality_above_null.ranked(more)
    assert set(ranks) == {"all", few}  # three are told alike, which do not differ
    differ = more._replace(above=more.above | {"exp1_seed2": found.above["exp2"]})
    assert locality_above_null.ranked(differ)["told all labels"].kinds == 1
    assert (ranks["all"].nets, ranks["all"].kinds) == (6, 4)
    assert len(more.of("told all labels").above) == 3 and set(more.of("told one label").locality) == {"exp2"}
    with pytest.raises(ValueError, match="3 or more"):
        found.of("told one label").correlation()


def test_nets_of_one_s_own_are_not_taken_up(monkeypatch):
    """Not even where the experiment's file is missing, without which nothing is known of them."""
    row = planted("spread", 6, lambda rng: 6, 0, crowd, 1)[0]._replace(net="mine_1-4")
    located = LocalityRow("mine_1-4", row.weights, 4, 0, 2.0, *[0.5] * 5)
    monkeypatch.setattr(locality_rates, "read", lambda preset: [located])
    monkeypatch.setattr(locality_above_null.net_locality, "read", lambda preset: [located])
    assert locality_above_null.above_null([row]).above == {}


def test_the_thesis_is_drawn_and_said(found):
    ranks = locality_above_null.ranked(found)
    axes = locality_figures.plot_above_null(found, ranks["all"], 0.49).axes[0]
    drawn = {
        (line.get_xdata()[0], line.get_ydata()[0])
        for line in axes.lines
        if line.get_marker() not in ("", "None", None)
    }
    assert drawn == {(found.locality[net].value, found.above[net].value) for net in OBEYED}
    words = [text.get_text() for text in axes.texts]
    assert {"null", "hears all alike", "draws just what it is asked for"} <= set(words) and words.count(
        "1-3"
    ) == 4
    axes.figure.canvas.draw()
    boxes = [text.get_window_extent() for text in axes.texts if text.get_text() == "1-3"]
    bars = [
        axes.transData.transform([(found.locality[net].value, at) for at in (of.low, of.high)])
        for net, of in found.above.items()
    ]
    crossed = [
        (box, bar)
        for box in boxes
        for bar in bars
        if box.x0 < bar[0, 0] < box.x1 and box.y0 < bar[1, 1] and bar[0, 1] < box.y1
    ]
    assert len(boxes) == len(bars) and not crossed  # a name stands beside its error bar, not on it
    said = locality_above_null.sentence(found, ranks)
    assert said.startswith("Rank correlation 1.00 [") and said.count("\n| Exp.") == 2
    assert said.index("| Exp. 1 |") < said.index("| Exp. 2 |")
    many = {words: of._replace(kinds=locality_above_null.LEAST) for words, of in ranks.items()}
    sentences = [locality_above_null.sentence(found, of) for of in (ranks, many)]
    of_groups = [of.partition("kinds of nets, ")[2].partition(" (intervals only")[0] for of in sentences]
    assert len(ranks) > 1 and "[" not in of_groups[0] and of_groups[1].count("[") == len(ranks) - 1
    assert alt_texts.thesis(found, ranks["all"], 0.49).startswith("4 trainings at 64 px by how locally")


def test_names_stand_off_every_error_bar_and_point_of_the_stored_figure():
    """A 1 that touches its bar reads 1-."""
    stored = json.loads((paths.FIGURES / "tiny" / "locality_above_null.json").read_text())["values"]
    of = {key: {net: Interval(*at) for net, at in stored[key].items()} for key in ("locality", "above")}
    found = locality_above_null.AboveNull(of["locality"], of["above"], stored["null"])
    rank = locality_above_null.ranked(found)["all"]
    axes = locality_figures.plot_above_null(found, rank, stored["perfect"]).axes[0]
    axes.figure.canvas.draw()
    points = {net: locality_figures.point_style(net).words for net in of["above"]}
    texts = [text for text in axes.texts if text.get_text() in points.values()]
    assert len(texts) == sum(map(bool, points.values())) == 12
    names = [text.get_window_extent() for text in texts]
    assert not [pair for pair in combinations(names, 2) if pair[0].overlaps(pair[1])]
    across = (0, stored["perfect"])  # the lines of the null and of a perfect net
    ends = [axes.transData.transform([(0, height), (1, height)]) for height in across]
    for net, share in of["locality"].items():
        filled = of["above"][net]
        ends.append(axes.transData.transform([(share.low, filled.value), (share.high, filled.value)]))
        ends.append(axes.transData.transform([(share.value, filled.low), (share.value, filled.high)]))
    pixels = 2 * axes.figure.dpi / 72  # two points
    touched = [
        box
        for box in names
        for (x0, y0), (x1, y1) in ends
        if box.x0 - pixels < x1 and x0 < box.x1 + pixels and box.y0 < y1 + 1 and y0 - 1 < box.y1
    ]
    assert not touched
