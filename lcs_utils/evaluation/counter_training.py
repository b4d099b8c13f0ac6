"""Training and honest measurement of the object counter: `python -m lcs_utils.evaluation.counter --help`.

Saves its state every minute, resumes after a kill, and writes the checkpoint with its accuracy by count.
"""

import argparse
import copy
import json
import time
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor
from tqdm.auto import tqdm

from lcs_utils import paths
from lcs_utils.checkpoints import CheckpointError
from lcs_utils.clevr.conditions import GRID_SIZE, location_grid
from lcs_utils.diffusion import from_uint8
from lcs_utils.evaluation import corruptions
from lcs_utils.evaluation.counter import (
    COMMAND, LARGEST, ObjectCounter, Reading, count_logits, expected_objects, folder, verify,
)  # fmt: skip
from lcs_utils.evaluation.counter_accuracy import export
from lcs_utils.evaluation.counter_scenes import Labeled, training_data
from lcs_utils.evaluation.redrawn import RESOLUTION as REDRAWN_RESOLUTION
from lcs_utils.evaluation.redrawn import redrawn as redrawn_data
from lcs_utils.models.unet import dtype_on
from lcs_utils.resumable import Resumable

BATCH = 64
DRAWN, ROUGH, CLEAN, WORN = 14, 26, 38, 44  # of a batch, up to: redrawn, rough objects, slight faults, stronger ones
SPOILED = corruptions.HARD + corruptions.GROSS + corruptions.HARD  # kinds of the rest, in equal shares
PEAK, RAMP, COOLDOWN, DECAY = 2e-3, 100, 0.3, 0.02  # learning rate, steps up, share of the run down to 0, weight decay
EMA = 0.997
SAVE_EVERY = 60.0


class Losses(NamedTuple):
    """Means over a batch, in nats except `offset` (cells): what the total is the sum of."""

    cells: Tensor
    count: Tensor
    offset: Tensor
    color: Tensor
    plausibility: Tensor

    def total(self) -> Tensor:
        return self.cells + self.count + 4 * self.offset + 0.5 * self.color + self.plausibility


class Data(NamedTuple):
    """`Labeled` as tensors."""

    images: Tensor
    centers: Tensor
    colors: Tensor

    def take(self, index: Tensor) -> "Data":
        return Data(*(column[index] for column in self))


def as_data(labeled: Labeled) -> Data:
    """Arrays as tensors."""
    return Data(*map(torch.from_numpy, labeled))


def losses(net: ObjectCounter, batch: Data, empty: Tensor, generator: torch.Generator) -> Losses:
    """Likelihoods of cells, count, colors and plausibility, for a batch that is spoiled here but for its first DRAWN images.

    Choice: grossly wrong images have no true count, so they train plausibility alone; moderately worn ones counts alone.
    """
    x = from_uint8(batch.images)
    spoiled, changed = corruptions.gross(x[WORN:], generator, empty, SPOILED)
    worn = corruptions.slight(x[CLEAN:WORN], generator, 2.5)
    like_samples = corruptions.rough(x[DRAWN:ROUGH], generator, empty)
    parts = [x[:DRAWN], like_samples, x[ROUGH:CLEAN], spoiled]
    slight = corruptions.slight(torch.cat(parts), generator)  # all of them, so that slight faults tell nothing
    device = next(net.parameters()).device  # faults are drawn and losses taken on the processor, the same on every machine
    with torch.autocast(device.type, torch.bfloat16, enabled=dtype_on(device, "bfloat16") is torch.bfloat16):
        reading = Reading(*(r.cpu() for r in net.read(torch.cat([slight[:CLEAN], worn, slight[CLEAN:]]).to(device))))
    centers = batch.centers[:WORN]
    present = torch.isfinite(centers[:, :, 0])
    occupied = location_grid(centers, present).clamp_max(2).reshape(-1, GRID_SIZE, GRID_SIZE)
    occupancy = reading.occupancy[:WORN]
    cells = F.cross_entropy(occupancy, occupied.long(), reduction="none").sum((1, 2)).mean()
    logits = count_logits(expected_objects(occupancy).sum((1, 2)), reading.precision[:WORN], LARGEST + 1)
    within = centers[present] * GRID_SIZE  # [objects 2]
    cell = within.floor().long().clamp(0, GRID_SIZE - 1)
    at = (present.nonzero()[:, 0], slice(None), cell[:, 1], cell[:, 0])
    known = torch.cat([torch.ones(CLEAN, dtype=torch.bool), torch.zeros(WORN - CLEAN, dtype=torch.bool), changed])
    target = (torch.arange(len(x)) < CLEAN).float()
    return Losses(
        cells,
        F.cross_entropy(logits, present.sum(1)),
        (reading.offset[at] - (within - cell)).abs().mean(),
        F.cross_entropy(reading.color[at], batch.colors[:WORN][present].long()),
        F.binary_cross_entropy_with_logits(reading.plausibility[known], target[known]),
    )


