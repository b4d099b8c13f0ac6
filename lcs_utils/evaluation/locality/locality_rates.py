"""Statistics of `net_locality` rows: locality against noise, K and training, and a closed-form Gaussian."""

import math
from collections.abc import Iterable, Sequence
from itertools import cycle
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float
from matplotlib import pyplot as plt
from matplotlib.figure import Figure
from torch import Tensor

from lcs_utils import locality, nets, presets
from lcs_utils.clevr.conditions import GRID_SIZE, test_condition
from lcs_utils.clevr.render import render
from lcs_utils.clevr.scenes import sample_scene
from lcs_utils.diffusion import from_uint8, loss_weight, score
from lcs_utils.evaluation.locality.net_locality import (
    IMAGES,
    SIGMAS,
    K,
    LocalityRow,
    cell_targets,
    current,
    read,
)
from lcs_utils.evaluation.rates import along_training as rates_along_training
from lcs_utils.evaluation.rates import mean_over
from lcs_utils.evaluation.rows import Row, preset_of
from lcs_utils.evaluation.rules import PAPER_RULE_ALL, Rule, largest_k
from lcs_utils.evaluation.sizes import SIZES
from lcs_utils.evaluation.wording import EARLIER
from lcs_utils.nets import trained
from lcs_utils.plotting import color_of
from lcs_utils.stats import Interval, interval, rank_correlation
from lcs_utils.theory.distributions import GaussianMixture, gaussian

FILLED = "K, 3/4 of the cells filled"  # `filled_k`
BEYOND = (4, 5, 6)  # K of "cells filled": beyond training for nets of up to three objects
HIGH = 1.0  # Choice: "high noise" is sigma >= 1, six times the standard deviation of the images and more


def gaussian_twin(
    images: Float[Tensor, "count height width"], floor: float = 0.01
) -> tuple[GaussianMixture, float]:
    """A Gaussian field fitted to the images, and its correlation length in pixels (how far a linear denoiser
    looks).

    Mean, variance and the correlation of neighboring pixels are the images'; correlations decay as
    exp(-distance / length).
    Choice: gray images, plus pixel noise of standard deviation `floor`. The images' full covariance,
    estimated from a few hundred of them, would correlate distant pixels by chance.
    """
    x = images.double() - images.double().mean(0)
    variance = float(x.square().mean())
    neighbors = float(((x[:, 1:] * x[:, :-1]).mean() + (x[:, :, 1:] * x[:, :, :-1]).mean()) / 2)
    length = -1 / math.log(neighbors / variance)
    height, width = x.shape[1:]
    at = torch.cartesian_prod(torch.arange(height), torch.arange(width)).double()
    cov = variance * torch.exp(-torch.cdist(at, at) / length) + floor**2 * torch.eye(
        height * width, dtype=torch.float64
    )
    return gaussian(images.double().mean(0).flatten(), cov), length


def training_like(count: int, resolution: int = 32, seed: int = 1) -> Float[Tensor, "count height width"]:
    """Gray images in [-1, 1] of scenes of 1-3 objects, like the training images, for `gaussian_twin`."""
    shown = render([sample_scene(seed, i, 1 + i % 3, visibility=False) for i in range(count)], resolution)
    return from_uint8(shown).mean(-1)


class GaussianSides(NamedTuple):
    """Mean sides (px) of the 90% square of a Gaussian field's denoiser and score at SIGMAS, and its
    correlation length (px).
    """

    denoiser: list[float]
    score: list[float]
    length: float


def gaussian_sides(images: Float[Tensor, "count height width"]) -> GaussianSides:
    """How far the closed-form denoiser and score of `gaussian_twin` look, from the cells of K locations."""
    twin, length = gaussian_twin(images)
    targets = cell_targets(locality.without_each(test_condition(K)), images.shape[-1])

    def sides(model):
        influence = (locality.pixel_influence(model, images[:1].double(), s, None, targets) for s in SIGMAS)
        return [float(locality.locality_window(of, targets).double().mean()) for of in influence]

    return GaussianSides(
        sides(twin.denoise), sides(lambda x, sigma, _: score(twin.denoise, x, sigma)), length
    )


def against_noise(rows: Sequence[LocalityRow], field: str) -> dict[float, Interval]:
    """{sigma: mean over images of `field`, with its bootstrap interval} (Fig. 10 as a curve)."""
    values = {
        s: np.array([getattr(r, field) for r in rows if r.sigma == s])
        for s in sorted({r.sigma for r in rows})
    }
    return {sigma: interval(v) for sigma, v in values.items()}


