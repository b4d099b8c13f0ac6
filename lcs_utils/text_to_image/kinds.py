"""Is attention alike for prompts of one kind and different between kinds? The blocks of Figs. 7 and 13 (App.
G)."""

from collections.abc import Mapping, Sequence

import torch

from lcs_utils.text_to_image import standin
from lcs_utils.text_to_image.adapter import PromptDenoiser
from lcs_utils.text_to_image.figures import BASELINES, PARTS
from lcs_utils.text_to_image.prompt_cosines import cosines
from lcs_utils.text_to_image.prompts import Attended, Prompt, Study, attended
from lcs_utils.text_to_image.training import SIZE


def within_and_between(
    found: Attended, singles: Sequence[Prompt], sigma: float, part: str, baseline: str
) -> tuple[float, float]:
    """Mean cosines of two prompts of one kind, and of two kinds, from `prompt_cosines.cosines`.

    Raises ValueError unless some prompts share a kind and some do not.
    """
    kinds = [prompt.kind for prompt in singles]
    alike = torch.tensor([[a == b for b in kinds] for a in kinds])
    pairs = ~torch.eye(len(kinds), dtype=torch.bool)
    if not bool((alike & pairs).any()) or bool(alike.all()):
        raise ValueError(f"some prompts must share a kind and some not, got kinds {kinds}")
    matrix = cosines(found, sigma, part, baseline)
    return float(matrix[alike & pairs].mean()), float(matrix[~alike].mean())


def of_untrained(study: Study, seed: int) -> Attended:
    """`prompts.attended` of the single prompts and the empty one, in a net that learned nothing."""
    bare = PromptDenoiser(standin.untrained(SIZE), study.side, study.side)
    return attended(bare, [*study.singles, Prompt("empty", "", "")], study, seed=seed)


def table(nets: Mapping[str, Attended], singles: Sequence[Prompt]) -> str:
    """Table of cosines within and between kinds, from {net: maps}, by baseline, part and noise level."""
    sigmas = sorted({sigma for found in nets.values() for sigma, _ in found}, reverse=True)
    kinds = ", ".join(dict.fromkeys(f"{prompt.kind}s" for prompt in singles))
    lines = [f"Mean cosine of two prompts of one kind ({kinds}) / of two kinds.", ""]
    lines += ["| net | baseline | part | " + " | ".join(f"σ = {sigma:.3g}" for sigma in sigmas) + " |"]
    lines += ["|---" * (len(sigmas) + 3) + "|"]
    for net, found in nets.items():
        for baseline in BASELINES:
            for part in PARTS:
                each = [within_and_between(found, singles, sigma, part, baseline) for sigma in sigmas]
                cells = " | ".join(f"{one:.2f} / {two:.2f}" for one, two in each)
                lines.append(f"| {net} | {baseline} | {part} | {cells} |")
    return "\n".join(lines)
