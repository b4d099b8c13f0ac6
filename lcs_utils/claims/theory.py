"""Claims of section 3 and of Swing-by's linear models, computed from exact formulas as in notebooks 01 to
02b and 11.
"""

from collections.abc import Mapping, Sequence
from copy import deepcopy
from functools import cache

from jaxtyping import Float
from scipy.stats import binomtest
from torch import Tensor

from lcs_utils.claims import NO, OPEN, PARTLY, YES, Claim, holds_if, judged
from lcs_utils.theory.feature_space import Claim2
from lcs_utils.theory.results import Converse, Lemma2
from lcs_utils.theory_examples import feature_maps, nine_squares, noise, squares, swing_by, swing_by_starts
from lcs_utils.theory_examples.feature_maps import Corollary
from lcs_utils.theory_examples.noise import Slopes
from lcs_utils.theory_examples.swing_by import ONE, TWO, TWO_SQUARED, OneLayer, Trajectories
from lcs_utils.theory_examples.swing_by_starts import Count

SEED, LEVELS = 0, 20  # as in the notebooks


def _lemma_1(found: tuple[float, float]) -> tuple[str, str]:
    gap, misread = found
    said = f"largest gap below {gap:.0e} of the score; with an inactive block misread up to {misread:.2f}"
    return said, holds_if(gap <= squares.EXACT < squares.MISREAD < misread)


def _lemma_1_numbers() -> tuple[float, float]:
    cpc = squares.three_squares()
    gap = squares.largest_gap(squares.lemma_1_gaps(cpc, LEVELS, SEED))
    return gap, max(squares.breaks(cpc, LEVELS, SEED).misread)


def _converse(found: Mapping[str, Converse]) -> tuple[str, str]:
    each = "; ".join(f"{name} {of.law:.2f} and {of.local:.2f}" for name, of in found.items())
    said = f"log densities' difference in nats, given c_J and by the local score: {each}"
    return said, holds_if(squares.equivalent(found))


def _fitted(off: dict[str, list[float]]) -> tuple[str, str]:
    each = [f"{name} " + ", ".join(f"{nats:.2g}" for nats in of) for name, of in off.items()]
    said = "fitted to one and two conditions; error in nats at one, two, three: " + "; ".join(each)
    return said, holds_if(nine_squares.generalizes(off))


def _lemma_2(found: Mapping[int, Sequence[Lemma2]]) -> tuple[str, str]:
    shares = {many: noise.bound_shares(lemmas) for many, lemmas in found.items()}
    each = [f"{min(of):.0%} to {max(of):.0%} with {many}" for many, of in shares.items()]
    said = f"share of the bound, by active conditions of three: {', '.join(each)}"
    return said, holds_if(max(map(max, shares.values())) <= noise.AT_MOST)


def _lemma_3(errors: Float[Tensor, "levels 3"]) -> tuple[str, str]:
    low, high = noise.SIGMAS[0], noise.SIGMAS[-1]
    said = f"largest error {errors[0].max():.2f} at sigma = {low:g}, {errors[-1].max():.4f} at {high:g}"
    return said, holds_if(bool((errors.diff(dim=0) < 0).all()))


def _claim_1(found: Slopes) -> tuple[str, str]:
    said = f"largest gap of its two sides {found.gap:.0e} of them, of Gaussians and of mixtures"
    return said, holds_if(found.gap < noise.SAME_RATE)


def _eq_3(cosines: Mapping[str, Float[Tensor, "conditions conditions"]]) -> tuple[str, str]:
    most = {name: float(of.fill_diagonal_(0).abs().max()) for name, of in deepcopy(dict(cosines)).items()}
    nats = feature_maps.dependence_under_light()
    said = ", ".join(f"{name} {value:.2f}" for name, value in most.items())
    return (
        f"largest cosine between conditions: {said}; under the shared light blocks depend on each other by "
        f"{nats:.2f} nats all the same",
        holds_if(max(most["CPC"], most["shared light"]) < 1e-6 < 0.1 < min(most["spill"], nats)),
    )


def _corollary_1(found: Corollary) -> tuple[str, str]:
    said = ", ".join(f"{name} {gap:.0e}" for name, gap in found.gaps.items())
    return (
        f"largest gap as a share of the score: {said}; with pixel blocks {found.pixel_blocks:.2f}",
        holds_if(max(found.gaps.values()) < feature_maps.EXACT and feature_maps.OFF < found.pixel_blocks),
    )


def _one_layer(found: OneLayer) -> tuple[str, str]:
    said = f"largest gap to gradient descent {found.gap_descent:.4f}, to SGD on samples {found.gap_sgd:.2f}"
    return said, holds_if(found.gap_descent < 0.01 and found.gap_sgd < 0.1)


def _swings(found: Trajectories) -> tuple[str, str]:
    rises = found.rises
    said = ", ".join(f"{name} {rises[name]:.3f}" for name in (ONE, TWO, TWO_SQUARED))
    return (
        f"the error's largest rise on its way down: {said}",
        holds_if(rises[ONE] == 0 and min(rises[TWO], rises[TWO_SQUARED]) > 0.02),
    )


@cache
def _few_dimensions() -> dict[tuple[str, str], Count]:
    return swing_by_starts.few_dimensions(SEED)


