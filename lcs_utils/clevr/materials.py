"""CLEVR's two materials, compiled with numba.

"Rubber" is diffuse and Ashikhmin velvet under a Fresnel-weighted Beckmann gloss; "MyMetal" is two GGX
lobes, alpha 0.2 and 0.01, with anisotropy 0.25 around the object's vertical axis.
"""

import math

from lcs_utils.clevr.kernels import compiled
from lcs_utils.clevr.shading import (
    BLACK,
    EDGE,
    INV_PI,
    RADIANCE,
    SUN,
    SUN_IRRADIANCE,
    SUN_TAN,
    WHITE,
    add,
    dot,
    entry,
    environment,
    filtered,
    indirect,
    lamp,
    paint,
    point,
    visible,
)  # fmt: skip
from lcs_utils.clevr.tracer import FAR, MATERIAL, ROUGH, X, Y, normal_change

ALPHA_X, ALPHA_Y = 0.75, 1 / 0.75  # anisotropy 0.25: roughness around the axis and across it


@compiled(fastmath=True, error_model="numpy")
def _fresnel(cosine, ior):
    """Reflectance of a dielectric for unpolarized light."""
    g = math.sqrt(ior * ior - 1.0 + cosine * cosine)
    a = (g - cosine) / (g + cosine)
    b = (cosine * (g + cosine) - 1.0) / (cosine * (g - cosine) + 1.0)
    return 0.5 * a * a * (1.0 + b * b)


@compiled(fastmath=True, error_model="numpy", inline="always")
def _masking(x, y, z, alpha_x, alpha_y):
    """Smith's masking of GGX for a direction (x, y, z) in the tangent frame, z > 0."""
    return 2.0 * z / (z + math.sqrt(z * z + alpha_x * alpha_x * x * x + alpha_y * alpha_y * y * y))


@compiled(fastmath=True, error_model="numpy", inline="always")
def _edge(x, a2):
    """Marginal of GGX's distribution of slopes: its integral from 0 to x, times 2."""
    return x / math.sqrt(x * x + a2)


@compiled(fastmath=True, error_model="numpy", inline="always")
def _mirrored(ax, ay, az, v, n, cos_v):
    """Change of the mirrored view direction when the normal changes by a."""
    along = v[0] * ax + v[1] * ay + v[2] * az
    return (
        2.0 * (along * n[0] + cos_v * ax),
        2.0 * (along * n[1] + cos_v * ay),
        2.0 * (along * n[2] + cos_v * az),
    )


@compiled(fastmath=True, error_model="numpy", inline="always")
def _over_footprint(p, v, n, cos_v, f, width, o):
    """`_mirrored` for the offset f * width across the view, projected onto the surface of `o`."""
    slide = dot(f, n) * width / max(cos_v, 0.05)
    fx, fy, fz = f[0] * width - slide * v[0], f[1] * width - slide * v[1], f[2] * width - slide * v[2]
    ax, ay, az = normal_change(p[0], p[1], p[2], fx, fy, fz, o)
    return _mirrored(ax, ay, az, v, n, cos_v)


@compiled(fastmath=True, error_model="numpy", inline="always")
def _shift(turn, m, facing, distance, normal, edge_u, edge_v, scale):
    """How far a change of the mirrored direction m moves its intersection with a lamp, in its half edges."""
    r = add(turn, -dot(turn, normal) / facing, m)
    return distance * scale * dot(r, edge_u), distance * scale * dot(r, edge_v)


