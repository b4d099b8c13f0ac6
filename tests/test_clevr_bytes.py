"""Today's defaults keep their bytes: scenes and pictures against stored hashes, and a folder rendered
before the shards had checksums of their own.
"""

import hashlib
import json
import shutil
from pathlib import Path

import llvmlite.binding
import numpy as np
import pytest

from lcs_utils.clevr.dataset import generate, verify
from lcs_utils.clevr.grid import TEST_LOCATIONS
from lcs_utils.clevr.loading import ShardDataset, load
from lcs_utils.clevr.render import render
from lcs_utils.clevr.scene_json import read_scenes
from lcs_utils.clevr.scenes import sample_scene, scene_at

OLD = Path(__file__).parent / "data" / "old_shards"
SCENES = "74cc20915044ef1e426a114d382cf1b998a4c0522a3667786ed8c125eb24f324"
PICTURES = {  # by resolution and antialias, of a processor with fused multiply-add
    (32, 1): "375f07cda6676f779a419658460447d7b86be4d6bd5ec9aa5216458c93d67568",
    (48, 3): "ebac6a3865c12307bbcc62ea2573de546ddafda6ca0728efb7d5d54e8d877c8a",
}


@pytest.fixture(scope="module")
def scenes():
    some = [sample_scene(7, n * 100_000_000 + i, n) for n in (0, 1, 2, 3, 6, 10) for i in range(4)]
    some += [
        sample_scene(8, i, 5, crop=crop, margins=False, visibility=i > 0, require_centers_inside=i > 1)
        for crop in ("center", "squash", "native", "v1")
        for i in range(3)
    ]
    return some + [scene_at(TEST_LOCATIONS[:k], 9, k) for k in (3, 12)]


def digest(scenes):
    rows = [
        [
            [[o.shape, o.size, o.material, o.color, list(o.coords), o.rotation] for o in s.objects],
            list(s.camera.location),
            s.camera.crop,
            [list(s.lamps.key), list(s.lamps.fill), list(s.lamps.back)],
            s.seed,
            s.index,
        ]
        for s in scenes
    ]
    return hashlib.sha256(json.dumps(rows).encode()).hexdigest()


def test_scenes_keep_their_bytes(scenes):
    assert digest(scenes) == SCENES
    assert digest(scenes[:-1] + [scene_at(TEST_LOCATIONS, 10, 12)]) != SCENES


@pytest.mark.skipif(
    not llvmlite.binding.get_host_cpu_features().get("fma"), reason="other processors round otherwise"
)
def test_pictures_keep_their_bytes(scenes):
    for (resolution, antialias), stored in PICTURES.items():
        assert hashlib.sha256(render(scenes, resolution, antialias).tobytes()).hexdigest() == stored
    assert hashlib.sha256(render(scenes[::-1], 32, 1).tobytes()).hexdigest() != PICTURES[32, 1]


def test_a_folder_of_before_is_read_and_left_alone(tmp_path):
    old = tmp_path / "old"
    shutil.copytree(OLD, old)
    before = {path.name: (path.read_bytes(), path.stat().st_mtime_ns) for path in old.iterdir()}
    settings = dict(counts=(1, 2), per_count=3, resolution=8, shard_size=2, antialias=1, extras=["boxes"])
    assert len(verify(old)) == 4
    manifest = generate(old, **settings, progress=False)
    assert sorted(manifest["shards"]) == sorted(name for name in before if name.endswith(".npz"))
    assert {path.name: (path.read_bytes(), path.stat().st_mtime_ns) for path in old.iterdir()} == before
    data = load(old)
    assert data["locations"].shape == (6, 2, 2) and data["colors"][:3, 1].tolist() == [-1] * 3
    made = [scene for path in sorted(old.glob("*.jsonl")) for scene in read_scenes(path)]
    assert made == [sample_scene(0, n * 100_000_000 + i, n) for n in (1, 2) for i in range(3)]
    again = generate(tmp_path / "new", **settings, progress=False)
    assert again["settings"] == manifest["settings"]
    for name, array in load(tmp_path / "new").items():
        assert np.array_equal(array, data[name], equal_nan=array.dtype.kind == "f")
    assert ShardDataset(old).scene(4) == ShardDataset(tmp_path / "new").scene(4)
