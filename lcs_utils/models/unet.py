"""EDM2's magnitude-preserving U-net (Karras et al. 2024, configuration G), written from its equations.

Every layer keeps unit variance by construction: weights have unit RMS per output channel, sums and
concatenations are reweighted, nonlinearities are rescaled. The condition enters in one place only,
`MCScale`. forward has no side effects: weights are renormalized after the optimizer's step by
`renormalize_` (App. E.1), so Jacobians, EMA copies and torch.compile see a pure function. The layers
themselves are in `magnitude_preserving`.
"""

import math

import torch
import torch.nn.functional as F
from diffusers import ConfigMixin, ModelMixin
from diffusers.configuration_utils import register_to_config
from jaxtyping import Float
from torch import Tensor, nn

from lcs_utils.checks import check_choice, check_count, check_counts, check_flag, check_tensor
from lcs_utils.models.magnitude_preserving import (
    SILU,
    MPConv,
    MPFourier,
    mp_cat,
    mp_shares,
    mp_silu,
    mp_sum,
    normalize,
)
from lcs_utils.models.precision import DTYPES, dtype_on

MAIN, RESIDUAL = mp_shares(0.3)  # of a block's sum; the residual's share is in its last layer's weights


class MCScale(nn.Module):
    """Magnitude-preserving conditional scale y * (1 + gain * linear(emb)): where noise level and condition
    enter.

    Its own module, so that a forward hook yields the modulated features that App. E.4 studies.
    """

    def __init__(self, emb_channels: int, channels: int):
        super().__init__()
        self.linear = MPConv(emb_channels, channels, kernel=0)
        self.gain = nn.Parameter(torch.zeros(()))

    def forward(self, y: Tensor, emb: Tensor) -> Tensor:
        return y * (self.linear(emb, gain=self.gain) + 1).to(y.dtype)[:, :, None, None]


def attend(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """softmax(q k^T / sqrt(channels)) v, each [... pixels channels].

    Choice: plain products on a CPU, where the gradient of torch's fused attention is slower at these sizes.
    """
    if q.device.type != "cpu":
        return F.scaled_dot_product_attention(q, k, v)
    return torch.softmax(q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1]), dim=-1) @ v


