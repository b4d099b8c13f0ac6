"""The record beside a figure: its numbers as JSON, what they rest on, and whether stored ones still hold."""

import json
import math
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from lcs_utils import notebook_outputs, notebooks, paths, provenance, store


def plain(value: Any, where: str = "values") -> Any:
    """`value` in JSON's types. Raises ValueError, naming the place, for NaN, infinity or other types."""
    if torch.is_tensor(value):
        value = value.detach().cpu().tolist()
    elif isinstance(value, (np.ndarray, np.generic)):
        value = value.tolist()
    elif isinstance(value, Path):
        raise ValueError(f"{where} is a path; figures keep no machine paths")
    if isinstance(value, dict):
        return {str(key): plain(item, f"{where}[{key!r}]") for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item, f"{where}[{index}]") for index, item in enumerate(value)]
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"{where} is {value}; a figure's numbers must be finite")
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    raise ValueError(
        f"{where} has type {type(value).__name__}; allowed are numbers, text, lists, dicts and arrays"
    )


def figure_provenance(seed: int, checkpoints: Sequence[Path | str] = ()) -> dict[str, Any]:
    """What a figure rests on: command, seed, versions, SHA-256 of code, notebook and each file of data.

    "code" covers the files of lcs_utils that the notebook imports, directly or not (all of them outside a
    notebook). Files are `checkpoints`, as in `provenance.file_hashes`, whose errors it raises, and the rows
    and sheets of data/ that were read by then (`store.READ`), so that none can be forgotten.
    """
    read = (path for path in store.READ if path.is_relative_to(paths.DATA))
    running = notebooks.current()
    name, command = running or (None, "interactive")
    modules = notebooks.dependencies(name)[1:] if name else (provenance.CODE / "lcs_utils").rglob("*.py")
    sources = [source for _, source in notebooks.code_cells(name)] if name else []
    return {
        "command": command,
        "seed": seed,
        "code_sha256": provenance.digest(modules),
        "notebook": name,
        "notebook_sha256": notebook_outputs.sources_sha256(sources) if name else None,
        "checkpoints": provenance.file_hashes([*checkpoints, *read]),
        "threads": int(os.environ.get("OMP_NUM_THREADS", "0")),
        "versions": provenance.versions(),
    }


def differences(
    old: Any, new: Any, where: str = "values", relative: float = 0.0, absolute: float = 0.0
) -> list[str]:
    """Places where two trees of JSON values differ, numbers by more than `relative` and `absolute`."""
    if isinstance(old, dict) and isinstance(new, dict) and old.keys() == new.keys():
        return [
            found
            for key in old
            for found in differences(old[key], new[key], f"{where}.{key}", relative, absolute)
        ]
    if isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        pairs = enumerate(zip(old, new))
        return [
            found for i, pair in pairs for found in differences(*pair, f"{where}[{i}]", relative, absolute)
        ]
    numbers = all(isinstance(value, (int, float)) and not isinstance(value, bool) for value in (old, new))
    if numbers and math.isclose(old, new, rel_tol=relative, abs_tol=absolute):
        return []
    return [] if old == new else [f"{where}: {old!r} -> {new!r}"]


ROUNDING = {"relative": 0.02, "absolute": 1e-3}  # what another processor or version of torch may change


def stands(path: Path, record: dict[str, Any]) -> bool:
    """Whether the figure on disk matches `record`: the same code, its files as they were (a cell that runs
    again may have read others since), and equal values up to rounding on another machine.
    """
    apart = ("versions", "threads", "checkpoints")
    try:
        old = json.loads(path.read_text())
        files = old["provenance"]["checkpoints"]
        same = provenance.file_hashes(files) == files and all(
            old["provenance"].get(key) == value
            for key, value in record["provenance"].items()
            if key not in apart
        )
        return (
            same
            and path.with_suffix(".png").exists()
            and not differences(old["values"], record["values"], **ROUNDING)
        )
    except (OSError, ValueError, KeyError):  # missing, broken or in an older format
        return False
