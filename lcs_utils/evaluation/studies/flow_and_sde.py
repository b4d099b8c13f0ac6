"""The same nets drawn by the probability-flow ODE and by the reverse SDE, at random cells (App. E.2).

If a net's denoisers at all noise levels were those of one distribution, both would draw it. The flow keeps
what high noise decided; the SDE replaces noise and lets lower noise decide again. The standard flow takes
fewer steps than the SDE; `SAME_STEPS` tells steps and noise apart.

    found = compare(read_rows(rows_path("small")))
    plot(found)
"""

from collections.abc import Iterable, Mapping, Sequence
from statistics import mean
from typing import Any, NamedTuple

import numpy as np
from matplotlib import pyplot as plt
from matplotlib.figure import Figure

from lcs_utils.diffusion import SDE_STEPS
from lcs_utils.evaluation import against_null
from lcs_utils.evaluation.rows import STANDARD, Row, check_rows, of_net
from lcs_utils.evaluation.studies.more_training import SEEN
from lcs_utils.evaluation.wording import EXTRAS
from lcs_utils.plotting import color_of
from lcs_utils.stats import Interval, as_dicts, interval

NETS = {"exp1": "Exp. 1", "exp3_r2": "Exp. 3, r = 2"}
WAYS = {"flow": "", "SDE": "/stochastic"}
NULLS = {"flow": ":", "SDE": "-."}
SAME_STEPS = {  # the last two are of the same nets, too
    f"flow, {STANDARD.steps} steps": "",
    f"flow, {SDE_STEPS} steps": "/flow",
    f"SDE, {SDE_STEPS} steps": "/stochastic",
}


class Drawn(NamedTuple):
    """What a net draws at one K: objects minus asked for, objects away from every asked cell, the share of
    asked cells filled, and of other samples' cells.
    """

    more: Interval
    extras: Interval
    filled: Interval
    null: Interval


def compare(
    rows: Iterable[Row],
    nets: Iterable[str] = NETS,
    family: str = "spread",
    ways: Mapping[str, str] = WAYS,
) -> dict[tuple[str, str], dict[int, Drawn]]:
    """{(net, way): {K: Drawn}} of the first trainings that were measured all `ways` (App. E.2). Raises as
    `against_null.of_nets`.
    """
    rows = [row for row in check_rows(rows) if row.family == family and row.k > 0]
    found = {}
    for net in nets:
        for way, change in ways.items():
            at = against_null.of_nets(rows, [net + change], family).at
            drawn = of_net(rows, net + change, family)
            of = {k: [row for row in drawn if row.k == k] for k in at}
            found[net, way] = {
                k: Drawn(
                    interval(np.array([row.count - k for row in mine], float)),
                    interval(np.array([row.extras for row in mine], float)),
                    at[k].filled.own,
                    at[k].filled.null,
                )
                for k, mine in of.items()
            }
    return found


def numbers(found: Mapping[tuple[str, str], Mapping[int, Drawn]]) -> dict[str, Any]:
    """All values of the figure, {net, way: {K: {...}}}, for JSON."""
    return {
        f"{net}, {way}": {k: as_dicts(drawn._asdict()) for k, drawn in of.items()}
        for (net, way), of in found.items()
    }


def plot(found: Mapping[tuple[str, str], Mapping[int, Drawn]]) -> Figure:
    """Each quantity of Drawn against K; solid by the flow, dashed by the SDE; bars: 95%."""
    figure, panels = plt.subplots(1, 3, figsize=(9.6, 3.2))
    heads = {
        "more": "objects drawn minus asked for",
        "extras": EXTRAS,
        "filled": "asked cells filled\n(null: flow dotted, SDE dash-dotted)",
    }
    for axes, (name, head) in zip(panels, heads.items(), strict=True):
        for (net, way), of in found.items():
            value, low, high = np.array([getattr(drawn, name) for drawn in of.values()]).T
            axes.errorbar(
                list(of),
                value,
                [value - low, high - value],
                color=color_of(net),
                ls="-" if way == "flow" else "--",
                marker="o",
                ms=4,
                mfc=color_of(net) if way == "flow" else "white",
                capsize=2,
                lw=1.4,
                label=f"{NETS.get(net, net)}, {way}",
            )
            if name == "filled":
                null = [drawn.null.value for drawn in of.values()]
                axes.plot(list(of), null, color=color_of(net), ls=NULLS[way], lw=1.2)
        axes.set(title=head, xlabel="K asked for, at random cells")
    panels[0].axhline(0, color="0.5", lw=1)
    panels[2].set_ylim(0, 1.02)
    lines, words = panels[0].get_legend_handles_labels()
    figure.legend(lines, words, loc="outside lower center", ncols=len(found), fontsize=9)
    return figure


def extras(of: Mapping[int, Drawn], most: int = SEEN) -> float:
    """Mean number of objects that nobody asked for, up to `most` locations."""
    return mean(drawn.extras.value for k, drawn in of.items() if k <= most)


def markdown(found: Mapping[tuple[str, str], Mapping[int, Drawn]], ks: Sequence[int] = (6, 7, 8, 9)) -> str:
    """As a table: cells filled and objects drawn at some K, and objects that nobody asked for up to SEEN."""
    told = " / ".join(map(str, ks))
    head = f"asked cells filled (null), K = {told} | objects drawn | nobody asked for, K = 1 to {SEEN}"
    lines = [f"| net, drawn by | {head} |", "|---" * 4 + "|"]
    for (net, way), of in found.items():
        filled = " / ".join(f"{of[k].filled.value:.2f} ({of[k].null.value:.2f})" for k in ks)
        drawn = " / ".join(f"{k + of[k].more.value:.1f}" for k in ks)
        lines.append(f"| {NETS.get(net, net)}, {way} | {filled} | {drawn} | {extras(of):.2f} |")
    return "\n".join(lines) + "\n"
