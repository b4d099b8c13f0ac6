"""CLEVR scenes by CLEVR's own procedure (Johnson et al. 2017), each from its own (seed, index).

Quirks kept from the original: cubes have half edge = radius; left/right/front/behind are those of the camera
without jitter; a rotation is a number of degrees that the original renderer reads as radians.
"""

import math
from dataclasses import dataclass, field

import numpy as np

from lcs_utils.checks import (
    as_array,
    check_choice,
    check_count,
    check_flag,
    check_items,
    check_kind,
    check_number,
    check_place,
    check_text,
    check_tuple,
)
from lcs_utils.clevr import tracer
from lcs_utils.clevr.grid import MAX_OBJECTS
from lcs_utils.clevr.placement import BEHIND, MARGIN, MIN_DISTANCE, MIN_VISIBLE_PIXELS, RIGHT, failure, place  # noqa: F401 (for others)
from lcs_utils.clevr.world import (  # noqa: F401 (CLEVR's own values, read from here)
    CAMERA_LOCATION,
    CLEVR,
    COLOR_RGB,
    CROPS,
    FRAME,
    LENS_MM,
    SENSOR_MM,
    SIZES,
    World,
    check_view,
    numbers,
)  # fmt: skip

SHAPES, MATERIALS, COLORS = tracer.SHAPES, tracer.MATERIALS, tuple(COLOR_RGB)
ALLOWED = {"shape": SHAPES, "size": tuple(SIZES), "material": MATERIALS, "color": COLORS}
LAMP_LOCATIONS = {
    "key": (6.446710109710693, -2.905174732208252, 4.258398056030273),
    "fill": (-4.671124458312988, -4.01359748840332, 3.0112245082855225),
    "back": (-1.168501377105713, 2.646024465560913, 5.815736770629883),
}
MAX_RESTARTS = 2_000_000  # with CLEVR's margins 12 objects need thousands, 13 too many
MAX_SEED = 2**32 - 1  # a larger one would fill two words of the generator's key, where the index stands


@dataclass(frozen=True)
class SceneObject:
    """One object: `coords` is its center in scene units, `rotation` is in CLEVR's "degrees", the others are
    names of its `world`.

    `pixel_coords` locate it in a published image and do not enter comparisons.
    """

    shape: str
    size: str
    material: str
    color: str
    coords: tuple[float, float, float]
    rotation: float
    pixel_coords: tuple[int, int, float] | None = field(default=None, compare=False)
    world: World = field(default=CLEVR, repr=False)

    def __post_init__(self):
        check_kind("world", self.world, World, "a World")
        for key in ALLOWED:
            check_choice(key, getattr(self, key), tuple(getattr(self.world, f"{key}s")))
        check_place("coords", self.coords)
        check_number("rotation", self.rotation, -1e6, 1e6)
        if self.pixel_coords is not None:
            check_tuple("pixel_coords", self.pixel_coords, 3)
        object.__setattr__(self, "coords", numbers(self.coords, 3, "coords of an object"))
        object.__setattr__(self, "rotation", *numbers([self.rotation], 1, "rotation of an object"))

    @property
    def radius(self) -> float:
        """Radius of the unstretched solid, in scene units."""
        return self.world.sizes[self.size]


@dataclass(frozen=True)
class Camera:
    """A camera that looks at `target`; `crop` is one of CROPS ("center": 320x240 cropped to 240x240, a 46.7
    mm lens), or any other name with its own `focal` lengths, as fractions of the image's width and height.
    """

    location: tuple[float, float, float] = CAMERA_LOCATION
    crop: str = "center"
    target: tuple[float, float, float] = (0.0, 0.0, 0.0)
    focal: tuple[float, float] | None = None

    def __post_init__(self):
        check_text("crop", self.crop)
        check_place("camera location", self.location)
        check_place("camera target", self.target)
        if self.focal is None and self.crop not in CROPS:
            raise ValueError(
                f"unknown crop {self.crop!r}; allowed: {', '.join(CROPS)}, or another name with its focal"
            )
        focal = CROPS[self.crop] if self.focal is None else numbers(self.focal, 2, "focal", 0.1, 20)
        check_view(self.location, self.target)
        for name, value in (("location", self.location), ("target", self.target), ("focal", focal)):
            object.__setattr__(self, name, tuple(float(v) for v in value))


@dataclass(frozen=True)
class Lamps:
    """Positions of the three area lamps, which point at the origin (the sun is never moved)."""

    key: tuple[float, float, float] = LAMP_LOCATIONS["key"]
    fill: tuple[float, float, float] = LAMP_LOCATIONS["fill"]
    back: tuple[float, float, float] = LAMP_LOCATIONS["back"]

    def __post_init__(self):
        for name in LAMP_LOCATIONS:
            check_place(f"lamp {name}", getattr(self, name), aside=True)
            object.__setattr__(self, name, numbers(getattr(self, name), 3, f"lamp {name!r}"))


