"""Rates along K as curves with their null, and as a table (App. E.2)."""

from collections.abc import Collection, Mapping, Sequence
from itertools import combinations, pairwise
from typing import Any

import numpy as np
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from lcs_utils import alt_text
from lcs_utils.checks import check_choice, check_kind
from lcs_utils.evaluation.against_null import KS, WORDS, Beside, Found
from lcs_utils.evaluation.rules import PLACES_RULE
from lcs_utils.evaluation.tables import say
from lcs_utils.plotting import MARKERS
from lcs_utils.stats import Interval, say_interval

# fields of `against_null.At`, in panel order; the first two are shares with a null
MEASURES = {
    "placed": "pictures right in number and places",
    "filled": "cells filled",
    "obeyed": "conditions obeyed",
    "drawn": "objects drawn",
}
APART = 0.075  # of an axis' height, the smallest distance of two names
LOOKED = (3, 5, 7)  # K in a figure: one in training, two beyond
TOLD = (3, 5, 6, 7)  # K in a table
QUARTER = PLACES_RULE.threshold


def lines(
    axes: Axes,
    own: Mapping[str, Mapping[int, Interval]],
    colors: Mapping[str, str],
    named: bool = True,
    trained: int = 0,
) -> None:
    """Plot values against K, one line per label with its 95% band and its name at the end; no line leads
    from K = `trained` to one more, where the criterion changes.
    """
    ends = []
    for label, of in own.items():
        for part in apart(of, trained):
            value, low, high = (np.array(v) for v in zip(*part.values(), strict=True))
            axes.plot(list(part), value, MARKERS.get(colors[label], "o") + "-", ms=4, color=colors[label])
            axes.fill_between(list(part), low, high, color=colors[label], alpha=0.18, lw=0)
        ends.append((value[-1], label))
    last = max(k for of in own.values() for k in of)
    bottom, top = axes.get_ylim()
    ends = sorted(ends) if named else []
    for place, (_, label) in zip(_clear([value for value, _ in ends], APART * (top - bottom)), ends):
        axes.text(last + 0.3, place, label, color=colors[label], va="center", fontsize=10)
    axes.set(xlabel="K, locations asked for", xticks=range(1, last + 1), xlim=(0.5, last + 0.4))


def _clear(values: Sequence[float], gap: float) -> list[float]:
    """Places for names, in order, at least `gap` from each other: where names are too close for their sorted
    values, evenly around the mean of these.
    """
    groups: list[list[float]] = []
    for value in values:
        groups.append([value])
        while (
            len(groups) > 1
            and np.mean(groups[-1]) - np.mean(groups[-2]) < gap * len(sum(groups[-2:], [])) / 2
        ):
            groups[-2:] = [groups[-2] + groups[-1]]
    return [float(np.mean(of)) + gap * (i - (len(of) - 1) / 2) for of in groups for i in range(len(of))]


def apart(of: Mapping[int, Any], trained: int) -> list[dict[int, Any]]:
    """Split values by K into those up to `trained` and those beyond, without empty parts."""
    parts = [{k: v for k, v in of.items() if (k > trained) is beyond} for beyond in (False, True)]
    return [part for part in parts if part]


def shade(axes: Axes, trained: Collection[int], words_at: float | None = None) -> None:
    """Gray as many objects as training images had, up to each number of `trained`; `words_at` is where the
    words for it begin, in units of y.
    """
    steps = sorted(set(trained))
    for most in steps:
        axes.axvspan(0.5, most + 0.5, color="gray", alpha=0.12 if len(steps) == 1 else 0.08, lw=0)
    if words_at is None or not steps:
        return
    style = {"ha": "center", "va": "top", "fontsize": 8, "color": "0.35"}
    if len(steps) == 1:
        axes.text(steps[0] / 2 + 0.5, words_at, "in training", rotation=90 * (steps[0] < 2), **style)
        return
    axes.text(steps[-1] / 2 + 0.5, words_at, "in training, up to", **style)
    below = words_at - 0.06 * np.ptp(axes.get_ylim())
    for low, most in pairwise((0, *steps)):  # each number in the part that is its own
        axes.text((low + most) / 2 + 0.5, below, str(most), **style)


def threshold(axes: Axes) -> None:
    """Draw a thin line at the share above which K counts."""
    axes.axhline(QUARTER, color="0.4", lw=0.7)


def beside(
    axes: Axes,
    curves: Mapping[str, Mapping[int, Beside]],
    colors: Mapping[str, str],
    named: bool = True,
    trained: int = 0,
) -> None:
    """Plot shares against K, one line per label with its null dotted; split at `trained` as in `lines`."""
    axes.set_ylim(0, 1.02)
    own = {label: {k: at.own for k, at in of.items()} for label, of in curves.items()}
    lines(axes, own, colors, named, trained)
    for label, of in curves.items():
        for part in apart({k: at.null.value for k, at in of.items() if at.null}, trained):
            axes.plot(list(part), list(part.values()), ":", lw=1.4, color=colors[label])


