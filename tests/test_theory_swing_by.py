"""Swing-by dynamics against autograd, closed forms and gradient descent; each claim has a case that fails."""

import math

import pytest
import torch

from lcs_utils import diffusion, paths, store
from lcs_utils.swing_by import closed_form as sb
from lcs_utils.swing_by import curves, initial
from lcs_utils.swing_by import two_concepts as tc
from lcs_utils.swing_by.disks import NEITHER


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


@pytest.fixture
def sim():
    return sb.Sim(mu=(1.0, 2.0), sigma=(0.3, 0.1), dim=4)


def flow(W0, a, times):
    return torch.stack(list(sb.two_layer_flow(W0.double(), a.double(), times.double())))


def symmetric(dim, seed=0):
    return initial.random_starts(1, dim, 0.7, seeded(seed))[0]


def test_rates_are_the_second_moments_of_the_samples(sim):
    x = sim.sample(20_000, seeded())
    moments = (x.T @ x) / len(x)
    assert sim.rates.tolist() == pytest.approx([0.3**2 + 1 / 2, 0.1**2 + 4 / 2, 0, 0])
    assert (moments - torch.diag(sim.rates)).abs().max() < 0.02
    assert (x[:, 2:] == 0).all()
    W = torch.randn(4, 4, generator=seeded(), dtype=torch.float64)
    on_samples = 0.5 * ((x @ W.T - x) ** 2).sum(1).mean()
    assert float(on_samples) == pytest.approx(float(sb.identity_loss(W, sim.rates)), rel=0.02)


def test_one_layer_closed_form_is_the_limit_of_gradient_descent(sim):
    W0 = 0.5 * torch.randn(4, 4, generator=seeded(), dtype=torch.float64)
    exact = sb.one_layer(W0, sim.rates, torch.tensor([1.5], dtype=torch.float64))[0]
    gaps = []
    for steps in (50, 100, 200):
        *_, W = sb.descend(W0, lambda W: sb.identity_loss(W, sim.rates), 1.5 / steps, steps)
        gaps.append(float((W - exact).abs().max()))
    assert gaps[2] < 4e-3
    assert gaps[0] / gaps[1] == pytest.approx(2, abs=0.1)  # first order
    assert gaps[1] / gaps[2] == pytest.approx(2, abs=0.05)
    wrong = sb.one_layer(W0, sim.rates**2, torch.tensor([1.5], dtype=torch.float64))[0]
    assert float((W - wrong).abs().max()) > 0.1  # the rates are a, not a^2


def test_one_layer_outputs_follow_the_formula_of_the_paper(sim):
    W0, t = torch.randn(4, 4, generator=seeded(), dtype=torch.float64), 0.8
    W = sb.one_layer(W0, sim.rates, torch.tensor([t], dtype=torch.float64))[0]
    for k in range(4):
        expected = (1 - math.exp(-sim.rates[k] * t)) * sim.target[k] * (k < 2)
        expected += sum(math.exp(-sim.rates[i] * t) * W0[k, i] * sim.target[i] for i in range(2))
        assert float(W[k] @ sim.target) == pytest.approx(float(expected), abs=1e-12)


def test_sgd_on_samples_follows_the_closed_form(sim):
    W0, rate, steps = torch.zeros(4, 4, dtype=torch.float64), 0.02, 100
    *_, W = sb.descend(W0, sb.sample_loss(sim.sample(500, seeded()), 64, seeded(1)), rate, steps)
    exact = sb.one_layer(W0, sim.rates, torch.tensor([rate * steps], dtype=torch.float64))[0]
    assert float((W - exact).abs().max()) < 0.05
    assert 0.5 < float(exact[0, 0]) < 0.9  # the comparison is made while W still moves


