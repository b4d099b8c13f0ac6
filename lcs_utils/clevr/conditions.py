"""The conditions of App. E.1: counts of object centers on a 16x16 grid, counts of colors, which objects get labels."""

from collections.abc import Callable
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from lcs_utils.clevr.grid import GRID_SIZE, TEST_LOCATIONS
from lcs_utils.clevr.scenes import COLORS  # also the order of the color condition


class LabelPolicy(NamedTuple):
    """How many of the n objects of a scene get a label: drawn for a batch ([batch 1] -> [batch 1]), and on average."""

    number: Callable[[Tensor, torch.Generator | None], Tensor]
    mean: Callable[[int], float]


def _random_number(n: Tensor, generator: torch.Generator | None) -> Tensor:
    u = torch.rand(n.shape, generator=generator, device=n.device)
    return torch.minimum((u * n).long() + 1, n)  # u * n can round up to n


LABEL_POLICIES = {  # Table 1's columns; yours: LABEL_POLICIES["two"] = LabelPolicy(...)
    "all": LabelPolicy(lambda n, _: n, lambda n: n),
    "single": LabelPolicy(lambda n, _: torch.ones_like(n), lambda n: min(n, 1)),
    "random": LabelPolicy(_random_number, lambda n: (n + 1) / 2),
    "drop_one": LabelPolicy(lambda n, _: n - 1, lambda n: n - 1),
    "none": LabelPolicy(lambda n, _: torch.zeros_like(n), lambda n: 0),
}


def choose_labels(
    present: Bool[Tensor, "batch max_objects"], policy: str, generator: torch.Generator | None = None
) -> Bool[Tensor, "batch max_objects"]:
    """Which of the present objects get a label (Table 1's columns), by a policy of LABEL_POLICIES: a uniform subset.

    single: one; random: their number is uniform in 1..n; drop_one: all but one. "all" and "none" draw no random numbers.
    Raises ValueError for an unknown policy. The generator's device must be that of `present`.
    Choice: with one object, "drop_one" drops it, so that those images train the empty condition.
    """
    if policy not in LABEL_POLICIES:
        raise ValueError(f"unknown label policy {policy!r}; allowed: {', '.join(LABEL_POLICIES)}")
    if policy == "all":
        return present.clone()
    if policy == "none":
        return torch.zeros_like(present)
    noise = torch.rand(present.shape, generator=generator, device=present.device)
    rank = noise.masked_fill(~present, 2.0).argsort(1).argsort(1)  # a uniform order, absent objects last
    return (rank < LABEL_POLICIES[policy].number(present.sum(1, keepdim=True), generator)) & present


def location_grid(
    locations: Float[Tensor, "batch max_objects 2"],
    labeled: Bool[Tensor, "batch max_objects"],
    grid_size: int = GRID_SIZE,
) -> Float[Tensor, "batch cells"]:
    """Counts of labeled object centers per grid cell, flattened row-major as y * grid_size + x (App. E.1, Fig. 9).

    `locations` are in [0, 1] of the image (x right, y down); absent objects may be NaN. Raises ValueError if
    grid_size < 1.
    Choice: a center outside the image (1-5 % of scenes) is not counted.
    """
    if grid_size < 1:
        raise ValueError(f"grid_size must be at least 1, got {grid_size}")
    inside = labeled & ((locations >= 0) & (locations < 1)).all(-1)  # NaN compares false
    # x < 1 can still round up to the edge in float32, hence the upper clamp
    cell = (locations.nan_to_num(0.0, 0.0, 0.0) * grid_size).floor().clamp(0, grid_size - 1).long()
    flat = cell[..., 1] * grid_size + cell[..., 0]
    grid = torch.zeros(len(locations), grid_size**2, dtype=torch.float32, device=locations.device)
    return grid.scatter_add_(1, flat, inside.to(grid.dtype))


def color_counts(
    colors: Int[Tensor, "batch max_objects"], labeled: Bool[Tensor, "batch max_objects"]
) -> Float[Tensor, "batch 8"]:
    """Counts of labeled objects per color, in the order of COLORS (App. E.1); absent objects have color -1."""
    if int(colors.max()) >= len(COLORS):
        raise ValueError(f"color {int(colors.max())} is not in 0..{len(COLORS) - 1} ({', '.join(COLORS)})")
    counts = torch.zeros(len(colors), len(COLORS), dtype=torch.float32, device=colors.device)
    return counts.scatter_add_(1, colors.clamp(min=0).long(), (labeled & (colors >= 0)).to(counts.dtype))


def test_condition(k: int) -> Float[Tensor, "256"]:
    """The grid with one object at each of the first `k` test locations (App. E.1, Fig. 1).

    Raises ValueError for k not 0..12.
    """
    if not 0 <= k <= len(TEST_LOCATIONS):
        raise ValueError(f"K must be 0..{len(TEST_LOCATIONS)}, the number of test locations; got {k}")
    locations = torch.tensor(TEST_LOCATIONS)[None]
    return location_grid(locations, torch.arange(len(TEST_LOCATIONS))[None] < k)[0]


test_condition.__test__ = False  # a name from the paper, not a test
