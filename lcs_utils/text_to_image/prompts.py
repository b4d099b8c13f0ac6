"""The paper's prompts for SDXL, captions for the small model, and what a net attends to and where words act
while it draws them (Figs. 6, 7, 13, App. G)."""

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import torch
from diffusers import EulerDiscreteScheduler
from jaxtyping import Float
from torch import Tensor

from lcs_utils import locality, paths
from lcs_utils.checks import check_count, check_counts
from lcs_utils.diffusion import score
from lcs_utils.text_to_image.adapter import PromptDenoiser
from lcs_utils.text_to_image.attention import PARTS, attention_maps
from lcs_utils.text_to_image.loading import SDXL, SDXL_REVISION, check_parts, load_sdxl

# Choice: words that Fig. 6 skips, here its null. The paper's own list is `common words like "a", "the", etc.`
COMMON = ("a", "an", "and", "the", "with", "in", "on", "at", "as", "of")
FOLDER = paths.CHECKPOINTS / "text_to_image"


class Prompt(NamedTuple):
    """A prompt, the word whose maps are taken, its shorthand in the figure, and the word's kind."""

    short: str
    text: str
    word: str
    kind: str = ""


@dataclass(frozen=True)
class Study:
    """What a model is asked for: its pictures' side, guidance, the prompts of Fig. 6 and of Figs. 7 and 13,
    composites with the shorthands of the single prompts that they contain, and Fig. 6's Euler steps, with
    those (from 1) before which its maps are taken."""

    side: int
    guidance: float
    scenes: tuple[str, ...]
    singles: tuple[Prompt, ...]
    composites: tuple[tuple[Prompt, str], ...]
    at_once: int
    steps: int
    at: tuple[int, ...]


def _photograph(animal: str) -> Prompt:
    return Prompt(animal, f"A {animal}, full body, highly detailed photograph.", animal, "animal")


VAN_GOGH = "oil-painting in the style of Van Gogh."
FULL = Study(
    side=1024,
    guidance=5.0,  # Choice: the pipeline's default; the paper does not say
    scenes=("a beautiful photograph with a horse in the middle, a dog on the left, and a cat on the right",),
    singles=(
        *map(_photograph, ("dog", "horse", "cat")),
        Prompt("vangogh", f"An {VAN_GOGH}", "Gogh", "style"),
        Prompt("monet", "A watercolor-painting in the style of Monet.", "Monet", "style"),
        Prompt("hokusai", "A woodblock print in the style of Hokusai.", "Hokusai", "style"),
        Prompt("sushi", "Eating sushi with chopsticks, highly detailed photograph.", "sushi", "food"),
        Prompt("croissant", "Eating a croissant, highly detailed photograph.", "croissant", "food"),
    ),
    composites=tuple(
        (Prompt(short, text, word), single)
        for short, text, words in (
            (
                "vangogh+cat+sushi",
                f"A cat eating sushi with chopsticks, {VAN_GOGH}",
                ("cat", "sushi", "Gogh"),
            ),
            ("vangogh+cat", f"A cat, full body, {VAN_GOGH}", ("cat", "Gogh")),
            ("sushi+cat", "A cat eating sushi with chopsticks.", ("cat", "sushi")),
        )
        for word, single in zip(words, [{"Gogh": "vangogh"}.get(word, word) for word in words], strict=True)
    ),
    at_once=1,
    steps=50,
    # Choice: the noise levels of the small model's maps; the steps of the paper are lost
    at=(2, 16, 26, 38),
)
SMALL = Study(
    side=64,
    guidance=4.0,  # Choice: at which it draws well
    scenes=(
        "a red cylinder and a cyan cube",
        "a yellow cube and a purple sphere, at night",
        "a brown cylinder",
    ),
    singles=(
        Prompt("cube", "a cyan cube", "cube", "shape"),
        Prompt("sphere", "a gray sphere", "sphere", "shape"),
        Prompt("cylinder", "a red cylinder", "cylinder", "shape"),
        Prompt("purple", "a purple sphere", "purple", "color"),
        Prompt("yellow", "a yellow cube", "yellow", "color"),
        Prompt("night", "a gray cube, at night", "night", "style"),
        Prompt("fog", "a red cylinder, in fog", "fog", "style"),
        Prompt("drawing", "a purple sphere, as a drawing", "drawing", "style"),
    ),
    composites=tuple(
        (Prompt(short, text, word), word)
        for short, text, words in (
            ("cube+purple", "a cyan cube and a purple sphere", ("cube", "purple")),
            ("cylinder+yellow", "a red cylinder and a yellow cube", ("cylinder", "yellow")),
            ("sphere+night", "a gray sphere, at night", ("sphere", "night")),
        )
        for word in words
    ),
    at_once=10,
    steps=25,
    at=(1, 8, 13, 19),
)


