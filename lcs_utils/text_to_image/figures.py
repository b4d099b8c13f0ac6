"""Figs. 6, 7 and 13 for any SDXL-class model, and composite prompts beside single ones (App. G)."""

import textwrap
from collections import Counter
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import torch
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from lcs_utils.clevr.scenes import COLOR_RGB
from lcs_utils.plotting import PALETTE, to_uint8
from lcs_utils.text_to_image.adapter import PromptDenoiser, dominant
from lcs_utils.text_to_image.data import decode
from lcs_utils.text_to_image.prompt_cosines import cosines, layers_of, minus_baseline, other_seeds
from lcs_utils.text_to_image.prompts import Attended, Heard, Prompt

NONE = "#E8E8E8"
NULL_WORDS = (
    "Share of places with a dominant word by the paper's rule (with one twice as strong as every common word "
    "there). Strongest word: that whose map has the largest root mean square (the same of common words)."
)
DOTS = {"marker": ".", "ms": 2.2, "mew": 0, "ls": "", "color": "0.2"}  # where others dominate with a word
PALE = 0.55  # share of white in the color of a word that dominates with others
Baselined = dict[str, dict[str, dict[str, float]]]
Parted = dict[str, Baselined]
BASELINES = {"empty": 'minus "" (the paper)', "mean": "minus the mean of prompts"}
PARTS = {"down": "Down", "mid": "Mid", "up": "Up"}


def plot_words(
    denoiser: PromptDenoiser, prompts: Sequence[str], found: Sequence[tuple[torch.Tensor, list[Heard]]]
) -> Figure:
    """Fig. 6: each prompt's picture, and by noise level the strongest `dominant` word of each place, pale
    where others dominate with it; none where no word is twice as strong as every common word."""
    columns = len(found[0][1])
    figure, axes = plt.subplots(
        len(prompts), columns + 2, figsize=(1.7 * (columns + 2), 1.85 * len(prompts)), squeeze=False
    )
    for row, prompt, (latents, heard) in zip(axes, prompts, found, strict=True):
        for ax in row:
            ax.set_axis_off()
        picture = decode(denoiser.pipeline.vae, latents[None])[0]
        row[0].imshow(to_uint8(picture.float().cpu()), interpolation="nearest")
        words = list(heard[0].maps)
        shades = word_shades(words)
        seen: set[str] = set()
        for ax, moment in zip(row[1:], heard, strict=False):
            labels = [[_label(of) for of in line] for line in dominant(moment.maps, null=moment.null)]
            seen.update(*labels)
            ax.imshow([[shades[label] for label in line] for line in labels])
            dots = [(x, y) for y, line in enumerate(labels) for x, label in enumerate(line) if _shared(label)]
            ax.plot(*zip(*dots), **DOTS) if dots else None  # pale colors are near the gray of "none"
            ax.set_title(f"σ = {moment.sigma:.2g}", fontsize=11)
        row[0].set_title(textwrap.fill(prompt, 24), fontsize=9)
        handles = [
            Patch(fc=shade, label=label, hatch="..." if _shared(label) else "", ec=DOTS["color"], lw=0)
            for label, shade in shades.items()
            if label in seen
        ]
        row[-1].legend(handles=handles, loc="center left", fontsize=10)
    return figure


def word_colors(words: Sequence[str]) -> dict[str, Any]:
    """A color for each word: its own for one of CLEVR's colors, a distinct one for others."""
    own = {word: tuple(channel / 255 for channel in COLOR_RGB[word]) for word in words if word in COLOR_RGB}
    rest = [word for word in words if word not in own]
    # eight, as many as Fig. 6's prompt has words
    more = ("orange", "purple", "sky", "green", "blue", "vermilion", "yellow")
    free = ["black", *(PALETTE[name] for name in more)]
    return own | {word: free[i % len(free)] for i, word in enumerate(rest)}


def _shared(label: str) -> bool:
    return label.endswith(" + others")


def _label(words: Sequence[str]) -> str:
    """The legend's name for a place's dominant words, strongest first."""
    return f"{words[0]} + others" if len(words) > 1 else words[0] if words else "none"


