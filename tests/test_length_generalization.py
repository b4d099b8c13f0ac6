"""The length-generalization metric on images whose contents are known, and its bookkeeping."""

import inspect
import io
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from tqdm import tqdm

from lcs_utils import checkpoints, nets, paths, store
from lcs_utils.clevr.conditions import test_condition
from lcs_utils.counter import command as counter_command
from lcs_utils.counter.net import ObjectCounter
from lcs_utils.diffusion import from_uint8
from lcs_utils.evaluation import changes, counting, family_grids, placement, rates, samples, sheets, strips
from lcs_utils.evaluation import length_generalization as lg
from lcs_utils.evaluation.cleanness import cleanness
from lcs_utils.evaluation.colors import color_generalization
from lcs_utils.evaluation.eye import hand_counts
from lcs_utils.evaluation.features import net_features
from lcs_utils.evaluation.locality import net_locality
from lcs_utils.evaluation.rows import STANDARD, Row, encode, of_preset, read_rows, rows_path, told_path
from lcs_utils.evaluation.ways import Way
from lcs_utils.experiments import EXPERIMENTS, Experiment
from lcs_utils.plotting import in_pixels, to_uint8

DRAW = samples.draw_samples
KEY = dict(net="toy", weights="0" * 12, counted_by="c" * 12, seed=0, solver="heun", steps=2)


def row(k, count, placed, plausibility=1.0, sample=0, **changes):
    return Row(**(KEY | changes), k=k, sample=sample, count=count, placed=placed, plausibility=plausibility)


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
            images = samples.draw_samples(
                paints(most), 16, k, n=3, seed=0, steps=3, solver="dpmpp_2m", batch=2
            )
            rows.setdefault(most, []).extend(counting.count_rows(images, counter, k, **KEY))
    monkeypatch.setitem(EXPERIMENTS, "toy", Experiment("toy", (1, 3)))

    def means(most, name):
        return [values[name].value for values in rates.rates(rows[most], "toy").values()]

    assert means(12, "success") == [1, 1, 1] and means(12, "count") == [1, 4, 9]
    assert means(1, "success") == [1, 0, 0] and means(1, "count") == [1, 1, 1]


def test_fresh_noise_is_a_samples_own():
    """Whatever it is drawn with: batch, first sample, number of samples; and another of each seed and K."""

    def denoise(x_t, sigma, cond):
        return x_t / (1 + sigma[:, None, None, None])

    def draw(n, seed=0, k=3, **how):
        return samples.draw_samples(denoise, 16, k, n, seed, steps=6, solver="sde_dpmpp_2m", **how)

    all_five = draw(5)
    assert torch.equal(draw(5, batch=2), all_five) and torch.equal(draw(3), all_five[:3])
    assert torch.equal(draw(5, first=2, batch=2), all_five[2:])
    states = {
        samples._generator(seed, k, i).initial_seed() for seed in (0, 1) for k in (1, 2) for i in range(3)
    }
    assert len(states) == 12


def test_a_change_may_bring_its_sampler(tmp_path, monkeypatch):
    """Rows, saved samples and blind looks of NET/stochastic are the SDE's, unless another is asked for."""
    usual = (0, "sde_dpmpp_2m", 80)
    assert lg.changes.sampler("exp1/stochastic") == usual
    assert lg.changes.sampler("exp1/low_noise") == lg.changes.sampler("exp1") == STANDARD
    monkeypatch.setattr(nets, "row", lambda net, preset: {"sha256": "0" * 64})
    (shown,) = hand_counts.choose(["exp1/stochastic, 64 px"], [3], 1)
    assert (shown.seed, shown.solver, shown.steps) == usual
    (shown,) = hand_counts.choose(["exp1/stochastic, 64 px"], [3], 1, way=STANDARD)
    assert (shown.seed, shown.solver, shown.steps) == STANDARD


def test_samples_depend_on_seed_and_k_and_not_on_the_batch():
    def denoise(x_t, sigma, cond):
        return x_t / (1 + sigma[:, None, None, None])

    def draw(seed, k, batch):
        return samples.draw_samples(denoise, 16, k, 5, seed, 3, "heun", batch)

    assert torch.equal(draw(0, 2, 2), draw(0, 2, 5))
    assert not torch.equal(draw(0, 2, 5), draw(1, 2, 5)) and not torch.equal(draw(0, 2, 5), draw(0, 3, 5))
    assert float(test_condition(5).sum()) == 5


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        ({"n": 0}, ValueError, "n must be >= 1, got 0"),
        ({"n": 2.5}, TypeError, "n must be a whole number, got 2.5"),
        ({"n": 2, "first": 2}, ValueError, "n must be >= 3, got 2"),
        ({"batch": 0}, ValueError, "batch must be >= 1, got 0"),
        ({"denoise": SimpleNamespace(denoiser=1)}, TypeError, "got a SimpleNamespace; pass its .denoiser"),
    ],
)
def test_what_is_asked_of_draw_samples_is_checked(change, error, words):
    asked = {"denoise": lambda x, sigma, cond: x, "resolution": 16, "k": 1, "n": 2, "steps": 2}
    assert samples.draw_samples(**asked).shape == (2, 3, 16, 16)
    with pytest.raises(error, match=words):
        samples.draw_samples(**asked | change)


