"""A net's rows judged at their own conditions and, as a null, its pictures of other conditions, and how many
conditions it obeys (App. E.2).
"""

from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from lcs_utils.evaluation import placement
from lcs_utils.evaluation.rows import Row, of_net
from lcs_utils.stats import drawn_mean, weights

# whose pictures serve as the null, in order of preference; orders share most of their cells and come last
NULL_FAMILIES = ("spread", "crowded", "orders")
KS = range(1, 10)
PRIOR = 0.5  # pseudo-count, objects per sample: steadies the chance estimate when few objects disobey
# Choice: if objects are near an asked cell by chance more often than this, obeying is not estimated
CERTAIN = 0.65


def pictures_asked_otherwise(rows: Iterable[Row], net: str, k: int, family: str) -> list[Row]:
    """The net's samples drawn for other conditions, from which the null is computed.

    They come from the family itself if its conditions differ. Choice: for the paper's locations, in any
    order, they come from another family, since orders share most of their cells.
    """
    rows = list(rows)
    for name in NULL_FAMILIES if family in ("test", "orders") else (family, *NULL_FAMILIES):
        found = [row for row in of_net(rows, net, name) if row.k == k]
        if found:
            return sorted(found, key=lambda row: row.sample)
    return []


class Judged(NamedTuple):
    """One net's rows at one K: judged at their own conditions, its pictures of other conditions (the null),
    at cells never requested, and at the rest of the paper's list.
    """

    own: list[Row]
    null: list[Row]
    elsewhere: list[Row]
    others: list[Row]
    pictures: list[Row]  # behind the null

    @property
    def paired(self) -> bool:
        """Whether the null's pictures are the judged ones themselves."""
        return bool(self.pictures) and self.pictures[0].family == self.own[0].family


def judge(
    rows: Sequence[Row], net: str, k: int, family: str, tolerance: int, null_only: bool = False
) -> Judged:
    """A net's rows at one K with everything they are compared to, or with the null alone. Raises ValueError
    when there are none or two of one number, or as `placement.check`.
    """
    mine = sorted((row for row in of_net(rows, net, family) if row.k == k), key=lambda row: row.sample)
    if not mine:
        command = "python -m lcs_utils.evaluation.length_generalization"
        raise ValueError(
            f"no rows for net {net!r} at K = {k}, family {family}; measure them: {command} {net} --family "
            f"{family}"
        )
    pictures = pictures_asked_otherwise(rows, net, k, family)
    for of in (mine, pictures):
        twice = next((a.sample for a, b in pairwise(of) if a.sample == b.sample), None)
        if twice is not None:
            raise ValueError(
                f"{net} has two rows of sample {twice} at K = {k}, family {of[0].family}; keep one"
            )
    return Judged(
        placement.own(mine, tolerance),
        placement.permuted(mine, pictures, tolerance),
        placement.elsewhere(mine, tolerance) if k <= max(KS) and not null_only else [],
        placement.others_of_the_list(mine, tolerance)
        if family in ("test", "orders") and not null_only
        else [],
        pictures,
    )


