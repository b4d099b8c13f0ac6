"""Color conditions: success without places (section 4, Figs. 5, 11, App. E.4), its chance level, and the
counter's own ceiling.

A condition is a multiset of colors. Objects placed are those that match it, sum_c min(n_c, asked_c); all
others are extras. Rows therefore have the numbers of `evaluation.rows.Row`, and `needed`, the rules and K of
`evaluation.rules` apply unchanged.

Choice: an object whose center lies outside the image counts neither as asked nor as found: no counter can see
it, and the location condition leaves it out too. `scene_counts(..., outside=True)` counts it, as
`clevr.conditions.color_counts` does for all objects of a scene.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from lcs_utils.checks import as_array, check_choice, check_count, check_kind, check_tensor, shown
from lcs_utils.clevr.conditions import color_counts
from lcs_utils.clevr.render import render
from lcs_utils.clevr.scenes import COLORS, Scene, project, sample_scene
from lcs_utils.counter.scenes import prune
from lcs_utils.diffusion import from_uint8
from lcs_utils.evaluation.family_grids import HELD_OUT
from lcs_utils.evaluation.rows import PLAUSIBLE
from lcs_utils.stats import Interval, interval

if TYPE_CHECKING:
    from lcs_utils.counter.net import Counts, ObjectCounter

N = len(COLORS)
LARGEST_K = N
TRIES, APART = 50, 10**6  # scenes drawn for one that hides no object; between their indices
FAMILIES = {
    "colors": "one object each of the first K of the paper's colors (App. E.1)",
    "subsets": "one object each of a random K of the eight colors, another K for each sample",
    "repeated": "K objects of one color, another color for each sample: counts are added, not colors",
}


class ColorRow(NamedTuple):
    """One sample, like `evaluation.rows.Row` but without places: `placed` counts objects of the asked colors,
    each color at most as often as asked.
    """

    net: str
    weights: str  # first 12 digits of the SHA-256 of the net's weights, and of the counter's
    counted_by: str
    seed: int
    solver: str
    steps: int
    k: int  # objects asked for
    sample: int
    count: int
    placed: int
    plausibility: float
    family: str = "colors"
    preset: str = "tiny"
    asked: str = ""  # objects per color, in the order of COLORS, as `encode` writes them
    found: str = ""

    @property
    def extras(self) -> int:
        """Objects beyond what was asked for of their color."""
        return self.count - self.placed


def encode(counts: Sequence[int]) -> str:
    """Write objects per color as eight numbers. Raises ValueError for another length, a number below 0 or a
    fraction, TypeError for what are no numbers.
    """
    found = as_array("a multiset of colors", counts)
    if found.shape != (N,) or found.min() < 0 or (found % 1).any():
        raise ValueError(
            f"a multiset of colors is {N} counts >= 0 ({', '.join(COLORS)}), got {shown(list(counts))}"
        )
    return " ".join(str(int(v)) for v in found)


def decode(text: str) -> Int[np.ndarray, "8"]:
    """The multiset that `encode` wrote. Raises ValueError for any other text."""
    words = check_kind("a multiset of colors", text, str, "text").split()
    if len(words) != N or not all(map(str.isdecimal, words)):
        raise ValueError(f"a multiset of colors is written as {N} counts >= 0, got {text!r}")
    return np.array(words, int)


def conditions(family: str, k: int, samples: int, seed: int = 0) -> Float[Tensor, "samples 8"]:
    """The color condition of each sample: `k` objects in total (App. E.1). A sample's condition does not
    depend on `samples`.

    Raises ValueError for an unknown family, k outside 0..8 or fewer than no samples, TypeError for fractions.
    """
    check_choice("family of color conditions", family, FAMILIES)
    check_count("K", k, None)
    check_count("samples", samples)
    check_count("seed", seed)
    if not 0 <= k <= LARGEST_K:
        raise ValueError(f"K must be 0..{LARGEST_K}, got {k}")
    counts = torch.zeros(samples, N)
    for i in range(samples):
        order = np.random.default_rng([seed, k, i]).permutation(N) if family != "colors" else np.arange(N)
        if family == "repeated":
            counts[i, order[0]] = k
        else:
            counts[i, order[:k]] = 1
    return counts


def check_multisets(found: Tensor, asked: Tensor) -> None:
    """Raise ValueError, naming both shapes, unless both are [images, 8] counts of colors, all whole and >= 0;
    TypeError unless both are tensors.
    """
    check_tensor("found", found, None, False)
    check_tensor("asked", asked, None, False)
    if found.shape != asked.shape or found.ndim != 2 or found.shape[1] != N:
        raise ValueError(
            f"found and asked must both be [images, {N}] counts, got {list(found.shape)} and "
            f"{list(asked.shape)}"
        )
    for counts in (found, asked):
        wrong = ~((counts >= 0) & (counts % 1 == 0))  # NaN and infinity, too
        if bool(wrong.any()):
            first = float(counts[wrong][0])
            allowed = ">= 0" if first < 0 else "whole numbers"
            raise ValueError(f"counts of colors are {allowed}, got {first:g}")


def placed(found: Float[Tensor, "images 8"], asked: Float[Tensor, "images 8"]) -> Int[Tensor, "images"]:
    """Objects that match the condition, sum_c min(n_c, asked_c). Raises as `check_multisets`."""
    check_multisets(found, asked)
    return torch.minimum(found, asked).sum(1).long()


def extras(found: Float[Tensor, "images 8"], asked: Float[Tensor, "images 8"]) -> Int[Tensor, "images"]:
    """All other objects, sum_c max(n_c - asked_c, 0). Raises as `check_multisets`."""
    check_multisets(found, asked)
    return (found - asked).clamp(min=0).sum(1).long()


def found_colors(counts: "Counts") -> Float[Tensor, "images 8"]:
    """Number of objects of each color that a counter finds. Objects without a recognized color are only in
    `counts.count`.
    """
    if counts.colors.shape[1] == 0:
        return torch.zeros(len(counts.count), N)
    return color_counts(counts.colors, counts.colors >= 0)


def color_rows(
    images: Tensor, counter: Callable[[Tensor], "Counts"], asked: Float[Tensor, "images 8"], **key
) -> list[ColorRow]:
    """One ColorRow per image sampled under `asked`; `key` holds the ColorRow fields that identify the net.
    Raises as `check_multisets`.
    """
    counts = counter(images)
    found = found_colors(counts).cpu()
    right = placed(found, asked)
    return [
        ColorRow(
            **key,
            k=int(asked[i].sum()),
            sample=i,
            count=int(counts.count[i]),
            placed=int(right[i]),
            plausibility=round(float(counts.plausibility[i]), 4),
            asked=encode(asked[i].tolist()),
            found=encode(found[i].tolist()),
        )
        for i in range(len(images))
    ]


def chance_placed(asked: Sequence[int], objects: int) -> float:
    """Expected number of objects that match the condition, of `objects` randomly colored ones: what a net
    gets that colors at random.

    For K asked colors, one each, K (1 - (7/8)^objects). Raises ValueError for a number of objects below 0,
    and as `encode`.
    """
    check_count("objects", objects)
    p = [math.comb(objects, n) * (1 / N) ** n * (1 - 1 / N) ** (objects - n) for n in range(objects + 1)]
    return sum(min(n, int(a)) * weight for a in decode(encode(asked)) for n, weight in enumerate(p))


def scene_counts(scenes: Sequence[Scene], outside: bool = False) -> Float[Tensor, "scenes 8"]:
    """Objects per color of each scene; with `outside` also those whose centers lie outside the image."""
    counts = torch.zeros(len(scenes), N)
    for i, scene in enumerate(scenes):
        for o, (x, y) in zip(scene.objects, project(scene), strict=True):
            counts[i, COLORS.index(o.color)] += outside or (0 <= x < 1 and 0 <= y < 1)
    return counts


def colored_scenes(asked: Float[Tensor, "samples 8"], seed: int = 0) -> list[Scene]:
    """One held-out CLEVR scene per condition: colors as asked, all centers inside the image, everything else
    random.

    No object is hidden from the counter (`counter.scenes.prune`): hidden ones would lower the ceiling, though
    they were drawn. Raises ValueError for more objects than CLEVR's margins leave room for.
    """
    scenes = []
    for i, counts in enumerate(asked.long().tolist()):
        colors = [color for color, n in zip(COLORS, counts, strict=True) for _ in range(n)]
        scene = _unhidden(HELD_OUT + seed, i, len(colors))
        order = np.random.default_rng([seed, i]).permutation(len(colors))
        objects = tuple(replace(o, color=colors[j]) for o, j in zip(scene.objects, order, strict=True))
        scenes.append(replace(scene, objects=objects))
    return scenes


def _unhidden(seed: int, index: int, n_objects: int) -> Scene:
    """A scene whose objects can all be counted: CLEVR's own test of visibility leaves a few too small, so
    that another scene is drawn.
    """
    for again in range(TRIES):
        scene = sample_scene(seed, index + again * APART, n_objects, require_centers_inside=True)
        if len(prune(scene).objects) == n_objects:
            return scene
    raise ValueError(f"no scene of {n_objects} objects that are all visible in {TRIES} attempts")


class Ceiling(NamedTuple):
    """The counter's reading of renders that show exactly what was asked: the most that any net could get from
    it.
    """

    exact: Interval  # share of images whose multiset of colors is read exactly
    placed: Interval  # share of asked objects that are read in their color
    plausible: Interval


def rendered(family: str, k: int, samples: int, side: int, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Renders in [-1, 1] [samples 3 side side] of what `conditions` ask for, and those [samples 8]."""
    asked = conditions(family, k, samples, seed)
    return from_uint8(render(colored_scenes(asked, seed), side)).permute(0, 3, 1, 2), asked


def ceiling(counter: "ObjectCounter", family: str, k: int, samples: int, seed: int = 0) -> Ceiling:
    """The counter on renders of the conditions, to be shown in every color figure. Raises as `conditions`,
    and for k or samples < 1.
    """
    if k < 1 or samples < 1:
        raise ValueError(
            f"a ceiling needs at least one object and one sample, got K = {k} and {samples} samples"
        )
    images, asked = rendered(family, k, samples, counter.config.resolution, seed)
    counts = counter(images)
    found = found_colors(counts).cpu()
    plausible = (counts.plausibility.cpu() >= PLAUSIBLE).double().numpy()
    shares = (
        (found == asked).all(1).double().numpy(),
        (placed(found, asked) / k).double().numpy(),
        plausible,
    )
    return Ceiling(*(interval(share, seed=seed, share=True) for share in shares))