@pytest.mark.parametrize("net", ["exp1", "exp1/near", "exp3"])
def test_a_net_draws_at_the_side_it_was_trained_on_only(net):
    denoise, side = changes.denoiser(net)
    with pytest.raises(ValueError, match=r"x_t must have shape \[batch, 3, 32, 32\], got \[\d+, 3, 64, 64\]"):
        samples.draw_samples(denoise, 64, 2, 1, steps=2)
    assert side == 32 and samples.draw_samples(denoise, side, 2, 1, steps=2).shape == (1, 3, 32, 32)


def test_drawing_shows_its_steps(monkeypatch):
    bars = []

    def bar(**settings):
        bars.append(tqdm(**settings | {"disable": False, "file": io.StringIO()}))
        return bars[-1]

    monkeypatch.setattr(samples, "tqdm", bar)
    samples.draw_samples(lambda x, sigma, cond: x, 16, 1, 5, steps=3, batch=2)
    assert [(bar.total, bar.n) for bar in bars] == [(9, 9)]


def test_more_samples_begin_with_the_same_ones():
    def denoise(x_t, sigma, cond):
        return x_t / (1 + sigma[:, None, None, None]) + cond.sum(1)[:, None, None, None] / 9

    for family in ("test", "orders", "spread", "crowded"):
        few, many = (samples.draw_samples(denoise, 16, 3, n, 7, 3, "heun", 4, family) for n in (3, 9))
        assert torch.allclose(few, many[:3])
        assert torch.allclose(
            samples.draw_samples(denoise, 16, 3, 9, 7, 3, "heun", 4, family, first=3), many[3:]
        )


def test_noise_of_another_seed_is_of_no_k_of_this_one():
    """Seeds are pooled as if they were independent."""

    def begun(seed, k):
        drawn = samples.draw_samples(lambda x, sigma, cond: x / 400, 16, k, 1, seed, steps=1)
        return drawn.numpy().tobytes()

    assert len({begun(seed, k) for seed in (0, 1, 2) for k in range(1, 5)}) == 12


def test_samples_lie_in_the_range_of_images_whatever_a_net_says():
    drawn = samples.draw_samples(lambda x, sigma, cond: 9 * torch.ones_like(x).cumsum(1) - 18, 16, 1, 1)
    assert drawn.amin((0, 2, 3)).tolist() == drawn.amax((0, 2, 3)).tolist() == [-1, 0, 1]


def test_saved_samples_are_found_by_what_they_were_drawn_with():
    """By net, family, seed, solver, steps, weights and kind of device; another counter reads the same."""
    way = Way("tiny", "exp1", "test", 0, "heun", 2, "0" * 12, "c" * 12)
    others = dict(net="exp2", family="spread", seed=1, solver="dpmpp_2m", steps=3, weights="1" * 12)
    others |= dict(preset="small", device="cuda")
    places = {way._replace(**{name: value}).place(3) for name, value in others.items()}
    assert len(places | {way.place(3), way.place(4)}) == len(others) + 2
    assert way._replace(counted_by="d" * 12).place(3) == way.place(3)


def test_a_row_says_how_clean_its_own_image_is():
    noise = torch.rand(3, 3, 32, 32, generator=torch.Generator().manual_seed(0)) * 2 - 1
    images = noise * torch.tensor([0.0, 0.2, 1.0])[:, None, None, None]
    none = torch.full((3, 1, 2), torch.nan)
    counts = SimpleNamespace(count=torch.zeros(3).long(), centers=none, plausibility=torch.ones(3))

    def said(x):
        return [row.cleanness for row in counting.count_rows(x, lambda _: counts, 2, net="mine")]

    assert said(images) == pytest.approx(cleanness(images).tolist(), abs=1e-4) and len({*said(images)}) > 1
    assert said(images[..., :16, :16]) == [-1, -1, -1]  # not known at this size


def test_conditions_and_places_of_your_own(monkeypatch):
    seen = []

    def denoise(x_t, sigma, cond):
        return (seen.append(cond), x_t / (1 + sigma[:, None, None, None]))[1]

    mine = torch.arange(6.0).reshape(3, 2)
    samples.draw_samples(denoise, 16, 2, 3, batch=2, cond=mine)
    assert torch.equal(seen[0], mine[:2]) and torch.equal(seen[-1], mine[2:])
    where = torch.tensor([[[0.2, 0.3]], [[0.7, 0.8]]])
    centers = torch.tensor([[[0.2, 0.3]], [[0.2, 0.3]]])
    counts = SimpleNamespace(
        count=torch.ones(2, dtype=torch.long), centers=centers, plausibility=torch.ones(2)
    )
    rows = counting.count_rows(torch.zeros(2, 3, 16, 16), lambda images: counts, 1, where=where, net="mine")
    with pytest.raises(ValueError, match="where must have shape"):
        counting.count_rows(torch.zeros(2, 3, 16, 16), lambda images: counts, 2, where=where, net="mine")
    assert [row.placed for row in rows] == [1, 0] and rows[0].solver == "dpmpp_2m"
    assert [row.asked for row in rows] == ["200 300", "699 800"] and placement.own(
        rows
    ) == rows  # as anyone counts it again


