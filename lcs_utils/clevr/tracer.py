"""Ray intersections with CLEVR's objects and curved floor, compiled with numba; arrays in, numbers out.

Objects are rows in the layout of `solids`; a camera is a row too: location, two focal lengths, target.
"""

import math

import numpy as np

from lcs_utils.clevr.kernels import compiled
from lcs_utils.clevr.solids import (  # noqa: F401 (the solids are read from here as well)
    BOUND,
    COS,
    FAR,
    MATERIAL,
    MATERIALS,
    RADIUS,
    RED,
    ROUGH,
    ROW,
    SHAPE,
    SHAPES,
    SIN,
    STRETCH,
    STRETCHED,
    X,
    Y,
    Z,
    bound,
    fill_solid,
    hit_object,
    normal_change,
    object_normal,
)  # fmt: skip

# The floor: a profile z(s), constant across, s = FLOOR_S . (x, y); control points measured on CLEVR's base
# scene.
FLOOR_S = (-0.9032076597, 0.4292037785)
FLOOR_LATERAL = (-29.9, 26.6)
FLOOR_PROFILE = np.array(
    """-9.546 0  -7.635 0  -5.833 0  -4.138 0  -2.544 .001  -1.048 .003  .356 .006  1.67 .011  2.9 .019
    4.048 .031  5.12 .048  6.118 .07  7.047 .099  7.909 .136  8.71 .183  9.451 .241  10.136 .312
    10.769 .397  11.353 .499  11.89 .62  12.385 .761  12.839 .925  13.256 1.114  13.638 1.331
    13.989 1.578  14.31 1.858  14.604 2.174  14.874 2.528  15.121 2.924  15.349 3.365  15.559 3.854
    15.753 4.394  15.934 4.989  16.103 5.642  16.261 6.358  16.412 7.139  16.556 7.991  16.695 8.916
    16.831 9.92  16.964 11.006  17.097 12.179  17.229 13.443  17.364 14.804  17.5 16.265  17.641 17.831
    17.785 19.509  17.935 21.301  18.091 23.215""".split(),
    dtype=np.float64,
).reshape(-1, 2)


def _smooth_profile(points, steps=8):
    """A fine polyline through the control points (Catmull-Rom) and its unit normals (ns, nz) at the
    vertices.
    """
    tangent = np.gradient(points, axis=0)
    u = np.arange(steps)[:, None] / steps
    h00, h10, h01, h11 = 2 * u**3 - 3 * u**2 + 1, u**3 - 2 * u**2 + u, 3 * u**2 - 2 * u**3, u**3 - u**2
    pieces = [
        h00 * p + h10 * m + h01 * q + h11 * n
        for p, q, m, n in zip(points[:-1], points[1:], tangent[:-1], tangent[1:], strict=True)
    ]
    line = np.concatenate([*pieces, points[-1:]])
    along = np.gradient(line, axis=0)
    normal = np.stack([-along[:, 1], along[:, 0]], 1)
    return line, normal / np.linalg.norm(normal, axis=1, keepdims=True)


FLOOR_LINE, _NORMAL = _smooth_profile(FLOOR_PROFILE)
_FS, _FZ = np.ascontiguousarray(FLOOR_LINE[:, 0]), np.ascontiguousarray(FLOOR_LINE[:, 1])
_NS, _NZ = np.ascontiguousarray(_NORMAL[:, 0]), np.ascontiguousarray(_NORMAL[:, 1])


@compiled(fastmath=True, error_model="numpy")
def hit_floor(ox, oy, oz, dx, dy, dz):
    """Distance along the ray to the floor (FAR if it misses) and the floor's unit normal there, as (t, nx,
    ny, nz).
    """
    ax, ay = FLOOR_S
    s0, ds = ax * ox + ay * oy, ax * dx + ay * dy
    t, ns, nz = FAR, 0.0, 1.0
    if dz < 0.0:
        t = -oz / dz
        s = s0 + t * ds
        if s < _FS[0]:
            return FAR, 0.0, 0.0, 1.0
    # beyond the flat part: first vertex above the ray; the profile is convex
    if dz >= 0.0 or (s > -1.0 and ds > 0.0):
        if ds <= 1e-9:
            return FAR, 0.0, 0.0, 1.0
        low, high = 0, len(_FS) - 1
        if ds * (_FZ[high] - oz) - dz * (_FS[high] - s0) < 0.0:
            return FAR, 0.0, 0.0, 1.0
        while high - low > 1:
            k = (low + high) // 2
            if _FS[k] > s0 and ds * (_FZ[k] - oz) - dz * (_FS[k] - s0) >= 0.0:
                high = k
            else:
                low = k
        c0 = ds * (_FZ[low] - oz) - dz * (_FS[low] - s0)
        c1 = ds * (_FZ[high] - oz) - dz * (_FS[high] - s0)
        u = min(max(c0 / (c0 - c1), 0.0), 1.0) if c0 != c1 else 0.0
        s = _FS[low] + u * (_FS[high] - _FS[low])
        t = (s - s0) / ds
        ns, nz = _NS[low] + u * (_NS[high] - _NS[low]), _NZ[low] + u * (_NZ[high] - _NZ[low])
    lateral = -ay * (ox + t * dx) + ax * (oy + t * dy)
    if t <= 0.0 or lateral < FLOOR_LATERAL[0] or lateral > FLOOR_LATERAL[1]:
        return FAR, 0.0, 0.0, 1.0
    return t, ns * ax, ns * ay, nz


