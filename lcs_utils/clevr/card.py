"""The dataset card (README.md of a folder of shards), a function of its settings; and object counts as text."""

import argparse
import json

from lcs_utils.clevr.annotations import EXTRAS, picture_size
from lcs_utils.clevr.scenes import MAX_OBJECTS, MIN_VISIBLE_PIXELS
from lcs_utils.clevr.world import CLEVR, FRAME, LENS_MM, SENSOR_MM, World

ARRAYS = {  # r: height, width; m: objects; c: names of the colors
    "images": "uint8 [n, 3, {r}], sRGB",
    "locations": "float32 [n, {m}, 2], object centers, x right, y down, the image is [0, 1]; NaN: no object",
    "colors": "int8 [n, {m}], index into {c}; -1: no object",
    "n_objects": "int8 [n]",
    "masks": "int8 [n, {r}], index of the object seen at each pixel center; -1: floor",
    "depth": "float32 [n, {r}], scene units along the view axis at each pixel center",
    "boxes": "int16 [n, {m}, 4], x0, y0, x1, y1 in pixels around what is seen, ends excluded; -1: no "
    "object, or hidden",
}
CROP = {  # of square images of CLEVR's own world
    "center": "the central 240x240 of CLEVR's 320x240 frame",
    "squash": "the whole 320x240 frame squeezed into a square",
    "native": "a square camera with CLEVR's 35 mm lens",
    "v1": "the whole 480x320 frame of the published images squeezed into a square",
}
SIZES = (
    (1_000, "n<1K"),
    (10_000, "1K<n<10K"),
    (100_000, "10K<n<100K"),
    (1_000_000, "100K<n<1M"),
    (10_000_000, "1M<n<10M"),
)


def format_counts(counts) -> str:
    """Object counts as the command line takes them: 1-3, or 1,2,5."""
    whole = len(counts) > 1 and list(counts) == list(range(counts[0], counts[-1] + 1))
    return f"{counts[0]}-{counts[-1]}" if whole else ",".join(map(str, counts))


def parse_counts(text: str) -> tuple[int, ...]:
    """Inverse of `format_counts`, for argparse: 2, 1-3 or 1,4. Raises ArgumentTypeError."""
    try:
        ranges = [
            (int(low), int(high or low))
            for low, _, high in (piece.partition("-") for piece in text.split(","))
        ]
        if max(high for _, high in ranges) > MAX_OBJECTS:
            raise argparse.ArgumentTypeError(f"object counts must lie in 0..{MAX_OBJECTS}, got {text!r}")
        for low, high in ranges:
            if low > high:
                raise argparse.ArgumentTypeError(
                    f"object counts: the range {low}-{high} in {text!r} ends below its start; "
                    f"write {high}-{low}"
                )
        return tuple(n for low, high in ranges for n in range(low, high + 1))
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"{text!r} is neither a number, a range like 1-3 nor a list like 1,3"
        ) from None


def format_size(resolution) -> str:
    """A resolution as text: 64, or 480x320 (width x height)."""
    return str(resolution) if isinstance(resolution, int) else "x".join(map(str, resolution))


def parse_size(text: str) -> int | tuple[int, int]:
    """Inverse of `format_size`, for argparse. Raises ArgumentTypeError."""
    try:
        sides = tuple(map(int, text.split("x")))
        if len(sides) <= 2:
            return sides[0] if len(sides) == 1 else sides
        raise ValueError
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"{text!r} is neither a side like 64 nor a size like 480x320"
        ) from None


def parse_part(text: str) -> tuple[int, int]:
    """Parse i/n for argparse. Raises ArgumentTypeError."""
    try:
        i, n = map(int, text.split("/"))
        return i, n
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a part like 2/8") from None


