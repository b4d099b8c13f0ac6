"""Run a training: progress, saved states that resume after a kill, snapshots, and the exported net.

A run saves its full state every few minutes and resumes from it; in one process on the same CPU, the result
has the same bytes.
"""

import math
import signal
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from accelerate import Accelerator
from tqdm.auto import tqdm

from lcs_utils import checkpoints, nets, paths, store
from lcs_utils.checks import check_kind
from lcs_utils.experiments import EXPERIMENTS, Experiment
from lcs_utils.models.precision import dtype_on
from lcs_utils.presets import Preset
from lcs_utils.resumable import fresh_draws
from lcs_utils.training.data import Data
from lcs_utils.training.loop import training_loop
from lcs_utils.training.rendered import check_data, described, load_data, own_data
from lcs_utils.training.state import (
    LOG_EVERY,
    Log,
    State,
    about,
    check_same,
    keep_memory,
    labels_drawn,
    net_code,
    processes_of,
    read_json,
    read_loss,
    start,
)

if TYPE_CHECKING:
    from lcs_utils.models.pipeline import ConditionalPipeline

SAVE_EVERY = 120.0  # seconds between saved states, or
SAVING = 50  # times as long as saving took: a state of the paper's size takes seconds to write
SNAPSHOTS = 8  # the last is the net itself; seven are kept along a run, at total / 2^7, ..., total / 2 images


@contextmanager
def interrupts(between_steps: bool) -> Iterator[list[int]]:
    """Yield a list that is empty until Ctrl-C, which then waits for the caller, if `between_steps`; a second
    one stops at once. Where Ctrl-C is ignored or this is no main thread, nothing changes.
    """
    asked: list[int] = []

    def note(number, frame):
        if asked:
            raise KeyboardInterrupt
        asked.append(number)

    ours = threading.current_thread() is threading.main_thread()
    if not (between_steps and ours and signal.getsignal(signal.SIGINT) is signal.default_int_handler):
        yield asked
        return
    signal.signal(signal.SIGINT, note)
    try:
        yield asked
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def snapshot_marks(total: int) -> list[int]:
    """Images at which a run keeps its EMA net, ascending: total / 128, ..., total / 2 (K along training)."""
    return [total >> shift for shift in range(SNAPSHOTS - 1, 0, -1)]


def pipeline_of(state: State, exp: Experiment, size: Preset) -> "ConditionalPipeline":
    """What is stored of a training: its EMA net with what sampling needs. Raises TypeError for a net of
    another class.
    """
    from lcs_utils.models.pipeline import ConditionalPipeline  # takes seconds; --help and rows do not need it

    how = {"resolution": size.resolution, "radius": exp.radius, "sigma_data": size.sigma_data}
    return ConditionalPipeline(state.ema, **how)


