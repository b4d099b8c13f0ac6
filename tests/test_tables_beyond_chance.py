"""Tables 1 and 2 at random cells: a net that obeys has its K, a deaf one its null's; the rest is missing."""

import pytest
from test_placement import crowd, pictured, planted

from lcs_utils.claims import NO, OPEN, PARTLY, UNDECIDED, YES, nets_64
from lcs_utils.clevr.grid import TEST_LOCATIONS
from lcs_utils.evaluation import families, tables_beyond_chance
from lcs_utils.evaluation.rules import LargestK
from lcs_utils.evaluation.tables import Paper
from lcs_utils.nets import trained
from lcs_utils.presets import preset


def rows(net, obeying, family="spread", most=5):
    """A net that obeys up to `obeying` conditions of a sample and draws the rest in the middle."""
    return [
        row
        for k in range(1, most + 1)
        for row in planted(family, k, lambda rng: obeying, 0, crowd, 24, net=net)
    ]


@pytest.fixture(scope="module")
def found():
    nets = {"exp1": Paper(5), "exp2": Paper(1), "exp3_1": Paper(6), "exp3_r2": Paper(9)}
    return tables_beyond_chance.cells(rows("exp1", 9) + rows("exp2", 0) + rows("exp3_1", 3), nets)


def test_k_stands_beside_its_null_and_a_deaf_net_has_no_more(found):
    obeys, deaf, some, missing = found
    assert (obeys.own.value, obeys.own.capped, obeys.null.value) == (5, True, 0)
    assert deaf.own.value <= max(deaf.null.value, 1) and not deaf.own.capped
    assert obeys.own.value > some.own.value >= 3
    assert missing.own is missing.null is missing.at_papers is None
    assert [cell.column for cell in (some, missing)] == [
        "one label, local, r = 3",
        "one label, local, r = 2",
    ]


@pytest.mark.parametrize(
    ("own", "paper", "near"),
    [
        (LargestK(8, 8, 9, False), 9, True),
        (LargestK(8, 7, 8, False), 9, None),  # the interval leaves it open
        (LargestK(7, 6, 8, False), 9, None),
        (LargestK(7, 6, 7, False), 9, False),
        (LargestK(11, 11, 12, False), 9, False),
        (LargestK(9, 9, 9, True), 11, None),  # more were not asked
        (LargestK(9, 9, 9, True), 10, None),
        (LargestK(9, 9, 9, True), 9, None),  # it may lie far above
        (LargestK(9, 9, 9, False), 11, False),
        (LargestK(9, 9, 9, True), 6, False),
        (None, 1, False),
    ],
)
def test_near_is_one_away(own, paper, near):
    cell = tables_beyond_chance.Cell("exp1", "all labels", "1-3", Paper(paper), own, None, None)
    assert cell.near is near
    assert not own or not cell._replace(null=own).near  # not above its null
    if near:  # nor decided where its interval begins within the null's
        null = LargestK(own.low - 1, own.low - 2, own.low, False)
        assert cell._replace(null=null).near is None
        assert cell._replace(null=null._replace(high=own.low - 1)).near is True


def test_k_at_the_papers_cells_is_of_up_to_twelve_beside_a_null_of_its_own():
    """A deaf net that always draws the paper's first cells has them filled, and so has its null there."""
    deaf = [
        pictured(families.asked(family, k, i), TEST_LOCATIONS[:k], sample=i, net="exp2", family=family)
        for family in ("spread", "test")
        for k in (1, 2, 3)
        for i in range(8)
    ]
    (cell,) = tables_beyond_chance.cells(deaf, {"exp2": Paper(3)})
    assert (cell.own.value, cell.null.value) == (0, 0)
    assert cell.at_papers == cell.null_at_papers == (3, 3, 3, True) and not cell.near_at_papers
    obeys = rows("exp1", 12, most=3) + rows("exp1", 12, "test", most=12)
    (cell,) = tables_beyond_chance.cells(obeys, {"exp1": Paper(9)})
    assert [(k.value, k.capped) for k in (cell.own, cell.at_papers)] == [(3, True), (12, True)]


