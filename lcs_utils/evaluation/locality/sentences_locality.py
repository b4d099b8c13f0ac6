"""Measured numbers of notebook 07 as Markdown, so that no text states them by hand (App. F)."""

from collections.abc import Mapping, Sequence

import numpy as np
from jaxtyping import Float
from torch import Tensor

from lcs_utils.evaluation import wording
from lcs_utils.evaluation.locality.locality_rates import (
    BEYOND,
    HIGH,
    AgainstK,
    GaussianSides,
    left_alone,
    left_at,
)
from lcs_utils.evaluation.locality.net_locality import SIGMAS, LocalityRow
from lcs_utils.evaluation.sentences import either, table
from lcs_utils.nets import trained
from lcs_utils.stats import Interval, interval, rank_correlation, say_interval

HIGH_LEVEL = 10.0  # a noise level of SIGMAS at which what is heard is largest or nearly so
Curves = Mapping[str, Mapping[str, Mapping[float, Interval]]]  # {net: {field: {sigma: mean}}}


def gaussian(found: GaussianSides) -> str:
    """A table of the 90% square's sides for the Gaussian's denoiser and score, by noise."""
    lines = [
        ["denoiser", *(f"{side:.0f}" for side in found.denoiser)],
        ["score", *(f"{side:.0f}" for side in found.score)],
    ]
    head = ["side of the 90% square, px", *(f"σ = {sigma:g}" for sigma in SIGMAS)]
    return table(head, lines) + f"\nThe field's correlation length is {found.length:.1f} px.\n"


def nearby(numbers: Mapping[str, Mapping[str, Mapping[str, float]]]) -> str:
    """Fig. 2's target in numbers: the share of influence from nearby conditions, and its square's side."""
    said = []
    for net, levels in numbers.items():
        each = [
            f"{of['within_2']:.0%} at σ = {sigma} (square {of['window']:.0f} px)"
            for sigma, of in levels.items()
        ]
        said.append(f"{net}: " + ", ".join(each))
    return f"Share of the target's condition influence from within two cells: {'; '.join(said)}."


def hears(curves: Curves, titles: Mapping[str, str], chance: Mapping[str, float]) -> str:
    """A table of conditional locality at high noise, its lowest to highest value, with chance."""
    lines = []
    for net, of in curves.items():
        high = [value.value for sigma, value in of["within_2"].items() if sigma >= HIGH]
        lines.append([titles[net], f"{min(high):.2f} to {max(high):.2f}", f"{chance[net]:.2f}"])
    return table(
        ["net", f"share from within two cells, σ ≥ {HIGH:g}", "if all in view counted equally"], lines
    )


def looks(curves: Curves, titles: Mapping[str, str], beside: GaussianSides, at=(0.05, 0.2, 5.0, 40.0)) -> str:
    """A table of the 90% squares' sides by energy (by absolute values) at some noise levels."""
    head = ["90% square by energy (by absolute values), px", *(f"σ = {sigma:g}" for sigma in at)]
    lines = []
    for net, of in curves.items():
        pairs = [(of["window"][sigma].value, of["window_1"][sigma].value) for sigma in at]
        lines.append([titles[net], *(f"{energy:.0f} ({values:.0f})" for energy, values in pairs)])
    where = [SIGMAS.index(sigma) for sigma in at]
    lines.append(["a Gaussian field fitted to the images", *(f"{beside.denoiser[i]:.0f}" for i in where)])
    return table(head, lines)


def fades(
    rows: Mapping[str, Sequence[LocalityRow]], titles: Mapping[str, str], sigma_data: float, at=SIGMAS[:4]
) -> str:
    """A table of what is left of the condition influence at low noise, and of what preconditioning leaves."""
    head = [f"condition influence, share of that at σ = {SIGMAS[-1]:g}", *(f"σ = {s:g}" for s in at)]
    lines = [[titles[net], *(either(left_at(of, s)) for s in at)] for net, of in rows.items()]
    lines.append(["by preconditioning alone", *(f"{left_alone(s, sigma_data):.2f}" for s in at)])
    return table(head, lines)