def test_places_in_pixels_are_refused_before_anything_is_counted():
    """Rows store thousandths of the image: pixels would be stored as its last corner."""
    images, pixels = torch.zeros(1, 3, 32, 32), torch.tensor([[[12.0, 20.0]]])

    def count(where):
        return counting.count_rows(images, lambda _: pytest.fail("counted"), 1, where=where, net="mine")

    for wrong in (pixels, -pixels / 32, torch.full((1, 1, 2), 1.01)):
        with pytest.raises(ValueError, match=r"where must be in \[0, 1\), as shares of the image, got"):
            count(wrong)
    with pytest.raises(ValueError, match="where must be finite"):
        count(pixels * torch.nan)
    edge = np.array([[np.float32(1.0), 0.0], [-1e-9, 0.5]])  # of rounding in float32
    assert encode(edge) == "999 0 0 500"


def test_layouts_of_scenes_differ_between_samples_and_are_read_back_at_their_places():
    where = family_grids.locations("crowded", 4, 3, seed=2)
    assert where.shape == (3, 4, 2) and bool(((where >= 0) & (where < 1)).all())
    assert not torch.equal(where[0], where[1]) and torch.equal(
        where, family_grids.locations("crowded", 4, 3, seed=2)
    )
    assert not torch.equal(where, family_grids.locations("crowded", 4, 3, seed=3))
    assert family_grids.grids(where).sum(1).tolist() == [4, 4, 4]
    assert torch.equal(
        family_grids.grids(family_grids.locations("test", 5, 2)), torch.stack([test_condition(5)] * 2)
    )

    def drawn(images):
        return SimpleNamespace(count=torch.full((3,), 4), centers=where, plausibility=torch.ones(3))

    key = KEY | {"seed": 2}
    assert [r.placed for r in counting.count_rows(torch.zeros(3), drawn, 4, **key, family="crowded")] == [
        4,
        4,
        4,
    ]
    assert max(r.placed for r in counting.count_rows(torch.zeros(3), drawn, 4, **key, family="test")) < 4
    with pytest.raises(
        ValueError, match="unknown family of conditions 'moon'; allowed: test, orders, spread, crowded"
    ):
        family_grids.locations("moon", 1, 1)
    with pytest.raises(ValueError, match="K must be 0..12 in family test, got 13"):
        family_grids.locations("test", 13, 1)


def pipeline_of(resolution=32, cond_dim=256, radius=None, grid_size=16):
    net = SimpleNamespace(config=SimpleNamespace(cond_dim=cond_dim))
    config = SimpleNamespace(resolution=resolution, radius=radius, grid_size=grid_size)
    return SimpleNamespace(net=net, config=config, denoiser=lambda x_t, sigma, cond: torch.zeros_like(x_t))


COUNTER = SimpleNamespace(config=SimpleNamespace(resolution=32))


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (
            dict(resolution=128),
            "toy draws images of 128 px and the counter reads 32 px; train a counter for it",
        ),
        (dict(resolution=16), "reads 32 px; counters read 16 times 2, 4, 8, ... px only"),
        (dict(cond_dim=8), "toy takes conditions of 8 numbers, the test locations give 256"),
        (dict(radius=3), "toy takes conditions of 256 numbers, the test locations give 51"),
        (dict(grid_size=8), "toy has a grid of 8 cells a side, the test locations one of 16"),
    ],
)
def test_a_net_that_does_not_fit_is_refused_with_both_numbers(wrong, message):
    counting.check_fit("toy", pipeline_of(), COUNTER)
    counting.check_fit("toy", pipeline_of(radius=3, cond_dim=51), COUNTER)
    counting.check_fit("helper", pipeline_of(cond_dim=1), COUNTER, told=False)
    for told, size in ((True, 1), (False, 8)):
        with pytest.raises(ValueError, match=f"takes conditions of {size} numbers"):
            counting.check_fit("helper", pipeline_of(cond_dim=size), COUNTER, told=told)
    with pytest.raises(ValueError, match=message):
        counting.check_fit("toy", pipeline_of(**wrong), COUNTER)


def test_rows_counted_before_their_weights_were_replaced_are_named(monkeypatch, recwarn):
    for preset in paths.SHIPPED:
        assert of_preset(preset)
    assert not recwarn.list
    known = nets.row_or_none

    def replaced(name, preset):
        return known(name, preset) | ({"sha256": "0" * 64} if name == "exp2" else {})

    monkeypatch.setattr(nets, "row_or_none", replaced)
    with pytest.warns(
        UserWarning, match="replaced: exp2; count again: python -m lcs_utils.training measure exp2 "
    ):
        assert of_preset("tiny") == read_rows(rows_path("tiny"))


