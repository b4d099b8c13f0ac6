"""The class of a net, EDM2UNet or one of one's own (`architectures`): found by its name, built, tried out."""

from typing import Any

import torch
from diffusers import ModelMixin

from lcs_utils.architectures import ARCHITECTURES, EDM2, NEEDED, net_class, settings
from lcs_utils.checks import check_tensor, shown
from lcs_utils.experiments import Experiment
from lcs_utils.models.unet import EDM2UNet
from lcs_utils.presets import Preset


def known() -> dict[str, type]:
    """{its name: a class}. Raises as `net_class`."""
    own = [net_class(name) for name in ARCHITECTURES if name != EDM2]
    return {kind.__name__: kind for kind in (EDM2UNet, *own)}


def check_net(name: str, net: Any) -> None:
    """Raise TypeError, listing the classes, unless the net is of a known one, by which its files are read."""
    if type(net) not in known().values():
        raise TypeError(f"{name} must be of class {' or '.join(known())}, got {shown(net)}")


def defaults(architecture: str) -> dict[str, Any]:
    """The defaults of a class's settings; none of one that is not known here."""
    kind = EDM2UNet if architecture == EDM2 else ARCHITECTURES.get(architecture)
    return {} if kind is None else {n: v for n, v in settings(kind).items() if v is not NEEDED}


def build(exp: Experiment, size: Preset, cond_dim: int, device: torch.device) -> ModelMixin:
    """An experiment's net with fresh weights, on the device; one of one's own is tried out. Raises ValueError
    for settings that give no net, and as `try_out`.
    """
    given = {"cond_dim": cond_dim, "normalize_label": exp.normalize_label}
    if size.architecture == EDM2:
        return EDM2UNet(**given, **size.config(exp)).to(device)
    kind = net_class(size.architecture)
    given = {n: v for n, v in given.items() if n in settings(kind)} | size.config(exp)
    try:
        net = kind(**given).to(device)
    except Exception as error:  # whatever a class of one's own raises
        raise ValueError(f"{size.name}: {kind.__name__} cannot be made with {given}: {error}") from error
    if lost := [n for n, value in given.items() if getattr(net, "config", {}).get(n) != value]:
        raise ValueError(
            f"{size.name}: {kind.__name__}'s config does not hold {', '.join(lost)}; decorate its __init__ "
            "with diffusers.configuration_utils.register_to_config"
        )
    try_out(net, size.side(exp), cond_dim, exp.radius is not None)
    return net


@torch.no_grad()
def try_out(net: ModelMixin, side: int, cond_dim: int, local: bool) -> None:
    """Raise ValueError unless a net, in training, gives images of the shape of those that it is given, and
    leaves its buffers as they are.
    """
    kind, x = type(net).__name__, torch.zeros(2, 3, side, side, device=net.device)
    before = {name: buffer.clone() for name, buffer in net.named_buffers()}
    valid = {"valid": torch.ones_like(x[:, :1])} if local else {}
    try:
        with torch.random.fork_rng([net.device] if net.device.type == "cuda" else []):
            found = net.train()(x, x[:, 0, 0, 0], x.new_zeros(2, cond_dim), **valid)
        check_tensor("its output", found, x.shape, kind="float")
    except Exception as error:  # whatever a class of one's own raises
        raise ValueError(f"{kind} fails on images {list(x.shape)}: {error}") from error
    if changed := [name for name, buffer in net.named_buffers() if not torch.equal(before[name], buffer)]:
        raise ValueError(f"{kind} changes its buffers {', '.join(changed)}; only parameters are averaged")
