"""The locality explorer: pick a pixel, slide the noise, and see what it listens to, in three nets at once
(Fig. 2).
"""

import asyncio
import time
from collections.abc import Sequence

import ipywidgets
import numpy as np
import torch

from lcs_utils import checkpoints
from lcs_utils.clevr.conditions import GRID_SIZE, test_condition
from lcs_utils.diffusion import karras_sigmas, sample
from lcs_utils.models.fused import fuse_
from lcs_utils.widgets import explorer_picture as drawn
from lcs_utils.widgets import maps
from lcs_utils.widgets.canvas import ClickCanvas
from lcs_utils.widgets.controls import Button, Number, Progress, Slider
from lcs_utils.widgets.frames import Pictured, png_bytes, quick_png
from lcs_utils.widgets.maps import View
from lcs_utils.widgets.watch import Watch

SIGMAS = (0.05, 0.1, 0.2, 0.35, 0.5, 0.7, 1.0, 1.4, 2.0, 3.5, 5.0, 10.0, 20.0, 40.0)
TITLES = {"exp1": "Exp. 1: all labels", "exp2": "Exp. 2: one label", "exp3": "Exp. 3: local net, r = 3"}
HELP = (
    "<div style='line-height:1.35'><b>Click</b> a pixel in any panel to move the target, a cell of the grid "
    "to add or remove a condition (keyboard: Tab to a picture, arrow keys, Enter). <b>Square</b>: holds "
    "90&nbsp;% of the target's pixel influence, eq.&nbsp;(9); how wide it is stands beside the row. "
    "<b>Discs</b>: the conditions, filled by their share of the target's condition influence, eq.&nbsp;(10); "
    "near are those within 2 cells. In the condition map a pixel has the colors of the conditions it listens "
    "to.</div>"
)
ROW = {"flex_flow": "row wrap", "align_items": "center", "overflow": "visible", "grid_gap": "0 12px"}


def cell_name(cells: Sequence[int], row: int, column: int) -> str:
    """A grid cell in words."""
    return f"row {row}, column {column}, {'active' if row * GRID_SIZE + column in cells else 'inactive'}"


