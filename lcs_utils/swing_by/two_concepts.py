"""Swing-by dynamics (arXiv 2410.08309) in this project: a diffusion model of two concepts in training.

A disk has a size and a color; the net sees labels 00, 01 and 10 and is asked for 11 all along its training.
The sampler is `lcs_utils.diffusion.sample`; concepts are read from pixels by the best-fitting disk, and an
image in which no disk fits shows neither value. Remake the stored rows with
`python -m lcs_utils.swing_by.two_concepts`.
"""

import argparse
import math
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F
from tqdm.auto import tqdm

from lcs_utils import diffusion, paths, provenance, store
from lcs_utils.swing_by.disks import UNEXPLAINED, Disks
from lcs_utils.theory.checks import check_count, check_list, check_number, shown

LABELS = ((0, 0), (0, 1), (1, 0), (1, 1))  # (size, color); the last one is never trained on
ROWS = paths.COUNTS / "swing_by_two_concepts.csv"
COMMAND = "python -m lcs_utils.swing_by.two_concepts"
SEEDS, DIVERSITIES = 5, [0.0, 0.1, 0.3]  # of ROWS
CHECKPOINTS = (0, 50, 100, 150, 200, 250, 300, 350, 400, 450, 500, 550, 600, 700, 800)


def check_label(label: tuple[int, int]) -> tuple[int, int]:
    """`label` as one of `LABELS`. Raises ValueError for another, TypeError for anything but a sequence."""
    label = tuple(check_list("label", label))
    if label not in LABELS:
        raise ValueError(f"label must be one of {LABELS}, got {shown(label)}")
    return label


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
        middle = F.silu(
            self.up1(torch.cat([F.interpolate(coarse, scale_factor=2), middle], dim=1)) + shift[2]
        )
        fine = fine + F.interpolate(self.up0(middle), scale_factor=2)
        fine = fine + F.silu(self.block0(fine))
        return (diffusion.SIGMA_DATA / norm) ** 2 * x_t + s * diffusion.SIGMA_DATA / norm * self.out(
            F.silu(fine)
        )


class Snapshot(NamedTuple):
    """A moment of training: `step` updates done, the latest batch's `loss`, and the live `net`, no copy."""

    step: int
    loss: float
    net: DiskNet


