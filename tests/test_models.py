"""The nets against what their equations promise: magnitudes, gradients, locality, and a round trip through
files.
"""

import copy
import math
import subprocess
import sys

import pytest
import torch

from lcs_utils import paths
from lcs_utils.diffusion import SIGMA_DATA, add_noise, expand, final, karras_sigmas, loss_weight, sample
from lcs_utils.models import unet
from lcs_utils.models.focus import focus
from lcs_utils.models.local_patch import (
    LocalPatchDenoiser,
    cell_size,
    choose_patches,
    extract_patches,
    patch_conditions,
)
from lcs_utils.models.magnitude_preserving import MPConv, MPFourier, mp_cat, mp_silu, mp_sum, renormalize_
from lcs_utils.models.pipeline import ConditionalPipeline
from lcs_utils.models.plain import plain_
from lcs_utils.models.precond import EDMDenoiser, LogVariance, edm2_loss, precondition
from lcs_utils.models.unet import EDM2UNet, MCScale


def small_net(**changes):
    torch.manual_seed(0)
    config = dict(
        cond_dim=16, channels=16, channel_mult=[1, 2], num_blocks=1, attention_levels=[1], head_channels=16
    )
    net = EDM2UNet(**(config | changes)).eval()
    with torch.no_grad():  # gains start at 0, where a net ignores everything: open them
        net.out_gain.fill_(1.0)
        for module in net.modules():
            if isinstance(module, MCScale):
                module.gain.fill_(0.5)
    return net


def std(x):
    return float(x.detach().std())


def test_primitives_keep_unit_variance():
    torch.manual_seed(0)
    a, b = torch.randn(64, 32, 16, 16), torch.randn(64, 16, 16, 16)
    assert std(mp_silu(a)) ** 2 + float(mp_silu(a).mean()) ** 2 == pytest.approx(1, abs=0.01)
    assert std(mp_sum(a, torch.randn_like(a), 0.3)) == pytest.approx(1, abs=0.01)
    joined = mp_cat(a, b)
    assert std(joined[:, :32]) ** 2 * 32 == pytest.approx(
        std(joined[:, 32:]) ** 2 * 16, rel=0.01
    )  # equal shares
    assert float(joined.square().mean()) == pytest.approx(1, abs=0.01)
    assert std(MPConv(32, 64, 3)(a)) == pytest.approx(1, abs=0.05)
    assert std(torch.nn.functional.silu(a)) < 0.7  # the plain nonlinearity does not


def test_activations_keep_unit_magnitude_through_the_net():
    net, seen = small_net(channels=32, head_channels=32), []
    for block in [*net.encoder, *net.decoder]:
        block.register_forward_hook(
            lambda module, inputs, out: seen.append(float(out.square().mean().sqrt()))
        )
    with torch.no_grad():
        net(torch.randn(8, 3, 16, 16), torch.zeros(8), torch.zeros(8, 16))
    assert len(seen) == len(net.encoder) + len(net.decoder) and all(0.8 < rms < 1.3 for rms in seen), seen


def test_the_net_computes_edm2s_equations_in_value_and_gradient():
    torch.manual_seed(0)
    settings = dict(channels=32, channel_mult=[1, 2], num_blocks=1, attention_levels=[1], head_channels=32)
    net = EDM2UNet(cond_dim=4, **settings)
    for module in net.modules():  # gains start at 0, where nothing is heard
        if getattr(module, "gain", None) is not None:
            module.gain.data.fill_(0.7)
    net.out_gain.data.fill_(1.0)
    x, c_noise, cond = torch.randn(2, 3, 16, 16), torch.tensor([-0.5, 0.5]), torch.eye(4)[:2]

    def both(of):
        out = of(x, c_noise, cond)
        weights = [p for p in of.parameters() if p.requires_grad]
        return [out.detach(), *torch.autograd.grad(out.square().sum(), weights)]

    fast, by_equation = both(net), both(plain_(copy.deepcopy(net)))
    for a, b in zip(fast, by_equation, strict=True):
        assert torch.allclose(a, b, rtol=1e-4, atol=1e-5 * float(b.abs().max()))
    net.encoder[0].conv_out.constant *= 1.01  # another share of the residual is seen
    assert not torch.allclose(both(net)[0], by_equation[0], rtol=1e-4, atol=1e-5)


