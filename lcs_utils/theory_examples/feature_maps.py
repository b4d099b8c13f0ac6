"""Feature space: the angle test of eq. (3), Corollary 1, Claim 2 and App. D, as notebook 02b shows them.

Everything is exact or by quadrature, in float64; divergences are in nats.
"""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from jaxtyping import Float
from matplotlib import pyplot as plt
from matplotlib.figure import Figure
from torch import Tensor

from lcs_utils import diffusion, features, plotting
from lcs_utils.theory import approximate_cpc, cpc, feature_cpc, feature_space, lcs, results
from lcs_utils.theory.distributions import GaussianMixture, gaussian

EXACT, OFF = 1e-6, 0.3  # Corollary 1: largest gap, as a share of the score; least gap of pixel blocks
SIGMAS = tuple(torch.logspace(-1.5, 2, 15).tolist())  # of Claim 2
CASES = approximate_cpc.DIALS | {"CPC, sheared": approximate_cpc.DIALS["CPC"]}
TURN = torch.tensor([[0.8, -0.6], [0.6, 0.8]], dtype=torch.float64)
MIX = torch.tensor([[1.0, 0.8], [-0.3, 1.5]], dtype=torch.float64)  # invertible, not orthogonal

QUARTER = torch.tensor([[0.0, -1.0], [1.0, 0.0]], dtype=torch.float64)  # a quarter turn


def angles() -> dict[str, Float[Tensor, "conditions conditions"]]:
    """Eq. (3): cosines between the mean differences of three conditions, in four families.

    A composition, a shared light (dependent blocks, orthogonal differences), a spill, and the composition
    seen through a shear.
    """
    eye = torch.eye(8, dtype=torch.float64)
    shear, cosines = eye + 0.5 * torch.ones_like(eye).triu(1), {}
    for name, dials in CASES.items():
        view = shear if "sheared" in name else eye
        family = approximate_cpc.coupled_family(*dials)[0]
        empty, *means = [view @ family(frozenset(J)).mean for J in ((), (0,), (1,), (2,))]
        differences = features.mean_difference_vectors([mean[None] for mean in means], empty[None])
        cosines[name] = features.cosine_similarity(differences)
    return cosines


def dependence_under_light() -> float:
    """Nats between the shared light's law and its blocks made independent, at three conditions (eq. (4))."""
    lit = approximate_cpc.coupled_family(*approximate_cpc.DIALS["shared light"])
    return results.independent_blocks_divergence(*lit, (0, 1, 2))


def plot_angles(cosines: dict[str, Tensor]) -> Figure:
    """One matrix of cosines per family, each entry written into its cell."""
    figure, axes = plt.subplots(1, len(cosines), figsize=(8.4, 2.4))
    for axis, (name, cosine) in zip(axes, cosines.items()):
        shown = axis.imshow(cosine, vmin=-1, vmax=1, cmap="PuOr")
        axis.set(title=name, xticks=range(3), yticks=range(3), xlabel="condition")
        axis.grid(False)
        for i, j in torch.cartesian_prod(torch.arange(3), torch.arange(3)).tolist():
            value = round(float(cosine[i, j]), 1) + 0.0  # no "-0"
            axis.text(
                j, i, f"{value:g}", ha="center", va="center", color="white" if abs(value) > 0.5 else "black"
            )
    axes[0].set_ylabel("condition")
    figure.colorbar(shown, ax=axes, label="cosine", shrink=0.8, pad=0.01)
    return figure


class Corollary(NamedTuple):
    """Corollary 1: the largest gap, as a share of the score, for each map; and with pixel blocks instead."""

    gaps: dict[str, float]
    pixel_blocks: float


def corollary_1(seed: int) -> Corollary:
    """Corollary 1 in the plane for an orthogonal, a linear and a smooth map, at five noise levels.

    The LCS in z = A(x) against the score of the noised pushforward, by quadrature in pixel space; and the
    same law at the pixels x = A^-1 z with pixel blocks, where it is not a composition.
    """
    bumps = GaussianMixture([0.5, 0.5], [[-1.0], [1.0]], torch.full((2, 1, 1), 0.3))
    background, second = gaussian([0.0, 0.5], [[1.0, 0.3], [0.3, 0.6]]), gaussian([1.5], [[0.4]])
    M, J = {"u": (0,), "v": (1,)}, ("u", "v")
    plane = cpc.ConditionalProjectiveComposition(M, background, {"u": bumps, "v": second})
    levels = torch.tensor([0.001, 0.03, 0.3, 1.0, 10.0], dtype=torch.float64)
    generator = torch.Generator().manual_seed(seed)
    z = diffusion.add_noise(plane(J).sample(5, generator), levels, generator)
    maps = {
        "orthogonal": feature_cpc.LinearMap(TURN),
        "linear": feature_cpc.LinearMap(MIX),
        "smooth": feature_cpc.CouplingMap(),
    }
    gaps = {
        name: _gap(feature_space.corollary_1(feature_cpc.FeatureCPC(plane, A), z, levels, J))
        for name, A in maps.items()
    }
    turned = maps["orthogonal"]
    pixels_of, x = feature_cpc.FeatureCPC(plane, turned).pixels, turned.inverse(z)
    local = lcs.local_conditional_score(pixels_of, x, levels, lcs.lemma_1_subsets(M, 2, J))
    return Corollary(gaps, _gap(results.Sides(local, pixels_of(J).score(x, levels))))


