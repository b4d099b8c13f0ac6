"""Colors without places: success, chance and conditions obeyed, against counting by hand; each with a case
that must fail.
"""

from types import SimpleNamespace

import numpy as np
import pytest
import torch

from lcs_utils import paths, store
from lcs_utils.clevr.scenes import COLORS, Scene, SceneObject
from lcs_utils.counter import loading
from lcs_utils.counter.net import Counts
from lcs_utils.counter.scenes import prune
from lcs_utils.evaluation import family_grids, rates, rules
from lcs_utils.evaluation.colors import color, color_generalization, color_obeyed
from lcs_utils.evaluation.colors.color import ColorRow
from lcs_utils.evaluation.rows import Sampler
from lcs_utils.experiments import Experiment

TOLD = Experiment("color_1-3", objects=(1, 3), condition="color")


def counts_of(colors, plausibility=1.0):
    """A counter that reports these colors for every image."""
    seen = torch.tensor([[COLORS.index(c) for c in colors]])

    def counter(images):
        n, m = len(images), len(colors)
        full = torch.full((n,), m), torch.rand(n, m, 2), torch.zeros(n, 256, dtype=torch.bool)
        return Counts(*full, torch.full((n,), plausibility), torch.ones(n), seen.expand(n, -1))

    return counter


def rows_of(colors, asked, **more):
    key = dict(net="color_1-3", weights="", counted_by="", seed=0, solver="dpmpp_2m", steps=14) | more
    return color.color_rows(torch.zeros(len(asked), 3, 4, 4), counts_of(colors), asked, **key)


def test_placed_and_extras_are_those_of_the_multisets():
    found = torch.tensor([[2, 0, 1, 0, 0, 0, 3, 0.0]])
    asked = torch.tensor([[1, 1, 1, 0, 0, 0, 2, 0.0]])
    assert color.placed(found, asked).tolist() == [4] and color.extras(found, asked).tolist() == [2]
    assert int(found.sum()) == 4 + 2  # every object is one or the other
    assert color.placed(found, found).tolist() == [6] and color.extras(found, found).tolist() == [0]


def test_success_follows_the_rules_of_places():
    """With K = 5 beyond three in training: four of five suffice, three do not; three colors asked need all
    three.
    """
    asked = color.conditions("colors", 5, 1)
    right = ["blue", "brown", "cyan", "gray", "green"]
    for seen, good in (
        (right, True),
        (right[:4], True),
        (right[:3], False),
        (right[:3] + ["red", "red"], False),
    ):
        (row,) = rows_of(seen, asked)
        assert rules.success(row, TOLD) is good and rules.paper_success(row, TOLD) is good
    three = color.conditions("colors", 3, 1)
    assert rules.success(rows_of(right[:3], three)[0], TOLD) and not rules.success(
        rows_of(right[:2], three)[0], TOLD
    )
    (row,) = rows_of(["blue"] * 3, three)  # as many objects, of one color
    assert (row.placed, row.extras) == (1, 2) and not rules.success(row, TOLD)


def test_families_ask_for_what_they_say():
    first = color.conditions("colors", 3, 2)
    assert first.tolist() == [[1, 1, 1, 0, 0, 0, 0, 0]] * 2
    subsets = color.conditions("subsets", 3, 64)
    assert (
        set(subsets.sum(1).tolist()) == {3} and float(subsets.max()) == 1 and len(subsets.unique(dim=0)) > 20
    )
    assert torch.equal(
        subsets[:5], color.conditions("subsets", 3, 5)
    )  # more samples begin with the same ones
    repeated = color.conditions("repeated", 3, 64)
    assert set(repeated.max(1).values.tolist()) == {3} and set(repeated.sum(1).tolist()) == {3}
    assert len(repeated.argmax(1).unique()) == 8


