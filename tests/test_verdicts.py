"""The verdict page says what the rows say: synthetic rows with known truth, and the shipped page against
the shipped rows.
"""

import functools
import json
from itertools import pairwise, permutations
from types import SimpleNamespace

import pytest
import torch

from lcs_utils import claims, nets, paths
from lcs_utils.claims import (
    colors,
    extra_objects,
    from_notebooks,
    from_rows,
    low_noise,
    muon,
    nets_64,
    text_to_image,
    theory,
    verdicts,
)
from lcs_utils.evaluation import against_null, rate_figures, rules, side_tables, table_figures, tables
from lcs_utils.evaluation.colors import color_rates
from lcs_utils.evaluation.locality import locality_figures, net_locality
from lcs_utils.evaluation.rows import Row, read_rows, rows_path, told_path
from lcs_utils.evaluation.studies import middle
from lcs_utils.plotting import PALETTE
from lcs_utils.stats import Interval
from lcs_utils.text_to_image import truth


def made(net, largest, n=16, extras=0, to=12):
    """A net that fills every cell up to K = `largest` and none beyond, with `extras` objects elsewhere."""

    def good(k):
        return k if k <= largest else 0

    return [
        Row(net, "0" * 12, "c" * 12, 0, "heun", 2, k, i, good(k) + extras, good(k), 1.0)
        for k in range(to + 1)
        for i in range(n)
    ]


@pytest.fixture(autouse=True, scope="module")
def decided_once():
    """Notebooks' claims do not rest on the rows that these tests make up, nor on figures."""

    @functools.cache
    def decided(preset):
        with pytest.MonkeyPatch.context() as at:
            at.setattr(paths, "FIGURES", paths.ROOT / "none")
            return from_notebooks.decided(preset)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(verdicts, "decided", decided)
        yield


CELL = "K of a net trained on 1-3, all labels"
PAPERS = [
    row._replace(count=1) if row.k == 0 and tables.AT_NONE.get(net, (0, 0))[0] else row
    for net, paper in tables.PAPER.items()
    for row in made(net, paper.k, extras=paper.extras[1] and 1)
]


@functools.cache
def page_of_papers():
    return verdicts.page(PAPERS)


def by_claim(rows):
    return {v.claim: v for v in verdicts.verdicts(rows)}


def test_rows_as_in_the_paper_reproduce_it():
    found = by_claim(PAPERS)
    ranges = [of for net in tables.PAPER for of in tables.ranges(net)]
    assert len(found) == 16 + len(tables.PAPER) + len(ranges)
    assert {v.verdict for v in found.values()} == {claims.YES}
    assert "trained on at most 3, K = 9 [9, 9] by its rule, 9 [9, 9] by ours" in {
        v.ours for v in found.values()
    }


def test_what_is_told_of_elsewhere_is_left_out():
    every, told = verdicts.verdicts(PAPERS), {"exp1", "exp2", "exp3", "exp1_1", "exp3_1"}
    left = verdicts.verdicts(PAPERS, told)
    entries = sum(1 + len(tables.ranges(net)) for net in tables.PAPER if net in told)
    assert len(left) == len(every) - len(from_rows.of_figures_1_and_4(PAPERS)) - entries
    assert not any(v.claim.startswith(("Fig. 1", "Fig. 4")) for v in left)
    assert len(verdicts.verdicts(PAPERS, told - {"exp3_1"})) > len(left)


def test_without_rows_nothing_is_reproduced():
    assert {v.verdict for v in verdicts.verdicts([])} == {claims.OPEN}
    some = by_claim(made("exp1", 9))
    assert some["Fig. 1: Exp. 1 (all labels) length-generalizes"].verdict == claims.YES
    assert some["Fig. 1: the labels make the difference"].verdict == claims.OPEN


def test_rows_against_the_paper_are_said_to_be():
    failing = by_claim(made("exp1", 3, extras=1) + made("exp2", 3, extras=2) + made("exp3", 3, extras=4))
    assert failing["Fig. 1: Exp. 1 (all labels) length-generalizes"].verdict == claims.NO
    assert failing["Fig. 1: the labels make the difference"].verdict == claims.NO  # 0 against 0
    assert failing["K of a net trained on 1-3, all labels"].verdict == claims.NO
    extras = {
        net: failing[f"Tables 1, 2: objects that nobody asked for, {ks}, {net}"]
        for net, ks in (("exp1", "K = 1–3"), ("exp2", "K = 1"), ("exp3", "K = 1–3"))
    }
    assert [v.verdict for v in extras.values()] == [claims.NO, claims.YES, claims.NO]
    assert "100% of the samples outside" in extras["exp1"].ours
    none = [
        failing[f"Table 2, second half: objects drawn when none is asked for, {net}"]
        for net in ("exp1", "exp2")
    ]
    assert [(v.paper, v.verdict) for v in none] == [("0", claims.NO), ("0–3", claims.YES)]


def test_trainings_from_several_seeds_must_agree():
    names = "Fig. 1: Exp. 1 (all labels) length-generalizes", "Fig. 1: the labels make the difference", CELL

    def verdict(rows):
        return [by_claim(rows + made("exp2", 1))[claim].verdict for claim in names]

    assert verdict(made("exp1", 9) + made("exp1_seed1", 9)) == [claims.YES] * 3
    assert verdict(made("exp1", 9) + made("exp1_seed1", 3)) == [claims.PARTLY] * 3
    assert verdict(made("exp1", 3) + made("exp1_seed1", 2)) == [claims.NO] * 3
    said = by_claim(made("exp1", 9) + made("exp1_seed1", 3) + made("exp2", 1))[names[1]].ours
    assert said.endswith("holds in 1 of 2 pairs of trainings")