def word_shades(words: Sequence[str]) -> dict[str, tuple[float, ...]]:
    """{label of a place's dominant words: its color}, pale for a word with others."""
    found: dict[str, tuple[float, ...]] = {}
    for word, color in word_colors(words).items():
        found[_label([word])] = to_rgb(color)
        found[_label([word, ""])] = tuple(PALE + (1 - PALE) * channel for channel in to_rgb(color))
    return found | {_label([]): to_rgb(NONE)}


def words_numbers(
    prompts: Sequence[str], found: Sequence[tuple[torch.Tensor, list[Heard]]]
) -> dict[str, Any]:
    """{prompt: {sigma: {dominant words: share of places}}}: each word alone, sets that occur, none."""
    said = {}
    for prompt, (_, heard) in zip(prompts, found, strict=True):
        said[prompt] = {}
        for moment in heard:
            words = list(moment.maps)
            sets = [
                tuple(sorted(of, key=words.index))
                for line in dominant(moment.maps, null=moment.null)
                for of in line
            ]
            count = dict.fromkeys([(), *((word,) for word in words)], 0) | Counter(sets)
            shares = {" + ".join(of) or "none": round(n / len(sets), 3) for of, n in count.items()}
            said[prompt][f"{moment.sigma:.3g}"] = shares
    return said


def null_words(prompts: Sequence[str], found: Sequence[tuple[torch.Tensor, list[Heard]]]) -> str:
    """A table of what the null takes from Fig. 6, by prompt and noise level: the share of places with a
    dominant word by the paper's rule, and beside common words; the largest root mean square of a word's map,
    and of a common word's.
    """
    sigmas = [f"σ = {moment.sigma:.2g}" for moment in found[0][1]]
    lines = [f"| prompt | of | {' | '.join(sigmas)} |", "|---" * (len(sigmas) + 2) + "|"]
    for prompt, (_, heard) in zip(prompts, found, strict=True):
        shares, most = [], []
        for moment in heard:
            both = (dominant(moment.maps, null=null) for null in (0.0, moment.null))
            held = [np.mean([bool(words) for line in of for words in line]) for of in both]
            shares.append("{:.2f} ({:.2f})".format(*held))
            most.append("{} ({})".format(*map(_strongest, (moment.maps, moment.common))))
        lines.append(f"| {prompt} | share of places | {' | '.join(shares)} |")
        lines.append(f"| | strongest word | {' | '.join(most)} |")
    lines += ["", NULL_WORDS]
    return "\n".join(lines)


def _strongest(maps: Mapping[str, torch.Tensor]) -> str:
    """`cyan 1.85`, the word whose map has the largest root mean square; a dash without words."""
    sizes = {word: float(of.square().mean().sqrt()) for word, of in maps.items()}
    return "{} {:.2f}".format(*max(sizes.items(), key=lambda one: one[1])) if sizes else "–"


def plot_maps(found: Attended, asked: Sequence[Prompt], part: str = "up") -> Figure:
    """Fig. 7: attention to each prompt's word minus each baseline, mean over samples and a part's layers;
    each map as a share of its largest value."""
    sigmas = sorted({sigma for sigma, _ in found}, reverse=True)
    columns = [(baseline, sigma) for baseline in BASELINES for sigma in sigmas]
    figure, axes = plt.subplots(len(asked), len(columns), figsize=(len(columns) + 2, 0.9 * len(asked) + 0.3))
    for j, (baseline, sigma) in enumerate(columns):
        maps = part_maps(found, sigma, part, baseline)
        for i, (ax, one) in enumerate(zip(axes[:, j], maps, strict=True)):
            most = float(one.abs().max()) or 1.0
            image = ax.imshow(one / most, cmap="PuOr", vmin=-1, vmax=1)
            ax.set(xticks=[], yticks=[])
            ax.grid(False)
            if i == 0:
                ax.set_title(f"{BASELINES[baseline] if j % len(sigmas) == 1 else ''}\nσ = {sigma:.2g}")
            if j == 0:
                ax.set_ylabel(asked[i].short, rotation=0, ha="right", va="center")
    figure.colorbar(
        image,
        ax=axes,
        shrink=0.5,
        label="attention to the word minus the baseline,\nas a share of each map's largest",
    )
    return figure