def test_a_k_that_was_not_asked_for_decides_nothing(found):
    asked = LargestK(9, 9, 9, True)
    cell = found[0]._replace(paper=Paper(11), own=asked, at_papers=LargestK(5, 5, 5, False))
    assert nets_64.entry(cell.net)([cell])[1] == NO
    assert nets_64.entry(cell.net)([cell._replace(at_papers=LargestK(10, 10, 11, False))])[1] == PARTLY
    assert nets_64.entry(cell.net)([cell._replace(at_papers=LargestK(10, 9, 11, False))])[1] == UNDECIDED
    assert nets_64.entry(cell.net)([cell._replace(at_papers=None)])[1] == UNDECIDED
    both = cell._replace(own=LargestK(10, 10, 11, False), at_papers=LargestK(11, 10, 12, False))
    assert nets_64.entry(cell.net)([both])[1] == YES
    line = tables_beyond_chance.markdown([cell]).splitlines()[-1]
    assert line == "| 1-3 | all labels | 11 | ≥ 9 [9, 9] | 0 [0, 0] | not asked | 5 [5, 5] | – | no |"


def test_agreement_is_counted_as_it_stands_in_the_table(found):
    """A K as large as was asked for decides nothing, wherever the paper's is."""
    nine, ten = LargestK(9, 9, 9, True), LargestK(10, 9, 10, False)
    agrees = found[0]._replace(paper=Paper(9), own=nine, at_papers=ten)
    apart = found[0]._replace(paper=Paper(12), own=nine, at_papers=ten)
    half = found[0]._replace(paper=Paper(10), own=ten._replace(low=8), at_papers=ten)
    said = tables_beyond_chance.sentence([agrees, apart, half, found[3]])
    assert said.startswith(
        "0 of 3 nets agree with the paper's K within one at random cells, 2 at the paper's cells; "
        "3 and 0 are open or not asked."
    )
    lines = tables_beyond_chance.markdown([agrees, apart, half, found[3]]).splitlines()[2:]
    words = [(line.split(" | ")[5], line.split(" | ")[8].rstrip(" |")) for line in lines]
    assert words == [("not asked", "yes"), ("not asked", "no"), ("open", "yes")]
    below = agrees._replace(null=LargestK(9, 9, 9, True))
    assert tables_beyond_chance.agrees(below.own, below.near) == "no"  # not above its null
    assert tables_beyond_chance.agrees(None, False) == "–"
    assert tables_beyond_chance.sentence(found[3:]).startswith("0 of 0 nets")


def test_figure_and_table_say_what_is_not_trained(found):
    figure = tables_beyond_chance.plot(found)
    said = [text.get_text() for text in figure.axes[0].texts]
    assert said.count("not trained") == 1
    assert [label.get_text() for label in figure.axes[0].get_yticklabels()][0] == "one label, local, r = 3"
    lines = tables_beyond_chance.markdown(found).splitlines()
    obeys = "| 1-3 | all labels | 5 | ≥ 5 [5, 5] | 0 [0, 0] | not asked | – | – | – |"
    assert len(lines) == 2 + 3 and obeys in lines
    assert "3 of the tables' 4 entries have a net trained at 64 px" in tables_beyond_chance.sentence(found)


def test_k_at_the_papers_cells_is_a_ring(found):
    """Drawn below the row's own mark; none where it was not measured."""

    def rings(cell):
        lines = tables_beyond_chance.plot([cell]).axes[0].lines
        white = [of for of in lines if of.get_markerfacecolor() == "white" and of.get_marker() != "D"]
        return [(of.get_marker(), *of.get_xdata()) for of in white]

    assert rings(found[0]._replace(at_papers=LargestK(4, 4, 5, False))) == [("o", 4)]
    assert rings(found[0]._replace(at_papers=LargestK(9, 9, 9, True))) == [(">", 9.4)]
    assert rings(found[0]._replace(at_papers=None)) == []


