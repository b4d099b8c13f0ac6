"""The parts of a training run: EDM2's objective, the averaged net, the optimizer, the schedules of learning
rate and average, and what is stored beside its state: its settings and its loss curve.
"""

import ast
import copy
import csv
import ctypes
import hashlib
import inspect
import json
import math
import textwrap
from dataclasses import MISSING, asdict, dataclass, fields
from pathlib import Path
from typing import ClassVar, NamedTuple

import numpy as np
import torch
from diffusers import ModelMixin
from torch import Tensor, nn

from lcs_utils.architectures import EDM2, net_class
from lcs_utils.clevr.labels import LABEL_POLICIES
from lcs_utils.experiments import Experiment
from lcs_utils.models.classes import build, defaults
from lcs_utils.models.precond import LogVariance, edm2_loss, precondition
from lcs_utils.presets import Preset, of_row
from lcs_utils.resumable import Resumable
from lcs_utils.training.data import Batch, condition_dim
from lcs_utils.training.muon import Muon

SIGMA_REL = 0.05  # width of the power-function EMA, relative to the run's length (EDM2, section 3.1)
# Choice: shares of the run's images, where EDM2 has a ramp-up of 10 million images and a decay from 35,000
# batches of 2,048. Our shorter runs would end within that ramp-up, far below the peak rate. Preset `paper`
# keeps the shares too.
RAMP, COOLDOWN, CONSTANT = 0.03, 0.25, 0.25
LOG_EVERY = 50  # steps per line of the loss curve
RENDERED = "rendered scenes"  # the data of a net, where no own ones are described


class Log(NamedTuple):
    """One training step: images seen so far, loss, weighted denoising error without the log-variance,
    learning rate.
    """

    images: int
    loss: float
    error: float
    lr: float


class Objective(nn.Module):
    """Net and log-variance as one module, so that accelerate wraps both: noisy batch -> (loss, plain
    error), [batch].
    """

    def __init__(self, net: nn.Module, sigma_data: float):
        super().__init__()
        self.net, self.log_variance, self.sigma_data = net, LogVariance(), sigma_data

    def forward(self, x_t, sigma, batch: Batch):
        inputs = {} if batch.valid is None else {"valid": batch.valid}
        x0_hat = precondition(self.net, x_t, sigma, batch.cond, self.sigma_data, **inputs)
        if batch.valid is not None:
            # Choice: pixels outside the image are known to be 0 and add no error, but the mean is over them
            # too, so that a pixel weighs the same in every patch; the paper says nothing of them
            x0_hat = x0_hat * batch.valid
        return edm2_loss(x0_hat, batch.x0, sigma, self.log_variance(sigma), self.sigma_data)


def learning_rate(images_seen: int, total: int, peak: float) -> float:
    """EDM2's ramp-up and 1/sqrt decay.

    Choice: a linear cooldown to 0 over the last quarter, which EDM2 lacks, since runs are short.
    """
    progress = images_seen / total
    decay = 1 / math.sqrt(max(progress / CONSTANT, 1))
    return peak * min(progress / RAMP, 1) * decay * min((1 - progress) / COOLDOWN, 1)


def ema_exponent(sigma_rel: float) -> float:
    """gamma of the power-function EMA whose relative width is `sigma_rel` (EDM2, eq. 126's inverse)."""
    t = sigma_rel**-2
    return float(np.roots([1, 7, 16 - t, 12 - t]).real.max())


@dataclass(frozen=True, kw_only=True)
class State(Resumable):
    """A denoiser's training. `recent` [LOG_EVERY 4] holds the steps since the loss curve's last line, as Log,
    padded by NaN.
    """

    ADDED: ClassVar[tuple[str, ...]] = ("recent",)
    objective: Objective
    ema: ModelMixin
    recent: Tensor

    @property
    def log(self) -> list[Log]:
        """The steps in `recent`."""
        return [Log(int(images), *rest) for images, *rest in self.recent.tolist() if images == images]

    def keep_log(self, steps: list[Log]) -> None:
        """Put `steps` into `recent`."""
        self.recent.fill_(math.nan)
        self.recent[: len(steps)] = torch.tensor(steps, dtype=torch.float64).reshape(-1, len(Log._fields))


