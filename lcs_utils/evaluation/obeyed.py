"""How many of K conditions a net obeys, whatever else it draws (App. E.2): a number without thresholds.

    python -m lcs_utils.evaluation.obeyed    # measures data/counts/obeyed.csv again

Rows that say where objects are (those of today's counter) are judged by `against_null.obeyed`, whose null
is the net's own objects.
What follows is of rows of the earlier counter, which do not, and stands only until those nets are counted
again: it takes unheeding objects to lie as CLEVR's do. Those of nets that draw nearer the middle then seem
to obey: with nothing obeyed it can say 3.5 of 6.

Objects fill cells wherever they stand, so filled cells flatter a net that draws many. The table says how
many cells random CLEVR scenes fill when 0, 1, 2, ... of their objects stand where they were asked for and
the others anywhere. A net's samples are taken for a mixture of such scenes, with as many objects as each
sample shows; its shares are the most likely ones.

A net that draws a crowd in the middle of the asked cells would seem to obey where these lie close, so K
ends at 8.
"""

import argparse
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float
from matplotlib import pyplot as plt
from matplotlib.figure import Figure
from tqdm.auto import tqdm

from lcs_utils import paths, store
from lcs_utils.clevr.conditions import TEST_LOCATIONS
from lcs_utils.clevr.scenes import project, sample_scene
from lcs_utils.evaluation import against_null, placement
from lcs_utils.evaluation.families import HELD_OUT
from lcs_utils.evaluation.rows import Row, by_k
from lcs_utils.nets import trained
from lcs_utils.stats import Interval, bounded

TABLE = paths.COUNTS / "obeyed.csv"
KS = range(1, 9)
MOST = 10  # objects, for which CLEVR's margins leave room; a sample with more is held against this many
SCENES = 1000
RESAMPLES, STEPS = 500, 300  # of the bootstrap; of expectation maximization


class Scattered(NamedTuple):
    """Of scenes of `objects` objects, `obeyed` of them at some of the first k test locations, `scenes` fill
    `placed` of the k cells.
    """

    k: int
    objects: int
    obeyed: int
    placed: int
    scenes: int


class Obeyed(NamedTuple):
    """Objects per sample, each with its bootstrap interval: conditions obeyed <= objects at asked cells <=
    objects drawn.
    """

    obeyed: Interval
    placed: Interval
    drawn: Interval
    samples: int


def scattered(objects: int, ks: Iterable[int] = KS, scenes: int = SCENES) -> list[Scattered]:
    """How many cells random scenes fill of whose objects 0, 1, ... were moved to asked locations; scenes no
    net was trained on.

    Choice: with CLEVR's margins, as the training images. Scenes whose objects only do not intersect fill
    fewer cells.
    Raises ValueError for objects outside 0..MOST or k outside 1..8.
    """
    ks = list(ks)
    if not 0 <= objects <= MOST or not set(ks) <= set(KS):
        raise ValueError(f"objects must be 0..{MOST} and k 1..{KS[-1]}; got {objects} and {ks}")
    rng, where = np.random.default_rng(objects), torch.tensor(TEST_LOCATIONS)
    seen: Counter[tuple[int, int, int]] = Counter()
    for i in range(scenes):
        scene = sample_scene(HELD_OUT, i, objects, visibility=False, require_centers_inside=True)
        anywhere = torch.tensor(project(scene), dtype=torch.float32).reshape(objects, 2)
        order = rng.permutation(KS[-1])
        for k in ks:
            asked = where[:k]
            for obeyed in range(min(k, objects) + 1):
                centers = torch.cat([asked[order[order < k][:obeyed]], anywhere[obeyed:]])
                seen[k, obeyed, len(placement.assigned(asked.numpy(), centers.numpy()))] += 1
    return [Scattered(k, objects, obeyed, placed, n) for (k, obeyed, placed), n in sorted(seen.items())]


@cache
def table(path: Path = TABLE) -> dict[tuple[int, int], Float[np.ndarray, "obeyed placed"]]:
    """{(k, objects): probability of `placed` given `obeyed`}, both 0..k; more than there are objects cannot
    obey.

    Choice: what is possible and was never seen counts as half a scene. Raises ValueError when a number of
    objects is missing.
    """
    rows, found = store.read_rows(path, Scattered), {}
    for k in KS:
        for objects in range(MOST + 1):
            seen = np.zeros((k + 1, k + 1))
            for row in rows:
                if (row.k, row.objects) == (k, objects):
                    seen[row.obeyed, row.placed] = row.scenes
            # placed >= obeyed, placed <= objects
            possible = np.tril(np.ones((k + 1, k + 1))).T * (np.arange(k + 1) <= objects)
            seen = seen + 0.5 * possible
            top = min(k, objects)
            if not (seen[: top + 1].sum(1) > k + 1).all():
                raise ValueError(
                    f"{path.name} lacks k = {k} with {objects} objects; measure it: python -m "
                    "lcs_utils.evaluation.obeyed"
                )
            seen[top:] = seen[top]
            found[k, objects] = seen / seen.sum(1, keepdims=True)
    return found


