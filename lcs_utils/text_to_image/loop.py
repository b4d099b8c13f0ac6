"""The loop that trains every part of the small text-to-image model: state, learning rate and loss curve."""

import copy
import json
import math
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from tqdm.auto import tqdm

from lcs_utils import store
from lcs_utils.resumable import Resumable

PEAK, LAST_RATE, WARM_UP = 1e-3, 1e-5, 0.03
AVERAGE = 0.999
LOG_EVERY = 50
SAVE_EVERY = 60.0  # seconds


class Log(NamedTuple):
    """A line of the loss curve, over LOG_EVERY steps: images seen, mean loss, learning rate."""

    images: int
    loss: float
    lr: float


@dataclass(frozen=True, kw_only=True)
class State(Resumable):
    """A run: the net, its average (EMA), optimizer and generator; `recent` holds the losses since the curve's
    last line."""

    net: nn.Module
    ema: nn.Module
    recent: Tensor


def learning_rate(seen: int, total: int, peak: float) -> float:
    """Learning rate after `seen` of `total` images: a linear warm-up, then a cosine to LAST_RATE."""
    share = min(seen / total, 1.0)
    low = min(LAST_RATE, peak)
    return min(share / WARM_UP, 1.0) * (low + (peak - low) * (1 + math.cos(math.pi * share)) / 2)


def start(net: nn.Module, seed: int) -> State:
    """A new run of a net; all its draws come from `seed`."""
    net.train()
    return State(
        net=net,
        ema=copy.deepcopy(net).eval().requires_grad_(False),
        optimizer=torch.optim.AdamW(
            net.parameters(), lr=PEAK, betas=(0.9, 0.99), weight_decay=0.01, fused=True
        ),
        generator=torch.Generator().manual_seed(seed),
        seen=torch.zeros(2, dtype=torch.float64),
        recent=torch.full((LOG_EVERY,), math.nan, dtype=torch.float64),
    )


def step(state: State, loss_of: Callable, total: int, batch: int, peak: float) -> tuple[float, float]:
    """One training step: (loss, learning rate). Raises FloatingPointError if the loss is not finite."""
    lr = learning_rate(int(state.seen[0]) + batch, total, peak)
    for group in state.optimizer.param_groups:
        group["lr"] = lr
    loss = loss_of(state.net, state.generator)
    value = float(loss.detach())
    if not math.isfinite(value):
        raise FloatingPointError(f"the loss is {value} after {int(state.seen[0]):,} images")
    state.optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(state.net.parameters(), 1.0)
    state.optimizer.step()
    state.seen[0] += batch
    steps = float(state.seen[0]) / batch
    share = min(AVERAGE, (1 + steps) / (10 + steps))
    with torch.no_grad():
        for average, current in zip(state.ema.parameters(), state.net.parameters(), strict=True):
            average.lerp_(current, 1 - share)
    return value, lr


def train(
    state: State,
    loss_of: Callable,
    total: int,
    batch: int,
    peak: float,
    folder: Path,
    about: dict,
    length: int | None = None,
) -> list[Log]:
    """Train until `total` images were seen, from the state in `folder` if there is one; the loss curve.

    `length` is the learning-rate schedule's length in images, if not `total`; about.json lists the lengths of
    all runs that made the state (`lengths`).

    Raises ValueError for a broken state, one with other settings than `about` or of more than `total` images,
    RuntimeError while another process trains in `folder`.
    """
    length = length or total
    with alone(folder):
        store.remove_leftovers(folder)
        path, rows, before = folder / "state.pt", [], []
        if path.exists():
            check_about(folder, about)
            state.load(path)
            seen = int(state.seen[0])
            if seen >= total + batch:  # the last batch may overshoot
                raise ValueError(
                    f"{folder.name} was trained on {seen:,} images already, more than the {total:,} asked for"
                )
            before = lengths(folder) or [seen]
            known = store.read_rows(folder / "loss.csv", Log)
            rows = [row for row in known if row.images <= int(state.seen[0])]
        recent = [loss for loss in state.recent.tolist() if loss == loss]
        all_lengths = before if before[-1:] == [length] else [*before, length]

        def save():
            store.write_json(folder / "about.json", about | {"lengths": all_lengths})
            store.write_rows(folder / "loss.csv", about["run"], Log, rows)
            state.recent.fill_(math.nan)
            state.recent[: len(recent)] = torch.tensor(recent, dtype=torch.float64)
            state.save(path)

        clock = saved = time.time()
        with tqdm(
            total=total, initial=int(state.seen[0]), unit="img", mininterval=10, desc=about["run"]
        ) as bar:
            while int(state.seen[0]) < total:
                loss, lr = step(state, loss_of, length, batch, peak)
                recent.append(loss)
                now = time.time()
                state.seen[1] += now - clock
                clock = now
                if len(recent) == LOG_EVERY:
                    rows.append(Log(int(state.seen[0]), float(np.mean(recent)), lr))
                    recent = []
                    bar.set_postfix(loss=f"{rows[-1].loss:.4f}")
                bar.update(batch)
                if now - saved > SAVE_EVERY:
                    save()
                    saved = time.time()
        save()
        return rows


@contextmanager
def alone(folder: Path) -> Iterator[None]:
    """Hold `folder` for one training. Raises RuntimeError while another process trains there."""
    with ExitStack() as stack:
        try:
            stack.enter_context(store.exclusive(folder / "state.pt", wait=False))
        except BlockingIOError:
            raise RuntimeError(f"another process trains in {folder}; wait for it or stop it") from None
        yield


def lengths(folder: Path) -> list[int]:
    """The --images of the runs that made a folder's state, in order; none for states older than the list."""
    return json.loads((folder / "about.json").read_text()).get("lengths", [])


def check_about(folder: Path, about: dict) -> None:
    """Raise ValueError, naming the differences, if `folder` holds the state of another run."""
    then = json.loads((folder / "about.json").read_text())
    differing = [name for name in about if then.get(name) != about[name]]
    if differing:
        told = ", ".join(f"{name} {then.get(name)!r} instead of {about[name]!r}" for name in differing)
        raise ValueError(f"{folder.name} holds the state of another run ({told}); remove it to train anew")
