"""Eqs. (9) and (10) compared with the obvious loops: ratios are the point (target: 2x or more from one
forward).

    python benchmarks/locality.py [--threads 2] [--targets 64] [--compile]

Pixel influence on a lattice of 16x16 target pixels, the net of Exp. 1 (32 px); the loop, one autograd call
per pixel and channel with its own forward pass, is timed on a few targets. Then variants: chunks and their
memory, channels one by one, fused weights, precision, a compiled graph. All in processor seconds, so that
other load hardly matters.
"""

import argparse
import math
import shutil
import time

import torch
from timing import clock, memory
from torch.nn.attention import SDPBackend, sdpa_kernel

from lcs_utils import checkpoints, locality
from lcs_utils.clevr.conditions import test_condition
from lcs_utils.models.fused import fused
from lcs_utils.models.precision import HALF_IS_SLOW

LATTICE = [(2 * i, 2 * j) for i in range(16) for j in range(16)]
SIGMA = 2.0


def naive(denoise, x_t, cond, targets):
    """One forward and one backward pass per pixel and channel."""
    maps = []
    for row, column in targets:
        rows = []
        for c in range(3):
            x = x_t[None].clone().requires_grad_()
            x0_hat = denoise(x, torch.full((1,), SIGMA), cond)
            rows.append(torch.autograd.grad(x0_hat[0, c, row, column], x)[0][0].abs())
        maps.append(torch.stack(rows).mean((0, 1)))
    return torch.stack(maps)


def seeded(denoise, x_t, cond, targets, channels, chunk=16):
    """One forward, then products for the output channels of each group in `channels`, a group's seeds summed.

    ((0,), (1,), (2,)) is eq. (9), channel by channel; ((0, 1, 2),) is |sum over channels|, which is not.
    """
    x = x_t[None].clone().requires_grad_()
    x0_hat = denoise(x, torch.full((1,), SIGMA), cond)
    maps = []
    for part in torch.tensor(targets).split(chunk):
        pulled = []
        for group in channels:
            seeds = x0_hat.new_zeros(len(part), *x0_hat.shape)
            for c in group:
                seeds[torch.arange(len(part)), 0, c, part[:, 0], part[:, 1]] = 1
            rows = torch.autograd.grad(x0_hat, x, seeds, retain_graph=True, is_grads_batched=True)[0]
            pulled.append(rows[:, 0].abs().mean(1) / 3)
        maps.append(torch.stack(pulled).sum(0))
    return torch.cat(maps)


