"""Are samples copies? Each sample's nearest training image, counted against held-out renders of the same kind.

    python -m lcs_utils.evaluation.memorization exp1 exp2 --k 1-3

A sample is a copy when it lies nearer to a training image than 99 % of held-out renders with as many objects do, and half as
far as from the next one: an empty image is near to many others, a copy to one.
Needs the training images under runs/data; the rows in data/counts/memorization.csv and the scenes they name do not.
"""

import argparse
import csv
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int
from matplotlib.figure import Figure
from torch import Tensor
from tqdm.auto import tqdm

from lcs_utils import checkpoints, paths, plotting
from lcs_utils.clevr import dataset
from lcs_utils.clevr.render import render
from lcs_utils.clevr.scenes import sample_scene
from lcs_utils.evaluation import interventions
from lcs_utils.evaluation.conditioning import HELD_OUT
from lcs_utils.evaluation.hand_counts import Shown, images_of
from lcs_utils.evaluation.rates import trained

ROWS = paths.COUNTS / "memorization.csv"
SHARE = 0.01  # of held-out renders that would be called near
RATIO = 0.5  # a copy's distance from its original, as a share of that from the second nearest image
CHUNK = 4096  # training images compared at a time
REAL = "held-out renders"


class Near(NamedTuple):
    """One image and its nearest training image: scene `index` with `objects` objects; RMS distances over pixels in [-1, 1]."""

    net: str  # or REAL
    k: int
    sample: int
    objects: int
    index: int
    distance: float
    second: float  # distance of the second nearest


def nearest(
    images: Float[Tensor, "batch 3 height width"], training: np.ndarray, progress: bool = False
) -> tuple[Int[Tensor, "batch 2"], Float[Tensor, "batch 2"]]:
    """Positions and RMS distances of the two nearest of `training`, uint8 [n 3 height width], in chunks.

    Raises ValueError when the shapes differ or there are fewer than two.
    """
    if len(training) < 2 or training.shape[1:] != images.shape[1:]:
        raise ValueError(f"need two or more training images of shape {list(images.shape[1:])}, got {list(training.shape)}")
    a = images.flatten(1).float()
    norm = a.square().sum(1, keepdim=True)
    best = torch.full((len(a), 2), torch.inf)
    place = torch.full((len(a), 2), -1)
    for start in tqdm(range(0, len(training), CHUNK), desc="nearest", disable=None if progress else True):
        b = torch.from_numpy(training[start : start + CHUNK]).flatten(1).float() / 127.5 - 1
        squared = norm + b.square().sum(1) - 2 * a @ b.T
        value, index = squared.topk(min(2, len(b)), dim=1, largest=False)
        together, where = torch.cat([best, value], 1), torch.cat([place, index + start], 1)
        best, order = together.topk(2, dim=1, largest=False)
        place = where.gather(1, order)
    return place, (best.clamp(min=0) / a.shape[1]).sqrt()


def held_out(k: int, n: int, resolution: int) -> Float[Tensor, "n 3 height width"]:
    """`n` renders in [-1, 1] of scenes with `k` objects that no net was trained on."""
    scenes = [sample_scene(HELD_OUT, 1_000_000 + 1000 * k + i, k) for i in range(n)]
    return torch.from_numpy(render(scenes, resolution).transpose(0, 3, 1, 2).copy()).float() / 127.5 - 1


def training_image(near: Near, resolution: int) -> Tensor:
    """The nearest training image [3 resolution resolution] in [-1, 1], rendered again from its scene's number."""
    scene = sample_scene(0, near.objects * dataset.INDEX_STRIDE + near.index, near.objects)
    return torch.from_numpy(render([scene], resolution)[0].transpose(2, 0, 1).copy()).float() / 127.5 - 1


class Memorized(NamedTuple):
    """Of `samples`: `near` ones lie nearer to a training image than nearly all held-out renders, `copies` to that one alone."""

    near: int
    copies: int
    samples: int


def memorized(rows: Iterable[Near], share: float = SHARE, ratio: float = RATIO) -> dict[tuple[str, int], Memorized]:
    """{(net, K): Memorized}, by the `share` quantile of held-out renders with as many objects.

    Raises ValueError when a K has no held-out renders.
    """
    rows = list(rows)
    found: dict[tuple[str, int], Memorized] = {}
    for net, k in sorted({(r.net, r.k) for r in rows if r.net != REAL}):
        real = [r.distance for r in rows if (r.net, r.k) == (REAL, k)]
        if not real:
            raise ValueError(f"no held-out renders with {k} objects to compare {net} with; measure it again")
        limit = float(np.quantile(real, share))
        mine = [r for r in rows if (r.net, r.k) == (net, k)]
        near = [r for r in mine if r.distance < limit]
        found[net, k] = Memorized(len(near), sum(r.distance < ratio * r.second for r in near), len(mine))
    return found


