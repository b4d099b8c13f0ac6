"""Argument checks of `lcs_utils.theory`; each error is one sentence that names the value.

TypeError for a value of the wrong kind, ValueError for one of the right kind that is out of range.
"""

import math
from collections.abc import Iterable, Mapping
from numbers import Integral
from typing import Any

import torch
from torch import Tensor

from lcs_utils.checks import (  # noqa: F401 (re-exported for the theory modules)
    LARGEST,
    check_count,
    check_entries,
    check_generator,
    check_list,
    check_number,
    check_tensor,
    shown,
)

LOUDEST = 1e40  # largest noise level


def as_real(name: str, value: Any, ndim: int) -> Tensor:
    """Numbers in a tensor, array or nested sequence of `ndim` axes as a finite float64 tensor."""
    try:
        tensor = torch.as_tensor(value)
    except (TypeError, ValueError, RuntimeError):
        raise TypeError(f"{name} must be real numbers of one rectangular shape, got {shown(value)}") from None
    if tensor.is_complex() or tensor.dtype == torch.bool:
        raise TypeError(f"{name} must hold real numbers, got {tensor.dtype}")
    if tensor.ndim != ndim:
        raise ValueError(f"{name} must have {ndim} axes, got shape {list(tensor.shape)}")
    # convert Python numbers again, since torch reads them as float32
    tensor = tensor.double() if isinstance(value, Tensor) else torch.as_tensor(value, dtype=torch.float64)
    return check_entries(name, tensor)


def check_points(x: Any, n: int, sigma: Any = None, name: str = "x") -> Tensor:
    """Points [batch n] and, if given, their noise levels [batch], each >= 0; returns the points."""
    check_tensor(name, x, (None, n))
    if sigma is not None:
        check_levels(sigma, len(x))
    return x


def check_levels(sigma: Any, batch: int, above: bool = False) -> None:
    """Noise levels [batch] >= 0 (> 0 if `above`)."""
    check_tensor("sigma", sigma, (batch,))
    wrong = sigma[((sigma <= 0) if above else (sigma < 0)) | (sigma > LOUDEST)]
    if len(wrong):
        raise ValueError(
            f"sigma must be {'>' if above else '>='} 0 and <= {LOUDEST:g}, got {wrong[0].item():g}"
        )


def check_flat(x_t: Any, n: int, sigma: Any) -> Tensor:
    """Noisy points [batch n] or images of n values in all, with levels [batch] >= 0, as [batch n]."""
    if not isinstance(x_t, Tensor):
        raise TypeError(f"x_t must be a tensor, got {shown(x_t)}")
    if x_t.ndim < 2 or math.prod(x_t.shape[1:]) != n:
        raise ValueError(f"x_t must have shape [batch, {n}] or images of {n} values, got {list(x_t.shape)}")
    if sigma is None:
        raise TypeError("sigma must be a tensor, got None")
    if not x_t.is_floating_point():
        raise TypeError(f"x_t must hold floating-point numbers, got {x_t.dtype}")
    return check_points(x_t.reshape(len(x_t), n), n, sigma, "x_t")


def check_sigma(sigma: Any) -> float:
    """One noise level, a standard deviation in [0, `LOUDEST`]."""
    return check_number("sigma", sigma, 0, LOUDEST)


def check_indices(idx: Any, n: int, name: str = "indices") -> list[int]:
    """`idx` as a list of distinct integers in [0, n), at least one. Raises ValueError naming the others."""
    idx = check_list(name, idx, 1)
    for i in idx:
        if isinstance(i, bool) or not isinstance(i, Integral):
            raise TypeError(f"{name} must be whole numbers, got {shown(i)}")
    idx = [int(i) for i in idx]
    outside = sorted({i for i in idx if not 0 <= i < n})
    if outside:
        raise ValueError(f"{name} {outside} are outside [0, {n})")
    repeated = sorted({i for i in idx if idx.count(i) > 1}) if len(set(idx)) < len(idx) else []
    if repeated:
        raise ValueError(f"{name} {repeated} are given more than once")
    return idx


def check_conditions(J: Any, known: Iterable | None = None) -> frozenset:
    """A set of conditions J (for a mapping: its keys) as a frozenset.

    Raises TypeError for anything but a set of names (text is one name, not a set of letters), ValueError
    naming the conditions that are not `known`.
    """
    try:
        conditions = frozenset(check_list("a set of conditions J", list(J) if isinstance(J, Mapping) else J))
    except TypeError:
        raise TypeError(
            f"a set of conditions J must be a set, list or tuple of names, got {shown(J)}"
        ) from None
    if known is not None and not conditions <= set(known):
        unknown = sorted(map(repr, conditions - set(known)))
        raise ValueError(f"unknown conditions {', '.join(unknown)}; known are {sorted(known, key=repr)}")
    return conditions


def check_sets(Js: Any, known: Iterable | None = None) -> list[frozenset]:
    """A sequence of sets of conditions, at least one."""
    return [check_conditions(J, known) for J in check_list("the sets of conditions Js", Js, 1)]


def check_grid(cond: Any, cells: int, batch: int) -> Tensor:
    """Location grids of finite counts, [cells] or [batch, cells], as [batch, cells]."""
    try:
        grid = torch.as_tensor(cond)
    except (TypeError, ValueError, RuntimeError):
        raise TypeError(f"cond must be a grid of counts, got {shown(cond)}") from None
    if grid.is_complex():
        raise TypeError(f"cond must hold real numbers, got {grid.dtype}")
    if grid.shape not in ((cells,), (batch, cells)):
        raise ValueError(f"cond must have shape [{cells}] or [{batch}, {cells}], got {list(grid.shape)}")
    return check_entries("cond", grid).expand(batch, -1)


def check_times(times: Any) -> list[float]:
    """Times >= 0 as a list. Raises ValueError for negative times, and for none."""
    listed = check_tensor("times", times, (None,)).tolist()
    if not listed or min(listed) < 0:
        raise ValueError(f"times must be at least one, each >= 0, got {shown(listed)}")
    return listed


def check_curve(loss: Any) -> Tensor:
    """A curve [... times] with at least one time. Raises ValueError for NaN or infinity."""
    if not isinstance(loss, Tensor):
        raise TypeError(f"loss must be a tensor, got {shown(loss)}")
    if loss.ndim == 0 or loss.shape[-1] == 0:
        raise ValueError(f"loss must hold at least one time, got shape {list(loss.shape)}")
    return check_entries("loss", loss)
