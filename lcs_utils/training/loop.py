"""Training of every net: EDM2's recipe (App. E.1) scaled to the run's length, on CPU, GPU or several
through accelerate.

    python -m lcs_utils.training exp1 --preset tiny
    python -m lcs_utils.training table1 --preset tiny   # every net of Table 1 that is missing, one after
    the other
    python -m lcs_utils.training queue --hours 2.5      # the next nets of the queue, measured and kept
    (training_queue)
    python -m lcs_utils.training errors exp1            # its denoising error on held-out renders, by noise
    level

A run saves its whole state every few minutes and resumes where it was after a kill; in one process on the
same CPU, with the same bytes in the end. Several GPUs of one machine: `python -m lcs_utils.training exp1
--preset paper --num-processes 8`; a launcher such as torchrun works as well.
"""

import argparse
import copy
import importlib
import math
import os
import shlex
import shutil
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import torch
from accelerate import Accelerator
from accelerate.state import PartialState
from tqdm.auto import tqdm

from lcs_utils import checkpoints, nets, paths, store
from lcs_utils.diffusion import add_noise, training_sigmas
from lcs_utils.experiments import (
    COLOR,
    CONTROLS,
    EXPERIMENTS,
    PRESETS,
    RADIUS_SWEEP,
    TABLE_1,
    TABLE_2,
    Experiment,
    Preset,
    experiment,
    preset,
)
from lcs_utils.models.pipeline import ConditionalPipeline
from lcs_utils.models.unet import dtype_on, renormalize_
from lcs_utils.resumable import read_state, remove_leftovers
from lcs_utils.training.data import Batch, Data, draw, draws, load_data
from lcs_utils.training.launch import launch
from lcs_utils.training.state import (
    LOG_EVERY,
    SIGMA_REL,
    Log,
    State,
    about,
    check_same,
    ema_exponent,
    keep_memory,
    learning_rate,
    processes_of,
    read_json,
    read_loss,
    start,
)

SAVE_EVERY = 120.0  # seconds between saved states, or
SAVING = 50  # times as long as saving took: a state of the paper's size takes seconds to write
BE_SILENT = 5.0  # seconds in which a refusal is the first process's to say
TABLES = {"table1": TABLE_1, "table2": TABLE_2, "radius": RADIUS_SWEEP, "controls": CONTROLS, "color": COLOR}
SNAPSHOTS = 8  # nets kept along a run, at total / 2^7, ..., total / 2 images


def parts(batch: Batch, x_t: torch.Tensor, sigma: torch.Tensor, at_once: int) -> Iterator[tuple]:
    """(x_t, sigma, batch) in pieces of at most `at_once` images or patches: memory holds the activations of
    one piece.
    """
    for first in range(0, len(x_t), at_once):
        here = slice(first, first + at_once)
        yield x_t[here], sigma[here], Batch(*(None if column is None else column[here] for column in batch))


def noisy(data: Data, exp: Experiment, size: int, generator: torch.Generator) -> tuple:
    """(batch, sigma, x_t): `size` images, or two patches of each, with their noise."""
    batch = draw(data, exp, size, generator)
    sigma = training_sigmas(len(batch.x0), generator)
    x_t = add_noise(batch.x0, sigma, generator)
    return batch, sigma, x_t if batch.valid is None else x_t * batch.valid


def training_loop(
    state: State, data: Data, exp: Experiment, size: Preset, accelerator: Accelerator
) -> Iterator[Log]:
    """Train until `size.length(exp)` images were seen, yielding after every step.

    Raises FloatingPointError on a loss that is not finite, ValueError when the processes cannot share a
    batch evenly.
    """
    if size.batch % accelerator.num_processes:
        raise ValueError(
            f"a batch of {size.batch} cannot be shared evenly by {accelerator.num_processes} processes"
        )
    objective, optimizer = accelerator.prepare(state.objective, state.optimizer)
    exponent, total = ema_exponent(SIGMA_REL) + 1, size.length(exp)
    share = size.batch // accelerator.num_processes
    steps = max(math.ceil((total - int(state.seen[0])) / size.batch), 0)
    for batch, sigma, x_t in draws(data, exp, share, steps, state.generator, noisy):
        seen = int(state.seen[0])
        lr = learning_rate(seen, total, size.learning_rate)
        for group in state.optimizer.param_groups:
            group["lr"] = lr
        optimizer.zero_grad()
        losses, errors = [], []
        for part in parts(batch, x_t, sigma, size.at_once):
            last = sum(map(len, losses)) + len(part[0]) == len(x_t)
            with (
                nullcontext() if last else accelerator.no_sync(objective)
            ):  # the processes exchange gradients once a step
                loss, error = objective(*part)
                accelerator.backward(loss.mean() * (len(loss) / len(x_t)))
            losses.append(loss.detach())
            errors.append(error)
        loss, error = float(torch.cat(losses).mean()), float(torch.cat(errors).mean())
        if not math.isfinite(loss):
            raise FloatingPointError(
                f"loss is {loss} after {seen:,} images; the saved state is of an earlier step"
            )
        for p in state.objective.parameters():  # EDM2's guard: one bad gradient must not end a long run
            if p.grad is not None:
                p.grad.nan_to_num_(nan=0, posinf=0, neginf=0)
        optimizer.step()
        renormalize_(state.objective)
        state.seen[0] += size.batch
        beta = (1 - size.batch / float(state.seen[0])) ** exponent
        with torch.no_grad():
            for average, current in zip(state.ema.parameters(), state.objective.net.parameters()):
                average.lerp_(current, 1 - beta)
        yield Log(int(state.seen[0]), loss, error, lr)


