"""Rendered scenes on disk, in shards with checksums that resume after a kill: `python -m
lcs_utils.clevr.dataset --help`.

A shard is one .npz of one object count (images, locations, colors, n_objects; optionally masks, depth,
boxes), with its scenes as JSON lines and its checksums beside it (`shards`). `loading` reads a folder as a
torch Dataset, `parquet` exports it for Hugging Face's `datasets`.
"""

import argparse
import errno
import os
import shutil
import sys
import time
import warnings
from contextlib import ExitStack, suppress
from pathlib import Path

from tqdm.auto import tqdm

from lcs_utils import paths, store
from lcs_utils.checks import check_count, check_counts, check_flag, check_kind
from lcs_utils.clevr import pool, shards
from lcs_utils.clevr.annotations import EXTRAS, check_extras, labels, picture_size  # noqa: F401 (labels: for others)
from lcs_utils.clevr.card import card, format_counts, format_size, parse_counts, parse_part, parse_size
from lcs_utils.clevr.manifest import check_same, read_manifest, read_settings, verify
from lcs_utils.clevr.pixels import check_antialias
from lcs_utils.clevr.render import BACKENDS, LOOK
from lcs_utils.clevr.scenes import MAX_OBJECTS, MAX_SEED, check_placement
from lcs_utils.clevr.shards import INDEX_STRIDE, MANIFEST, OPTIONS
from lcs_utils.clevr.world import CLEVR, World, read_world
from lcs_utils.progress import hidden


def _sides(resolution):
    """A resolution as settings hold it: the side of a square, else [width, height]."""
    width, height = picture_size(resolution)
    return width if width == height else [width, height]


def _check(settings, workers, part):
    """Raise ValueError or TypeError for settings that cannot be rendered, and RuntimeError for a missing back
    end, before any file is written.
    """
    counts = settings["counts"]
    check_count("workers", workers, 1)
    if len(part) != 2 or not 1 <= part[0] <= part[1]:
        raise ValueError(f"a part is (i, n) with 1 <= i <= n, got {part}")
    shards.images([], settings)  # its checks, and that the back end is there
    most = counts[-1]
    first = [most * INDEX_STRIDE + i for i in range(3)]
    check_placement(settings["seed"], first, most, **shards.scene_options(settings))


def generate(
    folder,
    seed: int = 0,
    counts=(1, 2, 3),
    per_count: int = 40_000,
    resolution: int | tuple[int, int] = 32,
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
    world: World = CLEVR,
) -> dict:
    """Render `per_count` scenes for each object count into `folder` (App. E.1's data) and return its
    manifest: the settings, and the checksums of the finished shards.

    The bytes depend only on the settings, not on `workers`, parts or interruptions. Another call checks the
    hashes of finished shards, keeps intact ones and renders damaged ones again, with a warning; a complete
    folder is only read. A shard of the same recipe in a neighboring folder is linked, not rendered.
    `resolution`: the side of a square, or (width, height). `extras`: any of masks, depth, boxes. `part` (i,
    n): only every n-th shard from the i-th, so that n jobs can fill one folder in parallel. `backend`:
    "fast", "cuda" (an NVIDIA GPU draws while `workers` place the next scenes) or "cycles" (Blender), see
    `render`. `world`: what scenes are made of, if not CLEVR.

    Raises ValueError, before any work, for impossible settings, a folder made with other settings or too
    little disk space; TypeError for a setting of the wrong kind, such as a count that is no whole number;
    FileExistsError if `folder` is a file; PermissionError if it may not be written; RuntimeError if the GPU
    or Blender is missing, a worker is killed or the disk fills up.
    """
    check_kind("world", world, World, "a World")
    part = tuple(check_counts("part", part, None))
    settings = {
        "seed": check_count("seed", seed, 0, MAX_SEED),
        "counts": sorted(set(check_counts("counts", counts, 0, MAX_OBJECTS, least=1))),
        "per_count": check_count("per_count", per_count, 1, INDEX_STRIDE),
        "resolution": _sides(resolution),
        "shard_size": check_count("shard_size", shard_size, 1),
        "antialias": check_antialias(antialias),
        "margins": check_flag("margins", margins),
        "visibility": check_flag("visibility", visibility),
        "require_centers_inside": check_flag("require_centers_inside", require_centers_inside),
        "crop": crop,
        "look": LOOK,
    }
    if check_extras(extras):  # absent otherwise: folders made before extras existed are the same
        settings["extras"] = list(check_extras(extras))
    if backend != "fast":  # likewise
        settings["backend"] = backend
    if world != CLEVR:
        settings["world"] = world.to_json()
    folder = Path(folder)
    if folder.exists() and not folder.is_dir():
        raise FileExistsError(f"{folder} is a file; choose another folder")
    _check(settings, workers, part)
    if (folder / MANIFEST).exists() and not _todo(folder, settings, part):
        with suppress(OSError):  # a whole folder may lie where nobody may write
            _remove_leftovers(folder, part)
        return read_manifest(folder)
    with ExitStack() as stack:
        try:
            if part == (1, 1):
                _lock(stack, folder)
            return _fill(folder, settings, workers, part, progress)
        except OSError as error:
            if error.errno not in (errno.EACCES, errno.EPERM, errno.EROFS):
                raise
            raise PermissionError(
                f"{error.filename or folder} may not be written; choose a folder of your own with --out, or "
                "finish this one as its owner"
            ) from None


