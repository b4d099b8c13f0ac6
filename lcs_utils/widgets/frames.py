"""Sliders over precomputed frames: live in a notebook, and a picture wherever no kernel runs."""

import base64
import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anywidget
import numpy as np
import traitlets
from PIL import Image

from lcs_utils.checks import check_count
from lcs_utils.compact_png import compact

MIME = (
    "application/vnd.lcs.frames+json"  # all frames of a slider, for pages without a kernel (`lcs_utils.site`)
)


def png_bytes(frame: Any) -> bytes:
    """A uint8 picture [height width 3] as PNG; the same pixels give the same bytes."""
    buffer = io.BytesIO()
    Image.fromarray(np.asarray(frame)).save(buffer, "PNG", optimize=True)
    return buffer.getvalue()


def quick_png(frame: np.ndarray) -> bytes:
    """A picture as PNG, encoded for speed."""
    buffer = io.BytesIO()
    Image.fromarray(frame).save(buffer, "PNG", compress_level=1)
    return buffer.getvalue()


def figure_frame(figure: Any) -> np.ndarray:
    """A matplotlib figure drawn off screen as a uint8 picture [height width 3]; the figure is closed."""
    from matplotlib import pyplot as plt
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    frame = np.asarray(canvas.buffer_rgba())[..., :3].copy()
    plt.close(figure)
    return frame


@dataclass(frozen=True)
class Pictured:
    """A live widget together with a PNG for readers without a kernel, in one output.

    `stored`: what a page needs to slide without a kernel, if all frames are available. `text` is shown where
    pictures are not, and is the PNG's alternative text.
    """

    widget: Any
    png: bytes
    text: str
    stored: dict | None = None

    def _repr_mimebundle_(self, include=None, exclude=None):
        live = self.widget._repr_mimebundle_()
        data = live[0] if isinstance(live, tuple) else live
        kept = {MIME: self.stored} if self.stored else {}
        picture = {**data, **kept, "image/png": self.png, "text/plain": self.text}
        return picture, {"image/png": {"alt": self.text}}


class Picture(anywidget.AnyWidget):
    """The PNG `value` with the alternative text `alt`, which ipywidgets' image lacks."""

    _esm = Path(__file__).with_name("picture.js")
    _css = Path(__file__).with_name("controls.css")
    value = traitlets.Bytes(b"").tag(sync=True)
    alt = traitlets.Unicode("").tag(sync=True)


class FrameSlider(anywidget.AnyWidget):
    """A slider over `frames` (PNGs), at the stop `shown`; the browser holds all of them, so sliding needs no
    kernel.
    """

    _esm = Path(__file__).with_name("frames.js")
    frames = traitlets.List().tag(sync=True)
    labels = traitlets.List().tag(sync=True)
    description = traitlets.Unicode("").tag(sync=True)
    shown = traitlets.Int(0).tag(sync=True)


def frame_slider(
    frames: Sequence[Any], labels: Sequence[str], description: str, shown: int | None = None
) -> Pictured:
    """A slider that shows `frames[i]` (uint8 [height width 3]) at the stop `labels[i]`; without a kernel,
    one frame.

    Arrow keys move it; screen readers hear `description` and the label, which the picture carries too.
    `shown` is the frame shown first, by default the middle one. Raises ValueError when frames and labels
    disagree in number or there is no frame `shown`, TypeError when that is no whole number.
    """
    if not len(frames) or len(frames) != len(labels):  # an array has a truth value of its own
        raise ValueError(f"need one label for each frame, got {len(frames)} frames and {len(labels)} labels")
    shown = len(frames) // 2 if shown is None else check_count("shown", shown, -len(frames), len(frames) - 1)
    shown %= len(frames)  # from the end if below 0, as an index
    pictures = [compact(png_bytes(frame)) for frame in frames]
    widget = FrameSlider(frames=pictures, labels=list(labels), description=description, shown=shown)
    stored = {"description": description, "labels": list(labels), "shown": shown}
    stored["frames"] = [base64.b64encode(picture).decode() for picture in pictures]
    return Pictured(widget, pictures[shown], f"{description}: {labels[shown]} ({len(frames)} stops)", stored)