@compiled(fastmath=True, error_model="numpy")
def _glints(p, v, n, tangent, across, o, axes, width, blocked, frames):
    """Radiance of the lamps as the sharp lobe reflects them: squares blurred by it, averaged over the
    sample's footprint.

    The surface's curvature projects the footprint (`width` along the camera's `axes`) onto the lamp, so a
    glint on a rounded edge far thinner than a pixel keeps its energy. Lamps beyond the distance `blocked` are
    hidden.
    """
    cos_v = dot(n, v)
    m = add((-v[0], -v[1], -v[2]), 2.0 * cos_v, n)
    over_x = _over_footprint(p, v, n, cos_v, entry(axes, 0), width, o)
    over_y = _over_footprint(p, v, n, cos_v, entry(axes, 1), width, o)
    lobe_x, lobe_y = 0.01 * ALPHA_X, 0.01 * ALPHA_Y  # the lobe's own widths
    lobe_x = _mirrored(lobe_x * tangent[0], lobe_x * tangent[1], lobe_x * tangent[2], v, n, cos_v)
    lobe_y = _mirrored(lobe_y * across[0], lobe_y * across[1], lobe_y * across[2], v, n, cos_v)
    light = BLACK
    for l in range(4):
        if l < 3:
            f = frames[l]
            normal, edge_u, edge_v = (f[3], f[4], f[5]), (f[6], f[7], f[8]), (f[9], f[10], f[11])
            facing = dot(m, normal)
            if facing > -1e-3:
                continue
            distance = ((f[0] - p[0]) * f[3] + (f[1] - p[1]) * f[4] + (f[2] - p[2]) * f[5]) / facing
            if distance <= 0.0 or distance > blocked:
                continue
            scale = 1.0 / (0.25 * EDGE[l] * EDGE[l])
            q = add((p[0] - f[0], p[1] - f[1], p[2] - f[2]), distance, m)
            qu, qv = dot(q, edge_u) * scale, dot(q, edge_v) * scale
        else:  # the sun's disk, as a square of the same area in the plane across its direction
            facing = m[0] * SUN[0] + m[1] * SUN[1] + m[2] * SUN[2]
            if facing < 0.5 or blocked < FAR:
                continue
            scale, distance, normal = 1.0 / (0.8862 * SUN_TAN), 1.0, BLACK  # sqrt(pi) / 2
            s = 1.0 / math.sqrt(SUN[0] * SUN[0] + SUN[2] * SUN[2])
            ux, uz = SUN[2] * s, -SUN[0] * s
            edge_u, edge_v = (ux, 0.0, uz), (SUN[1] * uz, SUN[2] * ux - SUN[0] * uz, -SUN[1] * ux)
            qu, qv = dot(m, edge_u) / facing * scale, dot(m, edge_v) / facing * scale
        xu, xv = _shift(over_x, m, facing, distance, normal, edge_u, edge_v, scale)
        yu, yv = _shift(over_y, m, facing, distance, normal, edge_u, edge_v, scale)
        # Choice: a lamp more than 12 of its half edges off is skipped, with what the lobe's tail holds there.
        if max(abs(qu), abs(qv)) > 12.0 + 2.0 * (abs(xu) + abs(yu) + abs(xv) + abs(yv)):
            continue
        lu, lv = _shift(lobe_x, m, facing, distance, normal, edge_u, edge_v, scale)
        ku, kv = _shift(lobe_y, m, facing, distance, normal, edge_u, edge_v, scale)
        steps = max(min(6, 1 + int(max(abs(xu), abs(xv)))), min(6, 1 + int(max(abs(yu), abs(yv)))))
        # Choice: each step of the footprint is blurred by 0.1 of its square, near the 1/12 of a uniform one.
        a2u = lu * lu + ku * ku + 0.1 * (xu * xu + yu * yu) / (steps * steps)
        a2v = lv * lv + kv * kv + 0.1 * (xv * xv + yv * yv) / (steps * steps)
        cover = 0.0
        for i in range(steps):
            for j in range(steps):
                a, b = (i + 0.5) / steps - 0.5, (j + 0.5) / steps - 0.5
                u, w = qu + a * xu + b * yu, qv + a * xv + b * yv
                cover += (_edge(1.0 - u, a2u) + _edge(1.0 + u, a2u)) * (
                    _edge(1.0 - w, a2v) + _edge(1.0 + w, a2v)
                )
        cover /= 4 * steps * steps
        cover *= 1.0 if l < 3 else SUN_IRRADIANCE * INV_PI / (SUN_TAN * SUN_TAN)
        light = add(light, cover, entry(RADIANCE, l))
    return light


