"""Score eq. (10) and attention maps on noised renders against the objects' masks (Figs. 6, 7, App. G)."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor

from lcs_utils import locality
from lcs_utils.diffusion import add_noise
from lcs_utils.text_to_image import truth
from lcs_utils.text_to_image.adapter import ABLATIONS, PromptDenoiser
from lcs_utils.text_to_image.attention import PARTS, attention_maps
from lcs_utils.text_to_image.captions import Scene, caption, held_out
from lcs_utils.text_to_image.data import encode, in_style, masks, renders

SIGMAS = (1.0, 2.0, 4.0)
COMMON = "and"  # in the caption of every two objects, and of neither: what deleting any word does


class Case(NamedTuple):
    """A held-out render of two objects of different colors and shapes: its scene, picture, latents, masks."""

    scene: Scene
    image: Float[Tensor, "3 height width"]
    latents: Float[Tensor, "channels height width"]
    masks: Bool[np.ndarray, "2 height width"]


def cases(vae, number: int, style: str = "plain", folder: Path | None = None) -> list[Case]:
    """The first `number` held-out renders whose every word means one object, both of them visible."""
    found, chosen = renders("held_out", folder), []
    for i, scene in enumerate(found.scenes):
        scene = scene._replace(style=style)
        clear = len(scene.pairs) == 2 and len(set(sum(scene.pairs, ()))) == 4 and not held_out(scene)
        if not clear:
            continue
        image = in_style(found.images[i : i + 1], [style])
        latents = encode(vae, image)[0]
        places = truth.at_latents(masks(found, i, folder), latents.shape[-1])
        if places.sum((1, 2)).min() >= 2:
            chosen.append(Case(scene, image[0], latents, places))
        if len(chosen) == number:
            return chosen
    raise ValueError(f"asked for {number} clear renders, but only {len(chosen)} held-out ones are")


def noised(case: Case, sigma: float, seed: int) -> Float[Tensor, "channels height width"]:
    """A case's latents at a noise level; the noise comes from `seed`."""
    generator = torch.Generator().manual_seed(seed)
    return add_noise(case.latents[None], torch.tensor([sigma]), generator)[0]


def scores(
    found: Sequence[tuple[Case, dict[str, np.ndarray]]], measure: str, seed: int = 0
) -> dict[str, list[float]]:
    """{control: one score per scene} of maps of each scene's four words: "" against the word's own object,
    "other object" against the other, "another picture" against an object of the next scene (where objects
    tend to be), "shuffled" with the map's places permuted (an AUC of one half by construction)."""
    score, random, kept = truth.MEASURES[measure], np.random.default_rng(seed), defaultdict(list)
    for (case, maps), (following, _) in zip(found, [*found[1:], found[0]], strict=True):
        of = defaultdict(list)
        for k, pair in enumerate(case.scene.pairs):
            for word in pair:
                of[""].append(score(maps[word], case.masks[k]))
                of["other object"].append(score(maps[word], case.masks[1 - k]))
                of["another picture"].append(score(maps[word], following.masks[k]))
                of["shuffled"].append(score(truth.shuffled(maps[word], random), case.masks[k]))
        for control, values in of.items():
            kept[control].append(float(np.mean(values)))
    return kept


def own_parts(found: Sequence[tuple[Case, dict[str, np.ndarray]]], common: bool = False) -> list[float]:
    """Per scene, of its words' influence per place inside the two objects (means over each), the share inside
    the word's own (conditional locality, Def. 2; one half: a word acts at its own object no more than at the
    other). If `common`, of the word's and COMMON's inside the word's own object, the share that is the
    word's: one half is no more than deleting a word does that names nothing."""
    kept = []
    for case, maps in found:
        both = [
            [maps[word][own].mean(), maps[COMMON][own].mean() if common else maps[word][other].mean()]
            for pair, own, other in zip(case.scene.pairs, case.masks, case.masks[::-1], strict=True)
            for word in pair
        ]
        kept.append(float(np.mean([own / (own + other) if own + other else 0.5 for own, other in both])))
    return kept


def heard_most(found: Sequence[tuple[Case, dict[str, np.ndarray]]], elsewhere: bool = False) -> list[float]:
    """Per scene, the share of its objects at which one of their own two words is heard most: more, per place
    inside the object, than any other word of the caption (section 4: where the horse is drawn, "horse" is).
    If `elsewhere`, inside an object of the next scene instead, where a loud word is heard most, too.
    Two words of seven are one's own."""
    kept = []
    for (case, maps), (following, _) in zip(found, [*found[1:], found[0]], strict=True):
        most = []
        for pair, mask in zip(case.scene.pairs, (following if elsewhere else case).masks, strict=True):
            at = {word: of[mask].mean() for word, of in maps.items()}
            most.append(max(at[word] for word in pair) > max(at[word] for word in at if word not in pair))
        kept.append(float(np.mean(most)))
    return kept


class Told(NamedTuple):
    """A prompt as a condition, and its conditions without each of its words."""

    cond: Float[Tensor, "cond"]
    without: dict[str, Float[Tensor, "cond"]]


