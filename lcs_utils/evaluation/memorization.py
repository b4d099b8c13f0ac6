"""Are samples copies? Each sample's two nearest training images, and how many samples are near to one of them alone.

    python -m lcs_utils.evaluation.memorization exp1 exp2 exp3 --k 1-3

A sample is a copy when it lies half as far from a training image as from the next one: an empty image is near to many, a copy
to one. Held-out renders are looked at in the same way. Needs the training images under runs/data; the rows in
data/counts/memorization.csv and the scenes they name do not.
"""

import argparse
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
from lcs_utils.clevr.card import parse_counts
from lcs_utils.clevr.loading import ShardDataset
from lcs_utils.clevr.render import render
from lcs_utils.clevr.scenes import sample_scene
from lcs_utils.diffusion import from_uint8
from lcs_utils.evaluation import interventions
from lcs_utils.evaluation.conditioning import HELD_OUT, LARGEST_K
from lcs_utils.evaluation.hand_counts import Shown, images_of
from lcs_utils.evaluation.rates import trained
from lcs_utils.evaluation.rows import STANDARD
from lcs_utils.evaluation.sheets import ACROSS, read_sheet

ROWS = paths.COUNTS / "memorization.csv"
RATIO = 0.5  # a copy's distance from its original, as a share of that from the second nearest image
CHUNK = 4096  # training images compared at a time
REAL = "held-out renders"


class Near(NamedTuple):
    """One image and its nearest training image: scene `index` with `objects` objects; RMS distances over pixels in [-1, 1]."""

    net: str  # or REAL
    weights: str  # first 12 digits of their SHA-256
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
        b = from_uint8(training[start : start + CHUNK]).flatten(1)
        squared = norm + b.square().sum(1) - 2 * a @ b.T
        value, index = squared.topk(min(2, len(b)), dim=1, largest=False)
        together, where = torch.cat([best, value], 1), torch.cat([place, index + start], 1)
        best, order = together.topk(2, dim=1, largest=False)
        place = where.gather(1, order)
    return place, (best.clamp(min=0) / a.shape[1]).sqrt()


def held_out(k: int, n: int, resolution: int) -> Float[Tensor, "n 3 height width"]:
    """`n` renders in [-1, 1] of scenes with `k` objects that no net was trained on."""
    scenes = [sample_scene(HELD_OUT, 1_000_000 + 1000 * k + i, k) for i in range(n)]
    return from_uint8(render(scenes, resolution).transpose(0, 3, 1, 2).copy())


def training_image(near: Near, resolution: int) -> Tensor:
    """The nearest training image [3 resolution resolution] in [-1, 1], rendered again from its scene's number."""
    scene = sample_scene(0, near.objects * dataset.INDEX_STRIDE + near.index, near.objects)
    return from_uint8(render([scene], resolution)[0].transpose(2, 0, 1).copy())


class Memorized(NamedTuple):
    """How many of `samples` are copies."""

    copies: int
    samples: int


def memorized(rows: Iterable[Near], ratio: float = RATIO) -> dict[tuple[str, int], Memorized]:
    """{(net, K): Memorized}, held-out renders among them."""
    found: dict[tuple[str, int], list[bool]] = {}
    for row in sorted(rows):
        found.setdefault((row.net, row.k), []).append(row.distance < ratio * row.second)
    return {key: Memorized(sum(copies), len(copies)) for key, copies in found.items()}


def read_near(path: Path = ROWS) -> list[Near]:
    """The stored rows. Warns and raises as `paths.read_rows`."""
    return paths.read_rows(path, Near)


def write_near(rows: Iterable[Near], path: Path = ROWS) -> None:
    """Write all rows, sorted, whole or not at all."""
    paths.write_rows(path, "python -m lcs_utils.evaluation.memorization NET ... --k 1-3", Near, rows)


