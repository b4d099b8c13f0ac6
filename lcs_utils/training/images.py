"""Images of a rendered folder: read from its shards on demand, or on the device where they fit."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import torch
from torch import Tensor

from lcs_utils.clevr.loading import ShardDataset

READERS, READ_AT_ONCE = 16, 16  # threads that read one batch from disk, images per thread


class ImagesOnDisk:
    """The images of a rendered folder, uint8 [n, 3, res, res], indexed like a tensor but read from its
    shards.

    The system's page cache keeps them in free memory, once for all processes: 74 GB need not fit eight times,
    nor once. Several threads read at once, since a cold disk serves a single one too slowly.
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


def within(images: ImagesOnDisk, room: int, device: torch.device) -> Tensor | ImagesOnDisk:
    """The images on the device if they take at most `room` bytes there, otherwise unchanged."""
    one = images[torch.arange(1)]
    if len(images) * one.nbytes > room:
        return images
    resident = torch.empty(len(images), *one.shape[1:], dtype=one.dtype, device=device)
    for part in torch.arange(len(images)).split(2**16):
        resident[part] = images[part].to(device)
    return resident
