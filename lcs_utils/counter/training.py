"""Training of the object counter: its inputs, its losses, the loop, a run that resumes after a kill."""

import copy
import time
from dataclasses import dataclass
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor
from tqdm.auto import tqdm

from lcs_utils.clevr.conditions import GRID_SIZE, location_grid
from lcs_utils.counter import corruptions, corruptions_graded
from lcs_utils.counter.net import LARGEST, ObjectCounter, Reading, count_logits, enlarged, expected_objects
from lcs_utils.counter.scenes import Labeled
from lcs_utils.diffusion import from_uint8
from lcs_utils.models.precision import dtype_on
from lcs_utils.resumable import Resumable

BATCH = 32
# images of a batch halved in size and enlarged again, as a 32 px image is for the 64 px counter
SMALL = 4
# shares of the images of one size: slight faults, faults of GRADED; the rest is grossly wrong
CLEAN, WORN = (1 / 2, 5 / 16)
SPOILED = corruptions.HARD + corruptions.GROSS + corruptions.HARD  # kinds of the rest, with their odds
SHIFT = 0.05  # of the side: 3 px at 64 px
KINDS_AT_ONCE = 3  # images per group that gets the same fault
# peak learning rate, warm-up steps, share of the run in cooldown, weight decay
PEAK, RAMP, COOLDOWN, DECAY = (2e-3, 100, 0.3, 0.02)
EMA = 0.997
SAVE_EVERY = 60.0


class Losses(NamedTuple):
    """Mean losses of a batch, in nats except `offset` (cells); `total` is their weighted sum."""

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
    melted: Tensor

    def take(self, index: Tensor) -> "Data":
        return Data(*(column[index] for column in self))


def as_data(labeled: Labeled) -> Data:
    """Arrays as tensors."""
    return Data(*map(torch.from_numpy, labeled))


class Shown(NamedTuple):
    """Images as the net sees them: whether their true count is defined (`counted`) and their plausibility
    `known`, and if so, `plausible`.
    """

    images: Tensor
    counted: Tensor
    known: Tensor
    plausible: Tensor


def some(kinds, n: int, generator: torch.Generator) -> list:
    """`n` draws from `kinds`; each counts as often as it is listed."""
    return [kinds[int(i)] for i in torch.randint(len(kinds), (n,), generator=generator)]


