"""Claims that a notebook shows in a figure, decided by the functions that the figure is drawn from.

Claims about nets are decided from stored rows; no figure is read. Those of section 3 are in `claims.theory`,
those on number and places in `claims.nets_64`, on colors in `claims.colors`, on prompts in
`claims.text_to_image`.
"""

from collections.abc import Mapping, Sequence

import numpy as np
from jaxtyping import Float

from lcs_utils import notebooks
from lcs_utils.claims import (
    NO,
    OPEN,
    PARTLY,
    YES,
    Claim,
    Verdict,
    colors,
    fig08,
    judged,
    low_noise,
    muon,
    nets_64,
    text_to_image,
    theory,
)
from lcs_utils.evaluation import sizes
from lcs_utils.evaluation.locality import net_locality
from lcs_utils.evaluation.locality.locality_rates import (
    against_noise,
    at_high_noise,
    chance_locality,
    left_alone,
    left_at,
)
from lcs_utils.evaluation.locality.net_locality import LocalityRow
from lcs_utils.evaluation.studies import middle
from lcs_utils.nets import seeds_of, trained
from lcs_utils.presets import PRESETS
from lcs_utils.stats import Interval, interval, say_interval
from lcs_utils.theory_examples.swing_by_diffusion import Study, concept_falls, study

Judged = tuple[str, str]  # our result in words, and the verdict
LARGE = "small"  # the preset of 64 px

Located = Mapping[str, Sequence[LocalityRow]]  # {training: its rows}
EXPS = ("exp1", "exp2")


def located(preset: str) -> dict[str, list[LocalityRow]] | None:
    """Rows of all trainings of Exp. 1 and 2 at 64 px; where these exist, smaller nets decide nothing."""
    rows = net_locality.read(LARGE) if preset in sizes.SIZES else []
    there = {row.net for row in rows}
    trainings = [net for exp in EXPS for net in seeds_of(there, exp)]
    return net_locality.current(rows, trainings, LARGE) if set(EXPS) <= there else None


def _of(rows: Located, exp: str) -> list[Sequence[LocalityRow]]:
    return [rows[net] for net in seeds_of(rows, exp)]


def nearby(rows: Located) -> list[list[Interval]]:
    """Conditional locality at high noise of each training of Exp. 1 and of Exp. 2."""
    return [[at_high_noise(of) for of in _of(rows, exp)] for exp in EXPS]


def widest(rows: Located) -> list[list[float]]:
    """Widest 90% squares of Exp. 1 and 2 over noise levels: by energy, by absolute values."""
    return [
        [max(at.value for of in _of(rows, exp) for at in against_noise(of, field).values()) for exp in EXPS]
        for field in ("window", "window_1")
    ]


def hears(rows: Located) -> Judged:
    """Whether every training of Exp. 1 hears nearby conditions more than chance and than all of Exp. 2."""
    one, two = nearby(rows)
    chance = chance_locality(trained("exp1").radius)  # below it a net hears what is far, whatever Exp. 2 does
    each = [", ".join(map(say_interval, of)) for of in (one, two)]
    verdict, held = judged([of.low > max(chance, *(other.high for other in two)) for of in one])
    return (
        f"influence from within two cells: Exp. 1 {each[0]}, Exp. 2 {each[1]}, chance {chance:.2f}{held}",
        verdict,
    )


def looks(rows: Located) -> Judged:
    """Whether pixels look near at all noise levels: by squares and absolute values, by one, or by neither."""
    side = PRESETS[LARGE].resolution
    by_energy, by_values = widest(rows)
    said = (
        "90% squares by energy of up to {:.0f} px (Exp. 1) and {:.0f} px (Exp. 2) of {}, where at most half "
        "counts as local; by absolute values {:.0f} and {:.0f} px; a denoiser that changes nothing has 1 px"
    ).format(*by_energy, side, *by_values)
    within = [max(pair) <= side / 2 for pair in (by_energy, by_values)]
    return said, (YES if all(within) else PARTLY) if within[0] else NO


def _fades(rows: Located) -> Judged:
    lowest, highest = net_locality.SIGMAS[0], net_locality.SIGMAS[-1]
    left = {net: left_at(of, lowest) for net, of in rows.items()}
    said = ", ".join(f"{net} {of.value:.3f} [{of.low:.3f}, {of.high:.3f}]" for net, of in left.items())
    # Choice: the paper's levels are lost; low and high are the ends of ours, and "hardly" is below a tenth
    verdict, held = judged([of.high < 0.1 for of in left.values()])
    words = f"influence of all conditions on a pixel at sigma = {lowest:g}, as a share of that at {highest:g}"
    null = left_alone(lowest, PRESETS[LARGE].sigma_data)
    return f"{words} (preconditioning alone {null:.2f}; hardly: below 0.1), {said}{held}", verdict


