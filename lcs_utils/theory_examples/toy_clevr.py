"""Exps. 1-3 with exact scores: the toy CLEVR of `theory.blobs`, sampled and inspected (notebook 02c).

A model of one label never saw two. The paper names two strategies for several (section 2): draw an object at
"any" labeled location, or at "every" one. Both fit all that training shows (App. E.1's Exp. 2); only the
second composes.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import torch
from jaxtyping import Float
from matplotlib import pyplot as plt
from matplotlib.figure import Figure
from torch import Tensor

from lcs_utils import diffusion, locality, plotting
from lcs_utils.clevr import conditions
from lcs_utils.diffusion import Denoiser
from lcs_utils.theory import blobs

SCENE = blobs.Blobs(cell=4)  # the paper's 16 x 16 grid, for Figs. 1 and 2
SMALL = blobs.Blobs(grid_size=8)  # for the sweep over radii and the whole Jacobian
SPOTS = [8 * row + column for row in (0, 3, 6) for column in (0, 3, 6)]  # nine labels of SMALL, 3 cells apart
EXP_1, ANY, EVERY, LOCAL = "Exp. 1: all labels", "Exp. 2: 'any'", "Exp. 2: 'every'", "Exp. 3: local"
STEPS = 12  # of DPM-Solver++(2M)
MIDDLE = 7 * 16 + 7  # the cell of the test location at 0.45, 0.45
CROP = slice(12, 48)  # the pixels around the nine labels
DECADES = 3  # of influence that are drawn


def models(scene: blobs.Blobs) -> dict[str, Denoiser]:
    """Exact denoisers of the experiments: all labels, one label by two strategies, one label and local."""
    return {
        EXP_1: blobs.denoiser(scene),
        ANY: blobs.denoiser(scene, "one"),
        EVERY: blobs.denoiser(scene, "one", strategy="every"),
        LOCAL: blobs.denoiser(scene, "one", radius=1),
    }


class Samples(NamedTuple):
    """One picture per model and number of labels, from the same noise, and the objects found in it."""

    asked: list[int]
    pictures: dict[str, list[Float[Tensor, "3 64 64"]]]
    objects: dict[str, list[int]]


def sample(asked: Sequence[int], seed: int) -> Samples:
    """Fig. 1 in the toy: every model at each number of the paper's test locations (App. E.1)."""
    generator = torch.Generator().manual_seed(seed)
    noise = torch.randn(1, 3, SCENE.resolution, SCENE.resolution, generator=generator, dtype=torch.float64)
    steps, pictures = diffusion.karras_sigmas(STEPS), {}
    for name, denoise in models(SCENE).items():
        grids = [conditions.test_condition(k) for k in asked]
        drawn = [diffusion.sample(denoise, noise, steps, grid, "dpmpp_2m") for grid in grids]
        pictures[name] = [diffusion.final(path)[0] for path in drawn]
    objects = {name: SCENE.occupied(torch.stack(row)).sum(1).tolist() for name, row in pictures.items()}
    return Samples(list(asked), pictures, objects)


def plot_samples(found: Samples) -> Figure:
    """A row per model and a column per number of labels; rings mark the labels."""
    centers = [(4 * int(16 * x) + 1.5, 4 * int(16 * y) + 1.5) for x, y in conditions.TEST_LOCATIONS]
    rings = [centers[:k] for k in found.asked]
    titles = [f"{k} label{'s' * (k > 1)}" for k in found.asked]
    names = [name.replace(": ", ":\n") for name in found.pictures]
    rows = list(found.pictures.values())
    key = "ring: label asked for"
    return plotting.image_grid(rows, names, titles, key, cell=1.5, marks=[rings] * len(rows), rings=True)


class Sweep(NamedTuple):
    """Objects at nine labels by the radius of a one-label model, and a scene that radius 0 drew."""

    placed: dict[int, float]
    scene: Float[Tensor, "3 16 16"]


