"""Exp. 3 without training (notebook 02d): a few samples live, and the stored counts as curves (App. E.2)."""

from collections.abc import Sequence
from typing import NamedTuple

from jaxtyping import Float
from matplotlib import pyplot as plt
from matplotlib.figure import Figure
from torch import Tensor, cat

from lcs_utils import plotting
from lcs_utils.clevr import conditions
from lcs_utils.evaluation import training_free
from lcs_utils.evaluation.length_generalization import draw_samples
from lcs_utils.evaluation.rows import read_rows, told_path
from lcs_utils.theory.local_denoiser import patch_denoiser

REACH = {"local, radius 1": 1, "local, radius 2": 2, "local, radius 3": 3, "whole image": 15}
TRAINED, MORE = "trained net, radius 3", "radius 2, four times the scenes"
PER_COUNT = 2  # samples drawn live at each number of labels


class Drawn(NamedTuple):
    """Samples of each reach, `PER_COUNT` at each number of labels, and how far the last are from the data.

    `copies` are mean squared distances, pixels in [-1, 1], of the samples with the most labels to the nearest
    training image.
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
    """A row per reach; dots are the labels asked for."""
    places = [
        [(32 * x - 0.5, 32 * y - 0.5) for x, y in conditions.TEST_LOCATIONS[:k]]
        for k in found.asked
        for _ in range(PER_COUNT)
    ]
    titles = [f"{k} label{'s' * (k > 1)}" for k in found.asked for _ in range(PER_COUNT)]
    rows = list(found.samples.values())
    return plotting.image_grid(rows, list(REACH), titles, cell=1.15, marks=[places] * len(rows))


def shares(scenes: int = 1500) -> dict[str, dict[int, float]]:
    """Share of the labeled cells that hold an object, by number of labels, from stored rows.

    Of each reach, of the trained Exp. 3, and of radius 2 on four times the scenes.
    """
    nets = [row for row in read_rows(told_path()) if row.net == "exp3" and 1 <= row.k <= 9]
    rows = read_rows(training_free.ROWS) + nets
    names = {name: training_free.name(radius, scenes) for name, radius in REACH.items()}
    names |= {TRAINED: "exp3", MORE: training_free.name(2, 4 * scenes)}
    return {name: training_free.filled(rows, net) for name, net in names.items()}


def show_shares(filled: dict[str, dict[int, float]]) -> Figure:
    """The shares against the number of labels, curves labeled at their ends; gray: as in training."""
    styles = (
        ("o-", "sky"),
        ("s-", "blue"),
        ("^-", "purple"),
        ("v:", "vermilion"),
        ("D--", "black"),
        ("s", "blue"),
    )
    figure, axis = plt.subplots(figsize=(7.6, 3.6))
    axis.axvspan(0.8, 3, color="0.93", lw=0)
    axis.text(1.9, 0.04, "as in training", ha="center")
    for (name, share), (style, color) in zip(filled.items(), styles, strict=True):
        extra = {"mfc": "none", "ms": 10} if name == MORE else {}
        axis.plot(list(share), list(share.values()), style, color=plotting.PALETTE[color], **extra)
        words = "radius 2 (squares: four times the scenes)" if name == "local, radius 2" else name
        if name != MORE:
            axis.text(9.15, share[9], words, color=plotting.PALETTE[color], va="center")
    axis.set(xlabel="labels", ylabel="labeled cells with an object", xlim=(0.8, 14.2), ylim=(0, 1.05))
    axis.set_xticks(range(1, 10))
    return figure
