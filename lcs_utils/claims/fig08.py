"""Fig. 8: the more objects in training images, the better a net composes, judged pair by pair."""

from collections.abc import Sequence
from functools import cache
from itertools import pairwise
from typing import NamedTuple

from lcs_utils.claims import Claim, judged, lies_above
from lcs_utils.claims.nets_64 import FARTHER
from lcs_utils.evaluation import against_null, sizes, wording
from lcs_utils.evaluation.rows import Row, read_rows, rows_path, seeds_of
from lcs_utils.evaluation.tables import NUMBERS, PAPER
from lcs_utils.stats import Interval, say_interval


class Pair(NamedTuple):
    """Two nets of Fig. 8, cells filled above the null by each at `k` random cells, and how much more the
    first fills in the same draws.
    """

    more: str
    fewer: str
    k: int
    above: tuple[Interval, Interval]
    by: Interval


def between(more: str, fewer: str) -> int | None:
    """The K at which the paper's figure tells two nets apart: midway between their K, at most FARTHER; None
    where their K are equal.
    """
    ks = PAPER[more].k, PAPER[fewer].k
    return min(FARTHER, (sum(ks) + 1) // 2) if ks[0] != ks[1] else None


def pairs(rows: Sequence[Row], nets: Sequence[str] = NUMBERS) -> list[Pair] | None:
    """Every two neighbors of `nets` that the paper tells apart; None if any was not measured."""
    groups = {net: seeds_of(rows, net, "spread") for net in nets}
    if not all(net in group for net, group in groups.items()):
        return None
    found = []
    for more, fewer in pairwise(nets):
        if (k := between(more, fewer)) is None:
            continue
        both = [groups[more], groups[fewer]]
        at = (against_null.of_nets(rows, group, "spread", ks=[k]).at[k].filled.above for group in both)
        one, other = at
        assert one and other  # random cells always have a null
        found.append(Pair(more, fewer, k, (one, other), against_null.steps(rows, both, k)[0]))
    return found


def composes_farther(found: Sequence[Pair]) -> tuple[str, str]:
    """Whether in each pair the net of more objects fills more cells above its null, its interval above
    the other's; also says how much more in the same draws.
    """
    said = "; ".join(
        f"{wording.net(of.more)} and {wording.net(of.fewer)} at K = {of.k} "
        f"{say_interval(of.above[0])}, {say_interval(of.above[1])} "
        f"(in the same draws {say_interval(of.by)} more)"
        for of in found
    )
    verdict, held = judged([lies_above(*of.above) for of in found], "pairs")
    return f"cells filled above the null, at a K between the paper's two, nine at most: {said}{held}", verdict


@cache
def _pairs(preset: str) -> list[Pair] | None:
    return pairs(read_rows(rows_path("small"))) if preset in sizes.SIZES else None


CLAIMS = (
    Claim(
        "Fig. 8 at 64 px: the more objects in training, the better a net composes",
        f"yes, K = {', '.join(str(PAPER[net].k) for net in NUMBERS)}",
        "A2",
        _pairs,
        composes_farther,
    ),
)
