"""What a training run consists of: EDM2's objective, the averaged net, the optimizer, and how the learning rate and average go."""

import copy
import math
from dataclasses import dataclass

import numpy as np
import torch
from torch import nn

from lcs_utils.experiments import Experiment, Preset
from lcs_utils.models.precond import LogVariance, edm2_loss, precondition
from lcs_utils.models.unet import EDM2UNet
from lcs_utils.resumable import Resumable
from lcs_utils.training_data import Batch, condition_dim

SIGMA_REL = 0.05  # width of the power-function EMA, relative to the run's length (EDM2, section 3.1)
RAMP, COOLDOWN, CONSTANT = 0.03, 0.25, 0.25  # shares of the run's images


class Objective(nn.Module):
    """Net and log-variance as one module, so that accelerate wraps both: noisy batch -> (loss, plain error), [batch]."""

    def __init__(self, net: EDM2UNet, sigma_data: float):
        super().__init__()
        self.net, self.log_variance, self.sigma_data = net, LogVariance(), sigma_data

    def forward(self, x_t, sigma, batch: Batch):
        inputs = {} if batch.valid is None else {"valid": batch.valid}
        x0_hat = precondition(self.net, x_t, sigma, batch.cond, self.sigma_data, **inputs)
        if batch.valid is not None:  # pixels outside the image are known to be 0 and do not count
            x0_hat = x0_hat * batch.valid
        return edm2_loss(x0_hat, batch.x0, sigma, self.log_variance(sigma), self.sigma_data)


def learning_rate(images_seen: int, total: int, peak: float) -> float:
    """EDM2's ramp-up and 1/sqrt decay, with a linear cooldown to 0 over the last quarter (Choice: runs are short)."""
    progress = images_seen / total
    decay = 1 / math.sqrt(max(progress / CONSTANT, 1))
    return peak * min(progress / RAMP, 1) * decay * min((1 - progress) / COOLDOWN, 1)


def ema_exponent(sigma_rel: float) -> float:
    """gamma of the power-function EMA whose relative width is `sigma_rel` (EDM2, eq. 126's inverse)."""
    t = sigma_rel**-2
    return float(np.roots([1, 7, 16 - t, 12 - t]).real.max())


@dataclass(frozen=True, kw_only=True)
class State(Resumable):
    """A denoiser's training."""

    objective: Objective
    ema: EDM2UNet


def start(exp: Experiment, size: Preset, seed: int, device: torch.device, process: int = 0) -> State:
    """A fresh run: weights from `seed`, data from (seed, process)."""
    torch.manual_seed(seed)
    config = size.net if exp.radius is None else size.patch_net
    net = EDM2UNet(cond_dim=condition_dim(exp, exp.radius), normalize_label=exp.normalize_label, **config)
    objective = Objective(net, size.sigma_data).to(device, memory_format=torch.channels_last)
    optimizer = torch.optim.Adam(objective.parameters(), lr=size.learning_rate, betas=(0.9, 0.99), fused=True)
    generator = torch.Generator(device).manual_seed(seed * 1000 + process)
    seen, ema = torch.zeros(2, dtype=torch.float64), copy.deepcopy(net).eval()
    return State(objective=objective, ema=ema, optimizer=optimizer, generator=generator, seen=seen)
