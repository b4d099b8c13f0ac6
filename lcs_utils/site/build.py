"""The web edition: a live article, README, executed notebooks and a page per figure, usable offline.

    python -m lcs_utils.site     write site/, start at site/index.html (run.py site)

Mathematics becomes MathML, which browsers render themselves; no notebook is executed and no page loads
anything from the network. The front page, where nets run in the browser, is `lcs_utils.live`.
"""

import argparse
import base64
import html
import io
import json
import re
import shutil
import sys
import tempfile
from pathlib import Path

from lcs_utils import nets, notebooks, paths, store
from lcs_utils.site.figures import copied, figure_page

SITE = paths.ROOT / "site"
HERE = Path(__file__).parent
STYLE, SCRIPT = HERE / "site.css", HERE / "site.js"
CONFIGURATION = {
    "project": "Local mechanisms of compositional generalization",
    "extensions": ["myst_nb", "lcs_utils.site.build"],
    "html_math_renderer": "mathml",
    "html_theme": "basic",
    "pygments_style": "friendly",
    "html_title": "Local mechanisms, the companion",
    "html_static_path": ["_static"],
    "html_css_files": ["site.css"],
    "html_js_files": ["site.js"],
    "templates_path": [str(HERE / "templates")],
    "html_sidebars": {"**": ["menu.html"]},
    "html_show_search_summary": False,  # it would fetch every page found, which a file system refuses
    "html_copy_source": False,
    "html_show_sourcelink": False,
    "html_show_copyright": False,
    "html_show_sphinx": False,
    "html_domain_indices": False,
    "html_use_index": False,
    "myst_enable_extensions": ["dollarmath"],
    "myst_heading_anchors": 3,
    "nb_execution_mode": "off",
    "language": "en",
}


NO_NETS = "The front page shows stored pictures only"  # the first words of this warning


class SiteError(RuntimeError):
    """A page that cannot be built; the message says why."""


