"""Assign objects to the cells asked for and, as a null, to cells not asked for.

A net that ignores its conditions fills cells too: more of them the more it draws and the closer the cells
lie. So every statistic of `own` rows is reported with that of `permuted` rows: pictures of the same net that
were drawn for other conditions, judged at these. For a net that ignores its conditions the two are equal by
construction, wherever its objects are. `elsewhere` judges the same pictures at cells not asked for.
All return lists of Rows, to which every rule of `rules` applies.

Needs numpy and scipy only. "Within a tolerance" counts cells of the 16x16 grid (Chebyshev distance): 0 is the
cell asked for itself.
"""

from collections.abc import Iterable, Sequence
from functools import cache, lru_cache
from itertools import islice

import numpy as np
from jaxtyping import Float, Int
from scipy.optimize import linear_sum_assignment

from lcs_utils.checks import as_array, check_count, check_items, check_kind, check_list
from lcs_utils.clevr.grid import TEST_LOCATIONS, apart, cells
from lcs_utils.evaluation import families
from lcs_utils.evaluation.rows import Row, decode, encode

TOLERANCES = (1, 0)  # within one cell, our best reading of App. E.2; the cell asked for itself
TIMES = 8  # Choice: each picture is judged at this many other conditions
OUTSIDE = 1_000_000  # the first sample number of conditions that no sample was drawn with
POOL = 64  # random conditions among which `elsewhere` looks for those that share no cell with a picture's own
FAR = 1e3  # cost of a pair out of reach: more than that of all pairs within reach together


@lru_cache(maxsize=100_000)  # the same few conditions and pictures are judged many times
def _read(text: str) -> tuple[Float[np.ndarray, "points 2"], Int[np.ndarray, "points 2"], frozenset]:
    """The points in a text, their cells, and those cells as a set."""
    points = decode(text)
    where = cells(points)
    return points, where, frozenset(map(tuple, where.tolist()))


def _pairs(asked, asked_cells, centers, center_cells, tolerance: int) -> tuple[np.ndarray, np.ndarray]:
    if not len(asked) or not len(centers):
        return np.empty(0, int), np.empty(0, int)
    close = apart(asked_cells, center_cells) <= tolerance
    distance = np.sqrt(((asked[:, None] - centers[None]) ** 2).sum(-1))
    location, center = linear_sum_assignment(np.where(close, distance, FAR))
    paired = close[location, center]
    return location[paired], center[paired]


def assigned(
    asked: Float[np.ndarray, "k 2"], centers: Float[np.ndarray, "n 2"], tolerance: int = 1
) -> Int[np.ndarray, "pairs 2"]:
    """One-to-one pairs (location, object) within `tolerance` cells: as many as possible and, of those, the
    closest.
    """
    check_count("tolerance", tolerance)
    asked = as_array("asked", asked, ("k", 2)).reshape(-1, 2)
    centers = as_array("centers", centers, ("n", 2)).reshape(-1, 2)
    return np.stack(_pairs(asked, cells(asked), centers, cells(centers), tolerance), 1)


def judged(row: Row, asked: str, tolerance: int) -> Row:
    """The row judged at the locations `asked` (as `encode` writes them) instead: `placed` counts pairs there.
    Raises ValueError for a text that `decode` does not read.
    """
    check_kind("row", row, Row, "a Row")
    check_kind("asked", asked, str, "text")  # what is unhashable, the cache below would not take
    check_count("tolerance", tolerance)
    return row._replace(asked=asked, placed=_placed(asked, row.centers, tolerance))


@lru_cache(maxsize=500_000)
def _placed(asked: str, centers: str, tolerance: int) -> int:
    return len(_pairs(*_read(asked)[:2], *_read(centers)[:2], tolerance)[0])


def check(rows: Sequence[Row]) -> None:
    """Raise ValueError unless all rows hold locations asked for and found, TypeError for other items."""
    for row in check_items("rows", rows, Row, "Rows"):
        asked, centers = len(row.asked.split()) // 2, len(row.centers.split()) // 2
        if asked != row.k or centers != row.count:
            raise ValueError(
                f"a row of {row.net} at K = {row.k} says where {asked} locations and {centers} of "
                f"{row.count} objects are; "
                "rows of an earlier counter do not: count again with python -m "
                "lcs_utils.evaluation.length_generalization"
            )


