"""Numbers, sentences and checks that notebooks 09 and 10 take from the stored rows (App. G)."""

import textwrap
from collections.abc import Container, Sequence
from pathlib import Path
from typing import Any

import torch
from matplotlib.figure import Figure

from lcs_utils.plotting import image_grid
from lcs_utils.text_to_image import kinds, structure, success, truth
from lcs_utils.text_to_image.adapter import ABLATIONS, PromptDenoiser
from lcs_utils.text_to_image.captions import Scene, caption, held_out
from lcs_utils.text_to_image.figures import BASELINES, PARTS, Parted, part_maps
from lcs_utils.text_to_image.prompt_cosines import least_mean_cosine
from lcs_utils.text_to_image.prompts import FOLDER, SMALL, Attended, Prompt, Study
from lcs_utils.text_to_image.row_figures import one
from lcs_utils.text_to_image.scoring import SIGMAS
from lcs_utils.text_to_image.truth import Row

NETS = {"t1": "told all objects (T1)", "t2": "told one object (T2)", "untrained": "untrained"}
CONTROLS = {
    "other object": "T1, the other object's mask",
    "another picture": "T1, another picture's mask",
}
KINDS = tuple(success.KINDS)
WHATS = ("objects right", "colors right", "shapes right", "number right", "style right")
ADDED = {  # which two conditions, and where they are added
    f"{kind}{space}": f"{kind}, {'the mid block' if space else 'the denoiser'}"
    for kind in structure.KINDS
    for space in structure.SPACES
}
SIDES = {f"eq. (9), {where}": where for where in ("objects", "background")}
ABLATED = {f"eq. (10), {name}": name for name in ABLATIONS}
OF_ALL = {case: name for case, name in ABLATED.items() if name != "tokens"}  # T2's weights are not kept
ATTENDED = {
    f"attention {part}, {kind}": f"{part}, {kind}"
    for part in ("down", "mid", "up", "all")
    for kind in ("raw", "minus empty")
}
SAMPLES = (
    Scene((("red", "cylinder"),)),
    Scene((("cyan", "cube"),), "fog"),
    Scene((("yellow", "cube"),), "night"),
    Scene((("purple", "sphere"),), "drawing"),
    Scene((("green", "cube"), ("gray", "sphere"))),
    Scene((("red", "cube"),)),
    Scene((("cyan", "cylinder"),), "night"),
    Scene((("purple", "cube"),), "drawing"),
)


def files(model: str) -> list[Path]:
    """Weights behind the figures of a model; none for a model that is not ours."""
    return sorted(FOLDER.rglob("*.safetensors")) if model == "standin" else []


def plot_samples(
    denoiser: PromptDenoiser, study: Study, seed: int, each: int = 2
) -> tuple[Figure, dict[str, Any]]:
    """Pictures of SAMPLES, or of another model's scenes, `each` per caption; held-out ones are marked."""
    ours = SAMPLES if study is SMALL else ()
    asked = [caption(scene) for scene in ours] or study.scenes
    held = {caption(scene) for scene in ours if held_out(scene)}
    told = [text for text in asked for _ in range(each)]
    size = {"height": study.side, "width": study.side}
    settings = {"num_inference_steps": study.steps, "guidance_scale": study.guidance, "output_type": "pt"}
    generator = torch.Generator().manual_seed(seed)
    drawn = denoiser.pipeline(told, generator=generator, **size, **settings).images
    grid = [[2 * drawn[i * each + j].float().cpu() - 1 for i in range(len(asked))] for j in range(each)]
    labels = [textwrap.fill(text, 14) + "\n(held out)" * (text in held) for text in asked]
    said = {"captions": list(asked), "guidance": study.guidance}
    return image_grid(grid, column_labels=labels, cell=1.15), said


def said_row(row: Row) -> dict[str, float]:
    """Value and interval for a figure's JSON."""
    return {"value": row.value, "low": row.low, "high": row.high, "n": row.n}


def success_numbers(rows: Sequence[Row]) -> dict[str, Any]:
    """Every rate of success beside its null."""
    found = {}
    for r in rows:
        if r.measure in WHATS:
            null = ", permuted" * bool(r.control)
            found[f"{r.net}, {r.case}, guidance {r.guidance:g}, {r.measure}{null}"] = said_row(r)
    return found


def _told(row: Row) -> str:
    return f"{row.value:.2f} [{row.low:.2f}, {row.high:.2f}]"


