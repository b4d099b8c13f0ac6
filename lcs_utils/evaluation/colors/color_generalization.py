"""Length generalization in colors: sample a color-conditioned net, count by color, one row per sample.

    python -m lcs_utils.evaluation.colors.color_generalization color_1-3 --k 1-8 --samples 64

Section 4, App. E.4. Rows live in data/counts/<preset>/color_generalization.csv.bz2; those of the same
weights, counter, seed and sampler are reused, as are samples and their sheet, as with locations.
"""

import argparse
from collections.abc import Iterable, Sequence
from pathlib import Path

import torch
from tqdm.auto import tqdm

from lcs_utils import checkpoints, nets, store
from lcs_utils.clevr.card import parse_counts
from lcs_utils.counter import loading
from lcs_utils.evaluation import changes
from lcs_utils.evaluation.colors.color import FAMILIES, LARGEST_K, ColorRow, N, color_rows, conditions
from lcs_utils.evaluation.counting import counter_hash
from lcs_utils.evaluation.rows import STANDARD, Sampler, rows_path
from lcs_utils.evaluation.samples import keep_drawing, on
from lcs_utils.evaluation.sheets import keep_sheet
from lcs_utils.evaluation.ways import Way
from lcs_utils.models.fused import fuse_
from lcs_utils.presets import parse_preset

COMMAND = "python -m lcs_utils.evaluation.colors.color_generalization"
NAME = "color_generalization"


def read(preset: str = "tiny") -> list[ColorRow]:
    """The stored rows. Warns and raises as `store.read_rows`."""
    return store.read_rows(rows_path(preset, NAME), ColorRow)


def write(rows: Iterable[ColorRow], path: Path) -> None:
    """Write all rows, sorted, whole or not at all; the first line is the command that makes them."""
    store.write_rows(path, f"{COMMAND} NET ... --k 0-{LARGEST_K} --samples 64", ColorRow, rows)


def measure(
    net: str,
    ks: Sequence[int],
    samples: int,
    preset: str = "tiny",
    family: str = "colors",
    sampler: Sampler = STANDARD,
    device: str = "cpu",
    rows_file: str | Path | None = None,
) -> None:
    """Sample and count `net` at every K of `ks`, adding to the stored rows after each K.

    Raises ValueError before any sampling for a net that is not conditioned on colors, an unknown family or a
    K outside its range, CheckpointError when the net is missing or altered.
    """
    for k in ks:
        conditions(family, k, 1)
    base, change = changes.split(net)
    pipeline = checkpoints.load(base, preset, device)
    if pipeline.net.config.cond_dim != N:
        raise ValueError(f"{net} takes conditions of {pipeline.net.config.cond_dim} numbers, colors are {N}")
    side = pipeline.config.resolution
    counter = loading.load(side)
    fuse_(pipeline.net)
    denoise = on(device, change.apply(pipeline.denoiser, preset, device) if change else pipeline.denoiser)
    path = Path(rows_file or rows_path(preset, NAME))
    way = Way(preset, net, family, *sampler, changes.weights(net, preset), counter_hash(side), device)
    known = store.read_rows(path, ColorRow)
    missing = [k for k in ks if way.counted(known, k, samples) < samples]

    def add(counted):
        with store.exclusive(path):  # another net may be measured at the same time
            write(way.joined(store.read_rows(path, ColorRow), counted), path)

    with store.gathering(add) as keep:
        for k in tqdm(missing, desc=net, unit="K", disable=None):
            cond = conditions(family, k, samples, sampler.seed)
            seed, solver, steps = sampler
            parts = keep_drawing(way.place(k), denoise, side, k, samples, seed, steps, solver, family, cond)
            keep(color_rows(torch.cat(list(parts)), counter, cond, **way.key))
    if family == "colors" and sampler == STANDARD and not rows_file and nets.parts(net)[2] is None:
        keep_sheet(way)


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog=COMMAND, description=__doc__.splitlines()[0])
    parser.add_argument("nets", nargs="+", help="color-conditioned checkpoints, or CHECKPOINT/CHANGE")
    parser.add_argument("--k", type=parse_counts, help="numbers of objects, as 4, 0-8 or 1,4 (default: all)")
    parser.add_argument("--samples", type=int, default=64, help="samples per K")
    parser.add_argument("--preset", default="tiny", type=parse_preset)
    parser.add_argument("--family", default="colors", choices=tuple(FAMILIES))
    parser.add_argument("--device", default="cpu", help="where the net runs: cpu, or cuda")
    parser.add_argument("--rows", help="a CSV of your own (default: the preset's)")
    args = parser.parse_args(arguments)
    ks = range(LARGEST_K + 1) if args.k is None else args.k
    try:
        if args.samples < 1:
            raise ValueError(f"--samples must be at least 1, got {args.samples}")
        for net in args.nets:
            changes.split(net)
        for net in args.nets:
            measure(net, ks, args.samples, args.preset, args.family, STANDARD, args.device, args.rows)
    except (ValueError, OSError, nets.CheckpointError) as error:
        parser.error(str(error))


if __name__ == "__main__":
    main()
