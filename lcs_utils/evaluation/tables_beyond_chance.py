"""Tables 1 and 2 by number and places at random cells, each K with its null (the same pictures judged at the
conditions of others): figure, table, sentence (App. E.2).
"""

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from lcs_utils.evaluation import against_null, wording
from lcs_utils.evaluation.judged import KS
from lcs_utils.evaluation.rows import Row
from lcs_utils.evaluation.rules import LargestK
from lcs_utils.evaluation.sizes import SIZES
from lcs_utils.evaluation.table_figures import OURS, PAPERS, plot_tables, say_missing
from lcs_utils.evaluation.tables import NEAR, PAPER, Paper, column, near, say
from lcs_utils.nets import row_or_none, seeds_of, trained
from lcs_utils.plotting import PALETTE
from lcs_utils.presets import preset

# Choice: the paper does not say how far Exp. 3's net sees: ours of two cells are compared with its K, too
TWINS = MappingProxyType({"exp3_1_r2": "exp3_1", "exp3_r2": "exp3", "exp3_1-5_r2": "exp3_1-5"})
TWO_CELLS = MappingProxyType({net: PAPER[entry] for net, entry in TWINS.items()})
NETS = MappingProxyType({**PAPER, "exp3_r2": TWO_CELLS["exp3_r2"]})  # the others are trained by Muon alone
FAMILY = "spread"
RANDOM, PAPERS_CELLS = wording.CELLS.values()
NULL = PALETTE["orange"]
MOST = 12  # locations of the paper's list
KEYS = (
    Line2D([], [], marker="o", ms=7, lw=2.4, color=OURS, label=f"ours, {RANDOM}, 95% (▶: at least)"),
    Line2D([], [], marker="o", ms=6, lw=1, color=OURS, mfc="white", label=f"ours, {PAPERS_CELLS}, 95%"),
    Line2D([], [], marker="x", ms=7, lw=0, mew=2, color=NULL, label="its null"),
    Line2D([], [], marker="D", ms=8, lw=0, mfc="white", mec=PAPERS, label="the paper, its cells, by eye"),
)


class Cell(NamedTuple):
    """One net of Table 1 or 2: the paper's K, ours and the null's at random cells, ours at the paper's own
    locations. None: not trained, or no null.
    """

    net: str
    column: str
    trained_on: str
    paper: Paper
    own: LargestK | None
    null: LargestK | None
    at_papers: LargestK | None
    null_at_papers: LargestK | None = None

    @property
    def near(self) -> bool | None:
        """Whether ours at random cells agrees with the paper's (`tables.near`)."""
        return near(self.own, self.null, self.paper.k)

    @property
    def near_at_papers(self) -> bool | None:
        """The same at the paper's own locations."""
        return near(self.at_papers, self.null_at_papers, self.paper.k)

    @property
    def entry(self) -> str:
        """The net whose entry in the paper's tables this one is compared with."""
        return TWINS.get(self.net, self.net)


def cells(rows: Sequence[Row], nets: Mapping[str, Paper] = NETS, seed: int = 0) -> list[Cell]:
    """A cell for every net, over all its trainings, or not trained (Tables 1, 2). Raises ValueError for an
    unknown net.
    """
    measured = {(row.net, row.family) for row in rows if row.k > 0}

    def largest(net: str, family: str) -> against_null.Ks | None:
        there = seeds_of({name for name, of in measured if of == family}, net)
        if not there:
            return None
        return against_null.ks_of_nets(rows, there, family, ks=range(1, MOST + 1), seed=seed)

    found = []
    for net, paper in nets.items():
        low, high = trained(net).objects
        own, listed = largest(net, FAMILY), largest(net, "test")
        radius = trained(net).radius
        found.append(
            Cell(
                net,
                column(net) + (f", r = {radius}" if radius is not None else ""),
                f"{low}" if low == high else f"{low}-{high}",
                paper,
                own.placed if own else None,
                own.placed_null if own else None,
                listed.placed if listed else None,
                listed.placed_null if listed else None,
            )
        )
    return found


def _row(axes: Axes, at: float, cell: Cell) -> None:
    if cell.own is None:
        say_missing(axes, at, cell.paper.k, "not trained")
    else:
        if not cell.own.capped:  # else the distance is not known
            axes.hlines(at, *sorted((cell.own.value, cell.paper.k)), color="0.75", lw=1.2, zorder=1)
        axes.hlines(at, cell.own.low, cell.own.high, color=OURS, lw=2.4, zorder=3)
        marker, beside = (">", 0.4) if cell.own.capped else ("o", 0)  # seen beside the paper's mark
        axes.plot(cell.own.value + beside, at, marker, color=OURS, ms=6.5, zorder=6)
    if cell.at_papers is not None:
        marker, beside = (">", 0.4) if cell.at_papers.capped else ("o", 0)
        axes.hlines(at + 0.3, cell.at_papers.low, cell.at_papers.high, color=OURS, lw=1, zorder=5)
        axes.plot(cell.at_papers.value + beside, at + 0.3, marker, mfc="white", mec=OURS, ms=5, zorder=6)
    if cell.null is not None:
        axes.plot(cell.null.value, at, "x", color=NULL, ms=6, mew=1.8, zorder=5)
    axes.plot(cell.paper.k, at, "D", mfc="white", mec=PAPERS, ms=8, zorder=2)


