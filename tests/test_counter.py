"""The counter: exact decoding of known maps, real accuracy on fresh renders, and refusal of what is no picture of CLEVR."""

import math
import shutil
from dataclasses import replace

import numpy as np
import pytest
import torch

from lcs_utils.checkpoints import CheckpointError
from lcs_utils.clevr.conditions import GRID_SIZE, location_grid
from lcs_utils.clevr.render import render
from lcs_utils.clevr.scenes import COLORS, MATERIALS, SHAPES, scene_at
from lcs_utils.diffusion import from_uint8
from lcs_utils import paths
from lcs_utils.evaluation import corruptions, counter_accuracy, counter_scenes, counter_training, redrawn
from lcs_utils.evaluation.counter import FOLDER, WEIGHTS, Counts, ObjectCounter, expected_objects, locate
from lcs_utils.evaluation.counter_accuracy import calibration_error, matched, references, wilson
from lcs_utils.evaluation.counter_training import BATCH, Data, begin_with, draw_batch, losses


@pytest.fixture(scope="module")
def counter():
    return ObjectCounter.from_pretrained()


@pytest.fixture(scope="module")
def renders(counter):
    """Sixty fresh scenes: five for each of 0-6 crowded objects and of 1-5 test locations; images, centers, counts."""
    wanted = [("crowded", n) for n in range(7)] + [("layout", n) for n in range(1, 6)]
    parts = [counter_scenes.held_out(kind, n, 5, counter.config.resolution, seed=2) for kind, n in wanted]
    images, centers, _ = map(torch.from_numpy, counter_scenes.join(parts))
    return from_uint8(images), centers, torch.isfinite(centers[..., 0]).sum(1)


def test_counts_and_places_on_fresh_renders(counter, renders):
    images, centers, truth = renders
    counts = counter(images)
    assert float((counts.count == truth).float().mean()) > 0.8
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
    shuffled = counter(images).count == truth.roll(7)  # negative case: other images' counts do not pass as accuracy
    assert float(shuffled.float().mean()) < 0.5


def test_an_image_counts_alone_as_among_others_and_none_count_nothing(counter, renders):
    images = renders[0][:40]  # more than go through the net together
    together = counter(images)
    for i in (0, 31, 32, 39):
        alone, n = counter(images[i : i + 1]), int(together.count[i])
        assert int(alone.count[0]) == n and torch.equal(alone.cells[0], together.cells[i])
        assert torch.allclose(alone.centers[0, :n], together.centers[i, :n], atol=1e-5)
    none = counter(images[:0])
    assert none.count.shape == (0,) and none.centers.shape == (0, 0, 2) and none.cells.shape == (0, GRID_SIZE**2)


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
    close = np.array([[0.5, 0.6], [0.5, 0.6], [0.2, 0.6]])  # two objects in one place: at most one can be seen whole
    sizes = [len(counter_scenes.prune(counter_scenes.scene_at(close, 0, i)).objects) for i in range(10)]
    assert min(sizes) == 2
    apart = np.array([[0.3, 0.6], [0.7, 0.6]])
    assert all(len(counter_scenes.prune(counter_scenes.scene_at(apart, 0, i)).objects) == 2 for i in range(10))


def test_both_resolutions_train_and_others_are_refused():
    generator = torch.Generator().manual_seed(0)
    for resolution in (32, 64):
        net = ObjectCounter(resolution, width=16)
        few = Data(*map(torch.from_numpy, counter_scenes.held_out("crowded", 2, 2, resolution)))
        other = few._replace(images=torch.zeros_like(few.images))
        batch = draw_batch(few, other, generator)
        assert len(batch.images) == BATCH and not bool(batch.images[:10].any()) and bool(batch.images[20:40].any())
        mirrored = batch.centers[20, :2], few.centers[..., :2, :]
        assert any(torch.allclose(mirrored[0] + c, torch.stack([torch.ones(2), 2 * c[:, 1]], 1)) for c in mirrored[1])
        loss = losses(net, batch, from_uint8(few.images[:1]), generator).total()
        loss.backward()
        assert bool(loss.isfinite()) and all(p.grad is not None for p in net.parameters())
    with pytest.raises(ValueError, match="40"):
        ObjectCounter(40)


