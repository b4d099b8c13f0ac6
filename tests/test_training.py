"""Training: resumes to the bit after a kill, keeps what it promises about EMA and schedule, and refuses bad
input at once.
"""

import json
import os
import subprocess
import sys
import time
from dataclasses import replace

import numpy as np
import pytest
import torch
from accelerate import Accelerator

from lcs_utils import checkpoints, nets, paths, presets, store
from lcs_utils.clevr.labels import LABEL_POLICIES, LabelPolicy
from lcs_utils.clevr.loading import load
from lcs_utils.experiments import EXP1, EXP2, EXP3, EXPERIMENTS, Experiment, experiment
from lcs_utils.models.magnitude_preserving import MPConv
from lcs_utils.presets import PRESETS, Preset, preset
from lcs_utils.training import command, images, loop, pieces, rendered
from lcs_utils.training import run as training
from lcs_utils.training.state import ema_exponent, learning_rate

TINY_NET = dict(channels=16, channel_mult=[1], num_blocks=1, attention_levels=[], unshuffle=2)
TINY = Preset(
    "tiny",
    32,
    TINY_NET,
    TINY_NET,
    images=8 * 60,
    patch_images=8 * 60,
    batch=8,
    learning_rate=0.01,
    per_count=1,
    sigma_data=0.5,
)


def tiny_data():
    generator = torch.Generator().manual_seed(5)
    images = (
        torch.randint(0, 256, (32, 3, 1, 1), generator=generator).to(torch.uint8).expand(-1, -1, 32, 32)
    )  # learnable
    locations = torch.rand(32, 3, 2, generator=generator)
    colors = torch.randint(0, 8, (32, 3), generator=generator).to(torch.int8)
    locations[:16, 2], colors[:16, 2] = float("nan"), -1
    return training.Data(images, locations, colors)


@pytest.mark.parametrize(
    "change, words",
    [
        (
            lambda d: d._replace(images=d.images[:, :, :16]),
            r"uint8 \[n, 3, 32, 32\].* got 32 of \[3, 16, 32\]",
        ),
        (lambda d: d._replace(images=d.images.float()), r"got 32 of \[3, 32, 32\], float32"),
        (lambda d: d._replace(images=d.images[:0]), r"n at least 1; got 0 of"),
        (lambda d: d._replace(locations=d.locations[:9]), "locations must .*shape"),
        (lambda d: d._replace(colors=d.colors[:, :2]), "colors must .*shape"),
        (
            lambda d: d._replace(locations=d.locations * 2),
            r"locations must be shares of the image's side, -0.5 to 1.5, where there is a color",
        ),
        (lambda d: d._replace(locations=d.locations.nan_to_num(0.5)), "NaN where the color is -1"),
        (lambda d: d._replace(locations=d.locations.nan_to_num(-9.0)), "NaN where the color is -1"),
        (lambda d: d._replace(colors=torch.where(d.colors >= 0, 9, -1)), "colors must be 0..7, or -1"),
    ],
)
def test_data_of_ones_own_is_checked_before_any_work(change, words, tmp_path):
    with pytest.raises(ValueError, match=words):
        training.run(EXP1, TINY, data=change(tiny_data()), folder=tmp_path / "run", output=tmp_path / "net")
    with pytest.raises(TypeError, match="a Data of images, locations and colors"):
        training.run(EXP1, TINY, data=tuple(tiny_data()), folder=tmp_path / "run", output=tmp_path / "net")
    with pytest.raises(TypeError, match="images must be a tensor, got array"):
        rendered.check_data(tiny_data()._replace(images=tiny_data().images.numpy()), 32)
    with pytest.raises(TypeError, match="exp must be an Experiment, got 'exp1'"):
        training.run("exp1", TINY, folder=tmp_path / "run", output=tmp_path / "net")
    with pytest.raises(TypeError, match="size must be a Preset, such as .*, got 'tiny'"):
        training.run(EXP1, "tiny", folder=tmp_path / "run", output=tmp_path / "net")
    two = Experiment("mine", objects=(1, 2))
    with pytest.raises(ValueError, match="mine: images of 1-2 objects, but one of `data` has 3"):
        training.run(two, TINY, data=tiny_data(), folder=tmp_path / "run", output=tmp_path / "net")
    assert not list(tmp_path.iterdir())


