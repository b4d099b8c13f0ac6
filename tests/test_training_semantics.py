"""What a training means: whose average is exported, at which rate each step is taken, from which seed, on
which noise and scenes, and that a net is trained as the denoiser that samples it.
"""

from dataclasses import replace
from itertools import islice

import pytest
import torch
from accelerate import Accelerator
from einops import rearrange
from scipy.optimize import brentq
from test_training import TINY, tiny_data

from lcs_utils import checkpoints, paths
from lcs_utils.clevr.render import render
from lcs_utils.clevr.scenes import sample_scene
from lcs_utils.clevr.shards import INDEX_STRIDE
from lcs_utils.diffusion import add_noise, expand, from_uint8, loss_weight
from lcs_utils.evaluation.family_grids import HELD_OUT
from lcs_utils.experiments import EXP1, EXP2, EXP3
from lcs_utils.models.local_patch import extract_patches, patch_conditions
from lcs_utils.models.magnitude_preserving import renormalize_
from lcs_utils.models.pipeline import ConditionalPipeline
from lcs_utils.models.unet import MCScale
from lcs_utils.training import loop, rendered
from lcs_utils.training import run as training
from lcs_utils.training import state as parts
from lcs_utils.training.data import Batch, Data, draw

CPU = torch.device("cpu")
# EDM2's relative width of 0.05: the density t^gamma on [0, 1] has this standard deviation (eq. 126)
GAMMA = brentq(lambda g: (g + 1) ** 0.5 / ((g + 2) * (g + 3) ** 0.5) - 0.05, 1, 100)


def lasting(steps):
    return replace(TINY, images=TINY.batch * steps, patch_images=TINY.batch * steps)


def averaged(values):
    """The power-function average in closed form: value t weighs the integral of t^gamma over its step."""
    n, t = len(values), torch.arange(1, len(values) + 1, dtype=torch.float64)
    weight = (t / n) ** (GAMMA + 1) - ((t - 1) / n) ** (GAMMA + 1)
    return torch.einsum("t,t...->...", weight, torch.stack(values).double()).float()


def opened(net):
    """The net with its gains open: they start at 0, where it answers nothing."""
    with torch.no_grad():
        net.out_gain.fill_(1.0)
        for module in net.modules():
            if isinstance(module, MCScale):
                module.gain.fill_(0.5)
    return net


def test_what_is_exported_is_the_power_function_average_of_the_parameters_of_each_step(tmp_path):
    size, accelerator = lasting(48), Accelerator(mixed_precision="no", cpu=True)
    state, path = training.start(EXP1, size, 0, CPU), []
    begun = [p.clone() for p in state.ema.parameters()]
    assert all(map(torch.equal, begun, state.objective.net.parameters()))
    for _ in islice(loop.training_loop(state, tiny_data(), EXP1, size, accelerator), 12):
        path.append([p.detach().clone() for p in state.objective.net.parameters()])
    found = dict(state.ema.named_parameters())
    moved = [name for (name, p), before in zip(found.items(), begun, strict=True) if (p - before).any()]
    assert len(moved) > len(found) / 2  # it is not the net that was never trained
    for of, *along in zip(found.values(), *path, strict=True):
        torch.testing.assert_close(of.detach(), averaged(along), atol=1e-5, rtol=1e-5)
    last = state.objective.net.state_dict()
    assert any((p - last[name]).abs().max() > 1e-3 for name, p in found.items())  # nor the last step's net

    training.export(state, EXP1, replace(size, sigma_data=0.14), 0, tmp_path / "net", [], "")
    loaded = checkpoints.load(str(tmp_path / "net"))
    assert loaded.config.sigma_data == 0.14
    stored = loaded.net.state_dict()  # in half precision

    def far(net):
        return sum(float((stored[name] - net[name]).square().sum()) for name in found) ** 0.5

    assert far(state.ema.state_dict()) < 0.2 * far(last)


