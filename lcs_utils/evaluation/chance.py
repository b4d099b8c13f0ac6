"""How many of K conditions a net obeys: the cells it fills, against scenes of as many objects of which only some obey (App. E.2).

    python -m lcs_utils.evaluation.chance    # measures data/counts/chance.csv again

Many objects fill many cells wherever they stand, so the share of filled cells flatters a net that draws many. The table says what
share random CLEVR scenes fill when 0, 1, 2, ... of their objects stand where they were asked for; a net obeys as many conditions
as make such scenes fill what it fills.
"""

import argparse
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

from lcs_utils import paths
from lcs_utils.clevr.conditions import TEST_LOCATIONS
from lcs_utils.clevr.scenes import project, sample_scene
from lcs_utils.evaluation.conditioning import HELD_OUT, LARGEST_K
from lcs_utils.evaluation.rates import LEVEL, Interval, by_k, resampled, trained
from lcs_utils.evaluation.rows import Row, match

TABLE = paths.COUNTS / "chance.csv"
KS = range(1, LARGEST_K + 1)
MOST = 14  # objects; a sample with more is held against this many
APART = 10  # most objects that CLEVR's margins leave room for; more only do not intersect
SCENES = 1000


class Chance(NamedTuple):
    """Scenes of `objects` objects, all centers in the image and `obeyed` of them at asked cells, fill this share of k cells."""

    k: int
    objects: int
    obeyed: int
    scenes: int
    filled: float


class Obeyed(NamedTuple):
    """Share of the cells filled; the same by scenes of as many objects that obey nothing; number of conditions obeyed."""

    filled: Interval
    by_chance: Interval
    obeyed: Interval


def by_chance(objects: int, ks: Iterable[int] = KS, scenes: int = SCENES) -> list[Chance]:
    """Share of the first k test locations that random scenes fill, 0, 1, ... of whose objects were moved to some of them.

    Raises ValueError for objects outside 0..MOST or k outside 1..12.
    """
    ks = list(ks)
    if not 0 <= objects <= MOST or not set(ks) <= set(KS):
        raise ValueError(f"objects must be 0..{MOST} and k 1..{LARGEST_K}; got {objects} and {ks}")
    rng, where = np.random.default_rng(objects), torch.tensor(TEST_LOCATIONS)
    placed = {(k, obeyed): 0 for k in ks for obeyed in range(min(k, objects) + 1)}
    for i in range(scenes):
        scene = sample_scene(HELD_OUT, i, objects, margins=objects <= APART, visibility=False, require_centers_inside=True)
        anywhere = torch.tensor(project(scene), dtype=torch.float32).reshape(objects, 2)
        order = rng.permutation(LARGEST_K)
        for k, obeyed in placed:
            asked = where[:k]
            placed[k, obeyed] += match(torch.cat([asked[order[order < k][:obeyed]], anywhere[obeyed:]]), asked)
    return [Chance(k, objects, obeyed, scenes, round(n / scenes / k, 4)) for (k, obeyed), n in placed.items()]


@cache
def table(path: Path = TABLE) -> dict[tuple[int, int], Float[np.ndarray, "obeyed"]]:
    """{(k, objects): share filled with 0, 1, ..., k obeyed}; more than there are objects cannot obey and add nothing.

    The curve is made nondecreasing: at K = 9 six and more objects, kept apart by CLEVR's margins, fill as much as with one to three of them
    moved among the asked cells, which lie close, so that there so few obeyed conditions cannot be told from none.
    Raises ValueError when a number is missing.
    """
    stored = {row[:3]: row.filled for row in paths.read_rows(path, Chance)}
    needed = [(k, m, obeyed) for k in KS for m in range(MOST + 1) for obeyed in range(min(k, m) + 1)]
    missing = [key for key in needed if key not in stored]
    if missing:
        raise ValueError(f"{path.name} lacks {len(missing)} numbers, the first for (k, objects, obeyed) = {missing[0]}; measure it: "
                         "python -m lcs_utils.evaluation.chance")  # fmt: skip
    curve = lambda k, m: np.maximum.accumulate([stored[k, m, min(n, m)] for n in range(k + 1)])
    return {(k, m): curve(k, m) for k in KS for m in range(MOST + 1)}


