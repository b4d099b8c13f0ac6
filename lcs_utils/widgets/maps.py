"""What the locality explorer shows, computed once for every state: scenes, denoised images, eqs. (9) and (10), the picture."""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float, UInt8
from torch import Tensor

from lcs_utils import locality
from lcs_utils.clevr.conditions import GRID_SIZE, cell_size
from lcs_utils.clevr.render import render as render_scenes
from lcs_utils.clevr.scenes import scene_at
from lcs_utils.diffusion import Denoiser
from lcs_utils.models.focus import focus
from lcs_utils.models.local_patch import LocalPatchDenoiser
from lcs_utils.plotting import to_uint8
from lcs_utils.widgets.drawing import CONDITION_COLORS, Sheet, heat, lines, mix

KEPT = 4096  # maps held at once, a few kB each


class View(NamedTuple):
    """A state of the explorer: index of the noise level, target pixel (row, column), active cells (sorted), seed."""

    noise: int
    target: tuple[int, int]
    cells: tuple[int, ...]
    seed: int = 0


class Panel(NamedTuple):
    """One net in one state: images [3 h w], eq. (9) [h w] with its 90 % square, eq. (10) [k h w], and a sample if drawn."""

    title: str
    subtitle: str
    x_t: Tensor
    x0_hat: Tensor
    pixels: Tensor
    window: int
    conditions: Tensor
    sample: Tensor | None = None


