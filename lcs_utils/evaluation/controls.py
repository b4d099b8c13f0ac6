"""Control images for judging samples blind by eye: clean and spoiled renders, mixed among the nets' samples
(App. E.2).

They give "looks wrong" a scale: how many clean renders look wrong, and how many spoiled ones pass?
"""

import argparse
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from jaxtyping import Float
from torch import Tensor

from lcs_utils import paths, store
from lcs_utils.checks import check_choice, check_count
from lcs_utils.clevr.render import LOOK
from lcs_utils.counter import corruptions_graded, loading, scenes
from lcs_utils.diffusion import from_uint8
from lcs_utils.evaluation import length_generalization, sizes
from lcs_utils.evaluation.rows import Row, read_rows, write_rows
from lcs_utils.nets import CheckpointError

if TYPE_CHECKING:
    from lcs_utils.counter.net import ObjectCounter

CONTROLS = {"render": "clean renders", "spoiled": "renders with a fault of gross strength"}
ROWS = paths.COUNTS / "small" / "controls.csv.bz2"
# Neither the counter's training nor its test on fast renders contains these scenes. Its test on Cycles has
# some of up to three objects, which is harmless: nothing is learned from test images.
SEED = 5
LARGEST_K = scenes.MOST["clevr"]
SIDES = {"32 px": 32, "64 px": 64}
FAULTS = ("speckle", "confetti", "noise", "ringed", "faded", "ragged")


def is_control(name: str) -> bool:
    """Whether `name`, with or without its size, is one of CONTROLS."""
    return sizes.bare(name) in CONTROLS


def way() -> tuple[str, int, str, int]:
    """What controls have in place of a net's weights, seed, solver and steps."""
    return f"look {LOOK}", SEED, "render", 0


def images(name: str, k: int, n: int) -> Float[Tensor, "n 3 side side"]:
    """The first `n` images of a control with `k` objects at CLEVR's distances, in [-1, 1].

    Spoiled images take the FAULTS in turn, moving on to the next where a fault changes nothing visible.
    Raises ValueError for an unknown name or size, or an invalid count.
    """
    kind = check_choice("a control", sizes.bare(name), CONTROLS)
    side = SIDES[check_choice("the size", sizes.size_of(name), SIDES)]
    check_count("k of a control", k, 0, LARGEST_K)
    clean = _rendered(k, check_count("n", n, 1), side)
    if kind == "render":
        return from_uint8(clean.images)
    return torch.cat([_spoiled(clean, i, k) for i in range(n)])


@cache
def _rendered(k: int, n: int, side: int) -> scenes.Labeled:
    return scenes.held_out("clevr", k, n, side, SEED, scenes.EARLIER_SHARE)


def _spoiled(clean: scenes.Labeled, i: int, k: int) -> Float[Tensor, "1 3 side side"]:
    x, centers = from_uint8(clean.images[i : i + 1]), torch.from_numpy(clean.centers[i : i + 1])
    floor = from_uint8(_rendered(0, 1, x.shape[-1]).images)
    generator = torch.Generator().manual_seed(1000 * k + i)
    for at in range(len(FAULTS)):
        name = FAULTS[(i + k + at) % len(FAULTS)]
        grade = corruptions_graded.GRADED[name]
        strength = grade.gross + (grade.most - grade.gross) * torch.rand(1, 1, 1, 1, generator=generator)
        worn = corruptions_graded.worn(name, x, floor, centers, generator, strength)
        if worn.known:
            return worn.images
    raise ValueError(f"no fault of {', '.join(FAULTS)} shows on picture {i} of {k} objects")


def rows(name: str, ks: Sequence[int], n: int, counter: "ObjectCounter") -> list[Row]:
    """Count the first `n` images of a control at every number of objects in `ks`, one row per image."""
    weights, seed, solver, steps = way()
    key = {"net": name, "weights": weights, "seed": seed, "solver": solver, "steps": steps}
    found = []
    for k in ks:
        where = torch.full((n, k, 2), 0.5)  # no places were asked for
        found += length_generalization.count_rows(images(name, k, n), counter, k, where, **key)
    return found


def read() -> list[Row]:
    """The stored rows of both controls at 64 px. Warns and raises as `store.read_rows`."""
    return store.read_rows(ROWS, Row)


def main(arguments=None) -> None:
    program = "python -m lcs_utils.evaluation.controls"
    parser = argparse.ArgumentParser(prog=program, description=__doc__.splitlines()[0])
    parser.add_argument("--samples", type=int, default=8, help="images per number of objects, 1 to 9")
    parser.add_argument("--counter", help="folder of another counter; its rows need a file, --rows")
    parser.add_argument("--rows", help="a CSV to add these rows to (default: the shipped rows)")
    args = parser.parse_args(arguments)
    if bool(args.counter) != bool(args.rows):
        parser.error("--counter and --rows go together: the shipped rows are those of the shipped counter")
    if args.samples < 1:
        parser.error(f"--samples must be at least 1, got {args.samples}")
    try:
        counter = loading.load(64, args.counter)
    except (ValueError, OSError, CheckpointError) as error:
        parser.error(str(error))
    found = [row for kind in CONTROLS for row in rows(f"{kind}, 64 px", range(1, 10), args.samples, counter)]
    if not args.rows:
        store.write_rows(ROWS, f"{program} --samples {args.samples}", Row, found)
        return
    with store.exclusive(Path(args.rows)):  # nets may be counted into it at the same time
        nets = [row for row in read_rows(args.rows) if not is_control(row.net)]
        write_rows(nets + found, args.rows, args.counter)


if __name__ == "__main__":
    main()