def test_chance_is_what_random_colors_give():
    assert color.chance_placed([1] * 4 + [0] * 4, 4) == pytest.approx(4 * (1 - (7 / 8) ** 4))
    assert color.chance_placed([1] * 8, 8) == pytest.approx(5.25, abs=0.01)
    drawn = np.random.default_rng(0).integers(8, size=(40_000, 5))
    counts = torch.tensor(np.stack([(drawn == c).sum(1) for c in range(8)], 1)).float()
    asked = torch.tensor([3, 1, 0, 0, 2, 0, 0, 0.0]).expand(len(counts), -1)
    assert color.chance_placed(asked[0].tolist(), 5) == pytest.approx(
        float(color.placed(counts, asked).double().mean()), abs=0.02
    )
    seen = (counts[:, :6] > 0).sum(1)
    assert color_obeyed.covered(6, 5) == pytest.approx(
        [float((seen == c).double().mean()) for c in range(7)], abs=0.01
    )


def test_the_table_is_a_law_and_random_scenes_obey_nothing():
    for (k, objects), rows in color_obeyed.table().items():
        assert rows.sum(1) == pytest.approx(np.ones(k + 1))
        assert (rows[0] @ np.arange(k + 1)) == pytest.approx(
            color.chance_placed([1] * k + [0] * (8 - k), objects)
        )
    rng = np.random.default_rng(0)
    asked = color.conditions("subsets", 4, 300)

    def net(obeys):
        """Five objects a sample, `obeys` of them of asked colors, the others of random ones."""
        rows = []
        for i, of in enumerate(asked.numpy()):
            colors = [*rng.choice(np.flatnonzero(of), obeys, replace=False), *rng.integers(8, size=5 - obeys)]
            (row,) = rows_of([COLORS[c] for c in colors], asked[i : i + 1])
            rows.append(row._replace(sample=i))
        return rows

    for obeys in (0, 2, 4):
        rows = net(obeys)
        found = color_obeyed.conditions_obeyed(rows, 4)
        assert abs(found.value - obeys) < 0.35 and found.low - 0.1 <= obeys <= found.high + 0.1
        if not obeys:
            assert np.mean([row.placed for row in rows]) > 1.8  # which colors alone would take for two obeyed


@pytest.mark.parametrize("objects", [5, 6, 7])
@pytest.mark.parametrize("obey", [(0,), (3,), (6,), (0, 6)])
def test_planted_conditions_obeyed_of_six_come_back_on_average(objects, obey, monkeypatch):
    """Half of the samples ignore their conditions; the mean over sets of 64 is within 0.3 of the truth."""
    monkeypatch.setattr(color_obeyed, "RESAMPLES", 40)
    rng, law = np.random.default_rng(0), color_obeyed.table()[6, objects]
    obeyed = np.tile(obey, 64)[:64]
    template = rows_of(["red"], color.conditions("subsets", 6, 1))[0]._replace(count=objects)

    def found():
        return color_obeyed.conditions_obeyed(
            [template._replace(placed=int(rng.choice(7, p=law[of]))) for of in obeyed], 6
        ).value

    truth = np.minimum(obeyed, objects).mean()
    assert np.mean([found() for _ in range(60)]) == pytest.approx(truth, abs=0.3)


@pytest.mark.parametrize(("k", "obey", "least", "most"), [(6, 0, 0, 5), (7, 0, 0, 5), (6, 3, 40, 40)])
def test_the_interval_of_a_deaf_net_holds_nothing_obeyed(k, obey, least, most, monkeypatch):
    """Of 40 intervals of 64 samples each, those of a deaf net lie above 0 at most 5 times (at one chance in
    40 each, more happens once in 2,000), those of a net that obeys three always.
    """
    monkeypatch.setattr(color_obeyed, "RESAMPLES", 100)
    rng, law = np.random.default_rng(1), color_obeyed.table()
    template = rows_of(["red"], color.conditions("subsets", k, 1))[0]

    def found():
        counts = rng.integers(k - 1, k + 2, 64)
        rows = [
            template._replace(count=int(n), placed=int(rng.choice(k + 1, p=law[k, n][obey]))) for n in counts
        ]
        return color_obeyed.conditions_obeyed(rows, k)

    assert least <= sum(found().low > 0 for _ in range(40)) <= most


