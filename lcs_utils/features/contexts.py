"""One pass over draws of x_t: inner products of features under many sets of conditions, from which all
measures follow.

The feature vectors themselves are discarded draw by draw. Kept are the mean differences over one half of the
draws (eq. (3)), and their products with the features of the other half, so that no measure is tested on what
it was fitted on.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import torch
from jaxtyping import Float, Int
from torch import Tensor

from lcs_utils.checks import check_call, check_count, check_counts, check_flag, check_list, check_number
from lcs_utils.features.capture import Sets, Space

Response = Callable[[Tensor, float, Sets], dict[Space, Tensor]]
# kinds of directions: mean differences, those for permuted labels, random unit vectors
FITTED, PERMUTED, RANDOM = range(3)
KINDS = ("", "permuted", "random")  # the names of their rows: the measure itself, and its two controls
POOLED = 4096  # features; spaces of at most so many are kept for the probe


def contexts(order: Sequence[int], removals: Sequence[int]) -> list[frozenset[int]]:
    """The sets of conditions for one x_t: none, each single one, the first K of `order`, and, for K of
    `removals`, these without each of theirs.

    In this order, each set once. Raises ValueError for a condition that is named twice and a K outside 1..n.
    """
    order = check_counts("order", order)
    if len(set(order)) < len(order):
        raise ValueError(f"order names each condition once, got {order}")
    removals = check_counts("removals", removals, 1, len(order))
    n = len(order)
    sets = [frozenset(), *(frozenset([j]) for j in range(n))]
    sets += [frozenset(order[:k]) for k in range(2, n + 1)]
    sets += [frozenset(order[:k]) - {j} for k in removals for j in order[:k]]
    return list(dict.fromkeys(sets))


def check_design(n: int, draws: int, removals: Sequence[int]) -> None:
    """Raise ValueError, saying what is allowed, for too few conditions or draws, or a K outside 2..n."""
    check_count("n", n, None)
    check_count("draws", draws, None)
    removals = check_counts("removals", removals, None)
    if n < 2:
        raise ValueError(f"features are compared between at least 2 conditions, got {n}")
    if draws < 4:
        raise ValueError(f"each half needs at least 2 draws, so at least 4 in all; got {draws}")
    outside = [k for k in removals if not 2 <= k <= n]
    if outside:
        raise ValueError(f"K must be 2..{n}, the number of conditions; got {outside}")


@dataclass
class Sums:
    """What a pass keeps of one feature space; z(J) below always stands for z(J) - z({}) at the same x_t.

    sets[draw] are the V sets, first no condition, then the n single ones; gram[draw] holds all inner products
    of z(J); `directions` are the mean z({j}) over the first half of the draws; `projected` are products of
    these, of permuted and of random directions with z(J) in the second half; `pooled` are the features, if
    few.
    """

    sets: list[list[frozenset[int]]]
    orders: Int[Tensor, "draws n"]
    permutations: Int[Tensor, "draws n+1"]
    gram: Float[Tensor, "draws V V"]
    projected: Float[Tensor, "half 3 n V"]
    directions_gram: Float[Tensor, "3 n n"]
    directions: Float[Tensor, "n features"]
    size: int
    pooled: Float[Tensor, "draws V features"] | None = None

    @property
    def n(self) -> int:
        """The number of conditions."""
        return self.orders.shape[1]

    @property
    def half(self) -> int:
        """The number of draws in the first half, whose mean differences are the directions."""
        return len(self.sets) - len(self.projected)

    def row(self, draw: int, J: Sequence[int] | frozenset[int]) -> int:
        """Index of set J in `gram[draw]`. Raises ValueError for a set that was not evaluated in this draw."""
        check_count("draw", draw, 0, len(self.sets) - 1)
        J = check_counts("a set of conditions", J)
        try:
            return self.sets[draw].index(frozenset(J))
        except ValueError:
            raise ValueError(f"draw {draw} was not seen under the conditions {sorted(J)}") from None


@dataclass
class _Growing:
    """The sums of one space while draws are added."""

    n: int
    first: int  # draws of the first half
    generator: torch.Generator
    gram: list[Tensor] = field(default_factory=list)
    projected: list[Tensor] = field(default_factory=list)
    pooled: list[Tensor] = field(default_factory=list)
    directions: Tensor | None = None  # [3 n features]

    def add(self, z: Float[Tensor, "V features"], permutation: Int[Tensor, "n+1"]) -> None:
        single = z[: self.n + 1]
        e = (z - z[:1]).double()
        if self.directions is None:
            self.directions = torch.zeros(3, self.n, z.shape[1], dtype=torch.float64)
            noise = torch.randn(self.n, z.shape[1], generator=self.generator, dtype=torch.float64)
            self.directions[RANDOM] = noise / noise.norm(dim=1, keepdim=True)
        self.gram.append(e @ e.T)
        if z.shape[1] <= POOLED:
            self.pooled.append(z.float())
        if len(self.gram) <= self.first:
            shuffled = single[permutation].double()
            self.directions[FITTED] += e[1 : self.n + 1] / self.first
            self.directions[PERMUTED] += (shuffled[1:] - shuffled[:1]) / self.first
        else:
            self.projected.append(torch.einsum("dnf,vf->dnv", self.directions, e))


def gather(
    respond: Response,
    draw: Callable[[int], Tensor],
    draws: int,
    sigma: float,
    n: int,
    removals: Sequence[int] = (),
    shuffled: bool = False,
    seed: int = 0,
    progress: Callable[[int], None] = lambda done: None,
) -> dict[Space, Sums]:
    """Sums of every feature space from one pass: `draw(i)` returns x_t of draw i, which `respond` evaluates
    under every set of `contexts`.

    Memory per draw is V^2 numbers, and V times the features of small spaces. `shuffled`: the K conditions of
    each draw are a random K of the n; otherwise the first K. `progress` is called with the index of each
    finished draw. Raises ValueError as `check_design`, before anything runs.
    """
    removals = check_list("removals", removals)
    for name, call in (("respond", respond), ("draw", draw), ("progress", progress)):
        check_call(name, call)
    check_number("sigma", sigma, 0, above=True)
    check_flag("shuffled", shuffled)
    check_count("seed", seed)
    check_design(n, draws, removals)
    generator = torch.Generator().manual_seed(seed)
    growing: dict[Space, _Growing] = {}
    sets, orders, permutations = [], [], []
    for i in range(draws):
        order = torch.randperm(n, generator=generator) if shuffled else torch.arange(n)
        permutation = torch.randperm(n + 1, generator=generator)
        sets.append(contexts(order.tolist(), removals))
        orders.append(order)
        permutations.append(permutation)
        for space, z in respond(draw(i), sigma, sets[-1]).items():
            if space not in growing:
                growing[space] = _Growing(n, draws // 2, torch.Generator().manual_seed(seed + 1))
            growing[space].add(z.detach().cpu(), permutation)
        progress(i)
    design = sets, torch.stack(orders), torch.stack(permutations)
    return {space: _finished(found, design) for space, found in growing.items()}


def _finished(found: _Growing, design: tuple) -> Sums:
    d = found.directions
    return Sums(
        *design,
        gram=torch.stack(found.gram),
        projected=torch.stack(found.projected),
        directions_gram=torch.einsum("dnf,dmf->dnm", d, d),
        directions=d[FITTED],
        size=d.shape[2],
        pooled=torch.stack(found.pooled) if found.pooled else None,
    )