def own(rows: Iterable[Row], tolerance: int = 1) -> list[Row]:
    """The rows judged at their own conditions, within `tolerance` cells. Raises ValueError as `check`."""
    check_count("tolerance", tolerance)
    rows = check_list("rows", rows)
    check(rows)
    return [judged(row, row.asked, tolerance) for row in rows]


def differ(a: str, b: str) -> bool:
    """Whether two conditions request different cells, regardless of order."""
    for text in (a, b):
        check_kind("a condition", text, str, "text")
    return _read(a)[2] != _read(b)[2]


def other_conditions(rows: Iterable[Row], pictures: Iterable[Row], times: int = TIMES) -> list[Row]:
    """`pictures` with conditions of `rows` in place of their own, each with up to `times` that differ from
    its own.

    Picture i gets the conditions that follow the i-th one. `placed` is not recomputed. Raises ValueError as
    `check`.
    """
    rows, pictures = check_list("rows", rows), check_list("pictures", pictures)
    check(rows + pictures)
    check_count("times", times)
    conditions = list(dict.fromkeys(row.asked for row in rows))
    found = []
    for i, picture in enumerate(pictures):
        start = i % max(len(conditions), 1) + (len(conditions) > 1)
        others = (asked for asked in conditions[start:] + conditions[:start] if differ(asked, picture.asked))
        found += [picture._replace(asked=asked, family=rows[0].family) for asked in islice(others, times)]
    return found


def permuted(
    rows: Iterable[Row], pictures: Iterable[Row], tolerance: int = 1, times: int = TIMES
) -> list[Row]:
    """`pictures` judged at the conditions of `rows` in place of their own: the null.

    Both are of one net, one K and one way of sampling; `pictures` may be `rows`, or samples of another
    family. Empty if all conditions are the same. Raises ValueError as `check`.
    """
    check_count("tolerance", tolerance)
    return [judged(row, row.asked, tolerance) for row in other_conditions(rows, pictures, times)]


@cache
def _never_asked(k: int, index: int) -> str:
    return encode(families.asked("spread", k, OUTSIDE + index))


def elsewhere(rows: Iterable[Row], tolerance: int = 1, times: int = TIMES) -> list[Row]:
    """The rows judged at up to `times` conditions of family `spread` that share no cell with their own.

    A net that ignores its conditions fills fewer of these cells than of its own if its own are cells it
    likes, as the paper's are, which crowd in the middle. So `permuted` is the null; this shows how much the
    choice of cells matters. Raises ValueError as `check`, and for K beyond 9.
    """
    check_count("tolerance", tolerance)
    check_count("times", times)
    rows = check_list("rows", rows)
    check(rows)
    found = []
    for row in rows:
        own = _read(row.asked)[2]
        pool = (_never_asked(row.k, (row.sample + i) % POOL) for i in range(POOL))
        others = (other for other in pool if own.isdisjoint(_read(other)[2]))
        found += [judged(row, other, tolerance) for other in islice(others, times)]
    return found


def others_of_the_list(rows: Iterable[Row], tolerance: int = 1) -> list[Row]:
    """The rows judged at those of the paper's 12 test locations not asked for; `k` is the number of
    these.
    """
    check_count("tolerance", tolerance)
    rows = check_list("rows", rows)
    check(rows)
    paper, found = np.array(TEST_LOCATIONS), []
    for row in rows:
        asked = _read(row.asked)[2]
        rest = np.array([point for point in paper if tuple(cells(point)[0].tolist()) not in asked]).reshape(
            -1, 2
        )
        if len(rest):
            found.append(judged(row, encode(rest), tolerance)._replace(k=len(rest)))
    return found


@lru_cache(maxsize=500_000)
def _within(asked: str, points: str, tolerance: int) -> int:
    close = apart(_read(asked)[1], _read(points)[1]) <= tolerance
    return int(close.any(0).sum()) if close.size else 0


def near(row: Row, asked: str, tolerance: int) -> int:
    """The number of the row's objects that are within `tolerance` cells of any of the locations `asked`."""
    check_kind("row", row, Row, "a Row")
    return overlap(row.centers, asked, tolerance)


def overlap(a: str, b: str, tolerance: int) -> int:
    """The number of locations of `a` within `tolerance` cells of any of `b`: objects at all of `a` would be
    near `b`.
    """
    for text in (a, b):
        check_kind("locations", text, str, "text")
    check_count("tolerance", tolerance)
    return _within(b, a, tolerance)
