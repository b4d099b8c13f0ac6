"""Data of one's own, named in one file, are what the command line and Snakemake train on, and no others."""

import os
import subprocess
import sys
from dataclasses import replace

import pytest
from test_architectures import TRIED
from test_snakefile import planned, snakemake
from test_training import TINY, tiny_data

from lcs_utils import nets, own, paths
from lcs_utils.experiments import EXP1, Experiment
from lcs_utils.training import command, jobs, rendered, run
from lcs_utils.training.state import about

FILE = """
from dataclasses import replace
import torch
from lcs_utils.experiments import EXPERIMENTS, Experiment
from lcs_utils.own import DATA
from lcs_utils.presets import PRESETS
from lcs_utils.training.data import Data

def squares(preset):
    images = torch.zeros(16, 3, preset.resolution, preset.resolution, dtype=torch.uint8)
    images[:, :, 8:16, 8:16] = torch.arange(16, dtype=torch.uint8)[:, None, None, None]
    return Data(images, torch.full((16, 1, 2), 0.375), torch.zeros(16, 1, dtype=torch.int8))

EXPERIMENTS["mine"] = Experiment("mine", objects=(1, 1))
DATA["mine"] = squares
PRESETS["mini"] = replace(PRESETS["tiny"], name="mini", images=128)
"""
MINE = Experiment("mine")


@pytest.fixture
def given(monkeypatch):
    """Register a function for MINE; returns how often it was called."""
    calls = []

    def register(data):
        monkeypatch.setitem(own.DATA, "mine", lambda size: (calls.append(size), data)[1])
        return calls

    return register


def test_the_command_line_and_snakemake_train_on_them(tmp_path, monkeypatch):
    file = tmp_path / "mine.py"
    file.write_text(FILE)
    env = os.environ | {"LCS_EXPERIMENTS": str(file), "PYTHONPATH": str(paths.ROOT), "LCS_RUNS": "runs"}

    def train(*words):
        command = [sys.executable, "-m", "lcs_utils.training", *words, "--preset", "mini"]
        done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=600)
        return done.returncode, done.stdout + done.stderr

    monkeypatch.setenv("LCS_EXPERIMENTS", str(file))
    failed, said = snakemake(tmp_path / "none", "-n", "train", "--config", "preset=mini", "nets=mine")
    assert not failed and planned(said) == {"train": 1, "train_net": 1}, said
    failed, said = snakemake(tmp_path / "none", "-n", "render", "--config", "preset=mini", "nets=mine,exp1")
    assert not failed and planned(said) == {"render": 1, "render_scenes": 1}, said
    assert train("mine")[0] == 0
    kept = tmp_path / "runs" / "mini"
    assert not (kept / "data").exists() and not (tmp_path / "runs" / "data").exists()  # nothing was rendered
    row = nets.verified_row(str(kept / "checkpoints" / "mine"), "mini")
    assert row["data"].startswith("16 images, hash ") and row["images"] == 128
    status, said = train("mine", "--missing")
    assert not status and "0 to train" in said
    status, said = train("mine", "--again", "--num-processes", "2")
    row = nets.verified_row(str(kept / "checkpoints" / "mine"), "mini")
    assert not status and (row["processes"], row["images"]) == ([2], 128), said
    both = ("mine --preset mini --images 256", "mine --preset mini --missing")

    def refused():
        command = [sys.executable, "-c", TRIED, *both]
        done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=600)
        assert not done.returncode, done.stderr
        goes_on, missing, rest = done.stderr.split("ended with 2\n")
        assert not rest and "(data: '16 images, hash" in goes_on and "(data: '16 images, hash" in missing
        return goes_on, missing

    file.write_text(FILE.replace("8:16, 8:16", "8:16, 8:20"))
    goes_on, missing = refused()
    assert "state of another training" in goes_on and "mine was trained as another experiment" in missing
    file.write_text(FILE.replace('DATA["mine"] = squares', ""))
    goes_on, missing = refused()
    assert "there, 'rendered scenes' here" in goes_on and "then, 'rendered scenes' now" in missing


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (
            'DATA["exp1"] = squares',
            "exp1 is trained on rendered scenes; give your experiment another name",
        ),
        ('DATA["yours"] = squares', "DATA['yours'] is of no experiment; known: exp1, "),
        ('DATA["mine"] = squares(PRESETS["tiny"])', "own.DATA['mine'] must be a function, got Data(images="),
    ],
)
def test_data_of_no_experiment_of_ones_own_are_refused(tmp_path, line, said):
    (tmp_path / "mine.py").write_text(FILE + line)
    env = os.environ | {"LCS_EXPERIMENTS": str(tmp_path / "mine.py"), "PYTHONPATH": str(paths.ROOT)}
    done = subprocess.run([sys.executable, "-c", "import lcs_utils"], env=env, capture_output=True, text=True)
    assert done.returncode and said in done.stderr.splitlines()[-1]


