"""Measured rates next to their null and to counts by eye: one figure, one table, one dict (App. E.2)."""

import textwrap
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from lcs_utils import alt_text
from lcs_utils.evaluation import against_null, null_figures
from lcs_utils.evaluation.against_null import WORDS, At, Beside, Found
from lcs_utils.evaluation.eye.agreement import agreement
from lcs_utils.evaluation.eye.hand_count_rows import HandCount
from lcs_utils.evaluation.rows import Row
from lcs_utils.evaluation.tables import say
from lcs_utils.evaluation.wording import CELLS
from lcs_utils.plotting import MARKERS, PALETTE, band
from lcs_utils.stats import Interval, as_dicts, interval

WHO = {"eye": "objects, by eye", "counter": "objects, by the counter"}
SAID = 6  # K that the alternative text describes
FACES = {1: {}, 0: {"mfc": "white", "lw": 1.1}}  # of a net's color, by tolerance
NULLS = {1: ":", 0: (0, (1, 3))}
NEUTRAL = "0.35"  # of what is not a net's


class Counted(NamedTuple):
    """Objects per sample, counted by eye and by the counter, on the same samples."""

    eye: Interval
    counter: Interval
    samples: int


class Real(NamedTuple):
    """Everything the figure shows: {family: {label: {tolerance: Found}}}, and {label: {K: Counted}} at the
    paper's locations.
    """

    measured: dict[str, dict[str, dict[int, Found]]]
    counted: dict[str, dict[int, Counted]]

    def numbers(self) -> dict[str, Any]:
        """The same as nested dicts with words as keys, for JSON."""
        by_family = {
            family: {
                label: {
                    WORDS[tolerance]: {"K": as_dicts(of.k), "at": as_dicts(of.at)}
                    for tolerance, of in by_tolerance.items()
                }
                for label, by_tolerance in found.items()
            }
            for family, found in self.measured.items()
        }
        return {"measured": by_family, "by_eye": as_dicts(self.counted)}


def by_eye(
    hands: Sequence[HandCount], rows: Sequence[Row], nets: Mapping[str, Sequence[str]]
) -> dict[str, dict[int, Counted]]:
    """{label: {K: Counted}} of samples that have both a count by eye and a row; labels without any are left
    out.
    """
    mine = [row for row in rows if row.family == "test"]
    found: dict[str, dict[int, Counted]] = {}
    for label, group in nets.items():
        those = [row for row in mine if row.net in group]
        try:
            pairs = agreement(list(hands), those).pairs
        except ValueError:  # nobody looked at this net's samples
            continue
        found[label] = {}
        for k in sorted({row.k for _, row in pairs}):
            seen = [
                np.array(counts, float)
                for counts in zip(*((hand.count, row.count) for hand, row in pairs if row.k == k))
            ]
            found[label][k] = Counted(*(interval(counts) for counts in seen), len(seen[0]))
    return found


def is_it_real(
    rows: Sequence[Row], nets: Mapping[str, Sequence[str]], hands: Sequence[HandCount] = (), seed: int = 0
) -> Real:
    """Number and places, looks, cells filled, K and conditions obeyed of `nets` {label: trainings}, each with
    its null (App. E.2).

    Families that were not measured are left out. Raises ValueError when none was measured, or for rows that
    do not say where objects are.
    """
    measured = {family: against_null.along_k(rows, nets, family, seed=seed) for family in CELLS}
    measured = {family: found for family, found in measured.items() if found}
    if not measured:
        names = " ".join(net for group in nets.values() for net in group)
        preset = next((row.preset for row in rows), "PRESET")
        command = f"python -m lcs_utils.training measure {names} --preset {preset}"
        raise ValueError(f"no rows for {names}; measure them: {command}")
    return Real(measured, by_eye(hands, rows, nets))


def _by_number_and_places(axes: Axes, found: dict[int, Found], color: str) -> None:
    for tolerance, of in found.items():
        own = {k: at.placed.own for k, at in of.at.items()}
        band(axes, own, color, MARKERS.get(color, "o"), WORDS[tolerance], **FACES[tolerance])
        null = {k: at.placed.null for k, at in of.at.items()}
        band(axes, null, color, ls=NULLS[tolerance], lw=1.3, label=f"its null, {WORDS[tolerance]}")
    near = found[1].k
    looks = {k: at.looks.value for k, at in found[1].at.items()}
    axes.plot(
        list(looks),
        list(looks.values()),
        color=NEUTRAL,
        ls="-.",
        lw=1.3,
        label="looks right to the counter",
    )
    words = f"K = {say(near.placed)}\nnull {say(near.placed_null)}".replace("= ≥", "≥")
    axes.text(0.98, 0.97, words, transform=axes.transAxes, ha="right", va="top", fontsize=9)


def _name_lines(panels: np.ndarray, families: Sequence[str]) -> None:
    """Write beside each row what its lines are, for all nets; the second family's are the first's."""
    rows = [
        {word: _without_color(line) for axes in row for line, word in zip(*axes.get_legend_handles_labels())}
        for row in panels
    ]
    rows[len(families)] = {
        CELLS[family]: Line2D([], [], color=NEUTRAL, ls=dashes)
        for family, dashes in zip(families, ("-", "--"))
    } | {"thin: all there is room for, within one cell": Line2D([], [], color=NEUTRAL, lw=0.8)}
    for i, (axes, lines) in enumerate(zip(panels[:, -1], rows, strict=True)):
        if i == 0 or i >= len(families):
            words = [textwrap.fill(word, 24) for word in lines]
            axes.legend(lines.values(), words, loc="center left", bbox_to_anchor=(1.01, 0.5), fontsize=9)


