"""What lcs_utils.clevr accepts and refuses, as a table (see contract.py)."""

from dataclasses import astuple, replace

import numpy as np
import pytest
import torch
from contract import COUNT, FLAG, INF, NAME, NAN, NUMBER, SEEDS, cases, generators, missing, seeded
from hypothesis import strategies as st

from lcs_utils.checks import check_place
from lcs_utils.clevr import (
    annotations,
    blender,
    conditions,
    cuda,
    fidelity,
    grid,
    labels,
    materials,
    pixels,
    render,
    scenes,
    shading,
    tracer,
)
from lcs_utils.clevr.scenes import Camera, Lamps, Scene, SceneObject, sample_scene

coordinate = st.floats(-8, 8)
places = st.tuples(coordinate, coordinate, st.floats(0.1, 3))
asides = st.tuples(st.floats(1, 9), coordinate, st.floats(1, 9))  # not straight above the origin
crops = st.sampled_from(list(scenes.CROPS))
objects = st.builds(
    SceneObject,
    st.sampled_from(scenes.SHAPES),
    st.sampled_from(list(scenes.SIZES)),
    st.sampled_from(scenes.MATERIALS),
    st.sampled_from(scenes.COLORS),
    places,
    st.floats(-360, 360),
)
cameras = st.builds(Camera, asides, crops)
lamps = st.builds(Lamps, asides, asides, asides)
any_scene = st.builds(
    Scene, st.lists(objects, max_size=4).map(tuple), cameras, lamps, st.integers(0, 9), SEEDS
) | st.builds(
    lambda seed, n: sample_scene(seed, 0, n, margins=False, visibility=False), SEEDS, st.integers(0, 3)
)
some_scenes = st.lists(any_scene, max_size=2)
SCENE = sample_scene(0, 0, 2)
BALL = SceneObject("sphere", "large", "rubber", "gray", (0.0, 0.0, 0.7), 0.0)
PLACE = [
    "abc",
    None,
    (0.0, 1.0),
    (NAN, 1.0, 1.0),
    (0.0, INF, 1.0),
    ("0", 1.0, 1.0),
    3.0,
    (1e9, 1.0, 1.0),
    {0: 1.0},
]
ASIDE = [*PLACE, (0.0, 0.0, 5.0)]
NO_SCENE = [None, "scene", 3, [SCENE], astuple(SCENE)]
NO_SCENES = [SCENE, None, "scenes", 3, [None], [SCENE, "scene"], {0: SCENE}]
SIDE = [*COUNT, 0, 5000]
RESOLUTION = [*COUNT, 7, 5000, True]
LOCATIONS = [
    "where",
    None,
    [0.5, 0.5],
    [[0.5, 0.5, 0.5]],
    [[NAN, 0.5]],
    [["x", 0.5]],
    [[0.5, 0.5], [0.5]],
    [[0.5, 1j]],
    [[0.5, 0.5]] * 64,
]
batches = st.integers(1, 4)


def image(seed, height=9, width=8):
    return np.random.default_rng(seed).integers(0, 256, (height, width, 3)).astype(np.uint8)


def indices(seed, most=3):
    return np.random.default_rng(seed).integers(-1, most, (6, 7))


images = st.builds(image, SEEDS)
NO_IMAGE = ["image", None, image(0).astype(float), image(0)[..., 0], image(0, 4), image(0).tolist()]
NO_IDS = ["ids", None, indices(0).astype(float), indices(0)[0], indices(0).tolist()]


def cycles(**words):
    """Without Blender on this machine, calls that pass the checks fail for its absence only."""
    try:
        return blender.render_cycles(**words)[0]
    except RuntimeError as error:
        assert "bpy" in str(error)
        return 0.0


def labeled(seed, batch, width):
    """(locations or colors aside) which of `width` objects are present, [batch width]."""
    return torch.rand(batch, width, generator=seeded(seed)) < 0.7


presence = st.builds(labeled, SEEDS, batches, st.integers(0, 5))
four = st.builds(labeled, SEEDS, st.just(3), st.just(4))
NO_PRESENCE = [
    "present",
    None,
    torch.zeros(3),
    torch.zeros(3, 4),
    torch.zeros(3, 4, dtype=torch.int64),
    [[True]],
]
where = st.builds(
    lambda seed, inf: (
        torch.rand(3, 4, 2, generator=seeded(seed)) * 1.2
        + (torch.tensor([NAN, INF])[inf] * (torch.rand(3, 4, 1, generator=seeded(seed)) < 0.2)).nan_to_num(
            0.0, 9.0
        )
    ),
    SEEDS,
    st.integers(0, 1),
)

