"""The queue: in order, for a given time, from wherever it was stopped; finished means measured and kept."""

import bz2
import json
import signal
import time
from dataclasses import replace
from unittest.mock import Mock

import pytest
import torch
from test_training import TINY, tiny_data

from lcs_utils import nets, paths, store
from lcs_utils.evaluation import counting, length_generalization
from lcs_utils.evaluation.colors import color_generalization
from lcs_utils.evaluation.colors.color import ColorRow
from lcs_utils.evaluation.features import feature_causal, feature_matrices, net_features
from lcs_utils.evaluation.features.feature_matrices import CosineRow
from lcs_utils.evaluation.locality import net_locality
from lcs_utils.evaluation.rows import STANDARD, Row, rows_path
from lcs_utils.experiments import COLOR, EXPERIMENTS, experiment
from lcs_utils.presets import preset
from lcs_utils.resumable import DiskFull
from lcs_utils.training import command, loop, measured
from lcs_utils.training import queue as training_queue
from lcs_utils.training import run as training
from lcs_utils.training.order import ON_A_GPU, QUEUE
from lcs_utils.training.queue import TimeUp, advance, describe, standing, until, work

SIZE = replace(TINY, images=16, patch_images=24)
NETS = (("exp1", 0), ("exp3", 0), ("color_1-3", 0), ("exp1", 1))


@pytest.fixture
def queue(tmp_path, monkeypatch):
    """A short queue in a temporary folder: data without rendering, measures that only write rows."""
    monkeypatch.setattr(paths, "RUNS", tmp_path / "runs")
    monkeypatch.setattr(paths, "DATA", tmp_path / "data")
    monkeypatch.setattr(paths, "CHECKPOINTS", tmp_path / "data" / "checkpoints")
    monkeypatch.setattr(paths, "COUNTS", tmp_path / "data" / "counts")
    monkeypatch.setattr(training_queue, "QUEUE", NETS)
    monkeypatch.setattr(measured, "COUNTED", {"test": range(2)})
    monkeypatch.setattr(measured, "LOCAL_COUNTED", {"test": range(2)})
    monkeypatch.setattr(measured, "COLOR_FAMILIES", ("colors",))
    monkeypatch.setattr(training_queue, "load_data", lambda *_: tiny_data())
    monkeypatch.setattr(counting, "counter_hash", lambda *_: "counter")
    calls = []

    def measure(net, ks, samples, preset, family, device):
        calls.append((net, family, samples))
        weights = nets.verified_row(net, preset)["sha256"][:12]
        rows = [
            Row(net, weights, "counter", *STANDARD, k, i, k, k, 1.0, family, preset)
            for k in ks
            for i in range(samples)
        ]
        path = rows_path(preset)
        length_generalization.write_rows(length_generalization.read_rows(path) + rows, path)

    def measure_colors(net, ks, samples, preset, family, device):
        calls.append((net, family, samples))
        key = (net, nets.verified_row(net, preset)["sha256"][:12], "counter", *STANDARD)
        rows = [ColorRow(*key, k, i, k, k, 1.0, family, preset) for k in ks for i in range(samples)]
        path = rows_path(preset, color_generalization.NAME)
        color_generalization.write(color_generalization.read(preset) + rows, path)

    def locality(net, preset, device):
        calls.append((net, "locality"))
        weights = nets.verified_row(net, preset)["sha256"][:12]
        kind = net_locality.LocalityRow
        rows = [
            kind(net, weights, 5, i, s, 1.0, 1.0, 1.0, 1.0, 1.0)
            for i in range(8)
            for s in net_locality.SIGMAS
        ]
        net_locality.write(net_locality.read(preset) + rows, preset)

    monkeypatch.setattr(length_generalization, "measure", measure)
    monkeypatch.setattr(color_generalization, "measure", measure_colors)

    def features(net, preset, device):
        calls.append((net, "features"))
        weights = nets.verified_row(net, preset)["sha256"][:12]
        row = CosineRow(preset, net, weights, "denoiser", 0, 2.0, "noise", 2, "", 0, 1, 0.0)
        rows = [*feature_matrices.read(preset), row]
        store.write_rows(feature_matrices.path(preset), feature_matrices.COMMAND, CosineRow, rows)

    monkeypatch.setattr(net_locality, "measure", locality)
    for module, words in ((net_features, "sums"), (feature_causal, "causes")):
        monkeypatch.setattr(
            module, "measure", lambda net, preset, device, words=words: calls.append((net, words))
        )
    monkeypatch.setattr(feature_matrices, "measure", features)
    return calls


