"""Length generalization: sample a net at K locations, count objects, store one row per sample (App. E.2).

    python -m lcs_utils.evaluation.length_generalization exp1 exp2 exp2/unit --k 0-12 --samples 64

Rows are stored in data/counts/<preset>/length_generalization.csv.bz2. Figures and tables are drawn from them;
`evaluation.rates` computes intervals, `evaluation.rules` K. Rows with the same weights, counter, seed and
sampler are kept, and so are samples (under runs/): a stopped run resumes where it was, and a new counter
recounts the old samples. NET/CHANGE is a net sampled another way (`evaluation.changes`).
"""

import argparse
from pathlib import Path

import torch
from tqdm.auto import tqdm

from lcs_utils import checkpoints, nets, store
from lcs_utils.clevr.card import parse_counts
from lcs_utils.counter import loading
from lcs_utils.diffusion import SDE, SOLVERS
from lcs_utils.evaluation import changes, families
from lcs_utils.evaluation.counting import check_fit, count_rows, count_sheet, counter_hash
from lcs_utils.evaluation.family_grids import FAMILIES
from lcs_utils.evaluation.rows import STANDARD, read_rows, rows_path, write_rows
from lcs_utils.evaluation.samples import expected_seconds, keep_drawing, kept_samples, on
from lcs_utils.evaluation.sheets import ACROSS, SHOWN, keep_sheet
from lcs_utils.evaluation.ways import Way
from lcs_utils.presets import parse_preset


def measure(
    net: str,
    ks,
    samples: int,
    preset="tiny",
    seed: int = STANDARD.seed,
    steps: int | None = None,
    solver: str | None = None,
    family: str = "test",
    device: str = "cpu",
    rows_file: str | Path | None = None,
    counter_folder: str | Path | None = None,
    sheet_of_any: bool = False,
) -> None:
    """Sample and count `net` at every K of `ks`, adding to the stored rows (or to `rows_file`) as it
    goes.

    Prints the expected time before it starts. Without `steps` and `solver`, those of `changes.sampler`.
    `counter_folder` is another counter than the shipped one, whose rows belong in a file of their own. Of
    the paper's locations a sheet of samples is kept, of others with `sheet_of_any`. Raises ValueError before
    any sampling when the net does not fit the counter or the locations, or a sheet is asked for that is not
    kept, CheckpointError when the net is missing or altered.
    """
    from lcs_utils.models.fused import fuse_  # imports diffusers, which readers of rows do not need

    base, change = changes.split(net)
    usual = changes.sampler(net)
    solver, steps = usual.solver if solver is None else solver, usual.steps if steps is None else steps
    pipeline = checkpoints.load(base, preset, device)
    counter = loading.load(pipeline.config.resolution, counter_folder)
    check_fit(net, pipeline, counter)
    for name in change.also if change else ():
        check_fit(name, checkpoints.load(name, preset, device), counter, told=False)
    fuse_(pipeline.net)  # bit-identical, a third faster
    denoise = on(device, change.apply(pipeline.denoiser, preset, device) if change else pipeline.denoiser)
    side, path = pipeline.config.resolution, Path(rows_file or rows_path(preset))
    hashes = changes.weights(net, preset), counter_hash(side, counter_folder)
    way = Way(preset, net, family, seed, solver, steps, *hashes, device)
    rows = read_rows(path)
    # a sheet is made of saved samples: of counted ones that are lost, too, if it was asked for
    lost = {k for k in ks if sheet_of_any and k in SHOWN and kept_samples(way.place(k)) < ACROSS}
    missing = [k for k in ks if way.counted(rows, k, samples) < samples or k in lost]
    standard = (family == "test" or sheet_of_any) and (seed, solver, steps) == usual
    shown = standard and not rows_file and nets.parts(net)[2] is None  # snapshots are too many
    if sheet_of_any and (not shown or samples < ACROSS):
        raise ValueError(
            f"a sheet keeps {ACROSS} or more samples of a net or NET/CHANGE, drawn as usual and counted in "
            f"the shipped rows; {net!r} is a snapshot, or other samples, seed, solver, steps or rows were "
            "asked for"
        )
    if not missing:
        print(f"{net}: all {len(ks) * samples} samples are counted already, in {path.name}", flush=True)
        return keep_sheet(way) if shown else None
    left = {k: max(samples - kept_samples(way.place(k)), 0) for k in missing}
    fresh, total = [k for k in missing if left[k]], sum(left.values())
    seconds = expected_seconds(denoise, side, fresh, steps, solver) * total if fresh else 0.0
    print(
        f"{net}: {len(missing) * samples} samples to count, {total} of them to draw, about "
        f"{seconds / 60:.1f} minutes",
        flush=True,
    )

    def add(counted):
        with store.exclusive(path):  # another net may be measured at the same time
            write_rows(way.joined(read_rows(path), counted), path, counter_folder)

    with (
        tqdm(total=len(missing) * samples, desc=net, unit="sample", disable=None) as bar,
        store.gathering(add) as keep,
    ):
        for k in missing:
            bar.set_postfix(K=k)
            parts = []
            for part in keep_drawing(way.place(k), denoise, side, k, samples, seed, steps, solver, family):
                parts.append(part)
                bar.update(len(part))
            keep(count_rows(torch.cat(parts), counter, k, **way.key))
    if shown:
        keep_sheet(way)


