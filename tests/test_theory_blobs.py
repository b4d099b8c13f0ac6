"""The toy CLEVR: its three exact denoisers against scene-by-scene enumeration, and the story of Figs. 1, 2
and 4.
"""

from dataclasses import replace
from itertools import combinations

import pytest
import torch

from lcs_utils import diffusion
from lcs_utils.theory import blobs as toy
from lcs_utils.theory.blob_scenes import enumerate_scenes, expected_objects
from lcs_utils.theory.blobs import Blobs
from lcs_utils.theory.distributions import GaussianMixture
from lcs_utils.theory_examples import toy_clevr

TINY = Blobs(grid_size=3, cell=1, noise=0.2, count_law=(0.5, 0.3, 0.2), palette=((255, 0, 0), (0, 0, 255)))
SMALL = Blobs(grid_size=6, cell=2)
SPOTS = [0, 3, 8, 11, 18, 21, 26, 29, 34]  # nine cells of SMALL


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def noisy(blobs, batch, sigma, seed=0):
    x0, occupied = blobs.scenes(batch, generator(seed))
    level = torch.full((batch,), sigma, dtype=torch.float64)
    return diffusion.add_noise(x0, level, generator(seed + 1)), level, occupied


def grid_of(blobs, cells):
    grid = torch.zeros(blobs.cells, dtype=torch.long)
    grid[list(cells)] = 1
    return grid


def test_elementary_symmetric_polynomials():
    values = torch.tensor([0.5, 2.0, 3.0, 0.1, 7.0], dtype=torch.float64)
    direct = [sum(float(values[list(s)].prod()) for s in combinations(range(5), k)) for k in range(4)]
    ours = torch.stack(toy.log_symmetric(values.log(), 3)).exp()
    torch.testing.assert_close(ours, torch.tensor(direct, dtype=torch.float64))


@pytest.mark.parametrize("sigma", [0.1, 0.6, 3.0])
@pytest.mark.parametrize("strategy", toy.STRATEGIES)
def test_exp2_is_the_exact_posterior_mean(sigma, strategy):
    """With one label both strategies are the exact single-label model; with none, the unconditional one."""
    x, level, _ = noisy(TINY, 5, sigma)
    for label in (None, 4, 0):
        exact = enumerate_scenes(TINY, label).denoise(x, level)
        grid = grid_of(TINY, [] if label is None else [label])
        ours = toy.denoiser(TINY, "one", strategy=strategy)(x, level, grid)
        torch.testing.assert_close(ours, exact, rtol=0, atol=1e-9)
    wrong = toy.denoiser(replace(TINY, count_law=(1.0,)), "one")(x, level, grid)
    assert float((wrong - exact).abs().max()) > 1e-3


