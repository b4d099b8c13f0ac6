"""The length-generalization metric on images whose contents are known, and its bookkeeping."""

from types import SimpleNamespace

import pytest
import torch

from lcs_utils import checkpoints
from lcs_utils.clevr.conditions import TEST_LOCATIONS, test_condition
from lcs_utils.evaluation import length_generalization as lg

CELLS = torch.tensor(TEST_LOCATIONS)
KEY = dict(net="toy", weights="0" * 12, counted_by="c" * 12, seed=0, solver="heun", steps=2)


def row(k, count, placed, plausibility=1.0, sample=0, **changes):
    return lg.Row(**(KEY | changes), k=k, sample=sample, count=count, placed=placed, plausibility=plausibility)


def test_every_object_at_its_cell_is_placed_and_none_counts_twice():
    for k in range(13):
        assert lg.match(CELLS[:k], CELLS[:k]) == k
    assert lg.match(CELLS[:1].repeat(5, 1), CELLS[:1]) == 1  # five objects at one location fill one cell
    assert lg.match(CELLS[:1], CELLS[:1].repeat(5, 1)) == 1  # one object does not fill five
    assert lg.match(torch.empty(0, 2), CELLS) == 0 and lg.match(CELLS, CELLS[:0]) == 0


def test_within_one_cell_and_not_two():
    cell = torch.tensor([[0.5, 0.5]])
    assert lg.match(cell + 1 / 16, cell) == 1 and lg.match(cell + 2 / 16, cell) == 0
    assert lg.match(cell + torch.tensor([1 / 16, -1 / 16]), cell) == 1


def test_the_matching_is_maximal_where_greedy_is_not():
    # center 0 is near both cells, center 1 only near the first: greedy gives cell 0 center 0 and leaves cell 1 empty
    cells = torch.tensor([[0.50, 0.5], [0.50 + 2 / 16, 0.5]])
    centers = torch.tensor([[0.50 + 1 / 16, 0.5], [0.50 - 1 / 16, 0.5]])
    assert lg.match(centers, cells) == 2


def test_success_is_placed_few_extras_and_plausible():
    assert lg.success(row(9, 9, 9), 3) and lg.success(row(9, 8, 8), 3) and lg.success(row(9, 11, 9), 3)
    assert not lg.success(row(9, 7, 7), 3)  # two objects missing
    assert not lg.success(row(9, 12, 9), 3)  # three extras, trained on three
    assert not lg.success(row(9, 9, 9, plausibility=0.1), 3)
    assert not lg.success(row(1, 2, 1), 1) and lg.success(row(1, 2, 1), 2)


def test_a_denoiser_that_places_every_object_succeeds_and_one_that_places_one_fails(monkeypatch):
    """A toy world: an object is a cell's brightness; the exact denoiser paints what the condition says."""

    def paints(most):
        def denoise(x_t, sigma, cond):
            kept = cond * (cond.cumsum(1) <= most)
            return (2 * kept - 1).reshape(-1, 1, 16, 16).expand(-1, 3, -1, -1)

        return denoise

    def counter(images):
        centers = torch.full((len(images), 12, 2), float("nan"))
        for i, image in enumerate(images):
            y, x = (image[0] > 0).nonzero(as_tuple=True)
            centers[i, : len(x)] = (torch.stack([x, y], 1) + 0.5) / 16
        count = (~centers[..., 0].isnan()).sum(1)
        return SimpleNamespace(count=count, centers=centers, plausibility=torch.ones(len(images)))

    rows = {}
    for most in (12, 1):
        for k in (1, 4, 9):
            images = lg.draw_samples(paints(most), 16, k, n=3, seed=0, steps=3, solver="dpmpp_2m", batch=2)
            rows.setdefault(most, []).extend(lg.count_rows(images, counter, k, **KEY))
    everything, one = lg.summarize(rows[12], "toy", 3), lg.summarize(rows[1], "toy", 3)
    assert everything["success_rate"] == [1, 1, 1] and everything["mean_count"] == [1, 4, 9]
    assert one["success_rate"] == [1, 0, 0] and one["mean_count"] == [1, 1, 1] and one["n_samples"] == 3


def test_samples_depend_on_seed_and_k_and_not_on_the_batch():
    denoise = lambda x_t, sigma, cond: x_t / (1 + sigma[:, None, None, None])
    draw = lambda seed, k, batch: lg.draw_samples(denoise, 16, k, 5, seed, 3, "heun", batch)
    assert torch.equal(draw(0, 2, 2), draw(0, 2, 5))
    assert not torch.equal(draw(0, 2, 5), draw(1, 2, 5)) and not torch.equal(draw(0, 2, 5), draw(0, 3, 5))
    assert float(test_condition(5).sum()) == 5


def test_rows_survive_their_file_and_a_stopped_measurement_goes_on(tmp_path, monkeypatch):
    path, calls = tmp_path / "rows.csv", []
    stale = [row(1, 1, 1, weights="f" * 12), row(2, 2, 2, net="other")]
    lg.write_rows(stale, path)
    assert lg.read_rows(path) == sorted(stale)
    pipeline = SimpleNamespace(denoiser=None, config=SimpleNamespace(resolution=16))
    monkeypatch.setattr(lg, "rows_path", lambda preset: path)
    monkeypatch.setattr(checkpoints, "load", lambda net, preset: pipeline)
    monkeypatch.setattr(checkpoints, "row", lambda net, preset: {"sha256": "0" * 64})
    monkeypatch.setattr(lg, "counter_hash", lambda: "c" * 12)
    monkeypatch.setattr(lg.ObjectCounter, "from_pretrained", lambda folder: None)
    monkeypatch.setattr(lg, "draw_samples", lambda denoise, resolution, k, n, *rest: calls.append(k) or torch.zeros(n))
    monkeypatch.setattr(lg, "count_rows", lambda images, counter, k, **key: [
        lg.Row(**key, k=k, sample=i, count=k, placed=k, plausibility=1.0) for i in range(len(images))])  # fmt: skip
    lg.measure("toy", [1, 2], 2, steps=2, solver="heun")
    lg.measure("toy", [1, 2, 3], 2, steps=2, solver="heun")
    assert calls == [1, 2, 3]  # what was there was kept
    kept = lg.read_rows(path)
    assert len(kept) == 7 and sum(r.net == "other" for r in kept) == 1  # rows of older weights are gone
    path.write_text(path.read_text().replace("heun,2,3", "heun,2,three"))
    with pytest.raises(ValueError, match="holds a line that is no row"):
        lg.read_rows(path)


def test_bad_input():
    with pytest.raises(ValueError, match="no rows for net 'toy'"):
        lg.summarize([], "toy", 3)
    for arguments in (["exp1", "--k", "0-13"], ["exp1", "--samples", "0"]):
        with pytest.raises(SystemExit):
            lg.main(arguments)


def test_shipped_rows_belong_to_the_shipped_nets_and_counter():
    rows = lg.read_rows(lg.rows_path())
    assert {r.counted_by for r in rows} == {lg.counter_hash()}, "measure again: rows were counted by another counter"
    for net in sorted({r.net for r in rows}):
        assert {r.weights for r in rows if r.net == net} == {checkpoints.row(net)["sha256"][:12]}, f"measure {net} again"
