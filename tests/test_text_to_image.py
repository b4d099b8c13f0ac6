"""An SDXL-class pipeline as our denoiser: equal to its scheduler's own prediction, its words found and taken
away one by one.
"""

import pytest
import torch
from diffusers import DDIMScheduler
from transformers import CLIPTokenizer

from lcs_utils import diffusion, locality
from lcs_utils.text_to_image import adapter, attention, prompts, standin

PROMPT = "a red cube on the left and a blue sphere"
SMALL = standin.Size((16, 16), (2, 2), (1, 1), (8, 8), 16, 1, 16)


@pytest.fixture(scope="module")
def pipeline():
    return standin.untrained(SMALL)


@pytest.fixture(scope="module")
def denoiser(pipeline):
    return adapter.PromptDenoiser(pipeline, 32, 32)


@pytest.fixture()
def x_t(denoiser):
    return 3 * torch.randn(denoiser.latent_shape, generator=torch.Generator().manual_seed(0))


def test_it_predicts_what_the_scheduler_does(pipeline, denoiser, x_t):
    cond, scheduler = denoiser.condition(PROMPT), pipeline.scheduler
    embeds, _, pooled, _ = pipeline.encode_prompt(PROMPT, do_classifier_free_guidance=False)
    size = torch.tensor([[32.0, 32, 0, 0, 32, 32]])
    scheduler.set_timesteps(6)
    for i, t in enumerate(scheduler.timesteps[:4]):
        with torch.no_grad():
            scheduler._step_index = i
            more = {"text_embeds": pooled, "time_ids": size}
            scaled = scheduler.scale_model_input(x_t[None], t)
            eps = pipeline.unet(scaled, t, encoder_hidden_states=embeds, added_cond_kwargs=more).sample
            theirs = scheduler.step(eps, t, x_t[None]).pred_original_sample
            sigma = scheduler.sigmas[i : i + 1].float()
            torch.testing.assert_close(denoiser(x_t[None], sigma, cond[None]), theirs, atol=2e-4, rtol=1e-4)
            other = denoiser(x_t[None], sigma, denoiser.condition("a green cylinder")[None])
            assert float((other - theirs).abs().max()) > 1e-3  # the prompt is heard


def test_euler_steps_along_it_draw_what_the_pipeline_does(pipeline, denoiser, x_t):
    pipeline.scheduler.set_timesteps(5)
    sigmas, first = pipeline.scheduler.sigmas.clone(), pipeline.scheduler.init_noise_sigma
    steps = dict(height=32, width=32, num_inference_steps=5, guidance_scale=1.0, output_type="latent")
    theirs = pipeline(PROMPT, latents=x_t[None] * sigmas[0] / first, **steps).images
    cond, ours = denoiser.condition(PROMPT)[None], x_t[None] * sigmas[0]
    with torch.no_grad():
        for sigma, following in zip(sigmas, sigmas[1:]):
            score = diffusion.score(denoiser, ours, sigma[None], cond)
            ours = ours - score * sigma * (following - sigma)
    torch.testing.assert_close(ours, theirs, atol=5e-3, rtol=1e-3)


def test_a_half_precision_net_takes_latents_of_any_precision(denoiser, x_t):
    """A GPU's net is half precision, latents that somebody draws or encodes are not."""
    half = adapter.PromptDenoiser(standin.untrained(SMALL), 32, 32)
    half.pipeline.unet.half()
    cond, sigma = denoiser.condition(PROMPT)[None], torch.tensor([2.0])
    whole = denoiser(x_t[None], sigma, cond)
    for kind in (torch.float32, torch.float16):
        for of in (cond, cond.half()):
            found = half(x_t[None].to(kind), sigma.to(kind), of)
            assert found.dtype == kind
            torch.testing.assert_close(found.float(), whole, atol=3e-2, rtol=1e-2)


