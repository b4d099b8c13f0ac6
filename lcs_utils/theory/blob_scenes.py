"""The toy CLEVR of `blobs` scene by scene: the slow twin of its denoisers, for tiny grids."""

import math
from itertools import combinations

import torch

from lcs_utils.theory.blobs import Blobs
from lcs_utils.theory.checks import check_count
from lcs_utils.theory.distributions import GaussianMixture


def enumerate_scenes(blobs: Blobs, label: int | None = None) -> GaussianMixture:
    """p(x | one random object is labeled, and it is in cell `label`), or p(x) without a label, scene by
    scene.

    The slow twin of `blobs.denoiser`: one component per set of occupied cells and coloring, for tiny grids.
    Raises ValueError for a label outside the grid and for more than 20,000 components.
    """
    if label is not None:
        check_count("label", label, 0, blobs.cells - 1)
    colors, most = len(blobs.palette), len(blobs.count_law)
    if (total := sum(math.comb(blobs.cells, k) * colors**k for k in range(1, most + 1))) > 20_000:
        raise ValueError(f"{total:,} scenes are too many to enumerate, at most 20,000 are")
    weights, means = [], []
    for k, p in enumerate(blobs.count_law, 1):
        for J in combinations(range(blobs.cells), k):
            if label is not None and label not in J:
                continue
            places = math.comb(blobs.cells, k) if label is None else math.comb(blobs.cells - 1, k - 1)
            for colors in torch.cartesian_prod(*[torch.arange(len(blobs.palette))] * k).reshape(-1, k):
                cells = blobs.means[0].repeat(blobs.cells, 1)
                cells[list(J)] = blobs.means[1 + colors]
                weights.append(p / places / len(blobs.palette) ** k)
                means.append(blobs.to_image(cells[None]).flatten())
    cov = blobs.noise**2 * torch.eye(3 * blobs.resolution**2, dtype=torch.float64)
    chances = torch.tensor(weights, dtype=torch.float64)
    return GaussianMixture(chances, torch.stack(means), cov.expand(len(means), -1, -1))
