"""How often two linear layers swing by: random starts, two rates, four sets of signals (notebook 11).

The error is that of arXiv 2410.08309 in units of ||x_b||^2; falls of 0.001 or less do not count.
"""

from collections import Counter
from typing import NamedTuple

import torch
from jaxtyping import Float
from matplotlib import pyplot as plt
from matplotlib.figure import Figure
from torch import Tensor

from lcs_utils import plotting
from lcs_utils.progress import progress
from lcs_utils.swing_by import closed_form as sb
from lcs_utils.swing_by import initial
from lcs_utils.swing_by.curves import count_descents, rise
from lcs_utils.theory_examples.swing_by import DIVERSITY, RATES, SETS

# U normal; |U|, whose couplings are positive and larger: shrunk to the normal size, and as they are
KINDS = ("normal", "small positive", "positive")
FALL = 1e-3
STAYS = 0.01  # an error above it at the end: below what any set has with its weakest concept not learned


class Count(NamedTuple):
    """Numbers of starts: errors that ever rise, that fall 1, 2, 3, 4 times, that end above STAYS."""

    rising: int
    descents: list[int]
    stays: int


class Starts(NamedTuple):
    """Counts by (set, rate, kind of start), and an error curve with three descents."""

    counts: dict[tuple[str, str, str], Count]
    three: Float[Tensor, "times"]


def _count(curves: Float[Tensor, "starts times"]) -> Count:
    falls = Counter(count_descents(curve, FALL) for curve in curves)
    rising, stays = (rise(curves) > FALL).sum(), (curves[:, -1] > STAYS).sum()
    return Count(int(rising), [falls[k] for k in (1, 2, 3, 4)], int(stays))


def shrunk(
    positive: Float[Tensor, "starts dim dim"], normal: Float[Tensor, "starts dim dim"]
) -> Float[Tensor, "starts dim dim"]:
    """`positive` with couplings as large as `normal`'s (medians): mixed with its diagonal, still W = UU^T."""
    coupling = ~torch.eye(positive.shape[-1], dtype=torch.bool)
    share = normal[:, coupling].abs().median() / positive[:, coupling].median()
    return share * positive + (1 - share) * torch.diag_embed(positive.diagonal(dim1=-2, dim2=-1))


def random_starts(seed: int, starts: int = 20, dim: int = 16) -> Starts:
    """`starts` starts of each kind in `dim` dimensions, equal diversities 0.05, both rates, all four sets."""
    normal, positive = (
        initial.random_starts(starts, dim, 0.1, torch.Generator().manual_seed(seed), sign)
        for sign in (False, True)
    )
    kinds = [normal, shrunk(positive, normal), positive]
    counts, triples = {}, []
    for name, rate in progress([(name, rate) for name in SETS for rate in RATES], "settings"):
        mu, power = SETS[name], RATES[rate]
        sim = sb.Sim(mu, (DIVERSITY,) * len(mu), dim)
        slowest = float(sim.rates[: len(mu)].min()) ** power
        times = torch.linspace(0, 6 / slowest, 400, dtype=torch.float64)
        flow = sb.two_layer_flow(torch.cat(kinds), sim.rates**power, times)
        curves = sb.ood_loss(torch.stack([W @ sim.target for W in flow], 1), sim.target)  # [start time]
        for kind, group in zip(KINDS, curves.split(starts), strict=True):
            counts[name, rate, kind] = _count(group)
            triples += [curve for curve in group if count_descents(curve, FALL) == 3]
    if not triples:
        raise ValueError(f"none of the starts of seed {seed} descends three times")
    return Starts(counts, max(triples, key=rise))


