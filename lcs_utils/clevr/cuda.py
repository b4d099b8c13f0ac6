"""The kernels of `pixels` on an NVIDIA GPU, through numba's CUDA target: a batch of scenes in one launch.

A block of threads owns a tile of one image. It first finds each pixel's kind, then gives every sample a
thread of its own, pixels of one kind together, so that neighboring threads do the same work; a pixel's
samples are added in the CPU's order.

Choice: float64, as on the CPU, so that images differ at most by the last bits of sin, exp and pow. Counted,
not timed on a GPU: 10 million float operations an image (64 px, 2x2 samples), at most 70% of a warp's
threads busy, 255 registers a thread; 30,000 images a second would take 8% of an H200's float64 rate
(`benchmarks/renderer.py cuda`).
"""

import numpy as np
from jaxtyping import UInt8
from numba import cuda
from numba.extending import overload

from lcs_utils.clevr.pixels import candidate_objects, check, patterns, pixel_kind, pixel_sample, to_byte
from lcs_utils.clevr.scenes import pack
from lcs_utils.clevr.shading import fill_lamps
from lcs_utils.clevr.tracer import fill_boxes, fill_view

THREADS = 128  # per block; at least the 64 samples that antialias 4 gives to a silhouette
SIDE = 16  # pixels along a tile's side
TILE = SIDE * SIDE
BATCH_BYTES = 2**29  # of images per launch

# numba from 0.66 on, without numba-cuda, cannot compile min and max of two numbers
if cuda.implementation == "Built-in":

    @overload(min, target="cuda")
    def _least(a, b):
        return lambda a, b: a if a < b else b

    @overload(max, target="cuda")
    def _greatest(a, b):
        return lambda a, b: a if a > b else b


@cuda.jit(cache=True, fastmath=True)
def _prepare(objects, counts, cameras, lamps, size, axes, frames, boxes):
    """Camera axes, lamps and pixel rectangles of each scene, one thread each."""
    s = cuda.grid(1)
    if s < len(counts):
        camera = cameras[s]
        fill_lamps(lamps[s], axes[s], frames[s])
        fill_view(camera, axes[s])
        fill_boxes(objects[s], counts[s], camera, axes[s], camera[3], camera[4], size[0], size[1], boxes[s])


@cuda.jit(cache=True, fastmath=True)
def _render(objects, counts, cameras, axes, frames, boxes, size, center, coarse, fine, images):
    # one statement per line: numba's simulator tells shared arrays apart by their line number
    queue = cuda.shared.array((3, TILE), np.int64)
    length = cuda.shared.array(3, np.int32)
    candidates = cuda.shared.array(TILE, np.int64)
    colors = cuda.shared.array((THREADS, 3), np.float64)
    thread = cuda.threadIdx.x
    across, down = (size[0] + SIDE - 1) // SIDE, (size[1] + SIDE - 1) // SIDE
    s, tile = cuda.blockIdx.x // (across * down), cuda.blockIdx.x % (across * down)
    left, top = tile % across * SIDE, tile // across * SIDE
    rows, n, camera = objects[s], counts[s], cameras[s]
    if thread < 3:
        length[thread] = 0
    cuda.syncthreads()
    for pixel in range(thread, TILE, THREADS):
        column, row = left + pixel % SIDE, top + pixel // SIDE
        if column < size[0] and row < size[1]:
            found = candidate_objects(column, row, boxes[s], n)
            kind = pixel_kind(column, row, size, camera, axes[s], frames[s], rows, n, found, coarse)
            candidates[pixel] = found
            queue[kind, cuda.atomic.add(length, kind, 1)] = pixel
    cuda.syncthreads()
    for kind in range(3):
        offsets = center if kind == 0 else (coarse if kind == 1 else fine)
        samples = len(offsets) * len(offsets)
        at_once, i = THREADS // samples, thread % samples
        for start in range(0, length[kind], at_once):
            place = start + thread // samples
            busy = thread < at_once * samples and place < length[kind]
            if busy:
                pixel = queue[kind, place]
                column, row = left + pixel % SIDE, top + pixel // SIDE
                found = candidates[pixel]
                colors[thread, 0], colors[thread, 1], colors[thread, 2] = pixel_sample(
                    column, row, i, offsets, kind > 0, size, camera, axes[s], frames[s], rows, n, found
                )
            cuda.syncthreads()
            if busy:
                for c in range(i, 3, samples):  # the first three threads of a pixel, or its only one
                    total = 0.0
                    for other in range(samples):
                        total += colors[thread - i + other, c]
                    images[s, row, column, c] = to_byte(total / samples)
            cuda.syncthreads()


def check_device():
    """Raise RuntimeError, saying what is missing and what to do, unless numba can run kernels on a
    GPU here.
    """
    if not cuda.is_available():
        reason = (cuda.cuda_error() or "numba finds no libNVVM").strip().splitlines()[0].rstrip(".")
        raise RuntimeError(
            f"backend 'cuda' needs an NVIDIA GPU with its driver, and libNVVM ({reason}); install the "
            "latter with "
            "pip install -e '.[cuda]', or use backend 'fast', which gives the same images on the CPU"
        )


def render_on_device(packed, resolution: int | tuple[int, int], antialias: int = 3):
    """Images [batch, height, width, 3] (sRGB bytes) of scenes packed by `scenes.pack`, left in the GPU's
    memory.

    The array has `__cuda_array_interface__`: `torch.as_tensor(images, device="cuda")` shares it without a
    copy. The call returns once the work is queued on the default stream. Raises ValueError as `render`
    does, RuntimeError without a GPU.
    """
    size = check(resolution, antialias)
    check_device()
    objects, counts, cameras, lamps = (cuda.to_device(array) for array in packed)
    batch, most, _ = objects.shape
    axes, frames = cuda.device_array((batch, 3, 3)), cuda.device_array((batch, 3, 12))
    boxes = cuda.device_array((batch, most, 4), np.int64)
    images = cuda.device_array((batch, size[1], size[0], 3), np.uint8)
    if batch:
        tiles = -(-size[0] // SIDE) * -(-size[1] // SIDE)
        offsets = [cuda.to_device(pattern) for pattern in patterns(antialias)]
        _prepare[-(-batch // THREADS), THREADS](objects, counts, cameras, lamps, size, axes, frames, boxes)
        _render[batch * tiles, THREADS](objects, counts, cameras, axes, frames, boxes, size, *offsets, images)
    return images


def render_cuda(
    scenes, resolution: int | tuple[int, int], antialias: int
) -> UInt8[np.ndarray, "batch height width 3"]:
    """Render scenes on the GPU and copy the images to the host, at most BATCH_BYTES per launch.

    Raises RuntimeError without a GPU.
    """
    check_device()
    width, height = check(resolution, antialias)
    images = np.empty((len(scenes), height, width, 3), np.uint8)
    step = max(1, BATCH_BYTES // (3 * height * width))
    for start in range(0, len(scenes), step):
        packed = pack(scenes[start : start + step])
        render_on_device(packed, resolution, antialias).copy_to_host(images[start : start + step])
    return images
