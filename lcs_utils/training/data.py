"""What a net is trained on: batches of images or patches with freshly chosen labels (App. E.1)."""

from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from lcs_utils.clevr import conditions
from lcs_utils.diffusion import from_uint8
from lcs_utils.experiments import Experiment
from lcs_utils.models.local_patch import choose_patches, extract_patches, patch_conditions
from lcs_utils.training.images import ImagesOnDisk

NEAR = 0.8  # share of crops over an object: objects cover little of an image, but are the hard part


class Batch(NamedTuple):
    """x0 in [-1, 1], its condition, and for patches a mask: 1 inside the image, 0 outside."""

    x0: Tensor
    cond: Tensor
    valid: Tensor | None = None


class Data(NamedTuple):
    """Rendered scenes: uint8 images, centers as shares of the image's side, and colors, padded by NaN and -1.

    Some of CLEVR's centers lie just outside the image. Locations and colors are on the training device;
    images are too if they fit in half of a GPU's free memory, else they stay on disk (`load_data`).
    """

    images: Tensor | ImagesOnDisk
    locations: Tensor
    colors: Tensor


def condition_dim(exp: Experiment, radius: int | None) -> int:
    """Size of the net's condition vector: 256 cells, 8 colors, or (2r+1)^2 cells and 2 coordinates (App. E.1,
    E.3); a single zero for a net of crops.
    """
    if exp.crop is not None:
        return 1
    if exp.condition == "color":
        return len(conditions.COLORS)
    return conditions.GRID_SIZE**2 if radius is None else (2 * radius + 1) ** 2 + 2


def crops(
    x0: Tensor, data: Data, index: Tensor, side: int, generator: torch.Generator
) -> Float[Tensor, "batch 3 side side"]:
    """Crop a square from each image: a share NEAR of them over one of its objects, the others anywhere."""
    n, room, device = len(x0), x0.shape[-1] - side, generator.device

    def uniform(*shape):
        return torch.rand(shape, generator=generator, device=device)

    which = (uniform(n) * (data.colors[index] >= 0).sum(1)).long()
    over = data.locations[index][torch.arange(n), which] * x0.shape[-1] - side / 2
    over = over + (uniform(n, 2) - 0.5) * side
    anywhere = uniform(n, 2) * room
    over = torch.where(over.isnan(), anywhere, over)  # of an image without objects
    corner = torch.where(uniform(n, 1) < NEAR, over, anywhere).round().clamp(0, room).long().tolist()
    cut = [image[:, y : y + side, x : x + side] for image, (x, y) in zip(x0, corner, strict=True)]
    return torch.stack(cut)


def draw(data: Data, exp: Experiment, size: int, generator: torch.Generator) -> Batch:
    """Draw `size` random images (or two patches or one crop of each) with freshly chosen labels."""
    index = torch.randint(len(data.images), (size,), generator=generator, device=generator.device)
    x0 = from_uint8(data.images[index.to(data.images.device)].to(index.device))
    if exp.crop is not None:
        return Batch(crops(x0, data, index, exp.crop, generator), x0.new_zeros(size, 1))
    # Choice: the label is drawn anew at each visit; App. E.1 ("randomly selected") also allows one per image.
    labeled = conditions.choose_labels(data.colors[index] >= 0, exp.labels, generator)
    if exp.condition == "color":
        return Batch(x0, conditions.color_counts(data.colors[index].long(), labeled))
    # The whole image with the whole condition (Exp. 1, 2), or patches with what lies inside them (Exp. 3).
    grid = conditions.location_grid(data.locations[index], labeled)
    if exp.radius is None:
        return Batch(x0, grid)
    cells = choose_patches(grid, exp.radius, conditions.GRID_SIZE, generator)
    patches, valid = extract_patches(x0, exp.radius, conditions.GRID_SIZE, cells)
    local = patch_conditions(grid, exp.radius, conditions.GRID_SIZE)
    row = torch.arange(size, device=index.device)[:, None]
    return Batch(patches.flatten(0, 1), local[row, cells].flatten(0, 1), valid.flatten(0, 1))
