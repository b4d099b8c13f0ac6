"""What is said of feature rows: curves, predictions by name and figures, from planted rows with one fault
each.
"""

from itertools import combinations
from types import SimpleNamespace

import pytest
import torch
from matplotlib.text import Text

from lcs_utils import plotting
from lcs_utils.claims import NO, OPEN, PARTLY, YES, colors
from lcs_utils.clevr.scenes import COLORS
from lcs_utils.evaluation import net_labels
from lcs_utils.evaluation.colors import color_generalization
from lcs_utils.evaluation.features import (
    feature_causal_report,
    feature_figures,
    feature_labels,
    feature_matrices,
    feature_predictions,
    feature_ranks,
    feature_report,
)
from lcs_utils.evaluation.features.feature_matrices import CosineRow
from lcs_utils.evaluation.features.net_features import KS, REMOVALS, FeatureRow
from lcs_utils.evaluation.rows import of_preset
from lcs_utils.experiments import Experiment

LAYERS = ("encoder.0.scale", "encoder.1.scale", "decoder.0.scale", "denoiser")
# additivity at K = 3, own share at K = 4, mean cosine of each net
PLANTED = {"exp1": (0.9, 0.8, 0.2), "exp2": (-0.5, 0.3, 0.3), "untrained": (0.5, 0.5, 0.1)}


def feature_rows(planted=PLANTED):
    rows = []
    for net, (added, own, cosine) in planted.items():
        for layer in LAYERS:

            def row(measure, k, value, control="", reading="flat", net=net, layer=layer):
                how = ("tiny", net, "w", layer, reading, 2.0, "noise", "random", 16)
                rows.append(FeatureRow(*how, measure, k, control, value, value - 0.1, value + 0.1))

            for k in KS:
                row("additivity", k, 1 - (1 - added) * (k - 1) / 2)
                row("effect", k, 0.1 * k)
            for k in REMOVALS:
                row("own_share", k, own)
            for control in ("permuted", "random"):
                row("additivity", 3, -2.0, control)
                row("own_share", 4, 0.25, control)
            for control in ("", "permuted", "random"):
                row("cosine_abs", 1, cosine if not control else 0.05, control)
            row("overlap", 1, 0.5)
            row("overlap", 1, 0.6, "rotated")
            for control in ("", "permuted"):
                row("probe", 6, 0.9 if not control else 0.5, control, "mean")
    for way, effect in (("add", 0.1), ("remove", 0.7)):
        for control in feature_causal_report.CONTROLS:
            value = {"": effect, "condition": 1.0}.get(control, 0.0)
            for name, shown in (("effect", value), ("leak", 0.1)):
                how = ("tiny", "exp1", "w", "decoder.0.scale", "flat", 0.0, "samples", "first", 16)
                rows.append(FeatureRow(*how, f"{way}_{name}", 3, control, shown, shown, shown))
    return rows


@pytest.fixture(scope="module")
def rows():
    return feature_rows()


def test_predictions_are_reached_or_missed_by_name(rows):
    tests = feature_predictions.of_features(rows, "exp1", "exp2")
    tests += feature_predictions.of_causes(rows, "exp1", ["decoder.0.scale"])
    missed = [test.name for test in tests if not test.reached]
    assert missed == [
        "exp1: cosines of eq. (3) smaller than an untrained net's",
        "exp1: adding a direction draws its object",
    ]
    for net, planted, name in (
        ("exp1", (0.7, 0.8, 0.2), "exp1: the denoiser adds three conditions"),
        ("untrained", (0.9, 0.5, 0.1), "exp1: the denoiser adds three conditions"),  # nothing was learned
        ("exp2", (0.5, 0.3, 0.3), "exp2: the denoiser does not add three"),
        ("exp2", (-0.5, 0.6, 0.3), "exp2: removing one of four does not"),
        ("exp1", (0.9, 0.5, 0.2), "exp1: removing one of four moves along its own direction"),
    ):
        worse = feature_rows(PLANTED | {net: planted})
        failed = [t.name for t in feature_predictions.of_features(worse, "exp1", "exp2") if not t.reached]
        assert name in failed
    said = feature_predictions.markdown(tests)
    assert said.count("**missed**") == 2 and said.count("| reached |") == len(tests) - 2


