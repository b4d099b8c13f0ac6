"""A picture that can be clicked: Python draws it, the browser says which of its places was chosen."""

from pathlib import Path

import anywidget
import traitlets


class ClickCanvas(anywidget.AnyWidget):
    """`png`, divided into rows x columns places; `chosen` becomes [row, column, how many so far] at a click or Enter.

    Arrow keys move `cursor`, [row, column]. `label` is the picture's accessible name, `status` is read out when it changes.
    """

    _esm = Path(__file__).with_name("canvas.js")
    png = traitlets.Bytes(b"").tag(sync=True)
    rows = traitlets.Int(1).tag(sync=True)
    columns = traitlets.Int(1).tag(sync=True)
    cursor = traitlets.List([0, 0]).tag(sync=True)
    chosen = traitlets.List([0, 0, 0]).tag(sync=True)
    label = traitlets.Unicode("").tag(sync=True)
    status = traitlets.Unicode("").tag(sync=True)
