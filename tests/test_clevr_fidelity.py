"""The fast renderer against Cycles' pictures of the same scenes; Blender is needed only to draw again."""

import math
import os
import runpy
import sys
from collections import defaultdict
from dataclasses import replace
from types import ModuleType, SimpleNamespace
from unittest.mock import MagicMock

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from lcs_utils.clevr import blender, fidelity, materials, shading, tracer
from lcs_utils.clevr.render import object_ids, render
from lcs_utils.clevr.scenes import ALLOWED, Scene, sample_scene
from lcs_utils.clevr.world import COLOR_RGB
from lcs_utils.scene_figures import documented_world


@pytest.fixture(scope="module", params=[2, 3])
def found(request):
    return fidelity.compare(request.param)  # 2: the faster pattern, at which the speed is stated too


def test_the_picture_is_that_of_cycles(found):
    assert found["psnr"].mean() >= 38 and found["psnr"].min() >= 34
    assert found["ssim"].mean() >= 0.98
    assert np.abs(found["bias"].mean(0)).max() <= 1
    assert found["iou"].mean() >= 0.97 and len(found["iou"]) > 80


def test_other_scenes_fail_the_gate():
    scenes, images, masks = fidelity.load_references()
    assert fidelity.psnr(images[3], images[4]) < 30 and fidelity.ssim(images[3], images[4]) < 0.95
    assert np.mean(fidelity.mask_ious(masks[9], np.roll(masks[9], 2, 1))) < 0.9
    assert fidelity.psnr(images[3], images[3]) > 100 and fidelity.ssim(images[3], images[3]) == pytest.approx(
        1
    )


def test_similarity_by_hand():
    """Equal means, variances of 4 and a covariance of -4: the second constant, (0.03 x 255)^2, is left."""
    a = np.broadcast_to(np.array([0, 4], np.uint8)[None, :, None], (2, 2, 3))
    assert fidelity.ssim(a, a[:, ::-1], 2) == pytest.approx((58.5225 - 8) / (58.5225 + 8))


def test_references_are_the_fixed_scenes_and_hold_everything():
    scenes, images, masks = fidelity.load_references()
    stored = [[(o.shape, o.color, o.coords) for o in s.objects] for s in scenes]
    assert stored == [[(o.shape, o.color, o.coords) for o in s.objects] for s in fidelity.reference_scenes()]
    objects = [o for s in scenes for o in s.objects]
    for key, values in ALLOWED.items():
        assert {getattr(o, key) for o in objects} == set(values)
    assert images.shape == (24, 128, 128, 3) and masks.max() == 9


needs_blender = pytest.mark.skipif(
    blender.PYTHON_VARIABLE not in os.environ, reason=f"{blender.PYTHON_VARIABLE} names no Python with bpy"
)


@needs_blender
def test_the_references_are_what_blender_draws():
    scenes, images, masks = fidelity.load_references()
    drawn, ids = blender.render_cycles(scenes[2:3], fidelity.RESOLUTION)  # 16 samples here, 64 there
    assert fidelity.psnr(drawn[0], images[2]) > 43 and min(fidelity.mask_ious(ids[0], masks[2])) > 0.99
    assert fidelity.psnr(drawn[0], images[3]) < 30
    small, _ = blender.render_cycles(scenes[2:3], 64)
    quick, none = blender.render_cycles(scenes[2:3], 64, prefilter="fast", masks=False)
    assert none is None and 42 < fidelity.psnr(quick[0], small[0]) < 60


@needs_blender
def test_blender_draws_another_world_as_the_fast_renderer_does():
    """A ninth color, stretched solids, other sizes, materials, crop, camera, target, and a rectangle."""
    world = replace(documented_world(), colors=COLOR_RGB | {"pink": (255, 80, 160)})
    some = [sample_scene(0, i, 4, crop="wide", world=world) for i in range(12)]
    scene = max(some, key=lambda scene: sum(o.color == "pink" for o in scene.objects))
    size = (120, 96)  # its pixels are not square
    drawn, ids = blender.render_cycles([scene], size)
    fast, own = render([scene], size)[0], object_ids(scene, size)
    assert drawn.shape == (1, 96, 120, 3) and min(fidelity.mask_ious(own, ids[0])) > 0.97
    assert fidelity.psnr(fast, drawn[0]) > 38
    usual = replace(scene, camera=replace(scene.camera, target=(0.0, 0.0, 0.0)))
    blue = [replace(o, color="blue") if o.color == "pink" else o for o in scene.objects]
    for other in (usual, replace(scene, objects=tuple(blue))):
        assert fidelity.psnr(render([other], size)[0], drawn[0]) < 32


