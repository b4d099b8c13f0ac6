"""Honest measurement of the object counter, and its checkpoint with what was found.

Everything is measured on scenes that training never saw: by count and kind on fast renders, on Blender's Cycles, on
perturbed renders, on renders drawn over by our nets, and on grossly wrong images.
"""

import math
from typing import NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor
from tqdm.auto import tqdm

from lcs_utils import paths
from lcs_utils.checkpoints import halve
from lcs_utils.clevr.conditions import GRID_SIZE
from lcs_utils.clevr.fidelity import load_references
from lcs_utils.diffusion import from_uint8
from lcs_utils.evaluation import corruptions, counter_scenes, redrawn
from lcs_utils.evaluation.counter import WEIGHTS, Counts, ObjectCounter
from lcs_utils.evaluation.counter import folder as folder_of
from lcs_utils.evaluation.counter_scenes import Labeled

COUNTS = range(13)
KINDS = ("crowded", "layout")
BINS = 10  # of confidence
SEED = 1  # of held-out scenes; training has another
REDRAWN = (redrawn.Part("exp1", 480, "all"), redrawn.Part("exp2", 360, "single"))


def share(yes: Tensor) -> float:
    """Share of true values, four digits; nan for none."""
    return round(float(yes.float().mean()), 4)


def wilson(successes: float, n: int, z: float = 1.96) -> list[float]:
    """95 % interval of a rate of `successes` in `n` (Wilson 1927)."""
    p, scale = successes / n, 1 + z * z / n
    half = z * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n))
    return [round((p + z * z / (2 * n) - half) / scale, 4), round((p + z * z / (2 * n) + half) / scale, 4)]


def calibration_error(confidence: Float[Tensor, "images"], right: Bool[Tensor, "images"]) -> float:
    """Mean |share right - mean confidence| over BINS bins of confidence, weighted by their sizes."""
    index = (confidence * BINS).long().clamp_max(BINS - 1)
    gap = lambda here: abs(float(right[here].float().mean() - confidence[here].mean())) * float(here.float().mean())
    return round(sum(gap(index == i) for i in index.unique()), 4)


class Found(NamedTuple):
    """The counter's answers beside the truth; `placed`, `colored`: objects found within a cell, and with their color."""

    truth: Tensor
    count: Tensor
    plausibility: Tensor
    confidence: Tensor
    placed: Tensor
    colored: Tensor

    @property
    def exact(self) -> Tensor:
        return self.count == self.truth

    def summary(self) -> dict[str, float]:
        """Rates over the images; `bias` is the mean of counter minus truth, `located` and `colored` are shares of objects."""
        objects = max(int(self.truth.sum()), 1)
        return {
            "images": len(self.truth), "exact": share(self.exact),
            "within_one": share((self.count - self.truth).abs() <= 1),
            "too_many": share(self.count > self.truth), "plausible": share(self.plausibility > 0.5),
            "bias": round(float((self.count - self.truth).float().mean()), 4),
            "located": round(int(self.placed.sum()) / objects, 4), "colored": round(int(self.colored.sum()) / objects, 4),
        }  # fmt: skip


def matched(counts: Counts, centers: Float[Tensor, "batch objects 2"], colors: Tensor) -> tuple[Tensor, Tensor]:
    """Per image, objects with a counted center within a cell, and those whose nearest such center has their color.

    Choice: centers are paired greedily, the nearest pair first.
    """
    place, color = torch.zeros(len(centers)), torch.zeros(len(centers))
    distance = torch.cdist(centers.nan_to_num(9.0), counts.centers.nan_to_num(-9.0)) * GRID_SIZE
    for _ in range(distance.shape[1] if distance.shape[2] else 0):
        nearest, at = distance.flatten(1).min(1)
        i, j = at // distance.shape[2], at % distance.shape[2]
        row = torch.arange(len(centers))
        near = nearest <= math.sqrt(2)
        place += near
        color += near & (colors[row, i] == counts.colors[row, j])
        distance[row, i], distance[row, :, j] = torch.inf, torch.inf
    return place, color


def look(net: ObjectCounter, labeled: Labeled, images: Tensor | None = None) -> Found:
    """The counter's answers on `labeled`, or on perturbed `images` of the same scenes, 256 at a time."""
    centers, colors = torch.from_numpy(labeled.centers), torch.from_numpy(labeled.colors)
    x = from_uint8(labeled.images) if images is None else images
    parts = []
    for image, center, color in zip(x.split(256), centers.split(256), colors.split(256), strict=True):
        counts = net(image)
        truth = (color >= 0).sum(1)
        parts.append((truth, counts.count, counts.plausibility, counts.confidence, *matched(counts, center, color)))
    return Found(*map(torch.cat, zip(*parts, strict=True)))


