"""Colors, shapes, materials, sizes, crops, camera and size of the picture are data, in both back ends."""

import json
import math
import re
import shlex
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from lcs_utils import paths
from lcs_utils.clevr import blender, dataset, parquet, tracer
from lcs_utils.clevr.annotations import labels, trace
from lcs_utils.clevr.conditions import color_counts
from lcs_utils.clevr.dataset import generate, read_manifest
from lcs_utils.clevr.loading import load
from lcs_utils.clevr.render import object_ids, render
from lcs_utils.clevr.scene_json import scene_from_json, scene_line, scene_to_json
from lcs_utils.clevr.scenes import Camera, Scene, SceneObject, project, sample_scene, scene_at
from lcs_utils.clevr.world import CLEVR, COLOR_RGB, CROPS, World, read_world

PAGE = (paths.ROOT / "docs" / "worlds.md").read_text()
OTHER = World.from_json(json.loads(re.search(r"```json\n(.*?)```", PAGE, re.DOTALL)[1]))


def test_the_page_runs(tmp_path, monkeypatch):
    """Its JSON, its Python and its commands, in the order in which they stand there."""
    monkeypatch.chdir(tmp_path)
    names = {}
    blocks = re.findall(r"```(json|python|sh)\n(.*?)```", PAGE, re.DOTALL)
    assert [kind for kind, _ in blocks] == ["json", "python", "sh", "python"]
    for kind, text in blocks:
        if kind == "json":
            Path("world.json").write_text(text)
        elif kind == "python":
            exec(text, names)
        else:
            for line in text.splitlines():
                _, _, module, *arguments = shlex.split(line)
                {"dataset": dataset, "parquet": parquet}[module.split(".")[-1]].main(arguments)
    assert read_manifest("shards")["settings"]["world"] == OTHER.to_json()


def test_a_ninth_color_is_drawn_labeled_and_seen():
    world = World(colors=COLOR_RGB | {"pink": (255, 60, 150)})
    scenes = [sample_scene(0, i, 3, world=world) for i in range(150)]
    colors = labels(scenes, 3)["colors"]
    assert 0.05 < (colors == 8).mean() < 0.18 and (colors < 8).any()  # one in nine
    assert not (labels([sample_scene(0, i, 3) for i in range(150)], 3)["colors"] == 8).any()
    counted = color_counts(torch.tensor(colors).long(), torch.tensor(colors >= 0), tuple(world.colors))
    assert counted.shape == (150, 9) and counted[:, 8].sum() == (colors == 8).sum()
    with pytest.raises(ValueError, match="color 8 is not in 0..7"):
        color_counts(torch.tensor(colors).long(), torch.tensor(colors >= 0))
    ball = SceneObject("sphere", "large", "rubber", "pink", (0.0, 0.0, 0.7), 0.0, world=world)
    image, ids = render([Scene((ball,))], 48)[0].astype(int), object_ids(Scene((ball,)), 48)
    red, green, blue = image[ids == 0].mean(0)
    assert red > blue + 20 > green + 40
    with pytest.raises(ValueError, match="unknown color 'pink'; allowed: blue"):
        replace(ball, world=CLEVR)


