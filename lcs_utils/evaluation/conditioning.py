"""Where samples are asked for objects: the paper's test locations, and layouts of scenes that no net was trained on."""

from functools import cache

import torch
from jaxtyping import Float
from torch import Tensor

from lcs_utils.clevr.conditions import TEST_LOCATIONS, location_grid
from lcs_utils.clevr.scenes import project, sample_scene

FAMILIES = {
    "test": "the first K of the paper's 12 test locations (App. E.1)",
    "scenes": "the K object centers of a crowded scene, another one for each sample, never trained on",
}
LARGEST_K = len(TEST_LOCATIONS)
HELD_OUT = 700_001  # seeds of scenes start here; training data have seed 0


@cache
def _scene_locations(k: int, index: int, seed: int) -> Float[Tensor, "k 2"]:
    scene = sample_scene(HELD_OUT + seed, index, k, margins=False, require_centers_inside=True)
    return torch.tensor(project(scene), dtype=torch.float32).reshape(k, 2)


def locations(family: str, k: int, samples: int, seed: int = 0) -> Float[Tensor, "samples k 2"]:
    """The conditioned locations (x right, y down, in [0, 1]) of each sample (App. E.1).

    Raises ValueError for an unknown family or k outside 0..12.
    """
    if family not in FAMILIES:
        raise ValueError(f"unknown family of conditions {family!r}; allowed: {', '.join(FAMILIES)}")
    if not 0 <= k <= LARGEST_K:
        raise ValueError(f"K must be 0..{LARGEST_K}, got {k}")
    if family == "test":
        return torch.tensor(TEST_LOCATIONS[:k]).reshape(1, k, 2).expand(samples, -1, -1)
    found = [_scene_locations(k, 1000 * k + i, seed) for i in range(samples)]
    return torch.stack(found) if found else torch.empty(0, k, 2)


def grids(where: Float[Tensor, "samples k 2"]) -> Float[Tensor, "samples cells"]:
    """The condition of each sample: counts of its locations per cell of the 16x16 grid (App. E.1)."""
    return location_grid(where, torch.ones(where.shape[:2], dtype=torch.bool))
