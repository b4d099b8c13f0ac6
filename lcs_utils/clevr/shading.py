"""Light on CLEVR's floor and objects, compiled with numba: lamps with soft shadows, and reflected rays.

Further bounces are approximated by an ambient term, light from the floor, and neighbors as glowing spheres,
with constants fitted to Cycles. Sample i of a pixel is point i of the R2 sequence, shifted by the pixel's
hash.
"""

import math

import numpy as np

from lcs_utils.clevr.kernels import compiled
from lcs_utils.clevr.tracer import (
    FAR,
    MATERIAL,
    RADIUS,
    RED,
    X,
    Y,
    Z,
    bound,
    fill_axes,
    hit_any,
    hit_floor,
    hit_object,
    object_normal,
)

# Lamps: edge and linear radiance, in the order key, fill, back; the sun is number 3 and has its irradiance
# below.
EDGE = np.array([0.5, 0.5, 1.0])
RADIANCE = np.array(
    [
        [100.0, 93.23092, 81.66636],
        [22.849854, 24.531588, 30.0],
        [12.5, 12.5, 12.5],
        [1.0, 1.0, 1.0],
    ]
)
SUN = np.array([0.4144956, -0.1945835, 0.8890054]) / math.sqrt(0.4144956**2 + 0.1945835**2 + 0.8890054**2)
SUN_TAN, SUN_IRRADIANCE = 0.1, 0.45
FLOOR = (0.8, 0.8, 0.8)  # albedo
# Fitted irradiances, of objects and of the floor: light from the lit floor, times (1 - n_z), and the rest.
BOUNCE = np.array([[0.309, 0.314, 0.302], [0.095, 0.091, 0.101]])
AMBIENT = np.array([[0.024, 0.016, 0.019], [0.064, 0.064, 0.062]])
# what rubber and metal pass on to their neighbors
GLOW = np.array([[0.432, 0.476, 0.476], [0.406, 0.475, 0.359]])
INV_PI = 1.0 / math.pi
BLACK, WHITE = (0.0, 0.0, 0.0), (1.0, 1.0, 1.0)


@compiled(error_model="numpy", inline="always")
def pixel_hash(a, b):
    """A well-mixed 32-bit number for a pixel."""
    h = np.uint32(a * 73856093) ^ np.uint32(b * 19349663)
    h = np.uint32((h ^ (h >> np.uint32(16))) * np.uint32(0x7FEB352D))
    h = np.uint32((h ^ (h >> np.uint32(15))) * np.uint32(0x846CA68B))
    return np.uint32(h ^ (h >> np.uint32(16)))


@compiled(error_model="numpy", inline="always")
def point(h, stream, i):
    """Point i of the R2 sequence, shifted by the pixel's hash; streams (lamps, lobes) have shifts of their
    own.
    """
    u = (h & np.uint32(0xFFFF)) / 65536.0 + 0.618034 * stream + 0.7548776662466927 * i
    v = (h >> np.uint32(16)) / 65536.0 + 0.380197 * stream + 0.5698402909980532 * i
    return u - math.floor(u), v - math.floor(v)


@compiled(fastmath=True, error_model="numpy")
def fill_lamps(lamps, axes, frames):
    """Fill a row of `frames` [3, 12] per area lamp: position, normal to the origin, two half edges; `axes` is
    scratch.
    """
    for l in range(3):
        fill_axes(lamps[l, 0], lamps[l, 1], lamps[l, 2], axes)
        for i in range(3):
            frames[l, i], frames[l, 3 + i] = lamps[l, i], -axes[2, i]
            frames[l, 6 + i], frames[l, 9 + i] = 0.5 * EDGE[l] * axes[0, i], 0.5 * EDGE[l] * axes[1, i]


@compiled(fastmath=True, error_model="numpy", inline="always")
def dot(a, b):
    """Dot product of two vectors, tuples of three."""
    return a[0] * b[0] + a[1] * b[1] + a[2] * b[2]


@compiled(fastmath=True, error_model="numpy", inline="always")
def add(a, share, b):
    """a + share b, channel by channel."""
    return a[0] + share * b[0], a[1] + share * b[1], a[2] + share * b[2]


@compiled(fastmath=True, error_model="numpy", inline="always")
def filtered(a, share, b):
    """share a b, channel by channel."""
    return share * a[0] * b[0], share * a[1] * b[1], share * a[2] * b[2]


@compiled(fastmath=True, error_model="numpy", inline="always")
def paint(o):
    """Color of object row `o`."""
    return o[RED], o[RED + 1], o[RED + 2]


@compiled(fastmath=True, error_model="numpy", inline="always")
def entry(table, i):
    """Row `i` of a table of colors."""
    return table[i, 0], table[i, 1], table[i, 2]


@compiled(fastmath=True, error_model="numpy")
def lamp(l, px, py, pz, frames):
    """Direction to lamp `l`, its distance, and its irradiance (area lamps: per unit radiance) on a facing
    surface.
    """
    if l == 3:
        return SUN[0], SUN[1], SUN[2], FAR, SUN_IRRADIANCE
    f = frames[l]
    dx, dy, dz = f[0] - px, f[1] - py, f[2] - pz
    d2 = dx * dx + dy * dy + dz * dz
    d = math.sqrt(d2)
    cosine = -(dx * f[3] + dy * f[4] + dz * f[5]) / d
    return dx / d, dy / d, dz / d, d, max(cosine, 0.0) * EDGE[l] * EDGE[l] / d2


