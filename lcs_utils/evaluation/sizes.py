"""Nets of two sizes in one figure: names that say the size, since a net's own name does not."""

from collections.abc import Callable, Iterable
from typing import Any

SIZES = {"tiny": "32 px", "small": "64 px"}


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