def perturbations(images: Tensor, empty: Tensor, seed: int = 0) -> dict[str, Tensor]:
    """The same renders slightly wrong, [-1, 1]: what "works on imperfect images" is measured on."""
    width = lambda sigma: torch.full((len(images), 1, 1, 1), sigma)
    generator = torch.Generator().manual_seed(seed)
    noise = torch.randn(images.shape, generator=generator)
    return {
        "clean": images, "slight": corruptions.slight(images, generator),
        "rough": corruptions.rough(images, generator, empty),
        "blur_0.4px": corruptions.blur(images, width(0.4)), "blur_0.8px": corruptions.blur(images, width(0.8)),
        "noise_0.05": (images + 0.05 * noise).clamp(-1, 1), "noise_0.1": (images + 0.1 * noise).clamp(-1, 1),
        "faded_25%": images.lerp(empty, 0.25), "faded_50%": images.lerp(empty, 0.5),
    }  # fmt: skip


def references(resolution: int) -> Labeled:
    """The 24 stored Cycles pictures of 1-10 objects, 128 px, reduced by averaging areas.

    Their scenes are CLEVR's own; what can hardly be seen is not counted, as in training.
    """
    scenes, images, _ = load_references()
    labels = counter_scenes.labels([counter_scenes.prune(s) for s in scenes])
    return reduced(Labeled(images.transpose(0, 3, 1, 2), *labels), resolution)


