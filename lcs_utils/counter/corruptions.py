"""Faults of generated images, made from renders: slight ones the counter must tolerate, gross ones it must
call implausible.

Faults with a strength are in `corruptions_graded`. Images are [batch 3 height width] in [-1, 1]; lengths are
in pixels of a 32 px image and scale with the resolution.
"""

import math
from collections.abc import Callable

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor

Images = Float[Tensor, "batch 3 height width"]
Pool = Float[Tensor, "pool 3 height width"]  # need not be as many as the images


def uniform(n, low, high, generator, log=False):
    """Random numbers [n 1 1 1], uniform between `low` and `high`, or uniform in their logarithm."""
    u = torch.rand(n, 1, 1, 1, generator=generator)
    return low * (high / low) ** u if log else low + (high - low) * u


def smooth_field(images, side, generator, channels=3):
    """A smooth random field of unit variance at the images' size, varying over 1/side of it."""
    noise = torch.randn(len(images), channels, side, side, generator=generator)
    field = F.interpolate(noise, images.shape[-2:], mode="bicubic", align_corners=False)
    return field / field.std((1, 2, 3), keepdim=True).clamp_min(1e-3)


def soft_disc(images, sigma, generator):
    """A soft disc of radius about 1.2 sigma [batch 1 1 1] somewhere in each image, in [0, 1]."""
    side = images.shape[-1]
    axis = torch.arange(side) + 0.5
    center = side * torch.rand(len(images), 2, 1, generator=generator)
    gap = (axis - center) ** 2  # [batch 2 side]
    distance = gap[:, 1, :, None] + gap[:, 0, None, :]
    return torch.exp(-((distance[:, None] / (2 * (sigma * side / 32) ** 2)) ** 2))


def blur(images: Images, sigma: Float[Tensor, "batch 1 1 1"], stretch: float = 1.0) -> Images:
    """Gaussian blur with a width per image; horizontally `stretch` times wider."""
    n, _, side, _ = images.shape
    sigma = sigma.flatten()[:, None] * side / 32
    radius = math.ceil(3 * float(sigma.max()) * max(stretch, 1.0)) or 1
    radius = min(radius, side - 1)
    offset = torch.arange(-radius, radius + 1)
    x = images.reshape(1, n * 3, side, side)
    for width, shape in ((sigma, (-1, 1)), (sigma * stretch, (1, -1))):
        kernel = torch.exp(-(offset**2) / (2 * width.clamp_min(0.05) ** 2))
        kernel = (kernel / kernel.sum(1, keepdim=True)).repeat_interleave(3, 0).reshape(n * 3, 1, *shape)
        pad = (0, 0, radius, radius) if shape[0] == -1 else (radius, radius, 0, 0)
        x = F.conv2d(F.pad(x, pad, mode="reflect"), kernel, groups=n * 3)
    return x.reshape(images.shape)


def slight(images: Images, generator: torch.Generator, strength: float = 1.0) -> Images:
    """Faults of good samples: blur up to 0.4 px, noise up to 0.05, gain, offset and tint of a few percent.

    Choice: each fault is absent from half of the images, since its absence would otherwise give away a clean
    render.
    """
    n = len(images)

    def some():
        return strength * (torch.rand(n, 1, 1, 1, generator=generator) < 0.5)

    x = blur(images, some() * uniform(n, 0.0, 0.4, generator))
    x = x * (1 + some() * uniform(n, -0.08, 0.08, generator)) + some() * uniform(n, -0.05, 0.05, generator)
    x = x + some() * 0.02 * torch.randn(n, 3, 1, 1, generator=generator)
    x = x + some() * uniform(n, 0.0, 0.05, generator) * torch.randn(images.shape, generator=generator)
    return x.clamp(-1, 1)


def displaced(images, field):
    """Resample images with per-pixel offsets `field` [batch 2 height width], in px."""
    side = images.shape[-1]
    axis = (torch.arange(side) + 0.5) * 2 / side - 1
    grid = torch.stack(torch.meshgrid(axis, axis, indexing="xy"), -1)
    return F.grid_sample(
        images, grid + (2 / 32 * field).permute(0, 2, 3, 1), padding_mode="reflection", align_corners=False
    )


def blurred(images: Images, others: Images, empty: Images, generator: torch.Generator) -> Images:
    """Shapes lost: isotropic or sideways blur of 1 to 4 px."""
    stretch = 1.0 if torch.rand((), generator=generator) < 0.6 else 3.0
    return blur(images, uniform(len(images), 1.0, 4.0 / math.sqrt(stretch), generator), stretch)


def noisy(images: Images, others: Images, empty: Images, generator: torch.Generator) -> Images:
    """Unfinished denoising: fine or coarse noise of 0.15 to 1."""
    side = images.shape[-1] // int(2 ** torch.randint(4, (), generator=generator))
    return images + uniform(len(images), 0.15, 1.0, generator, log=True) * smooth_field(
        images, side, generator
    )


