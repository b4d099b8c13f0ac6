"""Sliders over pictures, in notebooks up to their last widget (nbval runs the rest): by mouse and by keys."""

import pytest

from lcs_utils import notebooks

SLIDERS = {  # the slider's accessible name
    "01_theory_cpc_is_lcs": "noise level sigma",
    "02_theory_noise": "coupling",
    "11_swing_by": "training time, rates a^2",
}


def up_to_widget(name):
    """The notebook's cells up to its last widget."""
    cells = notebooks.read(name).cells
    last = max(i for i, cell in enumerate(cells) if cell.cell_type == "code" and "widgets." in cell.source)
    return cells[: last + 1]


def shown(page):
    """What the slider says, what is heard, the stop beside it, and the picture's address and name."""
    slider, picture = page.get_by_role("slider"), page.locator(".jp-OutputArea-output img[src^=blob]")
    heard = slider.get_attribute("aria-valuetext"), page.locator(".jp-OutputArea-output output").inner_text()
    return *heard, picture.get_attribute("src"), picture.get_attribute("alt")


@pytest.mark.parametrize(
    ("name", "cells"), [(name, up_to_widget(name)) for name in SLIDERS], ids=list(SLIDERS)
)
def test_run_all_then_slide_by_keys_and_mouse(sheets, name, cells):
    sheet = sheets[name]
    page, label = sheet.page, SLIDERS[name]
    page.bring_to_front()
    sheet.wait_until_run()
    slider = page.get_by_role("slider", name=label)
    assert sheet.workable(page.locator(".jp-OutputArea-output", has=slider)) == [("slider", label)]
    slider.scroll_into_view_if_needed()
    sheet.screenshot(1)

    def changed(before):
        def all_new(now):
            return now if all(new != old for new, old in zip(now, before)) else None

        return sheet.wait_for(f"change of {before}", lambda: all_new(shown(page)))

    first = shown(page)
    assert first[0] == first[1] and first[3] == f"{label}: {first[0]}"
    slider.focus()
    page.keyboard.press("ArrowRight")
    second = changed(first)
    page.keyboard.press("ArrowLeft")
    assert changed(second) == first
    page.keyboard.press("Shift+Tab")
    assert not slider.evaluate("e => e === document.activeElement")
    page.keyboard.press("Tab")
    assert slider.evaluate("e => e === document.activeElement"), (
        "the slider cannot be reached with the Tab key"
    )

    sheet.drag(slider, 1)
    changed(first)
    assert slider.input_value() == slider.get_attribute("max")
    natural = page.locator(".jp-OutputArea-output img[src^=blob]").evaluate("e => e.naturalWidth")
    assert natural > 300, "the picture is not drawn"
    sheet.screenshot(2)
    assert not sheet.complaints()
