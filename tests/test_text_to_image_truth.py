"""Captions, training, reader and scores of the small text-to-image model: truths planted, faults seen."""

import dataclasses
import json
from collections import Counter

import numpy as np
import pytest
import torch
from tiny_standin import TINY

from lcs_utils import stats, store
from lcs_utils.features import contexts, measures
from lcs_utils.text_to_image import (
    adapter,
    captions,
    data,
    loop,
    reader,
    scoring,
    ship,
    standin,
    structure,
    success,
    training,
    truth,
)
from lcs_utils.text_to_image.attention import attention_maps
from lcs_utils.text_to_image.captions import Scene


@pytest.fixture(scope="module")
def found():
    """Scenes with pictures of noise: training data without rendering."""
    random = np.random.default_rng(0)
    scenes = [scene for n in (1, 2) for scene in captions.told_scenes(12, n, 0)]
    scenes = [scene._replace(style="plain") for scene in scenes]
    images = torch.from_numpy(random.integers(0, 256, (len(scenes), 3, 64, 64), dtype=np.uint8))
    return data.Renders(images, scenes, np.arange(len(scenes)), random.uniform(0.2, 0.8, (len(scenes), 3, 2)))


def test_a_caption_says_the_scene_in_known_words():
    scene = Scene((("red", "cylinder"), ("cyan", "cube")), "fog")
    assert captions.caption(scene) == "a red cylinder and a cyan cube, in fog"
    assert captions.caption(Scene(())) == "" and captions.caption(Scene((), "night")) == "at night"
    pipeline = standin.untrained(TINY)
    denoiser = adapter.PromptDenoiser(pipeline, 64, 64)
    for kind in (2, 1):
        for told in captions.told_scenes(60, kind, 1):
            words = {word.text for word in denoiser.words(captions.caption(told))}
            assert words <= set(captions.WORDS)
    with pytest.raises(ValueError, match="does not know 'pink' of 'a pink cube'; its words are .*cylinder"):
        denoiser.words("a pink cube")
    with pytest.raises(ValueError, match="does not know 'redd'"):
        denoiser.words("a redd cube")
    with pytest.raises(ValueError, match="unknown color 'pink'"):
        captions.caption(Scene((("pink", "cube"),)))


def test_what_is_held_out_is_never_told(found):
    random = np.random.default_rng(0)
    seen = [captions.training_scene(scene, "all", random) for scene in found.scenes for _ in range(40)]
    assert not any(captions.held_out(scene) for scene in seen)
    assert {scene.style for scene in seen} == set(captions.STYLES)
    plain = sum(scene.style == "plain" for scene in seen) / len(seen)
    assert 0.4 < plain < 0.6
    for held in ("pair", "style"):
        for scene in captions.told_scenes(40, 1, 0, held):
            assert captions.held_out(scene)
            assert (scene.pairs[0] in captions.HELD_PAIRS) == (held == "pair")
    with pytest.raises(ValueError, match="'a red cube' holds a pair that training never shows"):
        captions.training_scene(Scene((("red", "cube"),)), "all", random)


def test_a_policy_tells_all_objects_or_one(found):
    random = np.random.default_rng(1)
    two = next(scene for scene in found.scenes if len(scene.pairs) == 2)
    everything = [captions.training_scene(two, "all", random).pairs for _ in range(30)]
    assert {frozenset(pairs) for pairs in everything} == {frozenset(two.pairs)}
    assert len(set(everything)) == 2  # both orders
    alone = [captions.training_scene(two, "one", random).pairs for _ in range(30)]
    assert all(len(pairs) == 1 for pairs in alone) and set(sum(alone, ())) == set(two.pairs)


def test_styles_touch_every_pixel_and_keep_the_picture_s_range(found):
    x = data.in_style(found.images, ["plain"] * len(found.images))
    for style in captions.STYLES[1:]:
        y = captions.styled(x, style)
        assert y.shape == x.shape and float(y.min()) >= -1 and float(y.max()) <= 1
        assert float((y - x).abs().amax(1).min()) > 0
    assert captions.styled(x, "plain").equal(x)
    with pytest.raises(ValueError, match="unknown style 'sketch'"):
        captions.styled(x, "sketch")