def perturbed(net: ObjectCounter, per_count: int) -> dict:
    """{perturbation: summary over all counts, and "exact_by_count"}, on as many held-out renders of each count as clean ones."""
    found: dict[str, list[Found]] = {}
    side = net.config.resolution
    for kind in KINDS:
        floors = from_uint8(counter_scenes.held_out_data(kind, 0, per_count // 2, side).images)
        for count in tqdm(COUNTS, desc=f"perturbed {kind}", mininterval=5):
            labeled = counter_scenes.held_out_data(kind, count, per_count // 2, side)
            images = perturbations(from_uint8(labeled.images), floors, seed=count)
            for name, x in images.items():
                found.setdefault(name, []).append(look(net, labeled, x))
    value = {}
    for name, parts in found.items():
        one = Found(*map(torch.cat, zip(*parts, strict=True)))
        value[name] = one.summary() | {"exact_by_count": [share(one.exact[one.truth == c]) for c in COUNTS]}
    return value


def reduced(labeled: Labeled, resolution: int) -> Labeled:
    """The same with smaller images, by averaging areas."""
    x = torch.from_numpy(labeled.images).float()
    return labeled._replace(images=F.avg_pool2d(x, x.shape[-1] // resolution).round().to(torch.uint8).numpy())


def on_references(net: ObjectCounter) -> dict:
    """Exact counts on the stored Cycles references, and on the fast renderer's pictures of the same scenes.

    Crowded scenes by Cycles, by count: `counter_cycles`, which needs Blender and hours.
    """
    resolution = net.config.resolution
    found = look(net, references(resolution))
    fast = counter_scenes.rendered([counter_scenes.prune(s) for s in load_references()[0]], resolution)
    return found.summary() | {"interval": wilson(int(found.exact.sum()), len(found.exact)), "exact_fast": share(look(net, fast).exact)}


def measure(net: ObjectCounter, per_count: int) -> dict:
    """Accuracy on held-out renders by count and kind, on Cycles, on imperfect and on wrong ones; shares in [0, 1]."""
    resolution, value, everything, few = net.config.resolution, {}, [], []
    for kind in KINDS:
        here = []
        for count in tqdm(COUNTS, desc=f"held-out {kind}", mininterval=5):
            labeled = counter_scenes.held_out_data(kind, count, per_count // 2, resolution)
            here.append(look(net, labeled))
            few.append(Labeled(*(column[:25] for column in labeled)))
        everything += here
        value[kind] = {name: [f.summary()[name] for f in here] for name in ("exact", "within_one", "plausible")}
    found = Found(*map(torch.cat, zip(*everything, strict=True)))
    by_count = [found.exact[found.truth == c] for c in COUNTS]
    few = counter_scenes.join(few)
    images, truth = from_uint8(few.images), torch.from_numpy((few.colors >= 0).sum(1))
    empty = images[truth == 0][torch.arange(len(images)) % int((truth == 0).sum())]
    spoiled = {}
    for kind in corruptions.GROSS:
        x, changed = corruptions.gross(images, torch.Generator().manual_seed(0), empty, (kind,))
        same = Labeled(*(column[changed.numpy()] for column in few))
        spoiled[kind.__name__] = share(look(net, same, x[changed]).plausibility > 0.5)
    value = {
        "held_out_per_count": per_count // 2 * 2, "counts": list(COUNTS), "exact": [share(e) for e in by_count],
        "interval": [wilson(int(e.sum()), len(e)) for e in by_count],
        "exact_0_to_6": share(found.exact[found.truth <= 6]), "exact_7_to_12": share(found.exact[found.truth > 6]),
        "located": found.summary()["located"], "colored": found.summary()["colored"],
        "mean_confidence": share(found.confidence), "mean_exact": share(found.exact),
        "calibration_error": calibration_error(found.confidence, found.exact),
        "kinds": value, "cycles_references": on_references(net),
        "perturbed": perturbed(net, per_count),
        "gross_but_plausible": spoiled,
    }  # fmt: skip
    if resolution == redrawn.RESOLUTION:
        found = look(net, redrawn.redrawn(REDRAWN, SEED))
        value["redrawn"] = found.summary() | {"calibration_error": calibration_error(found.confidence, found.exact)}
    return value


def model_card(row: dict) -> str:
    """The short README.md of a counter's folder."""
    side, rough, drawn = row["resolution"], row["perturbed"]["rough"], row.get("redrawn")
    percent = lambda x: f"{100 * x:.1f} %"
    worse = {name: row["perturbed"][name]["exact_by_count"] for name in ("rough", "blur_0.8px", "noise_0.1", "faded_50%")}
    table = "".join(
        f"| {c} | {percent(exact)} | {100 * low:.1f} - {100 * high:.1f} | "
        + " | ".join(percent(by_count[i]) for by_count in worse.values()) + " |\n"
        for i, (c, exact, (low, high)) in enumerate(zip(row["counts"], row["exact"], row["interval"]))
    )  # fmt: skip
    texture = "It never saw any net's picture."
    if drawn:
        texture = (
            f"On held-out renders drawn over by our nets it is exact in {percent(drawn['exact'])} ({drawn['bias']:+.2f} objects "
            "on average); it never saw a net's sample from pure noise."
        )
    return (
        f"# {folder_of(side).name}\n\nCounts and locates objects in CLEVR-like images of {side} px, names their colors and says "
        f"whether the image is plausible as CLEVR ({row['parameters'] / 1e6:.2f} M parameters).\n\n"
        f"Exact counts on {row['held_out_per_count']:,} held-out fast renders per count, half crowded scenes without CLEVR's "
        f"margins, half the paper's test layouts; then on the same images with ragged edges and speckle, blurred by 0.8 px (of 32), "
        "with noise of 0.1, and half faded:\n\n| objects | exact | 95 % interval | rough | blurred | noisy | faded |\n"
        f"|---|---|---|---|---|---|---|\n{table}\n"
        f"0 to 6 objects: {percent(row['exact_0_to_6'])}, 7 to 12: {percent(row['exact_7_to_12'])}. Of all objects "
        f"{percent(row['located'])} are found within a cell, {percent(row['colored'])} also with the right color. The calibration "
        f"error of the confidence is {row['calibration_error']:.3f}.\n\n"
        "An object counts when its center lies in the image and at least 0.25 % of the image shows it. Cycles and perturbed "
        f"renders, wrong images, and each kind of scene: `row.json`.\n\nMade by `{row['command']}` "
        f"({row['images']:,} training images, {row['seconds'] / 60:.0f} minutes).\n\n"
        "```python\nfrom lcs_utils.evaluation.counter import ObjectCounter, folder\n\n"
        f"counts = ObjectCounter.from_pretrained(folder({side}))(images)  # float [batch, 3, {side}, {side}] in [-1, 1]\n```\n\n"
        f"On roughened renders it is exact in {percent(rough['exact'])}, too high in {percent(rough['too_many'])}. {texture} "
        "Its count of an implausible image means nothing. On Cycles renders, by count: `data/counts/counter_cycles.csv`. MIT.\n"
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
