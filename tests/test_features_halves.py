"""What features are fitted on and tested on: halves, noise and renders of their own; and that twice a
direction has twice its effect.
"""

import pytest
import torch
from torch import nn

from lcs_utils.diffusion import karras_sigmas
from lcs_utils.evaluation.features import feature_causal, feature_nets, net_features
from lcs_utils.evaluation.features.feature_nets import Subject
from lcs_utils.evaluation.features.net_features import Setting
from lcs_utils.features import causal, contexts, measures
from lcs_utils.features.capture import Space
from lcs_utils.models.precond import EDMDenoiser
from lcs_utils.models.unet import EDM2UNet

N, DRAWS = 6, 40


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def probed(at):
    """{control: accuracies of a probe, K = 1 and 3} where conditions are the features from `at(draw)` on."""

    def draw(i):
        return torch.cat([torch.tensor([float(i)]), torch.randn(3 * N, generator=generator(i))]).double()

    def respond(x_t, sigma, sets):
        first, z = at(int(x_t[0])), 0.05 * x_t[1:].expand(len(sets), -1).clone()
        z[:, first : first + N] += torch.tensor([[float(j in J) for j in range(N)] for J in sets])
        return {Space("layer"): z}

    sums = contexts.gather(respond, draw, DRAWS, 1.0, N, (), shuffled=True)[Space("layer")]
    found = {}
    for m in measures.probe(sums, 1, (1, 3)):
        found.setdefault(m.control, []).append(m.value)
    return found


def test_a_probe_knows_nothing_of_the_half_it_is_tested_on():
    """Where the tested half says its conditions elsewhere, a probe of the fitted half reads chance; fitted on
    both it would read them all."""
    assert min(probed(lambda i: 0)[""]) > 0.95
    moved = probed(lambda i: 0 if i < DRAWS // 2 else N)
    assert moved[""] == pytest.approx([0.5, 0.5], abs=0.05)


class Painter(nn.Module):
    """Condition j brightens its own quarter of the image by its strength."""

    def __init__(self):
        super().__init__()
        self.paint = nn.Conv2d(4, 4, 1, bias=False)
        self.paint.weight.data.copy_(torch.eye(4)[..., None, None])
        self.places = torch.zeros(4, 8, 8, dtype=torch.bool)
        for j in range(4):
            self.places[j, j // 2 * 4 : j // 2 * 4 + 4, j % 2 * 4 : j % 2 * 4 + 4] = True

    def denoise(self, x_t, sigma, cond):
        z = self.paint(cond[:, :, None, None] * self.places)
        return (z.sum(1, keepdim=True) - 0.5).expand(-1, 3, -1, -1) + 0.0 * x_t


@torch.no_grad()
@pytest.mark.parametrize("alpha", [-1.0, 0.5, 2.0])
def test_alpha_times_a_direction_has_alpha_times_its_effect(alpha):
    net, noise, sigmas = Painter(), torch.randn(2, 3, 8, 8, generator=generator()), karras_sigmas(3)
    singles = 0.25 * torch.eye(4)  # twice of it stays within [-1, 1]
    found = causal.directions(net.denoise, net, "paint", singles, noise, sigmas)
    judge = causal.near_places(net.places)
    results = causal.interventions(
        net.denoise, net, found, singles, (0, 1), 1, noise, sigmas, judge, alpha=alpha
    )
    at = {(r.intervention, r.control): r.effect.tolist() for r in results}
    assert at["add", ""] == pytest.approx([alpha] * 2, abs=1e-5)
    assert at["add", "condition"] == at["remove", ""] == pytest.approx([1] * 2)  # these have no alpha
    z = {}
    for name, denoise in (
        ("plain", net.denoise),
        ("added", causal.adding(net.denoise, net, found, 2, alpha)),
    ):
        z[name] = denoise(noise, torch.full((2,), 5.0), torch.zeros(2, 4))
    added = (z["added"] - z["plain"])[:, 0]
    torch.testing.assert_close(added, (alpha * 0.25 * net.places[2]).expand(2, -1, -1))


def test_directions_come_from_other_noise_than_the_samples_that_they_move(monkeypatch):
    module = feature_nets.untrained_net(
        EDM2UNet(
            cond_dim=256,
            channels=16,
            channel_mult=[1, 2],
            num_blocks=1,
            attention_levels=[],
            head_channels=8,
        )
    )
    of = Subject("stub", "0" * 12, EDMDenoiser(module, 0.5), module, 16, 2)
    fitted, moved = [], []

    def directions(*args, real=causal.directions, **more):
        fitted.append(args[4])
        return real(*args, **more)

    def interventions(*args, real=causal.interventions, **more):
        moved.append(args[6])
        return real(*args, **more)

    monkeypatch.setattr(causal, "directions", directions)
    monkeypatch.setattr(causal, "interventions", interventions)
    feature_causal.causal_rows(of, "tiny", ["encoder.0.scale"], 0.5, images=3, steps=2)
    (own, twin), (noise,) = fitted, moved
    assert own.equal(twin) and own.shape == noise.shape == (3, 3, 16, 16)
    correlation = torch.corrcoef(torch.stack([own.flatten(), noise.flatten()]))[0, 1]
    assert abs(float(correlation)) < 0.1
    for one in (own, noise):
        assert abs(float(one.std()) - 1) < 0.1


def test_each_draw_is_its_own_render_and_noise():
    renders, sigma = net_features.scene_images(4, 16), 0.5
    draw = net_features.draws_of(Setting(sigma, "renders", "random", 4), 16)
    noise = net_features.draws_of(Setting(sigma, "noise", "random", 4), 16)
    for i in range(4):
        torch.testing.assert_close(draw(i) - noise(i), renders[i])
        assert abs(float(noise(i).std()) - sigma) < 0.05
        for k in range(i):
            assert float((renders[i] - renders[k]).abs().max()) > 0.1
            assert float((noise(i) - noise(k)).abs().max()) > sigma
