"""Claims of the paper that the numbers beside a notebook's figure decide, and what a verdict is.

A claim without numbers is untested.
"""

import json
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from lcs_utils import paths
from lcs_utils.evaluation.rules import LargestK
from lcs_utils.evaluation.tables import COLOR_PAPER, say
from lcs_utils.stats import Interval, interval

YES, PARTLY, NO, OPEN = "reproduced", "partly", "not reproduced", "untested"


class Verdict(NamedTuple):
    """One claim, what the paper reports, what we measured, and the command whose rows decide it."""

    claim: str
    paper: str
    ours: str
    verdict: str
    command: str


def say_interval(value: Interval) -> str:
    """`0.87 [0.85, 0.88]`."""
    return f"{value.value:.2f} [{value.low:.2f}, {value.high:.2f}]"


def judged(holds: Sequence[bool], what: str = "trainings") -> tuple[str, str]:
    """The verdict where a claim holds in some of several trainings, and those words."""
    verdict = YES if all(holds) else PARTLY if any(holds) else NO
    return verdict, f"; holds in {sum(holds)} of {len(holds)} {what}" if len(holds) > 1 else ""


class Claim(NamedTuple):
    """A claim that numbers of a notebook's figure decide: `judge` takes the figure's values and says (ours,
    the verdict).
    """

    claim: str
    paper: str
    figure: str
    judge: Callable[[dict], tuple[str, str]]


def _if(holds: bool) -> str:
    return YES if holds else NO


def _lemma_1(v):
    gap = v["largest_relative_gap_below"]
    return f"largest gap, as a share of the score, below {gap:.0e}", _if(gap < 1e-6)


def _fitted(v):
    off = v["off_at_one_two_three"]
    each = [f"{name} " + ", ".join(f"{nats:.2g}" for nats in of) for name, of in off.items()]
    said = "fitted to one and two conditions, nats off at one, two, three: " + "; ".join(each)
    return said, _if(off["CPC"][2] < 0.01 and min(of[2] for name, of in off.items() if name != "CPC") > 0.2)


def _lemma_2(v):
    shares = [d / b for d, b in zip(v["divergence"], v["bound"]) if b > 0]
    return f"{min(shares):.0%} to {max(shares):.0%} of the bound", _if(max(shares) <= 1)


def _claim_1(v):
    first, last = max(v["errors"][0]), max(v["errors"][-1])
    falls = all(b < a for low, high in zip(v["errors"], v["errors"][1:]) for a, b in zip(low, high))
    return f"largest error {first:.2f} at sigma = {v['sigma'][0]:g}, {last:.4f} at {v['sigma'][-1]:g}", _if(
        falls
    )


def _claim_2(v):
    falls = {name: gaps[-1] < 0.01 * max(gaps) for name, gaps in v["claim_2"].items()}
    said = [", ".join(name for name, yes in falls.items() if yes is which) for which in (True, False)]
    return f"its formula is lost; at the highest noise vanish: {said[0]}; do not: {said[1]}", judged(
        list(falls.values())
    )[0]


def _hears(v):
    one, two = (Interval(*v["locality"][net]) for net in ("exp1", "exp2"))
    said = (
        f"from within two cells: Exp. 1 {say_interval(one)}, Exp. 2 {say_interval(two)}, chance "
        f"{v['chance']['exp1']:.2f}"
    )
    return said, _if(one.low > two.high)


def _looks(v):
    widest = [
        max(value for value, *_ in v["nets"][net][of])
        for of in ("window", "window_1")
        for net in ("exp1", "exp2")
    ]
    said = (
        "90 % squares of up to {:.0f} px (Exp. 1) and {:.0f} px (Exp. 2) of 32, local is at most half; "
    ).format(*widest[:2])
    return said + "of absolute values instead of energy, {:.0f} and {:.0f}".format(*widest[2:]), _if(
        max(widest[:2]) <= 16
    )


def _centered(v):
    sides = {name: interval(np.array(of)[:, -1]) for name, of in v["sides"].items()}
    said = ", ".join(f"{name} {say_interval(side)} px" for name, side in sides.items())
    return (
        "CIFAR-10 was not run; of two small nets of one object, 90 % square at sigma = "
        f"{v['sigmas'][-1]:g}: {said}",
        OPEN,
    )


