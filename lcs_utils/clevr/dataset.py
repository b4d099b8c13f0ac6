"""Rendered scenes on disk: shards that resume after a kill, with checksums; `python -m lcs_utils.clevr.dataset --help`.

A shard is one .npz (images, locations, colors, n_objects; on request masks, depth, boxes) of one object count, and its
scenes as JSON lines beside it. `loading` reads a folder as a torch Dataset and for Hugging Face's `datasets`.
"""

import argparse
import json
import multiprocessing
import os
import threading
import time
import zipfile
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import nullcontext
from pathlib import Path

import numpy as np
from tqdm.auto import tqdm

from lcs_utils import paths
from lcs_utils.clevr.annotations import EXTRAS, annotate, check_extras, labels
from lcs_utils.clevr.card import card, format_counts, parse_counts, parse_part
from lcs_utils.clevr.render import BACKENDS, LOOK, render
from lcs_utils.clevr.scene_json import scene_to_json
from lcs_utils.clevr.scenes import CROPS, sample_scene

MANIFEST = "manifest.json"
INDEX_STRIDE = 100_000_000  # scene i with n objects has index n * INDEX_STRIDE + i, whatever else is generated
OPTIONS = ("margins", "visibility", "require_centers_inside", "crop")  # of sample_scene


_shard_name = "{}_objects_{:08d}.npz".format  # count, first scene


def _images(scenes, settings):
    """The scenes' images [batch 3 height width] by the back end that the settings name."""
    images = render(scenes, settings["resolution"], settings["antialias"], settings.get("backend", "fast"))
    return np.ascontiguousarray(images.transpose(0, 3, 1, 2))


def _write_shard(folder, settings, count, start, stop):
    """Render scenes start..stop-1 with `count` objects into one shard; returns its name and its manifest entry."""
    options, resolution, most = {k: settings[k] for k in OPTIONS}, settings["resolution"], max(settings["counts"])
    scenes = [sample_scene(settings["seed"], count * INDEX_STRIDE + i, count, **options) for i in range(start, stop)]
    images = _images(scenes, settings)
    extras = annotate(scenes, resolution, settings.get("extras", ()), most)
    path = Path(folder) / _shard_name(count, start)
    lines = "".join(json.dumps(scene_to_json(s, "new", resolution, resolution)) + "\n" for s in scenes)
    paths.write_text(path.with_suffix(".jsonl"), lines)  # first, so that a shard with images is a whole one
    with paths.atomic_path(path) as temporary, open(temporary, "wb") as file:
        np.savez(file, images=images, **labels(scenes, most), **extras)
    return path.name, _entry(path, stop - start)


def _entry(path, size):
    scenes = path.with_suffix(".jsonl")
    return {"sha256": paths.sha256(path), "scenes_sha256": paths.sha256(scenes), "images": size}


def _adopt(path, settings, count, start, size):
    """The manifest entry of a finished shard that the manifest does not know: a part's, or a kill came before.

    Raises ValueError if it holds something else than these settings give, so that a lost manifest mixes nothing.
    """
    scene = sample_scene(settings["seed"], count * INDEX_STRIDE + start, count, **{k: settings[k] for k in OPTIONS})
    image = _images([scene], settings)[0]
    again = "delete it and run the same command again"
    try:
        with np.load(path, allow_pickle=False) as shard:
            images, arrays = shard["images"], set(shard.files) - {"locations", "colors", "n_objects", "images"}
    except (OSError, ValueError, KeyError, zipfile.BadZipFile) as error:
        raise ValueError(f"{path} is truncated or altered ({error}); {again}") from None
    same = images.shape == (size, *image.shape) and np.abs(images[0] - image.astype(float)).mean() < 0.5
    if not same or arrays != set(settings.get("extras", ())):
        raise ValueError(f"{path} holds other scenes than these settings give; choose another folder")
    if path.with_suffix(".jsonl").read_bytes().count(b"\n") != size:
        raise ValueError(f"{path.with_suffix('.jsonl')} does not hold {size} scenes; {again}")
    return _entry(path, size)


