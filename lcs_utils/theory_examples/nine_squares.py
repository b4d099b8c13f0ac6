"""Length generalization in closed form: nine squares, a composition fitted to at most two, drawn with nine.

The examples of notebook 01b. All draws come from the `seed` given, float64 throughout.
"""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from jaxtyping import Float
from matplotlib import pyplot as plt
from matplotlib.figure import Figure
from torch import Tensor

from lcs_utils import diffusion, plotting
from lcs_utils.theory import lcs, lcs_alternatives, results
from lcs_utils.theory.approximate_cpc import DIALS, coupled_family
from lcs_utils.theory.cpc import ConditionalProjectiveComposition
from lcs_utils.theory.distributions import GaussianMixture, gaussian
from lcs_utils.theory.divergence import kl
from lcs_utils.theory.fitted_cpc import fit_cpc
from lcs_utils.theory_examples.squares import SIDE, smooth_background, square_pixels, three_squares

LATE = "coupled at three"
SMALL, LARGE = 0.01, 0.2  # nats: a fit that is right, and one that is wrong
SHOWN = ((), (0,), (1,), (2,), (0, 1), (1, 2))  # the sets of conditions that the fit sees
ASKED = ((0,), (0, 1), (0, 1, 2))


class Grown(NamedTuple):
    """A CPC fitted to at most two conditions and drawn with more."""

    counts: tuple[int, ...]
    tints: Float[Tensor, "9 3"]  # each square's true color
    drawn: list[Float[Tensor, "samples 3 side side"]]  # one entry per count
    squares: list[float]  # nats between the true and the fitted model: their squares', per count
    background: list[float]  # and their backgrounds'; the whole model's are the sum (Def. 2)

    @property
    def color_error(self) -> float:
        """The largest difference between a square's mean color in the samples of nine and its true one."""
        squares = square_pixels(_corners(), 2)
        each = [self.drawn[-1].flatten(2)[:, :, [i for i in M if i < SIDE**2]] for M in squares.values()]
        means = torch.stack([square.mean((0, 2)) for square in each])
        return float((means - self.tints).abs().max())


