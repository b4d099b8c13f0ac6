"""What notebook 10 says and draws beside its numbers: nulls, absolute cosines, where attention knows
objects."""

from types import SimpleNamespace

import matplotlib.pyplot as plt
import pytest
import torch
from matplotlib.colors import to_rgba

from lcs_utils.text_to_image import figures, prompt_cosines, prompts, report, row_figures, study
from lcs_utils.text_to_image.truth import Row

NETS = {"t1": "T1", "untrained": "untrained"}


def attention(maps, empty=None):
    """Maps [prompts places] in one layer of each part at one noise level, and that of the empty prompt."""
    both = [*maps, torch.zeros(maps.shape[1]) if empty is None else empty]
    return {(1.0, f"{part}_block"): [of.reshape(1, -1) for of in both] for part in figures.PARTS}


def row(value, control="", net="t1", measure="own share", case="two objects", sigma=1.0):
    return Row(net, measure, case, control, sigma, 0.0, 9, value, value - 0.05, value + 0.05)


def test_vectors_less_their_mean_have_a_cosine_by_construction():
    """Those of equal length -1/(n - 1), whatever they are; of others it may be more, and never less."""
    x, y, z = torch.eye(5)[:3]
    for vectors in ((x, -x), (x, -x, y, -y), (x, -x, y, -y, z, -z), (x, -x, x, -x)):
        found = attention(torch.stack(vectors))
        said = figures.mean_cosines(found, found)["mean"]["mid"]["1"]
        least = prompt_cosines.least_mean_cosine(len(vectors))
        assert said["two prompts"] == pytest.approx(least, abs=1e-3)
        assert said["absolute"] >= -least - 1e-3
    generator = torch.Generator().manual_seed(0)
    for spread in (0, 1, 3):
        lengths = (spread * torch.randn(8, 1, generator=generator)).exp()
        found = attention(lengths * torch.randn(8, 400, generator=generator))
        said = figures.mean_cosines(found, found)["mean"]["up"]["1"]["two prompts"]
        assert (abs(said - prompt_cosines.least_mean_cosine(8)) < 0.01) == (spread == 0)
        assert said >= prompt_cosines.least_mean_cosine(8) - 1e-3
    with pytest.raises(ValueError, match="n must be"):
        prompt_cosines.least_mean_cosine(1)


def test_a_signed_mean_of_zero_hides_what_the_absolute_one_shows():
    x, y, z = torch.eye(4)[:3]
    orthogonal, alike = torch.stack([x, y, z]), torch.stack([x, x + 0.01 * y, -x])
    said = figures.mean_cosines(attention(orthogonal), attention(orthogonal))["empty"]["down"]["1"]
    assert said["two prompts"] == said["absolute"] == 0
    said = figures.mean_cosines(attention(alike), attention(alike))["empty"]["down"]["1"]
    assert said["two prompts"] < 0 and said["absolute"] > 0.99
    words = report.cosine_words(figures.mean_cosines(attention(alike), attention(alike)), 3)
    assert "-1/2 = -0.50" in words and "| empty | down | -0.33, 1.00 (1.00) |" in words
    assert "-1/7 = -0.14" in report.cosine_words({"empty": {"down": {"1": said}}}, 8)


def test_of_the_mid_block_the_first_five_layers_are_taken():
    """Ten layers, as SDXL's mid block has; the last five would turn two alike prompts into opposite ones."""
    x, y = torch.eye(2)
    first, last = [x, x, 0 * x], [x + 9 * y, x - 9 * y, 0 * x]
    found = {
        (1.0, f"{part}.transformer_blocks.{k}"): [one.reshape(1, 2) for one in (first if k < 5 else last)]
        for part in ("mid_block", "up_blocks")
        for k in range(10)
    }
    of_all = (10 - 5 * 81) / (10 + 5 * 81)
    for part, places, cosine in (("mid", 10, 1), ("mid_block", 10, 1), ("up", 20, of_all)):
        assert prompt_cosines.differences(found, 1.0, part, "empty").shape == (2, places)
        assert figures.part_maps(found, 1.0, part, "empty").shape == (2, 1, 2)
        got = float(prompt_cosines.cosines(found, 1.0, part, "empty")[0, 1])
        assert got == pytest.approx(cosine)
    torch.testing.assert_close(figures.part_maps(found, 1.0, "mid", "empty")[:, 0], torch.stack([x, x]))


def test_pale_stands_for_a_word_with_others():
    maps = [[[4.0, 5.0, 1.0]], [[1.0, 4.0, 1.0]], [[1.0, 1.0, 1.0]]]
    heard = [prompts.Heard(2.0, dict(zip(("red", "cube", "blue"), map(torch.tensor, maps), strict=True)), {})]
    said = figures.words_numbers(["a"], [(torch.zeros(1), heard)])["a"]["2"]
    assert said == {"none": 0.333, "red": 0.333, "cube": 0.0, "blue": 0.0, "red + cube": 0.333}
    null = heard[0]._replace(common={"a": torch.tensor([[1.0, 2.4, 1.0]]), "and": torch.zeros(1, 3)})
    said = figures.words_numbers(["a"], [(torch.zeros(1), [null])])["a"]["2"]
    assert said == {"none": 0.333, "red": 0.667, "cube": 0.0, "blue": 0.0}  # the cube's 4 is below 4.8
    words = figures.null_words(["a"], [(torch.zeros(1), [null, heard[0]._replace(common={})])])
    assert "| a | share of places | 0.67 (0.67) | 0.67 (0.67) |" in words
    assert "| | strongest word | red 3.74 (a 1.61) | red 3.74 (–) |" in words
    shades = figures.word_shades(["red", "cube"])
    assert list(shades) == ["red", "red + others", "cube", "cube + others", "none"]
    assert len(set(shades.values())) == 5
    assert all(min(shades[f"{word} + others"]) > min(shades[word]) for word in ("red", "cube"))
    of_paper = figures.word_colors("beautiful photograph horse middle dog left cat right".split())
    assert len(set(of_paper.values())) == 8


