"""Is attention alike for prompts of one kind and different between kinds? The blocks of Figs. 7 and 13 (App.
G)."""

from collections.abc import Mapping, Sequence
from itertools import product
from math import nan

import torch

from lcs_utils.checks import check_count
from lcs_utils.text_to_image import standin, truth
from lcs_utils.text_to_image.adapter import PromptDenoiser
from lcs_utils.text_to_image.figures import BASELINES, PARTS
from lcs_utils.text_to_image.prompt_cosines import cosines, layers_of, minus_baseline, of_singles
from lcs_utils.text_to_image.prompts import Attended, Prompt, Study, attended, first_words
from lcs_utils.text_to_image.training import SIZE

DRAWS = 8  # of the samples' noise
ByLayer = dict[str, dict[str, dict[str, float]]]  # {baseline: {sigma: {layer: within minus between kinds}}}


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


def by_layer(found: Attended, singles: Sequence[Prompt]) -> ByLayer:
    """Mean cosine within kinds minus between kinds of each cross-attention layer by itself, as Fig. 13 shows
    them, in the order of the net.

    Raises ValueError as `within_and_between`.
    """
    said: ByLayer = {}
    for sigma, layer in sorted(found, key=lambda key: -key[0]):  # stable: layers stay in their order
        for baseline in BASELINES:
            within, between = within_and_between(found, singles, sigma, layer, baseline)
            said.setdefault(baseline, {}).setdefault(f"{sigma:.3g}", {})[layer] = round(within - between, 3)
    return said


def largest_share(found: Attended, part: str, baseline: str) -> float:
    """Of the squared length of a part's concatenated `differences`, the largest share of one layer, averaged
    over noise levels: what that layer weighs in the part's cosines.
    """
    shares = []
    for sigma in {sigma for sigma, _ in found}:
        layers = [
            minus_baseline(torch.stack(of).flatten(1), baseline) for of in layers_of(found, sigma, part)
        ]
        squared = [float(of.square().sum()) for of in layers]
        shares.append(max(squared) / sum(squared))
    return sum(shares) / len(shares)


def layers_words(found: Attended, net: ByLayer, untrained: Sequence[ByLayer] = ()) -> str:
    """A table, by baseline and part: how many layers, how much the heaviest weighs among them, and in how
    many the kinds stand out more than in every untrained net.
    """
    sigmas = list(next(iter(net.values())))
    head = ["baseline", "part", "layers", "share of the heaviest"]
    head += [f"above {len(untrained)} untrained nets, σ = {sigma}" for sigma in sigmas if untrained]
    lines = ["| " + " | ".join(head) + " |", "|---" * len(head) + "|"]
    for baseline, of in net.items():
        for part in PARTS:
            there = [layer for layer in of[sigmas[0]] if layer.startswith(part)]
            cells = [baseline, part, str(len(there)), f"{largest_share(found, part, baseline):.0%}"]
            for sigma in sigmas if untrained else ():
                most = {layer: max(bare[baseline][sigma][layer] for bare in untrained) for layer in there}
                held = sum(of[sigma][layer] > most[layer] for layer in there)
                cells.append(f"{held} of {len(there)}")
            lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def of_untrained(study: Study, seed: int, net: int = 0) -> Attended:
    """`prompts.attended` of the single prompts and the empty one, in a net that learned nothing, whose
    weights are drawn from the seed `net`.
    """
    denoiser = PromptDenoiser(standin.untrained(SIZE, net), study.side, study.side)
    return attended(denoiser, [*study.singles, first_words(study)[-1]], study, seed=seed)


def block_rows(net: str, denoiser: PromptDenoiser, study: Study, draws: int = DRAWS) -> list[truth.Row]:
    """The mid block's mean cosine within kinds minus between kinds, by baseline and noise level, over draws
    of the samples' noise (Figs. 7, 13, App. G). Were kinds given to prompts at random, 0 is expected.
    The control `truth.FIRST` is the same at the prompts' first words.
    """
    check_count("draws", draws, 2)
    values: dict[tuple[float, str, str], list[float]] = {}
    number = len(study.singles)
    for draw in range(draws):
        both = attended(denoiser, [*study.singles, *first_words(study)], study, seed=1000 * draw)
        found = {"": of_singles(both, study), truth.FIRST: {key: of[number:] for key, of in both.items()}}
        for sigma, baseline, control in product(sorted({sigma for sigma, _ in both}), BASELINES, found):
            within, between = within_and_between(found[control], study.singles, sigma, "mid", baseline)
            values.setdefault((sigma, baseline, control), []).append(within - between)
    return [
        truth.mean_row(net, "kinds", _case(baseline), control, sigma, of)
        for (sigma, baseline, control), of in values.items()
    ]


def _case(baseline: str) -> str:
    return f"{baseline}: within minus between, mid block"


def stored_blocks(
    rows: Sequence[truth.Row], net: str, control: str = ""
) -> dict[tuple[str, float], truth.Row]:
    """{(baseline, sigma): row} of a net's `block_rows` among stored rows, or of their control, high noise
    first. Raises ValueError if there are none.
    """
    found = {
        (baseline, row.sigma): row
        for baseline in BASELINES
        for row in sorted(rows, key=lambda row: -row.sigma)
        if (row.net, row.measure, row.case, row.control) == (net, "kinds", _case(baseline), control)
    }
    if not found:
        raise ValueError(f"no rows of kinds of {net}{', ' * bool(control)}{control}: `{truth.COMMAND}`")
    return found


def before_training(rows: Sequence[truth.Row], net: str = "t1") -> dict[tuple[str, float], float]:
    """{(baseline, sigma): the mid block's difference of kinds in an untrained net, as a share of a net's},
    nan where that is none.
    """
    own, bare = (stored_blocks(rows, name) for name in (net, "untrained"))
    return {at: bare[at].value / row.value if row.value > 0 else nan for at, row in own.items()}


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
