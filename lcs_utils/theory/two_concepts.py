"""The bridge from Swing-by dynamics (arXiv 2410.08309) to this project: a diffusion model of two concepts in training.

A disk has a size and a color; the net sees labels 00, 01 and 10 and is asked for 11 all along its training. The
sampler is `lcs_utils.diffusion.sample`; concepts are read from pixels by a formula, so no classifier can be wrong.
Remake the stored rows with `python -m lcs_utils.theory.two_concepts`.
"""

import argparse
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F
from tqdm.auto import tqdm

from lcs_utils import diffusion, paths

LABELS = ((0, 0), (0, 1), (1, 0), (1, 1))  # (size, color); the last one is never trained on
ROWS = paths.COUNTS / "swing_by_two_concepts.csv"
CHECKPOINTS = (0, 20, 40, 60, 80, 100, 125, 150, 175, 200, 250, 300, 350, 400, 500)


@dataclass(frozen=True)
class Disks:
    """Images of one disk: its size (radius) is small or large, its color red or blue; `pixels` is the side in px.

    `separation` in (0, 1] is the strength of the color concept, the distance of the two hues (1 = pure red to pure
    blue); `diversity` in [0, 0.4] is the half-width of each concept's values around 0 and 1: the mu and sigma of SIM.
    Choice: 12 px instead of the 32 px of arXiv 2410.08309, so that a run takes seconds on a CPU.
    Raises ValueError for a side that 4 does not divide, or a separation or diversity out of range.
    """

    separation: float = 1.0
    diversity: float = 0.1
    pixels: int = 12

    def __post_init__(self):
        if self.pixels < 8 or self.pixels % 4:
            raise ValueError(f"pixels must be a multiple of 4 and at least 8, got {self.pixels}")
        if not 0 < self.separation <= 1:
            raise ValueError(f"separation must be in (0, 1], got {self.separation:g}")
        if not 0 <= self.diversity <= 0.4:
            raise ValueError(f"diversity must be in [0, 0.4], got {self.diversity:g}")

    @property
    def radii(self) -> tuple[float, float]:
        """Radius of small and large disks (concept values 0 and 1), in px."""
        return 0.17 * self.pixels, 0.30 * self.pixels

    def concepts(self, labels: Int[Tensor, "batch 2"], generator: torch.Generator) -> Float[Tensor, "batch 2"]:
        """(size, color) values around the labels' 0 and 1, uniform within the diversity: what the net is told."""
        if not bool(((labels == 0) | (labels == 1)).all()):
            raise ValueError(f"labels must be 0 or 1, got {sorted(set(labels.flatten().tolist()))}")
        return labels + self.diversity * (2 * torch.rand(labels.shape, generator=generator) - 1)

    def images(self, concepts: Float[Tensor, "batch 2"], generator: torch.Generator) -> Float[Tensor, "batch 3 px px"]:
        """One disk per (size, color), at a random place (+-12 % of the side), in [-1, 1]."""
        uniform = 2 * torch.rand(len(concepts), 2, generator=generator) - 1
        center = (self.pixels - 1) / 2 + 0.12 * self.pixels * uniform
        small, large = self.radii
        radius = small + (large - small) * concepts[:, 0]
        hue = (0.5 + (concepts[:, 1] - 0.5) * self.separation).clamp(0, 1)
        axis = torch.arange(self.pixels)
        rows = (axis - center[:, :1])[:, :, None]  # [batch px 1]
        columns = (axis - center[:, 1:])[:, None, :]  # [batch 1 px]
        inside = (radius[:, None, None] + 0.5 - torch.hypot(rows, columns)).clamp(0, 1)
        color = torch.stack([1 - hue, torch.full_like(hue, 0.2), hue], dim=1)  # channels always sum to 1.2
        return 2 * inside[:, None] * color[:, :, None, None] - 1

    def read(self, images: Float[Tensor, "batch 3 px px"]) -> Float[Tensor, "batch 2"]:
        """Size and color of each image in concept units: 0 and 1 are the two training values of each concept.

        Size is the radius of the area brighter than half a disk's brightness; color is the share of blue in it.
        """
        value = ((images + 1) / 2).clamp(0, 1)
        bright = (value.sum(dim=1, keepdim=True) > 0.6).to(value.dtype)
        area = bright.sum(dim=(1, 2, 3))
        red, _, blue = (value * bright).sum(dim=(2, 3)).unbind(dim=1)
        small, large = self.radii
        size = ((area / math.pi).sqrt() - small) / (large - small)
        share = torch.where(area > 0, blue / (red + blue).clamp(min=1e-6), 0.5)
        return torch.stack([size, 0.5 + (share - 0.5) / self.separation], dim=1)


