"""Lemmas 2-3, Claims 1-2, Corollary 1, Definition 3 and eq. (3): two sides each, and a hypothesis broken."""

import math

import pytest
import torch
from torch.distributions import MultivariateNormal, kl_divergence

from lcs_utils import features
from lcs_utils.theory import feature_space, lcs, results, windows
from lcs_utils.theory.approximate_cpc import (
    approximate_cpc_errors,
    blockwise,
    coupled_family,
    cpc_errors_at,
    ideal,
)
from lcs_utils.theory.cpc import ConditionalProjectiveComposition
from lcs_utils.theory.distributions import GaussianMixture, gaussian
from lcs_utils.theory.divergence import kl
from lcs_utils.theory.feature_cpc import CouplingMap, FeatureCPC, LinearMap
from lcs_utils.theory.lcs import lemma_1_subsets, local_conditional_score
from lcs_utils.theory.lcs_alternatives import inactive_block_subsets, window_subsets
from lcs_utils.theory_examples import feature_maps

JS = [(), (0,), (1, 2), (0, 1, 2)]
TS = (0.01, 0.3, 4.0)


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def mixture_1d(means):
    k = len(means)
    return GaussianMixture(torch.full((k,), 1 / k), torch.tensor(means)[:, None], torch.full((k, 1, 1), 0.3))


def mixture_3d():
    return GaussianMixture([0.5, 0.5], torch.zeros(2, 3), torch.eye(3).repeat(2, 1, 1))


def rotation(angle):
    return torch.tensor(
        [[math.cos(angle), -math.sin(angle)], [math.sin(angle), math.cos(angle)]], dtype=torch.float64
    )


def test_definition_3_is_zero_for_a_cpc_and_grows_with_coupling():
    assert max(approximate_cpc_errors(*coupled_family(0.0, 0.0), JS)) < 1e-12
    rows = torch.tensor([approximate_cpc_errors(*coupled_family(c, c), JS) for c in (0.1, 0.2, 0.4, 0.8)])
    assert bool((rows.diff(dim=0) > 0).all())
    light = approximate_cpc_errors(*coupled_family(0.5, 0.0), JS)
    assert (
        light.e1 > 0.1 and max(light.e2, light.e3) < 1e-12
    )  # light alone is only a dependence between blocks


def test_lemma_2_identity_is_exact_and_the_bound_holds():
    for light, spill in [(0.0, 0.0), (0.3, 0.0), (0.0, 0.3), (0.5, 0.4)]:
        family, M = coupled_family(light, spill)
        for J in JS:
            lemma = results.lemma_2(family, M, J, JS)
            assert lemma.identity == pytest.approx(lemma.divergence, abs=1e-11)
            assert lemma.divergence <= lemma.bound + 1e-12
    assert lemma.bound < 3 * lemma.divergence  # at the full set the bound is not vacuous
    e1, e2, e3 = lemma.errors
    assert e1 + 2 * e2 + e3 < lemma.divergence  # and a smaller factor than |J| = 3 would be false


@pytest.mark.parametrize("sigma", [0.2, 2.0])
def test_lemma_2_at_noise_is_about_the_noised_distribution(sigma):
    """KL by samples and by torch's formula; the LCS is the score of the law that it is measured against."""
    family, M = coupled_family(0.4, 0.4)
    lemma = results.lemma_2(family, M, (1, 2), JS, sigma)
    p, local = (
        results.full_joint(d).noised(sigma) for d in (family(frozenset((1, 2))), ideal(family, M, (1, 2)))
    )
    normal = [MultivariateNormal(d.mean, d.cov) for d in (p, local)]
    assert lemma.divergence == pytest.approx(float(kl_divergence(*normal)), rel=1e-9)
    x, zero = p.sample(20_000, generator()), torch.zeros(20_000, dtype=torch.float64)
    numerical = (p.log_prob(x, zero) - local.log_prob(x, zero)).mean()
    assert lemma.divergence == pytest.approx(float(numerical), rel=0.05)
    assert lemma.identity == pytest.approx(lemma.divergence, abs=1e-11) and lemma.divergence < lemma.bound
    x = family(frozenset((1, 2))).noised(sigma).sample(50, generator())
    level = torch.full((50,), sigma, dtype=torch.float64)
    lcs_score = local_conditional_score(family, x, level, lemma_1_subsets(M, 8, (1, 2)))
    torch.testing.assert_close(lcs_score, local.score(x))


