"""CLEVR's look without Blender: an analytic ray tracer in numba, with fixed sampling patterns.

Geometry is in `tracer`, light in `shading` and `materials`, a pixel's samples in `pixels`; `cuda` runs the
same kernels on a GPU. Linear light is clipped and stored as 8-bit sRGB, like Blender's "Standard" view.
"""

import sys

import numpy as np
from jaxtyping import Int, UInt8
from numba import prange

from lcs_utils.checks import check_choice
from lcs_utils.clevr import scenes as clevr_scenes
from lcs_utils.clevr.annotations import trace
from lcs_utils.clevr.blender import render_cycles
from lcs_utils.clevr.kernels import compiled
from lcs_utils.clevr.pixels import candidate_objects, check, patterns, pixel_kind, pixel_sample, to_byte
from lcs_utils.clevr.shading import BLACK, add, fill_lamps
from lcs_utils.clevr.tracer import fill_boxes, fill_view

LOOK = 2  # version of the rendered look; nets are tested on the look they were trained on
BACKENDS = ("fast", "cuda", "cycles")


@compiled(fastmath=True, error_model="numpy")
def _render_scene(objects, n, camera, lamps, size, center, coarse, fine, image):
    axes, frames, boxes = np.empty((3, 3)), np.empty((3, 12)), np.empty((n, 4), np.int64)
    fill_lamps(lamps, axes, frames)
    fill_view(camera, axes)
    fill_boxes(objects, n, camera, axes, camera[3], camera[4], size[0], size[1], boxes)
    for row in range(size[1]):
        for column in range(size[0]):
            candidates = candidate_objects(column, row, boxes, n)
            kind = pixel_kind(column, row, size, camera, axes, frames, objects, n, candidates, coarse)
            offsets = center if kind == 0 else (coarse if kind == 1 else fine)
            total, samples = BLACK, len(offsets) ** 2
            for i in range(samples):
                total = add(
                    total,
                    1.0,
                    pixel_sample(
                        column,
                        row,
                        i,
                        offsets,
                        kind > 0,
                        size,
                        camera,
                        axes,
                        frames,
                        objects,
                        n,
                        candidates,
                    ),
                )
            for c in range(3):
                image[row, column, c] = to_byte(total[c] / samples)


@compiled(parallel=True)
def _render_all(rows, counts, cameras, lamps, size, center, coarse, fine, images):
    for i in prange(len(counts)):
        _render_scene(rows[i], counts[i], cameras[i], lamps[i], size, center, coarse, fine, images[i])


def render(
    scenes, resolution: int | tuple[int, int], antialias: int = 3, backend: str = "fast"
) -> UInt8[np.ndarray, "batch height width 3"]:
    """Render scenes as sRGB bytes, antialias^2 samples per pixel of an object, in parallel over scenes.

    `resolution` is the side of a square, or (width, height); the scene's crop decides what it shows ("v1" at
    (480, 320) is the published images' frame).

    Deterministic in its arguments: sampling patterns are a fixed sequence shifted by a hash of the pixel.
    `backend` "cuda" runs the same kernels on an NVIDIA GPU; "cycles" renders with Blender instead
    (`antialias` is then unused). Raises ValueError for an antialias other than 1, 2, 3, 4, a resolution
    outside 8..4096 or an unknown backend, RuntimeError if the GPU or Blender is missing.
    """
    if isinstance(scenes, clevr_scenes.Scene):
        raise TypeError(f"render takes a list of scenes, as in render([scene], {resolution})[0]")
    scenes = clevr_scenes.check_scenes(scenes)
    check_choice("backend", backend, BACKENDS)
    size = check(resolution, antialias)
    if backend == "cycles":
        return render_cycles(scenes, resolution)[0]
    if backend == "cuda":
        # numba's CUDA target is slow to import and seldom needed
        from lcs_utils.clevr.cuda import render_cuda

        return render_cuda(scenes, resolution, antialias)
    rows, counts, cameras, lamps = clevr_scenes.pack(scenes)
    images = np.empty((len(counts), size[1], size[0], 3), np.uint8)
    # numba shares OpenMP with torch, if it is loaded, and would reset its number of threads
    torch = sys.modules.get("torch")
    threads = torch.get_num_threads() if torch else 0
    _render_all(rows, counts, cameras, lamps, size, *patterns(antialias), images)
    if torch:
        torch.set_num_threads(threads)
    return images


def object_ids(scene, resolution: int | tuple[int, int]) -> Int[np.ndarray, "height width"]:
    """Index of the object seen at each pixel center, -1 for the floor; masks and boxes follow from it."""
    return trace(scene, *check(resolution)).ids
