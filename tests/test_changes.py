"""Changes at sampling, on exact denoisers: nothing changes for a composition, and what is not local is
repaired or noticed.
"""

from types import SimpleNamespace

import pytest
import torch
import torch.nn.functional as F

from lcs_utils import checkpoints, nets
from lcs_utils.evaluation import changes
from lcs_utils.evaluation.locality import net_locality
from lcs_utils.experiments import RADIUS
from lcs_utils.models.composition import (
    LinearComposition,
    LocalCondition,
    UnitCondition,
    nearest,
    swapped,
    window,
)

SIDE, M = 8, 2  # a grid of 8x8 cells, 2 px each


def spread(cond, radius):
    """Each cell's number of labels within `radius` cells, as an image [batch 3 16 16]."""
    grid = cond.reshape(-1, 1, SIDE, SIDE)
    near = F.conv2d(grid, torch.ones(1, 1, 2 * radius + 1, 2 * radius + 1), padding=radius)
    return near.repeat_interleave(M, 2).repeat_interleave(M, 3).expand(-1, 3, -1, -1)


def composition(x_t, sigma, cond):
    """A local conditional score (Lemma 1): a cell's brightness depends on the labels within one cell and on
    the pixel.
    """
    return spread(cond, 1) + x_t / (1 + sigma[:, None, None, None])


def elsewhere(x_t, sigma, cond):
    """Not local: any label anywhere darkens the whole image, and the first one alone is drawn."""
    first = cond * (cond.cumsum(1) == 1)
    return spread(first, 0) - 0.1 * cond.sum(1)[:, None, None, None] + x_t / (1 + sigma[:, None, None, None])


def inputs(cells, batch=3, seed=0):
    generator = torch.Generator().manual_seed(seed)
    cond = torch.zeros(batch, SIDE**2)
    cond[:, cells] = 1
    cond[0, 40] = 2  # images differ, and a cell may hold two
    return (
        torch.randn(batch, 3, SIDE * M, SIDE * M, generator=generator),
        torch.tensor([0.1, 1.0, 9.0])[:batch],
        cond,
    )


def test_a_composition_does_not_notice_that_its_condition_is_made_local():
    x, sigma, cond = inputs([0, 9, 18, 63])
    for chunk in (256, 3):
        near = LocalCondition(composition, lambda c: window(c, 1), chunk)
        assert torch.allclose(near(x, sigma, cond), composition(x, sigma, cond), atol=1e-6)
    tight = LocalCondition(composition, lambda c: window(c, 0))
    assert not torch.allclose(
        tight(x, sigma, cond), composition(x, sigma, cond), atol=0.1
    )  # its labels reach one cell


def test_near_is_the_window_of_exp_3():
    """What labels change within its three cells stays, what they change four cells away does not."""
    near = changes.CHANGES["near"]
    x, sigma, cond = inputs([0, 9, 18, 63])
    for reach, stays in ((RADIUS, True), (RADIUS + 1, False)):

        def denoise(x_t, sigma, cond, reach=reach):
            return spread(cond, reach) + x_t / (1 + sigma[:, None, None, None])

        local, whole = near.apply(denoise)(x, sigma, cond), denoise(x, sigma, cond)
        assert torch.allclose(local, whole, atol=1e-5) is stays


def test_what_is_not_local_changes():
    x, sigma, cond = inputs([0, 36])
    for view in (lambda c: window(c, 2), nearest):
        local = LocalCondition(elsewhere, view)(x, sigma, cond)
        assert not torch.allclose(local, elsewhere(x, sigma, cond), atol=0.05)
        bright = (local - x / (1 + sigma[:, None, None, None]))[1, 0]
        assert bright[0, 0] > 0.8 and bright[8, 8] > 0.8  # both labels are drawn, each by its own cell


def test_only_as_many_passes_as_there_are_local_conditions():
    calls = []

    def counting(x_t, sigma, cond):
        return calls.append(len(x_t)) or composition(x_t, sigma, cond)

    x, sigma, cond = inputs([0, 63])
    cond[0, 40] = 0
    LocalCondition(counting, lambda c: window(c, 1))(x, sigma, cond)
    assert sum(calls) == 3 * 3  # nothing, the one label, the other
    calls.clear()
    LocalCondition(counting, nearest)(x, sigma, cond)
    assert sum(calls) == 3 * 2
    calls.clear()
    LocalCondition(counting, nearest)(x, sigma, torch.zeros_like(cond))
    assert sum(calls) == 3


def test_nearest_is_the_nearest():
    cond = torch.zeros(1, 16)
    cond[0, [0, 15]] = 1
    seen = nearest(cond)[0].int().argmax(1)
    assert seen.tolist() == [0, 0, 0, 0, 0, 0, 0, 15, 0, 0, 15, 15, 0, 15, 15, 15]


def test_swapped_tells_the_same_cells_of_another_label():
    cond = torch.zeros(3, 16)
    cond[0, [0, 15]] = cond[1, [0, 3, 15]] = cond[2, 5] = 1
    near, other = (view(cond).int().argmax(-1) for view in (nearest, swapped))
    after = {0: {0: 15, 15: 0}, 1: {0: 3, 3: 15, 15: 0}, 2: {5: 5}}  # one label alone has no other
    for i, to in after.items():
        assert other[i].tolist() == [to[cell] for cell in near[i].tolist()]
    x, sigma, asked = inputs([0, 36])
    local = LocalCondition(elsewhere, swapped)(x, sigma, asked) - x / (1 + sigma[:, None, None, None])
    assert local[1, 0, 0, 0] < 0.2 and local[1, 0, 8, 8] < 0.2  # neither label's own cell hears it


