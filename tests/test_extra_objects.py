"""Objects that nobody asked for: planted ones are found, in the verdict, the table and the sentence alike."""

import pytest
from test_tables_beyond_chance import LargestK, Paper
from test_verdicts import made

from lcs_utils.claims import NO, OPEN, UNDECIDED, YES, extra_objects, nets_64
from lcs_utils.evaluation import tables
from lcs_utils.evaluation.tables_beyond_chance import Cell

K = LargestK(9, 9, 9, True)


def cell(net, own=K):
    trained_on, labels = {"exp1": ("1-3", "all labels"), "exp2": ("1-3", "one label")}.get(net, ("1-3", net))
    return Cell(net, labels, trained_on, Paper(9), own, None, None)


def with_extras(net, samples, k, more):
    """A net that has no extra objects but in `more` samples at `k`, which have nine."""
    rows = made(net, 9, n=samples)
    hit = [row for row in rows if row.k == k][:more]
    return [row._replace(count=row.count + 9) if row in hit else row for row in rows]


def test_the_share_outside_is_that_of_the_planted_samples():
    none = next(of for of in tables.ranges("exp1") if of.ks == (0,))
    rows = with_extras("exp1", 80, 0, 20)
    rows = [row._replace(count=0) if row.k == 4 else row for row in rows]  # beyond training, no null
    found = extra_objects.outside(rows, "exp1", none)
    assert (found.share.value, found.samples, found.mean) == (0.25, 80, pytest.approx(20 * 9 / 80))
    assert found.share.low < 0.18 < 0.34 < found.share.high and found.verdict == NO
    assert found.null == 1.0  # asked for three it draws three, and none is the paper's
    elsewhere = [row._replace(family="spread", count=9) for row in made("exp1", 9)]
    clean = made("exp1", 9, n=80)
    assert extra_objects.outside(clean + elsewhere, "exp1", none).share.value == 0  # the paper's cells alone
    assert extra_objects.outside([row for row in clean if row.k], "exp1", none) is None


@pytest.mark.parametrize(("samples", "more", "verdict"), [(80, 0, YES), (64, 0, UNDECIDED), (80, 12, NO)])
def test_a_verdict_needs_its_interval_on_one_side_of_the_bound(samples, more, verdict):
    (beside,) = (of for of in tables.ranges("exp2") if of.measure == "extras")
    assert extra_objects.outside(with_extras("exp2", samples, 1, more), "exp2", beside).verdict == verdict
    blank = [row._replace(count=0, placed=0) for row in made("exp2", 9, n=samples)]
    assert extra_objects.outside(blank, "exp2", beside).verdict == OPEN
    again = [row._replace(net="exp2_seed1") for row in blank]  # one training of two draws nothing
    assert extra_objects.outside(made("exp2", 9, n=samples) + again, "exp2", beside).verdict == OPEN


def test_the_training_with_fewest_samples_decides_how_sure_a_share_is():
    (beside,) = (of for of in tables.ranges("exp2") if of.measure == "extras")
    for first, second in ((80, 4), (4, 80)):
        again = [row._replace(net="exp2_seed1") for row in made("exp2", 9, n=second)]
        found = extra_objects.outside(made("exp2", 9, n=first) + again, "exp2", beside)
        assert found.fewest == 4 * len(beside.ks) and found.verdict == UNDECIDED


def test_the_table_has_both_halves_of_every_trained_net():
    rows = with_extras("exp1", 80, 2, 40) + with_extras("exp2", 40, 1, 3)
    found = extra_objects.checks(rows, [cell("exp1"), cell("exp2"), cell("random_1-3"), cell("exp3", None)])
    assert len(found) == 5  # what is not trained is left out; of a random number of labels one range is known
    head, _, one, two, random = extra_objects.markdown(found).splitlines()
    assert head.count("at most 5%") == 2
    none, some = extra_objects.exact(0, 80), extra_objects.exact(40, 240)
    assert one == (
        f"| 1-3 | all labels | 0 | 0.00 | {extra_objects.say_share(none)} (100%) | reproduced "
        f"| 1–3 | 0 | 1.50 | {extra_objects.say_share(some)} | not reproduced |"
    )
    assert two.endswith("| undecided | 1 | 0–2 | 0.68 | 8% [2%, 20%] | undecided |")
    assert random == "| 1-3 | random_1-3 | 0–3 | – | – | untested | – | – | – | – | – |"
    said = extra_objects.sentence(found)
    assert said.startswith("5 checks: 1 reproduced, 1 not, 2 undecided, 1 untested. ")
    assert "without intervals, 2 are at most 5%." in said
    assert said.endswith(
        " Whatever they find, 2 have too few samples to be reproduced: with 40 or fewer, even none outside "
        "leaves up to 8.8%."
    )
    many = extra_objects.checks(made("exp1", 9, n=80), [cell("exp1")])
    assert extra_objects.sentence(many).endswith("2 are at most 5%.")


def test_the_notebook_shows_what_the_page_judges(monkeypatch):
    """Of the 64 px rows, a local net among them, whose entry is another's."""
    nets = [cell(net) for net in ("exp1", "exp2", "exp1_1-4", "exp3_r2", "random_1-3")]
    monkeypatch.setattr(nets_64, "cells", lambda preset: nets)
    rows = nets_64._listed("tiny")
    found = extra_objects.checks(rows, nets)
    judged = [(claim.paper, claim.judge(rows)[1]) for claim in nets_64.extras("tiny")]
    assert sorted(judged) == sorted((check.of.paper, check.verdict) for check in found)
    assert {verdict for _, verdict in judged} == {NO, UNDECIDED} and len(judged) == 8
    assert [claim.claim for claim in nets_64.entries("tiny")][5:] == [
        claim.claim for claim in nets_64.extras("tiny")
    ]
    assert extra_objects.sentence(found).startswith("8 checks: 0 reproduced, ")
    lines = extra_objects.markdown(found).splitlines()[2:]
    assert len(lines) == len(nets) and all("undecided" in line or "not reproduced" in line for line in lines)
