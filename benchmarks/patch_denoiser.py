"""Patches per core-second of the closed-form local denoiser, and its memory: `python
benchmarks/patch_denoiser.py`.
"""

import argparse
import time

import torch
from timing import memory

from lcs_utils.theory.local_denoiser import CHUNK_ELEMENTS, patch_denoiser, patch_denoiser_reference


def training_set(n):
    """Random images of 32 x 32 pixels, one label each: the time does not depend on what they show."""
    generator = torch.Generator().manual_seed(0)
    label = torch.randint(256, (n, 1), generator=generator)
    return 2 * torch.rand(n, 3, 32, 32, generator=generator) - 1, torch.zeros(n, 256).scatter_(1, label, 1.0)


def rate(build, n, batch, repeats, radius):
    """Best rate of patches compared per second of processor time, so that other load does not count."""
    images, grids = training_set(n)
    denoise, best = build(images, grids, radius), 0.0
    x_t, sigma = torch.randn(batch, 3, 32, 32), torch.full((batch,), 0.5)
    for _ in range(repeats):
        start = time.process_time()
        denoise(x_t, sigma, grids[:batch])
        best = max(best, 256 * n * batch / (time.process_time() - start))
    return best


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--radius", type=int, default=2)
    parser.add_argument("--batch", type=int, default=2)
    parser.add_argument("--images", type=int, nargs="+", default=[500, 2000, 8000])
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    loop = rate(patch_denoiser_reference, min(8, *options.images), 1, 2, options.radius)
    print(f"one patch at a time: {loop:,.0f} patches per core-second")
    for n in options.images:
        fast, rise = memory(lambda n=n: rate(patch_denoiser, n, options.batch, 2, options.radius))
        data = n * (3 * 32 * 32 + 256) * 4 / 2**20
        print(
            f"streamed, {n} images: {fast:,.0f} patches per core-second, {fast / loop:.0f} x; "
            f"peak memory +{rise:.0f} MiB, of which the training set and its copies "
            f"{3 * data:.0f}"
        )
    print(f"distances held at once: {CHUNK_ELEMENTS * 4 / 2**20:.0f} MiB for any number of images")


if __name__ == "__main__":
    main()