def learning_rate(step: int, steps: int) -> float:
    """Constant, so that the average is worth exporting at any time, with a ramp up and a linear cooldown to zero."""
    return PEAK * min((step + 1) / RAMP, 1, (steps - step) / (COOLDOWN * steps))


@dataclass(frozen=True, kw_only=True)
class State(Resumable):
    """A counter's training; `seen` is [steps, seconds]."""

    net: ObjectCounter
    ema: ObjectCounter


def start(net: ObjectCounter, seed: int) -> State:
    """A run at its beginning."""
    net.train().to(memory_format=torch.channels_last)
    optimizer = torch.optim.AdamW(net.parameters(), PEAK, weight_decay=DECAY)
    generator, seen = torch.Generator().manual_seed(seed), torch.zeros(2, dtype=torch.float64)
    return State(net=net, ema=copy.deepcopy(net), optimizer=optimizer, generator=generator, seen=seen)


def draw_batch(scenes: Data, redrawn: Data | None, generator: torch.Generator, odds: Tensor | None = None) -> Data:
    """BATCH scenes, by `odds` if any; where `redrawn` is given, its images are the first DRAWN and about half of the spoiled.

    Choice: half of the images are mirrored, which only the direction of the light tells.
    """
    if odds is None:
        index = torch.randint(len(scenes.images), (BATCH,), generator=generator)
    else:
        index = torch.multinomial(odds, BATCH, True, generator=generator)
    batch = scenes.take(index)
    if redrawn is not None:
        other = redrawn.take(torch.randint(len(redrawn.images), (BATCH,), generator=generator))
        place = torch.arange(BATCH)
        swap = (place < DRAWN) | (place >= WORN) & (torch.rand(BATCH, generator=generator) < 0.5)
        batch = Data(*(torch.where(swap.reshape(-1, *[1] * (a.ndim - 1)), b, a) for a, b in zip(batch, other, strict=True)))
    batch.images[::2] = batch.images[::2].flip(-1)
    batch.centers[::2] = (torch.tensor([1.0, 0.0]) - batch.centers[::2]).abs()
    return batch


def begin_with(net: ObjectCounter, other: ObjectCounter) -> None:
    """Copy the layers of another counter, of another resolution those behind the stem: both see a 16x16 grid.

    Blocks that `other` lacks stay the identity they begin as. Raises ValueError unless both are as wide and `net` as deep.
    """
    if net.config.width != other.config.width or net.config.blocks < other.config.blocks:
        said = [f"{c.width} channels and {c.blocks} blocks" for c in (net.config, other.config)]
        raise ValueError(f"the counters need the same width and no fewer blocks than the first, got {said[0]} after {said[1]}")
    same = net.config.resolution == other.config.resolution
    norm, place = (f"last.{c.blocks}." for c in (other.config, net.config))  # it stands behind the last block
    shared = {k.replace(norm, place): v for k, v in other.state_dict().items() if same or not k.startswith("stem.")}
    net.load_state_dict(net.state_dict() | shared)


def training_loop(state: State, scenes: Data, redrawn: Data | None, steps: int, by_count: bool = False):
    """Yield Losses after each step; the state changes in place. `by_count`: scenes are drawn in proportion to objects + 2."""
    objects = torch.isfinite(scenes.centers[:, :, 0]).sum(1)
    empty, odds = from_uint8(scenes.images[objects == 0]), objects + 2.0 if by_count else None
    while state.seen[0] < steps:
        for group in state.optimizer.param_groups:
            group["lr"] = learning_rate(int(state.seen[0]), steps)
        batch = draw_batch(scenes, redrawn, state.generator, odds)
        parts = losses(state.net, batch, empty, state.generator)
        loss = parts.total()
        if not bool(loss.isfinite()):
            raise FloatingPointError(f"the loss is {float(loss)} at step {int(state.seen[0])}; lower the learning rate")
        state.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(state.net.parameters(), 10.0)
        state.optimizer.step()
        state.seen[0] += 1
        decay = min(EMA, 1 - 10 / (10 + float(state.seen[0])))
        for average, current in zip(state.ema.state_dict().values(), state.net.state_dict().values(), strict=True):
            if average.is_floating_point():
                average.lerp_(current, 1 - decay)
        yield Losses(*(p.detach() for p in parts))


