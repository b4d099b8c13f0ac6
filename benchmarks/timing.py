"""What benchmarks measure with: processor time, which other load hardly changes, and memory."""

import math
import re
import time
from pathlib import Path

FORGET = Path("/proc/self/clear_refs")


def clock(work, runs: int = 1):
    """The result of `work()` and the processor seconds of one of `runs` of it."""
    start = time.process_time()
    for _ in range(runs):
        result = work()
    return result, (time.process_time() - start) / runs


def rate(step, work, seconds, clock=time.process_time) -> float:
    """`work` units per second of `step()` by `clock`, over at least `seconds`, after one warm-up."""
    step()
    start, done = clock(), 0
    while done == 0 or clock() - start < seconds:
        step()
        done += 1
    return done * work / (clock() - start)


def peak() -> float:
    """Peak memory of this process since its start or the last call of `memory`, MiB (Linux only)."""
    found = re.search(r"VmHWM:\s+(\d+)", Path("/proc/self/status").read_text())
    assert found
    return int(found[1]) / 1024


def memory(work):
    """The result of `work()` and how far memory rose above what was held before, MiB; nan without Linux'
    /proc, where a peak is known only since the start of the process.
    """
    if not FORGET.exists():
        return work(), math.nan
    FORGET.write_text("5")  # earlier peaks, which would hide this one
    before = peak()
    result = work()
    return result, peak() - before
