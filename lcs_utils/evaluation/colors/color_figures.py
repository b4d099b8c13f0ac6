"""Figures of color-conditioned nets: their samples with the counter's findings, and success against K next to
its null, chance and the counter's own ceiling (section 4, Figs. 5, 11, App. E.4).
"""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patheffects import withStroke

from lcs_utils import plotting
from lcs_utils.clevr.scenes import COLORS, sample_scene
from lcs_utils.evaluation.against_null import Beside
from lcs_utils.evaluation.colors.color import Ceiling, ColorRow, found_colors, placed, rendered, scene_counts
from lcs_utils.evaluation.colors.color_rates import ColorAt, ColorFound
from lcs_utils.evaluation.family_grids import HELD_OUT
from lcs_utils.evaluation.net_labels import hue
from lcs_utils.evaluation.null_figures import apart, shade, threshold
from lcs_utils.evaluation.rows import of_net
from lcs_utils.evaluation.sheets import read_sheet
from lcs_utils.evaluation.sizes import SIZES, bare, size_of, sized
from lcs_utils.evaluation.tables import COLOR_PAPER, say

if TYPE_CHECKING:
    from lcs_utils.counter.net import ObjectCounter

OUTLINE = [withStroke(linewidth=3, foreground="white")]
WORDS = {
    "color_1": "all colors told, 1 object",
    "color_1-3": "all colors told, 1-3 objects",
    "color_1-5": "all colors told, 1-5 objects",
    "color_single_1-3": "one color told, 1-3 objects",
}


def label(name: str) -> str:
    """A net in words (nets of your own by their name), with its size."""
    return f"{WORDS.get(bare(name), bare(name))}, {size_of(name)}"


def measured(read: Callable[[str], Sequence[ColorRow]]) -> dict[str, list[ColorRow]]:
    """{sized net name: its rows} of all color nets that have rows: the paper's and our control before your
    own, the larger size first; `read(preset)` returns rows.
    """
    found = {}
    for preset in reversed(SIZES):
        rows = list(read(preset))
        for net in dict.fromkeys([*WORDS, *sorted({row.net for row in rows})]):
            mine = [row for row in rows if row.net == net]
            if mine:
                found[sized(net, preset)] = mine
    return found


def strips(
    of: Mapping[str, Sequence[ColorRow]],
    ks: Sequence[int],
    counter: "ObjectCounter",
    seed: int = 0,
    sample: int = 0,
) -> tuple[Figure, dict[str, Any]]:
    """Fig. 5, left: a stored sample of each net asked for the first K colors, captioned with the asked
    objects and all objects that the counter finds. The last row shows renders of what was asked. Also returns
    the numbers, for JSON.

    `of` as from `measured`. Raises ValueError if a net's rows are of other weights than its samples.
    """
    images, captions, said = [], [], {}
    for name, rows in of.items():
        net = bare(name)
        sheet = read_sheet(net, rows[0].preset)
        judged = {row.k: row for row in of_net(rows, net, "colors") if row.sample == sample}
        if {row.weights for row in judged.values()} - {sheet.about["weights"]}:
            raise ValueError(f"the stored samples of {name} come from other weights than its rows")
        images.append([sheet.samples[k][sample] for k in ks])
        captions.append([f"{judged[k].placed} of {k}, {judged[k].count} in all" for k in ks])
        said[name] = {"right": [judged[k].placed for k in ks], "drawn": [judged[k].count for k in ks]}
    renders, asked = zip(
        *(rendered("colors", k, 1, counter.config.resolution, seed) for k in ks), strict=True
    )
    counts, asked = counter(torch.cat(renders)), torch.cat(asked)
    right, drawn = placed(found_colors(counts), asked).int().tolist(), counts.count.int().tolist()
    images.append([image for (image,) in renders])
    captions.append([f"{a} of {k}, {b} in all" for a, k, b in zip(right, ks, drawn, strict=True)])
    said["renders"] = {"right": right, "drawn": drawn}
    columns = [f"K = {k}\n+ {COLORS[k - 1]}" for k in ks]
    rows_said = [*(label(name).replace(", ", ",\n") for name in of), "renders of\nwhat is asked"]
    key = "below: asked colors that the counter finds, and all objects it finds (in noise, too)"
    return plotting.image_grid(images, rows_said, columns, key, cell=1.2, captions=captions), {
        "K": list(ks),
        "found": said,
    }