def run(state: State, scenes: Data, redrawn: Data | None, steps: int, by_count: bool, state_path) -> None:
    """Train with a progress bar, saving the state every minute and at the end."""
    bar = tqdm(total=steps * BATCH, initial=int(state.seen[0]) * BATCH, unit=" images", mininterval=5)
    clock = saved = time.time()
    recent: list[Losses] = []
    for parts in training_loop(state, scenes, redrawn, steps, by_count):
        now = time.time()
        state.seen[1] += now - clock
        clock = now
        recent = [*recent[-99:], parts]
        if len(recent) == 100 and state.seen[0] % 20 == 0:
            means = (float(torch.stack(p).mean()) for p in zip(*recent))
            bar.set_postfix({k: f"{v:.3f}" for k, v in zip(Losses._fields, means)}, refresh=False)
        bar.update(BATCH)
        if now - saved > SAVE_EVERY or state.seen[0] == steps:
            state.save(state_path)
            saved = now


def main(arguments=None) -> None:
    parser = argparse.ArgumentParser(prog=COMMAND, description=__doc__.splitlines()[0])
    parser.add_argument("--resolution", type=int, default=32)
    parser.add_argument("--scenes", type=int, default=43008, help="rendered training scenes")
    parser.add_argument("--images", type=int, default=400_000, help="seen in all; a run that has them is only measured")
    parser.add_argument("--width", type=int, default=64, help="channels at 16x16")
    parser.add_argument("--blocks", type=int, default=1, help="residual blocks per stage")
    parser.add_argument("--by-count", action="store_true", help="draw scenes in proportion to their objects + 2")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--begin-with", help="folder of a counter whose layers the run begins with, but for the stem of another resolution")
    parser.add_argument("--held-out", type=int, default=2000, help="held-out renders per count")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--device", default="cpu", help="where the net is trained: cpu, or cuda")
    parser.add_argument("--output", help="checkpoint folder")
    args = parser.parse_args(arguments)
    if args.images < BATCH or args.scenes < BATCH or args.held_out < 2:
        parser.error(f"--images and --scenes must be at least {BATCH} and --held-out at least 2")
    torch.set_num_threads(args.threads)
    torch.manual_seed(args.seed)
    try:
        net = ObjectCounter(args.resolution, args.width, args.blocks)
        if args.begin_with:
            begin_with(net, ObjectCounter.from_pretrained(args.begin_with))
        state = start(net.to(args.device), args.seed)
    except (ValueError, RuntimeError, CheckpointError) as error:
        parser.error(str(error))
    begun = (f"_blocks{args.blocks}" if args.blocks > 1 else "") + ("_by_count" if args.by_count else "")
    begun += f"_from_{Path(args.begin_with).name}" if args.begin_with else ""
    name = f"counter{args.resolution}_width{args.width}_scenes{args.scenes}_seed{args.seed}{begun}"
    state_path = paths.RUNS / "training" / name / "state.pt"
    first = state_path.with_name("first.json")  # the command behind the counter that this one may replace
    if state_path.exists():
        state.load(state_path)
    elif args.begin_with:
        before = verify(args.begin_with)
        paths.write_json(first, [before["command"]] if before["resolution"] == args.resolution else [])
    steps = args.images // BATCH
    if state.seen[0] < steps:
        redrawn = as_data(redrawn_data()) if args.resolution == REDRAWN_RESOLUTION else None
        run(state, as_data(training_data(args.scenes, args.resolution)), redrawn, steps, args.by_count, state_path)
    images = int(state.seen[0]) * BATCH
    command = f"{COMMAND} --resolution {args.resolution} --scenes {args.scenes} --images {images} --width {args.width}"
    command += f" --seed {args.seed} --held-out {args.held_out}"
    command += (f" --blocks {args.blocks}" if args.blocks > 1 else "") + (" --by-count" if args.by_count else "")
    if args.begin_with:
        before = json.loads(first.read_text()) if first.exists() else []
        command = " && ".join([*before, f"{command} --begin-with {args.begin_with}"])
    row = {
        "command": command,
        "images": images, "scenes": args.scenes, "seconds": round(float(state.seen[1])), "seed": args.seed,
    }  # fmt: skip
    row = export(state.ema.cpu(), args.output or folder(args.resolution), row, args.held_out)
    print("exact by count:", " ".join(f"{c}:{a:.3f}" for c, a in zip(row["counts"], row["exact"])))
