"""The numbers that a net computes in: half precision where the hardware is fast at it."""

import torch

from lcs_utils.checks import check_choice

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}
# Choice: measured on AVX2, half precision costs 6 to 8 times as much as float32; processors that are not
# x86 are treated alike.
HALF_IS_SLOW = not torch.backends.cpu.get_cpu_capability().startswith("AVX512")


def dtype_on(device: torch.device, name: str) -> torch.dtype:
    """What a net of `dtype_inside` = name computes in on a device: that, or float32 on processors without
    AVX-512.

    Of 12 samples of Exp. 1 the pixels then differed by at most 0.02 in [-1, 1], and none was counted
    otherwise.
    """
    check_choice("dtype_inside", name, DTYPES)
    return torch.float32 if device.type == "cpu" and HALF_IS_SLOW else DTYPES[name]