def part_maps(found: Attended, sigma: float, part: str, baseline: str) -> torch.Tensor:
    """Mean over a part's layers, at its largest layer's size, minus a baseline: [prompts height width].

    Raises ValueError as `prompt_cosines.differences`.
    """
    layers = [torch.stack(of) for of in layers_of(found, sigma, part)]
    size = max((tuple(of.shape[-2:]) for of in layers), key=np.prod)
    grown = [torch.nn.functional.interpolate(of[:, None], size=size, mode="bilinear")[:, 0] for of in layers]
    return minus_baseline(torch.stack(grown).mean(0), baseline)


def plot_cosines(
    found: Attended, asked: Sequence[Prompt], layered: Mapping[str, Sequence[Mapping]] = MappingProxyType({})
) -> Figure:
    """Fig. 13: cosines between prompts of attention minus each baseline, by part of the net and sigma.

    Below, with `layered` ({net: `kinds.by_layer` of each training}; the second is at the prompts' first
    words): within kinds minus between, by layer of D(own), M(id), U(p).
    """
    sigmas = sorted({sigma for sigma, _ in found}, reverse=True)
    columns = [(baseline, sigma) for baseline in BASELINES for sigma in sigmas]
    rows = len(PARTS) + bool(layered)
    figure, axes = plt.subplots(
        rows, len(columns), figsize=(1.75 * len(columns) + 1.2, 1.95 * rows + 0.6), squeeze=False
    )
    names = [prompt.short for prompt in asked]
    for i, (part, title) in enumerate(PARTS.items()):
        for j, (baseline, sigma) in enumerate(columns):
            ax, matrix = axes[i, j], cosines(found, sigma, part, baseline)
            image = ax.imshow(matrix, cmap="PuOr", vmin=-1, vmax=1)
            ax.set(xticks=range(len(names)), yticks=range(len(names)))
            ax.set_xticklabels(names if i == len(PARTS) - 1 else [], rotation=90)
            ax.set_yticklabels(names if j == 0 else [])
            ax.grid(False)
            if i == 0:
                ax.set_title(f"{BASELINES[baseline] if j % len(sigmas) == 1 else ''}\nσ = {sigma:.2g}")
            if j == 0:
                ax.set_ylabel(title, fontsize=13)
    figure.colorbar(image, ax=axes[: len(PARTS)], shrink=0.6, label="cosine")
    if layered:
        _by_layer(axes[-1], columns, layered)
        figure.legend(
            *axes[-1, 0].get_legend_handles_labels(), loc="outside lower center", ncols=len(layered)
        )
    return figure


def _by_layer(axes: np.ndarray, columns: Sequence[tuple[str, float]], layered: Mapping) -> None:
    """One panel a column: a line for each training, over the layers in the order of the net."""
    styles = (
        {"color": PALETTE["purple"], "marker": "o", "ms": 3.5},
        {"color": PALETTE["orange"], "marker": "s", "ms": 3.5},
        {"color": "0.45", "ls": "--", "lw": 1},
    )
    drawn = []
    for ax, (baseline, sigma) in zip(axes, columns, strict=True):
        for (net, trainings), style in zip(layered.items(), styles, strict=False):
            for k, each in enumerate(trainings):
                of = each[baseline][f"{sigma:.3g}"]
                ax.plot(range(len(of)), list(of.values()), label=net if k == 0 else None, **style)
                drawn += of.values()
        parts = [next(part for part in PARTS if name.startswith(part)) for name in of]
        for part, title in PARTS.items():
            first, number = parts.index(part), parts.count(part)
            ax.axvline(first - 0.5, color="0.7", lw=1) if first else None
            place = {"ha": "center", "transform": ax.get_xaxis_transform()}
            ax.text(first + (number - 1) / 2, 1.01, title[0], **place)
        ax.axhline(0, color="gray", lw=1)
        ax.set(xticks=[], xlim=(-0.5, len(parts) - 0.5), xlabel="layer, in order")
        ax.tick_params(labelleft=ax is axes[0])
    room = 0.05 * (max(drawn) - min(drawn))
    for ax in axes:
        ax.set_ylim(min(drawn) - room, max(drawn) + room)
    axes[0].set_ylabel("by layer: cosine within\nkinds minus between")


