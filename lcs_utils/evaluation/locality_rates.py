"""What the rows of `net_locality` say: locality against noise, against K, along training, beside a Gaussian in closed form."""

import math
from collections.abc import Iterable, Sequence
from itertools import cycle
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float
from matplotlib import pyplot as plt
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from torch import Tensor

from lcs_utils import locality
from lcs_utils.clevr.conditions import GRID_SIZE, test_condition
from lcs_utils.clevr.render import render
from lcs_utils.clevr.scenes import sample_scene
from lcs_utils.diffusion import from_uint8
from lcs_utils.evaluation.net_locality import IMAGES, SIGMAS, K, LocalityRow, current, read
from lcs_utils.evaluation.obeyed import conditions_obeyed
from lcs_utils.evaluation.rates import PAPER_RULE_ALL, Interval, Rule, interval, largest_k, mean_over, stages, trained
from lcs_utils.evaluation.rows import Row
from lcs_utils.plotting import COLORS, EXPERIMENT_COLORS
from lcs_utils.theory.distributions import GaussianMixture, gaussian

FILLED = "K, 3/4 of the cells filled"  # `filled_k`
HIGH = 1.0  # Choice: "high noise" is sigma >= 1, six times the standard deviation of the images and more
COLOR_OF = {  # what a point's color says: which labels, and whether the net is local
    "Exp. 1: all labels": EXPERIMENT_COLORS["exp1"], "random number of labels": COLORS["purple"], "one label dropped": COLORS["orange"],
    "Exp. 2: one label": EXPERIMENT_COLORS["exp2"], "Exp. 3: one label, local net": EXPERIMENT_COLORS["exp3"],
}  # fmt: skip
MARKER_OF = {  # and its marker: what else differs from the nets of Fig. 1
    "1-3 objects": "o", "the same, other seeds": "d", "the same, labels of one size": "P", "1 object": "s", "1-2 objects": "<",
    "1-4 objects": "v", "1-5 objects": "X", "1-6 objects": ">", "1-6 objects, longer": "^",
}  # fmt: skip


def gaussian_twin(images: Float[Tensor, "count height width"], floor: float = 0.01) -> tuple[GaussianMixture, float]:
    """A Gaussian field like these images, and its correlation length in pixels: how far a linear denoiser looks.

    Mean, variance and the correlation of neighboring pixels are the images'; correlations fall as exp(-distance / length).
    Choice: gray images, and pixel noise of standard deviation `floor` on top. The images' full covariance, estimated from
    a few hundred of them, would see distant pixels by chance.
    """
    x = images.double() - images.double().mean(0)
    variance = float(x.square().mean())
    neighbors = float(((x[:, 1:] * x[:, :-1]).mean() + (x[:, :, 1:] * x[:, :, :-1]).mean()) / 2)
    length = -1 / math.log(neighbors / variance)
    height, width = x.shape[1:]
    at = torch.cartesian_prod(torch.arange(height), torch.arange(width)).double()
    cov = variance * torch.exp(-torch.cdist(at, at) / length) + floor**2 * torch.eye(height * width, dtype=torch.float64)
    return gaussian(images.double().mean(0).flatten(), cov), length


def training_like(count: int, resolution: int = 32, seed: int = 1) -> Float[Tensor, "count height width"]:
    """Gray images in [-1, 1] of scenes of 1-3 objects, as the nets were trained on, for `gaussian_twin`."""
    shown = render([sample_scene(seed, i, 1 + i % 3, visibility=False) for i in range(count)], resolution)
    return from_uint8(shown).mean(-1)


def against_noise(rows: Sequence[LocalityRow], field: str) -> dict[float, Interval]:
    """{sigma: mean over images of `field`, with its bootstrap interval} (Fig. 10 as a curve)."""
    values = {s: np.array([getattr(r, field) for r in rows if r.sigma == s]) for s in sorted({r.sigma for r in rows})}
    return {sigma: interval(v) for sigma, v in values.items()}


def at_high_noise(rows: Sequence[LocalityRow], field: str = "within_2") -> Interval:
    """Mean of `field` over sigma >= HIGH and over images, with its bootstrap interval over images."""
    images = sorted({r.image for r in rows})
    return interval(np.array([np.mean([getattr(r, field) for r in rows if r.image == i and r.sigma >= HIGH]) for i in images]))


def along_training(rows: Sequence[LocalityRow], net: str, field: str = "within_2") -> dict[int, Interval]:
    """{training images: `at_high_noise`} of the snapshots of `net` that were measured, and of the finished net."""
    measured = {n: [row for row in rows if row.net == stage] for n, stage in stages(rows, net).items()}
    return {n: at_high_noise(found, field) for n, found in measured.items() if len(found) >= IMAGES * len(SIGMAS)}


