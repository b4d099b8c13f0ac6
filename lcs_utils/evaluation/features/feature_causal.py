"""F5 as rows: directions of eq. (3) added and removed at one layer while a trained net samples (section 4).

    python -m lcs_utils.evaluation.features.feature_causal exp1 exp2 --layers encoder.2.scale decoder.0.scale

Rows have the format of `net_features` and live in the same file; sigma 0 and inputs "samples" mark them as
measured on finished images.
"""

import argparse
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import torch
from torch import Tensor

from lcs_utils import nets, presets, store
from lcs_utils.counter import loading
from lcs_utils.diffusion import karras_sigmas
from lcs_utils.evaluation.colors.color import found_colors
from lcs_utils.evaluation.features.feature_nets import (
    Subject,
    condition_kind,
    near_places,
    singles,
    subject,
    untrained_twin,
)
from lcs_utils.evaluation.features.net_features import COMMAND, FeatureRow, path
from lcs_utils.evaluation.rows import STANDARD
from lcs_utils.features import causal
from lcs_utils.features.capture import find_layers
from lcs_utils.presets import parse_preset
from lcs_utils.stats import interval

IMAGES = 16
LAYERS = ("encoder.2.scale", "decoder.0.scale")  # Choice: one layer in each half, where images are small
# Choice: three conditions, as many as in training; the last one is given or left out
CONTEXT, ADDED = ((0, 1, 2), 2)


def judge_of(of: Subject, count=None) -> causal.Judge:
    """Judge of a net's images: for locations, the pixels near the places; for colors, `count`, which returns
    the objects of each color in an image.

    Raises ValueError for a color net without `count`.
    """
    if count is not None:
        return causal.by_counts(count)
    if condition_kind(of.module.config.cond_dim) == "color":
        raise ValueError(
            f"{of.net} takes colors, which have no place: pass a function that counts them, such as "
            "`color_count(resolution)`"
        )
    return causal.near_places(near_places(of.resolution))


def color_count(resolution: int) -> Callable[[Tensor], Tensor]:
    """A function that counts the objects of each color, [images, 8], with the counter of that resolution."""
    counter = loading.load(resolution)
    return lambda images: found_colors(counter(images))


def causal_rows(
    of: Subject,
    preset: str,
    layers: Iterable[str],
    sigma_data: float,
    context: Sequence[int] = CONTEXT,
    j: int = ADDED,
    images: int = IMAGES,
    steps: int = STANDARD.steps,
    alpha: float = 1.0,
    count=None,
    seed: int = 0,
) -> list[FeatureRow]:
    """Effect and leak of adding alpha d_j and of removing span(d_j) at each layer by itself, with all
    controls and intervals over images.

    Directions are measured on different noise than the samples they are added to. Raises ValueError as
    `judge_of`, `features.causal.directions` and `features.causal.interventions`, if possible before any
    sampling.
    """
    judge, cond = judge_of(of, count), singles(of.module.config.cond_dim)
    names = [causal.one_layer(of.module, layer) for layer in layers]
    generator = torch.Generator().manual_seed(seed)
    fit, noise = torch.randn(2, images, 3, of.resolution, of.resolution, generator=generator)
    sigmas = karras_sigmas(steps)
    twin = untrained_twin(of, sigma_data)
    rows = []
    for layer in names:
        found = causal.directions(of.denoise, of.module, layer, cond, fit, sigmas)
        fresh = causal.directions(twin.denoise, twin.module, layer, cond, fit, sigmas).scaled_as(found)
        results = causal.interventions(
            of.denoise, of.module, found, cond, context, j, noise, sigmas, judge, alpha, fresh, seed=seed
        )
        for result in results:
            for name in ("effect", "leak"):
                value = interval(getattr(result, name).double().numpy(), seed=seed)
                how = (
                    layer,
                    "flat",
                    0.0,
                    "samples",
                    "first",
                    images,
                    f"{result.intervention}_{name}",
                    len(context),
                    result.control,
                )
                rows.append(FeatureRow(preset, of.net, of.weights, *how, *value))
    return rows


def measure(
    net: str,
    preset: str = "tiny",
    layers: Sequence[str] | None = None,
    device: str = "cpu",
    file: Path | None = None,
    images: int = IMAGES,
    alpha: float = 1.0,
) -> list[FeatureRow]:
    """Measure a net at `layers`, one at a time, replace its stored rows there, and return the new ones. By
    default `layers` are those of LAYERS that the net has, and rows of the same weights are reused. Raises as
    `subject` and `causal_rows`, and ValueError for alpha other than 1 without `file`.
    """
    if alpha != 1 and file is None:
        raise ValueError(
            f"rows do not store alpha: rows of alpha {alpha:g} want a file of their own, --rows FILE"
        )
    of, file = subject(net, preset, device), file or path(preset)
    there = find_layers(of.module, "MCScale")
    if layers is None:
        layers = [layer for layer in LAYERS if layer in there]
        known = [
            row
            for row in store.read_rows(file, FeatureRow)
            if (row.net, row.weights, row.inputs, row.draws) == (of.net, of.weights, "samples", images)
        ]
        if alpha == 1 and {row.layer for row in known} >= set(layers):
            return known
    color = condition_kind(of.module.config.cond_dim) == "color"
    rows = causal_rows(
        of,
        preset,
        layers,
        presets.preset(preset).sigma_data,
        images=images,
        alpha=alpha,
        count=color_count(of.resolution) if color else None,
    )
    with store.exclusive(file):
        mine = {(row.net, row.layer, row.inputs) for row in rows}
        kept = [
            row for row in store.read_rows(file, FeatureRow) if (row.net, row.layer, row.inputs) not in mine
        ]
        store.write_rows(file, COMMAND, FeatureRow, kept + rows)
    return rows


def main(arguments=None) -> None:
    parser = argparse.ArgumentParser(
        prog="python -m lcs_utils.evaluation.features.feature_causal", description=__doc__.splitlines()[0]
    )
    parser.add_argument("nets", nargs="+", help="checkpoints")
    parser.add_argument("--layers", nargs="+", help=f"one at a time (default: {' '.join(LAYERS)})")
    parser.add_argument("--preset", default="tiny", type=parse_preset)
    parser.add_argument("--images", type=int, default=IMAGES)
    parser.add_argument("--alpha", type=float, default=1.0, help="factor of the added mean difference")
    parser.add_argument("--rows", type=Path, help="a CSV of your own (default: the preset's)")
    args = parser.parse_args(arguments)
    try:
        for net in args.nets:
            for row in measure(
                net, args.preset, args.layers, file=args.rows, images=args.images, alpha=args.alpha
            ):
                print(
                    f"{net} {row.layer} {row.measure:14} {row.control or 'd_j':10} {row.value:6.2f} "
                    f"[{row.low:.2f}, {row.high:.2f}]"
                )
    except (ValueError, OSError, RuntimeError, nets.CheckpointError) as error:
        parser.error(str(error))


if __name__ == "__main__":
    main()
