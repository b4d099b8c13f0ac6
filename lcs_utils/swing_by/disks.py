"""Images of one disk of a size and a color, and how both concepts are read from pixels (arXiv 2410.08309)."""

import math
from dataclasses import dataclass
from functools import cached_property

import torch
from jaxtyping import Float, Int
from torch import Tensor

from lcs_utils.theory.checks import check_count, check_generator, check_number, check_tensor

NEITHER = -1  # the class of a concept that an image does not show
PLACES, GREEN = 0.12, 0.2  # a disk's largest offset from the middle, in sides; its green channel
UNEXPLAINED = 0.5  # share of a disk's energy: an image with more left over shows no disk


@dataclass(frozen=True)
class Disks:
    """Images of one disk, small or large (its radius), red or blue; `pixels` is the side in px.

    `separation` in (0, 1] is the strength of the color concept, the distance of the two hues (1 = pure red
    to pure blue); `diversity` in [0, 0.4] is the half-width of each concept's values around 0 and 1: the mu
    and sigma of SIM.
    Choice: 12 px instead of the 32 px of arXiv 2410.08309, so that a run takes seconds on a CPU.
    Raises ValueError for a side that 4 does not divide, or a separation or diversity out of range.
    """

    separation: float = 1.0
    diversity: float = 0.1
    pixels: int = 12

    def __post_init__(self):
        check_count("pixels", self.pixels, 8)
        if self.pixels % 4:
            raise ValueError(f"pixels must be a multiple of 4 and at least 8, got {self.pixels}")
        check_number("separation", self.separation, 0, 1, above=True)
        check_number("diversity", self.diversity, 0, 0.4)

    @property
    def radii(self) -> tuple[float, float]:
        """Radius of small and large disks (concept values 0 and 1), in px."""
        return 0.17 * self.pixels, 0.30 * self.pixels

    def concepts(
        self, labels: Int[Tensor, "batch 2"], generator: torch.Generator
    ) -> Float[Tensor, "batch 2"]:
        """(size, color) around the labels' 0 and 1, uniform within the diversity: the net's conditions.

        Raises ValueError for labels that are not [batch 2] of 0 and 1.
        """
        check_tensor("labels", labels, (None, 2))
        check_generator(generator)
        if not bool(((labels == 0) | (labels == 1)).all()):
            raise ValueError(f"labels must be 0 or 1, got {sorted(set(labels.flatten().tolist()))}")
        return labels + self.diversity * (2 * torch.rand(labels.shape, generator=generator) - 1)

    def masks(
        self, size: Float[Tensor, "batch"], offset: Float[Tensor, "batch 2"]
    ) -> Float[Tensor, "batch px px"]:
        """Share of each pixel in a disk: size in concept units, offset (row, column) of its center in px."""
        small, large = self.radii
        radius = small + (large - small) * size
        axis = torch.arange(self.pixels) - (self.pixels - 1) / 2
        rows = (axis - offset[:, :1])[:, :, None]  # [batch px 1]
        columns = (axis - offset[:, 1:])[:, None, :]  # [batch 1 px]
        return (radius[:, None, None] + 0.5 - torch.hypot(rows, columns)).clamp(0, 1)

    def images(
        self, concepts: Float[Tensor, "batch 2"], generator: torch.Generator
    ) -> Float[Tensor, "batch 3 px px"]:
        """One disk per (size, color), at a random place (+-12% of the side), in [-1, 1].

        Raises ValueError unless `concepts` is finite and [batch 2].
        """
        check_tensor("concepts", concepts, (None, 2))
        check_generator(generator)
        uniform = 2 * torch.rand(len(concepts), 2, generator=generator) - 1
        inside = self.masks(concepts[:, 0], PLACES * self.pixels * uniform)
        hue = (0.5 + (concepts[:, 1] - 0.5) * self.separation).clamp(0, 1)
        color = torch.stack([1 - hue, torch.full_like(hue, GREEN), hue], dim=1)  # channels always sum to 1.2
        return 2 * inside[:, None] * color[:, :, None, None] - 1

    @cached_property
    def _templates(self) -> tuple[Tensor, Tensor]:
        """Sizes [t] and masks [t px px] that `read` tries: steps of 0.1 in size, half a pixel in place."""
        reach = math.ceil(2 * PLACES * self.pixels) / 2
        place = torch.arange(-reach, reach + 0.1, 0.5)
        size, row, column = torch.cartesian_prod(torch.arange(-0.6, 1.65, 0.1), place, place).unbind(1)
        return size, self.masks(size, torch.stack([row, column], 1))

    def read(self, images: Float[Tensor, "batch 3 px px"]) -> Float[Tensor, "batch 3"]:
        """(size, color, unexplained) of the disk that fits each image best, by least squares.

        Size and color are in concept units: 0 and 1 are the two training values. `unexplained` is the
        squared error that is left, as a share of the disk's own energy: 0 for a disk, 1 for an empty image.
        Raises ValueError for other shapes.
        """
        check_tensor("images", images, (None, 3, self.pixels, self.pixels))
        value = ((images.double() + 1) / 2).clamp(0, 1)
        size, masks = self._templates
        masks = masks.double().flatten(1)
        red, green, blue = (value.flatten(2) @ masks.T).unbind(1)  # [batch t]
        area = masks.square().sum(1)
        hue = (0.5 + (blue - red) / (2 * area)).clamp(0, 1)  # the best one for each template
        energy = area * ((1 - hue) ** 2 + GREEN**2 + hue**2)
        match = red * (1 - hue) + GREEN * green + blue * hue
        error = value.square().sum((1, 2, 3))[:, None] - 2 * match + energy
        best = error.argmin(1, keepdim=True)
        hue, share = hue.gather(1, best), (error / energy).gather(1, best)
        color = 0.5 + (hue - 0.5) / self.separation
        return torch.cat([size.double()[best], color, share.clamp(min=0)], 1).to(images.dtype)

    def classify(self, images: Float[Tensor, "batch 3 px px"]) -> Int[Tensor, "batch 2"]:
        """Class 0 or 1 of size and color, or NEITHER: no disk fits, or the value lies between the two.

        Choice: no disk fits if more than `UNEXPLAINED` of its energy is left over (drawn disks leave 0.1 or
        less, pure noise more than 1); between is 0.4 to 0.6, where no training image of a diversity up to
        0.3 lies.
        """
        reading = self.read(images)
        values = reading[:, :2]
        # sizes are read in steps of 0.1: below 0.1, so that 0.4 and 0.6 have a class however they are rounded
        undecided = ((values - 0.5).abs() < 0.0999) | (reading[:, 2:] > UNEXPLAINED)
        return (values > 0.5).long().masked_fill(undecided, NEITHER)
