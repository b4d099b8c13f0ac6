"""Shards: deterministic, resumable, verified; and a folder is one setting."""

import errno
import importlib
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from numba import cuda
from tqdm.auto import tqdm

from lcs_utils import paths, store
from lcs_utils.clevr import blender, card, dataset, kernels, manifest, shards
from lcs_utils.clevr.annotations import trace, visible_pixels
from lcs_utils.clevr.dataset import (
    INDEX_STRIDE,
    MANIFEST,
    default_folder,
    generate,
    main,
    read_manifest,
    verify,
)
from lcs_utils.clevr.loading import ShardDataset, load
from lcs_utils.clevr.render import object_ids, render
from lcs_utils.clevr.scene_json import read_scenes, scene_to_json
from lcs_utils.clevr.scenes import project, sample_scene

SETTINGS = dict(seed=3, counts=(1, 2), per_count=10, resolution=16, shard_size=4, antialias=1, progress=False)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("shards") / "data"
    generate(path, **SETTINGS)
    return path


def test_arrays_hold_the_scenes(folder):
    data = load(folder)
    assert data["images"].shape == (20, 3, 16, 16) and data["images"].dtype == np.uint8
    assert data["n_objects"].tolist() == [1] * 10 + [2] * 10
    assert np.isnan(data["locations"][:10, 1]).all() and (data["colors"][:10, 1] == -1).all()
    scene = sample_scene(3, 2 * INDEX_STRIDE + 5, 2)
    assert np.allclose(data["locations"][15], project(scene), atol=1e-6)
    assert np.array_equal(data["images"][15].transpose(1, 2, 0), render([scene], 16, 1)[0])
    assert np.array_equal(load(folder, counts=[2])["images"], data["images"][10:])


def test_scene_lines_rebuild_the_images(folder):
    scenes = read_scenes(folder / "2_objects_00000004.jsonl")
    shard = np.load(folder / "2_objects_00000004.npz", allow_pickle=False)
    assert np.array_equal(render(scenes, 16, 1).transpose(0, 3, 1, 2), shard["images"])
    lines = [json.loads(line) for line in (folder / "2_objects_00000004.jsonl").read_text().splitlines()]
    assert [line["seed"] for line in lines] == [3] * 4 and {"camera", "lamps"} <= set(lines[0])
    whole = [ShardDataset(folder, [2]).scene(4 + i) for i in range(4)]
    for scene, line, data in zip(scenes, lines, whole, strict=True):  # of this image's 16 x 16 pixels
        ids = object_ids(scene, 16)
        assert [o["visible_pixels"] for o in data["objects"]] == [int((ids == k).sum()) for k in range(2)]
        assert (line["camera"]["width"], line["camera"]["height"]) == (16, 16)
        assert data == scene_to_json(scene, "new", 16, 16) and not {"directions", "relationships"} & set(line)
        assert len(json.dumps(line)) < 0.6 * len(json.dumps(data))


def test_extras_on_request_and_in_any_crop(folder, tmp_path):
    settings = {
        **SETTINGS,
        "counts": (2,),
        "per_count": 4,
        "crop": "squash",
        "extras": ["boxes", "masks", "depth"],
    }
    generate(tmp_path / "more", **settings)
    data, plain = load(tmp_path / "more"), load(folder)
    assert set(plain) == {"images", "locations", "colors", "n_objects"}  # nothing unasked for
    assert set(data) == set(plain) | {"masks", "depth", "boxes"}
    for i in range(4):
        scene = sample_scene(3, 2 * INDEX_STRIDE + i, 2, crop="squash")
        seen = trace(scene, 16, 16)
        assert np.array_equal(data["masks"][i], seen.ids) and np.allclose(
            data["depth"][i], seen.depth, rtol=1e-6
        )
        assert np.array_equal(data["images"][i].transpose(1, 2, 0), render([scene], 16, 1)[0])
        for k in np.flatnonzero(visible_pixels(seen.ids, 2)):
            x0, y0, x1, y1 = data["boxes"][i, k]
            assert (data["masks"][i, y0:y1, x0:x1] == k).sum() == (data["masks"][i] == k).sum()
    center = [sample_scene(3, 2 * INDEX_STRIDE + i, 2) for i in range(4)]
    assert any(not np.array_equal(object_ids(s, 16), m) for s, m in zip(center, data["masks"], strict=True))
    with pytest.raises(ValueError, match=r"extras: None there, \['masks'\] here"):
        generate(folder, **SETTINGS, extras=["masks"])


