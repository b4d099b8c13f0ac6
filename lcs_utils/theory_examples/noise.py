"""Approximate compositions and noise: Def. 3, Lemmas 2 and 3, Claim 1 and eq. (7), as notebook 02 shows them.

The family is `approximate_cpc.coupled_family`: three objects on eight pixels and one dial, the coupling,
which is both the light shared by all pixels and the spill onto foreign ones. Everything is exact; errors are
in nats.
"""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from jaxtyping import Float
from matplotlib import pyplot as plt
from matplotlib.figure import Figure
from torch import Tensor

from lcs_utils import plotting
from lcs_utils.theory import approximate_cpc, results
from lcs_utils.theory.distributions import GaussianMixture

COUPLINGS = tuple(torch.linspace(0, 0.5, 11).tolist())
COUPLED = 0.4  # the coupling at which noise varies
SIGMAS = (0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)
SETS: tuple[tuple[int, ...], ...] = ((), (0,), (1, 2), (0, 1, 2))  # the suprema of Def. 3 are over these
TWO, THREE = SETS[2:]  # active conditions: at THREE all suprema are attained at once
AT_MOST = 1 + 1e-9  # share of Lemma 2's bound; at THREE it is 1 and rounding decides
SAME_RATE, HEAT = 1e-6, 1e-9  # largest gaps of Claim 1's sides, as a share of them, and of eq. (7), in 1/t
WORDS = (r"$\varepsilon_1$ between blocks", r"$\varepsilon_2$ foreign blocks", r"$\varepsilon_3$ background")
HUES = [plotting.PALETTE[name] for name in ("blue", "orange", "green")]


def lemma_2_by_coupling(couplings: Sequence[float], J: Sequence[int]) -> list[results.Lemma2]:
    """Lemma 2 at J for each coupling >= 0: the divergence, its exact sum, its bound, the errors."""
    return [results.lemma_2(*approximate_cpc.coupled_family(c, c), J, SETS) for c in couplings]


def bound_shares(lemmas: Sequence[results.Lemma2]) -> list[float]:
    """The divergence as a share of Lemma 2's bound, where there is a bound above 0."""
    return [lemma.divergence / lemma.bound for lemma in lemmas if lemma.bound > 0]


class AtNoise(NamedTuple):
    """Lemma 2 at each noise level, and the local score's error E_{p_t} ||s - s_LCS||^2, in two units."""

    lemmas: list[results.Lemma2]
    relative: list[float]  # as a share of E_{p_t} ||s||^2
    per_log_noise: list[float]  # times sigma^2: nats per unit of log sigma, by Claim 1

    @property
    def curves(self) -> dict[str, list[float]]:
        """Divergence, bound and the score's two errors, each by noise level."""
        sides = {name: [getattr(of, name) for of in self.lemmas] for name in ("divergence", "bound")}
        return sides | {"relative": self.relative, "per_log_noise": self.per_log_noise}


def lemma_2_by_noise(coupling: float, sigmas: Sequence[float], J: Sequence[int] = TWO) -> AtNoise:
    """App. C: at high noise an LCS approximates better. Lemma 2 at J and the local score's error.

    By Claim 1 the divergence is the integral of `per_log_noise` over the logarithm of sigma, from 0 on.
    """
    family, M = approximate_cpc.coupled_family(coupling, coupling)
    truth, local = family(frozenset(J)), results.full_joint(approximate_cpc.ideal(family, M, J))
    lemmas = [results.lemma_2(family, M, J, SETS, sigma) for sigma in sigmas]
    errors = [results.relative_fisher_gaussian(truth.noised(s), local.noised(s)) for s in sigmas]
    sizes = [float(torch.linalg.inv(truth.noised(s).cov).trace()) for s in sigmas]  # E ||s||^2
    relative = [error / size for error, size in zip(errors, sizes)]
    return AtNoise(lemmas, relative, [s**2 * error for s, error in zip(sigmas, errors)])


