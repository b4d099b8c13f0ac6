"""A net for low noise alone: what it is trained on, that it resumes, where it takes over in sampling."""

import math
from dataclasses import replace

import pytest
import torch
from test_training import TINY, tiny_data

from lcs_utils import checkpoints, diffusion, nets
from lcs_utils.evaluation import changes
from lcs_utils.experiments import LOW_NOISE, Experiment
from lcs_utils.models.composition import SplitByNoise
from lcs_utils.presets import CROP_NET, of_row, preset
from lcs_utils.training import run as training
from lcs_utils.training.data import NEAR, Data, draw
from lcs_utils.training.loop import noisy


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def one_dark_object(n=64, side=64, at=(0.75, 0.25)):
    """Images that are gray but for four black pixels at one location (x, y)."""
    images = torch.full((n, 3, side, side), 128, dtype=torch.uint8)
    x, y = (round(side * v) for v in at)
    images[:, :, y - 1 : y + 1, x - 1 : x + 1] = 0
    locations = torch.full((n, 3, 2), math.nan)
    locations[:, 0] = torch.tensor(at)
    colors = torch.full((n, 3), -1, dtype=torch.int8)
    colors[:, 0] = 0
    return Data(images, locations, colors)


def holds_it(data, size=400):
    batch = draw(data, LOW_NOISE, size, generator())
    assert batch.x0.shape == (size, 3, 32, 32) and batch.cond.shape == (size, 1)
    assert not batch.cond.any() and batch.valid is None
    return float((batch.x0.amin((1, 2, 3)) < 0).float().mean())


def test_crops_lie_mostly_over_an_object():
    data = one_dark_object()
    assert holds_it(data) > NEAR
    lied_to = data._replace(locations=1 - data.locations)  # an object that is not there
    assert holds_it(lied_to) < 1 - NEAR


def test_noise_levels_fill_their_range_evenly():
    low, high = LOW_NOISE.sigmas
    levels = diffusion.uniform_sigmas(1000, generator(), low, high)
    u = (levels.log() - math.log(low)).sort().values / math.log(high / low)
    assert torch.allclose(u, (torch.arange(1000) + 0.5) / 1000, atol=1e-3)
    _, sigma, _ = noisy(one_dark_object(), LOW_NOISE, 64, generator())
    assert low <= float(sigma.min()) and float(sigma.max()) <= high
    _, sigma, _ = noisy(one_dark_object(), replace(LOW_NOISE, sigmas=None), 64, generator())
    assert float(sigma.max()) > high  # EDM2's levels, where none are named
    for bad in ((0.5, 0.01), (0.0, 0.5)):
        with pytest.raises(ValueError, match="low must be"):
            diffusion.uniform_sigmas(8, generator(), *bad)


def test_the_order_of_a_batch_carries_no_noise_level():
    levels = diffusion.uniform_sigmas(64, generator(), 0.01, 0.5).tolist()
    assert levels != sorted(levels) and levels != sorted(levels, reverse=True)


def test_experiments_that_make_no_sense_are_refused():
    for wrong, words in (
        (dict(labels="all", crop=32), "no labels, no radius"),
        (dict(labels="none", crop=32, radius=2), "no labels, no radius"),
        (dict(labels="none", crop=0), "mine: crop"),
        (dict(labels="none", crop=32, sigmas=(0.5, 0.01)), "mine: the lowest of sigmas"),
    ):
        with pytest.raises(ValueError, match=words):
            Experiment("mine", **wrong)


def test_it_trains_resumes_and_is_found_again(tmp_path):
    mine = replace(LOW_NOISE, name="mine", crop=16)

    def train(folder, deadline=math.inf):
        where = dict(folder=tmp_path / folder, output=tmp_path / folder / "net")
        return training.run(mine, TINY, data=tiny_data(), deadline=deadline, **where)

    assert train("straight")
    assert not train("stopped", deadline=0) and not (tmp_path / "stopped" / "net").exists()
    assert train("stopped")
    weights = [(tmp_path / folder / "net" / nets.WEIGHTS).read_bytes() for folder in ("straight", "stopped")]
    assert weights[0] == weights[1]
    net = checkpoints.load(str(tmp_path / "straight" / "net")).net
    assert (net.config.cond_dim, net.config.unshuffle, net.config.channels) == (1, 1, CROP_NET["channels"])
    exp, _ = of_row(nets.row(str(tmp_path / "straight" / "net")))
    assert exp == mine
    with pytest.raises(ValueError, match="holds the state of another training.*sigmas"):
        training.run(replace(mine, sigmas=(0.02, 0.5)), TINY, data=tiny_data(), folder=tmp_path / "straight")


def test_a_trial_is_narrow():
    assert preset("tiny_640").config(LOW_NOISE)["channels"] < preset("tiny").config(LOW_NOISE)["channels"]


def above(x_t, sigma, cond):
    return x_t * 0 + cond.sum(-1)[:, None, None, None]


def under(x_t, sigma, cond):
    assert cond.shape == (len(x_t), 1) and not cond.any()  # it is told nothing
    return x_t * 0 - sigma[:, None, None, None]


def test_each_image_goes_to_the_net_of_its_noise():
    split = SplitByNoise(above, under, 0.3)
    x, cond = torch.zeros(4, 3, 8, 8), torch.ones(4, 256)
    levels = torch.tensor([0.1, 0.3, 5.0, 0.2])
    assert split(x, levels, cond)[:, 0, 0, 0].tolist() == pytest.approx([-0.1, 256, 256, -0.2])
    assert split(x, levels, cond[0])[:, 0, 0, 0].tolist() == pytest.approx([-0.1, 256, 256, -0.2])
    assert torch.equal(split(x, levels + 1, cond), above(x, levels + 1, cond))
    assert torch.equal(split(x, levels / 100, cond), under(x, levels / 100, torch.zeros(4, 1)))


def test_sampling_with_the_exact_denoiser_of_both_halves_changes_nothing():
    def exact(x_t, sigma, cond):  # of a Gaussian of deviation .2 and mean .1
        s = sigma[:, None, None, None] ** 2
        return (0.04 * x_t + 0.1 * s) / (0.04 + s)

    noise, cond = torch.randn(4, 3, 8, 8, generator=generator()), torch.zeros(4, 256)
    sigmas = diffusion.karras_sigmas(18)

    def drawn(denoise):
        return diffusion.final(diffusion.sample(denoise, noise, sigmas, cond, "dpmpp_2m"))

    assert torch.equal(drawn(SplitByNoise(exact, exact)), drawn(exact))
    assert not torch.allclose(drawn(SplitByNoise(exact, under)), drawn(exact), atol=0.01)


def test_the_change_takes_the_shared_net(monkeypatch):
    assert changes.CHANGES["low_noise"].also == ("low_noise",)
    monkeypatch.setattr(
        checkpoints, "load", lambda name, *_: type("Pipeline", (), {"denoiser": staticmethod(under)})
    )
    assert changes.CHANGES["stochastic"][:2] == changes.CHANGES["low_noise"][:2]
    changed = changes.CHANGES["low_noise"].apply(above)
    low = changed(torch.zeros(1, 3, 8, 8), torch.tensor([0.01]), torch.ones(1, 256))
    assert float(low.mean()) == pytest.approx(-0.01)
    # which errs less on held-out renders at .2, more at .4
    both = changed(torch.zeros(2, 3, 8, 8), torch.tensor([0.29, 0.31]), torch.ones(2, 256))
    assert both[:, 0, 0, 0].tolist() == pytest.approx([-0.29, 256])
