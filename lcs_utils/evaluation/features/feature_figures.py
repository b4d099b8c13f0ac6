"""Figures of feature space: matrices of cosines, additivity, own share, causes, and each measure against K
(section 4, Figs. 5, 11, App. E.4).
"""

import textwrap
from collections.abc import Mapping, Sequence

import numpy as np
import torch
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from lcs_utils.evaluation.features.feature_causal_report import CONTROLS, causes
from lcs_utils.evaluation.features.feature_labels import Curve
from lcs_utils.evaluation.features.feature_matrices import CosineRow
from lcs_utils.evaluation.features.feature_ranks import Correlation
from lcs_utils.evaluation.features.feature_report import (
    PARTS,
    Matrices,
    averaged,
    off_diagonal,
    pick,
)
from lcs_utils.evaluation.features.net_features import FeatureRow
from lcs_utils.evaluation.net_labels import UNTRAINED, hue, kind_label, label, marker, of_colors
from lcs_utils.evaluation.sizes import bare, size_of
from lcs_utils.plotting import GRAY, MARKERS, PALETTE
from lcs_utils.stats import say_interval


def _line(curve: Curve) -> dict[str, str]:
    """A curve's look: dotted if untrained, dashed with hollow diamonds if of one object; otherwise each color
    has a marker of its own.
    """
    if marker(curve.net) == "d":
        return {"color": curve.color, "ls": "--", "marker": "d", "mfc": "white"}
    mark = MARKERS.get(curve.color, "o")
    return {"color": curve.color, "ls": "-" if curve.trained else ":", "marker": mark}


def plot_cosines(
    rows: Sequence[CosineRow],
    nets: Mapping[str, str],
    layers: Sequence[Matrices],
    conditions: Mapping[str, Sequence[str]],
) -> Figure:
    """Figs. 5, 11: matrices of cosines, a column per net {name: label} and a row per layer or control.

    `conditions` {net: names of its conditions} stand above the first of the columns that share them. Beside
    each matrix is its mean off-diagonal, signed and absolute; diagonals are gray.
    """
    # in inches; up to nine nets, the figure is 8.5 wide, as others: on a page 6 points are left of 8
    beside, left, head, foot = 0.34, 0.72, 0.75, 0.75
    size = float(np.clip((8.5 - left) / len(nets) - beside, 0.4, 0.9))
    letters = int((size + beside) * 72 / 5)  # of 8 points above a column
    width, height = left + (size + beside) * len(nets), head + (size + 0.04) * len(layers) + foot
    figure = plt.figure(figsize=(width, height))
    figure.set_layout_engine("none")
    before: list[str] = []
    for j, (net, words) in enumerate(nets.items()):
        x = left + (size + beside) * j
        for i, layer in enumerate(layers):
            y = height - head - (size + 0.04) * i - size
            panel = figure.add_axes((x / width, y / height, size / width, size / height))
            cosines = averaged(rows, net, layer)
            hidden = torch.eye(len(cosines), dtype=torch.bool)
            shown = cosines.masked_fill(hidden, torch.nan).numpy()
            image = panel.imshow(shown, cmap="PuOr", vmin=-1, vmax=1)
            panel.set_facecolor("0.75")
            panel.grid(False)
            panel.set(xticks=[], yticks=[])
            signed, absolute = (round(mean, 2) + 0.0 for mean in off_diagonal(cosines))  # no "-0.00"
            said = f"{signed:+.2f}\n|{absolute:.2f}|".replace("0.", ".").replace("-", "−")
            panel.annotate(
                said,
                (1, 0.5),
                (2, 0),
                textcoords="offset points",
                xycoords="axes fraction",
                fontsize=8,
                va="center",
            )
            if i == 0:
                lines = [line for part in words.split(", ") for line in textwrap.wrap(part, letters)]
                panel.set_title("\n".join(lines), fontsize=8, pad=3)
            if j == 0:
                panel.set_ylabel(layer.caption.strip(), fontsize=8, rotation=0, ha="right", va="center")
        names = [str(name) for name in conditions[net]]
        if names != before:
            place = (x / width, 1 - 0.2 / height)
            said = "" if before else "conditions: "
            figure.text(*place, said + ", ".join(names), fontsize=8, va="bottom")
            before = names
    bar = figure.add_axes((left / width, 0.5 / height, min(4, width - left) / width, 0.1 / height))
    figure.colorbar(image, bar, orientation="horizontal", ticks=[-1, -0.5, 0, 0.5, 1])
    bar.tick_params(labelsize=8)
    bar.set_xlabel(
        "cosine, eq. (3); beside each matrix its mean, and that of absolute values |.|", fontsize=8
    )
    return figure


