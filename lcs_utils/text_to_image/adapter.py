"""An SDXL-class pipeline as a denoiser D(x_t; C) of latents, whose condition is a prompt (Fig. 6, App. G).

A prompt is one vector: its token embeddings, which tokens are attended to, and its pooled embedding. So
prompts can be stacked, and eqs. (9) and (10), additivity, own share and this package's sampler run on it.

    denoiser = PromptDenoiser(loading.load_sdxl(), 1024, 1024)
    cond = denoiser.condition("a horse and a dog")
    without = denoiser.without_words("a horse and a dog")
    heard = locality.condition_influence(denoiser, x_t, 2.0, cond, without)

Eq. (9) of SDXL at 1024 px takes one target at a time (`pixel_influence(..., chunk=1)`).
"""

import re
import unicodedata
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from diffusers import StableDiffusionXLPipeline
from jaxtyping import Float
from torch import Tensor

from lcs_utils.checks import check_choice, check_count, check_kind, check_number, check_tensor
from lcs_utils.diffusion import expand
from lcs_utils.models.ddpm import noise_levels, steps_at

# Choice: how a word is taken away. The paper removes it from the text, which moves all later tokens and the
# pooled embedding; the others change one thing each.
ABLATIONS = {
    "word": "the prompt is encoded without the word",
    "tokens": "the prompt is encoded without the word, but for the pooled embedding, which keeps it",
    "embedding": "the embeddings of its tokens are those of the empty prompt at the same places",
    "attention": "no image place attends to its tokens",
    "pooled": "only the pooled embedding is that of the prompt without the word",
}


