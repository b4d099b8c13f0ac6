"""Whether the kernel still answers: asked with every change that a control sends, shown by a line of text and
by dimming.
"""

from pathlib import Path

import anywidget
import traitlets

HERE = Path(__file__).parent
SCRIPT = (HERE / "watch.js").read_text()


class Answering(anywidget.AnyWidget):
    """A widget whose browser side counts what it has `asked`; `answered` follows once all of it is done.

    `held` postpones the answer until `release()`, while something is still to be drawn. `beat()` signals
    during a long computation that it goes on.
    """

    asked = traitlets.Int(0).tag(sync=True)
    answered = traitlets.Int(0).tag(sync=True)
    beats = traitlets.Int(0).tag(sync=True)
    held = False

    def set_state(self, sync_data: dict) -> None:
        """Handle what the browser sends; at the answer, all observers have run, even those that failed."""
        try:
            super().set_state(sync_data)
        finally:
            if "asked" in sync_data and not self.held:
                self.answered = self.asked

    def release(self) -> None:
        """Everything is drawn: answer what has been asked."""
        self.held = False
        self.answered = self.asked

    def beat(self) -> None:
        """Signal that the kernel is at work on what was asked."""
        self.beats += 1


class Watch(Answering):
    """The status line of a box of controls, which needs the class `lcs-box`; empty while the kernel answers.

    After a second without an answer it says so, the box's pictures are dimmed, and its sliders stop playing.
    """

    _esm = SCRIPT + (HERE / "watch_box.js").read_text()
    _css = HERE / "controls.css"