def plot_additivity(rows: Sequence[FeatureRow], curves: Sequence[Curve], ks: Sequence[int]) -> Figure:
    """F2 against K: encoder layers, decoder layers and the denoiser, then the size of the effect; the trained
    K is marked on each curve. Nets told places are in one row of panels, nets told colors in another, each
    with names in the order in which its curves end at the right.

    Choice: additivity is linear from -1 to 1 and logarithmic below, alike in all its panels.
    """
    told = {"places": [c for c in curves if not of_colors(c.net)]}
    told |= {"colors": [c for c in curves if of_colors(c.net)]}
    told = {condition: of for condition, of in told.items() if of}
    measures = [*((part, "additivity") for part in PARTS), ("denoiser", "effect")]
    size = (9.8, 0.7 + 2.4 * len(told))
    figure, panels = plt.subplots(len(told), len(measures), figsize=size, sharex=True, squeeze=False)
    for line, (condition, of) in zip(panels, told.items(), strict=True):
        for panel, (part, measure) in zip(line, measures, strict=True):
            ends = [_additivity_curve(panel, rows, curve, part, measure, ks) for curve in of]
        _name_curves(line[-1], [curve for _, curve in sorted(zip(ends, of), reverse=True)], condition)
        line[0].set_ylabel("additivity $R^2(K)$\nlogarithmic below −1 (dashed)")
        line[-1].set(ylabel="rms of D(C) − D({})", yscale="log")
    lowest = min(-1.0, *(panel.dataLim.y0 for panel in panels[:, :-1].flat))
    for panel in panels[:, :-1].flat:
        _additivity_axis(panel, lowest)
    for panel in panels[:, 1:-1].flat:
        panel.tick_params(labelleft=False)  # as at the left
    titles = [f"{part}, mean" for part in PARTS[:2]] + ["denoiser D", "size of the effect"]
    for panel, title in zip(panels[0], titles, strict=True):
        panel.set_title(title)
    for panel in panels[-1]:
        panel.set(xlabel="K conditions", xticks=list(ks))
    return figure


def _additivity_curve(
    axes: Axes, rows: Sequence[FeatureRow], curve: Curve, part: str, measure: str, ks: Sequence[int]
) -> float:
    """Draw a net's measure against K with its band, the trained K marked; its last value."""
    value, low, high = np.array([pick(rows, curve.net, measure, k, part)[-3:] for k in ks]).T
    look = _line(curve)
    axes.plot(ks, value, ms=4.5, **look)
    axes.fill_between(ks, low, high, color=curve.color, alpha=0.2, lw=0)
    if curve.trained in ks:
        at = list(ks).index(curve.trained)
        axes.plot(ks[at], value[at], look["marker"], color=curve.color, mec="black", ms=7.5, zorder=5)
    return float(value[-1])