def test_lemma_2_falls_with_noise_and_is_nothing_for_a_cpc():
    family, M = coupled_family(0.4, 0.4)
    at = [results.lemma_2(family, M, (1, 2), JS, sigma) for sigma in (0.0, 0.3, 1.0, 3.0, 10.0)]
    for name in ("divergence", "bound"):
        values = [getattr(lemma, name) for lemma in at]
        assert all(later < earlier for earlier, later in zip(values, values[1:])) and values[-1] > 0.01
    assert at[0] == results.lemma_2(family, M, (1, 2), JS)
    assert max(results.lemma_2(*coupled_family(0.0, 0.0), (1, 2), JS, 0.5)[:3]) < 1e-12
    with pytest.raises(ValueError, match="-1"):
        results.lemma_2(family, M, (1, 2), JS, -1.0)


def test_a_set_of_conditions_may_be_a_generator():
    """It yields once only; with an empty J the second time a dependent law would look like a CPC."""
    family, M = coupled_family(0.5, 0.4)
    assert results.independent_blocks_divergence(family, M, iter((0, 1))) > 0.01
    assert blockwise(family, M, iter((0, 1))).blocks == blockwise(family, M, (0, 1)).blocks
    assert cpc_errors_at(family, M, iter((0, 1))) == cpc_errors_at(family, M, (0, 1))
    for subsets in (lemma_1_subsets, inactive_block_subsets):
        assert subsets(M, 8, iter((0, 1))) == subsets(M, 8, (0, 1))
    assert torch.equal(lcs.law(family, iter((0, 1))).mean, lcs.law(family, (0, 1)).mean)


def test_lemma_3_errors_decrease_with_noise():
    family, M = coupled_family(0.5, 0.4)
    errors = results.lemma_3(family, M, JS, [0.0, 0.1, 0.3, 1.0, 3.0, 10.0])
    assert bool((errors.diff(dim=0) < 0).all())
    zero = results.lemma_3(*coupled_family(0.0, 0.4), JS, [0.0, 1.0])[:, 0]
    assert float(zero.abs().max()) < 1e-12  # "unless already zero" is needed


def pairs_of_distributions():
    family, _ = coupled_family(0.5, 0.4)
    means, covs = torch.tensor([[1.0, 0.0], [-1.0, 1.0]]), torch.stack([torch.eye(2), 0.5 * torch.eye(2)])
    two = GaussianMixture([0.4, 0.6], means, covs)
    return {
        "gaussian 8d": (family(frozenset([0])), family(frozenset([0, 2]))),
        "mixture 1d": (mixture_1d([-1.0, 1.0]), mixture_1d([0.0, 2.0, 2.5])),
        "mixture 2d": (two, gaussian([0.0, 0.0], [[1.5, 0.2], [0.2, 1.0]])),
    }


@pytest.mark.parametrize("name", pairs_of_distributions())
@pytest.mark.parametrize("t", TS)
def test_claim_1_derivative_is_minus_half_the_relative_fisher_information(name, t):
    p, q = pairs_of_distributions()[name]
    sides = results.claim_1(p, q, t)
    assert sides.right < 0 and sides.gap < 1e-6 * abs(sides.right)


def test_claim_1_far_apart_is_right_or_refused():
    for apart in (5.0, 50.0):
        sides = results.claim_1(mixture_1d([-apart, apart]), mixture_1d([0.0, apart]), 0.01)
        assert sides.gap < 1e-9 * abs(sides.right)
    for apart, message in ((500.0, "half of them move a side"), (5000.0, "of p's mass")):
        with pytest.raises(ValueError, match=message):
            results.claim_1(mixture_1d([-apart, apart]), mixture_1d([0.0, apart]), 0.01)


def test_eq_7_heat_equation():
    p, q = pairs_of_distributions()["mixture 2d"]
    x = p.sample(6, generator())
    for law in (p, q):
        for t in TS:
            assert results.heat_equation(law, x, t).gap < 1e-9 / t
    sides = results.heat_equation(p, x, 0.3)
    assert float((sides.left - 2 * sides.right).abs().max()) > 0.1  # without the half it would be false


