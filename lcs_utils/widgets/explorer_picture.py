"""The locality explorer's picture (Fig. 2): a row of panels per net, and the words beside it."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import UInt8
from torch import Tensor

from lcs_utils.clevr.conditions import GRID_SIZE
from lcs_utils.models.local_patch import cell_size
from lcs_utils.plotting import to_uint8
from lcs_utils.widgets.drawing import Sheet, condition_sheet, lines
from lcs_utils.widgets.maps import Panel, View, condition_map, nearby_share, pixel_map, plain

COLUMNS = ("noisy", "denoised", "listens to pixels", "listens to conditions", "sample")
CONDITIONS = 3  # the column of the condition map
GAP = 2  # units (image pixels) between panels
LABEL, HEAD = 28, 5  # units for the label column and the header, where no browser writes them
NEAR = 2.2  # units from a disc's center, up and to the right, to its number


def layout(nets: int, size: int) -> tuple[int, int]:
    """Units (rows, columns) of the panels of `nets` nets, with a gap below and to the right of each."""
    return nets * (size + GAP), len(COLUMNS) * (size + GAP)


def locate(row: int, column: int, nets: int, size: int) -> tuple[int, int] | None:
    """The image pixel (row, column) at a unit of the picture, in any panel; None between panels."""
    rows, columns = layout(nets, size)
    inside = 0 <= row < rows and 0 <= column < columns
    if not inside or row % (size + GAP) >= size or column % (size + GAP) >= size:
        return None
    return row % (size + GAP), column % (size + GAP)


def marks(nets: int, view: View, size: int) -> list[tuple[float, float, str]]:
    """(row, column, number) of every condition next to its disc in every condition map, in units."""
    m, left = cell_size(size, GRID_SIZE), CONDITIONS * (size + GAP)
    found = []
    for i in range(nets):
        for k, cell in enumerate(view.cells):
            row, column = ((v + 0.5) * m for v in divmod(cell, GRID_SIZE))
            row, column = max(row - NEAR, 1.5), min(column + NEAR, size - 1.5)
            found.append((i * (size + GAP) + row, left + column, str(k + 1)))
    return found


def grid_marks(cells: Sequence[int]) -> list[tuple[float, float, str]]:
    """(row, column, number) at the center of every active cell of the grid, in cells."""
    return [(*(v + 0.5 for v in divmod(cell, GRID_SIZE)), str(k + 1)) for k, cell in enumerate(cells)]


def says(panel: Panel, view: View) -> list[tuple[str, bool]]:
    """The words beside a net's row: lines, and whether each is bold."""
    share = f"{100 * nearby_share(panel, view):.0f}%" if view.cells else "nothing"
    return [
        (panel.title, True),
        (panel.subtitle, False),
        (f"90% in {panel.window} px", True),
        (f"{share} from near", True),
    ]


def render(panels: Sequence[Panel], view: View, sigma: float) -> UInt8[np.ndarray, "height width 3"]:
    """The explorer's panels (Fig. 2), a row per net: noisy image, denoised image, both maps, and a sample
    (gray if none).

    White square: 90% of the target's pixel influence. Discs: the conditions, filled by their share of the
    target's condition influence. A pixel of the condition map has the colors of the conditions it listens to.
    """
    size = panels[0].x_t.shape[-1]
    sheet = Sheet(*layout(len(panels), size), scale=max(1, 160 // size))
    for i, panel in enumerate(panels):
        # strong noise is scaled down: otherwise all its pixels would be fully on or off
        shown = [
            plain(panel.x_t / max(1.0, 2.5 * sigma), view, sheet.scale),
            plain(panel.x0_hat, view, sheet.scale),
            pixel_map(panel, view, sheet.scale),
            condition_map(panel, view, sheet.scale),
        ]
        for j, picture in enumerate(shown):
            sheet.picture(picture, i * (size + GAP), j * (size + GAP))
        gray = np.full((size, size, 3), 240, np.uint8)
        last = gray if panel.sample is None else to_uint8(panel.sample)
        sheet.panel(last, i * (size + GAP), (len(COLUMNS) - 1) * (size + GAP))
    return sheet.array()


def render_with_words(
    panels: Sequence[Panel], view: View, sigma: float
) -> UInt8[np.ndarray, "height width 3"]:
    """`render` with the words that a browser writes beside, above and on it, for readers without a kernel."""
    size = panels[0].x_t.shape[-1]
    rows, columns = layout(len(panels), size)
    sheet = Sheet(HEAD + rows, LABEL + columns, scale=max(1, 160 // size))
    sheet.picture(render(panels, view, sigma), HEAD, LABEL)
    sheet.text(f"noise σ = {sigma:g}", 0.8, 0.5, bold=True)
    for j, name in enumerate(COLUMNS):
        sheet.text(name, 0.8, LABEL + j * (size + GAP) + size / 2, anchor="ma")
    for i, panel in enumerate(panels):
        lines(sheet, says(panel, view), HEAD + i * (size + GAP) + 0.2, 0.5, 3.1)
    for row, column, number in marks(len(panels), view, size):
        sheet.number(number, HEAD + row, LABEL + column)
    return sheet.array()


def render_grid(scene: Tensor, cells: Sequence[int], scale: int = 8) -> UInt8[np.ndarray, "height width 3"]:
    """The condition grid over the scene: active cells outlined in their colors (Fig. 9)."""
    return condition_sheet(to_uint8(scene), cells, scale).array()
