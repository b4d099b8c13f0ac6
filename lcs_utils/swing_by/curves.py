"""Measures of Swing-by curves: how far an error rises, how often it falls, when concepts are learned
(arXiv 2410.08309).
"""

import torch
from jaxtyping import Float
from torch import Tensor

from lcs_utils.theory.checks import (
    check_count,
    check_curve,
    check_number,
    check_tensor,
    check_times,
    shown,
)


def rise(loss: Float[Tensor, "*lead times"]) -> Float[Tensor, "*lead"]:
    """The largest amount by which a curve ever exceeds its running minimum; 0 exactly when it never rises.

    Raises ValueError for a curve without points or with NaN.
    """
    check_curve(loss)
    return (loss - loss.cummin(dim=-1).values).amax(dim=-1)


def count_descents(loss: Float[Tensor, "times"], tolerance: float = 1e-3) -> int:
    """How many separate falls of more than `tolerance` a curve has; swing-by shows as 2 or more.

    Raises ValueError for a curve without points or with NaN, and unless tolerance > 0.
    """
    check_number("tolerance", tolerance, 0, above=True)
    if check_curve(loss).ndim != 1:
        raise ValueError(f"loss must be one curve [times], got shape {list(loss.shape)}")
    falls, falling, extreme = 0, False, float(loss[0])
    for value in loss.tolist():
        if falling:
            extreme = min(extreme, value)
            if value > extreme + tolerance:
                falling, extreme = False, value
        else:
            extreme = max(extreme, value)
            if value < extreme - tolerance:
                falls, falling, extreme = falls + 1, True, value
    return falls


def learning_times(
    W: Float[Tensor, "times dim dim"], times: Float[Tensor, "times"], concepts: int
) -> Float[Tensor, "concepts"]:
    """When each of the first `concepts` diagonal entries first reaches 1/2: the order of learning.

    Interpolated linearly between `times`; infinity for a concept that is never learned. In the dtype of
    `times`, float64 if they are whole numbers. Raises ValueError unless times increase, there is a W for
    each and 1 <= concepts <= dim.
    """
    moments = check_times(times)
    if any(later <= earlier for earlier, later in zip(moments, moments[1:])):
        raise ValueError(f"times must increase, got {shown(moments)}")
    check_tensor("W", W, (len(moments), None, None))
    check_count("concepts", concepts, 1, W.shape[-1])
    reached = []
    for w in W.diagonal(dim1=-2, dim2=-1)[:, :concepts].T:
        above = (w >= 0.5).nonzero()
        if len(above) == 0:
            reached.append(float("inf"))
            continue
        k = int(above[0])
        part = 1.0 if k == 0 else float((0.5 - w[k - 1]) / (w[k] - w[k - 1]))
        earlier = times[max(k - 1, 0)]
        reached.append(float(earlier + part * (times[k] - earlier)))
    return torch.tensor(reached, dtype=times.dtype if times.is_floating_point() else torch.float64)
