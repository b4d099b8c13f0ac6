"""Lemma 1 on images: conditions paint squares on a smooth random background, and every score is exact.

`three_squares` is the composition of notebook 01. All draws come from the `seed` given, float64 throughout.
"""

from collections.abc import Mapping, Sequence
from itertools import chain, combinations
from typing import Any, NamedTuple

import torch
from jaxtyping import Float, Int
from matplotlib import pyplot as plt
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from torch import Tensor

from lcs_utils import diffusion, plotting
from lcs_utils.theory import lcs, lcs_alternatives, results, windows
from lcs_utils.theory.approximate_cpc import DIALS, coupled_family
from lcs_utils.theory.cpc import ConditionalProjectiveComposition
from lcs_utils.theory.distributions import GaussianMixture, gaussian

SIDE = 9  # of the images, in pixels
CORNERS = {"a": (1, 1), "b": (2, 5), "c": (5, 3)}  # (row, column) of each condition's square
EXACT, MISREAD, WRONG = 1e-10, 0.01, 0.1  # gaps: rounding; a misread block's, of the score; in nats
FLOOR = -6.0  # log10 of the influence that is drawn black


def square_pixels(corners: Mapping[Any, tuple[int, int]], width: int) -> dict[Any, tuple[int, ...]]:
    """M: the flat indices, in [3 SIDE SIDE], of a square of `width` pixels for each condition (Def. 2)."""
    index = torch.arange(3 * SIDE**2).reshape(3, SIDE, SIDE)
    return {
        j: tuple(index[:, row : row + width, column : column + width].flatten().tolist())
        for j, (row, column) in corners.items()
    }


def smooth_background() -> GaussianMixture:
    """p(x | {}): gray with noise that is correlated between near pixels and between the three channels."""
    axis = torch.arange(SIDE, dtype=torch.float64)
    place = torch.cartesian_prod(torch.arange(3, dtype=torch.float64), axis, axis)  # channel, row, column
    nearness = torch.exp(-torch.cdist(place[:, 1:], place[:, 1:]).square() / 8)
    same_channel = (place[:, :1] == place[:, 0]).double()
    cov = 0.01 * nearness * (0.6 + 0.4 * same_channel) + 1e-3 * torch.eye(len(place), dtype=torch.float64)
    return gaussian(torch.zeros(len(place), dtype=torch.float64), cov)


def three_squares() -> ConditionalProjectiveComposition:
    """A CPC (Def. 2): each of a, b, c paints its own square of 3 x 3 pixels red, green or blue."""
    tints = 0.9 * (2 * torch.eye(3, dtype=torch.float64) - 1)
    cov = 0.02 * torch.eye(27, dtype=torch.float64) + 0.01
    square = GaussianMixture(torch.ones(3) / 3, tints.repeat_interleave(9, -1), cov.expand(3, 27, 27))
    blocks = square_pixels(CORNERS, 3)
    return ConditionalProjectiveComposition(blocks, smooth_background(), {j: square for j in blocks})


def relative_gap(sides: results.Sides) -> Float[Tensor, "batch"]:
    """The largest difference of two scores in each row, as a share of the largest entry of the right one."""
    return (sides.left - sides.right).abs().amax(1) / sides.right.abs().amax(1)


def lemma_1_gaps(
    cpc: ConditionalProjectiveComposition, levels: int, seed: int
) -> dict[str, Float[Tensor, "levels"]]:
    """Lemma 1: `relative_gap` of local score and joint score, for every set of conditions, by noise level.

    One draw at each of the sampler's `levels` noise levels; the sets are named as "{}", "a", "ab", ...
    """
    sigmas, generator = diffusion.karras_sigmas(levels)[:-1], torch.Generator().manual_seed(seed)
    sets = chain.from_iterable(combinations(cpc.M, k) for k in range(len(cpc.M) + 1))
    gaps = {}
    for J in sets:
        x_t = diffusion.add_noise(cpc(J).sample(levels, generator), sigmas, generator)
        gaps["".join(J) or "{}"] = relative_gap(results.lemma_1(cpc, x_t, sigmas, J))
    return gaps


def largest_gap(gaps: Mapping[str, Float[Tensor, "levels"]]) -> float:
    """The next power of ten above every gap, at least 1e-12: below that all is rounding."""
    return max(1e-12, power_above(max(gap.max() for gap in gaps.values())))


def power_above(gap: float | Tensor) -> float:
    """The next power of ten: the size of a rounding error, whose digits differ between machines."""
    return 10.0 ** float(torch.as_tensor(gap, dtype=torch.float64).log10().ceil())


class Structure(NamedTuple):
    """Fig. 3 in numbers: an image, who owns each pixel (0: background), and the influence at each probe."""

    image: Float[Tensor, "3 side side"]
    owner: Int[Tensor, "side side"]
    probes: dict[str, tuple[int, int]]
    influence: Float[Tensor, "probes side side"]

    @property
    def outside(self) -> float:
        """The largest influence on a probe from outside its own block."""
        rows, columns = zip(*self.probes.values(), strict=True)
        foreign = self.owner != self.owner[list(rows), list(columns)][:, None, None]
        return float(self.influence[foreign].max())