def test_parts_fill_one_folder_as_one_run_does(folder, tmp_path):
    split = tmp_path / "parts"
    for i in (3, 1, 2):
        assert generate(split, **SETTINGS, part=(i, 3))["settings"]
    assert files(split) == files(folder) and len(verify(split)) == 6  # the parts left nothing to do
    kept = {path: path.stat().st_mtime_ns for path in split.iterdir()}
    assert generate(split, **SETTINGS) == read_manifest(folder)
    assert {path: path.stat().st_mtime_ns for path in split.iterdir()} == kept
    for part in ((0, 2), (3, 2), (1,)):
        with pytest.raises(ValueError, match="a part is"):
            generate(split, **SETTINGS, part=part)
    for part in (("1", "2"), (1.0, 2.0), 1):
        with pytest.raises(TypeError, match="part must be a (whole number|sequence)"):
            generate(split, **SETTINGS, part=part)
    with pytest.raises(ValueError, match="other settings"):
        generate(split, **{**SETTINGS, "seed": 9}, part=(1, 2))


def test_the_card_names_the_command_that_makes_the_folder(folder, tmp_path):
    text = (folder / "README.md").read_text()
    settings = json.loads((folder / MANIFEST).read_text())["settings"]
    assert text == card.card(settings) and text.startswith("# CLEVR scenes with 1-2 objects at 16 px\n")
    assert "20 images: 10 for each of the object counts 1, 2." in text and "| `masks` |" not in text
    assert "about 0.9 pixels here" in text and card.visible_threshold(128, "center") == pytest.approx(
        57, abs=0.2
    )
    for changes in ({}, {"counts": [1, 2], "margins": False, "crop": "native", "extras": ["depth"]}):
        words = card.command({**settings, **changes}).split()
        main([*words[3:-1], str(tmp_path / f"again{len(changes)}"), "--workers", "1"])
        made = json.loads((tmp_path / f"again{len(changes)}" / MANIFEST).read_text())
        assert made["settings"] == {**settings, **changes}
    assert "| `depth` |" in (tmp_path / "again4" / "README.md").read_text()


@pytest.mark.parametrize(
    "resolution, crop, pixels",
    [(240, "center", 200), (240, "squash", 150), (240, "native", 112.5), ([480, 320], "v1", 450)],
)
def test_the_visible_threshold_scales_with_both_focal_lengths(resolution, crop, pixels):
    assert card.visible_threshold(resolution, crop) == pytest.approx(pixels)


def test_the_card_says_of_crops_and_worlds_only_what_holds(folder):
    settings = read_manifest(folder)["settings"]
    assert "in 1% of scenes" in card.card(settings) and "the central 240x240" in card.card(settings)
    wide = settings | {"crop": "v1", "resolution": [480, 320]}
    assert "squeezed into a square" in card.card(wide | {"resolution": 32})
    said = "the crop v1, with a focal length of 1.094 times its width and 1.641 times its height."
    assert said in card.card(wide) and "square" not in card.card(wide)
    own = settings | {"world": {"camera": [8.2, -4.6, 4.2], "crops": [["center", [1.2, 1.8]]]}}
    assert "in 1% of scenes" not in card.card(own) and "320x240 frame." not in card.card(own)
    assert "the crop center, with a focal length of 1.2 times its width and 1.8 times" in card.card(own)


def test_the_card_says_what_the_circles_do_and_cubes_may_do(folder):
    settings = read_manifest(folder)["settings"]
    assert 2**0.5 * (0.75 + 0.25 * 0.5 ** (1 / 3)) == pytest.approx(1.34, abs=0.002)  # of a rounded corner
    assert "circles of the objects' radii are at least 0.25 apart (a cube's" in card.card(settings)
    assert "cubes may touch or intersect at their corners" in card.card(settings | {"margins": False})