def test_patches_as_large_as_the_image_fail_only_where_they_learned_anything():
    claim = "App. E.3: a local net whose patches are as large as the image fails as Exp. 2 does"

    def found(largest):
        return by_claim(made("exp2", 1) + made("exp3_r15", largest))[claim]

    assert [found(largest).verdict for largest in (1, 9, 0)] == [claims.YES, claims.NO, claims.OPEN]
    assert found(0).ours.endswith("K = 0 [0, 0]; hardly trained")
    assert claim not in by_claim(made("exp3_r15", 1))  # Exp. 2 was not measured


def test_a_larger_k_than_was_asked_is_untested():
    assert by_claim(made("exp1", 6, to=6))[CELL].verdict == claims.OPEN
    assert by_claim(made("exp1", 6, to=7))[CELL].verdict == claims.NO


def test_other_ways_of_sampling_stand_apart():
    standard = [row._replace(solver="dpmpp_2m", steps=14) for row in made("exp1", 9)]
    heun = [row._replace(steps=32) for row in made("exp1", 5)]
    scenes = [row._replace(family="crowded") for row in standard if row.k <= 7]
    text = verdicts.page(standard + heun + scenes)
    assert "| exp1, heun, 32 steps | 5 [5, 5] | 5 [5, 5] | 0.67" in text
    assert "| exp1, centers of crowded scenes | ≥ 7 [7, 7] |" in text
    assert verdicts.verdicts(standard + heun + scenes) == verdicts.verdicts(standard)
    assert "## Other samplers" not in verdicts.page(standard)


def test_random_cells_alone_say_nothing_of_the_papers_list():
    standard = [row._replace(solver="dpmpp_2m", steps=14) for row in made("exp1", 9)]
    elsewhere = [row._replace(family="spread") for row in standard]
    heun = [row._replace(solver="heun", steps=32) for row in elsewhere]
    assert not side_tables.ways(standard + heun)
    assert verdicts.verdicts(elsewhere) == verdicts.verdicts([])


CLAIMS = {c.claim.split(":")[0]: c for c in (*nets_64.CLAIMS, *from_notebooks.CLAIMS)}
NOTHING = ("Fig. 12", "Figs. 6, 7, 13, App. G")
AT_64 = [name for name in CLAIMS if name.endswith("at 64 px")]


def test_claims_that_a_notebook_shows():
    found = {v.claim.split(":")[0]: v for v in verdicts.decided("tiny")}
    assert found["Lemma 1, Fig. 3"].verdict == claims.YES and found["Claim 2"].verdict == claims.OPEN
    assert {found[claim].verdict for claim in NOTHING} == {claims.OPEN}
    assert found["Fig. 12"].command == "python -m lcs_utils.notebooks run 07_locality"
    worse = {  # the same numbers with one that breaks the claim
        "Lemma 1, Fig. 3": lambda v: (1e-9, v[1]),
        "Equivalence": lambda v: v | {"spill": v["CPC"]},
        "Section 4, theory": lambda v: v | {"CPC": v["coupled at three"]},
        "Lemma 2, as reconstructed": lambda v: (
            v | {3: [v[3][-1]._replace(bound=v[3][-1].divergence / 1.00001)]}
        ),
        "Lemma 3, Claim 1": lambda v: v.flip(0),
        "Claim 1": lambda v: v._replace(
            gaussians=[v.gaussians[0]._replace(left=v.gaussians[0].left * 1.00001)]
        ),
        "Eq. (3)": lambda v: v | {"CPC": v["spill"]},
        "Corollary 1": lambda v: v._replace(gaps=v.gaps | {"smooth": v.pixel_blocks}),
        "Swing-by, one layer": lambda v: v._replace(gap_sgd=0.2),
        "Swing-by, two layers": lambda v: v._replace(errors=dict.fromkeys(v.errors, [*v.errors.values()][0])),
        "Swing-by, order": lambda v: {sigma: at.flip(1) for sigma, at in v.items()},
        "Figs. 2, 10": lambda v: {net: [r._replace(window=60.0) for r in rows] for net, rows in v.items()},
        "Fig. 6, abstract": lambda v: [r._replace(value=0.9, low=0.8, high=1.0) for r in v],
    }
    assert found["Fig. 6, abstract"].verdict == claims.PARTLY  # as one takes the word away
    theory = (
        "Equivalence",
        "Section 4, theory",
        "Lemma 2, as reconstructed",
        "Claim 1",
        "Eq. (3)",
        "Corollary 1",
    )
    for name in (*theory, *(name for name in worse if name.startswith("Swing"))):
        assert found[name].verdict == claims.YES
    lemma, corollary = CLAIMS["Lemma 1, Fig. 3"], CLAIMS["Corollary 1"]  # nor if what must fail does not
    assert lemma.judge((lemma.numbers("tiny")[0], 1e-9))[1] == claims.NO
    assert corollary.judge(corollary.numbers("tiny")._replace(pixel_blocks=2e-6))[1] == claims.NO
    order = CLAIMS["Swing-by, order"]
    starts = order.numbers("tiny")
    assert "dimensions, SGD" in order.judge(starts)[0] and len(starts[0.05]) == 10  # not true by construction
    least = {sigma: at for sigma, at in starts.items() if sigma < 1.2}  # one side of equal rates
    assert order.judge(least)[1] == claims.PARTLY
    assert order.judge({1.2: starts[1.2]})[1] == claims.NO  # nothing is settled
    diffusion = CLAIMS["Swing-by, a small diffusion model"]
    own = diffusion.numbers("tiny")
    assert diffusion.judge(own)[1] == found["Swing-by, a small diffusion model"].verdict == claims.PARTLY
    unseen = own.labels.index("11")
    flat = torch.full_like(own.size, 0.5)  # now nothing falls, then only what was never seen, then all labels
    assert diffusion.judge(own._replace(size=flat, color=flat))[1] == claims.NO
    lost = flat.clone()
    lost[0, unseen, 0, -1] = 0
    assert diffusion.judge(own._replace(size=lost, color=flat))[1] == claims.PARTLY  # one concept alone
    assert diffusion.judge(own._replace(size=lost, color=lost))[1] == claims.YES
    lost[0, :, 0, -1] = 0
    said, verdict = diffusion.judge(own._replace(size=lost, color=lost))
    assert verdict == claims.PARTLY and "surely in 1; of a label trained on in up to 1" in said
    assert diffusion.judge(own._replace(right=flat))[1] == claims.PARTLY  # both together decide nothing
    for name, spoil in worse.items():
        claim = CLAIMS[name]
        assert claim.judge(spoil(claim.numbers("tiny")))[1] == claims.NO, name
    (hears,) = (claim for claim in from_notebooks.CLAIMS if "nearby conditions" in claim.claim)
    rows = hears.numbers("tiny")
    assert hears.judge(rows)[1] == claims.YES
    assert hears.judge(rows | {"exp1": rows["exp2"]})[1] == claims.PARTLY  # one of three
    assert hears.judge(dict.fromkeys(rows, rows["exp2"]))[1] == claims.NO


