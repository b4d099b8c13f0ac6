"""EDM2's forced weight normalization done once instead of at every forward pass: the same numbers, sooner."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

import torch
import torch.nn.functional as F
from diffusers import ModelMixin
from torch import Tensor

from lcs_utils.models.classes import known
from lcs_utils.models.magnitude_preserving import MPConv, normalize
from lcs_utils.models.precision import dtype_on


def _apply(unit: Tensor, constant: float, ready: dict, x: Tensor, gain: Tensor | float = 1.0) -> Tensor:
    """MPConv.forward from the unit weight; without a gain, `ready` holds the final weight by dtype."""
    weight = ready.get(x.dtype) if isinstance(gain, float) else None
    if weight is None:
        weight = (unit * (gain * constant)).to(x.dtype)
    return x @ weight.t() if weight.ndim == 2 else F.conv2d(x, weight, padding=weight.shape[-1] // 2)


def fuse_(net: ModelMixin) -> list[MPConv]:
    """Precompute the normalized weights of `net`, in place: it gives the same numbers as before, to the bit
    (EDM2; App. E.1). A net of one's own may have none.

    The weights are then constants without gradients. Returns the layers. Raises ValueError for a net of an
    unknown class.
    """
    if type(net) not in known().values():
        raise ValueError(
            f"only the weights of an {' or '.join(known())} can be normalized ahead, got {type(net).__name__}"
        )
    layers = [module for module in net.modules() if isinstance(module, MPConv)]
    with torch.no_grad():
        for module in layers:
            unit = normalize(module.weight, tuple(range(1, module.weight.ndim)))
            scaled = unit * module.constant
            used = {torch.float32, dtype_on(scaled.device, net.config.get("dtype_inside", "float32"))}
            module.forward = partial(
                _apply, unit, module.constant, {dtype: scaled.to(dtype) for dtype in used}
            )
    return layers


@contextmanager
def fused(net: ModelMixin) -> Iterator[ModelMixin]:
    """Context in which `net` is fused by `fuse_`; at the end it is as before."""
    inside = net.modules() if isinstance(net, ModelMixin) else ()
    modules = [module for module in inside if isinstance(module, MPConv)]
    before = [vars(module).get("forward") for module in modules]  # of a net that was fused already
    fuse_(net)
    try:
        yield net
    finally:
        for module, forward in zip(modules, before, strict=True):
            if forward is None:
                del module.forward
            else:
                module.forward = forward
