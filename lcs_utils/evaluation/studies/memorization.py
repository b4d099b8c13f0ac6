"""Are samples copies? Compare each sample with its two nearest training images.

    python -m lcs_utils.evaluation.studies.memorization exp1 exp2 exp3 --k 1-3

A sample is a copy when it is less than half as far from its nearest training image as from the next one: an
empty image is near many, a copy near one. Held-out renders are compared in the same way, and so are planted
copies, drawn with the first net's own grain, which must be detected. Measuring needs the training images
under runs/data; reading the rows in data/counts/memorization.csv, and rendering the scenes they name, does
not.
"""

import argparse
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor
from tqdm.auto import tqdm

from lcs_utils import nets, paths, plotting, store
from lcs_utils.clevr import dataset
from lcs_utils.clevr.card import parse_counts
from lcs_utils.clevr.conditions import location_grid
from lcs_utils.clevr.loading import ShardDataset
from lcs_utils.clevr.render import render
from lcs_utils.clevr.scenes import sample_scene
from lcs_utils.diffusion import Denoiser, final, from_uint8, karras_sigmas, sample
from lcs_utils.evaluation import changes
from lcs_utils.evaluation.eye.hand_count_rows import Shown
from lcs_utils.evaluation.eye.hand_counts import images_of
from lcs_utils.evaluation.family_grids import HELD_OUT, LARGEST_K
from lcs_utils.evaluation.rows import STANDARD
from lcs_utils.evaluation.sheets import ACROSS, read_sheet
from lcs_utils.nets import trained

ROWS = paths.COUNTS / "memorization.csv"
RATIO = 0.5  # a copy is nearer to its original than this share of the second distance
CHUNK = 4096  # training images compared at a time
REAL = "held-out renders"
PLANTED = "planted copies"  # training images, noised a little and sampled again
PLANTED_SIGMA = 0.3  # keeps the objects, adds the net's own grain


class Near(NamedTuple):
    """One image and its nearest training image, scene `index` with `objects` objects; RMS distances of pixels
    in [-1, 1].
    """

    net: str  # or REAL, or PLANTED
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
        raise ValueError(
            f"need two or more training images of shape {list(images.shape[1:])}, got {list(training.shape)}"
        )
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


def planted(
    denoise: Denoiser,
    images: Float[Tensor, "n 3 height width"],
    cond: Float[Tensor, "n cells"],
    seed: int = HELD_OUT,
) -> Float[Tensor, "n 3 height width"]:
    """What a net that memorized `images` would draw, grain and all: each is noised to the highest level up to
    PLANTED_SIGMA and sampled to the end.
    """
    levels = karras_sigmas(STANDARD.steps)
    levels = levels[levels <= PLANTED_SIGMA]
    noise = torch.randn(images.shape, generator=torch.Generator().manual_seed(seed))
    return final(sample(denoise, images / levels[0] + noise, levels, cond, STANDARD.solver))


def training_image(near: Near, resolution: int) -> Tensor:
    """The nearest training image [3 resolution resolution] in [-1, 1], rendered from its scene number."""
    scene = sample_scene(0, near.objects * dataset.INDEX_STRIDE + near.index, near.objects)
    return from_uint8(render([scene], resolution)[0].transpose(2, 0, 1).copy())


class Memorized(NamedTuple):
    """How many of `samples` are copies."""

    copies: int
    samples: int


def memorized(rows: Iterable[Near], ratio: float = RATIO) -> dict[tuple[str, int], Memorized]:
    """{(net, K): Memorized}, including held-out renders and planted copies."""
    found: dict[tuple[str, int], list[bool]] = {}
    for row in sorted(rows):
        found.setdefault((row.net, row.k), []).append(row.distance < ratio * row.second)
    return {key: Memorized(sum(copies), len(copies)) for key, copies in found.items()}


def read_near(path: Path = ROWS) -> list[Near]:
    """The stored rows. Warns and raises as `store.read_rows`."""
    return store.read_rows(path, Near)


def write_near(rows: Iterable[Near], path: Path = ROWS) -> None:
    """Write all rows, sorted, whole or not at all."""
    store.write_rows(path, "python -m lcs_utils.evaluation.studies.memorization NET ... --k 1-3", Near, rows)


def measure(nets: Sequence[str], ks: Sequence[int], samples: int, path: Path = ROWS) -> None:
    """Store the two nearest training images of the first `samples` samples of each net at each K, of at least
    100 held-out renders per K, and of as many copies planted with the first net.
    """
    if samples < 1 or not ks or not 0 <= min(ks) <= max(ks) <= LARGEST_K:
        raise ValueError(f"need --samples >= 1 and --k within 0-{LARGEST_K}; got {samples} and {list(ks)}")
    most = max(trained(net).objects[1] for net in nets)
    denoise, resolution = changes.denoiser(nets[0])
    if most < 1:
        raise ValueError(f"a net trained on the empty floor has one training image; got {', '.join(nets)}")
    folder = dataset.default_folder(resolution, range(1, 4) if most <= 3 else range(1, 7))
    scenes = ShardDataset(folder, range(1, most + 1))
    training, locations = scenes.column("images"), torch.from_numpy(scenes.column("locations")).float()
    per_count = len(training) // most
    weights = {net: changes.weights(net) for net in nets}
    many = max(samples, 100)
    groups = [(REAL, k, held_out(k, many, resolution)) for k in ks]
    for k in range(1, most + 1):
        first = slice((k - 1) * per_count, (k - 1) * per_count + min(many, per_count))
        cond = location_grid(locations[first], locations[first][..., 0] >= 0)
        groups.append((PLANTED, k, planted(denoise, from_uint8(training[first]), cond)))
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
    now = {(net, k) for net, k, _ in groups}
    with store.exclusive(path):
        others = (r for r in read_near(path) if r.net != PLANTED and (r.net, r.k) not in now)
        kept = [r for r in others if r.weights == weights.get(r.net, r.weights)]
        write_near(kept + rows, path)
    for (net, k), m in memorized(rows).items():
        print(f"{net} K = {k}: {m.copies} copies among {m.samples}")