def _without_color(line: Line2D) -> Line2D:
    """A legend's line for all nets, gray in place of one net's color."""
    made = Line2D([], [])
    made.update_from(line)
    hollow = line.get_markerfacecolor() == "white"
    if line.get_color() in MARKERS:
        made.set(color=NEUTRAL, markerfacecolor="white" if hollow else NEUTRAL, markeredgecolor=NEUTRAL)
    return made


def plot(real: Real, colors: Mapping[str, str] = MappingProxyType({})) -> Figure:
    """One column per net, in its color: number and places with their null, by family; cells filled minus the
    null; objects counted by eye and by the counter.
    """
    labels = list(dict.fromkeys(label for found in real.measured.values() for label in found))
    height = len(real.measured) + 2 if real.counted else len(real.measured) + 1
    size = (2.45 * len(labels) + 1.9, 1.95 * height + 0.3)
    figure, panels = plt.subplots(height, len(labels), figsize=size, squeeze=False, sharex=True)
    for column, label in zip(panels.T, labels, strict=True):
        color = colors.get(label, PALETTE["blue"])
        samples = {
            at.samples
            for found in real.measured.values()
            if label in found
            for at in found[label][1].at.values()
        }
        column[0].set_title(
            f"{label}\n{'-'.join(map(str, sorted({min(samples), max(samples)})))} samples of each K",
            fontsize=11,
        )
        rest = list(column)
        for found in real.measured.values():
            axes = rest.pop(0)
            axes.set(ylim=(-0.03, 1.4), yticks=(0, 0.5, 1))
            _by_number_and_places(axes, found[label], color) if label in found else axes.text(
                5, 0.5, "not measured", ha="center", color="0.5"
            )
        axes = rest.pop(0)
        for found, dashes in zip(real.measured.values(), ("-", "--")):
            for tolerance, of in found.get(label, {}).items():
                above = {k: at.filled.above for k, at in of.at.items()}
                band(axes, above, color, MARKERS.get(color, "o"), ls=dashes, **FACES[tolerance])
            room = (
                {k: 1 - at.filled.null.value for k, at in found[label][1].at.items() if at.filled.null}
                if label in found
                else {}
            )
            axes.plot(list(room), list(room.values()), color=NEUTRAL, lw=0.8, ls=dashes)
        axes.axhline(0, color="0.4", lw=1)
        axes.set(ylim=(-0.25, 1.03), yticks=(0, 0.5, 1))
        if real.counted:
            axes = rest.pop(0)
            axes.plot([0, 9], [0, 9], color="0.6", lw=1, ls="--", label="K")
            for name, color, marker in (("eye", "black", "D"), ("counter", "0.55", "^")):
                band(
                    axes,
                    {k: getattr(of, name) for k, of in real.counted.get(label, {}).items() if k},
                    color,
                    marker,
                    WHO[name],
                )
            if label not in real.counted:
                axes.text(5, 1, "nobody looked", ha="center", color="0.5")
            axes.set_ylim(0, None)
        column[-1].set(xlabel="K, locations asked for", xticks=range(1, 10))
    names = [f"number and places\n{words}" for family, words in CELLS.items() if family in real.measured]
    names += ["cells filled\nminus the null"] + [f"objects,\n{CELLS['test']}"] * bool(real.counted)
    for axes, name in zip(panels[:, 0], names, strict=True):
        axes.set_ylabel(name, fontsize=9.5)
    _name_lines(panels, list(real.measured))
    told = "Along K, beside the null."
    for family, found in real.measured.items():
        near = {label: of[1] for label, of in found.items()}
        told += f" {CELLS[family].capitalize()}: {null_figures.in_words(near, SAID)}"
    alt_text.attach(figure, told)
    return figure


def markdown(real: Real, ks: Sequence[int] = (3, 4, 6, 8)) -> str:
    """The numbers as a Markdown table, the null in parentheses: one line per net, family and tolerance."""
    heads = [
        f"number and places right, K = {' / '.join(map(str, ks))} (null)",
        "looks right",
        "cells filled (null; others of the list)",
        "conditions obeyed",
        "K by number and places (null)",
        "K of what also looks right",
    ]
    lines = ["| net | asked for | tolerance | " + " | ".join(heads) + " |", "|---" * 9 + "|"]

    def beside(values: Sequence[Beside | None]) -> str:
        def said(of):
            return "–" if of is None else f"{of.value:.2f}"

        return " / ".join("–" if of is None else f"{said(of.own)} ({said(of.null)})" for of in values)

    def filled(at: At | None) -> str:
        others = f"; {at.others.value:.2f}" if at and at.others else ""
        return beside([at and at.filled]).replace(")", others + ")")

    for family, found in real.measured.items():
        for label, by_tolerance in found.items():
            for tolerance, of in by_tolerance.items():
                at = [of.at.get(k) for k in ks]
                obeyed = " / ".join(
                    "–" if one is None or one.obeyed is None else f"{one.obeyed.value:z.1f}" for one in at
                )
                looks = " / ".join("–" if one is None else f"{one.looks.value:.2f}" for one in at)
                shares = (beside([one and one.placed for one in at]), looks, " / ".join(map(filled, at)))
                largest = (f"{say(of.k.placed)} ({say(of.k.placed_null)})", say(of.k.paper))
                said = (label, CELLS[family], WORDS[tolerance], *shares, obeyed, *largest)
                lines.append("| " + " | ".join(said) + " |")
    return "\n".join(lines) + "\n"
