"""Conditions obeyed: what listens to nothing obeys none; what obeys is counted, whatever stands around it."""

import numpy as np
import pytest
import torch

from lcs_utils import store
from lcs_utils.clevr.conditions import TEST_LOCATIONS
from lcs_utils.clevr.scenes import project, sample_scene
from lcs_utils.evaluation import families, obeyed, placement, rows
from lcs_utils.evaluation.obeyed import conditions_obeyed

K = 6


def drawn(objects, obeying, k=K, samples=128):
    """Rows of a "net" that draws CLEVR scenes of other seeds; of sample i objects[i] objects, obeying[i]
    where they were asked for.
    """
    found, where = [], torch.tensor(TEST_LOCATIONS)[:k]
    for i in range(samples):
        m, n = objects[i % len(objects)], obeying[i % len(obeying)]
        scene = sample_scene(11, 1000 * k + i, m, visibility=False, require_centers_inside=True)
        centers = torch.tensor(project(scene), dtype=torch.float32).reshape(m, 2)
        asked = where[torch.randperm(k, generator=torch.Generator().manual_seed(i))[:n]]
        placed = len(placement.assigned(where.numpy(), torch.cat([asked, centers[n:]]).numpy()))
        found.append(rows.Row("exp1", "0" * 12, "0" * 12, *rows.STANDARD, k, i, m, placed, 1.0))
    return found


@pytest.mark.parametrize("objects", [(2,), (7,), (1, 3, 5)])
def test_scenes_that_listen_to_nothing_obey_nothing(objects):
    found = conditions_obeyed(drawn(objects, (0,)), "exp1", K)
    assert found.placed.value > 0.3  # filled cells alone would not tell
    assert found.obeyed.value < 0.25 and found.obeyed.low < 0.05
    assert found.drawn.value == pytest.approx(np.mean(objects), abs=0.05)


@pytest.mark.parametrize(
    ("objects", "obeying"), [((2,), (1,)), ((7,), (3,)), ((7,), (5,)), ((6,), (0, 6)), ((3, 5, 7), (1, 3, 1))]
)
def test_what_obeys_is_counted_though_the_samples_differ(objects, obeying):
    found = conditions_obeyed(drawn(objects, obeying), "exp1", K)
    truth = np.mean(obeying)
    assert found.obeyed.value == pytest.approx(
        truth, abs=0.35
    )  # half of them all and half none is 3, not what the mean fill suggests
    assert (
        found.obeyed.low - 0.1 < truth < found.obeyed.high + 0.1
        and found.obeyed.high - found.obeyed.low < 1.2
    )
    assert found.obeyed.value <= found.placed.value <= found.drawn.value


def test_objects_at_other_cells_than_asked_obey_nothing():
    elsewhere = [
        row._replace(placed=0) for row in drawn((5,), (5,), samples=32)
    ]  # negative case: the same objects, all off
    found = conditions_obeyed(elsewhere, "exp1", K).obeyed
    assert found.value == pytest.approx(0, abs=1e-3) and 0 < found.high < 1


def test_a_net_that_obeys_everything_obeys_k_up_to_what_so_few_samples_can_say():
    full = [row._replace(placed=K, count=K) for row in drawn((6,), (6,), samples=8)]
    found = conditions_obeyed(full, "exp1", K)
    assert found.obeyed.value == pytest.approx(K, abs=0.02) and found.placed.low == pytest.approx(
        K * 0.025 ** (1 / 8), abs=1e-3
    )


def test_the_mixture_is_the_one_that_made_the_samples():
    likelihood = np.array([[0.7, 0.1], [0.3, 0.9]])  # what was seen, given 0 or 1 obeyed
    samples = 1000 * np.array([likelihood @ [0.25, 0.75], likelihood @ [1, 0]])
    share = (samples[:, :, None] * obeyed.mixture(likelihood, samples, 3000)).sum(1) / 1000
    assert share == pytest.approx(np.array([[0.25, 0.75], [1, 0]]), abs=0.01)


def test_the_stored_table_is_what_its_command_measures():
    few = obeyed.scattered(3, (1, 6), scenes=200)
    assert few == obeyed.scattered(3, (1, 6), scenes=200)
    for key in {row[:3] for row in few}:
        here, stored = (
            [row for row in of if row[:3] == key]
            for of in (few, store.read_rows(obeyed.TABLE, obeyed.Scattered))
        )

        def mean(of):
            return sum(row.placed * row.scenes for row in of) / sum(row.scenes for row in of)

        assert sum(row.scenes for row in stored) == obeyed.SCENES and mean(here) == pytest.approx(
            mean(stored), abs=0.2
        )


def test_the_table_holds_laws_and_who_obeys_stands_at_a_cell():
    for (k, m), law in obeyed.table().items():
        assert law.shape == (k + 1, k + 1) and law.sum(1) == pytest.approx(np.ones(k + 1))
        assert (
            not np.tril(law[: m + 1], -1).any() and not law[:, m + 1 :].any()
        )  # at least those that obey, at most all
        assert (law[m:] == law[min(m, k)]).all()
        mean = law @ np.arange(k + 1)
        assert (np.diff(mean) > -0.1).all() and mean[min(m, k)] >= min(m, k)


def test_what_has_no_law_is_refused(tmp_path):
    with pytest.raises(ValueError, match="objects must be 0..10 and k 1..8; got 15"):
        obeyed.scattered(15)
    few = drawn((1,), (0,), samples=2)
    for k in (0, 9):
        with pytest.raises(ValueError, match=f"measured for K = 1 to 8, got {k}"):
            conditions_obeyed(few, "exp1", k)
    assert conditions_obeyed(few, "exp1", 4) is None and list(
        obeyed.along_k(few, ["exp1"], (4, 6))["exp1"]
    ) == [6]
    store.write_rows(tmp_path / "obeyed.csv", "x", obeyed.Scattered, obeyed.scattered(0, scenes=20))
    with pytest.raises(
        ValueError,
        match="obeyed.csv lacks k = 1 with 1 objects; measure it: python -m lcs_utils.evaluation.obeyed",
    ):
        obeyed.table(tmp_path / "obeyed.csv")


def test_rows_that_say_where_objects_are_are_judged_by_the_nets_own_objects():
    """The same objects, crowded in the middle and unheeding: by the law of CLEVR's scenes they seem
    to obey.
    """
    rng, k, both, middle = np.random.default_rng(0), 6, [], np.array(TEST_LOCATIONS)
    for family in ("test", "spread"):
        for i in range(64):
            centers = middle[
                rng.permutation(12)[:k]
            ]  # at any of the paper's locations, whichever were asked for
            asked = families.asked(family, k, i)
            placed = len(placement.assigned(asked, centers))
            row = rows.Row("exp1", "0" * 12, "0" * 12, *rows.STANDARD, k, i, k, placed, 1.0, family)
            both.append(row._replace(asked=rows.encode(asked), centers=rows.encode(centers)))
    before = [row._replace(asked="", centers="") for row in both]
    found, law = conditions_obeyed(both, "exp1", k), conditions_obeyed(before, "exp1", k)
    assert abs(found.obeyed.value) < 1 and law.obeyed.low > 2
    assert found.placed.value == pytest.approx(law.placed.value, abs=1e-3)
