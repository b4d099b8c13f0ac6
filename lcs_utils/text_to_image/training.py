"""Train the small text-to-image model: its VAE, then the U-net and both text encoders on captions.

    python -m lcs_utils.text_to_image.training vae --images 240000
    python -m lcs_utils.text_to_image.training t1 --images 512000   # captions tell all objects
    python -m lcs_utils.text_to_image.training t2 --images 512000   # captions tell one of them

A run saves its whole state every minute; after a kill it resumes and ends with the same bytes. Choice: with
another --images it resumes on that length's learning rates, and its row's command names all lengths.
"""

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from diffusers import AutoencoderKL, StableDiffusionXLPipeline
from torch import Tensor, nn

from lcs_utils import paths, store
from lcs_utils.checks import check_choice, check_count
from lcs_utils.text_to_image import standin
from lcs_utils.text_to_image.captions import STYLES, WORDS, Scene, allowed_styles, caption, training_scene
from lcs_utils.text_to_image.data import RESOLUTION, Renders, cached_latents, folded, in_style, renders
from lcs_utils.text_to_image.loop import PEAK, start, train

SIZE = standin.Size(transformers=(1, 1, 2), latents=8, vae_attention=False, length=16, words=WORDS)
POLICY = {"t1": "all", "t2": "one"}
EACH, EACH_TOLD = 6000, 12000  # renders per object count: for the VAE, for captions
VAE_BATCH, CROP, VAE_PEAK, LATENT_NOISE = 16, 32, 2e-3, 0.05
BATCH = 32  # Choice: not 64, for more steps in the same time
MIN_SNR = 5.0
UNTOLD = 0.05  # share of zero embeddings, and again of empty captions


class Speaker(nn.Module):
    """U-net and both text encoders of a pipeline, trained as one."""

    def __init__(self, pipeline: StableDiffusionXLPipeline):
        super().__init__()
        self.unet, self.first, self.second = pipeline.unet, pipeline.text_encoder, pipeline.text_encoder_2

    def forward(self, x: Tensor, t: Tensor, ids: Tensor, heard: Tensor) -> Tensor:
        """eps of scaled noisy latents; the embeddings of captions that are not `heard` become zeros."""
        one = self.first(ids, output_hidden_states=True).hidden_states[-2]
        both = self.second(ids, output_hidden_states=True)
        embeds = torch.cat([one, both.hidden_states[-2]], -1) * heard[:, None, None]
        more = {"text_embeds": both.text_embeds * heard[:, None], "time_ids": picture_size(x)}
        return self.unet(x, t, encoder_hidden_states=embeds, added_cond_kwargs=more, return_dict=False)[0]


def picture_size(x: Tensor) -> Tensor:
    """SDXL's time_ids for pictures that were neither scaled nor cropped."""
    return x.new_tensor([RESOLUTION, RESOLUTION, 0, 0, RESOLUTION, RESOLUTION]).expand(len(x), -1)


def numpy_generator(generator: torch.Generator) -> np.random.Generator:
    """A numpy generator for one step, seeded by a draw of torch's."""
    return np.random.default_rng(int(torch.randint(2**62, (1,), generator=generator)))


def vae_loss(vae: AutoencoderKL, found: Renders, generator: torch.Generator) -> Tensor:
    """Absolute and squared error of crops of styled renders, and squared error of their color.

    Choice: crops hold an object, and the color error counts most and is squared: with absolute errors alone,
    whose best guess is a median, objects stayed gray. Choice: latents get a little noise of fixed size, not
    a learned one.
    """
    random = numpy_generator(generator)
    index = random.integers(len(found.images), size=VAE_BATCH)
    allowed = [allowed_styles(found.scenes[i]) for i in index]
    images = in_style(found.images[index], [names[random.integers(len(names))] for names in allowed])
    x = torch.empty(VAE_BATCH, 3, CROP, CROP)
    for i, k in enumerate(index):
        center = found.locations[k, random.integers(len(found.scenes[k].pairs))] * RESOLUTION
        column, row = np.clip(center - CROP // 2 + random.integers(-10, 11, 2), 0, RESOLUTION - CROP).astype(
            int
        )
        x[i] = images[i, :, row : row + CROP, column : column + CROP]
    x = x.contiguous(memory_format=torch.channels_last)
    z = vae.encode(x).latent_dist.mean
    wrong = vae.decode(z + LATENT_NOISE * torch.randn(z.shape, generator=generator)).sample - x
    tint = wrong - wrong.mean(1, keepdim=True)
    return (
        wrong.abs().mean() + 5 * wrong.square().mean() + 60 * tint.square().mean() + 1e-3 * z.square().mean()
    )


@dataclass(frozen=True, eq=False)
class Captioned:
    """Latents of styled renders, captions of a policy; a call gives a batch's min-SNR weighted eps error."""

    latents: Tensor
    scenes: list[Scene]
    policy: str
    pipeline: StableDiffusionXLPipeline

    def __post_init__(self):
        object.__setattr__(self, "ids", {})
        object.__setattr__(self, "alphas", self.pipeline.scheduler.alphas_cumprod.float())

    def tokens(self, text: str) -> list[int]:
        """A caption's token ids, padded."""
        if text not in self.ids:
            asked = {"padding": "max_length", "max_length": self.pipeline.tokenizer.model_max_length}
            self.ids[text] = self.pipeline.tokenizer(text, **asked).input_ids
        return self.ids[text]

    def __call__(self, net: Speaker, generator: torch.Generator) -> Tensor:
        random = numpy_generator(generator)
        index = random.integers(len(self.scenes), size=BATCH)
        told = [training_scene(self.scenes[i], self.policy, random) for i in index]
        x0 = self.latents[index, [STYLES.index(scene.style) for scene in told]].float()
        fate = random.random(BATCH)
        ids = [self.tokens("" if u < UNTOLD else caption(scene)) for u, scene in zip(fate, told, strict=True)]
        heard = torch.from_numpy((fate < 1 - UNTOLD).astype(np.float32))
        t = torch.randint(len(self.alphas), (BATCH,), generator=generator)
        alpha = self.alphas[t][:, None, None, None]
        eps = torch.randn(x0.shape, generator=generator)
        x = (alpha.sqrt() * x0 + (1 - alpha).sqrt() * eps).contiguous(memory_format=torch.channels_last)
        said = net(x, t, torch.tensor(ids), heard)
        snr = alpha[:, 0, 0, 0] / (1 - alpha[:, 0, 0, 0])
        weight = snr.clamp_max(MIN_SNR) / snr
        return (weight * (said - eps).square().mean((1, 2, 3))).mean()


