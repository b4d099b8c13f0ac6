"""How all files are written, whole or not at all, and read: text, JSON, CSV, folders, locks."""

import bz2
import csv
import fcntl
import hashlib
import io
import json
import os
import platform
import re
import secrets
import shutil
import threading
import time
import warnings
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path

from lcs_utils import paths

READ: set[Path] = set()  # the rows and sheets that this process has read: its figures rest on them
_HELD = threading.local()  # the paths that `exclusive` locks for this thread
ABANDONED = 86_400.0  # seconds after which another machine's temporary file is taken for a killed process's
REST = 50  # a file of rows is left to others this much longer than it took to extend
MACHINE = hashlib.sha256(platform.node().encode()).hexdigest()[:4]


def _beside(path, kind, suffix=""):
    """A hidden name beside `path` that says which process made it, on which machine. Processes of several
    machines or containers that share a folder may have the same number.
    """
    stem = path.name.removesuffix(suffix)
    return path.with_name(f".{stem}.{kind}{os.getpid()}.{MACHINE}{secrets.token_hex(4)}{suffix}")


def of_another_machine(name):
    """Whether a temporary name was made on another machine: its process number says nothing here."""
    found = re.search(r"\.(?:tmp|old)\d+\.([0-9a-f]{4})[0-9a-f]{8}(?:\.|$)", name)
    return found is not None and found[1] != MACHINE


def remove_leftovers(folder, name=""):
    """Remove the temporary files and folders (only of `name`, if given) that killed processes left in
    `folder`; a folder that was put aside and not yet replaced returns to its place.
    """
    for path in Path(folder).glob(f".{name}*"):
        process = re.match(r"\.(.+)\.(tmp|old)(\d+)", path.name)
        if process is None or (name and process[1] != name):  # another's, with a longer name
            continue
        if of_another_machine(path.name):
            if time.time() - path.stat().st_mtime < ABANDONED:  # it may be at work
                continue
        elif int(process[3]) != os.getpid() and _is_alive(int(process[3])):
            continue
        if process[2] == "old" and not path.with_name(process[1]).exists():
            path.rename(path.with_name(process[1]))
        elif path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)


def _is_alive(process):
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:  # it is somebody else's
        pass
    return True


@contextmanager
def atomic_path(path):
    """Yield a temporary path beside `path`; rename it to `path` on success, remove it on failure.

    A reader never sees half a file, and a full disk or a kill leaves the old file as it was.
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = _beside(path, "tmp", path.suffix)
    try:
        yield temporary
        with open(temporary, "rb") as file:  # the bytes must be on disk before the name is
            os.fsync(file.fileno())
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def write_text(path, text):
    """Write `text` to `path`, whole or not at all."""
    with atomic_path(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def write_json(path, value, flat=False):
    """Write `value` as JSON with sorted keys (same value, same bytes), whole or not at all; `flat` puts what
    holds no other list or object, such as an interval, on one line.
    """
    text = json.dumps(value, indent=1, sort_keys=True)
    if flat:  # a string holds no line break in JSON, so that nothing but the layout can change
        text = re.sub(r"[\[{][^\[\]{}]*[\]}]", lambda held: re.sub(r"\s*\n\s*", " ", held[0]), text)
    write_text(path, text + "\n")


def write_rows(path, command, kind, rows):
    """Write namedtuples of one `kind` as CSV, sorted, whole or not at all, below the command that makes them
    and their number; compressed if `path` ends with .bz2.
    """
    rows = sorted(rows)
    text = io.StringIO()
    text.write(f"# {command}\n# {len(rows)} rows\n")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(kind._fields)
    writer.writerows(rows)
    if Path(path).suffix != ".bz2":
        return write_text(path, text.getvalue())
    with atomic_path(path) as temporary:
        temporary.write_bytes(bz2.compress(text.getvalue().encode()))  # a third smaller than gzip


def read_rows(path, kind):
    """The rows of `kind` (a namedtuple) that `write_rows` stored; none if there is no file.

    Text that was cut off is read up to its last whole line, with a warning. Raises ValueError when another
    line does not parse, or a compressed file was cut off.
    """
    path = Path(path)
    if not path.exists():
        return []
    READ.add(path.resolve())
    rows, cut = _parsed(path.name, path.read_bytes(), kind)
    if cut:
        warnings.warn(cut)
    return list(rows)


@lru_cache(maxsize=32)  # a report reads the same files many times
def _parsed(name, stored, kind):
    """The rows of `kind` in a file's bytes, and what to say if it was cut off."""
    kinds = kind.__annotations__
    try:
        text = (bz2.decompress(stored) if name.endswith(".bz2") else stored).decode()
        whole, _, cut = text.rpartition("\n")
        lines = csv.DictReader(line for line in whole.splitlines() if not line.startswith("#"))
        rows = [
            kind(**{n: kinds[n](line[n]) for n in kinds if n in line or n not in kind._field_defaults})
            for line in lines
        ]
    except (KeyError, TypeError, ValueError, OSError) as error:
        raise ValueError(
            f"{name} holds a line that is no row ({error}); restore it with git or measure again"
        ) from error
    told = re.search(r"^# (\d+) rows$", whole, re.MULTILINE)
    restore = "restore it with git, or measure again what is missing"
    if cut:
        return rows, f"{name} ends within line {text.count(chr(10)) + 1}, which is dropped; {restore}"
    if told and len(rows) < int(told[1]):
        return rows, f"{name} was cut off: it has {len(rows):,} of {int(told[1]):,} rows; {restore}"
    return rows, ""


