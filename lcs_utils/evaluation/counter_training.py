"""Training and honest measurement of the object counter: `python -m lcs_utils.evaluation.counter --help`.

Saves its state every minute, resumes after a kill, and writes the checkpoint with its accuracy by count.
"""

import argparse
import copy
import time
from typing import NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor
from tqdm.auto import tqdm

from lcs_utils import paths
from lcs_utils.checkpoints import halve
from lcs_utils.clevr.conditions import GRID_SIZE, location_grid
from lcs_utils.evaluation import corruptions
from lcs_utils.evaluation.counter import (
    COMMAND, FOLDER, LARGEST, WEIGHTS, ObjectCounter, count_logits, expected_objects,
)  # fmt: skip
from lcs_utils.evaluation.counter_scenes import held_out_data, training_data

BATCH = 64
ROUGH, CLEAN, WORN = 16, 48, 54  # of a batch, up to: rough objects, slight faults, stronger faults; the rest grossly wrong
PEAK, RAMP, COOLDOWN, DECAY = 2e-3, 100, 0.3, 0.02  # learning rate, steps up, share of the run down to 0, weight decay
EMA = 0.997
SAVE_EVERY = 60.0
COUNTS = range(13)


class Losses(NamedTuple):
    """Means over a batch, in nats except `offset` (cells): what the total is the sum of."""

    cells: Tensor
    count: Tensor
    offset: Tensor
    plausibility: Tensor

    def total(self) -> Tensor:
        return self.cells + self.count + 4 * self.offset + self.plausibility


def scene_folder(resolution: int):
    """Where renders for this resolution are kept."""
    return paths.RUNS / "data" / f"counter{resolution}"


def as_input(images: Tensor) -> Float[Tensor, "batch 3 height width"]:
    """Bytes to [-1, 1]."""
    return images.float() / 127.5 - 1


def losses(net: ObjectCounter, images: Tensor, centers: Tensor, empty: Tensor, generator: torch.Generator) -> Losses:
    """Likelihoods of cells, count and plausibility, for a batch of clean renders that is spoiled here.

    Choice: grossly wrong images have no true count, so they train plausibility alone; moderately worn ones the counts alone.
    """
    x = as_input(images)
    spoiled, changed = corruptions.gross(x[WORN:], generator, empty)
    worn = corruptions.slight(x[CLEAN:WORN], generator, 2.5)
    like_samples = corruptions.rough(x[:ROUGH], generator, empty)
    slight = corruptions.slight(torch.cat([like_samples, x[ROUGH:CLEAN], spoiled]), generator)  # both, so that these tell nothing
    with torch.autocast(x.device.type, torch.bfloat16):
        reading = net.read(torch.cat([slight[:CLEAN], worn, slight[CLEAN:]]))
    present = torch.isfinite(centers[:WORN, :, 0])
    occupied = location_grid(centers[:WORN], present).clamp_max(2).reshape(-1, GRID_SIZE, GRID_SIZE)
    occupancy, count = reading.occupancy[:WORN], present.sum(1)
    cells = F.cross_entropy(occupancy, occupied.long(), reduction="none").sum((1, 2)).mean()
    logits = count_logits(expected_objects(occupancy).sum((1, 2)), reading.precision[:WORN], LARGEST + 1)
    within = centers[:WORN][present] * GRID_SIZE  # [objects 2]
    cell = within.floor().long().clamp(0, GRID_SIZE - 1)
    row = present.nonzero()[:, 0]
    offset = reading.offset[row, :, cell[:, 1], cell[:, 0]]
    known = torch.cat([torch.ones(CLEAN, dtype=torch.bool), torch.zeros(WORN - CLEAN, dtype=torch.bool), changed])
    target = (torch.arange(len(x)) < CLEAN).float()
    return Losses(
        cells,
        F.cross_entropy(logits, count),
        (offset - (within - cell)).abs().mean(),
        F.binary_cross_entropy_with_logits(reading.plausibility[known], target[known]),
    )


def learning_rate(step: int, steps: int) -> float:
    """Constant, so that the average is worth exporting at any time, with a ramp up and a linear cooldown to zero."""
    return PEAK * min((step + 1) / RAMP, 1, (steps - step) / (COOLDOWN * steps))


class State(NamedTuple):
    """What a run consists of; `seen` is [steps, seconds]."""

    net: ObjectCounter
    ema: ObjectCounter
    optimizer: torch.optim.Optimizer
    generator: torch.Generator
    seen: Tensor

    def save(self, path):
        value = {"seen": self.seen, "generator": self.generator.get_state()}
        with paths.atomic_path(path) as temporary:
            torch.save(value | {k: getattr(self, k).state_dict() for k in ("net", "ema", "optimizer")}, temporary)

    def load(self, path):
        value = torch.load(path, weights_only=True)
        for name in ("net", "ema", "optimizer"):
            getattr(self, name).load_state_dict(value[name])
        self.generator.set_state(value["generator"])
        self.seen.copy_(value["seen"])