def load(model: str, device: str = "cpu") -> tuple[PromptDenoiser, Study]:
    """A model and its prompts: "standin", shipped and loaded in seconds; SDXL itself, downloaded once at a
    pinned revision (7 GB in half precision, 14 GB otherwise; a GPU of 16 GB, or hours for notebook 09 and
    days for 10); or a folder.

    A folder whose U-net has a `sample_size` gets SDXL's prompts, at that side, and like SDXL half precision
    on a GPU; another the stand-in's. Raises FileNotFoundError with the command that makes the stand-in,
    ValueError as `load_sdxl`.
    """
    dtype = "float16" if device != "cpu" else "float32"
    if model == SDXL:
        return PromptDenoiser(load_sdxl(SDXL, SDXL_REVISION, device, dtype), FULL.side, FULL.side), FULL
    folder = FOLDER if model == "standin" else Path(model)
    if not (folder / "model_index.json").exists():
        raise FileNotFoundError(
            f"{model!r} is neither 'standin', {SDXL!r} nor a folder with a model_index.json; "
            "`python -m lcs_utils.text_to_image.ship` writes the stand-in"
        )
    check_parts(folder)
    latents = json.loads((folder / "unet" / "config.json").read_text()).get("sample_size")  # None for ours
    pipeline = load_sdxl(str(folder), None, device, dtype if latents else "float32")
    study = replace(FULL, side=latents * pipeline.vae_scale_factor) if latents else SMALL
    return PromptDenoiser(pipeline, study.side, study.side), study


class Moment(NamedTuple):
    """A state while sampling: its step (from 1), noise level, x_t [batch ...]."""

    step: int
    sigma: float
    x_t: Tensor


@torch.no_grad()
def sampling(
    denoiser: PromptDenoiser, text: str, steps: int, guidance: float, number: int, seed: int
) -> Iterator[Moment]:
    """Sample a prompt `number` times by Euler's method; yields the state before each step, last the samples.

    The noise levels are those of the pipeline's own schedule; guidance is against zero embeddings, as SDXL's
    is.
    """
    check_count("number", number, 1)
    schedule = EulerDiscreteScheduler.from_config(denoiser.pipeline.scheduler.config)
    schedule.set_timesteps(check_count("steps", steps, 2))
    sigmas = schedule.sigmas.tolist()
    told = denoiser.condition(text)
    untold = torch.zeros_like(told)
    tokens = denoiser.pipeline.tokenizer.model_max_length
    width = denoiser.pipeline.unet.config.cross_attention_dim
    untold[tokens * width : tokens * (width + 1)] = 1  # attended to, as the pipeline's zeros are
    generator = torch.Generator().manual_seed(seed)
    start = torch.randn(number, *denoiser.latent_shape, generator=generator).to(told)
    x = start * float(schedule.init_noise_sigma)

    def guided(x_t, sigma, cond):
        if guidance <= 1:
            return denoiser(x_t, sigma, cond)
        conds = torch.cat([cond, untold.expand(len(x_t), -1)])  # one call, as the pipeline: a fifth faster
        known, unknown = denoiser(torch.cat([x_t, x_t]), torch.cat([sigma, sigma]), conds).chunk(2)
        return guidance * known + (1 - guidance) * unknown

    for step, (sigma, following) in enumerate(zip(sigmas, sigmas[1:], strict=False), 1):
        yield Moment(step, sigma, x)
        slope = -sigma * score(guided, x, x.new_full((len(x),), sigma), told.expand(len(x), -1))
        x = x + (following - sigma) * slope
    yield Moment(len(sigmas), 0.0, x)


class Heard(NamedTuple):
    """eq. (10) of a prompt's words at one noise level: {word: map}, and {common word: map}, their null; a
    common word's second place is "a (2)".
    """

    sigma: float
    maps: dict[str, Float[Tensor, "height width"]]
    common: dict[str, Float[Tensor, "height width"]]

    @property
    def null(self) -> Float[Tensor, "height width"] | float:
        """At each place the strongest common word's influence; 0 for a prompt without one."""
        return torch.stack(list(self.common.values())).amax(0) if self.common else 0.0