def test_cores_are_counted_where_the_system_tells_no_affinity(monkeypatch):
    assert rendered.cores() >= 1
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)  # macOS
    monkeypatch.setattr(os, "cpu_count", lambda: 3)
    assert rendered.cores() == 3
    left = [path for path in (paths.ROOT / "lcs_utils").rglob("*.py") if "affinity(" in path.read_text()]
    assert [path.name for path in left] == ["rendered.py"]


def test_rendered_scenes_are_data_with_the_centers_outside_the_image_too():
    """1,783 of the 120,000 objects in the queue's scenes have such centers: they were refused."""
    data = tiny_data()
    data.locations[3, 0] = torch.tensor([1.1133, 0.4])
    data.locations[4, 1, 0] = -0.0713
    rendered.check_data(data, 32)


SCRIPT = """
import sys, time, torch
torch.set_num_threads(1)
sys.path.insert(0, {tests!r})
from pathlib import Path
from test_training import TINY, tiny_data
from lcs_utils.training import run as training
from lcs_utils.experiments import EXP3
folder, slow = Path(sys.argv[1]), float(sys.argv[2])
original = training.State.save
def save(state, path):
    original(state, path)
    time.sleep(slow)  # so that the kill comes in the middle of the run
training.State.save = save
training.run(EXP3, TINY, data=tiny_data(), folder=folder, output=folder / "net", save_every=0)
"""


def test_a_killed_run_resumes_and_ends_with_the_same_bytes(tmp_path):
    def start(folder, slow):
        script = SCRIPT.format(tests=os.path.dirname(__file__))
        return subprocess.Popen(
            [sys.executable, "-c", script, folder, str(slow)], cwd=paths.ROOT, stderr=subprocess.DEVNULL
        )

    straight, killed = tmp_path / "straight", tmp_path / "killed"
    process = start(killed, 3600)  # longer than the whole of the other one, however busy the machine
    try:
        assert start(straight, 0).wait() == 0
        while not (killed / "state.pt").exists() and process.poll() is None:
            time.sleep(0.1)
    finally:
        process.kill()
        process.wait()
    assert 0 < float(torch.load(killed / "state.pt", weights_only=True)["seen"][0]) < TINY.images
    assert not (killed / "net").exists()
    assert start(killed, 0).wait() == 0
    a, b = (folder / "net" / nets.WEIGHTS for folder in (straight, killed))
    assert a.read_bytes() == b.read_bytes()
    assert (straight / "loss.csv").read_text() == (killed / "loss.csv").read_text()
    assert checkpoints.load(str(straight / "net")).config.radius == EXP3.radius
    b.write_bytes(b.read_bytes()[:-1])
    with pytest.raises(
        nets.CheckpointError, match="truncated or altered.*: a net of your own is trained by training.run.run"
    ):
        checkpoints.load(str(killed / "net"))


def test_snapshots_are_checkpoints_and_change_nothing(tmp_path):
    size = replace(TINY, images=8 * 16)
    for name, snapshots in (("plain", False), ("kept", True)):
        training.run(
            EXP1,
            size,
            data=tiny_data(),
            folder=tmp_path / name,
            output=tmp_path / name / "net",
            snapshots=snapshots,
        )
    plain, kept = (tmp_path / name / "net" / nets.WEIGHTS for name in ("plain", "kept"))
    assert plain.read_bytes() == kept.read_bytes()
    assert training.snapshot_marks(size.images) == [1, 2, 4, 8, 16, 32, 64]
    found = sorted(int(p.name.partition("@")[2]) for p in (tmp_path / "kept").glob("exp1@*"))
    assert found == [8, 16, 32, 64]  # no net before the first batch is seen
    assert nets.verified_row(str(tmp_path / "kept" / "exp1@32"))["images"] == 32
    assert not list((tmp_path / "plain").glob("exp1@*"))
    assert nets.folder("exp1@32") == paths.RUNS / "tiny" / "training" / "exp1" / "exp1@32"


