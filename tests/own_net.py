"""A net of one's own, for `test_architectures`: a transformer of patches, told by an added vector."""

import torch
from diffusers import ConfigMixin, ModelMixin
from diffusers.configuration_utils import register_to_config
from torch import nn


class Transformer(ModelMixin, ConfigMixin):
    @register_to_config
    def __init__(self, cond_dim, side, width=16, patch=8):
        super().__init__()
        self.cut = nn.Conv2d(3, width, patch, patch)
        self.place = nn.Parameter(torch.randn((side // patch) ** 2, width))
        self.told = nn.Linear(cond_dim + 1, width)
        self.layer = nn.TransformerEncoderLayer(width, 2, 2 * width, dropout=0.0, batch_first=True)
        self.join = nn.ConvTranspose2d(width, 3, patch, patch)

    def forward(self, x, c_noise, cond, valid=None):
        x = self.cut(x if valid is None else x * valid)
        told = self.told(torch.cat([cond.float(), c_noise[:, None].float()], 1))
        y = x.flatten(2).transpose(1, 2) + self.place + told[:, None]
        return self.join(self.layer(y).transpose(1, 2).reshape(x.shape))
