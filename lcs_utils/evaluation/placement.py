"""Assign objects to the cells asked for and, as a null, to cells not asked for.

A net that ignores its conditions fills cells too: more of them the more it draws and the closer the cells
lie. So every statistic of `own` rows is reported with that of `permuted` rows: pictures of the same net that
were drawn for other conditions, judged at these. For a net that ignores its conditions the two are equal by
construction, wherever its objects are. `elsewhere` judges the same pictures at cells not asked for.
All return lists of Rows, to which every rule of `rules` applies.

Needs numpy and scipy only. "Within a tolerance" counts cells of the 16x16 grid (Chebyshev distance): 0 is the
cell asked for itself.
"""

from collections.abc import Iterable, Iterator, Sequence
from functools import cache, lru_cache, reduce
from itertools import islice
from operator import or_

import numpy as np
from jaxtyping import Float, Int
from scipy.optimize import linear_sum_assignment

from lcs_utils.checks import as_array, check_count, check_items, check_kind, check_list
from lcs_utils.clevr.grid import GRID_SIZE, TEST_LOCATIONS, apart, cells
from lcs_utils.evaluation import families
from lcs_utils.evaluation.rows import Row, decode, encode

TOLERANCES = (1, 0)  # within one cell, our best reading of App. E.2; the cell asked for itself
TIMES = 8  # Choice: each picture is judged at this many other conditions
OUTSIDE = 1_000_000  # the first sample number of conditions that no sample was drawn with
POOL = 64  # random conditions among which `elsewhere` looks for those that share no cell with a picture's own
FAR = 1e3  # cost of a pair out of reach: more than that of all pairs within reach together


@lru_cache(maxsize=100_000)  # the same few conditions and pictures are judged many times
def _read(text: str) -> tuple[int, ...]:
    """The cells of the points in a text, numbered row by row."""
    return tuple((cells(decode(text)) @ [1, GRID_SIZE]).tolist())


@lru_cache(maxsize=100_000)
def _set(text: str) -> frozenset[int]:
    return frozenset(_read(text))


@lru_cache(maxsize=100_000)
def _around(text: str, tolerance: int) -> tuple[list[int], int]:
    """For each point in a text, and for all together, the cells within `tolerance`, as bits: many are
    compared fast.
    """
    every = np.stack(np.divmod(np.arange(GRID_SIZE**2), GRID_SIZE)[::-1], 1)
    close = apart(cells(decode(text)), every) <= tolerance
    near = [sum(1 << i for i in np.flatnonzero(row).tolist()) for row in close]
    return near, reduce(or_, near, 0)


def assigned(
    asked: Float[np.ndarray, "k 2"], centers: Float[np.ndarray, "n 2"], tolerance: int = 1
) -> Int[np.ndarray, "pairs 2"]:
    """One-to-one pairs (location, object) within `tolerance` cells: as many as possible and, of those, the
    closest.
    """
    check_count("tolerance", tolerance)
    asked = as_array("asked", asked, ("k", 2)).reshape(-1, 2)
    centers = as_array("centers", centers, ("n", 2)).reshape(-1, 2)
    if not len(asked) or not len(centers):
        return np.empty((0, 2), int)
    close = apart(cells(asked), cells(centers)) <= tolerance
    distance = np.sqrt(((asked[:, None] - centers[None]) ** 2).sum(-1))
    pairs = np.stack(linear_sum_assignment(np.where(close, distance, FAR)), 1)
    return pairs[close[pairs[:, 0], pairs[:, 1]]]


def judged(row: Row, asked: str, tolerance: int) -> Row:
    """The row judged at the locations `asked` (as `encode` writes them) instead: `placed` counts pairs there.
    Raises ValueError for a text that `decode` does not read.
    """
    check_kind("row", row, Row, "a Row")
    check_kind("asked", asked, str, "text")  # what is unhashable, the cache below would not take
    check_count("tolerance", tolerance)
    return _judged(row, asked, tolerance)


def _judged(row: Row, asked: str, tolerance: int, **other) -> Row:
    return row._replace(asked=asked, placed=_placed(asked, row.centers, tolerance), **other)