@pytest.fixture
def toy(tmp_path, monkeypatch):
    """A measurement without nets: the path of its rows, the K at which samples were drawn, what stands for
    the counter.
    """
    drawn, hashes = [], {"counter": "c" * 12}

    def draw(denoise, side, k, last, seed, steps, solver, batch, family, first, cond=None):
        return drawn.append((k, first, last)) or torch.zeros(last - first, 3, side, side)

    monkeypatch.setattr(paths, "RUNS", tmp_path)
    monkeypatch.setattr(paths, "DATA", tmp_path / "data")
    monkeypatch.setattr(lg, "rows_path", lambda preset: tmp_path / "rows.csv")
    monkeypatch.setattr(checkpoints, "load", lambda net, preset, device: pipeline_of())
    monkeypatch.setattr("lcs_utils.models.fused.fuse_", lambda net: None)
    monkeypatch.setattr(nets, "verified_row", lambda net, preset: {"sha256": "0" * 64})
    monkeypatch.setattr(lg, "counter_hash", lambda resolution, folder=None: folder or hashes["counter"])
    monkeypatch.setattr(lg.loading, "load", lambda resolution, folder=None: COUNTER)
    monkeypatch.setattr(samples, "draw_samples", draw)
    monkeypatch.setattr(
        lg,
        "count_rows",
        lambda images, counter, k, **key: [
            Row(**key, k=k, sample=i, count=k, placed=k, plausibility=1.0) for i in range(len(images))
        ],
    )
    return SimpleNamespace(path=tmp_path / "rows.csv", drawn=drawn, hashes=hashes)


def test_rows_survive_their_file_and_a_stopped_measurement_goes_on(toy, capsys):
    stale = [row(1, 1, 1, weights="f" * 12), row(2, 2, 2, net="other")]
    lg.write_rows(stale, toy.path)
    assert lg.read_rows(toy.path) == sorted(stale)
    lg.measure("toy", [1, 2], 2, steps=2, solver="heun")
    assert "toy: 4 samples to count, 4 of them to draw, about" in capsys.readouterr().out
    lg.measure("toy", [1, 2, 3], 2, steps=2, solver="heun")
    lg.measure(
        "toy", [3], 2, steps=2, solver="heun", rows_file=toy.path.with_name("mine.csv")
    )  # counted again, not drawn
    assert len(lg.read_rows(toy.path.with_name("mine.csv"))) == 2
    assert toy.drawn == [(1, 0, 2), (2, 0, 2), (3, 0, 2)]  # what was there was kept
    kept = lg.read_rows(toy.path)
    assert len(kept) == 7 and sum(r.net == "other" for r in kept) == 1  # rows of older weights are gone
    toy.path.write_text(toy.path.read_text().replace("heun,2,3", "heun,2,three"))
    with pytest.raises(ValueError, match="holds a line that is no row"):
        lg.read_rows(toy.path)


def test_a_measurement_draws_as_its_change_says_unless_told_otherwise(toy):
    lg.measure("toy/stochastic", [1], 2)
    assert {(r.net, r.solver, r.steps) for r in lg.read_rows(toy.path)} == {
        ("toy/stochastic", "sde_dpmpp_2m", 80)
    }
    lg.measure("toy/stochastic", [2], 2, steps=3, solver="heun")
    lg.measure("toy", [3], 2)
    assert {(r.k, r.solver, r.steps) for r in lg.read_rows(toy.path)} == {
        (1, "sde_dpmpp_2m", 80),
        (2, "heun", 3),
        (3, *STANDARD[1:]),
    }


def test_a_half_written_file_is_noticed_and_continued(toy):
    lg.measure("toy", [1, 2], 10, steps=2, solver="heun")
    whole = toy.path.read_text()
    toy.path.write_text(whole[:-7])
    with pytest.warns(UserWarning, match="ends within line 23, which is dropped"):
        assert len(lg.read_rows(toy.path)) == 19
    with pytest.warns(UserWarning, match="ends within line 23"):
        lg.measure("toy", [1, 2], 10, steps=2, solver="heun")
    assert toy.path.read_text() == whole
    toy.path.write_text("".join(whole.splitlines(keepends=True)[:13]))  # cut off where a line ends
    with pytest.warns(UserWarning, match="rows.csv was cut off: it has 10 of 20 rows; restore it"):
        lg.measure("toy", [1, 2], 10, steps=2, solver="heun")
    assert toy.path.read_text() == whole
    assert toy.drawn == [(1, 0, 8), (1, 8, 10), (2, 0, 8), (2, 8, 10)]  # nothing was drawn twice
    toy.path.write_bytes(whole.encode()[:-9] + b"\xff")
    with pytest.raises(ValueError, match="rows.csv holds a line that is no row"):
        lg.read_rows(toy.path)