@torch.no_grad()
def test_a_deeper_counter_begins_as_the_one_it_begins_with(counter, renders):
    torch.manual_seed(0)
    deeper, larger = ObjectCounter(32, 64, blocks=2).eval(), ObjectCounter(64, 64).eval()
    before = deeper.read(renders[0])
    begin_with(deeper, counter)
    for new, old, untrained in zip(deeper.read(renders[0]), counter.read(renders[0]), before, strict=True):
        assert torch.allclose(new, old, atol=1e-4) and not torch.allclose(untrained, old, atol=1e-2)
    begin_with(larger, counter)  # another resolution: its stem stays its own
    assert torch.equal(larger.cell_head.weight, counter.cell_head.weight)
    assert larger.stem[0].weight.shape != counter.stem[0].weight.shape
    with pytest.raises(ValueError, match="16 channels and 1 blocks after 64 channels"):
        begin_with(ObjectCounter(32, 16), counter)
    with pytest.raises(ValueError, match="no fewer blocks"):
        begin_with(ObjectCounter(32, 64), deeper)


def test_scenes_are_drawn_by_their_odds():
    few = Data(*map(torch.from_numpy, counter_scenes.held_out("crowded", 2, 3, 32)))
    marked = few._replace(images=torch.arange(3, dtype=torch.uint8)[:, None, None, None].expand(3, 3, 32, 32).clone())
    batch = draw_batch(marked, None, torch.Generator().manual_seed(0), torch.tensor([0.0, 1.0, 3.0]))
    share = torch.bincount(batch.images[:, 0, 0, 0].long(), minlength=3) / BATCH
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
    monkeypatch.setattr(counter_training, "training_data", lambda size, resolution: few)
    nothing = {"counts": [], "exact": []}
    monkeypatch.setattr(counter_training, "export", lambda net, folder, row, held_out: made.append((net, row)) or nothing)
    command = "--resolution 64 --width 16 --scenes 66 --images 256 --by-count".split()
    for run, at in (("whole", tmp_path / "a"), ("stopped", tmp_path / "b")):
        monkeypatch.setattr(paths, "RUNS", at)
        if run == "stopped":
            with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
                patch.setattr(counter_training, "losses", stopped)
                counter_training.main(command)
        counter_training.main(command)
    (whole, row), (resumed, _) = made
    assert "--by-count" in row["command"] and row["images"] == 256
    for name, value in whole.state_dict().items():
        torch.testing.assert_close(value, resumed.state_dict()[name], rtol=0, atol=0, msg=name)
    counter_training.main(["--seed", "1", *command[:-1]])
    assert not torch.equal(made[-1][0].state_dict()["cell_head.weight"], whole.state_dict()["cell_head.weight"])


def test_bfloat16_counts_as_float32(counter, renders):
    exact = counter(renders[0])
    with torch.autocast("cpu", torch.bfloat16):
        fast = counter(renders[0])
    assert float((fast.count == exact.count).float().mean()) > 0.95
    assert 0 < float((fast.confidence - exact.confidence).abs().max()) < 0.3  # coarser, so it was really used


def test_perturbed_renders_are_reported_by_count(counter, monkeypatch):
    monkeypatch.setattr(counter_accuracy, "COUNTS", range(2))
    monkeypatch.setattr(counter_scenes, "held_out_data", counter_scenes.held_out)
    found = counter_accuracy.perturbed(counter, 8)
    assert {"clean", "rough", "noise_0.1", "faded_50%"} <= set(found)
    assert found["clean"]["exact_by_count"] == [1.0, 1.0] and found["clean"]["images"] == 16
    assert found["faded_50%"]["exact_by_count"][0] == 1.0 and found["faded_50%"]["plausible"] < 1


def one_of_each_color(resolution=32):
    """A large object in every color at the same place, of every shape and material in turn."""
    base = scene_at([[0.5, 0.55]], 0, 1)
    kinds = [(shape, material) for shape in SHAPES for material in MATERIALS]
    objects = [replace(base.objects[0], size="large", color=c, shape=kinds[i % 6][0], material=kinds[i % 6][1])
               for i, c in enumerate(COLORS)]  # fmt: skip
    images = render([replace(base, objects=(o,)) for o in objects], resolution).transpose(0, 3, 1, 2).copy()
    return from_uint8(images)


def test_each_color_is_named_and_gray_pictures_lose_it(counter):
    images = one_of_each_color()
    counts = counter(images)
    assert counts.count.tolist() == [1] * 8
    assert counts.colors[:, 0].tolist() == list(range(8))
    gray = counter(images.mean(1, keepdim=True).expand(-1, 3, -1, -1))  # negative case: brightness alone does not tell
    assert int((gray.colors[:, :1] == torch.arange(8)[:, None]).sum()) <= 3
    none = counter(-0.1 * torch.ones(1, 3, 32, 32))
    assert none.colors.shape == (1, int(none.count[0]))


