"""Claims of section 3, computed from exact distributions as in notebooks 01 to 02b."""

from collections.abc import Mapping, Sequence

from jaxtyping import Float
from torch import Tensor

from lcs_utils.evaluation.claims import Claim, holds_if, judged
from lcs_utils.theory.feature_space import Claim2
from lcs_utils.theory.results import Lemma2
from lcs_utils.theory_examples import feature_maps, nine_squares, noise, squares

SEED, LEVELS = 0, 20  # as in the notebooks


def _lemma_1(gap: float) -> tuple[str, str]:
    return f"largest gap below {gap:.0e} of the score", holds_if(gap < 1e-6)


def _fitted(off: Mapping[str, Sequence[float]]) -> tuple[str, str]:
    each = [f"{name} " + ", ".join(f"{nats:.2g}" for nats in of) for name, of in off.items()]
    said = "fitted to one and two conditions; error in nats at one, two, three: " + "; ".join(each)
    return said, holds_if(
        off["CPC"][2] < 0.01 and min(of[2] for name, of in off.items() if name != "CPC") > 0.2
    )


def _lemma_2(found: Sequence[Lemma2]) -> tuple[str, str]:
    shares = [lemma.divergence / lemma.bound for lemma in found if lemma.bound > 0]
    return f"{min(shares):.0%} to {max(shares):.0%} of the bound", holds_if(max(shares) <= 1)


def _lemma_3(errors: Float[Tensor, "levels 3"]) -> tuple[str, str]:
    low, high = noise.SIGMAS[0], noise.SIGMAS[-1]
    said = f"largest error {errors[0].max():.2f} at sigma = {low:g}, {errors[-1].max():.4f} at {high:g}"
    return said, holds_if(bool((errors.diff(dim=0) < 0).all()))


def _claim_2(found: Claim2) -> tuple[str, str]:
    falls = {name: gaps[-1] < 0.01 * max(gaps) for name, gaps in sorted(found._asdict().items())}
    said = [", ".join(name for name, yes in falls.items() if yes is which) for which in (True, False)]
    words = f"gaps that vanish at the highest noise: {said[0]}; that do not: {said[1]}"
    return f"its formula is lost; {words}", judged(list(falls.values()))[0]


CLAIMS = (
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
        "Claim 2: at high noise, the feature transform and adding noise commute",
        "falls",
        "02b",
        lambda preset: feature_maps.claim_2(feature_maps.SIGMAS)["linear"],
        _claim_2,
    ),
)
