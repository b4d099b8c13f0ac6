"""Blocks of Fig. 13 layer by layer: planted kinds, what concatenation hides, the panels below matrices."""

from itertools import product

import pytest
import torch
from matplotlib import pyplot as plt

from lcs_utils.text_to_image import figures, kinds, prompts


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
