"""Gradients of a batch too large for memory, piece by piece."""

from collections.abc import Iterator
from contextlib import nullcontext

import torch
from accelerate import Accelerator

from lcs_utils.training.data import Batch


def parts(batch: Batch, x_t: torch.Tensor, sigma: torch.Tensor, at_once: int) -> Iterator[tuple]:
    """(x_t, sigma, batch) in pieces of at most `at_once` images or patches: memory holds the activations of
    one piece.
    """
    for first in range(0, len(x_t), at_once):
        here = slice(first, first + at_once)
        yield x_t[here], sigma[here], Batch(*(None if column is None else column[here] for column in batch))


def gradients(
    objective, accelerator: Accelerator, batch: Batch, sigma: torch.Tensor, x_t: torch.Tensor, at_once: int
) -> tuple[float, float]:
    """Accumulate the gradients of a batch piece by piece; return its mean loss and error, all processes'
    shares together.
    """
    losses, errors = [], []
    for part in parts(batch, x_t, sigma, at_once):
        last = sum(map(len, losses)) + len(part[0]) == len(x_t)
        # the processes exchange gradients once a step
        with nullcontext() if last else accelerator.no_sync(objective):
            loss, error = objective(*part)
            accelerator.backward(loss.mean() * (len(loss) / len(x_t)))
        losses.append(loss.detach())
        errors.append(error)
    means = torch.stack([torch.cat(losses).mean(), torch.cat(errors).detach().mean()])
    loss, error = accelerator.reduce(means, "mean").tolist()  # over the processes
    return loss, error