def snapshot_marks(total: int) -> list[int]:
    """Images at which a run keeps its EMA net, ascending: total / 128, ..., total / 2 (K along training)."""
    return [total >> shift for shift in range(SNAPSHOTS - 1, 0, -1)]


def export(
    state: State,
    exp: Experiment,
    size: Preset,
    seed: int,
    folder,
    rows: list[Log],
    command: str,
    processes: Sequence[int] = (1,),
) -> None:
    """Write the EMA net as a checkpoint folder: half-precision weights, loss curve, and the row that says
    all that was trained.

    `processes` are the numbers of processes that trained it, in order; rows of before they were kept mean 1.

    `experiments.of_row` makes the experiment and the preset of a row again.
    """
    net = copy.deepcopy(state.ema)
    device, dtype = net.out_gain.device, net.config.dtype_inside
    pipeline = ConditionalPipeline(
        net, resolution=size.resolution, radius=exp.radius, sigma_data=size.sigma_data
    )
    what, settings = asdict(exp), asdict(size)
    row = {
        "experiment": what.pop("name"),
        **what,
        "preset": settings.pop("name"),
        "settings": settings,
        "seed": seed,
        "images": int(state.seen[0]),
        "seconds": round(float(state.seen[1])),
        "error": round(float(np.mean([r.error for r in rows[-10:]])), 5) if rows else None,
        "device": torch.cuda.get_device_name(device) if device.type == "cuda" else "cpu",
        "threads": torch.get_num_threads(),
        "processes": list(processes),
        "dtype": str(dtype_on(device, dtype)).removeprefix("torch."),
        "command": command,
    }
    checkpoints.save(pipeline, folder, row=row, loss_rows=rows)


def state_folder(net: str, size: Preset) -> Path:
    """Where the state of a net's training lives (`paths.RUNS`, which LCS_RUNS moves)."""
    return paths.RUNS / size.name / "training" / net


