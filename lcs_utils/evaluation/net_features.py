"""How separately conditions act in every layer of a trained net, and in its denoiser, as rows (section 4, Figs. 5, 11, App. E.4).

    python -m lcs_utils.evaluation.net_features exp1 exp2 exp2/unit exp1_1

Rows live in data/counts/tiny/features.csv. Each net's untrained twin, its gains set to 1, is measured beside it. Rows of the same weights
and settings are kept, so that a stopped run goes on where it was; those of other weights are replaced.
"""

import argparse
import hashlib
import json
import re
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn
from tqdm.auto import tqdm

from lcs_utils import checkpoints, paths
from lcs_utils.clevr.conditions import GRID_SIZE, TEST_LOCATIONS, location_grid
from lcs_utils.clevr.render import render
from lcs_utils.clevr.scenes import COLORS, sample_scene
from lcs_utils.diffusion import Denoiser, from_uint8
from lcs_utils.evaluation import interventions
from lcs_utils.evaluation.conditioning import HELD_OUT
from lcs_utils.evaluation.length_generalization import on
from lcs_utils.evaluation.rates import trained
from lcs_utils.evaluation.rows import rows_path
from lcs_utils.experiments import PRESETS
from lcs_utils.features.capture import NetResponse, Space, find_layers
from lcs_utils.features.contexts import Sums, check_design, gather
from lcs_utils.features.measures import Measured, all_measures
from lcs_utils.models.fused import fuse_
from lcs_utils.models.precond import EDMDenoiser
from lcs_utils.models.unet import EDM2UNet, MCScale

N = len(COLORS)  # conditions: the eight colors, or as many of the test locations
SIGMAS = (0.5, 2.0, 10.0, 40.0)
KS, REMOVALS = (2, 3, 4, 6, 8), (2, 4, 8)
DRAWS = 16
INPUTS = {"noise": "x_t = sigma * noise", "renders": "x_t = a rendered scene of 1-3 objects + sigma * noise"}
ORDERS = {"first": "the first K conditions of the paper's list", "random": "a random K of the eight, another for each draw"}
COMMAND = "python -m lcs_utils.evaluation.net_features NET ..."
UNTRAINED = "untrained"


class FeatureRow(NamedTuple):
    """One `features.measures.Measured` of one layer (or "denoiser"), and how it was read; `control` is empty for the net itself."""

    preset: str
    net: str
    weights: str
    layer: str
    reading: str
    sigma: float
    inputs: str
    order: str
    draws: int
    measure: str
    k: int
    control: str
    value: float
    low: float
    high: float


class Setting(NamedTuple):
    """How a net is measured: the noise level, what noise is added to (INPUTS), which K conditions (ORDERS), and draws."""

    sigma: float
    inputs: str = "noise"
    order: str = "random"
    draws: int = DRAWS


class Subject(NamedTuple):
    """A net to measure: its name, hash, denoiser and module, resolution, and the most objects that it saw in training."""

    net: str
    weights: str
    denoise: Denoiser
    module: nn.Module
    resolution: int
    trained: int


def singles(cond_dim: int) -> Float[Tensor, "n cond"]:
    """The eight conditions one by one: the first test locations, or the colors (App. E.1), by how many numbers a net takes.

    Raises ValueError for a net that takes neither, such as a local patch net.
    """
    if cond_dim == GRID_SIZE**2:
        return location_grid(torch.tensor(TEST_LOCATIONS[:N])[:, None], torch.ones(N, 1, dtype=torch.bool))
    if cond_dim == len(COLORS):
        return torch.eye(len(COLORS))
    raise ValueError(
        f"features are measured of nets that take {GRID_SIZE**2} numbers (locations) or {len(COLORS)} (colors), this one takes {cond_dim}; "
        "a local patch net's layers see patches, not images"
    )


def condition_kind(cond_dim: int) -> str:
    """"location" or "color". Raises as `singles`."""
    singles(cond_dim)
    return "color" if cond_dim == len(COLORS) else "location"


def check_kind(net: str, cond_dim: int, wanted: str) -> None:
    """Raise ValueError, naming both, unless the net takes conditions of the `wanted` kind."""
    if condition_kind(cond_dim) != wanted:
        raise ValueError(f"{net} takes {condition_kind(cond_dim)} conditions ({cond_dim} numbers), {wanted} conditions were asked for")


