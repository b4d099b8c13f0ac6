"""The ray tracer against slow marching, and its pictures against what CLEVR must show."""

import math
from dataclasses import replace

import numba
import numpy as np
import pytest

from lcs_utils.clevr import tracer
from lcs_utils.clevr.conditions import TEST_LOCATIONS
from lcs_utils.clevr.render import object_ids, render
from lcs_utils.clevr.scenes import Scene, SceneObject, project, sample_scene, scene_at


def outside(shape, p):
    """The implicit functions of the unit shapes, negative inside; p [..., 3]."""
    if shape == "sphere":
        return (p**2).sum(-1) - 1
    if shape == "cube":
        return (np.maximum(np.abs(p) - 0.75, 0) ** 3).sum(-1) - 0.25**3
    rho = np.hypot(p[..., 0], p[..., 1])
    return (np.maximum(rho - 0.9, 0) / 0.1) ** 4 + (np.maximum(np.abs(p[..., 2]) - 0.9, 0) / 0.1) ** 4 - 1


@pytest.mark.parametrize("shape", tracer.SHAPES)
def test_hits_agree_with_marching(shape):
    rng = np.random.default_rng(0)
    row = np.zeros(tracer.ROW)
    angle, radius, center = 0.7, 0.35, np.array([0.4, -1.2, 0.35])
    row[:8] = tracer.SHAPES.index(shape), 0, *center, radius, math.cos(angle), math.sin(angle)
    turn = np.array(
        [[math.cos(angle), math.sin(angle), 0], [-math.sin(angle), math.cos(angle), 0], [0, 0, 1]]
    )
    t = np.linspace(0, 4, 40001)
    hits = 0
    for _ in range(150):
        origin = center + rng.normal(size=3) * 0.2 + np.array([1.5, 0, 0.8])
        ray = center + rng.normal(size=3) * 0.25 - origin
        ray /= np.linalg.norm(ray)
        inside = outside(shape, (origin + t[:, None] * ray - center) @ turn.T / radius) < 0
        found = tracer.hit_object(*origin, *ray, row)
        if inside.any():
            hits += 1
            assert abs(found - t[inside.argmax()]) < 2e-3
            normal = np.array(tracer.object_normal(*(origin + found * ray), row))
            assert abs(np.linalg.norm(normal) - 1) < 1e-9 and normal @ ray < 0.05
        else:  # marching may step over a graze that the closed form sees
            assert (
                found == tracer.FAR
                or outside(shape, (origin + found * ray - center) @ turn.T / radius) < 0.02
            )
    assert 30 < hits < 150


def test_floor_lies_on_its_profile():
    rng = np.random.default_rng(1)
    for _ in range(200):
        origin, ray = np.array([7.5, -6.5, 5.3]), rng.normal(size=3) * [0.3, 0.3, 0.25] + [-0.75, 0.65, -0.35]
        ray /= np.linalg.norm(ray)
        t, nx, ny, nz = tracer.hit_floor(*origin, *ray)
        if t < tracer.FAR:
            p = origin + t * ray
            s = p[:2] @ tracer.FLOOR_S
            assert abs(p[2] - np.interp(s, *tracer.FLOOR_PROFILE.T)) < 0.03 + 0.01 * p[2]
            assert abs(nx * nx + ny * ny + nz * nz - 1) < 1e-2 and nz > 0


def test_same_scenes_same_bytes_whatever_the_threads():
    scenes = [sample_scene(0, i, 3) for i in range(8)]
    many = render(scenes, 32)
    threads = numba.get_num_threads()
    try:
        numba.set_num_threads(1)
        assert np.array_equal(render(scenes, 32), many)
    finally:
        numba.set_num_threads(threads)
    assert np.array_equal(np.concatenate([render([s], 32) for s in scenes]), many)
    assert not np.array_equal(many[0], many[1])


def test_objects_show_where_they_are_and_in_their_color():
    scene = scene_at(TEST_LOCATIONS[:3], seed=0, index=0)
    vivid = zip(scene.objects, ("red", "green", "blue"), strict=True)
    scene = replace(scene, objects=tuple(replace(o, color=c, material="rubber") for o, c in vivid))
    image, ids = render([scene], 64)[0].astype(int), object_ids(scene, 64)
    for k, (x, y) in enumerate(project(scene)):
        row, column = int(y * 64), int(x * 64)
        assert ids[row, column] == k
        assert image[row, column].argmax() == k
    empty = render([replace(scene, objects=())], 64)[0].astype(int)
    changed = np.abs(image - empty).max(2) > 40
    assert changed[ids >= 0].mean() > 0.5 and changed[ids < 0].mean() < 0.06


def test_floor_is_gray_lit_and_shadowed():
    ball = SceneObject("sphere", "large", "rubber", "gray", (0.0, 0.0, 0.7), 0.0)
    image, ids = render([Scene((ball,))], 64)[0].astype(int), object_ids(Scene((ball,)), 64)
    empty = render([Scene(())], 64)[0].astype(int)
    assert np.ptp(empty.reshape(-1, 3).mean(0)) < 12  # nearly gray
    assert 90 < empty.mean() < 150
    floor = (image - empty)[ids < 0].mean(1)
    assert floor.min() < -15 and np.median(floor) == 0  # one soft shadow, elsewhere nothing changes


def test_antialiasing_converges():
    scenes = [sample_scene(5, i, 4) for i in range(3)]
    fine = render(scenes, 48, 4).astype(float)
    errors = [np.sqrt(((render(scenes, 48, a) - fine) ** 2).mean()) for a in (1, 2, 3)]
    assert errors[0] > 1.5 * errors[2] and errors[1] > errors[2]


def test_bad_input():
    with pytest.raises(ValueError, match="antialias must be one of"):
        render([Scene(())], 32, antialias=5)
    with pytest.raises(ValueError, match="resolution must be 8..4096, got 4"):
        render([Scene(())], 4)
