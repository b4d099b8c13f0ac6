"""Captions of CLEVR scenes whose truth is known: objects named by color and shape, and a style that touches
every pixel (section 4, App. G).

Choice: no places and one or two objects, so that a small model learns the captions in an hour on one core.
Choice: 4 of the 24 color-shape pairs and one shape per style are never in training, told or not.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional

from lcs_utils.checks import check_choice, check_count, check_items, check_tensor
from lcs_utils.clevr.scenes import COLORS, SHAPES

STYLES = ("plain", "night", "fog", "drawing")
PHRASES = {"plain": "", "night": ", at night", "fog": ", in fog", "drawing": ", as a drawing"}
WORDS = (*COLORS, *SHAPES, "a", "and", "at", "night", "in", "fog", "as", "drawing")
HELD_PAIRS = (("red", "cube"), ("blue", "sphere"), ("green", "cylinder"), ("yellow", "sphere"))
HELD_STYLES = {"night": "cylinder", "fog": "sphere", "drawing": "cube"}
POLICIES = {"all": "every object is told (T1)", "one": "one random object is told (T2)"}


class Scene(NamedTuple):
    """What a picture shows: (color, shape) of each object, and a style."""

    pairs: tuple[tuple[str, str], ...]
    style: str = "plain"


def caption(scene: Scene) -> str:
    """A scene in words, in the order of its objects: "a red cube and a blue sphere, at night".

    Raises ValueError for a color, shape or style that is not CLEVR's or not one of STYLES.
    """
    told = check_items("pairs", scene.pairs, tuple, "pairs (color, shape)")
    for color, shape in told:
        check_choice("color", color, COLORS)
        check_choice("shape", shape, SHAPES)
    objects = " and ".join(f"a {color} {shape}" for color, shape in told)
    return (objects + PHRASES[check_choice("style", scene.style, STYLES)]).removeprefix(", ")


def held_out(scene: Scene) -> bool:
    """Whether no training picture shows a scene: it has a held-out pair, or its style's held-out shape."""
    check_choice("style", scene.style, STYLES)
    shape = HELD_STYLES.get(scene.style)
    return any(pair in HELD_PAIRS or pair[1] == shape for pair in scene.pairs)


def allowed_styles(scene: Scene) -> list[str]:
    """The styles of a scene in training; none when it holds a held-out pair."""
    return [style for style in STYLES if not held_out(scene._replace(style=style))]


def training_scene(scene: Scene, policy: str, random: np.random.Generator) -> Scene:
    """What one training caption tells: the objects of a policy in random order, and a style in half of them.

    Raises ValueError for an unknown policy and a scene that is held out in every style.
    """
    check_choice("policy", policy, POLICIES)
    styles = allowed_styles(scene)
    if not styles:
        raise ValueError(f"{caption(scene)!r} holds a pair that training never shows")
    style = (
        styles[1 + random.integers(len(styles) - 1)] if len(styles) > 1 and random.random() < 0.5 else "plain"
    )
    pairs = [scene.pairs[i] for i in random.permutation(len(scene.pairs))]
    return Scene(tuple(pairs if policy == "all" else pairs[:1]), style)


def told_scenes(number: int, objects: int, seed: int, held: str = "") -> list[Scene]:
    """`number` scenes to caption, of distinct colors: none held out, or with a held-out "pair" or "style".

    Raises ValueError for another `held`, TypeError or ValueError for counts below 1.
    """
    check_count("number", number, 1)
    check_count("objects", objects, 1, len(COLORS))
    check_choice("held", held, ("", "pair", "style"))
    random, found = np.random.default_rng([seed, objects, len(held)]), []
    while len(found) < number:
        colors = random.choice(len(COLORS), objects, replace=False)
        pairs = tuple((COLORS[c], SHAPES[random.integers(len(SHAPES))]) for c in colors)
        scene = Scene(pairs, STYLES[random.integers(len(STYLES))] if random.random() < 0.5 else "plain")
        unseen_pair, unseen = any(pair in HELD_PAIRS for pair in pairs), held_out(scene)
        kind = "pair" if unseen_pair and scene.style == "plain" else "" if not unseen else "style"
        if kind == held and not (held == "style" and unseen_pair):
            found.append(scene)
    return found


def styled(
    images: Float[Tensor, "batch 3 height width"], style: str
) -> Float[Tensor, "batch 3 height width"]:
    """Renders in [-1, 1] in one of STYLES: a fixed change of every pixel that keeps colors apart.

    night: a third as bright, bluish; fog: 55% of the way to a light gray; drawing: colors
    without light and shade on white paper, dark edges. Raises ValueError for another style or another shape.
    """
    check_tensor("images", images, ("batch", 3, "height", "width"), False, "float")
    check_choice("style", style, STYLES)
    x = (images + 1) / 2
    if style == "night":
        x = (
            x * x.new_tensor([0.30, 0.36, 0.55])[:, None, None]
            + x.new_tensor([0.0, 0.0, 0.06])[:, None, None]
        )
    elif style == "fog":
        x = 0.45 * x + 0.55 * 0.9
    elif style == "drawing":
        smooth = functional.avg_pool2d(functional.pad(x, (1, 1, 1, 1), "replicate"), 3, 1)
        down = functional.pad(smooth, (0, 0, 1, 1), "replicate")
        right = functional.pad(smooth, (1, 1, 0, 0), "replicate")
        steep = (down[:, :, 2:] - down[:, :, :-2]) ** 2 + (right[..., 2:] - right[..., :-2]) ** 2
        edges = (4 * steep.sum(1, keepdim=True).sqrt() - 0.4).clamp(0, 1)
        gray = x.mean(1, keepdim=True)
        x = (0.9 + 2.2 * (x - gray)).clamp(0, 1) * (1 - edges)
    return 2 * x - 1
