"""What notebooks 09 and 10 say of the stored rows: numbers beside figures, sentences, checks (App. G)."""

import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from matplotlib.figure import Figure

from lcs_utils.plotting import image_grid
from lcs_utils.text_to_image import structure, success, truth
from lcs_utils.text_to_image.adapter import ABLATIONS, PromptDenoiser
from lcs_utils.text_to_image.captions import Scene, caption, held_out
from lcs_utils.text_to_image.figures import BASELINES, PARTS, Parted, one, part_maps
from lcs_utils.text_to_image.prompts import FOLDER, SMALL, Attended, Prompt, Study, least_mean_cosine
from lcs_utils.text_to_image.scoring import SIGMAS
from lcs_utils.text_to_image.truth import Row

NETS = {"t1": "told all objects (T1)", "t2": "told one object (T2)", "untrained": "untrained"}
CONTROLS = {"other object": "T1, the other object's mask", "shuffled": "T1, shuffled maps"}
KINDS = tuple(success.KINDS)
WHATS = ("objects right", "colors right", "shapes right", "number right", "style right")
ADDED = {  # what two are, and where their sum is looked for
    f"{kind}{space}": f"{kind}, {'the mid block' if space else 'the denoiser'}"
    for kind in structure.KINDS
    for space in structure.SPACES
}
SIDES = {f"eq. (9), {where}": where for where in ("objects", "background")}
ABLATED = {f"eq. (10), {name}": name for name in ABLATIONS}
ATTENDED = {
    f"attention {part}, {kind}": f"{part}, {kind}"
    for part in ("down", "mid", "up", "all")
    for kind in ("raw", "minus empty")
}
STEPS, AT = 25, (1, 8, 13, 19)
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

ALT = {  # what a figure shows, for those who hear it
    "text_to_image_samples": (
        "Two pictures for each of eight captions: objects on gray floors, dark blue ones at night, pale "
        "ones in fog, white ones with black outlines as drawings. The styles are those told, colors "
        "nearly always, shapes mostly; sometimes one object is drawn twice, and two grow together."
    ),
    "text_to_image_success": (
        "Shares of pictures that show what was told, for one object, two, held-out pairs and held-out "
        "styles, at two guidances: T1, T2 and an untrained net, each beside the same pictures judged by "
        "another caption. Of T1 styles are always right, one object mostly, two objects seldom; of T2 one "
        "object less often, two never."
    ),
    "fig06": (
        "For each prompt the picture that was drawn, and four maps, from high to low noise, that color "
        "each place by the word heard there at least twice as much as the next one: where two objects are "
        "told, some places at an object, for the color of one object most of the picture, floor included, "
        "for night all of it at the highest noise."
    ),
    "word_to_mask": (
        "How well the influence of a word finds its own object's mask, for four ways to take the word "
        "away at three noise levels: trained nets stand far right of one half, and so does the mask of "
        "the other object; shuffled maps stand at one half."
    ),
    "own_part": (
        "Of what a word does inside two objects, the share inside its own, by noise level, for four ways "
        "to take it away: T1 above T2, both above the dashed line of one half where embedding or "
        "attention is taken; an untrained net and the pooled embedding on it."
    ),
    "text_to_image_jacobian": (
        "The side of the square that holds nine tenths of what a place depends on, by noise level, inside "
        "objects and in the background, for T1, T2 and an untrained net."
    ),
    "fig07": (
        "Maps of attention to one word, a row for each prompt, at three noise levels: on the left minus "
        "the paper's baseline, where styles are orange throughout, on the right minus the mean over "
        "prompts; words of objects are purple around places, those of styles are not."
    ),
    "fig13": (
        "Matrices of cosines between prompts for the down, mid and up blocks at three noise levels: "
        "purple blocks within shapes, colors and styles, paler purple and orange between them, more orange "
        "without the paper's baseline."
    ),
    "composite_prompts": (
        "Cosines of composite prompts at a word with the single prompt of that word and with the others, in "
        "the down, mid and up blocks under two baselines: high with its own, about as the single prompt's "
        "with itself from other noise, near zero with the others. In the mid block an untrained net is "
        "mostly high with its own too, and with the others under the paper's baseline."
    ),
    "attention_to_mask": (
        "How well attention to a word finds its own object's mask, by part of the net and noise level: "
        "raw attention of the down and up blocks does, and stands far from the other object's mask; in "
        "the mid block it does not; T2 stands between T1 and one half, shuffled maps at one half."
    ),
    "prompt_additivity": (
        "Additivity by noise level, for two objects and for an object and a style, of the denoiser and of "
        "the mid block, each net beside itself with permuted labels, which lies below minus one half: T1 is "
        "near one for styles, above an untrained net, and for two objects far below its permuted self in the "
        "denoiser; T2 about zero for two objects and below it for styles, above its permuted self throughout."
    ),
    "prompt_own_share": (
        "The share of a removal along its own direction by noise level, for two objects and for an object "
        "and a style, of the denoiser and of the mid block, beside a dashed line at one half: T1 far above "
        "it for styles and below it for two objects, T2 about it, an untrained net above it."
    ),
}