def test_windows_grow_with_noise():
    """N_i may change with t (Def. 1): for correlations that decay the denoiser needs more of the row at
    more noise.
    """
    row = gaussian(torch.zeros(24), 0.9 ** (torch.arange(24)[:, None] - torch.arange(24)).abs())
    radii = {s: windows.smallest_window(row, s) for s in (0.05, 0.5, 2.0)}
    assert list(radii.values()) == sorted(set(radii.values()))
    errors = [windows.window_error(row, 2.0, r) for r in (0, 2, 5, 23)]
    assert errors == sorted(errors, reverse=True) and errors[-1] < 1e-12 < 0.3 < errors[0]
    white = gaussian(torch.zeros(4), torch.eye(4))
    assert windows.smallest_window(white, 2.0) == 0


def test_the_score_s_window_shrinks_again_where_the_denoiser_s_grows():
    """Both miss the same, sigma^2 apart; at high noise the score is nearly -x / sigma^2, which is local."""
    row = gaussian(torch.zeros(48), 0.9 ** (torch.arange(48)[:, None] - torch.arange(48)).abs())
    radii = {of: [windows.smallest_window(row, s, of=of) for s in (0.05, 1.0, 5.0)] for of in windows.OF}
    assert radii == {"denoiser": [0, 4, 15], "score": [1, 4, 0]}
    sigma, radius, x = 0.7, 2, row.noised(0.7).sample(20_000, generator())
    level = torch.full((len(x),), sigma, dtype=torch.float64)
    subsets = window_subsets(48, radius)
    local, exact = local_conditional_score(lambda J: row, x, level, subsets), row.score(x, level)
    share = float((local - exact).square().sum() / exact.square().sum())
    assert windows.window_error(row, sigma, radius, "score") == pytest.approx(share, rel=0.05)


def test_gaps_are_measured_in_float64():
    assert results.Sides(1.0, 1.0 + 1e-9).gap == pytest.approx(1e-9, rel=1e-6)
    assert results.Sides([1.0, 2.0], [1.0, 2.0 + 1e-9]).gap == pytest.approx(1e-9, rel=1e-6)


def feature_cpc(transform):
    means = torch.tensor([[0.0, 1.0], [0.5, -1.0]])
    background = GaussianMixture([0.5, 0.5], means, 0.5 * torch.eye(2).repeat(2, 1, 1))
    concepts = {"u": mixture_1d([-1.0, 1.0]), "v": mixture_1d([1.5])}
    cpc = ConditionalProjectiveComposition({"u": (0,), "v": (1,)}, background, concepts)
    return FeatureCPC(cpc, transform)


MAPS = {
    "orthogonal": LinearMap(rotation(0.6)),
    "linear": LinearMap([[1.0, 0.8], [-0.3, 1.5]]),
    "smooth": CouplingMap(),
}


@pytest.mark.parametrize("name", MAPS)
@pytest.mark.parametrize("J", [(), ("u",), ("u", "v")])
def test_corollary_1_in_feature_space(name, J):
    fcpc = feature_cpc(MAPS[name])
    z = fcpc.features(J).sample(5, generator())
    sigma = torch.tensor([0.3, 0.5, 1.0, 3.0, 10.0], dtype=torch.float64)
    assert feature_space.corollary_1(fcpc, z, sigma, J).gap < 1e-7


@pytest.mark.parametrize("name", MAPS)
@pytest.mark.parametrize("sigma", [1e-3, 0.02])
def test_corollary_1_below_any_fixed_grid(name, sigma):
    """At little noise the integrand is far narrower than the density, and far off it sits in the density's
    tail.
    """
    fcpc = feature_cpc(MAPS[name])
    z = torch.tensor([[0.3, 1.2], [9.0, -7.0]], dtype=torch.float64)
    sides = feature_space.corollary_1(fcpc, z, torch.full((2,), sigma, dtype=torch.float64), ("u", "v"))
    assert sides.gap < 1e-8 * float(sides.right.abs().max())
    with pytest.raises(ValueError, match="rounding"):
        feature_space.corollary_1(fcpc, z, torch.full((2,), 1e-9, dtype=torch.float64), ("u", "v"))
    with pytest.raises(ValueError, match="9 points do not resolve"):
        feature_space.corollary_1(fcpc, z, torch.full((2,), sigma, dtype=torch.float64), ("u", "v"), points=9)


