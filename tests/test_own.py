"""A file of one's own experiments is known to every process, and cannot change the paper's."""

import inspect
import json
import os
import subprocess
import sys
from dataclasses import asdict, replace

import pytest

from lcs_utils import paths, presets, store
from lcs_utils.clevr import labels
from lcs_utils.evaluation import changes
from lcs_utils.experiments import EXPERIMENTS, Experiment
from lcs_utils.models.unet import EDM2UNet
from lcs_utils.training.state import about, check_made, check_same

MINE = """
from lcs_utils.clevr.labels import LABEL_POLICIES, LabelPolicy
from lcs_utils.experiments import EXPERIMENTS, Experiment

LABEL_POLICIES["two"] = LabelPolicy(lambda n, _: n.clamp(max=2), lambda n: min(n, 2))
EXPERIMENTS["two_1-4"] = Experiment("two_1-4", objects=(1, 4), labels="two")
"""
PRESET = """
from dataclasses import replace
from lcs_utils.presets import PRESETS
"""
ASK = """
import multiprocessing, os
from concurrent.futures import ProcessPoolExecutor
from lcs_utils.nets import parse

def share(name):
    return parse(name).experiment.labeled_share

if __name__ == "__main__":
    os.chdir("/")  # what this process starts finds the file from any folder
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        print(share("two_1-4_seed1"), *pool.map(share, ["two_1-4"]))
"""


def python(folder, *words, experiments="mine.py"):
    """Run Python in a folder with a file of experiments; returns (exit status, standard output, errors)."""
    env = os.environ | {"LCS_EXPERIMENTS": experiments, "PYTHONPATH": str(paths.ROOT)}
    done = subprocess.run(
        [sys.executable, *words], cwd=folder, env=env, capture_output=True, text=True, timeout=300
    )
    return done.returncode, done.stdout, done.stderr


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "mine.py").write_text(MINE)
    return tmp_path


def test_every_process_knows_them(folder):
    (folder / "ask.py").write_text(ASK)
    status, said, errors = python(folder, "ask.py")
    assert not status, errors
    assert said.split() == ["0.7", "0.7"]  # 1 + 2 + 2 + 2 of 10 objects


def test_commands_know_them(folder):
    status, said, errors = python(folder, "-m", "lcs_utils.training", "two_1-4", "--images", "1")
    assert status == 2 and "--images 1 is less than one batch" in errors


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (MINE + 'EXPERIMENTS["exp1"] = Experiment("exp1", (1, 4))', "changes exp1; give yours names of"),
        (MINE + 'del LABEL_POLICIES["all"]', "changes all; give yours names of their own"),
        (MINE + 'EXPERIMENTS["a"] = Experiment("b")', "EXPERIMENTS['a'] is called 'b'"),
        (
            PRESET + 'PRESETS["mini"] = replace(PRESETS["tiny"], images=640)',
            "PRESETS['mini'] is called 'tiny'",
        ),
        (
            PRESET + 'PRESETS["tiny"] = replace(PRESETS["tiny"], images=640)',
            "changes tiny; give yours names of",
        ),
        (
            PRESET + 'PRESETS["tiny_640"] = replace(PRESETS["tiny"], name="tiny_640", images=640)',
            "'tiny_640' names a trial of tiny; choose another name",
        ),
        (MINE.replace("two_1-4", "two 1-4"), "an experiment's name"),
    ],
)
def test_what_would_mislead_is_refused(folder, text, said):
    (folder / "mine.py").write_text(text)
    status, _, errors = python(folder, "-c", "import lcs_utils")
    assert status and said in errors.splitlines()[-1]


def test_a_value_of_the_wrong_kind_is_one_line(folder):
    (folder / "mine.py").write_text(MINE.replace("(1, 4)", "[1, 4]"))
    status, _, errors = python(folder, "-m", "lcs_utils.training", "two_1-4")
    assert status and errors.startswith("LCS_EXPERIMENTS: ") and errors.count("\n") == 1
    assert "two_1-4: objects must be (lowest, highest), got [1, 4]" in errors


@pytest.mark.parametrize("name", ["mine.py", "mine"])
def test_what_is_no_python_file_is_named(folder, tmp_path, name):
    (folder / "mine.py").rename(folder / "mine")
    status, _, errors = python(tmp_path, "-c", "import lcs_utils", experiments=name)
    assert status and errors.endswith(f"must name a Python file (.py), got {tmp_path / name}\n")
    status, _, errors = python(tmp_path, "-m", "lcs_utils.training", "--help", experiments=name)
    said = f"LCS_EXPERIMENTS must name a Python file (.py), got {tmp_path / name}"
    assert status and errors == f"LCS_EXPERIMENTS: {said}\n"


