"""States that a kill, a full disk or a bad sector left behind: told apart in one sentence each, and nothing
lies about for good.
"""

import errno
import json
import os
import random
import resource
import signal
import threading
import zipfile
from dataclasses import asdict, replace

import pytest
import torch
from test_training import TINY, tiny_data

from lcs_utils import checkpoints, nets, paths, store
from lcs_utils.experiments import EXP1, EXP3, Experiment
from lcs_utils.presets import Preset, of_row, preset
from lcs_utils.resumable import read_state
from lcs_utils.store import remove_leftovers
from lcs_utils.training import command
from lcs_utils.training import run as training
from lcs_utils.training.data import Data
from lcs_utils.training.state import about, check_same

SHORT = replace(TINY, images=16, patch_images=16)


def run(folder, exp=EXP1, size=SHORT, **options):
    return training.run(exp, size, data=tiny_data(), folder=folder, output=folder / "net", **options)


def cut(path):
    path.write_bytes(path.read_bytes()[:-7])


def flip(path, at=None):
    """Flip one bit at a share of the file, by default inside the largest of its arrays."""
    data = bytearray(path.read_bytes())
    with zipfile.ZipFile(path) as archive:
        largest = max(archive.infolist(), key=lambda part: part.file_size)
    data[largest.header_offset + 200 if at is None else int(len(data) * at)] ^= 1
    path.write_bytes(bytes(data))


WHOLE = "state.pt is no whole saved state .*; remove it to train from the start"


@pytest.mark.parametrize(
    ("file", "damage", "words"),
    [
        ("state.pt", cut, WHOLE),
        ("state.pt", lambda path: path.write_bytes(b""), WHOLE),
        ("state.pt", lambda path: path.write_bytes(os.urandom(5000)), WHOLE),
        (
            "state.pt",
            flip,
            "state.pt is no whole saved state .its checksum says that .* was altered.; remove it to train",
        ),
        (
            "state.pt",
            lambda path: torch.save({"seen": torch.ones(2)}, path),
            "state.pt is the state of something else .*remove it",
        ),
        (
            "state.pt",
            lambda path: torch.save(
                {"seen": torch.ones(2), "optimizer": {"state": {}, "param_groups": 3}}, path
            ),
            "state.pt is the state of something else .*remove it",
        ),
        (
            "state.pt",
            lambda path: torch.save({"seen": torch.ones(2), "optimizer": 3}, path),
            "state.pt is the state of something else .*remove it",
        ),
        ("state.pt", lambda path: torch.save([1], path), WHOLE),
        (
            "run.json",
            lambda path: path.write_text("{"),
            "run.json is broken .*; remove it to go on from the state beside it unchecked",
        ),
        ("run.json", lambda path: path.write_bytes(b"\xff\xfe"), "run.json is broken"),
        (
            "finished.json",
            lambda path: path.write_text("[]"),
            "finished.json is broken .no JSON object.; remove it",
        ),
        (
            "loss.csv",
            lambda path: path.unlink(),
            "loss.csv is missing; write the one line images,loss,error,lr there .* or remove",
        ),
        (
            "loss.csv",
            lambda path: path.write_text("images,loss,error,lr\n16,?,1,1\n"),
            "loss.csv is broken .*could not convert",
        ),
        ("loss.csv", lambda path: path.write_text(""), "loss.csv is broken"),
    ],
)
def test_what_is_broken_is_named_with_its_remedy(tmp_path, file, damage, words):
    run(tmp_path)
    damage(tmp_path / file)
    before = (tmp_path / "net" / nets.WEIGHTS).read_bytes()
    with pytest.raises(ValueError, match=words) as caught:
        run(tmp_path, size=replace(SHORT, images=32))
    assert "\n" not in str(caught.value) and (tmp_path / "net" / nets.WEIGHTS).read_bytes() == before
    if file == "loss.csv":
        (tmp_path / file).write_text("images,loss,error,lr\n")
    else:
        (tmp_path / file).unlink()
    run(tmp_path, size=replace(SHORT, images=32))  # the remedy is one
    assert json.loads((tmp_path / "net" / "row.json").read_text())["images"] == 32