@contextmanager
def gathering(add, every=20.0):
    """Yield `keep(rows)`, which hands its rows to `add(rows)` at most once in `every` seconds or, if longer,
    in REST times what the last time took, the rest at the end, also of an interrupted block: a preset's rows
    stand in one file, for which all processes wait.
    """
    waiting, last, took = [], time.monotonic(), 0.0

    def keep(rows):
        nonlocal last, took
        waiting.extend(rows)
        begun = time.monotonic()
        if begun - last >= max(every, REST * took):
            hand_over()
            last = time.monotonic()
            took = last - begun

    def hand_over():
        if waiting:
            add(list(waiting))
            waiting.clear()

    try:
        yield keep
    finally:
        hand_over()


def sha256(path):
    """SHA-256 of a file as a hexadecimal string."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@contextmanager
def atomic_folder(path):
    """Yield an empty temporary folder beside `path`, which replaces it on success, is removed on failure."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary, old = _beside(path, "tmp"), _beside(path, "old")
    temporary.mkdir()
    try:
        yield temporary
        if path.exists():
            os.rename(path, old)
        os.rename(temporary, path)
    finally:
        if old.exists() and not path.exists():  # stopped between the two renames
            os.rename(old, path)
        shutil.rmtree(temporary, ignore_errors=True)
        shutil.rmtree(old, ignore_errors=True)


@contextmanager
def exclusive(path, wait=True):
    """Hold an exclusive lock on `path`, for processes that read, extend and rewrite it; others wait.

    The lock is a file beside the path; of the repository's own files it is under its runs/, whatever LCS_RUNS
    says, since processes with two of those may write the same rows. A thread that holds it may take it again.
    Raises BlockingIOError, without `wait`, when another process holds it.
    """
    path, held = Path(path).resolve(), _HELD.__dict__.setdefault("paths", set())
    if path in held:
        yield
        return
    lock = path.with_name(f".{path.name}.lock")
    if path.is_relative_to(paths.ROOT):
        lock = paths.ROOT / "runs" / "locks" / "_".join(path.relative_to(paths.ROOT).parts)
    lock.parent.mkdir(parents=True, exist_ok=True)
    with open(lock, "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        held.add(path)
        try:
            yield
        finally:
            held.discard(path)