def run(
    exp: Experiment,
    size: Preset,
    seed: int = 0,
    workers: int = 1,
    command: str = "",
    data: Data | None = None,
    folder=None,
    output=None,
    save_every: float = SAVE_EVERY,
    snapshots: bool = False,
    deadline: float = math.inf,
) -> bool:
    """Train `exp` from wherever it stopped, with progress bar, loss log and saved states; export to
    `output` at the end.

    By default the data are rendered scenes, the state lives under runs/ and the checkpoint in
    `checkpoints.folder`. With `snapshots`, nets along the way stay beside the state as checkpoints
    `<name>@<images>` (`snapshot_marks`). A finished run goes on when `size` asks for more images; its row
    then names both commands. Stops, its state saved, before `deadline` (as time.time()), after LOG_EVERY
    steps at the earliest, and says whether it finished. Raises ValueError when the saved state is broken,
    of another run or has seen more images than `size` asks for, when the disk is full, and for an
    experiment that has the name of one of the paper's and is not that one.
    """
    if EXPERIMENTS.get(exp.name, exp) != exp:
        raise ValueError(
            f"{exp.name} is the name of another experiment ({EXPERIMENTS[exp.name]}); give yours a name of "
            "its own"
        )
    accelerator = Accelerator(mixed_precision="no", cpu=not torch.cuda.is_available())
    if deadline < math.inf and accelerator.num_processes > 1:
        raise ValueError(
            f"a time limit is for one process, got {accelerator.num_processes}; leave it out, a kill "
            "resumes as well"
        )
    keep_memory()
    name = exp.net(seed)
    folder, output = (
        Path(folder or state_folder(name, size)),
        Path(output or nets.folder(name, size.name)),
    )
    total, described = size.length(exp), about(exp, size, seed)
    if accelerator.is_main_process:
        remove_leftovers(folder)
        remove_leftovers(output.parent, output.name)
    check_same(folder, described)
    processes = processes_of(folder, accelerator.num_processes)
    state = start(exp, size, seed, accelerator.device, accelerator.process_index)
    rows: list[Log] = []
    if (folder / "state.pt").exists():
        state.load(folder / "state.pt")
        if int(state.seen[0]) >= total + size.batch:  # the last batch may reach beyond
            raise ValueError(
                f"{name} was trained on {int(state.seen[0]):,} images already, more than the {total:,} "
                "asked for"
            )
        if (
            accelerator.process_index
        ):  # the saved generator is the main process's: the same data in each would be one batch
            state.generator.manual_seed(
                (seed * 1000 + accelerator.process_index) * 2**32 + int(state.seen[0])
            )
        rows = [r for r in read_loss(folder / "loss.csv") if r.images <= state.seen[0]]
        finished = read_json(folder / "finished.json")
        if finished:  # gone on with, after the learning rate had come down: not the net of one long run
            command = finished["command"] + (f" && {command}" if finished["images"] < total else "")
    if data is None:
        data = load_data(exp, size, accelerator.device, workers)
    data = data._replace(
        locations=data.locations.to(accelerator.device), colors=data.colors.to(accelerator.device)
    )

    def save() -> float:
        """Save the state; how many seconds from now it is saved again."""
        begun = time.time()
        store.write_json(folder / "run.json", described | {"processes": processes})
        checkpoints.write_loss(folder / "loss.csv", rows)
        state.keep_log(recent)
        state.save(folder / "state.pt")
        return max(save_every, SAVING * (time.time() - begun))

    clock = saved = marked = time.time()
    pause = save_every
    shown = {
        "desc": exp.name,
        "unit": "img",
        "unit_scale": True,
        "mininterval": 5,
        "disable": not accelerator.is_main_process,
    }
    bar = tqdm(total=total, initial=int(state.seen[0]), **shown)
    recent = state.log
    marks = snapshot_marks(total) if snapshots else []
    for log in training_loop(state, data, exp, size, accelerator):
        now = time.time()
        state.seen[1] += now - clock
        clock = now
        recent.append(log)
        if len(recent) == LOG_EVERY or log.images >= total:
            loss, error = (float(np.mean([getattr(r, key) for r in recent])) for key in ("loss", "error"))
            rows.append(Log(log.images, loss, error, log.lr))
            recent = []
            bar.set_postfix(loss=f"{loss:.3f}", error=f"{error:.4f}")
        bar.update(size.batch)
        if accelerator.is_main_process and any(
            log.images - size.batch < mark <= log.images for mark in marks
        ):
            export(state, exp, size, seed, folder / f"{name}@{log.images}", rows, command, processes)
        if log.images >= total:
            continue
        late = False
        if not recent:  # as many steps again would end after it
            late, marked = now + (now - marked) > deadline, now
        if (late or now - saved > pause) and accelerator.is_main_process:
            pause = save()
            saved = time.time()
        if late:
            bar.close()
            return False
    bar.close()
    if accelerator.is_main_process:
        save()
        export(state, exp, size, seed, output, rows, command, processes)
        store.write_json(folder / "finished.json", {"images": total, "command": command})
    accelerator.wait_for_everyone()  # before another run of this process looks at what was written
    return True


def chosen(name: str) -> tuple[Experiment, ...]:
    """The experiments of a name or of a table (Tables 1, 2). Raises ValueError listing the allowed names."""
    try:
        return TABLES.get(name) or (experiment(name),)
    except ValueError as error:
        raise ValueError(f"{error}; or all nets of a table: {', '.join(TABLES)}") from None


def is_trained(exp: Experiment, size: Preset, seed: int = 0) -> bool:
    """Whether the checkpoint is there and whole. Raises CheckpointError when it is altered, rather than
    train over it.
    """
    folder = nets.folder(exp.net(seed), size.name)
    return (folder / nets.WEIGHTS).exists() and bool(nets.verified_row(exp.net(seed), size.name))


def images_seen(folder: Path) -> int:
    """How many images the state in a folder has seen; 0 without one. Raises ValueError for a broken one."""
    return int(read_state(folder / "state.pt")["seen"][0]) if (folder / "state.pt").exists() else 0


def begin(exp: Experiment, size: Preset, seed: int, again: bool, remove: bool = False) -> None:
    """Raise ValueError where a training would replace a finished checkpoint that nobody gave up.

    A state that was stopped on the way is left, to go on from; with `again` and `remove`, the state of a
    finished run goes.
    """
    name = exp.net(seed)
    folder = state_folder(name, size)
    if 0 < images_seen(folder) < size.length(exp):
        return
    if is_trained(exp, size, seed) and not again:
        raise ValueError(
            f"{name} is trained, on {nets.verified_row(name, size.name)['images']:,} images; --again trains "
            "it from the start and "
            "then replaces it (git brings a shipped one back)"
        )
    if again and remove:
        shutil.rmtree(folder, ignore_errors=True)


