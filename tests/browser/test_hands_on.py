"""Widgets in a notebook in JupyterLab with nets that are formulas: what fits, what commits, what is said
when the kernel is silent. One kernel for all of it, killed by the last test.
"""

import io
import os
import re
import signal

import numpy as np
import pytest
from PIL import Image

CELLS = (
    """import os
from pathlib import Path
import torch
from lcs_utils import checkpoints, widgets
from lcs_utils.clevr.conditions import GRID_SIZE
from lcs_utils.diffusion import expand
from lcs_utils.counter.net import Counts
from lcs_utils.models.unet import EDM2UNet
from lcs_utils.widgets.scene_controls import scene_controls
Path("kernel").write_text(str(os.getpid()))""",
    """def net(x, sigma, cond):  # each active cell is darkened by its own condition
    grid = cond.expand(len(x), -1).reshape(-1, 1, GRID_SIZE, GRID_SIZE)
    dark = grid.repeat_interleave(2, 2).repeat_interleave(2, 3)
    return x / (1 + expand(sigma, x) ** 2) - 0.5 * dark
class Box:
    denoiser, config = staticmethod(net), type("Config", (), {"resolution": 32})
    net = EDM2UNet(channels=4, channel_mult=[1], num_blocks=1, attention_levels=[])
checkpoints.load = lambda name, preset: Box
cells = [17 * k + 2 * (k % 3) for k in range(1, 13)]
widgets.LocalityExplorer(sigmas=(0.1, 0.5, 2.0, 10.0), cells=cells, steps=2)""",
    """def counter(images):
    one = torch.ones(1)
    return Counts(torch.tensor([7]), torch.full((1, 1, 2), 0.5), one[None], one, one)
widgets.ConditionSampler({"A": net}, counter, k=3, steps=2)""",
    "scene_controls(seed=0, count=2, resolution=192)",
    """import numpy as np
from lcs_utils.widgets.hand_count import HandCounter
HandCounter([np.full((32, 32, 3), 40 * k, np.uint8) for k in (1, 2, 3)], lambda *answer: None)""",
    """from matplotlib import pyplot as plt
from lcs_utils import plotting
plotting.use_style()
figure, axes = plt.subplots()
axes.plot([1, 2], [3, 4])
axes.set(title="Up", xlabel="time", ylabel="height")
plotting.save_figure(figure, "up", "tiny", {"y": [3, 4]}, 0);""",
    """plt.plot([1, 2])
plotting.save_figure(plt.gcf(), "said", "tiny", {"y": [1, 2]}, 0, alt='It "rises"');""",
    "plt.plot([1, 2]); plt.title('not saved');",
)
here = pytest.mark.parametrize(("name", "cells"), [("hands_on", CELLS)], ids=["hands_on"])
SIDES = """e => [...e.children].map(row => {
  const box = row.getBoundingClientRect(), words = document.createRange();
  words.selectNodeContents(row);
  const inside = words.getBoundingClientRect();
  return { top: box.top, bottom: box.bottom, wordsBottom: inside.bottom, right: inside.right };
})"""
DRAWN = """() => [...document.querySelectorAll(".lcs-framed canvas")]
  .filter(canvas => canvas.width !== 300).length"""  # 300 is a canvas's width before anything is drawn
PIXELS = """async e => {
  for (;;) {  // a new picture may come while the last one is decoded: then that is the one to wait for
    const shown = e.src;
    try { await e.decode(); return e.naturalWidth; } catch (error) { if (e.src === shown) throw error; }
  }
}"""


@pytest.fixture
def page(sheets, name, cells):
    """The notebook's page, all cells run, 1280 x 800."""
    sheet = sheets[name]
    sheet.page.bring_to_front()
    sheet.page.set_viewport_size({"width": 1280, "height": 800})
    sheet.wait_until_run()
    sheet.wait_for("three pictures", lambda: sheet.page.evaluate(DRAWN) == 3)
    return sheet.page


def explorer(page):
    """The explorer's box, and in it the picture's canvas and the grid's."""
    canvas = page.get_by_role("application", name=re.compile("target pixel"))
    grid = page.get_by_role("application", name=re.compile("Condition grid"))
    return page.locator(".lcs-box", has=canvas), canvas, grid


def status(canvas):
    """What is read out beside a canvas."""
    return canvas.locator("xpath=following-sibling::*[@aria-live]")


