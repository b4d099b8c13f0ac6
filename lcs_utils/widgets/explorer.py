"""The locality explorer: pick a pixel, slide the noise, watch what it listens to, in three nets side by side (Fig. 2)."""

import asyncio
import io
from collections.abc import Sequence

import ipywidgets
import numpy as np
import torch
from PIL import Image

from lcs_utils import checkpoints
from lcs_utils.clevr.conditions import GRID_SIZE, test_condition
from lcs_utils.diffusion import karras_sigmas, sample
from lcs_utils.widgets import maps
from lcs_utils.widgets.canvas import ClickCanvas
from lcs_utils.widgets.frames import Pictured, png_bytes
from lcs_utils.widgets.maps import LABEL, View

SIGMAS = (0.05, 0.1, 0.2, 0.35, 0.5, 0.7, 1.0, 1.4, 2.0, 3.5, 5.0, 10.0, 20.0, 40.0)
TITLES = {"exp1": "Exp. 1: all labels", "exp2": "Exp. 2: one label", "exp3": "Exp. 3: local net"}
HELP = (
    "<b>Click</b> a pixel in any panel to move the target, a cell of the grid to add or remove a condition "
    "(keyboard: Tab to a picture, arrow keys, Enter).<br><b>Square</b>: holds 90&nbsp;% of the target's pixel influence, "
    "eq.&nbsp;(9). <b>Discs</b>: the conditions, filled by their share of the target's condition influence, eq.&nbsp;(10). "
    "In the condition map a pixel has the colors of the conditions it listens to."
)


def quick_png(frame: np.ndarray) -> bytes:
    """A picture as PNG, encoded for speed."""
    buffer = io.BytesIO()
    Image.fromarray(frame).save(buffer, "PNG", compress_level=1)
    return buffer.getvalue()


