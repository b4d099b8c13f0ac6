"""Conditional projective composition: Definitions 2-4, and how one is learned from few conditions."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, Protocol

import torch
from jaxtyping import Float
from torch import Tensor

from lcs_utils.theory.checks import (
    as_real,
    check_conditions,
    check_count,
    check_list,
    check_number,
    check_sets,
    check_sigma,
    check_tensor,
    shown,
)
from lcs_utils.theory.distributions import (
    Distribution,
    GaussianMixture,
    Product,
    check_distribution,
    gaussian,
    kl,
)
from lcs_utils.theory.lcs import (
    Conditions,
    Family,
    Subsets,
    background_pixels,
    check_disjoint,
    law,
    lemma_1_subsets,
)


@dataclass(frozen=True, eq=False)
class ConditionalProjectiveComposition:
    """Def. 2, eq. (2): p(x|c_J) = p(x_{M_J^c} | {}) prod_{j in J} p(x_{M_j} | c_j) for every J.

    `M[j]` are the pixels of condition j, `background` is p(x | {}) on R^n and `concepts[j]` is p(x_{M_j} |
    c_j). Calling it with J gives p(x|c_J); `denoise` has cond = J. Raises ValueError naming overlapping
    subsets, concepts of the wrong dimension, and conditions outside the known ones; TypeError for a J that
    is text: ["ab"], not "ab".
    """

    M: Mapping[Any, tuple[int, ...]]
    background: Distribution
    concepts: Mapping[Any, Distribution]

    def __post_init__(self):
        check_distribution("background", self.background)
        object.__setattr__(self, "M", check_disjoint(self.M, self.n))
        if not isinstance(self.concepts, Mapping):
            raise TypeError(f"concepts must map conditions to distributions, got {shown(self.concepts)}")
        if set(self.M) != set(self.concepts):
            raise ValueError(
                f"M has conditions {sorted(self.M, key=repr)}, concepts {sorted(self.concepts, key=repr)}"
            )
        for j, concept in self.concepts.items():
            check_distribution(f"concepts[{j!r}]", concept)
            if concept.n != len(self.M[j]):
                raise ValueError(
                    f"M[{j!r}] holds {len(self.M[j])} pixels but concepts[{j!r}] lives in R^{concept.n}"
                )

    @property
    def n(self) -> int:
        """Dimension of the pixel space."""
        return self.background.n

    @cached_property
    def _cache(self) -> dict[Conditions, Product]:
        return {}

    def __call__(self, J: Iterable = ()) -> Product:
        """p(x | c_J)."""
        J = check_conditions(J, self.M)
        if J not in self._cache:
            order = [j for j in self.M if j in J]
            rest = background_pixels(self.M, self.n, J)
            blocks = [tuple(self.M[j]) for j in order] + ([rest] if rest else [])
            factors = [self.concepts[j] for j in order] + ([self.background.marginal(rest)] if rest else [])
            self._cache[J] = Product(tuple(blocks), tuple(factors))
        return self._cache[J]

    def denoise(self, x_t: Tensor, sigma: Float[Tensor, "batch"], cond: Iterable = ()) -> Tensor:
        """The posterior mean given c_J, J = `cond`."""
        return self(() if cond is None else cond).denoise(x_t, sigma)

    def subsets(self, J: Iterable) -> Subsets:
        """The subsets of Lemma 1 for this composition."""
        return lemma_1_subsets(self.M, self.n, J)


class CpcErrors(NamedTuple):
    """e1, e2, e3 of Def. 3 in nats: dependence between blocks, cross-talk between conditions, background
    leak.
    """

    e1: float
    e2: float
    e3: float


def ideal(family: Family, M: Mapping[Any, tuple[int, ...]], J: Iterable) -> Product:
    """p*(.|c_J), the ideal CPC built from p(.|{}) and p(.|c_j): the target of Lemma 2 and the law of its LCS.

    Raises ValueError for conditions of J that M lacks, and for overlapping M_j.
    """
    background = law(family, ())
    M = check_disjoint(M, background.n)
    J = check_conditions(J, M)
    concepts = {j: law(family, [j]).marginal(M[j]) for j in M if j in J}
    return ConditionalProjectiveComposition({j: M[j] for j in concepts}, background, concepts)(J)


def blockwise(family: Family, M: Mapping[Any, tuple[int, ...]], J: Iterable) -> Product:
    """p(x_{M_J^c}|c_J) prod_j p(x_{M_j}|c_J): the blocks of p(.|c_J) made independent, in the order of
    `ideal`.

    Raises ValueError for conditions of J that M lacks, and for overlapping M_j.
    """
    p = law(family, check_conditions(J))
    rest = background_pixels(M, p.n, J)
    order = [j for j in M if j in set(J)]
    blocks = tuple(tuple(M[j]) for j in order) + ((rest,) if rest else ())
    return Product(blocks, tuple(p.marginal(b) for b in blocks))


def cpc_errors_at(
    family: Family, M: Mapping[Any, tuple[int, ...]], J: Iterable, sigma: float = 0.0, **sampling: Any
) -> tuple[float, tuple[float, ...], float]:
    """The three divergences inside the suprema of eqs. (4)-(6) at one J and noise sigma >= 0: e1, (e2 for
    each j), e3.

    `sampling` is for `kl` between mixtures. Raises ValueError for conditions of J that M lacks.
    """
    sigma = check_sigma(sigma)
    p, apart, target = law(family, check_conditions(J)), blockwise(family, M, J), ideal(family, M, J)
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
    need samples= and generator=.
    Raises ValueError without a set of conditions, and for conditions that M lacks.
    """
    at = [cpc_errors_at(family, M, J, sigma, **sampling) for J in check_sets(Js)]
    e1, e2, e3 = zip(*at)
    return CpcErrors(max(e1), max((e for each in e2 for e in each), default=0.0), max(e3))


