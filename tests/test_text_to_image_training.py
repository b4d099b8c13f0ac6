"""Training of the small text-to-image model against an exact reference: the average, the noise, the loss,
what is told of which latents, and which renders training may see.
"""

from dataclasses import replace

import numpy as np
import pytest
import tiny_standin
import torch
from diffusers import DDPMScheduler
from scipy.ndimage import binary_dilation
from torch import nn

from lcs_utils.clevr import dataset
from lcs_utils.diffusion import from_uint8
from lcs_utils.text_to_image import adapter, captions, data, loop, scoring, standin, training
from lcs_utils.text_to_image.captions import STYLES, Scene

# three levels of the VAE: 64 px are 16x16 latents, as trained
TINY = replace(tiny_standin.TINY, vae=(8, 8, 8))
SCENES = [
    Scene((("red", "cylinder"),)),
    Scene((("gray", "cube"), ("cyan", "sphere"))),
    Scene((("purple", "sphere"), ("brown", "cylinder"))),
]


@pytest.fixture(scope="module")
def pipeline():
    return standin.untrained(TINY)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A small folder of real renders of one and of two objects."""
    place = tmp_path_factory.mktemp("renders")
    dataset.generate(place, seed=3, counts=(1, 2), per_count=40, resolution=64, progress=False)
    return place


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def test_the_average_follows_the_net_as_computed_by_hand():
    """Of the first n nets: share n + 1 of n + 10 old, at most AVERAGE."""
    net = nn.Linear(3, 1)
    state = loop.start(net, 0)
    first = expected = net.weight.detach().clone()
    x = torch.randn(8, 3, generator=generator())
    for n, seen in ((1, 0), (2, 4), (3, 8), (100_001, 400_000)):
        state.seen[0] = seen
        loop.step(state, lambda net, _: (net(x) - 1).square().mean(), 1_000_000, 4, 1e-1)
        old = min(loop.AVERAGE, (n + 1) / (n + 10))
        expected = old * expected + (1 - old) * net.weight.detach()
        torch.testing.assert_close(state.ema.weight, expected)
    assert float((state.ema.weight - first).abs().min()) > 1e-4
    assert not torch.allclose(state.ema.weight, net.weight, atol=1e-4)


class Oracle:
    """A Speaker that finds the true eps in x: `x0_of` gives x0 from captions; it says eps plus `wrong`. Keeps
    what it was asked. Its noise levels are DDPM's own, from the scheduler's betas."""

    def __init__(self, pipeline, x0_of, wrong=0.0):
        self.theirs = DDPMScheduler.from_config(pipeline.scheduler.config)
        self.tokenizer, self.x0_of, self.wrong = pipeline.tokenizer, x0_of, wrong

    def __call__(self, x, t, ids, heard):
        told = [self.tokenizer.decode(one, skip_special_tokens=True).strip() for one in ids.tolist()]
        self.told, self.t, self.x, self.heard = told, t, x, heard
        alpha = self.theirs.alphas_cumprod[t].reshape(-1, 1, 1, 1)
        self.x0 = torch.stack([self.x0_of(text) for text in told])
        self.eps = (x - alpha.sqrt() * self.x0) / (1 - alpha).sqrt()
        return self.eps + self.wrong


def test_noise_is_ddpm_s_and_the_true_eps_has_no_loss(pipeline, monkeypatch):
    monkeypatch.setattr(training, "BATCH", 256)
    latents = torch.full((3, len(STYLES), 4, 8, 8), 0.75)
    captioned = training.Captioned(latents, SCENES, "all", pipeline)
    right = Oracle(pipeline, lambda text: latents[0, 0])
    assert float(captioned(right, generator())) < 1e-7
    theirs = right.theirs.add_noise(right.x0, right.eps, right.t)
    torch.testing.assert_close(right.x, theirs, atol=1e-5, rtol=1e-5)
    assert abs(float(right.eps.mean())) < 0.02 and abs(float(right.eps.std()) - 1) < 0.02
    assert int(right.t.min()) < 50 and int(right.t.max()) > 949  # all noise levels
    # eps wrong by 1 everywhere: the mean of the min-SNR weights
    off = Oracle(pipeline, lambda text: latents[0, 0], 1.0)
    alpha = off.theirs.alphas_cumprod
    loss, snr = float(captioned(off, generator())), (alpha / (1 - alpha))[off.t]
    assert loss == pytest.approx(float((snr.clamp(max=training.MIN_SNR) / snr).mean()), rel=1e-4)


def test_a_caption_tells_what_its_latents_show(pipeline, monkeypatch):
    """Of any other render or style, x0 would be another number, and the oracle's eps wrong."""
    monkeypatch.setattr(training, "BATCH", 64)
    monkeypatch.setattr(training, "UNTOLD", 0.0)
    latents = torch.arange(3.0 * len(STYLES)).reshape(3, -1, 1, 1, 1).expand(-1, -1, 4, 8, 8)

    def shown(text):
        style = next((s for s, name in enumerate(STYLES) if name in text), 0)
        (i,) = (i for i, scene in enumerate(SCENES) if all(" ".join(pair) in text for pair in scene.pairs))
        return latents[i, style]

    oracle = Oracle(pipeline, shown)
    loss = training.Captioned(latents, SCENES, "all", pipeline)(oracle, generator())
    assert float(loss) < 1e-6 and len(set(oracle.told)) > 10 and bool(oracle.heard.all())