class LocalityExplorer:
    """Sliders, clicks and samples over `maps.Maps`; shows itself in a notebook, as a PNG where no kernel runs.

    names: checkpoints, preset "small" or "paper"; `cells` (default: the first five test locations) and `target` (row, column;
    default: in one of these) say where it starts. Maps are kept, so that a slide over known states only draws; after the first action the
    missing ones are computed between events. `view` is the state, `show(view)` sets it.
    """

    def __init__(
        self,
        names: Sequence[str] = tuple(TITLES),
        preset: str = "small",
        sigmas: Sequence[float] = SIGMAS,
        cells: Sequence[int] | None = None,
        target: tuple[int, int] | None = None,
        seed: int = 0,
        steps: int = 14,
    ):
        pipelines = {TITLES.get(name, f"{name}: "): checkpoints.load(name, preset) for name in names}
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
        rows, columns = maps.layout(len(self.maps.nets), self.size)
        stops = [(f"{s:g}", i) for i, s in enumerate(self.maps.sigmas)]
        self.slider = ipywidgets.SelectionSlider(
            options=stops, value=self.view.noise, description="noise level σ", continuous_update=True,
            style={"description_width": "initial"}, layout={"width": "min(100%, 460px)"},
        )  # fmt: skip
        self.play = ipywidgets.Play(min=0, max=len(stops) - 1, value=self.view.noise, interval=500, tooltip="play over noise")
        ipywidgets.jslink((self.play, "value"), (self.slider, "index"))
        self.picture = ClickCanvas(rows=rows, columns=columns, label="Locality of three nets; choose the target pixel")
        self.grid = ClickCanvas(rows=GRID_SIZE, columns=GRID_SIZE, label="Condition grid; choose a cell to toggle its condition")
        self.seed = ipywidgets.BoundedIntText(
            self.view.seed, min=0, max=10**6, description="seed", layout={"width": "150px"}, style={"description_width": "initial"}
        )
        self.sampler = ipywidgets.Button(description="Sample", tooltip="sample all nets from this condition", icon="play-circle")
        self.resetter = ipywidgets.Button(description="Reset", tooltip="back to the first state", icon="undo")
        self.progress = ipywidgets.IntProgress(0, 0, self.steps * len(self.maps.nets), layout={"width": "160px"})
        self.progress.layout.visibility = "hidden"
        self.slider.observe(lambda change: self.act(self.view._replace(noise=change.new)), "value")
        self.seed.observe(lambda change: self.act(self.view._replace(seed=change.new)), "value")
        self.picture.observe(lambda change: self.aim(*change.new[:2]), "chosen")
        self.grid.observe(lambda change: self.toggle(change.new[0] * GRID_SIZE + change.new[1]), "chosen")
        self.sampler.on_click(lambda button: self.draw_samples())
        self.resetter.on_click(lambda button: self.act(self.first))
        above = ipywidgets.HBox([self.slider, self.play], layout={"flex_flow": "row wrap", "align_items": "center"})
        buttons = ipywidgets.HBox(
            [self.seed, self.sampler, self.resetter, self.progress], layout={"flex_flow": "row wrap", "align_items": "center"}
        )
        below = ipywidgets.HBox(
            [self.grid, ipywidgets.VBox([buttons, ipywidgets.HTML(HELP)], layout={"max_width": "560px", "padding": "0 0 0 16px"})],
            layout={"flex_flow": "row wrap"},
        )
        self.widget = ipywidgets.VBox([above, self.picture, below])

    def aim(self, row: int, column: int) -> None:
        """A click on the picture at a unit: moves the target there, unless it is between the panels."""
        target = maps.locate(row, column, len(self.maps.nets), self.size)
        if target is not None:
            self.act(self.view._replace(target=target))

    def toggle(self, cell: int) -> None:
        """Add the condition in `cell` (row * 16 + column), or remove it."""
        self.act(self.view._replace(cells=tuple(sorted(set(self.view.cells) ^ {cell}))))

    def act(self, view: View) -> None:
        """`show`, then compute the other noise levels of this state between the coming events."""
        if view == self.view:
            return
        self.show(view)
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:  # no kernel: nothing to fill in between
            return
        if self.filling is not None:
            self.filling.cancel()
        self.filling = loop.create_task(self._fill(view))

    async def _fill(self, view: View) -> None:
        for noise in sorted(range(len(self.maps.sigmas)), key=lambda i: abs(i - view.noise)):
            for net in self.maps.nets:
                await asyncio.sleep(0.05)  # events first
                self.maps.panel(net, view._replace(noise=noise))

    def show(self, view: View) -> None:
        """Draw `view`; samples stay until condition or seed change."""
        scene = view.cells, view.seed
        if scene != (self.view.cells, self.view.seed):
            self.samples = {}
        if scene != (self.view.cells, self.view.seed) or not self.grid.png:
            self.grid.set_trait("status", f"{len(view.cells)} conditions active")
            self.grid.set_trait("png", quick_png(maps.render_grid(self.maps.scene(*scene), view.cells)))
        self.view = view
        sigma = self.maps.sigmas[view.noise]
        panels = [self.maps.panel(net, view, self.samples.get(net)) for net in self.maps.nets]
        self.frame = maps.render(panels, view, sigma)
        said = "; ".join(f"{p.title} square {p.window} px, near conditions {100 * maps.nearby_share(p, view):.0f} %" for p in panels)
        self.text = f"noise level {sigma:g}, target row {view.target[0]}, column {view.target[1]}. {said}"
        left = LABEL + 2 * (self.size + maps.GAP)
        self.picture.set_trait("cursor", [maps.HEAD + view.target[0], left + view.target[1]])
        self.picture.set_trait("status", self.text)
        self.picture.set_trait("png", quick_png(self.frame))
        self.slider.value, self.seed.value = view.noise, view.seed

    def draw_samples(self) -> None:
        """Sample every net from the active condition, all from the same noise, the bar moving at each step."""
        self.sampler.disabled, self.progress.value = True, 0
        self.progress.layout.visibility = "visible"
        generator = torch.Generator().manual_seed(self.view.seed)
        noise, cond = torch.randn(1, 3, self.size, self.size, generator=generator), self.maps.grid(self.view.cells)[None]
        try:
            for title, denoise in self.maps.nets.items():
                for step in sample(denoise, noise, karras_sigmas(self.steps), cond, "dpmpp_2m"):
                    self.progress.value += 1
                self.samples[title] = step.x_t[0].clamp(-1, 1)
        finally:
            self.sampler.disabled, self.progress.layout.visibility = False, "hidden"
        self.show(self.view)

    def _repr_mimebundle_(self, include=None, exclude=None):
        return Pictured(self.widget, png_bytes(self.frame), self.text)._repr_mimebundle_()
