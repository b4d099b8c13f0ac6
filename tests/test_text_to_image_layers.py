"""Blocks of Fig. 13 layer by layer: planted kinds, what concatenation hides, the panels below matrices."""

from dataclasses import replace
from itertools import product
from types import SimpleNamespace

import pytest
import torch
from matplotlib import pyplot as plt

from lcs_utils.text_to_image import figures, kinds, prompt_cosines, prompts
from lcs_utils.text_to_image.adapter import Word
from lcs_utils.text_to_image.prompts import Moment, Prompt


def planted():
    """Two down layers, a mid and an up layer of four kinds' places: in the first down layer maps are a kind's
    own; in the second, ten times larger, each word's own.
    """
    singles = prompts.SMALL.singles
    order = list(dict.fromkeys(prompt.kind for prompt in singles))
    of_kind = [torch.eye(8)[order.index(prompt.kind)] for prompt in singles]
    of_word = [10 * row for row in torch.eye(8)]
    layers = {
        "down_blocks.0": of_kind,
        "down_blocks.1": of_word,
        "mid_block": of_kind,
        "up_blocks.0": of_word,
    }
    return {(s, name): [*maps, torch.zeros(8)] for s in (9.0, 0.5) for name, maps in layers.items()}


def test_layer_by_layer_shows_what_a_part_s_matrix_hides():
    found, singles = planted(), prompts.SMALL.singles
    of = kinds.by_layer(found, singles)
    assert of["empty"] == dict.fromkeys(
        ("9", "0.5"), {"down_blocks.0": 1, "down_blocks.1": 0, "mid_block": 1, "up_blocks.0": 0}
    )
    within, between = kinds.within_and_between(found, singles, 9.0, "down", "empty")
    assert within - between < 0.02  # the concatenated layers: those with larger differences
    assert kinds.largest_share(found, "down", "empty") == pytest.approx(100 / 101)
    assert kinds.largest_share(found, "mid", "mean") == 1
    half = {b: {s: dict.fromkeys(layers, 0.5) for s, layers in by.items()} for b, by in of.items()}
    high = {b: {s: layers | {"mid_block": 2.0} for s, layers in by.items()} for b, by in half.items()}
    said = kinds.layers_words(found, of, [half, high])
    assert "| empty | down | 2 | 99% | 1 of 2 | 1 of 2 |" in said
    assert "| empty | mid | 1 | 100% | 0 of 1 | 0 of 1 |" in said  # not above the second of them
    assert "above 2 untrained nets, σ = 9 |" in said and "untrained" not in kinds.layers_words(found, of)


def test_below_fig_13_stands_each_layer_by_itself():
    found, singles = planted(), prompts.SMALL.singles
    of = kinds.by_layer(found, singles)
    flat = {b: {s: dict.fromkeys(layers, 0.25) for s, layers in by.items()} for b, by in of.items()}
    figure = figures.plot_cosines(found, singles, {"model": [of], "untrained": [flat, flat]})
    last = [axes for axes in figure.axes if axes.get_xlabel() == "layer, in order"]
    assert len(last) == 4
    for axes, (baseline, sigma) in zip(last, product(("empty", "mean"), ("9", "0.5")), strict=True):
        drawn = [line.get_ydata() for line in axes.lines if len(line.get_ydata()) == 4]
        assert list(drawn[0]) == list(of[baseline][sigma].values()) and len(drawn) == 3
        assert all(list(line) == [0.25] * 4 for line in drawn[1:])
        assert [text.get_text() for text in axes.texts] == ["D", "M", "U"]
        low, high = axes.get_ylim()
        assert low < min(map(min, drawn)) and high > max(map(max, drawn))
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["model", "untrained"]
    assert not [a for a in figures.plot_cosines(found, singles).axes if a.get_xlabel()]
    plt.close("all")


def test_untrained_nets_of_other_seeds_differ(monkeypatch):
    made = []
    monkeypatch.setattr(kinds.standin, "untrained", lambda size, seed: made.append(seed) or seed)
    monkeypatch.setattr(kinds, "PromptDenoiser", lambda pipeline, *side: pipeline)
    monkeypatch.setattr(kinds, "attended", lambda denoiser, *_, seed: (denoiser, seed))
    assert [kinds.of_untrained(prompts.SMALL, 7, net) for net in range(3)] == [(0, 7), (1, 7), (2, 7)]


