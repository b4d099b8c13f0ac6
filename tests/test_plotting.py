"""Figures: pixel values, labels, and PNG and JSON that appear together, whole, and the same each time."""

import io
import json
import os
from collections import namedtuple

import numpy as np
import pytest
import torch
from matplotlib import pyplot as plt
from matplotlib.text import Text

from lcs_utils import alt_text, notebooks, paths, plotting, provenance, store
from lcs_utils.scene_figures import plot_centers


@pytest.fixture
def figure():
    plotting.use_style()
    figure, axes = plt.subplots()
    axes.plot([1, 2, 3])
    yield figure
    plt.close("all")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("LCS_FIGURES", str(tmp_path))
    monkeypatch.setattr(store, "READ", set())  # other tests have read rows
    return tmp_path / "tiny"


def test_pixels_survive_the_trip_to_uint8():
    levels = torch.arange(256, dtype=torch.uint8).reshape(1, 16, 16)
    assert (plotting.to_uint8(levels)[..., 0] == levels[0].numpy()).all()
    assert (plotting.to_uint8(levels.float() / 127.5 - 1)[..., 2] == levels[0].numpy()).all()
    assert plotting.to_uint8(torch.full((3, 2, 2), 7.0)).max() == 255  # clipped, not wrapped
    with pytest.raises(ValueError, match=r"\[2, 4, 4\]"):
        plotting.to_uint8(torch.zeros(2, 4, 4))


def test_a_mark_is_where_its_place_is_drawn():
    image = torch.full((3, 16, 16), -1.0)
    (place,) = plotting.in_pixels([(0.5, 1 / 32)], 16)  # between two columns, in the middle of the first row
    assert place == (7.5, 0.0)
    (axes,) = plotting.image_grid([[image]], marks=[[[place]]]).axes
    assert axes.images[0].get_extent() == [-0.5, 15.5, 15.5, -0.5]
    plt.close("all")


def test_a_grid_draws_every_image_at_its_place():
    images = [[torch.full((3, 4, 4), value) for value in row] for row in ([-1.0, 1.0], [0.2, -0.2])]
    grid = plotting.image_grid(images, ["a", "b"], ["x", "y"], marks=[[[], [(1, 2)]], [[], []]])
    drawn = [axes.images[0].get_array()[0, 0, 0] for axes in grid.axes]
    assert drawn == [0, 255, 153, 102]
    left = [round(axes.get_position().x0, 6) for axes in grid.axes]
    bottom = [round(axes.get_position().y0, 6) for axes in grid.axes]
    assert left[0] == left[2] < left[1] == left[3] and bottom[0] == bottom[1] > bottom[2] == bottom[3]
    assert [len(axes.lines) for axes in grid.axes] == [0, 1, 0, 0]
    ringed = plotting.image_grid(images, marks=[[[], [(1, 2)]], [[], []]], rings=True)
    assert [len(axes.lines) for axes in ringed.axes] == [0, 2, 0, 0]  # black on white
    assert {line.get_markerfacecolor() for line in ringed.axes[1].lines} == {
        "none"
    }  # what is below stays visible
    plt.close("all")
    with pytest.raises(ValueError, match="1 row labels for 2 rows"):
        plotting.image_grid(images, ["a"])


def test_pictures_that_are_no_rows_are_refused():
    """Their channels would be drawn as three gray pictures."""
    for images in (torch.zeros(2, 3, 8, 8), np.zeros((2, 3, 8, 8)), [np.zeros((3, 8, 8))]):
        with pytest.raises(ValueError, match=r"a row of pictures is needed, got one of shape \[3, 8, 8\]"):
            plotting.image_grid(images)
    for images in ([torch.zeros(2, 3, 8, 8)], np.zeros((2, 4, 8, 8)), [[np.zeros((8, 8))] * 3]):
        plt.close(plotting.image_grid(images))


def test_a_cross_stands_where_no_object_was_found_and_captions_stand_below():
    images = [[torch.zeros(3, 4, 4)] * 2] * 2
    marks = [[[(1, 2, True), (3, 3, False)], []], [[], [(0, 0, True)]]]
    words = [["2 drawn", ""], ["", "1 drawn"]]
    plain, grid = (
        plotting.image_grid(images, marks=marks, captions=captions, beside=room)
        for captions, room in ((None, 0.0), (words, 2.0))
    )
    kinds = [[line.get_marker() for line in axes.lines] for axes in grid.axes]
    assert kinds == [["o", "x", "x"], [], [], ["o"]]  # a cross is white on black
    assert [axes.get_xlabel() for axes in grid.axes] == ["2 drawn", "", "", "1 drawn"]
    more = grid.get_size_inches() - plain.get_size_inches()
    assert more[0] == pytest.approx(2.0) and 0.2 < more[1] < 0.5
    sides = [axes.get_position().width * grid.get_size_inches()[0] for axes in grid.axes]
    assert sides == pytest.approx([0.97] * 4)  # pictures keep their size
    plt.close("all")