def success_words(rows: Sequence[Row], guidance: float = 4.0) -> str:
    """A table of rates at one guidance, each with its interval and null."""
    lines = [f"Guidance {guidance:g}: rate, interval (null: judged by another caption).", ""]
    lines += ["| net | asked for | " + " | ".join(WHATS) + " |", "|---" * (len(WHATS) + 2) + "|"]
    for net, label in NETS.items():
        for kind in KINDS:
            cells = []
            for what in WHATS:
                own, null = (one(rows, net, what, kind, c, guidance=guidance) for c in ("", "permuted"))
                cells.append(f"{_told(own)} ({null.value:.2f})")
            lines.append(f"| {label} | {kind} | " + " | ".join(cells) + " |")
    for kind in KINDS:
        most = [one(rows, success.CEILING, what, kind) for what in WHATS]
        if all(most):
            lines.append(f"| the VAE's copies of renders | {kind} | " + " | ".join(map(_told, most)) + " |")
    return "\n".join(lines)


def auc_words(rows: Sequence[Row], cases: dict[str, str], sigma: float = 2.0) -> str:
    """A table of AUCs at one noise level: T1, its controls as far as they are stored, untrained."""
    controls = ("", "other object", "another picture", "wrong caption", "common word", "shuffled")
    columns = [("t1", control) for control in controls]
    columns += [("untrained", control) for control in ("", "another picture")]
    heads = ("map", "T1", "other object's mask", "another picture's mask", "another caption", '"and"')
    lines = [f"AUC at σ = {sigma:g}, interval over scenes.", ""]
    heads += ("shuffled", "untrained", "untrained, another picture's mask")
    lines += ["| " + " | ".join(heads) + " |", "|---" * len(heads) + "|"]
    for case, label in cases.items():
        found = [one(rows, net, "AUC", case, control, sigma=sigma) for net, control in columns]
        lines.append(f"| {label} | " + " | ".join(_told(row) if row else "–" for row in found) + " |")
    return "\n".join(lines)


def check_controls(rows: Sequence[Row], cases: dict[str, str]) -> str:
    """Assert that shuffled maps are at chance, as they are by construction (this checks the AUC, not a net):
    0.5 is near their interval (of many, a few miss it). Returns it in words.
    """
    found = [r for r in rows if r.measure == "AUC" and r.case in cases and r.control == "shuffled"]
    assert found, "no controls are stored"
    assert all(r.low - 0.05 < 0.5 < r.high + 0.05 for r in found), found
    held = sum(r.low <= 0.5 <= r.high for r in found)
    return (
        f"shuffled maps know nothing, by construction: one half is inside the interval of their AUC for "
        f"{held} of {len(found)}, at most .05 outside it for the others, which share their shuffles"
    )


def map_numbers(found: Attended, asked: Sequence[Prompt], part: str = "up") -> dict[str, Any]:
    """The root mean square of each map, by baseline and noise level."""
    sigmas = sorted({sigma for sigma, _ in found}, reverse=True)
    return {
        baseline: {
            f"{sigma:.3g}": {
                prompt.short: round(float(of.square().mean().sqrt()), 5)
                for prompt, of in zip(asked, part_maps(found, sigma, part, baseline), strict=True)
            }
            for sigma in sigmas
        }
        for baseline in ("empty", "mean")
    }


def cosine_words(said: dict, prompts: int) -> str:
    """Table of the mean cosine of two of `prompts` prompts, signed and absolute, by baseline, part and noise
    level; in brackets, of one and itself from other noise; below, what holds by construction."""
    sigmas = list(next(iter(next(iter(said.values())).values())))
    least = least_mean_cosine(prompts)
    lines = [
        f"Cosine between two of {prompts} prompts: mean, mean absolute (mean between one and itself, from "
        "other noise).",
        "",
        "| baseline | part | " + " | ".join(f"σ = {s}" for s in sigmas) + " |",
    ]
    lines += ["|---" * (len(sigmas) + 2) + "|"]
    for baseline, of in said.items():
        for part, values in of.items():
            three = [tuple(values[s].values()) for s in sigmas]
            cells = [f"{two:.2f}, {size:.2f} ({one:.2f})" for two, size, one in three]
            lines.append(f"| {baseline} | {part} | " + " | ".join(cells) + " |")
    lines += [
        "",
        f"By construction: {prompts} vectors, their mean subtracted and then of equal length, have a mean "
        f"cosine of -1/{prompts - 1} = {least:.2f}, whatever they are, and a mean absolute one of at least "
        f"{-least:.2f}; no vectors have a lower mean. Orthogonal ones have 0 and 0.",
    ]
    return "\n".join(lines)


