"""Which objects of a scene get a label (Table 1's columns); without torch, whose tensors these take."""

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from torch import Generator, Tensor


class LabelPolicy(NamedTuple):
    """How many of a scene's n objects get a label: `number` draws it for a batch ([batch 1] -> [batch 1]),
    `mean` is its average. Which ones is drawn uniformly at each visit. To choose them, once for all, train on
    a `Data` without the others' centers and colors, and a policy of yours: by "all" no extras are allowed.
    """

    number: Callable[["Tensor", "Generator | None"], "Tensor"]
    mean: Callable[[int], float]


def _random_number(n: "Tensor", generator: "Generator | None") -> "Tensor":
    import torch  # here, since statistics on stored rows need only the policies' means

    u = torch.rand(n.shape, generator=generator, device=n.device)
    return torch.minimum((u * n).long() + 1, n)  # u * n can round up to n


LABEL_POLICIES = {  # Table 1's columns; yours: LABEL_POLICIES["two"] = LabelPolicy(...)
    "all": LabelPolicy(lambda n, _: n, lambda n: n),
    "single": LabelPolicy(lambda n, _: n.clamp(max=1), lambda n: min(n, 1)),
    "random": LabelPolicy(_random_number, lambda n: (n + 1) / 2),
    "drop_one": LabelPolicy(lambda n, _: (n - 1).clamp(min=0), lambda n: max(n - 1, 0)),
    "none": LabelPolicy(lambda n, _: n * 0, lambda n: 0),
}
