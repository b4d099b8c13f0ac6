"""Eq. (10) for all words and eq. (9) for many places of the text-to-image model: together against one by one.

    python benchmarks/text_to_image.py [--places 16] [--threads 1]

Influences are equal up to rounding; times are processor seconds, so that other load hardly matters. Target
ratios: 2 for words, 3 for places. Places are compared with two loops: the equation as it reads, a forward and
a backward pass per channel, and `pixel_influence` itself place by place, which already shares the passes of a
place's channels.
"""

import argparse

import torch
from timing import clock, memory

from lcs_utils import locality
from lcs_utils.text_to_image import prompts

PROMPT = "a cyan cube and a gray sphere, at night"
SIGMA = 2.0


def compared(what: str, together, one_by_one) -> None:
    """Print both times, their ratio, and how far the results are apart."""
    one, seconds = clock(one_by_one)
    (all_of, at_once), rise = memory(lambda: clock(together))
    apart = float((all_of - one).abs().max() / one.abs().max())
    print(
        f"{what}: one by one {seconds:.2f} s, together {at_once:.2f} s, ratio {seconds / at_once:.1f}, "
        f"+{rise:.0f} MiB, apart {apart:.0e} of the largest"
    )


def as_it_reads(denoise, x_t, sigma: float, cond, place: tuple[int, int]) -> torch.Tensor:
    """Eq. (9) at one place, channel by channel."""
    maps = []
    for channel in range(len(x_t)):
        x = x_t[None].clone().requires_grad_()
        x0_hat = denoise(x, x.new_full((1,), sigma), cond[None])
        maps.append(torch.autograd.grad(x0_hat[0, channel][place], x)[0][0].abs())
    return torch.stack(maps).mean((0, 1))[None]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--places", type=int, default=16)
    parser.add_argument("--threads", type=int, default=1)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    denoiser, _ = prompts.load("standin")
    channels, height, width = denoiser.latent_shape
    x_t = SIGMA * torch.randn(denoiser.latent_shape, generator=torch.Generator().manual_seed(0))
    cond, without = denoiser.condition(PROMPT), denoiser.without_words(PROMPT)
    places = [(row, column) for row in range(height) for column in range(width)][
        :: height * width // args.places
    ]
    locality.condition_influence(denoiser, x_t, SIGMA, cond, without)  # the first call allocates
    compared(
        f"eq. (10), {len(without)} words",
        lambda: locality.condition_influence(denoiser, x_t, SIGMA, cond, without),
        lambda: torch.cat(
            [
                locality.condition_influence(denoiser, x_t, SIGMA, cond, {word: c})
                for word, c in without.items()
            ]
        ),
    )
    loops = {
        "as it reads": lambda at: as_it_reads(denoiser, x_t, SIGMA, cond, at),
        "place by place": lambda at: locality.pixel_influence(denoiser, x_t, SIGMA, cond, [at]),
    }
    for how, at_one in loops.items():
        compared(
            f"eq. (9), {len(places)} places of {channels} channels, {how}",
            lambda: locality.pixel_influence(denoiser, x_t, SIGMA, cond, places),
            lambda at_one=at_one: torch.cat([at_one(at) for at in places]),
        )


if __name__ == "__main__":
    main()
