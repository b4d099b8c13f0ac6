"""What flow and SDE draw of one net, from planted rows."""

import pytest
from test_more_training import KS, SAMPLES, planted

from lcs_utils.evaluation.studies import flow_and_sde


def fewer(rows, by):
    """The same pictures with `by` objects less (none below zero)."""

    def less(row):
        left = " ".join(row.centers.split()[: 2 * max(row.k - by, 0)])
        return row._replace(count=max(row.k - by, 0), placed=max(row.k - by, 0), centers=left)

    return list(map(less, rows))


def test_each_way_is_told_by_its_own_rows():
    flow, sde = planted("exp1", 1.0), planted("exp1/stochastic", 1.0)
    rows = [*flow, *fewer(sde, 2)]
    found = flow_and_sde.compare(rows, {"exp1": "Exp. 1"})
    assert list(found) == [("exp1", "flow"), ("exp1", "SDE")]
    kept, lost = (found["exp1", way][max(KS)] for way in ("flow", "SDE"))
    assert (kept.more.value, kept.filled.value, lost.more.value) == (0, 1, -2)
    assert lost.filled.value == pytest.approx(1 - 2 / max(KS), abs=1e-3) and kept.null.value < 1
    assert flow_and_sde.numbers(found)["exp1, SDE"][1]["more"]["value"] == -1
    beside = {
        (net, way): {k: of._replace(extras=of.more) for k, of in each.items()}
        for (net, way), each in found.items()
    }
    assert flow_and_sde.extras(beside["exp1", "SDE"]) == pytest.approx(-(1 + 2 + 2) / 3)
    said = flow_and_sde.markdown(found, [max(KS)])
    assert f"| {max(KS) - 2}.0 | 0.00 |" in said and f"| Exp. 1, flow | 1.00 ({kept.null.value:.2f})" in said
    first, *_ = flow_and_sde.plot(found).axes
    assert len(first.containers) == 2 and len(rows) == 2 * len(KS) * SAMPLES


def test_samples_drawn_another_way_are_not_averaged_in():
    rows = [*planted("exp1", 1.0), *planted("exp1/stochastic", 1.0)]
    other = [row._replace(steps=4) for row in fewer(rows, 1) if row.net == "exp1"]
    nets = {"exp1": "Exp. 1"}
    assert flow_and_sde.compare([*rows, *other], nets) == flow_and_sde.compare(rows, nets)


def test_rows_of_random_cells_are_asked_for():
    rows = planted("exp1", 1.0)
    with pytest.raises(ValueError, match="exp1/stochastic"):
        flow_and_sde.compare(rows, {"exp1": "Exp. 1"})
    elsewhere = [row._replace(net="exp1/stochastic", family="test") for row in rows]
    with pytest.raises(ValueError, match="exp1/stochastic"):
        flow_and_sde.compare([*rows, *elsewhere], {"exp1": "Exp. 1"})


def test_steps_and_noise_are_told_apart():
    flow, sde = planted("exp1", 1.0), planted("exp1/stochastic", 1.0)
    rows = [*flow, *planted("exp1/flow", 1.0), *fewer(sde, 2)]
    found = flow_and_sde.compare(rows, ["exp1"], ways=flow_and_sde.SAME_STEPS)
    more = [of[max(KS)].more.value for of in found.values()]
    assert [way for _, way in found] == ["flow, 14 steps", "flow, 80 steps", "SDE, 80 steps"]
    assert more == [0, 0, -2]
