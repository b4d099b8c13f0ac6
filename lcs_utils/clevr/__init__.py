"""CLEVR scenes: sampling, rendering, data sets and conditions."""

import atexit
import os
import shutil
import sys
import tempfile
import warnings
from pathlib import Path


def _writable(folder: Path) -> bool:
    """Whether files can be created in a folder, or in its nearest existing parent."""
    return os.access(next(path for path in (folder, *folder.parents) if path.exists()), os.W_OK)


def _choose_kernel_cache(places) -> None:
    """Point numba's kernel cache at a temporary folder if none of its usual places is writable.

    numba would refuse to compile otherwise. Child processes find the folder through NUMBA_CACHE_DIR.
    """
    if os.environ.get("NUMBA_CACHE_DIR") or any(_writable(Path(place)) for place in places):
        return
    folder = os.environ["NUMBA_CACHE_DIR"] = tempfile.mkdtemp(prefix="numba")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    if "numba" in sys.modules:
        sys.modules["numba"].config.CACHE_DIR = folder
    warnings.warn(
        f"neither {places[0]} nor {places[-1]} can be written, so kernels are compiled again (a minute); "
        "set the variable NUMBA_CACHE_DIR to a writable folder"
    )


_choose_kernel_cache(
    [
        Path(__file__).parent / "__pycache__",
        Path(os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser()) / "numba",
    ]
)
