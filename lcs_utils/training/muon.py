"""Muon (Jordan et al. 2024): steps of momentum whose matrices are made orthogonal.

Choice: for the short runs of small nets (`PRESETS["medium"]`), in place of EDM2's Adam.
"""

import math
from collections.abc import Iterable

import torch
from jaxtyping import Float
from torch import Tensor

MOMENTUM = 0.95
ROUNDS, QUINTIC = 5, (3.4445, -4.7750, 2.0315)  # Jordan et al.: singular values end between .7 and 1.2


def orthogonalized(matrix: Float[Tensor, "rows columns"]) -> Float[Tensor, "rows columns"]:
    """U V^T of the matrix's U S V^T, nearly, by Newton-Schulz rounds a X + (b X X^T + c (X X^T)^2) X; of a
    matrix of zeros, zeros.
    """
    a, b, c = QUINTIC
    wide = matrix if matrix.shape[0] <= matrix.shape[1] else matrix.T
    x = wide / (wide.norm() + 1e-7)
    for _ in range(ROUNDS):
        gram = x @ x.T
        x = a * x + (b * gram + c * gram @ gram) @ x
    return x if wide is matrix else x.T


class Muon(torch.optim.Optimizer):
    """Muon of every parameter: a convolution is its matrix of [outputs, inputs x kernel], a scalar one of a
    single entry, of which its sign is left.

    Steps have a root mean square of about `lr` per weight, as Adam's at most, whatever a matrix's shape,
    which suits weights of unit magnitude (EDM2). torch.optim.Muon takes matrices alone.
    """

    def __init__(self, parameters: Iterable[Tensor], lr: float):
        super().__init__(parameters, {"lr": lr})

    @torch.no_grad()
    def step(self, closure=None) -> None:
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is None:
                    continue
                if not self.state[p]:
                    self.state[p]["momentum"] = torch.zeros_like(p)
                momentum = self.state[p]["momentum"]
                momentum.lerp_(p.grad, 1 - MOMENTUM)
                ahead = p.grad.lerp(momentum, MOMENTUM)  # Nesterov's
                matrix = ahead.reshape(len(p) if p.ndim > 1 else 1, -1)
                update = orthogonalized(matrix) * math.sqrt(max(matrix.shape))
                p.sub_(group["lr"] * update.reshape(p.shape))