@compiled(fastmath=True, error_model="numpy")
def blockers(l, px, py, pz, frames, objects, n, skip):
    """Bit set of the objects whose bounding spheres touch the cone from a point to lamp `l`; 0 if none do."""
    wx, wy, wz, distance, _ = lamp(l, px, py, pz, frames)
    spread = SUN_TAN if l == 3 else 0.7072 * EDGE[l] / distance
    found = 0
    for k in range(n):
        if k == skip:
            continue
        o = objects[k]
        radius = bound(o)
        cx, cy, cz = o[X] - px, o[Y] - py, o[Z] - pz
        along = cx * wx + cy * wy + cz * wz
        if along < -radius or along > distance + radius:
            continue
        reach = radius + spread * max(along + radius, 0.0)
        if cx * cx + cy * cy + cz * cz - along * along < reach * reach:
            found |= 1 << k
    return found


@compiled(fastmath=True, error_model="numpy")
def visible(l, px, py, pz, frames, objects, n, skip, h, i, rays):
    """Share of lamp `l` that a point sees, by `rays` shadow rays; none are traced if `blockers` is 0."""
    found = blockers(l, px, py, pz, frames, objects, n, skip)
    if found == 0:
        return 1.0
    seen = 0.0
    for ray in range(rays):
        u, v = point(h, l, i * rays + ray)
        if l == 3:  # a disk around the sun's direction
            radius, phi = SUN_TAN * math.sqrt(u), 2.0 * math.pi * v
            s = math.sqrt(SUN[0] * SUN[0] + SUN[2] * SUN[2])
            ax, az = SUN[2] / s, -SUN[0] / s
            a, b = radius * math.cos(phi), radius * math.sin(phi)
            tx, tz = SUN[0] + a * ax + b * SUN[1] * az, SUN[2] + a * az - b * SUN[1] * ax
            ty = SUN[1] + b * (SUN[2] * ax - SUN[0] * az)
            reach = FAR
            scale = 1.0 / math.sqrt(tx * tx + ty * ty + tz * tz)
        else:
            f = frames[l]
            a, b = 2.0 * u - 1.0, 2.0 * v - 1.0
            tx, ty = f[0] + a * f[6] + b * f[9] - px, f[1] + a * f[7] + b * f[10] - py
            tz = f[2] + a * f[8] + b * f[11] - pz
            reach = math.sqrt(tx * tx + ty * ty + tz * tz)
            scale = 1.0 / reach
        clear = 1.0
        for k in range(n):
            if (
                found >> k & 1
                and hit_object(px, py, pz, tx * scale, ty * scale, tz * scale, objects[k]) < reach
            ):
                clear = 0.0
                break
        seen += clear
    return seen / rays


@compiled(fastmath=True, error_model="numpy")
def indirect(px, py, pz, nx, ny, nz, objects, n, skip):
    """Irradiance from the floor's bounce, the ambient term and the neighbors as glowing spheres."""
    light, free = BLACK, 1.0
    kind = 1 if skip < 0 else 0
    for k in range(n):
        if k == skip:
            continue
        o = objects[k]
        dx, dy, dz = o[X] - px, o[Y] - py, o[Z] - pz
        d2 = dx * dx + dy * dy + dz * dz
        cosine = (dx * nx + dy * ny + dz * nz) / math.sqrt(d2)
        if cosine > 0.0:
            share = min(cosine * o[RADIUS] * o[RADIUS] / d2, 1.0) * free
            free -= share
            light = add(light, share, filtered(entry(GLOW, int(o[MATERIAL])), 1.0, paint(o)))
    return add(add(light, free * (1.0 - nz), entry(BOUNCE, kind)), free, entry(AMBIENT, kind))


@compiled(fastmath=True, error_model="numpy")
def matte(px, py, pz, nx, ny, nz, objects, n, skip, frames, h, i, rays):
    """Irradiance at a point: the lamps, with shadows if rays > 0, and the indirect terms."""
    light = BLACK
    for l in range(4):
        wx, wy, wz, _, e = lamp(l, px, py, pz, frames)
        e *= nx * wx + ny * wy + nz * wz
        if e > 0.0:
            if rays > 0:
                e *= visible(l, px, py, pz, frames, objects, n, skip, h, i, rays)
            light = add(light, e, entry(RADIANCE, l))
    return add(light, 1.0, indirect(px, py, pz, nx, ny, nz, objects, n, skip))


@compiled(fastmath=True, error_model="numpy")
def environment(px, py, pz, dx, dy, dz, objects, n, skip, frames, h, i, depth):
    """Radiance along a reflected ray, and the first hit's distance; metal is followed `depth` more times."""
    tint, first = WHITE, FAR
    for bounce in range(depth + 1):
        t, k = hit_any(px, py, pz, dx, dy, dz, objects, n, skip)
        tf, nx, ny, nz = hit_floor(px, py, pz, dx, dy, dz)
        if bounce == 0:
            first = min(t, tf)
        if k < 0 and tf >= FAR:
            return BLACK, first
        near = min(t, tf)
        px, py, pz = px + near * dx, py + near * dy, pz + near * dz
        albedo = FLOOR
        if tf < t:
            k = -1
        else:
            nx, ny, nz = object_normal(px, py, pz, objects[k])
            albedo = paint(objects[k])
        tint = filtered(tint, 1.0, albedo)
        if k < 0 or objects[k, MATERIAL] == 0.0 or bounce == depth:
            rays = 1 if bounce == 0 else 0
            return filtered(
                tint, INV_PI, matte(px, py, pz, nx, ny, nz, objects, n, k, frames, h, i, rays)
            ), first
        turn = 2.0 * (dx * nx + dy * ny + dz * nz)
        dx, dy, dz = dx - turn * nx, dy - turn * ny, dz - turn * nz
        skip = k
    return BLACK, first
