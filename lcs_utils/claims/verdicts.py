"""The verdicts page: each claim of the paper with our number, the paper's, and the command that decides it.

    python -m lcs_utils.claims.verdicts                # writes figures/tiny/verdicts.md
    python -m lcs_utils.claims.verdicts --check        # fails if the page does not match the rows

A claim that was not measured is untested; nothing is reproduced without rows.
"""

import argparse
from collections.abc import Sequence
from pathlib import Path

from lcs_utils import nets, paths, store
from lcs_utils.claims import KINDS, UNDECIDED, Verdict, nets_64
from lcs_utils.claims.from_notebooks import decided, of_nets_and_exact
from lcs_utils.claims.from_rows import OUTSIDE, command_of, verdicts
from lcs_utils.counter import cycles as counter_cycles
from lcs_utils.evaluation import changes, side_tables, sizes, wording
from lcs_utils.evaluation.rows import Row, read_rows, rows_path, told_path
from lcs_utils.evaluation.rules import OUR_RULE, PAPER_RULE
from lcs_utils.evaluation.tables import COMMAND, PAPER, cells, say
from lcs_utils.experiments import EXP3, RADIUS_SWEEP
from lcs_utils.nets import trained

OLD = "Counted by the earlier counter, without a null."
CLAIM_HEAD = "| claim | paper | ours | verdict | command |"


def complete(command: str, preset: str = "tiny") -> str:
    """A command for a preset, preceded by those that train the nets it measures and whose weights are not
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
    """Lines on Exp. 3 at every measured radius (App. E.3); no verdicts, since the paper's r is unknown."""
    sweep = sorted((e.radius, e.name) for e in (EXP3, *RADIUS_SWEEP))
    found = [cell for cell in cells(rows, [name for _, name in sweep]) if cell.ours is not None]

    def command(c):
        return f"`{complete(command_of(rows, [c.net]), preset)}`"

    def row(c):
        return (trained(c.net).radius, say(c.many), say(c.eight), say(c.ours), c.samples, command(c))

    return ["| " + " | ".join(map(str, row(cell))) + " |" for cell in found] if len(found) > 1 else []


def section(title: str, words: str, head: str, lines: Sequence[str]) -> list[str]:
    """The lines of a section with one table; empty without rows."""
    return (
        ["", f"## {title}", "", words, "", head, "|" + "---|" * (head.count("|") - 1), *lines]
        if lines
        else []
    )


def counted(found: Sequence[Verdict]) -> str:
    """`16 reproduced, 8 partly, ...`."""
    return ", ".join(
        f"{sum(v.verdict == name for v in found)} {name}"
        for name in KINDS
        if name != UNDECIDED or any(v.verdict == name for v in found)
    )


def claim_lines(found: Sequence[Verdict], preset: str) -> list[str]:
    """A line per verdict, with the command that decides it."""
    return [
        f"| {v.claim} | {v.paper} | {v.ours} | {v.verdict} | `{complete(v.command, preset)}` |" for v in found
    ]


