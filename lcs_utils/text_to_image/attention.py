"""Cross-attention maps of a U-net's tokens, layer by layer, while it runs (Figs. 7, 13, App. G).

    with attention_maps(pipeline.unet, tokens=[2, 5], layers="mid_block") as maps:
        denoiser(x_t, sigma, cond)
    maps["mid_block.attentions.0.transformer_blocks.0.attn2"][0]  # [batch, tokens, height, width]

Maps keep their gradients; the net's own processors come back also after an exception.
"""

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch
from einops import rearrange
from jaxtyping import Float
from torch import Tensor, nn

from lcs_utils.checks import check_counts, check_list

PARTS = ("down_blocks", "mid_block", "up_blocks")  # the paper's Down, Mid and Up


def cross_attentions(unet: nn.Module, layers: str | Sequence[str] = PARTS) -> list[str]:
    """Names of the cross-attentions whose name begins with one of `layers`, in the order of the net.

    Raises ValueError, naming the available parts, for a layer that matches none.
    """
    every = [name for name, _ in unet.named_modules() if name.endswith(".attn2")]
    wanted = [layers] if isinstance(layers, str) else check_list("layers", layers, 1)
    for layer in wanted:
        if not any(name == layer or name.startswith(f"{layer}.") for name in every):
            parts = dict.fromkeys(".".join(name.split(".")[:2]) for name in every)
            raise ValueError(f"no cross-attention in {layer!r}; there are some in {', '.join(parts)}")
    chosen = [f"{layer}." for layer in wanted]
    return sorted(
        (name for name in every if any(f"{name}.".startswith(layer) for layer in chosen)),
        key=lambda name: (PARTS.index(name.split(".")[0]), every.index(name)),
    )


class _Recorder:
    """Attention as the layer computes it, by plain products, recording the probabilities of some tokens."""

    def __init__(self, tokens: Sequence[int], kept: list[Tensor], shape: tuple[int, int]):
        self.tokens, self.kept, self.shape = list(tokens), kept, shape

    def __call__(self, attn, hidden_states, encoder_hidden_states=None, attention_mask=None, **unused):
        mask = attention_mask
        if mask is not None:
            batch, length = encoder_hidden_states.shape[:2]
            mask = attn.prepare_attention_mask(mask, length, batch)
        q = attn.head_to_batch_dim(attn.to_q(hidden_states))
        k = attn.head_to_batch_dim(attn.to_k(encoder_hidden_states))
        v = attn.head_to_batch_dim(attn.to_v(encoder_hidden_states))
        p = attn.get_attention_scores(q, k, mask)  # [batch * heads, places, tokens]
        self.kept.append(self.map(p, attn.heads))
        y = attn.batch_to_head_dim(torch.bmm(p, v))
        for layer in attn.to_out:
            y = layer(y)
        return y

    def map(self, p: Tensor, heads: int) -> Float[Tensor, "batch tokens height width"]:
        height, width = self.shape
        h = round(math.sqrt(p.shape[1] * height / width))
        mean = rearrange(p, "(b heads) (h w) t -> b heads t h w", heads=heads, h=h).mean(1)
        return mean[:, self.tokens]


@contextmanager
def attention_maps(
    unet: nn.Module,
    tokens: Sequence[int],
    layers: str | Sequence[str] = PARTS,
    shape: tuple[int, int] = (1, 1),
) -> Iterator[dict[str, list[Float[Tensor, "batch tokens height width"]]]]:
    """{layer: its maps of the tokens, averaged over heads, one per forward pass}, filled inside the context.

    A map is the share of each place's attention that the token gets, so that the maps of all tokens sum to
    one. `shape` gives the latents' height against width. Raises ValueError as `cross_attentions`, for no
    tokens, and for layers that normalize theirs.
    """
    tokens = check_counts("tokens", tokens)
    if not tokens:
        raise ValueError("no tokens were asked for; `PromptDenoiser.words` gives their positions")
    names = cross_attentions(unet, layers)
    odd = [name for name in names if getattr(unet.get_submodule(name), "norm_cross", None) is not None]
    if odd:
        raise ValueError(f"cross-attentions that normalize their tokens are not supported: {', '.join(odd)}")
    before, maps = dict(unet.attn_processors), {name: [] for name in names}
    recording = {f"{name}.processor": _Recorder(tokens, maps[name], shape) for name in names}
    unet.set_attn_processor(before | recording)
    try:
        yield maps
    finally:
        unet.set_attn_processor(before)
