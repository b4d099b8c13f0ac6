"""What a scene shows: labels for conditions; masks, depth, boxes and visible pixels at the pixel centers of
its image.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from lcs_utils.checks import check_array, check_count, check_items
from lcs_utils.clevr.kernels import compiled
from lcs_utils.clevr.scenes import check_scene, check_scenes, pack, project
from lcs_utils.clevr.tracer import FAR, fill_view, hit_floor, trace_ids

EXTRAS = ("masks", "depth", "boxes")  # arrays that a shard holds on request
MOST = 127  # objects that int8 can count


def labels(scenes, max_objects: int) -> dict[str, np.ndarray]:
    """Arrays that conditions are made from: locations [n, max, 2] (NaN padded), colors [n, max] (-1 padded),
    n_objects [n]. Raises ValueError if a scene has more than max_objects, or max_objects is above 127.
    """
    scenes = check_scenes(scenes)
    largest = max((len(scene.objects) for scene in scenes), default=0)
    check_count("max_objects", max_objects, largest, MOST)
    locations = np.full((len(scenes), max_objects, 2), np.nan, np.float32)
    colors = np.full((len(scenes), max_objects), -1, np.int8)
    for i, scene in enumerate(scenes):
        if scene.objects:
            locations[i, : len(scene.objects)] = project(scene)
            colors[i, : len(scene.objects)] = [list(o.world.colors).index(o.color) for o in scene.objects]
    return {
        "locations": locations,
        "colors": colors,
        "n_objects": np.array([len(s.objects) for s in scenes], np.int8),
    }


def picture_size(resolution: int | Sequence[int]) -> tuple[int, int]:
    """Width and height in pixels of a resolution: one number for a square, or a pair.

    Raises ValueError for anything else, and for sides outside 8..4096.
    """
    sides = tuple(resolution) if isinstance(resolution, list | tuple) else (resolution, resolution)
    whole = all(isinstance(side, int | np.integer) and not isinstance(side, bool) for side in sides)
    if len(sides) != 2 or not whole or not all(8 <= side <= 4096 for side in sides):
        raise ValueError(f"resolution must be 8..4096, got {resolution} (a side, or width and height)")
    return int(sides[0]), int(sides[1])


class Seen(NamedTuple):
    """The object seen at each pixel center (index into the scene's objects, -1: none) and the depth there."""

    ids: Int[np.ndarray, "height width"]
    depth: Float[np.ndarray, "height width"]


@compiled()
def _to_depth(ids, depths, camera):
    """Turn distances along the rays into depths along the view axis, and fill in the floor's."""
    axes, fx, fy = np.empty((3, 3)), camera[3], camera[4]
    fill_view(camera, axes)
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

    Choice: depth is measured along the view axis in scene units, like the third of CLEVR's pixel_coords (not
    along the ray); the floor has its own depth, and a pixel beyond the floor's edge has infinity. A hidden
    object has no pixel. Raises ValueError for a side outside 1..4096.
    """
    check_scene(scene)
    for name, side in (("width", width), ("height", height)):
        check_count(name, side, 1, 4096)
    rows, counts, cameras, _ = pack([scene])
    ids, depths, camera = np.empty((height, width), np.int64), np.empty((height, width)), cameras[0]
    trace_ids(rows[0], counts[0], camera, width, height, ids, depths)
    _to_depth(ids, depths, camera)
    return Seen(ids, depths)


def check_ids(ids: np.ndarray, n_objects: int) -> None:
    """Raise TypeError or ValueError unless `ids` are the indices of `n_objects` objects at pixels, or -1."""
    check_count("n_objects", n_objects)
    check_array("ids", ids, ("height", "width"), "whole")
    if ids.size and not (-1 <= ids.min() and ids.max() < n_objects):
        raise ValueError(
            f"ids must be -1 or less than n_objects = {n_objects}, got {ids.min()} to {ids.max()}"
        )


def visible_pixels(ids: Int[np.ndarray, "height width"], n_objects: int) -> Int[np.ndarray, "n_objects"]:
    """Number of pixels that show each object. Raises ValueError for an index outside -1..n_objects-1."""
    check_ids(ids, n_objects)
    return np.bincount(ids.ravel() + 1, minlength=n_objects + 1)[1:]


def boxes(ids: Int[np.ndarray, "height width"], n_objects: int) -> Int[np.ndarray, "n_objects 4"]:
    """Smallest boxes (x0, y0, x1, y1) in pixels, ends excluded, around the visible part of each object; -1 if
    hidden. Raises as `visible_pixels`.
    """
    check_ids(ids, n_objects)
    found = np.full((n_objects, 4), -1, np.int64)
    for k in range(n_objects):
        y, x = np.nonzero(ids == k)
        if len(x):
            found[k] = x.min(), y.min(), x.max() + 1, y.max() + 1
    return found


def check_extras(extras: Sequence[str]) -> tuple[str, ...]:
    """The requested extra arrays in the order of EXTRAS. Raises ValueError for an unknown name, TypeError for
    a plain string.
    """
    extras = check_items("extras", extras, str, "names")
    unknown = sorted(set(extras) - set(EXTRAS))
    if unknown:
        raise ValueError(f"unknown extras {', '.join(unknown)}; allowed: {', '.join(EXTRAS)}")
    return tuple(name for name in EXTRAS if name in extras)


def annotate(
    scenes: Sequence, resolution: int | Sequence[int], extras: Sequence[str], max_objects: int
) -> dict[str, np.ndarray]:
    """The extra arrays of scenes: masks int8 [n height width] (object index, -1: floor), depth float32 [n
    height width] (scene units along the view axis), boxes int16 [n max 4] (x0 y0 x1 y1 in pixels, ends
    excluded; -1: absent or hidden). Raises as `check_extras`, `trace` and `labels`.
    """
    scenes = check_scenes(scenes)
    largest = max((len(scene.objects) for scene in scenes), default=0)
    check_count("max_objects", max_objects, largest, MOST)
    width, height = picture_size(resolution)
    shapes = {
        "masks": ((height, width), np.int8),
        "depth": ((height, width), np.float32),
        "boxes": ((max_objects, 4), np.int16),
    }
    arrays = {
        name: np.full((len(scenes), *shapes[name][0]), -1, shapes[name][1]) for name in check_extras(extras)
    }
    for i, scene in enumerate(scenes) if arrays else ():
        seen, n = trace(scene, width, height), len(scene.objects)
        for name in arrays:
            if name == "boxes":
                arrays[name][i, :n] = boxes(seen.ids, n)
            else:
                arrays[name][i] = seen.ids if name == "masks" else seen.depth
    return arrays
