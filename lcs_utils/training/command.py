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
from collections.abc import Sequence
from contextlib import nullcontext
from datetime import timedelta
from pathlib import Path

import torch
from accelerate.state import PartialState
from accelerate.utils import broadcast_object_list

from lcs_utils import nets, store
from lcs_utils.experiments import Experiment
from lcs_utils.presets import Preset
from lcs_utils.resumable import read_state
from lcs_utils.training import run
from lcs_utils.training.asked import MODULES, TABLES, is_other, read, refuse
from lcs_utils.training.launch import launch
from lcs_utils.training.rendered import cores, own_described
from lcs_utils.training.state import RENDERED, about, check_made, check_same


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
    """Train what the command line asks for, or hand over to another command of MODULES."""
    words = sys.argv[1:] if arguments is None else list(arguments)
    if is_other(words):
        module = f"lcs_utils.training.{MODULES[words[0]]}"
        own = words if words[0] in ("scenes", "measure") else words[1:]
        return importlib.import_module(module).main(own)  # here, since they build on this module
    args, exps, size = read(words)
    try:
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
