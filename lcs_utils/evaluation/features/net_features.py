"""How separately conditions act in a net's layers and denoiser, as rows (section 4, Figs. 5, 11, App. E.4).

    python -m lcs_utils.evaluation.features.net_features exp1 exp2 exp2/unit exp1_1

Rows are stored in data/counts/tiny/features.csv.bz2. Each net's untrained twin, with its gains set to 1, is
measured too. Rows of the same weights and settings are kept, so a stopped run resumes where it was; rows of
other weights are replaced.
"""

import argparse
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor
from tqdm.auto import tqdm

from lcs_utils import nets, presets, store
from lcs_utils.clevr.render import render
from lcs_utils.clevr.scenes import sample_scene
from lcs_utils.diffusion import from_uint8
from lcs_utils.evaluation.family_grids import HELD_OUT
from lcs_utils.evaluation.features.feature_nets import LAYERS, N, Subject, singles, subject, untrained_twin
from lcs_utils.evaluation.rows import rows_path
from lcs_utils.features.capture import NetResponse, Space
from lcs_utils.features.contexts import Sums, check_design, gather
from lcs_utils.features.measures import Measured, all_measures
from lcs_utils.presets import parse_preset

SIGMAS = (0.5, 2.0, 10.0, 40.0)
KS, REMOVALS = (1, 2, 3, 4, 6, 8), (2, 4, 8)
DRAWS = 16
INPUTS = {"noise": "x_t = sigma * noise", "renders": "x_t = a rendered scene of 1-3 objects + sigma * noise"}
ORDERS = {
    "first": "the first K conditions of the paper's list",
    "random": "a random K of the eight, another for each draw",
}
# Choice: which measures are stored for which reading. Additivity, removals and supports need channels and
# places; a probe needs few features; the paper does not say which reading eq. (3) uses.
MEASURES = {
    "flat": ("cosines", "additivity", "own_share", "basis"),
    "mean": ("cosines", "probe"),
    "scale": ("cosines", "probe"),
}
COMMAND = "python -m lcs_utils.evaluation.features.net_features NET ..."


class FeatureRow(NamedTuple):
    """One `features.measures.Measured` of one layer (or "denoiser") and its settings; `control` is empty for
    the net itself.
    """

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
    """How a net is measured: the noise level, the images that noise is added to (INPUTS), the choice of K
    conditions (ORDERS), and the number of draws.
    """

    sigma: float
    inputs: str = "noise"
    order: str = "random"
    draws: int = DRAWS


@cache
def scene_images(count: int, resolution: int) -> Float[Tensor, "count 3 height width"]:
    """Renders in [-1, 1] of scenes of 1 to 3 objects that no net was trained on."""
    shown = render([sample_scene(HELD_OUT, i, 1 + i % 3, visibility=False) for i in range(count)], resolution)
    return from_uint8(shown).permute(0, 3, 1, 2)


def check_setting(setting: Setting) -> None:
    """Raise ValueError, listing what is allowed, for unknown inputs or order, sigma <= 0, too few draws."""
    for name, value, allowed in (("inputs", setting.inputs, INPUTS), ("order", setting.order, ORDERS)):
        if value not in allowed:
            raise ValueError(f"{name} must be one of {', '.join(allowed)}, got {value!r}")
    if not setting.sigma > 0:
        raise ValueError(f"sigma must be > 0, got {setting.sigma:g}")
    check_design(N, setting.draws, REMOVALS)


def draws_of(
    setting: Setting, resolution: int, seed: int = 0
) -> Callable[[int], Float[Tensor, "3 height width"]]:
    """A function from i to x_t of draw i, the same for every net. Raises as `check_setting`."""
    check_setting(setting)
    x0 = scene_images(setting.draws, resolution) if setting.inputs == "renders" else None

    def draw(i):
        eps = torch.randn(3, resolution, resolution, generator=torch.Generator().manual_seed(1000 * seed + i))
        return setting.sigma * eps if x0 is None else x0[i] + setting.sigma * eps

    return draw


def sums(
    of: Subject,
    setting: Setting,
    removals: Sequence[int] = REMOVALS,
    seed: int = 0,
    progress: Callable[[int], None] = lambda done: None,
) -> dict[Space, Sums]:
    """Run `features.contexts.gather` over a net's layers and its denoiser at one setting."""
    respond = NetResponse(of.denoise, of.module, singles(of.module.config.cond_dim), LAYERS)
    draw = draws_of(setting, of.resolution, seed)
    return gather(
        respond, draw, setting.draws, setting.sigma, N, removals, setting.order == "random", seed, progress
    )


