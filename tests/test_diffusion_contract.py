"""What sampler, locality, experiments and checkpoints accept and refuse, as a table (see contract.py)."""

from dataclasses import asdict

import numpy as np
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
    SEEDS,
    cases,
    generators,
    missing,
    tensors,
)
from hypothesis import strategies as st

from lcs_utils import checkpoints, diffusion, experiments, locality, locality_profile, nets, presets


def shrink(x_t, sigma, cond):
    """The denoiser of normal numbers, moved by the condition where there is one."""
    level = diffusion.expand(sigma, x_t) ** 2
    shift = (
        0
        if cond is None or not torch.is_tensor(cond)
        else 0.1 * cond.to(x_t.dtype).sum(-1).reshape(-1, 1, 1, 1)
    )
    return x_t / (1 + level) + shift


NO_TENSOR = ["x", None, [[0.0]], np.zeros((2, 3))]
NO_IMAGES = [*NO_TENSOR, torch.zeros(2, 3, 4, 4).long(), torch.zeros(2, 3, 4, 4).to(torch.complex64)]
NO_IMAGE = [*NO_IMAGES, torch.zeros(2, 3, 4, 4), torch.zeros(4, 5)]
LEVELS = ["1", None, 1.0, [1.0, 1.0], torch.ones(3), torch.ones(2, 1), torch.tensor([1.0, 0.0])]
LEVELS += [torch.tensor([-1.0, 1.0]), torch.tensor([NAN, 1.0]), torch.tensor([INF, 1.0])]
SCHEDULES = [
    "karras",
    None,
    [1.0, 0.0],
    torch.tensor([1.0]),
    torch.tensor([1.0, 0.5]),
    torch.tensor([1.0, 1.0, 0.0]),
]
SCHEDULES += [torch.tensor([NAN, 0.0]), torch.tensor([INF, 0.0]), torch.zeros(0), torch.ones(2, 2)]
SIGMA = [*NUMBER, 0.0, -1.0]
levels = tensors(2, positive=True)
noise_levels = st.floats(0.01, 50)
images = tensors(2, 3, 4, 4)
image = tensors(3, 4, 5)
schedules = st.builds(diffusion.karras_sigmas, st.integers(1, 4))
targets = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 4)), min_size=1, max_size=3)
TARGETS = [
    "ab",
    None,
    3,
    [],
    [(0,)],
    [(0, 1, 2)],
    [(4, 0)],
    [(0, -1)],
    [("0", "1")],
    [(0.5, 1)],
    ["01"],
    torch.zeros(1, 2),
    torch.zeros(2).long(),
]
condition = st.sampled_from([torch.tensor([1.0, 0.0, 2.0]), torch.tensor([1.0, 1.0, 1.0])])
left_out = st.just({0: torch.tensor([0.0, 0.0, 2.0]), 2: torch.tensor([1.0, 0.0, 0.0])})
NO_REST = ["c", None, {}, [torch.zeros(3)], {0: torch.zeros(2)}, {0: "c"}, {0: None}]
maps = st.builds(lambda x: x.abs(), tensors(2, 4, 5))
squares = st.builds(lambda x: x.abs() + 0.1, tensors(2, 4, 4))
names = st.sampled_from(["exp1", "nobody", "exp1@320", "some_net_seed1"])
NO_CHECKPOINT = ["", None, 3, ["exp1"], b"exp1", "exp1@all", "exp1@"]
NO_PRESET = ["", None, 3, "a/b", ".."]


def found(function):
    """A missing checkpoint is not a bad call: its own error says how to make it."""

    def call(name, preset):
        try:
            return len(str(function(name, preset)))
        except nets.CheckpointError as error:
            return len(str(error))

    return call


BY_NAME = {"name": (names, NO_CHECKPOINT), "preset": (st.sampled_from(["tiny", "small", "mine"]), NO_PRESET)}