def kept(name):
    return json.loads((paths.CHECKPOINTS / "tiny" / name / "row.json").read_text())


def test_the_queue_trains_measures_and_keeps_each_net_once(queue):
    assert work(SIZE, hours=1) == {}
    assert queue == [
        ("exp1", "test", 64),
        ("exp1", "locality"),
        ("exp1", "sums"),
        ("exp1", "causes"),
        ("exp1", "features"),
        ("exp3", "test", 24),
        ("exp3", "locality"),  # a local net's layers see patches
        ("color_1-3", "colors", 64),
        ("color_1-3", "locality"),
        ("color_1-3", "sums"),
        ("color_1-3", "causes"),
        ("color_1-3", "features"),
        ("exp1_seed1", "test", 64),
        ("exp1_seed1", "locality"),
        ("exp1_seed1", "sums"),
        ("exp1_seed1", "causes"),
        ("exp1_seed1", "features"),
    ]
    assert [kept(EXPERIMENTS[name].net(seed))["images"] for name, seed in NETS] == [
        16,
        24,
        16,
        16,
    ]  # local nets: patch_images
    assert (
        kept("exp1_seed1")["command"]
        == "python -m lcs_utils.training exp1 --preset tiny --images 16 --seed 1"
    )
    for file in ("loss.csv", "README.md"):
        assert (paths.CHECKPOINTS / "tiny" / "color_1-3" / file).exists()
    assert work(SIZE, hours=1) == {} and len(queue) == 17
    assert all(line.endswith("finished") for line in describe(SIZE))


def test_a_stopped_queue_goes_on_and_a_longer_one_goes_on_from_the_finished_net(queue, monkeypatch):
    long = replace(SIZE, images=8 * 60)
    exp1 = experiment("exp1")
    monkeypatch.setattr(training_queue, "SHORTEST", 0.0)
    monkeypatch.setattr(training, "LOG_EVERY", 20)
    inside = training.run

    def stop(*args, deadline, **options):
        return inside(*args, deadline=0, **options)

    monkeypatch.setattr(training, "run", stop)
    assert advance(exp1, 0, long, time.time() + 1000) == "stopped, its state saved"
    now = standing(exp1, 0, long, [])
    assert (now.seen, now.asked, now.trained) == (160, 480, False) and queue == []
    monkeypatch.setattr(training, "run", inside)
    assert advance(exp1, 0, long, time.time() + 1000) == "" and kept("exp1")["images"] == 480
    longer = replace(SIZE, images=8 * 70)
    assert "480 of 560 images" in describe(longer)[0]
    assert advance(exp1, 0, longer, time.time() + 1000) == "" and kept("exp1")["images"] == 560
    assert " && " in kept("exp1")["command"] and queue.count(("exp1", "test", 64)) == 2


def test_a_kept_row_is_a_finished_net_without_its_weights_and_a_shorter_one_is_not(queue):
    row = {"images": 16, "seconds": 8.0, "sha256": "x"}
    store.write_json(paths.CHECKPOINTS / "tiny" / "exp1" / "row.json", row)
    exp1 = experiment("exp1")
    assert (
        standing(exp1, 0, SIZE, []).trained
        and advance(exp1, 0, SIZE, time.time() + 1000) == ""
        and queue == []
    )
    now = standing(exp1, 0, replace(SIZE, images=32), [])
    assert (now.seen, now.asked) == (0, 32), "its state is not here: from the start"
    assert (
        "0 of 7,200 images, about 1.0 hours left" in describe(replace(SIZE, images=7200))[0]
    )  # by the stored seconds
    assert (
        "about 1.0 hours left" in describe(replace(SIZE, images=7200))[3] and "not known" in describe(SIZE)[1]
    )