@dataclass(frozen=True)
class Scene:
    """Objects (at most MAX_OBJECTS), camera and lamps: all that an image depends on; `seed` and `index`
    record where they came from.
    """

    objects: tuple[SceneObject, ...]
    camera: Camera = Camera()
    lamps: Lamps = Lamps()
    seed: int = 0
    index: int = 0

    def __post_init__(self):
        objects = check_items("objects", self.objects, SceneObject, "SceneObjects")
        check_count("number of objects", len(objects), 0, MAX_OBJECTS)
        check_kind("camera", self.camera, Camera, "a Camera")
        check_kind("lamps", self.lamps, Lamps, "Lamps")
        object.__setattr__(self, "objects", tuple(objects))
        if any(o.world != self.world for o in self.objects):
            raise ValueError("the objects of a scene must be of one world")

    @property
    def world(self) -> World:
        """The world of its objects; CLEVR if there are none."""
        return self.objects[0].world if self.objects else CLEVR


def check_scenes(scenes) -> list[Scene]:
    """A sequence of scenes as a list. Raises TypeError for anything else, also for a single scene."""
    return check_items("scenes", scenes, Scene, "Scenes")


def check_scene(scene) -> Scene:
    """The scene itself. Raises TypeError for anything else."""
    return check_kind("scene", scene, Scene, "a Scene")


def _stage(seed, index, crop, world):
    """The scene's random generator, jittered camera and lamps, drawn in the original's order."""
    check_kind("world", world, World, "a World")
    check_count("seed", seed, 0, MAX_SEED)
    check_count("index", index)
    check_choice("crop", crop, tuple(world.crops))
    rng = np.random.Generator(np.random.PCG64(np.random.SeedSequence([seed, index])))
    u = rng.random((4, 3))
    camera = np.array(world.camera) + u[0] - 0.5
    key, back, fill = (
        np.array(LAMP_LOCATIONS[name]) + 2 * v - 1 for name, v in zip(("key", "back", "fill"), u[1:])
    )
    lamps = Lamps(tuple(key.tolist()), tuple(fill.tolist()), tuple(back.tolist()))
    return rng, Camera(tuple(camera.tolist()), crop, world.target, world.crops[crop]), lamps


def sample_scene(
    seed: int,
    index: int,
    n_objects: int,
    margins: bool = True,
    visibility: bool = True,
    require_centers_inside: bool = False,
    crop: str = "center",
    world: World = CLEVR,
    restarts: int = MAX_RESTARTS,
) -> Scene:
    """Sample a scene of `n_objects` by CLEVR's procedure (App. E.1's data); depends on its arguments alone.

    Raises ValueError if no legal placement is found within `restarts` restarts.
    Choice: the visibility test counts pixels of a 160x120 frame and scales CLEVR's 200 px of 320x240 with it.
    Choice: `margins=False` only forbids that the circles of the objects' radii overlap, for crowded scenes.
    The corners of a cube reach 1.34 radii, so that cubes may touch or intersect there, as in CLEVR.
    Choice: sizes, shapes, colors and materials are uniform, as in CLEVR; the generator is numpy's PCG64.
    Choice: a stretched shape keeps the distances of the circle of its larger half width.
    """
    check_count("n_objects", n_objects, 0, MAX_OBJECTS)
    flags = {"margins": margins, "visibility": visibility, "require_centers_inside": require_centers_inside}
    for name, value in flags.items():
        check_flag(name, value)
    rng, camera, lamps = _stage(seed, index, crop, world)
    rows, drawn = np.zeros((n_objects, tracer.ROW)), np.zeros((n_objects, 5))
    gap, margin = (MIN_DISTANCE, MARGIN) if margins else (0.0, 0.0)
    rules = gap, margin, 2 if visibility and n_objects else 0, require_centers_inside
    radii = np.array(list(world.sizes.values()))
    shapes = np.array([(SHAPES.index(s.solid), *s.stretch) for s in world.shapes.values()])
    kinds = len(world.colors), len(world.materials)
    view = np.array([*camera.location, *camera.focal, *camera.target])
    placed, *tried = place(rng, n_objects, view, rules, radii, shapes, *kinds, restarts, rows, drawn)
    if not placed:
        raise failure(n_objects, *tried, *flags.values())
    names = [tuple(getattr(world, key)) for key in ("sizes", "shapes", "colors", "materials")]
    objects = []
    for row, (size, shape, color, degrees, material) in zip(rows.tolist(), drawn.tolist(), strict=True):
        size, shape, color, material = (
            values[int(i)] for values, i in zip(names, (size, shape, color, material), strict=True)
        )
        objects.append(SceneObject(shape, size, material, color, tuple(row[2:5]), degrees, world=world))
    return Scene(tuple(objects), camera, lamps, seed, index)


