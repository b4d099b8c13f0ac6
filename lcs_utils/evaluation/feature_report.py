"""What the rows of `net_features` say: tables, F7's scatter against K, and the figures of section 4 with
their controls.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float
from matplotlib import pyplot as plt
from matplotlib.figure import Figure
from torch import Tensor

from lcs_utils.evaluation.locality_rates import rank_correlation
from lcs_utils.evaluation.feature_nets import UNTRAINED
from lcs_utils.evaluation.net_features import FeatureRow
from lcs_utils.features.capture import Space
from lcs_utils.features.contexts import FITTED, PERMUTED, RANDOM, Sums
from lcs_utils.features.measures import cosine_matrices
from lcs_utils.plotting import COLORS

PARTS = ("encoder", "decoder", "denoiser")
RESAMPLES = 2000
CONTROL_WORDS = {PERMUTED: "labels permuted", RANDOM: "random vectors"}


class Correlation(NamedTuple):
    """Spearman's rank correlation over `nets` nets and its 95 % bootstrap interval, nets drawn with
    replacement.
    """

    value: float
    low: float
    high: float
    nets: int


def pick(
    rows: Iterable[FeatureRow], net: str, measure: str, k: int, part: str = "denoiser", control: str = "", reading: str = "flat",
    sigma: float = 2.0, inputs: str = "noise",
) -> FeatureRow:  # fmt: skip
    """One net's row, or the mean of its values and interval ends over the layers of a part ("encoder",
    "decoder").

    Raises ValueError, with the command, where there is none.
    """
    wanted = (net, measure, k, control, reading, sigma, inputs)
    key = lambda r: (r.net, r.measure, r.k, r.control, r.reading, r.sigma, r.inputs)
    mine = [row for row in rows if key(row) == wanted and row.layer.split(".")[0] == part]
    if not mine:
        what = f"{measure} of {net}, {part}, K = {k}, sigma = {sigma:g}, {inputs}"
        raise ValueError(f"no rows for {what}: python -m lcs_utils.evaluation.net_features {net}")
    value, low, high = np.array([row[-3:] for row in mine], float).mean(0).tolist()
    return mine[0]._replace(layer=part, value=value, low=low, high=high)


def relative_effect(rows: Sequence[FeatureRow], net: str, reference: str, k: int, **which) -> float:
    """|D(C) - D({})| relative to that of a net that composes: a net that hardly hears its conditions is
    additive too.
    """
    return pick(rows, net, "effect", k, **which).value / pick(rows, reference, "effect", k, **which).value


def against_k(values: Mapping[str, float], k: Mapping[str, float], seed: int = 0) -> Correlation:
    """F7: does a measure of the nets rank them as K does, or conditions obeyed? Untrained nets are points,
    and not in the correlation.

    Raises ValueError naming a net without a K, and as `rank_correlation`.
    """
    nets = [net for net in values if not net.startswith(UNTRAINED)]
    missing = [net for net in nets if net not in k]
    if missing:
        raise ValueError(f"{', '.join(missing)} {'has' if len(missing) == 1 else 'have'} no K")
    a, b = np.array([values[net] for net in nets]), np.array([k[net] for net in nets])
    rng, draws = np.random.default_rng(seed), []
    for _ in range(RESAMPLES):
        which = rng.integers(len(nets), size=len(nets))
        if len(set(a[which])) > 1 and len(set(b[which])) > 1:
            draws.append(rank_correlation(a[which].tolist(), b[which].tolist()))
    value = rank_correlation(a.tolist(), b.tolist())
    low, high = np.quantile(draws, [0.025, 0.975])
    return Correlation(*(round(float(v), 3) for v in (value, low, high)), len(nets))


def draw_against_k(
    values: Mapping[str, float], k: Mapping[str, float], found: Correlation, words: str
) -> Figure:
    """F7 as a picture: one labeled point a net, untrained nets hollow."""
    figure, axes = plt.subplots(figsize=(4.6, 3.4))
    for net, value in values.items():
        untrained = net.startswith(UNTRAINED)
        style = {"mfc": "none"} if untrained else {}
        axes.plot(value, k.get(net, 0), "o", color=COLORS["black"] if untrained else COLORS["blue"], **style)
        axes.annotate(net, (value, k.get(net, 0)), xytext=(5, 3), textcoords="offset points", fontsize=8)
    title = f"Spearman {found.value:.2f} [{found.low:.2f}, {found.high:.2f}], {found.nets} trained nets"
    axes.set(xlabel=words, ylabel="K", title=title)
    axes.margins(x=0.2, y=0.15)
    return figure


def matrix(sums: Sums, kind: int = FITTED) -> Float[Tensor, "n n"]:
    """Eq. (3)'s cosines of one layer (Fig. 5), from disjoint halves."""
    weights = torch.full((1, len(sums.projected)), 1 / len(sums.projected), dtype=torch.float64)
    return cosine_matrices(sums, weights, kind)[0]


