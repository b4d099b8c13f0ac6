"""Length generalization as a number: sample a net at K test locations, count objects, store one row per sample (App. E.2).

    python -m lcs_utils.evaluation.length_generalization exp1 exp2 exp3 --k 0-12 --samples 64

Rows live in data/counts/length_generalization.csv; figures and tables are drawn from them. A group of rows (net, K) that is
already there for the same weights, seed and sampler is kept, so that a stopped run goes on where it was.
"""

import argparse
import csv
import fcntl
import io
from collections.abc import Iterable
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor
from tqdm.auto import tqdm

from lcs_utils import checkpoints, paths
from lcs_utils.clevr.conditions import GRID_SIZE, TEST_LOCATIONS, test_condition
from lcs_utils.diffusion import SOLVERS, Denoiser, final, karras_sigmas, sample
from lcs_utils.evaluation.counter import ObjectCounter
from lcs_utils.experiments import PRESETS


PLAUSIBLE = 0.5


class Row(NamedTuple):
    """One sample: how many objects it shows, how many stand at conditioned cells (`placed`), whether it looks like CLEVR."""

    net: str
    weights: str  # first 12 digits of the SHA-256 of the net's weights, and of the counter's
    counted_by: str
    seed: int
    solver: str
    steps: int
    k: int
    sample: int
    count: int
    placed: int
    plausibility: float

    @property
    def extras(self) -> int:
        """Objects away from every conditioned cell."""
        return self.count - self.placed


def match(centers: Float[Tensor, "objects 2"], locations: Float[Tensor, "cells 2"], grid_size: int = GRID_SIZE) -> int:
    """The largest number of conditioned cells that can each have an object center of their own within one cell (App. E.2).

    `centers`, `locations` in [0, 1]; a maximum one-to-one matching, so that one object never counts for two cells.
    """
    cells = lambda points: (points * grid_size).floor()
    near = (cells(locations)[:, None] - cells(centers)[None]).abs().amax(-1) <= 1 if len(centers) else None
    owner: dict[int, int] = {}

    def assign(cell, visited):
        for center in near[cell].nonzero()[:, 0].tolist():
            if center not in visited:
                visited.add(center)
                if center not in owner or assign(owner[center], visited):
                    owner[center] = cell
                    return True
        return False

    return 0 if near is None else sum(assign(cell, set()) for cell in range(len(locations)))


def success(row: Row, trained_maximum: int) -> bool:
    """At least K-1 conditioned cells hold an object, at most (trained maximum - 1) objects stand elsewhere, plausible.

    Choice: the paper's tolerances (App. E.2) are not known; these are ours.
    """
    return row.placed >= row.k - 1 and row.extras <= trained_maximum - 1 and row.plausibility >= PLAUSIBLE


def draw_samples(denoise: Denoiser, resolution: int, k: int, n: int, seed: int, steps: int, solver: str, batch: int = 64):
    """`n` samples [n 3 resolution resolution] in [-1, 1] conditioned on the first `k` test locations, from (seed, k)."""
    generator = torch.Generator().manual_seed(1_000_003 * seed + k)
    noise = torch.randn(n, 3, resolution, resolution, generator=generator)
    sigmas, cond = karras_sigmas(steps), test_condition(k)[None]
    parts = [final(sample(denoise, x, sigmas, cond.expand(len(x), -1), solver)) for x in noise.split(batch)]
    return torch.cat(parts).clamp(-1, 1)


def count_rows(images: Tensor, counter: ObjectCounter, k: int, **key) -> list[Row]:
    """One Row per image that was sampled at the first `k` test locations; `key` are Row's fields that say of which net."""
    counts, locations = counter(images), torch.tensor(TEST_LOCATIONS[:k]).reshape(-1, 2)
    centers = [c[~c.isnan().any(-1)] for c in counts.centers]
    return [
        Row(**key, k=k, sample=i, count=int(counts.count[i]), placed=match(centers[i], locations),
            plausibility=round(float(counts.plausibility[i]), 4))
        for i in range(len(images))
    ]  # fmt: skip


def rows_path(preset: str = "small") -> Path:
    """Where a preset's rows are stored: `small` is shipped, larger presets live under runs/."""
    return (paths.COUNTS if preset == "small" else paths.RUNS / preset) / "length_generalization.csv"


def read_rows(path) -> list[Row]:
    """The stored rows; none when there is no file. Raises ValueError when a line does not parse."""
    if not path.exists():
        return []
    with open(path) as file:
        lines = list(csv.DictReader(line for line in file if not line.startswith("#")))
    try:
        return [Row(**{name: kind(line[name]) for name, kind in Row.__annotations__.items()}) for line in lines]
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"{path.name} holds a line that is no row ({error}); restore it with git or measure again") from error