def test_no_flipped_bit_goes_by_unless_it_changes_nothing(tmp_path):
    path, draw = tmp_path / "state.pt", random.Random(0)
    value = {"seen": torch.tensor([8.0, 1.0]), "net": {"weight": torch.randn(64, 8)}, "step": 3}
    torch.save(value, path)
    whole, noticed, by_torch = path.read_bytes(), 0, 0

    def same(found):
        return found["step"] == 3 and all(
            torch.equal(a, b)
            for a, b in ((found["seen"], value["seen"]), (found["net"]["weight"], value["net"]["weight"]))
        )

    for _ in range(120):
        flip(path, draw.random())
        try:
            assert same(read_state(path))
        except ValueError:
            noticed += 1
        try:
            by_torch += not same(torch.load(path, weights_only=True))
        except Exception:
            pass
        path.write_bytes(whole)
    assert noticed > 60 and by_torch > 20, "torch alone reads altered weights without a word"


@pytest.mark.parametrize(
    "error",
    [
        OSError(errno.EMFILE, "Too many open files"),
        PermissionError(errno.EACCES, "Permission denied"),
        MemoryError(),
        RuntimeError("DefaultCPUAllocator: can't allocate memory"),
        torch.OutOfMemoryError("CUDA out of memory"),
    ],
)
def test_what_the_machine_lacks_is_no_fault_of_the_file(tmp_path, monkeypatch, error):
    """A lack of memory to read a state must not tell anybody to remove days of training."""
    torch.save({"seen": torch.tensor([8.0, 1.0])}, tmp_path / "state.pt")

    def fail(*_, **__):
        raise error

    with monkeypatch.context() as patch:
        patch.setattr(torch, "load", fail)
        with pytest.raises(type(error)) as caught:
            read_state(tmp_path / "state.pt")
    assert caught.value is error and read_state(tmp_path / "state.pt")


def test_a_full_disk_is_said_and_leaves_the_state_before(tmp_path):
    run(tmp_path)
    before = (tmp_path / "state.pt").read_bytes()
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (40_000, hard))  # a file cannot grow beyond, as on a full disk
    try:
        with pytest.raises(
            ValueError,
            match="state.pt cannot be written .* MiB are free on its disk.; make room and give the same",
        ):
            run(tmp_path, size=replace(SHORT, images=32))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert (tmp_path / "state.pt").read_bytes() == before and not list(tmp_path.glob(".*.tmp*"))
    run(tmp_path, size=replace(SHORT, images=32))


def test_what_killed_processes_left_goes_and_what_living_ones_write_stays(tmp_path):
    nobody = 2**22 + 1  # above every number that Linux gives to a process: none will get it meanwhile
    dead = [tmp_path / f".state.tmp{nobody}.pt", tmp_path / f".net.tmp{nobody}"]
    dead.append(tmp_path / f".state.tmp{nobody}.0a1b2c3d.pt")
    alive = tmp_path / f".state.tmp{os.getppid()}.0a1b2c3d.pt"
    dead[0].write_bytes(b"half")
    dead[2].write_bytes(b"half")
    dead[1].mkdir()
    alive.write_bytes(b"half")
    there = "0000" if store.MACHINE != "0000" else "0001"
    elsewhere = [tmp_path / f".state.tmp{2**22 + i}.{there}1234567{i}.pt" for i in range(2)]
    for path in elsewhere:
        path.write_bytes(b"half")
    os.utime(elsewhere[1], (0, 0))
    run(tmp_path)
    assert alive.exists() and not any(path.exists() for path in dead)
    assert [path.exists() for path in elsewhere] == [True, False]  # at work, perhaps; of a killed one


