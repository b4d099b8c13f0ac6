"""The verdict page: each claim of the paper with our number, its interval, the paper's number and the command that decides it.

    python -m lcs_utils.evaluation.verdicts                # writes figures/small/verdicts.md
    python -m lcs_utils.evaluation.verdicts --check        # fails when the page does not say what the rows say

A claim that was not measured is untested; nothing is reproduced without rows.
"""

import argparse
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from lcs_utils import paths
from lcs_utils.evaluation.rates import OUR_RULE, PAPER_RULE, Interval, by_k, interval, largest_k, mean_over, trained
from lcs_utils.evaluation.rows import Row, read_rows, rows_path, seeds_of
from lcs_utils.evaluation.tables import COMMAND, LABELS, PAPER, RULES, Cell, cells, say
from lcs_utils.experiments import EXP3, EXPERIMENTS, RADIUS_SWEEP

YES, NO, OPEN = "reproduced", "not reproduced", "untested"

DOSES = (  # more labels, fewer labels, and K between the paper's two: 9 > 5 > 3 > 1
    ("exp1", "random_1-3", [6, 7, 8]), ("random_1-3", "drop_one_1-3", [4, 5]), ("drop_one_1-3", "exp2", [2, 3]),
)  # fmt: skip


class Verdict(NamedTuple):
    """One claim, what the paper reports, what we measured, and the command whose rows decide it."""

    claim: str
    paper: str
    ours: str
    verdict: str
    command: str


def _said(value: Interval) -> str:
    return f"{value.value:.2f} [{value.low:.2f}, {value.high:.2f}]"


def command_of(rows: Sequence[Row], nets: Sequence[str], ks: Sequence[int] = ()) -> str:
    """The command whose rows decide a claim: `ks` (default: all that were measured) with as many samples as there are."""
    groups = [by_k(rows, net) for net in nets if any(row.net == net and row.family == "test" for row in rows)]
    high = max(ks or [max(group) for group in groups] or [12])
    samples = min((len(found) for group in groups for k, found in group.items() if k in ks or not ks), default=64)
    said = f"{COMMAND} {' '.join(nets)} --k {min(ks, default=0)}-{high}"
    return said if samples == 64 else f"{said} --samples {samples}"


def more(rows, claim: str, better: str, worse: str, measure: str, ks: Sequence[int], paper: str) -> Verdict:
    """`better` has more of `measure` than `worse` over `ks`: reproduced when the intervals do not touch."""
    a, b = (mean_over(rows, net, measure, ks) for net in (better, worse))
    command = command_of(rows, [better, worse], ks)
    if a is None or b is None:
        return Verdict(claim, paper, "no rows", OPEN, command)
    said = f"{better} {_said(a)}, {worse} {_said(b)} ({measure}, K = {ks[0]}–{ks[-1]})"
    return Verdict(claim, paper, said, YES if a.low > b.high else NO, command)


def of_cell(rows: Sequence[Row], cell: Cell) -> Verdict:
    """A cell of Table 1 or 2: reproduced when the paper's K lies in the interval of the paper's rule on all our samples."""
    extras = "" if cell.paper.extras == (0, 0) else " + ({}–{})".format(*cell.paper.extras)
    claim, paper = f"K of a net trained on {cell.trained_on}, {cell.column}", f"{cell.paper.k}{extras}"
    command = command_of(rows, [cell.net])
    if cell.many is None:
        return Verdict(claim, paper, "no rows", OPEN, f"python -m lcs_utils.training {cell.net} && {command}")
    inside = cell.many.low <= cell.paper.k <= cell.many.high or (cell.many.capped and cell.paper.k > cell.many.value)
    said = f"its rule: {say(cell.many)} on {cell.samples} samples, {say(cell.eight)} on 8; our rule: {say(cell.ours)}"
    return Verdict(claim, paper, said, YES if inside else NO, command)


