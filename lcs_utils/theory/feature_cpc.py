"""Definition 4, eq. (8): conditional projective composition in features z = A(x), A invertible."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

import torch
from jaxtyping import Float
from torch import Tensor

from lcs_utils.theory.checks import as_real, check_number, check_tensor, shown
from lcs_utils.theory.cpc import ConditionalProjectiveComposition
from lcs_utils.theory.distributions import GaussianMixture


class Transform(Protocol):
    """An invertible map A from pixels x to features z, with log |det dA/dx|."""

    def forward(self, x: Float[Tensor, "batch n"]) -> Float[Tensor, "batch n"]: ...
    def inverse(self, z: Float[Tensor, "batch n"]) -> Float[Tensor, "batch n"]: ...
    def log_det(self, x: Float[Tensor, "batch n"]) -> Float[Tensor, "batch"]: ...


@dataclass(frozen=True, eq=False)
class LinearMap:
    """z = matrix @ x. Raises ValueError unless the matrix is invertible (singular values above 1e-9)."""

    matrix: Float[Tensor, "n n"]

    def __post_init__(self):
        object.__setattr__(self, "matrix", as_real("matrix", self.matrix, 2))
        smallest = float(torch.linalg.svdvals(self.matrix).min()) if self.matrix.numel() else 0.0
        if self.matrix.shape[0] != self.matrix.shape[1] or not smallest > 1e-9:
            shape = list(self.matrix.shape)
            raise ValueError(
                f"the map must be invertible, its matrix {shape} has singular value {smallest:.3g}"
            )

    @property
    def n(self) -> int:
        """Dimension of the space."""
        return len(self.matrix)

    def forward(self, x):
        return check_tensor("x", x, (None, self.n)).double() @ self.matrix.T

    def inverse(self, z):
        return torch.linalg.solve(self.matrix, check_tensor("z", z, (None, self.n)).double().T).T

    def log_det(self, x):
        check_tensor("x", x, (None, self.n))
        return torch.linalg.slogdet(self.matrix)[1].expand(len(x))


@dataclass(frozen=True)
class CouplingMap:
    """A smooth invertible map of the plane: z_1 = x_1, z_2 = x_2 exp(scale tanh x_1) + bend x_1^2.

    `scale` in [-10, 10], `bend` in [-1000, 1000].
    """

    scale: float = 0.5
    bend: float = 0.4
    n = 2

    def __post_init__(self):
        check_number("scale", self.scale, -10, 10)
        check_number("bend", self.bend, -1000, 1000)

    def forward(self, x):
        a, b = check_tensor("x", x, (None, 2)).double().unbind(-1)
        return torch.stack([a, b * (self.scale * a.tanh()).exp() + self.bend * a**2], -1)

    def inverse(self, z):
        a, b = check_tensor("z", z, (None, 2)).double().unbind(-1)
        return torch.stack([a, (b - self.bend * a**2) * (-self.scale * a.tanh()).exp()], -1)

    def log_det(self, x):
        return self.scale * check_tensor("x", x, (None, 2)).double()[:, 0].tanh()


@dataclass(frozen=True, eq=False)
class FeatureCPC:
    """Def. 4, eq. (8), F-CPC: A # p(.|c_J) is a CPC, so p(x|c_J) = features(A x | c_J) |det dA/dx|.

    A # p is the pushforward. Raises TypeError for features that are not a composition and a transform that
    is not a `Transform`, ValueError for a transform of another dimension (its `n`).
    """

    features: ConditionalProjectiveComposition
    transform: Transform

    def __post_init__(self):
        if not isinstance(self.features, ConditionalProjectiveComposition):
            raise TypeError(
                f"features must be a ConditionalProjectiveComposition, got {shown(self.features)}"
            )
        if not all(
            callable(getattr(self.transform, name, None)) for name in ("forward", "inverse", "log_det")
        ):
            raise TypeError(f"transform needs forward, inverse and log_det, got {shown(self.transform)}")
        if getattr(self.transform, "n", self.features.n) != self.features.n:
            raise ValueError(
                f"the features live in R^{self.features.n}, the transform in R^{self.transform.n}"
            )

    def log_prob(self, x: Float[Tensor, "batch n"], J: Iterable = ()) -> Float[Tensor, "batch"]:
        """log p(x | c_J) in pixel space."""
        return self.features(J).log_prob(self.transform.forward(x)) + self.transform.log_det(x)

    def sample(self, batch: int, generator: torch.Generator, J: Iterable = ()) -> Float[Tensor, "batch n"]:
        """Draws of p(x | c_J) in pixel space."""
        return self.transform.inverse(self.features(J).sample(batch, generator))

    def pixels(self, J: Iterable = ()) -> GaussianMixture:
        """p(x | c_J) as a mixture in pixel space. Raises ValueError unless the map is linear."""
        if not isinstance(self.transform, LinearMap):
            raise ValueError(f"only a LinearMap keeps mixtures closed, got {type(self.transform).__name__}")
        return self.features(J).joint().pushforward(torch.linalg.inv(self.transform.matrix))
