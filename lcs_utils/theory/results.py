"""The paper's results, each as a function that returns the two sides of a statement as numbers.

A family is a function from a set of conditions J to p(x | c_J), M maps conditions to their pixels, x
is [batch n] and sigma [batch] is >= 0. Other values raise ValueError or TypeError, naming the value.
Results on features are in `feature_space`, growing windows in `windows`.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from lcs_utils.theory.approximate_cpc import (
    CpcErrors,
    approximate_cpc_errors,
    blockwise,
    cpc_errors_at,
    ideal,
)
from lcs_utils.theory.checks import (
    check_conditions,
    check_count,
    check_list,
    check_number,
    check_points,
    check_sets,
    check_sigma,
    check_tensor,
    shown,
)
from lcs_utils.theory.cpc import ConditionalProjectiveComposition
from lcs_utils.theory.distributions import (
    Distribution,
    GaussianMixture,
    Product,
    check_distribution,
    check_mass,
)
from lcs_utils.theory.divergence import gaussian_kl, kl
from lcs_utils.theory.fitted_cpc import fit_cpc
from lcs_utils.theory.lcs import Family, Subsets, law, lemma_1_subsets, local_conditional_score


class Sides(NamedTuple):
    """The two sides of a statement, numbers or tensors of the same shape."""

    left: Any
    right: Any

    @property
    def gap(self) -> float:
        """Largest absolute difference, in float64. Raises ValueError for sides of different shapes."""
        left, right = (torch.as_tensor(side, dtype=torch.float64) for side in self)
        if left.shape != right.shape or not left.numel():
            raise ValueError(f"the sides have shapes {list(left.shape)} and {list(right.shape)}")
        return float((left - right).abs().max())


def full_joint(p: Distribution) -> GaussianMixture:
    """`p` as one mixture with full covariances, without blocks: the independent side of a comparison."""
    check_distribution("p", p)
    return p.joint() if isinstance(p, Product) else p


def lemma_1(
    cpc: ConditionalProjectiveComposition,
    x: Float[Tensor, "batch n"],
    sigma: Float[Tensor, "batch"],
    J: Iterable,
    subsets: Subsets | None = None,
) -> Sides:
    """Lemma 1: the LCS with the CPC's subsets, and grad log p_t(x | c_J) of the full joint; equal at every t.

    Pass other `subsets` (such as `lcs_alternatives.inactive_block_subsets`) to see the equality break.
    """
    if not isinstance(cpc, ConditionalProjectiveComposition):
        raise TypeError(f"cpc must be a ConditionalProjectiveComposition, got {shown(cpc)}")
    J = check_conditions(J)
    local = local_conditional_score(cpc, x, sigma, cpc.subsets(J) if subsets is None else subsets)
    return Sides(local, full_joint(cpc(J)).score(x, sigma))


def path_integral(
    score: Callable[[Tensor], Tensor], start: Float[Tensor, "n"], stop: Float[Tensor, "n"], nodes: int = 64
) -> float:
    """The integral of a score along the straight line from start to stop: a difference of log densities.

    Gauss-Legendre with `nodes` >= 1 nodes.
    """
    if not callable(score):
        raise TypeError(f"score must be a function of points, got {shown(score)}")
    start = check_tensor("start", start, (None,)).double()
    stop = check_tensor("stop", stop, (len(start),)).double()
    check_count("nodes", nodes, 1)
    position, weight = map(torch.from_numpy, np.polynomial.legendre.leggauss(nodes))  # on [-1, 1]
    points = start + ((1 + position) / 2)[:, None] * (stop - start)
    return float(weight / 2 @ (score(points) @ (stop - start)))


class Converse(NamedTuple):
    """One difference of log densities in three ways, in nats."""

    law: float  # of p_t(.|c_J) itself
    local: float  # the integral of the local score
    product: float  # of eq. (2)'s product

    @property
    def gap(self) -> float:
        """What the local score gets wrong."""
        return abs(self.law - self.local)


def converse(
    family: Family,
    M: Mapping[Any, tuple[int, ...]],
    J: Iterable,
    start: Float[Tensor, "n"],
    stop: Float[Tensor, "n"],
    sigma: float = 0.0,
    nodes: int = 64,
) -> Converse:
    """The converse of Lemma 1: log p_t(stop) - log p_t(start) from p(.|c_J), its LCS and eq. (2).

    Eq. (1) names the laws of the family: with Lemma 1's subsets the LCS is d_i log p_t(x_{M_j} | c_j) and d_i
    log p_t(x_{M_J^c} | {}), so it integrates to eq. (2)'s product, for every family. If it is the score of
    p_t(.|c_J), even at one J and one noise level sigma >= 0, p(.|c_J) is therefore that product. `nodes` >= 1
    points along the line from start to stop. Raises ValueError for overlapping M_j and for conditions that M
    lacks.
    Choice: the paper says "equivalence" and proves one direction; this is our check of the other.
    """
    J, sigma = check_conditions(J, M), check_sigma(sigma)
    product, p = ideal(family, M, J).noised(sigma), law(family, J).noised(sigma)
    subsets = lemma_1_subsets(M, p.n, J)

    def score(x):
        return local_conditional_score(family, x, torch.full((len(x),), sigma, dtype=torch.float64), subsets)

    local = path_integral(score, start, stop, nodes)
    ends = torch.stack([start, stop])
    return Converse(float(p.log_prob(ends).diff()), local, float(product.log_prob(ends).diff()))


class Lemma2(NamedTuple):
    """KL(p || p*), the sum it equals exactly, the paper's bound e1 + |J| e2 + e3 on it, and the errors."""

    divergence: float
    identity: float
    bound: float
    errors: CpcErrors


