"""The counter's agreement with objects counted by eye: Cohen's kappa, confusion (App. E.2)."""

import math
from typing import NamedTuple

import numpy as np
from jaxtyping import Int
from matplotlib import pyplot as plt
from matplotlib.figure import Figure

from lcs_utils.evaluation import wording
from lcs_utils.evaluation.eye.hand_count_rows import HandCount, Shown
from lcs_utils.evaluation.rows import PLAUSIBLE, Row


def confusion(
    hands: Int[np.ndarray, "samples"], counter: Int[np.ndarray, "samples"]
) -> Int[np.ndarray, "n n"]:
    """How often hands counted i objects (row) and the counter j (column)."""
    n = int(max(hands.max(), counter.max())) + 1
    table = np.zeros((n, n), int)
    np.add.at(table, (hands, counter), 1)
    return table


def kappa(table: Int[np.ndarray, "n n"], power: int = 0) -> float:
    """Cohen's kappa: agreement beyond chance, 1 is perfect, 0 chance.

    `power` 0: equal or not; 1, 2: differences weigh |i - j|^power. nan where both always give one and the
    same count. Raises ValueError for an empty table.
    """
    if table.sum() == 0:
        raise ValueError("kappa needs at least one sample that both have counted")
    i, j = np.indices(table.shape)
    cost = (i != j) if power == 0 else np.abs(i - j) ** power
    chance = (cost * np.outer(table.sum(1), table.sum(0))).sum() / table.sum()
    return float(1 - (cost * table).sum() / chance) if chance else math.nan


class Agreement(NamedTuple):
    """Hands against counter: `pairs` (hand count, row), confusion of counts and of "plausible" (no, yes by
    no, yes).
    """

    pairs: list[tuple[HandCount, Row]]
    counts: Int[np.ndarray, "n n"]
    plausible: Int[np.ndarray, "2 2"]

    def lines(self) -> list[str]:
        """The agreement in words and numbers."""
        n, difference = len(self.pairs), np.array([row.count - hand.count for hand, row in self.pairs])
        said = [
            f"{n} samples; same count {np.mean(difference == 0):.3f}, "
            f"within one {np.mean(np.abs(difference) <= 1):.3f}, counter minus eye "
            f"{difference.mean():+.2f}",
            f"Cohen's kappa {kappa(self.counts):.3f}, linearly weighted {kappa(self.counts, 1):.3f}, "
            f"quadratically {kappa(self.counts, 2):.3f}; of plausible or not {kappa(self.plausible):.3f}",
            f"{self.plausible[0].sum()} samples look wrong, of which the counter takes "
            f"{self.plausible[0, 1]} for plausible",
        ]
        for what in ("net", "k"):
            for value in sorted({getattr(hand.shown, what) for hand, _ in self.pairs}):
                chosen = [getattr(hand.shown, what) == value for hand, _ in self.pairs]
                part = difference[chosen]
                right = sum(hand.plausible for (hand, _), here in zip(self.pairs, chosen) if here)
                same = (
                    f"same count {np.mean(part == 0):.2f}, difference {part.mean():+.2f}, {right} look right"
                )
                name = wording.net(value) if what == "net" else f"K = {value}"
                said.append(f"  {name}: {len(part)} samples, {same}")
        return said

    def plot(self) -> Figure:
        """The confusion of counts; each number is how many samples got these two counts."""
        shown = self.counts[: np.flatnonzero(self.counts.any(1)).max() + 1]
        high, wide = shown.shape
        figure, axes = plt.subplots(figsize=(0.3 * wide + 1.2, 0.3 * high + 0.9))
        axes.imshow(np.sqrt(shown), cmap="Blues")  # roots, so that single samples are seen
        for i, j in np.argwhere(self.counts):
            color = "w" if self.counts[i, j] > 15 else "k"
            axes.text(j, i, self.counts[i, j], ha="center", va="center", fontsize=8, color=color)
        axes.plot([-0.5, high - 0.5], [-0.5, high - 0.5], ":", color="0.4", lw=1, zorder=1)
        axes.set(xlabel="objects, by the earlier counter", ylabel="objects, by eye")
        axes.set(xticks=range(wide), yticks=range(high), xlim=(-0.5, wide - 0.5), ylim=(high - 0.5, -0.5))
        axes.grid(False)
        return figure


def agreement(hands: list[HandCount], rows: list[Row]) -> Agreement:
    """Hand counts joined with the counter's rows of the same samples. Raises ValueError when none meet."""
    by_sample = {Shown(*(getattr(r, name) for name in Shown._fields)): r for r in rows}
    pairs = [(hand, by_sample[hand.shown]) for hand in hands if hand.shown in by_sample]
    if not pairs:
        raise ValueError(
            f"none of {len(hands)} hand counts meets a row of the counter; measure those nets and K again"
        )

    def column(pick):
        return np.array([pick(*pair) for pair in pairs])

    counts = confusion(column(lambda hand, row: hand.count), column(lambda hand, row: row.count))
    table = np.zeros((2, 2), int)
    np.add.at(
        table, (column(lambda h, r: h.plausible), column(lambda h, r: int(r.plausibility >= PLAUSIBLE))), 1
    )
    return Agreement(pairs, counts, table)
