"""The memorization check finds planted copies and lets fresh images pass."""

import numpy as np
import pytest
import torch

from lcs_utils.evaluation import memorization as m


def training(n=300, side=8, seed=0):
    return np.random.default_rng(seed).integers(0, 256, (n, 3, side, side), dtype=np.uint8)


def to_float(images):
    return torch.from_numpy(images).float() / 127.5 - 1


@pytest.mark.parametrize("chunk", [4096, 7])
def test_nearest_agrees_with_all_pairs(chunk, monkeypatch):
    monkeypatch.setattr(m, "CHUNK", chunk)
    train, images = training(), to_float(training(5, seed=1))
    place, distance = m.nearest(images, train)
    pairs = (images[:, None] - to_float(train)[None]).square().flatten(2).mean(2).sqrt()
    value, index = pairs.topk(2, dim=1, largest=False)
    assert torch.equal(place, index) and torch.allclose(distance, value, atol=1e-4)


def near(net, k, distances):
    return [m.Near(net, k, i, 1, i, *d) for i, d in enumerate(distances)]


def test_copies_are_counted_and_fresh_images_are_not():
    train = training()
    noise = 0.02 * torch.randn(20, 3, 8, 8, generator=torch.Generator().manual_seed(0))
    given = {m.REAL: to_float(training(100, seed=2)), "fresh": to_float(training(20, seed=3)), "copier": to_float(train[:20]) + noise}
    given["gray"] = torch.zeros(20, 3, 8, 8)  # near to every image, a copy of none
    rows = [row for net, images in given.items() for row in near(net, 1, m.nearest(images, train)[1].tolist())]
    found = m.memorized(rows)
    assert found["copier", 1] == (20, 20, 20) and found["fresh", 1].near <= 2 and found["gray", 1] == (20, 0, 20)
    with pytest.raises(ValueError, match="no held-out renders with 2 objects to compare fresh with"):
        m.memorized([row for row in rows if row.net == m.REAL] + near("fresh", 2, [(0.5, 0.6)]))


def test_rows_survive_their_file(tmp_path):
    rows = near("exp1", 1, [(0.1, 0.3), (0.2, 0.3)]) + near(m.REAL, 1, [(0.3, 0.4)])
    m.write_near(rows, tmp_path / "near.csv")
    assert m.read_near(tmp_path / "near.csv") == sorted(rows) and m.read_near(tmp_path / "none.csv") == []
    (tmp_path / "near.csv").write_text((tmp_path / "near.csv").read_text().replace("0.2", "two"))
    with pytest.raises(ValueError, match="holds a line that is no row"):
        m.read_near(tmp_path / "near.csv")


def test_shapes_must_agree():
    with pytest.raises(ValueError, match=r"of shape \[3, 16, 16\], got \[300, 3, 8, 8\]"):
        m.nearest(torch.zeros(1, 3, 16, 16), training())
    with pytest.raises(ValueError, match="no rows for 'exp1'"):
        m.draw([], "exp1")
