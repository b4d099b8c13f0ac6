"""Nets of two sizes in one figure: names that include the size, which a net's own name does not."""

from collections.abc import Callable, Iterable
from typing import Any

SIZES = {"tiny": "32 px", "small": "64 px", "medium": "64 px by Muon"}
# the local net shown with Exp. 1 and 2, where its radius is not three cells
LOCAL = dict.fromkeys(("small", "medium"), "exp3_r2")


def told(preset: str) -> tuple[str, str]:
    """(preset whose stored nets a notebook reports, its local net on 1-3 objects): for `tiny`, whose nets are
    speckled and mostly lack a null, it is `small`; others stand for themselves.
    """
    size = "small" if preset == "tiny" else preset
    return size, LOCAL.get(size, "exp3")


def sampled(preset: str) -> str:
    """The preset whose nets of Exp. 1, 2, 3 a notebook samples: not of 64 px, which lack some weights."""
    return "tiny" if preset in LOCAL else preset


def sized(net: str, preset: str) -> str:
    """`exp1` of preset tiny, `exp1, 64 px` of small. Raises KeyError for a preset without size."""
    return net if preset == "tiny" else f"{net}, {SIZES[preset]}"


def bare(name: str) -> str:
    """The net's name without its size."""
    return name.partition(",")[0]


def size_of(name: str) -> str:
    """The size in a sized name, one of SIZES."""
    return name.partition(", ")[2] or SIZES["tiny"]


def preset_of(name: str) -> str:
    """The preset of a sized name. Raises ValueError for another size."""
    size = size_of(name)
    if size not in SIZES.values():
        raise ValueError(f"sizes are {', '.join(SIZES.values())}, got {name!r}")
    return next(preset for preset, of in SIZES.items() if of == size)


def of_both(read: Callable[[str], Iterable[Any]]) -> list[Any]:
    """The rows of all presets from `read(preset)`, with sized net names."""
    return [row._replace(net=sized(row.net, preset)) for preset in SIZES for row in read(preset)]