def compiled(pipeline, x_t, cond, targets, chunk=16):
    """A function that computes maps through torch.compile: D = c_skip x + c_out F(c_in x), its rows by vmap
    over torch.func.vjp.
    """
    net, total = pipeline.net, SIGMA**2 + pipeline.denoiser.sigma_data**2
    c_in, c_out = 1 / math.sqrt(total), SIGMA * pipeline.denoiser.sigma_data / math.sqrt(total)
    c_skip, c_noise = pipeline.denoiser.sigma_data**2 / total, torch.full((1,), math.log(SIGMA) / 4)

    @torch.compile(dynamic=False)
    def rows(x, seeds):
        pull = torch.func.vjp(lambda x: c_skip * x + c_out * net(c_in * x, c_noise, cond[None]), x)[1]
        return torch.func.vmap(lambda seed: pull(seed)[0])(seeds)

    def maps():
        found = []
        for part in torch.tensor(targets).split(chunk):
            seeds = torch.zeros(chunk, 3, *x_t[None].shape)  # one size, or each would be compiled again
            for c in range(3):
                seeds[torch.arange(len(part)), c, 0, c, part[:, 0], part[:, 1]] = 1
            jacobian = rows(x_t[None], seeds.flatten(0, 1)).unflatten(0, (chunk, 3))
            found.append(jacobian[: len(part), :, 0].abs().mean((1, 2)).detach())
        return torch.cat(found)

    return maps


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--targets", type=int, default=len(LATTICE), help="of the lattice; fewer are quick")
    parser.add_argument(
        "--compile", action="store_true", help="also a compiled graph: takes minutes and a C++ compiler"
    )
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    pipeline = checkpoints.load("exp1")
    denoise, cond, x_t = pipeline.denoiser, test_condition(5), torch.randn(3, 32, 32)
    targets, few = LATTICE[: args.targets], LATTICE[100:104]
    exact = naive(denoise, x_t, cond, few)
    slow = clock(lambda: naive(denoise, x_t, cond, few))[1] / len(few)
    print(
        f"the loop, a forward for each pixel and channel: {1 / slow:.1f} maps/s of processor time", flush=True
    )

    def influence(at=targets, chunk=locality.CHUNK):
        return locality.pixel_influence(denoise, x_t, SIGMA, cond, at, chunk)

    def row(what, work, note="", found=None):
        """Print maps per second against the loop, and the maps' largest error as a share of their maximum."""
        fast = clock(work)[1] / len(targets)
        if found is not None:
            note += f", off by {float((found - exact).abs().max() / exact.max()):.1e} of the maximum"
        print(f"{what}: {1 / fast:.1f} maps/s, ratio {slow / fast:.1f}{note}", flush=True)

    for chunk in (1, 4, 16, 64, 256):
        (_, seconds), more = memory(lambda: clock(lambda: influence(chunk=chunk)))
        fast = seconds / len(targets)
        print(
            f"one forward, chunk {chunk}: {1 / fast:.1f} maps/s, ratio {slow / fast:.1f}, memory "
            f"+{more:.0f} MiB"
        )
    row("one forward, the default chunk", influence, found=influence(few))
    single = ((0,), (1,), (2,))
    row(
        "  channel by channel",
        lambda: seeded(denoise, x_t, cond, targets, single),
        "",
        seeded(denoise, x_t, cond, few, single),
    )
    summed = seeded(denoise, x_t, cond, few, ((0, 1, 2),))
    apart = f", but {float((summed - exact).abs().mean() / exact.mean()):.0%} away from eq. (9) on average"
    row(
        "  channels summed, a third of the products",
        lambda: seeded(denoise, x_t, cond, targets, ((0, 1, 2),)),
        apart,
    )
    with fused(pipeline.net):
        row("  weights normalized once", influence, found=influence(few))
        one = clock(lambda: influence(few[:1]), 8)[1]
    each = clock(lambda: influence(few[:1]), 8)[1]
    print(f"  one target: {1000 * each:.0f} ms, weights normalized once {1000 * one:.0f} ms")
    if HALF_IS_SLOW:
        print("  this processor has no AMX: float32 inside all along")
    else:
        pipeline.net.register_to_config(dtype_inside="float32")
        row("  float32 inside instead of bfloat16", influence, found=influence(few))
        pipeline.net.register_to_config(dtype_inside="bfloat16")
    if args.compile and shutil.which("g++") is None:
        print("  a compiled graph: no C++ compiler here")
    elif args.compile:
        with (
            fused(pipeline.net),
            sdpa_kernel(SDPBackend.MATH),
        ):  # the CPU's flash attention has no second derivative
            work, start = compiled(pipeline, x_t, cond, targets), time.process_time()
            first = compiled(pipeline, x_t, cond, few)()
            work()
            print(f"  compiling takes {time.process_time() - start:.0f} s of processor time")
            row("  a compiled graph, weights normalized once", work, found=first)
    cond = test_condition(12)
    without = locality.without_each(cond)

    def ask(some):
        return locality.condition_influence(denoise, x_t, SIGMA, cond, some)

    batched, looped = (
        clock(lambda: ask(without), 3)[1],
        clock(lambda: [ask({k: c}) for k, c in without.items()], 3)[1],
    )
    each = f"{1000 * looped:.0f} ms one by one, ratio {looped / batched:.1f}"
    print(f"condition influence, 12 removals: {1000 * batched:.0f} ms in one pass, {each}")


if __name__ == "__main__":
    main()