def _corners() -> dict[int, tuple[int, int]]:
    return {j: (3 * (j // 3), 3 * (j % 3)) for j in range(9)}


def grow(seed: int, counts: Sequence[int] = (0, 1, 2, 5, 9), samples: int = 32, steps: int = 32) -> Grown:
    """Fit blocks and background by maximum likelihood to 1,000 draws of each seen set, then sample `counts`.

    Nine squares of 2 x 2 pixels, each with its own color; seen: none, each alone, nine pairs (section 3.1).
    The fit is given the blocks M_j, which a network must find. Samples: Heun, `steps` steps.
    """
    generator = torch.Generator().manual_seed(seed)
    squares = square_pixels(_corners(), 2)
    tints = torch.rand(9, 3, generator=generator, dtype=torch.float64) * 1.6 - 0.8
    cov = 0.01 * torch.eye(12, dtype=torch.float64) + 0.01
    paint = {j: gaussian(tints[j].repeat_interleave(4), cov) for j in squares}
    truth = ConditionalProjectiveComposition(squares, smooth_background(), paint)
    seen = [(), *[(j,) for j in squares], *[(j, (j + 4) % 9) for j in squares]]
    fitted = fit_cpc([(J, truth(J).sample(1000, generator)) for J in seen], squares)
    noise = torch.randn(samples, truth.n, generator=generator, dtype=torch.float64)
    levels = diffusion.karras_sigmas(steps)
    flat = [diffusion.final(diffusion.sample(fitted.denoise, noise, levels, range(k))) for k in counts]
    drawn = [x.reshape(samples, 3, SIDE, SIDE) for x in flat]
    on_squares, on_background = [], []
    for k in counts:
        pairs = zip(truth(range(k)).factors, fitted(range(k)).factors, strict=True)  # the background is last
        each = [kl(true, own).value for true, own in pairs]
        on_squares.append(sum(each[:k]))
        on_background.append(sum(each[k:]))
    return Grown(tuple(counts), tints, drawn, on_squares, on_background)


def plot_grown(found: Grown) -> Figure:
    """Two samples at each count; titles mark the counts that were never seen."""
    titles = [f"{k} condition{'s' * (k != 1)}\n({'seen' if k < 3 else 'never seen'})" for k in found.counts]
    rows = [[drawn[i] for drawn in found.drawn] for i in range(2)]
    return plotting.image_grid(rows, ["sample 1", "sample 2"], titles, cell=1.3)


def coupled_at_three() -> tuple[lcs.Family, dict[int, tuple[int, ...]]]:
    """A family and its M that is a CPC up to two conditions, and whose three blocks, once all are active,
    depend on each other (each keeps its own law): what the seen counts cannot show.
    """
    cpc, M = coupled_family(*DIALS["CPC"])
    owner = torch.tensor([next((j for j in M if i in M[j]), -1) for i in range(cpc(frozenset()).n)])
    active = owner >= 0
    between = (owner[:, None] != owner) & active[:, None] & active

    def family(J: lcs.Conditions) -> GaussianMixture:
        p = cpc(J)
        return gaussian(p.mean, p.cov + 0.2 * between) if len(J) == len(M) else p

    return family, M


def fitted_at_counts(seed: int, draws: int = 20_000) -> dict[str, list[float]]:
    """Nats between family and fitted CPC at one, two and three conditions (three are never seen).

    For a CPC, for a shared light and a spill (the ways of Def. 3), which are none at the seen counts
    already, and for `coupled_at_three`, which the fit cannot tell from a CPC.
    """
    generator = torch.Generator().manual_seed(seed)
    families = {name: coupled_family(*dials) for name, dials in DIALS.items()} | {LATE: coupled_at_three()}
    return {
        name: results.fitted_errors(*family, SHOWN, ASKED, draws, generator)
        for name, family in families.items()
    }


def generalizes(off: dict[str, list[float]]) -> bool:
    """Whether a CPC is fitted at the unseen count, and what leaves the CPC only there is told from it."""
    *seen, unseen = off[LATE]
    return off["CPC"][-1] < SMALL < LARGE < unseen and max(seen) < SMALL


def plot_fitted(found: dict[str, list[float]]) -> Figure:
    """Nats off against the number of conditions, one line per family, labeled where it ends."""
    figure, axis = plt.subplots(figsize=(5.6, 3.2))
    axis.axvspan(0.9, 2.1, color="0.93", lw=0)
    axis.text(1.5, 1.0, "in training", transform=axis.get_xaxis_transform(), ha="center", va="bottom")
    hues = ("blue", "vermilion", "green", "purple")
    for (name, nats), color, marker in zip(found.items(), hues, "os^D", strict=True):
        axis.plot([1, 2, 3], nats, marker=marker, color=plotting.PALETTE[color])
        axis.text(3.06, nats[-1], name, color=plotting.PALETTE[color], va="center")
    axis.set(
        xlabel="conditions", ylabel="KL from the true distribution (nats)", xticks=[1, 2, 3], xlim=(0.9, 3.9)
    )
    return figure


def against_sums(levels: int, seed: int) -> dict[str, dict[int, tuple[float, float]]]:
    """Largest gaps of (local score, sum of scores) from the exact score, as shares of it, by condition count.

    For a smooth background and one of independent pixels. The sum is projective composition's, s_b +
    sum_j (s_j - s_b) (Bradley et al. 2025).
    """
    correlated = three_squares()
    independent = gaussian(correlated.background.mean, correlated.background.cov.diagonal().diag())
    apart = ConditionalProjectiveComposition(correlated.M, independent, correlated.concepts)
    sigmas, generator = diffusion.karras_sigmas(levels)[:-1], torch.Generator().manual_seed(seed)
    found: dict[str, dict[int, tuple[float, float]]] = {}
    for name, cpc in {"correlated": correlated, "independent": apart}.items():
        found[name] = {}
        for J in ("a", "ab", "abc"):
            x_t = diffusion.add_noise(cpc(list(J)).sample(levels, generator), sigmas, generator)
            exact = results.full_joint(cpc(list(J))).score(x_t, sigmas)
            local = lcs.local_conditional_score(cpc, x_t, sigmas, cpc.subsets(list(J)))
            pair = (local, lcs_alternatives.sum_of_scores(cpc, x_t, sigmas, list(J)))
            gaps = [float(((s - exact).norm(dim=1) / exact.norm(dim=1)).max()) for s in pair]
            found[name][len(J)] = (gaps[0], gaps[1])
    return found


def plot_sums(found: dict[str, dict[int, tuple[float, float]]]) -> Figure:
    """The gap from the exact score against the number of conditions, each line labeled at its end."""
    figure, axis = plt.subplots(figsize=(6.8, 3.0))
    lines = (  # words, color, background, which of the two, marker and line
        ("sum of scores, correlated", "vermilion", "correlated", 1, "s-"),
        ("local score, correlated", "blue", "correlated", 0, "o-"),
        ("sum, independent pixels", "vermilion", "independent", 1, "s:"),
    )
    for words, color, background, which, style in lines:
        gaps = [max(pair[which], 1e-17) for pair in found[background].values()]
        axis.semilogy(list(found[background]), gaps, style, color=plotting.PALETTE[color])
        axis.text(3.08, gaps[-1], words, color=plotting.PALETTE[color], va="center")
    axis.set(xlabel="conditions", ylabel="gap, share of the score", xticks=[1, 2, 3])
    axis.set(xlim=(0.9, 4.6), ylim=(1e-17, 100))
    return figure
