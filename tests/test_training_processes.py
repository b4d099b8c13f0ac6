"""Batches drawn ahead, states saved by the clock, several processes: the same bytes as without, and every
refusal one sentence.
"""

import json
import os
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from test_training import TINY, tiny_data
from torch import multiprocessing

from lcs_utils import nets, paths, store
from lcs_utils.clevr import dataset
from lcs_utils.diffusion import add_noise, training_sigmas
from lcs_utils.experiments import EXP1, EXP3, scene_counts
from lcs_utils.presets import preset
from lcs_utils.training import ahead, command, launch, loop, rendered
from lcs_utils.training import data as training_data
from lcs_utils.training import run as training
from lcs_utils.training.images import ImagesOnDisk
from lcs_utils.training.state import processes_of

SHORT = replace(TINY, batch=2, images=2 * 20, patch_images=2 * 20)


class OnDisk:
    """Images that are no tensor, so that batches are drawn ahead; it says which threads asked for them."""

    device = torch.device("cpu")

    def __init__(self, images):
        self.images, self.threads = images, set()

    def __len__(self):
        return len(self.images)

    def __getitem__(self, index):
        if len(index) == SHORT.batch:  # others are looked at before anything begins
            self.threads.add(threading.current_thread().name)
        return self.images[index]


def disk_data():
    data = tiny_data()
    return data._replace(images=OnDisk(data.images))


def run(folder, data, exp=EXP1, size=SHORT, **options):
    return training.run(exp, size, data=data, folder=folder, output=folder / "net", **options)


def bytes_of(folder):
    state = torch.load(folder / "state.pt", weights_only=True)
    state["seen"] = state["seen"][:1]  # not the seconds
    files = [(folder / name).read_bytes() for name in ("loss.csv", f"net/{nets.WEIGHTS}")]
    return files, json.dumps(state, default=lambda part: part.tolist())


@pytest.mark.parametrize("exp", [EXP1, EXP3])
def test_twenty_steps_with_batches_drawn_ahead_are_the_same_bytes(tmp_path, exp):
    data = disk_data()
    run(tmp_path / "memory", tiny_data(), exp)
    run(tmp_path / "disk", data, exp)
    assert bytes_of(tmp_path / "memory") == bytes_of(tmp_path / "disk")
    assert threading.current_thread().name not in data.images.threads  # it was another that read


def test_draws_are_those_of_one_loop_and_leave_the_generator_where_it_was():
    """Against the order in which training drew before: index and labels, noise levels, noise."""
    generators = [torch.Generator().manual_seed(3) for _ in range(2)]
    made = ahead.draws(disk_data(), EXP1, 8, 4, generators[0], loop.noisy)
    for batch, sigma, x_t in made:
        plain = training_data.draw(tiny_data(), EXP1, 8, generators[1])
        levels = training_sigmas(8, generators[1])
        assert torch.equal(batch.x0, plain.x0) and torch.equal(sigma, levels)
        assert torch.equal(x_t, add_noise(plain.x0, levels, generators[1]))
        assert torch.equal(generators[0].get_state(), generators[1].get_state())
    with pytest.raises(ZeroDivisionError):  # what goes wrong ahead is raised here
        list(ahead.draws(disk_data(), EXP1, 8, 2, generators[0], lambda *_: 1 / 0))


class Killed(BaseException):
    pass


def test_a_state_saved_within_a_line_of_the_log_ends_with_the_same_bytes(tmp_path, monkeypatch):
    size = replace(SHORT, images=2 * 60)
    run(tmp_path / "straight", disk_data(), size=size)
    save, saved = training.State.save, []

    def save_and_stop(state, path):
        save(state, path)
        saved.append(int(state.seen[0]))
        if len(saved) == 27:
            raise Killed

    monkeypatch.setattr(training, "SAVING", 0)
    monkeypatch.setattr(training.State, "save", save_and_stop)
    with pytest.raises(Killed):
        run(tmp_path / "killed", disk_data(), size=size, save_every=0)
    assert saved[:2] == [2, 4]  # by the clock, here at every step
    monkeypatch.undo()
    run(tmp_path / "killed", disk_data(), size=size)
    assert bytes_of(tmp_path / "straight") == bytes_of(tmp_path / "killed")
    assert (tmp_path / "killed" / "loss.csv").read_text().count("\n") == 3  # a header, 50 and 10 steps