def start(net: ObjectCounter, seed: int) -> State:
    """A run at its beginning."""
    net.train().to(memory_format=torch.channels_last)
    optimizer = torch.optim.AdamW(net.parameters(), PEAK, weight_decay=DECAY)
    generator = torch.Generator().manual_seed(seed)
    return State(net, copy.deepcopy(net), optimizer, generator, torch.zeros(2, dtype=torch.float64))


def training_loop(state: State, images: Tensor, centers: Tensor, steps: int):
    """Yield Losses after each step; the state changes in place.

    Choice: half of the images are mirrored, which only the direction of the light tells.
    """
    empty = as_input(images[~torch.isfinite(centers[:, :, 0]).any(1)])
    flip = torch.tensor([1.0, 0.0])
    while state.seen[0] < steps:
        for group in state.optimizer.param_groups:
            group["lr"] = learning_rate(int(state.seen[0]), steps)
        index = torch.randint(len(images), (BATCH,), generator=state.generator)
        x, c = images[index], centers[index].clone()
        x[::2] = x[::2].flip(-1)
        c[::2] = (flip - c[::2]).abs()
        parts = losses(state.net, x, c, empty, state.generator)
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


def perturbations(images: Tensor, empty: Tensor, seed: int = 0) -> dict[str, Tensor]:
    """The same renders slightly wrong, [-1, 1]: what "works on imperfect images" is measured on."""
    width = lambda sigma: torch.full((len(images), 1, 1, 1), sigma)
    generator = torch.Generator().manual_seed(seed)
    noise = torch.randn(images.shape, generator=generator)
    return {
        "clean": images, "slight": corruptions.slight(images, generator), "rough": corruptions.rough(images, generator, empty),
        "blur_0.4px": corruptions.blur(images, width(0.4)), "blur_0.8px": corruptions.blur(images, width(0.8)),
        "noise_0.05": (images + 0.05 * noise).clamp(-1, 1), "noise_0.1": (images + 0.1 * noise).clamp(-1, 1),
        "faded_25%": images.lerp(empty, 0.25), "faded_50%": images.lerp(empty, 0.5),
    }  # fmt: skip


def in_parts(net: ObjectCounter, images: Tensor):
    """Counts of many images, 256 at a time."""
    return [torch.cat(c) for c in zip(*((c.count, c.plausibility, c.confidence) for c in map(net, images.split(256))))]


