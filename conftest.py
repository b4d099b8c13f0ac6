"""Root setup of pytest: check shapes at every call, fix the kernels' environment, give nbval more time."""

import functools
import inspect
import os
import tempfile
import typing
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import jaxtyping
import pytest
from jaxtyping import AbstractArray, AnnotationError, install_import_hook


def arrays_of(signature):
    """{name: its annotations that are arrays} of a function's arguments, and of "return"."""
    hints = {p.name: p.annotation for p in signature.parameters.values()} | {
        "return": signature.return_annotation
    }
    options = {name: typing.get_args(hint) or (hint,) for name, hint in hints.items()}
    return {
        name: [o for o in hints if inspect.isclass(o) and issubclass(o, AbstractArray)]
        for name, hints in options.items()
    }


def decorator(*args, jaxtyped=jaxtyping.jaxtyped, **kwargs):
    """jaxtyping's decorator, for what has an array: it takes longer than most functions that have none."""

    def decorate(of):
        if inspect.isfunction(of) and not any(arrays_of(inspect.signature(of)).values()):
            return of
        return jaxtyped(*args, **kwargs)(of)

    return decorate


def check_shapes(function):
    """A type checker for jaxtyping that checks arrays only, arguments included, after the call.

    jaxtyping asks for two checks: of the arguments (recognized here by the return annotation Any) before the
    call, and of everything after it. The first is left out, so that tests see a function's own errors for bad
    input.
    """
    signature = inspect.signature(function)
    arrays = arrays_of(signature)
    if signature.return_annotation is typing.Any or not any(arrays.values()):
        return function

    def check(name, value):
        if not arrays.get(name) or not hasattr(value, "shape"):
            return
        try:
            fits = any(isinstance(value, hint) for hint in arrays[name])
        except AnnotationError:  # an axis like "steps+1" over an integer, not over another axis: not checked
            return
        if not fits:
            wanted = " or ".join(hint.__name__ for hint in arrays[name])
            raise TypeError(
                f"{function.__qualname__}: {name} is {value.dtype} {list(value.shape)}, annotated {wanted}"
            )

    @functools.wraps(function)
    def checked(*args, **kwargs):
        for name, value in signature.bind(*args, **kwargs).arguments.items():
            check(name, value)
        result = function(*args, **kwargs)
        check("return", result)
        return result

    return checked


# Compiled code (numba's in clevr.render and clevr.tracer) must see the plain functions.
CHECKED = [
    "diffusion",
    "theory",
    "models",
    "locality",
    "features",
    "evaluation",
    "clevr.conditions",
    "plotting",
]
os.environ.pop("LCS_EXPERIMENTS", None)  # tests ask for the paper's experiments and no others
jaxtyping.jaxtyped = decorator  # the hook puts it before every function
install_import_hook([f"lcs_utils.{module}" for module in CHECKED], "conftest.check_shapes")

from lcs_utils import notebooks  # noqa: E402  after the hook

notebooks.fix_environment()

try:
    from nbval import kernel, plugin
except ImportError:  # the notebooks are then not collected either
    pass
else:

    def execute_with_history(self, cell_input, allow_stdin=None):
        # nbval runs cells without history, where IPython ignores the `;` that hides a cell's last value.
        return self.kc.execute(cell_input, store_history=True, allow_stdin=allow_stdin, stop_on_error=False)

    def patient(self, *args, init=plugin.IPyNbCell.__init__, **kwargs):
        init(self, *args, **kwargs)
        self.output_timeout = (
            60  # nbval waits 5 s for outputs after a cell's reply; a busy machine needs longer
        )

    def comparing_no_frames(self, *args, init=plugin.IPyNbFile.__init__, **kwargs):
        init(self, *args, **kwargs)
        # A slider's frames are pictures, which differ between machines; nbval skips image/png, too.
        self.skip_compare += ("application/vnd.lcs.frames+json",)

    plugin.IPyNbFile.__init__ = comparing_no_frames
    kernel.RunningKernel.execute_cell_input = execute_with_history
    plugin.IPyNbCell.__init__ = patient

# Tests change no tracked file: notebooks executed by nbval write their figures to LCS_REBUILT, where a test
# compares them. run.py names a folder, for notebooks and tests are two runs; xdist's workers inherit it.
if "LCS_REBUILT" not in os.environ:
    OWN = tempfile.TemporaryDirectory(prefix="figures")  # goes when Python ends
    os.environ["LCS_REBUILT"] = OWN.name
os.environ["LCS_FIGURES"] = os.environ["LCS_REBUILT"]


# The slowest files, slowest first: workers begin with these, so that none is left over at the end.
LONGEST = (
    ["00_start", "08b_feature_space", "10_sdxl_features", "02c_toy_clevr", "04_training", "07_locality"]
    + ["08_color", "11_swing_by", "03_clevr_generation", "02d_exp3_without_training"]
    # tests in a browser alternate with others, so that few run at once
    + ["test_snakefile", "test_hands_on", "test_readme", "test_front", "test_verdicts", "test_live"]
    + ["test_site", "test_lab", "test_training", "test_controls", "test_benchmarks", "test_saved"]
    + ["test_own", "test_start", "test_clevr_cuda", "test_models", "test_training_errors"]
)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items):
    """Sort files by LONGEST, then the others as they come; tests of one file stay in order."""
    place = {name: i for i, name in enumerate(LONGEST)}
    items.sort(key=lambda item: place.get(item.path.stem, len(LONGEST)))


@contextmanager
def _held_elsewhere(path):
    from lcs_utils import store  # not above: the hook of shapes comes first

    with ThreadPoolExecutor(1) as thread:
        lock = store.exclusive(path)
        thread.submit(lock.__enter__).result()
        try:
            yield
        finally:
            thread.submit(lock.__exit__, None, None, None).result()


@pytest.fixture
def held_elsewhere():
    """A context in which another thread holds the lock of a path (`store.exclusive`)."""
    return _held_elsewhere


@pytest.fixture
def is_held():
    """Whether somebody holds the lock of a path; another thread asks, since the holder may take it again."""

    def ask(path):
        from lcs_utils import store

        try:
            with store.exclusive(path, wait=False):
                return False
        except BlockingIOError:
            return True

    def is_held(path):
        with ThreadPoolExecutor(1) as thread:
            return thread.submit(ask, path).result()

    return is_held


@pytest.fixture
def rebuilt_figures():
    """The folder of the figures that this run's notebooks made, as <preset>/<name>.png and .json."""
    return Path(os.environ["LCS_REBUILT"])
