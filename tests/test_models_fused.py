"""Weights normalized ahead give the same bits, in every dtype, and leave the net as it was."""

import pytest
import torch
from torch import nn

from lcs_utils.models import precision
from lcs_utils.models.fused import fuse_, fused
from lcs_utils.models.precision import dtype_on
from lcs_utils.models.unet import EDM2UNet


def net(dtype):
    torch.manual_seed(0)
    small = EDM2UNet(
        cond_dim=4,
        channels=8,
        channel_mult=[1, 2],
        num_blocks=1,
        attention_levels=[1],
        head_channels=8,
        dtype_inside=dtype,
    ).eval()
    for (
        name,
        parameter,
    ) in small.named_parameters():  # as after training: gains not 0, weights not of unit RMS
        parameter.data.mul_(1.7).add_(0.3 if "gain" in name else 0.0)
    return small


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_fused_is_the_same_to_the_bit_in_value_and_gradient(dtype, monkeypatch):
    monkeypatch.setattr(precision, "HALF_IS_SLOW", False)  # in bfloat16 on every processor
    small, x, noise = net(dtype), torch.randn(2, 3, 8, 8), torch.tensor([0.1, -0.4])
    cond = torch.eye(4)[:2]

    def both():
        inputs = x.clone().requires_grad_()
        out = small(inputs, noise, cond)
        return out.detach(), torch.autograd.grad(out.square().sum(), inputs)[0]

    before = both()
    with fused(small):
        inside, again = both(), both()
    for a, b, c, d in zip(before, inside, again, both()):
        assert torch.equal(a, b) and torch.equal(a, c) and torch.equal(a, d) and float(a.abs().max()) > 0


@pytest.mark.parametrize("slow, dtype", [(False, torch.bfloat16), (True, torch.float32)])
def test_half_precision_is_used_where_the_processor_has_it(monkeypatch, slow, dtype):
    monkeypatch.setattr(precision, "HALF_IS_SLOW", slow)
    assert (
        dtype_on(torch.device("cpu"), "bfloat16") is dtype
        and dtype_on(torch.device("cuda"), "bfloat16") is torch.bfloat16
    )
    seen, half = [], net("bfloat16")
    half.conv_in.register_forward_hook(lambda module, inputs, output: seen.append(output.dtype))
    inputs = (
        torch.randn(2, 3, 8, 8, generator=torch.Generator().manual_seed(0)),
        torch.tensor([0.1, -0.4]),
        torch.eye(4)[:2],
    )
    with torch.no_grad():
        apart = float((half(*inputs) - net("float32")(*inputs)).abs().max())
    assert seen == [dtype] and (apart == 0 if dtype is torch.float32 else 0 < apart < 0.1)


def test_inside_the_weights_are_constants_and_outside_they_are_not():
    small, x, noise, cond = net("float32"), torch.randn(1, 3, 8, 8), torch.zeros(1), torch.zeros(1, 4)
    with torch.no_grad(), fused(small):
        first = small(x, noise, cond)
        small.conv_in.weight.data[0].neg_()
        assert torch.equal(small(x, noise, cond), first)
    with torch.no_grad():
        assert not torch.equal(small(x, noise, cond), first), "the changed weight must count again"
    assert not any("forward" in vars(module) for module in small.modules())


def test_a_net_that_was_fused_stays_fused():
    small, inputs = net("float32"), (torch.randn(1, 3, 8, 8), torch.zeros(1), torch.zeros(1, 4))
    fuse_(small)
    kept = [vars(module).get("forward") for module in small.modules()]
    with torch.no_grad(), fused(small), fused(small):
        assert small(*inputs).isfinite().all()
    assert [vars(module).get("forward") for module in small.modules()] == kept and any(kept)


def test_another_net_is_refused():
    with pytest.raises(ValueError, match="EDM2UNet can be normalized ahead, got Linear"):
        fuse_(nn.Linear(2, 2))