def setup(app) -> dict:
    """Sphinx extension hook: registers a math renderer that writes MathML."""
    from docutils.nodes import SkipNode
    from docutils.utils.math import MathError
    from docutils.utils.math.latex2mathml import tex2mathml

    def write(block):
        def visit(translator, node):
            try:
                drawn = tex2mathml(spelled_out(node.astext()), as_block=block)
            except MathError as error:
                raise SiteError(f"a formula cannot be drawn ({error}): {node.astext()}") from None
            # otherwise as tall as the line
            drawn = re.sub(r"<mo>([{}|‖])</mo>", r'<mo stretchy="false">\1</mo>', drawn)
            drawn = drawn.replace("\N{REVERSE SOLIDUS OPERATOR}", "\N{SET MINUS}")  # few fonts have the first
            tag = "div" if block else "span"
            translator.body.append(f'<{tag} class="math">{drawn}</{tag}>')
            raise SkipNode

        return visit

    app.add_html_math_renderer("mathml", (write(False), None), (write(True), None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def spelled_out(tex: str) -> str:
    """TeX with the extra braces that docutils needs and TeX does not: around the digits of \\frac12 and
    around accented letters.
    """
    tex = re.sub(r"\\frac(\d)(\d)", r"\\frac{\1}{\2}", tex)
    return re.sub(r"\\(dot|hat|bar|tilde) *\{?(?<=[ {])(\w)\}?", r"{\\\1{\2}}{}", tex)


def heading(cell) -> str:
    """The last heading of a markdown cell; "" when it has none."""
    found = re.findall(r"^#+ (.+)$", cell.source, flags=re.M) if cell.cell_type == "markdown" else []
    return found[-1] if found else ""


def executed() -> list[str]:
    """Names of the notebooks whose .ipynb exists."""
    return [name for name in notebooks.names() if (paths.NOTEBOOKS / f"{name}.ipynb").exists()]


def figure_titles(names: list[str]) -> dict[str, str]:
    """{figure: the heading under which its notebook makes it}, with the figure's name where not unique."""
    titles = {}
    for name in names:
        last = ""
        for cell in notebooks.read(name).cells:
            last = heading(cell) or last
            titles |= {figure: last for figure in re.findall(r'save_figure\([^"]*"(\w+)"', cell.source)}
    shared = [title for title in titles.values() if list(titles.values()).count(title) > 1]
    return {figure: f"{title} ({figure})" if title in shared else title for figure, title in titles.items()}


def live_frames(output, place: Path, above: str) -> None:
    """Turn a notebook's slider over stored frames (`widgets.frames`) into one that works on a page.

    The frames are written as `place`0.png, 1, ...; `above` leads from the page to the site's root.
    """
    from lcs_utils.widgets.frames import MIME

    stored = output.get("data", {}).get(MIME)
    if stored is None:
        return
    shown, description = stored["shown"], stored["description"]
    for i, png in enumerate(stored["frames"]):
        place.parent.mkdir(parents=True, exist_ok=True)
        place.with_name(f"{place.name}{i}.png").write_bytes(base64.b64decode(png))
    frames = [f"{above}_static/frames/{place.name}{i}.png" for i in range(len(stored["frames"]))]
    told = json.dumps(stored | {"frames": frames}).replace("</", "<\\/")
    words = html.escape(f"{description}: {stored['labels'][shown]}")
    output.data = {
        "text/html": f'<div class="frames"><img src="{frames[shown]}" alt="{words}">'
        f'<script type="application/json">{told}</script></div>'
    }


def write_sources(folder: Path, names: list[str], figures: list[Path]) -> str | None:
    """Fill `folder` with Sphinx's sources: the live front page, README, notebooks, figures with their pages.

    Returns why the front page has no nets, or None.
    """
    import nbformat

    from lcs_utils.live import page

    missing = page.write(folder)
    titles = figure_titles(names)
    records = {path: json.loads(path.read_text()) for path in figures}
    words = {record["figure"]: record["alt"] for record in records.values() if "alt" in record}
    pages = {"_static/site.css": STYLE.read_text(), "_static/site.js": SCRIPT.read_text()}
    for name in names:
        notebook, last = nbformat.read(paths.NOTEBOOKS / f"{name}.ipynb", as_version=4), name
        for number, cell in enumerate(notebook.cells):
            last = heading(cell) or last
            if cell.cell_type == "code":  # alternative texts of its pictures
                made = re.findall(r'save_figure\([^"]*"(\w+)"', cell.source)
                alt = next((words[figure] for figure in made if figure in words), last.replace("$", ""))
                cell.metadata["mystnb"] = {"image": {"alt": alt}}
                for k, output in enumerate(cell.outputs):
                    live_frames(output, folder / "_static/frames" / f"{name}_{number}_{k}_", "../")
        notebook.metadata.language_info["pygments_lexer"] = "python"
        pages[f"notebooks/{name}.ipynb"] = nbformat.writes(notebook)
    gallery = ["# All figures", "", "Each with its numbers, its command and what it rests on.", ""]
    gallery += ['<div class="gallery">', ""]
    for path in figures:
        record, place = records[path], path.relative_to(paths.FIGURES)
        title = titles.get(path.stem, path.stem)
        pages[f"figures/{place.with_suffix('.md').as_posix()}"] = figure_page(record, title)
        pages[f"figures/{place.as_posix()}"] = path.read_text()
        for file in filter(copied, record["provenance"]["checkpoints"]):  # as bytes: some are compressed
            (folder / file).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(paths.ROOT / file, folder / file)
        picture = place.with_suffix(".png").as_posix()
        (folder / "figures" / place).parent.mkdir(parents=True, exist_ok=True)
        (folder / "figures" / picture).write_bytes(path.with_suffix(".png").read_bytes())
        gallery += [f"[![{title}]({picture}) {title}]({place.with_suffix('.md').as_posix()})", ""]
    places = [path.relative_to(paths.FIGURES).with_suffix("").as_posix() for path in figures]
    pages["figures/index.md"] = "\n".join([*gallery, "</div>", "", toctree("", places)])
    verdicts = sorted(path.relative_to(paths.ROOT) for path in paths.FIGURES.glob("*/verdicts.md"))
    pages |= {path.as_posix(): (paths.ROOT / path).read_text() for path in verdicts}
    notebook_pages = toctree("Notebooks", [f"notebooks/{name}" for name in names])
    about = ("README.md", "CONTRIBUTING.md", "LOG.md")
    pages |= {file: (paths.ROOT / file).read_text() for file in (*about, "data/README.md")}
    figure_pages = toctree(
        "Figures", ["figures/index", *(path.with_suffix("").as_posix() for path in verdicts)]
    )
    front = folder / "index.md"
    data = toctree("Data", ["data/README"])
    pages["index.md"] = "\n".join(
        [front.read_text(), toctree("", [file[:-3] for file in about]), notebook_pages, figure_pages, data]
    )
    for place, content in pages.items():
        store.write_text(folder / place, content)
    return missing


def toctree(caption: str, documents: list[str]) -> str:
    """A hidden table of contents, which fills the navigation."""
    options = [":hidden:", f":caption: {caption}" if caption else ""]
    return "\n".join(["", "```{toctree}", *options, "", *documents, "```", ""])


def check_place(output: Path) -> None:
    """Raise ValueError if the web edition would replace anything but an earlier one or an empty folder."""
    ours = all((output / name).exists() for name in ("searchindex.js", "_static/site.css"))
    if output.exists() and not ours and not (output.is_dir() and not any(output.iterdir())):
        raise ValueError(
            f"{output} holds something that is no web edition, which would be replaced; name a new or an "
            "empty folder"
        )


def build(
    output: Path = SITE, names: list[str] | None = None, figures: list[Path] | None = None
) -> list[str]:
    """Write the pages of notebooks and figures (default: all of preset tiny) to `output`; returns Sphinx's
    warnings, preceded by a line that begins with NO_NETS if the front page has no nets.

    The folder appears whole or not at all, replacing an earlier edition. Raises ValueError if it holds
    anything else, and SiteError when Sphinx cannot read a page.
    """
    check_place(output)
    from sphinx.application import Sphinx
    from sphinx.util.docutils import docutils_namespace

    names = executed() if names is None else names
    figures = sorted((paths.FIGURES / "tiny").glob("*.json")) if figures is None else figures
    warnings = io.StringIO()
    with tempfile.TemporaryDirectory() as scratch, store.atomic_folder(output) as target:
        # Pages are made in scratch, too: MyST-NB leaves a folder beside them.
        source, doctrees, pages = (Path(scratch) / name for name in ("source", "doctrees", "pages"))
        missing = write_sources(source, names, figures)
        with docutils_namespace():
            app = Sphinx(source, None, pages, doctrees, "html", CONFIGURATION, status=None, warning=warnings)
            app.build()
        if app.statuscode:
            raise SiteError(warnings.getvalue() or "Sphinx failed without a word")
        shutil.copytree(pages, target, dirs_exist_ok=True)
    without = [f"{NO_NETS}: {missing}"] if missing else []
    return without + [
        re.sub(r"\x1b\[[0-9;]*m", "", line).replace(scratch + "/", "")
        for line in warnings.getvalue().splitlines()
    ]


def main(arguments: list[str] | None = None) -> int:
    """The command line; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m lcs_utils.site", description=__doc__.split("\n")[0])
    parser.add_argument("--output", type=Path, default=SITE, help="default: site/")
    output = parser.parse_args(arguments).output.absolute()
    try:
        check_place(output)
    except ValueError as error:
        parser.error(str(error))
    try:
        warnings = build(output)
    except (SiteError, ValueError, nets.CheckpointError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    for warning in warnings:
        print(warning, file=sys.stderr)
    print(f"The web edition is written; open {paths.shown(output / 'index.html')}")
    return 0
