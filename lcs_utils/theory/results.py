"""The paper's results, each as a function that returns its two sides as numbers; notebooks and tests compare them."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from lcs_utils.diffusion import final, karras_sigmas, sample
from lcs_utils.theory.cpc import (
    ConditionalProjectiveComposition,
    CpcErrors,
    FeatureCPC,
    LinearMap,
    approximate_cpc_errors,
    blockwise,
    cpc_errors_at,
    fit_cpc,
    ideal,
)
from lcs_utils.theory.distributions import Distribution, GaussianMixture, Product, gaussian, grid_kl, kl
from lcs_utils.theory.lcs import Family, Subsets, local_conditional_score


class Sides(NamedTuple):
    """The two sides of a statement, numbers or tensors of the same shape."""

    left: Any
    right: Any

    @property
    def gap(self) -> float:
        """Largest absolute difference."""
        return float((torch.as_tensor(self.left) - torch.as_tensor(self.right)).abs().max())


def full_joint(p: Distribution) -> GaussianMixture:
    """`p` as one mixture with full covariances, which knows nothing of blocks: the independent side of a comparison."""
    return p.joint() if isinstance(p, Product) else p


def lemma_1(
    cpc: ConditionalProjectiveComposition,
    x: Float[Tensor, "batch n"],
    sigma: Float[Tensor, "batch"],
    J: Iterable,
    subsets: Subsets | None = None,
) -> Sides:
    """Lemma 1: the LCS with the CPC's subsets against grad log p_t(x | c_J) of the full joint; equal at every t.

    Pass other `subsets` (such as `lcs.inactive_block_subsets`) to see the equality break.
    """
    local = local_conditional_score(cpc, x, sigma, cpc.subsets(J) if subsets is None else subsets)
    return Sides(local, full_joint(cpc(J)).score(x, sigma))


def path_integral(
    score: Callable[[Tensor], Tensor], start: Float[Tensor, "n"], stop: Float[Tensor, "n"], nodes: int = 64
) -> float:
    """The integral of a score along the straight line from start to stop: a difference of log densities.

    Gauss-Legendre with `nodes` nodes.
    """
    position, weight = map(torch.from_numpy, np.polynomial.legendre.leggauss(nodes))  # on [-1, 1]
    points = start + ((1 + position) / 2)[:, None] * (stop - start)
    return float(weight / 2 @ (score(points) @ (stop - start)))


def converse(
    score: Callable[[Tensor], Tensor],
    blocks: Sequence[Sequence[int]],
    start: Float[Tensor, "n"],
    stop: Float[Tensor, "n"],
    nodes: int = 64,
) -> Sides:
    """The converse of Lemma 1: log p(stop) - log p(start) against the sum of what each block alone contributes.

    Equal for all points exactly when log p(.|c_J) is a sum over the blocks, as it is when the score in each block depends
    on that block alone. That is half of eq. (2), the half of N_i; the half of L_i is that a block's summand is the same
    for every J, which one J cannot show (spill alone passes here and is no CPC).
    Choice: the paper says "equivalence" and proves one direction; this is our closed-form check of the other.
    """
    alone = 0.0
    for block in blocks:
        moved = start.clone()
        moved[list(block)] = stop[list(block)]
        alone += path_integral(score, start, moved, nodes)
    return Sides(path_integral(score, start, stop, nodes), alone)


class Lemma2(NamedTuple):
    """KL(p || p*), the sum it equals exactly, the paper's bound e1 + |J| e2 + e3 on it, and the errors."""

    divergence: float
    identity: float
    bound: float
    errors: CpcErrors


def lemma_2(
    family: Family, M: Mapping[Any, tuple[int, ...]], J: Iterable, Js: Iterable[Iterable] | None = None
) -> Lemma2:
    """Lemma 2: KL(p(.|c_J) || p*(.|c_J)) <= e1 + |J| e2 + e3, p* the law of the LCS; suprema over `Js` (default: J).

    Behind it is the identity KL(p || prod q_k) = KL(p || prod p_k) + sum_k KL(p_k || q_k), returned too.
    """
    J = frozenset(J)
    errors = approximate_cpc_errors(family, M, [J] if Js is None else [*Js, J])
    e1, e2, e3 = cpc_errors_at(family, M, J)
    divergence = kl(full_joint(family(J)), full_joint(ideal(family, M, J))).value
    return Lemma2(divergence, e1 + sum(e2) + e3, errors.e1 + len(J) * errors.e2 + errors.e3, errors)


