"""Kullback-Leibler divergence between exact distributions: in closed form, or from samples with its error."""

import math
from typing import NamedTuple

import torch
from torch import Tensor

from lcs_utils.theory.checks import check_count, check_generator
from lcs_utils.theory.distributions import Distribution, Product, check_distribution


class Estimate(NamedTuple):
    """A number and its standard error, 0 for a closed form."""

    value: float
    error: float


def kl(
    p: Distribution, q: Distribution, samples: int = 20_000, generator: torch.Generator | None = None
) -> Estimate:
    """KL(p || q) in nats: closed form between Gaussians, a sum over equal blocks, else Monte Carlo.

    The Monte Carlo value has a standard error and may fall below 0. `samples` >= 2. Raises ValueError for
    different dimensions, for a Monte Carlo estimate without a generator, and where rounding leaves no number.
    """
    check_distribution("p", p)
    check_distribution("q", q)
    check_count("samples", samples, 2)
    if p.n != q.n:
        raise ValueError(f"p lives in R^{p.n} and q in R^{q.n}")
    if isinstance(p, Product) and isinstance(q, Product) and p.blocks == q.blocks:
        parts = [kl(a, b, samples, generator) for a, b in zip(p.factors, q.factors)]
        return Estimate(sum(e.value for e in parts), math.hypot(*(e.error for e in parts)))
    if p.is_gaussian and q.is_gaussian:
        exact = _number(gaussian_kl(p.mean, p.cov, q.mean, q.cov))
        return Estimate(max(0.0, exact), 0.0)  # rounding alone makes it negative
    if generator is None:
        raise ValueError("KL between mixtures is estimated from samples: pass a torch.Generator")
    check_generator(generator)
    x = p.sample(samples, generator)
    ratio = p.log_prob(x) - q.log_prob(x)
    return Estimate(_number(ratio.mean()), float(ratio.std() / samples**0.5))


def _number(divergence: Tensor) -> float:
    """A divergence as a number. Raises ValueError for NaN, which `max(0, NaN)` would call identical laws."""
    if bool(divergence.isnan()):
        raise ValueError("KL(p || q) must be a number, got nan: a covariance is too close to singular")
    return float(divergence)


def gaussian_kl(mean: Tensor, cov: Tensor, other_mean: Tensor, other_cov: Tensor) -> Tensor:
    """KL(N(mean, cov) || N(other_mean, other_cov)) in closed form, differentiable."""
    inverse, gap = torch.linalg.inv(other_cov), mean - other_mean
    volumes = torch.logdet(other_cov) - torch.logdet(cov)
    return (torch.trace(inverse @ cov) - len(mean) + gap @ inverse @ gap + volumes) / 2
