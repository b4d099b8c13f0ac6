"""The memorization check finds planted copies and lets fresh images pass."""

import numpy as np
import pytest
import torch

from lcs_utils.clevr.render import render
from lcs_utils.clevr.scenes import sample_scene
from lcs_utils.clevr.shards import INDEX_STRIDE
from lcs_utils.diffusion import from_uint8
from lcs_utils.evaluation.sheets import ACROSS
from lcs_utils.evaluation.studies import memorization as m


def training(n=300, side=8, seed=0):
    return np.random.default_rng(seed).integers(0, 256, (n, 3, side, side), dtype=np.uint8)


def to_float(images):
    return from_uint8(images)


@pytest.mark.parametrize("chunk", [4096, 7])
def test_nearest_agrees_with_all_pairs(chunk, monkeypatch):
    monkeypatch.setattr(m, "CHUNK", chunk)
    train, images = training(), to_float(training(5, seed=1))
    place, distance = m.nearest(images, train)
    pairs = (images[:, None] - to_float(train)[None]).square().flatten(2).mean(2).sqrt()
    value, index = pairs.topk(2, dim=1, largest=False)
    assert torch.equal(place, index) and torch.allclose(distance, value, atol=1e-4)


def near(net, k, distances):
    return [m.Near(net, "0" * 12, k, i, 1, i, *d) for i, d in enumerate(distances)]


def test_copies_are_counted_and_fresh_images_are_not():
    train = training()
    noise = 0.02 * torch.randn(20, 3, 8, 8, generator=torch.Generator().manual_seed(0))
    given = {
        m.REAL: to_float(training(100, seed=2)),
        "fresh": to_float(training(20, seed=3)),
        "copier": to_float(train[:20]) + noise,
    }
    given["gray"] = torch.zeros(20, 3, 8, 8)  # near to every image, a copy of none
    rows = [
        row for net, images in given.items() for row in near(net, 1, m.nearest(images, train)[1].tolist())
    ]
    found = {net: m.memorized(rows)[net, 1] for net in given}
    assert found == {m.REAL: (0, 100), "fresh": (0, 20), "copier": (20, 20), "gray": (0, 20)}
    close = near(
        "empty", 1, [(0.03, 0.031), (0.03, 0.061)]
    )  # both near to an image, one of them to that one alone
    assert m.memorized(close)["empty", 1] == (1, 2)


def test_rows_survive_their_file(tmp_path):
    rows = near("exp1", 1, [(0.1, 0.3), (0.2, 0.3)]) + near(m.REAL, 1, [(0.3, 0.4)])
    m.write_near(rows, tmp_path / "near.csv")
    text = (tmp_path / "near.csv").read_text()
    assert m.read_near(tmp_path / "near.csv") == sorted(rows) and m.read_near(tmp_path / "none.csv") == []
    (tmp_path / "near.csv").write_text(text[:-4])  # cut off within its last line
    with pytest.warns(UserWarning, match="near.csv ends within line 6, which is dropped"):
        assert m.read_near(tmp_path / "near.csv") == sorted(rows)[:-1]
    (tmp_path / "near.csv").write_text(text.replace("0.2", "two"))
    with pytest.raises(ValueError, match="holds a line that is no row"):
        m.read_near(tmp_path / "near.csv")


def test_planted_copies_are_called_copies_and_fresh_images_are_not():
    seen = training()

    def remembers(x_t, sigma, cond):  # the posterior mean over all that was seen, with a grain of its own
        far = (x_t[:, None] - to_float(seen)).square().sum((2, 3, 4))
        mean = (-far / (2 * sigma[:, None] ** 2)).softmax(1) @ to_float(seen).flatten(1)
        grain = 0.03 * torch.randn(x_t.shape, generator=torch.Generator().manual_seed(1))
        return mean.view_as(x_t) + grain

    drawn = m.planted(remembers, to_float(seen[:5]), torch.zeros(5, 256))
    place, distance = m.nearest(drawn, seen)
    assert place[:, 0].tolist() == [0, 1, 2, 3, 4] and (distance[:, 0] < m.RATIO * distance[:, 1]).all()
    assert (distance[:, 0] > 0.01).all()  # with its grain, and not the image itself
    _, fresh = m.nearest(to_float(training(5, seed=1)), seen)
    assert (fresh[:, 0] > m.RATIO * fresh[:, 1]).all()


def test_the_figure_shows_the_likest_samples_and_all_in_the_histogram():
    rows = m.read_near()
    shown = sorted(m.likeness(row) for row in rows if row.net == "exp1" and row.sample < ACROSS)
    assert [m.likeness(row) for row in m.shown_rows(rows, ["exp1"])] == shown and len(shown) == 3 * ACROSS
    figure = m.plot(rows, {"exp1": "Exp. 1"}, shown=4, across=2)
    *pictures, histogram = figure.axes
    said = [axes.get_xlabel() for axes in pictures]
    numbers = [f"Exp. 1: {share:.2f}" for share in shown[:4]]
    assert said == [*numbers[:2], "", "", *numbers[2:], "", ""]
    ours = sum(row.net == "exp1" for row in rows)
    keys = [text.get_text() for text in histogram.get_legend().get_texts()]
    assert keys[0] == f"samples of our nets ({ours})"
    with pytest.raises(ValueError, match="no rows for 'exp1'; measure it"):
        m.plot([r._replace(weights="other") for r in rows], {"exp1": "Exp. 1"})