def mean_cosines(found: Attended, again: Attended) -> dict[str, dict[str, dict[str, dict[str, float]]]]:
    """{baseline: {part: {sigma: mean cosines}}}: of "two prompts", the same "absolute", and of a prompt with
    itself ("one, other seeds")."""
    sigmas = sorted({sigma for sigma, _ in found}, reverse=True)
    said: dict = {}
    for baseline in BASELINES:
        for part in PARTS:
            for sigma in sigmas:
                matrix = cosines(found, sigma, part, baseline)
                two = matrix[~torch.eye(len(matrix), dtype=torch.bool)]
                one = other_seeds(found, again, sigma, part, baseline)
                kinds = {"two prompts": two, "absolute": two.abs(), "one, other seeds": one}
                means = {kind: round(float(of.mean()), 3) for kind, of in kinds.items()}
                said.setdefault(baseline, {}).setdefault(part, {})[f"{sigma:.3g}"] = means
    return said


def plot_composites(said: Parted, beside: Parted) -> Figure:
    """Cosines of composite prompts at a word with the single prompt of that word, and with the others; a
    column per part of the net, a row per baseline (App. G). Hollow: `beside`, an untrained net, where it is
    given. The single prompt against itself from other noise shows how high a cosine can be."""
    prompts, words = zip(*(name.rsplit(" at ", 1) for name in said[next(iter(said))]["empty"]), strict=True)
    first = [i for i, prompt in enumerate(prompts) if prompt not in prompts[:i]]
    y = np.array([i + 0.9 * sum(i >= at for at in first) for i in range(len(words))])  # room for headings
    size = (2.9 * len(said) + 0.9, 7.8)
    figure, axes = plt.subplots(len(BASELINES), len(said), figsize=size, sharex=True, sharey=True)
    panels = [(baseline, part) for baseline in BASELINES for part in said]
    only = "" if beside.keys() >= said.keys() else f" ({', '.join(PARTS[part] for part in beside)} only)"
    legend = {}
    for ax, (baseline, part) in zip(axes.flat, panels, strict=True):
        of, bare = said[part][baseline], beside.get(part, {}).get(baseline, {})
        labels = list(of)
        for kind, mark, color, label in (
            ("own", "o", PALETTE["blue"], "its own single prompt"),
            ("other", "s", PALETTE["orange"], "mean of the others"),
            ("again", "d", "0.45", "its single prompt, other seeds"),
        ):
            if kind not in of[labels[0]]:
                continue
            lifted = y + 0.25 * (kind == "again")
            ax.plot([of[name][kind] for name in labels], lifted, mark, color=color, ms=8, label=label)
            if kind in bare.get(labels[0], {}):
                values = [bare[name][kind] for name in labels]
                ax.plot(
                    values, y - 0.25, mark, color=color, mfc="white", ms=7, label=f"{label}, untrained{only}"
                )
        ax.set(xlim=(-1.05, 1.05), title=f"{PARTS[part]}, {BASELINES[baseline]}")
        ax.axvline(0, color="gray", lw=1)
        handles, names = ax.get_legend_handles_labels()
        legend |= dict(zip(names, handles, strict=True))
    axes[0, 0].set(yticks=y, yticklabels=words, ylim=(y[-1] + 0.6, -0.3))
    for ax in axes[:, 0]:
        ax.set_ylabel("at the word")
        for at in first:
            prompt = prompts[at].replace("+", " + ")
            ax.text(-1.02, y[at] - 0.8, prompt, fontweight="bold", fontsize=9, va="center")
    for ax in axes[-1]:
        ax.set_xlabel("cosine")
    figure.legend(legend.values(), legend, loc="outside lower center", ncols=3, fontsize=9)
    return figure