def test_states_are_saved_so_seldom_that_saving_is_a_fiftieth_of_the_time(tmp_path, monkeypatch):
    now = [0.0]
    monkeypatch.setattr(training.time, "time", lambda: now.__setitem__(0, now[0] + 1.0) or now[0])
    saves = []
    monkeypatch.setattr(training.State, "save", lambda state, _: saves.append(int(state.seen[0]) // 2))
    run(tmp_path, tiny_data(), size=replace(SHORT, images=2 * 90), save_every=10.0)
    assert 8 <= saves[0] <= 12 and saves[1] - saves[0] >= 45  # a save takes a second or two of this clock


def test_states_and_rows_of_before_processes_were_kept_mean_one(tmp_path):
    run(tmp_path, tiny_data())
    row = json.loads((tmp_path / "net" / "row.json").read_text())
    now = json.loads((tmp_path / "run.json").read_text())
    assert row["processes"] == now.pop("processes") == [1]
    store.write_json(tmp_path / "run.json", now)
    state = torch.load(tmp_path / "state.pt", weights_only=True)
    del state["recent"]
    torch.save(state, tmp_path / "state.pt")
    run(tmp_path, tiny_data(), size=replace(SHORT, images=2 * 30))
    assert json.loads((tmp_path / "run.json").read_text())["processes"] == [1]
    assert processes_of(tmp_path, 1) == [1] and processes_of(tmp_path, 4) == [1, 4]
    assert processes_of(tmp_path / "new", 4) == [4]
    (tmp_path / "run.json").unlink()
    assert processes_of(tmp_path, 2) == [1, 2]


def test_scenes_are_hashed_once_and_again_when_they_were_written(tmp_path, monkeypatch):
    monkeypatch.setattr(paths, "RUNS", tmp_path)
    size, hashed, verify = replace(TINY, resolution=16, per_count=3), [], dataset.verify
    monkeypatch.setattr(
        dataset,
        "verify",
        lambda folder, counts=None, checksums=True: (
            hashed.append(checksums) or verify(folder, counts, checksums)
        ),
    )

    def load():
        return rendered.load_data(EXP1, size, torch.device("cpu"), 1)

    load(), load()
    assert hashed.count(True) == 1
    shard = next(rendered.scenes_folder(size, scene_counts(EXP1)).glob("*.npz"))
    data = bytearray(shard.read_bytes())
    data[-200] ^= 1
    whole = shard.read_bytes()
    shard.write_bytes(bytes(data))
    with pytest.warns(UserWarning, match=shard.name):  # rendered again, and checked again
        load()
    assert shard.read_bytes() == whole and hashed.count(True) == 2


def test_many_readers_give_the_images_asked_for():
    class Scenes:
        column = staticmethod(lambda name, index: index[:, None] * 2)

    images = ImagesOnDisk(Scenes)
    index = torch.randperm(100, generator=torch.Generator().manual_seed(0))
    assert torch.equal(images[index], index[:, None] * 2) and torch.equal(
        images[index[:3]], index[:3, None] * 2
    )


@pytest.mark.parametrize(
    ("words", "variables", "message"),
    [
        (
            ["exp1"],
            {"ACCELERATE_USE_CPU": "True", "MASTER_PORT": "29500"},
            "`accelerate launch` was asked for several processes and started this one only",
        ),
        (["exp1", "--num-processes", "3"], {}, "a batch of 64 cannot be shared evenly by 3 processes"),
        (["exp1", "--num-processes", "0"], {}, "--num-processes must be at least 1, got 0"),
        (["exp1", "--threads", "-1"], {}, "--threads must be >= 1, got -1"),
        (["exp9", "--num-processes", "2"], {}, "unknown experiment 'exp9'"),
        (["exp1", "--gpu"], {}, "--gpu: torch finds no GPU here"),
        (["exp1", "--preset", "tiny_3"], {}, "a trial of 3 images is less than one batch of 64"),
    ],
)
def test_a_refusal_is_one_sentence_before_any_process_starts(words, variables, message, monkeypatch, capsys):
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)  # also where there is a GPU
    monkeypatch.setattr(command, "launch", lambda *_: pytest.fail("processes were started"))
    with pytest.raises(SystemExit) as stop:
        command.main([*words, "--again"])
    error = capsys.readouterr().err
    assert stop.value.code == 2 and message in error and error.count("\n") == 1


def test_a_batch_script_s_world_size_does_not_make_this_one_of_several(monkeypatch):
    started = []
    monkeypatch.setenv("WORLD_SIZE", "1")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)  # also where there is one GPU
    monkeypatch.setattr(command, "launch", lambda _, words, count: started.append(count))
    command.main(["exp1", "--preset", "tiny_640", "--num-processes", "2"])
    assert started == [2] and "WORLD_SIZE" not in os.environ


WORK = """
import os, sys
from lcs_utils.training.launch import launch

def work(words):
    # in one piece, for another process prints too
    os.write(1, f"{words} {os.environ['RANK']} {os.environ['WORLD_SIZE']}\\n".encode())
    if os.environ["RANK"] == "0":
        sys.exit("refused, in one sentence")
    import time
    time.sleep(600)

if __name__ == "__main__":
    launch(work, ["exp1"], 2)
"""