def _lock(stack, folder):
    """Hold the lock on filling the folder; say so and wait while another process holds it."""
    try:
        stack.enter_context(store.exclusive(folder, wait=False))
    except BlockingIOError:
        print(f"another process fills {folder}; waiting until it has ended", file=sys.stderr, flush=True)
        stack.enter_context(store.exclusive(folder))


def _todo(folder, settings, part) -> dict:
    """{job: what is wrong with its shard, None if missing} for the part's missing or damaged shards.

    Raises ValueError for a folder made with other settings, or with shards of unknown content.
    """
    manifest = {}
    if (folder / MANIFEST).exists():
        manifest = read_settings(folder)
        check_same(folder, manifest["settings"], settings)
    else:
        _check_strangers(folder, settings)
    todo, mine = {}, shards.jobs(settings)[part[0] - 1 :: part[1]]
    for job in tqdm(mine, "checking", unit=" shards", delay=5, leave=False):
        path = folder / shards.shard_name(*job[:2])
        entry = shards.read_entry(path, manifest, settings)
        wrong = entry and shards.damage(path, entry)
        if wrong or entry is None:
            todo[job] = wrong
    return todo


def _fill(folder, settings, workers, part, progress) -> dict:
    """`generate` after its checks."""
    mine, todo = shards.jobs(settings)[part[0] - 1 :: part[1]], _todo(folder, settings, part)
    for wrong in filter(None, todo.values()):
        warnings.warn(f"{wrong}; it is rendered again", stacklevel=3)
    twins = {job: shards.sibling(folder / shards.shard_name(*job[:2]), settings, job) for job in todo}
    missing = [job for job in todo if not twins[job]]
    _check_space(folder, settings, missing)
    if not (folder / MANIFEST).exists():
        # every part writes the same bytes, so it does not matter which is first
        store.write_text(folder / "README.md", card(settings))
        store.write_json(folder / MANIFEST, {"settings": settings})
    _remove_leftovers(folder, part)
    for job, twin in twins.items():
        if twin:
            shards.link(twin, folder / twin.name)
    total, left = (sum(stop - start for _, start, stop in jobs) for jobs in (mine, missing))
    with tqdm(
        total=total,
        initial=total - left,
        unit=" images",
        smoothing=0.05,
        mininterval=1,
        disable=hidden(progress),
    ) as bar:
        work = ((folder, settings, *job) for job in missing)
        for _, entry in pool.run(shards.write, work, max(min(workers, len(missing)), 1), folder):
            bar.update(entry["images"])
    return read_manifest(folder)


def _check_strangers(folder, settings):
    """Raise ValueError if a folder without a manifest holds shards that these settings do not give."""
    sizes = {shards.shard_name(count, start): stop - start for count, start, stop in shards.jobs(settings)}
    for path in sorted(folder.glob("[0-9]*_objects_*.npz")):
        entry = shards.read_entry(path, {}, settings)
        if entry is None:
            raise ValueError(
                f"{path} lies there without {MANIFEST} and without checksums, so its contents are "
                "unknown; remove it, or choose another folder"
            )
        if sizes.get(path.name, entry["images"]) != entry["images"]:
            raise ValueError(f"{path} holds other scenes than these settings give; choose another folder")


def _check_space(folder, settings, missing):
    """Raise ValueError, with both numbers, if the missing shards do not fit on the disk."""
    need = sum(shards.image_bytes(settings, count) * (stop - start) for count, start, stop in missing)
    there = next(path for path in (folder.resolve(), *folder.resolve().parents) if path.exists())
    free = shutil.disk_usage(there).free
    if need > free:
        raise ValueError(
            f"{folder} needs {need / 2**30:,.1f} GiB more, and {free / 2**30:,.1f} GiB are free on its disk; "
            "ask for fewer scenes or smaller ones, or choose a folder on another disk"
        )


