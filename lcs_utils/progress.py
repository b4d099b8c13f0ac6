"""Progress bars: where somebody looks, and none where TQDM_DISABLE is set, as builds of notebooks do.

tqdm's notebook form does not look at that variable once `disable` is given.
"""

import os
from collections.abc import Iterable

from tqdm.auto import tqdm


def quiet() -> bool | None:
    """What tqdm takes as `disable`: True where no bars are wanted, else None, a bar on a terminal or in a
    notebook only.
    """
    return bool(os.environ.get("TQDM_DISABLE")) or None


def progress(items: Iterable, words: str, total: int | None = None) -> tqdm:
    """`items` with a bar called `words`, also where it goes to a file; none where none are wanted."""
    return tqdm(items, words, total, disable=bool(quiet()))
