"""Redraw for fast hands: only the last waiting state is drawn, small at once, in full when the hands rest."""

import asyncio
from collections.abc import Callable

from lcs_utils.widgets.watch import Watch

GATHER = 0.01  # seconds in which more changes may come in before anything is drawn
REST = 0.25  # seconds without a change after which the whole picture is drawn


class Redraw:
    """`request()` calls `draw(True)`, small, once for all changes that the kernel has received by then, and
    `draw(False)`, in full, when none has come for a while and nothing is `dragged()`; `drop()` reports the
    end of a drag.

    `watch` is answered after the small picture. Where no event loop runs, the full picture is drawn at once.
    """

    def __init__(self, draw: Callable[[bool], None], dragged: Callable[[], bool], watch: Watch):
        self.draw, self.dragged, self.watch = draw, dragged, watch
        self.wanted = self.small = self.whole = 0  # requests; up to which of them was drawn
        self.task = None

    def request(self) -> None:
        """Call when the state has changed."""
        self.wanted += 1
        if not self._start():
            self.draw(False)

    def drop(self) -> None:
        """Call when `dragged()` may have changed."""
        self._start()

    def _start(self) -> bool:
        """Start `_run` in the kernel's event loop; False where none runs."""
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            return False
        self.watch.held = self.small < self.wanted
        if self.task is None or self.task.done():
            self.task = loop.create_task(self._run())
        return True

    async def _run(self) -> None:
        while self.whole < self.wanted:
            await asyncio.sleep(GATHER if self.small < self.wanted else REST)
            if self.small < self.wanted:
                self.small = self.wanted
                self._draw(True)
            elif self.dragged():
                return
            else:
                self.whole = self.wanted
                self._draw(False)

    def _draw(self, small: bool) -> None:
        try:
            self.draw(small)
        finally:
            self.watch.release()
