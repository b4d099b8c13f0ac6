"""Progress bars, except where TQDM_DISABLE is set, as in builds of notebooks.

tqdm's notebook form ignores that variable once `disable` is given.
"""

import os
from collections.abc import Iterable

from tqdm.auto import tqdm


def quiet() -> bool | None:
    """Value for tqdm's `disable`: True if TQDM_DISABLE is set, else None, which shows a bar on a terminal or
    in a notebook only.
    """
    return bool(os.environ.get("TQDM_DISABLE")) or None


def hidden(shown: bool = True) -> bool:
    """Value for tqdm's `disable` of a bar that goes to files, too: True unless `shown`, or if TQDM_DISABLE is
    set.
    """
    return not shown or bool(quiet())


def progress(items: Iterable, words: str, total: int | None = None) -> tqdm:
    """`items` with a bar called `words`, even if it goes to a file; none if TQDM_DISABLE is set."""
    return tqdm(items, words, total, disable=hidden())