def sweep(radii: Sequence[int], seed: int, samples: int = 6) -> Sweep:
    """Objects at nine labels three cells apart, from one-label models of strategy "any", by their radius.

    Radius 0 is each cell alone, the largest radius the whole image, which is Exp. 2.
    """
    generator = torch.Generator().manual_seed(seed)
    start = torch.randn(samples, 3, 16, 16, generator=generator, dtype=torch.float64)
    nine, steps, placed, first = _nine(), diffusion.karras_sigmas(STEPS), {}, None
    for radius in radii:
        denoise = blobs.denoiser(SMALL, "one", radius)
        drawn = diffusion.final(diffusion.sample(denoise, start, steps, nine, "dpmpp_2m"))
        placed[radius] = float(SMALL.occupied(drawn)[:, SPOTS].sum(1).double().mean())
        first = drawn[0] if first is None else first
    return Sweep(placed, first)


def plot_sweep(placed: Mapping[int, float]) -> Figure:
    """Objects at the nine labels against the radius; from radius 3 on a label's window holds other labels."""
    figure, axis = plt.subplots(figsize=(5.6, 3))
    axis.axvspan(2.5, 7.3, color="0.93", lw=0)
    axis.plot(list(placed), list(placed.values()), "o-", color=plotting.PALETTE["green"])
    axis.text(4.9, 8.6, "a label's window holds others", ha="center")
    axis.text(1.25, 6.9, "its own\nalone", ha="center")
    axis.annotate(
        "Exp. 2", (max(placed), placed[max(placed)]), (4, 8), textcoords="offset points", ha="right"
    )
    axis.set(xlabel="radius of the window (cells)", ylabel="objects at nine labels", ylim=(0, 9.6))
    axis.set(xlim=(-0.3, 7.3), xticks=list(placed))
    return figure


def _nine() -> Float[Tensor, "64"]:
    return torch.zeros(SMALL.cells).scatter_(0, torch.tensor(SPOTS), 1.0)


class Influence(NamedTuple):
    """One model at one noise level: eq. (9) at the middle label, eq. (10) of the middle label.

    `far` is each map's share outside the label's own cell (0 for a map of zeros), `strength` the sum of the
    second map.
    """

    pixels: Float[Tensor, "64 64"]
    condition: Float[Tensor, "64 64"]
    far: tuple[float, float]
    strength: float


def influences(scene: Tensor, sigmas: Sequence[float], seed: int) -> dict[str, dict[float, Influence]]:
    """Fig. 2 from exact scores: where the denoiser looks at the middle of nine labels, and where that
    label acts, by model and noise level; noise is added to the image `scene` [3 64 64].
    """
    generator = torch.Generator().manual_seed(seed)
    eps = torch.randn(scene.shape, generator=generator, dtype=torch.float64)
    nine = conditions.test_condition(9)
    without = nine.clone()
    without[MIDDLE] = 0
    own, found = (slice(28, 32), slice(28, 32)), {}
    for name, denoise in models(SCENE).items():
        found[name] = {}
        for sigma in sigmas:
            x_t = scene + sigma * eps
            looks = locality.pixel_influence(denoise, x_t, sigma, nine, [(30, 30)])[0]
            acts = locality.condition_influence(denoise, x_t, sigma, nine, {MIDDLE: without})[0]
            outside = [one.sum() - one[own].sum() for one in (looks, acts)]
            far = [float(part / one.sum()) if one.any() else 0.0 for part, one in zip(outside, (looks, acts))]
            found[name][sigma] = Influence(looks, acts, (far[0], far[1]), float(acts.sum()))
    return found


def plot_influences(found: Mapping[str, Mapping[float, Influence]]) -> Figure:
    """A column per model: pixels at high noise, the label's reach at high and at low noise, near the labels.
    Log scale over three decades below the largest drawn influence of that model and kind.
    """
    low, high = min(next(iter(found.values()))), max(next(iter(found.values())))
    rows = (("pixels", high), ("condition", high), ("condition", low))
    figure, axes = plt.subplots(len(rows), len(found), figsize=(8.4, 5.6))
    for j, (name, levels) in enumerate(found.items()):
        axes[0, j].set_title(name, fontsize=10)
        for i, (kind, sigma) in enumerate(rows):
            drawn = [getattr(levels[at], kind) for what, at in rows if what == kind]
            top = max(one.max() for one in drawn)
            share = (getattr(levels[sigma], kind)[CROP, CROP] / top).clamp_min(1e-9).log10()
            shown = axes[i, j].imshow(share, vmin=-DECADES, vmax=0, cmap="magma")
            middle = 29.5 - CROP.start
            axes[i, j].plot(middle, middle, "s", mfc="none", color="cyan", ms=17, mew=1)
            axes[i, j].set(xticks=[], yticks=[])
            axes[i, j].grid(False)
    for axis, (kind, sigma) in zip(axes[:, 0], rows, strict=True):
        what = "looks at,\neq. (9)" if kind == "pixels" else "label acts,\neq. (10)"
        axis.set_ylabel(f"{what}\nσ = {sigma:g}")
    figure.colorbar(shown, ax=axes, label="log10(influence / the largest)", shrink=0.6, pad=0.01)
    return figure


