"""Feature space: Corollary 1, Claim 2 and the transforms of App. D, each with its two sides as numbers.

x and z are [batch n], sigma [batch] is > 0, matrices are invertible. Other values raise ValueError or
TypeError, naming the value.
"""

import math
from collections.abc import Callable, Iterable
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from lcs_utils.diffusion import final, karras_sigmas, sample
from lcs_utils.theory.checks import (
    LOUDEST,
    check_conditions,
    check_count,
    check_levels,
    check_list,
    check_number,
    check_points,
    check_sigma,
    shown,
)
from lcs_utils.theory.distributions import Distribution, GaussianMixture, check_distribution, gaussian
from lcs_utils.theory.divergence import kl
from lcs_utils.theory.feature_cpc import FeatureCPC, LinearMap, Transform
from lcs_utils.theory.lcs import local_conditional_score
from lcs_utils.theory.results import Sides, full_joint, relative_fisher_gaussian


def corollary_1(
    fcpc: FeatureCPC,
    z: Float[Tensor, "batch n"],
    sigma: Float[Tensor, "batch"],
    J: Iterable,
    points: int = 641,
) -> Sides:
    """Corollary 1: the LCS in features z = A(x), and the score of N_t[A # p(.|c_J)] from p in PIXEL space.

    Maps of the line or the plane are integrated: p_t(z) = integral of p(x) N(z; A(x), sigma^2) dx, one
    mixture component at a time, on a grid that covers the integrand, refined up to `points` a side. In
    more dimensions a linear A pushes p's mixture forward, which checks no more than Lemma 1 and the inverse
    of A. Raises ValueError for smooth maps in more than two dimensions, if half of the finest grid's points
    would give another answer, and for a sigma so small that rounding decides.
    """
    if not isinstance(fcpc, FeatureCPC):
        raise TypeError(f"fcpc must be a FeatureCPC, got {shown(fcpc)}")
    features = fcpc.features
    check_points(z, features.n, sigma, "z")
    check_levels(sigma, len(z), above=True)
    check_count("points", points, 9)
    J = check_conditions(J, features.M)
    local = local_conditional_score(features, z, sigma, features.subsets(J))
    if features.n > 2:
        if not isinstance(fcpc.transform, LinearMap):
            raise ValueError(
                f"smooth maps need quadrature, which is for at most 2 dimensions, got {features.n}"
            )
        return Sides(local, fcpc.pixels(J).pushforward(fcpc.transform.matrix).score(z, sigma))
    joint = full_joint(features(J))
    score = [
        _score_by_quadrature(joint, fcpc.transform, one.double(), float(s), points)
        for one, s in zip(z, sigma)
    ]
    return Sides(local, torch.stack(score).to(local.dtype))


def _score_by_quadrature(
    joint: GaussianMixture, transform: Transform, z: Float[Tensor, "n"], sigma: float, points: int
) -> Float[Tensor, "n"]:
    """grad log p_t(z), where p_t(z) = sum_k integral of p_k(x) N(z; A(x), sigma^2) dx over pixels x."""
    size = max(float(part.abs().max()) for part in (z, joint.means, joint.covs.sqrt().nan_to_num()))
    if sigma < 1e-5 * size:
        raise ValueError(
            f"sigma must be at least 1e-5 of the features' size {size:.3g}, got {sigma:g}: rounding"
        )
    masses, means = [], []
    for weight, mean, cov in zip(joint.weights, joint.means, joint.covs):
        mass, score = _component_by_quadrature(gaussian(mean, cov), transform, z, sigma, points)
        masses.append(weight.log() + mass)
        means.append(score)
    return torch.stack(masses).softmax(0) @ torch.stack(means)