def command(settings: dict) -> str:
    """The command that reproduces a folder with these settings, to the byte."""
    words = [f"--objects {format_counts(settings['counts'])}", f"--per-count {settings['per_count']}"]
    words += [f"--resolution {format_size(settings['resolution'])}"]
    words += [
        f"--{name.replace('_', '-')} {settings[name]}" for name in ("antialias", "seed", "shard_size", "crop")
    ]
    flags = (
        ("margins", False, "--no-margins"),
        ("visibility", False, "--no-visibility"),
        ("require_centers_inside", True, "--centers-inside"),
    )
    words += [flag for name, value, flag in flags if settings[name] == value]
    words += [f"--backend {settings['backend']}"] if "backend" in settings else []
    words += ["--world WORLD.json"] if "world" in settings else []
    words += [f"--with {' '.join(settings['extras'])}"] if settings.get("extras") else []
    return f"python -m lcs_utils.clevr.dataset {' '.join(words)} --out FOLDER"


def visible_threshold(resolution: int | list[int], crop: str, world: World = CLEVR) -> float:
    """CLEVR's 200 visible pixels of a 320x240 frame, scaled to the pixels of a `resolution` image in that
    crop.
    """
    (width, height), (fx, fy) = picture_size(resolution), world.crops[crop]
    focal = LENS_MM / SENSOR_MM * FRAME[0]  # in pixels of the frame
    return MIN_VISIBLE_PIXELS * (fx * width / focal) * (fy * height / focal)


def _rules(settings):
    """The rules that placements obey, one sentence each."""
    measured = settings["crop"] == "center" and "world" not in settings
    outside = " (in 1% of scenes with one object, 11% with six)" if measured else ""
    world = World.from_json(settings.get("world", {}))
    threshold = visible_threshold(settings["resolution"], settings["crop"], world)
    return [
        "The circles of the objects' radii are at least 0.25 apart (a cube's corners reach a third beyond its "
        "circle), centers at least 0.4 along left/right and front/behind."
        if settings["margins"]
        else "The circles of the objects' radii do not overlap; cubes may touch or intersect at their corners. "
        "CLEVR's margins are switched off.",
        f"Every object shows at least {MIN_VISIBLE_PIXELS} pixels of CLEVR's 320x240 frame, whatever the "
        "resolution and the "
        f"crop (about {threshold:.1f} pixels here)."
        if settings["visibility"]
        else "Objects may be hidden: no visibility test.",
        "Every center lies in the image."
        if settings["require_centers_inside"]
        else f"A center may lie outside the image{outside}.",
    ]


def _crop(settings) -> str:
    """What the image shows; its focal lengths where the words of CROP would not fit."""
    name = settings["crop"]
    if isinstance(settings["resolution"], int) and "world" not in settings:
        return CROP[name]
    fx, fy = World.from_json(settings.get("world", {})).crops[name]
    return f"the crop {name}, with a focal length of {fx:.4g} times its width and {fy:.4g} times its height"


def _world(settings) -> str:
    """The world as JSON, if it is not CLEVR."""
    if "world" not in settings:
        return ""
    return (
        "- Colors, sizes, shapes, materials, crops or camera are not CLEVR's: this is WORLD.json\n\n```json\n"
        f"{json.dumps(settings['world'])}\n```\n"
    )


def _drawn_by(settings) -> str:
    """Which renderer made the images, and how it differs from the original."""
    if settings.get("backend") == "cycles":
        return (
            "like the original, images come from Blender's Cycles, with 16 samples and denoising, "
            "antialias unused"
        )
    on = (
        ", on an NVIDIA GPU, which may differ from the processor in single bytes"
        if settings.get("backend") == "cuda"
        else ""
    )
    return (
        f"images come from an analytic renderer (look {settings['look']}){on}, not from Blender; against "
        "Cycles on 24\n"
        "scenes at 128 px its mean PSNR is above 38 dB (`python -m lcs_utils.clevr.fidelity` measures it)"
    )


def front_matter(settings: dict, splits) -> str:
    """The YAML header for `datasets` and the Hub: license, size, and the Parquet files of each split."""
    total = settings["per_count"] * len(settings["counts"])
    size = next((name for limit, name in SIZES if total < limit), "10M<n<100M")
    files = "\n".join(f"  - split: {name}\n    path: {name}-*.parquet" for name in splits)
    return f"""---
license: cc-by-4.0
pretty_name: {_title(settings)}
size_categories:
- {size}
tags:
- clevr
- synthetic
- compositional-generalization
configs:
- config_name: default
  data_files:
{files}
---
"""