def test_a_net_put_aside_by_a_kill_between_two_renames_returns(tmp_path):
    run(tmp_path)
    weights, nobody = (tmp_path / "net" / nets.WEIGHTS).read_bytes(), 2**22 + 1
    (tmp_path / "net").rename(tmp_path / f".net.old{nobody}")  # `store.atomic_folder` was killed here
    remove_leftovers(tmp_path, "net")
    assert (tmp_path / "net" / nets.WEIGHTS).read_bytes() == weights
    (tmp_path / f".net.old{nobody}").mkdir()  # or here
    others = tmp_path / f".net_1-6.tmp{nobody}"  # being exported, perhaps by another machine
    others.mkdir()
    remove_leftovers(tmp_path, "net")
    assert (tmp_path / "net" / nets.WEIGHTS).read_bytes() == weights
    assert [path for path in tmp_path.glob(".*") if path.suffix != ".lock"] == [others]


def test_again_waits_for_the_training_at_work_before_it_removes_anything(tmp_path, monkeypatch, is_held):
    monkeypatch.setattr(paths, "RUNS", tmp_path)
    monkeypatch.setattr(command, "is_trained", lambda *_: True)
    began = threading.Event()
    state = training.state_folder("exp1", preset("tiny")) / "state.pt"
    state.parent.mkdir(parents=True)
    torch.save({"seen": torch.tensor([200_000.0, 1.0])}, state)
    (state.parent / "finished.json").write_text("{}")

    def run(*_, **__):
        assert is_held(state)  # to its end
        began.set()

    monkeypatch.setattr(training, "run", run)
    with store.exclusive(state):
        other = threading.Thread(target=command.main, args=(["exp1", "--again"],))
        other.start()
        assert not began.wait(1.0) and state.exists()
    other.join(60)
    assert began.is_set() and not state.exists()


def test_again_given_again_exports_what_a_full_disk_left(tmp_path, monkeypatch):
    """The last state is whole before its net is exported; the same command once more deleted it."""
    monkeypatch.setattr(paths, "RUNS", tmp_path)
    tiny = preset("tiny")
    state = training.state_folder("exp1", tiny) / "state.pt"
    state.parent.mkdir(parents=True)
    for seen, images, finished, stays in (
        (tiny.images, tiny.images, False, True),
        (tiny.images + tiny.batch - 1, tiny.images, False, True),  # the last batch may overshoot
        (tiny.images, 64_000, False, False),  # of a longer run
        (tiny.images, tiny.images, True, False),
        (64_000, tiny.images, True, False),
        (64_000, tiny.images, False, True),
    ):
        torch.save({"seen": torch.tensor([float(seen), 1.0])}, state)
        (state.parent / "finished.json").unlink(missing_ok=True)
        if finished:
            (state.parent / "finished.json").write_text("{}")
        command.begin(EXP1, replace(tiny, images=images), 0, again=True, remove=True)
        assert state.exists() == stays, (seen, images, finished)


def test_a_run_that_went_on_to_another_length_names_both_commands(tmp_path):
    """The learning rate follows the length, so neither command alone gives this net."""
    assert not run(tmp_path, size=TINY, deadline=0, command="A")
    longer = replace(TINY, images=TINY.images + 8 * training.LOG_EVERY * TINY.batch)
    for command_ in ("B", "B"):  # once more, without another length
        assert not run(tmp_path, size=longer, deadline=0, command=command_)
    assert run(tmp_path, size=longer, command="B")
    assert json.loads((tmp_path / "net" / "row.json").read_text())["command"] == "A && B"
    assert run(tmp_path / "plain", size=SHORT, command="C")
    assert json.loads((tmp_path / "plain" / "net" / "row.json").read_text())["command"] == "C"


def test_a_deadline_stops_between_two_lines_of_the_log_and_the_net_ends_with_the_same_bytes(tmp_path):
    straight, stopped = tmp_path / "straight", tmp_path / "stopped"
    assert run(straight, size=TINY)
    assert not run(stopped, size=TINY, deadline=0)
    assert command.images_seen(stopped) == training.LOG_EVERY * TINY.batch and not (stopped / "net").exists()
    assert run(stopped, size=TINY)
    for file in ("net/" + nets.WEIGHTS, "loss.csv"):
        assert (straight / file).read_bytes() == (stopped / file).read_bytes()


