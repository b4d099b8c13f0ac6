"""Graded faults of generated images, made from renders: slight ones are tolerated, gross ones implausible.

Images are [batch 3 height width] in [-1, 1]; lengths are in pixels of a 32 px image and scale with the
resolution.
"""

from collections.abc import Callable
from typing import NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor

from lcs_utils.counter.corruptions import Images, blur, displaced, smooth_field, soft_disc, uniform

Strength = Float[Tensor, "batch 1 1 1"]
Centers = Float[Tensor, "batch objects 2"]
Point = Float[Tensor, "batch 2"]
NOTICED = 0.05  # mean change of some 3x3 pixels below which a fault counts as invisible
NEAR, FAR = 2.5, 9.0  # px between the centers of two objects that can melt into one


def object_mask(images: Images, floor: Images) -> Float[Tensor, "batch 1 height width"]:
    """Where the images differ from an empty scene, in [0, 1]. `floor` are other empty scenes, which differ by
    a tenth.
    """
    return (4 * (images - floor).abs().mean(1, keepdim=True) - 0.4).clamp(0, 1)


def grown(
    mask: Float[Tensor, "batch 1 height width"], radius: float
) -> Float[Tensor, "batch 1 height width"]:
    """The mask dilated by `radius` px."""
    reach = max(1, round(radius * mask.shape[-1] / 32))
    return F.max_pool2d(mask, 2 * reach + 1, 1, reach)


