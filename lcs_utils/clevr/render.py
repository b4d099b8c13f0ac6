"""CLEVR's look without Blender: an analytic ray tracer, compiled with numba, fixed patterns in place of chance.

Geometry is in `tracer`, light in `shading` and `materials`, a pixel's samples in `pixels`; `cuda` has the same kernels
on a GPU. Linear light is clipped and stored as 8-bit sRGB, as Blender's "Standard" view does.
"""

import sys

import numpy as np
from jaxtyping import Int, UInt8
from numba import njit, prange

from lcs_utils.clevr import scenes as clevr_scenes
from lcs_utils.clevr.blender import render_cycles
from lcs_utils.clevr.pixels import candidate_objects, patterns, pixel_kind, pixel_sample, to_byte
from lcs_utils.clevr.shading import BLACK, add, fill_lamps
from lcs_utils.clevr.tracer import fill_axes, fill_boxes, trace_ids

LOOK = 2  # version of the picture that a scene gives; nets trained on one look are tested on it
ANTIALIAS = (1, 2, 3, 4)
BACKENDS = ("fast", "cuda", "cycles")


@njit(cache=True, fastmath=True, error_model="numpy")
def _render_scene(objects, n, camera, lamps, resolution, center, coarse, fine, image):
    axes, frames, boxes = np.empty((3, 3)), np.empty((3, 12)), np.empty((n, 4), np.int64)
    fill_lamps(lamps, axes, frames)
    fill_axes(camera[0], camera[1], camera[2], axes)
    fill_boxes(objects, n, camera, axes, camera[3], camera[4], resolution, resolution, boxes)
    for row in range(resolution):
        for column in range(resolution):
            candidates = candidate_objects(column, row, boxes, n)
            kind = pixel_kind(column, row, resolution, camera, axes, frames, objects, n, candidates, coarse)
            offsets = center if kind == 0 else (coarse if kind == 1 else fine)
            total, samples = BLACK, len(offsets) ** 2
            for i in range(samples):
                total = add(total, 1.0, pixel_sample(
                    column, row, i, offsets, kind > 0, resolution, camera, axes, frames, objects, n, candidates
                ))  # fmt: skip
            for c in range(3):
                image[row, column, c] = to_byte(total[c] / samples)


@njit(cache=True, parallel=True)
def _render_all(rows, counts, cameras, lamps, resolution, center, coarse, fine, images):
    for i in prange(len(counts)):
        _render_scene(rows[i], counts[i], cameras[i], lamps[i], resolution, center, coarse, fine, images[i])


def check(resolution: int, antialias: int = 1):
    """Raise ValueError for an antialias other than 1, 2, 3, 4 or a resolution outside 8..4096."""
    if antialias not in ANTIALIAS:
        raise ValueError(f"antialias must be one of {ANTIALIAS}, got {antialias}")
    if not 8 <= resolution <= 4096:
        raise ValueError(f"resolution must be 8..4096, got {resolution}")


def render(
    scenes, resolution: int, antialias: int = 3, backend: str = "fast"
) -> UInt8[np.ndarray, "batch height width 3"]:
    """Images (sRGB bytes) of scenes, antialias^2 samples per pixel of an object, in parallel over scenes.

    A function of its arguments alone: sampling patterns are a fixed sequence shifted by a hash of the pixel. `backend`
    "cuda" runs the same kernels on an NVIDIA GPU; "cycles" asks Blender instead (`antialias` is then unused). Raises
    ValueError for an antialias other than 1, 2, 3, 4, a resolution outside 8..4096 or an unknown backend, RuntimeError
    where the GPU or Blender is missing.
    """
    if isinstance(scenes, clevr_scenes.Scene):
        raise TypeError(f"render takes a list of scenes, as in render([scene], {resolution})[0]")
    if backend not in BACKENDS:
        raise ValueError(f"unknown backend {backend!r}; allowed: {', '.join(BACKENDS)}")
    check(resolution, antialias)
    if backend == "cycles":
        return render_cycles(scenes, resolution)[0]
    if backend == "cuda":
        from lcs_utils.clevr.cuda import render_cuda  # numba's CUDA target is slow to import and seldom needed

        return render_cuda(scenes, resolution, antialias)
    rows, counts, cameras, lamps = clevr_scenes.pack(scenes)
    images = np.empty((len(counts), resolution, resolution, 3), np.uint8)
    torch = sys.modules.get("torch")  # if it is in use: numba shares OpenMP with it and would reset its number of threads
    threads = torch.get_num_threads() if torch else 0
    _render_all(rows, counts, cameras, lamps, resolution, *patterns(antialias), images)
    if torch:
        torch.set_num_threads(threads)
    return images


def object_ids(scene, resolution: int) -> Int[np.ndarray, "height width"]:
    """Index of the object seen at each pixel center, -1 for the floor: masks, boxes, visible pixels follow from it."""
    check(resolution)
    rows, counts, cameras, _ = clevr_scenes.pack([scene])
    ids, depths = np.empty((resolution, resolution), np.int64), np.empty((resolution, resolution))
    camera = cameras[0]
    trace_ids(rows[0], counts[0], camera[:3], camera[3], camera[4], resolution, resolution, ids, depths)
    return ids
