"""Figures for print: one option, `--print pdf`, in addition to what the repository keeps at 100 dpi."""

import os
from pathlib import Path
from typing import Any

from lcs_utils import paths, store

FORMATS = ("png", "svg", "pdf")
DPI = 200  # of a PNG, and of the images inside an SVG or PDF
VARIABLE = "LCS_PRINT"  # `--print` of run.py and lcs_utils.notebooks sets it; kernels inherit it


def asked_format() -> str:
    """What LCS_PRINT asks for, one of `FORMATS`, or "" for nothing. Raises ValueError for another value."""
    asked = os.environ.get(VARIABLE, "")
    if asked and asked not in FORMATS:
        raise ValueError(f"{VARIABLE} must be one of {', '.join(FORMATS)}, got {asked!r}")
    return asked


def save_for_print(figure: Any, name: str, preset: str, kind: str, alt: str = "") -> Path:
    """Write runs/<preset>/print/<name>.<kind> and return it: PNG at 200 dpi, or SVG or PDF with text as text.

    `figure` is matplotlib's, `alt` what it shows, in words; without dates, so that the same figure gives the
    same bytes. Raises ValueError for a kind that is not in `FORMATS`.
    """
    import matplotlib

    if kind not in FORMATS:
        raise ValueError(f"a figure is printed as one of {', '.join(FORMATS)}, got {kind!r}")
    metadata: dict[str, Any] = {
        "png": {"Software": None, "Description": alt},
        "svg": {"Date": None, "Description": alt},
        "pdf": {"CreationDate": None, "Subject": alt},
    }[kind]
    target = paths.RUNS / preset / "print" / f"{name}.{kind}"
    fonts = {"svg.hashsalt": name, "svg.fonttype": "none", "pdf.fonttype": 42}
    with matplotlib.rc_context(fonts), store.atomic_path(target) as temporary:
        figure.savefig(
            temporary, format=kind, dpi=DPI, bbox_inches="tight", pad_inches=0.05, metadata=metadata
        )
    return target
