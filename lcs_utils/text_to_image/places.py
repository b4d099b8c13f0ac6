"""How far a place looks while a prompt is drawn: eq. (9) in latents, at the states of Fig. 6 (App. G)."""

import textwrap
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from math import isqrt
from typing import Any, NamedTuple

import matplotlib.pyplot as plt
import torch
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.colors import PowerNorm
from matplotlib.figure import Figure
from matplotlib.image import AxesImage
from matplotlib.patches import Rectangle
from torch import Tensor

from lcs_utils import locality
from lcs_utils.checks import check_count
from lcs_utils.plotting import to_uint8
from lcs_utils.text_to_image import standin
from lcs_utils.text_to_image.adapter import PromptDenoiser
from lcs_utils.text_to_image.data import decode
from lcs_utils.text_to_image.prompts import Study, sampling
from lcs_utils.text_to_image.training import SIZE

SHARE = 0.9  # of the energy that a square holds (App. F)
RED = "#FF3030"  # targets
NAMES = "abcdefghi"  # of targets
KEY = (
    "red: a target, one for each column\n"
    "white square: holds 90% of the\nsquared influence on the target\n"
    "above each map: its side in latents"
)
BARE = "\n(in brackets: before any training)"


class Looked(NamedTuple):
    """eq. (9) of some targets at one noise level, the sides of their 90% squares in latents, and the sides
    at the same state of what a net that learned nothing computes, its `noise` (none if it was not asked).
    """

    sigma: float
    maps: Float[Tensor, "targets height width"]
    sides: list[int]
    untrained: list[int]