def start(exp: Experiment, size: Preset, seed: int, device: torch.device, process: int = 0) -> State:
    """A fresh run: weights from `seed`, data from (seed, process). Raises as `build`."""
    torch.manual_seed(seed)
    net = build(exp, size, condition_dim(exp, exp.radius), device)
    objective = Objective(net, size.sigma_data).to(device, memory_format=torch.channels_last)
    optimizer = (
        torch.optim.Adam(objective.parameters(), lr=size.learning_rate, betas=(0.9, 0.99), fused=True)
        if size.optimizer == "adam"
        else Muon(objective.parameters(), size.learning_rate)
    )
    generator = torch.Generator(device).manual_seed(seed * 1000 + process)
    return State(
        objective=objective,
        ema=copy.deepcopy(net).eval(),
        optimizer=optimizer,
        generator=generator,
        seen=torch.zeros(2, dtype=torch.float64),
        recent=torch.full((LOG_EVERY, len(Log._fields)), math.nan, dtype=torch.float64),
    )


def labels_drawn(exp: Experiment) -> list[int]:
    """How many of 0 to 7 objects get a label in some fixed draws: the policy, whatever its name."""
    n = torch.arange(8).repeat(8)[:, None]
    return LABEL_POLICIES[exp.labels].number(n, torch.Generator().manual_seed(0)).flatten().tolist()


def net_code(size: Preset) -> dict[str, str]:
    """{"net_code": a digest of the code of one's own class of nets}, blind to comments, docstrings and layout
    and to what the class calls; empty for our nets and where Python cannot find the code.
    """
    if size.architecture == EDM2:
        return {}
    try:
        code = ast.parse(textwrap.dedent(inspect.getsource(net_class(size.architecture))))
    except (OSError, TypeError, SyntaxError):  # of a class that was typed at a prompt
        return {}
    for node in ast.walk(code):
        if isinstance(node, (ast.ClassDef, ast.FunctionDef)) and ast.get_docstring(node) is not None:
            node.body = node.body[1:] or [ast.Pass()]
    return {"net_code": hashlib.sha256(ast.unparse(code).encode()).hexdigest()[:16]}


def how(exp: Experiment, size: Preset) -> dict:
    """The settings of a preset that decide what a training of the experiment gives: all but its length."""
    apart = ("images", "patch_images", "name", "at_once", "net", "patch_net")
    settings = {name: value for name, value in size.stored().items() if name not in apart}
    return settings | {"net" if exp.radius is None else "patch_net": size.config(exp)}


def about(exp: Experiment, size: Preset, seed: int, data: str = "") -> dict:
    """The settings that identify a run (all but its length): a state of other settings is not resumed. `data`
    describes custom data.
    """
    what = {name: value for name, value in asdict(exp).items() if name != "times"}
    what |= {"labels_drawn": labels_drawn(exp)} | net_code(size)
    return json.loads(
        json.dumps({**what, **how(exp, size), "preset": size.name, "seed": seed, "data": data or RENDERED})
    )


def _completed(described: dict) -> dict:
    """`described` with defaults for what it does not mention: a state older than a setting was trained with
    its default.
    """
    settings = [
        f
        for kind in (Experiment, Preset)
        for f in fields(kind)
        if f.default is not MISSING and f.name != "at_once"
    ]
    config = defaults(described.get("architecture", EDM2))
    nets = {name: config | described[name] for name in ("net", "patch_net") if name in described}
    usual = {f.name: f.default for f in settings if f.name != "times"}
    return json.loads(json.dumps(usual | described | nets))


