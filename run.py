#!/usr/bin/env python3
"""Reproduce the figures, run the tests, open or rebuild the notebooks, or write them as web pages.

Needs only Python 3.11 or 3.12. The packages of requirements.lock are installed into .venv on first use (by uv
if present, else pip), unless the Python that runs this file already has them all.
"""

import argparse
import contextlib
import fcntl
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent
LOCK = ROOT / "requirements.lock"
ENVIRONMENT = ROOT / ".venv"
# exists while an installation runs; if left over, the environment is incomplete
UNFINISHED = ENVIRONMENT / "unfinished"
SUPPORTED = ((3, 11), (3, 12))
NO_TESTS = 5  # pytest's exit status
# Variables that redirect what tools would write below the home folder.
HOMELESS = {"XDG_CACHE_HOME": "cache", "IPYTHONDIR": "ipython"}
# Options of pytest whose next word is their value, even if a file has that name.
VALUED = {"-c", "-k", "-m", "-n", "-o", "-p", "-r", "-W", "--deselect", "--ignore", "--ignore-glob"}
# Printed by the Python under test: the pins that it lacks. A local version ("+cpu") counts as its public one.
MISSING = """
import sys
from importlib import metadata
have = {}
for d in metadata.distributions():
    have[(d.metadata["Name"] or "").lower().replace("_", "-").replace(".", "-")] = d.version
pins = [pin.split("==") for pin in sys.argv[1:]]
print(" ".join(name for name, version in pins if have.get(name, "").split("+")[0] != version))
"""


class RunError(Exception):
    """What went wrong and what to do about it, in one sentence."""


def pins():
    """The lines name==version of the lock."""
    if not LOCK.exists():
        raise RunError(f"{LOCK.name} is missing; restore it with `git checkout -- {LOCK.name}`")
    return re.findall(r"^[a-z0-9-]+==[^\s;]+", LOCK.read_text(), flags=re.M)


def answer(python, *arguments):
    """What `python arguments` prints, stripped; None if it fails."""
    try:
        return subprocess.check_output([str(python), *arguments], stderr=subprocess.DEVNULL).decode().strip()
    except (OSError, subprocess.CalledProcessError):
        return None


def satisfies(python):
    """Whether this interpreter has a supported version and every pinned package."""
    version = answer(python, "-c", "import sys; print(*sys.version_info[:2])")
    if not version or tuple(map(int, version.split())) not in SUPPORTED:
        return False
    return answer(python, "-c", MISSING, *pins()) == ""


def base_python():
    """A supported interpreter to make the environment from: this one, or another on the PATH."""
    if sys.version_info[:2] in SUPPORTED:
        return sys.executable
    for version in SUPPORTED:
        found = shutil.which("python{}.{}".format(*version))
        if found and answer(found, "-c", "") is not None:  # a shim of pyenv may find nothing behind it
            return found
    wanted = " or ".join("{}.{}".format(*version) for version in SUPPORTED)
    raise RunError(
        f"Python {wanted} is needed, this is {sys.version.split()[0]}; run this file with one of those "
        "(`uv python install 3.12` installs one, so does `conda env create -f environment.yml`)"
    )


def check_writable(why):
    """Raise RunError where this folder is read-only, with the reason why it may not be."""
    if not os.access(ROOT, os.W_OK):
        raise RunError(f"{ROOT} is read-only, and {why}; use a copy of this folder")


def call(command):
    """Run a command; True when it succeeds."""
    words = list(map(str, command))
    print("+", " ".join(map(shlex.quote, words)), flush=True)
    return subprocess.run(words, cwd=ROOT).returncode == 0


