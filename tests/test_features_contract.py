"""What lcs_utils.features accepts and refuses, as a table (see contract.py)."""

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
    SEEDS,
    cases,
    generators,
    missing,
    seeded,
    tensors,
)
from hypothesis import strategies as st
from torch import nn

from lcs_utils.diffusion import SOLVERS, karras_sigmas
from lcs_utils.features import capture, causal, contexts, directions, measures
from lcs_utils.features.capture import NetResponse, Space


class Mixer(nn.Module):
    """A net of two layers with three conditions, usable as a denoiser as it is."""

    def __init__(self):
        super().__init__()
        self.hear, self.mix = nn.Linear(3, 4), nn.Conv2d(4, 3, 1)

    def forward(self, x_t, sigma, cond):
        heard = self.hear(cond.float())[:, :, None, None]
        return self.mix(torch.cat([x_t.float(), x_t[:, :1].float()], 1) + heard) / (
            1 + sigma.float()[:, None, None, None]
        )


torch.manual_seed(0)
NET = Mixer()
SINGLES = torch.eye(3)
RESPONSE = NetResponse(NET, NET, SINGLES, ["hear", "mix"])
SCHEDULE = karras_sigmas(3)
NOISE = torch.randn(4, 3, 4, 4, generator=seeded(0))
FOUND = causal.directions(NET, NET, "mix", SINGLES, NOISE, SCHEDULE)
SUMS = contexts.gather(
    RESPONSE, lambda i: torch.randn(3, 4, 4, generator=seeded(i)), 6, 0.7, 3, (2, 3), shuffled=True
)[Space("hear")]
PLACES = torch.zeros(3, 4, 4, dtype=torch.bool)
PLACES[:, :2] = True
NO_MODULE = [None, "net", 3, torch.zeros(2), Mixer]
LAYERS = ["nobody", "", None, 3, [], ["hear", "nobody"], [3], nn.LSTM, {"hear": 1}]
LAYER = ["nobody", "", None, 3, ["mix"]]
NO_TENSOR = ["x", None, [[0.0]], np.zeros((3, 3))]
IMAGE = [*NO_TENSOR, torch.zeros(1, 3, 4, 4), torch.zeros(3, 4, 4).long()]
SIGMA = [*NUMBER, 0.0, -1.0]
NO_SINGLES = [*NO_TENSOR, torch.zeros(3)]
SETS = ["01", None, 3, [], [3], ["0"], [{"a"}], [{0.5}], [{7}], [{-1}], [None]]
SCHEDULES = [
    "karras",
    None,
    [1.0, 0.0],
    torch.tensor([1.0]),
    torch.tensor([1.0, 0.5]),
    torch.tensor([NAN, 0.0]),
]
NO_VECTORS = [
    *NO_TENSOR,
    torch.zeros(3),
    torch.full((3, 5), NAN),
    torch.full((3, 5), INF),
    torch.eye(3).long(),
]
KS = ["23", None, 3, [4], [0], [1.5], ["2"]]
NO_SUMS = [None, "sums", {}]
noise_levels = st.floats(0.01, 50)
image = tensors(3, 4, 4)
sets = st.lists(st.sets(st.integers(0, 2)), min_size=1, max_size=4)
vectors = tensors(3, 5)
ks = st.lists(st.integers(1, 3), min_size=1, max_size=3, unique=True)
sums = (st.just(SUMS), NO_SUMS)
index = st.integers(0, 2)
INDEX = [*COUNT, 3]


def respond(x_t, sigma, sets):
    return {Space("sizes"): torch.stack([x_t.flatten()[:4] + len(J) for J in sets])}


def finite(measured):
    """Values and interval ends; nan is the documented answer where nothing is defined."""
    return [(m.k, *torch.tensor([m.value, m.low, m.high]).nan_to_num().tolist()) for m in measured] + [0.0]


