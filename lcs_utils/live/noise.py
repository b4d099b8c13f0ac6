"""Standard normal noise from a seed, the same in Python and in the browser (noise.js)."""

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from lcs_utils.checks import check_count, check_counts

SEEDS = 2**31  # seeds are 0 .. SEEDS - 1


def mixed(bits: np.ndarray) -> np.ndarray:
    """A bijection of 32-bit words whose outputs look random (Wellons' lowbias32)."""
    bits = bits ^ (bits >> np.uint32(16))
    bits = bits * np.uint32(0x7FEB352D)
    bits = bits ^ (bits >> np.uint32(15))
    bits = bits * np.uint32(0x846CA68B)
    return bits ^ (bits >> np.uint32(16))


def normal(seed: int, *shape: int) -> Float[Tensor, "..."]:
    """float32 noise of `shape`: the i-th number is the Box-Muller cosine of the i-th pair of uniform numbers.

    Choice: our own generator, since torch's is not available in the browser: the j-th uniform number is a
    32-bit hash of j and the seed, never 0. Raises ValueError for a seed outside 0 .. 2^31 - 1 or
    a negative length, TypeError for one that is no whole number.
    """
    check_count("seed", seed, 0, SEEDS - 1)
    check_counts("each length of shape", shape)
    key = mixed(np.array([seed ^ 0x9E3779B9], np.uint32))
    count = int(np.prod(shape))
    bits = mixed(mixed(np.arange(2 * count, dtype=np.uint32) + key) ^ key)
    uniform = (bits.astype(np.float64) + 0.5) / 2**32
    drawn = np.sqrt(-2 * np.log(uniform[0::2])) * np.cos(2 * np.pi * uniform[1::2])
    return torch.from_numpy(drawn.astype(np.float32)).reshape(shape)
