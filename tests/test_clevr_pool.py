"""Jobs in several processes: an error ends all of them at once, and a killed one has a name."""

import os
import signal
import time

import pytest

from lcs_utils import store
from lcs_utils.clevr import pool


def test_an_error_ends_all_workers_at_once(tmp_path):
    started = tmp_path / "started"
    started.mkdir()
    with pytest.raises(RuntimeError, match="no 3"):
        list(pool.run(_slow_job, [(started, i) for i in range(40)], 2, tmp_path))
    assert len(list(started.iterdir())) <= 8  # of 40: what was at work, and what was ready
    assert not list(tmp_path.glob(".*tmp*"))


def _slow_job(folder, i):
    """A job that fails at 3 and leaves a half-written file, as an interrupted shard does."""
    (folder / str(i)).touch()
    if i == 3:
        raise RuntimeError("no 3")
    with store.atomic_path(folder.parent / f"file{i}") as temporary:
        temporary.touch()
        time.sleep(0.2 if i < 3 else 600)
    return i


def test_a_killed_worker_is_named_with_its_likely_cause(tmp_path):
    with pytest.raises(RuntimeError, match="a worker was killed, most likely because memory ran out"):
        list(pool.run(_dying_job, [(i,) for i in range(4)], 2, tmp_path))
    assert list(pool.run(abs, [(-1,), (2,)], 1, tmp_path)) == [1, 2]


def test_a_worker_finds_its_own_temporary_files_and_no_other_s(tmp_path):
    process = os.getpid()
    with store.atomic_path(tmp_path / "a.npz") as file, store.atomic_folder(tmp_path / "b") as folder:
        file.touch()
        (tmp_path / f".c.tmp{process}").touch()  # of an earlier version
        (tmp_path / f".d.tmp{process}7.npz").touch()
        there = "0000" if store.MACHINE != "0000" else "0001"
        (tmp_path / f".e.tmp{process}.{there}12345678.npz").touch()  # of another machine
        assert set(pool._temporary(tmp_path, process)) == {file, folder, tmp_path / f".c.tmp{process}"}
        with store.atomic_path(tmp_path / "a.npz") as other:  # another machine's process of this number
            other.touch()
            assert other != file and other.suffix == ".npz"


def _dying_job(i):
    os.kill(os.getpid(), signal.SIGKILL)
