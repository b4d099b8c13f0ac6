"""The GPU's kernels: run thread by thread in numba's simulator against the processor's images, and
compiled.
"""

import os
import subprocess
import sys
import types
import warnings
from dataclasses import replace

import numpy as np
import pytest
from numba import cuda
from numba import types as numba_types
from numba.core.errors import TypingError
from numba.cuda.cudadrv import nvvm

from lcs_utils import paths
from lcs_utils.clevr.render import render
from lcs_utils.clevr.scenes import Camera, Scene, SceneObject, sample_scene
from lcs_utils.clevr.world import Material, Shape, World

CROWD = Scene(
    (
        SceneObject("sphere", "large", "metal", "red", (0.0, 1.5, 0.7), 0.0),
        SceneObject("cube", "large", "rubber", "cyan", (1.0, -1.5, 0.7), 0.5),
        SceneObject("cylinder", "large", "metal", "yellow", (-1.5, 0.0, 0.7), 0.0),
        SceneObject("sphere", "small", "rubber", "blue", (2.0, 0.5, 0.35), 0.0),
    )
)
RECOLORED = replace(CROWD, objects=(*CROWD.objects[:3], replace(CROWD.objects[3], color="green")))
WORLD = World(
    shapes={"egg": Shape("sphere", (0.6, 0.6, 1.4)), "brick": Shape("cube", (1.2, 0.5, 0.4))},
    materials={"satin": Material("metal", 0.4)},
)
STRETCHED = Scene(
    tuple(
        SceneObject(shape, "large", "satin", "red", place, 0.4, world=WORLD)
        for shape, place in (("egg", (0.0, 1.2, 0.98)), ("brick", (0.5, -1.5, 0.28)))
    ),
    Camera(crop="wide", focal=(1.1, 2.4), target=(0.0, 0.0, 0.4)),
)
SCENES = [CROWD, Scene(()), RECOLORED]
RESOLUTION, ANTIALIAS = 18, 2  # over one tile of 16 pixels, so that blocks reach past the image


def float_array(dimensions):
    return numba_types.Array(numba_types.float64, dimensions, "C")


def int_array(dimensions):
    return numba_types.Array(numba_types.int64, dimensions, "C")


def test_the_simulated_kernels_give_the_processors_bytes(tmp_path):
    # numba chooses its simulator when it is imported, hence a process of its own
    environment = os.environ | {
        "NUMBA_ENABLE_CUDASIM": "1",
        "NUMBA_DISABLE_JIT": "1",
        "PYTHONPATH": str(paths.ROOT),
    }
    subprocess.run([sys.executable, __file__, str(tmp_path / "images.npy")], env=environment, check=True)
    found, expected = np.load(tmp_path / "images.npy"), render(SCENES, RESOLUTION, ANTIALIAS)
    assert np.array_equal(found, expected)
    assert found[0].std() > 15 and not np.array_equal(found[0], found[1])
    oblong = np.load(tmp_path / "oblong.npy")
    assert np.array_equal(oblong, render([STRETCHED], (20, 9), ANTIALIAS)) and oblong.std() > 15
    apart = (found[0] != expected[2]).any(-1)  # one small ball has another color
    assert 4 <= apart.sum() < 0.3 * apart.size
    assert not np.array_equal(found, render(SCENES, RESOLUTION, ANTIALIAS - 1))


@pytest.mark.skipif(
    not nvvm.is_available(), reason="numba finds no libNVVM (a CUDA toolkit, or numba-cuda's extra)"
)
def test_the_kernels_compile_for_an_h200(monkeypatch):
    from numba.cuda import dispatcher

    from lcs_utils.clevr import cuda as kernels

    monkeypatch.setattr(
        dispatcher, "get_current_device", lambda: types.SimpleNamespace(compute_capability=(9, 0))
    )
    scenes = float_array(3), int_array(1), float_array(2)
    geometry = float_array(3), float_array(3), int_array(3)
    patterns, images = (float_array(1),) * 3, numba_types.Array(numba_types.uint8, 4, "C")
    size = numba_types.UniTuple(numba_types.int64, 2)
    for kernel, signature in (
        (kernels._prepare, (*scenes, float_array(3), size, *geometry)),
        (kernels._render, (*scenes, *geometry, size, *patterns, images)),
    ):
        text, _ = cuda.compile_ptx(kernel.py_func, signature, cc=(9, 0), fastmath=True, opt=False)
        assert ".target sm_90" in text and ".visible .entry" in text and kernel.py_func.__name__ in text
        assert "malloc" not in text and "NRT" not in text

    def allocates(out):  # what the kernels must not do
        out[0] = np.empty(3)[0]

    with pytest.raises((TypeError, TypingError)):
        cuda.compile_ptx(allocates, (float_array(1),), cc=(9, 0))


def test_without_a_gpu_an_error_says_what_to_do(monkeypatch):
    monkeypatch.setattr(cuda, "is_available", lambda: False)
    with pytest.raises(
        RuntimeError, match=r"needs an NVIDIA GPU.*pip install -e '\.\[cuda\]', or use backend 'fast'"
    ):
        render([CROWD], 32, backend="cuda")
    with pytest.raises(ValueError, match="antialias must be one of"):
        render([CROWD], 32, 5, backend="cuda")
    with pytest.raises(ValueError, match="unknown backend 'gpu'; allowed: fast, cuda, cycles"):
        render([CROWD], 32, backend="gpu")


@pytest.mark.skipif(not cuda.is_available(), reason="no GPU")
@pytest.mark.parametrize("resolution", [18, 64])
@pytest.mark.parametrize("antialias", [1, 2, 3, 4])
def test_a_gpu_gives_the_processors_images(resolution, antialias):
    scenes = [*SCENES, *(sample_scene(1, i, 1 + i % 10) for i in range(40))]
    here, there = render(scenes, resolution, antialias), render(scenes, resolution, antialias, "cuda")
    apart = np.abs(here.astype(int) - there)
    assert (apart > 0).mean() < 1e-4 and np.quantile(apart, 1 - 1e-5) <= 1


if __name__ == "__main__":
    warnings.simplefilter("ignore")  # numpy's, of unsigned numbers that wrap in the pixels' hash
    np.save(sys.argv[1], render(SCENES, RESOLUTION, ANTIALIAS, "cuda"))
    oblong = render([STRETCHED], (20, 9), ANTIALIAS, "cuda")
    np.save(sys.argv[1].replace("images", "oblong"), oblong)
