"""Swing-by in a small diffusion model: one run live and the stored rows of many, as notebook 11b shows them.

The model and its classifier are `swing_by.two_concepts`; the question is that of arXiv 2410.08309.
"""

from collections.abc import Sequence
from functools import cache
from itertools import product
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float
from matplotlib import pyplot as plt
from matplotlib.figure import Figure
from scipy.stats import binom, hypergeom
from torch import Tensor

from lcs_utils import plotting, store
from lcs_utils.progress import progress
from lcs_utils.swing_by import two_concepts as tc
from lcs_utils.swing_by.disks import NEITHER

NAMES = {"00": "small red", "01": "small blue", "10": "large red", "11": "large blue, never seen"}
HUES = {"00": "orange", "01": "sky", "10": "vermilion", "11": "blue"}  # reds and blues, the large darker
CONCEPTS = ("size", "color")
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
    """Stored shares of samples right in both concepts, with any disk, and right in either, of every run."""

    diversities: list[float]
    labels: list[str]
    seeds: list[int]
    steps: list[int]
    right: Float[Tensor, "diversities labels seeds steps"]
    disk: Float[Tensor, "diversities labels seeds steps"]
    size: Float[Tensor, "diversities labels seeds steps"]
    color: Float[Tensor, "diversities labels seeds steps"]

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
        unseen = self.right[:, self.labels.index("11")]
        return _falls(least_p(unseen), len(self.steps)).sum(1).tolist()


@cache
def _fisher() -> Float[Tensor, "best now"]:
    """P-values of `now` of COUNT samples right after `best` of COUNT, by Fisher's exact test, one-sided."""
    best, now = np.indices((COUNT + 1, COUNT + 1))
    return torch.from_numpy(hypergeom.sf(best - 1, 2 * COUNT, best + now, COUNT))


def least_p(right: Float[Tensor, "*runs steps"]) -> Float[Tensor, "*runs"]:
    """The smallest p-value of each run's moments: fewer of its samples right than at the best one before."""
    counts = (COUNT * right).round().long()
    return _fisher()[counts.cummax(-1).values, counts].amin(-1)


def _falls(p: Float[Tensor, "*runs"], steps: int) -> Bool[Tensor, "*runs"]:
    return p * (steps - 1) < SURE


@cache
def flat_p(steps: int, runs: int = 40_000) -> Float[Tensor, "shares runs"]:
    """`least_p` of runs whose true share right never changes, sorted, for shares from 0.1 to 0.9."""
    generator, counts = torch.Generator().manual_seed(0), torch.full((runs, steps), float(COUNT)).double()
    drawn = (torch.binomial(counts, counts * 0 + share / 10, generator=generator) for share in range(1, 10))
    return torch.stack([least_p(right / COUNT).sort().values for right in drawn])


class Falls(NamedTuple):
    """Of all runs, at one label and in one concept alone: those that fall; those that surely fall; the chance
    that of as many flat runs so many fall or more, at the share right where most do.
    """

    runs: int
    falls: int
    sure: int
    chance: float


class ConceptFalls(NamedTuple):
    """`Falls` by concept and label, and how many of as many flat runs fall at most, by the same test."""

    of: dict[str, dict[str, Falls]]
    flat: float


def concept_falls(found: Study) -> ConceptFalls:
    """Falls of each concept alone, which arXiv 2410.08309 speaks of, in all runs of all diversities.

    A fall is sure where flat runs, at the share right that makes most of them fall, are so unlikely to fall
    as far that both concepts and all runs together leave a chance of 5%.
    """
    null, steps, of = flat_p(len(found.steps)), len(found.steps), {}
    flat = float(_falls(null, steps).double().mean(1).max())
    for concept in CONCEPTS:
        p = least_p(getattr(found, concept).transpose(1, 2).flatten(0, 1))  # [runs labels]
        lower = torch.stack([torch.searchsorted(row, p, right=True) for row in null])
        chance = lower.amax(0) / null.shape[1]
        sure = (chance * len(CONCEPTS) * len(p) < SURE).sum(0)
        falls = _falls(p, steps).sum(0)
        of[concept] = {
            label: Falls(len(p), fell, int(sure[k]), float(binom.sf(fell - 1, len(p), flat)))
            for k, (label, fell) in enumerate(zip(found.labels, falls.tolist(), strict=True))
        }
    return ConceptFalls(of, flat * len(p))


def said_falls(at: Falls) -> str:
    """`6 (2), 0.014`: runs that fall, those that surely do, and the chance that as many flat ones fall."""
    return f"{at.falls} ({at.sure}), {at.chance:.2g}"


def study() -> Study:
    """The stored rows of `python -m lcs_utils.swing_by.two_concepts`."""
    rows = store.read_rows(tc.ROWS, tc.Accuracy)
    diversities, seeds, steps, labels = (
        sorted({getattr(row, key) for row in rows}) for key in ("diversity", "seed", "step", "label")
    )
    cell = {(row.diversity, row.label, row.seed, row.step): row for row in rows}
    shape = (len(diversities), len(labels), len(seeds), len(steps))
    at = [cell[each] for each in product(diversities, labels, seeds, steps)]
    both, disk, size, color = (
        torch.tensor([getattr(row, name) for row in at], dtype=torch.float64).view(shape)
        for name in ("both", "disk", *CONCEPTS)
    )
    return Study(diversities, labels, seeds, steps, both, disk, size, color)


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
