"""The verdict page: each claim of the paper with our number, its interval, the paper's number and the command that decides it.

    python -m lcs_utils.evaluation.verdicts                # writes figures/tiny/verdicts.md
    python -m lcs_utils.evaluation.verdicts --check        # fails when the page does not say what the rows say

A claim that was not measured is untested; nothing is reproduced without rows.
"""

import argparse
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from lcs_utils import checkpoints, paths
from lcs_utils.evaluation import counter_cycles
from lcs_utils.evaluation.claims import NO, OPEN, PARTLY, YES, Verdict, from_figures, judged, say_interval
from lcs_utils.evaluation.obeyed import along_k
from lcs_utils.evaluation.rates import OUR_RULE, PAPER_RULE, PAPER_RULE_ALL, by_k, largest_k, mean_over, trained
from lcs_utils.evaluation.rows import STANDARD, Row, read_rows, told_path, seeds_of
from lcs_utils.evaluation.tables import COMMAND, LABELS, OBSERVED, PAPER, RULES, Cell, cells, say
from lcs_utils.experiments import EXP3, EXPERIMENTS, RADIUS_SWEEP

OUTSIDE = 0.05  # Choice: this share of samples may have more or fewer extras than the paper saw

DOSES = (  # more labels, fewer labels, and K between the paper's two: 9 > 5 > 3 > 1; on 1-6 objects 11 > 10 > 9 > 1
    ("exp1", "random_1-3", [6, 7, 8]), ("random_1-3", "drop_one_1-3", [4, 5]), ("drop_one_1-3", "exp2", [2, 3]),
    ("exp1_1-6", "drop_one_1-6", [11]), ("drop_one_1-6", "random_1-6", [10]), ("random_1-6", "exp2_1-6", [7, 8, 9]),
)  # fmt: skip
RANGES = (  # the same for the most objects of a training image: 11 > 9 > 5 > 1
    (6, 3, "exp1_1-6", "exp1", [10, 11]), (6, 2, "exp1_1-6", "exp1_1-2", [7, 8, 9]), (3, 1, "exp1", "exp1_1", [7, 8, 9]),
)  # fmt: skip


def command_of(rows: Sequence[Row], nets: Sequence[str], ks: Sequence[int] = ()) -> str:
    """The command whose rows decide a claim: `ks` (default: all that were measured) with as many samples as there are."""
    groups = [by_k(rows, net) for net in nets if any(row.net == net and row.family == "test" for row in rows)]
    high = max(ks or [max(group) for group in groups] or [12])
    samples = min((len(found) for group in groups for k, found in group.items() if k in ks or not ks), default=64)
    said = f"{COMMAND} {' '.join(nets)} --k {min(ks, default=0)}-{high}"
    return said if samples == 64 else f"{said} --samples {samples}"


def complete(command: str, preset: str = "tiny") -> str:
    """A command for a preset, after those that train what nets it measures and whose weights are not shipped."""
    words = [command if preset == "tiny" else f"{command} --preset {preset}"]
    if command.startswith(COMMAND):
        nets = command.removeprefix(COMMAND).partition("--k")[0].split()
        bases = dict.fromkeys(net.partition("/")[0] for net in nets)
        shipped = lambda net: (paths.CHECKPOINTS / preset / net / checkpoints.WEIGHTS).exists()
        words = [checkpoints.training_command(net, preset) for net in bases if not shipped(net)] + words
    return " && ".join(words)


def trainings(rows: Sequence[Row], net: str) -> list[str]:
    """`net`, and the measured nets that differ from it in nothing but the seed of their training."""
    return seeds_of(rows, net) or [net]


def more(rows, claim: str, better: str, worse: str, measure: str, ks: Sequence[int], paper: str) -> Verdict:
    """`better` has more of `measure` than `worse` over `ks`: reproduced when no two intervals of their trainings touch."""
    nets = [trainings(rows, net) for net in (better, worse)]
    a, b = ([value for net in group if (value := mean_over(rows, net, measure, ks))] for group in nets)
    command = command_of(rows, [better, worse], ks)
    if not a or not b:
        return Verdict(claim, paper, "no rows", OPEN, command)
    verdict, words = judged([x.low > y.high for x in a for y in b], "pairs of trainings")
    each = [f"{net} " + ", ".join(map(say_interval, values)) for net, values in zip((better, worse), (a, b), strict=True)]
    over = f"K = {ks[0]}" + f"–{ks[-1]}" * (len(ks) > 1)
    return Verdict(claim, paper, f"{'; '.join(each)} ({measure}, {over}){words}", verdict, command)


