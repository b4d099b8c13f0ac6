"""Features under conditions: hooks that cannot miss, measures against exact oracles, each with a case that
must fail.
"""

import pytest
import torch
from torch import nn

from lcs_utils import features
from lcs_utils.diffusion import karras_sigmas
from lcs_utils.features import causal, contexts, directions, measures
from lcs_utils.features.capture import NetResponse, Space, capture
from lcs_utils.theory.cpc import ConditionalProjectiveComposition
from lcs_utils.theory.distributions import gaussian
from lcs_utils.theory.feature_cpc import FeatureCPC, LinearMap

PIXELS, FEATURES = Space("pixels"), Space("features")
BLOCKS, WIDTH = 4, 2
M = {j: tuple(range(j * WIDTH, (j + 1) * WIDTH)) for j in range(BLOCKS)}


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


WITHIN = torch.tensor([[1.0, 0.4], [0.4, 1.0]]).double()
CONCEPTS = {j: gaussian([0.5, -0.3 - 0.2 * j], 0.05 * WITHIN) for j in M}


def cpc():
    """A CPC whose background is independent between the M_j too, which additivity needs and Lemma 1 does not;
    correlated within each.
    """
    background = gaussian(torch.zeros(BLOCKS * WIDTH), torch.block_diag(*[WITHIN] * BLOCKS))
    return ConditionalProjectiveComposition(M, background, CONCEPTS)


def correlated(J, coupling=0.9):
    """The same conditions with blocks 0 and 1 correlated whatever is asked for: no CPC unless `coupling` is
    0.
    """
    between = torch.eye(BLOCKS).double()
    between[0, 1] = between[1, 0] = coupling
    scale = torch.tensor([0.05**0.5 if j in J else 1.0 for j in M]).double().repeat_interleave(WIDTH)
    return gaussian(cpc()(J).mean, scale[:, None] * torch.kron(between, WITHIN) * scale)


def exact(space_of):
    """A response from functions J -> distribution, one a space, seen at x_t or at its image under a map."""

    def respond(x_t, sigma, sets):
        level = torch.full((1,), float(sigma)).double()
        answers = {}
        for space, (family, at) in space_of.items():
            answers[space] = torch.cat([family(J).denoise(at(x_t[None]), level) for J in sets])
        return answers

    return respond


def pass_of(respond, draws=8, sigma=0.7, n=BLOCKS, size=BLOCKS * WIDTH, removals=(2, 4), **options):
    def draw(i):
        return sigma * torch.randn(size, generator=generator(i), dtype=torch.float64)

    return contexts.gather(respond, draw, draws, sigma, n, removals, **options)


def values(found, measure, control=""):
    return {m.k: m.value for m in found if (m.measure, m.control) == (measure, control)}


def test_an_exact_cpc_is_additive_and_local_in_its_conditions():
    """With an independent background F2 = F3 = 1, eq. (3)'s cosines are 0, and supports are disjoint; labels
    permuted or random vectors give none of it.
    """
    sums = pass_of(exact({PIXELS: (cpc(), lambda x: x)}))[PIXELS]
    found = measures.all_measures(sums, (2, 3, 4), (2, 4), 2)
    assert all(abs(v - 1) < 1e-6 for v in values(found, "additivity").values())
    assert all(abs(v - 1) < 1e-6 for v in values(found, "own_share").values())
    assert abs(values(found, "cosine")[1]) < 1e-9 and values(found, "overlap")[1] < 1e-9
    for control in ("permuted", "random"):
        assert all(v < 0.5 for v in values(found, "additivity", control).values())
        assert values(found, "own_share", control)[4] < 0.6
    assert values(found, "overlap", "rotated")[1] > 0.3
    assert all(
        m.low <= m.value <= m.high for m in found if m.measure in ("additivity", "own_share", "effect")
    )