def test_groups_of_columns_stand_apart_below_their_headings():
    images = [[torch.zeros(3, 4, 4)] * 4]
    grid = plotting.image_grid(images, column_labels=list("abcd"), groups=["left", "right"])
    x = [axes.get_position().x0 for axes in grid.axes]
    within, between, again = (b - a for a, b in zip(x, x[1:]))
    assert abs(within - again) < 1e-9 and between > 1.05 * within
    heads = {text.get_text(): text.get_position()[0] for text in grid.texts}

    def middle(a, b):
        return (grid.axes[a].get_position().x0 + grid.axes[b].get_position().x1) / 2

    assert heads == {
        "left": pytest.approx(middle(0, 1), abs=0.01),
        "right": pytest.approx(middle(2, 3), abs=0.01),
    }
    plt.close("all")
    with pytest.raises(ValueError, match="4 columns cannot be shared evenly by 3 groups"):
        plotting.image_grid(images, groups=["a", "b", "c"])


def test_a_figure_brings_its_numbers_and_what_they_rest_on(figure, folder):
    values = {"K": np.arange(3), "rate": torch.tensor([0.5, 1.0]), "none": None}
    path = plotting.save_figure(figure, "fig01", "tiny", values, 3, checkpoints=["lcs_utils/paths.py"])
    first = path.read_bytes(), path.with_suffix(".json").read_bytes()
    assert b"Software" not in first[0]
    plotting.save_figure(figure, "fig01", "tiny", values, 3, checkpoints=["lcs_utils/paths.py"])
    assert (path.read_bytes(), path.with_suffix(".json").read_bytes()) == first
    record = json.loads(first[1])
    assert record["values"] == {"K": [0, 1, 2], "rate": [0.5, 1.0], "none": None}
    assert (record["figure"], record["preset"], record["provenance"]["seed"]) == ("fig01", "tiny", 3)
    assert record["provenance"]["checkpoints"] == {
        "lcs_utils/paths.py": store.sha256(paths.ROOT / "lcs_utils/paths.py")
    }
    assert record["provenance"]["versions"]["numpy"] == np.__version__
    assert sorted(path.name for path in folder.iterdir()) == ["fig01.json", "fig01.png"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"values": {"a": [1.0, float("nan")]}}, r"values\['a'\]\[1\] is nan"),
        ({"values": np.array([np.inf])}, r"values\[0\] is inf"),
        ({"values": paths.ROOT}, "path"),
        ({"values": {"a": object()}}, "type object"),
        ({"preset": "huge"}, "tiny, small, paper"),
        ({"name": "../fig"}, "a-z"),
        ({"checkpoints": ["data/checkpoints/tiny/none"]}, "does not exist"),
        ({"checkpoints": ["../"]}, "outside the repository"),
    ],
)
def test_nothing_is_written_for_bad_input(figure, folder, change, message):
    given = {"name": "fig01", "preset": "tiny", "values": {"a": 1.0}, "seed": 0} | change
    with pytest.raises((ValueError, FileNotFoundError), match=message):
        plotting.save_figure(figure, **given)
    assert not folder.exists()


def test_a_figure_whose_numbers_stand_is_left_as_it_is(figure, folder, monkeypatch):
    path = plotting.save_figure(figure, "fig01", "tiny", {"a": 1.0}, 0)
    before = path.read_bytes(), path.with_suffix(".json").read_bytes()
    monkeypatch.setattr(provenance, "versions", lambda: {"python": "3.11.99"})
    plotting.save_figure(figure, "fig01", "tiny", {"a": 1.0005}, 0)  # rounding on another machine
    assert (path.read_bytes(), path.with_suffix(".json").read_bytes()) == before
    plotting.save_figure(figure, "fig01", "tiny", {"a": 1.5}, 0)
    assert json.loads(path.with_suffix(".json").read_text())["values"] == {"a": 1.5}


