"""Committed notebooks are what their source says, fresh, whole and small; the tool that builds them keeps
its promises.

`pytest --nbval` (run.py test) executes them as well. These tests look at the files only.
"""

import ast
import json
import os
import re

import jupytext
import nbformat
import pytest
from jupytext.compare import NotebookDifference, compare_notebooks
from jupytext.config import load_jupytext_config

from lcs_utils import nets, notebook_outputs, notebook_values, notebooks, paths, provenance
from lcs_utils.clevr import scenes
from lcs_utils.evaluation import sizes
from lcs_utils.figure_record import ROUNDING, differences

NAMES = notebooks.names()
every_notebook = pytest.mark.parametrize("name", NAMES)

DOT = (  # a PNG of one pixel
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABAQMAAAAl21bKAAAAA1BMVEUAAACnej3aAAAACXBIWXMAAA9hAAAPYQGoP6"
    "dpAAAACklEQVR42mNgAAAAAgAB5Sfe/AAAAABJRU5ErkJggg=="
)


def stored(name):
    return nbformat.read(paths.NOTEBOOKS / f"{name}.ipynb", as_version=4)


def code_cells(notebook):
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


# What markdown may say with a decimal, a percent or brackets, since no measurement of ours could change it.
GIVEN = {
    "90%": "the square of App. F",
    "95%": "the level of intervals",
    "$\\ln\\sigma\\sim\\mathcal N(-0.8, 1.6^2)$": "EDM2's noise levels",
    "Python 3.11": "a version",
    "(1,1.5,2.2)": "settings of arXiv 2410.08309",
    "(1,1.5,2.2,2.7)": "settings of arXiv 2410.08309",
    "(0.7,1.7,3)": "settings of arXiv 2410.08309",
    "[-1, 1]": "the range of pixels",
    "[0, 1]": "the range of locations",
}
DECIMAL = r"(?<![\w.])\d+\.\d+(?![\w.]*\d)"
MEASURED = re.compile(rf"{DECIMAL}|\d+ ?%|\[-?[\d.]+, ?-?[\d.]+\]|(?<!K = )\b\d+ of \d+\b")


def measured_numbers(markdown):
    """Decimals, percents, intervals and counts of counts in a markdown cell.

    Left out are the claim, what is GIVEN, code, links, sections and arXiv numbers.
    """
    paragraphs = re.split(r"\n\s*\n", markdown)
    text = "\n\n".join(part for part in paragraphs if not part.lstrip().startswith("**Claim**"))
    text = re.sub(r"`[^`]*`|\]\([^)]*\)|https?://\S+", " ", text)
    text = re.sub(r"\d{4}\.\d{5}", " ", text)  # arXiv
    text = re.sub(
        r"(?i)\b(sections?|sec\.|App\.|Appendix)\s+[A-Z]?\.?\d+(\.\d+)*(\s+and\s+\d+(\.\d+)*)?", " ", text
    )
    for given in sorted(GIVEN, key=len, reverse=True):
        text = text.replace(given, " ")
    return [found.group() for found in MEASURED.finditer(text)]


@every_notebook
def test_markdown_states_no_measured_number(name):
    """A number that a retraining could change is printed or formatted by a cell, never a literal in text."""
    for number, cell in enumerate(notebooks.read(name).cells, 1):
        if cell.cell_type == "markdown":
            assert not (found := measured_numbers(cell.source)), f"{name}, cell {number}: {found}"


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("Exp. 1 fills 0.84 of the cells", ["0.84"]),
        ("At K = 3 already 19% are plausible, 38% there", ["19%", "38%"]),
        ("K is 5 [4, 6], not 9", ["[4, 6]"]),
        ("right in 22 of 30 images", ["22 of 30"]),
        ("**Claim** (Table 1): K = 9 in 12.5% of cases\n\nours 7.5", ["7.5"]),
        ("the 90% square (App. F), section 3.1 and 3.2, App. E.3, arXiv 2410.08309, `x = 0.5`", []),
        ("Claim 2 holds for K = 4 to 6 at 32 px with r = 3 (exp. 1-3), EDM2 and σ of 10", []),
    ],
)
def test_measured_numbers_are_found_and_the_papers_are_not(text, found):
    assert measured_numbers(text) == found


