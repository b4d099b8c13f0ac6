"""Training of the small text-to-image model: its VAE, then U-net and both text encoders together on captions.

    python -m lcs_utils.text_to_image.training vae --images 240000
    python -m lcs_utils.text_to_image.training t1 --images 512000   # captions tell all objects
    python -m lcs_utils.text_to_image.training t2 --images 512000   # captions tell one of them

A run saves its whole state every minute and goes on after a kill with the same bytes in the end. Choice: with
another --images it goes on with the learning rate of that length, and its row says so.
"""

import argparse
import copy
import json
import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from diffusers import AutoencoderKL, StableDiffusionXLPipeline
from torch import Tensor, nn
from tqdm.auto import tqdm

from lcs_utils import paths, store
from lcs_utils.checks import check_choice, check_count
from lcs_utils.resumable import Resumable, remove_leftovers
from lcs_utils.text_to_image import standin
from lcs_utils.text_to_image.captions import STYLES, WORDS, Scene, allowed_styles, caption, training_scene
from lcs_utils.text_to_image.data import RESOLUTION, Renders, cached_latents, folded, in_style, renders

SIZE = standin.Size(transformers=(1, 1, 2), latents=8, vae_attention=False, length=16, words=WORDS)
POLICY = {"t1": "all", "t2": "one"}
EACH, EACH_TOLD = 6000, 12000  # renders of one and of two objects: of the VAE, of captions
PEAK, LAST_RATE, WARM_UP = 1e-3, 1e-5, 0.03
VAE_BATCH, CROP, VAE_PEAK, LATENT_NOISE = 16, 32, 2e-3, 0.05
BATCH = 32  # Choice: not 64, for more steps in the same time
MIN_SNR = 5.0
UNTOLD = 0.05  # share of zero embeddings, and again of empty captions
AVERAGE = 0.999
LOG_EVERY = 50
SAVE_EVERY = 60.0  # seconds


class Log(NamedTuple):
    """LOG_EVERY steps: images seen, mean loss, learning rate."""

    images: int
    loss: float
    lr: float


class Speaker(nn.Module):
    """U-net and both text encoders of a pipeline, trained as one."""

    def __init__(self, pipeline: StableDiffusionXLPipeline):
        super().__init__()
        self.unet, self.first, self.second = pipeline.unet, pipeline.text_encoder, pipeline.text_encoder_2

    def forward(self, x: Tensor, t: Tensor, ids: Tensor, heard: Tensor) -> Tensor:
        """eps of scaled noisy latents; captions that are not `heard` become zeros."""
        one = self.first(ids, output_hidden_states=True).hidden_states[-2]
        both = self.second(ids, output_hidden_states=True)
        embeds = torch.cat([one, both.hidden_states[-2]], -1) * heard[:, None, None]
        more = {"text_embeds": both.text_embeds * heard[:, None], "time_ids": picture_size(x)}
        return self.unet(x, t, encoder_hidden_states=embeds, added_cond_kwargs=more, return_dict=False)[0]


def picture_size(x: Tensor) -> Tensor:
    """SDXL's time_ids of pictures that were neither scaled nor cropped."""
    return x.new_tensor([RESOLUTION, RESOLUTION, 0, 0, RESOLUTION, RESOLUTION]).expand(len(x), -1)


@dataclass(frozen=True, kw_only=True)
class State(Resumable):
    """A run: the net, its average, optimizer, draws; `recent` holds the loss of steps since the curve's last
    line."""

    net: nn.Module
    ema: nn.Module
    recent: Tensor


def learning_rate(seen: int, total: int, peak: float) -> float:
    """A linear ramp, then a cosine to LAST_RATE."""
    share = min(seen / total, 1.0)
    low = min(LAST_RATE, peak)
    return min(share / WARM_UP, 1.0) * (low + (peak - low) * (1 + math.cos(math.pi * share)) / 2)


def start(net: nn.Module, seed: int) -> State:
    """A fresh run of a net; draws from `seed`."""
    net.train()
    return State(
        net=net,
        ema=copy.deepcopy(net).eval().requires_grad_(False),
        optimizer=torch.optim.AdamW(
            net.parameters(), lr=PEAK, betas=(0.9, 0.99), weight_decay=0.01, fused=True
        ),
        generator=torch.Generator().manual_seed(seed),
        seen=torch.zeros(2, dtype=torch.float64),
        recent=torch.full((LOG_EVERY,), math.nan, dtype=torch.float64),
    )


def numpy_generator(generator: torch.Generator) -> np.random.Generator:
    """numpy's draws of one step, from torch's."""
    return np.random.default_rng(int(torch.randint(2**62, (1,), generator=generator)))


