"""The frame holds: one lock for every installer, imports that only go down, small files, no machine in any
file.
"""

import ast
import importlib
import os
import pydoc
import re
import signal
import subprocess
import sys
import time
import tomllib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import yaml

import run
from lcs_utils import lab, notebooks, paths, store

PACKAGE = paths.ROOT / "lcs_utils"
MODULES = sorted(PACKAGE.rglob("*.py"))
# Imports go to lower levels, or stay inside one package, where they make no circle. A new module needs its
# place here and in CONTRIBUTING's tree.
LEVELS = (
    {"paths", "checks", "progress"},
    {"store", "stats", "diffusion", "compact_png"},
    {"provenance", "resumable", "clevr", "alt_text", "printing", "notebook_values"},
    {"notebook_outputs"},
    {"notebooks", "experiments", "lab", "architectures"},
    {"presets", "figure_record", "locality_checks"},
    {"theory", "models", "locality", "features", "nets", "own"},
    {"plotting", "locality_profile"},
    {"checkpoints", "swing_by"},
    {"theory_examples"},
    {"counter", "widgets"},
    {"text_to_image"},
    {"evaluation", "figures", "scene_figures"},
    {"claims"},
    {"training", "live"},
    {"site"},
    {"centered"},
)
LEVEL = {name: level for level, names in enumerate(LEVELS) for name in names}
LEFT = re.compile(  # what git ignores
    r"runs|site|build|(.*/)?(\.(?!ci$|github$)[^/]*|__pycache__|[^/]*\.egg-info)"
)
MACHINE_PATH = re.compile(r"(?<![\w.~-])/(?:work|tmp|opt|root|home|mnt|Users)/")


def lock_lines():
    return (paths.ROOT / "requirements.lock").read_text().splitlines()


def tracked():
    """The files of the repository; without git, all files but those that tools and runs leave."""
    try:
        listed = subprocess.run(["git", "ls-files", "-z"], cwd=paths.ROOT, capture_output=True, text=True)
    except OSError:
        listed = None
    if listed and listed.returncode == 0:
        names = filter(None, listed.stdout.split("\0"))
    else:
        names = []
        for folder, below, files in os.walk(paths.ROOT):
            here = Path(folder).relative_to(paths.ROOT)
            below[:] = [name for name in below if not LEFT.fullmatch((here / name).as_posix())]
            names += [here / name for name in files]
    return [paths.ROOT / name for name in names if (paths.ROOT / name).is_file()]


