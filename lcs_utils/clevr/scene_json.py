"""CLEVR's scene JSON: every original key, plus the camera, lamps and seed without which an image cannot be made again."""

from lcs_utils.clevr.scenes import BEHIND, CROPS, RIGHT, Scene, depths, project

DIRECTIONS = {
    "right": (*RIGHT, 0.0), "behind": (*BEHIND, 0.0), "above": (0.0, 0.0, 1.0),
    "left": (-RIGHT[0], -RIGHT[1], -0.0), "front": (-BEHIND[0], -BEHIND[1], -0.0), "below": (-0.0, -0.0, -1.0),
}  # fmt: skip
EPSILON = 0.2  # how far along a direction an object must lie to count as related


def relationships(scene: Scene) -> dict[str, list[list[int]]]:
    """For left, right, front, behind and each object, the objects on that side of it (CLEVR's adjacency lists)."""
    points = [o.coords for o in scene.objects]

    def side(d, i):
        shift = lambda p: (p[0] - points[i][0]) * d[0] + (p[1] - points[i][1]) * d[1]  # noqa: E731
        return [j for j, p in enumerate(points) if j != i and shift(p) > EPSILON]

    return {name: [side(DIRECTIONS[name], i) for i in range(len(points))] for name in ("right", "behind", "front", "left")}


def scene_to_json(scene: Scene, split: str = "new", width: int = 240, height: int = 240) -> dict:
    """The scene as CLEVR's dictionary; pixel_coords for an image of width x height pixels, depth in scene units."""
    seen = zip(scene.objects, project(scene).tolist(), depths(scene).tolist(), strict=True)
    objects = [
        {"shape": o.shape, "size": o.size, "material": o.material, "color": o.color, "3d_coords": list(o.coords),
         "rotation": o.rotation, "pixel_coords": [round(x * width), round(y * height), depth]}
        for o, (x, y), depth in seen
    ]  # fmt: skip
    return {
        "split": split,
        "image_index": scene.index,
        "image_filename": f"CLEVR_{split}_{scene.index:06d}.png",
        "objects": objects,
        "directions": {name: list(d) for name, d in DIRECTIONS.items()},
        "relationships": relationships(scene),
        "camera": {"location": list(scene.camera.location), "target": [0.0, 0.0, 0.0], "crop": scene.camera.crop,
                   "focal": list(CROPS[scene.camera.crop]), "width": width, "height": height},
        "lamps": {name: list(getattr(scene.lamps, name)) for name in ("key", "fill", "back")},
        "seed": scene.seed,
    }  # fmt: skip