def _with_null(lines: list, words: list[str]) -> tuple[list, list[str]]:
    """Legend entries plus one for the dotted lines."""
    null = "its null: the same pictures at another sample's colors"
    return [*lines, plt.Line2D([], [], color="0.3", ls=":")], [*words, null]


def _face(net: str) -> dict[str, Any]:
    """Hollow squares on a thin line for 32 px, as the same net may be drawn at both sizes."""
    return {"mfc": "white", "lw": 1.2} if size_of(net) == "32 px" else {}


def _with_own_null(axes: Axes, net: str, of: Mapping[int, Beside], trained: int = 0) -> None:
    """Draw a net's rates along K, and its null dotted; no line leads from K = `trained` to one more."""
    words = label(net)
    for part in apart(of, trained):
        plotting.band(axes, {k: at.own for k, at in part.items()}, hue(net), "s", words, **_face(net))
        null = {k: at.null.value for k, at in part.items() if at.null}
        axes.plot(list(null), list(null.values()), ":", lw=1.5, color=hue(net))
        words = ""  # one entry in the legend


def _with_limits(axes: Axes, ceilings: Mapping[int, Ceiling], chance: Mapping[int, float]) -> None:
    """Draw both limits: the counter on renders, and K objects of random colors."""
    for of, line, words, side in (
        ({k: at.placed.value for k, at in ceilings.items()}, "--", "renders ", "top"),
        (chance, "-.", "random colors ", "bottom"),
    ):
        axes.plot(list(of), list(of.values()), line, color="0.45", lw=1.3)
        axes.text(max(of), of[max(of)], words, ha="right", va=side, color="0.3", path_effects=OUTLINE)


def _name_noise(axes: Axes, found: Mapping[str, ColorFound], value: Callable[[ColorAt], float]) -> None:
    """Say at the largest K that the net told one color draws noise there, where the counter finds objects but
    takes no picture for CLEVR.
    """
    for net, of in found.items():
        at = of.at[max(of.at)]
        if bare(net) == "color_single_1-3" and at.looks.value == 0:
            style = {"ha": "right", "color": hue(net), "path_effects": OUTLINE}
            axes.text(max(of.at) - 0.1, value(at), "noise", va="top", **style)


def plot_success(found: Mapping[str, ColorFound], ceilings: Mapping[int, Ceiling]) -> Figure:
    """Number and colors right, and objects drawn, each against K; `plot_families` has the objects present.

    Dotted: the null, the same images judged at another sample's colors. Gray: the counter on renders that
    show exactly what was asked, and K. As in `null_figures.plot`, curves break where the
    criterion changes, shades show how many objects training images had, a thin line the share that K needs.
    """
    figure, panels = plt.subplots(1, 2, figsize=(8.4, 4.0))
    success, drawn = panels
    for net, of in found.items():
        _with_own_null(success, net, {k: at.success for k, at in of.at.items()}, of.trained)
        plotting.band(
            drawn, {k: at.drawn for k, at in of.at.items()}, hue(net), "s", label(net), **_face(net)
        )
    ks = list(ceilings)
    gray = {"color": "0.45", "lw": 1.3}
    success.plot(ks, [of.exact.value for of in ceilings.values()], "--", **gray)
    low = min(ceilings[k].exact.value for k in ks[-3:])  # the line dips where the word stands
    success.text(ks[-1], low, "renders ", ha="right", va="top", color="0.35")
    drawn.plot(ks, ks, "--", **gray)
    drawn.text(ks[-1], ks[-1], "K ", ha="right", va="bottom", color="0.35")
    threshold(success)
    rule = "number and colors right: from the gap on\none may be extra, then also one missing;"
    success.set(title=f"{rule}\nK: as far as it stays above the line", ylim=(-0.03, 1.03))
    drawn.set(title="objects drawn", ylim=(0, None))
    _name_noise(drawn, found, lambda at: at.drawn.value)
    trained = {of.trained for of in found.values()}
    for axes in panels:
        axes.set(xlabel="K, objects asked for", xticks=ks, xlim=(0.5, ks[-1] + 0.4))
        shade(axes, trained, 0.985 * drawn.get_ylim()[1] if axes is drawn else None)
    lines, said = success.get_legend_handles_labels()
    figure.legend(*_with_null(lines, said), loc="outside lower center", ncols=2, fontsize=9)
    return figure