def test_objects_outside_the_image_are_counted_only_where_asked():
    inside = SceneObject("cube", "small", "metal", "red", (0.0, 0.0, 0.35), 0.0)
    outside = SceneObject("cube", "small", "metal", "blue", (2.6, 2.9, 0.35), 0.0)
    scene = Scene((inside, outside))
    x = color.project(scene)
    assert 0 <= x[0].min() and x[0].max() < 1 and not (0 <= x[1].min() and x[1].max() < 1)
    both, seen = color.scene_counts([scene], outside=True)[0], color.scene_counts([scene])[0]
    assert both.sum() == 2 and seen.sum() == 1 and seen[COLORS.index("red")] == 1


def test_scenes_show_what_was_asked():
    asked = color.conditions("subsets", 4, 6)
    scenes = color.colored_scenes(asked)
    assert torch.equal(color.scene_counts(scenes), asked) and torch.equal(
        color.scene_counts(scenes, outside=True), asked
    )
    assert len({o.coords for scene in scenes for o in scene.objects}) == 24


def planted_counter(seen, plausible):
    """A counter that reads these multisets and plausibilities, whatever it is shown; it keeps what it was."""

    def counter(images):
        counter.shown = images
        most = max(int(seen.sum(1).max()), 1)
        colors = torch.full((len(seen), most), -1)
        for i, counts in enumerate(seen.long()):
            colors[i, : int(counts.sum())] = torch.arange(8).repeat_interleave(counts)
        cells = torch.zeros(len(seen), 256, dtype=torch.bool)
        centers = torch.rand(len(seen), most, 2)
        return Counts(seen.sum(1).long(), centers, cells, plausible, torch.ones(len(seen)), colors)

    counter.config = SimpleNamespace(resolution=16)
    return counter


def test_a_ceiling_is_what_the_counter_reads_of_what_was_asked():
    k, samples, sure = 2, 8, torch.ones(8)
    asked = color.conditions("subsets", k, samples, 5)
    right = planted_counter(asked, sure)
    found = color.ceiling(right, "subsets", k, samples, 5)
    assert [one.value for one in found] == [1, 1, 1]
    assert all(one.low < 1 == one.high for one in found)
    assert torch.equal(right.shown, color.rendered("subsets", k, samples, 16, 5)[0])
    wrong = asked.clone()
    for i in range(2):  # two of the eight images: one object is not found
        wrong[i, wrong[i].argmax()] = 0
    missing = next(c for c in range(8) if not asked[2, c])
    wrong[2, missing] += 1  # in a third one there is one more
    doubted = torch.tensor([0.0] * 4 + [1.0] * 4)
    found = color.ceiling(planted_counter(wrong, doubted), "subsets", k, samples, 5)
    assert found.exact.value == 5 / 8 and found.placed.value == 14 / 16 and found.plausible.value == 4 / 8
    other = color.ceiling(planted_counter(asked.roll(1, 1), sure), "colors", k, samples)
    assert other.exact.value < 1  # another family asks for others


def test_no_object_of_the_ceiling_s_scenes_is_hidden():
    """An object behind another would be asked for, drawn, and never found."""
    scenes = color.colored_scenes(color.conditions("subsets", 8, 64))
    assert all(len(prune(scene).objects) == 8 for scene in scenes)
    few = color.colored_scenes(color.conditions("subsets", 8, 3))
    assert few == scenes[:3]  # more samples begin with the same ones


def test_our_counter_s_ceiling_is_high_and_a_blind_one_s_is_not():
    found = color.ceiling(loading.load(32), "colors", 2, 12)
    assert found.placed.value > 0.8 and found.exact.value > 0.6 and found.plausible.value > 0.6
    blind = planted_counter(torch.zeros(12, 8), torch.zeros(12))
    assert [one.value for one in color.ceiling(blind, "colors", 2, 12)] == [0, 0, 0]


