"""Figs. 2, 10 and 12, drawn with the explorer's maps."""

from collections.abc import Mapping, Sequence

import numpy as np
import torch
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import FuncNorm
from matplotlib.figure import Figure
from torch import Tensor

from lcs_utils.clevr.conditions import GRID_SIZE
from lcs_utils.diffusion import Denoiser
from lcs_utils.locality_profile import Look, Profile, profile
from lcs_utils.plotting import image_grid, to_uint8
from lcs_utils.widgets import maps
from lcs_utils.widgets.drawing import Sheet, heat
from lcs_utils.widgets.maps import Maps, View


def closest(values: Sequence[float], wanted: Sequence[float]) -> list[int]:
    """Indices of the `values` closest to each of `wanted`."""
    return [min(range(len(values)), key=lambda i: abs(values[i] - w)) for w in wanted]


def _image(picture: np.ndarray) -> np.ndarray:
    return picture.transpose(2, 0, 1)


def fig02(found: Maps, view: View, noises: Sequence[int]) -> tuple[list, list[str], list[str], dict]:
    """A row per net: denoised image, pixel map, condition map at each noise level; row labels with the nets'
    size, column labels; numbers (Fig. 2).
    """
    columns = [
        f"{what}\nσ = {found.sigmas[i]:g}" for i in noises for what in ("denoised", "pixels", "conditions")
    ]
    rows, numbers = [], {}
    for net in found.nets:
        row, numbers[net] = [], {}
        for noise in noises:
            state = view._replace(noise=noise)
            panel = found.panel(net, state)
            drawn = [f(panel, state, 5, True) for f in (maps.pixel_map, maps.condition_map)]
            row += [_image(picture) for picture in (maps.plain(panel.x0_hat, state, 5), *drawn)]
            number = {"window": panel.window, "within_2": maps.nearby_share(panel, state)}
            numbers[net][f"{found.sigmas[noise]:g}"] = number
        rows.append(row)
    labels = ["\n".join([*net.split(": "), f"{found.resolution} px"]) for net in found.nets]
    return rows, labels, columns, numbers


def fig10(found: Maps, view: View, noises: Sequence[int]) -> tuple[Figure, dict]:
    """Pixel maps with the 90% square over noise, nets side by side, and a row for each condition; at the
    right the scene with target and conditions, and the scale. Returns the figure and its numbers (Fig. 10).
    """
    rows, columns, numbers = [[] for _ in range(1 + len(view.cells))], [], {}
    for net in found.nets:
        states = [view._replace(noise=noise) for noise in noises]
        panels = [found.panel(net, state) for state in states]
        rows[0] += [_image(_boxed(p.pixels.numpy(), p.window, view.target)) for p in panels]
        for k in range(len(view.cells)):
            rows[1 + k] += [_image(maps.relative(p.conditions, k, s, 4)) for p, s in zip(panels, states)]
        most = [float(panel.conditions.max()) for panel in panels]  # what is brightest in a column
        columns += [f"σ = {found.sigmas[i]:g}\nmax {one:.2g}" for i, one in zip(noises, most)]
        heard = [p.conditions[:, view.target[0], view.target[1]] for p in panels]
        numbers[net] = {"window": [p.window for p in panels], "influence_at_target": heard}
    labels = ["pixels", *(f"condition {k + 1}" for k in range(len(view.cells)))]
    room = 2.4
    nets = [f"{net}, {found.resolution} px" for net in found.nets]
    figure = image_grid(rows, labels, columns, cell=1.0, groups=nets, beside=room)
    width, height = figure.get_size_inches()
    side = room - 0.5
    axes = figure.add_axes(
        ((width - side - 0.05) / width, 1 - (side + 0.55) / height, side / width, side / height)
    )
    _scene(axes, found.scene(view.cells, view.seed), view)
    scale = figure.add_axes(((width - side) / width, 0.3 / height, 0.2 / width, 2.6 / height))
    shades = FuncNorm((np.sqrt, np.square), 0, 1)
    bar = figure.colorbar(ScalarMappable(shades, "inferno"), cax=scale, ticks=(0, 0.1, 0.5, 1))
    bar.set_label(
        "influence, as a share of the\nstrongest in its column (max)\n(pixels: of its own map)", fontsize=10
    )
    return figure, numbers


