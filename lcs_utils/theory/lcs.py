"""Local conditional scores: Definition 1, eq. (1), and the subsets that Lemma 1 uses."""

from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from numbers import Integral
from typing import Any, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from lcs_utils.diffusion import Denoiser, expand
from lcs_utils.theory.checks import (
    check_conditions,
    check_count,
    check_flat,
    check_indices,
    check_levels,
    check_list,
    check_points,
    check_tensor,
    shown,
)
from lcs_utils.theory.distributions import Distribution, check_distribution

Conditions = frozenset  # J, a set of condition names
Family = Callable[[Conditions], Distribution]  # J -> p(x | c_J), defined for every J, seen in training or not


class Subsets(NamedTuple):
    """N[i], the pixels, and L[i], the conditions, that the local conditional score at pixel i depends on."""

    N: tuple[tuple[int, ...], ...]
    L: tuple[Conditions, ...]


def check_disjoint(M: Mapping[Any, tuple[int, ...]], n: int) -> dict[Any, tuple[int, ...]]:
    """`M` with tuples of pixels.

    Raises ValueError naming pixels that two conditions claim or that are outside [0, n), TypeError unless M
    maps conditions to sequences of pixels.
    """
    if not isinstance(M, Mapping):
        raise TypeError(f"M must map conditions to pixels, got {shown(M)}")
    owner: dict[int, Any] = {}
    for j, pixels in M.items():
        for i in check_list(f"M[{j!r}]", pixels, 1):
            if isinstance(i, bool) or not isinstance(i, Integral):
                raise TypeError(f"M[{j!r}] must hold whole numbers, got {shown(i)}")
            pixel = int(i)
            if not 0 <= pixel < n:
                raise ValueError(f"M[{j!r}] holds pixel {i}, outside [0, {n})")
            if pixel in owner:
                raise ValueError(f"M[{owner[pixel]!r}] and M[{j!r}] overlap: both hold pixel {i}")
            owner[pixel] = j
    return {j: tuple(int(i) for i in pixels) for j, pixels in M.items()}


def law(family: Family, J: Iterable) -> Distribution:
    """p(x | c_J). Raises TypeError for a family that is not a function or does not return a distribution."""
    if not callable(family):
        raise TypeError(f"a family must be a function of a set of conditions, got {shown(family)}")
    J = frozenset(J)
    return check_distribution(f"the family at {set(J) or '{}'}", family(J))


def background_pixels(M: Mapping[Any, tuple[int, ...]], n: int, J: Iterable) -> tuple[int, ...]:
    """M_J^c = [n] minus the union of M_j over j in J: a pixel of M_k is background when k is not in J.

    Raises ValueError for overlapping M_j and unknown J.
    """
    M = check_disjoint(M, check_count("n", n, 1))
    held = {i for j in check_conditions(J, M) for i in M[j]}
    return tuple(i for i in range(n) if i not in held)


def lemma_1_subsets(M: Mapping[Any, tuple[int, ...]], n: int, J: Iterable) -> Subsets:
    """The subsets of Lemma 1: (M_j, {j}) for pixels of an active M_j, (M_J^c, {}) for all others.

    Raises ValueError for overlapping M_j and unknown J.
    """
    J = check_conditions(J)
    rest = background_pixels(M, n, J)
    N, L = [rest] * n, [frozenset[Any]()] * n
    for j in J:
        for i in M[j]:
            N[i], L[i] = tuple(M[j]), frozenset([j])
    return Subsets(tuple(N), tuple(L))


def _groups(subsets: Subsets) -> dict[tuple, list[int]]:
    """Pixels that share N and L, so that each distinct marginal is evaluated once."""
    two = isinstance(subsets, tuple) and len(subsets) == 2
    if not two or not subsets[0] or len(subsets[0]) != len(subsets[1]):
        raise ValueError(f"subsets must be Subsets with one N and one L for each pixel, got {shown(subsets)}")
    groups: dict[tuple, list[int]] = {}
    for i, (N, L) in enumerate(zip(*subsets)):
        near = check_list(f"N[{i}]", N, 1)
        if i not in near:
            raise ValueError(f"N[{i}] must hold pixel {i} itself, got {shown(near)}")
        check_indices(near, len(subsets[0]), f"N[{i}]")
        groups.setdefault((tuple(near), check_conditions(L)), []).append(i)
    return groups


def local_conditional_score(
    family: Family, x: Float[Tensor, "batch n"], sigma: Float[Tensor, "batch"], subsets: Subsets
) -> Float[Tensor, "batch n"]:
    """Def. 1, eq. (1): s[i] = d/dx_i log p_t(x_{N_i} | c_{L_i}), t = sigma^2.

    `subsets` may differ between noise levels: pass those for this sigma. Raises ValueError if i is not in
    N[i], and for an x whose width is not that of `subsets` and of the family.
    """
    groups = _groups(subsets)
    check_points(x, len(subsets.N), sigma)
    out = torch.empty(x.shape, dtype=torch.float64, device=x.device)
    for (N, L), pixels in groups.items():
        p = check_distribution("a law of the family", law(family, L), len(subsets.N))
        # The score of the marginal on N, of which pixel i takes its own component.
        score = p.marginal(N).score(x[:, list(N)], sigma)
        out[:, pixels] = score[:, [N.index(i) for i in pixels]]
    return out.to(x.dtype) if x.is_floating_point() else out


def local_conditional_denoiser(
    family: Family, subsets_of: Callable[..., Subsets], by_noise: bool = False
) -> Denoiser:
    """Def. 1 as a denoiser to sample: x_t + sigma^2 s, s the LCS with subsets `subsets_of(J)`; its cond is J.

    With `by_noise` the subsets are `subsets_of(J, sigma)`: N_i and L_i may change with t, as Def. 1 allows.
    Raises TypeError for a J that is not a set (text is not), ValueError for an x_t of another size than the
    subsets and, with `by_noise`, for one without points.
    """
    if not callable(subsets_of):
        raise TypeError(f"subsets_of must be a function that returns Subsets, got {shown(subsets_of)}")

    @lru_cache(maxsize=64)
    def parts(J: Conditions, *level: float):
        subsets = subsets_of(J, *level)
        each = [
            (list(N), pixels, [N.index(i) for i in pixels], law(family, L).marginal(N))
            for (N, L), pixels in _groups(subsets).items()
        ]
        return len(subsets.N), each

    def denoise(x_t, sigma, cond):
        J = check_conditions(cond)
        if by_noise:
            check_tensor("x_t", x_t, None)
            if not x_t.ndim or not len(x_t):
                raise ValueError(f"x_t must hold at least one point, got shape {list(x_t.shape)}")
            check_levels(sigma, len(x_t))
            levels = sigma.unique().tolist()
            if len(levels) > 1:
                out = torch.empty_like(x_t)
                for level in levels:
                    rows = sigma == level
                    out[rows] = denoise(x_t[rows], sigma[rows], J)
                return out
        n, each = parts(J, *(levels if by_noise else ()))
        x = check_flat(x_t, n, sigma)
        out = torch.empty_like(x)
        for N, pixels, at, marginal in each:
            near = x[:, N]
            out[:, pixels] = (near + expand(sigma, near) ** 2 * marginal.score(near, sigma))[:, at].to(
                x.dtype
            )
        return out.reshape(x_t.shape)

    return denoise
