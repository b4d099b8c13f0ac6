"""Summaries of the rows of `net_features`: tables with controls, and each measure for the nets that have a K
(section 4, App. E.4).
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from lcs_utils.evaluation import against_null
from lcs_utils.evaluation.colors import color_rates
from lcs_utils.evaluation.colors.color import ColorRow
from lcs_utils.evaluation.features import feature_matrices
from lcs_utils.evaluation.features.feature_labels import Curve, curves, labels  # noqa: F401 (curves: for others)
from lcs_utils.evaluation.features.feature_matrices import CosineRow, matrices
from lcs_utils.evaluation.features.net_features import FeatureRow
from lcs_utils.evaluation.net_labels import UNTRAINED, known, label
from lcs_utils.evaluation.rows import Row
from lcs_utils.evaluation.sizes import SIZES, sized
from lcs_utils.stats import Interval, say_interval

PARTS = ("encoder", "decoder", "denoiser")
SPACE = "feature space, as the paper"  # `finest`
# Choice: the paper does not say what of a layer eq. (3) takes; the first is shown, unless another is named
READINGS = {"flat": "all channels and places", "mean": "means over places", "scale": "the scale's vector"}
CONTROL_WORDS = {"permuted": "permuted", "random": "random"}


def pick(
    rows: Iterable[FeatureRow],
    net: str,
    measure: str,
    k: int,
    part: str | Sequence[str] = "denoiser",
    control: str = "",
    reading: str = "flat",
    sigma: float = 2.0,
    inputs: str = "noise",
) -> FeatureRow:
    """One net's row, or the mean of its values and interval ends over the layers of a part ("encoder",
    "decoder"), or over the layers named.

    Raises ValueError, with the command, if there is none, and for rows of several orders or numbers of draws.
    """
    wanted = (k, control, reading, sigma, inputs)

    def key(r):
        return (r.k, r.control, r.reading, r.sigma, r.inputs)

    # cheap tests first: most of some 40,000 rows are of other nets or measures
    mine = [row for row in rows if row.net == net and row.measure == measure and key(row) == wanted]
    mine = [row for row in mine if row.layer.split(".")[0] == part or row.layer in part]
    part = part if isinstance(part, str) else "these layers"
    what = f"{measure} of {net}, {part}, K = {k}, sigma = {sigma:g}, {inputs}"
    if not mine:
        raise ValueError(
            f"no rows for {what}: python -m lcs_utils.evaluation.features.net_features {net} --preset ..."
        )
    ways = sorted({(row.order, row.draws) for row in mine})
    if len(ways) > 1:
        said = ", ".join(f"order {order}, {draws} draws" for order, draws in ways)
        raise ValueError(f"rows for {what} were measured in several ways ({said}): pass those of one")
    value, low, high = np.array([row[-3:] for row in mine], float).mean(0).tolist()
    return mine[0]._replace(layer=part, value=value, low=low, high=high)


class Cosines(NamedTuple):
    """Mean absolute cosines of eq. (3) in one part of a net and of its untrained twin, intervals over draws,
    and in how many of the part's `layers` the net's value is smaller.
    """

    part: str
    net: Interval
    untrained: Interval
    smaller: int
    layers: int

    @property
    def side(self) -> str:
        """Whether the net's value is smaller or larger than the untrained net's, or the intervals overlap."""
        if self.net.high < self.untrained.low:
            return "smaller"
        return "larger" if self.net.low > self.untrained.high else "not told apart"


def finest(rows: Sequence[CosineRow], net: str) -> tuple[str, ...]:
    """The encoder's layers of the two finest sides: the paper's "feature-space" (App. E.4), whose net is of
    128 px: "the layers with resolution 128 and 64".
    """
    side_of = {k: side for k, side in feature_matrices.sides(rows, net).items() if k.startswith("encoder")}
    return tuple(layer for layer, side in side_of.items() if side in sorted(set(side_of.values()))[-2:])


def cosines_by_part(
    rows: Sequence[FeatureRow], net: str, untrained: str, reading: str = "flat", space: Sequence[str] = ()
) -> list[Cosines]:
    """Cosines of encoder, decoder and, read flat, denoiser, since a mean over all layers cancels differences
    in sign; last of the layers `space`, if any (`finest`). Raises ValueError as `pick`.
    """
    both, each = (net, untrained), {}
    for row in rows:
        how = (row.measure, row.control, row.reading, row.sigma, row.inputs)
        if row.net in both and how == ("cosine_abs", "", reading, 2.0, "noise"):
            each[row.net, row.layer] = row.value
    found = []
    parts: dict[str, str | Sequence[str]] = {part: part for part in PARTS[: 3 if reading == "flat" else 2]}
    for name, part in (parts | ({SPACE: space} if space else {})).items():
        of, twin = (Interval(*pick(rows, of, "cosine_abs", 1, part, reading=reading)[-3:]) for of in both)
        mine = [layer for whose, layer in each if whose == net]
        layers = [layer for layer in mine if layer.split(".")[0] == part or layer in part]
        smaller = sum(each[net, layer] < each[untrained, layer] for layer in layers)
        found.append(Cosines(name, of, twin, smaller, len(layers)))
    return found


def cosine_table(
    rows: Sequence[FeatureRow], pairs: Mapping[str, str], spaces: Mapping[str, Sequence[str]]
) -> str:
    """`cosines_by_part` of {net: its untrained twin} as a Markdown table, intervals over draws; with the
    layers {net: `finest`} as one more part.
    """
    lines = [
        "| net, part | mean absolute cosine | of an untrained net | it is | smaller in |",
        "|---|---|---|---|---|",
    ]
    for net, untrained in pairs.items():
        lines += [
            f"| {label(net)}, {of.part} | {say_interval(of.net)} | {say_interval(of.untrained)} | {of.side} "
            f"| {of.smaller} of {of.layers} layer{'s' * (of.layers > 1)} |"
            for of in cosines_by_part(rows, net, untrained, space=spaces.get(net, ()))
        ]
    return "\n".join(lines) + "\n"


def readings_table(rows: Sequence[FeatureRow], pairs: Mapping[str, str]) -> str:
    """`cosines_by_part` of {net: its untrained twin} in each of READINGS, as a Markdown table."""
    lines = ["| net, part | " + " | ".join(READINGS.values()) + " |", "|---" * (1 + len(READINGS)) + "|"]
    for net, untrained in pairs.items():
        found = [cosines_by_part(rows, net, untrained, reading) for reading in READINGS]
        for same in zip(*found):  # the parts that every reading has
            said = (f"{of.net.value:.2f} against {of.untrained.value:.2f}, {of.side}" for of in same)
            lines.append(f"| {label(net)}, {same[0].part} | {' | '.join(said)} |")
    return "\n".join(lines) + "\n"


class Matrices(NamedTuple):
    """A row of the cosine figure: its caption, the layers whose matrices are averaged, and the control."""

    caption: str
    layers: tuple[str, ...]
    control: str = ""


def by_layer(rows: Sequence[CosineRow], net: str) -> list[Matrices]:
    """Each layer by itself, named with its places per side, the denoiser, and two controls averaged over all
    layers (Figs. 5, 11).

    Choice: matrices are averaged, not vectors; which the paper averages is lost.
    """
    sides = feature_matrices.sides(rows, net)
    named = {layer: layer.removesuffix(".scale").replace(".", " ") for layer in sides}
    every = tuple(layer for layer in sides if layer != "denoiser")
    single = [
        Matrices(f"{named[layer]}\n{side} px" if side else "denoiser\n", (layer,))
        for layer, side in sides.items()
    ]
    return single + [Matrices(f"{words}\nall layers", every, of) for of, words in CONTROL_WORDS.items()]


def off_diagonal(cosines: Float[Tensor, "n n"]) -> tuple[float, float]:
    """Mean cosine of different conditions, signed and absolute."""
    off = cosines[~torch.eye(len(cosines), dtype=torch.bool)]
    return float(off.mean()), float(off.abs().mean())


def averaged(rows: Sequence[CosineRow], net: str, column: Matrices) -> Float[Tensor, "n n"]:
    """The mean of one net's matrices over `column.layers`."""
    found = matrices(rows, net, column.control)
    return torch.stack([found[layer] for layer in column.layers]).mean(0)


