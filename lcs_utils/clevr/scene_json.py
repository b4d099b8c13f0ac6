"""CLEVR's scene JSON: all original keys, plus the camera, lamps and seed needed to render the image again.

Each object also stores how many pixels show it (`visible_pixels`). A shard's lines leave out everything that
can be derived (`scene_line`); `scene_from_json` reads both forms.
"""

import json
import math

import numpy as np

from lcs_utils import store
from lcs_utils.clevr.annotations import trace, visible_pixels
from lcs_utils.clevr.scenes import (
    ALLOWED,
    BEHIND,
    CAMERA_LOCATION,
    CLEVR,
    CROPS,
    RIGHT,
    Camera,
    Lamps,
    Scene,
    SceneObject,
    World,
    depths,
    project,
)

DIRECTIONS = {
    "right": (*RIGHT, 0.0),
    "behind": (*BEHIND, 0.0),
    "above": (0.0, 0.0, 1.0),
    "left": (-RIGHT[0], -RIGHT[1], -0.0),
    "front": (-BEHIND[0], -BEHIND[1], -0.0),
    "below": (-0.0, -0.0, -1.0),
}
FIT = 1.5  # px, largest error of a center under a fitted camera; published centers are whole pixels
NEAR = 0.6  # largest jitter of a fitted camera along each axis; CLEVR's is 0.5
EPSILON = 0.2  # how far along a direction an object must lie to count as related


def relationships(scene: Scene) -> dict[str, list[list[int]]]:
    """CLEVR's adjacency lists: {direction: for each object, the indices of the objects on that side of it}.

    Choice: the directions are those of the camera without jitter, as in every published CLEVR scene.
    """
    points = np.array([o.coords for o in scene.objects]).reshape(-1, 3)
    along = {name: points @ np.array(DIRECTIONS[name]) for name in ("right", "behind", "front", "left")}
    return {
        name: [
            [j for j in range(len(points)) if j != i and p[j] - p[i] > EPSILON] for i in range(len(points))
        ]
        for name, p in along.items()
    }


def scene_to_json(scene: Scene, split: str = "new", width: int = 240, height: int = 240) -> dict:
    """The scene as CLEVR's dictionary, with pixel_coords (depth in scene units) for a width x height image.

    `visible_pixels` counts the pixel centers of that image that show the object.
    """
    visible = visible_pixels(trace(scene, width, height).ids, len(scene.objects)).tolist()
    seen = zip(scene.objects, project(scene).tolist(), depths(scene).tolist(), visible, strict=True)
    objects = [
        {
            "shape": o.shape,
            "size": o.size,
            "material": o.material,
            "color": o.color,
            "3d_coords": list(o.coords),
            "rotation": o.rotation,
            "pixel_coords": [round(x * width), round(y * height), depth],
            "visible_pixels": pixels,
        }
        for o, (x, y), depth, pixels in seen
    ]
    return {
        "split": split,
        "image_index": scene.index,
        "image_filename": f"CLEVR_{split}_{scene.index:06d}.png",
        "objects": objects,
        "directions": {name: list(d) for name, d in DIRECTIONS.items()},
        "relationships": relationships(scene),
        "camera": {
            "location": list(scene.camera.location),
            "target": list(scene.camera.target),
            "crop": scene.camera.crop,
            "focal": list(scene.camera.focal),
            "width": width,
            "height": height,
        },
        "lamps": {name: list(getattr(scene.lamps, name)) for name in ("key", "fill", "back")},
        "seed": scene.seed,
    } | ({"world": scene.world.to_json()} if scene.world != CLEVR else {})


