"""CLEVR's two materials, compiled with numba.

"Rubber" is diffuse and Ashikhmin velvet under a Fresnel-weighted Beckmann gloss; "MyMetal" is two GGX lobes, alpha 0.2
and 0.01, with anisotropy 0.25 around the object's vertical axis.
"""

import math

import numpy as np
from numba import njit

from lcs_utils.clevr.shading import (
    EDGE, INV_PI, RADIANCE, SUN, SUN_IRRADIANCE, SUN_TAN, environment, indirect, lamp, point, visible,
)  # fmt: skip
from lcs_utils.clevr.tracer import FAR, MATERIAL, RED, X, Y, normal_change

ALPHA_X, ALPHA_Y = 0.75, 1 / 0.75  # anisotropy 0.25: roughness around the axis and across it


@njit(cache=True, fastmath=True, error_model="numpy")
def _fresnel(cosine, ior):
    """Reflectance of a dielectric for unpolarized light."""
    g = math.sqrt(ior * ior - 1.0 + cosine * cosine)
    a = (g - cosine) / (g + cosine)
    b = (cosine * (g + cosine) - 1.0) / (cosine * (g - cosine) + 1.0)
    return 0.5 * a * a * (1.0 + b * b)


@njit(cache=True, fastmath=True, error_model="numpy", inline="always")
def _masking(x, y, z, alpha_x, alpha_y):
    """Smith's masking of GGX for a direction (x, y, z) in the tangent frame, z > 0."""
    return 2.0 * z / (z + math.sqrt(z * z + alpha_x * alpha_x * x * x + alpha_y * alpha_y * y * y))


@njit(cache=True, fastmath=True, error_model="numpy", inline="always")
def _edge(x, a2):
    """Marginal of GGX's distribution of slopes: its integral from 0 to x, times 2."""
    return x / math.sqrt(x * x + a2)


@njit(cache=True, fastmath=True, error_model="numpy")
def _glints(px, py, pz, vx, vy, vz, nx, ny, nz, tangents, o, footprint, blocked, frames, out):
    """Add the lamps that the sharp lobe shows: squares blurred by the lobe, averaged over the sample's footprint.

    The footprint (two offsets across the view, [2, 3]) is carried to the lamp by the surface's curvature: a glint
    on a rounded edge far thinner than a pixel keeps its energy. Lamps beyond the distance `blocked` are hidden.
    """
    cos_v = nx * vx + ny * vy + nz * vz
    mx, my, mz = 2.0 * cos_v * nx - vx, 2.0 * cos_v * ny - vy, 2.0 * cos_v * nz - vz
    turn = np.empty((4, 3))  # change of the mirrored direction: over the footprint (2), over the lobe's widths (2)
    for j in range(4):
        if j < 2:
            f = footprint[j]
            slide = (f[0] * nx + f[1] * ny + f[2] * nz) / max(cos_v, 0.05)
            ax, ay, az = normal_change(px, py, pz, f[0] - slide * vx, f[1] - slide * vy, f[2] - slide * vz, o)
        else:
            alpha = 0.01 * (ALPHA_X if j == 2 else ALPHA_Y)
            ax, ay, az = alpha * tangents[j - 2, 0], alpha * tangents[j - 2, 1], alpha * tangents[j - 2, 2]
        dot = vx * ax + vy * ay + vz * az
        turn[j, 0], turn[j, 1] = 2.0 * (dot * nx + cos_v * ax), 2.0 * (dot * ny + cos_v * ay)
        turn[j, 2] = 2.0 * (dot * nz + cos_v * az)
    shift = np.empty((4, 2))
    for l in range(4):
        if l < 3:
            f = frames[l]
            facing = mx * f[3] + my * f[4] + mz * f[5]
            if facing > -1e-3:
                continue
            distance = ((f[0] - px) * f[3] + (f[1] - py) * f[4] + (f[2] - pz) * f[5]) / facing
            if distance <= 0.0 or distance > blocked:
                continue
            scale = 1.0 / (0.25 * EDGE[l] * EDGE[l])
            qx, qy, qz = px + distance * mx - f[0], py + distance * my - f[1], pz + distance * mz - f[2]
            qu, qv = (qx * f[6] + qy * f[7] + qz * f[8]) * scale, (qx * f[9] + qy * f[10] + qz * f[11]) * scale
        else:  # the sun's disk, as a square of the same area in the plane across its direction
            facing = mx * SUN[0] + my * SUN[1] + mz * SUN[2]
            if facing < 0.5 or blocked < FAR:
                continue
            scale, distance = 1.0 / (0.8862 * SUN_TAN), 1.0
            s = 1.0 / math.sqrt(SUN[0] * SUN[0] + SUN[2] * SUN[2])
            ux, uz = SUN[2] * s, -SUN[0] * s
            wx, wy, wz = SUN[1] * uz, SUN[2] * ux - SUN[0] * uz, -SUN[1] * ux
            qu, qv = (mx * ux + mz * uz) / facing * scale, (mx * wx + my * wy + mz * wz) / facing * scale
        for j in range(4):
            rx, ry, rz = turn[j, 0], turn[j, 1], turn[j, 2]
            if l < 3:
                f = frames[l]
                along = (rx * f[3] + ry * f[4] + rz * f[5]) / facing
                rx, ry, rz = distance * (rx - along * mx), distance * (ry - along * my), distance * (rz - along * mz)
                shift[j, 0] = (rx * f[6] + ry * f[7] + rz * f[8]) * scale
                shift[j, 1] = (rx * f[9] + ry * f[10] + rz * f[11]) * scale
            else:
                shift[j, 0], shift[j, 1] = (rx * ux + rz * uz) * scale, (rx * wx + ry * wy + rz * wz) * scale
        reach = abs(shift[0, 0]) + abs(shift[1, 0]) + abs(shift[0, 1]) + abs(shift[1, 1])
        if max(abs(qu), abs(qv)) > 12.0 + 2.0 * reach:
            continue
        steps = 1
        for j in range(2):
            steps = max(steps, min(6, 1 + int(max(abs(shift[j, 0]), abs(shift[j, 1])))))
        a2u = shift[2, 0] ** 2 + shift[3, 0] ** 2 + 0.1 * (shift[0, 0] ** 2 + shift[1, 0] ** 2) / (steps * steps)
        a2v = shift[2, 1] ** 2 + shift[3, 1] ** 2 + 0.1 * (shift[0, 1] ** 2 + shift[1, 1] ** 2) / (steps * steps)
        cover = 0.0
        for i in range(steps):
            for j in range(steps):
                a, b = (i + 0.5) / steps - 0.5, (j + 0.5) / steps - 0.5
                u, v = qu + a * shift[0, 0] + b * shift[1, 0], qv + a * shift[0, 1] + b * shift[1, 1]
                cover += (_edge(1.0 - u, a2u) + _edge(1.0 + u, a2u)) * (_edge(1.0 - v, a2v) + _edge(1.0 + v, a2v))
        cover /= 4 * steps * steps
        for c in range(3):
            out[c] += cover * (RADIANCE[l, c] if l < 3 else SUN_IRRADIANCE * INV_PI / (SUN_TAN * SUN_TAN))