def mixture(
    likelihood: Float[np.ndarray, "kinds obeyed"],
    samples: Float[np.ndarray, "draws kinds"],
    steps: int = STEPS,
) -> Float[np.ndarray, "draws kinds obeyed"]:
    """Posterior shares of 0, 1, ... obeyed for each kind of sample, after maximizing the mixture's
    likelihood (EM) for each draw.

    `samples` says how many of each kind a draw has.
    """
    weight = np.full((len(samples), likelihood.shape[1]), 1 / likelihood.shape[1])
    total = samples.sum(1, keepdims=True)
    for _ in range(steps):
        weight = weight * ((samples / np.maximum(weight @ likelihood.T, 1e-300)) @ likelihood) / total
    joint = weight[:, None] * likelihood[None]
    return joint / np.maximum(joint.sum(2, keepdims=True), 1e-300)


def conditions_obeyed(rows: Sequence[Row], net: str, k: int, seed: int = 0) -> Obeyed | None:
    """How many of the first k test locations a net's samples obey on average; None when that was not or
    cannot be measured.

    Raises ValueError for k outside 1..8.
    """
    if k not in KS:
        raise ValueError(f"conditions obeyed are measured for K = {KS[0]} to {KS[-1]}, got {k}")
    mine = by_k(rows, net).get(k)
    if not mine:
        return None
    if any(row.asked for row in mine):
        at = against_null.of_nets(rows, [net], "test", 1, [k], seed).at[k]
        filled = Interval(*(round(k * value, 4) for value in at.filled.own))
        return at.obeyed and Obeyed(at.obeyed, filled, at.drawn, at.samples)
    kinds = Counter((row.placed, row.count) for row in mine)
    placed, drawn = (np.array(of, float) for of in zip(*kinds))
    likelihood = np.array([table()[k, min(count, MOST)][:, place] for place, count in kinds])
    counts = np.array(list(kinds.values()), float)
    draws = np.random.default_rng(seed).multinomial(len(mine), counts / len(mine), RESAMPLES)
    samples = np.concatenate([counts[None], draws]).astype(float)
    each = np.minimum(np.arange(k + 1)[None], drawn[:, None])
    obeyed = (samples * (mixture(likelihood, samples) * each).sum(2)).sum(1) / len(mine)
    measured = (
        (obeyed, float(k)),
        (samples @ placed / len(mine), float(k)),
        (samples @ drawn / len(mine), None),
    )
    return Obeyed(*(bounded(values[0], values[1:], len(mine), most) for values, most in measured), len(mine))


def along_k(
    rows: Sequence[Row], nets: Iterable[str], ks: Iterable[int] = KS, seed: int = 0
) -> dict[str, dict[int, Obeyed]]:
    """{net: {K: Obeyed}} for the K that were measured."""
    ks, found = list(ks), {}
    for net in nets:
        mine = [row for row in rows if row.net == net]
        found[net] = {k: of for k in ks if (of := conditions_obeyed(mine, net, k, seed))}
    return found


def plot(found: dict[str, dict[int, Obeyed]], labels: dict[str, str], colors: dict[str, str]) -> Figure:
    """Conditions obeyed against conditions asked for, and objects drawn, a line per net with its 95 % band.

    Gray: as many objects as training images had, when that is the same for all nets.
    """
    figure, (axes, right) = plt.subplots(1, 2, figsize=(7.8, 3.5))
    top = max(max(of) for of in found.values())
    most = {trained(net).objects[1] for net in found}
    if len(most) == 1:
        for panel in (axes, right):
            panel.axvspan(0.5, max(most) + 0.5, color="gray", alpha=0.12, lw=0)
        axes.text(0.6, top + 0.4, "in training", va="top", fontsize=8, color="0.4")
    for (net, of), marker in zip(found.items(), "osD^vP*X"):
        for panel, name in ((axes, "obeyed"), (right, "drawn")):
            value, low, high = zip(*(getattr(at, name) for at in of.values()))
            panel.plot(list(of), value, marker=marker, ms=4.5, color=colors[net], label=labels[net])
            panel.fill_between(list(of), low, high, color=colors[net], alpha=0.18, lw=0)
    for panel, title in ((axes, "conditions obeyed"), (right, "objects drawn")):
        panel.plot([0, top + 1], [0, top + 1], color="0.6", lw=1, ls="--")
        panel.set(
            xlabel="K, conditions asked for",
            xlim=(0.5, top + 0.5),
            ylim=(0, top + 0.5),
            xticks=range(1, top + 1),
            title=title,
        )
    figure.legend(
        *axes.get_legend_handles_labels(), loc="outside lower center", ncols=min(len(found), 3), fontsize=8
    )
    return figure


def main(arguments=None) -> None:
    parser = argparse.ArgumentParser(
        prog="python -m lcs_utils.evaluation.obeyed", description=__doc__.splitlines()[0]
    )
    parser.parse_args(arguments)
    rows = [row for objects in tqdm(range(MOST + 1), desc="objects") for row in scattered(objects)]
    store.write_rows(TABLE, "python -m lcs_utils.evaluation.obeyed", Scattered, rows)


if __name__ == "__main__":
    main()
