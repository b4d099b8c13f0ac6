"""Color rates beside their null: a net that listens, one that draws as many objects of random colors, and
what is drawn of them.
"""

import numpy as np
import pytest

from lcs_utils.claims import colors
from lcs_utils.evaluation import rules, sizes
from lcs_utils.evaluation.colors import color, color_figures, color_rates
from lcs_utils.evaluation.colors.color import Ceiling, ColorRow, encode
from lcs_utils.evaluation.features import feature_predictions
from lcs_utils.stats import Interval, as_dicts

KS = range(1, 9)


def planted(net, listens, family="subsets", samples=64):
    """As many objects as asked for, each of its own color with chance `listens`, otherwise of any."""
    rng, rows = np.random.default_rng(0), []
    for k in KS:
        for i, asked in enumerate(color.conditions(family, k, samples).int().numpy()):
            wanted = np.repeat(np.arange(8), asked)
            shown = np.where(rng.random(k) < listens, wanted, rng.integers(8, size=k))
            found = np.bincount(shown, minlength=8)
            right = int(np.minimum(found, asked).sum())
            how = (net, "a", "b", 0, "dpmpp_2m", 14, k, i, k, right, 1.0, family, "tiny")
            rows.append(ColorRow(*how, encode(asked), encode(found)))
    return rows


@pytest.fixture(scope="module")
def rows():
    nets = (("color_1-3", 1.0), ("color_single_1-3", 0.0))
    return [row for net, listens in nets for f in color.FAMILIES for row in planted(net, listens, f)]


def test_a_net_that_listens_stands_above_its_null_and_one_that_does_not_in_it(rows):
    hears, deaf = (color_rates.of_net(rows, net) for net in ("color_1-3", "color_single_1-3"))
    assert (hears.k.value, hears.k_null.value) == (8, 0) and hears.k.capped
    assert deaf.k.value <= 1 and deaf.k_null.value == 0
    for k in (2, 4, 6):
        assert hears.at[k].right.own.value == 1 and hears.at[k].right.above.low > 0.2
        at = deaf.at[k].right
        assert at.above.low < 0 < at.above.high
        assert at.own.low < deaf.at[k].chance < at.own.high  # as many randomly colored objects
        assert hears.at[k].obeyed.low > k - 0.5 and deaf.at[k].obeyed.high < 1.5
    assert hears.at[8].right.null is None  # all eight colors: no sample was asked for others
    assert hears.at[8].obeyed is None  # and any object shows one of them
    assert all(deaf.at[k].obeyed.low == 0 for k in (2, 4, 6))


def test_the_papers_list_borrows_its_null_from_random_subsets(rows):
    listed = color_rates.of_net(rows, "color_1-3", "colors")
    assert listed.k.value == 8 and listed.k_null.value == 0 and listed.at[3].right.null.value < 0.6
    alone = color_rates.of_net([r for r in rows if r.family == "colors"], "color_1-3", "colors")
    assert alone.k_null is None and alone.at[3].right.null is None  # nothing to borrow
    many = color_rates.of_net(rows, "color_1-3", "repeated")
    assert many.at[4].obeyed is None and many.at[4].right.null.value < 0.05 < many.at[4].chance


def test_rows_that_are_not_there_are_named_with_their_command(rows):
    with pytest.raises(ValueError, match="color_generalization color_1-5 --family subsets"):
        color_rates.of_net(rows, "color_1-5")
    with pytest.raises(ValueError, match="needs rows for k = 1"):
        color_rates.of_net([row for row in rows if row.k > 2], "color_1-3")