def beyond(rows: Sequence[Row], cell: Cell, claim: str, yes: bool) -> Verdict:
    """K is larger than any number of objects in training, in the whole interval of the paper's rule (`yes`), or is not."""
    most, command = trained(cell.net).objects[1], command_of(rows, [cell.net])
    if cell.many is None:
        return Verdict(claim, "yes", "no rows", OPEN, command)
    holds = cell.many.low > most if yes else cell.many.high <= most
    said = f"trained on at most {most}, K = {say(cell.many)} by its rule, {say(cell.ours)} by ours"
    return Verdict(claim, "yes", said, YES if holds else NO, command)


def extras(rows, net: str) -> Verdict:
    """Unlabeled objects appear beside the asked ones, no more than in the paper's range on average over K = 1..3 (Table 2)."""
    low, high = PAPER[net].extras
    value = mean_over(rows, net, "extras", [1, 2, 3])
    claim, command = f"extras of {net}: objects that nobody asked for, K = 1–3", command_of(rows, [net], [1, 2, 3])
    if value is None:
        return Verdict(claim, f"{low}–{high}", "no rows", OPEN, command)
    return Verdict(claim, f"{low}–{high}", _said(value), YES if 0 < value.low and value.value <= high else NO, command)


class Claim(NamedTuple):
    """A claim that numbers of a notebook's figure decide: `judge` takes the figure's values and says (ours, whether it holds)."""

    claim: str
    paper: str
    figure: str
    judge: Callable[[dict], tuple[str, bool]]


def _lemma_1(v):
    return f"largest gap, as a share of the score, below {v['largest_relative_gap_below']:.0e}", v["largest_relative_gap_below"] < 1e-6


def _fitted(v):
    two, nine = v["objects_kl"][2], v["objects_kl"][9]
    return f"fitted to up to 2 conditions: {two:.3f} nats off at 2, {nine:.3f} at 9", nine < 9 * two


def _lemma_2(v):
    shares = [d / b for d, b in zip(v["divergence"], v["bound"]) if b > 0]
    return f"{min(shares):.0%} to {max(shares):.0%} of the bound", max(shares) <= 1


def _claim_1(v):
    first, last = max(v["errors"][0]), max(v["errors"][-1])
    falls = all(b < a for low, high in zip(v["errors"], v["errors"][1:]) for a, b in zip(low, high))
    return f"largest error {first:.2f} at sigma = {v['sigma'][0]:g}, {last:.4f} at {v['sigma'][-1]:g}", falls


def _claim_2(v):
    scores = v["claim_2"]["scores"]
    return f"gap of the scores at the highest noise {scores[-1] / max(scores):.1e} of the largest", scores[-1] < 0.01 * max(scores)


def _hears(v):
    one, two = (Interval(*v["locality"][net]) for net in ("exp1", "exp2"))
    return f"from within two cells: Exp. 1 {_said(one)}, Exp. 2 {_said(two)}, chance {v['chance']['exp1']:.2f}", one.low > two.high


def _looks(v):
    widest = [max(value for value, *_ in v["nets"][net]["window"]) for net in ("exp1", "exp2")]
    said = "90 % squares of up to {:.0f} px (Exp. 1) and {:.0f} px (Exp. 2) of 32; local would be half of them".format(*widest)
    return said, max(widest) <= 16


def _centered(v):
    sides = {name: interval(np.array(of)[:, -1]) for name, of in v["sides"].items()}
    said = ", ".join(f"{name} {_said(side)} px" for name, side in sides.items())
    return f"90 % square at sigma = {v['sigmas'][-1]:g}: {said}", sides["centered"].low > sides["scattered"].high