def filled_k(rows: Iterable[Row], net: str, share: float = 0.75) -> int:
    """The largest K with at least `share` of the conditioned cells filled, on average, at every k = 1..K (App. E.2).

    Choice: extras and looks do not count, so that it measures placing what was asked for and nothing else.
    """
    filled = Rule(lambda row, _: row.placed / row.k, None, share - 1e-9, "cells filled")
    return largest_k(rows, net, filled).value


def rank_correlation(a: Sequence[float], b: Sequence[float]) -> float:
    """Spearman's rank correlation in [-1, 1], ties at their mean rank. Raises ValueError unless both vary over >= 3 points."""
    if len(a) != len(b) or len(a) < 3 or len(set(a)) < 2 or len(set(b)) < 2:
        raise ValueError(f"a rank correlation needs two varying lists of 3 or more, got {list(a)} and {list(b)}")
    ranks = lambda v: [np.mean([i for i, other in enumerate(sorted(v)) if other == value]) for value in v]
    return float(np.corrcoef(ranks(a), ranks(b))[0, 1])


def chance_locality(radius: int | None, reach: int = 2, k: int = K, grid_size: int = GRID_SIZE) -> float:
    """Conditional locality of a net that hears all conditions within `radius` cells (None: all) alike: what its window alone gives."""
    cells = test_condition(k).nonzero()[:, 0]
    apart = (torch.arange(grid_size**2)[None] // grid_size - cells[:, None] // grid_size).abs()
    apart = torch.maximum(apart, (torch.arange(grid_size**2)[None] % grid_size - cells[:, None] % grid_size).abs())
    heard = (apart <= (grid_size if radius is None else radius)).double().reshape(-1, grid_size, grid_size)
    return locality.conditional_locality(heard, cells.tolist(), grid_size, reach)


class AgainstK(NamedTuple):
    """Of each net: conditional locality at high noise, that of its window alone, cells filled and conditions obeyed, K by rule.

    The share of cells filled and the number of conditions obeyed are means over K = 4 to 6.
    """

    locality: dict[str, Interval]
    chance: dict[str, float]
    filled: dict[str, Interval]
    obeyed: dict[str, float]
    k: dict[str, dict[str, int]]

    def rank_correlations(self) -> dict[str, float]:
        """Spearman's, of locality with the share of cells, conditions obeyed and K by each rule, over the nets that see the whole image.

        Of local nets most of the number is their window's (`chance`), so that they cannot be ranked among the others.
        """
        whole = [net for net in self.locality if trained(net).radius is None]
        shares_filled = {net: share.value for net, share in self.filled.items()}
        values = {"cells filled": shares_filled, "conditions obeyed": self.obeyed} | self.k
        shares = [self.locality[net].value for net in whole]
        return {rule: rank_correlation(shares, [of[net] for net in whole]) for rule, of in values.items()}


def against_k(counted: Sequence[Row], nets: Iterable[str], preset: str = "tiny") -> AgainstK:
    """The paper's thesis in numbers. Raises ValueError for a net whose locality was not measured with its present weights."""
    found = current(read(preset), list(nets), preset)
    rules = {
        FILLED: lambda net: filled_k(counted, net), "K, our rule": lambda net: largest_k(counted, net).value,
        "K, the paper's rule": lambda net: largest_k(counted, net, PAPER_RULE_ALL).value,
    }  # fmt: skip
    return AgainstK(
        {net: at_high_noise(rows) for net, rows in found.items()},
        {net: chance_locality(trained(net).radius) for net in found},
        {net: mean_over(counted, net, "filled", [4, 5, 6]) for net in found},
        {net: round(float(np.mean([conditions_obeyed(counted, net, k).obeyed.value for k in (4, 5, 6)])), 4) for net in found},
        {name: {net: rule(net) for net in found} for name, rule in rules.items()},
    )


def by_noise(counted: Sequence[Row], nets: Sequence[str], preset: str = "tiny") -> dict[float, float]:
    """{sigma: rank correlation over `nets` of conditional locality at that noise with the share of cells filled, K = 4 to 6}."""
    found, filled = current(read(preset), nets, preset), [mean_over(counted, net, "filled", [4, 5, 6]).value for net in nets]
    at = {net: against_noise(rows, "within_2") for net, rows in found.items()}
    return {sigma: rank_correlation([at[net][sigma].value for net in nets], filled) for sigma in SIGMAS}


def point_style(net: str) -> tuple[str, str]:
    """What color and marker of a net's point say: keys of COLOR_OF and MARKER_OF. Raises ValueError for an unknown net."""
    exp = trained(net)
    colors = dict(zip(("all", "random", "drop_one", "single"), COLOR_OF))
    marker = "1 object" if exp.objects == (1, 1) else "{}-{} objects".format(*exp.objects)
    marker += ", longer" if exp.times > 1 else ""
    for differs, words in (("_seed" in net, "other seeds"), (exp.normalize_label, "labels of one size")):
        marker = f"the same, {words}" if differs else marker
    return "Exp. 3: one label, local net" if exp.radius is not None else colors[exp.labels], marker


def draw_against_noise(
    curves: dict[str, dict[str, dict[float, Interval]]], labels: dict[str, str], references: dict[str, Sequence[float]] | None = None
) -> Figure:
    """Side of the 90 % square (of energy) and conditional locality against noise (Figs. 2, 10), `curves` {net: {field: against_noise}}.

    `references` are sides of the square in closed form, at SIGMAS.
    """
    figure, panels = plt.subplots(1, 2, figsize=(9.5, 3.4))
    for axes, field in zip(panels, ("window", "within_2"), strict=True):
        for net, fields in curves.items():
            style = {"color": EXPERIMENT_COLORS.get(net[:4], COLORS["purple"]), "ls": "--" if "_" in net else "-"}
            sigmas, values = list(fields[field]), list(fields[field].values())
            axes.plot(sigmas, [v.value for v in values], label=labels[net], **style)
            axes.fill_between(sigmas, [v.low for v in values], [v.high for v in values], color=style["color"], alpha=0.2, lw=0)
    for (label, sides), ls in zip((references or {}).items(), cycle(("-", ":", "-."))):
        panels[0].plot(SIGMAS, sides, color="black", ls=ls, lw=1.2, label=label)
    panels[0].set(xscale="log", xlabel="noise σ", ylabel="pixels", title="side of the 90 % square", ylim=(0, 28))
    panels[1].set(xscale="log", xlabel="noise σ", ylabel="share", title="condition influence from within 2 cells", ylim=(0, 1))
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside right center", fontsize=9)
    return figure


def draw_against_k(found: AgainstK) -> Figure:
    """K, and the share of cells filled, against conditional locality at high noise, one point per net (the paper's thesis)."""
    figure, (left, right) = plt.subplots(1, 2, figsize=(9.4, 3.9))
    arms = lambda i: [[i.value - i.low], [i.high - i.value]]
    styles = {net: point_style(net) for net in found.locality}
    for net, share in found.locality.items():
        color, marker = styles[net]
        style = {"color": COLOR_OF[color], "marker": MARKER_OF[marker], "ms": 8, "mec": "white", "mew": 0.6, "xerr": arms(share)}
        left.errorbar(share.value, found.k[FILLED][net], **style)
        right.errorbar(share.value, found.filled[net].value, yerr=arms(found.filled[net]), **style)
    for chance in sorted(set(found.chance.values())):
        words = "all conditions alike" if chance == chance_locality(None) else "the same in its window"
        for axes in (left, right):
            axes.axvline(chance, color="0.6", lw=1, ls="--")
        left.text(chance + 0.008, 12.8, words, rotation=90, va="top", fontsize=7, color="0.4")
    left.set(ylabel="K", ylim=(-0.6, 13), title="largest K with 3/4 of the cells filled")
    right.set(ylabel="share", ylim=(0, 1), title="cells filled, K = 4 to 6")
    figure.supxlabel("conditional locality at σ ≥ 1 (share from within 2 cells)", fontsize=10)
    used, shapes = zip(*styles.values())
    key = lambda label, **style: Line2D([], [], ls="none", ms=7, label=label, **style)
    lines = [key(words, color=color, marker="o") for words, color in COLOR_OF.items() if words in used]
    lines += [key(words, color="0.35", marker=marker) for words, marker in MARKER_OF.items() if words in shapes]
    figure.legend(handles=lines, loc="outside right center", fontsize=8)
    return figure


def draw_along_training(found: dict[str, dict[str, dict[int, Interval]]], labels: dict[str, str]) -> Figure:
    """One panel per number, one line per net against the training images it had seen; `found` is {net: {number: {images: ...}}}."""
    numbers = list(next(iter(found.values())))
    figure, panels = plt.subplots(1, len(numbers), figsize=(4.3 * len(numbers), 3.2), squeeze=False)
    for net, curves in found.items():
        for axes, name in zip(panels[0], numbers, strict=True):
            images, values = list(curves[name]), list(curves[name].values())
            axes.plot(images, [v.value for v in values], "o-", color=EXPERIMENT_COLORS[net[:4]], label=labels[net])
            low, high = [v.low for v in values], [v.high for v in values]
            axes.fill_between(images, low, high, color=EXPERIMENT_COLORS[net[:4]], alpha=0.2, lw=0)
            axes.set(xscale="log", xlabel="training images", ylabel="share", title=name, ylim=(0, 1))
    panels[0, 0].legend(loc="upper left")
    return figure