def test_growth_suppression_and_noise_are_half_of_the_gradient_flow():
    a = torch.tensor([0.4, 1.1, 2.3, 0.0], dtype=torch.float64)
    U = torch.randn(4, 5, generator=seeded(), dtype=torch.float64)
    growth, suppression, noise = sb.two_layer_terms(U @ U.T, a)
    half = sb.two_layer_velocity_autograd(U, a)
    assert (growth - suppression - noise - half).abs().max() < 1e-12 * half.abs().max()
    W, pair = U @ U.T, a[:, None] + a  # as matrices: A W + W A - A W A W - 1/2 (A W^2 + W^2 A)
    whole = pair * W - (W * a) @ W - 0.5 * pair * (W @ W)
    assert (whole - half).abs().max() < 1e-12 * half.abs().max()
    assert (
        growth - suppression - noise - 2 * half
    ).abs().max() > 1  # the full gradient is not the paper's flow
    assert (growth - suppression - half).abs().max() > 1  # and no term is superfluous


def test_two_layer_flow_is_the_limit_of_gradient_descent_on_u():
    a = torch.tensor([0.5, 2.0, 0.0], dtype=torch.float64)
    U = 0.3 * torch.randn(3, 3, generator=seeded(), dtype=torch.float64)
    (exact,) = sb.two_layer_flow(U @ U.T, a, torch.tensor([2.0], dtype=torch.float64))
    gaps = []
    for steps in (100, 200):
        *_, last = sb.descend(U, lambda U: 0.5 * sb.identity_loss(U @ U.T, a), 2.0 / steps, steps)
        gaps.append(float((last @ last.T - exact).abs().max()))
    assert gaps[1] < 0.02 and gaps[0] / gaps[1] == pytest.approx(2, abs=0.15)


def test_flow_needs_no_finer_steps_and_learns_the_identity():
    a, W0 = torch.tensor([0.5, 2.0], dtype=torch.float64), symmetric(2)
    coarse, fine = flow(W0, a, torch.linspace(0, 30, 4)), flow(W0, a, torch.linspace(0, 30, 601))[::200]
    assert (coarse - fine).abs().max() < 1e-4
    assert torch.equal(coarse[0], W0) and (coarse[-1] - torch.eye(2, dtype=torch.float64)).abs().max() < 1e-3


def test_steps_of_w_leave_its_form_where_steps_of_u_keep_it():
    """A step of U has step^2 M W M besides: a matrix without negative eigenvalues."""
    a, W0 = torch.tensor([0.5, 2.0, 9.0], dtype=torch.float64), initial.uniform_starts(1, 3, seeded())[0]
    assert 0 < float(W0.min()) and float(W0.max()) < 3 * 0.1**2
    M = torch.diag(a) - 0.5 * ((W0 * a) + a[:, None] * W0)
    U = torch.linalg.cholesky(W0)
    stepped, kept = sb.stepped_w(W0, a, 0.1, 1), (U + 0.1 * M @ U) @ (U + 0.1 * M @ U).T
    torch.testing.assert_close(stepped + 0.01 * M @ W0 @ M, kept)
    end = sb.stepped_w(W0, a, 1e-4, 20_000)
    (exact,) = sb.two_layer_flow(W0, a, torch.tensor([2.0], dtype=torch.float64))
    assert float((end - exact).abs().max()) < 2e-3  # small steps lead where the flow leads


def test_large_starts_shrink_and_do_not_overflow():
    a, times = torch.tensor([0.7], dtype=torch.float64), torch.tensor([1e-3, 0.1, 8.0], dtype=torch.float64)
    for w0 in (5.0, 1e3, 1e9):
        W = flow(torch.full((1, 1), w0), a, times)[:, 0, 0]
        expected = 1 / (1 + (1 / w0 - 1) * torch.exp(-2 * a * times))  # dw/dt = 2 a w (1 - w)
        assert ((W - expected) / expected).abs().max() < 1e-4
    W = flow(1e6 * symmetric(3), torch.tensor([0.5, 2.0, 0.0]), torch.linspace(0, 30, 3))
    assert bool(W.isfinite().all()) and (W[-1, :2, :2] - torch.eye(2, dtype=torch.float64)).abs().max() < 1e-3


def test_off_diagonal_entries_rise_before_the_smaller_concept_and_after_the_larger():
    a, times = torch.tensor([0.5, 2.0], dtype=torch.float64), torch.linspace(0, 12, 241, dtype=torch.float64)
    W = flow(0.03 * torch.tensor([[1.0, 0.9], [0.9, 1.0]]), a, times)
    first, second = curves.learning_times(W, times, 2).tolist()
    peak = float(times[W[:, 0, 1].argmax()])
    assert second < peak < first