def test_a_net_that_hears_conditions_at_low_noise_does_not_let_go_of_them():
    (fades,) = (claim for claim in from_notebooks.CLAIMS if "at low noise" in claim.claim)
    rows = fades.numbers("tiny")
    said, verdict = fades.judge(rows)
    assert verdict == claims.YES and said.endswith("holds in 6 of 6 trainings")
    mixed = rows | {"exp2": [row._replace(response=0.2) for row in rows["exp2"]]}
    assert fades.judge(mixed)[1] == claims.PARTLY
    alike = {net: [row._replace(response=0.2) for row in of] for net, of in rows.items()}
    assert fades.judge(alike)[1] == claims.NO
    heard = {
        net: [r._replace(response=r.response * (1 + 2 * (r.sigma < 0.1))) for r in of]
        for net, of in rows.items()
    }
    assert fades.judge(heard)[1] == claims.NO  # three times as much, still faint


def test_places_look_near_if_their_squares_are_small_and_smaller_than_before_training():
    claim = CLAIMS["Abstract, last version"]
    rows = claim.numbers("tiny")
    said, verdict = claim.judge(rows)
    assert verdict == claims.PARTLY and said.endswith("holds in 1 of 2 regions")
    assert "background: t1 14.65" in said and "untrained 11.51" in said and "4 pictures" in said

    def with_side(net, side, sigma=None):
        new = {"value": side, "low": side - 0.1, "high": side + 0.1}
        return [
            r._replace(**new) if (r.net, r.measure) == (net, "side") and sigma in (None, r.sigma) else r
            for r in rows
        ]

    assert claim.judge(with_side("t1", 4.0))[1] == claims.YES
    assert claim.judge(with_side("t1", 15.0))[1] == claims.NO
    assert claim.judge(with_side("untrained", 4.0))[1] == claims.NO  # the architecture's own
    assert claim.judge(with_side("t1", 12.0, sigma=4.0))[1] == claims.NO  # at one noise level


def test_a_word_is_hardly_heard_at_its_object_if_it_is_not_at_any_noise_level():
    claim = CLAIMS["Fig. 6, abstract"]
    rows = claim.numbers("tiny")
    said, verdict = claim.judge(rows)
    assert verdict == claims.PARTLY and "at σ = 2, the word removed: t1 0.64" in said

    def made(high, sigma=None):
        return [
            r._replace(high=high)
            if (r.net, r.measure) == ("t1", "own part") and sigma in (None, r.sigma)
            else r
            for r in rows
        ]

    assert claim.judge(made(0.74))[1] == claims.YES and claim.judge(made(0.76))[1] == claims.NO
    assert (
        "in 6 of 9 pairs"
        in claim.judge(
            [r for r in made(0.74) if r.sigma < 4]
            + [
                r._replace(high=0.76) if (r.net, r.measure) == ("t1", "own part") else r
                for r in rows
                if r.sigma == 4
            ]
        )[0]
    )


def test_a_word_is_heard_most_at_its_object_if_more_often_than_elsewhere_and_than_by_an_untrained_net():
    claim = CLAIMS["Section 4, Fig. 6"]
    rows = claim.numbers("tiny")
    said, verdict = claim.judge(rows)
    assert verdict == claims.YES and "holds in 3 of 3 noise levels" in said

    def with_value(net, control, sigma=None, **value):
        where = (net, "heard most", control)
        return [
            r._replace(**value) if (r.net, r.measure, r.control) == where and sigma in (None, r.sigma) else r
            for r in rows
        ]

    assert claim.judge(with_value("t1", "", low=0.3))[1] == claims.NO
    assert claim.judge(with_value("t1", "", 1.0, low=0.3))[1] == claims.PARTLY
    for null in (("t1", "another picture"), ("untrained", "")):
        assert claim.judge(with_value(*null, high=1.0))[1] == claims.NO


