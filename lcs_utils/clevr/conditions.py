"""The conditions of App. E.1: counts of object centers on a 16x16 grid, counts of colors, which objects get
labels.
"""

from collections.abc import Sequence

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from lcs_utils.checks import check_choice, check_count, check_generator, check_tensor, shown
from lcs_utils.clevr.grid import GRID_SIZE, TEST_LOCATIONS
from lcs_utils.clevr.labels import LABEL_POLICIES
from lcs_utils.clevr.scenes import COLORS  # also the order of the color condition

LARGEST_GRID = 1024  # cells along a side


def choose_labels(
    present: Bool[Tensor, "batch max_objects"], policy: str, generator: torch.Generator | None = None
) -> Bool[Tensor, "batch max_objects"]:
    """Choose which present objects get a label (Table 1's columns): a uniform subset, by a policy of
    LABEL_POLICIES.

    single: one; drop_one: all but one. "all" and "none" draw no random numbers.
    Raises ValueError for an unknown policy. The generator's device must be that of `present`.
    Choice: random, in the paper only "a random number", is uniform in 1..n: every image has a label, as with
    "all" and "single".
    Choice: with one object, "drop_one" drops it, so that those images train the empty condition.
    """
    check_tensor("present", present, ("batch", "max_objects"), False, "bool")
    check_choice("label policy", policy, LABEL_POLICIES)
    if generator is not None:
        check_generator(generator)
    if policy == "all":
        return present.clone()
    if policy == "none":
        return torch.zeros_like(present)
    noise = torch.rand(present.shape, generator=generator, device=present.device)
    rank = noise.masked_fill(~present, 2.0).argsort(1).argsort(1)  # a uniform order, absent objects last
    there = present.sum(1, keepdim=True)
    number = LABEL_POLICIES[policy].number(there, generator)
    if number.is_floating_point() or bool(((number < 0) | (number > there)).any()):
        raise ValueError(
            f"label policy {policy}: the numbers of labels are whole, 0 to that of objects; got "
            f"{shown(number.flatten().tolist())} for {shown(there.flatten().tolist())} objects"
        )
    return (rank < number) & present


def location_grid(
    locations: Float[Tensor, "batch max_objects 2"],
    labeled: Bool[Tensor, "batch max_objects"],
    grid_size: int = GRID_SIZE,
) -> Float[Tensor, "batch cells"]:
    """Counts of labeled object centers per grid cell, flattened row-major as y * grid_size + x (App. E.1,
    Fig. 9).

    `locations` are in [0, 1] of the image (x right, y down); absent objects may be NaN. Raises ValueError if
    grid_size < 1.
    Choice: a center outside the image (1-5% of scenes) is not counted.
    """
    check_count("grid_size", grid_size, 1, LARGEST_GRID)
    check_tensor("locations", locations, ("batch", "max_objects", 2), False, "float")
    check_tensor("labeled", labeled, locations.shape[:2], False, "bool")
    inside = labeled & ((locations >= 0) & (locations < 1)).all(-1)  # NaN compares false
    # x < 1 can still round up to the edge in float32, hence the upper clamp
    cell = (locations.nan_to_num(0.0, 0.0, 0.0) * grid_size).floor().clamp(0, grid_size - 1).long()
    flat = cell[..., 1] * grid_size + cell[..., 0]
    grid = torch.zeros(len(locations), grid_size**2, dtype=torch.float32, device=locations.device)
    return grid.scatter_add_(1, flat, inside.to(grid.dtype))


def color_counts(
    colors: Int[Tensor, "batch max_objects"],
    labeled: Bool[Tensor, "batch max_objects"],
    names: Sequence[str] = COLORS,
) -> Float[Tensor, "batch colors"]:
    """Counts of labeled objects per color, in the order of `names`: CLEVR's colors (App. E.1) or a world's.
    Absent objects have color -1. Raises ValueError for a color that has no name, TypeError for other tensors.
    """
    check_tensor("colors", colors, ("batch", "max_objects"), False, "whole")
    check_tensor("labeled", labeled, colors.shape, False, "bool")
    least, most = (int(end) for end in colors.aminmax()) if colors.numel() else (0, 0)
    if least < -1 or most >= len(names):
        wrong = most if most >= len(names) else least
        raise ValueError(f"color {wrong} is not in 0..{len(names) - 1} ({', '.join(names)}), nor -1")
    counts = torch.zeros(len(colors), len(names), dtype=torch.float32, device=colors.device)
    return counts.scatter_add_(1, colors.clamp(min=0).long(), (labeled & (colors >= 0)).to(counts.dtype))


def test_condition(k: int) -> Float[Tensor, "256"]:
    """The grid with one object at each of the first `k` test locations (App. E.1, Fig. 1).

    Raises ValueError for k not 0..12.
    """
    check_count("K, a number of test locations,", k, 0, len(TEST_LOCATIONS))
    locations = torch.tensor(TEST_LOCATIONS)[None]
    return location_grid(locations, torch.arange(len(TEST_LOCATIONS))[None] < k)[0]


test_condition.__test__ = False  # a name from the paper, not a test
