"""Exp. 3 without training: sample and count the closed-form local score of rendered scenes (App. E.2).

    python -m lcs_utils.evaluation.studies.training_free

The data are a finite set of scenes with 1-3 objects, one of them labeled, for `theory.local_denoiser`: no
net, nothing fitted. Rows are stored in data/counts/training_free.csv.bz2, at the paper's locations and,
with a null, at random cells. Samples are saved under runs/, so a new counter needs no new samples.
"""

import argparse
import hashlib
from itertools import product
from pathlib import Path

import torch
from jaxtyping import Float
from torch import Tensor
from tqdm.auto import tqdm

from lcs_utils import paths, store
from lcs_utils.clevr.annotations import labels
from lcs_utils.clevr.conditions import GRID_SIZE, choose_labels, location_grid
from lcs_utils.clevr.dataset import INDEX_STRIDE
from lcs_utils.clevr.render import render
from lcs_utils.clevr.scenes import sample_scene
from lcs_utils.counter.net import ObjectCounter
from lcs_utils.diffusion import from_uint8
from lcs_utils.evaluation.counting import count_rows, counter_hash
from lcs_utils.evaluation.families import LARGEST_K
from lcs_utils.evaluation.rows import STANDARD, Row
from lcs_utils.evaluation.samples import keep_drawing, samples_path
from lcs_utils.theory.local_denoiser import patch_denoiser

ROWS = paths.COUNTS / "training_free.csv.bz2"
RESOLUTION = 32  # as the nets of `tiny`
FAMILIES = ("test", "spread")
SETTINGS = ((1, 1500), (2, 1500), (3, 1500), (GRID_SIZE - 1, 1500), (2, 6000))  # (radius in cells, scenes)


def training_scenes(n: int, seed: int = 0) -> tuple[Float[Tensor, "n 3 32 32"], Float[Tensor, "n 256"]]:
    """`n` scenes in [-1, 1] of 1, 2, 3, 1, ... objects and the grid of their single label: the data of Exps.
    2, 3.

    Raises ValueError for n < 1.
    """
    if n < 1:
        raise ValueError(f"need at least 1 training scene, got {n}")
    counts = [1 + i % 3 for i in range(n)]
    scenes = [sample_scene(seed, count * INDEX_STRIDE + i // 3, count) for i, count in enumerate(counts)]
    images = from_uint8(render(scenes, RESOLUTION)).permute(0, 3, 1, 2)
    known = labels(scenes, 3)
    labeled = choose_labels(
        torch.from_numpy(known["colors"] >= 0), "single", torch.Generator().manual_seed(seed)
    )
    return images, location_grid(torch.from_numpy(known["locations"]), labeled)


def name(radius: int, n: int) -> str:
    """The net's name in rows of the closed-form score on patches of `radius` cells of `n` scenes."""
    return f"patches_r{radius}_n{n}"


def measure(radius: int, n: int, ks, samples: int, counter: ObjectCounter, seed: int = 0) -> list[Row]:
    """Rows of the closed-form score, `samples` at each of FAMILIES and each K of `ks`; `weights` is the hash
    of its training set.
    """
    images, grids = training_scenes(n, seed)
    digest = hashlib.sha256(images.numpy().tobytes() + grids.numpy().tobytes()).hexdigest()[:12]
    denoise, rows = patch_denoiser(images, grids, radius), []
    _, solver, steps = STANDARD
    key = dict(
        net=name(radius, n), weights=digest, counted_by=counter_hash(), seed=seed, solver=solver, steps=steps
    )
    for family, k in tqdm(list(product(FAMILIES, ks)), desc=name(radius, n), disable=None):
        of = {what: key[what] for what in ("seed", "solver", "steps", "weights")}
        kept = samples_path(name(radius, n), k=k, family=family, **of)
        drawn = keep_drawing(kept, denoise, RESOLUTION, k, samples, seed, steps, solver, family)
        rows += count_rows(torch.cat(list(drawn)), counter, k, family=family, **key)
    return rows


def write_rows(rows: list[Row], path: Path = ROWS) -> None:
    """Write all rows, sorted, whole or not at all; the first line is the command that makes them."""
    store.write_rows(path, "python -m lcs_utils.evaluation.studies.training_free", Row, rows)


def main(arguments: list[str] | None = None) -> None:
    """Sample and count every setting (radius, scenes) and store the rows as CSV."""
    parser = argparse.ArgumentParser(
        prog="python -m lcs_utils.evaluation.studies.training_free", description=main.__doc__
    )
    parser.add_argument("--samples", type=int, default=24, help="samples per K")
    parser.add_argument("--k", type=int, nargs="+", default=[1, 2, 3, 4, 6, 9], help="numbers of locations")
    parser.add_argument("--output", type=Path, default=ROWS)
    options = parser.parse_args(arguments)
    most = min(LARGEST_K[family] for family in FAMILIES)
    if options.samples < 1 or not all(0 <= k <= most for k in options.k):
        parser.error(f"need --samples >= 1 and --k within 0-{most}; got {options.samples} and {options.k}")
    counter = ObjectCounter.from_pretrained()
    rows = [row for radius, n in SETTINGS for row in measure(radius, n, options.k, options.samples, counter)]
    write_rows(rows, options.output)


if __name__ == "__main__":
    main()
