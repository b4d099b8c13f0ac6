"""Data of the small text-to-image model: renders whose objects are known, in styles, and their latents."""

import copy
import hashlib
import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from diffusers import AutoencoderKL
from jaxtyping import Float, UInt8
from torch import Tensor

from lcs_utils import paths, store
from lcs_utils.checks import check_choice, check_tensor
from lcs_utils.clevr.annotations import trace
from lcs_utils.clevr.dataset import default_folder
from lcs_utils.clevr.loading import ShardDataset
from lcs_utils.clevr.scene_json import scene_from_json
from lcs_utils.clevr.shards import MANIFEST
from lcs_utils.diffusion import from_uint8
from lcs_utils.text_to_image.captions import STYLES, Scene, allowed_styles, styled

RESOLUTION = 64
OBJECTS = (1, 2)
LAST = 1000  # scenes of each object count that no training sees
MADE_BY = "python -m lcs_utils.training scenes exp1 --preset small"
MARGIN = 0.03  # of the picture: a center nearer to the border may not be seen


class Renders(NamedTuple):
    """Renders uint8 [n 3 64 64], the scenes they show, their indices in the rendered folder, and the objects'
    centers [n 3 2] in [0, 1] (x right, y down; NaN for none)."""

    images: Tensor
    scenes: list[Scene]
    places: np.ndarray
    locations: np.ndarray


