"""Notebooks as programs: find, build, run and check notebooks/NN_name.py (py:percent) and its .ipynb twin.

    python -m lcs_utils.notebooks build [NAME ...]             with the defaults, into notebooks/NAME.ipynb
    python -m lcs_utils.notebooks run NAME [-p KEY VALUE ...]  into runs/<preset>/NAME.ipynb
    python -m lcs_utils.notebooks run NAME --print pdf         and write its figures as PDF, too

NAME may be shortened to any unique beginning ("05"). The .py is the source; the .ipynb is only ever written
by `build`.
"""

import argparse
import ast
import os
import re
import shlex
import sys
from pathlib import Path
from typing import Any

from lcs_utils import paths, printing, provenance, store
from lcs_utils.notebook_outputs import INJECTED, TOLD, Told, clean, told
from lcs_utils.notebook_values import NotebookError, assigned, check_values, parse_values

# What a rerun needs to give the same bytes: no bars or hub messages on stderr, inline PNGs, float32, one
# thread per kernel. Thread counts may be raised from outside (paper-size runs); sums then differ in the
# last bits.
FIXED_ENVIRONMENT = {
    "MPLBACKEND": "module://matplotlib_inline.backend_inline",
    "TQDM_DISABLE": "1",
    "HF_HUB_OFFLINE": "1",
    "HF_HUB_DISABLE_PROGRESS_BARS": "1",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "TRANSFORMERS_VERBOSITY": "error",
    "DIFFUSERS_VERBOSITY": "error",
    "PYTHONHASHSEED": "0",
    "LCS_FLOAT32": "1",
    "PYDEVD_DISABLE_FILE_VALIDATION": "1",
}
THREAD_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS")


def fix_environment() -> None:
    """Set what kernels inherit so that a rerun gives the same bytes; thread counts already set are kept."""
    os.environ.update(FIXED_ENVIRONMENT)
    os.environ.pop("JPY_SESSION_NAME", None)  # a batch run is no JupyterLab session, even if started from one
    for variable in THREAD_VARIABLES:
        os.environ.setdefault(variable, "1")
    # kernels use this checkout
    search = [str(paths.ROOT), *os.environ.get("PYTHONPATH", "").split(os.pathsep)]
    os.environ["PYTHONPATH"] = os.pathsep.join(dict.fromkeys(filter(None, search)))


def names() -> list[str]:
    """All notebooks, sorted: the stems of notebooks/NN_name.py, then of the appendices A1_name.py, ..."""
    return sorted(path.stem for kind in ("[0-9]*.py", "A*.py") for path in paths.NOTEBOOKS.glob(kind))


def resolve(name: str) -> str:
    """The full name of the notebook that `name` (a stem, a unique beginning or a path) means."""
    stem = Path(name).name.removesuffix(".py").removesuffix(".ipynb")
    known = names()
    found = [other for other in known if other == stem or other.startswith(f"{stem}_")]  # "01", not "01b"
    found = found or [other for other in known if other.startswith(stem)]
    if len(found) != 1:
        raise NotebookError(
            f"{name!r} names {len(found)} notebooks; choose one of: {', '.join(known) or 'none exist'}"
        )
    return found[0]


def read(name: str):
    """The source notebooks/<name>.py as a notebook node: no outputs, cell ids by position, kernel python3."""
    import jupytext

    path = paths.NOTEBOOKS / f"{name}.py"
    notebook = jupytext.read(path, fmt="py:percent")
    notebook.metadata.setdefault(
        "kernelspec", {"display_name": "Python 3", "language": "python", "name": "python3"}
    )
    notebook.metadata["jupytext"] = {"formats": "ipynb,py:percent"}
    notebook.metadata["language_info"] = {"name": "python"}
    notebook.nbformat, notebook.nbformat_minor = 4, 5
    for number, cell in enumerate(notebook.cells, 1):
        cell["id"] = f"cell-{number:02d}"
    return notebook


def code_cells(name: str) -> list[tuple[str, str]]:
    """(marker's text, source) of each code cell of notebooks/<name>.py, as `read` has them, except that
    magics stay comments. Does without jupytext, whose import takes longer than the callers.
    """
    text = (paths.NOTEBOOKS / f"{name}.py").read_text()
    _, *cells = re.split(r"^# %%(.*)$", text, flags=re.M)
    pairs = zip(cells[::2], cells[1::2])
    return [(said, source.strip("\n")) for said, source in pairs if "[markdown]" not in said]


