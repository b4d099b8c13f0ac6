"""Denoisers built from others: conditions rescaled, made local, composed from single objects; another net for
low noise.

Each takes denoisers and returns a denoiser, without training.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor

from lcs_utils.diffusion import Denoiser
from lcs_utils.experiments import RADIUS

CHUNK = 256  # images per forward pass
LOW = 0.3  # Choice: the low-noise net errs less on held-out renders at .2, more at .4

# conditions [batch, cells] -> what each cell may see of them, bool [batch, cells, cells]
View = Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class UnitCondition:
    """Divide the condition by sqrt(its number of labels), which gives its embedding the size of a single
    label's (App. E.1).

    A multi-hot condition of k labels has an embedding sqrt(k) times as large as any that Exp. 2 was trained
    with.
    """

    denoise: Denoiser

    def __call__(self, x_t, sigma, cond):
        return self.denoise(x_t, sigma, cond / cond.sum(-1, keepdim=True).clamp(min=1).sqrt())


def _cells(grid_size: int) -> Float[Tensor, "cells 2"]:
    index = torch.arange(grid_size**2)
    return torch.stack([index // grid_size, index % grid_size], 1).float()


def window(cond: Float[Tensor, "batch cells"], radius: int = RADIUS) -> Bool[Tensor, "batch cells cells"]:
    """Each cell sees the (2r+1)^2 cells around it, as in Exp. 3 (App. E.3)."""
    cells = _cells(round(cond.shape[1] ** 0.5))
    near = (cells[:, None] - cells[None]).abs().amax(-1) <= radius
    return near.to(cond.device).expand(len(cond), -1, -1)


def nearest(cond: Float[Tensor, "batch cells"]) -> Bool[Tensor, "batch cells cells"]:
    """Each cell sees only the conditioned cell nearest to it: one label, as in Exp. 2's training (App. E.1).

    Choice: of equally near cells the first in row-major order.
    """
    cells = _cells(round(cond.shape[1] ** 0.5)).to(cond.device)
    distance = torch.cdist(cells, cells)[None].masked_fill(cond[:, None] <= 0, torch.inf)
    return F.one_hot(distance.argmin(-1), cond.shape[1]).bool()


def swapped(cond: Float[Tensor, "batch cells"]) -> Bool[Tensor, "batch cells cells"]:
    """Each cell sees one conditioned cell, but the next one in row-major order after its nearest: the control
    of `nearest`, as many labels for the same cells and none of them near.
    """
    following = []
    for one in cond > 0:
        order = one.nonzero().flatten()
        to = torch.zeros(len(one), dtype=torch.long, device=cond.device)
        to[order] = order.roll(-1)
        following.append(to)
    return F.one_hot(torch.stack(following).gather(1, nearest(cond).int().argmax(-1)), cond.shape[1]).bool()


@dataclass(frozen=True)
class LocalCondition:
    """Each cell denoised by the whole-image net given only the conditions that `view` lets it see: L_i of
    Def. 1, eq. (1).

    For every image one forward pass per distinct local condition; of each, only the pixels of its cells are
    kept. Raises ValueError when the image's side is no multiple of the grid's.
    """

    denoise: Denoiser
    view: View = window
    chunk: int = CHUNK

    def __call__(self, x_t, sigma, cond):
        cond = cond.expand(len(x_t), -1) if cond.ndim == 1 else cond
        side = round(cond.shape[1] ** 0.5)
        if x_t.shape[-1] % side or x_t.shape[-2] != x_t.shape[-1]:
            raise ValueError(f"grid_size {side} does not divide the image's sides {list(x_t.shape[-2:])}")
        local, image, owner = [], [], []
        for i, seen in enumerate(self.view(cond)):
            distinct, which = torch.unique(seen * cond[i], dim=0, return_inverse=True)
            owner.append(which + sum(map(len, local)))
            local.append(distinct)
            image.append(torch.full((len(distinct),), i, device=x_t.device))
        local, image = torch.cat(local), torch.cat(image)
        parts = zip(image.split(self.chunk), local.split(self.chunk), strict=True)
        x0_hat = torch.cat([self.denoise(x_t[i], sigma[i], c) for i, c in parts])
        m = x_t.shape[-1] // side
        pass_of_pixel = (
            torch.stack(owner).reshape(-1, side, side).repeat_interleave(m, 1).repeat_interleave(m, 2)
        )
        y, x = torch.meshgrid(*[torch.arange(side * m, device=x_t.device)] * 2, indexing="ij")
        return x0_hat[pass_of_pixel, :, y, x].movedim(-1, 1)


@dataclass(frozen=True)
class LinearComposition:
    """s_b + sum over the conditioned cells j of (s_j - s_b), single-object scores on a background (Bradley et
    al. 2025).

    The same sum holds for D, since s = (D - x) / sigma^2. Exact if the background, too, is independent
    between the blocks, which Lemma 1 does not need.
    `background` gives s_b; without it, `denoise` with the empty condition does. A count of n in a cell adds n
    terms.
    """

    denoise: Denoiser
    background: Denoiser | None = None
    chunk: int = CHUNK

    def __call__(self, x_t, sigma, cond):
        cond = cond.expand(len(x_t), -1) if cond.ndim == 1 else cond
        base = (self.background or self.denoise)(x_t, sigma, torch.zeros_like(cond))
        image, cell = cond.nonzero(as_tuple=True)
        if not len(image):  # the empty condition: the background alone
            return base
        total = base.clone()
        for i, j in zip(image.split(self.chunk), cell.split(self.chunk), strict=True):
            single = F.one_hot(j, cond.shape[1]).to(cond.dtype)
            weight = cond[i, j].reshape(-1, 1, 1, 1)
            total.index_add_(0, i, weight * (self.denoise(x_t[i], sigma[i], single) - base[i]))
        return total


@dataclass(frozen=True)
class SplitByNoise:
    """`denoise` at noise levels from `below` on, and the unconditional net `low` under it (experts by noise
    level, Balaji et al. 2022).

    Choice: below it a net of our size leaves grain, while what an image shows, and where, is decided above.
    """

    denoise: Denoiser
    low: Denoiser
    below: float = LOW

    def __call__(self, x_t, sigma, cond):
        under = sigma < self.below
        if not under.any():
            return self.denoise(x_t, sigma, cond)
        nothing = x_t.new_zeros(int(under.sum()), 1)
        if under.all():
            return self.low(x_t, sigma, nothing)
        cond = cond.expand(len(x_t), -1) if cond.ndim == 1 else cond
        x0_hat = torch.empty_like(x_t)
        x0_hat[under] = self.low(x_t[under], sigma[under], nothing)
        x0_hat[~under] = self.denoise(x_t[~under], sigma[~under], cond[~under])
        return x0_hat
