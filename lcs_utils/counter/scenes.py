"""Renders with known object centers and colors for the counter: crowded scenes, the paper's test layouts,
CLEVR's own.

An object is countable if its center lies in the image and enough of it is visible; hidden ones are removed.
Objects of one color that interpenetrate count as one, which is not a CLEVR object: nets draw such shapes, and
renders of `melted` scenes teach the counter what they are.
"""

import zipfile
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int8, UInt8
from scipy.sparse.csgraph import connected_components
from tqdm.auto import tqdm

from lcs_utils import paths, store
from lcs_utils.checks import check_choice, check_count
from lcs_utils.clevr.conditions import GRID_SIZE, TEST_LOCATIONS
from lcs_utils.clevr.render import LOOK, object_ids, render
from lcs_utils.clevr.scenes import COLORS, SHAPES, SIZES, Scene, project, sample_scene, scene_at

MAX_OBJECTS = 14  # two more than are counted exactly, so that 12 is not the largest number ever seen
VISIBLE_SHARE = 0.0035  # of the image's area: 3.6 px at 32 px, 14 px at 64 px
# used to train and measure the headline counter, and for the images judged by eye
EARLIER_SHARE = 0.0025
VISIBILITY_SIDE = 96  # px, where visible areas are measured
IN_ONE_ANOTHER = 0.75  # of the sum of two radii: objects of one color closer than this are one
SHARD = 2048
# objects of each kind of scene, at most: CLEVR's margins leave room for as many as there are test locations
MOST = {
    "crowded": MAX_OBJECTS,
    "layout": len(TEST_LOCATIONS),
    "clevr": len(TEST_LOCATIONS),
    "melted": MAX_OBJECTS,
}
KINDS = tuple(MOST)
TRIES = 8  # attempts to place an object that melts into another
ANTIALIAS = {32: 3}  # samples per pixel side of an object; elsewhere 2: half a dB less, at half the cost


class Labeled(NamedTuple):
    """Images and their labels: object centers in [0, 1]^2 (x right, y down), NaN padded; indices into COLORS,
    -1 padded; whether objects interpenetrate.
    """

    images: UInt8[np.ndarray, "batch 3 height width"]
    centers: Float[np.ndarray, "batch objects 2"]
    colors: Int8[np.ndarray, "batch objects"]
    melted: Bool[np.ndarray, "batch"]


def folder(resolution: int) -> Path:
    """Where renders for the counter are stored, by resolution, look of the renderer and VISIBLE_SHARE."""
    return paths.RUNS / "data" / f"counter{resolution}_look{LOOK}_from{VISIBLE_SHARE:g}"


def prune(scene: Scene, share: float = VISIBLE_SHARE) -> Scene:
    """The scene without hardly visible objects, so that each remaining center in the image can be counted.

    Choice: an object counts when at least 0.35% of the image shows it, as CLEVR's own test asks.
    """
    seen = np.bincount(object_ids(scene, VISIBILITY_SIDE).ravel() + 1, minlength=len(scene.objects) + 1)[1:]
    inside = ((project(scene) >= 0) & (project(scene) < 1)).all(1)
    keep = ~inside | (seen >= share * VISIBILITY_SIDE**2)
    return replace(scene, objects=tuple(o for o, k in zip(scene.objects, keep, strict=True) if k))


def parts(scene: Scene) -> list[list[int]]:
    """Groups of objects that count as one: connected objects of one color whose centers are nearer than
    IN_ONE_ANOTHER of the sum of their radii.
    """
    place = np.array([o.coords[:2] for o in scene.objects]).reshape(-1, 2)
    radius, color = np.array([o.radius for o in scene.objects]), np.array([o.color for o in scene.objects])
    gap = np.linalg.norm(place[:, None] - place, axis=-1)
    near = (gap < IN_ONE_ANOTHER * (radius[:, None] + radius)) & (color[:, None] == color)
    groups = connected_components(near, directed=False)[1] if len(place) else np.zeros(0, int)
    return [np.flatnonzero(groups == group).tolist() for group in range(len(set(groups.tolist())))]


