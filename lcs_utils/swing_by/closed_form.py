"""Swing-by dynamics (Yang et al., ICLR 2025, arXiv 2410.08309): why out-of-distribution error can rise again.

Structured identity mapping (SIM): learn the identity on clusters that lie on the axes, test on the sum of
their centers. Everything follows from the rates a_p = sigma_p^2 + mu_p^2 / s, float64, no nets. W is the
end-to-end matrix. The equations are reconstructed from a digest of the paper; every one is checked against
autograd in the tests.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from lcs_utils.theory.checks import (
    check_count,
    check_entries,
    check_generator,
    check_list,
    check_number,
    check_tensor,
    check_times,
    shown,
)

MOST_STEPS = 1_000_000  # per flow


@dataclass(frozen=True)
class Sim:
    """SIM data (arXiv 2410.08309): cluster p in [s] is N(mu_p 1_p, diag(sigma)^2) in R^dim.

    sigma_p = 0 for p > s. Raises ValueError for no cluster, mu_p <= 0, sigma_p < 0, lengths that differ, or
    dim < s.
    """

    mu: tuple[float, ...]
    sigma: tuple[float, ...]
    dim: int

    def __post_init__(self):
        for name in ("mu", "sigma"):
            values = [
                check_number(f"a value of {name}", v, -1e6, 1e6)
                for v in check_list(name, getattr(self, name))
            ]
            object.__setattr__(self, name, tuple(values))
        check_count("dim", self.dim)
        if not self.mu or len(self.mu) != len(self.sigma):
            raise ValueError(
                f"need one sigma per mu, at least one, got {len(self.mu)} mu and {len(self.sigma)} sigma"
            )
        if min(self.mu) <= 0 or min(self.sigma) < 0:
            raise ValueError(
                f"every mu must be > 0 and every sigma >= 0, got mu {self.mu} and sigma {self.sigma}"
            )
        if self.dim < len(self.mu):
            raise ValueError(f"dim must be at least the number of clusters {len(self.mu)}, got {self.dim}")

    def on_axes(self, values: tuple[float, ...]) -> Float[Tensor, "dim"]:
        """`values` on the first axes, 0 on the others. Raises ValueError for more values than dimensions."""
        values = tuple(check_number("a value", v) for v in check_list("values", values))
        if len(values) > self.dim:
            raise ValueError(f"at most {self.dim} values fit, got {len(values)}")
        return torch.nn.functional.pad(torch.tensor(values, dtype=torch.float64), (0, self.dim - len(values)))

    @property
    def rates(self) -> Float[Tensor, "dim"]:
        """a_p = sigma_p^2 + mu_p^2 / s, the diagonal of E[x x^T]; zero for p > s."""
        return self.on_axes(self.sigma) ** 2 + self.on_axes(self.mu) ** 2 / len(self.mu)

    @property
    def target(self) -> Float[Tensor, "dim"]:
        """The test point x_b = sum_p mu_p 1_p, a composition that no cluster contains."""
        return self.on_axes(self.mu)

    def sample(self, count: int, generator: torch.Generator) -> Float[Tensor, "points dim"]:
        """`count` >= 1 points of every cluster, cluster by cluster: s * count in all."""
        check_count("count", count, 1)
        check_generator(generator)
        centers = torch.diag(self.target)[: len(self.mu)].repeat_interleave(count, dim=0)
        eps = torch.randn(centers.shape, generator=generator, dtype=torch.float64)
        return centers + self.on_axes(self.sigma) * eps


def identity_loss(W: Float[Tensor, "dim dim"], a: Float[Tensor, "dim"]) -> Tensor:
    """L = 1/2 ||(W - I) A^(1/2)||_F^2, the population's mean of 1/2 ||W x - x||^2; W and a as in `check`."""
    check(W, a)
    return 0.5 * ((W - torch.eye(len(a), dtype=a.dtype)) ** 2 * a).sum()


def ood_loss(outputs: Float[Tensor, "*lead dim"], target: Float[Tensor, "dim"]) -> Float[Tensor, "*lead"]:
    """||f(x_b) - x_b||^2 / ||x_b||^2: 0 when composed, 1 for an output of zero.

    Raises ValueError for a target of zero and for outputs of another dimension.
    """
    check_tensor("target", target, (None,))
    if not isinstance(outputs, Tensor):
        raise TypeError(f"outputs must be a tensor, got {shown(outputs)}")
    if outputs.ndim == 0 or outputs.shape[-1] != len(target):
        raise ValueError(f"outputs must end in {len(target)} like the target, got {list(outputs.shape)}")
    if not bool(target.any()):
        raise ValueError("the target must not be zero: the error is in units of its length")
    return ((outputs - target) ** 2).sum(dim=-1) / (target**2).sum()


