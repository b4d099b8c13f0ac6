"""The README's table `| paper | code |` is true: every name resolves, and its docstring says where in the
paper it is.
"""

import importlib
import inspect
import re

import pytest

from lcs_utils import paths, store

ANCHOR = re.compile(
    r"(?:Definition|Def\.|Lemma|Claim|Corollary|Theorem|Proposition|Appendix|App\.|Section|Sec\.|Fig\.|Table|Exp\.)"
    r" ?[A-Z]?\.?\d+(?:\.\d+)*"
    r"|(?:App\.|Appendix) [A-Z]\b|eqs?\. ?\(\d+\)(?:-\(\d+\))?"
)


def rows(text):
    """(anchors, dotted code names) of each row of the markdown table headed `| paper | code |`."""
    found, inside = [], False
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if [cell.lower() for cell in cells[:2]] == ["paper", "code"]:
            inside = True
        elif inside and not line.strip().startswith("|"):
            inside = False
        elif inside and not set(line) <= set("|-: "):
            found.append((ANCHOR.findall(cells[0]), re.findall(r"`([\w.]+)`", cells[1])))
    return found


def resolve(name):
    """The object that `theory.lcs.score` means in lcs_utils: a module, or an attribute of one."""
    parts = name.removeprefix("lcs_utils.").split(".")
    for depth in range(len(parts), 0, -1):
        try:
            found = importlib.import_module(".".join(["lcs_utils", *parts[:depth]]))
        except ModuleNotFoundError as error:
            if not (error.name or "").startswith("lcs_utils"):
                raise
            continue
        for attribute in parts[depth:]:
            found = getattr(found, attribute)
        return found
    raise ModuleNotFoundError(f"no module lcs_utils.{parts[0]}")


def flat(text):
    return re.sub(r"\s+", " ", text or "")


README = paths.ROOT / "README.md"
ROWS = rows(README.read_text()) if README.exists() else []


def test_the_readme_has_the_table():
    assert README.exists(), "README.md is missing"
    assert ROWS, "README.md has no table headed `| paper | code |`"
    for anchors, names in ROWS:
        assert anchors and names, (
            f"a row needs an anchor (such as eq. (9)) and a `dotted.name`: {anchors} | {names}"
        )


@pytest.mark.parametrize(("anchors", "names"), ROWS, ids=[", ".join(anchors) for anchors, _ in ROWS])
def test_row_resolves_and_docstrings_hold_the_anchor(anchors, names):
    docs = {name: flat(inspect.getdoc(resolve(name))) for name in names}
    for anchor in anchors:
        assert any(anchor in doc for doc in docs.values()), (
            f"{anchor!r} stands in no docstring of {', '.join(names)}"
        )
    for name, doc in docs.items():
        assert any(anchor in doc for anchor in anchors), (
            f"the docstring of {name} holds none of {', '.join(anchors)}"
        )


def test_the_reader_of_the_table():
    text = (
        "| Paper | code |\n|---|---|\n| Def. 1, eq. (1), App. E.1 | `store.sha256`, `paths` |\n\n| a | b "
        "|\n| x | `y` |\n"
    )
    assert rows(text) == [(["Def. 1", "eq. (1)", "App. E.1"], ["store.sha256", "paths"])]
    assert resolve("store.sha256") is store.sha256 and resolve("lcs_utils.paths") is paths
    for wrong in ("paths.nothing", "nothing.at_all"):
        with pytest.raises((AttributeError, ModuleNotFoundError)):
            resolve(wrong)
