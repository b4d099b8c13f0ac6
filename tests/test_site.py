"""The web edition is whole and needs no network: pages, pictures, mathematics, links, and what each figure
rests on.
"""

import base64
import json
import re
from html import unescape
from html.parser import HTMLParser
from urllib.parse import unquote

import nbformat
import numpy as np
import pytest

from lcs_utils import paths, store
from lcs_utils.live import page as front
from lcs_utils.live.nets import NETS
from lcs_utils.nets import CheckpointError
from lcs_utils.site import build as site
from lcs_utils.site import figures as site_figures
from lcs_utils.widgets.frames import MIME, png_bytes

FIGURES = sorted((paths.FIGURES / "tiny").glob("*.json"))


class Page(HTMLParser):
    """What a page loads (scripts, styles, pictures) and where its links lead."""

    def __init__(self, source):
        super().__init__()
        self.loaded, self.links = [], []
        self.feed(source)

    def handle_starttag(self, tag, attributes):
        given = dict(attributes)
        self.loaded += [given[key] for key in ("src", "srcset", "data") if given.get(key)]
        target = given.get("href")
        if target:
            (self.loaded if tag == "link" else self.links).append(target)


def foreign(addresses):
    return [address for address in addresses if re.match(r"(https?:)?//|data:text", address)]


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    folder = tmp_path_factory.mktemp("web") / "site"
    return folder, site.build(folder)


def test_sphinx_finds_nothing_wrong(built):
    assert [warning for warning in built[1] if not warning.startswith(site.NO_NETS)] == []


def test_nothing_is_written_beside_the_pages(built):
    assert list(built[0].parent.iterdir()) == [built[0]]


def test_the_front_page_says_what_it_loads_and_is_a_page_without_scripts(built):
    page = (built[0] / "index.html").read_text()
    if any(warning.startswith(site.NO_NETS) for warning in built[1]):
        pytest.skip(built[1][0])
    loaded = [path for path in (built[0] / "_static/live").glob("*.js") if path.stat().st_size > 20_000]
    assert sum(path.stat().st_size for path in loaded) < 40e6
    assert (
        re.search(r"loads \d+ MB", page) and (built[0] / "_static/live/LICENSE.onnxruntime-web.txt").exists()
    )
    assert page.count("<noscript>") == 2 and all(
        (built[0] / f"_static/live/{n.key}.png").exists() for n in NETS
    )


def test_nothing_is_loaded_from_elsewhere(built):
    pages = list(built[0].rglob("*.html"))
    assert len(pages) >= 2 + len(site.executed()) + len(FIGURES)
    for path in pages:
        assert not foreign(Page(path.read_text()).loaded), path.name
    for path in built[0].rglob("*.css"):
        assert not re.search(r"(url\(|@import)\s*['\"]?(https?:)?//", path.read_text()), path.name


def test_the_check_for_foreign_addresses_can_fail():
    page = Page(
        '<script src="https://example.org/x.js"></script><link href="//example.org/x.css"><img src="a.png">'
    )
    assert len(foreign(page.loaded)) == 2


def test_every_local_link_and_picture_is_there(built):
    for path in built[0].rglob("*.html"):
        page = Page(path.read_text())
        for address in page.loaded + page.links:
            place = unquote(re.split(r"[?#]", address)[0])
            if place and not re.match(r"\w+:", place):
                assert (path.parent / place).exists(), f"{path.name} points to {place}, which is not there"


def test_mathematics_is_drawn(built):
    page = (built[0] / "notebooks" / "01_theory_cpc_is_lcs.html").read_text()
    assert page.count("<math") >= 5 and "\\mid" not in page and "$c_J$" not in page
    assert not list(built[0].rglob("*athjax*"))


@pytest.mark.parametrize("tex, drawn", [(r"-\frac12\nabla", "<mn>1</mn>"), (r"\dot w_{ij}", "<msub>")])
def test_tex_without_braces_is_read_as_tex_reads_it(tex, drawn):
    from docutils.utils.math.latex2mathml import tex2mathml

    assert drawn in tex2mathml(site.spelled_out(tex)) and drawn not in tex2mathml(tex)


@pytest.mark.parametrize("path", FIGURES, ids=lambda path: path.stem)
def test_each_figure_has_a_page_with_all_it_rests_on(built, path):
    record, page = (
        json.loads(path.read_text()),
        (built[0] / "figures" / "tiny" / f"{path.stem}.html").read_text(),
    )
    made = record["provenance"]
    for text in (
        made["command"],
        made["code_sha256"],
        *made["versions"].values(),
        *made["checkpoints"].values(),
    ):
        assert text in unescape(re.sub(r"<[^>]+>", "", page))
    pictures = [address for address in Page(page).loaded if address.endswith(f"{path.stem}.png")]
    shown = built[0] / "figures" / "tiny" / pictures[0]
    assert shown.read_bytes() == path.with_suffix(".png").read_bytes()
    stored = list(built[0].rglob(path.name))
    assert [json.loads(file.read_text()) for file in stored] == [record]


