"""Figures in one style: labeled grids of images, and PNGs that are always saved with their numbers."""

import io
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
import torch
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.layout_engine import PlaceHolderLayoutEngine

from lcs_utils import alt_text, notebook_values, paths, printing, store
from lcs_utils.compact_png import compact
from lcs_utils.figure_record import figure_provenance, plain, stands
from lcs_utils.nets import trained
from lcs_utils.stats import Interval

# Okabe & Ito (2008): told apart by color-blind readers and in gray print.
PALETTE = {
    "blue": "#0072B2",
    "orange": "#E69F00",
    "green": "#009E73",
    "vermilion": "#D55E00",
    "purple": "#CC79A7",
    "sky": "#56B4E9",
    "yellow": "#F0E442",
    "black": "#000000",
}
MARKERS = dict(zip(PALETTE.values(), "oDPs^vX*"))  # one for each color, so that a net has one marker
EXPERIMENT_COLORS = {
    "exp1": PALETTE["blue"],
    "exp2": PALETTE["vermilion"],
    "exp2/unit": PALETTE["orange"],
    "exp3": PALETTE["green"],
}
LABEL_COLORS = {  # of nets that see the whole image, by the labels they are told
    "all": EXPERIMENT_COLORS["exp1"],
    "random": PALETTE["purple"],
    "drop_one": PALETTE["sky"],
    "single": EXPERIMENT_COLORS["exp2"],
}
GRAY = "#777777"  # nets of your own
DPI = 100
PRINTED = 6.2 / 6.75  # points of text per inch of a grid: above 6 pt where it is printed on two columns


def color_of(net: str) -> str:
    """The color of a net in every figure, by its labels and locality; gray without either."""
    if net in EXPERIMENT_COLORS:
        return EXPERIMENT_COLORS[net]
    try:
        exp = trained(net)
    except ValueError:
        return GRAY
    return EXPERIMENT_COLORS["exp3"] if exp.radius is not None else LABEL_COLORS.get(exp.labels, GRAY)


STYLE = {
    "figure.dpi": DPI,
    "savefig.dpi": DPI,
    "figure.figsize": (5.0, 3.2),
    "figure.constrained_layout.use": True,
    "figure.facecolor": "white",
    "font.family": "DejaVu Sans",  # shipped with matplotlib: the same glyphs on every machine
    "font.size": 10,
    "axes.titlesize": 11,
    "axes.prop_cycle": matplotlib.cycler(color=list(PALETTE.values())),
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.alpha": 0.25,
    "legend.frameon": False,
    "lines.linewidth": 1.8,
    "image.interpolation": "nearest",
}


def use_style() -> None:
    """Set the style of all later figures, which notebooks then show with alternative texts."""
    plt.rcParams.update(STYLE)
    alt_text.enable()


def band(
    axes: Axes,
    of: Mapping[int, Interval | None],
    color: str,
    marker: str = "",
    label: str = "",
    **line: Any,
) -> None:
    """Plot values with their intervals against K, leaving out those that are None."""
    of = {k: value for k, value in of.items() if value is not None}
    if of:
        value, low, high = zip(*of.values(), strict=True)
        axes.plot(list(of), value, marker=marker, ms=4, color=color, label=label, **line)
        axes.fill_between(list(of), low, high, color=color, alpha=0.18, lw=0)