TABLE = {
    "SceneObject": (
        lambda **k: SceneObject(**k).coords,
        {
            "shape": (st.sampled_from(scenes.SHAPES), NAME),
            "size": (st.sampled_from(list(scenes.SIZES)), NAME),
            "material": (st.sampled_from(scenes.MATERIALS), NAME),
            "color": (st.sampled_from(scenes.COLORS), NAME),
            "coords": (places, PLACE),
            "rotation": (st.floats(-1e5, 1e5) | st.integers(0, 360), [*NUMBER, 1e9]),
            "pixel_coords": (st.none() | st.just((3, 4, 11.5)), ["xyz", (1, 2), (NAN, 1, 1), 3]),
        },
    ),
    "Camera": (
        lambda **k: scenes.depths(Scene((BALL,), Camera(**k))),
        {"location": (asides, ASIDE), "crop": (crops, NAME)},
    ),
    "Lamps": (
        lambda **k: Lamps(**k).key,
        {"key": (asides, ASIDE), "fill": (asides, ASIDE), "back": (asides, ASIDE)},
    ),
    "Scene": (
        lambda **k: [render.render([Scene(**k)], 8, 1), Scene(**k).index],
        {
            "objects": (
                st.lists(objects, max_size=5).map(tuple),
                ["objects", None, BALL, ("ball",), (BALL,) * 64, {0: BALL}],
            ),
            "camera": (cameras, [None, "center", (1.0, 2.0, 3.0)]),
            "lamps": (lamps, [None, "sun", (1.0, 2.0, 3.0)]),
            "seed": (SEEDS, []),
            "index": (SEEDS, []),
        },
    ),
    "check_place": (
        lambda **k: check_place(**k) or 0.0,
        {"name": (st.just("here"), []), "value": (places, PLACE), "aside": (st.just(False), [])},
    ),
    "sample_scene": (
        lambda **k: scenes.pack([sample_scene(**k)]),
        {
            "seed": (st.integers(0, scenes.MAX_SEED), [*COUNT, scenes.MAX_SEED + 1]),
            "index": (SEEDS, COUNT),
            "n_objects": (st.integers(0, 4), [*COUNT, 64, 10**9]),
            "margins": (st.booleans(), FLAG),
            "visibility": (st.booleans(), FLAG),
            "require_centers_inside": (st.booleans(), FLAG),
            "crop": (st.sampled_from(["center", "native"]), NAME),
        },
    ),
    "scene_at": (
        lambda **k: scenes.pack([scenes.scene_at(**k)]),
        {
            "locations": (
                st.lists(st.tuples(st.floats(0, 1), st.floats(0.2, 1)), max_size=4).flatmap(
                    lambda points: st.sampled_from(
                        [points, np.reshape(points, (-1, 2)), torch.tensor(points).reshape(-1, 2)]
                    )
                ),
                [*LOCATIONS, [[0.5, -5.0]]],
            ),
            "seed": (SEEDS, COUNT),
            "index": (SEEDS, COUNT),
            "crop": (crops, NAME),
        },
    ),
    "depths": (lambda scene: [scenes.depths(scene), 0.0], {"scene": (any_scene, NO_SCENE)}),
    "project": (lambda scene: [scenes.project(scene), 0.0], {"scene": (any_scene, NO_SCENE)}),
    "pack": (lambda scenes_: [scenes.pack(scenes_), 0.0], {"scenes_": (some_scenes.map(tuple), NO_SCENES)}),
    "check": (
        lambda **k: render.check(**k) or 0.0,
        {
            "resolution": (st.integers(8, 4096), RESOLUTION),
            "antialias": (st.integers(1, 4), [*COUNT, 0, 5, True]),
        },
    ),
    "render": (
        lambda **k: [render.render(**k), 0.0],
        {
            "scenes": (some_scenes, NO_SCENES),
            "resolution": (st.integers(8, 12), RESOLUTION),
            "antialias": (st.integers(1, 2), [*COUNT, 0, 5]),
            "backend": (st.just("fast"), NAME),
        },
    ),
    "object_ids": (
        render.object_ids,
        {"scene": (any_scene, NO_SCENE), "resolution": (st.integers(8, 20), RESOLUTION)},
    ),
    "render_cycles": (
        cycles,
        {
            "scenes": (st.just([SCENE]), NO_SCENES),
            "resolution": (st.just(8), RESOLUTION),
            "samples": (st.just(1), [*COUNT, 0]),
            "threads": (st.just(1), [1.5, "3", NAN, -1, 0]),
            "prefilter": (st.sampled_from(blender.PREFILTERS), NAME),
            "masks": (st.booleans(), FLAG),
        },
    ),
    "labels": (
        lambda **k: [np.nan_to_num(part) for part in annotations.labels(**k).values()] + [0.0],
        {
            "scenes": (st.just([SCENE]) | st.just(()), NO_SCENES),
            "max_objects": (st.integers(2, 127), [*COUNT, 128]),
        },
    ),
    "trace": (
        lambda **k: [annotations.trace(**k).ids, np.isnan(annotations.trace(**k).depth)],
        {
            "scene": (any_scene, NO_SCENE),
            "width": (st.integers(1, 20), SIDE),
            "height": (st.integers(1, 20), SIDE),
        },
    ),
    "check_ids": (
        lambda **k: annotations.check_ids(**k) or 0.0,
        {
            "ids": (st.builds(indices, SEEDS), [*NO_IDS, indices(0) - 1, indices(0) + 9]),
            "n_objects": (st.integers(3, 9), COUNT),
        },
    ),
    "visible_pixels": (
        annotations.visible_pixels,
        {
            "ids": (st.builds(indices, SEEDS), [*NO_IDS, indices(0) - 1, indices(0) + 9]),
            "n_objects": (st.integers(3, 9), [*COUNT, 1]),
        },
    ),
    "boxes": (
        annotations.boxes,
        {
            "ids": (st.builds(indices, SEEDS), [*NO_IDS, indices(0) - 1, indices(0) + 9]),
            "n_objects": (st.integers(3, 9), [*COUNT, 1]),
        },
    ),
    "check_extras": (
        lambda extras: len(annotations.check_extras(extras)),
        {
            "extras": (
                st.sets(st.sampled_from(annotations.EXTRAS)),
                ["masks", None, 3, [3], ["normals"], b"masks"],
            )
        },
    ),
    "annotate": (
        lambda **k: [np.nan_to_num(part) for part in annotations.annotate(**k).values()] + [0.0],
        {
            "scenes": (st.just([SCENE]) | st.just([]), NO_SCENES),
            "resolution": (st.integers(8, 20), SIDE),
            "extras": (
                st.lists(st.sampled_from(annotations.EXTRAS), unique=True),
                ["masks", None, ["normals"]],
            ),
            "max_objects": (st.integers(2, 9), [*COUNT, 128]),
        },
    ),
    "choose_labels": (
        lambda **k: [conditions.choose_labels(**k), 0.0],
        {
            "present": (presence, [*NO_PRESENCE, torch.ones(3) > 0]),
            "policy": (st.sampled_from(list(labels.LABEL_POLICIES)), NAME),
            "generator": (st.none() | generators, [0, "seed"]),
        },
    ),
    "location_grid": (
        conditions.location_grid,
        {
            "locations": (
                where,
                [
                    "where",
                    None,
                    torch.zeros(3, 4),
                    torch.zeros(3, 5, 2),
                    torch.zeros(3, 4, 2).long(),
                    [[[0.5, 0.5]]],
                ],
            ),
            "labeled": (four, [*NO_PRESENCE, torch.ones(3, 5) > 0]),
            "grid_size": (st.integers(1, 20), [*COUNT, 0, 10**6]),
        },
    ),
    "color_counts": (
        conditions.color_counts,
        {
            "colors": (
                st.builds(lambda s: torch.randint(-1, 8, (3, 4), generator=seeded(s)), SEEDS),
                [
                    "blue",
                    None,
                    torch.zeros(3, 4),
                    torch.zeros(3, 5).long(),
                    torch.full((3, 4), 8),
                    torch.full((3, 4), -2),
                ],
            ),
            "labeled": (four, [*NO_PRESENCE, torch.ones(3, 5) > 0]),
        },
    ),
    "test_condition": (conditions.test_condition, {"k": (st.integers(0, 12), [*COUNT, 13])}),
    "cells": (
        lambda **k: [grid.cells(**k), 0.0],
        {
            "points": (
                st.lists(st.tuples(st.floats(-1, 2), st.floats(-1, 2)), max_size=4)
                | st.tuples(st.floats(0, 1), st.floats(0, 1)).map(np.array),
                [*LOCATIONS[:2], *LOCATIONS[3:-1], [0.5], [0.5, 0.5, 0.5], 0.5],
            ),
            "grid_size": (st.integers(1, 64), [*COUNT, 0]),
        },
    ),
    "apart": (
        lambda a, b: [grid.apart(a, b), 0.0],
        {
            "a": (
                st.just(np.ones((3, 2), int)),
                ["a", None, np.ones((3, 2)), np.ones(2, int), np.ones((3, 3), int)],
            ),
            "b": (
                st.just(np.ones((0, 2), int)),
                ["b", None, np.ones((3, 2)), np.ones(2, int), np.ones((3, 3), int)],
            ),
        },
    ),
    "check_images": (
        lambda **k: fidelity.check_images(**k) or 0.0,
        {"a": (images, NO_IMAGE), "b": (images, NO_IMAGE)},
    ),
    "psnr": (fidelity.psnr, {"a": (images, NO_IMAGE), "b": (images, NO_IMAGE)}),
    "ssim": (
        fidelity.ssim,
        {"a": (images, NO_IMAGE), "b": (images, NO_IMAGE), "window": (st.integers(1, 8), [*COUNT, 0, 9])},
    ),
    "mask_ious": (
        lambda **k: [fidelity.mask_ious(**k), 0.0],
        {
            "a": (st.builds(indices, SEEDS), [*NO_IDS, indices(0)[:3]]),
            "b": (st.builds(indices, SEEDS), [*NO_IDS, indices(0)[:3]]),
        },
    ),
    "patterns": (pixels.patterns, {"antialias": (st.integers(1, 4), [*COUNT, 0, 5])}),
}


