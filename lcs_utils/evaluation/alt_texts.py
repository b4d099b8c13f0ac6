"""Alternative texts of figures: their message in words, with the plotted numbers (`alt` in their JSON)."""

from collections.abc import Mapping, Sequence

from lcs_utils.evaluation.against_null import Beside
from lcs_utils.evaluation.features.feature_ranks import Correlation
from lcs_utils.evaluation.locality.locality_above_null import AboveNull
from lcs_utils.evaluation.locality.locality_rates import AgainstK
from lcs_utils.evaluation.sentences import listed
from lcs_utils.evaluation.tables import BEYOND, Cell
from lcs_utils.evaluation.training_sets import Measured


def figure_1(curves: Mapping[str, Mapping[int, Beside]]) -> str:
    """Fig. 1 in words."""
    last = max(k for of in curves.values() for k in of)
    shares = [f"{label} {of[last].own.value:.0%}" for label, of in curves.items()]
    return (
        f"Samples of {listed(list(curves))} asked for 1 to {last} objects, a dot where one is found at an "
        "asked location, a cross where none is; beside them the share of asked cells filled, "
        f"at K = {last} {listed(shares)}."
    )


def tables(found: Sequence[Cell]) -> str:
    """Tables 1 and 2 in words."""
    both = [cell for cell in found if cell.paper and cell.many]
    lower, higher = (sum(sign * (c.many.value - c.paper.k) > 0 for c in both) for sign in (-1, 1))
    return (
        f"The largest K of {len(both)} trainings, ours beside the paper's, by training set: ours is lower in "
        f"{lower}, higher in {higher}, equal in {len(both) - lower - higher}."
    )


def shares(found: Sequence[Measured]) -> str:
    """A table of trainings in words: K (ours and the paper's) and the cells filled."""
    said = [f"{of.cell.trained_on}, {of.cell.column}: {of.filled.value:.0%}" for of in found]
    return f"K, ours and the paper's, and shares of {len(found)} trainings. Cells filled: {'; '.join(said)}."


def thesis(found: AboveNull, rank: Correlation, perfect: float) -> str:
    """Locality against composition in words."""
    most = max(found.above, key=lambda net: found.above[net].value)
    return (
        f"{rank.nets} trainings at 64 px by how locally they hear conditions at high noise and by the share "
        f"of {BEYOND} random cells that they fill above the null, at most {found.above[most].value:.2f} "
        f"({perfect:.2f} if a net draws just what it is asked for); the "
        f"rank correlation is {rank.value:.2f} [{rank.low:.2f}, {rank.high:.2f}]."
    )


def thesis_without_null(found: AgainstK, rho: Mapping[str, float]) -> str:
    """The same of one preset's nets, cells filled without a null."""
    return (
        f"{len(found.locality)} nets by how locally they hear conditions at high noise and how many cells "
        "they fill at K = 4 to 6; over those that see the whole image the rank correlation is "
        f"{rho['cells filled']:.2f}."
    )