def page(rows: Sequence[Row], preset: str = "tiny") -> str:
    """figures/<preset>/verdicts.md as text: the same rows give the same bytes."""
    old, beside = verdicts(rows, nets_64.told(preset)), decided(preset)
    of_nets, exact = of_nets_and_exact(beside)
    earlier = told_path(preset) != rows_path(preset)
    counter = OLD if earlier else "Without a null."
    by_earlier = (
        ", counted by an earlier counter, since replaced, which calls nearly all samples plausible, even "
        "most of those that look wrong to a vision-language model (notebook A3)"
    )
    of_preset = "" if preset == "tiny" else f" --preset {preset}"
    lines = [
        "# Verdicts",
        "",
        f"Made by `python -m lcs_utils.claims.verdicts{of_preset}` from stored rows. {len(of_nets)} "
        f"claims about nets, at 64 px or beside a null: {counted(of_nets)}. {len(exact)} claims about exact "
        f"distributions and linear models, which check our formulas: {counted(exact)}. {len(old)} further "
        "claims, at "
        f"{sizes.SIZES.get(preset, preset)} and without a null: {counted(old)}. Several lines rest on the "
        "same nets.",
        *section(
            "Exact, of 64 px nets, or beside a null",
            "Today's counter judges what nets draw, by number and places and however the pictures look "
            "(looks have a line of their own). K is the largest number of locations up to which more than "
            "a quarter of the samples are right. The null is the same net's pictures that were asked for "
            "something else. *Reproduced* means, for Fig. 1, that K is above the number of objects in "
            "training and above its null (for Exp. 2: at least one, and not above the number in "
            "training); for the tables, that K is above its null and, with its whole interval, within one of "
            "the paper's at both sets of cells, random and the paper's (an interval that is partly within "
            "decides nothing, nor does a K that reached the most that was asked for: "
            "*undecided* if neither set decides, *not reproduced* if one says no and none yes); for "
            "colors, which have no cells, that each net's K is; for numbers of objects, that at most "
            f"{OUTSIDE:.0%} of the samples lie outside the paper's range, at its own locations: *undecided* "
            "where the exact 95% interval of their share allows more and less, untested if a "
            "net draws hardly anything. We read its ranges in parentheses as objects that nobody asked "
            "for, and those of Table 2's second half, whose caption is lost, as objects drawn when none "
            "is asked for. *Partly* means, for the tables, at one of the two sets of cells. "
            "Numbers in brackets are 95% bootstrap intervals over noise, at random cells also over "
            "conditions, and, unless stated otherwise, over a net's trainings.",
            CLAIM_HEAD,
            claim_lines(beside, preset),
        ),
        *section(
            "Without a null",
            f"Nets that were not trained at 64 px{by_earlier if earlier else ''}. K is the largest number "
            "of locations up to which a net succeeds, by two rules. "
            f"First {PAPER_RULE.words}; then {OUR_RULE.words}. A K is reproduced when the paper's, which 8 "
            "samples gave, lies in the interval that 8 of ours give by its rule; a difference, when the two "
            "intervals do not touch; a range of extra objects, when "
            f"at most {OUTSIDE:.0%} of the samples lie outside it. Nets trained from several seeds "
            "must all agree; otherwise the claim is partly reproduced. Eight samples say little: an interval "
            "as wide as [0, 7] agrees with much.",
            CLAIM_HEAD,
            claim_lines(old, preset),
        ),
    ]
    lines += section(
        "Conditions obeyed",
        "How many objects are where they are because they were asked for there, at random cells. It is the "
        "number near requested cells, minus the number near cells that other samples were asked for, divided "
        "by the share of cells that two conditions do not have in common (`judged.obeyed`). It is an "
        "estimate from a difference, not a count: it may exceed what was asked for or fall below zero. The "
        "column *drawn* is the number of objects drawn at K = 6.",
        "| net | of 2 | of 4 | of 6 | of 8 | drawn, K = 6 | samples |",
        side_tables.obeyed_at_both_sizes() if preset == "tiny" else [],
    )
    samplers = "| net | K by the paper's rule, all samples | K by ours | cells filled, K = 4–6 "
    samplers += f"| success, K = 4–6 | {wording.EXTRAS}, K = 1–3 |"
    lines += section(
        "Controls that the paper lacks",
        f"{counter} The same net changed at sampling (NET/CHANGE, `evaluation.changes`), trained with label "
        "embeddings of one size (NET_normalized), or trained three times as long (NET_x3). Each entry gives "
        "the value with the change against the value without it.",
        f"| net | K | cells filled | {wording.EXTRAS} | success | largest K by the paper's rule | samples "
        "for each K |",
        side_tables.controls(rows),
    )
    lines += section(
        "The radius of Exp. 3",
        f"{counter} The paper's r is not known, so there is no verdict; its K is {PAPER['exp3'].k}. We chose "
        "r = 3 before any other radius was trained.",
        "| r | K by the paper's rule, all samples | on 8 | K by ours | samples for each K | command |",
        radii(rows, preset),
    )
    lines += section(
        "Other samplers, other locations",
        f"{counter} All its other counts are of samples drawn by DPM-Solver++(2M) in 14 steps at the paper's "
        "12 test locations. Here are the same nets with another solver or other locations:",
        samplers,
        side_tables.ways(rows),
    )
    lines += section(
        "Training seeds",
        f"{counter} The same training from other initial weights and with another order of the data (exp1 "
        "and exp2 were also trained on images of the renderer's first version).",
        samplers,
        side_tables.seeds(rows),
    )
    lines += section(
        "The counters on Blender's pictures",
        "Percent of crowded scenes (without CLEVR's margins) counted exactly when Cycles rendered them, and "
        "when the fast renderer rendered the same scenes. "
        f"`{counter_cycles.COMMAND} --per-count 2000` (with Blender; three hours of one core).",
        "| counter | objects | scenes | Cycles | fast renderer | difference |",
        counter_cycles.lines(counter_cycles.read(), counter_cycles.shipped()) if preset == "tiny" else [],
    )
    return "\n".join(lines) + "\n"


def place(preset: str = "tiny") -> Path:
    """Where a preset's page is written."""
    return paths.FIGURES / preset / "verdicts.md"


def main(arguments=None) -> None:
    parser = argparse.ArgumentParser(
        prog="python -m lcs_utils.claims.verdicts", description=__doc__.splitlines()[0]
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
