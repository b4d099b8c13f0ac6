"""The number format that a net computes in: half precision where the hardware is fast at it."""

import os

import torch

from lcs_utils.checks import check_choice

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}
# Choice: only matrix units (AMX) make half precision pay. Measured on AVX2 it costs 6 to 8 times as much
# as float32; on AVX-512 with bfloat16 instructions but no AMX a convolution costs 1.8 times as much.
# Non-x86 processors are treated the same. LCS_FLOAT32 makes notebooks compute alike on all of them.
HALF_IS_SLOW = "LCS_FLOAT32" in os.environ or not torch.cpu.get_capabilities().get("amx_bf16", False)


def dtype_on(device: torch.device, name: str) -> torch.dtype:
    """The dtype in which a net with `dtype_inside` = name computes on a device: float32 on CPUs without AMX.

    For 12 samples of Exp. 1 the pixels then differed by at most 0.02 in [-1, 1], and all counts were the
    same.
    """
    check_choice("dtype_inside", name, DTYPES)
    return torch.float32 if device.type == "cpu" and HALF_IS_SLOW else DTYPES[name]
