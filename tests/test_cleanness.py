"""Cleanness: high for renders of any number of objects, lower the more noise is on them, and sound without
any object.
"""

import pytest
import torch

from lcs_utils.diffusion import from_uint8
from lcs_utils.evaluation import cleanness as module
from lcs_utils.evaluation.cleanness import cleanness, floor_of, renders
from lcs_utils.evaluation.sheets import read_sheet


@pytest.fixture(scope="module", params=[32, 64])
def clean(request):
    return renders(request.param, per_count=4, seed=8)


def test_renders_are_clean_and_noise_on_objects_is_not(clean):
    images, mask = clean
    noise = torch.randn(images.shape, generator=torch.Generator().manual_seed(0))
    score = [cleanness((images + std * mask * noise).clamp(-1, 1))[4:] for std in (0.0, 0.1, 0.2, 0.3, 0.5)]
    assert float(score[0].mean()) > 0.96 and float(score[0].min()) > 0.8
    means = [float(s.mean()) for s in score]
    assert all(a > b for a, b in zip(means, means[1:])) and means[1] < 0.8 and means[-1] < 0.15
    around = torch.nn.functional.max_pool2d(mask, 5, 1, 2)
    assert float(cleanness((images + 0.5 * around * noise).clamp(-1, 1))[4:].mean()) < 0.15


def test_empty_floors_are_clean_until_something_lies_on_them(clean):
    floor = clean[0][:4]
    assert bool((cleanness(floor) == 1).all())
    lone = floor.clone()
    lone[:, :, 10, 10] = torch.tensor([1.0, -1.0, -1.0])
    assert bool((cleanness(lone) < 1).all()) and bool((cleanness(lone) > 0).all())
    assert float(cleanness(torch.zeros(1, 3, 64, 64))) == 1 and len(cleanness(torch.zeros(0, 3, 32, 32))) == 0
    static = torch.randn(4, 3, 64, 64, generator=torch.Generator().manual_seed(0)).clamp(-1, 1)
    assert float(cleanness(static).max()) < 0.1


def test_each_image_is_judged_alone_and_the_floor_under_objects_is_found(clean):
    images, mask = clean
    together = cleanness(images[::7])
    for i, one in enumerate(images[::7]):
        assert float(cleanness(one[None])) == pytest.approx(float(together[i]), abs=1e-6)
    off = (floor_of(images) - images.mean(1, keepdim=True)).abs()[mask == 0]
    assert float(off.median()) < 0.05
    assert (
        torch.equal(cleanness(torch.nn.functional.interpolate(images, scale_factor=4)), cleanness(images))
        or images.shape[-1] == 32
    )


def test_speckled_samples_are_told_from_cleaner_ones():
    """The shipped 32 px samples: Exp. 1's net speckles, Exp. 3's hardly does; renders are above both."""
    judged = {}
    for net in ("exp1", "exp3"):
        kept = [from_uint8(torch.as_tensor(x)) for k, x in read_sheet(net).samples.items() if k > 2]
        judged[net] = float(cleanness(torch.cat(kept)).mean())
    assert judged["exp1"] + 0.1 < judged["exp3"] < float(cleanness(renders(32, 4)[0]).mean())


def test_images_of_another_range_are_not_called_clean(clean):
    """In bytes or in [0, 1], the noise of this picture would pass as clean."""
    images, mask = clean
    noisy = (images + 0.5 * mask * torch.randn_like(images)).clamp(-1, 1)[-2:]
    with pytest.raises(ValueError, match=r"cleanness takes finite images in \[-1, 1\], got values up to 25"):
        cleanness((noisy + 1) * 127.5)
    with pytest.raises(ValueError, match="got values up to 11"):
        cleanness(noisy - noisy.amin() - 11)
    with pytest.warns(UserWarning, match=r"cleanness takes images .*lie in \[0, 1\]: 2 \* images - 1"):
        cleanness((noisy + 1) / 2)


def test_other_images_are_refused():
    bytes_, nothing = torch.zeros(1, 3, 64, 64, dtype=torch.uint8), torch.full((1, 3, 32, 32), torch.nan)
    for wrong in (torch.zeros(1, 3, 48, 48), torch.zeros(3, 64, 64), bytes_, nothing):
        with pytest.raises(ValueError, match="32, 64 or a multiple of 64 px"):
            cleanness(wrong)
    assert set(module.RENDERS) == set(module.CONFETTI) == {32, 64}
