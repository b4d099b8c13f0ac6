"""Success, colors right, K and conditions obeyed of color-conditioned nets, each next to its null (section 4,
App. E.4).

The null judges the net's own images at the colors that another sample was asked for. Chance is the value for
as many randomly colored objects as were asked for.

    found = of_net(color_generalization.read(), "color_1-3", "subsets")
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from lcs_utils.evaluation.against_null import RULES, Beside, beside, largest_k_of
from lcs_utils.evaluation.colors import color, color_obeyed
from lcs_utils.evaluation.colors.color import ColorRow, decode
from lcs_utils.evaluation.judged import over_pairs
from lcs_utils.evaluation.placement import TIMES
from lcs_utils.evaluation.rows import PLAUSIBLE
from lcs_utils.evaluation.rows import of_net as rows_of_net
from lcs_utils.evaluation.rules import LargestK
from lcs_utils.evaluation.sizes import bare
from lcs_utils.evaluation.tables import near
from lcs_utils.nets import trained
from lcs_utils.stats import Interval, drawn_mean, interval, weights

COMMAND = "python -m lcs_utils.evaluation.colors.color_generalization"
NOTHING = LargestK(0, 0, 0, False)  # a net must draw something


class ColorAt(NamedTuple):
    """One net at one K: number and colors right (`success`, regardless of looks), share of asked objects
    present (`right`), and `chance`, that share for K randomly colored objects.

    `obeyed`: conditions obeyed, None where a color is asked for twice, or where all colors are.
    """

    success: Beside
    right: Beside
    chance: float
    looks: Interval
    drawn: Interval
    obeyed: Interval | None
    samples: int


class ColorFound(NamedTuple):
    """One net: {K: ColorAt}, its K by number and colors, the K of its null, and how many objects its training
    images had at most, up to which the rule allows no other number.
    """

    at: dict[int, ColorAt]
    k: LargestK
    k_null: LargestK | None
    trained: int

    def near(self, paper: int) -> bool | None:
        """Whether K agrees with the paper's (`tables.near`); without a null it must be above 0."""
        return near(self.k, self.k_null or NOTHING, paper)


def judged(row: ColorRow, asked: str) -> ColorRow:
    """The row's image judged at other colors."""
    return row._replace(asked=asked, placed=int(np.minimum(decode(row.found), decode(asked)).sum()))


def asked_otherwise(
    rows: Sequence[ColorRow], pictures: Sequence[ColorRow], times: int = TIMES
) -> list[ColorRow]:
    """The null: each image judged at the differing colors of up to `times` samples of `rows` that follow it.
    Empty where all samples ask for the same.
    """
    found = []
    for i, picture in enumerate(pictures):
        asked = [row.asked for row in (*rows[i + 1 :], *rows[: i + 1])]
        others = [other for other in dict.fromkeys(asked) if other != picture.asked]
        found += [judged(picture, other) for other in others[:times]]
    return found


def _shares(rows: Sequence[ColorRow]) -> dict[str, Float[np.ndarray, "rows"]]:
    exp = trained(rows[0].net, rows[0].preset)
    return {
        "placed": np.array([RULES["placed"].succeeds(row, exp) for row in rows], float),
        "right": np.array([row.placed / row.k for row in rows]),
    }


def _draws(own: Sequence[ColorRow], pictures: Sequence[ColorRow], seed: int) -> dict[str, dict]:
    """{measure: {"own", "null": bootstrap draws, the value first}}; no null if some image has no other
    condition.
    """
    drawn = weights([row.asked for row in own], seed)
    found = {name: {"own": drawn_mean(values, drawn)} for name, values in _shares(own).items()}
    null = asked_otherwise(own, pictures)
    if null and len({row.sample for row in null}) == len(pictures):
        how = drawn if pictures is own else weights([row.asked for row in pictures], seed + 1000)
        mean = over_pairs(null, own, drawn, how)
        for name, values in _shares(null).items():
            found[name]["null"] = mean(values)
    return found


def of_net(rows: Iterable[ColorRow], net: str, family: str = "subsets", seed: int = 0) -> ColorFound:
    """One net's samples of a family at each K >= 1 that was measured.

    Raises ValueError with the command where there are none.
    """
    rows = [row for row in rows if row.net == net]
    mine = [row for row in rows_of_net(rows, net, family) if row.k > 0]
    there = sorted({row.k for row in mine})
    if not there:
        raise ValueError(
            f"no rows of {net!r}, family {family!r}; measure it: {COMMAND} {net} --family {family}"
        )
    at, draws = {}, {}
    for k in there:
        own = sorted((row for row in mine if row.k == k), key=lambda row: row.sample)
        pictures = own
        if family == "colors":  # all samples are asked for the same: those of random subsets stand in
            others = [row for row in rows_of_net(rows, net, "subsets") if row.k == k]
            pictures = sorted(
                (row for row in others if row.asked != own[0].asked), key=lambda row: row.sample
            )
        draws[k] = [_draws(own, pictures, seed + k)]
        twice = any(decode(row.asked).max() > 1 for row in own)
        expected = np.mean([color.chance_placed(decode(row.asked), k) for row in own])
        at[k] = ColorAt(
            beside([draws[k][0]["placed"]], len(own), seed),
            beside([draws[k][0]["right"]], len(own), seed),
            round(float(expected / k), 4),
            interval(np.array([row.plausibility >= PLAUSIBLE for row in own], float), seed=seed, share=True),
            interval(np.array([row.count for row in own], float), seed=seed),
            None if twice or k > color_obeyed.MOST_OBEYED else color_obeyed.conditions_obeyed(own, k, seed),
            len(own),
        )
    k, null = (largest_k_of(draws, "placed", kind, seed) for kind in ("own", "null"))
    if k is None:
        raise ValueError(f"K of {net!r} needs rows for k = 1, 2, ...; there are {there}")
    return ColorFound(at, k, null, trained(net, mine[0].preset).objects[1])


def of_nets(
    rows: Mapping[str, Iterable[ColorRow]], family: str = "subsets", seed: int = 0
) -> dict[str, ColorFound]:
    """`of_net` for each of `rows` {sized net name: its rows}."""
    return {net: of_net(of, bare(net), family, seed) for net, of in rows.items()}