def of_cell(rows: Sequence[Row], cell: Cell) -> Verdict:
    """A cell of Table 1 or 2: reproduced when the paper's K, which 8 samples gave, lies in the interval that 8 of ours give."""
    claim, paper = f"K of a net trained on {cell.trained_on}, {cell.column}", str(cell.paper)
    command = command_of(rows, [cell.net])
    if cell.many is None:
        return Verdict(claim, paper, "no rows", OPEN, command)
    found = cells(rows, trainings(rows, cell.net))
    verdict, words = judged([c.eight.low <= cell.paper.k <= c.eight.high for c in found])
    if verdict != YES and any(c.many.capped for c in found) and cell.paper.k > cell.many.value:
        verdict, words = OPEN, "; success at the largest K asked, more were not"
    each = " / ".join(f"{say(c.many)} on {c.samples} samples, {say(c.eight)} on 8" for c in found)
    return Verdict(claim, paper, f"its rule: {each}; our rule: {say(cell.ours)}{words}", verdict, command)


def beyond(rows: Sequence[Row], cell: Cell, claim: str, yes: bool) -> Verdict:
    """K is larger than any number of objects in training, in the whole interval of the paper's rule (`yes`), or is not."""
    most, command = trained(cell.net).objects[1], command_of(rows, [cell.net])
    if cell.many is None:
        return Verdict(claim, "yes", "no rows", OPEN, command)
    found = cells(rows, trainings(rows, cell.net))
    verdict, words = judged([c.many.low > most if yes else c.many.high <= most for c in found])
    each = ", ".join(say(c.many) for c in found)
    return Verdict(claim, "yes", f"trained on at most {most}, K = {each} by its rule, {say(cell.ours)} by ours{words}", verdict, command)


def extras(rows, net: str) -> Verdict:
    """As many unlabeled objects as the paper saw, K = 1..3 (Table 2): all samples but a share of OUTSIDE are in its range."""
    (low, high), nets = OBSERVED[net], trainings(rows, net)
    shares = []
    for name in nets:
        seen = np.array([row.extras for k, found in by_k(rows, name).items() if k in (1, 2, 3) for row in found])
        shares.append(float(np.mean((seen < low) | (seen > high))))
    verdict, words = judged([share <= OUTSIDE for share in shares])
    means = ", ".join(say_interval(mean_over(rows, name, "extras", [1, 2, 3])) for name in nets)
    said = f"{means} on average, {', '.join(f'{share:.0%}' for share in shares)} of the samples outside the range{words}"
    claim = f"Table 2, second half: objects that nobody asked for, {net}, K = 1–3"
    return Verdict(claim, f"{low}–{high}" if high else "0", said, verdict, command_of(rows, [net], [1, 2, 3]))


def radii(rows: Sequence[Row], preset: str = "tiny") -> list[str]:
    """Lines on Exp. 3 with every measured radius (App. E.3); no verdicts, since the paper's r is not known."""
    nets = sorted((e.radius, e.name) for e in (EXP3, *RADIUS_SWEEP))
    found = [cell for cell in cells(rows, [name for _, name in nets]) if cell.ours is not None]
    command = lambda c: f"`{complete(command_of(rows, [c.net]), preset)}`"
    row = lambda c: (trained(c.net).radius, say(c.many), say(c.eight), say(c.ours), c.samples, command(c))
    return ["| " + " | ".join(map(str, row(cell))) + " |" for cell in found] if len(found) > 1 else []


def verdicts(rows: Sequence[Row]) -> list[Verdict]:
    """Every claim about length generalization (Fig. 1, 4, 8, Tables 1, 2)."""
    table = {cell.net: cell for cell in cells(rows)}
    return [
        beyond(rows, table["exp1"], "Fig. 1: Exp. 1 (all labels) length-generalizes", True),
        beyond(rows, table["exp2"], "Fig. 1: Exp. 2 (one label) does not", False),
        more(rows, "Fig. 1: the labels make the difference", "exp1", "exp2", "success", [4, 5, 6], "yes"),
        more(rows, "Fig. 1: a local net, Exp. 3, repairs Exp. 2", "exp3", "exp2", "success", [4, 5, 6], "yes"),
        more(rows, "Fig. 1: Exp. 3 fills the conditioned cells", "exp3", "exp2", "filled", [4, 5, 6, 7, 8], "yes"),
        beyond(rows, table["exp3"], "Table 1: Exp. 3 length-generalizes", True),
        more(rows, "Fig. 4: trained on one object, a local net places several", "exp3_1", "exp1_1", "filled", [2, 3, 4], "yes"),
        *(more(rows, f"Fig. 8: trained on up to {most} objects, a net fills more cells than on up to {fewer}", better, worse, "filled",
               ks, "yes") for most, fewer, better, worse, ks in RANGES),
        *(more(rows, f"Table 2, 1-{trained(better).objects[1]} objects: {LABELS[trained(better).labels]}, more cells filled than with "
               f"{LABELS[trained(worse).labels]}", better, worse, "filled", ks, "yes") for better, worse, ks in DOSES),
        *(extras(rows, net) for net in OBSERVED if set(range(1, 4)) <= {row.k for row in rows if row.net == net}),
        *(of_cell(rows, cell) for cell in table.values()),
    ]


