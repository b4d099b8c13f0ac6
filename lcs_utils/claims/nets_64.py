"""Claims about length generalization (Figs. 1, 4, Tables 1, 2), decided by 64 px nets and their nulls.

Judged by number and places, regardless of looks; how images look is a separate claim.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from lcs_utils.claims import (
    NO,
    OPEN,
    PARTLY,
    UNDECIDED,
    YES,
    Claim,
    extra_objects,
    holds_if,
    judged,
    lies_above,
)
from lcs_utils.evaluation import against_null, sizes, tables_beyond_chance
from lcs_utils.evaluation.against_null import Found
from lcs_utils.evaluation.eye import by_eye, hand_counts
from lcs_utils.evaluation.eye.by_eye import Compared
from lcs_utils.evaluation.rows import Row, read_rows, rows_path, seeds_of
from lcs_utils.evaluation.tables import BEYOND, NEAR, SEEN, say
from lcs_utils.evaluation.tables_beyond_chance import Cell
from lcs_utils.nets import trained
from lcs_utils.stats import Interval, interval, say_interval

FIGURE_1 = ("exp1", "exp2", "exp3_r2")  # a local net of two cells
DOSES = ("exp1", "random_1-3", "drop_one_1-3", "exp2")  # labels: all, a random number, all but one, one
OF_SIX, FARTHER = ("exp1_1-6", "exp2_1-6"), 9  # up to six objects: all labels, one; the largest K
RIGHT = 0.9  # Choice: image quality is acceptable if at least this share looks right
LOOKED_AT = {"exp1, 64 px": "Exp. 1", "exp1/stochastic, 64 px": "drawn by an SDE"}
LOOKED_AT |= {"render, 64 px": "renders", "spoiled, 64 px": "spoiled renders"}


@cache
def _rows(preset: str) -> tuple[Row, ...]:
    return tuple(read_rows(rows_path(preset)))


@cache
def _of_net(net: str) -> Found | None:
    """All trainings of a 64 px net, at random cells; None without rows."""
    rows = _rows("small")
    trainings = seeds_of(rows, net, "spread")
    return against_null.of_nets(rows, trainings, "spread") if net in trainings else None


def _of_nets(preset: str, nets: Sequence[str]) -> dict[str, Found] | None:
    found = {net: of for net in nets if preset in sizes.SIZES and (of := _of_net(net))}
    return found if len(found) == len(nets) else None


def _at_64(preset: str) -> dict[str, Found] | None:
    return _of_nets(preset, (*FIGURE_1, "exp3"))


def composes(net: str, beyond: bool) -> Callable[[Mapping[str, Found]], tuple[str, str]]:
    """Judge whether K on random cells exceeds training and null; not `beyond`: the net draws one object where
    it is asked for, and K stays within training.
    """

    def judge(found: Mapping[str, Found]) -> tuple[str, str]:
        most, k = trained(net).objects[1], found[net].k
        said = f"K = {say(k.placed)} on random cells, null {say(k.placed_null)}"
        if k.placed_null is None:
            return said, OPEN  # no number without its null
        above = k.placed.low > max(most, k.placed_null.high)
        stays = k.placed.low >= 1 and k.placed.high <= most  # a net that draws nothing shows nothing
        return said.replace("= ≥", "≥"), holds_if(above if beyond else stays)

    return judge


class Falling(NamedTuple):
    """Cells filled above the null at `k` by each net, and how much more each fills than the next."""

    k: int
    above: dict[str, Interval]
    steps: list[Interval]
    trainings: dict[str, int]


def falling(nets: Sequence[str], rows: Sequence[Row], k: int = BEYOND) -> Falling | None:
    """Cells filled by `nets` (all their trainings) at `k` random cells; None if any was not measured."""
    groups = {net: seeds_of(rows, net, "spread") for net in nets}
    if not all(net in group for net, group in groups.items()):
        return None
    at = {net: against_null.of_nets(rows, group, "spread", ks=[k]).at for net, group in groups.items()}
    above = {net: of[k].filled.above for net, of in at.items()}
    steps = against_null.steps(rows, list(groups.values()), k)
    return Falling(k, above, steps, {net: len(group) for net, group in groups.items()})


def falls(found: Falling) -> tuple[str, str]:
    """Whether each net's interval lies above the next's; also says how much more it fills in the same draws
    of conditions and noise.
    """
    said = ", ".join(
        f"{net} {say_interval(of)} (trainings: {found.trainings[net]})" for net, of in found.above.items()
    )
    more = ", ".join(say_interval(of) for of in found.steps)
    verdict, held = judged([lies_above(a, b) for a, b in pairwise(found.above.values())], "pairs")
    return (
        f"cells filled above the null at K = {found.k}: {said}{held}; each fills more than the "
        f"next in the same draws by {more}",
        verdict,
    )


def _falling(nets: Sequence[str], k: int = BEYOND) -> Callable[[str], Falling | None]:
    return lambda preset: falling(nets, _rows("small"), k) if preset in sizes.SIZES else None


def _listed(preset: str) -> tuple[Row, ...] | None:
    """Rows at the paper's locations."""
    return tuple(row for row in _rows("small") if row.family == "test") if preset in sizes.SIZES else None