def test_a_direction_that_changes_the_rest_causes_nothing(rows):
    def leaking(row):
        grown = row.measure == "remove_leak" and not row.control
        return row._replace(value=0.9) if grown else row

    spilled = [leaking(row) for row in rows]
    removed = feature_predictions.of_causes(spilled, "exp1", ["decoder.0.scale"])[1]
    assert not removed.reached and "the rest 0.90" in removed.found
    with pytest.raises(ValueError, match="feature_causal exp2"):
        feature_predictions.of_causes(rows, "exp2", ["decoder.0.scale"])


def test_outcomes_are_told_of_the_nets_that_were_measured_and_of_no_others():
    """Each by its own size: what another preset has counted since changes nothing."""
    asked = {"exp1, 64 px", "exp2"}
    found = feature_report.outcomes(of_preset, color_generalization.read, asked)
    assert set(found) == set(feature_report.OUTCOMES) and all(set(of) == asked for of in found.values())
    assert found["K"]["exp1, 64 px"] > 3 > found["K"]["exp2"]
    assert feature_report.outcomes(of_preset, color_generalization.read, ["exp9"])["K"] == {}


def test_rows_of_two_orders_or_numbers_of_draws_are_not_mixed(rows):
    assert feature_report.pick(rows, "exp1", "additivity", 3).order == "random"
    for other in ({"order": "first"}, {"draws": 2}):
        two_ways = [*rows, *(row._replace(**other, value=-9.0) for row in rows if row.net == "exp1")]
        with pytest.raises(ValueError, match="measured in several ways .*pass those of one"):
            feature_report.pick(two_ways, "exp1", "additivity", 3)
        assert feature_report.pick(two_ways, "exp2", "additivity", 3).value == pytest.approx(
            feature_report.pick(rows, "exp2", "additivity", 3).value
        )


def test_curves_tables_and_figures_show_what_has_rows(rows):
    curves = feature_report.curves(rows, kind="location")
    assert [(curve.net, curve.trained) for curve in curves] == [("exp1", 3), ("exp2", 3), ("untrained", None)]
    assert feature_report.curves(rows, kind="color") == []
    table = feature_report.markdown(rows, curves)
    assert table.count("\n") == 5 and table.count("(-2.00, -2.00) |") == table.count("(0.25, 0.25) |") == 3
    assert table.count("| 0.50 (0.60) | 0.90 (0.50) |") == 3  # overlap and probe, each beside its control
    assert "–" not in feature_report.by_noise(rows, curves)
    figure = feature_figures.plot_additivity(rows, curves, KS)
    assert [axes.get_title() for axes in figure.axes][2] == "denoiser D"
    assert len(feature_figures.plot_own_share(rows, curves, REMOVALS).axes) == 3
    assert len(feature_figures.plot_causal(rows, {"exp1": "Exp. 1"}, ["decoder.0.scale"]).axes) == 2
    with pytest.raises(ValueError, match="feature_causal exp2 --layers decoder.0.scale"):
        feature_figures.plot_causal(rows, {"exp2": "Exp. 2"}, ["decoder.0.scale"])
    removed = [row for row in rows if (row.measure, row.control) != ("remove_effect", "untrained")]
    both_ways = [
        len(axes.get_lines())
        for axes in feature_figures.plot_causal(removed, {"exp1": "Exp. 1"}, ["decoder.0.scale"]).axes
    ]
    assert both_ways[0] == both_ways[1] + 2  # an untrained net's removal was not measured
    k = {"exp1": 7, "exp2": 1}
    values = feature_report.measures_of(rows, k)
    assert values["one minus mean absolute cosine"] == {"exp1": 0.8, "exp2": 0.7, "untrained": 0.9}
    both = {"K": k, "share of six obeyed": {"exp1": 0.8, "exp2": 0.1}}
    ranks = {
        outcome: {words: feature_ranks.Correlation(1, 1, 1, 2, 2) for words in values} for outcome in both
    }
    assert len(feature_figures.plot_against_outcomes(values, both, ranks, ranks).axes) == 6
    three = {"additivity": {"exp1": 0.9, "exp2": -1.0, "mine": 0.5, "unknown": 0.0, "untrained": 0.4}}
    ranks = feature_ranks.correlations(three, {"K": {"exp1": 7, "exp2": 1, "mine": 4}})
    assert ranks["K"]["additivity"].value == 1 and ranks["K"]["additivity"].nets == 3
    turned = feature_ranks.correlations(three, {"K": {"exp1": 1, "exp2": 7, "mine": 4}})
    assert turned["K"]["additivity"].value == -1


