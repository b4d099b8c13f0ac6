"""A toy CLEVR in closed form: colored blobs on a grid, with the exact denoisers of Exps. 1, 2 and 3.

A scene holds k objects, k drawn from a count law, in k different cells of a grid chosen uniformly, each of
a random color; every pixel carries a little Gaussian noise. Given the occupied cells J this is a CPC (Def.
2, eq. (2)). In all three experiments the posterior mean of a cell is

    D = (noise^2 x_t + sigma^2 ((1 - P) empty + P blob)) / (noise^2 + sigma^2),

with blob the posterior mean color; only P, the posterior probability that the cell is occupied, differs:
Exp. 1 (every object labeled): P is the label. Exp. 2 (one random object labeled): the other objects must be
inferred from the whole image. Exp. 3 (one labeled, local): they are inferred from the cells within
`radius`.
Choice: the paper has no such toy; it is our closed-form stand-in for Figs. 1, 2 and 4.
"""

import math
from dataclasses import dataclass
from functools import cached_property

import torch
from einops import rearrange
from jaxtyping import Bool, Float, Int, Shaped
from torch import Tensor

from lcs_utils.diffusion import Denoiser, expand
from lcs_utils.theory.checks import (
    check_count,
    check_generator,
    check_grid,
    check_levels,
    check_list,
    check_number,
    check_tensor,
    shown,
)
from lcs_utils.theory.cpc import ConditionalProjectiveComposition
from lcs_utils.theory.distributions import GaussianMixture, Product, gaussian

# CLEVR's eight colors, in the paper's order: blue, brown, cyan, gray, green, purple, red, yellow
PALETTE = (
    (42, 75, 215),
    (129, 74, 25),
    (41, 208, 208),
    (87, 87, 87),
    (29, 105, 20),
    (129, 38, 192),
    (173, 35, 35),
    (255, 238, 51),
)
GROUND = 150
LABELS = ("all", "one")
STRATEGIES = ("every", "any")  # of a model of one label at several (section 2)
NEVER = -1e6  # log of a likelihood that is zero for all purposes; finite, so that gradients stay finite


def log_symmetric(log_l: Float[Tensor, "... w"], degree: int) -> list[Float[Tensor, "..."]]:
    """Logs of the elementary symmetric polynomials e_0 .. e_degree of exp(log_l) along the last axis.

    e_s is the sum, over all sets of s cells, of the product of their likelihood ratios: how probable s
    objects are. O(w s). `degree` >= 0; log_l holds at least one number in its last axis.
    """
    check_count("degree", degree)
    if not isinstance(log_l, Tensor) or not log_l.is_floating_point():
        raise TypeError(f"log_l must be a floating-point tensor, got {shown(log_l)}")
    if log_l.ndim == 0 or log_l.shape[-1] == 0:
        raise ValueError(f"log_l must hold numbers along its last axis, got shape {list(log_l.shape)}")
    logs = [torch.zeros_like(log_l[..., 0])]
    prefix = torch.zeros_like(log_l)  # log e_s of the cells before each cell
    for _ in range(degree):
        terms = log_l + prefix
        running = terms.logcumsumexp(-1)
        logs.append(running[..., -1])
        prefix = torch.cat([torch.full_like(running[..., :1], NEVER), running[..., :-1]], -1)
    return logs