def imports(path):
    """The modules of lcs_utils, dotted and without that prefix, that a file imports."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"{path.name} imports relatively; write `from lcs_utils...`"
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        else:
            continue
        yield from (name.removeprefix("lcs_utils.") for name in names if name.startswith("lcs_utils."))


def upward(module, imported):
    """Whether `module` (dotted, without lcs_utils) may not import `imported`."""
    top, other = module.split(".")[0], imported.split(".")[0]
    return top != other and LEVEL[other] >= LEVEL[top]


@pytest.mark.parametrize("status", [None, 128])
def test_without_git_the_same_files_are_looked_at(status, monkeypatch):
    with_git = set(tracked())

    def run(*_, **__):
        if status is None:
            raise FileNotFoundError("git")
        return subprocess.CompletedProcess([], status, "", "")

    monkeypatch.setattr(subprocess, "run", run)
    if with_git and (paths.ROOT / ".git").exists():
        assert {path for path in with_git if path.suffix in (".py", ".md", ".toml")} <= set(tracked())
    assert not any(".venv" in path.parts for path in map(lambda p: p.relative_to(paths.ROOT), tracked()))


def test_the_lock_pins_exactly_and_names_no_host():
    for line in lock_lines():
        assert re.fullmatch(r"[a-z0-9-]+==[a-zA-Z0-9.]+", line), f"not an exact public pin: {line!r}"
    names = [line.split("==")[0] for line in lock_lines()]
    assert names == sorted(set(names))
    for name in ("requirements.lock", "environment.yml", "pyproject.toml", "run.py", ".ci/run"):
        text = (paths.ROOT / name).read_text()
        assert not re.search(r"https?:|index-url|trusted-host", text), f"{name} names a host"


def test_pyproject_lock_and_environment_agree():
    project = tomllib.loads((paths.ROOT / "pyproject.toml").read_text())["project"]
    locked = dict(line.split("==") for line in lock_lines())
    extras = [name for extra in ("dev", "docs") for name in project["optional-dependencies"][extra]]
    least = dict(wanted.split(">=") for wanted in project["dependencies"])
    assert set(locked) >= {*least, *extras}
    for name, version in least.items():
        assert f"{locked[name]}.".startswith(f"{version}."), f"{name}: {version} is not what the lock has"
    assert project["requires-python"] == ">=3.11,<3.13"
    assert run.SUPPORTED == ((3, 11), (3, 12))
    environment = yaml.safe_load((paths.ROOT / "environment.yml").read_text())
    python, _, pip = environment["dependencies"]
    assert tuple(map(int, python.removeprefix("python=").split("."))) in run.SUPPORTED
    assert pip == {"pip": ["-r requirements.lock", "-e ."]}


def test_everything_imported_is_declared():
    project = tomllib.loads((paths.ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    always = {wanted.split(">=")[0].replace("-", "_") for wanted in project["dependencies"]}
    always |= {"PIL", "IPython"}  # pillow, ipython
    waiting = always | {name.replace("-", "_") for extra in ("dev", "docs") for name in extras[extra]}
    optional = {"bpy", "bpy_extras", "mathutils"}  # Blender's own Python, or the extra `cycles`
    for path in MODULES:
        tree = ast.parse(path.read_text())
        functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
        inside = {node for function in functions for node in ast.walk(function)}
        for node in ast.walk(tree):
            names = [a.name for a in node.names] if isinstance(node, ast.Import) else []
            names += [node.module] if isinstance(node, ast.ImportFrom) else []
            declared = optional | (waiting if node in inside else always)
            for name in {name.split(".")[0] for name in names} - set(sys.stdlib_module_names) - {"lcs_utils"}:
                assert name in declared, (
                    f"{path.relative_to(paths.ROOT)} imports {name}, which no dependency gives"
                    + " (an extra gives it, but only to imports inside functions)" * (name in waiting)
                )


def test_run_needs_only_the_standard_library():
    tree = ast.parse((paths.ROOT / "run.py").read_text())
    names = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    names |= {node.module.split(".")[0] for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert names <= set(sys.stdlib_module_names)


@pytest.mark.parametrize(
    ("lock", "expected"),
    [("numpy=={numpy}\ntorch=={torch}\n", True), ("numpy==0.0.1\n", False), ("no-such-package==1\n", False)],
)
def test_an_environment_satisfies_exactly_its_lock(tmp_path, monkeypatch, lock, expected):
    from importlib import metadata

    versions = {name: metadata.version(name).split("+")[0] for name in ("numpy", "torch")}
    (tmp_path / "requirements.lock").write_text(lock.format(**versions))
    monkeypatch.setattr(run, "LOCK", tmp_path / "requirements.lock")
    assert run.satisfies(sys.executable) is expected


@pytest.mark.parametrize("interrupted", [False, True])
def test_an_interrupted_installation_is_redone(tmp_path, monkeypatch, interrupted):
    for name, value in {"ENVIRONMENT": tmp_path, "UNFINISHED": tmp_path / "unfinished"}.items():
        monkeypatch.setattr(run, name, value)
    python = tmp_path / "bin" / "python"
    python.parent.mkdir()
    python.touch()
    if interrupted:
        run.UNFINISHED.touch()
    installed = []
    monkeypatch.setattr(run, "satisfies", lambda interpreter: interpreter == python)
    monkeypatch.setattr(run, "install", installed.append)
    assert run.environment() == str(python)
    assert installed == [python] * interrupted


def test_two_commands_started_together_install_once(tmp_path, monkeypatch, capsys):
    for name, value in {"ENVIRONMENT": tmp_path, "UNFINISHED": tmp_path / "unfinished"}.items():
        monkeypatch.setattr(run, name, value)
    installed = []

    def install(python):
        installed.append(python)
        time.sleep(0.2)  # long enough for the other command to look
        python.parent.mkdir(exist_ok=True)
        python.touch()

    monkeypatch.setattr(run, "satisfies", lambda interpreter: interpreter != sys.executable)
    monkeypatch.setattr(run, "install", install)
    with ThreadPoolExecutor() as pool:
        found = [pool.submit(run.environment) for _ in range(2)]
    assert {of.result() for of in found} == {str(tmp_path / "bin" / "python")}
    assert installed == [tmp_path / "bin" / "python"]
    assert capsys.readouterr().out.count("waiting for it") == 1


@pytest.mark.parametrize(
    ("works", "words"),
    [
        ({"venv"}, "python3 cannot make a virtual environment; .*: `apt install python3.12-venv`"),
        ({"venv", "ensurepip"}, "no virtual environment could be made; the lines above say why"),
        ({"venv", "ensurepip", "call"}, "the packages could not be installed; .* check the network"),
        ({"venv", "ensurepip", "call", "read-only"}, r"is read-only, and \.venv/ is made there"),
    ],
)
def test_a_failed_installation_says_what_to_do(tmp_path, monkeypatch, works, words):
    def answer(python, *arguments):
        known = {"version_info": "python3.12-venv", "ensurepip": "" if "ensurepip" in works else None}
        return next(said for word, said in known.items() if word in arguments[1])

    (tmp_path / ".venv").mkdir()
    monkeypatch.setattr(run, "UNFINISHED", tmp_path / ".venv" / "unfinished")
    monkeypatch.setattr(run, "base_python", lambda: "python3")
    monkeypatch.setattr(run, "answer", answer)
    monkeypatch.setattr(run, "call", lambda command: "call" in works and "venv" in command)
    monkeypatch.setattr(run.shutil, "which", lambda name: None)
    monkeypatch.setattr(run.os, "access", lambda path, mode: "read-only" not in works)
    with pytest.raises(run.RunError, match=words):
        run.install(tmp_path / ".venv" / "bin" / "python")


def test_a_read_only_folder_reproduces_nothing(monkeypatch, capsys):
    monkeypatch.setattr(run, "environment", lambda: "python")
    monkeypatch.setattr(run.os, "access", lambda path, mode: False)
    monkeypatch.setattr(run, "run", lambda *_, **__: pytest.fail("it starts Snakemake"))
    monkeypatch.setattr(sys, "argv", ["run.py", "reproduce"])
    assert run.main() == 1 and "is read-only, and figures" in capsys.readouterr().err


def test_another_python_is_told_which_ones_serve(monkeypatch):
    monkeypatch.setattr(sys, "version_info", (3, 13, 0))
    monkeypatch.setattr(run.shutil, "which", lambda name: f"/shims/{name}")  # a shim with nothing behind it
    with pytest.raises(run.RunError, match=r"Python 3\.11 or 3\.12 is needed, .*`uv python install 3\.12`"):
        run.base_python()


def test_an_old_python_starts_one_that_serves(monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(paths.ROOT))
    old = "import os, pathlib, sys; del pathlib.PurePath.is_relative_to\n"  # as before Python 3.9
    old += "import run; sys.exit(run.run(sys.executable, ['-c', 'print(5)']))"
    assert run.answer(sys.executable, "-c", old) == "5"
    ast.parse((paths.ROOT / "run.py").read_text(), feature_version=(3, 7))


@pytest.mark.parametrize("variable", ["LCS_EXPERIMENTS", "LCS_ROOT", "LCS_RUNS"])
def test_a_path_is_meant_from_the_folder_where_the_command_was_given(variable, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(variable, "mine.py")
    told = f"import os, sys; sys.exit(os.environ[{variable!r}] != {str(tmp_path / 'mine.py')!r})"
    assert run.run(sys.executable, ["-S", "-c", told]) == 0


def test_what_a_process_starts_in_another_folder_keeps_its_files_in_the_same_place(tmp_path):
    """As the kernels of notebooks, which run in notebooks/."""
    ask = "from lcs_utils import paths; print(paths.RUNS)"
    start = f"{ask}; import subprocess, sys; subprocess.run([sys.executable, '-c', {ask!r}], cwd='/')"
    env = os.environ | {"LCS_RUNS": "out", "PYTHONPATH": str(paths.ROOT)}
    said = subprocess.check_output([sys.executable, "-uc", start], cwd=tmp_path, env=env, text=True)
    assert said.split() == [str(tmp_path / "out")] * 2


def test_a_command_that_is_interrupted_ends_by_itself(tmp_path):
    slow = "import pathlib, sys, time\ntry:\n    print(1, flush=True); time.sleep(60)\n"
    slow += "finally:\n    time.sleep(1); pathlib.Path(sys.argv[1]).touch()"
    command = f"run.run(sys.executable, ['-c', {slow!r}, {str(tmp_path / 'tidied')!r}])"
    # a shell's background jobs ignore Ctrl-C, and so would what they start
    main = "import run, signal, sys; signal.signal(signal.SIGINT, signal.default_int_handler); "
    main += f"run.environment = lambda: {command}; sys.argv[1:] = ['site']; sys.exit(run.main())"
    started = subprocess.Popen(
        [sys.executable, "-c", main], cwd=paths.ROOT, stdout=subprocess.PIPE, start_new_session=True
    )
    assert started.stdout.readline() == b"1\n"
    os.killpg(started.pid, signal.SIGINT)  # as a terminal does
    assert started.wait(60) == 130 and (tmp_path / "tidied").exists()


def test_an_environment_keeps_its_own_list_of_fonts(monkeypatch, tmp_path):
    monkeypatch.delenv("MPLCONFIGDIR", raising=False)
    here = Path(sys.executable).parent.parent

    def says(environment):
        monkeypatch.setattr(run, "ENVIRONMENT", environment)
        own = (
            f"import os, sys; sys.exit(os.environ.get('MPLCONFIGDIR') == {str(environment / 'matplotlib')!r})"
        )
        return bool(run.run(sys.executable, ["-c", own]))

    assert says(here) and not says(tmp_path)
    monkeypatch.setenv("MPLCONFIGDIR", "elsewhere")  # one's own choice stays
    assert not says(here)


@pytest.mark.parametrize(
    ("ended", "clean", "status"),
    [
        ([0, 0], True, 0),
        ([0, 0], False, 1),
        ([-9, 0], True, -9),  # killed, for memory perhaps
        ([0, -9], True, -9),
        ([-9, 1], True, -9),
        ([0, 1], True, 1),
        ([5, 0], True, 0),  # -k chose from one part
        ([5, 5], True, 5),
    ],
)
def test_the_tests_succeed_only_if_every_part_does(monkeypatch, ended, clean, status):
    parts = iter(ended)
    monkeypatch.setattr(run, "run", lambda *_, **__: next(parts))
    monkeypatch.setattr(run, "checked", lambda python: clean)
    assert run.test("python", None, []) == status


@pytest.mark.parametrize(("arguments", "whole"), [([], True), (["-k", "frame"], False)])
def test_every_figure_is_expected_where_every_notebook_runs(monkeypatch, arguments, whole):
    given = []
    monkeypatch.setattr(run, "run", lambda *_, **variables: given.append(variables) or 0)
    monkeypatch.setattr(run, "checked", lambda python: True)
    assert run.test("python", None, arguments) == 0 and len(given) == 2
    assert all(("LCS_WHOLE" in variables) is whole for variables in given)


@pytest.mark.parametrize(("words", "unlocks"), [([], 0), (["--unlock"], 1)])
def test_the_lock_of_a_killed_run_can_be_removed(monkeypatch, words, unlocks):
    calls = []
    monkeypatch.setattr(run, "environment", lambda: "python")
    monkeypatch.setattr(run, "run", lambda python, arguments, **variables: calls.append(arguments) or 0)
    monkeypatch.setattr(sys, "argv", ["run.py", "reproduce", *words])
    assert run.main() == 0
    assert ["--unlock" in call for call in calls] == [True] * unlocks + [False]
    assert calls[-1] == ["-m", "snakemake", "--profile", "profiles/local", "--config", "preset=tiny"]


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--preset", "small"], ["--config", "preset=small"]),
        (["--preset", "paper", "--force"], ["--forceall", "--config", "preset=paper"]),
        (["--cores", "3", "--force"], ["--cores", "3", "--forceall", "--config", "preset=tiny"]),
    ],
)
def test_reproduce_makes_the_preset_that_is_named_and_all_of_it_by_force(monkeypatch, words, told):
    calls = []
    monkeypatch.setattr(run, "environment", lambda: "python")
    monkeypatch.setattr(run, "run", lambda python, arguments, **variables: calls.append(arguments) or 0)
    monkeypatch.setattr(sys, "argv", ["run.py", "reproduce", *words])
    assert run.main() == 0
    assert calls == [["-m", "snakemake", "--profile", "profiles/local", *told]]


@pytest.mark.parametrize(("variable", "runs"), [("", "runs"), ("/disk/runs", "/disk/runs")])
def test_reproduce_says_where_its_files_are(variable, runs, monkeypatch, capsys):
    monkeypatch.setenv("LCS_RUNS", variable)
    monkeypatch.setattr(run, "environment", lambda: "python")
    monkeypatch.setattr(run, "run", lambda *_, **__: 0)
    monkeypatch.setattr(sys, "argv", ["run.py", "reproduce", "--preset", "paper"])
    assert run.main() == 0
    said = f"The figures are in {runs}/paper/figures/, the executed notebooks in {runs}/paper/.\n"
    assert capsys.readouterr().out == said


@pytest.mark.parametrize(
    ("arguments", "some"),
    [
        (["tests/test_frame.py"], True),
        (["-x", "tests/test_frame.py::test_run_explains_itself"], True),
        (["notebooks"], True),
        (["-k", "notebooks"], False),
        (["-k", "tests/test_frame.py"], False),
        (["--junitxml", "tests/nothere.py"], False),
        (["--ignore", "tests/browser"], False),
        (["data"], False),
        ([], False),
    ],
)
def test_only_chosen_files_are_run_alone(arguments, some):
    assert run.chooses(arguments) is some


@pytest.mark.parametrize(
    "arguments", [["tests/test_nothere.py"], ["-k", "a", "-x", "notebooks/nothere.ipynb::Cell 1"]]
)
def test_a_file_that_is_not_there_is_named_before_any_work(arguments, monkeypatch, capsys):
    monkeypatch.setattr(run, "environment", lambda: "python")
    monkeypatch.setattr(run, "run", lambda *_, **__: pytest.fail("it starts"))
    monkeypatch.setattr(sys, "argv", ["run.py", "test", *arguments])
    assert run.main() == 1
    assert re.search(r"error: there is no \w+/\w*nothere\.\w+; tests are in", capsys.readouterr().err)


@pytest.mark.parametrize(("words", "place"), [([], None), (["--output", "pages"], "pages")])
def test_web_pages_go_to_the_callers_folder(words, place, monkeypatch, tmp_path):
    calls = []
    monkeypatch.setattr(run, "environment", lambda: "python")
    monkeypatch.setattr(run, "run", lambda python, arguments: calls.append(arguments) or 0)
    monkeypatch.setattr(sys, "argv", ["run.py", "site", *words])
    monkeypatch.chdir(tmp_path)
    assert run.main() == 0
    where = [] if place is None else ["--output", str(tmp_path / place)]
    assert calls == [["-m", "lcs_utils.site", *where]]


@pytest.mark.parametrize("cores", ["0", "-1"])
def test_reproduce_needs_a_core(cores, monkeypatch, capsys):
    monkeypatch.setattr(run, "environment", lambda: "python")
    monkeypatch.setattr(run, "run", lambda *_, **__: pytest.fail("it starts"))
    monkeypatch.setattr(sys, "argv", ["run.py", "reproduce", "--cores", cores])
    assert run.main() == 1 and f"--cores must be at least 1, got {cores}" in capsys.readouterr().err


def test_tools_write_below_the_environment_where_the_home_folder_is_closed(monkeypatch, tmp_path):
    for variable in run.HOMELESS:
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setattr(run, "ENVIRONMENT", tmp_path / "env")

    def told(home, variable):
        monkeypatch.setenv("HOME", str(home))
        wanted = repr(str(tmp_path / "env" / run.HOMELESS[variable]))
        return bool(
            run.run(sys.executable, ["-c", f"import os; exit(os.environ.get({variable!r}) == {wanted})"])
        )

    assert all(told(tmp_path / "none", variable) for variable in run.HOMELESS)
    assert not any(told(tmp_path, variable) for variable in run.HOMELESS)
    monkeypatch.setenv("XDG_CACHE_HOME", "elsewhere")  # one's own choice stays
    assert not told(tmp_path / "none", "XDG_CACHE_HOME")


def test_run_explains_itself():
    def said(*arguments):
        return subprocess.run(
            [sys.executable, "run.py", *arguments], cwd=paths.ROOT, capture_output=True, text=True
        )

    for command in ("reproduce", "test", "lab", "notebooks", "site"):
        assert command in said("--help").stdout
    assert said("reproduce", "--preset", "huge").returncode == 2
    assert "tiny" in said("reproduce", "--preset", "huge").stderr
    assert "fig01" in said("reproduce", "fig01").stderr


COMMANDS = [path for path in MODULES if "\ndef main(arguments" in path.read_text()]


@pytest.mark.parametrize("path", COMMANDS, ids=lambda path: str(path.relative_to(PACKAGE).with_suffix("")))
def test_every_command_explains_itself_and_refuses_what_it_does_not_know(path, capsys):
    name = ".".join(path.relative_to(paths.ROOT).with_suffix("").parts)
    command = importlib.import_module(name).main
    for arguments, status in ((["--help"], 0), (["--no-such-option"], 2)):
        with pytest.raises(SystemExit) as stop:
            command(arguments)
        assert stop.value.code == status
    said = capsys.readouterr()
    assert said.out.startswith("usage: python -m lcs_utils.") and len(said.out.splitlines()) > 3
    assert said.err.startswith("usage: ") and "error: " in said.err


def test_lab_opens_the_start_notebook(monkeypatch):
    given, variables = [], {}

    def called(python, arguments, **changed):
        given.extend(arguments)
        variables.update(changed)

    monkeypatch.setattr(run, "run", called)
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    run.lab("python", None, ["--no-browser"])
    hook = next(word.split("=")[1] for word in given if "pre_save_hook" in word)
    assert pydoc.locate(hook) is lab.before_saving
    assert variables.items() <= (notebooks.FIXED_ENVIRONMENT | {"OMP_NUM_THREADS": "1"}).items()
    (address,) = [word.split("=")[1] for word in given if word.startswith("--LabApp.default_url=")]
    assert f"--ServerApp.root_dir={run.ROOT}" in given and given[-1] == "--no-browser"
    assert (run.ROOT / address.removeprefix("/lab/tree/")).name == "00_start.ipynb"
    assert (run.ROOT / address.removeprefix("/lab/tree/")).exists()


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.relative_to(PACKAGE).as_posix())
def test_imports_only_go_down(path):
    module = ".".join(path.relative_to(PACKAGE).with_suffix("").parts)
    if module == "__init__":
        assert list(imports(path)) == ["own"]  # only where LCS_EXPERIMENTS is set: known before all else
        return
    assert module.split(".")[0] in LEVEL, (
        f"lcs_utils/{module}: give it a level in {Path(__file__).name} and a line in CONTRIBUTING.md"
    )
    for imported in imports(path):
        assert not upward(module, imported), f"lcs_utils.{module} may not import lcs_utils.{imported}"


def circle(graph):
    """The modules of a circle of imports, {module: modules it imports}; none where there is no circle."""
    left = {module: set(needs) & set(graph) - {module} for module, needs in graph.items()}
    while free := {module for module, needs in left.items() if not needs & set(left)}:
        left = {module: needs for module, needs in left.items() if module not in free}
    return set(left)


def test_imports_make_no_circle():
    """Not inside a package either, nor by imports inside functions."""
    names = {".".join(path.relative_to(PACKAGE).with_suffix("").parts): path for path in MODULES}
    graph = {}
    for module, path in names.items():
        found = set(imports(path))
        graph[module] = {name for name in found if name in names} | {
            name.rpartition(".")[0] for name in found if name.rpartition(".")[0] in names
        }
    assert not circle(graph)
    assert circle({"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": {"a"}}) >= {"a", "b", "c"}


def test_folders_of_a_package_make_no_circle():
    """`evaluation/locality` may use `evaluation/features`, which then may not use it, in whatever file."""
    files = {path: path.relative_to(PACKAGE).parent.parts for path in MODULES}
    graph = {".".join(parts): set() for parts in files.values() if len(parts) == 2}
    for path, parts in files.items():
        used = {".".join(name.split(".")[:2]) for name in imports(path)} & set(graph)
        graph.get(".".join(parts), set()).update(used)
    assert graph["evaluation.locality"] == {"evaluation.locality", "evaluation.features"}
    assert not circle(graph)


def test_the_layer_rule_can_fail():
    assert (
        upward("diffusion", "models.unet")
        and upward("clevr.render", "models.unet")
        and upward("nets", "checkpoints")
    )
    assert not upward("training.loop", "models.unet") and not upward("clevr.render", "clevr.scenes")


@pytest.mark.parametrize("path", [*MODULES, paths.ROOT / "run.py"], ids=lambda path: path.name)
def test_files_stay_small(path):
    lines = len(path.read_text().splitlines())
    assert lines <= 500, (
        f"{path.relative_to(paths.ROOT)} has {lines} lines; split it where the subject changes"
    )


def test_the_tour_of_the_paper_is_short():
    contributing = (paths.ROOT / "CONTRIBUTING.md").read_text()
    steps = re.findall(r"^\| [^|`]+ \| (`[^|]+`) \|", contributing, flags=re.M)
    files = [PACKAGE / name for step in steps for name in re.findall(r"`([^`]+)`", step)]
    assert len(files) == 13
    lines = {path.name: len(path.read_text().splitlines()) for path in files}
    assert sum(lines.values()) < 1800, f"the tour has {sum(lines.values())} lines: {lines}"


def test_no_file_knows_the_machine_it_was_made_on():
    assert MACHINE_PATH.search("see /" + "home/me/x") and not MACHINE_PATH.search(
        "example.org/" + "home/me, runs/tmp/x"
    )
    for path in tracked():
        if path.suffix not in (".png", ".safetensors", ".npz"):
            found = MACHINE_PATH.search(path.read_text(errors="replace"))
            assert not found, f"{path.relative_to(paths.ROOT)} holds a machine's path: {found.group()}"


def test_nothing_is_unpickled():
    for path in MODULES:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "torch.load":
                given = {keyword.arg: ast.unparse(keyword.value) for keyword in node.keywords}
                assert given.get("weights_only") == "True", (
                    f"{path.name}:{node.lineno}: torch.load without weights_only=True"
                )
            if isinstance(node, (ast.Import, ast.ImportFrom)):
                names = {alias.name for alias in node.names} | {getattr(node, "module", None)}
                assert not names & {"pickle", "dill", "joblib"}, f"{path.name}:{node.lineno} imports a pickle"


def test_the_citation_names_the_paper():
    citation = yaml.safe_load((paths.ROOT / "CITATION.cff").read_text())
    paper = citation["preferred-citation"]
    assert paper["title"] == "Local Mechanisms of Compositional Generalization in Conditional Diffusion"
    assert (paper["authors"][0]["family-names"], paper["year"], paper["volume"]) == ("Bradley", 2026, 306)
    assert (paper["start"], paper["end"]) == (9531, 9565) and "2509.16447" in str(paper["identifiers"])
    project = tomllib.loads((paths.ROOT / "pyproject.toml").read_text())["project"]
    assert citation["license"] == project["license"]["text"] and citation["version"] == project["version"]


def test_a_folder_stopped_between_its_two_renames_is_the_old_one(tmp_path, monkeypatch):
    def write(text):
        with store.atomic_folder(tmp_path / "net") as temporary:
            (temporary / "row.json").write_text(text)

    write("old")
    rename = os.rename

    def stopped(source, target):
        if ".tmp" in str(source):
            raise KeyboardInterrupt
        rename(source, target)

    monkeypatch.setattr(os, "rename", stopped)
    with pytest.raises(KeyboardInterrupt):
        write("new")
    monkeypatch.undo()
    assert (tmp_path / "net" / "row.json").read_text() == "old" and [p.name for p in tmp_path.iterdir()] == [
        "net"
    ]
    write("new")
    assert (tmp_path / "net" / "row.json").read_text() == "new"
