"""The live page without a browser: its noise, its graphs, what it says and does when something is missing."""

import base64
import gzip
import re
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from scipy import stats

from lcs_utils import checkpoints, locality, nets
from lcs_utils.evaluation.locality import net_locality
from lcs_utils.evaluation.locality.locality_rates import chance_locality
from lcs_utils.evaluation.rows import read_rows, rows_path
from lcs_utils.live import export, page, runtime, stored, words
from lcs_utils.live import nets as live_nets
from lcs_utils.live.nets import NETS
from lcs_utils.live.noise import normal
from lcs_utils.widgets.drawing import CONDITION_COLORS


def test_noise_is_standard_normal_and_follows_its_seed():
    drawn = normal(3, 100_000).numpy()
    assert stats.kstest(drawn, "norm").pvalue > 0.01 and stats.kstest(drawn * 1.02, "norm").pvalue < 0.01
    assert abs(np.corrcoef(drawn[:-1], drawn[1:])[0, 1]) < 0.01
    assert abs(np.corrcoef(drawn, normal(4, 100_000).numpy())[0, 1]) < 0.01
    assert torch.equal(normal(3, 2, 5).flatten(), normal(3, 10))
    with pytest.raises(ValueError, match=r"seed must be in 0..2147483647, got -1"):
        normal(-1, 3)
    with pytest.raises(TypeError, match=r"seed must be a whole number, got 1.5"):
        normal(1.5, 3)
    with pytest.raises(ValueError, match="each length of shape must be >= 0, got -3"):
        normal(1, 2, -3)


@pytest.mark.parametrize("place", [0, 2], ids=["whole", "patches"])
def test_a_graph_computes_what_the_net_computes_and_keeps_its_weights_small(place):
    net = NETS[place]
    inputs = [normal(k, *shape.shape) for k, shape in enumerate(export.denoiser(load(net)).example)]
    inputs[1] = inputs[1].abs() + 0.1
    if place:
        inputs[3] = torch.ones_like(inputs[3])
    inputs[2] = (inputs[2] > 1.5).float()
    pipeline = load(net)
    pipeline.net.register_to_config(dtype_inside="float32")
    given = {"valid": inputs[3]} if place else {}
    with torch.no_grad():
        expected = export.precondition(pipeline.net, *inputs[:3], pipeline.config.sigma_data, **given)
        graph = export.denoiser(pipeline)
        found = graph(*inputs)
        again = export.precondition(pipeline.net, *inputs[:3], pipeline.config.sigma_data, **given)
    assert (found - expected).abs().max() < 1e-4
    kept = sum(p.numel() * p.element_size() for p in graph.parameters())
    assert kept < 2.1 * sum(p.numel() for p in graph.parameters()), "weights are not in half precision"
    assert torch.equal(again, expected), "the caller's net was changed"
    untouched = load(net)
    export.denoiser(untouched)
    assert untouched.net.config == load(net).net.config
    assert {p.dtype for p in untouched.net.parameters()} == {torch.float32}


def load(net):
    return checkpoints.load(net.name, net.preset)


def test_without_node_the_runtime_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setattr(runtime.paths, "RUNS", tmp_path)
    monkeypatch.setattr(runtime.shutil, "which", lambda name: None)
    with pytest.raises(runtime.RuntimeMissing, match="apt install nodejs npm"):
        runtime.archive()


def test_other_bytes_than_the_chosen_version_s_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(runtime.paths, "RUNS", tmp_path)
    kept = tmp_path / "npm" / f"{runtime.PACKAGE}-{runtime.VERSION}.tgz"
    kept.parent.mkdir()
    kept.write_bytes(b"something else")
    with pytest.raises(runtime.RuntimeMissing, match=rf"^{kept} has SHA-512 .*; remove it, build again"):
        runtime.archive()


LOCAL = r"(\d+)% in (Exp\. \d) \(alike: (\d+)%"  # what the sentence of locality says of a net
TOLD = {
    "start": {"counts": {net.key: 3 for net in NETS}},
    "scene": {"sigmas": [1.0, 2.0]},
    "counter": "0" * 12,
}


