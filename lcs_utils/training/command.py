"""Train nets with EDM2's recipe (App. E.1), scaled to the run's length, on CPU, a GPU or several GPUs.

    python -m lcs_utils.training exp1 --preset tiny
    python -m lcs_utils.training table1 --preset tiny   # every net of Table 1 that is missing
    python -m lcs_utils.training queue --hours 2.5      # the queue's next nets, measured and stored
    python -m lcs_utils.training errors exp1            # its error on held-out renders, by noise level

A run saves its full state every few minutes and resumes after a kill; in one process on the same CPU, the
result has the same bytes. Several GPUs of one machine: `python -m lcs_utils.training exp1
--preset paper --gpu --num-processes 8` (through accelerate); a launcher such as torchrun works as well.
"""

import argparse
import importlib
import os
import shlex
import shutil
import sys
import time
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import torch
from accelerate.state import PartialState
from accelerate.utils import broadcast_object_list

from lcs_utils import nets, store
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
from lcs_utils.resumable import read_state
from lcs_utils.training import run
from lcs_utils.training.launch import launch
from lcs_utils.training.rendered import cores, own_described
from lcs_utils.training.state import RENDERED, about, check_made, check_same

BE_SILENT = 5.0  # seconds in which only the first process reports an error
MODULES = {"queue": "queue", "errors": "errors", "scenes": "jobs", "measure": "jobs"}  # of commands
TABLES = {"table1": TABLE_1, "table2": TABLE_2, "radius": RADIUS_SWEEP, "controls": CONTROLS, "color": COLOR}


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


def is_trained(exp: Experiment, size: Preset, seed: int = 0) -> bool:
    """Whether the checkpoint exists and is intact. Rather than train over it, raises CheckpointError if it is
    altered, ValueError if it is of another experiment, architecture or data of this name.
    """
    there = (nets.folder(exp.net(seed), size.name) / nets.WEIGHTS).exists()
    if there:
        told = own_described(exp, size) or RENDERED
        check_made(nets.verified_row(exp.net(seed), size.name), exp, size, told)
    return there


def images_seen(folder: Path) -> int:
    """How many images the state in a folder has seen; 0 without one. Raises ValueError for a broken one."""
    return int(read_state(folder / "state.pt")["seen"][0]) if (folder / "state.pt").exists() else 0


def finished(folder: Path) -> bool:
    """Whether the state in a folder is of a finished run; a finished run that continues with more images
    still counts.
    """
    return (folder / "finished.json").exists()


def begin(exp: Experiment, size: Preset, seed: int, again: bool, remove: bool = False) -> None:
    """Raise ValueError if a training would replace a finished checkpoint without `again`.

    The state of an interrupted run is kept, to resume from; `again` with `remove` deletes the state of a
    finished run, whatever its length.
    """
    name = exp.net(seed)
    folder = run.state_folder(name, size)
    seen, length = images_seen(folder), size.length(exp)
    # with `again` too, what a kill or a full disk left between the last step and the export is exported
    if 0 < seen < (length + size.batch if again else length) and not (again and finished(folder)):
        return
    if not again and is_trained(exp, size, seed):  # `again` also replaces an altered one
        raise ValueError(
            f"{name} is trained, on {nets.verified_row(name, size.name)['images']:,} images; --again trains "
            "it from the start and "
            "then replaces it (git brings a shipped one back)"
        )
    if again and remove:
        for path in folder.glob("*"):
            if path.is_dir():
                shutil.rmtree(path, ignore_errors=True)
            elif path.suffix != ".lock":  # held now, and waited for by the next process
                path.unlink(missing_ok=True)


def train(
    exps: tuple[Experiment, ...],
    args: argparse.Namespace,
    size: Preset,
    words: list[str],
    processes: PartialState,
) -> None:
    """Train the nets one after another; two trainings of the same net take turns. Raises as `run`."""
    for exp in exps:
        command = shlex.join(exp.name if word == args.experiment else word for word in words)
        # accelerate leaves torch one thread, rendering may use all cores
        workers = args.threads or cores()
        state = run.state_folder(exp.net(args.seed), size) / "state.pt"
        with store.exclusive(state) if processes.is_main_process else nullcontext():
            # only now, since another process may have been training this net
            if args.again and processes.is_main_process:
                begin(exp, size, args.seed, again=True, remove=True)
            processes.wait_for_everyone()  # nobody reads a state that is about to be deleted
            run.run(
                exp,
                size,
                args.seed,
                workers=workers,
                command=f"python -m lcs_utils.training {command}",
                snapshots=args.snapshots,
            )