def to_uint8(image: Any) -> np.ndarray:
    """An image as uint8 [height width 3]. Takes [3 h w], [1 h w] or [h w], uint8 in [0, 255] or float in
    [-1, 1].

    Floats outside [-1, 1] are clipped. Raises ValueError for other shapes.
    """
    array = (
        image.detach().cpu().float().numpy()
        if torch.is_tensor(image) and image.is_floating_point()
        else np.asarray(image)
    )
    if array.ndim == 2:
        array = array[None]
    if array.ndim != 3 or array.shape[0] not in (1, 3):
        raise ValueError(f"an image must have shape [3 h w], [1 h w] or [h w], got {list(array.shape)}")
    if array.dtype != np.uint8:
        array = np.rint((np.clip(array.astype(np.float64), -1, 1) + 1) * 127.5).astype(np.uint8)
    return np.repeat(array, 3 // array.shape[0], axis=0).transpose(1, 2, 0)


def in_pixels(where: Any, size: int) -> list[tuple[float, float]]:
    """Locations [n, 2] in [0, 1] (x right, y down) as `image_grid`'s marks on a picture of `size` x `size`.

    The first pixel's middle is at 0, so a picture reaches from -1/2 to `size` - 1/2.
    """
    return [(size * x - 0.5, size * y - 0.5) for x, y in np.asarray(where).tolist()]


def _strokes(cell: float, rings: bool, found: bool) -> list[dict]:
    """How a mark is drawn on a picture of `cell` inches: a dot or a ring, or a cross where nothing is."""
    if found and not rings:
        return [{"marker": "o", "ms": 3.6 * cell, "mfc": "white", "mec": "black", "mew": 0.8}]
    # two colors, so that it is seen on light and dark
    marker, size = ("o", 11) if found else ("x", 6)
    return [
        {"marker": marker, "ms": size * cell, "mfc": "none", "mec": color, "mew": thick}
        for color, thick in (("black", 2.4), ("white", 1.2))
    ]


def image_grid(
    images: Sequence[Sequence[Any]] | torch.Tensor | np.ndarray,
    row_labels: Sequence[str] = (),
    column_labels: Sequence[str] = (),
    title: str = "",
    cell: float = 1.0,
    marks: Sequence[Sequence[Sequence[tuple[float, float]]]] | None = None,
    groups: Sequence[str] = (),
    rings: bool = False,
    captions: Sequence[Sequence[str]] | None = None,
    beside: float = 0.0,
) -> Figure:
    """A grid of images, `images[row][column]` as `to_uint8` takes them; None leaves a place empty.

    `cell` is a picture's side in inches; `marks[row][column]` are points (x right, y down, in pixels), such
    as the conditioned locations, drawn as dots, or with `rings` as rings; a third entry that is False makes a
    point a cross. `groups` are headings of equally many columns, `captions[row][column]`
    stand below pictures, `beside` is room in inches at the right, for axes of the caller's. Raises ValueError
    when labels and images disagree in number, or groups and columns, and for a picture in place of a row.
    """
    for row in images:
        if getattr(row, "ndim", 4) == 3 and len(row) == 3:  # its channels would be three gray pictures
            raise ValueError(f"a row of pictures is needed, got one of shape {list(row.shape)}: [images]")
    columns = max(len(row) for row in images)
    for what, labels, count in (("row", row_labels, len(images)), ("column", column_labels, columns)):
        if len(labels) not in (0, count):
            raise ValueError(f"{len(labels)} {what} labels for {count} {what}s")
    if groups and columns % len(groups):
        raise ValueError(f"{columns} columns cannot be shared evenly by {len(groups)} groups")
    per = columns // len(groups) if groups else columns
    between = 0.12  # inches, from group to group
    widest = max((len(line) for label in row_labels for line in label.split("\n")), default=0)
    margin = 0.085 * widest + 0.1 if row_labels else 0.05  # inches, at font size 10
    pictures = columns * cell + (columns // per - 1) * between + 0.05 + beside
    small = max(8.0, PRINTED * (margin + pictures))
    size = max(10.0, small)
    margin *= size / 10
    top = (
        (0.02 * size * max(label.count("\n") + 1 for label in column_labels) if column_labels else 0.0)
        + (0.3 if title else 0.0)
        + 0.05
    )
    top += 0.25 if groups else 0.0
    below = 0.021 * small if captions is not None else 0.0  # inches under each row, for its captions
    width = margin + pictures
    height = top + len(images) * (cell + below) + 0.05
    # "none" would fall back to the style's layout
    by_hand = PlaceHolderLayoutEngine(adjust_compatible=True, colorbar_gridspec=False)
    figure = plt.figure(figsize=(width, height), layout=by_hand)
    for i, row in enumerate(images):
        for j, image in enumerate(row):
            gap = 0.03
            left, bottom = (
                margin + j * cell + j // per * between + gap / 2,
                height - top - (i + 1) * cell - i * below + gap / 2,
            )
            side = cell - gap
            axes = figure.add_axes((left / width, bottom / height, side / width, side / height))
            axes.set(xticks=[], yticks=[])
            axes.grid(False)
            axes.set_frame_on(False)
            if image is not None:
                axes.imshow(to_uint8(image), interpolation="nearest")
            for x, y, *found in marks[i][j] if marks is not None else ():
                for stroke in _strokes(cell, rings, found[0] if found else True):
                    axes.plot(x, y, ls="", **stroke)
            if captions is not None and captions[i][j]:
                axes.set_xlabel(captions[i][j], fontsize=small, labelpad=1.5)
            if j == 0 and row_labels:
                axes.set_ylabel(row_labels[i], rotation=0, ha="right", va="center", labelpad=4, fontsize=size)
            if i == 0 and column_labels:
                axes.set_title(column_labels[j], fontsize=size, pad=3)
    for g, heading in enumerate(groups):
        center = margin + (g + 0.5) * per * cell + g * between
        figure.text(
            center / width,
            1 - (0.35 if title else 0.05) / height,
            heading,
            ha="center",
            va="top",
            fontsize=max(11, size),
        )
    if title:
        middle = 0.5 * (1 - beside / width)
        figure.text(middle, 1 - 0.06 / height, title, ha="center", va="top", fontsize=max(11, size))
    return figure


def figures_folder(preset: str, command: str) -> Path:
    """Where a figure belongs: figures/ for a shipped preset with default parameters, else
    runs/<preset>/figures.

    So another seed never replaces what the repository holds. LCS_FIGURES names another folder for all
    figures.
    """
    if elsewhere := os.environ.get("LCS_FIGURES"):
        return Path(elsewhere) / preset
    changed = " -p " in command.replace(f" -p preset {preset}", "")
    return (
        paths.RUNS / preset / "figures" if changed or preset not in paths.SHIPPED else paths.FIGURES / preset
    )


def settle_layout(figure: Figure) -> None:
    """Fix a figure's layout: a layout engine would move it a little with each drawing, so what a notebook
    shows would depend on whether the file was written before.
    """
    if figure.get_layout_engine() is not None:
        for _ in range(2):  # the second time it knows how large its texts are
            figure.draw_without_rendering()
        figure.set_layout_engine("none")


def save_figure(
    figure: Figure,
    name: str,
    preset: str,
    values: Any,
    seed: int,
    checkpoints: Sequence[Path | str] = (),
    alt: str = "",
) -> Path:
    """Write <name>.png and, beside it, <name>.json with `values` and the provenance, to `figures_folder`;
    returns the PNG.

    Both appear whole or not at all, the same command gives the same bytes, and a figure whose numbers hold
    is left as it is. `values` are the numbers behind the figure: lists, dicts, arrays; finite. `alt` says in
    words what the figure shows, for those who do not see it: it stands in the JSON, in the PNG's metadata
    and on the web page; without it, what the function that drew the figure attached (`alt_text.attach`).

    The repository keeps 100 dpi. For a paper or a poster set LCS_PRINT to png, svg or pdf, or give
    `--print pdf` to `python -m lcs_utils.notebooks run 01` or to `run.py reproduce`: every figure is then
    also written as `printing.save_for_print` does.

    Raises ValueError for a bad name, an unknown preset or format or a non-finite number, FileNotFoundError
    for a missing checkpoint, all before anything is written.
    """
    if not re.fullmatch(r"[a-z0-9_]+", name):
        raise ValueError(f"a figure's name is made of a-z, 0-9 and _, got {name!r}")
    if not notebook_values.known(preset):
        raise ValueError(f"preset must be one of {', '.join(notebook_values.PRESET_NAMES)}, got {preset!r}")
    kind, alt = printing.asked_format(), " ".join((alt or alt_text.given(figure)).split())
    record = {
        "figure": name,
        "preset": preset,
        **({"alt": alt} if alt else {}),
        "values": plain(values),
        "provenance": figure_provenance(seed, checkpoints),
    }
    settle_layout(figure)
    figure.set_label(name)
    alt_text.attach(figure, alt)
    if kind:
        printing.save_for_print(figure, name, preset, kind, alt)
    target = figures_folder(preset, record["provenance"]["command"]) / f"{name}.png"
    if stands(target.with_suffix(".json"), record):
        for kept in (target, target.with_suffix(".json")):
            kept.touch()  # so that the Snakemake rule sees that they were made
        return target
    metadata = {"Software": None, **({"Description": alt} if alt else {})}
    drawn = io.BytesIO()
    figure.savefig(drawn, dpi=DPI, bbox_inches="tight", pad_inches=0.05, metadata=metadata)
    # numbers are written last: if they exist, the picture is theirs (`stands`)
    with store.atomic_path(target.with_suffix(".json")) as numbers, store.atomic_path(target) as picture:
        picture.write_bytes(compact(drawn.getvalue()))
        store.write_json(numbers, record, flat=True)
    return target
