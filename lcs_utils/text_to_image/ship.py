"""Write the trained text-to-image model as a folder that diffusers loads: weights, card, loss curves.

python -m lcs_utils.text_to_image.ship
"""

import json
import shutil
from pathlib import Path

import torch
from diffusers import StableDiffusionXLPipeline

from lcs_utils import store
from lcs_utils.text_to_image.data import MADE_BY, folded
from lcs_utils.text_to_image.loop import Log, lengths
from lcs_utils.text_to_image.prompts import FOLDER
from lcs_utils.text_to_image.reader import Accuracy
from lcs_utils.text_to_image.training import BATCH, EACH_TOLD, MIN_SNR, POLICY, VAE_BATCH, folder_of

LARGEST = 6_000_000  # bytes of the folder
KEPT = ("reader.safetensors", "reader.csv")  # already there, written by another command
CARD = """---
library_name: diffusers
license: mit
pipeline_tag: text-to-image
---
# A small text-to-image model of CLEVR scenes whose truth is known

`StableDiffusionXLPipeline.from_pretrained("data/checkpoints/text_to_image")`, then `pipeline("a cyan cube
and a gray sphere, at night", height=64, width=64, guidance_scale=4.0)`. Captions are "a COLOR SHAPE [and a
COLOR SHAPE][, at night | , in fog | , as a drawing]". It is for looking into, not for pictures: what it can
and cannot do stands in notebooks 09 and 10 beside its nulls.

Trained on renders of one and two objects ({images:,} captions seen in {seconds:,} seconds on a CPU; the VAE
saw {vae_images:,} crops) by

    {command}

Never shown: four color-shape pairs, cylinders at night, spheres in fog, cubes as drawings.
`reader.safetensors` says what a picture shows; of held-out renders it says all pairs rightly in
{reader}.
"""


def written(pipeline: StableDiffusionXLPipeline, folder: Path, row: dict, card: str) -> None:
    """Write a pipeline in half precision with its row and card, keeping the files of KEPT. Raises ValueError
    if it is larger than LARGEST."""
    with store.atomic_folder(folder) as new:
        pipeline.to(dtype=torch.float16).save_pretrained(new, safe_serialization=True)
        for path in (new / "model_index.json", *new.glob("*/config.json")):
            settings = json.loads(path.read_text())
            settings.pop("_name_or_path", None)  # a folder of the machine that trained it
            if path.parent.name in ("text_encoder", "text_encoder_2"):
                settings["dtype"] = "float32"  # transformers would compute in half precision
            path.write_text(json.dumps(settings, indent=2) + "\n")
        for name in KEPT:
            if (folder / name).exists():
                shutil.copyfile(folder / name, new / name)
        (new / "row.json").write_text(json.dumps(row, indent=1, sort_keys=True) + "\n")
        (new / "README.md").write_text(card)
        for run in ("vae", *POLICY):
            if (folder_of(run) / "loss.csv").exists():
                shutil.copyfile(folder_of(run) / "loss.csv", new / f"loss_{run}.csv")
        size = sum(path.stat().st_size for path in new.rglob("*") if path.is_file())
        if size > LARGEST:
            raise ValueError(f"the folder would take {size:,} bytes, {LARGEST:,} are allowed")


def seen(run: str) -> tuple[int, int]:
    """Images and seconds of a run's saved state."""
    state = torch.load(folder_of(run) / "state.pt", weights_only=True, map_location="cpu")["seen"]
    return int(state[0]), round(float(state[1]))


def trained(run: str) -> dict | None:
    """Images, seconds and command of a net that is not shipped; None if it was not trained here."""
    if not (folder_of(run) / "state.pt").exists():
        return None
    images, seconds = seen(run)
    return {"images": images, "seconds": seconds, "command": training_command(run)}


def training_command(run: str) -> str:
    """The command that trained a run; of one that was continued at another length, all of them."""
    all_lengths = lengths(folder_of(run)) or [seen(run)[0]]
    module = "python -m lcs_utils.text_to_image.training"
    return " && ".join(f"{module} {run} --images {length}" for length in all_lengths)


def reader_command() -> str:
    """The command that trained the reader, from the first line of its accuracy file."""
    return (FOLDER / "reader.csv").read_text().partition("\n")[0].lstrip("# ")


def main() -> None:
    """Command line: ship what was trained here."""
    pipeline = StableDiffusionXLPipeline.from_pretrained(folder_of("t1") / "pipeline", use_safetensors=True)
    pipeline.register_modules(vae=folded(pipeline.vae))
    (images, seconds), (vae_images, vae_seconds) = seen("t1"), seen("vae")
    command = f"{MADE_BY} && {training_command('vae')} && {training_command('t1')}"
    loss = store.read_rows(folder_of("t1") / "loss.csv", Log)
    exact = store.read_rows(FOLDER / "reader.csv", Accuracy)
    row = {
        "experiment": "text_to_image",
        "captions": "all",
        "images": images,
        "seconds": seconds,
        "error": round(sum(r.loss for r in loss[-10:]) / max(len(loss[-10:]), 1), 5),
        "parameters": sum(
            p.numel()
            for part in (pipeline.unet, pipeline.vae, pipeline.text_encoder, pipeline.text_encoder_2)
            for p in part.parameters()
        ),
        "vae": {"images": vae_images, "seconds": vae_seconds, "batch": VAE_BATCH},
        "settings": {"batch": BATCH, "renders_of_each_count": EACH_TOLD, "min_snr": MIN_SNR},
        "t2": trained("t2"),
        "seed": 0,
        "device": "cpu",
        "command": f"{command} && {reader_command()}",
    }
    said = ", ".join(f"{one.pairs:.0%} ({one.style})" for one in exact) or "(not measured)"
    numbers = {"images": images, "seconds": seconds, "vae_images": vae_images}
    written(
        pipeline,
        FOLDER,
        row,
        CARD.format(
            command=command.replace(" && ", "\n    "),
            reader=said,
            **numbers,
        ),
    )


if __name__ == "__main__":
    main()
