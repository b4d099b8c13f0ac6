"""Cosines between prompts by what a net attends to while it draws them, single words and composites
(Figs. 7, 13, App. G)."""

import torch
from jaxtyping import Float
from torch import Tensor

from lcs_utils.checks import check_count
from lcs_utils.features.directions import cosine_similarity
from lcs_utils.text_to_image.prompts import Attended, Study

MID_LAYERS = 5  # the paper's feature space: "the first 5 cross-attention layers of the Mid block" (App. G)


def differences(found: Attended, sigma: float, part: str, baseline: str) -> Float[Tensor, "prompts places"]:
    """Maps of all prompts in the layers of a part, concatenated, minus those of "", which is the last prompt
    ("empty", the paper's), or minus the mean over prompts ("mean"); eq. (3) with prompts as conditions.

    Choice: one vector for all layers of a part, in which layers with more places and larger differences weigh
    more. Fig. 13 has a matrix for each layer; `kinds.by_layer` takes them one by one.
    Raises ValueError for another baseline, and for a noise level or part without maps.
    """
    layers = layers_of(found, sigma, part)
    return minus_baseline(torch.cat([torch.stack(of).flatten(1) for of in layers], 1), baseline)


def layers_of(found: Attended, sigma: float, part: str) -> list[list[Tensor]]:
    """Maps of all prompts in each layer of a part, in the net's order; of the mid block the first MID_LAYERS.

    Raises ValueError for a noise level or part without maps.
    """
    layers = [of for (s, name), of in found.items() if s == sigma and name.startswith(part)]
    if not layers:
        raise ValueError(f"no maps of {part} at sigma {sigma:g}")
    return layers[:MID_LAYERS] if part.startswith("mid") else layers


def minus_baseline(maps: Tensor, baseline: str) -> Tensor:
    """Maps of all prompts but the last minus the last one's ("empty") or their own mean ("mean").

    Raises ValueError for another baseline.
    """
    if baseline not in ("empty", "mean"):
        raise ValueError(f"unknown baseline {baseline!r}; allowed: empty, mean")
    return maps[:-1] - (maps[-1:] if baseline == "empty" else maps[:-1].mean(0, keepdim=True))


def cosines(found: Attended, sigma: float, part: str, baseline: str) -> Float[Tensor, "prompts prompts"]:
    """Cosine matrix of `differences` (Figs. 7, 13)."""
    return cosine_similarity(differences(found, sigma, part, baseline))


def least_mean_cosine(n: int) -> float:
    """-1/(n - 1), the least mean cosine between n vectors, since no sum has a negative length. n vectors of
    equal length that sum to zero (as after subtracting their mean) have exactly it."""
    return -1 / (check_count("n", n, 2) - 1)


def of_singles(both: Attended, study: Study) -> Attended:
    """The maps of the single prompts and of the empty one, from the maps of `asked`."""
    return {key: [*of[: len(study.singles)], of[-1]] for key, of in both.items()}


def other_seeds(
    found: Attended, again: Attended, sigma: float, part: str, baseline: str
) -> Float[Tensor, "prompts"]:
    """Cosine of each prompt's `differences` with its own from other noise: how far the samples' chance moves
    any cosine."""
    both = (differences(maps, sigma, part, baseline) for maps in (found, again))
    return torch.nn.functional.cosine_similarity(*both)


def composites(
    both: Attended, study: Study, part: str, again: Attended | None = None
) -> dict[str, dict[str, dict[str, float]]]:
    """{baseline: {composite at word: {"own": cosine with the single prompt of the word, "other": mean cosine
    with the other singles}}}, averaged over noise levels, from the maps of `asked` (App. G). With maps from
    other noise, `again`, also "again": the single prompt's cosine with itself."""
    names = [prompt.short for prompt in study.singles]
    said: dict = {}
    for baseline in ("empty", "mean"):
        for k, (prompt, single) in enumerate(study.composites):
            own, other, same = [], [], []
            for sigma in sorted({sigma for sigma, _ in both}):
                d = differences(both, sigma, part, baseline)
                cosine = torch.nn.functional.cosine_similarity(d[len(names) + k][None], d[: len(names)])
                at = names.index(single)
                own.append(float(cosine[at]))
                other.append(float(cosine.sum() - cosine[at]) / (len(names) - 1))
                if again:
                    same.append(float(other_seeds(both, again, sigma, part, baseline)[at]))
            kinds = {"own": own, "other": other, "again": same}
            means = {kind: round(sum(of) / len(of), 3) for kind, of in kinds.items() if of}
            said.setdefault(baseline, {})[f"{prompt.short} at {prompt.word}"] = means
    return said
