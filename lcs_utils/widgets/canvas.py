"""A clickable picture: Python draws it, the browser reports which of its places was chosen."""

from collections.abc import Callable
from pathlib import Path

import anywidget
import traitlets


class ClickCanvas(anywidget.AnyWidget):
    """`png`, divided into rows x columns places; `chosen` becomes [row, column, number of choices so far] at
    a click or Enter.

    Arrow keys move `cursor`, [row, column]; screen readers read out `place(row, column)`, and `status` when
    it changes. `label` is the picture's accessible name. `seen()` is called when a browser has drawn it. Some
    words keep their size when the picture shrinks: `heads` above equal columns; `sides` beside equal rows,
    each a list of [line, bold]; `corner` above these; `marks`, [row, column, text], centered there.
    """

    _esm = Path(__file__).with_name("canvas.js")
    _css = Path(__file__).with_name("controls.css")
    png = traitlets.Bytes(b"").tag(sync=True)
    rows = traitlets.Int(1).tag(sync=True)
    columns = traitlets.Int(1).tag(sync=True)
    cursor = traitlets.List([0, 0]).tag(sync=True)
    chosen = traitlets.List([0, 0, 0]).tag(sync=True)
    label = traitlets.Unicode("").tag(sync=True)
    status = traitlets.Unicode("").tag(sync=True)
    here = traitlets.Unicode("").tag(sync=True)
    heads = traitlets.List(traitlets.Unicode()).tag(sync=True)
    sides = traitlets.List().tag(sync=True)
    corner = traitlets.Unicode("").tag(sync=True)
    marks = traitlets.List().tag(sync=True)

    def __init__(
        self, place: Callable[[int, int], str] | None = None, seen: Callable[[], None] | None = None, **traits
    ):
        super().__init__(**traits)
        if place is not None:
            self.observe(lambda change: self.set_trait("here", place(*change.new)), "cursor")
        if seen is not None:
            self.on_msg(lambda widget, content, buffers: seen())
