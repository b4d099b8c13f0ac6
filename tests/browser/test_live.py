"""Widgets that ask the kernel, in the notebooks that hold them, up to these (nbval runs the rest): by mouse,
by keys, and their names.
"""

import csv
import re

import pytest

from lcs_utils import notebooks

COUNTING = (  # pictures of four grays instead of samples; the file is the kernel's own
    """import numpy as np
from pathlib import Path
from lcs_utils.evaluation.eye import hand_counts as hc
from lcs_utils.widgets.hand_count import HandCounter
shown = [hc.Shown("exp1", "0" * 12, k, 0, 0, "heun", 2) for k in range(4)]
pictures = [np.full((32, 32, 3), 60 + 40 * k, np.uint8) for k in range(4)]
s = hc.Session(shown, pictures, 0, "somebody", Path("counts.csv"))
HandCounter(s.pictures, s.record, s.done)""",
)
WATCH = """() => {  // when something was done, and when which picture was drawn
  const draw = CanvasRenderingContext2D.prototype.drawImage;
  window.drawn = [];
  CanvasRenderingContext2D.prototype.drawImage = function (image, ...rest) {
    draw.call(this, image, ...rest);
    window.drawn.push([performance.now(), image.src]);
  };
  const act = () => Object.assign(window, { acted: performance.now(), before: window.drawn.at(-1)?.[1] });
  for (const kind of ["input", "click"]) addEventListener(kind, act, true);
}"""
ANSWERED = "() => { const d = window.drawn.find((d) => d[0] > window.acted && d[1] !== window.before);"
ANSWERED += " return d && d[0] - window.acted }"


def on(*names):
    """For the notebook of this name, of these cells."""
    name, *cells = names
    return pytest.mark.parametrize(("name", "cells"), [(name, cells)], ids=[name])


def up_to(name, made):
    """The notebook's name and its cells up to the first that calls `made`."""
    cells = notebooks.read(name).cells
    calls = [cell.cell_type == "code" and f"{made}(" in cell.source for cell in cells]
    return name, *cells[: calls.index(True) + 1]


def ready(sheet):
    """The page, in front, all cells run."""
    sheet.page.bring_to_front()
    sheet.wait_until_run()
    return sheet.page


def live_region(canvas):
    """What is read out beside a canvas."""
    return canvas.locator("xpath=following-sibling::*[@aria-live]")