def _gap(sides: results.Sides) -> float:
    return float(((sides.left - sides.right).norm(dim=1) / sides.right.norm(dim=1)).max())


def claim_2(sigmas: Sequence[float]) -> dict[str, feature_space.Claim2]:
    """Claim 2's five readings for one Gaussian of two pixels, for a linear map and an orthogonal one."""
    pixels = gaussian([1.0, -0.5], [[1.0, 0.4], [0.4, 0.6]])
    return {name: feature_space.claim_2(pixels, A, sigmas) for name, A in (("linear", MIX), ("turn", TURN))}


def plot_claim_2(sigmas: Sequence[float], found: feature_space.Claim2) -> Figure:
    """The five readings against the noise level: which of them vanish at high noise, and which do not."""
    words = ("KL of distributions", "score gap", "score gap / score", "denoiser gap", "KL to $N_t[p]$")
    hues = [plotting.PALETTE[name] for name in ("blue", "orange", "green", "vermilion", "purple")]
    height = {"KL of distributions": 1.7, "score gap / score": 0.6, "score gap": 1.5, "KL to $N_t[p]$": 0.7}
    figure, axis = plt.subplots(figsize=(6.6, 3.6))
    for name, values, color in zip(words, found, hues, strict=True):
        falls = values[-1] < 0.01 * max(values)
        axis.loglog(sigmas, values, "-" if falls else "--", color=color)
        end = (1.2 * sigmas[-1], values[-1] * height.get(name, 1.0))
        axis.text(*end, name, color=color, va="center")
    axis.text(0.04, 0.9, "dashed: does not vanish", transform=axis.transAxes)
    axis.set(
        xlabel="noise level σ", ylabel="KL (nats), squared gap or ratio", xlim=(sigmas[0], 60 * sigmas[-1])
    )
    axis.set_ylim(1e-7, 30)
    axis.set_xticks([0.1, 1, 10, 100])
    return figure


def one_map(switches: Sequence[float]) -> dict[str, feature_space.Transforms]:
    """App. D: sampling a Gaussian with ONE map where a time-dependent one is needed, by where it switches.

    A linear map A at every switch, and two nulls in its place, which know the mean and the features' law: no
    map, and A followed by a quarter turn; an orthogonal A, which needs no time, at all noise levels.
    """
    z, none = gaussian([0.0, 1.5], [[1.2, 0.0], [0.0, 0.4]]), torch.eye(2, dtype=torch.float64)
    return {
        "linear": feature_space.single_transform(z, MIX, switches),
        "no map": feature_space.single_transform(z, MIX, switches, used=none),
        "wrong map": feature_space.single_transform(z, MIX, switches, used=QUARTER @ MIX),
        "turn": feature_space.single_transform(z, TURN, [0.0]),
    }


def plot_one_map(switches: Sequence[float], found: dict[str, feature_space.Transforms]) -> Figure:
    """What a single map costs when used above or below each switch, beside no map, a wrong one and A_t."""
    figure, axis = plt.subplots(figsize=(6.4, 3.8))
    blue, red, green, purple = (plotting.PALETTE[name] for name in ("blue", "vermilion", "green", "purple"))
    one = found["linear"]
    above = (
        ("wrong map", "a wrong map above", purple, 1.3, "bottom"),
        ("linear", "one A above the switch", blue, 1.2, "bottom"),
        ("no map", "no map above", green, 0.8, "top"),
    )
    for name, words, color, height, side in above:
        curve = found[name].above
        axis.loglog(switches, curve, color=color)
        axis.text(switches[0], height * curve[0], words, color=color, va=side)
    axis.loglog(switches, one.below, color=red)
    axis.axhline(one.time_dependent, color="black", ls=":")
    axis.text(switches[-1], 1.6 * one.below[-1], "one A below the switch", color=red, ha="right")
    axis.text(switches[0], 0.85 * one.time_dependent, "$A_t$ at all levels: the exact score", va="top")
    axis.set(xlabel="switch at noise level σ", ylabel="KL from the distribution (nats)")
    axis.set_ylim(0.35 * one.time_dependent, 3 * max(found["wrong map"].above))
    return figure
