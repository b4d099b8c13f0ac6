"""The counter's accuracy by number of objects, on renders of each kind and size and on Cycles renders, and
the faults that it detects (App. E.2).
"""

from collections.abc import Iterable, Sequence
from pathlib import Path

from matplotlib import pyplot as plt
from matplotlib.figure import Figure

from lcs_utils.counter.accuracy import NAMED, PASSING, wilson
from lcs_utils.counter.cycles import RESOLUTIONS, Compared, accuracy, name_at
from lcs_utils.counter.net import folder, verify
from lcs_utils.counter.shipped import FOLDER, RESOLUTION, SECOND
from lcs_utils.counter.visible import CLEAN, Passed, judge, named_from
from lcs_utils.plotting import PALETTE
from lcs_utils.stats import Interval

CYCLES, TWINS = "crowded, by Cycles", "the same scenes, fast renderer"
STYLES = {  # color, marker, line
    "clevr": ("blue", "o", "-"),
    "layout": ("green", "v", ":"),
    "crowded": ("orange", "^", ":"),
    CYCLES: ("vermilion", "s", "-"),
    TWINS: ("black", "x", "--"),
}
WORDS = {
    "clevr": "renders at CLEVR's distances",
    "layout": "renders of the test layouts",
    "crowded": "crowded renders",
}


def by_count(
    rows: Sequence[Compared], resolution: int, where: Path | None = None
) -> dict[str, dict[int, Interval]]:
    """{kind of images: {objects: share counted exactly, with Wilson's 95% interval}} on images of
    `resolution` px, for the shipped counter or the one in the folder `where`.

    Shares on renders are from its row.json, those on Cycles from the `rows` of its own weights;
    `cycles.lines` reports those of replaced counters. Raises CheckpointError as `net.verify`.
    """
    row = verify(folder(resolution) if where is None else where)
    counts, found = row["counts"], {}
    for kind in WORDS:
        of = row["sizes"][str(resolution)][kind]
        found[kind] = {
            k: Interval(v, *ends)
            for k, v, ends in zip(counts, of["by_count"]["exact"], of["interval"], strict=True)
        }
    both = {k: of for k in counts if (of := accuracy(rows, name_at(resolution), row["sha256"][:12], (k,)))}
    if both:
        found |= {
            CYCLES: {k: of.cycles for k, of in both.items()},
            TWINS: {k: of.fast for k, of in both.items()},
        }
    return found


def plot(
    rows: Sequence[Compared], resolutions: Iterable[int] = RESOLUTIONS
) -> tuple[Figure, dict[int | str, dict[str, dict[int, Interval]]]]:
    """Plot shares counted exactly against the number of objects, one panel per image size and one for the
    second counter; return the figure and its numbers.
    """
    found: dict[int | str, dict[str, dict[int, Interval]]] = {
        side: by_count(rows, side) for side in resolutions
    }
    if SECOND.exists():
        found["64 px, second counter"] = by_count(rows, RESOLUTION, SECOND)
    figure, panels = plt.subplots(1, len(found), figsize=(3.2 * len(found), 3.7), sharey=True, squeeze=False)
    for panel, (side, kinds) in zip(panels[0], found.items(), strict=True):
        for kind, of in kinds.items():
            color, marker, line = STYLES[kind]
            value, low, high = zip(*of.values())
            panel.plot(
                list(of),
                value,
                marker=marker,
                ls=line,
                ms=4.5,
                color=PALETTE[color],
                label=WORDS.get(kind, kind),
            )
            panel.fill_between(list(of), low, high, color=PALETTE[color], alpha=0.15, lw=0)
        panel.set(
            title=side if isinstance(side, str) else f"{side} px",
            xlabel="objects in the image",
            xticks=range(0, 13, 2),
            ylim=(0, 1.02),
        )
    panels[0, 0].set_ylabel("share counted exactly")
    lines = {
        words: line
        for panel in panels[0]
        for line, words in zip(*panel.get_legend_handles_labels(), strict=True)
    }
    figure.legend(lines.values(), lines, loc="outside lower center", ncols=3, fontsize=9)
    return figure, found


def plot_faults(rows: Sequence[Passed]) -> tuple[Figure, dict[str, dict[str, dict[float, Interval]]]]:
    """Plot the share called plausible against how much a fault changed the image, a panel per fault, both
    counters (dashed: clean renders). Returns the figure and {counter: {fault: {change: share}}}.
    """
    found: dict[str, dict[str, dict[float, Interval]]] = {}
    figure, panels = plt.subplots(1, len(NAMED), figsize=(9.6, 2.7), sharex=True, sharey=True)
    for folder_, words, color, marker in (
        (FOLDER, "counter", "blue", "o"),
        (SECOND, "second counter", "vermilion", "D"),
    ):
        mine = [row for row in rows if folder_.exists() and row.judge == judge(folder_)]
        for row in mine:
            share = Interval(row.passed / row.images, *wilson(row.passed, row.images))
            found.setdefault(words, {}).setdefault(row.fault, {})[row.change] = share
        for panel, name in zip(panels, NAMED, strict=True):
            if not (of := found.get(words, {}).get(name)):
                continue
            panel.set_title(name)
            value, low, high = zip(*of.values())
            panel.plot(list(of), value, marker=marker, ms=4, color=PALETTE[color], label=words)
            panel.fill_between(list(of), low, high, color=PALETTE[color], alpha=0.15, lw=0)
            panel.axhline(found[words][CLEAN][0.0].value, color=PALETTE[color], lw=1, ls="--")
            panel.axhline(PASSING, color="0.5", lw=1, ls=":")
    panels[-1].text(
        0.98,
        PASSING + 0.02,
        "a tenth pass",
        ha="right",
        fontsize=9,
        transform=panels[-1].get_yaxis_transform(),
    )
    panels[-1].text(
        0.98,
        0.94,
        "dashed: renders",
        ha="right",
        va="top",
        fontsize=9,
        transform=panels[-1].get_yaxis_transform(),
    )
    panels[0].set(ylabel="share that looks right\nto the counter", ylim=(0, 1.02), xlim=(0, None))
    words = "least change that the fault made to some 3×3 pixels (0.1: 13 of 256 gray levels)"
    figure.supxlabel(words, fontsize=10)
    lines = {words: line for line, words in zip(*panels[0].get_legend_handles_labels(), strict=True)}
    figure.legend(lines.values(), lines, loc="outside upper right", ncols=2, fontsize=9)
    return figure, found


def named(rows: Sequence[Passed]) -> str:
    """Markdown table by counter: the change from which on at most PASSING of the images with a fault pass."""
    places = {"counter": FOLDER, "second counter": SECOND}
    there = {words: judge(place) for words, place in places.items() if place.exists()}
    of = [named_from([row for row in rows if row.judge == mine]) for mine in there.values()]
    lines = [["at most a tenth passes from a change of", *there], ["---"] * (1 + len(there))]
    lines += [[name, *("never" if one[name] is None else f"{one[name]:g}" for one in of)] for name in NAMED]
    return "".join("| " + " | ".join(line) + " |\n" for line in lines)
