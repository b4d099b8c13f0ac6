"""A small net, trained on renders, that reads what a picture shows: colors with shapes, and the style.

    python -m lcs_utils.text_to_image.reader --images 256000  # trains it, and measures it on held-out renders

Unlike the text-to-image model it sees the held-out pairs and styles, or it could not judge them.
"""

import argparse
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from torch.nn import functional

from lcs_utils import paths, store
from lcs_utils.checks import check_count, check_tensor
from lcs_utils.clevr.scenes import COLORS, SHAPES
from lcs_utils.counter.corruptions import blur
from lcs_utils.models.precision import dtype_on
from lcs_utils.text_to_image import loop, training
from lcs_utils.text_to_image.captions import STYLES, Scene
from lcs_utils.text_to_image.data import RESOLUTION, Renders, in_style, renders

WEIGHTS = paths.CHECKPOINTS / "text_to_image" / "reader.safetensors"
CELLS = 32  # along a side
SPREAD = 1.0  # cells: targets are Gaussian, since a center between two cells would be a half in both
BATCH, PEAK = 64, 2e-3
BLUR = 1.6  # largest, in pixels


class Accuracy(NamedTuple):
    """Shares of held-out renders in one style whose (color, shape) pairs, colors, shapes and style the reader
    reads right."""

    style: str
    renders: int
    pairs: float
    colors: float
    shapes: float
    styles: float


def _block(before: int, after: int, stride: int = 1) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(before, after, 3, stride, 1, bias=False), nn.BatchNorm2d(after), nn.ReLU(inplace=True)
    )


