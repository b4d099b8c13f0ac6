"""Figures of the small model's stored rows: word to mask, success and measures by noise level (App. G)."""

from collections.abc import Sequence

import matplotlib.pyplot as plt
from matplotlib.figure import Figure, FigureBase
from matplotlib.lines import Line2D

from lcs_utils.plotting import PALETTE
from lcs_utils.text_to_image.truth import Row

HUES = [PALETTE[name] for name in ("blue", "vermilion", "black", "purple", "orange")]
NULLS = {"permuted": "labels permuted"}


def plot_rows(
    rows: Sequence[Row],
    cases: dict[str, str],
    nets: dict[str, str],
    controls: dict[str, str],
    sigmas: Sequence[float],
    figure: FigureBase | None = None,
    ncols: int | None = None,
) -> FigureBase:
    """Word-to-mask AUC by case and noise level: each net beside the first one's controls; 0.5 is chance.
    Drawn into `figure`, or a new one, with a legend of `ncols` columns."""
    figure = figure or plt.figure(figsize=(2.8 * len(sigmas) + 1.4, 0.52 * len(cases) + 1.7))
    axes = figure.subplots(1, len(sigmas), sharey=True)
    drawn = [(net, "") for net in nets] + [(next(iter(nets)), control) for control in controls]
    labels = list(nets.values()) + list(controls.values())
    for ax, sigma in zip(axes, sigmas, strict=True):
        for k, ((net, control), label) in enumerate(zip(drawn, labels, strict=True)):
            for y, case in enumerate(cases):
                row = one(rows, net, "AUC", case, control, sigma=sigma)
                if row:
                    at = y + 0.13 * (k - (len(drawn) - 1) / 2)
                    ax.plot([row.low, row.high], [at, at], color=HUES[k], lw=2)
                    ax.plot(row.value, at, "os^Dv"[k], color=HUES[k], ms=7, label=label if y == 0 else None)
        ax.axvline(0.5, color="gray", lw=1, ls="--", label="chance")
        ax.set(xlim=(0.2, 1.04), xlabel="AUC", title=f"σ = {sigma:g}")
    axes[0].set(yticks=range(len(cases)), yticklabels=cases.values(), ylim=(len(cases) - 0.5, -0.5))
    handles, names = axes[0].get_legend_handles_labels()
    columns = ncols or len(labels) + 1
    figure.legend(handles, names, loc="outside lower center", ncols=columns, fontsize=9)
    return figure


def one(
    rows: Sequence[Row], net: str, measure: str, case: str, control: str = "", **where: float
) -> Row | None:
    """The first row of that net, measure, case and control, or None; `where` fixes sigma or guidance."""
    for row in rows:
        if (row.net, row.measure, row.case, row.control) == (net, measure, case, control):
            if all(getattr(row, name) == value for name, value in where.items()):
                return row
    return None


def plot_success(
    rows: Sequence[Row], nets: dict[str, str], kinds: Sequence[str], whats: Sequence[str]
) -> Figure:
    """Shares of pictures that show what their caption says, filled; hollow: another caption."""
    guidances = sorted({row.guidance for row in rows if row.guidance})
    figure, axes = plt.subplots(
        len(guidances),
        len(kinds),
        figsize=(2.45 * len(kinds), 2.6 * len(guidances) + 0.6),
        sharex=True,
        sharey=True,
    )
    for line, guidance in zip(axes, guidances, strict=True):
        for ax, kind in zip(line, kinds, strict=True):
            for k, (net, label) in enumerate(nets.items()):
                for y, what in enumerate(whats):
                    own, null = (one(rows, net, what, kind, c, guidance=guidance) for c in ("", "permuted"))
                    at = y + 0.24 * (k - (len(nets) - 1) / 2)
                    ax.plot([own.low, own.high], [at, at], color=HUES[k], lw=2)
                    ax.plot(own.value, at, "os^"[k], color=HUES[k], ms=7, label=label if y == 0 else None)
                    ax.plot(null.value, at, "os^"[k], mfc="white", color=HUES[k], ms=7, zorder=0)
            ax.set(xlim=(-0.03, 1.03), title=f"{kind}, guidance {guidance:g}")
    axes[0, 0].set(yticks=range(len(whats)), yticklabels=whats, ylim=(len(whats) - 0.5, -0.5))
    for ax in axes[-1]:
        ax.set_xlabel("share of pictures")
    handles, names = axes[0, 0].get_legend_handles_labels()
    handles.append(Line2D([], [], color="gray", ls="", marker="o", mfc="white", ms=7))
    names.append("hollow: null, judged by another caption")
    figure.legend(handles, names, loc="outside lower center", ncols=len(names), fontsize=9)
    return figure