def test_two_correlated_blocks_bring_both_down():
    sums = pass_of(exact({PIXELS: (correlated, lambda x: x)}))[PIXELS]
    found = measures.all_measures(sums, (2, 4), (2, 4), 2)
    for measure in ("additivity", "own_share"):
        assert max(values(found, measure).values()) < 0.98
    apart = pass_of(exact({PIXELS: (lambda J: correlated(J, 0.0), lambda x: x)}))[
        PIXELS
    ]  # the coupling alone does it
    found = measures.additivity(apart, (2, 4)) + measures.own_share(apart, (2, 4))
    for measure in ("additivity", "own_share"):
        assert min(values(found, measure).values()) > 1 - 1e-6


def test_the_own_share_is_of_lengths_not_of_squares():
    """Two conditions together count one and a half times: taking one away moves 1.5 along its own direction
    and 0.5 along the other's.
    """

    def respond(x_t, sigma, sets):
        told = torch.tensor([[float(j in J) * (1.5 if len(J) == 2 else 1.0) for j in range(4)] for J in sets])
        return {PIXELS: told.double()}

    found = measures.own_share(pass_of(respond, removals=(2,))[PIXELS], (2,))
    assert values(found, "own_share")[2] == pytest.approx(0.75)


def test_permuted_labels_have_a_permuted_baseline():
    """What stands where the answer without conditions would is taken off, whatever it was an answer to."""

    def respond(x_t, sigma, sets):
        return {PIXELS: torch.tensor([[float(j in J) for j in range(BLOCKS)] for J in sets]).double()}

    sums = pass_of(respond, draws=40, removals=(2,))[PIXELS]
    found = measures.split_products(sums, measures.PERMUTED)
    moved = 0
    for products, projected, order in zip(
        found, sums.projected[:, measures.PERMUTED], sums.permutations[sums.half :], strict=True
    ):
        moved += bool(order[0])
        assert torch.equal(products, projected[:, order[1:]] - projected[:, order[:1]])
    assert moved > 10


def test_an_f_cpc_is_additive_in_its_features_and_not_in_its_pixels():
    """Def. 4 with a map that is not orthogonal; with an orthogonal one D is as additive in pixels, since
    noise stays isotropic.
    """

    def additivities(matrix):
        fcpc = FeatureCPC(cpc(), LinearMap(matrix))
        respond = exact(
            {FEATURES: (fcpc.features, fcpc.transform.forward), PIXELS: (fcpc.pixels, lambda x: x)}
        )
        return {
            space: values(measures.additivity(sums, (2, 4)), "additivity")
            for space, sums in pass_of(respond).items()
        }

    skew = torch.eye(8).double() + 0.8 * torch.randn(8, 8, generator=generator(), dtype=torch.float64)
    found = additivities(skew)
    assert min(found[FEATURES].values()) > 1 - 1e-6 and max(found[PIXELS].values()) < 0.99
    turned = additivities(torch.linalg.qr(skew)[0])
    assert min(turned[FEATURES].values()) > 1 - 1e-6 and min(turned[PIXELS].values()) > 1 - 1e-6


def test_halves_take_the_baselines_noise_out_of_the_cosine():
    """Orthogonal directions under noise that differs from pass to pass: eq. (3) as it stands sees cosines
    near 1/2.
    """
    noise = generator(5)
    moved = torch.eye(4, 20).double()

    def respond(x_t, sigma, sets):
        z = torch.stack([moved[sorted(J)].sum(0) for J in sets])
        return {PIXELS: z + torch.randn(z.shape, generator=noise, dtype=torch.float64)}

    sums = pass_of(respond, draws=60, removals=())[PIXELS]
    plain = features.off_diagonal(features.cosine_similarity(sums.directions))
    (split,) = [m for m in measures.cosines(sums) if (m.measure, m.control) == ("cosine", "")]
    assert plain > 0.2 and abs(split.value) < plain / 2 and split.low < 0 < split.high


def test_cosines_keep_their_sign():
    moved = torch.tensor([[1.0, 0.0], [-0.6, 0.8]]).double()

    def respond(x_t, sigma, sets):
        return {PIXELS: torch.stack([moved[sorted(J)].sum(0) for J in sets])}

    found = measures.cosines(pass_of(respond, n=2, removals=())[PIXELS])
    assert values(found, "cosine")[1] == pytest.approx(-0.6) and values(found, "cosine_abs")[
        1
    ] == pytest.approx(0.6)