def test_what_is_missing_of_a_trained_net_is_measured_and_nothing_else(queue):
    advance(experiment("exp1"), 0, SIZE, time.time() + 1000)
    path = rows_path("tiny")
    lines = bz2.decompress(path.read_bytes()).decode().splitlines()
    path.write_bytes(bz2.compress(("\n".join(lines[:-1]) + "\n").encode()))  # one sample less
    with pytest.warns(UserWarning, match="was cut off"):
        assert describe(SIZE)[0].endswith("to measure: counts of family test")
    path.unlink()
    net_locality.path("tiny").unlink()
    feature_matrices.path("tiny").unlink()
    (paths.CHECKPOINTS / "tiny" / "exp1" / "row.json").unlink()
    assert describe(SIZE)[0].endswith("to measure: row, counts of family test, locality, features")
    assert advance(experiment("exp1"), 0, SIZE, time.time() + 1000) == ""
    assert len(length_generalization.read_rows(path)) == 2 * 64 and describe(SIZE)[0].endswith("finished")


def test_without_time_nothing_is_begun_and_what_is_wrong_with_one_net_stops_no_other(queue, capsys):
    left = work(SIZE, hours=1e-9)
    assert set(left.values()) == {"no time was left"} and len(left) == len(NETS) and queue == []
    state = training.state_folder("exp1", SIZE) / "state.pt"
    state.parent.mkdir(parents=True, exist_ok=True)
    state.write_bytes(b"garbage")
    left = work(SIZE, hours=1)
    assert (
        list(left) == ["exp1"]
        and "is no whole saved state" in left["exp1"]
        and "remove it" in capsys.readouterr().out
    )
    assert "is no whole saved state" in describe(SIZE)[0] and describe(SIZE)[1].endswith("finished")


def test_a_full_disk_ends_the_queue_and_a_measure_that_cannot_be_taken_does_not(queue, monkeypatch, capsys):
    def refuse(*_, **__):
        raise ValueError("exp1 draws images of 32 px and the counter reads 64 px")

    monkeypatch.setattr(length_generalization, "measure", refuse)
    left = work(SIZE, hours=1)
    assert set(left) == {"exp1", "exp3", "exp1_seed1"} and left["exp1"].startswith(
        "trained, but not measured: exp1 draws"
    )
    for error in (ValueError("loss.csv is broken"), RuntimeError("out of memory"), OSError("no such disk")):
        monkeypatch.setattr(training, "run", Mock(side_effect=error))
        left = work(replace(SIZE, images=800), hours=1)
        assert left["exp1"] == left["exp1_seed1"] == str(error)
    monkeypatch.setattr(training, "run", Mock(side_effect=DiskFull("make room")))
    with pytest.raises(DiskFull, match="make room"):
        work(replace(SIZE, images=800), hours=1)
    monkeypatch.setattr(training_queue, "work", refuse)
    with pytest.raises(SystemExit) as stop:
        command.main(["queue", "--preset", "tiny"])
    assert stop.value.code == 2 and "error: exp1 draws images" in capsys.readouterr().err


def test_a_net_that_another_process_trains_is_left_to_it(queue, held_elsewhere):
    state = training.state_folder("exp1", SIZE) / "state.pt"
    with held_elsewhere(state):
        assert work(SIZE, hours=1) == {"exp1": "another process is at work on it"}
    assert work(SIZE, hours=1) == {}


