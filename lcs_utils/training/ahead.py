"""Prefetched batches: the disk is read while the net works, so that not every step waits for it."""

from collections import deque
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import torch

from lcs_utils.experiments import Experiment
from lcs_utils.training.data import Data

AHEAD = 2  # batches prefetched while the net works on another


def draws(
    data: Data, exp: Experiment, size: int, steps: int, generator: torch.Generator, make
) -> Iterator[tuple]:
    """Yield `make(data, exp, size, generator)` for `steps` steps, prefetching batches of images on disk.

    `generator` is always in the state it would have without prefetching, so that a state saved at any step
    resumes with the same draws.
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