def test_prompts_are_additive_if_more_than_before_training_and_than_none():
    claim = CLAIMS["Prompts, not in the paper"]
    rows = claim.numbers("tiny")
    assert claim.judge(rows)[1] == claims.PARTLY

    def made(net, value):
        how = {"value": value, "low": value - 0.05, "high": value + 0.05}
        return lambda found: [
            r._replace(**how) if (r.net, r.measure, r.control) == (net, "additivity", "") else r
            for r in found
        ]

    assert claim.judge(made("untrained", 0.5)(made("t1", 0.9)(rows)))[1] == claims.YES
    assert (
        claim.judge(made("untrained", 0.9)(made("t1", 0.9)(rows)))[1] == claims.NO
    )  # no more than untrained
    assert claim.judge(made("untrained", -2.0)(made("t1", 0.0)(rows)))[1] == claims.NO  # no more than nothing


def test_related_words_attend_alike_if_more_than_before_training_and_than_others():
    claim = CLAIMS["Figs. 7, 13, section 4"]
    rows = claim.numbers("tiny")
    said, verdict = claim.judge(rows)
    assert verdict == claims.PARTLY and said.endswith("holds in 2 of 6 pairs of a baseline and a noise level")

    def made(own, first, bare):
        values = {("t1", ""): own, ("t1", "first word"): first, ("untrained", ""): bare}
        changed = []
        for r in rows:
            value = values.get((r.net, r.control)) if r.measure == "kinds" else None
            how = {} if value is None else {"value": value, "low": value - 0.05, "high": value + 0.05}
            changed.append(r._replace(**how))
        return changed

    assert claim.judge(made(0.5, 0.1, 0.1))[1] == claims.YES
    assert claim.judge(made(0.5, 0.1, 0.5))[1] == claims.NO  # before training
    assert claim.judge(made(0.5, 0.5, 0.1))[1] == claims.NO  # of the prompt, not of the word
    assert claim.judge(made(0.0, -0.5, -0.5))[1] == claims.NO


def test_rows_of_a_net_that_is_missing_are_asked_for():
    names = ("Fig. 6, abstract", "Abstract, last version", "Figs. 7, 13, section 4", "Fig. 7, App. G")
    for name in (*names, "Prompts, not in the paper"):
        claim = CLAIMS[name]
        for net in ("t1", "untrained"):
            rows = [row for row in claim.numbers("tiny") if row.net != net]
            with pytest.raises(ValueError, match="text_to_image.study"):
                claim.judge(rows)


def test_a_composite_is_near_its_single_prompt_more_than_before_training():
    claim = CLAIMS["Fig. 7, App. G"]
    rows = claim.numbers("tiny")
    said, verdict = claim.judge(rows)
    assert verdict == claims.PARTLY and said.endswith("holds in 1 of 2 baselines")
    assert "at 6 of 6 words" in said and "at 3 of 6 words" in said
    cosines = {(r.net, r.case, r.control): r.value for r in rows if r.measure == "composite cosine"}

    def made(value):
        return [
            r._replace(value=value(r)) if (r.net, r.measure) == ("t1", "composite cosine") else r
            for r in rows
        ]

    assert claim.judge(made(lambda r: 0.0 if r.control else 1.3))[1] == claims.YES
    # as near to all prompts, and as near as an untrained net
    assert claim.judge(made(lambda r: 0.99))[1] == claims.NO
    assert claim.judge(made(lambda r: cosines["untrained", r.case, r.control]))[1] == claims.NO


def test_details_are_left_to_low_noise_if_nothing_changes_there():
    (claim,) = low_noise.CLAIMS
    *_, ks = found = claim.numbers("tiny")
    assert claim.judge(found)[1] == claims.YES and claim.numbers("paper") is None
    none = Interval(0.0, -0.02, 0.02)
    for low, high, verdict in (
        (0.0, 0.09, claims.YES),
        (0.05, 0.12, claims.UNDECIDED),
        (0.11, 0.2, claims.NO),
        (-0.2, -0.11, claims.NO),
    ):
        for pair in permutations((none, Interval((low + high) / 2, low, high))):
            assert claim.judge((*pair, ks))[1] == verdict