def test_a_state_of_another_training_is_not_gone_on_with(tmp_path):
    mine = replace(EXP1, name="mine")
    size = replace(TINY, images=8)
    where = dict(data=tiny_data(), folder=tmp_path, output=tmp_path / "net")

    def run(exp, size):
        return training.run(exp, size, command=str(size.images), **where)

    run(mine, size)
    run(mine, replace(size, images=16))  # longer is the same training
    run(replace(mine, times=2), size)  # however it is said
    run(mine, replace(size, images=16))  # and once more the same changes nothing
    assert json.loads((tmp_path / "net" / "row.json").read_text())["command"] == "8 && 16"
    for exp, other, words in (
        (replace(mine, labels="single"), size, "labels: 'all' there, 'single' here"),
        (mine, replace(size, sigma_data=0.9), "sigma_data: 0.5 there, 0.9 here"),
    ):
        with pytest.raises(ValueError, match=f"state of another training .{words}"):
            run(exp, other)
    data = where["data"]
    recolored = torch.where(data.colors >= 0, (data.colors + 1) % 8, data.colors)
    for other in (data._replace(colors=recolored), data._replace(images=255 - data.images)):
        where["data"] = other
        with pytest.raises(ValueError, match="data: '32 images, hash .*' there, '32 images, hash .*' here"):
            run(mine, size)
    described = json.loads((tmp_path / "run.json").read_text())
    store.write_json(tmp_path / "run.json", described | {"data": "rendered scenes"})
    with pytest.raises(ValueError, match="data: 'rendered scenes' there"):
        run(mine, size)
    with pytest.raises(ValueError, match="exp1 is the name of another experiment"):
        run(replace(EXP1, labels="single"), size)


def test_a_local_net_is_trained_for_as_long_as_the_preset_says(tmp_path):
    mine, size = replace(EXP3, name="mine"), replace(TINY, images=8, patch_images=24)
    training.run(mine, size, data=tiny_data(), folder=tmp_path, output=tmp_path / "net")
    row = json.loads((tmp_path / "net" / "row.json").read_text())
    assert row["images"] == 24 and row["data"].startswith(f"{len(tiny_data().images)} images")
    assert f"data of one's own ({row['data']})" in (tmp_path / "net" / "README.md").read_text()


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"labels": "half"}, "labels must be one of .*all.*, got 'half'"),
        ({"condition": "shape"}, "condition must be one of location, color"),
        ({"condition": "color", "radius": 3}, "radius >= 1 cells, with location conditions"),
        ({"radius": 0}, "radius >= 1"),
        ({"name": "a/b"}, "names folders and, with a seed, nets; got 'a/b'"),
        ({"name": ".."}, "got '..'"),
        ({"name": "x@3"}, "got 'x@3'"),
        ({"name": "abl_seed3"}, "ends in no _seed1.*got 'abl_seed3'"),
        ({"objects": (3, 2)}, "objects are .lowest, highest. >= 0, got .3, 2."),
    ],
)
def test_an_impossible_experiment_is_refused_when_it_is_written_down(changes, words):
    with pytest.raises(ValueError, match=words):
        replace(EXP1, **changes)


def test_a_label_policy_is_a_number_and_its_mean(monkeypatch):
    for policy in (2, lambda n: 2):
        monkeypatch.setitem(LABEL_POLICIES, "two", policy)
        with pytest.raises(TypeError, match=r"label policy two must be a LabelPolicy\(number, mean\), got"):
            replace(EXP1, name="mine", labels="two")
    two = LabelPolicy(lambda n, _: n.clamp(max=2), lambda n: min(n, 2))
    monkeypatch.setitem(LABEL_POLICIES, "two", two)
    mine = Experiment("mine", objects=(2, 3), labels="two")
    assert mine.labeled_share == 0.8
    assert set(loop.draw(tiny_data(), mine, 64, torch.Generator().manual_seed(0)).cond.sum(1).tolist()) == {2}


