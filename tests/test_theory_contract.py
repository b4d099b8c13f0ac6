"""What lcs_utils.theory accepts and refuses, as a table (see contract.py)."""

import pytest
import torch
from contract import (
    COUNT,
    INF,
    NAN,
    NO_GENERATOR,
    NUMBER,
    SEEDS,
    cases,
    generators,
    missing,
    seeded,
    tensors,
)
from hypothesis import strategies as st

from lcs_utils.swing_by import closed_form as swing_by
from lcs_utils.swing_by import curves, disks, initial, two_concepts
from lcs_utils.theory import (
    approximate_cpc,
    blob_scenes,
    blobs,
    cpc,
    distributions,
    divergence,
    feature_cpc,
    feature_space,
    fitted_cpc,
    lcs,
    lcs_alternatives,
    local_denoiser,
    results,
    windows,
)
from lcs_utils.theory.distributions import GaussianMixture, Product, gaussian


def spread(seed, n):
    a = torch.randn(n, n, generator=seeded(seed), dtype=torch.float64)
    return a @ a.T + 0.1 * torch.eye(n, dtype=torch.float64)


def normal(seed, n):
    return gaussian(torch.randn(n, generator=seeded(seed)), spread(seed, n))


def mixture(seed, n, k=2):
    means = torch.randn(k, n, generator=seeded(seed))
    return GaussianMixture(
        torch.full((k,), 1 / k), means, torch.stack([spread(seed + i, n) for i in range(k)])
    )


def laws(n):
    pair = st.builds(
        lambda a, b: Product(((0,), tuple(range(1, n))), (mixture(a, 1), mixture(b, n - 1))), SEEDS, SEEDS
    )
    return st.builds(mixture, SEEDS, st.just(n)) | (pair if n > 1 else st.nothing()) | normals(n)


FAMILY, M = approximate_cpc.coupled_family(0.3, 0.2)
COMPOSITION = cpc.ConditionalProjectiveComposition(
    {"ab": (0, 2), "c": (1,)}, mixture(1, 4), {"ab": mixture(2, 2), "c": normal(3, 1)}
)
PLANE = cpc.ConditionalProjectiveComposition(
    {"u": (0,), "v": (1,)}, mixture(4, 2), {"u": mixture(5, 1), "v": normal(6, 1)}
)
FEATURES = feature_cpc.FeatureCPC(PLANE, feature_cpc.LinearMap([[1.0, 0.8], [-0.3, 1.5]]))
SMALL = blobs.Blobs(grid_size=3, cell=1)
IMAGES, GRIDS = torch.rand(4, 3, 4, 4, generator=seeded(0)) * 2 - 1, torch.eye(4)
DISKS = two_concepts.Disks()


def normals(n):
    return st.builds(normal, SEEDS, st.just(n))


LEVELS = ["1", None, torch.ones(2), torch.full((3,), -1.0), torch.full((3,), NAN), torch.ones(3, 1)]
SETS = ["ab", "c", b"ab", 3, None, [["c"]], {"z"}]
PIXELS = [
    {"c": (0, 0)},
    {"c": (-1,)},
    {"c": (99,)},
    {"c": "0"},
    {"c": (0.5,)},
    [(0,)],
    None,
    {"a": (0,), "b": (0,)},
]
NO_LAW = ["p", None, torch.zeros(2), 3]
NO_START = [None, "W", torch.eye(2), torch.eye(3) + NAN, torch.ones(2, 3, 3), torch.ones(3), torch.ones(())]
TIMES = [torch.tensor([-1.0]), torch.tensor([2.0, 1.0]), [1.0], None, torch.tensor([NAN]), torch.zeros(0)]


def bad_points(n):
    x = torch.zeros(3, n)
    return [
        "x",
        None,
        [[0.0] * n],
        torch.zeros(3, n + 1),
        torch.zeros(n),
        x + NAN,
        x + INF,
        x.bool(),
        x.to(torch.complex64),
    ]


any_level = tensors(3, positive=True)
sets = st.sets(st.sampled_from(["ab", "c"])) | st.lists(st.sampled_from(["ab", "c"]), max_size=2, unique=True)
family_sets = st.sets(st.sampled_from(list(M)))
rates = tensors(3, positive=True)
starts = st.builds(lambda seed: initial.random_starts(1, 3, 1.0, seeded(seed))[0], SEEDS)