def told(denoiser: PromptDenoiser, scene: Scene, ablate: str) -> Told:
    """The conditions of eq. (10) for all words of a scene's caption, each "a" by itself."""
    prompt = caption(scene)
    return Told(denoiser.condition(prompt), denoiser.without_words(prompt, None, ablate, {"a"}))


def influence(
    denoiser: PromptDenoiser, case: Case, asked: Told, sigma: float, seed: int
) -> dict[str, np.ndarray]:
    """eq. (10) of each word of `asked` at a noised render: {word: map}."""
    found = locality.condition_influence(
        denoiser, noised(case, sigma, seed), sigma, asked.cond, asked.without
    )
    return {word: one.numpy() for word, one in zip(asked.without, found, strict=True)}


def word_attention(
    denoiser: PromptDenoiser, case: Case, sigma: float, seed: int
) -> dict[str, tuple[dict[str, np.ndarray], dict[str, np.ndarray]]]:
    """{part of the net, or "all": (raw, minus the map of "" at its end token, the paper's baseline)}, each
    {word: mean attention to its token over the part's layers} at a noised render (Fig. 7)."""
    prompt, x_t = caption(case.scene), noised(case, sigma, seed)[None]
    words = {word.text: word.tokens[-1] for word in denoiser.words(prompt)}
    own = [word for pair in case.scene.pairs for word in pair]

    def maps_of(text: str, tokens: list[int]) -> dict[str, Tensor]:
        with torch.no_grad(), attention_maps(denoiser.pipeline.unet, tokens, shape=x_t.shape[-2:]) as maps:
            denoiser(x_t, torch.tensor([sigma]), denoiser.condition(text)[None])
        return {layer: truth.enlarged(of[0], x_t.shape[-1])[0] for layer, of in maps.items()}

    told_maps, empty, found = maps_of(prompt, [words[word] for word in own]), maps_of("", [1]), {}
    for part in (*PARTS, "all"):
        layers = [layer for layer in told_maps if part == "all" or layer.startswith(part)]
        raw = torch.stack([told_maps[layer] for layer in layers]).mean(0)
        less = raw - torch.stack([empty[layer] for layer in layers]).mean(0)
        both = (dict(zip(own, maps.numpy(), strict=True)) for maps in (raw, less))
        found[part.removesuffix("_blocks").removesuffix("_block")] = tuple(both)
    return found


def locality_rows(
    net: str, denoiser: PromptDenoiser, chosen: Sequence[Case], seed: int = 0
) -> Iterator[truth.Row]:
    """Word-to-mask scores of eq. (10) by ablation, with their controls (Fig. 6).

    "wrong caption" takes another scene's caption: its words' maps against the masks of this one. "common
    word" takes COMMON away, which names neither object: its map against both masks.
    """
    for ablate in ABLATIONS:
        asked = [told(denoiser, case.scene, ablate) for case in chosen]
        for sigma in SIGMAS:
            maps = [
                influence(denoiser, case, one, sigma, seed + i)
                for i, (case, one) in enumerate(zip(chosen, asked, strict=True))
            ]
            of = list(zip(chosen, maps, strict=True))
            for measure in truth.MEASURES:
                for control, values in scores(of, measure, seed).items():
                    yield truth.mean_row(net, measure, f"eq. (10), {ablate}", control, sigma, values)
            for control in ("", "common word"):
                heard = own_parts(of, bool(control))
                yield truth.mean_row(net, "own part", f"eq. (10), {ablate}", control, sigma, heard)
            for control in ("", "another picture"):
                heard = heard_most(of, bool(control))
                yield truth.mean_row(net, "heard most", f"eq. (10), {ablate}", control, sigma, heard)
            wrong, common = [], []
            for i, case in enumerate(chosen):
                common.append(np.mean([truth.auc(maps[i][COMMON], mask) for mask in case.masks]))
                k = (i + 1) % len(chosen)
                other = influence(denoiser, case, asked[k], sigma, seed + i)
                pairs = zip(chosen[k].scene.pairs, case.masks, strict=True)
                wrong.append(np.mean([truth.auc(other[word], mask) for pair, mask in pairs for word in pair]))
            for control, values in (("wrong caption", wrong), ("common word", common)):
                yield truth.mean_row(net, "AUC", f"eq. (10), {ablate}", control, sigma, values)


def attention_rows(
    net: str, denoiser: PromptDenoiser, chosen: Sequence[Case], seed: int = 0
) -> Iterator[truth.Row]:
    """Word-to-mask AUC of attention maps, by part of the net, raw and minus the paper's baseline (Fig. 7)."""
    for sigma in SIGMAS:
        seen = [word_attention(denoiser, case, sigma, seed + i) for i, case in enumerate(chosen)]
        for part in seen[0]:
            for k, kind in enumerate(("raw", "minus empty")):
                maps = [of[part][k] for of in seen]
                for control, values in scores(list(zip(chosen, maps, strict=True)), "AUC", seed).items():
                    yield truth.mean_row(net, "AUC", f"attention {part}, {kind}", control, sigma, values)
