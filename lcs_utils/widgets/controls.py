"""Native HTML controls: reached by Tab, operated by keys, named for screen readers, unlike ipywidgets'
sliders.
"""

from collections.abc import Callable, Sequence
from pathlib import Path

import anywidget
import traitlets


class Control(anywidget.AnyWidget):
    """One native control. `description` stands beside it; `tooltip`, or else `description`, is its
    accessible name.
    """

    _esm = Path(__file__).with_name("controls.js")
    _css = Path(__file__).with_name("controls.css")
    kind = traitlets.Unicode("").tag(sync=True)
    description = traitlets.Unicode("").tag(sync=True)
    tooltip = traitlets.Unicode("").tag(sync=True)


class Slider(Control):
    """`value` in low, low + step, ..., high, or an index into `labels`, which are then displayed.

    With `play` (its button's name) it also advances by itself, a step every `interval` ms, waiting until
    `answered`, set by whoever draws, has reached `value`. `dragged` is True while the mouse holds it.
    """

    value = traitlets.Float().tag(sync=True)
    low = traitlets.Float(0.0).tag(sync=True)
    high = traitlets.Float(1.0).tag(sync=True)
    step = traitlets.Float(1.0).tag(sync=True)
    labels = traitlets.List(traitlets.Unicode()).tag(sync=True)
    play = traitlets.Unicode("").tag(sync=True)
    interval = traitlets.Int(500).tag(sync=True)
    answered = traitlets.Float().tag(sync=True)
    dragged = traitlets.Bool(False).tag(sync=True)

    def __init__(self, value: float, labels: Sequence[str] = (), **options):
        if labels:
            options |= {"low": 0.0, "high": float(len(labels) - 1), "step": 1.0}
        super().__init__(kind="slider", value=value, answered=value, labels=list(labels), **options)


class Choice(Control):
    """`value` is the index of the chosen one of `options`."""

    value = traitlets.Int(0).tag(sync=True)
    options = traitlets.List(traitlets.Unicode()).tag(sync=True)

    def __init__(self, options: Sequence[str], value: int = 0, **more):
        super().__init__(kind="choice", options=list(options), value=value, **more)


class Number(Control):
    """A whole number `value` in low..high."""

    value = traitlets.Int().tag(sync=True)
    low = traitlets.Int(0).tag(sync=True)
    high = traitlets.Int(10**6).tag(sync=True)

    def __init__(self, value: int, **more):
        super().__init__(kind="number", value=value, **more)


class Button(Control):
    """`clicks` counts how often it was pressed."""

    clicks = traitlets.Int(0).tag(sync=True)
    disabled = traitlets.Bool(False).tag(sync=True)

    def __init__(self, description: str, pressed: Callable[[], None], **more):
        super().__init__(kind="button", description=description, **more)
        self.observe(lambda change: pressed(), "clicks")

    def click(self) -> None:
        """Press it from Python."""
        self.clicks += 1


class Progress(Control):
    """A bar at `value` of `high`, seen and heard only while `visible`."""

    value = traitlets.Int(0).tag(sync=True)
    high = traitlets.Int(1).tag(sync=True)
    visible = traitlets.Bool(False).tag(sync=True)

    def __init__(self, high: int, **more):
        super().__init__(kind="progress", high=high, **more)


class Note(Control):
    """A line of text, `description`, read out when it changes."""

    def __init__(self, description: str = "", **more):
        super().__init__(kind="note", description=description, **more)