class LocalityExplorer:
    """Sliders, clicks and samples over `maps.Maps`; displays itself in a notebook, as a PNG where no kernel
    runs.

    `names`: checkpoints of a preset, such as "tiny" or "paper"; `cells` (default: the first five test
    locations) and `target` (row, column; default: in one of the default cells, whatever `cells` are) set the
    initial state. Maps are cached, so that sliding over known states only draws; the other noise levels of a
    state are computed between events, once a browser shows it. `view` is the state, `show(view)` sets it.
    """

    def __init__(
        self,
        names: Sequence[str] = tuple(TITLES),
        preset: str = "tiny",
        sigmas: Sequence[float] = SIGMAS,
        cells: Sequence[int] | None = None,
        target: tuple[int, int] | None = None,
        seed: int = 0,
        steps: int = 14,
    ):
        pipelines = {TITLES.get(name, f"{name}: "): checkpoints.load(name, preset) for name in names}
        for pipeline in pipelines.values():
            fuse_(pipeline.net)
        self.size = next(iter(pipelines.values())).config.resolution
        self.maps = maps.Maps({title: p.denoiser for title, p in pipelines.items()}, sigmas, self.size)
        self.steps, self.samples, self.filling = steps, {}, None
        m = self.size // GRID_SIZE
        cells = tuple(sorted(test_condition(5).nonzero().flatten().tolist() if cells is None else cells))
        target = target or (5 * m + 1, 5 * m + 1)
        noise = min(range(len(sigmas)), key=lambda i: abs(np.log(sigmas[i] / 2)))
        self.first = self.view = View(noise, target, cells, seed)
        self._build()
        self.show(self.view)

    def _build(self):
        rows, columns = drawn.layout(len(self.maps.nets), self.size)
        self.watch = Watch(layout={"flex": "1 1 260px"})
        self.slider = Slider(
            self.view.noise,
            [f"{s:g}" for s in self.maps.sigmas],
            description="noise level σ",
            play="play over noise",
            layout={"flex": "0 1 460px"},
        )
        self.picture = ClickCanvas(
            lambda *at: self.name_of(*at),
            self.fill,
            rows=rows,
            columns=columns,
            label=f"Locality of {len(self.maps.nets)} nets; choose the target pixel",
            heads=list(drawn.COLUMNS),
            layout={"flex": "1000 1 540px", "min_width": "0", "max_width": "100%"},
        )
        self.grid = ClickCanvas(
            lambda row, column: cell_name(self.view.cells, row, column),
            rows=GRID_SIZE,
            columns=GRID_SIZE,
            label="Condition grid; choose a cell to toggle its condition",
            layout={"width": "256px", "max_width": "100%", "overflow": "visible"},
        )
        self.seed = Number(self.view.seed, description="seed")
        self.sampler = Button("Sample", self.draw_samples, tooltip="sample all nets from this condition")
        self.resetter = Button("Reset", lambda: self.act(self.first), tooltip="back to the first state")
        self.progress = Progress(self.steps * len(self.maps.nets), tooltip="sampling")
        self.slider.observe(lambda change: self.act(self.view._replace(noise=int(change.new))), "value")
        self.seed.observe(lambda change: self.act(self.view._replace(seed=change.new)), "value")
        self.picture.observe(lambda change: self.aim(*change.new[:2]), "chosen")
        self.grid.observe(lambda change: self.toggle(change.new[0] * GRID_SIZE + change.new[1]), "chosen")
        self.seed.layout = {"width": "100%"}
        buttons = ipywidgets.HBox([self.seed, self.sampler, self.resetter, self.progress], layout=ROW)
        words = ipywidgets.VBox([buttons, ipywidgets.HTML(HELP)], layout={"flex": "1 1 240px"})
        # wraps into a column where room is short
        side = ROW | {"flex": "1 1 256px", "align_items": "flex-start"}
        beside = ipywidgets.HBox([self.grid, words], layout=side)
        above = ipywidgets.HBox([self.slider, self.watch], layout=ROW)
        below = ipywidgets.HBox([self.picture, beside], layout=ROW | {"align_items": "flex-start"})
        self.widget = ipywidgets.VBox([above, below]).add_class("lcs-box")

    def name_of(self, row: int, column: int) -> str:
        """What is at a unit of the picture, in words."""
        target, nets = drawn.locate(row, column, len(self.maps.nets), self.size), list(self.maps.nets)
        if target is None:
            return "between the panels"
        step = self.size + drawn.GAP
        net, what = nets[row // step], drawn.COLUMNS[column // step]
        return f"row {target[0]}, column {target[1]}, {what}, {net.partition(':')[0]}"

    def aim(self, row: int, column: int) -> None:
        """Handle a click on the picture at a unit: move the target there, unless it is between the panels."""
        target = drawn.locate(row, column, len(self.maps.nets), self.size)
        if target is not None:
            self.act(self.view._replace(target=target))

    def toggle(self, cell: int) -> None:
        """Add the condition in `cell` (row * 16 + column), or remove it."""
        self.act(self.view._replace(cells=tuple(sorted(set(self.view.cells) ^ {cell}))))

    def act(self, view: View) -> None:
        """`show`, then compute the other noise levels of this state between later events."""
        if view == self.view:
            return
        self.show(view)
        self.fill()

    def fill(self) -> None:
        """Compute the other noise levels of this state between later events; does nothing without a running
        event loop.
        """
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            return
        if self.filling is not None:
            self.filling.cancel()
        self.filling = loop.create_task(self._fill(self.view))

    async def _fill(self, view: View) -> None:
        await asyncio.sleep(0.3)  # events of the slider come first
        for noise in sorted(range(len(self.maps.sigmas)), key=lambda i: abs(i - view.noise)):
            for net in self.maps.nets:
                for compute in self.maps.pieces(net, view._replace(noise=noise)):
                    start = time.perf_counter()
                    compute()
                    # leave half of the time to events
                    await asyncio.sleep(max(0.01, time.perf_counter() - start))

    def show(self, view: View) -> None:
        """Draw `view`; samples stay until condition or seed change."""
        scene = view.cells, view.seed
        if scene != (self.view.cells, self.view.seed):
            self.samples = {}
        if scene != (self.view.cells, self.view.seed) or not self.grid.png:
            with self.grid.hold_sync():  # words and picture change at once
                self.grid.status = f"{len(view.cells)} conditions active"
                self.grid.marks = drawn.grid_marks(view.cells)
                self.grid.png = quick_png(drawn.render_grid(self.maps.scene(*scene), view.cells))
        self.view = view
        sigma = self.maps.sigmas[view.noise]
        self.panels = panels = []
        for net in self.maps.nets:
            panels.append(self.maps.panel(net, view, self.samples.get(net)))
            self.watch.beat()
        near = [f"near conditions {100 * maps.nearby_share(p, view):.0f}%" for p in panels]
        said = "; ".join(f"{p.title} square {p.window} px, {share}" for p, share in zip(panels, near))
        self.text = f"noise level {sigma:g}, target row {view.target[0]}, column {view.target[1]}. {said}"
        left = 2 * (self.size + drawn.GAP)
        asking = "sample" if self.samples else "sample: press Sample"
        with self.picture.hold_sync():
            self.picture.cursor = [view.target[0], left + view.target[1]]
            self.picture.status = self.text
            self.picture.heads = [*drawn.COLUMNS[:-1], asking]
            self.picture.corner = f"noise σ = {sigma:g}"
            self.picture.sides = [drawn.says(panel, view) for panel in panels]
            self.picture.marks = drawn.marks(len(panels), view, self.size)
            self.picture.png = quick_png(drawn.render(panels, view, sigma))
        self.slider.value, self.seed.value = view.noise, view.seed
        self.slider.answered = view.noise

    def draw_samples(self) -> None:
        """Sample every net from the active condition, all from the same noise, advancing the bar at each
        step.

        Choice: the seed that drew the scene and its noise; the samples start from the same numbers as these.
        """
        self.sampler.disabled, self.progress.value, self.progress.visible = True, 0, True
        generator = torch.Generator().manual_seed(self.view.seed)
        noise = torch.randn(1, 3, self.size, self.size, generator=generator)
        cond = self.maps.grid(self.view.cells)[None]
        try:
            for title, denoise in self.maps.nets.items():
                for step in sample(denoise, noise, karras_sigmas(self.steps), cond, "dpmpp_2m"):
                    self.progress.value += 1
                    self.watch.beat()
                self.samples[title] = step.x_t[0].clamp(-1, 1)
            self.show(self.view)
        finally:
            self.sampler.disabled, self.progress.visible = False, False

    @property
    def frame(self) -> np.ndarray:
        """The picture with its words, uint8 [height width 3], as shown where no kernel runs."""
        return drawn.render_with_words(self.panels, self.view, self.maps.sigmas[self.view.noise])

    def _repr_mimebundle_(self, include=None, exclude=None):
        return Pictured(self.widget, png_bytes(self.frame), self.text)._repr_mimebundle_()