def check_launch(
    exps: Sequence[Experiment], size: Preset, seed: int, processes: int, again: bool = False
) -> None:
    """Raise ValueError, before any process starts, for what each of several would refuse; with `again`, the
    state of a finished run is not checked, since it will be deleted.
    """
    if os.environ.get("ACCELERATE_USE_CPU") and "MASTER_PORT" in os.environ and "RANK" not in os.environ:
        raise ValueError(
            "`accelerate launch` was asked for several processes and started this one only (it does so with "
            "--cpu, and where it finds no GPUs); use `python -m lcs_utils.training ... --num-processes N`"
        )
    if processes < 1:
        raise ValueError(f"--num-processes must be at least 1, got {processes}")
    if size.batch % processes:
        raise ValueError(f"a batch of {size.batch} cannot be shared evenly by {processes} processes")
    if processes > 1 and torch.cuda.is_available() and torch.cuda.device_count() < processes:
        raise ValueError(
            f"{processes} processes need a GPU each, and this machine shows {torch.cuda.device_count()}"
        )
    for exp in exps:
        folder = run.state_folder(exp.net(seed), size)
        if not (again and finished(folder)):
            check_same(folder, about(exp, size, seed, own_described(exp, size)))


def main(arguments=None) -> None:
    words = sys.argv[1:] if arguments is None else list(arguments)
    if words[:1] and words[0] in MODULES and words[0] not in EXPERIMENTS:
        module = f"lcs_utils.training.{MODULES[words[0]]}"
        own = words if words[0] in ("scenes", "measure") else words[1:]
        return importlib.import_module(module).main(own)  # here, since they build on this module
    parser = argparse.ArgumentParser(
        prog="python -m lcs_utils.training",
        description=__doc__.splitlines()[0],
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
    args = parser.parse_args(words)

    def refuse(error):
        if int(os.environ.get("RANK", 0)):
            time.sleep(BE_SILENT)  # the first process reports the same and ends, and with it this one
        parser.exit(2, f"{parser.prog}: {error}\n")

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
        if args.missing or args.experiment in TABLES:
            exps = [exp for exp in exps if not is_trained(exp, size, args.seed)]
        if args.gpu and exps and not torch.cuda.is_available():
            raise ValueError("--gpu: torch finds no GPU here (leave it out to train on the CPU)")
        launched = "RANK" in os.environ  # this is one of several, started by torchrun or below
        if not launched:
            os.environ.pop("WORLD_SIZE", None)  # a batch script's: accelerate would wait for others
        count = int(os.environ.get("WORLD_SIZE", args.num_processes))
        check_launch(exps, size, args.seed, count, args.again)
        if exps and args.num_processes > 1 and not launched:
            for exp in exps:
                begin(exp, size, args.seed, args.again)
            return launch(main, words, args.num_processes)
        # processes wait for one that renders, or for another training of the net, however long it takes
        processes = PartialState(cpu=not torch.cuda.is_available(), timeout=timedelta(days=7))
        if processes.num_processes > 1:  # they may have seen different nets missing
            exps = broadcast_object_list([exps])[0]
        with processes.main_process_first():
            for exp in exps if processes.is_main_process else []:
                begin(exp, size, args.seed, args.again)
    except (ValueError, OSError, nets.CheckpointError) as error:
        refuse(error)
    if args.threads:
        torch.set_num_threads(args.threads)
    if processes.is_main_process:
        where = torch.cuda.get_device_name() if processes.device.type == "cuda" else "CPU"
        names, share = "".join(f" {exp.name}" for exp in exps), processes.num_processes
        print(f"{args.experiment}: {len(exps)} to train{names}, on {share} x {where}", flush=True)
    try:
        train(exps, args, size, words, processes)
    except (ValueError, FloatingPointError, RuntimeError, OSError, nets.CheckpointError) as error:
        refuse(error)