def folder_of(run: str) -> Path:
    """Where a run's state lives."""
    return paths.RUNS / "text_to_image" / run


def latent_statistics(vae: AutoencoderKL, found: Renders) -> tuple[list[float], list[float]]:
    """Mean and standard deviation of each latent channel over about 512 renders, cycling through the styles
    of each."""
    styles = [allowed_styles(scene) for scene in found.scenes[:: max(len(found.scenes) // 512, 1)]]
    images = found.images[:: max(len(found.scenes) // 512, 1)]
    with torch.no_grad():
        x = in_style(images, [names[i % len(names)] for i, names in enumerate(styles)])
        z = torch.cat([vae.encode(part).latent_dist.mean for part in x.split(64)])
    mean, std = z.mean((0, 2, 3)), z.std((0, 2, 3))
    return [round(n, 5) for n in mean.tolist()], [round(n, 5) for n in std.tolist()]


def train_vae(total: int, found: Renders, folder: Path, size: standin.Size = SIZE, seed: int = 0) -> None:
    """Train the VAE and save its average, with the latents' statistics, in `folder`/vae."""
    vae = standin.untrained(size, seed=seed).vae.to(memory_format=torch.channels_last)
    about = {"run": "vae", "batch": VAE_BATCH, "seed": seed, "renders": len(found.images)}
    state = start(vae, seed)
    train(state, partial_vae(found), total, VAE_BATCH, VAE_PEAK, folder, about)
    mean, std = latent_statistics(state.ema, found)
    state.ema.register_to_config(latents_mean=mean, latents_std=std, scaling_factor=1.0)
    with store.atomic_folder(folder / "vae") as new:
        state.ema.save_pretrained(new, safe_serialization=True)


def partial_vae(found: Renders) -> Callable:
    """`vae_loss` of these renders, as a function of the VAE and a generator."""
    return lambda vae, generator: vae_loss(vae, found, generator)


def train_captions(
    run: str,
    total: int,
    found: Renders,
    vae_folder: Path,
    folder: Path,
    size: standin.Size = SIZE,
    seed: int = 0,
) -> StableDiffusionXLPipeline:
    """Train U-net and text encoders on captions of `run`'s policy; returns a pipeline of their averages."""
    check_choice("run", run, POLICY)
    vae = AutoencoderKL.from_pretrained(vae_folder, use_safetensors=True).eval()
    code = store.sha256(vae_folder / "diffusion_pytorch_model.safetensors")
    pipeline = standin.untrained(size, seed=seed)
    net = Speaker(pipeline).to(memory_format=torch.channels_last)
    captioned = Captioned(cached_latents(vae, found, code), found.scenes, POLICY[run], pipeline)
    about = {"run": run, "batch": BATCH, "seed": seed, "renders": len(found.images), "vae": code}
    state = start(net, seed)
    train(state, captioned, total, BATCH, PEAK, folder, about)
    return assembled(state.ema, vae, size, seed)


def assembled(speaker: Speaker, vae: AutoencoderKL, size: standin.Size = SIZE, seed: int = 0):
    """Assemble a pipeline from trained parts."""
    pipeline = standin.untrained(size, seed=seed)
    pipeline.unet.load_state_dict(speaker.unet.state_dict())
    pipeline.text_encoder.load_state_dict(speaker.first.state_dict())
    pipeline.text_encoder_2.load_state_dict(speaker.second.state_dict())
    pipeline.register_modules(vae=folded(vae))
    return pipeline


def main(arguments=None) -> None:
    """Command line: train one part, or resume it."""
    parser = argparse.ArgumentParser(
        prog="python -m lcs_utils.text_to_image.training", description="Train the small text-to-image model."
    )
    parser.add_argument("run", choices=("vae", *POLICY))
    parser.add_argument("--images", type=int, required=True)
    parser.add_argument("--threads", type=int, default=1)
    asked = parser.parse_args(arguments)
    try:
        torch.set_num_threads(check_count("threads", asked.threads, 1))
        check_count("images", asked.images, BATCH)
    except ValueError as error:
        parser.error(str(error))
    try:
        found = renders("training", each=EACH if asked.run == "vae" else EACH_TOLD)
        if asked.run == "vae":
            train_vae(asked.images, found, folder_of("vae"))
        else:
            pipeline = train_captions(
                asked.run, asked.images, found, folder_of("vae") / "vae", folder_of(asked.run)
            )
            with store.atomic_folder(folder_of(asked.run) / "pipeline") as new:
                pipeline.save_pretrained(new, safe_serialization=True)
    except (ValueError, RuntimeError, OSError) as error:
        parser.exit(2, f"{parser.prog}: {error}\n")


if __name__ == "__main__":
    main()
