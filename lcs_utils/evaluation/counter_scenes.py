"""Renders with known object centers for the counter: crowded scenes, the paper's test layouts and CLEVR's own, in shards.

An object is countable when its center lies in the image and enough of it is seen; scenes hold no other hidden ones.
"""

import zipfile
from dataclasses import replace
from pathlib import Path

import numpy as np
from jaxtyping import Float, UInt8
from tqdm.auto import tqdm

from lcs_utils import paths
from lcs_utils.clevr.conditions import GRID_SIZE, TEST_LOCATIONS
from lcs_utils.clevr.render import object_ids, render
from lcs_utils.clevr.scenes import Scene, project, sample_scene, scene_at

MAX_OBJECTS = 14  # two more than are counted exactly, so that 12 is not the largest number ever seen
VISIBLE_SHARE = 0.0025  # of the image's area: 2.6 px at 32 px, 10 px at 64 px
VISIBILITY_SIDE = 96  # px, where visible areas are measured
SHARD = 2048
KINDS = ("crowded", "layout", "clevr")


def prune(scene: Scene) -> Scene:
    """The scene without the objects that can hardly be seen, so that each remaining center in the image can be counted.

    Choice: an object counts when at least 0.25 % of the image shows it (CLEVR's own test asks for 0.35 %).
    """
    seen = np.bincount(object_ids(scene, VISIBILITY_SIDE).ravel() + 1, minlength=len(scene.objects) + 1)[1:]
    inside = ((project(scene) >= 0) & (project(scene) < 1)).all(1)
    keep = ~inside | (seen >= VISIBLE_SHARE * VISIBILITY_SIDE**2)
    return replace(scene, objects=tuple(o for o, k in zip(scene.objects, keep, strict=True) if k))


def layout(rng: np.random.Generator, n: int) -> Float[np.ndarray, "n 2"]:
    """`n` of the 12 test locations (App. E.1): the first ones, or any, exact or moved within their cells, [0, 1]^2."""
    style = rng.integers(3)
    locations = np.array(TEST_LOCATIONS)[:n] if style == 0 else rng.permutation(TEST_LOCATIONS)[:n]
    if style == 2:
        locations = (np.floor(locations * GRID_SIZE) + rng.random(locations.shape)) / GRID_SIZE
    return locations


def scene(seed: int, index: int, kind: str, n_objects: int) -> Scene:
    """One pruned scene of a kind in KINDS; a function of its arguments alone."""
    if kind == "layout":
        rng = np.random.Generator(np.random.PCG64([seed, index, 1]))
        return prune(scene_at(layout(rng, n_objects), seed, index))
    return prune(sample_scene(seed, index, n_objects, margins=kind == "clevr"))


def centers(scenes) -> Float[np.ndarray, "batch objects 2"]:
    """Object centers within the image in [0, 1]^2 (x right, y down), NaN padded."""
    found = np.full((len(scenes), MAX_OBJECTS, 2), np.nan, np.float32)
    for i, s in enumerate(scenes):
        location = project(s).reshape(-1, 2)
        location = location[((location >= 0) & (location < 1)).all(1)]
        found[i, : len(location)] = location
    return found


def training_scene(seed: int, index: int) -> Scene:
    """The index-th training scene: half crowded (0-14 objects), a quarter test layouts (1-12), a quarter CLEVR's (0-5)."""
    rng = np.random.Generator(np.random.PCG64([seed, index, 0]))
    if index % 4 < 2:
        return scene(seed, index, "crowded", int(rng.integers(MAX_OBJECTS + 1)))
    if index % 4 == 2:
        return scene(seed, index, "layout", 1 + int(rng.integers(len(TEST_LOCATIONS))))
    return scene(seed, index, "clevr", int(rng.integers(6)))


def _rendered(scenes, resolution):
    return render(scenes, resolution).transpose(0, 3, 1, 2), centers(scenes)


def _kept(path, make):
    """The scenes of `make()` as (images, centers), rendered once and kept at `path`."""
    if not path.exists():
        images, found = make()
        with paths.atomic_path(path) as temporary, open(temporary, "wb") as file:
            np.savez(file, images=images, centers=found)
    try:
        with np.load(path, allow_pickle=False) as shard:
            return shard["images"], shard["centers"]
    except (ValueError, OSError, KeyError, zipfile.BadZipFile) as error:
        raise ValueError(f"{path} is truncated or altered ({error}); delete it and run the same command again") from None


def training_data(
    folder, size: int, resolution: int, seed: int = 0
) -> tuple[UInt8[np.ndarray, "size 3 height width"], Float[np.ndarray, "size objects 2"]]:
    """Images and centers of the first `size` training scenes; finished shards in `folder` are kept and reused."""
    images, found = np.empty((size, 3, resolution, resolution), np.uint8), np.empty((size, MAX_OBJECTS, 2), np.float32)
    for start in tqdm(range(0, size, SHARD), unit="shard", desc="scenes", mininterval=5):
        path = Path(folder) / f"seed{seed}_{start:08d}.npz"
        indices = range(start, start + SHARD)
        shard = _kept(path, lambda indices=indices: _rendered([training_scene(seed, i) for i in indices], resolution))
        stop = min(start + SHARD, size)
        images[start:stop], found[start:stop] = (part[: stop - start] for part in shard)
    return images, found


def held_out(
    kind: str, count: int, size: int, resolution: int, seed: int = 1
) -> tuple[UInt8[np.ndarray, "size 3 height width"], Float[np.ndarray, "size objects 2"]]:
    """`size` renders of scenes of `kind` with exactly `count` countable objects. Raises ValueError for an unknown kind."""
    if kind not in KINDS:
        raise ValueError(f"unknown kind of scenes {kind!r}; allowed: {', '.join(KINDS)}")
    scenes, index = [], 1_000_000 * (count + 1)
    while len(scenes) < size:
        # one more object than wanted in every third scene: its center may lie outside or it may be hidden
        n = min(count + (index % 3 == 0), len(TEST_LOCATIONS) if kind == "layout" else MAX_OBJECTS)
        candidate = scene(seed, index, kind, n)
        if np.isfinite(centers([candidate])[0, :, 0]).sum() == count:
            scenes.append(candidate)
        index += 1
    return _rendered(scenes, resolution)


def held_out_data(folder, kind: str, count: int, size: int, resolution: int, seed: int = 1):
    """As `held_out`, rendered once and kept in `folder`."""
    path = Path(folder) / f"held_out_{kind}_{count:02d}_{size}_seed{seed}.npz"
    return _kept(path, lambda: held_out(kind, count, size, resolution, seed))
