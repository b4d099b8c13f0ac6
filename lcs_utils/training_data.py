"""What a net is trained on: rendered scenes on the device, and batches of images or patches with freshly chosen labels (App. E.1)."""

from typing import NamedTuple

import torch
from torch import Tensor

from lcs_utils.clevr import conditions, dataset
from lcs_utils.clevr.loading import ShardDataset
from lcs_utils.diffusion import from_uint8
from lcs_utils.experiments import Experiment, Preset
from lcs_utils.models.local_patch import choose_patches, extract_patches, patch_conditions


class Batch(NamedTuple):
    """x0 in [-1, 1], its condition, and for patches where the image is (1) and is not (0)."""

    x0: Tensor
    cond: Tensor
    valid: Tensor | None = None


class ImagesOnDisk:
    """The images of a rendered folder, uint8 [n, 3, res, res], indexed like a tensor but read from its shards.

    What memory is free keeps them (the system's page cache), once for all processes: 74 GB need not fit eight times, nor once.
    """

    device = torch.device("cpu")

    def __init__(self, scenes: ShardDataset):
        self.scenes = scenes

    def __len__(self) -> int:
        return len(self.scenes)

    def __getitem__(self, index: Tensor) -> Tensor:
        return torch.from_numpy(self.scenes.column("images", index.numpy()))


class Data(NamedTuple):
    """Rendered scenes: uint8 images, centers in [0, 1] and colors, padded by NaN and -1.

    Locations and colors are on the training device, and so are images, except where they would take more than half of a
    GPU's free memory (`load_data`).
    """

    images: Tensor | ImagesOnDisk
    locations: Tensor
    colors: Tensor


def condition_dim(exp: Experiment, radius: int | None) -> int:
    """Size of the net's condition vector: 256 cells, 8 colors, or (2r+1)^2 cells and 2 coordinates (App. E.1, E.3)."""
    if exp.condition == "color":
        return len(conditions.COLORS)
    return conditions.GRID_SIZE**2 if radius is None else (2 * radius + 1) ** 2 + 2


def draw(data: Data, exp: Experiment, size: int, generator: torch.Generator) -> Batch:
    """`size` random images with freshly chosen labels, or for a patch net two patches of each."""
    index = torch.randint(len(data.images), (size,), generator=generator, device=generator.device)
    x0 = from_uint8(data.images[index.to(data.images.device)].to(index.device))
    present = data.colors[index] >= 0
    labeled = conditions.choose_labels(present, exp.labels, generator)
    if exp.condition == "color":
        return Batch(x0, conditions.color_counts(data.colors[index].long(), labeled))
    grid = conditions.location_grid(data.locations[index], labeled)
    if exp.radius is None:
        return Batch(x0, grid)
    cells = choose_patches(grid, exp.radius, conditions.GRID_SIZE, generator)
    patches, valid = extract_patches(x0, exp.radius, conditions.GRID_SIZE, cells)
    local = patch_conditions(grid, exp.radius, conditions.GRID_SIZE)
    row = torch.arange(size, device=index.device)[:, None]
    return Batch(patches.flatten(0, 1), local[row, cells].flatten(0, 1), valid.flatten(0, 1))


def load_data(exp: Experiment, size: Preset, device: torch.device, workers: int) -> Data:
    """The experiment's rendered scenes; renders what is missing first (resumable, in shards)."""
    folders = (range(1), range(1, 4), range(1, 7))  # the empty floor; two that serve every experiment of Tables 1 and 2
    low, high = exp.objects
    counts = next((counts for counts in folders if low in counts and high in counts), range(low, high + 1))
    folder = dataset.default_folder(size.resolution, counts)
    dataset.generate(folder, seed=0, counts=counts, per_count=size.per_count, resolution=size.resolution, workers=workers)
    scenes = ShardDataset(folder, range(low, high + 1))
    room = torch.cuda.mem_get_info(device)[0] // 2 if device.type == "cuda" else 0
    labels = (torch.from_numpy(scenes.column(name)).to(device) for name in ("locations", "colors"))
    return Data(within(ImagesOnDisk(scenes), room, device), *labels)


def within(images: ImagesOnDisk, room: int, device: torch.device) -> Tensor | ImagesOnDisk:
    """The images on the device if they take at most `room` bytes there, read in parts; otherwise as they are."""
    one = images[torch.arange(1)]
    if len(images) * one.nbytes > room:
        return images
    resident = torch.empty(len(images), *one.shape[1:], dtype=one.dtype, device=device)
    for part in torch.arange(len(images)).split(2**16):
        resident[part] = images[part].to(device)
    return resident
