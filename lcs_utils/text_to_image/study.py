"""Measure the shipped text-to-image model and an untrained one against known renders and captions.

python -m lcs_utils.text_to_image.study            # all rows of data/counts/text_to_image.csv
"""

import argparse
from collections.abc import Iterator, Sequence

import torch
from tqdm.auto import tqdm

from lcs_utils import paths
from lcs_utils.checks import check_choice, check_count
from lcs_utils.text_to_image import kinds, prompts, reader, scoring, standin, structure, success, truth
from lcs_utils.text_to_image.adapter import PromptDenoiser
from lcs_utils.text_to_image.captions import HELD_STYLES
from lcs_utils.text_to_image.data import RESOLUTION
from lcs_utils.text_to_image.loading import load_sdxl
from lcs_utils.text_to_image.prompt_cosines import composites
from lcs_utils.text_to_image.prompts import FOLDER
from lcs_utils.text_to_image.training import SIZE, folder_of

UNTRAINED = "untrained"
JACOBIANS = 4  # scenes; each takes 2,048 Jacobian products


def pipelines() -> dict:
    """{net: pipeline} of all nets to measure: t1 (shipped), t2 if it was trained here, and an untrained net
    with t1's VAE."""
    found = {"t1": load_sdxl(str(FOLDER), None)}
    if (folder_of("t2") / "pipeline").exists():
        found["t2"] = load_sdxl(str(folder_of("t2") / "pipeline"), None)
    bare = standin.untrained(SIZE)
    bare.register_modules(vae=found["t1"].vae)
    return found | {UNTRAINED: bare}


def rows_of(net: str, pipeline, number: int, pictures: int) -> list[truth.Row]:
    """All rows of one net."""
    denoiser = PromptDenoiser(pipeline, RESOLUTION, RESOLUTION)
    plain = scoring.cases(pipeline.vae, number)
    styles = [case for style in HELD_STYLES for case in scoring.cases(pipeline.vae, number // 3, style)]
    return [
        *scoring.locality_rows(net, denoiser, plain),
        *scoring.attention_rows(net, denoiser, plain),
        *structure.jacobian_rows(net, denoiser, plain[:JACOBIANS], of_noise=net == UNTRAINED),
        *structure.additivity_rows(net, denoiser, plain, "two objects"),
        *structure.additivity_rows(net, denoiser, styles, "object and style"),
        *structure.own_share_rows(net, denoiser, plain, "two objects"),
        *structure.own_share_rows(net, denoiser, styles, "object and style"),
        *composite_rows(net, denoiser),
        *kinds.block_rows(net, denoiser, prompts.SMALL),
        *success.success_rows(net, pipeline, reader.load(), pictures),
    ]


def composite_rows(net: str, denoiser: PromptDenoiser, samples: int = 10) -> Iterator[truth.Row]:
    """`prompt_cosines.composites` in the mid block as rows, without an interval (App. G)."""
    both = prompts.attended(denoiser, prompts.asked(prompts.SMALL), prompts.SMALL, samples=samples)
    for baseline, of in composites(both, prompts.SMALL, "mid").items():
        for label, values in of.items():
            for control, value in (("", values["own"]), ("other", values["other"])):
                case = f"{baseline}: {label}"
                yield truth.Row(
                    net, "composite cosine", case, control, 0.0, 0.0, samples, value, value, value
                )


def main(arguments: Sequence[str] | None = None) -> None:
    """Command line: measure every net, store the rows."""
    parser = argparse.ArgumentParser(
        prog="python -m lcs_utils.text_to_image.study",
        description="Measure the small text-to-image model against the truth.",
    )
    parser.add_argument("--scenes", type=int, default=40)
    parser.add_argument("--pictures", type=int, default=100)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--nets", nargs="+", help="only these: t1, t2, untrained")
    asked = parser.parse_args(arguments)
    try:
        for name in ("scenes", "pictures", "threads"):
            check_count(name, getattr(asked, name), 1)
        nets = pipelines()
        for net in asked.nets or ():
            check_choice("net", net, nets)
    except (ValueError, OSError) as error:
        parser.error(str(error))
    torch.set_num_threads(asked.threads)
    truth.write(list(success.ceiling_rows(nets["t1"], reader.load(), asked.pictures)))
    for net in tqdm(asked.nets or list(nets), desc="nets"):
        truth.write(rows_of(net, nets[net], asked.scenes, asked.pictures))
    print(f"{len(truth.read())} rows in {paths.shown(truth.PATH)}")


if __name__ == "__main__":
    main()