TABLE = {
    "find_layers": (
        lambda **k: len(capture.find_layers(**k)),
        {
            "net": (st.just(NET), NO_MODULE),
            "layers": (st.sampled_from(["hear", "Conv2d", nn.Linear, ["hear", nn.Conv2d]]), LAYERS),
        },
    ),
    "capture": (
        lambda **k: float(bool(capture.capture(**k).__enter__())),
        {"net": (st.builds(Mixer), NO_MODULE), "layers": (st.just("hear"), LAYERS)},
    ),
    "NetResponse": (
        lambda denoise, net, singles, layers, chunk, x_t, sigma, sets: list(
            NetResponse(denoise, net, singles, layers, chunk)(x_t, sigma, sets).values()
        ),
        {
            "denoise": (st.just(NET), NO_CALL),
            "net": (st.just(NET), NO_MODULE),
            "singles": (st.just(SINGLES), NO_SINGLES),
            "layers": (st.just("mix"), LAYERS),
            "chunk": (st.integers(1, 5), [*COUNT, 0]),
            "x_t": (image, IMAGE),
            "sigma": (noise_levels, SIGMA),
            "sets": (sets | sets.map(lambda found: [sorted(J) for J in found]), SETS),
        },
    ),
    "contexts": (
        lambda **k: len(contexts.contexts(**k)),
        {
            "order": (st.permutations([0, 1, 2, 3]), ["0123", None, 3, [0, 0], [0.5], ["0"], [-1]]),
            "removals": (st.lists(st.integers(1, 4), max_size=2), ["2", None, 3, [0], [5], [1.5]]),
        },
    ),
    "check_design": (
        lambda **k: contexts.check_design(**k) or 0.0,
        {
            "n": (st.integers(2, 9), [*COUNT, 1]),
            "draws": (st.integers(4, 9), [*COUNT, 3]),
            "removals": (st.just([2]), ["2", None, 3, [1], [99], [1.5]]),
        },
    ),
    "gather": (
        lambda **k: contexts.gather(**k)[Space("sizes")].gram,
        {
            "respond": (st.just(respond), NO_CALL),
            "draw": (st.just(lambda i: torch.randn(3, 4, 4, generator=seeded(i))), NO_CALL),
            "draws": (st.integers(4, 6), [*COUNT, 3]),
            "sigma": (noise_levels, SIGMA),
            "n": (st.integers(2, 3), [*COUNT, 1]),
            "removals": (st.just([2]), ["2", None, 3, [1], [99], [1.5]]),
            "shuffled": (st.booleans(), FLAG),
            "seed": (SEEDS, COUNT),
            "progress": (st.just(lambda i: None), NO_CALL),
        },
    ),
    "Sums.row": (
        lambda draw, J: SUMS.row(draw, J),
        {
            "draw": (st.integers(0, 5), [*COUNT, 6]),
            "J": (st.sampled_from([(), [1]]), ["1", None, 3, [0.5], [7]]),
        },
    ),
    "mean_difference_vectors": (
        directions.mean_difference_vectors,
        {
            "active": (
                st.lists(tensors(4, 5), min_size=1, max_size=3),
                [
                    "z",
                    None,
                    3,
                    [],
                    [None],
                    [torch.zeros(4, 6)],
                    [torch.zeros(0, 5)],
                    [torch.zeros(4, 5).long()],
                ],
            ),
            "baseline": (tensors(2, 5), [*NO_TENSOR, torch.zeros(2, 6), torch.zeros(0, 5), torch.zeros(())]),
        },
    ),
    "cosine_similarity": (directions.cosine_similarity, {"d": (vectors, [*NO_VECTORS, torch.zeros(2, 2)])}),
    "off_diagonal": (
        directions.off_diagonal,
        {"matrix": (tensors(4, 4), [*NO_TENSOR, torch.zeros(3), torch.ones(2, 3), torch.ones(1, 1)])},
    ),
    "basis_overlap": (
        directions.basis_overlap,
        {"d": (vectors, [*NO_VECTORS, torch.zeros(2, 2), torch.ones(1, 4)])},
    ),
    "rotated": (
        directions.rotated,
        {"d": (vectors, [*NO_VECTORS, torch.ones(3, 2)]), "generator": (generators, NO_GENERATOR)},
    ),
    "check_sums": (measures.check_sums, {"sums": sums, "ks": (ks, KS)}),
    "resampling": (
        measures.resampling,
        {"draws": (st.integers(1, 9), [*COUNT, 0]), "seed": (SEEDS, COUNT)},
    ),
    "cosines": (lambda **k: finite(measures.cosines(**k)), {"sums": sums, "seed": (SEEDS, COUNT)}),
    "additivity": (
        lambda **k: finite(measures.additivity(**k)),
        {"sums": sums, "ks": (ks, KS), "seed": (SEEDS, COUNT)},
    ),
    "shares": (
        lambda **k: measures.shares(**k).nan_to_num(),
        {"sums": sums, "k": (st.integers(2, 3), [*COUNT, 0, 4]), "kind": (index, INDEX)},
    ),
    "own_share": (
        lambda **k: finite(measures.own_share(**k)),
        {"sums": sums, "ks": (st.just([2, 3]), KS), "seed": (SEEDS, COUNT)},
    ),
    "basis": (lambda **k: finite(measures.basis(**k)), {"sums": sums, "seed": (SEEDS, COUNT)}),
    "probe": (
        lambda **k: finite(measures.probe(**k)),
        {
            "sums": sums,
            "trained": (st.integers(1, 2), COUNT),
            "ks": (ks, KS),
            "seed": (SEEDS, COUNT),
        },
    ),
    "all_measures": (
        lambda **k: finite(measures.all_measures(**k)),
        {
            "sums": sums,
            "ks": (ks, KS),
            "removals": (st.just([2]), KS),
            "trained": (st.integers(1, 2), COUNT),
            "seed": (SEEDS, COUNT),
            "only": (
                st.lists(st.sampled_from(measures.MEASURES), unique=True),
                ["probe", None, 3, ["angles"], [3], [["probe"]]],
            ),
        },
    ),
    "one_layer": (
        lambda **k: len(causal.one_layer(**k)),
        {"net": (st.just(NET), NO_MODULE), "layer": (st.just("mix"), LAYER)},
    ),
    "changed": (
        lambda **k: float(causal.changed(**k).__enter__() is None),
        {
            "net": (st.builds(Mixer), NO_MODULE),
            "layer": (st.just("mix"), LAYER),
            "change": (st.just(lambda z: z), NO_CALL),
        },
    ),
    "Directions.at": (FOUND.at, {"sigma": (noise_levels, SIGMA)}),
    "Directions.scaled_as": (
        lambda other: FOUND.scaled_as(other).d,
        {
            "other": (
                st.just(FOUND),
                [
                    None,
                    "d",
                    FOUND.d,
                    causal.Directions("mix", FOUND.sigmas[:1], FOUND.d[:1], FOUND.baseline[:1]),
                ],
            )
        },
    ),
    "Directions.at_random": (
        lambda generator: FOUND.at_random(generator).d,
        {"generator": (generators, NO_GENERATOR)},
    ),
    "directions": (
        lambda **k: causal.directions(**k).d,
        {
            "denoise": (st.just(NET), NO_CALL),
            "net": (st.just(NET), NO_MODULE),
            "layer": (st.just("mix"), LAYER),
            "singles": (st.just(SINGLES), NO_SINGLES),
            "noise": (st.just(NOISE), [*NO_TENSOR, NOISE.long()]),
            "sigmas": (st.just(SCHEDULE), SCHEDULES),
            "solver": (st.sampled_from(SOLVERS), NAME),
        },
    ),
    "check_direction": (
        lambda **k: causal.check_direction(**k) or 0.0,
        {
            "denoise": (st.just(NET), NO_CALL),
            "net": (st.just(NET), NO_MODULE),
            "found": (st.just(FOUND), [None, "d", FOUND.d]),
            "j": (index, INDEX),
        },
    ),
    "adding": (
        lambda x_t, **k: causal.adding(**k)(x_t[None], torch.ones(1), torch.zeros(1, 3)),
        {
            "x_t": (image, []),
            "denoise": (st.just(NET), NO_CALL),
            "net": (st.just(NET), NO_MODULE),
            "found": (st.just(FOUND), [None, "d", FOUND.d]),
            "j": (index, INDEX),
            "alpha": (st.floats(-9, 9), NUMBER),
        },
    ),
    "removing": (
        lambda x_t, **k: causal.removing(**k)(x_t[None], torch.ones(1), torch.zeros(1, 3)),
        {
            "x_t": (image, []),
            "denoise": (st.just(NET), NO_CALL),
            "net": (st.just(NET), NO_MODULE),
            "found": (st.just(FOUND), [None, "d", FOUND.d]),
            "j": (index, INDEX),
        },
    ),
    "interventions": (
        lambda **k: [(effect.effect, effect.leak) for effect in causal.interventions(**k)],
        {
            "denoise": (st.just(NET), NO_CALL),
            "net": (st.just(NET), NO_MODULE),
            "found": (st.just(FOUND), [None, "d", FOUND.d]),
            "singles": (st.just(SINGLES), NO_SINGLES),
            "context": (st.just([0, 1]), ["01", None, 3, [0], [0.5, 1], [0, 1, 2], [1, 7], []]),
            "j": (st.just(1), [*COUNT, 2]),
            "noise": (st.just(NOISE), [*NO_TENSOR, NOISE.long()]),
            "sigmas": (st.just(SCHEDULE), SCHEDULES),
            "judge": (st.just(causal.near_places(PLACES)), NO_CALL),
            "alpha": (st.floats(-9, 9), NUMBER),
            "untrained": (st.none() | st.just(FOUND), ["d", FOUND.d]),
            "solver": (st.sampled_from(SOLVERS), NAME),
            "seed": (SEEDS, COUNT),
        },
    ),
    "near_places": (
        lambda places: causal.near_places(places)(NOISE, 0 * NOISE, NOISE, 0, 1),
        {"places": (st.just(PLACES), [*NO_TENSOR, PLACES[0], PLACES.float()])},
    ),
    "by_counts": (
        lambda count: causal.by_counts(count)(NOISE, 0 * NOISE, NOISE, 0, 1),
        {"count": (st.just(lambda x: x.flatten(1)[:, :2]), NO_CALL)},
    ),
}


test_what_is_accepted_gives_finite_numbers, test_what_is_outside_is_refused = cases(TABLE)


def test_text_is_one_layer_and_not_its_letters():
    net = nn.Sequential()
    net.a, net.b = nn.Linear(1, 1), nn.Linear(1, 1)
    with pytest.raises(ValueError, match="has no layer 'ab'"):
        capture.find_layers(net, "ab")
    with pytest.raises(TypeError, match="a set of conditions must be a sequence, got '01'"):
        RESPONSE.condition(["01"])


def test_every_public_function_is_in_the_table():
    elsewhere = {
        "Space",
        "Directions",
        "Effect",
        "Sums",
        "Measured",
        "measured",  # these stand between the measures and what those share
        "split_products",
        "cosine_matrices",
    }
    modules = (capture, causal, contexts, directions, measures)
    assert missing(TABLE, modules, elsewhere) == (set(), set())
