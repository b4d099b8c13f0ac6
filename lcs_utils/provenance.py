"""What a result rests on: the code it imports, the files it read, the package versions."""

import ast
import functools
import hashlib
import platform
from collections.abc import Iterable
from importlib import metadata
from pathlib import Path

from lcs_utils import paths, store

CODE = Path(__file__).resolve().parent.parent  # not `paths.ROOT`, which LCS_ROOT sets: where this code lies
VERSIONED = ("diffusers", "matplotlib", "numba", "numpy", "pillow", "safetensors", "torch")


def versions() -> dict[str, str]:
    """The versions of Python and of the packages that affect numbers and pictures."""
    return {
        "python": platform.python_version(),
        **{package: metadata.version(package) for package in VERSIONED},
    }


@functools.cache
def imported_modules(source: str) -> tuple[str, ...]:
    """What Python `source` may import from lcs_utils: modules, and names in them, which may be modules."""
    found: list[str] = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and not node.level:  # no relative imports: test_frame says so
            found += [node.module or "", *(f"{node.module}.{alias.name}" for alias in node.names)]
    return tuple(name for name in found if name.split(".")[0] == "lcs_utils")


def imported_files(source: str) -> set[Path]:
    """The files of lcs_utils that Python `source` imports, directly or through other files of lcs_utils."""
    known: set[str] = set()
    found: set[Path] = set()
    waiting = [source]
    while waiting:
        for module in imported_modules(waiting.pop()):
            parts = module.split(".")
            for name in (".".join(parts[:depth]) for depth in range(1, len(parts) + 1)):
                if name in known:
                    continue
                known.add(name)
                base = CODE.joinpath(*name.split("."))
                for path in (base / "__init__.py", base.with_suffix(".py")):
                    if path.is_file():
                        found.add(path)
                        waiting.append(path.read_text())
    return found


def digest(files: Iterable[Path]) -> str:
    """One SHA-256 for several files of this code: of their names below its folder and contents, sorted."""
    lines = [f"{store.sha256(path)}  {path.relative_to(CODE).as_posix()}\n" for path in sorted(files)]
    return hashlib.sha256("".join(lines).encode()).hexdigest()


def file_hashes(places: Iterable[Path | str]) -> dict[str, str]:
    """SHA-256 of each file by its path from the repository root; a folder stands for its files, without .md,
    .pyc and hidden ones.

    Relative places start at the root. Raises FileNotFoundError for a missing one, ValueError for one outside
    the root.
    """
    files: set[Path] = set()
    for place in places:
        path = (paths.ROOT / place).resolve()
        if not path.exists():
            raise FileNotFoundError(f"{path.name} does not exist, but a result is said to rest on it")
        if not path.is_relative_to(paths.ROOT):
            raise ValueError(f"{path.name} lies outside the repository; results rest on files inside it")
        files.update([path] if path.is_file() else (file for file in path.rglob("*") if file.is_file()))
    kept = sorted(
        file for file in files if file.suffix not in (".md", ".pyc") and not file.name.startswith(".")
    )
    return {file.relative_to(paths.ROOT).as_posix(): store.sha256(file) for file in kept}