def script_with(monkeypatch, bpy, vector=tuple):
    """The names of Blender's script, which finds `bpy` in place of Blender."""
    monkeypatch.setitem(sys.modules, "bpy", bpy)
    monkeypatch.setitem(sys.modules, "mathutils", SimpleNamespace(Vector=vector))
    return runpy.run_path(str(blender.SCRIPT))


class Nodes(list):
    """The nodes of a material and the links between them, as the script's recipes make them."""

    def new(self, kind):
        self.append(SimpleNamespace(kind=kind, inputs=defaultdict(SimpleNamespace), outputs=[object()]))
        return self[-1]

    def of(self, recipe, **options):
        self.links = []
        recipe(self, lambda *ends: self.links.append(ends), **options)
        return self

    def named(self, kind):
        return [node for node in self if node.kind == f"ShaderNode{kind}"]


@pytest.fixture
def built(monkeypatch):
    """The script after it built an empty scene, the lights and things by name, and the floor's vertices."""
    bpy, things = MagicMock(), {}

    def new(name, data):
        things[name] = SimpleNamespace(data=data, material_slots=[SimpleNamespace()])
        return things[name]

    bpy.data.objects.new = new
    bpy.data.lights.new = lambda name, kind: SimpleNamespace(kind=kind)
    script = script_with(monkeypatch, bpy, MagicMock())
    script["build"](blender.job(Scene(()), 32, 1, 1, "image", None, "fast"))
    return script, things, np.array(bpy.data.meshes.new.return_value.from_pydata.call_args.args[0])


def test_blender_s_lamps_and_sun_shine_as_those_of_the_fast_renderer(built):
    _, things, _ = built
    for i, name in enumerate(("key", "fill", "back")):
        lamp, light = things[name], things[name].data
        assert (light.kind, light.shape, light.size) == ("AREA", "SQUARE", shading.EDGE[i])
        power = math.pi * light.size**2 * shading.RADIANCE[i]  # of a square that shines alike to all sides
        assert light.energy * np.array(light.color) == pytest.approx(power, rel=1e-5)
        assert lamp.location == getattr(Scene(()).lamps, name)
    sun = things["sun"]
    assert (sun.data.kind, sun.data.energy) == ("SUN", shading.SUN_IRRADIANCE)
    assert math.tan(sun.data.angle / 2) == pytest.approx(shading.SUN_TAN)
    # Blender turns about x, then y, then z; a sun stands where its own z axis then points
    toward = Rotation.from_euler("xyz", sun.rotation_euler).apply([0, 0, 1])
    assert toward == pytest.approx(shading.SUN, abs=1e-6)


def test_blender_s_floor_is_that_of_the_fast_renderer(built):
    script, _, vertices = built
    ax, ay = tracer.FLOOR_S
    along, across = vertices[:, :2] @ (ax, ay), vertices[:, :2] @ (-ay, ax)
    profile = np.stack([along, vertices[:, 2]], 1).reshape(len(tracer.FLOOR_LINE), -1, 2)
    assert profile == pytest.approx(np.repeat(tracer.FLOOR_LINE[:, None], profile.shape[1], 1), abs=1e-6)
    assert (across.min(), across.max()) == pytest.approx(tracer.FLOOR_LATERAL)
    (gray,) = Nodes().of(script["matte"])
    assert gray.inputs["Color"].default_value == (*shading.FLOOR, 1)


def test_blender_s_materials_have_the_roughness_of_the_fast_renderer_s(monkeypatch):
    script, rgb = script_with(monkeypatch, ModuleType("bpy")), (0.1, 0.2, 0.3, 1)
    metal = Nodes().of(script["metal"], rgb=rgb, roughness=0.2)
    lobes, (mix,) = metal.named("BsdfAnisotropic"), metal.named("MixShader")
    for lobe, alpha in zip(lobes, (0.2, 0.01), strict=True):
        # Cycles squares a roughness and divides it by 1 - anisotropy one way, multiplies it the other
        narrow = 1 - lobe.inputs["Anisotropy"].default_value
        assert (lobe.distribution, lobe.inputs["Color"].default_value) == ("GGX", rgb)
        assert lobe.inputs["Roughness"].default_value ** 2 == pytest.approx(alpha)
        assert (narrow, 1 / narrow) == pytest.approx((materials.ALPHA_X, materials.ALPHA_Y))
    assert mix.inputs[0].default_value == 0.6  # of the second, the sharp one
    assert metal.links == [(lobes[i].outputs[0], mix.inputs[1 + i]) for i in range(2)]
    rubber = Nodes().of(script["rubber"], rgb=rgb, roughness=0.35)
    (gloss,), (velvet,) = rubber.named("BsdfAnisotropic"), rubber.named("BsdfSheen")
    assert gloss.distribution == "BECKMANN" and velvet.inputs["Roughness"].default_value == 0.6
    assert gloss.inputs["Roughness"].default_value ** 2 == pytest.approx(0.35)
    assert [coat.inputs["IOR"].default_value for coat in rubber.named("Fresnel")] == [1.4, 1.2]


