"""Write the README's measured numbers between its markers, from the functions that the notebooks call.

python -m lcs_utils.claims.readme            # writes them into README.md
python -m lcs_utils.claims.readme --check    # fails if README.md differs
"""

import argparse
import re
import textwrap
from collections import Counter
from collections.abc import Collection, Sequence
from pathlib import Path

from lcs_utils import paths, store
from lcs_utils.claims import KINDS, Verdict, extra_objects
from lcs_utils.claims.findings import findings
from lcs_utils.claims.from_notebooks import decided
from lcs_utils.claims.from_rows import verdicts
from lcs_utils.claims.nets_64 import cells, extras, told
from lcs_utils.evaluation.rows import read_rows, rows_path, told_path

README = paths.ROOT / "README.md"
WIDTH = 110  # characters of a line


def verdict_of(
    of_nets: Sequence[Verdict], on_extras: Collection[str], too_few: int, without_null: int
) -> str:
    """How the checks come out; apart, the claims in `on_extras`, on objects that nobody asked for, `too_few`
    of which have too few samples to be reproduced.
    """
    judged = Counter(v.verdict for v in of_nets if v.claim not in on_extras)
    lines = ", ".join(f"{judged[kind]} {kind}" for kind in KINDS).replace("not reproduced", "not")
    extra = [v.verdict for v in of_nets if v.claim in on_extras]
    words = (
        f"{judged.total()} checks on nets: **{lines}**. {len(extra)} more, on objects nobody asked for: "
        f"{extra_objects.counted(extra)} ({too_few}: too few samples; 05). {without_null} by an earlier "
        "counter lack a null."
    )
    return textwrap.fill(words, WIDTH, break_on_hyphens=False)


def blocks(preset: str = "tiny") -> dict[str, str]:
    """{marker: Markdown} of everything measured in the README."""
    old, large = read_rows(told_path(preset)), read_rows(rows_path("small"))
    before = verdicts(old, told(preset))
    of_nets = decided(preset, exact=False)
    on_extras = {claim.claim for claim in extras(preset)}
    checks = extra_objects.checks(large, cells(preset) or [])
    titles = {"holds": "Holds", "partly": "Partly", "does not": "Fails", "open": "Open", "new": "New"}
    found = [
        f"- **{titles[of.kind]}.** {of.words} ({', '.join(of.notebook.split())})"
        for of in findings(large, preset)
    ]
    wrapped = [textwrap.fill(words, WIDTH, subsequent_indent="  ", break_on_hyphens=False) for words in found]
    return {
        "verdict": verdict_of(of_nets, on_extras, len(extra_objects.too_few(checks)), len(before)),
        "findings": "\n".join(wrapped),
    }


def filled_in(text: str, measured: dict[str, str]) -> str:
    """`text` with each block between its markers. Raises ValueError for a missing or repeated marker."""
    for name, block in measured.items():
        begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
        if text.count(begin) != 1 or text.count(end) != 1:
            raise ValueError(f"README.md needs one {begin} and one {end}")
        text = re.sub(f"{begin}.*?{end}", lambda _, b=block: f"{begin}\n{b}\n{end}", text, flags=re.DOTALL)
    return text


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        prog="python -m lcs_utils.claims.readme", description=__doc__.splitlines()[0]
    )
    parser.add_argument("--check", action="store_true", help="change nothing; fail if README.md differs")
    args = parser.parse_args(arguments)
    text = Path(README).read_text()
    written = filled_in(text, blocks())
    if args.check and written != text:
        raise SystemExit("README.md does not say what the rows say; run python -m lcs_utils.claims.readme")
    if written != text:
        store.write_text(README, written)


if __name__ == "__main__":
    main()