class Attention(nn.Module):
    """Cosine self-attention over pixels, merged with weight 0.3."""

    def __init__(self, channels: int, head_channels: int):
        super().__init__()
        self.heads = channels // head_channels
        self.qkv = MPConv(channels, 3 * channels, kernel=1)
        self.project = MPConv(channels, channels, kernel=1, scale=RESIDUAL)

    def forward(self, x: Tensor) -> Tensor:
        b, c, h, w = x.shape
        qkv = self.qkv(x).reshape(b, 3, self.heads, c // self.heads, h * w)  # [b qkv head c hw]
        q, k, v = normalize(qkv, dim=3).transpose(-1, -2).unbind(1)  # each [b head hw c]
        y = attend(q, k, v).transpose(-1, -2).reshape(b, c, h, w)
        return torch.add(self.project(y), x, alpha=MAIN)


class Block(nn.Module):
    """One residual block of the encoder (normalizes its input) or decoder; resampling first,
    attention last.
    """

    def __init__(self, in_channels, out_channels, emb_channels, decoder, resample="keep", head_channels=None):
        super().__init__()
        self.decoder, self.resample = decoder, resample
        self.skip = MPConv(in_channels, out_channels, kernel=1) if in_channels != out_channels else None
        self.conv_in = MPConv(
            in_channels if decoder else out_channels, out_channels, kernel=3, scale=1 / SILU
        )
        self.scale = MCScale(emb_channels, out_channels)
        self.conv_out = MPConv(out_channels, out_channels, kernel=3, scale=RESIDUAL / SILU)
        self.attention = Attention(out_channels, head_channels) if head_channels else None

    def forward(self, x: Tensor, emb: Tensor) -> Tensor:
        # Resample, and in the encoder normalize each pixel's features.
        if self.resample == "down":
            x = F.avg_pool2d(x, 2)
        elif self.resample == "up":
            x = F.interpolate(x, scale_factor=2, mode="nearest")
        if not self.decoder:
            x = normalize(x if self.skip is None else self.skip(x), dim=1)
        # Residual branch: the embedding of noise and condition scales its features.
        y = self.conv_in(F.silu(x))
        y = self.conv_out(F.silu(self.scale(y, emb)))
        # Main branch, of which the residual is 30%.
        if self.decoder and self.skip is not None:
            x = self.skip(x)
        x = torch.add(y, x, alpha=MAIN)
        if self.attention is not None:
            x = self.attention(x)
        return F.hardtanh_(x, -256.0, 256.0)  # clip, with one pass backward instead of four


class EDM2UNet(ModelMixin, ConfigMixin):
    """The raw network F(x_in, c_noise, cond): images [batch 3 h w], [batch], [batch cond_dim] -> [batch 3 h
    w].

    `valid` [batch 1 h w] is EDM2's constant ones channel; the local patch net sets it to 0 outside the image.
    Choice: attention is indexed by level (EDM2: by resolution), so one config serves every resolution.
    Choice: `unshuffle` > 1 folds unshuffle^2 pixels into channels first, for nets trained on a CPU; the
    paper's is 1.
    Choice: `normalize_label` divides the label embedding by sqrt(number of labels); the paper's nets do not.
    Raises ValueError when the image side is not a multiple of unshuffle * 2^(levels - 1) or cond has
    another size, and for settings that give no net.
    """

    @register_to_config
    def __init__(
        self,
        cond_dim: int = 256,
        channels: int = 128,
        channel_mult: list[int] = (1, 2, 3, 4),
        num_blocks: int = 3,
        attention_levels: list[int] = (3,),
        head_channels: int = 64,
        unshuffle: int = 1,
        normalize_label: bool = False,
        dtype_inside: str = "float32",
    ):
        for name, value in (
            ("cond_dim", cond_dim),
            ("channels", channels),
            ("num_blocks", num_blocks),
            ("head_channels", head_channels),
            ("unshuffle", unshuffle),
        ):
            check_count(name, value, 1)
        multiples = check_counts("channel_mult", channel_mult, 1, least=1)
        for level in check_counts("attention_levels", attention_levels, 0, len(multiples) - 1):
            if channels * multiples[level] % head_channels:
                raise ValueError(
                    f"head_channels must divide the {channels * multiples[level]} channels of level {level}, "
                    f"got {head_channels}"
                )
        check_flag("normalize_label", normalize_label)
        check_choice("dtype_inside", dtype_inside, DTYPES)
        super().__init__()
        widths = [channels * m for m in channel_mult]
        emb_channels = max(widths)
        pixels = 3 * unshuffle**2
        self.fourier = MPFourier(channels)
        self.embed_noise = MPConv(channels, emb_channels, kernel=0)
        self.embed_label = MPConv(cond_dim, emb_channels, kernel=0)

        def head(level):
            return head_channels if level in attention_levels else None

        self.conv_in = MPConv(pixels + unshuffle**2, widths[0], kernel=3)
        # Encoder: every block's output is kept for the decoder.
        self.encoder, skips, width = nn.ModuleList(), [widths[0]], widths[0]
        for level, out in enumerate(widths):
            if level > 0:
                self.encoder.append(Block(width, width, emb_channels, decoder=False, resample="down"))
                skips.append(width)
            for _ in range(num_blocks):
                self.encoder.append(Block(width, out, emb_channels, decoder=False, head_channels=head(level)))
                width = out
                skips.append(width)

        # Decoder, from the lowest resolution up: two blocks without a skip, then one more than there.
        self.decoder, self.takes_skip = nn.ModuleList(), []
        for level, out in reversed(list(enumerate(widths))):
            if level == len(widths) - 1:
                # Choice: EDM2 always attends in the first middle block, ours only where `attention_levels`
                # asks for it, so that a net can do without, as our small patch nets do
                middle = Block(width, width, emb_channels, decoder=True, head_channels=head(level))
                self.decoder.append(middle)
                self.decoder.append(Block(width, width, emb_channels, decoder=True))
                self.takes_skip += [False, False]
            else:
                self.decoder.append(Block(width, width, emb_channels, decoder=True, resample="up"))
                self.takes_skip += [False]
            for _ in range(num_blocks + 1):
                block = Block(width + skips.pop(), out, emb_channels, decoder=True, head_channels=head(level))
                self.decoder.append(block)
                self.takes_skip.append(True)
                width = out
        self.conv_out = MPConv(widths[0], pixels, kernel=3)
        self.out_gain = nn.Parameter(torch.zeros(()))

    def embed(self, c_noise: Float[Tensor, "batch"], cond: Float[Tensor, "batch cond"]) -> Tensor:
        """The embedding that every MCScale reads: noise level and condition, summed with equal weight."""
        label = self.embed_label(cond * math.sqrt(self.config.cond_dim))
        if self.config.normalize_label:
            label = label / cond.sum(1, keepdim=True).clamp(min=1).sqrt()
        return mp_silu(mp_sum(self.embed_noise(self.fourier(c_noise).to(cond.dtype)), label, t=0.5))

    def forward(self, x, c_noise, cond, valid=None):
        config = self.config
        check_tensor("x", x, ("batch", 3, "height", "width"), False, "float")
        check_tensor("c_noise", c_noise, (len(x),), False, "float")
        check_tensor("cond", cond, None, False)
        if valid is not None:
            check_tensor("valid", valid, (len(x), 1, *x.shape[2:]), False, "float")
        multiple = config.unshuffle * 2 ** (len(config.channel_mult) - 1)
        if not x.numel() or x.shape[-1] % multiple or x.shape[-2] % multiple:
            raise ValueError(f"x must hold images with sides a multiple of {multiple}, got {list(x.shape)}")
        if cond.shape != (len(x), config.cond_dim):
            raise ValueError(f"cond must have shape {[len(x), config.cond_dim]}, got {list(cond.shape)}")
        dtype = dtype_on(x.device, config.dtype_inside)
        emb = self.embed(c_noise, cond.float()).to(dtype)
        valid = torch.ones_like(x[:, :1]) if valid is None else valid
        x = torch.cat([x, valid], dim=1).to(dtype)
        if config.unshuffle > 1:
            x = F.pixel_unshuffle(x, config.unshuffle)
        x = self.conv_in(x.contiguous(memory_format=torch.channels_last))
        skips = [x]
        for block in self.encoder:
            x = block(x, emb)
            skips.append(x)
        for block, takes_skip in zip(self.decoder, self.takes_skip):
            x = block(mp_cat(x, skips.pop()) if takes_skip else x, emb)
        x = self.conv_out(x, gain=self.out_gain)
        if config.unshuffle > 1:
            x = F.pixel_shuffle(x, config.unshuffle)
        return x.float()