@pytest.mark.parametrize("steps", [1, 7])
def test_a_known_path_has_the_average_of_edm2s_formula(steps):
    """A parameter that is t^2 after step t, and one that never moves."""
    size, accelerator = lasting(steps), Accelerator(mixed_precision="no", cpu=True)
    state, taken = training.start(EXP1, size, 0, CPU), []

    def step():
        taken.append(len(taken) + 1.0)
        with torch.no_grad():
            state.objective.net.out_gain.fill_(taken[-1] ** 2)

    state.optimizer.step = step
    renormalize_(state.objective)
    state.ema.load_state_dict(state.objective.net.state_dict())
    held = [p.clone() for name, p in state.ema.named_parameters() if name != "out_gain"]
    list(loop.training_loop(state, tiny_data(), EXP1, size, accelerator))
    assert len(taken) == steps
    closed = averaged([torch.tensor(t**2) for t in taken])
    assert float(state.ema.out_gain.detach()) == pytest.approx(float(closed), rel=1e-5)
    if steps > 1:  # an exponent one too small is seen
        assert float(closed) != pytest.approx(sum(taken) ** 2 / steps**2, rel=0.01)
    now = [p for name, p in state.ema.named_parameters() if name != "out_gain"]
    for before, after in zip(held, now, strict=True):
        torch.testing.assert_close(after.detach(), before, atol=1e-5, rtol=1e-5)


def test_each_step_is_taken_at_the_rate_that_the_log_says():
    """Ramp over 3% of the run, 1/sqrt from a quarter on, linearly to 0 in the last quarter."""
    steps, accelerator = 200, Accelerator(mixed_precision="no", cpu=True)
    size = lasting(steps)
    state, used = training.start(EXP1, size, 0, CPU), []
    taken = state.optimizer.step

    def step():
        used.append([group["lr"] for group in state.optimizer.param_groups])
        return taken()

    state.optimizer.step = step
    ramp, plateau, decay, cooldown = range(4), range(20, 22), range(100, 102), range(197, 200)
    asked, logged = [], []
    for part in (ramp, plateau, decay, cooldown):
        state.seen[0] = part[0] * size.batch
        run = loop.training_loop(state, tiny_data(), EXP1, size, accelerator)
        logged += [log.lr for log in islice(run, len(part))]
        asked += part

    def peak_share(t):
        return min(t / 6, 1) * min((50 / max(t, 1)) ** 0.5, 1) * min((200 - t) / 50, 1)

    wanted = [size.learning_rate * peak_share(t) for t in asked]
    assert logged == pytest.approx(wanted) and logged[0] == 0 and len(set(logged)) > 8
    assert all(rates == [lr] for rates, lr in zip(used, logged, strict=True))


def test_a_seed_gives_its_own_weights_and_its_own_data_and_always_the_same():
    def begun(seed, process=0):
        state = training.start(EXP1, TINY, seed, CPU, process)
        batch, sigma, x_t = loop.noisy(tiny_data(), EXP1, 8, state.generator)
        assert all(map(torch.equal, state.ema.parameters(), state.objective.net.parameters()))
        net = torch.cat([p.detach().flatten() for p in state.objective.parameters()])
        return {"net": net, "x0": batch.x0, "cond": batch.cond, "sigma": sigma, "x_t": x_t}

    first, again, other, beside = begun(0), begun(0), begun(1), begun(0, process=1)
    for name in first:
        assert torch.equal(first[name], again[name]), name
        assert not torch.equal(first[name], other[name]), name
        assert torch.equal(first[name], beside[name]) is (name == "net"), name  # processes share their net


