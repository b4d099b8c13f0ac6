"""Accuracy of the object counter.

Everything is measured on scenes that training never saw, at every image size that the counter takes: by count
and kind on fast renders, on Blender's Cycles, on renders with faults of known strength, and on grossly wrong
images.
"""

import math
from statistics import NormalDist
from typing import NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor
from tqdm.auto import tqdm

from lcs_utils.checks import check_count, check_number
from lcs_utils.clevr.conditions import GRID_SIZE
from lcs_utils.clevr.fidelity import load_references
from lcs_utils.counter import corruptions, corruptions_graded
from lcs_utils.counter import scenes as counter_scenes
from lcs_utils.counter.net import Counts, ObjectCounter
from lcs_utils.counter.net import sizes as sizes_of
from lcs_utils.counter.scenes import Labeled
from lcs_utils.counter.shipped import PLAUSIBLE
from lcs_utils.diffusion import from_uint8
from lcs_utils.stats import LEVEL

COUNTS = range(13)
KINDS = ("clevr", "crowded", "layout")
BY_COUNT = ("exact", "within_one", "plausible", "bias")
STRENGTHS = {
    "confetti": (0.05, 0.1, 0.15, 0.3, 0.5),
    "speckle": (0.05, 0.1, 0.15, 0.3, 0.5),
    "noise": (0.05, 0.1, 0.15, 0.3),
    "ringed": (0.1, 0.2, 0.3, 0.5),
    "faded": (0.12, 0.25, 0.35, 0.5),
    "ragged": (0.2, 0.4, 0.6, 1.0),
    "blur": (0.4, 0.8, 1.0, 1.5),
    "fused": (0.15, 0.3, 0.5, 1.0),
}
NAMED = ("speckle", "confetti", "fused", "faded", "ringed")  # must be implausible from some strength on
PASSING = 0.1  # largest share of images that may pass
BINS = 10  # of confidence
SEED = 1  # of held-out scenes; training uses another
Z = round(NormalDist().inv_cdf((1 + LEVEL) / 2), 2)  # 1.96, as usually written


def share(yes: Tensor) -> float:
    """Share of true values, four digits; nan for none."""
    return round(float(yes.float().mean()), 4)


def wilson(successes: float, n: int) -> list[float]:
    """95% interval of a rate of 0 to n `successes` in `n` >= 1 (Wilson 1927), ValueError for others."""
    check_count("n", n, 1)
    check_number("successes", successes, 0, n)
    p, scale = successes / n, 1 + Z * Z / n
    half = Z * math.sqrt(p * (1 - p) / n + Z * Z / (4 * n * n))
    return [round((p + Z * Z / (2 * n) - half) / scale, 4), round((p + Z * Z / (2 * n) + half) / scale, 4)]


def calibration_error(confidence: Float[Tensor, "images"], right: Bool[Tensor, "images"]) -> float:
    """Mean |share right - mean confidence| over BINS bins of confidence, weighted by their sizes."""
    index = (confidence * BINS).long().clamp_max(BINS - 1)

    def gap(here):
        return abs(float(right[here].float().mean() - confidence[here].mean())) * float(here.float().mean())

    return round(sum(gap(index == i) for i in index.unique()), 4)


class Found(NamedTuple):
    """The counter's answers and the truth; `placed`, `colored`: number of objects found within a cell, and
    also with the right color.
    """

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
        """Rates over the images; `bias` is the mean of counter minus truth, `located` and `colored` are
        shares of objects.
        """
        objects = max(int(self.truth.sum()), 1)
        return {
            "images": len(self.truth),
            "exact": share(self.exact),
            "within_one": share((self.count - self.truth).abs() <= 1),
            "too_many": share(self.count > self.truth),
            "plausible": share(self.plausibility >= PLAUSIBLE),
            "bias": round(float((self.count - self.truth).float().mean()), 4),
            "located": round(int(self.placed.sum()) / objects, 4),
            "colored": round(int(self.colored.sum()) / objects, 4),
        }