def controls(rows: Sequence[Row]) -> list[str]:
    """Lines on the controls that the paper lacks: nets with an intervention, a normalized label or longer training, and without."""
    lines, controlled = [], lambda net: "/" in net or net.endswith(("_normalized", "_x3"))
    for net in sorted({row.net for row in rows if controlled(row.net)}):
        base = net.partition("/")[0].removesuffix("_normalized").removesuffix("_x3")
        ks = [k for k in (4, 5, 6) if all(mean_over(rows, n, "filled", [k]) for n in (net, base))]
        if not ks:
            continue
        pair = lambda measure, ks=ks, base=base, net=net: " against ".join(
            say_interval(mean_over(rows, n, measure, ks)) for n in (net, base)
        )
        groups = by_k(rows, net)
        samples, k = min(len(groups[k]) for k in ks), say(largest_k(rows, net, PAPER_RULE_ALL) if 1 in groups else None)
        lines.append(f"| {net} | {ks[0]}–{ks[-1]} | {pair('filled')} | {pair('extras')} | {pair('success')} | {k} | {samples} |")
    return lines


def seeds(rows: Sequence[Row]) -> list[str]:
    """Lines on nets that differ in nothing but the seed of their training: K and rates of each."""
    groups = {name: seeds_of(rows, name) for name in EXPERIMENTS}
    return [_line(rows, net) for name, group in groups.items() if group[-1:] not in ([], [name]) for net in group]


def _line(rows: Sequence[Row], net: str, words: str = "") -> str:
    many, ours = (say(largest_k(rows, net, rule)) for rule in RULES[1:])
    values = [mean_over(rows, net, *of) for of in (("filled", [4, 5, 6]), ("success", [4, 5, 6]), ("extras", [1, 2, 3]))]
    return f"| {net}{words} | {many} | {ours} | " + " | ".join("–" if v is None else say_interval(v) for v in values) + " |"


def obeyed(rows: Sequence[Row], ks: Sequence[int] = (2, 4, 6, 8)) -> list[str]:
    """Lines on every finished net: how many of K conditions it obeys; the most of K = 6 first."""
    nets = sorted({row.net for row in rows if row.family == "test" and "@" not in row.net})
    found = {net: of for net, of in along_k(rows, nets, ks).items() if 6 in of}
    order = sorted(found, key=lambda net: -found[net][6].obeyed.value)
    said = lambda of: " | ".join(say_interval(of[k].obeyed) if k in of else "–" for k in ks)
    beside = lambda at: f"{at.placed.value:.1f} | {at.drawn.value:.1f} | {at.samples}"
    return [f"| {net} | {said(found[net])} | {beside(found[net][6])} |" for net in order]


def ways(rows: Sequence[Row]) -> list[str]:
    """Lines on nets that were also sampled by another solver, or asked for the centers of crowded scenes."""
    lines = []
    for net in sorted({row.net for row in rows}):
        mine = [row for row in rows if row.net == net and row.seed == STANDARD[0]]
        solvers = {(row.solver, row.steps) for row in mine} - {STANDARD[1:]}
        other = {f", {solver}, {n} steps": [r for r in mine if (r.solver, r.steps) == (solver, n)] for solver, n in sorted(solvers)}
        other[", centers of crowded scenes"] = [row._replace(family="test") for row in mine if row.family == "crowded"]
        lines += [_line(found, net, words) for words, found in other.items() if any(row.k == 1 for row in found)]
    return lines


def section(title: str, words: str, head: str, lines: Sequence[str]) -> list[str]:
    """Lines of a section with one table; none without rows."""
    return ["", f"## {title}", "", words, "", head, "|" + "---|" * (head.count("|") - 1), *lines] if lines else []