def write_rows(rows: Iterable[Row], path) -> None:
    """Write all rows, sorted, whole or not at all; the first line is the command that makes them."""
    text = io.StringIO()
    text.write("# python -m lcs_utils.evaluation.length_generalization NET ... --k 0-12 --samples 64\n")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(Row._fields)
    writer.writerows(sorted(rows))
    paths.write_text(path, text.getvalue())


@contextmanager
def exclusive(path: Path):
    """Hold the right to change `path`, for processes that read it, add and write it back."""
    lock = paths.RUNS / "locks" / path.name
    lock.parent.mkdir(parents=True, exist_ok=True)
    with open(lock, "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def summarize(rows: Iterable[Row], net: str, trained_maximum: int) -> dict:
    """{"K", "mean_count", "success_rate", "mean_extras", "n_samples"} of one net's rows, K ascending (Fig. 1, Table 1)."""
    by_k: dict[int, list[Row]] = {}
    for row in rows:
        if row.net == net:
            by_k.setdefault(row.k, []).append(row)
    if not by_k:
        raise ValueError(f"no rows for net {net!r}; measure it: python -m lcs_utils.evaluation.length_generalization {net}")
    mean = lambda values: sum(values) / len(values)
    ks = sorted(by_k)
    return {
        "K": ks,
        "mean_count": [round(mean([r.count for r in by_k[k]]), 4) for k in ks],
        "mean_extras": [round(mean([r.extras for r in by_k[k]]), 4) for k in ks],
        "success_rate": [round(mean([success(r, trained_maximum) for r in by_k[k]]), 4) for k in ks],
        "n_samples": min(len(by_k[k]) for k in ks),
    }


def counter_hash() -> str:
    """First 12 digits of the SHA-256 of the counter's weights: rows counted by another counter are stale."""
    return paths.sha256(checkpoints.folder("counter") / checkpoints.WEIGHTS.partition("/")[2])[:12]


def measure(net: str, ks, samples: int, preset="small", seed: int = 0, steps: int = 14, solver: str = "dpmpp_2m") -> None:
    """Sample and count checkpoint `net` at every K of `ks`, adding to the stored rows after each K."""
    pipeline, counter = checkpoints.load(net, preset), ObjectCounter.from_pretrained(checkpoints.folder("counter"))
    path = rows_path(preset)
    hashes = {"weights": checkpoints.row(net, preset)["sha256"][:12], "counted_by": counter_hash()}
    key = dict(net=net, seed=seed, solver=solver, steps=steps) | hashes
    stale = lambda row: row.net == net and any(getattr(row, name) != value for name, value in hashes.items())
    same = lambda row, k: all(getattr(row, name) == value for name, value in (key | {"k": k}).items())
    for k in tqdm(ks, desc=f"{net}: K", disable=None):
        if sum(same(row, k) for row in read_rows(path)) >= samples:
            continue
        images = draw_samples(pipeline.denoiser, pipeline.config.resolution, k, samples, seed, steps, solver)
        counted = count_rows(images, counter, k, **key)
        with exclusive(path):  # another net may be measured at the same time
            write_rows([row for row in read_rows(path) if not same(row, k) and not stale(row)] + counted, path)


def main(arguments=None) -> None:
    parser = argparse.ArgumentParser(prog="python -m lcs_utils.evaluation.length_generalization")
    parser.add_argument("nets", nargs="+", help="checkpoints")
    parser.add_argument("--k", default="0-12", help="numbers of locations, as 4 or 0-12")
    parser.add_argument("--samples", type=int, default=64, help="samples per K")
    parser.add_argument("--preset", default="small", choices=tuple(PRESETS))
    parser.add_argument("--steps", type=int, default=14)
    parser.add_argument("--solver", default="dpmpp_2m", choices=SOLVERS)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args(arguments)
    low, _, high = args.k.partition("-")
    ks = range(int(low), int(high or low) + 1)
    if args.samples < 1 or ks.start < 0 or ks.stop > len(TEST_LOCATIONS) + 1:
        parser.error(f"need --samples >= 1 and --k within 0-{len(TEST_LOCATIONS)}; got {args.samples} and {args.k}")
    for net in args.nets:
        measure(net, ks, args.samples, args.preset, args.seed, args.steps, args.solver)


if __name__ == "__main__":
    main()
