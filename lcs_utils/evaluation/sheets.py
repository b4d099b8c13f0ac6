"""Sheets: a measured net's first eight samples of K = 1 to 10 as one picture (WebP), to judge by eye (E.2).

A row of `data/counts` says what the counter saw; the sheet shows it, also for nets whose weights are too
large to ship.
"""

import json
from pathlib import Path
from typing import NamedTuple

import numpy as np
from einops import rearrange
from jaxtyping import Float, UInt8
from PIL import ExifTags, Image

from lcs_utils import nets, paths, store
from lcs_utils.evaluation.samples import kept_samples
from lcs_utils.evaluation.ways import Way
from lcs_utils.plotting import to_uint8

ACROSS = 8  # samples of each K: as many as the paper judged
SHOWN = range(1, 11)  # numbers of locations that figures show; rows go further
# Choice: pixels of a sheet are rounded, to save space: green, which the eye sees best, to multiples of STEP,
# red and blue to those of HUE_STEP from it (at most 2 and 7 of 255 levels off, near black and white 10). At
# 32 px the counter would see other objects in one picture of eight, so red and blue keep STEP there.
STEP, HUE_STEP = 5, 15
ABOUT = ExifTags.Base.ImageDescription


class SampleSheet(NamedTuple):
    """Samples by K, and `about`: net, weights (SHA-256, first 12 digits), seed, solver, steps."""

    samples: dict[int, UInt8[np.ndarray, "8 3 height width"]]
    about: dict


def sheet_path(net: str, preset: str = "tiny", family: str = "test") -> Path:
    """Where the sheet of a net, or of NET/CHANGE, is stored: data/samples for shipped presets, else runs/; of
    another family of locations than the paper's list in a folder of its name.
    """
    folder = paths.DATA / "samples" / preset if preset in paths.SHIPPED else paths.RUNS / preset / "sheets"
    folder = folder if family == "test" else folder / family
    return folder / f"{net.strip('/').replace('/', '_')}.webp"


def rounded(pixels: UInt8[np.ndarray, "*images 3"]) -> UInt8[np.ndarray, "*images 3"]:
    """Pixels as sheets keep them: green in steps of STEP, red and blue at steps of HUE_STEP from green."""
    step = HUE_STEP if pixels.shape[-2] > 32 else STEP
    levels = pixels.astype(int)
    green = (levels[..., 1:2] + STEP // 2) // STEP * STEP
    colors = green + (levels - green + step // 2) // step * step
    # a step back where rounding left the range of bytes
    colors += step * ((colors < 0).astype(int) - (colors > 255))
    return colors.astype(np.uint8)


def write_sheet(
    path: Path, samples: dict[int, Float[np.ndarray, "samples 3 height width"]], about: dict
) -> None:
    """Write one row of ACROSS samples in [-1, 1] for every K, ascending, whole or not at all.

    Pixels are `rounded`, so writing a sheet again does not change it. Raises ValueError for fewer samples.
    """
    few = {k: len(x) for k, x in samples.items() if len(x) < ACROSS}
    if few or not samples:
        raise ValueError(f"a sheet shows {ACROSS} samples of each K, got {few or 'none at all'}")
    ks = sorted(samples)
    pixels = np.stack([[to_uint8(image) for image in samples[k][:ACROSS]] for k in ks])
    exif = Image.Exif()
    exif[ABOUT] = json.dumps({**about, "k": ks}, sort_keys=True)
    with store.atomic_path(path) as temporary:
        Image.fromarray(rearrange(rounded(pixels), "k n h w c -> (k h) (n w) c")).save(
            temporary, "webp", lossless=True, exact=True, quality=100, method=6, exif=exif
        )


def read_sheet(net: str, preset: str = "tiny", family: str = "test") -> SampleSheet:
    """The sheet of a net. Raises FileNotFoundError, with the command that makes it, or ValueError for another
    file.
    """
    path = sheet_path(net, preset, family)
    if not path.exists():
        if nets.parts(net)[2] is not None:
            raise FileNotFoundError(f"no samples of snapshots are kept, and {net!r} is one")
        command = f"python -m lcs_utils.evaluation.length_generalization {net} --preset {preset}"
        command += ("" if family == "test" else f" --family {family}") + " --keep-sheet"
        raise FileNotFoundError(f"no samples of {net!r} are kept; {command} draws them")
    store.READ.add(path.resolve())
    try:
        with Image.open(path) as image:
            about, pixels = json.loads(image.getexif()[ABOUT]), np.array(image.convert("RGB"))
        grid = rearrange(pixels, "(k h) (n w) c -> k n c h w", k=len(about["k"]), n=ACROSS)
    except (OSError, ValueError, KeyError, AttributeError) as error:
        raise ValueError(
            f"{path.name} is no sheet of samples ({error}); restore it with git or measure again"
        ) from None
    return SampleSheet(dict(zip(about.pop("k"), grid, strict=True)), about)


def keep_sheet(way: Way) -> None:
    """Write the net's sheet: the first samples, as counted, of each K of SHOWN that are saved."""
    ks = [k for k in SHOWN if kept_samples(way.place(k)) >= ACROSS]
    about = {name: way.key[name] for name in ("net", "weights", "seed", "solver", "steps")}
    samples = {k: np.load(way.place(k), allow_pickle=False) for k in ks}
    if samples:
        path = sheet_path(way.net, way.preset, way.family)
        old = read_sheet(way.net, way.preset, way.family) if path.exists() else None
        write_sheet(path, (old.samples if old is not None and old.about == about else {}) | samples, about)
