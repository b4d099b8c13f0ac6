"""A net's rows judged at their own conditions and, as a null, its pictures of other conditions (App. E.2)."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from lcs_utils.evaluation import placement
from lcs_utils.evaluation.rows import Row, of_net
from lcs_utils.stats import drawn_mean

# whose pictures serve as the null, in order of preference; orders share most of their cells and come last
NULL_FAMILIES = ("spread", "crowded", "orders")
KS = range(1, 10)


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


def judge(rows: Sequence[Row], net: str, k: int, family: str, tolerance: int) -> Judged:
    """A net's rows at one K with everything they are compared to. Raises ValueError when there are none, or
    as `placement.check`.
    """
    mine = sorted((row for row in of_net(rows, net, family) if row.k == k), key=lambda row: row.sample)
    if not mine:
        command = "python -m lcs_utils.evaluation.length_generalization"
        raise ValueError(
            f"no rows for net {net!r} at K = {k}, family {family}; measure them: {command} {net} --family "
            f"{family}"
        )
    pictures = pictures_asked_otherwise(rows, net, k, family)
    return Judged(
        placement.own(mine, tolerance),
        placement.permuted(mine, pictures, tolerance),
        placement.elsewhere(mine, tolerance) if k <= max(KS) else [],
        placement.others_of_the_list(mine, tolerance) if family in ("test", "orders") else [],
        pictures,
    )


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
    at = (picture, np.array([place[row.asked] for row in null]))
    share = 1 / np.bincount(picture)[picture]  # each picture weighs the same

    def table(values):
        found = np.zeros((len(samples), len(asked)))
        np.add.at(found, at, values * share)
        return pictures @ found

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
