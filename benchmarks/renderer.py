"""Speed of the renderer and of Cycles, on one core, several cores and a GPU, and memory: `python
benchmarks/renderer.py [speed cycles ...]`.

Rates are per second of processor time, so that other load hardly matters (it still shares caches and memory).
Cycles needs bpy, here or in the interpreter that LCS_BPY_PYTHON names.
"""

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from dataclasses import replace

import numba
import numpy as np

from lcs_utils.clevr import fidelity
from lcs_utils.clevr.blender import check_bpy, render_cycles
from lcs_utils.clevr.render import render
from lcs_utils.clevr.scenes import Scene, pack, sample_scene

TARGETS = {128: 35, 64: 140, 32: 400}  # images per core-second
CUDA_TARGET = 30_000  # images per second at 64 px on an H200
SCENES = [sample_scene(1, i, 1 + i % 3) for i in range(400)]
MEMORY = """
import resource, sys
from lcs_utils.clevr.dataset import generate
from lcs_utils.clevr.loading import ShardDataset
folder, n = sys.argv[1], int(sys.argv[2])
generate(folder, counts=(2,), per_count=n, resolution=32, antialias=1, shard_size=1024, progress=False)
made = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
data = ShardDataset(folder)
own = lambda: next(int(l.split()[1]) / 1024 for l in open("/proc/self/status") if l.startswith("RssAnon"))
before = own()
for i in range(len(data)):
    data[(i * 7919) % len(data)]
print(made, own() - before)
"""


def rate(work, n, repeats=3):
    """Best images per second of processor time, and of wall time."""
    cpu = wall = 0.0
    for _ in range(repeats):
        start, start_cpu = time.perf_counter(), time.process_time()
        work()
        cpu, wall = (
            max(cpu, n / (time.process_time() - start_cpu)),
            max(wall, n / (time.perf_counter() - start)),
        )
    return cpu, wall


def speed():
    """Images per core-second and fidelity at each antialiasing, and where the time goes."""
    numba.set_num_threads(1)
    per_core, _ = rate(lambda: [sample_scene(2, i, 1 + i % 3) for i in range(400)], 400)
    print(f"sampling scenes of 1-3 objects: {per_core:.0f} per core-second")
    print(
        "images per core-second"
        + "".join(f"{px:>7} px" for px in TARGETS)
        + "   against Cycles: mean and lowest PSNR, SSIM"
    )
    print(
        "target                "
        + "".join(f"{target:>10}" for target in TARGETS.values())
        + "   38 and 34 dB, 0.98"
    )
    for antialias in (2, 3, 4):
        rates = [
            rate(lambda: render(SCENES[:n], px, antialias), n)[0]
            for px, n in ((128, 32), (64, 120), (32, 400))
        ]
        found = fidelity.compare(antialias)
        quality = f"{found['psnr'].mean():.1f} and {found['psnr'].min():.1f} dB, {found['ssim'].mean():.3f}"
        print(
            f"{antialias}x{antialias} samples           "
            + "".join(f"{r:>10.0f}" for r in rates)
            + f"   {quality}"
        )

    def made_of(kind):
        return [replace(s, objects=tuple(replace(o, material=kind) for o in s.objects)) for s in SCENES[:32]]

    cost = {
        name: 1000 / rate(lambda s=s: render(s, 128), 32)[0]
        for name, s in (
            ("empty floor", [Scene(())] * 32),
            ("rubber", made_of("rubber")),
            ("metal", made_of("metal")),
        )
    }
    print("128 px, ms per image: " + ", ".join(f"{name} {ms:.1f}" for name, ms in cost.items()))
    free = cost["empty floor"] / (0.5 * (cost["rubber"] + cost["metal"]))
    print(
        f"limit: the floor alone is {free:.0%} of an image; the rest is antialiasing^2 (on silhouettes and "
        "metal 4 times as "
        "many) samples of objects and shadows, each with shadow and reflection rays against every object"
    )


def cycles():
    """Cycles and the fast renderer on the same scenes in one run, with masks and, as the counters are
    measured, without.
    """

    def child(n, side, **options):
        before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
        render_cycles(SCENES[:n], side, 16, threads=1, **options)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return (
            after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime,
            time.perf_counter() - start,
        )

    quick = {"prefilter": "fast", "masks": False}
    try:
        check_bpy()  # asked once, so that the first measurement does not hold the asking
    except RuntimeError as error:
        print(f"Cycles not measured: {error}")
        return
    for side, words, options in (
        (128, "masks too", {}),
        (64, "masks too", {}),
        (64, "quick guides, no masks", quick),
    ):
        try:
            (one, _), (nine, wall) = child(1, side, **options), child(9, side, **options)
        except RuntimeError as error:
            print(f"Cycles not measured: {error}")
            return
        slow, fast = 8 / (nine - one), rate(lambda: render(SCENES[:9], side), 9)[0]
        print(
            f"{side} px: Cycles (16 samples, denoised, {words}) {slow:.2f}, fast {fast:.0f} images per "
            "core-second, "
            f"{fast / slow:.0f} times"
        )
        print(f"  starting Blender costs {one - 1 / slow:.1f} core-seconds once (9 images: {wall:.0f} s)")
    print("limit of Cycles: path tracing and denoising")


