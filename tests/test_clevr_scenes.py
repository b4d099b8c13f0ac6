"""Scenes against CLEVR's own rules and one published image."""

import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from lcs_utils.clevr.conditions import TEST_LOCATIONS
from lcs_utils.clevr.render import object_ids
from lcs_utils.clevr.scene_json import (
    fit_camera,
    read_scenes,
    relationships,
    scene_from_json,
    scene_to_json,
    write_scenes,
)
from lcs_utils.clevr.scenes import (
    BEHIND,
    CAMERA_LOCATION,
    COLORS,
    LAMP_LOCATIONS,
    RIGHT,
    SIZES,
    Camera,
    Scene,
    SceneObject,
    World,
    check_placement,
    project,
    sample_scene,
    scene_at,
)

PUBLISHED = json.loads((Path(__file__).parent / "data" / "clevr_val_000000.json").read_text())


def gaps(scene):
    """Smallest surface gap and smallest offset along the two margin directions over all pairs of objects."""
    gap = offset = math.inf
    for i, a in enumerate(scene.objects):
        for b in scene.objects[:i]:
            d = np.subtract(a.coords, b.coords)[:2]
            gap = min(gap, np.hypot(*d) - SIZES[a.size] - SIZES[b.size])
            offset = min(offset, abs(d @ RIGHT), abs(d @ BEHIND))
    return gap, offset


def test_a_scene_is_a_function_of_seed_and_index():
    assert sample_scene(3, 5, 4) == sample_scene(3, 5, 4)
    assert sample_scene(3, 5, 4) != sample_scene(3, 6, 4)
    assert sample_scene(3, 5, 4) != sample_scene(4, 5, 4)


def test_margins_hold_and_are_broken_without_them():
    with_margins = [gaps(sample_scene(0, i, 6)) for i in range(30)]
    assert min(g for g, _ in with_margins) >= 0.25 and min(o for _, o in with_margins) >= 0.4
    without = [gaps(sample_scene(0, i, 6, margins=False)) for i in range(30)]
    assert 0 <= min(g for g, _ in without) < 0.25 and min(o for _, o in without) < 0.4


def test_attributes_and_jitter_have_clevrs_ranges():
    scenes = [sample_scene(1, i, 3) for i in range(400)]
    objects = [o for s in scenes for o in s.objects]
    assert {o.color for o in objects} == set(COLORS)
    for key, n in (("shape", 3), ("material", 2), ("size", 2)):
        values, counts = np.unique([getattr(o, key) for o in objects], return_counts=True)
        assert len(values) == n and np.abs(counts / len(objects) - 1 / n).max() < 0.06
    jitter = np.array([s.camera.location for s in scenes]) - CAMERA_LOCATION
    assert 0.45 < np.abs(jitter).max() <= 0.5
    key = np.array([s.lamps.key for s in scenes]) - LAMP_LOCATIONS["key"]
    assert 0.9 < np.abs(key).max() <= 1.0
    assert all(o.coords[2] == SIZES[o.size] for o in objects)


def test_every_object_is_visible_unless_the_test_is_off():
    def smallest(scene):
        ids = object_ids(replace(scene, camera=Camera(scene.camera.location, "squash")), 240)
        return min((ids == k).sum() * 320 / 240 for k in range(len(scene.objects)))  # in pixels of 320x240

    assert min(smallest(sample_scene(2, i, 6)) for i in range(40)) > 0.9 * 200
    assert min(smallest(sample_scene(2, i, 6, visibility=False)) for i in range(40)) < 0.5 * 200


def test_centers_inside_when_required():
    inside = [project(sample_scene(0, i, 6, require_centers_inside=True)) for i in range(100)]
    assert all((p > 0).all() and (p < 1).all() for p in inside)
    free = [project(sample_scene(0, i, 6)) for i in range(100)]
    assert 0.02 < np.mean([((p < 0) | (p > 1)).any() for p in free]) < 0.25  # 11% in a larger count


def test_scene_at_puts_centers_where_asked():
    scene = scene_at(TEST_LOCATIONS, seed=0, index=1)
    assert np.abs(project(scene) - TEST_LOCATIONS).max() < 1e-9
    assert all(abs(o.coords[2] - SIZES[o.size]) < 1e-9 for o in scene.objects)


def test_clevr_reaches_every_test_location():
    """App. E.1's twelve cells all hold centers of sampled scenes if x is right, y down, and the crop the
    center one.
    """
    points = np.concatenate([project(sample_scene(0, i, 3)) for i in range(1500)])
    cell = (np.array(TEST_LOCATIONS) * 16).astype(int)
    share = [((points * 16).astype(int) == c).all(1).mean() for c in cell]
    assert min(share) > 2e-3
    upside_down = [((points * 16).astype(int) == (c[0], 15 - c[1])).all(1).mean() for c in cell]
    assert min(upside_down) < min(share)