def at_high_noise(rows: Sequence[LocalityRow], field: str = "within_2") -> Interval:
    """Mean of `field` over sigma >= HIGH and over images, with its bootstrap interval over images."""
    images = sorted({r.image for r in rows})
    return interval(
        np.array(
            [np.mean([getattr(r, field) for r in rows if r.image == i and r.sigma >= HIGH]) for i in images]
        )
    )


def left_at(rows: Sequence[LocalityRow], sigma: float) -> Interval:
    """Condition influence at `sigma` as a share of that at the highest level, by image, with its interval."""
    of = {(r.image, r.sigma): r.response for r in rows}
    images = sorted({image for image, _ in of})
    return interval(np.array([of[image, sigma] / of[image, SIGMAS[-1]] for image in images]))


def left_alone(sigma: float, sigma_data: float) -> float:
    """The same if the raw network answered conditions alike at all levels: what its factor c_out leaves."""
    factors = loss_weight(torch.tensor([sigma, SIGMAS[-1]]), sigma_data).rsqrt()
    return float(factors[0] / factors[1])


def along_training(
    rows: Sequence[LocalityRow], net: str, field: str = "within_2", preset: str = "tiny"
) -> dict[int, Interval]:
    """{training images: `at_high_noise`} of the measured snapshots of `net` and of the finished net."""
    measured = {
        n: [row for row in rows if row.net == stage]
        for n, stage in nets.along({row.net for row in rows}, net, preset).items()
    }
    return {
        n: at_high_noise(found, field) for n, found in measured.items() if len(found) >= IMAGES * len(SIGMAS)
    }


def beside_composition(
    rows: Sequence[LocalityRow], counted: Sequence[Row], net: str
) -> dict[str, dict[int, Interval]]:
    """{quantity: {training images: mean}} along the training of `net`: conditional locality at high noise,
    and cells filled at K = 4 to 6.
    """
    filled = rates_along_training(counted, net, {"filled": [4, 5, 6]})
    return {
        "conditional locality at σ ≥ 1": along_training(rows, net, preset=preset_of(counted)),
        f"cells filled, K = 4 to 6 ({EARLIER})": {
            images: values["filled"] for images, values in filled.items()
        },
    }


def by_images(
    found: dict[str, dict[str, dict[int, Interval]]],
) -> dict[str, dict[int, dict[str, Interval]]]:
    """{net: {what: {images: mean}}} as {net: {images: {what: mean}}}, at images where all were measured."""
    turned = {}
    for net, of in found.items():
        common = [n for n in next(iter(of.values())) if all(n in curve for curve in of.values())]
        turned[net] = {n: {what: curve[n] for what, curve in of.items()} for n in common}
    return turned


def filled_k(rows: Iterable[Row], net: str, share: float = 0.75) -> int:
    """The largest K with at least `share` of the conditioned cells filled, on average, at every k = 1..K
    (App. E.2).

    Choice: extras and looks do not count, so this measures only whether requested objects are placed.
    """
    filled = Rule(lambda row, _: row.placed / row.k, None, share - 1e-9, "cells filled")
    return largest_k(rows, net, filled).value