def parameters(name: str) -> dict[str, Any]:
    """The notebook's parameters and their defaults, from its cell tagged `parameters`; {} without one."""
    cells = [source for said, source in code_cells(name) if '"parameters"' in said]
    if len(cells) > 1:
        raise NotebookError(f"{name} has {len(cells)} cells tagged 'parameters', allowed is one")
    return assigned(cells[0]) if cells else {}


def shell():
    """The running kernel's shell, or None outside a kernel."""
    return sys.modules["IPython"].get_ipython() if "IPython" in sys.modules else None


def check_parameters(**given: Any) -> None:
    """For a notebook's setup cell, `check_parameters(preset=preset)`: refuse a wrong preset, and whatever
    plain papermill injected that the parameters cell does not have (papermill itself only warns).
    """
    check_values(given, {**given, "preset": "tiny"}, "this notebook")
    cells = shell().history_manager.input_hist_raw if shell() else []
    for before, cell in zip(cells, cells[1:]):
        if cell.startswith(INJECTED):
            check_values(assigned(cell), assigned(before), "this notebook")


def current() -> tuple[str, str] | None:
    """(name, command that reruns it) of the notebook whose cell is being executed; None elsewhere.

    The command lists the parameters that differ from their defaults, so it does not depend on who ran the
    cell.
    """
    if not hasattr(shell(), "get_parent"):
        return None
    cell = commented(shell().get_parent().get("content", {}).get("code", "").strip())
    for name in names():
        if cell in (source.strip() for _, source in code_cells(name)):
            values = shell().user_ns
            changed = {
                key: values[key]
                for key, default in parameters(name).items()
                if values.get(key, default) != default
            }
            options = "".join(f" -p {key} {shlex.quote(str(value))}" for key, value in changed.items())
            return name, f"python -m lcs_utils.notebooks run {name}{options}"
    return None


def tell_claims() -> None:
    """Make asserts in this kernel's later cells print TOLD and their claim instead of raising."""
    shell().ast_transformers.append(Told())


def commented(source: str) -> str:
    """A cell's source with its magics as comments, as the .py has them."""
    return "\n".join("# " + line if line.startswith(("%", "!")) else line for line in source.split("\n"))


def code(name: str) -> str:
    """All code cells of a notebook as one source text, magics commented out."""
    return "\n".join(source for _, source in code_cells(name))


def dependencies(name: str) -> list[Path]:
    """The notebook's source and every file of lcs_utils that it imports, directly or not, sorted."""
    return [paths.NOTEBOOKS / f"{name}.py", *sorted(provenance.imported_files(code(name)))]


def data_files(name: str) -> list[Path]:
    """What the notebook may read below data/, sorted; a checkpoint's weights are covered by the hash in its
    row.

    Choice: all or nothing, by whether the notebook's imports reach modules that read data/; an unneeded rerun
    is cheap.
    """
    reads = re.compile(r"paths\.(CHECKPOINTS|COUNTS|SCENES|DATA)\b")
    if not any(reads.search(path.read_text()) for path in dependencies(name) if path != Path(__file__)):
        return []
    others = (paths.COUNTS, paths.SCENES, paths.DATA / "samples")
    return sorted(
        [
            *paths.CHECKPOINTS.rglob("row.json"),
            *(p for folder in others for p in folder.rglob("*") if p.is_file()),
        ]
    )


def figures(name: str) -> list[str]:
    """Names of the figures that the notebook saves: the literal second argument of each `save_figure`."""
    calls = [node for node in ast.walk(ast.parse(code(name))) if isinstance(node, ast.Call)]
    calls = [
        call for call in calls if getattr(call.func, "attr", getattr(call.func, "id", "")) == "save_figure"
    ]
    seconds = [call.args[1] for call in calls if len(call.args) > 1]
    literals = [arg.value for arg in seconds if isinstance(arg, ast.Constant) and isinstance(arg.value, str)]
    if len(literals) != len(calls):
        raise NotebookError(f"{name}: save_figure needs the figure's name as a literal second argument")
    return literals


