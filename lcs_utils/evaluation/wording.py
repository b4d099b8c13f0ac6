"""Words that figures and tables share, so that one thing has one name: locations, measures, nets."""

from lcs_utils.experiments import EXPERIMENTS
from lcs_utils.nets import parts

CELLS = {"spread": "random cells", "test": "the paper's cells"}  # by `families.FAMILIES`
EARLIER = "32 px, earlier counter, no null"
EXTRAS = "objects nobody asked for"
MEASURES = {  # of `rates.measures`, all by the earlier counter
    "exact": "exactly K objects",
    "within_one": "K-1 to K+1 objects",
    "at_places": "every cell filled",
    "filled": "cells filled",
    "count": "objects",
    "extras": EXTRAS,
    "plausible": "looks right to the earlier counter",
    "success": "samples that succeed",
    "K": "largest K",
}
LABELS = {
    "all": "Exp. 1",
    "random": "random number of labels",
    "drop_one": "one label dropped",
    "single": "Exp. 2",
}
CHANGES = {
    "unit": "labels / √k",
    "near": "near labels",
    "nearest": "nearest label",
    "swapped": "another label",
    "low_noise": "low-noise net",
    "stochastic": "SDE",
    "flow": "flow in 80 steps",
}


def net(name: str) -> str:
    """`Exp. 1 on 1-6, seed 1, 64 px`: a net's name in rows in words, its training images' objects unless
    they are 1-3; nets of your own, and nets told no locations, by their name.
    """
    bare, comma, size = name.partition(", ")
    base, seed, images, change = parts(bare)
    exp = EXPERIMENTS.get(base)
    if exp is None or exp.condition != "location" or exp.labels not in LABELS:
        return name
    low, high = exp.objects
    said = LABELS[exp.labels] if exp.radius is None else f"Exp. 3, r = {exp.radius}"
    if (low, high) != (1, 3):
        said += "," * (exp.radius is not None) + (f" on {low}-{high}" if low < high else " on one object")
    said += ", normalized labels" * exp.normalize_label + ", trained longer" * (exp.times > 1)
    said += f", seed {seed}" * bool(seed) + (f", {images:,} images" if images is not None else "")
    return said + (f", {CHANGES.get(change, change)}" if change else "") + comma + size
