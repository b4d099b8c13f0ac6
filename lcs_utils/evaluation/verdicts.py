"""The verdict page: each claim of the paper with our number, its interval, the paper's number and the
command that decides it.

    python -m lcs_utils.evaluation.verdicts                # writes figures/tiny/verdicts.md
    python -m lcs_utils.evaluation.verdicts --check        # fails when the page does not say what the rows
    say

A claim that was not measured is untested; nothing is reproduced without rows.
"""

import argparse
from collections.abc import Sequence
from pathlib import Path

from lcs_utils import nets, paths, store
from lcs_utils.counter import cycles as counter_cycles
from lcs_utils.evaluation import changes
from lcs_utils.evaluation.claims import NO, OPEN, PARTLY, YES, say_interval
from lcs_utils.evaluation.notebook_claims import decided
from lcs_utils.evaluation.obeyed import along_k
from lcs_utils.evaluation.rates import mean_over
from lcs_utils.evaluation.row_claims import OUTSIDE, command_of, verdicts
from lcs_utils.evaluation.rows import STANDARD, Row, by_k, read_rows, seeds_of, told_path
from lcs_utils.evaluation.rules import OUR_RULE, PAPER_RULE, PAPER_RULE_ALL, largest_k
from lcs_utils.evaluation.tables import COMMAND, PAPER, RULES, cells, say
from lcs_utils.experiments import EXP3, EXPERIMENTS, RADIUS_SWEEP
from lcs_utils.nets import trained


def complete(command: str, preset: str = "tiny") -> str:
    """A command for a preset, after those that train what nets it measures and whose weights are not
    shipped.
    """
    option = "-p preset" if command.startswith("python -m lcs_utils.notebooks") else "--preset"
    words = [command if preset == "tiny" or command == "none" else f"{command} {option} {preset}"]
    if command.startswith(COMMAND):
        named = command.removeprefix(COMMAND).partition("--k")[0].split()
        bases = dict.fromkeys(changes.split(name)[0] for name in named)

        def shipped(net):
            return (paths.CHECKPOINTS / preset / net / nets.WEIGHTS).exists()

        words = [nets.training_command(net, preset) for net in bases if not shipped(net)] + words
    return " && ".join(words)


def radii(rows: Sequence[Row], preset: str = "tiny") -> list[str]:
    """Lines on Exp. 3 with every measured radius (App. E.3); no verdicts, since the paper's r is not
    known.
    """
    sweep = sorted((e.radius, e.name) for e in (EXP3, *RADIUS_SWEEP))
    found = [cell for cell in cells(rows, [name for _, name in sweep]) if cell.ours is not None]

    def command(c):
        return f"`{complete(command_of(rows, [c.net]), preset)}`"

    def row(c):
        return (trained(c.net).radius, say(c.many), say(c.eight), say(c.ours), c.samples, command(c))

    return ["| " + " | ".join(map(str, row(cell))) + " |" for cell in found] if len(found) > 1 else []


def controls(rows: Sequence[Row]) -> list[str]:
    """Lines on the controls that the paper lacks: nets changed at sampling, with a normalized label or
    longer training, and without.
    """
    lines = []
    for net in sorted({row.net for row in rows}):
        plain = nets.parse(net).plain
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
    """Lines on nets that differ in nothing but the seed of their training: K and rates of each."""
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


def obeyed(rows: Sequence[Row], ks: Sequence[int] = (2, 4, 6, 8)) -> list[str]:
    """Lines on every finished net: how many of K conditions it obeys; the most of K = 6 first."""
    finished = sorted({row.net for row in rows if row.family == "test" and nets.parts(row.net)[2] is None})
    found = {net: of for net, of in along_k(rows, finished, ks).items() if 6 in of}
    order = sorted(found, key=lambda net: -found[net][6].obeyed.value)

    def said(of):
        return " | ".join(say_interval(of[k].obeyed) if k in of else "–" for k in ks)

    def beside(at):
        return f"{at.placed.value:.1f} | {at.drawn.value:.1f} | {at.samples}"

    return [f"| {net} | {said(found[net])} | {beside(found[net][6])} |" for net in order]


def ways(rows: Sequence[Row]) -> list[str]:
    """Lines on nets that were also sampled by another solver, or asked for the centers of crowded scenes."""
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
            _line(found, net, words) for words, found in other.items() if any(row.k == 1 for row in found)
        ]
    return lines


def section(title: str, words: str, head: str, lines: Sequence[str]) -> list[str]:
    """Lines of a section with one table; none without rows."""
    return (
        ["", f"## {title}", "", words, "", head, "|" + "---|" * (head.count("|") - 1), *lines]
        if lines
        else []
    )


