"""The graph: whole at the paper's size, run through on a few images, and what each kind of job asks a cluster
for.
"""

import bz2
import math
import os
import re
import shlex
import subprocess
import sys

import pytest
import torch
import yaml

from lcs_utils import notebooks, paths
from lcs_utils.evaluation import length_generalization
from lcs_utils.evaluation.changes import CHANGES, split
from lcs_utils.evaluation.colors import color_generalization
from lcs_utils.experiments import EXPERIMENTS, experiment
from lcs_utils.presets import preset
from lcs_utils.training import command, jobs
from lcs_utils.training.measured import COLOR_FAMILIES, COUNTED
from lcs_utils.training.order import QUEUE


def snakemake(runs, *words, profile="local", python=sys.executable):
    """Run Snakemake in the repository with its outputs in `runs`; returns (exit status, all output)."""
    command = [str(python), "-m", "snakemake", "--profile", f"profiles/{profile}", "--nolock", *words]
    env = os.environ | {"LCS_RUNS": str(runs), "PYTHONPATH": str(paths.ROOT), "CUDA_VISIBLE_DEVICES": ""}
    env.pop("LCS_FIGURES", None)  # where tests put theirs
    done = subprocess.run(command, cwd=paths.ROOT, env=env, capture_output=True, text=True, timeout=900)
    return done.returncode, done.stdout + done.stderr


def results():
    """{file: modification time} of the outputs of nets and notebooks in the repository, without locks and
    without sources, which somebody may edit meanwhile.
    """
    kept = [path for place in ("data", "figures") for path in (paths.ROOT / place).rglob("[!.]*")]
    kept = [path for path in (*kept, *paths.NOTEBOOKS.glob("*.ipynb")) if path.is_file()]
    return {path: path.stat().st_mtime_ns for path in kept}


def planned(said):
    """{rule: its jobs} of a dry run."""
    table = said.partition("Job stats:")[2].partition("total ")[0]
    return {name: int(count) for name, count in re.findall(r"^(\w+)\s+(\d+)$", table, flags=re.M)}


@pytest.fixture
def mine(tmp_path, monkeypatch):
    """Write the file of one's own experiments and presets that every command reads."""
    monkeypatch.setenv("LCS_EXPERIMENTS", str(tmp_path / "mine.py"))
    return (tmp_path / "mine.py").write_text


def test_the_paper_goes_from_scenes_to_figures(tmp_path):
    failed, said = snakemake(
        tmp_path,
        "-n",
        "--cores",
        "64",
        "--resources",
        "gpu=8",
        "--config",
        "preset=paper",
        "gpus=8",
        "max_runtime=600",
    )
    assert not failed, said[-2000:]
    found, nets = planned(said), {experiment(name).net(seed) for name, seed in QUEUE} | set(EXPERIMENTS)
    assert found["render_part"] == 3 * 32 and found["render_scenes"] == 3 and found["train_counter"] == 1
    assert found["train_net"] == len(nets) and found["measure_net"] == len(nets) + 12
    drawn = set(notebooks.names()) - {"A3_counter", "A4_copies"}  # of what only shipped nets have
    assert {name for name in found if name.startswith("notebook_")} == {f"notebook_{name}" for name in drawn}
    found["notebook_"] = len(drawn)
    page = (paths.ROOT / "docs" / "cluster.md").read_text()
    told = re.findall(r"^\| `(\w+?)(?:NN_\.\.\.)?` \|.*\| (\d+)(?: jobs)? \|$", page, flags=re.M)
    assert len(told) == 6 and told == [(rule, str(found[rule])) for rule, _ in told]
    asked = {name: text for name, text in re.findall(r"^rule (\w+):\n((?:    .*\n)+)", said, flags=re.M)}
    pages = ("docs/worlds.md", "data/checkpoints/tiny/exp1/loss.csv")
    readers = [[name for name, text in asked.items() if page in text] for page in pages]
    assert readers == [["notebook_03_clevr_generation"], ["notebook_04_training"]]
    assert "gpu=" not in asked[f"notebook_{notebooks.names()[0]}"] and "gpu=" not in asked["render_part"]
    for wanted in ("gpu=8", "nodes=1", "runtime=600"):  # 90 hours on 8 GPUs: in two jobs of ten hours
        assert wanted in asked["train_net"], asked["train_net"]
    assert all("nodes=1" in asked[name] for name in ("render_scenes", "measure_net", "train_counter"))


