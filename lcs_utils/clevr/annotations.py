"""What a scene shows: labels for conditions; masks, depth, boxes and visible pixels at the pixel centers of its image."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int
from numba import njit

from lcs_utils.clevr.scenes import COLORS, pack, project
from lcs_utils.clevr.tracer import FAR, camera_axes, hit_floor, trace_ids

EXTRAS = ("masks", "depth", "boxes")  # arrays that a shard holds on request


def labels(scenes, max_objects: int) -> dict[str, np.ndarray]:
    """What conditions are made of: locations [n, max, 2] (NaN padded), colors [n, max] (-1 padded), n_objects [n]."""
    locations = np.full((len(scenes), max_objects, 2), np.nan, np.float32)
    colors = np.full((len(scenes), max_objects), -1, np.int8)
    for i, scene in enumerate(scenes):
        if scene.objects:
            locations[i, : len(scene.objects)] = project(scene)
            colors[i, : len(scene.objects)] = [COLORS.index(o.color) for o in scene.objects]
    return {"locations": locations, "colors": colors, "n_objects": np.array([len(s.objects) for s in scenes], np.int8)}


class Seen(NamedTuple):
    """The object seen at each pixel center (index into the scene's objects, -1: none) and the depth there."""

    ids: Int[np.ndarray, "height width"]
    depth: Float[np.ndarray, "height width"]


@njit(cache=True)
def _to_depth(ids, depths, camera, fx, fy):
    """Turn distances along the rays into depths along the view axis, and fill in the floor's."""
    axes = camera_axes(camera[0], camera[1], camera[2])
    height, width = ids.shape
    for row in range(height):
        for column in range(width):
            u = ((column + 0.5) / width - 0.5) / fx
            v = (0.5 - (row + 0.5) / height) / fy
            length = np.sqrt(1.0 + u * u + v * v)
            t = depths[row, column]
            if ids[row, column] < 0:
                dx = (u * axes[0, 0] + v * axes[1, 0] - axes[2, 0]) / length
                dy = (u * axes[0, 1] + v * axes[1, 1] - axes[2, 1]) / length
                dz = (u * axes[0, 2] + v * axes[1, 2] - axes[2, 2]) / length
                t = hit_floor(camera[0], camera[1], camera[2], dx, dy, dz)[0]
            depths[row, column] = t / length if t < FAR else np.inf


def trace(scene, width: int, height: int) -> Seen:
    """Object ids and depths of a scene in its own crop, from one ray through each pixel center.

    Choice: depth is measured along the view axis in scene units, as the third of CLEVR's pixel_coords (not along the
    ray); the floor has its own, and a pixel beyond the floor's edge has infinity. A hidden object has no pixel.
    """
    rows, counts, cameras, _ = pack([scene])
    ids, depths, camera = np.empty((height, width), np.int64), np.empty((height, width)), cameras[0]
    trace_ids(rows[0], counts[0], camera[:3], camera[3], camera[4], width, height, ids, depths)
    _to_depth(ids, depths, camera[:3], camera[3], camera[4])
    return Seen(ids, depths)


def visible_pixels(ids: Int[np.ndarray, "height width"], n_objects: int) -> Int[np.ndarray, "n_objects"]:
    """Number of pixels that show each object."""
    return np.bincount(ids.ravel() + 1, minlength=n_objects + 1)[1:]


def boxes(ids: Int[np.ndarray, "height width"], n_objects: int) -> Int[np.ndarray, "n_objects 4"]:
    """Smallest boxes (x0, y0, x1, y1), ends excluded, in pixels, around what is seen of each object; -1 if nothing."""
    found = np.full((n_objects, 4), -1, np.int64)
    for k in range(n_objects):
        y, x = np.nonzero(ids == k)
        if len(x):
            found[k] = x.min(), y.min(), x.max() + 1, y.max() + 1
    return found


def check_extras(extras: Sequence[str]) -> tuple[str, ...]:
    """The wanted extra arrays in the order of EXTRAS. Raises ValueError for an unknown one."""
    unknown = sorted(set(extras) - set(EXTRAS))
    if unknown:
        raise ValueError(f"unknown extras {', '.join(unknown)}; allowed: {', '.join(EXTRAS)}")
    return tuple(name for name in EXTRAS if name in extras)


def annotate(scenes: Sequence, resolution: int, extras: Sequence[str], max_objects: int) -> dict[str, np.ndarray]:
    """The extra arrays of scenes: masks int8 [n res res] (object index, -1: floor), depth float32 [n res res] (scene
    units along the view axis), boxes int16 [n max 4] (x0 y0 x1 y1 in pixels, ends excluded; -1: absent or hidden).
    """
    shapes = {"masks": ((resolution, resolution), np.int8), "depth": ((resolution, resolution), np.float32),
              "boxes": ((max_objects, 4), np.int16)}  # fmt: skip
    arrays = {name: np.full((len(scenes), *shapes[name][0]), -1, shapes[name][1]) for name in check_extras(extras)}
    for i, scene in enumerate(scenes) if arrays else ():
        seen, n = trace(scene, resolution, resolution), len(scene.objects)
        for name in arrays:
            if name == "boxes":
                arrays[name][i, :n] = boxes(seen.ids, n)
            else:
                arrays[name][i] = seen.ids if name == "masks" else seen.depth
    return arrays