def responds(
    rows: Mapping[str, Sequence[LocalityRow]], titles: Mapping[str, str], sigma: float = HIGH_LEVEL
) -> str:
    """How much all conditions together change a pixel at a high noise level, by net, as a sentence: a net may
    be not local because it hears nothing, or because it hears what is far.
    """
    of = {
        net: interval(np.array([r.response for r in each if r.sigma == sigma])) for net, each in rows.items()
    }
    said = ", ".join(f"{titles[net]} {say_interval(one)}" for net, one in of.items())
    return f"Influence of all conditions on a pixel at σ = {sigma:g} (mean over pixels): {said}.\n"


def told_alike(found: AgainstK, labels: str) -> tuple[float, int]:
    """Rank correlation of locality with cells filled over the nets that see the whole image and were trained
    with these labels, and how many they are. Raises ValueError as `rank_correlation`.
    """
    of = {net: trained(net, found.preset) for net in found.locality}
    alike = [net for net, exp in of.items() if exp.radius is None and exp.labels == labels]
    values = ([share[net].value for net in alike] for share in (found.locality, found.filled))
    return rank_correlation(*values), len(alike)


def ranks(found: AgainstK, rho: Mapping[str, float], by_noise: Mapping[float, float]) -> str:
    """Rank correlations of locality, by rule and by noise, over the nets that see the whole image."""
    exps = {net: trained(net, found.preset) for net in found.locality}
    whole = [net for net, exp in exps.items() if exp.radius is None]
    lines = [[k, f"{v:.2f}"] for k, v in rho.items()]
    rules = table(["rank correlation of conditional locality with", f"over {len(whole)} nets"], lines)
    alike = [net for net, exp in exps.items() if exp.labels == "all" and exp.objects[1] >= 3]
    by_rule = {
        rule: rank_correlation([found.locality[n].value for n in alike], [of[n] for n in alike])
        for rule, of in found.k.items()
    }
    among = ", ".join(f"{value:.2f} ({rule})" for rule, value in by_rule.items())
    noise = ", ".join(f"{value:.2f} at σ = {sigma:g}" for sigma, value in by_noise.items())
    each = ((words, *told_alike(found, labels)) for labels, words in (("all", "all"), ("single", "one")))
    told = ", ".join(f"{value:.2f} ({number} nets told {words})" for words, value, number in each)
    few = [net for net in whole if exps[net].objects[1] < BEYOND[0]]
    beyond = rank_correlation([found.locality[n].value for n in few], [found.filled[n].value for n in few])
    return (
        f"{rules}\nFor the {len(few)} nets trained on up to three objects, for which K = 4 to 6 is beyond "
        f"training, the correlation with cells filled is {beyond:.2f}. For all nets, by the noise level at "
        f"which locality is measured: {noise}. Of nets told alike, with cells filled: {told}. For the "
        f"{len(alike)} nets told all labels, of up to three to six objects, the correlation with K is "
        f"{among}.\n"
    )


def every_net(found: AgainstK, nets: Sequence[str]) -> str:
    """A table of locality, cells filled and K by each rule, one line per net."""
    head = ["net", "locality", "cells filled", *found.k]
    lines = []
    for net in nets:
        ks = (of[net] for of in found.k.values())
        lines.append([wording.net(net), either(found.locality[net]), either(found.filled[net]), *ks])
    return table(head, lines)


def centered(sides: Mapping[str, Float[Tensor, "images sigmas"]], sigmas: Sequence[float]) -> str:
    """A table of the mean sides of the 90% squares around the middle, by noise (Fig. 12)."""
    lines = [[name, *(f"{value:.1f}" for value in of.mean(0).tolist())] for name, of in sides.items()]
    return table(
        ["side of the 90% square, px; trained on one object", *(f"σ = {sigma:g}" for sigma in sigmas)], lines
    )
