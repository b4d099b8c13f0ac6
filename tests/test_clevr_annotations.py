"""Masks, depth, boxes and visible pixels against Blender's masks and against the shapes' own equations."""

from dataclasses import replace

import numpy as np
import pytest

from lcs_utils.clevr import annotations, fidelity, tracer
from lcs_utils.clevr.conditions import TEST_LOCATIONS
from lcs_utils.clevr.render import object_ids
from lcs_utils.clevr.scenes import CROPS, SIZES, Camera, Scene, SceneObject, project, sample_scene, scene_at


def points(scene, depth, width, height):
    """The scene point [height width 3] at each pixel center, `depth` along the view axis."""
    fx, fy = CROPS[scene.camera.crop]
    axes = tracer.camera_axes(*scene.camera.location)
    u, v = ((np.arange(width) + 0.5) / width - 0.5) / fx, (0.5 - (np.arange(height) + 0.5) / height) / fy
    rays = u[None, :, None] * axes[0] + v[:, None, None] * axes[1] - axes[2]  # one unit along the view axis
    return np.array(scene.camera.location) + depth[..., None] * rays


def off_surface(scene, ids, found):
    """How far each pixel's point lies from what its mask says is there: a sphere's radius or the floor's
    profile.
    """
    s = found[..., :2] @ tracer.FLOOR_S
    error = np.abs(found[..., 2] - np.interp(s, *tracer.FLOOR_PROFILE.T)) / (1 + found[..., 2])
    for k, o in enumerate(scene.objects):
        error[ids == k] = np.abs(np.linalg.norm(found - o.coords, axis=-1) - SIZES[o.size])[ids == k]
    return error


@pytest.mark.parametrize("crop", CROPS)
def test_depth_leads_back_to_the_surfaces(crop):
    scene = scene_at(TEST_LOCATIONS[:5], 0, 0, crop)
    scene = replace(scene, objects=tuple(replace(o, shape="sphere") for o in scene.objects))
    seen = annotations.trace(scene, 60, 40)
    assert set(np.unique(seen.ids)) == {-1, 0, 1, 2, 3, 4}
    assert off_surface(scene, seen.ids, points(scene, seen.depth, 60, 40)).max() < 0.03
    wrong = off_surface(
        scene, seen.ids, points(scene, np.roll(seen.depth, 2, 1), 60, 40)
    )  # not at these pixels
    assert (wrong[seen.ids >= 0] > 0.03).mean() > 0.3


def test_masks_and_boxes_are_those_of_blender():
    scenes, _, masks = fidelity.load_references()
    arrays = annotations.annotate(scenes, 128, ("masks", "boxes"), 10)
    assert list(arrays) == ["masks", "boxes"] and arrays["masks"].dtype == np.int8
    shares, off, shifted = [], [], []
    for scene, mask, mine, box in zip(scenes, masks, arrays["masks"], arrays["boxes"], strict=True):
        n = len(scene.objects)
        shares += fidelity.mask_ious(mine.astype(int), mask)
        theirs = annotations.boxes(mask, n)
        off += np.abs(theirs - box[:n]).max(1).tolist()
        shifted += np.abs(theirs - annotations.boxes(np.roll(mask, 3, 1), n)).max(1).tolist()
        assert (box[n:] == -1).all()
        pixels = annotations.visible_pixels(mine, n)
        assert np.allclose(pixels, annotations.visible_pixels(mask, n), rtol=0.06, atol=4)
    assert np.mean(shares) > 0.98 and np.mean(np.array(off) <= 1) > 0.97 and max(off) <= 4
    assert min(shifted) >= 2  # the comparison can fail


def test_a_hidden_object_has_no_pixels_and_no_box():
    large = SceneObject("cube", "large", "rubber", "red", (2.0, -1.74, 0.7), 0.0)
    hidden = SceneObject("sphere", "small", "metal", "blue", (0.9, -0.78, 0.35), 0.0)
    scene = Scene((large, hidden), Camera((7.5, -6.5, 1.0)))
    ids = annotations.trace(scene, 64, 64).ids
    assert np.array_equal(ids, object_ids(scene, 64))
    assert annotations.visible_pixels(ids, 2)[1] == 0 < annotations.visible_pixels(ids, 2)[0]
    assert annotations.boxes(ids, 2)[1].tolist() == [-1] * 4
    alone = annotations.trace(replace(scene, objects=(hidden,)), 64, 64).ids
    assert annotations.visible_pixels(alone, 1)[0] > 20


def test_boxes_hold_the_centers_of_free_objects():
    scene = sample_scene(4, 0, 1, crop="squash")
    x0, y0, x1, y1 = annotations.boxes(annotations.trace(scene, 96, 96).ids, 1)[0]
    x, y = 96 * project(scene)[0]
    assert x0 < x < x1 and y0 < y < y1 and x1 - x0 < 40


def test_unknown_extras_are_refused():
    with pytest.raises(ValueError, match="unknown extras normals; allowed: masks, depth, boxes"):
        annotations.check_extras(["depth", "normals"])
    assert annotations.check_extras(["boxes", "masks"]) == ("masks", "boxes")