def test_corollary_1_needs_the_feature_space():
    """In pixel space the same distribution is no CPC: with pixel blocks its local score misses the score by
    far.
    """
    p = feature_cpc(MAPS["orthogonal"])
    x = p.sample(10, generator(), ("u", "v"))
    level = torch.full((10,), 0.5, dtype=torch.float64)
    blocks = {"u": (0,), "v": (1,)}
    local = local_conditional_score(p.pixels, x, level, lemma_1_subsets(blocks, 2, list(blocks)))
    assert float((local - p.pixels(list(blocks)).score(x, level)).abs().max()) > 0.3


@pytest.mark.parametrize("name", MAPS)
def test_maps_invert_and_know_their_volume(name):
    A, x = MAPS[name], torch.randn(4, 2, generator=generator(), dtype=torch.float64)
    torch.testing.assert_close(A.inverse(A.forward(x)), x)
    jacobians = torch.stack(
        [torch.autograd.functional.jacobian(lambda v: A.forward(v[None])[0], one) for one in x]
    )
    torch.testing.assert_close(A.log_det(x), torch.linalg.slogdet(jacobians)[1])


def test_claim_2_orthogonal_maps_commute_and_others_do_not():
    p = gaussian([1.0, -0.5], [[1.0, 0.4], [0.4, 0.6]])
    sigmas = [0.05, 0.2, 1.0, 5.0, 25.0, 125.0]
    commuting = feature_space.claim_2(p, rotation(0.7), sigmas)
    zeros = commuting.laws + commuting.scores + commuting.relative + commuting.denoisers
    assert max(map(abs, zeros)) < 1e-10
    assert commuting.identity[0] > 0.5 and min(commuting.identity) > 0  # a turn still changes the law
    A = torch.tensor([[1.0, 0.8], [-0.3, 1.5]], dtype=torch.float64)
    other = feature_space.claim_2(p, A, sigmas)
    assert all(a > b for a, b in zip(other.identity, other.identity[1:]))
    assert other.scores[2] > other.scores[3] > other.scores[4] > other.scores[5]
    assert other.denoisers[3] > other.denoisers[4] > other.denoisers[5] > 0
    limit = kl(gaussian([0.0, 0.0], torch.eye(2)), gaussian([0.0, 0.0], A @ A.T)).value
    assert other.laws == sorted(other.laws) and other.laws[-1] == pytest.approx(
        limit, rel=1e-3
    )  # this one grows
    assert (
        other.relative == sorted(other.relative) and other.relative[-1] > 0.1
    )  # and so does the gap as a part of the score


def test_claim_2_readings_against_the_laws_themselves():
    """Each reading from denoisers and densities of the two laws, not from the formulas of claim_2."""
    p, A = (
        gaussian([1.0, -0.5], [[1.0, 0.4], [0.4, 0.6]]),
        torch.tensor([[1.0, 0.8], [-0.3, 1.5]], dtype=torch.float64),
    )
    sigma, level = 0.7, torch.full((5,), 0.7, dtype=torch.float64)
    found = feature_space.claim_2(p, A, [sigma])
    pushed = p.pushforward(A)
    after, before = pushed.noised(sigma), p.noised(sigma).pushforward(A)
    # both denoisers of A x are affine, so a mean over N_t[A # p] needs its center and one point along each
    # axis
    z = torch.cat([after.mean[None], after.mean + torch.linalg.cholesky(after.cov).T])

    def mean_square(gap):
        return float(gap[0].square().sum() + (gap[1:] - gap[0]).square().sum())

    x_t = torch.linalg.solve(A, z.T).T
    denoisers = pushed.denoise(z, level[:3]) - p.denoise(x_t, level[:3]) @ A.T
    assert found.denoisers[0] == pytest.approx(mean_square(denoisers), rel=1e-9)
    assert found.scores[0] == pytest.approx(mean_square(after.score(z) - before.score(z)), rel=1e-9)
    normal = {
        name: MultivariateNormal(d.mean, d.cov)
        for name, d in {"after": after, "before": before, "p": p.noised(sigma)}.items()
    }
    assert found.identity[0] == pytest.approx(float(kl_divergence(normal["after"], normal["p"])), rel=1e-9)
    assert found.laws[0] == pytest.approx(float(kl_divergence(normal["after"], normal["before"])), rel=1e-9)
    assert found.identity[0] != pytest.approx(float(kl_divergence(normal["p"], normal["after"])), rel=0.05)