@pytest.mark.parametrize("solid", tracer.SHAPES)
def test_stretched_hits_and_normals_agree_with_marching(solid):
    rng, stretch, radius, angle = np.random.default_rng(0), np.array([0.6, 1.3, 1.8]), 0.35, 0.7
    center = np.array([0.4, -1.2, 0.6])
    row = np.zeros(tracer.ROW)
    tracer.fill_solid(row, np.array([tracer.SHAPES.index(solid), *stretch]), *center[:2], radius, angle)
    row[tracer.Z] = center[2]
    turn = np.array(
        [[math.cos(angle), math.sin(angle), 0], [-math.sin(angle), math.cos(angle), 0], [0, 0, 1]]
    )

    def outside(points):
        """The unit solid's own equation, negative inside."""
        p = (points - center) @ turn.T / (radius * stretch)
        if solid == "sphere":
            return (p**2).sum(-1) - 1
        if solid == "cube":
            return (np.maximum(np.abs(p) - 0.75, 0) ** 3).sum(-1) - 0.25**3
        rho = np.hypot(p[..., 0], p[..., 1])
        return (np.maximum(rho - 0.9, 0) / 0.1) ** 4 + (np.maximum(np.abs(p[..., 2]) - 0.9, 0) / 0.1) ** 4 - 1

    t, hits = np.linspace(0, 4, 20001), 0
    for _ in range(80):
        origin = center + rng.normal(size=3) * 0.2 + [1.5, 0, 0.8]
        ray = center + rng.normal(size=3) * 0.25 - origin
        ray /= np.linalg.norm(ray)
        inside, found = outside(origin + t[:, None] * ray) < 0, tracer.hit_object(*origin, *ray, row)
        if not inside.any():
            assert found == tracer.FAR or outside(origin + found * ray) < 0.02
            continue
        hits += 1
        assert abs(found - t[inside.argmax()]) < 3e-3
        point = origin + found * ray
        normal = np.array(tracer.object_normal(*point, row))
        gradient = np.array([outside(point + e) - outside(point - e) for e in 1e-5 * np.eye(3)])
        assert abs(np.linalg.norm(normal) - 1) < 1e-9 and normal @ ray < 0.05
        if solid == "sphere":
            assert normal @ gradient / np.linalg.norm(gradient) > 1 - 1e-4
            tangent = np.cross(normal, [0.3, -0.5, 0.8]) * 1e-3
            there = point + tangent
            there = there - outside(there) * gradient / (gradient @ gradient) * 2e-5
            change = np.array(tracer.object_normal(*there, row)) - normal
            assert np.allclose(tracer.normal_change(*point, *tangent, row), change, atol=3e-5)
    assert 15 < hits < 80


def test_objects_of_another_world_stand_on_the_floor_and_apart():
    for i in range(15):
        scene = sample_scene(1, i, 4, crop="wide", world=OTHER)
        assert scene.world == OTHER and scene.camera.target == OTHER.target
        for k, a in enumerate(scene.objects):
            stretch = OTHER.shapes[a.shape].stretch
            assert a.coords[2] == pytest.approx(a.radius * stretch[2])
            for b in scene.objects[:k]:
                reach = [o.radius * max(OTHER.shapes[o.shape].stretch[:2]) for o in (a, b)]
                assert math.dist(a.coords[:2], b.coords[:2]) >= sum(reach) + 0.25 - 1e-9
    objects = [o for i in range(60) for o in sample_scene(2, i, 3, world=OTHER, crop="wide").objects]
    for key in ("shape", "size", "material", "color"):
        assert {getattr(o, key) for o in objects} == set(getattr(OTHER, f"{key}s"))
    laid = scene_at([(0.4, 0.5), (0.6, 0.6)], 0, 0, "wide", OTHER)
    assert np.allclose(project(laid), [(0.4, 0.5), (0.6, 0.6)])


def test_a_rectangle_shows_the_square_in_its_middle():
    square = sample_scene(4, 0, 3)
    fx, fy = CROPS["center"]
    wide = replace(square, camera=replace(square.camera, crop="wider", focal=(fx * 48 / 72, fy)))
    assert np.array_equal(object_ids(wide, (72, 48))[:, 12:60], object_ids(square, 48))
    a, b = render([wide], (72, 48), 3)[0, :, 12:60].astype(int), render([square], 48, 3)[0]
    assert (
        np.abs(a - b).mean() < 1 < np.abs(np.roll(a, 3, 1) - b).mean()
    )  # sampling patterns move with columns
    across = render([square], (72, 48), 3)[0, :, 12:60].astype(int)  # the square's own crop squeezes it
    assert np.abs(across - b).mean() > 2
    seen = trace(wide, 72, 48)
    assert seen.ids.shape == seen.depth.shape == (48, 72)


def test_the_camera_looks_at_its_target():
    point = (1.0, -0.7, 0.7)
    ball = SceneObject("sphere", "large", "rubber", "red", point, 0.0)
    for target, place in ((point, (0.5, 0.5)), ((0.0, 0.0, 0.0), None)):
        scene = Scene((ball,), Camera((5.0, 6.0, 4.0), "native", target))
        found, ids = project(scene)[0], object_ids(scene, 40)
        assert (place is not None) == bool(np.allclose(found, 0.5))
        rows, columns = np.nonzero(ids == 0)
        assert np.abs([columns.mean() / 40 - found[0], rows.mean() / 40 - found[1]]).max() < 0.03
        image = render([scene], 40)[0].astype(int)
        assert image[ids == 0, 0].mean() > image[ids == 0, 2].mean() + 40