def _scene(axes: Axes, scene, view: View) -> None:
    """The scene with a number at each condition and a cross at the target."""
    size = scene.shape[-1]
    m = size // GRID_SIZE
    axes.imshow(to_uint8(scene))
    for k, cell in enumerate(view.cells):
        row, column = divmod(cell, GRID_SIZE)
        style = {"boxstyle": "circle,pad=0.2", "fc": "white", "ec": "black", "lw": 0.8}
        at = ((column + 0.5) * m - 0.5, (row + 0.5) * m - 0.5)
        axes.text(*at, str(k + 1), ha="center", va="center", fontsize=9, bbox=style)
    row, column = view.target
    axes.annotate(
        "target",
        (column, row),
        (column, row - 0.22 * size),
        fontsize=9,
        color="white",
        ha="center",
        arrowprops={"arrowstyle": "->", "color": "white", "shrinkB": 8},
    )
    axes.set(xticks=[], yticks=[], title="the scene, its conditions")
    axes.title.set_fontsize(10)
    axes.grid(False)


def _boxed(
    influence: np.ndarray, side: int, target: tuple[int, int] | None = None, scale: int = 4
) -> np.ndarray:
    """An influence map with the square of `side` pixels around the target, by default the middle."""
    target = target or (influence.shape[0] // 2, influence.shape[1] // 2)
    r, sheet = side // 2, Sheet(*influence.shape, scale)
    sheet.panel(heat(influence), 0, 0)
    sheet.square(
        (target[0] - r, target[1] - r, target[0] + r + 1, target[1] + r + 1), (0, 0, *influence.shape)
    )
    return sheet.array()


def fig12(
    first: Mapping[str, Profile | Look], sides: Mapping[str, Float[np.ndarray, "images sigmas"]]
) -> tuple[list, list[str], list[list[str]]]:
    """Two rows per net, its first image over noise: denoised, and the middle's influence with the 90%
    square; row labels; captions: the square's side here, and its mean over all images (Fig. 12).
    """
    rows, labels, captions = [], [], []
    for net, look in first.items():
        means = np.asarray(sides[net]).mean(0)
        said = [f"{int(side)} px, mean {mean:.0f}" for side, mean in zip(look.windows, means, strict=True)]
        captions += [[""] * len(said), said]
        rows += [
            list(look.x0_hat),
            [_image(_boxed(p[0].numpy(), int(side[0]))) for p, side in zip(look.pixels, look.windows)],
        ]
        labels += [f"{net}, {look.x0_hat.shape[-1]} px:\ndenoised", "pixel influence"]
    return rows, labels, captions


def middle_profiles(
    denoise: Denoiser, images: Sequence[Tensor], sigmas: Sequence[float], seed: int = 0
) -> list[Profile]:
    """Profiles of the middle pixel of each image over noise, without conditions (Fig. 12)."""
    found = []
    for i, x0 in enumerate(images):
        eps = torch.randn(x0.shape, generator=torch.Generator().manual_seed(seed + i))
        middle = [(x0.shape[-2] // 2, x0.shape[-1] // 2)]
        found.append(profile(denoise, x0, eps, sigmas, torch.zeros(GRID_SIZE**2), {}, middle))
    return found


def middle_sides(profiles: Sequence[Profile]) -> Float[Tensor, "images sigmas"]:
    """The sides of the 90% squares around the middle pixel, in pixels (Fig. 12)."""
    return torch.stack([profile.windows[:, 0] for profile in profiles]).double()