# name: (function, {argument: (strategy of what is accepted, values that are refused)})
TABLE = {
    "GaussianMixture": (
        lambda **k: GaussianMixture(**k).mean,
        {
            "weights": (
                st.just([0.25, 0.75]),
                ["half", [0.5, 0.6], [1.5, -0.5], [NAN, 1.0], [[0.5, 0.5]], [1.0], None],
            ),
            "means": (
                tensors(2, 3),
                ["mean", torch.zeros(2, 2), torch.zeros(3), torch.full((2, 3), NAN), None],
            ),
            "covs": (
                st.builds(lambda s: torch.stack([spread(s, 3), spread(s + 1, 3)]), SEEDS),
                [
                    "cov",
                    torch.zeros(2, 3, 3),
                    torch.eye(3),
                    torch.ones(2, 3, 3),
                    torch.full((2, 3, 3), NAN),
                    None,
                ],
            ),
        },
    ),
    "gaussian": (
        lambda **k: gaussian(**k).mean,
        {
            "mean": (tensors(2), [0.0, "m", [[0.0, 0.0]], [NAN, 0.0], [0.0], None]),
            "cov": (
                st.builds(spread, SEEDS, st.just(2)),
                [1.0, [[1.0]], -torch.eye(2), torch.tensor([1e7, 1e-8]).diag(), None],
            ),
        },
    ),
    "Product": (
        lambda **k: Product(**k).mean,
        {
            "blocks": (
                st.just(((1,), (0, 2))),
                [((0,), (0, 1)), ((0,), (2, 3)), "01", (("0",), (1, 2)), (), None, ((0,),), 3],
            ),
            "factors": (
                st.builds(lambda s: (normal(s, 1), mixture(s, 2)), SEEDS),
                [(), "pq", ("p", "q"), None, (normal(0, 1), normal(1, 1))],
            ),
        },
    ),
    "log_prob": (
        lambda p, x, sigma: p.log_prob(x, sigma),
        {
            "p": (laws(3), []),
            "x": (tensors(3, 3), bad_points(3)),
            "sigma": (any_level, [s for s in LEVELS if s is not None]),
        },
    ),
    "score": (
        lambda p, x, sigma: p.score(x, sigma),
        {
            "p": (laws(3), []),
            "x": (tensors(3, 3), bad_points(3)),
            "sigma": (any_level, [s for s in LEVELS if s is not None]),
        },
    ),
    "denoise": (
        lambda p, x_t, sigma: p.denoise(x_t, sigma),
        {
            "p": (laws(3), []),
            "x_t": (tensors(3, 3) | tensors(3, 3, 1, 1), [*bad_points(3), torch.zeros(3, 3).long()]),
            "sigma": (any_level, LEVELS),
        },
    ),
    "sample": (
        lambda p, batch, generator: p.sample(batch, generator),
        {
            "p": (laws(2), []),
            "batch": (st.integers(1, 5), [*COUNT, 0]),
            "generator": (generators, NO_GENERATOR),
        },
    ),
    "noised": (
        lambda p, sigma: p.noised(sigma).mean,
        {"p": (laws(2), []), "sigma": (st.floats(0, 1e20), [*NUMBER, -1.0, 1e200])},
    ),
    "marginal": (
        lambda p, idx: p.marginal(idx).mean,
        {"p": (laws(3), []), "idx": (st.permutations([0, 2]), [[3], [0, 0], "0", [0.5], None, [], [-1]])},
    ),
    "pushforward": (
        lambda p, matrix, shift: p.pushforward(matrix, shift).mean,
        {
            "p": (st.builds(mixture, SEEDS, st.just(2)), []),
            "matrix": (
                st.builds(spread, SEEDS, st.just(2)),
                [torch.eye(3), [[0.0, 0.0]], "A", None, [1.0, 0.0]],
            ),
            "shift": (st.floats(-9, 9) | tensors(2), [torch.zeros(3), "s", NAN, None]),
        },
    ),
    "kl": (
        divergence.kl,
        {
            "p": (laws(2), [*NO_LAW, normal(0, 3)]),
            "q": (laws(2), [*NO_LAW, normal(0, 3)]),
            "samples": (st.integers(2, 99), [*COUNT, 1]),
            "generator": (generators, [0, "seed"]),
        },
    ),
    "ConditionalProjectiveComposition": (
        lambda M, background, concepts: (
            cpc.ConditionalProjectiveComposition(M, background, concepts)(["c"]).mean
        ),
        {
            "M": (st.just({"c": (1, 2)}), PIXELS),
            "background": (laws(4), [*NO_LAW, normal(0, 2)]),
            "concepts": (
                st.just({"c": normal(0, 2)}),
                [{}, None, {"c": normal(0, 1)}, {"c": "p"}, {"d": normal(0, 2)}],
            ),
        },
    ),
    "composition": (lambda J: COMPOSITION(J).mean, {"J": (sets, SETS)}),
    "composition.denoise": (
        COMPOSITION.denoise,
        {
            "x_t": (tensors(3, 4), bad_points(4)),
            "sigma": (any_level, LEVELS),
            "cond": (sets, [s for s in SETS if s is not None]),
        },
    ),
    "ideal": (
        lambda family, M, J: approximate_cpc.ideal(family, M, J).mean,
        {
            "family": (st.just(FAMILY), [None, "f", lambda J: 3]),
            "M": (st.just(M), PIXELS),
            "J": (family_sets, SETS),
        },
    ),
    "blockwise": (
        lambda family, M, J: approximate_cpc.blockwise(family, M, J).mean,
        {
            "family": (st.just(FAMILY), [None, "f", lambda J: 3]),
            "M": (st.just(M), PIXELS),
            "J": (family_sets, SETS),
        },
    ),
    "approximate_cpc_errors": (
        approximate_cpc.approximate_cpc_errors,
        {
            "family": (st.just(FAMILY), [None, "f"]),
            "M": (st.just(M), PIXELS),
            "Js": (st.lists(family_sets, min_size=1, max_size=3), ["ab", [], [0], None, ["a"]]),
            "sigma": (st.floats(0, 9), [*NUMBER, -1.0]),
        },
    ),
    "coupled_family": (
        lambda **dials: approximate_cpc.coupled_family(**dials)[0](frozenset([0])).mean,
        {
            "light": (st.floats(0, 9), [*NUMBER, -0.1]),
            "spill": (st.floats(-9, 9), NUMBER),
            "blocks": (st.integers(1, 3), [*COUNT, 0]),
            "width": (st.integers(1, 3), [*COUNT, 0]),
            "background": (st.integers(0, 2), COUNT),
        },
    ),
    "fit_cpc": (
        lambda draws, M: fitted_cpc.fit_cpc(draws, M)([0]).mean,
        {
            "draws": (
                st.builds(
                    lambda s: [
                        ((), torch.randn(9, 2, generator=seeded(s))),
                        ((0,), torch.randn(9, 2, generator=seeded(s))),
                    ],
                    SEEDS,
                ),
                [
                    [],
                    None,
                    [((), torch.zeros(9, 2))],
                    [((), torch.randn(2, 2)), ([0], torch.randn(2, 2))],
                    [("0", torch.randn(9, 2))],
                    [torch.zeros(2)],
                ],
            ),
            "M": (st.just({0: (0,)}), [*PIXELS, {0: (0,), 1: (1,)}]),
        },
    ),
    "LinearMap": (
        lambda matrix, x: feature_cpc.LinearMap(matrix).forward(x),
        {
            "matrix": (
                st.builds(spread, SEEDS, st.just(2)),
                [
                    [[1.0, 2.0], [2.0, 4.0]],
                    torch.ones(2, 3),
                    "A",
                    None,
                    [1.0],
                    torch.zeros(0, 0),
                    [[NAN, 0.0], [0.0, 1.0]],
                ],
            ),
            "x": (tensors(3, 2), bad_points(2)),
        },
    ),
    "CouplingMap": (
        lambda scale, bend, z: feature_cpc.CouplingMap(scale, bend).inverse(z),
        {
            "scale": (st.floats(-1, 1), [*NUMBER, 11.0]),
            "bend": (st.floats(-1, 1), NUMBER),
            "z": (tensors(3, 2), bad_points(2)),
        },
    ),
    "FeatureCPC": (
        lambda features, transform: feature_cpc.FeatureCPC(features, transform).sample(2, seeded(0)),
        {
            "features": (st.just(PLANE), [None, "p", FAMILY, COMPOSITION]),
            "transform": (
                st.just(feature_cpc.CouplingMap()),
                [None, "A", torch.eye(2), feature_cpc.LinearMap(torch.eye(3))],
            ),
        },
    ),
    "lemma_1_subsets": (
        lambda **k: torch.tensor(lcs.lemma_1_subsets(**k).N[0]),
        {
            "M": (st.just({"ab": (0, 2), "c": (1,)}), PIXELS),
            "n": (st.integers(3, 6), [*COUNT, 2]),
            "J": (sets, SETS),
        },
    ),
    "inactive_block_subsets": (
        lambda **k: torch.tensor(lcs_alternatives.inactive_block_subsets(**k).N[0]),
        {
            "M": (st.just({"ab": (0, 2), "c": (1,)}), PIXELS),
            "n": (st.integers(3, 6), [*COUNT, 2]),
            "J": (sets, SETS),
        },
    ),
    "window_subsets": (
        lambda **k: torch.tensor(lcs_alternatives.window_subsets(**k).N[0]),
        {"n": (st.integers(1, 6), [*COUNT, 0]), "radius": (st.integers(0, 9), COUNT)},
    ),
    "local_conditional_score": (
        lcs.local_conditional_score,
        {
            "family": (st.just(COMPOSITION), [None, "f", lambda J: normal(0, 5)]),
            "x": (tensors(3, 4), bad_points(4)),
            "sigma": (any_level, [s for s in LEVELS if s is not None]),
            "subsets": (
                st.builds(COMPOSITION.subsets, sets),
                [
                    None,
                    "N",
                    lcs.Subsets((), ()),
                    lcs.Subsets(((1,),) * 4, ((),) * 4),
                    lcs.Subsets(((0, 1, 2, 3),) * 4, ("c",) * 4),
                ],
            ),
        },
    ),
    "sum_of_scores": (
        lcs_alternatives.sum_of_scores,
        {
            "family": (st.just(COMPOSITION), [None, "f"]),
            "x": (tensors(3, 4), bad_points(4)),
            "sigma": (any_level, [s for s in LEVELS if s is not None]),
            "J": (sets, SETS),
        },
    ),
    "local_conditional_denoiser": (
        lambda subsets_of, x_t, sigma, cond: lcs.local_conditional_denoiser(COMPOSITION, subsets_of)(
            x_t, sigma, cond
        ),
        {
            "subsets_of": (st.just(COMPOSITION.subsets), [None, "s"]),
            "x_t": (tensors(3, 4), bad_points(4)),
            "sigma": (any_level, LEVELS),
            "cond": (sets, SETS),
        },
    ),
    "local_conditional_denoiser by noise": (
        lambda x_t, sigma, cond: lcs.local_conditional_denoiser(
            COMPOSITION, lambda J, level: COMPOSITION.subsets(J), by_noise=True
        )(x_t, sigma, cond),
        {
            "x_t": (tensors(3, 4), [*bad_points(4), torch.zeros(0, 4), torch.zeros(())]),
            "sigma": (any_level, [*LEVELS, torch.zeros(0)]),
            "cond": (sets, SETS),
        },
    ),
    "Sides.gap": (
        lambda left, right: results.Sides(left, right).gap,
        {
            "left": (tensors(3), [torch.zeros(2), torch.zeros(3, 1), torch.zeros(0)]),
            "right": (tensors(3), [torch.zeros(2)]),
        },
    ),
    "lemma_1": (
        results.lemma_1,
        {
            "cpc": (st.just(COMPOSITION), [FAMILY, None]),
            "x": (tensors(3, 4), bad_points(4)),
            "sigma": (any_level, [s for s in LEVELS if s is not None]),
            "J": (sets, SETS),
        },
    ),
    "path_integral": (
        results.path_integral,
        {
            "score": (st.just(lambda x: -x), [None, "s"]),
            "start": (tensors(2), [None, 0.0, torch.zeros(1, 2), torch.full((2,), NAN)]),
            "stop": (tensors(2), [None, torch.zeros(3)]),
            "nodes": (st.integers(1, 9), [*COUNT, 0]),
        },
    ),
    "converse": (
        results.converse,
        {
            "family": (st.just(FAMILY), [None, "f"]),
            "M": (st.just(M), PIXELS),
            "J": (family_sets, SETS),
            "start": (tensors(8), [None, torch.zeros(3)]),
            "stop": (tensors(8), [None, torch.zeros(3)]),
            "sigma": (st.floats(0, 9), [None, -1.0, "1"]),
            "nodes": (st.integers(1, 9), [*COUNT, 0]),
        },
    ),
    "lemma_2": (
        results.lemma_2,
        {
            "family": (st.just(FAMILY), [None, "f"]),
            "M": (st.just(M), PIXELS),
            "J": (family_sets, SETS),
            "Js": (st.none() | st.just([(0,)]), ["ab", [], [0]]),
            "sigma": (st.floats(0, 9), [None, -1.0, "1"]),
        },
    ),
    "lemma_3": (
        results.lemma_3,
        {
            "family": (st.just(FAMILY), [None]),
            "M": (st.just(M), PIXELS),
            "Js": (st.just([(0,), (1, 2)]), ["ab", [], None]),
            "sigmas": (st.lists(st.floats(0, 9), min_size=1, max_size=2), [[], None, [-1.0], ["1"], 1.0]),
        },
    ),
    "claim_1": (
        results.claim_1,
        {
            "p": (laws(1), [*NO_LAW, mixture(0, 3)]),
            "q": (laws(1), [*NO_LAW, normal(0, 2)]),
            "t": (st.floats(0.1, 9), [*NUMBER, 0.0, -1.0]),
            "points": (st.just(201), [*COUNT, 2]),
        },
    ),
    "heat_equation": (
        results.heat_equation,
        {
            "p": (laws(2), NO_LAW),
            "x": (tensors(3, 2), bad_points(2)),
            "t": (st.floats(0.01, 9), [*NUMBER, 0.0, -1.0]),
        },
    ),
    "window_error": (
        windows.window_error,
        {
            "p": (normals(4), [*NO_LAW, mixture(0, 4)]),
            "sigma": (st.floats(0.01, 9), [*NUMBER, 0.0, -1.0]),
            "radius": (st.integers(0, 5), COUNT),
            "of": (st.sampled_from(windows.OF), ["law", None]),
        },
    ),
    "smallest_window": (
        windows.smallest_window,
        {
            "p": (normals(4), NO_LAW),
            "sigma": (st.floats(0.01, 9), [*NUMBER, 0.0]),
            "tolerance": (st.floats(0.01, 0.5), [*NUMBER, 0.0, 2.0]),
            "of": (st.sampled_from(windows.OF), ["law", None]),
        },
    ),
    "fitted_errors": (
        results.fitted_errors,
        {
            "family": (st.just(FAMILY), [None]),
            "M": (st.just(M), PIXELS),
            "shown": (st.just([(), (0,), (1, 2)]), ["ab", [], [(0,)]]),
            "Js": (st.just([(0, 1)]), ["ab", [], [("z",)]]),
            "draws": (st.integers(20, 50), [*COUNT, 2]),
            "generator": (generators, NO_GENERATOR),
        },
    ),
    "corollary_1": (
        feature_space.corollary_1,
        {
            "fcpc": (st.just(FEATURES), [None, PLANE]),
            "z": (tensors(1, 2), [v for v in bad_points(2) if not torch.is_tensor(v) or len(v) != 1]),
            "sigma": (
                st.builds(lambda s: torch.tensor([s]), st.floats(0.01, 9)),
                ["1", None, torch.zeros(1), torch.tensor([-1.0]), torch.ones(2)],
            ),
            "J": (st.sets(st.sampled_from(["u", "v"])), SETS),
        },
    ),
    "claim_2": (
        feature_space.claim_2,
        {
            "p": (normals(2), [*NO_LAW, mixture(0, 2)]),
            "matrix": (st.builds(spread, SEEDS, st.just(2)), [torch.zeros(2, 2), torch.eye(3), "A", None]),
            "sigmas": (st.lists(st.floats(0, 99), min_size=1, max_size=2), [[], None, [-1.0], ["1"], 1.0]),
        },
    ),
    "single_transform": (
        feature_space.single_transform,
        {
            "z": (normals(2), [*NO_LAW, mixture(0, 2)]),
            "matrix": (st.just([[1.0, 0.5], [0.0, 1.0]]), [torch.zeros(2, 2), torch.eye(3), None]),
            "switches": (st.just([0.0, 1.0]), [None, "1", [-1.0], [NAN]]),
            "steps": (st.integers(20, 22), [*COUNT, 0]),
            "used": (st.just([[1.0, 0.0], [0.5, 1.0]]), [torch.zeros(2, 2), torch.eye(3), "A"]),
        },
    ),
    "time_dependent_map": (
        feature_space.time_dependent_map,
        {
            "z": (normals(2), [*NO_LAW, mixture(0, 2)]),
            "matrix": (st.builds(spread, SEEDS, st.just(2)), [torch.zeros(2, 2), torch.eye(3), None]),
            "sigma": (st.floats(0, 99), [*NUMBER, -1.0]),
        },
    ),
    "Blobs": (
        lambda **k: blobs.Blobs(**k).means,
        {
            "grid_size": (st.integers(2, 5), [*COUNT, 0]),
            "cell": (st.integers(1, 3), [*COUNT, 0]),
            "noise": (st.floats(0.01, 1), [*NUMBER, 0.0, -1.0]),
            "count_law": (st.just((0.5, 0.5)), ["ab", (), (0.5, 0.6), (1.5, -0.5), (NAN, 1.0), None]),
            "palette": (st.just(((1, 2, 3),)), ["red", (), ((1, 2),), ((1, 2, 300),), None]),
        },
    ),
    "log_symmetric": (
        lambda **k: blobs.log_symmetric(**k)[-1],
        {
            "log_l": (tensors(2, 5), [None, "l", torch.zeros(()), torch.zeros(3, 0), torch.ones(3).long()]),
            "degree": (st.integers(0, 3), COUNT),
        },
    ),
    "evidence": (
        lambda x, sigma: SMALL.evidence(x, sigma)[0],
        {
            "x": (
                tensors(2, 3, 3, 3),
                ["x", None, torch.zeros(2, 3, 4, 4), torch.zeros(3, 3, 3), torch.full((2, 3, 3, 3), NAN)],
            ),
            "sigma": (tensors(2, positive=True), ["1", None, torch.ones(3), -torch.ones(2)]),
        },
    ),
    "scenes": (
        lambda batch, generator: SMALL.scenes(batch, generator)[0],
        {"batch": (st.integers(1, 5), [*COUNT, 0]), "generator": (generators, NO_GENERATOR)},
    ),
    "blobs.denoiser": (
        lambda labels, radius, strategy, x_t, sigma, cond: blobs.denoiser(SMALL, labels, radius, strategy)(
            x_t, sigma, cond
        ),
        {
            "labels": (st.sampled_from(blobs.LABELS), ["some", None, 1]),
            "radius": (st.none() | st.integers(0, 4), [-1, 0.5, "1"]),
            "strategy": (st.sampled_from(blobs.STRATEGIES), ["all", None]),
            "x_t": (tensors(2, 3, 3, 3), ["x", None, torch.zeros(2, 3, 4, 4), torch.full((2, 3, 3, 3), INF)]),
            "sigma": (tensors(2, positive=True), ["1", torch.ones(3), -torch.ones(2)]),
            "cond": (
                st.sampled_from([torch.eye(9)[3], torch.eye(9).bool()[4]]),
                ["grid", None, torch.zeros(8), torch.zeros(3, 9), torch.full((9,), NAN)],
            ),
        },
    ),
    "expected_objects": (
        blob_scenes.expected_objects,
        {
            "blobs": (st.just(SMALL), []),
            "labeled": (st.integers(1, 9), [*COUNT, 0, 10]),
            "strategy": (st.sampled_from(blobs.STRATEGIES), ["all", None]),
            "local": (st.booleans(), []),
        },
    ),
    "enumerate_scenes": (
        lambda blobs_, label: blob_scenes.enumerate_scenes(blobs_, label).weights,
        {
            "blobs_": (st.just(blobs.Blobs(grid_size=2, cell=1, count_law=(0.5, 0.5))), [blobs.Blobs()]),
            "label": (st.none() | st.integers(0, 3), [4, -1, 0.5, "0"]),
        },
    ),
    "box_sum": (
        local_denoiser.box_sum,
        {"maps": (tensors(4, 5, 2), [None, "m", torch.zeros(3)]), "radius": (st.integers(0, 9), COUNT)},
    ),
    "patch_denoiser": (
        lambda images, grids, radius, flip, x_t, sigma, cond: local_denoiser.patch_denoiser(
            images, grids, radius, flip
        )(x_t, sigma, cond),
        {
            "images": (
                st.just(IMAGES),
                [None, "i", IMAGES[:0], IMAGES[:3], IMAGES[:, :1], IMAGES + NAN, IMAGES[..., :3]],
            ),
            "grids": (st.just(GRIDS), [None, GRIDS[:, :3], GRIDS[0], GRIDS + NAN]),
            "radius": (st.integers(0, 3), COUNT),
            "flip": (st.floats(1e-9, 0.4), [*NUMBER, 0.0, 0.5]),
            "x_t": (tensors(2, 3, 4, 4), [None, torch.zeros(2, 3, 5, 5), torch.full((2, 3, 4, 4), NAN)]),
            "sigma": (
                st.sampled_from([torch.full((2,), s) for s in (1e-30, 0.1, 1e30)]),
                ["1", None, torch.zeros(2), torch.ones(3), -torch.ones(2)],
            ),
            "cond": (
                st.just(torch.ones(4)),
                ["x", None, torch.ones(3), torch.full((4,), NAN), torch.ones(4).to(torch.complex64)],
            ),
        },
    ),
    "Sim": (
        lambda mu, sigma, dim: swing_by.Sim(mu, sigma, dim).rates,
        {
            "mu": (st.just((1.0, 2.0)), [(), (1.0, 0.0), (1.0, -2.0), "12", None, (NAN, 1.0), (1.0,)]),
            "sigma": (st.just((0.1, 0.0)), [(0.1,), (-0.1, 0.1), "12", None, (NAN, 1.0)]),
            "dim": (st.integers(2, 5), [*COUNT, 1]),
        },
    ),
    "identity_loss": (
        swing_by.identity_loss,
        {
            "W": (tensors(3, 3).map(torch.Tensor.double), NO_START),
            "a": (rates.map(torch.Tensor.double), [None, -torch.ones(3), torch.ones(2), torch.zeros(0)]),
        },
    ),
    "two_layer_terms": (
        lambda W, a: list(swing_by.two_layer_terms(W, a)),
        {
            "W": (tensors(3, 3).map(torch.Tensor.double), NO_START),
            "a": (rates.map(torch.Tensor.double), [None, -torch.ones(3), torch.ones(2), torch.zeros(0)]),
        },
    ),
    "ood_loss": (
        swing_by.ood_loss,
        {
            "outputs": (tensors(5, 2), [None, "o", torch.zeros(5, 3), torch.zeros(())]),
            "target": (tensors(2), [None, torch.zeros(2), torch.ones(3)]),
        },
    ),
    "sample_loss": (
        lambda x, batch, generator: swing_by.sample_loss(x, batch, generator)(torch.eye(2)),
        {
            "x": (st.just(torch.ones(5, 2)), [None, torch.ones(2), torch.ones(0, 2)]),
            "batch": (st.integers(1, 5), [*COUNT, 0, 6]),
            "generator": (generators, NO_GENERATOR),
        },
    ),
    "descend": (
        lambda parameter, loss, rate, steps: list(swing_by.descend(parameter, loss, rate, steps))[-1],
        {
            "parameter": (tensors(2, 2), [None, "W", torch.eye(2).long()]),
            "loss": (st.just(lambda W: W.square().sum()), [None, 1.0]),
            "rate": (st.floats(0.01, 0.1), [*NUMBER, 0.0, -1.0]),
            "steps": (st.integers(0, 3), COUNT),
        },
    ),
    "one_layer": (
        swing_by.one_layer,
        {
            "W0": (tensors(3, 3), NO_START),
            "a": (rates, [None, -torch.ones(3), torch.ones(2)]),
            "times": (
                st.just(torch.tensor([0.0, 1.0])),
                [v for v in TIMES if not torch.is_tensor(v) or len(v) != 2],
            ),
        },
    ),
    "two_layer_flow": (
        lambda W0, a, times: list(swing_by.two_layer_flow(W0, a, times))[-1],
        {
            "W0": (
                starts | starts.map(lambda W: 1e6 * W),
                [
                    None,
                    torch.eye(2),
                    torch.ones(3, 3).triu(),
                    -torch.eye(3),
                    torch.eye(3) * NAN,
                    torch.zeros(0, 3, 3),
                ],
            ),
            "a": (st.just(torch.tensor([0.0, 0.5, 2.0]).double()), [None, -torch.ones(3), torch.ones(2)]),
            "times": (st.just(torch.tensor([0.0, 1.0])), [*TIMES, torch.tensor([1e12])]),
        },
    ),
    "random_starts": (
        initial.random_starts,
        {
            "count": (st.integers(1, 3), [*COUNT, 0]),
            "dim": (st.integers(1, 3), [*COUNT, 0]),
            "scale": (st.floats(0.01, 9), [*NUMBER, 0.0, -1.0]),
            "generator": (generators, NO_GENERATOR),
        },
    ),
    "uniform_starts": (
        initial.uniform_starts,
        {
            "count": (st.integers(1, 3), [*COUNT, 0]),
            "dim": (st.integers(1, 3), [*COUNT, 0]),
            "generator": (generators, NO_GENERATOR),
            "most": (st.floats(0.01, 9), [*NUMBER, 0.0, -1.0]),
        },
    ),
    "stepped_w": (
        swing_by.stepped_w,
        {
            "W0": (starts, [None, torch.ones(2, 2), torch.eye(3) * NAN, torch.zeros(0, 3, 3)]),
            "a": (st.just(torch.tensor([0.0, 0.5, 2.0]).double()), [None, -torch.ones(3), torch.ones(2)]),
            "step": (st.floats(0.001, 0.01), [*NUMBER, 0.0, -1.0]),
            "steps": (st.integers(0, 3), [*COUNT, -1]),
        },
    ),
    "rise": (
        curves.rise,
        {"loss": (tensors(2, 5), [None, [1.0], torch.zeros(2, 0), torch.tensor([NAN]), torch.zeros(())])},
    ),
    "count_descents": (
        curves.count_descents,
        {
            "loss": (tensors(5), [None, [1.0], torch.zeros(0), torch.zeros(2, 2), torch.tensor([NAN])]),
            "tolerance": (st.floats(0.01, 9), [*NUMBER, 0.0, -1.0]),
        },
    ),
    "learning_times": (
        lambda **k: curves.learning_times(**k).nan_to_num(posinf=0.0),
        {
            "W": (tensors(2, 3, 3), [None, torch.eye(3), torch.zeros(3, 3, 3)]),
            "times": (
                st.sampled_from([torch.tensor([0.0, 1.0]), torch.tensor([0, 3])]),
                [None, torch.zeros(3), torch.tensor([-1.0, 0.0]), torch.zeros(2), torch.tensor([2.0, 1.0])],
            ),
            "concepts": (st.integers(1, 3), [*COUNT, 0, 4]),
        },
    ),
    "Disks": (
        lambda **k: two_concepts.Disks(**k).radii,
        {
            "separation": (st.floats(0.1, 1), [*NUMBER, 0.0, 1.1]),
            "diversity": (st.floats(0, 0.4), [*NUMBER, -0.1, 0.5]),
            "pixels": (st.sampled_from([8, 12, 16]), [*COUNT, 10, 4]),
        },
    ),
    "concepts": (
        DISKS.concepts,
        {
            "labels": (
                st.just(torch.tensor([[0, 1]])),
                [None, [[0, 1]], torch.tensor([[0, 2]]), torch.tensor([0, 1])],
            ),
            "generator": (generators, NO_GENERATOR),
        },
    ),
    "images": (
        DISKS.images,
        {
            "concepts": (
                st.just(torch.tensor([[0.0, 1.0]])),
                [None, torch.zeros(2), torch.tensor([[NAN, 0.0]])],
            ),
            "generator": (generators, NO_GENERATOR),
        },
    ),
    "classify": (
        DISKS.classify,
        {"images": (tensors(2, 3, 12, 12), [None, torch.zeros(2, 3, 8, 8), torch.full((1, 3, 12, 12), NAN)])},
    ),
    "accuracy": (
        lambda images, label: list(two_concepts.accuracy(DISKS, images, label).values()),
        {
            "images": (tensors(2, 3, 12, 12), [None, torch.zeros(2, 3, 8, 8)]),
            "label": (st.sampled_from(two_concepts.LABELS), ["11", (0, 2), (1,), None]),
        },
    ),
}


