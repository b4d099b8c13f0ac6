"""The closed-form local conditional denoiser: a training-free Exp. 3 from a finite set of images.

Def. 1's score for the empirical distribution of training patches: the posterior mean of the central cell
over all training patches at the same place, weighted by how well their pixels explain the noisy patch and
by how well their conditions agree (Kamb & Ganguli's and Niedoba et al.'s local scores, made conditional;
App. E.3's patches).
"""

import math

import torch
from einops import rearrange
from jaxtyping import Float
from torch import Tensor

from lcs_utils.diffusion import Denoiser
from lcs_utils.theory.checks import (
    check_count,
    check_grid,
    check_levels,
    check_number,
    check_tensor,
    shown,
)

# smaller sigmas are raised to this: 1 / sigma^2 must fit float32, and no two float32 patches are closer
QUIETEST = 1e-12
CHUNK_ELEMENTS = 2**24  # distances held at once: 64 MiB, whatever the number of training images


def box_sum(maps: Float[Tensor, "rows columns *rest"], radius: int) -> Float[Tensor, "rows columns *rest"]:
    """Sums over (2 radius + 1)^2 neighborhoods of the first two axes, clipped at the border; radius >= 0."""
    if not isinstance(maps, Tensor):
        raise TypeError(f"maps must be a tensor, got {shown(maps)}")
    if maps.ndim < 2:
        raise ValueError(f"maps must have shape [rows, columns, ...], got {list(maps.shape)}")
    check_count("radius", radius)
    for axis in (0, 1):
        out, size = maps.clone(), maps.shape[axis]
        for shift in range(1, min(radius, size - 1) + 1):
            out.narrow(axis, 0, size - shift).add_(maps.narrow(axis, shift, size - shift))
            out.narrow(axis, shift, size - shift).add_(maps.narrow(axis, 0, size - shift))
        maps = out
    return maps


def patch_denoiser(
    images: Float[Tensor, "n 3 h w"],
    grids: Float[Tensor, "n cells"],
    radius: int,
    flip: float = 1e-6,
    chunk_elements: int = CHUNK_ELEMENTS,
) -> Denoiser:
    """D(x_t)[cell] = sum_y w(y) y[cell], y over the training patches of `radius` cells around that cell.

    w(y) ~ exp(-||x_t - y||^2 / (2 sigma^2)) (flip / (1 - flip))^(sum of |count - count of y|), both over
    the patch, so it is eq. (1)'s denoiser for the training set with N and L the patch. `images` in [-1, 1];
    cond and `grids` hold counts [batch cells]: a 2 where y has 0 counts as two wrong labels. sigma > 0.
    Log-sum-exp over all patches, streamed in bounded memory, in float32.
    Choice: a label disagrees with probability `flip`, so a combination of conditions that no training patch
    shows falls back to the nearest ones. Raises ValueError naming both numbers when shapes do not fit.
    """
    check_tensor("images", images, (None, 3, None, None))
    check_tensor("grids", grids, (None, None))
    check_number("flip", flip)
    check_count("radius", radius)
    check_count("chunk_elements", chunk_elements, 1)
    n, side = len(images), math.isqrt(grids.shape[1])
    if len(grids) != n or n == 0 or side == 0 or side**2 != grids.shape[1]:
        raise ValueError(f"need one square grid for each image, got {n} images and grids {list(grids.shape)}")
    if images.shape[-1] % side or images.shape[-2] != images.shape[-1]:
        raise ValueError(
            f"grid_size {side} does not divide resolution {images.shape[-2]} x {images.shape[-1]}"
        )
    if not 0 < flip < 0.5:
        raise ValueError(f"need 0 < flip < 0.5, got {flip}")
    cell, mismatch = images.shape[-1] // side, math.log((1 - flip) / flip)

    def to_cells(x):
        return rearrange(x, "b c (i p) (j q) -> i j b (c p q)", p=cell, q=cell).contiguous()

    train, train_grids = to_cells(images.float()), rearrange(grids.float(), "n (i j) -> i j n", i=side)

    @torch.no_grad()
    def denoise(x_t, sigma, cond):
        check_tensor("x_t", x_t, (None, *images.shape[1:]))
        check_levels(sigma, batch := len(x_t), above=True)
        cond = check_grid(cond, side**2, batch)
        x = to_cells(x_t.float())
        near = rearrange(cond.float(), "b (i j) -> i j b", i=side)[..., None]
        scale = (0.5 / sigma.double().clamp(min=QUIETEST) ** 2).float()[:, None]
        top = torch.full((side, side, batch, 1), -torch.inf, device=x.device)
        total, mean = torch.zeros_like(top), torch.zeros_like(x)
        step = max(1, chunk_elements // (side**2 * batch))
        for start in range(0, n, step):
            y, c = train[:, :, start : start + step], train_grids[:, :, start : start + step]
            far = torch.cdist(
                x, y, compute_mode="donot_use_mm_for_euclid_dist"
            ).square_()  # exact also when close
            far.mul_(scale).add_((near - c[:, :, None]).abs_(), alpha=mismatch)
            logits = box_sum(far, radius).neg_()
            peak = torch.maximum(top, logits.amax(-1, keepdim=True))
            keep, weights = (top - peak).exp_(), (logits - peak).exp_()
            total = total * keep + weights.sum(-1, keepdim=True)
            mean = mean * keep + weights @ y
            top = peak
        out = rearrange(mean / total, "i j b (c p q) -> b c (i p) (j q)", p=cell, q=cell)
        return out.to(x_t.dtype)

    return denoise


def patch_denoiser_reference(
    images: Float[Tensor, "n 3 h w"], grids: Float[Tensor, "n cells"], radius: int, flip: float = 1e-6
) -> Denoiser:
    """The slow twin of `patch_denoiser`: one patch at a time, cut out and compared, in float64."""
    n, side = len(images), math.isqrt(grids.shape[1])
    cell, mismatch = images.shape[-1] // side, math.log((1 - flip) / flip)

    def denoise(x_t, sigma, cond):
        out, cond = torch.zeros_like(x_t), torch.as_tensor(cond).expand(len(x_t), -1).reshape(-1, side, side)
        for b in range(len(x_t)):
            for i in range(side):
                for j in range(side):
                    at = slice(max(0, i - radius), i + radius + 1), slice(max(0, j - radius), j + radius + 1)
                    cut = tuple(slice(s.start * cell, s.stop * cell) for s in at)
                    logits = []
                    for k in range(n):
                        far = (x_t[b][:, *cut].double() - images[k][:, *cut].double()).square().sum()
                        differing = (
                            (cond[b][at].double() - grids[k].reshape(side, side)[at].double()).abs().sum()
                        )
                        logits.append(
                            -far / (2 * sigma[b].double().clamp(min=QUIETEST) ** 2) - mismatch * differing
                        )
                    weights = torch.stack(logits).softmax(0).to(x_t.dtype)
                    center = slice(i * cell, (i + 1) * cell), slice(j * cell, (j + 1) * cell)
                    out[b][:, *center] = torch.einsum(
                        "k,kcpq->cpq", weights, images[:, :, *center].to(x_t.dtype)
                    )
        return out

    return denoise
