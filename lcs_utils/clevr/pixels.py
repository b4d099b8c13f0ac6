"""One pixel, compiled with numba for CPU and for CUDA: its kind, its samples, its bytes.

A pixel gets one sample where it shows unshadowed floor, antialias^2 elsewhere, and four times that on
silhouettes and metal. No kernel used here allocates memory, so that the same source runs in a CUDA thread.
"""

import math

import numpy as np

from lcs_utils.checks import check_count
from lcs_utils.clevr.annotations import picture_size
from lcs_utils.clevr.kernels import compiled
from lcs_utils.clevr.materials import shade_object
from lcs_utils.clevr.shading import BLACK, FLOOR, INV_PI, blockers, filtered, matte, pixel_hash
from lcs_utils.clevr.tracer import FAR, MATERIAL, hit_floor, hit_object, object_normal

ANTIALIAS = (1, 2, 3, 4)
CLAMP = 8.0  # most radiance of a sample, so that a few stand for a glint's true coverage


def _filter_offsets(antialias, width=3.0):
    """Offsets in pixels at equal quantiles of Cycles' Blackman-Harris filter (its "1.5 px" is half the
    window).
    """
    x = np.linspace(-0.5, 0.5, 20001)
    a = 2 * np.pi * (x + 0.5)
    weight = 0.35875 - 0.48829 * np.cos(a) + 0.14128 * np.cos(2 * a) - 0.01168 * np.cos(3 * a)
    cumulative = np.cumsum(weight) / weight.sum()
    return np.interp((np.arange(antialias) + 0.5) / antialias, cumulative, x) * width


def check_antialias(antialias: int) -> int:
    """One of ANTIALIAS. Raises ValueError for another number, TypeError for anything but a whole number."""
    antialias = check_count("antialias", antialias, None)
    if antialias not in ANTIALIAS:
        raise ValueError(f"antialias must be one of {ANTIALIAS}, got {antialias}")
    return antialias


def check(resolution: int | tuple[int, int], antialias: int = 1) -> tuple[int, int]:
    """Width and height. Raises as `check_antialias`, and ValueError for a bad resolution (`picture_size`)."""
    check_antialias(antialias)
    return picture_size(resolution)


def patterns(antialias):
    """Offsets of samples along each axis, in pixels: for unshadowed floor, for other pixels, for silhouettes
    and metal. Raises as `check_antialias`.
    """
    check_antialias(antialias)
    return np.zeros(1), _filter_offsets(antialias), _filter_offsets(2 * antialias)


@compiled(fastmath=True, error_model="numpy", inline="always")
def _direction(column, row, size, camera, axes):
    u, v = (column / size[0] - 0.5) / camera[3], (0.5 - row / size[1]) / camera[4]
    dx = u * axes[0, 0] + v * axes[1, 0] - axes[2, 0]
    dy = u * axes[0, 1] + v * axes[1, 1] - axes[2, 1]
    dz = u * axes[0, 2] + v * axes[1, 2] - axes[2, 2]
    scale = 1.0 / math.sqrt(dx * dx + dy * dy + dz * dz)
    return dx * scale, dy * scale, dz * scale


@compiled(fastmath=True, error_model="numpy", inline="always")
def _first(camera, dx, dy, dz, objects, n, candidates):
    best, seen = FAR, -1
    for k in range(n):
        if candidates >> k & 1:
            t = hit_object(camera[0], camera[1], camera[2], dx, dy, dz, objects[k])
            if t < best:
                best, seen = t, k
    return best, seen


@compiled(fastmath=True, error_model="numpy")
def _radiance(column, row, size, camera, axes, frames, objects, n, candidates, spread, h, i, rays):
    """Radiance of one primary ray."""
    dx, dy, dz = _direction(column, row, size, camera, axes)
    t, seen = _first(camera, dx, dy, dz, objects, n, candidates)
    if seen >= 0:
        px, py, pz = camera[0] + t * dx, camera[1] + t * dy, camera[2] + t * dz
        nx, ny, nz = object_normal(px, py, pz, objects[seen])
        view = -dx, -dy, -dz
        return shade_object(
            px, py, pz, *view, nx, ny, nz, objects, n, seen, frames, axes, t * spread, h, i, rays
        )
    t, nx, ny, nz = hit_floor(camera[0], camera[1], camera[2], dx, dy, dz)
    if t >= FAR:
        return BLACK
    px, py, pz = camera[0] + t * dx, camera[1] + t * dy, camera[2] + t * dz
    light = matte(px, py, pz, nx, ny, nz, objects, n, -1, frames, h, i, rays)
    return filtered(light, INV_PI, FLOOR)


@compiled(fastmath=True, error_model="numpy")
def pixel_kind(column, row, size, camera, axes, frames, objects, n, candidates, offsets):
    """Kind of a pixel: 0 one sample (unshadowed floor), 1 the coarse pattern, 2 the fine one (a silhouette or
    metal).
    """
    column, row = column + 0.5, row + 0.5
    aa = len(offsets)
    first = -2
    if candidates:
        for sub in range(aa * aa):
            dx, dy, dz = _direction(column + offsets[sub % aa], row + offsets[sub // aa], size, camera, axes)
            _, seen = _first(camera, dx, dy, dz, objects, n, candidates)
            if first > -2 and seen != first:
                return 2
            first = seen
        if first >= 0:
            return 2 if objects[first, MATERIAL] == 1.0 else 1
    dx, dy, dz = _direction(column, row, size, camera, axes)
    t, _, _, _ = hit_floor(camera[0], camera[1], camera[2], dx, dy, dz)
    px, py, pz = camera[0] + t * dx, camera[1] + t * dy, camera[2] + t * dz
    for l in range(4):
        if t < FAR and blockers(l, px, py, pz, frames, objects, n, -1):
            return 1
    return 0


@compiled(fastmath=True, error_model="numpy", inline="always")
def candidate_objects(column, row, boxes, n):
    """Bit set of the objects whose rectangle contains a pixel."""
    found = 0
    for k in range(n):
        if boxes[k, 0] <= column < boxes[k, 1] and boxes[k, 2] <= row < boxes[k, 3]:
            found |= 1 << k
    return found


@compiled(fastmath=True, error_model="numpy")
def pixel_sample(column, row, i, offsets, shadows, size, camera, axes, frames, objects, n, candidates):
    """Clamped radiance of sample i of a pixel's len(offsets)^2; `shadows` False: no lamp is hidden."""
    aa = len(offsets)
    rays = max(1, 16 // (aa * aa)) if shadows else 0
    spread = 1.0 / (size[0] * camera[3] * aa)
    x, y, h = column + 0.5 + offsets[i % aa], row + 0.5 + offsets[i // aa], pixel_hash(column, row)
    r, g, b = _radiance(x, y, size, camera, axes, frames, objects, n, candidates, spread, h, i, rays)
    return min(r, CLAMP), min(g, CLAMP), min(b, CLAMP)


@compiled(fastmath=True, error_model="numpy")
def to_byte(x):
    """Linear light, clipped at 1, as 8-bit sRGB."""
    x = min(x, 1.0)
    x = 12.92 * x if x <= 0.0031308 else 1.055 * x ** (1.0 / 2.4) - 0.055
    return np.uint8(255.0 * x + 0.5)