def execute(name: str, values: dict[str, Any], output: Path, tell: bool = False):
    """Execute the source with `values` into `output`, written also when a cell fails; returns the executed
    notebook. With `tell`, a claim that does not hold is printed and fails nothing.

    Raises papermill's PapermillExecutionError, naming the cell, after `output` is written, as its note says.
    """
    import papermill

    store.remove_leftovers(output.parent, output.stem)
    fix_environment()
    source = read(name)
    if tell:
        import nbformat.v4

        first = "from lcs_utils import notebooks as _notebooks; _notebooks.tell_claims()"
        source.cells.insert(0, nbformat.v4.new_code_cell(first, id="cell-00"))
    for cell in source.cells:
        cell.metadata.setdefault("tags", [])  # papermill asks every cell for them
    failure = None
    with store.atomic_path(output) as temporary:
        try:
            papermill.execute_notebook(
                source,
                temporary,
                values,
                kernel_name="python3",
                progress_bar={"disable": False, "leave": False} if sys.stderr.isatty() else False,
                cwd=paths.NOTEBOOKS,
                # else every kernel warns of unencrypted local TCP, and traces what Ctrl-C stopped
                extra_arguments=["--log-level=CRITICAL"],
            )
        except papermill.PapermillExecutionError as error:
            failure = error
    if failure:
        failure.add_note(f"a cell failed; the notebook up to there is {paths.shown(output)}")
        raise failure
    import nbformat

    return nbformat.read(output, as_version=4)


def build(name: str) -> Path:
    """Execute notebooks/<name>.py with its defaults; returns the cleaned notebooks/<name>.ipynb it writes."""
    import nbformat

    executed = execute(name, {}, paths.RUNS / "build" / f"{name}.ipynb")
    path = paths.NOTEBOOKS / f"{name}.ipynb"
    store.write_text(path, nbformat.writes(clean(executed, read(name))) + "\n")
    return path


def run(name: str, values: dict[str, Any], tell: bool = False) -> Path:
    """Execute notebooks/<name>.py with `values` into runs/<preset>/<name>.ipynb; returns that path.

    With `tell`, the claims that do not hold are printed, in the notebook and here.
    """
    allowed = parameters(name)
    check_values(values, allowed, name)
    output = paths.RUNS / values.get("preset", allowed.get("preset", "tiny")) / f"{name}.ipynb"
    for claim in told(execute(name, values, output, tell)):
        print(f"{name}: {TOLD}{claim}")
    return output


def main(arguments: list[str] | None = None) -> int:
    """The command line; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m lcs_utils.notebooks", description=__doc__.split("\n")[0])
    commands = parser.add_subparsers(dest="command", required=True)
    builder = commands.add_parser("build", help="execute with the defaults, write notebooks/NAME.ipynb")
    builder.add_argument("names", nargs="*", metavar="NAME", help="default: every notebook")
    runner = commands.add_parser("run", help="execute into runs/<preset>/NAME.ipynb")
    runner.add_argument("name", metavar="NAME")
    runner.add_argument(
        "-p", nargs=2, action="append", default=[], metavar=("KEY", "VALUE"), help="set a parameter"
    )
    runner.add_argument(
        "--tell-claims", action="store_true", help="print claims that do not hold instead of failing"
    )
    runner.add_argument(
        "--print",
        choices=printing.FORMATS,
        help="also write each figure to runs/<preset>/print (png: at 200 dpi)",
    )
    options = parser.parse_args(arguments)
    try:
        if options.command == "run":
            name = resolve(options.name)
            if options.print:
                os.environ[printing.VARIABLE] = options.print  # the kernel inherits it, `plotting` reads it
            values = parse_values(options.p, parameters(name), name)
            print(paths.shown(run(name, values, options.tell_claims)))
        else:
            for name in [resolve(name) for name in options.names] or names():
                print(paths.shown(build(name)), flush=True)
    except NotebookError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except Exception as error:
        if type(error).__name__ != "PapermillExecutionError":
            raise
        print(error, f"error: {error.__notes__[-1]}", sep="\n", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("stopped; the same command starts the notebook again", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