def check_placement(seed: int, indices, n_objects: int, **options) -> None:
    """Raise ValueError unless a few scenes can be placed within a twentieth of the restarts, fast enough for
    a whole data set.
    """
    for index in indices:
        sample_scene(seed, index, n_objects, **options, restarts=MAX_RESTARTS // 20)


def scene_at(locations, seed: int, index: int, crop: str = "center", world: World = CLEVR) -> Scene:
    """A scene with one object centered at each image location ([K, 2], in [0, 1], x right, y down): E.1's
    test layouts.

    Attributes, camera and lamps are random; a center lies where the camera ray through its location meets the
    plane at half its object's height. Raises ValueError for a location above the horizon.
    Choice: no margin, overlap or visibility test (the paper's layouts hardly ever satisfy CLEVR's margins
    from K = 4 on).
    """
    locations = as_array("locations", locations, ("K", 2))
    check_count("number of locations", len(locations), 0, MAX_OBJECTS)
    rng, camera, lamps = _stage(seed, index, crop, world)
    axes, (fx, fy), eye = _axes(camera), camera.focal, np.array(camera.location)
    sizes, shapes, colors, materials = map(tuple, (world.sizes, world.shapes, world.colors, world.materials))
    objects = []
    for x, y in locations:
        size = sizes[rng.integers(len(sizes))]
        ray = (x - 0.5) / fx * axes[0] + (0.5 - y) / fy * axes[1] - axes[2]
        if ray[2] >= 0:
            raise ValueError(f"location ({x:g}, {y:g}) lies above the horizon")
        shape, color = shapes[rng.integers(len(shapes))], colors[rng.integers(len(colors))]
        degrees, material = 360.0 * rng.random(), materials[rng.integers(len(materials))]
        height = world.sizes[size] * world.shapes[shape].stretch[2]
        point = eye + ray * (height - eye[2]) / ray[2]
        objects.append(SceneObject(shape, size, material, color, tuple(point.tolist()), degrees, world=world))
    return Scene(tuple(objects), camera, lamps, seed, index)


def _axes(camera):
    """Right, up and backward unit vectors of a camera, as rows."""
    return tracer.camera_axes(*np.subtract(camera.location, camera.target))


def _view(scene):
    d = np.array([o.coords for o in scene.objects]).reshape(-1, 3) - np.array(scene.camera.location)
    return d @ _axes(scene.camera).T


def depths(scene: Scene) -> np.ndarray:
    """Depth [n] of the object centers along the view axis, in scene units. Raises as `check_scene`."""
    check_scene(scene)
    return -_view(scene)[:, 2]


def project(scene: Scene) -> np.ndarray:
    """Image locations [n, 2] of the object centers, x right, y down, as shares of the image (inside it: [0,
    1]). Raises as `check_scene`.
    """
    check_scene(scene)
    (fx, fy), view = scene.camera.focal, _view(scene)
    return np.stack([0.5 - fx * view[:, 0] / view[:, 2], 0.5 + fy * view[:, 1] / view[:, 2]], 1)


def pack(scenes) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Scenes as arrays: objects [n, max, ROW], counts [n], cameras [n, 8] (location, focal lengths,
    target), lamps [n, 3, 3]. Raises as `check_scenes`.
    """
    scenes = check_scenes(scenes)
    largest = max((len(scene.objects) for scene in scenes), default=0)
    rows = np.zeros((len(scenes), max(largest, 1), tracer.ROW))
    counts = np.array([len(scene.objects) for scene in scenes], dtype=np.int64)
    for i, scene in enumerate(scenes):
        for k, o in enumerate(scene.objects):
            rows[i, k] = _row(o)
    cameras = np.array([(*s.camera.location, *s.camera.focal, *s.camera.target) for s in scenes])
    lamps = np.array([(s.lamps.key, s.lamps.fill, s.lamps.back) for s in scenes]).reshape(-1, 3, 3)
    return rows, counts, cameras.reshape(-1, 8), lamps


def _row(o):
    """An object in the tracer's layout."""
    shape, material = o.world.shapes[o.shape], o.world.materials[o.material]
    return (
        SHAPES.index(shape.solid),
        MATERIALS.index(material.kind),
        *o.coords,
        o.radius,
        math.cos(o.rotation),
        math.sin(o.rotation),
        *(c / 255 for c in o.world.colors[o.color]),
        material.roughness,
        shape.stretch != (1.0, 1.0, 1.0),
        *shape.stretch,
    )
