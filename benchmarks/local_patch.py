"""Exp. 3's batched inference compared with a loop over cells: the ratio is the point (target 10x or more).

python benchmarks/local_patch.py [--preset small]
"""

import argparse
import time

import torch

from lcs_utils.experiments import EXP3
from lcs_utils.models.local_patch import LocalPatchDenoiser
from lcs_utils.models.unet import EDM2UNet
from lcs_utils.presets import PRESETS, preset
from lcs_utils.training.data import condition_dim


def main(arguments=None):
    parser = argparse.ArgumentParser()
    parser.add_argument("--preset", default="tiny", choices=tuple(PRESETS))
    parser.add_argument("--images", type=int, default=2)
    parser.add_argument(
        "--loop", type=int, default=1, help="cells per pass of the loop; more only for a quick run"
    )
    args = parser.parse_args(arguments)
    torch.set_num_threads(1)
    torch.manual_seed(0)
    size, n = preset(args.preset), args.images
    net = EDM2UNet(cond_dim=condition_dim(EXP3, EXP3.radius), **size.patch_net).eval()
    x_t, sigma, cond = torch.randn(n, 3, size.resolution, size.resolution), torch.ones(n), torch.zeros(n, 256)
    seconds = {}
    with torch.no_grad():
        for name, chunk in (("batched", 2048), ("one cell at a time", args.loop)):
            denoise = LocalPatchDenoiser(net, EXP3.radius, chunk=chunk, sigma_data=size.sigma_data)
            denoise(x_t[:1], sigma[:1], cond[:1])
            start = time.process_time()
            denoise(x_t, sigma, cond)
            seconds[name] = (time.process_time() - start) / n
            print(f"{name}: {1000 * seconds[name]:.0f} ms of processor time per image and noise level")
    print(f"ratio: {seconds['one cell at a time'] / seconds['batched']:.1f}")


if __name__ == "__main__":
    main()
