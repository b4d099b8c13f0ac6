"""Renders drawn over by our own diffusion nets: the nets' texture on objects whose number is known.

A render gets noise of 0.15 to 1 and a net removes it (SDEdit, Meng et al. 2022). Small noise leaves objects where they
were; images in which one faded, changed or appeared, pixel by pixel against the render, are dropped.
Choice: the counter learns the nets' texture from these, but sees none of their samples from pure noise, which it counts.
"""

from dataclasses import replace
from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor
from tqdm.auto import tqdm

from lcs_utils.clevr.conditions import location_grid
from lcs_utils.clevr.render import object_ids, render
from lcs_utils.diffusion import final, from_uint8, karras_sigmas, sample
from lcs_utils.evaluation import counter_scenes, interventions
from lcs_utils.evaluation.counter_scenes import ANTIALIAS, Labeled

RESOLUTION, STEPS, BATCH = 32, 6, 40  # the nets' resolution; evaluations per image; images with one noise level
LOWEST, HIGHEST = 0.15, 1.0  # noise levels, drawn log-uniformly
FIRST = 100_000_000  # index of the first scene: none is a training scene of its own


class Part(NamedTuple):
    """How many scenes a net draws over; `labels`: its condition, "all" objects or a "single" one as in its training."""

    net: str
    scenes: int
    labels: str


PARTS = (Part("exp1", 3600, "all"), Part("exp2", 1800, "single"), Part("exp3_r2", 120, "all"))


def coverage(scene, resolution: int = RESOLUTION) -> Float[Tensor, "objects height width"]:
    """How much of each pixel shows each object, [0, 1]."""
    ids = torch.from_numpy(object_ids(scene, 3 * resolution))
    seen = (ids == torch.arange(len(scene.objects))[:, None, None]).float()
    return F.avg_pool2d(seen, 3) if len(seen) else seen.new_zeros(0, resolution, resolution)


def unchanged(
    image: Float[Tensor, "3 height width"], scene: Float[Tensor, "3 height width"],
    floor: Float[Tensor, "3 height width"], cover: Float[Tensor, "objects height width"],
) -> Bool[Tensor, ""]:  # fmt: skip
    """Whether `image` still shows the objects of `scene`, and no others; `floor` is the scene without objects.

    Choice: an object is still there when its difference from the floor, projected on what it was, keeps 0.6 to 1.5 of
    its size and the rest is less than half of it, squared; nothing is new when no 3x3 pixels off the objects change by 0.15.
    """
    was, now = scene - floor, image - floor
    size = (cover[:, None] * was**2).sum((1, 2, 3)).clamp_min(1e-6)
    kept = (cover[:, None] * was * now).sum((1, 2, 3)) / size
    rest = (cover[:, None] * (now - kept[:, None, None, None] * was) ** 2).sum((1, 2, 3)) / size
    near = F.max_pool2d(cover.sum(0)[None], 3, 1, 1)[0] > 0
    new = F.avg_pool2d(((image - scene).abs().mean(0) * ~near)[None], 3, 1, 1).max()
    return ((kept > 0.6) & (kept < 1.5) & (rest < 0.5)).all() & (new < 0.15)


def draw_over(net: str, first: int, n: int, labels: str, seed: int) -> Labeled:
    """Scenes `first`..first+n-1 drawn over by `net`: those that are unchanged."""
    generator = torch.Generator().manual_seed(1_000_003 * seed + first)
    denoise, _ = interventions.denoiser(net)
    scenes = [counter_scenes.training_scene(seed, i) for i in range(first, first + n)]
    before = counter_scenes.rendered(scenes, RESOLUTION)
    floors = render([replace(s, objects=()) for s in scenes], RESOLUTION, ANTIALIAS[RESOLUTION]).transpose(0, 3, 1, 2)
    x, floor = (from_uint8(a.copy()) for a in (before.images, floors))
    centers = torch.from_numpy(before.centers)
    present = torch.isfinite(centers[:, :, 0])
    if labels == "single":
        chosen = torch.rand(present.shape, generator=generator).mul(present).argmax(1, keepdim=True)
        present = present & (torch.arange(present.shape[1]) == chosen)
    cond, drawn = location_grid(centers, present), []
    for part, c in zip(x.split(BATCH), cond.split(BATCH), strict=True):
        sigma = LOWEST * (HIGHEST / LOWEST) ** float(torch.rand((), generator=generator))
        noise = torch.randn(part.shape, generator=generator)
        drawn.append(final(sample(denoise, part / sigma + noise, karras_sigmas(STEPS, sigma_max=sigma), c, "dpmpp_2m")))
    image = torch.cat(drawn).clamp(-1, 1)
    keep = [bool(unchanged(image[i], x[i], floor[i], coverage(s))) for i, s in enumerate(scenes)]
    image = ((image + 1) * 127.5).round().to(torch.uint8).numpy()
    return Labeled(*(column[np.array(keep)] for column in (image, before.centers, before.colors)))


def redrawn(parts=PARTS, seed: int = 0) -> Labeled:
    """All parts as one, each in pieces that are made once and kept. Needs the nets' checkpoints."""
    found = []
    for part in parts:
        for start in tqdm(range(0, part.scenes, 3 * BATCH), unit="piece", desc=f"drawn over by {part.net}", mininterval=5):
            make = lambda start=start, part=part: draw_over(part.net, FIRST + start, 3 * BATCH, part.labels, seed)
            name = f"redrawn_{part.net}_{interventions.weights(part.net)}_{start:06d}_seed{seed}.npz"
            path = counter_scenes.folder(RESOLUTION) / name
            found.append(counter_scenes.kept(path, make))
    return counter_scenes.join(found)