def rows_of(
    of: Subject, preset: str, setting: Setting, found: Iterable[tuple[Space, Measured]]
) -> list[FeatureRow]:
    """The measures as rows, with values rounded to four decimals."""
    how = (setting.sigma, setting.inputs, setting.order, setting.draws)
    return [
        FeatureRow(preset, of.net, of.weights, *space, *how, *m[:3], *(round(v, 4) for v in m[3:]))
        for space, m in found
    ]


def net_rows(
    of: Subject,
    preset: str,
    setting: Setting,
    ks: Sequence[int] = KS,
    removals: Sequence[int] = REMOVALS,
    seed: int = 0,
    progress: Callable[[int], None] = lambda done: None,
) -> list[FeatureRow]:
    """All measures of all layers and of the denoiser at one setting. Raises ValueError as `gather` and
    `measures` do, naming the layer.
    """
    found = []
    for space, of_space in sums(of, setting, removals, seed=seed, progress=progress).items():
        only = MEASURES[space.reading]
        try:
            found += [(space, m) for m in all_measures(of_space, ks, removals, of.trained, seed, only)]
        except ValueError as error:
            raise ValueError(f"{of.net}, {space.layer} ({space.reading}): {error}") from error
    return rows_of(of, preset, setting, found)


def path(preset: str = "tiny") -> Path:
    """Where a preset's rows are stored."""
    return rows_path(preset, "features")


def read(preset: str = "tiny") -> list[FeatureRow]:
    """The stored rows. Warns and raises as `store.read_rows`."""
    return store.read_rows(path(preset), FeatureRow)


def measure(
    net: str,
    preset: str = "tiny",
    settings: Sequence[Setting] | None = None,
    device: str = "cpu",
    file: Path | None = None,
) -> None:
    """Add the rows of a net and its untrained twin at every setting, unless those of its weights exist."""
    settings = (
        [Setting(sigma, inputs) for sigma in SIGMAS for inputs in INPUTS]
        if settings is None
        else list(settings)
    )
    for setting in settings:
        check_setting(setting)
    of, file = subject(net, preset, device), file or path(preset)
    singles(of.module.config.cond_dim)
    both = (of, untrained_twin(of, presets.preset(preset).sigma_data))

    def at(row):
        return Setting(row.sigma, row.inputs, row.order, row.draws)

    known = {(row.net, row.weights, at(row)) for row in store.read_rows(file, FeatureRow)}
    missing = [
        (one, setting) for one in both for setting in settings if (one.net, one.weights, setting) not in known
    ]
    with tqdm(total=sum(setting.draws for _, setting in missing), desc=net, unit="draw", disable=None) as bar:
        for one, setting in missing:
            bar.set_postfix(net=one.net, sigma=setting.sigma, inputs=setting.inputs)
            rows = net_rows(one, preset, setting, progress=lambda done: bar.update())
            with store.exclusive(file):

                def stale(row):
                    return row.net == one.net and (at(row) == setting or row.weights != one.weights)

                kept = [row for row in store.read_rows(file, FeatureRow) if not stale(row)]
                store.write_rows(file, COMMAND, FeatureRow, kept + rows)


def main(arguments=None) -> None:
    parser = argparse.ArgumentParser(
        prog="python -m lcs_utils.evaluation.features.net_features", description=__doc__.splitlines()[0]
    )
    parser.add_argument("nets", nargs="+", help="checkpoints, or CHECKPOINT/unit")
    parser.add_argument("--preset", default="tiny", type=parse_preset)
    parser.add_argument(
        "--draws", type=int, default=DRAWS, help="draws of x_t, half for fitting (default: %(default)s)"
    )
    parser.add_argument(
        "--sigmas", type=float, nargs="+", default=SIGMAS, help="noise levels (default: 0.5 2 10 40)"
    )
    parser.add_argument(
        "--inputs",
        nargs="+",
        default=tuple(INPUTS),
        choices=tuple(INPUTS),
        help="; ".join(map(": ".join, INPUTS.items())),
    )
    parser.add_argument(
        "--order", default="random", choices=tuple(ORDERS), help="; ".join(map(": ".join, ORDERS.items()))
    )
    parser.add_argument("--device", default="cpu", help="device of the net: cpu or cuda")
    parser.add_argument("--rows", type=Path, help="CSV to store rows in (default: the preset's)")
    args = parser.parse_args(arguments)
    try:
        settings = [
            Setting(sigma, inputs, args.order, args.draws) for sigma in args.sigmas for inputs in args.inputs
        ]
        for net in args.nets:
            measure(net, args.preset, settings, args.device, args.rows)
    except (ValueError, OSError, RuntimeError, nets.CheckpointError) as error:
        parser.error(str(error))


if __name__ == "__main__":
    main()
