"""The training loop of every net: EDM2's recipe (App. E.1) scaled to the run's length, on CPU, GPU or several
through accelerate. `run` saves and resumes it, `command` is its command line.
"""

import math
from collections.abc import Iterator
from dataclasses import replace

import torch
from accelerate import Accelerator

from lcs_utils.diffusion import add_noise, training_sigmas, uniform_sigmas
from lcs_utils.experiments import Experiment
from lcs_utils.models.magnitude_preserving import renormalize_
from lcs_utils.presets import Preset
from lcs_utils.training.ahead import draws
from lcs_utils.training.data import Data, draw
from lcs_utils.training.graphed import captured, fits_a_graph
from lcs_utils.training.pieces import gradients
from lcs_utils.training.state import SIGMA_REL, Log, State, ema_exponent, learning_rate


def noisy(data: Data, exp: Experiment, size: int, generator: torch.Generator) -> tuple:
    """(batch, sigma, x_t): `size` images, or two patches of each, with noise added."""
    batch = draw(data, exp, size, generator)
    n = len(batch.x0)
    sigma = uniform_sigmas(n, generator, *exp.sigmas) if exp.sigmas else training_sigmas(n, generator)
    x_t = add_noise(batch.x0, sigma, generator)
    return batch, sigma, x_t if batch.valid is None else x_t * batch.valid


def training_loop(
    state: State, data: Data, exp: Experiment, size: Preset, accelerator: Accelerator
) -> Iterator[Log]:
    """Train until `size.length(exp)` images have been seen, yielding a Log after every step.

    Raises FloatingPointError for a loss that is not finite, ValueError when the processes cannot share a
    batch evenly.
    """
    if size.batch % accelerator.num_processes:
        raise ValueError(
            f"a batch of {size.batch} cannot be shared evenly by {accelerator.num_processes} processes"
        )
    objective = accelerator.prepare(state.objective)
    exponent, total = ema_exponent(SIGMA_REL) + 1, size.length(exp)
    share, size = size.batch // accelerator.num_processes, replace(size, at_once=size.together(exp))
    steps = max(math.ceil((total - int(state.seen[0])) / size.batch), 0)
    replay, tried = None, False
    for batch, sigma, x_t in draws(data, exp, share, steps, state.generator, noisy):
        seen = int(state.seen[0])
        lr = learning_rate(seen, total, size.learning_rate)
        weight = 1 - (1 - size.batch / (seen + size.batch)) ** exponent  # of the current net in the average
        if not tried and fits_a_graph(accelerator, x_t, size):
            replay, tried = captured(state, finish, x_t, sigma, batch), True
        if replay is not None:
            loss, error = replay(x_t, sigma, batch, lr, weight)
        else:
            for group in state.optimizer.param_groups:
                group["lr"], group["capturable"] = lr, False  # a saved state may come from a graph
            state.optimizer.zero_grad()
            loss, error = gradients(objective, accelerator, batch, sigma, x_t, size.at_once)
        if not math.isfinite(loss):
            raise FloatingPointError(
                f"loss is {loss} after {seen:,} images; the saved state is of an earlier step"
            )
        if replay is None:
            finish(state, weight)
        state.seen[0] += size.batch
        yield Log(int(state.seen[0]), loss, error, lr)


def finish(state: State, weight: float | torch.Tensor) -> None:
    """What follows the gradients: step, weights back to unit magnitude, power-function EMA (EDM2, App. E.1).

    `weight` is the share of the current parameters in their average.
    """
    for p in state.objective.parameters():  # EDM2's guard: one bad gradient must not end a long run
        if p.grad is not None:
            p.grad.nan_to_num_(nan=0, posinf=0, neginf=0)
    state.optimizer.step()
    renormalize_(state.objective)
    with torch.no_grad():
        for average, current in zip(state.ema.parameters(), state.objective.net.parameters(), strict=True):
            average.lerp_(current, weight)
