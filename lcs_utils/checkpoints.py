"""Trained nets on disk: diffusers folders of half-precision weights with a row, a loss curve and hashes.

data/checkpoints/<preset>/<name>/  model_index.json  net/  row.json  loss.csv  README.md
"""

import argparse
import bz2
import copy
import csv
import io
import json
import re
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from lcs_utils import paths, store
from lcs_utils.checks import check_kind
from lcs_utils.nets import WEIGHTS, CheckpointError, folder, verified_row
from lcs_utils.progress import quiet

if TYPE_CHECKING:
    from lcs_utils.models.pipeline import ConditionalPipeline


def write_loss(path, rows) -> None:
    """Write the loss curve (namedtuples images, loss, error, lr) as CSV, whole or not at all."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["images", "loss", "error", "lr"])
    writer.writerows([r[0], *(f"{v:.9g}" for v in r[1:])] for r in rows)
    store.write_text(path, text.getvalue())


def halve(net: torch.nn.Module) -> None:
    """Convert weights to float16 in place; gains and Fourier features, a few bytes, stay exact."""
    check_kind("net", net, torch.nn.Module, "a torch module")
    for parameter in net.parameters():
        if parameter.ndim > 1:
            parameter.data = parameter.data.half()


def save(pipeline: "ConditionalPipeline", folder, row: dict, loss_rows) -> None:
    """Write a checkpoint folder, whole or not at all; `row` says how it was made and gets the weights'
    SHA-256. The caller's net keeps its precision. Raises TypeError for another kind of pipeline or row.
    """
    from lcs_utils.models.pipeline import ConditionalPipeline  # takes seconds; rows and curves do not need it

    check_kind("pipeline", pipeline, ConditionalPipeline, "a ConditionalPipeline")
    check_kind("row", row, dict, "a dict")
    pipeline = copy.deepcopy(pipeline)
    halve(pipeline.net)
    with store.atomic_folder(folder) as temporary:
        pipeline.save_pretrained(temporary)
        write_loss(temporary / "loss.csv", loss_rows)
        row = row | {
            "parameters": sum(p.numel() for p in pipeline.net.parameters()),
            "resolution": pipeline.config.resolution,
            "torch": torch.__version__.split("+")[0],
            "sha256": store.sha256(temporary / WEIGHTS),
        }
        store.write_json(temporary / "row.json", row)
        store.write_text(temporary / "README.md", model_card(Path(folder).name, row))


def model_card(name: str, row: dict) -> str:
    """The short README.md of a checkpoint folder."""
    span = "-".join(str(n) for n in dict.fromkeys(row["objects"]))
    if row.get("crop"):
        local = f"a net of {row['crop']} px crops"
    elif row["radius"] is not None:
        local = f"a local patch net with r = {row['radius']} cell" + "s" * (row["radius"] != 1)
    else:
        local = "a whole-image net"
    scenes = f"CLEVR scenes of {span} object" + "s" * (span != "1")
    data = f"data of one's own ({row['data']})" if row.get("data") else scenes
    levels = ", noise from {:g} to {:g}".format(*row["sigmas"]) if row.get("sigmas") else ""
    error = "" if row["error"] is None else f"; weighted denoising error {row['error']:.4f}"
    use = (
        "Loaded where LCS_EXPERIMENTS names the file that defines it.\n"
        if row.get("data")
        else "Research use: it reproduces a claim about length generalization on synthetic scenes and knows "
        "nothing else. MIT.\n"
    )
    made = f"Made by `{row['command']}`.\n\n" if row["command"] else ""
    preset = row.get("preset", "tiny")
    loaded = f'"{name}"' if preset == "tiny" else f'"{name}", "{preset}"'
    return (
        f"# {name}\n\n{local[0].upper() + local[1:]} ({row['parameters'] / 1e6:.2f} M parameters, "
        f"{row['resolution']} px), "
        f"trained on {data}, labels: {row['labels']}.\n"
        f"{row['images']:,} training images{levels} in {row['seconds'] / 60:.0f} minutes{error}.\n\n"
        f"{made}"
        "```python\nfrom lcs_utils import checkpoints\n\n"
        f"pipeline = checkpoints.load({loaded})\n```\n\n{use}"
    )


def check_device(device: str) -> None:
    """Raise ValueError for what is no device or a GPU that this machine lacks; torch's own errors differ by
    how it was built.
    """
    device = str(device)
    if not re.fullmatch(r"cpu|cuda(:\d+)?", device):
        raise ValueError(f"unknown device {device!r}; allowed: cpu, cuda (the first GPU), cuda:1 ...")
    if device != "cpu" and not torch.cuda.is_available():
        raise ValueError(f"--device {device} needs a GPU that torch can use; without one, leave it out")
    if device != "cpu" and (gpus := torch.cuda.device_count()) <= int(device.partition(":")[2] or 0):
        raise ValueError(f"--device {device}: this machine has {gpus} GPU, counted from cuda:0")


def load(name: str, preset: str = "tiny", device: str = "cpu") -> "ConditionalPipeline":
    """The pipeline of checkpoint `name`, verified, in float32. Raises CheckpointError when it is missing or
    altered, ValueError as `check_device`.
    """
    from diffusers.utils import logging

    from lcs_utils.models.pipeline import ConditionalPipeline

    check_device(device)
    verified_row(name, preset)
    shown = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()  # one component loads at once: no bar needed
    try:
        pipeline = ConditionalPipeline.from_pretrained(folder(name, preset))
    finally:
        if shown:
            logging.enable_progress_bar()
    pipeline.net.float()
    pipeline.set_progress_bar_config(disable=quiet())
    return pipeline.to(device)


def kept(name: str, preset: str = "tiny") -> Path:
    """The folder of a checkpoint's row and loss curve, with or without its weights. Raises CheckpointError if
    there is none.
    """
    for place in (folder(name, preset), paths.CHECKPOINTS / preset / name):
        if (place / "row.json").exists() and (place / "loss.csv").exists():
            return place
    verified_row(name, preset)  # says what is missing
    raise CheckpointError(f"the loss curve of {name!r}, preset {preset!r}, is missing; restore it with git")


def loss_curve(name: str, preset: str = "tiny") -> dict[str, list[float]]:
    """The training log of checkpoint `name`: columns images, loss, error, lr. Raises as `kept`."""
    with open(kept(name, preset) / "loss.csv") as file:
        lines = list(csv.DictReader(file))
    return {key: [float(line[key]) for line in lines] for key in ("images", "loss", "error", "lr")}


def origin(path: Path) -> str:
    """The command that makes a file of data/: from its checkpoint's row, a CSV's first comment, or COMMAND
    beside it.
    """
    for parent in path.parents:
        if (parent / "row.json").exists():
            return json.loads((parent / "row.json").read_text())["command"]
    if path.suffixes in ([".csv"], [".csv", ".bz2"]):
        stored = path.read_bytes()
        text = (bz2.decompress(stored) if path.suffix == ".bz2" else stored).decode()
        first = text.partition("\n")[0]
        if first.startswith("#"):
            return first.lstrip("# ")
    made_by = path.parent / "COMMAND"
    return made_by.read_text().strip() if made_by.exists() else "?"


def record() -> None:
    """Copy row, loss curve and card of nets whose weights are too large to ship from runs/ to data/."""
    for preset in paths.SHIPPED:
        for path in sorted((paths.RUNS / preset / "checkpoints").glob("*/row.json")):
            if folder(path.parent.name, preset).is_relative_to(paths.RUNS):  # no shipped net of that name
                keep(path.parent.name, preset)


def keep(name: str, preset: str) -> None:
    """Copy row, loss curve and card of one net to data/, without its weights."""
    source, kept = paths.RUNS / preset / "checkpoints" / name, paths.CHECKPOINTS / preset / name
    for file in ("row.json", "loss.csv", "README.md"):
        text = (source / file).read_text()
        if file == "README.md":
            text += "\nIts weights are not in the repository; the command above makes them.\n"
        store.write_text(kept / file, text)


def data_index() -> str:
    """The text of data/README.md: every file under data/ with size, SHA-256 and the command that makes it."""
    lines = [
        "# Data",
        "",
        "Made by `python -m lcs_utils.checkpoints`. Nets are trained on a CPU unless their row says "
        "otherwise.",
        "",
        "| checkpoint | images | seconds | error | parameters |",
        "|---|---|---|---|---|",
    ]
    for path in sorted(paths.CHECKPOINTS.rglob("row.json")):
        r = json.loads(path.read_text())
        numbers = (r.get(key, "") for key in ("images", "seconds", "error", "parameters"))
        lines.append(
            f"| {path.parent.relative_to(paths.CHECKPOINTS)} | " + " | ".join(str(n) for n in numbers) + " |"
        )
    lines += ["", "| file | bytes | SHA-256 | command |", "|---|---|---|---|"]
    for path in sorted(
        p
        for p in paths.DATA.rglob("*")
        if p.is_file() and p.name != "COMMAND" and p != paths.DATA / "README.md"
    ):
        if not path.name.startswith("."):
            name = path.relative_to(paths.DATA).as_posix()
            lines.append(f"| {name} | {path.stat().st_size} | `{store.sha256(path)}` | `{origin(path)}` |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    argparse.ArgumentParser(
        prog="python -m lcs_utils.checkpoints",
        description="Copy rows, loss curves and cards of unshipped nets to data/, write data/README.md.",
    ).parse_args()
    record()
    store.write_text(paths.DATA / "README.md", data_index())
