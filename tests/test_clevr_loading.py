"""A folder read one image at a time, by torch and by `datasets`: the same pixels as the shards hold."""

import json
import os
import shutil

import numpy as np
import pytest
import torch

from lcs_utils.clevr.dataset import MANIFEST, generate
from lcs_utils.clevr.loading import ShardDataset, load, map_arrays, to_huggingface
from lcs_utils.clevr.scene_json import scene_from_json
from lcs_utils.clevr.scenes import COLORS, project

SETTINGS = dict(counts=(0, 2), per_count=5, resolution=16, shard_size=3, antialias=1, progress=False)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("loading") / "data"
    generate(path, **SETTINGS, extras=["masks", "depth", "boxes"])
    return path


def test_items_are_those_of_load(folder):
    arrays, dataset = load(folder), ShardDataset(folder)
    assert len(dataset) == 10 and not dataset._open  # nothing is opened before it is asked for
    for i in (9, 0, 5, 2, -1):
        item = dataset[i]
        assert set(item) == set(arrays)
        for name, value in item.items():
            assert np.array_equal(value.numpy(), arrays[name][i], equal_nan=arrays[name].dtype.kind == "f")
    for bad in (10, -11):
        with pytest.raises(IndexError, match=f"index {bad} is outside a data set of 10 images"):
            dataset[bad]
    assert np.array_equal(ShardDataset(folder, counts=[2])[3]["images"], arrays["images"][8])
    scene = scene_from_json(dataset.scene(8))
    assert np.allclose(project(scene), arrays["locations"][8], atol=1e-6)


def test_columns_are_read_across_shards_in_the_order_asked_for(folder):
    arrays, dataset = load(folder), ShardDataset(folder)
    order = np.array([9, 0, 3, 9, 4])
    for name, array in arrays.items():
        assert np.array_equal(dataset.column(name, order), array[order], equal_nan=array.dtype.kind == "f")
        assert np.array_equal(dataset.column(name), array, equal_nan=array.dtype.kind == "f")
    assert dataset.column("images", []).shape == (0, 3, 16, 16)
    with pytest.raises(IndexError, match="indices -1 to 10 are not all in a data set of 10 images"):
        dataset.column("images", [-1, 10])


def test_a_loader_with_workers_gives_every_image_once(folder):
    dataset, arrays = ShardDataset(folder), load(folder)
    dataset[0]
    loader = torch.utils.data.DataLoader(dataset, batch_size=4, num_workers=1, multiprocessing_context="fork")
    assert torch.equal(torch.cat([batch["images"] for batch in loader]), torch.from_numpy(arrays["images"]))
    assert not dataset.__getstate__()["_open"]  # a spawned worker maps the files by itself


def test_memory_holds_maps_not_arrays(folder):
    dataset = ShardDataset(folder)
    before = len(os.listdir("/proc/self/fd"))
    for i in range(len(dataset)):
        dataset[i]["images"].zero_()  # a copy: neither the file nor the next reader sees it
    assert all(isinstance(a.base, np.memmap) and not a.flags.writeable for maps in dataset._open.values() for a in maps.values())
    assert len(os.listdir("/proc/self/fd")) - before == len(dataset._open)  # one open file per shard, whatever it holds
    assert dataset[0]["images"].any()


def test_checksums_are_checked_once_and_can_be_left_out(folder, tmp_path):
    copy = tmp_path / "damaged"
    shutil.copytree(folder, copy)
    dataset = ShardDataset(copy)
    shard = copy / "2_objects_00000003.npz"
    content = bytearray(shard.read_bytes())
    content[2000] ^= 255
    shard.write_bytes(content)
    assert len([item for item in (dataset[i] for i in range(10))]) == 10
    with pytest.raises(ValueError, match="2_objects_00000003.npz was altered"):
        ShardDataset(copy)
    assert len(ShardDataset(copy, check=False)) == 10
    (copy / MANIFEST).unlink()
    with pytest.raises(FileNotFoundError, match="manifest.json is missing"):
        ShardDataset(copy)
    np.savez_compressed(tmp_path / "packed.npz", images=np.zeros(3))
    with pytest.raises(ValueError, match="images.npy is compressed"):
        map_arrays(tmp_path / "packed.npz")


def test_huggingface_round_trip(folder, tmp_path, monkeypatch):
    """Offline, through save_to_disk and through parquet: equal pixels, masks, depths, labels and scenes."""
    import datasets

    datasets.disable_progress_bars()
    arrays = load(folder)
    table = to_huggingface(folder, cache_dir=tmp_path / "cache")
    table.save_to_disk(tmp_path / "saved")
    table.to_parquet(tmp_path / "data.parquet")
    read = datasets.Dataset.from_parquet(str(tmp_path / "data.parquet"), cache_dir=str(tmp_path / "read"))
    for back in (table, datasets.load_from_disk(tmp_path / "saved"), read):
        assert back.features == table.features and len(back) == 10
        for i in (0, 4, 9):
            row, n = back[i], int(arrays["n_objects"][i])
            assert np.array_equal(np.asarray(row["image"]).transpose(2, 0, 1), arrays["images"][i])
            assert row["n_objects"] == n == len(row["locations"]) == len(row["colors"])
            assert np.array_equal(np.reshape(row["locations"], (n, 2)), arrays["locations"][i, :n])
            assert np.array_equal(row["masks"], arrays["masks"][i]) and np.allclose(row["depth"], arrays["depth"][i])
            assert np.array_equal(np.reshape(row["boxes"], (n, 4)), arrays["boxes"][i, :n])
            assert [o["color"] for o in json.loads(row["scene"])["objects"]] == [COLORS[c] for c in row["colors"]]
    assert not np.array_equal(np.asarray(table[0]["image"]), np.asarray(table[9]["image"]))
    other = tmp_path / "data"  # the same folder, made again from another seed: the cache must not answer for it
    for seed in (1, 2):
        shutil.rmtree(other, ignore_errors=True)
        generate(other, **{**SETTINGS, "counts": (1,), "per_count": 2}, seed=seed)
        row = to_huggingface(other, cache_dir=tmp_path / "cache")[0]
        assert set(row) == {"image", "locations", "colors", "n_objects", "scene"}
        assert np.array_equal(np.asarray(row["image"]).transpose(2, 0, 1), load(other)["images"][0])
