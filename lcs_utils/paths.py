"""Where everything lives."""

import os
from pathlib import Path

# absolute, so that processes started in other folders, as notebooks' kernels are, mean the same place
for _name in filter(os.environ.get, ("LCS_ROOT", "LCS_RUNS")):
    os.environ[_name] = os.path.abspath(os.environ[_name])

# LCS_ROOT: where data/ and runs/ are, if not here
ROOT = Path(os.environ.get("LCS_ROOT") or Path(__file__).parent.parent).resolve()
NOTEBOOKS = ROOT / "notebooks"
DATA = ROOT / "data"
CHECKPOINTS = DATA / "checkpoints"  # <preset>/<net>, and the counter
SCENES = DATA / "scenes"
COUNTS = DATA / "counts"
FIGURES = ROOT / "figures"
# ignored by git: executed notebooks, training states, scenes; LCS_RUNS: where, if not here
RUNS = Path(os.environ.get("LCS_RUNS") or ROOT / "runs").resolve()

SHIPPED = ("tiny", "small", "medium")  # presets with rows and samples in the repository


def shown(path):
    """A path for messages: relative to the repository's root if it lies below it."""
    path = Path(path)
    return (path.relative_to(ROOT) if path.is_relative_to(ROOT) else path).as_posix()
