"""The 16x16 grid of conditions and the paper's test locations (App. E.1), without torch."""

import numpy as np
from jaxtyping import Float, Int

GRID_SIZE = 16
TEST_LOCATIONS = (  # (x right, y down) in [0, 1] of the image, in the paper's order (App. E.1)
    (0.65, 0.65), (0.65, 0.25), (0.25, 0.65), (0.35, 0.35), (0.45, 0.65), (0.45, 0.25),
    (0.65, 0.45), (0.25, 0.45), (0.45, 0.45), (0.55, 0.55), (0.35, 0.55), (0.55, 0.35),
)  # fmt: skip


def cells(points: Float[np.ndarray, "points 2"], grid_size: int = GRID_SIZE) -> Int[np.ndarray, "points 2"]:
    """The cell (column, row) that each point (x right, y down, in [0, 1]) lies in."""
    return np.floor(np.asarray(points).reshape(-1, 2) * grid_size).astype(int)


def apart(a: Int[np.ndarray, "a 2"], b: Int[np.ndarray, "b 2"]) -> Int[np.ndarray, "a b"]:
    """How many cells apart: the larger of the two differences of indices (Chebyshev); neighbors, also diagonal, are 1 apart."""
    return np.abs(a[:, None] - b[None]).max(-1)