def untrained_net(net: EDM2UNet, seed: int = 0) -> EDM2UNet:
    """A net of the same size that has learned nothing: fresh weights from `seed`, all gains set to 1 so that it hears conditions."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        fresh = EDM2UNet.from_config(net.config).eval()
    with torch.no_grad():
        fresh.out_gain.fill_(1)
        for module in fresh.modules():
            if isinstance(module, MCScale):
                module.gain.fill_(1)
    return fresh.requires_grad_(False)


def subject(net: str, preset: str = "tiny", device: str = "cpu") -> Subject:
    """The net as `interventions.denoiser` samples it. Raises as that does, and ValueError for a net whose features cannot be measured."""
    base, change = interventions.split(net)
    pipeline = checkpoints.load(base, preset, device)
    if pipeline.config.radius is not None:
        raise ValueError(f"{net} is a local patch net, whose layers see patches; features are measured of nets that see the whole image")
    fuse_(pipeline.net)
    denoise = on(device, change.apply(pipeline.denoiser, preset, device) if change else pipeline.denoiser)
    most = trained(net).objects[1]
    return Subject(net, interventions.weights(net, preset), denoise, pipeline.net, pipeline.config.resolution, most)


def untrained_twin(of: Subject, sigma_data: float, device: str = "cpu", seed: int = 0) -> Subject:
    """The untrained net of the same size and kind of condition; its hash is that of its configuration."""
    config = {k: v for k, v in sorted(of.module.config.items()) if not k.startswith("_")}
    text = json.dumps([config, sigma_data, of.resolution, seed], default=list)
    module = untrained_net(of.module, seed).to(device)
    fuse_(module)
    kind = condition_kind(config["cond_dim"])
    name = UNTRAINED if kind == "location" else f"{UNTRAINED}_{kind}"
    digest = hashlib.sha256(text.encode()).hexdigest()[:12]
    return Subject(name, digest, on(device, EDMDenoiser(module, sigma_data)), module, of.resolution, of.trained)


@cache
def scene_images(count: int, resolution: int) -> Float[Tensor, "count 3 height width"]:
    """Renders in [-1, 1] of scenes of 1 to 3 objects that no net was trained on."""
    shown = render([sample_scene(HELD_OUT, i, 1 + i % 3, visibility=False) for i in range(count)], resolution)
    return from_uint8(shown).permute(0, 3, 1, 2)


def draws_of(setting: Setting, resolution: int, seed: int = 0) -> Callable[[int], Float[Tensor, "3 height width"]]:
    """x_t of draw i, for every net the same. Raises ValueError for unknown inputs or a sigma that is not > 0."""
    if setting.inputs not in INPUTS or setting.order not in ORDERS:
        raise ValueError(
            f"inputs must be one of {', '.join(INPUTS)} and the order of {', '.join(ORDERS)}; got {setting.inputs!r} and {setting.order!r}"
        )
    if not setting.sigma > 0:
        raise ValueError(f"sigma must be > 0, got {setting.sigma:g}")
    images = scene_images(setting.draws, resolution) if setting.inputs == "renders" else torch.zeros(setting.draws, 3, 1, 1)

    def draw(i):
        eps = torch.randn(3, resolution, resolution, generator=torch.Generator().manual_seed(1000 * seed + i))
        return images[i] + setting.sigma * eps

    return draw


def sums(
    of: Subject, setting: Setting, removals: Sequence[int] = REMOVALS, layers=MCScale, seed: int = 0,
    progress: Callable[[int], None] = lambda done: None,
) -> dict[Space, Sums]:  # fmt: skip
    """One pass of a net at one setting: `features.contexts.gather` over its layers and its denoiser."""
    check_design(N, setting.draws, removals)
    respond = NetResponse(of.denoise, of.module, singles(of.module.config.cond_dim), layers)
    draw = draws_of(setting, of.resolution, seed)
    return gather(respond, draw, setting.draws, setting.sigma, N, removals, setting.order == "random", seed, progress)


def rows_of(of: Subject, preset: str, setting: Setting, found: Iterable[tuple[Space, Measured]]) -> list[FeatureRow]:
    """Rows, their numbers rounded to four digits after the point."""
    how = (setting.sigma, setting.inputs, setting.order, setting.draws)
    return [
        FeatureRow(preset, of.net, of.weights, *space, *how, *m[:3], *(round(v, 4) for v in m[3:])) for space, m in found
    ]


def net_rows(
    of: Subject, preset: str, setting: Setting, ks: Sequence[int] = KS, removals: Sequence[int] = REMOVALS, seed: int = 0,
    progress: Callable[[int], None] = lambda done: None,
) -> list[FeatureRow]:  # fmt: skip
    """All measures of all layers and of the denoiser at one setting. Raises ValueError as `gather` and `measures` do, naming the layer."""
    found = []
    for space, of_space in sums(of, setting, removals, seed=seed, progress=progress).items():
        try:
            found += [(space, m) for m in all_measures(of_space, ks, removals, of.trained, seed)]
        except ValueError as error:
            raise ValueError(f"{of.net}, {space.layer} ({space.reading}): {error}") from error
    return rows_of(of, preset, setting, found)


def path(preset: str = "tiny") -> Path:
    """Where a preset's rows are stored."""
    return rows_path(preset, "features")


