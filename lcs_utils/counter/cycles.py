"""The counter's accuracy on crowded scenes rendered by Blender's Cycles and by the fast renderer.

    python -m lcs_utils.counter.cycles --per-count 2000    # needs bpy; about three core-hours

After every hundred scenes the shipped counter's answers at each size are added to the rows of
data/counts/counter_cycles.csv, so that the hours can be split over runs and machines, and no images need be
kept. Rows of replaced counters stay under their weights' hash and are reported as theirs.
"""

import argparse
import math
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

import torch
from tqdm.auto import tqdm

from lcs_utils import paths, store
from lcs_utils.checks import check_count
from lcs_utils.clevr.blender import check_bpy, render_cycles
from lcs_utils.clevr.card import parse_counts
from lcs_utils.clevr.render import LOOK
from lcs_utils.clevr.scenes import Scene
from lcs_utils.counter.accuracy import COUNTS, Found, Z, look, reduced, wilson
from lcs_utils.counter.net import ObjectCounter, folder, verify
from lcs_utils.counter.scenes import EARLIER_SHARE, Labeled, held_out_scenes, labels, rendered
from lcs_utils.counter.shipped import PLAUSIBLE
from lcs_utils.nets import CheckpointError
from lcs_utils.stats import Interval

ROWS = paths.COUNTS / "counter_cycles.csv"
COMMAND = "python -m lcs_utils.counter.cycles"
RESOLUTIONS, BATCH, SIDE, SEED = (32, 64), 100, 64, 2


class Compared(NamedTuple):
    """A counter's answers on a batch of crowded scenes of `objects` objects, rendered by Cycles and by the
    fast renderer.

    Numbers of images, or of objects for `counted`, `placed` (found within a cell) and `colored` (also with
    the right color).
    """

    counter: str
    weights: str  # first 12 digits of their SHA-256
    look: int  # of the fast renderer
    objects: int
    batch: int
    blender: str
    images: int
    exact_cycles: int
    exact_fast: int
    exact_both: int
    within_one_cycles: int
    within_one_fast: int
    counted_cycles: int
    counted_fast: int
    placed_cycles: int
    placed_fast: int
    colored_cycles: int
    colored_fast: int
    plausible_cycles: int
    plausible_fast: int


def scenes_of(objects: int, batch: int) -> list[Scene]:
    """Batch number `batch`: BATCH held-out crowded scenes of `objects` objects."""
    return held_out_scenes("crowded", objects, BATCH, SEED + batch, EARLIER_SHARE)


def numbers(cycles: Found, fast: Found) -> dict[str, int]:
    """The last columns of `Compared`, from the counter's answers on both renders of the same scenes."""
    value = {"images": len(cycles.truth), "exact_both": int((cycles.exact & fast.exact).sum())}
    for name, found in (("cycles", cycles), ("fast", fast)):
        value |= {
            f"exact_{name}": int(found.exact.sum()),
            f"within_one_{name}": int(((found.count - found.truth).abs() <= 1).sum()),
            f"counted_{name}": int(found.count.sum()),
            f"placed_{name}": int(found.placed.sum()),
            f"colored_{name}": int(found.colored.sum()),
            f"plausible_{name}": int((found.plausibility >= PLAUSIBLE).sum()),
        }
    return value


def name_at(side: int) -> str:
    """The name in the rows for the counter on images of `side` px."""
    return f"{folder(side).name}_{side}px"


def shipped(resolutions: Sequence[int] = RESOLUTIONS) -> dict[str, str]:
    """{name such as counter_32px: first 12 digits of its weights' SHA-256} of the shipped counter for each
    image size.

    Raises CheckpointError as `net.verify`.
    """
    return {name_at(side): verify(folder(side))["sha256"][:12] for side in resolutions}


