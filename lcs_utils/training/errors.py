"""The denoising error of trained nets on held-out renders, by noise level: a recipe judged without sampling.

python -m lcs_utils.training errors exp1 exp2 --preset small
"""

import argparse
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import torch
from jaxtyping import Float
from torch import Tensor
from tqdm.auto import tqdm

from lcs_utils import checkpoints, nets
from lcs_utils.clevr import conditions
from lcs_utils.clevr.annotations import labels
from lcs_utils.clevr.render import render
from lcs_utils.clevr.scenes import sample_scene
from lcs_utils.diffusion import Denoiser, from_uint8
from lcs_utils.evaluation.family_grids import HELD_OUT
from lcs_utils.experiments import Experiment
from lcs_utils.presets import of_row, parse_preset

SIGMAS = (0.05, 0.1, 0.2, 0.4, 0.8, 2.0, 8.0)
SCENES, BATCH = 256, 16


def held_out(
    exp: Experiment, resolution: int, scenes: int = SCENES
) -> tuple[Float[Tensor, "scenes 3 side side"], Tensor]:
    """Held-out renders in [-1, 1] like the net's training scenes, and their conditions from one draw of
    labels.

    Scenes of every number of objects of the experiment, in turn (App. E.1).
    """
    low, high = exp.objects
    drawn = [sample_scene(HELD_OUT, i, low + i % (high - low + 1)) for i in range(scenes)]
    shown = from_uint8(render(drawn, resolution)).permute(0, 3, 1, 2).contiguous()
    locations, colors, _ = (torch.from_numpy(column) for column in labels(drawn, max(high, 1)).values())
    labeled = conditions.choose_labels(colors >= 0, exp.labels, torch.Generator().manual_seed(HELD_OUT))
    if exp.crop is not None:
        return shown, shown.new_zeros(scenes, 1)
    told = (
        conditions.color_counts(colors.long(), labeled)
        if exp.condition == "color"
        else conditions.location_grid(locations, labeled)
    )
    return shown, told


@torch.no_grad()
def denoising_error(
    denoise: Denoiser, x0: Tensor, cond: Tensor, sigmas: Sequence[float] = SIGMAS
) -> Iterator[float]:
    """Yield, per noise level, the root mean square of D(x0 + sigma eps) - x0 over images and pixels in [-1,
    1].

    The noise is one draw per image, the same at every level and for every net.
    """
    eps = torch.randn(x0.shape, generator=torch.Generator().manual_seed(HELD_OUT))
    for sigma in sigmas:
        squares = 0.0
        for x, e, c in zip(x0.split(BATCH), eps.split(BATCH), cond.split(BATCH), strict=True):
            x0_hat = denoise(x + sigma * e, torch.full((len(x),), sigma), c)
            squares += float((x0_hat - x).double().square().sum())
        yield (squares / x0.numel()) ** 0.5


def shrunk(x_t: Tensor, sigma: Tensor, cond: Tensor, sigma_data: float) -> Tensor:
    """c_skip x_t, the output of a net that adds nothing (EDM, eq. 7): the baseline for every error."""
    return x_t * (sigma_data**2 / (sigma_data**2 + sigma**2))[:, None, None, None]


def line(name: str, numbers: Sequence[str], errors: Mapping[float, float]) -> str:
    """A Markdown row of the table of errors by noise level, with a dash where there is none."""
    told = (f"{errors[sigma]:.4f}" if sigma in errors else "–" for sigma in SIGMAS)
    return "| " + " | ".join([name, *numbers, *told]) + " |"


def main(arguments=None) -> None:
    parser = argparse.ArgumentParser(
        prog="python -m lcs_utils.training errors", description=__doc__.splitlines()[0]
    )
    parser.add_argument("nets", nargs="+", help="checkpoints")
    parser.add_argument("--preset", default="tiny", type=parse_preset)
    parser.add_argument("--scenes", type=int, default=SCENES)
    args = parser.parse_args(arguments)
    try:
        if args.scenes < 1:
            raise ValueError(f"--scenes must be at least 1, got {args.scenes}")
        measured = [
            (name, nets.verified_row(name, args.preset), checkpoints.load(name, args.preset))
            for name in args.nets
        ]
        for name, row, _ in measured:
            if "data" in row:
                raise ValueError(
                    f"{name} was trained on data of your own, of which there are no held-out renders"
                )
        trained = [of_row(row) for _, row, _ in measured]
    except (ValueError, nets.CheckpointError) as error:
        parser.error(str(error))
    print(
        "| "
        + " | ".join([f"net, {args.preset}", "images", "images/s", *(f"sigma {s:g}" for s in SIGMAS)])
        + " |"
    )
    print("|" + "---|" * (3 + len(SIGMAS)))
    for (name, row, pipeline), (exp, _) in zip(measured, trained, strict=True):
        x0, cond = held_out(exp, pipeline.config.resolution, args.scenes)
        low, high = exp.sigmas or (0, float("inf"))
        sigmas = [sigma for sigma in SIGMAS if low <= sigma <= high]  # only levels the net was trained on
        bar = tqdm(
            denoising_error(replace(pipeline.denoiser, side=x0.shape[-1]), x0, cond, sigmas),  # or of a crop
            total=len(sigmas),
            desc=name,
            unit="level",
            leave=False,
        )
        speed = f"{row['images'] / row['seconds']:.0f}" if row["seconds"] else "?"
        found = dict(zip(sigmas, bar, strict=True))
        print(line(name, [f"{row['images']:,}", speed], found), flush=True)

        def null(x_t, sigma, c, wide=pipeline.config.sigma_data):
            return shrunk(x_t, sigma, c, wide)

        beside = dict(zip(sigmas, denoising_error(null, x0, cond, sigmas), strict=True))
        print(line(f"{name}'s c_skip x alone", ["", ""], beside), flush=True)


if __name__ == "__main__":
    main()
