"""Does the model draw what its caption says? Pictures of captions, read and counted (section 4, App. G)."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from lcs_utils.checks import check_count, check_number
from lcs_utils.text_to_image import truth
from lcs_utils.text_to_image.captions import Scene, caption, told_scenes
from lcs_utils.text_to_image.data import RESOLUTION, decode, encode, in_style, renders
from lcs_utils.text_to_image.reader import Reader, all_right, part_right

STEPS = 25  # of the pipeline's own Euler sampler
GUIDANCE = (1.0, 4.0)
CEILING = "copies of renders"
KINDS = {  # what is asked for: number of objects, what of it is held out of training
    "1 object": (1, ""),
    "2 objects": (2, ""),
    "held-out pair": (1, "pair"),
    "held-out style": (1, "style"),
}


@torch.no_grad()
def draw(
    pipeline: Any, prompts: Sequence[str], guidance: float, seed: int, at_once: int = 50
) -> Float[Tensor, "prompts 3 height width"]:
    """Pictures in [-1, 1] of prompts, drawn by the pipeline itself; all noise comes from `seed`."""
    check_number("guidance", guidance, 1)
    check_count("seed", seed)
    generator, found = torch.Generator().manual_seed(seed), []
    settings = {"height": RESOLUTION, "width": RESOLUTION, "num_inference_steps": STEPS, "output_type": "pt"}
    for first in range(0, len(prompts), at_once):
        part = list(prompts[first : first + at_once])
        found.append(pipeline(part, guidance_scale=guidance, generator=generator, **settings).images)
    return 2 * torch.cat(found) - 1


def success_rows(
    net: str, pipeline: Any, reader: Reader, number: int = 100, seed: int = 0
) -> Iterator[truth.Row]:
    """Shares of pictures that fit their caption: all pairs and no other object; colors, shapes, number, style
    alone; beside each the share that fits another picture's caption ("permuted")."""
    for guidance in GUIDANCE:
        for kind, (objects, held) in KINDS.items():
            told = told_scenes(number, objects, seed, held)
            seen = reader.read(draw(pipeline, [caption(scene) for scene in told], guidance, seed))
            other = [told[i] for i in np.roll(np.arange(number), 1)]
            for control, asked in (("", told), ("permuted", other)):
                for what, right in judged(asked, seen).items():
                    yield truth.share_row(net, what, kind, control, guidance, right)


def judged(told: Sequence[Scene], seen: Sequence[Scene]) -> dict[str, list[bool]]:
    """{what: whether it is right, picture by picture}."""
    both = list(zip(told, seen, strict=True))
    return {
        "objects right": [all_right(a, b) for a, b in both],
        "colors right": [part_right(a, b, 0) for a, b in both],
        "shapes right": [part_right(a, b, 1) for a, b in both],
        "number right": [len(a.pairs) == len(b.pairs) for a, b in both],
        "style right": [a.style == b.style for a, b in both],
    }


def ceiling_rows(
    pipeline: Any, reader: Reader, number: int, folder: Path | None = None
) -> Iterator[truth.Row]:
    """The best this reader can find in pictures of this VAE: rows of its copies of held-out renders."""
    found = renders("held_out", folder)
    for kind, (objects, held) in KINDS.items():
        if held:
            continue
        here = [i for i, scene in enumerate(found.scenes) if len(scene.pairs) == objects][:number]
        told = [found.scenes[i] for i in here]
        with torch.no_grad():
            copies = decode(
                pipeline.vae, encode(pipeline.vae, in_style(found.images[here], ["plain"] * len(here)))
            )
        for what, right in judged(told, reader.read(copies)).items():
            yield truth.share_row(CEILING, what, kind, "", 0.0, right)