def _sets(found: Mapping[tuple[str, str], Count]) -> tuple[str, str]:
    of = {name: [count for (which, _), count in found.items() if which == name] for name in "BCD"}
    does = {
        "B three descents": [count.descents[2] for count in of["B"]],
        "C four": [count.descents[3] for count in of["C"]],
        "D an error that stays": [count.stays for count in of["D"]],
    }
    said = ", ".join(f"{name} {one} and {two}" for name, (one, two) in does.items())
    verdict, held = judged([max(of) > 0 for of in does.values()], "sets")
    words = "of 100 starts as in the source's code, by the flow, at rates a and a^2"
    return f"{words}: {said}{held}", verdict


@cache
def _in_sgd() -> dict[float, Float[Tensor, "starts 2"]]:
    return swing_by.order_in_sgd(swing_by.ORDER_SIGMAS, SEED)


def _order(found: Mapping[float, Float[Tensor, "starts 2"]]) -> tuple[str, str]:
    """Choice: a diversity counts where a sign test over starts settles the order; where the rates are nearly
    equal the start decides. All that count must agree, on both sides of equal rates.
    """
    first = swing_by.larger_rate_first(found)
    settled = {at: 2 * k > n for at, (k, n) in first.items() if binomtest(k, n).pvalue < 0.05}
    each = ", ".join(f"{k} of {n} at {at:g}" for at, (k, n) in first.items())
    said = (
        f"64 dimensions, SGD: the concept of the larger rate first in {each} (starts, by diversity of "
        f"concept 1); a sign test settles {len(settled)} of {len(first)}, {sum(settled.values())} so; "
        "in two dimensions without coupling it is so by construction"
    )
    sides = {at > swing_by.CROSSING for at in settled}
    return said, NO if not all(settled.values()) or not sides else YES if len(sides) == 2 else PARTLY


def _claim_2(found: Claim2) -> tuple[str, str]:
    """Choice: no verdict. Of the readings three vanish between any two laws (of one mean), so cannot fail."""
    falls = {name: gaps[-1] < 0.01 * max(gaps) for name, gaps in sorted(found._asdict().items())}
    said = [", ".join(name for name, yes in falls.items() if yes is which) for which in (True, False)]
    words = f"gaps that vanish at the highest noise: {said[0]}; that do not: {said[1]}"
    return f"its formula is lost; {words}", OPEN


CLAIMS = (
    Claim(
        "Lemma 1, Fig. 3: a compositional distribution's score is a local conditional score",
        "equal",
        "01",
        lambda preset: _lemma_1_numbers(),
        _lemma_1,
    ),
    Claim(
        "Equivalence: a score that is an LCS is a CPC's, the converse of Lemma 1 (families of Gaussians)",
        "equal for a CPC alone",
        "01",
        lambda preset: squares.converses(SEED),
        _converse,
    ),
    Claim(
        "Section 4, theory: LCS and CPC being equivalent implies length generalization (families of "
        "Gaussians)",
        "yes",
        "01b",
        lambda preset: nine_squares.fitted_at_counts(SEED),
        _fitted,
    ),
    Claim(
        "Lemma 2, as reconstructed: near a CPC, the divergence from it is bounded (a family of Gaussians)",
        "at most the bound",
        "02",
        lambda preset: {
            len(J): noise.lemma_2_by_coupling(noise.COUPLINGS, J) for J in (noise.TWO, noise.THREE)
        },
        _lemma_2,
    ),
    Claim(
        "Lemma 3, Claim 1: more noise brings a distribution nearer to a CPC, errors as reconstructed (a "
        "family of Gaussians)",
        "falls",
        "02",
        lambda preset: noise.lemma_3_by_noise(noise.COUPLED, noise.SIGMAS),
        _lemma_3,
    ),
    Claim(
        "Claim 1: how fast noise brings two distributions together, the rate as reconstructed (Gaussians, "
        "mixtures)",
        "equal",
        "02",
        lambda preset: noise.claim_1_by_noise(noise.COUPLED, noise.SIGMAS, SEED),
        _claim_1,
    ),
    Claim(
        "Eq. (3): orthogonal mean differences are necessary for a CPC, not sufficient (Gaussians)",
        "yes",
        "02b",
        lambda preset: feature_maps.angles(),
        _eq_3,
    ),
    Claim(
        "Corollary 1: the LCS in feature space is the score of an F-CPC there (three maps of a plane)",
        "equal",
        "02b",
        lambda preset: feature_maps.corollary_1(SEED),
        _corollary_1,
    ),
    Claim(
        "Claim 2: at high noise, the feature transform and adding noise commute",
        "falls",
        "02b",
        lambda preset: feature_maps.claim_2(feature_maps.SIGMAS)["linear"],
        _claim_2,
    ),
    Claim(
        "Swing-by, one layer: its closed form is what training does (64 dimensions)",
        "equal",
        "11",
        lambda preset: swing_by.one_layer(SEED),
        _one_layer,
    ),
    Claim(
        "Swing-by, two layers: they answer an unseen combination better, worse, better; one layer does not",
        "yes",
        "11",
        lambda preset: swing_by.trajectories(),
        _swings,
    ),
    Claim(
        "Swing-by, two layers, the source's signals: errors of sets B and C descend several times (we ask "
        "for three and four), and in D an error stays",
        "yes",
        "11",
        lambda preset: _few_dimensions(),
        _sets,
    ),
    Claim(
        "Swing-by, order: signal and diversity together decide which concept is learned first",
        "yes",
        "11",
        lambda preset: _in_sgd(),
        _order,
    ),
)