@on(*up_to("07_locality", "LocalityExplorer"))
def test_explorer(sheets, name, cells):
    sheet = sheets[name]
    page = ready(sheet)
    canvas = page.get_by_role("application", name=re.compile("target pixel"))
    grid = page.get_by_role("application", name=re.compile("Condition grid"))
    status, active = live_region(canvas), live_region(grid)
    part = page.locator(".jp-OutputArea-output", has=canvas)
    pictures = [("application", picture.get_attribute("aria-label")) for picture in (canvas, grid)]
    buttons = [("spinbutton", "seed"), ("button", "Sample"), ("button", "Reset")]
    above = [("slider", "noise level σ"), ("button", "play over noise")]
    assert sheet.workable(part) == [*above, *pictures, *buttons]
    slider = page.get_by_role("slider", name="noise level σ")
    slider.scroll_into_view_if_needed()
    sheet.screenshot("explorer")
    page.evaluate(WATCH)

    def says(words):
        return sheet.wait_for(words, lambda: words in status.inner_text())

    def took(what):
        return print(f"{what}: {sheet.wait_for('new picture', lambda: page.evaluate(ANSWERED)):.0f} ms")

    first = sheet.wait_for("first state", status.inner_text)
    assert first.startswith("noise level 2, target row 11, column 11")

    sheet.drag(slider, 1)  # noise by mouse, then by keys
    says("noise level 40,")
    took("slide to a new noise level")
    slider.press("ArrowLeft")  # JupyterLab would fold a heading
    says("noise level 20,")
    slider.press("ArrowRight")
    says("noise level 40,")
    took("slide to a known noise level")
    slider.press("Home")
    says("noise level 0.05,")
    play = page.get_by_role("button", name="play over noise")
    sheet.tab_to(play, 1)
    page.keyboard.press("Enter")

    def played():  # where a busy machine is silent for a second it stops, and goes on at the next press
        page.evaluate("""() => document.querySelector('button[aria-label="play over noise"]')?.click()""")
        return float(re.match(r"noise level ([\d.]+)", status.inner_text())[1]) >= 0.2

    sheet.wait_for("play", played)
    page.evaluate("""() => document.querySelector('button[aria-label="pause"]')?.click()""")
    stopped = sheet.wait_for("slider's word", lambda: slider.get_attribute("aria-valuetext"))
    says(f"noise level {stopped},")
    assert play.count() == 1 and float(stopped) < 40, "play over noise cannot be stopped"

    canvas.scroll_into_view_if_needed()  # the target by mouse, then by keys
    box = canvas.bounding_box()
    canvas.click(position={"x": 0.27 * box["width"], "y": 0.2 * box["height"]})  # inside the second panel

    def targets():
        return [
            (int(y), int(x)) for y, x in re.findall(r"target row (\d+), column (\d+)", status.inner_text())
        ]

    [(row, column)] = sheet.wait_for("new target", lambda: [at for at in targets() if at != (11, 11)])
    took("click")
    for key in ("ArrowRight", "ArrowRight", "ArrowDown"):
        page.keyboard.press(key)
    says(
        f"row {row + 1}, column {column + 2}, listens to pixels, Exp. 1"
    )  # where the cursor waits after a click
    page.keyboard.press("Enter")
    says(f"target row {row + 1}, column {column + 2}")

    assert active.inner_text() == "5 conditions active"  # a condition by keys, and by mouse
    sheet.tab_to(grid, 1)
    page.keyboard.press("ArrowRight")
    sheet.wait_for("cell's name", lambda: active.inner_text() == "row 0, column 1, inactive")
    page.keyboard.press(" ")
    sheet.wait_for("new condition", lambda: active.inner_text() == "6 conditions active")
    side = grid.bounding_box()["width"] / 16
    grid.click(position={"x": 1.5 * side, "y": 0.5 * side})
    sheet.wait_for("condition removed", lambda: active.inner_text() == "5 conditions active")
    took("toggle")

    sample = page.get_by_role("button", name="Sample")
    sample.click()
    bar = page.get_by_role("progressbar", name="sampling")
    steps = set()
    sheet.wait_for(
        "progress", lambda: bar.is_visible() and steps.add(bar.evaluate("e => e.value")) or len(steps) > 2
    )
    sheet.wait_for("end of sampling", lambda: not bar.is_visible() and sample.is_enabled())
    sheet.screenshot("explorer_samples")
    page.get_by_role("button", name="Reset").click()
    sheet.wait_for("first state", lambda: status.inner_text() == first)
    sheet.wait_for("slider's first stop", lambda: slider.get_attribute("aria-valuetext") == "2")
    assert not sheet.complaints()


@on(*up_to("05_length_generalization", "ConditionSampler"))
def test_condition_sampler(sheets, name, cells):
    sheet = sheets[name]
    page = ready(sheet)
    canvases = page.get_by_role("application", name=re.compile("condition grid and sample"))
    part = page.locator(".jp-OutputArea-output", has=canvases)
    names = [canvas.get_attribute("aria-label") for canvas in canvases.all()]
    buttons = [("button", "Sample"), ("button", "Clear"), ("spinbutton", "seed")]
    assert sheet.workable(part) == [*buttons, *(("application", name) for name in names)] and len(names) == 2
    words = live_region(canvases.first)
    page.get_by_role("button", name="Clear").click()
    sheet.wait_for("empty grid", lambda: "asked for 0" in words.inner_text())
    canvases.first.focus()
    for key in (*["ArrowDown"] * 8, *["ArrowRight"] * 8, "Enter"):
        page.keyboard.press(key)
    sheet.wait_for("condition by keys", lambda: "asked for 1" in words.inner_text())
    box = canvases.nth(1).bounding_box()
    canvases.nth(1).click(position={"x": box["width"] * 0.3, "y": box["height"] * 0.6})
    sheet.wait_for("condition by mouse", lambda: "asked for 2" in words.inner_text())
    page.get_by_role("spinbutton", name="seed").fill("3")
    page.keyboard.press("Enter")
    page.get_by_role("button", name="Sample").click()
    sheet.wait_for("count", lambda: re.search(r"asked for 2, counted \d+", words.inner_text()))
    part.scroll_into_view_if_needed()
    sheet.screenshot("sampler")
    assert not sheet.complaints()


