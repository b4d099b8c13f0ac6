"""Set conditions by clicking on the grid, sample, and see how many objects are counted (Figs. 1 and 9)."""

import html
from collections.abc import Callable, Sequence
from typing import Any

import ipywidgets
import numpy as np
import torch
from jaxtyping import UInt8
from torch import Tensor

from lcs_utils.clevr.conditions import GRID_SIZE, test_condition
from lcs_utils.diffusion import Denoiser, karras_sigmas, sample
from lcs_utils.plotting import to_uint8
from lcs_utils.widgets.canvas import ClickCanvas
from lcs_utils.widgets.controls import Button, Number, Progress
from lcs_utils.widgets.drawing import Sheet, condition_sheet
from lcs_utils.widgets.explorer import ROW, cell_name
from lcs_utils.widgets.frames import Pictured, png_bytes, quick_png
from lcs_utils.widgets.watch import Watch


def render(
    cells: Sequence[int],
    image: Tensor | None,
    centers: Sequence[tuple[float, float]],
    size: int = 32,
    scale: int = 9,
) -> UInt8[np.ndarray, "height width 3"]:
    """The sample (gray without one) under the grid of conditions, with a disc at each object found (x, y in
    [0, 1]).
    """
    scene = np.full((size, size, 3), 225, np.uint8) if image is None else to_uint8(image)
    sheet = condition_sheet(scene, cells, scale, colored=False)
    for x, y in centers:
        sheet.disc(y * size, x * size, 0.6, (255, 255, 255), 1.0)
    return sheet.array()


def titled(
    frames: Sequence[UInt8[np.ndarray, "height width 3"]], words: Sequence[str], head: int = 20, gap: int = 12
) -> UInt8[np.ndarray, "rows columns 3"]:
    """Pictures side by side, each under its words, for readers without a kernel."""
    height, width = frames[0].shape[:2]
    sheet = Sheet(head + height, len(frames) * (width + gap) - gap, scale=1)
    for i, (frame, said) in enumerate(zip(frames, words, strict=True)):
        sheet.text(said, 1, i * (width + gap), bold=True)
        sheet.picture(frame, head, i * (width + gap))
    return sheet.array()


class ConditionSampler:
    """Click cells, press Sample, read the count. `nets` are denoisers by title, `counter` an `ObjectCounter`.

    `cells` (initially the first `k` test locations) are the active ones; clicks call `toggle(cell)`, the
    button calls `draw_samples()`. Displays itself in a notebook, as a PNG where no kernel runs.
    """

    def __init__(
        self,
        nets: dict[str, Denoiser],
        counter: Callable[[Tensor], Any],
        k: int = 5,
        resolution: int = 32,
        seed: int = 0,
        steps: int = 14,
    ):
        self.nets, self.counter, self.size, self.steps = dict(nets), counter, resolution, steps
        self.cells = tuple(test_condition(k).nonzero().flatten().tolist())
        self.drawn: dict[str, tuple[Tensor, list, int]] = {}  # title -> image, centers, count

        def label(title):
            return f"{title}: condition grid and sample; choose a cell to toggle its condition"

        def place(row, column):
            return cell_name(self.cells, row, column)

        self.canvases = {
            title: ClickCanvas(place, rows=GRID_SIZE, columns=GRID_SIZE, label=label(title)) for title in nets
        }
        self.captions = {title: ipywidgets.HTML() for title in nets}
        self.seed = Number(seed, description="seed")
        # samples of another seed go
        self.seed.observe(lambda _: self.set_cells(self.cells), "value")
        self.sampler = Button("Sample", self.draw_samples, tooltip="sample from this condition and count")
        self.clearer = Button("Clear", lambda: self.set_cells(()), tooltip="remove all conditions")
        self.progress = Progress(steps * len(nets), tooltip="sampling")
        for canvas in self.canvases.values():
            canvas.observe(lambda change: self.toggle(change.new[0] * GRID_SIZE + change.new[1]), "chosen")
        boxes = [
            ipywidgets.VBox([self.captions[t], self.canvases[t]], layout={"margin": "0 12px 0 0"})
            for t in nets
        ]
        buttons = ipywidgets.HBox([self.sampler, self.clearer, self.seed, self.progress], layout=ROW)
        self.watch = Watch()
        pictures = ipywidgets.HBox(boxes, layout={"flex_flow": "row wrap"})
        self.widget = ipywidgets.VBox([buttons, self.watch, pictures]).add_class("lcs-box")
        self.show()

    def toggle(self, cell: int) -> None:
        """Add the condition in `cell` (row * 16 + column), or remove it, and discard the samples."""
        self.set_cells(tuple(sorted(set(self.cells) ^ {cell})))

    def set_cells(self, cells: Sequence[int]) -> None:
        """Make `cells` the active ones. Raises ValueError for a cell outside the grid."""
        outside = [c for c in cells if not 0 <= c < GRID_SIZE**2]
        if outside:
            raise ValueError(f"cells are 0..{GRID_SIZE**2 - 1}, got {outside}")
        self.cells, self.drawn = tuple(cells), {}
        self.show()

    def draw_samples(self) -> None:
        """Draw one sample of every net from the same noise, and count its objects.

        Choice: the seed alone sets the noise, whatever the cells, so that two conditions compare.
        """
        self.sampler.disabled, self.progress.value, self.progress.visible = True, 0, True
        noise = torch.randn(
            1, 3, self.size, self.size, generator=torch.Generator().manual_seed(self.seed.value)
        )
        cond = torch.zeros(1, GRID_SIZE**2)
        cond[0, list(self.cells)] = 1
        try:
            for title, denoise in self.nets.items():
                for step in sample(denoise, noise, karras_sigmas(self.steps), cond, "dpmpp_2m"):
                    self.progress.value += 1
                    self.watch.beat()
                image = step.x_t.clamp(-1, 1)
                found = self.counter(image)
                centers = [tuple(c) for c in found.centers[0].tolist() if c[0] == c[0]]  # padded with nan
                self.drawn[title] = image[0], centers, int(found.count[0])
            self.show()
        finally:
            self.sampler.disabled, self.progress.visible = False, False

    def show(self) -> None:
        """Draw the grids, the samples and the counts."""
        self.frames: list[np.ndarray] = []
        self.words: list[str] = []
        for title, canvas in self.canvases.items():
            image, centers, count = self.drawn.get(title, (None, [], None))
            asked = f"{title}: asked for {len(self.cells)}"
            words = f"{asked}, counted {count}" if image is not None else f"{asked}, press Sample"
            frame = render(self.cells, image, centers, self.size)
            self.captions[title].value = f"<b>{html.escape(words)}</b>"
            canvas.set_trait("status", words)
            canvas.set_trait("png", quick_png(frame))
            self.frames.append(frame)
            self.words.append(words)
        self.text = "; ".join(self.words)

    def _repr_mimebundle_(self, include=None, exclude=None):
        picture = png_bytes(titled(self.frames, self.words))
        return Pictured(self.widget, picture, self.text)._repr_mimebundle_()
