"""Training a whole table: only what is missing, in order, each net with the command that makes it alone."""

import json
import shutil
import subprocess
import sys
from dataclasses import replace

import pytest
import torch

from lcs_utils import checkpoints, nets, paths, store
from lcs_utils.clevr import conditions, labels
from lcs_utils.evaluation import length_generalization
from lcs_utils.evaluation.colors import color_generalization
from lcs_utils.experiments import (
    COLOR,
    CONTROLS,
    EXP1,
    EXPERIMENTS,
    LOW_NOISE,
    RADIUS,
    RADIUS_SWEEP,
    TABLE_1,
    TABLE_2,
    TWO_CELLS,
)
from lcs_utils.presets import preset
from lcs_utils.training import command, jobs
from lcs_utils.training import run as training
from lcs_utils.training.state import check_made


@pytest.fixture
def trained(tmp_path, monkeypatch):
    """Nets are trained by writing their name; stop[0] stops the training of that net."""
    order, stop = [], [None]

    def run(exp, size, seed, workers, command, snapshots):
        if exp.name == stop[0]:
            raise KeyboardInterrupt
        order.append((exp.name, size.name, size.length(exp), command))
        place = nets.folder(exp.name if seed == 0 else f"{exp.name}_seed{seed}", size.name)
        (place / nets.WEIGHTS).parent.mkdir(parents=True, exist_ok=True)
        (place / nets.WEIGHTS).write_text(exp.name)
        (place / "row.json").write_text(
            json.dumps({"sha256": store.sha256(place / nets.WEIGHTS), "images": size.length(exp)})
        )

    monkeypatch.setattr(paths, "CHECKPOINTS", tmp_path / "data")
    monkeypatch.setattr(paths, "RUNS", tmp_path / "runs")
    monkeypatch.setattr(training, "run", run)
    return order, stop


@pytest.mark.parametrize(
    ("table", "nets"),
    [
        ("table1", TABLE_1),
        ("table2", TABLE_2),
        ("radius", RADIUS_SWEEP),
        ("controls", CONTROLS),
        ("color", COLOR),
    ],
)
def test_a_table_trains_its_nets_in_order_and_goes_on_after_a_stop(trained, table, nets):
    order, stop = trained
    stop[0] = nets[2].name
    with pytest.raises(KeyboardInterrupt):
        command.main([table, "--preset", "tiny", "--images", "640"])
    assert [name for name, *_ in order] == [e.name for e in nets[:2]]
    stop[0] = None
    command.main([table, "--preset", "tiny", "--images", "640"])
    assert [name for name, *_ in order] == [e.name for e in nets]
    assert order[-1][1:] == (
        "tiny",
        640 * nets[-1].times,
        f"python -m lcs_utils.training {nets[-1].name} --preset tiny --images 640",
    )
    command.main([table])
    assert len(order) == len(nets)


def test_other_seeds_are_other_nets_and_a_finished_net_is_trained_again_only_when_told(
    trained, monkeypatch, capsys
):
    order, _ = trained
    command.main(["exp1"])
    command.main(["exp1", "--missing"])
    command.main(["exp1", "--missing", "--seed", "1"])
    command.main(["exp3"])
    assert [(name, images) for name, _, images, _ in order] == [
        ("exp1", 176_000),
        ("exp1", 176_000),
        ("exp3", 800_000),
    ]
    again = []
    monkeypatch.setattr(training, "run", lambda exp, *args, **kwargs: again.append(exp.name))
    with pytest.raises(SystemExit):
        command.main(["exp1", "--images", "640"])
    assert "exp1 is trained, on 176,000 images; --again trains it" in capsys.readouterr().err and again == []
    state = paths.RUNS / "tiny" / "training" / "exp1" / "state.pt"
    state.parent.mkdir(parents=True, exist_ok=True)
    torch.save({"seen": torch.tensor([320.0, 1.0])}, state)
    command.main(["exp1", "--images", "640"])  # stopped on the way: goes on
    torch.save({"seen": torch.tensor([640.0, 1.0])}, state)
    (state.parent / "finished.json").write_text('{"images": 640, "command": "x"}')
    command.main(["exp1", "--images", "640", "--again"])
    assert again == ["exp1", "exp1"] and not state.exists()  # from the start
    torch.save({"seen": torch.tensor([640.0, 1.0])}, state)
    (state.parent / "finished.json").write_text('{"images": 640, "command": "x"}')
    (state.parent / "run.json").write_text('{"experiment": "another"}')  # as of other settings
    command.main(["exp1", "--images", "1280", "--again"])  # longer than the one that finished, and another
    assert again == ["exp1"] * 3 and not any(path.is_file() for path in state.parent.glob("*.*[!k]"))


