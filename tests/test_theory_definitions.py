"""What the parts of the theory's statements are defined as: suprema, denominators and the draws of a fit."""

import pytest
import torch

from lcs_utils.theory import feature_space, results, windows
from lcs_utils.theory.approximate_cpc import approximate_cpc_errors, coupled_family, cpc_errors_at
from lcs_utils.theory.distributions import gaussian
from lcs_utils.theory.fitted_cpc import fit_cpc


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def corners(p):
    """The mean and one point along each axis of a Gaussian, where affine maps have their mean square."""
    return torch.cat([p.mean[None], p.mean + torch.linalg.cholesky(p.cov).T])


def mean_square(values):
    """E ||f||^2 of an affine f from its values at `corners`."""
    return float(values[0].square().sum() + (values[1:] - values[0]).square().sum())


def test_the_suprema_of_lemma_2_are_over_j_itself_too():
    family, M = coupled_family(0.5, 0.4)
    J = (0, 1, 2)
    lemma = results.lemma_2(family, M, J, [()])
    assert lemma.errors == approximate_cpc_errors(family, M, [(), J])
    assert lemma.errors.e1 == cpc_errors_at(family, M, J)[0] > 2 * cpc_errors_at(family, M, ())[0]
    assert lemma.divergence <= lemma.bound


def test_a_gap_relative_to_the_score_is_over_its_mean_square():
    p, A = gaussian([1.0, -0.5], [[1.0, 0.4], [0.4, 0.6]]), torch.tensor([[1.0, 0.8], [-0.3, 1.5]])
    for sigma in (0.3, 2.0):
        found = feature_space.claim_2(p, A, [sigma])
        after = p.pushforward(A).noised(sigma)
        score = mean_square(after.score(corners(after)))
        assert found.relative[0] == pytest.approx(found.scores[0] / score, rel=1e-9)


def test_what_a_window_misses_is_a_share_of_the_denoiser():
    """The error of a window and the denoiser's own deviation from its mean, from the denoisers themselves."""
    row = gaussian([0.5, -1.0, 0.0], 0.8 ** (torch.arange(3)[:, None] - torch.arange(3)).abs().double())
    for sigma in (0.3, 2.0):
        x = corners(row.noised(sigma))
        level = torch.full((len(x),), sigma, dtype=torch.float64)
        exact = row.denoise(x, level)
        alone = torch.cat([row.marginal([i]).denoise(x[:, [i]], level) for i in range(3)], 1)
        share = mean_square(alone - exact) / mean_square(exact - row.mean)
        assert windows.window_error(row, sigma, 0) == pytest.approx(share, rel=1e-9)


def test_a_block_is_fitted_on_every_draw_that_has_its_condition():
    g = generator()
    empty, single, pair = (torch.randn(20, 3, generator=g, dtype=torch.float64) + k for k in range(3))
    fitted = fit_cpc([((), empty), (("a",), single), (("a", "b"), pair)], {"a": (0, 1), "b": (2,)})
    both = torch.cat([single, pair])[:, :2]
    torch.testing.assert_close(fitted.concepts["a"].mean, both.mean(0))
    torch.testing.assert_close(fitted.concepts["a"].cov, torch.cov(both.T, correction=0))
    torch.testing.assert_close(fitted.concepts["b"].mean, pair[:, 2:].mean(0))  # never shown alone