def measure(nets: Sequence[str], ks: Sequence[int], samples: int, path: Path = ROWS) -> None:
    """Nearest training images of the first `samples` samples of each net at each K, and of as many held-out renders."""
    if samples < 1 or not ks or not 0 <= min(ks) <= max(ks) <= LARGEST_K:
        raise ValueError(f"need --samples >= 1 and --k within 0-{LARGEST_K}; got {samples} and {list(ks)}")
    most = max(trained(net).objects[1] for net in nets)
    resolution = checkpoints.load(interventions.split(nets[0])[0]).config.resolution
    if most < 1:
        raise ValueError(f"a net trained on the empty floor has one training image; got {', '.join(nets)}")
    folder = dataset.default_folder(resolution, range(1, 4) if most <= 3 else range(1, 7))
    training = ShardDataset(folder, range(1, most + 1)).column("images")
    per_count = len(training) // most
    weights = {net: interventions.weights(net) for net in nets}
    groups = [(REAL, k, held_out(k, max(samples, 100), resolution)) for k in ks]
    for net in nets:
        for k in ks:
            shown = [Shown(net, weights[net], k, i, *STANDARD) for i in range(samples)]
            groups.append((net, k, torch.stack(images_of(shown))))
    place, distance = nearest(torch.cat([images for *_, images in groups]), training, progress=True)
    rows, at = [], 0
    for net, k, images in groups:
        for i in range(len(images)):
            objects, index = 1 + int(place[at, 0]) // per_count, int(place[at, 0]) % per_count
            near = (round(float(d), 5) for d in distance[at])
            rows.append(Near(net, weights.get(net, ""), k, i, objects, index, *near))
            at += 1
    with paths.exclusive(path):
        kept = [r for r in read_near(path) if r.net not in nets and (r.net != REAL or r.k not in ks)]
        write_near(kept + rows, path)
    for (net, k), m in memorized(rows).items():
        print(f"{net} K = {k}: {m.copies} copies among {m.samples}")


def draw(rows: Sequence[Near], nets: dict[str, str], preset: str = "tiny", columns: int = 12) -> Figure:
    """Of each of `nets` (with its label) all kept samples, the most copy-like first, each above its nearest training image.

    A number is a sample's distance from that image as a share of that from the next nearest. Raises ValueError when a net has
    no rows of the weights that its shown samples are of.
    """
    images, labels, said = [], [], []
    for net, label in nets.items():
        sheet = read_sheet(net, preset)
        mine = [r for r in rows if (r.net, r.weights) == (net, sheet.about["weights"]) and r.sample < ACROSS and r.k in sheet.samples]
        if not mine:
            raise ValueError(f"no rows for {net!r}; measure it: python -m lcs_utils.evaluation.memorization {net}")
        likest = sorted(mine, key=lambda r: r.distance / r.second)
        for line in (likest[first : first + columns] for first in range(0, len(likest), columns)):
            samples = [from_uint8(sheet.samples[r.k][r.sample]) for r in line]
            images += [samples, [training_image(r, samples[0].shape[-1]) for r in line]]
            labels += [label, "nearest in\ntraining"]
            said += [*(f"{r.distance / r.second:.2f}" for r in line), *("" for _ in line)]
    figure = plotting.image_grid(images, labels, cell=0.75)
    for axes, words in zip(figure.axes, said, strict=True):
        axes.text(0.04, 0.96, words, color="white", fontsize=7, ha="left", va="top", transform=axes.transAxes)
    return figure


def main(arguments=None) -> None:
    parser = argparse.ArgumentParser(prog="python -m lcs_utils.evaluation.memorization", description=__doc__.splitlines()[0])
    parser.add_argument("nets", nargs="+")
    parser.add_argument("--k", type=parse_counts, default=(1, 2, 3), help="numbers of locations, as 2, 1-3 or 1,3")
    parser.add_argument("--samples", type=int, default=16, help="samples of each net and K")
    args = parser.parse_args(arguments)
    try:
        measure(args.nets, args.k, args.samples)
    except (ValueError, OSError, checkpoints.CheckpointError) as error:
        parser.error(str(error))


if __name__ == "__main__":
    main()
