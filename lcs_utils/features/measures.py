"""Do conditions act separately in feature space? Eq. (3)'s cosine, additivity, eq. (10) among features, and a
probe.

Every measure has two controls: labels permuted over samples, and random vectors of the same dimension. The
third, an untrained net, is the same measure on another net (`evaluation.features.net_features`).
Intervals are bootstraps over the draws of the second half with the directions of the first half held fixed,
so they are too narrow: they leave out the choice of the first half.
"""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from lcs_utils.checks import check_choice, check_count, check_counts, check_kind, check_list
from lcs_utils.features.contexts import FITTED, KINDS, PERMUTED, RANDOM, Sums
from lcs_utils.features.directions import basis_overlap, rotated
from lcs_utils.stats import LEVEL

RESAMPLES, ROTATIONS = 500, 100  # fewer than `stats.RESAMPLES`: each draw sums vectors of features anew
MEASURES = ("cosines", "additivity", "own_share", "basis", "probe")
NULLS = 8  # probes on shuffled labels or random vectors that a control averages: one alone may be lucky
RIDGE = 0.1  # Choice: the probe's penalty per sample, on standardized features


class Measured(NamedTuple):
    """One number: its measure, K, control ("": the measure itself), value, and interval of level LEVEL over
    draws.
    """

    measure: str
    k: int
    control: str
    value: float
    low: float
    high: float


def check_sums(sums: Sums, ks: Sequence[int] = (), least: int = 1) -> list[int]:
    """Check the numbers of conditions `ks`, each `least`..n, and return them. Raises TypeError or ValueError
    for others, and if `sums` is not a Sums.
    """
    check_kind("sums", sums, Sums, "the Sums of one feature space")
    return check_counts("K", ks, least, sums.n)


def resampling(draws: int, seed: int = 0) -> Float[Tensor, "resamples+1 draws"]:
    """Weights of the draws: first all equal, then those of each bootstrap sample; rows sum to 1."""
    check_count("draws", draws, 1)
    check_count("seed", seed)
    picked = torch.randint(draws, (RESAMPLES, draws), generator=torch.Generator().manual_seed(seed))
    ones = torch.ones_like(picked, dtype=torch.float64)
    counts = torch.zeros(RESAMPLES, draws, dtype=torch.float64).scatter_add_(1, picked, ones)
    return torch.cat([torch.ones(1, draws, dtype=torch.float64), counts]) / draws


def measured(measure: str, k: int, control: str, values: Float[Tensor, "resamples+1"]) -> Measured:
    """The first of `values` with the quantiles of the rest; nan where too few of these are defined."""
    rest = values[1:][values[1:].isfinite()]
    ends = torch.tensor([(1 - LEVEL) / 2, (1 + LEVEL) / 2], dtype=values.dtype)
    low, high = rest.quantile(ends).tolist() if len(rest) > len(values) // 2 else (torch.nan, torch.nan)
    return Measured(measure, k, control, float(values[0]), low, high)


def split_products(sums: Sums, kind: int) -> Float[Tensor, "half n n"]:
    """Products of d_i from the first half with z({j}) of each draw of the second half, which share no noise
    (eq. (3)).
    """
    n, first = sums.n, sums.half
    if kind != PERMUTED:
        return sums.projected[:, kind, :, 1 : n + 1]
    order = sums.permutations[first:]
    shuffled = sums.projected[:, PERMUTED].gather(2, order[:, None].expand(-1, n, -1))
    return shuffled[..., 1:] - shuffled[..., :1]


def cosine_matrices(
    sums: Sums, weights: Float[Tensor, "resamples half"], kind: int = FITTED
) -> Float[Tensor, "resamples n n"]:
    """Eq. (3)'s signed cosines from disjoint halves: every d_i . d_j, squared lengths too, is (mean of one
    half) . (mean of the other).

    Within one half, all mean differences share the baseline's noise, which would tilt them all alike. nan
    where an estimated squared length is not positive. For permuted labels, products are divided by the true
    lengths. Raises ValueError for vectors of length zero.
    """
    lengths = sums.directions_gram[FITTED].diagonal()
    if not bool((lengths > 0).all()):
        raise ValueError(
            f"mean difference vectors {(lengths == 0).nonzero().flatten().tolist()} are zero: the "
            "features do not respond to those conditions"
        )
    if kind == RANDOM:
        return sums.directions_gram[RANDOM].expand(len(weights), -1, -1)
    products = torch.einsum("rb,bij->rij", weights, split_products(sums, kind))
    true = torch.einsum("rb,bi->ri", weights, split_products(sums, FITTED).diagonal(dim1=1, dim2=2))
    root = torch.where(true > 0, true, torch.nan).sqrt()
    return (products + products.mT) / 2 / (root[:, :, None] * root[:, None, :])