def grain(images: Images, generator: torch.Generator) -> Images:
    """Colored noise of variance 1 per pixel or per 2x2 pixels, everywhere or on a third of the pixels."""
    n, _, side, _ = images.shape
    noise = smooth_field(images, side if torch.rand((), generator=generator) < 0.6 else side // 2, generator)
    if torch.rand((), generator=generator) < 0.6:
        return noise
    return noise * (torch.rand(n, 1, side, side, generator=generator) < 1 / 3) * 3**0.5


def speckle(
    images: Images, strength: Strength, floor: Images, centers: Centers, generator: torch.Generator
) -> Images:
    """Colored noise of standard deviation `strength` inside objects."""
    return images + strength * object_mask(images, floor) * grain(images, generator)


def confetti(
    images: Images, strength: Strength, floor: Images, centers: Centers, generator: torch.Generator
) -> Images:
    """Colored noise of standard deviation `strength` on objects and 1 to 3 px around them."""
    around = grown(object_mask(images, floor), 1 + 2 * float(torch.rand((), generator=generator)))
    return images + strength * around * grain(images, generator)


def ringed(
    images: Images, strength: Strength, floor: Images, centers: Centers, generator: torch.Generator
) -> Images:
    """Halos: edges that overshoot, or a tinted ring around objects and one of the opposite tint, of at most
    `strength`.
    """
    n = len(images)
    if torch.rand((), generator=generator) < 0.5:
        ring = images - blur(images, uniform(n, 0.7, 1.5, generator))
    else:
        mask = object_mask(images, floor)
        width = 0.6 + float(torch.rand((), generator=generator))
        once, twice = grown(mask, width), grown(mask, 2 * width)
        tint = torch.randn(n, 1, 1, 1, generator=generator).sign() + 0.5 * torch.randn(
            n, 3, 1, 1, generator=generator
        )
        ring = tint * (once - mask - uniform(n, 0.0, 1.0, generator) * (twice - once))
    return images + strength * ring / ring.abs().amax((1, 2, 3), keepdim=True).clamp_min(0.05)


def faded(
    images: Images, strength: Strength, floor: Images, centers: Centers, generator: torch.Generator
) -> Images:
    """Transparent objects: everything, or two discs, faded by a share `strength` toward an empty scene."""
    if torch.rand((), generator=generator) < 0.5:

        def disc():
            return soft_disc(images, uniform(len(images), 3.0, 10.0, generator), generator)

        strength = strength * torch.maximum(disc(), disc())
    return images.lerp(floor, strength.expand_as(images))


def ragged(
    images: Images, strength: Strength, floor: Images, centers: Centers, generator: torch.Generator
) -> Images:
    """Ragged edges: pixels displaced by a fine random field of `strength` px."""
    side = images.shape[-1] // (2 if torch.rand((), generator=generator) < 0.5 else 4)
    return displaced(images, strength * smooth_field(images, side, generator, channels=2))


def out_of_focus(
    images: Images, strength: Strength, floor: Images, centers: Centers, generator: torch.Generator
) -> Images:
    """Gaussian blur of `strength` px."""
    return blur(images, strength)


def noise(
    images: Images, strength: Strength, floor: Images, centers: Centers, generator: torch.Generator
) -> Images:
    """Noise of standard deviation `strength` everywhere."""
    return images + strength * grain(images, generator)


def neighbors(centers: Centers, generator: torch.Generator) -> tuple[Point, Point, Bool[Tensor, "batch"]]:
    """Centers, in [0, 1]^2, of two random objects NEAR to FAR px apart in each image, and whether there are
    any.
    """
    n, objects, _ = centers.shape
    gap = 32 * torch.cdist(centers.nan_to_num(9.0), centers.nan_to_num(-9.0))
    allowed = ((gap > NEAR) & (gap < FAR)).flatten(1)
    pair = torch.rand(allowed.shape, generator=generator).mul(allowed).argmax(1)
    row = torch.arange(n)
    return (
        centers[row, pair // objects].nan_to_num(0.0),
        centers[row, pair % objects].nan_to_num(0.0),
        allowed.any(1),
    )


def fused(
    images: Images, strength: Strength, floor: Images, centers: Centers, generator: torch.Generator
) -> Images:
    """Two neighboring objects melted into one shape that reaches from one to the other, as opaque as
    `strength` in [0, 1].

    The slice of each object across the line between them is extended along it, and one fades into the other.
    """
    n, _, side, _ = images.shape
    first, second, some = neighbors(centers, generator)
    axis = (torch.arange(side) + 0.5) / side
    place = torch.stack(torch.meshgrid(axis, axis, indexing="xy"), -1)  # [side side 2]
    start, line = first[:, None, None], (second - first)[:, None, None]
    along = (((place - start) * line).sum(-1) / (line**2).sum(-1).clamp_min(1e-6)).clamp(0, 1)[..., None]
    across = place - (start + along * line)
    drawn = [
        F.grid_sample(
            images, 2 * (end[:, None, None] + across) - 1, padding_mode="border", align_corners=False
        )
        for end in (first, second)
    ]
    sharp = uniform(n, 4.0, 20.0, generator)
    shape = drawn[0].lerp(drawn[1], torch.sigmoid(sharp * (along[:, None, ..., 0] - 0.5)).expand_as(images))
    inside = torch.sigmoid(3 * (uniform(n, 1.5, 3.5, generator) - 32 * across.norm(dim=-1)[:, None]))
    return images.lerp(shape, strength * inside * some.reshape(-1, 1, 1, 1))


class Grade(NamedTuple):
    """A fault by strength: up to `slight` an image stays plausible, from `gross` on it is not, in between it
    has no label.

    `most`: the strongest that training shows; up to `counted` the true count is defined and learned.
    """

    fault: Callable[[Images, Strength, Images, Centers, torch.Generator], Images]
    slight: float
    gross: float
    most: float
    counted: float


# Choice: what the eye calls clean and broken at 32 and 64 px; noise of .05 is 6 gray levels, of .15 it is 19
GRADED = {
    "speckle": Grade(speckle, 0.05, 0.15, 0.7, 0.7),
    "confetti": Grade(confetti, 0.05, 0.15, 0.7, 0.7),
    "noise": Grade(noise, 0.05, 0.15, 0.5, 0.3),
    "ringed": Grade(ringed, 0.1, 0.3, 0.8, 0.8),
    "faded": Grade(faded, 0.12, 0.35, 0.75, 0.5),
    "ragged": Grade(ragged, 0.2, 0.6, 1.5, 1.0),
    "blur": Grade(out_of_focus, 0.4, 1.0, 2.5, 1.2),
    "fused": Grade(fused, 0.15, 0.5, 1.0, 0.15),
}
# relative frequency in training
ODDS = {"speckle": 4, "confetti": 7, "noise": 1, "ringed": 2, "faded": 2, "ragged": 1, "blur": 1, "fused": 8}


def visible_change(images: Images, clean: Images) -> Float[Tensor, "batch"]:
    """The largest mean change of 3x3 pixels, in units of [-1, 1]."""
    return F.avg_pool2d((images - clean).abs().mean(1, keepdim=True), 3, 1).amax((1, 2, 3))


class Worn(NamedTuple):
    """Images with a fault: whether their true count is defined (`counted`) and their plausibility is `known`,
    and if so, `plausible`.
    """

    images: Images
    counted: Bool[Tensor, "batch"]
    known: Bool[Tensor, "batch"]
    plausible: Bool[Tensor, "batch"]


def worn(
    name: str,
    images: Images,
    floor: Images,
    centers: Centers,
    generator: torch.Generator,
    strength: Strength | None = None,
) -> Worn:
    """Images with the fault `name` of GRADED; by default a quarter slight, a quarter in between, half gross.

    A gross fault that nobody notices, such as speckle on no object, has unknown plausibility.
    Raises ValueError for an unknown fault.
    """
    if name not in GRADED:
        raise ValueError(f"unknown fault {name!r}; allowed: {', '.join(GRADED)}")
    grade = GRADED[name]
    if strength is None:
        edges = torch.tensor([0.0, grade.slight, grade.gross, grade.most])
        part = torch.randint(4, (len(images), 1, 1, 1), generator=generator).clamp_max(2)
        strength = edges[part] + (edges[part + 1] - edges[part]) * torch.rand(part.shape, generator=generator)
    x = grade.fault(images, strength, floor, centers, generator).clamp(-1, 1)
    flat = strength.flatten()
    slight, gross = flat <= grade.slight, (flat >= grade.gross) & (visible_change(x, images) > NOTICED)
    return Worn(x, flat <= grade.counted, slight | gross, slight)