def test_objects_are_matched_one_to_one_with_their_colors():
    truth = torch.tensor([[[0.10, 0.10], [0.15, 0.10], [0.90, 0.90]]])
    seen = torch.tensor([[[0.11, 0.10], [0.50, 0.50], [math.nan, math.nan]]])
    none = torch.zeros(1)
    counts = Counts(torch.tensor([2]), seen, torch.zeros(1, 256, dtype=torch.bool), none, none, torch.tensor([[3, 4, -1]]))
    placed, colored = matched(counts, truth, torch.tensor([[3, 3, 4]]))
    assert (float(placed), float(colored)) == (1, 1)  # the one object seen there serves the nearer of the two
    assert float(matched(counts, truth, torch.tensor([[5, 3, 4]]))[1]) == 0
    empty = counts._replace(centers=seen[:, :0], colors=torch.empty(1, 0, dtype=torch.long))
    assert float(matched(empty, truth, torch.tensor([[3, 3, 4]]))[0]) == 0


def test_intervals_and_calibration_have_known_values():
    assert wilson(50, 100) == [0.4038, 0.5962]  # Wilson (1927) by hand
    assert wilson(0, 10)[0] == 0 and wilson(0, 10)[1] == pytest.approx(1.96**2 / (10 + 1.96**2), abs=1e-4)
    confidence = torch.tensor([0.95] * 20 + [0.55] * 20)
    right = torch.tensor([True] * 19 + [False] + [True] * 11 + [False] * 9)
    assert calibration_error(confidence, right) == pytest.approx(0, abs=1e-4)
    assert calibration_error(confidence, ~right) == pytest.approx((0.9 + 0.1) / 2, abs=1e-4)


def test_a_redrawn_image_keeps_its_label_only_while_its_objects_stay():
    scene = scene_at([[0.3, 0.6], [0.7, 0.4]], 3, 3)
    drawn = render([scene, replace(scene, objects=scene.objects[:1]), replace(scene, objects=())], 32).transpose(0, 3, 1, 2)
    both, one, floor = from_uint8(drawn.copy())
    cover = redrawn.coverage(scene)
    assert float(cover.sum(0).max()) <= 1.0 and bool((cover.sum((1, 2)) > 2).all())
    noise = 0.02 * torch.randn(both.shape, generator=torch.Generator().manual_seed(0))
    assert bool(redrawn.unchanged(both, both, floor, cover)) and bool(redrawn.unchanged(both + noise, both, floor, cover))
    assert not bool(redrawn.unchanged(one, both, floor, cover))  # an object gone
    assert not bool(redrawn.unchanged(both, one, floor, cover[:1]))  # one that was not there
    assert not bool(redrawn.unchanged(both.lerp(floor, 0.5), both, floor, cover))  # half faded


def test_cycles_references_are_counted(counter):
    labeled = references(32)
    counts = counter(from_uint8(labeled.images))
    truth = torch.from_numpy((labeled.colors >= 0).sum(1))
    assert float(((counts.count - truth).abs() <= 1).float().mean()) > 0.85


def test_bad_images_are_refused(counter):
    with pytest.raises(ValueError, match=r"\[2, 3, 64, 64\]"):
        counter(torch.zeros(2, 3, 64, 64))
    with pytest.raises(ValueError, match="uint8"):
        counter(torch.zeros(2, 3, 32, 32, dtype=torch.uint8))
    with pytest.raises(ValueError, match="finite"):
        counter(torch.full((2, 3, 32, 32), 255.0))
    with pytest.raises(ValueError, match="finite"):
        counter(torch.full((2, 3, 32, 32), torch.nan))


def test_images_in_0_1_are_warned_of_and_a_saved_counter_loads(counter, tmp_path):
    with pytest.warns(UserWarning, match=r"lie in \[0, 1\]: 2 \* images - 1"):
        counter(torch.rand(2, 3, 32, 32))
    counter.save_pretrained(tmp_path / "mine")
    images = torch.rand(2, 3, 32, 32) * 2 - 1
    again = ObjectCounter.from_pretrained(tmp_path / "mine")(images)
    assert torch.equal(again.count, counter(images).count)


def test_missing_or_altered_weights_name_file_and_command(tmp_path):
    with pytest.raises(CheckpointError, match="missing.*python -m lcs_utils.evaluation.counter"):
        ObjectCounter.from_pretrained(tmp_path)
    shutil.copytree(FOLDER, tmp_path / "counter")
    weights = tmp_path / "counter" / WEIGHTS
    weights.write_bytes(weights.read_bytes()[:-7])
    with pytest.raises(CheckpointError, match="altered.*python -m lcs_utils.evaluation.counter"):
        ObjectCounter.from_pretrained(tmp_path / "counter")
