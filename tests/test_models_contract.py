"""What the nets of lcs_utils.models accept and refuse, as a table (see contract.py)."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from contract import (
    COUNT,
    FLAG,
    INF,
    NAME,
    NAN,
    NO_CALL,
    NO_GENERATOR,
    NUMBER,
    cases,
    generators,
    missing,
    seeded,
    tensors,
)
from hypothesis import strategies as st

from lcs_utils import diffusion
from lcs_utils.models import (
    ddpm,
    focus,
    fused,
    local_patch,
    magnitude_preserving,
    pipeline,
    precision,
    precond,
    unet,
)
from lcs_utils.models.local_patch import LocalPatchDenoiser
from lcs_utils.models.precond import EDMDenoiser
from lcs_utils.models.unet import EDM2UNet

TINY = dict(cond_dim=16, channels=4, channel_mult=[1, 2], num_blocks=1, attention_levels=[1], head_channels=4)
torch.manual_seed(0)
NET = EDM2UNet(**TINY).eval()
PATCH_NET = EDM2UNet(**(TINY | {"cond_dim": 11, "channel_mult": [1], "attention_levels": []})).eval()
LOCAL = LocalPatchDenoiser(PATCH_NET, 1, 4)
WHOLE = pipeline.ConditionalPipeline(NET, 8, None, 4)
WHOLE.set_progress_bar_config(disable=True)
DDPM = ddpm.DDPMDenoiser(lambda x, t: x, torch.logspace(-2, 2, 50).double())

images = tensors(2, 3, 8, 8).map(torch.Tensor.float)
NO_IMAGES = [
    "x",
    None,
    np.zeros((2, 3, 8, 8)),
    torch.zeros(3, 8, 8),
    torch.zeros(2, 1, 8, 8),
    torch.zeros(2, 3, 8, 8).long(),
]
NOT_SQUARE = [*NO_IMAGES, torch.zeros(2, 3, 8, 4)]
levels = tensors(2, positive=True).map(torch.Tensor.float)
LEVELS = ["1", None, 1.0, [1.0, 1.0], torch.ones(3), torch.ones(2, 1), torch.zeros(2), -torch.ones(2)]
LEVELS += [torch.tensor([NAN, 1.0]), torch.tensor([INF, 1.0])]
SCHEDULERS = (
    st.just(
        SimpleNamespace(
            config=SimpleNamespace(prediction_type="epsilon"), alphas_cumprod=torch.linspace(0.9, 0.1, 9)
        )
    ),
    [
        None,
        "ddpm",
        SimpleNamespace(config=SimpleNamespace(prediction_type="sample"), alphas_cumprod=torch.ones(2)),
    ],
)
counts = st.builds(
    lambda seed, one: torch.randint(0, 3, (16,) if one else (2, 16), generator=seeded(seed)).float(),
    st.integers(0, 999),
    st.booleans(),
)
grids = st.builds(
    lambda seed: torch.randint(0, 3, (2, 16), generator=seeded(seed)).float(), st.integers(0, 999)
)
COND = ["c", None, [1.0], torch.zeros(2, 9), torch.zeros(3, 16), torch.zeros(2, 16).to(torch.complex64)]
NO_COUNTS = [torch.full((2, 16), -1.0), torch.full((2, 16), NAN), torch.full((2, 16), INF)]
NO_GRID = [v for v in COND if not torch.is_tensor(v) or v.shape != (3, 16)] + NO_COUNTS
positive = st.floats(0.01, 9)
NO_POSITIVE = [*NUMBER, 0.0, -1.0]
cells = st.builds(lambda seed: torch.randint(0, 16, (2, 3), generator=seeded(seed)), st.integers(0, 999))
NO_CELLS = [
    "03",
    torch.zeros(2),
    torch.zeros(2, 3),
    torch.zeros(3, 3).long(),
    torch.full((2, 1), 16),
    torch.full((2, 1), -1),
]
NO_NET = [None, "net", torch.nn.Linear(2, 2), EDM2UNet]
TARGETS = ["ab", None, 3, [], [(0,)], [(0, 1, 2)], [(8, 0)], [(0, -1)], [("0", "1")], [(0.5, 1)], ["01"]]

TABLE = {
    "EDM2UNet": (
        lambda **k: sum(p.numel() for p in EDM2UNet(**k).parameters()),
        {
            "cond_dim": (st.integers(1, 9), [*COUNT, 0]),
            "channels": (st.just(4), [*COUNT, 0]),
            "channel_mult": (st.sampled_from([[1], (1, 2)]), ["12", None, [], [0], [1.5], 2]),
            "num_blocks": (st.integers(1, 2), [*COUNT, 0]),
            "attention_levels": (st.sampled_from([[], (0,)]), ["0", None, [2], [-1], [0.5], 0]),
            "head_channels": (st.sampled_from([2, 4]), [*COUNT, 0]),
            "unshuffle": (st.integers(1, 2), [*COUNT, 0]),
            "normalize_label": (st.booleans(), FLAG),
            "dtype_inside": (st.sampled_from(list(precision.DTYPES)), NAME),
        },
    ),
    "dtype_on": (
        lambda device, name: precision.dtype_on(device, name).itemsize,
        {
            "device": (st.just(torch.device("cpu")), []),
            "name": (st.sampled_from(list(precision.DTYPES)), NAME),
        },
    ),
    "EDM2UNet.forward": (
        lambda **k: NET(**k),
        {
            "x": (images, [*NO_IMAGES, torch.zeros(2, 3, 7, 8), torch.zeros(2, 3, 0, 8)]),
            "c_noise": (
                tensors(2).map(torch.Tensor.float),
                ["1", None, 0.0, torch.zeros(3), torch.zeros(2, 1)],
            ),
            "cond": (grids, [*COND, torch.zeros(16)]),
            "valid": (
                st.none() | st.just(torch.ones(2, 1, 8, 8)),
                ["v", 1.0, torch.ones(2, 1, 8, 4), torch.ones(2, 8, 8)],
            ),
        },
    ),
    "precondition": (
        precond.precondition,
        {
            "net": (st.just(NET), []),
            "x_t": (images, NO_IMAGES),
            "sigma": (levels, LEVELS),
            "cond": (grids, COND),
            "sigma_data": (positive, []),
        },
    ),
    "EDMDenoiser": (
        lambda net, sigma_data, x_t, sigma, cond: EDMDenoiser(net, sigma_data)(x_t, sigma, cond),
        {
            "net": (st.just(NET), NO_CALL),
            "sigma_data": (positive, NO_POSITIVE),
            "x_t": (images, NO_IMAGES),
            "sigma": (levels, LEVELS),
            "cond": (counts, COND),
        },
    ),
    "edm2_loss": (
        lambda **k: precond.edm2_loss(**k),
        {
            "x0_hat": (images, ["x", None, torch.zeros(2, 3, 8, 8).long()]),
            "x0": (images, ["x", None, torch.zeros(1, 3, 8, 8), torch.zeros(2, 3, 1, 1)]),
            "sigma": (levels, LEVELS),
            "log_variance": (tensors(2), ["u", None, 0.0, torch.zeros(3), torch.zeros(2, 1)]),
            "sigma_data": (positive, NO_POSITIVE),
        },
    ),
    "cell_size": (
        local_patch.cell_size,
        {
            "resolution": (st.sampled_from([32, 64]), [*COUNT, 0, 33]),
            "grid_size": (st.just(16), [*COUNT, 0, 7]),
        },
    ),
    "check_square": (
        lambda images: local_patch.check_square("images", images) or 0.0,
        {"images": (images, NOT_SQUARE)},
    ),
    "check_cells": (
        lambda cells: local_patch.check_cells(cells, 2, 4) or 0.0,
        {"cells": (cells, [*NO_CELLS, None])},
    ),
    "check_grid": (lambda grid: local_patch.check_grid(grid, 1, 4) or 0.0, {"grid": (grids, NO_GRID)}),
    "extract_patches": (
        local_patch.extract_patches,
        {
            "images": (images, NOT_SQUARE),
            "radius": (st.integers(0, 5), COUNT),
            "grid_size": (st.just(4), [*COUNT, 0, 3]),
            "cells": (st.none() | cells, NO_CELLS),
        },
    ),
    "patch_conditions": (
        local_patch.patch_conditions,
        {
            "grid": (grids, NO_GRID),
            "radius": (st.integers(0, 5), COUNT),
            "grid_size": (st.just(4), [*COUNT, 0, 3]),
        },
    ),
    "choose_patches": (
        local_patch.choose_patches,
        {
            "grid": (grids, NO_GRID),
            "radius": (st.integers(0, 5), COUNT),
            "grid_size": (st.just(4), [*COUNT, 0, 3]),
            "generator": (generators, NO_GENERATOR),
        },
    ),
    "LocalPatchDenoiser": (
        lambda net, radius, grid_size, sigma_data, chunk, x_t, sigma, cond: LocalPatchDenoiser(
            net, radius, grid_size, sigma_data, chunk
        )(x_t, sigma, cond),
        {
            "net": (st.just(PATCH_NET), NO_CALL),
            "radius": (st.just(1), [*COUNT, 2]),
            "grid_size": (st.just(4), [*COUNT, 0, 3]),
            "sigma_data": (positive, NO_POSITIVE),
            "chunk": (st.integers(1, 40), [*COUNT, 0]),
            "x_t": (images, NOT_SQUARE),
            "sigma": (levels, LEVELS),
            "cond": (counts, [*COND, *NO_COUNTS, torch.zeros(1, 16)]),
        },
    ),
    "ConditionalPipeline": (
        lambda **k: pipeline.ConditionalPipeline(**k).config.resolution,
        {
            "net": (st.just(NET), NO_NET),
            "resolution": (st.just(8), [*COUNT, 0]),
            "radius": (st.none() | st.integers(0, 3), [1.5, "3", NAN, -1]),
            "grid_size": (st.just(4), [*COUNT, 0]),
            "sigma_data": (positive, NO_POSITIVE),
        },
    ),
    "ConditionalPipeline.call": (
        lambda **k: WHOLE(**k).images,
        {
            "cond": (grids, [*NO_GRID, torch.zeros(16)]),
            "num_inference_steps": (st.integers(1, 3), [*COUNT, 0]),
            "solver": (st.sampled_from(diffusion.SOLVERS), NAME),
            "generator": (st.none() | generators, NO_GENERATOR[1:]),
        },
    ),
    "focus": (
        lambda denoise, targets, resolution, x_t, sigma, cond: focus.focus(denoise, targets, resolution)(
            x_t, sigma, cond
        ),
        {
            "denoise": (st.just(LOCAL), NO_CALL),
            "targets": (
                st.lists(st.tuples(st.integers(0, 7), st.integers(0, 7)), min_size=1, max_size=3),
                TARGETS,
            ),
            "resolution": (st.just(8), [*COUNT, 0, 9]),
            "x_t": (images, NOT_SQUARE),
            "sigma": (levels, LEVELS),
            "cond": (counts, [*COND, *NO_COUNTS]),
        },
    ),
    "fuse_": (
        lambda net: len(fused.fuse_(net)),
        {"net": (st.builds(EDM2UNet, **{k: st.just(v) for k, v in TINY.items()}), NO_NET)},
    ),
    "fused": (
        lambda net: fused.fused(net).__enter__()(torch.zeros(1, 3, 8, 8), torch.zeros(1), torch.zeros(1, 16)),
        {"net": (st.builds(EDM2UNet, **{k: st.just(v) for k, v in TINY.items()}), NO_NET)},
    ),
    "DDPMDenoiser": (
        lambda x_t, sigma: DDPM(x_t, sigma),
        {
            "x_t": (images, [v for v in NO_IMAGES if not torch.is_tensor(v) or v.shape[1:2] != (1,)]),
            "sigma": (levels.map(lambda s: s.clamp(0.01, 99)), [*LEVELS, torch.full((2,), 1e4)]),
        },
    ),
    "from_scheduler": (
        lambda net, scheduler: ddpm.from_scheduler(net, scheduler).sigmas,
        {
            "net": (st.just(lambda x, t: x), NO_CALL),
            "scheduler": SCHEDULERS,
        },
    ),
    "noise_levels": (ddpm.noise_levels, {"scheduler": SCHEDULERS}),
    "steps_at": (
        ddpm.steps_at,
        {
            "sigma": (levels.map(lambda s: s.clamp(0.01, 99)), [None, 1.0, "1", torch.full((2,), 1e4)]),
            "sigmas": (st.just(DDPM.sigmas), [None, 1.0, "1", DDPM.sigmas[None]]),
        },
    ),
}


test_what_is_accepted_gives_finite_numbers, test_what_is_outside_is_refused = cases(TABLE)


def test_a_condition_for_one_image_is_not_silently_the_batch():
    """One row of conditions for two images used to return a single image."""
    with pytest.raises(ValueError, match=r"cond must have shape \[2, 16\], got \[1, 16\]"):
        LOCAL(torch.zeros(2, 3, 8, 8), torch.ones(2), torch.zeros(1, 16))


def test_every_public_function_is_in_the_table():
    """Layers are exempt: only their net calls them."""
    elsewhere = {
        "normalize", "mp_silu", "mp_sum", "mp_shares", "mp_cat", "MPConv", "renormalize_", "MPFourier",
        "MCScale", "attend", "Attention", "Block", "LogVariance", "SampleOutput", "FocusedDenoiser",
        "load_ddpm",  # from the hub
    }  # fmt: skip
    modules = (ddpm, focus, fused, local_patch, magnitude_preserving, pipeline, precision, precond, unet)
    assert missing(TABLE, modules, elsewhere) == (set(), set())