def test_a_figure_names_the_rows_that_were_read_and_stands_until_one_of_them_changes(
    figure, folder, tmp_path, monkeypatch
):
    monkeypatch.setattr(paths, "ROOT", tmp_path)
    monkeypatch.setattr(paths, "DATA", tmp_path / "data")
    kind = namedtuple("kind", "a")
    kind.__annotations__ = {"a": int}
    one, other = tmp_path / "data" / "one.csv.bz2", tmp_path / "data" / "other.csv"
    own = tmp_path / "runs" / "mine.csv"
    for file in (one, other, own):
        store.write_rows(file, "make", kind, [kind(1)])

    def named():
        path = plotting.save_figure(figure, "fig01", "tiny", {"a": 1.0}, 0)
        return json.loads(path.with_suffix(".json").read_text())["provenance"]["checkpoints"]

    assert named() == {}
    (
        store.read_rows(one, kind),
        store.read_rows(own, kind),
        store.read_rows(tmp_path / "data" / "none.csv", kind),
    )
    (folder / "fig01.json").unlink()
    before = named()
    assert before == {"data/one.csv.bz2": store.sha256(one)}
    store.read_rows(other, kind)
    assert named() == before  # a cell that runs again, after the rest of the notebook
    store.write_rows(one, "make", kind, [kind(2)])
    assert named() == {"data/one.csv.bz2": store.sha256(one), "data/other.csv": store.sha256(other)}
    other.unlink()
    with pytest.raises(FileNotFoundError, match="other.csv does not exist"):
        named()


def test_numbers_never_stand_beside_another_picture(figure, folder, monkeypatch):
    """A figure whose drawing was killed between its two files is drawn again by the next run."""
    path, rename, whole = plotting.save_figure(figure, "fig01", "tiny", {"a": 1.0}, 0), os.replace, []

    def killed_at_the_second(source, target):
        if not target.name.startswith("."):  # no temporary file
            whole.append(target)
        if len(whole) == 2:
            raise KeyboardInterrupt
        rename(source, target)

    figure.axes[0].plot([3, 2, 1], lw=9)
    with monkeypatch.context() as at, pytest.raises(KeyboardInterrupt):
        at.setattr(os, "replace", killed_at_the_second)
        plotting.save_figure(figure, "fig01", "tiny", {"a": 2.0}, 0)
    plotting.save_figure(figure, "fig01", "tiny", {"a": 2.0}, 0)
    again = path.read_bytes()
    path.with_suffix(".json").unlink()
    assert plotting.save_figure(figure, "fig01", "tiny", {"a": 2.0}, 0).read_bytes() == again


def test_the_notebook_shows_the_same_picture_whether_or_not_the_figure_stands(folder):
    """A layout moves a little with each drawing: the second run must draw as often as the first."""

    def shown():
        one = plot_centers(torch.rand(16, 16, generator=torch.Generator().manual_seed(0)))
        plotting.save_figure(one, "centers", "tiny", {"a": 1.0}, 0)
        picture = io.BytesIO()
        one.savefig(picture, format="png")
        return picture.getvalue()

    with plt.rc_context():
        plotting.use_style()
        assert shown() == shown()
    plt.close("all")


def test_only_default_parameters_of_a_shipped_preset_touch_what_the_repository_holds(monkeypatch):
    monkeypatch.delenv("LCS_FIGURES", raising=False)
    run = "python -m lcs_utils.notebooks run 07_locality"
    assert plotting.figures_folder("tiny", run) == paths.FIGURES / "tiny"
    assert plotting.figures_folder("small", f"{run} -p preset small") == paths.FIGURES / "small"
    assert plotting.figures_folder("paper", f"{run} -p preset paper") == paths.RUNS / "paper" / "figures"
    assert plotting.figures_folder("tiny", f"{run} -p seed 1") == paths.RUNS / "tiny" / "figures"


@pytest.mark.parametrize("kind", ["png", "svg", "pdf"])
def test_one_argument_writes_a_figure_for_print_beside_the_kept_one(
    figure, folder, tmp_path, monkeypatch, kind
):
    monkeypatch.setattr(paths, "RUNS", tmp_path / "runs")
    kept = plotting.save_figure(figure, "fig01", "tiny", 1.0, 0, alt="a line that rises")
    before = kept.read_bytes()
    monkeypatch.setenv("LCS_PRINT", kind)
    plotting.save_figure(figure, "fig01", "tiny", 1.0, 0, alt="a line that rises")
    printed = tmp_path / "runs" / "tiny" / "print" / f"fig01.{kind}"
    first = printed.read_bytes()
    assert {"png": b"\x89PNG", "svg": b"<?xml", "pdf": b"%PDF"}[kind] == first[: 4 + (kind == "svg")]
    plotting.save_figure(figure, "fig01", "tiny", 1.0, 0, alt="a line that rises")
    assert printed.read_bytes() == first and kept.read_bytes() == before
    if kind == "png":
        small, large = (plt.imread(path).shape for path in (kept, printed))
        assert all(abs(b - 2 * a) <= 2 for a, b in zip(small[:2], large[:2], strict=True))
    else:
        assert b"a line that rises" in first
    monkeypatch.setenv("LCS_PRINT", "jpg")
    with pytest.raises(ValueError, match="LCS_PRINT must be one of png, svg, pdf, got 'jpg'"):
        plotting.save_figure(figure, "fig02", "tiny", 1.0, 0)
    assert not (folder / "fig02.json").exists()


