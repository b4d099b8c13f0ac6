"""Objects counted by eye, blind to net and K (App. E.2); `agreement` compares the counter with them.

    python -m lcs_utils.evaluation.eye.hand_counts sheets runs/sheets --nets "exp1, 64 px" "render, 64 px"
    python -m lcs_utils.evaluation.eye.hand_counts record runs/sheets answers.txt --counted-by "who or what"
    python -m lcs_utils.evaluation.eye.hand_counts agreement

`sheets` draws numbered, enlarged samples in random order, with renders and spoiled renders among them as
controls (`controls`); `record` stores a text file of lines `number count [?]`, where `?` marks an image that
does not look like CLEVR. In a notebook, `widgets.hand_count.HandCounter` shows them one by one.
"""

import argparse
import json
import math
from pathlib import Path
from typing import NamedTuple

import numpy as np
from jaxtyping import UInt8
from PIL import Image, ImageDraw, ImageFont
from torch import Tensor

from lcs_utils import nets, paths, store
from lcs_utils.checks import check_choice, check_count
from lcs_utils.clevr.card import parse_counts
from lcs_utils.diffusion import from_uint8
from lcs_utils.evaluation import changes, controls, families, sizes
from lcs_utils.evaluation.eye.agreement import agreement
from lcs_utils.evaluation.eye.hand_count_rows import COUNTS, HandCount, Shown, read_counts, record
from lcs_utils.evaluation.rows import read_rows, told_path
from lcs_utils.evaluation.samples import keep_drawing, kept_samples, samples_path
from lcs_utils.evaluation.sheets import ACROSS, read_sheet, rounded, sheet_path
from lcs_utils.plotting import to_uint8

COLUMNS, ROWS, SIDE = 5, 4, 320  # of a sheet, and of a picture on it, px


def choose(
    nets,
    ks,
    samples: int,
    order: int = 0,
    way: tuple[int, str, int] | None = None,
    preset: str = "tiny",
    family: str = "test",
) -> list[Shown]:
    """The first `samples` samples of each net at each K, in the random order of seed `order`, which reveals
    neither net nor K.

    `way` is the seed, solver and steps of the samples (None: those of `changes.sampler`). A net's name may
    include its size (`sizes.sized`); a name of `controls.CONTROLS` is a control, without family. Raises
    ValueError for no K or no samples, an unknown family, or a K beyond that of the family or of the controls:
    before anything is drawn.
    """
    check_choice("a family", family, families.FAMILIES)
    if samples < 1 or not ks:
        raise ValueError(f"need one or more K and samples, got {list(ks)} and {samples}")
    found = []
    for name in nets:
        for k in ks:
            if controls.is_control(name):
                check_count(f"K of {name}", k, 0, controls.LARGEST_K)
            else:
                families.check(family, k)
        if controls.is_control(name):
            own = (*controls.way(), Shown._field_defaults["family"])
        else:
            bare = sizes.bare(name)
            drawn = changes.sampler(bare) if way is None else way
            own = (changes.weights(bare, _preset(name, preset)), *drawn, family)
        found += [Shown(name, own[0], k, i, *own[1:]) for k in ks for i in range(samples)]
    return [found[i] for i in np.random.default_rng(order).permutation(len(found))]


def _preset(name: str, preset: str) -> str:
    return sizes.preset_of(name) if "," in name else preset


def _group(shown: Shown) -> tuple:
    return shown.net, shown.weights, shown.k, shown.seed, shown.solver, shown.steps, shown.family


def _on_sheet(group: tuple, n: int, preset: str) -> list[Tensor] | None:
    """The first `n` samples of (net, weights, k, seed, solver, steps, family) where a sheet shows them."""
    net, weights, k, seed, solver, steps, family = group
    if n > ACROSS or not sheet_path(net, preset, family).exists():
        return None
    shown = read_sheet(net, preset, family)
    about = {"weights": weights, "seed": seed, "solver": solver, "steps": steps}
    same = all(shown.about[name] == value for name, value in about.items()) and k in shown.samples
    return list(from_uint8(shown.samples[k][:n])) if same else None


def _alike(image: Tensor) -> Tensor:
    pixels = to_uint8(image)
    return from_uint8(np.ascontiguousarray(rounded(pixels).transpose(2, 0, 1)))


def images_of(shown: list[Shown], preset: str = "tiny") -> list[Tensor]:
    """The images of samples, each [3 resolution resolution] in [-1, 1]: stored samples, read from sheets
    where there are none, otherwise drawn and stored.

    If one comes from a sheet, all are rounded as sheets are: colors must not tell a net from a control.
    """
    coarse = False
    wanted: dict[tuple, int] = {}
    for s in shown:
        group = _group(s)
        wanted[group] = max(wanted.get(group, 0), s.sample + 1)
    drawn = {}
    for group, n in wanted.items():
        name, weights, k, seed, solver, steps, family = group
        if controls.is_control(name):
            drawn[group] = list(controls.images(name, k, n))
            continue
        net, of = sizes.bare(name), _preset(name, preset)
        place = samples_path(
            net, of, family=family, k=k, seed=seed, solver=solver, steps=steps, weights=weights
        )
        on_sheet = None if kept_samples(place) >= n else _on_sheet((net, *group[1:]), n, of)
        if on_sheet is not None:
            drawn[group], coarse = on_sheet, True
        else:
            denoise, side = changes.denoiser(net, of)
            parts = keep_drawing(place, denoise, side, k, n, seed, steps, solver, family)
            drawn[group] = [x for part in parts for x in part]
    found = [drawn[_group(s)][s.sample] for s in shown]
    return [_alike(image) for image in found] if coarse else found


