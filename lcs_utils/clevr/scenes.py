"""CLEVR scenes by CLEVR's own procedure (Johnson et al. 2017), every one from its own (seed, index).

Free choices and quirks kept from the original: cubes have half edge = radius; left/right/front/behind are those of the
camera without jitter; a rotation is a number of degrees that the original renderer reads as radians.
"""

import math
from dataclasses import dataclass

import numpy as np
from numba import njit

from lcs_utils.clevr import tracer

SHAPES, MATERIALS = tracer.SHAPES, tracer.MATERIALS
SIZES = {"large": 0.7, "small": 0.35}
COLOR_RGB = {  # 0-255, used / 255 as linear values; the paper's order of colors
    "blue": (42, 75, 215), "brown": (129, 74, 25), "cyan": (41, 208, 208), "gray": (87, 87, 87),
    "green": (29, 105, 20), "purple": (129, 38, 192), "red": (173, 35, 35), "yellow": (255, 238, 51),
}  # fmt: skip
COLORS = tuple(COLOR_RGB)
ALLOWED = {"shape": SHAPES, "size": tuple(SIZES), "material": MATERIALS, "color": COLORS}
CAMERA_LOCATION = (7.481131553649902, -6.5076398849487305, 5.34366512298584)
LAMP_LOCATIONS = {
    "key": (6.446710109710693, -2.905174732208252, 4.258398056030273),
    "fill": (-4.671124458312988, -4.01359748840332, 3.0112245082855225),
    "back": (-1.168501377105713, 2.646024465560913, 5.815736770629883),
}
RIGHT = (0.6563112735748291, 0.7544902563095093)
BEHIND = (-0.754490315914154, 0.6563112735748291)
LENS_MM, SENSOR_MM, FRAME = 35.0, 32.0, (320, 240)
CROPS = {  # focal length as a fraction of the image's width and of its height
    "center": (LENS_MM / SENSOR_MM * 4 / 3, LENS_MM / SENSOR_MM * 4 / 3),
    "squash": (LENS_MM / SENSOR_MM, LENS_MM / SENSOR_MM * 4 / 3),
    "native": (LENS_MM / SENSOR_MM, LENS_MM / SENSOR_MM),
    "v1": (LENS_MM / SENSOR_MM, LENS_MM / SENSOR_MM * 480 / 320),  # the frame of the published images, 480x320
}
MIN_DISTANCE, MARGIN = 0.25, 0.4
MAX_TRIES, MAX_RESTARTS = 50, 20_000
MIN_VISIBLE_PIXELS = 200  # of a 320x240 frame


@dataclass(frozen=True)
class SceneObject:
    """One object; `coords` its center in scene units, `rotation` in CLEVR's "degrees", `color` a name of COLORS."""

    shape: str
    size: str
    material: str
    color: str
    coords: tuple[float, float, float]
    rotation: float
    pixel_coords: tuple[int, int, float] | None = None

    def __post_init__(self):
        for key, allowed in ALLOWED.items():
            if getattr(self, key) not in allowed:
                raise ValueError(f"unknown {key} {getattr(self, key)!r}; allowed: {', '.join(allowed)}")


@dataclass(frozen=True)
class Camera:
    """A camera that looks at the origin; `crop` one of CROPS ("center": 320x240 cropped to 240x240, a 46.7 mm lens)."""

    location: tuple[float, float, float] = CAMERA_LOCATION
    crop: str = "center"

    def __post_init__(self):
        if self.crop not in CROPS:
            raise ValueError(f"unknown crop {self.crop!r}; allowed: {', '.join(CROPS)}")


@dataclass(frozen=True)
class Lamps:
    """Where the three area lamps hang (the sun is never moved)."""

    key: tuple[float, float, float] = LAMP_LOCATIONS["key"]
    fill: tuple[float, float, float] = LAMP_LOCATIONS["fill"]
    back: tuple[float, float, float] = LAMP_LOCATIONS["back"]


@dataclass(frozen=True)
class Scene:
    """Objects, camera and lamps: all that an image depends on; `seed` and `index` say where they came from."""

    objects: tuple[SceneObject, ...]
    camera: Camera = Camera()
    lamps: Lamps = Lamps()
    seed: int = 0
    index: int = 0


@njit(cache=True)
def _free(rows, n, x, y, r, min_distance, margin):
    for k in range(n):
        dx, dy = x - rows[k, 2], y - rows[k, 3]
        if math.sqrt(dx * dx + dy * dy) - r - rows[k, 5] < min_distance:
            return False
        if abs(dx * RIGHT[0] + dy * RIGHT[1]) < margin or abs(dx * BEHIND[0] + dy * BEHIND[1]) < margin:
            return False
    return True