def train(
    disks: Disks, seed: int, checkpoints: tuple[int, ...] = CHECKPOINTS, batch: int = 32, lr: float = 3e-3
) -> Iterator[Snapshot]:
    """Train a `DiskNet` on labels 00, 01 and 10, yielding at each step in `checkpoints`; same seed, same run.

    Choice: Adam at a constant rate, EDM's weighted loss, no EMA, because the dynamics of the raw weights
    are the subject.
    Choice: `seed` starts two generators, of the first weights and of all that batches draw, which therefore
    begin with the same random numbers. Raises ValueError unless the checkpoints increase from >= 0.
    """
    checkpoints = tuple(check_count("a checkpoint", step) for step in check_list("checkpoints", checkpoints))
    check_count("seed", seed)
    check_count("batch", batch, 1)
    check_number("lr", lr, 0, above=True)
    if not checkpoints or any(a >= b for a, b in zip(checkpoints, checkpoints[1:])):
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
        if step == checkpoints[-1]:
            return  # the last snapshot's net stays as it was yielded
        labels = seen[torch.randint(3, (batch,), generator=generator)]
        cond = disks.concepts(labels, generator)
        x0 = disks.images(cond, generator)
        sigma = diffusion.training_sigmas(batch, generator, p_mean=-0.4, p_std=1.4)
        error = net(diffusion.add_noise(x0, sigma, generator), sigma, cond) - x0
        loss = (diffusion.expand(diffusion.loss_weight(sigma), x0) * error**2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def generate(
    net: DiskNet, disks: Disks, label: tuple[int, int], count: int = 64
) -> Float[Tensor, "count 3 px px"]:
    """`count` >= 1 samples of one label, always from the same noise, so that checkpoints compare.

    Choice: the noise has seed 0 in every run, also in that of seed 0, whose random numbers it repeats.
    Raises ValueError for an unknown label.
    """
    check_label(label)
    check_count("count", count, 1)
    noise = torch.randn(count, 3, disks.pixels, disks.pixels, generator=torch.Generator().manual_seed(0))
    sigmas = diffusion.karras_sigmas(10, sigma_min=0.01, sigma_max=20.0)
    return diffusion.final(
        diffusion.sample(net, noise, sigmas, torch.tensor(label).expand(count, 2), "dpmpp_2m")
    )


def accuracy(
    disks: Disks, images: Float[Tensor, "batch 3 px px"], label: tuple[int, int]
) -> dict[str, float]:
    """Shares of images with the right size, color and both, and with a disk; medians of the best fits.

    An image that shows neither value of a concept is wrong in it. Raises ValueError for an unknown label.
    """
    check_label(label)
    size, color, unexplained = disks.read(images).double().unbind(1)
    right = disks.classify(images) == torch.tensor(label)
    shares = {
        "both": right.all(1),
        "size": right[:, 0],
        "color": right[:, 1],
        "disk": unexplained <= UNEXPLAINED,
    }
    medians = {"median_size": size.median().item(), "median_color": color.median().item()}
    return {name: share.double().mean().item() for name, share in shares.items()} | medians


class Accuracy(NamedTuple):
    """One label at one step of a run: shares of samples right in size, color, both; with a disk; medians."""

    diversity: float
    seed: int
    step: int
    label: str  # as "11"
    both: float
    size: float
    color: float
    disk: float
    median_size: float
    median_color: float


def accuracies(disks: Disks, seed: int, checkpoints: tuple[int, ...] = CHECKPOINTS) -> Iterator[Accuracy]:
    """Rows of one training run: every label at every checkpoint."""
    for step, _, net in train(disks, seed, checkpoints):
        for label in LABELS:
            shares = accuracy(disks, generate(net, disks, label), label)
            run = (disks.diversity, seed, step, f"{label[0]}{label[1]}")
            yield Accuracy(*run, **{name: round(value, 4) for name, value in shares.items()})


def stored(disks: Disks, seed: int) -> list[Accuracy]:
    """`accuracies`, kept below runs/ so that a stopped study resumes; a change of the code measures anew."""
    here = Path(__file__).resolve()
    code = provenance.digest({here} | provenance.imported_files(here.read_text()))[:12]
    about = f"separation{disks.separation!r}_diversity{disks.diversity!r}_pixels{disks.pixels}_seed{seed}"
    path = paths.RUNS / "two_concepts" / code / f"{about}.csv"
    rows = store.read_rows(path, Accuracy)
    if not rows:
        rows = list(accuracies(disks, seed))
        store.write_rows(path, COMMAND, Accuracy, rows)
    return rows


def main(arguments: list[str] | None = None) -> None:
    """Train every seed at every diversity and store the rows as CSV."""
    parser = argparse.ArgumentParser(
        prog="python -m lcs_utils.swing_by.two_concepts", description=main.__doc__
    )
    parser.add_argument("--seeds", type=int, default=SEEDS)
    parser.add_argument("--diversities", type=float, nargs="+", default=DIVERSITIES)
    parser.add_argument("--output", help="CSV file; needed if seeds or diversities are not the defaults")
    options = parser.parse_args(arguments)
    if options.seeds < 1:
        parser.error(f"--seeds must be at least 1, got {options.seeds}")
    if options.output is None and (options.seeds, options.diversities) != (SEEDS, DIVERSITIES):
        parser.error("the stored rows hold other seeds and diversities; name a file of your own by --output")
    runs = [(Disks(diversity=d), seed) for seed in range(options.seeds) for d in options.diversities]
    rows = [row for disks, seed in tqdm(runs, desc="training runs") for row in stored(disks, seed)]
    own = arguments if arguments is not None else sys.argv[1:]
    store.write_rows(options.output or ROWS, shlex.join([*COMMAND.split(), *own]), Accuracy, rows)


if __name__ == "__main__":
    main()
