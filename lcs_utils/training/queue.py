"""Train the next nets of the queue for a given time, each from where it stopped; measure and store them.

    python -m lcs_utils.training queue --hours 2.5 --preset small --threads 1
    python -m lcs_utils.training queue --dry-run

A net is finished when it has seen the images asked for and its row, loss curve and card, counts, locality and
feature rows and sample sheet are in data/, ready to commit. Start one process per core, or per GPU with its
own CUDA_VISIBLE_DEVICES, without which all take the first: they share the queue and wait for each other only
while scenes are rendered. Small nets do not fill a GPU: after `nvidia-cuda-mps-control -d` several processes
share one.
"""

import argparse
import math
import os
import shlex
import signal
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import NamedTuple

import torch

from lcs_utils import nets, store
from lcs_utils.checks import check_count
from lcs_utils.evaluation.rows import Row, read_rows, rows_path
from lcs_utils.experiments import Experiment, experiment
from lcs_utils.presets import PRESETS, Preset, preset
from lcs_utils.resumable import DiskFull, read_state
from lcs_utils.training import run
from lcs_utils.training.command import is_trained
from lcs_utils.training.measured import device, measure, unmeasured
from lcs_utils.training.order import ON_A_GPU, QUEUE
from lcs_utils.training.rendered import cores, load_data
from lcs_utils.training.state import about, check_same

SHORTEST = 60.0  # seconds: no net is started with less time left
NO_TIME = "no time was left"


class TimeUp(BaseException):
    """The time limit is reached. Like KeyboardInterrupt no Exception, so that nothing that retries swallows
    it.
    """


class Standing(NamedTuple):
    """Progress of a net of the queue: images seen, images asked for, seconds per image, what is not yet
    measured.
    """

    seen: int
    asked: int
    pace: float | None
    unmeasured: tuple[str, ...] = ()

    @property
    def trained(self) -> bool:
        return self.seen >= self.asked


def standing(exp: Experiment, seed: int, size: Preset, rows: Iterable[Row]) -> Standing:
    """Progress of a net. A stored row of enough images means that it is finished, even if its weights are not
    here.

    Raises ValueError for a state that is broken or of another training, CheckpointError for altered weights.
    """
    name, asked = exp.net(seed), size.length(exp)
    folder = run.state_folder(name, size)
    here = is_trained(exp, size, seed)
    try:
        row = nets.row(name, size.name)
    except nets.CheckpointError:
        row = {"images": 0, "seconds": 0}
    pace = row["seconds"] / row["images"] if row["images"] else None
    if row["images"] >= asked:
        return Standing(row["images"], asked, pace, unmeasured(exp, name, size, rows) if here else ())
    if not (folder / "state.pt").exists():  # a row of fewer images without its state cannot be resumed
        return Standing(0, asked, pace)
    check_same(folder, about(exp, size, seed))
    seen, seconds = read_state(folder / "state.pt")["seen"].tolist()
    # a net without its checkpoint is not trained
    return Standing(min(int(seen), asked - 1), asked, seconds / seen if seen else pace)


@contextmanager
def until(end: float) -> Iterator[None]:
    """Raise TimeUp inside when time.time() reaches `end`: for work that saves what is done as it goes, such
    as scenes and counts.
    """

    def stop(*_):
        raise TimeUp

    if end < math.inf:
        before = signal.signal(signal.SIGALRM, stop)
        signal.setitimer(signal.ITIMER_REAL, max(end - time.time(), 1e-3))
    try:
        yield
    finally:
        if end < math.inf:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)