@on(*up_to("03_clevr_generation", "scene_controls"))
def test_scene(sheets, name, cells):
    sheet = sheets[name]
    page = ready(sheet)
    picture = page.locator("img.lcs-image")
    part = page.locator(".jp-OutputArea-output", has=picture)
    choices = [("combobox", name) for name in ("object to change", "shape", "size", "material", "color")]
    placed = [("slider", "x"), ("slider", "y")]
    lamps = [("combobox", "lamp to change"), ("slider", "turn °"), ("slider", "lift")]
    every = [("slider", "objects"), ("spinbutton", "seed"), choices[0], *placed, *choices[1:], *lamps]
    assert sheet.workable(part) == every
    assert picture.evaluate("e => e.naturalWidth") > 100
    color = page.get_by_role("combobox", name="color")
    color.focus()
    color.press("y")  # a list takes first letters
    page.locator('img.lcs-image[alt*="yellow"]').wait_for()
    before = picture.get_attribute("src")
    x = page.get_by_role("slider", name="x", exact=True)
    sheet.drag(x, 1)

    def moved():
        return x.get_attribute("aria-valuetext") == "3" and picture.get_attribute("src") != before

    sheet.wait_for("moved object", moved)
    objects = page.get_by_role("slider", name="objects")
    objects.press("End")
    page.locator('img.lcs-image[alt^="10 objects"]').wait_for()
    assert "CLEVR" in part.get_by_role("status").first.inner_text()
    picture.scroll_into_view_if_needed()
    sheet.screenshot("scene")
    assert not sheet.complaints()


@on("counting", *COUNTING)
def test_hand_counts_by_key_and_click_end_in_the_file(sheets, name, cells):
    sheet = sheets[name]
    page = ready(sheet)
    box = page.get_by_role("group", name=re.compile("Count the objects"))
    image, at = box.get_by_role("img"), box.locator("[aria-live]")
    buttons = [f"{n} objects" if n != 1 else "1 object" for n in range(15)]
    assert sheet.workable(box) == [("button", name) for name in (*buttons, "? not plausible", "back")]
    cells_before = page.locator(".jp-Cell").count()

    def reaches(words):
        return sheet.wait_for(words, lambda: at.inner_text() == words)

    reaches("1 of 4")
    sheet.screenshot("counting")
    box.focus()
    page.keyboard.press("3")
    reaches("2 of 4")
    page.keyboard.press("a")  # ten; in JupyterLab a new cell
    reaches("3 of 4")
    page.keyboard.press("Tab")  # with a button in focus, too
    page.keyboard.press("d")  # thirteen; two of them delete a cell in JupyterLab
    reaches("4 of 4")
    page.keyboard.press("Backspace")
    reaches("3 of 4")
    page.keyboard.press("d")  # the same answer to the same picture
    reaches("4 of 4")
    box.get_by_role("button", name="? not plausible").click()
    box.get_by_role("button", name="2 objects", exact=True).click()
    reaches("all 4 counted")
    for key in "dd00":  # all answered: nothing happens
        page.keyboard.press(key)
    assert image.count() == 0 and box.get_by_role("button", name="3 objects", exact=True).is_disabled()
    lines = [
        line for line in (sheet.folder / "counts.csv").read_text().splitlines() if not line.startswith("#")
    ]
    found = [(row["k"], row["count"], row["plausible"], row["counted_by"]) for row in csv.DictReader(lines)]
    seen = (("0", "3", "1"), ("1", "10", "1"), ("2", "13", "1"), ("3", "2", "0"))
    assert found == [(*row, "somebody") for row in seen]
    assert page.locator(".jp-Cell").count() == cells_before and page.get_by_role("dialog").count() == 0
    sheet.screenshot("counted")
    assert not sheet.complaints()
