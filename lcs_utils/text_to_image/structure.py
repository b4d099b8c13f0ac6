"""Structure of a text-to-image net on noised renders of known scenes: its full Jacobian (eq. (9)), additivity
of objects and styles, and a removal's share along its own direction (Lemma 1, eq. (3))."""

from collections import defaultdict
from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from lcs_utils import locality
from lcs_utils.features.capture import Space, capture
from lcs_utils.features.contexts import gather
from lcs_utils.features.measures import additivity, own_share
from lcs_utils.text_to_image import truth
from lcs_utils.text_to_image.adapter import PromptDenoiser
from lcs_utils.text_to_image.captions import Scene, caption
from lcs_utils.text_to_image.scoring import SIGMAS, Case, noised, scores

SPACES = {"": Space("denoiser"), ", mid block": Space("mid_block")}
KINDS = ("two objects", "object and style")
DRAWS = 8  # noise draws per render, half of them for the directions


def captions_of(kind: str, scene: Scene) -> list[str]:
    """Captions of neither, the first, the second, both of two conditions: two objects over nothing, or the
    second object and a style over the first object."""
    one, two = scene.pairs
    if kind == "two objects":
        return ["", caption(Scene((one,))), caption(Scene((two,))), caption(Scene((one, two)))]
    style = scene.style
    told = (((one,),), ((one, two),), ((one,), style), ((one, two), style))
    return [caption(Scene(*each)) for each in told]


@torch.no_grad()
def answers(denoiser: PromptDenoiser, x_t: Tensor, sigma: float, told: Sequence[str]) -> dict[Space, Tensor]:
    """{space: features [prompts features]} of one x_t under each of the prompts `told`."""
    conds = torch.stack([denoiser.condition(prompt) for prompt in told])
    with capture(denoiser.pipeline.unet, "mid_block") as seen:
        x0 = denoiser(x_t.expand(len(conds), *x_t.shape), x_t.new_full((len(conds),), sigma), conds)
    return {SPACES[""]: x0.flatten(1), SPACES[", mid block"]: seen["mid_block"][0].flatten(1)}


def of_sets(told: Sequence[str], sets: Sequence[frozenset[int]]) -> list[str]:
    """The caption of each set of conditions 0 and 1."""
    return [told[(0 in J) + 2 * (1 in J)] for J in sets]


def additivity_rows(
    net: str, denoiser: PromptDenoiser, chosen: Sequence[Case], kind: str, seed: int = 0
) -> Iterator[truth.Row]:
    """R2(2) of D and of the mid block (Lemma 1; SPACES), over scenes."""
    for sigma in SIGMAS:
        now = {}

        def draw(i: int, sigma=sigma, now=now) -> Tensor:
            now["told"] = captions_of(kind, chosen[i].scene)
            return noised(chosen[i], sigma, seed + i)

        def respond(x_t: Tensor, level: float, sets, now=now) -> dict:
            return answers(denoiser, x_t, level, of_sets(now["told"], sets))

        sums = gather(respond, draw, len(chosen), sigma, 2, seed=seed)
        for name, space in SPACES.items():
            for found in additivity(sums[space], [2], seed):
                numbers = (round(number, 4) for number in (found.value, found.low, found.high))
                yield truth.Row(
                    net, found.measure, kind + name, found.control, sigma, 0.0, len(chosen), *numbers
                )


def own_share_rows(
    net: str, denoiser: PromptDenoiser, chosen: Sequence[Case], kind: str, seed: int = 0
) -> Iterator[truth.Row]:
    """F3: of the change when one of two conditions is left out, the share along its own direction (eq. (3)).
    Each scene has its own directions, from half of its noise draws. Exchanging the directions' names turns a
    share s into 1 - s, so any net gets one half without knowing which direction is which."""
    for sigma in SIGMAS:
        found = defaultdict(list)
        for number, case in enumerate(chosen):
            told = captions_of(kind, case.scene)
            sums = gather(
                lambda x_t, level, sets, told=told: answers(denoiser, x_t, level, of_sets(told, sets)),
                lambda i, case=case, sigma=sigma: noised(case, sigma, seed + i),
                DRAWS,
                sigma,
                2,
                [2],
                # four permutations, the same for all scenes, would be one draw of the null and not its mean
                seed=seed + number,
            )
            for name, space in SPACES.items():
                for one in own_share(sums[space], [2], seed):
                    found[name, one.control].append(one.value)
        for (name, control), values in found.items():
            yield truth.mean_row(net, "own share", kind + name, control, sigma, values)


def jacobian_rows(
    net: str, denoiser: PromptDenoiser, chosen: Sequence[Case], seed: int = 0, of_noise: bool = False
) -> Iterator[truth.Row]:
    """The full Jacobian of D, or of the `noise` that it takes away, at noised renders (eq. (9)): the side in
    latents of the square with 90% of a place's energy, inside objects and outside; and the AUC of an
    object's places for its own mask."""
    height, width = denoiser.latent_shape[1:]
    targets = [(row, column) for row in range(height) for column in range(width)]
    for sigma in SIGMAS:
        sides, maps = defaultdict(list), []
        for i, case in enumerate(chosen):
            x_t, cond = noised(case, sigma, seed + i), denoiser.condition(caption(case.scene))
            asked = denoiser.noise if of_noise else denoiser
            influence = locality.pixel_influence(asked, x_t, sigma, cond, targets)
            side = locality.locality_window(influence, targets).numpy().reshape(height, width)
            objects = case.masks.any(0)
            sides["objects"].append(float(side[objects].mean()))
            sides["background"].append(float(side[~objects].mean()))
            of = [influence.numpy()[mask.ravel()].mean(0) for mask in case.masks]
            maps.append({word: of[k] for k, pair in enumerate(case.scene.pairs) for word in pair})
        for where, values in sides.items():
            yield truth.mean_row(net, "side", f"eq. (9), {where}", "", sigma, values)
        for control, values in scores(list(zip(chosen, maps, strict=True)), "AUC", seed).items():
            yield truth.mean_row(net, "AUC", "eq. (9)", control, sigma, values)


def side_of_all_alike(latents: int) -> float:
    """Mean side over all places when each place depends on all latents alike: no locality."""
    places = [(row, column) for row in range(latents) for column in range(latents)]
    alike = torch.ones(len(places), latents, latents)
    return float(locality.locality_window(alike, places).double().mean())