def test_training_goes_on_after_a_kill_with_the_same_bytes(found, tmp_path, monkeypatch):
    monkeypatch.setattr(training, "BATCH", 4)
    latents = torch.randn(len(found.scenes), 4, 4, 16, 16, generator=torch.Generator().manual_seed(0)).half()

    def run(folder, stops):
        for total in stops:
            pipeline = standin.untrained(TINY)
            state = loop.start(training.Speaker(pipeline), 0)
            captioned = training.Captioned(latents, found.scenes, "all", pipeline)
            about = {"run": "t1", "seed": 0}
            loop.train(state, captioned, total, training.BATCH, 1e-3, folder, about, length=24)
        return state

    once, twice = run(tmp_path / "a", [24]), run(tmp_path / "b", [12, 24])
    for one, two in zip(once.ema.parameters(), twice.ema.parameters(), strict=True):
        assert one.equal(two)
    assert (tmp_path / "a" / "loss.csv").read_bytes() == (tmp_path / "b" / "loss.csv").read_bytes()
    with pytest.raises(ValueError, match="state of another run .seed 0 instead of 1."):
        loop.check_about(tmp_path / "a", {"run": "t1", "seed": 1})


def test_a_training_names_its_lengths_and_does_not_run_twice_at_once(tmp_path, monkeypatch, held_elsewhere):
    def run(total):
        state = loop.start(torch.nn.Linear(1, 1), 0)
        return loop.train(
            state, lambda net, _: net.weight.square().sum(), total, 4, 1e-3, tmp_path / "t1", {"run": "t1"}
        )

    monkeypatch.setattr(ship, "folder_of", lambda run: tmp_path / run)
    run(8)
    short = "python -m lcs_utils.text_to_image.training t1 --images 8"
    assert ship.training_command("t1") == short
    run(8)  # nothing is left: the same command
    run(16)
    assert ship.training_command("t1") == f"{short} && {short.removesuffix('8')}16"
    with pytest.raises(ValueError, match="t1 was trained on 16 images already, more than the 8 asked for"):
        run(8)
    with held_elsewhere(tmp_path / "t1" / "state.pt"):
        with pytest.raises(RuntimeError, match="another process trains in .*t1; wait for it or stop it"):
            run(24)
    about = json.loads((tmp_path / "t1" / "about.json").read_text())
    store.write_json(tmp_path / "t1" / "about.json", {"run": about["run"]})  # as states were before the list
    assert ship.training_command("t1").endswith("t1 --images 16")


def test_the_vae_learns_a_step_and_keeps_its_latents_statistics(found, tmp_path, monkeypatch):
    monkeypatch.setattr(training, "VAE_BATCH", 2)
    training.train_vae(4, found, tmp_path, TINY)
    from diffusers import AutoencoderKL

    vae = AutoencoderKL.from_pretrained(tmp_path / "vae")
    z = data.encode(vae, data.in_style(found.images, ["plain"] * len(found.images)))
    assert z.shape == (len(found.images), 4, 32, 32) and 0.1 < float(z.std()) < 10
    assert data.decode(vae, z).shape == (len(found.images), 3, 64, 64)


def test_scores_know_a_planted_map_from_a_shuffled_one():
    random, mask = np.random.default_rng(0), np.zeros((16, 16), bool)
    mask[3:9, 4:8] = True
    planted = mask + 0.1 * random.random(mask.shape)
    assert truth.auc(planted, mask) == 1 and truth.pointing(planted, mask) == 1
    assert truth.mass(mask.astype(float), mask) == pytest.approx(mask.size / mask.sum())
    assert truth.auc(-planted, mask) == 0 and truth.pointing(-planted, mask) == 0
    assert truth.auc(np.ones(mask.shape), mask) == 0.5 and truth.mass(np.ones(mask.shape), mask) == 1
    shuffled = [truth.auc(truth.shuffled(planted, random), mask) for _ in range(200)]
    assert abs(np.mean(shuffled) - 0.5) < 0.02
    with pytest.raises(ValueError, match="an inside and an outside, got 0 of 256"):
        truth.auc(planted, np.zeros_like(mask))
    with pytest.raises(ValueError, match="a mass needs values >= 0"):
        truth.mass(-planted, mask)


