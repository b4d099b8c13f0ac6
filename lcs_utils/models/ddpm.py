"""DDPM nets from the hub as denoisers: eps predicted in a variance-preserving process becomes D(x_t, sigma)
(Fig. 12).
"""

from dataclasses import dataclass
from typing import Any

import torch
from diffusers import DDPMPipeline
from jaxtyping import Float
from torch import Tensor, nn

from lcs_utils.checks import check_call, check_tensor, shown
from lcs_utils.diffusion import expand

CIFAR10 = "google/ddpm-cifar10-32"  # Ho et al. 2020, 35.7 M parameters, unconditional, Apache-2.0
CIFAR10_REVISION = "267b167dc01f0e4e61923ea244e8b988f84deb80"


def noise_levels(scheduler: Any) -> Float[Tensor, "steps"]:
    """sigma(t) = sqrt((1 - abar_t) / abar_t) of a diffusers scheduler, for t = 0, 1, ...

    Raises TypeError if it has no alphas_cumprod, ValueError if its net does not predict eps.
    """
    if not hasattr(scheduler, "alphas_cumprod"):
        raise TypeError(f"scheduler must be one of diffusers' with alphas_cumprod, got {shown(scheduler)}")
    kind = scheduler.config.prediction_type
    if kind != "epsilon":
        raise ValueError(f"the net must predict epsilon, this one predicts {kind!r}")
    kept = scheduler.alphas_cumprod.double()
    return ((1 - kept) / kept).sqrt()


def steps_at(sigma: Float[Tensor, "batch"], sigmas: Float[Tensor, "steps"]) -> Float[Tensor, "batch"]:
    """The real step t whose noise level is sigma. Raises ValueError for noise outside the levels `sigmas`.

    Choice: between two steps t is interpolated linearly in ln sigma, as the nets take any real t.
    """
    check_tensor("sigma", sigma, ("batch",), False, "float")
    check_tensor("sigmas", sigmas, ("steps",), False, "float")
    known = sigmas.to(sigma.device)
    if not bool(((sigma >= 0.999 * known[0]) & (sigma <= 1.001 * known[-1])).all()):
        given = f"{float(sigma.min()):g}..{float(sigma.max()):g}"
        raise ValueError(
            f"this net knows sigma from {float(known[0]):.3g} to {float(known[-1]):.3g}, got {given}"
        )
    log_known, log_sigma = known.log(), sigma.double().log()
    below = torch.searchsorted(log_known, log_sigma.contiguous()).clamp(1, len(known) - 1) - 1
    return below + ((log_sigma - log_known[below]) / (log_known[below + 1] - log_known[below])).clamp(0, 1)


@dataclass(frozen=True, eq=False)
class DDPMDenoiser:
    """denoise(x_t, sigma, cond) of a net that predicts eps at x_t / sqrt(1 + sigma^2); `cond` is ignored.

    A DDPM's step t adds noise of sigma(t) = sqrt((1 - abar_t) / abar_t) to x0, once its rescaling by
    sqrt(abar_t) is undone; `sigmas` holds sigma(t) for t = 0, 1, ... Raises ValueError for noise levels
    outside its training.
    """

    net: nn.Module
    sigmas: Float[Tensor, "steps"]

    def __call__(self, x_t, sigma, cond=None):
        check_tensor("x_t", x_t, ("batch", "channels", "height", "width"), False, "float")
        check_tensor("sigma", sigma, (len(x_t),), False, "float")
        t = steps_at(sigma, self.sigmas)
        s = expand(sigma.to(x_t.dtype), x_t)
        eps = self.net(x_t / (1 + s**2).sqrt(), t.to(x_t.dtype))
        return x_t - s * (eps.sample if hasattr(eps, "sample") else eps)


def from_scheduler(net: nn.Module, scheduler: Any) -> DDPMDenoiser:
    """`net` with the noise levels of its diffusers scheduler. Raises ValueError unless it predicts eps."""
    check_call("net", net)
    return DDPMDenoiser(net, noise_levels(scheduler))


def load_ddpm(
    source: str = CIFAR10, revision: str | None = CIFAR10_REVISION, device: str = "cpu"
) -> DDPMDenoiser:
    """Load the DDPM `source` (a hub name at a pinned revision, or a folder written by
    `DDPMPipeline.save_pretrained`) as D.

    The default is 143 MB, kept in the hub's cache. Raises diffusers' OSError when it is neither cached nor
    reachable.
    """
    pipeline = DDPMPipeline.from_pretrained(source, revision=revision)
    return from_scheduler(pipeline.unet.to(device).eval().requires_grad_(False), pipeline.scheduler)
