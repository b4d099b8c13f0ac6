"""Counters on Cycles renders: rows grow by whole batches, outlast a failure, belong to weights, and are
compared in pairs.
"""

import json

import pytest

from lcs_utils import paths, store
from lcs_utils.clevr.render import LOOK, render
from lcs_utils.counter import cycles as counter_cycles
from lcs_utils.counter import report as counter_report
from lcs_utils.counter.accuracy import wilson
from lcs_utils.counter.cycles import Compared, accuracy, count_cycles, lines, main, read


@pytest.fixture
def blender(monkeypatch):
    """The fast renderer in Blender's place, two scenes a batch; the list of what it drew, which may hold
    three batches.
    """
    drawn = []

    def draw(scenes, side, **how):
        if len(drawn) == 3:
            raise RuntimeError("Blender failed")
        drawn.append([len(scene.objects) for scene in scenes])
        return render(scenes, side, 1), None

    monkeypatch.setattr(counter_cycles, "BATCH", 2)
    monkeypatch.setattr(counter_cycles, "render_cycles", draw)
    monkeypatch.setattr(counter_cycles, "check_bpy", lambda: ("python", "4.5.15"))
    return drawn


def test_batches_are_counted_at_once_and_never_drawn_twice(blender, tmp_path):
    path = tmp_path / "rows.csv"
    count_cycles(2, (0, 3), path=path)
    first = read(path)
    assert len(first) == 2 * 2 and {row.images for row in first} == {2} and len(blender) == 2
    floor = [row for row in first if row.objects == 0]
    assert all(
        row.exact_both == row.exact_cycles == row.exact_fast == 2
        and row.counted_fast == row.placed_cycles == 0
        for row in floor
    )
    assert all(
        5 <= row.placed_cycles <= 6 and row.colored_fast <= row.placed_fast
        for row in first
        if row.objects == 3
    )
    with pytest.raises(RuntimeError, match="Blender failed"):
        count_cycles(4, (0, 3), path=path)
    assert len(read(path)) == 6 and set(first) < set(read(path))  # what was drawn before it failed is counted
    blender.pop()
    count_cycles(4, (0, 3), path=path)
    assert len(read(path)) == 8 and len(blender) == 3
    before = path.read_bytes()
    count_cycles(4, (0, 3), path=path)  # nothing is missing: nothing is drawn
    assert path.read_bytes() == before


def test_rows_of_other_weights_stay_and_do_not_count(blender, tmp_path):
    path = tmp_path / "rows.csv"
    count_cycles(2, (1,), resolutions=(32,), path=path)
    (mine,) = read(path)
    other = mine._replace(weights="0" * 12, exact_cycles=0, exact_both=0)
    store.write_rows(path, "x", Compared, [other])
    count_cycles(2, (1,), resolutions=(32,), path=path)
    assert sorted(read(path)) == sorted([mine, other]) and len(blender) == 2
    assert accuracy(read(path), "counter_32px", mine.weights, (1,)).cycles.value == mine.exact_cycles / 2
    assert accuracy(read(path), "counter_32px", other.weights, (1,)).cycles.value == 0


def row(objects, batch, cycles, fast, both, weights="a" * 12):
    blank = dict.fromkeys(Compared._fields, 0) | {
        "counter": "counter",
        "weights": weights,
        "look": LOOK,
        "blender": "4.5.15",
    }
    told = {
        "objects": objects,
        "batch": batch,
        "exact_cycles": cycles,
        "exact_fast": fast,
        "exact_both": both,
    }
    return Compared(**blank | told | {"images": 100})