def shown_rows(rows: Sequence[Near], nets: Iterable[str], preset: str = "tiny") -> list[Near]:
    """The rows of all stored samples (`sheets`) of `nets`, the most copy-like first.

    Raises ValueError when a net has no rows for the weights of its stored samples.
    """
    found = []
    for net in nets:
        sheet = read_sheet(net, preset)
        kept = [row for row in rows if (row.net, row.weights) == (net, sheet.about["weights"])]
        kept = [row for row in kept if row.sample < ACROSS and row.k in sheet.samples]
        if not kept:
            raise ValueError(
                f"no rows for {net!r}; measure it: python -m lcs_utils.evaluation.studies.memorization {net}"
            )
        found += kept
    return sorted(found, key=likeness)


def likeness(row: Near) -> float:
    """Nearest training image's distance over the next one's: below RATIO is a copy, 1 is near to both."""
    return row.distance / row.second


def plot(
    rows: Sequence[Near], nets: dict[str, str], preset: str = "tiny", shown: int = 12, across: int = 6
) -> Figure:
    """The `shown` most copy-like stored samples of `nets` {net: label}, each above its nearest training
    image, beside the `likeness` of all samples and held-out renders with the threshold of a copy.

    Raises ValueError as `shown_rows`.
    """
    likest = shown_rows(rows, nets, preset)[:shown]
    sheets = {net: read_sheet(net, preset) for net in nets}
    images, captions = [], []
    for line in (likest[first : first + across] for first in range(0, len(likest), across)):
        samples = [from_uint8(sheets[row.net].samples[row.k][row.sample]) for row in line]
        images += [samples, [training_image(row, x.shape[-1]) for row, x in zip(line, samples, strict=True)]]
        captions += [[f"{nets[row.net]}: {likeness(row):.2f}" for row in line], [""] * len(line)]
    names = ["sample", "nearest in\ntraining"] * (len(images) // 2)
    room = 4.2
    figure = plotting.image_grid(images, names, cell=0.95, captions=captions, beside=room)
    width, height = figure.get_size_inches()
    axes = figure.add_axes(
        ((width - room + 0.7) / width, 0.6 / height, (room - 0.8) / width, 1 - 1.1 / height)
    )
    plot_histogram(axes, rows, nets)
    return figure


def plot_histogram(axes: Axes, rows: Iterable[Near], nets: Iterable[str]) -> None:
    """Histogram of `likeness` for all samples of `nets`, held-out renders and planted copies, with the copy
    threshold.
    """
    rows = list(rows)
    groups = {
        "samples of our nets": ([likeness(row) for row in rows if row.net in set(nets)], "vermilion"),
        "renders that no net saw": ([likeness(row) for row in rows if row.net == REAL], "blue"),
        "copies, planted": ([likeness(row) for row in rows if row.net == PLANTED], "orange"),
    }
    bins = np.linspace(0, 1, 41)
    for name, (values, color) in groups.items():
        weights = np.full(len(values), 1 / max(len(values), 1))
        label = f"{name} ({len(values)})"
        axes.hist(
            values, bins, weights=weights, histtype="step", lw=2, color=plotting.PALETTE[color], label=label
        )
    axes.axvspan(0, RATIO, color="gray", alpha=0.15, lw=0)
    top = axes.get_ylim()[1]
    axes.text(RATIO / 2, 0.7 * top, "called\na copy", ha="center", va="center", fontsize=10)
    axes.set(xlim=(0, 1.02), ylim=(0, 1.25 * top), ylabel="share of images")
    axes.set_xlabel("distance from the nearest training image\nas a share of that from the next nearest")
    axes.legend(loc="upper left", fontsize=9)


def main(arguments=None) -> None:
    parser = argparse.ArgumentParser(
        prog="python -m lcs_utils.evaluation.studies.memorization", description=__doc__.splitlines()[0]
    )
    parser.add_argument("nets", nargs="+")
    parser.add_argument(
        "--k", type=parse_counts, default=(1, 2, 3), help="numbers of locations, such as 2, 1-3 or 1,3"
    )
    parser.add_argument("--samples", type=int, default=16, help="samples of each net and K")
    args = parser.parse_args(arguments)
    try:
        measure(args.nets, args.k, args.samples)
    except (ValueError, OSError, nets.CheckpointError) as error:
        parser.error(str(error))


if __name__ == "__main__":
    main()