def test_camera_of_a_published_image():
    coords = [o["3d_coords"] for o in PUBLISHED["objects"]]
    pixels = np.array([o["pixel_coords"] for o in PUBLISHED["objects"]])
    camera = fit_camera(coords, pixels, PUBLISHED["width"], PUBLISHED["height"])
    assert np.abs(np.subtract(camera.location, CAMERA_LOCATION) - (0.364, 0.289, -0.378)).max() < 0.01

    def error(camera):
        objects = tuple(SceneObject("cube", "large", "metal", "red", tuple(c), 0.0) for c in coords)
        scene = Scene(objects, camera)
        return np.abs(project(scene) * [480, 320] - pixels[:, :2]).max()

    assert error(camera) < 0.5
    assert error(Camera(crop="v1")) > 5  # without the jitter


def test_scene_files_give_the_same_scene_back(tmp_path):
    scenes = [sample_scene(0, i, 4) for i in range(3)]
    write_scenes(tmp_path / "scenes.json", scenes)
    back = read_scenes(tmp_path / "scenes.json")
    for a, b in zip(scenes, back, strict=True):
        assert b == a and b.objects[0].pixel_coords and not a.objects[0].pixel_coords
    (tmp_path / "scenes.jsonl").write_text("\n".join(json.dumps(scene_to_json(s)) for s in scenes))
    assert read_scenes(tmp_path / "scenes.jsonl") == back


def related_behind(offset):
    """Whether the second of two objects that are `offset` apart counts as behind the first."""
    coords = (0.0, 0.0, 0.7), (offset * BEHIND[0], offset * BEHIND[1], 0.7)
    pair = tuple(SceneObject("cube", "large", "metal", "red", place, 0.0) for place in coords)
    return relationships(Scene(pair))["behind"] == [[1], []]


def test_published_keys_and_relations():
    data = scene_to_json(sample_scene(0, 0, 4))
    assert {"split", "image_index", "image_filename", "objects", "directions", "relationships"} <= set(data)
    original = {"shape", "size", "material", "color", "3d_coords", "rotation", "pixel_coords"}
    assert set(data["objects"][0]) == original | {"visible_pixels"}
    assert related_behind(0.3) and not related_behind(0.1)  # CLEVR's epsilon of 0.2
    related = data["relationships"]
    assert all((j in related["left"][i]) == (i in related["right"][j]) for i in range(4) for j in range(4))
    published = {k: v for k, v in data.items() if k not in ("camera", "lamps", "seed")}
    scene = scene_from_json(published, 240, 240)  # a file without camera: the jitter is fitted
    assert np.abs(np.subtract(scene.camera.location, data["camera"]["location"])).max() < 0.02
    with pytest.raises(ValueError, match=r"no camera near CLEVR's shows .* in an image of 480x320.* another"):
        scene_from_json(published)  # the published size, which this image does not have


def published_alone(index, n_objects):
    """A scene with the keys that published files have, and where its camera stood."""
    data = scene_to_json(sample_scene(1, index, n_objects, crop="v1"), "new", 480, 320)
    camera = data["camera"]["location"]
    return {k: v for k, v in data.items() if k not in ("camera", "lamps", "seed")}, camera


def test_a_camera_far_from_clevrs_is_no_fit():
    """One object fits exactly under some camera at any size: only where that stands tells."""
    for index in range(12):
        for n_objects in (1, 2):
            data, camera = published_alone(index, n_objects)
            found = scene_from_json(data).camera.location
            assert np.abs(np.subtract(found, CAMERA_LOCATION)).max() <= 0.51
            assert n_objects == 1 or np.abs(np.subtract(found, camera)).max() < 0.2
            for size in ((320, 240), (320, 320), (960, 640)):
                with pytest.raises(
                    ValueError, match="no camera near CLEVR's .* is the image of another size"
                ):
                    scene_from_json(data, *size)
    data, _ = published_alone(0, 4)
    data["objects"][2]["pixel_coords"][0] += 9
    with pytest.raises(ValueError, match=r"object 2: no camera near .* px off\)"):
        scene_from_json(data)