def install(python):
    """Fill .venv from the lock, from scratch, then add this project itself (editable, without network)."""
    check_writable(f"{ENVIRONMENT.name}/ is made there")
    base, uv = base_python(), shutil.which("uv")
    print(f"Installing {len(pins())} packages into {ENVIRONMENT.name}/ (some minutes, once)", flush=True)
    if not call([base, "-m", "venv", "--clear", ENVIRONMENT.name]):
        # Debian's Python comes without ensurepip; uv needs neither.
        if not uv or not call([uv, "venv", "--clear", "--python", base, ENVIRONMENT.name]):
            if uv or answer(base, "-c", "import venv; from ensurepip import version") is not None:
                raise RunError("no virtual environment could be made; the lines above say why")
            package = answer(base, "-c", "import sys; print('python{}.{}-venv'.format(*sys.version_info))")
            raise RunError(
                f"{base} cannot make a virtual environment; install uv, or the rest of that Python "
                f"(on Debian and Ubuntu: `apt install {package}`), and run the same command again"
            )
    UNFINISHED.touch()
    offers = os.environ.get("PIP_FIND_LINKS", "").split()  # pip reads the variable by itself, uv does not
    offered = [part for offer in offers for part in ("--find-links", offer)]
    with_uv = [uv, "pip", "install", "--python", python, *offered]
    with_pip = [python, "-m", "pip", "install"]
    for installer in [with_uv] * bool(uv) + [with_pip]:
        itself = [*installer, "--no-deps", "--no-build-isolation", "--editable", "."]
        if call([*installer, "-r", LOCK.name]) and call(itself):
            run(python, ["-c", "import matplotlib.font_manager"])  # builds the font list now
            UNFINISHED.unlink()
            return
    raise RunError(
        "the packages could not be installed; the lines above say why (`from versions: none`: no index "
        "was reached, check the network or the proxy); then run the same command again"
    )


@contextlib.contextmanager
def one_at_a_time():
    """Let other commands of this folder wait; where folders cannot be locked (NFS), none waits."""
    folder = os.open(ROOT, os.O_RDONLY)
    try:
        with contextlib.suppress(OSError):
            try:
                fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                print("Another command checks or installs .venv; waiting for it", flush=True)
                fcntl.flock(folder, fcntl.LOCK_EX)
        yield
    finally:
        os.close(folder)


def environment():
    """The Python to run everything with: this one if it satisfies the lock, else that of .venv, remade if
    needed.
    """
    if satisfies(sys.executable):
        return sys.executable
    python = ENVIRONMENT / "bin" / "python"
    with one_at_a_time():  # `reproduce` and `test` may be started together on a fresh machine
        if not python.exists() or UNFINISHED.exists() or not satisfies(python):
            install(python)
    return str(python)


def run(python, arguments, **variables):
    """Run `python arguments` in the repository with its environment active; returns the exit status."""
    search = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    path = os.pathsep.join([str(Path(python).parent), os.environ.get("PATH", "")])
    inherited = {**os.environ, "PATH": path, "PYTHONPATH": os.pathsep.join(search), **variables}
    for name in filter(inherited.get, ("LCS_EXPERIMENTS", "LCS_ROOT", "LCS_RUNS")):  # in the caller's folder
        inherited[name] = os.path.abspath(inherited[name])
    if ENVIRONMENT in Path(python).parents:  # a font list of its own, unspoiled by others
        inherited.setdefault("MPLCONFIGDIR", str(ENVIRONMENT / "matplotlib"))
    if not os.access(os.path.expanduser("~"), os.W_OK):
        for variable, folder in HOMELESS.items():
            inherited.setdefault(variable, str(ENVIRONMENT / folder))
    process = subprocess.Popen([python, *arguments], cwd=ROOT, env=inherited)
    try:
        return process.wait()
    except KeyboardInterrupt:
        process.wait()  # Ctrl-C reached it too; killed, Snakemake would leave its lock
        raise


def reproduce(python, options, rest):
    """Regenerate every figure of the preset; what is up to date is kept."""
    if options.cores is not None and options.cores < 1:
        raise RunError(f"--cores must be at least 1, got {options.cores}")
    check_writable("figures and runs/ are written there")
    force = ["--forceall"] if options.force or options.print else []
    cores = [] if options.cores is None else ["--cores", str(options.cores)]
    snakemake = ["-m", "snakemake", "--profile", "profiles/local", *cores]
    setting = ["--config", f"preset={options.preset}"]
    if options.unlock and run(python, [*snakemake, "--unlock", *setting]):
        return 1
    printed = {"LCS_PRINT": options.print} if options.print else {}
    runs = os.path.join(os.environ.get("LCS_RUNS") or "runs", options.preset)
    status = run(python, [*snakemake, *force, *setting, *rest], **printed)
    if status == 0 and options.print:
        print(f"Every figure is in {runs}/print/ as {options.print}.")
    if status == 0:
        folder = f"{runs}/figures" if options.preset == "paper" else f"figures/{options.preset}"
        print(f"The figures are in {folder}/, the executed notebooks in {runs}/.")
    return status


def checked(python):
    """Whether formatting, lint and types pass (pyproject.toml); the tools print what does not."""
    commands = (["ruff", "format", "--check"], ["ruff", "check"], ["mypy"])
    return not any([run(python, ["-m", *command]) for command in commands])


