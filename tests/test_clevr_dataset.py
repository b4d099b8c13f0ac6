"""Shards: deterministic, resumable, verified; and a folder is one setting."""

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
from numba import cuda

from lcs_utils import paths
from lcs_utils.clevr import blender, card, dataset
from lcs_utils.clevr.annotations import trace, visible_pixels
from lcs_utils.clevr.dataset import INDEX_STRIDE, MANIFEST, default_folder, generate, main, verify
from lcs_utils.clevr.loading import load
from lcs_utils.clevr.render import object_ids, render
from lcs_utils.clevr.scene_json import read_scenes
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
    for scene, line in zip(scenes, lines, strict=True):  # of this image's 16 x 16 pixels
        ids = object_ids(scene, 16)
        assert [o["visible_pixels"] for o in line["objects"]] == [int((ids == k).sum()) for k in range(2)]
        assert (line["camera"]["width"], line["camera"]["height"]) == (16, 16)


def test_extras_on_request_and_in_any_crop(folder, tmp_path):
    settings = {**SETTINGS, "counts": (2,), "per_count": 4, "crop": "squash", "extras": ["boxes", "masks", "depth"]}
    generate(tmp_path / "more", **settings)
    data, plain = load(tmp_path / "more"), load(folder)
    assert set(plain) == {"images", "locations", "colors", "n_objects"}  # nothing unasked for
    assert set(data) == set(plain) | {"masks", "depth", "boxes"}
    for i in range(4):
        scene = sample_scene(3, 2 * INDEX_STRIDE + i, 2, crop="squash")
        seen = trace(scene, 16, 16)
        assert np.array_equal(data["masks"][i], seen.ids) and np.allclose(data["depth"][i], seen.depth, rtol=1e-6)
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
    made = sorted(path.name for path in split.glob("*.npz"))
    assert made == sorted(path.name for path in folder.glob("*.npz"))
    with pytest.raises(FileNotFoundError, match="missing; run the command"):
        verify(split)  # the call without parts records the checksums
    kept = {name: (split / name).stat().st_mtime_ns for name in made}
    assert generate(split, **SETTINGS) == json.loads((folder / MANIFEST).read_text())
    assert {name: (split / name).stat().st_mtime_ns for name in made} == kept
    for part in ((0, 2), (3, 2)):
        with pytest.raises(ValueError, match="a part is"):
            generate(split, **SETTINGS, part=part)
    with pytest.raises(ValueError, match="other settings"):
        generate(split, **{**SETTINGS, "seed": 9}, part=(1, 2))


def test_the_card_names_the_command_that_makes_the_folder(folder, tmp_path):
    text = (folder / "README.md").read_text()
    settings = json.loads((folder / MANIFEST).read_text())["settings"]
    assert text == card.card(settings) and text.startswith("---\nlicense: cc-by-4.0\n")
    assert "20 images: 10 for each of the object counts 1, 2." in text and "| `masks` |" not in text
    assert "about 0.9 pixels here" in text and card.visible_threshold(128, "center") == pytest.approx(57, abs=0.2)
    for changes in ({}, {"counts": [1, 2], "margins": False, "crop": "native", "extras": ["depth"]}):
        words = card.command({**settings, **changes}).split()
        main([*words[3:-1], str(tmp_path / f"again{len(changes)}"), "--workers", "1"])
        made = json.loads((tmp_path / f"again{len(changes)}" / MANIFEST).read_text())
        assert made["settings"] == {**settings, **changes}
    assert "| `depth` |" in (tmp_path / "again4" / "README.md").read_text()


def test_same_bytes_for_any_number_of_workers(folder, tmp_path):
    manifest = generate(tmp_path / "two", **SETTINGS, workers=2)
    assert manifest == json.loads((folder / MANIFEST).read_text())
    other = generate(tmp_path / "other", **{**SETTINGS, "seed": 4})
    assert other["shards"] != manifest["shards"]


def test_a_lock_lies_beside_what_it_locks_or_under_runs(tmp_path, monkeypatch):
    with paths.exclusive(tmp_path / "shards"):
        assert (tmp_path / ".shards.lock").exists()
    monkeypatch.setattr(paths, "ROOT", tmp_path)
    monkeypatch.setattr(paths, "RUNS", tmp_path / "runs")
    with paths.exclusive(tmp_path / "data" / "counts" / "rows.csv"):
        assert (tmp_path / "runs" / "locks" / "data_counts_rows.csv").exists()


