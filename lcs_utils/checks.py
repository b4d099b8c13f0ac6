"""Checks of what public functions accept; every error is one sentence that names the value.

TypeError for a value of the wrong kind, ValueError for one of the right kind that is out of range. Nothing
here imports torch, which scenes and tables do not need.
"""

import dataclasses
import difflib
import math
import re
import sys
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from numbers import Integral, Real
from typing import Any

import numpy as np

LARGEST = 1e100  # magnitude of any entry: its square still fits a float64
KINDS = {  # of entries: numpy's dtype kinds, and in words
    "real": ("fiu", "real numbers"),
    "float": ("f", "floating-point numbers"),
    "whole": ("iu", "whole numbers"),
    "bool": ("b", "True or False"),
    "byte": ("u", "bytes"),
}


def shown(value: Any) -> str:
    """`value` as an error shows it: its repr in one line, cut at 80 characters."""
    text = " ".join(repr(value).split())
    return text if len(text) <= 80 else f"{text[:77]}..."


def is_tensor(value: Any) -> bool:
    """Whether a value is a torch tensor."""
    torch = sys.modules.get("torch")  # if it is not imported, nothing is a tensor
    return torch is not None and isinstance(value, torch.Tensor)


def check_number(
    name: str, value: Any, low: float = -math.inf, high: float = math.inf, above: bool = False
) -> float:
    """A finite real number in [low, high], or in (low, high] if `above`, as a float."""
    if is_tensor(value) and value.numel() == 1:
        value = value.item()
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, Real):
        raise TypeError(f"{name} must be a number, got {shown(value)}")
    if not math.isfinite(value) or not low <= value <= high or (above and value == low):
        least = f"{'>' if above else '>='} {low:g}" if low > -math.inf else ""
        most = f"<= {high:g}" if high < math.inf else ""
        allowed = " and ".join(filter(None, (least, most))) or "finite"
        raise ValueError(f"{name} must be {allowed}, got {shown(value)}")
    return float(value)


def check_count(name: str, value: Any, low: int | None = 0, high: int | None = None) -> int:
    """A whole number in [low, high]; a limit None is no limit."""
    # asking an abstract class takes most of the time
    if type(value) is not int and (isinstance(value, bool) or not isinstance(value, Integral)):
        raise TypeError(f"{name} must be a whole number, got {shown(value)}")
    if (low is not None and value < low) or (high is not None and value > high):
        raise ValueError(
            f"{name} must be {f'>= {low}' if high is None else f'in {low}..{high}'}, got {value}"
        )
    return int(value)


def check_flag(name: str, value: Any) -> bool:
    """True or False."""
    if not isinstance(value, (bool, np.bool_)):
        raise TypeError(f"{name} must be True or False, got {shown(value)}")
    return bool(value)


def check_text(name: str, value: Any) -> str:
    """A string that is not empty."""
    if not isinstance(value, str):
        raise TypeError(f"{name} must be text, got {shown(value)}")
    if not value:
        raise ValueError(f"{name} must not be empty, got ''")
    return value


def check_choice(name: str, value: Any, allowed: Iterable[str]) -> str:
    """One of the allowed names. Raises TypeError for anything but a string, ValueError listing the names."""
    if not isinstance(value, str):
        raise TypeError(f"{name} must be one of {', '.join(allowed)}, got {shown(value)}")
    if value not in allowed:
        raise ValueError(unknown(name, value, allowed))
    return value


def unknown(name: str, value: str, allowed: Iterable[str]) -> str:
    """The words of an error for a name that is not allowed: those that are, after any that look alike."""
    allowed = list(allowed)
    near = difflib.get_close_matches(value, allowed, cutoff=0.8)
    meant = f"did you mean {' or '.join(near)}? " if near else ""
    return f"unknown {name} {value!r}; {meant}allowed: {', '.join(allowed)}"


def check_kind(name: str, value: Any, kind: type, words: str) -> Any:
    """An instance of `kind`, which `words` names."""
    if not isinstance(value, kind):
        raise TypeError(f"{name} must be {words}, got {shown(value)}")
    return value