@lru_cache(maxsize=500_000)
def _placed(asked: str, centers: str, tolerance: int) -> int:
    """How many pairs `assigned` finds: the most there can be, by augmenting paths."""
    locations, anywhere = _around(asked, tolerance)
    objects = [cell for cell in _read(centers) if anywhere >> cell & 1]
    reach = [[i for i, cell in enumerate(objects) if around >> cell & 1] for around in locations]
    location_of: dict[int, int] = {}

    def pair(location: int, tried: set[int]) -> bool:
        for i in reach[location]:
            if i not in tried:
                tried.add(i)
                if i not in location_of or pair(location_of[i], tried):  # or the other takes another
                    location_of[i] = location
                    return True
        return False

    return sum(pair(location, set()) for location in range(len(reach)))


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
    return [_judged(row, row.asked, tolerance) for row in rows]


def differ(a: str, b: str) -> bool:
    """Whether two conditions request different cells, regardless of order."""
    for text in (a, b):
        check_kind("a condition", text, str, "text")
    return _set(a) != _set(b)


def other_conditions(rows: Iterable[Row], pictures: Iterable[Row], times: int = TIMES) -> list[Row]:
    """`pictures` with conditions of `rows` in place of their own, each with up to `times` that differ from
    its own.

    Picture i gets the conditions that follow the i-th one. `placed` is not recomputed. Raises ValueError as
    `check`.
    """
    rows, pictures = check_list("rows", rows), check_list("pictures", pictures)
    return [
        picture._replace(asked=asked, family=rows[0].family)
        for picture, asked in _otherwise(rows, pictures, times)
    ]


def _otherwise(rows: list[Row], pictures: list[Row], times: int) -> Iterator[tuple[Row, str]]:
    check(rows + pictures)
    check_count("times", times)
    conditions = list(dict.fromkeys(row.asked for row in rows))
    for i, picture in enumerate(pictures):
        start, own = i % max(len(conditions), 1) + (len(conditions) > 1), _set(picture.asked)
        others = (asked for asked in conditions[start:] + conditions[:start] if _set(asked) != own)
        yield from ((picture, asked) for asked in islice(others, times))


def permuted(
    rows: Iterable[Row], pictures: Iterable[Row], tolerance: int = 1, times: int = TIMES
) -> list[Row]:
    """`pictures` judged at the conditions of `rows` in place of their own: the null.

    Both are of one net, one K and one way of sampling; `pictures` may be `rows`, or samples of another
    family. Empty if all conditions are the same. Raises ValueError as `check`.
    """
    check_count("tolerance", tolerance)
    rows, pictures = check_list("rows", rows), check_list("pictures", pictures)
    return [
        _judged(picture, asked, tolerance, family=rows[0].family)
        for picture, asked in _otherwise(rows, pictures, times)
    ]


@cache
def _listed() -> dict[int, tuple[float, float]]:
    return dict(zip(_read(encode(np.array(TEST_LOCATIONS))), TEST_LOCATIONS, strict=True))


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
        own = _set(row.asked)
        pool = (_never_asked(row.k, (row.sample + i) % POOL) for i in range(POOL))
        others = (other for other in pool if own.isdisjoint(_set(other)))
        found += [_judged(row, other, tolerance) for other in islice(others, times)]
    return found


def others_of_the_list(rows: Iterable[Row], tolerance: int = 1) -> list[Row]:
    """The rows judged at those of the paper's 12 test locations not asked for; `k` is the number of
    these.
    """
    check_count("tolerance", tolerance)
    rows = check_list("rows", rows)
    check(rows)
    found = []
    for row in rows:
        rest = [point for cell, point in _listed().items() if cell not in _set(row.asked)]
        if rest:
            found.append(_judged(row, encode(np.array(rest)), tolerance, k=len(rest)))
    return found


@lru_cache(maxsize=500_000)
def _within(asked: str, points: str, tolerance: int) -> int:
    anywhere = _around(asked, tolerance)[1]
    return sum(anywhere >> cell & 1 for cell in _read(points))


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
