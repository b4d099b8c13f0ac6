"""The denoising error along training, one panel per net size (App. E.1)."""

from collections.abc import Mapping

import numpy as np
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patheffects import withStroke
from matplotlib.text import Annotation
from matplotlib.ticker import FixedFormatter, FixedLocator, LogLocator, NullLocator, StrMethodFormatter
from matplotlib.transforms import Bbox

from lcs_utils import alt_text, checkpoints, nets, plotting
from lcs_utils.evaluation.sizes import SIZES
from lcs_utils.experiments import FIGURE_1, FIGURE_4

NETS = (*(e.name for e in FIGURE_1 + FIGURE_4), "exp3_r2")
SEEDS = range(3)  # of training
SMOOTH = 9  # log entries averaged for one point
TICKS = {30_000: "30,000", 100_000: "100,000", 300_000: "300,000", 1_000_000: "1 million"}
STEPS = [step * sign for step in range(0, 60, 2) for sign in (1, -1)]  # points up, tried for a name in turn

Curve = dict[str, list[float]]  # as `checkpoints.loss_curve`


def read(preset: str) -> dict[str, Curve]:
    """{net: training log} of the nets of NETS that have one in this preset. Raises CheckpointError if none
    has.
    """
    names = [name + f"_seed{seed}" * (seed > 0) for name in NETS for seed in SEEDS]
    found = {}
    for name in names:
        try:
            found[name] = checkpoints.loss_curve(name, preset)
        except nets.CheckpointError:
            continue
    if not found:
        checkpoints.kept(NETS[0], preset)  # raises, naming what is missing
    return found


def said(name: str) -> str:
    """A net's name as a reader knows it: `Exp. 3, r = 2`."""
    net = nets.parse(name)
    radius = net.experiment.radius
    words = [
        f"Exp. {name[3]}",
        f"r = {radius}" if radius else "",
        "one object" * (net.experiment.objects[1] == 1),
    ]
    return ", ".join(filter(None, words))


def rounded(curve: Curve) -> Curve:
    """The plotted columns of a log, images seen and error, rounded to four digits, for JSON."""
    return {key: [float(f"{v:.4g}") for v in curve[key]] for key in ("images", "error")}


def _smooth(curve: Curve) -> tuple[np.ndarray, np.ndarray]:
    """What is drawn: images seen, and the mean error of the last SMOOTH entries (fewer in a short log)."""
    width = min(SMOOTH, len(curve["error"]))
    error = np.convolve(curve["error"], np.ones(width) / width, mode="valid")
    return np.array(curve["images"][width - 1 :]), error


def _panel(axes: Axes, curves: Mapping[str, Curve]) -> list[Annotation]:
    """Draw a panel's curves, those of first trainings named at their ends; returns the names."""
    ends = []
    for name, curve in curves.items():
        seen, smooth = _smooth(curve)
        dashed = nets.parse(name).experiment.objects[1] == 1
        axes.plot(seen, smooth, color=plotting.color_of(name), ls="--" if dashed else "-", lw=1.3)
        if not nets.parse(name).seed:
            ends.append((smooth[-1], seen[-1], name))
    axes.set(xlabel="training images", xscale="log", yscale="log")
    axes.xaxis.set(major_locator=FixedLocator(list(TICKS)), minor_locator=NullLocator())
    axes.xaxis.set_major_formatter(FixedFormatter(list(TICKS.values())))
    axes.yaxis.set(major_locator=LogLocator(subs=(1, 2, 5)), minor_locator=NullLocator())
    axes.yaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
    names = []
    for at, seen, name in sorted(ends, reverse=True):
        look = {"color": plotting.color_of(name), "fontsize": 9, "va": "center", "annotation_clip": False}
        look["path_effects"] = [withStroke(linewidth=2, foreground="white")]
        names.append(axes.annotate(said(name), (seen, at), (5, 0), textcoords="offset points", **look))
    return names


def _clear(axes: Axes, names: list[Annotation]) -> None:
    """Move names, the highest first, up or down to where no curve and no other name crosses them, and in the
    order of their curves. The layout must be drawn.
    """
    paths = [line.get_path().transformed(axes.transData) for line in axes.lines]
    higher: list[Bbox] = []
    for name in names:
        for step in STEPS:
            name.xyann = (5, step)
            box = name.get_window_extent().padded(0.5)
            beside = [other for other in higher if box.x0 < other.x1 and other.x0 < box.x1]
            crossed = any(path.intersects_bbox(box, filled=False) for path in paths)
            if not crossed and all(box.y1 < other.y0 for other in beside):
                break
        higher.append(box)


def plot(curves: Mapping[str, Mapping[str, Curve]]) -> Figure:
    """One panel per preset, one line per training, named at its end; dashed: trained on one object.

    Errors of patch nets (Exp. 3) are per patch and comparable only with each other.
    """
    figure, panels = plt.subplots(1, len(curves), figsize=(4.6 * len(curves) + 0.6, 3.6), squeeze=False)
    named = {}
    for axes, (preset, of) in zip(panels[0], curves.items(), strict=True):
        named[axes] = _panel(axes, of)
        axes.set_title(SIZES.get(preset, preset))
    panels[0, 0].set_ylabel("weighted denoising error\n(Exp. 3: per patch, not comparable)")
    plotting.settle_layout(figure)
    figure.draw_without_rendering()
    for axes, names in named.items():
        _clear(axes, names)
    panels_in_words = []
    for preset, of in curves.items():
        first = {name: _smooth(of[name])[1] for name in of if not nets.parse(name).seed}
        ends = (f"{said(name)} from {error[0]:.2g} to {error[-1]:.2g}" for name, error in first.items())
        panels_in_words.append(f"{SIZES.get(preset, preset)}: {', '.join(ends)}")
    alt_text.attach(figure, f"Error along the first training of each net. {'; '.join(panels_in_words)}.")
    return figure