def plot_lemma_2_by_noise(sigmas: Sequence[float], found: AtNoise) -> Figure:
    """By noise level: the divergence and its bound, the local score's relative error, where it costs."""
    figure, axes = plt.subplots(1, 3, figsize=(9.0, 3.0))
    red, blue, green = (plotting.PALETTE[name] for name in ("vermilion", "blue", "green"))
    curves = found.curves
    axes[0].loglog(sigmas, curves["bound"], "--", color=red)
    axes[0].text(sigmas[0], 1.15 * curves["bound"][0], "bound of Lemma 2", color=red, va="bottom")
    axes[0].text(sigmas[0], 0.6 * curves["divergence"][0], "KL(exact, local)", color=blue, va="top")
    for axis, name, color in zip(axes, ("divergence", "relative", "per_log_noise"), (blue, blue, green)):
        axis.loglog(sigmas, curves[name], color=color)
        axis.set(xlabel="noise level σ", xticks=[0.1, 1, 10])
    axes[0].set_ylim(0.7 * curves["divergence"][-1], 2.5 * curves["bound"][0])
    titles = ("distance of the laws (nats)", "error, share of the score", "nats per unit of ln σ")
    for axis, title in zip(axes, titles):
        axis.set_title(title, fontsize=10)
    return figure


def plot_lemma_2(couplings: Sequence[float], found: dict[str, list[results.Lemma2]]) -> Figure:
    """A panel per number of active conditions: the divergence of the local score's law from the truth, its
    exact sum and its bound, by coupling.
    """
    figure, axes = plt.subplots(1, len(found), figsize=(8.4, 3.2), sharey=True)
    red, blue = plotting.PALETTE["vermilion"], plotting.PALETTE["blue"]
    for axis, (title, lemmas) in zip(axes, found.items()):
        axis.plot(couplings, [lemma.divergence for lemma in lemmas], color=blue, lw=3)
        axis.plot(couplings, [lemma.bound for lemma in lemmas], "--", color=red)
        axis.plot(couplings, [lemma.identity for lemma in lemmas], "k:")
        axis.set(title=title, xlabel="coupling")
    axes[0].set(ylabel="nats", ylim=(0, None))
    at, (last, *_) = len(couplings) // 2, found.values()
    axes[0].text(couplings[at], 1.25 * last[at].bound, "bound of Lemma 2", color=red, ha="right")
    axes[0].text(couplings[-1], 0.3 * last[-1].divergence, "KL(exact, local)", color=blue, ha="right")
    axes[0].text(couplings[-1], 0.06 * last[-1].divergence, "dots: its exact sum", ha="right")
    axes[1].text(0.04, 0.9, "the bound is the KL", transform=axes[1].transAxes)
    return figure


def coupling_frames(couplings: Sequence[float], lemmas: Sequence[results.Lemma2]) -> list[Figure]:
    """One figure per coupling: exact and local denoiser weights at sigma = 1, beside the errors of Def. 3."""
    frames, eye = [], torch.eye(8, dtype=torch.float64)
    for coupling, lemma in zip(couplings, lemmas, strict=True):
        family, blocks = approximate_cpc.coupled_family(coupling, coupling)
        laws = {
            "exact": family(frozenset((1, 2))),
            "local score": approximate_cpc.ideal(family, blocks, (1, 2)),
        }
        figure, axes = plt.subplots(1, 3, figsize=(8.6, 2.7), width_ratios=(1, 1, 1.2))
        for axis, (title, law) in zip(axes, laws.items()):
            weights = law.cov @ torch.linalg.inv(law.cov + eye)
            shown = axis.imshow(weights, vmin=0, vmax=0.6, cmap="magma", extent=(0.5, 8.5, 8.5, 0.5))
            axis.set(xticks=(1, 4, 8), yticks=(1, 4, 8))
            axis.set(title=title, xlabel="pixel v", ylabel="pixel u")
            axis.grid(False)
        figure.colorbar(shown, ax=axes[1], label="weight of v", ticks=(0, 0.3, 0.6))  # the same for both
        bars = [lemma.bound, lemma.divergence, *reversed(lemma.errors)]
        axes[2].barh(["bound", "KL", r"$\varepsilon_3$", r"$\varepsilon_2$", r"$\varepsilon_1$"], bars)
        axes[2].set(xlim=(0, lemmas[-1].bound), xlabel="nats", title=f"coupling {coupling:.2f}")
        frames.append(figure)
    return frames