def structure(cpc: ConditionalProjectiveComposition, sigma: float, seed: int) -> Structure:
    """Fig. 3 for J = {a, b}: eq. (9) of the exact joint denoiser, which knows nothing of blocks.

    Probes lie in M_a, in M_b and in the square of the inactive c, which is background.
    """
    generator, level = torch.Generator().manual_seed(seed), torch.tensor([sigma], dtype=torch.float64)
    joint, x = cpc(["a", "b"]).joint(), cpc(["a", "b"]).sample(1, generator)
    jacobian = torch.autograd.functional.jacobian(lambda v: joint.denoise(v, level)[0], x)[:, 0]
    influence = jacobian.reshape(3, SIDE, SIDE, 3, SIDE, SIDE).abs().mean((0, 3))  # mean over channel pairs
    owner = torch.zeros(SIDE**2, dtype=torch.long)
    for number, j in enumerate("ab", 1):
        owner[[i for i in cpc.M[j] if i < SIDE**2]] = number
    probes = {"u in $M_a$": (2, 2), "u in $M_b$": (3, 6), "u in $M_c$, c inactive": (6, 4)}
    maps = torch.stack([influence[row, column] for row, column in probes.values()])
    return Structure(x.reshape(3, SIDE, SIDE), owner.reshape(SIDE, SIDE), probes, maps)


def plot_structure(found: Structure) -> Figure:
    """The image with its squares outlined, then the influence map of each probe (a cross), log scale."""
    figure, axes = plt.subplots(1, 4, figsize=(8.4, 2.5))
    axes[0].imshow(plotting.to_uint8(found.image))
    axes[0].set_title("image given $c_a, c_b$")
    maps = found.influence.clamp_min(1e-9).log10()
    for axis, title, (row, column), one in zip(axes[1:], found.probes, found.probes.values(), maps):
        shown = axis.imshow(one, vmin=FLOOR, vmax=0, cmap="magma")
        axis.plot(column, row, "x", color="black", mew=2)
        axis.set_title(title)
    for axis in axes:
        axis.set(xticks=[], yticks=[])
        axis.grid(False)
        for j, (row, column) in CORNERS.items():
            style = {"ls": ":" if j == "c" else "-", "ec": "white", "fc": "none", "lw": 1.2}
            axis.add_patch(plt.Rectangle((column - 0.5, row - 0.5), 3, 3, **style))
    for j, (row, column) in CORNERS.items():
        axes[0].text(column + 1, row + 1, f"$M_{j}$", color="white", ha="center", va="center")
    figure.colorbar(shown, ax=axes, label="log10 influence", shrink=0.9, pad=0.01)
    return figure


def denoised_frames(
    cpc: ConditionalProjectiveComposition, sigmas: Sequence[float], seed: int
) -> list[Figure]:
    """One figure per noise level: noisy image, denoised by the LCS, by the exact joint, their difference."""
    every, generator = list(cpc.M), torch.Generator().manual_seed(seed)
    local, full = lcs.local_conditional_denoiser(cpc, cpc.subsets), cpc(every).joint()
    x0 = cpc(every).sample(1, generator)
    eps = torch.randn(x0.shape, generator=generator, dtype=torch.float64)
    frames = []
    for sigma in sigmas:
        x_t, level = x0 + sigma * eps, torch.tensor([sigma], dtype=torch.float64)
        ours, exact = local(x_t, level, every), full.denoise(x_t, level)
        pictures = [x_t / (1 + sigma**2) ** 0.5, ours, exact, ours - exact]
        titles = [f"noisy, σ = {sigma:.2f}", "LCS", "exact", "LCS − exact"]
        row = [picture.reshape(3, SIDE, SIDE) for picture in pictures]
        frames.append(plotting.image_grid([row], (), titles, cell=1.7))
    return frames


class Breaks(NamedTuple):
    """Gaps of two readings of an inactive block by noise level."""

    sigmas: list[float]
    lemma: list[float]  # c's square read as background, as in Lemma 1
    misread: list[float]  # c's square looks at itself only, the rest of the background at the rest


def breaks(cpc: ConditionalProjectiveComposition, levels: int, seed: int) -> Breaks:
    """Lemma 1 at J = {a, b}, and with a misread inactive block."""
    J, sigmas = frozenset("ab"), diffusion.karras_sigmas(levels)[:-1]
    generator = torch.Generator().manual_seed(seed)
    x_t = diffusion.add_noise(cpc(J).sample(levels, generator), sigmas, generator)
    wrong = lcs_alternatives.inactive_block_subsets(cpc.M, cpc.n, J)
    gaps = [relative_gap(results.lemma_1(cpc, x_t, sigmas, J, subsets)) for subsets in (None, wrong)]
    return Breaks(sigmas.tolist(), *(gap.tolist() for gap in gaps))