def test_two_runs_at_once_fill_one_folder(folder, tmp_path, monkeypatch):
    monkeypatch.setattr(paths, "RUNS", tmp_path)
    begun, drawn, write = threading.Event(), [], dataset._write_shard
    slow = lambda *job: (begun.set(), time.sleep(0.05), drawn.append(job[2:4]), write(*job))[-1]
    monkeypatch.setattr(dataset, "_write_shard", slow)
    first = threading.Thread(target=lambda: generate(tmp_path / "both", **SETTINGS))
    first.start()
    begun.wait()
    assert generate(tmp_path / "both", **SETTINGS) == json.loads((folder / MANIFEST).read_text())
    first.join()
    assert len(drawn) == len(set(drawn)) == 6 and len(verify(tmp_path / "both")) == 6


def test_resumes_after_a_kill(folder, tmp_path):
    """A kill leaves a temporary file, a shard that the manifest does not know yet, and missing shards."""
    copy = tmp_path / "killed"
    shutil.copytree(folder, copy)
    manifest = json.loads((copy / MANIFEST).read_text())
    known = dict(manifest["shards"])
    del manifest["shards"]["1_objects_00000004.npz"]
    (copy / MANIFEST).write_text(json.dumps(manifest))
    (copy / "2_objects_00000000.npz").unlink()
    (copy / ".2_objects_00000000.tmp1.npz").write_bytes(b"half")
    kept = (copy / "1_objects_00000004.npz").stat().st_mtime_ns
    assert generate(copy, **SETTINGS)["shards"] == known
    assert (copy / "1_objects_00000004.npz").stat().st_mtime_ns == kept
    assert np.array_equal(load(copy)["images"], load(folder)["images"])