@pytest.mark.parametrize("coupling, turns", [(0.9, True), (0.0, False), (-0.9, False)])
def test_swing_by_needs_a_positive_coupling(coupling, turns):
    """f_1 overshoots when w_12(0) > 0, then is suppressed; without coupling nothing turns."""
    sim = sb.Sim((1.0, 2.0), (0.05, 0.05), 2)
    W0 = 3e-2 * torch.tensor([[1.0, coupling], [coupling, 1.0]], dtype=torch.float64)
    times = torch.linspace(0, 12, 100, dtype=torch.float64)
    W = flow(W0, sim.rates, times)
    loss = sb.ood_loss(W @ sim.target, sim.target)
    assert (float(curves.rise(loss)) > 1e-3) == turns
    assert curves.count_descents(loss) == (2 if turns else 1)
    assert float(loss[-1]) < 1e-3


def test_one_layer_error_turns_only_from_a_large_start(sim):
    """The digest says a single layer never turns. From a small start it does not; started at the answer it
    must.
    """
    times = torch.linspace(0, 10, 200, dtype=torch.float64)
    small = sb.one_layer(0.01 * torch.ones(4, 4, dtype=torch.float64), sim.rates, times) @ sim.target
    assert float(curves.rise(sb.ood_loss(small, sim.target))) == 0
    lucky = torch.zeros(4, 4, dtype=torch.float64)
    lucky[0, 1], lucky[1, 1] = 0.5, 1.0  # f(x_b) = x_b although concept 1 is unknown
    outputs = sb.one_layer(lucky, sim.rates, times) @ sim.target
    assert float(curves.rise(sb.ood_loss(outputs, sim.target))) > 0.02


def test_uncoupled_entries_are_logistic():
    a, w0 = torch.tensor([0.7], dtype=torch.float64), 0.01
    times = torch.linspace(0, 8, 9, dtype=torch.float64)
    W = flow(torch.full((1, 1), w0, dtype=torch.float64), a, times)[:, 0, 0]
    expected = 1 / (1 + (1 / w0 - 1) * torch.exp(-2 * a * times))  # dw/dt = 2 a w (1 - w)
    assert (W - expected).abs().max() < 1e-4
    half = curves.learning_times(W[:, None, None], times, 1)
    assert float(half[0]) == pytest.approx(math.log(1 / w0 - 1) / 1.4, abs=0.05)


def test_learning_order_follows_signal_and_diversity():
    times = torch.linspace(0, 20, 200, dtype=torch.float64)
    order = {}
    for sigma in (0.05, 2.0):
        a = sb.Sim((1.0, 2.0), (sigma, 0.05), 2).rates
        W = flow(1e-3 * torch.eye(2, dtype=torch.float64), a, times)
        order[sigma] = curves.learning_times(W, times, 2).argsort().tolist()
    assert order == {0.05: [1, 0], 2.0: [0, 1]}
    assert curves.learning_times(W[:2], times[:2], 2).isinf().all()