def scene_line(scene: Scene, width: int, height: int) -> str:
    """The scene as one line of JSON without constants and derived values: half the bytes of CLEVR's
    dictionary, which `scene_to_json(scene_from_json(...))` restores.
    """
    camera = {"location": scene.camera.location, "crop": scene.camera.crop}
    if scene.camera.focal != CROPS.get(scene.camera.crop):
        camera["focal"] = scene.camera.focal
    if any(scene.camera.target):
        camera["target"] = scene.camera.target
    objects = [
        {
            "shape": o.shape,
            "size": o.size,
            "material": o.material,
            "color": o.color,
            "3d_coords": o.coords,
            "rotation": o.rotation,
        }
        for o in scene.objects
    ]
    line = {
        "seed": scene.seed,
        "image_index": scene.index,
        "objects": objects,
        "camera": camera | {"width": width, "height": height},
        "lamps": {name: getattr(scene.lamps, name) for name in ("key", "fill", "back")},
    }
    if scene.world != CLEVR:
        line["world"] = scene.world.to_json()
    return json.dumps(line, separators=(",", ":"))


def _is_number(value):
    try:
        return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    except OverflowError:  # a whole number that no float holds
        return False


def _numbers(holder, key, n, where):
    value = _get(holder, key, where)
    good = isinstance(value, list) and all(_is_number(v) for v in value)
    if not good or len(value) != n:
        raise ValueError(f"{where}: {key!r} must be {n} finite numbers, got {value!r}")
    return tuple(value)


def _get(holder, key, where):
    if not isinstance(holder, dict):
        raise ValueError(f"{where}: expected a JSON object, got {type(holder).__name__}")
    if key not in holder:
        raise ValueError(f"{where}: key {key!r} is missing")
    return holder[key]


def scene_from_json(data: dict, width: int = 480, height: int = 320) -> Scene:
    """A scene from CLEVR's dictionary: ours (full, or a shard's line) or a published one. If camera and lamps
    are stored, the scene and its image are the same again.

    Published scenes do not store the camera's jitter: it is fitted to their pixel_coords (of a width x height
    image), and the lamps get their positions without jitter. Raises ValueError naming the wrong object and
    key.
    """
    objects = []
    world = World.from_json(data["world"]) if isinstance(data, dict) and "world" in data else CLEVR
    listed = _get(data, "objects", "scene")
    if not isinstance(listed, list):
        raise ValueError(f"scene: 'objects' must be a list, got {type(listed).__name__}")
    for i, o in enumerate(listed):
        where = f"object {i}"
        for key in ALLOWED:
            allowed = tuple(getattr(world, f"{key}s"))
            if _get(o, key, where) not in allowed:
                raise ValueError(f"{where}: {key!r} is {o[key]!r}; allowed: {', '.join(allowed)}")
        rotation = _get(o, "rotation", where)
        if not _is_number(rotation):
            raise ValueError(f"{where}: 'rotation' must be a finite number, got {rotation!r}")
        pixels = _numbers(o, "pixel_coords", 3, where) if "pixel_coords" in o else None
        coords = _numbers(o, "3d_coords", 3, where)
        objects.append(
            SceneObject(o["shape"], o["size"], o["material"], o["color"], coords, rotation, pixels, world)
        )
    if "camera" in data:
        camera = _camera(data["camera"])
    elif objects and all(o.pixel_coords for o in objects):
        crop = next((name for name, (fx, fy) in CROPS.items() if math.isclose(fx * width, fy * height)), "v1")
        camera = fit_camera(
            [o.coords for o in objects], [o.pixel_coords for o in objects], width, height, crop
        )
        seen = project(Scene(tuple(objects), camera)) * [width, height]
        far = np.abs(seen - np.array([o.pixel_coords[:2] for o in objects])).max(1)
        if far.max() > FIT:
            raise _misfit(width, height, f"object {far.argmax()}: ", f" ({far.max():.1f} px off)")
    else:
        camera = Camera(crop="v1")
    lamps = Lamps()
    if "lamps" in data:
        lamps = Lamps(**{k: _numbers(data["lamps"], k, 3, "lamps") for k in ("key", "fill", "back")})
    numbers = [data.get(key, 0) for key in ("seed", "image_index")]
    for key, value in zip(("seed", "image_index"), numbers, strict=True):
        if not isinstance(value, int) or isinstance(value, bool) or value < 0:
            raise ValueError(f"scene: {key!r} must be a whole number of at least 0, got {value!r}")
    return Scene(tuple(objects), camera, lamps, *numbers)