def melt(scene: Scene, rng: np.random.Generator, share: float = VISIBLE_SHARE) -> Scene:
    """Grow one to three of the scene's objects by others of the same color that interpenetrate them and
    nothing else; pruned.
    """
    objects = list(scene.objects)
    for i in rng.permutation(len(objects))[: 1 + rng.integers(3)]:
        own, members = scene.objects[i], [int(i)]
        for _ in range(2 if rng.random() < 0.3 else 1):
            for _try in range(TRIES):
                size, shape = rng.choice(list(SIZES)), rng.choice(SHAPES)
                reach = SIZES[size] + own.radius
                far, angle = reach * rng.uniform(0.35, 0.95 * IN_ONE_ANOTHER), 2 * np.pi * rng.random()
                x, y = own.coords[0] + far * np.cos(angle), own.coords[1] + far * np.sin(angle)
                place, degrees = (float(x), float(y), SIZES[size]), 360 * rng.random()
                grown = replace(own, size=str(size), shape=str(shape), coords=place, rotation=degrees)
                others = [o for j, o in enumerate(objects) if j not in members]
                if all(np.hypot(x - o.coords[0], y - o.coords[1]) > o.radius + grown.radius for o in others):
                    members.append(len(objects))
                    objects.append(grown)
                    break
    return prune(replace(scene, objects=tuple(objects)), share)


def layout(rng: np.random.Generator, n: int) -> Float[np.ndarray, "n 2"]:
    """`n` of the 12 test locations (App. E.1), [n 2] in [0, 1]^2: the first ones, or random ones, exact or
    moved within their cells.
    """
    style = rng.integers(3)
    locations = np.array(TEST_LOCATIONS)[:n] if style == 0 else rng.permutation(TEST_LOCATIONS)[:n]
    if style == 2:
        locations = (np.floor(locations * GRID_SIZE) + rng.random(locations.shape)) / GRID_SIZE
    return locations


def scene(seed: int, index: int, kind: str, n_objects: int, share: float = VISIBLE_SHARE) -> Scene:
    """One pruned scene of a kind in KINDS; depends on its arguments alone.

    If CLEVR's margins leave no room for that many objects (hardly ever up to 11), it has fewer.
    """
    if kind == "layout":
        rng = np.random.Generator(np.random.PCG64([seed, index, 1]))
        return prune(scene_at(layout(rng, n_objects), seed, index), share)
    if kind == "melted":
        rng = np.random.Generator(np.random.PCG64([seed, index, 2]))
        return melt(scene(seed, index, "crowded", n_objects, share), rng, share)
    try:
        return prune(sample_scene(seed, index, n_objects, margins=kind == "clevr"), share)
    except ValueError:
        if n_objects < 10:
            raise
        return scene(seed, index, kind, n_objects - 1, share)


def labels(
    scenes,
) -> tuple[
    Float[np.ndarray, "batch objects 2"], Int8[np.ndarray, "batch objects"], Bool[np.ndarray, "batch"]
]:
    """Centers and colors of the objects whose center lies in the image, and whether some interpenetrate, as
    in `Labeled`.
    """
    centers = np.full((len(scenes), MAX_OBJECTS, 2), np.nan, np.float32)
    colors = np.full((len(scenes), MAX_OBJECTS), -1, np.int8)
    melted = np.zeros(len(scenes), bool)
    for i, s in enumerate(scenes):
        groups, location = parts(s), project(s).reshape(-1, 2)
        place = np.array([location[group].mean(0) for group in groups]).reshape(-1, 2)
        inside = ((place >= 0) & (place < 1)).all(1)
        centers[i, : inside.sum()] = place[inside]
        colors[i, : inside.sum()] = [
            COLORS.index(s.objects[group[0]].color) for group, yes in zip(groups, inside, strict=True) if yes
        ]
        melted[i] = any(len(group) > 1 for group in groups)
    return centers, colors, melted