def numbers(rows: Sequence[FeatureRow], of: Sequence[Curve], measure: str, ks: Sequence[int]) -> dict:
    """{net: {part: {K: [value, low, high]}}} of a measure, for JSON."""
    return {
        curve.net: {
            part: {k: list(pick(rows, curve.net, measure, k, part)[-3:]) for k in ks} for part in PARTS
        }
        for curve in of
    }


def cosine_numbers(rows: Sequence[CosineRow], nets: Iterable[str]) -> dict:
    """{net: {control: {layer: mean off-diagonal cosine, signed and absolute}}}, for JSON."""
    return {
        net: {
            control or "net": {
                layer: [round(value, 4) for value in off_diagonal(of)]
                for layer, of in matrices(rows, net, control).items()
            }
            for control in ("", *CONTROL_WORDS)
        }
        for net in nets
    }


SIX = 6  # conditions, twice what most nets were shown
OUTCOMES = ("K", "share of six obeyed")  # what measures are held against


def outcomes(
    places: Callable[[str], Sequence[Row]],
    colors: Callable[[str], Sequence[ColorRow]],
    nets: Iterable[str],
) -> dict[str, dict[str, float]]:
    """{outcome: {net: value}} of those of `nets`, named with their sizes, that were counted at random cells
    or random subsets of colors: K by number and places or colors, and the share of six conditions obeyed
    where that is measurable. `places` and `colors` return the rows of a preset.
    """
    wanted, k, obeyed = set(nets), {}, {}
    for preset in SIZES:
        told, rows = colors(preset), places(preset)
        spread = {row.net for row in rows if row.family == "spread" and row.k == 1}
        for net in known(wanted):
            name = sized(net, preset)
            if name not in wanted:
                continue
            if net in spread:
                found = against_null.of_nets(rows, [net])
                largest = found.k.placed
            elif any(row.net == net for row in told):
                found = color_rates.of_net(told, net)
                largest = found.k
            else:
                continue
            k[name] = largest.value
            if SIX in found.at and found.at[SIX].obeyed is not None:
                obeyed[name] = round(found.at[SIX].obeyed.value / SIX, 4)
    return dict(zip(OUTCOMES, (k, obeyed)))


