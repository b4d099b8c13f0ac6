"""Conditional projective composition: Definition 2, eq. (2). Definition 3 is in `approximate_cpc`,
Definition 4 in `feature_cpc`, and a fit from few conditions in `fitted_cpc`.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from jaxtyping import Float
from torch import Tensor

from lcs_utils.theory.checks import check_conditions, shown
from lcs_utils.theory.distributions import Distribution, Product, check_distribution
from lcs_utils.theory.lcs import Conditions, Subsets, background_pixels, check_disjoint, lemma_1_subsets


@dataclass(frozen=True, eq=False)
class ConditionalProjectiveComposition:
    """Def. 2, eq. (2): p(x|c_J) = p(x_{M_J^c} | {}) prod_{j in J} p(x_{M_j} | c_j) for every J.

    `M[j]` are the pixels of condition j, `background` is p(x | {}) on R^n and `concepts[j]` is p(x_{M_j} |
    c_j). Calling it with J gives p(x|c_J); `denoise` takes J as cond. Raises ValueError naming overlapping
    subsets, concepts of the wrong dimension, and unknown conditions; TypeError for a J that is text: ["ab"],
    not "ab".
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