@njit(cache=True)
def _place(rng, n, camera, fx, fy, min_distance, margin, visible_scale, inside, rows, attributes):
    """Fill `rows` (tracer layout) and `attributes` (size, color, degrees); False after MAX_RESTARTS fresh starts."""
    height, width = 240 // max(visible_scale, 1), 320 // max(visible_scale, 1)
    ids, depths = np.empty((height, width), np.int64), np.empty((height, width))
    axes = tracer.camera_axes(camera[0], camera[1], camera[2])
    for _ in range(MAX_RESTARTS):
        complete = True
        for k in range(n):
            size = int(rng.random() * 2)
            r = 0.7 if size == 0 else 0.35
            found = False
            x = y = 0.0
            for _try in range(MAX_TRIES):
                x, y = 6.0 * rng.random() - 3.0, 6.0 * rng.random() - 3.0
                if _free(rows, k, x, y, r, min_distance, margin):
                    found = True
                    break
            if not found:
                complete = False
                break
            rows[k, 0] = int(rng.random() * 3)
            attributes[k, 0], attributes[k, 1] = size, int(rng.random() * 8)
            attributes[k, 2] = 360.0 * rng.random()
            rows[k, 1] = int(rng.random() * 2)
            rows[k, 2], rows[k, 3], rows[k, 4], rows[k, 5] = x, y, r, r
            rows[k, 6], rows[k, 7] = math.cos(attributes[k, 2]), math.sin(attributes[k, 2])
        if not complete:
            continue
        if inside:
            for k in range(n):
                dx, dy, dz = rows[k, 2] - camera[0], rows[k, 3] - camera[1], rows[k, 4] - camera[2]
                depth = -(dx * axes[2, 0] + dy * axes[2, 1] + dz * axes[2, 2])
                u = fx * (dx * axes[0, 0] + dy * axes[0, 1] + dz * axes[0, 2]) / depth
                v = fy * (dx * axes[1, 0] + dy * axes[1, 1] + dz * axes[1, 2]) / depth
                complete = complete and abs(u) < 0.5 and abs(v) < 0.5
        if complete and visible_scale > 0:
            tracer.trace_ids(rows, n, camera, 35.0 / 32.0, 35.0 / 24.0, width, height, ids, depths)
            counts = np.zeros(n, np.int64)
            for row in range(height):
                for column in range(width):
                    if ids[row, column] >= 0:
                        counts[ids[row, column]] += 1
            complete = counts.min() * visible_scale * visible_scale >= MIN_VISIBLE_PIXELS
        if complete:
            return True
    return False


def _stage(seed, index, crop):
    """The scene's generator and its jittered camera and lamps, in the original's order of draws."""
    rng = np.random.Generator(np.random.PCG64(np.random.SeedSequence([seed, index])))
    u = rng.random((4, 3))
    camera = np.array(CAMERA_LOCATION) + u[0] - 0.5
    key, back, fill = (np.array(LAMP_LOCATIONS[name]) + 2 * v - 1 for name, v in zip(("key", "back", "fill"), u[1:]))
    lamps = Lamps(tuple(key.tolist()), tuple(fill.tolist()), tuple(back.tolist()))
    return rng, Camera(tuple(camera.tolist()), crop), lamps


def sample_scene(
    seed: int,
    index: int,
    n_objects: int,
    margins: bool = True,
    visibility: bool = True,
    require_centers_inside: bool = False,
    crop: str = "center",
) -> Scene:
    """One scene of `n_objects` by CLEVR's procedure (App. E.1's data), a function of its arguments alone.

    Raises ValueError if no legal placement is found within MAX_RESTARTS fresh starts.
    Choice: the visibility test counts pixels of a 160x120 frame and scales CLEVR's 200 px of 320x240 with it.
    Choice: `margins=False` only forbids that objects intersect, for crowded scenes.
    Choice: sizes, shapes, colors and materials are uniform, as in CLEVR; the draws' generator is numpy's PCG64.
    """
    if n_objects < 0:
        raise ValueError(f"n_objects must be at least 0, got {n_objects}")
    if seed < 0 or index < 0:
        raise ValueError(f"seed and index must be at least 0, got {seed} and {index}")
    rng, camera, lamps = _stage(seed, index, crop)
    rows, attributes = np.zeros((n_objects, tracer.ROW)), np.zeros((n_objects, 3))
    min_distance, margin = (MIN_DISTANCE, MARGIN) if margins else (0.0, 0.0)
    scale = 2 if visibility and n_objects else 0
    fx, fy = CROPS[crop]
    location = np.array(camera.location)
    rules = (min_distance, margin, scale, require_centers_inside)
    if not _place(rng, n_objects, location, fx, fy, *rules, rows, attributes):
        raise ValueError(
            f"no placement of {n_objects} objects with margin {margin:g} and gap {min_distance:g} was found in "
            f"{MAX_RESTARTS} attempts; ask for fewer objects or switch margins off"
        )
    return Scene(_objects(rows, attributes), camera, lamps, seed, index)