def test_descents_and_rise_of_known_curves():
    falling, wave = torch.linspace(1, 0, 11), torch.tensor([1.0, 0.2, 0.6, 0.1, 0.5, 0.0])
    assert (curves.count_descents(falling), float(curves.rise(falling))) == (1, 0.0)
    assert curves.count_descents(wave) == 3 and float(curves.rise(wave)) == pytest.approx(0.4)
    assert curves.count_descents(wave, tolerance=0.45) == 1  # rises below the tolerance are not turns
    assert curves.count_descents(falling.flip(0)) == 0


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda: sb.Sim((1.0,), (0.1, 0.2), 2), "1 mu and 2 sigma"),
        (lambda: sb.Sim((1.0, -2.0), (0.1, 0.2), 2), "mu must be > 0"),
        (lambda: sb.Sim((1.0, 2.0), (0.1, 0.2), 1), "at least the number of clusters 2, got 1"),
        (lambda: list(sb.descend(torch.eye(2), torch.sum, 0.0, 1)), "learning rate must be > 0"),
        (lambda: sb.sample_loss(torch.ones(3, 2).double(), 4, seeded()), "batch must be in 1..3, got 4"),
        (
            lambda: sb.two_layer_terms(torch.eye(3).double(), torch.ones(2).double()),
            "2 x 2 to fit 2 rates, got 3 x 3",
        ),
        (lambda: sb.two_layer_terms(torch.eye(1).double(), -torch.ones(1).double()), "rates must be >= 0"),
        (lambda: flow(torch.ones(2, 2).triu(), torch.ones(2), torch.ones(1)), "symmetric"),
        (lambda: flow(torch.eye(1), torch.ones(1), torch.tensor([2.0, 1.0])), "times must increase"),
        (lambda: initial.random_starts(1, 2, 0.0, seeded()), "scale must be > 0"),
        (lambda: curves.count_descents(torch.ones(2), 0.0), "tolerance must be > 0"),
        (
            lambda: curves.learning_times(torch.eye(2).double()[None], torch.zeros(1).double(), 3),
            "1..2, got 3",
        ),
        (lambda: tc.Disks(pixels=10), "multiple of 4 and at least 8, got 10"),
        (lambda: tc.Disks(separation=0.0), "separation must be > 0 and <= 1, got 0.0"),
        (lambda: tc.Disks(diversity=0.5), "diversity must be >= 0 and <= 0.4, got 0.5"),
        (lambda: tc.Disks().concepts(torch.tensor([[0, 2]]), seeded()), "labels must be 0 or 1"),
        (lambda: next(tc.train(tc.Disks(), 0, (3, 2))), "checkpoints must be increasing"),
    ],
)
def test_bad_input_is_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()


@pytest.mark.parametrize("separation", [1.0, 0.4])
def test_concepts_read_from_pixels_are_those_drawn(separation):
    disks = tc.Disks(separation, diversity=0.1)
    for label in tc.LABELS:
        drawn = disks.concepts(torch.tensor(label).expand(200, 2), seeded())
        images = disks.images(drawn, seeded(1))
        assert images.shape == (200, 3, 12, 12) and images.min() == -1 and images.max() <= 1
        assert (disks.read(images)[:, :2] - drawn).abs().mean(dim=0).max() < 0.1
        assert tc.accuracy(disks, images, label)["both"] == 1
        other = (1 - label[0], label[1])
        assert (
            tc.accuracy(disks, images, other)["both"] == 0 and tc.accuracy(disks, images, other)["color"] == 1
        )
    assert disks.read(-torch.ones(1, 3, 12, 12))[0, 1] == 0.5  # no disk: no color either


def test_the_classifier_can_say_neither():
    disks = tc.Disks()
    for image in (
        torch.randn(300, 3, 12, 12, generator=seeded()),
        2 * torch.rand(300, 3, 12, 12, generator=seeded()) - 1,
    ):
        assert (disks.classify(image) == NEITHER).all() and tc.accuracy(disks, image, (1, 1))["disk"] == 0
    assert (disks.classify(-torch.ones(1, 3, 12, 12)) == NEITHER).all()
    # a small blue disk among so much scatter that only a third of the bright pixels are its own: as bright
    # as a large one
    image = disks.images(torch.tensor([[0.0, 1.0]]), seeded())
    own = int((image[0] > 0).any(0).sum())
    dark = (image[0] < -0.9).all(0).nonzero()
    for row, column in dark[torch.randperm(len(dark), generator=seeded())[: 2 * own]].tolist():
        image[0, 2, row, column] = 1.0
    assert disks.classify(image).tolist() == [[NEITHER, NEITHER]]
    between = disks.images(torch.tensor([[0.5, 1.0], [1.0, 0.5]]), seeded())
    assert disks.classify(between).tolist() == [[NEITHER, 1], [1, NEITHER]]


