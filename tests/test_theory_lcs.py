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
def test_converse_a_local_score_integrates_to_the_product_of_its_laws(name, sigma):
    cpc = CPCS[name]
    J = list(cpc.M)[:2]
    p_t = cpc(J).noised(sigma)
    start, stop = p_t.sample(2, generator(5))
    found = results.converse(cpc, cpc.M, J, start, stop, sigma, nodes=200)
    owned = [(cpc.concepts[j], list(cpc.M[j])) for j in J]
    owned.append((cpc.background.marginal(cpc(J).blocks[-1]), list(cpc(J).blocks[-1])))
    ends = torch.stack([start, stop])
    ratios = sum(float(own.noised(sigma).log_prob(ends[:, at]).diff()) for own, at in owned)
    assert found == pytest.approx((ratios,) * 3, abs=1e-8)
    joint = results.full_joint(cpc(J)).noised(sigma)
    assert found.law == pytest.approx(float(joint.log_prob(ends).diff()), abs=1e-8)


@pytest.mark.parametrize("dials", [(0.5, 0.0), (0.0, 0.4)])
@pytest.mark.parametrize("J", [(0, 1, 2), (1, 2)])
def test_converse_one_set_of_conditions_shows_that_a_family_is_no_cpc(dials, J):
    """Light and spill: the local score still integrates to eq. (2)'s product, which is not p(.|c_J). With one
    condition and light alone the light is in its laws: nothing to see.
    """
    family, M = coupled_family(*dials)
    found = results.converse(family, M, J, *family(frozenset(J)).sample(2, generator(3)), sigma=0.5)
    assert found.local == pytest.approx(found.product, abs=1e-9) and found.gap > 0.3
    cpc, _ = coupled_family(0.0, 0.0)
    assert results.converse(cpc, M, J, *cpc(frozenset(J)).sample(2, generator(3)), sigma=0.5).gap < 1e-9


def test_a_cpc_whose_conditions_are_clusters_is_local_in_pairs_of_labels():
    """App. E.2: objects that interact form a cluster, and the conditioners are subsets. The score is local
    with both labels at both blocks, and not with one label at each.
    """
    background, M = gaussian(torch.zeros(6), correlated(6, 0.5)), {"a": (0, 1), "b": (2, 3), "c": (4,)}
    pair = gaussian([2.0, 2.0, -1.0, -1.0], correlated(4, 0.6, 0.5))
    alone = {"a": pair.marginal((0, 1)), "b": pair.marginal((2, 3)), "c": gaussian([1.0], [[0.3]])}
    single = CPC(M, background, alone)
    clusters = CPC({"ab": (0, 1, 2, 3), "c": (4,)}, background, {"ab": pair, "c": alone["c"]})

    def family(J):  # a and b together are the cluster
        return clusters({"ab"} | (J - {"a", "b"})) if {"a", "b"} <= J else single(J)

    J = frozenset("abc")
    x, sigma = noisy_points(clusters, ["ab", "c"])
    target = results.full_joint(family(J)).score(x, sigma)
    both = clusters.subsets(["ab", "c"])
    named = Subsets(both.N, tuple(L - {"ab"} | {"a", "b"} if "ab" in L else L for L in both.L))
    torch.testing.assert_close(local_conditional_score(family, x, sigma, named), target)
    one_each = local_conditional_score(family, x, sigma, lemma_1_subsets(M, 6, J))
    assert float((one_each - target).abs().max()) > 0.1 * float(target.abs().max())


@pytest.mark.parametrize("across, exact", [(0.0, True), (0.5, False)])
def test_noise_must_not_connect_the_blocks(across, exact):
    """App. B: a CPC stays one "because adding isotropic Gaussian noise preserves the independence"."""
    cpc, J = CPCS["gaussian"], ["a", "b", "c"]
    noise = 0.5 * correlated(7, across)
    noised = gaussian(cpc(J).mean, cpc(J).cov + noise)
    x = noised.sample(20, generator())
    local = torch.empty_like(x)
    for block, law in zip(cpc(J).blocks, cpc(J).factors, strict=True):
        at = list(block)
        local[:, at] = gaussian(law.mean, law.cov + noise[at][:, at]).score(x[:, at])
    gap = float((local - noised.score(x)).abs().max() / noised.score(x).abs().max())
    assert gap < 1e-12 if exact else gap > 0.1


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


@pytest.mark.parametrize(
    "between, exact", [((0.0, 0.0), True), ((0.0, 0.5), False), ((0.25, 0.5), False), ((0.5, 0.0), False)]
)
def test_independent_blocks_are_not_enough_for_a_sum_of_scores(between, exact):
    """Blocks {0}, {1} and the rest {2}: `between` are the covariances of 0 with 1 and of both with 2. Blocks
    that are independent and both depend on the rest depend on each other through it.
    """
    blocks, rest = between
    background = gaussian(torch.zeros(3), [[1, blocks, rest], [blocks, 1, rest], [rest, rest, 1]])
    cpc = CPC(
        {"a": (0,), "b": (1,)}, background, {"a": gaussian([1.0], [[0.5]]), "b": gaussian([-1.0], [[2]])}
    )
    J, x = ["a", "b"], torch.randn(50, 3, generator=generator(), dtype=torch.float64)
    level = torch.full((50,), 0.5, dtype=torch.float64)
    target = results.full_joint(cpc(J)).score(x, level)
    gap = float((sum_of_scores(cpc, x, level, J) - target).abs().max() / target.abs().max())
    assert gap < 1e-12 if exact else gap > 0.02
    local = local_conditional_score(cpc, x, level, cpc.subsets(J))
    torch.testing.assert_close(local, target, rtol=1e-10, atol=1e-12)


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