def test_roughness_blurs_what_shines():
    def gray_levels(kind, roughness):
        world = World(materials={"m": {"kind": kind, "roughness": roughness}})
        scene = Scene((SceneObject("sphere", "large", "m", "gray", (0.0, 0.0, 0.7), 0.0, world=world),))
        return render([scene], 64)[0].astype(float)[object_ids(scene, 64) == 0].mean(1)

    smooth, usual, rough = (gray_levels("metal", roughness) for roughness in (0.06, 0.2, 0.8))
    assert smooth.std() > 1.1 * usual.std() > 1.2 * rough.std()
    smooth, usual, rough = (gray_levels("rubber", roughness) for roughness in (0.06, 0.35, 0.8))
    assert smooth.max() > usual.max() + 2 and np.quantile(usual, 0.98) > np.quantile(rough, 0.98) + 1


def test_blender_is_told_the_same():
    scene = sample_scene(5, 0, 3, crop="wide", world=OTHER)
    job = blender.job(scene, (60, 40), 1, 1, Path("a.png"), None, "fast")
    assert job["size"] == (60, 40) and job["target"] == OTHER.target and job["focal"] == OTHER.crops["wide"]
    for o, told in zip(scene.objects, job["objects"], strict=True):
        shape, material = OTHER.shapes[o.shape], OTHER.materials[o.material]
        assert (told["shape"], told["stretch"], told["radius"]) == (*shape, OTHER.sizes[o.size])
        assert (told["material"], told["roughness"]) == material
        assert told["rgb"] == [c / 255 for c in OTHER.colors[o.color]]
    plain = blender.job(sample_scene(5, 0, 1), 32, 1, 1, Path("a.png"), None, "fast")
    assert plain["size"] == (32, 32) and plain["objects"][0]["stretch"] == (1.0, 1.0, 1.0)


def test_scenes_come_back_from_their_json():
    scenes = [sample_scene(6, i, i) for i in range(5)]
    scenes += [sample_scene(6, i, i, crop="wide", world=OTHER) for i in range(4)]
    scenes += [replace(scenes[3], camera=Camera((5.0, 6.0, 4.0), "own", (1.0, 0.0, 0.5), (1.1, 1.3)))]
    for scene in scenes:
        assert scene_from_json(json.loads(json.dumps(scene_to_json(scene)))) == scene
        assert scene_from_json(json.loads(scene_line(scene, 32, 32))) == scene
        assert np.array_equal(render([scene_from_json(scene_to_json(scene))], 16), render([scene], 16))
    for sort in (False, True):  # a manifest's keys are sorted; the order of names must survive it
        again = World.from_json(json.loads(json.dumps(OTHER.to_json(), sort_keys=sort)))
        assert again == OTHER != CLEVR == World.from_json({}) and list(again.colors) == list(OTHER.colors)
        assert sample_scene(0, 1, 3, crop="wide", world=again) == sample_scene(
            0, 1, 3, crop="wide", world=OTHER
        )
    assert World(colors=dict(reversed(COLOR_RGB.items()))) != CLEVR


def test_a_data_set_of_another_world_has_the_same_bytes_from_every_worker(tmp_path):
    settings = dict(counts=(2,), per_count=4, shard_size=2, resolution=(24, 16), crop="wide", world=OTHER)
    one, two = tmp_path / "a" / "one", tmp_path / "b" / "two"
    generate(one, **settings, antialias=1, extras=["masks"], progress=False)
    generate(two, **settings, antialias=1, extras=["masks"], progress=False, workers=2)
    assert {p.name: p.read_bytes() for p in one.iterdir()} == {p.name: p.read_bytes() for p in two.iterdir()}
    data, first = load(one), sample_scene(0, 2 * dataset.INDEX_STRIDE, 2, crop="wide", world=OTHER)
    assert data["images"].shape == (4, 3, 16, 24) and data["masks"].shape == (4, 16, 24)
    assert np.array_equal(data["images"][0].transpose(1, 2, 0), render([first], (24, 16), 1)[0])
    stored = World.from_json(read_manifest(one)["settings"]["world"])
    assert [list(stored.colors)[c] for c in data["colors"][0]] == [o.color for o in first.objects]
    assert (
        "orange" in (one / "README.md").read_text()
        and "--resolution 24x16" in (one / "README.md").read_text()
    )
    with pytest.raises(ValueError, match="world: .* there, None here"):
        generate(one, **{**settings, "world": CLEVR, "crop": "v1"}, antialias=1, extras=["masks"])
    with pytest.raises(ValueError, match="unknown crop 'wide'; allowed: center, squash, native, v1"):
        generate(tmp_path / "none", **{**settings, "world": CLEVR})
    assert not (tmp_path / "none").exists()