def test_figures_and_table_say_what_was_found(rows):
    read = {"tiny": rows, "small": planted("color_1-3", 1.0)}
    nets = color_figures.measured(lambda preset: read.get(preset, []))
    assert list(nets) == ["color_1-3, 64 px", "color_1-3", "color_single_1-3"]
    found = {net: color_rates.of_net(rows, sizes.bare(net)) for net in nets}
    listed = {net: color_rates.of_net(rows, sizes.bare(net), "colors") for net in nets}
    sure = Interval(0.9, 0.8, 1.0)
    limits = {k: Ceiling(sure, sure, sure) for k in KS}
    figure = color_figures.plot_success(found, limits)
    success, drawn = figure.axes  # all nets have at most three objects in training
    points = [list(line.get_xdata()) for line in success.lines if len(line.get_xdata()) < len(KS)]
    assert points.count([1, 2, 3]) == 6 and points.count([4, 5, 6, 7, 8]) == 3  # the rule changes after three
    assert drawn.get_title() == "objects drawn" and "noise" not in [text.get_text() for text in drawn.texts]
    assert [list(line.get_ydata()) for line in success.lines].count([0.25, 0.25]) == 1
    assert all([span.get_width() for span in axes.patches] == [3] for axes in figure.axes)
    named = [text.get_text() for text in figure.legends[0].get_texts()]
    assert len(named) == len(set(named)) == len(found) + 1  # each net once, and the null
    told = {"one": found["color_1-3"]._replace(trained=1), "three": found["color_1-3"]}
    drawn = color_figures.plot_success(told, limits).axes[1]
    assert [text.get_text() for text in drawn.texts][-3:] == ["in training, up to", "1", "3"]
    assert sorted(span.get_width() for span in drawn.patches) == [1, 3]
    ours = color_figures.plot_success({"mine": found["color_1-3"]}, limits)
    assert ours.legends[0].get_texts()[0].get_text() == "mine, 32 px"
    first = [
        cell.strip() for cell in color_figures.markdown(found, listed, listed).splitlines()[2].split("|")
    ]
    assert first[1] == "all colors told, 1-3 objects, 64 px" and first[4] == "4"  # the paper's K
    assert first[2].startswith("≥ 8 [8, 8]") and "(0" in first[2]  # ours, its null
    said = as_dicts(found)
    assert said["color_1-3"]["at"][2]["right"]["own"]["value"] == 1
    same = {net: color_rates.of_net(rows, sizes.bare(net), "repeated") for net in nets}
    families = {"random colors": found, "one color": same}
    panels = color_figures.plot_families(families, dict.fromkeys(families, limits)).axes
    assert [axes.get_title() for axes in panels] == list(families)
    for axes in panels:  # every panel shows the counter's own limit, and chance
        assert {text.get_text().strip() for text in axes.texts} == {"renders", "random colors"}
    told = {test.name: test.reached for test in feature_predictions.of_colors(found)}
    assert told == {
        "color_1-3, 64 px: K, with its interval, is the paper's, within one": False,  # eight, not four
        "color_1-3: K, with its interval, is the paper's, within one": False,
        "color_single_1-3: K of a net told one color": False,  # deaf: not even one
    }
    wide = {"color_1-3": found["color_1-3"]._replace(k=rules.LargestK(3, 1, 3, False))}
    assert [test.reached for test in feature_predictions.of_colors(wide)] == [
        None
    ]  # its interval leaves it open
    assert "| open |" in feature_predictions.markdown(feature_predictions.of_colors(wide))
    every = {
        net: of._replace(k=rules.LargestK(k, k, k, False))
        for net, k, of in (
            ("color_1", 1, found["color_1-3"]),
            ("color_1-3", 4, found["color_1-3"]),
            ("color_1-5", 7, found["color_1-3"]),
        )
    }
    assert colors._color_ks(every)[1] == "reproduced"
    assert colors._color_ks(every | wide)[1] == "undecided"
    nothing = rules.LargestK(0, 0, 0, False)
    blank = found["color_1-3"]._replace(k=nothing, k_null=nothing)
    blank = {net: blank for net in ("color_1", "color_single_1-3")}
    assert not any(test.reached for test in feature_predictions.of_colors(blank))  # 0 is within one of 1
    assert colors._color_ks({"color_1": blank["color_1"]})[1] == "not reproduced"


def test_chance_is_of_as_many_objects_as_asked_for_whatever_was_drawn():
    rows = []
    for k in (1, 2, 3):
        for i, asked in enumerate(color.conditions("subsets", k, 8).int().tolist()):
            how = ("color_1-3", "a", "b", 0, "dpmpp_2m", 14, k, i, k + 4, k, 1.0, "subsets", "tiny")
            rows.append(ColorRow(*how, encode(asked), encode(asked)))
    found = color_rates.of_net(rows, "color_1-3")
    for k, at in found.at.items():
        assert at.chance == pytest.approx(1 - (7 / 8) ** k, abs=1e-4)
        assert at.right.own.value == 1  # all that were asked for are there, beside four others


def test_a_net_that_draws_nothing_agrees_with_no_k_of_the_papers_even_without_a_null():
    for k, near in ((0, False), (1, True)):
        found = color_rates.ColorFound({}, rules.LargestK(k, k, k, False), None, 1)
        assert found.near(1) is near