def plot_by_noise(
    rows: Sequence[Row],
    measure: str,
    cases: dict[str, str],
    nets: dict[str, str],
    sigmas: Sequence[float],
    label: str,
    chance: float | None = None,
    control: str = "",
    chance_words: str = "chance",
    figure: FigureBase | None = None,
) -> FigureBase:
    """A measure by noise level, a panel per case: every net with its interval. Dashed: `chance`, the value of
    a net that knows nothing, if it is one number; hollow: each net's rows of `control`. Raises ValueError for
    rows that are not stored."""
    figure = figure or plt.figure(figsize=(2.25 * len(cases) + 0.8, 3.2))
    axes = figure.subplots(1, len(cases), sharex=True, sharey=True, squeeze=False)
    for ax, (case, title) in zip(axes.flat, cases.items(), strict=True):
        for k, (net, name) in enumerate(nets.items()):
            found, nulls = (
                [one(rows, net, measure, case, c, sigma=sigma) for sigma in sigmas] for c in ("", control)
            )
            if None in found + nulls:
                raise ValueError(
                    f"{net}, {measure}, {case}: not stored at all of {list(sigmas)}, {control!r}"
                )
            bars = [[row.value - row.low for row in found], [row.high - row.value for row in found]]
            x = [1.04**k * sigma for sigma in sigmas]
            ax.errorbar(x, [row.value for row in found], bars, fmt="os^"[k] + "-", color=HUES[k], label=name)
            if control:
                null = [row.value for row in nulls]
                ax.plot(x, null, "os^"[k] + ":", color=HUES[k], mfc="white", lw=1.3, zorder=0)
        if chance is not None:
            ax.axhline(chance, color="gray", lw=1, ls="--")
        ax.set(
            xscale="log",
            title=title.replace(", ", "\n"),
            xticks=sigmas,
            xticklabels=[f"{s:g}" for s in sigmas],
        )
        ax.set_xlabel("noise level σ")
        ax.minorticks_off()
    axes[0, 0].set_ylabel(label)
    handles, names = axes.flat[0].get_legend_handles_labels()
    if chance is not None:
        handles.append(Line2D([], [], color="gray", ls="--", lw=1))
        names.append(chance_words)
    if control:
        handles.append(Line2D([], [], color="gray", ls=":", marker="o", mfc="white"))
        names.append(f"hollow: {NULLS.get(control, control)}")
    figure.legend(handles, names, loc="outside lower center", ncols=len(handles), fontsize=9)
    return figure


def plot_words_at_objects(
    rows: Sequence[Row],
    cases: dict[str, str],
    nets: dict[str, str],
    controls: dict[str, str],
    sigmas: Sequence[float],
) -> Figure:
    """Above: does a word's influence find its own object (`plot_rows`)? Below: of what it does inside the two
    objects, the share inside its own (`plot_by_noise`; one half is chance). Raises as these."""
    figure = plt.figure(figsize=(9.8, 0.52 * len(cases) + 5.3))
    above, below = figure.subfigures(2, 1, height_ratios=(0.52 * len(cases) + 2.0, 3.3))
    plot_rows(rows, cases, nets, controls, sigmas, above, ncols=3)
    plot_by_noise(rows, "own part", cases, nets, sigmas, "own part\n(share per place)", 0.5, figure=below)
    return figure
