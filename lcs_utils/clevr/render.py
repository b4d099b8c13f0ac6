"""CLEVR's look without Blender: an analytic ray tracer, compiled with numba, fixed patterns in place of chance.

Geometry is in `tracer`, light in `shading` and `materials`. A pixel gets one sample where it shows unshadowed floor,
antialias^2 elsewhere, and four times that on silhouettes and metal. Linear light is clipped and stored as 8-bit sRGB,
as Blender's "Standard" view does.
"""

import math

import numpy as np
from jaxtyping import Int, UInt8
from numba import njit, prange

from lcs_utils.clevr import scenes as clevr_scenes
from lcs_utils.clevr.blender import render_cycles
from lcs_utils.clevr.materials import shade_object
from lcs_utils.clevr.shading import FLOOR_ALBEDO, blockers, lamp_frames, matte, pixel_hash
from lcs_utils.clevr.tracer import (
    FAR, MATERIAL, camera_axes, hit_floor, hit_object, object_normal, pixel_boxes, trace_ids,
)  # fmt: skip

LOOK = 2  # version of the picture that a scene gives; nets trained on one look are tested on it
ANTIALIAS = (1, 2, 3, 4)
BACKENDS = ("fast", "cycles")
_CLAMP = 8.0  # of one sample, so that a few of them stand for a glint's true coverage


def _filter_offsets(antialias, width=3.0):
    """Offsets in pixels at equal quantiles of Cycles' Blackman-Harris filter (its "1.5 px" is half the window)."""
    x = np.linspace(-0.5, 0.5, 20001)
    a = 2 * np.pi * (x + 0.5)
    weight = 0.35875 - 0.48829 * np.cos(a) + 0.14128 * np.cos(2 * a) - 0.01168 * np.cos(3 * a)
    cumulative = np.cumsum(weight) / weight.sum()
    return np.interp((np.arange(antialias) + 0.5) / antialias, cumulative, x) * width


@njit(cache=True, fastmath=True, error_model="numpy", inline="always")
def _direction(column, row, resolution, camera, axes):
    u, v = (column / resolution - 0.5) / camera[3], (0.5 - row / resolution) / camera[4]
    dx = u * axes[0, 0] + v * axes[1, 0] - axes[2, 0]
    dy = u * axes[0, 1] + v * axes[1, 1] - axes[2, 1]
    dz = u * axes[0, 2] + v * axes[1, 2] - axes[2, 2]
    scale = 1.0 / math.sqrt(dx * dx + dy * dy + dz * dz)
    return dx * scale, dy * scale, dz * scale


@njit(cache=True, fastmath=True, error_model="numpy", inline="always")
def _first(camera, dx, dy, dz, objects, n, candidates):
    best, seen = FAR, -1
    for k in range(n):
        if candidates >> k & 1:
            t = hit_object(camera[0], camera[1], camera[2], dx, dy, dz, objects[k])
            if t < best:
                best, seen = t, k
    return best, seen


@njit(cache=True, fastmath=True, error_model="numpy")
def _sample(column, row, resolution, camera, axes, frames, objects, n, candidates, spread, h, i, rays, color):
    """Radiance of one primary ray into `color`."""
    dx, dy, dz = _direction(column, row, resolution, camera, axes)
    t, seen = _first(camera, dx, dy, dz, objects, n, candidates)
    if seen >= 0:
        px, py, pz = camera[0] + t * dx, camera[1] + t * dy, camera[2] + t * dz
        nx, ny, nz = object_normal(px, py, pz, objects[seen])
        footprint = axes[:2] * (t * spread)
        shade_object(px, py, pz, -dx, -dy, -dz, nx, ny, nz, objects, n, seen, frames, footprint, h, i, rays, color)
        return
    t, nx, ny, nz = hit_floor(camera[0], camera[1], camera[2], dx, dy, dz)
    if t >= FAR:
        color[:] = 0.0
        return
    px, py, pz = camera[0] + t * dx, camera[1] + t * dy, camera[2] + t * dz
    matte(px, py, pz, nx, ny, nz, objects, n, -1, frames, h, i, rays, color)
    for c in range(3):
        color[c] *= FLOOR_ALBEDO / math.pi