def test_claims_at_64_px_fail_with_another_net_in_place():
    (
        told_all,
        told_one,
        local,
        wider,
        one_object,
        dose,
        of_six,
        looks,
    ) = (CLAIMS[n] for n in AT_64)
    found = told_all.numbers("tiny")
    swapped = found | {"exp1": found["exp2"], "exp2": found["exp1"], "exp3_r2": found["exp2"]}
    assert wider.judge(found)[1] == claims.NO  # K may be three
    assert wider.judge(found | {"exp3": found["exp3_r2"]})[1] == claims.YES
    for claim in (told_all, told_one, local):
        assert claim.judge(found)[1] == claims.YES and claim.judge(swapped)[1] == claims.NO
    for claim in (dose, of_six):
        ordered = claim.numbers("tiny")
        assert len(ordered.steps) == len(ordered.above) - 1
        assert all(of.low > 0 for of in ordered.steps)
        points = {net: Interval(of.value, of.value, of.value) for net, of in ordered.above.items()}
        assert claim.judge(ordered._replace(above=points))[1] == claims.YES
        turned = dict(zip(points, reversed(points.values()), strict=True))
        assert claim.judge(ordered._replace(above=turned))[1] == claims.NO
        for less, more in pairwise(reversed(points)):  # two that do not differ
            alike = points | {less: points[more]}
            left = claims.PARTLY if len(points) > 2 else claims.UNDECIDED  # of the other steps
            assert claim.judge(ordered._replace(above=alike))[1] == left
    # the intervals of all labels and of a random number touch
    assert dose.judge(dose.numbers("tiny"))[1] == claims.PARTLY
    cells = one_object.numbers("tiny")
    own = {cell.net: cell.own for cell in cells}

    def exchanged(net, other):
        with_own = {net: own[other], other: own[net]}
        return [cell._replace(own=with_own.get(cell.net, cell.own), at_papers=None) for cell in cells]

    # each with the other's K in its place; at random cells Exp. 1's 7 [7, 8] leaves the paper's 9 open
    for net, own_verdict in (("exp1", claims.PARTLY), ("exp2", claims.YES)):
        judge = nets_64.entry(net)
        assert judge(cells)[1] == own_verdict and judge(exchanged("exp1", "exp2"))[1] == claims.NO
        papers = [
            cell._replace(own=rules.LargestK(*3 * (cell.paper.k,), capped=False), at_papers=None)
            for cell in cells
            if cell.net == net
        ]
        assert judge(papers)[1] == claims.YES
    told = [c.judge(cells) for c in nets_64.entries("tiny") if c.numbers("tiny") is cells]
    assert all(nets_64.entry(net)(cells) in told for net in nets_64.told("tiny"))
    assert one_object.judge(cells)[1] == claims.PARTLY
    assert one_object.judge(exchanged("exp1_1", "exp3_1"))[1] == claims.NO
    pairs = looks.numbers("tiny").all.pairs

    def in_place_of_exp1(name):
        seen_as = {name: "exp1, 64 px", "exp1, 64 px": name}
        told = [
            (hand, row._replace(net=seen_as.get(row.net, row.net)))
            for hand, row in pairs
            if not row.net.startswith("exp1_seed")
        ]
        return looks.numbers("tiny")._replace(all=SimpleNamespace(pairs=told))

    assert looks.judge(in_place_of_exp1("render, 64 px"))[1] == claims.YES
    assert looks.judge(in_place_of_exp1("spoiled, 64 px"))[1] == claims.NO


def test_numbers_of_objects_are_judged_at_the_ks_of_the_papers():
    beside, none = tables.ranges("exp2")
    assert (beside.ks, beside.low, beside.high) == ((1,), 0, 2) and (none.low, none.high) == (0, 3)
    assert [of.measure for of in tables.ranges("random_1-3")] == ["count"]  # no parentheses with their 5
    assert tables.ranges("exp3")[0].ks == (1, 2, 3) and tables.ranges("exp1_1")[1].high == 1

    def verdict(of, drawn, at):
        rows = [
            row._replace(count=drawn + row.placed if row.k in at else row.count)
            for name in ("exp2", "exp2_seed1")
            for row in 5 * made(name, 9)
        ]
        return extra_objects.within("exp2", of)(rows)

    for of, at in ((beside, (1,)), (none, (0,))):
        assert verdict(of, of.high, at)[1] == claims.YES and verdict(of, of.high + 1, at)[1] == claims.NO
        assert verdict(of, of.high + 1, (2, 4, 5))[1] == claims.YES  # of other K nothing is said
    said = verdict(none, 9, (3,))[0]  # the null: asked for three it draws twelve
    assert said.startswith("0.00 on average, 0% [0%, 5%] of 160 samples outside (asked for 3: 100%)")
    mixed = 5 * made("exp2", 9) + made("exp2_seed1", 9, extras=3)
    said, of_mixed = extra_objects.within("exp2", beside)(mixed)
    assert of_mixed == claims.NO and said.endswith("at most 5% in 1 of 2 trainings")
    few = extra_objects.within("exp2", beside)(made("exp2", 9))
    assert few == ("0.00 on average, 0% [0%, 21%] of 16 samples outside", claims.UNDECIDED)
    assert extra_objects.within("exp2", none)([row for row in mixed if row.k])[1] == claims.OPEN
    assert extra_objects.within("exp1", beside)(mixed)[1] == claims.OPEN
    lines = [v for v in verdicts.decided("tiny") if "at 64 px, objects" in v.claim]
    assert len(lines) == sum(len(tables.ranges(c.entry)) for c in nets_64.cells("tiny") if c.own)
    assert not any(v.verdict == claims.OPEN for v in lines)  # all stored nets were asked for none


def test_without_rows_a_notebooks_claim_is_untested():
    every = from_notebooks.decided("paper")
    of_nets = from_notebooks.of_nets_and_exact(every)[0]
    assert from_notebooks.decided("paper", exact=False) == of_nets != every  # what the README counts
    found = {v.claim.split(":")[0]: v for v in every}
    assert [name for name, v in found.items() if v.ours == "no numbers yet"] == [
        *AT_64[:4],
        "Fig. 1, Exp. 3 at 32 px",
        *AT_64[4:],
        "Fig. 8 at 64 px",
        *dict.fromkeys(claim.claim.split(":")[0] for claim in muon.CLAIMS),
        "Section 3.1 at 64 px",
        "Swing-by, a small diffusion model",
        "Figs. 2, 10",
        "Section 4, Fig. 2",
        "Fig. 12",
        "Table 1, colors",
        "Section 4, Fig. 5",
        "Figs. 5, 11, eq. (3)",
        "The same for locations, not in the paper",
    ]
    assert found["Lemma 1, Fig. 3"].verdict == claims.YES  # exact theory has no preset


def test_the_page_needs_no_figure_on_disk(tmp_path, monkeypatch):
    shipped = verdicts.place().read_text()
    monkeypatch.setattr(paths, "FIGURES", tmp_path / "none")  # nor do the claims (`decided_once`)
    assert verdicts.page(read_rows(told_path())) == shipped


