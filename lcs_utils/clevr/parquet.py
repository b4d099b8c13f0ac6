"""Export a rendered folder as Parquet files: `python -m lcs_utils.clevr.parquet FOLDER OUT`.

`datasets.load_dataset(OUT)`, pandas and polars can read them: images as PNG, labels, scenes as JSON, in
splits, all object counts in one random order. Several processes write, and a killed export resumes.
"""

import argparse
import hashlib
import json
import math
import os
from pathlib import Path

import numpy as np
from tqdm.auto import tqdm

from lcs_utils import store
from lcs_utils.checks import check_count
from lcs_utils.clevr import pool
from lcs_utils.clevr.card import card, front_matter
from lcs_utils.clevr.dataset import read_manifest
from lcs_utils.clevr.loading import ShardDataset, features, row
from lcs_utils.progress import hidden

SPLITS = {"train": 0.96, "validation": 0.02, "test": 0.02}
EXPORT = "export.json"
ROW_GROUP = 256  # rows that reading a single one has to decode


def order(total: int, splits: dict[str, float], seed: int) -> dict[str, np.ndarray]:
    """{split: image indices}, consecutive pieces of one random permutation, in the order of `splits`."""
    permutation = np.random.Generator(np.random.PCG64(seed)).permutation(total)
    ends = [round(total * share) for share in np.cumsum(list(splits.values()))]
    return dict(zip(splits, np.split(permutation, ends[:-1]), strict=True))


def _write(out, folder, name, indices):
    """Write one file with these images, in this order; return how many."""
    import datasets

    datasets.disable_progress_bars()
    data = ShardDataset(folder, check=False)
    names = list(data[0])
    kinds = features(names, data.settings)
    columns = {column: [] for column in kinds}
    for start in range(0, len(indices), ROW_GROUP):  # only a few images are decoded at a time
        some = indices[start : start + ROW_GROUP]
        arrays = {array: data.column(array, some) for array in names}
        for i, line in enumerate(data.scene_lines(some)):
            for column, value in row(arrays, i, line).items():
                columns[column].append(value)
    table = datasets.Dataset.from_dict(columns, features=kinds)
    with store.atomic_path(Path(out) / name) as temporary:
        table.to_parquet(str(temporary), batch_size=ROW_GROUP)
    return len(indices)


def _check(folder, out, splits, rows_per_file, processes):
    shares = list(splits.values())
    if not splits or min(shares) < 0 or not math.isclose(sum(shares), 1, abs_tol=1e-6):
        raise ValueError(f"splits must be shares that add up to 1, got {splits}")
    check_count("rows_per_file", rows_per_file, 1)
    check_count("processes", processes, 1)
    if Path(out).resolve() == Path(folder).resolve():
        raise ValueError(f"the Parquet files need a folder of their own, not the shards' {folder}")


def export(
    folder,
    out,
    splits: dict[str, float] | None = None,
    seed: int = 0,
    rows_per_file: int = 8192,
    processes: int = 1,
    progress: bool = True,
) -> dict[str, int]:
    """Write the shards of `folder` as Parquet files into `out`; return the number of rows of each split.

    `splits` are shares that add up to 1 (default: SPLITS); `seed` sets the order. Columns as in
    `loading.to_huggingface`. The files depend on the folder and these arguments, not on `processes`; existing
    files are kept. Raises ValueError for bad arguments and for an `out` that a different export started, or
    nobody knows which, TypeError for a count that is no whole number, and as `dataset.verify` does.
    """
    splits = SPLITS if splits is None else splits
    _check(folder, out, splits, rows_per_file, processes)
    out, data = Path(out), ShardDataset(folder)
    digests = [entry["sha256"] for _, entry in sorted(read_manifest(folder)["shards"].items())]
    asked = {  # the order of the splits is stored, too: it says which images each of them gets
        "shards": hashlib.sha256("".join(digests).encode()).hexdigest(),
        "splits": [[name, share] for name, share in splits.items()],
        "seed": seed,
        "rows_per_file": rows_per_file,
    }
    if not (out / EXPORT).exists() and any(out.glob("*.parquet")):
        raise ValueError(
            f"{out} holds Parquet files without {EXPORT}, so their contents are unknown; remove them, or "
            "choose another folder"
        )
    if (out / EXPORT).exists() and json.loads((out / EXPORT).read_text()) != asked:
        raise ValueError(f"{out} was begun from other shards or with other arguments; choose another folder")
    rows = {name: indices for name, indices in order(len(data), splits, seed).items() if len(indices)}
    jobs = []
    for name, indices in rows.items():
        files = math.ceil(len(indices) / rows_per_file)
        for i, some in enumerate(np.array_split(indices, files)):
            jobs.append((out, folder, f"{name}-{i:05d}-of-{files:05d}.parquet", some))
    store.write_json(out / EXPORT, asked)
    sizes = {name: len(indices) for name, indices in rows.items()}
    text = front_matter(data.settings, rows) + "\n" + card(data.settings, sizes)
    store.write_text(out / "README.md", text)
    todo = [job for job in jobs if not (job[0] / job[2]).exists()]
    done = len(data) - sum(len(job[3]) for job in todo)
    with tqdm(total=len(data), initial=done, unit=" rows", mininterval=1, disable=hidden(progress)) as bar:
        for written in pool.run(_write, todo, max(min(processes, len(todo)), 1), out):
            bar.update(written)
    return sizes


def _parse_splits(text):
    """Parse train=0.9,test=0.1 for argparse."""
    try:
        return {name: float(share) for name, share in (piece.split("=") for piece in text.split(","))}
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not like train=0.9,test=0.1") from None


def main(arguments=None):
    """Command line: export a folder."""
    parser = argparse.ArgumentParser(
        prog="python -m lcs_utils.clevr.parquet", description="Write rendered shards as Parquet files."
    )
    parser.add_argument("folder", help="folder made by python -m lcs_utils.clevr.dataset")
    parser.add_argument("out", help="output folder")
    parser.add_argument("--splits", type=_parse_splits, default=SPLITS, help="such as train=0.9,test=0.1")
    parser.add_argument("--seed", type=int, default=0, help="seed of the order")
    parser.add_argument("--rows-per-file", type=int, default=8192)
    parser.add_argument("--processes", type=int, default=os.cpu_count())
    options = parser.parse_args(arguments)
    try:
        rows = export(**vars(options))
        print(", ".join(f"{n:,} rows {name}" for name, n in rows.items()), f"in {options.out}")
    except (ValueError, RuntimeError, OSError) as error:
        parser.exit(2, f"{parser.prog}: {error}\n")
    except KeyboardInterrupt:
        parser.exit(130, f"{parser.prog}: stopped; the same command goes on, finished files are kept\n")


if __name__ == "__main__":
    main()
