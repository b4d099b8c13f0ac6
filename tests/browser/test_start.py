"""The first page in JupyterLab: the start notebook, its map a table whose links are the other notebooks."""

import shutil

from lcs_utils import notebooks, paths

from .conftest import PATIENCE

NAME = "00_start"


def test_the_start_notebook_is_a_map_of_the_others(lab, chromium):
    shutil.copy(paths.NOTEBOOKS / f"{NAME}.ipynb", lab.folder)
    page = chromium.new_page(viewport={"width": 1280, "height": 800})
    page.set_default_timeout(PATIENCE * 1000)
    try:
        page.goto(f"{lab.address}/lab/tree/{NAME}.ipynb?token={lab.token}")  # as `run.py lab` does
        table = page.locator(".jp-MarkdownOutput table")
        table.wait_for()
        heads = table.locator("th").all_inner_texts()
        assert heads == ["number", "question", "what it shows"]
        links = [link.inner_text() for link in table.locator("a").all()]
        assert links == [name.split("_")[0] for name in notebooks.names() if name != NAME]
        assert page.get_by_role("heading", name="Start here").is_visible()
        page.screenshot(path=lab.folder / "start_1280.png")
        page.set_viewport_size({"width": 900, "height": 800})
        page.screenshot(path=lab.folder / "start_900.png")
    finally:
        page.close()
