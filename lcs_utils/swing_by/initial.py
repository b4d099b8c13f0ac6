"""Random starts W(0) = U U^T of Swing-by's symmetric two-layer model (arXiv 2410.08309)."""

import torch
from jaxtyping import Float
from torch import Tensor

from lcs_utils.theory.checks import check_count, check_generator, check_number


def random_starts(
    count: int, dim: int, scale: float, generator: torch.Generator, positive: bool = False
) -> Float[Tensor, "count dim dim"]:
    """W(0) = U U^T / dim, entries of U N(0, scale^2); their absolute values if `positive`: all w_ij(0) > 0.

    Choice: normal, for couplings of both signs; `uniform_starts` are the source's. The 1 / dim keeps w_pp(0)
    near scale^2 in every dimension.
    """
    check_count("count", count, 1)
    check_count("dim", dim, 1)
    check_number("scale", scale, 0, 1e6, above=True)
    check_generator(generator)
    U = scale * torch.randn(count, dim, dim, generator=generator, dtype=torch.float64)
    U = U.abs() if positive else U
    return U @ U.mT / dim


def uniform_starts(
    count: int, dim: int, generator: torch.Generator, most: float = 0.1
) -> Float[Tensor, "count dim dim"]:
    """W(0) = U U^T, entries of U uniform in [0, most]: all couplings positive, as in the code of
    arXiv 2410.08309 (FFTYYY/ConceptDynamics-code, d6110b2, figure/triple), where `most` is 0.1.
    """
    check_count("count", count, 1)
    check_count("dim", dim, 1)
    check_number("most", most, 0, 1e6, above=True)
    check_generator(generator)
    U = most * torch.rand(count, dim, dim, generator=generator, dtype=torch.float64)
    return U @ U.mT