def test_panels_of_additivity_share_one_axis_that_says_what_it_is(rows):
    """Also where one part lies far below the others."""
    far = [row._replace(value=-80.0) if row.layer == "denoiser" and row.k == 8 else row for row in rows]
    for shown, lowest in ((rows, -5.2), (far, -96)):
        panels = feature_figures.plot_additivity(shown, feature_report.curves(shown), KS).axes
        assert len({axes.get_ylim() for axes in panels[:3]}) == 1
        assert panels[0].get_ylim()[0] == pytest.approx(lowest, rel=0.05)
        assert "logarithmic below −1" in panels[0].get_ylabel()
        assert panels[3].get_ylim() != panels[0].get_ylim()


def test_additivity_tells_every_kind_of_net_apart_in_rows_of_places_and_of_colors():
    """In a row each kind has its own color, or dashes and a hollow marker; names are in the ends' order."""
    named = [net for net in net_labels.NAMES if net != "exp2/unit"]
    planted = {f"{net}, 64 px": (0.9 - 0.1 * i, 0.5, 0.2) for i, net in enumerate(named)}
    planted["exp1_seed1, 64 px"] = (0.85, 0.5, 0.2)
    rows = feature_rows(planted)
    figure = feature_figures.plot_additivity(rows, feature_report.curves(rows, "64 px"), KS)
    assert (
        len(figure.axes) == 8
        and len({axes.get_ylim() for axes in figure.axes if axes.get_legend() is None}) == 1
    )
    legends = [figure.axes[i].get_legend() for i in (3, 7)]
    assert [legend.get_title().get_text() for legend in legends] == [
        "told places, 64 px",
        "told colors, 64 px",
    ]
    for legend, colored in zip(legends, (False, True), strict=True):
        names = [text.get_text().replace("\n", " ") for text in legend.get_texts()]
        kinds = [net_labels.NAMES[net] for net in named if net_labels.of_colors(net) is colored]
        assert sorted(names) == sorted(
            [*kinds, "K in training"]
        )  # the second training of Exp. 1 is no other kind
        lines = legend.get_lines()[:-1]
        assert len({(line.get_color(), line.get_linestyle()) for line in lines}) == len(lines)
        assert len({(line.get_marker(), line.get_markerfacecolor()) for line in lines}) == len(lines)
    effect = {"Exp. 1": 0.5, "Exp. 2": 0.3}
    raised = [
        row._replace(value=effect.get(net_labels.kind_label(row.net), 0.1))
        if row.measure == "effect"
        else row
        for row in rows
    ]
    figure = feature_figures.plot_additivity(raised, feature_report.curves(rows, "64 px"), KS)
    assert [text.get_text() for text in figure.axes[3].get_legend().get_texts()][:2] == ["Exp. 1", "Exp. 2"]


def test_every_kind_of_cause_has_a_marker_of_its_own(rows):
    figure = feature_figures.plot_causal(rows, {"exp1": "Exp. 1"}, ["decoder.0.scale"])
    keys = figure.legends[0].get_lines()
    assert len({line.get_marker() for line in keys}) == len(keys) == len(feature_causal_report.CONTROLS)
    drawn = [line.get_marker() for line in figure.axes[0].get_lines() if line.get_marker() != "None"]
    assert drawn == [line.get_marker() for line in keys]


def with_cosines(rows, net, by_part):
    """`rows` with other cosines of one net, {part: value}, with intervals of +-0.01."""

    def changed(row):
        part = row.layer.split(".")[0]
        if row.net != net or row.measure != "cosine_abs" or row.control or part not in by_part:
            return row
        value = by_part[part]
        return row._replace(value=value, low=value - 0.01, high=value + 0.01)

    return [changed(row) for row in rows]