@cache
def cells(preset: str) -> list[Cell] | None:
    """The entries of Tables 1 and 2 by 64 px nets; None for a preset that these do not stand for."""
    return tables_beyond_chance.cells(_rows("small")) if preset in sizes.SIZES else None


def told(preset: str) -> set[str]:
    """Nets of Tables 1 and 2 that were trained at 64 px; their smaller versions decide nothing."""
    return {cell.net for cell in cells(preset) or () if cell.own is not None}


def entry(net: str) -> Callable[[Sequence[Cell]], tuple[str, str]]:
    """Judge whether K is near the paper's (NEAR) at random cells and at the paper's list: both, one, or none
    and surely not at one of them; undecided where intervals, or what was asked for, leave both open.
    """

    def judge(found: Sequence[Cell]) -> tuple[str, str]:
        cell = next(cell for cell in found if cell.net == net)
        if cell.own is None:
            return "not trained", OPEN
        said = f"K at random cells {say(cell.own)}, null {say(cell.null)}"
        near = [cell.near]
        if cell.at_papers is not None:
            said, near = f"{said}; at the paper's cells {say(cell.at_papers)}", [*near, cell.near_at_papers]
        if True not in near:
            return said, NO if False in near else UNDECIDED
        return said, YES if all(near) else PARTLY

    return judge


def _words(cell: Cell) -> str:
    return f"{cell.trained_on}, {cell.column}"


def extras(preset: str) -> list[Claim]:
    """Claims on how many objects that nobody asked for each net of Tables 1 and 2 draws (`extra_objects`)."""
    seen = extra_objects.checked(cells(preset) or ())
    return [
        Claim(
            f"{of.table}, at 64 px, {of.claim}: trained on {_words(cell)}",
            of.paper,
            "05",
            _listed,
            extra_objects.within(cell.net, of),
        )
        for cell, of in sorted(seen, key=lambda one: one[1].table)
    ]


def entries(preset: str) -> list[Claim]:
    """Claims on each net of Tables 1 and 2 that was trained at 64 px: its K, and its numbers of objects."""
    near = f"Tables 1, 2 at 64 px, within {NEAR} of the paper's K: trained on"
    ks = [
        Claim(f"{near} {_words(cell)}", str(cell.paper.k), "05", cells, entry(cell.net))
        for cell in cells(preset) or ()
        if cell.own is not None
    ]
    return ks + extras(preset)


def one_object(found: Sequence[Cell]) -> tuple[str, str]:
    """Fig. 4: whether the local net alone goes beyond the one object of its training."""
    said, holds = tables_beyond_chance.one_object(found)
    return said, judged(holds)[0] if holds else OPEN


