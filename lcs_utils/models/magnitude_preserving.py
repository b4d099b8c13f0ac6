"""The layers of EDM2 that keep unit variance by construction (Karras et al. 2024, configuration G), written
from its equations; `unet` is the net that they make up.
"""

import math

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

EPS = 1e-4


def normalize(x: Tensor, dim: int | tuple[int, ...]) -> Tensor:
    """x / (RMS of x over `dim` + 1e-4): unit RMS, computed in float32 (EDM2, eq. 47's operation)."""
    rms = x.float().square().mean(dim, keepdim=True).sqrt()
    return x / (rms + EPS).to(x.dtype)


def mp_silu(x: Tensor) -> Tensor:
    """silu(x) / 0.596: unit variance for unit Gaussian input (EDM2, eq. 81)."""
    return F.silu(x) / 0.596


def mp_sum(a: Tensor, b: Tensor, t: float) -> Tensor:
    """((1-t) a + t b) / sqrt((1-t)^2 + t^2): keeps unit variance (EDM2, eq. 88)."""
    return torch.lerp(a, b, t) / math.sqrt((1 - t) ** 2 + t**2)


def mp_cat(a: Tensor, b: Tensor) -> Tensor:
    """Channel concatenation in which both inputs contribute equally (EDM2, eq. 103 at t = 0.5)."""
    n_a, n_b = a.shape[1], b.shape[1]
    common = math.sqrt((n_a + n_b) / 0.5) * 0.5
    return torch.cat([a * (common / math.sqrt(n_a)), b * (common / math.sqrt(n_b))], dim=1)


class MPConv(nn.Module):
    """Convolution (kernel > 0) or linear layer (kernel = 0) without bias, its weights normalized per output
    channel.
    """

    def __init__(self, in_channels: int, out_channels: int, kernel: int):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(out_channels, in_channels, *[kernel] * (2 if kernel else 0)))
        renormalize_(self)

    def forward(self, x: Tensor, gain: Tensor | float = 1.0) -> Tensor:
        fan_in = self.weight[0].numel()
        weight = normalize(self.weight, tuple(range(1, self.weight.ndim))) * (gain / math.sqrt(fan_in))
        weight = weight.to(x.dtype)
        if weight.ndim == 2:
            return x @ weight.t()
        return F.conv2d(x, weight, padding=weight.shape[-1] // 2)


@torch.no_grad()
def renormalize_(model: nn.Module) -> None:
    """Set every MPConv weight to unit RMS per output channel, in place; call after each optimizer step
    (App. E.1).
    """
    for module in model.modules():
        if isinstance(module, MPConv):
            module.weight.copy_(normalize(module.weight, tuple(range(1, module.weight.ndim))))


class MPFourier(nn.Module):
    """Random Fourier features sqrt(2) cos(f x + phase) of a scalar [batch] -> [batch, dim]; f, phase are
    saved.
    """

    def __init__(self, dim: int):
        super().__init__()
        self.register_buffer("frequencies", 2 * math.pi * torch.randn(dim))
        self.register_buffer("phases", 2 * math.pi * torch.rand(dim))

    def forward(self, x: Float[Tensor, "batch"]) -> Float[Tensor, "batch dim"]:
        return math.sqrt(2) * torch.cos(
            torch.outer(x.float(), self.frequencies.float()) + self.phases.float()
        )