class Word(NamedTuple):
    """A word of a prompt: its text, where it begins and ends in the prompt, and its tokens' positions."""

    text: str
    begin: int
    end: int
    tokens: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class PromptDenoiser:
    """denoise(latents, sigma, cond) of an SDXL-class pipeline, for `height` x `width` px (Fig. 6, App. G).

    `cond` [batch, tokens * (width + 1) + pooled] holds prompts as made by `condition`. D = x_t - sigma eps
    is the scheduler's own `pred_original_sample`, without guidance; latents are the VAE's, scaled, in any
    precision: only the net computes in its own. Raises TypeError for any other pipeline, ValueError for one
    that does not predict eps, for a size that is not a multiple of the VAE's factor and, when called, for
    noise outside the levels of its training.
    """

    pipeline: Any
    height: int
    width: int

    def __post_init__(self):
        check_kind("pipeline", self.pipeline, StableDiffusionXLPipeline, "a StableDiffusionXLPipeline")
        factor = self.pipeline.vae_scale_factor
        for name in ("height", "width"):
            size = check_count(name, getattr(self, name), 1)
            if size % factor:
                raise ValueError(f"{name} must be a multiple of the VAE's {factor}, got {size}")
        object.__setattr__(self, "sigmas", noise_levels(self.pipeline.scheduler))
        self.pipeline.unet.requires_grad_(False).eval()

    @property
    def latent_shape(self) -> tuple[int, int, int]:
        """(channels, height, width) of the latents."""
        factor = self.pipeline.vae_scale_factor
        return self.pipeline.unet.config.in_channels, self.height // factor, self.width // factor

    @torch.no_grad()
    def _encoded(self, prompt: str) -> tuple[Tensor, Tensor]:
        embeds, _, pooled, _ = self.pipeline.encode_prompt(
            prompt, device=self.pipeline.unet.device, do_classifier_free_guidance=False
        )
        return embeds[0], pooled[0]

    def condition(self, prompt: str) -> Float[Tensor, "cond"]:
        """A prompt as one vector. Raises as `words`."""
        self.words(prompt)
        return _vector(*self._encoded(prompt))

    def words(self, prompt: str) -> list[Word]:
        """The words of a prompt, in order, with the positions of their tokens, from the tokenizer itself.

        Raises ValueError for a prompt that is too long for the tokenizer, that has words it does not know, or
        that the second tokenizer splits otherwise ("!" is its padding).
        """
        prompt = composed(prompt)
        tokenizer = self.pipeline.tokenizer
        encoded = tokenizer(prompt, return_offsets_mapping=True)
        ids, places = encoded.input_ids, encoded.offset_mapping  # the ends' places are empty
        if len(ids) > tokenizer.model_max_length:
            raise ValueError(
                f"the prompt has {len(ids)} tokens, this model takes {tokenizer.model_max_length}: {prompt!r}"
            )
        if (second := len(self.pipeline.tokenizer_2(prompt).input_ids)) != len(ids):
            raise ValueError(
                f"{prompt!r} has {len(ids)} tokens for the first text encoder and {second} for the second: "
                "no word has one place; leave out signs beside one another, such as '!!'"
            )
        found, known, odd = [], vocabulary(tokenizer), (tokenizer.unk_token_id, tokenizer.eos_token_id)
        for begin, end in _spans(prompt):
            own = tuple(i for i, (first, last) in enumerate(places) if first < end and last > begin)
            unknown = known and prompt[begin:end].lower() not in known
            if unknown or not own or any(ids[i] in odd for i in own):
                listed = f"; its words are {', '.join(sorted(known))}" if known else ""
                raise ValueError(
                    f"this model's tokenizer does not know {prompt[begin:end]!r} of {prompt!r}{listed}"
                )
            found.append(Word(prompt[begin:end], begin, end, own))
        return [word for word in found if any(letter.isalnum() for letter in word.text)]

    def without_words(
        self,
        prompt: str,
        words: Sequence[str] | None = None,
        ablate: str = "word",
        apart: Container[str] = (),
    ) -> dict[str, Float[Tensor, "cond"]]:
        """{word: the condition without it}, for all words of the prompt or `words`, for eq. (10) (Fig. 6).

        A repeated word is taken away everywhere; one of `apart` (lower case) place by place, as "a", "a (2)":
        a null of one place, since changes of several cancel. Raises ValueError for a word that is not in the
        prompt and an `ablate` that is not in ABLATIONS.
        """
        check_choice("ablate", ablate, ABLATIONS)
        prompt = composed(prompt)
        all_words = self.words(prompt)
        there = list(dict.fromkeys(word.text for word in all_words))
        missing = [word for word in words or () if word not in there]
        if missing:
            raise ValueError(f"{', '.join(missing)} not in {prompt!r}; its words are {', '.join(there)}")
        embeds, pooled = self._encoded(prompt)
        padding, found = self._encoded("")[0], {}
        chosen: dict[str, list[Word]] = {}
        for text in words or there:
            spans = [word for word in all_words if word.text == text]
            if text.lower() in apart:
                chosen |= {f"{text} ({n})" if n > 1 else text: [one] for n, one in enumerate(spans, 1)}
            else:
                chosen[text] = spans
        for text, spans in chosen.items():
            own = [i for word in spans for i in word.tokens]
            if ablate == "embedding":
                changed = embeds.clone()
                changed[own] = padding[own]
                found[text] = _vector(changed, pooled)
            elif ablate == "attention":
                found[text] = _vector(embeds, pooled, own)
            else:
                rest = prompt
                for word in reversed(spans):
                    rest = f"{rest[: word.begin]}{rest[word.end :]}"
                short, short_pooled = self._encoded(" ".join(rest.split()))
                found[text] = _vector(
                    embeds if ablate == "pooled" else short, pooled if ablate == "tokens" else short_pooled
                )
        return found

    def __call__(
        self,
        x_t: Float[Tensor, "batch channels height width"],
        sigma: Float[Tensor, "batch"],
        cond: Float[Tensor, "batch cond"],
    ) -> Float[Tensor, "batch channels height width"]:
        return x_t - self.noise(x_t, sigma, cond)

    def noise(
        self,
        x_t: Float[Tensor, "batch channels height width"],
        sigma: Float[Tensor, "batch"],
        cond: Float[Tensor, "batch cond"],
    ) -> Float[Tensor, "batch channels height width"]:
        """sigma eps = x_t - D, what the net itself computes. Where eq. (9) asks for an architecture: an eps
        that learned nothing does not cancel the x_t in D, and its D looks at its own place.
        """
        shape = ("batch", *self.latent_shape)
        check_tensor("x_t", x_t, shape, False, "float")
        pooled = self.pipeline.text_encoder_2.config.projection_dim
        across = self.pipeline.unet.config.cross_attention_dim
        check_tensor("cond", cond, (len(x_t), "cond"), False, "float")
        tokens, rest = divmod(cond.shape[1] - pooled, across + 1)
        if rest or tokens < 1:
            raise ValueError(
                f"a prompt is tokens * {across + 1} + {pooled} numbers (`condition`), got {cond.shape[1]}"
            )
        embeds, attended, pooled_embeds = cond.split([tokens * across, tokens, pooled], dim=1)
        t = steps_at(sigma, self.sigmas)
        kind = self.pipeline.unet.dtype
        size = x_t.new_tensor([self.height, self.width, 0, 0, self.height, self.width])
        s = expand(sigma.to(x_t.dtype), x_t)
        eps = self.pipeline.unet(
            (x_t / (1 + s**2).sqrt()).to(kind),
            t.float(),
            encoder_hidden_states=embeds.unflatten(1, (tokens, across)).to(kind),
            encoder_attention_mask=attended,
            added_cond_kwargs={"text_embeds": pooled_embeds.to(kind), "time_ids": size.expand(len(x_t), -1)},
        ).sample
        return s * eps.to(x_t.dtype)


