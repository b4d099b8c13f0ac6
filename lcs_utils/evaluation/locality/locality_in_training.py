"""Conditional locality within training: at two and three labels, as many objects as the nets were shown.

    python -m lcs_utils.evaluation.locality.locality_in_training exp1 exp2 exp3
    python -m lcs_utils.evaluation.locality.locality_in_training exp1 exp3_r2 --preset medium

At five labels (`net_locality`) a net that draws five objects must change at a cell whose label goes, so that
locality there comes close to composition. Two and three objects were in each net's training. (Exps. 2 and 3
were told one label of them: for these two, more labels at once are new.) Rows are stored in
data/counts/PRESET/locality_in_training.csv.bz2.
"""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor
from tqdm.auto import tqdm

from lcs_utils import locality, nets, store
from lcs_utils.clevr.conditions import GRID_SIZE, test_condition
from lcs_utils.diffusion import Denoiser
from lcs_utils.evaluation import changes, wording
from lcs_utils.evaluation.locality import net_locality
from lcs_utils.evaluation.locality.locality_rates import HIGH, at_high_noise, chance_locality
from lcs_utils.evaluation.locality.net_locality import IMAGES, SIGMAS, cell_targets, test_scenes
from lcs_utils.evaluation.rows import rows_path
from lcs_utils.evaluation.samples import on
from lcs_utils.evaluation.sentences import listed, table
from lcs_utils.evaluation.sizes import SIZES
from lcs_utils.models.focus import focus
from lcs_utils.stats import Interval, say_interval

KS = (2, 3)  # one label has no other to be told from
AROUND = 2  # cells around a label whose pixels count, as in `locality.conditional_locality`
SHIPPED = {"tiny": ("exp1", "exp2", "exp3"), "medium": ("exp1", "exp3_r2")}  # nets whose weights are in data/
COMMAND = "python -m lcs_utils.evaluation.locality.locality_in_training NET ..."


class InTrainingRow(NamedTuple):
    """One image of `k` objects at one noise level: conditional locality within two cells, in [0, 1]."""

    net: str
    weights: str
    k: int
    image: int
    sigma: float
    within_2: float


def cells_around(cells: Iterable[int], far: int = AROUND) -> list[int]:
    """All cells of the grid at most `far` cells from any of `cells` (row * GRID_SIZE + column), ascending."""
    found = set()
    for row, column in (divmod(cell, GRID_SIZE) for cell in cells):
        rows = range(max(row - far, 0), min(row + far + 1, GRID_SIZE))
        columns = range(max(column - far, 0), min(column + far + 1, GRID_SIZE))
        found |= {r * GRID_SIZE + c for r in rows for c in columns}
    return sorted(found)


def net_rows(
    net: str, denoise: Denoiser, resolution: int, weights: str, k: int, seed: int = 0, device: str = "cpu"
) -> Iterator[InTrainingRow]:
    """Yield the row of every image of `k` objects and noise level: images, noise, levels and estimator are
    those of `net_locality` (Fig. 2). A local net is run only where pixels count.
    """
    cond = test_condition(k)
    without = locality.without_each(cond)
    counted = cell_targets(cells_around(without), resolution)
    denoise = on(device, focus(denoise, counted, resolution))
    images: Float[Tensor, "count 3 height width"] = test_scenes(k, IMAGES, resolution)
    for i, x0 in enumerate(images):
        eps = torch.randn(x0.shape, generator=torch.Generator().manual_seed(1000 * seed + i))
        for sigma in SIGMAS:
            influence = locality.condition_influence(denoise, x0 + sigma * eps, sigma, cond, without)
            share = locality.conditional_locality(influence, list(without), GRID_SIZE, 2, AROUND)
            yield InTrainingRow(net, weights, k, i, sigma, round(share, 4))


def path(preset: str = "tiny") -> Path:
    """Where a preset's rows are stored."""
    return rows_path(preset, "locality_in_training")


def read(preset: str = "tiny") -> list[InTrainingRow]:
    """The stored rows. Warns and raises as `store.read_rows`."""
    return store.read_rows(path(preset), InTrainingRow)


def current(net: str, preset: str = "tiny") -> dict[int, list[InTrainingRow]]:
    """{K: rows} of a net. Raises ValueError, with the command, if they are missing or of other weights."""
    weights = changes.weights(net, preset)
    mine = [row for row in read(preset) if (row.net, row.weights) == (net, weights)]
    found = {k: [row for row in mine if row.k == k] for k in KS}
    if any(len(rows) < IMAGES * len(SIGMAS) for rows in found.values()):
        command = f"{COMMAND.removesuffix('NET ...')}{net} --preset {preset}"
        raise ValueError(f"no locality within training for today's weights of {net}: {command}")
    return found


