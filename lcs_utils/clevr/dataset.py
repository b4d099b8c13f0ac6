"""Rendered scenes on disk: shards that resume after a kill, with checksums; `python -m lcs_utils.clevr.dataset --help`.

A shard is one .npz (images, locations, colors, n_objects) of one object count, and its scenes as JSON lines beside it.
"""

import argparse
import json
import multiprocessing
import os
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path

import numpy as np
from tqdm.auto import tqdm

from lcs_utils import paths
from lcs_utils.clevr.render import LOOK, render
from lcs_utils.clevr.scene_json import scene_to_json
from lcs_utils.clevr.scenes import COLORS, project, sample_scene

MANIFEST = "manifest.json"
INDEX_STRIDE = 100_000_000  # scene i with n objects has index n * INDEX_STRIDE + i, whatever else is generated
OPTIONS = ("margins", "visibility", "require_centers_inside", "crop")  # of sample_scene
ARRAYS = ("images", "locations", "colors", "n_objects")


def _shard_name(count, start):
    return f"{count}_objects_{start:08d}.npz"


def labels(scenes, max_objects: int) -> dict[str, np.ndarray]:
    """What conditions are made of: locations [n, max, 2] (NaN padded), colors [n, max] (-1 padded), n_objects [n]."""
    locations = np.full((len(scenes), max_objects, 2), np.nan, np.float32)
    colors = np.full((len(scenes), max_objects), -1, np.int8)
    for i, scene in enumerate(scenes):
        if scene.objects:
            locations[i, : len(scene.objects)] = project(scene)
            colors[i, : len(scene.objects)] = [COLORS.index(o.color) for o in scene.objects]
    return {"locations": locations, "colors": colors, "n_objects": np.array([len(s.objects) for s in scenes], np.int8)}


def _write_shard(folder, settings, count, start, stop):
    """Render scenes start..stop-1 with `count` objects into one shard; returns (name, SHA-256, images)."""
    options = {k: settings[k] for k in OPTIONS}
    scenes = [sample_scene(settings["seed"], count * INDEX_STRIDE + i, count, **options) for i in range(start, stop)]
    images = render(scenes, settings["resolution"], settings["antialias"]).transpose(0, 3, 1, 2)
    arrays = {"images": np.ascontiguousarray(images), **labels(scenes, max(settings["counts"]))}
    path = Path(folder) / _shard_name(count, start)
    lines = "".join(json.dumps(scene_to_json(scene)) + "\n" for scene in scenes)
    paths.write_text(path.with_suffix(".jsonl"), lines)
    with paths.atomic_path(path) as temporary, open(temporary, "wb") as file:
        np.savez(file, **arrays)
    return path.name, paths.sha256(path), stop - start


def _start_worker():
    import numba

    numba.set_num_threads(1)  # parallel over shards; more threads inside would fight for the same cores


def _read_manifest(folder):
    path = Path(folder) / MANIFEST
    if not path.exists():
        raise FileNotFoundError(f"{path} is missing; make it with python -m lcs_utils.clevr.dataset --out {folder}")
    try:
        return json.loads(path.read_text())
    except json.JSONDecodeError as error:
        message = f"{path} is not JSON ({error}); delete it and generate again, finished shards are kept"
        raise ValueError(message) from None


def generate(
    folder,
    seed: int = 0,
    counts=(1, 2, 3),
    per_count: int = 50_000,
    resolution: int = 32,
    shard_size: int = 2048,
    workers: int = 1,
    antialias: int = 3,
    margins: bool = True,
    visibility: bool = True,
    require_centers_inside: bool = False,
    crop: str = "center",
    progress: bool = True,
) -> dict:
    """Fill `folder` with `per_count` scenes for each object count (App. E.1's data) and return its manifest.

    The bytes depend on the settings only, not on `workers` or on interruptions; finished shards are kept when it is
    called again. Raises ValueError, before any work, for impossible settings or a folder that was made with other ones.
    """
    counts = sorted(set(counts))
    if not counts or counts[0] < 0 or counts[-1] > 60:
        raise ValueError(f"object counts must lie in 0..60, got {counts}")
    for name, value in (("per_count", per_count), ("shard_size", shard_size), ("workers", workers)):
        if value < 1:
            raise ValueError(f"{name} must be at least 1, got {value}")
    settings = {
        "seed": seed, "counts": counts, "per_count": per_count, "resolution": resolution, "shard_size": shard_size,
        "antialias": antialias, "margins": margins, "visibility": visibility,
        "require_centers_inside": require_centers_inside, "crop": crop, "look": LOOK,
    }  # fmt: skip
    render([], resolution, antialias)  # its checks, and that the most crowded scene can be placed
    options = {k: settings[k] for k in OPTIONS}
    sample_scene(seed, counts[-1] * INDEX_STRIDE, counts[-1], **options)
    folder = Path(folder)
    manifest = {"settings": settings, "shards": {}}
    if (folder / MANIFEST).exists():
        manifest = _read_manifest(folder)
        old = manifest["settings"]
        pairs = [(k, old.get(k), settings.get(k)) for k in {**old, **settings}]
        differing = [f"{k}: {a!r} there, {b!r} here" for k, a, b in pairs if a != b]
        if differing:
            raise ValueError(f"{folder} was made with other settings ({'; '.join(differing)}); choose another folder")
    todo = []
    for count in counts:
        for start in range(0, per_count, shard_size):
            name, size = _shard_name(count, start), min(shard_size, per_count - start)
            if not (folder / name).exists():
                manifest["shards"].pop(name, None)
                todo.append((count, start, start + size))
            elif name not in manifest["shards"]:  # killed between the rename and the manifest: the shard is whole
                manifest["shards"][name] = {"sha256": paths.sha256(folder / name), "images": size}
    paths.write_json(folder / MANIFEST, manifest)
    total = per_count * len(counts)
    done = total - sum(stop - start for _, start, stop in todo)
    with tqdm(total=total, initial=done, unit=" images", smoothing=0.05, mininterval=1, disable=not progress) as bar:
        for name, digest, n in _run(folder, settings, todo, workers):
            manifest["shards"][name] = {"sha256": digest, "images": n}
            paths.write_json(folder / MANIFEST, manifest)
            bar.update(n)
    return manifest