test_what_is_accepted_gives_finite_numbers, test_what_is_outside_is_refused = cases(TABLE)


def test_text_is_one_condition_and_not_its_letters():
    with pytest.raises(
        TypeError, match="a set of conditions J must be a set, list or tuple of names, got 'ab'"
    ):
        COMPOSITION("ab")
    assert COMPOSITION(["ab"]).blocks[0] == (0, 2)


def test_every_public_function_is_in_the_table():
    """A new public function of these modules must say what it accepts, here."""
    elsewhere = {
        "Estimate",
        "Subsets",
        "CpcErrors",
        "Transform",
        "Converse",
        "Lemma2",
        "Claim2",
        "Transforms",
        "Terms",
        "Snapshot",
        "Accuracy",
        "DiskNet",
        "check_disjoint",
        "check_distribution",
        "check_mass",
        "check_grids",
        "check_label",
        "check",
        "law",
        "main",
        "accuracies",
        "stored",
        "train",
        "generate",
        "gaussian_kl",
        "cpc_errors_at",
        "full_joint",
        "Sides",
        "grid_for",
        "background_pixels",
        "local_conditional_score_reference",
        "patch_denoiser_reference",
        "relative_fisher_gaussian",
        "independent_blocks_divergence",
        "two_layer_velocity_autograd",
    }
    compositions = (cpc, approximate_cpc, fitted_cpc, feature_cpc, lcs, lcs_alternatives)
    toys = (blobs, blob_scenes, swing_by, curves, two_concepts, disks)
    others = (distributions, divergence, results, feature_space, local_denoiser, *toys)
    assert missing(TABLE, compositions + others, elsewhere) == (set(), set())