def test_a_file_of_rows_is_not_written_after_each_k(toy, monkeypatch):
    written, gathering = [], store.gathering
    monkeypatch.setattr(lg, "write_rows", lambda rows, *_: written.append(len(list(rows))))
    lg.measure("toy", [1, 2, 3], 2, steps=2, solver="heun")
    assert written == [6]  # and not after each K: other processes wait for the file
    monkeypatch.setattr(store, "gathering", lambda add: gathering(add, every=0))
    monkeypatch.setattr(store, "REST", 0)
    lg.measure("toy", [1, 2, 3], 2, steps=2, solver="heun")
    assert written == [6, 2, 2, 2]


def test_a_file_that_takes_long_to_extend_is_extended_seldom(monkeypatch):
    now, found = [0.0], []
    monkeypatch.setattr(store.time, "monotonic", lambda: now[0])

    def add(rows):
        now[0] += 2
        found.append(now[0])

    with store.gathering(add) as keep:
        for _ in range(300):
            now[0] += 1
            keep([1])
    assert found == [22, 124, 226, 308]  # after 20 seconds, then 100 after each end, and in the end


def test_what_is_gathered_is_handed_over_when_a_block_is_interrupted():
    found = []
    with pytest.raises(KeyboardInterrupt), store.gathering(found.append) as keep:
        keep([1])
        keep([2, 3])
        raise KeyboardInterrupt
    assert found == [[1, 2, 3]]


def test_a_damaged_compressed_file_is_no_traceback(tmp_path):
    path = tmp_path / "rows.csv.bz2"
    lg.write_rows([row(1, 1, 1), row(2, 2, 2)], path)
    assert lg.read_rows(path) == [row(1, 1, 1), row(2, 2, 2)]
    whole = path.read_bytes()
    for damaged in (whole[:-9], whole[:30] + b"?" + whole[31:], b"no bzip2"):
        path.write_bytes(damaged)
        with pytest.raises(ValueError, match="rows.csv.bz2 holds a line that is no row .*restore it with"):
            lg.read_rows(path)


def test_a_background_of_another_size_is_refused_before_sampling(toy, monkeypatch):
    sizes = {"toy": 32, "background_one": 64}
    monkeypatch.setattr(
        checkpoints, "load", lambda net, preset="tiny", device="cpu": pipeline_of(resolution=sizes[net])
    )
    with pytest.raises(ValueError, match="background_one draws images of 64 px and the counter reads 32 px"):
        lg.measure("toy/linear_one", [1], 8, steps=2, solver="heun")
    assert not toy.drawn


def test_a_measurement_that_is_there_says_so(toy, capsys):
    for _ in range(2):
        lg.measure("toy", [1], 8, steps=2, solver="heun")
    assert capsys.readouterr().out.splitlines()[-1] == "toy: all 8 samples are counted already, in rows.csv"


def test_a_new_counter_counts_the_kept_samples_and_more_samples_are_added(toy, capsys):
    lg.measure("toy", [1], 8, steps=2, solver="heun")
    toy.hashes["counter"] = "d" * 12
    lg.measure("toy", [1], 8, steps=2, solver="heun")
    assert toy.drawn == [(1, 0, 8)] and {r.counted_by for r in lg.read_rows(toy.path)} == {"d" * 12}
    lg.measure("toy", [1], 16, steps=2, solver="heun")
    assert toy.drawn == [(1, 0, 8), (1, 8, 16)] and len(lg.read_rows(toy.path)) == 16
    assert "16 samples to count, 8 of them to draw" in capsys.readouterr().out
    place = next((paths.RUNS / "tiny" / "samples").iterdir())
    place.write_bytes(place.read_bytes()[:100])  # cut off: drawn again
    toy.hashes["counter"] = "e" * 12
    lg.measure("toy", [1], 16, steps=2, solver="heun")
    assert toy.drawn[2:] == [(1, 0, 8), (1, 8, 16)]


def test_another_counter_counts_the_same_samples_into_a_file_of_its_own(toy, monkeypatch, tmp_path):
    lg.measure("toy/unit", [1], 2, steps=4)
    before = (tmp_path / "rows.csv").read_bytes()
    monkeypatch.setattr(samples, "draw_samples", None)  # kept samples are counted, none is drawn
    lg.measure("toy/unit", [1], 2, steps=4, rows_file=tmp_path / "other.csv", counter_folder="second")
    assert (tmp_path / "rows.csv").read_bytes() == before
    assert {row.counted_by for row in lg.read_rows(tmp_path / "other.csv")} == {"second"}
    assert (tmp_path / "other.csv").read_text().startswith("# python -m lcs_utils.evaluation.length_general")
    assert "--counter second" in (tmp_path / "other.csv").read_text().partition("\n")[0]