def cosines(sums: Sums, seed: int = 0) -> list[Measured]:
    """F1: mean off-diagonal cosine of eq. (3), signed (`cosine`) and absolute (`cosine_abs`); chance is about
    0.
    """
    check_sums(sums)
    n, weights = sums.n, resampling(len(sums.projected), seed)
    off = ~torch.eye(n, dtype=torch.bool)
    found = []
    for kind, name in enumerate(KINDS):
        pairs = cosine_matrices(sums, weights, kind)[:, off]
        found.append(measured("cosine", 1, name, pairs.mean(1)))
        found.append(measured("cosine_abs", 1, name, pairs.abs().mean(1)))
    return found


def _squared_gaps(sums: Sums, k: int, kind: int) -> tuple[Tensor, Tensor]:
    """|z(C) - z({}) - sum of single effects|^2 and |z(C) - z({})|^2 of every draw (of the second half only,
    for random directions).
    """
    n, gaps, sizes = sums.n, [], []
    for i in range(sums.half if kind == RANDOM else 0, len(sums.sets)):
        members = sums.orders[i, :k]
        at, G = sums.row(i, members.tolist()), sums.gram[i]
        w = torch.zeros(len(G), dtype=torch.float64)
        w[at] = 1
        if kind == RANDOM:
            lengths = G.diagonal()[members + 1].sqrt()
            along = sums.projected[i - sums.half, RANDOM][members, at]
            between = sums.directions_gram[RANDOM][members][:, members]
            gaps.append(G[at, at] - 2 * (lengths * along).sum() + lengths @ between @ lengths)
            sizes.append(G[at, at])
            continue
        label = sums.permutations[i] if kind == PERMUTED else torch.arange(n + 1)
        whole = w.clone()
        whole[label[0]] -= 1
        w = whole.clone()
        for j in members.tolist():
            w[label[j + 1]] -= 1
            w[label[0]] += 1
        gaps.append(w @ G @ w)
        sizes.append(whole @ G @ whole)
    return torch.stack(gaps), torch.stack(sizes)


def additivity(sums: Sums, ks: Sequence[int], seed: int = 0) -> list[Measured]:
    """F2: R2(K) = 1 - sum |z(C) - z({}) - sum_j d_j|^2 / sum |z(C) - z({})|^2 over draws, d_j = z({j}) -
    z({}) at the same x_t.

    1 in the denoiser of a CPC whose background, too, is independent between the M_j; at most 1, no least.
    With `effect`, the root mean square of z(C) - z({}): a net that hardly hears its conditions is additive.
    """
    found = []
    for k in check_sums(sums, ks):
        for kind, name in enumerate(KINDS):
            gaps, sizes = _squared_gaps(sums, k, kind)
            weights = resampling(len(gaps), seed)
            found.append(measured("additivity", k, name, 1 - (weights @ gaps) / (weights @ sizes)))
            if kind == FITTED:
                found.append(measured("effect", k, name, (weights @ sizes / sums.size).sqrt()))
    return found


def shares(sums: Sums, k: int, kind: int = FITTED) -> Float[Tensor, "half K"]:
    """|a_c| / sum_j |a_j| for each removal of c from C, a = pinv(d) (z(C) - z(C without c)), d the directions
    of C's conditions.

    Raises ValueError for a condition that is not active in any measured set.
    """
    check_sums(sums, [k])
    check_count("kind", kind, 0, len(KINDS) - 1)
    found = []
    for i, projected in enumerate(sums.projected[:, kind]):
        draw = i + sums.half
        members = sums.orders[draw, :k]
        C = frozenset(members.tolist())
        inverse = torch.linalg.pinv(sums.directions_gram[kind][members][:, members], hermitian=True)
        out = torch.stack(
            [
                projected[members, sums.row(draw, C)] - projected[members, sums.row(draw, C - {c})]
                for c in members.tolist()
            ]
        )
        a = (out @ inverse).abs()
        found.append(a.diagonal() / a.sum(1))
    return torch.stack(found)


def own_share(sums: Sums, ks: Sequence[int], seed: int = 0) -> list[Measured]:
    """F3: conditional locality in feature space, eq. (10) moved there: removing c from C moves features along
    c's own direction.

    Directions are fitted in contexts of one condition on one half of the draws, removals from contexts of K
    on the other. Chance 1/K.
    """
    ks = check_sums(sums, ks)
    weights = resampling(len(sums.projected), seed)
    return [
        measured("own_share", k, name, weights @ shares(sums, k, kind).nan_to_num(1 / k).mean(1))
        for k in ks
        for kind, name in enumerate(KINDS)
    ]


def basis(sums: Sums, seed: int = 0) -> list[Measured]:
    """F4: overlap of the mean differences' supports, and of the same vectors randomly rotated, which keeps
    all cosines (eq. (3)).

    Only the control has an interval; it holds LEVEL of the rotations.
    """
    check_sums(sums)
    check_count("seed", seed)
    generator = torch.Generator().manual_seed(seed)
    d = sums.directions.float()
    value = basis_overlap(d)
    overlaps = [basis_overlap(rotated(d, generator)) for _ in range(ROTATIONS)]
    turned = torch.tensor(overlaps, dtype=torch.float64)
    control = measured("overlap", 1, "rotated", torch.cat([turned.mean()[None], turned]))
    return [Measured("overlap", 1, "", value, torch.nan, torch.nan), control]