def plot_families(
    found: Mapping[str, Mapping[str, ColorFound]], ceilings: Mapping[str, Mapping[int, Ceiling]]
) -> Figure:
    """Share of asked objects present against K, one panel per family of conditions: adding colors, and adding
    objects of one color. Dotted: the null; gray: the counter
    on renders that show exactly what was asked, and K objects of random colors.
    """
    figure, panels = plt.subplots(1, len(found), figsize=(4.2 * len(found), 3.4), sharey=True, squeeze=False)
    for axes, (words, nets) in zip(panels[0], found.items(), strict=True):
        for net, of in nets.items():
            beside = {k: at.right for k, at in of.at.items()}
            _with_own_null(axes, net, beside)
        _name_noise(axes, nets, lambda at: at.right.own.value)
        _with_limits(axes, ceilings[words], {k: at.chance for k, at in next(iter(nets.values())).at.items()})
        axes.set(title=words, xlabel="K, objects asked for", xticks=list(beside), ylim=(-0.03, 1.03))
    panels[0, 0].set_ylabel("asked objects that are there")
    lines, said = panels[0, 0].get_legend_handles_labels()
    figure.legend(*_with_null(lines, said), loc="outside lower center", ncols=2, fontsize=9)
    return figure


def markdown(
    found: Mapping[str, ColorFound], listed: Mapping[str, ColorFound], same: Mapping[str, ColorFound]
) -> str:
    """Markdown table of K next to its null and the paper's, for random subsets (`found`), the paper's list
    (`listed`) and K objects of one color (`same`), and of conditions obeyed.
    """
    lines = [
        "| net | K, random colors (null) | K, the paper's list (null) | the paper's K "
        "| K, all of one color (null) | obeyed of 3 | obeyed of 6 | objects drawn at K = 3, 6 |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for net, of in found.items():
        obeyed = [f"{at.obeyed.value:.1f} [{at.obeyed.low:.1f}, {at.obeyed.high:.1f}]" for at in _at(of)]
        drawn = ", ".join(f"{at.drawn.value:.1f}" for at in _at(of))
        ks = [f"{say(one.k)} ({say(one.k_null)})" for one in (of, listed[net], same[net])]
        ks.insert(2, str(COLOR_PAPER.get(bare(net), "–")))
        lines.append(f"| {' | '.join([label(net), *ks, *obeyed, drawn])} |")
    return "\n".join(lines) + "\n"


def _at(of: ColorFound):
    return [of.at[k] for k in (3, 6)]


def outside(scenes: int) -> str:
    """How many of `scenes` held-out scenes of 1 to 3 objects hold an object whose center lies outside the
    image, in words (App. E.1).
    """
    drawn = [sample_scene(HELD_OUT, i, 1 + i % 3, visibility=False) for i in range(scenes)]
    inside, every = (scene_counts(drawn, outside=of) for of in (False, True))
    cut = int((inside != every).any(1).sum())
    return (
        f"Of {scenes} scenes of 1 to 3 objects, {cut} hold an object whose center lies beyond the border. In "
        "training its color is told; judged, it is neither asked for nor counted."
    )
