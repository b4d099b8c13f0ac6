"""How local each trained net is: 90% squares and conditional locality against noise (Figs. 2, 10).

    python -m lcs_utils.evaluation.locality.net_locality exp1 exp2 exp3 exp1_1 exp3_1

Rows are stored in data/counts/tiny/locality.csv.bz2; rows of the same weights are kept, rows of other weights
are replaced.
"""

import argparse
import math
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor
from tqdm.auto import tqdm

from lcs_utils import locality, nets, store
from lcs_utils.clevr.conditions import GRID_SIZE, TEST_LOCATIONS, test_condition
from lcs_utils.clevr.render import render
from lcs_utils.clevr.scenes import COLORS, scene_at
from lcs_utils.diffusion import from_uint8
from lcs_utils.evaluation import changes
from lcs_utils.evaluation.rows import rows_path
from lcs_utils.evaluation.samples import on
from lcs_utils.models.focus import focus
from lcs_utils.nets import trained
from lcs_utils.presets import parse_preset

SIGMAS = (0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 40.0)
K = 5  # test locations, two more than the nets saw; no two of these five lie within two cells of each other
IMAGES = 8
COMMAND = "python -m lcs_utils.evaluation.locality.net_locality NET ..."


class LocalityRow(NamedTuple):
    """One image at one noise level: mean side of the 90% squares (px; `window` of energy, `window_1` of
    absolute values), conditional locality within 1 and 2 cells, and `response`, the mean over pixels of the
    summed condition influence.
    """

    net: str
    weights: str
    k: int
    image: int
    sigma: float
    window: float
    within_1: float
    within_2: float
    response: float
    window_1: float = math.nan


def test_scenes(
    k: int, count: int, resolution: int = 32, seed: int = 0
) -> Float[Tensor, "count 3 height width"]:
    """Renders in [-1, 1] with an object at each of the first `k` test locations, the same for every net."""
    shown = render([scene_at(TEST_LOCATIONS[:k], seed, i) for i in range(count)], resolution)
    return from_uint8(shown).permute(0, 3, 1, 2)


test_scenes.__test__ = False  # a name from the paper, not a test


def cell_targets(cells: Iterable[int], resolution: int, grid_size: int = GRID_SIZE) -> list[tuple[int, int]]:
    """The pixel (row, column) at the middle of each cell; the lower right one of the four in an even cell."""
    m = resolution // grid_size
    return [(c // grid_size * m + m // 2, c % grid_size * m + m // 2) for c in cells]


def net_rows(
    net: str,
    denoise,
    images: Float[Tensor, "count 3 height width"],
    weights: str,
    k: int = K,
    seed: int = 0,
    device: str = "cpu",
    color: bool = False,
):
    """Yield the LocalityRow of every image and noise level, with x_t = image + sigma * eps and one eps per
    image.

    A net with color labels (`color`) is conditioned on one object each of the first `k` colors; its
    conditions have no location, so their locality is NaN.
    """
    cond = (torch.arange(len(COLORS)) < k).float() if color else test_condition(k)
    without = locality.without_each(cond)
    targets = cell_targets(locality.without_each(test_condition(k)), images.shape[-1])
    near, denoise = on(device, focus(denoise, targets, images.shape[-1])), on(device, denoise)
    for i, x0 in enumerate(images):
        eps = torch.randn(x0.shape, generator=torch.Generator().manual_seed(1000 * seed + i))
        for sigma in SIGMAS:
            x_t = x0 + sigma * eps
            heard = locality.pixel_influence(near, x_t, sigma, cond, targets)
            window, of_values = (
                float(locality.locality_window(heard, targets, power=p).double().mean()) for p in (2, 1)
            )
            influence = locality.condition_influence(denoise, x_t, sigma, cond, without)
            within = [
                math.nan if color else locality.conditional_locality(influence, list(without), GRID_SIZE, r)
                for r in (1, 2)
            ]
            response = float(influence.sum(0).mean())
            numbers = (window, *within, response, of_values)
            yield LocalityRow(net, weights, k, i, sigma, *(round(v, 4) for v in numbers))


def path(preset: str = "tiny") -> Path:
    """Where a preset's rows are stored."""
    return rows_path(preset, "locality")


def read(preset: str = "tiny") -> list[LocalityRow]:
    """The stored rows. Warns and raises as `store.read_rows`."""
    return store.read_rows(path(preset), LocalityRow)


def write(rows: Iterable[LocalityRow], preset: str = "tiny") -> None:
    """Write all rows, sorted, whole or not at all; the first line is the command that makes them."""
    store.write_rows(path(preset), COMMAND, LocalityRow, rows)


def current(
    rows: Sequence[LocalityRow], nets: Iterable[str], preset: str = "tiny"
) -> dict[str, list[LocalityRow]]:
    """The rows of each net. Raises ValueError, with the command, if they are missing or of other weights."""
    found = {}
    for net in nets:
        weights = changes.weights(net, preset)
        found[net] = [row for row in rows if (row.net, row.weights) == (net, weights)]
        if len(found[net]) < IMAGES * len(SIGMAS):
            raise ValueError(
                f"no locality rows for today's weights of {net}: python -m "
                f"lcs_utils.evaluation.locality.net_locality {net} --preset {preset}"
            )
    return found


def measure(net: str, preset: str = "tiny", device: str = "cpu") -> None:
    """Measure a net (or NET/CHANGE) and add its rows, unless rows of the same weights exist.

    Choice: float32 everywhere, since half precision is coarse next to the small differences at low noise.
    """
    denoise, resolution = changes.denoiser(net, preset, device, "float32")
    weights = changes.weights(net, preset)
    mine = [row for row in read(preset) if (row.net, row.weights) == (net, weights)]
    if len(mine) >= IMAGES * len(SIGMAS) and not any(math.isnan(row.window_1) for row in mine):
        return
    images, color = test_scenes(K, IMAGES, resolution), trained(net, preset).condition == "color"
    # on a GPU, torch convolves float32 in TF32 by default, which is as coarse as float16
    with torch.backends.cudnn.flags(enabled=True, allow_tf32=False):
        made = net_rows(net, denoise, images, weights, device=device, color=color)
        rows = list(tqdm(made, desc=net, total=IMAGES * len(SIGMAS)))
    with store.exclusive(path(preset)):
        write([row for row in read(preset) if row.net != net] + rows, preset)


def run(
    measured: Callable[[str, str, str], None], prog: str, says: str, arguments: Sequence[str] | None
) -> None:
    """Call `measured(net, preset, device)` for the nets of a command line; errors are one line."""
    parser = argparse.ArgumentParser(prog=f"python -m lcs_utils.evaluation.{prog}", description=says)
    parser.add_argument("nets", nargs="+", help="checkpoints, or NET/CHANGE")
    parser.add_argument("--preset", default="tiny", type=parse_preset)
    parser.add_argument("--device", default="cpu", help="device of the net: cpu or cuda")
    args = parser.parse_args(arguments)
    try:
        for net in args.nets:
            measured(net, args.preset, args.device)
    except (ValueError, OSError, RuntimeError, nets.CheckpointError) as error:
        parser.error(str(error))


def main(arguments=None) -> None:
    run(measure, "net_locality", __doc__.splitlines()[0], arguments)


if __name__ == "__main__":
    main()