def test_blender_is_given_a_mesh_and_a_recipe_of_all_that_a_world_may_name(monkeypatch):
    script = script_with(monkeypatch, ModuleType("bpy"))
    for solid in tracer.SHAPES:
        p = np.abs(np.array(script["unit_mesh"](solid)[0]))
        rho = np.hypot(p[:, 0], p[:, 1])
        surface = {
            "sphere": (p**2).sum(-1),
            "cube": (np.maximum(p - 0.75, 0) ** 3).sum(-1) / 0.25**3,
            "cylinder": np.maximum((rho - 0.9) / 0.1, 0) ** 4.2 + np.maximum((p[:, 2] - 0.9) / 0.1, 0) ** 4.2,
        }
        assert np.allclose(surface[solid], 1, atol=0.01), solid
    assert set(script["RECIPES"]) == set(tracer.MATERIALS)
    with pytest.raises(ValueError, match="no mesh for 'cone'; there are sphere, cylinder, cube"):
        script["unit_mesh"]("cone")


def test_an_unknown_prefilter_is_refused_before_blender_starts():
    with pytest.raises(ValueError, match="unknown prefilter 'slow'; allowed: accurate, fast, none"):
        blender.render_cycles([], 32, prefilter="slow")


def test_another_blender_is_refused(tmp_path, monkeypatch):
    other = tmp_path / "python"
    monkeypatch.setenv(blender.PYTHON_VARIABLE, str(other))
    with pytest.raises(RuntimeError, match=r"cannot be run .No such file or directory.*pip install 'bpy"):
        blender.check_bpy()
    for version, good in (
        ("2.79.0", False),
        ("5.1.0", False),
        ("needs libfoo 4.5", False),
        ("4.2.3 LTS", True),
        ("5.0.1", True),
    ):
        other = tmp_path / version.replace(" ", "_")
        monkeypatch.setenv(blender.PYTHON_VARIABLE, str(other))
        other.write_text(f"#!/bin/sh\necho {version}\n")
        other.chmod(0o755)
        if good:
            assert blender.check_bpy() == (str(other), version.split()[0])
        else:
            with pytest.raises(RuntimeError, match=f"has Blender {version}, not 4.2 to 5.0"):
                blender.check_bpy()


def test_a_blender_is_asked_for_its_version_once_and_not_waited_for_forever(tmp_path, monkeypatch):
    other, asked = tmp_path / "python", tmp_path / "asked"
    monkeypatch.setenv(blender.PYTHON_VARIABLE, str(other))
    monkeypatch.setattr(blender, "PATIENCE", 0.2)
    other.write_text("#!/bin/sh\nexec sleep 60\n")
    other.chmod(0o755)
    with pytest.raises(
        RuntimeError, match=r"did not import bpy .Blender. within 0.2 s; try again.*pip install"
    ):
        blender.check_bpy()
    monkeypatch.setattr(blender, "PATIENCE", 60)
    other.write_text(f"#!/bin/sh\necho asked >> {asked}\necho 4.5.1\n")
    assert blender.check_bpy() == blender.check_bpy() == (str(other), "4.5.1")
    assert asked.read_text() == "asked\n"


def test_an_object_that_one_picture_misses_counts():
    a = np.full((20, 20), -1)
    a[:5, :5] = 0
    a[10:15, :5] = 1
    a[18:, :2] = 2  # small in both
    b = np.where(a == 1, -1, a)
    assert fidelity.mask_ious(a, b) == fidelity.mask_ious(b, a) == [1.0, 0.0]


def test_missing_blender_says_how_to_install_it(monkeypatch):
    monkeypatch.setenv(blender.PYTHON_VARIABLE, sys.executable)
    try:
        import bpy  # noqa: F401
    except ImportError:
        with pytest.raises(RuntimeError, match=r"pip install 'bpy>=4.2,<5.1'"):
            blender.render_cycles([Scene(())], 32)