@dataclass(frozen=True)
class Blobs:
    """The toy's scenes: grid_size^2 cells of cell x cell pixels, count_law[k - 1] = P(k objects).

    `noise` > 0; the palette holds at least one color of three bytes. Raises ValueError for a count law that
    is negative, does not sum to 1 or allows more objects than there are cells.
    """

    grid_size: int = 16
    cell: int = 2
    noise: float = 0.05  # std of the pixels, images in [-1, 1]
    count_law: tuple[float, ...] = (1 / 3, 1 / 3, 1 / 3)
    palette: tuple[tuple[int, int, int], ...] = PALETTE

    def __post_init__(self):
        check_count("grid_size", self.grid_size, 1)
        check_count("cell", self.cell, 1)
        check_number("noise", self.noise, 0, 1e6, above=True)
        chances = check_list("count_law", self.count_law, 1)
        law = [check_number("a chance in count_law", p, 0, 1) for p in chances]
        for color in check_list("palette", self.palette, 1):
            if len(check_list("a color", color)) != 3:
                raise ValueError(f"a color must be three bytes, got {shown(color)}")
            for byte in color:
                check_count("a byte of a color", byte, 0, 255)
        if abs(sum(law) - 1) > 1e-9 or len(law) > self.cells:
            raise ValueError(
                f"count_law must sum to 1 over at most {self.cells} objects, got {self.count_law}"
            )

    @property
    def cells(self) -> int:
        """Number of cells m."""
        return self.grid_size**2

    @property
    def resolution(self) -> int:
        """Side of the image in pixels."""
        return self.grid_size * self.cell

    @cached_property
    def means(self) -> Float[Tensor, "kinds d"]:
        """Noise-free cells, flattened [3 cell cell]: the empty one first, then one blob per color."""
        at = (torch.arange(self.cell, dtype=torch.float64) + 0.5) / self.cell - 0.5
        profile = torch.exp(-(((at[:, None] ** 2 + at**2) / 0.2) ** 2))
        ground = torch.full((3, self.cell, self.cell), GROUND / 127.5 - 1, dtype=torch.float64)
        colors = torch.tensor(self.palette, dtype=torch.float64) / 127.5 - 1
        blobs = ground + profile * (colors[:, :, None, None] - ground)
        return torch.cat([ground[None], blobs]).flatten(1)

    def to_cells(self, x: Shaped[Tensor, "batch 3 h w"]) -> Shaped[Tensor, "batch cells d"]:
        """Images as flattened cells, row by row. Raises ValueError for images of another size."""
        check_tensor("images", x, (None, 3, self.resolution, self.resolution))
        return rearrange(x, "b c (i p) (j q) -> b (i j) (c p q)", p=self.cell, q=self.cell)

    def to_image(self, cells: Float[Tensor, "batch cells d"]) -> Float[Tensor, "batch 3 h w"]:
        """The inverse of `to_cells`. Raises ValueError for other shapes."""
        check_tensor("cells", cells, (None, self.cells, 3 * self.cell**2))
        side, cell = self.grid_size, self.cell
        return rearrange(cells, "b (i j) (c p q) -> b c (i p) (j q)", i=side, p=cell, q=cell)

    def evidence(
        self, x: Float[Tensor, "batch 3 h w"], sigma: Float[Tensor, "batch"]
    ) -> tuple[Float[Tensor, "batch cells"], Float[Tensor, "batch cells d"]]:
        """Per cell: log p_t(x | object) - log p_t(x | empty), and a blob's posterior mean over colors.

        Raises ValueError for images of another size and for a sigma that is not >= 0 and [batch].
        """
        check_tensor("images", x, (None, 3, self.resolution, self.resolution))
        check_levels(sigma, len(x))
        cells = self.to_cells(x.double())[:, :, None]
        variance = expand(sigma.double(), cells) ** 2 + self.noise**2
        logits = -((cells - self.means).square().sum(-1) / (2 * variance[..., 0]))
        blob = logits[..., 1:].softmax(-1) @ self.means[1:]
        return logits[..., 1:].logsumexp(-1) - math.log(len(self.palette)) - logits[..., 0], blob

    def occupied(self, x0: Float[Tensor, "batch 3 h w"]) -> Bool[Tensor, "batch cells"]:
        """Cells where a clean image shows an object: the Bayes decision at even odds, without a network."""
        return self.evidence(x0, torch.zeros(len(x0)))[0] > 0

    def scenes(
        self, batch: int, generator: torch.Generator
    ) -> tuple[Float[Tensor, "batch 3 h w"], Bool[Tensor, "batch cells"]]:
        """Images in [-1, 1] and their occupied cells, `batch` >= 1 of them."""
        check_count("batch", batch, 1)
        check_generator(generator)
        law = torch.tensor(self.count_law)
        counts = 1 + torch.multinomial(law, batch, replacement=True, generator=generator)
        ranks = torch.rand(batch, self.cells, generator=generator).argsort(1).argsort(1)
        occupied = ranks < counts[:, None]
        color = torch.randint(len(self.palette), (batch, self.cells), generator=generator)
        clean = self.means[torch.where(occupied, 1 + color, 0)]
        eps = torch.randn(clean.shape, generator=generator, dtype=torch.float64)
        return self.to_image(clean + self.noise * eps), occupied

    def cpc(self) -> ConditionalProjectiveComposition:
        """p(x | c_J), J the occupied cells, as a CPC (Def. 2); for small grids: one factor per cell."""
        pixels = torch.arange(3 * self.resolution**2).reshape(1, 3, self.resolution, self.resolution)
        M = {j: tuple(block) for j, block in enumerate(self.to_cells(pixels)[0].tolist())}
        cov = self.noise**2 * torch.eye(self.means.shape[1], dtype=torch.float64)
        colors = len(self.palette)
        blob = GaussianMixture(torch.full((colors,), 1 / colors), self.means[1:], cov.expand(colors, -1, -1))
        background = Product(tuple(M.values()), (gaussian(self.means[0], cov),) * self.cells)
        return ConditionalProjectiveComposition(M, background, {j: blob for j in M})


