"""Batches made while the net works on another, so that a disk is waited for once and not at every step."""

from collections import deque
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import torch

from lcs_utils.experiments import Experiment
from lcs_utils.training.data import Data

AHEAD = 2  # batches that are read while the net works on another


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