@compiled(fastmath=True, error_model="numpy")
def shade_object(px, py, pz, vx, vy, vz, nx, ny, nz, objects, n, k, frames, axes, width, h, i, rays):
    """Radiance toward the eye (unit vector v) of object `k` at a point with normal n, for a sample `width`
    wide.
    """
    o = objects[k]
    metal = o[MATERIAL] == 1.0
    cos_v = max(nx * vx + ny * vy + nz * vz, 1e-3)
    alpha_x = o[ROUGH] * ALPHA_X if metal else o[ROUGH]
    alpha_y = o[ROUGH] * ALPHA_Y if metal else o[ROUGH]
    tx, ty = o[Y] - py, px - o[X]  # t: around the object's vertical axis, b: across
    tx += 1e-6
    along = tx * nx + ty * ny
    tx, ty, tz = tx - along * nx, ty - along * ny, -along * nz
    s = 1.0 / max(math.sqrt(tx * tx + ty * ty + tz * tz), 1e-12)
    tx, ty, tz = tx * s, ty * s, tz * s
    bx, by, bz = ny * tz - nz * ty, nz * tx - nx * tz, nx * ty - ny * tx
    v_x, v_y = vx * tx + vy * ty + vz * tz, vx * bx + vy * by + vz * bz
    mask_v = _masking(v_x, v_y, cos_v, alpha_x, alpha_y)
    diffuse, gloss, sheen = BLACK, BLACK, BLACK
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
            # Ashikhmin's velvet of CLEVR's sigma 0.6, squared
            velvet = math.exp(-c2 / s2 / 0.36) / 0.36 * INV_PI / (s2 * s2)
            velvet *= 0.25 * min(1.0, min(ratio * cos_v, ratio * cosine)) / cos_v
            base = cosine * INV_PI
        w_x, w_y = wx * tx + wy * ty + wz * tz, wx * bx + wy * by + wz * bz
        lobe *= mask_v * _masking(w_x, w_y, cosine, alpha_x, alpha_y) / (4.0 * cos_v)
        radiance = entry(RADIANCE, l)
        gloss, diffuse, sheen = (
            add(gloss, e * lobe, radiance), add(diffuse, e * base, radiance), add(sheen, e * velvet, radiance)
        )  # fmt: skip
    f_outer = 0.0 if metal else _fresnel(cos_v, 1.2)
    rough, sharp, blocked, mirrored = BLACK, BLACK, FAR, 2 if metal else 1
    if not metal and f_outer <= 0.02:
        # Choice: where the coat reflects 2% or less, a constant gray stands for what a ray would meet.
        rough, mirrored = (0.12, 0.12, 0.12), 0
    # a ray for the rough lobe, then one for metal's mirror; a single call keeps the CUDA kernel small
    for mirror in range(mirrored):
        weight, hx, hy, hz = 1.0, nx, ny, nz
        if mirror == 0:  # a half vector drawn from the lobe's distribution of normals
            u, w = point(h, 4, i)
            slope = math.sqrt(u / (1.0 - u)) if metal else math.sqrt(-math.log(1.0 - u))
            a, b = (
                alpha_x * slope * math.cos(2.0 * math.pi * w),
                alpha_y * slope * math.sin(2.0 * math.pi * w),
            )
            cos_h = 1.0 / math.sqrt(1.0 + a * a + b * b)
            hx, hy = (nx + a * tx + b * bx) * cos_h, (ny + a * ty + b * by) * cos_h
            hz = (nz + a * tz + b * bz) * cos_h
        cos_vh = hx * vx + hy * vy + hz * vz if mirror == 0 else cos_v
        rx, ry, rz = 2.0 * cos_vh * hx - vx, 2.0 * cos_vh * hy - vy, 2.0 * cos_vh * hz - vz
        if mirror == 0:
            cos_r = rx * nx + ry * ny + rz * nz
            if cos_vh <= 0.0 or cos_r <= 1e-3:
                continue
            r_x, r_y = rx * tx + ry * ty + rz * tz, rx * bx + ry * by + rz * bz
            # Choice: at most 4, so that no single ray becomes a speck
            weight = min(mask_v * _masking(r_x, r_y, cos_r, alpha_x, alpha_y) * cos_vh / (cos_v * cos_h), 4.0)
        seen, distance = environment(px, py, pz, rx, ry, rz, objects, n, k, frames, h, i, 1 if metal else 0)
        if mirror == 0:
            rough = filtered(seen, weight, WHITE)
        else:
            sharp, blocked = seen, distance
    glossy = add(rough, 1.0, gloss)
    if metal:
        point_view_normal = (px, py, pz), (vx, vy, vz), (nx, ny, nz)
        glints = _glints(*point_view_normal, (tx, ty, tz), (bx, by, bz), o, axes, width, blocked, frames)
        return filtered(paint(o), 1.0, add(add(BLACK, 0.4, glossy), 0.6, add(sharp, 1.0, glints)))
    f_inner = _fresnel(cos_v, 1.4)
    soft = filtered(indirect(px, py, pz, nx, ny, nz, objects, n, k), INV_PI, WHITE)
    # Choice: velvet passes on 0.3 of the indirect light, what is diffuse all; 0.8 is CLEVR's white of gloss.
    below = add(add(BLACK, 1.0 - f_inner, add(diffuse, 1.0, soft)), f_inner, add(sheen, 0.3, soft))
    return add(filtered(paint(o), 1.0 - f_outer, below), 0.8 * f_outer, glossy)