def check_grids(blobs: Blobs, cond: Tensor, batch: int) -> Bool[Tensor, "batch cells"]:
    """Location grids [batch cells] or [cells] as booleans [batch cells]. Raises ValueError for other shapes
    and for counts that are not finite.
    """
    return check_grid(cond, blobs.cells, batch) > 0


def _windows(blobs: Blobs, radius: int | None) -> Int[Tensor, "cells w"]:
    """Cells within `radius` (Chebyshev) of each cell, without the cell itself; padded with `blobs.cells`."""
    g = blobs.grid_size
    radius = g - 1 if radius is None else min(radius, g - 1)
    rows, columns = torch.arange(blobs.cells) // g, torch.arange(blobs.cells) % g
    near = ((rows[:, None] - rows).abs() <= radius) & ((columns[:, None] - columns).abs() <= radius)
    near.fill_diagonal_(False)
    width = max(1, int(near.sum(1).max()))
    index = torch.where(near, torch.arange(blobs.cells), blobs.cells).sort(1).values
    return index[:, :width]


def _extras_log_law(blobs: Blobs, unseen: Tensor, labeled: bool) -> list[Float[Tensor, "cells"]]:
    """log P(a GIVEN set of s cells of the window holds all its unlabeled objects), s = 0, 1, ...

    `unseen` counts the cells outside the window. Of k objects k - 1 are unlabeled and lie uniformly among
    the m - 1 other cells; with the label outside the window (labeled=False), one unseen cell is known to
    hold the labeled one.
    """
    m, laws = blobs.cells, []
    for s in range(len(blobs.count_law) + 1):
        total = torch.zeros(len(unseen), dtype=torch.float64)
        for k, p in enumerate(blobs.count_law, 1):
            for i, u in enumerate(unseen.tolist()):
                if labeled or u > 0:  # unlabeled objects: k - 1 among m - 1 cells
                    ways, drawn, places = u - (not labeled), k - 1 - s, math.comb(m - 1, k - 1)
                else:  # the window is the whole image and nothing is labeled: all k among m cells
                    ways, drawn, places = 0, k - s, math.comb(m, k)
                total[i] += p * (math.comb(ways, drawn) if drawn >= 0 else 0) / places
        laws.append(total.clamp_min(math.exp(-600)).log() + torch.where(total > 0, 0.0, NEVER))
    return laws


