"""Definition 3, eqs. (4)-(6): how far a family is from a conditional projective composition."""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import torch

from lcs_utils.theory.checks import check_conditions, check_count, check_number, check_sets, check_sigma
from lcs_utils.theory.cpc import ConditionalProjectiveComposition
from lcs_utils.theory.distributions import GaussianMixture, Product, gaussian
from lcs_utils.theory.divergence import kl
from lcs_utils.theory.lcs import Conditions, Family, background_pixels, check_disjoint, law


class CpcErrors(NamedTuple):
    """e1, e2, e3 of Def. 3 in nats: block dependence, cross-talk of conditions, background leak."""

    e1: float
    e2: float
    e3: float


def ideal(family: Family, M: Mapping[Any, tuple[int, ...]], J: Iterable) -> Product:
    """p*(.|c_J), the ideal CPC built from p(.|{}) and p(.|c_j): the target of Lemma 2 and the law of its LCS.

    Raises ValueError for conditions in J that M lacks, and for overlapping M_j.
    """
    background = law(family, ())
    M = check_disjoint(M, background.n)
    J = check_conditions(J, M)
    concepts = {j: law(family, [j]).marginal(M[j]) for j in M if j in J}
    return ConditionalProjectiveComposition({j: M[j] for j in concepts}, background, concepts)(J)


def blockwise(family: Family, M: Mapping[Any, tuple[int, ...]], J: Iterable) -> Product:
    """p(x_{M_J^c}|c_J) prod_j p(x_{M_j}|c_J): p(.|c_J) with independent blocks, in the order of `ideal`.

    Raises ValueError for conditions in J that M lacks, and for overlapping M_j.
    """
    J = check_conditions(J)
    p = law(family, J)
    rest = background_pixels(M, p.n, J)
    order = [j for j in M if j in J]
    blocks = tuple(tuple(M[j]) for j in order) + ((rest,) if rest else ())
    return Product(blocks, tuple(p.marginal(b) for b in blocks))


def cpc_errors_at(
    family: Family, M: Mapping[Any, tuple[int, ...]], J: Iterable, sigma: float = 0.0, **sampling: Any
) -> tuple[float, tuple[float, ...], float]:
    """The divergences inside the suprema of eqs. (4)-(6) at one J and noise sigma >= 0: e1, (e2 per j), e3.

    `sampling` is passed to `kl`, for mixtures. Raises ValueError for conditions in J that M lacks.
    """
    sigma = check_sigma(sigma)
    J = check_conditions(J)
    p, apart, target = law(family, J), blockwise(family, M, J), ideal(family, M, J)
    if sigma:
        p, apart, target = p.noised(sigma), apart.noised(sigma), target.noised(sigma)
    parts = [kl(a, b, **sampling).value for a, b in zip(apart.factors, target.factors)]
    count = len(set(J) & set(M))
    return kl(p, apart, **sampling).value, tuple(parts[:count]), sum(parts[count:])


def approximate_cpc_errors(
    family: Family,
    M: Mapping[Any, tuple[int, ...]],
    Js: Iterable[Iterable],
    sigma: float = 0.0,
    **sampling: Any,
) -> CpcErrors:
    """Def. 3, eqs. (4)-(6): the suprema over the condition sets `Js` of how far `family` is from a CPC.

    (4) KL(p(x|c_J) || p(x_{M_J^c}|c_J) prod_j p(x_{M_j}|c_J)) <= e1, (5) KL(p(x_{M_j}|c_J) ||
    p(x_{M_j}|c_j)) <= e2, (6) KL(p(x_{M_J^c}|c_J) || p(x_{M_J^c}|{})) <= e3. Exact for Gaussians; mixtures
    need generator= and take samples=. Raises ValueError for empty `Js` and for conditions that M lacks.
    """
    at = [cpc_errors_at(family, M, J, sigma, **sampling) for J in check_sets(Js)]
    e1, e2, e3 = zip(*at)
    return CpcErrors(max(e1), max((e for each in e2 for e in each), default=0.0), max(e3))


DIALS = {"CPC": (0.0, 0.0), "shared light": (0.5, 0.0), "spill": (0.0, 0.3)}  # light, spill of a family


def coupled_family(
    light: float, spill: float, blocks: int = 3, width: int = 2, background: int = 2
) -> tuple[Family, dict[int, tuple[int, ...]]]:
    """A Gaussian family and its M: a CPC at light = spill = 0 that drifts away in the ways of Def. 3.

    Condition j moves the mean of M_j by 1.5 and halves its variance. `light` >= 0 is a covariance shared by
    all pixels (it breaks eq. (4), but mean differences stay orthogonal), `spill` moves every other pixel
    (it breaks eqs. (5), (6)). Raises ValueError for a negative light, and for no block or empty blocks.
    """
    check_number("light (a variance)", light, 0, 1e6)
    check_number("spill", spill, -1e6, 1e6)
    for name, value, least in (("blocks", blocks, 1), ("width", width, 1), ("background", background, 0)):
        check_count(name, value, least)
    n = blocks * width + background
    M = {j: tuple(range(j * width, (j + 1) * width)) for j in range(blocks)}

    def family(J: Conditions) -> GaussianMixture:
        mean, variance = torch.zeros(n, dtype=torch.float64), torch.ones(n, dtype=torch.float64)
        for j in check_conditions(J, M):
            own = torch.tensor(M[j])
            mean += spill
            mean[own] += 1.5 - spill
            variance[own] = 0.5
        return gaussian(mean, variance.diag() + light)

    return family, M