def test_rates_rest_on_whole_batches_and_differences_on_pairs():
    rows = [
        row(0, 0, 100, 100, 100),
        row(1, 0, 90, 94, 89),
        row(0, 1, 10, 10, 10),
    ]  # the second batch lacks one object
    value = accuracy(rows, "counter", "a" * 12, (0, 1))
    assert (
        value.images == 200
        and value.cycles.value == 0.95
        and [value.cycles.low, value.cycles.high] == wilson(190, 200)
    )
    assert (
        value.difference.value == -0.02
        and -0.05 < value.difference.low < -0.03
        and 0 < value.difference.high < 0.01
    )
    apart = accuracy(
        [row(0, 0, 50, 50, 0)], "counter", "a" * 12, (0,)
    ).difference  # right where the other is wrong: a wide interval
    assert apart.value == 0 and apart.high > 0.15
    assert (
        accuracy(rows, "counter", "a" * 12, (0,)).images == 200
        and accuracy(rows, "counter", "a" * 12, (0, 1, 2)) is None
    )
    assert (
        accuracy(rows, "counter", "b" * 12, (0, 1)) is None
        and accuracy([], "counter", "a" * 12, (0,)) is None
    )
    (line,) = lines(rows, {"counter": "a" * 12}, [(0, 1), (0, 1, 2)])
    assert line.startswith("| counter | 0–1 | 200 | 95.0 [91.0, 97.3] | 97.0 [") and line.endswith(
        " | -2.0 [-4.4, 0.4] |"
    )
    (old,) = lines(
        rows, {"counter": "b" * 12}, [(0, 1)]
    )  # the same rows once their counter has been replaced
    assert old == line.replace("| counter |", f"| counter, weights {'a' * 12}, since replaced |")


def test_what_cannot_be_measured_is_refused_before_work(monkeypatch, tmp_path, capsys):
    with pytest.raises(ValueError, match=r"--objects within 0-12; got 100 and \[13\]"):
        count_cycles(100, (13,), path=tmp_path / "rows.csv")
    monkeypatch.setenv("LCS_BPY_PYTHON", "no-such-python")
    with pytest.raises(RuntimeError, match="no-such-python cannot be run.*pip install"):
        count_cycles(100, (1,), path=tmp_path / "rows.csv")
    assert not (tmp_path / "rows.csv").exists()
    monkeypatch.setattr(counter_cycles, "read", lambda path=None: [])
    with pytest.raises(SystemExit, match="1"):
        main(["--objects", "1"])
    assert capsys.readouterr().err.startswith("error: no-such-python cannot be run")
    with pytest.raises(SystemExit, match="2"):
        main(["--threads", "0"])
    assert "--threads must be >= 1, got 0" in capsys.readouterr().err


def test_the_report_by_count_draws_what_is_stored():
    name, digits = "counter_64px", counter_cycles.shipped((64,))["counter_64px"]
    stored = json.loads((paths.CHECKPOINTS / "counter" / "row.json").read_text())["sizes"]["64"]
    mine = [
        row(2, 0, 90, 95, 90, digits)._replace(counter=name),
        row(3, 0, 80, 80, 80)._replace(counter=name),
    ]
    figure, found = counter_report.plot(mine, (64,))
    kinds = found[64]
    assert list(kinds[counter_report.CYCLES]) == [2]  # the row of other weights is not this counter's
    assert kinds[counter_report.CYCLES][2].value == 0.9 and kinds[counter_report.TWINS][2].value == 0.95
    for kind in ("clevr", "crowded", "layout"):
        assert [of.value for of in kinds[kind].values()] == stored[kind]["by_count"]["exact"]
        assert [[of.low, of.high] for of in kinds[kind].values()] == stored[kind]["interval"]
    assert [text.get_text() for text in figure.legends[0].get_texts()] == [
        counter_report.WORDS.get(kind, kind) for kind in kinds
    ]
    assert counter_report.CYCLES not in counter_report.by_count([], 64)


def test_stored_rows_of_replaced_counters_are_reported_as_theirs():
    """Scenes that Cycles drew cannot be counted again without Blender: the rows name the counter that saw
    them.
    """
    rows, shipped = read(), counter_cycles.shipped()
    told = lines(rows, shipped)
    replaced = {row.weights for row in rows} - set(shipped.values())
    assert replaced
    for weights in replaced:
        assert len([line for line in told if f"weights {weights}, since replaced" in line]) == 3