def test_the_unit_condition_has_the_size_of_one_label():
    seen = {}

    def keep(x_t, sigma, cond):
        return seen.update(cond=cond) or x_t

    x, sigma, cond = inputs([1, 2, 3])
    UnitCondition(keep)(x[1:], sigma[1:], cond[1:])
    assert torch.allclose(seen["cond"].norm(dim=1), torch.ones(2))
    UnitCondition(keep)(x, sigma, torch.zeros_like(cond))
    assert not seen["cond"].any()


def test_linear_composition_is_exact_for_a_composition_and_not_for_another():
    x, sigma, cond = inputs([0, 9, 18, 63])
    for chunk in (256, 3):
        linear = LinearComposition(composition, chunk=chunk)
        assert torch.allclose(linear(x, sigma, cond), composition(x, sigma, cond), atol=1e-5)
    assert torch.equal(
        linear(x, sigma, torch.zeros_like(cond)), composition(x, sigma, torch.zeros_like(cond))
    )
    assert not torch.allclose(
        LinearComposition(elsewhere)(x, sigma, cond), elsewhere(x, sigma, cond), atol=0.1
    )
    shifted = LinearComposition(
        composition, background=lambda x_t, sigma, cond: composition(x_t, sigma, cond) + 1
    )
    assert not torch.allclose(shifted(x, sigma, cond), composition(x, sigma, cond), atol=0.1)


@pytest.mark.parametrize("net", ["exp1/linear", "exp2/linear"])
def test_a_net_asked_for_nothing_answers_with_the_background(net):
    denoise, _ = changes.denoiser(net)
    x, sigma = torch.randn(2, 3, 32, 32), torch.ones(2)
    nothing, one = torch.zeros(2, 256), torch.zeros(2, 256)
    one[0, 5] = 1
    with torch.no_grad():
        empty, told = denoise(x, sigma, nothing), denoise(x, sigma, one)
    torch.testing.assert_close(told[1], empty[1])
    assert (told[0] - empty[0]).abs().max() > 1e-3


def test_a_background_net_gives_its_own_score(monkeypatch):
    """Objects on a floor that the object net never drew alone: only the background's own net makes the sum
    exact.
    """

    def floor(x_t, sigma, cond):
        return composition(x_t, sigma, torch.zeros_like(cond))

    def blind(x_t, sigma, cond):
        return composition(x_t, sigma, cond) + (cond.sum(1) == 0).float()[:, None, None, None]

    floors = {
        "background_empty": floor,
        "background_one": lambda x_t, sigma, cond: floor(x_t, sigma, cond) + 1,
    }
    monkeypatch.setattr(
        checkpoints, "load", lambda name, preset, device: SimpleNamespace(denoiser=floors[name])
    )
    x, sigma, cond = inputs([0, 9, 18, 63])
    added = {name: changes.CHANGES[name].apply(blind) for name in ("linear", "linear_empty", "linear_one")}
    close = {
        name: torch.allclose(d(x, sigma, cond), composition(x, sigma, cond), atol=1e-4)
        for name, d in added.items()
    }
    assert close == {"linear": False, "linear_empty": True, "linear_one": False}


def test_rows_know_the_weights_of_both_nets(monkeypatch):
    rows = {"exp1_1": "a" * 64, "background_empty": "b" * 64}
    monkeypatch.setattr(nets, "row", lambda name, preset: {"sha256": rows[name]})
    assert changes.weights("exp1_1") == changes.weights("exp1_1/near") == "a" * 12
    before = changes.weights("exp1_1/linear_empty")
    rows["background_empty"] = "c" * 64
    assert len({"a" * 12, before, changes.weights("exp1_1/linear_empty")}) == 3


def test_names():
    assert changes.split("exp1") == ("exp1", None)
    assert set(nets.CHANGED) == set(changes.CHANGES)  # each is said in words
    assert changes.split("exp2/unit") == ("exp2", changes.CHANGES["unit"])
    with pytest.raises(
        ValueError,
        match="unknown change 'far' in 'exp2/far'; allowed: unit, near, nearest, swapped, low_noise",
    ):
        changes.split("exp2/far")
    x, sigma, cond = inputs([0])
    with pytest.raises(ValueError, match=r"grid_size 8 does not divide the image's sides \[15, 15\]"):
        LocalCondition(composition)(x[..., :15, :15], sigma, cond)


def test_locality_is_measured_in_float32_whatever_the_net_was_trained_in(monkeypatch):
    """Half precision is coarse beside the small differences of low noise, and so is TF32, a GPU's default."""
    assert changes.denoiser("exp1")[0].net.config.dtype_inside == "bfloat16"
    seen, cudnn = [], torch.backends.cudnn
    monkeypatch.setattr(net_locality, "read", lambda preset: [])

    def rows(net, denoise, *_, **__):
        seen.append((denoise.net.config.dtype_inside, cudnn.allow_tf32, cudnn.enabled))
        return []

    monkeypatch.setattr(net_locality, "net_rows", rows)
    monkeypatch.setattr(net_locality, "write", lambda *_: None)
    before = cudnn.allow_tf32
    net_locality.measure("exp1")
    assert seen == [("float32", False, True)] and cudnn.allow_tf32 is before