def test_words_know_their_tokens(pipeline, denoiser):
    words = denoiser.words("a red cube, and a blue sphere")
    assert [word.text for word in words] == ["a", "red", "cube", "and", "a", "blue", "sphere"]
    ids = pipeline.tokenizer("a red cube, and a blue sphere").input_ids
    for word in words:
        said = pipeline.tokenizer.decode([ids[i] for i in word.tokens]).strip()
        assert said == word.text
    assert words[3].tokens == (5,)  # the comma is a token of its own


@pytest.mark.parametrize(
    ("prompt", "found", "later"),
    [
        ("a dog's ox", ["a", "dog's", "ox"], 7),  # CLIP's tokens: a, d o g, ' s, o x
        ("'a ox', (ox)... ox", ["a", "ox", "ox", "ox"], 14),  # and "',", ")..." as one run of signs each
    ],
)
def test_a_word_of_clip_s_own_tokenizer_beside_signs_knows_its_tokens(prompt, found, later):
    """CLIP joins signs, and an apostrophe with letters, to tokens that a sign by itself does not have."""
    signs = [chr(i) for i in range(33, 127)]
    pieces = [
        *signs,
        *(f"{sign}</w>" for sign in signs),
        *map(str, range(1000, 2000)),
        standin.BEGIN,
        standin.END,
    ]
    pipeline = standin.untrained(SMALL)
    clip = CLIPTokenizer(vocab={piece: i for i, piece in enumerate(pieces)}, merges=[], model_max_length=48)
    pipeline.register_modules(tokenizer=clip, tokenizer_2=clip)
    words = adapter.PromptDenoiser(pipeline, 32, 32).words(prompt)
    ids = clip(prompt).input_ids
    assert [word.text for word in words] == found and words[-1].tokens[0] == later
    for word in words:
        assert clip.decode([ids[i] for i in word.tokens]).replace(" ", "") == word.text
    rest = [*signs, *(f"{sign}</w>" for sign in signs if sign != "o"), *map(str, range(1000, 2000))]
    few = {piece: i for i, piece in enumerate([*rest, "o x</w>", "ox</w>", standin.BEGIN, standin.END])}
    other = CLIPTokenizer(vocab=few, merges=[("o", "x</w>")], model_max_length=48)  # o x is one token there
    pipeline.register_modules(tokenizer_2=other)
    with pytest.raises(ValueError, match="for the first text encoder and .* no word has one place"):
        adapter.PromptDenoiser(pipeline, 32, 32).words(prompt)


def test_an_accent_and_its_letter_are_one_sign():
    assert adapter.composed("cafe\u0301") == "caf\u00e9"
    with pytest.raises(TypeError, match="prompt must be text"):
        adapter.composed(None)


def test_a_picture_may_be_wide_and_its_schedule_another(pipeline):
    wide = adapter.PromptDenoiser(pipeline, 32, 64)
    usual = [(m.step, m.sigma) for m in prompts.sampling(wide, "a red cube", 3, 1.0, 1, 0)]
    moment = prompts.Moment(1, 2.0, torch.zeros(1, *wide.latent_shape))
    maps = prompts.looked_at(wide, moment, "a red cube", [3])
    assert all(of.shape[-1] == 2 * of.shape[-2] for of in maps.values())
    scheduler = pipeline.scheduler
    try:  # has no noise levels of its own
        pipeline.scheduler = DDIMScheduler.from_config(scheduler.config)
        other = adapter.PromptDenoiser(pipeline, 32, 64)
        assert [(m.step, m.sigma) for m in prompts.sampling(other, "a red cube", 3, 1.0, 1, 0)] == usual
    finally:
        pipeline.scheduler = scheduler