def _start_worker():
    import numba

    numba.set_num_threads(1)  # parallel over shards; more threads inside would fight for the same cores

    def end_with_parent():  # a worker whose parent was killed would wait forever for its next shard
        multiprocessing.parent_process().join()
        os._exit(1)

    threading.Thread(target=end_with_parent, daemon=True).start()


def _read_manifest(folder):
    path = Path(folder) / MANIFEST
    if not path.exists():
        make = f"python -m lcs_utils.clevr.dataset --objects ... --per-count ... --resolution ... --out {folder}"
        raise FileNotFoundError(f"{path} is missing; {make} makes it, with the settings that you want")
    again = "delete it and generate again, finished shards are kept"
    try:
        manifest = json.loads(path.read_text())
    except json.JSONDecodeError as error:
        raise ValueError(f"{path} is not JSON ({error}); {again}") from None
    if not isinstance(manifest, dict) or not all(isinstance(manifest.get(key), dict) for key in ("settings", "shards")):
        raise ValueError(f"{path} is no manifest: it lacks settings or shards; {again}")
    return manifest


def _check_same(folder, old, new):
    """Raise ValueError, naming what differs, unless the settings of a folder are these."""
    differing = [f"{k}: {old.get(k)!r} there, {new.get(k)!r} here" for k in {**old, **new} if old.get(k) != new.get(k)]
    if differing:
        raise ValueError(f"{folder} was made with other settings ({'; '.join(differing)}); choose another folder")


def _jobs(settings):
    """(count, start, stop) of every shard, in order."""
    n, size = settings["per_count"], settings["shard_size"]
    return [(count, start, min(start + size, n)) for count in settings["counts"] for start in range(0, n, size)]


def _check(settings, workers, part):
    """Raise ValueError for settings that cannot be rendered, RuntimeError without the back end, before any file is written."""
    counts = settings["counts"]
    if not counts or counts[0] < 0 or counts[-1] > 60:
        raise ValueError(f"object counts must lie in 0..60, got {counts}")
    for name, value in (("per_count", settings["per_count"]), ("shard_size", settings["shard_size"]), ("workers", workers)):
        if value < 1:
            raise ValueError(f"{name} must be at least 1, got {value}")
    if settings["per_count"] > INDEX_STRIDE:
        raise ValueError(f"per_count must be at most {INDEX_STRIDE}, got {settings['per_count']}")
    if not 1 <= part[0] <= part[1]:
        raise ValueError(f"a part is (i, n) with 1 <= i <= n, got {part}")
    _images([], settings)  # its checks, that the back end is there, and that the most crowded scene can be placed
    sample_scene(settings["seed"], counts[-1] * INDEX_STRIDE, counts[-1], **{k: settings[k] for k in OPTIONS})


def generate(
    folder,
    seed: int = 0,
    counts=(1, 2, 3),
    per_count: int = 40_000,
    resolution: int = 32,
    shard_size: int = 2048,
    workers: int = 1,
    antialias: int = 3,
    margins: bool = True,
    visibility: bool = True,
    require_centers_inside: bool = False,
    crop: str = "center",
    progress: bool = True,
    extras=(),
    part: tuple[int, int] = (1, 1),
    backend: str = "fast",
) -> dict:
    """Fill `folder` with `per_count` scenes for each object count (App. E.1's data) and return its manifest.

    The bytes depend on the settings only, not on `workers`, parts or interruptions; finished shards are kept when it is
    called again. `extras`: any of masks, depth, boxes. `part` (i, n) renders every n-th shard from the i-th only, so that
    n jobs can fill one folder side by side; only a call without parts, afterwards, records their checksums. `backend`
    "cuda" draws on an NVIDIA GPU while `workers` place the next scenes, "cycles" asks Blender (see `render`). Raises
    ValueError, before any work, for impossible settings or a folder that was made with other ones, and RuntimeError
    where the GPU or Blender is missing.
    """
    settings = {
        "seed": seed, "counts": sorted(set(counts)), "per_count": per_count, "resolution": resolution,
        "shard_size": shard_size, "antialias": antialias, "margins": margins, "visibility": visibility,
        "require_centers_inside": require_centers_inside, "crop": crop, "look": LOOK,
    }  # fmt: skip
    if check_extras(extras):  # absent otherwise: folders made before extras existed are the same
        settings["extras"] = list(check_extras(extras))
    if backend != "fast":  # likewise
        settings["backend"] = backend
    _check(settings, workers, part)
    alone = paths.exclusive(Path(folder)) if part == (1, 1) else nullcontext()  # a second call waits, and finds it done
    with alone:
        return _fill(Path(folder), settings, workers, part, progress)