def test_xs_has_the_published_number_of_parameters():
    torch.manual_seed(0)
    net = EDM2UNet(cond_dim=256)  # EDM2-XS at 128 px: width 128, multipliers 1..4, three blocks per level
    assert sum(p.numel() for p in net.parameters()) == pytest.approx(120.2e6, rel=0.02)
    scales = [m for m in net.modules() if isinstance(m, MCScale)]
    assert len(scales) == 36 and len(net.encoder) == 15 and len(net.decoder) == 21


def test_weights_on_the_sphere_do_not_change_the_function_and_renormalizing_is_idempotent():
    net = small_net()
    x, c_noise, cond = torch.randn(2, 3, 16, 16), torch.tensor([0.1, -0.3]), torch.rand(2, 16)
    before = net(x, c_noise, cond)
    with torch.no_grad():
        net.conv_in.weight *= 7.0  # only the direction of a weight matters
    assert torch.allclose(net(x, c_noise, cond), before, atol=1e-3)
    renormalize_(net)
    assert torch.allclose(net.conv_in.weight.square().mean((1, 2, 3)).sqrt(), torch.ones(16), atol=1e-3)
    # forward has no side effects: the weights after it are the weights before it
    weights = copy.deepcopy(net.state_dict())
    net.train()(x, c_noise, cond)
    assert all(torch.equal(a, b) for a, b in zip(weights.values(), net.state_dict().values()))


def test_the_condition_enters_through_mcscale_only():
    net = small_net()
    x, c_noise = torch.randn(1, 3, 16, 16), torch.zeros(1)
    conds = torch.eye(16)[:2]
    outputs = [net(x, c_noise, c[None]) for c in conds]
    assert not torch.allclose(*outputs)
    with torch.no_grad():
        for module in net.modules():
            if isinstance(module, MCScale):
                module.gain.zero_()
    outputs = [net(x, c_noise, c[None]) for c in conds]
    assert torch.equal(*outputs)


def test_multi_hot_labels_grow_by_sqrt_k_unless_normalized():
    norms = {}
    for normalized in (False, True):
        net = small_net(cond_dim=256, normalize_label=normalized)
        captured = []
        net.embed_label.register_forward_hook(lambda m, i, out: captured.append(out))
        original, unet_sum = unet.mp_sum, []

        def seen(a, b, t):
            unet_sum.append(b.norm().item())
            return original(a, b, t)

        for k in (1, 9):
            cond = torch.zeros(1, 256)
            cond[0, torch.randperm(256, generator=torch.Generator().manual_seed(1))[:k]] = 1
            unet.mp_sum = seen
            try:
                net.embed(torch.zeros(1), cond)
            finally:
                unet.mp_sum = original
        norms[normalized] = unet_sum[1] / unet_sum[0]
    assert norms[False] == pytest.approx(3, rel=0.35) and norms[True] == pytest.approx(1, rel=0.35)


def test_for_one_label_normalizing_is_the_same_training_and_for_more_it_is_the_condition_divided_by_sqrt_k():
    """So Exp. 2 sampled with condition / sqrt(k) is the net that normalized labels would have given."""
    torch.manual_seed(0)
    standard, normalized = (small_net(cond_dim=256, normalize_label=n) for n in (False, True))
    normalized.load_state_dict(standard.state_dict())
    cond = torch.zeros(3, 256)
    cond[1, 7] = 1
    cond[2, [3, 50, 90, 200]] = 1
    c_noise = torch.zeros(3)
    assert torch.equal(standard.embed(c_noise, cond)[:2], normalized.embed(c_noise, cond)[:2])
    assert not torch.allclose(standard.embed(c_noise, cond)[2], normalized.embed(c_noise, cond)[2])
    assert torch.allclose(
        standard.embed(c_noise, cond / torch.tensor([[1.0], [1.0], [2.0]])),
        normalized.embed(c_noise, cond),
        atol=1e-6,
    )