def main(arguments=None) -> None:
    parser = argparse.ArgumentParser(prog="python -m lcs_utils.evaluation.length_generalization")
    known = ", ".join(changes.CHANGES)
    parser.add_argument("nets", nargs="+", help=f"checkpoints, or CHECKPOINT/CHANGE, CHANGE one of {known}")
    parser.add_argument(
        "--k", type=parse_counts, help="numbers of locations, such as 4, 0-12 or 1,4 (default: all)"
    )
    parser.add_argument("--samples", type=int, default=64, help="samples per K")
    parser.add_argument("--preset", default="tiny", type=parse_preset)
    parser.add_argument("--steps", type=int, help=f"{STANDARD.steps}, or CHANGE's")
    parser.add_argument(
        "--solver", choices=(*SOLVERS, SDE), help=f"{STANDARD.solver}, unless CHANGE has its own"
    )
    parser.add_argument("--seed", type=int, default=STANDARD.seed)
    parser.add_argument(
        "--device", default="cpu", help="device of the net: cpu, or cuda (where a few counts may differ)"
    )
    parser.add_argument(
        "--family", default="test", choices=tuple(FAMILIES), help="; ".join(map(": ".join, FAMILIES.items()))
    )
    parser.add_argument(
        "--sheet",
        action="store_true",
        help="count the samples of the net's sheet in data/samples; needs no weights",
    )
    parser.add_argument(
        "--keep-sheet",
        action="store_true",
        help="keep a sheet in data/samples of another family's samples, too",
    )
    parser.add_argument(
        "--rows",
        help="CSV to store rows in (default: the shipped one, which also updates the sheet in data/samples)",
    )
    parser.add_argument("--counter", help="folder of another counter; requires --rows")
    args = parser.parse_args(arguments)
    try:
        if args.counter and not args.rows:
            raise ValueError(
                f"--counter {args.counter} needs --rows: the shipped rows are those of the shipped counter"
            )
        largest = families.LARGEST_K[args.family]
        ks = range(largest + 1) if args.k is None else args.k
        if args.samples < 1 or not 0 <= min(ks) <= max(ks) <= largest:
            raise ValueError(
                f"need --samples >= 1 and --k within 0-{largest} of family {args.family}; got "
                f"{args.samples} and {max(ks)}"
            )
        for net in args.nets:
            changes.split(net)
        for net in args.nets:
            if args.sheet:
                count_sheet(net, args.preset)
                continue
            measure(
                net,
                ks,
                args.samples,
                args.preset,
                args.seed,
                args.steps,
                args.solver,
                args.family,
                args.device,
                args.rows,
                args.counter,
                args.keep_sheet,
            )
    except (ValueError, OSError, nets.CheckpointError) as error:
        parser.error(str(error))


if __name__ == "__main__":
    main()