def _fill(folder, settings, workers, part, progress) -> dict:
    """`generate` behind its checks."""
    manifest = {"settings": settings, "shards": {}}
    if (folder / MANIFEST).exists():
        manifest = _read_manifest(folder)
        _check_same(folder, manifest["settings"], settings)
    elif part != (1, 1):  # every part writes the same bytes, so it does not matter which is first
        paths.write_json(folder / MANIFEST, manifest)
    mine, todo = _jobs(settings)[part[0] - 1 :: part[1]], []
    for count, start, stop in mine:
        path = folder / _shard_name(count, start)
        if not (path.exists() and path.with_suffix(".jsonl").exists()):
            manifest["shards"].pop(path.name, None)
            todo.append((count, start, stop))
        elif path.name not in manifest["shards"] and part == (1, 1):
            manifest["shards"][path.name] = _adopt(path, settings, count, start, stop - start)
    if part == (1, 1):
        _remove_leftovers(folder)
        paths.write_json(folder / MANIFEST, manifest)
        paths.write_text(folder / "README.md", card(settings))
    total, missing = (sum(stop - start for _, start, stop in jobs) for jobs in (mine, todo))
    with tqdm(total=total, initial=total - missing, unit=" images", smoothing=0.05, mininterval=1, disable=not progress) as bar:
        for name, entry in _run(folder, settings, todo, workers):
            manifest["shards"][name] = entry
            if part == (1, 1):
                paths.write_json(folder / MANIFEST, manifest)
            bar.update(entry["images"])
    return manifest


def _remove_leftovers(folder):
    """Temporary files that a killed run left; younger ones may belong to a run at work."""
    for path in folder.glob(".*.tmp*"):
        if path.stat().st_mtime < time.time() - 3600:
            path.unlink(missing_ok=True)


def _run(folder, settings, todo, workers):
    if workers == 1 or len(todo) < 2:
        yield from (_write_shard(folder, settings, *job) for job in todo)
        return
    # spawned, not forked: numba's threads and torch's do not survive a fork
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(workers, context, _start_worker) as pool:
        for future in as_completed([pool.submit(_write_shard, folder, settings, *job) for job in todo]):
            yield future.result()


def default_folder(resolution: int, counts) -> Path:
    """Where scenes of these object counts are kept: runs/data/clevr32 for 1-3 objects at 32 px, clevr32_1-6 and so on."""
    name = format_counts(sorted(set(counts)))
    return paths.RUNS / "data" / (f"clevr{resolution}" + ("" if name == "1-3" else f"_{name}"))