def coupled_family(
    light: float, spill: float, blocks: int = 3, width: int = 2, background: int = 2
) -> tuple[Family, dict[int, tuple[int, ...]]]:
    """A Gaussian family, and its M, that is a CPC at light = spill = 0 and drifts away from it in the ways
    of Def. 3.

    Condition j moves the mean of M_j by 1.5 and halves its variance. `light` >= 0 is a covariance shared by
    all pixels (eq. (4), but the mean differences stay orthogonal), `spill` moves every other pixel (eqs.
    (5), (6)). At least one block of at least one pixel; raises ValueError otherwise, and for a negative
    light.
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


def fit_cpc(
    draws: Iterable[tuple[Iterable, Float[Tensor, "batch n"]]], M: Mapping[Any, tuple[int, ...]]
) -> ConditionalProjectiveComposition:
    """Learn a CPC with Gaussian parts, each by maximum likelihood, from (J, samples of p(.|c_J)), for
    example with |J| <= 2.

    Block j is fitted on all draws with j in J, the background on the draws with J = {}. The blocks M are
    given, not learned. Raises ValueError naming conditions that no draw contains, or that have too few
    draws for a covariance.
    """
    given = [check_list("a draw (J, x)", draw, 2) for draw in check_list("draws", draws, 1)]
    n = check_tensor("draws", given[0][1], (None, None)).shape[1]
    M = check_disjoint(M, n)
    draws = [(check_conditions(J, M), check_tensor("draws", x, (None, n)).double()) for J, x in given]
    empty = [x for J, x in draws if not J]
    unseen = [j for j in M if not any(j in J for J, _ in draws)]
    if unseen or not empty:
        raise ValueError(f"no draws for {unseen or 'the empty set of conditions'}")

    def fitted(name, x):
        if len(x) <= x.shape[1]:
            raise ValueError(
                f"{name} needs more than {x.shape[1]} draws for its {x.shape[1]} pixels, got {len(x)}"
            )
        return gaussian(x.mean(0), torch.cov(x.T, correction=0).reshape(x.shape[1], x.shape[1]))

    concepts = {j: fitted(f"M[{j!r}]", torch.cat([x[:, list(M[j])] for J, x in draws if j in J])) for j in M}
    return ConditionalProjectiveComposition(M, fitted("the background", torch.cat(empty)), concepts)


class Transform(Protocol):
    """An invertible map A from pixels x to features z, with log |det dA/dx|."""

    def forward(self, x: Float[Tensor, "batch n"]) -> Float[Tensor, "batch n"]: ...
    def inverse(self, z: Float[Tensor, "batch n"]) -> Float[Tensor, "batch n"]: ...
    def log_det(self, x: Float[Tensor, "batch n"]) -> Float[Tensor, "batch"]: ...


@dataclass(frozen=True, eq=False)
class LinearMap:
    """z = matrix @ x. Raises ValueError, with the smallest singular value, unless the matrix is invertible
    (above 1e-9).
    """

    matrix: Float[Tensor, "n n"]

    def __post_init__(self):
        object.__setattr__(self, "matrix", as_real("matrix", self.matrix, 2))
        smallest = float(torch.linalg.svdvals(self.matrix).min()) if self.matrix.numel() else 0.0
        if self.matrix.shape[0] != self.matrix.shape[1] or not smallest > 1e-9:
            shape = list(self.matrix.shape)
            raise ValueError(
                f"the map must be invertible, its matrix {shape} has singular value {smallest:.3g}"
            )

    @property
    def n(self) -> int:
        """Dimension of the space."""
        return len(self.matrix)

    def forward(self, x):
        return check_tensor("x", x, (None, self.n)).double() @ self.matrix.T

    def inverse(self, z):
        return torch.linalg.solve(self.matrix, check_tensor("z", z, (None, self.n)).double().T).T

    def log_det(self, x):
        check_tensor("x", x, (None, self.n))
        return torch.linalg.slogdet(self.matrix)[1].expand(len(x))


@dataclass(frozen=True)
class CouplingMap:
    """A smooth invertible map of the plane: z_1 = x_1, z_2 = x_2 exp(scale tanh x_1) + bend x_1^2.

    `scale` in [-10, 10], `bend` in [-1000, 1000].
    """

    scale: float = 0.5
    bend: float = 0.4
    n = 2

    def __post_init__(self):
        check_number("scale", self.scale, -10, 10)
        check_number("bend", self.bend, -1000, 1000)

    def forward(self, x):
        a, b = check_tensor("x", x, (None, 2)).double().unbind(-1)
        return torch.stack([a, b * (self.scale * a.tanh()).exp() + self.bend * a**2], -1)

    def inverse(self, z):
        a, b = check_tensor("z", z, (None, 2)).double().unbind(-1)
        return torch.stack([a, (b - self.bend * a**2) * (-self.scale * a.tanh()).exp()], -1)

    def log_det(self, x):
        return self.scale * check_tensor("x", x, (None, 2)).double()[:, 0].tanh()


@dataclass(frozen=True, eq=False)
class FeatureCPC:
    """Def. 4, eq. (8), F-CPC: the pushforward A # p(.|c_J) is a CPC, so p(x|c_J) = features(A x | c_J) |det
    dA/dx|.

    Raises TypeError for features that are no composition and a transform that is no `Transform`, ValueError
    for a transform of another dimension (its `n`).
    """

    features: ConditionalProjectiveComposition
    transform: Transform

    def __post_init__(self):
        if not isinstance(self.features, ConditionalProjectiveComposition):
            raise TypeError(
                f"features must be a ConditionalProjectiveComposition, got {shown(self.features)}"
            )
        if not all(
            callable(getattr(self.transform, name, None)) for name in ("forward", "inverse", "log_det")
        ):
            raise TypeError(f"transform needs forward, inverse and log_det, got {shown(self.transform)}")
        if getattr(self.transform, "n", self.features.n) != self.features.n:
            raise ValueError(
                f"the features live in R^{self.features.n}, the transform in R^{self.transform.n}"
            )

    def log_prob(self, x: Float[Tensor, "batch n"], J: Iterable = ()) -> Float[Tensor, "batch"]:
        """log p(x | c_J) in pixel space."""
        return self.features(J).log_prob(self.transform.forward(x)) + self.transform.log_det(x)

    def sample(self, batch: int, generator: torch.Generator, J: Iterable = ()) -> Float[Tensor, "batch n"]:
        """Draws of p(x | c_J) in pixel space."""
        return self.transform.inverse(self.features(J).sample(batch, generator))

    def pixels(self, J: Iterable = ()) -> GaussianMixture:
        """p(x | c_J) as a mixture in pixel space. Raises ValueError unless the map is linear."""
        if not isinstance(self.transform, LinearMap):
            raise ValueError(f"only a LinearMap keeps mixtures closed, got {type(self.transform).__name__}")
        return self.features(J).joint().pushforward(torch.linalg.inv(self.transform.matrix))
