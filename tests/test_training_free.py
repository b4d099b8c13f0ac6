"""The training-free Exp. 3 on rendered scenes: its data are Exp. 2's, and the stored rows say how far it
composes.
"""

import pytest
import torch

from lcs_utils.evaluation import training_free
from lcs_utils.evaluation.rows import Row, read_rows
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


def test_the_stored_rows_say_where_it_composes_and_where_not():
    rows = read_rows(training_free.ROWS)
    assert {row.net for row in rows} == {training_free.name(*setting) for setting in training_free.SETTINGS}
    near, wide, whole = (
        training_free.filled(rows, training_free.name(radius, 1500)) for radius in (1, 3, 15)
    )
    assert near[4] > 0.9 and near[9] > 0.65  # never saw two labels
    assert wide[9] < 0.5 * near[9] and whole[4] < 0.5  # windows with several labels, and the whole image


def test_filled_averages_cells_at_the_test_locations():
    row = Row("a", "w", "c", 0, "heun", 3, k=4, sample=0, count=4, placed=3, plausibility=1.0)
    rows = [
        row,
        row._replace(sample=1, placed=1),
        row._replace(k=0, placed=0),
        row._replace(family="scene", placed=0),
    ]
    assert training_free.filled(rows, "a") == {4: 0.5}
    with pytest.raises(ValueError, match="no rows for 'b'.*training_free"):
        training_free.filled(rows, "b")


@pytest.mark.parametrize("arguments", [["--samples", "0"], ["--k", "13"]])
def test_impossible_settings_are_refused(arguments, capsys):
    with pytest.raises(SystemExit):
        training_free.main(arguments)
    assert "within 0-12" in capsys.readouterr().err


def test_no_scenes_is_an_error():
    with pytest.raises(ValueError, match="at least 1 training scene, got 0"):
        training_free.training_scenes(0)
