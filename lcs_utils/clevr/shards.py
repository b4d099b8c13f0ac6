"""One shard of rendered scenes: <count>_objects_<first>.npz, its scenes as .jsonl, its checksums as .json.

The checksums are written last, so a shard that has them is complete; they also record its recipe. Arrays are
as wide as the shard's own object count, so that data sets of 1-3 and of 1-6 objects share files. Older
folders keep the checksums in manifest.json, and pad to their largest count.
"""

import errno
import functools
import hashlib
import json
import math
import os
import shutil
from pathlib import Path

import numpy as np

from lcs_utils import store
from lcs_utils.clevr.annotations import annotate, labels, picture_size
from lcs_utils.clevr.render import render
from lcs_utils.clevr.scene_json import scene_line
from lcs_utils.clevr.scenes import sample_scene
from lcs_utils.clevr.world import CLEVR, World

MANIFEST = "manifest.json"
INDEX_STRIDE = 100_000_000  # scene i with n objects has index n * INDEX_STRIDE + i in every folder
OPTIONS = ("margins", "visibility", "require_centers_inside", "crop")  # of sample_scene
NOT_THE_RECIPE = ("counts", "per_count", "shard_size")  # settings that select scenes but do not change them

shard_name = "{}_objects_{:08d}.npz".format  # count, first scene


def recipe(settings: dict) -> str:
    """Hash of the settings that a shard's bytes depend on, apart from its object count and indices."""
    kept = {name: value for name, value in settings.items() if name not in NOT_THE_RECIPE}
    return hashlib.sha256(json.dumps(kept, sort_keys=True).encode()).hexdigest()


def jobs(settings: dict) -> list[tuple[int, int, int]]:
    """(count, start, stop) of every shard, in order."""
    n, size = settings["per_count"], settings["shard_size"]
    return [(k, start, min(start + size, n)) for k in settings["counts"] for start in range(0, n, size)]


def image_bytes(settings: dict, count: int) -> int:
    """Approximate bytes on disk of one image with its labels, extras and scene."""
    pixels = math.prod(picture_size(settings["resolution"]))
    extras = {"masks": pixels, "depth": 4 * pixels, "boxes": 8 * count}
    return 3 * pixels + 350 + 260 * count + sum(extras[name] for name in settings.get("extras", ()))


def images(scenes, settings: dict) -> np.ndarray:
    """The scenes' images [batch 3 height width] by the back end that the settings name."""
    drawn = render(scenes, settings["resolution"], settings["antialias"], settings.get("backend", "fast"))
    return np.ascontiguousarray(drawn.transpose(0, 3, 1, 2))


def scene_options(settings: dict) -> dict:
    """The arguments of `sample_scene` other than seed, index and number of objects."""
    world = World.from_json(settings["world"]) if "world" in settings else CLEVR
    return {name: settings[name] for name in OPTIONS} | {"world": world}


def write(folder, settings: dict, count: int, start: int, stop: int) -> tuple[str, dict]:
    """Render scenes start..stop-1 with `count` objects into one shard; return its name and checksums.

    Raises RuntimeError naming the file and the space it needs when the disk is full.
    """
    path, size, options = (
        Path(folder) / shard_name(count, start),
        settings["resolution"],
        scene_options(settings),
    )
    numbers = range(count * INDEX_STRIDE + start, count * INDEX_STRIDE + stop)
    scenes = [sample_scene(settings["seed"], i, count, **options) for i in numbers]
    arrays = {"images": images(scenes, settings), **labels(scenes, count)}
    arrays |= annotate(scenes, size, settings.get("extras", ()), count)
    lines = "".join(scene_line(s, *picture_size(size)) + "\n" for s in scenes)
    try:
        store.write_text(path.with_suffix(".jsonl"), lines)
        with store.atomic_path(path) as temporary, open(temporary, "wb") as file:
            np.savez(file, **arrays)
        found = checksums(path) | {"images": stop - start, "recipe": recipe(settings)}
        store.write_json(path.with_suffix(".json"), found)
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            raise
        free, need = shutil.disk_usage(folder).free, (stop - start) * image_bytes(settings, count)
        raise RuntimeError(
            f"{path} cannot be written: it needs {need / 2**20:,.1f} MiB, {free / 2**20:,.1f} MiB are free "
            "on its disk; make room and give the same command again, finished shards are kept"
        ) from None
    return path.name, found


def checksums(path: Path) -> dict:
    """SHA-256 of a shard and of its scenes."""
    return {"sha256": _sha256(path), "scenes_sha256": _sha256(path.with_suffix(".jsonl"))}


def _sha256(path):
    status = path.stat()
    return _hashed(path.resolve(), status.st_size, status.st_mtime_ns, status.st_ino)


@functools.cache
def _hashed(path, size, changed, number):
    """SHA-256 of a file, computed once per process unless the file changes."""
    return store.sha256(path)


def read_entry(path: Path, manifest: dict, settings: dict | None = None) -> dict | None:
    """The checksums of a shard, stored beside it or in an old manifest; None if it is unfinished.

    Raises ValueError for a shard made with settings other than `settings`, if given.
    """
    old = manifest.get("shards", {}).get(path.name)
    try:
        found = json.loads(path.with_suffix(".json").read_text())
    except FileNotFoundError:
        found = old
    except ValueError:
        return None
    if not isinstance(found, dict) or not {"sha256", "images"} <= set(found):
        return None
    if settings is not None and found.get("recipe", recipe(settings)) != recipe(settings):
        raise ValueError(f"{path} holds other scenes than these settings give; choose another folder")
    return found if path.exists() and path.with_suffix(".jsonl").exists() else None


def damage(path: Path, entry: dict) -> str | None:
    """What is wrong with a finished shard's bytes, if anything."""
    for file, digest in ((path, entry["sha256"]), (path.with_suffix(".jsonl"), entry.get("scenes_sha256"))):
        if digest and _sha256(file) != digest:  # early folders have no checksums of their scenes
            return f"{file} was altered or truncated (its SHA-256 is not the stored one)"
    return None


def sibling(path: Path, settings: dict, job: tuple[int, int, int]) -> Path | None:
    """A complete shard of the same scenes and recipe in a neighboring folder, to link instead of rendering it
    again.
    """
    for there in sorted(path.parent.resolve().parent.glob(f"*/{path.name}")):
        if there.parent == path.parent.resolve():
            continue
        entry = read_entry(there, {})
        if not entry or entry.get("recipe") != recipe(settings) or entry["images"] != job[2] - job[1]:
            continue
        if not damage(there, entry):
            return there
    return None


def link(source: Path, target: Path) -> None:
    """Hard-link the source's shard to the target's path (copy it where the disk has no hard links)."""
    for suffix in (".jsonl", ".npz", ".json"):  # checksums last, as when written
        with store.atomic_path(target.with_suffix(suffix)) as temporary:
            try:
                os.link(source.with_suffix(suffix), temporary)
            except OSError:
                shutil.copyfile(source.with_suffix(suffix), temporary)