def test_without_a_runtime_the_page_is_written_with_pictures(tmp_path, monkeypatch):
    def missing():
        raise runtime.RuntimeMissing("Node is missing")

    monkeypatch.setattr(page.runtime, "load", missing)
    monkeypatch.setattr(page, "known", lambda: (TOLD | {}, {net.key: b"PNG" for net in NETS}))
    assert page.write(tmp_path) == "Node is missing"
    live = tmp_path / page.PLACE
    assert '"files": null' in (live / "stored.js").read_text() and not (live / "binary.js").exists()
    text = (tmp_path / "index.md").read_text()
    assert "{{" not in text and all(f"{net.preset}/{net.name}" in text for net in NETS)


def test_a_page_that_would_load_too_much_is_refused_before_it_is_written(tmp_path, monkeypatch):
    monkeypatch.setattr(page.runtime, "load", lambda: runtime.Runtime(b"script", b"binary", "license"))
    monkeypatch.setattr(page, "known", lambda: (TOLD | {}, {}))
    monkeypatch.setattr(page, "graphs", dict)
    assert page.write(tmp_path / "small") is None and (tmp_path / "small" / page.PLACE / "script.js").exists()
    monkeypatch.setattr(page, "LARGEST_LOAD", 10)
    with pytest.raises(ValueError, match="at most 0 are allowed"):
        page.write(tmp_path / "large")
    assert not (tmp_path / "large").exists()


def test_nets_of_two_sizes_are_refused_before_any_work(tmp_path, monkeypatch):
    sizes = iter([32, 64, 32] * 2)
    monkeypatch.setattr(page, "kept", lambda: tmp_path)
    monkeypatch.setattr(live_nets.nets, "verified_row", lambda *_: {"resolution": next(sizes)})
    for module, start in ((page.checkpoints, page.graphs), (stored.checkpoints, stored.compute)):
        monkeypatch.setattr(module, "load", None)
        with pytest.raises(ValueError, match=r"images of one size, got \[32, 64\] px"):
            start()
    assert not list(tmp_path.iterdir())


def test_the_page_has_the_notebooks_colors_one_for_each_object(monkeypatch):
    counter = SimpleNamespace(from_pretrained=lambda: lambda image: SimpleNamespace(count=[3]))
    monkeypatch.setattr(stored, "ObjectCounter", counter)
    monkeypatch.setattr(
        stored, "pipeline_of", lambda net: SimpleNamespace(config=SimpleNamespace(radius=None))
    )
    monkeypatch.setattr(stored, "drawn", lambda *_: torch.zeros(3, 32, 32))
    monkeypatch.setattr(stored, "looked", lambda *_: {})
    told, pictures = stored.compute()
    found = [tuple(bytes.fromhex(color[1:])) for color in told["colors"]]
    assert tuple(found) == CONDITION_COLORS[: len(told["scene"]["targets"])] and len(pictures) == len(NETS)
    assert "colors = known.colors" in (page.HERE / "page.js").read_text()


def test_damaged_rows_of_locality_are_no_missing_ones(monkeypatch):
    monkeypatch.setattr(words.net_locality, "read", lambda preset: [])
    assert words.local() == ""

    def damaged(preset):
        raise ValueError("locality.csv.bz2 holds a line that is no row")

    monkeypatch.setattr(words.net_locality, "read", damaged)
    with pytest.raises(ValueError, match="holds a line that is no row"):
        words.local()


def test_a_packed_file_comes_back_and_a_template_wants_every_value():
    script = page.packed("net", b"weights")
    name, content = re.fullmatch(r'window.LCS.put\("(\w+)", "(.*)"\);\n', script).groups()
    assert name == "net" and gzip.decompress(base64.b64decode(content)) == b"weights"
    assert page.filled("{{a}} and {{b}}", {"a": 1, "b": "x"}) == "1 and x"
    with pytest.raises(KeyError):
        page.filled("{{a}}", {})


