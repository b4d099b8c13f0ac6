"""The least text-to-image stand-in that all its tests share: every part of SDXL's, at the smallest size."""

from lcs_utils.text_to_image import captions, standin

TINY = standin.Size(
    channels=(16, 16),
    heads=(2, 2),
    transformers=(1, 1),
    vae=(8, 8),
    text=16,
    text_layers=2,
    projection=16,
    vae_attention=False,
    length=16,
    words=captions.WORDS,
)