def check_made(row: dict, exp: Experiment, size: Preset | None = None, data: str = "") -> None:
    """Raise ValueError, naming the differences, if a net's row is of another experiment named as `exp` is, or
    of another preset than `size` (its length aside), its class edited since, or other data than `data`
    describes, if these are given.
    """
    if "experiment" not in row:  # trained by other code: nothing to compare
        return
    then = of_row(row)
    made, now = asdict(then[0]), asdict(exp)
    if size is not None:
        made["architecture"], now["architecture"] = then[1].architecture, size.architecture
        if "settings" in row and then[1].architecture == size.architecture:  # older rows do not say them
            made, now = _completed(made | how(exp, then[1])), _completed(now | how(exp, size))
    if data:
        made["data"], now["data"] = row.get("data", RENDERED), data
    if "labels_drawn" in row:  # a policy is known by what it does; older rows do not say it
        made["labels_drawn"], now["labels_drawn"] = row["labels_drawn"], labels_drawn(exp)
    if size is not None and "net_code" in row and (code := net_code(size)):
        made["net_code"], now["net_code"] = row["net_code"], code["net_code"]
    if differing := [f"{k}: {made[k]!r} then, {now[k]!r} now" for k in now if made[k] != now[k]]:
        raise ValueError(
            f"{exp.name} was trained as another experiment ({'; '.join(differing)}); give the new one a name "
            "of its own"
        )


def check_same(folder: Path, now: dict) -> None:
    """Raise ValueError, naming the differences, if `folder` holds the state of another run (the oldest have
    no run.json).

    The number of processes may differ: they share batches of the same size, only their draws differ.
    """
    then = read_json(folder / "run.json")
    if then is not None:
        for name in ("processes", "length", "command"):  # of the run so far
            then.pop(name, None)
        for name in ("data", "labels_drawn", "net_code"):  # one side may not know it
            if name not in then or name not in now:
                then, now = ({k: v for k, v in side.items() if k != name} for side in (then, now))
        unused = {
            "net",
            "patch_net",
        } - now.keys()  # older states also name the net that they did not train
        then, now = (
            _completed({key: value for key, value in then.items() if key not in unused}),
            _completed(now),
        )
        differing = [
            f"{k}: {then.get(k)!r} there, {now.get(k)!r} here"
            for k in {**then, **now}
            if then.get(k) != now.get(k)
        ]
        if differing:
            raise ValueError(
                f"{folder} holds the state of another training ({'; '.join(differing)}); remove it "
                "to train from the start, or choose another name or folder (LCS_RUNS)"
            )


def processes_of(folder: Path, now: int) -> list[int]:
    """The numbers of processes that trained the state in `folder`, in order, `now` last; older files, without
    them, mean 1.
    """
    before = (read_json(folder / "run.json") or {}).get("processes", [1])
    started = (folder / "state.pt").exists()
    return [*before, now] if started and before[-1] != now else before if started else [now]


def read_json(path: Path) -> dict | None:
    """The contents of a JSON file beside a state; None if there is none. Raises ValueError that says what to
    do if it is broken.
    """
    try:
        value = json.loads(path.read_text())
        if not isinstance(value, dict):
            raise ValueError("no JSON object")
        return value
    except FileNotFoundError:
        return None
    except ValueError as error:  # also for bytes that are no text
        raise ValueError(
            f"{path} is broken ({error}); remove it to go on from the state beside it unchecked"
        ) from None


def read_loss(path: Path) -> list[Log]:
    """The loss curve beside a state. Raises ValueError that says what to do if it is missing or broken."""
    try:
        with open(path, newline="") as file:
            header, *lines = csv.reader(file)
        if tuple(header) != Log._fields:
            raise ValueError(f"its first line is {','.join(header)!r}")
        return [Log(int(images), *map(float, rest)) for images, *rest in lines]
    except (OSError, ValueError, TypeError, csv.Error) as error:
        reason = "is missing" if isinstance(error, FileNotFoundError) else f"is broken ({error})"
        raise ValueError(
            f"{path} {reason}; write the one line {','.join(Log._fields)} there to go on without the curve "
            "so far, "
            f"or remove {path.parent} to train from the start"
        ) from None


def keep_memory() -> None:
    """Make the C library keep freed memory instead of returning it: a training step needs the same again at
    once.

    Choice: otherwise every step asks the system for fresh pages, which costs time.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)  # glibc's; others have none
    if mallopt is not None:
        trim_threshold, mmap_max = -1, -4  # malloc.h
        mallopt(mmap_max, 0)
        mallopt(trim_threshold, -1)
