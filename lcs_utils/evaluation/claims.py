"""Claims of the paper that the numbers beside a notebook's figure decide, and what a verdict is.

A claim without numbers is untested.
"""

import json
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from lcs_utils import paths
from lcs_utils.evaluation.rates import Interval, interval

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
    """A claim that numbers of a notebook's figure decide: `judge` takes the figure's values and says (ours, the verdict)."""

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
    return f"largest error {first:.2f} at sigma = {v['sigma'][0]:g}, {last:.4f} at {v['sigma'][-1]:g}", _if(falls)


def _claim_2(v):
    falls = {name: gaps[-1] < 0.01 * max(gaps) for name, gaps in v["claim_2"].items()}
    said = [", ".join(name for name, yes in falls.items() if yes is which) for which in (True, False)]
    return f"its formula is lost; at the highest noise vanish: {said[0]}; do not: {said[1]}", judged(list(falls.values()))[0]


def _hears(v):
    one, two = (Interval(*v["locality"][net]) for net in ("exp1", "exp2"))
    said = f"from within two cells: Exp. 1 {say_interval(one)}, Exp. 2 {say_interval(two)}, chance {v['chance']['exp1']:.2f}"
    return said, _if(one.low > two.high)


def _looks(v):
    widest = [max(value for value, *_ in v["nets"][net][of]) for of in ("window", "window_1") for net in ("exp1", "exp2")]
    said = "90 % squares of up to {:.0f} px (Exp. 1) and {:.0f} px (Exp. 2) of 32, local is at most half; ".format(*widest[:2])
    return said + "of absolute values instead of energy, {:.0f} and {:.0f}".format(*widest[2:]), _if(max(widest[:2]) <= 16)


def _centered(v):
    sides = {name: interval(np.array(of)[:, -1]) for name, of in v["sides"].items()}
    said = ", ".join(f"{name} {say_interval(side)} px" for name, side in sides.items())
    return f"CIFAR-10 was not run; of two small nets of one object, 90 % square at sigma = {v['sigmas'][-1]:g}: {said}", OPEN


FROM_FIGURES = (
    Claim("Lemma 1, Fig. 3: a compositional distribution's score is a local conditional score", "equal", "theory_lcs_structure", _lemma_1),
    Claim("Section 3: a model of a CPC length-generalizes (a family of Gaussians)", "yes", "theory_length_generalization", _fitted),
    Claim("Lemma 2: near a CPC, the divergence from it is bounded (a family of Gaussians)", "at most the bound", "theory_noise", _lemma_2),
    Claim("Lemma 3, Claim 1: more noise brings a distribution nearer to a CPC (a family of Gaussians)", "falls", "theory_noise", _claim_1),
    Claim("Claim 2: at high noise transform and noise commute", "falls", "theory_features", _claim_2),
    Claim("Figs. 2, 10: at high noise Exp. 1 hears nearby conditions, Exp. 2 does not", "yes", "locality_against_k", _hears),
    Claim("Figs. 2, 10: Exp. 1 and 2 look at nearby pixels at all noise levels", "yes", "locality_against_noise", _looks),
    Claim("Fig. 12: a CIFAR-10 net, of one centered subject, looks far at high noise", "yes", "fig12", _centered),
    Claim("Figs. 5, 11, eq. (3): color-conditioned nets length-generalize partly, in a feature space", "–", "fig05", lambda v: ("", OPEN)),
    Claim("Figs. 6, 7, 13, App. G: SDXL", "–", "fig06", lambda v: ("", OPEN)),
)


def from_figures(preset: str = "tiny") -> list[Verdict]:
    """Claims that a notebook measures, decided by the numbers beside its figure; untested where there are none."""
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
