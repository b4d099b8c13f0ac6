"""Pictures of scenes and their labels (notebook 03): annotations, other worlds, our renderer beside Cycles,
the conditions of Fig. 9, and where objects are.
"""

import json
import re
import time
from collections.abc import Mapping, Sequence

import numpy as np
import torch
from jaxtyping import Float
from matplotlib import colors
from matplotlib import pyplot as plt
from matplotlib.figure import Figure
from torch import Tensor

from lcs_utils import paths, plotting
from lcs_utils.clevr import annotations, conditions, fidelity, labels, scenes
from lcs_utils.clevr.render import render
from lcs_utils.clevr.world import World

OBJECT_HUES = ("blue", "orange", "green", "vermilion", "purple", "yellow")
SHADES = np.array([[0.92] * 3] + [colors.to_rgb(plotting.PALETTE[name]) for name in OBJECT_HUES])
AMPLIFICATION = 6  # of differences between two renderers


def annotated(scene: scenes.Scene) -> Figure:
    """A scene of up to six objects at 128 px and at 32 px, its masks and boxes, its depth."""
    large, small = (render([scene], side)[0].transpose(2, 0, 1) for side in (128, 32))
    seen = annotations.trace(scene, 128, 128)
    near = np.interp(seen.depth, (seen.depth.min(), 20), (1, -1))[None]
    row = [large, small, SHADES[seen.ids + 1].transpose(2, 0, 1) * 2 - 1, near]
    words = ["128 px", "32 px", "masks and boxes", "depth (near is bright)"]
    figure = plotting.image_grid([row], column_labels=words, cell=1.9)
    for x0, y0, x1, y1 in annotations.boxes(seen.ids, 6) - 0.5:
        figure.axes[2].plot([x0, x1, x1, x0, x0], [y0, y0, y1, y1, y0], color="black", lw=0.8)
    return figure


def documented_world() -> World:
    """The world that `docs/worlds.md` shows as its example."""
    text = (paths.ROOT / "docs" / "worlds.md").read_text()
    return World.from_json(json.loads(re.search(r"```json\n(.*?)```", text, re.DOTALL)[1]))


def of_another_world(some: Sequence[scenes.Scene], size: tuple[int, int] = (240, 160)) -> Figure:
    """Scenes of another world in pictures of another shape, with their masks below."""
    pictures = render(some, size)
    masks = [SHADES[annotations.trace(scene, *size).ids + 1] for scene in some]
    figure, axes = plt.subplots(2, len(some), figsize=(2 * len(some), 2.75), layout="constrained")
    for axis, shown in zip(axes.flat, [*pictures, *masks], strict=True):
        axis.imshow(shown)
        axis.set_axis_off()
    return figure


def beside_cycles(found: Mapping[str, np.ndarray], number: int = 6) -> tuple[Figure, list[int]]:
    """`number` reference scenes from best to worst match of `fidelity.compare()`, by both renderers, with
    their difference; and the scenes' indices.
    """
    references, cycles, _ = fidelity.load_references()
    last = len(references) - 1
    order = np.argsort(-found["psnr"])[np.linspace(0, last, number).astype(int)].tolist()
    fast = render([references[i] for i in order], 128)
    difference = fast.astype(float) - cycles[order]
    amplified = np.clip(127.5 + AMPLIFICATION * difference, 0, 255).astype(np.uint8)
    decibels = [f"PSNR {found['psnr'][i]:.1f} dB" for i in order]
    rows = [group.transpose(0, 3, 1, 2) for group in (fast, cycles[order], amplified)]
    words = ["fast", "Cycles", f"difference × {AMPLIFICATION}"]
    return plotting.image_grid(rows, words, decibels, cell=1.3), order


def speed(some: Sequence[scenes.Scene]) -> dict[int, float]:
    """{side in pixels: images per second of processor time} on one core, with 2x2 samples a pixel."""
    found = {}
    for side, number in ((32, 128), (64, 48), (128, 16)):
        start = time.process_time()
        render(some[:number], side, antialias=2)
        found[side] = number / (time.process_time() - start)
    return found


def fig09(some: Sequence[scenes.Scene], seed: int) -> tuple[Figure, dict[str, list[float]]]:
    """Fig. 9: scenes of three objects, their grids of all labels and of one; and how many labels each policy
    gives each of them.
    """
    locations = torch.from_numpy(np.stack([scenes.project(scene) for scene in some])).float()
    present, generator = (
        torch.ones(locations.shape[:2], dtype=torch.bool),
        torch.Generator().manual_seed(seed),
    )
    grids = {}
    for policy in labels.LABEL_POLICIES:
        labeled = conditions.choose_labels(present, policy, generator)
        grids[policy] = conditions.location_grid(locations, labeled).reshape(-1, 16, 16)
    rows = [render(some, 128).transpose(0, 3, 1, 2), 2 * grids["all"] - 1, 2 * grids["single"] - 1]
    centers = [plotting.in_pixels(row, 128) for row in locations]
    nothing: list[list] = [[] for _ in some]
    words = ["scene", "all labels\n(Exp. 1)", "single label\n(Exp. 2, 3)"]
    figure = plotting.image_grid(rows, words, cell=1.2, marks=[centers, nothing, nothing])
    return figure, {policy: grid.sum((1, 2)).tolist() for policy, grid in grids.items()}


def share_of_centers(seed: int, per_count: int) -> Float[Tensor, "16 16"]:
    """Share of object centers in each cell, over `per_count` scenes each of one, two and three objects."""
    counts = torch.zeros(conditions.GRID_SIZE**2)
    for n in (1, 2, 3):
        some = [scenes.sample_scene(seed, i, n) for i in range(per_count)]
        where = torch.from_numpy(np.stack([scenes.project(scene) for scene in some])).float()
        counts += conditions.location_grid(where, torch.ones(where.shape[:2], dtype=torch.bool)).sum(0)
    return (counts / counts.sum()).reshape(conditions.GRID_SIZE, conditions.GRID_SIZE)


def plot_centers(share: Float[Tensor, "16 16"]) -> Figure:
    """A map of where object centers are, with the paper's 12 test locations."""
    figure, axes = plt.subplots(figsize=(4.2, 3.6))
    picture = axes.imshow(100 * share, cmap="cividis", extent=(0, 1, 1, 0))
    frame = {"boxstyle": "circle,pad=0.15", "fc": "black", "ec": "white", "lw": 0.6}
    style = {"ha": "center", "va": "center", "color": "white", "fontsize": 7, "fontweight": "bold"}
    for k, (x, y) in enumerate(conditions.TEST_LOCATIONS):
        axes.text(x, y, str(k + 1), bbox=frame, **style)
    axes.set(xlabel="x (right)", ylabel="y (down)", title="object centers and the 12 test locations")
    axes.grid(False)
    figure.colorbar(picture, label="% of centers per cell", fraction=0.046, pad=0.03)
    return figure