def test_the_sheet_shows_the_samples_that_were_counted(toy, monkeypatch):
    def level(i, k):
        return torch.full((3, 32, 32), -1.0 + 0.1 * k + 0.01 * i)

    def draw(denoise, side, k, last, *rest):
        return torch.stack([level(i, k) for i in range(rest[-2], last)])

    monkeypatch.setattr(samples, "draw_samples", draw)
    lg.measure("toy/unit", [3], 8)
    kept = next((paths.RUNS / "tiny" / "samples").iterdir())
    kept.unlink()  # runs/ may be lost: what the sheet shows stays
    lg.measure("toy/unit", [0, 1, 2], 10)  # no figure shows K = 0
    lg.measure("toy/unit", [1, 2], 10, seed=1)
    lg.measure("toy/unit", [1, 2], 10, steps=4)  # other ways to sample leave no sheet
    sheet = sheets.read_sheet("toy/unit")
    assert list(sheet.samples) == [1, 2, 3] and sheet.about["net"] == "toy/unit"
    assert (sheet.about["seed"], sheet.about["steps"]) == (0, 14)
    for k, images in sheet.samples.items():
        assert images.shape == (8, 3, 32, 32) and not (images % sheets.STEP).any()
        drawn = [int(to_uint8(level(i, k)).max()) for i in range(8)]
        assert all(abs(int(image.max()) - of) <= 2 for image, of in zip(images, drawn, strict=True))
    before = sheets.sheet_path("toy/unit").read_bytes()
    sheets.sheet_path("toy/unit").unlink()
    lg.measure("toy/unit", [1], 8)  # nothing to count; shown again from what is kept
    assert list(sheets.read_sheet("toy/unit").samples) == [1, 2]
    assert sheets.sheet_path("toy/unit").resolve() in store.READ  # a figure of it names it
    lg.measure("toy@64", [1], 8)
    with pytest.raises(FileNotFoundError, match="no samples of snapshots are kept"):
        sheets.read_sheet("toy@64")
    sheets.sheet_path("toy/unit").write_bytes(before[:200])
    with pytest.raises(ValueError, match="toy_unit.webp is no sheet of samples"):
        sheets.read_sheet("toy/unit")
    with pytest.raises(ValueError, match="8 samples of each K, got {2: 7}"):
        sheets.write_sheet(sheets.sheet_path("toy"), {2: torch.zeros(7, 3, 32, 32).numpy()}, {})


def test_counting_fewer_again_replaces_those_alone(toy):
    """A fresh clone has rows and no samples: those of a sheet are drawn anew, the other rows stay."""
    lg.measure("toy/unit", [2, 3], 12, family="spread")
    before = lg.read_rows(toy.path)
    for kept in (paths.RUNS / "tiny" / "samples").glob("*spread*"):
        kept.unlink()
    lg.measure("toy/unit", [2, 3], 8, family="spread", sheet_of_any=True)
    assert lg.read_rows(toy.path) == before and len(before) == 24
    lg.measure("toy/unit", [2, 3], 16, family="spread")
    assert [row.sample for row in lg.read_rows(toy.path)] == 2 * list(range(16))


def test_samples_at_random_cells_leave_a_sheet_of_their_own_if_asked(toy):
    lg.measure("toy/unit", [2, 3], 8, family="spread")
    with pytest.raises(FileNotFoundError, match="--preset tiny --family spread --keep-sheet draws them"):
        sheets.read_sheet("toy/unit", family="spread")
    lg.measure("toy/unit", [2, 3], 8, family="spread", sheet_of_any=True)  # all are counted already
    lg.measure("toy/unit", [2, 3], 8)
    apart, listed = (sheets.read_sheet("toy/unit", family=family) for family in ("spread", "test"))
    assert apart.about == listed.about and list(apart.samples) == list(listed.samples) == [2, 3]
    before = sheets.sheet_path("toy/unit", family="spread").read_bytes()
    sheets.sheet_path("toy/unit", family="spread").unlink()
    for kept in (paths.RUNS / "tiny" / "samples").glob("*spread*"):
        kept.unlink()  # runs/ may be lost; the command that a missing sheet names makes it again
    lg.measure("toy/unit", [2, 3], 8, family="spread", sheet_of_any=True)
    assert sheets.sheet_path("toy/unit", family="spread").read_bytes() == before
    sheets.sheet_path("toy/unit").unlink()
    with pytest.raises(FileNotFoundError, match="toy/unit --preset tiny --keep-sheet draws them"):
        sheets.read_sheet("toy/unit")
    for kept in (paths.RUNS / "tiny" / "samples").glob("*test*"):
        kept.unlink()
    lg.measure("toy/unit", [2, 3], 8, sheet_of_any=True)
    assert list(sheets.read_sheet("toy/unit").samples) == [2, 3]
    for other in (dict(seed=1), dict(steps=3), dict(rows_file="mine.csv")):
        with pytest.raises(ValueError, match="a sheet keeps 8 or more samples"):
            lg.measure("toy/unit", [2], 8, family="spread", sheet_of_any=True, **other)
    with pytest.raises(ValueError, match="a sheet keeps 8 or more samples"):
        lg.measure("toy/unit", [2], 7, family="spread", sheet_of_any=True)
    assert len(strips.strip(["toy/unit"], [2]).marks[0][0]) == 2
    assert strips.strip(["toy/unit"], [2], family="spread").marks == [[[]]]  # only the paper's are known


