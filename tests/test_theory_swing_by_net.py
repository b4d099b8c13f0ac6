"""The small diffusion model of two concepts: what it is trained on, and that what is asked reaches it."""

import torch

from lcs_utils.swing_by import two_concepts as tc


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
