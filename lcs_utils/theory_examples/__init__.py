"""What notebooks 01, 02 and 11 compute and draw: small exact examples of the theory, each with its figure."""

import os
from collections.abc import Iterable

from tqdm.auto import tqdm


def progress(items: Iterable, words: str, total: int | None = None) -> tqdm:
    """`items` with a bar called `words`, also in a notebook; none where TQDM_DISABLE is set, as builds do.

    tqdm's notebook form does not look at that variable by itself.
    """
    return tqdm(items, words, total, disable=bool(os.environ.get("TQDM_DISABLE")))
