"""The closed-form local conditional denoiser against its slow twin, and as a training-free Exp. 3 on the
toy CLEVR.
"""

import pytest
import torch

from lcs_utils import diffusion
from lcs_utils.theory.blobs import Blobs
from lcs_utils.theory.local_denoiser import box_sum, patch_denoiser, patch_denoiser_reference

TOY = Blobs(grid_size=6, cell=2)
SPOTS = [0, 3, 8, 11, 18, 21, 26, 29, 34]


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def training_set(n, blobs=TOY, seed=0):
    """Scenes with 1-3 objects and one random label each: the data of Exps. 2 and 3."""
    x0, occupied = blobs.scenes(n, generator(seed))
    label = torch.multinomial(occupied.double(), 1, generator=generator(seed + 1))
    return x0.float(), torch.zeros(n, blobs.cells).scatter_(1, label, 1.0)


def test_box_sum_is_a_sum_over_neighborhoods():
    maps = torch.rand(5, 5, 3, generator=generator())
    for radius in (0, 1, 2, 9):
        near = maps[max(0, 1 - radius) : 2 + radius, max(0, 3 - radius) : 4 + radius]
        torch.testing.assert_close(box_sum(maps, radius)[1, 3], near.sum((0, 1)))


@pytest.mark.parametrize("radius", [0, 1, 5])
@pytest.mark.parametrize("sigma", [0.05, 0.5, 20.0])
def test_slow_twin_agrees(radius, sigma):
    images, grids = training_set(12, Blobs(grid_size=4, cell=2))
    level = torch.full((2,), sigma)
    x_t = diffusion.add_noise(images[:2], level, generator(3))
    fast = patch_denoiser(images, grids, radius, chunk_elements=4 * 4 * 2 * 5)(x_t, level, grids[:2])
    slow = patch_denoiser_reference(images, grids, radius)(x_t, level, grids[:2])
    torch.testing.assert_close(fast, slow, atol=2e-4, rtol=0)
    other = patch_denoiser(images, grids, radius, flip=0.4)(x_t, level, grids[:2])
    assert (
        sigma < 1 or float((other - slow).abs().max()) > 1e-2
    )  # conditions matter where pixels leave it open


def test_counts_that_differ_by_two_weigh_twice():
    """Two training images, told apart by their labels alone: at high noise D mixes them by the labels'
    distance.
    """
    images = torch.stack([torch.full((3, 2, 2), -0.5), torch.full((3, 2, 2), 0.5)])
    grids, asked, level = torch.tensor([[0.0], [1.0]]), torch.tensor([3.0]), torch.tensor([1e6])
    odds = 0.4 / 0.6
    weights = torch.tensor([odds**3, odds**2])
    expected = float((weights / weights.sum()) @ torch.tensor([-0.5, 0.5]))
    for build in (patch_denoiser, patch_denoiser_reference):
        found = build(images, grids, 0, flip=0.4)(torch.zeros(1, 3, 2, 2), level, asked)
        assert float(found.mean()) == pytest.approx(expected, abs=1e-5)


def test_a_sigma_whose_square_is_no_float_gives_the_nearest_patch():
    images, grids = training_set(5)
    for sigma in (1e-30, 1e-6):
        found = patch_denoiser(images, grids, 1)(images[:2] + 0.01, torch.full((2,), sigma), grids[:2])
        torch.testing.assert_close(found, images[:2])


def test_streaming_does_not_change_the_result():
    images, grids = training_set(50)
    x_t, level = 3 * torch.randn(3, 3, 12, 12, generator=generator()), torch.tensor([0.01, 1.0, 80.0])
    whole = patch_denoiser(images, grids, 1)(x_t, level, grids[:3])
    pieces = patch_denoiser(images, grids, 1, chunk_elements=1)(x_t, level, grids[:3])
    torch.testing.assert_close(whole, pieces, atol=1e-5, rtol=1e-5)
    assert bool(whole.isfinite().all())


def drawn(denoise, cond, batch=6):
    noise = torch.randn(batch, 3, TOY.resolution, TOY.resolution, generator=generator())
    x0 = diffusion.final(
        diffusion.sample(denoise, noise, diffusion.karras_sigmas(14), cond, solver="dpmpp_2m")
    )
    return TOY.occupied(x0)


def test_training_free_exp3_length_generalizes_and_a_global_window_does_not():
    images, grids = training_set(400)
    nine = torch.zeros(TOY.cells)
    nine[SPOTS] = 1
    local = drawn(patch_denoiser(images, grids, radius=0), nine)
    assert float(local[:, SPOTS].double().mean()) > 0.95
    globally = drawn(patch_denoiser(images, grids, radius=5), nine)
    assert float(globally.sum(1).double().mean()) <= 3  # one of the training images comes back


@pytest.mark.parametrize(
    "build, message",
    [
        (
            lambda: patch_denoiser(torch.zeros(2, 3, 8, 8), torch.zeros(3, 16), 1),
            r"2 images and grids \[3, 16\]",
        ),
        (lambda: patch_denoiser(torch.zeros(2, 3, 8, 8), torch.zeros(2, 15), 1), "square grid"),
        (
            lambda: patch_denoiser(torch.zeros(2, 3, 9, 9), torch.zeros(2, 16), 1),
            "grid_size 4 does not divide .* 9",
        ),
        (
            lambda: patch_denoiser(torch.zeros(2, 3, 8, 8), torch.zeros(2, 16), -1),
            "radius must be >= 0, got -1",
        ),
        (lambda: patch_denoiser(torch.zeros(2, 3, 8, 8), torch.zeros(2, 16), 1, flip=0.7), "flip < 0.5"),
        (lambda: two(torch.zeros(9)), r"\[16\] or \[1, 16\], got \[9\]"),
    ],
)
def test_bad_input_is_named(build, message):
    with pytest.raises(ValueError, match=message):
        build()


def two(cond):
    return patch_denoiser(torch.zeros(2, 3, 8, 8), torch.zeros(2, 16), 1)(
        torch.zeros(1, 3, 8, 8), torch.ones(1), cond
    )
