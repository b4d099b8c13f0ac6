"""Exact distributions in float64: Gaussian mixtures and products of them over disjoint blocks of pixels.

Each is a denoiser in the sense of `lcs_utils.diffusion`, so the sampler and eqs. (9)-(10) run on it unchanged.
All methods take `sigma=None` (no noise) or `sigma` of shape [batch]: log_prob and score are then those of
p_t = p * N(0, sigma^2 I).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

LOG_2PI = math.log(2 * math.pi)
Sigma = Float[Tensor, "batch"] | None


def check_indices(idx: Sequence[int], n: int) -> list[int]:
    """`idx` as a list of distinct integers in [0, n). Raises ValueError naming those that are not."""
    idx = [int(i) for i in idx]
    outside = sorted({i for i in idx if not 0 <= i < n})
    if outside:
        raise ValueError(f"indices {outside} are outside [0, {n})")
    repeated = sorted({i for i in idx if idx.count(i) > 1}) if len(set(idx)) < len(idx) else []
    if repeated:
        raise ValueError(f"indices {repeated} are given more than once")
    return idx


@dataclass(frozen=True, eq=False)
class GaussianMixture:
    """sum_k weights[k] N(means[k], covs[k]) on R^n. Raises ValueError for a singular covariance, naming it."""

    weights: Float[Tensor, "k"]
    means: Float[Tensor, "k n"]
    covs: Float[Tensor, "k n n"]

    def __post_init__(self):
        for name in ("weights", "means", "covs"):
            object.__setattr__(self, name, torch.as_tensor(getattr(self, name), dtype=torch.float64))
        k, n = self.means.shape
        if self.weights.shape != (k,) or self.covs.shape != (k, n, n):
            given = [list(t.shape) for t in (self.weights, self.means, self.covs)]
            raise ValueError(f"need weights [k], means [k, n], covs [k, n, n], got {given}")
        if not bool((self.weights > 0).all()) or abs(float(self.weights.sum()) - 1) > 1e-6:
            raise ValueError(f"weights must be > 0 and sum to 1, got {self.weights.tolist()}")
        object.__setattr__(self, "weights", self.weights / self.weights.sum())  # float32 input sums to 1 +- 1e-7
        shifted = self.covs - 1e-12 * torch.eye(n, dtype=torch.float64)
        failed = torch.linalg.cholesky_ex(shifted).info if n else torch.zeros(k)
        symmetric = torch.isclose(self.covs, self.covs.mT, atol=1e-9).flatten(1).all(1)
        for i in ((failed > 0) | ~symmetric).nonzero().flatten().tolist():
            smallest = float(torch.linalg.eigvalsh(self.covs[i]).min())
            found = f"its smallest eigenvalue is {smallest:.3g}"
            raise ValueError(f"covariance {i} must be symmetric positive definite, {found}")

    @property
    def n(self) -> int:
        """Dimension of the space."""
        return self.means.shape[1]

    @property
    def is_gaussian(self) -> bool:
        """Whether there is one component, so that KL divergences have a closed form."""
        return len(self.weights) == 1

    @cached_property
    def _axes(self) -> tuple[Tensor, Tensor]:
        """Variances [k n] and directions [k n n] of the principal axes: in them noise only adds sigma^2."""
        return torch.linalg.eigh(self.covs)

    def _project(self, x: Tensor, sigma: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
        """x in principal axes [batch k n], its variances [batch k n] and log weights + log densities [batch k]."""
        variances, axes = self._axes
        y = torch.einsum("bkn,knm->bkm", x.double()[:, None] - self.means, axes)
        v = variances.expand(len(x), -1, -1) if sigma is None else variances + sigma.double()[:, None, None] ** 2
        return y, v, self.weights.log() - 0.5 * (y**2 / v + v.log() + LOG_2PI).sum(-1)

    def log_prob(self, x: Float[Tensor, "batch n"], sigma: Sigma = None) -> Float[Tensor, "batch"]:
        """log p_t(x)."""
        return self._project(x, sigma)[2].logsumexp(-1)

    def responsibilities(self, x: Float[Tensor, "batch n"], sigma: Sigma = None) -> Float[Tensor, "batch k"]:
        """P(component | x_t)."""
        return self._project(x, sigma)[2].softmax(-1)

    def score(self, x: Float[Tensor, "batch n"], sigma: Sigma = None) -> Float[Tensor, "batch n"]:
        """grad_x log p_t(x)."""
        y, v, logits = self._project(x, sigma)
        return -torch.einsum("bk,bkm,knm->bn", logits.softmax(-1), y / v, self._axes[1])

    def denoise(self, x_t: Float[Tensor, "batch ..."], sigma: Float[Tensor, "batch"], cond: Any = None) -> Tensor:
        """The posterior mean D(x_t, sigma); `cond` is ignored. Shape and dtype of x_t ([batch n] or images)."""
        y, v, logits = self._project(x_t.reshape(len(x_t), -1), sigma)
        variances, axes = self._axes
        each = self.means + torch.einsum("bkm,knm->bkn", y * variances / v, axes)
        return torch.einsum("bk,bkn->bn", logits.softmax(-1), each).reshape(x_t.shape).to(x_t.dtype)

    def sample(self, batch: int, generator: torch.Generator) -> Float[Tensor, "batch n"]:
        """`batch` independent draws."""
        which = torch.multinomial(self.weights, batch, replacement=True, generator=generator)
        eps = torch.randn(batch, self.n, generator=generator, dtype=torch.float64)
        variances, axes = self._axes
        return self.means[which] + torch.einsum("bm,bnm->bn", eps * variances[which].sqrt(), axes[which])

    def noised(self, sigma: float) -> "GaussianMixture":
        """p_t = p * N(0, sigma^2 I), sigma >= 0 a standard deviation."""
        return GaussianMixture(self.weights, self.means, self.covs + sigma**2 * torch.eye(self.n, dtype=torch.float64))

    def marginal(self, idx: Sequence[int]) -> "GaussianMixture":
        """The distribution of x[idx], coordinates in the order of idx."""
        idx = check_indices(idx, self.n)
        return GaussianMixture(self.weights, self.means[:, idx], self.covs[:, idx][:, :, idx])

    def pushforward(self, matrix: Float[Tensor, "m n"], shift: Float[Tensor, "m"] | float = 0.0) -> "GaussianMixture":
        """The distribution of matrix @ x + shift."""
        matrix = torch.as_tensor(matrix, dtype=torch.float64)
        covs = matrix @ self.covs @ matrix.T
        return GaussianMixture(self.weights, self.means @ matrix.T + shift, (covs + covs.mT) / 2)

    @property
    def mean(self) -> Float[Tensor, "n"]:
        """E[x]."""
        return self.weights @ self.means

    @property
    def cov(self) -> Float[Tensor, "n n"]:
        """Cov[x]."""
        centered = self.means - self.mean
        return torch.einsum("k,knm->nm", self.weights, self.covs + centered[:, :, None] * centered[:, None, :])


def gaussian(mean: Tensor | Sequence[float], cov: Tensor | Sequence[Sequence[float]]) -> GaussianMixture:
    """N(mean, cov): a mixture of one component, whose KL divergences are exact."""
    mean, cov = (torch.as_tensor(t, dtype=torch.float64) for t in (mean, cov))
    return GaussianMixture(torch.ones(1, dtype=torch.float64), mean[None], cov[None])


@dataclass(frozen=True, eq=False)
class Product:
    """prod_k factors[k](x[blocks[k]]), the blocks disjoint and together all of range(n).

    Raises ValueError naming the indices that two blocks share or none holds.
    """

    blocks: tuple[tuple[int, ...], ...]
    factors: tuple[Any, ...]

    def __post_init__(self):
        flat = sorted(i for block in self.blocks for i in block)
        shared = sorted({a for a, b in zip(flat, flat[1:]) if a == b})
        if shared:
            raise ValueError(f"blocks overlap: indices {shared} are in more than one")
        missing = sorted(set(range(len(flat))) - set(flat))
        if missing:
            raise ValueError(f"blocks must cover range({len(flat)}): indices {missing} are in none")
        sizes = [factor.n for factor in self.factors]
        if sizes != [len(block) for block in self.blocks]:
            raise ValueError(f"blocks have sizes {[len(b) for b in self.blocks]} but factors have dimensions {sizes}")

    @property
    def n(self) -> int:
        """Dimension of the space."""
        return sum(len(block) for block in self.blocks)

    @property
    def is_gaussian(self) -> bool:
        """Whether all factors are Gaussian, so that KL divergences have a closed form."""
        return all(factor.is_gaussian for factor in self.factors)

    def _joined(self, parts: list[Tensor]) -> Tensor:
        """The blocks' columns back in the order of the pixels."""
        order = torch.tensor([i for block in self.blocks for i in block])
        return torch.cat(parts, -1)[..., order.argsort()]

    def log_prob(self, x: Float[Tensor, "batch n"], sigma: Sigma = None) -> Float[Tensor, "batch"]:
        """log p_t(x): isotropic noise keeps the blocks independent."""
        return sum(f.log_prob(x[:, list(b)], sigma) for b, f in zip(self.blocks, self.factors))

    def score(self, x: Float[Tensor, "batch n"], sigma: Sigma = None) -> Float[Tensor, "batch n"]:
        """grad_x log p_t(x)."""
        return self._joined([f.score(x[:, list(b)], sigma) for b, f in zip(self.blocks, self.factors)])

    def denoise(self, x_t: Float[Tensor, "batch ..."], sigma: Float[Tensor, "batch"], cond: Any = None) -> Tensor:
        """The posterior mean D(x_t, sigma); `cond` is ignored. Shape and dtype of x_t ([batch n] or images)."""
        x = x_t.reshape(len(x_t), -1)
        parts = [f.denoise(x[:, list(b)], sigma) for b, f in zip(self.blocks, self.factors)]
        return self._joined(parts).reshape(x_t.shape)

    def sample(self, batch: int, generator: torch.Generator) -> Float[Tensor, "batch n"]:
        """`batch` independent draws."""
        return self._joined([f.sample(batch, generator) for f in self.factors])

    def noised(self, sigma: float) -> "Product":
        """p_t = p * N(0, sigma^2 I), sigma >= 0 a standard deviation."""
        return Product(self.blocks, tuple(f.noised(sigma) for f in self.factors))

    def marginal(self, idx: Sequence[int]) -> "Product":
        """The distribution of x[idx], coordinates in the order of idx."""
        position = {i: p for p, i in enumerate(check_indices(idx, self.n))}
        kept = [([p for p, i in enumerate(b) if i in position], b, f) for b, f in zip(self.blocks, self.factors)]
        blocks = tuple(tuple(position[b[p]] for p in local) for local, b, _ in kept if local)
        factors = tuple(f if len(local) == len(b) else f.marginal(local) for local, b, f in kept if local)
        return Product(blocks, factors)

    def joint(self) -> GaussianMixture:
        """The same distribution as one mixture on R^n: its components are all combinations of the factors'."""
        weights, means, covs = torch.ones(1), torch.zeros(1, 0), torch.zeros(1, 0, 0)
        for factor in self.factors:
            a, b = len(weights), len(factor.weights)
            weights = torch.outer(weights.double(), factor.weights).flatten()
            means = torch.cat([means.double().repeat_interleave(b, 0), factor.means.repeat(a, 1)], -1)
            pairs = zip(covs.double().repeat_interleave(b, 0), factor.covs.repeat(a, 1, 1))
            covs = torch.stack([torch.block_diag(*pair) for pair in pairs])
        order = torch.tensor([i for block in self.blocks for i in block]).argsort()
        return GaussianMixture(weights, means[:, order], covs[:, order][:, :, order])

    @property
    def mean(self) -> Float[Tensor, "n"]:
        """E[x]."""
        return self._joined([f.mean for f in self.factors])

    @property
    def cov(self) -> Float[Tensor, "n n"]:
        """Cov[x], zero between blocks."""
        cov = torch.zeros(self.n, self.n, dtype=torch.float64)
        for block, factor in zip(self.blocks, self.factors):
            cov[torch.tensor(block)[:, None], torch.tensor(block)] = factor.cov
        return cov