def test_they_are_the_same_training_as_data_given_in_python(tmp_path, given, monkeypatch):
    size, data = replace(TINY, images=16), tiny_data()
    run.run(MINE, size, data=data, folder=tmp_path / "a", output=tmp_path / "a" / "net")
    calls = given(data)
    monkeypatch.setattr(run, "load_data", None)
    for _ in range(2):
        run.run(MINE, size, folder=tmp_path / "b", output=tmp_path / "b" / "net")
    assert calls == [size]  # loaded once, for this preset
    for name in ("net/" + nets.WEIGHTS, "run.json"):
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()
    assert rendered.own_described(MINE, size) == rendered.described(data)
    monkeypatch.setattr(run, "state_folder", lambda *_: tmp_path / "b")
    command.check_launch([MINE], size, 0, 1)
    given(data._replace(images=255 - data.images))
    with pytest.raises(ValueError, match="another training .data: '32 images, hash .* there, '32 images"):
        command.check_launch([MINE], size, 0, 1)


def test_bad_data_are_refused_in_one_sentence_before_any_work(tmp_path, given):
    data = tiny_data()
    for bad, words in (
        (tuple(data), "a Data of images, locations and colors"),
        (data._replace(images=data.images[:, :, :16]), "images must be uint8"),
        (None, "a Data of images, locations and colors"),
    ):
        given(bad)
        with pytest.raises(ValueError, match=rf"own.DATA\['mine'\] gives no data of mine: .*{words}"):
            run.run(MINE, TINY, folder=tmp_path, output=tmp_path / "net")
    given(data)
    with pytest.raises(ValueError, match="mine: images of 1-2 objects, but one of `data` has 3"):
        run.run(replace(MINE, objects=(1, 2)), TINY, folder=tmp_path, output=tmp_path / "net")
    assert not list(tmp_path.iterdir())


def test_ours_are_trained_on_rendered_scenes(tmp_path, monkeypatch, capsys):
    assert rendered.own_data(EXP1, TINY) is None and rendered.own_described(EXP1, TINY) == ""
    assert about(EXP1, TINY, 0)["data"] == "rendered scenes"
    monkeypatch.setitem(own.DATA, "exp1", lambda size: tiny_data())
    with pytest.raises(ValueError, match="exp1 is trained on rendered scenes"):
        run.run(EXP1, TINY, folder=tmp_path, output=tmp_path / "net")
    with pytest.raises(SystemExit):
        jobs.main(["scenes", "exp1"])
    assert "exp1 is trained on rendered scenes" in capsys.readouterr().err


def test_no_scenes_are_rendered_for_them(monkeypatch, given, capsys):
    given(tiny_data())
    monkeypatch.setattr(jobs, "experiment", lambda name: MINE)
    monkeypatch.setattr(jobs, "render_scenes", None)
    with pytest.raises(SystemExit):
        jobs.main(["scenes", "mine"])
    assert "mine is trained on data of your own: there are no scenes to render" in capsys.readouterr().err