def _centered(sides: Mapping[str, Float[np.ndarray, "images sigmas"]]) -> tuple[str, str]:
    at_last = {name: interval(of[:, -1]) for name, of in sides.items()}
    said = ", ".join(f"{name} {say_interval(side)} px" for name, side in at_last.items())
    words = "CIFAR-10 was not run; 90% square of two small nets trained on one object, at sigma = "
    return f"{words}{middle.SIGMAS[-1]:g}: {said}", OPEN


def _swings(found: Study) -> Judged:
    """Choice: "can be" holds where each concept surely falls in some run (one of two: partly). It is partly,
    too, where a label that is trained on falls in as many runs: then nets waver, whatever they are asked for.
    """
    concepts = concept_falls(found)
    unseen = {concept: of["11"] for concept, of in concepts.of.items()}
    seen = {concept: [of[label] for label in of if label != "11"] for concept, of in concepts.of.items()}
    most = {concept: max(of, key=lambda at: at.falls) for concept, of in seen.items()}
    each = [
        f"{concept} alone falls in {at.falls} of {at.runs} runs (P = {at.chance:.2g} of flat curves), surely "
        f"in {at.sure}; of a label trained on in up to {most[concept].falls}, surely in {most[concept].sure}"
        for concept, at in unseen.items()
    ]
    runs = found.right.shape[2]
    both = [f"{fall} of {runs} at {diversity:g}" for fall, diversity in zip(found.falls, found.diversities)]
    said = (
        f"{'; '.join(each)}; flat curves in at most {concepts.flat:.1f}; both together in {', '.join(both)}"
    )
    surely = [at.sure > 0 for at in unseen.values()]
    more = [at.falls > most[concept].falls for concept, at in unseen.items()]
    verdict = NO if not any(surely) else YES if all(surely) and all(more) else PARTLY
    return f"{said} (by diversity)", verdict


CLAIMS = (
    *theory.CLAIMS,
    Claim(
        "Swing-by, a small diffusion model: of an unseen combination, accuracy in a concept can be "
        "non-monotone along training (it falls in some run)",
        "yes",
        "11b",
        lambda preset: study() if preset == "tiny" else None,
        _swings,
    ),
    Claim(
        "Figs. 2, 10: at high noise Exp. 1 depends on nearby conditions, more than Exp. 2",
        "yes",
        "07 -p preset small",
        located,
        hears,
    ),
    Claim(
        "Figs. 2, 10: Exp. 1 and 2 depend on nearby pixels at all noise levels",
        "yes",
        "07 -p preset small",
        located,
        looks,
    ),
    Claim(
        "Section 4, Fig. 2: at low noise the denoised images of Exp. 1 and 2 hardly depend on any condition",
        "yes",
        "07 -p preset small",
        located,
        _fades,
    ),
    Claim(
        "Fig. 12: a CIFAR-10 net, whose images show one centered subject, uses far pixels at high noise",
        "yes",
        "07",
        middle.sides,
        _centered,
    ),
    *colors.CLAIMS,
    *text_to_image.CLAIMS,
    Claim(
        "Figs. 6, 7, 13, App. G: SDXL itself", "–", "09", lambda preset: (), lambda found: ("not run", OPEN)
    ),
)


def of_nets_and_exact(found: Sequence[Verdict]) -> tuple[list[Verdict], list[Verdict]]:
    """Verdicts about nets, and those about exact distributions (section 3), which check our formulas."""
    of_theory = {claim.claim for claim in theory.CLAIMS}
    exact = [v for v in found if v.claim in of_theory]
    return [v for v in found if v not in exact], exact


def decided(preset: str = "tiny", exact: bool = True) -> list[Verdict]:
    """The verdict on each claim of CLAIMS, `claims.nets_64` and `claims.muon`, by a preset's rows; untested
    without rows. Without `exact`, those about nets alone: the others are computed anew.
    """
    of_64 = (*nets_64.CLAIMS, *fig08.CLAIMS, *nets_64.entries(preset), *muon.CLAIMS, *low_noise.CLAIMS)
    claims = [*of_64, *(claim for claim in CLAIMS if exact or claim not in theory.CLAIMS)]
    found, measured = [], {of: of(preset) for of in dict.fromkeys(claim.numbers for claim in claims)}
    for claim in claims:
        numbers = measured[claim.numbers]
        if numbers is None:
            found.append(Verdict(claim.claim, claim.paper, "no numbers yet", OPEN, "none"))
        else:
            name, _, values = claim.notebook.partition(" ")
            command = f"python -m lcs_utils.notebooks run {notebooks.resolve(name)} {values}".rstrip()
            found.append(Verdict(claim.claim, claim.paper, *claim.judge(numbers), command))
    return found