def test_a_net_s_own_null_is_drawn_hollow_in_its_color():
    rows = [
        row(value, control, net)
        for net, own in (("t1", 0.9), ("untrained", 0.7))
        for value, control in ((own, ""), (own - 0.4, "permuted"))
    ]
    cases = {"two objects": "two"}
    with pytest.raises(ValueError, match="own share, two objects: not stored at all of .*'shuffled'"):
        row_figures.plot_by_noise(rows, "own share", cases, NETS, [1.0], "share", control="shuffled")
    with pytest.raises(ValueError, match="not stored at all of .1.0, 2.0., ''"):
        row_figures.plot_by_noise(rows, "own share", cases, NETS, [1.0, 2.0], "share")
    cases["both"] = "both"
    rows += [one._replace(case="both") for one in rows]
    for control in ("permuted", ""):
        figure = row_figures.plot_by_noise(rows, "own share", cases, NETS, [1.0], "share", control=control)
        hollow = {
            (to_rgba(line.get_color()), round(float(line.get_ydata()[0]), 2))
            for line in figure.axes[0].lines
            if line.get_markerfacecolor() == "white"
        }
        wanted = {(to_rgba(row_figures.HUES[0]), 0.5), (to_rgba(row_figures.HUES[1]), 0.3)}
        assert hollow == (wanted if control else set())
        names = [text.get_text() for text in figure.legends[0].get_texts()]
        assert names == ["T1", "untrained"] + ["hollow: labels permuted"] * bool(control)
    figure = row_figures.plot_by_noise(rows, "own share", cases, NETS, [1.0], "share", chance=0.5)
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["T1", "untrained", "chance"]
    plt.close("all")


def test_attention_that_prefers_the_other_object_is_said_not_to_find_its_own():
    def stored(own, other):
        return [
            row(value, control, measure="AUC", case=f"attention {part}, raw", sigma=2.0)
            for part in figures.PARTS
            for value, control in ((own[part], ""), (other[part], "other object"))
        ]

    good, bad = dict.fromkeys(figures.PARTS, 0.9), dict.fromkeys(figures.PARTS, 0.5)
    all_found = report.own_object_words(stored(good, bad))
    assert "Not in: none." in all_found and "does not say where" not in all_found
    mid = report.own_object_words(stored(good | {"mid": 0.57}, bad | {"mid": 0.6}))
    assert "Not in: mid (0.57 [0.52, 0.62], the other object's 0.60 [0.55, 0.65])." in mid
    assert "in: down (0.90" in mid and "does not say where" in mid
    assert "in: none. Not in: down" in report.own_object_words(stored(bad, good))


def test_composites_say_how_many_prompts_they_are_and_have_hollow_marks_where_stored():
    of = {
        f"{name} at {word}": {"own": 0.8, "other": 0.1, "again": 0.9}
        for name in ("a+b", "c+d")
        for word in "ab"
    }
    of["c+d at b"] = {"own": 0.4, "other": -0.1, "again": 0.7}
    said = {part: {"empty": of, "mean": of} for part in figures.PARTS}
    words = report.composite_words(said, ())
    assert words.startswith("Cosine, mean over 4 words of 2 composite prompts [least, most]")
    assert "| mid | mean | 0.70 [0.40, 0.80] | 0.05 [-0.10, 0.10] | 0.85 [0.70, 0.90] |" in words
    assert "AUC" not in words
    bare = {name: {"own": 0.3, "other": 0.2} for name in of}
    for beside, drawn in (({"mid": {"empty": bare, "mean": bare}}, [False, True, False]), ({}, [False] * 3)):
        figure = figures.plot_composites(said, beside)
        hollow = [any(line.get_markerfacecolor() == "white" for line in ax.lines) for ax in figure.axes]
        assert hollow == drawn * 2
        names = [text.get_text() for text in figure.legends[0].get_texts()]
        assert len(names) == len(set(names)) == 3 + 2 * bool(beside)
        said_at = [label.get_text() for label in figure.axes[0].get_yticklabels()]
        assert said_at == ["a", "b"] * 2 and [t.get_text() for t in figure.axes[0].texts] == [
            "a + b",
            "c + d",
        ]
    plt.close("all")


def test_of_an_untrained_net_the_jacobian_is_of_what_it_computes(monkeypatch):
    """Its D = x_t - sigma eps holds the x_t, and would look at its own place."""
    asked = []
    others = {
        study.scoring: ("locality_rows", "attention_rows"),
        study.structure: ("additivity_rows", "own_share_rows"),
        study.kinds: ("block_rows",),
        study.success: ("success_rows",),
        study: ("composite_rows",),
    }
    for module, names in others.items():
        for name in names:
            monkeypatch.setattr(module, name, lambda *given: [])
    monkeypatch.setattr(study.scoring, "cases", lambda *given: [])
    monkeypatch.setattr(study.reader, "load", lambda: None)
    monkeypatch.setattr(study, "PromptDenoiser", lambda *given: None)
    monkeypatch.setattr(
        study.structure, "jacobian_rows", lambda net, *given, of_noise: asked.append((net, of_noise)) or []
    )
    for net in ("t1", "t2", study.UNTRAINED):
        assert study.rows_of(net, SimpleNamespace(vae=None), 3, 3) == []
    assert asked == [("t1", False), ("t2", False), ("untrained", True)]
