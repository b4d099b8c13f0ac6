"""A folder of shards as a torch Dataset that stays on disk, and as a Hugging Face `datasets` table."""

import atexit
import io
import json
import resource
import shutil
import tempfile
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch.utils.data import Dataset

from lcs_utils.checks import check_choice, check_count, is_tensor, shown
from lcs_utils.clevr.annotations import picture_size
from lcs_utils.clevr.dataset import read_manifest, verify
from lcs_utils.clevr.scene_json import scene_from_json, scene_to_json
from lcs_utils.clevr.world import World

PADDING = {"locations": np.nan, "colors": -1, "boxes": -1}  # where an image has no object


def map_arrays(path) -> dict[str, np.ndarray]:
    """The arrays of an uncompressed .npz as views of one read-only memory map: reading an image touches only
    that image.

    Raises ValueError for a broken or compressed file, or one that holds pickled objects.
    """
    maps = {}
    try:
        whole = np.memmap(path, np.uint8, "r")  # a single map, since each holds a file open
        archive = zipfile.ZipFile(path)
    except (ValueError, zipfile.BadZipFile) as error:
        raise ValueError(
            f"{path} is empty or cut off ({error}); run the command that made the folder again"
        ) from None
    with archive, open(path, "rb") as file:
        for member in archive.infolist():
            if member.compress_type != zipfile.ZIP_STORED:
                raise ValueError(
                    f"{path}: {member.filename} is compressed and cannot be mapped; save it with np.savez"
                )
            file.seek(member.header_offset + 26)  # the last two numbers of a zip entry's 30-byte header
            name, extra = (int.from_bytes(file.read(2), "little") for _ in range(2))
            file.seek(member.header_offset + 30 + name + extra)
            version = np.lib.format.read_magic(file)
            read = (
                np.lib.format.read_array_header_1_0
                if version == (1, 0)
                else np.lib.format.read_array_header_2_0
            )
            shape, fortran, dtype = read(file)
            if dtype.hasobject or fortran:
                raise ValueError(f"{path}: {member.filename} is not a plain array")
            maps[member.filename.removesuffix(".npy")] = np.ndarray(shape, dtype, whole, file.tell())
    return maps


class ShardDataset(Dataset):
    """The images and labels of a folder, ordered by object count and index (App. E.1).

    An item is a dictionary of tensors: images uint8 [3, height, width], locations [max, 2], colors [max],
    n_objects, and the folder's extras. Checksums are verified once, on construction (not with `check=False`);
    shards are memory-mapped when first used, so memory does not grow with the data. Raises as
    `dataset.verify` does, IndexError for an index out of range and TypeError for one that is no whole number.
    """

    def __init__(self, folder, counts: Sequence[int] | None = None, check: bool = True):
        self.paths = verify(folder, counts, check)
        manifest = read_manifest(folder)
        self.settings = manifest["settings"]
        self.max_objects = max(self.settings["counts"])
        self.ends = np.cumsum([manifest["shards"][path.name]["images"] for path in self.paths])
        self._open: dict[int, dict[str, np.ndarray]] = {}
        self._line_ends: dict[int, np.ndarray] = {}
        # shards stay open once read, and the usual limit of 1,024 is soon reached
        allowed, most = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(allowed, min(most, allowed + len(self.paths))), most))

    def __len__(self) -> int:
        return int(self.ends[-1])

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        shard, place = self._find(index)
        one = slice(place, place + 1)
        return {name: torch.from_numpy(self._rows_of(shard, name, one))[0] for name in self._map(shard)}

    def column(self, name: str, indices: Sequence[int] | np.ndarray | None = None) -> np.ndarray:
        """One array for many scenes (default: all), in the order of `indices`, or where a mask of all scenes
        is true; negative indices count from the end. Raises IndexError for an index out of range, ValueError
        listing the arrays for an unknown one, TypeError for indices of another kind.
        """
        check_choice("array", name, tuple(self._map(0)))
        indices = np.arange(len(self)) if indices is None else self._indices(indices)
        if len(indices) and not -len(self) <= indices.min() <= indices.max() < len(self):
            raise IndexError(
                f"indices {indices.min()} to {indices.max()} are not all in a data set of {len(self)} images"
            )
        indices = indices % len(self)
        shards = np.searchsorted(self.ends, indices, "right")
        rows = indices - np.concatenate([[0], self.ends])[shards]
        first = self._rows_of(0, name, slice(0, 0))
        out = np.empty((len(indices), *first.shape[1:]), first.dtype)
        for shard in np.unique(shards):
            here = shards == shard
            out[here] = self._rows_of(int(shard), name, rows[here])
        return out

    def _indices(self, indices) -> np.ndarray:
        """Whole numbers, or a mask of all scenes, as an array of indices."""
        found = np.asarray(indices)
        if found.dtype.kind == "b" and found.shape == (len(self),):
            return np.flatnonzero(found)
        if found.ndim != 1 or (found.dtype.kind not in "iu" and found.size):
            raise TypeError(
                f"indices must be whole numbers, or True or False for each of {len(self)} images, got "
                f"{shown(indices)}"
            )
        return found.astype(np.int64)

    def _rows_of(self, shard, name, rows):
        """Rows of an array, copied; per-object arrays are padded to the folder's largest count."""
        found = np.array(self._map(shard)[name][rows])
        if name not in PADDING:
            return found
        missing = self.max_objects - found.shape[1]
        width = [(0, 0), (0, missing)] + [(0, 0)] * (found.ndim - 2)
        return np.pad(found, width, constant_values=PADDING[name])

    def _map(self, shard):
        if shard not in self._open:
            self._open[shard] = map_arrays(self.paths[shard])
        return self._open[shard]

    def _find(self, index):
        index = check_count("index", index.item() if is_tensor(index) else index, None)
        if not -len(self) <= index < len(self):
            raise IndexError(f"index {index} is outside a data set of {len(self)} images")
        index %= len(self)
        shard = int(np.searchsorted(self.ends, index, "right"))
        return shard, index - int(self.ends[shard - 1] if shard else 0)

    def scene(self, index: int) -> dict[str, Any]:
        """The CLEVR scene JSON of one image, with everything a shard's lines leave out (`scene_to_json`)."""
        self._find(index)
        line = json.loads(self.scene_lines([index])[0])
        size = picture_size(self.settings["resolution"])
        return line if "directions" in line else scene_to_json(scene_from_json(line), "new", *size)

    def scene_lines(self, indices) -> list[str]:
        """The scenes as the shards store them, one line of JSON each, in the order of `indices`, or where a
        mask of all scenes is true. Raises as `column` for wrong indices.
        """
        places, found = [self._find(index) for index in self._indices(indices)], {}
        for shard in {shard for shard, _ in places}:
            path = self.paths[shard].with_suffix(".jsonl")
            if shard not in self._line_ends:
                newlines = np.flatnonzero(np.fromfile(path, np.uint8) == ord("\n"))
                self._line_ends[shard] = np.concatenate([[0], newlines + 1])
            with open(path, "rb") as file:
                for row in {row for there, row in places if there == shard}:
                    start, end = self._line_ends[shard][row : row + 2]
                    file.seek(start)
                    found[shard, row] = file.read(end - start).decode().rstrip("\n")
        return [found[place] for place in places]

    def __getstate__(self):
        return {**self.__dict__, "_open": {}}  # each worker of a DataLoader maps the files by itself


