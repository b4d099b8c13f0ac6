"""Success, cells filled, K and conditions obeyed, each next to the value of a net that ignores its conditions
(App. E.2).

The null uses the net's own images: those sampled for other conditions, judged at these
(`placement.permuted`). Where conditions differ between samples, these are the images of the other samples;
for the paper's list they are the same net's samples of family `spread`. Intervals resample training seeds,
then conditions, then samples, the same for all seeds. A few training seeds do not show how much trainings
vary in general.

    found = along_k(rows, {"Exp. 1": ["exp1"]}, "spread")
    print(null_figures.markdown(found))
"""

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from lcs_utils.checks import check_list
from lcs_utils.evaluation.judged import KS, judge, obeyed, over_pairs, over_pictures
from lcs_utils.evaluation.placement import TOLERANCES
from lcs_utils.evaluation.rates import of_pictures
from lcs_utils.evaluation.rows import PLAUSIBLE, Row, of_net
from lcs_utils.evaluation.rules import PAPER_RULE_ALL, PLACES_RULE, LargestK
from lcs_utils.nets import trained
from lcs_utils.stats import LEVEL, Interval, bounded, over_trainings, weights

RULES = {"placed": PLACES_RULE, "paper": PAPER_RULE_ALL}
WORDS = {1: "within one cell", 0: "exact cell"}


class Beside(NamedTuple):
    """A rate (`own`), its null, their difference (`above`), and the rate at cells that were never asked for
    (`elsewhere`).
    """

    own: Interval
    null: Interval | None
    above: Interval | None
    elsewhere: Interval | None


class At(NamedTuple):
    """One net at one K, family and tolerance. `placed`: number and places are right by the paper's rule;
    `paper`: looks too; `looks`: share of images that look right, whatever they show; `filled`: share of asked
    cells.

    `others`: filled share of the test locations that were not asked for. `obeyed`: conditions obeyed. None:
    not measurable.
    """

    placed: Beside
    paper: Beside
    filled: Beside
    looks: Interval
    others: Interval | None
    obeyed: Interval | None
    drawn: Interval
    samples: int


class Ks(NamedTuple):
    """K by number and places, and by the paper's whole rule, each next to the K of its null (None where there
    is none).
    """

    placed: LargestK
    placed_null: LargestK | None
    paper: LargestK
    paper_null: LargestK | None


class Found(NamedTuple):
    """One net at one tolerance: {K: At}, and its K."""

    at: dict[int, At]
    k: Ks


def _by_rule(rows: Sequence[Row], net: str) -> dict[str, Float[np.ndarray, "rows"]]:
    exp = trained(net, rows[0].preset)
    read = [(row.k, row.count, row.placed, row.plausibility >= PLAUSIBLE) for row in rows]
    alike = dict(zip(read, rows, strict=True))  # a rule reads nothing else
    found = {}
    for name, rule in RULES.items():
        succeeds = {what: float(rule.succeeds(row, exp)) for what, row in alike.items()}
        found[name] = np.array([succeeds[what] for what in read])
    return found


def _values(rows: Sequence[Row], net: str) -> dict[str, Float[np.ndarray, "rows"]]:
    found = of_pictures(list(rows))
    return _by_rule(rows, net) | {
        "filled": found["filled"],
        "looks": found["plausible"],
        "drawn": found["count"],
    }


