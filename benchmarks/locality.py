"""Eqs. (9) and (10) against the obvious loops, in one run: ratios are the point (target: 2x or more from one shared forward).

    python benchmarks/locality.py [--threads 2]

Pixel influence on a lattice of 16x16 target pixels, the net of Exp. 1 (32 px); the loop, one autograd call per pixel and channel
with its own forward pass, is timed on a few targets. Also: precision, channels together, memory against the chunk.
"""

import argparse
import resource
import time

import torch

from lcs_utils import checkpoints, locality
from lcs_utils.clevr.conditions import test_condition

LATTICE = [(2 * i, 2 * j) for i in range(16) for j in range(16)]


def clock(work, runs: int = 1) -> float:
    """Processor seconds of one run."""
    start = time.process_time()
    for _ in range(runs):
        work()
    return (time.process_time() - start) / runs


def naive(denoise, x_t, sigma, cond, targets):
    """One forward and one backward pass per pixel and channel."""
    maps = []
    for row, column in targets:
        rows = []
        for c in range(3):
            x = x_t[None].clone().requires_grad_()
            x0_hat = denoise(x, torch.full((1,), sigma), cond)
            rows.append(torch.autograd.grad(x0_hat[0, c, row, column], x)[0][0].abs())
        maps.append(torch.stack(rows).mean((0, 1)))
    return torch.stack(maps)


def together(denoise, x_t, sigma, cond, targets, chunk=48):
    """|sum over output channels| instead of the mean over channel pairs: a third of the products, but not eq. (9)."""
    x = x_t[None].clone().requires_grad_()
    x0_hat = denoise(x, torch.full((1,), sigma), cond)
    maps = []
    for part in torch.tensor(targets).split(chunk):
        seeds = x0_hat.new_zeros(len(part), *x0_hat.shape)
        seeds[torch.arange(len(part)), 0, :, part[:, 0], part[:, 1]] = 1
        pulled = torch.autograd.grad(x0_hat, x, seeds, retain_graph=True, is_grads_batched=True)[0]
        maps.append(pulled[:, 0].abs().mean(1) / 3)
    return torch.cat(maps)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--targets", type=int, default=len(LATTICE), help="of the lattice, to be quick")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    pipeline = checkpoints.load("exp1")
    denoise, cond, x_t, sigma = pipeline.denoiser, test_condition(5), torch.randn(3, 32, 32), 2.0
    targets, few = LATTICE[: args.targets], LATTICE[:4]
    slow = clock(lambda: naive(denoise, x_t, sigma, cond, few)) / len(few)
    print(f"loop: {1 / slow:.1f} maps/s of processor time")
    exact = naive(denoise, x_t, sigma, cond, few)
    for chunk in (4, 16, 64):
        fast = clock(lambda: locality.pixel_influence(denoise, x_t, sigma, cond, targets, chunk)) / len(targets)
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(f"one forward, chunk {chunk}: {1 / fast:.1f} maps/s, ratio {slow / fast:.1f}, peak memory {memory:.0f} MiB")
    found = locality.pixel_influence(denoise, x_t, sigma, cond, few)
    print(f"largest difference from the loop: {float((found - exact).abs().max() / exact.max()):.1e} of the maximum")
    summed = clock(lambda: together(denoise, x_t, sigma, cond, targets)) / len(targets)
    other = together(denoise, x_t, sigma, cond, few)
    apart = float((other - exact).abs().mean() / exact.mean())
    print(f"channels together: {1 / summed:.1f} maps/s, ratio {slow / summed:.1f}, but {apart:.0%} away from eq. (9) on average")
    pipeline.net.register_to_config(dtype_inside="float32")
    full = clock(lambda: locality.pixel_influence(denoise, x_t, sigma, cond, targets)) / len(targets)
    away = float((locality.pixel_influence(denoise, x_t, sigma, cond, few) - exact).abs().max() / exact.max())
    print(f"float32 inside instead of the nets' bfloat16: {1 / full:.1f} maps/s, maps differ by {away:.1%} of the maximum")
    pipeline.net.register_to_config(dtype_inside="bfloat16")
    cond = test_condition(12)
    without = locality.without_each(cond)
    batched = clock(lambda: locality.condition_influence(denoise, x_t, sigma, cond, without), 3)
    looped = clock(lambda: [locality.condition_influence(denoise, x_t, sigma, cond, {k: c}) for k, c in without.items()], 3)
    print(f"condition influence, 12 removals: {batched * 1000:.0f} ms in one pass, {looped * 1000:.0f} ms one by one, ratio {looped / batched:.1f}")


if __name__ == "__main__":
    main()