@pytest.mark.parametrize("at", [3, 10])  # between two steps, and after the last
def test_ctrl_c_saves_between_two_steps_and_the_net_ends_with_the_same_bytes(tmp_path, monkeypatch, at):
    straight, stopped, loop = tmp_path / "straight", tmp_path / "stopped", training.training_loop
    size = replace(SHORT, images=10 * SHORT.batch)
    assert run(straight, size=size)

    def interrupted(*arguments):
        for step, log in enumerate(loop(*arguments), 1):
            if step == at:
                signal.raise_signal(signal.SIGINT)  # in the middle of the step
            yield log

    monkeypatch.setattr(training, "training_loop", interrupted)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # tests may run in the background
    try:
        words = f"net is saved after {at * size.batch} images" if at < 10 else "is trained"
        with pytest.raises(KeyboardInterrupt, match=words.replace("net", "exp1")):
            run(stopped, size=size)
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
        with training.interrupts(True) as asked:
            signal.raise_signal(signal.SIGINT)
            with pytest.raises(KeyboardInterrupt):  # the second one stops at once
                signal.raise_signal(signal.SIGINT)
        with pytest.raises(KeyboardInterrupt), training.interrupts(False):
            signal.raise_signal(signal.SIGINT)
    finally:
        signal.signal(signal.SIGINT, before)
    assert asked and command.images_seen(stopped) == at * size.batch
    monkeypatch.setattr(training, "training_loop", loop)
    assert run(stopped, size=size)
    for file in ("net/" + nets.WEIGHTS, "loss.csv"):
        assert (straight / file).read_bytes() == (stopped / file).read_bytes()


def test_an_old_state_means_the_defaults_of_what_it_does_not_say(tmp_path):
    now = about(EXP1, TINY, 0)
    old = {key: value for key, value in now.items() if key not in ("normalize_label", "condition", "radius")}
    store.write_json(tmp_path / "run.json", old)
    check_same(tmp_path, now)
    check_same(tmp_path, now | {"net": now["net"] | {"normalize_label": False}})  # a net's setting likewise
    for changed in (
        about(replace(EXP1, normalize_label=True), TINY, 0),
        now | {"net": now["net"] | {"head_channels": 8}},
    ):
        with pytest.raises(ValueError, match="normalize_label: False there, True here|head_channels"):
            check_same(tmp_path, changed)
    store.write_json(
        tmp_path / "run.json", now | {"patch_net": {"channels": 8}}
    )  # which a state of before named as well
    check_same(tmp_path, now)
    with pytest.raises(ValueError, match="net: "):  # but not the other way round
        check_same(tmp_path, about(replace(EXP3, name="exp1", labels="all"), TINY, 0))
    store.write_json(tmp_path / "run.json", {key: value for key, value in now.items() if key != "sigma_data"})
    with pytest.raises(ValueError, match="sigma_data: None there, 0.5 here"):  # it has no default
        check_same(tmp_path, now)


@pytest.mark.parametrize(
    "exp",
    [Experiment("mine", (2, 3), "random", None, "color", True, 2), replace(EXP3, name="mine", radius=1)],
)
def test_a_row_says_all_that_was_trained(tmp_path, exp):
    size = replace(SHORT, name="mine")
    training.run(exp, size, 3, data=tiny_data(), folder=tmp_path, output=tmp_path / "net")
    row = json.loads((tmp_path / "net" / "row.json").read_text())
    assert of_row(row) == (exp, size)
    assert (row["seed"], row["device"], row["threads"]) == (3, "cpu", torch.get_num_threads()) and row[
        "dtype"
    ] == "float32"
    assert row["settings"]["learning_rate"] == size.learning_rate and row["settings"]["batch"] == 8
    card = (tmp_path / "net" / "README.md").read_text()
    assert "data of one's own (32 images" in card and "Made by" not in card  # no command made it


