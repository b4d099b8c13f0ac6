"""The counter: exact decoding of known maps, real accuracy on fresh renders, and refusal of what is no
picture of CLEVR.
"""

import json
import math
import shutil
from dataclasses import replace

import numpy as np
import pytest
import torch

from lcs_utils import paths
from lcs_utils.clevr.conditions import GRID_SIZE, location_grid
from lcs_utils.clevr.render import render
from lcs_utils.clevr.scenes import COLORS, MATERIALS, SHAPES, scene_at
from lcs_utils.counter import accuracy as counter_accuracy
from lcs_utils.counter import command as counter_command
from lcs_utils.counter import corruptions
from lcs_utils.counter import scenes as counter_scenes
from lcs_utils.counter import training as counter_training
from lcs_utils.counter.accuracy import Found, calibration_error, matched, references, wilson
from lcs_utils.counter.card import model_card
from lcs_utils.counter.cycles import numbers
from lcs_utils.counter.net import (
    FOLDER,
    WEIGHTS,
    Counts,
    ObjectCounter,
    enlarged,
    expected_objects,
    folder,
    locate,
    sizes,
)
from lcs_utils.counter.shipped import PLAUSIBLE, SECOND
from lcs_utils.counter.training import (
    BATCH,
    CLEAN,
    PEAK,
    RAMP,
    WORN,
    Data,
    begin_with,
    draw_batch,
    losses,
    shifted,
    shown,
)
from lcs_utils.diffusion import from_uint8
from lcs_utils.nets import CheckpointError


@pytest.fixture(scope="module")
def counter():
    return ObjectCounter.from_pretrained()


@pytest.fixture(scope="module")
def renders():
    """Sixty fresh scenes: five for each of 0-6 objects at CLEVR's distances and of 1-5 test locations;
    images, centers, counts.
    """
    wanted = [("clevr", n) for n in range(7)] + [("layout", n) for n in range(1, 6)]
    parts = [counter_scenes.held_out(kind, n, 5, 64, seed=2) for kind, n in wanted]
    images, centers, *_ = map(torch.from_numpy, counter_scenes.join(parts))
    return from_uint8(images), centers, torch.isfinite(centers[..., 0]).sum(1)


def test_counts_and_places_on_fresh_renders(counter, renders):
    images, centers, truth = renders
    counts = counter(images)
    assert float((counts.count == truth).float().mean()) > 0.85
    assert float(((counts.count - truth).abs() <= 1).float().mean()) > 0.95
    exact = counts.count == truth
    assert bool((torch.isfinite(counts.centers[..., 0]).sum(1) == counts.count).all())
    near = torch.cdist(centers[exact].nan_to_num(9.0), counts.centers[exact].nan_to_num(-9.0)).amin(2)
    near = near[torch.isfinite(centers[exact][..., 0])]
    assert float((near < 1 / GRID_SIZE).float().mean()) > 0.95
    cells = location_grid(counts.centers, torch.isfinite(counts.centers[..., 0])) > 0
    assert float((cells == counts.cells).float().mean()) == 1.0


def test_empty_scene_counts_nothing_and_the_wrong_image_count_is_noticed(counter, renders):
    images, _, truth = renders
    assert int(counter(images[truth == 0]).count.max()) == 0
    shuffled = counter(images).count == truth.roll(
        7
    )  # negative case: other images' counts do not pass as accuracy
    assert float(shuffled.float().mean()) < 0.5


def test_an_image_counts_alone_as_among_others_and_none_count_nothing(counter, renders):
    images = renders[0][:40]  # more than go through the net together
    together = counter(images)
    for i in (0, 31, 32, 39):
        alone, n = counter(images[i : i + 1]), int(together.count[i])
        assert int(alone.count[0]) == n and torch.equal(alone.cells[0], together.cells[i])
        assert torch.allclose(alone.centers[0, :n], together.centers[i, :n], atol=1e-5)
    none = counter(images[:0])
    assert (
        none.count.shape == (0,) and none.centers.shape == (0, 0, 2) and none.cells.shape == (0, GRID_SIZE**2)
    )