def page(rows: Sequence[Row], preset: str = "tiny") -> str:
    """figures/<preset>/verdicts.md as text: the same rows, the same bytes."""
    found, of_preset = verdicts(rows) + from_figures(preset), "" if preset == "tiny" else f" --preset {preset}"
    number = ", ".join(f"{sum(v.verdict == name for v in found)} {name}" for name in (YES, PARTLY, NO, OPEN))
    lines = [
        "# Verdicts", "",
        f"Made by `python -m lcs_utils.evaluation.verdicts{of_preset}` from the rows and figures of preset {preset}. "
        f"{number}; several lines rest on the same nets.", "",
        f"K is the largest number of locations up to which a net succeeds; {PAPER_RULE.words}; {OUR_RULE.words}. Numbers in "
        "brackets are 95 % bootstrap intervals over samples. A K is reproduced when the paper's, which 8 samples gave, lies in the "
        "interval that 8 of ours give by its rule; a difference is, when the two intervals do not touch; a range of extras, when "
        f"at most {OUTSIDE:.0%} of the samples lie outside. Nets trained from several seeds must all agree, or it is partly so. "
        "Eight samples say little: an interval as wide as [0, 7] agrees with much. Success asks for plausible images, but the counter "
        "takes nearly all samples for plausible, also most of those that look wrong to a vision-language model (notebook 05).", "",
        "| claim | paper | ours | verdict | command |", "|---|---|---|---|---|",
        *(f"| {v.claim} | {v.paper} | {v.ours} | {v.verdict} | `{complete(v.command, preset)}` |" for v in found),
    ]  # fmt: skip
    lines += section(
        "Conditions obeyed",
        "Objects fill cells wherever they stand, which flatters a net that draws many. Here its samples are taken for a mixture of "
        "CLEVR scenes with as many objects, of which 0, 1, 2, ... stand where they were asked for and the others anywhere; the mean of the "
        "most likely mixture, with bootstrap intervals. K = 6: objects that stand at asked cells, and all that are drawn.",
        "| net | of 2 | of 4 | of 6 | of 8 | at asked cells, K = 6 | drawn, K = 6 | samples |", obeyed(rows),
    )  # fmt: skip
    samplers = "| net | K by the paper's rule, all samples | K by ours | cells filled, K = 4–6 "
    samplers += "| success, K = 4–6 | objects elsewhere, K = 1–3 |"
    lines += section(
        "Controls that the paper lacks",
        "The same net, sampled otherwise (NET/INTERVENTION, `evaluation.interventions`), trained with a label embedding of one size "
        "(NET_normalized) or three times as long (NET_x3); with the change against without.",
        "| net | K | cells filled | objects elsewhere | success | largest K by the paper's rule | samples for each K |", controls(rows),
    )  # fmt: skip
    lines += section(
        "The radius of Exp. 3",
        f"The paper's r is not known, so no verdict; its K is {PAPER['exp3'].k}. r = 3 was chosen before any other was trained.",
        "| r | K by the paper's rule, all samples | on 8 | K by ours | samples for each K | command |", radii(rows, preset),
    )  # fmt: skip
    lines += section(
        "Other samplers, other locations",
        "Every other number here is of DPM-Solver++(2M) with 14 steps at the paper's 12 test locations. The same nets, sampled and asked "
        "otherwise:", samplers, ways(rows),
    )  # fmt: skip
    lines += section(
        "Training seeds",
        "The same training from other weights and another order of the data (exp1 and exp2 also saw the renderer's first look).",
        samplers, seeds(rows),
    )  # fmt: skip
    lines += section(
        "The counters on Blender's pictures",
        "Percent of crowded scenes (CLEVR's margins off) counted exactly when Cycles drew them, and when the fast renderer drew the same. "
        f"`{counter_cycles.COMMAND} --per-count 2000` (with Blender; three hours of one core).",
        "| counter | objects | scenes | Cycles | fast renderer | difference |",
        counter_cycles.lines(counter_cycles.read(), counter_cycles.shipped()) if preset == "tiny" else [],
    )  # fmt: skip
    return "\n".join(lines) + "\n"


def place(preset: str = "tiny") -> Path:
    """Where the page of a preset is written."""
    return paths.FIGURES / preset / "verdicts.md"


def main(arguments=None) -> None:
    parser = argparse.ArgumentParser(prog="python -m lcs_utils.evaluation.verdicts", description=__doc__.splitlines()[0])
    parser.add_argument("--preset", default="tiny", choices=("tiny", "small", "paper"))
    parser.add_argument("--check", action="store_true", help="compare with the page instead of writing it")
    args = parser.parse_args(arguments)
    text, path = page(read_rows(told_path(args.preset)), args.preset), place(args.preset)
    if not args.check:
        paths.write_text(path, text)
    elif not path.exists() or path.read_text() != text:
        parser.error(f"figures/{args.preset}/verdicts.md does not say what the rows say; run this command without --check")


if __name__ == "__main__":
    main()
