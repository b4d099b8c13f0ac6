"""Counting by eye: samples shown blind, in random order, one by one; a key or a click is the answer
(App. E.2).
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import traitlets
from PIL import Image

from lcs_utils.widgets.frames import png_bytes
from lcs_utils.widgets.watch import SCRIPT, Answering

ZOOM = 8


def enlarged(image: Any, zoom: int = ZOOM) -> bytes:
    """A uint8 picture [height width 3] as PNG, smoothly enlarged `zoom` times."""
    picture = Image.fromarray(np.asarray(image))
    return png_bytes(picture.resize((picture.width * zoom, picture.height * zoom), Image.BICUBIC))


class HandCounter(Answering):
    """Shows `pictures[i]` (uint8 [height width 3]), i = `position`; each answer calls `record(i, count,
    plausible)`.

    Only the picture and its place in the order reach the browser: whoever counts cannot know where it comes
    from. Keys 0-9, a-e (10-14), ? (not plausible), Backspace (go back). The first `done` pictures were
    already answered: it goes on there. Raises ValueError without pictures or when `done` exceeds them.
    """

    _esm = SCRIPT + Path(__file__).with_name("hand_count.js").read_text()
    _css = Path(__file__).with_name("controls.css")
    png = traitlets.Bytes(b"").tag(sync=True)
    position = traitlets.Int(0).tag(sync=True)
    total = traitlets.Int(0).tag(sync=True)
    answer = traitlets.List([-1, 0, 1]).tag(sync=True)  # position, count, plausible
    back = traitlets.Int(0).tag(sync=True)

    def __init__(self, pictures: Sequence[Any], record: Callable[[int, int, bool], None], done: int = 0):
        if not len(pictures) or not 0 <= done <= len(pictures):
            n = len(pictures)
            raise ValueError(f"need pictures, and done within 0..{n}; got {n} pictures and done = {done}")
        self.pictures, self.record = pictures, record
        super().__init__(total=len(pictures), png=self._picture(done), position=done)

    def __repr__(self) -> str:
        return f"{self.total} pictures to be counted by looking; this needs a kernel"

    def _picture(self, position: int) -> bytes:
        return enlarged(self.pictures[position]) if position < len(self.pictures) else b""

    def _show(self, position: int) -> None:
        self.png = self._picture(position)  # before the position, at whose change the browser draws
        self.position = position

    @traitlets.observe("answer")
    def _answered(self, change) -> None:
        position, count, plausible = change["new"]
        # a second click for the same picture does not count
        if position == self.position < self.total and count >= 0:
            self.record(position, count, bool(plausible))
            self._show(position + 1)

    @traitlets.observe("back")
    def _went_back(self, change) -> None:
        self.answer = [-1, 0, 1]  # the same answer again must count as one
        self._show(max(self.position - 1, 0))
