"""The counter: exact decoding of known maps, real accuracy on fresh renders, and refusal of what is no picture of CLEVR."""

import shutil

import numpy as np
import pytest
import torch

from lcs_utils.checkpoints import CheckpointError
from lcs_utils.clevr.conditions import GRID_SIZE, location_grid
from lcs_utils.evaluation import corruptions, counter_scenes
from lcs_utils.evaluation.counter import FOLDER, WEIGHTS, ObjectCounter, expected_objects, locate
from lcs_utils.evaluation.counter_training import as_input, losses


@pytest.fixture(scope="module")
def counter():
    return ObjectCounter.from_pretrained()


@pytest.fixture(scope="module")
def renders(counter):
    """Sixty fresh scenes: five for each of 0-6 crowded objects and of 1-5 test locations; images, centers, counts."""
    wanted = [("crowded", n) for n in range(7)] + [("layout", n) for n in range(1, 6)]
    parts = [counter_scenes.held_out(kind, n, 5, counter.config.resolution, seed=2) for kind, n in wanted]
    images, centers = (torch.from_numpy(np.concatenate(p)) for p in zip(*parts))
    return as_input(images), centers, torch.isfinite(centers[..., 0]).sum(1)


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
    assert max(sizes) <= 3 and min(sizes) == 2
    apart = np.array([[0.3, 0.6], [0.7, 0.6]])
    assert all(len(counter_scenes.prune(counter_scenes.scene_at(apart, 0, i)).objects) == 2 for i in range(10))


def test_both_resolutions_train_and_others_are_refused():
    generator = torch.Generator().manual_seed(0)
    for resolution in (32, 64):
        net = ObjectCounter(resolution, width=16)
        images, centers = counter_scenes.held_out("crowded", 2, 2, resolution)
        images, centers = (torch.from_numpy(a).repeat_interleave(32, 0) for a in (images, centers))
        loss = losses(net, images, centers, as_input(images[:1]), generator).total()
        loss.backward()
        assert bool(loss.isfinite()) and all(p.grad is not None for p in net.parameters())
    with pytest.raises(ValueError, match="40"):
        ObjectCounter(40)


def test_bad_images_are_refused(counter):
    with pytest.raises(ValueError, match=r"\[2, 3, 64, 64\]"):
        counter(torch.zeros(2, 3, 64, 64))
    with pytest.raises(ValueError, match="uint8"):
        counter(torch.zeros(2, 3, 32, 32, dtype=torch.uint8))
    with pytest.raises(ValueError, match="finite"):
        counter(torch.full((2, 3, 32, 32), 255.0))
    with pytest.raises(ValueError, match="finite"):
        counter(torch.full((2, 3, 32, 32), torch.nan))


def test_missing_or_altered_weights_name_file_and_command(tmp_path):
    with pytest.raises(CheckpointError, match="missing.*python -m lcs_utils.evaluation.counter"):
        ObjectCounter.from_pretrained(tmp_path)
    shutil.copytree(FOLDER, tmp_path / "counter")
    weights = tmp_path / "counter" / WEIGHTS
    weights.write_bytes(weights.read_bytes()[:-7])
    with pytest.raises(CheckpointError, match="altered.*python -m lcs_utils.evaluation.counter"):
        ObjectCounter.from_pretrained(tmp_path / "counter")