def block_words(rows: Sequence[Row], net: str = "t1") -> str:
    """Table of the mid block's difference of kinds over draws (`kinds.block_rows`), of a net and an untrained
    one, by baseline and noise level, each with its interval, beside the same at the prompts' first words, and
    what share is there before training.
    """
    own, bare = (kinds.stored_blocks(rows, name) for name in (net, "untrained"))
    first = kinds.stored_blocks(rows, net, truth.FIRST)
    shares = kinds.before_training(rows, net)
    sigmas, draws = list(dict.fromkeys(sigma for _, sigma in own)), next(iter(own.values())).n
    few = " (intervals of so few are too narrow)" if draws < truth.ENOUGH else ""
    lines = [f"Mid block: mean cosine within kinds minus between, over {draws} draws of noise{few}.", ""]
    lines += ["| net | baseline | " + " | ".join(f"σ = {sigma:.3g}" for sigma in sigmas) + " |"]
    lines += ["|---" * (len(sigmas) + 2) + "|"]
    for baseline in dict.fromkeys(baseline for baseline, _ in own):
        cells = {
            "model": [_told(own[baseline, sigma]) for sigma in sigmas],
            "model, at the prompts' first words": [_told(first[baseline, sigma]) for sigma in sigmas],
            "untrained": [_told(bare[baseline, sigma]) for sigma in sigmas],
            "untrained, as a share": [
                f"{shares[baseline, sigma]:.0%}".replace("nan%", "–") for sigma in sigmas
            ],
        }
        lines += [f"| {name} | {baseline} | {' | '.join(of)} |" for name, of in cells.items()]
    return "\n".join(lines)


def numbers(rows: Sequence[Row], *measures: str, cases: Container[str] | None = None) -> dict[str, Any]:
    """All rows of these measures, of these cases if given, with their controls."""
    return {
        f"{r.net}, {r.measure}, {r.case}, sigma {r.sigma:g}{', ' * bool(r.control)}{r.control}": said_row(r)
        for r in rows
        if r.measure in measures and (cases is None or r.case in cases)
    }


def by_noise_words(rows: Sequence[Row], measure: str, cases: dict[str, str], control: str = "") -> str:
    """A table of a measure by net and noise level, each with its interval, and its control in brackets."""
    lines = ["| net | of | " + " | ".join(f"σ = {sigma:g}" for sigma in SIGMAS) + " |"]
    lines += ["|---" * (len(SIGMAS) + 2) + "|"]
    for net, label in NETS.items():
        for case, title in cases.items():
            cells = []
            for sigma in SIGMAS:
                own = one(rows, net, measure, case, sigma=sigma)
                null = one(rows, net, measure, case, control, sigma=sigma) if control else None
                cells.append((_told(own) if own else "–") + (f" ({null.value:.2f})" if null else ""))
            lines.append(f"| {label} | {title} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def composite_words(said: Parted, rows: Sequence[Row], sigma: float = 2.0) -> str:
    """Table of the cosines of `prompt_cosines.composites` by part and baseline, mean and range over prompts;
    with stored rows, below it, where T1's attention tells a word's own object from the other."""
    labels = list(next(iter(said.values()))[next(iter(BASELINES))])
    held = len({label.split(" at ")[0] for label in labels})
    lines = [
        f"Cosine, mean over {len(labels)} words of {held} composite prompts [least, most]: chosen prompts, "
        "no sample of any, so that there are no intervals.",
        "",
        "| part | baseline | its own single prompt | mean of the others | its single prompt, other seeds |",
        "|---" * 5 + "|",
    ]
    for part, of in said.items():
        for baseline, values in of.items():
            kinds = {kind: [values[label][kind] for label in labels] for kind in values[labels[0]]}
            cells = [f"{sum(v) / len(v):.2f} [{min(v):.2f}, {max(v):.2f}]" for v in kinds.values()]
            lines.append(f"| {part} | {baseline} | " + " | ".join(cells) + " |")
    if rows:
        lines += ["", own_object_words(rows, list(said), sigma)]
    return "\n".join(lines)


def own_object_words(rows: Sequence[Row], parts: Sequence[str] = tuple(PARTS), sigma: float = 2.0) -> str:
    """Where T1's raw attention to a word finds its own object better than the other one: the AUC's interval
    for its own mask lies above that for the other's."""
    told = {True: [], False: []}
    for part in parts:
        own, other = (
            one(rows, "t1", "AUC", f"attention {part}, raw", control, sigma=sigma)
            for control in ("", "other object")
        )
        told[own.low > other.high].append(f"{part} ({_told(own)}, the other object's {_told(other)})")
    found, missed = ("; ".join(told[which]) or "none" for which in (True, False))
    said = (
        f"T1's attention to a word finds its own object better than the other (AUC at σ = {sigma:g}, next "
        f"section) in: {found}. Not in: {missed}."
    )
    return said + " There, a map like the single prompt's does not say where the object is." * bool(
        told[False]
    )


def composites_untrained(rows: Sequence[Row]) -> dict[str, dict[str, dict[str, float]]]:
    """What `prompt_cosines.composites` finds in an untrained net, rebuilt from stored rows."""
    found: dict = {}
    for row in rows:
        if row.net == "untrained" and row.measure == "composite cosine":
            baseline, label = row.case.split(": ")
            found.setdefault(baseline, {}).setdefault(label, {})[row.control or "own"] = row.value
    return found