@pytest.mark.parametrize("name", NAMES)
def test_a_notebook_is_one_claim_in_short_cells(name):
    """At most six figures, no cell of many lines, the median cell short, no assigned lambda."""
    assert len(notebooks.figures(name)) <= 6
    lines = [
        sum(bool(line.strip()) for line in cell.source.splitlines())
        for cell in code_cells(notebooks.read(name))
    ]
    assert max(lines) <= 12 and sorted(lines)[len(lines) // 2] <= 6, lines
    tree = ast.parse(notebooks.code(name))
    assigned = [node for node in ast.walk(tree) if isinstance(node, (ast.Assign, ast.AnnAssign))]
    assert not [node for node in assigned if isinstance(node.value, ast.Lambda)], "name it in the package"
    assert max(map(len, notebooks.code(name).splitlines())) <= 110


@every_notebook
def test_nets_are_sampled_where_their_weights_are(name):
    """Of preset `small` some nets are kept without weights; `sizes.sampled` says which preset has them."""
    calls = [node for node in ast.walk(ast.parse(notebooks.code(name))) if isinstance(node, ast.Call)]
    for call in calls:
        if getattr(call.func, "attr", getattr(call.func, "id", "")) in ("load", "LocalityExplorer"):
            given = [ast.unparse(value) for value in (*call.args, *(word.value for word in call.keywords))]
            assert "preset" not in given, f"{ast.unparse(call)}: write sizes.sampled(preset)"


@pytest.mark.parametrize("preset", paths.SHIPPED)
@pytest.mark.parametrize("net", ["exp1", "exp2", "exp3"])
def test_the_nets_that_notebooks_sample_are_shipped(net, preset):
    assert (paths.CHECKPOINTS / sizes.sampled(preset) / net / nets.WEIGHTS).exists()


def test_there_are_pairs_only():
    sources, executed = (
        {path.stem for path in paths.NOTEBOOKS.glob(f"*.{kind}")} for kind in ("py", "ipynb")
    )
    assert sources == executed == set(NAMES), sources ^ executed


@every_notebook
def test_jupytext_would_write_the_source_as_it_is(name):
    """`jupytext --sync` leaves the pair alone: the header is the one that it writes."""
    config = load_jupytext_config(str(paths.ROOT / "notebooks"))
    written = jupytext.writes(stored(name), fmt="py:percent", config=config)
    assert written == (paths.NOTEBOOKS / f"{name}.py").read_text()


@every_notebook
def test_pair_is_in_sync_and_its_outputs_belong_to_its_code(name):
    twin = jupytext.read(paths.NOTEBOOKS / f"{name}.ipynb")
    again = f"run `python3 run.py notebooks {name}`"
    try:
        compare_notebooks(twin, notebooks.read(name), fmt="py:percent")
    except NotebookDifference as difference:
        pytest.fail(f"{name}.ipynb differs from its source; {again}\n{difference}")
    assert twin.metadata["lcs_utils"]["code_sha256"] == notebook_outputs.code_sha256(notebooks.read(name)), (
        f"stale; {again}"
    )


@every_notebook
def test_executed_in_order_without_errors_or_widgets(name):
    notebook = stored(name)
    nbformat.validate(notebook)
    assert "widgets" not in notebook.metadata, "GitHub shows such a notebook as invalid"
    assert [cell.execution_count for cell in code_cells(notebook)] == list(
        range(1, len(code_cells(notebook)) + 1)
    )
    for cell in code_cells(notebook):
        for output in cell.outputs:
            assert output.output_type != "error" and output.get("name") != "stderr"
            assert not [mime for mime in output.get("data", {}) if "widget" in mime]


@every_notebook
def test_cells_are_read_without_jupytext_as_with_it(name):
    assert [source for _, source in notebooks.code_cells(name)] == [
        notebooks.commented(cell.source) for cell in code_cells(notebooks.read(name))
    ]
    tagged = [said for said, _ in notebooks.code_cells(name) if '"parameters"' in said]
    assert tagged == [' tags=["parameters"]']


@every_notebook
def test_anatomy(name):
    source = notebooks.read(name)
    assert source.cells[0].cell_type == "markdown", "the claim comes first"
    assert notebooks.parameters(name)["preset"] == "tiny"
    code = notebooks.code(name)
    assert "check_parameters(" in code, "the setup cell calls notebooks.check_parameters(preset=preset)"
    assert len(code_cells(source)) <= 36  # a section has four: call, figure, numbers, assert
    definitions = (ast.FunctionDef, ast.ClassDef, ast.AsyncFunctionDef)
    assert not [node for node in ast.walk(ast.parse(code)) if isinstance(node, definitions)], (
        "it belongs in the package"
    )
    assert any(isinstance(node, ast.Assert) for node in ast.walk(ast.parse(code))), (
        "a notebook asserts its claim"
    )


@every_notebook
def test_figures_belong_to_this_code_and_these_checkpoints(name):
    code = provenance.digest(notebooks.dependencies(name)[1:])
    for figure in notebooks.figures(name):
        path = paths.FIGURES / "tiny" / f"{figure}.json"
        assert path.exists() and path.with_suffix(".png").exists(), (
            f"{figure} is missing; run `python3 run.py reproduce`"
        )
        record = json.loads(path.read_text())
        assert (record["figure"], record["preset"], record["provenance"]["notebook"]) == (
            figure,
            "tiny",
            name,
        )
        assert record["provenance"]["notebook_sha256"] == notebook_outputs.code_sha256(
            notebooks.read(name)
        ), f"{figure} is stale"
        assert record["provenance"]["code_sha256"] == code, f"{figure} is of other code than today's"
        checkpoints = record["provenance"]["checkpoints"]
        assert provenance.file_hashes(checkpoints) == checkpoints, f"{figure} rests on other checkpoints"


def test_no_figure_is_left_over_and_none_has_two_makers():
    made = [figure for name in NAMES for figure in notebooks.figures(name)]
    assert len(made) == len(set(made))
    found = [
        path for path in (paths.FIGURES / "tiny").glob("*.*") if path.suffix != ".md"
    ]  # verdicts.md is drawn from rows
    assert {path.stem for path in found} == set(made)


def test_the_comparison_can_fail():
    assert not differences({"a": [1.0, 2]}, {"a": [1.001, 2]}, **ROUNDING)
    assert differences({"a": [1.0]}, {"a": [1.1]}, **ROUNDING) == ["values.a[0]: 1.0 -> 1.1"]
    assert differences([1], [1, 2]) and differences({"a": 1}, {"b": 1}) and differences("x", "y")


def test_executing_the_notebooks_gave_the_committed_numbers(rebuilt_figures):
    """`run.py test` lets nbval execute the notebooks first, all of them where it says LCS_WHOLE; alone, this
    file has nothing to compare.
    """
    rebuilt = sorted(rebuilt_figures.glob("tiny/*.json"))
    if os.environ.get("LCS_WHOLE"):
        made = {figure for name in NAMES for figure in notebooks.figures(name)}
        assert {path.stem for path in rebuilt} == made
    if not rebuilt:
        pytest.skip("no notebook was executed in this run")
    for path in rebuilt:
        old, new = (
            json.loads(file.read_text())["values"] for file in (paths.FIGURES / "tiny" / path.name, path)
        )
        assert not differences(old, new, **ROUNDING), (
            f"{path.stem}: the numbers behind the figure have changed"
        )


SOURCE = """# %% [markdown]
# A claim

# %% tags=["parameters"]
preset: str = "tiny"
count: int = 2
share: float = 0.5
deep: bool = False
radii: list = [1, 2]

# %%
print("one")
print(count * share)

# %%
assert not deep, "deep is wrong"
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    for constant in ("NOTEBOOKS", "RUNS"):
        monkeypatch.setattr(paths, constant, tmp_path / constant.lower())
        (tmp_path / constant.lower()).mkdir()
    (paths.NOTEBOOKS / "01_claim.py").write_text(SOURCE)
    (paths.NOTEBOOKS / "02_other.py").write_text(SOURCE.replace("count", "number"))
    return paths.NOTEBOOKS


def test_build_is_deterministic_and_clean(folder):
    first = notebooks.build("01_claim").read_bytes()
    assert notebooks.build("01_claim").read_bytes() == first
    notebook = stored("01_claim")
    assert [cell.id for cell in notebook.cells] == ["cell-01", "cell-02", "cell-03", "cell-04"]
    assert notebook.cells[2].outputs[0].text == "one\n1.0\n" and notebook.cells[1].metadata == {
        "tags": ["parameters"]
    }
    assert set(notebook.metadata) == {"jupytext", "kernelspec", "language_info", "lcs_utils"}
    compare_notebooks(jupytext.read(folder / "01_claim.ipynb"), notebooks.read("01_claim"), fmt="py:percent")
    (folder / "01_claim.py").write_text(SOURCE.replace('"one"', '"two"'))
    assert notebook.metadata.lcs_utils.code_sha256 != notebook_outputs.code_sha256(notebooks.read("01_claim"))
    with pytest.raises(NotebookDifference):
        compare_notebooks(
            jupytext.read(folder / "01_claim.ipynb"), notebooks.read("01_claim"), fmt="py:percent"
        )


def test_run_takes_parameters_and_keeps_what_a_failure_reached(folder, capsys):
    left = paths.RUNS / "paper" / f".01_claim.tmp{2**22 + 1}.ipynb"  # by a run that was killed
    left.parent.mkdir()
    left.touch()
    failed = notebooks.main(["run", "01", "-p", "deep", "true", "-p", "preset", "paper", "-p", "count", "6"])
    kept = nbformat.read(paths.RUNS / "paper" / "01_claim.ipynb", as_version=4)
    assert failed == 1 and capsys.readouterr().err.rstrip().endswith("/runs/paper/01_claim.ipynb")
    assert not left.exists()
    assert [output.text for cell in code_cells(kept) for output in cell.outputs if "text" in output] == [
        "one\n3.0\n"
    ]
    assert not list(folder.glob("*.ipynb"))  # only `build` writes beside the source


def test_told_claims_are_printed_and_fail_nothing_else_goes_on_failing(folder, capsys):
    told = ["run", "01", "--tell-claims", "-p", "preset", "paper_99"]
    assert notebooks.main([*told, "-p", "deep", "true"]) == 0
    assert "01_claim: does not hold: not deep (AssertionError('deep is wrong'))" in capsys.readouterr().out
    assert (paths.RUNS / "paper_99" / "01_claim.ipynb").exists()
    (folder / "01_claim.py").write_text(SOURCE + "\n# %%\nassert 1 / 0\n\n# %%\nprint(1 / 0)\n")
    assert notebooks.main(told) == 1  # a claim that cannot be decided is told, an error stays one
    assert "does not hold: 1 / 0 (ZeroDivisionError" in str(
        [
            o
            for c in code_cells(nbformat.read(paths.RUNS / "paper_99" / "01_claim.ipynb", 4))
            for o in c.outputs
        ]
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["run", "01", "-p", "cuont", "3"],
            "no parameter 'cuont'; allowed: preset, count, share, deep, radii",
        ),
        (["run", "01", "-p", "count", "2.5"], "count must be int (default 2), got 2.5"),
        (["run", "01", "-p", "count", "True"], "count must be int"),
        (["run", "01", "-p", "deep", "1"], "deep must be bool"),
        (["run", "01", "-p", "radii", "3"], "radii must be list"),
        (["run", "01", "-p", "preset", "huge"], "preset must be one of tiny, small, paper, got 'huge'"),
        (["run", "0"], "'0' names 2 notebooks; choose one of: 01_claim, 02_other"),
        (["build", "07"], "'07' names 0 notebooks"),
        (["build", "x"], "'x' names 0 notebooks"),
    ],
)
def test_wrong_use_is_refused_before_any_work(folder, capsys, arguments, message):
    assert notebooks.main(arguments) == 2
    assert message in capsys.readouterr().err
    assert not list(paths.RUNS.rglob("*.ipynb"))


def test_a_number_means_its_own_notebook_and_not_what_was_split_off(folder):
    (folder / "01b_more.py").write_text(SOURCE)
    assert [notebooks.resolve(name) for name in ("01", "01b", "01_claim.ipynb", "02_o")] == [
        "01_claim",
        "01b_more",
        "01_claim",
        "02_other",
    ]


@pytest.mark.parametrize("seed", [-3, scenes.MAX_SEED + 1])
def test_a_seed_is_one_of_scenes(seed):
    notebook_values.check_values({"seed": scenes.MAX_SEED}, {"seed": 0}, "07")
    with pytest.raises(notebook_values.NotebookError, match=f"07: seed must be in 0..4294967295, got {seed}"):
        notebook_values.parse_values([("seed", str(seed))], {"seed": 0}, "07")


def test_figures_for_print_are_asked_for_by_one_argument(folder, monkeypatch):
    monkeypatch.setenv("LCS_PRINT", "")
    monkeypatch.setattr(notebooks, "run", lambda name, values, tell: paths.RUNS / os.environ["LCS_PRINT"])
    assert notebooks.main(["run", "01", "--print", "pdf"]) == 0 and os.environ["LCS_PRINT"] == "pdf"


def test_values_are_read_as_the_defaults_types(folder):
    pairs = [("share", "2"), ("deep", "true"), ("radii", "[3]"), ("preset", "paper")]
    read = notebook_values.parse_values(pairs, notebooks.parameters("01_claim"), "01_claim")
    assert read == {"share": 2.0, "deep": True, "radii": [3], "preset": "paper"} and isinstance(
        read["share"], float
    )


def test_cleaning_drops_the_injected_cell_and_no_text_that_begins_like_it(folder):
    (folder / "01_claim.py").write_text(SOURCE + "\n# %% [markdown]\n# # Parameters of the paper\n")
    source, executed = notebooks.read("01_claim"), notebooks.read("01_claim")
    injected = nbformat.v4.new_code_cell(
        "# Parameters\ncount = 3", metadata={"tags": ["injected-parameters"]}
    )
    executed.cells.insert(2, injected)
    executed.cells[3].outputs = [nbformat.v4.new_output("stream", name="stdout", text="one\n")]
    cleaned = notebook_outputs.clean(executed, source)
    assert (
        cleaned.cells[2].outputs[0].text == "one\n"
        and cleaned.cells[-1].source == "# Parameters of the paper"
    )


@pytest.mark.parametrize("name", ["kind", "f'a_{kind}'", "3"])
def test_a_figure_s_name_must_stand_there(folder, name):
    (folder / "01_claim.py").write_text(
        SOURCE + f"\n# %%\nplotting.save_figure(figure, {name}, preset, 1, 0)\n"
    )
    with pytest.raises(
        notebook_values.NotebookError, match="01_claim: save_figure needs the figure's name as a"
    ):
        notebooks.figures("01_claim")


def test_cleaning_strips_widgets_but_keeps_their_picture(folder):
    source = notebooks.read("01_claim")
    executed = notebooks.read("01_claim")
    view = {
        "application/vnd.jupyter.widget-view+json": {"model_id": "1f"},
        "image/png": DOT,
        "text/plain": "Panel()",
    }
    show = nbformat.v4.new_output("display_data", view, metadata={"width": 9})
    pieces = [nbformat.v4.new_output("stream", name="stdout", text=text) for text in ("a", "b\n")]
    executed.cells[2].outputs = [*pieces, show]
    executed.metadata["widgets"] = {"state": {}}
    cleaned = notebook_outputs.clean(executed, source)
    text, picture = cleaned.cells[2].outputs
    assert (
        text.text == "ab\n"
        and picture.data == {"image/png": DOT, "text/plain": "Panel()"}
        and not picture.metadata
    )
    assert "widgets" not in cleaned.metadata
    executed.cells[2].outputs = [nbformat.v4.new_output("stream", name="stderr", text="a warning")]
    with pytest.raises(notebook_values.NotebookError, match="code cell 2 writes to stderr.*a warning"):
        notebook_outputs.clean(executed, notebooks.read("01_claim"))