class DiskNet(nn.Module):
    """A denoiser: 3-level convolutional net in EDM's preconditioning (Karras et al. 2022, Table 1).

    forward(x_t [batch 3 px px], sigma [batch], cond [batch 2] concept values) -> x0_hat.
    """

    def __init__(self, width: int = 16):
        super().__init__()
        wide = 2 * width
        self.cond = nn.Linear(4, 64)
        self.scale = nn.Linear(64, 3 * wide)
        self.stem = nn.Conv2d(3, width, 3, padding=1)
        self.down1 = nn.Conv2d(width, wide, 3, stride=2, padding=1)
        self.block1 = nn.Conv2d(wide, wide, 3, padding=1)
        self.down2 = nn.Conv2d(wide, wide, 3, stride=2, padding=1)
        self.block2 = nn.Conv2d(wide, wide, 3, padding=1)
        self.up1 = nn.Conv2d(2 * wide, wide, 3, padding=1)
        self.up0 = nn.Conv2d(wide, width, 1)
        self.block0 = nn.Conv2d(width, width, 3, padding=1)
        self.out = nn.Conv2d(width, 3, 3, padding=1)
        nn.init.zeros_(self.out.weight)

    def forward(self, x_t: Tensor, sigma: Tensor, cond: Tensor) -> Tensor:
        s = diffusion.expand(sigma, x_t)
        norm = (s**2 + diffusion.SIGMA_DATA**2).sqrt()
        noise = sigma.log()[:, None] / 4
        embedding = torch.cat([noise, noise**2, 2 * cond.to(x_t.dtype) - 1], dim=1)
        shift = self.scale(F.silu(self.cond(embedding)))[:, :, None, None].chunk(3, dim=1)
        fine = F.silu(self.stem(x_t / norm))
        middle = F.silu(self.down1(fine) + shift[0])
        middle = middle + F.silu(self.block1(middle))
        coarse = F.silu(self.down2(middle) + shift[1])
        coarse = coarse + F.silu(self.block2(coarse))
        middle = F.silu(self.up1(torch.cat([F.interpolate(coarse, scale_factor=2), middle], dim=1)) + shift[2])
        fine = fine + F.interpolate(self.up0(middle), scale_factor=2)
        fine = fine + F.silu(self.block0(fine))
        return (diffusion.SIGMA_DATA / norm) ** 2 * x_t + s * diffusion.SIGMA_DATA / norm * self.out(F.silu(fine))


class Snapshot(NamedTuple):
    """A moment of training: `step` updates are done, `loss` is the latest batch's, `net` is live, not a copy."""

    step: int
    loss: float
    net: DiskNet