@pytest.mark.parametrize("ablate", list(adapter.ABLATIONS))
def test_a_word_is_taken_away(denoiser, x_t, ablate):
    """eq. (10) of all words in one batch equals one by one; only what is said to change does."""
    cond, without = denoiser.condition(PROMPT), denoiser.without_words(PROMPT, ablate=ablate)
    assert list(without) == ["a", "red", "cube", "on", "the", "left", "and", "blue", "sphere"]
    heard = locality.condition_influence(denoiser, x_t, 2.0, cond, without)
    assert heard.shape == (len(without), *x_t.shape[1:]) and float(heard.amin(0).max()) > 0
    few = {word: without[word] for word in ("red", "sphere")}
    alone = locality.condition_influence(denoiser, x_t, 2.0, cond, few, chunk=1)
    torch.testing.assert_close(alone, heard[[1, 8]], atol=1e-5, rtol=1e-4)
    tokens, width = 48, 2 * SMALL.text
    embeds = (without["red"] - cond)[: tokens * width].unflatten(0, (tokens, width)).abs().amax(1)
    pooled = (without["red"] - cond)[tokens * (width + 1) :].abs().max()
    hidden = (without["red"] == 0)[tokens * width : tokens * (width + 1)].nonzero().flatten().tolist()
    assert hidden == ([2] if ablate == "attention" else [])
    changed = embeds.nonzero().flatten().tolist()
    if ablate == "embedding":
        assert changed == [2] and pooled == 0
    elif ablate == "attention":
        assert changed == [] and pooled == 0
    elif ablate == "pooled":
        assert changed == [] and pooled > 0
    else:
        assert min(changed) == 2 and len(changed) > 1  # all later tokens move
        assert (pooled > 0) == (ablate == "word")  # "tokens" keeps it
    assert adapter.PromptDenoiser(denoiser.pipeline, 32, 32).condition(PROMPT).equal(cond)


def test_a_repeated_word_is_taken_away_everywhere(denoiser):
    prompt, tokens, width = "a red cube and a red sphere", 48, 2 * SMALL.text
    short = denoiser.condition("a cube and a sphere")
    of = {ablate: denoiser.without_words(prompt, ["red"], ablate)["red"] for ablate in adapter.ABLATIONS}
    assert of["word"].equal(short)
    assert of["pooled"][tokens * (width + 1) :].equal(short[tokens * (width + 1) :])
    changed = (of["embedding"] - denoiser.condition(prompt))[: tokens * width].reshape(tokens, width)
    assert changed.abs().amax(1).nonzero().flatten().tolist() == [2, 6]
    hidden = of["attention"][tokens * width : tokens * (width + 1)] == 0
    assert hidden.nonzero().flatten().tolist() == [2, 6]


def test_eq_9_is_differentiated_and_the_net_stays_as_it_was(denoiser, x_t):
    cond, hooks = denoiser.condition(PROMPT), len(denoiser.pipeline.unet._forward_hooks)
    influence = locality.pixel_influence(denoiser, x_t, 2.0, cond, [(3, 4), (8, 8)])
    assert influence.shape == (2, *x_t.shape[1:]) and float(influence.min()) > 0
    assert len(denoiser.pipeline.unet._forward_hooks) == hooks
    assert all(p.grad is None for p in denoiser.pipeline.unet.parameters())


def test_a_word_is_dominant_where_it_doubles_the_next():
    red, blue = torch.tensor([[4.0, 1.0], [1.0, 1.9]]), torch.tensor([[1.0, 2.0], [1.0, 1.0]])
    assert adapter.dominant({"red": red, "blue": blue}) == [[("red",), ("blue",)], [(), ()]]
    with pytest.raises(ValueError, match="one of several, got red"):
        adapter.dominant({"red": red})
    with pytest.raises(ValueError, match="factor must be >= 1, got 0.5"):
        adapter.dominant({"red": red, "blue": blue}, 0.5)