def training_scene(seed: int, index: int) -> Scene:
    """The index-th training scene; of eight, two are crowded (0-14 objects), one melted (1-10), two test
    layouts (1-12), three CLEVR's (0-12).

    Choice: CLEVR's margins leave room for 12 objects, two more than CLEVR places.
    """
    rng = np.random.Generator(np.random.PCG64([seed, index, 0]))
    if index % 8 < 2:
        return scene(seed, index, "crowded", int(rng.integers(MAX_OBJECTS + 1)))
    if index % 8 < 3:
        return scene(seed, index, "melted", 1 + int(rng.integers(10)))
    if index % 8 < 5:
        return scene(seed, index, "layout", 1 + int(rng.integers(len(TEST_LOCATIONS))))
    return scene(seed, index, "clevr", int(rng.integers(len(TEST_LOCATIONS) + 1)))


def rendered(scenes, resolution: int) -> Labeled:
    """Scenes as images with labels."""
    return Labeled(
        render(scenes, resolution, ANTIALIAS.get(resolution, 2)).transpose(0, 3, 1, 2), *labels(scenes)
    )


def kept(path, make) -> Labeled:
    """`make()`, computed once and stored at `path`. Raises ValueError naming a file that cannot be read."""
    if not path.exists():
        with store.atomic_path(path) as temporary, open(temporary, "wb") as file:
            np.savez(file, **make()._asdict())
    try:
        with np.load(path, allow_pickle=False) as shard:
            return Labeled(*(shard[name] for name in Labeled._fields))
    except (ValueError, OSError, KeyError, zipfile.BadZipFile) as error:
        raise ValueError(
            f"{path} is truncated or altered ({error}); delete it and run the same command again"
        ) from None


def join(parts, size: int | None = None) -> Labeled:
    """Concatenate several `Labeled`, cut after `size` images."""
    return Labeled(*(np.concatenate(column)[:size] for column in zip(*parts, strict=True)))


def training_data(size: int, resolution: int, seed: int = 0) -> Labeled:
    """The first `size` training scenes; finished shards are kept and reused."""
    parts = []
    for start in tqdm(range(0, size, SHARD), unit="shard", desc="scenes", mininterval=5):

        def scenes(start=start):
            return [training_scene(seed, i) for i in range(start, start + SHARD)]

        parts.append(
            kept(
                folder(resolution) / f"training_seed{seed}_{start:08d}.npz",
                lambda: rendered(scenes(), resolution),
            )
        )
    return join(parts, size)


def held_out_scenes(
    kind: str, count: int, size: int, seed: int = 1, share: float = VISIBLE_SHARE
) -> list[Scene]:
    """`size` scenes of `kind` with exactly `count` countable objects. Raises ValueError for an unknown kind,
    or for more objects than it has, MOST.
    """
    check_choice("kind of scenes", kind, KINDS)
    check_count(f"the number of objects of {kind} scenes", count, 0, MOST[kind])
    check_count("size", size)
    scenes, index = [], 1_000_000 * (count + 1)
    while len(scenes) < size:
        # one more object than wanted in every third scene: its center may lie outside or it may be hidden
        n = min(count + (index % 3 == 0), MOST[kind])
        candidate = scene(seed, index, kind, n, share)
        if (labels([candidate])[1] >= 0).sum() == count:
            scenes.append(candidate)
        index += 1
    return scenes


def held_out(
    kind: str, count: int, size: int, resolution: int, seed: int = 1, share: float = VISIBLE_SHARE
) -> Labeled:
    """As `held_out_scenes`, rendered."""
    return rendered(held_out_scenes(kind, count, size, seed, share), resolution)


def held_out_data(kind: str, count: int, size: int, resolution: int, seed: int = 1) -> Labeled:
    """As `held_out`, rendered once and stored."""
    path = folder(resolution) / f"held_out_{kind}_{count:02d}_{size}_seed{seed}.npz"
    return kept(path, lambda: held_out(kind, count, size, resolution, seed))
