"""Pictures made with numpy and Pillow only, fast enough to follow a slider: panels, heat maps, squares,
discs, text.
"""

from collections.abc import Sequence
from functools import lru_cache

import matplotlib
import numpy as np
from jaxtyping import Float, UInt8
from matplotlib.font_manager import findfont
from PIL import Image, ImageDraw, ImageFont

from lcs_utils.clevr.conditions import GRID_SIZE
from lcs_utils.plotting import PALETTE

INK, PAPER = (20, 20, 20), (255, 255, 255)
# Okabe and Ito's, then five more, each as far as possible from all before it in the worst case over normal,
# red-, green- and blue-blind vision: the twelve are as far apart as the seven were.
CONDITION_COLORS = tuple(
    tuple(int(color[i : i + 2], 16) for i in (1, 3, 5))
    for color in (
        *(PALETTE[name] for name in ("orange", "sky", "green", "yellow", "blue", "vermilion", "purple")),
        *("#8800FF", "#CCFFCC", "#773311", "#554455", "#99BB66"),
    )
)


def color_of(k: int) -> tuple[int, int, int]:
    """The color of the k-th condition; colors repeat from the 13th on, so show a number with it."""
    return CONDITION_COLORS[k % len(CONDITION_COLORS)]


@lru_cache
def font(size: int, bold: bool = False) -> ImageFont.FreeTypeFont:
    """DejaVu Sans, which ships with matplotlib, at `size` pixels."""
    return ImageFont.truetype(findfont("DejaVu Sans:bold" if bold else "DejaVu Sans"), size)


@lru_cache
def _heat_colors() -> np.ndarray:
    return (matplotlib.colormaps["inferno"](np.linspace(0, 1, 256))[:, :3] * 255).round()


def heat(
    influence: Float[np.ndarray, "height width"], top: float | None = None
) -> UInt8[np.ndarray, "height width 3"]:
    """Influence >= 0 as color, black for none: square root of its share of `top` (default: its maximum)."""
    top = influence.max() if top is None else top
    share = np.sqrt(influence / top) if top > 0 else np.zeros_like(influence)
    return _heat_colors()[(share * 255).astype(int)].astype(np.uint8)


def mix(influence: Float[np.ndarray, "removed height width"]) -> UInt8[np.ndarray, "height width 3"]:
    """Each condition's influence in its own color, weighted by share, bright where the pixel responds (square
    root).
    """
    if not len(influence):
        return np.zeros((*influence.shape[1:], 3), np.uint8)
    colors = np.array([color_of(k) for k in range(len(influence))], float)
    total = influence.sum(0)
    share = influence / np.maximum(total, 1e-30)
    light = np.sqrt(total / max(total.max(), 1e-30))
    return (np.einsum("khw,kc->hwc", share, colors) * light[..., None]).round().astype(np.uint8)


class Sheet:
    """A white picture in units of `scale` pixels; panels and text are placed on it by unit (row, column)."""

    def __init__(self, rows: int, columns: int, scale: int):
        self.scale = scale
        self.image = Image.new("RGB", (columns * scale, rows * scale), PAPER)
        self.draw = ImageDraw.Draw(self.image)

    def panel(self, rgb: UInt8[np.ndarray, "height width 3"], row: int, column: int) -> None:
        """Paste an image, one unit per pixel."""
        self.picture(np.repeat(np.repeat(rgb, self.scale, 0), self.scale, 1), row, column)

    def picture(self, rgb: UInt8[np.ndarray, "height width 3"], row: int, column: int) -> None:
        """Paste an image in the sheet's own pixels."""
        self.image.paste(Image.fromarray(np.ascontiguousarray(rgb)), (column * self.scale, row * self.scale))

    def number(self, words: str, row: float, column: float, size: int = 11) -> None:
        """Write `words` centered at a place, white with a dark rim: legible on any map."""
        place, look = (column * self.scale, row * self.scale), font(size, True)
        self.draw.text(place, words, PAPER, look, "mm", stroke_width=1, stroke_fill=INK)

    def text(
        self, words: str, row: float, column: float, size: int = 13, bold: bool = False, anchor: str = "la"
    ) -> None:
        """Write `words` at a place; "la" makes it their left top corner, "ma" their middle top."""
        self.draw.text((column * self.scale, row * self.scale), words, INK, font(size, bold), anchor)

    def square(self, box: tuple[int, int, int, int], inside: tuple[int, int, int, int], color=PAPER) -> None:
        """Draw the outline of (top, left, bottom, right), with a dark rim, clipped to the panel `inside`."""
        area = self.image.crop(self._pixels(inside))
        top, left, bottom, right = (v - o for v, o in zip(box, (inside[0], inside[1]) * 2))
        pen = ImageDraw.Draw(area)
        for width, tone in ((4, INK), (2, color)):
            corners = [left * self.scale, top * self.scale, right * self.scale - 1, bottom * self.scale - 1]
            pen.rectangle(corners, outline=tone, width=width)
        self.image.paste(area, self._pixels(inside)[:2])

    def _pixels(self, box):
        top, left, bottom, right = box
        return tuple(v * self.scale for v in (left, top, right, bottom))

    def disc(self, row: float, column: float, radius: float, fill, share: float = 1.0) -> None:
        """Draw a disc around a place, its area filled to `share` from the center, the rest an outline."""
        y, x = row * self.scale, column * self.scale
        ring, core = radius * self.scale, radius * self.scale * max(share, 0) ** 0.5
        self.draw.ellipse([x - ring - 1, y - ring - 1, x + ring + 1, y + ring + 1], outline=INK, width=3)
        self.draw.ellipse([x - ring, y - ring, x + ring, y + ring], outline=PAPER, width=1)
        if core >= 1:
            self.draw.ellipse([x - core, y - core, x + core, y + core], fill=fill, outline=INK)

    def array(self) -> UInt8[np.ndarray, "height width 3"]:
        """The picture so far."""
        return np.asarray(self.image)


def condition_sheet(
    scene: UInt8[np.ndarray, "height width 3"], cells: Sequence[int], scale: int, colored: bool = True
) -> Sheet:
    """The lines of the condition grid over an image, with active cells outlined, in their own colors if
    `colored` (Fig. 9).
    """
    size, m = len(scene), len(scene) // GRID_SIZE
    sheet = Sheet(size, size, scale)
    sheet.panel(scene, 0, 0)
    for k in range(1, GRID_SIZE):
        at = k * m * scale
        sheet.draw.line([at, 0, at, size * scale], fill=(165, 165, 165))
        sheet.draw.line([0, at, size * scale, at], fill=(165, 165, 165))
    for k, cell in enumerate(cells):
        row, column = (v * m for v in divmod(cell, GRID_SIZE))
        color = color_of(k) if colored else PAPER
        sheet.square((row, column, row + m, column + m), (0, 0, size, size), color)
    return sheet


def lines(sheet: Sheet, words: Sequence[tuple[str, bool]], row: float, column: float, step: float) -> None:
    """Write several lines of text, (words, bold), below each other."""
    for k, (line, bold) in enumerate(words):
        sheet.text(line, row + k * step, column, bold=bold)