def matched(
    counts: Counts, centers: Float[Tensor, "batch objects 2"], colors: Tensor
) -> tuple[Tensor, Tensor]:
    """Per image, the number of objects with a counted center within a cell, and of those with the right
    color.

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
    """Run the counter on `labeled`, or on perturbed `images` of the same scenes, 256 at a time."""
    centers, colors = torch.from_numpy(labeled.centers), torch.from_numpy(labeled.colors)
    x = from_uint8(labeled.images) if images is None else images
    parts = []
    for image, center, color in zip(x.split(256), centers.split(256), colors.split(256), strict=True):
        counts = net(image)
        truth = (color >= 0).sum(1)
        parts.append(
            (truth, counts.count, counts.plausibility, counts.confidence, *matched(counts, center, color))
        )
    return Found(*map(torch.cat, zip(*parts, strict=True)))


def references(resolution: int) -> Labeled:
    """The 24 stored Cycles images of 1-10 objects, 128 px, downsampled by area averaging.

    Their scenes are CLEVR's own; hardly visible objects are not counted, as in training.
    """
    scenes, images, _ = load_references()
    labels = counter_scenes.labels([counter_scenes.prune(s) for s in scenes])
    return reduced(Labeled(images.transpose(0, 3, 1, 2), *labels), resolution)


def reduced(labeled: Labeled, resolution: int) -> Labeled:
    """`labeled` with its images downsampled to `resolution` px by area averaging."""
    x = torch.from_numpy(labeled.images).float()
    return labeled._replace(images=F.avg_pool2d(x, x.shape[-1] // resolution).round().to(torch.uint8).numpy())


def on_references(net: ObjectCounter, side: int) -> dict:
    """Exact counts on the stored Cycles references, and on fast renders of the same scenes, at `side` px.

    For crowded Cycles scenes by count see `counter.cycles`, which needs Blender and hours.
    """
    found = look(net, references(side))
    fast = counter_scenes.rendered([counter_scenes.prune(s) for s in load_references()[0]], side)
    return found.summary() | {
        "interval": wilson(int(found.exact.sum()), len(found.exact)),
        "exact_fast": share(look(net, fast).exact),
    }


def melted(net: ObjectCounter, per_count: int, side: int) -> dict[str, float]:
    """Summary on scenes with interpenetrating objects of one color, which count as one and are not CLEVR's;
    `parts`: bias of a counter that counts each of them.
    """
    scenes = [
        s for count in COUNTS[1:] for s in counter_scenes.held_out_scenes("melted", count, per_count, SEED)
    ]
    labeled = counter_scenes.rendered(scenes, side)
    keep = labeled.melted
    found = look(net, Labeled(*(column[keep] for column in labeled)))
    more = sum(len(s.objects) for s, k in zip(scenes, keep, strict=True) if k) - int(found.truth.sum())
    return found.summary() | {"parts": round(more / max(int(keep.sum()), 1), 4)}


def joined(parts: list[Found]) -> Found:
    """Concatenate several `Found`."""
    return Found(*map(torch.cat, zip(*parts, strict=True)))


def clean(net: ObjectCounter, kind: str, per_count: int, side: int) -> dict:
    """Accuracy on held-out renders of one kind of scene, by count and overall; shares in [0, 1], in `colored`
    and `located` of objects.
    """
    here = []
    for count in tqdm(COUNTS, desc=f"{kind} {side} px", mininterval=5):
        here.append(look(net, counter_scenes.held_out_data(kind, count, per_count, side)))
    found, by_count = joined(here), [f.summary() for f in here]
    return found.summary() | {
        "per_count": per_count,
        "by_count": {name: [of[name] for of in by_count] for name in BY_COUNT},
        "interval": [wilson(int(f.exact.sum()), len(f.exact)) for f in here],
        "exact_0_to_6": share(found.exact[found.truth <= 6]),
        "exact_7_to_12": share(found.exact[found.truth > 6]),
        "mean_confidence": share(found.confidence),
        "calibration_error": calibration_error(found.confidence, found.exact),
    }


def some(count: int, per_count: int, side: int) -> Labeled:
    """The first eighth of the held-out scenes of `count` objects at CLEVR's distances, at least two."""
    return Labeled(
        *(
            column[: max(2, per_count // 8)]
            for column in counter_scenes.held_out_data("clevr", count, per_count, side)
        )
    )


def faulty(net: ObjectCounter, per_count: int, side: int) -> dict[str, dict[str, dict]]:
    """{fault: {strength: summary}} on CLEVR's own scenes of 1 to 12 objects; `exact` means little where no
    count is defined.

    For gross strengths, `plausible` is over the images, `noticed` in number, that the fault visibly changed.
    """
    value: dict[str, dict[str, dict]] = {}
    floors, few = (
        from_uint8(some(0, per_count, side).images),
        [some(count, per_count, side) for count in COUNTS[1:]],
    )
    for name, strengths in tqdm(STRENGTHS.items(), desc=f"faults {side} px", mininterval=5):
        for strength in strengths:
            generator, found, noticed = torch.Generator().manual_seed(SEED), [], []
            for labeled in few:
                x, centers = from_uint8(labeled.images), torch.from_numpy(labeled.centers)
                floor = floors[torch.randint(len(floors), (len(x),), generator=generator)]
                amount = torch.full((len(x), 1, 1, 1), strength)
                worn = corruptions_graded.worn(name, x, floor, centers, generator, amount)
                noticed.append(
                    worn.known
                    if strength >= corruptions_graded.GRADED[name].gross
                    else torch.ones_like(worn.known)
                )
                found.append(look(net, labeled, worn.images))
            everything, seen = joined(found), torch.cat(noticed)
            plausible = {
                "plausible": share(everything.plausibility[seen] >= PLAUSIBLE),
                "noticed": int(seen.sum()),
            }
            value.setdefault(name, {})[f"{strength:g}"] = everything.summary() | plausible
    return value


def wrong(net: ObjectCounter, per_count: int, side: int) -> dict[str, float]:
    """{kind of grossly wrong image: share called plausible}, among those that were really changed."""
    floors = from_uint8(some(0, per_count, side).images)
    few = counter_scenes.join([some(count, per_count, side) for count in COUNTS])
    images, value = from_uint8(few.images), {}
    for kind in corruptions.GROSS:
        x, changed = corruptions.gross(images, torch.Generator().manual_seed(0), floors, (kind,))
        same = Labeled(*(column[changed.numpy()] for column in few))
        value[kind.__name__] = share(look(net, same, x[changed]).plausibility >= PLAUSIBLE)
    return value


def named_from(faults: dict[str, dict[str, dict]]) -> dict[str, float | None]:
    """{fault: the strength from which on at most PASSING of the images are called plausible, or None}."""
    value = {}
    for name, of in faults.items():
        strengths = sorted(map(float, of))
        passing = [s for s in strengths if of[f"{s:g}"]["plausible"] > PASSING]
        beyond = [s for s in strengths if s > max(passing, default=0.0)]
        value[name] = min(beyond, default=None)
    return value


def targets(sizes: dict[str, dict]) -> list[dict]:
    """The targets set before training, what the counter reaches, and whether each is met."""
    value = []
    for side, of in sizes.items():
        own = of["clevr"]
        asked = [
            ("exact, 0-6 objects", 0.99, own["exact_0_to_6"]),
            ("exact, 7-12 objects", 0.95, own["exact_7_to_12"]),
            ("right color, of all objects", 0.98, own["colored"]),
        ]
        for what, least, reached in asked:
            row = {"px": int(side), "what": what, "at_least": least, "reached": reached}
            value.append(row | {"met": reached >= least})
        for std in ("0.3", "0.5"):
            what, bias = f"bias under confetti of {std}", of["faults"]["confetti"][std]["bias"]
            row = {"px": int(side), "what": what, "at_most": 0.2, "reached": bias}
            value.append(row | {"met": abs(bias) <= 0.2})
        for name in NAMED:
            strongest = list(of["faults"][name].values())[-1]["plausible"] if name in of["faults"] else None
            if strongest is not None:
                what = f"called plausible at the strongest {name}"
                row = {"px": int(side), "what": what, "at_most": PASSING, "reached": strongest}
                value.append(row | {"met": strongest <= PASSING})
    return value


def assess(net: ObjectCounter, per_count: int) -> dict:
    """Accuracy on held-out renders of every kind and size, on Cycles, on faulty and on wrong images; shares
    in [0, 1].

    `per_count` scenes of each count at CLEVR's own distances, half as many crowded ones and test layouts, an
    eighth as many with faults.
    """
    value = {}
    for side in sizes_of(net.config.resolution):
        many = {kind: per_count if kind == "clevr" else max(2, per_count // 2) for kind in KINDS}
        value[str(side)] = {kind: clean(net, kind, n, side) for kind, n in many.items()} | {
            "melted": melted(net, max(2, per_count // 4), side),
            "faults": (faults := faulty(net, per_count, side)),
            "implausible_from": named_from(faults),
            "gross_but_plausible": wrong(net, per_count, side),
            "cycles_references": on_references(net, side),
        }
    return {"counts": list(COUNTS), "sizes": value, "targets": targets(value)}
