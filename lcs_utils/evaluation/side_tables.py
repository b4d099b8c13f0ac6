"""Lines of tables beside the claims: controls, trainings, conditions obeyed, other samplers and cells."""

from collections.abc import Sequence
from functools import cache

from lcs_utils import nets
from lcs_utils.evaluation import against_null, sizes
from lcs_utils.evaluation.rates import mean_over
from lcs_utils.evaluation.rows import STANDARD, Row, by_k, read_rows, rows_path, seeds_of
from lcs_utils.evaluation.rules import PAPER_RULE_ALL, largest_k
from lcs_utils.evaluation.tables import RULES, say
from lcs_utils.experiments import EXPERIMENTS
from lcs_utils.stats import say_interval


def controls(rows: Sequence[Row]) -> list[str]:
    """Lines on controls that the paper lacks, with and without the change: another way of sampling,
    normalized labels, longer training.
    """
    lines = []
    for net, preset in sorted({row.net: row.preset for row in rows}.items()):
        plain = nets.parse(net, preset).plain
        if plain is None or plain.name == net:
            continue
        base = plain.name
        both = [row for row in rows if row.net in (net, base)]
        ks = [k for k in (4, 5, 6) if all(mean_over(both, n, "filled", [k]) for n in (net, base))]
        if not ks:
            continue

        def pair(measure, ks=ks, base=base, net=net, both=both):
            return " against ".join(say_interval(mean_over(both, n, measure, ks)) for n in (net, base))

        groups = by_k(both, net)
        samples, k = (
            min(len(groups[k]) for k in ks),
            say(largest_k(both, net, PAPER_RULE_ALL) if 1 in groups else None),
        )
        lines.append(
            f"| {net} | {ks[0]}–{ks[-1]} | {pair('filled')} | {pair('extras')} | {pair('success')} | {k} | "
            f"{samples} |"
        )
    return lines


def seeds(rows: Sequence[Row]) -> list[str]:
    """Lines on nets that differ only in their training seed: K and rates of each."""
    groups = {name: seeds_of(rows, name) for name in EXPERIMENTS}
    return [
        _line(rows, net) for name, group in groups.items() if group[-1:] not in ([], [name]) for net in group
    ]


def _line(rows: Sequence[Row], net: str, words: str = "") -> str:
    many, ours = (say(largest_k(rows, net, rule)) for rule in RULES[1:])
    values = [
        mean_over(rows, net, *of)
        for of in (("filled", [4, 5, 6]), ("success", [4, 5, 6]), ("extras", [1, 2, 3]))
    ]
    return (
        f"| {net}{words} | {many} | {ours} | "
        + " | ".join("–" if v is None else say_interval(v) for v in values)
        + " |"
    )


def obeyed(rows: Sequence[Row], size: str, ks: Sequence[int] = (2, 4, 6, 8)) -> list[str]:
    """Lines on every finished net with a null: conditions obeyed at random cells at each of `ks`, and objects
    drawn.

    Sorted by conditions obeyed at K = 6, most first.
    """
    mine = [row for row in rows if row.family == "spread" and row.k in ks]
    complete = [
        net for net in {row.net for row in mine} if {row.k for row in mine if row.net == net} == {*ks}
    ]
    finished = sorted(net for net in complete if nets.parts(net)[2] is None)
    found = {net: against_null.of_nets(mine, [net], "spread", ks=ks).at for net in finished}
    told = {net: at for net, at in found.items() if at[6].obeyed}

    def said(at):
        return " | ".join(say_interval(at[k].obeyed) if at[k].obeyed else "–" for k in ks)

    return [
        f"| {net}, {size} | {said(told[net])} | {told[net][6].drawn.value:.1f} | {told[net][6].samples} |"
        for net in sorted(told, key=lambda net: -told[net][6].obeyed.value)
    ]


@cache
def obeyed_at_both_sizes() -> list[str]:
    """Lines of the shipped rows, read once."""
    return [line for of, size in sizes.SIZES.items() for line in obeyed(read_rows(rows_path(of)), size)]


def ways(rows: Sequence[Row]) -> list[str]:
    """Lines on nets also sampled by another solver, or at the centers of crowded scenes."""
    lines = []
    for net in sorted({row.net for row in rows}):
        mine = [row for row in rows if row.net == net and row.seed == STANDARD.seed]
        solvers = {(row.solver, row.steps) for row in mine} - {STANDARD[1:]}
        other = {
            f", {solver}, {n} steps": [r for r in mine if (r.solver, r.steps) == (solver, n)]
            for solver, n in sorted(solvers)
        }
        other[", centers of crowded scenes"] = [
            row._replace(family="test") for row in mine if row.family == "crowded"
        ]
        lines += [
            _line(found, net, words)
            for words, found in other.items()
            if any(row.family == "test" and row.k == 1 for row in found)  # K needs 1
        ]
    return lines