@pytest.mark.parametrize("label", [4, 8])
def test_exp3_is_the_exact_posterior_mean_of_each_window(label):
    x, level, _ = noisy(TINY, 4, 0.7)
    ours = toy.denoiser(TINY, "one", radius=1)(x, level, grid_of(TINY, [label]))
    pixels = TINY.to_cells(torch.arange(27).reshape(1, 3, 3, 3))[0]
    for cell in (0, 1, 4, 8):
        near = [c for c in range(9) if abs(c // 3 - cell // 3) <= 1 and abs(c % 3 - cell % 3) <= 1]
        given = (
            [label] if label in near else [a for a in range(9) if a not in near]
        )  # seen, or known to be elsewhere
        each = [enumerate_scenes(TINY, a) for a in given]
        weights = torch.cat([e.weights / len(each) for e in each])
        scene = GaussianMixture(
            weights, torch.cat([e.means for e in each]), torch.cat([e.covs for e in each])
        )
        idx = pixels[near].flatten().tolist()
        exact = scene.marginal(idx).denoise(x.flatten(1)[:, idx], level)
        center = [idx.index(i) for i in pixels[cell].tolist()]
        torch.testing.assert_close(TINY.to_cells(ours)[:, cell], exact[:, center], rtol=0, atol=1e-9)


@pytest.mark.parametrize("sigma", [0.1, 1.0])
def test_exp1_is_a_cpc(sigma):
    x, level, occupied = noisy(TINY, 3, sigma)
    composition = TINY.cpc()
    for one, s, J in zip(x, level, occupied):
        ours = toy.denoiser(TINY)(one[None], s[None], J)
        exact = composition.denoise(one[None], s[None], J.nonzero().flatten().tolist())
        torch.testing.assert_close(ours, exact, rtol=0, atol=1e-10)


def test_scenes_are_counted_without_error_and_follow_the_count_law():
    x0, occupied = SMALL.scenes(600, generator())
    assert torch.equal(SMALL.occupied(x0), occupied)
    counts = torch.bincount(occupied.sum(1), minlength=4)[1:] / 600
    torch.testing.assert_close(counts, torch.full((3,), 1 / 3), atol=0.08, rtol=0)


def drawn(blobs, cond, batch=12, **kwargs):
    noise = torch.randn(
        batch, 3, blobs.resolution, blobs.resolution, generator=generator(), dtype=torch.float64
    )
    denoise = toy.denoiser(blobs, **kwargs)
    sigmas = diffusion.karras_sigmas(18)
    return blobs.occupied(diffusion.final(diffusion.sample(denoise, noise, sigmas, cond, solver="dpmpp_2m")))


def test_fig1_exp1_and_exp3_draw_nine_objects_and_exp2_does_not():
    nine = grid_of(SMALL, SPOTS)
    exp1 = drawn(SMALL, nine, labels="all")
    exp2 = drawn(SMALL, nine, labels="one")
    exp3 = drawn(SMALL, nine, labels="one", radius=0)
    assert torch.equal(exp1, (nine > 0).expand(12, -1))
    assert bool((exp2.sum(1) <= 3).all()) and bool(
        (exp2[:, SPOTS].sum(1) >= 1).all()
    )  # one label, 0-2 extras
    assert bool(exp3[:, SPOTS].all()) and 9 <= float(exp3.sum(1).double().mean()) < 12
    expected = expected_objects(SMALL, 9, "any", local=True)
    assert float(exp3.sum(1).double().mean()) == pytest.approx(expected, abs=1.5)
    each = drawn(
        SMALL, nine, labels="one", strategy="every"
    )  # the compositional strategy for the same training data
    assert bool(each[:, SPOTS].all()) and bool((each.sum(1) <= 11).all())


@pytest.mark.parametrize("strategy", toy.STRATEGIES)
@pytest.mark.parametrize("labeled", [1, 2, 3, 4])
def test_expected_objects_are_those_of_the_denoiser_where_noise_hides_all(strategy, labeled):
    """There D is (1 - P) empty + P blob, and P summed over cells is the expected number of objects."""
    blobs = Blobs(grid_size=2, cell=1, palette=((255, 0, 0),), count_law=(0.2, 0.3, 0.5))
    x, level = torch.zeros(1, 3, 2, 2, dtype=torch.float64), torch.full((1,), 1e6, dtype=torch.float64)
    D = toy.denoiser(blobs, "one", strategy=strategy)(x, level, grid_of(blobs, range(labeled)))
    empty, blob = blobs.means
    P = (blobs.to_cells(D)[0] - empty) @ (blob - empty) / (blob - empty).square().sum()
    assert float(P.sum()) == pytest.approx(expected_objects(blobs, labeled, strategy, local=False), abs=1e-6)


def test_fig4_trained_on_one_object_local_draws_nine_and_global_one():
    one = replace(SMALL, count_law=(1.0,))
    nine = grid_of(SMALL, SPOTS)
    assert bool((drawn(one, nine, labels="one").sum(1) == 1).all())
    assert torch.equal(drawn(one, nine, labels="one", radius=0), (nine > 0).expand(12, -1))


def sensitivity(blobs, cond, cell, **kwargs):
    """How much each other cell of x_t matters for the denoised `cell`, at a noise level where objects are
    open.
    """
    x, level, _ = noisy(blobs, 1, 0.8, seed=3)
    x.requires_grad_()
    out = blobs.to_cells(toy.denoiser(blobs, **kwargs)(x, level, cond))[0, cell].sum()
    return blobs.to_cells(torch.autograd.grad(out, x)[0]).abs().sum((0, 2))


def test_fig2_exp1_is_local_in_pixels_exp2_is_not_and_the_count_is_the_reason():
    nine, cell = grid_of(SMALL, SPOTS), 14
    elsewhere = torch.arange(SMALL.cells) != cell
    assert float(sensitivity(SMALL, nine, cell, labels="all")[elsewhere].max()) == 0
    assert float(sensitivity(SMALL, nine, cell, labels="one")[elsewhere].max()) > 1e-4
    assert float(sensitivity(SMALL, nine, cell, labels="one", radius=0)[elsewhere].max()) == 0
    # were the other objects independent (a binomial count), one label would suffice for a local score
    chance = torch.distributions.Binomial(8, torch.tensor(0.15, dtype=torch.float64))
    law = chance.log_prob(torch.arange(9.0, dtype=torch.float64)).exp()
    independent = replace(TINY, count_law=tuple((law / law.sum()).tolist()))
    far = torch.arange(9) != 4
    assert float(sensitivity(independent, grid_of(TINY, [0]), 4, labels="one")[far].max()) < 1e-10
    assert float(sensitivity(TINY, grid_of(TINY, [0]), 4, labels="one")[far].max()) > 1e-4


def test_what_composes_is_local_at_labels_and_counts_between_them():
    """By 'every' the one-label model composes; at unlabeled cells it still looks for the extras
    everywhere, Exp. 1 nowhere.
    """
    nine = grid_of(SMALL, SPOTS)
    for cell, local in ((SPOTS[4], True), (14, False)):
        elsewhere = torch.arange(SMALL.cells) != cell
        assert float(sensitivity(SMALL, nine, cell, labels="all")[elsewhere].max()) == 0
        each = sensitivity(SMALL, nine, cell, labels="one", strategy="every")
        assert (float(each[elsewhere].sum() / each.sum()) < 1e-9) == local
        assert local or float(each[elsewhere].sum() / each.sum()) > 0.02


def test_fig2_conditions_act_locally_in_exp1_and_everywhere_in_exp2():
    x, level, _ = noisy(SMALL, 1, 2.0, seed=5)
    with_all, without_last = grid_of(SMALL, SPOTS), grid_of(SMALL, SPOTS[:-1])

    def moved(**kwargs):  # eq. (10), summed over the pixels of each cell
        denoise = toy.denoiser(SMALL, **kwargs)
        return SMALL.to_cells(denoise(x, level, with_all) - denoise(x, level, without_last)).norm(dim=-1)[0]

    others = torch.tensor(SPOTS[:-1])
    assert float(moved(labels="all")[others].max()) == 0
    assert float(moved(labels="one", radius=0)[others].max()) == 0
    assert float(moved(labels="one")[others].max()) > 1e-3


@pytest.mark.parametrize(
    "build, message",
    [
        (lambda: Blobs(grid_size=1, count_law=(0.5, 0.5)), "at most 1 objects"),
        (lambda: Blobs(count_law=(0.5, 0.6)), "sum to 1"),
        (lambda: toy.denoiser(SMALL, "some"), "labels must be one of .* got 'some'"),
        (lambda: toy.denoiser(SMALL, "one", radius=-1), "radius must be >= 0 cells, got -1"),
        (
            lambda: toy.denoiser(SMALL)(torch.zeros(2, 3, 12, 12), torch.ones(2), torch.zeros(35)),
            r"\[36\] .*\[35\]",
        ),
    ],
)
def test_bad_input_is_named(build, message):
    with pytest.raises(ValueError, match=message):
        build()


def test_without_labels_the_objects_are_missed_at_high_noise_alone(monkeypatch):
    """Def. 1's L_i = {} at low noise: on scenes with their own labels Exp. 1 then needs none of them."""
    low, high = toy_clevr.without_labels((0.1, 3.0), 7, scenes=4)
    assert low < 1e-6 < 0.9 < high
    scenes = toy.Blobs.scenes

    def mislabeled(self, batch, g):
        x0, labels = scenes(self, batch, g)
        return x0, labels.roll(1, 1)

    monkeypatch.setattr(toy.Blobs, "scenes", mislabeled)  # what eq. (10) asks: labels against the pixels
    assert toy_clevr.without_labels((0.1,), 7, scenes=4)[0] > 0.9
