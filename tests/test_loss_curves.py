"""Loss curves: each training of both sizes, named once, and what has none is said."""

from itertools import combinations

import pytest

from lcs_utils import alt_text, nets, plotting
from lcs_utils.evaluation.studies import loss_curves


def test_every_training_that_left_a_log_is_drawn_and_each_experiment_named_once():
    curves = {preset: loss_curves.read(preset) for preset in ("tiny", "small")}
    assert {"exp1", "exp1_seed1", "exp2", "exp3_r2"} <= set(curves["small"])
    figure = loss_curves.plot(curves)
    assert [axes.get_title() for axes in figure.axes] == ["32 px", "64 px"]
    for axes, of in zip(figure.axes, curves.values(), strict=True):
        assert len(axes.lines) == len(of)
        named = [text.get_text() for text in axes.texts]
        assert sorted(named) == sorted(loss_curves.said(name) for name in of if not nets.parse(name).seed)
    assert "Exp. 3, r = 2 from" in alt_text.given(figure) and "to 0.27" in alt_text.given(figure)


def test_names_stand_in_the_order_of_their_curves_and_nothing_crosses_them():
    plotting.use_style()
    figure = loss_curves.plot({preset: loss_curves.read(preset) for preset in ("tiny", "small")})
    plotting.settle_layout(figure)
    figure.draw_without_rendering()
    for axes in figure.axes:
        boxes = [text.get_window_extent() for text in axes.texts]
        curves = [line.get_path().transformed(axes.transData) for line in axes.lines]
        assert not [box for box in boxes for path in curves if path.intersects_bbox(box, filled=False)]
        for one, other in combinations(range(len(boxes)), 2):
            if boxes[one].x0 < boxes[other].x1 and boxes[other].x0 < boxes[one].x1:
                above, below = sorted((one, other), key=lambda i: -axes.texts[i].xy[1])
                assert boxes[above].y0 > boxes[below].y1


def test_a_short_log_is_drawn():
    figure = loss_curves.plot({"small": {"exp1": {"images": [3200.0, 6400.0], "error": [1.0, 0.5]}}})
    assert figure.axes[0].lines[0].get_ydata().tolist() == [0.75]


def test_a_point_stands_where_the_entries_that_it_averages_end():
    log = {"images": [float(i) for i in range(1, 13)], "error": [1.0] * 9 + [10.0] * 3}
    line = loss_curves.plot({"small": {"exp1": log}}).axes[0].lines[0]
    assert line.get_xdata().tolist() == [9, 10, 11, 12]
    assert line.get_ydata() == pytest.approx([1, 2, 3, 4])


def test_a_preset_without_logs_says_what_makes_them():
    with pytest.raises(nets.CheckpointError, match="python -m lcs_utils.training exp1 --preset paper"):
        loss_curves.read("paper")


def test_a_log_keeps_four_digits():
    log = {"images": [3200.0, 6400.0], "error": [0.123456, 2.0], "lr": [0.1, 0.2]}
    assert loss_curves.rounded(log) == {"images": [3200, 6400], "error": [0.1235, 2.0]}
