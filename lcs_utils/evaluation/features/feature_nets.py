"""Nets whose features are measured (App. E.4): their eight conditions one by one, and twins that were never
trained.
"""

import hashlib
import json
import re
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from lcs_utils import checkpoints
from lcs_utils.clevr.conditions import GRID_SIZE, TEST_LOCATIONS, location_grid
from lcs_utils.clevr.scenes import COLORS
from lcs_utils.diffusion import Denoiser
from lcs_utils.evaluation import changes
from lcs_utils.evaluation.net_labels import UNTRAINED
from lcs_utils.evaluation.samples import on
from lcs_utils.experiments import EXP1
from lcs_utils.models.fused import fuse_
from lcs_utils.models.local_patch import cell_size
from lcs_utils.models.precond import EDMDenoiser
from lcs_utils.models.unet import EDM2UNet, MCScale
from lcs_utils.nets import trained

N = len(COLORS)  # conditions: the eight colors, or as many of the test locations
LAYERS = MCScale  # what is captured: where conditions enter (App. E.4)


class Subject(NamedTuple):
    """A net to measure: its name, hash, denoiser and module, resolution, and the most objects in its
    training.
    """

    net: str
    weights: str
    denoise: Denoiser
    module: nn.Module
    resolution: int
    trained: int


def singles(cond_dim: int) -> Float[Tensor, "n cond"]:
    """The eight conditions one by one: the first test locations, or the colors (App. E.1), depending on the
    length of the net's conditions.

    Raises ValueError for a net that takes neither, such as a local patch net.
    """
    if cond_dim == GRID_SIZE**2:
        return location_grid(torch.tensor(TEST_LOCATIONS[:N])[:, None], torch.ones(N, 1, dtype=torch.bool))
    if cond_dim == len(COLORS):
        return torch.eye(len(COLORS))
    raise ValueError(
        f"features are measured for nets that take {GRID_SIZE**2} numbers (locations) or {len(COLORS)} "
        f"(colors), this one takes {cond_dim}; "
        "a local patch net's layers see patches, not images"
    )


def condition_kind(cond_dim: int) -> str:
    """ "location" or "color". Raises as `singles`."""
    singles(cond_dim)
    return "color" if cond_dim == len(COLORS) else "location"


def check_kind(net: str, cond_dim: int, wanted: str) -> None:
    """Raise ValueError, naming both, unless the net takes conditions of the `wanted` kind."""
    if condition_kind(cond_dim) != wanted:
        raise ValueError(
            f"{net} takes {condition_kind(cond_dim)} conditions ({cond_dim} numbers), {wanted} conditions "
            "were asked for"
        )


def untrained_net(net: EDM2UNet, seed: int = 0, **changed) -> EDM2UNet:
    """An untrained net of the same size: fresh weights from `seed`, all gains set to 1 so that conditions
    have an effect; `changed` replaces other settings.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        fresh = EDM2UNet.from_config(net.config, **changed).eval()
    with torch.no_grad():
        fresh.out_gain.fill_(1)
        for module in fresh.modules():
            if isinstance(module, MCScale):
                module.gain.fill_(1)
    return fresh.requires_grad_(False)


def subject(net: str, preset: str = "tiny", device: str = "cpu") -> Subject:
    """The net, with the denoiser of `changes.denoiser`. Raises as that does, and ValueError for a net whose
    features cannot be measured.
    """
    base, change = changes.split(net)
    pipeline = checkpoints.load(base, preset, device)
    if pipeline.config.radius is not None:
        raise ValueError(
            f"{net} is a local patch net, whose layers see patches; features are measured for nets that see "
            "the whole image"
        )
    if not isinstance(pipeline.net, EDM2UNet):
        raise ValueError(
            f"{net} is a {type(pipeline.net).__name__}; features are measured of an EDM2UNet, those of "
            "others by `features.NetResponse` with the names of their layers"
        )
    fuse_(pipeline.net)
    denoise = on(device, change.apply(pipeline.denoiser, preset, device) if change else pipeline.denoiser)
    most = trained(net, preset).objects[1]
    return Subject(net, changes.weights(net, preset), denoise, pipeline.net, pipeline.config.resolution, most)


def untrained_twin(of: Subject, sigma_data: float, seed: int = 0) -> Subject:
    """The untrained net of the same size, kind of condition and device; its hash is its configuration's.

    One for all nets of a size, whatever their labels and images: conditioned as Exp. 1, with as many objects.
    """
    plain = {"normalize_label": False}
    config = {k: v for k, v in sorted(of.module.config.items()) if not k.startswith("_")} | plain
    text = json.dumps([config, sigma_data, of.resolution, seed], default=list)
    device = next(of.module.parameters()).device
    module = untrained_net(of.module, seed, **plain).to(device)
    fuse_(module)
    kind = condition_kind(config["cond_dim"])
    name = UNTRAINED if kind == "location" else f"{UNTRAINED}_{kind}"
    digest = hashlib.sha256(text.encode()).hexdigest()[:12]
    denoise = on(str(device), EDMDenoiser(module, sigma_data))
    return Subject(name, digest, denoise, module, of.resolution, EXP1.objects[1])


def caption(layer: str, side: int, resolution: int) -> str:
    """ "encoder 1, 16 of 32 px" for the first block, whose features have that many places a side; D is
    "denoiser".
    """
    where = re.match(r"(encoder|decoder)\.(\d+)", layer)
    return f"{where[1]} {int(where[2]) + 1}, {side} of {resolution} px" if where else layer


def near_places(resolution: int, reach: int = 2) -> Bool[Tensor, "n height width"]:
    """The pixels within `reach` cells of each test location's cell, where its object is drawn (App. E.1).

    Raises ValueError when the grid does not divide the resolution.
    """
    cells = singles(GRID_SIZE**2).argmax(1)
    m = cell_size(resolution, GRID_SIZE)
    line = torch.arange(resolution) // m
    rows = (line - (cells // GRID_SIZE)[:, None]).abs() <= reach
    columns = (line - (cells % GRID_SIZE)[:, None]).abs() <= reach
    return rows[:, :, None] & columns[:, None, :]