def files(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_kill_9_leaves_no_half_gap_or_duplicate(tmp_path):
    """The real thing: two workers, SIGKILL to their parent (they must end with it), and the same command again."""
    arguments = ["--objects", "1-2", "--per-count", "12", "--resolution", "16", "--shard-size", "2", "--antialias", "1"]
    killed, whole = tmp_path / "killed", tmp_path / "whole"
    command = [sys.executable, "-m", "lcs_utils.clevr.dataset", *arguments, "--workers", "2", "--out", str(killed)]
    process = subprocess.Popen(command, cwd=paths.ROOT, stderr=subprocess.PIPE)
    while not list(killed.glob("[0-9]*.npz")):
        assert process.poll() is None
        time.sleep(0.005)
    os.kill(process.pid, signal.SIGKILL)
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
    for name in names:
        os.utime(killed / name, (0, 0))
    generate(killed, counts=(1, 2), per_count=12, resolution=16, shard_size=2, antialias=1, progress=False)
    assert files(killed) == files(whole)  # old leftovers are removed


def test_other_settings_are_refused(folder):
    with pytest.raises(ValueError, match="seed: 3 there, 4 here"):
        generate(folder, **{**SETTINGS, "seed": 4})
    with pytest.raises(SystemExit):
        main(["--objects", "1-2", "--per-count", "10", "--resolution", "24", "--out", str(folder)])


def test_another_back_end_draws_another_folder(folder, tmp_path, monkeypatch, capsys):
    drawn = lambda scenes, resolution, antialias, backend: 255 * (backend != "fast") - render(scenes, resolution, antialias)
    monkeypatch.setattr(dataset, "render", drawn)  # neither a GPU nor Blender: both are tested where they are
    generate(tmp_path / "cuda", **SETTINGS, backend="cuda")
    assert np.array_equal(load(tmp_path / "cuda")["images"], 255 - load(folder)["images"])
    assert "--backend cuda" in (tmp_path / "cuda" / "README.md").read_text()
    with pytest.raises(ValueError, match="backend: 'cuda' there, None here"):
        generate(tmp_path / "cuda", **SETTINGS)
    (tmp_path / "cuda" / MANIFEST).unlink()
    with pytest.raises(ValueError, match="holds other scenes than these settings give"):
        generate(tmp_path / "cuda", **SETTINGS)
    assert "backend" not in json.loads((folder / MANIFEST).read_text())["settings"]  # older folders stay what they are


def test_a_missing_back_end_is_said_before_any_work(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(cuda, "is_available", lambda: False)
    monkeypatch.setenv(blender.PYTHON_VARIABLE, "false")  # a program that is no Python
    for backend, message in (("cuda", "needs an NVIDIA GPU"), ("cycles", "cannot import bpy")):
        with pytest.raises(SystemExit) as stop:
            main(["--objects", "1", "--per-count", "1", "--backend", backend, "--out", str(tmp_path / "none")])
        assert stop.value.code == 2 and message in capsys.readouterr().err
    with pytest.raises(ValueError, match="unknown backend 'gpu'; allowed: fast, cuda, cycles"):
        generate(tmp_path / "none", **SETTINGS, backend="gpu")
    assert not (tmp_path / "none").exists()


def test_a_lost_manifest_mixes_nothing(folder, tmp_path):
    copy = tmp_path / "lost"
    shutil.copytree(folder, copy)
    for changes in ({"seed": 4}, {"resolution": 24}, {"extras": ["masks"]}, {"crop": "squash"}, {"shard_size": 5}):
        (copy / MANIFEST).unlink(missing_ok=True)
        with pytest.raises(ValueError, match="1_objects_00000000.npz holds other scenes than these settings give"):
            generate(copy, **{**SETTINGS, **changes})
    assert generate(copy, **SETTINGS) == json.loads((folder / MANIFEST).read_text())


def test_the_command_line_verifies_and_refuses(folder, capsys, tmp_path, monkeypatch):
    main(["--verify", "--out", str(folder)])
    assert capsys.readouterr().out.startswith("6 shards in")
    main(["--verify", "--out", str(folder), "--objects", "1-2", "--per-count", "10", "--resolution", "16"])
    with pytest.raises(SystemExit):  # whole, but not what was asked for
        main(["--verify", "--out", str(folder), "--objects", "1-6", "--resolution", "16"])
    assert "made with other settings (counts: [1, 2] there, [1, 2, 3, 4, 5, 6] here)" in capsys.readouterr().err
    (tmp_path / "file").touch()
    with pytest.raises(SystemExit):
        main(["--per-count", "1", "--workers", "1", "--out", str(tmp_path / "file")])
    assert "File exists" in capsys.readouterr().err
    monkeypatch.setattr(paths, "RUNS", tmp_path)
    main(["--objects", "1-6", "--per-count", "1", "--resolution", "16", "--workers", "1"])
    with pytest.raises(SystemExit):  # training could not use that folder
        main(["--objects", "1-3", "--per-count", "1", "--resolution", "16", "--crop", "squash", "--workers", "1"])
    assert "crop = squash: not what training asks for in its folder; name another with --out" in capsys.readouterr().err
    assert len(verify(tmp_path / "data" / "clevr16_1-6")) == 6
    assert default_folder(32, range(1, 4)) == tmp_path / "data" / "clevr32"
    for words, message in (
        (["--crop", "round"], "invalid choice: 'round' (choose from"), (["--with", "normals"], "invalid choice: 'normals'"),
        (["--part", "2"], "'2' is not a part like 2/8"), (["--objects", "1-x"], "neither a number, a range like 1-3"),
        (["--objects", "3-1"], "'3-1' is neither a number"),
        (["--objects", "30"], "no placement of 30 objects with margin 0.4"), (["--part", "3/2"], "1 <= i <= n"),
    ):  # fmt: skip
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
        with pytest.raises(ValueError, match="is no manifest: it lacks settings or shards"):
            verify(copy)
    (copy / MANIFEST).unlink()  # lost: what is there is looked at before it is taken up again
    (copy / "1_objects_00000000.npz").write_bytes((folder / "1_objects_00000000.npz").read_bytes()[:-100])
    with pytest.raises(ValueError, match="1_objects_00000000.npz is truncated or altered"):
        generate(copy, **SETTINGS)
    shutil.copy(folder / "1_objects_00000000.npz", copy)
    (copy / "1_objects_00000000.jsonl").write_text("{}\n")
    with pytest.raises(ValueError, match="1_objects_00000000.jsonl does not hold 4 scenes"):
        generate(copy, **SETTINGS)
    with pytest.raises(ValueError, match=r"holds scenes with \[1, 2\] objects, not \[5\]"):
        load(folder, counts=[5])


def test_bad_settings_are_refused_before_any_work(tmp_path):
    for name, value in (("per_count", 0), ("resolution", 3), ("counts", ()), ("seed", -1), ("crop", "none"), ("extras", ("normals",))):
        with pytest.raises(ValueError, match=name):
            generate(tmp_path / "none", **{**SETTINGS, name: value})
    with pytest.raises(ValueError, match="no placement of 40 objects"):
        generate(tmp_path / "none", **{**SETTINGS, "counts": (40,)})
    assert not (tmp_path / "none").exists()
