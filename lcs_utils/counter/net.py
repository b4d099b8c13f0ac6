"""A net that counts objects in CLEVR-like images, locates them, names their colors and judges plausibility.

    counts = ObjectCounter.from_pretrained("data/checkpoints/counter")(images)

Images smaller than the counter's own 64 px are enlarged first. An object counts if its center lies in the
image. The shipped net was trained on renders alone (`lcs_utils.counter.training`), never on images drawn by a
net.
"""

import json
from pathlib import Path
from typing import NamedTuple

import torch
import torch.nn.functional as F
from diffusers import ConfigMixin, ModelMixin
from diffusers.configuration_utils import register_to_config
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from lcs_utils import paths, store
from lcs_utils.checks import check_pixels, is_tensor, shown
from lcs_utils.clevr.conditions import GRID_SIZE
from lcs_utils.clevr.scenes import COLORS
from lcs_utils.counter import shipped
from lcs_utils.counter.shipped import FOLDER, RESOLUTION, sizes
from lcs_utils.nets import CheckpointError

WEIGHTS = "diffusion_pytorch_model.safetensors"
COMMAND = "python -m lcs_utils.counter"
# images per forward pass: their features then stay in the CPU's cache, a third faster than 256
AT_ONCE = 32
folder = shipped.folder  # notebooks and cards import it from here
LARGEST = 30  # larger counts, far beyond training, are reported as this


def enlarged(
    images: Float[Tensor, "batch 3 side side"], resolution: int
) -> Float[Tensor, "batch 3 resolution resolution"]:
    """Images in [-1, 1] at the counter's `resolution`: smaller ones by bilinear interpolation, its own size
    unchanged.

    The same in training and in use, so that a 32 px image looks to the net as it did when it learned.
    """
    if images.shape[-1] == resolution:
        return images
    return F.interpolate(images, size=(resolution, resolution), mode="bilinear", align_corners=False)


class Counts(NamedTuple):
    """What the counter sees in each image.

    count: number of objects; centers: of objects, in [0, 1]^2 (x right, y down), NaN padded; cells: the 16x16
    cells, row-major, that hold a center; plausibility: in [0, 1], how much the image looks like a clean
    render; confidence: in [0, 1], that `count` is exact, meant for plausible images; colors: each object's
    index into `clevr.scenes.COLORS`, in the order of `centers`, -1 padded.
    """

    count: Int[Tensor, "batch"]
    centers: Float[Tensor, "batch objects 2"]
    cells: Bool[Tensor, "batch cells"]
    plausibility: Float[Tensor, "batch"]
    confidence: Float[Tensor, "batch"]
    colors: Int[Tensor, "batch objects"] | None = None


class Reading(NamedTuple):
    """The net's raw outputs per cell: logits for 0, 1, 2 centers, offset in the cell, color logits; and per
    image: precision of the count, plausibility logit.
    """

    occupancy: Float[Tensor, "batch 3 16 16"]
    offset: Float[Tensor, "batch 2 16 16"]
    color: Float[Tensor, "batch 8 16 16"]
    precision: Float[Tensor, "batch"]
    plausibility: Float[Tensor, "batch"]


def expected_objects(occupancy: Float[Tensor, "batch 3 rows columns"]) -> Float[Tensor, "batch rows columns"]:
    """Expected number of object centers in each cell, from the logits for 0, 1 and 2."""
    p = occupancy.softmax(1)
    return p[:, 1] + 2 * p[:, 2]


def count_logits(
    total: Float[Tensor, "batch"], precision: Float[Tensor, "batch"], n: int
) -> Float[Tensor, "batch n"]:
    """Logits for 0..n-1 objects: a Gaussian around the expected total, of a width that the net predicts per
    image.
    """
    return -F.softplus(precision)[:, None] * (torch.arange(n, device=total.device) - total[:, None]) ** 2