def test_what_fig_12_draws_is_what_is_judged():
    drawn = json.loads((paths.FIGURES / "tiny" / "fig12.json").read_text())["values"]
    stored = middle.sides()
    assert {net: of.tolist() for net, of in stored.items()} == drawn["sides"]
    assert list(middle.SIGMAS) == drawn["sigmas"]


def test_a_dose_that_changes_nothing_is_not_reproduced():
    claim = "Table 2, 1-3 objects: all labels, more cells filled than with random number of labels"
    assert by_claim(PAPERS)[claim].verdict == claims.YES
    assert by_claim(made("exp1", 9) + made("random_1-3", 9))[claim].verdict == claims.NO
    more = "Fig. 8: trained on up to 6 objects, a net fills more cells than on up to 2"
    assert by_claim(made("exp1_1-6", 5) + made("exp1_1-2", 9))[more].verdict == claims.NO


def test_a_difference_within_the_intervals_is_not_reproduced():
    claim = "Fig. 1: the labels make the difference"

    def some(net, share):
        return [r if r.sample < share * 16 else r._replace(placed=0) for r in made(net, 12)]

    assert by_claim(some("exp1", 0.56) + some("exp2", 0.5))[claim].verdict == claims.NO
    assert by_claim(some("exp1", 1) + some("exp2", 0.5))[claim].verdict == claims.YES


def test_other_radii_stand_on_the_page_and_are_no_verdicts():
    assert "## The radius" not in page_of_papers()
    more = PAPERS + made("exp3_r2", 5)
    page = verdicts.page(more)
    assert "| 2 | 5 [5, 5] | 5 [5, 5] | 5 [5, 5] | 16 |" in page and "| 3 | 9 [9, 9]" in page
    assert verdicts.verdicts(more) == verdicts.verdicts(PAPERS)


def test_commands_make_the_rows_that_decide():
    """As many samples as there are, and the K that were measured: the same command must not replace
    the rows.
    """
    command = {
        v.claim: v.command for v in verdicts.verdicts(made("exp3", 9, n=24, to=10) + made("exp2", 1, n=64))
    }
    assert command["K of a net trained on 1-3, one label, local"].endswith("exp3 --k 0-10 --samples 24")
    assert command["K of a net trained on 1-3, one label"].endswith("exp2 --k 0-12")
    assert command["Fig. 1: a local net, Exp. 3, repairs Exp. 2"].endswith("exp3 exp2 --k 4-6 --samples 24")


def test_commands_train_first_what_is_not_shipped(tmp_path, monkeypatch):
    rows = made("exp1_1-2", 5) + made("exp1", 9)
    monkeypatch.setattr(paths, "CHECKPOINTS", tmp_path)
    shipped = tmp_path / "tiny" / "exp1" / nets.WEIGHTS
    shipped.parent.mkdir(parents=True)
    shipped.touch()
    measure = "python -m lcs_utils.evaluation.length_generalization"
    command = from_rows.command_of(rows, ["exp1", "exp1_1-2"], [4])
    assert command == f"{measure} exp1 exp1_1-2 --k 4-4 --samples 16"

    def train(net, preset):
        return f"python -m lcs_utils.training {net} --preset {preset} && "

    assert verdicts.complete(command) == train("exp1_1-2", "tiny") + command
    assert (
        verdicts.complete(command, "paper")
        == train("exp1", "paper") + train("exp1_1-2", "paper") + command + " --preset paper"
    )
    assert verdicts.complete(f"{measure} exp1/unit --k 1-2") == f"{measure} exp1/unit --k 1-2"
    assert (
        verdicts.complete("python -m lcs_utils.notebooks run 07_locality")
        == "python -m lcs_utils.notebooks run 07_locality"
    )
    assert verdicts.complete("python -m lcs_utils.notebooks run 07_locality", "paper").endswith(
        "run 07_locality -p preset paper"
    )
    assert "exp3 --k 0-10 --samples 24 --preset paper`" in verdicts.page(
        made("exp3", 9, n=24, to=10), "paper"
    )


def test_controls_stand_beside_their_net():
    assert "## Controls" not in page_of_papers()
    text = verdicts.page(PAPERS + made("exp2/unit", 6))
    assert "| exp2/unit | 4–6 | 1.00 [" in text and "against 0.00 [0.00, 0.07]" in text


def test_the_page_is_the_same_for_the_same_rows_and_the_check_can_fail(tmp_path, monkeypatch):
    assert page_of_papers() == verdicts.page(list(reversed(PAPERS)))
    monkeypatch.setattr(paths, "FIGURES", tmp_path)
    monkeypatch.setattr(verdicts, "read_rows", lambda path: made("exp1", 9))
    with pytest.raises(SystemExit):
        verdicts.main(["--check"])
    verdicts.main([])
    verdicts.main(["--check"])
    page = verdicts.place()
    page.write_text(page.read_text().replace("reproduced", "refuted", 1))
    with pytest.raises(SystemExit):
        verdicts.main(["--check"])


def test_a_table_has_both_rules_and_the_papers_number():
    text = tables.markdown(tables.cells(made("exp1", 9), ["exp1", "exp2", "exp3_1"]))
    assert "| 1-3 | all labels | 9 | 9 [9, 9] | 9 [9, 9] | 9 [9, 9] | 16 |" in text
    assert "| 1-3 | one label | 1 + (0–2) | – | – | – | not measured |" in text and "one label, local" in text
    assert tables.say(tables.cells(made("exp1", 12), ["exp1"])[0].ours) == "≥ 12 [12, 12]"
    assert tables.column("exp2/nearest") == "one label; each cell sees the nearest condition only"
    with pytest.raises(ValueError, match="unknown experiment 'exp9'"):
        tables.cells([], ["exp9"])


