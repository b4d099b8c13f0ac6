"""Claims of the paper that a notebook shows in a figure: the functions that it draws from decide them.

Exact theory is computed, what is said of nets comes from stored rows; no figure is read.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float
from torch import Tensor

from lcs_utils import notebooks
from lcs_utils.evaluation import (
    against_null,
    by_eye,
    color_figures,
    color_generalization,
    color_rates,
    feature_report,
    hand_counts,
    middle,
    net_features,
    net_locality,
    sizes,
    tables_beyond_chance,
)
from lcs_utils.evaluation.against_null import Found
from lcs_utils.evaluation.by_eye import Compared
from lcs_utils.evaluation.claims import NO, OPEN, PARTLY, YES, Verdict, judged, say_interval
from lcs_utils.evaluation.color_rates import ColorFound
from lcs_utils.evaluation.feature_report import Cosines
from lcs_utils.evaluation.locality_rates import against_noise, at_high_noise, chance_locality
from lcs_utils.evaluation.net_locality import LocalityRow
from lcs_utils.evaluation.rows import STANDARD, read_rows, rows_path
from lcs_utils.evaluation.tables import COLOR_PAPER, say
from lcs_utils.nets import trained
from lcs_utils.stats import Interval, interval
from lcs_utils.text_to_image import truth
from lcs_utils.text_to_image.truth import Row
from lcs_utils.theory.feature_space import Claim2
from lcs_utils.theory.results import Lemma2
from lcs_utils.theory_examples import feature_maps, nine_squares, noise, squares

SEED, LEVELS = 0, 20  # the notebooks' own
FIGURE_1 = ("exp1", "exp2", "exp3_r2")  # at 64 px a local net of two cells
SEEN = 3  # the most objects in their training
# Choice: with so many objects too many on average a net draws as many as asked; with such a share of pictures
# that look right its quality is acceptable
FEW, RIGHT = 0.05, 0.9


class Claim(NamedTuple):
    """A claim: `numbers` measures it for a preset (None: nothing was measured), `judge` says (ours, the
    verdict) of them; the notebook draws the same numbers.
    """

    claim: str
    paper: str
    notebook: str
    numbers: Callable[[str], Any]
    judge: Callable[[Any], tuple[str, str]]


def _if(holds: bool) -> str:
    return YES if holds else NO


def _lemma_1(gap: float) -> tuple[str, str]:
    return f"largest gap, as a share of the score, below {gap:.0e}", _if(gap < 1e-6)


def _fitted(off: Mapping[str, Sequence[float]]) -> tuple[str, str]:
    each = [f"{name} " + ", ".join(f"{nats:.2g}" for nats in of) for name, of in off.items()]
    said = "fitted to one and two conditions, nats off at one, two, three: " + "; ".join(each)
    return said, _if(off["CPC"][2] < 0.01 and min(of[2] for name, of in off.items() if name != "CPC") > 0.2)


def _lemma_2(found: Sequence[Lemma2]) -> tuple[str, str]:
    shares = [lemma.divergence / lemma.bound for lemma in found if lemma.bound > 0]
    return f"{min(shares):.0%} to {max(shares):.0%} of the bound", _if(max(shares) <= 1)


def _lemma_3(errors: Float[Tensor, "levels 3"]) -> tuple[str, str]:
    low, high = noise.SIGMAS[0], noise.SIGMAS[-1]
    said = f"largest error {errors[0].max():.2f} at sigma = {low:g}, {errors[-1].max():.4f} at {high:g}"
    return said, _if(bool((errors.diff(dim=0) < 0).all()))


def _claim_2(found: Claim2) -> tuple[str, str]:
    falls = {name: gaps[-1] < 0.01 * max(gaps) for name, gaps in sorted(found._asdict().items())}
    said = [", ".join(name for name, yes in falls.items() if yes is which) for which in (True, False)]
    return f"its formula is lost; at the highest noise vanish: {said[0]}; do not: {said[1]}", judged(
        list(falls.values())
    )[0]


def _at_64(preset: str) -> dict[str, Found] | None:
    rows = [row for row in read_rows(rows_path("small")) if row.family == "spread"]
    there = {row.net for row in rows}.issuperset(FIGURE_1)
    if preset not in sizes.SIZES or not there:
        return None
    return {net: against_null.of_nets(rows, [net], "spread") for net in FIGURE_1}


def composes(net: str, beyond: bool) -> Callable[[Mapping[str, Found]], tuple[str, str]]:
    """Whether K by number and places on random cells is above what training showed and above its null."""

    def judge(found: Mapping[str, Found]) -> tuple[str, str]:
        most, k = trained(net).objects[1], found[net].k
        null = k.placed_null.high if k.placed_null else 0
        above = k.placed.low > max(most, null)
        said = f"K = {say(k.placed)} on random cells, null {say(k.placed_null)}"
        return said.replace("= ≥", "≥"), _if(above if beyond else k.placed.high <= most)

    return judge


def _as_many(found: Mapping[str, Found]) -> tuple[str, str]:
    more = {k: of.drawn.value - k for k, of in found["exp1"].at.items() if k <= SEEN}
    said = ", ".join(f"{value:+.2f}" for value in more.values())
    return f"{said} on average at K = 1 to {max(more)}", _if(max(map(abs, more.values())) <= FEW)


def _cells_at_64(preset: str) -> list[tables_beyond_chance.Cell] | None:
    if preset not in sizes.SIZES:
        return None
    return tables_beyond_chance.cells(read_rows(rows_path("small")))


def _as_in_the_tables(found: Sequence[tables_beyond_chance.Cell]) -> tuple[str, str]:
    near = [cell.near for cell in found if cell.own]
    near += [cell.near_at_papers for cell in found if cell.at_papers]
    trained_, every = tables_beyond_chance.entries(found)
    verdict = judged(near)[0] if near else OPEN
    verdict = PARTLY if verdict == YES and trained_ < every else verdict  # what is missing is not reproduced
    return tables_beyond_chance.sentence(found).rstrip("."), verdict


def _one_object(found: Sequence[tables_beyond_chance.Cell]) -> tuple[str, str]:
    said, holds = tables_beyond_chance.one_object(found)
    return said, judged(holds)[0] if holds else OPEN


def _above_chance(preset: str) -> dict[str, against_null.Found] | None:
    rows, nets = read_rows(rows_path(preset)), ("exp3", "exp2")
    if not {(row.net, row.k) for row in rows if row.family == "test"}.issuperset(
        (n, SEEN_TWICE) for n in nets
    ):
        return None
    return {net: against_null.of_nets(rows, [net], "test", 1) for net in nets}


def _fills_more(found: Mapping[str, against_null.Found]) -> tuple[str, str]:
    local, whole = (of.at[SEEN_TWICE].filled.above for of in found.values())
    return (
        f"above chance at K = {SEEN_TWICE}: Exp. 3 {say_interval(local)}, Exp. 2 {say_interval(whole)}",
        _if(local.low > whole.high),
    )


SEEN_TWICE = 6  # twice as many objects as training showed
LOOKED_AT = {"exp1, 64 px": "Exp. 1", "render, 64 px": "renders", "spoiled, 64 px": "spoiled renders"}


def _looked_at(preset: str) -> Compared | None:
    if preset not in sizes.SIZES:
        return None
    found = by_eye.compare(hand_counts.read_counts())
    there = {row.net for _, row in found.all.pairs if row.k <= SEEN}
    return found if there.issuperset(LOOKED_AT) else None


def _acceptable(found: Compared) -> tuple[str, str]:
    looks = {
        net: interval(
            np.array(
                [hand.plausible for hand, row in found.all.pairs if row.net == net and row.k <= SEEN], float
            ),
            share=True,
        )
        for net in LOOKED_AT
    }
    said = ", ".join(f"{words} {say_interval(looks[net])}" for net, words in LOOKED_AT.items())
    own, _, spoiled = looks.values()
    return (
        f"look right to a blind eye: {said}",
        YES if own.value >= RIGHT else PARTLY if own.low > spoiled.high else NO,
    )


def _located(preset: str) -> dict[str, list[LocalityRow]] | None:
    rows, both = net_locality.read(preset), ("exp1", "exp2")
    there = {row.net for row in rows}.issuperset(both)
    return net_locality.current(rows, both, preset) if there else None


def _hears(rows: Mapping[str, Sequence[LocalityRow]]) -> tuple[str, str]:
    one, two = (at_high_noise(rows[net]) for net in ("exp1", "exp2"))
    said = (
        f"from within two cells: Exp. 1 {say_interval(one)}, Exp. 2 {say_interval(two)}, chance "
        f"{chance_locality(trained('exp1').radius):.2f}"
    )
    return said, _if(one.low > two.high)


def _looks(rows: Mapping[str, Sequence[LocalityRow]]) -> tuple[str, str]:
    widest = [
        max(side.value for side in against_noise(rows[net], of).values())
        for of in ("window", "window_1")
        for net in ("exp1", "exp2")
    ]
    said = (
        "90 % squares of up to {:.0f} px (Exp. 1) and {:.0f} px (Exp. 2) of 32, local is at most half; "
        "of absolute values instead of energy, {:.0f} and {:.0f}"
    ).format(*widest)
    within = [max(pair) <= 16 for pair in (widest[:2], widest[2:])]
    return said, (YES if all(within) else PARTLY) if within[0] else NO


def _centered(sides: Mapping[str, Float[np.ndarray, "images sigmas"]]) -> tuple[str, str]:
    at_last = {name: interval(of[:, -1]) for name, of in sides.items()}
    said = ", ".join(f"{name} {say_interval(side)} px" for name, side in at_last.items())
    words = "CIFAR-10 was not run; of two small nets of one object, 90 % square at sigma = "
    return f"{words}{middle.SIGMAS[-1]:g}: {said}", OPEN


def _told_colors(preset: str) -> dict[str, ColorFound] | None:
    nets = color_figures.measured(color_generalization.read)
    return color_rates.of_nets(nets, "subsets", STANDARD.seed) if nets and preset in sizes.SIZES else None


def _largest(found: Mapping[str, Any], net: str) -> str | None:
    """The net's name in a figure at the largest size that it has."""
    return next((name for name in (f"{net}, 64 px", net) if name in found), None)