MEASURED = {
    "one minus mean absolute cosine": lambda rows, net: (
        1 - float(np.mean([pick(rows, net, "cosine_abs", 1, part).value for part in PARTS[:2]]))
    ),
    "additivity of D, K = 3": lambda rows, net: pick(rows, net, "additivity", 3).value,
    "own share in D, K = 4": lambda rows, net: pick(rows, net, "own_share", 4).value,
}
# not one of the predictions: compares additivity and own share, which are of D, with the cosine of D
COSINE_OF_D = {
    "one minus mean absolute cosine of D": lambda rows, net: 1 - pick(rows, net, "cosine_abs", 1).value
}


def measures_of(
    rows: Sequence[FeatureRow],
    k: Mapping[str, int],
    measured: Mapping[str, Callable[[Sequence[FeatureRow], str], float]] = MEASURED,
) -> dict[str, dict[str, float]]:
    """{measure: {net: value}} of the nets that have a K, and of untrained ones."""
    nets = [net for size in SIZES.values() for net in labels(rows, size)]
    nets = [net for net in nets if net in k or net.startswith(UNTRAINED)]
    return {words: {net: round(of(rows, net), 4) for net in nets} for words, of in measured.items()}


def by_noise(rows: Sequence[FeatureRow], of: Sequence[Curve]) -> str:
    """Additivity of D at K = 3 and own share at K = 4 of every net at each noise level, on noise and on
    noised renders, as a Markdown table.
    """
    settings = sorted({(row.inputs, row.sigma) for row in rows if row.inputs != "samples"})
    head = " | ".join(f"{inputs}, $\\sigma$ = {sigma:g}" for inputs, sigma in settings)
    lines = [f"| additivity / own share | {head} |", "|---" * (len(settings) + 1) + "|"]
    for curve in of:
        cells = []
        for inputs, sigma in settings:
            how = {"sigma": sigma, "inputs": inputs}
            try:
                added = pick(rows, curve.net, "additivity", 3, **how).value
                cells.append(f"{added:.2f} / {pick(rows, curve.net, 'own_share', 4, **how).value:.2f}")
            except ValueError:  # not measured at this setting
                cells.append("–")
        lines.append(f"| {curve.label} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def markdown(rows: Sequence[FeatureRow], of: Sequence[Curve]) -> str:
    """F2 to F4 and F6 of nets as a Markdown table (F1: `cosine_table`), with controls in brackets: labels
    permuted, random vectors; for the overlap the same vectors rotated; for the probe labels shuffled.
    """

    def said(net: str, measure: str, k: int, part: str, controls: Sequence[str], **more) -> str:
        values = [pick(rows, net, measure, k, part, control, **more).value for control in ("", *controls)]
        inside = ", ".join(f"{value:.2f}" for value in values[1:])
        return f"{values[0]:.2f} ({inside})" if inside else f"{values[0]:.2f}"

    lines = [
        "| net | overlap, decoder (rotated) | probe at K = 6, decoder (shuffled) "
        "| additivity of D, K = 3 (permuted, random) | own share in D, K = 4 (permuted, random) |",
        "|---|---|---|---|---|",
    ]
    for curve in of:
        net, both = curve.net, ("permuted", "random")
        cells = [
            said(net, "overlap", 1, "decoder", ("rotated",)),
            said(net, "probe", 6, "decoder", ("permuted",), reading="mean"),
            said(net, "additivity", 3, "denoiser", both),
            said(net, "own_share", 4, "denoiser", both),
        ]
        lines.append(f"| {curve.label} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"