def lemma_3_by_noise(coupling: float, sigmas: Sequence[float]) -> Float[Tensor, "levels 3"]:
    """Lemma 3: the three errors of Def. 3 at each noise level, in increasing order."""
    return results.lemma_3(*approximate_cpc.coupled_family(coupling, coupling), SETS, sigmas)


def plot_lemma_3(sigmas: Sequence[float], errors: Float[Tensor, "levels 3"]) -> Figure:
    """The three errors against the noise level, labeled at their ends."""
    figure, axis = plt.subplots(figsize=(6.2, 3.2))
    for words, error, color in zip(WORDS, errors.T, HUES, strict=True):
        axis.loglog(sigmas, error, color=color)
        axis.text(sigmas[-1] * 1.15, float(error[-1]), words, color=color, va="center")
    axis.set(xlabel="noise level σ", ylabel="nats", xlim=(sigmas[0], 20 * sigmas[-1]))
    axis.set_xticks([0.1, 1, 10])
    return figure


class Slopes(NamedTuple):
    """Claim 1 at each noise level for Gaussians and for mixtures, and the largest gap of eq. (7), in 1/t."""

    sigmas: list[float]
    gaussians: list[results.Sides]
    mixtures: list[results.Sides]
    heat: float

    @property
    def gap(self) -> float:
        """The largest difference of the two sides of Claim 1, as a share of them."""
        return max(sides.gap / abs(sides.right) for sides in (*self.gaussians, *self.mixtures))


def claim_1_by_noise(coupling: float, sigmas: Sequence[float], seed: int) -> Slopes:
    """Claim 1 for the coupled family against its local law, and for two mixtures on the line.

    Its proof uses eq. (7), whose formula we do not have; the heat equation, which the proof needs, is
    checked at 20 points of each law and level.
    """
    family, M = approximate_cpc.coupled_family(coupling, coupling)
    truth, local = family(frozenset(range(3))), results.full_joint(approximate_cpc.ideal(family, M, range(3)))
    width = torch.full((2, 1, 1), 0.3)
    near, far = (GaussianMixture([0.5, 0.5], [[-b], [b]], width) for b in (1.0, 2.5))
    generator = torch.Generator().manual_seed(seed)
    heat = max(
        results.heat_equation(p, p.noised(s).sample(20, generator), s**2).gap * s**2
        for p in (near, far, truth)
        for s in sigmas
    )
    slopes = [[results.claim_1(p, q, s**2) for s in sigmas] for p, q in ((truth, local), (near, far))]
    return Slopes(list(sigmas), *slopes, heat)


def plot_claim_1(found: Slopes) -> Figure:
    """How fast the divergence falls with t = sigma^2 (lines); half the relative Fisher information (dots)."""
    figure, axis = plt.subplots(figsize=(6.2, 3.2))
    pairs = {"Gaussians": (found.gaussians, "blue"), "mixtures": (found.mixtures, "vermilion")}
    for name, (slopes, color) in pairs.items():
        axis.loglog(found.sigmas, [-sides.left for sides in slopes], color=plotting.PALETTE[color])
        axis.loglog(found.sigmas, [-sides.right for sides in slopes], "k:")
        end = (1.15 * found.sigmas[-1], -slopes[-1].left)
        axis.text(*end, name, color=plotting.PALETTE[color], va="center")
    axis.text(0.05, 0.12, "lines: −d KL / dt\ndots: half the relative Fisher", transform=axis.transAxes)
    axis.set(xlabel="noise level σ", ylabel="nats per unit of $t=σ^2$", xlim=(None, 7 * found.sigmas[-1]))
    axis.set_xticks([0.1, 1, 10])
    return figure