def _color_ks(found: Mapping[str, ColorFound]) -> tuple[str, str]:
    there = {net: name for net in COLOR_PAPER if (name := _largest(found, net))}
    said = ", ".join(f"{name}: {say(found[name].k)}" for name in there.values())
    missing = [net for net in COLOR_PAPER if net not in there]
    near = [abs(found[name].k.value - COLOR_PAPER[net]) <= 1 for net, name in there.items()]
    verdict = NO if not all(near) else OPEN if missing else YES
    return said + (f"; not trained: {', '.join(missing)}" if missing else ""), verdict


def _colors_beyond(found: Mapping[str, ColorFound]) -> tuple[str, str]:
    of = found[_largest(found, "color_1-3")]
    return f"K = {say(of.k)} after 1-3 objects, its null {say(of.k_null)}", _if(of.k.low > 3)


def _cosines(preset: str) -> dict[str, list[Cosines]] | None:
    rows = sizes.of_both(net_features.read) if preset in sizes.SIZES else []
    measured = {row.net for row in rows}
    pairs = {"exp1, 64 px": "untrained, 64 px", "color_1-3, 64 px": "untrained_color, 64 px"}
    found = {
        net: feature_report.cosines_by_part(rows, net, twin)
        for net, twin in pairs.items()
        if {net, twin} <= measured
    }
    return found or None