def read_near(path: Path = ROWS) -> list[Near]:
    """The stored rows; none when there is no file. Raises ValueError when a line does not parse."""
    if not path.exists():
        return []
    lines = csv.DictReader(line for line in path.read_text().splitlines() if not line.startswith("#"))
    try:
        return [Near(**{name: kind(line[name]) for name, kind in Near.__annotations__.items()}) for line in lines]
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"{path.name} holds a line that is no row ({error}); restore it with git or measure again") from error


def write_near(rows: Iterable[Near], path: Path = ROWS) -> None:
    """Write all rows, sorted, whole or not at all."""
    paths.write_rows(path, "python -m lcs_utils.evaluation.memorization NET ... --k 1-3", Near, rows)


def measure(nets: Sequence[str], ks: Sequence[int], samples: int, path: Path = ROWS) -> None:
    """Nearest training images of the first `samples` samples of each net at each K, and of as many held-out renders."""
    most = max(trained(net).objects[1] for net in nets)
    resolution = checkpoints.load(interventions.split(nets[0])[0]).config.resolution
    if most < 1:
        raise ValueError(f"a net trained on the empty floor has one training image; got {', '.join(nets)}")
    folder = dataset.default_folder(resolution, range(1, 4) if most <= 3 else range(1, 7))
    arrays = dataset.load(folder, counts=range(1, most + 1))
    per_count = len(arrays["images"]) // most
    weights = {net: interventions.weights(net) for net in nets}
    groups = [(REAL, k, held_out(k, max(samples, 100), resolution)) for k in ks]
    for net in nets:
        for k in ks:
            shown = [Shown(net, weights[net], k, i, 0, "dpmpp_2m", 14) for i in range(samples)]
            groups.append((net, k, torch.stack(images_of(shown))))
    place, distance = nearest(torch.cat([images for *_, images in groups]), arrays["images"], progress=True)
    rows, at = [], 0
    for net, k, images in groups:
        for i in range(len(images)):
            objects, index = 1 + int(place[at, 0]) // per_count, int(place[at, 0]) % per_count
            rows.append(Near(net, k, i, objects, index, round(float(distance[at, 0]), 5), round(float(distance[at, 1]), 5)))
            at += 1
    with paths.exclusive(path):  # other K's renders stay: their nets are compared with them
        kept = [r for r in read_near(path) if r.net not in nets and (r.net != REAL or r.k not in ks)]
        write_near(kept + rows, path)
    for (net, k), m in memorized(rows).items():
        print(f"{net} K = {k}: {m.copies} copies, {m.near} near a training image, of {m.samples} samples")


def draw(rows: Sequence[Near], net: str, columns: int = 8, preset: str = "small") -> Figure:
    """The `columns` samples of `net` nearest to a training image, above that image; distances as column labels.

    Raises ValueError when the net has no rows.
    """
    mine = sorted((r for r in rows if r.net == net), key=lambda r: r.distance)[:columns]
    if not mine:
        raise ValueError(f"no rows for {net!r}; measure it: python -m lcs_utils.evaluation.memorization {net}")
    weights = interventions.weights(net, preset)
    samples = images_of([Shown(net, weights, r.k, r.sample, 0, "dpmpp_2m", 14) for r in mine], preset)
    originals = [training_image(r, samples[0].shape[-1]) for r in mine]
    labels = [f"K = {r.k}\n{r.distance:.3f}" for r in mine]
    return plotting.image_grid([samples, originals], ["sample", "nearest\ntraining image"], labels, cell=0.95)


def main(arguments=None) -> None:
    parser = argparse.ArgumentParser(prog="python -m lcs_utils.evaluation.memorization", description=__doc__.splitlines()[0])
    parser.add_argument("nets", nargs="+")
    parser.add_argument("--k", default="1-3", help="numbers of locations, as 2 or 1-3")
    parser.add_argument("--samples", type=int, default=16, help="samples of each net and K")
    args = parser.parse_args(arguments)
    low, _, high = args.k.partition("-")
    try:
        measure(args.nets, range(int(low), int(high or low) + 1), args.samples)
    except (ValueError, OSError, checkpoints.CheckpointError) as error:
        parser.error(str(error))


if __name__ == "__main__":
    main()