def _run(folder, settings, todo, workers):
    if workers == 1 or len(todo) < 2:
        yield from (_write_shard(folder, settings, *job) for job in todo)
        return
    # spawned, not forked: numba's threads and torch's do not survive a fork
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(workers, context, _start_worker) as pool:
        for future in as_completed([pool.submit(_write_shard, folder, settings, *job) for job in todo]):
            yield future.result()


def verify(folder, counts=None) -> list[Path]:
    """Paths of the folder's shards (of the given object counts), in order, after checking each one's SHA-256.

    Raises FileNotFoundError or ValueError naming the file and the command that restores it.
    """
    folder, found = Path(folder), []
    manifest = _read_manifest(folder)
    settings = manifest["settings"]
    wanted = settings["counts"] if counts is None else sorted(set(counts))
    missing = [n for n in wanted if n not in settings["counts"]]
    if missing:
        raise ValueError(f"{folder} holds scenes with {settings['counts']} objects, not {missing}")
    again = "delete it and run the command that made the folder again (finished shards are kept)"
    for count in wanted:
        for start in range(0, settings["per_count"], settings["shard_size"]):
            path = folder / _shard_name(count, start)
            entry = manifest["shards"].get(path.name)
            if entry is None or not path.exists():
                raise FileNotFoundError(f"{path} is missing; run the command that made the folder again")
            if paths.sha256(path) != entry["sha256"]:
                raise ValueError(f"{path} was altered or truncated (its SHA-256 differs from {MANIFEST}); {again}")
            found.append(path)
    return found


def load(folder, counts=None) -> dict[str, np.ndarray]:
    """All scenes (of the given object counts) as arrays, checksums verified: see `ARRAYS` and `labels`.

    images uint8 [n, 3, res, res], locations float32 [n, max, 2], colors int8 [n, max], n_objects int8 [n], where max is
    the folder's largest count. Raises as `verify` does.
    """
    shards = verify(folder, counts)
    with np.load(shards[0], allow_pickle=False) as first:
        shapes = {name: (first[name].shape[1:], first[name].dtype) for name in ARRAYS}
    manifest = _read_manifest(folder)["shards"]
    n = sum(manifest[path.name]["images"] for path in shards)
    arrays = {name: np.empty((n, *shape), dtype) for name, (shape, dtype) in shapes.items()}
    at = 0
    for path in shards:
        size = manifest[path.name]["images"]
        with np.load(path, allow_pickle=False) as shard:
            for name in ARRAYS:
                arrays[name][at : at + size] = shard[name]
        at += size
    return arrays


def _parse_counts(text):
    try:
        low, _, high = text.partition("-")
        return tuple(range(int(low), int(high or low) + 1))
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is neither a number nor a range like 1-3") from None


def main(arguments=None):
    """Command line: generate a folder, or check one with --verify."""
    parser = argparse.ArgumentParser(description="Render CLEVR scenes into shards.")
    parser.add_argument("--objects", type=_parse_counts, default=(1, 2, 3), help="number of objects, as 2 or 1-3")
    parser.add_argument("--per-count", type=int, default=50_000, help="scenes for each number of objects")
    parser.add_argument("--resolution", type=int, default=32)
    parser.add_argument("--antialias", type=int, default=3, help="rays per pixel and axis")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--shard-size", type=int, default=2048)
    parser.add_argument("--workers", type=int, default=os.cpu_count())
    parser.add_argument("--no-margins", dest="margins", action="store_false", help="objects only must not intersect")
    parser.add_argument("--centers-inside", dest="require_centers_inside", action="store_true")
    parser.add_argument("--verify", action="store_true", help="check an existing folder instead")
    parser.add_argument("--out", required=True)
    options = vars(parser.parse_args(arguments))
    folder, check, options["counts"] = options.pop("out"), options.pop("verify"), options.pop("objects")
    try:
        if check:
            print(f"{len(verify(folder))} shards in {folder} are whole")
        else:
            manifest = generate(folder, **options)
            print(f"{sum(s['images'] for s in manifest['shards'].values())} images in {folder}")
    except (ValueError, FileNotFoundError) as error:
        parser.exit(2, f"{parser.prog}: {error}\n")


if __name__ == "__main__":
    main()