def plot(found: Mapping[str, Found], colors: Mapping[str, str], trained: int, title: str = "") -> Figure:
    """Plot MEASURES against K, one line per label: shares with their null (dotted), numbers next to K
    (dashed).

    Gray: as many objects as in training images, up to `trained`; thin line: the share above which K counts;
    `title` stands above all panels. Raises ValueError without a net and for one without a color, TypeError
    for `along_k`'s mappings, of which one tolerance is drawn.
    """
    if not found:
        raise ValueError("there is no net to draw")
    for label, net in found.items():
        check_kind(
            f"found[{label!r}]", net, Found, "a Found, of `along_k` that of one tolerance, such as [1]"
        )
        check_choice("color of", label, colors)
    figure, panels = plt.subplots(2, 2, figsize=(8.6, 5.6), sharex=True)
    for axes, (measure, words) in zip(panels.flat, MEASURES.items(), strict=True):
        of = {
            label: {k: value for k, at in net.at.items() if (value := getattr(at, measure))}
            for label, net in found.items()
        }
        of = {label: values for label, values in of.items() if values}
        right = axes in panels[:, 1]
        if measure in ("placed", "filled"):
            beside(axes, of, colors, named=right, trained=trained if measure == "placed" else 0)
        else:
            axes.plot([0, max(KS) + 1], [0, max(KS) + 1], color="0.6", lw=1, ls="--")
            axes.set_ylim(0, max(KS) + 1.5)
            lines(axes, of, colors, named=right)
        shade(axes, [trained], max(KS) + 1 if axes is panels[1, 0] else None)
        axes.set_title(words, fontsize=11)
        if axes in panels[0]:
            axes.set_xlabel("")
    threshold(panels[0, 0])
    strict = f"all up to {trained + 1}, then all but one"  # `rules.needed`
    extra = f"one extra from {trained + 1} on, more as in Tables 1, 2"
    rule = f"{strict};\n{extra};\nK: as far as it stays above the line"
    panels[0, 0].set_title(f"{MEASURES['placed']}:\n{rule}", fontsize=11)
    for axes, words in zip(panels[:, 0], ("share", "objects")):
        axes.set_ylabel(words)
    panels[0, 1].text(0.7, 0.02, "dotted: null", fontsize=8, color="0.35")
    panels[1, 0].text(0.7, 0.1, "dashed: K", fontsize=8, color="0.35")
    if title:
        figure.suptitle(title, fontsize=10)
    alt_text.attach(figure, f"{title}. {in_words(found, 2 * trained)}".lstrip(". "))
    return figure


def in_words(found: Mapping[str, Found], k: int) -> str:
    """Rates at one K as a sentence, the null in parentheses, for nets with rows there; "" for none."""
    at = {label: of.at[k] for label, of in found.items() if k in of.at}
    if not at:
        return ""
    right, filled = (
        ", ".join(f"{label} {said(getattr(one, measure))}" for label, one in at.items())
        for measure in ("placed", "filled")
    )
    return f"At K = {k} (null) right in number and places {right}; cells filled {filled}."


def said(of: Beside) -> str:
    """`0.81 (0.04)`: the null in parentheses."""
    return f"{of.own.value:.2f} ({'–' if of.null is None else f'{of.null.value:.2f}'})"


def markdown(found: Mapping[str, Mapping[int, Found]], ks: Sequence[int] = TOLD) -> str:
    """{net: {tolerance: Found}} as a Markdown table: K, number and places, cells filled, each with its null;
    conditions obeyed.
    """
    told = " / ".join(map(str, ks))
    head = f"number and places right, K = {told} (null) | cells filled (null) | conditions obeyed"
    table = [f"| net | K (null) | {head} |", "|---|---|---|---|---|"]
    for net, each in found.items():
        for tolerance, of in each.items():
            shares = " / ".join(said(of.at[k].placed) if k in of.at else "–" for k in ks)
            filled = " / ".join(said(of.at[k].filled) if k in of.at else "–" for k in ks)
            obeyed = [of.at[k].obeyed if k in of.at else None for k in ks]
            heard = " / ".join("–" if value is None else f"{value.value:z.1f}" for value in obeyed)
            k = f"{say(of.k.placed)} ({say(of.k.placed_null)})"
            table.append(f"| {net}, {WORDS[tolerance]} | {k} | {shares} | {filled} | {heard} |")
    return "\n".join(table) + "\n"


def told_apart(found: Mapping[str, Found], k: int) -> str:
    """How far cells filled are above the null at one K, and conditions obeyed, by label, each with the pairs
    of nets that it does not tell apart.
    """
    at = {label: of.at[k] for label, of in found.items() if k in of.at}
    filled = {label: of.filled.above for label, of in at.items() if of.filled.above}
    obeyed = {label: of.obeyed for label, of in at.items() if of.obeyed}
    kinds = {f"Cells filled above the null at K = {k}": filled, "Conditions obeyed": obeyed}
    return " ".join(f"{words}: {_apart(of)}." for words, of in kinds.items() if of)


def _apart(of: Mapping[str, Interval]) -> str:
    """Values by label, and which pairs of intervals overlap."""
    said = ", ".join(f"{label} {say_interval(value)}" for label, value in of.items())
    close = [
        f"{one} and {other}"
        for (one, a), (other, b) in combinations(of.items(), 2)
        if a.low <= b.high and b.low <= a.high
    ]
    return f"{said} (intervals of {', '.join(close)} overlap)" if close else said
