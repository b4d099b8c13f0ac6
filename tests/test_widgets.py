"""The frame slider: one output with a live widget and a picture, moved by its value, labeled."""

import io

import numpy as np
import pytest
from PIL import Image

from lcs_utils import widgets

FRAMES = [np.full((4, 5, 3), 60 * i, np.uint8) for i in range(3)]
LABELS = ["low", "middle", "high"]


def pixel(png):
    return np.asarray(Image.open(io.BytesIO(png)))[0, 0, 0]


def test_slider_is_a_widget_and_a_picture():
    bundle = widgets.frame_slider(FRAMES, LABELS, "noise level")._repr_mimebundle_()
    assert "application/vnd.jupyter.widget-view+json" in bundle
    assert pixel(bundle["image/png"]) == 60 and "noise level: middle" in bundle["text/plain"]


def test_moving_the_slider_changes_picture_and_accessible_name():
    slider, picture = widgets.frame_slider(FRAMES, LABELS, "noise level", shown=0).widget.children
    assert pixel(picture.value) == 0
    slider.value = 2
    assert pixel(picture.value) == 120 and picture.tooltip == "noise level: high"


def test_frames_and_labels_must_agree():
    with pytest.raises(ValueError, match="3 frames and 2 labels"):
        widgets.frame_slider(FRAMES, LABELS[:2], "noise level")


def test_a_drawn_figure_is_a_frame():
    from matplotlib.figure import Figure

    frame = widgets.figure_frame(Figure(figsize=(2, 1), dpi=50))
    assert frame.shape == (50, 100, 3) and frame.dtype == np.uint8
