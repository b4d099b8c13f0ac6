"""A file of one's own experiments is known to every process, and cannot change the paper's."""

import os
import subprocess
import sys

import pytest

from lcs_utils import paths, presets

MINE = """
from lcs_utils.clevr.labels import LABEL_POLICIES, LabelPolicy
from lcs_utils.experiments import EXPERIMENTS, Experiment

LABEL_POLICIES["two"] = LabelPolicy(lambda n, _: n.clamp(max=2), lambda n: min(n, 2))
EXPERIMENTS["two_1-4"] = Experiment("two_1-4", objects=(1, 4), labels="two")
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
        (MINE.replace("two_1-4", "two 1-4"), "an experiment's name"),
    ],
)
def test_what_would_mislead_is_refused(folder, text, said):
    (folder / "mine.py").write_text(text)
    status, _, errors = python(folder, "-c", "import lcs_utils")
    assert status and said in errors.splitlines()[-1]


def test_a_missing_file_is_named(tmp_path):
    status, _, errors = python(tmp_path, "-c", "import lcs_utils")
    assert status and errors.endswith(f"must name a Python file, got {tmp_path / 'mine.py'}\n")


def test_a_net_of_an_unknown_policy_says_how_it_becomes_known():
    row = {"experiment": "two_1-4", "preset": "tiny", "objects": [1, 4], "labels": "two"}
    with pytest.raises(ValueError, match="label policy 'two', which the file that LCS_EXPERIMENTS names"):
        presets.of_row(row)


def test_without_it_nothing_is_added(folder):
    assert not python(
        folder, "-c", "import lcs_utils, sys; assert 'lcs_utils.own' not in sys.modules", experiments=""
    )[0]
