"""CLEVR's look without Blender: an analytic ray tracer, compiled with numba, fixed patterns in place of random sampling.

Lambertian floor and "Rubber" (diffuse, Ashikhmin velvet, Fresnel-weighted Beckmann gloss), "MyMetal" (GGX lobes of alpha
0.2 and 0.01), three square area lamps and a sun with soft shadows, one traced reflection and a flat second one, a
fitted ambient term and bounce light from sphere proxies. Linear light is clipped and stored as 8-bit sRGB.
"""

import math

import numpy as np
from jaxtyping import Int, UInt8
from numba import njit, prange

from lcs_utils.clevr import scenes as clevr_scenes
from lcs_utils.clevr.tracer import (
    BOUND, COS, FAR, MATERIAL, RADIUS, RED, SHAPE, X, Y, Z,
    camera_axes, hit_any, hit_floor, hit_object, object_normal, pixel_boxes, trace_ids,
)  # fmt: skip

LOOK = 1  # version of the picture that a scene gives; nets trained on one look are tested on it
ANTIALIAS = (1, 2, 3, 4)

# Lamps: edge, linear radiance; order key, fill, back, then the sun.
_EDGE = np.array([0.5, 0.5, 1.0])
_RADIANCE = np.array([
    [100.0, 93.23092, 81.66636], [22.849854, 24.531588, 30.0], [12.5, 12.5, 12.5],
])  # fmt: skip
_SUN = np.array([0.4144956, -0.1945835, 0.8890054]) / math.hypot(0.4144956, -0.1945835, 0.8890054)
_SUN_TAN, _SUN_IRRADIANCE = 0.1, 0.45
_FLOOR_ALBEDO = 0.8
_BOUNCE = np.array([0.312, 0.304, 0.288])  # light from the lit floor on a surface: times (1 - n_z)
_AMBIENT = 0.06
_PROXY = 0.5  # mean irradiance of an object seen as a sphere by its neighbors
_CLAMP = 4.0  # of one sub-sample, so that a few of them stand for a glint's true coverage
_INV_PI = 1.0 / math.pi


def _filter_offsets(antialias, width=1.5):
    """Sub-pixel offsets at equal quantiles of Blender's Blackman-Harris filter of the given width in pixels."""
    x = np.linspace(-0.5, 0.5, 20001)
    a = 2 * np.pi * (x + 0.5)
    weight = 0.35875 - 0.48829 * np.cos(a) + 0.14128 * np.cos(2 * a) - 0.01168 * np.cos(3 * a)
    cumulative = np.cumsum(weight) / weight.sum()
    return np.interp((np.arange(antialias) + 0.5) / antialias, cumulative, x) * width


@njit(cache=True, inline="always")
def _hash(a, b, c):
    h = np.uint32(a * 73856093) ^ np.uint32(b * 19349663) ^ np.uint32(c * 83492791)
    h = np.uint32((h ^ (h >> np.uint32(16))) * np.uint32(0x7FEB352D))
    h = np.uint32((h ^ (h >> np.uint32(15))) * np.uint32(0x846CA68B))
    return np.uint32(h ^ (h >> np.uint32(16)))