def cell_centers(cells: Sequence[int]) -> Float[np.ndarray, "k 2"]:
    """Middles of grid cells as image locations (x right, y down) in [0, 1]."""
    at = np.array(cells, dtype=float).reshape(-1)
    return np.stack([at % GRID_SIZE + 0.5, at // GRID_SIZE + 0.5], 1) / GRID_SIZE


class Maps:
    """All that nets say and look at, for any `View`, each computed when first asked for (eqs. (9), (10))."""

    def __init__(self, nets: Mapping[str, Denoiser], sigmas: Sequence[float], resolution: int):
        self.nets, self.sigmas, self.resolution = dict(nets), tuple(sigmas), resolution
        self.scene, self.noisy = lru_cache(KEPT)(self._scene), lru_cache(KEPT)(self._noisy)
        self.denoised, self.pixels = lru_cache(KEPT)(self._denoised), lru_cache(KEPT)(self._pixels)
        self.conditions = lru_cache(KEPT)(self._conditions)

    def _scene(self, cells, seed):
        """[3 h w]: one rendered object in the middle of each active cell."""
        threads = torch.get_num_threads()
        image = render_scenes([scene_at(cell_centers(cells), seed, 0)], self.resolution)[0]
        torch.set_num_threads(threads)  # numba shares OpenMP with torch and resets it
        return torch.from_numpy(image).permute(2, 0, 1).float() / 127.5 - 1

    def _noisy(self, noise, cells, seed):
        x0 = self.scene(cells, seed)
        return x0 + self.sigmas[noise] * torch.randn(x0.shape, generator=torch.Generator().manual_seed(seed))

    def grid(self, cells) -> Float[Tensor, "256"]:
        """The condition: one object in each of `cells`."""
        cond = torch.zeros(GRID_SIZE**2)
        cond[list(cells)] = 1
        return cond

    def _denoised(self, net, noise, cells, seed):
        x_t = self.noisy(noise, cells, seed)
        with torch.no_grad():
            return self.nets[net](x_t[None], torch.full((1,), self.sigmas[noise]), self.grid(cells))[0]

    def _pixels(self, net, noise, cells, seed, target):
        near = focus(self.nets[net], [target], self.resolution)
        found = locality.pixel_influence(near, self.noisy(noise, cells, seed), self.sigmas[noise], self.grid(cells), [target])
        return found[0], int(locality.locality_window(found, [target])[0])

    def _conditions(self, net, noise, cells, seed):
        x_t, sigma, cond = self.noisy(noise, cells, seed), self.sigmas[noise], self.grid(cells)
        without = locality.without_each(cond)
        if not without:
            return x_t.new_zeros(0, *x_t.shape[1:])
        denoise = self.nets[net]
        if not isinstance(denoise, LocalPatchDenoiser):
            return locality.condition_influence(denoise, x_t, sigma, cond, without)
        parts = [  # a local net hears a condition in the cells around it only
            locality.condition_influence(focus(denoise, self.around(k, denoise.radius), self.resolution), x_t, sigma, cond, {k: c})
            for k, c in without.items()
        ]
        return torch.cat(parts)

    def around(self, cell: int, radius: int) -> list[tuple[int, int]]:
        """One pixel (row, column) of every cell within `radius` cells of `cell`."""
        m, (row, column) = cell_size(self.resolution), divmod(cell, GRID_SIZE)
        near = lambda at: range(max(0, at - radius), min(GRID_SIZE, at + radius + 1))
        return [(r * m, c * m) for r in near(row) for c in near(column)]

    def panel(self, net: str, view: View, sample: Tensor | None = None) -> Panel:
        """Everything about one net in one state."""
        state = view.noise, view.cells, view.seed
        pixels, window = self.pixels(net, *state, view.target)
        title, _, subtitle = net.partition(": ")
        images = self.noisy(*state), self.denoised(net, *state)
        return Panel(title, subtitle, *images, pixels, window, self.conditions(net, *state), sample)


def nearby_share(panel: Panel, view: View, reach: int = 2) -> float:
    """Share of the target's condition influence that comes from within `reach` cells of it; 0 when it hears none."""
    m = cell_size(panel.conditions.shape[-1])
    at = np.array([divmod(cell, GRID_SIZE) for cell in view.cells]).reshape(-1, 2)
    near = np.abs(at - np.array(view.target) // m).max(1) <= reach
    heard = panel.conditions[:, view.target[0], view.target[1]].double().numpy()
    return float(heard[near].sum() / heard.sum()) if heard.sum() > 0 else 0.0


COLUMNS = ("noisy", "denoised", "listens to pixels", "listens to conditions", "sample")
LABEL, GAP, HEAD = 26, 2, 5  # units (image pixels): the labels' column, between panels, above them


def layout(nets: int, size: int) -> tuple[int, int]:
    """Units (rows, columns) of the picture of `nets` panels' rows."""
    return HEAD + nets * (size + GAP), LABEL + len(COLUMNS) * (size + GAP)


def locate(row: int, column: int, nets: int, size: int) -> tuple[int, int] | None:
    """The image pixel (row, column) that a unit of the picture shows, in whatever panel; None between panels."""
    r, c = row - HEAD, column - LABEL
    inside = 0 <= r < nets * (size + GAP) and 0 <= c < len(COLUMNS) * (size + GAP)
    if not inside or r % (size + GAP) >= size or c % (size + GAP) >= size:
        return None
    return r % (size + GAP), c % (size + GAP)


def render(panels: Sequence[Panel], view: View, sigma: float) -> UInt8[np.ndarray, "height width 3"]:
    """The explorer's picture (Fig. 2): a row per net, in it the noisy and denoised image, both maps, and a sample.

    White square: 90 % of the target's pixel influence. Discs: the conditions, filled by their share of the target's
    condition influence. A pixel of the condition map has the colors of the conditions it listens to.
    """
    size = panels[0].x_t.shape[-1]
    sheet = Sheet(*layout(len(panels), size), scale=max(1, 160 // size))
    m, (row, column) = size // GRID_SIZE, view.target
    sheet.text(f"noise σ = {sigma:g}", 0.8, 0.5, bold=True)
    for j, name in enumerate(COLUMNS):
        sheet.text(name, 0.8, LABEL + j * (size + GAP) + size / 2, anchor="ma")
    for i, panel in enumerate(panels):
        top = HEAD + i * (size + GAP)
        share = f"{100 * nearby_share(panel, view):.0f} %" if view.cells else "-"
        words = [(panel.title, True), (panel.subtitle, False), ("", False), ("90 % of pixel", False), ("influence within", False),
                 (f"{panel.window} px", True), ("", False), ("from conditions", False), ("≤ 2 cells away", False), (share, True)]
        lines(sheet, words, top + 0.2, 0.5, 3.1)
        # strong noise is shown smaller than it is: its pixels would all be fully on or off otherwise
        shown = [to_uint8(panel.x_t / max(1.0, 2.5 * sigma)), to_uint8(panel.x0_hat), heat(panel.pixels.numpy()),
                 mix(panel.conditions.numpy()), None if panel.sample is None else to_uint8(panel.sample)]
        for j, rgb in enumerate(shown):
            left = LABEL + j * (size + GAP)
            if rgb is None:
                sheet.panel(np.full((size, size, 3), 240, np.uint8), top, left)
                sheet.text("press Sample", top + size / 2 - 1, left + size / 2, anchor="ma")
                continue
            sheet.panel(rgb, top, left)
            box, inside = (top + row, left + column, top + row + 1, left + column + 1), (top, left, top + size, left + size)
            if j == 2 and panel.window:
                r = panel.window // 2
                sheet.square((box[0] - r, box[1] - r, box[2] + r, box[3] + r), inside)
            if j == 3:
                heard = panel.conditions[:, row, column]
                for k, cell in enumerate(view.cells):
                    y, x = divmod(cell, GRID_SIZE)
                    color = CONDITION_COLORS[k % len(CONDITION_COLORS)]
                    share_k = float(heard[k] / heard.sum()) if float(heard.sum()) else 0.0
                    sheet.disc(top + (y + 0.5) * m, left + (x + 0.5) * m, 1.8, color, share_k)
            if j < 4:
                sheet.square(box, inside, (255, 80, 80) if j < 2 else (255, 255, 255))
    return sheet.array()


def render_grid(scene: Tensor, cells: Sequence[int], scale: int = 8) -> UInt8[np.ndarray, "height width 3"]:
    """The condition grid over the scene: active cells outlined in their colors (Fig. 9)."""
    size = scene.shape[-1]
    m = size // GRID_SIZE
    sheet = Sheet(size, size, scale)
    sheet.panel(to_uint8(scene), 0, 0)
    for k in range(1, GRID_SIZE):
        at = k * m * scale
        sheet.draw.line([at, 0, at, size * scale], fill=(170, 170, 170))
        sheet.draw.line([0, at, size * scale, at], fill=(170, 170, 170))
    for k, cell in enumerate(cells):
        row, column = (v * m for v in divmod(cell, GRID_SIZE))
        sheet.square((row, column, row + m, column + m), (0, 0, size, size), CONDITION_COLORS[k % len(CONDITION_COLORS)])
    return sheet.array()
