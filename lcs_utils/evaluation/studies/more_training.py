"""What more training buys: number and places, looks, cleanness, locality and K against training images, each
with its null (App. E.2).

    found = along_training(read_rows(rows_path("small")), "exp1", "small", heard=net_locality.read("small"))
    plot({"64 px": found})
"""

from collections.abc import Iterable, Mapping, Sequence
from statistics import mean
from typing import Any, NamedTuple

import numpy as np
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from lcs_utils import nets
from lcs_utils.evaluation import against_null, controls
from lcs_utils.evaluation.against_null import At, Ks
from lcs_utils.evaluation.locality.locality_rates import at_high_noise, chance_locality
from lcs_utils.evaluation.locality.net_locality import IMAGES, SIGMAS, LocalityRow
from lcs_utils.evaluation.null_figures import LOOKED, said
from lcs_utils.evaluation.rows import PLAUSIBLE, Row, check_rows, of_net
from lcs_utils.evaluation.tables import say
from lcs_utils.experiments import EXP1
from lcs_utils.plotting import PALETTE
from lcs_utils.stats import Interval, as_dicts, interval, say_interval

SHADES = {"32 px": PALETTE["orange"], "64 px": PALETTE["blue"], "64 px by Muon": PALETTE["purple"]}
AGAIN = "64 px by Muon, seed 1"  # drawn as its first training, dashed
SEEN = 3  # the most objects in training, so nothing is extrapolated


class Stage(NamedTuple):
    """A net after some number of images: `at` and `k` as in `against_null.Found`; `clean`, its objects' share
    of pixels in their own hue at K = SEEN; `local`, the share of the condition influence at high noise that
    comes from within two cells. None: not measured.
    """

    at: dict[int, At]
    k: Ks
    clean: Interval | None = None
    local: Interval | None = None


def without_extras(rows: Iterable[Row], net: str) -> list[Row]:
    """Rows of `net`'s trainings, relabeled as Exp. 1's, whose rule allows no extra objects up to the trained
    maximum.
    """
    rows = list(rows)
    trainings = nets.seeds_of({row.net for row in rows}, net)
    as_exp1 = {one: nets.Net(EXP1, seed=nets.parts(one)[1]).name for one in trainings}
    return [row._replace(net=as_exp1[row.net]) for row in rows if row.net in as_exp1]


def along_training(
    rows: Iterable[Row],
    net: str,
    preset: str = "tiny",
    family: str = "spread",
    tolerance: int = 1,
    seed: int = 0,
    heard: Sequence[LocalityRow] = (),
) -> dict[int, Stage]:
    """{training images: Stage} of `net` and its snapshots that were measured at every K of LOOKED (App. E.2).

    `heard` are rows of `net_locality`. Raises ValueError when nothing was measured, or for rows that do not
    say where objects are.
    """
    rows = [row for row in check_rows(rows) if row.family == family and row.k > 0]
    stages = nets.along({row.net for row in rows}, net, preset)
    if not stages:
        command = (
            f"python -m lcs_utils.evaluation.length_generalization {net} --preset {preset} --family {family}"
        )
        raise ValueError(f"no rows of {net!r}, preset {preset!r}, family {family!r}; measure it: {command}")

    def stage(name: str) -> Stage:
        found = against_null.of_nets(rows, [name], family, tolerance, seed=seed)
        mine = of_net(rows, name, family)
        clean = np.array([row.cleanness for row in mine if row.k == SEEN and row.cleanness >= 0])
        told = [row for row in heard if row.net == name and row.weights == mine[0].weights]
        return Stage(
            found.at,
            found.k,
            interval(clean) if len(clean) else None,
            at_high_noise(told) if len(told) >= IMAGES * len(SIGMAS) else None,
        )

    measured = {images: stage(name) for images, name in stages.items()}
    return {images: of for images, of in measured.items() if set(LOOKED) <= set(of.at)}


