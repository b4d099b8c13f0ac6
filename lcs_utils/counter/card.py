"""Write the object counter's checkpoint: the net, its row with all measurements, and its model card."""

from pathlib import Path

import torch

from lcs_utils import paths, store
from lcs_utils.checkpoints import halve
from lcs_utils.counter.accuracy import KINDS, assess
from lcs_utils.counter.net import WEIGHTS, ObjectCounter
from lcs_utils.counter.net import folder as folder_of
from lcs_utils.counter.scenes import VISIBLE_SHARE


def percent(x: float) -> str:
    """A share in percent with one decimal."""
    return f"{100 * x:.1f}%"


def melted(of: dict) -> str:
    """The card's sentence on interpenetrating objects, if they were measured."""
    if "melted" not in of:
        return ""
    found = of["melted"]
    return (
        " Objects of one color that stand in one another count as one: of "
        f"{found['images']:,} such scenes {percent(found['exact'])} are exact, with "
        f"{found['bias']:+.2f} objects where their parts would be {found['parts']:+.2f}, and "
        f"{percent(found['plausible'])} are called plausible."
    )


def model_card(row: dict, folder=None) -> str:
    """The short README.md of a counter's folder, by default the shipped one for its resolution."""
    side, parts = row["resolution"], []
    folder = Path(folder or folder_of(side))
    given = f"folder({side})" if folder == folder_of(side) else f'"{paths.shown(folder)}"'
    for px, of in reversed(row["sizes"].items()):
        columns = [of[kind]["by_count"]["exact"] for kind in KINDS]
        lines = "".join(
            f"| {c} | " + " | ".join(percent(column[i]) for column in columns) + " |\n"
            for i, c in enumerate(row["counts"])
        )
        shares = ", ".join(
            f"{s} {percent(v['plausible'])} ({v['bias']:+.2f})" for s, v in of["faults"]["confetti"].items()
        )
        own, strongest = of["clevr"], {name: list(v.items())[-1] for name, v in of["faults"].items()}
        passed = ", ".join(f"{name} {s} {percent(v['plausible'])}" for name, (s, v) in strongest.items())
        parts.append(
            f"## Images of {px} px\n\nExact counts on held-out fast renders, {own['per_count']} per count "
            "at CLEVR's own distances, "
            f"{of['crowded']['per_count']} crowded without CLEVR's margins, {of['layout']['per_count']} of "
            "the paper's test layouts:\n\n"
            f"| objects | CLEVR's distances | crowded | test layouts |\n|---|---|---|---|\n{lines}\n"
            f"At CLEVR's distances: 0 to 6 objects {percent(own['exact_0_to_6'])}, 7 to 12 "
            f"{percent(own['exact_7_to_12'])}; of all objects "
            f"{percent(own['located'])} are found within a cell, {percent(own['colored'])} also with the "
            "right color; plausible "
            f"{percent(own['plausible'])}; calibration error of the confidence "
            f"{own['calibration_error']:.3f}. On the 24 stored Cycles "
            f"pictures exact {percent(of['cycles_references']['exact'])}.\n\n"
            "Called plausible with confetti of standard deviation (and objects counted too many): "
            f"{shares}. Of the "
            f"strongest faults measured it still calls plausible: {passed}.{melted(of)}\n\n"
        )

    def asked(t):
        return f"at least {t['at_least']:g}" if "at_least" in t else f"at most {t['at_most']:g}"

    missed = [
        f"{t['px']} px, {t['what']}: {t['reached']:g}, not {asked(t)}" for t in row["targets"] if not t["met"]
    ]
    said = "All targets are met." if not missed else "Targets missed: " + "; ".join(missed) + "."
    return (
        f"# {folder.name}\n\nCounts and locates objects in CLEVR-like images of "
        f"{' or '.join(row['sizes'])} px, "
        "names their colors and says whether the image is plausible as CLEVR "
        f"({row['parameters'] / 1e6:.2f} M parameters). "
        "It learned from renders and spoiled renders alone, never from a net's picture. "
        f"{said}\n\n{''.join(parts)}"
        "An object counts when its center lies in the image and at least "
        f"{100 * row.get('visible_share', 0.0025):.2f}% of the image shows it. "
        "Every fault by strength, wrong "
        f"images, and each target: `row.json`.\n\nMade by `{row['command']}` ({row['images']:,} training "
        "images, "
        f"{row['seconds'] / 60:.0f} minutes).{' ' + row['note'] if 'note' in row else ''}\n\n"
        "```python\nfrom lcs_utils.counter.net import ObjectCounter, folder\n\n"
        f"counter = ObjectCounter.from_pretrained({given})\n"
        "counts = counter(images)  # float [batch, 3, side, side] in [-1, 1]\n```\n\n"
        "Its count of an implausible image is meant for those with speckle, confetti, rings or moderate "
        "fading; of others it means "
        "nothing. MIT.\n"
    )


def export(net: ObjectCounter, folder, row: dict, per_count: int) -> dict:
    """Measure the half-precision net and write its folder atomically."""
    halve(net)
    net.float().eval()
    row = (
        row
        | {
            "parameters": sum(p.numel() for p in net.parameters()),
            "resolution": net.config.resolution,
            "visible_share": VISIBLE_SHARE,
            "torch": torch.__version__.split("+")[0],
        }
        | assess(net, per_count)
    )
    halve(net)
    with store.atomic_folder(folder) as temporary:
        net.save_pretrained(temporary)
        row["sha256"] = store.sha256(temporary / WEIGHTS)
        store.write_json(temporary / "row.json", row)
        store.write_text(temporary / "README.md", model_card(row, folder))
    return row
