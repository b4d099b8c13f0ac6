"""Render scenes with Blender's Cycles: the optional package bpy (GPL-3), always in a separate process.

Choice: 16 samples and denoising, which is within noise of 512 samples (43 dB) at a thirtieth of the cost.
`prefilter="fast"` lets the denoiser filter its guides together with the image, which is cheaper for small
images.
"""

import functools
import json
import multiprocessing
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from jaxtyping import Int, UInt8
from PIL import Image

from lcs_utils.checks import check_choice, check_count, check_flag
from lcs_utils.clevr import tracer
from lcs_utils.clevr.annotations import picture_size
from lcs_utils.clevr.scenes import check_scenes

SCRIPT = Path(__file__).with_name("blender_script.py")
PREFILTERS = ("accurate", "fast", "none")  # Blender's names for how the denoiser's guides are filtered
PYTHON_VARIABLE = "LCS_BPY_PYTHON"  # an interpreter that can import bpy, if it is not this one
PATIENCE = 120  # seconds that importing bpy may take; it takes one or two
# Blender's normal exit can wait forever for one of its threads.
PROBE = "import os, bpy; print(bpy.app.version_string, flush=True); os._exit(0)"


def job(
    scene,
    resolution: int | tuple[int, int],
    samples: int,
    threads: int,
    image: Path,
    masks: Path | None,
    prefilter: str,
) -> dict:
    """Plain numbers from which `blender_script.py` rebuilds and renders one scene."""
    objects = [
        {
            "shape": o.world.shapes[o.shape].solid,
            "stretch": o.world.shapes[o.shape].stretch,
            "material": o.world.materials[o.material].kind,
            "roughness": o.world.materials[o.material].roughness,
            "radius": o.radius,
            "location": o.coords,
            "rotation": o.rotation,
            "rgb": [c / 255 for c in o.world.colors[o.color]],
        }
        for o in scene.objects
    ]
    return {
        "objects": objects,
        "floor": tracer.FLOOR_LINE.tolist(),
        "camera": scene.camera.location,
        "target": scene.camera.target,
        "focal": scene.camera.focal,
        "size": picture_size(resolution),
        "samples": samples,
        "denoise": True,
        "prefilter": prefilter.upper(),
        "lamps": {"key": scene.lamps.key, "fill": scene.lamps.fill, "back": scene.lamps.back},
        "threads": threads,
        "image": str(image),
        "masks": str(masks) if masks else None,
    }


def check_bpy() -> tuple[str, str]:
    """The Python interpreter that has bpy, and Blender's version (4.2 to 5.0). Raises RuntimeError, with
    install instructions, if there is none.
    """
    python = os.environ.get(PYTHON_VARIABLE, sys.executable)
    return python, _blender_version(python)


@functools.cache
def _blender_version(python):
    """The version of the Blender that `python` has, asked once; errors are not kept."""
    install = (
        "install it with pip install 'bpy>=4.2,<5.1' (370 MB, Python 3.11), or name an interpreter that "
        "has it in the variable "
        f"{PYTHON_VARIABLE}"
    )
    try:
        probe = subprocess.run([python, "-c", PROBE], capture_output=True, text=True, timeout=PATIENCE)
    except subprocess.TimeoutExpired:
        raise RuntimeError(
            f"{python} did not import bpy (Blender) within {PATIENCE} s; try again when the machine is less "
            f"busy, or {install}"
        ) from None
    except OSError as error:
        raise RuntimeError(f"{python} cannot be run ({error.strerror}); {install}") from None
    if probe.returncode:
        raise RuntimeError(f"{python} cannot import bpy (Blender); {install}")
    version = re.search(r"^((\d+)\.(\d+)(\.\d+)?)( [A-Z][A-Za-z ]*)?$", probe.stdout, re.MULTILINE)
    if version is None or not (4, 2) <= (int(version[2]), int(version[3])) < (5, 1):
        raise RuntimeError(f"{python} has Blender {probe.stdout.strip() or '?'}, not 4.2 to 5.0; {install}")
    return version[1]


def _run_blender(command):
    """Run Blender so that it ends, between two images, when this process does: it watches a pipe of which we
    hold one end.
    """
    theirs, ours = os.pipe()
    try:
        return subprocess.run(command, stdin=theirs, capture_output=True, text=True)
    finally:
        os.close(theirs)
        os.close(ours)


def render_cycles(
    scenes,
    resolution: int | tuple[int, int],
    samples: int = 16,
    threads: int | None = None,
    prefilter: str = "accurate",
    masks: bool = True,
) -> tuple[UInt8[np.ndarray, "batch height width 3"], Int[np.ndarray, "batch height width"] | None]:
    """Render scenes with Blender's Cycles: images and object indices (-1: floor; None without `masks`). Takes
    1 to 2 core-seconds per 128 px image.

    Raises RuntimeError as `check_bpy` does, and with Blender's own output if a render fails; ValueError for
    an unknown prefilter, and as `render`; TypeError for arguments of the wrong type.
    """
    scenes = check_scenes(scenes)
    picture_size(resolution)
    check_count("samples", samples, 1)
    if threads is not None:
        check_count("threads", threads, 1)
    check_choice("prefilter", prefilter, PREFILTERS)
    check_flag("masks", masks)
    python, _ = check_bpy()
    if not scenes:
        width, height = picture_size(resolution)
        empty = np.zeros((0, height, width, 3), np.uint8)
        return empty, empty[..., 0].astype(np.int64) if masks else None
    with tempfile.TemporaryDirectory() as folder:
        names = [
            (Path(folder) / f"{i}.png", Path(folder) / f"{i}_masks.png" if masks else None)
            for i in range(len(scenes))
        ]
        # workers share the cores
        threads = threads or (os.cpu_count() if multiprocessing.parent_process() is None else 1)
        jobs = [
            job(s, resolution, samples, threads, *n, prefilter) for s, n in zip(scenes, names, strict=True)
        ]
        (Path(folder) / "jobs.json").write_text(json.dumps(jobs))
        run = _run_blender([python, str(SCRIPT), f"{folder}/jobs.json"])
        if run.returncode or not all(image.exists() for image, _ in names):
            raise RuntimeError(f"Blender failed: {(run.stderr or run.stdout)[-800:]}")
        images = [np.asarray(Image.open(image).convert("RGB")) for image, _ in names]
        ids = [
            np.asarray(Image.open(path).convert("RGB"))[..., 0].astype(np.int64) - 1
            for _, path in names
            if path
        ]
    return np.stack(images), np.stack(ids) if masks else None