def lemma_3(
    family: Family, M: Mapping[Any, tuple[int, ...]], Js: Iterable[Iterable], sigmas: Iterable[float]
) -> Float[Tensor, "levels 3"]:
    """Lemma 3: e1(t), e2(t), e3(t) of Def. 3 at increasing noise; each strictly decreases unless it is zero."""
    Js = list(Js)
    return torch.tensor([approximate_cpc_errors(family, M, Js, sigma) for sigma in sigmas], dtype=torch.float64)


def relative_fisher_gaussian(p: GaussianMixture, q: GaussianMixture) -> float:
    """E_p ||grad log p - grad log q||^2 between Gaussians, closed form."""
    P, Q = torch.linalg.inv(p.cov), torch.linalg.inv(q.cov)
    offset = Q @ (q.mean - p.mean)  # score difference at p's mean, up to sign
    return float(torch.trace((Q - P) @ p.cov @ (Q - P)) + offset @ offset)


def grid_for(*distributions: Distribution, points: int = 401, reach: float = 10.0) -> tuple[Tensor, float]:
    """Grid points [points^n n] that cover all of the distributions to `reach` standard deviations, and cell volume."""
    spread = [(d.mean, reach * d.cov.diagonal().sqrt()) for d in distributions]
    low = torch.stack([m - s for m, s in spread]).amin(0)
    high = torch.stack([m + s for m, s in spread]).amax(0)
    axes = [torch.linspace(float(a), float(b), points, dtype=torch.float64) for a, b in zip(low, high)]
    return torch.cartesian_prod(*axes).reshape(-1, len(axes)), float(((high - low) / (points - 1)).prod())


def claim_1(p: Distribution, q: Distribution, t: float, points: int = 401) -> Sides:
    """Claim 1: d/dt KL(p_t || q_t) = -1/2 E_{p_t} ||grad log p_t - grad log q_t||^2, t the VARIANCE of the noise.

    Gaussians of any dimension in closed form, others in one or two dimensions by quadrature; the derivative is a
    five-point difference. Raises ValueError for mixtures in more than two dimensions.
    """
    exact = p.is_gaussian and q.is_gaussian
    if not exact and p.n > 2:
        raise ValueError(f"mixtures need quadrature, which is for at most 2 dimensions, got {p.n}")
    h = 5e-3 * t

    def divergence(step):
        a, b = (d.noised((t + step * h) ** 0.5) for d in (p, q))
        return kl(a, b).value if exact else grid_kl(a.log_prob(grid), b.log_prob(grid), cell)

    p_t, q_t = p.noised(t**0.5), q.noised(t**0.5)
    if exact:
        fisher = relative_fisher_gaussian(full_joint(p_t), full_joint(q_t))
    else:
        grid, cell = grid_for(p_t, q_t, points=points if p.n == 2 else 8 * points)
        gap = p_t.score(grid) - q_t.score(grid)
        fisher = float((p_t.log_prob(grid).exp() * gap.square().sum(-1)).sum() * cell)
    slope = (divergence(-2) - 8 * divergence(-1) + 8 * divergence(1) - divergence(2)) / (12 * h)
    return Sides(slope, -fisher / 2)


def corollary_1(
    fcpc: FeatureCPC, z: Float[Tensor, "batch n"], sigma: Float[Tensor, "batch"], J: Iterable, points: int = 401
) -> Sides:
    """Corollary 1: the LCS in features z = A(x) against the score of N_t[A # p(.|c_J)], got from p in PIXEL space.

    Maps of the plane are integrated: p_t(z) = integral of p(x) N(z; A(x), sigma^2) dx. In more dimensions a linear A pushes
    p's mixture forward, which checks no more than Lemma 1 and the inverse of A; smooth maps raise ValueError there.
    """
    features = fcpc.features
    local = local_conditional_score(features, z, sigma, features.subsets(J))
    if features.n > 2:
        if not isinstance(fcpc.transform, LinearMap):
            raise ValueError(f"smooth maps need quadrature, which is for at most 2 dimensions, got {features.n}")
        return Sides(local, fcpc.pixels(J).pushforward(fcpc.transform.matrix).score(z, sigma))
    corners, _ = grid_for(features(J), points=25)
    x = _box_grid(fcpc.transform.inverse(corners), 201)
    log_p = fcpc.log_prob(x, J)
    x = _box_grid(x[log_p > log_p.max() - 40], points)  # the box of the density: a bent map's corners reach far
    log_p, at = fcpc.log_prob(x, J), fcpc.transform.forward(x)
    rows = []
    for one, s in zip(z, sigma):
        weight = (log_p - (one - at).square().sum(-1) / (2 * s**2)).softmax(0)
        rows.append((weight @ at - one) / s**2)  # Tweedie: the score from the posterior mean
    return Sides(local, torch.stack(rows))