def chooses(arguments):
    """Whether pytest's arguments name files, folders or tests below tests/ or notebooks/. Raises RunError for
    a name like theirs that does not exist; the word after a long option may be its value.
    """
    places, chosen = [ROOT / "tests", ROOT / "notebooks"], False
    for before, argument in zip(["", *arguments], arguments):
        path = (ROOT / argument.partition("::")[0]).resolve()
        if before in VALUED or argument.startswith("-"):
            continue
        if not path.exists() and not before.startswith("--") and path.suffix in (".py", ".ipynb"):
            raise RunError(f"there is no {argument.partition('::')[0]}; tests are in tests/ and notebooks/")
        chosen = chosen or (path.exists() and bool({path, *path.parents} & set(places)))
    return chosen


def test(python, options, rest):
    """Check format, lint and types; run the tests, and the notebooks against their stored outputs.

    Further arguments go to pytest; if they name files or tests, only these run, one after another.
    """
    command = ["-m", "pytest", "--nbval", "--nbval-current-env", "--nbval-cell-timeout", "600", *rest]
    if chooses(rest):
        return run(python, command)
    clean = checked(python)
    # Files in parallel, with the tests of each in order; kernels and torch keep to one thread each.
    # conftest.py orders the files: what takes longest first.
    several = ["--numprocesses", str(min(os.cpu_count() or 1, 4)), "--dist", "loadfile"]
    several += ["--no-loadscope-reorder"]
    parts = ["notebooks", *several], ["tests", *several]  # tests read what the notebooks wrote
    with tempfile.TemporaryDirectory(prefix="figures") as rebuilt:
        # all figures must then exist; a selection (-k) makes only some
        whole = {} if rest else {"LCS_WHOLE": "1"}
        alone = {"LCS_REBUILT": rebuilt, "OMP_NUM_THREADS": "1", **whole}
        ended = [run(python, [*command, *part], **alone) for part in parts]
    ended = [status for status in ended if status != NO_TESTS] or ended  # -k may select from one part only
    # negative: ended by a signal
    return next((status for status in (*ended, int(not clean)) if status), 0)


def lab(python, options, rest):
    """Open JupyterLab at the start notebook; further arguments go to JupyterLab."""
    return run(
        python,
        [
            "-m",
            "jupyterlab",
            f"--ServerApp.root_dir={ROOT}",
            "--LabApp.default_url=/lab/tree/notebooks/00_start.ipynb",
            "--FileContentsManager.pre_save_hook=lcs_utils.lab.before_saving",
            *rest,
        ],
        # as in `notebooks build`, so that Run All gives the stored outputs; threads may be raised
        LCS_FLOAT32="1",
        TRANSFORMERS_VERBOSITY="error",
        DIFFUSERS_VERBOSITY="error",
        OMP_NUM_THREADS=os.environ.get("OMP_NUM_THREADS", "1"),
    )


def notebooks(python, options, rest):
    """Execute the committed notebooks again with their default parameters: all, or those named."""
    return run(python, ["-m", "lcs_utils.notebooks", "build", *rest])


def site(python, options, rest):
    """Write the live page, notebooks and figures as web pages to site/; executes no notebook, and the pages
    need no network.
    """
    place = [] if options.output is None else ["--output", options.output]
    return run(python, ["-m", "lcs_utils.site", *place, *rest])


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(dest="command", metavar="COMMAND")
    commands.required = True  # an argument only from Python 3.7
    for function in (reproduce, test, lab, notebooks, site):
        text = function.__doc__
        command = commands.add_parser(
            function.__name__, help=text.split(";")[0].rstrip("."), description=text
        )
        command.set_defaults(function=function)
        if function is site:  # in the caller's folder
            command.add_argument("--output", type=os.path.abspath, help="default: site/ in the repository")
        if function is reproduce:
            command.add_argument(
                "--preset", choices=("tiny", "small", "paper"), default="tiny", help="default: tiny"
            )
            command.add_argument("--cores", type=int, help="default: all")
            command.add_argument("--force", action="store_true", help="also what is up to date")
            command.add_argument(
                "--unlock", action="store_true", help="remove the lock of a killed run first"
            )
            command.add_argument(
                "--print",
                choices=("png", "svg", "pdf"),
                help="run all, and also write each figure for print (png: at 200 dpi) to runs/PRESET/print",
            )
    options, rest = parser.parse_known_args()
    if options.command == "reproduce" and rest:
        parser.error(f"reproduce does not know {' '.join(rest)}; see `run.py reproduce --help`")
    try:
        return options.function(environment(), options, rest)
    except RunError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main())