@pytest.mark.parametrize("words", [["table1", "--again"], ["exp1", "--again", "--missing"]])
def test_again_is_not_taken_for_what_it_does_not_do(trained, words, capsys):
    with pytest.raises(SystemExit):
        command.main(words)
    assert "--again is for one net, and without --missing" in capsys.readouterr().err and not trained[0]


def test_a_net_of_another_recipe_under_a_preset_s_name_is_no_trained_net():
    """Its learning rate edited, a preset's old net was measured as the new one's."""
    medium = preset("medium")
    assert command.is_trained(EXP1, medium) and command.is_trained(EXP1, replace(medium, images=1, at_once=1))
    small_net = medium.net | {"channels": 16}
    for edited in ({"learning_rate": 1.0}, {"batch": 32}, {"sigma_data": 0.5}, {"net": small_net}):
        [name] = edited
        with pytest.raises(ValueError, match=f"exp1 was trained as another experiment .{name}: "):
            command.is_trained(EXP1, replace(medium, **edited))
    assert command.is_trained(EXP1, replace(medium, patch_net=medium.patch_net | {"channels": 16}))
    rows = [nets.row(path.parent.name, path.parts[-3]) for path in paths.CHECKPOINTS.glob("*/*/row.json")]
    told = [row for row in rows if "settings" in row and row["experiment"] in EXPERIMENTS]
    assert len(told) > 20
    for row in told:  # today's presets are those of all shipped nets
        check_made(row, EXPERIMENTS[row["experiment"]], preset(row["preset"]))


def test_an_altered_checkpoint_is_not_trained_over(trained, capsys):
    command.main(["table2"])
    (nets.folder("random_1-2") / nets.WEIGHTS).write_text("altered")
    with pytest.raises(SystemExit):
        command.main(["table2"])
    assert (
        "random_1-2/net/diffusion_pytorch_model.safetensors is truncated or altered"
        in capsys.readouterr().err
    )
    order, _ = trained
    count = len(order)
    command.main(["random_1-2", "--again"])
    assert len(order) == count + 1


@pytest.mark.parametrize(
    ("place", "row", "words"),
    [
        (
            "data/tiny/exp1",
            {},
            r"restore it with `git checkout -- \S*/data/tiny/exp1`, or, with --again, train it with `",
        ),
        (
            "runs/tiny/checkpoints/mine",
            {},
            r"delete \S*/mine and make it again: a net of your own is trained by",
        ),
        ("runs/tiny/checkpoints/exp3", {"command": ""}, "make it again: a net of your own is trained by"),
        ("runs/tiny/checkpoints/exp3", {"command": "do"}, r"delete \S*/exp3 and make it again: .* with `do`"),
    ],
)
def test_an_altered_net_is_told_how_it_is_made_again(tmp_path, monkeypatch, place, row, words):
    monkeypatch.setattr(paths, "CHECKPOINTS", tmp_path / "data")
    monkeypatch.setattr(paths, "RUNS", tmp_path / "runs")
    weights = tmp_path / place / nets.WEIGHTS
    weights.parent.mkdir(parents=True)
    weights.write_text("altered")
    (tmp_path / place / "row.json").write_text(json.dumps(row | {"sha256": "another"}))
    with pytest.raises(nets.CheckpointError, match=words):
        nets.verified_row(weights.parent.parent.name)


