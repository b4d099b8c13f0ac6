"""The layers of EDM2 that keep unit variance by construction (Karras et al. 2024, configuration G), written
from its equations; `unet` builds the net from them.
"""

import math

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

EPS = 1e-4
SILU = 0.596  # root mean square of silu of a unit Gaussian


def normalize(x: Tensor, dim: int | tuple[int, ...]) -> Tensor:
    """x / (RMS of x over `dim` + 1e-4): unit RMS, summed in float32 (EDM2, eq. 47's operation)."""
    norm = torch.linalg.vector_norm(x, dim=dim, keepdim=True)
    rms = norm * math.sqrt(norm.numel() / x.numel())
    return x * (rms + EPS).reciprocal()


def mp_silu(x: Tensor) -> Tensor:
    """silu(x) / 0.596: unit variance for unit Gaussian input (EDM2, eq. 81)."""
    return F.silu(x) / SILU


def mp_sum(a: Tensor, b: Tensor, t: float) -> Tensor:
    """((1-t) a + t b) / sqrt((1-t)^2 + t^2): keeps unit variance (EDM2, eq. 88)."""
    share_a, share_b = mp_shares(t)
    return share_a * a + share_b * b


def mp_shares(t: float) -> tuple[float, float]:
    """The factors by which mp_sum multiplies its two inputs."""
    size = math.hypot(1 - t, t)
    return (1 - t) / size, t / size


def mp_cat(a: Tensor, b: Tensor) -> Tensor:
    """Channel concatenation in which both inputs contribute equally (EDM2, eq. 103 at t = 0.5)."""
    n_a, n_b = a.shape[1], b.shape[1]
    if n_a == n_b:
        return torch.cat([a, b], dim=1)
    common = math.sqrt((n_a + n_b) / 0.5) * 0.5
    return torch.cat([a * (common / math.sqrt(n_a)), b * (common / math.sqrt(n_b))], dim=1)


class MPConv(nn.Module):
    """Convolution (kernel > 0) or linear layer (kernel = 0) without bias, its weights normalized per output
    channel.

    `scale` multiplies the output: a constant of a neighboring mp_silu or mp_sum costs nothing in the weights.
    """

    def __init__(self, in_channels: int, out_channels: int, kernel: int, scale: float = 1.0):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(out_channels, in_channels, *[kernel] * (2 if kernel else 0)))
        self.constant = scale / math.sqrt(self.weight[0].numel())
        renormalize_(self)

    def forward(self, x: Tensor, gain: Tensor | float = 1.0) -> Tensor:
        unit = normalize(self.weight, tuple(range(1, self.weight.ndim)))
        weight = (unit * (gain * self.constant)).to(x.dtype)
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