def test_the_stated_share_of_captions_is_empty_and_as_many_are_not_heard(pipeline, monkeypatch):
    monkeypatch.setattr(training, "BATCH", 6000)
    latents = torch.zeros(3, len(STYLES), 4, 1, 1)
    oracle = Oracle(pipeline, lambda text: latents[0, 0])
    training.Captioned(latents, SCENES, "all", pipeline)(oracle, generator())
    unheard = float((oracle.heard == 0).double().mean())
    empty = np.mean([not text for text in oracle.told])
    # five standard errors of 300 of 6000
    assert unheard == pytest.approx(training.UNTOLD, abs=0.014)
    assert empty == pytest.approx(training.UNTOLD, abs=0.014)
    assert set(oracle.heard.tolist()) == {0.0, 1.0}
    assert all(oracle.heard[i] for i, text in enumerate(oracle.told) if not text)  # one or the other


def test_a_speaker_hears_a_caption_as_the_pipeline_does(pipeline):
    """In training as in `encode_prompt`, which samples; not heard, it is the zeros of guidance."""
    denoiser, speaker = adapter.PromptDenoiser(pipeline, 64, 64), training.Speaker(pipeline)
    captioned = training.Captioned(torch.zeros(1, 4, 4, 16, 16), SCENES[:1], "all", pipeline)
    text, t = "a gray cube and a cyan sphere, in fog", 400
    sigma = denoiser.sigmas[[t]].float()
    x_t = sigma * torch.randn(1, *denoiser.latent_shape, generator=generator())
    ids = torch.tensor([captioned.tokens(text)])
    x = x_t / (1 + sigma**2).sqrt()
    told = denoiser.condition(text)[None]
    tokens, width = TINY.length, 2 * TINY.text
    untold = torch.zeros_like(told)
    untold[:, tokens * width : tokens * (width + 1)] = 1  # attended to
    said = []
    for heard, cond in ((1.0, told), (0.0, untold)):
        with torch.no_grad():
            eps = (x_t - denoiser(x_t, sigma, cond)) / sigma
            said.append(speaker(x, torch.tensor([t]), ids, torch.tensor([heard])))
        torch.testing.assert_close(said[-1], eps, atol=1e-4, rtol=1e-4)
    assert float((said[0] - said[1]).abs().max()) > 1e-2


@pytest.mark.parametrize(("run", "objects"), [("t1", 2), ("t2", 1)])
def test_a_run_tells_as_many_objects_as_it_says(run, objects, pipeline, tmp_path, monkeypatch):
    pipeline.vae.save_pretrained(tmp_path / "vae", safe_serialization=True)
    found = data.Renders(torch.zeros(2, 3, 64, 64, dtype=torch.uint8), SCENES[1:], np.arange(2), None)
    latents, told = torch.zeros(2, len(STYLES), 4, 16, 16), []

    def train(state, loss_of, *_):
        oracle = Oracle(pipeline, lambda text: latents[0, 0])
        loss_of(oracle, state.generator)
        told.extend(text for text in oracle.told if text)

    monkeypatch.setattr(training, "cached_latents", lambda *_: latents)
    monkeypatch.setattr(training, "train", train)
    training.train_captions(run, 32, found, tmp_path / "vae", tmp_path, TINY)
    assert len(told) > 20 and {1 + text.count(" and ") for text in told} == {objects}


