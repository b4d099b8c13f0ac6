"""Local conditional scores: Definition 1, eq. (1), and the subsets that Lemma 1 uses."""

from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import Any, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from lcs_utils.diffusion import Denoiser, expand
from lcs_utils.theory.distributions import Distribution

Conditions = frozenset  # J, a set of condition names
Family = Callable[[Conditions], Distribution]  # J -> p(x | c_J), defined for every J, seen in training or not


class Subsets(NamedTuple):
    """N[i], the pixels, and L[i], the conditions, on which the local conditional score at pixel i depends."""

    N: tuple[tuple[int, ...], ...]
    L: tuple[Conditions, ...]


def check_disjoint(M: Mapping[Any, tuple[int, ...]], n: int) -> None:
    """Raise ValueError naming pixels of `M` that two conditions claim, or that are outside [0, n)."""
    owner: dict[int, Any] = {}
    for j, pixels in M.items():
        for i in pixels:
            if not 0 <= i < n:
                raise ValueError(f"M[{j!r}] holds pixel {i}, outside [0, {n})")
            if i in owner:
                raise ValueError(f"M[{owner[i]!r}] and M[{j!r}] overlap: both hold pixel {i}")
            owner[i] = j


def check_known(J: Iterable, known: Iterable) -> Conditions:
    """`J` as a frozenset. Raises ValueError naming the conditions of J that are not among `known`."""
    unknown = sorted(repr(j) for j in set(J) - set(known))
    if unknown:
        raise ValueError(f"unknown conditions {', '.join(unknown)}; known are {sorted(known, key=repr)}")
    return frozenset(J)


def background_pixels(M: Mapping[Any, tuple[int, ...]], n: int, J: Iterable) -> tuple[int, ...]:
    """M_J^c = [n] minus the union of M_j over j in J: a pixel of M_k is background when k is not in J."""
    held = {i for j in J for i in M[j]}
    return tuple(i for i in range(n) if i not in held)


def lemma_1_subsets(M: Mapping[Any, tuple[int, ...]], n: int, J: Iterable) -> Subsets:
    """The subsets of Lemma 1: (M_j, {j}) for pixels of an active M_j, (M_J^c, {}) for all others.

    Raises ValueError for overlapping M_j and unknown J.
    """
    check_disjoint(M, n)
    J = check_known(J, M)
    rest = background_pixels(M, n, J)
    N, L = [rest] * n, [frozenset()] * n
    for j in J:
        for i in M[j]:
            N[i], L[i] = tuple(M[j]), frozenset([j])
    return Subsets(tuple(N), tuple(L))


def inactive_block_subsets(M: Mapping[Any, tuple[int, ...]], n: int, J: Iterable) -> Subsets:
    """Another reading of Lemma 1, whose cases are lost to us: a pixel of M_k looks at M_k (with no condition) also when k is not in J.

    Exact only if the background itself factorizes over the M_k; `results.lemma_1` with these subsets shows the difference.
    """
    N, L = map(list, lemma_1_subsets(M, n, J))
    uncontrolled = background_pixels(M, n, M)
    for i in uncontrolled:
        N[i] = uncontrolled
    for k in set(M) - set(J):
        for i in M[k]:
            N[i] = tuple(M[k])
    return Subsets(tuple(N), tuple(L))


def _groups(subsets: Subsets) -> dict[tuple, list[int]]:
    """Pixels that share N and L, so that each distinct marginal is evaluated once."""
    groups: dict[tuple, list[int]] = {}
    for i, key in enumerate(zip(*subsets)):
        if i not in key[0]:
            raise ValueError(f"N[{i}] must hold pixel {i} itself, got {key[0]}")
        groups.setdefault(key, []).append(i)
    return groups


def local_conditional_score(
    family: Family, x: Float[Tensor, "batch n"], sigma: Float[Tensor, "batch"], subsets: Subsets
) -> Float[Tensor, "batch n"]:
    """Def. 1, eq. (1): s[i] = d/dx_i log p_t(x_{N_i} | c_{L_i}), t = sigma^2.

    `subsets` may differ between noise levels: pass those for this sigma. Raises ValueError if i is not in N[i].
    """
    out = torch.empty_like(x)
    for (N, L), pixels in _groups(subsets).items():
        score = family(L).marginal(N).score(x[:, list(N)], sigma)
        out[:, pixels] = score[:, [N.index(i) for i in pixels]]
    return out


def local_conditional_score_reference(
    family: Family, x: Float[Tensor, "batch n"], sigma: Float[Tensor, "batch"], subsets: Subsets
) -> Float[Tensor, "batch n"]:
    """The slow twin of `local_conditional_score`, eq. (1) word for word: one pixel at a time, by autograd."""
    columns = []
    for i, (N, L) in enumerate(zip(*subsets)):
        near = x[:, list(N)].detach().requires_grad_()
        log_p = family(L).marginal(N).log_prob(near, sigma)
        columns.append(torch.autograd.grad(log_p.sum(), near)[0][:, N.index(i)])
    return torch.stack(columns, -1)


def local_conditional_denoiser(family: Family, subsets_of: Callable[[Conditions], Subsets]) -> Denoiser:
    """The denoiser x_t + sigma^2 s of the LCS with subsets `subsets_of(J)`; its cond is J. Def. 1 made samplable."""

    @lru_cache(maxsize=64)
    def parts(J: Conditions):
        groups = _groups(subsets_of(J)).items()
        return [(list(N), pixels, [N.index(i) for i in pixels], family(L).marginal(N)) for (N, L), pixels in groups]

    def denoise(x_t, sigma, cond):
        x = x_t.reshape(len(x_t), -1)
        out = torch.empty_like(x)
        for N, pixels, at, marginal in parts(frozenset(cond)):
            near = x[:, N]
            out[:, pixels] = (near + expand(sigma, near) ** 2 * marginal.score(near, sigma))[:, at].to(x.dtype)
        return out.reshape(x_t.shape)

    return denoise
