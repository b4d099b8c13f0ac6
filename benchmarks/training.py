"""Training images/s of the shipped nets, as a share of what this machine's convolutions reach, in one run.

    python benchmarks/training.py

The peak is the fastest forward and backward of a plain 3x3 convolution in the same number format, on one thread.
"""

import time

import torch
import torch.nn.functional as F
from torch.utils.flop_counter import FlopCounterMode

from lcs_utils.experiments import EXP1, EXP3, preset
from lcs_utils.models.unet import EDM2UNet, dtype_on, renormalize_
from lcs_utils.training import condition_dim

SECONDS = 4.0


def rate(step, work):
    """`work` units per second of processor time of `step()`, after one warm-up: other jobs on the machine do not count."""
    step()
    start, done = time.process_time(), 0
    while time.process_time() - start < SECONDS:
        step()
        done += 1
    return done * work / (time.process_time() - start)


def convolution_peak(dtype):
    """FLOP/s of the best of a few convolutions, forward and backward."""
    best = 0.0
    for channels, side in ((64, 16), (128, 16), (128, 32), (256, 16)):
        x = torch.randn(16, channels, side, side, dtype=dtype).to(memory_format=torch.channels_last).requires_grad_()
        w = torch.randn(channels, channels, 3, 3, dtype=dtype).to(memory_format=torch.channels_last).requires_grad_()
        best = max(best, rate(lambda: F.conv2d(x, w, padding=1).sum().backward(), 3 * 2 * 16 * side**2 * 9 * channels**2))
    return best


def main():
    torch.set_num_threads(1)
    size = preset("tiny")
    dtype = dtype_on(torch.device("cpu"), size.net["dtype_inside"])
    peak = convolution_peak(dtype)
    print(f"convolution peak on one thread: {peak / 1e9:.0f} GFLOP/s in {str(dtype).removeprefix('torch.')}")
    for exp, side, config in ((EXP1, size.resolution, size.net), (EXP3, 14, size.patch_net)):
        torch.manual_seed(0)
        net = EDM2UNet(cond_dim=condition_dim(exp, exp.radius), **config)
        batch = size.batch * (1 if exp.radius is None else 2)
        inputs = torch.randn(batch, 3, side, side), torch.zeros(batch), torch.zeros(batch, net.config.cond_dim)
        with FlopCounterMode(display=False) as counter, torch.no_grad():
            net(*(i[:1] for i in inputs))
        optimizer = torch.optim.Adam(net.parameters(), 1e-3, fused=True)

        def step():
            optimizer.zero_grad()
            net(*inputs).square().mean().backward()
            optimizer.step()
            renormalize_(net)

        images = rate(step, size.batch)
        share = images * batch / size.batch * 3 * counter.get_total_flops() / peak
        print(f"{exp.name}: {images:.0f} images/s, {100 * share:.0f} % of the convolution peak")


if __name__ == "__main__":
    main()