def test_a_figure_says_in_words_what_it_shows(figure, folder):
    path = plotting.save_figure(figure, "fig01", "tiny", 1.0, 0, alt="a line\n  that rises")
    assert json.loads(path.with_suffix(".json").read_text())["alt"] == "a line that rises"
    assert b"a line that rises" in path.read_bytes()
    alt_text.attach(figure, "what its function says")
    path = plotting.save_figure(figure, "fig02", "tiny", 1.0, 0)
    assert json.loads(path.with_suffix(".json").read_text())["alt"] == "what its function says"


def test_a_failure_on_the_way_leaves_the_old_pair(figure, folder, monkeypatch):
    path = plotting.save_figure(figure, "fig01", "tiny", 1.0, 0)
    before = path.read_bytes(), path.with_suffix(".json").read_bytes()
    monkeypatch.setattr(store, "write_json", lambda *_, **__: (_ for _ in ()).throw(OSError("disk full")))
    figure.axes[0].plot([3, 2, 1])
    with pytest.raises(OSError, match="disk full"):
        plotting.save_figure(figure, "fig01", "tiny", 2.0, 0)
    assert (path.read_bytes(), path.with_suffix(".json").read_bytes()) == before
    assert len(list(folder.iterdir())) == 2


def test_code_hashes_follow_imports_only(tmp_path, monkeypatch):
    package = tmp_path / "lcs_utils"
    (package / "deep").mkdir(parents=True)
    sources = {
        "a": "from lcs_utils.deep import b\n",
        "c": "",
        "deep/b": "import lcs_utils.deep.d as d\n",
        "deep/d": "",
    }
    for name, source in (sources | {"__init__": "", "deep/__init__": ""}).items():
        (package / f"{name}.py").write_text(source)
    monkeypatch.setattr(provenance, "CODE", tmp_path)
    files = provenance.imported_files("from lcs_utils import a")
    names = {file.relative_to(package).as_posix() for file in files}
    assert names == {"__init__.py", "a.py", "deep/__init__.py", "deep/b.py", "deep/d.py"}
    before = provenance.digest(files)
    (package / "c.py").write_text("changed = 1\n")
    assert provenance.digest(provenance.imported_files("from lcs_utils import a")) == before
    (package / "deep/d.py").write_text("changed = 1\n")
    assert provenance.digest(provenance.imported_files("from lcs_utils import a")) != before


def test_code_is_the_installed_one_wherever_the_data_lie(tmp_path, monkeypatch):
    files = provenance.imported_files("from lcs_utils import stats")
    before = provenance.digest(files)
    (tmp_path / "lcs_utils").mkdir()
    (tmp_path / "lcs_utils" / "stats.py").write_text("other = 1\n")
    monkeypatch.setattr(paths, "ROOT", tmp_path)  # as LCS_ROOT sets it
    assert provenance.imported_files("from lcs_utils import stats") == files
    assert provenance.digest(files) == before


def test_outside_a_notebook_there_is_no_current_one():
    assert notebooks.current() is None


def test_what_holds_nothing_else_stands_in_one_line(tmp_path):
    value = {"a": {"high": 1.0, "low": 0.5}, "b": [1, 2, [3]], "c": "a [b]\n{c}", "d": []}
    store.write_json(tmp_path / "flat.json", value, flat=True)
    text = (tmp_path / "flat.json").read_text()
    assert json.loads(text) == value and ' "a": { "high": 1.0, "low": 0.5 },' in text.splitlines()
    store.write_json(tmp_path / "tall.json", value)
    assert json.loads((tmp_path / "tall.json").read_text()) == value != text
    assert len(text.splitlines()) < len((tmp_path / "tall.json").read_text().splitlines())


@pytest.mark.parametrize("columns", [2, 9, 14])
def test_text_of_a_grid_prints_above_six_points_on_two_columns(columns):
    row = [np.zeros((3, 8, 8))] * columns
    figure = plotting.image_grid(
        [row], ["a row\nlabel"], [f"K = {k}" for k in range(columns)], "title", captions=[["said"] * columns]
    )
    texts = [text for text in figure.findobj(Text) if text.get_text()]
    width = figure.get_size_inches()[0]
    assert len(texts) == 2 * columns + 2
    assert min(text.get_fontsize() for text in texts) * min(1, 6.75 / width) > 6
    plt.close(figure)