def grid_targets(height: int, width: int, each: int = 2) -> list[tuple[int, int]]:
    """The middles (row, column) of `each` x `each` equal parts of the latents, the same for every prompt."""
    check_count("each", each, 1, min(height, width, 3))
    return [
        ((2 * i + 1) * height // (2 * each), (2 * j + 1) * width // (2 * each))
        for i in range(each)
        for j in range(each)
    ]


@contextmanager
def checkpointed(unet: Any) -> Iterator[None]:
    """Inside, gradients recompute each block instead of keeping what it computed: SDXL at 1024 px fits."""
    before = unet.is_gradient_checkpointing
    unet.enable_gradient_checkpointing()
    try:
        yield
    finally:
        if not before:
            unet.disable_gradient_checkpointing()


def influence(
    denoiser: PromptDenoiser,
    x_t: Tensor,
    sigma: float,
    text: str,
    targets: Sequence[tuple[int, int]],
    of_noise: bool = False,
) -> Float[Tensor, "targets height width"]:
    """eq. (9) of a prompt's denoiser, or of its `noise`, one target at a time, in single precision around a
    net of any."""
    cond, net = denoiser.condition(text), denoiser.noise if of_noise else denoiser
    with checkpointed(denoiser.pipeline.unet):
        found = locality.pixel_influence(net, x_t.float(), sigma, cond, targets, chunk=1)
    return found.cpu()


def looks(
    denoiser: PromptDenoiser,
    study: Study,
    text: str,
    seed: int = 0,
    untrained: PromptDenoiser | None = None,
    each: int = 2,
) -> tuple[Float[Tensor, "channels height width"], list[Looked]]:
    """A sample's latents, and eq. (9) at `grid_targets` before the steps `study.at`, the moments of Fig. 6.

    Choice: guidance draws the sample, but eq. (9) is of the net without it, as eq. (10) is in `words_heard`.
    """
    targets = grid_targets(*denoiser.latent_shape[1:], each)
    found, x = [], None
    for moment in sampling(denoiser, text, study.steps, study.guidance, 1, seed):
        x = moment.x_t[0]
        if moment.step not in study.at:
            continue
        nets = [denoiser] if untrained is None else [denoiser, untrained]
        maps = [influence(net, x, moment.sigma, text, targets, net is untrained) for net in nets]
        sides = [locality.locality_window(of, targets, SHARE).tolist() for of in maps]
        found.append(Looked(moment.sigma, maps[0], sides[0], sides[1] if untrained else []))
    return x, found


def bare(study: Study, seed: int = 0, device: str = "cpu") -> PromptDenoiser:
    """The small model before any training, where the trained one is: the null of `looks`."""
    return PromptDenoiser(standin.untrained(SIZE, seed).to(device), study.side, study.side)


def side_of_all_alike(targets: Sequence[tuple[int, int]], height: int, width: int) -> float:
    """Mean side of the targets' squares if each depends on all latents alike: no locality."""
    alike = torch.ones(len(targets), height, width)
    return float(locality.locality_window(alike, targets, SHARE).double().mean())


def numbers(texts: Sequence[str], found: Sequence[tuple[Tensor, list[Looked]]]) -> dict[str, Any]:
    """{prompt: {sigma: {"side", "untrained": one number per target}}}, the targets, and all alike."""
    height, width = found[0][1][0].maps.shape[1:]
    targets = grid_targets(height, width, isqrt(len(found[0][1][0].maps)))
    said: dict[str, Any] = {"targets": targets, "latents": [height, width]}
    said["all latents alike"] = side_of_all_alike(targets, height, width)
    for text, (_, moments) in zip(texts, found, strict=True):
        of = {f"{m.sigma:.3g}": {"side": m.sides, "untrained": m.untrained} for m in moments}
        said.setdefault("prompts", {})[text] = of
    return said


def _mean(values: Sequence[int]) -> str:
    """`7.2 (5 to 11)`, or a dash."""
    return f"{sum(values) / len(values):.1f} ({min(values)} to {max(values)})" if values else "–"


def words(said: dict[str, Any]) -> str:
    """A table of the squares' sides by noise level, over prompts and targets, and whether places look less
    far than if all latents counted alike: the paper's "spatial locality is present".
    """
    each, alike = said["prompts"], said["all latents alike"]
    sigmas = list(next(iter(each.values())))
    sides, null = (
        {sigma: [side for of in each.values() for side in of[sigma][what]] for sigma in sigmas}
        for what in ("side", "untrained")
    )
    number = len(sides[sigmas[0]])
    lines = ["| side of the 90% square, latents | " + " | ".join(f"σ = {sigma}" for sigma in sigmas) + " |"]
    lines += ["|---" * (len(sigmas) + 1) + "|"]
    lines += [f"| this model, mean (least to most) of {number} | {_row(sides)} |"]
    lines += [f"| before any training, the same states | {_row(null)} |"] if null[sigmas[0]] else []
    lines += ["| all latents alike | " + " | ".join(f"{alike:.1f}" for _ in sigmas) + " |", ""]
    held = [sigma for sigma in sigmas if max(sides[sigma]) < alike]
    at = f"at σ = {', '.join(held)}" if held else "at no noise level"
    lines += [f"Every place looks less far than one that depends on all latents alike {at}."]
    if null[sigmas[0]]:
        wider = [s for s in sigmas if sum(sides[s]) > sum(null[s])]
        at = f"at σ = {', '.join(wider)}" if wider else "at no noise level"
        lines += [f"On average it looks farther than before any training {at}."]
    return "\n".join(lines)


def _row(of: dict[str, list[int]]) -> str:
    return " | ".join(_mean(values) for values in of.values())


def plot_looks(denoiser: PromptDenoiser, text: str, latents: Tensor, found: Sequence[Looked]) -> Figure:
    """The pixel half of Fig. 6: a prompt's picture with its targets, and eq. (9) of each by noise level, as a
    share of its largest value, with the 90% square and its side, in brackets before any training.
    """
    height, width = found[0].maps.shape[1:]
    targets = grid_targets(height, width, isqrt(len(found[0].maps)))
    figure = plt.figure(figsize=(1.7 * (len(targets) + 2), 1.72 * len(found) + 0.4))
    lines = max(len(found), 2)  # the picture is above its key
    grid = figure.add_gridspec(lines, len(targets) + 2)
    shown = figure.add_subplot(grid[: lines // 2, :2])
    picture = to_uint8(decode(denoiser.pipeline.vae, latents[None])[0].float().cpu())
    shown.imshow(picture, interpolation="nearest", extent=(-0.5, width - 0.5, height - 0.5, -0.5))
    shown.set_title(textwrap.fill(text, 44), fontsize=11)
    for name, (row, column) in zip(NAMES, targets, strict=False):
        shown.plot(column, row, "o", color=RED, mec="white", ms=7)
        shown.annotate(name, (column, row), (6, 4), textcoords="offset points", color=RED, fontsize=14)
    for i, moment in enumerate(found):
        for j, (target, side) in enumerate(zip(targets, moment.sides, strict=True)):
            axes = figure.add_subplot(grid[i, j + 2])
            image = _map(axes, moment.maps[j], target, side)
            told = f"{side} ({moment.untrained[j]})" if moment.untrained else f"{side}"
            axes.set_title(f"{NAMES[j]}\n{told}" if i == 0 else told, fontsize=11, pad=3)
            if j == 0:
                axes.set_ylabel(f"σ = {moment.sigma:.2g}", fontsize=12)
    key = figure.add_subplot(grid[lines // 2 :, :2])
    key.text(0, 0.98, KEY + BARE * bool(found[0].untrained), fontsize=11, va="top")
    bar = figure.colorbar(image, cax=key.inset_axes((0.04, 0.2, 0.92, 0.06)), orientation="horizontal")
    bar.set_label("influence, share of each map's largest")
    for axes in (shown, key):
        axes.set_axis_off()
    return figure


def _map(axes: Axes, one: Tensor, target: tuple[int, int], side: int) -> AxesImage:
    """Draw one target's map, the target and its square."""
    (height, width), (row, column) = one.shape, target
    scaled = one / (float(one.max()) or 1.0)
    image = axes.imshow(scaled, cmap="viridis", norm=PowerNorm(0.5, 0, 1))  # its faint parts are wide
    corner = (column - side / 2, row - side / 2)
    axes.add_patch(Rectangle(corner, side, side, fill=False, ec="white", lw=1.4))
    axes.plot(column, row, ".", color=RED, ms=5)
    axes.set(xticks=[], yticks=[], xlim=(-0.5, width - 0.5), ylim=(height - 0.5, -0.5))
    axes.grid(False)
    return image