@pytest.mark.parametrize(
    ("heard", "found"),
    [
        ((4, 5, 1), ("blue", "red")),  # the weaker of two has four times the next one's influence
        ((4, 5, 2), ("blue", "red")),  # exactly twice
        ((4, 5, 2.1), ()),
        ((9, 4, 1), ("red", "blue")),  # both {red} and {red, blue} qualify: 9/4 < 4/1
        ((9, 3, 1), ("red",)),  # equal ratios: the smaller set
        ((9, 2, 1), ("red",)),
        ((4, 3, 2), ()),  # all words are no dominant set
        ((4, 4, 4), ()),
        ((4, 0, 0), ("red",)),
        ((4, 3, 0), ("red", "blue")),  # a word with no influence is next
        ((0, 0, 0), ()),
        ((0, 1e-30, 0), ("blue",)),
    ],
)
def test_a_set_is_dominant_where_its_weakest_word_doubles_the_next(heard, found):
    maps = {
        word: torch.full((1, 2), float(of)) for word, of in zip(("red", "blue", "cube"), heard, strict=True)
    }
    assert adapter.dominant(maps) == [[found, found]]


def test_a_word_is_dominant_only_where_it_doubles_the_null():
    """A common word that is heard as strongly as a content word takes its place away, and no other's."""
    red, blue = torch.tensor([[8.0, 8.0, 8.0]]), torch.tensor([[1.0, 6.0, 6.0]])
    cube, null = torch.tensor([[0.5, 1.0, 1.0]]), torch.tensor([[4.1, 1.0, 3.5]])
    maps = {"red": red, "blue": blue, "cube": cube}
    assert adapter.dominant(maps) == [[("red",), ("red", "blue"), ("red", "blue")]]
    assert adapter.dominant(maps, null=null) == [[(), ("red", "blue"), ("red",)]]


def test_what_a_net_computes_is_what_its_denoiser_takes_away(denoiser, x_t):
    """And eq. (9) of an untrained net's D is mostly of its x_t: the null is of the net."""
    cond, sigma = denoiser.condition(PROMPT), torch.tensor([2.0])
    noise = denoiser.noise(x_t[None], sigma, cond[None])
    torch.testing.assert_close(x_t - noise[0], denoiser(x_t[None], sigma, cond[None])[0])
    own = [
        float(found[0, 8, 8].square() / found[0].square().sum())
        for found in (
            locality.pixel_influence(net, x_t, 2.0, cond, [(8, 8)]) for net in (denoiser, denoiser.noise)
        )
    ]
    assert own[0] > 0.5 > own[1]


def test_common_words_are_heard_apart_from_the_others(denoiser):
    _, (heard,) = prompts.words_heard(denoiser, "a red cube and a blue sphere", [2], 2, 1.0, 0)
    assert list(heard.maps) == ["red", "cube", "blue", "sphere"] and list(heard.common) == [
        "a",
        "a (2)",
        "and",
    ]
    assert torch.equal(heard.null, torch.stack(list(heard.common.values())).amax(0))
    assert prompts.Heard(1.0, heard.maps, {}).null == 0


def test_a_common_word_is_common_with_a_capital_too(denoiser):
    _, (heard,) = prompts.words_heard(denoiser, "A red cube And a cyan sphere", (1,), 2, 1.0, 0)
    assert set(heard.common) == {"A", "And", "a"} and set(heard.maps) == {"red", "cube", "cyan", "sphere"}
    assert torch.equal(heard.null, torch.stack(list(heard.common.values())).amax(0))