def descend(
    parameter: Float[Tensor, "rows columns"], loss: Callable[[Tensor], Tensor], rate: float, steps: int
) -> Iterator[Tensor]:
    """Gradient descent by autograd: yields the start and the parameter after each of `steps` steps.

    `loss` may draw a new batch at each call, which makes this SGD. Raises ValueError unless rate > 0 and
    steps >= 0.
    """
    if not isinstance(parameter, Tensor) or not parameter.is_floating_point():
        raise TypeError(f"the parameter must be a floating-point tensor, got {shown(parameter)}")
    if not callable(loss):
        raise TypeError(f"loss must be a function of the parameter, got {shown(loss)}")
    check_number("the learning rate", rate, 0, above=True)
    check_count("steps", steps)
    yield parameter
    for _ in range(steps):
        variable = parameter.detach().requires_grad_()
        (gradient,) = torch.autograd.grad(loss(variable), variable)
        parameter = parameter - rate * gradient
        yield parameter


def sample_loss(
    x: Float[Tensor, "points dim"], batch: int, generator: torch.Generator
) -> Callable[[Tensor], Tensor]:
    """W -> mean of 1/2 ||W x - x||^2 over a new random batch of `x` at each call, for `descend`.

    Raises ValueError unless 1 <= batch <= points.
    """
    check_count("batch", batch, 1, len(check_tensor("x", x, (None, None))))
    check_generator(generator)

    def loss(W):
        points = x[torch.randint(len(x), (batch,), generator=generator)]
        return 0.5 * ((points @ W.T - points) ** 2).sum() / batch

    return loss


def one_layer(
    W0: Float[Tensor, "dim dim"], a: Float[Tensor, "dim"], times: Float[Tensor, "times"]
) -> Float[Tensor, "times dim dim"]:
    """W(t) of f(x) = W x under gradient flow: entry ki is 1_{k=i}(1 - e^{-a_i t}) + e^{-a_i t} w_ki(0).

    Applied to z this is f(W(t), z)_k of arXiv 2410.08309. Entries evolve independently, each monotonically
    to its limit. An output, a sum of entries with different rates, can still turn, from starts that are not
    small. times >= 0.
    """
    check(W0, a)
    check_times(times)
    decay = torch.exp(-times[:, None] * a)[:, None, :]  # [times 1 dim]
    return torch.eye(len(a), dtype=a.dtype) * (1 - decay) + decay * W0


class Terms(NamedTuple):
    """dW/dt = growth - suppression - noise, each [dim dim]."""

    growth: Tensor
    suppression: Tensor
    noise: Tensor


def two_layer_terms(W: Float[Tensor, "dim dim"], a: Float[Tensor, "dim"]) -> Terms:
    """G, S and N of the symmetric two-layer model W = U U^T, entry by entry as in arXiv 2410.08309.

    G = w_ij (a_i + a_j); S = 1/2 w_ij [w_ii (3 a_i + a_j) + 1_{i != j} w_jj (3 a_j + a_i)];
    N = 1/2 sum_{k not in {i, j}} w_ki w_kj (a_i + a_j + 2 a_k). This is the flow dU/dt = -1/2 grad L: with
    the paper's L (`identity_loss`) autograd gives twice as much.
    """
    check(W, a)
    i, j = a[:, None], a[None, :]
    w_ii, w_jj = W.diagonal()[:, None], W.diagonal()[None, :]
    distinct = 1 - torch.eye(len(a), dtype=a.dtype)
    growth = W * (i + j)
    suppression = 0.5 * W * (w_ii * (3 * i + j) + distinct * w_jj * (3 * j + i))
    others = distinct[:, :, None] * distinct[:, None, :]  # [k i j]: k is neither i nor j
    noise = 0.5 * torch.einsum("kij,ki,kj,kij->ij", others, W, W, i + j + 2 * a[:, None, None])
    return Terms(growth, suppression, noise)


def two_layer_velocity_autograd(
    U: Float[Tensor, "dim inner"], a: Float[Tensor, "dim"]
) -> Float[Tensor, "dim dim"]:
    """dW/dt for W = U U^T when dU/dt = -1/2 grad_U L, by autograd: the oracle of `two_layer_terms`.

    Raises ValueError unless U has as many rows as there are rates >= 0.
    """
    check_tensor("U", U, (len(check_tensor("a", a, (None,))), None))
    variable = U.detach().requires_grad_()
    (gradient,) = torch.autograd.grad(identity_loss(variable @ variable.T, a), variable)
    return -0.5 * (gradient @ U.T + U @ gradient.T)