def without_labels(sigmas: Sequence[float], seed: int, scenes: int = 8) -> list[float]:
    """What a score without conditions, L_i = {} (Def. 1), misses of Exp. 1's by noise level.

    On scenes with their own labels J: E ||D(x_t) - D(x_t; J)||^2 as a share of the objects' energy,
    E ||D(x_t; J) - ground||^2. D(x_t) is the exact unconditional denoiser, which sees the image alone.
    """
    generator = torch.Generator().manual_seed(seed)
    x0, labels = SCENE.scenes(scenes, generator)
    eps = torch.randn(x0.shape, generator=generator, dtype=torch.float64)
    told, alone, shares = blobs.denoiser(SCENE), blobs.denoiser(SCENE, "one"), []
    ground = blobs.GROUND / 127.5 - 1
    for sigma in sigmas:
        x_t, level = x0 + sigma * eps, torch.full((scenes,), sigma, dtype=torch.float64)
        given = told(x_t, level, labels)
        missed = (alone(x_t, level, torch.zeros(SCENE.cells)) - given).square().sum()
        shares.append(float(missed / (given - ground).square().sum()))
    return shares


class Elsewhere(NamedTuple):
    """Share of a cell's influence from other cells: most at labeled, least and most at unlabeled cells."""

    labeled: float
    least: float
    most: float


class Jacobians(NamedTuple):
    """The whole Jacobian of each model, cell by cell, labeled cells first; each row as shares of its sum."""

    sigma: float
    shares: dict[str, Float[Tensor, "cells cells"]]
    elsewhere: dict[str, dict[float, Elsewhere]]


def jacobians(scene: Tensor, sigmas: Sequence[float], shown: float, seed: int) -> Jacobians:
    """Eq. (9) of all cells with respect to all cells on the smaller grid, at each noise level.

    `scene` is [3 16 16], `shown` the level of `sigmas` whose matrices are kept.
    """
    generator = torch.Generator().manual_seed(seed)
    eps = torch.randn(scene.shape, generator=generator, dtype=torch.float64)
    targets = [(2 * row, 2 * column) for row in range(8) for column in range(8)]
    nine = _nine()
    unlabeled = (nine == 0).nonzero().flatten().tolist()
    shares, elsewhere = {}, {}
    for name, denoise in models(SMALL).items():
        elsewhere[name] = {}
        for sigma in sigmas:
            maps = locality.pixel_influence(denoise, scene + sigma * eps, sigma, nine, targets)
            cells = maps.reshape(64, 8, 2, 8, 2).sum((2, 4)).flatten(1)
            share = cells / cells.sum(1, keepdim=True)
            away = 1 - share.diagonal()
            elsewhere[name][sigma] = Elsewhere(
                float(away[SPOTS].max()), float(away[unlabeled].min()), float(away[unlabeled].max())
            )
            if sigma == shown:
                order = torch.tensor(SPOTS + unlabeled)
                shares[name] = share[order][:, order]
    return Jacobians(shown, shares, elsewhere)


def plot_jacobians(found: Jacobians) -> Figure:
    """The Jacobians side by side; rows above the line are labeled cells."""
    figure, axes = plt.subplots(1, len(found.shares), figsize=(8.4, 2.7))
    for axis, (name, share) in zip(axes, found.shares.items()):
        shown = axis.imshow(share.clamp_min(1e-9).log10(), vmin=-DECADES, vmax=0, cmap="magma")
        axis.axhline(8.5, color="cyan", lw=1.2)
        axis.set(xlabel="cell v", xticks=[], yticks=[])
        axis.set_title(name, fontsize=10)
        axis.grid(False)
    axes[0].set_ylabel("cell u (top: labeled)")
    figure.colorbar(shown, ax=axes, label="log10 share of the row", shrink=0.9, pad=0.01)
    return figure
