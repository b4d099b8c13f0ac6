"""What a net is trained on: rendered scenes on the device, and batches of images or patches with freshly
chosen labels (App. E.1).
"""

import json
from collections import deque
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from lcs_utils import paths, store
from lcs_utils.clevr import conditions, dataset
from lcs_utils.clevr.loading import ShardDataset
from lcs_utils.diffusion import from_uint8
from lcs_utils.experiments import Experiment, Preset, is_trial, scene_counts
from lcs_utils.models.local_patch import choose_patches, extract_patches, patch_conditions

READERS, READ_AT_ONCE = 16, 16  # threads that read images of one batch from disk, images of each
AHEAD = 2  # batches that are read while the net works on another


class Batch(NamedTuple):
    """x0 in [-1, 1], its condition, and for patches where the image is (1) and is not (0)."""

    x0: Tensor
    cond: Tensor
    valid: Tensor | None = None


class ImagesOnDisk:
    """The images of a rendered folder, uint8 [n, 3, res, res], indexed like a tensor but read from its
    shards.

    What memory is free keeps them (the system's page cache), once for all processes: 74 GB need not fit
    eight times, nor once. Many readers at once, since a cold disk answers one of them too slowly.
    """

    device = torch.device("cpu")

    def __init__(self, scenes: ShardDataset):
        self.scenes = scenes
        self.readers = ThreadPoolExecutor(READERS)

    def __len__(self) -> int:
        return len(self.scenes)

    def __getitem__(self, index: Tensor) -> Tensor:
        pieces = np.array_split(index.numpy(), max(len(index) // READ_AT_ONCE, 1))
        if len(pieces) == 1:
            return torch.from_numpy(self.scenes.column("images", pieces[0]))
        read = self.readers.map(lambda piece: self.scenes.column("images", piece), pieces)
        return torch.from_numpy(np.concatenate(list(read)))


class Data(NamedTuple):
    """Rendered scenes: uint8 images, centers in [0, 1] and colors, padded by NaN and -1.

    Locations and colors are on the training device, and so are images, except where they would take more
    than half of a GPU's free memory (`load_data`).
    """

    images: Tensor | ImagesOnDisk
    locations: Tensor
    colors: Tensor


def condition_dim(exp: Experiment, radius: int | None) -> int:
    """Size of the net's condition vector: 256 cells, 8 colors, or (2r+1)^2 cells and 2 coordinates (App.
    E.1, E.3).
    """
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


def draws(
    data: Data, exp: Experiment, size: int, steps: int, generator: torch.Generator, make
) -> Iterator[tuple]:
    """`make(data, exp, size, generator)` for so many steps; from images on disk the next ones are made while
    the net works.

    `generator` is always as if nothing had been made ahead, so that a state saved at any step goes on with
    the same draws.
    """
    if torch.is_tensor(data.images):
        for _ in range(steps):
            yield make(data, exp, size, generator)
        return
    ahead = torch.Generator(generator.device)
    ahead.set_state(generator.get_state())

    def one():
        return make(data, exp, size, ahead), ahead.get_state()

    with ThreadPoolExecutor(1) as maker:
        coming = deque(maker.submit(one) for _ in range(min(AHEAD, steps)))
        for step in range(steps):
            made, after = coming.popleft().result()
            if step + AHEAD < steps:
                coming.append(maker.submit(one))
            generator.set_state(after)
            yield made


def verify_once(folder: Path, counts) -> None:
    """Check the SHA-256 of the shards that were written since they were last checked, so that not every
    start reads 147 GB.

    Processes take turns, and what one of them checked the others do not read. A file that a disk altered
    without a write is found by `python -m lcs_utils.clevr.dataset --verify` only. Raises as
    `dataset.verify`.
    """
    mark = _mark(folder)
    with store.exclusive(mark):
        now, checked = _stamps(folder, counts), _checked(mark)
        if any(checked.get(name) != stamp for name, stamp in now.items()):
            dataset.verify(folder, counts)
            store.write_json(mark, checked | now)


def verified(folder: Path, counts) -> bool:
    """Whether all shards of these object counts are there, and as they were when they were last checked."""
    try:
        checked = _checked(_mark(folder))
        return all(checked.get(name) == stamp for name, stamp in _stamps(folder, counts).items())
    except (OSError, ValueError):  # not all is there
        return False


def _mark(folder: Path) -> Path:
    return paths.RUNS / "verified" / (paths.shown(folder).strip("/").replace("/", "_") + ".json")


def _stamps(folder: Path, counts) -> dict[str, list[int]]:
    shards = dataset.verify(folder, counts, checksums=False)
    files = [file for path in shards for file in (path, path.with_suffix(".jsonl")) if file.exists()]
    return {file.name: [file.stat().st_size, file.stat().st_mtime_ns] for file in files}


def _checked(mark: Path) -> dict[str, list[int]]:
    try:
        return json.loads(mark.read_text())
    except (OSError, ValueError):  # not there or broken: nothing was checked
        return {}


def scenes_folder(size: Preset, counts) -> Path:
    """Where the scenes of a preset and some object counts are: runs/data; of a trial its own folder, since
    it has fewer scenes.
    """
    folder = dataset.default_folder(size.resolution, counts)
    return paths.RUNS / size.name / "data" / folder.name if is_trial(size.name) else folder


def render_scenes(exp: Experiment, size: Preset, workers: int, part: tuple[int, int] = (1, 1)) -> Path:
    """Render what is missing of the scenes that serve an experiment, or of one part of them, and say where
    they are (resumable, in shards; `dataset.generate`).
    """
    folder, counts = scenes_folder(size, scene_counts(exp)), scene_counts(exp)
    what = {"seed": 0, "counts": counts, "per_count": size.per_count, "resolution": size.resolution}
    dataset.generate(folder, **what, workers=workers, part=part)
    return folder


def load_data(exp: Experiment, size: Preset, device: torch.device, workers: int) -> Data:
    """The experiment's rendered scenes; renders what is missing first, and checks what nobody has checked."""
    folder, here = scenes_folder(size, scene_counts(exp)), range(exp.objects[0], exp.objects[1] + 1)
    if not verified(folder, here):
        render_scenes(exp, size, workers)
        verify_once(folder, here)
    scenes = ShardDataset(folder, here, check=False)
    room = torch.cuda.mem_get_info(device)[0] // 2 if device.type == "cuda" else 0
    labels = (torch.from_numpy(scenes.column(name)).to(device) for name in ("locations", "colors"))
    return Data(within(ImagesOnDisk(scenes), room, device), *labels)


def within(images: ImagesOnDisk, room: int, device: torch.device) -> Tensor | ImagesOnDisk:
    """The images on the device if they take at most `room` bytes there, read in parts; otherwise as
    they are.
    """
    one = images[torch.arange(1)]
    if len(images) * one.nbytes > room:
        return images
    resident = torch.empty(len(images), *one.shape[1:], dtype=one.dtype, device=device)
    for part in torch.arange(len(images)).split(2**16):
        resident[part] = images[part].to(device)
    return resident
