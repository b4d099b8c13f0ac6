"""Figs. 2, 10 and 12 as rows of pictures for `plotting.image_grid`, drawn with the explorer's maps."""

from collections.abc import Mapping, Sequence

import numpy as np

from lcs_utils import locality
from lcs_utils.widgets import maps
from lcs_utils.widgets.drawing import Sheet, heat
from lcs_utils.widgets.maps import Maps, View


def nearest(values: Sequence[float], wanted: Sequence[float]) -> list[int]:
    """Indices of the `values` closest to each of `wanted`."""
    return [min(range(len(values)), key=lambda i: abs(values[i] - w)) for w in wanted]


def _image(picture: np.ndarray) -> np.ndarray:
    return picture.transpose(2, 0, 1)


def fig02(found: Maps, view: View, noises: Sequence[int]) -> tuple[list, list[str], dict]:
    """A row per net: denoised image, pixel map, condition map at each noise level; column labels; numbers (Fig. 2)."""
    columns = [f"{what}\nσ = {found.sigmas[i]:g}" for i in noises for what in ("denoised", "pixels", "conditions")]
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
    return rows, columns, numbers


def fig10(found: Maps, view: View, noises: Sequence[int]) -> tuple[list, list[str], list[str], list[str], dict]:
    """Nets beside each other, each over noise: pixel maps with the 90 % square, a row for each condition (Fig. 10).

    Returns rows, row labels, column labels, the nets as headings of groups of columns, numbers.
    """
    rows, columns, numbers = [[] for _ in range(1 + len(view.cells))], [], {}
    for net in found.nets:
        states = [view._replace(noise=noise) for noise in noises]
        panels = [found.panel(net, state) for state in states]
        rows[0] += [_image(maps.pixel_map(p, s, 4)) for p, s in zip(panels, states)]
        for k in range(len(view.cells)):
            rows[1 + k] += [_image(maps.relative(p.conditions, k, s, 4)) for p, s in zip(panels, states)]
        columns += [f"σ = {found.sigmas[i]:g}" for i in noises]
        heard = [p.conditions[:, view.target[0], view.target[1]] for p in panels]
        numbers[net] = {"window": [p.window for p in panels], "influence_at_target": heard}
    labels = ["pixels", *(f"condition {k + 1}" for k in range(len(view.cells)))]
    return rows, labels, columns, list(found.nets), numbers


def _boxed(influence: np.ndarray, side: int, target: tuple[int, int] = (16, 16), scale: int = 4) -> np.ndarray:
    """An influence map with the square of `side` pixels around the target."""
    r, sheet = side // 2, Sheet(*influence.shape, scale)
    sheet.panel(heat(influence), 0, 0)
    sheet.square((target[0] - r, target[1] - r, target[0] + r + 1, target[1] + r + 1), (0, 0, *influence.shape))
    return _image(sheet.array())


def fig12(profiles: Mapping[str, Sequence[locality.Profile]]) -> tuple[list, list[str]]:
    """Two rows per net, its first image over noise: denoised, where the middle looks, with the 90 % square; row labels (Fig. 12)."""
    rows, labels = [], []
    for net, (first, *_) in profiles.items():
        rows += [list(first.x0_hat), [_boxed(p[0].numpy(), int(side[0])) for p, side in zip(first.pixels, first.windows)]]
        labels += [f"{net}: denoised", "pixel influence"]
    return rows, labels
