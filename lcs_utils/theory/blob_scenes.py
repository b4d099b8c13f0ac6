"""Enumerated scenes of the toy CLEVR of `blobs`, for tiny grids, and how many objects its models draw."""

import math
from itertools import combinations

import torch

from lcs_utils.theory.blobs import STRATEGIES, Blobs
from lcs_utils.theory.checks import check_count, shown
from lcs_utils.theory.distributions import GaussianMixture


def enumerate_scenes(blobs: Blobs, label: int | None = None) -> GaussianMixture:
    """p(x), or p(x | one random object is labeled, and it is in cell `label`), scene by scene.

    The oracle that `blobs.denoiser` is tested against: one component per set of occupied cells and coloring,
    for tiny grids. Raises ValueError for a label outside the grid and for more than 20,000 scenes.
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


def expected_objects(blobs: Blobs, labeled: int, strategy: str, local: bool) -> float:
    """Mean number of objects that a one-label model draws for `labeled` >= 1 labels, in closed form.

    Global model: the unlabeled objects of one scene are added to one labeled object ("any") or to an object
    at every label ("every"; the unlabeled ones are then in cells without a label). Local model of radius 0:
    every cell decides alone, so each label gives an object, and each of the other m - K cells holds one with
    probability E[k - 1] / (m - 1). Raises ValueError for an unknown strategy, and for no or too many labels.
    """
    check_count("labeled", labeled, 1, blobs.cells)
    if strategy not in STRATEGIES:
        raise ValueError(f"strategy must be one of {STRATEGIES}, got {shown(strategy)}")
    if blobs.cells == 1:
        return 1.0
    extras = sum(p * k for k, p in enumerate(blobs.count_law))
    if local:
        return labeled + (blobs.cells - labeled) * extras / (blobs.cells - 1)
    if strategy == "any":
        return 1 + extras
    # probability of k extras, none of them on another label: they lie in free cells, of all other cells
    free, others = blobs.cells - labeled, blobs.cells - 1
    kept = [p * math.comb(free, k) / math.comb(others, k) for k, p in enumerate(blobs.count_law)]
    return labeled + sum(k * p for k, p in enumerate(kept)) / (sum(kept) or 1)