def test_shapes_must_agree():
    with pytest.raises(ValueError, match=r"of shape \[3, 16, 16\], got \[300, 3, 8, 8\]"):
        m.nearest(torch.zeros(1, 3, 16, 16), training())
    for samples, ks in ((0, [1]), (1, [13]), (1, [])):
        with pytest.raises(ValueError, match=r"need --samples >= 1 and --k within 0-12; got"):
            m.measure(["exp1"], ks, samples)


def test_the_nearest_scene_is_found_by_its_objects_and_number(tmp_path, monkeypatch):
    seen, weights = training(12), "0" * 12  # four scenes each of one, two and three objects

    class Scenes:
        def __init__(self, folder, counts):
            assert list(counts) == [1, 2, 3]

        def column(self, name):
            return seen if name == "images" else np.full((12, 3, 2), 0.5, np.float32)

    monkeypatch.setattr(m, "ShardDataset", Scenes)
    monkeypatch.setattr(m.changes, "denoiser", lambda net: (lambda x_t, sigma, cond: x_t, 8))
    monkeypatch.setattr(m.changes, "weights", lambda net: weights)
    monkeypatch.setattr(m, "images_of", lambda shown: [to_float(seen[7 + s.sample]) for s in shown])
    monkeypatch.setattr(m, "held_out", lambda k, n, side: to_float(training(n, seed=9)))
    monkeypatch.setattr(m, "planted", lambda denoise, images, cond: images)
    m.measure(["exp1"], [2], 2, tmp_path / "near.csv")
    rows = m.read_near(tmp_path / "near.csv")
    own = [row for row in rows if row.net == "exp1"]
    assert [(row.objects, row.index) for row in own] == [(2, 3), (3, 0)]  # the eighth and the ninth of twelve
    copies = [(row.k, row.objects, row.index) for row in rows if row.net == m.PLANTED]
    assert copies == [(k, k, i) for k in (1, 2, 3) for i in range(4)]
    assert {row.k for row in rows if row.net == m.REAL} == {2}


def test_a_scene_s_image_is_that_of_the_training_set():
    """Scene i with n objects is number n * INDEX_STRIDE + i of seed 0."""
    for objects, index in ((1, 2), (3, 0)):
        scene = sample_scene(0, objects * INDEX_STRIDE + index, objects)
        shown = from_uint8(render([scene], 16)[0].transpose(2, 0, 1).copy())
        assert torch.equal(m.training_image(m.Near("n", "w", 1, 0, objects, index, 0.1, 0.2), 16), shown)


def test_copies_are_planted_with_their_own_labels_and_rows_of_others_stay(tmp_path, monkeypatch):
    seen, told = training(6), []  # two scenes each of one, two and three objects
    where = np.full((6, 3, 2), np.nan, np.float32)
    where[:, 0] = [((i + 0.5) / 16, 0.5 / 16) for i in range(6)]
    columns = {"images": seen, "locations": where}
    scenes = type("Scenes", (), {"__init__": lambda *_: None, "column": lambda self, name: columns[name]})
    monkeypatch.setattr(m, "ShardDataset", scenes)
    monkeypatch.setattr(m.changes, "denoiser", lambda net: (lambda x_t, sigma, cond: x_t, 8))
    monkeypatch.setattr(m.changes, "weights", lambda net: "0" * 12)
    monkeypatch.setattr(m, "images_of", lambda shown: [to_float(seen[0]) for _ in shown])
    monkeypatch.setattr(m, "held_out", lambda k, n, side: to_float(training(n, seed=9)))

    def planted(denoise, images, cond):
        assert cond.sum(1).tolist() == [1] * len(images)
        told.extend(zip(cond.argmax(1).tolist(), images, strict=True))
        return images

    monkeypatch.setattr(m, "planted", planted)
    m.measure(["exp1"], [2], 1, tmp_path / "near.csv")
    assert [cell for cell, _ in told] == [0, 1, 2, 3, 4, 5]
    assert torch.equal(torch.stack([image for _, image in told]), to_float(seen))
    m.measure(["exp2"], [3], 1, tmp_path / "near.csv")
    m.measure(["exp1"], [3], 1, tmp_path / "near.csv")  # another K of a net that was measured
    rows = m.read_near(tmp_path / "near.csv")
    held = {(row.net, row.k): sum((r.net, r.k) == (row.net, row.k) for r in rows) for row in rows}
    copies = {(m.PLANTED, k): 2 for k in (1, 2, 3)}
    assert held == copies | {
        (m.REAL, 2): 100,
        (m.REAL, 3): 100,
        ("exp1", 2): 1,
        ("exp1", 3): 1,
        ("exp2", 3): 1,
    }
    monkeypatch.setattr(m.changes, "weights", lambda net: "1" * 12)
    m.measure(["exp1"], [2], 1, tmp_path / "near.csv")  # trained again
    held = {(row.net, row.k) for row in m.read_near(tmp_path / "near.csv") if row.weights}
    assert held == {("exp1", 2), ("exp2", 3)}


def test_held_out_scenes_are_none_that_a_net_was_trained_on():
    for k in (1, 3):
        held = m.held_out(k, 3, 16)
        shown = torch.stack([m.training_image(m.Near("n", "w", k, 0, k, i, 0.1, 0.2), 16) for i in range(3)])
        assert not any(torch.equal(one, other) for one in held for other in shown)