def test_the_time_dependent_map_carries_one_law_to_the_other():
    z, A = (
        gaussian([0.0, 1.5], [[1.2, 0.0], [0.0, 0.4]]),
        torch.tensor([[1.0, 0.8], [-0.3, 1.5]], dtype=torch.float64),
    )
    x = z.pushforward(torch.linalg.inv(A))
    torch.testing.assert_close(feature_space.time_dependent_map(z, A, 0.0), A)
    for sigma in (0.3, 2.0):
        A_t = feature_space.time_dependent_map(z, A, sigma)
        torch.testing.assert_close(A_t @ x.noised(sigma).cov @ A_t.T, z.noised(sigma).cov)
        assert float((A_t - A).abs().max()) > 0.05  # it depends on time
    far = feature_space.time_dependent_map(z, A, 1e4)
    torch.testing.assert_close(far @ far.T, torch.eye(2, dtype=torch.float64), atol=1e-6, rtol=0)
    turn = rotation(0.7)
    torch.testing.assert_close(
        feature_space.time_dependent_map(z, turn, 3.0), turn
    )  # orthogonal maps commute with noise


def test_off_diagonal_is_the_mean_of_the_pairs():
    assert features.off_diagonal(torch.tensor([[1.0, -0.5], [0.5, 1.0]])) == 0.5
    assert features.off_diagonal(torch.eye(3) + 0.25 * (1 - torch.eye(3))) == pytest.approx(0.25)


def test_a_fitted_cpc_is_right_at_three_conditions_for_a_cpc_and_wrong_at_all_counts_otherwise():
    shown = [(), (0,), (1,), (2,), (0, 1), (1, 2)]
    asked = [(0,), (0, 1), (0, 1, 2)]
    errors = {
        c: results.fitted_errors(*coupled_family(*c), shown, asked, 5000, generator())
        for c in [(0, 0), (0.5, 0), (0, 0.3)]
    }
    assert max(errors[0, 0]) < 0.02 and errors[0.5, 0][2] > 0.3 and errors[0, 0.3][2] > 0.3
    assert (
        min(errors[0.5, 0][:2]) > 0.1 and min(errors[0, 0.3][:2]) > 0.1
    )  # no CPC: wrong at counts that were shown, too


def test_one_transform_is_enough_at_high_noise_and_for_rotations():
    z, A = (
        gaussian([0.0, 1.5], [[1.2, 0.0], [0.0, 0.4]]),
        torch.tensor([[1.0, 0.8], [-0.3, 1.5]], dtype=torch.float64),
    )
    above, below, moving = feature_space.single_transform(z, A, [0.0, 1.0, 100.0], steps=100)
    assert moving < 1e-3 < above[0]  # the time-dependent map needs no switch
    assert above[0] == pytest.approx(below[2]) and below[0] == pytest.approx(above[2])  # always, and never
    assert above[0] > 0.4 > 10 * above[1] and below[1] > 0.15 and above[2] < 1e-3
    assert feature_space.single_transform(z, rotation(0.7), [0.0], steps=100).above[0] < 1e-3
    same = feature_space.single_transform(z, A, [0.0, 1.0, 100.0], steps=100, used=A)
    torch.testing.assert_close(torch.tensor(same.above), torch.tensor(above))


def test_at_high_noise_any_map_is_enough_if_it_knows_the_mean():
    """The null of App. D: there no map costs less than A, and of a wrong one a tenth is left, as of A."""
    z = gaussian([0.0, 1.5], [[1.2, 0.0], [0.0, 0.4]])
    A = torch.tensor([[1.0, 0.8], [-0.3, 1.5]], dtype=torch.float64)
    one, none, wrong = (
        feature_space.single_transform(z, A, [0.0, 1.0], steps=100, used=used).above
        for used in (A, torch.eye(2), rotation(math.pi / 2) @ A)
    )
    assert all(at[1] < 0.1 * at[0] for at in (one, none, wrong)) and none[1] < one[1]
    assert wrong[0] > 2 * one[0] and wrong[1] > 2 * one[1]  # the same noise, so it is the map


