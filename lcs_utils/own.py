"""Experiments of one's own, in every command and process: the Python file that LCS_EXPERIMENTS names."""

import importlib.util
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from lcs_utils.architectures import ARCHITECTURES, EDM2, net_class
from lcs_utils.checks import check_call
from lcs_utils.clevr.labels import LABEL_POLICIES
from lcs_utils.experiments import EXPERIMENTS, OURS
from lcs_utils.presets import PRESETS, Preset, is_trial

# {experiment of one's own: what it is trained on in place of rendered scenes, a `training.data.Data`}
DATA: dict[str, Callable[[Preset], Any]] = {}


def load() -> None:
    """Run the file that LCS_EXPERIMENTS names, which adds experiments, label policies, presets,
    architectures and data.

    The processes that this one starts, in whatever folder, run the same file. Raises FileNotFoundError if
    there is none, ValueError if it replaces one of ours, gives an experiment or preset two names, or a preset
    the name of a trial; as `net_class` for its architectures and `data_of` for its data.
    """
    path = Path(os.environ["LCS_EXPERIMENTS"]).resolve()
    if not path.is_file() or path.suffix != ".py":
        raise FileNotFoundError(f"LCS_EXPERIMENTS must name a Python file (.py), got {path}")
    os.environ["LCS_EXPERIMENTS"] = str(path)
    theirs = [(table, dict(table)) for table in (EXPERIMENTS, LABEL_POLICIES, PRESETS, ARCHITECTURES)]
    spec = importlib.util.spec_from_file_location("lcs_experiments", path)
    sys.modules[spec.name] = module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    for table, before in theirs:  # stored rows are judged by what these names mean
        if changed := [name for name, value in before.items() if table.get(name) != value]:
            raise ValueError(f"{path} changes {', '.join(changed)}; give yours names of their own")
    for words, table in (("EXPERIMENTS", EXPERIMENTS), ("PRESETS", PRESETS)):
        for name, value in table.items():
            if name != value.name:
                raise ValueError(f"{path}: {words}[{name!r}] is called {value.name!r}; one name, please")
    for name in ARCHITECTURES.keys() - {EDM2}:
        net_class(name)
    for name in DATA:
        if name not in EXPERIMENTS:
            raise ValueError(f"{path}: DATA[{name!r}] is of no experiment; known: {', '.join(EXPERIMENTS)}")
        data_of(name)
    for name in filter(is_trial, PRESETS):  # `presets.preset` would give the trial, with its narrow nets
        raise ValueError(f"{path}: {name!r} names a trial of {name.rpartition('_')[0]}; choose another name")


def data_of(name: str) -> Callable[[Preset], Any] | None:
    """The function that gives an experiment's own data; None if it is trained on rendered scenes.

    Raises TypeError for what is no function, ValueError for an experiment of ours.
    """
    if name not in DATA:
        return None
    if name in OURS:  # stored nets and rows of this name are of rendered scenes
        raise ValueError(f"{name} is trained on rendered scenes; give your experiment another name")
    return check_call(f"own.DATA[{name!r}]", DATA[name])