def test_bad_input_is_one_clear_sentence(pipeline, denoiser, x_t):
    with pytest.raises(ValueError, match="does not know '7'"):
        denoiser.condition("7 cubes")
    with pytest.raises(ValueError, match="green not in .*; its words are a, red, cube"):
        denoiser.without_words(PROMPT, ["green"])
    with pytest.raises(ValueError, match="'letters'; allowed: word, tokens, embedding, attention, pooled"):
        denoiser.without_words(PROMPT, ablate="letters")
    with pytest.raises(ValueError, match="has 62 tokens, this model takes 48"):
        denoiser.condition("a red cube " * 20)
    with pytest.raises(ValueError, match="multiple of the VAE's 2, got 33"):
        adapter.PromptDenoiser(pipeline, 33, 32)
    with pytest.raises(TypeError, match="must be a StableDiffusionXLPipeline"):
        adapter.PromptDenoiser(pipeline.unet, 32, 32)
    with pytest.raises(ValueError, match="this net knows sigma from"):
        denoiser(x_t[None], torch.tensor([90.0]), denoiser.condition(PROMPT)[None])
    with pytest.raises(ValueError, match="got 7"):
        denoiser(x_t[None], torch.tensor([2.0]), torch.zeros(1, 7))
    with pytest.raises(ValueError, match="letters a to z, got Red"):
        standin.tokenizer(["Red"])


def test_attention_maps_are_the_shares_that_the_net_uses(denoiser, x_t):
    """All tokens' maps sum to one at every place, the net's answer stays, and a hidden token gets nothing."""
    unet, cond, sigma = denoiser.pipeline.unet, denoiser.condition(PROMPT)[None], torch.tensor([2.0])
    before, plain = unet.attn_processors, denoiser(x_t[None], sigma, cond)
    with attention.attention_maps(unet, range(48)) as maps:
        seen = denoiser(x_t[None], sigma, cond)
    torch.testing.assert_close(seen, plain, atol=1e-5, rtol=1e-5)
    assert unet.attn_processors == before and len(maps) == len(attention.cross_attentions(unet))
    for (map_,) in maps.values():
        torch.testing.assert_close(map_.sum(1), torch.ones_like(map_[:, 0]))
    hidden = denoiser.without_words(PROMPT, ["red"], "attention")["red"][None]
    with attention.attention_maps(unet, [2, 3], "mid_block") as maps:
        denoiser(x_t[None], sigma, hidden)
    assert all(name.startswith("mid_block.") for name in maps)
    assert all(float(of[0][:, 0].max()) == 0 < float(of[0][:, 1].min()) for of in maps.values())


def test_attention_maps_keep_gradients_and_processors_come_back(denoiser, x_t):
    unet, x = denoiser.pipeline.unet, x_t[None].clone().requires_grad_()
    with attention.attention_maps(unet, [2], "up_blocks") as maps:
        denoiser(x, torch.tensor([2.0]), denoiser.condition(PROMPT)[None])
    next(iter(maps.values()))[0].sum().backward()
    assert float(x.grad.abs().max()) > 0
    before = unet.attn_processors
    with pytest.raises(RuntimeError, match="stopped"), attention.attention_maps(unet, [2]):
        raise RuntimeError("stopped")
    assert unet.attn_processors == before
    with pytest.raises(ValueError, match="no cross-attention in 'top'; there are some in .*mid_block"):
        attention.cross_attentions(unet, "top")
    with pytest.raises(ValueError, match="no tokens were asked for"), attention.attention_maps(unet, []):
        pass


def test_attention_maps_are_those_of_attention_map_diffusers(pipeline, denoiser, x_t):
    """Where that library is there: `pip install --no-deps attention-map-diffusers==1.0.0`."""
    theirs = pytest.importorskip("attention_map_diffusers")
    call = x_t[None], torch.tensor([2.0]), denoiser.condition(PROMPT)[None]
    with torch.no_grad(), attention.attention_maps(pipeline.unet, [2, 3]) as maps:
        denoiser(*call)
    with torch.no_grad(), theirs.AttentionCapture(pipeline, relations="image->text", mode="exact") as seen:
        denoiser(*call)
    records = {record.layer_id.removeprefix("unet."): record.data for record in seen.compute().records}
    assert set(records) == set(maps)
    for layer, (ours,) in maps.items():
        expected = records[layer].mean(1)[..., [2, 3]].transpose(1, 2).reshape(ours.shape)
        torch.testing.assert_close(ours, expected, atol=1e-5, rtol=0)
