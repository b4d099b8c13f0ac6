"""Scores of maps against known masks, and stored rows of them with their controls (eq. (10), App. G)."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float
from scipy.stats import binomtest, rankdata
from torch import Tensor
from torch.nn import functional

from lcs_utils import paths, store
from lcs_utils.checks import as_array, check_array
from lcs_utils.stats import interval

ENOUGH = 10  # values from which on a bootstrap interval is told without a warning
PATH = paths.COUNTS / "text_to_image.csv"
FIRST = "first word"  # control of `kinds`: the same prompts, at a word that is of no kind
COMMAND = "python -m lcs_utils.text_to_image.study"


class Row(NamedTuple):
    """One number of one net: a measure of a case at a noise level and guidance (0: none), or its control
    ("": the number itself), over n scenes or captions, with its 95% interval.

    The bootstrap's interval of a mean is too narrow for few values: of 4 normal ones it holds the mean in
    80% of all draws, of 16 in 93%.
    """

    net: str
    measure: str
    case: str
    control: str
    sigma: float
    guidance: float
    n: int
    value: float
    low: float
    high: float


def read(path=PATH) -> list[Row]:
    """The stored rows."""
    return store.read_rows(path, Row)


def write(rows: Sequence[Row], path=PATH) -> None:
    """Store rows, replacing those of the same nets and measures."""
    new = {(row.net, row.measure) for row in rows}
    with store.exclusive(path):
        kept = [row for row in read(path) if (row.net, row.measure) not in new]
        store.write_rows(path, COMMAND, Row, kept + list(rows))


def mean_row(net: str, measure: str, case: str, control: str, sigma: float, values: Sequence[float]) -> Row:
    """A mean over scenes with its bootstrap interval."""
    found = interval(as_array("values", values, ("scenes",)))
    return Row(net, measure, case, control, sigma, 0.0, len(values), *(round(v, 4) for v in found))


def share_row(net: str, measure: str, case: str, control: str, guidance: float, right: Sequence[bool]) -> Row:
    """A share of captions with its exact binomial interval. Raises ValueError without captions."""
    n = len(right)
    if not n:
        raise ValueError(f"a share of no captions is not defined ({net}, {case})")
    test = binomtest(int(sum(right)), n).proportion_ci(0.95)
    low, high = round(float(test.low), 4), round(float(test.high), 4)
    return Row(net, measure, case, control, 0.0, guidance, n, round(sum(right) / n, 4), low, high)


def auc(values: Float[np.ndarray, "height width"], mask: Bool[np.ndarray, "height width"]) -> float:
    """The chance that a random place inside the mask has a larger value than one outside; ties count half.

    1: the map finds the mask, 0.5: chance. Raises ValueError for a mask that is full or empty.
    """
    values, inside = _checked(values, mask)
    rank, n = rankdata(values), int(inside.sum())
    return float((rank[inside].sum() - n * (n + 1) / 2) / (n * (inside.size - n)))


def pointing(values: Float[np.ndarray, "height width"], mask: Bool[np.ndarray, "height width"]) -> float:
    """The share of a map's largest values that lie inside the mask: 1 or 0 if the largest is unique."""
    values, inside = _checked(values, mask)
    return float(inside[values == values.max()].mean())


def mass(values: Float[np.ndarray, "height width"], mask: Bool[np.ndarray, "height width"]) -> float:
    """The share of a map's sum inside the mask over the mask's share of the area: 1 for a constant map.

    Raises ValueError for negative values and for a map of zeros.
    """
    values, inside = _checked(values, mask)
    if values.min() < 0 or not values.sum():
        raise ValueError(f"a mass needs values >= 0 that are not all 0, got {values.min():g} in it")
    return float(values[inside].sum() / values.sum() / inside.mean())


MEASURES = {"AUC": auc, "pointing": pointing, "mass": mass}


def _checked(values, mask) -> tuple[np.ndarray, np.ndarray]:
    values = as_array("values", values, ("height", "width"))
    check_array("mask", mask, values.shape, "bool")
    if mask.all() or not mask.any():
        raise ValueError(f"a mask has an inside and an outside, got {int(mask.sum())} of {mask.size} places")
    return values.ravel(), mask.ravel()


def shuffled(
    values: Float[np.ndarray, "height width"], random: np.random.Generator
) -> Float[np.ndarray, "height width"]:
    """The same values at random places."""
    return random.permutation(values.ravel()).reshape(values.shape)


def at_latents(
    found: Bool[np.ndarray, "objects height width"], side: int
) -> Bool[np.ndarray, "objects side side"]:
    """Masks of pixels as masks of latent places: True where at least half of the pixels are the object's."""
    check_array("masks", found, ("objects", "height", "width"), "bool")
    return functional.adaptive_avg_pool2d(torch.from_numpy(found).float(), side).numpy() >= 0.5


def enlarged(maps: Float[Tensor, "batch tokens height width"], side: int) -> Tensor:
    """Attention maps at the size of the latents, bilinear."""
    return functional.interpolate(maps, size=(side, side), mode="bilinear", align_corners=False)
