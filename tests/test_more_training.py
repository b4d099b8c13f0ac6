"""What training buys, from planted rows of a net that learns to show what it is asked for."""

import numpy as np
import pytest

from lcs_utils.evaluation.locality.net_locality import IMAGES, SIGMAS, LocalityRow
from lcs_utils.evaluation.rows import Row, encode
from lcs_utils.evaluation.studies import more_training

KS, SAMPLES = range(1, 8), 16


def planted(net, right):
    """A share `right` of the samples shows just what was asked, the others as many objects anywhere."""
    rng, rows = np.random.default_rng(0), []
    for k in KS:
        for i in range(SAMPLES):
            asked = rng.random((k, 2)) * 0.8 + 0.1
            drawn = asked if rng.random() < right else rng.random((k, 2)) * 0.8 + 0.1
            how = (
                net,
                "w",
                "c",
                0,
                "dpmpp_2m",
                14,
                k,
                i,
                k,
                k,
                float(rng.random() < right),
                "spread",
                "small",
            )
            rows.append(Row(*how, encode(asked), encode(drawn), right))
    return rows


@pytest.fixture(scope="module")
def learns():
    stages = {"exp1@25024": 0.0, "exp1@100032": 0.6, "exp1@200000": 1.0}
    return [row for net, right in stages.items() for row in planted(net, right)]


def test_a_net_that_learns_rises_above_its_null(learns):
    found = more_training.along_training(learns, "exp1", "small")
    assert list(found) == [25024, 100032, 200000]
    placed = [of.at[5].placed.own.value for of in found.values()]
    assert placed == sorted(placed) and placed[0] < 0.2 and placed[-1] == 1
    first, last = found[25024], found[200000]
    assert last.at[5].placed.above.low > 0.5 and first.at[5].placed.above.low <= 0
    assert (first.k.placed.value, last.k.placed.value) == (0, max(KS)) and last.k.placed_null.value == 0


def test_figure_and_tables_show_every_stage(learns):
    found = {"64 px": more_training.along_training(learns, "exp1", "small")}
    assert more_training.markdown(found).count("| 64 px |") == 3
    assert len(more_training.plot(found).axes) == len(more_training.LOOKED) + 5
    said = more_training.numbers(found)["64 px"][200000]
    assert said["K"]["own"]["value"] == max(KS) and said["samples of each K"] == SAMPLES


def test_cleanness_and_locality_stand_beside_what_renders_have(learns):
    def heard(net, share):
        return [
            LocalityRow(net, "w", 5, image, sigma, 3.0, share / 2, share, 1.0)
            for image in range(IMAGES)
            for sigma in SIGMAS
        ]

    rows = heard("exp1@25024", 0.2) + heard("exp1@200000", 0.9) + heard("exp2", 0.5)
    found = more_training.along_training(learns, "exp1", "small", heard=rows)
    assert [of.local and of.local.value for of in found.values()] == pytest.approx([0.2, None, 0.9])
    assert [of.clean.value for of in found.values()] == pytest.approx([0.0, 0.6, 1.0])
    more_training.plot({"64 px": found})
    assert more_training.cleanness_of("render") > 0.95 > 0.8 > more_training.cleanness_of("spoiled")


def test_what_was_not_measured_is_no_part_of_a_stage():
    """Images without cleanness, locality of other weights, a stage that was not asked for seven."""
    rows = planted("exp1@200000", 1.0)
    spoiled = [row._replace(cleanness=-1.0) if row.sample % 2 else row for row in rows]
    stale = [
        LocalityRow("exp1@200000", "old", 5, i, s, 3.0, 0.4, 0.8, 1.0) for i in range(IMAGES) for s in SIGMAS
    ]
    (stage,) = more_training.along_training(spoiled, "exp1", "small", heard=stale).values()
    assert stage.clean.value == 1 and stage.local is None
    assert more_training.cleanness(spoiled, "exp1@200000", (2, 3)).value == 1
    with pytest.raises(ValueError, match="no cleanness of 'exp1@200000', family 'spread'"):
        more_training.cleanness([row for row in spoiled if row.sample % 2], "exp1@200000", (2, 3))
    other = [row._replace(steps=4, cleanness=0.0) for row in rows]  # drawn another way
    assert more_training.cleanness([*rows, *other], "exp1@200000", (2, 3)).value == 1
    (stage,) = more_training.along_training([*rows, *other], "exp1", "small").values()
    assert stage.clean.value == 1
    gray = [row._replace(cleanness=0.0) if row.k != more_training.SEEN else row for row in rows]
    (stage,) = more_training.along_training(gray, "exp1", "small").values()
    assert stage.clean.value == 1  # of as many objects as in training alone
    short = [row for row in rows if row.k < 7]
    assert more_training.along_training(short, "exp1", "small") == {}


def test_nets_that_were_not_measured_are_named_with_the_command(learns):
    with pytest.raises(ValueError, match="length_generalization exp2 --preset small --family spread"):
        more_training.along_training(learns, "exp2", "small")


def test_by_exp_1s_rule_every_training_is_judged_and_no_other_net():
    nets = ("exp3_r2", "exp3_r2_seed1", "exp3_r2@300", "exp3_r2/near", "exp3", "exp1")
    judged = more_training.without_extras([row for net in nets for row in planted(net, 1.0)], "exp3_r2")
    assert len(judged) == 2 * SAMPLES * len(KS) and {row.net for row in judged} == {"exp1", "exp1_seed1"}
    nets = ("exp3_r2/stochastic", "exp3_r2_seed1/stochastic", "exp3_r2")
    judged = more_training.without_extras([row for net in nets for row in planted(net, 1.0)], nets[0])
    assert len(judged) == 2 * SAMPLES * len(KS) and {row.net for row in judged} == {"exp1", "exp1_seed1"}


def test_what_looks_right_is_told_by_spans_of_k():
    rows = [row._replace(plausibility=float(row.k < 4)) for row in planted("exp1", 1.0)]
    clean = " | ".join(["1.00 [1.00, 1.00]"] * 3)
    lines = more_training.ends({"mine": (rows, "exp1")}).splitlines()
    assert lines[2] == f"| mine | {clean} | 1.00 | 0.00 | 0.00 |"
