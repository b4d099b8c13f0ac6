"""Training images/s of the shipped nets, as a share of this machine's convolution peak.

    python benchmarks/training.py [--preset small] [--seconds 4]

The peak is the fastest forward and backward of a plain 3x3 convolution in the same number format, on one
thread. The step is compared with itself when the C library returns freed memory to the system, its default,
and with a float32 step with channels first and one operation per equation, like a plain port of EDM2
(`models.plain`). On a GPU, the training loop is also timed with steps replayed as one CUDA graph, and with
the same ones launched kernel by kernel.
"""

import argparse
import time
import warnings
from dataclasses import replace

import torch
import torch.nn.functional as F
from accelerate import Accelerator
from timing import rate
from torch.utils.flop_counter import FlopCounterMode

from lcs_utils.clevr.conditions import GRID_SIZE
from lcs_utils.experiments import EXP1, EXP3
from lcs_utils.models.magnitude_preserving import renormalize_
from lcs_utils.models.plain import plain_
from lcs_utils.models.precision import dtype_on
from lcs_utils.models.unet import EDM2UNet
from lcs_utils.presets import PRESETS, preset
from lcs_utils.training import loop
from lcs_utils.training.data import Data, condition_dim
from lcs_utils.training.state import keep_memory, start


def convolution_peak(dtype, seconds):
    """FLOP/s of the best of a few convolutions, forward and backward."""
    best = 0.0
    for channels, side in ((64, 16), (128, 16), (128, 32), (256, 16)):
        x = (
            torch.randn(16, channels, side, side, dtype=dtype)
            .to(memory_format=torch.channels_last)
            .requires_grad_()
        )
        w = (
            torch.randn(channels, channels, 3, 3, dtype=dtype)
            .to(memory_format=torch.channels_last)
            .requires_grad_()
        )
        best = max(
            best,
            rate(
                lambda: F.conv2d(x, w, padding=1).sum().backward(),
                3 * 2 * 16 * side**2 * 9 * channels**2,
                seconds,
            ),
        )
    return best


def training_step(net, inputs):
    """One step of a net's training, without drawing the batch."""
    optimizer = torch.optim.Adam(net.parameters(), 1e-3, fused=True)

    def step():
        optimizer.zero_grad()
        net(*inputs).square().mean().backward()
        optimizer.step()
        renormalize_(net)

    return step


def looped(exp, size, seconds, graphed):
    """Images/s of the training loop on a GPU, including drawing batches of noise, but not compiling."""
    device = torch.device("cuda")
    generator = torch.Generator(device).manual_seed(0)
    shape = (4096, 3, size.resolution, size.resolution)
    images = torch.randint(0, 256, shape, generator=generator, device=device, dtype=torch.uint8)
    places = torch.rand(4096, 3, 2, generator=generator, device=device)
    data = Data(images, places, torch.zeros(4096, 3, dtype=torch.int8, device=device))
    fits, loop.fits_a_graph = loop.fits_a_graph, lambda *_: graphed
    size = replace(size, batch=min(size.batch, size.at_once // 2))  # a graph is of one piece
    try:
        run = loop.training_loop(start(exp, size, 0, device), data, exp, size, Accelerator())
        with warnings.catch_warnings():
            warnings.filterwarnings("error", "kernels are launched one by one")
            for _ in range(5):
                next(run)
        begun, steps = time.perf_counter(), 0
        while steps == 0 or time.perf_counter() - begun < seconds:
            next(run)  # its loss was read: the GPU is done
            steps += 1
        return steps * size.batch / (time.perf_counter() - begun)
    finally:
        loop.fits_a_graph = fits


def on_a_gpu(size, seconds):
    if not torch.cuda.is_available():
        print("no GPU at hand: its training loop is not measured")
        return
    for exp in (EXP1, EXP3):
        one_launch, kernels = (looped(exp, size, seconds, graphed) for graphed in (True, False))
        print(
            f"{exp.name} on {torch.cuda.get_device_name()}: {one_launch:.0f} images/s as one CUDA graph, "
            f"{kernels:.0f} kernel by kernel, ratio {one_launch / kernels:.1f}"
        )


def main(arguments=None):
    parser = argparse.ArgumentParser()
    parser.add_argument("--preset", default="small", choices=tuple(PRESETS))
    parser.add_argument("--seconds", type=float, default=4.0, help="processor time per measurement")
    parser.add_argument("--batch", type=int, help="batch size, if not the preset's")
    args = parser.parse_args(arguments)
    torch.set_num_threads(1)
    size = preset(args.preset)
    images = args.batch or size.batch
    dtype = dtype_on(torch.device("cpu"), size.net["dtype_inside"])
    peak = convolution_peak(dtype, args.seconds)
    print(f"convolution peak on one thread: {peak / 1e9:.0f} GFLOP/s in {str(dtype).removeprefix('torch.')}")
    steps, peers = {}, {}
    for exp, config in ((EXP1, size.net), (EXP3, size.patch_net)):
        side = size.resolution if exp.radius is None else (2 * exp.radius + 1) * size.resolution // GRID_SIZE
        torch.manual_seed(0)
        single = config | {"dtype_inside": "float32"}
        plain = plain_(EDM2UNet(cond_dim=condition_dim(exp, exp.radius), **single))
        net = EDM2UNet(cond_dim=condition_dim(exp, exp.radius), **config).to(
            memory_format=torch.channels_last
        )
        batch = images * (1 if exp.radius is None else 2)
        inputs = (
            torch.randn(batch, 3, side, side),
            torch.zeros(batch),
            torch.zeros(batch, net.config.cond_dim),
        )
        with FlopCounterMode(display=False) as counter, torch.no_grad():
            net(*(i[:1] for i in inputs))
        steps[exp.name] = training_step(net, inputs), batch * 3 * counter.get_total_flops()
        peers[exp.name] = training_step(plain, inputs)
    before = {name: rate(step, images, args.seconds) for name, (step, _) in steps.items()}
    edm2 = {name: rate(step, images, args.seconds) for name, step in peers.items()}
    keep_memory()  # for the rest of the process
    for name, (step, flops) in steps.items():
        fast = rate(step, images, args.seconds)
        print(
            f"{name}: {fast:.0f} images/s, {fast / images * flops / peak:.0%} of the convolution peak; "
            "memory handed back: "
            f"{before[name]:.0f} images/s, ratio {fast / before[name]:.2f}; "
            f"float32, plain: {edm2[name]:.0f} images/s, ratio {fast / edm2[name]:.2f}"
        )
    on_a_gpu(size, args.seconds)


if __name__ == "__main__":
    main()
