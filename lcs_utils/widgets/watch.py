"""Whether the kernel still answers: asked with every change that a control sends, told by a line and by
dimming.
"""

from pathlib import Path

import anywidget
import traitlets

HERE = Path(__file__).parent
SCRIPT = (HERE / "watch.js").read_text()


class Answering(anywidget.AnyWidget):
    """A widget whose browser side counts what it has `asked`; `answered` follows once all of it is done.

    `held` postpones the answer until `release()`: something that was asked for is still to be drawn.
    `beat()` says in the middle of a long computation that it goes on.
    """

    asked = traitlets.Int(0).tag(sync=True)
    answered = traitlets.Int(0).tag(sync=True)
    beats = traitlets.Int(0).tag(sync=True)
    held = False

    def set_state(self, sync_data: dict) -> None:
        """What the browser sends. Its observers have run when this answers, also those that failed."""
        try:
            super().set_state(sync_data)
        finally:
            if "asked" in sync_data and not self.held:
                self.answered = self.asked

    def release(self) -> None:
        """All is drawn: what has been asked is answered."""
        self.held = False
        self.answered = self.asked

    def beat(self) -> None:
        """The kernel is at work on what was asked."""
        self.beats += 1


class Watch(Answering):
    """The line for a box of controls, which needs the class `lcs-box`; empty while the kernel answers.

    After a second without an answer it says so, the box's pictures are dimmed, its sliders' play stops.
    """

    _esm = SCRIPT + (HERE / "watch_box.js").read_text()
    _css = HERE / "controls.css"