def measure(net: str, preset: str = "tiny", device: str = "cpu") -> None:
    """Measure a net (or NET/CHANGE) at KS in float32 and add its rows, unless rows of the same weights exist.

    Raises ValueError for a net that was not shown as many objects as the largest of KS, or is told colors.
    """
    exp, weights = nets.trained(net, preset), changes.weights(net, preset)
    if exp.condition != "location" or not exp.objects[0] <= KS[0] <= KS[-1] <= exp.objects[1]:
        raise ValueError(f"{net} was not trained on {KS[0]} to {KS[-1]} objects that are told by location")
    mine = [row for row in read(preset) if (row.net, row.weights) == (net, weights)]
    if len(mine) >= len(KS) * IMAGES * len(SIGMAS):
        return
    denoise, resolution = changes.denoiser(net, preset, device, "float32")
    rows: list[InTrainingRow] = []
    # on a GPU, torch convolves float32 in TF32 by default, which is as coarse as float16
    with torch.backends.cudnn.flags(enabled=True, allow_tf32=False):
        for k in KS:
            made = net_rows(net, denoise, resolution, weights, k, device=device)
            rows += tqdm(made, desc=f"{net}, K = {k}", total=IMAGES * len(SIGMAS))
    with store.exclusive(path(preset)):
        kept = [row for row in read(preset) if row.net != net]
        store.write_rows(path(preset), COMMAND, InTrainingRow, kept + rows)


class Heard(NamedTuple):
    """A net's conditional locality at high noise, and that of a net that hears all in its window alike
    (`chance`), by K.
    """

    net: str
    preset: str
    share: dict[int, Interval]
    chance: dict[int, float]

    @property
    def name(self) -> str:
        """`exp1, 32 px`."""
        return f"{self.net}, {SIZES.get(self.preset, self.preset)}"


def heard(net: str, preset: str = "tiny") -> Heard:
    """A net's locality within training (KS), and beyond it at `net_locality.K`. Raises as both `current`."""
    within = {k: at_high_noise(rows) for k, rows in current(net, preset).items()}
    beyond = net_locality.current(net_locality.read(preset), [net], preset)[net]
    share = within | {net_locality.K: at_high_noise(beyond)}
    radius = nets.trained(net, preset).radius
    return Heard(net, preset, share, {k: chance_locality(radius, k=k) for k in share})


def shipped() -> list[Heard]:
    """All nets whose weights are in data/ and that were trained on 1-3 objects. Raises as `heard`."""
    return [heard(net, preset) for preset, names in SHIPPED.items() for net in names]


def _first_two(found: Sequence[Heard]) -> tuple[Heard, Heard]:
    """Exp. 1 and Exp. 2 at 32 px, the only size at which the weights of both are in data/."""
    of = {each.net: each for each in found if each.preset == "tiny"}
    return of["exp1"], of["exp2"]


def contrast(found: Sequence[Heard], k: int) -> bool:
    """Whether at `k` labels Exp. 1's interval lies above Exp. 2's, and above a net that hears all alike."""
    one, two = _first_two(found)
    return one.share[k].low > max(two.share[k].high, one.chance[k])


def sentence(found: Sequence[Heard]) -> str:
    """A table of the nets by K with chance, and whether Exps. 1 and 2 differ within training (Fig. 2)."""
    ks = list(found[0].share)
    lines = []
    for each in found:
        shares = [f"{say_interval(each.share[k])} ({each.chance[k]:.2f})" for k in ks]
        lines.append([wording.net(each.name), *shares])
    head = [f"share from within two cells, σ ≥ {HIGH:g} (chance)"]
    head += [f"K = {k}, {'within' if k in KS else 'beyond'} training" for k in ks]
    one, two = _first_two(found)
    at = [(k, one.share[k].value, two.share[k].value, one.chance[k]) for k in KS]
    each_k = listed([f"{a:.2f} against {b:.2f} at K = {k} (chance {c:.2f})" for k, a, b, c in at])
    held = [contrast(found, k) for k in KS]
    verdict = "exists" if all(held) else "exists at some K" if any(held) else "does not exist"
    return (
        f"{table(head, lines)}\n**Within training the contrast {verdict}**, at {SIZES['tiny']}: Exp. 1 "
        f"against Exp. 2 has {each_k}. It exists where intervals are apart and Exp. 1's is above chance.\n"
    )


def main(arguments=None) -> None:
    net_locality.run(measure, "locality_in_training", __doc__.splitlines()[0], arguments)


if __name__ == "__main__":
    main()
