"""The denoising error: exact for an exact denoiser, of scenes no net has seen, and told what the net was
told.
"""

from dataclasses import replace

import pytest
import torch
from test_training import TINY, tiny_data

from lcs_utils.clevr.dataset import INDEX_STRIDE
from lcs_utils.clevr.render import render
from lcs_utils.clevr.scenes import sample_scene
from lcs_utils.diffusion import from_uint8
from lcs_utils.experiments import EXP1, EXPERIMENTS
from lcs_utils.presets import PRESETS
from lcs_utils.training import command
from lcs_utils.training import run as training
from lcs_utils.training.errors import denoising_error, held_out, shrunk


def test_the_error_of_exact_denoisers_is_known():
    x0 = 0.3 * torch.randn(64, 3, 16, 16, generator=torch.Generator().manual_seed(1))
    cond = torch.zeros(64, 8)
    sigmas = (0.05, 0.3, 2.0)

    def gaussian(x, sigma, c):
        return shrunk(x, sigma, c, 0.3)

    for found, sigma in zip(denoising_error(gaussian, x0, cond, sigmas), sigmas):
        assert found == pytest.approx(0.3 * sigma / (0.09 + sigma**2) ** 0.5, rel=0.02)
    identity, oracle = (
        list(denoising_error(d, x0, cond, sigmas)) for d in (lambda x, s, c: x, lambda x, s, c: 0 * x)
    )
    assert identity == pytest.approx(sigmas, rel=0.02) and oracle == pytest.approx([0.3] * 3, rel=0.02)

    def swapped(x, sigma, c):
        return shrunk(x, 1 / sigma, c, 0.3)

    assert next(denoising_error(swapped, x0, cond, (0.05,))) > 2 * next(
        denoising_error(gaussian, x0, cond, (0.05,))
    )


def test_held_out_scenes_are_told_as_in_training_and_are_not_training_scenes():
    found = {
        name: held_out(EXPERIMENTS[name], 32, 12)
        for name in ("exp1", "exp2", "color_1-3", "background_empty")
    }
    assert set(found["exp1"][1].sum(1).tolist()) <= {0.0, 1.0, 2.0, 3.0} and found["exp1"][1].shape == (
        12,
        256,
    )
    assert found["exp2"][1].sum(1).max() == 1 and found["background_empty"][1].sum() == 0
    assert (
        found["color_1-3"][1].shape == (12, 8)
        and found["color_1-3"][1].sum(1).tolist() == [1.0, 2.0, 3.0] * 4
    )
    assert torch.equal(found["exp1"][0], found["exp2"][0]) and not torch.equal(
        found["exp1"][0], found["background_empty"][0]
    )
    trained = from_uint8(
        render([sample_scene(0, n * INDEX_STRIDE + i, n) for n in (1, 2, 3) for i in range(4)], 32)
    )
    apart = (found["exp1"][0][:, None] - trained.permute(0, 3, 1, 2)[None]).abs().mean((2, 3, 4))
    assert apart.min() > 0.01


@pytest.mark.parametrize("name", ["exp1", "exp3", "color_1-3"])
def test_a_row_of_the_table(tmp_path, capsys, name):
    place = tmp_path / "net"
    training.run(EXPERIMENTS[name], TINY, data=tiny_data(), rendered=True, folder=tmp_path, output=place)
    command.main(["errors", str(place), "--preset", "tiny", "--scenes", "3"])
    header, _, row, null = capsys.readouterr().out.splitlines()
    assert header.startswith("| net, tiny | images | images/s | sigma 0.05 |") and row.startswith(
        f"| {place} | 480 |"
    )
    assert row.count("|") == header.count("|") == null.count("|") and "c_skip x alone" in null


def test_no_error_stands_at_noise_a_net_was_not_trained_at(tmp_path, capsys):
    place = tmp_path / "net"
    data = {"data": tiny_data(), "rendered": True}
    training.run(EXPERIMENTS["low_noise"], replace(TINY, images=16), folder=tmp_path, output=place, **data)
    command.main(["errors", str(place), "--preset", "tiny", "--scenes", "3"])
    *_, row, null = capsys.readouterr().out.splitlines()
    for line in (row, null):  # of .05 to 8 the net knows .05 to .4
        told = [cell.strip() != "–" for cell in line.split("|")[4:-1]]
        assert told == [True] * 4 + [False] * 3


def test_a_net_of_own_data_is_not_judged_by_renders(tmp_path, capsys):
    place = tmp_path / "net"
    training.run(EXP1, replace(TINY, images=16), data=tiny_data(), folder=tmp_path, output=place)
    with pytest.raises(SystemExit):
        command.main(["errors", str(place), "--preset", "tiny", "--scenes", "3"])
    assert (
        "was trained on data of your own, of which there are no held-out renders" in capsys.readouterr().err
    )


def test_crops_larger_than_the_images_are_refused():
    with pytest.raises(ValueError, match="mine cuts squares of 40 px, images of preset tiny have 32"):
        PRESETS["tiny"].config(replace(EXPERIMENTS["low_noise"], name="mine", crop=40))


def test_bad_input_is_named(capsys):
    for words, message in (
        (["nothing"], "no checkpoint 'nothing'"),
        (["exp1", "--preset", "tiny", "--scenes", "0"], "--scenes must be"),
    ):
        with pytest.raises(SystemExit):
            command.main(["errors", *words])
        assert message in capsys.readouterr().err
