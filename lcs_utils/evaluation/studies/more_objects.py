"""Fig. 8 beside the null: nets told all locations, by the most objects of a training image, at 64 px."""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from lcs_utils import alt_text
from lcs_utils.evaluation import against_null, null_figures
from lcs_utils.evaluation.against_null import Beside, Found
from lcs_utils.evaluation.judged import KS
from lcs_utils.evaluation.rows import Row, seeds_of
from lcs_utils.evaluation.rules import LargestK
from lcs_utils.evaluation.studies.more_training import without_extras
from lcs_utils.evaluation.tables import BEYOND, LABELS, NUMBERS, PAPER, say
from lcs_utils.evaluation.tables_beyond_chance import FAMILY, MOST
from lcs_utils.evaluation.wording import CELLS
from lcs_utils.nets import trained
from lcs_utils.plotting import PALETTE
from lcs_utils.stats import Interval

NETS = NUMBERS[::-1]  # one object first
FAR = max(KS)  # locations: more than any of these nets saw, so that all are judged alike
OURS, PAPERS = PALETTE["blue"], PALETTE["black"]
NOTHING = Interval(*(math.nan,) * 3)
LINES = {BEYOND: ("--", "white", (0, (1, 3))), FAR: ("-", OURS, ":")}  # by K: line, face, line of the null


class ByObjects(NamedTuple):
    """One net of Fig. 8: its training images' objects, the paper's K, and what was found at random cells and
    at the paper's own. None: not trained.
    """

    objects: str
    paper: int
    random: Found | None
    listed: Found | None


def _objects(net: str) -> str:
    """`1-3`: the objects of a net's training images."""
    return "-".join(map(str, dict.fromkeys(trained(net).objects)))


def of_nets(rows: Sequence[Row], nets: Iterable[str] = NETS, seed: int = 0) -> dict[str, ByObjects]:
    """Every net with what all its trainings drew, trained or not (Fig. 8)."""

    def found(net: str, family: str, most: int) -> Found | None:
        nets = seeds_of(rows, net, family)
        return against_null.of_nets(rows, nets, family, ks=range(1, most + 1), seed=seed) if nets else None

    made = {}
    for net in nets:
        exp = trained(net)
        words = _objects(net) + (f", {LABELS[exp.labels]}" if exp.labels != "all" else "")
        made[net] = ByObjects(words, PAPER[exp.name].k, found(net, FAMILY, FAR), found(net, "test", MOST))
    return made


def _at(of: ByObjects, k: int, measure: str) -> Beside | None:
    """A share at K random cells; None where the net was not trained, or not asked for so many."""
    at = of.random.at.get(k) if of.random else None
    return getattr(at, measure) if at else None


def numbers(found: Mapping[str, ByObjects]) -> dict[str, dict]:
    """What `plot` draws, by net."""
    return {
        net: {
            "paper": of.paper,
            "random": of.random and of.random.k.placed,
            "null": of.random and of.random.k.placed_null,
            "listed": of.listed and of.listed.k.placed,
            "filled": {k: _at(of, k, "filled") for k in LINES},
            "placed": _at(of, FAR, "placed"),
        }
        for net, of in found.items()
    }


def _ks(axes: Axes, of: Mapping[int, LargestK | None], beside: float, **look) -> None:
    """K with its interval, as an arrow where no more were asked for."""
    for x, k in of.items():
        if k is not None:
            axes.vlines(x + beside, k.low, k.high, color=look["mec"], lw=2, zorder=2)
            axes.plot([x + beside] * 2, [k.low, k.high], "_", color=look["mec"], ms=10, zorder=2)
            marker = "^" if k.capped else look["marker"]
            axes.plot(x + beside, k.value, **look | {"marker": marker}, zorder=3)


def _shares(axes: Axes, of: Mapping[int, Beside | None], k: int = FAR) -> None:
    """A share by objects in training, its 95% band, and its null dotted; a gap where no net was trained."""
    line, face, dots = LINES[k]
    xs, own = list(of), [at.own if at else NOTHING for at in of.values()]
    axes.plot(xs, [at.value for at in own], "o", ls=line, color=OURS, mfc=face, ms=6)
    axes.fill_between(xs, [at.low for at in own], [at.high for at in own], color=OURS, alpha=0.18, lw=0)
    null = [at.null.value if at and at.null else math.nan for at in of.values()]
    axes.plot(xs, null, ls=dots, color=OURS, lw=1.6)


NAMES = (  # of the first panel: place, words, color
    ((2.75, 9.0), "the paper,\nby eye", PAPERS, "right"),
    ((3.12, 5.7), f"ours,\n{CELLS[FAMILY]}", OURS, "left"),
    ((6.45, 2.9), "ours, the paper's\ncells (hollow)", OURS, "right"),
    ((6.45, 0.5), "null", OURS, "right"),
)