@pytest.mark.parametrize(("name", "kind"), [("radius", "a table of nets"), ("errors", "a command")])
def test_a_table_or_a_command_is_no_name_for_an_experiment(folder, name, kind):
    (folder / "mine.py").write_text(MINE.replace("two_1-4", name))
    status, _, errors = python(folder, "-m", "lcs_utils.training", name, "--images", "1")
    assert status == 2 and f"{name} is the name of {kind}" in errors


def test_noise_levels_are_written_as_rows_give_them_back():
    """A list was trained on, and then its net was refused as one of another experiment."""
    mine = Experiment("mine", labels="none", sigmas=(0.01, 0.5))
    row = json.loads(json.dumps({"experiment": "mine", "preset": "tiny", **asdict(mine)}))
    check_made(row, mine)
    for sigmas, error in (([0.01, 0.5], TypeError), ((0.01,), ValueError), (0.5, TypeError)):
        with pytest.raises(error, match=r"mine: sigmas .*\(lowest, highest\), got"):
            replace(mine, sigmas=sigmas)


def test_a_net_is_not_judged_by_another_definition_of_its_name():
    row = {"experiment": "two", "preset": "tiny", "objects": [1, 4], "labels": "all"}
    two = Experiment("two", objects=(1, 4))
    check_made(row, two)
    with pytest.raises(ValueError, match=r"two was trained .*objects: \(1, 4\) then, \(1, 3\) now"):
        check_made(row, replace(two, objects=(1, 3)))


def test_a_policy_is_known_by_what_it_draws(tmp_path, monkeypatch):
    """Under one name, another policy trained half a net after a kill."""
    monkeypatch.setitem(
        labels.LABEL_POLICIES, "two", labels.LabelPolicy(lambda n, _: n.clamp(max=2), lambda n: min(n, 2))
    )
    two = Experiment("two", objects=(1, 4), labels="two")
    now = about(two, presets.preset("tiny"), 0)
    store.write_json(tmp_path / "run.json", now)
    check_same(tmp_path, now)
    row = json.loads(json.dumps({"experiment": "two", "preset": "tiny", **asdict(two)}))
    row["labels_drawn"] = now["labels_drawn"]
    check_made(row, two)
    monkeypatch.setitem(labels.LABEL_POLICIES, "two", labels.LABEL_POLICIES["single"])
    with pytest.raises(ValueError, match="state of another training .labels_drawn"):
        check_same(tmp_path, about(two, presets.preset("tiny"), 0))
    with pytest.raises(ValueError, match="two was trained as another experiment .labels_drawn"):
        check_made(row, two)
    older = {key: value for key, value in now.items() if key != "labels_drawn"}
    store.write_json(tmp_path / "run.json", older)
    check_same(tmp_path, now)


def test_a_change_of_ours_keeps_its_meaning(monkeypatch):
    assert changes.split("exp2/unit")[1] is changes.CHANGES["unit"]
    monkeypatch.setitem(changes.CHANGES, "mine", changes.Change(lambda denoise: denoise))
    assert changes.split("exp2/mine")[0] == "exp2"
    monkeypatch.setitem(changes.CHANGES, "unit", changes.Change(lambda denoise: denoise))
    with pytest.raises(ValueError, match="'unit' in 'exp2/unit' is one of our changes; give yours a name"):
        changes.split("exp2/unit")


def test_a_preset_is_refused_before_any_work_if_nothing_could_use_it():
    tiny = presets.PRESETS["tiny"]
    for side in (40, 48, 96, 8):
        with pytest.raises(ValueError, match=r"mini: resolution must be one of 16, 32, 64, .*, got"):
            replace(tiny, name="mini", resolution=side)
    with pytest.raises(
        ValueError,
        match="unknown mini: a setting of net 'chanels'; did you mean channels. allowed: channels, ",
    ):
        replace(tiny, name="mini", net={"chanels": 64})
    takes = set(inspect.signature(EDM2UNet.__init__).parameters) - {"self", "cond_dim"}
    assert set(presets.NET_SETTINGS) == takes


def test_all_shipped_nets_are_what_their_names_mean():
    rows = [json.loads(path.read_text()) for path in paths.CHECKPOINTS.glob("*/*/row.json")]
    rows = [row for row in rows if row.get("experiment") in EXPERIMENTS]
    assert len(rows) > 30
    for row in rows:
        check_made(row, EXPERIMENTS[row["experiment"]])


def test_a_net_of_an_unknown_policy_says_how_it_becomes_known():
    row = {"experiment": "two_1-4", "preset": "tiny", "objects": [1, 4], "labels": "two"}
    with pytest.raises(ValueError, match="label policy 'two', which the file that LCS_EXPERIMENTS names"):
        presets.of_row(row)


def test_without_it_nothing_is_added(folder):
    assert not python(
        folder, "-c", "import lcs_utils, sys; assert 'lcs_utils.own' not in sys.modules", experiments=""
    )[0]
