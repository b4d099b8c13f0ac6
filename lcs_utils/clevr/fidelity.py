"""How close the fast renderer comes to Cycles, on 24 stored reference images: `python -m
lcs_utils.clevr.fidelity`.
"""

import argparse

import numpy as np
from jaxtyping import Float, UInt8
from PIL import Image

from lcs_utils import paths, store
from lcs_utils.checks import check_array, check_count
from lcs_utils.clevr.render import object_ids, render
from lcs_utils.clevr.scene_json import read_scenes, write_scenes
from lcs_utils.clevr.scenes import sample_scene

REFERENCES = paths.SCENES / "cycles"
REFERENCE_SEED, COUNTS, RESOLUTION, SAMPLES = 24, tuple(1 + i % 10 for i in range(24)), 128, 64
MIN_MASK_PIXELS = 20  # smaller visible parts say nothing about a mask


def check_images(a: np.ndarray, b: np.ndarray) -> None:
    """Raise TypeError or ValueError unless both are 8-bit images of the same size."""
    for name, image in (("a", a), ("b", b)):
        check_array(name, image, ("height", "width", 3), "byte")
    if a.shape != b.shape or not a.size:
        raise ValueError(f"two images must have one size, got {list(a.shape)} and {list(b.shape)}")


def psnr(a: UInt8[np.ndarray, "height width 3"], b: UInt8[np.ndarray, "height width 3"]) -> float:
    """Peak signal-to-noise ratio in dB of two 8-bit images. Raises as `check_images`."""
    check_images(a, b)
    return float(10 * np.log10(255**2 / max(((a.astype(float) - b) ** 2).mean(), 1e-12)))


def ssim(
    a: UInt8[np.ndarray, "height width 3"], b: UInt8[np.ndarray, "height width 3"], window: int = 7
) -> float:
    """Structural similarity (Wang et al. 2004) of two 8-bit images, uniform windows, mean over pixels and
    channels. Raises as `check_images`, and for a window that is larger than the image.
    """
    check_images(a, b)
    check_count("window", window, 1, min(a.shape[:2]))

    def mean(x):
        return np.lib.stride_tricks.sliding_window_view(x, (window, window), (0, 1)).mean((-2, -1))

    x, y = a.astype(float), b.astype(float)
    mx, my = mean(x), mean(y)
    vx, vy, cov = mean(x * x) - mx * mx, mean(y * y) - my * my, mean(x * y) - mx * my
    c1, c2 = (0.01 * 255) ** 2, (0.03 * 255) ** 2
    return float(((2 * mx * my + c1) * (2 * cov + c2) / ((mx * mx + my * my + c1) * (vx + vy + c2))).mean())


def mask_ious(a: np.ndarray, b: np.ndarray) -> list[float]:
    """IoU of each object in two index images (-1: floor) of the same size; objects that are small in both are
    left out. Raises TypeError unless both are arrays of whole numbers, ValueError for two sizes.
    """
    for name, ids in (("a", a), ("b", b)):
        check_array(name, ids, ("height", "width"), "whole")
    if a.shape != b.shape or not a.size:
        raise ValueError(f"two index images must have one size, got {list(a.shape)} and {list(b.shape)}")
    shares = []
    for k in range(int(max(a.max(), b.max())) + 1):
        in_a, in_b = a == k, b == k
        if max(in_a.sum(), in_b.sum()) >= MIN_MASK_PIXELS:
            shares.append(float((in_a & in_b).sum() / (in_a | in_b).sum()))
    return shares


def load_references():
    """The reference scenes with Cycles' images [24, 128, 128, 3] and object indices [24, 128, 128].

    Raises FileNotFoundError naming the command that makes them.
    """
    if not (REFERENCES / "scenes.json").exists():
        command = "python -m lcs_utils.clevr.fidelity --references"
        raise FileNotFoundError(f"{REFERENCES} is missing; make it with {command}")
    scenes = read_scenes(REFERENCES / "scenes.json")
    images = np.stack([np.asarray(Image.open(REFERENCES / f"{i:02d}.png")) for i in range(len(scenes))])
    masks = np.stack(
        [np.asarray(Image.open(REFERENCES / f"{i:02d}_objects.png")) for i in range(len(scenes))]
    )
    return scenes, images, masks.astype(np.int64) - 1


def write_references(images, masks, scenes) -> None:
    """Store Cycles' images, object indices (stored + 1) and the scenes."""
    for i in range(len(scenes)):
        for name, array in (
            (f"{i:02d}.png", images[i]),
            (f"{i:02d}_objects.png", (masks[i] + 1).astype(np.uint8)),
        ):
            with store.atomic_path(REFERENCES / name) as temporary:
                Image.fromarray(array).save(temporary, format="PNG", optimize=True)
    write_scenes(REFERENCES / "scenes.json", scenes, "reference", RESOLUTION, RESOLUTION)


def reference_scenes():
    """The 24 fixed scenes, of 1 to 10 objects."""
    return [sample_scene(REFERENCE_SEED, i, n) for i, n in enumerate(COUNTS)]


def compare(antialias: int = 3) -> dict[str, Float[np.ndarray, "..."]]:
    """Per reference scene: psnr (dB), ssim, bias per channel (gray levels, fast - Cycles); all mask IoUs."""
    scenes, images, masks = load_references()
    fast = render(scenes, RESOLUTION, antialias)
    return {
        "psnr": np.array([psnr(a, b) for a, b in zip(fast, images, strict=True)]),
        "ssim": np.array([ssim(a, b) for a, b in zip(fast, images, strict=True)]),
        "bias": (fast.astype(float) - images).mean((1, 2)),
        "iou": np.concatenate(
            [mask_ious(object_ids(s, RESOLUTION), m) for s, m in zip(scenes, masks, strict=True)]
        ),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--references", action="store_true", help="render the references again (needs bpy)")
    parser.add_argument("--antialias", type=int, default=3)
    options = parser.parse_args()
    if options.references:
        from lcs_utils.clevr.blender import render_cycles

        write_references(*render_cycles(reference_scenes(), RESOLUTION, SAMPLES), reference_scenes())
    found = compare(options.antialias)
    for name in ("psnr", "ssim", "iou"):
        print(f"{name}: mean {found[name].mean():.4f}, lowest {found[name].min():.4f}, of {len(found[name])}")
    print("bias (red, green, blue):", " ".join(f"{b:+.2f}" for b in found["bias"].mean(0)))


if __name__ == "__main__":
    main()