def test_numbers_stand_in_tables():
    values = {"exp1": {"K": [1, 2], "rate": [0.5, 1 / 3], "n": 64}, "note": "a|b"}
    lines = site_figures.numbers(values)
    assert "| 2 | 0.3333 |" in lines and "| n | 64 |" in lines and r"| note | a\|b |" in lines
    assert "| b | 3 |  | 4 |" in site_figures.numbers(
        {"shares": {"a": {"9": 1, "10": 2}, "b": {"2": 3, "10": 4}}}
    )
    assert "| a | none |" in site_figures.numbers({"a": []})
    assert "(1, 2), (3, 4)" in " ".join(site_figures.numbers([[1, 2], [3, 4]]))


def test_a_figure_says_in_words_what_it_shows():
    record = json.loads((paths.FIGURES / "tiny" / "fig_swing_by_diffusion.json").read_text())
    assert f"![{record['alt']}](fig_swing_by_diffusion.png)" in site.figure_page(record, "a heading")
    del record["alt"]
    assert "![a heading](fig_swing_by_diffusion.png)" in site.figure_page(record, "a heading")


def test_two_sliders_of_a_cell_keep_their_own_frames(tmp_path, monkeypatch):
    dots = [png_bytes(np.full((2, 2, 3), 40 * k, np.uint8)) for k in range(4)]
    stored = [
        {
            "description": "d",
            "labels": ["a", "b"],
            "shown": 0,
            "frames": [base64.b64encode(d).decode() for d in of],
        }
        for of in (dots[:2], dots[2:])
    ]
    outputs = [nbformat.v4.new_output("display_data", {MIME: of}) for of in stored]
    cell = nbformat.v4.new_code_cell("two()", outputs=outputs)
    metadata = {"language_info": {"name": "python"}}
    notebook = nbformat.v4.new_notebook(cells=[cell], metadata=metadata)
    nbformat.write(notebook, tmp_path / "two.ipynb")
    monkeypatch.setattr(paths, "NOTEBOOKS", tmp_path)
    monkeypatch.setattr(site, "figure_titles", lambda names: {})
    monkeypatch.setattr(front, "write", lambda folder: store.write_text(folder / "index.md", "# A"))
    site.write_sources(tmp_path / "site", ["two"], [])
    page = (tmp_path / "site" / "notebooks" / "two.ipynb").read_text()
    shown = re.findall(r'<img src=\\"../(_static/frames/[^"\\]*)', page)
    assert [(tmp_path / "site" / place).read_bytes() for place in shown] == [dots[0], dots[2]]


def test_a_page_that_cannot_be_built_is_an_error_in_words(tmp_path, monkeypatch, capsys):
    def fails(output):
        raise site.SiteError("a formula cannot be drawn")

    monkeypatch.setattr(site, "build", fails)
    assert site.main(["--output", str(tmp_path / "none")]) == 1
    assert capsys.readouterr().err == "error: a formula cannot be drawn\n"

    def lacks(output):
        raise CheckpointError("no checkpoint 'exp1'")

    monkeypatch.setattr(site, "build", lacks)
    assert site.main(["--output", str(tmp_path / "none")]) == 1
    assert capsys.readouterr().err == "error: no checkpoint 'exp1'\n"


def test_tables_that_a_figure_rests_on_are_copied_as_they_are(tmp_path, monkeypatch):
    monkeypatch.setattr(front, "write", lambda folder: store.write_text(folder / "index.md", "# A"))
    figure = paths.FIGURES / "tiny" / "locality_above_null.json"
    site.write_sources(tmp_path, [], [figure])
    files = [file for file in json.loads(figure.read_text())["provenance"]["checkpoints"] if ".csv" in file]
    assert any(file.endswith(".csv.bz2") for file in files)
    said = (tmp_path / "figures" / "tiny" / "locality_above_null.md").read_text()
    for file in files:
        assert (tmp_path / file).read_bytes() == (paths.ROOT / file).read_bytes()
        assert f"](path:../../{file})" in said


def test_nothing_but_an_earlier_edition_is_replaced(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(
        site, "write_sources", lambda folder, *_: store.write_text(folder / "index.md", "# A")
    )
    thesis = tmp_path / "mine" / "thesis.tex"
    store.write_text(thesis, "words")
    for place in (tmp_path / "mine", thesis):
        with pytest.raises(ValueError, match="holds something that is no web edition"):
            site.build(place)
        with pytest.raises(SystemExit):
            site.main(["--output", str(place)])
    assert thesis.read_text() == "words" and "no web edition" in capsys.readouterr().err
    earlier = tmp_path / "site"
    for name in ("searchindex.js", "_static/site.css", "old.html"):
        store.write_text(earlier / name, "")
    site.build(earlier)
    assert (earlier / "index.html").exists() and not (earlier / "old.html").exists()


def test_a_formula_that_cannot_be_drawn_is_named(tmp_path, monkeypatch):
    page = "# A\n\n$\\nonsense$\n"
    monkeypatch.setattr(site, "write_sources", lambda folder, *_: store.write_text(folder / "index.md", page))
    with pytest.raises(Exception, match=r"cannot be drawn.*nonsense"):
        site.build(tmp_path / "site")
    assert not (tmp_path / "site").exists()