def train(
    exps: tuple[Experiment, ...],
    args: argparse.Namespace,
    size: Preset,
    words: list[str],
    processes: PartialState,
) -> None:
    """Train one net after the other; two trainings of one net take turns. Raises as `run`."""
    for exp in exps:
        command = shlex.join(exp.name if word == args.experiment else word for word in words)
        workers = args.threads or len(
            os.sched_getaffinity(0)
        )  # accelerate leaves torch one thread, rendering may use all cores
        state = state_folder(exp.net(args.seed), size) / "state.pt"
        with store.exclusive(state) if processes.is_main_process else nullcontext():
            if (
                args.again and processes.is_main_process
            ):  # now, since the one before us may have been at work on it
                begin(exp, size, args.seed, again=True, remove=True)
            processes.wait_for_everyone()  # nobody looks at a state that is about to go
            run(
                exp,
                size,
                args.seed,
                workers=workers,
                command=f"python -m lcs_utils.training {command}",
                snapshots=args.snapshots,
            )


def check_launch(exps: Sequence[Experiment], size: Preset, seed: int, processes: int) -> None:
    """Raise ValueError for what several processes would refuse one by one, before any of them is started."""
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
        check_same(state_folder(exp.net(seed), size), about(exp, size, seed))


def main(arguments=None) -> None:
    words = sys.argv[1:] if arguments is None else list(arguments)
    modules = {"queue": "queue", "errors": "errors", "scenes": "measures"}
    modules["measure"] = modules["scenes"]
    if words[:1] and words[0] in modules:
        module = f"lcs_utils.training.{modules[words[0]]}"
        own = words if words[0] in ("scenes", "measure") else words[1:]
        return importlib.import_module(module).main(own)  # here, since they build on this module
    parser = argparse.ArgumentParser(
        prog="python -m lcs_utils.training",
        description=__doc__.splitlines()[0],
        epilog="States, samples and scenes live under runs/, or in the folder that LCS_RUNS names.",
    )
    everything = f"{', '.join(TABLES)}: its missing nets; queue, errors, scenes, measure: see their --help"
    parser.add_argument("experiment", help=f"one of: {', '.join(EXPERIMENTS)}; or {everything}")
    parser.add_argument(
        "--preset", default="tiny", help=f"one of: {', '.join(PRESETS)}; or a trial of one, as tiny_2000"
    )
    parser.add_argument(
        "--num-processes", type=int, default=1, help="of this machine, one GPU each; they share every batch"
    )
    parser.add_argument(
        "--images",
        type=int,
        help="instead of the preset's number (a net named _x3 takes three times as many)",
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--again", action="store_true", help="train from the start, in place of a finished checkpoint"
    )
    parser.add_argument(
        "--missing", action="store_true", help="do nothing when the checkpoint exists (always so for tables)"
    )
    parser.add_argument(
        "--snapshots", action="store_true", help="keep nets along the way as checkpoints NAME@IMAGES"
    )
    parser.add_argument("--threads", type=int, help="CPU threads (bit-equal results need the same number)")
    args = parser.parse_args(words)

    def refuse(error):
        if int(os.environ.get("RANK", 0)):
            time.sleep(BE_SILENT)  # the first process says the same and ends, and with it this one
        parser.exit(2, f"{parser.prog}: {error}\n")

    try:
        exps, size = chosen(args.experiment), preset(args.preset)
        if args.images is not None and args.images < size.batch:
            raise ValueError(f"--images {args.images} is less than one batch of {size.batch}")
        if args.images is not None:
            size = replace(size, images=args.images, patch_images=args.images)
        if args.missing or args.experiment in TABLES:
            exps = [exp for exp in exps if not is_trained(exp, size, args.seed)]
        check_launch(exps, size, args.seed, int(os.environ.get("WORLD_SIZE", args.num_processes)))
        if exps and args.num_processes > 1 and "WORLD_SIZE" not in os.environ:  # else this is one of them
            for exp in exps:
                begin(exp, size, args.seed, args.again)
            return launch(main, words, args.num_processes)
        processes = PartialState(cpu=not torch.cuda.is_available())
        with processes.main_process_first():
            for exp in exps if processes.is_main_process else []:
                begin(exp, size, args.seed, args.again)
    except (ValueError, nets.CheckpointError) as error:
        refuse(error)
    if args.threads:
        torch.set_num_threads(args.threads)
    if processes.is_main_process:
        print(
            f"{args.experiment}: {len(exps)} to train" + "".join(f" {exp.name}" for exp in exps), flush=True
        )
    try:
        train(exps, args, size, words, processes)
    except (ValueError, FloatingPointError, nets.CheckpointError) as error:
        refuse(error)


if __name__ == "__main__":
    main()
