"""The fast renderer against Cycles' pictures of the same scenes; Blender is needed only to draw again."""

import os
import runpy
import sys
from dataclasses import replace
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest

from lcs_utils.clevr import blender, fidelity, tracer
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


def test_blender_is_given_a_mesh_and_a_recipe_of_all_that_a_world_may_name(monkeypatch):
    monkeypatch.setitem(sys.modules, "bpy", ModuleType("bpy"))
    monkeypatch.setitem(sys.modules, "mathutils", SimpleNamespace(Vector=tuple))
    script = runpy.run_path(str(blender.SCRIPT))
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
