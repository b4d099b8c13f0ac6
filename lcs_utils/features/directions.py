"""Feature-space disentanglement, eq. (3): do conditions move the features in orthogonal directions?"""

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from lcs_utils.checks import check_generator, check_list, check_tensor


def mean_difference_vectors(
    active: Sequence[Float[Tensor, "batch ..."]], baseline: Float[Tensor, "batch ..."]
) -> Float[Tensor, "conditions features"]:
    """The mean difference of each condition, eq. (3): d_i = E[z | c_i] - E[z | {}], features flattened.

    `active[i]` are samples of z given c_i alone.

    Raises ValueError if a condition's features have another shape than the baseline's.
    """
    active = check_list("active", active, 1)
    check_tensor("baseline", baseline, None, False, "float")
    if not len(baseline.shape) or not len(baseline):
        raise ValueError(f"the baseline must hold at least one sample, got shape {list(baseline.shape)}")
    for i, z in enumerate(active):
        check_tensor(f"features of condition {i}", z, None, False, "float")
        if z.shape[1:] != baseline.shape[1:] or not len(z):
            given = f"features of condition {i} have shape {list(z.shape)}"
            raise ValueError(f"{given}, the baseline's {list(baseline.shape)}")
    center = baseline.mean(0)
    return torch.stack([(z.mean(0) - center).flatten() for z in active])


def cosine_similarity(d: Float[Tensor, "conditions features"]) -> Float[Tensor, "conditions conditions"]:
    """The test of eq. (3), C_ij = d_i . d_j / (|d_i| |d_j|), in [-1, 1]; zero off the diagonal for a CPC (but
    not only for one).

    Raises ValueError naming vectors that are not finite or have length zero, for which no angle exists.
    """
    check_tensor("d", d, ("conditions", "features"), False, "float")
    lengths = d.norm(dim=1)
    if not bool(lengths.isfinite().all()):
        wrong = (~lengths.isfinite()).nonzero().flatten().tolist()
        raise ValueError(f"mean difference vectors {wrong} are not finite")
    if not bool((lengths > 0).all()):
        raise ValueError(f"mean difference vectors {(lengths == 0).nonzero().flatten().tolist()} are zero")
    unit = d / lengths[:, None]
    return (unit @ unit.T).clamp(-1, 1)


def off_diagonal(matrix: Float[Tensor, "n n"]) -> float:
    """Mean absolute value off the diagonal: eq. (3) as one number, 0 for disentangled features."""
    check_tensor("matrix", matrix, ("n", "n"), False)
    n = len(matrix)
    if matrix.shape[1] != n:
        raise ValueError(f"the matrix must be square, got {list(matrix.shape)}")
    if n < 2:
        raise ValueError(f"need at least 2 conditions, got {n}")
    return float((matrix - matrix.diagonal().diag()).abs().sum() / (n * (n - 1)))


def basis_overlap(d: Float[Tensor, "conditions features"]) -> float:
    """Mean over pairs of sum_k min(|d_ik|, |d_jk|), d_i of unit absolute sum, in [0, 1]: 0 for disjoint
    supports (eq. (2)'s M_j).

    Unlike the cosine of eq. (3) it changes when all vectors are rotated together. Raises ValueError as
    `cosine_similarity`.
    """
    cosine_similarity(d)  # for its errors
    if len(d) < 2:
        raise ValueError(f"need at least 2 conditions, got {len(d)}")
    share = d.abs() / d.abs().sum(1, keepdim=True)
    pairs = [float(torch.minimum(share[i], share[i + 1 :]).sum(1).sum()) for i in range(len(d) - 1)]
    return sum(pairs) / (len(d) * (len(d) - 1) / 2)


def rotated(
    d: Float[Tensor, "conditions features"], generator: torch.Generator
) -> Float[Tensor, "conditions features"]:
    """The vectors after one uniformly random rotation of feature space, which keeps lengths and cosines but
    not the basis.

    Raises ValueError for more vectors than dimensions.
    """
    check_tensor("d", d, ("conditions", "features"), kind="float")
    check_generator(generator)
    n, size = d.shape
    if n > size:
        raise ValueError(
            f"{n} vectors in {size} dimensions: a random rotation needs at least as many dimensions as "
            "vectors"
        )
    draw = torch.randn(n, size, generator=generator, dtype=torch.float64)
    values, axes = torch.linalg.eigh(draw @ draw.T)
    frame = (axes / values.sqrt() @ axes.T) @ draw  # orthonormal rows, uniform
    values, axes = torch.linalg.eigh(d.double() @ d.double().T)
    return ((axes * values.clamp(min=0).sqrt()) @ frame).to(d.dtype)
