"""What public functions accept and refuse: Hypothesis draws calls from a table, some with one bad argument.

A table says `name: (function, {argument: (strategy of what is accepted, values that are refused)})`. A call
inside it returns finite numbers. A call with one argument outside raises ValueError or TypeError from
lcs_utils itself, one sentence, before numpy or torch meets the value. More calls: LCS_EXAMPLES=200 pytest
tests/test_*_contract.py
"""

import inspect
import math
import os
import traceback
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from lcs_utils import paths

EXAMPLES = int(os.environ.get("LCS_EXAMPLES", "10"))  # of each row: over 2,000 calls inside and 3,700 outside
few = settings(
    max_examples=EXAMPLES,
    deadline=None,
    derandomize=True,
    database=None,
    phases=[Phase.generate],  # a failing call is named by the error; making it smaller takes minutes
    suppress_health_check=list(HealthCheck),
)
NAN, INF = math.nan, math.inf
SEEDS = st.integers(0, 10**6)
# What is refused almost everywhere.
NUMBER = ["0.5", None, NAN, INF, 1j]
COUNT = [1.5, "3", None, NAN, -1]
FLAG = [1, "yes", None]
NAME = ["nobody", "", 3, None, b"all", ["all"]]
NO_CALL = [None, "f", 3]
NO_GENERATOR = [None, 0, "seed"]


def seeded(seed):
    return torch.Generator().manual_seed(seed)


def tensors(*shape, scale=1.0, positive=False):
    """Tensors of normal numbers, in float32 or float64."""

    def draw(seed, dtype):
        x = scale * torch.randn(*shape, generator=seeded(seed), dtype=torch.float64)
        return (x.abs() + 1e-3 if positive else x).to(dtype)

    return st.builds(draw, SEEDS, st.sampled_from([torch.float32, torch.float64]))


generators = st.builds(seeded, SEEDS)


def numbers(result):
    """All numbers in a result, however deeply nested."""
    if torch.is_tensor(result):
        return result.detach().double().flatten().tolist()
    if isinstance(result, np.ndarray):
        return result.astype(float).ravel().tolist()
    if isinstance(result, dict):
        result = list(result.values())
    if isinstance(result, (tuple, list, set, frozenset)):
        return [number for part in result for number in numbers(part)]
    return [float(result)]


def inside(table, name):
    """Calls of one row with accepted arguments give finite numbers."""
    function, arguments = table[name]

    @few
    @given(st.fixed_dictionaries({argument: accepted for argument, (accepted, _) in arguments.items()}))
    def call(values):
        found = numbers(function(**values))
        assert found and all(map(math.isfinite, found)), values

    call()


def outside(table, name):
    """Calls of one row with one refused argument raise an error of ours."""
    function, arguments = table[name]

    @settings(few, max_examples=max(1, EXAMPLES // 20))  # each with all bad values
    @given(st.fixed_dictionaries({argument: accepted for argument, (accepted, _) in arguments.items()}))
    def call(values):
        for argument, (_, bad_values) in arguments.items():
            for bad in bad_values:
                refuse(f"{name}({argument}={bad!r})", function, values | {argument: bad})

    call()


def refuse(call, function, values):
    """The error must be ours, one sentence; raw ones come from torch's, numpy's or Python's files."""
    try:
        result = function(**values)
    except (ValueError, TypeError) as error:
        if type(error).__module__.startswith("jaxtyping"):
            return  # a generator checks at its first step, the tests' own hook before that
        last = traceback.extract_tb(error.__traceback__)[-1]
        ours = (paths.ROOT / "lcs_utils") in Path(last.filename).parents and last.line.startswith("raise ")
        assert ours, f"{call}: raw {error!r} from {last.filename}: {last.line}"
        assert 10 < len(str(error)) < 700 and "\n" not in str(error), f"{call}: {error}"
    else:
        pytest.fail(f"{call} was answered by {str(result)[:80]}")


def cases(table):
    """Two parametrized tests of a table, one of its accepted calls and one of its refused calls."""

    @pytest.mark.parametrize("name", table)
    def accepted(name):
        inside(table, name)

    @pytest.mark.parametrize("name", table)
    def refused(name):
        outside(table, name)

    return accepted, refused


def missing(table, modules, elsewhere):
    """(public functions of the modules that neither the table nor `elsewhere` names, names that do not
    exist). A name that occurs in two of the modules counts only with its module: placement.check.
    """
    public = [
        (module.__name__.rpartition(".")[2], name)
        for module in modules
        for name, value in vars(module).items()
        if not name.startswith("_") and inspect.getmodule(value) is module and callable(value)
    ]
    times = Counter(name for _, name in public)
    called = {f"{module}.{name}" if times[name] > 1 else name for module, name in public}
    covered = {name if name in called else name.split(".")[-1] for name in table}
    return called - covered - set(elsewhere), set(elsewhere) - called