def _above_chance(preset: str) -> dict[str, Found] | None:
    if preset != "tiny":
        return None
    rows, nets = read_rows(rows_path(preset)), ("exp3", "exp2")
    there = {(row.net, row.k) for row in rows if row.family == "test"}
    if not there.issuperset((net, BEYOND) for net in nets):
        return None
    return {net: against_null.of_nets(rows, [net], "test", 1) for net in nets}


def fills_more(found: Mapping[str, Found]) -> tuple[str, str]:
    """Whether the first net fills more cells above its null than the second, at twice the training's K."""
    local, whole = (of.at[BEYOND].filled.above for of in found.values())
    said = f"Exp. 3 {say_interval(local)}, Exp. 2 {say_interval(whole)}"
    return f"cells filled above the null at K = {BEYOND}: {said}", judged([lies_above(local, whole)])[0]


def _looked_at(preset: str) -> Compared | None:
    if preset not in sizes.SIZES:
        return None
    found = by_eye.compare(hand_counts.read_counts())
    there = {row.net for _, row in found.all.pairs if row.k <= SEEN}
    return found if there.issuperset(LOOKED_AT) else None


def acceptable(found: Compared) -> tuple[str, str]:
    """Whether Exp. 1's images look right when judged blind by eye, next to renders and spoiled renders."""

    looks = {words: found.looks(name, SEEN) for name, words in LOOKED_AT.items()}
    each = {words: interval(np.array(seen, float), share=True) for words, seen in looks.items()}
    said = ", ".join(f"{words} {say_interval(of)}" for words, of in each.items())
    own, spoiled = each["Exp. 1"], each["spoiled renders"]
    verdict = YES if own.value >= RIGHT else PARTLY if own.low > spoiled.high else NO
    who = "a vision-language model, blind; intervals over pictures, not judges, who differ by more (A7)"
    return f"share that looks right to {who}: {said}", verdict


CLAIMS = (
    Claim(
        "Fig. 1, Exp. 1 at 64 px: trained with all labels, a net length-generalizes",
        "yes, K = 9",
        "05",
        _at_64,
        composes("exp1", True),
    ),
    Claim(
        "Fig. 1, Exp. 2 at 64 px: trained with one label, it does not",
        "yes, K = 1",
        "05",
        _at_64,
        composes("exp2", False),
    ),
    Claim(
        "Fig. 1, Exp. 3 at 64 px: trained with one label, a local net (r = 2) does",
        "yes, K = 9",
        "06",
        _at_64,
        composes("exp3_r2", True),
    ),
    Claim(
        "Fig. 1, Exp. 3 with r = 3 at 64 px: trained with one label, a local net, our first choice, does",
        "yes, K = 9",
        "A6",
        _at_64,
        composes("exp3", True),
    ),
    Claim(
        "Fig. 1, Exp. 3 at 32 px: above the null, it fills more of the paper's cells than Exp. 2",
        "yes",
        "A1",
        _above_chance,
        fills_more,
    ),
    Claim(
        "Fig. 4 at 64 px: trained on one object, a local net places several, a whole-image net does not",
        "yes",
        "06",
        cells,
        one_object,
    ),
    Claim(
        "Table 2 at 64 px: the more of 1-3 objects are labeled at once, the better a net composes",
        "yes, K = 9, 5, 3, 1",
        "05",
        _falling(DOSES),
        falls,
    ),
    Claim(
        "Table 2, 1-6 objects at 64 px: with all labels a net composes better than with one",
        "yes, K = 11, 1",
        "A2",
        _falling(OF_SIX, FARTHER),
        falls,
    ),
    Claim(
        "App. E.2, Exp. 1 at 64 px: acceptable image quality, K = 1–3", "yes", "A7", _looked_at, acceptable
    ),
)