def plot(found: Mapping[str, ByObjects]) -> Figure:
    """Fig. 8: K, the share of cells filled and of pictures right in number and places, by the most objects of
    a training image, each with its null (dotted). A net that was not trained is named so.

    Raises ValueError where none is trained.
    """
    if not any(of.random for of in found.values()):
        raise ValueError("no net of Fig. 8 was trained, there is nothing to draw")
    figure, panels = plt.subplots(1, 3, figsize=(8.6, 3.7), width_ratios=(1.25, 1, 1))
    xs = dict(enumerate(found.values(), 1))
    random = {x: of.random.k.placed if of.random else None for x, of in xs.items()}
    null = {x: of.random.k.placed_null if of.random else None for x, of in xs.items()}
    listed = {x: of.listed.k.placed if of.listed else None for x, of in xs.items()}
    first, last = panels[0], len(xs) + 0.4
    first.axhspan(FAR + 0.5, MOST + 0.5, color="gray", alpha=0.12, lw=0)
    first.text(0.6, MOST + 0.3, "not asked at random cells\n▲: at least", fontsize=8, color="0.35", va="top")
    for place, said, color, side in NAMES:
        first.text(*place, said, color=color, ha=side, va="center", fontsize=9)
    first.plot(list(xs), [of.paper for of in xs.values()], "D-", color=PAPERS, lw=0.8, mfc="white", ms=7)
    for ks, line in ((random, "-"), (null, ":")):
        first.plot(list(xs), [k.value if k else math.nan for k in ks.values()], line, color=OURS, lw=1.7)
    _ks(first, random, 0, marker="o", ls="", mfc=OURS, mec=OURS, ms=6)
    _ks(first, listed, 0.22, marker="o", ls="", mfc="white", mec=OURS, ms=5.5)
    first.set(title="K", ylim=(-0.6, MOST + 0.5), yticks=range(0, MOST + 1, 3))
    for k in LINES:
        filled = {x: _at(of, k, "filled") for x, of in xs.items()}
        _shares(panels[1], filled, k)
        ends = [of.own.value for of in filled.values() if of] or [0.5]
        panels[1].text(last, ends[-1], f"K = {k}", color=OURS, va="center", fontsize=10)
        nulls = [of.null.value for of in filled.values() if of and of.null] or [0.3]
        panels[1].text(last, nulls[-1], f"null, {k}", color=OURS, va="center", fontsize=9)
    _shares(panels[2], {x: _at(of, FAR, "placed") for x, of in xs.items()})
    panels[1].set(title="cells filled", ylim=(0, 1.03), xlabel="objects in a training image")
    panels[2].set(title=f"right in number and\nplaces, K = {FAR}", ylim=(0, 1.03))
    for axes in panels:
        ticks = [of.objects + "\nnot\ntrained" * (of.random is None) for of in xs.values()]
        axes.set_xticks(list(xs), ticks, fontsize=9)
        axes.set_xlim(0.5, last)
    figure.suptitle("64 px, told all locations; dotted: null; 64 samples per K and training", fontsize=10)
    alt_text.attach(figure, words(found))
    return figure


def words(found: Mapping[str, ByObjects]) -> str:
    """The figure in words."""
    said = [
        f"{of.objects}: {say(of.random.k.placed)}, the paper's {of.paper}"
        if of.random
        else f"{of.objects}: not trained"
        for of in found.values()
    ]
    filled = {of.objects: at for of in found.values() if (at := _at(of, FAR, "filled"))}
    shares = ", ".join(f"{name}: {null_figures.said(at)}" for name, at in filled.items())
    return (
        f"K at random cells by the objects of a training image: {'; '.join(said)}. Cells filled at K = {FAR} "
        f"(null): {shares or '–'}."
    )


def by_rule_of_three(rows: Sequence[Row], net: str = "exp1_1-6") -> LargestK:
    """K of a net at the paper's cells, judged as a net of up to three objects is: from four cells on one
    object may be extra, from five on one may be missing. Raises ValueError without rows.
    """
    alike, ks = without_extras(rows, net), range(1, MOST + 1)
    placed = against_null.ks_of_nets(alike, seeds_of(alike, "exp1"), "test", ks=ks).placed
    assert placed is not None
    return placed


def markdown(found: Mapping[str, ByObjects], ks: Sequence[int] = (3, BEYOND, FAR)) -> str:
    """A line per net: the paper's K, ours at random cells and at the paper's own, and rates at random cells,
    each with its null in parentheses.
    """
    told = " / ".join(map(str, ks))
    lines = [
        f"| trained on | the paper's K | K, {CELLS[FAMILY]} (null) | K, {CELLS['test']} (null) "
        f"| right in number and places, K = {told} (null) | cells filled (null) | conditions obeyed |",
        "|" + "---|" * 7,
    ]

    def largest(of: Found | None) -> str:
        return f"{say(of.k.placed)} ({say(of.k.placed_null)})" if of else "–"

    for of in found.values():
        rates = ["not trained", "–", "–"]
        if of.random:
            shares = ([_at(of, k, name) for k in ks] for name in ("placed", "filled"))
            rates = [" / ".join(null_figures.said(at) if at else "–" for at in each) for each in shares]
            heard = [of.random.at[k].obeyed if k in of.random.at else None for k in ks]
            rates.append(" / ".join(f"{value.value:z.1f}" if value else "–" for value in heard))
        line = [of.objects, str(of.paper), largest(of.random), largest(of.listed), *rates]
        lines.append("| " + " | ".join(line) + " |")
    return "\n".join(lines) + "\n"