def renders(part: str, folder: Path | None = None, each: int | None = None) -> Renders:
    """Renders of 1 and 2 objects: for "training" (no held-out pair), for the "reader" (with them), or
    "held_out" (unseen by both); the first `each` of a count.

    Raises ValueError for another part, FileNotFoundError with the command when nothing is rendered.
    """
    check_choice("part", part, ("training", "reader", "held_out"))
    folder = Path(folder or default_folder(RESOLUTION, (1, 2, 3)))
    if folder == default_folder(RESOLUTION, (1, 2, 3)) and not (folder / MANIFEST).exists():
        raise FileNotFoundError(f"no renders in {paths.shown(folder)}; make them: `{MADE_BY}`")
    data = ShardDataset(folder, OBJECTS, check=False)
    number, locations = data.column("n_objects"), data.column("locations")
    inside = ((locations > MARGIN) & (locations < 1 - MARGIN)) | np.isnan(locations)
    places, scenes = [], []
    for count in OBJECTS:
        here = np.flatnonzero(number == count)
        cut = max(len(here) - LAST, len(here) // 2)
        here = here[cut:] if part == "held_out" else here[:cut]
        here = here[inside[here].all((1, 2))]
        found = []
        for place, line in zip(here, data.scene_lines(here), strict=True):
            objects = json.loads(line)["objects"]
            scene = Scene(tuple((one["color"], one["shape"]) for one in objects))
            if part != "training" or allowed_styles(scene):
                found.append((place, scene))
        places += [place for place, _ in found[:each]]
        scenes += [scene for _, scene in found[:each]]
    places = np.array(places)
    return Renders(torch.from_numpy(data.column("images", places)), scenes, places, locations[places])


def masks(found: Renders, index: int, folder: Path | None = None) -> np.ndarray:
    """bool [objects 64 64]: where each object of a render is visible, in the order of its scene."""
    data = ShardDataset(Path(folder or default_folder(RESOLUTION, (1, 2, 3))), OBJECTS, check=False)
    scene = scene_from_json(data.scene(int(found.places[index])))
    ids = trace(scene, RESOLUTION, RESOLUTION).ids
    return np.stack([ids == i for i in range(len(found.scenes[index].pairs))])


def in_style(images: UInt8[Tensor, "n 3 height width"], styles: Sequence[str]) -> Tensor:
    """Renders as floats in [-1, 1], each in its style."""
    x = from_uint8(images)
    for style in set(styles):
        here = [i for i, one in enumerate(styles) if one == style]
        x[here] = styled(x[here], style)
    return x


@contextmanager
def _wide(vae: AutoencoderKL) -> Iterator[AutoencoderKL]:
    """The VAE, in float32 meanwhile if it is in float16 and asks for it: SDXL's, whose activations
    overflow.
    """
    half = vae.dtype
    try:
        yield vae.to(torch.float32) if half == torch.float16 and vae.config.force_upcast else vae
    finally:
        vae.to(half)


@torch.no_grad()
def encode(
    vae: AutoencoderKL, images: Float[Tensor, "n 3 height width"]
) -> Float[Tensor, "n channels height width"]:
    """Images in [-1, 1] as scaled latents (the posterior mean), which an SDXL pipeline denoises. Raises
    FloatingPointError for latents that are not finite.
    """
    check_tensor("images", images, ("n", 3, "height", "width"), False, "float")
    with _wide(vae) as wide:
        z = wide.encode(images.to(wide.dtype)).latent_dist.mean
    if not z.isfinite().all():
        raise FloatingPointError(f"the VAE's latents are not finite in {vae.dtype}")
    if vae.config.latents_mean is not None:
        mean, std = (
            z.new_tensor(n)[:, None, None] for n in (vae.config.latents_mean, vae.config.latents_std)
        )
        z = (z - mean) / std
    return z * vae.config.scaling_factor


@torch.no_grad()
def decode(
    vae: AutoencoderKL, latents: Float[Tensor, "n channels height width"]
) -> Float[Tensor, "n 3 height width"]:
    """Scaled latents as images in [-1, 1]. Raises FloatingPointError for pictures that are not finite."""
    z = latents / vae.config.scaling_factor
    if vae.config.latents_mean is not None:
        mean, std = (
            z.new_tensor(n)[:, None, None] for n in (vae.config.latents_mean, vae.config.latents_std)
        )
        z = z * std + mean
    with _wide(vae) as wide:
        images = wide.decode(z.to(wide.dtype)).sample
    if not images.isfinite().all():
        raise FloatingPointError(f"the VAE's pictures are not finite in {vae.dtype}")
    return images.clamp(-1, 1)


@torch.no_grad()
def folded(vae: AutoencoderKL) -> AutoencoderKL:
    """A copy whose weights hold its latents' mean and standard deviation, which diffusers' pipeline supports
    for four channels only. A VAE without them is returned as it is."""
    if vae.config.latents_mean is None:
        return vae
    found, channels = copy.deepcopy(vae), vae.config.latent_channels
    mean, std = torch.tensor(vae.config.latents_mean), torch.tensor(vae.config.latents_std)
    before, after = found.quant_conv, found.post_quant_conv
    before.weight[:channels] /= std[:, None, None, None]
    before.bias[:channels] = (before.bias[:channels] - mean) / std
    before.bias[channels:] -= 2 * std.log()
    after.bias += after.weight[:, :, 0, 0] @ mean
    after.weight *= std[:, None, None]
    found.register_to_config(latents_mean=None, latents_std=None)
    return found


def cached_latents(
    vae: AutoencoderKL, found: Renders, vae_hash: str
) -> Float[Tensor, "n styles channels 16 16"]:
    """float16 latents of all renders in the styles that each has in training, 0 in others; cached in runs/.

    Renders are encoded in parts of 64, so that the same VAE gives the same bytes.
    """
    shown = hashlib.sha256(found.images[:: max(len(found.images) // 256, 1)].numpy().tobytes()).hexdigest()
    name = f"latents_{vae_hash[:12]}_{shown[:12]}_{len(found.images)}.npy"  # hash of every n-th render
    path = paths.RUNS / "text_to_image" / name
    if path.exists():
        return torch.from_numpy(np.load(path, allow_pickle=False))
    kept = torch.zeros(
        len(found.images), len(STYLES), vae.config.latent_channels, 16, 16, dtype=torch.float16
    )
    for s, style in enumerate(STYLES):
        has = [i for i, scene in enumerate(found.scenes) if style in allowed_styles(scene)]
        for part in torch.tensor(has).split(64):
            kept[part, s] = encode(vae, styled(from_uint8(found.images[part]), style)).half()
    with store.atomic_path(path) as temporary:
        np.save(temporary, kept.numpy(), allow_pickle=False)
    return kept