def train(
    disks: Disks, seed: int, checkpoints: tuple[int, ...] = CHECKPOINTS, batch: int = 32, lr: float = 3e-3
) -> Iterator[Snapshot]:
    """Train a `DiskNet` on labels 00, 01 and 10, yielding at every step in `checkpoints`; same seed, same run.

    Choice: Adam at a constant rate, EDM's weighted loss, no EMA, because the dynamics of the raw weights are the
    subject. Raises ValueError unless the checkpoints increase from >= 0.
    """
    if not checkpoints or checkpoints[0] < 0 or any(a >= b for a, b in zip(checkpoints, checkpoints[1:])):
        raise ValueError(f"checkpoints must be increasing steps >= 0, got {checkpoints}")
    generator = torch.Generator().manual_seed(seed)
    with torch.random.fork_rng(devices=[]):  # nn.Module initializes from the global state
        torch.manual_seed(seed)
        net = DiskNet()
    optimizer = torch.optim.Adam(net.parameters(), lr=lr)
    seen, loss = torch.tensor(LABELS[:3]), torch.tensor(math.nan)
    for step in range(checkpoints[-1] + 1):
        if step in checkpoints:
            yield Snapshot(step, loss.item(), net)
        labels = seen[torch.randint(3, (batch,), generator=generator)]
        cond = disks.concepts(labels, generator)
        x0 = disks.images(cond, generator)
        sigma = diffusion.training_sigmas(batch, generator, p_mean=-0.4, p_std=1.4)
        error = net(diffusion.add_noise(x0, sigma, generator), sigma, cond) - x0
        loss = (diffusion.expand(diffusion.loss_weight(sigma), x0) * error**2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def generate(net: DiskNet, disks: Disks, label: tuple[int, int], count: int = 64) -> Float[Tensor, "count 3 px px"]:
    """`count` samples of one label by the shared sampler, always from the same noise, so checkpoints compare."""
    noise = torch.randn(count, 3, disks.pixels, disks.pixels, generator=torch.Generator().manual_seed(0))
    sigmas = diffusion.karras_sigmas(10, sigma_min=0.01, sigma_max=20.0)
    return diffusion.final(diffusion.sample(net, noise, sigmas, torch.tensor(label).expand(count, 2), "dpmpp_2m"))


def accuracy(disks: Disks, images: Float[Tensor, "batch 3 px px"], label: tuple[int, int]) -> dict[str, float]:
    """Shares of images with the right size, color and both (nearer to the right training value), and medians."""
    concepts = disks.read(images)
    right = (concepts > 0.5) == torch.tensor(label, dtype=torch.bool)
    size, color = right.double().mean(dim=0).tolist()
    median = concepts.double().median(dim=0).values.tolist()
    both = right.all(dim=1).double().mean().item()
    return {"both": both, "size": size, "color": color, "median_size": median[0], "median_color": median[1]}


class Accuracy(NamedTuple):
    """One label at one moment of one training: shares of its samples with the right size, color and both, and medians."""

    diversity: float
    seed: int
    step: int
    label: str  # as "11"
    both: float
    size: float
    color: float
    median_size: float
    median_color: float


def measure(disks: Disks, seed: int, checkpoints: tuple[int, ...] = CHECKPOINTS) -> Iterator[Accuracy]:
    """Rows of one training run: every label at every checkpoint."""
    for step, _, net in train(disks, seed, checkpoints):
        for label in LABELS:
            shares = accuracy(disks, generate(net, disks, label), label)
            run = (disks.diversity, seed, step, f"{label[0]}{label[1]}")
            yield Accuracy(*run, **{name: round(value, 4) for name, value in shares.items()})


def main(arguments: list[str] | None = None) -> None:
    """Train every seed at every diversity and store the rows as CSV."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--diversities", type=float, nargs="+", default=[0.0, 0.1, 0.3])
    parser.add_argument("--output", default=ROWS)
    options = parser.parse_args(arguments)
    if options.seeds < 1:
        parser.error(f"--seeds must be at least 1, got {options.seeds}")
    runs = [(Disks(diversity=d), seed) for seed in range(options.seeds) for d in options.diversities]
    rows = [row for disks, seed in tqdm(runs, desc="training runs") for row in measure(disks, seed)]
    paths.write_rows(options.output, "python -m lcs_utils.theory.two_concepts", Accuracy, rows)


if __name__ == "__main__":
    main()
