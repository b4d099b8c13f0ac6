"""numba's compiler, with a cache that knows all of this package's code.

numba compiles a cached kernel again when its own file has changed. A kernel is made of others, so after an
edit of `shading` alone the cached `render` would go on drawing the old look.
"""

import atexit
import hashlib
import os
import shutil
import tempfile
import time
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path

from numba import config, njit

HERE = Path(__file__).parent
DAY = 86400.0  # s, after which the kernels of earlier code are deleted


def _writable(folder: Path) -> bool:
    """Whether files can be created in a folder, or in its nearest existing parent."""
    return os.access(next(path for path in (folder, *folder.parents) if path.exists()), os.W_OK)


def place_of_caches(places: Sequence[Path]) -> Path:
    """NUMBA_CACHE_DIR, or the first of `places` that is writable, or a temporary folder, with a warning.

    numba would refuse to compile otherwise. Child processes find the folder through NUMBA_CACHE_DIR.
    """
    if given := os.environ.get("NUMBA_CACHE_DIR"):
        return Path(given)
    for place in places:
        if _writable(place):
            return place
    folder = os.environ["NUMBA_CACHE_DIR"] = tempfile.mkdtemp(prefix="numba")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    warnings.warn(
        f"neither {places[0]} nor {places[-1]} can be written, so kernels are compiled again (a minute); "
        "set the variable NUMBA_CACHE_DIR to a writable folder"
    )
    return Path(folder)


def cache_folder(place: Path, sources: Path = HERE) -> Path:
    """The folder in `place` for the kernels of the code in `sources` as it is now; those of earlier code that
    nobody used for a day go.
    """
    digest = hashlib.sha256()
    for path in sorted(sources.glob("*.py")):
        digest.update(path.name.encode() + path.read_bytes())
    folder = place / f"lcs_kernels_{digest.hexdigest()[:12]}"
    for earlier in () if folder.exists() else place.glob("lcs_kernels_*"):
        if time.time() - earlier.stat().st_mtime > DAY:
            shutil.rmtree(earlier, ignore_errors=True)
    return folder


CACHE = cache_folder(
    place_of_caches(
        [
            HERE / "__pycache__",
            Path(os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser()) / "numba",
        ]
    )
)


def compiled(**options) -> Callable[[Callable], Callable]:
    """`numba.njit(cache=True, **options)` with the cache in CACHE."""

    def compile_cached(function: Callable) -> Callable:
        before = config.CACHE_DIR
        config.CACHE_DIR = str(CACHE)  # numba chooses a kernel's cache now, not when it compiles
        try:
            return njit(cache=True, **options)(function)
        finally:
            config.CACHE_DIR = before

    return compile_cached
