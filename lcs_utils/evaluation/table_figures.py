"""Tables 1 and 2, Fig. 8 and the radius as dumbbell plots: our K and the paper's, one training per row."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from lcs_utils.evaluation.tables import Cell
from lcs_utils.evaluation.training_sets import Measured
from lcs_utils.plotting import PALETTE

OURS, PAPERS = PALETTE["blue"], PALETTE["black"]
KEYS = (
    Line2D([], [], marker="o", ms=7, lw=2.4, color=OURS, label="ours (32 px, earlier counter), 95%"),
    Line2D([], [], marker="D", ms=8, lw=0, mfc="white", mec=PAPERS, label="the paper, 8 samples by eye"),
)


def say_missing(axes: Axes, at: float, k: float, words: str) -> None:
    """`words` in gray beside the paper's K, where there is room for them."""
    left = k > 3
    axes.text(
        k + (-0.35 if left else 0.35),
        at,
        words,
        ha="right" if left else "left",
        va="center",
        fontsize=8,
        color="0.5",
    )


def dumbbell(axes: Axes, at: float, cell: Cell) -> None:
    """Draw one training at height `at`: K by the paper's rule on all our samples, the paper's K, a line."""
    if cell.many is not None and cell.paper is not None:
        axes.hlines(at, *sorted((cell.many.value, cell.paper.k)), color="0.75", lw=1.2, zorder=1)
    if cell.paper is not None:
        axes.plot(cell.paper.k, at, "D", mfc="white", mec=PAPERS, ms=8, zorder=2)
    if cell.many is None:
        say_missing(axes, at, cell.paper.k, "not measured by us")
    else:
        axes.hlines(at, cell.many.low, cell.many.high, color=OURS, lw=2.4, zorder=3)
        axes.plot(cell.many.value, at, "o", color=OURS, ms=6.5, zorder=3)


def k_axis(axes: Axes, top: int = 12) -> None:
    """Set up the K axis, with rows from top to bottom."""
    axes.set(xlabel="K, the most locations up to which a net succeeds", xlim=(-0.5, top + 0.5))
    axes.set_xticks(range(top + 1))
    axes.invert_yaxis()


def by_training_set(found: Sequence[Any]) -> dict[str, list]:
    """{training set: its cells}, few objects first, the cells by the paper's K, largest first."""
    groups: dict[str, list] = {}
    for cell in sorted(found, key=lambda cell: (cell.trained_on, -cell.paper.k if cell.paper else 0)):
        groups.setdefault(cell.trained_on, []).append(cell)
    return groups


def plot_tables(
    found: Sequence[Any], mark: Callable[[Axes, float, Any], None] = dumbbell, keys: Sequence[Line2D] = KEYS
) -> Figure:
    """Tables 1 and 2 by training set, one net per row, drawn by `mark`: by default our K by the paper's rule
    on all samples, and the paper's.
    """
    groups = by_training_set(found)
    lines = len(found) + 0.9 * len(groups)
    figure, axes = plt.subplots(figsize=(7.4, 0.25 * lines + 1.2))
    height, ticks = 0.0, {}
    for scenes, cells in groups.items():
        objects = "1 object" if scenes == "1" else f"{scenes} objects"
        axes.text(-0.4, height, f"trained on {objects}", fontweight="bold", va="center", fontsize=9)
        for cell in cells:
            height += 1
            mark(axes, height, cell)
            ticks[height] = cell.column
        height += 1.3
    axes.set_yticks(list(ticks), list(ticks.values()), fontsize=9)
    axes.grid(axis="y", visible=False)
    axes.set_ylim(-0.7, height - 0.6)
    k_axis(axes)
    figure.legend(handles=list(keys), loc="outside lower center", ncols=len(keys), fontsize=9)
    return figure


def plot_rows(
    found: Sequence[Measured],
    words: Sequence[str],
    shares: Mapping[str, str],
    title: str,
    gaps: Sequence[int] = (),
    line: tuple[float, str] | None = None,
    tolerant: str = "one missing or extra is allowed at every K",
    shape: str = "o",
) -> Figure:
    """Trainings as rows: left K as dumbbells, right shares with intervals (Fig. 8, Table 2, App. E.3).

    `words` name the rows; `shares` is {field of Measured: its label}; `title` says over which K; `gaps` are
    the indices of rows that begin a new group; `line` is (K, words) for a number of the paper without a row;
    `tolerant` says what the hollow marks, of `shape`, allow.
    """
    heights = [i + 0.7 * sum(i >= gap for gap in gaps) for i in range(len(found))]
    each = 0.46 if any("\n" in said for said in words) else 0.36  # inches
    size = (8.6, each * (heights[-1] + 1) + 1.5)
    figure, (left, right) = plt.subplots(1, 2, figsize=size, sharey=True, width_ratios=(1.25, 1))
    for height, of in zip(heights, found, strict=True):
        dumbbell(left, height, of.cell)
        left.plot(of.tolerant.value, height, shape, mfc="none", mec=OURS, ms=10, zorder=2)
    for (field, label), color, marker in zip(shares.items(), ("black", "0.55"), "os"):
        value, low, high = zip(*(getattr(of, field) for of in found), strict=True)
        right.hlines(heights, low, high, color=color, lw=2.4, alpha=0.7)
        right.plot(value, heights, marker, color=color, ms=6.5, ls="none", label=label)
    left.set_yticks(heights, words, fontsize=9)
    left.set_ylim(-0.6, heights[-1] + 0.6)
    k_axis(left)
    left.set_xlabel("K, the most locations up to\nwhich a net succeeds")
    right.set(xlabel=title, xlim=(-0.03, 1.03))
    if line:
        left.axvline(line[0], color="0.4", lw=1.2, ls="--", zorder=0)
        left.text(line[0] + 0.15, heights[-1] + 0.45, line[1], fontsize=8, color="0.3", va="bottom")
    papers = any(of.cell.paper for of in found)
    circle = {"marker": shape, "ms": 10, "lw": 0, "mfc": "none", "mec": OURS, "label": f"ours, {tolerant}"}
    handles = [*KEYS[: 1 + papers], Line2D([], [], **circle), *right.get_legend_handles_labels()[0]]
    figure.legend(handles=handles, loc="outside lower center", ncols=2, fontsize=9)
    return figure
