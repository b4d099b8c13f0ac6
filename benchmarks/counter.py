"""Images/s of the object counter at 32 and 64 px, as a share of the convolution peak, beside a ResNet-18.

    python benchmarks/counter.py

Rates are per second of processor time on one thread, so that other load hardly matters; `--threads 2` gives
wall time on two cores. The peak is the fastest forward pass of a plain 3x3 convolution in float32. The
ResNet-18 (He et al. 2015) is its variant for small images, untrained, with one number as output. The counter
runs in float32, as for the stored rows, and under bfloat16 autocast; for the latter, the share of stored
samples (data/samples) that are counted as in float32 is printed too.
"""

import argparse
import time

import numpy as np
import torch
import torch.nn.functional as F
from timing import rate
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from lcs_utils import paths
from lcs_utils.counter.net import ObjectCounter, enlarged, folder
from lcs_utils.diffusion import from_uint8
from lcs_utils.evaluation.sheets import read_sheet

SECONDS, BATCH = 3.0, 256
TARGETS = {32: 600, 64: 600}  # images/s on two cores; a 32 px image is enlarged and costs as much


class Block(nn.Module):
    """ResNet's basic block."""

    def __init__(self, before, after, stride):
        super().__init__()
        self.a = nn.Sequential(
            nn.Conv2d(before, after, 3, stride, 1, bias=False),
            nn.BatchNorm2d(after),
            nn.ReLU(),
            nn.Conv2d(after, after, 3, 1, 1, bias=False),
            nn.BatchNorm2d(after),
        )
        change = nn.Sequential(nn.Conv2d(before, after, 1, stride, bias=False), nn.BatchNorm2d(after))
        self.b = nn.Identity() if before == after and stride == 1 else change

    def forward(self, x):
        return F.relu(self.a(x) + self.b(x))


def resnet18():
    """Four stages of two blocks."""
    widths = [(64, 64, 1), (64, 128, 2), (128, 256, 2), (256, 512, 2)]
    blocks = [b for before, after, s in widths for b in (Block(before, after, s), Block(after, after, 1))]
    stem = (nn.Conv2d(3, 64, 3, 1, 1, bias=False), nn.BatchNorm2d(64), nn.ReLU())
    return nn.Sequential(*stem, *blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 1)).eval()


def best_rate(step, work, clock):
    """`work` units per second of `step()` by `clock`, the best of three."""
    return max(rate(step, work, SECONDS / 3, clock) for _ in range(3))


def half(step):
    """`step` under bfloat16 autocast."""
    with torch.autocast("cpu", torch.bfloat16):
        return step()


def agreement(net):
    """Share of the stored samples that are counted the same in both precisions, and their number."""
    grids = [
        read_sheet(path.stem).samples.values()
        for path in sorted((paths.DATA / "samples" / "tiny").glob("*.webp"))
    ]
    images = from_uint8(np.concatenate([x for grid in grids for x in grid]))
    return float((net(images).count == half(lambda: net(images)).count).float().mean()), len(images)


def convolution_peak(clock):
    """FLOP/s of the best of a few convolutions."""
    best = 0.0
    for channels, side in ((64, 16), (96, 8), (128, 16), (128, 32), (256, 16)):
        x = torch.randn(64, channels, side, side).to(memory_format=torch.channels_last)
        w = torch.randn(channels, channels, 3, 3).to(memory_format=torch.channels_last)
        best = max(
            best, best_rate(lambda: F.conv2d(x, w, padding=1), 2 * 64 * side**2 * 9 * channels**2, clock)
        )
    return best


@torch.no_grad()
def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--threads", type=int, default=1)
    threads = parser.parse_args().threads
    torch.set_num_threads(threads)
    clock, unit = (
        (time.process_time, "core-second")
        if threads == 1
        else (time.perf_counter, f"second on {threads} threads")
    )
    peak = convolution_peak(clock)
    print(f"convolution peak: {peak / 1e9:.0f} GFLOP/s per {unit}")
    peer = resnet18().to(memory_format=torch.channels_last)
    for side, target in TARGETS.items():
        net = ObjectCounter.from_pretrained(folder(side))
        x = (0.2 * torch.randn(BATCH, 3, side, side)).clamp(-1, 1)
        ours = ("counter", lambda: net(x), BATCH), ("counter, bfloat16", lambda: half(lambda: net(x)), BATCH)
        for name, step, n in (*ours, ("ResNet-18", lambda: peer(x[:32]), 32)):
            with FlopCounterMode(display=False) as flops:
                peer(x[:1]) if name == "ResNet-18" else net.read(enlarged(x[:1], net.config.resolution))
            images, cost = best_rate(step, n, clock), flops.get_total_flops()
            aim = "" if name == "ResNet-18" else f", target {target} on 2 cores"
            print(
                f"{side} px: {name} {images:.0f} images per {unit}{aim}; {cost / 1e6:.0f} MFLOP each, "
                f"{images * cost / peak:.0%} of the peak"
            )
        if side == 32:
            print("{:.2%} of {} samples counted in bfloat16 as in float32".format(*agreement(net)))


if __name__ == "__main__":
    main()