@njit(cache=True, inline="always")
def _stratum(h, sub, aa, step):
    """The sub-th of aa * aa strata of the unit square, in an order and with a shift given by the hash `h`."""
    cells = aa * aa
    cell = (sub * step + int(h % np.uint32(cells))) % cells
    u = ((h >> np.uint32(8)) & np.uint32(0xFFF)) / 4096.0
    v = ((h >> np.uint32(20)) & np.uint32(0xFFF)) / 4096.0
    return (cell % aa + u) / aa, (cell // aa + v) / aa


@njit(cache=True, fastmath=True)
def _lamp_frames(lamps):
    """Per lamp: position, normal toward the origin, and its two half edges; [3, 12]."""
    frames = np.empty((3, 12))
    for l in range(3):
        axes = camera_axes(lamps[l, 0], lamps[l, 1], lamps[l, 2])
        for i in range(3):
            frames[l, i], frames[l, 3 + i] = lamps[l, i], -axes[2, i]
            frames[l, 6 + i], frames[l, 9 + i] = 0.5 * _EDGE[l] * axes[0, i], 0.5 * _EDGE[l] * axes[1, i]
    return frames


@njit(cache=True, fastmath=True)
def _lamp(l, px, py, pz, frames):
    """Direction to lamp `l` (3 is the sun), its distance and its irradiance per radiance (or the sun's irradiance)."""
    if l == 3:
        return _SUN[0], _SUN[1], _SUN[2], FAR, _SUN_IRRADIANCE
    f = frames[l]
    dx, dy, dz = f[0] - px, f[1] - py, f[2] - pz
    d2 = dx * dx + dy * dy + dz * dz
    d = math.sqrt(d2)
    cosine = -(dx * f[3] + dy * f[4] + dz * f[5]) / d
    return dx / d, dy / d, dz / d, d, max(cosine, 0.0) * _EDGE[l] * _EDGE[l] / d2


@njit(cache=True, fastmath=True)
def _visible(l, px, py, pz, wx, wy, wz, distance, frames, objects, n, skip, h, sub, aa, step, rays):
    """Share of `rays` stratified points of lamp `l` that the point sees; objects whose bounds miss the cone cost no ray."""
    spread = _SUN_TAN if l == 3 else 0.7072 * _EDGE[l] / distance
    seen = 0.0
    candidates = 0
    for k in range(n):
        if k == skip:
            continue
        o = objects[k]
        bound = BOUND[int(o[SHAPE])] * o[RADIUS]
        cx, cy, cz = o[X] - px, o[Y] - py, o[Z] - pz
        along = cx * wx + cy * wy + cz * wz
        if along < -bound or along > distance + bound:
            continue
        reach = bound + spread * max(along + bound, 0.0)
        if cx * cx + cy * cy + cz * cz - along * along < reach * reach:
            candidates |= 1 << k
    if candidates == 0:
        return 1.0
    for ray in range(rays):
        u, v = _stratum(h + np.uint32(ray * 0x5F356495), sub, aa, step)
        if l == 3:
            radius, phi = _SUN_TAN * math.sqrt(u), 2.0 * math.pi * v
            # any frame around the sun's direction: x axis (z, 0, -x)
            s = math.sqrt(wx * wx + wz * wz)
            ax, az = wz / s, -wx / s
            bx, by, bz = wy * az, wz * ax - wx * az, -wy * ax
            a, b = radius * math.cos(phi), radius * math.sin(phi)
            tx, ty, tz = wx + a * ax + b * bx, wy + b * by, wz + a * az + b * bz
            reach = FAR
            scale = 1.0 / math.sqrt(tx * tx + ty * ty + tz * tz)
        else:
            f = frames[l]
            a, b = 2.0 * u - 1.0, 2.0 * v - 1.0
            tx, ty, tz = f[0] + a * f[6] + b * f[9] - px, f[1] + a * f[7] + b * f[10] - py, f[2] + a * f[8] + b * f[11] - pz
            reach = math.sqrt(tx * tx + ty * ty + tz * tz)
            scale = 1.0 / reach
        clear = 1.0
        for k in range(n):
            if candidates >> k & 1 and hit_object(px, py, pz, tx * scale, ty * scale, tz * scale, objects[k]) < reach:
                clear = 0.0
                break
        seen += clear
    return seen / rays


@njit(cache=True, fastmath=True)
def _indirect(px, py, pz, nx, ny, nz, objects, n, skip, light):
    """Add to `light` (irradiance) the floor's bounce, the ambient term, and the neighbors' as spheres (form factors)."""
    open_share = 1.0
    r = g = b = 0.0
    for k in range(n):
        if k == skip:
            continue
        o = objects[k]
        dx, dy, dz = o[X] - px, o[Y] - py, o[Z] - pz
        d2 = dx * dx + dy * dy + dz * dz
        cosine = (dx * nx + dy * ny + dz * nz) / math.sqrt(d2)
        if cosine > 0.0:
            share = min(cosine * o[RADIUS] * o[RADIUS] / d2, 1.0) * open_share
            open_share -= share
            r += share * _PROXY * o[RED]
            g += share * _PROXY * o[RED + 1]
            b += share * _PROXY * o[RED + 2]
    up = (1.0 - nz) * open_share
    light[0] += r + up * _BOUNCE[0] + _AMBIENT * open_share
    light[1] += g + up * _BOUNCE[1] + _AMBIENT * open_share
    light[2] += b + up * _BOUNCE[2] + _AMBIENT * open_share


@njit(cache=True, fastmath=True)
def _diffuse_light(px, py, pz, nx, ny, nz, objects, n, skip, frames, h, sub, aa, rays, shadows, light):
    """Irradiance at a point, into `light` [3]: lamps with soft shadows (if `shadows`) and the indirect terms."""
    light[:] = 0.0
    for l in range(4):
        wx, wy, wz, distance, e = _lamp(l, px, py, pz, frames)
        cosine = nx * wx + ny * wy + nz * wz
        if cosine <= 0.0:
            continue
        e *= cosine
        if shadows:
            e *= _visible(l, px, py, pz, wx, wy, wz, distance, frames, objects, n, skip, h + np.uint32(l * 7919), sub, aa, 2 * l + 1 if aa != 3 else l + 4 - (l == 2), rays)
        if l == 3:
            light[0] += e
            light[1] += e
            light[2] += e
        else:
            light[0] += e * _RADIANCE[l, 0]
            light[1] += e * _RADIANCE[l, 1]
            light[2] += e * _RADIANCE[l, 2]
    _indirect(px, py, pz, nx, ny, nz, objects, n, skip, light)


@njit(cache=True, fastmath=True)
def _environment(px, py, pz, dx, dy, dz, objects, n, skip, frames, h, sub, aa, depth, out):
    """Radiance along a reflected ray, into `out`: floor and matte objects lit, metal followed `depth` more times."""
    tint = np.ones(3)
    light = np.empty(3)
    for bounce in range(depth + 1):
        t, k = hit_any(px, py, pz, dx, dy, dz, objects, n, skip)
        tf, nx, ny, nz = hit_floor(px, py, pz, dx, dy, dz)
        if k < 0 and tf >= FAR:
            out[:] = 0.0
            return
        if tf < t:
            px, py, pz = px + tf * dx, py + tf * dy, pz + tf * dz
            _diffuse_light(px, py, pz, nx, ny, nz, objects, n, -1, frames, h, sub, aa, 1, bounce == 0, light)
            for c in range(3):
                out[c] = tint[c] * light[c] * _FLOOR_ALBEDO * _INV_PI
            return
        px, py, pz = px + t * dx, py + t * dy, pz + t * dz
        o = objects[k]
        nx, ny, nz = object_normal(px, py, pz, o)
        if o[MATERIAL] == 0.0 or bounce == depth:
            _diffuse_light(px, py, pz, nx, ny, nz, objects, n, k, frames, h, sub, aa, 1, bounce == 0, light)
            for c in range(3):
                out[c] = tint[c] * light[c] * o[RED + c] * _INV_PI
            return
        dot = 2.0 * (dx * nx + dy * ny + dz * nz)
        dx, dy, dz = dx - dot * nx, dy - dot * ny, dz - dot * nz
        for c in range(3):
            tint[c] *= o[RED + c]
        skip = k


@njit(cache=True, fastmath=True)
def _fresnel(cosine, ior):
    """Reflectance of a dielectric for unpolarized light."""
    g = math.sqrt(ior * ior - 1.0 + cosine * cosine)
    a = (g - cosine) / (g + cosine)
    b = (cosine * (g + cosine) - 1.0) / (cosine * (g - cosine) + 1.0)
    return 0.5 * a * a * (1.0 + b * b)


@njit(cache=True, fastmath=True)
def _masking(cosine, alpha2):
    """Smith's shadowing of GGX for one direction."""
    return 2.0 * cosine / (cosine + math.sqrt(alpha2 + (1.0 - alpha2) * cosine * cosine))


@njit(cache=True, fastmath=True)
def _mirrored_lamps(px, py, pz, dx, dy, dz, frames, out):
    """Add the lamps that a sharp reflection shows: squares seen from their front, and the sun's disk."""
    for l in range(3):
        f = frames[l]
        facing = dx * f[3] + dy * f[4] + dz * f[5]
        if facing >= 0.0:
            continue
        t = ((f[0] - px) * f[3] + (f[1] - py) * f[4] + (f[2] - pz) * f[5]) / facing
        if t <= 0.0:
            continue
        qx, qy, qz = px + t * dx - f[0], py + t * dy - f[1], pz + t * dz - f[2]
        half = 0.25 * _EDGE[l] * _EDGE[l]
        if abs(qx * f[6] + qy * f[7] + qz * f[8]) < half and abs(qx * f[9] + qy * f[10] + qz * f[11]) < half:
            for c in range(3):
                out[c] += _RADIANCE[l, c]
    cosine = dx * _SUN[0] + dy * _SUN[1] + dz * _SUN[2]
    if cosine > 0.995037:  # cos(atan(0.1))
        for c in range(3):
            out[c] += _SUN_IRRADIANCE / (math.pi * _SUN_TAN * _SUN_TAN)


@njit(cache=True, fastmath=True)
def _shade_object(px, py, pz, vx, vy, vz, nx, ny, nz, objects, n, k, frames, h, sub, aa, rays, color):
    """Radiance toward the eye (v) of object `k` at a point, into `color`."""
    o = objects[k]
    metal = o[MATERIAL] == 1.0
    cos_v = max(nx * vx + ny * vy + nz * vz, 1e-3)
    alpha = 0.2 if metal else 0.35
    alpha2 = alpha * alpha
    diffuse, gloss = np.zeros(3), np.zeros(3)
    sheen = 0.0
    light = np.zeros(3)
    for l in range(4):
        wx, wy, wz, distance, e = _lamp(l, px, py, pz, frames)
        cosine = nx * wx + ny * wy + nz * wz
        if cosine <= 0.0:
            continue
        e *= _visible(l, px, py, pz, wx, wy, wz, distance, frames, objects, n, k, h + np.uint32(l * 7919), sub, aa, 2 * l + 1 if aa != 3 else l + 4 - (l == 2), rays)
        if e == 0.0:
            continue
        hx, hy, hz = wx + vx, wy + vy, wz + vz
        norm = 1.0 / max(math.sqrt(hx * hx + hy * hy + hz * hz), 1e-9)
        hx, hy, hz = hx * norm, hy * norm, hz * norm
        cos_h = min(max(nx * hx + ny * hy + nz * hz, 1e-3), 1.0)
        cos_vh = max(vx * hx + vy * hy + vz * hz, 1e-3)
        c2 = cos_h * cos_h
        if metal:
            d = c2 * (alpha2 - 1.0) + 1.0
            lobe = alpha2 * _INV_PI / (d * d) * _masking(cos_v, alpha2) * _masking(cosine, alpha2) / (4.0 * cos_v)
            base = 0.0
        else:
            tan2 = (1.0 - c2) / c2
            lobe = math.exp(-tan2 / alpha2) * _INV_PI / (alpha2 * c2 * c2)
            lobe *= _masking(cos_v, alpha2) * _masking(cosine, alpha2) / (4.0 * cos_v)
            s2 = max(1.0 - c2, 1e-6)
            ratio = 2.0 * cos_h / cos_vh
            sheen = math.exp(-c2 / s2 / 0.36) / 0.36 * _INV_PI / (s2 * s2)
            sheen *= 0.25 * min(1.0, min(ratio * cos_v, ratio * cosine)) / cos_v
            base = cosine * _INV_PI
        for c in range(3):
            radiance = 1.0 if l == 3 else _RADIANCE[l, c]
            gloss[c] += e * radiance * lobe
            diffuse[c] += e * radiance * base
            light[c] += e * radiance * sheen
    u, v = _stratum(_hash(int(h & np.uint32(0xFFFF)), int(h >> np.uint32(16)), 77), sub, aa, 5 if aa == 3 else 3)
    f_outer = f_inner = 0.0
    if not metal:
        f_outer, f_inner = _fresnel(cos_v, 1.2), _fresnel(cos_v, 1.4)
    # one ray of the rough lobe: a half vector from its distribution of normals
    mirror = 2.0 * cos_v
    mx, my, mz = mirror * nx - vx, mirror * ny - vy, mirror * nz - vz
    rough, sharp = np.zeros(3), np.zeros(3)
    if metal or f_outer > 0.02:
        if metal:
            tan_h = alpha * math.sqrt(u / (1.0 - u))
        else:
            tan_h = alpha * math.sqrt(-math.log(1.0 - u))
        phi = 2.0 * math.pi * v
        if abs(nz) < 0.9:
            s = 1.0 / math.sqrt(nx * nx + ny * ny)
            ax, ay, az = -ny * s, nx * s, 0.0
        else:
            s = 1.0 / math.sqrt(nz * nz + ny * ny)
            ax, ay, az = 0.0, -nz * s, ny * s
        bx, by, bz = ny * az - nz * ay, nz * ax - nx * az, nx * ay - ny * ax
        a, b = tan_h * math.cos(phi), tan_h * math.sin(phi)
        hx, hy, hz = nx + a * ax + b * bx, ny + a * ay + b * by, nz + a * az + b * bz
        s = 1.0 / math.sqrt(hx * hx + hy * hy + hz * hz)
        hx, hy, hz = hx * s, hy * s, hz * s
        dot = 2.0 * (hx * vx + hy * vy + hz * vz)
        rx, ry, rz = dot * hx - vx, dot * hy - vy, dot * hz - vz
        if dot <= 0.0 or rx * nx + ry * ny + rz * nz <= 1e-3:
            rx, ry, rz = mx, my, mz
        _environment(px, py, pz, rx, ry, rz, objects, n, k, frames, h, sub, aa, 1 if metal else 0, rough)
    else:
        rough[:] = 0.12
    if metal:
        _environment(px, py, pz, mx, my, mz, objects, n, k, frames, h, sub, aa, 1, sharp)
        _mirrored_lamps(px, py, pz, mx, my, mz, frames, sharp)
        for c in range(3):
            color[c] = o[RED + c] * (0.6 * sharp[c] + 0.4 * (rough[c] + gloss[c]))
    else:
        indirect = np.zeros(3)
        _indirect(px, py, pz, nx, ny, nz, objects, n, k, indirect)
        for c in range(3):
            matte = (1.0 - f_inner) * (diffuse[c] + indirect[c] * _INV_PI) + f_inner * (light[c] + 0.3 * indirect[c] * _INV_PI)
            color[c] = (1.0 - f_outer) * o[RED + c] * matte + f_outer * 0.8 * (rough[c] + gloss[c])


@njit(cache=True, fastmath=True)
def _render_scene(objects, n, camera, lamps, resolution, offsets, rays, image):
    aa = len(offsets)
    axes = camera_axes(camera[0], camera[1], camera[2])
    frames = _lamp_frames(lamps)
    boxes = pixel_boxes(objects, n, camera, axes, camera[3], camera[4], resolution, resolution)
    eye_x, eye_y, eye_z = camera[0], camera[1], camera[2]
    color, total = np.zeros(3), np.zeros(3)
    for row in range(resolution):
        for column in range(resolution):
            candidates = 0
            for k in range(n):
                if boxes[k, 0] <= column < boxes[k, 1] and boxes[k, 2] <= row < boxes[k, 3]:
                    candidates |= 1 << k
            total[:] = 0.0
            h = _hash(column, row, 1)
            for sub in range(aa * aa):
                u = ((column + 0.5 + offsets[sub % aa]) / resolution - 0.5) / camera[3]
                v = (0.5 - (row + 0.5 + offsets[sub // aa]) / resolution) / camera[4]
                dx = u * axes[0, 0] + v * axes[1, 0] - axes[2, 0]
                dy = u * axes[0, 1] + v * axes[1, 1] - axes[2, 1]
                dz = u * axes[0, 2] + v * axes[1, 2] - axes[2, 2]
                scale = 1.0 / math.sqrt(dx * dx + dy * dy + dz * dz)
                dx, dy, dz = dx * scale, dy * scale, dz * scale
                best, seen = FAR, -1
                for k in range(n):
                    if candidates >> k & 1:
                        t = hit_object(eye_x, eye_y, eye_z, dx, dy, dz, objects[k])
                        if t < best:
                            best, seen = t, k
                if seen >= 0:
                    px, py, pz = eye_x + best * dx, eye_y + best * dy, eye_z + best * dz
                    nx, ny, nz = object_normal(px, py, pz, objects[seen])
                    _shade_object(px, py, pz, -dx, -dy, -dz, nx, ny, nz, objects, n, seen, frames, h, sub, aa, rays, color)
                else:
                    t, nx, ny, nz = hit_floor(eye_x, eye_y, eye_z, dx, dy, dz)
                    if t >= FAR:
                        continue
                    px, py, pz = eye_x + t * dx, eye_y + t * dy, eye_z + t * dz
                    _diffuse_light(px, py, pz, nx, ny, nz, objects, n, -1, frames, h, sub, aa, rays, True, color)
                    for c in range(3):
                        color[c] *= _FLOOR_ALBEDO * _INV_PI
                for c in range(3):
                    total[c] += min(color[c], _CLAMP)
            for c in range(3):
                x = min(total[c] / (aa * aa), 1.0)
                x = 12.92 * x if x <= 0.0031308 else 1.055 * x ** (1.0 / 2.4) - 0.055
                image[row, column, c] = np.uint8(255.0 * x + 0.5)


@njit(cache=True, parallel=True)
def _render_all(rows, counts, cameras, lamps, resolution, offsets, rays, images):
    for i in prange(len(counts)):
        _render_scene(rows[i], counts[i], cameras[i], lamps[i], resolution, offsets, rays, images[i])


def _check(resolution):
    if not 8 <= resolution <= 4096:
        raise ValueError(f"resolution must be 8..4096, got {resolution}")


def render(scenes, resolution: int, antialias: int = 3) -> UInt8[np.ndarray, "batch height width 3"]:
    """Images (sRGB bytes) of scenes, `antialias`^2 primary rays per pixel, in parallel over scenes.

    A function of its arguments alone: sampling patterns are strata shifted by a hash of the pixel. Raises ValueError for
    an antialias other than 1, 2, 3, 4 or a resolution outside 8..4096.
    """
    if antialias not in ANTIALIAS:
        raise ValueError(f"antialias must be one of {ANTIALIAS}, got {antialias}")
    _check(resolution)
    rows, counts, cameras, lamps = clevr_scenes.pack(scenes)
    images = np.empty((len(counts), resolution, resolution, 3), np.uint8)
    rays = {1: 8, 2: 2}.get(antialias, 1)
    _render_all(rows, counts, cameras, lamps, resolution, _filter_offsets(antialias), rays, images)
    return images


def object_ids(scene, resolution: int) -> Int[np.ndarray, "height width"]:
    """Index of the object seen at each pixel center, -1 for the floor: masks, boxes and visible pixels follow from it."""
    _check(resolution)
    rows, counts, cameras, _ = clevr_scenes.pack([scene])
    ids, depths = np.empty((resolution, resolution), np.int64), np.empty((resolution, resolution))
    camera = cameras[0]
    trace_ids(rows[0], counts[0], camera[:3], camera[3], camera[4], resolution, resolution, ids, depths)
    return ids