def locate(
    expected: Float[Tensor, "batch side side"], count: Int[Tensor, "batch"]
) -> Int[Tensor, "batch objects"]:
    """Cells (row-major) of the `count` most certain objects, -1 padded; the same cell twice when two centers
    share it.

    Choice: a center near a cell's edge is one object spread over neighbors, so objects are removed one by
    one, each as one unit of expectation from the 2x2 block that holds most, at its strongest cell.
    """
    batch, side, _ = expected.shape
    wide = side + 2
    mass = F.pad(expected, (1, 1, 1, 1)).reshape(batch, wide * wide).clone()
    corner = torch.tensor([0, 1, wide, wide + 1], device=mass.device)
    found = []
    for k in range(int(count.max()) if batch else 0):
        grid = mass.reshape(batch, wide, wide)
        block = (
            (grid[:, :-1, :-1] + grid[:, :-1, 1:] + grid[:, 1:, :-1] + grid[:, 1:, 1:]).flatten(1).argmax(1)
        )
        index = (block // (wide - 1) * wide + block % (wide - 1))[:, None] + corner
        value, order = mass.gather(1, index).sort(1, descending=True)
        index = index.gather(1, order)
        taken = torch.minimum((1 - value.cumsum(1) + value).clamp_min(0), value)
        mass.scatter_add_(1, index, -taken)
        row, column = index[:, 0] // wide - 1, index[:, 0] % wide - 1
        inside = (row >= 0) & (row < side) & (column >= 0) & (column < side) & (k < count)
        found.append(torch.where(inside, row * side + column, -1))
    return torch.stack(found, 1) if found else torch.empty(batch, 0, dtype=torch.long, device=mass.device)


class Residual(nn.Module):
    """A residual block of two 3x3 convolutions."""

    def __init__(self, channels: int):
        super().__init__()
        self.norm_1, self.conv_1 = (
            nn.BatchNorm2d(channels),
            nn.Conv2d(channels, channels, 3, padding=1, bias=False),
        )
        self.norm_2, self.conv_2 = (
            nn.BatchNorm2d(channels),
            nn.Conv2d(channels, channels, 3, padding=1, bias=False),
        )
        nn.init.zeros_(self.conv_2.weight)

    def forward(self, x):
        return x + self.conv_2(F.relu(self.norm_2(self.conv_1(F.relu(self.norm_1(x))))))


class ObjectCounter(ModelMixin, ConfigMixin):
    """A small convolutional net from an image to centers, colors (16x16 paper cells, App. E.1) and
    plausibility.

    Full resolution -> 16x16 -> 8x8 -> 16x16, downsampled by strided convolutions with a residual block
    between. Under `torch.autocast("cpu", torch.bfloat16)` it is nearly twice as fast on CPUs that compute in
    bfloat16 (ten times slower on those without AVX-512) and counts a few images differently from float32,
    which the stored rows used. Raises ValueError unless the resolution is 16 times 2, 4, 8 ...
    """

    @register_to_config
    def __init__(self, resolution: int = RESOLUTION, width: int = 64, blocks: int = 1):
        super().__init__()
        levels = (resolution // GRID_SIZE).bit_length() - 1
        if levels < 1 or resolution != GRID_SIZE << levels:
            raise ValueError(f"resolution must be {GRID_SIZE} times 2, 4, 8 ..., got {resolution}")
        stem: list[nn.Module] = []
        channels = 3
        for level in range(levels):  # twice as many channels at half the size, `width` at 16x16
            wider = width >> (levels - 1 - level)
            stem += [nn.BatchNorm2d(channels), nn.ReLU()] if level else []
            stem += [nn.Conv2d(channels, wider, 6, stride=2, padding=2)]
            # telling two objects apart may need detail finer than a cell
            stem += [Residual(wider)] if level < levels - 1 else []
            channels = wider
        deep = width * 3 // 2
        self.stem = nn.Sequential(*stem)
        self.fine = nn.Sequential(*(Residual(width) for _ in range(blocks)))
        self.down = nn.Conv2d(width, deep, 2, stride=2)
        self.coarse = nn.Sequential(*(Residual(deep) for _ in range(blocks)))
        self.up = nn.ConvTranspose2d(deep, width, 2, stride=2)
        self.last = nn.Sequential(*(Residual(width) for _ in range(blocks)), nn.BatchNorm2d(width), nn.ReLU())
        self.cell_head = nn.Conv2d(width, 5 + len(COLORS), 1)
        with torch.no_grad():  # most cells are empty: hundreds of steps would go into learning only that
            self.cell_head.bias[:3] = torch.tensor([0.975, 0.024, 0.001]).log()
        self.image_head = nn.Sequential(nn.Linear(2 * width, width), nn.ReLU(), nn.Linear(width, 2))

    def read(self, images: Float[Tensor, "batch 3 height width"]) -> Reading:
        """The raw outputs for images in [-1, 1] of the net's own size."""
        x = self.fine(self.stem(images.contiguous(memory_format=torch.channels_last)))
        x = self.last(x + self.up(self.coarse(self.down(x))))
        cells, image = (
            self.cell_head(x).float(),
            self.image_head(torch.cat([x.mean((2, 3)), x.amax((2, 3))], 1)).float(),
        )
        return Reading(cells[:, :3], cells[:, 3:5].sigmoid(), cells[:, 5:], image[:, 0], image[:, 1])

    @torch.no_grad()
    def forward(self, images: Float[Tensor, "batch 3 height width"]) -> Counts:
        """Count objects in images in [-1, 1] (clamped) of any of `sizes` and of any float type.

        Raises ValueError for another size or another range, TypeError for what is no tensor.
        """
        side = self.config.resolution
        check_images(images, side)
        images = images.to(self.dtype)  # as its weights are, so that doubles and halves are counted, too
        parts = [self.read(enlarged(part.clamp(-1, 1), side)) for part in images.split(AT_ONCE)]
        reading = Reading(*map(torch.cat, zip(*parts, strict=True)))
        expected = expected_objects(reading.occupancy)
        total = expected.sum((1, 2))
        count = total.round().long().clamp_max(LARGEST)
        cell = locate(expected, count)
        side, known = expected.shape[-1], cell >= 0
        safe = cell.clamp_min(0)
        offset = reading.offset.flatten(2).mT.gather(1, safe[..., None].expand(-1, -1, 2))
        centers = (torch.stack([safe % side, safe // side], -1) + offset) / side
        colors = reading.color.argmax(1).flatten(1).gather(1, safe).masked_fill(~known, -1)
        cells = torch.zeros(len(images), side * side + 1, dtype=torch.bool, device=images.device)
        cells.scatter_(1, torch.where(known, cell, side * side), True)
        confidence = count_logits(total, reading.precision, LARGEST + 1).softmax(1)
        return Counts(
            count,
            centers.masked_fill(~known[..., None], torch.nan),
            cells[:, :-1],
            reading.plausibility.sigmoid(),
            confidence.gather(1, count[:, None])[:, 0],
            colors,
        )

    @classmethod
    def from_pretrained(cls, folder=FOLDER, **options) -> "ObjectCounter":
        """Load a trained counter, verified, in float32. Raises CheckpointError when it is missing, truncated
        or altered.

        A folder of `save_pretrained`, which has no row.json with a hash, is loaded unverified.
        """
        place = Path(folder)
        saved = (
            (place / "config.json").exists()
            and not (place / "row.json").exists()
            and place.parent != paths.CHECKPOINTS
        )
        if not saved:
            verify(folder)
        return super().from_pretrained(folder, **options).float().to(memory_format=torch.channels_last).eval()


def check_images(images: Tensor, resolution: int) -> None:
    """Raise ValueError unless `images` is a finite float batch [n 3 side side] in about [-1, 1], side in
    `sizes(resolution)`, TypeError unless it is a tensor.
    """
    if not is_tensor(images):
        raise TypeError(
            f"images must be a tensor, got {shown(images)}; torch.from_numpy makes one of an array"
        )
    shape, allowed = tuple(images.shape), sizes(resolution)
    square = len(shape) == 4 and shape[1] == 3 and shape[2] == shape[3] and shape[2] in allowed
    if not square or not images.is_floating_point():
        raise ValueError(
            "this counter takes float images [batch, 3, side, side] in [-1, 1] with a side of "
            f"{' or '.join(map(str, allowed))} px, "
            f"got {str(images.dtype).removeprefix('torch.')} {list(shape)}; larger images have counters of "
            "their own, `folder(128)`"
        )
    check_pixels("the counter", images)


def verify(folder) -> dict:
    """The counter's row.json, after checking the weights against it. Raises CheckpointError with the
    command that restores them.
    """
    folder = Path(folder)
    size = folder.name.removeprefix("counter")
    train = COMMAND + (f" --resolution {size}" if size.isdigit() else "")
    shipped = folder.is_relative_to(paths.CHECKPOINTS)
    restore = f"restore it: `git checkout -- {paths.shown(folder)}`" if shipped else f"train it: `{train}`"
    for name in ("row.json", "config.json", WEIGHTS):
        if not (folder / name).exists():
            raise CheckpointError(f"counter: {folder.name}/{name} is missing; {restore}")
    try:
        row = json.loads((folder / "row.json").read_text())
    except ValueError as error:
        raise CheckpointError(f"counter: {folder.name}/row.json is not JSON ({error}); {restore}") from None
    if store.sha256(folder / WEIGHTS) != row.get("sha256"):
        raise CheckpointError(
            f"counter: {folder.name}/{WEIGHTS} is truncated or altered (SHA-256 differs from row.json); "
            f"{restore}"
        )
    return row
