"""What the locality explorer shows, each map computed once: scenes, denoised images, eqs. (9) and (10), and a
picture of each.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float, UInt8
from torch import Tensor

from lcs_utils import locality
from lcs_utils.clevr.conditions import GRID_SIZE
from lcs_utils.clevr.render import render as render_scenes
from lcs_utils.clevr.scenes import scene_at
from lcs_utils.diffusion import Denoiser, from_uint8
from lcs_utils.models.focus import focus
from lcs_utils.models.local_patch import LocalPatchDenoiser, cell_size
from lcs_utils.plotting import to_uint8
from lcs_utils.widgets.drawing import Sheet, color_of, heat, mix

KEPT = 2**26  # bytes of float32 in each of the six caches; at 32 px 16,384 maps, at 128 px 1,024
MOST = 12  # maps of a state with as many conditions as the paper asks for; one with more takes more


class View(NamedTuple):
    """A state of the explorer: index of the noise level, target pixel (row, column), active cells (sorted),
    seed.
    """

    noise: int
    target: tuple[int, int]
    cells: tuple[int, ...]
    seed: int = 0


class Panel(NamedTuple):
    """One net in one state: images [3 h w], eq. (9) [h w] with its 90% square, eq. (10) [k h w], and a
    sample if one was drawn.
    """

    title: str
    subtitle: str
    x_t: Tensor
    x0_hat: Tensor
    pixels: Tensor
    window: int
    conditions: Tensor
    sample: Tensor | None = None


def cell_centers(cells: Sequence[int]) -> Float[np.ndarray, "k 2"]:
    """Centers of grid cells as image locations (x right, y down) in [0, 1]."""
    at = np.array(cells, dtype=float).reshape(-1)
    return np.stack([at % GRID_SIZE + 0.5, at // GRID_SIZE + 0.5], 1) / GRID_SIZE


class Maps:
    """Images and influence maps (eqs. (9), (10)) of all nets for any `View`, each computed on first use.

    Choice: a view's seed draws its scene, by numpy's generator, and the noise on it, by torch's.
    """

    def __init__(self, nets: Mapping[str, Denoiser], sigmas: Sequence[float], resolution: int):
        self.nets, self.sigmas, self.resolution = dict(nets), tuple(sigmas), resolution

        def kept(compute, floats):  # per pixel
            return lru_cache(max(1, KEPT // (4 * floats * resolution**2)))(compute)

        self.scene, self.noisy = kept(self._scene, 3), kept(self._noisy, 3)
        self.denoised, self.pixels = kept(self._denoised, 3), kept(self._pixels, 1)
        self.conditions, self.one_condition = kept(self._conditions, MOST), kept(self._one_condition, 1)

    def _scene(self, cells, seed):
        """[3 h w]: one rendered object at the center of each active cell."""
        image = render_scenes([scene_at(cell_centers(cells), seed, 0)], self.resolution)[0]
        return from_uint8(image).permute(2, 0, 1)

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
            return self.nets[net](x_t[None], torch.full((1,), self.sigmas[noise]), self.grid(cells)[None])[0]

    def _pixels(self, net, noise, cells, seed, target):
        near = focus(self.nets[net], [target], self.resolution)
        x_t, sigma = self.noisy(noise, cells, seed), self.sigmas[noise]
        found = locality.pixel_influence(near, x_t, sigma, self.grid(cells), [target])
        return found[0], int(locality.locality_window(found, [target])[0])

    def _conditions(self, net, noise, cells, seed):
        x_t, sigma, cond = self.noisy(noise, cells, seed), self.sigmas[noise], self.grid(cells)
        without = locality.without_each(cond)
        if not without:
            return x_t.new_zeros(0, *x_t.shape[1:])
        denoise = self.nets[net]
        if isinstance(denoise, LocalPatchDenoiser):
            return torch.stack([self.one_condition(net, noise, cells, seed, k) for k in without])
        return locality.condition_influence(denoise, x_t, sigma, cond, without)

    def _one_condition(self, net, noise, cells, seed, k):
        """Eq. (10) of a local net for c_k, evaluated without c_k only in the cells that can depend on it."""
        full, m, radius = (
            self.denoised(net, noise, cells, seed),
            cell_size(self.resolution, GRID_SIZE),
            self.nets[net].radius,
        )
        first, last = (
            [min(max(v + s * radius, 0), GRID_SIZE - 1) for v in divmod(k, GRID_SIZE)] for s in (-1, 1)
        )
        near = tuple(slice(m * low, m * (high + 1)) for low, high in zip(first, last))
        asked = [(m * i, m * j) for i in range(first[0], last[0] + 1) for j in range(first[1], last[1] + 1)]
        denoise = focus(self.nets[net], asked, self.resolution)
        less = self.grid(tuple(cell for cell in cells if cell != k))
        with torch.no_grad():
            x0_hat = denoise(
                self.noisy(noise, cells, seed)[None], torch.full((1,), self.sigmas[noise]), less[None]
            )[0]
        influence = torch.zeros_like(full[0])
        influence[near] = (x0_hat - full)[:, *near].square().sum(0).sqrt()
        return influence

    def pieces(self, net: str, view: View) -> Iterator[Callable]:
        """The calls that `panel` needs for this state, in order, each at most about a tenth of a second."""
        state = net, view.noise, view.cells, view.seed
        yield lambda: self.denoised(*state)
        yield lambda: self.pixels(*state, view.target)
        if isinstance(self.nets[net], LocalPatchDenoiser):
            yield from (lambda k=k: self.one_condition(*state, k) for k in view.cells)
        yield lambda: self.conditions(*state)

    def panel(self, net: str, view: View, sample: Tensor | None = None) -> Panel:
        """Everything about one net in one state."""
        state = view.noise, view.cells, view.seed
        pixels, window = self.pixels(net, *state, view.target)
        title, _, subtitle = net.partition(": ")
        images = self.noisy(*state), self.denoised(net, *state)
        return Panel(title, subtitle, *images, pixels, window, self.conditions(net, *state), sample)


def nearby_share(panel: Panel, view: View, reach: int = 2) -> float:
    """Share of the target's condition influence from conditions within `reach` cells; 0 if it has none."""
    m = cell_size(panel.conditions.shape[-1], GRID_SIZE)
    at = np.array([divmod(cell, GRID_SIZE) for cell in view.cells]).reshape(-1, 2)
    near = np.abs(at - np.array(view.target) // m).max(1) <= reach
    heard = panel.conditions[:, view.target[0], view.target[1]].double().numpy()
    return float(heard[near].sum() / heard.sum()) if heard.sum() > 0 else 0.0


def over(image: Tensor, color: np.ndarray) -> np.ndarray:
    """A map over the gray denoised image, opaque where the map is bright."""
    gray = to_uint8(image).mean(-1, keepdims=True)
    alpha = 0.35 + 0.65 * color.max(-1, keepdims=True) / 255
    return (gray * (1 - alpha) + color * alpha).round().astype(np.uint8)


def pixel_map(
    panel: Panel, view: View, scale: int = 5, on_image: bool = False
) -> UInt8[np.ndarray, "height width 3"]:
    """Eq. (9) for the target, with the square that holds 90% of it (Fig. 2)."""
    size, (row, column) = panel.x_t.shape[-1], view.target
    color, r = heat(panel.pixels.numpy()), panel.window // 2
    sheet = Sheet(size, size, scale)
    sheet.panel(over(panel.x0_hat, color) if on_image else color, 0, 0)
    if panel.window:
        sheet.square((row - r, column - r, row + r + 1, column + r + 1), (0, 0, size, size))
    mark(sheet, view, (255, 255, 255))
    return sheet.array()


def condition_map(
    panel: Panel, view: View, scale: int = 5, on_image: bool = False
) -> UInt8[np.ndarray, "height width 3"]:
    """Eq. (10): pixels in the colors of the conditions they listen to; discs filled by the target's shares
    (Fig. 2).
    """
    size, (row, column) = panel.x_t.shape[-1], view.target
    color, m = mix(panel.conditions.numpy()), cell_size(size, GRID_SIZE)
    sheet = Sheet(size, size, scale)
    sheet.panel(over(panel.x0_hat, color) if on_image else color, 0, 0)
    heard = panel.conditions[:, row, column].double()
    shares = (heard / heard.sum().clamp_min(1e-30)).tolist()
    for k, cell in enumerate(view.cells):
        y, x = divmod(cell, GRID_SIZE)
        sheet.disc((y + 0.5) * m, (x + 0.5) * m, 0.056 * size, color_of(k), shares[k])
    mark(sheet, view, (255, 255, 255))
    return sheet.array()


def relative(conditions: Tensor, k: int, view: View, scale: int = 5) -> UInt8[np.ndarray, "height width 3"]:
    """Eq. (10) of one condition, as bright as its share of the strongest influence of any condition; its cell
    is outlined.
    """
    size, m = conditions.shape[-1], cell_size(conditions.shape[-1], GRID_SIZE)
    sheet = Sheet(size, size, scale)
    sheet.panel(heat(conditions[k].numpy(), float(conditions.max())), 0, 0)
    row, column = (v * m for v in divmod(view.cells[k], GRID_SIZE))
    sheet.square((row, column, row + m, column + m), (0, 0, size, size), color_of(k))
    return sheet.array()


def mark(sheet: Sheet, view: View, color) -> None:
    """Outline the target pixel."""
    (row, column), (height, width) = view.target, (v // sheet.scale for v in sheet.image.size)
    sheet.square((row, column, row + 1, column + 1), (0, 0, height, width), color)


def plain(image: Tensor, view: View, scale: int = 5) -> UInt8[np.ndarray, "height width 3"]:
    """An image with the target outlined."""
    sheet = Sheet(*image.shape[1:], scale)
    sheet.panel(to_uint8(image), 0, 0)
    mark(sheet, view, (255, 80, 80))
    return sheet.array()