def _orthogonal(found: Mapping[str, Sequence[Cosines]]) -> tuple[str, str]:
    said = "; ".join(
        f"{net}: "
        + ", ".join(
            f"{of.part} {say_interval(of.net)} against {say_interval(of.untrained)}, {of.side}"
            for of in parts
        )
        for net, parts in found.items()
    )
    verdict, held = judged(
        [of.side == "smaller" for parts in found.values() for of in parts], "parts of nets"
    )
    return f"mean absolute cosine against an untrained net's, {said}{held}", verdict


def _words(preset: str) -> list[Row] | None:
    return truth.read() or None


def _row(rows: Sequence[Row], net: str, measure: str, case: str) -> Row:
    """A row at the middle noise level."""
    found = [r for r in rows if (r.net, r.measure, r.case, r.control, r.sigma) == (net, measure, case, "", 2)]
    if len(found) != 1:
        raise ValueError(f"no row of {net}, {measure}, {case}: `{truth.COMMAND}`")
    return found[0]


def _say(rows: Sequence[Row]) -> str:
    return ", ".join(f"{row.net} {say_interval(Interval(*row[-3:]))}" for row in rows)


def _heard(rows: Sequence[Row]) -> tuple[str, str]:
    found = [_row(rows, net, "own part", "eq. (10), word") for net in ("t1", "t2", "untrained")]
    holds = found[0].low > max(0.5, found[-1].high)
    return f"of a word's influence on two objects, its own has (chance .5): {_say(found)}", _if(holds)


def _added(rows: Sequence[Row]) -> tuple[str, str]:
    kinds = ("object and style", "two objects")
    found = [
        [_row(rows, net, "additivity", f"{kind}, mid block") for net in ("t1", "untrained")] for kind in kinds
    ]
    verdict, words = judged([own.low > max(0, bare.high) for own, bare in found], "kinds of prompt")
    said = "; ".join(f"{kind}: {_say(pair)}" for kind, pair in zip(kinds, found, strict=True))
    return f"R2 in the mid block, {said}{words}", verdict


