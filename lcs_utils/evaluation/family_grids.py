"""Conditions of the length-generalization test as tensors: the locations of `families`, and their grids
(App. E.1).
"""

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from lcs_utils.checks import check_count
from lcs_utils.clevr.conditions import location_grid
from lcs_utils.evaluation import families
from lcs_utils.evaluation.families import FAMILIES, HELD_OUT  # noqa: F401 (names that others use)

LARGEST_K = max(families.LARGEST_K.values())


def locations(family: str, k: int, samples: int, seed: int = 0) -> Float[Tensor, "samples k 2"]:
    """The conditioned locations (x right, y down, in [0, 1]) of each sample (App. E.1).

    Raises ValueError for an unknown family, a k outside its range (0..12; 0..9 for `spread`) or fewer than no
    samples, TypeError for fractions.
    """
    families.check(family, k)
    check_count("samples", samples)
    check_count("seed", seed)
    found = [families.asked(family, k, i, seed) for i in range(samples)]
    return torch.tensor(np.array(found).reshape(samples, k, 2), dtype=torch.float32)


def grids(where: Float[Tensor, "samples k 2"]) -> Float[Tensor, "samples cells"]:
    """The condition of each sample: counts of its locations per cell of the 16x16 grid (App. E.1)."""
    return location_grid(where, torch.ones(where.shape[:2], dtype=torch.bool))