def test_a_strip_marks_the_cells_that_its_family_was_asked_for():
    rows = lg.read_rows(lg.rows_path("medium"))
    for family in ("spread", "test"):
        strip = strips.strip(["exp1/stochastic"], [4], rows, "medium", family=family)
        dots = [(x, y) for x, y, _ in strip.marks[0][0]]
        assert np.allclose(dots, in_pixels(family_grids.locations(family, 4, 1)[0], 64), atol=0.1)


def test_sheets_round_hues_more_than_brightness_and_only_once():
    levels = np.arange(0, 256, 3)
    pixels = np.stack(np.meshgrid(levels, np.arange(256), levels), -1).astype(np.uint8)  # black and white too
    kept = sheets.rounded(pixels)
    off = np.abs(kept.astype(int) - pixels)
    assert off[..., 1].max() == 2 and off.max() == 10
    inside = ((pixels >= 10) & (pixels <= 245)).all(-1)  # no step back there
    assert off[inside].max() == 7
    assert (sheets.rounded(kept) == kept).all()
    small = pixels[:, :, :32]
    assert np.abs(sheets.rounded(small).astype(int) - small).max() == 2  # at 32 px


def test_a_sheet_is_counted_only_beside_rows_of_its_own_weights(toy, monkeypatch):
    monkeypatch.setattr(counting, "rows_path", lambda preset: toy.path)
    monkeypatch.setattr(counting, "count_rows", lg.count_rows)
    monkeypatch.setattr(counting, "counter_hash", lambda resolution: toy.hashes["counter"])
    lg.measure("toy", [1, 2], 8)
    rows = lg.read_rows(toy.path)
    lg.write_rows([row for row in rows if row.k == 1], toy.path)
    counting.count_sheet("toy")
    assert {(row.k, row.sample) for row in lg.read_rows(toy.path)} == {(row.k, row.sample) for row in rows}
    lg.write_rows([row._replace(weights="f" * 12) for row in rows], toy.path)
    with pytest.raises(
        ValueError, match="sheet of toy shows weights 000000000000, its rows are of ffffffffffff"
    ):
        counting.count_sheet("toy")
    assert {row.weights for row in lg.read_rows(toy.path)} == {"f" * 12}
    with pytest.raises(ValueError, match="color_1-3 is told colors; sheets are counted of"):
        counting.count_sheet("color_1-3", "small")


def test_families_of_before_are_read_by_todays_name(tmp_path):
    lg.write_rows([row(1, 1, 1, family="scenes"), row(1, 1, 1)], tmp_path / "rows.csv")
    assert lg.read_rows(tmp_path / "rows.csv") == [row(1, 1, 1, family="crowded"), row(1, 1, 1)]


def test_rows_from_before_there_were_families_are_read(tmp_path):
    lg.write_rows([row(1, 1, 1)], tmp_path / "rows.csv")
    text = (tmp_path / "rows.csv").read_text()
    (tmp_path / "rows.csv").write_text(text.replace(",family", "").replace(",test", ""))
    assert lg.read_rows(tmp_path / "rows.csv") == [row(1, 1, 1)]


def test_bad_input(capsys):
    wrong = {
        "exp1 --k 0-13": "--k within 0-12 of family test; got 64 and 13",
        "exp1 --k 3-1": "the range 3-1 in '3-1' ends below its start; write 1-3",
        "exp1 --k x": "'x' is neither a number",
        "exp1 --samples 0": "need --samples >= 1 and --k within 0-12 of family test; got 0 and 12",
        "exp1 --family moon": "argument --family: invalid choice: 'moon'",
        "exp1 --family spread --k 10": "--k within 0-9 of family spread; got 64 and 10",
        "exp2/unti": "unknown change 'unti' in 'exp2/unti'; allowed: unit, near, nearest, swapped",
    }
    for arguments, message in wrong.items():
        with pytest.raises(SystemExit):
            lg.main(arguments.split())
        assert message in capsys.readouterr().err


@pytest.mark.parametrize("module", [lg, color_generalization, net_locality, net_features])
def test_a_gpu_that_is_missing_is_said(module, monkeypatch, capsys):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(SystemExit):
        module.main(["color_1-3" if module is color_generalization else "exp1", "--device", "cuda"])
    assert "--device cuda needs a GPU that torch can use" in capsys.readouterr().err


@pytest.mark.parametrize("module", [lg, color_generalization, net_locality, net_features, counter_command])
def test_what_is_no_device_is_refused_with_what_is_allowed(module, monkeypatch, capsys):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    nets = {lg: ["exp1"], color_generalization: ["color_1-3"], net_locality: ["exp1"], net_features: ["exp1"]}
    for device, message in (
        ("gpu", "unknown device 'gpu'; allowed: cpu, cuda (the first GPU), cuda:1"),
        ("cuda:3", "--device cuda:3: this machine has 1 GPU, counted from cuda:0"),
    ):
        with pytest.raises(SystemExit):
            module.main([*nets.get(module, []), "--device", device])
        assert message in capsys.readouterr().err


