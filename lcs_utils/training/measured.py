"""What is measured of a trained net, and which of them data/ lacks (App. E.2, E.4)."""

from collections.abc import Iterable

import torch

from lcs_utils import checkpoints, nets, paths
from lcs_utils.architectures import EDM2
from lcs_utils.evaluation import changes, counting, length_generalization
from lcs_utils.evaluation.colors import color, color_generalization
from lcs_utils.evaluation.features import feature_causal, feature_matrices, net_features
from lcs_utils.evaluation.locality import net_locality
from lcs_utils.evaluation.rows import STANDARD, Row
from lcs_utils.experiments import Experiment
from lcs_utils.presets import Preset

COUNTED = {"test": range(13), "spread": range(1, 10), "crowded": range(13)}  # K by family of locations
LOCAL_COUNTED = {"test": range(1, 10), "spread": range(1, 10)}  # of local nets
COLOR_FAMILIES = ("colors", "subsets", "repeated")
SAMPLES, LOCAL_SAMPLES = 64, 24  # of each K; a local net takes ten times as long per sample


def device() -> str:
    """The device that this machine trains and samples on."""
    return "cuda" if torch.cuda.is_available() else "cpu"


def todo(exp: Experiment) -> dict[str, tuple[range, int]]:
    """{family of conditions: (the K to count, samples of each)} (App. E.2, E.4); empty for a net without
    conditions.
    """
    if exp.labels == "none":
        return {}
    if exp.condition == "color":
        return {family: (range(1, color.LARGEST_K + 1), SAMPLES) for family in COLOR_FAMILIES}
    if exp.radius is not None:
        return {family: (ks, LOCAL_SAMPLES) for family, ks in LOCAL_COUNTED.items()}
    return {family: (ks, SAMPLES) for family, ks in COUNTED.items()}


def check_locations(net: str, exp: Experiment, ks: Iterable[int]) -> None:
    """Raise ValueError for numbers of locations at which `net`, trained as `exp`, is not measured."""
    usual = {k for family, _ in todo(exp).values() for k in family}
    if usual and exp.condition == "location" and not usual.issuperset(ks):
        allowed = f"{min(usual)} to {max(usual)}"
        raise ValueError(f"{net} is measured at {allowed} locations, got {', '.join(map(str, ks))}")


def has_features(exp: Experiment, size: Preset) -> bool:
    """Whether the net's features are measured: EDM2's, it has conditions and sees the whole image."""
    return bool(todo(exp)) and exp.radius is None and size.architecture == EDM2


def unmeasured(exp: Experiment, name: str, size: Preset, rows: Iterable[Row]) -> tuple[str, ...]:
    """What data/ lacks of a net whose weights are here: its row, counts by family, locality, features."""
    weights, lacking = changes.weights(name, size.name), []
    kept = paths.CHECKPOINTS / size.name / name / "row.json"
    if size.name in paths.SHIPPED and not (kept.exists() and weights in kept.read_text()):
        lacking.append("row")
    now = (name, weights, counting.counter_hash(size.resolution) if todo(exp) else "", *STANDARD)
    rows = color_generalization.read(size.name) if exp.condition == "color" else rows
    mine = [r for r in rows if (r.net, r.weights, r.counted_by, r.seed, r.solver, r.steps) == now]
    for family, (ks, samples) in todo(exp).items():
        there = {(r.k, r.sample) for r in mine if r.family == family}
        if any((k, i) not in there for k in ks for i in range(samples)):
            lacking.append(f"counts of family {family}")
    if todo(exp):
        found = [row for row in net_locality.read(size.name) if (row.net, row.weights) == (name, weights)]
        if len(found) < net_locality.IMAGES * len(net_locality.SIGMAS):
            lacking.append("locality")
    if has_features(exp, size):
        found = feature_matrices.read(size.name)  # measured last
        if not any((row.net, row.weights) == (name, weights) for row in found):
            lacking.append("features")
    return tuple(lacking)


def measure(exp: Experiment, name: str, size: Preset) -> None:
    """Measure and store all that is missing of a trained net; existing rows are kept. Raises as the
    measurements do.
    """
    if size.name in paths.SHIPPED and nets.folder(name, size.name).is_relative_to(paths.RUNS):
        checkpoints.keep(name, size.name)
    if not todo(exp):
        print(f"{name} has no conditions: there is nothing to count, and no locality", flush=True)
    counted = color_generalization if exp.condition == "color" else length_generalization
    for family, (ks, samples) in todo(exp).items():
        counted.measure(name, ks, samples, size.name, family=family, device=device())
    if todo(exp):
        net_locality.measure(name, size.name, device())
    if has_features(exp, size):
        net_features.measure(name, size.name, device=device())
        feature_causal.measure(name, size.name, device=device())
        feature_matrices.measure(name, size.name, device=device())