def page(rows: Sequence[Row], preset: str = "tiny") -> str:
    """figures/<preset>/verdicts.md as text: the same rows, the same bytes."""
    old = verdicts(rows)
    found = old + decided(preset)
    of_preset = "" if preset == "tiny" else f" --preset {preset}"
    number = ", ".join(f"{sum(v.verdict == name for v in found)} {name}" for name in (YES, PARTLY, NO, OPEN))
    lines = [
        "# Verdicts",
        "",
        f"Made by `python -m lcs_utils.evaluation.verdicts{of_preset}` from the rows of preset {preset}. "
        f"{number}; several lines rest on the same nets.",
        "",
        f"K is the largest number of locations up to which a net succeeds; {PAPER_RULE.words}; "
        f"{OUR_RULE.words}. Numbers in "
        "brackets are 95 % bootstrap intervals over samples. A K is reproduced when the paper's, which 8 "
        "samples gave, lies in the "
        "interval that 8 of ours give by its rule; a difference is, when the two intervals do not touch; a "
        "range of extras, when "
        f"at most {OUTSIDE:.0%} of the samples lie outside. Nets trained from several seeds must all agree, "
        "or it is partly so. "
        "Eight samples say little: an interval as wide as [0, 7] agrees with much.",
        "",
        f"{len(old)} lines, of 32 px nets, are of an earlier counter, since replaced, and have no null; "
        "success asks "
        "for plausible images, but that counter takes nearly all samples for plausible, also most of those "
        "that look wrong to a vision-language model (notebook A3). What today's counter says of the same "
        "nets, beside nulls and looks, and which nets cells filled above chance cannot tell apart, is in "
        "notebook A1. Lines that say 64 px are of today's counter, and of number and places, however the "
        "pictures look; of Fig. 1, reproduced means K above the trained number and above its null. How they "
        "look is a line of its own.",
        "",
        "| claim | paper | ours | verdict | command |",
        "|---|---|---|---|---|",
        *(
            f"| {v.claim} | {v.paper} | {v.ours} | {v.verdict} | `{complete(v.command, preset)}` |"
            for v in found
        ),
    ]
    lines += section(
        "Conditions obeyed",
        "Objects fill cells wherever they stand, which flatters a net that draws many. Here its samples are "
        "taken for a mixture of "
        "CLEVR scenes with as many objects, of which 0, 1, 2, ... stand where they were asked for and the "
        "others anywhere; the mean of the "
        "most likely mixture, with bootstrap intervals. K = 6: objects that stand at asked cells, and all "
        "that are drawn.",
        "| net | of 2 | of 4 | of 6 | of 8 | at asked cells, K = 6 | drawn, K = 6 | samples |",
        obeyed(rows),
    )
    samplers = "| net | K by the paper's rule, all samples | K by ours | cells filled, K = 4–6 "
    samplers += "| success, K = 4–6 | objects elsewhere, K = 1–3 |"
    lines += section(
        "Controls that the paper lacks",
        "The same net, sampled otherwise (NET/CHANGE, `evaluation.changes`), trained with a "
        "label embedding of one size "
        "(NET_normalized) or three times as long (NET_x3); with the change against without.",
        "| net | K | cells filled | objects elsewhere | success | largest K by the paper's rule | samples "
        "for each K |",
        controls(rows),
    )
    lines += section(
        "The radius of Exp. 3",
        f"The paper's r is not known, so no verdict; its K is {PAPER['exp3'].k}. r = 3 was chosen before "
        "any other was trained.",
        "| r | K by the paper's rule, all samples | on 8 | K by ours | samples for each K | command |",
        radii(rows, preset),
    )
    lines += section(
        "Other samplers, other locations",
        "Every other number here is of DPM-Solver++(2M) with 14 steps at the paper's 12 test locations. The "
        "same nets, sampled and asked "
        "otherwise:",
        samplers,
        ways(rows),
    )
    lines += section(
        "Training seeds",
        "The same training from other weights and another order of the data (exp1 and exp2 also saw the "
        "renderer's first look).",
        samplers,
        seeds(rows),
    )
    lines += section(
        "The counters on Blender's pictures",
        "Percent of crowded scenes (CLEVR's margins off) counted exactly when Cycles drew them, and when "
        "the fast renderer drew the same. "
        f"`{counter_cycles.COMMAND} --per-count 2000` (with Blender; three hours of one core).",
        "| counter | objects | scenes | Cycles | fast renderer | difference |",
        counter_cycles.lines(counter_cycles.read(), counter_cycles.shipped()) if preset == "tiny" else [],
    )
    return "\n".join(lines) + "\n"


def place(preset: str = "tiny") -> Path:
    """Where the page of a preset is written."""
    return paths.FIGURES / preset / "verdicts.md"


def main(arguments=None) -> None:
    parser = argparse.ArgumentParser(
        prog="python -m lcs_utils.evaluation.verdicts", description=__doc__.splitlines()[0]
    )
    parser.add_argument("--preset", default="tiny", choices=("tiny", "small", "paper"))
    parser.add_argument("--check", action="store_true", help="compare with the page instead of writing it")
    args = parser.parse_args(arguments)
    text, path = page(read_rows(told_path(args.preset)), args.preset), place(args.preset)
    if not args.check:
        store.write_text(path, text)
    elif not path.exists() or path.read_text() != text:
        parser.error(
            f"figures/{args.preset}/verdicts.md does not say what the rows say; run this command without "
            "--check"
        )


if __name__ == "__main__":
    main()
