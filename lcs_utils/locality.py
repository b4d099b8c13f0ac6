"""Where a denoiser looks: in pixels, eq. (9), in conditions, eq. (10), and how near both are (App. F, Figs.
2, 10, 12).

D is differentiated, not the score: the Jacobian of a score (D - x_t) / sigma^2 has -1 / sigma^2 on its
diagonal, which at high noise outweighs all else: every score would look perfectly local.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from lcs_utils.checks import check_count, check_counts, check_kind, check_number, check_tensor
from lcs_utils.diffusion import Denoiser
from lcs_utils.locality_checks import Targets, check_answer, check_maps, check_point, check_targets

CHUNK = 16  # target pixels, or removed conditions, in one pass: bounds the memory whatever their number


def batched(cond: Any) -> Any:
    """A condition as a denoiser gets it for one image: a vector as a batch of one, anything else as it is."""
    return cond[None] if torch.is_tensor(cond) and cond.ndim == 1 else cond


def pixel_influence(
    denoise: Denoiser,
    x_t: Float[Tensor, "channels height width"],
    sigma: float,
    cond: Any,
    targets: Targets,
    chunk: int = CHUNK,
) -> Float[Tensor, "targets height width"]:
    """eq. (9): G(u, v) = mean over channel pairs of |d D_c(x_t)[u] / d x_c'[v]| for every target pixel u.

    One forward pass serves all targets; their vector-Jacobian products run `chunk` targets at a time.
    Raises ValueError for a target outside the image and for a denoiser whose output is not finite, not shaped
    like x_t or does not depend differentiably on it; TypeError for values of other kinds.
    """
    check_point(denoise, x_t, sigma)
    check_count("chunk", chunk, 1)
    channels, height, width = x_t.shape
    pixels = check_targets(targets, height, width).to(x_t.device)
    with torch.enable_grad():
        x = x_t.detach()[None].clone().requires_grad_()
        x0_hat = check_answer(denoise(x, x.new_full((1,), float(sigma)), batched(cond)), x)
    maps = []
    for rows, columns in (part.unbind(1) for part in pixels.split(chunk)):
        index = torch.arange(len(rows), device=x.device)
        # [target channel 1 c h w], one 1 in each
        seeds = x0_hat.new_zeros(len(rows), channels, *x0_hat.shape)
        for c in range(channels):
            seeds[index, c, 0, c, rows, columns] = 1
        jacobian = _pull_back(x0_hat, x, seeds.flatten(0, 1))
        maps.append(jacobian.abs().unflatten(0, (-1, channels))[:, :, 0].mean((1, 2)))
    return torch.cat(maps)


def _pull_back(output: Tensor, x: Tensor, seeds: Tensor) -> Tensor:
    """seeds^T (d output / d x) for all seeds at once. Raises ValueError when there is no path from x to the
    output.
    """
    pulled = None

    def pull(seed, batched):
        return torch.autograd.grad(
            output, x, seed, retain_graph=True, is_grads_batched=batched, allow_unused=True
        )[0]

    if output.requires_grad:
        try:
            pulled = pull(seeds, True)
        except RuntimeError as error:
            if "vmap" not in str(error):
                raise
            # torch 2.13's group normalization supports no vmap
            pulled = torch.stack([pull(seed, False) for seed in seeds])
    if pulled is None:
        raise ValueError(
            "the denoiser detaches its input or runs without gradients; eq. (9) differentiates it"
        )
    return pulled


def without_each(
    cond: Float[Tensor, "n"], removed: Sequence[int] | None = None
) -> dict[int, Float[Tensor, "n"]]:
    """{k: cond without c_k} for counts `cond`, for all active k or those of `removed`. Raises ValueError if
    one is not active.
    """
    check_tensor("cond", cond, ("n",), False)
    active = cond.nonzero().flatten().tolist()
    removed = active if removed is None else check_counts("removed", removed, None)
    absent = [k for k in removed if k not in active]
    if absent:
        raise ValueError(f"conditions {absent} are not active and cannot be removed; active are {active}")
    out = {}
    for k in removed:
        out[k] = cond.clone()
        out[k][k] = 0
    return out


def condition_influence(
    denoise: Denoiser,
    x_t: Float[Tensor, "channels height width"],
    sigma: float,
    cond: Any,
    without: Mapping[Any, Any],
    chunk: int = CHUNK,
) -> Float[Tensor, "removed height width"]:
    """eq. (10): I_k(u) = || D(x_t; C)[u] - D(x_t; C without c_k)[u] || over channels, for all pixels u at
    once.

    `without` holds C without c_k for each k, in the order of the result. Conditions that are tensors share
    one batched forward pass of at most `chunk` + 1 images, others are run one by one. Raises ValueError for
    a k that is not active and for a denoiser whose output is not finite or not shaped like x_t.
    """
    check_point(denoise, x_t, sigma)
    check_count("chunk", chunk, 1)
    check_kind("without", without, Mapping, "a mapping from conditions to what is left without them")
    tensors = torch.is_tensor(cond)
    for c in without.values() if tensors else ():
        check_tensor("a condition of without", c, cond.shape, False)
    idle = [k for k, c in without.items() if (torch.equal(c, cond) if tensors else c == cond)]
    if idle or not without:
        found = f"conditions {idle} are not active" if idle else "no condition was given"
        raise ValueError(f"{found}: removing them changes nothing")
    removed = list(without.values())
    maps = []
    with torch.no_grad():

        def run(conds, c):
            x = x_t.expand(len(conds), *x_t.shape)
            return check_answer(denoise(x, x_t.new_full((len(conds),), float(sigma)), c), x)

        for start in range(0, len(removed), chunk):
            conds = [cond] * (start == 0) + removed[start : start + chunk]
            x0_hat = run(conds, torch.stack(conds)) if tensors else torch.cat([run([c], c) for c in conds])
            if start == 0:
                full, x0_hat = x0_hat[:1], x0_hat[1:]
            maps.append((x0_hat - full).square().sum(1).sqrt())
    return torch.cat(maps)


def locality_window(
    influence: Float[Tensor, "targets height width"], targets: Targets, share: float = 0.9, power: float = 2.0
) -> Int[Tensor, "targets"]:
    """Side in pixels (odd) of the smallest square centered on each target that holds `share` of its energy
    (App. F).

    Choice: "energy" is the sum of squares, the word's usual sense; `power` 1 sums absolute values, in which
    faint wide tails weigh far more.
    Choice: a square may reach over the border, where there is nothing, so a side can exceed the image's.
    Choice: exactly `share`, up to rounding, is enough; no influence at all has side 0.
    Raises ValueError unless 0 < share <= 1 and power > 0, for targets outside the image, for influence that
    is not finite and >= 0.
    """
    check_maps(influence, "targets")
    check_number("share", share, 0, 1, above=True)
    check_number("power", power, 0, 100, above=True)
    pixels = check_targets(targets, *influence.shape[1:]).to(influence.device)
    if len(pixels) != len(influence):
        raise ValueError(f"need one map per target, got {len(influence)} maps, {len(pixels)} targets")
    held = within_squares(influence.double() ** power, pixels).cumsum(1)
    enough = held >= share * held[:, -1:] * (1 - 1e-9)
    return torch.where(held[:, -1] > 0, 2 * enough.long().argmax(1) + 1, 0)


def within_squares(influence: Tensor, pixels: Tensor) -> Float[Tensor, "targets distances"]:
    """Influence summed over the pixels at each Chebyshev distance 0, 1, ... from the target."""
    _, height, width = influence.shape
    rows, columns = torch.arange(height, device=pixels.device), torch.arange(width, device=pixels.device)
    far = torch.maximum((rows - pixels[:, :1]).abs()[:, :, None], (columns - pixels[:, 1:]).abs()[:, None, :])
    rings = influence.new_zeros(len(influence), max(height, width))
    return rings.scatter_add_(1, far.flatten(1), influence.flatten(1))


def conditional_locality(
    influence: Float[Tensor, "removed height width"],
    cells: Sequence[int],
    grid_size: int,
    reach: int,
    around: int = 2,
) -> float:
    """Share of the condition influence that comes from conditions within `reach` cells, in [0, 1] (Fig. 2).

    influence[k] is eq. (10) for the condition in cell cells[k] (row * grid_size + column). Only pixels within
    `around` cells of any of them count, where objects are drawn, each weighted by its response. Distances are
    the larger of rows and columns. NaN if nothing responds. Raises ValueError if grid_size does not divide
    the image, for cells outside the grid, and for influence that is not finite and >= 0.
    """
    check_maps(influence, "removed")
    check_count("grid_size", grid_size, 1)
    cells = check_counts("cells", cells, 0, grid_size**2 - 1, least=1)
    check_count("reach", reach)
    check_count("around", around)
    height, width = influence.shape[1:]
    if height % grid_size or width % grid_size or len(cells) != len(influence):
        given = f"{height} x {width}, {grid_size}, {len(cells)} cells and {len(influence)} maps"
        raise ValueError(f"grid_size must divide the image and each map needs its cell, got {given}")
    at = torch.as_tensor(cells, device=influence.device)
    rows = torch.arange(height, device=at.device) // (height // grid_size)
    columns = torch.arange(width, device=at.device) // (width // grid_size)
    far = torch.maximum(
        (rows - (at // grid_size)[:, None]).abs()[:, :, None],
        (columns - (at % grid_size)[:, None]).abs()[:, None, :],
    )
    counted = influence.double() * (far.amin(0) <= around)
    return float((counted * (far <= reach)).sum() / counted.sum())