FROM_FIGURES = (
    Claim("Lemma 1, Fig. 3: a compositional distribution's score is a local conditional score", "equal", "theory_lcs_structure", _lemma_1),
    Claim("Section 3: a model of a CPC length-generalizes, its error adds up", "yes", "theory_length_generalization", _fitted),
    Claim("Lemma 2: near a CPC, the divergence from it is bounded", "at most the bound", "theory_noise", _lemma_2),
    Claim("Lemma 3, Claim 1: more noise brings any distribution nearer to a CPC", "falls", "theory_noise", _claim_1),
    Claim("Claim 2: at high noise the scores of two transforms approach each other", "falls", "theory_features", _claim_2),
    Claim("Figs. 2, 10: at high noise Exp. 1 hears nearby conditions, Exp. 2 does not", "yes", "locality_against_k", _hears),
    Claim("Figs. 2, 10: Exp. 1 and 2 look at nearby pixels at all noise levels", "yes", "locality_against_noise", _looks),
    Claim("Fig. 12: one centered subject makes a net look far at high noise", "yes (CIFAR-10)", "fig12", _centered),
    Claim("Figs. 5, 11, eq. (3): color-conditioned nets length-generalize partly, in a feature space", "–", "fig05", lambda v: ("", False)),
    Claim("Figs. 6, 7, 13, App. G: SDXL", "–", "fig06", lambda v: ("", False)),
)


def from_figures(preset: str = "small") -> list[Verdict]:
    """Claims that a notebook measures, decided by the numbers beside its figure; untested where there are none."""
    found = []
    for claim, paper, figure, judge in FROM_FIGURES:
        path = paths.FIGURES / preset / f"{figure}.json"
        if path.exists():
            value = json.loads(path.read_text())
            said, holds = judge(value["values"])
            command = value["provenance"]["command"].removesuffix(f" -p preset {preset}")
            found.append(Verdict(claim, paper, said, YES if holds else NO, command))
        else:
            found.append(Verdict(claim, paper, "no numbers yet", OPEN, "none"))
    return found


def radii(rows: Sequence[Row]) -> list[str]:
    """Lines on Exp. 3 with every measured radius (App. E.3); no verdicts, since the paper's r is not known."""
    nets = sorted((e.radius, e.name) for e in (EXP3, *RADIUS_SWEEP))
    found = [cell for cell in cells(rows, [name for _, name in nets]) if cell.ours is not None]
    row = lambda c: (trained(c.net).radius, say(c.many), say(c.eight), say(c.ours), c.samples, f"`{command_of(rows, [c.net])}`")
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
               [7, 8, 9], "yes") for most, fewer, better, worse in ((6, 2, "exp1_1-6", "exp1_1-2"), (3, 1, "exp1", "exp1_1"))),
        *(more(rows, f"Table 2: {LABELS[trained(better).labels]}, more cells filled than with {LABELS[trained(worse).labels]}",
               better, worse, "filled", ks, "yes") for better, worse, ks in DOSES),
        extras(rows, "exp2"),
        extras(rows, "exp3"),
        *(of_cell(rows, cell) for cell in table.values()),
    ]


def controls(rows: Sequence[Row]) -> list[str]:
    """Lines on the controls that the paper lacks: nets with an intervention or a normalized label, beside the net without."""
    lines, controlled = [], lambda net: "/" in net or net.endswith("_normalized")
    for net in sorted({row.net for row in rows if controlled(row.net)}):
        base = net.partition("/")[0].removesuffix("_normalized")
        ks = [k for k in (4, 5, 6) if all(mean_over(rows, n, "filled", [k]) for n in (net, base))]
        if not ks:
            continue
        pair = lambda measure, ks=ks, base=base, net=net: " against ".join(
            _said(mean_over(rows, n, measure, ks)) for n in (net, base)
        )
        samples = min(map(len, by_k(rows, net).values()))
        lines.append(f"| {net} | {ks[0]}–{ks[-1]} | {pair('filled')} | {pair('extras')} | {pair('success')} | {samples} |")
    return lines


