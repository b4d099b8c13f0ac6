"""Sliders over precomputed frames: live in a notebook, and a picture wherever no kernel runs."""

import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anywidget
import ipywidgets
import numpy as np
import traitlets
from PIL import Image


def png_bytes(frame: Any) -> bytes:
    """A uint8 picture [height width 3] as PNG; the same pixels give the same bytes."""
    buffer = io.BytesIO()
    Image.fromarray(np.asarray(frame)).save(buffer, "PNG", optimize=True)
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
    """A live widget together with a PNG for readers without a kernel: one output that carries both."""

    widget: Any
    png: bytes
    text: str

    def _repr_mimebundle_(self, include=None, exclude=None):
        live = self.widget._repr_mimebundle_()
        data = live[0] if isinstance(live, tuple) else live
        return {**data, "image/png": self.png, "text/plain": self.text}


class Picture(ipywidgets.Image):
    """An image whose `tooltip` is its accessible name; ipywidgets draws no tooltip without a `description`."""

    description = traitlets.Unicode("").tag(sync=True)


class FrameSlider(anywidget.AnyWidget):
    """A slider over `frames` (PNGs), at the stop `shown`; all are in the browser, so sliding needs no kernel."""

    _esm = Path(__file__).with_name("frames.js")
    frames = traitlets.List().tag(sync=True)
    labels = traitlets.List().tag(sync=True)
    description = traitlets.Unicode("").tag(sync=True)
    shown = traitlets.Int(0).tag(sync=True)


def frame_slider(frames: Sequence[Any], labels: Sequence[str], description: str, shown: int | None = None) -> Pictured:
    """A slider that shows `frames[i]` (uint8 [height width 3]) at the stop `labels[i]`; without a kernel, one frame.

    Arrow keys move it; screen readers hear `description` and the label, which the picture carries too. `shown` is the
    frame shown first, by default the middle one. Raises ValueError when frames and labels disagree in number.
    """
    if not frames or len(frames) != len(labels):
        raise ValueError(f"need one label for each frame, got {len(frames)} frames and {len(labels)} labels")
    shown = len(frames) // 2 if shown is None else range(len(frames))[shown]
    pictures = [png_bytes(frame) for frame in frames]
    widget = FrameSlider(frames=pictures, labels=list(labels), description=description, shown=shown)
    return Pictured(widget, pictures[shown], f"{description}: {labels[shown]} ({len(frames)} stops)")