def test_one_process_that_refuses_ends_the_others_without_a_traceback(tmp_path):
    (tmp_path / "work.py").write_text(WORK)
    env = os.environ | {"PYTHONPATH": str(paths.ROOT)}
    done = subprocess.run(
        [sys.executable, tmp_path / "work.py"], env=env, capture_output=True, text=True, timeout=200
    )
    assert done.returncode == 1 and "['exp1'] 0 2" in done.stdout
    assert done.stderr.count("refused, in one sentence") == 1 and "Traceback" not in done.stderr


def test_a_process_that_the_system_ended_is_named(monkeypatch, capsys):
    def spawn(*_, **__):
        raise multiprocessing.ProcessExitedException(
            "", error_index=1, error_pid=7, exit_code=-9, signal_name="SIGKILL"
        )

    monkeypatch.setattr(multiprocessing, "spawn", spawn)
    with pytest.raises(SystemExit) as stop:
        launch.launch(print, [], 2)
    assert stop.value.code == 137
    assert "process 1 was ended by SIGKILL" in capsys.readouterr().err


SHARES = """
import os
import torch
from accelerate import Accelerator
from lcs_utils.training.data import Batch
from lcs_utils.training.launch import launch
from lcs_utils.training.pieces import gradients

def work(words):
    accelerator = Accelerator(cpu=True)
    own, weight = torch.full((2,), float(os.environ["RANK"])), torch.ones(1, requires_grad=True)
    objective = lambda x_t, sigma, batch: (x_t * weight, 3 * x_t.detach())
    found = gradients(objective, accelerator, Batch(own, own, None), own, own, 2)
    os.write(1, f"{found} ".encode())

if __name__ == "__main__":
    launch(work, [], 2)
"""


def test_loss_and_error_are_of_all_processes(tmp_path):
    """One process has seen 0, the other 1."""
    (tmp_path / "shares.py").write_text(SHARES)
    env = os.environ | {"PYTHONPATH": str(paths.ROOT)}
    done = subprocess.run(
        [sys.executable, tmp_path / "shares.py"], env=env, capture_output=True, text=True, timeout=200
    )
    assert done.stdout == "(0.5, 1.5) " * 2, done.stderr[-2000:]


ALONE = """
import os, signal, sys, time
from lcs_utils.training.launch import launch

def work(words):
    os.write(1, f"{os.getpid()} ".encode())
    time.sleep(600)

if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # as a shell script's `&` starts it
    launch(work, [], 2)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="others do not tell a process that its parent ended")
def test_processes_end_with_the_one_that_launched_them(tmp_path):
    (tmp_path / "alone.py").write_text(ALONE)
    env = os.environ | {"PYTHONPATH": str(paths.ROOT)}
    launcher = subprocess.Popen([sys.executable, tmp_path / "alone.py"], env=env, stdout=subprocess.PIPE)
    said = b""
    while said.count(b" ") < 2:
        said += os.read(launcher.stdout.fileno(), 100)
    launcher.kill()
    launcher.wait()
    children = [Path(f"/proc/{pid}/stat") for pid in said.decode().split()]
    for _ in range(600):
        if not any(path.exists() and path.read_text().split()[2] != "Z" for path in children):
            return
        time.sleep(0.1)
    pytest.fail("they train on")


@pytest.mark.parametrize("words", [["exp1"], ["measure", "exp1"], ["scenes", "exp1"]])
def test_ctrl_c_ends_a_command_in_one_line(words, tmp_path):
    """From its first line on; nothing of the machine's is asked for, so nothing is written."""
    main = "import runpy, signal, sys; signal.signal(signal.SIGINT, signal.default_int_handler); "
    main += "import lcs_utils.training.asked as c; c.preset = lambda _: signal.raise_signal(signal.SIGINT); "
    main += "import lcs_utils.training.jobs as j; j.preset = c.preset; "
    main += f"sys.argv[1:] = {words!r}; runpy.run_module('lcs_utils.training', run_name='__main__')"
    env = os.environ | {"PYTHONPATH": str(paths.ROOT), "LCS_RUNS": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", main], env=env, capture_output=True, text=True, timeout=200)
    assert done.returncode == 130 and done.stderr == "stopped; the same command goes on from there\n"


def test_a_trial_is_narrow_short_and_apart():
    size = preset("tiny_2000")
    assert (size.images, size.patch_images, size.per_count, size.resolution) == (2000, 2000, 500, 32)
    assert size.net["channels"] < preset("tiny").net["channels"] and preset("paper_4096").batch == 2048
    folder = rendered.scenes_folder(size, range(1, 4))
    assert folder == paths.RUNS / "tiny_2000" / "data" / "clevr32"
    assert rendered.scenes_folder(preset("tiny"), range(1, 4)) == paths.RUNS / "data" / "clevr32"
    for name in ("tiny_", "tiny_0", "tiny_x", "huge_2000"):
        with pytest.raises(ValueError, match="unknown preset"):
            preset(name)