def test_shipped_rows_belong_to_the_shipped_nets_and_counter():
    """Of nets whose weights did not fit, the row that was kept says which they were; snapshots leave none."""
    rows = lg.read_rows(told_path())
    # of `earlier_counter.csv.bz2`: it had learned from renders drawn over by our nets
    assert {r.counted_by for r in rows} == {"9c366c7b46ad"}
    assert {r.counted_by for r in lg.read_rows(lg.rows_path())} == {counting.counter_hash()}, (
        "measure again: another counter"
    )
    for net in sorted({r.net for r in rows if "@" not in r.net}):
        assert {r.weights for r in rows if r.net == net} == {changes.weights(net)}, f"measure {net} again"
        if sheets.sheet_path(net).exists():  # those of the floor's nets and of what figures show are kept
            assert sheets.read_sheet(net).about["weights"] == changes.weights(net), f"measure {net} again"
    assert {"exp1", "exp2", "exp3", "exp1_1-6"} <= {
        path.stem for path in sheets.sheet_path("exp1").parent.glob("*.webp")
    }


def test_shipped_sheets_show_what_was_counted():
    counter, rows = ObjectCounter.from_pretrained(), lg.read_rows(lg.rows_path())
    for net in ("exp1", "exp2"):
        counted = {
            (r.k, r.sample): r.count
            for r in rows
            if r.net == net and r.family == "test" and r.sample < sheets.ACROSS
        }
        shown = sheets.read_sheet(net).samples
        seen = {
            (k, i): n for k, x in shown.items() for i, n in enumerate(counter(from_uint8(x)).count.tolist())
        }
        agree = sum(seen[at] == counted[at] for at in counted) / len(counted)
        assert agree > 0.9, (net, agree)  # bytes are rounded: a few counts lie on the edge
        shifted = sum(seen[at] == counted.get((at[0], (at[1] + 1) % sheets.ACROSS)) for at in counted) / len(
            counted
        )
        assert shifted < agree - 0.2


def listening(x_t, sigma, cond):
    """A picture of its condition, under a pattern that no other noise, solver or number of steps ends in."""
    side = x_t.shape[-1] // 16
    asked = cond.reshape(-1, 1, 16, 16).repeat_interleave(side, 2).repeat_interleave(side, 3)
    return 0.4 * asked + 0.4 * torch.sin(5 * x_t / (1 + sigma[:, None, None, None]))


def saved_samples():
    (path,) = (paths.RUNS / "tiny" / "samples").iterdir()
    found = torch.from_numpy(np.load(path))
    path.unlink()
    return found


def test_samples_are_drawn_as_their_rows_say(toy, monkeypatch):
    """Of the family, seed, solver and steps that were asked for, and of no other."""
    monkeypatch.setattr(samples, "draw_samples", DRAW)
    pipeline = pipeline_of()
    pipeline.denoiser = listening
    monkeypatch.setattr(checkpoints, "load", lambda net, preset, device: pipeline)
    way = dict(seed=3, steps=3, solver="heun", family="spread")
    lg.measure("toy", [4], 3, **way)
    found = saved_samples()
    assert torch.equal(found, DRAW(listening, 32, 4, 3, **way))
    for other in (dict(seed=0), dict(steps=4), dict(solver="dpmpp_2m"), dict(family="crowded")):
        assert not torch.allclose(found, DRAW(listening, 32, 4, 3, **way | other), atol=1e-3), other
    rows = lg.read_rows(toy.path)
    assert {(r.seed, r.steps, r.solver, r.family) for r in rows} == {tuple(way.values())} and len(rows) == 3

    lg.measure("toy/unit", [4], 3, **way)  # and a change of the net is of what is drawn

    def unit(x_t, sigma, cond):
        return listening(x_t, sigma, cond / 2)

    assert torch.allclose(saved_samples(), DRAW(unit, 32, 4, 3, **way), atol=1e-5)
    assert not torch.allclose(found, DRAW(unit, 32, 4, 3, **way), atol=0.1)


def test_the_command_measures_what_its_options_say(monkeypatch):
    called, signature = [], inspect.signature(lg.measure)
    monkeypatch.setattr(lg, "measure", lambda *args: called.append(signature.bind(*args).arguments))
    way = dict(preset="small", seed=3, steps=5, solver="heun", family="spread", device="cuda")
    asked = [word for name, value in way.items() for word in (f"--{name}", str(value))]
    lg.main(
        ["exp1", "exp2/unit", "--k", "1,4", "--samples", "2", "--rows", "mine.csv", "--counter", "c", *asked]
        + ["--keep-sheet"]
    )
    for net, told in zip(("exp1", "exp2/unit"), called, strict=True):
        told["ks"] = list(told["ks"])
        own = dict(net=net, ks=[1, 4], samples=2, rows_file="mine.csv", counter_folder="c", sheet_of_any=True)
        assert dict(told) == own | way
