"""Guidance by a worse version of a net: the oracle, where it acts, and that local stays local (Def. 1)."""

import pytest
import torch

from lcs_utils import checkpoints, diffusion, locality
from lcs_utils.evaluation import changes
from lcs_utils.models.composition import GUIDED_BELOW, WEIGHT, Guided

COND = torch.zeros(4, 256)


def gaussian(variance, mean=0.1):
    """The exact denoiser of a Gaussian in every pixel."""

    def denoise(x_t, sigma, cond):
        s = sigma[:, None, None, None] ** 2
        return (variance * x_t + mean * s) / (variance + s)

    return denoise


def x(seed=0, side=8):
    return torch.randn(4, 3, side, side, generator=torch.Generator().manual_seed(seed))


def test_away_from_the_guide_by_the_weight_and_only_below():
    levels = torch.tensor([0.5, 2.9, 3.0, 40.0])
    net, guide = gaussian(0.04), gaussian(0.09)
    own, worse = net(x(), levels, COND), guide(x(), levels, COND)
    found = Guided(net, guide, 2.0, 3.0)(x(), levels, COND)
    assert torch.allclose(found[:2], 2 * own[:2] - worse[:2], atol=1e-6)
    assert torch.equal(found[2:], own[2:]) and not torch.allclose(found[:2], own[:2], atol=1e-3)
    one = Guided(net, guide, 2.0, 3.0)(x(), levels, COND[0])  # one condition for all
    assert torch.equal(one, found)


def test_above_its_noise_the_guide_is_not_asked():
    def never(*_):
        raise AssertionError("asked")

    net, at = gaussian(0.04), torch.full((4,), GUIDED_BELOW)
    assert torch.equal(Guided(net, never)(x(), at, COND), net(x(), at, COND))
    with pytest.raises(AssertionError, match="asked"):
        Guided(net, never)(x(), at / 2, COND)


def drawn(denoise, n=2000, spread=0.2):
    noise = torch.randn(n, 3, 2, 2, generator=torch.Generator().manual_seed(1))
    samples = diffusion.sample(denoise, noise, diffusion.karras_sigmas(80), torch.zeros(n, 256), "dpmpp_2m")
    return float(diffusion.final(samples).std())


def test_a_guide_that_spreads_too_far_is_corrected_past_the_net_and_one_that_agrees_changes_nothing():
    """The net's and the guide's Gaussians are both too wide, the guide's more. A guide that errs the other
    way makes it worse.
    """
    true, net = 0.04, gaussian(0.06)
    own = drawn(net)
    assert own == pytest.approx(0.06**0.5, abs=0.01)  # as exact as the sampler
    assert abs(drawn(Guided(net, gaussian(0.09))) - true**0.5) < abs(own - true**0.5)
    assert drawn(Guided(net, net)) == pytest.approx(own, abs=1e-6)
    assert abs(drawn(Guided(net, gaussian(0.03))) - true**0.5) > abs(own - true**0.5)


def blurred(width):
    """A denoiser whose pixel sees a square of pixels around it."""

    def denoise(x_t, sigma, cond):
        pad = width // 2
        return torch.nn.functional.avg_pool2d(x_t, width, stride=1, padding=pad)

    return denoise


def test_of_local_denoisers_it_makes_a_local_one():
    at = (8, 8)
    reach = {
        (net, guide): locality.pixel_influence(
            Guided(blurred(net), blurred(guide)), x(side=16)[0], 0.5, COND[0], [at]
        )
        for net, guide in ((3, 5), (5, 3), (3, 15))
    }
    for (net, guide), found in reach.items():
        rows, columns = (torch.arange(16) - 8).abs()[:, None], (torch.arange(16) - 8).abs()[None]
        outside = torch.maximum(rows, columns) > max(net, guide) // 2
        seen = found.reshape(-1, 16, 16)[0]
        assert not seen[outside].any() and seen[~outside].all()


def test_the_change_is_the_net_guided_by_itself_with_the_low_noise_net_below(monkeypatch):
    loaded = {"exp1@50000": gaussian(0.09), "low_noise": gaussian(0.01)}

    def load(name, *_):
        return type("Pipeline", (), {"denoiser": staticmethod(loaded[name])})

    monkeypatch.setattr(checkpoints, "load", load)
    change = changes.split("exp1/guided")[1]
    denoise, levels = change.apply(gaussian(0.04)), torch.tensor([0.1, 0.29, 0.31, 5.0])
    own, worse, low = (of(x(), levels, COND) for of in (gaussian(0.04), *loaded.values()))
    found = denoise(x(), levels, COND)
    assert torch.equal(found[:2], low[:2]) and torch.equal(found[3], own[3])
    assert torch.allclose(found[2], worse[2] + WEIGHT * (own[2] - worse[2]), atol=1e-6)
    assert change.sampler == changes.CHANGES["stochastic"].sampler
