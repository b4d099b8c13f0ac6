"""The nets on the live page. To show others change this list, and what is said of these three in article.md,
sample.html and below the table (`words.counted`).
"""

from typing import NamedTuple

from lcs_utils import nets
from lcs_utils.counter import net as counter


class Net(NamedTuple):
    """A checkpoint (preset, name), and how the page describes it."""

    preset: str
    name: str
    title: str
    told: str

    @property
    def key(self) -> str:
        """Its name in the page's files and scripts."""
        return f"{self.preset}_{self.name}"

    @property
    def weights(self) -> str:
        """The first digits of its weights' SHA-256, as rows name them."""
        return nets.verified_row(self.name, self.preset)["sha256"][:12]


NETS = (
    Net("tiny", "exp1", "Exp. 1", "all locations told"),
    Net("tiny", "exp2", "Exp. 2", "one location told"),
    Net("tiny", "exp3", "Exp. 3", "one location told, local net"),
)
STEPS, SOLVER = 14, "dpmpp_2m"  # as the counted samples were drawn


def resolution() -> int:
    """The side of all nets' images, in px. Raises ValueError unless it is one."""
    sides = {nets.verified_row(net.name, net.preset)["resolution"] for net in NETS}
    if len(sides) != 1:
        raise ValueError(f"the page's nets draw images of one size, got {sorted(sides)} px")
    return sides.pop()


def counter_version() -> str:
    """The first digits of the counter's SHA-256, as rows name it."""
    return counter.verify(counter.folder())["sha256"][:12]