@pytest.mark.parametrize("exp", [EXP1, EXP3])
def test_a_net_is_trained_as_the_denoiser_that_samples_it(exp, monkeypatch):
    """x0_hat inside the loss is that of the exported pipeline; of patches, their central cells."""
    size = replace(TINY, sigma_data=0.14)
    state, seen = training.start(exp, size, 0, CPU), []
    opened(state.objective.net)
    loss = parts.edm2_loss
    monkeypatch.setattr(parts, "edm2_loss", lambda x0_hat, *rest: seen.append(x0_hat) or loss(x0_hat, *rest))
    data, generator = tiny_data(), torch.Generator().manual_seed(0)
    x0, cond = from_uint8(data.images[:1]), torch.zeros(1, 256)
    cond[0, [0, 100, 140]] = 1  # also in a corner
    sigma = torch.tensor([0.2])
    x_t = add_noise(x0, sigma, generator)
    with torch.no_grad():
        if exp is EXP1:
            _, error = state.objective(x_t, sigma, Batch(x0, cond))
            found = seen[0]
            assert float(error) == pytest.approx(
                float(loss_weight(sigma, 0.14) * (found - x0).square().mean()), rel=1e-5
            )
        else:
            (patches, valid), (clean, _) = (extract_patches(x, exp.radius, 16) for x in (x_t, x0))
            told = patch_conditions(cond, exp.radius, 16)
            batch = Batch(clean.flatten(0, 1), told.flatten(0, 1), valid.flatten(0, 1))
            state.objective(patches.flatten(0, 1), sigma.expand(256), batch)
            middle = slice(2 * exp.radius, 2 * exp.radius + 2)  # a cell is two pixels
            found = rearrange(seen[0][:, :, middle, middle], "(i j) c y x -> 1 c (i y) (j x)", i=16)
        pipeline = ConditionalPipeline(state.objective.net, 32, exp.radius, sigma_data=0.14)
        sampled = pipeline.denoiser(x_t, sigma, cond)
    torch.testing.assert_close(found, sampled, atol=1e-5, rtol=1e-4)
    shrunk = 0.14**2 / (0.14**2 + 0.2**2) * x_t
    assert (found - shrunk).abs().mean() > 0.01  # the net's own share is part of it


def test_what_lies_outside_the_image_is_0_and_adds_no_error():
    """Exp. 3's patches reach over the border: no noise there, and nothing that the net says there counts."""
    state = training.start(EXP3, TINY, 0, CPU)
    opened(state.objective.net)
    batch, sigma, x_t = loop.noisy(tiny_data(), EXP3, 16, state.generator)
    outside = (batch.valid == 0).expand_as(x_t)
    assert 0.05 < float(outside.float().mean()) < 0.95
    assert not x_t[outside].any() and not batch.x0[outside].any()
    noise = (x_t - batch.x0)[~outside] / expand(sigma, x_t).expand_as(x_t)[~outside]
    assert float(noise.std()) == pytest.approx(1, abs=0.05)  # and all of it inside
    with torch.no_grad():
        loss, error = state.objective(x_t, sigma, batch)
        shouts = state.objective.net.register_forward_hook(
            lambda net, given, told, out: out + 100 * (1 - told["valid"]), with_kwargs=True
        )
        again = state.objective(x_t, sigma, batch)
        assert torch.equal(again[0], loss) and torch.equal(again[1], error)
        shouts.remove()
        state.objective.net.register_forward_hook(lambda net, given, out: out + 100)  # inside it counts
        assert bool((state.objective(x_t, sigma, batch)[1] > 2 * error).all())


def test_exp_2_labels_one_object_of_an_image_and_any_of_them_at_the_next_visit():
    one = Data(*(tensor[20:21] for tensor in tiny_data()))
    labels = draw(one, EXP2, 60, torch.Generator().manual_seed(0)).cond.flatten(1)
    assert labels.sum(1).tolist() == [1] * 60
    assert (labels.sum(0) > 0).sum() == 3


def test_training_scenes_are_those_of_seed_0_in_the_order_of_their_numbers(tmp_path, monkeypatch):
    """Scene i with n objects is number n * INDEX_STRIDE + i of seed 0, and held-out scenes are of another."""
    monkeypatch.setattr(paths, "RUNS", tmp_path)
    exp = replace(EXP1, name="mine", objects=(2, 4))
    data = rendered.load_data(exp, replace(TINY, resolution=16, per_count=2), CPU, 1)
    scenes = [sample_scene(0, n * INDEX_STRIDE + i, n) for n in (2, 3, 4) for i in range(2)]
    shown = torch.as_tensor(render(scenes, 16)).permute(0, 3, 1, 2)
    assert torch.equal(data.images[torch.arange(6)], shown)
    assert (data.colors >= 0).sum(1).tolist() == [2, 2, 3, 3, 4, 4]
    assert HELD_OUT != 0