def cleanness_of(control: str) -> float:
    """Mean cleanness of 64 px renders with SEEN objects of one of `controls.CONTROLS`, clean or spoiled."""
    return mean(row.cleanness for row in controls.read() if row.net == f"{control}, 64 px" and row.k == SEEN)


def numbers(found: Mapping[str, Mapping[int, Stage]]) -> dict[str, Any]:
    """All values of the figure, {size: {training images: {...}}}, for JSON."""
    return {
        size: {
            images: {
                "K": as_dicts({"own": of.k.placed, "null": of.k.placed_null}),
                "number and places": as_dicts({k: at.placed for k, at in of.at.items()}),
                "objects": as_dicts({k: at.drawn for k, at in of.at.items()}),
                "looks right": as_dicts({k: at.looks for k, at in of.at.items()}),
                "cleanness": as_dicts({SEEN: of.clean}),
                "condition's influence within two cells": as_dicts({"sigma >= 1": of.local}),
                "samples of each K": next(iter(of.at.values())).samples,
            }
            for images, of in stages.items()
        }
        for size, stages in found.items()
    }


def _share(of: Interval | None) -> str:
    return f"{of.value:.2f}" if of else "–"


def _shade(size: str) -> str:
    return SHADES["64 px by Muon" if size == AGAIN else size]


def _line(axes: Axes, of: Mapping[int, Interval], size: str, label: str = "") -> None:
    if not of:
        return
    value, low, high = zip(*of.values())
    axes.errorbar(
        list(of),
        value,
        [[v - a for v, a in zip(value, low)], [b - v for v, b in zip(value, high)]],
        marker="o",
        ms=4.5,
        color=_shade(size),
        label=label,
        **({"ls": "--", "mfc": "white"} if size == AGAIN else {}),
        capsize=2,
        lw=1.6,
    )


def plot(found: Mapping[str, Mapping[int, Stage]]) -> Figure:
    """Number and places at three K over their null (dotted), and K; at K = SEEN objects drawn, looks and
    cleanness; locality.

    `found` is {size: along_training(...)}; a single net is a point. Bars: 95% over noise and conditions.
    """
    figure, panels = plt.subplots(2, len(LOOKED) + 1, figsize=(9.6, 5.6))
    (*placed, largest), (drawn, looks, clean, local) = panels
    for size, stages in found.items():
        color = _shade(size)
        for axes, k in zip(placed, LOOKED, strict=True):
            there = {images: of.at[k].placed for images, of in stages.items()}
            _line(axes, {images: at.own for images, at in there.items()}, size, size)
            null = {images: at.null.value for images, at in there.items() if at.null}
            axes.plot(list(null), list(null.values()), "o:", ms=3, mfc="white", color=color, lw=1.3)
        at_seen = {images: of.at[SEEN] for images, of in stages.items()}
        _line(drawn, {images: at.drawn for images, at in at_seen.items()}, size)
        _line(looks, {images: at.looks for images, at in at_seen.items()}, size)
        _line(clean, {images: of.clean for images, of in stages.items() if of.clean}, size)
        _line(local, {images: of.local for images, of in stages.items() if of.local}, size)
        ks = {images: of.k.placed for images, of in stages.items()}
        _line(
            largest, {n: Interval(float(k.value), float(k.low), float(k.high)) for n, k in ks.items()}, size
        )
        null_k = {n: of.k.placed_null.value for n, of in stages.items() if of.k.placed_null}
        largest.plot(list(null_k), list(null_k.values()), "o:", ms=3, mfc="white", color=color, lw=1.3)
    for axes, k in zip(placed, LOOKED, strict=True):
        axes.set(title=f"number and places\nright, K = {k}", ylim=(-0.03, 1.05))
    drawn.axhline(SEEN, color="0.5", lw=1, ls="--")
    drawn.set(title=f"objects drawn,\nasked for {SEEN}", ylim=(0, None))
    looks.set(title=f"looks right to the\ncounter, K = {SEEN}", ylim=(-0.03, 1.05))
    largest.set(title="K by number\nand places", ylim=(-0.3, 9.3), yticks=range(0, 10, 3))
    clean.set(title=f"cleanness,\nK = {SEEN}", ylim=(-0.03, 1.15), yticks=(0, 0.25, 0.5, 0.75, 1))
    for control, words in (("render", "clean renders"), ("spoiled", "spoiled")):
        value = cleanness_of(control)
        clean.axhline(value, color="0.5", lw=1, ls="--")
        clean.text(6e3, value + 0.02, words, fontsize=9, color="0.35", va="bottom")
    local.set(title="conditional locality\n(2 cells), σ ≥ 1", ylim=(-0.03, 1.05))
    local.axhline(chance_locality(None), color="0.5", lw=1, ls="--")
    local.text(
        4.5e5, chance_locality(None) - 0.03, "hears all alike", fontsize=9, color="0.35", va="top", ha="right"
    )
    for axes in panels.flat:
        axes.set(xscale="log", xlabel="training images, thousands", xlim=(5e3, 5e5))
        axes.set_xticks([1e4, 1e5, 4e5], ["10", "100", "400"])
        axes.minorticks_off()
    lines, words = placed[0].get_legend_handles_labels()
    lines.append(plt.Line2D([], [], color="0.3", ls=":", marker="o", ms=3, mfc="white"))
    words.append("its null: the same pictures at another sample's cells")
    figure.legend(lines, words, loc="outside lower center", ncols=3, fontsize=9)
    return figure


