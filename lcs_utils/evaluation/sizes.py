"""Nets of two sizes in one figure: names that say the size, since a net's own name does not."""

from collections.abc import Callable, Iterable
from typing import Any

SIZES = {"tiny": "32 px", "small": "64 px"}
LOCAL = {"small": "exp3_r2"}  # the local net beside Exp. 1 and 2, where it is not the one of three cells


def told(preset: str) -> tuple[str, str]:
    """(preset whose stored nets a notebook tells, its local net on 1-3 objects): of `tiny`, whose nets are
    speckled and mostly have no null, it is `small`; another stands for itself.
    """
    size = "small" if preset == "tiny" else preset
    return size, LOCAL.get(size, "exp3")


def sampled(preset: str) -> str:
    """The preset whose nets of Exp. 1, 2 and 3 a notebook samples: of `small` not all weights are kept."""
    return "tiny" if preset == "small" else preset


def sized(net: str, preset: str) -> str:
    """`exp1` of preset tiny, `exp1, 64 px` of preset small. Raises KeyError for another preset."""
    return net if preset == "tiny" else f"{net}, {SIZES[preset]}"


def bare(name: str) -> str:
    """The net's own name."""
    return name.partition(",")[0]


def size_of(name: str) -> str:
    """`32 px` or `64 px`."""
    return name.partition(", ")[2] or SIZES["tiny"]


def preset_of(name: str) -> str:
    """The preset of a sized name. Raises ValueError for another size."""
    size = size_of(name)
    if size not in SIZES.values():
        raise ValueError(f"sizes are {' and '.join(SIZES.values())}, got {name!r}")
    return next(preset for preset, of in SIZES.items() if of == size)


def of_both(read: Callable[[str], Iterable[Any]]) -> list[Any]:
    """The rows of both presets that `read(preset)` gives, their nets named with their size."""
    return [row._replace(net=sized(row.net, preset)) for preset in SIZES for row in read(preset)]