Distribution = GaussianMixture | Product


class Estimate(NamedTuple):
    """A number and its standard error, 0 for a closed form."""

    value: float
    error: float


def kl(p: Distribution, q: Distribution, samples: int = 20_000, generator: torch.Generator | None = None) -> Estimate:
    """KL(p || q) >= 0 in nats: closed form between Gaussians, a sum over equal blocks, else Monte Carlo with its error.

    Raises ValueError for different dimensions, and for a Monte Carlo estimate without a generator.
    """
    if p.n != q.n:
        raise ValueError(f"p lives in R^{p.n} and q in R^{q.n}")
    if isinstance(p, Product) and isinstance(q, Product) and p.blocks == q.blocks:
        parts = [kl(a, b, samples, generator) for a, b in zip(p.factors, q.factors)]
        return Estimate(sum(e.value for e in parts), math.hypot(*(e.error for e in parts)))
    if p.is_gaussian and q.is_gaussian:
        inverse = torch.linalg.inv(q.cov)
        gap = p.mean - q.mean
        logdet = torch.logdet(q.cov) - torch.logdet(p.cov)
        return Estimate(float((torch.trace(inverse @ p.cov) - p.n + gap @ inverse @ gap + logdet) / 2), 0.0)
    if generator is None:
        raise ValueError("KL between mixtures is estimated from samples: pass a torch.Generator")
    x = p.sample(samples, generator)
    ratio = p.log_prob(x) - q.log_prob(x)
    return Estimate(float(ratio.mean()), float(ratio.std() / samples**0.5))


def grid_kl(p_log: Float[Tensor, "points"], q_log: Float[Tensor, "points"], cell: float) -> float:
    """KL(p || q) by the trapezoidal rule from log densities on an equidistant grid with cells of volume `cell`.

    For smooth densities that vanish at the border the rule converges faster than any power, so this is exact to
    rounding in one or two dimensions.
    """
    p = p_log.exp()
    return float((p * (p_log - q_log)).sum() * cell)