def test_a_study_that_was_stopped_goes_on(tmp_path, monkeypatch):
    monkeypatch.setattr(paths, "RUNS", tmp_path)
    monkeypatch.setattr(tc, "CHECKPOINTS", (0,))
    monkeypatch.setattr(
        tc,
        "accuracies",
        lambda disks, seed, checkpoints=(0,): iter([tc.Accuracy(0.1, seed, 0, "00", *[0.5] * 6)]),
    )
    rows = tc.stored(tc.Disks(), 3)
    monkeypatch.setattr(tc, "accuracies", None)  # not measured again
    assert tc.stored(tc.Disks(), 3) == rows and rows[0].seed == 3


def test_a_study_of_other_disks_is_another_study(tmp_path, monkeypatch):
    monkeypatch.setattr(paths, "RUNS", tmp_path)
    monkeypatch.setattr(
        tc,
        "accuracies",
        lambda disks, seed: iter(
            [tc.Accuracy(disks.diversity, seed, disks.pixels, "00", disks.separation, *[0.5] * 5)]
        ),
    )
    some = [{}, {"separation": 0.5}, {"pixels": 16}, {"diversity": 0.1 + 1e-9}]
    rows = [tc.stored(tc.Disks(**change), 0)[0] for change in some]
    assert [row.both for row in rows] == [1.0, 0.5, 1.0, 1.0]
    assert [row.step for row in rows] == [12, 12, 16, 12] and rows[3].diversity != 0.1


def test_the_last_snapshot_s_net_is_trained_no_further():
    for step, _, net in tc.train(tc.Disks(), 0, (0, 1), batch=4):
        weights = [p.detach().clone() for p in net.parameters()]
    assert step == 1 and all(torch.equal(a, b) for a, b in zip(weights, net.parameters(), strict=True))


def test_disk_net_starts_as_the_best_linear_denoiser():
    """A zero output layer leaves EDM's c_skip x, the posterior mean of N(0, sigma_data^2) data."""
    x, sigma = torch.randn(3, 3, 12, 12, generator=seeded()), torch.tensor([0.1, 0.5, 5.0])
    net = tc.DiskNet()
    torch.nn.init.zeros_(net.out.bias)
    expected = x * (0.25 / (0.25 + sigma**2))[:, None, None, None]
    assert (net(x, sigma, torch.zeros(3, 2)) - expected).abs().max() < 1e-6


def test_training_repeats_and_reduces_the_loss_without_touching_global_randomness():
    torch.manual_seed(5)
    state = torch.get_rng_state()
    losses = [[s.loss for s in tc.train(tc.Disks(), seed, (1, 2, 25), batch=16)] for seed in (0, 0, 1)]
    assert losses[0] == losses[1] != losses[2]
    assert losses[0][2] < 0.7 * losses[0][0]
    assert torch.equal(torch.get_rng_state(), state)


def test_rows_keep_their_types(tmp_path):
    rows = list(tc.accuracies(tc.Disks(), 0, (0,)))
    assert [row.label for row in rows] == ["00", "01", "10", "11"]
    store.write_rows(tmp_path / "rows.csv", "command", tc.Accuracy, rows)
    assert store.read_rows(tmp_path / "rows.csv", tc.Accuracy) == rows


def test_generate_uses_the_shared_sampler_on_any_denoiser():
    """A denoiser that always answers one image generates that image, whatever the net behind it."""
    disks = tc.Disks()
    x0 = disks.images(torch.tensor([[1.0, 0.0]]), seeded())
    images = tc.generate(lambda x, sigma, cond: x0.expand_as(x), disks, (1, 0), count=2)
    assert torch.equal(images, x0.expand(2, -1, -1, -1))
    assert diffusion.SIGMA_DATA == 0.5


def test_other_seeds_never_take_the_place_of_the_stored_rows(tmp_path, monkeypatch, capsys):
    for words in (["--seeds", "1"], ["--diversities", "0.2"]):
        with pytest.raises(SystemExit):
            tc.main(words)
        assert "name a file of your own by --output" in capsys.readouterr().err
    monkeypatch.setattr(tc, "stored", lambda *_: [])
    words = ["--seeds", "1", "--output", str(tmp_path / "rows.csv")]
    tc.main(words)
    assert (tmp_path / "rows.csv").read_text().startswith(f"# {tc.COMMAND} --seeds 1 --output ")
