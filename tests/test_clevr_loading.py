"""A folder read one image at a time, by torch and by `datasets`: the same pixels as the shards hold."""

import json
import shutil

import numpy as np
import pytest
import torch

from lcs_utils.clevr import parquet
from lcs_utils.clevr.dataset import MANIFEST, generate
from lcs_utils.clevr.loading import ShardDataset, load, map_arrays, to_huggingface
from lcs_utils.clevr.scene_json import scene_from_json, scene_to_json
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
    assert np.array_equal(dataset.column("images", [-1, -10, 3]), arrays["images"][[-1, -10, 3]])
    for bad in ([-1, 10], [-11, 0]):
        with pytest.raises(IndexError, match=f"indices {bad[0]} to {bad[1]} are not all in a data set of 10"):
            dataset.column("images", bad)


def test_indices_are_whole_numbers_or_a_mask_of_all_images(folder):
    """A mask read as numbers, or numbers cut to whole ones, would give other images without a word."""
    arrays, dataset = load(folder), ShardDataset(folder)
    mask = np.arange(10) % 3 == 1
    lines = dataset.scene_lines(range(10))
    for of in (mask, mask.tolist(), torch.from_numpy(mask)):
        assert np.array_equal(dataset.column("images", of), arrays["images"][mask])
        assert dataset.scene_lines(of) == [lines[i] for i in (1, 4, 7)]
    assert dataset.scene_lines([-1]) == lines[9:] and not len(dataset.column("images", np.zeros(10, bool)))
    for bad in (mask[:9], [True, False], [0.0, 1.5], np.arange(3.0), ["1"], [[0, 1]], [None], 3):
        for read in (lambda of: dataset.column("n_objects", of), dataset.scene_lines):
            with pytest.raises(
                TypeError, match="indices must be whole numbers, or True or False for each of"
            ):
                read(bad)
    assert torch.equal(dataset[torch.tensor(4)]["images"], dataset[np.int64(4)]["images"])
    for bad in (1.5, True, "1"):
        for read in (dataset.__getitem__, dataset.scene):
            with pytest.raises(TypeError, match="index must be a whole number"):
                read(bad)


def test_an_array_that_is_not_there_is_named(folder):
    with pytest.raises(ValueError, match="unknown array 'foo'; allowed: images, locations, colors, n_obj"):
        ShardDataset(folder).column("foo")


def test_a_loader_with_workers_gives_every_image_once(folder):
    dataset, arrays = ShardDataset(folder), load(folder)
    dataset[0]
    loader = torch.utils.data.DataLoader(dataset, batch_size=4, num_workers=1, multiprocessing_context="fork")
    assert torch.equal(torch.cat([batch["images"] for batch in loader]), torch.from_numpy(arrays["images"]))
    assert not dataset.__getstate__()["_open"]  # a spawned worker maps the files by itself


def test_memory_holds_maps_not_arrays(folder):
    dataset = ShardDataset(folder)
    for i in range(len(dataset)):
        dataset[i]["images"].zero_()  # a copy: neither the file nor the next reader sees it
    assert all(
        isinstance(a.base, np.memmap) and not a.flags.writeable
        for maps in dataset._open.values()
        for a in maps.values()
    )
    for maps in dataset._open.values():  # one open file per shard, whatever it holds
        assert len({id(array.base) for array in maps.values()}) == 1 < len(maps)
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
    for content in (b"", b"PK\3\4"):
        (tmp_path / "cut.npz").write_bytes(content)
        with pytest.raises(ValueError, match="cut.npz is empty or cut off"):
            map_arrays(tmp_path / "cut.npz")


def test_huggingface_round_trip(folder, tmp_path, monkeypatch):
    """Offline, through save_to_disk and through parquet: equal pixels, masks, depths, labels and scenes."""
    import datasets

    datasets.disable_progress_bars()
    arrays, scenes = load(folder), [ShardDataset(folder).scene(i) for i in range(10)]
    table = to_huggingface(folder, cache_dir=tmp_path / "cache", processes=2)
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
            assert np.array_equal(row["masks"], arrays["masks"][i]) and np.allclose(
                row["depth"], arrays["depth"][i]
            )
            assert np.array_equal(np.reshape(row["boxes"], (n, 4)), arrays["boxes"][i, :n])
            assert scene_to_json(scene_from_json(json.loads(row["scene"])), "new", 16, 16) == scenes[i]
            assert [o["color"] for o in json.loads(row["scene"])["objects"]] == [
                COLORS[c] for c in row["colors"]
            ]
    assert not np.array_equal(np.asarray(table[0]["image"]), np.asarray(table[9]["image"]))
    other = (
        tmp_path / "data"
    )  # the same folder, made again from another seed: the cache must not answer for it
    for seed in (1, 2):
        shutil.rmtree(other, ignore_errors=True)
        generate(other, **{**SETTINGS, "counts": (1,), "per_count": 2}, seed=seed)
        row = to_huggingface(other, cache_dir=tmp_path / "cache")[0]
        assert set(row) == {"image", "locations", "colors", "n_objects", "scene"}
        assert np.array_equal(np.asarray(row["image"]).transpose(2, 0, 1), load(other)["images"][0])