def test_cosines_are_told_part_by_part(rows):
    """A mean over layers cancels what differs in sign between encoder and decoder."""
    bare = with_cosines(rows, "untrained", dict.fromkeys(("encoder", "decoder", "denoiser"), 0.2))
    mixed = with_cosines(bare, "exp1", {"encoder": 0.3, "decoder": 0.1, "denoiser": 0.205})
    found = feature_report.cosines_by_part(mixed, "exp1", "untrained")
    assert [(of.part, of.side) for of in found] == [
        ("encoder", "larger"),
        ("decoder", "smaller"),
        ("denoiser", "not told apart"),
    ]
    assert [(of.smaller, of.layers) for of in found] == [(0, 2), (1, 1), (0, 1)]
    turned = feature_report.cosines_by_part(mixed, "untrained", "exp1")
    assert [of.side for of in turned] == ["smaller", "larger", "not told apart"]
    table = feature_report.cosine_table(mixed, {"exp1": "untrained"}, {"exp1": LAYERS[1:2]})
    assert table.splitlines()[-1].startswith(f"| Exp. 1, {feature_report.SPACE} | 0.30 [0.29, 0.31] | 0.20")
    assert "| Exp. 1, decoder | 0.10 [0.09, 0.11] | 0.20 [0.19, 0.21] | smaller | 1 of 1 layer |" in table
    with pytest.raises(ValueError, match="net_features exp9"):
        feature_report.cosines_by_part(mixed, "exp1", "exp9")

    at_64 = {"flat": {"exp1": [found]}}
    for parts, verdict in (
        (("encoder", "decoder", "denoiser"), PARTLY),
        (("encoder",), NO),
        (("decoder",), YES),
    ):
        said, of_parts = colors._orthogonal("exp1", parts)(at_64)
        assert of_parts == verdict and "of 1 training against" in said and "decoder 0.10 against 0.20" in said
    again = {"flat": {"exp1": [found, turned]}}
    said, verdict = colors._orthogonal("exp1", ("decoder",))(again)
    assert verdict == NO and "of 2 trainings against" in said and "decoder 0.10 and 0.20 against" in said
    both = at_64 | {"mean": {"exp1": [turned[:2]]}}  # another reading says the contrary
    said, verdict = colors._orthogonal("exp1", ("decoder",))(both)
    assert verdict == PARTLY and "means over places: encoder 0.20 against 0.30, decoder 0.20 against" in said
    assert colors._orthogonal("color_1-3", ("encoder",))(at_64)[1] == OPEN


def test_the_paper_s_feature_space_is_the_encoder_s_two_finest_sides(rows):
    """Of sides 16, 8 and 4 the first two, whatever the decoder has; and only these layers are averaged."""
    sides = {"encoder.0.scale": 16, "encoder.1.scale": 8, "encoder.2.scale": 4, "decoder.0.scale": 16}
    made = [
        CosineRow("tiny", "exp1", "w", layer, side, 2.0, "noise", 16, "", 0, 1, 0.1)
        for layer, side in sides.items()
    ]
    assert feature_report.finest(made, "exp1") == ("encoder.0.scale", "encoder.1.scale")
    first = [
        row._replace(value=0.8) if (row.net, row.layer) == ("exp1", "encoder.0.scale") else row
        for row in rows
    ]
    *_, encoder = feature_report.cosines_by_part(first, "exp1", "untrained", space=LAYERS[:2])
    *_, alone = feature_report.cosines_by_part(first, "exp1", "untrained", space=LAYERS[:1])
    assert (encoder.net.value, alone.net.value) == pytest.approx((0.5, 0.8)) and alone.layers == 1


def test_each_reading_has_its_own_cosines(rows):
    apart = with_cosines(rows, "exp1", {"encoder": 0.9, "decoder": 0.9})
    flat = with_cosines(rows, "exp1", {"encoder": 0.01, "decoder": 0.01})
    every = flat + [row._replace(reading=of) for row in apart for of in ("mean", "scale")]
    value = feature_report.cosines_by_part(every, "exp1", "untrained", "mean")
    assert [of.part for of in value] == ["encoder", "decoder"] and {of.net.value for of in value} == {0.9}
    assert {of.smaller for of in value} == {0}  # by layer, too, not one of the flat reading's
    table = feature_report.readings_table(every, {"exp1": "untrained"})
    line = next(line for line in table.splitlines() if "Exp. 1, decoder" in line)
    assert line.count("0.90 against") == 2 and "0.90 against" not in line.split("|")[2]  # the first is flat