def test_scenes_of_any_number_of_objects_have_a_folder(tmp_path, monkeypatch):
    monkeypatch.setattr(paths, "RUNS", tmp_path)
    size = replace(TINY, resolution=16, per_count=2)
    for low, high, name in ((2, 2, "clevr16"), (2, 7, "clevr16_2-7")):
        data = rendered.load_data(
            replace(EXP1, name="mine", objects=(low, high)), size, torch.device("cpu"), 1
        )
        assert len(data.images) == 2 * (high - low + 1)
        assert (tmp_path / size.name / "data" / name).exists()  # not where the shipped presets' scenes are


def test_scenes_of_another_preset_are_not_taken_for_its_own(tmp_path, monkeypatch):
    monkeypatch.setattr(paths, "RUNS", tmp_path)
    few = replace(preset("tiny"), name="few", per_count=2)
    exp, cpu = replace(EXP1, name="one", objects=(1, 1)), torch.device("cpu")
    assert len(rendered.load_data(exp, few, cpu, 1).images) == 2
    more = replace(few, name="more", per_count=4)
    assert len(rendered.load_data(exp, more, cpu, 1).images) == 4  # in a folder of its own
    shipped = preset("tiny")
    longer = replace(shipped, images=10 * shipped.images)  # the same scenes for longer
    assert rendered.scenes_folder(longer, [1]) == rendered.scenes_folder(shipped, [1])
    monkeypatch.setitem(PRESETS, "more", more)  # as LCS_EXPERIMENTS would
    assert rendered.scenes_folder(more, [1]).is_relative_to(tmp_path / "more")
    with pytest.raises(ValueError, match="4.*2|2.*4"):
        rendered.load_data(exp, replace(more, per_count=2), cpu, 1)  # nor are they taken as they are
    monkeypatch.setattr(rendered.dataset, "LOOK", 99)  # of another renderer's look
    with pytest.raises(ValueError, match="look: .* there, 99 here"):
        rendered.load_data(exp, more, cpu, 1)


def test_fewer_images_than_a_state_has_seen_are_refused(tmp_path):
    size = replace(TINY, images=8 * 4)
    training.run(EXP1, size, data=tiny_data(), folder=tmp_path, output=tmp_path / "net")
    with pytest.raises(ValueError, match="exp1 was trained on 32 images already, more than the 16 asked for"):
        training.run(
            EXP1, replace(size, images=16), data=tiny_data(), folder=tmp_path, output=tmp_path / "net"
        )


def test_each_process_draws_its_own_data_after_a_resume_too(tmp_path, monkeypatch):
    size, drawn = replace(TINY, images=8 * 8), {}
    for process in (0, 1):
        folder = tmp_path / str(process)
        training.run(
            EXP1, replace(size, images=8 * 4), data=tiny_data(), folder=folder, output=tmp_path / "net"
        )
        seen, draw = [], loop.draw
        monkeypatch.setattr(Accelerator, "process_index", property(lambda self, process=process: process))
        monkeypatch.setattr(loop, "draw", lambda *args: seen.append(draw(*args)) or seen[-1])  # noqa: B023
        training.run(EXP1, size, data=tiny_data(), folder=folder, output=tmp_path / "net")
        monkeypatch.undo()
        drawn[process] = torch.cat([batch.cond for batch in seen])
    assert drawn[0].shape == drawn[1].shape and not torch.equal(drawn[0], drawn[1])


