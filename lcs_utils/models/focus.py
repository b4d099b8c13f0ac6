"""A local net at a few cells only: eqs. (9) and (10) at a target pixel need one patch of 256 (App. E.3)."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from lcs_utils.checks import check_call, check_count, check_counts, check_list, check_tensor, shown
from lcs_utils.diffusion import Denoiser, expand
from lcs_utils.models.local_patch import (
    LocalPatchDenoiser,
    cell_size,
    check_square,
    extract_patches,
    patch_conditions,
)
from lcs_utils.models.precond import precondition


@dataclass(frozen=True)
class FocusedDenoiser:
    """`whole` evaluated in the cells (row * grid_size + column) of `cells`; all other pixels of
    x0_hat are 0.
    """

    whole: LocalPatchDenoiser
    cells: tuple[int, ...]

    def __call__(self, x_t, sigma, cond):
        check_square("x_t", x_t, self.whole.side)
        expand(sigma, x_t)  # only for its checks
        check_tensor("cond", cond, None, False)
        net, cells = self.whole, torch.tensor(self.cells, device=x_t.device)
        cond = cond.expand(len(x_t), -1) if cond.ndim == 1 else cond
        patches, valid = extract_patches(x_t, net.radius, net.grid_size, cells.expand(len(x_t), -1))
        conditions = patch_conditions(cond, net.radius, net.grid_size)[:, cells].flatten(0, 1)
        x0_hat = precondition(
            net.net,
            patches.flatten(0, 1),
            sigma.repeat_interleave(len(cells)),
            conditions,
            net.sigma_data,
            valid=valid.flatten(0, 1),
        )
        m = cell_size(x_t.shape[-1], net.grid_size)
        center = slice(net.radius * m, (net.radius + 1) * m)
        kept = x0_hat[:, :, center, center].unflatten(0, (len(x_t), -1))
        out = torch.zeros_like(x_t)
        for k, cell in enumerate(self.cells):
            row, column = divmod(cell, net.grid_size)
            out[:, :, row * m : (row + 1) * m, column * m : (column + 1) * m] = kept[:, k]
        return out


def focus(denoise: Denoiser, targets: Sequence[tuple[int, int]], resolution: int) -> Denoiser:
    """A denoiser equal to `denoise` in the cells of the target pixels (row, column); a local net is run only
    there. Raises ValueError for a target outside the image or no pair, TypeError if not of whole numbers.
    """
    check_call("denoise", denoise)
    check_count("resolution", resolution, 1)
    pairs = []
    for target in check_list("targets", targets, 1):
        pairs.append(check_counts("a target (row, column)", target, 0, resolution - 1))
        if len(pairs[-1]) != 2:
            raise ValueError(f"a target is (row, column), got {shown(target)}")
    if not isinstance(denoise, LocalPatchDenoiser):
        return denoise
    m = cell_size(resolution, denoise.grid_size)
    cells = {row // m * denoise.grid_size + column // m for row, column in pairs}
    return FocusedDenoiser(denoise, tuple(sorted(cells)))
