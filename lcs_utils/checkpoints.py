"""Trained nets on disk: diffusers folders with half-precision weights, each with its row, loss curve and hashes.

    data/checkpoints/<name>/  model_index.json  net/  row.json  loss.csv  README.md
"""

import csv
import io
import json
from pathlib import Path

import torch

from lcs_utils import paths
from lcs_utils.models.pipeline import ConditionalPipeline

WEIGHTS = "net/diffusion_pytorch_model.safetensors"


class CheckpointError(RuntimeError):
    """A checkpoint is missing, truncated or altered; the message names the file and the command that restores it."""


def write_loss(path, rows) -> None:
    """Write the loss curve (namedtuples images, loss, error, lr) as CSV, whole or not at all."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["images", "loss", "error", "lr"])
    writer.writerows([r[0], *(f"{v:.9g}" for v in r[1:])] for r in rows)
    paths.write_text(path, text.getvalue())


def halve(net: torch.nn.Module) -> None:
    """Weights to float16 in place; gains and Fourier features, a few bytes, stay exact."""
    for parameter in net.parameters():
        if parameter.ndim > 1:
            parameter.data = parameter.data.half()


def save(pipeline: ConditionalPipeline, folder, row: dict, loss_rows) -> None:
    """Write a checkpoint folder, whole or not at all; `row` says how it came about and gets the weights' SHA-256."""
    halve(pipeline.net)
    with paths.atomic_folder(folder) as temporary:
        pipeline.save_pretrained(temporary)
        write_loss(temporary / "loss.csv", loss_rows)
        row = row | {
            "parameters": sum(p.numel() for p in pipeline.net.parameters()),
            "resolution": pipeline.config.resolution,
            "torch": torch.__version__.split("+")[0],
            "sha256": paths.sha256(temporary / WEIGHTS),
        }
        paths.write_json(temporary / "row.json", row)
        paths.write_text(temporary / "README.md", model_card(Path(folder).name, row))


def model_card(name: str, row: dict) -> str:
    """The short README.md of a checkpoint folder."""
    span = "-".join(str(n) for n in dict.fromkeys(row["objects"]))
    local = f"a local patch net with r = {row['radius']} cells" if row["radius"] is not None else "a whole-image net"
    return (
        f"# {name}\n\n{local[0].upper() + local[1:]} ({row['parameters'] / 1e6:.2f} M parameters, {row['resolution']} px), "
        f"trained on CLEVR scenes of {span} objects, labels: {row['labels']}.\n"
        f"{row['images']:,} training images in {row['seconds'] / 60:.0f} minutes; weighted denoising error {row['error']:.4f}.\n\n"
        f"Made by `{row['command']}`.\n\n"
        "```python\nfrom lcs_utils import checkpoints\n\n"
        f'pipeline = checkpoints.load("{name}")\n```\n\n'
        "Research use: it reproduces a claim about length generalization on synthetic scenes and knows nothing else. MIT.\n"
    )


def folder(name: str, preset: str = "small") -> Path:
    """Where checkpoint `name` lives: `small` nets are shipped, larger presets train into runs/; a path stands for itself."""
    if "/" in str(name):
        return Path(name)
    return (paths.CHECKPOINTS if preset == "small" else paths.RUNS / preset / "checkpoints") / name


COST = {  # estimates from parameters and flops; only `small` was run
    "small": "about an hour on one CPU core",
    "paper": "an estimated 90 hours of an H200-class GPU, resumable, several GPUs through `accelerate launch`",
}


def row(name: str, preset: str = "small") -> dict:
    """How checkpoint `name` came about. Raises CheckpointError when it is missing, truncated or altered."""
    path = folder(name, preset)
    train = f"train it with `python -m lcs_utils.training {path.name} --preset {preset}` ({COST[preset]})"
    restore = f"restore it with `git checkout -- data/checkpoints/{path.name}`, or {train}"
    if not (path / "row.json").exists():
        known = ", ".join(sorted(p.parent.name for p in path.parent.glob("*/row.json"))) or "none"
        raise CheckpointError(f"no checkpoint {path.name!r} of preset {preset!r} (there are: {known}); {train}")
    try:
        value = json.loads((path / "row.json").read_text())
        found = paths.sha256(path / WEIGHTS)
    except (ValueError, OSError) as error:
        raise CheckpointError(f"{path.name}: unreadable ({type(error).__name__}); {restore}") from error
    if found != value.get("sha256"):
        raise CheckpointError(f"{path.name}/{WEIGHTS} is truncated or altered (its SHA-256 differs from row.json); {restore}")
    return value


def load(name: str, preset: str = "small", device: str = "cpu") -> ConditionalPipeline:
    """The pipeline of checkpoint `name`, verified, in float32. Raises CheckpointError when it is missing or altered."""
    row(name, preset)
    pipeline = ConditionalPipeline.from_pretrained(folder(name, preset))
    pipeline.net.float()
    pipeline.set_progress_bar_config(disable=None)
    return pipeline.to(device)


def loss_curve(name: str, preset: str = "small") -> dict[str, list[float]]:
    """The training log of checkpoint `name`: columns images, loss, error, lr."""
    row(name, preset)
    with open(folder(name, preset) / "loss.csv") as file:
        lines = list(csv.DictReader(file))
    return {key: [float(line[key]) for line in lines] for key in ("images", "loss", "error", "lr")}
