"""One net sampled in one way: where its samples are saved, and which stored rows are its own (App. E.2)."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

from lcs_utils.evaluation.samples import samples_path


class Way(NamedTuple):
    """A net's weights, how they are sampled, on which kind of device, and which counter counts."""

    preset: str
    net: str
    family: str
    seed: int
    solver: str
    steps: int
    weights: str  # first 12 digits of the SHA-256 of the net's weights, and of the counter's
    counted_by: str
    device: str = "cpu"

    @property
    def key(self) -> dict[str, Any]:
        """The fields of its rows."""
        return {name: value for name, value in self._asdict().items() if name != "device"}

    def place(self, k: int) -> Path:
        """Where its samples of K = k are saved. Those begun on one kind of device are not continued on
        another.
        """
        drawn = ("family", "seed", "solver", "steps", "weights") + (
            ("device",) if self.device != "cpu" else ()
        )
        return samples_path(self.net, self.preset, k=k, **{name: getattr(self, name) for name in drawn})

    def same(self, row: Any) -> bool:
        """Whether the row is its own."""
        return all(getattr(row, name) == value for name, value in self.key.items())

    def counted(self, rows: Iterable[Any], k: int, samples: int) -> int:
        """How many of the first `samples` samples of K = k are in its rows."""
        return len({row.sample for row in rows if row.k == k and row.sample < samples and self.same(row)})

    def joined(self, stored: Iterable[Any], new: list) -> list:
        """The stored rows and new ones of its own: without those of the net's other weights or another
        counter, and without those counted again.
        """
        again = {(row.k, row.sample) for row in new}

        def kept(row):
            if row.net != self.net:
                return True
            if (row.weights, row.counted_by) != (self.weights, self.counted_by):
                return False
            return (row.k, row.sample) not in again or not self.same(row)

        return [row for row in stored if kept(row)] + new