def converses(seed: int) -> dict[str, results.Converse]:
    """The converse of Lemma 1 at one J and sigma = 0.5 for a CPC, a shared light and a spill (`DIALS`).

    All three conditions are active. Of 16 pairs of points of the noised law the one where the local score is
    most wrong is returned. This is our check; the paper proves one direction.
    """
    generator, found = torch.Generator().manual_seed(seed), {}
    for name, dials in DIALS.items():
        family, M = coupled_family(*dials)
        pairs = zip(*family(frozenset(M)).noised(0.5).sample(32, generator).split(16), strict=True)
        each = [results.converse(family, M, M, *pair, sigma=0.5) for pair in pairs]
        found[name] = max(each, key=lambda of: round(of.gap, 9))  # rounding chooses none
    return found


def equivalent(found: Mapping[str, results.Converse]) -> bool:
    """Whether every local score integrates to eq. (2)'s product, and the CPC's alone to its own law."""
    integrates = all(abs(of.local - of.product) < EXACT for of in found.values())
    broken = min(of.gap for name, of in found.items() if name != "CPC")
    return integrates and found["CPC"].gap < EXACT < WRONG < broken


def plot_gaps(gaps: Mapping[str, Tensor], found: Breaks) -> Figure:
    """Difference from the exact score by noise level: Lemma 1 for every set of conditions, and misread."""
    figure, axis = plt.subplots(figsize=(6.4, 3.2))
    for gap in gaps.values():
        axis.loglog(found.sigmas, gap.clamp_min(1e-17), color=plotting.PALETTE["blue"], lw=1)
    axis.loglog(found.sigmas, found.misread, color=plotting.PALETTE["vermilion"])
    axis.set(xlabel="noise level σ", ylabel="gap, share of the score", ylim=(1e-17, 10))
    say = {"ha": "center", "transform": axis.transAxes}
    axis.text(0.72, 0.92, "inactive block misread: wrong", color=plotting.PALETTE["vermilion"], **say)
    axis.text(0.5, 0.32, "Lemma 1, all sets of conditions: rounding", color=plotting.PALETTE["blue"], **say)
    return figure


class Windows(NamedTuple):
    """The smallest radius of N_i that keeps 99% of the score, and of the denoiser, by noise level; what the
    denoiser's windows miss.
    """

    sigmas: list[float]
    score: list[int]
    denoiser: list[int]
    missed: list[float]


def growing_windows(sigmas: Sequence[float], seed: int, pixels: int = 48, draws: int = 200) -> Windows:
    """Subsets that change with t (Def. 1): windows of a row of `pixels` with correlations that decay.

    `missed` is measured on `draws` noisy rows per level, as a share of the exact denoiser's energy.
    """
    place = torch.arange(pixels)
    p = gaussian(torch.zeros(pixels, dtype=torch.float64), 0.9 ** (place[:, None] - place).abs().double())
    score, radii = ([windows.smallest_window(p, sigma, of=of) for sigma in sigmas] for of in windows.OF)
    radius = dict(zip(sigmas, radii, strict=True))

    def subsets(J, sigma):
        return lcs_alternatives.window_subsets(pixels, radius[sigma])

    local = lcs.local_conditional_denoiser(lambda J: p, subsets, by_noise=True)
    generator = torch.Generator().manual_seed(seed)
    levels = torch.tensor(list(sigmas), dtype=torch.float64).repeat_interleave(draws)
    x_t = diffusion.add_noise(p.sample(len(levels), generator), levels, generator)
    exact = p.denoise(x_t, levels)
    error = (local(x_t, levels, ()) - exact).square().sum(1).reshape(-1, draws).mean(1)
    energy = exact.square().sum(1).reshape(-1, draws).mean(1)
    return Windows(list(sigmas), score, radii, (error / energy).tolist())


def plot_windows(found: Windows) -> Figure:
    """The radius of the smallest sufficient window against the noise level, of the denoiser and the score."""
    figure, axis = plt.subplots(figsize=(6.0, 3.0))
    for name, color, words in (
        ("denoiser", "blue", "of the denoiser"),
        ("score", "vermilion", "of the score"),
    ):
        radii, hue = getattr(found, name), plotting.PALETTE[color]
        axis.semilogx(found.sigmas, radii, plotting.MARKERS[hue] + "-", color=hue)
        axis.text(1.15 * found.sigmas[-1], radii[-1], words, color=hue, va="center")
    axis.set(xlabel="noise level σ", ylabel="radius of $N_i$ (pixels)", xlim=(None, 8 * found.sigmas[-1]))
    axis.set_xticks([0.1, 1])
    axis.yaxis.set_major_locator(MaxNLocator(integer=True))
    return figure