def markdown(found: Mapping[str, Mapping[int, Stage]], ks: Sequence[int] = LOOKED) -> str:
    """The numbers as a Markdown table, the null in parentheses."""
    told = " / ".join(map(str, ks))
    lines = [
        f"| size | training images | number and places right, K = {told} (null) "
        f"| objects, asked for {SEEN} | looks right, K = {SEEN} | cleanness | locality | K (null) |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for size, stages in found.items():
        for images, of in stages.items():
            shares = " / ".join(said(of.at[k].placed) for k in ks)
            seen = of.at[SEEN]
            lines.append(
                f"| {size} | {images:,} | {shares} | {seen.drawn.value:.2f} | {seen.looks.value:.2f} | "
                f"{_share(of.clean)} | {_share(of.local)} | "
                f"{say(of.k.placed)} ({say(of.k.placed_null)}) |"
            )
    return "\n".join(lines) + "\n"


def cleanness(rows: Iterable[Row], net: str, ks: Sequence[int], family: str = "spread") -> Interval:
    """Mean cleanness of a net's samples over `ks`. Raises ValueError if none was measured."""
    found = [
        row.cleanness for row in of_net(check_rows(rows), net, family) if row.k in ks and row.cleanness >= 0
    ]
    if not found:
        raise ValueError(f"no cleanness of {net!r}, family {family!r}, was measured at K in {list(ks)}")
    return interval(np.array(found))


def ends(nets: Mapping[str, tuple[Sequence[Row], str]]) -> str:
    """A Markdown table of cleanness, and of the share that looks right to the counter, of nets {words: (rows,
    name)} at random cells, with clean and spoiled renders for comparison.
    """
    spans = ((1, 2, 3), (4, 5, 6), (7, 8, 9))
    heads = [f"{what}, K = {ks[0]} to {ks[-1]}" for what in ("cleanness", "to the counter") for ks in spans]
    lines = ["| | " + " | ".join(heads) + " |", "|---" * 7 + "|"]
    beside = {"render": "clean renders", "spoiled": "spoiled renders"}
    control = [row._replace(family="spread") for row in controls.read()]
    every = dict(nets) | {words: (control, f"{name}, 64 px") for name, words in beside.items()}
    for words, (of, net) in every.items():
        mine = of_net(of, net, "spread")
        clean = [say_interval(cleanness(mine, net, ks)) for ks in spans]
        right = [mean(row.plausibility >= PLAUSIBLE for row in mine if row.k in ks) for ks in spans]
        lines.append(f"| {words} | {' | '.join([*clean, *(f'{share:.2f}' for share in right)])} |")
    return "\n".join(lines) + "\n\n"
