"""Swing-by in linear models (Yang et al., ICLR 2025, arXiv 2410.08309), as notebook 11 shows it.

Errors are in units of ||x_b||^2, times in those of the flow; float64, no nets. The equations are in
`lcs_utils.swing_by`. Rates are the source's a_p, or a_p^2, which the code of its figures steps W with.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from jaxtyping import Float
from matplotlib import pyplot as plt
from matplotlib.figure import Figure
from torch import Tensor

from lcs_utils import plotting
from lcs_utils.swing_by import closed_form as sb
from lcs_utils.swing_by import curves

SETS = {"A": (1.0, 2.0), "B": (1.0, 1.5, 2.2), "C": (1.0, 1.5, 2.2, 2.7), "D": (0.7, 1.7, 3.0)}  # signals mu
DIVERSITY = 0.05  # of every concept, as the source's code has it for C and D (figure/triple)
ONE, TWO, TWO_SQUARED = "one layer, $a$", "two layers, $a$", "two layers, $a^2$"
HUES = {ONE: "blue", TWO: "orange", TWO_SQUARED: "green"}
RATES = {"a": 1, "a^2": 2}


class OneLayer(NamedTuple):
    """Answers to x_b halfway through learning, by three ways of getting there, and their largest gaps."""

    answers: dict[str, tuple[float, float]]
    gap_descent: float
    gap_sgd: float


def one_layer(seed: int, steps: int = 150, rate: float = 0.01) -> OneLayer:
    """f(x) = W x in 64 dimensions: closed form, gradient descent on the population loss, SGD on samples.

    SGD: 5,000 samples per cluster, batches of 128, as in the source. Choice: a smaller rate and fewer steps
    than its 0.1 and 40 epochs, which end where both concepts are long learned and all ways agree. Ours end
    halfway, and the small rate keeps descent near the flow.
    """
    generator = torch.Generator().manual_seed(seed)
    sim = sb.Sim(mu=(1.0, 2.0), sigma=(0.05, 0.05), dim=64)
    start = 0.01 * torch.randn(64, 64, generator=generator, dtype=torch.float64)
    on_samples = sb.sample_loss(sim.sample(5000, generator), 128, generator)
    exact = sb.one_layer(start, sim.rates, torch.tensor([steps * rate], dtype=torch.float64))[0]
    *_, descended = sb.descend(start, lambda W: sb.identity_loss(W, sim.rates), rate, steps)
    *_, stochastic = sb.descend(start, on_samples, rate, steps)
    ways = {"closed form": exact, "gradient descent": descended, "SGD on samples": stochastic}
    answers = {name: (float(W[0] @ sim.target), float(W[1] @ sim.target)) for name, W in ways.items()}
    gaps = [float((W - exact).abs().max()) for W in (descended, stochastic)]
    return OneLayer(answers, *gaps)


def terms_gap(seed: int, dim: int = 8) -> float:
    """Largest difference of G - S - N from dW/dt for dU/dt = -1/2 grad L by autograd, as a share of it."""
    generator = torch.Generator().manual_seed(seed)
    a = torch.rand(dim, generator=generator, dtype=torch.float64)
    U = torch.randn(dim, dim, generator=generator, dtype=torch.float64)
    growth, suppression, noise = sb.two_layer_terms(U @ U.T, a)
    flow = sb.two_layer_velocity_autograd(U, a)
    return float((growth - suppression - noise - flow).abs().max() / flow.abs().max())


class Trajectories(NamedTuple):
    """W(t), the answer to x_b and its error along training, by model: mu = (1, 2), one small start."""

    sim: sb.Sim
    times: Float[Tensor, "times"]
    W: dict[str, Float[Tensor, "times 2 2"]]
    outputs: dict[str, Float[Tensor, "times 2"]]
    errors: dict[str, Float[Tensor, "times"]]

    @property
    def rises(self) -> dict[str, float]:
        """By how much each error ever exceeds its running minimum."""
        return {name: float(curves.rise(error)) for name, error in self.errors.items()}

    @property
    def descents(self) -> dict[str, int]:
        """How many separate falls each error has."""
        return {name: curves.count_descents(error) for name, error in self.errors.items()}

    def order(self, name: str) -> tuple[float, float, float]:
        """When w_22 is half learned, when w_12 is largest, and when w_11 is half learned."""
        first, second = curves.learning_times(self.W[name], self.times, 2).tolist()
        return second, float(self.times[self.W[name][:, 0, 1].argmax()]), first


def trajectories() -> Trajectories:
    """One layer with rates a and two layers with a and a^2, from the same start with coupled entries."""
    sim, times = sb.Sim(SETS["A"], (0.05, 0.05), 2), torch.linspace(0, 20, 401, dtype=torch.float64)
    start = 0.03 * torch.tensor([[1.0, 0.9], [0.9, 1.0]], dtype=torch.float64)
    W = {ONE: sb.one_layer(start, sim.rates, times)}
    for name, power in ((TWO, 1), (TWO_SQUARED, 2)):
        W[name] = torch.stack(list(sb.two_layer_flow(start, sim.rates**power, times)))
    outputs = {name: each @ sim.target for name, each in W.items()}
    errors = {name: sb.ood_loss(points, sim.target) for name, points in outputs.items()}
    return Trajectories(sim, times, W, outputs, errors)


def _plane(axis: plt.Axes) -> None:
    """The two training clusters and x_b as stars in the plane of the two concepts."""
    axis.plot([1, 0, 1], [0, 2, 2], "k*", ms=9)
    axis.set(xlabel="output 1", ylabel="output 2", xlim=(-0.12, 1.2), ylim=(-0.12, 2.3))


def plot_trajectories(found: Trajectories) -> Figure:
    """The answer to x_b in the plane of the two concepts, and its error along training."""
    figure, (plane, curve) = plt.subplots(1, 2, figsize=(8.4, 3.5))
    _plane(plane)
    plane.text(1.0, 2.07, "$x_b$, never seen", ha="right")
    plane.text(0.03, 2.12, "cluster", ha="left")
    plane.text(0.97, 0.02, "cluster", ha="right")
    for name, points in found.outputs.items():
        color = plotting.PALETTE[HUES[name]]
        plane.plot(*points.T, color=color)
        curve.plot(found.times, found.errors[name], color=color, label=name)
    curve.set(xlabel="time", ylabel="error at $x_b$", xlim=(0, 15))
    curve.legend()
    return figure


def plot_why(found: Trajectories) -> Figure:
    """Two layers, rates a: the entries of W, each labeled, and the terms that move w_12."""
    figure, (entries, why) = plt.subplots(1, 2, figsize=(8.4, 3.2))
    W, times = found.W[TWO], found.times
    labels = {"$w_{22}$": (1, 1, 1.9, 0.9), "$w_{11}$": (0, 0, 6.2, 0.62), "$w_{12}$": (0, 1, 2.0, 0.16)}
    for (name, (i, j, *at)), color in zip(labels.items(), ("blue", "orange", "green"), strict=True):
        entries.plot(times, W[:, i, j], color=plotting.PALETTE[color])
        entries.text(*at, name, color=plotting.PALETTE[color])
    entries.set(xlabel="time", ylabel="entries of $W$", xlim=(0, 12))
    terms = [sb.two_layer_terms(w, found.sim.rates) for w in W]
    green, orange = plotting.PALETTE["green"], plotting.PALETTE["orange"]  # of w_12 and w_11, as at the left
    why.plot(times, [t.growth[0, 1] for t in terms], color=green)
    why.plot(times, [-t.suppression[0, 1] for t in terms], "--", color=green)
    why.text(2.1, 0.27, "growth of $w_{12}$", color=green)
    why.text(2.4, -0.32, "suppression of $w_{12}$ (dashed)", color=green)
    why.plot(times, [-t.noise[0, 0] for t in terms], color=orange)
    why.text(1.6, 0.015, "noise on $w_{11}$", color=orange, va="bottom")
    why.set(xlabel="time", ylabel="terms of $dW/dt$", xlim=(0, 6))
    return figure


def time_frames(found: Trajectories, name: str, moments: Sequence[int]) -> list[Figure]:
    """One figure per moment (index into the times): the answer in the plane, the matrix W, the error."""
    path, error, times, frames = found.outputs[name], found.errors[name], found.times, []
    for k in moments:
        figure, (plane, matrix, curve) = plt.subplots(1, 3, figsize=(9, 2.8))
        _plane(plane)
        plane.plot(*path[: k + 1].T)
        plane.plot(*path[k], "o")
        plane.set_title(f"time {times[k]:.0f}")
        shown = matrix.imshow(found.W[name][k], vmin=0, vmax=1, cmap="cividis", extent=(0.5, 2.5, 2.5, 0.5))
        matrix.set(title="$W$, entries $w_{ij}$", xlabel="$j$", ylabel="$i$", xticks=[1, 2], yticks=[1, 2])
        matrix.grid(False)
        figure.colorbar(shown, ax=matrix, ticks=(0, 0.5, 1))
        until = times[: moments[-1] + 1]
        curve.plot(until, error[: len(until)], times[k], error[k], "o")
        curve.set(xlabel="time", title="error at $x_b$")
        frames.append(figure)
    return frames


CROSSING = (0.05**2 + 1.5) ** 0.5  # sigma_1 at which a_1 = a_2 for mu = (1, 2) and sigma_2 = 0.05


ORDER_SIGMAS = (0.05, 0.5, 1.0, 1.2, 1.3, 1.5, 2.0)  # diversities sigma_1 of concept 1, at mu = (1, 2)
SCALE = 0.1  # of U at the start: w_pp(0) is near its square


def order_in_sgd(
    sigmas: Sequence[float], seed: int, signals: tuple[float, ...] = SETS["A"], starts: int = 10
) -> dict[float, Float[Tensor, "starts 2"]]:
    """When each of two concepts is half learned by SGD, by diversity sigma_1 of the first.

    Two layers W = U U^T in 64 dimensions, U normal, of size SCALE. Sizes and optimizer are the source's
    (arXiv 2410.08309): batches of 128 of 5,000 samples per cluster, rate 0.1, at most 40 epochs. The nets of
    its code are not: two layers of their own, with biases; an error that is a mean over the 64 outputs; one
    more cluster, at the origin; and what it calls sigma is a variance. Ours is a standard deviation.
    Times are the flow's: a step of L at rate r is 2 r.
    """
    found = {sigma: torch.zeros(starts, 2, dtype=torch.float64) for sigma in sigmas}
    for sigma in sigmas:
        sim = sb.Sim(signals, (sigma, 0.05), 64)
        for k in range(starts):
            generator = torch.Generator().manual_seed(1000 * seed + k)
            U = SCALE / 8 * torch.randn(64, 64, generator=generator, dtype=torch.float64)
            found[sigma][k] = _half_learned(U, sb.sample_loss(sim.sample(5000, generator), 128, generator))
    return found


def _half_learned(U: Tensor, loss: Callable[[Tensor], Tensor], rate: float = 0.1) -> Tensor:
    """When w_11 and w_22 of W = U U^T reach 1/2 under SGD on `loss` of W."""
    W = []
    for U in sb.descend(U, lambda U: loss(U @ U.T), rate, 40 * 2 * 5000 // 128):
        W.append((U @ U.T)[:2, :2])
        if bool((torch.stack(W).diagonal(dim1=1, dim2=2).amax(0) >= 0.5).all()):
            break
    return curves.learning_times(torch.stack(W), 2 * rate * torch.arange(len(W), dtype=torch.float64), 2)


def larger_rate_first(found: dict[float, Float[Tensor, "starts 2"]]) -> dict[float, tuple[int, int]]:
    """By sigma_1: in how many starts the concept of the larger rate is learned first, and of how many."""
    return {
        sigma: (int(((at[:, 0] < at[:, 1]) == (sigma > CROSSING)).sum()), len(at))
        for sigma, at in found.items()
    }


def order_of_concepts(
    sigmas: Sequence[float], signals: tuple[float, ...] = SETS["A"]
) -> dict[float, tuple[float, float]]:
    """The same in two dimensions: w_pp is a logistic function of rate 2 a_p, whatever the other does.

    From W(0) = SCALE^2 I nothing couples, so the larger rate is first by construction: an explanation of
    `order_in_sgd`, no evidence.
    """
    times, start = torch.linspace(0, 20, 401, dtype=torch.float64), SCALE**2 * torch.eye(2).double()
    found = {}
    for sigma in sigmas:
        rates = sb.Sim(signals, (sigma, 0.05), 2).rates
        W = torch.stack(list(sb.two_layer_flow(start, rates, times)))
        first, second = curves.learning_times(W, times, 2).tolist()
        found[sigma] = (first, second)
    return found


def plot_order(
    found: dict[float, tuple[float, float]], in_sgd: dict[float, Float[Tensor, "starts 2"]]
) -> Figure:
    """The two learning times against sigma_1 (lines: two dimensions; dots: SGD), and the crossing."""
    figure, axis = plt.subplots(figsize=(5.8, 3))
    first, second = zip(*found.values(), strict=True)
    axis.plot(list(found), first, color=plotting.PALETTE["orange"])
    axis.plot(list(found), second, color=plotting.PALETTE["blue"])
    for sigma, at in in_sgd.items():
        for times, offset, hue in zip(at.T, (-0.012, 0.012), ("orange", "blue")):
            place = [sigma + offset] * len(times)
            axis.plot(place, times, "o", ms=3, alpha=0.6, color=plotting.PALETTE[hue])
    axis.axvline(CROSSING, color="black", ls=":")
    axis.text(2.05, first[-1], "concept 1", color=plotting.PALETTE["orange"], va="center")
    axis.text(2.05, second[-1], "concept 2", color=plotting.PALETTE["blue"], va="center")
    axis.text(CROSSING - 0.03, max(first), "$a_1=a_2$", ha="right", va="top")
    axis.set(
        xlabel=r"diversity $\sigma_1$ of concept 1",
        ylabel="half learned at time",
        xlim=(0, 2.6),
        ylim=(0, None),
    )
    return figure
