"""Definition 4, eq. (8): log_prob, draws and pixels of a composition in features agree with each other."""

import pytest
import torch

from lcs_utils.theory.cpc import ConditionalProjectiveComposition
from lcs_utils.theory.distributions import gaussian
from lcs_utils.theory.feature_cpc import CouplingMap, FeatureCPC, LinearMap

MATRIX = torch.tensor([[1.0, 0.8], [-0.3, 1.5]], dtype=torch.float64)
SETS = [(), ("u",), ("u", "v")]


def composition():
    background = gaussian([0.3, -0.6], [[0.5, 0.2], [0.2, 0.4]])
    concepts = {"u": gaussian([1.0], [[0.3]]), "v": gaussian([1.5], [[0.2]])}
    return ConditionalProjectiveComposition({"u": (0,), "v": (1,)}, background, concepts)


def draws(fcpc, J, count=20_000):
    return fcpc.sample(count, torch.Generator().manual_seed(0), J)


@pytest.mark.parametrize("J", SETS)
def test_a_linear_map_has_one_law_in_pixels_by_three_ways(J):
    fcpc = FeatureCPC(composition(), LinearMap(MATRIX))
    pixels, x = fcpc.pixels(J), draws(fcpc, J)
    torch.testing.assert_close(fcpc.log_prob(x[:50], J), pixels.log_prob(x[:50]))
    error = (pixels.cov.diagonal() / len(x)).sqrt()
    assert bool(((x.mean(0) - pixels.mean).abs() < 5 * error).all())
    torch.testing.assert_close(torch.cov(x.T), pixels.cov, rtol=0.05, atol=0.01)


@pytest.mark.parametrize("J", SETS)
def test_a_smooth_map_keeps_the_mass_and_the_mean_of_its_draws(J):
    """The density on a grid of pixels: its mass is 1 and its mean is that of the draws."""
    fcpc = FeatureCPC(composition(), CouplingMap())
    ends = ((-5, 5, 401), (-15, 10, 1001))
    first, second = (torch.linspace(*end, dtype=torch.float64) for end in ends)
    grid, cell = torch.cartesian_prod(first, second), float((first[1] - first[0]) * (second[1] - second[0]))
    density = fcpc.log_prob(grid, J).exp() * cell
    assert float(density.sum()) == pytest.approx(1, abs=1e-6)
    x = draws(fcpc, J)
    assert bool(((x.mean(0) - density @ grid).abs() < 5 * x.std(0) / len(x) ** 0.5).all())