def plot(found: Sequence[Cell], title: str = SIZES["small"]) -> Figure:
    """Plot our K, its null and the paper's, one net per row, by training set; untrained nets say so."""
    figure = plot_tables(found, _row, KEYS)
    figure.suptitle(title, fontsize=10)
    axes = figure.axes[0]
    axes.axvspan(max(KS) + 0.6, MOST + 0.5, color="0.5", alpha=0.12, lw=0, zorder=0)
    words, above = "not asked at\nrandom cells", axes.get_xaxis_transform()
    axes.text((max(KS) + MOST + 1.1) / 2, 0.985, words, transform=above, ha="center", va="top", fontsize=8)
    return figure


def agrees(k: LargestK | None, near: bool | None) -> str:
    """Whether a K agrees with the paper's, in words: `near` is the cell's."""
    if k is None:
        return "–"
    if near is None:
        return "not asked" if k.capped else "open"
    return "yes" if near else "no"


def markdown(found: Iterable[Cell]) -> str:
    """The trained nets as a table: the paper's K; ours, its null and whether it agrees, at random cells and
    at the paper's own list.
    """
    lines = [
        f"| trained on | labels | the paper's K | ours, {RANDOM} | its null | agrees? "
        f"| ours, {PAPERS_CELLS} | its null | agrees? |",
        "|" + "---|" * 9,
    ]
    for cell in found:
        if cell.own is not None:
            random = (say(cell.own), say(cell.null), agrees(cell.own, cell.near))
            said = (say(cell.at_papers), say(cell.null_at_papers))
            listed = (*said, agrees(cell.at_papers, cell.near_at_papers))
            line = (cell.trained_on, cell.column, str(cell.paper.k), *random, *listed)
            lines.append("| " + " | ".join(line) + " |")
    return "\n".join(lines) + "\n"


def shorter(found: Sequence[Cell], size: str = "small") -> str:
    """The trained nets that saw fewer images than their preset asks for, as a sentence; "" if none."""
    said = []
    for cell in found:
        kept = row_or_none(cell.net, size) if cell.own is not None else None
        asked = preset(size).length(trained(cell.net))
        if kept and kept["images"] < asked:
            said.append(f"{cell.trained_on}, {cell.column}: {kept['images']:,} of {asked:,} images")
    return f"Trained for less than the recipe asks: {'; '.join(said)}." if said else ""


def entries(found: Sequence[Cell]) -> tuple[int, int]:
    """(table entries with a trained net, all entries): two radii share one entry."""
    return len({cell.entry for cell in found if cell.own is not None}), len({cell.entry for cell in found})


def one_object(found: Sequence[Cell]) -> tuple[str, list[bool]]:
    """K of Fig. 4's two nets, local and not, and whether only the local one exceeds one, with its interval
    above the other's: at random cells, and at the paper's own. Of several local nets the first counts.
    """
    of = {cell.entry: cell for cell in reversed(found) if cell.own is not None}
    if not of.keys() >= {"exp3_1", "exp1_1"}:
        return "not trained", []
    local, whole = of["exp3_1"], of["exp1_1"]
    said, holds = [], []
    for words, one, other in (
        (RANDOM, local.own, whole.own),
        (PAPERS_CELLS, local.at_papers, whole.at_papers),
    ):
        if one is not None and other is not None:
            said.append(f"at {words} {say(one)} and {say(other)}")
            holds.append(one.low > max(1, other.high) and other.value <= 1)
    return f"K of the local and of the whole-image net, {'; '.join(said)}", holds


def sentence(found: Sequence[Cell]) -> str:
    """How many trained nets agree with the paper's K within NEAR, above their null, at random cells and at
    the paper's own, and of how many entries they are.
    """
    there = [cell for cell in found if cell.own is not None]
    of_entries, every = entries(found)
    own, listed = [cell.near for cell in there], [cell.near_at_papers for cell in there]
    within = "one" if NEAR == 1 else NEAR
    return (
        f"{own.count(True)} of {len(there)} nets agree with the paper's K within {within} at random cells, "
        f"{listed.count(True)} at the paper's cells; {own.count(None)} and {listed.count(None)} are "
        "open or not asked. "
        f"(To agree, all of K's interval must be within {within}, and above its null's. "
        f"{of_entries} of the tables' {every} entries have a net trained at 64 px.)"
    )