def test_preconditioning_gives_the_network_unit_variance_in_and_out():
    x0 = SIGMA_DATA * torch.randn(4096, 1, 1, 1).expand(-1, 3, 1, 1)
    for level in (0.01, 0.5, 50.0):
        sigma = torch.full((4096,), level)
        x_t = add_noise(x0, sigma, torch.Generator().manual_seed(0))
        seen = {}

        def net(x, c_noise, cond):
            seen["x"], seen["c_noise"] = x, c_noise
            return torch.zeros_like(x)

        skip = precondition(net, x_t, sigma, None, SIGMA_DATA)
        assert std(seen["x"]) == pytest.approx(1, abs=0.05)
        assert float(seen["c_noise"][0]) == pytest.approx(torch.tensor(level).log().item() / 4)
        one = precondition(lambda x, c, cond: torch.ones_like(x), x_t, sigma, None, SIGMA_DATA)
        target = (x0 - skip) / (one - skip)  # what F must be for D = x0
        assert std(target) == pytest.approx(1, abs=0.05)
        assert torch.allclose(
            (one - skip).square() * expand(loss_weight(sigma), x0), torch.ones_like(x0), rtol=1e-3
        )


def test_log_variance_at_its_optimum_is_the_log_error():
    x0, x0_hat, sigma = torch.zeros(1, 3, 4, 4), torch.full((1, 3, 4, 4), 0.3), torch.tensor([0.5])
    u = torch.zeros(1, requires_grad=True)
    _, error = edm2_loss(x0_hat, x0, sigma, u)
    best = error.log().requires_grad_()
    edm2_loss(x0_hat, x0, sigma, best)[0].sum().backward()
    assert float(best.grad) == pytest.approx(0, abs=1e-6)


def test_patches_are_the_neighborhoods_of_their_cells():
    radius, grid_size, m = 1, 4, 2
    image = torch.arange(3 * 64.0).reshape(1, 3, 8, 8) + 1
    patches, valid = extract_patches(image, radius, grid_size)
    assert patches.shape == (1, 16, 3, 6, 6) and valid.shape == (1, 16, 1, 6, 6)
    for cell in range(16):
        i, j = divmod(cell, 4)
        assert torch.equal(
            patches[0, cell, :, m : 2 * m, m : 2 * m], image[0, :, i * m : i * m + m, j * m : j * m + m]
        )
    assert torch.equal(patches[0] != 0, valid[0].expand(-1, 3, -1, -1) != 0)  # exactly the outside is 0
    few = torch.tensor([[14, 3]])
    assert all(
        torch.equal(a, b[:, few[0]])
        for a, b in zip(extract_patches(image, radius, grid_size, few), (patches, valid))
    )


def test_patch_conditions_are_the_subgrid_and_the_center():
    grid = torch.zeros(1, 16)
    grid[0, 5] = 2  # row 1, column 1
    local = patch_conditions(grid, 1, 4)
    assert local.shape == (1, 16, 11)
    subgrids = local[0, :, :9].reshape(4, 4, 3, 3)
    for i in range(4):
        for j in range(4):
            near = abs(i - 1) <= 1 and abs(j - 1) <= 1
            assert float(subgrids[i, j].sum()) == (2 if near else 0)
            if near:
                assert float(subgrids[i, j, 1 - i + 1, 1 - j + 1]) == 2
    assert local[0, 0, 9:].tolist() == [-0.75, -0.75] and local[0, 1, 9:].tolist() == [-0.25, -0.75]


