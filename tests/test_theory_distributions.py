"""Gaussians, mixtures and products against autograd, quadrature, Monte Carlo and torch.distributions."""

import pytest
import torch
from torch.distributions import MultivariateNormal, kl_divergence

from lcs_utils import diffusion
from lcs_utils.theory import divergence
from lcs_utils.theory.distributions import GaussianMixture, Product, gaussian
from lcs_utils.theory.divergence import kl

SIGMAS = (0.01, 0.3, 2.0, 40.0)


def random_cov(n, g):
    a = torch.randn(n, n, generator=g, dtype=torch.float64)
    return a @ a.T / n + 0.1 * torch.eye(n, dtype=torch.float64)


def random_mixture(k, n, seed=0):
    g = torch.Generator().manual_seed(seed)
    weights = torch.rand(k, generator=g, dtype=torch.float64) + 0.2
    means = 2 * torch.randn(k, n, generator=g, dtype=torch.float64)
    return GaussianMixture(weights / weights.sum(), means, torch.stack([random_cov(n, g) for _ in range(k)]))


def points(batch, n, seed=1):
    return 2 * torch.randn(batch, n, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


EXAMPLES = {
    "gaussian": random_mixture(1, 4),
    "mixture": random_mixture(3, 4),
    "product": Product(((2, 0), (3, 1)), (random_mixture(2, 2, 5), random_mixture(1, 2, 6))),
}


@pytest.mark.parametrize("name", EXAMPLES)
@pytest.mark.parametrize("sigma", SIGMAS)
def test_score_denoiser_and_noised_agree_with_autograd(name, sigma):
    p, x = EXAMPLES[name], points(6, 4).requires_grad_()
    level = torch.full((6,), sigma, dtype=torch.float64)
    (autograd,) = torch.autograd.grad(p.log_prob(x, level).sum(), x)
    x = x.detach()
    torch.testing.assert_close(p.score(x, level), autograd, rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(p.noised(sigma).score(x), autograd, rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(
        diffusion.score(p.denoise, x, level), autograd, rtol=1e-6, atol=1e-8 / sigma**2
    )


def test_draws_do_not_depend_on_the_eigenvectors_that_a_processor_finds():
    p, same = (GaussianMixture(torch.ones(1), torch.zeros(1, 3), torch.eye(3)[None] + 0.5) for _ in range(2))
    variances, axes = p._axes
    mixed = torch.linalg.qr(points(2, 2)[:, :2]).Q  # the first two variances are equal
    same.__dict__["_axes"] = variances, torch.cat([axes[..., :2] @ mixed, -axes[..., 2:]], -1)
    draws = [law.sample(5, torch.Generator().manual_seed(0)) for law in (p, same)]
    torch.testing.assert_close(*draws)


def test_log_prob_agrees_with_torch_distributions():
    p, x = EXAMPLES["gaussian"], points(6, 4)
    torch.testing.assert_close(p.log_prob(x), MultivariateNormal(p.means[0], p.covs[0]).log_prob(x))


def test_marginal_of_a_product_follows_the_order_of_its_indices():
    p, x = EXAMPLES["product"], points(5, 4)
    alone = p.factors[0].marginal([0]).log_prob(x[:, [2]]) + p.factors[1].log_prob(x[:, [3, 1]])
    torch.testing.assert_close(p.marginal([3, 2, 1]).log_prob(x[:, [3, 2, 1]]), alone)


@pytest.mark.parametrize("name", EXAMPLES)
def test_samples_have_the_stated_moments(name):
    p = EXAMPLES[name]
    x = p.sample(40_000, torch.Generator().manual_seed(0))
    spread = (p.cov.diagonal() / len(x)).sqrt()
    assert bool(((x.mean(0) - p.mean).abs() < 5 * spread).all())
    torch.testing.assert_close(torch.cov(x.T), p.cov, rtol=0.05, atol=0.1)


def test_kl_closed_form_against_torch_and_monte_carlo():
    p, q = EXAMPLES["gaussian"], random_mixture(1, 4, 9)
    exact = kl(p, q)
    oracle = kl_divergence(
        MultivariateNormal(p.means[0], p.covs[0]), MultivariateNormal(q.means[0], q.covs[0])
    )
    assert exact.error == 0 and exact.value == pytest.approx(float(oracle), rel=1e-10)
    split = GaussianMixture([0.5, 0.5], p.means.repeat(2, 1), p.covs.repeat(2, 1, 1))  # p again, as a mixture
    sampled = kl(split, q, 20_000, torch.Generator().manual_seed(0))
    assert sampled.error > 0 and abs(sampled.value - exact.value) < 4 * sampled.error
    wrong = kl(split, EXAMPLES["mixture"], 20_000, torch.Generator().manual_seed(0))
    assert abs(wrong.value - exact.value) > 4 * wrong.error


def test_a_covariance_that_rounding_makes_singular_is_refused():
    """Its log volume is NaN, and a KL of NaN read as 0: identical laws."""
    axes = torch.linalg.qr(points(3, 3)).Q
    for smallest, fits in ((1e-13, True), (1e-15, False)):
        cov = axes @ torch.tensor([1.0, 1.0, smallest]).double().diag() @ axes.T * 1e6
        if fits:
            assert kl(gaussian(torch.zeros(3), cov), random_mixture(1, 3)).value > 1
        else:
            with pytest.raises(ValueError, match="eigenvalue above 1e-12 and 1e-14 of the largest, got"):
                gaussian(torch.zeros(3), cov)


def test_a_divergence_that_is_no_number_is_an_error(monkeypatch):
    p = EXAMPLES["gaussian"]
    monkeypatch.setattr(divergence, "gaussian_kl", lambda *_: torch.tensor(float("nan")))
    with pytest.raises(ValueError, match="must be a number, got nan"):
        kl(p, p)


def test_the_errors_of_a_product_add_in_squares():
    """A product's KL is the sum over its blocks, and the blocks' samples are independent."""
    p, q = (Product(((0, 1), (2, 3)), (random_mixture(2, 2, s), random_mixture(2, 2, s + 1))) for s in (0, 5))
    found = kl(p, q, 500, torch.Generator().manual_seed(0))
    g = torch.Generator().manual_seed(0)
    parts = [kl(a, b, 500, g) for a, b in zip(p.factors, q.factors)]
    assert found.value == pytest.approx(sum(part.value for part in parts))
    assert found.error == pytest.approx(sum(part.error**2 for part in parts) ** 0.5)
    assert found.error > max(part.error for part in parts) > 0


def test_images_keep_their_shape_and_dtype():
    p = random_mixture(2, 12)
    x = torch.zeros(3, 3, 2, 2)
    assert p.denoise(x, torch.ones(3)).shape == x.shape and p.denoise(x, torch.ones(3)).dtype == torch.float32


@pytest.mark.parametrize(
    "build, message",
    [
        (lambda: gaussian([0.0, 0.0], [[1.0, 1.0], [1.0, 1.0]]), "covariance 0 must be .* eigenvalue"),
        (lambda: gaussian([0.0, 0.0], [[1.0, 0.5], [0.0, 1.0]]), "symmetric"),
        (lambda: GaussianMixture([0.5, 0.6], torch.zeros(2, 1), torch.ones(2, 1, 1)), "sum to 1"),
        (lambda: GaussianMixture([1.0], torch.zeros(1, 2), torch.ones(1, 1, 1)), r"got .*\[1, 1, 1\]"),
        (lambda: EXAMPLES["mixture"].marginal([0, 4]), r"\[4\] are outside \[0, 4\)"),
        (lambda: EXAMPLES["mixture"].marginal([1, 1]), r"\[1\] are given more than once"),
        (
            lambda: Product(((0, 1), (1,)), (random_mixture(1, 2), random_mixture(1, 1))),
            r"overlap: indices \[1\]",
        ),
        (
            lambda: Product(((0,), (2,)), (random_mixture(1, 1), random_mixture(1, 1))),
            r"indices \[1\] are in none",
        ),
        (lambda: Product(((0, 1),), (random_mixture(1, 1),)), "sizes"),
        (lambda: kl(EXAMPLES["mixture"], EXAMPLES["gaussian"]), "torch.Generator"),
        (lambda: kl(EXAMPLES["mixture"], random_mixture(1, 3)), r"R\^4 and q in R\^3"),
    ],
)
def test_bad_input_is_named(build, message):
    with pytest.raises(ValueError, match=message):
        build()