@njit(cache=True, fastmath=True, error_model="numpy")
def _kind(column, row, resolution, camera, axes, frames, objects, n, candidates, offsets):
    """What a pixel needs: 0 one sample (free floor), 1 the plain pattern, 2 the fine one (a silhouette or metal)."""
    aa = len(offsets)
    first = -2
    if candidates:
        for sub in range(aa * aa):
            dx, dy, dz = _direction(column + offsets[sub % aa], row + offsets[sub // aa], resolution, camera, axes)
            _, seen = _first(camera, dx, dy, dz, objects, n, candidates)
            if first > -2 and seen != first:
                return 2
            first = seen
        if first >= 0:
            return 2 if objects[first, MATERIAL] == 1.0 else 1
    dx, dy, dz = _direction(column, row, resolution, camera, axes)
    t, _, _, _ = hit_floor(camera[0], camera[1], camera[2], dx, dy, dz)
    px, py, pz = camera[0] + t * dx, camera[1] + t * dy, camera[2] + t * dz
    for l in range(4):
        if t < FAR and blockers(l, px, py, pz, frames, objects, n, -1):
            return 1
    return 0


@njit(cache=True, fastmath=True, error_model="numpy")
def _render_scene(objects, n, camera, lamps, resolution, coarse, fine, image):
    axes, frames = camera_axes(camera[0], camera[1], camera[2]), lamp_frames(lamps)
    boxes = pixel_boxes(objects, n, camera, axes, camera[3], camera[4], resolution, resolution)
    color, total = np.zeros(3), np.zeros(3)
    center = np.zeros(1)
    for row in range(resolution):
        for column in range(resolution):
            candidates = 0
            for k in range(n):
                if boxes[k, 0] <= column < boxes[k, 1] and boxes[k, 2] <= row < boxes[k, 3]:
                    candidates |= 1 << k
            kind = _kind(column + 0.5, row + 0.5, resolution, camera, axes, frames, objects, n, candidates, coarse)
            offsets = center if kind == 0 else (coarse if kind == 1 else fine)
            aa = len(offsets)
            rays = 0 if kind == 0 else max(1, 16 // (aa * aa))
            spread = 1.0 / (resolution * camera[3] * aa)
            h = pixel_hash(column, row)
            total[:] = 0.0
            for i in range(aa * aa):
                x, y = column + 0.5 + offsets[i % aa], row + 0.5 + offsets[i // aa]
                _sample(x, y, resolution, camera, axes, frames, objects, n, candidates, spread, h, i, rays, color)
                for c in range(3):
                    total[c] += min(color[c], _CLAMP)
            for c in range(3):
                x = min(total[c] / (aa * aa), 1.0)
                x = 12.92 * x if x <= 0.0031308 else 1.055 * x ** (1.0 / 2.4) - 0.055
                image[row, column, c] = np.uint8(255.0 * x + 0.5)


@njit(cache=True, parallel=True)
def _render_all(rows, counts, cameras, lamps, resolution, coarse, fine, images):
    for i in prange(len(counts)):
        _render_scene(rows[i], counts[i], cameras[i], lamps[i], resolution, coarse, fine, images[i])


def _check(resolution):
    if not 8 <= resolution <= 4096:
        raise ValueError(f"resolution must be 8..4096, got {resolution}")


def render(
    scenes, resolution: int, antialias: int = 3, backend: str = "fast"
) -> UInt8[np.ndarray, "batch height width 3"]:
    """Images (sRGB bytes) of scenes, antialias^2 samples per pixel of an object, in parallel over scenes.

    A function of its arguments alone: sampling patterns are a fixed sequence shifted by a hash of the pixel. `backend`
    "cycles" asks Blender instead (`antialias` is then unused). Raises ValueError for an antialias other than 1, 2, 3,
    4, a resolution outside 8..4096 or an unknown backend.
    """
    if backend not in BACKENDS:
        raise ValueError(f"unknown backend {backend!r}; allowed: {', '.join(BACKENDS)}")
    if antialias not in ANTIALIAS:
        raise ValueError(f"antialias must be one of {ANTIALIAS}, got {antialias}")
    _check(resolution)
    if backend == "cycles":
        return render_cycles(scenes, resolution)[0]
    rows, counts, cameras, lamps = clevr_scenes.pack(scenes)
    images = np.empty((len(counts), resolution, resolution, 3), np.uint8)
    coarse, fine = _filter_offsets(antialias), _filter_offsets(2 * antialias)
    _render_all(rows, counts, cameras, lamps, resolution, coarse, fine, images)
    return images


def object_ids(scene, resolution: int) -> Int[np.ndarray, "height width"]:
    """Index of the object seen at each pixel center, -1 for the floor: masks, boxes, visible pixels follow from it."""
    _check(resolution)
    rows, counts, cameras, _ = clevr_scenes.pack([scene])
    ids, depths = np.empty((resolution, resolution), np.int64), np.empty((resolution, resolution))
    camera = cameras[0]
    trace_ids(rows[0], counts[0], camera[:3], camera[3], camera[4], resolution, resolution, ids, depths)
    return ids
