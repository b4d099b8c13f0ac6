"""EDM's preconditioning: a raw network F becomes a denoiser D (Karras et al. 2022, eq. 7; EDM2 trains the
same).
"""

from dataclasses import dataclass

from jaxtyping import Float
from torch import Tensor, nn

from lcs_utils.checks import check_call, check_number, check_tensor
from lcs_utils.diffusion import SIGMA_DATA, check_positive, expand, loss_weight
from lcs_utils.models.magnitude_preserving import MPConv, MPFourier


def precondition(
    net, x_t: Tensor, sigma: Float[Tensor, "batch"], cond: Tensor, sigma_data: float, **inputs
) -> Tensor:
    """D = c_skip x + c_out F(c_in x, ln(sigma)/4, cond), shaped like x_t; ValueError for sigma <= 0."""
    check_tensor("x_t", x_t, ("batch", 3, "height", "width"), False, "float")
    check_tensor("sigma", sigma, (len(x_t),), False, "float")
    check_positive(sigma)
    s = expand(sigma.to(x_t.dtype), x_t)
    total = s**2 + sigma_data**2
    raw = net(x_t / total.sqrt(), sigma.log() / 4, cond, **inputs)
    return sigma_data**2 / total * x_t + s * sigma_data / total.sqrt() * raw


@dataclass(frozen=True)
class EDMDenoiser:
    """denoise(x_t, sigma, cond) of a net that sees the whole image and the whole condition (Exp. 1 and 2)."""

    net: nn.Module
    sigma_data: float = SIGMA_DATA
    side: int | None = None  # of the images that it was trained on; None: any

    def __post_init__(self):
        check_call("net", self.net)
        check_number("sigma_data", self.sigma_data, 0, above=True)

    def __call__(self, x_t, sigma, cond):
        check_tensor("x_t", x_t, ("batch", 3, self.side or "height", self.side or "width"), False, "float")
        check_tensor("cond", cond, None, False)
        cond = cond.expand(len(x_t), -1) if cond.ndim == 1 else cond
        return precondition(self.net, x_t, sigma, cond, self.sigma_data)


class LogVariance(nn.Module):
    """u(sigma), the learned log-variance of the loss at each noise level (EDM2, eq. 21); dropped at
    inference.
    """

    def __init__(self, channels: int = 128):
        super().__init__()
        self.fourier = MPFourier(channels)
        self.linear = MPConv(channels, 1, kernel=0)

    def forward(self, sigma: Float[Tensor, "batch"]) -> Float[Tensor, "batch"]:
        return self.linear(self.fourier(sigma.log() / 4))[:, 0]


def edm2_loss(
    x0_hat: Tensor, x0: Tensor, sigma: Tensor, log_variance: Tensor, sigma_data: float = SIGMA_DATA
) -> tuple[Tensor, Tensor]:
    """EDM2's loss lambda/e^u (D - x0)^2 + u per image, and the plain weighted error for the log; both
    [batch].

    Choice: mean over pixels where EDM2 sums. Adam does not see the difference, but float16 would: gradients
    of the mean of a large image are too small for it. Raises ValueError for other shapes, which would
    broadcast.
    """
    check_tensor("x0_hat", x0_hat, None, False, "float")
    check_tensor("x0", x0, x0_hat.shape, False, "float")
    for name, value in (("sigma", sigma), ("log_variance", log_variance)):
        check_tensor(name, value, x0_hat.shape[:1], False, "float")
    error = loss_weight(sigma, sigma_data) * (x0_hat - x0).square().flatten(1).mean(1)
    return error / log_variance.exp() + log_variance, error.detach()