def test_rows_of_another_seed_are_of_other_noise_and_other_conditions(tmp_path, monkeypatch):
    """The seed of the sampler draws the random subsets, too: what a net is asked is what its rows say."""
    net = SimpleNamespace(config=SimpleNamespace(cond_dim=8))
    pipeline = SimpleNamespace(net=net, config=SimpleNamespace(resolution=32), denoiser=None)
    told = []

    def keep_drawing(path, denoise, side, k, samples, seed, steps, solver, family, cond):
        told.append((path, seed, steps, solver, family, cond))
        yield torch.zeros(samples, 3, side, side)

    for name, value in (
        ("checkpoints", SimpleNamespace(load=lambda *_: pipeline)),
        ("loading", SimpleNamespace(load=lambda side: counts_of(["red"]))),
        ("changes", SimpleNamespace(split=lambda net: (net, None), weights=lambda *_: "w")),
        ("counter_hash", lambda side: "c"),
        ("fuse_", lambda net: None),
        ("keep_drawing", keep_drawing),
    ):
        monkeypatch.setattr(color_generalization, name, value)
    file = tmp_path / "rows.csv"
    for seed in (0, 3):
        sampler = Sampler(seed, "heun", 5)
        color_generalization.measure("net", [2, 3], 6, family="subsets", sampler=sampler, rows_file=file)
    rows = store.read_rows(file, ColorRow)
    for (path, *how, cond), (seed, k) in zip(told, [(0, 2), (0, 3), (3, 2), (3, 3)], strict=True):
        assert how == [seed, 5, "heun", "subsets"]
        expected = color.conditions("subsets", k, 6, seed)
        assert torch.equal(cond, expected)
        mine = [row for row in rows if (row.seed, row.k) == (seed, k)]
        assert [color.decode(row.asked).tolist() for row in mine] == expected.tolist()
    assert not torch.equal(told[0][-1], told[2][-1]) and len({path for path, *_ in told}) == 4


def test_multisets_are_written_and_read():
    assert color.decode(color.encode([0, 1, 0, 0, 12, 0, 0, 3])).tolist() == [0, 1, 0, 0, 12, 0, 0, 3]
    (row,) = rows_of(["red", "red"], color.conditions("repeated", 2, 1))
    assert color.decode(row.found)[COLORS.index("red")] == 2 and row.k == 2
    assert ColorRow._fields[:11] == rates.Row._fields[:11]  # so that rules written for places hold for colors


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (
            lambda: color.conditions("places", 3, 1),
            "unknown family of color conditions 'places'; allowed: colors",
        ),
        (lambda: color.conditions("colors", 9, 1), "K must be 0..8, got 9"),
        (lambda: color.placed(torch.ones(1, 8), torch.ones(2, 8)), r"got \[1, 8\] and \[2, 8\]"),
        (lambda: color.placed(-torch.ones(1, 8), torch.ones(1, 8)), "counts of colors are >= 0, got -1"),
        (lambda: color.encode([1, 2]), r"8 counts >= 0 .*, got \[1, 2\]"),
        (lambda: color.decode("a b"), "written as 8 counts >= 0, got 'a b'"),
        (lambda: color.chance_placed([1], -1), "objects must be >= 0, got -1"),
        (lambda: color.chance_placed([-1, 2] + [0] * 6, 3), "8 counts >= 0 .*got \\[-1, 2"),
        (lambda: color.chance_placed([0.5] + [1] * 7, 3), "8 counts >= 0 .*got \\[0.5"),
        (lambda: color_obeyed.conditions_obeyed([], 3), "need rows of K = 3"),
        (
            lambda: color_obeyed.conditions_obeyed(rows_of(["red"], color.conditions("subsets", 8, 3)), 8),
            r"K = 8, within 1\.\.7",
        ),
        (
            lambda: color_obeyed.conditions_obeyed(rows_of(["red"], color.conditions("repeated", 2, 3)), 2),
            "this family repeats colors",
        ),
        (lambda: color.ceiling(None, "colors", 0, 4), "at least one object and one sample, got K = 0"),
    ],
)
def test_bad_input_is_one_clear_sentence(call, says):
    with pytest.raises(ValueError, match=says):
        call()


