"""Restart and Run All, then save: the pair in notebooks/ is what `notebooks build` writes, to the byte."""

import os
import re
import shutil
from unittest import mock

import nbformat

from lcs_utils import notebooks, paths
from lcs_utils.notebook_outputs import clean

from .conftest import PATIENCE, Sheet, restart_and_run_all

NAME = "01_theory_cpc_is_lcs"  # figures with alternative texts, and a slider
PNG = re.compile(r"iVBORw0KGgo[\w+/=]*(\\n)?")  # in base64


def built(folder):
    """The notebook as `notebooks build` writes it on this processor; another's pictures differ in single
    levels of gray, since sums round otherwise.
    """
    with mock.patch.dict(os.environ):
        executed = notebooks.execute(NAME, {}, folder / "built.ipynb")
    return nbformat.writes(clean(executed, notebooks.read(NAME))) + "\n"


def test_a_saved_pair_is_what_it_was(lab, chromium, tmp_path):
    folder = lab.folder / "notebooks"
    folder.mkdir()
    shutil.copy(paths.ROOT / "jupytext.toml", lab.folder)
    pair = [folder / f"{NAME}{suffix}" for suffix in (".ipynb", ".py")]
    stored, source = ((paths.NOTEBOOKS / path.name).read_text() for path in pair)
    before = [built(tmp_path), source]
    assert PNG.search(stored) and PNG.sub("", before[0]) == PNG.sub("", stored)
    for path, text in zip(pair, before):
        path.write_text(text)
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
