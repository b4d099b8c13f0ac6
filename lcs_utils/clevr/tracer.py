"""Rays against CLEVR's shapes and its swept floor, compiled with numba; arrays in, numbers out.

An object is one row of a float array: shape (index into SHAPES), material (index into MATERIALS), x, y, z, radius,
cos and sin of its rotation, linear R, G, B. Every shape is convex and is found by a closed form (sphere) or by Newton's
method, which on a convex function approaches the first root from one side and so cannot skip it. All kernels here and in
`shading`, `materials`, `pixels` divide as numpy does (`error_model`): a sixth faster than with Python's checks for zero.
"""

import math

import numpy as np
from numba import njit

SHAPES = ("sphere", "cube", "cylinder")
MATERIALS = ("rubber", "metal")
SHAPE, MATERIAL, X, Y, Z, RADIUS, COS, SIN, RED = 0, 1, 2, 3, 4, 5, 6, 7, 8
ROW = 11
# Radius of a sphere around each unit shape: the L3-rounded cube's corner, the rounded cylinder's rim.
BOUND = np.array([1.0, 1.6, 1.395])
FAR = 1e9

# The floor: a profile z(s), constant across, s = FLOOR_S . (x, y); control points measured on CLEVR's base scene.
FLOOR_S = (-0.9032076597, 0.4292037785)
FLOOR_LATERAL = (-29.9, 26.6)
FLOOR_PROFILE = np.array(
    """-9.546 0 -7.635 0 -5.833 0 -4.138 0 -2.544 .001 -1.048 .003 .356 .006 1.67 .011 2.9 .019 4.048 .031 5.12 .048
    6.118 .07 7.047 .099 7.909 .136 8.71 .183 9.451 .241 10.136 .312 10.769 .397 11.353 .499 11.89 .62 12.385 .761
    12.839 .925 13.256 1.114 13.638 1.331 13.989 1.578 14.31 1.858 14.604 2.174 14.874 2.528 15.121 2.924 15.349 3.365
    15.559 3.854 15.753 4.394 15.934 4.989 16.103 5.642 16.261 6.358 16.412 7.139 16.556 7.991 16.695 8.916
    16.831 9.92 16.964 11.006 17.097 12.179 17.229 13.443 17.364 14.804 17.5 16.265 17.641 17.831 17.785 19.509
    17.935 21.301 18.091 23.215""".split(),
    dtype=np.float64,
).reshape(-1, 2)


def _smooth_profile(points, steps=8):
    """A fine polyline through the control points (Catmull-Rom) and its unit normals (ns, nz) at the vertices."""
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


@njit(cache=True, fastmath=True, error_model="numpy", inline="always")
def _cube(px, py, pz, dx, dy, dz):
    t0, t1 = 0.0, FAR
    for axis in range(3):
        p, d = (px, dx) if axis == 0 else ((py, dy) if axis == 1 else (pz, dz))
        if abs(d) < 1e-12:
            if abs(p) > 1.0:
                return FAR
        else:
            a, b = (-1.0 - p) / d, (1.0 - p) / d
            t0, t1 = max(t0, min(a, b)), min(t1, max(a, b))
    if t0 >= t1:
        return FAR
    t = t0
    for _ in range(24):
        x, y, z = px + t * dx, py + t * dy, pz + t * dz
        a, b, c = max(abs(x) - 0.75, 0.0), max(abs(y) - 0.75, 0.0), max(abs(z) - 0.75, 0.0)
        f = a * a * a + b * b * b + c * c * c - 0.015625
        if f < 1e-5:
            return t
        slope = a * a * math.copysign(dx, x * dx) + b * b * math.copysign(dy, y * dy)
        slope += c * c * math.copysign(dz, z * dz)
        if slope >= 0.0:
            return FAR
        t -= f / (3.0 * slope)
        if t > t1:
            return FAR
    return t


@njit(cache=True, fastmath=True, error_model="numpy", inline="always")
def _cylinder(px, py, pz, dx, dy, dz):
    t0, t1 = 0.0, FAR
    if abs(dz) < 1e-12:
        if abs(pz) > 1.0:
            return FAR
    else:
        a, b = (-1.0 - pz) / dz, (1.0 - pz) / dz
        t0, t1 = max(t0, min(a, b)), min(t1, max(a, b))
    a = dx * dx + dy * dy
    c = px * px + py * py - 1.0
    if a < 1e-12:
        if c > 0.0:
            return FAR
    else:
        b = px * dx + py * dy
        disc = b * b - a * c
        if disc <= 0.0:
            return FAR
        root = math.sqrt(disc)
        t0, t1 = max(t0, (-b - root) / a), min(t1, (-b + root) / a)
    if t0 >= t1:
        return FAR
    t = t0
    for _ in range(24):
        x, y, z = px + t * dx, py + t * dy, pz + t * dz
        rho = math.sqrt(x * x + y * y)
        u, v = max(rho - 0.9, 0.0) * 10.0, max(abs(z) - 0.9, 0.0) * 10.0
        u3, v3 = u * u * u, v * v * v
        f = u3 * u + v3 * v - 1.0
        if f < 1e-3:
            return t
        slope = 40.0 * (u3 * (x * dx + y * dy) / max(rho, 1e-9) + v3 * math.copysign(dz, z * dz))
        if slope >= 0.0:
            return FAR
        t -= f / slope
        if t > t1:
            return FAR
    return t


