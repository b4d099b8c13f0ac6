"""The frame slider: one output with a live widget and a picture, labeled (tests/browser moves it)."""

import asyncio
import io
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from PIL import Image

from lcs_utils import widgets
from lcs_utils.widgets.redraw import Redraw
from lcs_utils.widgets.watch import Answering, Watch

FRAMES = [np.full((4, 5, 3), 60 * i, np.uint8) for i in range(3)]
LABELS = ["low", "middle", "high"]


def pixel(png):
    return np.asarray(Image.open(io.BytesIO(png)).convert("RGB"))[0, 0, 0]  # stored with a palette


def test_slider_is_a_widget_and_a_picture():
    bundle, metadata = widgets.frame_slider(FRAMES, LABELS, "noise level")._repr_mimebundle_()
    assert metadata == {"image/png": {"alt": bundle["text/plain"]}}
    assert "application/vnd.jupyter.widget-view+json" in bundle
    assert pixel(bundle["image/png"]) == 60 and "noise level: middle" in bundle["text/plain"]


def test_all_frames_and_labels_go_to_the_browser():
    slider = widgets.frame_slider(FRAMES, LABELS, "noise level", shown=0).widget
    state = slider.get_state()
    assert [pixel(png) for png in state["frames"]] == [0, 60, 120] and state["labels"] == LABELS
    assert (state["shown"], state["description"]) == (0, "noise level")
    script = state["_esm"]  # what screen readers hear, and that arrow keys stay with the slider
    assert all(
        part in script for part in ("aria-label", "aria-valuetext", "picture.alt", "lmSuppressShortcuts")
    )


def test_frames_and_labels_must_agree():
    with pytest.raises(ValueError, match="3 frames and 2 labels"):
        widgets.frame_slider(FRAMES, LABELS[:2], "noise level")


def test_the_frame_shown_first_must_be_there():
    for shown, first in ((2, 120), (-1, 120), (-3, 0), (None, 60)):
        assert pixel(widgets.frame_slider(FRAMES, LABELS, "noise level", shown=shown).png) == first
    with pytest.raises(ValueError, match=r"shown must be in -3..2, got 9"):
        widgets.frame_slider(FRAMES, LABELS, "noise level", shown=9)
    with pytest.raises(TypeError, match=r"shown must be a whole number, got 1.5"):
        widgets.frame_slider(FRAMES, LABELS, "noise level", shown=1.5)


def test_frames_may_be_one_array():
    slider = widgets.frame_slider(np.stack(FRAMES), LABELS, "noise level").widget
    assert [pixel(png) for png in slider.frames] == [0, 60, 120]
    with pytest.raises(ValueError, match="0 frames and 0 labels"):
        widgets.frame_slider([], [], "noise level")


def test_a_drawn_figure_is_a_frame():
    from matplotlib.figure import Figure

    frame = widgets.figure_frame(Figure(figsize=(2, 1), dpi=50))
    assert frame.shape == (50, 100, 3) and frame.dtype == np.uint8


def test_the_kernel_answers_when_all_is_done_also_after_an_error():
    watch = Watch()
    watch.set_state({"asked": 3})
    assert watch.answered == 3
    watch.held = True
    watch.set_state({"asked": 4})
    assert watch.answered == 3, "what was asked for is still to be drawn"
    watch.release()
    assert watch.answered == 4
    watch.beat()
    assert watch.beats == 1

    broken = Answering()
    broken.observe(lambda change: 1 / 0, "asked")
    with pytest.raises(ZeroDivisionError):
        broken.set_state({"asked": 1})
    assert broken.answered == 1


def in_a_loop(run):
    """Run a coroutine in a thread of its own: the browser tests leave a running loop in this one."""
    with ThreadPoolExecutor() as own:
        return own.submit(asyncio.run, run).result()


async def until(true):
    while not true():
        await asyncio.sleep(0.005)


def test_of_states_that_wait_the_last_is_drawn_small_and_then_whole():
    state, drawn, held, watch = [0], [], [True], Watch()
    redraw = Redraw(lambda small: drawn.append((state[0], small)), lambda: held[0], watch)

    async def drag():
        for state[0] in range(1, 6):
            redraw.request()
        watch.set_state({"asked": 1})
        assert not drawn and watch.answered == 0
        await until(lambda: drawn)
        assert drawn == [(5, True)] and watch.answered == 1
        await until(redraw.task.done)
        assert drawn == [(5, True)], "whole while it is dragged"
        state[0] = 6
        redraw.request()
        await until(lambda: len(drawn) > 1)
        held[0] = False
        redraw.drop()
        await until(redraw.task.done)
        assert drawn[1:] == [(6, True), (6, False)]

    in_a_loop(drag())


def test_without_a_loop_the_whole_is_drawn_at_once():
    drawn = []
    redraw = Redraw(drawn.append, lambda: True, Watch())
    with ThreadPoolExecutor() as own:
        own.submit(redraw.request).result()
    assert drawn == [False]