def vae_loss(vae: AutoencoderKL, found: Renders, generator: torch.Generator) -> Tensor:
    """Absolute and squared error of crops of renders in their styles, and squared error of what colors them.

    Choice: crops hold an object, and color counts most, squared: with absolute errors alone, whose best guess
    is a median, the objects stayed gray. Choice: latents get a little noise of fixed size, not a learned one.
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
    """Latents of renders in their styles with captions of a policy: eps error of one batch, min-SNR
    weighted."""

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


def step(state: State, loss_of: Callable, total: int, batch: int, peak: float) -> tuple[float, float]:
    """One step; (loss, learning rate). Raises FloatingPointError on a loss that is not finite."""
    lr = learning_rate(int(state.seen[0]) + batch, total, peak)
    for group in state.optimizer.param_groups:
        group["lr"] = lr
    loss = loss_of(state.net, state.generator)
    value = float(loss.detach())
    if not math.isfinite(value):
        raise FloatingPointError(f"the loss is {value} after {int(state.seen[0]):,} images")
    state.optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(state.net.parameters(), 1.0)
    state.optimizer.step()
    state.seen[0] += batch
    steps = float(state.seen[0]) / batch
    share = min(AVERAGE, (1 + steps) / (10 + steps))
    with torch.no_grad():
        for average, current in zip(state.ema.parameters(), state.net.parameters(), strict=True):
            average.lerp_(current, 1 - share)
    return value, lr


def train(
    state: State,
    loss_of: Callable,
    total: int,
    batch: int,
    peak: float,
    folder: Path,
    about: dict,
    length: int | None = None,
) -> list[Log]:
    """Train until `total` images were seen, from the state in `folder` if there is one; the loss curve.

    `length` are the images of the learning rate's schedule, where that is not `total`.

    Raises ValueError for a broken state and for one of other settings than `about`.
    """
    remove_leftovers(folder)
    path, rows = folder / "state.pt", []
    if path.exists():
        if store.read_rows(folder / "loss.csv", Log):
            rows = store.read_rows(folder / "loss.csv", Log)
        check_about(folder, about)
        state.load(path)
        rows = [row for row in rows if row.images <= int(state.seen[0])]
    recent = [loss for loss in state.recent.tolist() if loss == loss]

    def save():
        store.write_json(folder / "about.json", about)
        store.write_rows(folder / "loss.csv", about["run"], Log, rows)
        state.recent.fill_(math.nan)
        state.recent[: len(recent)] = torch.tensor(recent, dtype=torch.float64)
        state.save(path)

    clock = saved = time.time()
    with tqdm(total=total, initial=int(state.seen[0]), unit="img", mininterval=10, desc=about["run"]) as bar:
        while int(state.seen[0]) < total:
            loss, lr = step(state, loss_of, length or total, batch, peak)
            recent.append(loss)
            now = time.time()
            state.seen[1] += now - clock
            clock = now
            if len(recent) == LOG_EVERY:
                rows.append(Log(int(state.seen[0]), float(np.mean(recent)), lr))
                recent = []
                bar.set_postfix(loss=f"{rows[-1].loss:.4f}")
            bar.update(batch)
            if now - saved > SAVE_EVERY:
                save()
                saved = time.time()
    save()
    return rows


def check_about(folder: Path, about: dict) -> None:
    """Raise ValueError, naming what differs, when `folder` holds the state of another run."""
    then = json.loads((folder / "about.json").read_text())
    differing = [name for name in about if then.get(name) != about[name]]
    if differing:
        told = ", ".join(f"{name} {then.get(name)!r} instead of {about[name]!r}" for name in differing)
        raise ValueError(f"{folder.name} holds the state of another run ({told}); remove it to train anew")


def folder_of(run: str) -> Path:
    """Where a run's state lives."""
    return paths.RUNS / "text_to_image" / run


def latent_statistics(vae: AutoencoderKL, found: Renders) -> tuple[list[float], list[float]]:
    """Mean and standard deviation of each latent channel over 512 renders, a quarter in each style they
    have."""
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
    state.ema.save_pretrained(folder / "vae", safe_serialization=True)


def partial_vae(found: Renders) -> Callable:
    """`vae_loss` of these renders."""
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
    """Train U-net and text encoders on captions of `run`'s policy; the pipeline of their average."""
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
    """A pipeline of trained parts."""
    pipeline = standin.untrained(size, seed=seed)
    pipeline.unet.load_state_dict(speaker.unet.state_dict())
    pipeline.text_encoder.load_state_dict(speaker.first.state_dict())
    pipeline.text_encoder_2.load_state_dict(speaker.second.state_dict())
    pipeline.register_modules(vae=folded(vae))
    return pipeline


def main(arguments=None) -> None:
    """Command line: train one part, or go on with it."""
    parser = argparse.ArgumentParser(description="Train the small text-to-image model.")
    parser.add_argument("run", choices=("vae", *POLICY))
    parser.add_argument("--images", type=int, required=True)
    parser.add_argument("--threads", type=int, default=1)
    asked = parser.parse_args(arguments)
    torch.set_num_threads(check_count("threads", asked.threads, 1))
    check_count("images", asked.images, BATCH)
    found = renders("training", each=EACH if asked.run == "vae" else EACH_TOLD)
    if asked.run == "vae":
        train_vae(asked.images, found, folder_of("vae"))
    else:
        pipeline = train_captions(
            asked.run, asked.images, found, folder_of("vae") / "vae", folder_of(asked.run)
        )
        pipeline.save_pretrained(folder_of(asked.run) / "pipeline", safe_serialization=True)


if __name__ == "__main__":
    main()