def _component_by_quadrature(
    component: GaussianMixture, transform: Transform, z: Float[Tensor, "n"], sigma: float, points: int
) -> tuple[Tensor, Float[Tensor, "n"]]:
    """Log integral and score of one component, on the first grid that agrees with half of its points."""
    side = min(points, 81)
    while True:
        x, log_cell = _lattice(component, transform, z, sigma, side)
        at = transform.forward(x)
        pull = (at - z) / sigma
        log_p = component.log_prob(at) + transform.log_det(x) - pull.square().sum(-1) / 2
        rough = log_p.reshape([side] * component.n)[(slice(None, None, 2),) * component.n]
        change = float(
            rough.logsumexp(tuple(range(component.n))) - log_p.logsumexp(0)
        ) + component.n * math.log(2)
        if abs(change) < 1e-7:
            return log_p.logsumexp(0) + log_cell, log_p.softmax(
                0
            ) @ pull / sigma  # Tweedie: E[A(x) - z] / sigma^2
        if side >= points:
            raise ValueError(
                f"{points} points do not resolve the integral at z = {z.tolist()}, sigma = {sigma:g}"
            )
        side = min(points, 2 * side - 1)


def _lattice(
    component: GaussianMixture, transform: Transform, z: Float[Tensor, "n"], sigma: float, points: int
) -> tuple[Float[Tensor, "grid n"], float]:
    """Pixels [points^n n] where p_k(x) N(z; A(x), sigma^2) is not negligible, and the log volume of a cell.

    In features that product is a Gaussian. The lattice is spanned by the columns of its Cholesky factor,
    mapped to pixels.
    """
    n, (mean, cov) = component.n, (component.mean, component.cov)
    gain = cov @ torch.linalg.inv(component.noised(sigma).cov)
    middle, spread = mean + gain @ (z - mean), sigma**2 * gain
    axes = torch.linalg.cholesky((spread + spread.T) / 2)
    around = torch.cartesian_prod(*[torch.linspace(-8, 8, 41, dtype=torch.float64)] * n).reshape(-1, n)
    origin = transform.inverse(middle[None])[0]
    ahead, behind = (transform.inverse(middle + sign * axes.T) for sign in (1, -1))
    frame = ((ahead - behind) / 2).T  # columns: one standard deviation along each axis, in pixels
    covered = torch.linalg.solve(frame, (transform.inverse(middle + around @ axes.T) - origin).T).T
    sides = [
        torch.linspace(float(a), float(b), points, dtype=torch.float64)
        for a, b in zip(covered.amin(0), covered.amax(0))
    ]
    steps = torch.stack([side[1] - side[0] for side in sides])
    lattice = torch.cartesian_prod(*sides).reshape(-1, n)
    return origin + lattice @ frame.T, float(torch.linalg.slogdet(frame)[1] + steps.log().sum())


class Claim2(NamedTuple):
    """Five measures of how far noising and a linear map A are from commuting, one value per noise level."""

    laws: list[float]  # KL(N_t[A # p] || A # N_t[p])
    scores: list[float]  # E || difference of their scores ||^2
    relative: list[float]  # the same over E || score ||^2
    denoisers: list[float]  # E || difference of the posterior means of A x ||^2
    identity: list[float]  # KL(N_t[A # p] || N_t[p])


def claim_2(p: GaussianMixture, matrix: Float[Tensor, "n n"], sigmas: Iterable[float]) -> Claim2:
    """Claim 2: N_t[A # p] against A # N_t[p] for a Gaussian p, in closed form.

    For orthogonal A the first four readings are zero. The fifth, the KL to N_t[p], is not: a turn commutes
    with noise but still changes the law.
    Choice: we do not have the claim's formula, so five readings of "the non-commutativity shrinks with
    noise" are computed. Scores and the KL to N_t[p] do shrink at high noise, as they do between any two
    laws, because all scores vanish as 1 / sigma; denoisers do, because both laws have the same mean.
    Relative to the score the gap does NOT vanish, nor does the KL between the two laws, which for linear A
    grows to KL(N(0, I) || N(0, A A^T)).
    """
    p = _one_gaussian("claim_2", p)
    A = LinearMap(matrix).matrix
    pushed, rows = p.pushforward(A), []
    for sigma in map(check_sigma, check_list("sigmas", sigmas, 1)):
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


def _one_gaussian(name: str, p: Distribution) -> GaussianMixture:
    """`p` as one Gaussian with a full covariance. Raises ValueError for a mixture."""
    p = full_joint(p)
    if not p.is_gaussian:
        raise ValueError(f"{name} is in closed form for one Gaussian, got a mixture of {len(p.weights)}")
    return p


