"""What a rendered folder holds, and whether it is intact: manifest.json has the settings, each shard's
checksums lie beside it.
"""

import json
from pathlib import Path

from tqdm.auto import tqdm

from lcs_utils.checks import check_counts
from lcs_utils.clevr import shards
from lcs_utils.clevr.shards import MANIFEST
from lcs_utils.progress import quiet


def read_settings(folder) -> dict:
    """Read manifest.json: {"settings": ..., "shards": ...}, the latter with the checksums of older folders.

    Raises FileNotFoundError or ValueError that says what to do.
    """
    path = Path(folder) / MANIFEST
    if not path.exists():
        make = (
            f"python -m lcs_utils.clevr.dataset --objects ... --per-count ... --resolution ... --out {folder}"
        )
        raise FileNotFoundError(f"{path} is missing; {make} makes it, with the settings that you want")
    again = "delete it and generate again, finished shards are kept"
    try:
        manifest = json.loads(path.read_text())
    except ValueError as error:
        raise ValueError(f"{path} is not JSON ({error}); {again}") from None
    if not isinstance(manifest, dict) or not isinstance(manifest.get("settings"), dict):
        raise ValueError(f"{path} is no manifest: it lacks settings; {again}")
    if not isinstance(manifest.setdefault("shards", {}), dict):
        raise ValueError(f"{path} is no manifest: its shards are no dictionary; {again}")
    return manifest


def read_manifest(folder) -> dict:
    """A folder's settings, and the checksums of its finished shards by name. Raises FileNotFoundError or
    ValueError.
    """
    manifest = read_settings(folder)
    names = [Path(folder) / shards.shard_name(k, start) for k, start, _ in shards.jobs(manifest["settings"])]
    found = {path.name: shards.read_entry(path, manifest) for path in names}
    return {
        "settings": manifest["settings"],
        "shards": {name: entry for name, entry in found.items() if entry},
    }


def check_same(folder, old, new):
    """Raise ValueError, naming the differences, unless a folder's settings are the new ones."""
    differing = [
        f"{k}: {old.get(k)!r} there, {new.get(k)!r} here" for k in {**old, **new} if old.get(k) != new.get(k)
    ]
    if differing:
        raise ValueError(
            f"{folder} was made with other settings ({'; '.join(differing)}); choose another folder, or "
            "delete this one"
        )


def verify(folder, counts=None, checksums: bool = True) -> list[Path]:
    """Paths of the folder's shards (of the given object counts), in order, after checking each one's SHA-256.

    `checksums=False` only checks that the files exist. Raises FileNotFoundError or ValueError naming the file
    and the command that restores it, and ValueError for no counts or counts that the folder does not hold.
    """
    folder, found = Path(folder), []
    manifest = read_settings(folder)
    settings = manifest["settings"]
    wanted = settings["counts"] if counts is None else sorted(set(check_counts("counts", counts, least=1)))
    missing = [n for n in wanted if n not in settings["counts"]]
    if missing:
        raise ValueError(f"{folder} holds scenes with {settings['counts']} objects, not {missing}")
    again = "run the command that made the folder again"
    jobs = [job for job in shards.jobs(settings) if job[0] in wanted]
    for count, start, _ in tqdm(jobs, desc="verifying", unit=" shards", delay=5, disable=quiet()):
        path = folder / shards.shard_name(count, start)
        for file in (path, path.with_suffix(".jsonl")):
            if not file.exists():
                raise FileNotFoundError(f"{file} is missing; {again}")
        entry = shards.read_entry(path, manifest, settings)
        if entry is None:
            raise FileNotFoundError(f"{path} has no checksums beside it, so it may be half written; {again}")
        if checksums and (wrong := shards.damage(path, entry)):
            raise ValueError(f"{wrong}; {again}: it is rendered again, the others are kept")
        found.append(path)
    return found
