"""What of the paper holds here, fails or stays open, and what is new: the README's lines, measured."""

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from lcs_utils.claims import NO, PARTLY, YES, lies_above
from lcs_utils.claims.from_notebooks import (
    hears,
    located,
    looks,
    nearby,
    widest,
)
from lcs_utils.claims.nets_64 import DOSES, RIGHT, Falling, composes, falling, falls
from lcs_utils.evaluation import against_null, tables_beyond_chance
from lcs_utils.evaluation.colors import color_generalization, color_rates
from lcs_utils.evaluation.eye import by_eye, hand_counts
from lcs_utils.evaluation.features import feature_matrices, feature_report, net_features
from lcs_utils.evaluation.locality import net_locality
from lcs_utils.evaluation.locality.locality_above_null import above_null, ranked
from lcs_utils.evaluation.locality.locality_rates import chance_locality
from lcs_utils.evaluation.rows import Row, read_rows, rows_path, seeds_of
from lcs_utils.evaluation.studies import flow_and_sde
from lcs_utils.evaluation.studies.more_objects import by_rule_of_three
from lcs_utils.evaluation.studies.more_training import along_training, without_extras
from lcs_utils.evaluation.tables import BEYOND, COLOR_PAPER, PAPER, near, say
from lcs_utils.presets import PRESETS
from lcs_utils.stats import say_interval

SIX, NINE = 6, 9  # locations at which rates are reported: two and three times the training maximum


class Finding(NamedTuple):
    """One line of the README: whether it holds, its words with the number, the notebook that shows it."""

    kind: str
    words: str
    notebook: str


def _filled(rows: Sequence[Row], net: str) -> str:
    """Cells filled at SIX random locations with the null: `0.81 (0.30)`."""
    of = against_null.of_nets(rows, [net], "spread", ks=[SIX]).at[SIX].filled
    return f"{of.own.value:.2f} ({of.null.value:.2f})"


def _apart(doses: Falling) -> str:
    """Which intervals of neighbors overlap, and whether all differ in the same draws."""
    ordinals = ("first", "second", "third", "fourth")
    pairs = enumerate(pairwise(doses.above.values()))
    close = [f"the {ordinals[i]} and {ordinals[i + 1]}" for i, pair in pairs if lies_above(*pair) is None]
    surely = bool(doses.steps) and all(step.low > 0 for step in doses.steps)
    differ = " (in the same draws they differ)" * surely
    return f"{', '.join(close)} overlap{differ}" if close else "none overlap"


def _labels(large: Sequence[Row]) -> Finding:
    """Whether nets told fewer of an image's locations fill fewer cells above their null (Table 2)."""
    doses = falling(DOSES, large)
    assert doses is not None  # all are shipped
    above = [f"{of.value:.2f}" for of in doses.above.values()]
    return Finding(
        {YES: "holds", PARTLY: "partly"}.get(falls(doses)[1], "does not"),
        f"By labels (all, random number, one dropped, one) the share of {SIX} cells filled above the "
        f"null (at most {against_null.perfect(large, SIX):.2f}) falls: "
        f"{', '.join(above)}; {_apart(doses)}.",
        "05",
    )


def _along_muon() -> str:
    """Locality and cells filled above the null of Muon's Exp. 1, from `medium`'s images on."""
    rows, heard = read_rows(rows_path("medium")), net_locality.read("medium")
    every = along_training(rows, "exp1", "medium", heard=heard)
    least = PRESETS["medium"].images
    stages = {images: of for images, of in every.items() if images >= least and of.local}
    local = ", ".join(f"{of.local.value:.2f}" for of in stages.values())
    filled = ", ".join(f"{of.at[SIX].filled.above.value:.2f}" for of in stages.values())
    return f"Muon, {min(stages) // 1000}-{max(stages) // 1000} k images: locality {local}, filled {filled}"


def _k_over_none(rows: Sequence[Row], net: str) -> str:
    """K at random cells, of a net whose null's is 0."""
    k = against_null.ks_of_nets(rows, seeds_of(rows, net, "spread"))
    assert k.placed_null is not None and k.placed_null.value == 0
    return say(k.placed)


def _six_objects(large: Sequence[Row]) -> Finding:
    """Whether six objects in training compose farther than three, at 64 px."""
    paper, nets = PAPER["exp1_1-6"].k, ("exp1_1-6", "exp1")
    random = [against_null.of_nets(large, seeds_of(large, net, "spread"), ks=[NINE]) for net in nets]
    six, three = (found.at[NINE].filled.above for found in random)
    listed = [
        against_null.ks_of_nets(
            large, seeds_of(large, net), "test", ks=range(1, tables_beyond_chance.MOST + 1)
        )
        for net in nets
    ]
    held = [six.low > three.high, near(listed[0].placed, listed[0].placed_null, paper)]
    alike, perfect = by_rule_of_three(large), against_null.perfect(large, NINE)
    return Finding(
        "holds" if all(held) else "partly" if any(held) else "does not",
        f"Nets of up to six objects fill {six.value:.2f} of {NINE} random cells above the null (at most "
        f"{perfect:.2f}), of three {three.value:.2f}; at the paper's cells their K is "
        f"{listed[0].placed.value} (by the rule for three {say(alike)}; paper {paper}), of three "
        f"{listed[1].placed.value}.",
        "05 A2",
    )


