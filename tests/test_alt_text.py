"""Figures are shown with words: their own or given ones, as metadata, in JupyterLab also as an HTML image."""

import io

import nbformat.v4 as v4
import pytest
from IPython.core.formatters import DisplayFormatter
from matplotlib.figure import Figure
from PIL import Image

from lcs_utils import alt_text, notebook_outputs

DOT = (  # a PNG of one pixel
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABAQMAAAAl21bKAAAAA1BMVEUAAACnej3aAAAACXBIWXMAAA9hAAAPYQGoP6"
    "dpAAAACklEQVR42mNgAAAAAgAB5Sfe/AAAAABJRU5ErkJggg=="
)


@pytest.fixture
def figure():
    figure = Figure(figsize=(1, 1), dpi=20)
    axes = figure.subplots(1, 2)
    axes[0].plot([1, 2], label="Exp. 1")
    axes[0].set(title="Up", xlabel=r"noise $\sigma$", ylabel="error")
    axes[0].legend()
    axes[1].imshow([[0, 1]])
    axes[1].set(title="Up")
    figure.suptitle("Two\nthings")
    return figure


@pytest.fixture
def shell():
    """The parts of IPython that show figures, with the PNG formatter that the inline backend registers."""

    class Shell:
        display_formatter = DisplayFormatter()

    def png(figure):
        buffer = io.BytesIO()
        figure.savefig(buffer, format="png", dpi="figure")
        return buffer.getvalue()

    Shell.display_formatter.formatters["image/png"].for_type(Figure, png)
    return Shell


def test_a_figure_says_its_titles_axes_and_legend_once(figure):
    assert alt_text.describe(figure) == r"Two things; a picture; Up; error against noise \sigma; Exp. 1"
    assert alt_text.describe(Figure()) == ""


def test_words_go_with_the_picture_and_as_html_only_in_a_session(figure, shell, monkeypatch):
    monkeypatch.delenv("JPY_SESSION_NAME", raising=False)
    assert alt_text.shown(figure, shell)[1]["image/png"]["alt"] == alt_text.describe(figure)
    alt_text.attach(figure, 'it "rises" & falls')
    bundle, metadata = alt_text.shown(figure, shell)
    assert set(bundle) == {"image/png"} and metadata["image/png"]["alt"] == 'it "rises" & falls'
    assert Image.open(io.BytesIO(bundle["image/png"])).size == (20, 20)
    monkeypatch.setenv("JPY_SESSION_NAME", "some/notebook.ipynb")
    bundle, _ = alt_text.shown(figure, shell)
    assert bundle["text/html"].startswith(
        '<img alt="it &quot;rises&quot; &amp; falls" src="data:image/png;base64,iVBOR'
    )
    assert alt_text.shown(Figure(), shell) == ({}, {})  # no words: as ever


def test_long_words_are_cut(figure, shell, monkeypatch):
    monkeypatch.delenv("JPY_SESSION_NAME", raising=False)
    alt_text.attach(figure, "word " * 1000)
    assert len(alt_text.shown(figure, shell)[1]["image/png"]["alt"]) == alt_text.LONGEST


def test_a_built_notebook_keeps_the_words_and_no_other_metadata():
    known = {"image/png": {"alt": "rises", "width": 3}, "needs_background": "light"}
    shown = v4.new_output("display_data", {"image/png": DOT}, metadata=known)
    executed = v4.new_notebook(cells=[v4.new_code_cell("1", outputs=[shown])])
    cleaned = notebook_outputs.clean(executed, v4.new_notebook(cells=[v4.new_code_cell("1")]))
    assert cleaned.cells[0].outputs[0].metadata == {"image/png": {"alt": "rises"}}
