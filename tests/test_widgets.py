"""The frame slider: one output with a live widget and a picture, labeled (tests/browser moves it)."""

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


def test_all_frames_and_labels_go_to_the_browser():
    slider = widgets.frame_slider(FRAMES, LABELS, "noise level", shown=0).widget
    state = slider.get_state()
    assert [pixel(png) for png in state["frames"]] == [0, 60, 120] and state["labels"] == LABELS
    assert (state["shown"], state["description"]) == (0, "noise level")
    script = state["_esm"]  # what screen readers hear, and that arrow keys stay with the slider
    assert all(part in script for part in ("aria-label", "aria-valuetext", "picture.alt", "lmSuppressShortcuts"))


def test_frames_and_labels_must_agree():
    with pytest.raises(ValueError, match="3 frames and 2 labels"):
        widgets.frame_slider(FRAMES, LABELS[:2], "noise level")


def test_a_drawn_figure_is_a_frame():
    from matplotlib.figure import Figure

    frame = widgets.figure_frame(Figure(figsize=(2, 1), dpi=50))
    assert frame.shape == (50, 100, 3) and frame.dtype == np.uint8