def seeds(rows: Sequence[Row]) -> list[str]:
    """Lines on nets that differ in nothing but the seed of their training: K and rates of each."""
    lines, groups = [], {name: seeds_of(rows, name) for name in EXPERIMENTS}
    for net in (net for name, group in groups.items() if group[-1:] not in ([], [name]) for net in group):
        many, ours = (say(largest_k(rows, net, rule)) for rule in RULES[1:])
        values = [mean_over(rows, net, *of) for of in (("filled", [4, 5, 6]), ("success", [4, 5, 6]), ("extras", [1, 2, 3]))]
        lines.append(f"| {net} | {many} | {ours} | " + " | ".join("–" if v is None else _said(v) for v in values) + " |")
    return lines


def page(rows: Sequence[Row], preset: str = "small") -> str:
    """figures/<preset>/verdicts.md as text: the same rows, the same bytes."""
    found, of_preset = verdicts(rows) + from_figures(preset), "" if preset == "small" else f" --preset {preset}"
    number = {name: sum(v.verdict == name for v in found) for name in (YES, NO, OPEN)}
    lines = [
        "# Verdicts", "",
        f"Made by `python -m lcs_utils.evaluation.verdicts{of_preset}` from the rows and figures of preset {preset}. "
        f"{number[YES]} reproduced, {number[NO]} not reproduced, {number[OPEN]} untested.", "",
        f"K is the largest number of locations up to which a net succeeds; {PAPER_RULE.words}; {OUR_RULE.words}. Numbers in "
        "brackets are 95 % bootstrap intervals over samples. A K is reproduced when the paper's lies in the interval of its own "
        "rule on all our samples; a difference is, when the two intervals do not touch.", "",
        "| claim | paper | ours | verdict | command |", "|---|---|---|---|---|",
        *(f"| {v.claim} | {v.paper} | {v.ours} | {v.verdict} | `{v.command}{of_preset}` |" for v in found),
    ]  # fmt: skip
    extra = controls(rows)
    if extra:
        lines += [
            "", "## Controls that the paper lacks", "",
            "The same net, sampled otherwise (NET/INTERVENTION, `evaluation.interventions`), or trained with a label embedding of "
            "one size (NET_normalized); with the change against without.", "",
            "| net | K | cells filled | objects elsewhere | success | samples for each K |", "|---|---|---|---|---|---|", *extra,
        ]  # fmt: skip
    swept = radii(rows)
    if swept:
        lines += [
            "", "## The radius of Exp. 3", "",
            f"The paper's r is not known, so no verdict; its K is {PAPER['exp3'].k}. r = 3 was chosen before any other was trained.", "",
            "| r | K by the paper's rule, all samples | on 8 | K by ours | samples for each K | command |", "|---|---|---|---|---|---|",
            *swept,
        ]  # fmt: skip
    spread = seeds(rows)
    if spread:
        lines += [
            "", "## Training seeds", "",
            "The same training from other weights and another order of the data (exp1 and exp2 also saw the renderer's first look).", "",
            "| net | K by the paper's rule, all samples | K by ours | cells filled, K = 4–6 | success, K = 4–6 "
            "| objects elsewhere, K = 1–3 |",
            "|---|---|---|---|---|---|", *spread,
        ]  # fmt: skip
    return "\n".join(lines) + "\n"


def place(preset: str = "small") -> Path:
    """Where the page of a preset is written."""
    return paths.FIGURES / preset / "verdicts.md"


def main(arguments=None) -> None:
    parser = argparse.ArgumentParser(prog="python -m lcs_utils.evaluation.verdicts", description=__doc__.splitlines()[0])
    parser.add_argument("--preset", default="small", choices=("small", "paper"))
    parser.add_argument("--check", action="store_true", help="compare with the page instead of writing it")
    args = parser.parse_args(arguments)
    text, path = page(read_rows(rows_path(args.preset)), args.preset), place(args.preset)
    if not args.check:
        paths.write_text(path, text)
    elif not path.exists() or path.read_text() != text:
        parser.error(f"figures/{args.preset}/verdicts.md does not say what the rows say; run this command without --check")


if __name__ == "__main__":
    main()
