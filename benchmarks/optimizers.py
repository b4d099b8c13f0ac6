"""What a net has learned from equally many images: EDM2's Adam in two batch sizes, and Muon.

    python benchmarks/optimizers.py low_noise [--preset medium] [--images 6400] [--threads 1]

Root mean square error on held-out renders by noise level, after a whole schedule of so few images, and the
CPU seconds that they took; each recipe's share of the first's error beside it. Renders the preset's scenes
first.
"""

import argparse
import time
from dataclasses import replace

import torch
from accelerate import Accelerator

from lcs_utils.experiments import EXPERIMENTS
from lcs_utils.models.precond import precondition
from lcs_utils.presets import preset
from lcs_utils.training.errors import SIGMAS, denoising_error, held_out, line
from lcs_utils.training.loop import training_loop
from lcs_utils.training.rendered import load_data
from lcs_utils.training.state import start

RECIPES = {
    "Adam, batches of 64": dict(optimizer="adam", batch=64, learning_rate=0.008),
    "Adam, batches of 16": dict(optimizer="adam", batch=16, learning_rate=0.004),
    "Muon, batches of 16": dict(optimizer="muon", batch=16, learning_rate=0.012),
}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("net", nargs="?", default="low_noise", choices=tuple(EXPERIMENTS))
    parser.add_argument("--preset", default="medium", help="or a trial of one, such as medium_640")
    parser.add_argument("--images", type=int, default=6400)
    parser.add_argument("--scenes", type=int, default=64, help="held-out renders")
    parser.add_argument("--threads", type=int, default=1)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    exp = EXPERIMENTS[args.net]
    size = replace(preset(args.preset), images=args.images, patch_images=args.images)
    accelerator = Accelerator(cpu=True)
    data = load_data(exp, size, accelerator.device, args.threads)
    low, high = exp.sigmas or (0, float("inf"))
    sigmas = [sigma for sigma in SIGMAS if low <= sigma <= high]
    x0, cond = held_out(exp, size.resolution, args.scenes)
    first = None
    print("| recipe | CPU seconds | " + " | ".join(f"sigma {sigma:g}" for sigma in SIGMAS) + " |")
    print("|" + "---|" * (2 + len(SIGMAS)))
    for name, recipe in RECIPES.items():
        by = replace(size, **recipe)
        state, begun = start(exp, by, 0, accelerator.device), time.process_time()
        for _ in training_loop(state, data, exp, by, accelerator):
            pass
        seconds = time.process_time() - begun

        def denoise(x_t, sigma, c, net=state.ema):
            return precondition(net, x_t, sigma, c, size.sigma_data)

        errors = dict(zip(sigmas, denoising_error(denoise, x0, cond, sigmas), strict=True))
        first = first or errors
        print(line(name, [f"{seconds:.0f}"], errors), flush=True)
        print(line("… of the first's", [""], {s: e / first[s] for s, e in errors.items()}), flush=True)


if __name__ == "__main__":
    main()
