"""Families of conditions: the locations that samples are asked for, as functions of (family, K, sample,
seed); no torch.

Distances are in cells of the 16x16 grid: the larger of the two index differences (Chebyshev).
"""

from functools import cache

import numpy as np
from jaxtyping import Bool, Float, Int

from lcs_utils.checks import as_array, check_array, check_choice, check_count, check_kind
from lcs_utils.clevr.grid import GRID_SIZE, TEST_LOCATIONS, apart, cells
from lcs_utils.stats import read_only

FAMILIES = {
    "test": "the first K of the paper's 12 test locations (App. E.1)",
    "orders": "the first K of the paper's 12 in one of 8 random orders",
    "spread": "K cells at random where training scenes stand, at least 3 apart; other ones for each sample",
    "crowded": "the K object centers of a crowded scene, another one for each sample, never trained on",
}
HELD_OUT = 700_001  # seeds of scenes start here; training data have seed 0
ORDERS = 8
SPACING = 3  # Choice: least distance in cells, so that no object is within one cell of two asked ones
SHARE = 0.95  # Choice: spread cells are the fewest that hold this share of the objects of training scenes
SCENES = 1200  # of 1 to 3 objects, from which those cells are derived
LARGEST_K = {"test": 12, "orders": 12, "spread": 9, "crowded": 12}


def occupied(seed: int = 0) -> Int[np.ndarray, "cells 2"]:
    """The cells (column, row) that objects of training scenes occupy: the fewest that hold SHARE of the
    centers of SCENES scenes. Read-only.

    Choice: scenes of 1, 2, 3 objects in turn, without the visibility test, which costs most of the time.
    """
    return _occupied(check_count("seed", seed))


@cache
def _occupied(seed: int) -> Int[np.ndarray, "cells 2"]:
    from lcs_utils.clevr.scenes import project, sample_scene  # here, since numba takes a second to import

    seen = np.zeros((GRID_SIZE, GRID_SIZE), int)
    for i in range(SCENES):
        scene = sample_scene(HELD_OUT + seed, i, 1 + i % 3, visibility=False, require_centers_inside=True)
        column, row = cells(project(scene)).T
        np.add.at(seen, (row, column), 1)
    order = np.argsort(-seen.ravel(), kind="stable")
    held = np.cumsum(seen.ravel()[order]) / seen.sum()
    chosen = np.sort(order[: int((held < SHARE).sum()) + 1])
    return read_only(np.stack([chosen % GRID_SIZE, chosen // GRID_SIZE], 1))


@cache
def _occupied_apart() -> Bool[np.ndarray, "cells cells"]:
    return read_only(apart(occupied(), occupied()) >= SPACING)


def spread_cells(
    k: int, rng: np.random.Generator, never: Int[np.ndarray, "never 2"] | None = None, tries: int = 2000
) -> Int[np.ndarray, "k 2"]:
    """Draw `k` occupied cells at random, at least SPACING apart and none of `never`, one after another,
    restarting when stuck.

    Raises ValueError when `tries` starts find no room.
    """
    check_count("k", k)
    check_kind("rng", rng, np.random.Generator, "a numpy Generator")
    check_count("tries", tries, 1)
    if never is not None:
        check_array("never", never, ("never", 2), "whole")
    known = occupied()
    allowed = np.ones(len(known), bool)
    if never is not None and len(never):
        allowed = apart(known, never).min(1) > 0
    for _ in range(tries):
        free = allowed.copy()
        chosen: list[int] = []
        while len(chosen) < k and free.any():
            chosen.append(rng.choice(np.flatnonzero(free)))
            free &= _occupied_apart()[chosen[-1]]
        if len(chosen) == k:
            return known[np.array(chosen, int)]
    raise ValueError(
        f"no room for {k} of {allowed.sum()} cells that are {SPACING} apart in {tries} attempts; ask for "
        "fewer"
    )


def middles(where: Int[np.ndarray, "cells 2"]) -> Float[np.ndarray, "cells 2"]:
    """The middle of each cell, in [0, 1]."""
    where = as_array("where", where, ("cells", 2))
    return (where + 0.5) / GRID_SIZE


@cache
def _order(index: int, seed: int) -> Int[np.ndarray, "12"]:
    return read_only(np.random.default_rng([HELD_OUT, seed, index]).permutation(len(TEST_LOCATIONS)))


@cache
def _spread(k: int, sample: int, seed: int) -> Float[np.ndarray, "k 2"]:
    return read_only(middles(spread_cells(k, np.random.default_rng([HELD_OUT, seed, k, sample]))))


@cache
def _crowded(k: int, sample: int, seed: int) -> Float[np.ndarray, "k 2"]:
    from lcs_utils.clevr.scenes import project, sample_scene  # as above

    scene = sample_scene(HELD_OUT + seed, 1000 * k + sample, k, margins=False, require_centers_inside=True)
    return read_only(project(scene).reshape(k, 2))


def check(family: str, k: int) -> None:
    """Raise ValueError for an unknown family, or for more locations than it has."""
    check_choice("family of conditions", family, FAMILIES)
    check_count("K", k, None)
    if not 0 <= k <= LARGEST_K[family]:
        raise ValueError(f"K must be 0..{LARGEST_K[family]} in family {family}, got {k}")


def asked(family: str, k: int, sample: int, seed: int = 0) -> Float[np.ndarray, "k 2"]:
    """The `k` locations (x right, y down, in [0, 1]) that one sample is asked for (App. E.1).

    `seed` is the sampling seed. Read-only. Raises ValueError for an unknown family or more locations than it
    has.
    """
    check(family, k)
    check_count("sample", sample)
    check_count("seed", seed)
    paper = np.array(TEST_LOCATIONS)
    if family == "test":
        return read_only(paper[:k])
    if family == "orders":
        return read_only(paper[_order(sample % ORDERS, seed)[:k]])
    return (_spread if family == "spread" else _crowded)(k, sample, seed)