def obeyed(
    judged: Judged, tolerance: int, drawn: Float[np.ndarray, "draws samples"], seed: int
) -> Float[np.ndarray, "draws"] | None:
    """Mean number of conditions that a sample obeys, in each bootstrap draw; None where it cannot be
    estimated.

    An object obeys if it stands where it does because it was asked for there. Of n objects, m obey and are
    near an asked cell; each of the others is near one by chance, with probability c: near = m + (n - m) c.
    Judged at other conditions, the same objects are near with the overlap o of the two conditions, or again
    by chance: m o + (n - m) c. The difference is m (1 - o), whatever c, n and their mixture over samples are.
    Where the null's images come from another family, their own m' is estimated first, then c, and near = m +
    (n - m) c is solved for m. The result is not clipped to 0..K: clipping would bias differences.
    """
    pictures = {row.sample for row in judged.pictures}
    if not judged.null or {row.sample for row in judged.null} != pictures:  # one was asked for the same cells
        return None
    asked = {row.sample: row.asked for row in judged.pictures}

    def features(null, conditions, often, pictures):
        near = np.array([placement.near(row, row.asked, tolerance) for row in null], float)
        same = [placement.overlap(asked[row.sample], row.asked, tolerance) / row.k for row in null]
        return map(over_pairs(null, conditions, often, pictures), (near, np.array(same)))

    near_own = np.array([placement.near(row, row.asked, tolerance) for row in judged.own], float)
    if judged.paired:
        near, overlap = features(judged.null, judged.own, drawn, drawn)
        apart = np.maximum(1 - overlap, (1 - CERTAIN) / 2)  # a draw of few conditions may hold only one
        return (drawn_mean(near_own, drawn) - near) / apart if apart[0] > 1 - CERTAIN else None
    again = placement.other_conditions(judged.pictures, judged.pictures)
    if not again:
        return None
    how = weights([row.asked for row in judged.pictures], seed)
    there = np.array([placement.near(row, row.asked, tolerance) for row in judged.pictures], float)
    near, overlap = features(again, judged.pictures, how, how)
    apart = np.maximum(1 - overlap, (1 - CERTAIN) / 2)
    if apart[0] < 1 - CERTAIN:
        return None
    heard = (drawn_mean(there, how) - near) / apart
    near, overlap = features(judged.null, judged.own, drawn, how)
    count = np.maximum(drawn_mean(np.array([row.count for row in judged.pictures], float), how), 1e-9)
    unheeding = np.maximum(count - heard, 0)
    chance = (near - heard * overlap + PRIOR * near / count) / (unheeding + PRIOR)
    if chance[0] > CERTAIN:
        return None
    chance = chance.clip(0, (1 + CERTAIN) / 2)
    all_drawn = drawn_mean(np.array([row.count for row in judged.own], float), drawn)
    return (drawn_mean(near_own, drawn) - all_drawn * chance) / (1 - chance)


def over_pairs(
    null: Sequence[Any],
    own: Sequence[Any],
    drawn: Float[np.ndarray, "draws conditions"],
    pictures: Float[np.ndarray, "draws pictures"],
) -> Callable[[Float[np.ndarray, "rows"]], Float[np.ndarray, "draws"]]:
    """A function from values of the null's rows to their mean in each draw, weighting pictures by `pictures`
    and the conditions they are judged at by `drawn`.

    `drawn` counts the conditions of `own`. Weighting pictures alone would ignore the variation from the
    choice of conditions. A draw without any pair weights all conditions equally.
    """
    samples, picture = np.unique([row.sample for row in null], return_inverse=True)
    asked = list(dict.fromkeys(row.asked for row in own))
    place = {condition: i for i, condition in enumerate(asked)}
    often = drawn  # one sample for each condition
    if len(asked) < len(own):
        often = np.stack([drawn[:, [row.asked == one for row in own]].mean(1) for one in asked], axis=1)
    at = picture * len(asked) + np.array([place[row.asked] for row in null])
    share = 1 / np.bincount(picture)[picture]  # each picture weighs the same

    def table(values):
        found = np.bincount(at, values * share, len(samples) * len(asked))
        return pictures @ found.reshape(len(samples), len(asked))

    weight = table(1.0)
    often = np.where((weight * often).sum(1, keepdims=True) > 0, often, 1)
    total = (weight * often).sum(1)
    return lambda values: (table(values) * often).sum(1) / total


def over_pictures(
    rows: Sequence[Any], pictures: Float[np.ndarray, "draws pictures"]
) -> Callable[[Float[np.ndarray, "rows"]], Float[np.ndarray, "draws"]]:
    """A function from values of rows to their mean in each draw, each picture weighing the same."""
    return lambda values: drawn_mean(by_picture(rows, values), pictures)


def by_picture(rows: Sequence[Row], values: Float[np.ndarray, "rows"]) -> Float[np.ndarray, "pictures"]:
    """The mean of the values of each picture, in the order of sample numbers."""
    samples, picture = np.unique([row.sample for row in rows], return_inverse=True)
    return np.bincount(picture, values, len(samples)) / np.bincount(picture, minlength=len(samples))
