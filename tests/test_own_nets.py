"""A user's own experiments, told of places and of colors, trained for a moment, go through every measure."""

import bz2
import csv
from dataclasses import replace

import pytest
import torch

from lcs_utils import nets, paths, store
from lcs_utils.claims import nets_64, verdicts
from lcs_utils.clevr import dataset
from lcs_utils.clevr.render import render
from lcs_utils.clevr.scenes import sample_scene
from lcs_utils.evaluation import (
    against_null,
    length_generalization,
    rates,
    rows,
    rules,
    side_tables,
    table_figures,
    tables,
)
from lcs_utils.evaluation.colors import color, color_generalization, color_obeyed, color_rates
from lcs_utils.evaluation.locality import locality_figures, locality_rates, net_locality
from lcs_utils.evaluation.rows import Row, Sampler, read_rows, rows_path
from lcs_utils.experiments import EXPERIMENTS, Experiment
from lcs_utils.models.pipeline import ConditionalPipeline
from lcs_utils.presets import preset
from lcs_utils.training.data import Data
from lcs_utils.training.run import run

MINE = Experiment("mine", objects=(2, 4), labels="random")  # the README's
TOLD_COLORS = Experiment("mine_color", objects=(1, 2), condition="color")
SMALL = {"channels": 8, "channel_mult": [1], "num_blocks": 1, "attention_levels": [], "unshuffle": 2}


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """A home of data and runs of its own, with the two nets and rows of both."""
    home = tmp_path_factory.mktemp("home")
    with pytest.MonkeyPatch.context() as patch:
        shipped = paths.CHECKPOINTS
        for name, place in {
            "RUNS": "runs",
            "DATA": "data",
            "COUNTS": "counts",
            "CHECKPOINTS": "nets",
        }.items():
            patch.setattr(paths, name, home / place)
        (home / "nets").mkdir()
        (home / "nets" / "counter").symlink_to(shipped / "counter")
        patch.setattr(net_locality, "SIGMAS", (0.5, 2.0))
        patch.setattr(net_locality, "IMAGES", 2)
        size = replace(preset("tiny"), images=320, net=SMALL | {"dtype_inside": "float32"})
        for exp in (MINE, TOLD_COLORS):
            low, high = exp.objects
            scenes = [sample_scene(0, i, low + i % (high - low + 1), visibility=False) for i in range(32)]
            known = dataset.labels(scenes, high)
            arrays = (render(scenes, 32).transpose(0, 3, 1, 2), known["locations"], known["colors"])
            assert run(exp, size, data=Data(*(torch.from_numpy(a.copy()) for a in arrays)))
        yield home
    # what they kept of rows that are not there; other tests ask for the shipped ones
    for kept in (nets_64._rows, nets_64._of_net, nets_64.cells, side_tables.obeyed_at_both_sizes):
        kept.cache_clear()


def test_nothing_is_known_of_them_but_what_their_rows_say(home):
    assert not {"mine", "mine_color"} & set(EXPERIMENTS)
    assert nets.parse("mine") == nets.Net(MINE) and nets.parse("mine_color_seed2@640/unit") == nets.Net(
        TOLD_COLORS, "tiny", 2, 640, "unit"
    )
    assert nets.listed() == ["mine", "mine_color"]
    with pytest.raises(ValueError, match="unknown experiment 'yours'"):
        nets.parse("yours")


def test_a_net_told_of_places(home, monkeypatch):
    for family in ("test", "spread"):
        length_generalization.measure("mine", range(1, 7), 2, family=family)
    net_locality.measure("mine")
    counted = read_rows(rows_path())
    assert len(counted) == 24
    right = [row._replace(count=row.k, placed=row.k, plausibility=1.0) for row in counted]
    assert [rules.largest_k(rows, "mine").value for rows in (counted, right)] == [0, 6]  # hardly trained
    assert against_null.of_nets(counted, ["mine"]).k.placed.value == 0
    assert locality_rates.measured_nets(counted) == ["mine"]
    found = locality_rates.against_k(counted, ["mine"])
    assert 0 < found.locality["mine"].value < 1
    words = " ".join(
        text.get_text() for axes in locality_figures.plot_against_k(found).axes for text in axes.texts
    )
    assert "mine" in words
    (cell,) = tables.cells(counted, ["mine"])
    assert cell.trained_on == "2-4" and cell.paper is None
    table_figures.plot_tables([cell])
    monkeypatch.setattr(verdicts, "decided", lambda preset: [])  # which reads no such rows
    assert "# Verdicts" in verdicts.page(counted)  # a net that no claim is about leaves it whole