def _locality(preset: str) -> Finding:
    """What of Figs. 2 and 10 holds at 64 px: nearby conditions, nearby pixels."""
    rows = located(preset)
    assert rows is not None  # all are shipped
    spans = [f"{min(of):.2f}-{max(of):.2f}" for each in nearby(rows) if (of := [one.value for one in each])]
    by_energy, by_values = map(max, widest(rows))
    kinds = {hears(rows)[1], looks(rows)[1]}
    return Finding(
        "holds" if kinds == {YES} else "does not" if kinds == {NO} else "partly",
        f"At high noise {spans[0]} of what Exp. 1 hears is within two cells, {spans[1]} of what Exp. 2 hears "
        f"(chance {chance_locality(None):.2f}). 90% of what a pixel looks at is within {by_energy:.0f} of "
        f"{PRESETS['small'].resolution} px by squares, {by_values:.0f} by absolute values.",
        "07",
    )


def findings(large: Sequence[Row], preset: str = "tiny") -> list[Finding]:
    """The findings: claims of the paper that hold here, fail or stay open, and new ones.

    `large` are rows of 64 px nets; results on color labels are read from their own rows. Each finding has one
    number, with its null or its target.
    """
    nets = {"exp1": "exp1", "exp2": "exp2", "exp3": "exp3_r2"}  # at 64 px a local net of two cells
    at = {net: against_null.of_nets(large, seeds_of(large, net, "spread"), "spread") for net in nets.values()}
    held = {
        name: "holds" if composes(net, beyond=name != "exp2")(at)[1] == YES else "does not"
        for name, net in nets.items()
    }
    hands, looked_at = hand_counts.read_counts(), by_eye.rows()
    k = {}
    for name, net in nets.items():
        counted = at[net].k.placed
        looks = [by_eye.largest_of(hands, looked_at, f"{one}, 64 px").eye for one in seeds_of(large, net)]
        eyes = [eye for eye in looks if eye]
        by = ""
        if eyes:  # the least and the most of its trainings, and what covers all their intervals
            least, most = min(eye.value for eye in eyes), max(eye.value for eye in eyes)
            covers = f"[{min(eye.low for eye in eyes)}, {max(eye.high for eye in eyes)}]"
            by = f"{least if least == most else f'{least}-{most}'} {covers} by eye, "
        right = at[net].at[SIX].placed
        beside = f"{right.own.value:.2f} of the samples are right (null {right.null.value:.2f})"
        k[name] = f"K is {by}{say(counted).partition(' [')[0]} at random cells; at {SIX} cells {beside}"
    wider = against_null.ks_of_nets(large, seeds_of(large, "exp3", "spread")).placed
    by_rule_1 = without_extras(large, nets["exp3"])
    strict = against_null.of_nets(by_rule_1, seeds_of(by_rule_1, "exp1", "spread"), "spread")
    looked = by_eye.compare(hands).looks

    def passed(name: str, family: str = "spread") -> tuple[int, int, list[tuple[int, int]]]:
        """Pictures of up to three that look right to MUON_123's judges, of how many; others, least first."""
        judges = by_eye.EYE if name in by_eye.JUDGED[by_eye.MUON_123] else by_eye.MUON_123
        groups = by_eye.passed(hands, name, family, 3)
        right, number = groups.pop(judges)
        return right, number, sorted(groups.values(), key=lambda of: of[0] / of[1])

    sde = "exp1/stochastic, 64 px"
    (adams, number, others), (muons, _, other), (clean, of_clean, strict_first) = (
        passed(sde),
        passed(f"{sde} by Muon"),
        passed("render, 64 px", "test"),
    )
    looked_right = (
        f"{adams} of {number} (other judges: {', '.join(str(of[0]) for of in others)}), Muon's {muons} "
        f"({', '.join(str(of[0]) for of in other)}), renders {clean} of {of_clean} "
        f"({strict_first[0][0]} of {strict_first[0][1]})"
    )

    def by_looking(name: str) -> str:
        return f"{sum(looked(name, 3))} of {len(looked(name, 3))}"

    by_muon = read_rows(rows_path("medium"))
    cells = [
        against_null.of_nets(rows, seeds_of(rows, net, family), family, ks=range(1, most + 1)).k.placed.value
        for rows, net, family, most in (
            (by_muon, "exp1", "spread", NINE),
            (by_muon, "exp1/stochastic", "spread", NINE),
            (by_muon, "exp1", "test", tables_beyond_chance.MOST),
            (large, "exp1", "test", tables_beyond_chance.MOST),
        )
    ]
    strictly_by_sde = [
        _k_over_none(without_extras(rows, "exp3_r2/stochastic"), "exp1") for rows in (large, by_muon)
    ]
    ways = {
        way: flow_and_sde.extras(of) for (net, way), of in flow_and_sde.compare(large, ["exp3_r2"]).items()
    }
    of_14, of_80, by_sde = (
        flow_and_sde.extras(of)
        for of in flow_and_sde.compare(by_muon, ["exp3_r2"], ways=flow_and_sde.SAME_STEPS).values()
    )
    told, same = (
        color_rates.of_net(color_generalization.read("small"), "color_1-3", family)
        for family in ("subsets", "repeated")
    )
    finest = feature_report.finest(feature_matrices.read("small"), "exp1")
    features = net_features.read("small"), "color_1-3", "untrained_color"
    space = feature_report.cosines_by_part(*features, space=finest)[-1]
    small = read_rows(rows_path(preset))
    filled = {net: _filled(small, net) for net in ("exp2/nearest", "exp2/swapped", "exp2")}
    near, other, plain = (shown.replace("(", "(null ") for shown in filled.values())
    ranks = ranked(above_null(large))
    few = ranks[f"never shown {BEYOND} objects"]
    return [
        Finding(
            held["exp1"],
            f"Exp. 1 (all labels) composes: {k['exp1']}. By Muon K is {cells[0]} "
            f"(SDE: {cells[1]}), at the paper's closer cells {cells[2]} (Adam: {cells[3]}).",
            "05 A7",
        ),
        Finding(held["exp2"], f"Exp. 2 (one label) does not compose: {k['exp2']}.", "05 A7"),
        _labels(large),
        Finding(
            held["exp3"],
            f"Exp. 3 (one label, a net that sees r = 2 cells around each) composes: {k['exp3']}.",
            "06 A7",
        ),
        Finding(
            "does not" if wider.low <= 3 else "holds" if wider.value >= PAPER["exp3"].k - 1 else "partly",
            f"Exp. 3 with r = 3, our first choice: K is {say(wider)} at random "
            f"cells; the paper's K is {PAPER['exp3'].k}.",
            "05 A1",
        ),
        _locality(preset),
        Finding(
            "holds" if told.k_null and told.k.low > max(3, told.k_null.high) else "does not",
            f"Colors as labels, 1-3 objects: K is {say(told.k)} (paper: {COLOR_PAPER['color_1-3']}), all of "
            f"one color {say(same.k)}; mean |cosine| of their directions in the encoder's finest layers "
            f"{space.net.value:.2f} (untrained {space.untrained.value:.2f}, orthogonal 0).",
            "08 08b",
        ),
        Finding(
            "holds" if sum(right := looked("exp1, 64 px", 3)) >= RIGHT * len(right) > 0 else "does not",
            f"Image quality, K = 1-3: the eye passes {by_looking('exp1, 64 px')} of Exp. 1, "
            f"{by_looking(sde)} by SDE, {by_looking('render, 64 px')} renders. At random cells, by SDE, "
            f"{looked_right}.",
            "A7",
        ),
        _six_objects(large),
        Finding(
            "new",
            f"The more local of {ranks['all'].nets} nets fill more of {BEYOND} random cells above the null: "
            f"Spearman {say_interval(ranks['all'])} (not shown {BEYOND}: {few.value:.2f}). "
            f"{_along_muon()}.",
            "07 A7",
        ),
        Finding(
            "new",
            f"Up to three random cells Exp. 3 (r = 2) draws {ways['flow']:.2f} objects nobody asked for by "
            f"the flow (ODE), {ways['SDE']:.2f} by an SDE with a net for low noise; by Muon {of_14:.2f} and "
            f"{by_sde:.2f} (flow in as many steps: {of_80:.2f}). K by Exp. 1's rule, which allows none: "
            f"flow {say(strict.k.placed)}, SDE {'; by Muon, SDE: '.join(strictly_by_sde)}, Exp. 2 "
            f"{_k_over_none(without_extras(by_muon, 'exp2/stochastic'), 'exp1')}; nulls 0.",
            "A7",
        ),
        Finding(
            "new",
            f"Exp. 2's own net (32 px), given only the nearest label at each cell when sampling, fills "
            f"{near} of {SIX} random cells; given another single label there {other}, unchanged {plain}.",
            "06",
        ),
    ]