@compiled(fastmath=True, error_model="numpy")
def hit_any(ox, oy, oz, dx, dy, dz, objects, n, skip):
    """Nearest object (distance, index) along the ray, index -1 if none; object `skip` is not tested."""
    best, index = FAR, -1
    for k in range(n):
        if k != skip:
            t = hit_object(ox, oy, oz, dx, dy, dz, objects[k])
            if t < best:
                best, index = t, k
    return best, index


@compiled(fastmath=True, error_model="numpy")
def fill_axes(cx, cy, cz, axes):
    """Fill the rows of `axes` with the right, up and backward unit vectors of a camera at (cx, cy, cz) that
    looks at the origin, z up.
    """
    d = math.sqrt(cx * cx + cy * cy + cz * cz)
    axes[2, 0], axes[2, 1], axes[2, 2] = cx / d, cy / d, cz / d
    h = math.sqrt(cx * cx + cy * cy)
    axes[0, 0], axes[0, 1], axes[0, 2] = -cy / h, cx / h, 0.0
    axes[1, 0] = axes[2, 1] * axes[0, 2] - axes[2, 2] * axes[0, 1]
    axes[1, 1] = axes[2, 2] * axes[0, 0] - axes[2, 0] * axes[0, 2]
    axes[1, 2] = axes[2, 0] * axes[0, 1] - axes[2, 1] * axes[0, 0]


@compiled(fastmath=True, error_model="numpy")
def fill_view(camera, axes):
    """Fill `axes` for a camera row, which looks at its target; see `fill_axes`."""
    fill_axes(camera[0] - camera[5], camera[1] - camera[6], camera[2] - camera[7], axes)


@compiled(fastmath=True, error_model="numpy")
def camera_axes(cx, cy, cz):
    """A new array of the axes of a camera that looks at the origin, see `fill_axes`."""
    axes = np.empty((3, 3))
    fill_axes(cx, cy, cz, axes)
    return axes


@compiled(fastmath=True, error_model="numpy")
def fill_boxes(objects, n, camera, axes, fx, fy, width, height, boxes):
    """Fill `boxes` [>= n, 4] with the pixel rectangles [x0, x1, y0, y1) of the objects' bounding spheres."""
    for k in range(n):
        o = objects[k]
        dx, dy, dz = o[X] - camera[0], o[Y] - camera[1], o[Z] - camera[2]
        depth = -(dx * axes[2, 0] + dy * axes[2, 1] + dz * axes[2, 2])
        u = dx * axes[0, 0] + dy * axes[0, 1] + dz * axes[0, 2]
        v = dx * axes[1, 0] + dy * axes[1, 1] + dz * axes[1, 2]
        reach = bound(o)
        near = max(depth - reach, 1e-3)
        far = depth + reach
        x0, x1 = (u - reach) / (near if u < reach else far), (u + reach) / (near if u > -reach else far)
        y0, y1 = (v - reach) / (near if v < reach else far), (v + reach) / (near if v > -reach else far)
        boxes[k, 0] = max(0, int(math.floor((0.5 + fx * x0) * width)) - 1)
        boxes[k, 1] = min(width, int(math.ceil((0.5 + fx * x1) * width)) + 1)
        boxes[k, 2] = max(0, int(math.floor((0.5 - fy * y1) * height)) - 1)
        boxes[k, 3] = min(height, int(math.ceil((0.5 - fy * y0) * height)) + 1)


@compiled(fastmath=True, error_model="numpy")
def trace_ids(objects, n, camera, width, height, ids, depths):
    """Fill `ids` [height, width] with the object seen at each pixel center (-1: none), `depths` with its
    distance.
    """
    axes, fx, fy = np.empty((3, 3)), camera[3], camera[4]
    fill_view(camera, axes)
    ids[:] = -1
    depths[:] = FAR
    boxes = np.empty((n, 4), np.int64)
    fill_boxes(objects, n, camera, axes, fx, fy, width, height, boxes)
    for k in range(n):
        for row in range(boxes[k, 2], boxes[k, 3]):
            for column in range(boxes[k, 0], boxes[k, 1]):
                u = ((column + 0.5) / width - 0.5) / fx
                v = (0.5 - (row + 0.5) / height) / fy
                dx = u * axes[0, 0] + v * axes[1, 0] - axes[2, 0]
                dy = u * axes[0, 1] + v * axes[1, 1] - axes[2, 1]
                dz = u * axes[0, 2] + v * axes[1, 2] - axes[2, 2]
                scale = 1.0 / math.sqrt(dx * dx + dy * dy + dz * dz)
                t = hit_object(
                    camera[0], camera[1], camera[2], dx * scale, dy * scale, dz * scale, objects[k]
                )
                if t < depths[row, column]:
                    depths[row, column] = t
                    ids[row, column] = k
