"""Tables 1 and 2 by number and places at random cells, each K beside that of the same pictures judged by what
others were asked for: figure, table, sentence (App. E.2).
"""

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from lcs_utils.evaluation import against_null
from lcs_utils.evaluation.rows import Row
from lcs_utils.evaluation.rules import LargestK
from lcs_utils.evaluation.table_figures import OURS, PAPERS, plot_tables, say_missing
from lcs_utils.evaluation.tables import PAPER, Paper, column, say
from lcs_utils.nets import trained
from lcs_utils.plotting import PALETTE

# Choice: the paper does not say how far Exp. 3's net sees: the one of two cells stands beside its K too
NETS = MappingProxyType({**PAPER, "exp3_r2": PAPER["exp3"]})
FAMILY = "spread"
NULL = PALETTE["orange"]
MOST = 12  # locations of the paper's list
NEAR = 1  # this far from the paper's K is as the paper has it
KEYS = (
    Line2D([], [], marker="o", ms=7, lw=2.4, color=OURS, label="ours, 95 % interval (>: at least)"),
    Line2D([], [], marker="x", ms=7, lw=0, mew=2, color=NULL, label="its null"),
    Line2D([], [], marker="D", ms=8, lw=0, mfc="white", mec=PAPERS, label="the paper, 8 samples by eye"),
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

    @property
    def near(self) -> bool:
        """Whether ours is within NEAR of the paper's K; one that succeeds at all K asked may reach it."""
        if self.own is None:
            return False
        reached = max(self.own.value, self.paper.k) if self.own.capped else self.own.value
        return abs(reached - self.paper.k) <= NEAR


def cells(rows: Sequence[Row], nets: Mapping[str, Paper] = NETS, seed: int = 0) -> list[Cell]:
    """A cell for every net, trained or not (Tables 1, 2). Raises ValueError for an unknown net."""
    measured = {(row.net, row.family) for row in rows if row.k > 0}

    def largest(net: str, family: str) -> against_null.Ks | None:
        if (net, family) not in measured:
            return None
        return against_null.of_nets(rows, [net], family, ks=range(1, MOST + 1), seed=seed).k

    found = []
    for net, paper in nets.items():
        low, high = trained(net).objects
        own, listed = largest(net, FAMILY), largest(net, "test")
        radius = trained(net).radius
        found.append(
            Cell(
                net,
                column(net) + (f", {radius} cells" if radius is not None else ""),
                f"{low}" if low == high else f"{low}-{high}",
                paper,
                own.placed if own else None,
                own.placed_null if own else None,
                listed.placed if listed else None,
            )
        )
    return found


def _row(axes: Axes, at: float, cell: Cell) -> None:
    if cell.own is None:
        say_missing(axes, at, cell.paper.k, "not trained")
    else:
        axes.hlines(at, *sorted((cell.own.value, cell.paper.k)), color="0.75", lw=1.2, zorder=1)
        axes.hlines(at, cell.own.low, cell.own.high, color=OURS, lw=2.4, zorder=3)
        axes.plot(cell.own.value, at, ">" if cell.own.capped else "o", color=OURS, ms=6.5, zorder=4)
    if cell.null is not None:
        axes.plot(cell.null.value, at, "x", color=NULL, ms=6, mew=1.8, zorder=5)
    axes.plot(cell.paper.k, at, "D", mfc="white", mec=PAPERS, ms=8, zorder=2)


def plot(found: Sequence[Cell]) -> Figure:
    """Our K, its null and the paper's, a net in each row, by training set; what was not trained says so."""
    return plot_tables(found, _row, KEYS)


def markdown(found: Iterable[Cell]) -> str:
    """The trained nets as a table: K at random cells, its null, K at the paper's own list, the paper's."""
    lines = [
        "| trained on | labels | the paper's K | ours, random cells | its null | ours, the paper's list |",
        "|---|---|---|---|---|---|",
    ]
    for cell in found:
        if cell.own is not None:
            ks = (say(cell.own), say(cell.null), say(cell.at_papers))
            lines.append(f"| {cell.trained_on} | {cell.column} | {cell.paper.k} | " + " | ".join(ks) + " |")
    return "\n".join(lines) + "\n"


def sentence(found: Sequence[Cell]) -> str:
    """How many nets are trained, and which of them are not within NEAR of the paper's K."""
    there = [cell for cell in found if cell.own is not None]
    apart = [f"{c.trained_on}, {c.column} ({say(c.own)}, the paper {c.paper.k})" for c in there if not c.near]
    other = f"; not: {'; '.join(apart)}" if apart else ""
    return (
        f"{len(there)} of {len(found)} nets are trained at 64 px; {len(there) - len(apart)} of these are "
        f"within {NEAR} of the paper's K{other}."
    )
