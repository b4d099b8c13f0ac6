"""Feature-space disentanglement, eq. (3): do conditions move the features in orthogonal directions?"""

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor


def mean_difference_vectors(
    active: Sequence[Float[Tensor, "batch ..."]], baseline: Float[Tensor, "batch ..."]
) -> Float[Tensor, "conditions features"]:
    """The mean difference of each condition, eq. (3): d_i = E[z | c_i] - E[z | {}], features flattened.

    `active[i]` are samples of z given c_i alone.

    Raises ValueError if a condition's features have another shape than the baseline's.
    """
    for i, z in enumerate(active):
        if z.shape[1:] != baseline.shape[1:] or not len(z):
            given = f"features of condition {i} have shape {list(z.shape)}"
            raise ValueError(f"{given}, the baseline's {list(baseline.shape)}")
    center = baseline.mean(0)
    return torch.stack([(z.mean(0) - center).flatten() for z in active])


def cosine_similarity(d: Float[Tensor, "conditions features"]) -> Float[Tensor, "conditions conditions"]:
    """The test of eq. (3), C_ij = d_i . d_j / (|d_i| |d_j|), in [-1, 1]; zero off the diagonal for a CPC (not only for it).

    Raises ValueError naming vectors of length zero, for which no angle exists.
    """
    lengths = d.norm(dim=1)
    if not bool((lengths > 0).all()):
        raise ValueError(f"mean difference vectors {(lengths == 0).nonzero().flatten().tolist()} are zero")
    unit = d / lengths[:, None]
    return (unit @ unit.T).clamp(-1, 1)


def off_diagonal(matrix: Float[Tensor, "n n"]) -> float:
    """Mean absolute value off the diagonal: eq. (3) as one number, 0 for disentangled features."""
    n = len(matrix)
    if n < 2:
        raise ValueError(f"need at least 2 conditions, got {n}")
    return float((matrix - matrix.diagonal().diag()).abs().sum() / (n * (n - 1)))
