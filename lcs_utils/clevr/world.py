"""What scenes are made of, as data: colors, sizes, shapes, materials, crops and the camera's position.

CLEVR is the default `World`; `read_world` reads another from JSON and takes missing entries from CLEVR.
Sampling, the back ends, labels and scene files all use it, so nothing else has to change (`docs/worlds.md`).
"""

import json
import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from lcs_utils.clevr import tracer

SIZES = {"large": 0.7, "small": 0.35}
COLOR_RGB = {  # 0-255, used / 255 as linear values; the paper's order of colors
    "blue": (42, 75, 215),
    "brown": (129, 74, 25),
    "cyan": (41, 208, 208),
    "gray": (87, 87, 87),
    "green": (29, 105, 20),
    "purple": (129, 38, 192),
    "red": (173, 35, 35),
    "yellow": (255, 238, 51),
}
CAMERA_LOCATION = (7.481131553649902, -6.5076398849487305, 5.34366512298584)
LENS_MM, SENSOR_MM, FRAME = 35.0, 32.0, (320, 240)
CROPS = {  # focal length as a fraction of the image's width and of its height
    "center": (LENS_MM / SENSOR_MM * 4 / 3, LENS_MM / SENSOR_MM * 4 / 3),
    "squash": (LENS_MM / SENSOR_MM, LENS_MM / SENSOR_MM * 4 / 3),
    "native": (LENS_MM / SENSOR_MM, LENS_MM / SENSOR_MM),
    "v1": (
        LENS_MM / SENSOR_MM,
        LENS_MM / SENSOR_MM * 480 / 320,
    ),  # the frame of the published images, 480x320
}


class Shape(NamedTuple):
    """One of the renderer's solids, stretched along its own x, y and z in units of the size's radius."""

    solid: str
    stretch: tuple[float, float, float] = (1.0, 1.0, 1.0)


class Material(NamedTuple):
    """Rubber's or metal's recipe with its own roughness (alpha) of rubber's gloss or metal's wide lobe."""

    kind: str
    roughness: float


SHAPES = {name: Shape(name) for name in tracer.SHAPES}
MATERIALS = {"rubber": Material("rubber", 0.35), "metal": Material("metal", 0.2)}


def numbers(value, n: int, where: str, low: float = -math.inf, high: float = math.inf) -> tuple:
    """`n` finite numbers within bounds, as a tuple. Raises ValueError for anything else."""
    try:
        value = tuple(value)
        found = () if any(isinstance(v, bool | str) for v in value) else tuple(map(float, value))
    except (TypeError, ValueError, OverflowError):
        found = ()
    if len(found) != n or not all(math.isfinite(v) and low <= v <= high for v in found):
        limits = "" if low == -math.inf else f" of {low:g} to {high:g}"
        raise ValueError(f"{where} must be {n} finite numbers{limits}, got {value!r}")
    return found