def lemma_2(
    family: Family,
    M: Mapping[Any, tuple[int, ...]],
    J: Iterable,
    Js: Iterable[Iterable] | None = None,
    sigma: float = 0.0,
    **sampling: Any,
) -> Lemma2:
    """Lemma 2: KL(p_t(.|c_J) || p*_t(.|c_J)) <= e1 + |J| e2 + e3, p* the law of the LCS, t = sigma^2 >= 0.

    With noise the errors are those of Lemma 3 (App. C). The suprema are over `Js` and J itself. The identity
    behind the bound, KL(p || prod q_k) = KL(p || prod p_k) + sum_k KL(p_k || q_k), is returned too. Exact for
    Gaussians; mixtures need `sampling`, generator= and optionally samples=, as in `kl`.
    """
    J = check_conditions(J, M)
    Js = [J] if Js is None else [*check_sets(Js), J]
    errors = approximate_cpc_errors(family, M, Js, sigma, **sampling)
    e1, e2, e3 = cpc_errors_at(family, M, J, sigma, **sampling)
    p, local = (full_joint(d).noised(sigma) for d in (law(family, J), ideal(family, M, J)))
    divergence = kl(p, local, **sampling).value
    return Lemma2(divergence, e1 + sum(e2) + e3, errors.e1 + len(J) * errors.e2 + errors.e3, errors)


def lemma_3(
    family: Family,
    M: Mapping[Any, tuple[int, ...]],
    Js: Iterable[Iterable],
    sigmas: Iterable[float],
    **sampling: Any,
) -> Float[Tensor, "levels 3"]:
    """Lemma 3: e1(t), e2(t), e3(t) of Def. 3 at each noise level; with growing noise each strictly decreases
    unless it is zero. `sampling` as in `lemma_2`.
    """
    Js, sigmas = check_sets(Js), check_list("sigmas", sigmas, 1)
    return torch.tensor(
        [approximate_cpc_errors(family, M, Js, sigma, **sampling) for sigma in sigmas], dtype=torch.float64
    )


def independent_blocks_divergence(
    family: Family, M: Mapping[Any, tuple[int, ...]], J: Iterable, **sampling: Any
) -> float:
    """KL(p(.|c_J) || its blocks made independent), eq. (4) at one J: zero for a CPC, whatever eq. (3) says.

    `sampling` as in `lemma_2`.
    """
    J = check_conditions(J)
    return kl(law(family, J), blockwise(family, M, J), **sampling).value


def fitted_errors(
    family: Family,
    M: Mapping[Any, tuple[int, ...]],
    shown: Iterable[Iterable],
    Js: Iterable[Iterable],
    draws: int,
    generator: torch.Generator,
) -> list[float]:
    """KL(p(.|c_J) || a CPC fitted to `draws` samples of each set in `shown`), for each J in `Js`.

    What length generalization costs (section 4): near zero for a CPC, at counts that were shown and at
    others. A family that is no CPC at a shown count is wrong there already, so read an unseen count's number
    beside those of the shown ones. `fit_cpc` is given the blocks M.
    """
    fitted = fit_cpc([(J, law(family, J).sample(draws, generator)) for J in check_sets(shown)], M)
    return [kl(full_joint(law(family, J)), full_joint(fitted(J))).value for J in check_sets(Js)]


def relative_fisher_gaussian(p: Distribution, q: Distribution) -> float:
    """E_p ||grad log p - grad log q||^2 between Gaussians, closed form. Raises ValueError for mixtures."""
    for name, d in (("p", p), ("q", q)):
        if not check_distribution(name, d).is_gaussian:
            raise ValueError(f"{name} must be Gaussian, got a mixture")
    check_distribution("q", q, p.n)
    P, Q = torch.linalg.inv(p.cov), torch.linalg.inv(q.cov)
    offset = Q @ (q.mean - p.mean)  # score difference at p's mean, up to sign
    return float(torch.trace((Q - P) @ p.cov @ (Q - P)) + offset @ offset)


