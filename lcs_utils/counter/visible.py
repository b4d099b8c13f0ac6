"""How visible a fault must be before the counter calls an image implausible (App. E.2's counter).

    python -m lcs_utils.counter.visible    # data/counts/counter_faults.csv, two minutes of one core

The same strength can change an image a lot or hardly at all: fading a gray object toward the gray floor is
hard to see. So faults of all strengths are grouped by how much some 3x3 pixels changed.
"""

import argparse
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor
from tqdm.auto import tqdm

from lcs_utils import paths, store
from lcs_utils.counter import shipped
from lcs_utils.counter.accuracy import COUNTS, NAMED, PASSING, SEED, STRENGTHS
from lcs_utils.counter.corruptions_graded import GRADED, visible_change
from lcs_utils.counter.net import ObjectCounter, verify
from lcs_utils.counter.scenes import held_out
from lcs_utils.diffusion import from_uint8

ROWS = paths.COUNTS / "counter_faults.csv"
COMMAND = "python -m lcs_utils.counter.visible"
SIDE, PER_COUNT = shipped.RESOLUTION, 40
CLEAN = "none"
EDGES = (0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5)  # of the change; .05 are 6 gray levels of 256
FEWEST = 10  # images that a bin needs to be used


class Passed(NamedTuple):
    """Of `images` with a fault that changed some 3x3 pixels by at least `change` (and less than the next edge
    of EDGES), how many `judge` (first 12 digits of a counter's SHA-256) calls plausible."""

    judge: str
    fault: str
    change: float
    images: int
    passed: int


def pictures(per_count: int = PER_COUNT) -> Iterator[tuple[str, float, Tensor, Tensor]]:
    """(fault, strength, images, clean renders) of every NAMED fault, on held-out scenes of 1-12 objects."""
    few = [held_out("clevr", count, per_count, SIDE, SEED) for count in COUNTS]
    floors, few = from_uint8(few[0].images), few[1:]
    clean = torch.cat([from_uint8(of.images) for of in few])
    centers = torch.cat([torch.from_numpy(of.centers) for of in few])
    for name in NAMED:
        for strength in STRENGTHS[name]:
            generator = torch.Generator().manual_seed(SEED)
            floor = floors[torch.randint(len(floors), (len(clean),), generator=generator)]
            amount = torch.full((len(clean), 1, 1, 1), strength)
            yield (
                name,
                strength,
                GRADED[name].fault(clean, amount, floor, centers, generator).clamp(-1, 1),
                clean,
            )


def binned(mark: str, fault: str, change: Tensor, passed: Tensor) -> list[Passed]:
    """Rows of one fault, one per bin of EDGES; changes below the first edge are left out."""
    bins = torch.bucketize(change, torch.tensor(EDGES), right=True) - 1
    return [
        Passed(mark, fault, edge, int(here.sum()), int(passed[here].sum()))
        for i, edge in enumerate(EDGES)
        if (here := bins == i).any()
    ]


def measure(folders: Iterable[Path], per_count: int = PER_COUNT) -> list[Passed]:
    """What each counter in `folders` passes, faulty and clean. Raises CheckpointError as `verify`."""
    nets = {judge(folder): ObjectCounter.from_pretrained(folder) for folder in folders}
    changes: dict[str, list[Tensor]] = {name: [] for name in NAMED}
    passed = {(mark, name): [] for mark in nets for name in NAMED}
    clean = torch.empty(0)
    for name, _, images, clean in tqdm(pictures(per_count), total=sum(len(STRENGTHS[n]) for n in NAMED)):
        changes[name].append(visible_change(images, clean))
        for mark, net in nets.items():
            passed[mark, name].append(net(images).plausibility >= shipped.PLAUSIBLE)
    rows = []
    for mark, net in nets.items():
        fine = net(clean).plausibility >= shipped.PLAUSIBLE
        rows.append(Passed(mark, CLEAN, 0.0, len(fine), int(fine.sum())))
        for name in NAMED:
            rows += binned(mark, name, torch.cat(changes[name]), torch.cat(passed[mark, name]))
    return rows


def places() -> list[Path]:
    """Folders of the shipped counters."""
    return [place for place in (shipped.FOLDER, shipped.SECOND) if place.exists()]


def judge(folder: Path) -> str:
    """The name in the rows for the counter in `folder`. Raises CheckpointError as `verify`."""
    return verify(folder)["sha256"][:12]


def read(path: Path = ROWS) -> list[Passed]:
    """The stored rows. Warns and raises as `store.read_rows`."""
    return store.read_rows(path, Passed)


def named_from(rows: Sequence[Passed]) -> dict[str, float | None]:
    """{fault: the change from which on at most PASSING of the images pass, or None} of one judge's rows."""
    value: dict[str, float | None] = {}
    for name in NAMED:
        told = [row for row in rows if row.fault == name and row.images >= FEWEST]
        passing = max((row.change for row in told if row.passed > PASSING * row.images), default=-1.0)
        value[name] = min((row.change for row in told if row.change > passing), default=None)
    return value


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog=COMMAND, description=__doc__.splitlines()[0])
    parser.add_argument("--per-count", type=int, default=PER_COUNT, help="scenes per object count")
    args = parser.parse_args(arguments)
    if args.per_count < 1:
        parser.error(f"--per-count must be at least 1, got {args.per_count}")
    torch.set_num_threads(1)
    rows = measure(places(), args.per_count)
    told = "" if args.per_count == PER_COUNT else f" --per-count {args.per_count}"
    store.write_rows(ROWS, COMMAND + told, Passed, rows)
    for folder in places():
        print(paths.shown(folder), named_from([row for row in rows if row.judge == judge(folder)]))


if __name__ == "__main__":
    main()
