"""Locality against composition, a named point per trained net, and both along training."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from lcs_utils.evaluation.features.feature_ranks import Correlation
from lcs_utils.evaluation.locality.locality_above_null import AboveNull
from lcs_utils.evaluation.locality.locality_rates import AgainstK, chance_locality
from lcs_utils.evaluation.rows import rows_path, told_path
from lcs_utils.evaluation.sizes import SIZES
from lcs_utils.evaluation.tables import BEYOND
from lcs_utils.experiments import LONGER, NORMALIZED, RADIUS, RADIUS_SWEEP, TABLE_1, TABLE_2
from lcs_utils.nets import parts, trained
from lcs_utils.plotting import EXPERIMENT_COLORS, LABEL_COLORS, MARKERS, color_of
from lcs_utils.stats import Interval

COLOR_OF = {  # what a point's color says: which labels, and whether the net is local
    "Exp. 1: all labels": EXPERIMENT_COLORS["exp1"],
    "random number of labels": LABEL_COLORS["random"],
    "one label dropped": LABEL_COLORS["drop_one"],
    "Exp. 2: one label": EXPERIMENT_COLORS["exp2"],
    "Exp. 3: one label, local net": EXPERIMENT_COLORS["exp3"],
}
KINDS = dict(zip(("all", "random", "drop_one", "single"), COLOR_OF))
KNOWN = {e.name: e for e in (*TABLE_1, *TABLE_2, *RADIUS_SWEEP, NORMALIZED, LONGER)}
SEED, NEUTRAL = "0.6", "0.25"
SIZE, FONT = (7.6, 5.0), 8.5
NONE: Mapping[str, float] = {}


class Point(NamedTuple):
    """How a net is drawn: the kind its color stands for ("" if neutral), its color, marker and words."""

    kind: str
    color: str
    marker: str
    words: str


def point_style(net: str) -> Point:
    """A net's point: colored by its labels, named by the objects in its training images.

    Other training seeds are gray and unnamed. Nets that are not ours, snapshots and nets changed at sampling
    are neutral diamonds with their own name.
    """
    base, _, images, change = parts(net)
    exp = KNOWN.get(base)
    if exp is None or images is not None or change:
        return Point("", NEUTRAL, "D", net)
    kind = "Exp. 3: one label, local net" if exp.radius is not None else KINDS[exp.labels]
    if net != exp.name:
        return Point(kind, SEED, MARKERS[COLOR_OF[kind]], "")
    low, high = exp.objects
    words = f"{low}" if low == high else f"{low}-{high}"
    words += ", longer" * (exp.times > 1) + ", normalized labels" * exp.normalize_label
    words += f", r = {exp.radius}" if exp.radius not in (None, RADIUS) else ""
    return Point(kind, COLOR_OF[kind], MARKERS[COLOR_OF[kind]], words)


def _name_points(axes: Axes, points: Sequence[tuple[float, float, Point]], bars, limits, dashed) -> None:
    """Write each point's words beside it, where they cover no point, no error bar and no other words.

    `bars` are the ends of the error bars along x and along y, `dashed` the lines across, {height: words}.
    """
    (x0, x1), (y0, y1) = limits
    across, up = 72 * SIZE[0] * 0.88 / (x1 - x0), 72 * SIZE[1] * 0.76 / (y1 - y0)  # points for one unit
    at = [((x - x0) * across, (y - y0) * up) for x, y, _ in points]
    taken = [(x - 4, y - 4, x + 4, y + 4) for x, y in at]
    right = (x1 - x0) * across
    for height, words in dashed.items():  # the line, and its words above its right end
        line = (height - y0) * up
        taken += [(0, line - 1, right, line + 1), (right - 0.6 * 8 * len(words), line, right, line + 10)]
    own = []  # ends of a point's own bars: left, right, bottom, top
    for (x, y), (of_x, of_y) in zip(at, bars):
        left, right = (of_x.low - x0) * across, (of_x.high - x0) * across
        bottom, top = (of_y.low - y0) * up, (of_y.high - y0) * up
        taken += [(left - 2, y - 2, right + 2, y + 2), (x - 2, bottom - 2, x + 2, top + 2)]
        own.append((left - x, right - x, bottom - y, top - y))
    for (x, y), (px, py, point), ends in sorted(zip(at, points, own), key=lambda each: -each[0][1]):
        wide = 0.6 * FONT * len(point.words)  # a little more than words take
        left, right, bottom, top = ends
        above, below = (-wide / 2, top + 8), (-wide / 2, bottom - 8)  # beyond its own bar
        places = [(7, 0), (6, 9), (6, -9), above, (-6 - wide, 9), (-6 - wide, -9), below]
        places += [
            (-wide / 2, 20),
            (-wide / 2, -20),
            (right + 9, 0),
            (left - 9 - wide, 0),
            (14, 18),
            (14, -18),
        ]

        def crossings(place):
            start, middle = x + place[0], y + place[1]
            box = (start, middle - FONT / 2, start + wide, middle + FONT / 2)
            return sum(box[0] < b[2] and b[0] < box[2] and box[1] < b[3] and b[1] < box[3] for b in taken)

        if point.words:
            dx, dy = min(places, key=crossings)
            style = {"fontsize": FONT, "color": point.color, "va": "center"}
            axes.annotate(point.words, (px, py), (dx, dy), textcoords="offset points", **style)
            taken.append((x + dx, y + dy - FONT / 2, x + dx + wide, y + dy + FONT / 2))


def _draw(
    axes: Axes,
    locality: Mapping[str, Interval],
    shares: Mapping[str, Interval],
    limits,
    legend,
    dashed: Mapping[float, str] = MappingProxyType({}),
) -> None:
    """A named point per net, lines across {height: words}, and what colors mean; `legend` is where that
    begins, in units of the axes.
    """
    for height, words in dashed.items():
        axes.axhline(height, color="0.5", lw=1, ls="--", zorder=0)
        at = (limits[0][1] - 0.005, height + 0.006)
        axes.text(*at, words, ha="right", va="bottom", fontsize=8, color="0.5")
    points = []
    for net, share in locality.items():
        point, filled = point_style(net), shares[net]
        across = [[share.value - share.low], [share.high - share.value]]
        up = [[filled.value - filled.low], [filled.high - filled.value]]
        size = 5 if point.color == SEED else 7
        style = {"color": point.color, "marker": point.marker, "ms": size, "mec": "white", "mew": 0.6}
        axes.errorbar(share.value, filled.value, up, across, elinewidth=1, **style)
        points.append((share.value, filled.value, point))
    _name_points(axes, points, [(share, shares[net]) for net, share in locality.items()], limits, dashed)
    used = {point.kind for *_, point in points}
    lines = [(kind, color) for kind, color in COLOR_OF.items() if kind in used]
    if any(point.color == SEED for *_, point in points):
        lines.append(("gray: the same from other seeds", "0.45"))
    lines.append(("names: objects in a training image", "0.25"))
    left, top = legend
    for i, (words, color) in enumerate(lines):
        at = top - 0.051 * (limits[1][1] - limits[1][0]) * i
        axes.text(left, at, words, color=color, fontsize=9.5, va="center")
        if words in COLOR_OF:
            axes.scatter(
                left - 0.012, at, 36, color, marker=MARKERS[color], edgecolors="white", linewidths=0.6
            )
    axes.set(xlim=limits[0], ylim=limits[1])
    axes.set_xlabel("locality: share of what a pixel hears that comes from conditions nearby (σ ≥ 1)")


def _chance(axes: Axes, chance: float, low: float) -> None:
    whole = chance == chance_locality(None)
    words = "hears all alike" if whole else "hears all in its window alike"
    shade = "0.5" if whole else COLOR_OF["Exp. 3: one label, local net"]
    axes.axvline(chance, color=shade, lw=1, ls="--", zorder=0)
    axes.text(chance + 0.006, low, words, rotation=90, va="bottom", fontsize=8, color=shade)


def plot_above_null(found: AboveNull, rank: Correlation, perfect: float) -> Figure:
    """Cells filled above the null at six random cells against conditional locality at high noise, one point
    per training at 64 px: the thesis. `rank`, its correlation, is in the title; `perfect`: what a net that
    draws just what it is asked for has (`against_null.perfect`).
    """
    figure, axes = plt.subplots(figsize=SIZE)
    shares = [share.high for share in found.locality.values()]
    highest = max(share.high for share in found.above.values())
    limits = ((0.19, max(0.76, max(shares) + 0.03)), (-0.06, max(0.54, highest + 0.04)))
    _chance(axes, chance_locality(None), 0.2)
    dashed = {0.0: "null", perfect: "draws just what it is asked for"}
    _draw(axes, found.locality, found.above, limits, (0.56, 0.19), dashed)
    axes.set_ylabel(f"composition: share of {BEYOND} random cells filled, above the null")
    axes.set_title(
        f"Locality and composition at 64 px:\nrank correlation {rank.value:.2f} [{rank.low:.2f}, "
        f"{rank.high:.2f}] over {rank.nets} trainings that see the whole image",
        fontsize=10,
    )
    return figure


def plot_against_k(found: AgainstK, rho: Mapping[str, float] = NONE) -> Figure:
    """Cells filled at K = 4 to 6 against conditional locality at high noise, one point per net, without a
    null.

    `rho`, the rank correlations over nets that see the whole image (`rank_correlations`), are in the title.
    Any net can be drawn; one that is not ours gets a neutral marker and its name.
    """
    figure, axes = plt.subplots(figsize=SIZE)
    shares = [share.value for share in found.locality.values()]
    limits = ((min(0.2, min(shares) - 0.05), max(0.88, max(shares) + 0.05)), (0, 1.02))
    for chance in sorted(set(found.chance.values())):
        _chance(axes, chance, 0.02)
    _draw(axes, found.locality, found.filled, limits, (0.43, 0.36))
    earlier = "earlier counter, " * (told_path(found.preset) != rows_path(found.preset))
    axes.set_ylabel(f"composition: cells filled, K = 4 to 6 ({earlier}no null)")
    whole = sum(trained(net, found.preset).radius is None for net in found.locality)
    said = f"Locality and composition at {SIZES.get(found.preset, found.preset)}"
    filled = rho.get("cells filled")
    if filled is not None:
        said += f":\nrank correlation {filled:.2f} over {whole} trainings that see the whole image"
    axes.set_title(said, fontsize=10)
    return figure


def plot_along_training(found: dict[str, dict[str, dict[int, Interval]]], labels: dict[str, str]) -> Figure:
    """One panel per quantity, one line per net against training images; `found` is {net: {quantity: {images:
    mean}}}.
    """
    numbers = list(next(iter(found.values())))
    figure, panels = plt.subplots(1, len(numbers), figsize=(4.3 * len(numbers), 3.2), squeeze=False)
    for net, curves in found.items():
        for axes, name in zip(panels[0], numbers, strict=True):
            images, values = list(curves[name]), list(curves[name].values())
            look = {"color": color_of(net), "marker": MARKERS.get(color_of(net), "o"), "ms": 5}
            axes.plot(images, [v.value for v in values], label=labels[net], **look)
            low, high = [v.low for v in values], [v.high for v in values]
            axes.fill_between(images, low, high, color=color_of(net), alpha=0.2, lw=0)
            axes.set(xscale="log", xlabel="training images", ylabel="share", ylim=(0, 1))
            axes.set_title(name.replace(" (", "\n("))
    panels[0, 0].legend(loc="upper left")
    return figure
