"""What a training's command asks for, read before torch is imported, which takes seconds: --help and a
mistyped name are answered at once.
"""

import argparse
import os
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple, NoReturn

from lcs_utils import nets
from lcs_utils.checks import check_count
from lcs_utils.experiments import (
    COLOR,
    CONTROLS,
    EXPERIMENTS,
    RADIUS_SWEEP,
    TABLE_1,
    TABLE_2,
    Experiment,
    experiment,
)
from lcs_utils.presets import PRESETS, Preset, preset

BE_SILENT = 5.0  # seconds in which only the first process reports an error
MODULES = {"queue": "queue", "errors": "errors", "scenes": "jobs", "measure": "jobs"}  # of other commands
DESCRIPTION = (
    "Train nets with EDM2's recipe (App. E.1), scaled to the run's length, on CPU, a GPU or several GPUs."
)
TABLES = {"table1": TABLE_1, "table2": TABLE_2, "radius": RADIUS_SWEEP, "controls": CONTROLS, "color": COLOR}


class Asked(NamedTuple):
    """The command line, and the experiments to train at which size."""

    args: argparse.Namespace
    exps: tuple[Experiment, ...]
    size: Preset


def chosen(name: str) -> tuple[Experiment, ...]:
    """The experiments of a name or of a table (Tables 1, 2). Raises ValueError listing the allowed names."""
    if name in EXPERIMENTS and name in (*TABLES, *MODULES):
        kind = "a table of nets" if name in TABLES else "a command"
        raise ValueError(f"{name} is the name of {kind}; give your experiment another")
    base, seed, images, change = nets.parts(name)
    if base in EXPERIMENTS and base != name:
        how = f"--seed {seed}" if seed else "" if images is None else "--snapshots"
        train = f"{base} {how}".rstrip()
        raise ValueError(
            f"{name} is a net's name; train it with {train!r}"
            + (f", and {change!r} is a change at sampling, for `measure`" if change else "")
        )
    try:
        return TABLES.get(name) or (experiment(name),)
    except ValueError as error:
        raise ValueError(f"{error}; or all nets of a table: {', '.join(TABLES)}") from None


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m lcs_utils.training",
        description=DESCRIPTION,
        epilog="States, samples and scenes live under runs/, or in the folder that LCS_RUNS names. "
        "LCS_EXPERIMENTS names a Python file that adds experiments of your own (CONTRIBUTING.md).",
    )
    everything = f"{', '.join(TABLES)}: its missing nets; queue, errors, scenes, measure: see their --help"
    parser.add_argument("experiment", help=f"one of: {', '.join(EXPERIMENTS)}; or {everything}")
    parser.add_argument(
        "--preset", default="tiny", help=f"one of: {', '.join(PRESETS)}; or a trial of one, such as tiny_2000"
    )
    parser.add_argument(
        "--num-processes", type=int, default=1, help="processes, one GPU each, that share every batch"
    )
    parser.add_argument("--gpu", action="store_true", help="stop rather than train on the CPU")
    parser.add_argument(
        "--images",
        type=int,
        help="training images, instead of the preset's (nets named _x3 take three times as many)",
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--again", action="store_true", help="train from the start and replace a finished checkpoint"
    )
    parser.add_argument(
        "--missing", action="store_true", help="do nothing if the checkpoint exists (always so for tables)"
    )
    parser.add_argument(
        "--snapshots", action="store_true", help="keep intermediate nets as checkpoints NAME@IMAGES"
    )
    parser.add_argument("--threads", type=int, help="CPU threads (bit-equal results need the same number)")
    return parser


PARSER = _parser()


def is_other(words: Sequence[str]) -> bool:
    """Whether the words are of a command in MODULES, each of which reads its own."""
    return bool(words[:1]) and words[0] in MODULES and words[0] not in EXPERIMENTS


def refuse(error: Exception) -> NoReturn:
    """End with status 2 and one line."""
    if int(os.environ.get("RANK", 0)):
        time.sleep(BE_SILENT)  # the first process reports the same and ends, and with it this one
    PARSER.exit(2, f"{PARSER.prog}: {error}\n")


def read(words: Sequence[str]) -> Asked:
    """Read a training's command line; ends as argparse does for --help and options that do not exist, and by
    `refuse` for what no machine could train.
    """
    args = PARSER.parse_args(words)
    try:
        exps, size = chosen(args.experiment), preset(args.preset)
        if args.threads is not None:
            check_count("--threads", args.threads, 1)
        if args.images is not None and args.images < size.batch:
            raise ValueError(f"--images {args.images} is less than one batch of {size.batch}")
        if args.images is not None:
            size = replace(size, images=args.images, patch_images=args.images)
        if args.again and (args.missing or args.experiment in TABLES):
            raise ValueError("--again is for one net, and without --missing: it would train no net anew")
    except ValueError as error:
        refuse(error)
    return Asked(args, exps, size)