def test_bad_input_is_named():
    good = scene_to_json(sample_scene(0, 0, 2))
    for change, message in (
        ({"shape": "pyramid"}, "object 1: 'shape' is 'pyramid'; allowed: sphere, cube, cylinder"),
        ({"3d_coords": [1, 2]}, "object 1: '3d_coords' must be 3 finite numbers"),
        ({"rotation": "x"}, "object 1: 'rotation'"),
        ({"rotation": 10**400}, "object 1: 'rotation' must be a finite number"),
        ({"3d_coords": [0, 0, -(10**400)]}, "object 1: '3d_coords' must be 3 finite numbers"),
    ):
        with pytest.raises(ValueError, match=message):
            scene_from_json({**good, "objects": [good["objects"][0], {**good["objects"][1], **change}]})
    for change, message in (
        ({"objects": 3}, "scene: 'objects' must be a list, got int"),
        ({"objects": [4]}, "object 0: expected a JSON object, got int"),
        (
            {"camera": {"location": [1, 2, 3], "crop": ["center"]}},
            "camera: 'crop' is .*; allowed: center, squash, native",
        ),
        (
            {"camera": {"location": [1, 2, True], "crop": "center"}},
            "camera: 'location' must be 3 finite numbers",
        ),
        ({"lamps": {"key": [0, 0, 1], "fill": [0, 0, 1]}}, "lamps: key 'back' is missing"),
        ({"seed": "a"}, "scene: 'seed' must be a whole number"),
        ({"seed": True}, "scene: 'seed' must be a whole number"),
    ):
        with pytest.raises(ValueError, match=message):
            scene_from_json({**good, **change})
    broken = {k: v for k, v in good["objects"][0].items() if k != "color"}
    with pytest.raises(ValueError, match="object 0: key 'color' is missing"):
        scene_from_json({**good, "objects": [broken]})
    with pytest.raises(ValueError, match="unknown color 'pink'; allowed: blue"):
        SceneObject("cube", "large", "metal", "pink", (0, 0, 0.7), 0.0)
    with pytest.raises(ValueError, match=r"shape \[K, 2\]"):
        scene_at([0.5, 0.5], 0, 0)
    with pytest.raises(ValueError, match="locations must be finite"):
        scene_at([[float("nan"), 0.5]], 0, 0)


def test_bad_files_are_named_with_scene_object_and_key(tmp_path):
    good = scene_to_json(sample_scene(0, 0, 2))
    bad = {**good, "objects": [good["objects"][0], {**good["objects"][1], "size": "huge"}]}
    for content, message in (
        (json.dumps({"scenes": [good, bad]}), "scene 1: object 1: 'size' is 'huge'; allowed: large, small"),
        (json.dumps({"scenes": 5}), "'scenes' must be a list, got int"),
        ('{"scenes": [', "not JSON"),
    ):
        (tmp_path / "file.json").write_text(content)
        with pytest.raises(ValueError, match=f"file.json: {message}"):
            read_scenes(tmp_path / "file.json")
    (tmp_path / "file.json").write_text("\n")
    with pytest.raises(ValueError, match="file.json is empty: it holds no scene"):
        read_scenes(tmp_path / "file.json")


def test_impossible_placements_end_with_count_and_margin():
    with pytest.raises(ValueError, match="no placement of 40 objects with margin 0.4"):
        sample_scene(0, 0, 40)
    assert [len(sample_scene(0, i, 12).objects) for i in range(3)] == [12] * 3
    check_placement(0, range(1, 4), 12)
    with pytest.raises(ValueError, match="no placement of 13 objects"):
        check_placement(0, range(3), 13)


def test_a_failed_placement_blames_what_ended_it():
    with pytest.raises(ValueError, match=r"in 20,000 attempts; ask for fewer objects or switch margins off$"):
        sample_scene(0, 0, 40)
    with pytest.raises(
        ValueError, match=r"margin 0 and gap 0 was found in 20,000 attempts; ask for fewer objects$"
    ):
        sample_scene(0, 0, 63, margins=False)
    tiny, aside = World(sizes={"dot": 0.05}), World(target=(40.0, -20.0, 0.0))
    said = r"in 20,000 attempts \(20,000 of them failed visibility\); .* or switch visibility off$"
    with pytest.raises(ValueError, match=said):
        sample_scene(0, 0, 1, world=tiny)
    said = r"of them failed require_centers_inside\); .* or switch require_centers_inside off$"
    with pytest.raises(ValueError, match=said):
        sample_scene(0, 0, 1, visibility=False, require_centers_inside=True, world=aside)
    with pytest.raises(ValueError, match="or switch visibility or require_centers_inside off$"):
        sample_scene(0, 0, 1, require_centers_inside=True, world=aside)


def test_no_two_seeds_alias():
    """A key of more than 32 bits would take two words, of which an index could be one."""
    assert sample_scene(5, 2**32 + 7, 1) != sample_scene(5, 7, 1)
    for seed in (2**32, 2**32 * 7 + 5, -1):
        with pytest.raises(ValueError, match=r"seed must be in 0..4294967295"):
            sample_scene(seed, 1, 1)