def scaling(threads):
    """Images per second of wall time on one core and on several; other load lowers them."""
    found = {}
    for n in (1, threads):
        numba.set_num_threads(n)
        found[n] = rate(lambda: render(SCENES[:200], 64), 200)
    numba.set_num_threads(1)
    (cpu_one, one), (cpu, many) = found[1], found[threads]
    print(
        f"64 px: {one:.0f} images per second on 1 core, {many:.0f} on {threads}: {many / one:.2f} times "
        "(target 1.8 of 2), at a load "
        f"of {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores"
    )
    print(
        f"       {cpu_one:.0f} and {cpu:.0f} images per core-second: {threads * cpu / cpu_one:.2f} times if "
        "no other work held the cores"
    )
    print(
        "limit: scenes are independent and share only memory bandwidth, so what is missing is other work on "
        "the cores"
    )


def memory():
    """Peak memory of generating and of reading 2,048 and 8,192 images."""
    with tempfile.TemporaryDirectory() as folder:
        for n in (2048, 8192):
            command = [sys.executable, "-c", MEMORY, f"{folder}/{n}", str(n)]
            peak, grown = map(
                float, subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
            )
            print(
                f"{n} images: peak {peak:.0f} MB while rendering; reading all of them at random adds "
                f"{grown:.1f} MB"
            )
    print(
        "limit: one shard of images and its scenes at a time, beside Python, numba and LLVM; reading maps "
        "the files"
    )


def cuda():
    """The same images on a GPU and on one core in one run, 64 px: rates with and without the copy, and
    their bytes.
    """
    from numba import cuda as device

    from lcs_utils.clevr.cuda import check_device, render_on_device

    try:
        check_device()
    except RuntimeError as error:
        print(f"no GPU at hand: {error}")
        return
    numba.set_num_threads(1)
    name = device.get_current_device().name  # bytes from numba itself, text from numba-cuda
    name = name.decode() if isinstance(name, bytes) else name
    packed = [np.tile(array, (40,) + (1,) * (array.ndim - 1)) for array in pack(SCENES)]  # 16,000 scenes

    def kept():
        render_on_device(packed, 64, antialias)
        device.synchronize()

    for antialias in (2, 3):
        render(SCENES[:2], 64, antialias, "cuda")  # compile
        here, there = render(SCENES, 64, antialias), render(SCENES, 64, antialias, "cuda")
        apart = np.abs(here.astype(int) - there)
        rates = [
            rate(work, n)[1]
            for work, n in (
                (kept, len(packed[1])),
                (lambda: render(SCENES * 40, 64, antialias, "cuda"), 16_000),
            )
        ]
        core = rate(lambda: render(SCENES[:120], 64, antialias), 120)[0]
        print(
            f"64 px, {antialias}x{antialias} samples: {rates[0]:.0f} images per second on {name} (target "
            f"{CUDA_TARGET} on an H200), "
            f"{rates[1]:.0f} with scenes packed and images copied; {core:.0f} per core-second: "
            f"{rates[0] / core:.0f} times"
        )
        print(
            f"       {(apart > 0).mean():.1e} of the bytes differ from the processor's, by {apart.max()} at "
            "most"
        )
    sampling = rate(lambda: [sample_scene(2, i, 1 + i % 3) for i in range(400)], 400)[0]
    print(
        "limit: registers (8 warps at a time on a multiprocessor), branches, float64; drawing scenes, "
        f"{sampling:.0f} per core-second"
    )


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parts = {"speed": speed, "cycles": cycles, "scaling": None, "memory": memory, "cuda": cuda}
    parser.add_argument("parts", nargs="*", help=f"any of {', '.join(parts)} (default: all)")
    parser.add_argument("--threads", type=int, default=os.cpu_count(), help="of `scaling`")
    options = parser.parse_args()
    if set(options.parts) - set(parts):
        parser.error(f"parts are {', '.join(parts)}, got {', '.join(options.parts)}")
    render(SCENES[:2], 32)  # compile
    for name in options.parts or parts:
        scaling(options.threads) if name == "scaling" else parts[name]()


if __name__ == "__main__":
    main()