def test_noise_and_blur_are_implausible_and_renders_are_not(counter, renders):
    images, _, truth = renders
    generator = torch.Generator().manual_seed(0)
    assert float((counter(images).plausibility > 0.5).float().mean()) > 0.9
    noise = torch.randn(images.shape, generator=generator).clamp(-1, 1)
    assert float(counter(noise).plausibility.max()) < 0.5
    objects = images[truth > 0]
    blurred = corruptions.blur(objects, torch.full((len(objects), 1, 1, 1), 2.5))
    assert float((counter(blurred).plausibility < 0.5).float().mean()) > 0.9


def test_objects_on_cell_edges_are_found_once_and_neighbors_twice():
    expected = torch.zeros(4, 16, 16)
    expected[0, 3, 4:6] = torch.tensor([0.45, 0.55])  # one center, undecided between two cells
    expected[1, 7, 7:9] = 1.0  # two centers side by side
    expected[2, 0, 0] = 2.0  # two centers in a corner cell
    count = expected.sum((1, 2)).round().long()
    cells = [sorted(c for c in row if c >= 0) for row in locate(expected, count).tolist()]
    assert cells == [[3 * 16 + 5], [7 * 16 + 7, 7 * 16 + 8], [0, 0], []]
    logits = torch.log(torch.tensor([0.2, 0.5, 0.3])).reshape(1, 3, 1, 1)
    assert float(expected_objects(logits)) == pytest.approx(1.1)


def test_hidden_objects_are_removed_from_scenes():
    close = np.array(
        [[0.5, 0.6], [0.5, 0.6], [0.2, 0.6]]
    )  # two objects in one place: at most one can be seen whole
    sizes = [len(counter_scenes.prune(counter_scenes.scene_at(close, 0, i)).objects) for i in range(10)]
    assert min(sizes) == 2
    apart = np.array([[0.3, 0.6], [0.7, 0.6]])
    assert all(
        len(counter_scenes.prune(counter_scenes.scene_at(apart, 0, i)).objects) == 2 for i in range(10)
    )


def test_objects_of_one_color_in_one_another_are_one_object_and_no_clevr():
    apart = counter_scenes.scene_at(np.array([[0.3, 0.6], [0.7, 0.6]]), 0, 1)
    first = replace(apart.objects[0], size="large")
    x, y, z = first.coords

    def beside(share, color=first.color):
        other = replace(first, coords=(x + share * 2 * first.radius, y, z), color=color)
        return replace(apart, objects=(first, other))

    inside, touching = beside(0.6), beside(0.8)
    colored = beside(0.6, next(c for c in COLORS if c != first.color))  # negative case: two colors are two
    centers, colors, melted = counter_scenes.labels([inside, touching, colored])
    assert melted.tolist() == [True, False, False] and (colors >= 0).sum(1).tolist() == [1, 2, 2]
    both = counter_scenes.project(inside)
    assert np.allclose(centers[0, 0], both.mean(0), atol=1e-6)
    assert counter_scenes.parts(replace(apart, objects=())) == []
    grown = [counter_scenes.scene(0, i, "melted", 4) for i in range(20)]
    assert counter_scenes.labels(grown)[2].mean() > 0.7
    assert grown[3] == counter_scenes.scene(0, 3, "melted", 4)
    assert not counter_scenes.labels([counter_scenes.scene(0, i, "crowded", 8) for i in range(20)])[2].any()


def test_a_melted_picture_is_learned_as_implausible(monkeypatch):
    few = Data(*map(torch.from_numpy, counter_scenes.held_out("crowded", 2, BATCH, 64)))
    net = ObjectCounter(64, width=16)
    seen = []

    def as_told(net, melted):
        read = net.read

        def constant(x):
            return read(x)._replace(plausibility=torch.full((len(x),), 20.0))

        monkeypatch.setattr(net, "read", constant)
        told = few._replace(melted=torch.full((BATCH,), melted))
        generator = torch.Generator().manual_seed(0)
        seen.append(float(losses(net, told, from_uint8(few.images[:1]), generator).plausibility))
        monkeypatch.undo()

    as_told(net, False)
    as_told(net, True)  # a net that calls all plausible is wrong of every picture
    assert seen[1] == pytest.approx(20, abs=0.1) and seen[0] < 15