def _additivity_axis(axes: Axes, lowest: float) -> None:
    """Make y linear from -1 to 1, logarithmic down to `lowest`, with lines at 1, 0 and -1."""
    ticks = [tick for tick in (1, 0.5, 0, -0.5, -1, -3, -10, -30, -100) if tick > 1.2 * lowest]
    axes.axhline(1, color="0.5", lw=1)
    axes.axhline(0, color="0.8", lw=1)
    axes.axhline(-1, color="0.8", lw=1, ls="--")
    axes.set_yscale("symlog", linthresh=1, linscale=1.5)
    axes.set(ylim=(1.2 * lowest, 1.25))
    axes.set_yticks(ticks, [f"{tick:g}".replace("-", "−") for tick in ticks], minor=False)
    axes.minorticks_off()


def _name_curves(axes: Axes, curves: Sequence[Curve], told: str) -> None:
    """Name a row's curves at its right, in order, other trainings of one kind once; a size that all have
    stands in the heading.
    """
    sizes, names = {size_of(curve.net) for curve in curves}, {}
    for curve in curves:
        name = kind_label(curve.net) + f", {size_of(curve.net)}" * (len(sizes) > 1)
        names.setdefault(textwrap.fill(name, 17), plt.Line2D([], [], ms=5.5, **_line(curve)))
    names["K in training"] = plt.Line2D([], [], color="0.6", ls="", marker="o", mec="black", ms=7.5)
    heading = ", ".join([f"told {told}", *(sizes if len(sizes) == 1 else ())])
    style = {"loc": "center left", "bbox_to_anchor": (1.0, 0.5), "alignment": "left", "handlelength": 2.6}
    axes.legend(list(names.values()), list(names), title=heading, fontsize=9, title_fontsize=9, **style)


def plot_own_share(rows: Sequence[FeatureRow], curves: Sequence[Curve], ks: Sequence[int]) -> Figure:
    """F3 against K: the share of a removal that lies along the removed condition's own direction, with 1/K
    for comparison.
    """
    figure, panels = plt.subplots(1, 3, figsize=(9.5, 3.2), sharey=True)
    for axes, part in zip(panels, PARTS, strict=True):
        for curve in curves:
            found = [pick(rows, curve.net, "own_share", k, part) for k in ks]
            value, low, high = np.array([row[-3:] for row in found]).T
            axes.plot(ks, value, label=curve.label, ms=4, **_line(curve))
            axes.fill_between(ks, low, high, color=curve.color, alpha=0.2, lw=0)
        every = np.linspace(ks[0], ks[-1], 50)  # a straight line between three K would lie above 1/K
        axes.plot(every, 1 / every, "--", color="0.45", lw=1.3)
        axes.set(title="denoiser D" if part == "denoiser" else f"{part} layers, mean")
        axes.set(xlabel="K conditions", xticks=list(ks), ylim=(0, 1.03))
    panels[0].text(ks[1], 1 / ks[1] - 0.03, "1/K", va="top", ha="right", color="0.35")
    panels[0].set_ylabel("own share of a removal")
    handles = panels[0].get_legend_handles_labels()
    figure.legend(*handles, loc="outside lower center", ncols=3, fontsize=9)
    return figure