def words_heard(
    denoiser: PromptDenoiser, text: str, at: Sequence[int], steps: int, guidance: float, seed: int
) -> tuple[Float[Tensor, "channels height width"], list[Heard]]:
    """A sample's latents, and eq. (10) of its prompt's words before the steps `at` (from 1), those in COMMON
    apart and each place by itself (Fig. 6).

    Choice: guidance draws the sample, but eq. (10) is of the net without it; the paper does not say.
    """
    cond, without = denoiser.condition(text), denoiser.without_words(text, apart=COMMON)
    found, x = [], None
    for moment in sampling(denoiser, text, steps, guidance, 1, seed):
        x = moment.x_t[0]
        if moment.step in check_counts("at", at, 1, steps, 1):
            maps = locality.condition_influence(denoiser, x, moment.sigma, cond, without, chunk=4)
            parts: tuple[dict, dict] = {}, {}
            for word, one in zip(without, maps.float().cpu(), strict=True):
                parts[word.split(" ")[0].lower() in COMMON][word] = one
            found.append(Heard(moment.sigma, *parts))
    return x, found


Attended = dict[tuple[float, str], list[Tensor]]  # (sigma, layer): mean maps over samples, one a prompt


def attended(
    denoiser: PromptDenoiser,
    asked: Sequence[Prompt],
    study: Study,
    at: Sequence[int] = (1, 7, 15),
    steps: int = 15,
    samples: int = 10,
    seed: int = 0,
    progress: Callable[[str], None] = lambda done: None,
) -> Attended:
    """Attention to each prompt's word before the steps `at`, averaged over samples (Figs. 7, 13, App. G).

    For a word of several tokens the last one is used, for "" its end token, as in the paper. Choice: maps
    are taken without guidance, though guidance draws the samples; the paper does not say.
    """
    tokens = [_token(denoiser, prompt) for prompt in asked]
    sums: dict[tuple[float, str], dict[int, Tensor]] = {}
    for text in dict.fromkeys(prompt.text for prompt in asked):  # sampled once for all its words
        mine = [i for i, prompt in enumerate(asked) if prompt.text == text]
        for first in range(0, samples, study.at_once):
            number = min(study.at_once, samples - first)
            for moment in sampling(denoiser, text, steps, study.guidance, number, seed + first):
                if moment.step in at:
                    seen = looked_at(denoiser, moment, text, [tokens[i] for i in mine])
                    for layer, maps in seen.items():
                        of = sums.setdefault((moment.sigma, layer), {})
                        for i, one in zip(mine, maps.unbind(1), strict=True):
                            of[i] = of.get(i, 0) + one.sum(0) / samples
                if moment.step == max(at, default=steps):
                    break
        for i in mine:
            progress(asked[i].short)
    return {key: [of[i] for i in range(len(asked))] for key, of in sums.items()}


def _token(denoiser: PromptDenoiser, prompt: Prompt) -> int:
    spans = [word.tokens[-1] for word in denoiser.words(prompt.text) if word.text == prompt.word]
    if prompt.word and not spans:
        raise ValueError(f"{prompt.word!r} is not a word of {prompt.text!r}")
    return (spans or [1])[0]


@torch.no_grad()
def looked_at(
    denoiser: PromptDenoiser, moment: Moment, text: str, tokens: Sequence[int]
) -> dict[str, Tensor]:
    """{layer: attention [batch tokens height width] to some tokens} at a state, without guidance."""
    cond = denoiser.condition(text).expand(len(moment.x_t), -1)
    with attention_maps(denoiser.pipeline.unet, tokens, PARTS, denoiser.latent_shape[1:]) as maps:
        denoiser(moment.x_t, moment.x_t.new_full((len(cond),), moment.sigma), cond)
    return {layer: of[0].float().cpu() for layer, of in maps.items()}


def asked(study: Study) -> list[Prompt]:
    """All prompts whose attention Figs. 7 and 13 show: singles, composites, last the empty one."""
    return [*study.singles, *(prompt for prompt, _ in study.composites), Prompt("empty", "", "")]


def first_words(study: Study) -> list[Prompt]:
    """The single prompts at their first word, mostly "a", which is of no kind, last the empty one: the null
    of blocks of kinds. What is alike there comes from the other words, the pooled embedding, the picture."""
    return [*(prompt._replace(word=prompt.text.split()[0]) for prompt in study.singles), asked(study)[-1]]