def _title(settings):
    return f"CLEVR scenes with {format_counts(settings['counts'])} objects at {format_size(settings['resolution'])} px"


def _shard_files(settings):
    """The section on the files of a folder of shards."""
    extras = settings.get("extras", ())
    width, height = picture_size(settings["resolution"])
    world = World.from_json(settings.get("world", {}))
    rows = [
        f"| `{name}` | {text.format(r=f'{height}, {width}', m='m', c=', '.join(world.colors))} |"
        for name, text in ARRAYS.items()
        if name not in EXTRAS or name in extras
    ]
    return f"""## Files

`<count>_objects_<first>.npz` holds up to {settings["shard_size"]:,} images of m = `<count>` objects. Beside it `.jsonl` holds their scenes in
the same order, one JSON object per line, from which an image can be made again (`ShardDataset.scene` and
`lcs_utils.clevr.scene_json` give CLEVR's own dictionary of it, with `pixel_coords`, `relationships` and each object's
`visible_pixels`), and `.json` the SHA-256 of both files. `manifest.json` holds the settings.

| array | |
|---|---|
{chr(10).join(rows)}

```python
from lcs_utils.clevr.loading import ShardDataset, to_huggingface
data = ShardDataset("FOLDER")        # a torch Dataset; reads single images from disk
table = to_huggingface("FOLDER")     # a datasets.Dataset
```

For anybody's tools, `python -m lcs_utils.clevr.parquet FOLDER OUT` writes Parquet files (pictures as PNG, labels, scenes;
splits, shuffled over the object counts), which `datasets.load_dataset("OUT")` and pandas open."""


def _parquet_files(splits):
    """The section on the files of a folder that `parquet` wrote."""
    rows = ", ".join(f"{number:,} in `{name}`" for name, number in splits.items())
    return f"""## Files

Parquet files: {rows}; images of all object counts in one random order. Columns: `image` (PNG), and with one entry for
each object `locations` (centers, x right, y down, the image is [0, 1]) and `colors`; `n_objects`; `masks`, `depth` and
`boxes` where they were asked for; `scene`, JSON from which the image can be made again.

```python
import datasets
table = datasets.load_dataset("FOLDER")   # every split; pandas.read_parquet opens single files
```"""


def card(settings: dict, splits: dict[str, int] | None = None) -> str:
    """The card as Markdown, for shards or, given the number of rows of each split, for Parquet files; the
    Hugging Face Hub also needs `front_matter` before it.
    """
    counts, per_count = settings["counts"], settings["per_count"]
    exactly = "" if "backend" in settings else ", to the byte,"  # runs of the other two were not compared
    total = per_count * len(counts)
    files = _shard_files(settings) if splits is None else _parquet_files(splits)
    return f"""# {_title(settings)}

{total:,} images: {per_count:,} for each of the object counts {", ".join(map(str, counts))}. Every image
has exactly its number of objects and is a function of the seed, its object count and its index. Made{exactly} by

    {command(settings)}

{files}

## How the scenes came about

CLEVR's procedure (Johnson et al. 2017) with its constants: camera and lamp jitter, uniform sizes, shapes, materials
and colors, placement by rejection.

{chr(10).join("- " + rule for rule in _rules(settings))}
- The image is {_crop(settings)}.
{_world(settings)}
Kept from the original, and good to know:
- cubes have a half edge (not a half diagonal) equal to the size's radius, so they look larger than spheres;
- `rotation` is a number of degrees that the original renderer reads as radians;
- `directions` and `relationships` are those of the camera without jitter, `pixel_coords` those of the jittered camera.

Origin: {_drawn_by(settings)}. There are no questions.

## License

The images and scenes contain nothing of the published CLEVR files and are free under CC BY 4.0. Please cite CLEVR
(Johnson et al., CVPR 2017), whose scenes these are.
"""