def few_dimensions(seed: int, starts: int = 100) -> dict[tuple[str, str], Count]:
    """Starts of the source's signals, sets B to D, in as many dimensions as concepts (arXiv 2410.08309).

    Diversities and starts (`initial.uniform_starts`) are those of its code for C and D
    (FFTYYY/ConceptDynamics-code, d6110b2, figure/triple/multiple.py, fail.py); its triple.py has B otherwise,
    as (1, 1.7, 2.25) with diversities 0.5, 0.25, 0.25.
    """
    moments = torch.cat([torch.zeros(1), torch.logspace(-4, 0, 250)]).double()
    found = {}
    for name, rate in progress(
        [(name, rate) for name in "BCD" for rate in RATES], "as many dimensions as concepts"
    ):
        mu, power = SETS[name], RATES[rate]
        sim = sb.Sim(mu, (DIVERSITY,) * len(mu), len(mu))
        begin = initial.uniform_starts(starts, len(mu), torch.Generator().manual_seed(seed))
        times = moments * 12 / float(sim.rates.min()) ** power
        flow = sb.two_layer_flow(begin, sim.rates**power, times)
        found[name, rate] = _count(sb.ood_loss(torch.stack([W @ sim.target for W in flow], 1), sim.target))
    return found


class Stays(NamedTuple):
    """Of `starts` starts of set D at the rates a^2: in how many W gets a negative eigenvalue by steps of its
    own, in how many of these it grows beyond all numbers, the least w_11 of the others, and in how many the
    error ends above STAYS by such steps and by the flow from the same starts for as long.
    """

    starts: int
    negative: int
    endless: int
    least: float
    stepped: int
    flow: int


def does_it_stay(seed: int, starts: int = 100, step: float = 0.01, steps: int = 10_000) -> Stays:
    """Set D as the source's code runs it (fail.py, see `few_dimensions`): W itself is stepped, 10,000 times
    0.01 (`closed_form.stepped_w`). Beside it the flow of W = U U^T.
    """
    sim = sb.Sim(SETS["D"], (DIVERSITY,) * 3, 3)
    begin = initial.uniform_starts(starts, 3, torch.Generator().manual_seed(seed))
    W = sb.stepped_w(begin, sim.rates**2, step, steps)
    (flow,) = sb.two_layer_flow(begin, sim.rates**2, torch.tensor([step * steps], dtype=torch.float64))
    finite = W.isfinite().all(-1).all(-1)
    stay, stay_in_flow = (
        int((sb.ood_loss(of @ sim.target, sim.target) > STAYS).sum()) for of in (W[finite], flow)
    )
    negative, endless = torch.linalg.eigvalsh(W[finite]).amin(-1) < 0, int((~finite).sum())
    least = float(W[finite][:, 0, 0].min())
    return Stays(starts, int(negative.sum()) + endless, endless, least, stay + endless, stay_in_flow)


def plot_starts(found: Starts) -> Figure:
    """Starts whose error rises, by set and rate, one panel per kind of start; the sets are named below."""
    figure, axes = plt.subplots(1, len(KINDS), figsize=(9, 3.4), sharey=True)
    for axis, kind in zip(axes, KINDS, strict=True):
        for rate, offset, color in (("a", -0.2, "orange"), ("a^2", 0.2, "green")):
            bars = [found.counts[name, rate, kind].rising for name in SETS]
            label = f"rates ${rate}$"
            place = torch.arange(len(bars)) + offset
            drawn = axis.bar(place, bars, 0.38, label=label, color=plotting.PALETTE[color])
            axis.bar_label(drawn, padding=2)
        axis.set(
            title=f"{kind} starts",
            ylim=(0, 22.5),
            yticks=range(0, 21, 5),
            xticks=range(len(SETS)),
            xticklabels=list(SETS),
        )
        axis.grid(False)
    axes[0].set_ylabel("starts of 20 whose error rises")
    axes[0].legend(loc="upper left")
    sets = [f"{name}: ({', '.join(f'{m:g}' for m in mu)})" for name, mu in SETS.items()]
    figure.supxlabel("signals μ,  " + ",   ".join(sets), fontsize=10)
    return figure


def plot_three(curve: Float[Tensor, "times"]) -> Figure:
    """The error of one start that descends three times."""
    figure, axis = plt.subplots(figsize=(5, 2.8))
    axis.semilogx(torch.arange(1, len(curve)) / len(curve), curve[1:])
    axis.set(xlabel="share of the training time", ylabel="error at $x_b$", ylim=(0, None))
    return figure
