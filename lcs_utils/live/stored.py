"""What the live page shows before a net is loaded: samples, and where pixels look (eqs. (9), (10)).

Computed from the shipped nets with the same noise that the browser draws, so that both show the same.
"""

import base64
from collections.abc import Sequence

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor
from tqdm.auto import tqdm

from lcs_utils import checkpoints, locality
from lcs_utils.clevr.conditions import GRID_SIZE, test_condition
from lcs_utils.clevr.grid import TEST_LOCATIONS
from lcs_utils.counter.net import ObjectCounter
from lcs_utils.diffusion import final, karras_sigmas, sample
from lcs_utils.evaluation.locality.net_locality import SIGMAS, K, cell_targets, test_scenes
from lcs_utils.live.nets import NETS, SOLVER, STEPS, Net, counter_version, resolution
from lcs_utils.live.noise import normal
from lcs_utils.models.focus import focus
from lcs_utils.plotting import to_uint8
from lcs_utils.widgets.drawing import color_of
from lcs_utils.widgets.frames import png_bytes

ASKED = 6  # locations of the stored samples: twice as many as any net saw
# Choice: one seed for the samples' noise and for the noise on the scene, which are the same numbers
SEED = 0


def base64_of(values: np.ndarray) -> str:
    """Bytes of an array as base64."""
    return base64.b64encode(np.ascontiguousarray(values).tobytes()).decode()


def picture(image: Float[Tensor, "3 height width"]) -> bytes:
    """An image in [-1, 1] as PNG."""
    return png_bytes(to_uint8(image.clamp(-1, 1)))


def cells_of(k: int) -> list[int]:
    """The cells (row * 16 + column) of the first `k` test locations, in the paper's order (App. E.1)."""
    return [int(y * GRID_SIZE) * GRID_SIZE + int(x * GRID_SIZE) for x, y in TEST_LOCATIONS[:k]]


def pipeline_of(net: Net):
    """The net's pipeline, set to compute in float32 on any processor."""
    pipeline = checkpoints.load(net.name, net.preset)
    pipeline.net.register_to_config(dtype_inside="float32")
    return pipeline


def drawn(pipeline, cells: Sequence[int], seed: int) -> Float[Tensor, "3 height width"]:
    """The sample that the page draws for these cells and this seed, in [-1, 1]."""
    side = pipeline.config.resolution
    cond = torch.zeros(1, GRID_SIZE**2)
    cond[0, list(cells)] = 1
    steps = sample(pipeline.denoiser, normal(seed, 1, 3, side, side), karras_sigmas(STEPS), cond, SOLVER)
    return final(tqdm(steps, total=STEPS, desc="sampling", leave=False))[0].clamp(-1, 1)


def looked(pipeline, seed: int) -> dict:
    """Where the pixels at the centers of `K` asked cells look, at each of SIGMAS: eq. (9) as bytes, the side
    of its 90% square, and eq. (10) for each condition.

    A map is stored in 255 steps, as the square root of its share of its maximum.
    """
    side, cond = pipeline.config.resolution, test_condition(K)
    cells = cells_of(K)
    targets = cell_targets(cells, side)
    x0, eps = test_scenes(K, 1, side)[0], normal(seed, 3, side, side)
    without = locality.without_each(cond, cells)
    near = focus(pipeline.denoiser, targets, side)
    pixels, windows, heard = [], [], []
    for sigma in tqdm(SIGMAS, desc="where pixels look", leave=False):
        x_t = x0 + sigma * eps
        found = locality.pixel_influence(near, x_t, sigma, cond, targets)
        share = (found / found.amax((1, 2), keepdim=True).clamp_min(1e-30)).sqrt()
        pixels.append((share * 255).round().byte().numpy())
        windows.append(locality.locality_window(found, targets).tolist())
        influence = locality.condition_influence(near, x_t, sigma, cond, without)
        heard.append([[float(of[row, column]) for of in influence] for row, column in targets])
    return {"pixels": base64_of(np.stack(pixels)), "windows": windows, "heard": heard}


def compute() -> tuple[dict, dict[str, bytes]]:
    """All data for the page's scripts, and the sample of each net as PNG, by the net's key. Raises as
    `nets.resolution`.
    """
    side = resolution()
    counter = ObjectCounter.from_pretrained()
    known = {"nets": [], "start": {"cells": cells_of(ASKED), "seed": SEED, "counts": {}}, "looked": {}}
    pictures = {}
    for net in NETS:
        pipeline = pipeline_of(net)
        about = {"key": net.key, "weights": net.weights, "resolution": side}
        known["nets"].append(net._asdict() | about | {"radius": pipeline.config.radius})
        image = drawn(pipeline, known["start"]["cells"], SEED)
        pictures[net.key] = picture(image)
        known["start"]["counts"][net.key] = int(counter(image[None]).count[0])
        known["looked"][net.key] = looked(pipeline, SEED)
    scene = {
        "pixels": base64_of(np.asarray(to_uint8(test_scenes(K, 1, side)[0]), np.uint8)),  # [height width 3]
        "resolution": side,
        "cells": cells_of(K),
        "targets": cell_targets(cells_of(K), side),
        "sigmas": SIGMAS,
        "seed": SEED,
    }
    return known | {
        "scene": scene,
        "colors": ["#{:02x}{:02x}{:02x}".format(*color_of(k)) for k in range(K)],  # of the scene's objects
        "counter": counter_version(),
        "grid": GRID_SIZE,
        "locations": cells_of(len(TEST_LOCATIONS)),
        "steps": STEPS,
    }, pictures
