"""What locality's measures take: images, target pixels, answers and maps without NaN."""

from collections.abc import Sequence
from typing import Any

import torch
from jaxtyping import Int
from torch import Tensor

from lcs_utils.checks import check_count, check_list, check_number, check_steady, check_tensor, check_tuple
from lcs_utils.diffusion import Denoiser

Targets = Sequence[tuple[int, int]]  # (row, column)


def check_targets(targets: Targets, height: int, width: int) -> Int[Tensor, "targets 2"]:
    """`targets` as a tensor of (row, column). Raises ValueError naming those outside the image, TypeError for
    anything but pairs of whole numbers.
    """
    if torch.is_tensor(targets):
        targets = check_tensor("targets", targets, ("targets", 2), False, "whole").tolist()
    pairs = []
    for target in check_list("targets", targets):
        check_tuple("a target (row, column)", target, 2)
        pairs.append([check_count("row or column of a target", v, None) for v in target])
    pixels = torch.tensor(pairs, dtype=torch.long).reshape(-1, 2)
    outside = [tuple(p) for p in pixels.tolist() if not (0 <= p[0] < height and 0 <= p[1] < width)]
    if outside or not len(pixels):
        found = f"{', '.join(map(str, outside))} lie outside" if outside else "there is none for"
        raise ValueError(f"targets are pixels (row, column) of the image: {found} {height} x {width}")
    return pixels


def check_point(denoise: Denoiser, x_t: Tensor, sigma: float) -> None:
    """Raise TypeError or ValueError unless these are a denoiser, one image and one noise level > 0."""
    check_steady("denoise", denoise)
    check_tensor("x_t", x_t, ("channels", "height", "width"), False, "float")
    check_number("sigma", sigma, 0, above=True)


def check_maps(influence: Tensor, first: str) -> None:
    """Raise TypeError or ValueError unless these are maps [first, height, width], finite and >= 0."""
    check_tensor("influence", influence, (first, "height", "width"), False, "float")
    if not bool((influence >= 0).all() & influence.isfinite().all()):
        raise ValueError("influence must be finite and >= 0")


def check_answer(x0_hat: Any, x_t: Tensor) -> Tensor:
    """What a denoiser returns for x_t, finite: NaN would read as an influence of its own, or as none."""
    check_tensor("what denoise returns", x0_hat, x_t.shape, False, "float")
    if not bool(x0_hat.isfinite().all()):
        found = x0_hat[~x0_hat.isfinite()][0].item()
        raise ValueError(f"what denoise returns must be finite, got {found} in it")
    return x0_hat