class Reader(nn.Module):
    """Images [batch 3 64 64] in [-1, 1] -> object, color and shape logits of each of 32x32 cells, style
    logits."""

    def __init__(self, width: int = 48):
        super().__init__()
        self.fine, self.coarse = _block(3, width // 2, 2), _block(width // 2, width, 2)
        self.body = nn.Sequential(*(_block(width, width) for _ in range(4)))
        self.both = _block(width // 2 + width, width)
        self.cells = nn.Conv2d(width, 1 + len(COLORS) + len(SHAPES), 1)
        self.style = nn.Linear(width, len(STYLES))
        nn.init.constant_(self.cells.bias[:1], -4.0)  # most cells are empty

    def forward(self, images: Float[Tensor, "batch 3 height width"]) -> tuple[Tensor, Tensor]:
        check_tensor("images", images, ("batch", 3, RESOLUTION, RESOLUTION), False, "float")
        fine = self.fine(images)
        coarse = self.coarse(fine)
        deep = functional.interpolate(self.body(coarse), scale_factor=2)
        return self.cells(self.both(torch.cat([fine, deep], 1))), self.style(coarse.mean((2, 3)))

    @torch.no_grad()
    def read(self, images: Float[Tensor, "batch 3 height width"]) -> list[Scene]:
        """What each picture shows; objects are peaks of the object logit above 0."""
        found = []
        for part in images.split(64):
            cells, style = self.eval()(part)
            there = cells[:, :1]
            peak = (there > 0) & (there == functional.max_pool2d(there, 3, 1, 1))
            colors, shapes = (x.argmax(1) for x in cells[:, 1:].split([len(COLORS), len(SHAPES)], 1))
            for i, best in enumerate(style.argmax(1).tolist()):
                at = peak[i, 0].nonzero().tolist()
                pairs = tuple((COLORS[colors[i, r, c]], SHAPES[shapes[i, r, c]]) for r, c in at)
                found.append(Scene(pairs, STYLES[best]))
        return found


def all_right(told: Scene, seen: Scene) -> bool:
    """Whether exactly the told objects are seen, each color with its shape; the style does not matter."""
    return Counter(told.pairs) == Counter(seen.pairs)


def part_right(told: Scene, seen: Scene, part: int) -> bool:
    """Whether the colors (part 0) or shapes (1) are those told, whatever they are bound to."""
    return Counter(pair[part] for pair in told.pairs) == Counter(pair[part] for pair in seen.pairs)


def softened(images: Tensor, random: np.random.Generator) -> Tensor:
    """Images blurred by 0 to BLUR pixels: the VAE's pictures are soft, and no reader may learn from those."""
    widths = torch.from_numpy(random.uniform(0, BLUR / 2, (len(images), 1, 1, 1)).astype(np.float32))
    return blur(images, widths)  # in 32nds of the picture


def hills(locations: np.ndarray) -> np.ndarray:
    """Centers [n objects 2] in [0, 1] (x, y; NaN for none) -> [n cells cells]: 1 at a center, half at 1.2
    cells."""
    places = (np.arange(CELLS) + 0.5) / CELLS
    x, y = (((locations[..., i, None] - places) * CELLS) ** 2 for i in (0, 1))
    near = np.exp(-(y[..., :, None] + x[..., None, :]) / (2 * SPREAD**2))
    return np.nan_to_num(near).max(1)


def loss(net: Reader, found: Renders, index: np.ndarray, images: Tensor, styles: list[str]) -> Tensor:
    """Cross-entropies of a batch: objects by cell, colors and shapes at the objects, styles."""
    cells, style = net(images)
    there = torch.from_numpy(hills(found.locations[index]).astype(np.float32))
    at, colors, shapes = [], [], []
    for i, k in enumerate(index):
        for pair, (x, y) in zip(found.scenes[k].pairs, found.locations[k], strict=False):
            at.append((i, int(y * CELLS), int(x * CELLS)))
            colors.append(COLORS.index(pair[0]))
            shapes.append(SHAPES.index(pair[1]))
    i, row, column = torch.tensor(at).T
    here = cells[i, 1:, row, column]
    return (
        20 * functional.binary_cross_entropy_with_logits(cells[:, 0], there)
        + functional.cross_entropy(here[:, : len(COLORS)], torch.tensor(colors))
        + functional.cross_entropy(here[:, len(COLORS) :], torch.tensor(shapes))
        + functional.cross_entropy(style, torch.tensor([STYLES.index(name) for name in styles]))
    )


@dataclass(frozen=True, eq=False)
class Shown:
    """Softened styled renders; a call gives the loss of one batch, in half precision where that is fast."""

    found: Renders

    def __call__(self, net: Reader, generator: torch.Generator) -> Tensor:
        random, half = training.numpy_generator(generator), dtype_on(torch.device("cpu"), "bfloat16")
        index = random.integers(len(self.found.images), size=BATCH)
        styles = [STYLES[i] for i in random.integers(len(STYLES), size=BATCH)]
        x = softened(in_style(self.found.images[index], styles), random)
        with torch.autocast("cpu", half, enabled=half != torch.float32):
            return loss(net, self.found, index, x.contiguous(memory_format=torch.channels_last), styles)


def train(found: Renders, images: int, folder: Path, seed: int = 0) -> Reader:
    """Train a reader on `images` styled renders; its state is kept in `folder`, from which it resumes."""
    check_count("images", images, BATCH)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        net = Reader().to(memory_format=torch.channels_last)
    about = {"run": "reader", "batch": BATCH, "seed": seed, "renders": len(found.images)}
    loop.train(loop.start(net, seed), Shown(found), images, BATCH, PEAK, folder, about)
    return net.eval()


def accuracy(net: Reader, found: Renders) -> list[Accuracy]:
    """A reader's accuracy on renders, style by style."""
    rows = []
    for style in STYLES:
        seen = [
            scene
            for part in found.images.split(64)
            for scene in net.read(in_style(part, [style] * len(part)))
        ]
        both = list(zip(found.scenes, seen, strict=True))
        shares = (
            [all_right(a, b) for a, b in both],
            [part_right(a, b, 0) for a, b in both],
            [part_right(a, b, 1) for a, b in both],
            [b.style == style for _, b in both],
        )
        rows.append(Accuracy(style, len(both), *(round(float(np.mean(share)), 4) for share in shares)))
    return rows


def save(net: Reader, path: Path = WEIGHTS) -> None:
    """Write a reader's weights in half precision."""
    halves = {k: v.half().contiguous() if v.is_floating_point() else v for k, v in net.state_dict().items()}
    with store.atomic_path(path) as temporary:
        save_file(halves, temporary)


def load(path: Path = WEIGHTS) -> Reader:
    """The trained reader. Raises FileNotFoundError with the command that trains it."""
    if not Path(path).exists():
        raise FileNotFoundError(
            f"{paths.shown(path)} is missing; train it: "
            "`python -m lcs_utils.text_to_image.reader --images 256000`"
        )
    net = Reader()
    net.load_state_dict({k: v.float() if v.is_floating_point() else v for k, v in load_file(path).items()})
    return net.eval()


def main(arguments=None) -> None:
    """Command line: train the reader, store it, and print its accuracy on held-out renders."""
    parser = argparse.ArgumentParser(
        prog="python -m lcs_utils.text_to_image.reader", description="Train the reader of styled renders."
    )
    parser.add_argument("--images", type=int, required=True)
    parser.add_argument("--threads", type=int, default=1)
    asked = parser.parse_args(arguments)
    try:
        torch.set_num_threads(check_count("threads", asked.threads, 1))
        check_count("images", asked.images, BATCH)
    except ValueError as error:
        parser.error(str(error))
    try:
        found = renders("reader")
        save(train(found, asked.images, training.folder_of("reader")))
    except (ValueError, RuntimeError, OSError) as error:
        parser.exit(2, f"{parser.prog}: {error}\n")
    rows = accuracy(load(), renders("held_out"))
    command = f"python -m lcs_utils.text_to_image.reader --images {asked.images}"
    store.write_rows(WEIGHTS.with_name("reader.csv"), command, Accuracy, rows)
    for row in rows:
        print(*row)


if __name__ == "__main__":
    main()