def test_same_bytes_for_any_number_of_workers(folder, tmp_path):
    manifest = generate(tmp_path / "two", **SETTINGS, workers=2)
    assert manifest == read_manifest(folder) and files(tmp_path / "two") == files(folder)
    other = generate(tmp_path / "other", **{**SETTINGS, "seed": 4})
    assert other["shards"] != manifest["shards"]


def test_a_lock_lies_beside_what_it_locks_or_under_runs(tmp_path, monkeypatch, is_held):
    """Who holds it may take it again, also when the inner one is given back; nobody else may."""
    with store.exclusive(tmp_path / "shards"):
        assert (tmp_path / ".shards.lock").exists()
    with store.exclusive(tmp_path / "shards"), store.exclusive(tmp_path / "shards", wait=False):
        assert is_held(tmp_path / "shards")
    assert not is_held(tmp_path / "shards")
    monkeypatch.setattr(paths, "ROOT", tmp_path)
    monkeypatch.setattr(paths, "RUNS", tmp_path / "scratch")  # of a node's own: rows are shared all the same
    with store.exclusive(tmp_path / "data" / "counts" / "rows.csv"):
        assert (tmp_path / "runs" / "locks" / "data_counts_rows.csv").exists()


def test_two_runs_at_once_fill_one_folder(folder, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(paths, "RUNS", tmp_path)
    begun, drawn, write = threading.Event(), [], shards.write

    def slow(*job):
        return (begun.set(), time.sleep(0.05), drawn.append(job[2:4]), write(*job))[-1]

    monkeypatch.setattr(shards, "write", slow)
    first = threading.Thread(target=lambda: generate(tmp_path / "both", **SETTINGS))
    first.start()
    begun.wait()
    assert generate(tmp_path / "both", **SETTINGS) == read_manifest(folder)
    first.join()
    assert capsys.readouterr().err.startswith(f"another process fills {tmp_path / 'both'}; waiting")
    assert len(drawn) == len(set(drawn)) == 6 and len(verify(tmp_path / "both")) == 6


def test_resumes_after_a_kill(folder, tmp_path):
    """A kill leaves a temporary file, a shard without checksums yet, and missing shards."""
    copy = tmp_path / "killed"
    shutil.copytree(folder, copy)
    (copy / "1_objects_00000004.json").unlink()
    (copy / "2_objects_00000000.npz").unlink()
    (copy / ".2_objects_00000000.tmp1.npz").write_bytes(b"half")
    kept = (copy / "1_objects_00000000.npz").stat().st_mtime_ns
    assert sorted(read_manifest(copy)["shards"]) == [
        "1_objects_00000000.npz",
        "1_objects_00000008.npz",
        "2_objects_00000004.npz",
        "2_objects_00000008.npz",
    ]
    assert generate(copy, **SETTINGS) == read_manifest(folder)
    assert (copy / "1_objects_00000000.npz").stat().st_mtime_ns == kept
    (copy / ".2_objects_00000000.tmp1.npz").unlink()
    assert files(copy) == files(folder)


def test_a_part_leaves_what_another_part_may_be_writing(tmp_path):
    few = {**SETTINGS, "counts": (0,), "per_count": 1}
    generate(tmp_path / "data", **few)
    left = tmp_path / "data" / ".0_objects_00000000.tmp9.npz"
    left.touch()
    os.utime(left, (0, 0))
    generate(tmp_path / "data", **few, part=(1, 2))
    assert left.exists()
    generate(tmp_path / "data", **few)
    assert not left.exists()


def files(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_kill_9_leaves_no_half_gap_or_duplicate(tmp_path):
    """The real thing: two workers, SIGKILL to their parent (they must end with it), and the same command
    again.
    """
    arguments = [
        "--objects",
        "1-2",
        "--per-count",
        "12",
        "--resolution",
        "16",
        "--shard-size",
        "2",
        "--antialias",
        "1",
    ]
    killed, whole = tmp_path / "killed", tmp_path / "apart" / "whole"  # apart: beside, shards are shared
    command = [
        sys.executable,
        "-m",
        "lcs_utils.clevr.dataset",
        *arguments,
        "--workers",
        "2",
        "--out",
        str(killed),
    ]
    process = subprocess.Popen(command, cwd=paths.ROOT, stderr=subprocess.PIPE)
    while not list(killed.glob("[0-9]*.npz")) and process.poll() is None:
        time.sleep(0.005)
    process.kill()  # on a busy machine it may have finished by now: then there is nothing to kill
    process.communicate(timeout=120)  # ends when no worker holds the pipe any more
    left = [path for path in killed.glob("[0-9]*.npz")]
    assert 0 < len(left) and all(len(np.load(path)["images"]) == 2 for path in left)
    main([*arguments, "--workers", "1", "--out", str(killed)])
    main([*arguments, "--workers", "1", "--out", str(whole)])
    names = files(killed).keys() - files(whole).keys()
    assert all(".tmp" in name for name in names)  # nothing that a reader would take for data
    assert {name: content for name, content in files(killed).items() if name not in names} == files(whole)
    data = load(killed)
    assert len(np.unique(data["locations"][:, 0], axis=0)) == 24  # no scene twice
    young, old = killed / ".1_objects_00000002.tmp7.npz", killed / ".1_objects_00000004.tmp8.json"
    for path in (young, old):
        path.touch()
    for name in names | {old.name}:
        os.utime(killed / name, (0, 0))
    generate(killed, counts=(1, 2), per_count=12, resolution=16, shard_size=2, antialias=1, progress=False)
    assert young.exists()  # it may be of a run at work
    young.unlink()
    assert files(killed) == files(whole)  # old leftovers are removed, from a whole folder too


def test_other_settings_are_refused(folder):
    again = f"{folder} was made .*seed: 3 there, 4 here.; choose another folder, or delete this one"
    with pytest.raises(ValueError, match=again):  # training has no other folder to choose
        generate(folder, **{**SETTINGS, "seed": 4})
    with pytest.raises(SystemExit):
        main(["--objects", "1-2", "--per-count", "10", "--resolution", "24", "--out", str(folder)])


def test_another_back_end_draws_another_folder(folder, tmp_path, monkeypatch, capsys):
    def drawn(scenes, resolution, antialias, backend):
        return 255 * (backend != "fast") - render(scenes, resolution, antialias)

    monkeypatch.setattr(shards, "render", drawn)  # neither a GPU nor Blender: both are tested where they are
    generate(tmp_path / "cuda", **SETTINGS, backend="cuda")
    assert np.array_equal(load(tmp_path / "cuda")["images"], 255 - load(folder)["images"])
    assert "--backend cuda" in (tmp_path / "cuda" / "README.md").read_text()
    with pytest.raises(ValueError, match="backend: 'cuda' there, None here"):
        generate(tmp_path / "cuda", **SETTINGS)
    (tmp_path / "cuda" / MANIFEST).unlink()
    with pytest.raises(ValueError, match="holds other scenes than these settings give"):
        generate(tmp_path / "cuda", **SETTINGS)
    assert "backend" not in read_manifest(folder)["settings"]  # older folders stay what they are


def test_a_missing_back_end_is_said_before_any_work(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(cuda, "is_available", lambda: False)
    monkeypatch.setenv(blender.PYTHON_VARIABLE, "false")  # a program that is no Python
    for backend, message in (("cuda", "needs an NVIDIA GPU"), ("cycles", "cannot import bpy")):
        with pytest.raises(SystemExit) as stop:
            main(
                ["--objects", "1", "--per-count", "1", "--backend", backend, "--out", str(tmp_path / "none")]
            )
        assert stop.value.code == 2 and message in capsys.readouterr().err
    with pytest.raises(ValueError, match="unknown backend 'gpu'; allowed: fast, cuda, cycles"):
        generate(tmp_path / "none", **SETTINGS, backend="gpu")
    assert not (tmp_path / "none").exists()


def test_a_lost_manifest_mixes_nothing(folder, tmp_path):
    copy = tmp_path / "lost"
    shutil.copytree(folder, copy)
    for changes in (
        {"seed": 4},
        {"resolution": 24},
        {"extras": ["masks"]},
        {"crop": "squash"},
        {"shard_size": 5},
    ):
        (copy / MANIFEST).unlink(missing_ok=True)
        with pytest.raises(
            ValueError, match="1_objects_00000000.npz holds other scenes than these settings give"
        ):
            generate(copy, **{**SETTINGS, **changes})
    kept = (copy / "1_objects_00000000.npz").stat().st_mtime_ns
    assert generate(copy, **SETTINGS) == read_manifest(folder) and files(copy) == files(folder)
    assert (copy / "1_objects_00000000.npz").stat().st_mtime_ns == kept  # nothing was rendered again
    (copy / MANIFEST).unlink()
    (copy / "2_objects_00000004.json").unlink()
    with pytest.raises(ValueError, match="2_objects_00000004.npz lies there without manifest.json and"):
        generate(copy, **SETTINGS)


def test_the_command_line_verifies_and_refuses(folder, capsys, tmp_path, monkeypatch):
    main(["--verify", "--out", str(folder)])
    assert capsys.readouterr().out.startswith("6 shards in")
    main(["--verify", "--out", str(folder), "--objects", "1-2", "--per-count", "10", "--resolution", "16"])
    with pytest.raises(SystemExit):  # whole, but not what was asked for
        main(["--verify", "--out", str(folder), "--objects", "1-6", "--resolution", "16"])
    assert (
        "made with other settings (counts: [1, 2] there, [1, 2, 3, 4, 5, 6] here)" in capsys.readouterr().err
    )
    (tmp_path / "file").touch()
    with pytest.raises(SystemExit):
        main(["--per-count", "1", "--workers", "1", "--out", str(tmp_path / "file")])
    assert "file is a file; choose another folder" in capsys.readouterr().err
    monkeypatch.setattr(paths, "RUNS", tmp_path)
    main(["--objects", "1-6", "--per-count", "1", "--resolution", "16", "--workers", "1"])
    with pytest.raises(SystemExit):  # training could not use that folder
        main(
            [
                "--objects",
                "1-3",
                "--per-count",
                "1",
                "--resolution",
                "16",
                "--crop",
                "squash",
                "--workers",
                "1",
            ]
        )
    assert (
        "crop = squash: not what training asks for in its folder; name another with --out"
        in capsys.readouterr().err
    )
    assert len(verify(tmp_path / "data" / "clevr16_1-6")) == 6
    assert default_folder(32, range(1, 4)) == tmp_path / "data" / "clevr32"
    for words, message in (
        (["--crop", "round"], "unknown crop 'round'; allowed: center, squash, native, v1"),
        (["--objects", "1-1000000000"], "object counts must lie in 0..63, got '1-1000000000'"),
        (["--objects", "13"], "no placement of 13 objects with margin 0.4"),
        (["--resolution", "480x320x3"], "'480x320x3' is neither a side like 64 nor a size like 480x320"),
        (["--seed", "4294967296"], "seed must be in 0..4294967295"),
        (["--with", "normals"], "invalid choice: 'normals'"),
        (["--part", "2"], "'2' is not a part like 2/8"),
        (["--objects", "1-x"], "neither a number, a range like 1-3"),
        (["--objects", "3-1"], "the range 3-1 in '3-1' ends below its start; write 1-3"),
        (["--objects", "3-1,2"], "the range 3-1 in '3-1,2' ends below its start; write 1-3"),
        (["--objects", "30"], "no placement of 30 objects with margin 0.4"),
        (["--part", "3/2"], "1 <= i <= n"),
    ):
        with pytest.raises(SystemExit) as stop:
            main([*words, "--per-count", "1", "--out", str(folder / "none")])
        assert stop.value.code == 2 and message in capsys.readouterr().err
    assert not (folder / "none").exists()


def test_damage_is_named(folder, tmp_path):
    copy = tmp_path / "damaged"
    shutil.copytree(folder, copy)
    shard = copy / "1_objects_00000000.npz"
    shard.write_bytes(shard.read_bytes()[:-100])
    with pytest.raises(ValueError, match="1_objects_00000000.npz was altered or truncated"):
        load(copy)
    shutil.copy(folder / shard.name, shard)
    lines = copy / "2_objects_00000000.jsonl"
    lines.write_text(lines.read_text().replace("rubber", "metal"))
    with pytest.raises(ValueError, match="2_objects_00000000.jsonl was altered"):
        verify(copy)
    shutil.copy(folder / lines.name, lines)
    assert len(verify(copy)) == 6
    shard.unlink()
    with pytest.raises(FileNotFoundError, match="1_objects_00000000.npz is missing"):
        verify(copy)
    with pytest.raises(FileNotFoundError, match="manifest.json is missing"):
        load(tmp_path)
    for content in ("{}", "[]"):
        (copy / MANIFEST).write_text(content)
        with pytest.raises(ValueError, match="is no manifest: it lacks settings"):
            verify(copy)
    with pytest.raises(ValueError, match=r"holds scenes with \[1, 2\] objects, not \[5\]"):
        load(folder, counts=[5])


def test_bad_settings_are_refused_before_any_work(tmp_path):
    for name, value in (
        ("per_count", 0),
        ("resolution", 3),
        ("counts", ()),
        ("seed", -1),
        ("crop", "none"),
        ("extras", ("normals",)),
        ("counts", (64,)),
        ("seed", 2**32),
        ("antialias", 5),
        ("resolution", (480, 320, 3)),
        ("workers", 0),
    ):
        with pytest.raises(ValueError, match=name):
            generate(tmp_path / "none", **{**SETTINGS, name: value})
    for name, value, kind in (
        ("counts", ("1-3",), "a whole number"),
        ("seed", 1.5, "a whole number"),
        ("per_count", True, "a whole number"),
        ("antialias", 3.0, "a whole number"),
        ("counts", 3, "a sequence"),
        ("margins", "no", "True or False"),
        ("world", {}, "a World"),
    ):
        with pytest.raises(TypeError, match=f"{name} must be {kind}"):
            generate(tmp_path / "none", **{**SETTINGS, name: value})
    with pytest.raises(ValueError, match="no placement of 40 objects"):
        generate(tmp_path / "none", **{**SETTINGS, "counts": (40,)})
    assert not (tmp_path / "none").exists()


def test_numbers_of_numpy_are_settings_as_any_other(folder):
    some = {"antialias": np.int64(1), "margins": np.True_, "counts": np.array([1, 2])}
    assert generate(folder, **{**SETTINGS, **some}) == read_manifest(folder)


def test_a_bar_is_hidden_where_the_variable_says_so(tmp_path, monkeypatch):
    monkeypatch.delenv("TQDM_DISABLE", raising=False)
    told = []

    class Bar(tqdm):
        def __init__(self, *arguments, **options):
            told.append(options.get("disable"))
            super().__init__(*arguments, **options)

    for module in (dataset, manifest):
        monkeypatch.setattr(module, "tqdm", Bar)
    few = {**SETTINGS, "counts": (0,), "per_count": 1, "progress": True}
    generate(tmp_path / "shown", **few)
    assert verify(tmp_path / "shown") and told[-2:] == [False, None]
    monkeypatch.setenv("TQDM_DISABLE", "1")
    generate(tmp_path / "hidden", **few)
    assert verify(tmp_path / "hidden") and told[-2:] == [True, True]


def test_verify_tells_sizes_apart(tmp_path, capsys):
    few = {**SETTINGS, "counts": (0,), "per_count": 1}
    generate(tmp_path / "wide", **few | {"resolution": (12, 8)})
    generate(tmp_path / "square", **few)
    main(["--verify", "--out", str(tmp_path / "wide"), "--resolution", "12x8"])
    main(["--verify", "--out", str(tmp_path / "square"), "--resolution", "16x16"])
    with pytest.raises(SystemExit):
        main(["--verify", "--out", str(tmp_path / "wide"), "--resolution", "8x12"])
    assert "resolution: [12, 8] there, [8, 12] here" in capsys.readouterr().err


def test_no_counts_are_refused(folder):
    with pytest.raises(ValueError, match="counts must hold at least 1"):
        load(folder, counts=[])


def test_a_damaged_shard_is_rendered_again(folder, tmp_path):
    """One byte changed, nothing left, no scenes, half a checksum: the rerun sees each and says so."""
    copy = tmp_path / "damaged"
    shutil.copytree(folder, copy)
    shard = copy / "2_objects_00000004.npz"
    content = bytearray(shard.read_bytes())
    content[900] ^= 1
    for damaged, file in ((bytes(content), shard), (b"", shard), (b"{}", shard.with_suffix(".jsonl"))):
        file.write_bytes(damaged)
        with pytest.raises(ValueError, match=f"{file.name} was altered or truncated"):
            verify(copy)
        with pytest.warns(UserWarning, match=f"{file.name} was altered.*; it is rendered again"):
            assert generate(copy, **SETTINGS) == read_manifest(folder)
        assert files(copy) == files(folder)
    shard.with_suffix(".json").write_text('{"sha')
    with pytest.raises(FileNotFoundError, match="2_objects_00000004.npz has no checksums beside it"):
        verify(copy)
    generate(copy, **SETTINGS)
    assert files(copy) == files(folder)
    shutil.copy(folder / "2_objects_00000000.json", shard.with_suffix(".json"))  # of another shard
    with pytest.warns(UserWarning, match="altered"):
        generate(copy, **SETTINGS)
    assert files(copy) == files(folder)


def test_scenes_that_two_data_sets_share_are_rendered_once(tmp_path, monkeypatch):
    few = {**SETTINGS, "counts": (1, 2)}
    generate(tmp_path / "few", **few)
    drawn, write = [], shards.write
    monkeypatch.setattr(shards, "write", lambda *job: (drawn.append(job[2]), write(*job))[-1])
    generate(tmp_path / "more", **{**SETTINGS, "counts": (0, 1, 2, 3)})
    assert sorted(set(drawn)) == [0, 3]
    for path in (tmp_path / "few").glob("*_objects_*"):
        assert path.samefile(tmp_path / "more" / path.name)  # no second copy on the disk
    data, few_data = load(tmp_path / "more", [1, 2]), load(tmp_path / "few")
    assert np.array_equal(data["images"], few_data["images"]) and data["locations"].shape[1] == 3
    assert np.array_equal(data["locations"][:, :2], few_data["locations"], equal_nan=True)
    generate(tmp_path / "other", **{**few, "seed": 4})
    assert set(drawn[-6:]) == {1, 2}  # another recipe shares nothing
    broken = tmp_path / "few" / "1_objects_00000000.npz"
    broken.write_bytes(b"")
    drawn.clear()
    generate(tmp_path / "again", **few)
    assert drawn == [1]  # a file and its twin are one: neither was taken for whole


def test_ctrl_c_ends_a_run_at_once_and_keeps_what_is_finished(folder, tmp_path):
    """To the whole group of processes, as a terminal sends it."""
    out = tmp_path / "stopped"
    arguments = ["--objects", "1-2", "--per-count", "4000", "--resolution", "64", "--shard-size", "4"]
    command = [
        sys.executable,
        "-m",
        "lcs_utils.clevr.dataset",
        *arguments,
        "--workers",
        "2",
        "--out",
        str(out),
    ]
    process = subprocess.Popen(
        command,
        cwd=paths.ROOT,
        stderr=subprocess.PIPE,
        start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # tests may run in the background
    )
    while not list(out.glob("[0-9]*.json")):
        assert process.poll() is None
        time.sleep(0.01)
    os.killpg(process.pid, signal.SIGINT)
    _, said = process.communicate(timeout=300)
    assert process.returncode == 130 and said.decode().count("Traceback") == 0
    assert said.decode().endswith("stopped; the same command goes on, finished shards are kept\n")
    manifest = read_manifest(out)
    assert 0 < len(manifest["shards"]) < 200 and not list(out.glob(".*.tmp*"))
    for name, entry in manifest["shards"].items():
        assert shards.damage(out / name, entry) is None


def test_a_disk_that_is_too_small_is_said_before_and_on_the_way(tmp_path, monkeypatch):
    with monkeypatch.context() as small:
        small.setattr(shutil, "disk_usage", lambda path: SimpleNamespace(free=2**29))
        many = {"per_count": 90_000, "shard_size": 2048, "resolution": 4096}
        with pytest.raises(
            ValueError, match=r"none needs [\d,.]+ GiB more, and 0.5 GiB are free on its disk"
        ):
            generate(tmp_path / "none", **SETTINGS | many)
    assert not (tmp_path / "none").exists()

    def full(*arguments, **arrays):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(np, "savez", full)
    with pytest.raises(
        RuntimeError, match=r"1_objects_00000000.npz cannot be written: it needs 0.0 MiB, [\d,.]+ MiB"
    ):
        generate(tmp_path / "full", **SETTINGS)
    assert not list((tmp_path / "full").glob("*.npz"))


def test_a_whole_folder_needs_no_right_to_write(folder, tmp_path, monkeypatch):
    def forbidden(*arguments, **options):
        raise PermissionError(errno.EACCES, "Permission denied", "there/.data.lock")

    monkeypatch.setattr(store, "exclusive", forbidden)
    monkeypatch.setattr(store, "atomic_path", forbidden)
    assert generate(folder, **SETTINGS) == read_manifest(folder) and len(verify(folder)) == 6
    with pytest.raises(
        PermissionError, match="there/.data.lock may not be written; choose a folder of your own"
    ):
        generate(tmp_path / "new", **SETTINGS)


def test_kernels_are_kept_somewhere_where_nothing_may_be_written(tmp_path, monkeypatch):
    monkeypatch.setattr(kernels.os, "access", lambda place, mode: str(place).startswith(str(tmp_path)))
    monkeypatch.setenv("NUMBA_CACHE_DIR", "")
    assert kernels.place_of_caches([Path("/"), tmp_path / "cache"]) == tmp_path / "cache"
    assert not os.environ["NUMBA_CACHE_DIR"]
    with pytest.warns(UserWarning, match="neither / nor /proc can be written.*NUMBA_CACHE_DIR"):
        place = kernels.place_of_caches([Path("/"), Path("/proc")])
    assert place.is_dir() and str(place) == os.environ["NUMBA_CACHE_DIR"]
    assert kernels.place_of_caches([tmp_path]) == place  # where children of this process look, too


def test_an_edit_of_any_file_takes_another_cache_of_kernels(tmp_path):
    """numba alone looks at a kernel's own file: after an edit of `shading`, `render` drew the old look."""
    code, place = tmp_path / "clevr", tmp_path / "kept"
    shutil.copytree(kernels.HERE, code, ignore=shutil.ignore_patterns("__pycache__"))
    assert kernels.cache_folder(place, code) == kernels.cache_folder(place, kernels.HERE)
    now = kernels.cache_folder(place, code)
    for folder, age in ((now, 0.0), (place / "lcs_kernels_old", 2 * kernels.DAY), (place / "mine", 9e6)):
        folder.mkdir(parents=True)
        os.utime(folder, (time.time() - age,) * 2)
    shading = code / "shading.py"
    shading.write_text(shading.read_text() + "SUN_IRRADIANCE = 4.5\n")
    assert kernels.cache_folder(place, code) != now
    assert {path.name for path in place.iterdir()} == {now.name, "mine"}  # others, and recent ones, stay


def test_every_kernel_is_cached_there():
    files = [path.stem for path in kernels.HERE.glob("*.py") if "@compiled" in path.read_text()]
    found = [
        value
        for module in (importlib.import_module(f"lcs_utils.clevr.{name}") for name in files)
        for value in vars(module).values()
        if hasattr(value, "py_func") and value.py_func.__module__ == module.__name__
    ]
    assert len(found) > 40
    assert {Path(kernel.stats.cache_path).parent for kernel in found} == {kernels.CACHE}
    assert not [path for path in kernels.HERE.glob("*.py") if "@njit" in path.read_text()]
