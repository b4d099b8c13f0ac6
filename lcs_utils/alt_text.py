"""Alternative texts: what a figure shows, in words, for readers who hear a notebook instead of seeing it."""

import base64
import html
import os
import sys
from weakref import WeakKeyDictionary

from matplotlib.figure import Figure

WORDS: WeakKeyDictionary[Figure, str] = WeakKeyDictionary()
LONGEST = 600  # characters: a screen reader reads an alternative text in one go


def describe(figure: Figure) -> str:
    """The figure's own words in reading order, without repeats: name, titles, axis labels, legends."""
    found = [text.get_text() for text in figure.texts]
    pictures = sum(bool(axes.images) and not axes.lines for axes in figure.axes)
    if pictures:
        found.append(f"{pictures} pictures" if pictures > 1 else "a picture")
    for axes in figure.axes:
        x, y = axes.get_xlabel(), axes.get_ylabel()
        found += [axes.get_title(), f"{y} against {x}" if x and y else x or y]
        keys = axes.get_legend().get_texts() if axes.get_legend() else []
        found += [", ".join(key.get_text() for key in keys)]
    found = [" ".join(words.replace("$", "").split()) for words in found]
    words = "; ".join(dict.fromkeys(filter(None, found)))
    name = figure.get_label()  # as it was saved
    return f"Figure {name}: {words}".rstrip(": ") if name else words


def enable() -> None:
    """Show all figures of the running notebook with alternative texts; does nothing outside IPython."""
    shell = sys.modules["IPython"].get_ipython() if "IPython" in sys.modules else None
    if shell is not None:
        shell.display_formatter.mimebundle_formatter.for_type(Figure, lambda figure: shown(figure, shell))


def attach(figure: Figure, words: str) -> None:
    """Set the words that the figure is shown with, in place of its own."""
    WORDS[figure] = words


def given(figure: Figure) -> str:
    """The words attached to the figure, or ""."""
    return WORDS.get(figure, "")


def shown(figure: Figure, shell) -> tuple[dict, dict]:
    """What IPython displays for a figure: its PNG with the words in the metadata, and in JupyterLab also as
    HTML.

    JupyterLab (4.6) reads no alternative text from a picture's metadata; nbconvert and others do. Batch runs,
    and so the repository's notebooks, omit the HTML, which holds the picture a second time.
    """
    words = given(figure) or describe(figure)
    words = words if len(words) <= LONGEST else words[: LONGEST - 1] + "…"
    png = shell.display_formatter.formatters["image/png"](figure) if words else None
    if png is None:  # no words, or no PNGs are wanted: the default display
        return {}, {}
    data, metadata = png if isinstance(png, tuple) else (png, {})
    bundle = {"image/png": data}
    if os.environ.get("JPY_SESSION_NAME"):  # Jupyter's server tells its kernels the notebook's name
        encoded = data if isinstance(data, str) else base64.b64encode(data).decode()
        bundle["text/html"] = (
            f'<img alt="{html.escape(words)}" src="data:image/png;base64,{encoded.strip()}">'
        )
    return bundle, {"image/png": {**metadata, "alt": words}}