@here
def test_the_explorer_fits_one_screen_and_its_words_are_words(sheets, name, cells, page):
    sheet, (box, canvas, grid) = sheets[name], explorer(page)
    parts = [
        page.get_by_role("slider", name="noise level σ"),
        canvas,
        grid,
        *(box.get_by_role("button", name=words) for words in ("Sample", "Reset")),
    ]
    seen = page.locator(".jp-WindowedPanel-outer").bounding_box()
    for width, most in ((1280, seen["height"]), (900, None)):
        page.set_viewport_size({"width": width, "height": 800})
        box.evaluate("e => e.scrollIntoView()")
        boxes = [part.bounding_box() for part in parts]
        assert all(b["x"] + b["width"] <= width for b in boxes), f"{width}: out of the page on the right"
        if most:
            bottom, top = max(b["y"] + b["height"] for b in boxes), min(b["y"] for b in boxes)
            assert bottom - top < most, f"{width}: {bottom - top:.0f} px high, {most:.0f} are seen at once"
        rows, area = box.locator(".lcs-sides").first.evaluate(SIDES), canvas.bounding_box()
        assert len(rows) == 3 and rows[0]["top"] == pytest.approx(area["y"], abs=1)
        assert rows[2]["bottom"] == pytest.approx(area["y"] + area["height"], abs=1)
        for row in rows:  # beside its panels, no lower than they end
            assert row["wordsBottom"] <= row["bottom"] + 1 and row["right"] <= area["x"], (width, row, area)
        heads = box.locator(".lcs-heads > div").all()
        centers = [h.bounding_box()["x"] + h.bounding_box()["width"] / 2 for h in heads]
        expected = [area["x"] + area["width"] * (j + 0.5) / 5 for j in range(5)]
        assert centers == pytest.approx(expected, abs=3)
        sheet.screenshot(f"explorer_{width}")
    text = box.locator(".lcs-sides").first.inner_text()
    assert "Exp. 1" in text and "all labels" in text and re.search(r"\d+ px", text)
    assert (
        float(box.locator(".lcs-picture").first.evaluate("e => parseFloat(getComputedStyle(e).fontSize)"))
        >= 11
    )
    assert box.locator(".lcs-heads").first.inner_text().split("\n")[2] == "listens to pixels"
    assert not sheet.complaints()


@here
def test_twelve_conditions_are_numbered_and_the_sampler_has_no_colors(sheets, name, cells, page):
    box, canvas, grid = explorer(page)
    marks = grid.locator("xpath=../div/*[contains(@class, 'lcs-mark')]")
    assert marks.all_inner_texts() == [str(k) for k in range(1, 13)]
    side, third = grid.bounding_box(), marks.nth(2).bounding_box()  # condition 3 is in cell 51 of 256
    at = (third["x"] + third["width"] / 2 - side["x"]) / side["width"] * 16
    assert at == pytest.approx(51 % 16 + 0.5, abs=0.1)
    beside = canvas.locator("xpath=../div/*[contains(@class, 'lcs-mark')]")
    assert beside.all_inner_texts() == [str(k) for k in range(1, 13)] * 3
    sampler = page.get_by_role("application", name=re.compile("condition grid and sample"))
    sampler.scroll_into_view_if_needed()
    drawn = Image.open(io.BytesIO(sampler.screenshot())).convert("RGB")
    pixels = np.asarray(drawn).astype(int)
    assert np.ptp(pixels, axis=2).max() <= 8 and pixels.std() > 10, "gray lines and squares, nothing else"
    sheets[name].screenshot("sampler")


@here
def test_enter_commits_a_number_in_a_cell(sheets, name, cells, page):
    sheet, (box, canvas, _) = sheets[name], explorer(page)
    seed, picture = box.get_by_role("spinbutton", name="seed"), "e => e.toDataURL()"
    before, cells_before = canvas.evaluate(picture), page.locator(".jp-Cell").count()
    seed.fill("5")
    seed.press("Enter")
    sheet.wait_for("picture of seed 5", lambda: canvas.evaluate(picture) != before)
    assert seed.evaluate("e => e === document.activeElement"), "Enter takes the focus away"
    seed.fill("-1")  # no seed
    seed.press("Enter")
    sheet.wait_for("the last seed", lambda: seed.input_value() == "5")
    seed.fill("0")
    seed.press("Enter")
    sheet.wait_for("first picture", lambda: canvas.evaluate(picture) == before)
    assert page.locator(".jp-Cell").count() == cells_before


