"""Nets trained on ONE object, always at the image's center or anywhere: the offline half of Fig. 12.

    python -m lcs_utils.centered centered scattered --threads 1
    python -m lcs_utils.centered sides    # how far both look, and where: data/counts/tiny/middle*.csv.bz2

CIFAR-10 shows one centered subject, and its denoisers delocalize at high noise; CLEVR shows several objects
and its denoisers do not. The paper guesses why: one subject in the middle, not several nearly independent
objects. The two nets here differ only in where their one object stands, so they test only the middle.
"""

import argparse
from dataclasses import replace

import numpy as np
import torch

from lcs_utils import checkpoints, figures, paths
from lcs_utils.clevr import dataset
from lcs_utils.clevr.render import render
from lcs_utils.clevr.scenes import scene_at
from lcs_utils.diffusion import from_uint8
from lcs_utils.evaluation.studies import middle
from lcs_utils.experiments import Experiment
from lcs_utils.presets import Preset, preset
from lcs_utils.training.loop import Data
from lcs_utils.training.run import run

SPREAD = {"centered": 0.04, "scattered": 0.3}  # the center is uniform within 0.5 +- this, in image widths
IMAGES, SCENES = 72_000, 8_192
NET = dict(
    channels=32, channel_mult=[1, 2], num_blocks=1, attention_levels=[1], unshuffle=2, dtype_inside="bfloat16"
)


def size() -> Preset:
    """The preset `tiny` with a quarter of the parameters."""
    return replace(preset("tiny"), net=NET, images=IMAGES)


def scenes(name: str, count: int = SCENES, seed: int = 0) -> list:
    """`count` scenes of one object whose center is uniform within 0.5 +- SPREAD[name]. Raises ValueError for
    another name.
    """
    if name not in SPREAD:
        raise ValueError(f"unknown set {name!r}; allowed: {', '.join(SPREAD)}")
    shifts = np.random.default_rng([seed, 1]).uniform(-1, 1, (count, 1, 2))
    return [scene_at(0.5 + SPREAD[name] * shift, seed, i) for i, shift in enumerate(shifts)]


def data(name: str, count: int = SCENES, seed: int = 0, resolution: int = 32) -> Data:
    """The rendered scenes as training data."""
    chosen = scenes(name, count, seed)
    known = dataset.labels(chosen, 1)
    arrays = (render(chosen, resolution).transpose(0, 3, 1, 2), known["locations"], known["colors"])
    return Data(*(torch.from_numpy(np.ascontiguousarray(a)) for a in arrays))


def measure(seed: int = 0) -> None:
    """Store how far both nets look from the middle pixel of six images that neither saw (Fig. 12)."""
    images = list(from_uint8(data("centered", 6, seed + 1).images))
    nets = {name: checkpoints.load(name).denoiser for name in SPREAD}
    profiles = {name: figures.middle_profiles(net, images, middle.SIGMAS, seed) for name, net in nets.items()}
    found = {name: figures.middle_sides(of).numpy() for name, of in profiles.items()}
    middle.write(found, {name: of[0] for name, of in profiles.items()})


def main(arguments=None) -> None:
    parser = argparse.ArgumentParser(prog="python -m lcs_utils.centered", description=__doc__.splitlines()[0])
    parser.add_argument("nets", nargs="+", choices=(*SPREAD, "sides"), help="to train; sides: measure both")
    parser.add_argument(
        "--threads", type=int, default=1, help="CPU threads (bit-equal results need the same number)"
    )
    args = parser.parse_args(arguments)
    torch.set_num_threads(args.threads)
    for name in args.nets:
        if name == "sides":
            measure()
            continue
        command = f"python -m lcs_utils.centered {name} --threads {args.threads}"
        exp = Experiment(name, objects=(1, 1), labels="none")  # CIFAR-10's net is unconditional, too
        run(exp, size(), command=command, data=data(name), output=paths.RUNS / "tiny" / "checkpoints" / name)


if __name__ == "__main__":
    main()