def load(folder, counts: Sequence[int] | None = None) -> dict[str, np.ndarray]:
    """Load all scenes (of the given object counts) into memory, with verified checksums. Raises as
    `dataset.verify` does.

    images uint8 [n, 3, height, width], locations float32 [n, max, 2], colors int8 [n, max], n_objects int8
    [n], where max is the folder's largest count, and the folder's extras (see `annotations.annotate`).
    """
    scenes = ShardDataset(folder, counts)
    return {name: scenes.column(name) for name in map_arrays(scenes.paths[0])}


def features(arrays: Sequence[str], settings: dict) -> Any:
    """The `datasets.Features` of a folder; `arrays` are the names of a shard's arrays."""
    import datasets

    side = picture_size(settings["resolution"])[::-1]
    colors = list(World.from_json(settings.get("world", {})).colors)
    every = {
        "image": datasets.Image(),
        "locations": datasets.List(datasets.List(datasets.Value("float32"), length=2)),
        "colors": datasets.List(datasets.ClassLabel(names=colors)),
        "n_objects": datasets.Value("int8"),
        "masks": datasets.Array2D(side, "int8"),
        "depth": datasets.Array2D(side, "float32"),
        "boxes": datasets.List(datasets.List(datasets.Value("int16"), length=4)),
        "scene": datasets.Value("string"),
    }
    return datasets.Features(
        {name: kind for name, kind in every.items() if name in ("image", "scene", *arrays)}
    )


def png(image: np.ndarray) -> bytes:
    """An image [3 height width] as a PNG file's bytes."""
    file = io.BytesIO()
    Image.fromarray(np.ascontiguousarray(image.transpose(1, 2, 0))).save(file, "PNG", compress_level=4)
    return file.getvalue()


def row(arrays: dict[str, np.ndarray], i: int, line: str) -> dict[str, Any]:
    """Row i of some arrays as a row of the table: the image as PNG, no padding for absent objects."""
    n = int(arrays["n_objects"][i])
    found = {name: np.array(array[i]) for name, array in arrays.items()}
    for name in PADDING.keys() & found.keys():
        found[name] = found[name][:n]
    image = {"bytes": png(found.pop("images")), "path": None}
    return {"image": image, **found, "n_objects": n, "scene": line.strip()}


def _rows(shards: Sequence[Path], digests: Sequence[str]) -> Iterator[dict[str, Any]]:
    """The table's rows of some shards; `digests` only tie the cache to their contents."""
    for path in shards:
        arrays = map_arrays(path)
        with open(path.with_suffix(".jsonl")) as lines:
            for i, line in enumerate(lines):
                yield row(arrays, i, line)


def to_huggingface(
    folder, counts: Sequence[int] | None = None, cache_dir=None, check: bool = True, processes: int = 1
) -> Any:
    """Convert a folder to a `datasets.Dataset`, offline; save_to_disk or push_to_hub continue from there. For
    Parquet files with splits, `parquet.export` needs no cache.

    Columns: image (Image), locations, colors (ClassLabel) and boxes with one entry per object, n_objects,
    masks and depth (Array2D), scene (JSON text, a shard's line). Rows are written to `cache_dir` as they are
    read, by `processes` processes, so memory stays flat; the default is a temporary folder, removed when
    Python exits. Raises as `dataset.verify` does, and ValueError or TypeError for a number of processes that
    is no whole number of at least 1.
    """
    import datasets

    check_count("processes", processes, 1)
    shards = verify(folder, counts, check)
    manifest = read_manifest(folder)
    if cache_dir is None:
        cache_dir = tempfile.mkdtemp(prefix="clevr")
        atexit.register(shutil.rmtree, cache_dir, ignore_errors=True)
    given = {"shards": shards, "digests": [manifest["shards"][path.name]["sha256"] for path in shards]}
    return datasets.Dataset.from_generator(
        _rows,
        features=features(list(map_arrays(shards[0])), manifest["settings"]),
        gen_kwargs=given,
        cache_dir=str(cache_dir),
        num_proc=min(processes, len(shards)) if processes > 1 else None,
    )