def invert(filled: Float[np.ndarray, "draws"], curves: Float[np.ndarray, "draws obeyed"]) -> Float[np.ndarray, "draws"]:
    """How many must obey (linear in between) for the nondecreasing `curves` to reach `filled`; 0 and their top are the limits."""
    reached = np.minimum(filled, curves[:, -1])[:, None] - 1e-9
    upper = (curves >= reached).argmax(1)
    lower, rows = np.maximum(upper - 1, 0), np.arange(len(curves))
    step = curves[rows, upper] - curves[rows, lower]
    return np.where(upper > 0, lower + (reached[:, 0] - curves[rows, lower]) / np.where(step > 0, step, 1), 0.0)


def conditions_obeyed(rows: Sequence[Row], net: str, ks: Sequence[int], seed: int = 0) -> Obeyed | None:
    """How many conditions a net obeys, the mean over several K, each weighing the same, with intervals; None without rows.

    At the paper's test locations. Raises ValueError for K = 0, where nothing is asked for.
    """
    if min(ks) < 1:
        raise ValueError(f"obeying needs K of 1 or more, got {list(ks)}")
    found = by_k(rows, net)
    if not set(ks) <= set(found):
        return None
    draws = []
    for i, k in enumerate(ks):
        values = np.array([[row.placed / k, *table()[k, min(row.count, MOST)]] for row in found[k]])
        means = np.concatenate([values.mean(0)[None], resampled(values, seed + i)])  # the first of the draws is the value itself
        draws.append([means[:, 0], means[:, 1], invert(means[:, 0], means[:, 1:])])
    of = np.mean(draws, axis=0)
    low, high = np.quantile(of[:, 1:], [(1 - LEVEL) / 2, (1 + LEVEL) / 2], axis=1)
    return Obeyed(*(Interval(*(round(float(v), 4) for v in one)) for one in zip(of[:, 0], low, high, strict=True)))


def along_k(rows: Sequence[Row], nets: Iterable[str], ks: Iterable[int] = KS, seed: int = 0) -> dict[str, dict[int, Obeyed]]:
    """{net: {K: Obeyed}} for the K that were measured."""
    ks = list(ks)
    return {net: {k: of for k in ks if (of := conditions_obeyed(rows, net, [k], seed))} for net in nets}


def draw(found: dict[str, dict[int, Obeyed]], labels: dict[str, str], colors: dict[str, str]) -> Figure:
    """Conditions obeyed against conditions asked for, one line per net, its 95 % interval as a band; all obeyed is the diagonal.

    Gray: as many objects as training images had, when that is the same for all nets.
    """
    figure, axes = plt.subplots(figsize=(6.4, 3.8))
    top = max(max(of) for of in found.values())
    axes.plot([0, top], [0, top], color="0.6", lw=1, ls="--")
    most = {trained(net).objects[1] for net in found}
    if len(most) == 1:
        axes.axvspan(0.5, most.pop() + 0.5, color="gray", alpha=0.12, lw=0)
        axes.text(0.6, top, "in training", va="bottom", fontsize=8, color="0.4")
    axes.text(0.97 * top, top, "all obeyed", ha="right", va="bottom", fontsize=8, color="0.4")
    for (net, of), marker in zip(found.items(), "osD^vP*X"):
        value, low, high = zip(*(at.obeyed for at in of.values()))
        axes.plot(list(of), value, marker=marker, ms=4.5, color=colors[net], label=labels[net])
        axes.fill_between(list(of), low, high, color=colors[net], alpha=0.18, lw=0)
    axes.set(xlabel="K, conditions asked for", ylabel="conditions obeyed")
    axes.set(xlim=(0.5, top + 0.5), ylim=(0, top + 0.5), xticks=range(1, top + 1))
    axes.legend(fontsize=8, loc="center left", bbox_to_anchor=(1.0, 0.5))
    return figure


def main(arguments=None) -> None:
    parser = argparse.ArgumentParser(prog="python -m lcs_utils.evaluation.chance", description=__doc__.splitlines()[0])
    parser.parse_args(arguments)
    rows = [row for objects in tqdm(range(MOST + 1), desc="objects") for row in by_chance(objects)]
    paths.write_rows(TABLE, "python -m lcs_utils.evaluation.chance", Chance, rows)


if __name__ == "__main__":
    main()