def export(
    state: State,
    exp: Experiment,
    size: Preset,
    seed: int,
    folder,
    rows: list[Log],
    command: str,
    processes: Sequence[int] = (1,),
    data: str = "",
) -> None:
    """Write the EMA net as a checkpoint folder: half-precision weights, loss curve, and a row with all
    settings.

    `processes` are the numbers of processes that trained it, in order; older rows, without them, mean 1.
    `data` describes custom data, "" means rendered scenes. `presets.of_row` rebuilds the experiment and the
    preset from a row.
    """
    net, pipeline = state.ema, pipeline_of(state, exp, size)
    device, dtype = net.device, net.config.get("dtype_inside", "float32")
    what, settings = asdict(exp), size.stored()
    row = {
        "experiment": what.pop("name"),
        **what,
        "labels_drawn": labels_drawn(exp),
        **net_code(size),
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
    } | ({"data": data} if data else {})
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
    rendered: bool = False,
    folder=None,
    output=None,
    save_every: float = SAVE_EVERY,
    snapshots: bool = False,
    deadline: float = math.inf,
) -> bool:
    """Train `exp` from wherever it stopped, with progress bar, loss log and saved states; export to `output`
    at the end.

    By default the data are rendered scenes, or those of `own.DATA`, the state lives under runs/ and the
    checkpoint in `nets.folder`; its row describes custom `data` (`described`), unless `rendered` says that
    they are `load_data`'s. With `snapshots`, intermediate nets are kept beside the state as checkpoints
    `<name>@<images>` (`snapshot_marks`). A finished run continues if `size` asks for more images; its row
    then names both commands. Two trainings of one net take turns. Saves its state and stops at Ctrl-C (in one
    process) and before `deadline` (as time.time()), then after LOG_EVERY steps at the earliest. Returns
    whether it finished. Raises KeyboardInterrupt after that save; ValueError when the saved state is broken,
    of another run or has seen more images than `size` asks for, when the disk is full, and for an experiment
    that has the name of one of the paper's but differs, or
    fewer objects than an image of `data`; TypeError for an `exp` or `size` that is a name; TypeError or
    ValueError for bad `data` (`check_data`).
    """
    check_kind("exp", exp, Experiment, "an Experiment")
    check_kind("size", size, Preset, "a Preset, such as preset('tiny')")
    if EXPERIMENTS.get(exp.name, exp) != exp:
        raise ValueError(
            f"{exp.name} is the name of another experiment ({EXPERIMENTS[exp.name]}); give yours a name of "
            "its own"
        )
    data = own_data(exp, size) if data is None else data
    if data is not None:
        check_data(data, size.resolution)
        if not rendered and (most := int((data.colors >= 0).sum(1).max())) > exp.objects[1]:
            low, high = exp.objects  # K is judged by what training showed
            raise ValueError(f"{exp.name}: images of {low}-{high} objects, but one of `data` has {most}")
    own = "" if data is None or rendered else described(data)
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
    with store.exclusive(folder / "state.pt") if accelerator.is_main_process else nullcontext():
        accelerator.wait_for_everyone()  # nobody reads a state that another training of the net is writing
        total, what = size.length(exp), about(exp, size, seed, own)
        if accelerator.is_main_process:
            store.remove_leftovers(folder)
            store.remove_leftovers(output.parent, output.name)
        check_same(folder, what)
        processes = processes_of(folder, accelerator.num_processes)
        state = start(exp, size, seed, accelerator.device, accelerator.process_index)
        pipeline_of(state, exp, size)  # a net that cannot be stored is refused now, not in the end
        rows: list[Log] = []
        if (folder / "state.pt").exists():
            state.load(folder / "state.pt", (seed, accelerator.process_index))
            if int(state.seen[0]) >= total + size.batch:  # the last batch may overshoot
                raise ValueError(
                    f"{name} was trained on {int(state.seen[0]):,} images already, more than the {total:,} "
                    "asked for"
                )
            # the saved generator is the main process's; with it, all would draw the same batch
            if accelerator.process_index:
                fresh_draws(state.generator, seed, accelerator.process_index, int(state.seen[0]))
            rows = [r for r in read_loss(folder / "loss.csv") if r.images <= state.seen[0]]
            finished, before = (read_json(folder / f"{file}.json") or {} for file in ("finished", "run"))
            # continued after the learning rate had come down, or to another length: not the net of one run
            if {"command", "images"} <= finished.keys():
                command = finished["command"] + (f" && {command}" if finished["images"] < total else "")
            elif before.get("length", total) != total:
                command = f"{before['command']} && {command}"
            elif " && " in before.get("command", ""):
                command = before["command"]
        if data is None:
            data = load_data(exp, size, accelerator.device, workers)
        data = data._replace(
            locations=data.locations.to(accelerator.device), colors=data.colors.to(accelerator.device)
        )

        def save() -> float:
            """Save the state; return the seconds until the next save."""
            begun = time.time()
            told = what | {"processes": processes, "length": total, "command": command}
            store.write_json(folder / "run.json", told)
            checkpoints.write_loss(folder / "loss.csv", rows)
            state.keep_log(recent)
            state.save(folder / "state.pt")
            return max(save_every, SAVING * (time.time() - begun))

        clock = saved = time.time()
        marked = None  # time of the last line of the log; not before the first step, in which a GPU compiles
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
        with interrupts(accelerator.num_processes == 1) as interrupted:
            for log in training_loop(state, data, exp, size, accelerator):
                now = time.time()
                state.seen[1] += now - clock
                clock = now
                recent.append(log)
                if len(recent) == LOG_EVERY or log.images >= total:
                    loss, error = (
                        float(np.mean([getattr(r, key) for r in recent])) for key in ("loss", "error")
                    )
                    rows.append(Log(log.images, loss, error, log.lr))
                    recent = []
                    bar.set_postfix(loss=f"{loss:.3f}", error=f"{error:.4f}")
                bar.update(size.batch)
                if accelerator.is_main_process and any(
                    log.images - size.batch < mark <= log.images for mark in marks
                ):
                    export(
                        state, exp, size, seed, folder / f"{name}@{log.images}", rows, command, processes, own
                    )
                if log.images >= total:
                    continue
                marked, late = marked or now, bool(interrupted)
                if not recent:  # as many steps again would pass the deadline
                    late, marked = late or now + (now - marked) > deadline, now
                if (late or now - saved > pause) and accelerator.is_main_process:
                    pause = save()
                    saved = time.time()
                if late:
                    bar.close()
                    if interrupted:
                        raise KeyboardInterrupt(f"{name} is saved after {log.images:,} images")
                    return False
        bar.close()
        if accelerator.is_main_process:
            save()
            export(state, exp, size, seed, output, rows, command, processes, own)
            store.write_json(folder / "finished.json", {"images": total, "command": command})
        accelerator.wait_for_everyone()  # before another run of this process reads what was written
        if interrupted:
            raise KeyboardInterrupt(f"{name} is trained")
        return True