def command(exp: Experiment, seed: int, size: Preset, threads: int | None, snapshots: bool) -> str:
    """The command that trains this net alone."""
    words = ["python", "-m", "lcs_utils.training", exp.name, "--preset", size.name]
    if size.length(exp) != preset(size.name).length(exp):
        words += ["--images", str(size.length(exp) // exp.times)]
    words += ["--seed", str(seed)] if seed else []
    words += ["--snapshots"] if snapshots else []
    return shlex.join(words + (["--threads", str(threads)] if threads else []))


def advance(
    exp: Experiment, seed: int, size: Preset, end: float, threads: int | None = None, snapshots: bool = False
) -> str:
    """Train and measure one net until `end`, as time.time(); return in words what is left or wrong, "" when
    finished.

    Raises DiskFull, since no other net could be trained either.
    """
    name, out_of_time = exp.net(seed), "stopped while rendering or measuring; what was done is kept"
    try:
        with store.exclusive(run.state_folder(name, size) / "state.pt", wait=False):
            try:
                now = standing(exp, seed, size, read_rows(rows_path(size.name)))
            except (ValueError, nets.CheckpointError) as error:
                return str(error)
            if not now.trained:
                if end - time.time() < SHORTEST:
                    return NO_TIME
                with until(end):
                    data = load_data(exp, size, torch.device(device()), threads or cores())
                told = command(exp, seed, size, threads, snapshots)
                if not run.run(
                    exp, size, seed, command=told, data=data, rendered=True, snapshots=snapshots, deadline=end
                ):
                    return "stopped, its state saved"
            elif not now.unmeasured:
                return ""
            try:
                with until(end):
                    measure(exp, name, size)
            except (ValueError, nets.CheckpointError) as error:
                return f"trained, but not measured: {error}"
    except BlockingIOError:
        return "another process is at work on it"
    except DiskFull:
        raise
    except TimeUp:
        return out_of_time
    except (ValueError, FloatingPointError, RuntimeError, OSError) as error:
        # other nets may still be trained
        return str(error) or type(error).__name__
    return ""


def plan(size: Preset) -> Iterator[tuple[Experiment, int, Standing | str]]:
    """Yield the queue in its order: each net and its progress, or what is wrong with it."""
    rows = read_rows(rows_path(size.name))
    for name, seed in QUEUE:
        exp = experiment(name)
        try:
            yield exp, seed, standing(exp, seed, size, rows)
        except (ValueError, OSError, nets.CheckpointError) as error:
            yield exp, seed, str(error)


def describe(size: Preset) -> list[str]:
    """A line per net of the queue: images seen and asked for, and the time left, estimated from
    stored rows.
    """
    lines, found = [], list(plan(size))
    paces: dict[int | None, list[float]] = {}  # by radius
    for exp, _, now in found:
        if isinstance(now, Standing) and now.pace:
            paces.setdefault(exp.radius, []).append(now.pace)
    for exp, seed, now in found:
        if isinstance(now, str):
            words = now
        elif now.trained:
            words = f"to measure: {', '.join(now.unmeasured)}" if now.unmeasured else "finished"
        else:
            others = paces.get(exp.radius, [])
            pace = now.pace or (sum(others) / len(others) if others else None)
            left = (
                f"about {(now.asked - now.seen) * pace / 3600:.1f} hours left"
                if pace
                else "how long is not known yet"
            )
            gpu = "; waits for a GPU" if exp.name in ON_A_GPU and device() == "cpu" else ""
            words = f"{now.seen:,} of {now.asked:,} images, {left}{gpu}"
        lines.append(f"{exp.net(seed):20} {words}")
    return lines


def work(size: Preset, hours: float, threads: int | None = None, snapshots: bool = False) -> dict[str, str]:
    """Train and measure the queue's nets in order for `hours`; return what is left, by net, in words. Raises
    as `advance`.
    """
    end, left = time.time() + hours * 3600, {}
    for name, seed in QUEUE:
        exp = experiment(name)
        if time.time() >= end:
            words = NO_TIME
        elif name in ON_A_GPU and device() == "cpu":
            words = "waits for a GPU"
        else:
            words = advance(exp, seed, size, end, threads, snapshots)
            print(f"{exp.net(seed)}: {words or 'finished'}", flush=True)
        if words:
            left[exp.net(seed)] = words
    return left


def main(arguments=None) -> None:
    parser = argparse.ArgumentParser(
        prog="python -m lcs_utils.training queue",
        description=__doc__.splitlines()[0],
        epilog="States, samples and scenes live under runs/, or in the folder that LCS_RUNS names.",
    )
    parser.add_argument(
        "--hours",
        type=float,
        default=math.inf,
        help="stop after this long (default: when the queue is finished)",
    )
    parser.add_argument(
        "--preset", default="small", help=f"one of: {', '.join(PRESETS)} (default: small, the table's nets)"
    )
    parser.add_argument("--images", type=int, help="images for whole-image nets, if not the preset's")
    parser.add_argument("--patch-images", type=int, help="images for local nets, if not the preset's")
    parser.add_argument(
        "--snapshots", action="store_true", help="keep intermediate nets as checkpoints NAME@IMAGES"
    )
    parser.add_argument("--threads", type=int, help="CPU threads (bit-equal results need the same number)")
    parser.add_argument(
        "--dry-run", action="store_true", help="list the queue and where each net stands, and do nothing"
    )
    args = parser.parse_args(arguments)
    try:
        size = preset(args.preset)
        if args.threads is not None:
            check_count("--threads", args.threads, 1)
        lengths = {"images": args.images, "patch_images": args.patch_images}
        size = replace(size, **{name: given for name, given in lengths.items() if given is not None})
        if min(size.images, size.patch_images) < size.batch or not args.hours > 0:
            raise ValueError(
                f"need --hours > 0 and at least one batch of {size.batch} images, got {args.hours:g} hours, "
                f"{size.images} images and {size.patch_images} of local nets"
            )
        if "RANK" not in os.environ:
            os.environ.pop("WORLD_SIZE", None)  # a batch script's: accelerate would wait for others
        if int(os.environ.get("WORLD_SIZE", 1)) > 1:
            raise ValueError(
                "the queue trains in one process; start it once for each GPU, with its own "
                "CUDA_VISIBLE_DEVICES, instead of through accelerate"
            )
    except ValueError as error:
        parser.error(str(error))
    if args.dry_run:
        return print("\n".join(describe(size)))
    if args.threads:
        torch.set_num_threads(args.threads)
    try:
        left = work(size, args.hours, args.threads, args.snapshots)
    except ValueError as error:
        parser.error(str(error))
    print("left in the queue:" if left else "the queue is through", flush=True)
    for name, words in left.items():
        print(f"{name:20} {words}")