def test_overlap_sees_the_basis_that_the_cosine_does_not():
    d = torch.eye(4, 64)
    turned = directions.rotated(d, generator())
    torch.testing.assert_close(turned @ turned.T, d @ d.T, atol=1e-5, rtol=0)
    assert directions.basis_overlap(d) == 0 and directions.basis_overlap(turned) > 0.4
    sums = pass_of(
        lambda x, sigma, sets: {PIXELS: torch.stack([turned[sorted(J)].sum(0) for J in sets])}, removals=()
    )[PIXELS]
    value, control = measures.basis(sums)
    assert control.low < value.value < control.high  # nothing special about a random basis


def seen(conditions, saturate):
    """Features that hold every condition; with `saturate` each fades as there are more."""

    def respond(x_t, sigma, sets):
        present = torch.tensor([[float(j in J) for j in range(conditions)] for J in sets]).double()
        if saturate:
            present = present / present.sum(1, keepdim=True).clamp(min=1) ** 2
        return {PIXELS: present + 0.05 * x_t[:conditions]}

    return respond


def test_a_probe_reads_what_is_there_beyond_training_and_not_what_fades():
    good, faded = (
        pass_of(seen(6, s), draws=40, n=6, size=8, removals=(), shuffled=True)[PIXELS] for s in (False, True)
    )
    ks = (1, 2, 4, 5)
    kept, lost = measures.probe(good, 1, ks), measures.probe(faded, 1, ks)
    assert all(v > 0.95 for v in values(kept, "probe").values())
    assert values(lost, "probe")[1] > 0.95 and values(lost, "probe")[5] < 0.8
    for control in ("permuted", "random"):
        assert all(abs(v - 0.5) < 0.2 for v in values(kept, "probe", control).values()), control


def test_effect_is_the_root_mean_square_of_what_conditions_do():
    def respond(x, sigma, sets):
        return {PIXELS: torch.stack([torch.full((5,), 0.3 * len(J)) for J in sets]).double()}

    found = measures.additivity(pass_of(respond, n=3, removals=())[PIXELS], (2, 3))
    assert values(found, "effect") == {2: pytest.approx(0.6), 3: pytest.approx(0.9)}
    assert values(found, "additivity") == {2: pytest.approx(1), 3: pytest.approx(1)}