def draw_cosines(
    nets: Mapping[str, Mapping[Space, Sums]], layers: Mapping[str, Sequence[Space]], conditions: Sequence[str]
) -> Figure:
    """Figs. 5, 11: matrices of cosines, a row per net and a column per group of layers, whose matrices are
    averaged; controls on the right.

    `layers` are {column's caption: its spaces}.
    Choice: matrices are averaged, not vectors; diagonals are gray. The controls, labels permuted and random
    vectors, are those of the last column. Above each stands the mean off-diagonal of the matrix shown, signed and
    absolute (averaging matrices makes the latter smaller).
    """
    columns = [*layers, *CONTROL_WORDS.values()]
    size = 1.45
    figure, axes = plt.subplots(
        len(nets),
        len(columns),
        figsize=(size * len(columns) + 1.6, (size + 0.22) * len(nets) + 0.55),
        squeeze=False,
    )
    for i, (net, of) in enumerate(nets.items()):
        shown = [torch.stack([matrix(of[space]) for space in spaces]).mean(0) for spaces in layers.values()]
        last = list(layers.values())[-1]
        shown += [torch.stack([matrix(of[space], kind) for space in last]).mean(0) for kind in CONTROL_WORDS]
        for j, cosines in enumerate(shown):
            panel, n = axes[i, j], len(cosines)
            off = ~torch.eye(n, dtype=torch.bool)
            image = panel.imshow(cosines.masked_fill(~off, torch.nan), cmap="PuOr", vmin=-1, vmax=1)
            panel.set_facecolor("0.75")
            panel.grid(False)
            panel.set(xticks=[], yticks=[])
            heading = f"{columns[j]}\n" if i == 0 else ""
            panel.set_title(
                f"{heading}{float(cosines[off].mean()):+.2f}, absolute {float(cosines[off].abs().mean()):.2f}",
                fontsize=8,
                pad=3,
            )
        axes[i, 0].set_yticks(range(len(conditions)), conditions, fontsize=6)
        axes[i, 0].set_ylabel(net, fontsize=9)
    figure.colorbar(image, ax=axes, shrink=0.6, label="cosine, eq. (3)", pad=0.02)
    return figure


class Curve(NamedTuple):
    """One net of the additivity figure: its rows' name, its label and color, and the K that it was trained up
    to (None: untrained).
    """

    net: str
    label: str
    color: str
    trained: int | None


def draw_additivity(
    rows: Sequence[FeatureRow],
    curves: Sequence[Curve],
    ks: Sequence[int],
    sigma: float = 2.0,
    inputs: str = "noise",
) -> Figure:
    """F2 against K: encoder layers, decoder layers and the denoiser, then the size of the effect; the trained
    K is marked on each curve.

    Choice: additivity is shown from -1 up; what lies below is written at the edge.
    """
    floor, written = -1.0, {}
    figure, axes = plt.subplots(1, 4, figsize=(11.5, 3.3), sharex=True)
    for curve in curves:
        for panel, (part, measure) in zip(
            axes, [*((part, "additivity") for part in PARTS), ("denoiser", "effect")], strict=True
        ):
            found = [pick(rows, curve.net, measure, k, part, sigma=sigma, inputs=inputs) for k in ks]
            value, low, high = np.array([row[-3:] for row in found]).T
            bottom = floor if measure == "additivity" else 0
            panel.plot(
                ks, value.clip(bottom), color=curve.color, ls="-" if curve.trained else ":", label=curve.label
            )
            panel.fill_between(ks, low.clip(bottom), high.clip(bottom), color=curve.color, alpha=0.2, lw=0)
            below = [(k, v) for k, v in zip(ks, value) if v < bottom]
            (edge,) = panel.plot(
                [k for k, _ in below], [bottom] * len(below), "v", color=curve.color, ms=5, clip_on=False
            )
            edge.set_in_layout(False)
            if below:
                k, v = below[-1]
                lift = 0.05 + 0.14 * written.setdefault(part, 0)
                written[part] += 1
                said = panel.text(ks[0], bottom + lift, f"{v:.1f} at {k}", fontsize=8, color=curve.color)
                said.set_in_layout(False)
            if curve.trained in ks:
                at = list(ks).index(curve.trained)
                panel.plot(
                    ks[at], max(value[at], bottom), "o", color=curve.color, mec="black", ms=7, zorder=5
                )
    for panel, part in zip(axes, PARTS):
        panel.axhline(1, color="0.5", lw=1)
        panel.axhline(0, color="0.8", lw=1)
        panel.set(ylim=(floor, 1.08), title="denoiser D" if part == "denoiser" else f"{part} layers, mean")
    axes[0].set_ylabel("additivity $R^2(K)$")
    axes[3].set(title="size of the effect in D", ylabel="rms of D(C) − D({})", ylim=(0, None))
    for panel in axes:
        panel.set(xlabel="K conditions", xticks=list(ks))
    figure.legend(
        *axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=len(curves), fontsize=9
    )
    return figure