def test_every_size_trains_and_others_are_refused():
    generator = torch.Generator().manual_seed(0)
    for resolution in (64, 128):
        net = ObjectCounter(resolution, width=16)
        few = Data(*map(torch.from_numpy, counter_scenes.held_out("crowded", 2, 2, resolution)))
        batch = draw_batch(few, generator)
        assert batch.images.shape == (BATCH, 3, resolution, resolution) and len(batch.colors) == BATCH
        loss = losses(net, batch, from_uint8(few.images[:1]), generator).total()
        loss.backward()
        assert bool(loss.isfinite()) and all(p.grad is not None for p in net.parameters())
    with pytest.raises(ValueError, match="40"):
        ObjectCounter(40)


def test_a_moved_image_takes_its_labels_along():
    side, generator = 64, torch.Generator().manual_seed(0)
    images = torch.zeros(200, 3, side, side, dtype=torch.uint8)
    images[:, :, 30, 40] = images[:, :, 5, 1] = 255
    centers = torch.tensor([[40.5, 30.5], [1.5, 5.5]]).div(side).repeat(200, 1, 1)
    whole = torch.zeros(200, dtype=torch.bool)
    moved = shifted(Data(images, centers, torch.tensor([[3, 4]]).repeat(200, 1), whole), generator)
    at = (moved.centers[:, 0] * side).floor().long()
    assert bool((moved.images[torch.arange(200), 0, at[:, 1], at[:, 0]] == 255).all())
    gone = moved.centers[:, 1].isnan().any(-1)  # moved out of the image: no object any more
    assert torch.equal(gone, moved.colors[:, 1] == -1) and 10 < int(gone.sum()) < 100
    assert int((moved.centers[:, 0] == centers[:, 0]).all(-1).sum()) > 60  # half stay where they were


def test_what_is_shown_has_a_count_and_a_plausibility_only_where_they_are_true(renders):
    images, centers, truth = renders
    some = truth > 1
    images, centers, empty = images[some], centers[some], images[truth == 0]
    seen = shown(images, centers, empty, torch.Generator().manual_seed(0))
    n, half, rest = len(images), len(images) // 2, round(len(images) * (CLEAN + WORN))
    assert (
        seen.images.shape == images.shape
        and bool(seen.counted[:half].all())
        and not bool(seen.counted[rest:].any())
    )
    assert bool(seen.plausible[:half].all()) and not bool(seen.plausible[rest:].any())
    change = (seen.images - images).abs().mean((1, 2, 3))
    assert float(change[:half].mean()) < 0.1 and float(change[:half].mean()) < float(change[rest:].mean())
    assert len(seen.known) == n and bool(seen.known[:half].all())


@torch.no_grad()
def test_a_deeper_counter_begins_as_the_one_it_begins_with(counter, renders):
    torch.manual_seed(0)
    width, blocks = counter.config.width, counter.config.blocks
    deeper, larger = ObjectCounter(64, width, blocks + 1).eval(), ObjectCounter(128, width, blocks).eval()
    before, few = deeper.read(renders[0][:8]), renders[0][:8]
    begin_with(deeper, counter)
    for new, old, untrained in zip(deeper.read(few), counter.read(few), before, strict=True):
        assert torch.allclose(new, old, atol=1e-4) and not torch.allclose(untrained, old, atol=1e-2)
    begin_with(larger, counter)  # another resolution: its stem stays its own
    assert torch.equal(larger.cell_head.weight, counter.cell_head.weight)
    assert larger.stem[0].weight.shape != counter.stem[0].weight.shape
    with pytest.raises(ValueError, match=f"16 channels and 1 blocks after {width} channels"):
        begin_with(ObjectCounter(64, 16), counter)
    with pytest.raises(ValueError, match="no fewer blocks"):
        begin_with(ObjectCounter(64, width, blocks), deeper)


def test_the_learning_rate_rises_stays_and_falls_to_zero():
    steps = 1000  # of which the last 300 fall
    rate = [counter_training.learning_rate(step, steps) for step in range(steps + 1)]
    assert (rate[0], rate[RAMP - 2]) == pytest.approx((PEAK / RAMP, PEAK * (RAMP - 1) / RAMP))
    assert rate[RAMP - 1 : 701] == [PEAK] * (702 - RAMP) and rate[701] < PEAK
    assert (rate[850], rate[steps - 1], rate[steps]) == pytest.approx((PEAK / 2, PEAK / 300, 0))