def test_training_sees_no_held_out_render(folder):
    parts = {part: data.renders(part, folder) for part in ("training", "reader", "held_out")}
    unseen = set(parts["held_out"].places.tolist())
    for part in ("training", "reader"):
        places = set(parts[part].places.tolist())
        assert len(places) == len(parts[part].places) > 20 and not places & unseen
    assert set(parts["training"].places) < set(parts["reader"].places)
    pairs = {part: {pair for scene in of.scenes for pair in scene.pairs} for part, of in parts.items()}
    held = set(captions.HELD_PAIRS)
    assert not pairs["training"] & held and pairs["reader"] & held and pairs["held_out"] & held
    for of in parts.values():
        assert {len(scene.pairs) for scene in of.scenes} == {1, 2}


def test_a_mask_lies_where_its_object_does(folder):
    found = data.renders("training", folder)
    moved = [i for i, place in enumerate(found.places) if place != i and len(found.scenes[i].pairs) == 1]
    assert len(moved) > 5
    for i in moved[-8:]:
        (mask,) = data.masks(found, i, folder)
        rows, columns = np.nonzero(mask)
        middle = (np.array([columns.mean(), rows.mean()]) + 0.5) / data.RESOLUTION
        np.testing.assert_allclose(middle, found.locations[i, 0], atol=0.05)
        image = found.images[i].numpy().astype(float)
        around = binary_dilation(mask, iterations=3) & ~binary_dilation(mask)
        gap = np.abs(image[:, mask].mean(1) - image[:, around].mean(1)).max()
        assert gap > 8, (gap, found.scenes[i])  # of 255: the picture shows it there, too


def test_kept_latents_are_those_of_their_render_and_style(pipeline, tmp_path, monkeypatch):
    monkeypatch.setattr(data.paths, "RUNS", tmp_path)
    images = torch.randint(0, 256, (3, 3, 64, 64), generator=generator(), dtype=torch.uint8)
    found = data.Renders(images, SCENES, np.arange(3), None)
    kept = data.cached_latents(pipeline.vae, found, "a" * 64)
    assert kept.dtype == torch.float16 and kept.shape == (3, len(STYLES), 4, 16, 16)
    empty = 0
    for i, scene in enumerate(SCENES):
        for s, style in enumerate(STYLES):
            if style not in captions.allowed_styles(scene):
                assert not kept[i, s].any()
                empty += 1
                continue
            z = data.encode(pipeline.vae, captions.styled(from_uint8(images[i : i + 1]), style))[0]
            torch.testing.assert_close(kept[i, s].float(), z, atol=3e-3, rtol=3e-3)
    assert empty == 1 + 2 + 2
    assert data.cached_latents(None, found, "a" * 64).equal(kept)  # read, not encoded


def test_cases_are_the_clear_ones(pipeline, monkeypatch):
    """Two objects that share no word, no pair or style held out of training, both visible."""
    clear, hidden = Scene((("gray", "cube"), ("cyan", "cylinder"))), Scene(SCENES[1].pairs[::-1])
    unclear = [
        SCENES[0],  # one object
        Scene((("gray", "cube"), ("gray", "cylinder"))),
        Scene((("gray", "cube"), ("cyan", "cube"))),
        Scene((("red", "cube"), ("gray", "cylinder"))),  # a held-out pair
        hidden,
    ]
    scenes = [*unclear, clear]
    images = torch.randint(0, 256, (len(scenes), 3, 64, 64), generator=generator(), dtype=torch.uint8)
    found = data.Renders(images, scenes, np.arange(len(scenes)), None)

    def masks(found, i, folder):
        both = np.zeros((2, 64, 64), bool)
        both[0, 4:20, 4:20] = both[1, 40:56, 40:56] = True
        both[1] &= found.scenes[i] != hidden
        return both

    monkeypatch.setattr(scoring, "renders", lambda part, folder: {"held_out": found}[part])
    monkeypatch.setattr(scoring, "masks", masks)
    (case,) = scoring.cases(pipeline.vae, 1)
    assert case.scene == clear and case.masks.shape == (2, 16, 16)
    image = from_uint8(images[-1:])
    torch.testing.assert_close(case.image, image[0])
    torch.testing.assert_close(case.latents, data.encode(pipeline.vae, image)[0])
    with pytest.raises(ValueError, match="asked for 2 clear renders, but only 1 held-out ones are"):
        scoring.cases(pipeline.vae, 2)
    for style in ("night", "drawing"):  # cylinders at night and drawn cubes are held out
        with pytest.raises(ValueError, match="only 0 held-out ones are"):
            scoring.cases(pipeline.vae, 1, style)
    (foggy,) = scoring.cases(pipeline.vae, 1, "fog")
    torch.testing.assert_close(foggy.image, captions.styled(image, "fog")[0])