def test_a_net_told_of_colors(home):
    color_generalization.measure("mine_color", range(1, 4), 2)
    net_locality.measure("mine_color")
    counted = color_generalization.read()
    assert [row.k for row in counted] == [1, 1, 2, 2, 3, 3]
    right = [row._replace(count=row.k, placed=row.k, plausibility=1.0) for row in counted]
    ks = [rules.largest_k(rows, "mine_color", family="colors").value for rows in (counted, right)]
    assert ks == [0, 3]  # hardly trained
    assert 0 <= color_obeyed.conditions_obeyed(counted, 2).value <= 2
    with bz2.open(net_locality.path(), "rt") as file:
        lines = list(csv.DictReader(line for line in file if not line.startswith("#")))
    mine = [line for line in lines if line["net"] == "mine_color"]
    assert len(mine) == 4 and all(float(line["window"]) > 0 and line["within_2"] == "nan" for line in mine)
    assert "mine_color" not in locality_rates.measured_nets(read_rows(rows_path()))


def test_a_name_in_two_presets_is_judged_by_the_experiment_of_each(tmp_path, monkeypatch):
    monkeypatch.setattr(paths, "CHECKPOINTS", tmp_path)
    monkeypatch.setattr(paths, "RUNS", tmp_path / "runs")
    told = {"tiny": 3, "small": 1, "paper": 3}  # objects of a training image at most
    for size, most in told.items():
        row = {"experiment": "mine", "preset": size, "objects": [1, most], "labels": "single"}
        store.write_json(tmp_path / size / "mine" / "row.json", row | {"images": 320 * most})
    del told["tiny"]  # looked for first where no preset is named
    asked, centers = rows.encode([[0.5, 0.5]]), rows.encode([[0.5, 0.5], [0.1, 0.9], [0.9, 0.1]])
    way = ("0" * 12, "c" * 12, *rows.STANDARD, 1)  # one object asked for, and two more
    for size, most in told.items():
        mine = [
            Row("mine", *way, i, 3, 1, 1.0, family, size, asked, centers)
            for i in range(4)
            for family in ("test", "spread")
        ]
        colored = [
            color.ColorRow(
                "mine", *way, i, 3, 1, 1.0, "subsets", size, color.encode([1] + [0] * 7), "1 2 0 0 0 0 0 0"
            )
            for i in range(4)
        ]
        yes = float(most == 3)  # one label: as many more may stand anywhere as stood in training
        assert rules.largest_k(mine, "mine").value == yes
        assert rates.rates(mine, "mine")[1]["success"].value == yes
        assert rates.mean_over(mine, "mine", "success", [1]).value == yes
        assert against_null.of_nets(mine, ["mine"]).at[1].placed.own.value == yes
        assert color_rates.of_net(colored, "mine").at[1].success.own.value == yes
        (cell,) = tables.cells(mine, ["mine"])
        assert cell.trained_on == ("1-3" if yes else "1") and cell.ours.value == yes
        assert list(rates.along_training(mine, "mine", {"success": [1]})) == [320 * most]
    (tmp_path / "tiny" / "mine" / "row.json").unlink()
    (tmp_path / "small" / "mine" / "row.json").unlink()
    assert rules.largest_k([row._replace(preset="paper") for row in mine], "mine").value == 1
    assert side_tables.controls([row._replace(preset="paper", net="mine/unit") for row in mine]) == []


def test_a_net_of_the_other_kind_is_refused_before_any_sampling(home, monkeypatch):
    monkeypatch.setattr(ConditionalPipeline, "__call__", None)
    with pytest.raises(ValueError, match="mine takes conditions of 256 numbers, colors are 8"):
        color_generalization.measure("mine", [1], 2)
    with pytest.raises(
        ValueError, match="mine_color takes conditions of 8 numbers, the test locations give 256"
    ):
        length_generalization.measure("mine_color", [1], 2)
    with pytest.raises(
        ValueError, match="unknown family of color conditions 'test'; allowed: colors, subsets"
    ):
        color_generalization.measure("mine_color", [1], 2, family="test", sampler=Sampler(0, "heun", 4))
