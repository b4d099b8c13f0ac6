"""What rows, placement, rates and families of conditions accept and refuse, as a table (see contract.py)."""

import numpy as np
from contract import COUNT, FLAG, INF, NAME, NAN, SEEDS, cases, missing
from hypothesis import strategies as st

from lcs_utils import nets, stats
from lcs_utils.evaluation import families, placement, rates, rows, rules
from lcs_utils.evaluation.rows import Row, by_k
from lcs_utils.experiments import EXP1, EXPERIMENTS

WORDS = st.lists(st.integers(0, 999), max_size=8).map(lambda v: " ".join(map(str, v[: len(v) // 2 * 2])))


def row(sample, asked, centers, k=None):
    """A row of exp1 that says where objects were asked for and found."""
    k, count = len(asked.split()) // 2 if k is None else k, len(centers.split()) // 2
    return Row(
        "exp1", "0" * 12, "c" * 12, 0, "heun", 2, k, sample, count, 0, 1.0, asked=asked, centers=centers
    )


def plain(k, sample, count, placed, plausibility):
    return Row(
        "exp1", "0" * 12, "c" * 12, 0, "heun", 2, k, sample, count, min(placed, count, k), plausibility
    )


any_row = st.builds(row, st.integers(0, 99), WORDS, WORDS)
some_rows = st.lists(any_row, max_size=3)
few_cells = st.lists(
    st.builds(row, SEEDS, st.sampled_from(["650 650", "250 450 650 250"]), WORDS), max_size=3
)
counted = st.lists(
    st.builds(plain, st.just(1), st.integers(0, 9), st.integers(0, 4), st.integers(0, 4), st.floats(0, 1)),
    min_size=1,
    max_size=5,
)
ROW = row(0, "650 650", "640 660")
NO_ROW = [None, "row", 3, tuple(ROW)]
NO_ROWS = ["rows", None, 3, [None], [3], ["row"], [tuple(ROW)]]
UNSAID = [[ROW._replace(asked="")], [ROW._replace(count=2)]]
TEXT = [None, 3, ["650 650"], b"650 650"]
POINTS = [
    "650 650",
    None,
    3.0,
    [0.5, 0.5, 0.5],
    [[0.5]],
    [[NAN, 0.5]],
    [[INF, 0.5]],
    [["x", 0.5]],
    [[0.5, 1j]],
]
OUTSIDE = [[[0.5, 1.1]], [[-0.1, 0.5]], [[12, 40]]]
POINTS_ONLY = [[[0.5, 0.5], [0.5]], {0: 0.5}]
WRITTEN = ["650", "1000 0", "-1 5", "a b", "0.5 0.5", "nan nan"]
points = st.lists(st.tuples(st.floats(0, 0.999), st.floats(0, 0.999)), max_size=4)
NO_EXPERIMENT = [None, "exp1", 3]
NO_NET = ["", None, 3, "nobody", ["exp1"]]
VALUES = [[], ["a"], None, "values", 3.0]
values = st.lists(st.floats(0, 1), min_size=1, max_size=6).map(np.array)
cells = st.lists(st.tuples(st.integers(0, 15), st.integers(0, 15)), max_size=3).map(
    lambda v: np.array(v, int).reshape(-1, 2)
)
NEVER = ["00", [[0, 0]], np.zeros((2, 2)), np.zeros(2, int), np.zeros((2, 3), int)]
net = (st.just("exp1"), NO_NET)
seeds = (st.integers(0, 3), COUNT)  # few: every one resamples anew
tolerances = (st.integers(0, 3), COUNT)
times = (st.integers(0, 3), COUNT)
generators = st.builds(np.random.default_rng, SEEDS)


def size(found):
    """How many rows, and what they count."""
    return [len(found), *(r.placed for r in found)]


TABLE = {
    "check_rows": (lambda rows_: len(rows.check_rows(rows_)), {"rows_": (some_rows, NO_ROWS)}),
    "check_inside": (
        lambda points: rows.check_inside("points", points) or 0.0,
        {"points": (points, [*OUTSIDE, *POINTS_ONLY, None, [[NAN, 0.5]], "650"])},
    ),
    "encode": (
        lambda points: len(rows.encode(points)),
        {"points": (points, [*POINTS, *POINTS_ONLY, *OUTSIDE])},
    ),
    "decode": (lambda text: [rows.decode(text), 0.0], {"text": (WORDS, [*TEXT, *WRITTEN])}),
    "of_net": (
        lambda rows_, **k: len(rows.of_net(rows_, **k)),
        {
            "rows_": (counted, [None, 3]),
            "net": (st.just("exp1"), ["", None, 3]),
            "family": (st.just("test"), ["", None, 3]),
        },
    ),
    "assigned": (
        lambda **k: [placement.assigned(**k), 0.0],
        {
            "asked": (points, [*POINTS, *POINTS_ONLY, [0.5, 0.5]]),
            "centers": (points.map(lambda v: np.array(v).reshape(-1, 2)), [*POINTS, *POINTS_ONLY]),
            "tolerance": tolerances,
        },
    ),
    "judged": (
        lambda **k: placement.judged(**k).placed,
        {"row": (any_row, NO_ROW), "asked": (WORDS, [*TEXT, *WRITTEN]), "tolerance": tolerances},
    ),
    "check": (
        lambda rows: placement.check(rows) or 0.0,
        {"rows": (some_rows, [*NO_ROWS, *UNSAID])},
    ),
    "own": (
        lambda **k: size(placement.own(**k)),
        {"rows": (some_rows, [*NO_ROWS, *UNSAID]), "tolerance": tolerances},
    ),
    "differ": (
        lambda a, b: placement.differ(a, b),
        {"a": (WORDS, [*TEXT, *WRITTEN]), "b": (WORDS, [*TEXT, *WRITTEN])},
    ),
    "other_conditions": (
        lambda **k: size(placement.other_conditions(**k)),
        {
            "rows": (some_rows, [*NO_ROWS, *UNSAID]),
            "pictures": (some_rows, [*NO_ROWS, *UNSAID]),
            "times": times,
        },
    ),
    "permuted": (
        lambda **k: size(placement.permuted(**k)),
        {
            "rows": (some_rows, [*NO_ROWS, *UNSAID]),
            "pictures": (some_rows, [*NO_ROWS, *UNSAID]),
            "tolerance": tolerances,
            "times": times,
        },
    ),
    "elsewhere": (
        lambda **k: size(placement.elsewhere(**k)),
        {"rows": (few_cells, [*NO_ROWS, *UNSAID]), "tolerance": tolerances, "times": times},
    ),
    "placement.check": (
        lambda rows: placement.check(rows) or 0.0,
        {"rows": (few_cells, [*NO_ROWS, *UNSAID])},
    ),
    "others_of_the_list": (
        lambda **k: size(placement.others_of_the_list(**k)),
        {"rows": (few_cells, [*NO_ROWS, *UNSAID]), "tolerance": tolerances},
    ),
    "near": (
        lambda **k: placement.near(**k),
        {"row": (any_row, NO_ROW), "asked": (WORDS, [*TEXT, *WRITTEN]), "tolerance": tolerances},
    ),
    "overlap": (
        lambda **k: placement.overlap(**k),
        {"a": (WORDS, [*TEXT, *WRITTEN]), "b": (WORDS, [*TEXT, *WRITTEN]), "tolerance": tolerances},
    ),
    "trained": (
        lambda net: nets.trained(net).times,
        {"net": (st.sampled_from(["exp1", "exp2/unit", "exp2_seed1", *EXPERIMENTS]), NO_NET)},
    ),
    "needed": (
        rules.needed,
        {"k": (st.integers(0, 12), COUNT), "trained_maximum": (st.integers(0, 6), COUNT)},
    ),
    "number_and_places": (
        rules.number_and_places,
        {"row": (any_row, NO_ROW), "trained_on": (st.just(EXP1), NO_EXPERIMENT)},
    ),
    "paper_success": (
        rules.paper_success,
        {"row": (any_row, NO_ROW), "trained_on": (st.just(EXP1), NO_EXPERIMENT)},
    ),
    "success": (
        rules.success,
        {"row": (any_row, NO_ROW), "trained_on": (st.just(EXP1), NO_EXPERIMENT)},
    ),
    "by_k": (
        lambda rows, net, family: [*by_k(rows, net, family)],
        {"rows": (counted, NO_ROWS), "net": net, "family": (st.just("test"), NAME)},
    ),
    "measures": (
        lambda rows, trained_on: list(rates.measures(rows, trained_on).values()),
        {"rows": (counted, NO_ROWS), "trained_on": (st.just(EXP1), NO_EXPERIMENT)},
    ),
    "of_pictures": (lambda rows: list(rates.of_pictures(rows).values()), {"rows": (counted, NO_ROWS)}),
    "resampled": (
        stats.resampled,
        {
            "values": (values, VALUES),
            "seed": seeds,
            "size": (st.none() | st.integers(1, 5), [1.5, "3", NAN, -1, 0]),
            "resamples": (st.integers(1, 5), [*COUNT, 0]),
        },
    ),
    "bounded": (
        stats.bounded,
        {
            "value": (st.floats(0, 1), ["0.5", None, 1j, [1.0]]),
            "draws": (values, ["draws", None, [], ["a"], np.ones((2, 2))]),
            "samples": (st.integers(1, 99), [*COUNT, 0]),
            "most": (st.sampled_from([None, 1.0]), ["0.5", NAN, INF, 0.0, -1.0]),
        },
    ),
    "interval": (
        lambda group, **k: stats.interval(group, **k),
        {
            "group": (values, ["values", None, [], ["a"], np.ones((2, 2)), 3.0]),
            "seed": seeds,
            "share": (st.booleans(), FLAG),
        },
    ),
    "rates": (
        lambda **k: [list(found.values()) for found in rates.rates(**k).values()],
        {"rows": (counted, NO_ROWS), "net": net, "family": (st.just("test"), NAME), "seed": seeds},
    ),
    "mean_over": (
        lambda **k: rates.mean_over(**k),
        {
            "rows": (counted, NO_ROWS),
            "net": (st.just("exp1"), ["", None, 3]),  # of a net without rows the answer is None
            "measure": (st.sampled_from(rates.MEASURES), NAME),
            "ks": (st.just([1]), ["1", None, 1, [], [1.5], [-1]]),
            "seed": seeds,
        },
    ),
    "largest_k": (
        lambda **k: rules.largest_k(**k),
        {
            "rows": (counted, NO_ROWS),
            "net": net,
            "rule": (st.sampled_from([rules.OUR_RULE, rules.PAPER_RULE]), [None, "ours", 3]),
            "family": (st.just("test"), NAME),
            "seed": seeds,
        },
    ),
    "occupied": (families.occupied, {"seed": (st.just(0), COUNT + [[0]])}),
    "spread_cells": (
        lambda **k: [families.spread_cells(**k), 0.0],
        {
            "k": (st.integers(0, 6), [*COUNT, 99]),
            "rng": (generators, [None, 0, "seed"]),
            "never": (st.none() | cells, NEVER),
            "tries": (st.just(200), [*COUNT, 0]),
        },
    ),
    "middles": (
        lambda where: [families.middles(where), 0.0],
        {"where": (cells, ["00", None, [0, 0], [[NAN, 0]], [["x", 0]]])},
    ),
    "families.check": (
        lambda **k: families.check(**k) or 0.0,
        {"family": (st.sampled_from(list(families.FAMILIES)), NAME), "k": (st.integers(0, 9), [*COUNT, 13])},
    ),
    "asked": (
        lambda **k: [families.asked(**k), 0.0],
        {
            "family": (st.sampled_from(list(families.FAMILIES)), NAME),
            "k": (st.integers(0, 6), [*COUNT, 13]),
            "sample": (SEEDS, COUNT),
            "seed": (st.integers(0, 1), COUNT),
        },
    ),
}


test_what_is_accepted_gives_finite_numbers, test_what_is_outside_is_refused = cases(TABLE)


def test_what_is_not_defined_stays_so():
    """A share of nothing is nan; a table of such shares is not a bad call."""
    assert all(map(np.isnan, stats.interval([NAN, 1.0])))


def test_every_public_function_is_in_the_table():
    elsewhere = {
        "Row",
        "LargestK",
        "Rule",
        "Sampler",
        "check_row",  # `success`
        "along_training",  # `mean_over` at each snapshot
        "with_k",
        "seeds_of",
        "preset_of",  # of what `read_rows` gives
        "rows_path",  # these read and write files
        "told_path",
        "read_rows",
        "of_preset",
        "write_rows",
    }
    modules = (rows, placement, rates, rules, families)
    assert missing(TABLE, modules, elsewhere) == (set(), set())
    less = {name: row for name, row in TABLE.items() if name != "placement.check"}
    assert missing(less, modules, elsewhere) == ({"placement.check"}, set())  # families.check is another
