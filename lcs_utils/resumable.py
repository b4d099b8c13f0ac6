"""A training run as one file, from which it goes on after a kill."""

from dataclasses import dataclass

import torch
from torch import Tensor

from lcs_utils import paths


@dataclass(frozen=True, kw_only=True)
class Resumable:
    """What a training run consists of, saved and restored as one; `seen` counts images (or steps) and seconds."""

    optimizer: torch.optim.Optimizer
    generator: torch.Generator
    seen: Tensor

    def save(self, path) -> None:
        """All parts in one file, which appears whole."""
        stored = lambda part: part.get_state() if isinstance(part, torch.Generator) else part.state_dict()
        value = {name: part if torch.is_tensor(part) else stored(part) for name, part in vars(self).items()}
        with paths.atomic_path(path) as temporary:
            torch.save(value, temporary)

    def load(self, path) -> None:
        """Take all parts from a file of `save`. A generator saved on another kind of device goes on with fresh draws."""
        value = torch.load(path, weights_only=True, map_location="cpu")
        for name, part in vars(self).items():
            if torch.is_tensor(part):
                part.copy_(value[name])
            elif not isinstance(part, torch.Generator):
                part.load_state_dict(value[name])
            elif len(value[name]) == len(part.get_state()):
                part.set_state(value[name])
            else:
                part.manual_seed(2**32 + int(value["seen"][0]))
