"""What the README tells people to type works: its program runs, its commands exist and know the options
shown.
"""

import importlib
import re
import shlex

import pytest

import run
from lcs_utils import claims, nets, notebook_values, notebooks, paths
from lcs_utils.claims import findings, readme, theory
from lcs_utils.claims.nets_64 import Falling
from lcs_utils.evaluation.rows import read_rows, rows_path
from lcs_utils.experiments import EXPERIMENTS
from lcs_utils.stats import Interval
from lcs_utils.training.asked import chosen

TEXT = (paths.ROOT / "README.md").read_text() if (paths.ROOT / "README.md").exists() else ""
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```", TEXT, flags=re.M | re.S)
PROGRAMS = [body for language, body in BLOCKS if language == "python"]
INLINE = re.findall(r"`((?:python3?|papermill|snakemake|pytest) [^`\n]+)`", TEXT)
COMMANDS = [
    line.split("  #")[0].strip()
    for language, body in BLOCKS
    if language == "sh"
    for line in body.splitlines()
] + INLINE
COMMANDS = sorted({" ".join(command.split()) for command in COMMANDS if command})


def check(command, capsys):
    """Raise AssertionError unless every part of `command` that can be checked without running it exists."""
    words = shlex.split(command)
    if words[0] == "accelerate":  # launches what follows -m
        words = ["python", *words[words.index("-m") :]]
    if words[1:2] == ["run.py"]:
        assert callable(getattr(run, words[2], None)), f"run.py has no {words[2]}"
    elif words[1:3] == ["-m", "lcs_utils.notebooks"] or words[0] == "papermill":
        name = notebooks.resolve(next(word for word in words[1:] if re.match(r"(notebooks/)?\d\d", word)))
        given = [(words[i + 1], words[i + 2]) for i, word in enumerate(words) if word == "-p"]
        notebook_values.parse_values(given, notebooks.parameters(name), name)
    elif words[1] == "-m":
        with pytest.raises(SystemExit) as stop:
            word = (
                words[3:4] if words[3:4] in (["queue"], ["errors"], ["scenes"], ["measure"]) else []
            )  # words of lcs_utils.training with options of their own
            module = importlib.import_module(words[2])
            if hasattr(module, "__path__"):  # a package
                module = importlib.import_module(f"{words[2]}.__main__")
            module.main([*word, "--help"])
        assert stop.value.code == 0
        shown = capsys.readouterr().out
        for option in (word for word in words if word.startswith("--")):
            assert option.split("=")[0] in shown, f"{words[2]} has no {option}"
        if words[2] == "lcs_utils.training" and not word:
            assert chosen(words[3])
        if words[2] == "lcs_utils.evaluation.length_generalization":
            assert nets.trained(words[3])
    elif words[0] == "snakemake":
        rules = re.findall(r"^rule (\w+):", (paths.ROOT / "Snakefile").read_text(), flags=re.M)
        assert (paths.ROOT / words[words.index("--profile") + 1] / "config.yaml").exists()
        settings = dict(word.split("=") for word in words if re.fullmatch(r"\w+=\w+", word))
        assert settings.get("preset", "tiny") in notebook_values.PRESET_NAMES
        assert (
            words[-1] in rules or words[-1].startswith("-") or words[-2].startswith("-") or "=" in words[-1]
        )
    else:
        assert words[0] in ("git", "cd", "pip", "conda", "pytest"), f"no way to check {command!r}"


def test_the_readme_has_a_program_and_the_two_commands():
    assert PROGRAMS and {"python3 run.py reproduce", "python3 run.py test"} <= set(COMMANDS)


@pytest.mark.parametrize("command", COMMANDS)
def test_command_exists(command, capsys):
    check(command, capsys)


@pytest.mark.parametrize(
    "command",
    [
        "python3 run.py repoduce",
        "python -m lcs_utils.training exp1 --no-such-option",
        "accelerate launch --num_processes 8 -m lcs_utils.training exp9",
        "python -m lcs_utils.evaluation.length_generalization exp9",
        "papermill notebooks/03_clevr_generation.ipynb out.ipynb -p sede 1",
        "snakemake --profile profiles/none train",
    ],
)
def test_a_wrong_command_is_found(command, capsys):
    with pytest.raises((AssertionError, ValueError)):  # a NotebookError is one
        check(command, capsys)


@pytest.mark.parametrize("program", PROGRAMS, ids=range(len(PROGRAMS)))
def test_program_runs(program, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    before = dict(EXPERIMENTS)
    try:
        exec(compile(program, "README.md", "exec"), {"__name__": "__main__"})
    finally:  # what it adds is its own
        EXPERIMENTS.clear()
        EXPERIMENTS.update(before)
    assert len([line for line in program.splitlines() if line.strip()]) <= 20


@pytest.fixture(scope="module")
def today():
    """Rows of 64 px nets, and what they find: some twenty seconds."""
    large = read_rows(rows_path("small"))
    return large, findings.findings(large)


def on_the_page():
    """The verdicts on nets of the shipped page, which the rows give (test_verdicts)."""
    text = (paths.FIGURES / "tiny" / "verdicts.md").read_text().partition("## Without a null")[0]
    cells = [line[2:-2].split(" | ") for line in text.splitlines() if line.startswith("| ")]
    exact = {claim.claim for claim in theory.CLAIMS}
    return [
        claims.Verdict(claim, "", "", verdict, "")
        for claim, *_, verdict, _ in cells[1:]
        if claim not in exact
    ]


def test_its_numbers_are_those_of_the_rows(today, monkeypatch):
    """Between its markers, and short enough to be read."""
    monkeypatch.setattr(readme, "findings", lambda large, preset: today[1])
    monkeypatch.setattr(readme, "decided", lambda preset, exact: [] if exact else on_the_page())
    assert {v.verdict for v in on_the_page()} == set(claims.KINDS)
    assert len(TEXT.splitlines()) <= 150 and max(map(len, TEXT.splitlines())) <= 110
    assert readme.filled_in(TEXT, readme.blocks()) == TEXT, "run python -m lcs_utils.claims.readme"
    with pytest.raises(ValueError, match="README.md needs one <!-- verdict: begin -->"):
        readme.filled_in("no markers", {"verdict": "1"})


def test_the_verdict_says_how_many_checks_are_on_extra_objects():
    kinds = [claims.YES, claims.NO, claims.NO, claims.UNDECIDED, claims.OPEN]
    found = [claims.Verdict(f"claim {i}", "", "", kind, "") for i, kind in enumerate(kinds)]
    said = readme.verdict_of(found, {"claim 1", "claim 3", "not asked"}, 2, 7)
    assert " ".join(said.split()) == (
        "3 checks on nets: **1 reproduced, 0 partly, 1 not, 0 undecided, 1 untested**. 2 more, on objects "
        "nobody asked for: 0 reproduced, 1 not, 1 undecided (2: too few samples; 05). 7 by an earlier "
        "counter lack a null."
    )
    assert max(map(len, said.splitlines())) <= readme.WIDTH


def test_a_changed_row_changes_a_finding(today):
    large, said = today[0], {finding.words for finding in today[1]}
    (colors,) = (words for words in said if words.startswith("Colors as labels"))
    own_k_first = r": K is \d \[\d, \d\] \(paper: 4\), all of one color \d \["
    assert re.search(own_k_first, colors)
    spoiled = [row._replace(count=0, placed=0, centers="") if row.net == "exp1" else row for row in large]
    # a training that was asked for the paper's list alone is no training at random cells
    spoiled = [row for row in spoiled if (row.net, row.family) != ("exp1_seed1", "spread")]
    found = findings.findings(spoiled)
    changed = said - {finding.words for finding in found}
    assert any(words.startswith("Exp. 1 (all labels) composes") for words in changed)
    assert not any("Exp. 2 (one label)" in words for words in changed)
    kinds = [finding.kind for finding in found[:3]]
    # a net that draws nothing does not compose; of the doses' three steps its own is lost
    assert kinds == ["does not", "holds", "partly"]


def test_doses_that_fill_nothing_are_in_no_order():
    large = read_rows(rows_path("small"))
    more_labels = ("exp1", "random_1-3", "drop_one_1-3")
    spoiled = [
        row._replace(count=0, placed=0, centers="") if row.net in more_labels else row for row in large
    ]
    assert findings._labels(large).kind == "partly"
    assert findings._labels(spoiled).kind == "does not"


def test_six_objects_that_add_nothing_do_not_help():
    large = read_rows(rows_path("small"))
    spoiled = [row for row in large if row.net != "exp1_1-6"]
    spoiled += [row._replace(net="exp1_1-6") for row in spoiled if row.net == "exp1"]  # Exp. 1's own pictures
    assert [findings._six_objects(rows).kind for rows in (large, spoiled)] == ["partly", "does not"]


def test_intervals_that_touch_are_said_to_overlap():
    above = {"a": (0.8, 0.7, 0.9), "b": (0.65, 0.6, 0.7), "c": (0.3, 0.2, 0.4), "d": (0.1, 0.0, 0.15)}
    doses = Falling(6, {net: Interval(*of) for net, of in above.items()}, [], {})
    assert findings._apart(doses) == "the first and second overlap"
    apart = doses._replace(above={net: of for net, of in doses.above.items() if net != "b"})
    assert findings._apart(apart) == "none overlap"
    rising = doses._replace(above={"a": Interval(0.1, 0, 0.15), "b": Interval(0.8, 0.7, 0.9)})
    assert findings._apart(rising) == "none overlap"  # in the wrong order, but apart
    for low, said in ((0.01, " (in the same draws they differ)"), (0.0, "")):
        steps = doses._replace(steps=[Interval(0.1, low, 0.2)] * 3)
        assert findings._apart(steps) == f"the first and second overlap{said}"