def test_a_net_that_is_kept_goes_on_in_its_own_precision(tmp_path):
    pipeline = checkpoints.load("exp3", "tiny")
    before = {name: value.clone() for name, value in pipeline.net.state_dict().items()}
    row = json.loads((nets.folder("exp3") / "row.json").read_text())
    checkpoints.save(pipeline, tmp_path / "net", row=row, loss_rows=[])
    after = pipeline.net.state_dict()
    assert {value.dtype for value in after.values()} == {torch.float32}
    assert all(torch.equal(after[name], value) for name, value in before.items())
    assert json.loads((tmp_path / "net" / "row.json").read_text())["sha256"] == row["sha256"]


def test_a_row_of_before_means_todays_experiment_and_preset_of_its_names():
    row = json.loads((paths.CHECKPOINTS / "tiny" / "exp3_r2" / "row.json").read_text())
    row = {key: row[key] for key in ("experiment", "objects", "labels", "radius", "preset")}
    assert of_row(row) == (replace(EXP3, name="exp3_r2", radius=2), preset("tiny"))
    assert isinstance(
        of_row(row | {"preset": "mine", "settings": {k: v for k, v in asdict(TINY).items() if k != "name"}})[
            1
        ],
        Preset,
    )
    with pytest.raises(
        ValueError,
        match="names no experiment and preset of ours must store theirs whole; 'settings' is wrong",
    ):
        of_row(row | {"preset": "mine"})


def test_a_state_and_a_row_of_before_the_rooms_are_read(tmp_path):
    """Kept from the code of before: a local net stopped after ten of its twenty steps, and its last row."""
    kept = paths.ROOT / "tests" / "data" / "before"
    for name in ("state.pt", "run.json", "loss.csv"):
        (tmp_path / name).write_bytes((kept / name).read_bytes())
    exp, size = of_row(json.loads((kept / "row.json").read_text()))
    assert exp == Experiment("before_local", labels="single", radius=2) and size.patch_images == 320
    generator = torch.Generator().manual_seed(0)
    data = Data(
        (torch.rand(12, 3, 32, 32, generator=generator) * 255).to(torch.uint8),
        torch.rand(12, 3, 2, generator=generator),
        torch.randint(0, 8, (12, 3), generator=generator),
    )
    assert command.images_seen(tmp_path) == 160
    assert training.run(exp, size, data=data, folder=tmp_path, output=tmp_path / "net")
    assert nets.verified_row(str(tmp_path / "net"))["images"] == 320
    curve = checkpoints.loss_curve(str(tmp_path / "net"))
    assert curve["images"][0] == 160  # its own line goes on
    spoiled = json.loads((tmp_path / "run.json").read_text()) | {"labels": "all"}
    store.write_json(tmp_path / "run.json", spoiled)
    with pytest.raises(ValueError, match="labels: 'all' there, 'single' here"):
        training.run(exp, size, data=data, folder=tmp_path, output=tmp_path / "other")


def test_rows_and_curves_of_nets_whose_weights_are_not_shipped():
    """A fresh clone has no weights of exp1_1; its curve, and the command of compressed rows, are there."""
    kept = checkpoints.kept("exp1_1")
    assert not list(kept.rglob("*.safetensors")) and checkpoints.loss_curve("exp1_1")["images"][-1] > 1000
    with pytest.raises(nets.CheckpointError, match="color_1-5"):
        checkpoints.kept("color_1-5")
    command = checkpoints.origin(paths.COUNTS / "tiny" / "features.csv.bz2")
    assert command.startswith("python -m lcs_utils.evaluation.features.net_features")


def test_a_local_net_has_no_normalized_label():
    """Its condition also says where the patch lies, which is no label to be counted."""
    with pytest.raises(ValueError, match="normalize_label is for nets that see the whole image"):
        replace(EXP3, normalize_label=True)
