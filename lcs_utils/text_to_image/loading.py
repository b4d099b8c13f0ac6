"""An SDXL-class pipeline, from the hub at a pinned revision or from a folder, checked before it is loaded."""

import json
import os
from pathlib import Path

import torch
from diffusers import StableDiffusionXLPipeline
from diffusers.utils import logging
from torch import nn

from lcs_utils.checks import check_choice
from lcs_utils.progress import quiet

SDXL = "stabilityai/stable-diffusion-xl-base-1.0"  # CreativeML Open RAIL++-M
SDXL_REVISION = "462165984030d82259a11f4367a4eed129e94a7b"
WORKING = 1.8  # memory, times the weights, of a U-net pass and the gradient of one target at 1024 px


def load_sdxl(
    source: str = SDXL, revision: str | None = SDXL_REVISION, device: str = "cpu", dtype: str = "float32"
) -> StableDiffusionXLPipeline:
    """Load an SDXL-class pipeline: a hub name at a pinned revision, or a folder of `save_pretrained`.

    The default is kept in the hub's cache. Weights are safetensors only. Raises ValueError for half
    precision on a CPU and for a GPU that is missing or too small, FileNotFoundError for a folder that lacks
    a part, OSError, with the command, if the hub is needed and cannot be reached.
    """
    kinds = {"float32": torch.float32, "float16": torch.float16, "bfloat16": torch.bfloat16}
    check_choice("dtype", dtype, kinds)
    if device == "cpu" and dtype != "float32":
        raise ValueError(f"on a processor SDXL runs in float32, got {dtype}")
    if device != "cpu" and not torch.cuda.is_available():
        raise ValueError(f"device {device!r} was asked for and this machine has none; 'cpu' works, slowly")
    if Path(source).is_dir():
        check_parts(Path(source))
    half = source == SDXL or any(Path(source).glob("unet/*.fp16.safetensors"))
    variant = "fp16" if dtype == "float16" and half else None
    if quiet():
        logging.disable_progress_bar()
    try:
        pipeline = StableDiffusionXLPipeline.from_pretrained(
            source, revision=revision, dtype=kinds[dtype], variant=variant, use_safetensors=True
        )
    except OSError as error:
        if Path(source).is_dir():
            raise
        offline = os.environ.get("HF_HUB_OFFLINE", "0") not in ("", "0")  # as our own runs set it
        pinned = f" --revision {revision}" if revision else ""
        if source == SDXL:  # whose hub page holds each part in five formats
            weights = "*.fp16.safetensors" if variant else "*l.safetensors"  # diffusion_pytorch_model, model
            pinned += "".join(f" --include '{kept}'" for kept in ("*.json", "*.txt", f"*/{weights}"))
        why = "was not asked (HF_HUB_OFFLINE is set)" if offline else "was not reached"
        raise OSError(
            f"{source!r} is neither a folder here nor in the hub's cache, and the hub {why}; where "
            f"there is a network: `hf download {source}{pinned}`"
        ) from error
    if device != "cpu":
        check_memory(pipeline, device)
    pipeline.set_progress_bar_config(disable=quiet())
    if device != "cpu":
        pipeline.vae.enable_slicing()  # one by one: two pictures of 1024 px in float32 take 6.4 GB at once
    return pipeline.to(device)


def check_parts(folder: Path) -> None:
    """Raise FileNotFoundError, naming what is missing, for an incomplete pipeline folder, ValueError for a
    pipeline of another class."""
    index = folder / "model_index.json"
    if not index.exists():
        raise FileNotFoundError(f"{folder.name} is not a pipeline's folder: it has no model_index.json")
    described = json.loads(index.read_text())
    kind = described.get("_class_name")
    if "StableDiffusionXL" not in str(kind):
        raise ValueError(f"{folder.name} holds a {kind}; allowed is a StableDiffusionXLPipeline")
    parts = [name for name, of in described.items() if isinstance(of, list) and of[0]]
    learned = ("unet", "vae", "text_encoder", "text_encoder_2")
    missing = [
        name
        for name in parts
        if not (folder / name).is_dir() or name in learned and not any((folder / name).glob("*.safetensors"))
    ]
    if missing:
        raise FileNotFoundError(f"{folder.name} lacks {', '.join(missing)} of {', '.join(parts)}")


def check_memory(pipeline: StableDiffusionXLPipeline, device: str) -> None:
    """Raise ValueError, saying what would fit, if a GPU's free memory is below WORKING times the weights."""
    learned = [part for part in pipeline.components.values() if isinstance(part, nn.Module)]
    weights = sum(p.numel() * p.element_size() for part in learned for p in part.parameters())
    halves = sum(p.numel() * 2 for part in learned for p in part.parameters())
    free = torch.cuda.mem_get_info(device)[0]
    if free < WORKING * weights:
        fits = "dtype='float16' fits" if free >= WORKING * halves else "device='cpu' works, slowly"
        raise ValueError(
            f"this model needs about {WORKING * weights / 1e9:.1f} GB in {pipeline.unet.dtype}, {device} has "
            f"{free / 1e9:.1f} free; {fits}"
        )