test_what_is_accepted_gives_finite_numbers, test_what_is_outside_is_refused = cases(TABLE)


def test_text_is_one_extra_and_not_its_letters():
    with pytest.raises(TypeError, match="extras must be a sequence, got 'masks'"):
        annotations.check_extras("masks")


def test_scenes_of_more_objects_than_the_arrays_hold_are_refused():
    for call in (annotations.labels, lambda scenes, most: annotations.annotate(scenes, 8, ["boxes"], most)):
        with pytest.raises(ValueError, match=r"max_objects must be in 2\.\.127, got 1"):
            call([SCENE], 1)


def test_a_scene_of_too_many_objects_is_refused_before_a_bit_is_lost():
    row = tuple(replace(BALL, coords=(i % 8 - 4.0, i // 8 - 4.0, 0.35), size="small") for i in range(63))
    seen = np.unique(render.object_ids(Scene(row), 128))
    assert 62 in seen
    assert (render.render([Scene(row)], 32, 1) != render.render([Scene(row[:62])], 32, 1)).any()
    with pytest.raises(ValueError, match="number of objects must be in 0..63, got 64"):
        Scene((*row, BALL))


def test_every_public_function_is_in_the_table():
    """Kernels compiled by numba are exempt: functions in the table call them once per ray."""
    elsewhere = {
        "check_scene",  # depths, pack
        "check_scenes",
        "check_placement",  # sample_scene
        "check_antialias",  # render
        "picture_size",  # render
        "Seen",
        "check_bpy",  # asks the machine
        "job",
        "load_references",  # the 24 kept pictures
        "write_references",
        "reference_scenes",
        "compare",
        "main",
        "check_device",  # a GPU
        "render_on_device",
        "render_cuda",
    }
    modules = (
        scenes,
        render,
        tracer,
        conditions,
        grid,
        annotations,
        pixels,
        materials,
        shading,
        fidelity,
        blender,
    )
    left, gone = missing(TABLE, (*modules, cuda), elsewhere)
    assert gone == set() and {name for name in left if not is_kernel(name, modules)} == set()


def is_kernel(name, modules):
    """Whether numba compiles it."""
    return any(hasattr(getattr(module, name, None), "py_func") for module in modules)
