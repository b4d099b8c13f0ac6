"""Ray intersections with CLEVR's solids in numba: sphere, rounded cube, rounded cylinder, also stretched.

An object is one row of a float array: shape (index into SHAPES), material (index into MATERIALS), x, y, z,
radius, cos and sin of its rotation, linear R, G, B, roughness, whether it is stretched, and by how much along
its own x, y, z. Every solid is convex and is found by a closed form (sphere) or by Newton's method, which on
a convex function approaches the first root from one side and so cannot skip it. All kernels here and in
`tracer`, `shading`, `materials`, `pixels` divide as numpy does (`error_model`): a sixth faster than with
Python's checks for zero.
"""

import math

import numpy as np

from lcs_utils.clevr.kernels import compiled

SHAPES = ("sphere", "cube", "cylinder")
MATERIALS = ("rubber", "metal")
SHAPE, MATERIAL, X, Y, Z, RADIUS, COS, SIN, RED = 0, 1, 2, 3, 4, 5, 6, 7, 8
ROUGH, STRETCHED, STRETCH, ROW = 11, 12, 13, 16
# Radius of a sphere around each unit shape: the L3-rounded cube's corner, the rounded cylinder's rim.
BOUND = np.array([1.0, 1.6, 1.395])
FAR = 1e9


@compiled(fastmath=True, error_model="numpy", inline="always")
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


@compiled(fastmath=True, error_model="numpy", inline="always")
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
        # Choice: a rim of exponent 4, which takes products only; CLEVR's has about 4.2, at most 0.001 away.
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


@compiled(error_model="numpy", inline="always")
def bound(o):
    """Radius of a sphere around object row `o`."""
    r = BOUND[int(o[SHAPE])] * o[RADIUS]
    return r * max(o[STRETCH], max(o[STRETCH + 1], o[STRETCH + 2])) if o[STRETCHED] == 1.0 else r


@compiled(error_model="numpy")
def fill_solid(o, shape, x, y, r, degrees):
    """Set the geometry of object row `o`, standing on the floor; `shape` holds its solid and stretch."""
    o[SHAPE], o[X], o[Y], o[Z], o[RADIUS] = shape[0], x, y, r * shape[3], r
    o[COS], o[SIN] = math.cos(degrees), math.sin(degrees)
    o[STRETCH], o[STRETCH + 1], o[STRETCH + 2] = shape[1], shape[2], shape[3]
    o[STRETCHED] = 0.0 if shape[1] == 1.0 and shape[2] == 1.0 and shape[3] == 1.0 else 1.0


@compiled(error_model="numpy")
def _inside(x, y, z, o):
    """A vector in the coordinates in which the stretched solid is the unit solid."""
    cs, sn, r = o[COS], o[SIN], o[RADIUS]
    return (
        (cs * x + sn * y) / (r * o[STRETCH]),
        (cs * y - sn * x) / (r * o[STRETCH + 1]),
        z / (r * o[STRETCH + 2]),
    )


@compiled(error_model="numpy")
def _hit_stretched(ox, oy, oz, dx, dy, dz, o):
    px, py, pz = _inside(ox - o[X], oy - o[Y], oz - o[Z], o)
    dx, dy, dz = _inside(dx, dy, dz, o)
    speed = math.sqrt(dx * dx + dy * dy + dz * dz)
    dx, dy, dz = dx / speed, dy / speed, dz / speed
    shape = int(o[SHAPE])
    b = px * dx + py * dy + pz * dz
    c = px * px + py * py + pz * pz - BOUND[shape] * BOUND[shape]
    disc = b * b - c
    if disc < 0.0 or (c > 0.0 and b > 0.0):
        return FAR
    if shape == 0:
        t = -b - math.sqrt(disc)
        return t / speed if t > 0.0 else FAR
    t = _cube(px, py, pz, dx, dy, dz) if shape == 1 else _cylinder(px, py, pz, dx, dy, dz)
    return t / speed if t < FAR else FAR


@compiled(error_model="numpy")
def _stretched_normal(x, y, z, o):
    px, py, pz = _inside(x - o[X], y - o[Y], z - o[Z], o)
    if o[SHAPE] == 1.0:
        a, b, c = max(abs(px) - 0.75, 0.0), max(abs(py) - 0.75, 0.0), max(abs(pz) - 0.75, 0.0)
        px, py, pz = math.copysign(a * a, px), math.copysign(b * b, py), math.copysign(c * c, pz)
    elif o[SHAPE] == 2.0:
        rho = max(math.sqrt(px * px + py * py), 1e-9)
        u, v = max(rho - 0.9, 0.0), max(abs(pz) - 0.9, 0.0)
        px, py, pz = px / rho * u * u * u, py / rho * u * u * u, math.copysign(v * v * v, pz)
    px, py, pz = px / o[STRETCH], py / o[STRETCH + 1], pz / o[STRETCH + 2]
    cs, sn = o[COS], o[SIN]
    px, py = cs * px - sn * py, sn * px + cs * py
    n = 1.0 / max(math.sqrt(px * px + py * py + pz * pz), 1e-12)
    return px * n, py * n, pz * n


@compiled(error_model="numpy")
def _stretched_normal_change(x, y, z, tx, ty, tz, o):
    """`normal_change` of a stretched solid, by a finite difference: few scenes contain any."""
    size = math.sqrt(tx * tx + ty * ty + tz * tz)
    if size < 1e-12:
        return 0.0, 0.0, 0.0
    step = 1e-4 * o[RADIUS] / size
    ax, ay, az = _stretched_normal(x - step * tx, y - step * ty, z - step * tz, o)
    bx, by, bz = _stretched_normal(x + step * tx, y + step * ty, z + step * tz, o)
    return (bx - ax) / (2.0 * step), (by - ay) / (2.0 * step), (bz - az) / (2.0 * step)


@compiled(fastmath=True, error_model="numpy")
def hit_object(ox, oy, oz, dx, dy, dz, o):
    """Distance along the unit ray to object row `o`, or FAR."""
    if o[STRETCHED] == 1.0:
        return _hit_stretched(ox, oy, oz, dx, dy, dz, o)
    r = o[RADIUS]
    px, py, pz = (ox - o[X]) / r, (oy - o[Y]) / r, (oz - o[Z]) / r
    b = px * dx + py * dy + pz * dz
    shape = int(o[SHAPE])
    edge = BOUND[shape]
    c = px * px + py * py + pz * pz - edge * edge
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


@compiled(fastmath=True, error_model="numpy")
def object_normal(x, y, z, o):
    """Outward unit normal of object row `o` at a point on it."""
    if o[STRETCHED] == 1.0:
        return _stretched_normal(x, y, z, o)
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


@compiled(fastmath=True, error_model="numpy")
def normal_change(x, y, z, tx, ty, tz, o):
    """How the unit normal of object row `o` changes when its point moves by the tangent (tx, ty, tz)."""
    if o[STRETCHED] == 1.0:
        return _stretched_normal_change(x, y, z, tx, ty, tz, o)
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
