"""The fast renderer against Cycles' pictures of the same scenes; no Blender is needed."""

import os
import sys

import numpy as np
import pytest

from lcs_utils.clevr import blender, fidelity
from lcs_utils.clevr.scenes import ALLOWED, Scene


@pytest.fixture(scope="module", params=[2, 3])
def found(request):
    return fidelity.measure(request.param)  # 2: the faster pattern, at which the speed is stated too


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


def test_references_are_the_fixed_scenes_and_hold_everything():
    scenes, images, masks = fidelity.load_references()
    stored = [[(o.shape, o.color, o.coords) for o in s.objects] for s in scenes]
    assert stored == [[(o.shape, o.color, o.coords) for o in s.objects] for s in fidelity.reference_scenes()]
    objects = [o for s in scenes for o in s.objects]
    for key, values in ALLOWED.items():
        assert {getattr(o, key) for o in objects} == set(values)
    assert images.shape == (24, 128, 128, 3) and masks.max() == 9


@pytest.mark.skipif(
    blender.PYTHON_VARIABLE not in os.environ, reason=f"{blender.PYTHON_VARIABLE} names no Python with bpy"
)
def test_the_references_are_what_blender_draws():
    scenes, images, masks = fidelity.load_references()
    drawn, ids = blender.render_cycles(scenes[2:3], fidelity.RESOLUTION)  # 16 samples here, 64 there
    assert fidelity.psnr(drawn[0], images[2]) > 43 and min(fidelity.mask_ious(ids[0], masks[2])) > 0.99
    assert fidelity.psnr(drawn[0], images[3]) < 30
    small, _ = blender.render_cycles(scenes[2:3], 64)
    quick, none = blender.render_cycles(scenes[2:3], 64, prefilter="fast", masks=False)
    assert none is None and 42 < fidelity.psnr(quick[0], small[0]) < 60


def test_an_unknown_prefilter_is_refused_before_blender_starts():
    with pytest.raises(ValueError, match="unknown prefilter 'slow'; allowed: accurate, fast, none"):
        blender.render_cycles([], 32, prefilter="slow")


def test_another_blender_is_refused(tmp_path, monkeypatch):
    other = tmp_path / "python"
    monkeypatch.setenv(blender.PYTHON_VARIABLE, str(other))
    with pytest.raises(RuntimeError, match=r"cannot be run .No such file or directory.*pip install 'bpy"):
        blender.check_bpy()
    for version, good in (("2.79.0", False), ("5.1.0", False), ("4.2.3 LTS", True), ("5.0.1", True)):
        other.write_text(f"#!/bin/sh\necho {version}\n")
        other.chmod(0o755)
        if good:
            assert blender.check_bpy() == (str(other), version.split()[0])
        else:
            with pytest.raises(RuntimeError, match=f"has Blender {version}, not 4.2 to 5.0"):
                blender.check_bpy()


def test_missing_blender_says_how_to_install_it(monkeypatch):
    monkeypatch.setenv(blender.PYTHON_VARIABLE, sys.executable)
    try:
        import bpy  # noqa: F401
    except ImportError:
        with pytest.raises(RuntimeError, match=r"pip install 'bpy>=4.2,<5.1'"):
            blender.render_cycles([Scene(())], 32)
