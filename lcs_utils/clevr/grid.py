"""The 16x16 grid of conditions and the paper's test locations (App. E.1), without torch."""

import numpy as np
from jaxtyping import Float, Int

from lcs_utils.checks import as_array, check_count, shown

GRID_SIZE = 16
MAX_OBJECTS = 63  # per scene: a pixel's candidates are the bits of one integer
TEST_LOCATIONS = (  # (x right, y down) in [0, 1] of the image, in the paper's order (App. E.1)
    (0.65, 0.65), (0.65, 0.25), (0.25, 0.65), (0.35, 0.35), (0.45, 0.65), (0.45, 0.25),
    (0.65, 0.45), (0.25, 0.45), (0.45, 0.45), (0.55, 0.55), (0.35, 0.55), (0.55, 0.35),
)  # fmt: skip


def cells(points: Float[np.ndarray, "points 2"], grid_size: int = GRID_SIZE) -> Int[np.ndarray, "points 2"]:
    """The cell (column, row) that each point (x right, y down, in [0, 1]) lies in; one point is [2] or
    [1, 2].

    Raises ValueError for points of another shape, or not finite.
    """
    check_count("grid_size", grid_size, 1)
    points = as_array("points", points)
    if points.size and (points.ndim > 2 or points.shape[-1:] != (2,)):
        raise ValueError(f"points must have shape [points, 2], got {list(points.shape)}")
    return np.floor(points.reshape(-1, 2) * grid_size).astype(int)


def apart(a: Int[np.ndarray, "a 2"], b: Int[np.ndarray, "b 2"]) -> Int[np.ndarray, "a b"]:
    """How many cells apart: the larger of the two differences of indices (Chebyshev); neighbors, also
    diagonal, are 1 apart. Raises ValueError for another shape.
    """
    for name, where in (("a", a), ("b", b)):
        if not isinstance(where, np.ndarray) or where.dtype.kind not in "iu":
            raise TypeError(f"{name} must be an array of whole numbers, got {shown(where)}")
        if where.ndim != 2 or where.shape[1] != 2:
            raise ValueError(f"{name} must have shape [cells, 2], got {list(where.shape)}")
    return np.abs(a[:, None] - b[None]).max(-1)