@here
def test_a_scene_under_a_dragged_slider_is_small_and_ends_whole(sheets, name, cells, page):
    sheet, image = sheets[name], page.locator("img.lcs-image")

    def width():
        return image.evaluate(PIXELS)

    sheet.wait_for("the whole picture", lambda: width() == 192)
    assert image.get_attribute("alt").startswith("2 objects: ")
    slider = page.get_by_role("slider", name="turn °")
    slider.scroll_into_view_if_needed()
    area = slider.bounding_box()
    middle, y = area["x"] + area["width"] / 2, area["y"] + area["height"] / 2
    shown = area["width"], image.bounding_box()["width"]
    page.mouse.move(middle, y)
    page.mouse.down()
    page.mouse.move(middle + 40, y, steps=20)
    sheet.wait_for("a small picture", lambda: width() == 64)
    assert (slider.bounding_box()["width"], image.bounding_box()["width"]) == shown, "the page jumps"
    sheet.screenshot("scene_dragged")
    page.mouse.up()
    sheet.wait_for("the whole picture", lambda: width() == 192)
    last = slider.get_attribute("aria-valuetext")
    assert float(last) > 0
    sheet.screenshot("scene")
    part = page.locator(".lcs-box", has=image)
    color = part.get_by_role("combobox", name="color")
    for letter in "ypg":  # yellow, purple, then gray or green: only the last has to be drawn
        color.press(letter)
    chosen = color.evaluate("e => e.selectedOptions[0].textContent")
    sheet.wait_for("the last color", lambda: f" {chosen} " in image.get_attribute("alt"))
    sheet.wait_for("the whole picture", lambda: width() == 192)
    assert part.get_by_role("status").last.inner_text() == ""
    assert not sheet.complaints()


@here
def test_pictures_have_alternative_texts(sheets, name, cells, page):
    images = page.locator(".jp-OutputArea-output img")
    alts = [image.get_attribute("alt") for image in images.all()]
    assert len(alts) == 5 and alts[0].startswith("2 objects: ") and alts[1] == "sample 1"
    assert alts[2:] == ["Figure up: Up; height against time", 'It "rises"', "not saved"]
    assert page.get_by_role("img", name="height against time").evaluate(PIXELS) > 200


def kernel(sheet):
    return int((sheet.folder / "kernel").read_text())


@here
def test_a_silent_kernel_is_said_dims_and_stops_play(sheets, name, cells, page):
    sheet, (box, canvas, _) = sheets[name], explorer(page)
    line, slider = box.locator(".lcs-watch"), page.get_by_role("slider", name="noise level σ")
    slider.press("Home")
    sheet.wait_for("first level", lambda: "noise level 0.1," in status(canvas).inner_text())
    sheet.wait_for("an answer", lambda: line.inner_text() == "")
    play = page.get_by_role("button", name="play over noise")
    counter = page.get_by_role("group", name=re.compile("Count the objects"))
    os.kill(kernel(sheet), signal.SIGSTOP)
    try:
        play.click()
        assert page.get_by_role("button", name="pause").count() == 1
        sheet.wait_for("word", lambda: line.inner_text().startswith("No answer from the kernel"))
        play.wait_for()  # it has stopped by itself
        assert line.get_attribute("role") == "status"
        assert float(canvas.evaluate("e => getComputedStyle(e).opacity")) < 0.5
        sheet.screenshot("silent")
        counter.focus()
        page.keyboard.press("3")  # an answer that nobody takes
        sheet.wait_for("word", lambda: "No answer from the kernel" in counter.inner_text())
    finally:
        os.kill(kernel(sheet), signal.SIGCONT)
    sheet.wait_for("an answer", lambda: line.inner_text() == "")
    assert float(canvas.evaluate("e => getComputedStyle(e).opacity")) == 1
    sheet.wait_for("the next picture", lambda: "2 of 3" in counter.inner_text())
    sheet.wait_for("an answer", lambda: "No answer" not in counter.inner_text())
    assert not sheet.complaints()


@here
def test_a_dead_kernel_is_said(sheets, name, cells, page):
    """The last test of this notebook."""
    sheet, sampler = sheets[name], page.get_by_role("application", name=re.compile("grid and sample"))
    line = page.locator(".lcs-box", has=sampler).locator(".lcs-watch")
    sampler.focus()
    os.kill(kernel(sheet), signal.SIGKILL)
    page.keyboard.press("Enter")
    sheet.wait_for("word", lambda: line.inner_text().startswith("No answer from the kernel"))
    assert float(sampler.evaluate("e => getComputedStyle(e).opacity")) < 0.5
    sheet.screenshot("dead")
