"""The small diffusion model of two concepts: what it is trained on, and that what is asked reaches it."""

import pytest
import torch

from lcs_utils.swing_by import two_concepts as tc
from lcs_utils.theory_examples import swing_by_diffusion


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def test_the_unseen_label_never_reaches_training(monkeypatch):
    seen, concepts = [], tc.Disks.concepts

    def recorded(disks, labels, generator):
        seen.append(labels)
        return concepts(disks, labels, generator)

    monkeypatch.setattr(tc.Disks, "concepts", recorded)
    list(tc.train(tc.Disks(), 0, (0, 3), batch=32))
    assert len(seen) == 3
    assert {tuple(label) for label in torch.cat(seen).tolist()} == {(0, 0), (0, 1), (1, 0)}


def test_what_is_asked_for_is_what_the_denoiser_is_told():
    disks = tc.Disks()

    def draw(x, sigma, cond):
        return disks.images(cond.float(), seeded())

    for label in tc.LABELS:
        images = tc.generate(draw, disks, label, count=4)
        assert tc.accuracy(disks, images, label)["both"] == 1


def test_the_net_hears_its_condition():
    torch.manual_seed(0)
    net, x, sigma = tc.DiskNet(), torch.randn(1, 3, 12, 12, generator=seeded()), torch.ones(1)
    torch.nn.init.constant_(net.out.weight, 0.1)  # it starts at 0, where nothing is heard
    with torch.no_grad():
        answers = [net(x, sigma, torch.tensor([cond])) for cond in ([0.0, 0.0], [0.0, 1.0], [1.0, 0.0])]
    for a, b in ((0, 1), (0, 2), (1, 2)):
        assert float((answers[a] - answers[b]).abs().max()) > 1e-3


def test_medians_are_each_concept_s_own():
    disks = tc.Disks()
    images = disks.images(torch.tensor([[1.0, 0.0]]).expand(20, 2), seeded())
    found = tc.accuracy(disks, images, (1, 0))
    assert found["median_size"] == pytest.approx(1, abs=0.1)
    assert found["median_color"] == pytest.approx(0, abs=0.1)


def test_disks_lie_to_every_side_of_the_middle():
    disks = tc.Disks()
    images = disks.images(torch.zeros(400, 2), seeded())
    bright, place = (images + 1).sum(1), torch.arange(12.0) - 5.5
    for axis in (1, 2):
        at = (bright.sum(3 - axis) @ place) / bright.sum((1, 2))
        assert float(at.mean()) == pytest.approx(0, abs=0.15)
        assert float(at.min()) < -1.2 and float(at.max()) > 1.2 and float(at.abs().max()) < 1.6


def test_a_drawn_disk_is_read_right_only_where_both_concepts_are(monkeypatch):
    images = tc.Disks.images

    def other_color(self, concepts, generator):
        return images(self, torch.stack([concepts[:, 0], 1 - concepts[:, 1]], 1), generator)

    monkeypatch.setattr(tc.Disks, "images", other_color)
    assert swing_by_diffusion.null_reading(tc.Disks(diversity=0.3), 0, count=64).disks == 0
