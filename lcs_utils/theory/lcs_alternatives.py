"""Alternatives to Def. 1 with Lemma 1's subsets: other subsets, the sum of scores, a slow literal eq. (1)."""

from collections.abc import Iterable, Mapping
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from lcs_utils.theory.checks import check_conditions, check_count, check_points
from lcs_utils.theory.lcs import Family, Subsets, background_pixels, law, lemma_1_subsets


def inactive_block_subsets(M: Mapping[Any, tuple[int, ...]], n: int, J: Iterable) -> Subsets:
    """Another reading of Lemma 1: a pixel of M_k looks at M_k (no condition) also when k is not in J, and a
    pixel of no block at the pixels of no block.

    We do not have the lemma's cases. Exact if the background itself factorizes over the M_k and the rest;
    `results.lemma_1` with these subsets shows the difference. Raises ValueError for overlapping M_j and
    unknown J.
    """
    J = check_conditions(J)
    subsets, uncontrolled = lemma_1_subsets(M, n, J), background_pixels(M, n, list(M))
    N = list(subsets.N)
    for i in uncontrolled:
        N[i] = uncontrolled
    for k in set(M) - J:
        for i in M[k]:
            N[i] = tuple(M[k])
    return Subsets(tuple(N), subsets.L)


def window_subsets(n: int, radius: int, J: Iterable = ()) -> Subsets:
    """N_i = the pixels within `radius` >= 0 of i on a line of n, L_i = J: the windows of a local score."""
    check_count("n", n, 1)
    check_count("radius", radius)
    N = tuple(tuple(range(max(0, i - radius), min(n, i + radius + 1))) for i in range(n))
    return Subsets(N, (check_conditions(J),) * n)


def local_conditional_score_reference(
    family: Family, x: Float[Tensor, "batch n"], sigma: Float[Tensor, "batch"], subsets: Subsets
) -> Float[Tensor, "batch n"]:
    """eq. (1) literally, one pixel at a time by autograd: the oracle to test `local_conditional_score`."""
    check_points(x, len(subsets.N), sigma)
    columns = []
    for i, (N, L) in enumerate(zip(*subsets)):
        near = x[:, list(N)].detach().double().requires_grad_()
        log_p = law(family, L).marginal(N).log_prob(near, sigma)
        columns.append(torch.autograd.grad(log_p.sum(), near)[0][:, N.index(i)])
    return torch.stack(columns, -1)


def sum_of_scores(
    family: Family, x: Float[Tensor, "batch n"], sigma: Float[Tensor, "batch"], J: Iterable
) -> Float[Tensor, "batch n"]:
    """The explicit composition of scores, s = s_b + sum_{j in J} (s_j - s_b) with s_b = grad log p_t(x | {}).

    Projective composition (Bradley et al. 2025, arXiv 2502.04549), the baseline beside Def. 1. For a CPC
    it is the exact score if, in the background at that noise, no two active M_j depend on each other directly
    or through other pixels, as for independent pixels. Independent M_j are not enough, and at one noise level
    dependences may cancel. Lemma 1's score is exact for every background.
    """
    base = law(family, ())
    check_points(x, base.n, sigma)
    start = base.score(x, sigma)
    return start + sum(
        (law(family, [j]).score(x, sigma) - start for j in check_conditions(J)), torch.zeros_like(start)
    )