@njit(cache=True, fastmath=True, error_model="numpy")
def hit_object(ox, oy, oz, dx, dy, dz, o):
    """Distance along the unit ray to object row `o`, or FAR."""
    r = o[RADIUS]
    px, py, pz = (ox - o[X]) / r, (oy - o[Y]) / r, (oz - o[Z]) / r
    b = px * dx + py * dy + pz * dz
    shape = int(o[SHAPE])
    bound = BOUND[shape]
    c = px * px + py * py + pz * pz - bound * bound
    if c > 0.0 and b > 0.0:
        return FAR
    disc = b * b - c
    if disc < 0.0:
        return FAR
    if shape == 0:
        t = -b - math.sqrt(disc)
        return t * r if t > 0.0 else FAR
    if shape == 1:
        cs, sn = o[COS], o[SIN]
        t = _cube(cs * px + sn * py, cs * py - sn * px, pz, cs * dx + sn * dy, cs * dy - sn * dx, dz)
    else:
        t = _cylinder(px, py, pz, dx, dy, dz)
    return t * r if t < FAR else FAR


@njit(cache=True, fastmath=True, error_model="numpy")
def object_normal(x, y, z, o):
    """Outward unit normal of object row `o` at a point on it."""
    r = o[RADIUS]
    px, py, pz = (x - o[X]) / r, (y - o[Y]) / r, (z - o[Z]) / r
    shape = int(o[SHAPE])
    if shape == 1:
        cs, sn = o[COS], o[SIN]
        qx, qy = cs * px + sn * py, cs * py - sn * px
        a, b, c = max(abs(qx) - 0.75, 0.0), max(abs(qy) - 0.75, 0.0), max(abs(pz) - 0.75, 0.0)
        qx, qy, pz = math.copysign(a * a, qx), math.copysign(b * b, qy), math.copysign(c * c, pz)
        px, py = cs * qx - sn * qy, sn * qx + cs * qy
    elif shape == 2:
        rho = max(math.sqrt(px * px + py * py), 1e-9)
        u, v = max(rho - 0.9, 0.0), max(abs(pz) - 0.9, 0.0)
        px, py, pz = px / rho * u * u * u, py / rho * u * u * u, math.copysign(v * v * v, pz)
    n = 1.0 / max(math.sqrt(px * px + py * py + pz * pz), 1e-12)
    return px * n, py * n, pz * n


@njit(cache=True, fastmath=True, error_model="numpy")
def normal_change(x, y, z, tx, ty, tz, o):
    """How the unit normal of object row `o` changes when its point moves by the tangent (tx, ty, tz)."""
    r = o[RADIUS]
    shape = int(o[SHAPE])
    if shape == 0:
        return tx / r, ty / r, tz / r
    px, py, pz = (x - o[X]) / r, (y - o[Y]) / r, (z - o[Z]) / r
    cs, sn = (o[COS], o[SIN]) if shape == 1 else (1.0, 0.0)
    px, py, ux, uy, uz = cs * px + sn * py, cs * py - sn * px, cs * tx + sn * ty, cs * ty - sn * tx, tz
    if shape == 1:
        a, b, c = max(abs(px) - 0.75, 0.0), max(abs(py) - 0.75, 0.0), max(abs(pz) - 0.75, 0.0)
        gx, gy, gz = math.copysign(a * a, px), math.copysign(b * b, py), math.copysign(c * c, pz)
        ux, uy, uz = 2.0 * a * ux, 2.0 * b * uy, 2.0 * c * uz
    else:
        rho = max(math.sqrt(px * px + py * py), 1e-9)
        a, c = max(rho - 0.9, 0.0), max(abs(pz) - 0.9, 0.0)
        ex, ey = px / rho, py / rho
        gx, gy, gz = ex * a * a * a, ey * a * a * a, math.copysign(c * c * c, pz)
        radial, around = 3.0 * a * a * (ux * ex + uy * ey), a * a * a / rho * (uy * ex - ux * ey)
        ux, uy, uz = radial * ex - around * ey, radial * ey + around * ex, 3.0 * c * c * uz
    g = 1.0 / max(math.sqrt(gx * gx + gy * gy + gz * gz), 1e-12)
    gx, gy, gz, ux, uy, uz = gx * g, gy * g, gz * g, ux * g / r, uy * g / r, uz * g / r
    dot = gx * ux + gy * uy + gz * uz
    ux, uy, uz = ux - dot * gx, uy - dot * gy, uz - dot * gz
    return cs * ux - sn * uy, sn * ux + cs * uy, uz