@pytest.mark.parametrize("exp", [EXP1, EXP3])
def test_a_batch_in_pieces_is_the_same_step(exp):
    """Gradients add up over the pieces; with a wrong weight for them the nets would differ at once."""
    whole, split = (train(exp, replace(TINY, at_once=n), steps=3)[1] for n in (16, 3))
    for a, b in zip(whole, split, strict=True):
        assert a.loss == pytest.approx(b.loss, rel=1e-4) and a.error == pytest.approx(b.error, rel=1e-4)
    batch = loop.draw(tiny_data(), exp, 8, torch.Generator().manual_seed(0))
    found = list(pieces.parts(batch, batch.x0, torch.arange(len(batch.x0)), 3))
    assert [len(x) for x, _, _ in found] == [3] * (len(batch.x0) // 3) + [len(batch.x0) % 3]
    assert torch.equal(torch.cat([part.cond for _, _, part in found]), batch.cond)
    assert all((part.valid is None) == (exp is EXP1) for _, _, part in found)


def test_patches_larger_than_the_image_go_through_the_net_in_fewer_at_once(monkeypatch):
    """64 patches of r = 15 at 128 px would take 150 GiB, more than any GPU of the kind has."""
    paper, names = preset("paper"), ("exp1", "exp3", "exp3_r5", "exp3_r15")
    assert [paper.side(experiment(name)) for name in names] == [128, 56, 88, 248]
    assert [paper.together(experiment(name)) for name in names] == [64, 64, 64, 17]
    for size in (preset("tiny"), preset("small")):  # nets that were trained keep their bytes
        assert {size.together(exp) for exp in EXPERIMENTS.values()} == {size.at_once}
    asked, gradients = [], loop.gradients
    monkeypatch.setattr(loop, "gradients", lambda *given: asked.append(given[-1]) or gradients(*given))
    monkeypatch.setattr(presets, "PIXELS", 5 * 31**2)
    for exp in (EXP1, experiment("exp3_r15")):
        train(exp, replace(TINY, at_once=16, patch_images=TINY.batch), steps=1)
    assert asked == [16, 5]


def test_processes_that_cannot_share_a_batch_are_refused(monkeypatch):
    monkeypatch.setattr(Accelerator, "num_processes", property(lambda self: 3))
    with pytest.raises(ValueError, match="a batch of 8 cannot be shared evenly by 3 processes"):
        train(EXP1)


def test_a_state_from_another_kind_of_device_goes_on_with_fresh_draws(tmp_path):
    state = training.start(EXP1, TINY, 0, torch.device("cpu"))
    state.save(tmp_path / "state.pt")
    value = torch.load(tmp_path / "state.pt", weights_only=True)
    torch.save(
        value | {"generator": torch.zeros(16, dtype=torch.uint8), "seen": torch.tensor([24.0, 1.0])},
        tmp_path / "cuda.pt",
    )
    draws = []
    for key in ((0, 0), (0, 1), (1, 0), (0, 0)):  # seed and process
        state.load(tmp_path / "cuda.pt", key)
        draws.append(float(torch.rand(1, generator=state.generator)))
    assert state.seen[0] == 24 and len(set(draws)) == 3 and draws[0] == draws[3]


def test_bfloat16_carries_the_gradients_of_a_large_image_and_float16_does_not():
    """Why no preset computes in float16: the loss is a mean, and its gradients there fall below what
    float16 can hold.
    """
    assert {net["dtype_inside"] for p in PRESETS.values() for net in (p.net, p.patch_net)} == {"bfloat16"}
    exact = torch.full((4,), 1.0 / (2048 * 3 * 128 * 128))
    assert (exact.to(torch.bfloat16).float() / exact - 1).abs().max() < 0.01 and bool(
        (exact.half() == 0).all()
    )


TWO = """
import sys, torch
torch.set_num_threads(1)
sys.path.insert(0, {tests!r})
from dataclasses import replace
from pathlib import Path
from accelerate import PartialState
from test_training import TINY, tiny_data
from lcs_utils.training import loop
from lcs_utils.training import run as training
from lcs_utils.experiments import EXP1
folder, rank, drawn, draw = Path(sys.argv[1]), PartialState(cpu=True).process_index, [], loop.draw
loop.draw = lambda *args: drawn.append(draw(*args)) or drawn[-1]
states, start = [], training.start
training.start = lambda *args: states.append(start(*args)) or states[-1]
for images in (16, 32):  # the second run goes on from the first
    training.run(EXP1, replace(TINY, images=images), data=tiny_data(), folder=folder, output=folder / "net")
torch.save(torch.cat([batch.cond for batch in drawn]), folder / f"drawn_{{rank}}.pt")
torch.save([state.objective.state_dict() for state in states], folder / f"weights_{{rank}}.pt")
"""


def test_two_processes_share_each_batch_and_go_on_together(tmp_path):
    (tmp_path / "two.py").write_text(TWO.format(tests=os.path.dirname(__file__)))
    launch = [
        sys.executable,
        "-m",
        "torch.distributed.run",
        "--standalone",
        "--nproc_per_node",
        "2",
        tmp_path / "two.py",
        tmp_path,
    ]
    env = os.environ | {"CUDA_VISIBLE_DEVICES": "", "PYTHONPATH": str(paths.ROOT)}
    done = subprocess.run(launch, cwd=paths.ROOT, env=env, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-2000:]
    first, second = (torch.load(tmp_path / f"drawn_{rank}.pt", weights_only=True) for rank in (0, 1))
    assert first.shape == second.shape == (16, 256) and not torch.equal(
        first, second
    )  # half of 32 images each, others
    weights, others = (torch.load(tmp_path / f"weights_{rank}.pt", weights_only=True) for rank in (0, 1))
    for mine, other in zip(weights, others, strict=True):  # after 16 images, and after 32
        assert all(torch.equal(mine[name], other[name]) for name in mine)
    assert not all(torch.equal(weights[0][name], weights[1][name]) for name in weights[0])
    assert json.loads((tmp_path / "net" / "row.json").read_text())["images"] == 32


def train(exp, size=TINY, steps=60, seed=0):
    accelerator = Accelerator(mixed_precision="no", cpu=True)  # as the data
    state = training.start(exp, replace(size, images=size.batch * steps), seed, accelerator.device)
    logs = list(
        loop.training_loop(state, tiny_data(), exp, replace(size, images=size.batch * steps), accelerator)
    )
    return state, logs


@pytest.mark.parametrize("exp", [EXP1, EXP2, replace(EXP1, condition="color")])
def test_a_few_steps_lower_the_error_and_keep_weights_on_the_sphere(exp):
    state, logs = train(exp)
    first, last = (sum(log.error for log in part) / 15 for part in (logs[:15], logs[-15:]))
    assert last < 0.97 * first
    for module in state.objective.modules():
        if isinstance(module, MPConv):
            rms = module.weight.square().flatten(1).mean(1).sqrt()
            assert torch.allclose(rms, torch.ones_like(rms), atol=1e-3)


def test_images_on_disk_are_those_of_the_folder_and_move_to_the_device_where_they_fit(tmp_path, monkeypatch):
    monkeypatch.setattr(paths, "RUNS", tmp_path)
    size = replace(TINY, resolution=16, per_count=3)
    data = rendered.load_data(EXP1, size, torch.device("cpu"), 1)
    arrays = load(rendered.scenes_folder(size, range(1, 4)))
    assert np.array_equal(data.locations, arrays["locations"], equal_nan=True) and np.array_equal(
        data.colors, arrays["colors"]
    )
    in_memory = training.Data(torch.from_numpy(arrays["images"]), data.locations, data.colors)
    drawn = [loop.draw(d, EXP1, 8, torch.Generator().manual_seed(3)) for d in (data, in_memory)]
    assert torch.equal(drawn[0].x0, drawn[1].x0) and torch.equal(drawn[0].cond, drawn[1].cond)
    n_bytes = arrays["images"].nbytes
    assert torch.equal(images.within(data.images, n_bytes, torch.device("cpu")), in_memory.images)
    assert images.within(data.images, n_bytes - 1, torch.device("cpu")) is data.images


def test_crops_are_cut_anywhere_from_an_image_without_objects():
    data, exp = tiny_data(), Experiment("mine", (0, 3), labels="none", crop=16)
    empty = data._replace(
        locations=torch.full_like(data.locations, float("nan")), colors=torch.full_like(data.colors, -1)
    )
    for given in (data, empty):
        assert loop.draw(given, exp, 8, torch.Generator().manual_seed(0)).x0.shape == (8, 3, 16, 16)
    with pytest.raises(ValueError, match="no labels, no radius, and objects to cut"):
        replace(exp, objects=(0, 0))


def test_the_same_data_in_other_numbers_are_the_same_data():
    data = tiny_data()
    other = data._replace(locations=data.locations.double(), colors=data.colors.long())
    assert rendered.described(data) == rendered.described(other)
    assert rendered.described(data) != rendered.described(data._replace(locations=data.locations / 2))


def test_a_nan_stops_the_run_before_it_spreads():
    accelerator = Accelerator(cpu=True)
    state = training.start(EXP1, TINY, 0, accelerator.device)
    with torch.no_grad():
        state.objective.net.out_gain.fill_(float("nan"))
    with pytest.raises(FloatingPointError, match="nan after 0 images"):
        next(loop.training_loop(state, tiny_data(), EXP1, TINY, accelerator))


def test_schedule_and_ema():
    def lr(images):
        return learning_rate(images, 1000, 1.0)

    assert lr(0) == 0 and lr(30) == pytest.approx(1) and lr(250) == pytest.approx(1) and lr(1000) == 0
    assert lr(500) == pytest.approx(2**-0.5) and lr(900) < lr(750)
    exponent = ema_exponent(0.05)  # EDM2 lists gamma = 16.97 for 0.05, 6.94 for 0.10
    assert exponent == pytest.approx(16.97, abs=0.01) and ema_exponent(0.10) == pytest.approx(6.94, abs=0.01)
    # the profile of the weights t^gamma has relative standard deviation 0.05
    average, weights = 0.0, torch.arange(1, 5001, dtype=torch.float64)
    for t in weights.tolist():
        average += (1 - (1 - 1 / t) ** (exponent + 1)) * (t - average)
    assert average / 5000 == pytest.approx((exponent + 1) / (exponent + 2), rel=1e-3)


def test_labels_are_what_the_policy_says():
    data, generator = tiny_data(), torch.Generator().manual_seed(0)
    totals = {exp.name: loop.draw(data, exp, 64, generator).cond.sum(1) for exp in (EXP1, EXP2)}
    assert set(totals["exp2"].tolist()) == {1.0} and set(totals["exp1"].tolist()) == {2.0, 3.0}
    patches = loop.draw(data, EXP3, 64, generator)
    assert patches.x0.shape == (128, 3, 14, 14) and patches.cond.shape == (128, 51)


def test_bad_names_list_the_allowed(capsys, monkeypatch, tmp_path):
    with pytest.raises(ValueError, match="unknown experiment 'exp9'; allowed: exp1, exp2, exp3"):
        experiment("exp9")
    with pytest.raises(ValueError, match="unknown preset 'huge'; allowed: tiny, small, medium, paper"):
        preset("huge")
    for arguments in (["exp9"], ["exp1", "--preset", "huge"], ["exp1", "--images", "3"]):
        with pytest.raises(SystemExit) as stop:
            command.main(arguments)
        assert stop.value.code == 2
    assert "allowed" in capsys.readouterr().err
    with (
        monkeypatch.context() as installed,
        pytest.raises(nets.CheckpointError, match="or set LCS_ROOT to a clone"),
    ):
        installed.setattr(paths, "DATA", tmp_path / "data")
        installed.setattr(paths, "CHECKPOINTS", tmp_path / "data" / "checkpoints")
        nets.verified_row(str(tmp_path / "exp1"))
    by_hand = r"there are: .*\); a net of your own is trained by training.run.run$"
    with pytest.raises(nets.CheckpointError, match="no checkpoint 'nothing' of preset 'tiny' .*" + by_hand):
        checkpoints.load("nothing")
    with pytest.raises(nets.CheckpointError, match=f"no checkpoint 'nothing' in {tmp_path} .*{by_hand}"):
        checkpoints.load(str(tmp_path / "nothing"))
    assert all(name == e.name for name, e in EXPERIMENTS.items())
