"""Rates with bootstrap intervals: at each K, over several K, and along training (App. E.2)."""

from collections.abc import Iterable, Sequence

import numpy as np
from jaxtyping import Float

from lcs_utils import nets
from lcs_utils.checks import check_choice, check_counts, check_kind
from lcs_utils.evaluation.rows import PLAUSIBLE, Row, by_k, check_rows, of_net, preset_of
from lcs_utils.evaluation.rules import PAPER_RULE_ALL, largest_k, success
from lcs_utils.experiments import Experiment
from lcs_utils.nets import trained
from lcs_utils.stats import Interval, interval

MEASURES = ("exact", "within_one", "at_places", "filled", "count", "extras", "plausible", "success")
NUMBERS = ("count", "extras")  # measures in objects; all others are shares


def measures(rows: list[Row], trained_on: Experiment) -> dict[str, Float[np.ndarray, "samples"]]:
    """The measures of each sample of one K (App. E.2): 0 or 1, except `count`, `extras` (objects) and
    `filled` (share of the K cells).

    exact: K objects; within_one: K-1 to K+1; at_places: every conditioned cell holds an object within one
    cell; plausible: to the counter; success: as `rules.success`.
    """
    check_kind("trained_on", trained_on, Experiment, "an Experiment")
    return of_pictures(rows) | {"success": np.array([success(r, trained_on) for r in rows], float)}


def of_pictures(rows: list[Row]) -> dict[str, Float[np.ndarray, "samples"]]:
    """The `measures` that do not ask what the net was trained on."""
    rows = check_rows(rows)
    k, count, placed = (
        np.array([getattr(r, name) for r in rows], float) for name in ("k", "count", "placed")
    )
    return {
        "exact": (count == k) * 1.0,
        "within_one": (np.abs(count - k) <= 1) * 1.0,
        "at_places": (placed == k) * 1.0,
        "filled": np.where(k > 0, placed / np.maximum(k, 1), 1.0),
        "count": count,
        "extras": count - placed,
        "plausible": np.array([r.plausibility >= PLAUSIBLE for r in rows], float),
    }


def rates(
    rows: Iterable[Row], net: str, family: str = "test", seed: int = 0
) -> dict[int, dict[str, Interval]]:
    """{K: {measure: Interval}} of one net, for the measures of `measures` (App. E.2, Table 1)."""
    found = {
        k: measures(group, trained(net, group[0].preset)) for k, group in by_k(rows, net, family).items()
    }
    return {
        k: {n: interval(v, seed=seed, share=n not in NUMBERS) for n, v in values.items()}
        for k, values in found.items()
    }


def mean_over(
    rows: Sequence[Row], net: str, measure: str, ks: Sequence[int], seed: int = 0
) -> Interval | None:
    """The mean of `measure` over several K, each with the same weight, with its bootstrap interval; None
    unless every K has rows. Raises ValueError for an unknown measure.
    """
    check_choice("measure", measure, MEASURES)
    ks = check_counts("ks", ks, least=1)
    mine = of_net(check_rows(rows), net)
    if not set(ks) <= {row.k for row in mine}:
        return None
    found = by_k(mine, net)
    values = [measures(found[k], trained(net, found[k][0].preset))[measure] for k in ks]
    return interval(*values, seed=seed, share=measure not in NUMBERS)


def along_training(
    rows: Sequence[Row], net: str, ks: dict[str, Sequence[int]]
) -> dict[int, dict[str, Interval]]:
    """{training images: {measure: its `mean_over` ks[measure]}} of the snapshots of `net` with all."""
    found = {}
    for images, stage in nets.along({row.net for row in rows}, net, preset_of(rows)).items():
        values = {name: mean_over(rows, stage, name, over) for name, over in ks.items()}
        measured = {name: value for name, value in values.items() if value is not None}
        if len(measured) == len(values):
            found[images] = measured
    return found


def with_k(
    rows: Sequence[Row], found: dict[int, dict[str, Interval]], net: str, most: int = 6
) -> dict[int, dict[str, Interval]]:
    """`found` (of `along_training`) with "K" by the paper's rule, on all samples up to K = `most`."""
    early = [row for row in rows if row.k <= most]
    names = nets.along({row.net for row in rows}, net, preset_of(rows))
    return {
        images: values | {"K": Interval(*largest_k(early, names[images], PAPER_RULE_ALL)[:3])}
        for images, values in found.items()
    }
