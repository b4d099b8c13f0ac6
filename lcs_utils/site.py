"""The web edition: README, executed notebooks and one page per figure as static pages that need no network.

    python -m lcs_utils.site     write site/, start at site/index.html (run.py site)

Mathematics becomes MathML, which browsers draw themselves; nothing is executed and nothing is loaded from elsewhere.
"""

import argparse
import io
import json
import re
import sys
import tempfile
from pathlib import Path

from lcs_utils import notebooks, paths

SITE = paths.ROOT / "site"
STYLE = Path(__file__).with_suffix(".css")
CONFIGURATION = {
    "project": "Local mechanisms of compositional generalization",
    "extensions": ["myst_nb", "lcs_utils.site"],
    "html_math_renderer": "mathml",
    "html_theme": "basic",
    "pygments_style": "friendly",
    "html_title": "Local mechanisms, the companion",
    "html_static_path": ["_static"],
    "html_css_files": ["site.css"],
    "html_sidebars": {"**": ["globaltoc.html", "searchbox.html"]},
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


class SiteError(RuntimeError):
    """What is wrong with a page, as Sphinx says it."""


def setup(app) -> dict:
    """Sphinx's hook: a math renderer that writes MathML."""
    from docutils.nodes import SkipNode
    from docutils.utils.math import MathError
    from docutils.utils.math.latex2mathml import tex2mathml

    def write(block):
        def visit(translator, node):
            try:
                drawn = tex2mathml(spelled_out(node.astext()), as_block=block)
            except MathError as error:
                raise SiteError(f"a formula cannot be drawn ({error}): {node.astext()}") from None
            drawn = re.sub(r"<mo>([{}|‖])</mo>", r'<mo stretchy="false">\1</mo>', drawn)  # else as tall as the line
            drawn = drawn.replace("\N{REVERSE SOLIDUS OPERATOR}", "\N{SET MINUS}")  # few fonts have the first
            tag = "div" if block else "span"
            translator.body.append(f'<{tag} class="math">{drawn}</{tag}>')
            raise SkipNode

        return visit

    app.add_html_math_renderer("mathml", (write(False), None), (write(True), None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def spelled_out(tex: str) -> str:
    """TeX with the braces that docutils needs and TeX does not: around \\frac12's digits and accented letters."""
    tex = re.sub(r"\\frac(\d)(\d)", r"\\frac{\1}{\2}", tex)
    return re.sub(r"\\(dot|hat|bar|tilde) *\{?(?<=[ {])(\w)\}?", r"{\\\1{\2}}{}", tex)


def heading(cell) -> str:
    """The last heading of a markdown cell, without the number of its notebook; "" when it has none."""
    found = re.findall(r"^#+ (.+)$", cell.source, flags=re.M) if cell.cell_type == "markdown" else []
    return found[-1] if found else ""


def executed() -> list[str]:
    """The notebooks that have been built: their .ipynb is there."""
    return [name for name in notebooks.names() if (paths.NOTEBOOKS / f"{name}.ipynb").exists()]


def figure_titles(names: list[str]) -> dict[str, str]:
    """For each figure the heading in its notebook under which it is made."""
    titles = {}
    for name in names:
        last = ""
        for cell in notebooks.read(name).cells:
            last = heading(cell) or last
            titles |= {figure: last for figure in re.findall(r'save_figure\([^"]*"(\w+)"', cell.source)}
    shared = [title for title in titles.values() if list(titles.values()).count(title) > 1]
    return {figure: f"{title} ({figure})" if title in shared else title for figure, title in titles.items()}


def text(value) -> str:
    """One table entry: numbers with four significant digits, lists with commas, safe inside a Markdown table."""
    if isinstance(value, list):
        return ", ".join(f"({text(item)})" if isinstance(item, list) else text(item) for item in value) or "none"
    return f"{value:.4g}" if isinstance(value, float) else re.sub(r"([|*_<>$`])", r"\\\1", " ".join(str(value).split()))


def table(header: list[str], rows) -> list[str]:
    """A Markdown table as lines, with the empty ones around it."""
    return ["", *("| " + " | ".join(row) + " |" for row in (header, ["---"] * len(header), *rows)), ""]


def numbers(values, name: str = "") -> list[str]:
    """A figure's values as Markdown tables: lists of one length as columns, dicts of single numbers as rows."""
    if not isinstance(values, dict):
        values = {name or "values": values}
    single = lambda row: isinstance(row, dict) and not any(isinstance(cell, (list, dict)) for cell in row.values())
    if values and all(map(single, values.values())):
        keys = {key: None for row in values.values() for key in row}
        keys = sorted(keys, key=int) if all(key.isdigit() for key in keys) else list(keys)
        rows = ([text(row), *(text(cells.get(key, "")) for key in keys)] for row, cells in values.items())
        return [f"**{text(name)}**" if name else "", *table(["", *map(text, keys)], rows)]
    lists = {k: v for k, v in values.items() if isinstance(v, list) and v}
    flat = {k: v for k, v in lists.items() if not any(isinstance(item, (list, dict)) for item in v)}
    lengths = [len(v) for v in flat.values()]
    columns = {k: v for k, v in flat.items() if len(v) > 1 and lengths.count(len(v)) > 1 and len(v) == max(lengths)}
    others = {k: v for k, v in values.items() if k not in columns and not isinstance(v, dict)}
    lines = [f"**{text(name)}**"] if name else []
    if columns:
        lines += table([text(k) for k in columns], zip(*([text(i) for i in v] for v in columns.values())))
    if others:
        lines += table(["", "value"], ([text(k), text(v)] for k, v in others.items()))
    for key, value in values.items():
        if isinstance(value, dict):
            lines += ["", *numbers(value, f"{name} / {key}" if name else key)]
    return lines


def figure_page(record: dict, title: str) -> str:
    """Markdown of one figure: picture, numbers, the command, what it rests on with hashes, package versions."""
    figure, made = record["figure"], record["provenance"]
    files = [[f"`{file}`", f"`{digest}`"] for file, digest in made["checkpoints"].items()]
    notebook = made["notebook"]
    source = f"notebook [{notebook}](../../notebooks/{notebook}.ipynb)" if notebook else "an interactive run"
    lines = [
        f"# {title or figure}", "", f"`{figure}`, preset `{record['preset']}`, from {source}.", "",
        f"![{title}]({figure}.png)", "", "## Numbers", *numbers(record["values"]),
        f"All digits: [{figure}.json](path:{figure}.json)", "", "## Command", "", "```sh", made["command"], "```", "",
        f"Seed {made['seed']}, threads: {made['threads']}. Code: `{made['code_sha256']}`;",
        f"notebook: `{made['notebook_sha256']}`.",
        "", "## Checkpoints and data",
        *(table(["file", "SHA-256"], files) if files else ["", "None: all is computed from the code above.", ""]),
        "## Versions", *table(list(made["versions"]), [list(made["versions"].values())]),
    ]  # fmt: skip
    return "\n".join(lines) + "\n"


def write_sources(folder: Path, names: list[str], figures: list[Path]) -> None:
    """Fill `folder` with what Sphinx reads: README as front page, notebooks, figures with their pages, the style."""
    import nbformat

    titles = figure_titles(names)
    pages = {"_static/site.css": STYLE.read_text()}
    for name in names:
        notebook, last = nbformat.read(paths.NOTEBOOKS / f"{name}.ipynb", as_version=4), name
        for cell in notebook.cells:
            last = heading(cell) or last
            if cell.cell_type == "code":  # the pictures' alternative text
                cell.metadata["mystnb"] = {"image": {"alt": last.replace("$", "")}}
        notebook.metadata.language_info["pygments_lexer"] = "python"
        pages[f"notebooks/{name}.ipynb"] = nbformat.writes(notebook)
    gallery = ["# All figures", "", "Each with its numbers, its command and what it rests on.", ""]
    gallery += ['<div class="gallery">', ""]
    for path in figures:
        record, place = json.loads(path.read_text()), path.relative_to(paths.FIGURES)
        title = titles.get(path.stem, path.stem)
        pages[f"figures/{place.with_suffix('.md').as_posix()}"] = figure_page(record, title)
        pages[f"figures/{place.as_posix()}"] = path.read_text()
        picture = place.with_suffix(".png").as_posix()
        (folder / "figures" / place).parent.mkdir(parents=True, exist_ok=True)
        (folder / "figures" / picture).write_bytes(path.with_suffix(".png").read_bytes())
        gallery += [f"[![{title}]({picture}) {title}]({place.with_suffix('.md').as_posix()})", ""]
    places = [path.relative_to(paths.FIGURES).with_suffix("").as_posix() for path in figures]
    pages["figures/index.md"] = "\n".join([*gallery, "</div>", "", toctree("", places)])
    verdicts = sorted(path.relative_to(paths.ROOT) for path in paths.FIGURES.glob("*/verdicts.md"))
    pages |= {path.as_posix(): (paths.ROOT / path).read_text() for path in verdicts}
    notebook_pages = toctree("Notebooks", [f"notebooks/{name}" for name in names])
    readme = (paths.ROOT / "README.md").read_text()
    figure_pages = toctree("Figures", ["figures/index", *(path.with_suffix("").as_posix() for path in verdicts)])
    pages["index.md"] = "\n".join([readme, notebook_pages, figure_pages])
    for place, content in pages.items():
        paths.write_text(folder / place, content)


def toctree(caption: str, documents: list[str]) -> str:
    """A hidden table of contents, which fills the navigation."""
    options = [":hidden:", f":caption: {caption}" if caption else ""]
    return "\n".join(["", "```{toctree}", *options, "", *documents, "```", ""])


def build(output: Path = SITE, names: list[str] | None = None, figures: list[Path] | None = None) -> list[str]:
    """Write the pages of notebooks and figures (default: all of preset tiny) to `output`; returns Sphinx's warnings.

    The folder appears whole or not at all. Raises SiteError when Sphinx cannot read a page.
    """
    from sphinx.application import Sphinx
    from sphinx.util.docutils import docutils_namespace

    names = executed() if names is None else names
    figures = sorted((paths.FIGURES / "tiny").glob("*.json")) if figures is None else figures
    warnings = io.StringIO()
    with tempfile.TemporaryDirectory() as scratch, paths.atomic_folder(output) as target:
        source, doctrees = Path(scratch) / "source", Path(scratch) / "doctrees"
        write_sources(source, names, figures)
        with docutils_namespace():
            app = Sphinx(source, None, target, doctrees, "html", CONFIGURATION, status=None, warning=warnings)
            app.build()
        if app.statuscode:
            raise SiteError(warnings.getvalue() or "Sphinx failed without a word")
    return [re.sub(r"\x1b\[[0-9;]*m", "", line).replace(scratch + "/", "") for line in warnings.getvalue().splitlines()]


def main(arguments: list[str] | None = None) -> int:
    """The command line; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m lcs_utils.site", description=__doc__.split("\n")[0])
    parser.add_argument("--output", type=Path, default=SITE, help="default: site/")
    output = parser.parse_args(arguments).output.absolute()
    for warning in build(output):
        print(warning, file=sys.stderr)
    shown = output.relative_to(paths.ROOT) if output.is_relative_to(paths.ROOT) else output
    print(f"The web edition is written; open {shown / 'index.html'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