def test_scores_of_cases_see_the_own_object_and_not_the_other():
    masks = np.zeros((2, 16, 16), bool)
    masks[0, 2:6, 2:6] = masks[1, 9:13, 9:13] = True
    case = scoring.Case(Scene((("red", "cube"), ("blue", "cylinder"))), None, None, masks)
    maps = {word: masks[k].astype(float) for k, pair in enumerate(case.scene.pairs) for word in pair}
    found = scoring.scores([(case, maps)] * 20, "AUC")
    assert found[""] == [1.0] * 20 and max(found["other object"]) < 0.5
    assert abs(np.mean(found["shuffled"]) - 0.5) < 0.06
    elsewhere = case._replace(masks=np.roll(masks, 4, 2))  # a map that only knows where objects tend to be
    both = scoring.scores([(case, maps), (elsewhere, maps)], "AUC")
    assert both[""][0] == both["another picture"][1] == 1 > 0.5 > max(both[""][1], both["another picture"][0])
    middle = dict.fromkeys(maps, masks.any(0).astype(float))
    placed = scoring.scores([(case, middle), (case, middle)], "AUC")
    assert placed["another picture"] == placed[""] and min(placed[""]) > 0.9
    wrong = {word: maps[other] for word, other in zip(maps, reversed(maps), strict=True)}
    assert max(scoring.scores([(case, wrong)], "AUC")[""]) < 0.5


def test_a_word_s_part_is_its_own_object_s():
    masks = np.zeros((2, 16, 16), bool)
    masks[0, 2:6, 2:6] = masks[1, 9:13, 9:13] = True
    case = scoring.Case(Scene((("red", "cube"), ("blue", "cylinder"))), None, None, masks)
    own = {word: masks[k].astype(float) for k, pair in enumerate(case.scene.pairs) for word in pair}
    other = {word: masks[1 - k].astype(float) for k, pair in enumerate(case.scene.pairs) for word in pair}
    nowhere = dict.fromkeys(own, np.ones((16, 16)))
    silent = dict.fromkeys(own, np.zeros((16, 16)))
    assert scoring.own_parts([(case, maps) for maps in (own, other, nowhere, silent)]) == [1, 0, 0.5, 0.5]
    common = np.full((16, 16), 0.25)  # a quarter of what the words do at their own objects
    found = [(case, maps | {scoring.COMMON: common}) for maps in (own, other)]
    assert scoring.own_parts(found, common=True) == pytest.approx([0.8, 0])
    loud = {word: of * (1 + 2 * (word in case.scene.pairs[1])) for word, of in own.items()}
    there = loud | {scoring.COMMON: masks[0] * 0.25}  # at the first object alone; the second is louder
    assert scoring.own_parts([(case, there)], common=True) == pytest.approx([(0.8 + 1) / 2])


def test_the_word_that_is_heard_most_is_the_object_s_own_if_it_is_louder_than_any_other_there():
    masks = np.zeros((2, 16, 16), bool)
    masks[0, 2:6, 2:6] = masks[1, 9:13, 9:13] = True
    case = scoring.Case(Scene((("red", "cube"), ("blue", "cylinder"))), None, None, masks)
    moved = case._replace(masks=masks[::-1])  # the next scene's objects stand where this one's others do
    common = dict.fromkeys(("a", "a (2)", "and"), np.full((16, 16), 0.5))
    own = common | {word: masks[k] * 1.0 for k, pair in enumerate(case.scene.pairs) for word in pair}
    colors = own | dict.fromkeys(("cube", "cylinder"), np.zeros((16, 16)))  # one of two words is enough
    loud = own | {"red": np.full((16, 16), 2.0)}  # everywhere: heard most at the cylinder, too
    drowned = own | {"and": np.full((16, 16), 1.0)}  # as loud is not louder
    for maps, here, there in ((own, 1, 0), (colors, 1, 0), (loud, 0.5, 0.5), (drowned, 0, 0)):
        found = [(case, maps), (moved, maps)]
        assert scoring.heard_most(found)[0] == here and scoring.heard_most(found, elsewhere=True)[0] == there