def test_of_eight_training_scenes_each_kind_has_its_share(monkeypatch):
    drawn = []
    monkeypatch.setattr(counter_scenes, "scene", lambda *arguments: drawn.append(arguments))
    for index in range(800):
        counter_scenes.training_scene(0, index)
    kinds = ["crowded"] * 2 + ["melted"] + ["layout"] * 2 + ["clevr"] * 3
    assert [(seed, i) for seed, i, *_ in drawn] == [(0, i) for i in range(800)]
    assert [kind for _, _, kind, _ in drawn] == 100 * kinds
    found = {kind: {n for _, _, of, n in drawn if of == kind} for kind in kinds}
    numbers = {"crowded": range(15), "melted": range(1, 11), "layout": range(1, 13), "clevr": range(13)}
    assert found == {kind: set(of) for kind, of in numbers.items()}


def test_scenes_are_drawn_by_their_odds():
    few = Data(*map(torch.from_numpy, counter_scenes.held_out("crowded", 2, 3, 64)))
    marked = few._replace(
        images=torch.arange(3, dtype=torch.uint8)[:, None, None, None].expand(3, 3, 64, 64).clone()
    )
    generator, odds = torch.Generator().manual_seed(0), torch.tensor([0.0, 1.0, 3.0])
    drawn = torch.cat([draw_batch(marked, generator, odds).images[:, 0, 0, 0] for _ in range(4)])
    share = torch.bincount(drawn.long(), minlength=3) / len(drawn)
    assert share[0] == 0 and abs(float(share[2]) - 0.75) < 0.15


def test_training_goes_on_after_a_kill_to_the_same_weights(monkeypatch, tmp_path):
    few = counter_scenes.join([counter_scenes.held_out("crowded", n, 22, 64) for n in range(3)])
    made, steps = [], []

    def stopped(*arguments):
        steps.append(1)
        if len(steps) == 3:
            raise KeyboardInterrupt
        return losses(*arguments)

    monkeypatch.setattr(counter_training, "SAVE_EVERY", 0.0)
    monkeypatch.setattr(counter_command, "training_data", lambda size, resolution: few)
    nothing = {"targets": []}
    monkeypatch.setattr(
        counter_command, "export", lambda net, folder, row, held_out: made.append((net, row)) or nothing
    )
    command = "--resolution 64 --width 16 --scenes 66 --images 128 --by-count".split()
    for run, at in (("whole", tmp_path / "a"), ("stopped", tmp_path / "b")):
        monkeypatch.setattr(paths, "RUNS", at)
        if run == "stopped":
            with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
                patch.setattr(counter_training, "losses", stopped)
                counter_command.main(command)
        counter_command.main(command)
    (whole, row), (resumed, _) = made
    assert "--by-count" in row["command"] and row["images"] == 128
    for name, value in whole.state_dict().items():
        torch.testing.assert_close(value, resumed.state_dict()[name], rtol=0, atol=0, msg=name)
    counter_command.main(["--seed", "1", *command[:-1]])
    assert not torch.equal(
        made[-1][0].state_dict()["cell_head.weight"], whole.state_dict()["cell_head.weight"]
    )


