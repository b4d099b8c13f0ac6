"""Restart and Run All, then save: the pair in notebooks/ is what it was, to the byte."""

import shutil

from lcs_utils import paths

from .conftest import PATIENCE, Sheet, restart_and_run_all

NAME = "01_theory_cpc_is_lcs"  # figures with alternative texts, and a slider


def test_a_saved_pair_is_what_it_was(lab, chromium):
    folder = lab.folder / "notebooks"
    folder.mkdir()
    shutil.copy(paths.ROOT / "jupytext.toml", lab.folder)
    pair = [folder / f"{NAME}{suffix}" for suffix in (".ipynb", ".py")]
    for path in pair:
        shutil.copy(paths.NOTEBOOKS / path.name, path)
    before = [path.read_text() for path in pair]
    saved = [path.stat().st_mtime_ns for path in pair]
    page = chromium.new_page(viewport={"width": 1280, "height": 800})
    page.set_default_timeout(PATIENCE * 1000)
    sheet = Sheet(page, NAME, lab.folder)
    try:
        page.goto(f"{lab.address}/doc/tree/notebooks/{NAME}.ipynb?token={lab.token}")
        restart_and_run_all(page)
        waiting = page.locator(".jp-InputPrompt", has_text="[*]")
        sheet.wait_for("cell that waits to be run", waiting.count)  # the stored numbers are gone
        sheet.wait_until_run()
        page.get_by_text("Python 3 (ipykernel) | Idle").wait_for()
        page.keyboard.press("Control+s")
        for path, then in zip(pair, saved):
            sheet.wait_for(f"new {path.name}", lambda: path.stat().st_mtime_ns != then and path.read_text())
        page.wait_for_timeout(1000)
        assert [path.read_text() for path in pair] == before
    finally:
        page.close()