def mean_differences(family, conditions):
    means = [family(frozenset([j])).mean[None] for j in conditions]
    return features.mean_difference_vectors(means, family(frozenset()).mean[None])


def test_equation_3_is_necessary_and_not_sufficient():
    families = {c: coupled_family(*c)[0] for c in [(0, 0), (0.5, 0), (0, 0.3)]}
    cosine = {c: features.cosine_similarity(mean_differences(f, range(3))) for c, f in families.items()}
    assert features.off_diagonal(cosine[0, 0]) == 0
    assert features.off_diagonal(cosine[0.5, 0]) == 0  # orthogonal mean differences ...
    assert results.independent_blocks_divergence(*coupled_family(0.5, 0.0), (0, 1, 2)) > 0.1  # ... and no CPC
    assert features.off_diagonal(cosine[0, 0.3]) > 0.2  # cross-talk is seen


@pytest.mark.parametrize(
    "build, message",
    [
        (lambda: LinearMap([[1.0, 2.0], [2.0, 4.0]]), "must be invertible, .* singular value"),
        (lambda: LinearMap(torch.ones(2, 3)), r"matrix \[2, 3\]"),
        (lambda: feature_cpc(CouplingMap()).pixels(("u",)), "only a LinearMap .* CouplingMap"),
        (lambda: coupled_family(-0.1, 0.0), r"must be >= 0 and <= 1e\+06, got -0.1"),
        (lambda: coupled_family(0.1, 0.0)[0](frozenset([7])), "unknown conditions 7"),
        (
            lambda: feature_space.claim_2(mixture_1d([0.0, 1.0]), torch.eye(1), [1.0]),
            "one Gaussian, got a mixture of 2",
        ),
        (lambda: results.claim_1(mixture_3d(), mixture_3d(), 1.0), "at most 2 dimensions, got 3"),
        (
            lambda: features.cosine_similarity(torch.tensor([[1.0, 0.0], [0.0, 0.0]])),
            r"vectors \[1\] are zero",
        ),
        (
            lambda: features.mean_difference_vectors([torch.zeros(2, 3)], torch.zeros(2, 4)),
            r"condition 0 .* \[2, 3\]",
        ),
        (lambda: features.off_diagonal(torch.ones(1, 1)), "at least 2 conditions, got 1"),
    ],
)
def test_bad_input_is_named(build, message):
    with pytest.raises(ValueError, match=message):
        build()


def test_mixtures_are_estimated_where_samples_are_given_and_refused_where_not():
    bright = GaussianMixture(
        torch.tensor([0.5, 0.5]), torch.tensor([[-1.0], [1.0]]), torch.full((2, 1, 1), 0.1)
    )

    dark = gaussian([0.0, 0.0], [[0.1, 0.0], [0.0, 0.1]])
    M = {0: (0,), 1: (1,)}
    family = ConditionalProjectiveComposition(M, dark, {0: bright, 1: bright})
    how = {"samples": 2000, "generator": torch.Generator().manual_seed(0)}
    found = results.lemma_2(family, M, [0, 1], **how)
    assert abs(found.divergence) < 0.05 and abs(found.identity) < 0.05
    assert float(results.lemma_3(family, M, [[0, 1]], [0.1, 1.0], **how).abs().max()) < 0.05
    assert abs(results.independent_blocks_divergence(family, M, [0, 1], **how)) < 0.05
    with pytest.raises(ValueError, match="torch.Generator"):
        results.lemma_2(family, M, [0, 1])


def test_what_is_left_with_the_exact_score_is_the_start_s_mean():
    """Noise has mean zero where p_t at the highest noise has p's: the solver's own part is far smaller."""
    centered = gaussian([0.0, 0.0], [[1.2, 0.0], [0.0, 0.4]])
    off = gaussian([0.0, 1.5], [[1.2, 0.0], [0.0, 0.4]])
    left = [feature_space.single_transform(z, feature_maps.MIX, []).time_dependent for z in (centered, off)]
    assert left[0] < 1e-6 < 5e-5 < left[1]