class Stub(nn.Module):
    """Condition j paints its own quarter of the image; two layers, the second called like a class of its
    own.
    """

    def __init__(self, n=4, side=8):
        super().__init__()
        self.hear, self.paint = nn.Linear(n, n, bias=False), nn.Conv2d(n, n, 1, bias=False)
        with torch.no_grad():
            self.hear.weight.copy_(torch.eye(n))
            self.paint.weight.copy_(torch.eye(n)[..., None, None])
        self.places = torch.zeros(n, side, side, dtype=torch.bool)
        for j in range(n):
            self.places[j, j // 2 * 4 : j // 2 * 4 + 4, j % 2 * 4 : j % 2 * 4 + 4] = True

    def denoise(self, x_t, sigma, cond):
        z = self.paint(self.hear(cond)[:, :, None, None] * self.places)
        return (z.sum(1, keepdim=True) - 0.5).expand(-1, 3, -1, -1) + 0.0 * x_t


def test_capture_finds_layers_by_name_and_class_and_lets_go():
    net = Stub()
    x, sigma, cond = torch.zeros(2, 3, 8, 8), torch.ones(2), torch.eye(4)[:2]
    for layers in ("paint", "Conv2d", nn.Conv2d, ["paint"], [nn.Conv2d, "paint"]):
        with capture(net, layers) as outputs:
            net.denoise(x, sigma, cond)
            net.denoise(x, sigma, cond)
        assert list(outputs) == ["paint"] and [list(z.shape) for z in outputs["paint"]] == [[2, 4, 8, 8]] * 2
    with capture(net, ["paint", "hear"]) as outputs:
        pass
    assert list(outputs) == ["hear", "paint"]  # in the order of the net
    with pytest.raises(RuntimeError, match="stopped"), capture(net, "hear"):
        raise RuntimeError("stopped")
    assert not any(module._forward_hooks for module in net.modules())


@pytest.mark.parametrize("layers", ["MCScale", "paintt", nn.BatchNorm2d, ["hear", "gone"]])
def test_a_layer_that_does_not_exist_is_an_error_that_names_those_that_do(layers):
    with pytest.raises(
        ValueError, match=r"Stub has no layer '.*'; classes: Conv2d \(1\), Linear \(1\); layers: hear, paint"
    ):
        with capture(Stub(), layers):
            pass


def test_a_net_answers_to_sets_as_it_would_one_by_one():
    net = Stub()
    respond = NetResponse(net.denoise, net, torch.eye(4), ["hear", "paint"], chunk=2)
    x_t, sets = torch.randn(3, 8, 8), [frozenset(), frozenset([1]), frozenset([0, 3])]
    together = respond(x_t, 1.0, sets)
    assert list(together) == [Space("hear"), Space("paint"), Space("paint", "mean"), Space("denoiser")]
    for i, J in enumerate(sets):
        for space, z in respond(x_t, 1.0, [J]).items():
            torch.testing.assert_close(together[space][i : i + 1], z)
    cond = torch.zeros(1, 4)
    cond[0, [0, 3]] = 1
    torch.testing.assert_close(
        together[Space("denoiser")][2], net.denoise(x_t[None], torch.ones(1), cond)[0].flatten()
    )


def painted(image):
    """How many of the four quarters are bright, one by one."""
    return torch.stack(
        [(image[:, 0] * place).flatten(1).sum(1) / 16 > 0 for place in Stub().places], 1
    ).double()


@torch.no_grad()
def test_directions_cause_what_they_stand_for_and_controls_do_not():
    net, singles, noise = Stub(), torch.eye(4), torch.randn(3, 3, 8, 8, generator=generator())
    sigmas = karras_sigmas(4)
    found = causal.directions(net.denoise, net, "paint", singles, noise, sigmas)
    assert found.d.shape == (4, 4, 4, 8, 8)
    # another net's directions, about a middle of its own that must not matter
    deaf = causal.Directions("paint", found.sigmas, 3 * found.d.roll(-1, 1), found.baseline + 5).scaled_as(
        found
    )
    for judge in (causal.near_places(net.places), causal.by_counts(painted)):
        results = causal.interventions(
            net.denoise, net, found, singles, (0, 1), 1, noise, sigmas, judge, untrained=deaf
        )
        at = {(r.intervention, r.control): (float(r.effect.mean()), float(r.leak.mean())) for r in results}
        for what in ("add", "remove"):
            assert at[what, "condition"] == at[what, ""] == (pytest.approx(1), pytest.approx(0, abs=1e-5))
            assert at[what, "random"][0] < 0.7
        assert at["add", "another"] == (
            pytest.approx(0),
            pytest.approx(1),
        )  # it paints what was not asked for
        assert at["remove", "another"][0] == pytest.approx(0)
        assert at["add", "untrained"][0] == pytest.approx(0)
        assert at["remove", "untrained"] == (pytest.approx(0, abs=1e-5), pytest.approx(0, abs=1e-5))
    assert not any(module._forward_hooks for module in net.modules())


def test_what_is_told_and_then_missing_is_a_negative_effect():
    """Of a color told, or taken out, by the objects that are there; not by the sign that the data have."""
    judge = causal.by_counts(lambda images: images[:, 0, 0, :4])
    plain, full = (torch.full((3, 3, 8, 8), n) for n in (2.0, 1.0))
    for said in (judge(full, plain, full, 0, 1), judge(plain, full, plain, 0, -1)):
        assert said[0].tolist() == [-1] * 3 and said[1].tolist() == [3] * 3


def bad_sums():
    def silent(x, sigma, sets):
        return {PIXELS: torch.stack([torch.tensor([float(0 in J), 0.0, 0.0]) for J in sets]).double()}

    return pass_of(silent, n=3, removals=())[PIXELS]


def half_a_batch():
    net = Stub()
    respond = NetResponse(lambda *given: net.denoise(*given)[:1], net, torch.eye(4), ["hear"])
    return respond(torch.zeros(3, 8, 8), 1.0, [frozenset(), frozenset([1])])


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: pass_of(lambda *_: {}, draws=3), "at least 2 draws, so at least 4 in all; got 3"),
        (lambda: pass_of(lambda *_: {}, n=1), "at least 2 conditions, got 1"),
        (lambda: pass_of(lambda *_: {}, removals=(2, 9)), r"K must be 2..4, .* got \[9\]"),
        (lambda: measures.cosines(bad_sums()), r"mean difference vectors \[1, 2\] are zero"),
        (lambda: measures.shares(bad_sums(), 3), r"was not seen under the conditions"),
        (lambda: bad_sums().row(0, [0, 2]), r"draw 0 was not seen under the conditions \[0, 2\]"),
        (lambda: measures.probe(bad_sums(), 1, (1,)), "needs sets of random conditions"),
        (lambda: directions.rotated(torch.ones(3, 2), generator()), "3 vectors in 2 dimensions"),
        (
            lambda: NetResponse(Stub(), Stub(), torch.eye(4), ["hear"]).condition([frozenset([4])]),
            r"conditions \[4\] are not among the 4",
        ),
        (lambda: NetResponse(Stub(), Stub(), torch.eye(4), []), "no layer was asked for"),
        (half_a_batch, r"what denoise returns must have shape \[2, 3, 8, 8\], got \[1, 3, 8, 8\]"),
    ],
)
def test_bad_input_is_one_clear_sentence(call, says):
    with pytest.raises(ValueError, match=says):
        call()