def verify(folder, counts=None, checksums: bool = True) -> list[Path]:
    """Paths of the folder's shards (of the given object counts), in order, after checking each one's SHA-256.

    `checksums=False` only looks whether the files are there. Raises FileNotFoundError or ValueError naming the file and the
    command that restores it.
    """
    folder, found = Path(folder), []
    manifest = _read_manifest(folder)
    settings = manifest["settings"]
    wanted = settings["counts"] if counts is None else sorted(set(counts))
    missing = [n for n in wanted if n not in settings["counts"]]
    if missing:
        raise ValueError(f"{folder} holds scenes with {settings['counts']} objects, not {missing}")
    again = "delete it and run the command that made the folder again (finished shards are kept)"
    jobs = [(count, start) for count, start, _ in _jobs(settings) if count in wanted]
    for count, start in tqdm(jobs, desc="verifying", unit=" shards", delay=5, disable=None):
        path = folder / _shard_name(count, start)
        entry, scenes = manifest["shards"].get(path.name), path.with_suffix(".jsonl")
        for file in (path, scenes):
            if entry is None or not file.exists():
                raise FileNotFoundError(f"{file} is missing; run the command that made the folder again")
        for file, digest in ((path, entry["sha256"]), (scenes, entry.get("scenes_sha256"))):
            if checksums and digest and paths.sha256(file) != digest:  # early folders have no checksums of their scenes
                raise ValueError(f"{file} was altered or truncated (its SHA-256 differs from {MANIFEST}); {again}")
        found.append(path)
    return found


def main(arguments=None):
    """Command line: generate a folder, or check one with --verify."""
    parser = argparse.ArgumentParser(description="Render CLEVR scenes into shards.")
    parser.add_argument("--objects", dest="counts", type=parse_counts, default=(1, 2, 3), help="how many, as 2, 1-3 or 1,4")
    parser.add_argument("--per-count", type=int, default=40_000, help="scenes for each number of objects")
    parser.add_argument("--resolution", type=int, default=32)
    parser.add_argument("--antialias", type=int, default=3, help="rays per pixel and axis")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--shard-size", type=int, default=2048)
    parser.add_argument("--workers", type=int, default=os.cpu_count())
    parser.add_argument("--crop", choices=CROPS, default="center", help="how CLEVR's frame becomes a square")
    parser.add_argument("--with", dest="extras", nargs="+", choices=EXTRAS, default=(), help="arrays beside the images")
    parser.add_argument("--no-margins", dest="margins", action="store_false", help="objects only must not intersect")
    parser.add_argument("--no-visibility", dest="visibility", action="store_false", help="objects may be hidden")
    parser.add_argument("--centers-inside", dest="require_centers_inside", action="store_true")
    parser.add_argument("--backend", choices=BACKENDS, default="fast", help="who draws: processor, NVIDIA GPU or Blender")
    parser.add_argument("--part", type=parse_part, default=(1, 1), help="i/n: every n-th shard, for n jobs side by side")
    parser.add_argument("--verify", action="store_true", help="check a folder instead, and what else is said here against it")
    parser.add_argument("--out", help="folder (default: the one in runs/data where training looks)")
    options = vars(parser.parse_args(arguments))
    unsaid = object()
    given = parser.parse_args(arguments, argparse.Namespace(**dict.fromkeys(options, unsaid)))
    folder, check = options.pop("out"), options.pop("verify")
    usual = {name: parser.get_default(name) for name in (*OPTIONS, "antialias", "seed", "shard_size", "backend", "extras")}
    unusual = [f"{name} = {options[name]}" for name, value in usual.items() if options[name] != value]
    if unusual and not folder and not check:
        parser.error(f"{', '.join(unusual)}: not what training asks for in its folder; name another with --out")
    folder = folder or default_folder(options["resolution"], options["counts"])
    try:
        if check:
            made = {"backend": "fast", "extras": ()} | _read_manifest(folder)["settings"]
            plain = lambda value: sorted(set(value)) if isinstance(value, list | tuple) else value
            said = [name for name, value in vars(given).items() if value is not unsaid and name in made]
            _check_same(folder, *({name: plain(settings[name]) for name in said} for settings in (made, options)))
            print(f"{len(verify(folder))} shards in {folder} are whole")
        else:
            manifest = generate(folder, **options)
            print(f"{sum(s['images'] for s in manifest['shards'].values())} images in {folder}")
    except (ValueError, RuntimeError, OSError) as error:
        parser.exit(2, f"{parser.prog}: {error}\n")


if __name__ == "__main__":
    main()
