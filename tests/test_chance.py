"""Conditions obeyed: scenes that were asked for nothing obey none, and what obeys is counted whatever stands around it."""

import numpy as np
import pytest
import torch

from lcs_utils import paths
from lcs_utils.clevr.conditions import TEST_LOCATIONS
from lcs_utils.clevr.scenes import project, sample_scene
from lcs_utils.evaluation import chance, rows

KS = (4, 5, 6)


def drawn(objects, obeying=0, samples=200, net="exp1"):
    """Rows of a "net" that draws CLEVR scenes of other seeds, `obeying` of whose objects stand where they were asked for."""
    found, where = [], torch.tensor(TEST_LOCATIONS)
    for k in KS:
        for i in range(samples):
            scene = sample_scene(11, 1000 * k + i, objects, visibility=False, require_centers_inside=True)
            centers = torch.tensor(project(scene), dtype=torch.float32)
            asked = where[torch.randperm(k, generator=torch.Generator().manual_seed(i))[:obeying]]
            placed = rows.match(torch.cat([asked, centers[obeying:]]), where[:k])
            found.append(rows.Row(net, "0" * 12, "0" * 12, *rows.STANDARD, k, i, objects, placed, 1.0))
    return found


@pytest.mark.parametrize("objects", (2, 7))
def test_scenes_that_listen_to_nothing_obey_nothing(objects):
    filled, by_chance, obeyed = chance.conditions_obeyed(drawn(objects), "exp1", KS)
    assert filled.value == pytest.approx(by_chance.value, abs=0.03) and filled.value > 0.1  # filled alone would not tell
    assert obeyed.value < 0.3 and obeyed.low == pytest.approx(0, abs=0.1)


@pytest.mark.parametrize(("objects", "obeying"), [(2, 1), (5, 2), (7, 3), (7, 4)])
def test_what_obeys_is_counted_whatever_stands_around_it(objects, obeying):
    found = chance.conditions_obeyed(drawn(objects, obeying), "exp1", KS).obeyed
    assert found.value == pytest.approx(obeying, abs=0.3)
    assert found.low - 0.1 < obeying < found.high + 0.1
    assert found.low > obeying - 1 and found.high < obeying + 1  # one more or fewer is told apart


def test_a_net_that_obeys_everything_obeys_k():
    full = [row._replace(placed=row.k, count=row.k) for row in drawn(6, 0, samples=8)]
    assert tuple(chance.conditions_obeyed(full, "exp1", KS).obeyed) == pytest.approx((5.0, 5.0, 5.0), abs=1e-6)


def test_inverting_finds_the_place_on_the_curve():
    curve = np.array([[0.2, 0.5, 0.7, 0.7, 0.7]])  # two objects: a third cannot obey
    at = lambda filled: float(chance.invert(np.array([filled]), curve)[0])
    assert at(0.1) == at(0.2) == 0 and at(0.35) == pytest.approx(0.5) and at(0.6) == pytest.approx(1.5)
    assert at(0.7) == at(0.9) == pytest.approx(2)


def test_the_stored_table_is_what_its_command_measures():
    stored = {row[:3]: row for row in paths.read_rows(chance.TABLE, chance.Chance)}
    few = chance.by_chance(3, (1, 6), scenes=200)
    assert len(few) == 2 + 4
    for row in few:
        assert stored[row[:3]].filled == pytest.approx(row.filled, abs=0.05)  # from a fifth of the scenes
        assert stored[row[:3]].scenes == chance.SCENES
    assert few == chance.by_chance(3, (1, 6), scenes=200)


def test_more_objects_fill_more_and_each_that_obeys_adds():
    table = chance.table()
    for k in chance.KS:
        assert table[k, 0].tolist() == [0] * (k + 1) and table[k, chance.MOST][0] > 0.5
        assert all(table[k, m + 1][0] > table[k, m][0] for m in range(chance.APART))
        for m in range(1, chance.MOST + 1):
            assert (np.diff(table[k, m][: m + 1]) > 0).mean() > 0.5 and table[k, m][min(k, m)] - table[k, m][0] > 0.2 / k
            assert (np.diff(table[k, m][m:]) == 0).all() and (np.diff(table[k, m]) >= 0).all()
        assert table[k, k][k] == 1


def test_what_has_no_chance_is_refused(tmp_path):
    with pytest.raises(ValueError, match="objects must be 0..14 and k 1..12; got 15"):
        chance.by_chance(15)
    few = drawn(1, samples=2)
    with pytest.raises(ValueError, match="K of 1 or more, got .0, 1."):
        chance.conditions_obeyed(few, "exp1", [0, 1])
    assert chance.conditions_obeyed(few, "exp1", [4, 9]) is None
    assert list(chance.along_k(few, ["exp1"], (4, 9))["exp1"]) == [4]
    paths.write_rows(tmp_path / "chance.csv", "x", chance.Chance, chance.by_chance(2, [3], scenes=2))
    with pytest.raises(ValueError, match=r"chance.csv lacks 983 numbers, the first for .* = \(1, 0, 0\); measure it: python -m"):
        chance.table(tmp_path / "chance.csv")