def _root(cov: Float[Tensor, "n n"], power: float) -> Float[Tensor, "n n"]:
    """A symmetric positive definite matrix to a power."""
    values, vectors = torch.linalg.eigh(cov)
    return vectors @ (values**power).diag() @ vectors.T


def time_dependent_map(z: Distribution, matrix: Float[Tensor, "n n"], sigma: float) -> Float[Tensor, "n n"]:
    """App. D's A_t, exact for a Gaussian z = A x: x -> E z + A_t (x - E x) carries N_t[p] to N_t[A # p].

    A_t = (C_z + t)^(1/2) R (C_x + t)^(-1/2), t = sigma^2 and R = C_z^(-1/2) A C_x^(1/2), which is
    orthogonal: A_0 = A, and A_t becomes a rotation as t grows. So it depends on the distribution, as the
    paper says, but at high noise only through its rotation. Choice: other maps carry these laws to each
    other as well; this one is A at t = 0.
    """
    z, A, t = _one_gaussian("time_dependent_map", z), LinearMap(matrix).matrix, check_sigma(sigma) ** 2
    check_distribution("z", z, len(A))
    x_cov, eye = z.pushforward(torch.linalg.inv(A)).cov, torch.eye(z.n, dtype=torch.float64)
    turn = _root(z.cov, -0.5) @ A @ _root(x_cov, 0.5)
    return _root(z.cov + t * eye, 0.5) @ turn @ _root(x_cov + t * eye, -0.5)


class Transforms(NamedTuple):
    """KL of the sampled law from p in nats: one A above each switch, one A below it, A_t at all levels."""

    above: list[float]
    below: list[float]
    time_dependent: float


def single_transform(
    z: Distribution,
    matrix: Float[Tensor, "n n"],
    switches: Iterable[float],
    steps: int = 200,
    used: Float[Tensor, "n n"] | None = None,
) -> Transforms:
    """App. D: what sampling with ONE transform A costs, KL of the sampled law from p, for Gaussian z = A x.

    The single-A denoiser is A^-1 D_z(A x), the features' denoiser as if noise were isotropic there too. It
    is used at noise levels above each switch (sigma >= 0) with the exact one below, then the other way
    round; last, `time_dependent_map`'s score A_t^T s_z(A_t x) is used at all levels: p's own score by
    construction. Every step is affine, so the images of the origin and the unit vectors give the sampled
    law. `steps` >= 1. A null: another matrix `used` in A's place, x -> E z + used (x - E x), which knows p's
    mean and z's law and has the map wrong. Raises ValueError for one that is not invertible or [n n].
    """
    z, A = _one_gaussian("single_transform", z), LinearMap(matrix)
    check_distribution("z", z, A.n)
    taken = A if used is None else LinearMap(used)
    check_distribution("z", z, taken.n)
    p, n = z.pushforward(torch.linalg.inv(A.matrix)), z.n
    noise, sigmas = (
        torch.cat([torch.zeros(1, n), torch.eye(n)]).double(),
        karras_sigmas(check_count("steps", steps, 1)),
    )
    switches = [check_number("a switch", s, 0, LOUDEST) for s in check_list("switches", switches)]

    def divergence(denoise: Callable) -> float:
        origin, *units = final(sample(denoise, noise, sigmas))
        columns = torch.stack(units, 1) - origin[:, None]
        return kl(gaussian(origin, columns @ columns.T), p).value

    def switched(uses_one: Callable[[float], bool]) -> float:
        def denoise(x, sigma, cond):
            if uses_one(float(sigma[0])):
                features = z.mean + taken.forward(x - p.mean)
                return p.mean + taken.inverse(z.denoise(features, sigma) - z.mean)
            return p.denoise(x, sigma)

        return divergence(denoise)

    def moving(x, sigma, cond):
        A_t = time_dependent_map(z, A.matrix, float(sigma[0]))
        score = z.score(z.mean + (x - p.mean) @ A_t.T, sigma) @ A_t
        return x + sigma[:, None] ** 2 * score

    above = [switched(lambda sigma: sigma > at) for at in switches]
    below = [switched(lambda sigma: sigma <= at) for at in switches]
    return Transforms(above, below, divergence(moving))
