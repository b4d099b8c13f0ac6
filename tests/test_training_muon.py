"""Muon: what a step is, and that a run by it resumes to the bit."""

import json
import time
from dataclasses import asdict, replace

import pytest
import torch
from test_training import TINY, tiny_data

from lcs_utils import nets
from lcs_utils.experiments import EXP1
from lcs_utils.presets import PRESETS, of_row
from lcs_utils.resumable import read_state
from lcs_utils.training import muon
from lcs_utils.training import run as training


def random(*shape, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("shape", [(16, 40), (40, 16), (24, 24), (1, 9)])
def test_a_matrix_becomes_nearly_orthogonal(shape):
    """Newton-Schulz against the singular value decomposition: the same singular vectors, values near one."""
    matrix = random(*shape)
    left, values, right = torch.linalg.svd(matrix, full_matrices=False)
    seen = left.T @ muon.orthogonalized(matrix) @ right.T
    kept = seen.diagonal()
    assert 0.6 < float(kept.min()) and float(kept.max()) < 1.3
    assert float((seen - kept.diag()).abs().max()) < 1e-3
    if len(values) > 1:  # which the matrix itself is not
        spread = (values / values.norm()).aminmax()
        assert float(spread.max / spread.min) > 1.3 / 0.6


def test_no_gradient_no_step():
    assert not muon.orthogonalized(torch.zeros(3, 5)).any()
    weight = torch.nn.Parameter(random(3, 5))
    optimizer, before = muon.Muon([weight], 0.1), weight.detach().clone()
    optimizer.step()  # has no gradient
    weight.grad = torch.zeros_like(weight)
    optimizer.step()
    assert torch.equal(weight, before)


def stepped(start, gradients, lr=0.02, optimizer=muon.Muon):
    weight = torch.nn.Parameter(start.clone())
    own = optimizer([weight], lr=lr)
    for gradient in gradients:
        weight.grad = gradient.clone()
        own.step()
    return weight.detach()


@pytest.mark.parametrize("shape", [(16, 40), (40, 16)])
def test_steps_of_a_matrix_are_torchs(shape):
    """torch.optim.Muon, which knows matrices alone and rounds to bfloat16; its steps are 0.2 of ours."""
    start, gradients = random(*shape), [random(*shape, seed=seed) for seed in range(1, 5)]

    def torchs(parameters, lr):
        return torch.optim.Muon(parameters, 5 * lr, weight_decay=0, adjust_lr_fn="match_rms_adamw")

    ours, theirs = (stepped(start, gradients, optimizer=own) - start for own in (muon.Muon, torchs))
    assert float((ours - theirs).norm() / theirs.norm()) < 0.02
    once = [gradients[-1]] * 4  # without momentum, another step
    assert float((stepped(start, once) - start - theirs).norm() / theirs.norm()) > 0.2


def test_a_convolution_is_its_matrix_and_a_scalar_its_sign():
    start, gradient = random(8, 4, 3, 3), random(8, 4, 3, 3, seed=1)
    for memory in (torch.contiguous_format, torch.channels_last):
        moved = stepped(start.to(memory_format=memory), [gradient])
        flat = stepped(start.flatten(1), [gradient.flatten(1)])
        assert torch.allclose(moved.flatten(1), flat, atol=1e-6)
    for sign in (-1.0, 1.0):
        moved = stepped(torch.tensor(0.5), [torch.tensor(sign * 1e-3)], lr=0.01) - 0.5
        assert moved * sign < 0 and 0.006 < abs(float(moved)) < 0.013


def test_every_shape_moves_equally_far():
    for shape in ((8, 4, 3, 3), (16, 64), (64, 16), (1, 32)):
        start = torch.zeros(shape)
        moved = stepped(start, [random(*shape, seed=2)], lr=0.01)
        size = float(moved.square().mean().sqrt()) / 0.01
        assert 0.6 < size < 1.3, shape


def test_a_run_resumes_to_the_bit_and_says_how_it_was_trained(tmp_path):
    size = replace(TINY, optimizer="muon", learning_rate=0.012)

    def run(name, size=size, **how):
        done = training.run(
            EXP1, size, data=tiny_data(), folder=tmp_path / name, output=tmp_path / f"{name}_net", **how
        )
        return done and (tmp_path / f"{name}_net" / nets.WEIGHTS).read_bytes()

    whole = run("whole")
    assert run("split", deadline=time.time()) is False
    assert 0 < float(read_state(tmp_path / "split" / "state.pt")["seen"][0]) < size.images
    assert run("split") == whole
    row = json.loads((tmp_path / "whole_net" / "row.json").read_text())
    assert of_row(row)[1].optimizer == row["settings"]["optimizer"] == "muon"
    with pytest.raises(ValueError, match="optimizer: 'muon' there, 'adam' here"):
        run("whole", replace(size, optimizer="adam", images=2 * size.images))
    assert run("adam", replace(size, optimizer="adam")) != whole


def test_rows_from_before_there_was_a_choice_are_adams():
    for name in ("tiny", "small"):
        settings = asdict(PRESETS[name])
        row = {"experiment": "exp1", "objects": [1, 3], "preset": settings.pop("name"), "settings": settings}
        settings.pop("optimizer")
        assert of_row(row)[1].optimizer == "adam"


def test_an_unknown_optimizer_is_refused():
    with pytest.raises(ValueError, match="optimizer 'sgd'; allowed: adam, muon"):
        replace(TINY, optimizer="sgd")


def test_medium_is_small_by_muon():
    """As many steps, each of a quarter of the images: nothing else differs."""
    small, medium = asdict(PRESETS["small"]), asdict(PRESETS["medium"])
    differing = {name for name in small if small[name] != medium[name]}
    assert differing == {"name", "optimizer", "batch", "learning_rate", "images", "patch_images"}
    for name in ("images", "patch_images"):
        assert medium[name] // medium["batch"] == small[name] // small["batch"]