def read(preset: str = "tiny") -> list[FeatureRow]:
    """The stored rows. Warns and raises as `paths.read_rows`."""
    return paths.read_rows(path(preset), FeatureRow)


def measure(
    net: str, preset: str = "tiny", settings: Sequence[Setting] | None = None, device: str = "cpu", file: Path | None = None
) -> None:  # fmt: skip
    """Add the rows of a net and of its untrained twin at every setting, unless those of the same weights are there."""
    settings = [Setting(sigma, inputs) for sigma in SIGMAS for inputs in INPUTS] if settings is None else list(settings)
    for setting in settings:
        check_design(N, setting.draws, REMOVALS)
        draws_of(setting._replace(inputs=setting.inputs if setting.inputs != "renders" else "noise"), 2)
    of, file = subject(net, preset, device), file or path(preset)
    singles(of.module.config.cond_dim)
    both = (of, untrained_twin(of, PRESETS[preset].sigma_data, device))
    at = lambda row: Setting(row.sigma, row.inputs, row.order, row.draws)
    known = {(row.net, row.weights, at(row)) for row in paths.read_rows(file, FeatureRow)}
    missing = [(one, setting) for one in both for setting in settings if (one.net, one.weights, setting) not in known]
    with tqdm(total=sum(setting.draws for _, setting in missing), desc=net, unit="draw", disable=None) as bar:
        for one, setting in missing:
            bar.set_postfix(net=one.net, sigma=setting.sigma, inputs=setting.inputs)
            rows = net_rows(one, preset, setting, progress=lambda done: bar.update())
            with paths.exclusive(file):
                stale = lambda row: row.net == one.net and (at(row) == setting or row.weights != one.weights)
                kept = [row for row in paths.read_rows(file, FeatureRow) if not stale(row)]
                paths.write_rows(file, COMMAND, FeatureRow, kept + rows)


def layer_names(module: nn.Module) -> list[str]:
    """The layers that are measured, in the order of the net: 36 in the paper's (15 encoder, 21 decoder), 10 in ours at 32 px."""
    return list(find_layers(module, MCScale))


def caption(layer: str, side: int, resolution: int) -> str:
    """"encoder 1, 16 of 32 px" for the first block, whose features have that many places a side; D is "denoiser"."""
    where = re.match(r"(encoder|decoder)\.(\d+)", layer)
    return f"{where[1]} {int(where[2]) + 1}, {side} of {resolution} px" if where else layer


def main(arguments=None) -> None:
    parser = argparse.ArgumentParser(prog="python -m lcs_utils.evaluation.net_features", description=__doc__.splitlines()[0])
    parser.add_argument("nets", nargs="+", help="checkpoints, or CHECKPOINT/unit")
    parser.add_argument("--preset", default="tiny", choices=tuple(PRESETS))
    parser.add_argument("--draws", type=int, default=DRAWS, help="of x_t, half to fit and half to test (default: %(default)s)")
    parser.add_argument("--sigmas", type=float, nargs="+", default=SIGMAS, help="noise levels (default: 0.5 2 10 40)")
    parser.add_argument("--inputs", nargs="+", default=tuple(INPUTS), choices=tuple(INPUTS), help="; ".join(map(": ".join, INPUTS.items())))
    parser.add_argument("--order", default="random", choices=tuple(ORDERS), help="; ".join(map(": ".join, ORDERS.items())))
    parser.add_argument("--device", default="cpu", help="where the net runs: cpu, or cuda")
    parser.add_argument("--rows", type=Path, help="a CSV of your own (default: the preset's)")
    args = parser.parse_args(arguments)
    try:
        settings = [Setting(sigma, inputs, args.order, args.draws) for sigma in args.sigmas for inputs in args.inputs]
        for net in args.nets:
            measure(net, args.preset, settings, args.device, args.rows)
    except (ValueError, OSError, RuntimeError, checkpoints.CheckpointError) as error:
        parser.error(str(error))


if __name__ == "__main__":
    main()