def test_nets_of_your_own_stand_in_every_figure_by_their_name(monkeypatch):
    """Gray, after those of the paper, places and colors told apart by what they were trained on."""
    told = {"mine": Experiment("mine", (2, 4)), "yours": Experiment("yours", (1, 2), condition="color")}
    known = net_labels.trained
    for module in (feature_labels, net_labels):
        monkeypatch.setattr(module, "trained", lambda net: told[net] if net in told else known(net))
    rows = feature_rows({"yours": (0.1, 0.5, 0.1), "mine": (0.9, 0.8, 0.2), "exp1": (0.9, 0.8, 0.2)})
    assert list(feature_report.labels(rows, kind="location")) == ["exp1", "mine"]
    (curve,) = feature_report.curves(rows, kind="color")
    assert curve == ("yours", "yours", net_labels.GRAY, 2)
    k = {"exp1": 7, "mine": 6, "yours": 2}
    values = feature_report.measures_of(rows, k)
    ranks = feature_ranks.correlations(values, {"K": k})
    figure = feature_figures.plot_against_outcomes(values, {"K": k}, ranks, ranks)
    assert {"mine", "yours"} <= {text.get_text() for legend in figure.legends for text in legend.get_texts()}


def test_a_training_with_another_seed_stands_by_the_first():
    rows = feature_rows(dict.fromkeys(("exp1_seed1", "exp2", "exp1", "mine_seed1"), (0.9, 0.8, 0.2)))
    assert list(feature_report.labels(rows).values()) == ["Exp. 1", "Exp. 1, seed 1", "Exp. 2", "mine_seed1"]
    assert net_labels.hue("exp1_seed1, 64 px") == net_labels.hue("exp1") != net_labels.GRAY
    assert net_labels.hue("mine_seed1") == net_labels.GRAY


def test_a_net_has_the_color_that_it_has_elsewhere():
    """Green is Exp. 3's alone; where two nets share a color, their markers differ."""
    told = {"exp1": "blue", "exp2": "vermilion", "random_1-3": "purple", "drop_one_1-3": "sky"}
    told |= {"color_1-3": "blue", "exp1_seed1, 64 px": "blue"}
    assert all(net_labels.hue(net) == plotting.PALETTE[shade] for net, shade in told.items())
    assert (
        plotting.color_of("exp2/unit")
        == plotting.EXPERIMENT_COLORS["exp2/unit"]
        == plotting.PALETTE["orange"]
    )
    points = {(net_labels.hue(net), net_labels.marker(net)) for net in net_labels.NAMES}
    assert len(points) == len(net_labels.NAMES)
    assert plotting.EXPERIMENT_COLORS["exp3"] not in {color for color, _ in points}


def test_cosines_are_measured_again_with_another_setting(monkeypatch, tmp_path):
    one, weights, measured = feature_matrices.SETTING, ["w"], []

    def net_rows(of, preset, setting):
        measured.append((of.net, of.weights, setting))
        how = (preset, of.net, of.weights, "denoiser", 0, setting.sigma, setting.inputs, setting.draws)
        return [CosineRow(*how, "", 0, 1, 0.5)]

    def subject(net, preset, device):
        of_eight = SimpleNamespace(config=SimpleNamespace(cond_dim=8))
        return SimpleNamespace(net=net, weights=weights[0], module=of_eight)

    monkeypatch.setattr(feature_matrices, "subject", subject)
    monkeypatch.setattr(feature_matrices, "untrained_twin", lambda of, *_: of)
    monkeypatch.setattr(feature_matrices, "singles", lambda width: None)
    monkeypatch.setattr(feature_matrices, "net_rows", net_rows)
    changed = {"sigma": 9.0, "inputs": "renders", "draws": 3}
    for name, value in changed.items():  # each against the rows of `one`: twice the same, then one change
        for setting in (one, one, one._replace(**{name: value})):
            feature_matrices.measure("exp1", setting=setting, file=tmp_path / "cosines.csv")
    weights[0] = "v"
    feature_matrices.measure("exp1", setting=setting, file=tmp_path / "cosines.csv")
    assert [of for _, of, _ in measured] == ["w"] * 6 + ["v"]