def draws(
    rows: Sequence[Row],
    net: str,
    k: int,
    family: str,
    tolerance: int,
    seed: int = 0,
    rules_only: bool = False,
) -> dict[str, dict[str, np.ndarray]]:
    """Bootstrap draws of one training, the value first: {measure: {"own", "null", "elsewhere": draws}}; null
    and elsewhere only where there are such images. With `rules_only`, the measures of RULES and their null.
    """
    judged = judge(rows, net, k, family, tolerance, rules_only)
    values_of = _by_rule if rules_only else _values
    drawn = weights([row.asked for row in judged.own], seed + k)
    otherwise = drawn
    if judged.pictures and not judged.paired:
        otherwise = weights([row.asked for row in judged.pictures], seed + k + 1000)
    found: dict[str, dict[str, np.ndarray]] = {
        name: {} for name in ("placed", "paper", "filled", "looks", "drawn", "others", "obeyed")
    }
    for kind, of, how in (
        ("own", judged.own, drawn),
        ("null", judged.null, otherwise),
        ("elsewhere", judged.elsewhere, drawn),
    ):
        # incomplete if some image has no condition that differs
        complete = len({row.sample for row in of}) == how.shape[1]
        if of and complete:
            mean = over_pairs(of, judged.own, drawn, how) if kind == "null" else over_pictures(of, how)
            for name, values in values_of(of, net).items():
                found[name][kind] = mean(values)
    if rules_only:
        return {name: found[name] for name in RULES}
    if judged.others:
        found["others"]["own"] = over_pictures(judged.others, drawn)(_values(judged.others, net)["filled"])
    heard = obeyed(judged, tolerance, drawn, seed + k + 2000)
    found["obeyed"] |= {} if heard is None else {"own": heard}
    found["samples"] = {"own": np.array([len(judged.own)])}
    return found


def _interval(
    of: Sequence[dict[str, np.ndarray]], kind: str, samples: int, most: float | None, seed: int
) -> Interval | None:
    if not all(kind in each for each in of):
        return None
    found = over_trainings([each[kind] for each in of], seed)
    return bounded(float(found[0]), found[1:], samples, most)


def beside(of: Sequence[dict[str, np.ndarray]], samples: int, seed: int) -> Beside:
    """A rate next to its null.

    Choice: where all samples agree (rate 0 or 1), resampling shows no spread; the interval of the difference
    then also covers the exact binomial bound of the rate.
    """
    for each in of:
        if "null" in each:
            each["above"] = each["own"] - each["null"]
    null, elsewhere = (_interval(of, kind, samples, 1.0, seed) for kind in ("null", "elsewhere"))
    own, above = _interval(of, "own", samples, 1.0, seed), _interval(of, "above", samples, None, seed)
    assert own is not None  # every net has samples of its own
    if above and null and own.value in (0, 1):
        low, high = (round(bound - null.value, 4) for bound in (own.low, own.high))
        above = above._replace(low=min(above.low, low), high=max(above.high, high))
    return Beside(own, null, above, elsewhere)


def largest_k_of(found: dict[int, list[dict]], name: str, kind: str, seed: int) -> LargestK | None:
    """The largest K such that every k = 1..K succeeds, with an interval over the same draws of trainings at
    every k; None without k = 1.
    """
    ks = [k for k in sorted(found) if all(kind in each[name] for each in found[k])]
    if not ks or ks[0] != 1:
        return None
    ks = [k for i, k in enumerate(ks, 1) if k == i]  # up to the first gap
    shares = np.stack([over_trainings([each[name][kind] for each in found[k]], seed) for k in ks])
    passed = np.cumprod(shares > RULES[name].threshold, axis=0).sum(0)
    low, high = np.quantile(passed[1:], [(1 - LEVEL) / 2, (1 + LEVEL) / 2], method="inverted_cdf")
    return LargestK(int(passed[0]), int(low), int(high), bool(passed[0] == len(ks)))


def of_nets(
    rows: Sequence[Row],
    nets: Sequence[str],
    family: str = "spread",
    tolerance: int = 1,
    ks: Iterable[int] = KS,
    seed: int = 0,
) -> Found:
    """Results at every K at which all of `nets` were measured: one net, or several that differ only in their
    training seed.

    Raises ValueError without rows, or for rows that do not say where objects are.
    """
    found = _draws_of_all(rows, nets, family, tolerance, ks, seed)
    at = {}
    for k, each in found.items():
        numbers = [int(of["samples"]["own"][0]) for of in each]
        samples = min(numbers)  # trainings share noise and conditions: more of them give no tighter bound

        def of(name, each=each):
            return [one[name] for one in each]

        looks, drawn = (
            _interval(of("looks"), "own", samples, 1.0, seed),
            _interval(of("drawn"), "own", samples, None, seed),
        )
        assert looks is not None and drawn is not None
        at[k] = At(
            placed=beside(of("placed"), samples, seed),
            paper=beside(of("paper"), samples, seed),
            filled=beside(of("filled"), samples, seed),
            looks=looks,
            others=_interval(of("others"), "own", samples, 1.0, seed),
            obeyed=_interval(of("obeyed"), "own", samples, None, seed),
            drawn=drawn,
            samples=sum(numbers),
        )
    return Found(at, _ks(found, seed))


