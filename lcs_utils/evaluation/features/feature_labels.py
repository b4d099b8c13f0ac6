"""The labels and curves of the nets that have rows of features (section 4)."""

from collections.abc import Iterable
from typing import NamedTuple

from lcs_utils.evaluation.features.feature_matrices import CosineRow
from lcs_utils.evaluation.features.net_features import FeatureRow
from lcs_utils.evaluation.net_labels import UNTRAINED, hue, known, label, of_colors
from lcs_utils.evaluation.sizes import bare, size_of
from lcs_utils.nets import trained


class Curve(NamedTuple):
    """One net of the additivity figure: its name in rows, its label and color, and the largest K that it was
    trained on (None: untrained).
    """

    net: str
    label: str
    color: str
    trained: int | None


def labels(rows: Iterable[FeatureRow | CosineRow], size: str = "32 px", kind: str = "") -> dict[str, str]:
    """{net: label} of the nets of one size that have rows, in the order of `known`; `kind` selects nets
    conditioned on places ("location") or colors ("color"), by default both.
    """
    there = {row.net for row in rows if size_of(row.net) == size}
    wanted = [net for net in known(there) if not kind or of_colors(net) is (kind == "color")]
    names = [next((name for name in there if bare(name) == net), "") for net in wanted]
    return {name: label(name) for name in names if name}


def curves(rows: Iterable[FeatureRow], size: str = "32 px", kind: str = "") -> list[Curve]:
    """A curve for each net of `labels`."""
    return [
        Curve(
            name,
            words,
            hue(name),
            None if name.startswith(UNTRAINED) else trained(bare(name)).objects[1],
        )
        for name, words in labels(rows, size, kind).items()
    ]