def shown(images: Tensor, centers: Tensor, pool: Tensor, generator: torch.Generator) -> Shown:
    """Corrupt images of one size in [-1, 1]: half only slightly, most of the others by a graded fault, the
    rest grossly.

    `pool`: renders without objects. Choice: all of them also get slight faults, which thus give nothing away.
    Choice: of SMALL = 4 images one is wrong and has no other to be mixed with, so `blended` and `pasted`
    leave it as it is and are not learned at 32 px: there the shipped counter calls 1.8% of pasted images
    plausible, against 0.7% at 64 px (of blended ones 0.2%, against 2.7%).
    """
    n = len(images)
    clean, worn = round(CLEAN * n), round((CLEAN + WORN) * n)
    floor = pool[torch.randint(len(pool), (n,), generator=generator)]
    graded = [name for name, odds in corruptions_graded.ODDS.items() for _ in range(odds)]
    parts = []
    for part, name in zip(torch.arange(clean, worn).split(KINDS_AT_ONCE), some(graded, n, generator)):
        parts.append(corruptions_graded.worn(name, images[part], floor[part], centers[part], generator))
    wrong = images[worn:]
    kinds = some(SPOILED, -(-len(wrong) // KINDS_AT_ONCE), generator)
    gross, changed = corruptions.gross(wrong, generator, pool, kinds)
    x = torch.cat([images[:clean], *(p.images for p in parts), gross])
    yes, no = torch.ones(clean, dtype=torch.bool), torch.zeros(len(wrong), dtype=torch.bool)
    columns = (
        [yes, *(p.counted for p in parts), no],
        [yes, *(p.known for p in parts), changed],
        [yes, *(p.plausible for p in parts), no],
    )
    return Shown(corruptions.slight(x, generator), *map(torch.cat, columns))


def half(images: Tensor) -> Tensor:
    """Images of half the side, by area averaging."""
    return F.avg_pool2d(images, 2)


def losses(net: ObjectCounter, batch: Data, empty: Tensor, generator: torch.Generator) -> Losses:
    """Losses of cells, count, colors and plausibility, on a batch of renders that is corrupted here.

    Choice: images without a true count train only plausibility, and those neither clean nor broken only
    counts; the batch passes as one, so that batch normalization sees one mixture, with the same shares at
    every step.
    """
    pool = empty[torch.randint(len(empty), (BATCH,), generator=generator)]
    x = from_uint8(batch.images)
    few = shown(half(x[:SMALL]), batch.centers[:SMALL], half(pool), generator)
    parts = (
        few._replace(images=enlarged(few.images, x.shape[-1])),
        shown(x[SMALL:], batch.centers[SMALL:], pool, generator),
    )
    seen = Shown(*map(torch.cat, zip(*parts, strict=True)))
    seen = seen._replace(known=seen.known | batch.melted, plausible=seen.plausible & ~batch.melted)
    device = next(
        net.parameters()
    ).device  # faults and losses are computed on the CPU, the same on every machine
    with torch.autocast(device.type, torch.bfloat16, enabled=dtype_on(device, "bfloat16") is torch.bfloat16):
        reading = Reading(*(r.cpu() for r in net.read(seen.images.to(device))))
    true = Reading(*(r[seen.counted] for r in reading))
    centers, colors = batch.centers[seen.counted], batch.colors[seen.counted]
    present = torch.isfinite(centers[:, :, 0])
    occupied = location_grid(centers, present).clamp_max(2).reshape(-1, GRID_SIZE, GRID_SIZE)
    cells = F.cross_entropy(true.occupancy, occupied.long(), reduction="none").sum((1, 2)).mean()
    logits = count_logits(expected_objects(true.occupancy).sum((1, 2)), true.precision, LARGEST + 1)
    within = centers[present] * GRID_SIZE  # [objects 2]
    cell = within.floor().long().clamp(0, GRID_SIZE - 1)
    at = (present.nonzero()[:, 0], slice(None), cell[:, 1], cell[:, 0])
    return Losses(
        cells,
        F.cross_entropy(logits, present.sum(1)),
        (true.offset[at] - (within - cell)).abs().mean(),
        F.cross_entropy(true.color[at], colors[present].long()),
        F.binary_cross_entropy_with_logits(
            reading.plausibility[seen.known], seen.plausible[seen.known].float()
        ),
    )


def learning_rate(step: int, steps: int) -> float:
    """Constant, so that the EMA net can be exported at any time, with a warm-up and a linear cooldown to
    zero.
    """
    return PEAK * min((step + 1) / RAMP, 1, (steps - step) / (COOLDOWN * steps))


@dataclass(frozen=True, kw_only=True)
class State(Resumable):
    """A counter's training; `seen` is [steps, seconds]."""

    net: ObjectCounter
    ema: ObjectCounter


def start(net: ObjectCounter, seed: int) -> State:
    """The state of a fresh run."""
    net.train().to(memory_format=torch.channels_last)
    optimizer = torch.optim.AdamW(net.parameters(), PEAK, weight_decay=DECAY)
    generator, seen = torch.Generator().manual_seed(seed), torch.zeros(2, dtype=torch.float64)
    return State(net=net, ema=copy.deepcopy(net), optimizer=optimizer, generator=generator, seen=seen)


def shifted(batch: Data, generator: torch.Generator) -> Data:
    """Shift half of the images by up to SHIFT of their side, repeating borders; objects whose center leaves
    them no longer count.

    Choice: scenes are expensive to render and seen many times, and shifts vary where objects lie in cells.
    Choice: an object whose center enters is not added, since labels hold only centers in the render: about
    1.3% of the images drawn show one at the border that is not counted.
    """
    n, _, side, _ = batch.images.shape
    most = round(SHIFT * side)
    by = torch.randint(-most, most + 1, (n, 2), generator=generator)
    by[torch.rand(n, generator=generator) < 0.5] = 0
    wide = F.pad(batch.images, [most] * 4, mode="replicate")
    images = [
        image[:, most - y : most - y + side, most - x : most - x + side]
        for image, (x, y) in zip(wide, by.tolist(), strict=True)
    ]
    centers = batch.centers + by[:, None] / side
    inside = ((centers >= 0) & (centers < 1)).all(-1)
    return Data(
        torch.stack(images),
        centers.masked_fill(~inside[..., None], torch.nan),
        batch.colors.masked_fill(~inside, -1),
        batch.melted,
    )


def draw_batch(scenes: Data, generator: torch.Generator, odds: Tensor | None = None) -> Data:
    """Draw BATCH scenes, weighted by `odds` if given. Choice: half of the images are mirrored, which only the
    direction of the light shows.
    """
    if odds is None:
        index = torch.randint(len(scenes.images), (BATCH,), generator=generator)
    else:
        index = torch.multinomial(odds, BATCH, True, generator=generator)
    batch = scenes.take(index)
    batch.images[::2] = batch.images[::2].flip(-1)
    batch.centers[::2] = (torch.tensor([1.0, 0.0]) - batch.centers[::2]).abs()
    return shifted(batch, generator)


def begin_with(net: ObjectCounter, other: ObjectCounter) -> None:
    """Copy the layers of another counter (without the stem if its resolution differs: both see a 16x16 grid).

    Blocks that `other` lacks stay the identity they start as. Raises ValueError unless both are equally wide
    and `net` at least as deep.
    """
    if net.config.width != other.config.width or net.config.blocks < other.config.blocks:
        said = [f"{c.width} channels and {c.blocks} blocks" for c in (net.config, other.config)]
        raise ValueError(
            f"the counters need the same width and no fewer blocks than the first, got {said[0]} after "
            f"{said[1]}"
        )
    same = net.config.resolution == other.config.resolution
    norm, place = (f"last.{c.blocks}." for c in (other.config, net.config))  # it follows the last block
    shared = {
        k.replace(norm, place): v for k, v in other.state_dict().items() if same or not k.startswith("stem.")
    }
    net.load_state_dict(net.state_dict() | shared)


def training_loop(state: State, scenes: Data, steps: int, by_count: bool = False):
    """Yield Losses after each step; the state changes in place. `by_count`: scenes are drawn in proportion
    to objects + 2. Raises FloatingPointError, naming the step, for a loss that is not finite.
    """
    objects = torch.isfinite(scenes.centers[:, :, 0]).sum(1)
    empty, odds = from_uint8(scenes.images[objects == 0]), objects + 2.0 if by_count else None
    while state.seen[0] < steps:
        for group in state.optimizer.param_groups:
            group["lr"] = learning_rate(int(state.seen[0]), steps)
        batch = draw_batch(scenes, state.generator, odds)
        parts = losses(state.net, batch, empty, state.generator)
        loss = parts.total()
        if not bool(loss.isfinite()):
            raise FloatingPointError(
                f"the loss is {float(loss)} at step {int(state.seen[0])}; lower the learning rate"
            )
        state.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(state.net.parameters(), 10.0)
        state.optimizer.step()
        state.seen[0] += 1
        decay = min(EMA, 1 - 10 / (10 + float(state.seen[0])))
        for average, current in zip(
            state.ema.state_dict().values(), state.net.state_dict().values(), strict=True
        ):
            if average.is_floating_point():
                average.lerp_(current, 1 - decay)
        yield Losses(*(p.detach() for p in parts))


def run(state: State, scenes: Data, steps: int, by_count: bool, state_path) -> None:
    """Train with a progress bar, saving the state every minute and at the end."""
    bar = tqdm(total=steps * BATCH, initial=int(state.seen[0]) * BATCH, unit=" images", mininterval=5)
    clock = saved = time.time()
    recent: list[Losses] = []
    for parts in training_loop(state, scenes, steps, by_count):
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