TABLE = {
    "from_uint8": (
        lambda images: [diffusion.from_uint8(images), 0.0],
        {
            "images": (
                st.sampled_from([np.zeros((2, 3), np.uint8), torch.ones(0, 3).byte(), torch.ones(2).byte()]),
                ["bytes", None, [0, 255], np.zeros(3), torch.zeros(3), torch.zeros(3).long(), b"\x00"],
            )
        },
    ),
    "expand": (
        diffusion.expand,
        {"sigma": (levels, LEVELS[:6]), "like": (images, ["x", None, torch.zeros(3, 1), torch.zeros(())])},
    ),
    "check_positive": (
        lambda sigma: diffusion.check_positive(sigma) or 0.0,
        {"sigma": (levels, [*LEVELS[:4], *LEVELS[6:]])},
    ),
    "add_noise": (
        diffusion.add_noise,
        {
            "x0": (images, [*NO_IMAGES, torch.zeros(3, 1), torch.zeros(())]),
            "sigma": (levels, LEVELS),
            "generator": (st.none() | generators, NO_GENERATOR[1:]),
        },
    ),
    "score": (
        diffusion.score,
        {
            "denoise": (st.just(shrink), NO_CALL),
            "x_t": (images, NO_IMAGES),
            "sigma": (levels, LEVELS),
            "cond": (st.none(), []),
        },
    ),
    "training_sigmas": (
        lambda **k: [diffusion.training_sigmas(**k), diffusion.training_sigmas(**k).log()],
        {
            "batch": (st.integers(1, 9), [*COUNT, 0]),
            "generator": (generators, NO_GENERATOR),
            "p_mean": (st.floats(-20, 20), [*NUMBER, 99.0]),
            "p_std": (st.floats(0, 10), [*NUMBER, -1.0, 99.0]),
        },
    ),
    "uniform_sigmas": (
        lambda **k: [diffusion.uniform_sigmas(**k), diffusion.uniform_sigmas(**k).log()],
        {
            "batch": (st.integers(1, 9), [*COUNT, 0]),
            "generator": (generators, NO_GENERATOR),
            "low": (st.floats(0.01, 0.1), [*NUMBER, 0.0, -1.0, 99.0]),
            "high": (st.floats(0.2, 9), [*NUMBER, 0.0, -1.0]),
        },
    ),
    "loss_weight": (
        diffusion.loss_weight,
        {
            "sigma": (levels, [*LEVELS[:4], *LEVELS[6:]]),
            "sigma_data": (st.floats(0.01, 9), [*NUMBER, 0.0, -1.0]),
        },
    ),
    "karras_sigmas": (
        diffusion.karras_sigmas,
        {
            "steps": (st.integers(1, 50), [*COUNT, 0]),
            "sigma_min": (st.floats(1e-6, 0.1), [*NUMBER, 0.0, -1.0, 2e6]),
            "sigma_max": (st.floats(0.1, 1e6), [*NUMBER, 0.0, -1.0]),
            "rho": (st.floats(1, 100), [*NUMBER, 0.0, -7.0]),
        },
    ),
    "check_schedule": (diffusion.check_schedule, {"sigmas": (schedules, SCHEDULES)}),
    "sample": (
        lambda **k: diffusion.final(diffusion.sample(**k)),
        {
            "denoise": (st.just(shrink), NO_CALL),
            "noise": (images, NO_IMAGES),
            "sigmas": (schedules, SCHEDULES),
            "cond": (st.none() | st.just(torch.ones(2, 3)), []),
            "solver": (st.sampled_from(diffusion.SOLVERS), NAME),
            "eta": (st.floats(0, 10), [*NUMBER, -1.0]),
        },
    ),
    "sample by the reverse SDE": (
        lambda **k: diffusion.final(diffusion.sample(solver=diffusion.SDE, cond=None, **k)),
        {
            "denoise": (st.just(shrink), NO_CALL),
            "noise": (images, NO_IMAGES),
            "sigmas": (schedules, SCHEDULES),
            "generators": (st.tuples(generators, generators), [None, 3, [3, 4], [torch.Generator()]]),
            "eta": (st.floats(0, 10), [*NUMBER, -1.0]),
        },
    ),
    "final": (
        diffusion.final,
        {
            "steps": (
                st.just([diffusion.Step(torch.zeros(2), 0.0, torch.zeros(2))]),
                [None, 3, [], "ab", [1.0]],
            )
        },
    ),
    "check_targets": (
        locality.check_targets,
        {
            "targets": (targets | targets.map(torch.tensor), TARGETS),
            "height": (st.just(4), []),
            "width": (st.just(5), []),
        },
    ),
    "check_point": (
        lambda **k: locality.check_point(**k) or 0.0,
        {"denoise": (st.just(shrink), NO_CALL), "x_t": (image, NO_IMAGE), "sigma": (noise_levels, SIGMA)},
    ),
    "pixel_influence": (
        locality.pixel_influence,
        {
            "denoise": (st.just(shrink), NO_CALL),
            "x_t": (image, NO_IMAGE),
            "sigma": (noise_levels, SIGMA),
            "cond": (st.none(), []),
            "targets": (targets, TARGETS),
            "chunk": (st.integers(1, 3), [*COUNT, 0]),
        },
    ),
    "without_each": (
        locality.without_each,
        {
            "cond": (condition, ["c", None, [1.0, 0.0], torch.zeros(2, 3), torch.zeros(())]),
            "removed": (st.none() | st.just([2]), ["2", 2, [1.5], [9], [-1], ["2"]]),
        },
    ),
    "condition_influence": (
        locality.condition_influence,
        {
            "denoise": (st.just(shrink), NO_CALL),
            "x_t": (image, NO_IMAGE),
            "sigma": (noise_levels, SIGMA),
            "cond": (st.just(torch.tensor([1.0, 0.0, 2.0])), []),
            "without": (left_out, NO_REST),
            "chunk": (st.integers(1, 3), [*COUNT, 0]),
        },
    ),
    "locality_window": (
        locality.locality_window,
        {
            "influence": (
                maps,
                [
                    *NO_TENSOR,
                    torch.ones(4, 5),
                    torch.ones(3, 4, 5),
                    torch.full((2, 4, 5), NAN),
                    -torch.ones(2, 4, 5),
                ],
            ),
            "targets": (st.just([(0, 0), (3, 4)]), TARGETS),
            "share": (st.floats(0.01, 1), [*NUMBER, 0.0, 1.5, -1.0]),
            "power": (st.floats(0.1, 4), [*NUMBER, 0.0, -1.0]),
        },
    ),
    "conditional_locality": (
        locality.conditional_locality,
        {
            "influence": (
                squares,
                [
                    *NO_TENSOR,
                    torch.ones(4, 4),
                    torch.ones(3, 4, 4),
                    torch.ones(2, 4, 5),
                    torch.full((2, 4, 4), NAN),
                    -torch.ones(2, 4, 4),
                ],
            ),
            "cells": (st.just([0, 3]), ["03", None, [], [0, 4], [0, -1], [0, 1.5], [0]]),
            "grid_size": (st.just(2), [*COUNT, 0, 3]),
            "reach": (st.integers(0, 3), COUNT),
            "around": (st.integers(0, 3), COUNT),
        },
    ),
    "profile": (
        lambda **k: list(locality_profile.profile(**k)),
        {
            "denoise": (st.just(shrink), NO_CALL),
            "x0": (image, NO_IMAGE),
            "eps": (tensors(3, 4, 5), NO_IMAGE),
            "sigmas": (st.just([0.1, 2.0]), ["1", None, [], [0.0], [-1.0], ["1"], 1.0, [NAN]]),
            "cond": (st.just(torch.tensor([1.0, 0.0, 2.0])), []),
            "without": (left_out | st.just({}), ["c", [torch.zeros(3)], {0: torch.zeros(2)}]),
            "targets": (targets, TARGETS),
            "chunk": (st.integers(1, 3), [*COUNT, 0]),
        },
    ),
    "Experiment": (
        lambda **k: experiments.Experiment(**k).labeled_share,
        {
            "name": (st.just("mine"), ["", None, 3]),
            "objects": (
                st.tuples(st.integers(0, 3), st.integers(3, 9)),
                ["13", None, 3, (1,), (3, 1), (-1, 2), (1, 2, 3), (1.5, 2), ("1", "3"), (0, 64)],
            ),
            "labels": (st.sampled_from(["all", "single", "none"]), NAME),
            "radius": (st.none(), [1.5, "3", NAN, -1, 0]),
            "condition": (st.sampled_from(experiments.CONDITIONS), NAME),
            "normalize_label": (st.booleans(), FLAG),
            "times": (st.integers(1, 4), [*COUNT, 0]),
        },
    ),
    "net": (lambda seed: len(experiments.EXP1.net(seed)), {"seed": (SEEDS, COUNT)}),
    "Preset": (
        lambda **k: presets.Preset(**k).images,
        {
            "name": (st.just("mine"), ["", None, 3]),
            "resolution": (st.just(32), [*COUNT, 0]),
            "net": (st.just({}), ["net", None, []]),
            "patch_net": (st.just({}), ["net", None, []]),
            "images": (st.integers(1, 9), [*COUNT, 0]),
            "patch_images": (st.integers(1, 9), [*COUNT, 0]),
            "batch": (st.integers(1, 9), [*COUNT, 0]),
            "learning_rate": (st.floats(1e-6, 1), [*NUMBER, 0.0, -1.0]),
            "per_count": (st.integers(1, 9), [*COUNT, 0]),
            "sigma_data": (st.floats(0.01, 1), [*NUMBER, 0.0, -1.0]),
            "at_once": (st.integers(1, 9), [*COUNT, 0]),
        },
    ),
    "length": (
        lambda exp: presets.preset("tiny").length(exp),
        {"exp": (st.sampled_from(list(experiments.EXPERIMENTS.values())), [None, "exp1", 3])},
    ),
    "experiment": (
        lambda name: experiments.experiment(name).times,
        {"name": (st.sampled_from(list(experiments.EXPERIMENTS)), NAME)},
    ),
    "preset": (
        lambda name: presets.preset(name).images,
        {"name": (st.sampled_from(list(presets.PRESETS)), NAME)},
    ),
    "of_row": (
        lambda row: presets.of_row(row)[1].images,
        {
            "row": (
                st.sampled_from(list(experiments.EXPERIMENTS.values())).map(
                    lambda exp: asdict(exp) | {"experiment": exp.name, "preset": "tiny"}
                ),
                [
                    None,
                    "exp1",
                    {},
                    {"experiment": "exp1"},
                    {"experiment": "exp1", "objects": [1, 3], "preset": "mine"},
                    {"experiment": "exp1", "objects": 3, "preset": "tiny"},
                    {"experiment": "exp1", "objects": [1, 3], "preset": ["tiny"]},
                    {"experiment": ["exp1"], "objects": [1, 3], "preset": "tiny"},
                    {"experiment": "exp1", "objects": [1, 3], "preset": "tiny", "settings": 3},
                    {"experiment": "exp1", "objects": [1, 3], "preset": "tiny", "settings": {"images": -1}},
                ],
            )
        },
    ),
    "check_name": (lambda **k: nets.check_name(**k) or 0.0, BY_NAME),
    "folder": (found(nets.folder), BY_NAME),
    "training_command": (found(nets.training_command), BY_NAME),
    "row": (found(nets.verified_row), BY_NAME),
    "kept_row": (found(nets.row), BY_NAME),
    "images": (found(nets.images_seen), BY_NAME),
    "load": (found(checkpoints.load), BY_NAME),
    "loss_curve": (found(checkpoints.loss_curve), BY_NAME),
    "kept": (found(checkpoints.kept), BY_NAME),
    "halve": (
        lambda net: float(checkpoints.halve(net) or 0.0),
        {"net": (st.builds(torch.nn.Linear, st.just(2), st.just(2)), [None, "net", torch.zeros(2)])},
    ),
}


test_what_is_accepted_gives_finite_numbers, test_what_is_outside_is_refused = cases(TABLE)


def test_every_public_function_is_in_the_table():
    elsewhere = {
        "Step",
        "Look",
        "Profile",
        "batched",  # anything is a condition
        "within_squares",  # of locality_window
        "is_trial",  # of `preset`
        "parse_preset",
        "scene_counts",  # of an Experiment
        "check_device",  # of `load`
        "write_loss",  # these write or list files
        "save",
        "model_card",
        "origin",
        "record",
        "keep",
        "data_index",
    }
    modules = (diffusion, locality, locality_profile, experiments, presets, checkpoints)
    assert missing(TABLE, modules, elsewhere) == (set(), set())