def test_time_is_up_inside_work_that_does_not_look_at_the_clock(queue, monkeypatch):
    def endless(*_, **__):
        signal.setitimer(signal.ITIMER_REAL, 0.01)  # time is up here, however long it took to come so far
        try:
            while True:
                pass
        except Exception:  # which must not swallow it
            pass

    before = signal.getsignal(signal.SIGALRM)
    with pytest.raises(TimeUp), until(time.time() + 0.5):
        while True:
            pass
    with until(time.time() + 3600):
        pass
    assert signal.getsignal(signal.SIGALRM) is before and signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)
    monkeypatch.setattr(net_locality, "measure", endless)
    monkeypatch.setattr(training_queue, "SHORTEST", 0.0)
    left = work(SIZE, hours=1)
    assert (
        left["exp1"] == "stopped while rendering or measuring; what was done is kept"
        and kept("exp1")["images"] == 16
    )


def test_the_command_line(queue, capsys, monkeypatch):
    wrong = (["--hours", "0"], ["--images", "3"], ["--preset", "huge"], ["--threads", "-1"])
    for words in (*wrong, ["--images", "0"], ["--patch-images", "0"]):
        with pytest.raises(SystemExit) as stop:
            command.main(["queue", *words])
        assert stop.value.code == 2
    said = capsys.readouterr().err
    assert (
        "need --hours > 0 and at least one batch" in said
        and "got 0 hours" in said
        and "--threads must be >= 1, got -1" in said
        and "small: images must be >= 1, got 0" in said
        and "small: patch_images must be >= 1, got 0" in said
        and "(" not in said.split("got ")[1]
    )
    monkeypatch.setenv("WORLD_SIZE", "4")  # a batch script's; under a launcher there is a RANK, too
    command.main(["queue", "--preset", "tiny", "--dry-run"])
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == ["exp1", "exp3", "color_1-3", "exp1_seed1"] and queue == []
    assert "0 of 800,000 images" in lines[1]
    command.main(["queue", "--preset", "tiny", "--hours", "1e-9"])
    assert "left in the queue:\nexp1 " in capsys.readouterr().out
    monkeypatch.setenv("WORLD_SIZE", "4")
    monkeypatch.setenv("RANK", "0")
    with pytest.raises(SystemExit):
        command.main(["queue", "--preset", "tiny", "--dry-run"])
    assert "the queue trains in one process" in capsys.readouterr().err


def test_every_experiment_has_its_place_in_the_queue_and_the_first_are_those_of_the_figures():
    assert len(set(QUEUE)) == len(QUEUE) and {name for name, _ in QUEUE} == set(EXPERIMENTS)
    assert [name for name, _ in QUEUE[:4]] == ["exp1", "exp2", "exp3_r2", "exp3"] and {
        ("exp1", 2),
        ("exp2", 2),
    } <= set(QUEUE[:10])
    assert [name for name, _ in QUEUE[-2:]] == list(ON_A_GPU)
    lengths = {name: preset("small").length(experiment(name)) for name, _ in QUEUE}
    assert lengths["exp1_1-6_x3"] == 3 * lengths["exp1_1-6"] == 3 * lengths["exp1"]
    assert lengths["exp3_r4"] == lengths["exp3"] == 4 * lengths["exp1"]  # each kind of net has one length


def test_the_color_nets_differ_from_each_other_in_one_field():
    many, one, five, single = COLOR
    assert [e.name for e in COLOR] == ["color_1-3", "color_single_1-3", "color_1-5", "color_1"]
    assert (one, five, single) == (
        replace(many, name=one.name, labels="single"),
        replace(many, name=five.name, objects=(1, 5)),
        replace(many, name=single.name, objects=(1, 1)),
    )
    assert many.condition == "color" and many.labels == "all"
    batch = loop.draw(tiny_data(), one, 64, torch.Generator().manual_seed(0))
    assert batch.cond.shape == (64, 8) and set(batch.cond.sum(1).tolist()) == {1.0}
