"""A training run as one file, from which it resumes after a kill; broken files are detected."""

import errno
import shutil
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from lcs_utils import store


def read_state(path) -> dict:
    """What `Resumable.save` wrote, with every byte checked. Raises ValueError, with the remedy, for a broken
    file; errors of the machine (no memory, no permission) are raised as they are.

    torch stores a CRC-32 of each part inside the file but never checks it.
    """
    path = Path(path)
    try:
        with zipfile.ZipFile(path) as archive:
            broken = archive.testzip()
        if broken:
            raise ValueError(f"its checksum says that {broken} was altered")
        value = torch.load(path, weights_only=True, map_location="cpu")
        if not isinstance(value, dict) or "seen" not in value:
            raise ValueError("it holds something else")
        return value
    except Exception as error:  # what a broken file raises depends on where it is broken
        if _of_the_machine(error):
            raise
        reason = str(error).partition("\n")[0] or type(error).__name__
        raise ValueError(
            f"{path} is no whole saved state ({reason}); remove it to train from the start"
        ) from None


def _of_the_machine(error: Exception) -> bool:
    """Whether a reader failed for lack of memory, handles, permission or the file: the bytes may be good."""
    if isinstance(error, OSError):
        return error.errno not in (None, errno.EINVAL)  # a broken file's parts may lie before its beginning
    return isinstance(error, MemoryError | torch.OutOfMemoryError) or "allocate" in str(error)


class DiskFull(ValueError):
    """A state cannot be written: no other training could continue either."""


def fresh_draws(generator: torch.Generator, *key: int) -> None:
    """Seed a generator by a key (whole numbers >= 0), so that it differs from those of other keys."""
    generator.manual_seed(int(np.random.SeedSequence(key).generate_state(1, np.uint64)[0]))


@dataclass(frozen=True, kw_only=True)
class Resumable:
    """The parts of a training run, saved and restored as one; `seen` counts images (or steps) and seconds.

    Parts in ADDED are missing in older states, and then stay as they are.
    """

    ADDED: ClassVar[tuple[str, ...]] = ()
    optimizer: torch.optim.Optimizer
    generator: torch.Generator
    seen: Tensor

    def save(self, path) -> None:
        """Save all parts in one file, whole or not at all. Raises DiskFull when the disk is full; the old
        file then stays as it was.
        """

        def stored(part):
            return part.get_state() if isinstance(part, torch.Generator) else part.state_dict()

        value = {name: part if torch.is_tensor(part) else stored(part) for name, part in vars(self).items()}
        try:
            with store.atomic_path(path) as temporary:
                torch.save(value, temporary)
        except (OSError, RuntimeError) as error:
            full = isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
            if not full and "inline_container" not in str(error):  # torch's message when it can write no more
                raise
            free = shutil.disk_usage(Path(path).parent).free / 2**20
            raise DiskFull(
                f"{path} cannot be written ({free:,.0f} MiB are free on its disk); make room and give the "
                "same command again: "
                "it goes on from the state saved before"
            ) from None

    def load(self, path, key: tuple[int, ...] = ()) -> None:
        """Restore all parts from a file of `save`. A generator saved on another kind of device continues with
        fresh draws, seeded by `key`, which identifies the run and process, and by what was seen.

        Raises ValueError, with the remedy, when the file is broken or holds the state of something else.
        """
        value = read_state(path)
        try:
            for name, part in vars(self).items():
                if name in self.ADDED and name not in value:
                    continue
                if torch.is_tensor(part):
                    part.copy_(value[name])
                elif not isinstance(part, torch.Generator):
                    part.load_state_dict(value[name])
                elif len(value[name]) == len(part.get_state()):
                    part.set_state(value[name])
                else:
                    fresh_draws(part, *key, int(value["seen"][0]))
        except (AttributeError, KeyError, TypeError, ValueError, RuntimeError) as error:
            if _of_the_machine(error):
                raise
            reason = str(error).partition("\n")[0]
            raise ValueError(
                f"{path} is the state of something else ({reason}); remove it to train from the start"
            ) from None
