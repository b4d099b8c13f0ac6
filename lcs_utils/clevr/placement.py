"""CLEVR's placement by rejection, in numba: redraw until gaps, margins and visibility hold."""

import math

import numpy as np

from lcs_utils.clevr import tracer
from lcs_utils.clevr.kernels import compiled

RIGHT = (0.6563112735748291, 0.7544902563095093)
BEHIND = (-0.754490315914154, 0.6563112735748291)
MIN_DISTANCE, MARGIN = 0.25, 0.4
MAX_TRIES = 50
HOPELESS = 20_000  # restarts that never reach the last object, or fail only the later tests
MIN_VISIBLE_PIXELS = 200  # of a 320x240 frame


@compiled()
def _free(rows, reach, n, x, y, r, min_distance, margin):
    for k in range(n):
        dx, dy = x - rows[k, 2], y - rows[k, 3]
        if math.sqrt(dx * dx + dy * dy) - r - reach[k] < min_distance:
            return False
        if abs(dx * RIGHT[0] + dy * RIGHT[1]) < margin or abs(dx * BEHIND[0] + dy * BEHIND[1]) < margin:
            return False
    return True


@compiled()
def place(rng, n, camera, rules, radii, shapes, colors, materials, limit, rows, drawn):
    """Fill `rows` (tracer's geometry) and `drawn` (size, shape, color, degrees, material); return whether it
    succeeded, the number of attempts and how many of them failed only the later tests. It gives up after
    `limit` attempts, or earlier if there is no hope.

    `camera`: location, focal lengths, target; `rules`: gap, margin, scale of the visibility test (0: none)
    and whether centers must lie inside; `radii`, `shapes` (solid and stretch) and the numbers of `colors` and
    `materials` are the world's.
    """
    min_distance, margin, visible_scale, inside = rules
    height, width = 240 // max(visible_scale, 1), 320 // max(visible_scale, 1)
    ids, depths = np.empty((height, width), np.int64), np.empty((height, width))
    axes, frame, reach, reached, hidden = np.empty((3, 3)), camera.copy(), np.zeros(n), 0, 0
    tracer.fill_view(camera, axes)
    frame[3], frame[4] = 35.0 / 32.0, 35.0 / 24.0
    for restart in range(limit):
        if hidden == HOPELESS or (restart == HOPELESS and reached < n - 1):
            return False, restart, hidden
        complete = True
        for k in range(n):
            reached = max(reached, k)
            size = int(rng.random() * len(radii))
            widest, found = 0.0, False
            for shape in range(len(shapes)):  # its shape is drawn later, so any must fit
                widest = max(widest, radii[size] * max(shapes[shape, 1], shapes[shape, 2]))
            x = y = 0.0
            for _try in range(MAX_TRIES):
                x, y = 6.0 * rng.random() - 3.0, 6.0 * rng.random() - 3.0
                if _free(rows, reach, k, x, y, widest, min_distance, margin):
                    found = True
                    break
            if not found:
                complete = False
                break
            shape = int(rng.random() * len(shapes))
            drawn[k, 0], drawn[k, 1], drawn[k, 2] = size, shape, int(rng.random() * colors)
            drawn[k, 3] = 360.0 * rng.random()
            drawn[k, 4] = int(rng.random() * materials)
            reach[k] = radii[size] * max(shapes[shape, 1], shapes[shape, 2])
            tracer.fill_solid(rows[k], shapes[shape], x, y, radii[size], drawn[k, 3])
        if not complete:
            continue
        if inside:
            for k in range(n):
                dx, dy, dz = rows[k, 2] - camera[0], rows[k, 3] - camera[1], rows[k, 4] - camera[2]
                depth = -(dx * axes[2, 0] + dy * axes[2, 1] + dz * axes[2, 2])
                u = camera[3] * (dx * axes[0, 0] + dy * axes[0, 1] + dz * axes[0, 2]) / depth
                v = camera[4] * (dx * axes[1, 0] + dy * axes[1, 1] + dz * axes[1, 2]) / depth
                complete = complete and depth > 0.0 and abs(u) < 0.5 and abs(v) < 0.5
        if complete and visible_scale > 0:
            tracer.trace_ids(rows, n, frame, width, height, ids, depths)
            counts = np.zeros(n, np.int64)
            for row in range(height):
                for column in range(width):
                    if ids[row, column] >= 0:
                        counts[ids[row, column]] += 1
            complete = counts.min() * visible_scale * visible_scale >= MIN_VISIBLE_PIXELS
        if complete:
            return True, restart + 1, hidden
        hidden += 1
    return False, limit, hidden


def failure(n: int, attempts: int, hidden: int, margins: bool, visibility: bool, inside: bool) -> ValueError:
    """The error of a placement that `place` gave up: its count, its margin and the switches to blame."""
    gap, margin = (MIN_DISTANCE, MARGIN) if margins else (0.0, 0.0)
    later = {"visibility": visibility, "require_centers_inside": inside} if hidden else {}
    blamed = {"margins": margins and hidden < HOPELESS, **later}
    switches = " or ".join(name for name, on in blamed.items() if on)
    fell = f" ({hidden:,} of them failed {' or '.join(k for k, on in later.items() if on)})" if hidden else ""
    return ValueError(
        f"no placement of {n} objects with margin {margin:g} and gap {gap:g} was found in {attempts:,} "
        f"attempts{fell}; ask for fewer objects{f' or switch {switches} off' if switches else ''}"
    )
