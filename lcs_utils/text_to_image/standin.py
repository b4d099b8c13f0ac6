"""A small model with SDXL's architecture for captions of CLEVR scenes, whose objects and words are known
(section 4).

Every part is diffusers' or transformers' own, so it is saved and loaded like SDXL. `untrained` has the
architecture and the vocabulary; `training` trains it.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from diffusers import AutoencoderKL, EulerDiscreteScheduler, StableDiffusionXLPipeline, UNet2DConditionModel
from transformers import CLIPTextConfig, CLIPTextModel, CLIPTextModelWithProjection, CLIPTokenizer

from lcs_utils.checks import check_count, check_list, check_text
from lcs_utils.clevr.scenes import COLORS, SHAPES

PLACES = ("left", "middle", "right")
STYLES = ("night", "fog", "drawing")
SMALL_WORDS = ("a", "an", "and", "as", "at", "in", "on", "the", "of", "with", "scene", "picture", "photo")
WORDS = (*COLORS, *SHAPES, *PLACES, *STYLES, *SMALL_WORDS)
BEGIN, END = "<|startoftext|>", "<|endoftext|>"


def tokenizer(words: Sequence[str] = WORDS, length: int = 48) -> CLIPTokenizer:
    """CLIP's tokenizer with a vocabulary of the given whole words, and single letters for other text.

    Merges are chains, r + e, re + d</w>. Raises ValueError for words with anything but lowercase letters.
    """
    words = [check_text("a word", word) for word in check_list("words", words, 1)]
    odd = [word for word in words if not (word.isascii() and word.isalpha() and word.islower())]
    if odd:
        raise ValueError(f"words may only have the letters a to z, got {', '.join(odd)}")
    check_count("length", length, 3)
    letters = sorted({letter for word in words for letter in word} | {","})
    pieces = dict.fromkeys([*letters, *(f"{letter}</w>" for letter in letters)])
    merges = []
    for word in words:
        done = word[0] if len(word) > 1 else f"{word}</w>"
        for i, letter in enumerate(word[1:], 2):
            last = f"{letter}</w>" if i == len(word) else letter
            if (done, last) not in merges:
                merges.append((done, last))
            done += last
            pieces[done] = None
    # The end token has the largest id: the pooled embedding is read where it first stands.
    vocabulary = {piece: i for i, piece in enumerate([*pieces, BEGIN, END])}
    return CLIPTokenizer(
        vocab=vocabulary,
        merges=merges,
        model_max_length=length,
        bos_token=BEGIN,
        eos_token=END,
        unk_token=END,
        pad_token=END,
    )


@dataclass(frozen=True)
class Size:
    """How large the parts are; by default a U-net of 3 million parameters, for 64 px and 16x16x4 latents."""

    channels: tuple[int, ...] = (32, 64, 64)
    heads: tuple[int, ...] = (2, 4, 4)
    transformers: tuple[int, ...] = (1, 1, 5)
    vae: tuple[int, ...] = (16, 32, 32)
    text: int = 48
    text_layers: int = 3
    projection: int = 64
    latents: int = 4
    vae_attention: bool = True
    length: int = 48
    words: tuple[str, ...] = WORDS


def untrained(size: Size = Size(), seed: int = 0) -> StableDiffusionXLPipeline:
    """The stand-in with random weights: SDXL's parts, "text_time" embeddings and two text encoders."""
    check_count("seed", seed)
    tokens = tokenizer(size.words, size.length)
    text = CLIPTextConfig(
        vocab_size=len(tokens),
        hidden_size=size.text,
        intermediate_size=4 * size.text,
        num_hidden_layers=size.text_layers,
        num_attention_heads=4,
        max_position_embeddings=tokens.model_max_length,
        projection_dim=size.projection,
        bos_token_id=tokens.bos_token_id,
        eos_token_id=tokens.eos_token_id,
        pad_token_id=tokens.pad_token_id,
    )
    time_numbers = 8
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        unet = UNet2DConditionModel(
            in_channels=size.latents,
            out_channels=size.latents,
            block_out_channels=size.channels,
            layers_per_block=1,
            down_block_types=("DownBlock2D", *("CrossAttnDownBlock2D",) * (len(size.channels) - 1)),
            up_block_types=(*("CrossAttnUpBlock2D",) * (len(size.channels) - 1), "UpBlock2D"),
            attention_head_dim=size.heads,
            transformer_layers_per_block=size.transformers,
            cross_attention_dim=2 * size.text,
            norm_num_groups=8,
            use_linear_projection=True,
            addition_embed_type="text_time",
            addition_time_embed_dim=time_numbers,
            projection_class_embeddings_input_dim=size.projection + 6 * time_numbers,
        )
        vae = AutoencoderKL(
            block_out_channels=size.vae,
            down_block_types=("DownEncoderBlock2D",) * len(size.vae),
            up_block_types=("UpDecoderBlock2D",) * len(size.vae),
            layers_per_block=1,
            latent_channels=size.latents,
            norm_num_groups=8,
            sample_size=64,
            mid_block_add_attention=size.vae_attention,
        )
        encoders = CLIPTextModel(text), CLIPTextModelWithProjection(text)
    pipeline = StableDiffusionXLPipeline(
        vae=vae,
        text_encoder=encoders[0].eval(),
        text_encoder_2=encoders[1].eval(),
        tokenizer=tokens,
        tokenizer_2=tokens,
        unet=unet.eval(),
        scheduler=EulerDiscreteScheduler(
            beta_start=0.00085,
            beta_end=0.012,
            beta_schedule="scaled_linear",
            steps_offset=1,
            timestep_spacing="leading",
        ),
        add_watermarker=False,
    )
    pipeline.set_progress_bar_config(disable=True)
    return pipeline
