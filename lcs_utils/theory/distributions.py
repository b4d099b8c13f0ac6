"""Exact distributions in float64: Gaussian mixtures and products of them over disjoint blocks of pixels.

Each is a denoiser in the sense of `lcs_utils.diffusion`, so the sampler and eqs. (9)-(10) run on it
unchanged. log_prob and score take `sigma=None` (no noise) or `sigma` >= 0 of shape [batch], and are then
those of p_t = p * N(0, sigma^2 I). Entries are finite and at most 1e100 in size, noise levels at most
1e40. Other values raise ValueError, anything but tensors of real numbers TypeError.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from lcs_utils.theory.checks import (
    as_real,
    check_count,
    check_flat,
    check_generator,
    check_indices,
    check_list,
    check_number,
    check_points,
    check_sigma,
    check_tensor,
    shown,
)

LOG_2PI = math.log(2 * math.pi)
Sigma = Float[Tensor, "batch"] | None


@dataclass(frozen=True, eq=False)
class GaussianMixture:
    """sum_k weights[k] N(means[k], covs[k]) on R^n, at least one component, weights > 0 with sum 1.

    Raises ValueError naming a covariance whose smallest eigenvalue is not above 1e-12, or not above 1e-14 of
    its largest: rounding then decides about volumes and inverses.
    """

    weights: Float[Tensor, "k"]
    means: Float[Tensor, "k n"]
    covs: Float[Tensor, "k n n"]

    def __post_init__(self):
        for ndim, name in enumerate(("weights", "means", "covs"), 1):
            object.__setattr__(self, name, as_real(name, getattr(self, name), ndim))
        k, n = self.means.shape
        if self.weights.shape != (k,) or self.covs.shape != (k, n, n):
            given = [list(t.shape) for t in (self.weights, self.means, self.covs)]
            raise ValueError(f"need weights [k], means [k, n], covs [k, n, n], got {given}")
        if k == 0 or n == 0:
            raise ValueError(f"need at least one component in at least one dimension, got means {[k, n]}")
        if not bool((self.weights > 0).all()) or abs(float(self.weights.sum()) - 1) > 1e-6:
            raise ValueError(f"weights must be > 0 and sum to 1, got {self.weights.tolist()}")
        total = self.weights.sum()  # 1 +- 1e-7 for float32 weights
        object.__setattr__(self, "weights", self.weights / total)
        symmetric = torch.isclose(self.covs, self.covs.mT, atol=1e-9).flatten(1).all(1)
        # the trace is at least the largest eigenvalue: what passes with it needs no eigenvalues
        least = (1e-14 * self.covs.diagonal(dim1=1, dim2=2).sum(1)).clamp(min=1e-12)
        shifted = self.covs - least[:, None, None] * torch.eye(n, dtype=torch.float64)
        suspect = torch.linalg.cholesky_ex(shifted).info > 0
        for i in (suspect | ~symmetric).nonzero().flatten().tolist():
            values = torch.linalg.eigvalsh(self.covs[i])
            smallest, largest = float(values.min()), float(values.max())
            if not symmetric[i] or smallest <= 1e-12 or smallest <= 1e-14 * largest:
                found = f"above 1e-12 and 1e-14 of the largest, got {smallest:.3g} to {largest:.3g}"
                raise ValueError(f"covariance {i} must be symmetric with every eigenvalue {found}")

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
        """x in principal axes, its variances there (both [batch k n]), log weight + log density [batch k]."""
        check_points(x, self.n, sigma)
        variances, axes = self._axes
        y = torch.einsum("bkn,knm->bkm", x.double()[:, None] - self.means, axes)
        v = variances.expand(len(x), -1, -1)
        if sigma is not None:
            v = v + sigma.double()[:, None, None] ** 2
        return y, v, self.weights.log() - 0.5 * (y**2 / v + v.log() + LOG_2PI).sum(-1)

    def log_prob(self, x: Float[Tensor, "batch n"], sigma: Sigma = None) -> Float[Tensor, "batch"]:
        """log p_t(x)."""
        return self._project(x, sigma)[2].logsumexp(-1)

    def score(self, x: Float[Tensor, "batch n"], sigma: Sigma = None) -> Float[Tensor, "batch n"]:
        """grad_x log p_t(x)."""
        y, v, logits = self._project(x, sigma)
        return -torch.einsum("bk,bkm,knm->bn", logits.softmax(-1), y / v, self._axes[1])

    def denoise(
        self, x_t: Float[Tensor, "batch ..."], sigma: Float[Tensor, "batch"], cond: Any = None
    ) -> Tensor:
        """Posterior mean D(x_t, sigma), shape and dtype of x_t ([batch n] or images); `cond` is ignored."""
        y, v, logits = self._project(check_flat(x_t, self.n, sigma), sigma)
        variances, axes = self._axes
        each = self.means + torch.einsum("bkm,knm->bkn", y * variances / v, axes)
        return torch.einsum("bk,bkn->bn", logits.softmax(-1), each).reshape(x_t.shape).to(x_t.dtype)

    def sample(self, batch: int, generator: torch.Generator) -> Float[Tensor, "batch n"]:
        """`batch` >= 1 independent draws.

        Choice: uses the symmetric root of the covariance, because its eigenvectors differ between
        processors.
        """
        check_count("batch", batch, 1)
        check_generator(generator)
        which = torch.multinomial(self.weights, batch, replacement=True, generator=generator)
        eps = torch.randn(batch, self.n, generator=generator, dtype=torch.float64)
        variances, axes = self._axes
        roots = torch.einsum("knm,km,kpm->knp", axes, variances.sqrt(), axes)
        return self.means[which] + torch.einsum("bnp,bp->bn", roots[which], eps)

    def noised(self, sigma: float) -> "GaussianMixture":
        """p_t = p * N(0, sigma^2 I), sigma >= 0 a standard deviation."""
        noise = check_sigma(sigma) ** 2 * torch.eye(self.n, dtype=torch.float64)
        return GaussianMixture(self.weights, self.means, self.covs + noise)

    def marginal(self, idx: Sequence[int]) -> "GaussianMixture":
        """The distribution of x[idx], coordinates in the order of idx."""
        idx = check_indices(idx, self.n)
        return GaussianMixture(self.weights, self.means[:, idx], self.covs[:, idx][:, :, idx])

    def pushforward(
        self, matrix: Float[Tensor, "m n"], shift: Float[Tensor, "m"] | float = 0.0
    ) -> "GaussianMixture":
        """The distribution of matrix @ x + shift. Raises ValueError unless matrix is [m n] of full rank m."""
        matrix = check_tensor("matrix", as_real("matrix", matrix, 2), (None, self.n))
        if isinstance(shift, Tensor):
            check_tensor("shift", shift, (len(matrix),))
        else:
            check_number("shift", shift)
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
        return torch.einsum(
            "k,knm->nm", self.weights, self.covs + centered[:, :, None] * centered[:, None, :]
        )


def gaussian(mean: Tensor | Sequence[float], cov: Tensor | Sequence[Sequence[float]]) -> GaussianMixture:
    """N(mean, cov): a mixture of one component, whose KL divergences are exact."""
    mean, cov = as_real("mean", mean, 1), as_real("cov", cov, 2)
    if cov.shape != (len(mean), len(mean)):
        raise ValueError(f"need a mean [n] and a cov [n, n], got {list(mean.shape)} and {list(cov.shape)}")
    return GaussianMixture(torch.ones(1, dtype=torch.float64), mean[None], cov[None])


@dataclass(frozen=True, eq=False)
class Product:
    """prod_k factors[k](x[blocks[k]]), the blocks disjoint and together all of range(n).

    Raises ValueError naming indices that are in two blocks or in none, TypeError for a factor that is not a
    distribution.
    """

    blocks: tuple[tuple[int, ...], ...]
    factors: tuple[Any, ...]

    def __post_init__(self):
        blocks = [check_list("a block", block) for block in check_list("blocks", self.blocks, 1)]
        factors = tuple(check_distribution("a factor", f) for f in check_list("factors", self.factors))
        if len(blocks) != len(factors):
            raise ValueError(
                f"need one factor for each block, got {len(blocks)} blocks and {len(factors)} factors"
            )
        largest = max((i for b in blocks for i in b if isinstance(i, int)), default=0)
        most = sum(map(len, blocks)) + largest + 1
        checked = tuple(tuple(check_indices(b, most, "block indices")) for b in blocks)
        object.__setattr__(self, "blocks", checked)
        object.__setattr__(self, "factors", factors)
        flat = sorted(i for block in self.blocks for i in block)
        shared = sorted({a for a, b in zip(flat, flat[1:]) if a == b})
        if shared:
            raise ValueError(f"blocks overlap: indices {shared} are in more than one")
        missing = sorted(set(range(len(flat))) - set(flat))
        if missing:
            raise ValueError(f"blocks must cover range({len(flat)}): indices {missing} are in none")
        sizes = [factor.n for factor in self.factors]
        if sizes != [len(block) for block in self.blocks]:
            raise ValueError(
                f"blocks have sizes {[len(b) for b in self.blocks]} but factors have dimensions {sizes}"
            )

    @property
    def n(self) -> int:
        """Dimension of the space."""
        return sum(len(block) for block in self.blocks)

    @property
    def is_gaussian(self) -> bool:
        """Whether all factors are Gaussian, so that KL divergences have a closed form."""
        return all(factor.is_gaussian for factor in self.factors)

    def _joined(self, parts: list[Tensor]) -> Tensor:
        """The blocks' columns, back in pixel order."""
        order = torch.tensor([i for block in self.blocks for i in block])
        return torch.cat(parts, -1)[..., order.argsort()]

    def log_prob(self, x: Float[Tensor, "batch n"], sigma: Sigma = None) -> Float[Tensor, "batch"]:
        """log p_t(x): isotropic noise keeps the blocks independent."""
        check_points(x, self.n, sigma)
        return sum(f.log_prob(x[:, list(b)], sigma) for b, f in zip(self.blocks, self.factors))

    def score(self, x: Float[Tensor, "batch n"], sigma: Sigma = None) -> Float[Tensor, "batch n"]:
        """grad_x log p_t(x)."""
        check_points(x, self.n, sigma)
        return self._joined([f.score(x[:, list(b)], sigma) for b, f in zip(self.blocks, self.factors)])

    def denoise(
        self, x_t: Float[Tensor, "batch ..."], sigma: Float[Tensor, "batch"], cond: Any = None
    ) -> Tensor:
        """Posterior mean D(x_t, sigma), shape and dtype of x_t ([batch n] or images); `cond` is ignored."""
        x = check_flat(x_t, self.n, sigma)
        parts = [f.denoise(x[:, list(b)], sigma) for b, f in zip(self.blocks, self.factors)]
        return self._joined(parts).reshape(x_t.shape)

    def sample(self, batch: int, generator: torch.Generator) -> Float[Tensor, "batch n"]:
        """`batch` >= 1 independent draws."""
        return self._joined([f.sample(batch, generator) for f in self.factors])

    def noised(self, sigma: float) -> "Product":
        """p_t = p * N(0, sigma^2 I), sigma >= 0 a standard deviation."""
        return Product(self.blocks, tuple(f.noised(sigma) for f in self.factors))

    def marginal(self, idx: Sequence[int]) -> "Product":
        """The distribution of x[idx], coordinates in the order of idx."""
        position = {i: p for p, i in enumerate(check_indices(idx, self.n))}
        parts = zip(self.blocks, self.factors)
        kept = [([p for p, i in enumerate(b) if i in position], b, f) for b, f in parts]
        blocks = tuple(tuple(position[b[p]] for p in local) for local, b, _ in kept if local)
        factors = tuple(f if len(local) == len(b) else f.marginal(local) for local, b, f in kept if local)
        return Product(blocks, factors)

    def joint(self) -> GaussianMixture:
        """The same distribution as one mixture on R^n: a component per combination of the factors'
        components.

        Raises ValueError for more than 100,000 components.
        """
        factors = [f.joint() if isinstance(f, Product) else f for f in self.factors]
        if (count := math.prod(len(factor.weights) for factor in factors)) > 100_000:
            raise ValueError(f"the joint has {count:,} components, at most 100,000 are held")
        weights, means, covs = torch.ones(1), torch.zeros(1, 0), torch.zeros(1, 0, 0)
        for factor in factors:
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


def check_distribution(name: str, value: Any, n: int | None = None) -> Distribution:
    """A GaussianMixture or Product, on R^n if `n` is given. Raises TypeError or ValueError."""
    if not isinstance(value, Distribution):
        raise TypeError(f"{name} must be a GaussianMixture or a Product, got {shown(value)}")
    if n is not None and value.n != n:
        raise ValueError(f"{name} must live in R^{n}, got R^{value.n}")
    return value


def check_mass(name: str, density: Float[Tensor, "points"], cell: float) -> None:
    """Raise ValueError unless a density sums to 1 over a grid: otherwise the grid is too coarse or small."""
    mass = float(density.sum() * cell)
    if not abs(mass - 1) < 1e-6:
        raise ValueError(
            f"the grid holds {mass:.6g} of {name}'s mass: take more points, or distributions less far apart"
        )
