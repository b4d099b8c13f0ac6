"""Nets whose features are measured, in words and colors: the labels and curves of section 4's figures."""

from collections.abc import Iterable
from typing import NamedTuple

from lcs_utils.evaluation.feature_matrices import CosineRow
from lcs_utils.evaluation.feature_nets import UNTRAINED
from lcs_utils.evaluation.net_features import FeatureRow
from lcs_utils.evaluation.sizes import bare, size_of
from lcs_utils.nets import parts, trained
from lcs_utils.plotting import PALETTE

GRAY = "#777777"
NAMES = {  # of the net without its size, and its color
    "exp1": ("Exp. 1", "blue"),
    "exp2": ("Exp. 2", "vermilion"),
    "exp2/unit": ("Exp. 2, labels of one size", "purple"),
    "exp1_1": ("Exp. 1, one object", "orange"),
    "random_1-3": ("random number of labels", "green"),
    "drop_one_1-3": ("one label dropped", "sky"),
    UNTRAINED: (UNTRAINED, "black"),
    "color_1-3": ("all colors", "green"),
    "color_single_1-3": ("one color", "sky"),
    "color_1": ("all colors, 1 object", "orange"),
    "color_1-5": ("all colors, 1-5", "purple"),
    f"{UNTRAINED}_color": (f"{UNTRAINED}, colors", "black"),
}


class Curve(NamedTuple):
    """One net of the additivity figure: its rows' name, its label and color, and the K that it was trained up
    to (None: untrained).
    """

    net: str
    label: str
    color: str
    trained: int | None


def _first(net: str) -> tuple[str, int]:
    """(its name without the seed of its training, the seed); a snapshot keeps its name."""
    base, seed, images, change = parts(net)
    named = f"{base}/{change}" if change else base
    return (named, seed) if seed and images is None else (net, 0)


def known(nets: Iterable[str]) -> list[str]:
    """The nets of NAMES in its order, each before its other trainings among `nets`, then your own, without
    sizes.
    """
    others = sorted({bare(name) for name in nets} - set(NAMES))
    again = {name: [net for net in others if _first(net)[0] == name] for name in NAMES}
    ours = [net for name, trainings in again.items() for net in (name, *trainings)]
    return [*ours, *(net for net in others if net not in ours)]


def of_colors(net: str) -> bool:
    """Whether a net is told colors, not places."""
    return "color" in net if bare(net) in NAMES else trained(bare(net)).condition == "color"


def label(name: str) -> str:
    """A net in words, with its seed where it was trained again and its size where that is 64 px; one of your
    own by its name.
    """
    net = bare(name)
    first, seed = _first(net)
    words = NAMES[first][0] + f", seed {seed}" * bool(seed) if first in NAMES else net
    return f"{words}{name[len(net) :]}"


def hue(name: str) -> str:
    """A net's color; gray for one of your own."""
    first, _ = _first(bare(name))
    return PALETTE[NAMES[first][1]] if first in NAMES else GRAY


def labels(rows: Iterable[FeatureRow | CosineRow], size: str = "32 px", kind: str = "") -> dict[str, str]:
    """{net: its label} of the nets of a size that have rows, told of places ("location"), of colors ("color")
    or of either, untrained ones after the others of their kind.
    """
    there = {row.net for row in rows if size_of(row.net) == size}
    wanted = [net for net in known(there) if not kind or of_colors(net) is (kind == "color")]
    names = [next((name for name in there if bare(name) == net), "") for net in wanted]
    return {name: label(name) for name in names if name}


def curves(rows: Iterable[FeatureRow], size: str = "32 px", kind: str = "") -> list[Curve]:
    """A curve for each net, as `labels`."""
    return [
        Curve(
            name,
            words,
            hue(name),
            None if name.startswith(UNTRAINED) else trained(bare(name)).objects[1],
        )
        for name, words in labels(rows, size, kind).items()
    ]
