"""What benchmarks measure with: processor time, which other load hardly changes, and memory."""

import resource
import time


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
    """Peak memory of this process so far, MiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
