"""How clean an image of objects is, judged by its hues alone: no trained net is involved.

    python -m lcs_utils.evaluation.cleanness    # renders, renders with confetti, and all stored samples

All pixels of a clean object share one hue, in light, in shade and, mixed with the gray floor, at the edge.
Each pixel is classified as colored (it has a hue) or gray, and fits in if enough of the pixels around it are
like it. Pixels of speckle and confetti do not fit in.
"""

import argparse

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from lcs_utils import paths
from lcs_utils.checks import check_pixels
from lcs_utils.counter import scenes as counter_scenes
from lcs_utils.counter.corruptions_graded import object_mask
from lcs_utils.diffusion import from_uint8
from lcs_utils.evaluation.sheets import read_sheet

# a pixel has a hue if its largest and smallest channel differ by more than this, in [-1, 1] units
COLORED = 0.16
ALIKE = 20.0  # degrees between hues that count as one
FLOOR = 0.12  # foreground pixels differ from the floor by more than this, in [-1, 1] units
# required share of similar pixels among all neighbors (a corner has 3 of 8), and among foreground neighbors
ENOUGH, MOST = (0.2, 0.5)
LEAST = 0.01  # least foreground, as a share of the image: keeps a lone pixel from deciding
RENDERS = {32: 0.02, 64: 0.015}  # mean share of misfits in renders, by side: cleanness 1
CONFETTI = {32: 0.8, 64: 0.865}  # the same with noise of standard deviation 0.5 on the objects: cleanness 0


def floor_of(images: Float[Tensor, "batch 3 side side"]) -> Float[Tensor, "batch 1 side side"]:
    """Gray level of the floor under the objects: a cubic surface, fitted to the image repeatedly while
    outliers are downweighted.
    """
    side = images.shape[-1]
    axis = torch.linspace(-1, 1, side, dtype=torch.float64)
    y, x = torch.meshgrid(axis, axis, indexing="ij")
    basis = torch.stack([x**i * y**j for i in range(4) for j in range(4 - i)], -1).reshape(-1, 10)
    gray = images.double().mean(1).flatten(1)
    hue = images.amax(1).sub(images.amin(1)).flatten(1) < COLORED
    weight = hue.double() + 1e-3
    for _ in range(4):
        left = torch.einsum("np,pi,pj->nij", weight, basis, basis)
        fit = torch.linalg.solve(left, torch.einsum("np,np,pi->ni", weight, gray, basis)) @ basis.T
        weight = hue / (1 + ((gray - fit) / 0.05) ** 2) + 1e-3
    return fit.reshape(-1, 1, side, side).float()


def misfits(images: Float[Tensor, "batch 3 side side"]) -> Float[Tensor, "batch"]:
    """Share of foreground pixels that resemble too few of their neighbors, in [0, 1]; images in [-1, 1].

    The foreground has a hue or is lighter or darker than the floor. A colored pixel fits in among pixels of
    its hue; a gray one, such as in a shadow or a gray object, among gray ones. Choice: at 64 px, "neighbors"
    reach as far across the scene as at 32 px.
    """
    n, _, side, _ = images.shape
    reach = max(1, round(side / 32))
    red, green, blue = images.unbind(1)
    across, along = (red - green) * 3**0.5 / 2, (red + green) / 2 - blue
    hue, colored = torch.atan2(along, across), images.amax(1) - images.amin(1) > COLORED
    foreground = colored | ((images - floor_of(images)).abs().amax(1) > FLOOR)
    maps = F.pad(torch.stack([hue, colored.float(), foreground.float()], 1), [reach] * 4, mode="replicate")
    around = F.unfold(maps, 2 * reach + 1).reshape(n, 3, -1, side, side)
    others = around.shape[2] - 1
    # `near`: neighbors in the foreground, excluding the pixel itself
    hued, near = (around[:, 1] > 0.5, around[:, 2].sum(1) - 1)
    gap = torch.remainder(around[:, 0] - hue[:, None] + torch.pi, 2 * torch.pi) - torch.pi
    of_hue = ((gap.abs() < ALIKE * torch.pi / 180) & hued).float().sum(1) - 1
    gray, gray_object = (~hued).float().sum(1) - 1, (~hued & (around[:, 2] > 0.5)).float().sum(1) - 1
    as_colored = (of_hue >= ENOUGH * others) & (of_hue >= MOST * near)
    as_gray = (gray >= ENOUGH * others) & ((gray_object >= MOST / 2 * near) | (gray >= MOST * others))
    bad = foreground & ~torch.where(colored, as_colored, as_gray)
    return bad.float().mean((1, 2)) / foreground.float().mean((1, 2)).clamp_min(LEAST)