def ks_of_nets(
    rows: Sequence[Row],
    nets: Sequence[str],
    family: str = "spread",
    tolerance: int = 1,
    ks: Iterable[int] = KS,
    seed: int = 0,
) -> Ks:
    """What `of_nets` finds as K, in a third of the time. Raises ValueError as `of_nets`."""
    return _ks(_draws_of_all(rows, nets, family, tolerance, ks, seed, rules_only=True), seed)


def _draws_of_all(
    rows: Sequence[Row],
    nets: Sequence[str],
    family: str,
    tolerance: int,
    ks: Iterable[int],
    seed: int,
    rules_only: bool = False,
) -> dict[int, list[dict[str, dict[str, np.ndarray]]]]:
    nets = check_list("nets", nets, 1)
    rows = [row for row in rows if row.net in nets]
    there = [{row.k for row in of_net(rows, net, family)} for net in nets]
    common = [k for k in ks if k > 0 and all(k in measured for measured in there)]
    if not common:
        raise ValueError(f"no rows of family {family} at one K for all of {', '.join(nets)}")
    return {  # the same draws of conditions for all nets
        k: [draws(rows, net, k, family, tolerance, seed, rules_only) for net in nets] for k in common
    }


def _ks(found: dict[int, list[dict]], seed: int) -> Ks:
    largest = [largest_k_of(found, name, kind, seed) for name in RULES for kind in ("own", "null")]
    return Ks(*largest)  # type: ignore[arg-type]  # None where there are no rows


def steps(
    rows: Sequence[Row],
    groups: Sequence[Sequence[str]],
    k: int,
    family: str = "spread",
    tolerance: int = 1,
    seed: int = 0,
) -> list[Interval]:
    """How much more of its cells, above its null, each of `groups` (trainings) fills than the next group, in
    the same draws: all share conditions and initial noise. Raises ValueError as `of_nets`.
    """

    def above(net):
        filled = draws(rows, net, k, family, tolerance, seed)["filled"]
        if "null" not in filled:
            raise ValueError(f"{net} has no null at K = {k}, family {family}")
        return filled["own"] - filled["null"]

    each = [over_trainings([above(net) for net in group], seed) for group in groups]
    return [bounded(float(of[0]), of[1:], 1) for of in (a - b for a, b in pairwise(each))]  # no share


def perfect(rows: Sequence[Row], k: int, net: str = "exp1") -> float:
    """Cells filled above the null by a net that draws just what `net` was asked for at `k` random cells: not
    one, since others' cells are filled by chance. Raises ValueError as `of_nets`.
    """
    right = [row._replace(centers=row.asked, count=k) for row in rows if row.net == net and row.k == k]
    above = of_nets(right, [net], "spread", ks=[k]).at[k].filled.above
    assert above is not None  # random cells differ between samples
    return above.value


def along_k(
    rows: Sequence[Row],
    nets: Mapping[str, Sequence[str]],
    family: str = "spread",
    ks: Iterable[int] = KS,
    seed: int = 0,
) -> dict[str, dict[int, Found]]:
    """{label: {tolerance: Found}} of the measured nets among `nets` {label: trainings}. Raises ValueError as
    `of_nets`.
    """
    ks, measured = list(ks), {row.net for row in rows if row.family == family and row.k > 0}
    there = {label: [net for net in group if net in measured] for label, group in nets.items()}
    return {
        label: {tolerance: of_nets(rows, group, family, tolerance, ks, seed) for tolerance in TOLERANCES}
        for label, group in there.items()
        if group
    }
