"""A folder of shards as a torch Dataset that stays on disk, and as a table of Hugging Face's `datasets`."""

import atexit
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
from torch.utils.data import Dataset

from lcs_utils.clevr.dataset import MANIFEST, verify
from lcs_utils.clevr.scenes import COLORS


def map_arrays(path) -> dict[str, np.ndarray]:
    """The arrays of an uncompressed .npz as views of one read-only map of the file: reading an image touches that image only.

    Raises ValueError for a compressed file or one that holds pickled objects.
    """
    maps, whole = {}, np.memmap(path, np.uint8, "r")  # one map, for each holds a file open
    with zipfile.ZipFile(path) as archive, open(path, "rb") as file:
        for member in archive.infolist():
            if member.compress_type != zipfile.ZIP_STORED:
                raise ValueError(f"{path}: {member.filename} is compressed and cannot be mapped; save it with np.savez")
            file.seek(member.header_offset + 26)  # of a zip entry's header of 30 bytes, the last two numbers
            name, extra = (int.from_bytes(file.read(2), "little") for _ in range(2))
            file.seek(member.header_offset + 30 + name + extra)
            version = np.lib.format.read_magic(file)
            read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
            shape, fortran, dtype = read(file)
            if dtype.hasobject or fortran:
                raise ValueError(f"{path}: {member.filename} is no plain array")
            maps[member.filename.removesuffix(".npy")] = np.ndarray(shape, dtype, whole, file.tell())
    return maps


class ShardDataset(Dataset):
    """The images and labels of a folder, one at a time, in the order of their object counts and indices (App. E.1).

    An item is a dictionary of tensors: images uint8 [3, res, res], locations [max, 2], colors [max], n_objects, and the
    folder's extras. Checksums are verified once, here (`check=False`: not); shards are opened when first asked for and
    only mapped, so that memory does not grow with the data. Raises as `dataset.verify` does, IndexError for a bad index.
    """

    def __init__(self, folder, counts: Sequence[int] | None = None, check: bool = True):
        self.paths = verify(folder, counts, check)
        entries = json.loads((Path(folder) / MANIFEST).read_text())["shards"]
        self.ends = np.cumsum([entries[path.name]["images"] for path in self.paths])
        self._open: dict[int, dict[str, np.ndarray]] = {}
        allowed, most = resource.getrlimit(resource.RLIMIT_NOFILE)  # a shard that was read stays open; 1,024 are soon reached
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(allowed, min(most, allowed + len(self.paths))), most))

    def __len__(self) -> int:
        return int(self.ends[-1])

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        shard, row = self._find(index)
        return {name: torch.from_numpy(np.array(array[row])) for name, array in self._map(shard).items()}

    def column(self, name: str, indices: Sequence[int] | np.ndarray | None = None) -> np.ndarray:
        """One array of many scenes (default: all), in the order asked for. Raises IndexError for an index outside."""
        indices = np.arange(len(self)) if indices is None else np.asarray(indices)
        if len(indices) and not 0 <= indices.min() <= indices.max() < len(self):
            raise IndexError(f"indices {indices.min()} to {indices.max()} are not all in a data set of {len(self)} images")
        shards = np.searchsorted(self.ends, indices, "right")
        rows = indices - np.concatenate([[0], self.ends])[shards]
        first = self._map(0)[name]
        out = np.empty((len(indices), *first.shape[1:]), first.dtype)
        for shard in np.unique(shards):
            here = shards == shard
            out[here] = self._map(int(shard))[name][rows[here]]
        return out

    def _map(self, shard):
        if shard not in self._open:
            self._open[shard] = map_arrays(self.paths[shard])
        return self._open[shard]

    def _find(self, index):
        if not -len(self) <= index < len(self):
            raise IndexError(f"index {index} is outside a data set of {len(self)} images")
        index %= len(self)
        shard = int(np.searchsorted(self.ends, index, "right"))
        return shard, index - int(self.ends[shard - 1] if shard else 0)

    def scene(self, index: int) -> dict[str, Any]:
        """The CLEVR scene JSON of one image."""
        shard, row = self._find(index)
        with open(self.paths[shard].with_suffix(".jsonl")) as lines:
            return json.loads(next(line for i, line in enumerate(lines) if i == row))

    def __getstate__(self):
        return {**self.__dict__, "_open": {}}  # each worker of a DataLoader maps the files by itself


def load(folder, counts: Sequence[int] | None = None) -> dict[str, np.ndarray]:
    """All scenes (of the given object counts) as arrays in memory, checksums verified. Raises as `dataset.verify` does.

    images uint8 [n, 3, res, res], locations float32 [n, max, 2], colors int8 [n, max], n_objects int8 [n], where max is
    the folder's largest count, and the folder's extras (see `annotations.annotate`).
    """
    scenes = ShardDataset(folder, counts)
    return {name: scenes.column(name) for name in map_arrays(scenes.paths[0])}


def _rows(shards: Sequence[Path], digests: Sequence[str]) -> Iterator[dict[str, Any]]:
    """The table's rows of some shards, without the padding of absent objects; `digests` only mark a cache as theirs."""
    for path in shards:
        arrays = map_arrays(path)
        with open(path.with_suffix(".jsonl")) as lines:
            for i, line in enumerate(lines):
                n = int(arrays["n_objects"][i])
                row = {name: np.array(array[i]) for name, array in arrays.items()}
                for name in {"locations", "colors", "boxes"} & set(row):
                    row[name] = row[name][:n]
                yield {"image": row.pop("images").transpose(1, 2, 0), **row, "n_objects": n, "scene": line.strip()}


def to_huggingface(folder, counts: Sequence[int] | None = None, cache_dir=None, check: bool = True) -> Any:
    """The folder as a `datasets.Dataset`, offline; from there save_to_disk, to_parquet or push_to_hub.

    Columns: image (Image), locations, colors (ClassLabel) and boxes with one entry per object, n_objects, masks and depth
    (Array2D), scene (JSON text). Rows are written to `cache_dir` as they are read, so memory stays flat; by default that
    is a temporary folder, removed when Python ends. Raises as `dataset.verify` does.
    """
    import datasets

    shards = verify(folder, counts, check)
    entries = json.loads((Path(folder) / MANIFEST).read_text())["shards"]
    if cache_dir is None:
        cache_dir = tempfile.mkdtemp(prefix="clevr")
        atexit.register(shutil.rmtree, cache_dir, ignore_errors=True)
    first = map_arrays(shards[0])
    features = {
        "image": datasets.Image(),
        "locations": datasets.List(datasets.List(datasets.Value("float32"), length=2)),
        "colors": datasets.List(datasets.ClassLabel(names=list(COLORS))),
        "n_objects": datasets.Value("int8"),
        "masks": datasets.Array2D(first["images"].shape[2:], "int8"),
        "depth": datasets.Array2D(first["images"].shape[2:], "float32"),
        "boxes": datasets.List(datasets.List(datasets.Value("int16"), length=4)),
        "scene": datasets.Value("string"),
    }
    kept = {name: kind for name, kind in features.items() if name in ("image", "scene", *first)}
    given = {"shards": shards, "digests": [entries[path.name]["sha256"] for path in shards]}
    return datasets.Dataset.from_generator(_rows, features=datasets.Features(kept), gen_kwargs=given, cache_dir=str(cache_dir))