def test_a_job_asks_for_the_time_of_its_patches_and_for_no_more_than_it_may(tmp_path, mine):
    """Two patches of r = 15 hold 7.5 times the pixels of their image, and training takes as much longer."""
    mine(
        "from dataclasses import replace\nfrom lcs_utils.presets import PRESETS\n"
        "PRESETS['mini'] = replace(PRESETS['tiny'], name='mini')\n"
    )

    def runtimes(*settings):
        failed, said = snakemake(tmp_path, "-n", "--resources", "gpu=8", "--config", *settings)
        assert not failed, said[-2000:]
        some = r"(?:    .*\n)*?    "  # lines of one job
        job = rf"^rule (\w+):\n{some}wildcards: net=(\w+)\n{some}resources: .*runtime=(\d+)"
        return re.findall(job, said, flags=re.M)

    paper = ("preset=paper", "nets=exp1,exp3,exp3_r15", "notebooks=none", "max_runtime=100000")
    trained = {net: int(time) for rule, net, time in runtimes(*paper) if rule == "train_net"}
    assert trained == {
        "exp1": 60 * 90 + 15,
        "exp3": 60 * 90 + 15,
        "exp3_r15": math.ceil(60 * 90 * 2 * (248 / 128) ** 2) + 15,
    }
    for gpus in (1, 8):  # not known, so all it may ask for
        ours = runtimes("preset=mini", "nets=exp1", "notebooks=none", "max_runtime=600", f"gpus={gpus}")
        assert ("train_net", "exp1", "600") in ours
    failed, said = snakemake(tmp_path, "-n", "--config", "preset=tiny", "notebooks=A1", "max_runtime=30")
    asked = re.findall(r"runtime=(\d+)", said)
    assert not failed and asked and max(map(int, asked)) <= 30


def test_the_number_of_gpus_is_no_part_of_what_a_finished_job_is_compared_by(tmp_path):
    """Snakemake runs a job again whose command's text has changed; resources are not compared."""
    lines = {}
    for gpus in (2, 8):
        settings = ("preset=medium", "nets=exp2", "notebooks=none", f"gpus={gpus}")
        failed, said = snakemake(tmp_path, "-n", "-p", "--resources", "gpu=8", "--config", *settings)
        assert not failed, said[-2000:]
        (lines[gpus],) = re.findall(r"^.*lcs_utils.training exp2 .*$", said, flags=re.M)
        assert lines[gpus].endswith(f"--num-processes {gpus} --gpu")
        assert f"mem_mb={6000 * gpus}" in said
    (rule,) = re.findall(
        r"^rule train_net:\n((?:    .*\n|\n)+)", (paths.ROOT / "Snakefile").read_text(), flags=re.M
    )
    assert "{GPUS}" not in rule


def test_a_folder_s_name_may_hold_a_space(tmp_path):
    environment = tmp_path / "a folder"
    environment.symlink_to(sys.prefix, target_is_directory=True)
    python = environment / "bin" / "python"
    few = ("preset=tiny", "images=64", "nets=exp1,exp2", "notebooks=A1")
    failed, said = snakemake(tmp_path / "runs", "-n", "-p", "--cores", "1", "--config", *few, python=python)
    assert not failed, said[-2000:]
    commands = re.findall(r"Shell command: (.*)", said)
    assert len(commands) > 3 and {shlex.split(words)[0] for words in commands if "python" in words} == {
        str(python)
    }