def test_impossible_worlds_are_refused(tmp_path):
    for change, message in (
        ({"colours": {}}, "world: unknown colours; allowed: colors, sizes"),
        ({"colors": {}}, "colors must be a dictionary with a name or more"),
        ({"colors": {"pink": [1, 2]}}, "colors: 'pink' must be 3 finite numbers of 0 to 255"),
        ({"colors": {"pink": [1, 2, 3, "linear"]}}, "colors: 'pink' must be 3 finite numbers of 0 to 255"),
        ({"colors": {"pink": [1, True, 2, 3]}}, "colors: 'pink' must be 3 finite numbers of 0 to 255"),
        ({"colors": {"pink": [1, 2, 256]}}, "colors: 'pink' must be 3 finite numbers of 0 to 255"),
        ({"sizes": {"tiny": 0}}, "sizes: 'tiny' must be 1 finite numbers of 0.05 to 3"),
        ({"sizes": {"huge": 10**400}}, "sizes: 'huge' must be 1 finite numbers of 0.05 to 3"),
        (
            {"shapes": {"egg": {"solid": "sphere", "stretched": [1, 1, 2]}}},
            "shapes: 'egg' must be {'solid': one of sphere, cube, cylinder",
        ),
        (
            {"shapes": {"cone": {"solid": "cone"}}},
            "shapes: 'cone' must be {'solid': one of sphere, cube, cylinder",
        ),
        ({"shapes": {"egg": {"solid": "sphere", "stretch": [1, 1, 9]}}}, "shapes: 'egg': stretch must be 3"),
        ({"materials": {"glass": {"kind": "glass", "roughness": 0.1}}}, "materials: 'glass' must be"),
        (
            {"materials": {"m": {"kind": "metal", "roughness": float("nan")}}},
            "'m': roughness must be 1 finite",
        ),
        ({"crops": {"wide": [0, 1]}}, "crops: 'wide' must be 2 finite numbers of 0.1 to 20"),
        ({"camera": [0.5, 0, 5]}, "a camera at .* looks straight up or down"),
        ({"target": [7.4, -6.5, 0]}, "looks straight up or down"),
        ({"camera": [5, 5, 0.2]}, "lies under the floor"),
        ({"camera": [5, 5, 0.5]}, "its jitter may take it there .z <= 0.5"),
        ([], r"unknown \[\]"),
    ):
        (tmp_path / "world.json").write_text(json.dumps(change))
        with pytest.raises(ValueError, match=f"world.json: .*{message}"):
            read_world(tmp_path / "world.json")
    ball = SceneObject("sphere", "large", "rubber", "red", (0.0, 0.0, 0.7), 0.0)
    for make, message in (
        (lambda: Camera((0.0, 0.0, 5.0)), "straight up or down"),
        (lambda: Camera((0.0, 0.0, 0.0)), "straight up or down"),
        (lambda: Camera((5.0, float("nan"), 5.0)), "camera location must be"),
        (
            lambda: replace(ball, coords=(float("nan"), 0.0, 0.7)),
            "coords must be",
        ),
        (lambda: replace(ball, rotation=math.inf), "rotation must be"),
        (lambda: Scene((ball,) * 64), "number of objects must be in 0..63, got 64"),
        (lambda: Scene((ball, replace(ball, world=World(sizes={"large": 1.0})))), "of one world"),
        (lambda: render([Scene((ball,))], (480, 4)), r"resolution must be 8..4096, got \(480, 4\)"),
        (lambda: sample_scene(2**32, 0, 1), "seed must be in 0..4294967295"),
    ):
        with pytest.raises(ValueError, match=message):
            make()