def _camera(data):
    crop = _get(data, "crop", "camera")
    if not isinstance(crop, str) or crop not in CROPS and "focal" not in data:
        raise ValueError(f"camera: 'crop' is {crop!r}; allowed: {', '.join(CROPS)}, or another with 'focal'")
    target = _numbers(data, "target", 3, "camera") if "target" in data else (0.0, 0.0, 0.0)
    focal = _numbers(data, "focal", 2, "camera") if "focal" in data else None
    return Camera(_numbers(data, "location", 3, "camera"), crop, target, focal)


def _misfit(width, height, which="", off=""):
    return ValueError(
        f"{which}no camera near CLEVR's shows the objects at their 'pixel_coords' in an image of "
        f"{width}x{height}{off}; is the image of another size?"
    )


def fit_camera(coords, pixel_coords, width: int, height: int, crop: str = "v1") -> Camera:
    """Fit the jittered camera to published pixel_coords (x, y in pixels, depth) by Gauss-Newton steps.

    Raises ValueError if it does not lie within CLEVR's jitter, as for an image of another size.
    Choice: depths are stored exactly and pixels rounded, so a depth unit weighs as much as 200 pixels.
    Choice: a unit of jitter weighs as much as a pixel: one object near the target says little of the camera.
    """
    target = np.asarray(pixel_coords, dtype=np.float64)
    stand_in = [SceneObject("sphere", "large", "rubber", "gray", tuple(c), 0.0) for c in coords]

    def residual(location):
        scene = Scene(tuple(stand_in), Camera(tuple(location), crop))
        seen = np.column_stack([project(scene) * [width, height], depths(scene)])
        return np.append((seen - target) * [1.0, 1.0, 200.0], location - CAMERA_LOCATION)

    location = np.array(CAMERA_LOCATION)
    for _ in range(20):
        try:
            r = residual(location)
            jacobian = np.stack([(residual(location + 1e-5 * e) - r) / 1e-5 for e in np.eye(3)], 1)
        except ValueError:  # of a camera under the floor or far away
            raise _misfit(width, height) from None
        step = np.linalg.lstsq(jacobian, -r, rcond=None)[0]
        location = location + step
        if np.abs(step).max() < 1e-9:
            break
    if not np.abs(location - CAMERA_LOCATION).max() <= NEAR:
        raise _misfit(width, height)
    return Camera(tuple(location.tolist()), crop)


def write_scenes(
    path, scenes, split: str = "new", width: int = 240, height: int = 240, date: str = ""
) -> None:
    """Write CLEVR's collected scene file: {"info": ..., "scenes": [...]}."""
    info = {"date": date, "version": "1.0", "split": split, "license": "CC-BY 4.0"}
    listed = [scene_to_json(s, split, width, height) for s in scenes]
    store.write_text(path, json.dumps({"info": info, "scenes": listed}))


def read_scenes(path, width: int = 480, height: int = 320) -> list[Scene]:
    """Read scenes from a collected CLEVR file, a single scene's JSON, or JSON lines.

    `width`, `height`: size of the images that the file's pixel_coords refer to, 480x320 for the published
    scenes, 320x240 for CLEVR's own script; our files store it. Raises ValueError naming the file and scene.
    """
    with open(path, encoding="utf-8") as file:
        text = file.read()
    if not text.strip():
        raise ValueError(f"{path} is empty: it holds no scene")
    try:
        try:
            data = json.loads(text)
            data = data["scenes"] if isinstance(data, dict) and "scenes" in data else [data]
        except json.JSONDecodeError:
            data = [json.loads(line) for line in text.splitlines() if line.strip()]
    except json.JSONDecodeError as error:
        raise ValueError(f"{path}: not JSON ({error})") from None
    if not isinstance(data, list):
        raise ValueError(f"{path}: 'scenes' must be a list, got {type(data).__name__}")
    scenes = []
    for i, entry in enumerate(data):
        try:
            scenes.append(scene_from_json(entry, width, height))
        except ValueError as error:
            raise ValueError(f"{path}: scene {i}: {error}") from None
    return scenes
