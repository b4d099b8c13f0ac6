"""What the counter learns and is measured by belongs to the same pixels: each test fails if a label moves."""

import numpy as np
import pytest
import torch

from lcs_utils.clevr.conditions import GRID_SIZE
from lcs_utils.clevr.scenes import project, scene_at
from lcs_utils.counter import scenes as counter_scenes
from lcs_utils.counter.accuracy import Found, matched
from lcs_utils.counter.net import Counts, ObjectCounter, Reading
from lcs_utils.counter.training import BATCH, Data, draw_batch, losses
from lcs_utils.diffusion import from_uint8


def test_a_mirrored_image_has_mirrored_centers():
    images = torch.zeros(1, 3, 64, 64, dtype=torch.uint8)
    images[:, :, 30, 10] = 255
    marked = Data(
        images, torch.tensor([[[10.5, 30.5]]]) / 64, torch.tensor([[3]]), torch.zeros(1, dtype=torch.bool)
    )
    drawn = draw_batch(marked, torch.Generator().manual_seed(0))
    column, row = (drawn.centers[:, 0] * 64).floor().long().T
    assert bool((drawn.images[torch.arange(BATCH), 0, row, column] == 255).all())
    assert int((column > 32).sum()) == BATCH // 2  # so that half of them were mirrored


def test_offsets_and_colors_are_learned_at_the_cell_of_their_object(monkeypatch):
    few = Data(*map(torch.from_numpy, counter_scenes.held_out("clevr", 2, BATCH, 64)))
    within = few.centers * GRID_SIZE
    there, right = torch.isfinite(within[..., 0]), {"offset": 2, "color": 8}
    image, (column, row) = there.nonzero()[:, 0], within[there].long().T
    maps = {name: torch.full((BATCH, n, GRID_SIZE, GRID_SIZE), 9.0) for name, n in right.items()}
    maps["offset"][image, :, row, column] = within[there].frac()
    maps["color"][image, :, row, column] = 100 * torch.eye(8)[few.colors[there].long()]
    net, none = ObjectCounter(64, width=16), torch.zeros(BATCH)

    def told(across):
        turned = {name: of.mT if across else of for name, of in maps.items()}
        occupancy = torch.zeros(BATCH, 3, GRID_SIZE, GRID_SIZE)
        monkeypatch.setattr(net, "read", lambda _: Reading(occupancy, *turned.values(), none, none))
        return losses(net, few, from_uint8(few.images[:1]), torch.Generator().manual_seed(0))

    assert float(told(False).offset) < 1e-5 and float(told(False).color) < 1e-5
    assert float(told(True).offset) > 1 and float(told(True).color) > 1  # rows for columns


@pytest.mark.parametrize(("cells", "found"), [(1.3, 1), (1.5, 0), (3.5, 0)])
def test_an_object_is_found_within_the_diagonal_of_a_cell(cells, found):
    truth, none = torch.tensor([[[0.5, 0.5]]]), torch.zeros(1)
    seen = truth + torch.tensor([cells / GRID_SIZE, 0])
    color = torch.tensor([[3]])
    counts = Counts(torch.tensor([1]), seen, torch.zeros(1, 256, dtype=torch.bool), none, none, color)
    assert [float(of) for of in matched(counts, truth, color)] == [found, found]


def test_located_objects_may_have_another_color():
    one = torch.ones(2)
    found = Found(
        3 * one, 3 * one, one, one, placed=torch.tensor([3.0, 2.0]), colored=torch.tensor([1.0, 2.0])
    )
    assert (found.summary()["located"], found.summary()["colored"]) == (round(5 / 6, 4), 0.5)


def test_objects_centered_outside_stay_in_the_scene_and_are_no_labels():
    """Cut off by the border, or out of sight: they are drawn, cast shadows, and are not counted."""
    scene = scene_at(np.array([[0.4, 0.6], [1.03, 0.6], [1.6, 0.6]]), 0, 1)
    assert counter_scenes.prune(scene).objects == scene.objects
    assert (project(scene)[:, 0] < 1).tolist() == [True, False, False]
    assert (counter_scenes.labels([scene])[1] >= 0).sum() == 1


def test_images_of_any_float_type_are_counted_and_no_other_kind():
    net, images = (
        ObjectCounter.from_pretrained(),
        from_uint8(torch.from_numpy(counter_scenes.held_out("clevr", 3, 4, 64).images)),
    )
    whole = net(images)
    for kind in (torch.float64, torch.float16, torch.bfloat16):
        found = net(images.to(kind))
        assert torch.equal(found.count, whole.count) and found.plausibility.dtype == torch.float32
    assert torch.equal(net(images.double()).plausibility, whole.plausibility)
    for wrong in (images.numpy(), images.tolist(), None):
        with pytest.raises(TypeError, match="images must be a tensor, got"):
            net(wrong)


@pytest.mark.parametrize(("kind", "most"), counter_scenes.MOST.items())
def test_more_objects_than_a_kind_of_scene_has_are_refused_at_once(kind, most):
    with pytest.raises(ValueError, match=rf"objects of {kind} scenes must be in 0\.\.{most}, got {most + 1}"):
        counter_scenes.held_out_scenes(kind, most + 1, 1)
    with pytest.raises(ValueError, match="got -1"):
        counter_scenes.held_out_scenes(kind, -1, 1)


def test_melted_scenes_are_pruned_by_the_share_asked_for():
    """Pruned to 2% of the image they hold fewer objects than pruned to none, and no smaller one."""
    few, many = ([counter_scenes.scene(0, i, "melted", 6, share) for i in range(8)] for share in (0.02, 0.0))
    assert [scene == counter_scenes.prune(scene, 0.02) for scene in few] == [True] * 8
    assert sum(len(scene.objects) for scene in few) < sum(len(scene.objects) for scene in many) - 8
    (same,) = counter_scenes.held_out_scenes("melted", 3, 1)
    assert same in [counter_scenes.scene(1, same.index, "melted", n) for n in (3, 4)]