def test_a_gap_to_the_papers_k_is_drawn_where_its_length_is_known(found):
    known, asked = found[1], found[0]._replace(paper=Paper(12))

    def gaps(*cells):
        lines = tables_beyond_chance.plot(cells).axes[0].collections
        gray = [of for of in lines if of.get_colors()[0][0] == pytest.approx(0.75)]
        return [sorted(of.get_segments()[0][:, 0]) for of in gray]

    far = known._replace(paper=Paper(7))
    assert gaps(far, asked) == gaps(far) == [[far.own.value, 7]] and asked.own.capped


def test_two_radii_stand_beside_one_entry_of_the_papers(found):
    obeys = found[0]
    both = [obeys._replace(net=net) for net in ("exp3", "exp3_r2")]
    assert tables_beyond_chance.entries([obeys, *both]) == (2, 2)
    assert tables_beyond_chance.entries([obeys, both[0], both[1]._replace(own=None)]) == (2, 2)
    assert tables_beyond_chance.entries([obeys, *(cell._replace(own=None) for cell in both)]) == (1, 2)


def test_of_one_object_the_local_net_alone_is_above_one(found):
    many, one = LargestK(6, 5, 6, False), LargestK(1, 1, 2, False)
    local, whole = (
        found[0]._replace(net=net, own=k, at_papers=k) for net, k in (("exp3_1", many), ("exp1_1", one))
    )
    assert nets_64.one_object([local, whole])[1] == YES
    assert nets_64.one_object([whole, local._replace(net="exp3_1_r2")])[1] == YES  # by Muon, of two cells
    assert nets_64.one_object([whole, local, local._replace(net="exp3_1_r2", own=one)])[1] == YES
    lucky = whole._replace(at_papers=LargestK(4, 4, 4, False))  # the paper's own list tells little
    said, verdict = nets_64.one_object([local, lucky])
    assert verdict == PARTLY and "at the paper's cells 6 [5, 6] and 4 [4, 4]" in said
    assert nets_64.one_object([local._replace(own=one, at_papers=one), whole])[1] == NO
    assert nets_64.one_object([local])[1] == OPEN
    wide, unsure = LargestK(6, 3, 6, False), LargestK(1, 1, 3, False)  # three may be both nets' K
    touching = [cell._replace(own=k, at_papers=None) for cell, k in ((local, wide), (whole, unsure))]
    assert nets_64.one_object(touching)[1] == NO


def test_an_entry_is_judged_by_its_own_net_at_both_lists(found):
    obeys, *_, missing = found
    judge = nets_64.entry(obeys.net)
    assert judge(found)[1] == UNDECIDED  # it has as many as were asked
    obeys = obeys._replace(own=LargestK(5, 5, 5, False))
    assert judge([obeys])[1] == YES
    assert judge([obeys._replace(at_papers=LargestK(1, 1, 1, False))])[1] == PARTLY
    said, verdict = judge([missing, obeys._replace(paper=Paper(1))])
    assert verdict == NO and said.startswith("K at random cells 5 [5, 5], null 0 [0, 0]")
    assert nets_64.entry(missing.net)(found) == ("not trained", OPEN)


def test_only_entries_with_a_net_have_a_claim(found, monkeypatch):
    monkeypatch.setattr(nets_64, "cells", lambda preset: found)
    trained_ = {cell.net for cell in found if cell.own is not None}
    assert nets_64.told("tiny") == trained_ and len(trained_) < len(found)
    near = [claim for claim in nets_64.entries("tiny") if "within 1 of" in claim.claim]
    assert len(near) == len(trained_)


def test_a_net_of_a_shorter_training_says_so(found, monkeypatch):
    asked = preset("small").length(trained("exp1"))
    monkeypatch.setattr(tables_beyond_chance, "row_or_none", lambda name, size: {"images": asked})
    assert tables_beyond_chance.shorter(found[:1]) == ""
    monkeypatch.setattr(tables_beyond_chance, "row_or_none", lambda name, size: {"images": asked - 1})
    assert f"{asked - 1:,} of {asked:,} images" in tables_beyond_chance.shorter(found[:1])
    assert tables_beyond_chance.shorter(found[3:]) == ""  # that is not trained at all