def _vector(
    embeds: Float[Tensor, "tokens width"], pooled: Float[Tensor, "pooled"], hidden: Sequence[int] = ()
) -> Float[Tensor, "cond"]:
    """A prompt as one vector; the tokens `hidden` are not attended to."""
    attended = embeds.new_ones(len(embeds))
    attended[list(hidden)] = 0
    return torch.cat([embeds.flatten(), attended, pooled])


def vocabulary(tokenizer: Any) -> set[str]:
    """The words of a small tokenizer made of whole words; empty for CLIP's own, which knows all words."""
    if len(tokenizer) > 1000:
        return set()
    ends = {piece.removesuffix("</w>") for piece in tokenizer.get_vocab() if piece.endswith("</w>")}
    return {word for word in ends if len(word) > 1} | {"a", ","}


def composed(prompt: str) -> str:
    """The prompt with each accent and its letter as one sign, as CLIP reads them. Raises TypeError for no
    text.
    """
    return unicodedata.normalize("NFC", check_kind("prompt", prompt, str, "text"))


def _spans(prompt: str) -> list[tuple[int, int]]:
    """Where words begin and end: runs of letters and digits, with apostrophes inside, and every other sign by
    itself."""
    return [found.span() for found in re.finditer(r"[^\W_]+(?:['’][^\W_]+)*|\S", prompt)]


def dominant(
    influence: Mapping[str, Float[Tensor, "height width"]],
    factor: float = 2.0,
    null: Float[Tensor, "height width"] | float = 0.0,
) -> list[list[tuple[str, ...]]]:
    """At each latent pixel, the dominant words, strongest first, or () (Fig. 6, App. G).

    Words are ranked by influence. The first m of them are dominant if the weakest of these has at least
    `factor` times the influence of word m + 1. All words together are not dominant: no word is next. Those
    below `factor` times `null` are left out: the influence of a word that names nothing, since deleting any
    word moves all later ones. Raises ValueError for fewer than two words and a factor below one.

    Choice: of several such m, the one with the largest ratio, the smaller m if two are equal. The paper
    does not say which. By the same rule, words with some influence dominate those with none.
    """
    if len(influence) < 2:
        raise ValueError(f"a dominant word is one of several, got {', '.join(influence) or 'none'}")
    check_number("factor", factor, 1)
    names = list(influence)
    ranked, order = torch.stack(list(influence.values())).double().sort(dim=0, descending=True, stable=True)
    # where all words from m on have no influence, no cut: 0/0
    ratio = torch.where(ranked[:-1] > 0, ranked[:-1] / ranked[1:], 0)
    largest, cut = ratio.max(dim=0)
    many = torch.where(largest >= factor, cut + 1, 0).minimum((ranked >= factor * null).sum(0))
    return [
        [tuple(names[k] for k in ranks[:m]) for ranks, m in zip(*line, strict=True)]
        for line in zip(order.movedim(0, -1).tolist(), many.tolist(), strict=True)
    ]