def _box_grid(inside: Float[Tensor, "points n"], points: int) -> Float[Tensor, "grid n"]:
    """An equidistant grid over the bounding box of some points."""
    ends = zip(inside.amin(0).tolist(), inside.amax(0).tolist())
    return torch.cartesian_prod(*[torch.linspace(a, b, points, dtype=torch.float64) for a, b in ends])


class Claim2(NamedTuple):
    """Five measures of how far noising and a linear map A are from commuting, one value per noise level."""

    laws: list[float]  # KL(N_t[A # p] || A # N_t[p])
    scores: list[float]  # E || difference of their scores ||^2
    relative: list[float]  # the same over E || score ||^2
    denoisers: list[float]  # E || difference of the posterior means of A x ||^2
    identity: list[float]  # KL(N_t[A # p] || N_t[p])


def claim_2(p: GaussianMixture, matrix: Float[Tensor, "n n"], sigmas: Iterable[float]) -> Claim2:
    """Claim 2: N_t[A # p] against A # N_t[p] for a Gaussian p, in closed form; zero for orthogonal A.

    Choice: the claim's formula is lost to us, so five readings of "the non-commutativity shrinks with noise" are
    computed. Scores, denoisers and the KL to N_t[p] do shrink at high noise, as they do between any two laws, because all
    scores vanish as 1 / sigma. Relative to the score the gap does NOT shrink, nor does the KL between the two laws: for
    linear A both grow, the KL to KL(N(0, I) || N(0, A A^T)).
    """
    if not p.is_gaussian:
        raise ValueError(f"claim_2 is in closed form for one Gaussian, got a mixture of {len(p.weights)}")
    A = LinearMap(matrix).matrix
    pushed, rows = p.pushforward(A), []
    for sigma in sigmas:
        noise_after, noise_before = pushed.noised(sigma), p.noised(sigma).pushforward(A)
        gain_after = pushed.cov @ torch.linalg.inv(noise_after.cov)
        gain_before = A @ p.cov @ torch.linalg.inv(p.noised(sigma).cov) @ torch.linalg.inv(A)
        gap = gain_after - gain_before
        denoisers = float(torch.trace(gap @ noise_after.cov @ gap.T))
        identity = kl(noise_after, p.noised(sigma)).value
        scores = relative_fisher_gaussian(noise_after, noise_before)
        relative = scores / float(torch.trace(torch.linalg.inv(noise_after.cov)))
        rows.append((kl(noise_after, noise_before).value, scores, relative, denoisers, identity))
    return Claim2(*map(list, zip(*rows)))


def fitted_error(
    family: Family, M: Mapping[Any, tuple[int, ...]], shown: Iterable[Iterable], J: Iterable, draws: int, generator: torch.Generator
) -> float:
    """KL(p(.|c_J) || a CPC fitted to `draws` samples of each set of conditions in `shown`): what length generalization costs.

    Near zero where the family is a CPC (section 3.1); where it is not, what the fit cannot know.
    """
    fitted = fit_cpc([(J, family(frozenset(J)).sample(draws, generator)) for J in shown], M)
    return kl(full_joint(family(frozenset(J))), full_joint(fitted(frozenset(J)))).value


def single_transform(z: GaussianMixture, matrix: Float[Tensor, "n n"], switches: Iterable[float], steps: int = 200) -> Sides:
    """App. D's question: what sampling with ONE transform A costs, KL of the sampled law from p, for features z ~ N, z = A x.

    The single-A denoiser is A^-1 D_z(A x), the features' denoiser as if noise were isotropic there too; the exact one would
    need a time-dependent map. Left: single A at noise levels above each switch, exact below; right: the other way round. Both
    steps are affine, so the sampled law is found from what becomes of the origin and the unit vectors.
    """
    A = LinearMap(matrix)
    p, n = z.pushforward(torch.linalg.inv(A.matrix)), z.n
    noise, sigmas = torch.cat([torch.zeros(1, n), torch.eye(n)]).double(), karras_sigmas(steps)

    def divergence(uses_one):
        pick = lambda x, sigma, _: A.inverse(z.denoise(A.forward(x), sigma)) if uses_one(float(sigma[0])) else p.denoise(x, sigma)
        origin, *units = final(sample(pick, noise, sigmas))
        columns = torch.stack(units, 1) - origin[:, None]
        return kl(gaussian(origin, columns @ columns.T), full_joint(p)).value

    switches = list(switches)
    return Sides([divergence(lambda s: s > at) for at in switches], [divergence(lambda s: s <= at) for at in switches])


def independent_blocks_divergence(family: Family, M: Mapping[Any, tuple[int, ...]], J: Iterable) -> float:
    """KL(p(.|c_J) || its own blocks made independent), eq. (4) at one J: zero for a CPC, whatever eq. (3) says."""
    return kl(family(frozenset(J)), blockwise(family, M, J)).value