def test_interventions_refuse_what_they_cannot_do():
    net, noise, sigmas = Stub(), torch.zeros(2, 3, 8, 8), karras_sigmas(3)
    found = causal.directions(net.denoise, net, "paint", torch.eye(4), noise, sigmas)

    def ask(context, j):
        return causal.interventions(
            net.denoise, net, found, torch.eye(4), context, j, noise, sigmas, causal.by_counts(painted)
        )

    with pytest.raises(
        ValueError, match=r"condition 3 is not active and cannot be removed; active are \[0, 1\]"
    ):
        ask((0, 1), 3)
    with pytest.raises(ValueError, match="must leave out one of the 4 conditions"):
        ask((0, 1, 2, 3), 3)
    with pytest.raises(ValueError, match=r"does not hear conditions \[0, 1\]"):
        causal.directions(net.denoise, net, "paint", torch.zeros(2, 4), noise, sigmas)

    def twice(x, sigma, cond):
        return net.denoise(x, sigma, net.hear(cond))

    with pytest.raises(ValueError, match="must call its net once for all conditions"):
        NetResponse(twice, net, torch.eye(4), "hear")(noise[0], 1.0, [frozenset()])


def test_a_random_vector_is_the_same_at_every_level():
    generator = torch.Generator().manual_seed(0)
    d = torch.randn(3, 2, 4, 5, generator=generator)
    found = causal.Directions("layer", torch.tensor([4.0, 2.0, 1.0]), d, torch.zeros(3, 4, 5))
    random = found.at_random(generator).d.flatten(2)
    torch.testing.assert_close(random.norm(dim=2), d.flatten(2).norm(dim=2))
    unit = random / random.norm(dim=2, keepdim=True)
    torch.testing.assert_close(unit, unit[:1].expand_as(unit))
    assert abs(float(unit[0, 0] @ unit[0, 1])) < 0.9  # another for each condition


def test_a_leak_is_a_length_and_not_its_square():
    places = torch.zeros(1, 4, 4, dtype=torch.bool)
    places[0, :2] = True
    plain = torch.zeros(1, 3, 4, 4)
    full, image = plain.clone(), plain.clone()
    full[:, :, :2], image[:, :, :2], image[:, :, 2:] = 1, 0.5, 3
    effect, leak = causal.near_places(places)(image, plain, full, 0, 1)
    assert (effect.tolist(), leak.tolist()) == ([0.5], [3])