def test_load_dataset_opens_an_export(folder, tmp_path):
    """Splits, all counts in each, the same pixels, labels and scenes; whatever the number of processes, and
    after an interruption.
    """
    import datasets

    datasets.disable_progress_bars()
    out, splits = tmp_path / "parquet", {"train": 0.6, "test": 0.4}
    asked = dict(splits=splits, seed=3, rows_per_file=4, progress=False)
    assert parquet.export(folder, out, **asked, processes=2) == {"train": 6, "test": 4}
    files = {path.name: path.read_bytes() for path in out.iterdir()}
    assert sum(name.startswith("train-") for name in files) == 2
    assert (
        b"Parquet files: 6 in `train`, 4 in `test`" in files["README.md"] and b"npz" not in files["README.md"]
    )
    tables = datasets.load_dataset(str(out), cache_dir=str(tmp_path / "cache"))
    arrays, data = load(folder), ShardDataset(folder)
    order = parquet.order(10, splits, 3)
    assert sorted(np.concatenate(list(order.values()))) == list(range(10))  # each once
    for name, indices in order.items():
        assert len(set(arrays["n_objects"][indices])) == 2 and list(indices) != sorted(indices)
        for row, i in zip(tables[name], indices, strict=True):
            n = int(arrays["n_objects"][i])
            assert np.array_equal(np.asarray(row["image"]).transpose(2, 0, 1), arrays["images"][i])
            assert np.array_equal(np.reshape(row["locations"], (n, 2)), arrays["locations"][i, :n])
            assert row["colors"] == arrays["colors"][i, :n].tolist() and row["n_objects"] == n
            assert np.array_equal(row["masks"], arrays["masks"][i])
            assert scene_from_json(json.loads(row["scene"])) == scene_from_json(data.scene(i))
    (out / "test-00000-of-00001.parquet").unlink()  # what a kill leaves: whole files only
    parquet.export(folder, out, **asked)
    assert {path.name: path.read_bytes() for path in out.iterdir()} == files
    with pytest.raises(ValueError, match="was begun from other shards or with other arguments"):
        parquet.export(folder, out, **{**asked, "seed": 4})
    with pytest.raises(ValueError, match="was begun from other shards or with other arguments"):
        parquet.export(folder, out, **{**asked, "splits": dict(reversed(splits.items()))})
    (out / parquet.EXPORT).unlink()
    with pytest.raises(ValueError, match="holds Parquet files without export.json, so their contents"):
        parquet.export(folder, out, **{**asked, "seed": 4})
    assert not (out / parquet.EXPORT).exists()


ORDER = {"train": [9, 6, 0, 2, 1, 4], "test": [7, 5, 3, 8]}


def test_the_order_of_an_export_is_its_seeds():
    first = parquet.order(10, {"train": 0.6, "test": 0.4}, 3)
    assert {name: found.tolist() for name, found in first.items()} == ORDER
    assert parquet.order(10, {"train": 1.0}, 4)["train"].tolist() != ORDER["train"] + ORDER["test"]


def test_a_number_of_processes_is_a_count(folder):
    for bad, error, message in (("2", TypeError, "a whole number, got '2'"), (0, ValueError, ">= 1, got 0")):
        with pytest.raises(error, match=f"processes must be {message}"):
            to_huggingface(folder, processes=bad)


def test_impossible_exports_are_refused(folder, tmp_path, capsys):
    for change, error, message in (
        ({"splits": {"train": 0.5}}, ValueError, "splits must be shares that add up to 1"),
        ({"rows_per_file": 0}, ValueError, "rows_per_file must be >= 1, got 0"),
        ({"processes": 1.5}, TypeError, "processes must be a whole number, got 1.5"),
        ({"out": folder}, ValueError, "need a folder of their own"),
    ):
        with pytest.raises(error, match=message):
            parquet.export(**{"folder": folder, "out": tmp_path / "none", **change})
    for words in ([str(folder), "--splits", "train"], [str(tmp_path / "nothing")]):
        with pytest.raises(SystemExit) as stop:
            parquet.main([*words, str(tmp_path / "none")])
        assert stop.value.code == 2
    assert "manifest.json is missing" in capsys.readouterr().err
    assert not (tmp_path / "none").exists()