def two_layer_flow(
    W0: Float[Tensor, "*starts dim dim"], a: Float[Tensor, "dim"], times: Float[Tensor, "times"]
) -> Iterator[Float[Tensor, "*starts dim dim"]]:
    """W(t) at each of `times` from W(0) = W0, all starts at once: fourth-order Runge-Kutta on U, W = U U^T.

    Choice: at most 0.2 / max(a, |A W|) per step, |A W| the largest row or column sum: the flow is quadratic
    in W, so a large start needs small steps until it has shrunk. Finer steps change w by less than 1e-4.
    Raises ValueError unless times increase from >= 0, W0 is symmetric without negative eigenvalues (it is U
    U^T) and every a >= 0, and for times that need more than a million steps.
    """
    check(W0, a, stack=True)
    moments = [0.0, *check_times(times)]
    if any(later < earlier for earlier, later in zip(moments, moments[1:])):
        raise ValueError(f"times must increase from >= 0, got {shown(moments[1:])}")
    size = W0.abs().max()
    if (W0 - W0.mT).abs().max() > 1e-9 * size:
        raise ValueError("W0 must be symmetric: the model is W = U U^T")
    values, vectors = torch.linalg.eigh(W0.double())
    if (least := float(values.min())) < -1e-9 * float(size):
        raise ValueError(f"W0 must have no negative eigenvalue: the model is W = U U^T, got {least:.3g}")
    a, fastest = a.double(), float(a.max())
    if moments[-1] * fastest / 0.2 > MOST_STEPS:
        raise ValueError(
            f"times must end by {0.2 * MOST_STEPS / fastest:g} for these rates, got {moments[-1]:g}"
        )
    # integrate U: rounding could give W itself negative eigenvalues
    W, U = (W0.double(), vectors * values.clamp(min=0).sqrt()[..., None, :])
    for earlier, later in zip(moments, moments[1:]):
        left = later - earlier
        while left > 0:
            pull = (a[:, None] * W).abs()  # A W, whose largest row or column sum bounds how fast U moves
            longest = 0.2 / max(fastest, float(pull.sum(-1).max()), float(pull.sum(-2).max()), 1e-300)
            steps = max(1, math.ceil(left / longest))
            U = _runge_kutta(U, a, left / steps)
            W = U @ U.mT
            left = 0.0 if steps == 1 else left - left / steps
        yield W


def _factor_velocity(U: Float[Tensor, "*starts dim inner"], a: Float[Tensor, "dim"]) -> Tensor:
    """dU/dt = A U - 1/2 (A W + W A) U for W = U U^T, where (A W + W A)_ij = (a_i + a_j) w_ij."""
    return a[:, None] * U - ((a[:, None] + a) / 2 * (U @ U.mT)) @ U


def _runge_kutta(U: Float[Tensor, "*starts dim inner"], a: Float[Tensor, "dim"], h: float) -> Tensor:
    """One fourth-order step of length h."""
    k1 = _factor_velocity(U, a)
    k2 = _factor_velocity(U + h / 2 * k1, a)
    k3 = _factor_velocity(U + h / 2 * k2, a)
    k4 = _factor_velocity(U + h * k3, a)
    return U + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)


def stepped_w(
    W0: Float[Tensor, "*starts dim dim"], a: Float[Tensor, "dim"], step: float, steps: int
) -> Float[Tensor, "*starts dim dim"]:
    """W after `steps` steps of dW/dt itself, W <- W + step dW/dt, as the code of arXiv 2410.08309 goes.

    A step of U adds step^2 M W M besides, for dU/dt = M U. Without it W can get negative eigenvalues, which
    no U U^T has: then it is not a state of the model any more.
    """
    check(W0, a, stack=True)
    check_number("step", step, 0, above=True)
    W, a = W0.double(), a.double()
    pair = a[:, None] + a
    for _ in range(check_count("steps", steps)):
        W = W + step * (pair * W - (W * a) @ W - 0.5 * pair * (W @ W))
    return W


def check(W: Float[Tensor, "*starts rows columns"], a: Float[Tensor, "dim"], stack: bool = False) -> None:
    """Raise ValueError unless W is [dim dim], or [.. dim dim] with at least one start if `stack`, and finite,
    for the dim of the rates `a`, which must be >= 0.
    """
    check_tensor("the rates a", a, (None,))
    if not isinstance(W, Tensor):
        raise TypeError(f"W must be a tensor, got {shown(W)}")
    if len(a) == 0:
        raise ValueError("there must be at least one rate, got none")
    if W.shape[-2:] != (len(a), len(a)):
        found = " x ".join(map(str, W.shape)) or "a number"
        raise ValueError(f"W must be {len(a)} x {len(a)} to fit {len(a)} rates, got {found}")
    if W.ndim > 2 and not stack:
        raise ValueError(f"W must be one start {len(a)} x {len(a)}, got a stack of shape {list(W.shape)}")
    if W.numel() == 0:
        raise ValueError(f"W must hold at least one start, got shape {list(W.shape)}")
    if bool((a < 0).any()):
        raise ValueError(f"rates must be >= 0, got {a.min().item():g}")
    check_entries("W", W)
