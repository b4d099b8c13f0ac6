"""EDM2's forced weight normalization done once instead of at every forward pass: the same numbers, sooner."""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from lcs_utils.models.unet import MPConv, normalize


def _apply(unit: Tensor, ready: dict, x: Tensor, gain: Tensor | float = 1.0) -> Tensor:
    """MPConv.forward with the unit weight given, and the scaled one kept for each dtype while there is no gain."""
    plain = isinstance(gain, float)
    weight = ready.get(x.dtype) if plain else None
    if weight is None:
        weight = (unit * (gain / math.sqrt(unit[0].numel()))).to(x.dtype)
        if plain:
            ready[x.dtype] = weight
    return x @ weight.t() if weight.ndim == 2 else F.conv2d(x, weight, padding=weight.shape[-1] // 2)


def fuse_(net: nn.Module) -> list[MPConv]:
    """From now on `net` computes as before, to the bit, from weights normalized here and now (EDM2; App. E.1).

    Weights are constants then: no gradient reaches them. Returns the layers. Raises ValueError when there is none.
    """
    layers = [module for module in net.modules() if isinstance(module, MPConv)]
    if not layers:
        raise ValueError(f"{type(net).__name__} has no MPConv layer, so there is no weight to normalize ahead")
    with torch.no_grad():
        for module in layers:
            module.forward = partial(_apply, normalize(module.weight, tuple(range(1, module.weight.ndim))), {})
    return layers


@contextmanager
def fused(net: nn.Module) -> Iterator[nn.Module]:
    """`net` after `fuse_`, and as it was again at the end."""
    layers = fuse_(net)
    try:
        yield net
    finally:
        for module in layers:
            del module.forward
