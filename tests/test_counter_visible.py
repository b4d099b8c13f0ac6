"""How visible a fault must be: changes are binned, and a counter names what changes from some size on."""

import pytest
import torch

from lcs_utils.counter import visible
from lcs_utils.counter.accuracy import NAMED
from lcs_utils.counter.corruptions_graded import visible_change
from lcs_utils.counter.visible import FEWEST, Passed, binned, named_from


def test_a_change_is_that_of_its_worst_3x3_pixels():
    clean = torch.zeros(3, 3, 64, 64)
    images = clean.clone()
    images[1, :, 30:33, 40:43] = 0.9
    images[2, :, 30, 40] = 0.9  # one pixel is a ninth of nine
    assert visible_change(images, clean).tolist() == pytest.approx([0, 0.9, 0.1])


def test_changes_are_binned_by_their_lower_edge_and_unseen_ones_left_out():
    change = torch.tensor([0.01, 0.05, 0.07, 0.12, 3.0])
    passed = torch.tensor([True, True, False, True, False])
    assert binned("a", "fused", change, passed) == [
        Passed("a", "fused", 0.05, 2, 1),
        Passed("a", "fused", 0.1, 1, 1),
        Passed("a", "fused", 0.5, 1, 0),
    ]


def rows(shares, images=100):
    return [Passed("a", "fused", c, images, round(s * images)) for c, s in zip(visible.EDGES, shares)]


def test_named_from_the_change_beyond_which_hardly_any_pass():
    falling = rows([1, 0.9, 0.4, 0.1, 0.05, 0.0, 0.0, 0.0])
    assert named_from(falling)["fused"] == 0.2
    late = rows([1, 0.9, 0.4, 0.1, 0.05, 0.0, 0.3, 0.0])  # a stronger one that passes undoes the weaker
    assert named_from(late)["fused"] == 0.5
    assert named_from(rows([1] * 8))["fused"] is None  # a counter that does not look
    assert named_from(rows([0] * 8, FEWEST - 1))["fused"] is None  # too few to tell
    assert set(named_from(falling)) == set(NAMED)


def test_what_is_stored_is_of_both_shipped_counters():
    stored = visible.read()
    judges = {row.judge for row in stored}
    assert judges == {visible.judge(place) for place in visible.places()}
    for judge in judges:
        mine = {row.fault: row for row in stored if row.judge == judge}
        assert set(mine) == {visible.CLEAN, *NAMED}
        fine = mine[visible.CLEAN]
        assert fine.passed > 0.97 * fine.images


def test_the_file_says_how_many_scenes_it_is_of(tmp_path, monkeypatch):
    monkeypatch.setattr(visible, "ROWS", tmp_path / "faults.csv")
    monkeypatch.setattr(visible, "measure", lambda folders, per_count: rows([1]))
    for options, told in ((["--per-count", "3"], " --per-count 3"), ([], "")):
        visible.main(options)
        assert visible.ROWS.read_text().startswith(f"# {visible.COMMAND}{told}\n")