def test_training_begins_with_the_weights_of_a_folder_whatever_its_name(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(paths, "RUNS", tmp_path / "runs")
    begun, made = [], []

    def kept(state, data, steps, by_count, path):
        begun.append(path)
        state.save(path)

    monkeypatch.setattr(counter_command, "training_data", lambda scenes, side: [])
    monkeypatch.setattr(counter_command, "as_data", list)
    monkeypatch.setattr(counter_command, "run", kept)
    monkeypatch.setattr(
        counter_command, "export", lambda net, folder, row, held_out: made.append(row) or {"targets": []}
    )
    command = ["--images", "32", "--width", "4", "--output", str(tmp_path / "new")]
    for seed, at in enumerate("ab"):  # two folders of one name, of `save_pretrained`
        torch.manual_seed(seed)
        ObjectCounter(64, 4).save_pretrained(tmp_path / at / "x")
        counter_command.main([*command, "--begin-with", str(tmp_path / at / "x")])
        assert made[-1]["command"].endswith(f"--begin-with {tmp_path}/{at}/x")
    assert len({path.parent for path in begun}) == 2
    assert all(path.parent.name.startswith("counter64_width4_seed0_from_x_") for path in begun)
    counter_command.main(command)
    assert begun[-1].parent.name == "counter64_width4_seed0"
    begun[-1].write_bytes(b"something else")
    with pytest.raises(SystemExit):
        counter_command.main(command)
    assert f"{begun[-1]} is no whole saved state" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        counter_command.main([*command, "--begin-with", str(tmp_path / "nothing")])
    assert "counter: nothing/row.json is missing" in capsys.readouterr().err
    (tmp_path / "a" / "x" / WEIGHTS).unlink()
    with pytest.raises(SystemExit):
        counter_command.main([*command, "--begin-with", str(tmp_path / "a" / "x")])
    assert "no file named" in capsys.readouterr().err


def test_bfloat16_counts_as_float32(counter, renders):
    few = renders[0][::4]
    exact = counter(few)
    with torch.autocast("cpu", torch.bfloat16):
        fast = counter(few)
    assert int((fast.count != exact.count).sum()) <= 1
    assert 0 < float((fast.confidence - exact.confidence).abs().max()) < 0.3  # coarser, so it was really used


def test_accuracy_is_measured_by_size_kind_fault_and_strength(counter, monkeypatch):
    monkeypatch.setattr(counter_accuracy, "COUNTS", range(3))
    monkeypatch.setattr(counter_accuracy, "STRENGTHS", {"confetti": (0.3, 0.5), "fused": (1.0,)})
    monkeypatch.setattr(counter_accuracy, "on_references", lambda net, side: {})
    monkeypatch.setattr(counter_scenes, "held_out_data", counter_scenes.held_out)
    found = counter_accuracy.assess(counter, 6)
    assert list(found["sizes"]) == ["32", "64"] and len(found["targets"]) == 14
    assert found["sizes"]["64"]["melted"]["images"] > 0 and found["sizes"]["64"]["melted"]["parts"] >= 1
    for of in found["sizes"].values():
        assert (
            of["clevr"]["by_count"]["exact"][0] == 1.0
            and of["clevr"]["images"] == 18
            and of["crowded"]["images"] == 9
        )
        assert of["faults"]["confetti"]["0.3"]["images"] == 4 and set(of["gross_but_plausible"]) == {
            k.__name__ for k in corruptions.GROSS
        }
    blind = {"exact_0_to_6": 1.0, "exact_7_to_12": 0.9, "colored": 0.99}
    confetti = {"0.3": {"bias": -0.1}, "0.5": {"bias": -0.3}}
    confetti["0.5"]["plausible"] = 0.3
    met = counter_accuracy.targets({"64": {"clevr": blind, "faults": {"confetti": confetti}}})
    # too few is as wrong as too many
    assert [of["met"] for of in met] == [True, False, True, True, False, False]
    faults = {"a": {"0.1": 0.9, "0.3": 0.1, "0.5": 0.0}, "b": {"0.1": 0.05, "0.3": 0.2}, "c": {"0.1": 0.0}}
    passing = {n: {s: {"plausible": v} for s, v in of.items()} for n, of in faults.items()}
    assert counter_accuracy.named_from(passing) == {"a": 0.3, "b": None, "c": 0.1}


def one_of_each_color(resolution=64):
    """A large object in every color at the same place, of every shape and material in turn."""
    base = scene_at([[0.5, 0.55]], 0, 1)
    kinds = [(shape, material) for shape in SHAPES for material in MATERIALS]
    objects = [
        replace(base.objects[0], size="large", color=c, shape=kinds[i % 6][0], material=kinds[i % 6][1])
        for i, c in enumerate(COLORS)
    ]
    images = render([replace(base, objects=(o,)) for o in objects], resolution).transpose(0, 3, 1, 2).copy()
    return from_uint8(images)


def test_each_color_is_named_and_gray_pictures_lose_it(counter):
    images = one_of_each_color()
    counts = counter(images)
    assert counts.count.tolist() == [1] * 8
    assert counts.colors[:, 0].tolist() == list(range(8))
    gray = counter(
        images.mean(1, keepdim=True).expand(-1, 3, -1, -1)
    )  # negative case: brightness alone does not tell
    assert int((gray.colors[:, :1] == torch.arange(8)[:, None]).sum()) <= 3
    none = counter(-0.1 * torch.ones(1, 3, 32, 32))
    assert none.colors.shape == (1, int(none.count[0]))


def test_objects_are_matched_one_to_one_with_their_colors():
    truth = torch.tensor([[[0.10, 0.10], [0.15, 0.10], [0.90, 0.90]]])
    seen = torch.tensor([[[0.11, 0.10], [0.50, 0.50], [math.nan, math.nan]]])
    none = torch.zeros(1)
    counts = Counts(
        torch.tensor([2]), seen, torch.zeros(1, 256, dtype=torch.bool), none, none, torch.tensor([[3, 4, -1]])
    )
    placed, colored = matched(counts, truth, torch.tensor([[3, 3, 4]]))
    assert (float(placed), float(colored)) == (1, 1)  # the one object seen there serves the nearer of the two
    assert float(matched(counts, truth, torch.tensor([[5, 3, 4]]))[1]) == 0
    empty = counts._replace(centers=seen[:, :0], colors=torch.empty(1, 0, dtype=torch.long))
    assert float(matched(empty, truth, torch.tensor([[3, 3, 4]]))[0]) == 0


def test_an_image_at_the_limit_is_plausible_here_and_in_rows():
    none = torch.zeros(2)
    found = Found(none, none, torch.tensor([PLAUSIBLE, PLAUSIBLE - 1e-3]), none, none, none)
    assert found.summary()["plausible"] == 0.5 and numbers(found, found)["plausible_fast"] == 1


def test_intervals_and_calibration_have_known_values():
    with pytest.raises(ValueError, match="n must be >= 1, got 0"):
        wilson(0, 0)
    with pytest.raises(ValueError, match="successes must be >= 0 and <= 10, got 11"):
        wilson(11, 10)
    assert wilson(50, 100) == [0.4038, 0.5962]  # Wilson (1927) by hand
    assert wilson(0, 10)[0] == 0 and wilson(0, 10)[1] == pytest.approx(1.96**2 / (10 + 1.96**2), abs=1e-4)
    confidence = torch.tensor([0.95] * 20 + [0.55] * 20)
    right = torch.tensor([True] * 19 + [False] + [True] * 11 + [False] * 9)
    assert calibration_error(confidence, right) == pytest.approx(0, abs=1e-4)
    assert calibration_error(confidence, ~right) == pytest.approx((0.9 + 0.1) / 2, abs=1e-4)


def test_cycles_references_are_counted(counter):
    for side in (32, 64):
        labeled = references(side)
        counts = counter(from_uint8(labeled.images))
        truth = torch.from_numpy((labeled.colors >= 0).sum(1))
        assert float(((counts.count - truth).abs() <= 1).float().mean()) > 0.85


def test_a_smaller_image_is_counted_as_its_enlargement(counter, renders):
    few = torch.nn.functional.avg_pool2d(renders[0], 2)
    large = enlarged(few, 64)
    assert large.shape == renders[0].shape and enlarged(large, 64) is large
    small, same = counter(few), counter(large)
    assert torch.equal(small.count, same.count) and torch.equal(small.plausibility, same.plausibility)
    assert float((small.count == renders[2]).float().mean()) > 0.7
    assert sizes(64) == (32, 64) and sizes(128) == (32, 64, 128)
    assert folder() == folder(32) == folder(64) == FOLDER and folder(128).name == "counter128"


def test_bad_images_are_refused(counter):
    for shape in (
        [2, 3, 128, 128],
        [2, 3, 48, 48],
        [2, 3, 32, 64],
        [2, 1, 64, 64],
        [3, 64, 64],
        [2, 3, 16, 16],
    ):
        with pytest.raises(ValueError, match=rf"32 or 64 px, got float32 \{shape}".replace("]", r"\]")):
            counter(torch.zeros(shape))
    with pytest.raises(ValueError, match="uint8"):
        counter(torch.zeros(2, 3, 32, 32, dtype=torch.uint8))
    with pytest.raises(ValueError, match="finite"):
        counter(torch.full((2, 3, 64, 64), 255.0))
    with pytest.raises(ValueError, match="finite"):
        counter(torch.full((2, 3, 32, 32), torch.nan))


def test_images_in_0_1_are_warned_of_and_a_saved_counter_loads(counter, tmp_path):
    with pytest.warns(UserWarning, match=r"lie in \[0, 1\]: 2 \* images - 1"):
        counter(torch.rand(2, 3, 32, 32))
    counter.save_pretrained(tmp_path / "mine")
    images = torch.rand(2, 3, 32, 32) * 2 - 1
    again = ObjectCounter.from_pretrained(tmp_path / "mine")(images)
    assert torch.equal(again.count, counter(images).count)


def test_a_gpu_that_is_missing_is_said(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(SystemExit):
        counter_command.main(["--device", "cuda", "--output", str(tmp_path / "mine")])
    assert "--device cuda needs a GPU that torch can use" in capsys.readouterr().err


def test_a_counter_for_small_images_is_not_trained_in_the_shipped_ones_place(capsys):
    with pytest.raises(SystemExit):
        counter_command.main(["--resolution", "32"])
    assert (
        "--resolution must be at least 64, got 32: smaller images are enlarged to 64 px"
        in capsys.readouterr().err
    )


@pytest.mark.parametrize("option", ["threads", "width", "blocks"])
def test_options_that_count_from_one_are_refused_before_any_work(tmp_path, capsys, option):
    with pytest.raises(SystemExit):
        counter_command.main([f"--{option}", "0", "--output", str(tmp_path)])
    assert f"--{option} must be >= 1, got 0" in capsys.readouterr().err


def test_two_trainings_of_one_counter_take_turns(tmp_path, monkeypatch, is_held):
    monkeypatch.setattr(paths, "RUNS", tmp_path)

    def held(state, data, steps, by_count, path):
        assert is_held(path)
        raise KeyboardInterrupt

    monkeypatch.setattr(counter_command, "training_data", lambda scenes, side: [])
    monkeypatch.setattr(counter_command, "as_data", list)
    monkeypatch.setattr(counter_command, "run", held)
    with pytest.raises(KeyboardInterrupt):
        counter_command.main(["--images", "32", "--width", "4", "--output", str(tmp_path / "new")])


def test_the_second_counters_card_and_command_are_of_its_own_folder():
    row, text = json.loads((SECOND / "row.json").read_text()), (SECOND / "README.md").read_text()
    assert text == model_card(row, SECOND) and text.startswith("# counter64\n")
    code = text.partition("```python\n")[2].partition("```")[0]
    assert max(map(len, code.splitlines())) <= 110  # the formatter reads Markdown too
    assert 'from_pretrained("data/checkpoints/counter64")' in text
    assert row["command"].endswith("--output data/checkpoints/counter64")  # not over the first one
    assert "from_pretrained(folder(64))" in model_card(row)
    assert ObjectCounter.from_pretrained(SECOND).config.blocks == 2


def test_missing_or_altered_weights_name_file_and_command(tmp_path):
    with pytest.raises(CheckpointError, match="missing.*python -m lcs_utils.counter"):
        ObjectCounter.from_pretrained(tmp_path)
    shutil.copytree(FOLDER, tmp_path / "counter")
    weights = tmp_path / "counter" / WEIGHTS
    weights.write_bytes(weights.read_bytes()[:-7])
    with pytest.raises(CheckpointError, match="altered.*python -m lcs_utils.counter"):
        ObjectCounter.from_pretrained(tmp_path / "counter")


def test_nothing_but_an_earlier_counter_is_replaced(tmp_path, capsys):
    (tmp_path / "thesis.tex").write_text("words")
    shutil.copytree(paths.CHECKPOINTS / "tiny" / "exp1", tmp_path / "net")  # a denoiser has a row.json, too
    for place in (tmp_path, tmp_path / "thesis.tex", tmp_path / "net"):
        with pytest.raises(SystemExit):
            counter_command.main(["--output", str(place), "--threads", "0"])  # refused later, too
        assert "holds something that is no counter" in capsys.readouterr().err


@pytest.mark.parametrize("error", [ValueError("shard 3 is damaged"), OSError(28, "No space left on device")])
def test_a_training_that_cannot_go_on_says_so_in_one_line(tmp_path, monkeypatch, capsys, error):
    def fails(*_):
        raise error

    monkeypatch.setattr(paths, "RUNS", tmp_path)
    monkeypatch.setattr(counter_command, "training_data", fails)
    with pytest.raises(SystemExit) as ended:
        counter_command.main(["--width", "4", "--output", str(tmp_path / "mine")])
    assert ended.value.code == 2 and not (tmp_path / "mine").exists()
    said = capsys.readouterr().err.rstrip().splitlines()
    assert said[-1].endswith(str(error)) and not any("Traceback" in line for line in said)


def test_the_shipped_counter_may_be_trained_again():
    assert counter_command.is_counter(folder(64)) and not counter_command.is_counter(paths.CHECKPOINTS)