def takes(side: int) -> bool:
    """Whether cleanness is calibrated for images of `side` px: 32, 64 or a multiple of 64."""
    return side == 32 or side > 0 and side % 64 == 0


def cleanness(images: Float[Tensor, "batch 3 side side"]) -> Float[Tensor, "batch"]:
    """Cleanness of each image, in [0, 1]: 1 for the average render, 0 for renders with confetti of strength
    0.5.

    Images are in [-1, 1]; those of more than 64 px are reduced to 64 px by averaging areas. Objects that are
    fused, faded or missing go unnoticed. Raises ValueError unless images are finite floats [batch, 3, side,
    side] of 32, 64 or a multiple of 64 px, and of about that range; warns if they look like [0, 1].
    """
    shape = tuple(images.shape)
    fits = len(shape) == 4 and shape[1] == 3 and shape[2] == shape[3] and takes(shape[2])
    if not fits or not images.is_floating_point() or not bool(images.isfinite().all()):
        raise ValueError(
            "cleanness takes finite float images [batch, 3, side, side] in [-1, 1] with a side of 32, 64 or "
            "a multiple of 64 px, "
            f"got {str(images.dtype).removeprefix('torch.')} {list(shape)}"
        )
    check_pixels("cleanness", images)
    if not len(images):
        return images.new_zeros(0)
    x = images.detach().cpu().clamp(-1, 1)
    x = F.avg_pool2d(x, x.shape[-1] // 64) if x.shape[-1] > 64 else x
    low, high = RENDERS[x.shape[-1]], CONFETTI[x.shape[-1]]
    return ((high - misfits(x)) / (high - low)).clamp(0, 1)


def renders(side: int, per_count: int = 8, seed: int = 7) -> tuple[Tensor, Tensor]:
    """Clean renders in [-1, 1] of 0 to 9 objects at CLEVR's distances, ordered by number of objects, and the
    masks of their object pixels.
    """
    share = counter_scenes.EARLIER_SHARE
    images = from_uint8(
        counter_scenes.join(
            [counter_scenes.held_out("clevr", k, per_count, side, seed, share) for k in range(10)]
        ).images
    )
    return images, object_mask(images, images[:per_count].repeat(10, 1, 1, 1))


def main(arguments=None) -> None:
    parser = argparse.ArgumentParser(
        prog="python -m lcs_utils.evaluation.cleanness", description=__doc__.splitlines()[0]
    )
    parser.parse_args(arguments)
    for side in RENDERS:
        images, mask = renders(side)
        noise = torch.randn(images.shape, generator=torch.Generator().manual_seed(0))
        for std in (0.0, 0.05, 0.1, 0.15, 0.3, 0.5):
            x = (images + std * mask * noise).clamp(-1, 1)
            print(
                f"renders of {side} px, 1 to 9 objects, noise of {std:g} on them: "
                f"misfits {float(misfits(x)[8:].mean()):.3f}, cleanness {float(cleanness(x)[8:].mean()):.2f}"
            )
    for path in sorted((paths.DATA / "samples").glob("*/*.webp")):
        preset = path.parent.name
        rows = {
            k: float(cleanness(from_uint8(torch.as_tensor(x))).mean())
            for k, x in read_sheet(path.stem, preset).samples.items()
        }
        print(f"{preset}/{path.stem}:", " ".join(f"{k}:{of:.2f}" for k, of in rows.items()))


if __name__ == "__main__":
    main()