@dataclass(frozen=True, eq=False)
class World:
    """The names that scenes may use, and what they mean; `sample_scene` draws uniformly from each. Their
    order matters: draws and color labels are indices into it.

    `colors`: 0-255 (used / 255 as linear values); `sizes`: radii in scene units; `shapes`; `materials`;
    `crops`: focal lengths as fractions of the image's width and height; `camera`: its location without
    jitter, and `target`: the point it looks at, in scene units. Raises ValueError naming the wrong entry.
    """

    colors: dict[str, tuple] = field(default_factory=lambda: dict(COLOR_RGB))
    sizes: dict[str, float] = field(default_factory=lambda: dict(SIZES))
    shapes: dict[str, Shape] = field(default_factory=lambda: dict(SHAPES))
    materials: dict[str, Material] = field(default_factory=lambda: dict(MATERIALS))
    crops: dict[str, tuple] = field(default_factory=lambda: dict(CROPS))
    camera: tuple[float, float, float] = CAMERA_LOCATION
    target: tuple[float, float, float] = (0.0, 0.0, 0.0)

    def __post_init__(self):
        for name in ("colors", "sizes", "shapes", "materials", "crops"):
            entries = getattr(self, name)
            if isinstance(entries, list) and all(isinstance(e, list) and len(e) == 2 for e in entries):
                entries = {str(key): value for key, value in entries}
            if not isinstance(entries, dict) or not entries or not all(isinstance(k, str) for k in entries):
                raise ValueError(f"world: {name} must be a dictionary with a name or more, got {entries!r}")
            checked = {key: _CHECKS[name](value, f"{name}: {key!r}") for key, value in entries.items()}
            object.__setattr__(self, name, checked)
        if len(self.colors) > 127:
            raise ValueError(f"world: at most 127 colors have a label, got {len(self.colors)}")
        check_view(self.camera, self.target, 0.9)
        for name in ("camera", "target"):
            object.__setattr__(self, name, numbers(getattr(self, name), 3, f"world: {name}"))

    def _key(self):
        named = self.colors, self.sizes, self.shapes, self.materials, self.crops
        return *(tuple(entries.items()) for entries in named), self.camera, self.target

    def __eq__(self, other):
        return self is other or isinstance(other, World) and self._key() == other._key()

    def __hash__(self):
        return hash(self._key())

    def to_json(self) -> dict:
        """Plain lists and dictionaries that `World.from_json` turns back into an equal world; where order
        matters, lists of pairs, since JSON dictionaries are often sorted on the way.
        """
        shapes = {k: {"solid": s.solid, "stretch": list(s.stretch)} for k, s in self.shapes.items()}
        return {
            "colors": [[name, list(rgb)] for name, rgb in self.colors.items()],
            "sizes": [list(pair) for pair in self.sizes.items()],
            "shapes": [list(pair) for pair in shapes.items()],
            "materials": [[name, material._asdict()] for name, material in self.materials.items()],
            "crops": [[name, list(focal)] for name, focal in self.crops.items()],
            "camera": list(self.camera),
            "target": list(self.target),
        }

    @classmethod
    def from_json(cls, data: dict) -> "World":
        """A world from `to_json`'s dictionary or a part of it. Raises ValueError naming what is wrong."""
        allowed = cls.__dataclass_fields__
        if not isinstance(data, dict) or not set(data) <= set(allowed):
            unknown = ", ".join(sorted(set(data) - set(allowed))) if isinstance(data, dict) else repr(data)
            raise ValueError(f"world: unknown {unknown}; allowed: {', '.join(allowed)}")
        return cls(**data)


def _check_shape(value, where):
    known = isinstance(value, dict) and {"solid"} <= set(value) <= set(Shape._fields)
    value = Shape(**value) if known else value
    if not isinstance(value, Shape) or value.solid not in tracer.SHAPES:
        raise ValueError(
            f"{where} must be {{'solid': one of {', '.join(tracer.SHAPES)}, 'stretch': [x, y, z]}}, "
            f"got {value!r}"
        )
    return Shape(value.solid, numbers(value.stretch, 3, f"{where}: stretch", 0.2, 5))


def _check_material(value, where):
    value = Material(**value) if isinstance(value, dict) and {"kind", "roughness"} == set(value) else value
    if not isinstance(value, Material) or value.kind not in tracer.MATERIALS:
        kinds = ", ".join(tracer.MATERIALS)
        raise ValueError(f"{where} must be {{'kind': one of {kinds}, 'roughness': alpha}}, got {value!r}")
    return Material(value.kind, *numbers([value.roughness], 1, f"{where}: roughness", 0.02, 1))


_CHECKS = {
    "colors": lambda value, where: numbers(value, 3, where, 0, 255),
    "sizes": lambda value, where: numbers([value], 1, where, 0.05, 3)[0],
    "shapes": _check_shape,
    "materials": _check_material,
    "crops": lambda value, where: numbers(value, 2, where, 0.1, 20),
}


def check_view(location, target, jitter: float = 0.0) -> None:
    """Raise ValueError for a camera that looks straight up or down, is at its target or under the floor.

    `jitter`: how far the camera may still move sideways, in scene units: 0.9 covers CLEVR's 0.5 along each
    of x and y (0.71 together). Its height then moves by 5/9 of that, CLEVR's 0.5 along z.
    """
    x, y, z = (
        a - b
        for a, b in zip(
            numbers(location, 3, "camera location"), numbers(target, 3, "camera target"), strict=True
        )
    )
    if math.hypot(x, y) <= max(jitter, 1e-6):
        raise ValueError(
            f"a camera at {tuple(location)} looks straight up or down at {tuple(target)}, or lies there; "
            "move one of them sideways"
        )
    lowest = jitter * 5 / 9
    if location[2] <= lowest:
        moved = ", or its jitter may take it there" if jitter else ""
        raise ValueError(f"a camera at {tuple(location)} lies under the floor{moved} (z <= {lowest:g})")


CLEVR = World()


def read_world(path) -> World:
    """A world from a JSON file. Raises ValueError naming the file and the entry that is wrong."""
    try:
        return World.from_json(json.loads(Path(path).read_text()))
    except (ValueError, TypeError) as error:
        raise ValueError(f"{path}: {error}") from None
