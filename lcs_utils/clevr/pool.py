"""Run jobs in several processes with a short queue, so that an error or Ctrl-C ends them all at once."""

import multiprocessing
import os
import re
import shutil
import signal
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any

from lcs_utils import store


def _start_worker(end, folder):
    import numba

    numba.set_num_threads(1)  # parallel over jobs; more threads inside would fight for the same cores
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches every process; only the parent acts on it
    threading.Thread(target=_end_when_told, args=(end, folder), daemon=True).start()


def _end_when_told(end, folder):
    """Exit when the parent closes its end of the pipe or dies, after deleting our temporary files."""
    end.poll(None)
    for path in _temporary(folder, os.getpid()):
        shutil.rmtree(path, ignore_errors=True) if path.is_dir() else path.unlink(missing_ok=True)
    os._exit(1)


def _temporary(folder, process):
    """The temporary files and folders of `store` that a process of this machine, not one whose number is
    longer, made.
    """
    found = [path for path in Path(folder).glob(".*") if re.search(rf"\.tmp{process}(\.|$)", path.name)]
    return [path for path in found if not store.of_another_machine(path.name)]


@contextmanager
def _interrupts_later():
    """Block Ctrl-C: a process started here never sees it, not even before it runs a line of ours."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def run(function: Callable, jobs: Iterable[tuple], workers: int, folder) -> Iterator[Any]:
    """Yield function(*job) as each job finishes, from `workers` spawned processes (1: in this one, in order).

    At the first error, or when the caller stops iterating, the workers are ended at once and their temporary
    files (`store.atomic_path`) in `folder` deleted. Raises what a job raises, and RuntimeError when a worker
    was killed.
    """
    if workers == 1:
        yield from (function(*job) for job in jobs)
        return
    jobs, waiting, finished = iter(jobs), set(), 0
    context = multiprocessing.get_context("spawn")  # numba's threads and torch's do not survive a fork
    end, ours = context.Pipe(duplex=False)
    pool = ProcessPoolExecutor(workers, context, _start_worker, (end, folder))
    try:
        while True:
            for job in islice(jobs, 2 * workers - len(waiting)):  # per worker one running, one queued
                with _interrupts_later():
                    waiting.add(pool.submit(function, *job))
            if not waiting:
                break
            done, waiting = wait(waiting, return_when=FIRST_COMPLETED)
            for future in done:
                yield future.result()
                finished += 1
        pool.shutdown()
    except BrokenProcessPool:
        cause = "most likely because memory ran out: give fewer workers, or smaller shards"
        if not finished:
            cause += " (or the calling script starts work outside of `if __name__ == '__main__':`)"
        raise RuntimeError(
            f"a worker was killed, {cause}; finished work is kept; the same command resumes"
        ) from None
    finally:
        ours.close()  # tells the workers to end; after a complete run there are none
        pool.shutdown(cancel_futures=True)
        end.close()
