"""Exp. 3 without training (notebook 02d): samples drawn live, and the stored counts as curves (App. E.2)."""

from collections.abc import Sequence
from typing import NamedTuple

from jaxtyping import Float
from matplotlib import pyplot as plt
from matplotlib.figure import Figure
from torch import Tensor, cat

from lcs_utils import alt_text, plotting
from lcs_utils.clevr import conditions
from lcs_utils.evaluation import against_null, null_figures
from lcs_utils.evaluation.against_null import Found
from lcs_utils.evaluation.rows import read_rows, rows_path
from lcs_utils.evaluation.samples import draw_samples
from lcs_utils.evaluation.studies import training_free
from lcs_utils.evaluation.wording import CELLS
from lcs_utils.theory.local_denoiser import patch_denoiser

REACH = {"local, radius 1": 1, "local, radius 2": 2, "local, radius 3": 3, "whole image": 15}
TRAINED, MORE = "trained net, radius 3", "radius 2, four times the scenes"
COLORS = {
    reach: plotting.PALETTE[color]
    for reach, color in zip((*REACH, TRAINED), ("sky", "purple", "black", "vermilion", "green"), strict=True)
}
COLORS[MORE] = COLORS["local, radius 2"]
TOLD = (4, 6, 9)  # numbers of labels in the text and the table
PER_COUNT = 2  # samples drawn live at each number of labels


class Drawn(NamedTuple):
    """Samples of each reach, `PER_COUNT` at each number of labels, and how far the last are from the data.

    `copies` are mean squared distances (pixels in [-1, 1]) of the samples with the most labels from their
    nearest training image.
    """

    asked: list[int]
    samples: dict[str, Float[Tensor, "samples 3 32 32"]]
    copies: dict[str, list[float]]


def draw_live(scenes: int, asked: Sequence[int], seed: int) -> Drawn:
    """Sample the closed-form local score over `scenes` training scenes at each radius (Exp. 3, App. E.3)."""
    images, labels = training_free.training_scenes(scenes, seed)
    samples, copies = {}, {}
    for name, radius in REACH.items():
        denoise = patch_denoiser(images, labels, radius)
        drawn = [draw_samples(denoise, 32, k, PER_COUNT, seed, 14, "dpmpp_2m") for k in asked]
        samples[name] = cat(drawn)
        copies[name] = [float((x - images).square().mean((1, 2, 3)).min()) for x in drawn[-1]]
    return Drawn(list(asked), samples, copies)


def show_samples(found: Drawn) -> Figure:
    """One row per reach; dots mark the labels."""
    places = [
        plotting.in_pixels(conditions.TEST_LOCATIONS[:k], 32) for k in found.asked for _ in range(PER_COUNT)
    ]
    titles = [f"{k} label{'s' * (k > 1)}" for k in found.asked for _ in range(PER_COUNT)]
    rows = list(found.samples.values())
    key = f"dots: asked for, {CELLS['test']}"
    return plotting.image_grid(rows, list(REACH), titles, key, cell=1.15, marks=[places] * len(rows))


def rates(scenes: int = 1500) -> dict[str, dict[str, Found]]:
    """{family: {reach: rates by number of labels, with their null}}, from stored rows.

    For each reach, the trained Exp. 3, and radius 2 on four times the scenes; all by Exp. 3's rule. Raises
    ValueError for scenes that were not measured.
    """
    trained = [row for row in read_rows(rows_path()) if row.net == "exp3"]
    rows = read_rows(training_free.ROWS)
    names = {reach: training_free.name(radius, scenes) for reach, radius in REACH.items()}
    names[MORE] = training_free.name(2, 4 * scenes)
    found = {
        reach: [row._replace(net="exp3") for row in rows if row.net == net] for reach, net in names.items()
    }
    found[TRAINED] = trained
    ks = {row.k for row in rows}
    return {
        family: {
            reach: against_null.of_nets(of, ["exp3"], family, ks=sorted(ks)) for reach, of in found.items()
        }
        for family in training_free.FAMILIES
    }


def show_rates(found: dict[str, dict[str, Found]]) -> Figure:
    """Plot labeled cells filled, minus what pictures of other labels fill, against the number of labels.

    One panel per family, one line per reach with its 95% band; hollow squares: four times the scenes.
    """
    figure, panels = plt.subplots(1, 2, figsize=(9.6, 3.6), sharey=True)
    for axes, (family, of) in zip(panels, found.items(), strict=True):
        axes.set_ylim(-0.1, 1.02)
        axes.axvspan(0.5, 3.5, color="0.93", lw=0)
        axes.axhline(0, color="0.4", lw=0.7)
        above = {
            reach: {k: at.filled.above for k, at in rates.at.items() if at.filled.above}
            for reach, rates in of.items()
        }
        more = above.pop(MORE)
        null_figures.lines(axes, above, COLORS, named=axes is panels[1])
        axes.plot(list(more), [at.value for at in more.values()], "s", ms=9, mfc="none", color=COLORS[MORE])
        axes.set(title=CELLS[family], xlabel="labels")
    panels[0].text(2, 0.03, "in training", ha="center", fontsize=9)
    panels[0].text(9.3, -0.02, "null", ha="right", va="top", fontsize=9)
    panels[1].text(9.3, 0.95, f"squares: {MORE}", ha="right", fontsize=9)
    panels[0].set_ylabel("cells filled, minus the null")
    alt_text.attach(figure, in_words(found))
    return figure


def in_words(found: dict[str, dict[str, Found]]) -> str:
    """Cells filled at the most labels of TOLD, the null in parentheses."""
    k = TOLD[-1]
    said = (
        f"{CELLS[family]}: "
        + ", ".join(f"{r} {null_figures.said(of.at[k].filled)}" for r, of in each.items())
        for family, each in found.items()
    )
    return f"Labeled cells filled at {k} labels (null). " + "; ".join(said) + "."


def markdown(found: dict[str, dict[str, Found]]) -> str:
    """The rates at TOLD as a Markdown table, for each family."""
    heads = " | ".join(f"{k} labels" for k in TOLD)
    lines = [f"| filled (null) | | {heads} |", "|---" * (2 + len(TOLD)) + "|"]
    for family, each in found.items():
        for reach, of in each.items():
            told = " | ".join(null_figures.said(of.at[k].filled) for k in TOLD)
            lines.append(f"| {CELLS[family]} | {reach} | {told} |")
    return "\n".join(lines) + "\n"