def blended(images: Images, others: Images, empty: Images, generator: torch.Generator) -> Images:
    """Two scenes at once: mixed by a constant or by a smooth random field."""
    share = uniform(len(images), 0.3, 0.7, generator)
    if torch.rand((), generator=generator) < 0.4:
        share = torch.sigmoid(2 * smooth_field(images, 4, generator, channels=1))
    return images.lerp(others, share)


def pasted(images: Images, others: Images, empty: Images, generator: torch.Generator) -> Images:
    """Cut and paste: pieces of another scene with hard edges across objects."""
    side = images.shape[-1] // 4 if torch.rand((), generator=generator) < 0.5 else 4
    return torch.where(smooth_field(images, side, generator, channels=1) > 0.3, others, images)


def warped(images: Images, others: Images, empty: Images, generator: torch.Generator) -> Images:
    """Smears: pixels displaced by a rough random field of 1.2 to 4 px."""
    return displaced(
        images, uniform(len(images), 1.2, 4.0, generator) * smooth_field(images, 8, generator, channels=2)
    )


def ghosts(images: Images, others: Images, empty: Images, generator: torch.Generator) -> Images:
    """An under-trained net's posterior means: several scenes averaged and smoothed, gray or with loud
    colors.
    """
    x = torch.lerp(images, others, uniform(len(images), 0.0, 0.5, generator))
    x = blur(x, uniform(len(images), 0.8, 3.0, generator))
    gray = x.mean(1, keepdim=True)
    x = gray + (x - gray) * uniform(len(images), 0.0, 2.0, generator)
    return empty + (x - empty) * uniform(len(images), 0.5, 1.6, generator)


def blobs(images: Images, others: Images, empty: Images, generator: torch.Generator) -> Images:
    """One to three colored discs without shape or shadow painted over the scene."""
    for _ in range(1 + int(torch.randint(3, (), generator=generator))):
        disc = soft_disc(images, uniform(len(images), 1.5, 5.0, generator), generator)
        color = 2 * torch.rand(len(images), 3, 1, 1, generator=generator) - 1
        images = images.lerp(color, disc * uniform(len(images), 0.5, 1.0, generator))
    return images


def miscolored(images: Images, others: Images, empty: Images, generator: torch.Generator) -> Images:
    """Wrong brightness or tint: contrast, offset or channels far from any lamp's."""
    n = len(images)
    x = (
        images
        * (1.35 + torch.rand(n, 1, 1, 1, generator=generator))
        ** torch.randn(n, 1, 1, 1, generator=generator).sign()
    )
    tint = torch.randn(n, 3, 1, 1, generator=generator)
    return x + uniform(n, 0.15, 0.6, generator) * tint / tint.norm(dim=1, keepdim=True).clamp_min(0.1)


def static(images: Images, others: Images, empty: Images, generator: torch.Generator) -> Images:
    """No scene at all: colored noise of any scale around any gray."""
    side = images.shape[-1] // int(2 ** torch.randint(5, (), generator=generator))
    x = uniform(len(images), -1.0, 1.0, generator)
    return x + uniform(len(images), 0.05, 1.0, generator, log=True) * smooth_field(images, side, generator)


GROSS: tuple[Callable, ...] = (
    blurred,
    noisy,
    blended,
    pasted,
    warped,
    ghosts,
    blobs,
    miscolored,
    static,
)
HARD = (blended, pasted)  # the kinds most like a scene, which training shows most


def gross(
    images: Images, generator: torch.Generator, empty: Pool, kinds=GROSS
) -> tuple[Images, Bool[Tensor, "batch"]]:
    """Grossly wrong images, an equal share of each kind, and whether each was really spoiled.

    `empty` are renders without objects; an image is mixed with the one before it, and one alone with itself,
    which `blended` and `pasted` leave as it is (`training.shown`). Choice: spoiled means that some 3x3 pixels
    differ by 0.12 from the scene and from what it was mixed with; for `pasted`, that the seam differs by
    0.25; for `noisy`, `miscolored`, `static` and `blurred`, that they differ by 0.08 from the scene.
    """
    others, empty = images.roll(1, 0), empty[torch.randint(len(empty), (len(images),), generator=generator)]
    spoiled, changed = [], []
    for kind, a, b, e in zip(
        kinds, *(t.tensor_split(len(kinds)) for t in (images, others, empty)), strict=True
    ):
        if not len(a):
            continue
        x = kind(a, b, e, generator).clamp(-1, 1)
        difference = [
            F.avg_pool2d((x - source).abs().mean(1, keepdim=True), 3, 1, 1).amax((1, 2, 3))
            for source in (a, b, e)
        ]
        if kind is pasted:  # every pixel equals one of its sources: look at the seam instead
            own = (x == a).all(1, keepdim=True).float()
            seam = (F.max_pool2d(own, 3, 1, 1) - own) * (a - b).abs().mean(1, keepdim=True)
            far = seam.flatten(1).topk(8).values.mean(1) > 0.25
        else:
            far = torch.stack(difference).amin(0) > 0.12
        if kind in (noisy, miscolored, static, blurred):
            far = difference[0] > 0.08
        spoiled.append(x)
        changed.append(far)
    return torch.cat(spoiled), torch.cat(changed)