def chance_locality(radius: int | None, reach: int = 2, k: int = K, grid_size: int = GRID_SIZE) -> float:
    """Conditional locality of a net that responds equally to all conditions within `radius` cells (None: to
    all): what its window alone gives.
    """
    cells = test_condition(k).nonzero()[:, 0]
    apart = (torch.arange(grid_size**2)[None] // grid_size - cells[:, None] // grid_size).abs()
    apart = torch.maximum(
        apart, (torch.arange(grid_size**2)[None] % grid_size - cells[:, None] % grid_size).abs()
    )
    heard = (apart <= (grid_size if radius is None else radius)).double().reshape(-1, grid_size, grid_size)
    return locality.conditional_locality(heard, cells.tolist(), grid_size, reach)


class AgainstK(NamedTuple):
    """Per net: conditional locality at high noise, that of its window alone (`chance`), cells filled (mean
    over K = 4 to 6), and K by rule.
    """

    locality: dict[str, Interval]
    chance: dict[str, float]
    filled: dict[str, Interval]
    k: dict[str, dict[str, int]]
    preset: str = "tiny"

    def numbers(self) -> dict:
        """All values as a dict, for the figure's JSON."""
        filled, local = ({net: list(i) for net, i in of.items()} for of in (self.filled, self.locality))
        return {"locality": local, "chance": self.chance, "filled": filled, "K": self.k}

    def rank_correlations(self) -> dict[str, float]:
        """Spearman correlations of locality with cells filled and with K by each rule, over nets that see the
        whole image.

        The locality of local nets is mostly that of their window (`chance`), so they cannot be ranked among
        the others. A rule that gives all nets the same K ranks nothing and is left out.
        """
        whole = [net for net in self.locality if trained(net, self.preset).radius is None]
        shares_filled = {net: share.value for net, share in self.filled.items()}
        values = {"cells filled": shares_filled} | self.k
        shares = [self.locality[net].value for net in whole]
        values = {rule: [of[net] for net in whole] for rule, of in values.items()}
        return {rule: rank_correlation(shares, of) for rule, of in values.items() if len(set(of)) > 1}


def against_k(counted: Sequence[Row], nets: Iterable[str], preset: str = "tiny") -> AgainstK:
    """Locality, cells filled and K of each net: the paper's thesis in numbers. Raises ValueError for a net
    whose locality was not measured with its present weights.
    """
    found = current(read(preset), list(nets), preset)
    rules = {
        FILLED: lambda net: filled_k(counted, net),
        "K, our rule": lambda net: largest_k(counted, net).value,
        "K, the paper's rule": lambda net: largest_k(counted, net, PAPER_RULE_ALL).value,
    }
    return AgainstK(
        {net: at_high_noise(rows) for net, rows in found.items()},
        {net: chance_locality(trained(net, preset).radius) for net in found},
        {net: mean_over(counted, net, "filled", BEYOND) for net in found},
        {name: {net: rule(net) for net in found} for name, rule in rules.items()},
        preset,
    )


def measured_nets(counted: Sequence[Row], preset: str = "tiny", whole: bool = True) -> list[str]:
    """The finished, unchanged nets with location labels that have both counts and locality rows; `whole`:
    only those that see the whole image.
    """
    counts, located = {row.net for row in counted if row.k == BEYOND[-1]}, {row.net for row in read(preset)}
    found = [nets.parse(name, preset) for name in sorted(counts & located)]
    told = [n for n in found if n.experiment.labels != "none" and n.experiment.condition == "location"]
    finished = [n for n in told if n.images is None and n.change is None]
    return [n.name for n in finished if not whole or n.experiment.radius is None]


def by_noise(counted: Sequence[Row], nets: Sequence[str], preset: str = "tiny") -> dict[float, float]:
    """{sigma: rank correlation over `nets` of conditional locality at that noise with cells filled, K = 4 to
    6}.
    """
    found, filled = (
        current(read(preset), nets, preset),
        [mean_over(counted, net, "filled", BEYOND).value for net in nets],
    )
    at = {net: against_noise(rows, "within_2") for net, rows in found.items()}
    return {sigma: rank_correlation([at[net][sigma].value for net in nets], filled) for sigma in SIGMAS}


def plot_against_noise(
    curves: dict[str, dict[str, dict[float, Interval]]],
    labels: dict[str, str],
    references: dict[str, Sequence[float]] | None = None,
    preset: str = "tiny",
) -> Figure:
    """Side of the 90% square (of energy) and conditional locality against noise (Figs. 2, 10).

    `curves` is {net: {field: against_noise}}, `references` {label: sides in closed form, at SIGMAS}. Dotted:
    a net that responds equally to all conditions, in the whole image or in its window.
    """
    figure, panels = plt.subplots(1, 2, figsize=(9.5, 3.4))
    for axes, field in zip(panels, ("window", "within_2"), strict=True):
        for net, fields in curves.items():
            style = {
                "color": color_of(net),
                "ls": "--" if "_" in net else "-",
            }
            sigmas, values = list(fields[field]), list(fields[field].values())
            axes.plot(sigmas, [v.value for v in values], label=labels[net], **style)
            axes.fill_between(
                sigmas,
                [v.low for v in values],
                [v.high for v in values],
                color=style["color"],
                alpha=0.2,
                lw=0,
            )
    for (label, sides), ls in zip((references or {}).items(), cycle(("-", ":", "-."))):
        panels[0].plot(SIGMAS, sides, color="black", ls=ls, lw=1.2, label=label)
    most = 0.875 * presets.preset(preset).resolution
    panels[0].set(
        xscale="log", xlabel="noise σ", ylabel="pixels", title="side of the 90% square", ylim=(0, most)
    )
    panels[1].set(
        xscale="log",
        xlabel="noise σ",
        ylabel="share",
        title="conditional locality (2 cells)",
        ylim=(0, 1),
    )
    for net in curves:
        chance = chance_locality(trained(net, preset).radius)
        panels[1].axhline(chance, color=color_of(net), lw=1, ls=(0, (2, 3)))
    panels[1].text(
        0.98, 0.02, "dotted: hears all alike", ha="right", transform=panels[1].transAxes, fontsize=9
    )
    title = SIZES.get(preset, preset)
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside right center", fontsize=9, title=title)
    return figure
