"""Images per core-second of the fast renderer: `python benchmarks/renderer.py [--threads 2]`."""

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
    """Best images per second of processor time (other work on the machine does not count) and of wall time."""
    best = wall = 0.0
    for _ in range(repeats):
        start, start_cpu = time.perf_counter(), time.process_time()
        work()
        best, wall = max(best, n / (time.process_time() - start_cpu)), max(wall, n / (time.perf_counter() - start))
    return best, wall


scenes = [sample_scene(1, i, 1 + i % 3) for i in range(400)]
render(scenes[:2], 32)  # compile
per_core, _ = rate(lambda: [sample_scene(2, i, 1 + i % 3) for i in range(400)], 400)
print(f"sampling 1-3 objects: {per_core:.0f} scenes per core-second")
print(f"px   antialias  images per core-second, images per second with {threads} thread(s)")
for resolution, n in ((32, 400), (64, 120), (128, 32)):
    for antialias in (2, 3, 4):
        per_core, wall = rate(lambda: render(scenes[:n], resolution, antialias), n)
        print(f"{resolution:<4} {antialias}x{antialias}        {per_core:.0f}, {wall:.0f}")
