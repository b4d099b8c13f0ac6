"""Nets whose features are measured, in words and colors: the labels and curves of section 4's figures."""

from collections.abc import Iterable
from typing import NamedTuple

from lcs_utils.evaluation.feature_matrices import CosineRow
from lcs_utils.evaluation.feature_nets import UNTRAINED
from lcs_utils.evaluation.net_features import FeatureRow
from lcs_utils.evaluation.sizes import bare, size_of
from lcs_utils.nets import trained
from lcs_utils.plotting import PALETTE

GRAY = "#777777"
NAMES = {  # of the net without its size, and its color
    "exp1": ("Exp. 1", "blue"),
    "exp1_seed1": ("Exp. 1, trained again", "blue"),
    "exp2": ("Exp. 2", "vermilion"),
    "exp2_seed1": ("Exp. 2, trained again", "vermilion"),
    "exp2/unit": ("Exp. 2, unit labels", "purple"),
    "exp1_1": ("Exp. 1, one object", "orange"),
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


def known(nets: Iterable[str]) -> list[str]:
    """The nets of NAMES in its order, then your own among `nets`, without sizes."""
    return [*NAMES, *sorted({bare(name) for name in nets} - set(NAMES))]


def of_colors(net: str) -> bool:
    """Whether a net is told colors, not places."""
    return "color" in net if bare(net) in NAMES else trained(bare(net)).condition == "color"


def label(name: str) -> str:
    """A net in words, with its size where that is 64 px; one of your own by its name."""
    net = bare(name)
    return f"{NAMES[net][0] if net in NAMES else net}{name[len(net) :]}"


def hue(name: str) -> str:
    """A net's color; gray for one of your own."""
    net = bare(name)
    return PALETTE[NAMES[net][1]] if net in NAMES else GRAY


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