def test_tables_and_rates_are_drawn():
    figure = table_figures.plot_tables(tables.cells(PAPERS))
    names = [label.get_text() for label in figure.axes[0].get_yticklabels()]
    assert len(names) == len(tables.PAPER) and names[:2] == ["one label, local", "all labels"]
    heads = [text.get_text() for text in figure.axes[0].texts]
    assert heads[0] == "trained on 1 object" and heads[-1] == "trained on 1-6 objects"
    unmeasured = table_figures.plot_tables(tables.cells(made("exp1", 9)))
    said = [text.get_text() for text in unmeasured.axes[0].texts]
    assert said.count("not measured by us") == len(tables.PAPER) - 1
    found = tables.net_rates(PAPERS, ["exp1", "exp2"])
    figure = rate_figures.plot_rates(
        found, ["success", "extras"], {"exp1": "a", "exp2": "b"}, {"exp1": "C0", "exp2": "C1"}
    )
    assert [axes.get_title() for axes in figure.axes] == ["samples that succeed", "objects nobody asked for"]
    colors = {"exp1": PALETTE["orange"], "exp2": PALETTE["vermilion"]}
    for shown in (["exp1", "exp2"], ["exp2", "exp1"], ["exp2"]):  # in any company a net has one marker
        figure = rate_figures.plot_rates({net: found[net] for net in shown}, ["success"], colors, colors)
        lines = dict(zip(shown, figure.axes[0].lines, strict=True))
        assert lines["exp2"].get_marker() == locality_figures.point_style("exp2").marker == "s"
    colors = {"exp1": "C0", "exp2": PALETTE["blue"]}  # of another color: a marker that no other has here
    mine, known = rate_figures.plot_rates(found, ["success"], colors, colors).axes[0].lines
    assert known.get_marker() == "o" != mine.get_marker()
    with pytest.raises(KeyError):
        rate_figures.plot_rates(found, ["beauty"], {"exp1": "a", "exp2": "b"}, {"exp1": "C0", "exp2": "C1"})


def test_seeds_and_normalized_nets_stand_on_the_page():
    text = verdicts.page(made("exp1", 3) + made("exp1_seed1", 5) + made("exp1_normalized", 12))
    assert "| exp1 | 3 [3, 3] |" in text and "| exp1_seed1 | 5 [5, 5] |" in text
    assert "| exp1_normalized | 4–6 | 1.00 [0.93, 1.00] against 0.00 [0.00, 0.07] |" in text
    assert "Training seeds" not in verdicts.page(made("exp1", 9))
    begun = [row for row in made("exp1_seed1", 5) if row.k > 3]  # K cannot be told before K = 1 was measured
    assert "Training seeds" not in verdicts.page(made("exp1", 9) + begun)
    assert "| exp1_seed1 |" in verdicts.page(made("exp1_seed1", 5))  # nor is the other seed needed


def test_filled_beyond_chance_is_judged_above_exp_2s():
    claim = CLAIMS["Fig. 1, Exp. 3 at 32 px"]
    found = claim.numbers("tiny")
    assert claim.judge(found)[1] == claims.UNDECIDED and set(found) == {"exp3", "exp2"}  # they overlap
    told_all = against_null.of_nets(read_rows(rows_path("tiny")), ["exp1"], "test", 1)
    assert claim.judge({"exp3": told_all, "exp2": found["exp2"]})[1] == claims.YES  # one that composes
    assert claim.judge({"exp3": found["exp2"], "exp2": told_all})[1] == claims.NO


def test_a_k_without_its_null_decides_nothing():
    k = against_null.Ks(*(rules.LargestK(5, 4, 6, False), None) * 2)
    found = {"exp1": against_null.Found({}, k)}
    words, verdict = nets_64.composes("exp1", beyond=True)(found)
    assert verdict == nets_64.OPEN and "null –" in words
    held = found["exp1"]._replace(k=k._replace(placed_null=rules.LargestK(0, 0, 1, False)))
    assert nets_64.composes("exp1", beyond=True)({"exp1": held})[1] == nets_64.YES


@pytest.mark.parametrize(
    ("net", "beyond", "own", "null"),
    [
        ("exp1", True, (5, 3, 6), (0, 0, 1)),  # three may be all there is: as many as in training
        ("exp1", True, (6, 5, 7), (2, 0, 5)),  # five may be the null's
        ("exp2", False, (3, 1, 4), (0, 0, 0)),  # four are more than in training
    ],
)
def test_the_whole_interval_of_k_lies_beyond_training_and_null_or_within(net, beyond, own, null):
    k = against_null.Ks(*(rules.LargestK(*of, False) for of in (own, null)), None, None)
    assert nets_64.composes(net, beyond)({net: against_null.Found({}, k)})[1] == claims.NO


def test_a_net_that_draws_nothing_does_not_stay_within_its_training():
    for lowest, verdict in ((0, nets_64.NO), (1, nets_64.YES)):
        k = rules.LargestK(lowest, lowest, 2, False)
        found = against_null.Found({}, against_null.Ks(*(k, rules.LargestK(0, 0, 0, False)) * 2))
        assert nets_64.composes("exp2", beyond=False)({"exp2": found})[1] == verdict


def test_a_blank_picture_holds_no_object_that_nobody_asked_for():
    drawn = 5 * made("exp2", 9)
    blank = [row._replace(count=0, placed=0) for row in drawn]
    for of in tables.ranges("exp2"):
        for rows, verdict in ((drawn, claims.YES), (blank, claims.OPEN)):
            assert extra_objects.within("exp2", of)(rows)[1] == verdict
            assert from_rows.in_range(rows, "exp2", of).verdict == verdict