class Places:
    """A denoiser that draws each word of its prompt at that word's own places: [words channels h w]."""

    def __init__(self, words, places):
        self.at, self.places = {word: i for i, word in enumerate(words)}, places

    def condition(self, prompt):
        there = prompt.replace(",", "").split()
        return torch.tensor([float(word in there) for word in self.at])

    def without_words(self, prompt, words, ablate, apart):
        assert words is None and apart == {"a"}
        left = {word: self.condition(prompt) for word in self.at if word in prompt.split()}
        for word, cond in left.items():
            cond[self.at[word]] = 0
        return left

    def __call__(self, x_t, sigma, cond):
        return 0.5 * x_t + torch.einsum("bk,kchw->bchw", cond, self.places)


def test_rows_of_a_net_that_draws_each_word_at_its_object_and_of_one_that_draws_it_everywhere():
    """Own object 1, the other 0; under another scene's caption the words lie elsewhere."""
    at = {"red": 0, "gray": 0, "cube": 0, "blue": 1, "cylinder": 1, "green": 2, "sphere": 2, "and": 3}
    corners = np.zeros((4, 16, 16), bool)
    corners[0, :4, 2:6] = corners[1, :4, 10:14] = corners[2, 8:12, 2:6] = corners[3, 12:, 12:] = True
    places = torch.from_numpy(corners).float()[list(at.values()), None]
    told = (("red", "cube"), ("blue", "cylinder")), (("green", "sphere"), ("gray", "cube"))
    cases = [
        scoring.Case(Scene(pairs), None, torch.zeros(1, 16, 16), corners[[at[color] for color, _ in pairs]])
        for pairs in told
    ]
    for local, drawn in ((True, places), (False, torch.ones_like(places))):
        rows = list(scoring.locality_rows("t1", Places(at, drawn), cases))
        found = {(row.measure, row.case, row.control, row.sigma): row.value for row in rows}
        assert len(found) == len(rows) and {row.n for row in rows} == {2}
        for ablate in adapter.ABLATIONS:
            for sigma in scoring.SIGMAS:
                own, other, wrong, common, part, beside, most, there = (
                    found[measure, f"eq. (10), {ablate}", control, sigma]
                    for measure, control in (
                        ("AUC", ""),
                        ("AUC", "other object"),
                        ("AUC", "wrong caption"),
                        ("AUC", "common word"),
                        ("own part", ""),
                        ("own part", "common word"),
                        ("heard most", ""),
                        ("heard most", "another picture"),
                    )
                )
                if local:
                    assert own == part == beside == most == 1 and max(other, wrong, common, there) < 0.5
                else:  # but for rounding
                    alike = [own, other, wrong, common, part, beside]
                    assert alike == pytest.approx([0.5] * 6, abs=0.1) and most < 1


