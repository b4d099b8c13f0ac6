"""The training-free Exp. 3 on rendered scenes: its data are Exp. 2's, and the stored rows say how far it
composes.
"""

import pytest
import torch

from lcs_utils import alt_text, paths
from lcs_utils.clevr.grid import cells
from lcs_utils.clevr.render import render
from lcs_utils.clevr.scenes import project, sample_scene
from lcs_utils.clevr.shards import INDEX_STRIDE
from lcs_utils.counter.net import ObjectCounter
from lcs_utils.diffusion import from_uint8
from lcs_utils.evaluation.rows import read_rows
from lcs_utils.evaluation.studies import training_free
from lcs_utils.evaluation.studies import training_free_report as report
from lcs_utils.theory.local_denoiser import patch_denoiser


def test_scenes_have_one_label_each_where_an_object_is():
    images, grids = training_free.training_scenes(6)
    assert images.shape == (6, 3, 32, 32) and -1 <= float(images.min()) < float(images.max()) <= 1
    assert (
        bool((grids.sum(1) <= 1).all()) and float(grids.sum()) >= 5
    )  # a center outside the image is not counted
    again, other = training_free.training_scenes(6)[0], training_free.training_scenes(6, seed=1)[0]
    assert torch.equal(images, again) and not torch.equal(images, other)
    level = torch.full((6,), 1e-3)  # at low noise every window knows its own scene
    assert torch.allclose(patch_denoiser(images, grids, 2)(images, level, grids), images, atol=1e-4)
    noisy = patch_denoiser(images, grids, 2)(images, 1e4 * level, grids.flip(0))
    assert not torch.allclose(
        noisy, images, atol=1e-2
    )  # at high noise it follows the labels, here the wrong ones


def test_a_measure_is_of_its_scenes_and_goes_on_where_it_stopped(tmp_path, monkeypatch):
    monkeypatch.setattr(paths, "RUNS", tmp_path)
    counter, drawn = ObjectCounter.from_pretrained(), []
    denoiser = training_free.patch_denoiser
    monkeypatch.setattr(
        training_free, "patch_denoiser", lambda *of: lambda *at: drawn.append(of) or denoiser(*of)(*at)
    )
    rows = training_free.measure(1, 6, [1], 2, counter)
    assert {(row.family, row.k) for row in rows} == {("test", 1), ("spread", 1)} and len(rows) == 4
    assert {row.net for row in rows} == {"patches_r1_n6"} and drawn
    drawn.clear()
    assert training_free.measure(1, 6, [1], 2, counter) == rows and not drawn
    other = training_free.measure(1, 6, [1], 2, counter, seed=1)
    assert {row.weights for row in rows}.isdisjoint(row.weights for row in other) and drawn


def test_scenes_are_those_that_nets_are_trained_on_and_a_label_is_one_of_their_objects():
    images, grids = training_free.training_scenes(9)
    scenes = [sample_scene(0, n * INDEX_STRIDE + i, n) for i in range(3) for n in (1, 2, 3)]
    assert torch.equal(images, from_uint8(render(scenes, 32)).permute(0, 3, 1, 2))
    labeled = grids.nonzero()
    for i, cell in labeled.tolist():
        row, column = divmod(cell, 16)
        assert [column, row] in cells(project(scenes[i])).tolist()
    assert len(labeled) > 6


def test_copies_are_distances_of_the_samples_with_the_most_labels():
    found = report.draw_live(4, [1, 3], 0)
    images, _ = training_free.training_scenes(4, 0)
    assert list(found.samples) == list(found.copies) == list(report.REACH) and found.asked == [1, 3]
    for reach, drawn in found.samples.items():
        assert drawn.shape == (2 * report.PER_COUNT, 3, 32, 32)
        least = [min(float((x - one).square().mean()) for one in images) for x in drawn[-report.PER_COUNT :]]
        assert found.copies[reach] == pytest.approx(least, rel=1e-4, abs=1e-7)


def test_the_stored_rows_say_where_it_composes_and_where_not():
    rows = read_rows(training_free.ROWS)
    assert {row.net for row in rows} == {training_free.name(*setting) for setting in training_free.SETTINGS}
    assert {row.family for row in rows} == set(training_free.FAMILIES)
    found = report.rates()
    assert set(found) == set(training_free.FAMILIES) == set(report.CELLS)

    def above(family, reach, k):
        return found[family][reach].at[k].filled.above

    for reach in ("local, radius 1", "local, radius 2"):  # a window of theirs holds one random cell
        assert above("spread", reach, 6).low > above("spread", "whole image", 6).high + 0.1
    for family in found:
        assert above(family, "whole image", 6).high < 0.15  # composes nothing
    assert above("test", "local, radius 3", 9).value < above("test", "local, radius 1", 9).value - 0.1


def test_rates_are_drawn_over_chance_and_told():
    found = report.rates()
    figure = report.show_rates(found)
    assert [axes.get_title() for axes in figure.axes] == [report.CELLS[family] for family in found]
    words = {text.get_text() for text in figure.axes[1].texts}
    assert words == {*report.REACH, report.TRAINED, f"squares: {report.MORE}"}
    drawn = [line for line in figure.axes[0].lines if len(line.get_xdata()) > 2]
    near = found["test"]["local, radius 1"].at
    assert list(drawn[0].get_ydata()) == [at.filled.above.value for at in near.values()]
    table = report.markdown(found)
    assert table.count("\n") == 2 + 2 * (len(report.REACH) + 2)
    assert alt_text.given(figure).startswith("Labeled cells filled at 9 labels (null). the paper's")


@pytest.mark.parametrize("arguments", [["--samples", "0"], ["--k", "13"]])
def test_impossible_settings_are_refused(arguments, capsys):
    with pytest.raises(SystemExit):
        training_free.main(arguments)
    assert "within 0-9" in capsys.readouterr().err


def test_no_scenes_is_an_error():
    with pytest.raises(ValueError, match="at least 1 training scene, got 0"):
        training_free.training_scenes(0)