def test_a_trial_goes_through_and_touches_nothing_else(tmp_path):
    before = results()
    few = ["preset=tiny", "images=64", "nets=exp1,exp2", "notebooks=A1", "locations=1", "samples=8"]
    failed, said = snakemake(tmp_path, "--cores", "1", "--config", *few)
    assert not failed, said[-3000:]
    here = tmp_path / "tiny_64"
    for made in (
        "data/clevr32/manifest.json",
        "checkpoints/exp1/row.json",
        "length_generalization.csv.bz2",
        "locality.csv.bz2",
        "sheets/exp1.webp",
        "figures/is_it_real.png",
        "figures/is_it_real.json",
    ):
        assert (here / made).exists(), (made, said[-3000:])
    rows = bz2.decompress((here / "length_generalization.csv.bz2").read_bytes()).decode().splitlines()
    assert sum(line.startswith("exp1,") for line in rows) == len(COUNTED) * 8  # K = 1 of each family
    assert results() == before
    places = (paths.ROOT / name for name in ("runs", "data", "figures"))
    assert not [path for place in places for path in place.rglob("tiny_64")]  # all of it lies where told
    drawn = {"notebook_A1_is_it_real": 1, "reproduce": 1}
    again = {"measure_net": 1, "measure": 1} | drawn
    for changed, follows in (("", {}), ("locality.csv.bz2", drawn), ("checkpoints/exp1/row.json", again)):
        if changed:  # measured, or trained, by hand
            os.utime(here / changed)
        failed, said = snakemake(tmp_path, "-n", "--cores", "1", "--config", *few)
        assert not failed and planned(said) == follows, (changed, said[-2000:])
        assert changed or "Nothing to be done" in said


def test_measuring_on_a_gpu_waits_for_none_to_be_given_up(monkeypatch, capsys):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(SystemExit):
        command.main(["measure", "exp1", "--gpu"])
    assert "--gpu: torch finds no GPU here" in capsys.readouterr().err


def test_measuring_takes_a_thread_at_least(monkeypatch, capsys):
    monkeypatch.setattr(jobs, "measure_net", lambda *_: pytest.fail("work began"))
    with pytest.raises(SystemExit, match="2"):
        jobs.main(["measure", "exp1", "--threads", "0"])
    assert "--threads must be >= 1, got 0" in capsys.readouterr().err


def test_a_color_net_is_counted_by_its_colors_at_any_k(monkeypatch):
    asked = []
    monkeypatch.setattr(
        color_generalization, "measure", lambda *what, **how: asked.append((what, how["family"]))
    )
    monkeypatch.setattr(jobs.net_locality, "measure", lambda *_: None)
    monkeypatch.setattr(length_generalization, "measure", lambda *_, **__: pytest.fail("it has no locations"))
    jobs.measure_net("color_1-3", preset("tiny"), [1, 30], 8)
    with pytest.raises(ValueError, match="exp1 is measured at 0 to 12 locations, got 20"):
        jobs.measure_net("exp1", preset("tiny"), [20], 8)
    assert asked == [(("color_1-3", [1], 8, "tiny"), family) for family in COLOR_FAMILIES]
    asked.clear()
    jobs.measure_net("color_1-3/unit", preset("tiny"), [1], 8)
    assert asked == [(("color_1-3/unit", [1], 8, "tiny"), "colors")]


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ("nets=exp9", "unknown nets exp9; allowed: all, none, exp1"),
        ("preset=paper gpu=8", "unknown settings gpu; allowed: preset, images"),
        ("preset=3", "unknown preset 3; allowed: tiny, small, medium, paper"),
        ("preset=paper gpus=3", "a batch of 2048 cannot be shared evenly by gpus=3"),
        ("preset=paper notebooks=A3", "unknown notebooks A3_counter; allowed: all, none, 00_start"),
        ("preset=paper samples=few", "samples must be a whole number >= 1, got 'few'"),
        ("preset=paper locations=x", "locations: 'x' is neither a number, a range"),
        ("preset=paper locations=15", "locations: exp1 is measured at 0 to 12 locations, got 15"),
        (
            "images=64 nets=exp1,exp3 locations=9,10",
            "locations: exp3 is measured at 1 to 9 locations, got 9, 10",
        ),
    ],
)
def test_a_wrong_setting_is_named(tmp_path, settings, words):
    failed, said = snakemake(tmp_path, "-n", "-q", "--config", *settings.split())
    assert failed and words in said, said[-2000:]


