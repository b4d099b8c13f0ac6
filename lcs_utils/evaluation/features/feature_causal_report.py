"""Rows of `feature_causal` arranged for figures and notebooks: an intervention next to its controls."""

from collections.abc import Iterable, Sequence

from lcs_utils.evaluation.features.feature_labels import labels
from lcs_utils.evaluation.features.net_features import FeatureRow
from lcs_utils.evaluation.net_labels import UNTRAINED
from lcs_utils.evaluation.sizes import SIZES, bare, size_of

OWN = ""
CONTROLS = {
    OWN: "its direction $d_j$",
    "another": "another condition's",
    "random": "a random vector",
    UNTRAINED: "an untrained net's",
    "condition": "the condition itself",
}


def changed(rows: Iterable[FeatureRow], size: str = "32 px") -> dict[str, str]:
    """{net: label} of the nets of a size whose features were changed while sampling (`feature_causal`)."""
    return labels([row for row in rows if row.inputs == "samples"], size)


def causes(rows: Iterable[FeatureRow], net: str, layer: str, measure: str) -> dict[str, FeatureRow]:
    """{control: row} of an intervention at a layer, in the order of CONTROLS.

    Raises ValueError, with the command, if one is missing; only an untrained net's may be.
    """
    found = {row.control: row for row in rows if (row.net, row.layer, row.measure) == (net, layer, measure)}
    if not found.keys() >= CONTROLS.keys() - {UNTRAINED}:
        preset = next(preset for preset, size in SIZES.items() if size == size_of(net))
        command = "python -m lcs_utils.evaluation.features.feature_causal"
        said = f"{command} {bare(net)} --layers {layer} --preset {preset}"
        raise ValueError(f"no rows for {measure} of {net} at {layer}: {said}")
    return {control: found[control] for control in CONTROLS if control in found}


def causal_numbers(rows: Sequence[FeatureRow], nets: Iterable[str], layers: Sequence[str]) -> dict:
    """{net: {layer: {measure: {control: [value, low, high]}}}}, for JSON."""
    measures = [f"{way}_{what}" for way in ("add", "remove") for what in ("effect", "leak")]
    return {
        net: {
            layer: {
                measure: {
                    CONTROLS[control]: list(row[-3:])
                    for control, row in causes(rows, net, layer, measure).items()
                }
                for measure in measures
            }
            for layer in layers
        }
        for net in nets
    }
