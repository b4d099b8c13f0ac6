"""EDM2's block, one operation per equation: the reference for the results of `unet`'s fewer passes
(`tests/test_models.py`) and for their speed (`benchmarks/training.py`).
"""

import math
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor

from lcs_utils.models.magnitude_preserving import EPS, SILU, MPConv
from lcs_utils.models.unet import Attention, Block, EDM2UNet


def normalize(x: Tensor, dim: int | tuple[int, ...]) -> Tensor:
    """x / (RMS of x over `dim` + 1e-4), the RMS in float32 (EDM2, eq. 47)."""
    rms = x.float().square().mean(dim, keepdim=True).sqrt()
    return x / (rms + EPS).to(x.dtype)


def mp_silu(x: Tensor) -> Tensor:
    """silu(x) / 0.596 (EDM2, eq. 81)."""
    return F.silu(x) / SILU


def mp_sum(a: Tensor, b: Tensor, t: float) -> Tensor:
    """((1-t) a + t b) / sqrt((1-t)^2 + t^2) (EDM2, eq. 88)."""
    return torch.lerp(a, b, t) / math.sqrt((1 - t) ** 2 + t**2)


def conv(layer: MPConv, x: Tensor) -> Tensor:
    """The unit-variance convolution: no constant in its weights but 1 / sqrt(fan-in) (EDM2, eq. 66)."""
    unit = normalize(layer.weight, tuple(range(1, layer.weight.ndim)))
    weight = (unit / math.sqrt(unit[0].numel())).to(x.dtype)
    return F.conv2d(x, weight, padding=weight.shape[-1] // 2)


def block(of: Block, x: Tensor, emb: Tensor) -> Tensor:
    """`Block.forward` (EDM2, Fig. 21)."""
    if of.resample == "down":
        x = F.avg_pool2d(x, 2)
    elif of.resample == "up":
        x = F.interpolate(x, scale_factor=2, mode="nearest")
    if not of.decoder:
        x = normalize(x if of.skip is None else conv(of.skip, x), dim=1)
    y = conv(of.conv_in, mp_silu(x))
    y = conv(of.conv_out, mp_silu(of.scale(y, emb)))
    if of.decoder and of.skip is not None:
        x = conv(of.skip, x)
    x = mp_sum(x, y, t=0.3)
    if of.attention is not None:
        x = attention(of.attention, x)
    return x.clamp(-256, 256)


def attention(of: Attention, x: Tensor) -> Tensor:
    """`Attention.forward`, by torch's fused attention."""
    b, c, h, w = x.shape
    qkv = conv(of.qkv, x).reshape(b, 3, of.heads, c // of.heads, h * w)
    q, k, v = normalize(qkv, dim=3).transpose(-1, -2).unbind(1)
    y = F.scaled_dot_product_attention(q, k, v).transpose(-1, -2).reshape(b, c, h, w)
    return mp_sum(x, conv(of.project, y), t=0.3)


def plain_(net: EDM2UNet) -> EDM2UNet:
    """Make the blocks of `net` compute one equation at a time, in place; the same net up to rounding."""
    for module in net.modules():
        if isinstance(module, Block):
            module.forward = partial(block, module)
    return net
