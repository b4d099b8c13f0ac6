"""Strips of samples for figures: one row per net, one column per K, a mark at every location asked for.

A dot marks a location to which today's counter assigns an object (App. E.2), a cross one without. Below each
picture is the number of objects that it counts, which may be more than are seen. Rows of the earlier counter
lack object locations; with them all marks are dots and nothing is below.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from matplotlib.figure import Figure

from lcs_utils import alt_text, paths, plotting
from lcs_utils.clevr.conditions import TEST_LOCATIONS
from lcs_utils.evaluation import null_figures, placement, wording
from lcs_utils.evaluation.against_null import Beside
from lcs_utils.evaluation.rows import Row, decode, of_net
from lcs_utils.evaluation.sheets import read_sheet


def behind(*files: Path) -> list[Path]:
    """Files that a figure rests on, relative to the repository; those outside it (runs/) are left out."""
    return [path.relative_to(paths.ROOT) for path in files if path.is_relative_to(paths.ROOT)]


class Strip(NamedTuple):
    """Pictures [nets][K] (None if missing), with marks and captions for `plotting.image_grid`; `drawn`
    objects and `found` (filled) locations, {net: one number per K}, None where nobody counted; `family` of
    locations.
    """

    images: list[list]
    marks: list[list]
    captions: list[list[str]]
    drawn: dict[str, list[int | None]]
    found: dict[str, list[int | None]]
    ks: list[int]
    family: str = "test"

    def grid(self, labels: Sequence[str], cell: float = 0.95, beside: float = 0.0) -> Figure:
        """The strip as a figure, one label per row; `beside` as in `plotting.image_grid`."""
        counted = any(any(words) for words in self.captions)
        where = wording.CELLS[self.family]
        figure = plotting.image_grid(
            self.images,
            labels,
            [f"K = {k}" for k in self.ks],
            f"asked for, {where}: dot, an object is found within a cell; cross, none is"
            if counted
            else f"dots: asked for, {where}",
            cell,
            self.marks,
            captions=self.captions if counted else None,
            beside=beside,
        )
        alt_text.attach(figure, self.words(labels))
        return figure

    def words(self, labels: Sequence[str]) -> str:
        """The strip in words: its nets, K, and how many locations asked for hold an object."""
        held, said = self.held(), "; ".join(labels)
        if held and len(held) == len(labels):
            counts = (f"{label} {number} of {of}" for label, (number, of) in zip(labels, held.values()))
            said = f"locations asked for that hold an object: {', '.join(counts)}"
        ks = ", ".join(map(str, self.ks))
        return " ".join(f"Samples asked for {ks} objects, a row each: {said}.".split())

    def held(self) -> dict[str, tuple[int, int]]:
        """{net: (locations asked for that hold an object, all of them)} of the nets that were counted."""
        found = {}
        for net, numbers in self.found.items():
            known = [(number, k) for number, k in zip(numbers, self.ks, strict=True) if number is not None]
            if known:
                found[net] = (sum(number for number, _ in known), sum(k for _, k in known))
        return found

    def numbers(self) -> dict:
        """The strip's numbers, for JSON."""
        return {"K": self.ks, "drawn": self.drawn, "found": self.found}


def marked(row: Row, size: int) -> list[tuple[float, float, bool]]:
    """The marks of a row in pixels of a `size` x `size` image: locations asked for, and whether an object is
    assigned to each, one to one and within one cell. Raises ValueError as `placement.check`.
    """
    placement.check([row])
    where = decode(row.asked)
    met = {i for i, _ in placement.assigned(where, decode(row.centers)).tolist()}
    return [(*place, i in met) for i, place in enumerate(plotting.in_pixels(where, size))]


def strip(
    nets: Sequence[str],
    ks: Sequence[int],
    rows: Sequence[Row] = (),
    preset: str = "tiny",
    sample: int = 0,
    family: str = "test",
) -> Strip:
    """One stored sample of each net at each K (`sheets`), marked by `rows`, without which only the paper's
    locations are.

    Raises ValueError when the rows of a net are of other weights than its stored samples.
    """
    made = Strip([], [], [], {}, {}, list(ks), family)
    for net in nets:
        sheet = read_sheet(net, preset, family)
        judged = {row.k: row for row in of_net(rows, net, family) if row.sample == sample}
        other = {row.weights for row in judged.values()} - {sheet.about["weights"]}
        if other:
            raise ValueError(
                f"the stored samples of {net} are of {sheet.about['weights']}, its rows of {other}"
            )
        pictures = [sheet.samples[k][sample] if k in sheet.samples else None for k in ks]
        size = sheet.samples[next(iter(sheet.samples))].shape[-1]
        marks, captions = [], []
        for k, picture in zip(ks, pictures, strict=True):
            row = judged.get(k)
            listed = TEST_LOCATIONS[:k] if family == "test" and picture is not None else []
            dots = plotting.in_pixels(listed, size)
            marks.append(dots if row is None else marked(row, size))
            captions.append("" if row is None else f"{row.count}" + " counted" * (k == ks[0]))
        made.images.append(pictures)
        made.marks.append(marks)
        made.captions.append(captions)
        made.drawn[net] = [judged[k].count if k in judged else None for k in ks]
        made.found[net] = [judged[k].placed if k in judged else None for k in ks]
    return made


def figure_1(
    shown: Strip,
    labels: Mapping[str, str],
    curves: Mapping[str, Mapping[int, Beside]],
    trained: int,
    family: str = "test",
) -> Figure:
    """Figs. 1, 4: the strip, and beside it the share of cells asked for that hold an object, with its null.

    `family` is that of the curves' cells. `labels` is {net: words}, whose part before the colon is the key in
    `curves`; the nets saw up to `trained` objects.
    """
    room = 3.7
    rows = [words.replace(": ", ":\n") for words in labels.values()]
    figure = shown.grid(rows, cell=8.3 / len(shown.ks), beside=room)
    width, height = figure.get_size_inches()
    axes = figure.add_axes(((width - room + 0.6) / width, 0.5 / height, 2.25 / width, 1 - 0.95 / height))
    names = [words.partition(":")[0] for words in labels.values()]
    colors = {name: plotting.color_of(net) for name, net in zip(names, labels, strict=True)}
    null_figures.beside(axes, curves, colors)
    axes.axvspan(0.5, trained + 0.5, color="gray", alpha=0.12, lw=0)
    axes.text(
        trained / 2 + 0.5,
        0.35 if trained < 2 else 0.02,  # above the dotted lines, where it is upright
        "in training",
        ha="center",
        fontsize=8,
        color="0.35",
        rotation=90 * (trained < 2),
    )
    axes.set_title(f"cells filled, {wording.CELLS[family]}\n(dotted: null)", fontsize=10, pad=4)
    return figure
