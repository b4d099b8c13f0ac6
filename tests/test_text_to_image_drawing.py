"""What is asked of a text-to-image pipeline while it draws: guidance, seed, steps, the range of its pictures,
and noise that is another for every sample.
"""

from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch
from tiny_standin import TINY

from lcs_utils.text_to_image import adapter, data, figures, prompts, standin, success
from lcs_utils.text_to_image.prompts import Moment, Prompt

ASKED = [Prompt("cube", "a gray cube", "cube"), Prompt("empty", "", "")]


@pytest.fixture(scope="module")
def denoiser():
    return adapter.PromptDenoiser(standin.untrained(TINY), 16, 16)


class Pipeline:
    """Draws each prompt as one gray: its number, of 0..1; keeps what it was asked."""

    def __init__(self):
        self.calls = []

    def __call__(self, asked, **settings):
        first = settings["generator"].initial_seed(), torch.rand(1, generator=settings["generator"]).item()
        self.calls.append((list(asked), first, settings))
        grays = torch.tensor([float(text) for text in asked])
        return SimpleNamespace(images=grays[:, None, None, None].expand(-1, 3, 8, 8))


@pytest.mark.parametrize("guidance", success.GUIDANCE)
def test_a_picture_is_asked_for_as_its_row_says(guidance):
    pipeline, asked = Pipeline(), ["0", "0.25", "0.5", "0.75", "1"]
    seen = success.draw(pipeline, asked, guidance, 7, at_once=2)
    assert seen[:, 0, 0, 0].tolist() == [-1, -0.5, 0, 0.5, 1] and seen.shape == (5, 3, 8, 8)
    assert [text for texts, *_ in pipeline.calls for text in texts] == asked
    assert len({number for _, (_, number), _ in pipeline.calls}) == 3  # one generator goes on
    for texts, (seed, _), settings in pipeline.calls:
        assert seed == 7 and settings["guidance_scale"] == guidance
        assert settings["num_inference_steps"] == success.STEPS and settings["output_type"] == "pt"
        assert settings["height"] == settings["width"] == data.RESOLUTION
        assert not set(settings) & {"latents", "prompt", "negative_prompt"}


def test_every_sample_starts_from_noise_of_its_own(denoiser, monkeypatch):
    """One by one, a second sample is not the first again: the mean is of two seeds' maps."""
    study, starts = replace(prompts.SMALL, guidance=2.0, at_once=1), []

    def sampling(*args, real=prompts.sampling):
        for moment in real(*args):
            if moment.step == 1:
                starts.append(moment.x_t)
            yield moment

    monkeypatch.setattr(prompts, "sampling", sampling)
    both = prompts.attended(denoiser, ASKED, study, (1, 2), 2, samples=2)
    (first, second), other = starts[:2], starts[2:]
    assert abs(float(torch.corrcoef(torch.stack([first.flatten(), second.flatten()]))[0, 1])) < 0.3
    assert other[0].equal(first) and other[1].equal(second)  # all prompts: from the same noise
    alone = [prompts.attended(denoiser, ASKED, study, (1, 2), 2, samples=1, seed=seed) for seed in (0, 1)]
    for key, of in both.items():
        for i, maps in enumerate(of):
            torch.testing.assert_close(maps, (alone[0][key][i] + alone[1][key][i]) / 2)
    assert len({sigma for sigma, _ in both}) == 2


@pytest.mark.parametrize("at_once", [1, 2, 5])
def test_samples_at_once_or_one_by_one_have_the_same_mean(at_once, denoiser, monkeypatch):
    """Here sample i of any call with `seed` is noise number seed + i."""
    noise = torch.randn(3, *denoiser.latent_shape, generator=torch.Generator().manual_seed(0))

    def sampling(denoiser, text, steps, guidance, number, seed):
        yield Moment(1, 2.0, 2 * noise[seed : seed + number])

    monkeypatch.setattr(prompts, "sampling", sampling)
    study = replace(prompts.SMALL, at_once=at_once)
    found = prompts.attended(denoiser, ASKED[:1], study, (1,), 2, samples=3)
    each = [
        prompts.looked_at(denoiser, Moment(1, 2.0, 2 * noise[i : i + 1]), ASKED[0].text, [3])
        for i in range(3)
    ]
    for (_, layer), (maps,) in found.items():
        torch.testing.assert_close(maps, sum(of[layer][0, 0] for of in each) / 3)
        assert float((each[0][layer] - each[1][layer]).abs().max()) > 1e-5


def test_words_that_share_a_place_are_dotted_there(denoiser):
    """Of three words the second is as strong as the first at one place, the third nowhere."""
    strong, weak = torch.full((3, 4), 8.0), torch.full((3, 4), 1.0)
    second = weak.clone()
    second[2, 1] = 8.0
    of = prompts.Heard(1.0, {"red": strong, "cube": second, "cylinder": weak}, {})
    latents = torch.zeros(denoiser.latent_shape)
    alone = prompts.Heard(2.0, {"red": strong, "cube": weak, "cylinder": weak}, {})
    row = figures.plot_words(denoiser, ["a red cube"], [(latents, [of, alone])]).axes
    assert [line.get_xydata().tolist() for line in row[1].lines] == [[[1, 2]]] and not row[2].lines
    told = [text.get_text() for text in row[-1].get_legend().get_texts()]
    assert told == ["red", "red + others"]
    assert [patch.get_hatch() for patch in row[-1].get_legend().get_patches()] == ["", "..."]


def test_a_text_is_sampled_once_for_all_its_words(denoiser, monkeypatch):
    drawn = []

    def sampling(denoiser, text, *args, real=prompts.sampling):
        drawn.append(text)
        yield from real(denoiser, text, *args)

    monkeypatch.setattr(prompts, "sampling", sampling)
    words = dict.fromkeys(word.text for word in denoiser.words(ASKED[0].text))
    both = [ASKED[0]._replace(word=word) for word in list(words)[:2]]
    study = replace(prompts.SMALL, at_once=1)
    at_once = prompts.attended(denoiser, [both[0], ASKED[1], both[1]], study, (1,), 2, samples=1)
    assert drawn == [ASKED[0].text, ASKED[1].text]
    for i, prompt in ((0, both[0]), (1, ASKED[1]), (2, both[1])):
        alone = prompts.attended(denoiser, [prompt], study, (1,), 2, samples=1)
        assert all(torch.equal(of[i], alone[key][0]) for key, of in at_once.items())
