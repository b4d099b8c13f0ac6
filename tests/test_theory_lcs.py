"""Definition 1, Definition 2 and Lemma 1: the CPC's score is a local conditional score, and only then."""

from itertools import chain, combinations

import pytest
import torch

from lcs_utils import diffusion
from lcs_utils.theory import results
from lcs_utils.theory.approximate_cpc import coupled_family
from lcs_utils.theory.cpc import ConditionalProjectiveComposition as CPC
from lcs_utils.theory.distributions import GaussianMixture, gaussian
from lcs_utils.theory.divergence import kl
from lcs_utils.theory.fitted_cpc import fit_cpc
from lcs_utils.theory.lcs import Subsets, lemma_1_subsets, local_conditional_denoiser, local_conditional_score
from lcs_utils.theory.lcs_alternatives import (
    inactive_block_subsets,
    local_conditional_score_reference,
    sum_of_scores,
    window_subsets,
)

LEVELS = diffusion.karras_sigmas(20)[:-1].tolist()


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def correlated(n, rho, scale=1.0):
    return scale * (
        rho * torch.ones(n, n, dtype=torch.float64) + (1 - rho) * torch.eye(n, dtype=torch.float64)
    )


def mixture(k, n, g):
    means = 2 * torch.randn(k, n, generator=g, dtype=torch.float64)
    covs = torch.stack([correlated(n, 0.3 + 0.1 * i) for i in range(k)])
    return GaussianMixture(torch.full((k,), 1 / k), means, covs)


def gaussian_cpc():
    M = {"a": (0, 3), "b": (1, 5), "c": (2,)}
    concepts = {
        j: gaussian(torch.full((len(m),), 1.0 + len(m)), correlated(len(m), 0.4)) for j, m in M.items()
    }
    return CPC(M, gaussian(torch.zeros(7), correlated(7, 0.5)), concepts)


def mixture_cpc():
    g, M = generator(3), {0: (0, 1), 1: (2, 4), 2: (3,)}
    return CPC(M, mixture(2, 6, g), {j: mixture(3, len(m), g) for j, m in M.items()})