def test_whole_numbers_are_conditions_like_others():
    counts = torch.randint(0, 3, (2, 16), generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(patch_conditions(counts, 1, 4), patch_conditions(counts.float(), 1, 4))


def test_chosen_patches_are_one_positive_and_one_negative():
    grid = torch.zeros(64, 256)
    grid[:32, 17], grid[32:, 200] = 1, 1
    cells = choose_patches(grid, 2, 16, torch.Generator().manual_seed(0))
    active = patch_conditions(grid, 2, 16)[..., :25].sum(-1) > 0
    rows = torch.arange(64)
    assert bool(active[rows, cells[:, 0]].all()) and not bool(active[rows, cells[:, 1]].any())


def test_where_no_patch_holds_a_label_or_all_do_any_is_taken():
    for grid in (torch.zeros(4000, 16), torch.ones(4000, 16)):
        for chosen in choose_patches(grid, 1, 4, torch.Generator().manual_seed(0)).unbind(1):
            often = torch.bincount(chosen, minlength=16)
            assert len(often) == 16 and 150 < int(often.min()) and int(often.max()) < 350


def patch_denoiser(**changes):
    net = small_net(cond_dim=11, channel_mult=[1], attention_levels=[], **changes)
    return LocalPatchDenoiser(net, radius=1, grid_size=4)


def test_batched_patches_equal_one_cell_at_a_time():
    denoise = patch_denoiser()
    x_t, sigma, cond = torch.randn(2, 3, 8, 8), torch.tensor([0.5, 3.0]), torch.randint(0, 2, (2, 16)).float()
    together = denoise(x_t, sigma, cond)
    alone = LocalPatchDenoiser(denoise.net, 1, 4, chunk=1)(x_t, sigma, cond)
    assert torch.allclose(together, alone, atol=1e-5)


def test_a_local_net_refuses_images_of_another_side_at_a_few_cells_too():
    whole = LocalPatchDenoiser(torch.nn.Identity(), radius=1, grid_size=4, side=8)
    x_t, sigma, cond = torch.zeros(1, 3, 16, 16), torch.ones(1), torch.zeros(16)
    for denoise in (whole, focus(whole, [(3, 3)], 16)):
        with pytest.raises(ValueError, match=r"x_t must have shape \[batch, 3, 8, 8\]"):
            denoise(x_t, sigma, cond)


def test_a_patch_net_is_local_by_architecture_and_a_whole_image_net_is_not():
    torch.manual_seed(1)
    x_t, sigma, cond = torch.randn(1, 3, 8, 8), torch.tensor([2.0]), torch.zeros(1, 16)
    changed_x, changed_cond = x_t.clone(), cond.clone()
    changed_x[..., 4:] += 1  # columns 2, 3 of cells
    changed_cond[0, 3] = 1  # cell (0, 3)
    local = patch_denoiser()
    far = (slice(None), slice(None), slice(None), slice(0, 2))  # column 0 of cells
    base = local(x_t, sigma, cond)
    assert torch.equal(local(changed_x, sigma, cond)[far], base[far])
    assert torch.equal(local(x_t, sigma, changed_cond)[far], base[far])
    assert not torch.equal(local(x_t, sigma, changed_cond), base)
    whole = EDMDenoiser(small_net())
    base = whole(x_t, sigma, cond)
    assert not torch.equal(whole(changed_x, sigma, cond)[far], base[far])
    assert not torch.equal(whole(x_t, sigma, changed_cond)[far], base[far])


@pytest.mark.parametrize("radius", [None, 1])
def test_a_pipeline_survives_its_files(tmp_path, radius):
    net = small_net() if radius is None else patch_denoiser().net
    pipeline = ConditionalPipeline(net, resolution=8, radius=radius, grid_size=4)
    pipeline.save_pretrained(tmp_path)
    loaded = ConditionalPipeline.from_pretrained(tmp_path)
    cond, seeded = torch.rand(2, 16), lambda: torch.Generator().manual_seed(3)
    args = dict(num_inference_steps=3, solver="dpmpp_2m")
    assert torch.equal(
        pipeline(cond, generator=seeded(), **args).images, loaded(cond, generator=seeded(), **args).images
    )
    assert not torch.equal(pipeline(cond, generator=seeded(), **args).images, pipeline(cond, **args).images)


@pytest.mark.parametrize("solver", ["heun", "dpmpp_2m"])
def test_a_pipeline_samples_with_the_solver_that_it_is_asked_for(solver):
    pipeline = ConditionalPipeline(small_net(), resolution=8, grid_size=4, sigma_data=0.14)
    cond, noise = torch.eye(16)[:2], torch.randn(2, 3, 8, 8, generator=torch.Generator().manual_seed(3))

    @torch.no_grad()
    def drawn(by, sigma_data=0.14):
        steps = sample(EDMDenoiser(pipeline.net, sigma_data), noise, karras_sigmas(4), cond, by)
        return final(steps).clamp(-1, 1)

    found = pipeline(cond, 4, solver, torch.Generator().manual_seed(3)).images
    assert torch.equal(found, drawn(solver))
    other = {"heun": "dpmpp_2m", "dpmpp_2m": "heun"}[solver]
    assert not torch.allclose(found, drawn(other), atol=1e-2)
    assert not torch.allclose(found, drawn(solver, SIGMA_DATA), atol=1e-2)


def test_bad_input_is_named():
    whole, local = EDMDenoiser(small_net()), patch_denoiser()
    x_t, sigma, cond = torch.randn(1, 3, 8, 8), torch.ones(1), torch.zeros(1, 16)
    with pytest.raises(ValueError, match="sigma must be > 0, got -1"):
        whole(x_t, -sigma, cond)
    with pytest.raises(ValueError, match=r"cond must have shape \[1, 16\], got \[1, 15\]"):
        whole(x_t, sigma, cond[:, :15])
    with pytest.raises(ValueError, match=r"cond must have shape \[batch, 16\], got \[1, 15\]"):
        local(x_t, sigma, cond[:, :15])
    with pytest.raises(ValueError, match=">= 0; got -1"):
        local(x_t, sigma, cond - 1)
    with pytest.raises(ValueError, match="grid_size 16 does not divide resolution 40"):
        cell_size(40, 16)
    with pytest.raises(ValueError, match="sides a multiple of 2"):
        small_net()(torch.randn(1, 3, 7, 7), sigma, cond)  # a patch that the net's levels do not divide
    pipeline = ConditionalPipeline(small_net(), resolution=8, grid_size=4)
    with pytest.raises(ValueError, match="unknown solver 'ddim'; allowed: heun, dpmpp_2m"):
        pipeline(cond, solver="ddim")
    with pytest.raises(ValueError, match=r"cond must have shape \[batch, 16\]"):
        pipeline(torch.zeros(1, 4))


ONE_GRAPH = """
import torch
from lcs_utils.models.precond import EDMDenoiser
from lcs_utils.models.unet import EDM2UNet
size = dict(channels=16, channel_mult=[1], num_blocks=1, attention_levels=[0], head_channels=8)
denoise = EDMDenoiser(EDM2UNet(cond_dim=4, **size))
inputs = torch.randn(2, 3, 8, 8), torch.ones(2), torch.zeros(2, 4)
found = torch._dynamo.explain(lambda *args: denoise(*args))(*inputs)
print(found.graph_count, found.graph_break_count)
"""


def test_one_graph_under_torch_compile():
    """The checks of a denoiser do not look at values while it is compiled; otherwise they do. In a process of
    its own, since the types checked in tests split graphs.
    """
    done = subprocess.run([sys.executable, "-c", ONE_GRAPH], capture_output=True, text=True, cwd=paths.ROOT)
    assert done.stdout.split() == ["1", "0"], done.stderr[-2000:]
    size = dict(channels=16, channel_mult=[1], num_blocks=1, attention_levels=[0], head_channels=8)
    denoise = EDMDenoiser(EDM2UNet(cond_dim=4, **size))
    with pytest.raises(ValueError, match="sigma must be > 0, got 0"):
        denoise(torch.randn(2, 3, 8, 8), torch.zeros(2), torch.zeros(2, 4))


def test_the_log_variance_hears_a_quarter_of_the_log_noise():
    torch.manual_seed(0)
    net, sigma = LogVariance(16), torch.tensor([0.01, 1.0, 20.0])
    features = math.sqrt(2) * torch.cos(
        torch.outer(sigma.log() / 4, net.fourier.frequencies) + net.fourier.phases
    )
    weight = net.linear.weight[0] / net.linear.weight[0].square().mean().sqrt()
    assert torch.allclose(net(sigma), features @ weight / 4, atol=1e-3)


def test_fourier_features_have_edm2s_frequencies():
    torch.manual_seed(0)
    fourier = MPFourier(20_000)
    assert float(fourier.frequencies.std()) == pytest.approx(2 * math.pi, rel=0.03)
    assert 0 <= float(fourier.phases.min()) and float(fourier.phases.max()) <= 2 * math.pi
    assert float(fourier.phases.std()) == pytest.approx(2 * math.pi / 12**0.5, rel=0.03)
    x = fourier(torch.linspace(-1, 1, 50))
    assert float(x.square().mean()) == pytest.approx(1, abs=0.02)


def test_noise_and_condition_enter_the_embedding_with_equal_weight():
    torch.manual_seed(0)
    net = EDM2UNet(cond_dim=16, channels=16, channel_mult=[1], num_blocks=1, attention_levels=[])
    c_noise, cond = torch.tensor([0.3, -0.7]), torch.eye(16)[:2]
    noise, label = net.embed_noise(net.fourier(c_noise)), net.embed_label(4 * cond)
    torch.testing.assert_close(net.embed(c_noise, cond), mp_silu((noise + label) / 2**0.5))