def grid_for(*distributions: Distribution, points: int = 401, reach: float = 10.0) -> tuple[Tensor, float]:
    """Grid points [points^n n] to `reach` standard deviations around all components, and a cell's volume.

    Raises ValueError for different dimensions, and for more than 10 million points.
    """
    check_list("distributions", distributions, 1)
    joints = [full_joint(check_distribution("a distribution", d, distributions[0].n)) for d in distributions]
    check_number("reach", reach, 0, 1e6, above=True)
    if check_count("points", points, 2) ** joints[0].n > 10_000_000:
        raise ValueError(f"{points} points in each of {joints[0].n} dimensions are more than 10 million")
    spread = [(d.means, reach * d.covs.diagonal(dim1=1, dim2=2).sqrt()) for d in joints]
    low = torch.cat([m - s for m, s in spread]).amin(0)
    high = torch.cat([m + s for m, s in spread]).amax(0)
    axes = [torch.linspace(float(a), float(b), points, dtype=torch.float64) for a, b in zip(low, high)]
    return torch.cartesian_prod(*axes).reshape(-1, len(axes)), float(((high - low) / (points - 1)).prod())


def claim_1(p: Distribution, q: Distribution, t: float, points: int = 401) -> Sides:
    """Claim 1: d/dt KL(p_t || q_t) = -1/2 E_{p_t} ||grad log p_t - grad log q_t||^2, t > 0 a VARIANCE.

    The derivative in the noise variance t is autograd's. Gaussians of any dimension are in closed form,
    others by quadrature in one or two dimensions. Raises ValueError for mixtures in more dimensions, and
    where the grid misses mass or half of its points would give another answer (mixtures far apart, or
    narrow).
    """
    check_distribution("q", q, check_distribution("p", p).n)
    t = check_number("t", t, 0, 1e12, above=True)
    check_count("points", points, 3)
    if p.is_gaussian and q.is_gaussian:
        level = torch.tensor(t, dtype=torch.float64, requires_grad=True)
        noise = level * torch.eye(p.n, dtype=torch.float64)
        (slope,) = torch.autograd.grad(gaussian_kl(p.mean, p.cov + noise, q.mean, q.cov + noise), level)
        return Sides(float(slope), -relative_fisher_gaussian(p.noised(t**0.5), q.noised(t**0.5)) / 2)
    if p.n > 2:
        raise ValueError(f"mixtures need quadrature, which is for at most 2 dimensions, got {p.n}")
    points = points if p.n == 2 else 8 * points
    fine, coarse = (_claim_1_on_grid(p, q, t, k) for k in (points, points // 2 + 1))
    change = max(abs(a - b) for a, b in zip(fine, coarse))
    if not change <= 1e-6 * max(map(abs, fine)) + 1e-12:
        raise ValueError(
            f"{points} points a side do not resolve this pair: half of them move a side by {change:.3g}"
        )
    return fine


def _claim_1_on_grid(p: Distribution, q: Distribution, t: float, points: int) -> Sides:
    """Both sides of Claim 1 by the trapezoidal rule."""
    grid, cell = grid_for(p.noised(t**0.5), q.noised(t**0.5), points=points)
    level = torch.tensor(t, dtype=torch.float64, requires_grad=True)
    sigma = level.sqrt().expand(len(grid))
    p_log, q_log = p.log_prob(grid, sigma), q.log_prob(grid, sigma)
    check_mass("p", p_log.detach().exp(), cell)
    check_mass("q", q_log.detach().exp(), cell)
    (slope,) = torch.autograd.grad((p_log.exp() * (p_log - q_log)).sum() * cell, level)
    sigma = sigma.detach()
    gap = p.score(grid, sigma) - q.score(grid, sigma)
    return Sides(float(slope), -float((p_log.detach().exp() * gap.square().sum(-1)).sum()) * cell / 2)


def heat_equation(p: Distribution, x: Float[Tensor, "batch n"], t: float) -> Sides:
    """d/dt log p_t(x), and 1/2 (laplacian log p_t + ||grad log p_t||^2), t > 0 the noise variance: eq. (7).

    Choice: we do not have the formula of eq. (7), "the fact" that the proof of Claim 1 uses; the proof needs
    this one, d/dt p_t = 1/2 laplacian p_t, here divided by p_t.
    """
    check_points(x, check_distribution("p", p).n)
    level = torch.tensor(check_number("t", t, 0, 1e12, above=True), dtype=torch.float64, requires_grad=True)
    log_p = p.log_prob(x, level.sqrt().expand(len(x)))
    left = [torch.autograd.grad(one, level, retain_graph=True)[0] for one in log_p]
    points, sigma = x.detach().double().requires_grad_(), level.detach().sqrt().expand(len(x))
    score = p.score(points, sigma)
    curved = [torch.autograd.grad(score[:, i].sum(), points, retain_graph=True)[0][:, i] for i in range(p.n)]
    return Sides(torch.stack(left), ((sum(curved) + score.square().sum(1)) / 2).detach())