def test_a_preset_of_ones_own_is_trained_and_measured_without_notebooks(tmp_path, mine):
    mine(
        "from dataclasses import replace\nfrom lcs_utils.presets import PRESETS\n"
        "PRESETS['mini'] = replace(PRESETS['tiny'], name='mini', images=640)\n"
    )
    config = ["-n", "--config", "preset=mini", "nets=exp1"]
    failed, said = snakemake(tmp_path, *config)
    assert not failed and planned(said).keys() == {
        *("render_scenes", "train_net", "measure_net", "measure", "reproduce")
    }
    failed, said = snakemake(tmp_path, "-n", "--config", "preset=mini", "nets=exp1_seed7,exp2_seed3")
    assert not failed and planned(said)["train_net"] == 2  # as many seeds as one likes
    failed, said = snakemake(tmp_path, "-n", "--config", "preset=mini", "nets=exp7_seed1")
    assert failed and "unknown nets exp7_seed1; allowed: all, none, exp1" in said
    failed, said = snakemake(tmp_path, "-n", "--config", "preset=tiny", "images=640", "nets=exp1")
    assert not failed and not any(rule.startswith("notebook") for rule in planned(said))  # A1 takes three
    failed, said = snakemake(tmp_path, *config, "notebooks=A1")
    assert failed and "notebooks know tiny, small, paper, not mini" in said, said[-2000:]


def test_medium_is_trained_and_measured_although_some_of_its_rows_are_here(tmp_path):
    failed, said = snakemake(tmp_path, "-n", "--config", "preset=medium", "nets=exp2,exp3_r2")
    assert not failed and planned(said)["train_net"] == 2 and planned(said)["measure_net"] >= 2
    assert not any(rule.startswith("notebook") for rule in planned(said))
    failed, said = snakemake(tmp_path, "-n", "--config", "preset=medium", "notebooks=A1")
    assert failed and "notebooks know tiny, small, paper, not medium" in said, said[-2000:]


def test_scenes_of_other_numbers_of_objects_are_rendered_before_a_net_is_trained(tmp_path, mine):
    """0-3 objects lie in another folder than 1-3, though both have at most three."""
    mine(
        "from lcs_utils.experiments import EXPERIMENTS, Experiment\n"
        "EXPERIMENTS['some'] = Experiment('some', objects=(0, 3))\n"
    )
    settings = ["preset=tiny", "images=64", "nets=exp1,some", "notebooks=none", "parts=2"]
    failed, said = snakemake(tmp_path, "-n", "-p", "--config", *settings)
    rendered = re.findall(r"lcs_utils.training scenes (\w+) --preset tiny_64 --workers", said)
    assert not failed and sorted(rendered) == ["exp1", "some"], said[-2000:]
    assert planned(said)["render_part"] == 4


def test_a_net_s_name_may_hold_a_dot(tmp_path, mine):
    mine(
        "from lcs_utils.experiments import EXPERIMENTS, Experiment\n"
        "EXPERIMENTS['two.1'] = Experiment('two.1', objects=(1, 2))\n"
    )
    words = ["-n", "-p", "--config", "preset=tiny", "images=64", "nets=exp1,two.1", "notebooks=none"]
    failed, said = snakemake(tmp_path, *words)
    measured = re.findall(r"lcs_utils.training measure (\S+)", said)
    assert not failed and set(measured) == {"exp1", "two.1"}, said[-2000:]


def test_the_graph_knows_what_changed_nets_take():
    text = (paths.ROOT / "Snakefile").read_text()
    changes = dict(re.findall(r'"(\w+/\w+)": \(([^)]*)\)', text))
    assert len(changes) == 12
    for net, also in changes.items():
        assert tuple(re.findall(r"\w+", also)) == split(net)[1].also
    assert {net.partition("/")[2] for net in changes} == set(CHANGES)


def test_the_slurm_profile_asks_for_an_account_and_a_partition_and_names_rules_that_exist():
    text = (paths.ROOT / "profiles" / "slurm" / "config.yaml").read_text()
    profile = yaml.safe_load(text)
    assert profile["slurm-status-command"] == "squeue" and profile["default-resources"]["nodes"] == 1
    assert re.findall(r"\b[A-Z]{4,}\b", re.sub("#.*|LCS_RUNS", "", text)) == ["ACCOUNT", "PARTITION"]
    rules = set(re.findall(r"^rule (\w+):", (paths.ROOT / "Snakefile").read_text(), flags=re.M))
    example = yaml.safe_load("\n".join(re.findall(r"^# (set-\w+:|  \w+: .*)$", text, flags=re.M)))
    assert {name for kind in example.values() for name in kind} <= rules and len(example) == 2