def _objects(rows, attributes):
    sizes = tuple(SIZES)
    return tuple(
        SceneObject(SHAPES[int(r[0])], sizes[int(a[0])], MATERIALS[int(r[1])], COLORS[int(a[1])], tuple(r[2:5]), a[2])
        for r, a in zip(rows.tolist(), attributes.tolist(), strict=True)
    )


def scene_at(locations, seed: int, index: int, crop: str = "center") -> Scene:
    """A scene with one object centered at each image location ([K, 2], in [0, 1], x right, y down): E.1's test layouts.

    Attributes, camera and lamps are random; the camera ray through a location meets the plane z = radius.
    Choice: no margin, overlap or visibility test (the paper's layouts hardly ever satisfy CLEVR's margins from K = 4 on).
    """
    locations = np.asarray(locations, dtype=np.float64)
    if locations.ndim != 2 or locations.shape[1] != 2 or not np.isfinite(locations).all():
        raise ValueError(f"locations must be finite and of shape [K, 2], got {locations.tolist()}")
    rng, camera, lamps = _stage(seed, index, crop)
    axes, (fx, fy), eye = tracer.camera_axes(*camera.location), CROPS[crop], np.array(camera.location)
    objects = []
    for x, y in locations:
        size = ("large", "small")[rng.integers(2)]
        ray = (x - 0.5) / fx * axes[0] + (0.5 - y) / fy * axes[1] - axes[2]
        if ray[2] >= 0:
            raise ValueError(f"location ({x:g}, {y:g}) lies above the horizon")
        point = eye + ray * (SIZES[size] - eye[2]) / ray[2]
        shape, color = SHAPES[rng.integers(3)], COLORS[rng.integers(8)]
        degrees, material = 360.0 * rng.random(), MATERIALS[rng.integers(2)]
        objects.append(SceneObject(shape, size, material, color, tuple(point.tolist()), degrees))
    return Scene(tuple(objects), camera, lamps, seed, index)


def _view(scene):
    d = np.array([o.coords for o in scene.objects]).reshape(-1, 3) - np.array(scene.camera.location)
    return d @ tracer.camera_axes(*scene.camera.location).T


def depths(scene: Scene) -> np.ndarray:
    """Depth [n] of the object centers along the view axis, in scene units."""
    return -_view(scene)[:, 2]


def project(scene: Scene) -> np.ndarray:
    """Image locations [n, 2] of the object centers, x right, y down, in units of the image (inside it: [0, 1])."""
    (fx, fy), view = CROPS[scene.camera.crop], _view(scene)
    return np.stack([0.5 - fx * view[:, 0] / view[:, 2], 0.5 + fy * view[:, 1] / view[:, 2]], 1)


def pack(scenes) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Scenes as arrays: objects [n, max, ROW], counts [n], cameras [n, 5] (location, focal), lamps [n, 3, 3]."""
    largest = max((len(scene.objects) for scene in scenes), default=0)
    rows = np.zeros((len(scenes), max(largest, 1), tracer.ROW))
    counts = np.array([len(scene.objects) for scene in scenes], dtype=np.int64)
    for i, scene in enumerate(scenes):
        for k, o in enumerate(scene.objects):
            rows[i, k] = (
                SHAPES.index(o.shape), MATERIALS.index(o.material), *o.coords, SIZES[o.size],
                math.cos(o.rotation), math.sin(o.rotation), *(c / 255 for c in COLOR_RGB[o.color]),
            )  # fmt: skip
    cameras = np.array([(*s.camera.location, *CROPS[s.camera.crop]) for s in scenes]).reshape(-1, 5)
    lamps = np.array([(s.lamps.key, s.lamps.fill, s.lamps.back) for s in scenes]).reshape(-1, 3, 3)
    return rows, counts, cameras, lamps