def denoiser(blobs: Blobs, labels: str = "all", radius: int | None = None, strategy: str = "any") -> Denoiser:
    """Exact denoiser of Exp. 1 (labels="all"), Exp. 2 (labels="one"), Exp. 3 (labels="one", radius in cells).

    cond is a grid of labels [batch cells] or [cells]. A model of one label has never seen two at once; the
    two strategies of section 2 agree on all of its training inputs and differ beyond them. "any": an object
    at ANY one of the labeled cells, averaged over labels. "every": an object at EVERY one. Only "every" is
    compositional; a local model whose window never holds two labels needs no strategy. Raises ValueError for
    unknown labels, strategy or radius.
    """
    if labels not in LABELS or strategy not in STRATEGIES:
        raise ValueError(
            f"labels must be one of {LABELS} and strategy of {STRATEGIES}, got {labels!r} and {strategy!r}"
        )
    if not isinstance(blobs, Blobs):
        raise TypeError(f"blobs must be Blobs, got {shown(blobs)}")
    if radius is not None and check_count("radius", radius, -1) < 0:
        raise ValueError(f"radius must be >= 0 cells, got {radius}")
    window, degree = _windows(blobs, radius), len(blobs.count_law) - 1
    unseen = blobs.cells - 1 - (window < blobs.cells).sum(1)
    without, given = _extras_log_law(blobs, unseen, False), _extras_log_law(blobs, unseen, True)

    def extras(log_l, own, law):
        """log weights of (this cell empty, it holds an unlabeled object), summed over the window's extras."""
        e = log_symmetric(log_l, degree + 1)
        empty = torch.stack([law[s] + e[s] for s in range(degree + 2)]).logsumexp(0)
        return empty, own + torch.stack([law[s + 1] + e[s] for s in range(degree + 1)]).logsumexp(0)

    def presence(log_l, grid):
        padded = torch.cat([log_l, torch.full_like(log_l[:, :1], NEVER)], 1)
        marked = torch.cat([grid, torch.zeros_like(grid[:, :1])], 1)
        near, labeled = padded[:, window], marked[:, window]  # [batch cells w]
        empty, extra = extras(near, log_l, without)
        unlabeled = (extra - empty).sigmoid()
        if strategy == "every":
            empty, extra = extras(near.masked_fill(labeled, NEVER), log_l, given)
            seen = torch.where(grid, 1.0, (extra - empty).sigmoid())
        else:
            certain = extras(near, log_l, given)[0] + log_l  # this cell is the labeled one
            full, void = [certain.masked_fill(~grid, NEVER)], [torch.full_like(log_l, NEVER)]
            for a in grid.any(0).nonzero().flatten():
                here = window == a
                on = here.any(1) & grid[:, a, None]
                empty, extra = extras(near.masked_fill(here, NEVER), log_l, given)
                void.append((empty + log_l[:, a, None]).masked_fill(~on, NEVER))
                full.append((extra + log_l[:, a, None]).masked_fill(~on, NEVER))
            seen = (torch.stack(full).logsumexp(0) - torch.stack(void).logsumexp(0)).sigmoid()
        return torch.where(labeled.any(-1) | grid, seen, unlabeled)

    def denoise(x_t, sigma, cond):
        check_tensor("x_t", x_t, (None, 3, blobs.resolution, blobs.resolution))
        grid = check_grids(blobs, cond, len(x_t))
        log_l, blob = blobs.evidence(x_t, sigma)
        p = grid.double() if labels == "all" else presence(log_l, grid)
        level = expand(sigma.double(), blob) ** 2
        hidden = (1 - p[..., None]) * blobs.means[0] + p[..., None] * blob
        cells = (blobs.noise**2 * blobs.to_cells(x_t.double()) + level * hidden) / (blobs.noise**2 + level)
        return blobs.to_image(cells).to(x_t.dtype)

    return denoise