CLAIMS = (
    Claim(
        "Fig. 1, Exp. 1 at 64 px: told all labels, a net length-generalizes",
        "yes, K = 9",
        "A7",
        _at_64,
        composes("exp1", True),
    ),
    Claim(
        "Fig. 1, Exp. 2 at 64 px: told one label, it does not",
        "yes, K = 1",
        "A7",
        _at_64,
        composes("exp2", False),
    ),
    Claim(
        "Fig. 1, Exp. 3 at 64 px: a local net (r = 2) repairs that",
        "yes, K = 9",
        "A7",
        _at_64,
        composes("exp3_r2", True),
    ),
    Claim(
        "Tables 1, 2 at 64 px: K of the nets that are trained, on random cells",
        "the tables'",
        "A1",
        _cells_at_64,
        _as_in_the_tables,
    ),
    Claim(
        "Fig. 4 at 64 px: trained on one object, a local net places several, a whole-image net does not",
        "yes",
        "A1",
        _cells_at_64,
        _one_object,
    ),
    Claim("Table 2, Exp. 1 at 64 px: objects drawn, less those asked for", "0", "A7", _at_64, _as_many),
    Claim(
        "App. E.2, Exp. 1 at 64 px: acceptable image quality, K = 1–3", "yes", "A7", _looked_at, _acceptable
    ),
    Claim(
        "Fig. 1, Exp. 3 at 32 px: it fills more of the asked cells than Exp. 2, chance taken off",
        "yes",
        "A1",
        _above_chance,
        _fills_more,
    ),
    Claim(
        "Lemma 1, Fig. 3: a compositional distribution's score is a local conditional score",
        "equal",
        "01",
        lambda preset: squares.largest_gap(squares.lemma_1_gaps(squares.three_squares(), LEVELS, SEED)),
        _lemma_1,
    ),
    Claim(
        "Section 3: a model of a CPC length-generalizes (a family of Gaussians)",
        "yes",
        "01b",
        lambda preset: nine_squares.fitted_at_counts(SEED),
        _fitted,
    ),
    Claim(
        "Lemma 2: near a CPC, the divergence from it is bounded (a family of Gaussians)",
        "at most the bound",
        "02",
        lambda preset: noise.lemma_2_by_coupling(noise.COUPLINGS),
        _lemma_2,
    ),
    Claim(
        "Lemma 3, Claim 1: more noise brings a distribution nearer to a CPC (a family of Gaussians)",
        "falls",
        "02",
        lambda preset: noise.lemma_3_by_noise(noise.COUPLED, noise.SIGMAS),
        _lemma_3,
    ),
    Claim(
        "Claim 2: at high noise transform and noise commute",
        "falls",
        "02b",
        lambda preset: feature_maps.claim_2(feature_maps.SIGMAS)["linear"],
        _claim_2,
    ),
    Claim(
        "Figs. 2, 10: at high noise Exp. 1 hears nearby conditions, Exp. 2 does not",
        "yes",
        "07",
        _located,
        _hears,
    ),
    Claim(
        "Figs. 2, 10: Exp. 1 and 2 look at nearby pixels at all noise levels", "yes", "07", _located, _looks
    ),
    Claim(
        "Fig. 12: a CIFAR-10 net, of one centered subject, looks far at high noise",
        "yes",
        "07",
        middle.sides,
        _centered,
    ),
    Claim(
        "Table 1, colors: trained on 1, 1-3 and 1-5 objects, K within one of the paper's",
        "1, 4, 7",
        "08",
        _told_colors,
        _color_ks,
    ),
    Claim(
        "Section 4, Fig. 5: told all colors, a net draws more of them than it saw together",
        "yes",
        "08",
        _told_colors,
        _colors_beyond,
    ),
    Claim(
        "Figs. 5, 11, eq. (3): where a net composes, mean differences of conditions are closer to orthogonal "
        "than in a net that learned nothing",
        "orthogonal",
        "08b",
        _cosines,
        _orthogonal,
    ),
    Claim(
        "Fig. 6, section 5: words are heard at their own objects (a small model like SDXL)",
        "yes",
        "09",
        _words,
        _heard,
    ),
    Claim(
        "Section 5, App. G: prompts are additive in feature space (a small model like SDXL)",
        "suggested",
        "10",
        _words,
        _added,
    ),
    Claim(
        "Figs. 6, 7, 13, App. G: SDXL itself", "–", "09", lambda preset: (), lambda found: ("not run", OPEN)
    ),
)


def decided(preset: str = "tiny") -> list[Verdict]:
    """The verdict on each of CLAIMS by a preset's rows; untested where there are none."""
    found, measured = [], {of: of(preset) for of in dict.fromkeys(claim.numbers for claim in CLAIMS)}
    for claim in CLAIMS:
        numbers = measured[claim.numbers]
        if numbers is None:
            found.append(Verdict(claim.claim, claim.paper, "no numbers yet", OPEN, "none"))
        else:
            command = f"python -m lcs_utils.notebooks run {notebooks.resolve(claim.notebook)}"
            found.append(Verdict(claim.claim, claim.paper, *claim.judge(numbers), command))
    return found
