"""The denoiser contract and the sampler against exact Gaussian and mixture denoisers, and against
diffusers' solver.
"""

import math

import pytest
import torch
from diffusers import EDMDPMSolverMultistepScheduler

from lcs_utils import diffusion
from lcs_utils.theory.distributions import GaussianMixture, gaussian

GAUSSIAN = gaussian([0.3, -0.2], [[0.3, 0.1], [0.1, 0.1]])
COVS = torch.stack([0.01 * torch.eye(2), 0.02 * torch.eye(2), 0.01 * torch.eye(2)])
MIXTURE = GaussianMixture([0.5, 0.3, 0.2], torch.tensor([[0.6, 0.0], [-0.5, 0.4], [-0.3, -0.6]]), COVS)


def unit_noise(batch, seed=0):
    return torch.randn(batch, 2, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def exact_flow(x, start, stop):
    """The probability-flow ODE of GAUSSIAN solved exactly: each principal axis is scaled by the ratio of
    deviations.
    """
    variances, axes = torch.linalg.eigh(GAUSSIAN.cov)
    gain = ((variances + stop**2) / (variances + start**2)).sqrt()
    return GAUSSIAN.mean + (x - GAUSSIAN.mean) @ axes @ gain.diag() @ axes.T


def flow_error(solver, steps):
    """Error of the state at sigma = 0.5, reached from sigma = 5 in `steps` steps (the jump to 0 comes after
    it).
    """
    sigmas = diffusion.karras_sigmas(steps + 1, 0.5, 5.0)
    noise = unit_noise(50)
    states = [step.x_t for step in diffusion.sample(GAUSSIAN.denoise, noise, sigmas, solver=solver)]
    return float((states[-2] - exact_flow(5.0 * noise, 5.0, 0.5)).abs().max())


@pytest.mark.parametrize("solver", diffusion.SOLVERS)
def test_solvers_converge_with_order_two(solver):
    errors = [flow_error(solver, steps) for steps in (20, 40, 80)]
    orders = [math.log2(a / b) for a, b in zip(errors, errors[1:])]
    assert all(1.8 < order < 2.4 for order in orders), orders


def test_default_lengths_are_accurate_on_a_mixture():
    noise = unit_noise(300)

    def drawn(steps, solver):
        return diffusion.final(
            diffusion.sample(MIXTURE.denoise, noise, diffusion.karras_sigmas(steps), solver=solver)
        )

    truth = drawn(400, "heun")
    for solver, bound in [("heun", 6e-3), ("dpmpp_2m", 1e-2)]:
        error = {steps: float((drawn(steps, solver) - truth).square().mean().sqrt()) for steps in (6, 32)}
        assert error[32] < bound < error[6], (solver, error)


def test_samples_have_the_mixture_weights_and_moments():
    drawn = diffusion.final(diffusion.sample(MIXTURE.denoise, unit_noise(4000), diffusion.karras_sigmas(32)))
    share = MIXTURE._project(drawn, None)[2].softmax(-1).mean(0)  # P(component | x)
    torch.testing.assert_close(share, MIXTURE.weights, atol=0.03, rtol=0)
    torch.testing.assert_close(torch.cov(drawn.T), MIXTURE.cov, atol=0.02, rtol=0)
    assert float((share - torch.tensor([0.2, 0.3, 0.5])).abs().max()) > 0.2


def test_dpmpp_2m_agrees_with_diffusers():
    scheduler = EDMDPMSolverMultistepScheduler(
        sigma_min=0.002,
        sigma_max=80.0,
        sigma_data=0.5,
        rho=7.0,
        solver_order=2,
        solver_type="midpoint",
        prediction_type="epsilon",
        lower_order_final=False,
        final_sigmas_type="zero",
    )
    scheduler.set_timesteps(24)
    noise = unit_noise(20).float()
    x = noise * 80.0
    for i, t in enumerate(scheduler.timesteps):
        sigma = scheduler.sigmas[i]
        x0_hat = MIXTURE.denoise(x, sigma.expand(len(x)))
        skip, out = (
            0.25 / (sigma**2 + 0.25),
            sigma * 0.5 / (sigma**2 + 0.25).sqrt(),
        )  # it wants the raw network output
        x = scheduler.step((x0_hat - skip * x) / out, t, x).prev_sample
    ours = diffusion.final(
        diffusion.sample(MIXTURE.denoise, noise, diffusion.karras_sigmas(24), solver="dpmpp_2m")
    )
    torch.testing.assert_close(ours, x, atol=2e-4, rtol=0)
    other = diffusion.final(
        diffusion.sample(MIXTURE.denoise, noise, diffusion.karras_sigmas(24), solver="heun")
    )
    assert float((other - x).abs().max()) > 2e-3  # so the agreement is not just that both are accurate


def own(n, seed=0):
    return [torch.Generator().manual_seed(1000 * seed + i) for i in range(n)]


def test_the_reverse_sde_with_eta_one_is_diffusers():
    scheduler = EDMDPMSolverMultistepScheduler(
        algorithm_type="sde-dpmsolver++", solver_type="midpoint", lower_order_final=False, sigma_data=0.5
    )
    scheduler.set_timesteps(24)
    noise = unit_noise(1).float()
    x, (generator,) = noise * 80.0, own(1)
    for i, t in enumerate(scheduler.timesteps):
        sigma = scheduler.sigmas[i]
        x0_hat = MIXTURE.denoise(x, sigma.expand(1))
        skip, out = 0.25 / (sigma**2 + 0.25), sigma * 0.5 / (sigma**2 + 0.25).sqrt()
        x = scheduler.step((x0_hat - skip * x) / out, t, x, generator=generator).prev_sample

    def drawn(eta):
        return diffusion.final(
            diffusion.sample(
                MIXTURE.denoise, noise, diffusion.karras_sigmas(24), None, diffusion.SDE, own(1), eta
            )
        )

    torch.testing.assert_close(drawn(1.0), x, atol=2e-4, rtol=0)
    assert float((drawn(1.2) - x).abs().max()) > 2e-3


@pytest.mark.parametrize("eta", [0.0, 1.0, diffusion.ETA])
def test_the_reverse_sde_keeps_the_distribution_at_every_noise_level(eta, monkeypatch):
    """However much noise is replaced, images at noise level sigma are N(mean, cov + sigma^2)."""
    noise = unit_noise(2000)

    def states():
        sigmas = diffusion.karras_sigmas(150, 0.05, 20.0)
        return list(diffusion.sample(GAUSSIAN.denoise, noise, sigmas, None, diffusion.SDE, own(2000), eta))

    def spread(step):
        variances, axes = torch.linalg.eigh(GAUSSIAN.cov)
        return ((step.x_t - GAUSSIAN.mean) @ axes).square().mean(0) / (variances + step.sigma**2)

    found = states()
    for i in (30, 75, 120, 148):
        assert spread(found[i]).sub(1).abs().max() < 0.12, (i, spread(found[i]))
    if eta:  # without fresh noise the variance is lost
        monkeypatch.setattr(torch.Tensor, "normal_", lambda self, **_: self.zero_())
        assert spread(states()[120]).max() < 0.5


def test_without_fresh_noise_the_reverse_sde_is_the_flow():
    noise, sigmas = unit_noise(5), diffusion.karras_sigmas(20)
    steps = diffusion.sample(MIXTURE.denoise, noise, sigmas, None, diffusion.SDE, own(5), 0.0)
    flow = diffusion.sample(MIXTURE.denoise, noise, sigmas, None, "dpmpp_2m")
    assert torch.equal(diffusion.final(steps), diffusion.final(flow))


def test_small_errors_on_the_way_are_forgotten_by_the_reverse_sde():
    """Why: a denoiser that is wrong above a noise of 1 alone leaves its mark on the flow's samples."""

    def wrong(x, sigma, cond):
        return GAUSSIAN.denoise(x, sigma) + 0.3 * (sigma > 1)[:, None]

    noise, sigmas = unit_noise(2000), diffusion.karras_sigmas(diffusion.SDE_STEPS)

    def moved(solver, **how):
        drawn = diffusion.final(diffusion.sample(wrong, noise, sigmas, None, solver, **how))
        return float((drawn.mean(0) - GAUSSIAN.mean).abs().max())

    assert moved("dpmpp_2m") > 0.05
    assert moved(diffusion.SDE, generators=own(2000)) < 0.02


def test_karras_sigmas_follow_their_formula_and_match_diffusers():
    sigmas = diffusion.karras_sigmas(32)
    assert sigmas[0] == pytest.approx(80) and sigmas[-2] == pytest.approx(0.002) and sigmas[-1] == 0
    root = sigmas[:-1] ** (1 / 7)
    torch.testing.assert_close(root.diff(), root.diff()[:1].expand(31))
    scheduler = EDMDPMSolverMultistepScheduler(sigma_min=0.002, sigma_max=80.0, rho=7.0)
    scheduler.set_timesteps(32)
    torch.testing.assert_close(sigmas.float(), scheduler.sigmas, rtol=1e-5, atol=1e-7)


def test_the_number_of_levels_is_checked_against_the_argument(monkeypatch):
    monkeypatch.setattr(torch, "cat", lambda parts: parts[0])  # the final 0 is lost
    with pytest.raises(TypeError, match=r"karras_sigmas.\n.*f64\[5\].*\n.*\{steps\}\+1"):
        diffusion.karras_sigmas(5)


def test_score_is_tweedie():
    x, sigma = unit_noise(4), torch.tensor([0.1, 0.5, 2.0, 9.0], dtype=torch.float64)
    ours = diffusion.score(MIXTURE.denoise, x, sigma)
    torch.testing.assert_close(ours, MIXTURE.score(x, sigma), rtol=1e-9, atol=1e-9)


def test_a_score_has_the_shape_and_dtype_of_its_images():
    """One image was broadcast over the batch; float64 levels made float64 images of float32 ones."""
    x, sigma = unit_noise(4).float(), torch.full((4,), 0.5, dtype=torch.float64)
    with pytest.raises(ValueError, match=r"what denoise returns must have shape \[4, 2\], got \[1, 2\]"):
        diffusion.score(lambda x, sigma, cond: x[:1], x, sigma)
    assert diffusion.score(MIXTURE.denoise, x, sigma).dtype == torch.float32
    assert diffusion.add_noise(x, sigma).dtype == torch.float32
    assert diffusion.add_noise(x.double(), sigma.float()).dtype == torch.float64


@pytest.mark.parametrize("solver", diffusion.SOLVERS)
def test_a_step_holds_the_level_after_it_and_the_latest_answer(solver):
    answers, sigmas = [], diffusion.karras_sigmas(3)

    def denoise(x, sigma, cond):
        answers.append(MIXTURE.denoise(x, sigma))
        return answers[-1]

    levels = []
    for step in diffusion.sample(denoise, unit_noise(3), sigmas, solver=solver):
        assert torch.equal(step.x0_hat, answers[-1]) and (step.sigma == 0) == torch.equal(
            step.x_t, answers[-1]
        )
        levels.append(step.sigma)
    assert levels == sigmas[1:].tolist()


def test_bytes_reach_both_ends_of_the_data():
    images = torch.tensor([0, 51, 204, 255], dtype=torch.uint8)
    torch.testing.assert_close(diffusion.from_uint8(images), torch.tensor([-1.0, -0.6, 0.6, 1.0]))


def test_conditions_reach_the_denoiser_untouched():
    seen = []

    def denoise(x, sigma, cond):
        seen.append((cond, sigma.shape))
        return x

    diffusion.final(
        diffusion.sample(denoise, unit_noise(3), diffusion.karras_sigmas(3), cond={"any": "thing"})
    )
    assert len(seen) == 5 and all(
        call == ({"any": "thing"}, (3,)) for call in seen
    )  # Heun: 2 steps of 2, 1 of 1


def test_loss_weight_gives_the_raw_network_unit_weight():
    sigma = torch.tensor([0.01, 0.5, 7.0])
    c_out = sigma * 0.5 / (sigma**2 + 0.25).sqrt()
    torch.testing.assert_close(diffusion.loss_weight(sigma) * c_out**2, torch.ones(3))
    assert not torch.allclose(diffusion.loss_weight(sigma, 1.0) * c_out**2, torch.ones(3), atol=0.1)


def test_training_sigmas_are_stratified_log_normal():
    sigma = diffusion.training_sigmas(64, torch.Generator().manual_seed(0))
    strata = (torch.special.ndtr((sigma.log() - diffusion.P_MEAN) / diffusion.P_STD) * 64).floor().long()
    assert sorted(strata.tolist()) == list(range(64))
    assert strata.tolist() != list(range(64))  # in random order: the batch's order carries no noise level
    torch.testing.assert_close(sigma, diffusion.training_sigmas(64, torch.Generator().manual_seed(0)))


def test_add_noise_has_the_stated_deviation_per_image():
    sigma = torch.tensor([0.1, 3.0])
    noisy = diffusion.add_noise(torch.zeros(2, 3, 64, 64), sigma, torch.Generator().manual_seed(0))
    torch.testing.assert_close(noisy.flatten(1).std(1), sigma, rtol=0.05, atol=0)


def run_sampler(sigmas, solver="heun"):
    return diffusion.final(
        diffusion.sample(GAUSSIAN.denoise, unit_noise(2), torch.tensor(sigmas), solver=solver)
    )


@pytest.mark.parametrize(
    "build, message",
    [
        (lambda: run_sampler([1.0, 0.0], "euler"), "unknown solver 'euler'; allowed: heun, dpmpp_2m"),
        (lambda: run_sampler([1.0, 0.5]), "decrease strictly and end in 0"),
        (lambda: run_sampler([1.0, 1.0, 0.0]), "decrease strictly"),
        (lambda: run_sampler([0.0]), "end in 0"),
        (
            lambda: diffusion.final(
                diffusion.sample(lambda x, *_: x[:1], unit_noise(2), diffusion.karras_sigmas(2))
            ),
            r"what denoise returns must have shape \[2, .*\], got \[1, ",
        ),
        (lambda: run_sampler([1.0, 0.0], diffusion.SDE), "takes one generator of each of 2 images, got 0"),
        (
            lambda: diffusion.final(
                diffusion.sample(
                    GAUSSIAN.denoise, unit_noise(2), diffusion.karras_sigmas(2), generators=own(2)
                )
            ),
            "solver heun takes no generators, got 2",
        ),
        (lambda: diffusion.karras_sigmas(0), "steps must be >= 1, got 0"),
        (lambda: diffusion.karras_sigmas(4, 2.0, 1.0), "sigma_min must be > 0 and <= 1, got 2.0"),
        (
            lambda: diffusion.add_noise(torch.zeros(2, 3), torch.tensor([1.0, 0.0])),
            "sigma must be > 0, got 0",
        ),
        (lambda: diffusion.expand(torch.ones(3), torch.zeros(2, 5)), r"\[batch\] = \[2\], got \[3\]"),
        (lambda: diffusion.expand(torch.ones(2, 1), torch.zeros(2, 5)), r"got \[2, 1\]"),
    ],
)
def test_bad_input_is_named(build, message):
    with pytest.raises(ValueError, match=message):
        build()