def plot_causal(rows: Sequence[FeatureRow], nets: Mapping[str, str], layers: Sequence[str]) -> Figure:
    """F5: how much of an object a direction adds or removes at one layer while sampling, next to the
    condition itself and controls of the same length. For places the unit is the condition's own change there;
    for colors, a counted object.
    """
    figure, panels = plt.subplots(
        len(nets), 2, figsize=(9.0, 1.0 + 1.55 * len(nets)), squeeze=False, sharex=True, sharey=True
    )
    shades = [PALETTE[name] for name in ("purple", "orange", "sky", "black", "green")]
    kinds = dict(zip(CONTROLS, zip(shades, "osD^X", strict=True), strict=True))
    bare = [
        words for net, words in nets.items() if UNTRAINED in causes(rows, net, layers[0], "remove_effect")
    ]
    for i, (net, words) in enumerate(nets.items()):
        for axes, way in zip(panels[i], ("add", "remove"), strict=True):
            for y, layer in enumerate(layers):
                for control, row in causes(rows, net, layer, f"{way}_effect").items():
                    shade, marker = kinds[control]
                    place = y + (2 - list(CONTROLS).index(control)) * 0.16
                    axes.plot([row.low, row.high], [place] * 2, color=shade, lw=1.6)
                    axes.plot(row.value, place, marker, ms=6.5, mec="white", mew=0.4, color=shade)
            axes.axvline(0, color="0.6", lw=1, zorder=1)
            axes.axvline(1, color="0.6", lw=1, ls="--", zorder=1)
            axes.set(
                yticks=range(len(layers)),
                yticklabels=[name.removesuffix(".scale").replace(".", " ") for name in layers],
            )
            if i == 0:
                axes.set_title("$d_j$ added, j not told" if way == "add" else "$d_j$ removed, j told")
            if i == len(nets) - 1:
                axes.set_xlabel("effect: share of the condition's own change\n(colors: objects, counted)")
        panels[i, 0].set_ylabel(words.replace(", ", "\n"), fontsize=9)
    keys = [plt.Line2D([], [], color=shade, marker=marker, ms=6.5) for shade, marker in kinds.values()]
    only = f" (removed: {', '.join(bare)} only)" if 0 < len(bare) < len(nets) else ""
    words = [said + only * (control == UNTRAINED) for control, said in CONTROLS.items()]
    figure.legend(keys, words, loc="outside lower center", ncols=3, fontsize=9)
    return figure


def plot_against_outcomes(
    values: Mapping[str, Mapping[str, float]],
    outcomes: Mapping[str, Mapping[str, float]],
    found: Mapping[str, Mapping[str, Correlation]],
    every: Mapping[str, Mapping[str, Correlation]],
) -> Figure:
    """F7: each outcome ({outcome: {net: value}}, one row each) against each measure, titled with the rank
    correlation over trained nets (`found`) and all nets (`every`). Untrained nets are hollow, at zero;
    squares are color-conditioned nets, large marks 64 px; trainings of one kind share a legend entry.

    Choice: values below -1.5 are drawn there, as triangles.
    """
    floor, size = -1.5, (3.2 * len(values), 0.9 + 3.0 * len(outcomes))
    figure, panels = plt.subplots(len(outcomes), len(values), figsize=size, sharey="row", squeeze=False)
    keys = {}
    for line, (outcome, reached) in zip(panels, outcomes.items(), strict=True):
        for axes, (words, of) in zip(line, values.items(), strict=True):
            for net, x in of.items():
                bare_net = net.startswith(UNTRAINED)
                if not bare_net and net not in reached:
                    continue
                style = {"color": hue(net), "ls": "", "ms": 9 if net.endswith("64 px") else 5.5}
                style |= {"mfc": "none"} if bare_net else {"mec": "white", "mew": 0.6}
                shape = marker(net)
                axes.plot(max(x, floor), reached.get(net, 0), "<" if x < floor else shape, **style)
                kind = (shape, bare_net, hue(net) if hue(net) != GRAY else net)
                keys.setdefault(
                    kind, (label(bare(net)), plt.Line2D([], [], marker=shape, **style | {"ms": 7}))
                )
            trained, whole = (say_interval(of[outcome][words]) for of in (found, every))
            axes.set_xlabel(words)
            title = f"Spearman, trained nets {trained}\nwith untrained {whole}"
            axes.set_title(title.replace("-", "−"), fontsize=9)
            axes.margins(x=0.08, y=0.08)
        line[0].set_ylabel(outcome)
    for words, mark in (
        ("small: 32 px", ("o", 5.5)),
        ("large: 64 px", ("o", 9)),
        (f"below {floor:g}", ("<", 9)),
    ):
        line = plt.Line2D([], [], color="0.6", ls="", marker=mark[0], ms=mark[1])
        keys[words] = (words.replace("-", "−"), line)
    words, lines = zip(*keys.values())
    figure.legend(lines, words, loc="outside lower center", ncols=5, fontsize=9)
    return figure
