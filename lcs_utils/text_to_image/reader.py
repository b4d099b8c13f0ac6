"""What a picture shows, by a small net trained on renders: colors with shapes, and the style.

    python -m lcs_utils.text_to_image.reader --images 400000  # trains it, and measures it on held-out renders

Unlike the text-to-image model it was shown the held-out pairs and styles, or it could not judge them.
"""

import argparse
from collections import Counter
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from torch.nn import functional
from tqdm.auto import tqdm

from lcs_utils import paths, store
from lcs_utils.checks import check_count, check_tensor
from lcs_utils.clevr.scenes import COLORS, SHAPES
from lcs_utils.counter.corruptions import blur
from lcs_utils.text_to_image.captions import STYLES, Scene
from lcs_utils.text_to_image.data import RESOLUTION, Renders, in_style, renders

WEIGHTS = paths.CHECKPOINTS / "text_to_image" / "reader.safetensors"
CELLS = 16  # along a side
BATCH, PEAK = 64, 2e-3
BLUR = 1.6  # pixels at most


class Accuracy(NamedTuple):
    """Shares of held-out renders in one style of which the reader says all (color, shape) pairs, all colors,
    all shapes, the style rightly."""

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
    """Images [batch 3 64 64] in [-1, 1] -> object, color and shape logits of each of 16x16 cells, style
    logits."""

    def __init__(self, width: int = 48):
        super().__init__()
        self.stem = nn.Sequential(_block(3, width // 2, 2), _block(width // 2, width, 2))
        self.body = nn.Sequential(*(_block(width, width) for _ in range(4)))
        self.cells = nn.Conv2d(width, 1 + len(COLORS) + len(SHAPES), 1)
        self.style = nn.Linear(width, len(STYLES))
        nn.init.constant_(self.cells.bias[:1], -4.0)  # most cells are empty

    def forward(self, images: Float[Tensor, "batch 3 height width"]) -> tuple[Tensor, Tensor]:
        check_tensor("images", images, ("batch", 3, RESOLUTION, RESOLUTION), False, "float")
        x = self.stem(images)
        return self.cells(self.body(x)), self.style(x.mean((2, 3)))

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
    """Images blurred by 0 to BLUR pixels: copies by a VAE are soft, and no reader may learn from those."""
    widths = torch.from_numpy(random.uniform(0, BLUR / 2, (len(images), 1, 1, 1)).astype(np.float32))
    return blur(images, widths)  # whose unit is a 32nd of the picture


def loss(net: Reader, found: Renders, index: np.ndarray, images: Tensor, styles: list[str]) -> Tensor:
    """Cross-entropies of a batch: objects by cell, colors and shapes where they are, styles."""
    cells, style = net(images)
    there = torch.zeros(len(index), CELLS, CELLS)
    at, colors, shapes = [], [], []
    for i, k in enumerate(index):
        for pair, (x, y) in zip(found.scenes[k].pairs, found.locations[k], strict=False):
            row, column = int(y * CELLS), int(x * CELLS)
            there[i, row, column] = 1
            at.append((i, row, column))
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


def train(found: Renders, images: int, seed: int = 0) -> Reader:
    """A reader trained on so many styled renders, with a one-cycle learning rate."""
    check_count("images", images, BATCH)
    random, steps = np.random.default_rng(seed), images // BATCH
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        net = Reader().train()
    optimizer = torch.optim.AdamW(net.parameters(), PEAK, weight_decay=0.01)
    rate = torch.optim.lr_scheduler.OneCycleLR(optimizer, PEAK, total_steps=steps)
    for _ in tqdm(range(steps), desc="reader", mininterval=10):
        index = random.integers(len(found.images), size=BATCH)
        styles = [STYLES[i] for i in random.integers(len(STYLES), size=BATCH)]
        value = loss(net, found, index, softened(in_style(found.images[index], styles), random), styles)
        optimizer.zero_grad()
        value.backward()
        optimizer.step()
        rate.step()
    return net.eval()


def accuracy(net: Reader, found: Renders) -> list[Accuracy]:
    """How exact a reader is on renders, style by style."""
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
    halves = {k: v.half() if v.is_floating_point() else v for k, v in net.state_dict().items()}
    with store.atomic_path(path) as temporary:
        save_file(halves, temporary)


def load(path: Path = WEIGHTS) -> Reader:
    """The trained reader. Raises FileNotFoundError with the command that trains it."""
    if not Path(path).exists():
        raise FileNotFoundError(
            f"{paths.shown(path)} is missing; train it: "
            "`python -m lcs_utils.text_to_image.reader --images 400000`"
        )
    net = Reader()
    net.load_state_dict({k: v.float() if v.is_floating_point() else v for k, v in load_file(path).items()})
    return net.eval()


def main(arguments=None) -> None:
    """Command line: train the reader, store it, and say how exact it is on held-out renders."""
    parser = argparse.ArgumentParser(description="Train the reader of styled renders.")
    parser.add_argument("--images", type=int, required=True)
    parser.add_argument("--threads", type=int, default=1)
    asked = parser.parse_args(arguments)
    torch.set_num_threads(check_count("threads", asked.threads, 1))
    save(train(renders("reader"), asked.images))
    rows = accuracy(load(), renders("held_out"))
    command = f"python -m lcs_utils.text_to_image.reader --images {asked.images}"
    store.write_rows(WEIGHTS.with_name("reader.csv"), command, Accuracy, rows)
    for row in rows:
        print(*row)


if __name__ == "__main__":
    main()