def test_nearby_conditions_are_heard_more_than_by_a_net_that_hears_all_alike():
    def row(net, image, share):
        return net_locality.LocalityRow(net, "0" * 12, 5, image, 2.0, 9.0, share, share, 1.0)

    for near, verdict in ((0.2, claims.NO), (0.6, claims.YES)):  # chance is .24
        rows = {net: [row(net, i, of) for i in range(3)] for net, of in (("exp1", near), ("exp2", 0.1))}
        assert from_notebooks.hears(rows)[1] == verdict


def located(net, shares, response=(1.0,)):
    """Rows at the lowest noise and at the highest, an image for each share heard from within two cells."""
    return [
        net_locality.LocalityRow(net, "0" * 12, 5, i, sigma, 9.0, of, of, at)
        for i, of in enumerate(shares)
        for sigma, at in (
            (net_locality.SIGMAS[0], response[i % len(response)]),
            (net_locality.SIGMAS[-1], 1.0),
        )
    ]


def test_a_net_within_the_interval_of_the_other_is_not_told_from_it():
    steady, varied = located("exp1", [0.6] * 3), located("exp2", [0.5, 0.6, 0.7])
    assert from_notebooks.hears({"exp1": steady, "exp2": varied})[1] == claims.NO
    assert from_notebooks.hears({"exp1": located("exp1", [0.71] * 3), "exp2": varied})[1] == claims.YES


def test_what_may_be_more_than_a_tenth_is_not_hardly_anything():
    """Two images of three let go, one does not: .08 on average, up to .24."""
    some = located("exp1", [0.6] * 3, (0.0, 0.0, 0.24))
    assert from_notebooks._fades({"exp1": some})[1] == claims.NO
    assert from_notebooks._fades({"exp1": located("exp1", [0.6] * 3, (0.08,))})[1] == claims.YES


def test_more_colors_than_in_training_are_drawn_if_the_whole_interval_says_so():
    null = rules.LargestK(0, 0, 0, False)
    for low, verdict in ((3, claims.NO), (4, claims.YES)):
        found = color_rates.ColorFound({}, rules.LargestK(5, low, 6, False), null, 3)
        assert colors._colors_beyond({"color_1-3, 64 px": found})[1] == verdict
    for null, verdict in ((rules.LargestK(5, 5, 5, False), claims.NO), (None, claims.OPEN)):
        found = color_rates.ColorFound({}, rules.LargestK(5, 4, 6, False), null, 3)
        assert colors._colors_beyond({"color_1-3, 64 px": found})[1] == verdict


def test_both_nets_of_two_layers_must_swing_and_that_of_one_must_not():
    for rises, verdict in (
        ((0, 0.5, 0.5), claims.YES),
        ((0, 0.5, 0.01), claims.NO),
        ((1, 0.5, 0.5), claims.NO),
    ):
        found = SimpleNamespace(rises=dict(zip((theory.ONE, theory.TWO, theory.TWO_SQUARED), rises)))
        assert theory._swings(found)[1] == verdict


def test_numbers_of_text_to_image_are_apart_where_their_intervals_are():
    """Just above by value, within by interval: neither near, nor alike, nor additive."""
    rows = truth.read()

    def changed(measure, values):
        """With the value of each (net, control), in an interval .05 to either side."""
        made = []
        for r in rows:
            value = values.get((r.net, r.control)) if r.measure == measure else None
            how = {} if value is None else {"value": value, "low": value - 0.05, "high": value + 0.05}
            made.append(r._replace(**how))
        return made

    t1, first, bare = ("t1", ""), ("t1", truth.FIRST), ("untrained", "")
    for measure, judge, own, enough, null in (
        ("side", text_to_image._near, 7.98, 7.9, {bare: 12.0}),  # up to 8.03 of 16
        ("side", text_to_image._near, 4.0, 3.9, {bare: 4.08}),
        ("additivity", text_to_image._added, 0.9, 1.0, {bare: 0.87}),
        ("kinds", text_to_image._blocks, 0.5, 0.6, {first: 0.47, bare: 0.0}),
        ("kinds", text_to_image._blocks, 0.5, 0.6, {first: 0.0, bare: 0.47}),
    ):
        for value, verdict in ((own, claims.NO), (enough, claims.YES)):
            assert judge(changed(measure, {t1: value, **null}))[1] == verdict


def test_images_look_better_than_spoiled_ones_where_their_intervals_say_so():
    """Of 20 each: 14 are .7 [.5, .9], and 8 spoiled ones .4 [.2, .6]."""
    for right, spoiled, verdict in ((18, 8, claims.YES), (14, 8, claims.NO), (17, 3, claims.PARTLY)):
        each = {"exp1, 64 px": right, "spoiled, 64 px": spoiled}

        def looks(name, most, each=each):
            return [i < each.get(name, 20) for i in range(20)]

        assert nets_64.acceptable(SimpleNamespace(looks=looks))[1] == verdict


def test_a_k_that_may_be_that_of_training_does_not_exceed_it():
    """At four, five of 16 samples are right: more than a quarter, but barely."""
    rows = [
        row._replace(placed=4, count=4) if row.k == 4 and row.sample < 5 else row for row in made("exp1", 3)
    ]
    found = by_claim(rows)["Fig. 1: Exp. 1 (all labels) length-generalizes"]
    assert found.verdict == claims.NO and "K = 4 [3, 4] by its rule" in found.ours