def test_matrices_are_stored_pair_by_pair():
    rows = [
        CosineRow("tiny", "exp1", "w", layer, side, 2.0, "noise", 16, control, i, j, value)
        for layer, side, value in (
            ("decoder.10.scale", 8, 0.4),
            ("decoder.2.scale", 8, 0.2),
            ("denoiser", 0, 0.1),
        )
        for control in ("", "permuted", "random")
        for j in range(8)
        for i in range(j)
    ]
    found = feature_matrices.matrices(rows, "exp1")
    assert list(found) == ["decoder.2.scale", "decoder.10.scale", "denoiser"]  # in the order of the net
    assert torch.equal(found["denoiser"], found["denoiser"].T) and float(found["denoiser"][3, 3]) == 1
    columns = feature_report.by_layer(rows, "exp1")
    assert columns[0].caption == "decoder 2\n8 px" and columns[-1].control == "random"
    mean = feature_report.averaged(rows, "exp1", columns[-1])
    assert feature_report.off_diagonal(mean) == pytest.approx((0.3, 0.3))
    figure = feature_figures.plot_cosines(rows, {"exp1": "Exp. 1"}, columns, {"exp1": range(1, 9)})
    assert len(figure.axes) == 6  # three matrices, two controls and the bar
    with pytest.raises(ValueError, match="feature_matrices exp2"):
        feature_matrices.matrices(rows, "exp2")


def drawn_matrices(of_places, of_colors):
    """The figure of planted cosines of nets told places, then of nets told colors; its visible texts."""
    names = [*of_places, *of_colors]
    rows = [
        CosineRow("tiny", net, "w", layer, 16, 2.0, "noise", 16, control, i, j, -0.44)
        for net in names
        for layer in ("encoder.0.scale", "decoder.0.scale", "decoder.1.scale")
        for control in ("", "permuted", "random")
        for j in range(8)
        for i in range(j)
    ]
    labels = {net: net_labels.label(net + ", 64 px") for net in names}
    layers = feature_report.by_layer(rows, names[0])
    conditions = dict.fromkeys(of_places, range(8)) | dict.fromkeys(of_colors, COLORS)
    if of_places and "mine" in of_places[-1]:  # own nets come last, of whatever kind
        labels = {net: labels[net] for net in (*of_places[:-2], *of_colors, *of_places[-2:])}
    figure = feature_figures.plot_cosines(rows, labels, layers, conditions)
    plotting.settle_layout(figure)
    texts = [text for text in figure.findobj(Text) if text.get_visible() and text.get_text()]
    assert sum(text.get_text() == "−.44\n|.44|" for text in texts) == len(names) * len(layers)
    return figure, texts


def overlapping(texts):
    boxes = [(text.get_text(), text.get_window_extent()) for text in texts]
    return [(a, b) for (a, one), (b, other) in combinations(boxes, 2) if one.overlaps(other)]


PLACES = ("exp1", "exp2", "exp1_1", "untrained")
COLOR_NETS = tuple(net for net in net_labels.NAMES if "color" in net)


@pytest.mark.parametrize(("of_places", "of_colors"), [(("exp1",), ()), (PLACES, COLOR_NETS)])
def test_matrices_can_be_read_on_a_page(of_places, of_colors):
    """Printed 6.5 inches wide, their smallest text has at least 6 points; no two texts overlap."""
    figure, texts = drawn_matrices(of_places, of_colors)
    width = figure.get_tightbbox().width + 0.1  # as `plotting.save_figure` cuts it
    assert min(text.get_fontsize() for text in texts) * min(1, 6.5 / width) >= 6
    assert not overlapping(texts)


def test_matrices_of_more_nets_and_of_ones_own_do_not_overlap():
    figure, texts = drawn_matrices((*PLACES, "random_1-3", "mine_1", "mine_2"), COLOR_NETS)
    assert not overlapping(texts)