def _largest(v: dict, net: str) -> str | None:
    """The net's name in a figure at the largest size that it has."""
    return next((name for name in (f"{net}, 64 px", net) if name in v), None)


def _color_ks(v):
    there = {net: name for net in COLOR_PAPER if (name := _largest(v, net))}
    said = ", ".join(f"{name}: {say(LargestK(**v[name]['k']))}" for name in there.values())
    missing = [net for net in COLOR_PAPER if net not in there]
    near = [abs(v[name]["k"]["value"] - COLOR_PAPER[net]) <= 1 for net, name in there.items()]
    verdict = NO if not all(near) else OPEN if missing else YES
    return said + (f"; not trained: {', '.join(missing)}" if missing else ""), verdict


def _colors_beyond(v):
    own, null = (LargestK(**v[_largest(v, "color_1-3")][name]) for name in ("k", "k_null"))
    return f"K = {say(own)} after 1-3 objects, its null {say(null)}", _if(own.low > 3)


def _orthogonal(v):
    nets = {
        f"{net}{size}": f"{twin}{size}"
        for net, twin in {"exp1": "untrained", "color_1-3": "untrained_color"}.items()
        for size in ("", ", 64 px")
    }
    means = {
        net: float(np.mean([of[1] for layer, of in v[net]["net"].items() if layer != "denoiser"]))
        for pair in nets.items()
        for net in pair
        if net in v
    }
    said = ", ".join(f"{net} {mean:.2f}" for net, mean in means.items())
    beats = [means[net] < means[bare] for net, bare in nets.items() if net in means]
    return f"mean absolute cosine over layers: {said}", judged(beats, "kinds of condition")[0]


FROM_FIGURES = (
    Claim(
        "Lemma 1, Fig. 3: a compositional distribution's score is a local conditional score",
        "equal",
        "theory_lemma_1",
        _lemma_1,
    ),
    Claim(
        "Section 3: a model of a CPC length-generalizes (a family of Gaussians)",
        "yes",
        "theory_length_generalization",
        _fitted,
    ),
    Claim(
        "Lemma 2: near a CPC, the divergence from it is bounded (a family of Gaussians)",
        "at most the bound",
        "theory_lemma_2",
        _lemma_2,
    ),
    Claim(
        "Lemma 3, Claim 1: more noise brings a distribution nearer to a CPC (a family of Gaussians)",
        "falls",
        "theory_lemma_3",
        _claim_1,
    ),
    Claim("Claim 2: at high noise transform and noise commute", "falls", "theory_claim_2", _claim_2),
    Claim(
        "Figs. 2, 10: at high noise Exp. 1 hears nearby conditions, Exp. 2 does not",
        "yes",
        "locality_against_k",
        _hears,
    ),
    Claim(
        "Figs. 2, 10: Exp. 1 and 2 look at nearby pixels at all noise levels",
        "yes",
        "locality_against_noise",
        _looks,
    ),
    Claim(
        "Fig. 12: a CIFAR-10 net, of one centered subject, looks far at high noise", "yes", "fig12", _centered
    ),
    Claim(
        "Table 1, colors: trained on 1, 1-3 and 1-5 objects, K within one of the paper's",
        "1, 4, 7",
        "color_success",
        _color_ks,
    ),
    Claim(
        "Section 4, Fig. 5: told all colors, a net draws more of them than it saw together",
        "yes",
        "color_success",
        _colors_beyond,
    ),
    Claim(
        "Figs. 5, 11, eq. (3): where a net composes, mean differences of conditions are closer to orthogonal "
        "than in a net that learned nothing",
        "orthogonal",
        "fig11",
        _orthogonal,
    ),
    Claim("Figs. 6, 7, 13, App. G: SDXL", "–", "fig06", lambda v: ("", OPEN)),
)


def from_figures(preset: str = "tiny") -> list[Verdict]:
    """Claims that a notebook measures, decided by the numbers beside its figure; untested where there are
    none.
    """
    found = []
    for claim, paper, figure, judge in FROM_FIGURES:
        path = paths.FIGURES / preset / f"{figure}.json"
        if path.exists():
            value = json.loads(path.read_text())
            said, verdict = judge(value["values"])
            command = value["provenance"]["command"].removesuffix(f" -p preset {preset}")
            found.append(Verdict(claim, paper, said, verdict, command))
        else:
            found.append(Verdict(claim, paper, "no numbers yet", OPEN, "none"))
    return found
