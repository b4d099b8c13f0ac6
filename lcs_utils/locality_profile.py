"""Where a denoiser looks in one image over many noise levels, for Fig. 10: `locality` at each of them."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from lcs_utils.checks import check_call, check_list, check_number, check_tensor
from lcs_utils.diffusion import Denoiser
from lcs_utils.locality import CHUNK, Targets, batched, condition_influence, locality_window, pixel_influence


class Profile(NamedTuple):
    """One image over a grid of noise levels: input, denoised image, where it looks; `removed` are the k."""

    sigmas: tuple[float, ...]
    x_t: Float[Tensor, "sigmas channels height width"]
    x0_hat: Float[Tensor, "sigmas channels height width"]
    pixels: Float[Tensor, "sigmas targets height width"]
    windows: Int[Tensor, "sigmas targets"]
    conditions: Float[Tensor, "sigmas removed height width"]
    removed: tuple[Any, ...]


class Look(NamedTuple):
    """What Fig. 12 shows of a profile: the denoised image, where its middle looks, the 90% square."""

    x0_hat: Float[Tensor, "sigmas 3 height width"]
    pixels: Float[Tensor, "sigmas 1 height width"]
    windows: Int[Tensor, "sigmas 1"]


def profile(
    denoise: Denoiser,
    x0: Float[Tensor, "channels height width"],
    eps: Float[Tensor, "channels height width"],
    sigmas: Sequence[float],
    cond: Any,
    without: Mapping[Any, Any],
    targets: Targets,
    chunk: int = CHUNK,
) -> Profile:
    """Eqs. (9), (10) and the 90% square at x_t = x0 + sigma * eps for every sigma (Fig. 10); `without` may
    be empty.
    """
    check_call("denoise", denoise)
    check_tensor("x0", x0, ("channels", "height", "width"), False, "float")
    check_tensor("eps", eps, x0.shape, False, "float")
    sigmas = [check_number("sigma", sigma, 0, above=True) for sigma in check_list("sigmas", sigmas, 1)]
    rows = []
    for sigma in sigmas:
        x_t = x0 + sigma * eps
        with torch.no_grad():
            x0_hat = denoise(x_t[None], x_t.new_full((1,), float(sigma)), batched(cond))[0]
        pixels = pixel_influence(denoise, x_t, sigma, cond, targets, chunk)
        empty = x_t.new_zeros(0, *x_t.shape[1:])
        conditions = condition_influence(denoise, x_t, sigma, cond, without, chunk) if without else empty
        rows.append((x_t, x0_hat, pixels, locality_window(pixels, targets), conditions))
    x_t, x0_hat, pixels, windows, conditions = (torch.stack(column) for column in zip(*rows))
    return Profile(tuple(map(float, sigmas)), x_t, x0_hat, pixels, windows, conditions, tuple(without))
