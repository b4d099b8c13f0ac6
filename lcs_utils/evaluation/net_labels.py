"""Nets of sections 2 and 4 in words, colors and marks; the paper's ones by experiment, your own by name."""

from collections.abc import Iterable

from lcs_utils.evaluation.sizes import bare
from lcs_utils.nets import parts, trained
from lcs_utils.plotting import GRAY, PALETTE, color_of

UNTRAINED = "untrained"  # a net's twin with random weights, as a net's name
NAMES = {  # {net without size: label}
    "exp1": "Exp. 1",
    "exp2": "Exp. 2",
    "exp2/unit": "Exp. 2, labels / √k",
    "exp1_1": "Exp. 1, one object",
    "random_1-3": "random number of labels",
    "drop_one_1-3": "one label dropped",
    UNTRAINED: UNTRAINED,
    "color_1-3": "all colors",
    "color_single_1-3": "one color",
    "color_1": "all colors, 1 object",
    "color_1-5": "all colors, 1-5",
    f"{UNTRAINED}_color": f"{UNTRAINED}, colors",
}
# of nets told colors, drawn as squares, orange and sky are other numbers of objects; else `plotting.color_of`
HUES = {UNTRAINED: "black", f"{UNTRAINED}_color": "black", "color_1": "orange", "color_1-5": "sky"}


def _first(net: str) -> tuple[str, int]:
    """(name without training seed, training seed); a snapshot keeps its full name."""
    base, seed, images, change = parts(net)
    named = f"{base}/{change}" if change else base
    return (named, seed) if seed and images is None else (net, 0)


def kind(net: str) -> str:
    """What a net is but for its size, its training seed and changes at sampling, which share its weights."""
    return parts(_first(bare(net))[0])[0]


def known(nets: Iterable[str]) -> list[str]:
    """The nets of NAMES in order, each followed by its other trainings among `nets`, then your own nets; all
    without sizes.
    """
    others = sorted({bare(name) for name in nets} - set(NAMES))
    again = {name: [net for net in others if _first(net)[0] == name] for name in NAMES}
    ours = [net for name, trainings in again.items() for net in (name, *trainings)]
    return [*ours, *(net for net in others if net not in ours)]


def of_colors(net: str) -> bool:
    """Whether a net is conditioned on colors, not places."""
    return "color" in net if bare(net) in NAMES else trained(bare(net)).condition == "color"


def label(name: str) -> str:
    """A net in words, with its seed if it was trained again and its size if that is 64 px; your own nets by
    name.
    """
    net = bare(name)
    first, seed = _first(net)
    words = NAMES[first] + f", seed {seed}" * bool(seed) if first in NAMES else net
    return f"{words}{name[len(net) :]}"


def kind_label(name: str) -> str:
    """A net in words, whichever training and size; your own nets by name."""
    first, _ = _first(bare(name))
    return NAMES.get(first, bare(name))


def hue(name: str) -> str:
    """A net's color; gray for nets of your own."""
    first, _ = _first(bare(name))
    if first not in NAMES:
        return GRAY
    return PALETTE[HUES[first]] if first in HUES else color_of(first)


def marker(name: str) -> str:
    """A square for nets told colors; a diamond for one object, whose color is that of more; else a circle."""
    return "s" if of_colors(name) else "d" if _first(bare(name))[0] == "exp1_1" else "o"