def test_attention_of_an_untrained_net_knows_nothing_of_masks():
    denoiser, cases = adapter.PromptDenoiser(standin.untrained(TINY), 64, 64), []
    side = denoiser.latent_shape[-1]
    for i, pairs in enumerate(
        ((("red", "cube"), ("blue", "cylinder")), (("green", "sphere"), ("gray", "cube")))
    ):
        masks = np.zeros((2, side, side), bool)
        masks[0, : side // 2, i], masks[1, side // 2 :, i + 1] = True, True
        noise = torch.randn(denoiser.latent_shape, generator=torch.Generator().manual_seed(i))
        cases.append(scoring.Case(Scene(pairs), None, noise, masks))
    rows = list(scoring.attention_rows("untrained", denoiser, cases))
    assert {row.case for row in rows} >= {"attention mid, raw", "attention all, minus empty"}
    assert {row.control for row in rows} == {"", "other object", "another picture", "shuffled"}
    assert abs(np.mean([row.value for row in rows if not row.control]) - 0.5) < 0.15


def test_the_paper_s_baseline_is_the_empty_prompt_at_its_end_token():
    denoiser = adapter.PromptDenoiser(standin.untrained(TINY), 64, 64)
    tokenizer, unet = denoiser.pipeline.tokenizer, denoiser.pipeline.unet
    assert tokenizer("").input_ids[1] == tokenizer.eos_token_id
    latents = torch.randn(denoiser.latent_shape, generator=torch.Generator().manual_seed(0))
    case = scoring.Case(Scene((("red", "cube"), ("blue", "cylinder"))), None, latents, None)
    raw, less = scoring.word_attention(denoiser, case, 2.0, 0)["mid"]
    x_t = scoring.noised(case, 2.0, 0)[None]
    with torch.no_grad(), attention_maps(unet, [0, 1], "mid_block") as maps:
        denoiser(x_t, torch.tensor([2.0]), denoiser.condition("")[None])
    layers = [truth.enlarged(of[0], x_t.shape[-1])[0] for of in maps.values()]
    start, end = torch.stack(layers).mean(0).numpy()
    taken = raw["red"] - less["red"]
    assert np.abs(taken - end).max() < 1e-6 < np.abs(taken - start).max()


def test_success_is_of_what_was_told_and_not_of_another_caption(monkeypatch):
    told = []
    monkeypatch.setattr(success, "draw", lambda pipeline, prompts, *how: list(prompts))
    monkeypatch.setattr(success, "caption", lambda scene: told.append(scene) or len(told) - 1)
    right = type("", (), {"read": staticmethod(lambda pictures: [told[i] for i in pictures])})

    def recolor(scene):
        return scene._replace(pairs=tuple(("other", shape) for _, shape in scene.pairs))

    wrong = type("", (), {"read": staticmethod(lambda pictures: [recolor(told[i]) for i in pictures])})
    for reads, colors in ((right, 1), (wrong, 0)):
        rows = {
            (row.measure, row.case, row.control, row.guidance): row.value
            for row in success.success_rows("t1", None, reads, 20)
        }
        for kind in success.KINDS:
            for guidance in success.GUIDANCE:
                assert (
                    rows["objects right", kind, "", guidance]
                    == rows["colors right", kind, "", guidance]
                    == colors
                )
                assert (
                    rows["shapes right", kind, "", guidance] == rows["number right", kind, "", guidance] == 1
                )
                assert rows["objects right", kind, "permuted", guidance] < 0.6


class Answers:
    """A denoiser with an answer for each caption and a mid block that says the same, squared."""

    latent_shape = (1, 4, 4)

    def __init__(self, of):
        self.of, self.mid_block = of, torch.nn.Identity()
        self.pipeline = type("", (), {"unet": type("", (torch.nn.Module,), {})()})()
        self.pipeline.unet.mid_block = self.mid_block

    def condition(self, prompt):
        return self.of[prompt]

    def __call__(self, x_t, sigma, cond):
        self.mid_block(cond[:, None, None, :] ** 2)
        return 0.1 * x_t + cond.unflatten(1, (1, 4, 4))


@pytest.mark.parametrize("kind", structure.KINDS)
def test_additive_answers_are_additive_and_others_are_not(kind):
    scene = Scene((("red", "cube"), ("blue", "cylinder")), "fog")
    told = structure.captions_of(kind, scene)
    assert len(set(told)) == 4 and (told[0] == "") == (kind == "two objects")
    generator = torch.Generator().manual_seed(0)
    a, b, c = torch.randn(3, 16, generator=generator)
    case = scoring.Case(scene, None, torch.zeros(1, 4, 4), None)
    for both, right in ((a + b, True), (a + b + 2 * c, False)):
        denoiser = Answers(dict(zip(told, (0 * a, a, b, both), strict=True)))
        rows = structure.additivity_rows("t1", denoiser, [case] * 4, kind)
        found = {(row.case, row.control): row.value for row in rows if row.measure == "additivity"}
        assert (found[kind, ""] == 1) == right and found[kind, "random"] < 0.5
        assert found[f"{kind}, mid block", ""] < 1  # squares do not add
    rows = structure.own_share_rows(
        "t1", Answers(dict(zip(told, (0 * a, a, b, a + b), strict=True))), [case], kind
    )
    assert [row.value for row in rows if (row.case, row.control) == (kind, "")] == [1.0] * 3


def additive(kind):
    """A denoiser whose answers add up exactly, and a scene that it answers."""
    scene = Scene((("red", "cube"), ("blue", "cylinder")), "fog")
    a, b = torch.randn(2, 16, generator=torch.Generator().manual_seed(0))
    told = structure.captions_of(kind, scene)
    case = scoring.Case(scene, None, torch.zeros(1, 4, 4), None)
    return Answers(dict(zip(told, (0 * a, a, b, a + b), strict=True))), case, told


def test_with_the_directions_exchanged_a_share_is_one_minus_itself():
    """So one half is the null of any net; exact answers have a share of one, other answers do not."""
    denoiser, case, told = additive("two objects")
    other = torch.randn(16, generator=torch.Generator().manual_seed(1))
    for both, exact in ((denoiser.of[told[3]], True), (other, False)):
        denoiser.of[told[3]] = both
        sums = contexts.gather(
            lambda x_t, sigma, sets: structure.answers(denoiser, x_t, sigma, structure.of_sets(told, sets)),
            lambda i: case.latents,
            4,
            1.0,
            2,
            [2],
        )[structure.SPACES[""]]
        exchanged = dataclasses.replace(
            sums, projected=sums.projected.flip(2), directions_gram=sums.directions_gram.flip(1, 2)
        )
        own, mirrored = measures.shares(sums, 2), measures.shares(exchanged, 2)
        torch.testing.assert_close(own + mirrored, torch.ones_like(own))
        assert bool((own > 0.999).all()) == exact


def test_each_scene_has_its_own_permutations():
    """With exact answers four permutations can give any share, with mean one half over scenes. The same four
    for all scenes would give all one value, here three quarters."""
    denoiser, case, _ = additive("two objects")
    found = {}
    for number in (1, 60):
        for row in structure.own_share_rows("t1", denoiser, [case] * number, "two objects"):
            found[number, row.case, row.control, row.sigma] = row
    alone, many = (found[number, "two objects", "permuted", 1.0] for number in (1, 60))
    assert alone.value == pytest.approx(0.75, abs=1e-3) and alone.low == alone.high
    assert abs(many.value - 0.5) < 0.1 and many.low < many.high
    assert found[60, "two objects", "", 1.0].value == 1


def test_a_jacobian_knows_what_a_place_depends_on():
    masks = np.zeros((2, 4, 4), bool)
    masks[0, :2, :2] = masks[1, 2:, 2:] = True
    scene = Scene((("red", "cube"), ("blue", "cylinder")))
    case = scoring.Case(scene, None, torch.randn(1, 4, 4, generator=torch.Generator().manual_seed(0)), masks)
    prompt = captions.caption(scene)
    local = Answers({prompt: torch.zeros(16)})
    rows = {
        (row.measure, row.case, row.control): row.value
        for row in structure.jacobian_rows("t1", local, [case])
    }
    assert rows["side", "eq. (9), objects", ""] == rows["side", "eq. (9), background", ""] == 1
    assert rows["AUC", "eq. (9)", ""] == 1 and rows["AUC", "eq. (9)", "other object"] < 0.5
    local.noise = lambda x_t, sigma, cond: (
        x_t.mean((2, 3), keepdim=True) + 0 * x_t
    )  # the net looks everywhere
    far = {row.case: row.value for row in structure.jacobian_rows("bare", local, [case], of_noise=True)}
    assert far["eq. (9), objects"] > 4 and far["eq. (9)"] == 0.5


def test_success_counts_pairs_not_words():
    told = [Scene((("red", "cube"), ("blue", "sphere")), "fog")] * 3
    seen = [
        Scene((("blue", "sphere"), ("red", "cube")), "fog"),
        Scene((("red", "sphere"), ("blue", "cube")), "plain"),  # both colors, both shapes, bound wrongly
        Scene((("red", "cube"),), "fog"),
    ]
    right = success.judged(told, seen)
    assert right["objects right"] == [True, False, False]
    assert right["colors right"] == [True, True, False] and right["shapes right"] == [True, True, False]
    assert right["style right"] == [True, False, True] and right["number right"] == [True, True, False]
    row = truth.share_row("t1", "objects right", "2 objects", "", 4.0, right["objects right"])
    assert row.value == 0.3333 and row.low < 0.05 and row.high > 0.85


def test_the_reader_learns_from_softened_renders_of_the_same_brightness():
    images = torch.rand(8, 3, 64, 64, generator=torch.Generator().manual_seed(0)) * 2 - 1
    soft = reader.softened(images, np.random.default_rng(0))
    before, after = images.flatten(1).std(1), soft.flatten(1).std(1)
    assert (after <= before + 1e-6).all() and (after < 0.9 * before).sum() >= 4
    torch.testing.assert_close(soft.mean((2, 3)), images.mean((2, 3)), atol=0.02, rtol=0)


def test_the_reader_reads_planted_peaks(monkeypatch):
    net = reader.Reader().eval()
    cells = torch.full((1, 12, 16, 16), -5.0)
    cells[0, 0, 4, 5], cells[0, 1 + 3, 4, 5], cells[0, 9 + 1, 4, 5] = 5.0, 9.0, 9.0
    style = torch.tensor([[0.0, 0.0, 1.0, 0.0]])
    monkeypatch.setattr(net, "forward", lambda images: (cells, style))
    (seen,) = net.read(torch.zeros(1, 3, 64, 64))
    assert seen == Scene(((reader.COLORS[3], reader.SHAPES[1]),), "fog")


@pytest.mark.parametrize("place", [0.5, 0.5 + 0.5 / reader.CELLS])  # between four cells, in the middle of one
def test_an_object_is_one_hill_wherever_it_stands(place, monkeypatch):
    """A single cell as target would be a half in each of two, and an object between them seen by none."""
    told = np.array([[[place, place], [np.nan, np.nan]], [[place, 0.2], [place, 0.2 + 3.5 / reader.CELLS]]])
    hill = torch.from_numpy(reader.hills(told)).float().clamp(1e-6, 1 - 1e-6)
    assert (hill.amax((1, 2)) > 0.75).all() and (hill[0] > 0.5).sum() <= 5
    cells = torch.zeros(2, 12, reader.CELLS, reader.CELLS)
    # no two of a trained net's values are equal, as those of four cells around a center are here
    cells[:, 0] = torch.logit(hill) + 1e-3 * torch.rand(
        hill.shape, generator=torch.Generator().manual_seed(0)
    )
    net = reader.Reader().eval()
    monkeypatch.setattr(net, "forward", lambda images: (cells, torch.zeros(2, 4)))
    assert [len(seen.pairs) for seen in net.read(torch.zeros(2, 3, 64, 64))] == [1, 2]


def test_a_reader_s_training_goes_on_and_its_weights_come_back(tmp_path, monkeypatch):
    random = np.random.default_rng(0)
    images = torch.from_numpy(random.integers(0, 256, (4, 3, 64, 64), np.uint8))
    there = np.array([[[0.3, 0.4], [np.nan, np.nan]], [[0.6, 0.5], [0.2, 0.8]]] * 2)
    shown = [Scene((("red", "cube"),)), Scene((("blue", "sphere"), ("gray", "cube")))] * 2
    found = data.Renders(images, shown, np.arange(4), there)
    monkeypatch.setattr(reader, "BATCH", 4)
    whole = reader.train(found, 16, tmp_path / "whole")
    half = reader.train(found, 8, tmp_path / "stopped").state_dict()  # with the rates of its own length
    again = reader.train(found, 16, tmp_path / "stopped").state_dict()
    assert not any(torch.equal(half[name], again[name]) for name in again if name.endswith("weight"))
    done = reader.train(found, 16, tmp_path / "stopped").state_dict()  # nothing is left to train
    assert all(torch.equal(again[name], done[name]) and again[name].isfinite().all() for name in again)
    reader.save(whole, tmp_path / "reader.safetensors")
    x = torch.rand(2, 3, 64, 64) * 2 - 1
    torch.testing.assert_close(
        reader.load(tmp_path / "reader.safetensors")(x)[0], whole(x)[0], atol=0.05, rtol=0.05
    )
    with pytest.raises(ValueError, match="holds the state of another run .seed 0 instead of 1."):
        reader.train(found, 16, tmp_path / "whole", seed=1)


@pytest.mark.parametrize("command", [reader.main, lambda words: training.main(["vae", *words])])
def test_without_renders_a_training_names_the_command_that_makes_them(tmp_path, monkeypatch, capsys, command):
    monkeypatch.setattr(data.paths, "RUNS", tmp_path)
    with pytest.raises(SystemExit) as ended:
        command(["--images", "640"])
    said = capsys.readouterr().err
    assert ended.value.code == 2 and f"make them: `{data.MADE_BY}`" in said and not list(tmp_path.iterdir())


@pytest.mark.parametrize(("values", "held"), [(4, 0.80), (16, 0.93)])
def test_intervals_of_few_values_are_too_narrow_as_a_row_says(values, held):
    random = np.random.default_rng(0)
    found = [stats.interval(random.normal(size=values), seed=i) for i in range(400)]
    inside = np.mean([of.low <= 0 <= of.high for of in found])
    assert inside == pytest.approx(held, abs=0.04)
    assert f"{held:.0%}" in truth.Row.__doc__


def test_rows_replace_those_of_the_same_net_and_measure(tmp_path):
    path = tmp_path / "rows.csv"
    truth.write([truth.mean_row("t1", "AUC", "eq. (10), word", "", 1.0, [0.5, 0.7])], path)
    truth.write([truth.mean_row("t2", "AUC", "eq. (10), word", "", 1.0, [0.4, 0.4])], path)
    truth.write([truth.mean_row("t1", "AUC", "eq. (10), word", "", 1.0, [0.9, 0.9])], path)
    assert Counter((row.net, row.value) for row in truth.read(path)) == {("t1", 0.9): 1, ("t2", 0.4): 1}


def test_a_place_that_depends_on_all_alike_has_a_side_larger_than_its_picture():
    assert structure.side_of_all_alike(1) == 1
    assert structure.side_of_all_alike(3) == pytest.approx(
        (1 * 3 + 4 * 5 + 4 * 5) / 9
    )  # middle, edges, corners
    assert structure.side_of_all_alike(16) > 16


def test_a_latent_is_an_object_s_from_half_of_its_pixels_on():
    found = np.zeros((1, 8, 8), bool)
    found[0, :2, :4] = True  # 8 of 16 pixels
    found[0, 4, 4:] = found[0, 5, 4:7] = True  # 7 of 16
    assert truth.at_latents(found, 2).tolist() == [[[True, False], [False, False]]]


def test_attention_is_enlarged_without_steps():
    found = truth.enlarged(torch.tensor([[[[0.0, 1.0], [0.0, 1.0]]]]), 4)
    torch.testing.assert_close(found, torch.tensor([0, 0.25, 0.75, 1.0]).expand(1, 1, 4, 4))


def test_rows_of_attention_tell_raw_from_minus_the_baseline(monkeypatch):
    masks = np.zeros((2, 16, 16), bool)
    masks[0, 2:6, 2:6] = masks[1, 9:13, 9:13] = True
    case = scoring.Case(Scene((("red", "cube"), ("blue", "cylinder"))), None, None, masks)
    raw = {word: masks[k].astype(float) for k, pair in enumerate(case.scene.pairs) for word in pair}
    less = {word: -of for word, of in raw.items()}
    monkeypatch.setattr(scoring, "word_attention", lambda *asked: {"down": (raw, less), "mid": (less, raw)})
    rows = scoring.attention_rows("planted", None, [case] * 2)
    found = {(row.case, row.sigma): row.value for row in rows if not row.control}
    for sigma in scoring.SIGMAS:
        for part, values in (("down", (1, 0)), ("mid", (0, 1))):
            for kind, value in zip(("raw", "minus empty"), values, strict=True):
                assert found[f"attention {part}, {kind}", sigma] == value