def test_a_net_of_which_only_the_row_is_kept_counts_as_missing(trained):
    command.main(["controls"])
    place = nets.folder("background_one")
    for name, text in (("row.json", '{"images": 7, "sha256": "x"}'), ("loss.csv", ""), ("README.md", "")):
        (place / name).write_text(text)
    for other in place.parent.iterdir():
        if other != place:
            shutil.rmtree(other)
    checkpoints.record()
    shutil.rmtree(place)
    assert nets.images_seen("background_one") == 7
    with pytest.raises(nets.CheckpointError, match="no checkpoint 'background_one'.*training background_one"):
        nets.verified_row("background_one")
    command.main(["controls"])
    assert [name for name, *_ in trained[0]] == [e.name for e in CONTROLS] * 2
    new = nets.row("background_one")
    assert (
        "images" not in new or new["images"] != 7
    )  # the net that is here now, not the row that was kept of another
    (place / "row.json").write_text("{")
    assert nets.images_seen("background_one") == 7


def test_a_shipped_net_is_trained_in_its_place_and_others_under_runs(trained):
    weights = paths.CHECKPOINTS / "tiny" / "exp1" / nets.WEIGHTS
    weights.parent.mkdir(parents=True, exist_ok=True)
    weights.write_text("shipped")
    (weights.parents[1] / "row.json").write_text(json.dumps({"sha256": store.sha256(weights), "images": 8}))
    command.main(["exp1", "--again"])
    command.main(["exp2"])
    assert weights.read_text() == "exp1"
    assert (paths.RUNS / "tiny" / "checkpoints" / "exp2" / nets.WEIGHTS).read_text() == "exp2"


def test_the_card_of_every_net_is_the_generators():
    """Up to what `keep` adds; "1 object", but "1-3 objects"."""
    rows = {path: json.loads(path.read_text()) for path in paths.CHECKPOINTS.rglob("row.json")}
    trained = {path.parent: row for path, row in rows.items() if "labels" in row}
    assert len(trained) > 40
    for place, row in trained.items():
        assert (place / "README.md").read_text().startswith(checkpoints.model_card(place.name, row))
    card = checkpoints.model_card("exp3_r1", nets.row("exp3_r1") | {"objects": [1, 1]})
    assert "with r = 1 cell (" in card and "scenes of 1 object, labels" in card
    own = checkpoints.model_card("mine", nets.row("exp1") | {"data": "16 images, hash 0"})
    assert "MIT" in card and "MIT" not in own and "CLEVR" not in own and "names the file that" in own


def test_unknown_names_list_the_allowed(trained, capsys):
    with pytest.raises(SystemExit) as stop:
        command.main(["table3"])
    message = capsys.readouterr().err
    assert stop.value.code == 2 and not trained[0]
    assert (
        "unknown experiment 'table3'; allowed: exp1, exp2" in message
        and "or all nets of a table: table1, table2" in message
    )


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("exp1_seed1", "exp1_seed1 is a net's name; train it with 'exp1 --seed 1'"),
        ("exp1@240000", "train it with 'exp1 --snapshots'"),
        ("exp1/flow", "train it with 'exp1', and 'flow' is a change at sampling, for `measure`"),
        ("exp3_r", "unknown experiment 'exp3_r'; did you mean exp3_r"),
    ],
)
def test_a_name_that_is_nearly_one_is_answered_with_what_is_meant(trained, capsys, name, words):
    with pytest.raises(SystemExit):
        command.main([name])
    assert words in capsys.readouterr().err and not trained[0]