@pytest.mark.parametrize("wrong", [0.5, np.nan, np.inf])
def test_counts_of_colors_are_whole(wrong):
    """A NaN or a fraction of an object would be placed, stored cut, or stop in the middle of a row."""
    asked = torch.ones(1, 8)
    found = asked.clone()
    found[0, 2] = wrong
    for call in (color.placed, color.extras):
        for pair in ((found, asked), (asked, found)):
            with pytest.raises(ValueError, match=f"counts of colors are whole numbers, got {wrong:g}"):
                call(*pair)
    with pytest.raises(ValueError, match="a multiset of colors"):
        color.encode(found[0].tolist())
    with pytest.raises(TypeError, match="found must be a tensor"):
        color.placed(found.numpy(), asked)
    with pytest.raises(TypeError, match="a multiset of colors must hold real numbers"):
        color.encode(["1"] * 8)


@pytest.mark.parametrize(
    ("change", "error", "says"),
    [
        ({"k": 2.5}, TypeError, "K must be a whole number, got 2.5"),
        ({"k": np.nan}, TypeError, "K must be a whole number, got nan"),
        ({"samples": -1}, ValueError, "samples must be >= 0, got -1"),
        ({"samples": 1.5}, TypeError, "samples must be a whole number, got 1.5"),
        ({"seed": -1}, ValueError, "seed must be >= 0, got -1"),
        ({"seed": 0.5}, TypeError, "seed must be a whole number, got 0.5"),
    ],
)
def test_conditions_are_of_whole_numbers(change, error, says):
    for call, family in ((color.conditions, "colors"), (family_grids.locations, "test")):
        assert len(call(family, 2, 0)) == 0
        with pytest.raises(error, match=says):
            call(**{"family": family, "k": 2, "samples": 1} | change)


def test_the_mixture_is_the_one_that_made_the_samples():
    likelihood = np.array([[0.7, 0.1], [0.3, 0.9]])  # what was seen, given 0 or 1 obeyed
    samples = 1000 * np.array([likelihood @ [0.25, 0.75], likelihood @ [1, 0]])
    share = (samples[:, :, None] * color_obeyed.mixture(likelihood, samples, 3000)).sum(1) / 1000
    assert share == pytest.approx(np.array([[0.25, 0.75], [1, 0]]), abs=0.01)


def test_a_change_of_a_net_told_colors_is_of_what_is_drawn(tmp_path, monkeypatch):
    """Four colors asked at once are halved by `unit`, as four places are; rows say which family was asked."""

    def paints(x_t, sigma, cond):  # each color in a block of its own
        return cond.reshape(-1, 1, 2, 4).repeat_interleave(16, 2).repeat_interleave(8, 3).expand_as(x_t)

    config = SimpleNamespace(resolution=32)
    net = SimpleNamespace(config=SimpleNamespace(cond_dim=8))
    monkeypatch.setattr(paths, "RUNS", tmp_path)
    monkeypatch.setattr(
        color_generalization.checkpoints,
        "load",
        lambda *_: SimpleNamespace(net=net, config=config, denoiser=paints),
    )
    monkeypatch.setattr(color_generalization, "fuse_", lambda net: None)
    monkeypatch.setattr(color_generalization.loading, "load", lambda side: counts_of(["red"]))
    monkeypatch.setattr(color_generalization, "counter_hash", lambda side: "c" * 12)
    monkeypatch.setattr(color_generalization.changes, "weights", lambda net, preset: "0" * 12)
    asked = color.conditions("subsets", 4, 2)
    for name, heard in (("toy", 1.0), ("toy/unit", 0.5)):
        file, seed = tmp_path / "rows.csv", Sampler(0, "dpmpp_2m", 2)
        color_generalization.measure(name, [4], 2, family="subsets", sampler=seed, rows_file=file)
        (path,) = (tmp_path / "tiny" / "samples").iterdir()
        drawn = torch.from_numpy(np.load(path))[:, 0, ::16, ::8].flatten(1)
        path.unlink()
        assert torch.allclose(drawn, asked * heard, atol=1e-5)
        rows = [row for row in store.read_rows(file, ColorRow) if row.net == name]
        assert [color.decode(row.asked).tolist() for row in rows] == asked.tolist()
