"""Eqs. (9), (10) against exact Jacobians: linear, additive, Gaussian, product, blob denoisers, and who is
not local.
"""

from itertools import product

import pytest
import torch
import torch.nn.functional as F

from lcs_utils import diffusion, locality, locality_profile
from lcs_utils.clevr.conditions import TEST_LOCATIONS, test_condition
from lcs_utils.evaluation.locality import net_locality
from lcs_utils.models.precond import EDMDenoiser
from lcs_utils.theory import blobs as toy
from lcs_utils.theory.distributions import GaussianMixture, Product, gaussian

C, H, W = 2, 4, 5
TARGETS = [(0, 0), (1, 3), (3, 4), (2, 2)]


def normal(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


A = normal(C * H * W, C * H * W, seed=1)


def linear(x, sigma, cond):
    return (x.flatten(1) @ A.T).reshape(x.shape)


def additive(x, sigma, cond):
    """D = x / (1 + sigma^2) + sum_k c_k b_k: the influence of condition k is c_k ||b_k[u]||, whatever
    x is.
    """
    b = normal(3, *x.shape[1:], seed=2)
    cond = cond.double().expand(len(x), -1)
    return x / (1 + diffusion.expand(sigma, x) ** 2) + torch.einsum("bk,kchw->bchw", cond, b)


def test_a_vector_condition_reaches_any_net_as_a_batch():
    """Eqs. (9), (10) and the profile of one image also work with a net that accepts only batches."""
    asked = torch.tensor([1.0, 0.0, 1.0], dtype=torch.float64)

    def strict(x, sigma, cond):
        assert cond.shape == (len(x), 3)
        return additive(x, sigma, cond)

    x0, without = normal(C, H, W), locality.without_each(asked)
    found = [locality.pixel_influence(D, x0, 1.0, asked, TARGETS) for D in (strict, additive)]
    assert torch.equal(*found)
    profile = locality_profile.profile(
        strict, x0, normal(C, H, W, seed=5), (0.5, 2.0), asked, without, TARGETS
    )
    assert profile.conditions.shape == (2, 2, H, W)


@pytest.mark.parametrize("chunk", [1, 3, 16])
def test_pixel_influence_of_a_linear_denoiser_is_its_matrix(chunk):
    found = locality.pixel_influence(linear, normal(C, H, W), 0.7, None, TARGETS, chunk)
    exact = A.reshape(C, H, W, C, H, W).abs().mean((0, 3))
    torch.testing.assert_close(found, torch.stack([exact[r, c] for r, c in TARGETS]))


def test_all_targets_share_one_forward_pass_and_no_pass_is_larger_than_its_chunk():
    batches = []

    def counted(x, sigma, cond):
        batches.append(len(x))
        return additive(x, sigma, cond)

    cond = torch.ones(3)
    locality.pixel_influence(counted, normal(C, H, W), 1.0, cond, TARGETS, chunk=2)
    assert batches == [1]
    locality.condition_influence(counted, normal(C, H, W), 1.0, cond, locality.without_each(cond), chunk=2)
    assert batches == [1, 3, 1]


@pytest.mark.parametrize("chunk", [1, 2, 16])
def test_condition_influence_of_an_additive_denoiser_is_its_term(chunk):
    cond = torch.tensor([2.0, 0.0, 1.0])
    found = locality.condition_influence(
        additive, normal(C, H, W), 3.0, cond, locality.without_each(cond), chunk
    )
    b = normal(3, C, H, W, seed=2)
    torch.testing.assert_close(found, torch.stack([2 * b[0], b[2]]).square().sum(1).sqrt())


def test_conditions_may_be_sets():
    def denoise(x, sigma, J):
        return x + sum(10.0**j for j in J)

    J = frozenset({0, 1})
    found = locality.condition_influence(denoise, normal(C, H, W), 1.0, J, {j: J - {j} for j in sorted(J)})
    torch.testing.assert_close(found[:, 0, 0], C**0.5 * torch.tensor([1.0, 10.0], dtype=torch.float64))


def field(side=15, length=2.0):
    """A correlated Gaussian field on a line of `side` pixels, covariance exp(-distance / length)."""
    at = torch.arange(side, dtype=torch.float64)
    return gaussian(torch.zeros(side, dtype=torch.float64), torch.exp(-(at[:, None] - at).abs() / length))


@pytest.mark.parametrize("sigma", [0.1, 1.0, 10.0])
def test_gaussian_jacobian_in_closed_form(sigma):
    p = field()
    exact = p.covs[0] @ torch.linalg.inv(p.covs[0] + sigma**2 * torch.eye(p.n, dtype=torch.float64))
    found = locality.pixel_influence(p.denoise, normal(1, 1, p.n), sigma, None, [(0, 7), (0, 0)])
    torch.testing.assert_close(found[:, 0], exact[[7, 0]].abs())


def test_the_denoiser_widens_with_noise_and_the_score_hides_it():
    """Why D and not the score: at high noise the score's own diagonal holds over 90% for any
    distribution.
    """
    p, target = field(), [(0, 7)]

    def width(denoise, sigma):
        heard = locality.pixel_influence(denoise, normal(1, 1, p.n), sigma, None, target)
        return int(locality.locality_window(heard, target)[0])

    widths = [width(p.denoise, s) for s in (0.05, 0.3, 1.0, 10.0)]
    assert widths == sorted(widths) and widths[0] == 1 and widths[-1] >= 5
    assert width(lambda x, sigma, cond: diffusion.score(p.denoise, x, sigma), 10.0) == 1


def test_a_product_is_local_and_a_mixture_is_not():
    """Blocks of a product never see each other (Lemma 1); two scenes that differ everywhere do."""
    block = gaussian([0.0, 0.0], [[1.0, 0.9], [0.9, 1.0]])
    local = Product(((0, 1), (2, 3), (4, 5), (6, 7)), (block,) * 4)
    found = locality.pixel_influence(local.denoise, normal(1, 1, 8), 1.0, None, [(0, 3)])[0, 0]
    assert bool((found[[0, 1, 4, 5, 6, 7]] == 0).all()) and float(found[2]) > 0.1
    assert locality.locality_window(found[None, None], [(0, 3)]).item() == 3
    ends = torch.stack([-torch.ones(8), torch.ones(8)]).double()
    mixture = GaussianMixture(torch.tensor([0.5, 0.5]), ends, 0.01 * torch.eye(8).expand(2, -1, -1))
    found = locality.pixel_influence(mixture.denoise, 0.1 * normal(1, 1, 8), 2.0, None, [(0, 3)])
    assert locality.locality_window(found, [(0, 3)]).item() == 9


BLOBS = toy.Blobs(grid_size=6, cell=2)
CELLS = [7, 10, 25, 28]


def blob_influence(labels, strategy="any", sigma=1.0):
    cond = torch.zeros(BLOBS.cells)
    cond[CELLS] = 1
    x0, _ = BLOBS.scenes(1, torch.Generator().manual_seed(0))
    x_t = x0[0] + sigma * normal(*x0[0].shape, seed=3)
    denoise = toy.denoiser(BLOBS, labels, strategy=strategy)
    return locality.condition_influence(denoise, x_t, sigma, cond, locality.without_each(cond))


def test_full_labels_are_conditionally_local_and_one_label_is_not():
    """Fig. 2 in closed form: with all objects labeled a cell hears its own condition only; with one, all of
    them.
    """
    full, one = blob_influence("all"), blob_influence("one", "any")

    def share(influence, reach):
        return locality.conditional_locality(influence, CELLS, BLOBS.grid_size, reach)

    assert share(full, 0) == share(full, 2) == 1.0
    assert share(one, 0) < 0.6
    elsewhere = BLOBS.to_cells(full[:1, None].expand(-1, 3, -1, -1))[0].sum(1)
    assert elsewhere.nonzero().flatten().tolist() == [CELLS[0]]


def brute_window(influence, row, column, share):
    influence = influence.square()
    for radius in range(max(influence.shape)):
        rows = slice(max(0, row - radius), row + radius + 1)
        columns = slice(max(0, column - radius), column + radius + 1)
        if influence[rows, columns].sum() >= share * influence.sum() * (1 - 1e-9):
            return 2 * radius + 1


@pytest.mark.parametrize("share", [0.5, 0.9, 1.0])
def test_window_against_growing_squares(share):
    maps = normal(len(TARGETS), H, W, seed=5).abs() ** 3
    expected = [brute_window(m, *t, share) for m, t in zip(maps, TARGETS)]
    assert locality.locality_window(maps, TARGETS, share).tolist() == expected


def test_window_at_ties_borders_and_silence():
    flat = torch.ones(1, 3, 3)
    assert locality.locality_window(flat, [(1, 1)], 1 / 9).item() == 1  # exactly the share is enough
    assert locality.locality_window(flat, [(1, 1)], 1 / 9 + 1e-6).item() == 3
    assert locality.locality_window(flat, [(0, 0)], 1.0).item() == 5  # the square reaches over the border
    assert locality.locality_window(0 * flat, [(1, 1)]).item() == 0


def test_energy_is_of_squares_and_faint_wide_tails_count_in_absolute_values_only():
    tail = torch.full((1, 9, 9), 0.05)
    tail[0, 4, 4] = 1.0  # energy 1 against 80 * 0.0025, absolute values 1 against 80 * 0.05
    assert locality.locality_window(tail, [(4, 4)], 0.8).item() == 1
    assert locality.locality_window(tail, [(4, 4)], 0.8, power=1).item() == 9
    with pytest.raises(ValueError, match="power must be > 0 and <= 100, got 0.0"):
        locality.locality_window(tail, [(4, 4)], power=0.0)


def test_profile_is_its_parts():
    x0, eps, cond = normal(C, H, W), normal(C, H, W, seed=7), torch.tensor([1.0, 0.0, 1.0])
    without = locality.without_each(cond)
    found = locality_profile.profile(additive, x0, eps, (0.1, 2.0), cond, without, TARGETS)
    assert found.sigmas == (0.1, 2.0) and found.removed == (0, 2)
    for i, sigma in enumerate(found.sigmas):
        x_t, level = x0 + sigma * eps, torch.tensor([sigma], dtype=torch.float64)
        torch.testing.assert_close(found.x_t[i], x_t)
        torch.testing.assert_close(found.x0_hat[i], additive(x_t[None], level, cond)[0])
        heard = locality.pixel_influence(additive, x_t, sigma, cond, TARGETS)
        torch.testing.assert_close(found.pixels[i], heard)
        again = locality.condition_influence(additive, x_t, sigma, cond, without)
        torch.testing.assert_close(found.conditions[i], again)
    assert found.windows.tolist() == [[1] * 4] * 2
    assert locality_profile.profile(additive, x0, eps, (0.1,), cond, {}, TARGETS).conditions.shape == (
        1,
        0,
        H,
        W,
    )


def test_wrong_use_says_what_is_wrong():
    x, cond = normal(C, H, W), torch.tensor([1.0, 0.0, 1.0])
    weight = torch.nn.Parameter(torch.ones((), dtype=torch.float64))
    with pytest.raises(ValueError, match=r"\(4, 0\), \(0, -1\) lie outside 4 x 5"):
        locality.pixel_influence(linear, x, 1.0, None, [(4, 0), (0, 0), (0, -1)])
    with pytest.raises(ValueError, match="there is none"):
        locality.pixel_influence(linear, x, 1.0, None, [])
    for cut in (lambda x, s, c: x.detach(), torch.no_grad()(linear), lambda x, s, c: weight * x.detach()):
        with pytest.raises(ValueError, match="detaches its input"):
            locality.pixel_influence(cut, x, 1.0, None, [(0, 0)])
    told = {1: cond.clone().zero_()}
    with pytest.raises(ValueError, match=r"what denoise returns .* \[1, 2, 4, 5\], got \[1, 1, 4, 5\]"):
        locality.pixel_influence(lambda x, s, c: x[:, :1], x, 1.0, None, [(0, 0)])
    with pytest.raises(ValueError, match=r"what denoise returns .* \[2, 2, 4, 5\], got \[1, 2, 4, 5\]"):
        locality.condition_influence(lambda x, s, c: x[:1], x, 1.0, cond, told)
    with pytest.raises(TypeError, match="what denoise returns must be a tensor"):
        locality.condition_influence(lambda x, s, c: (x,), x, 1.0, cond, told)
    with pytest.raises(ValueError, match=r"\[1\] are not active .*\[0, 2\]"):
        locality.without_each(cond, [0, 1])
    with pytest.raises(ValueError, match=r"\['a'\] are not active"):
        locality.condition_influence(additive, x, 1.0, cond, {"a": cond.clone()})
    with pytest.raises(ValueError, match="no condition"):
        locality.condition_influence(additive, x, 1.0, cond, {})
    with pytest.raises(ValueError, match="share"):
        locality.locality_window(torch.ones(1, 3, 3), [(1, 1)], 0.0)
    with pytest.raises(ValueError, match="finite"):
        locality.locality_window(torch.full((1, 3, 3), float("nan")), [(1, 1)])
    with pytest.raises(ValueError, match="grid_size"):
        locality.conditional_locality(torch.ones(1, 4, 4), [0], 3, 1)


@pytest.mark.parametrize("wrong", [-1.0, float("nan"), float("inf")])
def test_maps_that_are_no_influence_have_no_locality(wrong):
    """A negative entry gave a share of -2, and NaN read as "nothing responds"."""
    maps = torch.ones(2, 4, 4)
    maps[1, 3, 3] = wrong
    with pytest.raises(ValueError, match="influence must be finite and >= 0"):
        locality.conditional_locality(maps, [0, 3], 2, 0)


@pytest.mark.parametrize("wrong", [float("nan"), float("inf")])
def test_a_denoiser_that_breaks_down_is_named(wrong):
    x, cond = normal(C, H, W), torch.tensor([1.0, 0.0, 1.0])

    def broken(x_t, sigma, cond):
        return additive(x_t, sigma, cond) + wrong

    with pytest.raises(ValueError, match=f"what denoise returns must be finite, got {wrong}"):
        locality.pixel_influence(broken, x, 1.0, cond, TARGETS)
    with pytest.raises(ValueError, match=f"what denoise returns must be finite, got {wrong}"):
        locality.condition_influence(broken, x, 1.0, cond, locality.without_each(cond))


@pytest.mark.parametrize("layer", [torch.nn.Dropout(0.1), torch.nn.BatchNorm2d(3)])
def test_a_net_in_training_mode_is_refused_where_its_answer_would_not_be_its_own(layer):
    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = layer

        def forward(self, x_t, sigma, cond):
            return self.layer(x_t)

    net, x_t = Net(), torch.randn(3, 4, 4, generator=torch.Generator().manual_seed(0))
    with pytest.raises(ValueError, match=f"training mode and has a {type(layer).__name__}; call its eval"):
        locality.pixel_influence(net.train(), x_t, 1.0, None, [(1, 1)])
    within = EDMDenoiser(net.train())
    with pytest.raises(ValueError, match=f"training mode and has a {type(layer).__name__}; call its eval"):
        locality.pixel_influence(within, x_t, 1.0, None, [(1, 1)])
    heard = locality.pixel_influence(net.eval(), x_t, 1.0, None, [(1, 1)])
    assert float(heard[0, 1, 1]) > 0 and int((heard > 0).sum()) == 1  # its own pixel alone


def test_the_rows_of_a_net_are_its_known_windows_and_shares(monkeypatch):
    """A denoiser whose influences are known. In the asked cells a pixel hears itself and, faintly, the 32 at
    distance 4 (8% of the squares, 60% of the absolute values); elsewhere itself alone. A label is heard
    within one cell, and half as much at a distance of two.
    """
    monkeypatch.setattr(net_locality, "SIGMAS", (0.5, 5.0))
    asked = test_condition(5)
    at = [divmod(int(cell), 16) for cell in asked.nonzero()]  # (row, column)
    cell_of = [(int(16 * y), int(16 * x)) for x, y in TEST_LOCATIONS[:5]]
    assert sorted(at) == sorted(cell_of) and set(at) != {(x, y) for y, x in at}
    targets = net_locality.cell_targets([row * 16 + column for row, column in at], 32)
    assert targets == [(2 * row + 1, 2 * column + 1) for row, column in at]

    here = asked.reshape(1, 1, 16, 16).repeat_interleave(2, 2).repeat_interleave(2, 3)
    ring = torch.ones(3, 1, 9, 9) / 20
    ring[:, :, 1:8, 1:8] = 0
    around = torch.full((1, 1, 5, 5), 0.5)
    around[:, :, 1:4, 1:4] = 1

    def denoise(x_t, sigma, cond):
        faint = F.conv2d(x_t, ring.to(x_t.dtype), padding=4, groups=3)
        heard = F.conv2d(cond.reshape(-1, 1, 16, 16), around, padding=2)
        return x_t + here * faint + heard.repeat_interleave(2, 2).repeat_interleave(2, 3)

    found = list(net_locality.net_rows("net", denoise, torch.zeros(2, 3, 32, 32), "w"))
    assert [(row.image, row.sigma) for row in found] == [(0, 0.5), (0, 5.0), (1, 0.5), (1, 5.0)]
    heard = {1: 0.0, 2: 0.0}
    for y, x in at:  # every label reaches 5 x 5 cells, none of them outside the image
        for row, column in product(range(y - 2, y + 3), range(x - 2, x + 3)):
            assert 0 <= row < 16 and 0 <= column < 16
            far = max(abs(row - y), abs(column - x))
            heard[1] += float(far <= 1)
            heard[2] += 1.0 if far <= 1 else 0.5
    for row in found:
        assert (row.net, row.weights, row.k) == ("net", "w", 5)
        assert (row.window, row.window_1) == (1, 9)
        assert row.within_1 == pytest.approx(heard[1] / heard[2], abs=1e-4) and row.within_2 == 1
        assert row.response == pytest.approx(heard[2] * 3**0.5 / 256, abs=1e-4)  # a norm over three channels