def check_call(name: str, value: Any) -> Callable:
    """Something that can be called."""
    if not callable(value):
        raise TypeError(f"{name} must be a function, got {shown(value)}")
    return value


def check_list(name: str, values: Any, least: int = 0) -> list:
    """The items of an iterable other than a string or mapping, at least `least` of them."""
    if is_tensor(values) and values.ndim == 1:
        values = values.tolist()
    other = isinstance(values, (str, bytes, Mapping)) or is_tensor(values) or getattr(values, "ndim", 1) == 0
    if other or not isinstance(values, Iterable):
        raise TypeError(f"{name} must be a sequence, got {shown(values)}")
    values = list(values)
    if len(values) < least:
        raise ValueError(f"{name} must hold at least {least}, got {shown(values)}")
    return values


def check_items(name: str, values: Any, kind: type, words: str, least: int = 0) -> list:
    """The items of a sequence, each an instance of `kind`, which `words` names."""
    values = check_list(name, values, least)
    for value in values:
        if not isinstance(value, kind):
            raise TypeError(f"{name} must be a sequence of {words}, got {shown(value)} in it")
    return values


def check_counts(
    name: str, values: Any, low: int | None = 0, high: int | None = None, least: int = 0
) -> list[int]:
    """Whole numbers in [low, high], at least `least` of them."""
    return [check_count(name, value, low, high) for value in check_list(name, values, least)]


def check_tuple(
    name: str, value: Any, length: int, low: float = -math.inf, high: float = math.inf
) -> tuple[float, ...]:
    """`length` numbers in [low, high], in a tuple, list or array."""
    values = check_list(name, value)
    if len(values) != length:
        raise ValueError(f"{name} must be {length} numbers, got {shown(value)}")
    return tuple(check_number(name, v, low, high) for v in values)


def check_place(name: str, value: Any, aside: bool = False) -> None:
    """Raise TypeError or ValueError unless `value` is (x, y, z), each at most 1e6 in size.

    `aside`: not straight above or below the origin either.
    """
    x, y, _ = check_tuple(name, value, 3, -1e6, 1e6)
    if aside and math.hypot(x, y) < 1e-6:
        raise ValueError(f"{name} must not be straight above or below the origin, got {value}")


def check_generator(generator: Any) -> Any:
    """A torch.Generator."""
    torch = sys.modules.get("torch")
    if torch is None or not isinstance(generator, torch.Generator):
        raise TypeError(f"generator must be a torch.Generator, got {shown(generator)}")
    return generator


Shape = Sequence[int | str | None]  # a length, or a name (None: "any") for an axis of any length


def _fits(found: Sequence[int], shape: Shape) -> bool:
    return len(found) == len(shape) and all(not isinstance(n, int) or n == m for n, m in zip(shape, found))


def _wanted(shape: Shape) -> str:
    return f"[{', '.join('any' if n is None else str(n) for n in shape)}]"


def _check_shape(name: str, found: Sequence[int], shape: Shape) -> None:
    if not _fits(found, shape):
        raise ValueError(f"{name} must have shape {_wanted(shape)}, got {list(found)}")


def check_tensor(name: str, value: Any, shape: Shape | None, finite: bool = True, kind: str = "real") -> Any:
    """A tensor of `shape` (None: any) and of a kind of KINDS, without NaN or infinity unless `finite` is
    false.
    """
    if not is_tensor(value):
        raise TypeError(f"{name} must be a tensor, got {shown(value)}")
    found = "f" if value.is_floating_point() else "c" if value.is_complex() else "i"
    if found == "i" and str(value.dtype) == "torch.bool":
        found = "b"
    if found not in KINDS[kind][0]:
        raise TypeError(f"{name} must hold {KINDS[kind][1]}, got {value.dtype}")
    if shape is not None:
        _check_shape(name, value.shape, shape)
    return check_entries(name, value) if finite else value


