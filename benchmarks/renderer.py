"""Images per second and core of the fast renderer: `python benchmarks/renderer.py [--threads 2]`."""

import argparse
import time

import numba

from lcs_utils.clevr.render import render
from lcs_utils.clevr.scenes import sample_scene

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--threads", type=int, default=1)
threads = parser.parse_args().threads
numba.set_num_threads(threads)


def rate(work, n, repeats=3):
    """Best images per second and thread over a few repeats, by wall clock."""
    best = 0.0
    for _ in range(repeats):
        start = time.perf_counter()
        work()
        best = max(best, n / (time.perf_counter() - start) / threads)
    return best


scenes = [sample_scene(1, i, 1 + i % 3) for i in range(400)]
render(scenes[:2], 32)  # compile
print(f"sampling 1-3 objects: {rate(lambda: [sample_scene(2, i, 1 + i % 3) for i in range(400)], 400) * threads:.0f} scenes/s on one core")
print("px   antialias  images/s/core")
for resolution, n in ((32, 400), (64, 120), (128, 32)):
    for antialias in (2, 3, 4):
        print(f"{resolution:<4} {antialias}x{antialias}        {rate(lambda: render(scenes[:n], resolution, antialias), n):.0f}")