def files(model: str) -> list[Path]:
    """The weights that figures of a model rest on; none where they are not ours."""
    return sorted(FOLDER.rglob("*.safetensors")) if model == "standin" else []


def stored() -> list[Path]:
    """The rows that figures rest on."""
    return [truth.PATH]


def plot_samples(
    denoiser: PromptDenoiser, study: Study, seed: int, each: int = 2
) -> tuple[Figure, dict[str, Any]]:
    """Pictures of SAMPLES, or of another model's scenes, two each; held-out ones say so."""
    ours = SAMPLES if study is SMALL else ()
    asked = [caption(scene) for scene in ours] or study.scenes
    held = {caption(scene) for scene in ours if held_out(scene)}
    told = [text for text in asked for _ in range(each)]
    settings = {"height": study.side, "width": study.side, "num_inference_steps": STEPS, "output_type": "pt"}
    generator = torch.Generator().manual_seed(seed)
    drawn = denoiser.pipeline(told, guidance_scale=study.guidance, generator=generator, **settings).images
    grid = [[2 * drawn[i * each + j].float().cpu() - 1 for i in range(len(asked))] for j in range(each)]
    labels = [textwrap.fill(text + " (held out)" * (text in held), 14) for text in asked]
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


def auc_numbers(rows: Sequence[Row], cases: dict[str, str]) -> dict[str, Any]:
    """Every AUC of these cases and its controls."""
    return {
        f"{r.net}, {r.case}, sigma {r.sigma:g}{', ' * bool(r.control)}{r.control}": said_row(r)
        for r in rows
        if r.measure == "AUC" and r.case in cases
    }


def auc_words(rows: Sequence[Row], cases: dict[str, str], sigma: float = 2.0) -> str:
    """A table of AUCs at one noise level: T1, the other object, another caption, untrained."""
    columns = [("t1", control) for control in ("", "other object", "shuffled", "wrong caption")]
    columns.append(("untrained", ""))
    lines = [f"AUC at σ = {sigma:g}, interval over scenes.", ""]
    lines += ["| map | T1 | other object's mask | shuffled | another caption | untrained |", "|---" * 6 + "|"]
    for case, label in cases.items():
        found = [one(rows, net, "AUC", case, control, sigma=sigma) for net, control in columns]
        lines.append(f"| {label} | " + " | ".join(_told(row) if row else "–" for row in found) + " |")
    return "\n".join(lines)


def check_controls(rows: Sequence[Row], cases: dict[str, str]) -> None:
    """Assert that shuffled maps know nothing: one half lies near their interval (of many, a few miss it)."""
    found = [r for r in rows if r.measure == "AUC" and r.case in cases and r.control == "shuffled"]
    assert found, "no controls are stored"
    assert all(r.low - 0.05 < 0.5 < r.high + 0.05 for r in found), found


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
    """The mean cosine of two of `prompts` prompts, signed and absolute, and, in brackets, of one and itself
    from other noise, by baseline, part and noise level, as a table; below, what is so by construction."""
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
        f"By construction: {prompts} vectors without their own mean, of then equal length, have a mean "
        f"cosine of -1/{prompts - 1} = {least:.2f}, whatever they are, and a mean absolute one of at least "
        f"{-least:.2f}; no vectors have a lower mean. Orthogonal ones have 0 and 0.",
    ]
    return "\n".join(lines)


def numbers(rows: Sequence[Row], *measures: str) -> dict[str, Any]:
    """All rows of these measures, with their controls."""
    return {
        f"{r.net}, {r.measure}, {r.case}, sigma {r.sigma:g}{', ' * bool(r.control)}{r.control}": said_row(r)
        for r in rows
        if r.measure in measures
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
                cells.append(_told(own) + (f" ({null.value:.2f})" if null else ""))
            lines.append(f"| {label} | {title} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def composite_words(said: Parted, rows: Sequence[Row], sigma: float = 2.0) -> str:
    """The cosines of `prompts.composites` by part and baseline, mean and range over prompts, as a table; with
    stored rows, below, where T1's attention tells a word's own object from the other."""
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
    """Where T1's raw attention to a word finds its own object better than the other one: where the AUC's
    interval of the own mask lies above that of the other's."""
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
    """What `prompts.composites` finds in an untrained net, from rows."""
    found: dict = {}
    for row in rows:
        if row.net == "untrained" and row.measure == "composite cosine":
            baseline, label = row.case.split(": ")
            found.setdefault(baseline, {}).setdefault(label, {})[row.control or "own"] = row.value
    return found