def count_cycles(
    per_count: int,
    counts: Iterable[int] = COUNTS,
    resolutions: Sequence[int] = RESOLUTIONS,
    threads: int | None = None,
    path: Path = ROWS,
) -> None:
    """Render and count the missing scenes, up to `per_count` for each of `counts`, in whole batches (App.
    E.2's counter).

    Rows of other weights or another look of the renderer are kept, but do not count as done. Raises
    ValueError for counts outside 0..12 or fewer than one scene, RuntimeError as `render_cycles`,
    CheckpointError as `net.verify`.
    """
    counts = sorted(set(counts))
    if per_count < 1 or not counts or not set(counts) <= set(COUNTS):
        raise ValueError(
            f"need --per-count >= 1 and --objects within 0-{COUNTS[-1]}; got {per_count} and {counts}"
        )
    weights = shipped(resolutions)

    def keys(objects, batch):
        return {(name, digits, LOOK, objects, batch) for name, digits in weights.items()}

    wanted = [(objects, batch) for batch in range(-(-per_count // BATCH)) for objects in counts]
    missing = [of for of in wanted if not keys(*of) <= {row[:5] for row in read(path)}]
    if not missing:
        return
    _, version = check_bpy()
    nets = [ObjectCounter.from_pretrained(folder(side)) for side in resolutions]
    for of in tqdm(missing, desc="Cycles", unit="hundred"):
        if keys(*of) <= {row[:5] for row in read(path)}:  # another process has done it meanwhile
            continue
        scenes = scenes_of(*of)
        images, _ = render_cycles(scenes, SIDE, threads=threads, prefilter="fast", masks=False)
        drawn = Labeled(images.transpose(0, 3, 1, 2), *labels(scenes))
        rows = []
        for (name, digits), net, side in zip(weights.items(), nets, resolutions, strict=True):
            said = numbers(look(net, reduced(drawn, side)), look(net, rendered(scenes, side)))
            rows.append(Compared(name, digits, LOOK, *of, version, **said))
        with store.exclusive(path):
            kept = [row for row in read(path) if row[:5] not in {row[:5] for row in rows}]
            store.write_rows(path, f"{COMMAND} --per-count 2000", Compared, kept + rows)


def read(path: Path = ROWS) -> list[Compared]:
    """The stored rows. Warns and raises as `store.read_rows`."""
    return store.read_rows(path, Compared)


class Accuracy(NamedTuple):
    """Shares of `images` counted exactly with Wilson intervals, and their paired difference (Cycles less
    fast).
    """

    images: int
    cycles: Interval
    fast: Interval
    difference: Interval


def accuracy(rows: Sequence[Compared], counter: str, weights: str, counts: Iterable[int]) -> Accuracy | None:
    """How often a counter with these weights is exact over `counts`, each weighing the same.

    Uses only batches that cover all of `counts`; None if there is no such batch.
    """
    counts = set(counts)
    mine = [row for row in rows if row[:3] == (counter, weights, LOOK) and row.objects in counts]
    whole = {
        batch
        for batch in {row.batch for row in mine}
        if {row.objects for row in mine if row.batch == batch} == counts
    }

    def total(name):
        return sum(getattr(row, name) for row in mine if row.batch in whole)

    n, cycles, fast, both = map(total, ("images", "exact_cycles", "exact_fast", "exact_both"))
    if not n:
        return None
    more, fewer = cycles - both, fast - both  # images that are exact under one renderer only
    difference, half = (more - fewer) / n, Z * math.sqrt(more + fewer - (more - fewer) ** 2 / n) / n

    def share(k):
        return Interval(round(k / n, 4), *wilson(k, n))

    return Accuracy(
        n, share(cycles), share(fast), Interval(*(round(difference + shift, 4) for shift in (0, -half, half)))
    )


def lines(
    rows: Sequence[Compared],
    weights: dict[str, str],
    groups: Sequence[Iterable[int]] = (range(7), range(7, 13), COUNTS),
) -> list[str]:
    """Markdown rows, per counter and range of objects: images, percent exact under both renderers, and their
    difference.

    `weights` are the shipped counter's; rows of other weights are marked.
    """

    def percent(of):
        return "{:.1f} [{:.1f}, {:.1f}]".format(*(100 * v for v in of))

    found = []
    for counter, digits in sorted({row[:2] for row in rows}):
        told = counter if weights.get(counter) == digits else f"{counter}, weights {digits}, since replaced"
        for counts in groups:
            value = accuracy(rows, counter, digits, counts)
            if value is not None:
                said = " | ".join(map(percent, value[1:]))
                found.append(f"| {told} | {min(counts)}–{max(counts)} | {value.images:,} | {said} |")
    return found


def main(arguments=None) -> None:
    parser = argparse.ArgumentParser(prog=COMMAND, description=__doc__.splitlines()[0])
    parser.add_argument(
        "--per-count", type=int, default=BATCH, help="scenes per object count, in whole hundreds"
    )
    parser.add_argument(
        "--objects", type=parse_counts, default=tuple(COUNTS), help="object counts, such as 0-12 or 7,8"
    )
    parser.add_argument("--threads", type=int, default=1, help="threads of Blender and of the counters")
    args = parser.parse_args(arguments)
    try:
        torch.set_num_threads(check_count("--threads", args.threads, 1))
        count_cycles(args.per_count, args.objects, threads=args.threads)
    except (ValueError, CheckpointError) as error:
        parser.error(str(error))
    except (RuntimeError, OSError) as error:
        parser.exit(1, f"error: {error}\n")
    print("\n".join(line.strip("| ") for line in lines(read(), shipped())))


if __name__ == "__main__":
    main()