def _remove_leftovers(folder, part):
    """Delete temporary files of killed runs, unless they are recent or may belong to a parallel part."""
    for path in folder.glob(".*.tmp*") if part == (1, 1) else ():
        if path.stat().st_mtime < time.time() - 3600:
            path.unlink(missing_ok=True)


def default_folder(resolution: int, counts) -> Path:
    """Default folder for scenes of these object counts: runs/data/clevr32 for 1-3 objects at 32 px,
    clevr32_1-6 for 1-6, and so on.
    """
    name = format_counts(sorted(set(counts)))
    return paths.RUNS / "data" / (f"clevr{format_size(resolution)}" + ("" if name == "1-3" else f"_{name}"))


def main(arguments=None):
    """Command line: generate a folder, or check one with --verify."""
    parser = argparse.ArgumentParser(
        prog="python -m lcs_utils.clevr.dataset", description="Render CLEVR scenes into shards."
    )
    parser.add_argument(
        "--objects", dest="counts", type=parse_counts, default=(1, 2, 3), help="object counts: 2, 1-3 or 1,4"
    )
    parser.add_argument("--per-count", type=int, default=40_000, help="scenes per object count")
    parser.add_argument("--resolution", type=parse_size, default=32, help="64, or width x height: 480x320")
    parser.add_argument("--antialias", type=int, default=3, help="samples per pixel and axis")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--shard-size", type=int, default=2048)
    parser.add_argument("--workers", type=int, default=os.cpu_count())
    parser.add_argument(
        "--crop", default="center", help="how CLEVR's frame becomes the image: center, squash, native, v1"
    )
    parser.add_argument(
        "--world", help="JSON file with colors, sizes, shapes, materials, crops, camera, target"
    )
    parser.add_argument(
        "--with", dest="extras", nargs="+", choices=EXTRAS, default=(), help="arrays stored beside images"
    )
    parser.add_argument(
        "--no-margins", dest="margins", action="store_false", help="only forbid that objects' circles overlap"
    )
    parser.add_argument(
        "--no-visibility", dest="visibility", action="store_false", help="allow hidden objects"
    )
    parser.add_argument("--centers-inside", dest="require_centers_inside", action="store_true")
    parser.add_argument(
        "--backend", choices=BACKENDS, default="fast", help="renderer: CPU, NVIDIA GPU or Blender"
    )
    parser.add_argument(
        "--part", type=parse_part, default=(1, 1), help="i/n: every n-th shard, for n parallel jobs"
    )
    parser.add_argument(
        "--verify", action="store_true", help="only check a folder, and other options against its settings"
    )
    parser.add_argument("--out", help="folder (default: the one under runs/data that training reads)")
    options = vars(parser.parse_args(arguments))
    unsaid = object()
    given = parser.parse_args(arguments, argparse.Namespace(**dict.fromkeys(options, unsaid)))
    folder, check = options.pop("out"), options.pop("verify")
    usual = {
        name: parser.get_default(name)
        for name in (*OPTIONS, "antialias", "seed", "shard_size", "backend", "extras", "world")
    }
    unusual = [f"{name} = {options[name]}" for name, value in usual.items() if options[name] != value]
    if unusual and not folder and not check:
        parser.error(
            f"{', '.join(unusual)}: not what training asks for in its folder; name another with --out"
        )
    folder = folder or default_folder(options["resolution"], options["counts"])
    try:
        options["world"] = read_world(options["world"]) if options["world"] else CLEVR
        if check:
            options["world"] = options["world"].to_json()
            made = {"backend": "fast", "extras": (), "world": CLEVR.to_json()} | read_settings(folder)[
                "settings"
            ]

            def plain(name, value):
                if name in ("counts", "extras"):
                    return sorted(set(value))
                return _sides(value) if name == "resolution" else value

            said = [name for name, value in vars(given).items() if value is not unsaid and name in made]
            pair = ({name: plain(name, settings[name]) for name in said} for settings in (made, options))
            check_same(folder, *pair)
            print(f"{len(verify(folder))} shards in {folder} are whole")
        else:
            manifest = generate(folder, **options)
            print(f"{sum(s['images'] for s in manifest['shards'].values())} images in {folder}")
    except (ValueError, RuntimeError, OSError) as error:
        parser.exit(2, f"{parser.prog}: {error}\n")
    except KeyboardInterrupt:
        parser.exit(130, f"{parser.prog}: stopped; the same command goes on, finished shards are kept\n")


if __name__ == "__main__":
    main()
