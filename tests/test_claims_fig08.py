"""Fig. 8 is judged pair by pair, where the paper tells two nets apart; Fig. 1 by Muon by its own rows."""

import pytest
from test_more_training import planted

from lcs_utils.claims import NO, PARTLY, UNDECIDED, YES, fig08, muon
from lcs_utils.evaluation.tables import NUMBERS
from lcs_utils.stats import Interval


def test_each_pair_is_asked_between_the_papers_two():
    assert fig08.between("exp1_1-5", "exp1_1-4") is None  # the paper's K are equal
    asked = {pair: fig08.between(*pair) for pair in zip(NUMBERS, NUMBERS[1:])}
    assert list(asked.values()) == [9, None, 9, 7, 3]


def test_the_net_of_more_objects_fills_more_or_the_claim_fails():
    nets = ("exp1", "exp1_1-2", "exp1_1")
    obeys = dict(zip(nets, (1.0, 0.5, 0.0), strict=True))
    rows = [row for net, share in obeys.items() for row in planted(net, share)]
    found = fig08.pairs(rows, nets)
    assert [(of.more, of.fewer, of.k) for of in found] == [("exp1", "exp1_1-2", 7), ("exp1_1-2", "exp1_1", 3)]
    assert all(of.by.low > 0 and of.above[0].value > of.above[1].value for of in found)
    assert fig08.composes_farther(found)[1] == PARTLY  # so few samples tell only the second apart
    points = [of._replace(above=tuple(Interval(*3 * (at.value,)) for at in of.above)) for of in found]
    assert fig08.composes_farther(points)[1] == YES
    turned = [of._replace(above=of.above[::-1]) for of in points]
    assert fig08.composes_farther(turned)[1] == NO
    touching = Interval(0.5, 0.1, 0.9)
    alike = points[1]._replace(above=(touching, touching))
    said, verdict = fig08.composes_farther([points[0], alike])
    assert verdict == PARTLY and said.endswith("holds in 1 of 2 pairs")
    assert fig08.pairs(planted("exp1", 1.0), nets) is None  # the others were not measured


def test_the_shipped_rows_tell_three_of_four_pairs_apart():
    (claim,) = fig08.CLAIMS
    found = claim.numbers("tiny")
    assert [of.by.low > 0 for of in found] == [False, True, True, True]
    assert claim.judge(found)[1] == PARTLY and claim.paper == "yes, K = 11, 10, 10, 9, 5, 1"
    assert claim.numbers("paper") is None


@pytest.mark.parametrize("way", ["flow", "SDE"])
def test_figure_1_by_muon_has_both_ways(way):
    mine = [claim for claim in muon.CLAIMS if f"by the {way}" in claim.claim]
    assert [claim.paper for claim in mine] == ["9", "1", "9"]
    cells = mine[0].numbers("tiny")
    one, two, three = (claim.judge(cells) for claim in mine)
    assert one[1] == NO and "at the paper's cells 5" in one[0]  # too few, where objects lie close together
    assert three[1] == {"flow": PARTLY, "SDE": UNDECIDED}[way] and "≥ 9" in three[0] and two[0] != one[0]
    assert mine[0].numbers("paper") is None