def test_of_a_word_in_several_pieces_the_last_is_taken():
    """As in the paper: "sai" of "Hokusai" (App. G)."""
    words = [Word("A", 0, 1, (1,)), Word("Hokusai", 2, 9, (2, 3, 4))]
    split = SimpleNamespace(words=lambda text: words if text else [])
    assert prompts._token(split, Prompt("hokusai", "A Hokusai", "Hokusai")) == 4
    assert prompts._token(split, Prompt("empty", "", "")) == 1


def test_maps_are_of_the_paper_s_steps_and_number_of_samples(monkeypatch):
    """Steps 1, 7 and 15 of 15, ten samples (App. G)."""
    asked, word = [], Word("cube", 0, 4, (1,))

    def sampling(denoiser, text, steps, guidance, number, seed):
        asked.append((steps, number, seed))
        yield from (Moment(step, float(step), torch.zeros(number)) for step in range(1, steps + 2))

    def looked_at(denoiser, moment, text, tokens):
        return {"mid_block": torch.ones(len(moment.x_t), len(tokens), 1, 1)}

    monkeypatch.setattr(prompts, "sampling", sampling)
    monkeypatch.setattr(prompts, "looked_at", looked_at)
    stub = SimpleNamespace(words=lambda text: [word])
    found = prompts.attended(stub, [Prompt("cube", "cube", "cube")], replace(prompts.SMALL, at_once=1))
    assert asked == [(15, 1, seed) for seed in range(10)] and {sigma for sigma, _ in found} == {1, 7, 15}
    assert all(float(maps) == pytest.approx(1) for (maps,) in found.values())


def test_the_mean_of_the_others_leaves_the_own_single_out():
    singles, names = prompts.SMALL.singles, [one.short for one in prompts.SMALL.singles]
    own = torch.eye(len(singles))
    of = [*own, *(own[names.index(single)] for _, single in prompts.SMALL.composites), own[0] * 0]
    said = prompt_cosines.composites({(1.0, "mid_block"): of}, prompts.SMALL, "mid")["empty"]
    assert list(said.values()) == [{"own": 1, "other": 0}] * len(prompts.SMALL.composites)


def test_sdxl_is_asked_for_the_paper_s_prompts():
    """App. G: each prompt, and the word whose map is taken."""
    photo, gogh = "full body, highly detailed photograph.", "oil-painting in the style of Van Gogh."
    three = f"A cat eating sushi with chopsticks, {gogh}"
    scene = "a beautiful photograph with a horse in the middle, a dog on the left, and a cat on the right"
    assert prompts.FULL.scenes == (scene,)
    assert {(one.short, one.text, one.word, one.kind) for one in prompts.FULL.singles} == {
        ("dog", f"A dog, {photo}", "dog", "animal"),
        ("horse", f"A horse, {photo}", "horse", "animal"),
        ("cat", f"A cat, {photo}", "cat", "animal"),
        ("vangogh", f"An {gogh}", "Gogh", "style"),
        ("monet", "A watercolor-painting in the style of Monet.", "Monet", "style"),
        ("hokusai", "A woodblock print in the style of Hokusai.", "Hokusai", "style"),
        ("sushi", "Eating sushi with chopsticks, highly detailed photograph.", "sushi", "food"),
        ("croissant", "Eating a croissant, highly detailed photograph.", "croissant", "food"),
    }
    assert {(one.short, one.text, one.word, single) for one, single in prompts.FULL.composites} == {
        ("vangogh+cat+sushi", three, "cat", "cat"),
        ("vangogh+cat+sushi", three, "sushi", "sushi"),
        ("vangogh+cat+sushi", three, "Gogh", "vangogh"),
        ("vangogh+cat", f"A cat, full body, {gogh}", "cat", "cat"),
        ("vangogh+cat", f"A cat, full body, {gogh}", "Gogh", "vangogh"),
        ("sushi+cat", "A cat eating sushi with chopsticks.", "cat", "cat"),
        ("sushi+cat", "A cat eating sushi with chopsticks.", "sushi", "sushi"),
    }