def measure(net: ObjectCounter, per_count: int) -> dict:
    """Accuracy on held-out renders by count and kind of scene, and on perturbed ones; shares in [0, 1]."""
    share = lambda yes: round(float(yes.float().mean()), 4)
    value, everything, folder = {}, [], scene_folder(net.config.resolution)
    for kind in ("crowded", "layout"):
        exact, close, plausible = [], [], []
        for count in tqdm(COUNTS, desc=f"held-out {kind}", mininterval=5):
            images = as_input(torch.from_numpy(held_out_data(folder, kind, count, per_count // 2, net.config.resolution)[0]))
            found, plausibility, confidence = in_parts(net, images)
            exact.append(share(found == count))
            close.append(share((found - count).abs() <= 1))
            plausible.append(share(plausibility > 0.5))
            everything.append((images[:25], torch.full((25,), count)[: len(images)], found == count, confidence))
        value[kind] = {"exact": exact, "within_one": close, "plausible": plausible}
    exact = [round(sum(value[k]["exact"][c] for k in value) / 2, 4) for c in COUNTS]
    right, confidence = (torch.cat([e[i] for e in everything]) for i in (2, 3))
    images, truth = (torch.cat([e[i] for e in everything]) for i in (0, 1))
    empty = images[truth == 0][torch.arange(len(images)) % int((truth == 0).sum())]
    perturbed = {}
    for name, x in perturbations(images, empty).items():
        found, plausibility, _ = in_parts(net, x)
        perturbed[name] = {
            "exact": share(found == truth), "too_many": share(found > truth), "plausible": share(plausibility > 0.5)
        }  # fmt: skip
    spoiled = {}
    for kind in corruptions.GROSS:
        x, changed = corruptions.gross(images, torch.Generator().manual_seed(0), empty, (kind,))
        spoiled[kind.__name__] = share(in_parts(net, x[changed])[1] > 0.5)
    return {
        "held_out_per_count": per_count // 2 * 2, "counts": list(COUNTS), "exact": exact,
        "exact_0_to_6": round(sum(exact[:7]) / 7, 4), "exact_7_to_12": round(sum(exact[7:]) / 6, 4),
        "mean_confidence": share(confidence), "mean_exact": share(right),
        "kinds": value, "perturbed": perturbed, "gross_but_plausible": spoiled,
    }  # fmt: skip


def model_card(row: dict) -> str:
    """The short README.md of the counter's folder."""
    rough = row["perturbed"]["rough"]
    table = "".join(f"| {c} | {100 * a:.1f} % |\n" for c, a in zip(row["counts"], row["exact"]))
    return (
        f"# counter\n\nCounts and locates objects in CLEVR-like images of {row['resolution']} px and says whether the image is "
        f"plausible as CLEVR ({row['parameters'] / 1e6:.2f} M parameters).\n\n"
        f"Exact counts on {row['held_out_per_count']} held-out fast renders per count, half crowded scenes without CLEVR's "
        f"margins, half the paper's test layouts:\n\n| objects | exact |\n|---|---|\n{table}\n"
        "An object counts when its center lies in the image and at least 0.25 % of the image shows it. Perturbed renders and "
        f"each kind of scene: `row.json`.\n\nMade by `{row['command']}` "
        f"({row['images']:,} training images, {row['seconds'] / 60:.0f} minutes).\n\n"
        "```python\nfrom lcs_utils.evaluation.counter import ObjectCounter\n\n"
        "counts = ObjectCounter.from_pretrained()(images)  # float [batch, 3, 32, 32] in [-1, 1]\n```\n\n"
        "Trained on renders alone: it knows no other pictures, and its count of an implausible image means nothing. On renders "
        f"roughened to look like a briefly trained net's samples it is exact in {100 * rough['exact']:.1f} %, too high in "
        f"{100 * rough['too_many']:.1f} %. MIT.\n"
    )


def export(net: ObjectCounter, folder, row: dict, per_count: int) -> dict:
    """Measure the half-precision net and write its folder, whole or not at all."""
    halve(net)
    net.float().eval()
    row = row | {
        "parameters": sum(p.numel() for p in net.parameters()), "resolution": net.config.resolution,
        "torch": torch.__version__.split("+")[0],
    } | measure(net, per_count)  # fmt: skip
    halve(net)
    with paths.atomic_folder(folder) as temporary:
        net.save_pretrained(temporary)
        row["sha256"] = paths.sha256(temporary / WEIGHTS)
        paths.write_json(temporary / "row.json", row)
        paths.write_text(temporary / "README.md", model_card(row))
    return row


def run(state: State, images: Tensor, centers: Tensor, steps: int, state_path) -> None:
    """Train with a progress bar, saving the state every minute and at the end."""
    bar = tqdm(total=steps * BATCH, initial=int(state.seen[0]) * BATCH, unit=" images", mininterval=5)
    clock = saved = time.time()
    recent: list[Losses] = []
    for parts in training_loop(state, images, centers, steps):
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
    parser.add_argument("--scenes", type=int, default=65536, help="rendered training scenes")
    parser.add_argument("--images", type=int, default=400_000, help="training images seen in all; a run that has seen them is only measured and exported")
    parser.add_argument("--width", type=int, default=64, help="channels at 16x16")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--held-out", type=int, default=300, help="held-out renders per count")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--output", default=FOLDER, help="checkpoint folder")
    args = parser.parse_args(arguments)
    if args.images < BATCH or args.scenes < BATCH or args.held_out < 2:
        parser.error(f"--images and --scenes must be at least {BATCH} and --held-out at least 2")
    torch.set_num_threads(args.threads)
    torch.manual_seed(args.seed)
    try:
        state = start(ObjectCounter(args.resolution, args.width), args.seed)
    except ValueError as error:
        parser.error(str(error))
    state_path = paths.RUNS / "training" / f"counter{args.resolution}_width{args.width}_seed{args.seed}" / "state.pt"
    if state_path.exists():
        state.load(state_path)
    steps = args.images // BATCH
    if state.seen[0] < steps:
        images, centers = training_data(scene_folder(args.resolution), args.scenes, args.resolution)
        run(state, torch.from_numpy(images), torch.from_numpy(centers), steps, state_path)
    images = int(state.seen[0]) * BATCH
    row = {
        "command": f"{COMMAND} --resolution {args.resolution} --scenes {args.scenes} --images {images} --width {args.width} "
        f"--seed {args.seed} --held-out {args.held_out}",
        "images": images, "scenes": args.scenes, "seconds": round(float(state.seen[1])), "seed": args.seed,
    }  # fmt: skip
    row = export(state.ema, args.output, row, args.held_out)
    print("exact by count:", " ".join(f"{c}:{a:.3f}" for c, a in zip(row["counts"], row["exact"])))
