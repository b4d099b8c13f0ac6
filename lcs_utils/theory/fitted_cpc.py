"""A conditional projective composition learned from draws with few conditions."""

from collections.abc import Iterable, Mapping
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from lcs_utils.theory.checks import check_conditions, check_list, check_tensor
from lcs_utils.theory.cpc import ConditionalProjectiveComposition
from lcs_utils.theory.distributions import gaussian
from lcs_utils.theory.lcs import check_disjoint


def fit_cpc(
    draws: Iterable[tuple[Iterable, Float[Tensor, "batch n"]]], M: Mapping[Any, tuple[int, ...]]
) -> ConditionalProjectiveComposition:
    """Fit a CPC with Gaussian parts by maximum likelihood to (J, samples of p(.|c_J)), e.g. with |J| <= 2.

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
