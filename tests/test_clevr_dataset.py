"""Shards: deterministic, resumable, verified; and a folder is one setting."""

import json
import shutil

import numpy as np
import pytest

from lcs_utils.clevr.dataset import INDEX_STRIDE, MANIFEST, generate, load, main, verify
from lcs_utils.clevr.render import render
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


def test_same_bytes_for_any_number_of_workers(folder, tmp_path):
    manifest = generate(tmp_path / "two", **SETTINGS, workers=2)
    assert manifest == json.loads((folder / MANIFEST).read_text())
    other = generate(tmp_path / "other", **{**SETTINGS, "seed": 4})
    assert other["shards"] != manifest["shards"]


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


def test_other_settings_are_refused(folder):
    with pytest.raises(ValueError, match="seed: 3 there, 4 here"):
        generate(folder, **{**SETTINGS, "seed": 4})
    with pytest.raises(SystemExit):
        main(["--objects", "1-2", "--per-count", "10", "--resolution", "24", "--out", str(folder)])


def test_damage_is_named(folder, tmp_path):
    copy = tmp_path / "damaged"
    shutil.copytree(folder, copy)
    shard = copy / "1_objects_00000000.npz"
    shard.write_bytes(shard.read_bytes()[:-100])
    with pytest.raises(ValueError, match="1_objects_00000000.npz was altered or truncated"):
        load(copy)
    shard.unlink()
    with pytest.raises(FileNotFoundError, match="1_objects_00000000.npz is missing"):
        verify(copy)
    with pytest.raises(FileNotFoundError, match="manifest.json is missing"):
        load(tmp_path)
    with pytest.raises(ValueError, match=r"holds scenes with \[1, 2\] objects, not \[5\]"):
        load(folder, counts=[5])


def test_bad_settings_are_refused_before_any_work(tmp_path):
    for name, value in (("per_count", 0), ("resolution", 3), ("counts", ()), ("seed", -1), ("crop", "none")):
        with pytest.raises(ValueError, match=name):
            generate(tmp_path / "none", **{**SETTINGS, name: value})
    with pytest.raises(ValueError, match="no placement of 40 objects"):
        generate(tmp_path / "none", **{**SETTINGS, "counts": (40,)})
    assert not (tmp_path / "none").exists()
