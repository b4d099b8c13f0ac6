"""Faults of a strength: they do what their name says where they should, and say of plausibility only what
is agreed.
"""

import pytest
import torch

from lcs_utils.counter import scenes as counter_scenes
from lcs_utils.counter.corruptions_graded import GRADED, ODDS, grown, neighbors, object_mask, worn
from lcs_utils.diffusion import from_uint8


@pytest.fixture(scope="module")
def scenes():
    """Twelve scenes of two to five objects, their centers, and as many empty scenes."""
    labeled = counter_scenes.join([counter_scenes.held_out("clevr", n, 3, 64, seed=3) for n in range(2, 6)])
    empty = counter_scenes.held_out("clevr", 0, 12, 64, seed=3)
    return from_uint8(labeled.images), torch.from_numpy(labeled.centers), from_uint8(empty.images)


def spoiled(name, scenes, strength, seed=0):
    images, centers, floor = scenes
    amount = torch.full((len(images), 1, 1, 1), strength)
    return worn(name, images, floor, centers, torch.Generator().manual_seed(seed), amount)


@pytest.mark.parametrize("name", GRADED)
def test_stronger_faults_change_more_and_none_changes_nothing(name, scenes):
    grade = GRADED[name]
    assert 0 < grade.slight < grade.gross < grade.most and name in ODDS
    changes = [
        spoiled(name, scenes, s).images.sub(scenes[0]).abs().mean()
        for s in (0.0, grade.slight, grade.gross, grade.most)
    ]
    assert float(changes[0]) < 1e-4 and changes[1] < changes[2] < changes[3]


def test_plausible_up_to_slight_broken_from_gross_and_silent_between(scenes):
    for name, grade in GRADED.items():
        slight, between, gross = (
            spoiled(name, scenes, s) for s in (grade.slight, (grade.slight + grade.gross) / 2, grade.gross)
        )
        assert bool(slight.known.all()) and bool(slight.plausible.all()) and bool(slight.counted.all())
        assert not bool(between.known.any())
        assert not bool(gross.plausible.any()) and float(gross.known.float().mean()) > 0.5
        assert bool(spoiled(name, scenes, grade.most).counted.all()) == (grade.counted >= grade.most)
    empty = scenes[2], torch.full((12, 14, 2), torch.nan), scenes[2]
    assert not bool(spoiled("speckle", empty, 0.5).known.any())  # there is nothing to speckle


def test_speckle_stays_inside_objects_and_confetti_goes_around_them(scenes):
    images, _, floor = scenes
    inside = object_mask(images, floor) > 0
    near = grown(inside.float(), 3.0) > 0

    def change(name):
        return (spoiled(name, scenes, 0.5).images - images).abs().mean(1, keepdim=True) > 0.02

    speckle, confetti = change("speckle"), change("confetti")
    assert not bool((speckle & ~inside).any()) and float(speckle[inside].float().mean()) > 0.2
    assert not bool((confetti & ~near).any()) and bool((confetti & ~inside).any((1, 2, 3)).all())


def test_two_neighbors_melt_between_their_centers_and_single_objects_do_not(scenes):
    images, centers, _ = scenes
    generator = torch.Generator().manual_seed(0)
    first, second, some = neighbors(centers, generator)
    gap = 32 * (first - second).norm(dim=1)
    assert bool(((gap > 2.5) & (gap < 9))[some].all()) and bool(some.any()) and not bool(some.all())
    change = (spoiled("fused", scenes, 1.0).images - images).abs().amax((1, 2, 3))
    assert torch.equal(change > 0.05, some)
    alone = centers.clone()
    alone[:, 1:] = torch.nan
    assert not bool(neighbors(alone, generator)[2].any())


def test_training_draws_all_three_grades_and_unknown_faults_are_refused(scenes):
    images, centers, floor = (x.repeat(8, *[1] * (x.ndim - 1)) for x in scenes)
    drawn = worn("noise", images, floor, centers, torch.Generator().manual_seed(0))
    shares = [
        float(x.float().mean()) for x in (drawn.plausible, ~drawn.known, drawn.known & ~drawn.plausible)
    ]
    assert all(0.12 < share < 0.65 for share in shares) and abs(sum(shares) - 1) < 1e-6
    with pytest.raises(ValueError, match="unknown fault 'rust'; allowed: speckle, confetti"):
        worn("rust", images, floor, centers, torch.Generator())