def image_cpc():
    """Images of 3 x 4 x 4: condition j colors the quadrant j; the empty image has one shared random light."""
    g = generator(4)
    pixel = torch.arange(48).reshape(3, 4, 4)
    M = {j: tuple(pixel[:, 2 * (j // 2) :, 2 * (j % 2) :][:, :2, :2].flatten().tolist()) for j in range(4)}
    background = gaussian(torch.zeros(48), correlated(48, 0.6))
    return CPC(M, background, {j: mixture(2, 12, g) for j in M})


CPCS = {"gaussian": gaussian_cpc(), "mixture": mixture_cpc(), "image": image_cpc()}


def all_subsets(conditions):
    return map(
        frozenset, chain.from_iterable(combinations(conditions, k) for k in range(len(conditions) + 1))
    )


def noisy_points(cpc, J, batch=20, seed=0):
    """One point at each of 20 noise levels, typical of p_t, and the levels."""
    g = generator(seed)
    sigma = torch.tensor(LEVELS, dtype=torch.float64)
    return diffusion.add_noise(cpc(J).sample(len(sigma), g), sigma, g), sigma


@pytest.mark.parametrize("name", CPCS)
def test_lemma_1_is_exact_for_every_subset_and_noise_level(name):
    cpc = CPCS[name]
    for J in all_subsets(cpc.M):
        x, sigma = noisy_points(cpc, J)
        sides = results.lemma_1(cpc, x, sigma, J)
        relative = sides.gap / max(1.0, float(sides.right.abs().max()))
        assert relative < 1e-10, (J, sides.gap)


def test_the_local_score_never_asks_for_two_conditions_at_once():
    asked = []

    def family(J):
        asked.append(J)
        return CPCS["image"](J)

    x, sigma = noisy_points(CPCS["image"], range(4))
    local_conditional_score(family, x, sigma, CPCS["image"].subsets(range(4)))
    assert max(map(len, asked)) == 1  # so it can be learned from single labels


@pytest.mark.parametrize("name", CPCS)
def test_score_twin_agrees(name):
    cpc = CPCS[name]
    J = frozenset(list(cpc.M)[:2])
    x, sigma = noisy_points(cpc, J)
    slow = local_conditional_score_reference(cpc, x, sigma, cpc.subsets(J))
    torch.testing.assert_close(
        local_conditional_score(cpc, x, sigma, cpc.subsets(J)), slow, rtol=1e-9, atol=1e-9
    )


def test_lemma_1_breaks_when_a_hypothesis_breaks():
    family, M = coupled_family(light=0.5, spill=0.0)  # blocks that share a light are not independent
    p, J = family(frozenset([0, 2])), frozenset([0, 2])
    x = p.sample(10, generator())
    level = torch.full((10,), 0.5, dtype=torch.float64)
    local = local_conditional_score(family, x, level, lemma_1_subsets(M, p.n, J))
    assert float((local - p.score(x, level)).abs().max()) > 0.1


def test_inactive_block_is_background():
    """The misreading N_i = M_k for inactive k fails when the background is correlated across M_k, and only
    then.
    """
    cpc, J = CPCS["gaussian"], frozenset(["a"])
    x, sigma = noisy_points(cpc, J)
    misread = inactive_block_subsets(cpc.M, cpc.n, J)
    assert results.lemma_1(cpc, x, sigma, J, misread).gap > 0.05
    white = CPC(cpc.M, gaussian(torch.zeros(7), torch.eye(7)), cpc.concepts)
    assert results.lemma_1(white, x, sigma, J, misread).gap < 1e-10


@pytest.mark.parametrize("name", ["gaussian", "mixture"])
@pytest.mark.parametrize("sigma", [0.3, 3.0])
def test_converse_local_scores_integrate_to_a_product(name, sigma):
    cpc = CPCS[name]
    J = frozenset(list(cpc.M)[:2])
    p_t = cpc(J).noised(sigma)
    start, stop = p_t.sample(2, generator(5))

    def score(x):
        return local_conditional_score(
            cpc, x, torch.full((len(x),), sigma, dtype=torch.float64), cpc.subsets(J)
        )

    sides = results.converse(score, cpc(J).blocks, start, stop, nodes=200)
    exact = float(p_t.log_prob(stop[None]) - p_t.log_prob(start[None]))
    assert sides.gap < 1e-8 and sides.left == pytest.approx(exact, abs=1e-8)
    for j in J:  # and each summand is the log ratio of the factor p(x_{M_j} | c_j), whatever the rest of J is
        moved = start.clone()
        moved[list(cpc.M[j])] = stop[list(cpc.M[j])]
        factor, at = cpc.concepts[j].noised(sigma), list(cpc.M[j])
        ratio = float(factor.log_prob(stop[None, at]) - factor.log_prob(start[None, at]))
        assert results.path_integral(score, start, moved, 200) == pytest.approx(ratio, abs=1e-8)


def test_converse_fails_without_independence():
    family, M = coupled_family(light=0.5, spill=0.0)
    p = family(frozenset([0, 1, 2]))
    start, stop = p.sample(2, generator(3))
    assert results.converse(p.score, [*M.values(), (6, 7)], start, stop).gap > 1


def test_converse_sees_independence_but_not_crosstalk():
    """Half of eq. (2) only: where conditions act on foreign blocks, blocks are independent at every J and p
    is no CPC.
    """
    family, M = coupled_family(light=0.0, spill=0.4)
    p = family(frozenset([0, 1, 2]))
    start, stop = p.sample(2, generator(3))
    assert results.converse(p.score, [*M.values(), (6, 7)], start, stop).gap < 1e-9
    assert results.lemma_2(family, M, (0, 1, 2)).divergence > 1


def test_lcs_is_a_denoiser_that_samples_the_cpc():
    cpc, J = CPCS["gaussian"], frozenset(["a", "c"])
    denoise = local_conditional_denoiser(cpc, cpc.subsets)
    x, sigma = noisy_points(cpc, J)
    torch.testing.assert_close(denoise(x, sigma, J), cpc.denoise(x, sigma, J), rtol=1e-8, atol=1e-8)
    noise = torch.randn(4000, 7, generator=generator(), dtype=torch.float64)
    drawn = diffusion.final(diffusion.sample(denoise, noise, diffusion.karras_sigmas(32), J))
    fitted = gaussian(drawn.mean(0), torch.cov(drawn.T))
    assert kl(fitted, results.full_joint(cpc(J))).value < 0.03
    assert kl(fitted, results.full_joint(cpc(["a"]))).value > 0.3


def test_sums_of_scores_need_an_independent_background_and_the_local_score_does_not():
    cpc = CPCS["gaussian"]
    white = CPC(cpc.M, gaussian(torch.zeros(7), torch.eye(7)), cpc.concepts)
    for law, exact in ((white, True), (cpc, False)):
        x, sigma = noisy_points(law, cpc.M)
        target = results.full_joint(law(cpc.M)).score(x, sigma)
        local = local_conditional_score(law, x, sigma, law.subsets(cpc.M))
        summed = sum_of_scores(law, x, sigma, cpc.M)
        assert float((local - target).abs().max()) < 1e-9 * float(target.abs().max())
        assert (float((summed - target).abs().max()) < 1e-9 * float(target.abs().max())) == exact
    x, sigma = noisy_points(cpc, ["a"])
    torch.testing.assert_close(
        sum_of_scores(cpc, x, sigma, ["a"]), cpc(["a"]).score(x, sigma)
    )  # one condition: nothing is added


def test_windows_may_change_with_the_noise():
    row = gaussian(torch.zeros(9), correlated(9, 0.5))
    radius = {0.1: 0, 3.0: 4}
    denoise = local_conditional_denoiser(
        lambda J: row, lambda J, s: window_subsets(9, radius[s], J), by_noise=True
    )
    sigma = torch.tensor([0.1, 3.0, 0.1, 3.0], dtype=torch.float64)
    x = diffusion.add_noise(row.sample(4, generator()), sigma, generator())
    for s, r in radius.items():
        at = sigma == s
        score = local_conditional_score(lambda J: row, x[at], sigma[at], window_subsets(9, r))
        torch.testing.assert_close(denoise(x, sigma, ())[at], x[at] + s**2 * score)
    fixed = local_conditional_denoiser(lambda J: row, lambda J: window_subsets(9, 0, J))
    assert float((fixed(x, sigma, ()) - denoise(x, sigma, ()))[1].abs().max()) > 1e-3


def standard_normal(n):
    return gaussian(torch.zeros(n), torch.eye(n))


def lcs_at(subsets, width=7):
    return local_conditional_score(CPCS["gaussian"], torch.zeros(1, width), torch.ones(1), subsets)


def nine_conditions():
    M = {j: (2 * j, 2 * j + 1) for j in range(9)}
    concepts = {j: gaussian([1.0 + 0.2 * j, -1.0], correlated(2, 0.5, 0.3)) for j in M}
    return CPC(M, gaussian(torch.zeros(20), correlated(20, 0.4)), concepts)


def test_length_generalization_from_one_and_two_conditions_to_nine():
    """A CPC fitted to draws with at most two conditions, sampled at nine by the sampler that the nets use."""
    truth, g = nine_conditions(), generator()
    seen = [(), *[(j,) for j in range(9)], *[(j, (j + 1) % 9) for j in range(9)]]
    learned = fit_cpc([(J, truth(J).sample(2000, g)) for J in seen], truth.M)
    noise = torch.randn(4000, 20, generator=g, dtype=torch.float64)
    drawn = diffusion.final(diffusion.sample(learned.denoise, noise, diffusion.karras_sigmas(18), range(9)))
    target = results.full_joint(truth(range(9)))
    assert kl(target, results.full_joint(learned(range(9)))).value < 0.02
    assert kl(gaussian(drawn.mean(0), torch.cov(drawn.T)), target).value < 0.1
    assert kl(target, results.full_joint(truth(range(8)))).value > 1  # one object missing is a gross error


@pytest.mark.parametrize(
    "build, message",
    [
        (
            lambda: CPC({"a": (0, 1), "b": (1,)}, standard_normal(3), {}),
            r"M\['a'\] and M\['b'\] overlap: .* pixel 1",
        ),
        (lambda: CPC({"a": (3,)}, standard_normal(3), {}), r"pixel 3, outside \[0, 3\)"),
        (
            lambda: CPC({"a": (0,)}, standard_normal(3), {"a": standard_normal(2)}),
            r"holds 1 pixels but .* R\^2",
        ),
        (lambda: CPC({"a": (0,)}, standard_normal(3), {}), "M has conditions"),
        (lambda: CPCS["gaussian"](["a", "z"]), r"unknown conditions 'z'; known are \['a', 'b', 'c'\]"),
        (lambda: CPCS["gaussian"].denoise(torch.zeros(1, 7), torch.ones(1), ["z"]), "unknown conditions 'z'"),
        (lambda: lcs_at(CPCS["gaussian"].subsets(["a"]), width=9), r"\[any, 7\], got \[1, 9\]"),
        (lambda: lcs_at(Subsets(((1,),) * 7, (frozenset(),) * 7)), r"N\[0\] must hold pixel 0"),
        (lambda: fit_cpc([((), torch.zeros(2, 2))], {"a": (0,)}), r"no draws for \['a'\]"),
    ],
)
def test_bad_input_is_named(build, message):
    with pytest.raises(ValueError, match=message):
        build()