@njit(cache=True, fastmath=True, error_model="numpy")
def hit_floor(ox, oy, oz, dx, dy, dz):
    """Distance along the ray to the floor (FAR if it leaves) and the floor's unit normal there, as (t, nx, ny, nz)."""
    ax, ay = FLOOR_S
    s0, ds = ax * ox + ay * oy, ax * dx + ay * dy
    t, ns, nz = FAR, 0.0, 1.0
    if dz < 0.0:
        t = -oz / dz
        s = s0 + t * ds
        if s < _FS[0]:
            return FAR, 0.0, 0.0, 1.0
    if dz >= 0.0 or (s > -1.0 and ds > 0.0):  # beyond the flat part: first vertex above the ray; the profile is convex
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


@njit(cache=True, fastmath=True, error_model="numpy")
def hit_any(ox, oy, oz, dx, dy, dz, objects, n, skip):
    """Nearest object (distance, index) along the ray, index -1 if none; object `skip` is not tested."""
    best, index = FAR, -1
    for k in range(n):
        if k != skip:
            t = hit_object(ox, oy, oz, dx, dy, dz, objects[k])
            if t < best:
                best, index = t, k
    return best, index


@njit(cache=True, fastmath=True, error_model="numpy")
def fill_axes(cx, cy, cz, axes):
    """Right, up and backward unit vectors, as rows, of a camera at (cx, cy, cz) that looks at the origin, z up."""
    d = math.sqrt(cx * cx + cy * cy + cz * cz)
    axes[2, 0], axes[2, 1], axes[2, 2] = cx / d, cy / d, cz / d
    h = math.sqrt(cx * cx + cy * cy)
    axes[0, 0], axes[0, 1], axes[0, 2] = -cy / h, cx / h, 0.0
    axes[1, 0] = axes[2, 1] * axes[0, 2] - axes[2, 2] * axes[0, 1]
    axes[1, 1] = axes[2, 2] * axes[0, 0] - axes[2, 0] * axes[0, 2]
    axes[1, 2] = axes[2, 0] * axes[0, 1] - axes[2, 1] * axes[0, 0]


@njit(cache=True, fastmath=True, error_model="numpy")
def camera_axes(cx, cy, cz):
    """A new array of a camera's axes, see `fill_axes`."""
    axes = np.empty((3, 3))
    fill_axes(cx, cy, cz, axes)
    return axes


@njit(cache=True, fastmath=True, error_model="numpy")
def fill_boxes(objects, n, camera, axes, fx, fy, width, height, boxes):
    """For each object the pixel rectangle [x0, x1, y0, y1) that holds its bounding sphere's image; boxes [>= n, 4]."""
    for k in range(n):
        o = objects[k]
        dx, dy, dz = o[X] - camera[0], o[Y] - camera[1], o[Z] - camera[2]
        depth = -(dx * axes[2, 0] + dy * axes[2, 1] + dz * axes[2, 2])
        u = dx * axes[0, 0] + dy * axes[0, 1] + dz * axes[0, 2]
        v = dx * axes[1, 0] + dy * axes[1, 1] + dz * axes[1, 2]
        bound = BOUND[int(o[SHAPE])] * o[RADIUS]
        near = max(depth - bound, 1e-3)
        far = depth + bound
        x0, x1 = (u - bound) / (near if u < bound else far), (u + bound) / (near if u > -bound else far)
        y0, y1 = (v - bound) / (near if v < bound else far), (v + bound) / (near if v > -bound else far)
        boxes[k, 0] = max(0, int(math.floor((0.5 + fx * x0) * width)) - 1)
        boxes[k, 1] = min(width, int(math.ceil((0.5 + fx * x1) * width)) + 1)
        boxes[k, 2] = max(0, int(math.floor((0.5 - fy * y1) * height)) - 1)
        boxes[k, 3] = min(height, int(math.ceil((0.5 - fy * y0) * height)) + 1)


@njit(cache=True, fastmath=True, error_model="numpy")
def trace_ids(objects, n, camera, fx, fy, width, height, ids, depths):
    """Fill `ids` [height, width] with the object seen at each pixel center (-1: none), `depths` with its distance."""
    axes = camera_axes(camera[0], camera[1], camera[2])
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
                t = hit_object(camera[0], camera[1], camera[2], dx * scale, dy * scale, dz * scale, objects[k])
                if t < depths[row, column]:
                    depths[row, column] = t
                    ids[row, column] = k