def _ridge(x: Float[Tensor, "samples f"], y: Float[Tensor, "samples n"]) -> tuple[Tensor, Tensor, Tensor]:
    """One linear probe per condition, present and absent weighted equally: center [f], weights [n f], offsets
    [n].
    """
    center, scale = x.mean(0), x.std(0).clamp(min=1e-9)
    x = (x - center) / scale
    probes, offsets = [], []
    for target in y.T:
        weight = torch.where(target > 0, 0.5 / target.sum(), 0.5 / (1 - target).sum())
        mean = weight @ x
        z, t = x - mean, 2 * target - 1
        normal = z.T @ (weight[:, None] * z) + RIDGE * torch.eye(x.shape[1], dtype=x.dtype)
        probe = torch.linalg.solve(normal, z.T @ (weight * t))
        probes.append(probe / scale)
        offsets.append(-mean @ probe)
    return center, torch.stack(probes), torch.stack(offsets)


def _samples(sums: Sums, draws: range, sizes: set[int]) -> tuple[Tensor, Tensor]:
    """Features of all sets of these sizes, each set once per draw, and which conditions they hold."""
    x, y = [], []
    for i in draws:
        for v, J in enumerate(sums.sets[i]):
            if len(J) in sizes:
                x.append(sums.pooled[i, v])
                y.append([float(j in J) for j in range(sums.n)])
    return torch.stack(x).double(), torch.tensor(y, dtype=torch.float64)


def probe(sums: Sums, trained: int, ks: Sequence[int], seed: int = 0) -> list[Measured]:
    """F6: balanced accuracy of linear probes of "condition j is present", fitted on sets of up to `trained`
    conditions, tested at each K < n.

    Fitted on the first half of the draws, tested on the second; chance is 0.5. Needs random K of the n
    conditions, since among the first K one condition reveals the others. Raises ValueError otherwise, and for
    spaces of many features.
    """
    ks = check_sums(sums, ks)
    check_count("trained", trained)
    check_count("seed", seed)
    if sums.pooled is None or bool((sums.orders == sums.orders[0]).all()):
        why = "sets of random conditions" if sums.pooled is not None else f"few features, not {sums.size}"
        raise ValueError(f"a linear probe needs {why}")
    generator, found = torch.Generator().manual_seed(seed), []
    x, y = _samples(sums, range(sums.half), set(range(trained + 1)))
    shuffled = [y[torch.randperm(len(y), generator=generator)] for _ in range(NULLS)]
    noise = [torch.randn(x.shape, generator=generator, dtype=x.dtype) for _ in range(NULLS)]
    models = {
        "": [_ridge(x, y)],
        "permuted": [_ridge(x, other) for other in shuffled],
        "random": [_ridge(z, y) for z in noise],
    }
    weights = resampling(len(sums.projected), seed)
    tested = range(sums.half, len(sums.sets))
    for k in (k for k in ks if k < sums.n):
        samples = [_samples(sums, range(i, i + 1), {k}) for i in tested]
        for name, probes in models.items():
            each = [torch.stack([_balanced(probe, *sample) for probe in probes]) for sample in samples]
            right = [accuracies.mean() for accuracies in each]
            found.append(measured("probe", k, name, weights @ torch.stack(right)))
    return found


def _balanced(probe: tuple[Tensor, Tensor, Tensor], x: Tensor, y: Tensor) -> Tensor:
    """Mean of the shares of absent and of present conditions that a probe gets right (balanced accuracy)."""
    center, directions, offsets = probe
    says = (x - center) @ directions.T + offsets > 0
    return ((~says)[y == 0].double().mean() + says[y == 1].double().mean()) / 2


def all_measures(
    sums: Sums,
    ks: Sequence[int],
    removals: Sequence[int],
    trained: int,
    seed: int = 0,
    only: Sequence[str] = MEASURES,
) -> list[Measured]:
    """F1 to F4 and F6 of one feature space (section 4, App. E.4), or `only` some of them.

    Skipped without an error: the basis test in fewer dimensions than conditions, and the probe where it is
    not possible (`probe`).
    """
    ks, removals = check_sums(sums, ks), check_sums(sums, removals)
    check_count("trained", trained)
    check_count("seed", seed)
    only = check_list("only", only)
    for name in only:
        check_choice("measure", name, MEASURES)
    can_probe = sums.pooled is not None and bool((sums.orders != sums.orders[0]).any())
    run = {
        "cosines": lambda: cosines(sums, seed),
        "additivity": lambda: additivity(sums, ks, seed),
        "own_share": lambda: own_share(sums, removals, seed),
        "basis": lambda: basis(sums, seed) if sums.size >= sums.n else [],
        "probe": lambda: probe(sums, trained, ks, seed) if can_probe else [],
    }
    return [m for name in only for m in run[name]()]