def sheet(images: list[Tensor], first: int, side: int = SIDE) -> Image.Image:
    """Images enlarged to `side` px, COLUMNS per row, each with its number and nothing else."""
    gap, head = 8, 22
    rows = math.ceil(len(images) / COLUMNS)
    page = Image.new("RGB", (COLUMNS * (side + gap) + gap, rows * (side + head + gap) + gap), "white")
    draw, font = ImageDraw.Draw(page), ImageFont.load_default(18)
    for i, image in enumerate(images):
        x, y = gap + i % COLUMNS * (side + gap), gap + i // COLUMNS * (side + head + gap)
        draw.text((x, y), f"{first + i}", fill="black", font=font)
        page.paste(Image.fromarray(to_uint8(image)).resize((side, side), Image.BICUBIC), (x, y + head))
    return page


class Session(NamedTuple):
    """A round of counting for `widgets.hand_count.HandCounter(s.pictures, s.record, s.done)`, stored answer
    by answer.

    `shown` are in random order; those that `counted_by` has already counted come first, so that a round can
    be resumed.
    """

    shown: list[Shown]
    pictures: list[UInt8[np.ndarray, "height width 3"]]
    done: int
    counted_by: str
    path: Path

    def record(self, i: int, count: int, plausible: bool) -> None:
        """Store the count of the i-th picture."""
        record([HandCount(self.shown[i], count, int(plausible), self.counted_by)], self.path)


def session(shown: list[Shown], counted_by: str, path=COUNTS, preset: str = "tiny") -> Session:
    """A round over `shown` (from `choose`), resumed where `counted_by` left off (App. E.2)."""
    before = {c.shown for c in read_counts(path) if c.counted_by == counted_by}
    order = sorted(shown, key=lambda s: s not in before)  # sorting keeps the random order within each part
    pictures = [to_uint8(image) for image in images_of(order, preset)]
    return Session(order, pictures, sum(s in before for s in order), counted_by, Path(path))


def answers(text: str, n: int) -> dict[int, tuple[int, bool]]:
    """{number: (count, plausible)} from lines `number count [?]`. Raises ValueError naming a bad line or
    number.
    """
    found: dict[int, tuple[int, bool]] = {}
    for line in filter(str.strip, text.splitlines()):
        words = line.split()
        if not (2 <= len(words) <= 3 and all(w.isdecimal() for w in words[:2]) and words[2:] in ([], ["?"])):
            raise ValueError(f"a line must be `number count` or `number count ?`, got {line!r}")
        if int(words[0]) >= n or int(words[0]) in found:
            raise ValueError(f"numbers are 0..{n - 1}, each once; got {words[0]}")
        found[int(words[0])] = (int(words[1]), len(words) == 2)
    return found


def _sheets(args) -> None:
    shown = choose(args.nets, args.k, args.samples, args.order, family=args.family)
    images, folder = images_of(shown), Path(args.folder)
    for first in range(0, len(images), COLUMNS * ROWS):
        with store.atomic_path(folder / f"sheet_{first:04d}.png") as temporary:
            sheet(images[first : first + COLUMNS * ROWS], first).save(temporary)
    store.write_json(folder / "order.json", shown)
    print(f"{len(images)} samples on sheets in {folder}; order.json says which they are, for `record`")


def _record(args) -> None:
    order = json.loads((Path(args.folder) / "order.json").read_text())
    if not all(isinstance(s, list) and len(s) == len(Shown._fields) for s in order):
        raise ValueError(
            f"{args.folder}/order.json is not of `sheets`: an entry has the fields {', '.join(Shown._fields)}"
        )
    shown = [Shown(*s) for s in order]
    found = answers(Path(args.answers).read_text(), len(shown))
    new = [HandCount(shown[i], count, int(ok), args.counted_by) for i, (count, ok) in sorted(found.items())]
    record(new)
    print(f"{len(new)} of {len(shown)} counts stored in {COUNTS.relative_to(paths.ROOT)}")


def _agreement(hands: list[HandCount], path: Path) -> None:
    rows = read_rows(path)
    found, counters = agreement(hands, rows), sorted({row.counted_by for row in rows})
    print(f"With the counter {', '.join(counters)} of {paths.shown(path)}, in which nets have no size in")
    print(f"their names; {len(hands) - len(found.pairs)} of {len(hands)} counts meet no row there.")
    print("\n".join(found.lines()))


def main(arguments=None) -> None:
    program = "python -m lcs_utils.evaluation.eye.hand_counts"
    parser = argparse.ArgumentParser(prog=program, description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    sheets = commands.add_parser("sheets", help="draw numbered samples to be counted")
    sheets.add_argument("folder")
    sheets.add_argument("--nets", nargs="+", required=True)
    sheets.add_argument(
        "--k", type=parse_counts, default=range(10), help="numbers of locations, as 2, 0-9 or 1,4"
    )
    sheets.add_argument("--samples", type=int, default=10, help="samples of each net and K")
    sheets.add_argument("--family", default="test", choices=families.FAMILIES, help="of the nets' locations")
    sheets.add_argument("--order", type=int, default=0, help="seed of the order in which they are shown")
    stored = commands.add_parser("record", help="store the counts of a text file")
    stored.add_argument("folder")
    stored.add_argument("answers")
    stored.add_argument("--counted-by", required=True, help="who or what looked")
    commands.add_parser("agreement", help="print how far the counter agrees")
    args = parser.parse_args(arguments)
    try:
        if args.command == "agreement":
            _agreement(read_counts(), told_path())
        else:
            {"sheets": _sheets, "record": _record}[args.command](args)
    except (ValueError, OSError, nets.CheckpointError) as error:
        parser.error(str(error))


if __name__ == "__main__":
    main()
