"""Everything is a denoiser: `denoise(x_t, sigma, cond) -> x0_hat`, the posterior mean D.

x_t = x0 + sigma * eps; `sigma` is a standard deviation in data units, always of shape [batch]; `cond` is
opaque here: where it is a tensor, the batch comes first. Exact toy distributions, the EDM2 net, the local
patch net and compositions of them are all this one callable, so there is one sampler, one locality analysis
and one length-generalization test for all.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Float, UInt8
from torch import Tensor

from lcs_utils.checks import (
    check_call,
    check_choice,
    check_count,
    check_generator,
    check_kind,
    check_list,
    check_number,
    check_tensor,
    is_tensor,
    shown,
)

Denoiser = Callable[[Tensor, Tensor, Any], Tensor]
NO_COND = None  # the empty set of conditions, for denoisers that have one

SIGMA_MIN, SIGMA_MAX, RHO = 0.002, 80.0, 7.0  # EDM2's sampling range (Karras et al. 2022, Table 1)
SIGMA_DATA = 0.5
P_MEAN, P_STD = -0.8, 1.6  # EDM2's ln-sigma distribution for pixel data
SOLVERS, SDE = ("heun", "dpmpp_2m"), "sde_dpmpp_2m"  # of the ODE; of the reverse SDE, as dpmpp_2m
# Choice: noise is replaced eight times as fast as in DPM-Solver++'s SDE, in 80 steps: a small net's errors on
# the way, which leave objects of two colors or of no shape, are forgotten then. Tried by looks at K = 1 to 3.
ETA, SDE_STEPS = 8.0, 80


def from_uint8(images: UInt8[Tensor, "..."] | UInt8[np.ndarray, "..."]) -> Float[Tensor, "..."]:
    """Bytes as data in [-1, 1], float32; `plotting.to_uint8` is the inverse. Raises TypeError for others."""
    if not (is_tensor(images) or isinstance(images, np.ndarray)) or images.dtype not in (
        torch.uint8,
        np.uint8,
    ):
        raise TypeError(f"images must be an array or tensor of bytes, got {shown(images)}")
    return torch.as_tensor(images).float() / 127.5 - 1


def expand(sigma: Float[Tensor, "batch"], like: Float[Tensor, "batch ..."]) -> Tensor:
    """`sigma` with trailing axes of size one, so that it broadcasts against `like`. Raises ValueError for
    another number of noise levels, TypeError for anything but tensors.
    """
    if not isinstance(sigma, Tensor) or not isinstance(like, Tensor) or not like.ndim:
        raise TypeError(
            f"sigma and images must be tensors [batch, ...], got {shown(sigma)} and {shown(like)}"
        )
    if sigma.ndim != 1 or sigma.shape[0] != like.shape[0]:
        raise ValueError(f"sigma must have shape [batch] = [{like.shape[0]}], got {list(sigma.shape)}")
    return sigma.reshape(-1, *[1] * (like.ndim - 1))


def check_positive(sigma: Tensor) -> None:
    """Raise ValueError unless all noise levels are > 0 and finite, TypeError unless they are a tensor."""
    check_tensor("sigma", sigma, None, False)
    if torch.compiler.is_compiling():
        return  # reading values would split the graph and wait for the GPU
    fits = (sigma > 0) & (sigma < torch.inf)
    if not bool(fits.all()):
        raise ValueError(f"sigma must be > 0, got {sigma[~fits][0].item():g}")


def add_noise(x0: Tensor, sigma: Float[Tensor, "batch"], generator: torch.Generator | None = None) -> Tensor:
    """x_t = x0 + sigma * eps, in the dtype of x0. Raises ValueError unless every sigma > 0 and finite."""
    check_tensor("x0", x0, None, False, "float")
    levels = expand(sigma, x0)
    check_positive(sigma)
    if generator is not None:
        check_generator(generator)
    eps = torch.randn(
        x0.shape, generator=generator, dtype=x0.dtype, device=generator.device if generator else x0.device
    )
    return (x0 + levels * eps.to(x0.device)).to(x0.dtype)  # float64 levels would make float64 images


def score(denoise: Denoiser, x_t: Tensor, sigma: Float[Tensor, "batch"], cond: Any = NO_COND) -> Tensor:
    """grad_x log p_t(x_t | cond) = (D(x_t) - x_t) / sigma^2 (Tweedie), in the shape and dtype of x_t. Raises
    ValueError unless every sigma > 0 and finite, and for a D that is not shaped like x_t.
    """
    check_call("denoise", denoise)
    check_tensor("x_t", x_t, None, False, "float")
    levels = expand(sigma, x_t)
    check_positive(sigma)
    x0_hat = check_tensor("what denoise returns", denoise(x_t, sigma, cond), x_t.shape, False, "float")
    return ((x0_hat - x_t) / levels**2).to(x_t.dtype)


def training_sigmas(
    batch: int, generator: torch.Generator, p_mean: float = P_MEAN, p_std: float = P_STD
) -> Float[Tensor, "batch"]:
    """Noise levels for one training step: ln sigma ~ N(p_mean, p_std^2), one per stratum (i + u) / batch.

    Choice: stratified quantiles. Batches far below EDM2's 2048 otherwise rarely see the high noise where
    composition is decided.
    Raises ValueError for p_mean outside [-20, 20] or p_std outside [0, 10], where float32 has no such levels.
    """
    check_count("batch", batch, 1)
    check_generator(generator)
    check_number("p_mean", p_mean, -20, 20)
    check_number("p_std", p_std, 0, 10)
    u = torch.rand(batch, generator=generator, device=generator.device)
    strata = torch.randperm(batch, generator=generator, device=generator.device)
    quantile = ((strata + u) / batch).clamp(1e-6, 1 - 1e-6)
    return (p_mean + p_std * torch.special.ndtri(quantile)).exp()


def uniform_sigmas(batch: int, generator: torch.Generator, low: float, high: float) -> Float[Tensor, "batch"]:
    """Noise levels for one training step of a low-noise net: ln sigma uniform from ln low to ln high, one per
    stratum. Raises ValueError unless 0 < low <= high.
    """
    check_count("batch", batch, 1)
    check_generator(generator)
    check_number("high", high, 0, above=True)
    check_number("low", low, 0, high, above=True)
    strata = torch.randperm(batch, generator=generator, device=generator.device)
    u = (strata + torch.rand(batch, generator=generator, device=generator.device)) / batch
    return (math.log(low) + u * math.log(high / low)).exp()


def loss_weight(sigma: Tensor, sigma_data: float = SIGMA_DATA) -> Tensor:
    """EDM's lambda(sigma) = (sigma^2 + sigma_data^2) / (sigma * sigma_data)^2, which weights F's error
    equally at every noise level. Raises ValueError unless sigma, sigma_data > 0.
    """
    check_number("sigma_data", sigma_data, 0, above=True)
    check_positive(sigma)
    return (sigma**2 + sigma_data**2) / (sigma * sigma_data) ** 2


def karras_sigmas(
    steps: int, sigma_min: float = SIGMA_MIN, sigma_max: float = SIGMA_MAX, rho: float = RHO
) -> Float[Tensor, "{steps}+1"]:
    """`steps` noise levels from sigma_max down to sigma_min, evenly spaced in sigma^(1/rho), then 0
    (float64). Raises ValueError unless steps >= 1, 0 < sigma_min <= sigma_max and 1 <= rho <= 100.
    """
    check_count("steps", steps, 1)
    check_number("sigma_max", sigma_max, 0, above=True)
    check_number("sigma_min", sigma_min, 0, sigma_max, above=True)
    check_number("rho", rho, 1, 100)
    ramp = torch.linspace(0, 1, steps, dtype=torch.float64)
    sigmas = (sigma_max ** (1 / rho) + ramp * (sigma_min ** (1 / rho) - sigma_max ** (1 / rho))) ** rho
    return torch.cat([sigmas, sigmas.new_zeros(1)])


class Step(NamedTuple):
    """One step of `sample`: x_t is the state AFTER the step, at noise level `sigma`; x0_hat the latest D."""

    x_t: Tensor
    sigma: float
    x0_hat: Tensor


def check_schedule(sigmas: Tensor) -> list[float]:
    """The noise levels of a sampler as numbers. Raises ValueError unless they decrease strictly and end in 0,
    TypeError for anything but a tensor of numbers.
    """
    levels = check_tensor("sigmas", sigmas, ("levels",)).tolist()
    if len(levels) < 2 or levels[-1] != 0 or any(a <= b for a, b in zip(levels, levels[1:])):
        raise ValueError(f"sigmas must decrease strictly and end in 0, got {shown(levels)}")
    return levels


@torch.no_grad()
def sample(
    denoise: Denoiser,
    noise: Float[Tensor, "batch ..."],
    sigmas: Float[Tensor, "levels"],
    cond: Any = NO_COND,
    solver: str = "heun",
    generators: Sequence[torch.Generator] | None = None,
    eta: float = ETA,
) -> Iterator[Step]:
    """Solve the probability-flow ODE dx/dsigma = (x - D) / sigma from unit `noise` down `sigmas`, yielding
    each step; with solver SDE, the reverse SDE.

    The caller owns progress bars and early stops; the last step's x_t is the sample. `heun` is EDM's
    second-order solver, which EDM2 uses (2 evaluations per step, 1 in the last); `dpmpp_2m` is
    DPM-Solver++(2M), one evaluation per step. SDE is Karras et al. 2022, eq. 6, with beta = eta / sigma per
    sigma, from `generators`, one of each image; eta = 1 is SDE-DPM-Solver++(2M) (Lu et al. 2022), 0 the ODE.
    Raises ValueError for an unknown solver, noise levels that do not decrease to 0, a D that is not shaped
    like x_t, eta < 0, and SDE without a generator for each image.
    """
    check_call("denoise", denoise)
    check_tensor("noise", noise, None, False, "float")
    check_choice("solver", solver, (*SOLVERS, SDE))
    levels = check_schedule(sigmas)
    check_number("eta", eta, 0)
    generators = check_list("generators", [] if generators is None else generators)
    if len([check_generator(g) for g in generators]) != (len(noise) if solver == SDE else 0):
        wanted = f"one generator of each of {len(noise)} images" if solver == SDE else "no generators"
        raise ValueError(f"solver {solver} takes {wanted}, got {len(generators)}")

    def D(x, sigma):
        x0_hat = denoise(x, torch.full((len(x),), sigma, dtype=x.dtype, device=x.device), cond)
        return check_tensor("what denoise returns", x0_hat, x.shape, False, "float")

    x, previous = noise * levels[0], None
    for i, (sigma, following) in enumerate(zip(levels, levels[1:])):
        x0_hat = D(x, sigma)
        if following == 0:  # both solvers end with the exact jump to the posterior mean
            x = x0_hat
        elif solver == "heun":
            slope = (x - x0_hat) / sigma
            euler = x + (following - sigma) * slope
            x0_hat = D(euler, following)
            x = x + (following - sigma) * (slope + (euler - x0_hat) / following) / 2
        else:
            # dx/dh = D in h = -ln sigma after division by sigma: extrapolate D linearly to the step's middle
            middle = x0_hat
            if previous is not None:
                # logs in float32: others would change the last digits of stored samples
                ratio = torch.tensor(levels[i - 1] / sigma).log() / torch.tensor(sigma / following).log()
                middle = x0_hat + (x0_hat - previous) / (2 * float(ratio))
            # exp(-h), and of the noise exp(-eta h): what is forgotten is replaced by fresh noise
            kept, old = following / sigma, (following / sigma) ** eta if solver == SDE else 1
            x, previous = kept * old * x + (1 - kept * old) * middle, x0_hat
            if solver == SDE:
                fresh = [torch.empty_like(one).normal_(generator=g) for one, g in zip(x, generators)]
                x = x + following * math.sqrt(1 - old**2) * torch.stack(fresh)
        yield Step(x, following, x0_hat)


def final(steps: Iterator[Step]) -> Tensor:
    """The sample: x_t of the last step of `sample(...)`. Raises ValueError without a step, TypeError for
    anything but steps.
    """
    step = None
    for step in check_kind("steps", steps, Iterable, "the steps of `sample`"):
        pass
    if step is None:
        raise ValueError(f"there is no step in {shown(steps)}")
    return check_kind("a step", step, Step, "a Step").x_t