def test_the_page_says_what_the_rows_say(monkeypatch):
    """K of every net in the table; with Exp. 1's pictures emptied the sentence no longer says it composes."""
    table, said = words.counted(), words.verdict()
    for net, found in words.measured().items():
        k = found.k.placed
        assert f"| {net.title} ({found.at[6].samples} samples) |" in table
        assert f"{k.value} [{k.low}, {k.high}] |" in table
    assert said.startswith(
        "Exp. 1 goes beyond the 3 objects of training, Exp. 2 does not, few samples of Exp. 3"
    )
    rows = read_rows(rows_path("tiny"))

    def shown_with(rows):
        words.measured.cache_clear()
        monkeypatch.setattr(words, "read_rows", lambda path: rows)
        return words.counted(), words.verdict()

    empty = [row._replace(count=0, placed=0, centers="") if row.net == "exp1" else row for row in rows]
    assert "Exp. 1 and Exp. 2 do not" in shown_with(empty)[1]
    fewer = [row for row in rows if (row.net, row.family, row.k) != ("exp1", "spread", 6)]
    assert shown_with(fewer) == (
        "",
        "The table will stand here when these nets have been counted at random cells.",
    )
    words.measured.cache_clear()


@pytest.mark.parametrize("field", ["weights", "counted_by"])
def test_rows_of_a_net_or_a_counter_since_replaced_are_not_told(monkeypatch, field):
    rows = read_rows(rows_path("tiny"))
    old = [row._replace(**{field: "0" * 12}) if row.net == "exp1" else row for row in rows]
    monkeypatch.setattr(words.against_null, "of_nets", lambda rows, nets, family: len(rows))
    for of, told in ((rows, True), (old, False)):
        words.measured.cache_clear()
        monkeypatch.setattr(words, "read_rows", lambda path, of=of: of)
        assert (words.measured() is not None) == told
    words.measured.cache_clear()


def test_a_net_whose_null_reaches_its_k_is_not_said_to_go_beyond_training(monkeypatch):
    found = words.measured()
    first = found[NETS[0]]
    null = first.k.placed_null._replace(high=first.k.placed.low)  # a tie, beyond the objects of training
    with_null = found | {NETS[0]: first._replace(k=first.k._replace(placed_null=null))}
    monkeypatch.setattr(words, "measured", lambda: with_null)
    assert words.verdict().startswith("Exp. 2 does not, few samples of Exp. 1 and Exp. 3 leave it open")
    below = null._replace(high=null.high - 1)
    with_null[NETS[0]] = first._replace(k=first.k._replace(placed_null=below))
    assert words.verdict().startswith("Exp. 1 goes beyond the 3 objects of training")


def test_the_sentence_of_locality_has_each_net_s_rows_at_its_noise_and_the_null_of_its_window():
    said = {title: (own, null) for own, title, null in re.findall(LOCAL, words.local())}
    assert list(said) == [net.title for net in NETS] and "at noise 10," in words.local()
    for net in NETS:
        weights = net.weights  # hashed anew each time
        rows = [r for r in net_locality.read(net.preset) if (r.net, r.weights) == (net.name, weights)]
        at_10, at_all = [r.within_2 for r in rows if r.sigma == 10], [r.within_2 for r in rows]
        radius = nets.verified_row(net.name, net.preset)["radius"]
        own, null = said[net.title]
        assert len(at_10) == net_locality.IMAGES and own == f"{100 * np.mean(at_10):.0f}"
        assert own != f"{100 * np.mean(at_all):.0f}"  # other noise would be seen
        assert null == f"{100 * chance_locality(radius):.0f}"
    assert said["Exp. 1"][1] == said["Exp. 2"][1] != said["Exp. 3"][1]  # only the third has a window
    assert words.local().count("its window's doing") == 1


def test_what_is_kept_rests_on_the_counter(monkeypatch):
    before = page.kept()
    monkeypatch.setattr(page, "counter_version", lambda: "0" * 12)
    assert page.kept() != before


def test_the_null_of_a_local_net_is_its_window_s():
    assert 1 / stored.K <= chance_locality(None) < chance_locality(3) < chance_locality(2) == 1
    cells, side = stored.cells_of(stored.K), 32
    only_first = torch.zeros(stored.K, side, side)
    only_first[0] = 1
    assert locality.conditional_locality(only_first, cells, 16, 2) < chance_locality(None) + 0.1