@pytest.mark.parametrize(
    ("words", "status"),
    [(["--help"], 0), (["table3"], 2), (["exp1", "--images", "3"], 2), (["table1", "--again"], 2)],
)
def test_help_and_refusals_do_not_wait_for_torch(words, status):
    program = (
        "import sys; from lcs_utils.training.__main__ import main\n"
        f"try: main({words})\n"
        "except SystemExit as end: print(end.code, {'torch', 'accelerate', 'diffusers'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=paths.ROOT, capture_output=True, text=True)
    assert done.stdout.endswith(f"{status} set()\n"), done.stdout + done.stderr


@pytest.mark.parametrize(
    ("second", "options", "words"),
    [
        ("exp99", [], "unknown experiment 'exp99'"),
        ("exp2/unti", [], "unknown change 'unti'"),
        ("exp3", ["--locations", "1,12"], "exp3 is measured at 1 to 9 locations, got 1, 12"),
        ("exp1_seed7", [], "no checkpoint 'exp1_seed7'"),
    ],
)
def test_all_names_are_looked_at_before_the_first_is_measured(monkeypatch, capsys, second, options, words):
    monkeypatch.setattr(jobs, "measure_net", lambda net, *_: print("measured", net))
    jobs.main(["measure", "exp1", "exp3"])
    assert capsys.readouterr().out == "measured exp1\nmeasured exp3\n"
    with pytest.raises(SystemExit):
        jobs.main(["measure", "exp1", second, *options])
    said = capsys.readouterr()
    assert words in said.err and not said.out


def test_a_mistyped_preset_is_not_taken_for_ones_own(tmp_path, monkeypatch):
    monkeypatch.setattr(paths, "RUNS", tmp_path)
    for wrong, words in (("tny", "did you mean tiny. allowed: tiny, small"), ("big", "allowed: tiny, small")):
        with pytest.raises(
            nets.CheckpointError, match=f"no checkpoint 'exp1': unknown preset '{wrong}'; {words}"
        ):
            nets.verified_row("exp1", wrong)
    with pytest.raises(nets.CheckpointError, match="no checkpoint 'exp2' of preset 'tiny_2000' .* train it"):
        nets.verified_row("exp2", "tiny_2000")
    (tmp_path / "mini" / "checkpoints" / "mine").mkdir(parents=True)
    (tmp_path / "mini" / "checkpoints" / "mine" / "row.json").write_text("{}")
    with pytest.raises(nets.CheckpointError, match="no checkpoint 'yours' of preset 'mini' .there are: mine"):
        nets.verified_row("yours", "mini")


def test_the_tables_are_the_papers():
    others = RADIUS_SWEEP + TWO_CELLS + CONTROLS + COLOR + (LOW_NOISE,)
    assert {e.name for e in TABLE_1 + TABLE_2 + others} == set(EXPERIMENTS)
    assert {(e.labels, e.radius is None) for e in TABLE_1} == {
        ("all", True),
        ("single", True),
        ("single", False),
    }
    assert {e.labels for e in TABLE_2} == {"random", "drop_one"}
    assert [replace(e, name=e.name[:-3], radius=RADIUS) for e in TWO_CELLS] == [
        EXPERIMENTS["exp3_1"],
        EXPERIMENTS["exp3_1-5"],
    ]


def test_the_longer_training_is_that_of_six_objects_on_three_times_the_images():
    longer, six = EXPERIMENTS["exp1_1-6_x3"], EXPERIMENTS["exp1_1-6"]
    assert longer == replace(six, name="exp1_1-6_x3", times=3)
    assert [preset("tiny").length(e) for e in (six, longer)] == [176_000, 528_000]
    with pytest.raises(ValueError, match="longer: times must be at least 1, got 0"):
        replace(six, name="longer", times=0)


def test_the_labeled_share_is_that_of_the_drawn_labels():
    present = torch.arange(3) < torch.arange(1, 4).repeat_interleave(4000)[:, None]
    for policy in labels.LABEL_POLICIES:
        drawn = (
            conditions.choose_labels(present, policy, torch.Generator().manual_seed(0)).sum() / present.sum()
        )
        assert replace(EXPERIMENTS["exp1"], labels=policy).labeled_share == pytest.approx(
            float(drawn), abs=0.01
        )


@pytest.mark.parametrize(
    ("net", "counts"), [("color_1-3", "color"), ("exp1", "length"), ("background_one", None)]
)
def test_nets_along_a_training_are_counted_by_what_they_were_told(net, counts, monkeypatch):
    counted = []
    for kind, module in (("color", color_generalization), ("length", length_generalization)):
        monkeypatch.setattr(module, "measure", lambda name, *_, kind=kind, **__: counted.append((kind, name)))
    monkeypatch.setattr(jobs.net_locality, "measure", lambda *_: None)
    monkeypatch.setattr(jobs, "measure", lambda *_: None)
    monkeypatch.setattr(jobs, "snapshots", lambda *_: [f"{net}@64"])
    jobs.measure_net(net, preset("tiny"))
    assert counted == ([(counts, f"{net}@64")] if counts else [])  # told nothing, it is asked for nothing
