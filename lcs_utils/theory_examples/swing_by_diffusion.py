"""Swing-by in a small diffusion model: one run live and the stored rows of many, as notebook 11b shows them.

The model and its classifier are `swing_by.two_concepts`; the question is that of arXiv 2410.08309.
"""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from jaxtyping import Float
from matplotlib import pyplot as plt
from matplotlib.figure import Figure
from scipy.stats import fisher_exact
from torch import Tensor

from lcs_utils import plotting, store
from lcs_utils.progress import progress
from lcs_utils.swing_by import two_concepts as tc
from lcs_utils.swing_by.disks import NEITHER

NAMES = {"00": "small red", "01": "small blue", "10": "large red", "11": "large blue, never seen"}
HUES = {"00": "orange", "01": "sky", "10": "vermilion", "11": "blue"}  # reds and blues, the large darker
COUNT, SURE = 64, 0.05  # samples per share; significance level of a fall
A_FALL = (
    f"A run falls where fewer of its {COUNT} samples are right than at the best moment before (Fisher's "
    f"exact test at {SURE:.0%}, corrected for the moments of a run, not for choosing the best one before, "
    "nor for the number of runs). A flat run falls in about one of ten."
)


def live_run(
    disks: tc.Disks, seed: int, steps: Sequence[int], count: int = 4
) -> list[Float[Tensor, "n 3 h w"]]:
    """`count` samples of the unseen 11 at each of `steps` of one training run."""
    run = progress(tc.train(disks, seed, tuple(steps)), "checkpoints", len(steps))
    return [tc.generate(net, disks, (1, 1), count=count) for _, _, net in run]


def plot_run(disks: tc.Disks, steps: Sequence[int], drawn: Sequence[Tensor], seed: int) -> Figure:
    """A row per sample, a column per step, and beside them a drawn disk of the requested kind."""
    wanted = disks.images(torch.ones(len(drawn[0]), 2), torch.Generator().manual_seed(seed))
    titles = [f"step {step}" for step in steps] + ["asked for"]
    rows = list(zip(*drawn, wanted))
    return plotting.image_grid(rows, [f"sample {i + 1}" for i in range(len(rows))], titles, cell=0.95)


class Reading(NamedTuple):
    """Shares of pure noise and of black images called a size or a color, and of drawn disks read right."""

    noise: float
    nothing: float
    disks: float


def null_reading(disks: tc.Disks, seed: int, count: int = 1000) -> Reading:
    """What the classifier says of noise, black images and disks; it may say "neither", the source's not."""
    generator = torch.Generator().manual_seed(seed)
    noise = torch.randn(count, 3, disks.pixels, disks.pixels, generator=generator)
    nothing = -torch.ones(1, 3, disks.pixels, disks.pixels)
    called = [float((disks.classify(x) != NEITHER).double().mean()) for x in (noise, nothing)]
    labels = torch.tensor(tc.LABELS).repeat(count // 4, 1)
    drawn = disks.images(disks.concepts(labels, generator), generator)
    return Reading(*called, float(disks.classify(drawn).eq(labels).all(1).double().mean()))


class Study(NamedTuple):
    """Stored shares of samples with the right size and color, and with any disk, of every run."""

    diversities: list[float]
    labels: list[str]
    seeds: list[int]
    steps: list[int]
    right: Float[Tensor, "diversities labels seeds steps"]
    disk: Float[Tensor, "diversities labels seeds steps"]

    @property
    def end(self) -> Float[Tensor, "diversities labels"]:
        """Mean share right at the last step."""
        return self.right[..., -1].mean(2)

    @property
    def lost(self) -> Float[Tensor, "diversities seeds"]:
        """The deepest fall of the unseen label below its best so far, in each run."""
        unseen = self.right[:, self.labels.index("11")]
        return (unseen.cummax(-1).values - unseen).amax(-1)

    @property
    def falls(self) -> list[int]:
        """Runs, by diversity, in which the unseen label falls: at some moment fewer samples are right than at
        the best one before, by Fisher's exact test.

        Corrected for the number of moments, not for choosing the best one before: about one of ten runs
        falls whose share right is flat, far fewer of those whose share only rises.
        """
        right = (COUNT * self.right[:, self.labels.index("11")]).round().int()
        best = right.cummax(-1).values
        moments = len(self.steps) - 1

        def falls(run: Tensor, before: Tensor) -> bool:
            tables = ([[b, COUNT - b], [now, COUNT - now]] for now, b in zip(run.tolist(), before.tolist()))
            least = min(fisher_exact(table, alternative="greater").pvalue for table in tables)
            return least * moments < SURE

        return [sum(map(falls, runs, before)) for runs, before in zip(right, best, strict=True)]


def study() -> Study:
    """The stored rows of `python -m lcs_utils.swing_by.two_concepts`."""
    rows = store.read_rows(tc.ROWS, tc.Accuracy)
    diversities, seeds, steps, labels = (
        sorted({getattr(row, key) for row in rows}) for key in ("diversity", "seed", "step", "label")
    )
    cell = {(row.diversity, row.label, row.seed, row.step): row for row in rows}
    both, disk = torch.zeros(2, len(diversities), len(labels), len(seeds), len(steps), dtype=torch.float64)
    for d, diversity in enumerate(diversities):
        for c, label in enumerate(labels):
            for k, seed in enumerate(seeds):
                found = [cell[diversity, label, seed, step] for step in steps]
                both[d, c, k] = torch.tensor([row.both for row in found])
                disk[d, c, k] = torch.tensor([row.disk for row in found])
    return Study(diversities, labels, seeds, steps, both, disk)


def plot_study(found: Study) -> Figure:
    """Shares right along training, a panel per diversity; the unseen label thick, its single runs gray."""
    figure, axes = plt.subplots(1, len(found.diversities), figsize=(8.4, 3.3), sharey=True)
    for axis, diversity, curves, disk in zip(axes, found.diversities, found.right, found.disk, strict=True):
        unseen = found.labels.index("11")
        axis.plot(found.steps, curves[unseen].T, color="0.65", lw=0.8)
        for label, mean in zip(found.labels, curves.mean(1), strict=True):
            thick = {"lw": 2.6} if label == "11" else {"ls": ":"}
            axis.plot(found.steps, mean, label=NAMES[label], color=plotting.PALETTE[HUES[label]], **thick)
        axis.plot(found.steps, disk[unseen].mean(0), "k--", lw=1, label="any disk for large blue")
        axis.set(title=f"diversity {diversity:g}", xlabel="training step", ylim=(-0.02, 1.02))
    axes[0].set_ylabel("size and color right\n(gray: single runs)")
    lines, words = axes[0].get_legend_handles_labels()
    figure.legend(lines, words, loc="outside lower center", ncols=5, fontsize=9, columnspacing=1.2)
    return figure