@njit(cache=True, fastmath=True, error_model="numpy")
def shade_object(px, py, pz, vx, vy, vz, nx, ny, nz, objects, n, k, frames, footprint, h, i, rays, color):
    """Radiance toward the eye (unit vector v) of object `k` at a point with normal n, into `color`."""
    o = objects[k]
    metal = o[MATERIAL] == 1.0
    cos_v = max(nx * vx + ny * vy + nz * vz, 1e-3)
    alpha_x = 0.2 * ALPHA_X if metal else 0.35
    alpha_y = 0.2 * ALPHA_Y if metal else 0.35
    tangents = np.empty((2, 3))  # x: around the object's vertical axis, y: across
    tx, ty = o[Y] - py, px - o[X]
    tx += 1e-6
    dot = tx * nx + ty * ny
    tx, ty, tz = tx - dot * nx, ty - dot * ny, -dot * nz
    s = 1.0 / max(math.sqrt(tx * tx + ty * ty + tz * tz), 1e-12)
    tx, ty, tz = tx * s, ty * s, tz * s
    bx, by, bz = ny * tz - nz * ty, nz * tx - nx * tz, nx * ty - ny * tx
    tangents[0, 0], tangents[0, 1], tangents[0, 2] = tx, ty, tz
    tangents[1, 0], tangents[1, 1], tangents[1, 2] = bx, by, bz
    v_x, v_y = vx * tx + vy * ty + vz * tz, vx * bx + vy * by + vz * bz
    mask_v = _masking(v_x, v_y, cos_v, alpha_x, alpha_y)
    diffuse, gloss, sheen = np.zeros(3), np.zeros(3), np.zeros(3)
    for l in range(4):
        wx, wy, wz, distance, e = lamp(l, px, py, pz, frames)
        cosine = nx * wx + ny * wy + nz * wz
        if cosine <= 0.0:
            continue
        e *= visible(l, px, py, pz, frames, objects, n, k, h, i, rays)
        if e == 0.0:
            continue
        hx, hy, hz = wx + vx, wy + vy, wz + vz
        s = 1.0 / max(math.sqrt(hx * hx + hy * hy + hz * hz), 1e-9)
        hx, hy, hz = hx * s, hy * s, hz * s
        cos_h = min(max(nx * hx + ny * hy + nz * hz, 1e-3), 1.0)
        h_x, h_y = (hx * tx + hy * ty + hz * tz) / alpha_x, (hx * bx + hy * by + hz * bz) / alpha_y
        c2 = cos_h * cos_h
        if metal:
            d = h_x * h_x + h_y * h_y + c2
            lobe = INV_PI / (alpha_x * alpha_y * d * d)
            velvet, base = 0.0, 0.0
        else:
            lobe = math.exp(-(h_x * h_x + h_y * h_y) / c2) * INV_PI / (alpha_x * alpha_y * c2 * c2)
            s2 = max(1.0 - c2, 1e-6)
            ratio = 2.0 * cos_h / max(vx * hx + vy * hy + vz * hz, 1e-3)
            velvet = math.exp(-c2 / s2 / 0.36) / 0.36 * INV_PI / (s2 * s2)
            velvet *= 0.25 * min(1.0, min(ratio * cos_v, ratio * cosine)) / cos_v
            base = cosine * INV_PI
        w_x, w_y = wx * tx + wy * ty + wz * tz, wx * bx + wy * by + wz * bz
        lobe *= mask_v * _masking(w_x, w_y, cosine, alpha_x, alpha_y) / (4.0 * cos_v)
        for c in range(3):
            radiance = e * (1.0 if l == 3 else RADIANCE[l, c])
            gloss[c] += radiance * lobe
            diffuse[c] += radiance * base
            sheen[c] += radiance * velvet
    f_outer = 0.0 if metal else _fresnel(cos_v, 1.2)
    rough, sharp = np.zeros(3), np.zeros(3)
    if metal or f_outer > 0.02:  # one ray of the rough lobe: a half vector drawn from its distribution of normals
        u, w = point(h, 4, i)
        slope = math.sqrt(u / (1.0 - u)) if metal else math.sqrt(-math.log(1.0 - u))
        a, b = alpha_x * slope * math.cos(2.0 * math.pi * w), alpha_y * slope * math.sin(2.0 * math.pi * w)
        cos_h = 1.0 / math.sqrt(1.0 + a * a + b * b)
        hx, hy, hz = (nx + a * tx + b * bx) * cos_h, (ny + a * ty + b * by) * cos_h, (nz + a * tz + b * bz) * cos_h
        cos_vh = hx * vx + hy * vy + hz * vz
        rx, ry, rz = 2.0 * cos_vh * hx - vx, 2.0 * cos_vh * hy - vy, 2.0 * cos_vh * hz - vz
        cos_r = rx * nx + ry * ny + rz * nz
        if cos_vh > 0.0 and cos_r > 1e-3:
            r_x, r_y = rx * tx + ry * ty + rz * tz, rx * bx + ry * by + rz * bz
            weight = mask_v * _masking(r_x, r_y, cos_r, alpha_x, alpha_y) * cos_vh / (cos_v * cos_h)
            environment(px, py, pz, rx, ry, rz, objects, n, k, frames, h, i, 1 if metal else 0, rough)
            for c in range(3):
                rough[c] *= min(weight, 4.0)
    else:
        rough[:] = 0.12
    if metal:
        mx, my, mz = 2.0 * cos_v * nx - vx, 2.0 * cos_v * ny - vy, 2.0 * cos_v * nz - vz
        blocked = environment(px, py, pz, mx, my, mz, objects, n, k, frames, h, i, 1, sharp)
        _glints(px, py, pz, vx, vy, vz, nx, ny, nz, tangents, o, footprint, blocked, frames, sharp)
        for c in range(3):
            color[c] = o[RED + c] * (0.6 * sharp[c] + 0.4 * (rough[c] + gloss[c]))
    else:
        f_inner = _fresnel(cos_v, 1.4)
        soft = np.zeros(3)
        indirect(px, py, pz, nx, ny, nz, objects, n, k, soft)
        for c in range(3):
            below = (1.0 - f_inner) * (diffuse[c] + soft[c] * INV_PI) + f_inner * (sheen[c] + 0.3 * soft[c] * INV_PI)
            color[c] = (1.0 - f_outer) * o[RED + c] * below + f_outer * 0.8 * (rough[c] + gloss[c])
