"""Start the processes of one training on one machine, without a launcher that wraps their errors in
tracebacks.
"""

import ctypes
import os
import signal
import socket
import sys
from collections.abc import Callable

from torch import multiprocessing

PR_SET_PDEATHSIG = 1  # prctl.h


def _process(rank: int, work: Callable, words: list[str], count: int, port: int) -> None:
    """One of the processes, with the environment variables that torchrun would set."""
    address = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    place = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": count, "LOCAL_WORLD_SIZE": count}
    os.environ.update({name: str(value) for name, value in (address | place).items()})
    if sys.platform == "linux":  # end with the launcher: torch asks for SIGINT, which a script's `&` ignores
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
    work(words)


def launch(work: Callable[[list[str]], None], words: list[str], count: int) -> None:
    """Call `work(words)`, a module-level function, in `count` connected processes of this machine, with a GPU
    each or through gloo on CPU.

    If one fails, the others are ended and this process exits with its status.
    """
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    try:
        multiprocessing.spawn(_process, (work, list(words), count, port), nprocs=count)
    except multiprocessing.ProcessExitedException as error:
        if error.exit_code < 0:  # else it has printed why
            print(
                f"process {error.error_index} was ended by {error.signal_name}, of SIGKILL most likely since "
                "memory ran out; the same command goes on from the saved state",
                file=sys.stderr,
            )
        sys.exit(error.exit_code if error.exit_code > 0 else 128 - error.exit_code)