def check_pixels(name: str, images: Any) -> Any:
    """Finite pixels in about [-1, 1], as `name` takes them; warns of those that look like [0, 1]."""
    if not images.numel():
        return images
    low, high = float(images.min()), float(images.max())
    if not max(-low, high) <= 10:  # not by NaN either
        raise ValueError(f"{name} takes finite images in [-1, 1], got values up to {max(-low, high):g}")
    if 0 <= low < high <= 1:
        warnings.warn(
            f"{name} takes images in [-1, 1]; these lie in [0, 1]: 2 * images - 1 was probably meant",
            stacklevel=4,
        )
    return images


def check_entries(name: str, value: Any) -> Any:
    """A tensor whose entries are finite and at most `LARGEST` in size."""
    wrong = ~(value.double().abs() <= LARGEST)
    if bool(wrong.any()):
        raise ValueError(
            f"{name} must be finite, at most {LARGEST:g} in size, got {value[wrong][0].item()} in it"
        )
    return value


def check_array(name: str, value: Any, shape: Shape, kind: str = "real") -> np.ndarray:
    """A numpy array of `shape` and of a kind of KINDS."""
    if not isinstance(value, np.ndarray):
        raise TypeError(f"{name} must be an array, got {shown(value)}")
    if not (value.dtype == np.uint8 if kind == "byte" else value.dtype.kind in KINDS[kind][0]):
        raise TypeError(f"{name} must hold {KINDS[kind][1]}, got {value.dtype}")
    _check_shape(name, value.shape, shape)
    return value


def as_array(name: str, value: Any, shape: Shape | None = None, finite: bool = True) -> np.ndarray:
    """Numbers in an array, tensor or nested sequence as float64 of `shape` (None: any)."""
    try:
        array = np.asarray(value)
    except (TypeError, ValueError, RuntimeError):
        raise TypeError(f"{name} must be numbers of one rectangular shape, got {shown(value)}") from None
    if array.size == 0 and isinstance(value, (list, tuple)) and shape is not None:
        # an empty list has no shape of its own
        array = array.reshape([n if isinstance(n, int) else 0 for n in shape])
    if array.dtype.kind not in KINDS["real"][0]:
        raise TypeError(f"{name} must hold real numbers, got {shown(value)}")
    shape = array.shape if shape is None else shape
    if not _fits(array.shape, shape) or (finite and not np.isfinite(array).all()):
        raise ValueError(
            f"{name} must be {'finite and ' if finite else ''}of shape {_wanted(shape)}, got "
            f"{shown(array.tolist())}"
        )
    return array.astype(np.float64, copy=False)


def check_name(name: str, value: str) -> str:
    """A string that can name a folder and, with a seed, nets. Raises ValueError for any other."""
    if not re.fullmatch(r"[A-Za-z0-9][\w.-]*", check_text(name, value)) or re.search(r"_seed\d+$", value):
        allowed = "letters, digits, `_`, `-` and `.`, and ends in no _seed1"
        raise ValueError(f"{name} is {allowed}: it names folders and, with a seed, nets; got {value!r}")
    return value


def check_steady(name: str, denoise: Any) -> None:
    """Raise TypeError unless `denoise` can be called, ValueError for a net in training mode whose output is
    then random or depends on the batch: dropout, batch norm. Nets within dataclasses are looked at, too.
    """
    check_call(name, denoise)
    if dataclasses.is_dataclass(denoise):  # as denoisers that wrap a net
        for field in dataclasses.fields(denoise):
            part = getattr(denoise, field.name)
            if callable(part) and (hasattr(part, "modules") or dataclasses.is_dataclass(part)):
                check_steady(name, part)
    for module in denoise.modules() if hasattr(denoise, "modules") else ():
        kinds = {kind.__name__ for kind in type(module).__mro__}
        if module.training and kinds & {"_DropoutNd", "_BatchNorm"}:
            kind = type(module).__name__
            raise ValueError(f"{name} is in training mode and has a {kind}; call its eval() before")
