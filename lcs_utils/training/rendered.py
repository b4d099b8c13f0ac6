"""The rendered scenes of an experiment: render what is missing, verify checksums once, load."""

import hashlib
import json
import os
from functools import lru_cache
from pathlib import Path

import torch

from lcs_utils import own, paths, store
from lcs_utils.checks import check_kind, check_tensor, shown
from lcs_utils.clevr import conditions, dataset
from lcs_utils.clevr.loading import ShardDataset
from lcs_utils.clevr.manifest import read_settings
from lcs_utils.experiments import Experiment, scene_counts
from lcs_utils.presets import PRESETS, Preset
from lcs_utils.training.data import Data
from lcs_utils.training.images import ImagesOnDisk, within

LOOKED_AT = 256  # images hashed to identify custom data: all of 74 GB would take minutes
OUTSIDE = 0.5  # of an image's side: how far outside it an object's center may lie


def cores() -> int:
    """Number of cores that this process may use; on macOS, which does not tell, all of the machine's."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def verify_once(folder: Path, counts) -> None:
    """Check the SHA-256 of the shards if any was written since the last check, so that not every start reads
    147 GB.

    Processes take turns and do not repeat each other's checks. Only `python -m lcs_utils.clevr.dataset
    --verify` finds a file that a disk altered without a write. Raises as `dataset.verify`.
    """
    mark = _mark(folder)
    with store.exclusive(mark):
        now, checked = _stamps(folder, counts), _checked(mark)
        if any(checked.get(name) != stamp for name, stamp in now.items()):
            dataset.verify(folder, counts)
            store.write_json(mark, checked | now)


def verified(folder: Path, counts) -> bool:
    """Whether all shards of these object counts exist, unchanged since they were last checked."""
    try:
        checked = _checked(_mark(folder))
        return all(checked.get(name) == stamp for name, stamp in _stamps(folder, counts).items())
    except (OSError, ValueError):  # something is missing
        return False


def _mark(folder: Path) -> Path:
    return paths.RUNS / "verified" / (paths.shown(folder).strip("/").replace("/", "_") + ".json")


def _stamps(folder: Path, counts) -> dict[str, list[int]]:
    shards = dataset.verify(folder, counts, checksums=False)
    files = [file for path in shards for file in (path, path.with_suffix(".jsonl")) if file.exists()]
    return {file.name: [file.stat().st_size, file.stat().st_mtime_ns] for file in files}


def _checked(mark: Path) -> dict[str, list[int]]:
    try:
        return json.loads(mark.read_text())
    except (OSError, ValueError):  # not there or broken: nothing was checked
        return {}


def scenes_folder(size: Preset, counts) -> Path:
    """Where the scenes of a preset and some object counts are stored: runs/data, or a folder of its own for a
    trial, and for a preset of one's own with another number of scenes than ours of its pixels.
    """
    folder = dataset.default_folder(size.resolution, counts)
    first = next((p for p in PRESETS.values() if p.resolution == size.resolution), size)
    ours = size.name in PRESETS and PRESETS[size.name].per_count == first.per_count == size.per_count
    return folder if ours else paths.RUNS / size.name / "data" / folder.name


def render_scenes(exp: Experiment, size: Preset, workers: int, part: tuple[int, int] = (1, 1)) -> Path:
    """Render the missing scenes of an experiment, or of one part of them, and return their folder (resumable,
    in shards; `dataset.generate`).
    """
    folder, counts = scenes_folder(size, scene_counts(exp)), scene_counts(exp)
    what = {"seed": 0, "counts": counts, "per_count": size.per_count, "resolution": size.resolution}
    dataset.generate(folder, **what, workers=workers, part=part)
    return folder


def _as_asked(folder: Path, size: Preset) -> bool:
    made = read_settings(folder)["settings"]
    return (made["per_count"], made.get("look")) == (size.per_count, dataset.LOOK)


def load_data(exp: Experiment, size: Preset, device: torch.device, workers: int) -> Data:
    """Load the experiment's rendered scenes, after rendering missing ones and checking unchecked ones.

    Raises ValueError, naming both settings, for a folder of scenes that were rendered with other ones.
    """
    folder, here = scenes_folder(size, scene_counts(exp)), range(exp.objects[0], exp.objects[1] + 1)
    if not (verified(folder, here) and _as_asked(folder, size)):
        render_scenes(exp, size, workers)
        verify_once(folder, here)
    scenes = ShardDataset(folder, here, check=False)
    room = torch.cuda.mem_get_info(device)[0] // 2 if device.type == "cuda" else 0
    labels = (torch.from_numpy(scenes.column(name)).to(device) for name in ("locations", "colors"))
    return Data(within(ImagesOnDisk(scenes), room, device), *labels)


def described(data: Data) -> str:
    """A short description of custom data: number of images, hash of their labels and LOOKED_AT evenly spaced
    images.
    """
    n = len(data.images)
    some = data.images[torch.arange(min(n, LOOKED_AT)) * n // min(n, LOOKED_AT)]
    told = (data.locations.float().nan_to_num(-1), data.colors.to(torch.int8), some)
    digest = hashlib.sha256(b"".join(part.cpu().contiguous().numpy().tobytes() for part in told))
    return f"{n} images, hash {digest.hexdigest()[:12]}"


def own_data(exp: Experiment, size: Preset) -> Data | None:
    """An experiment's own data (`own.DATA`), loaded once; None if it is trained on rendered scenes. Raises
    ValueError for bad ones, and as `own.data_of` and the function that gives them.
    """
    give = own.data_of(exp.name)
    return None if give is None else _given(exp.name, give, json.dumps(size.stored()))


@lru_cache(1)
def _given(name: str, give, size: str) -> Data:
    preset = Preset(**json.loads(size))
    data = give(preset)
    try:
        check_data(data, preset.resolution)
    except (TypeError, ValueError) as error:
        raise ValueError(f"own.DATA[{name!r}] gives no data of {name}: {error}") from None
    return data


def own_described(exp: Experiment, size: Preset) -> str:
    """`described` of an experiment's own data, "" for rendered scenes. Raises as `own_data`."""
    data = own_data(exp, size)
    return "" if data is None else described(data)


def check_data(data: Data, resolution: int) -> None:
    """Raise TypeError or ValueError, naming what was given and what is allowed, unless a net of `resolution`
    px can be trained on the data.
    """
    check_kind("data", data, Data, "a Data of images, locations and colors")
    n = len(data.images)
    one = check_tensor("images", data.images[torch.zeros(min(n, 1), dtype=torch.long)], None, False)
    if (tuple(one.shape), one.dtype) != ((1, 3, resolution, resolution), torch.uint8):
        raise ValueError(
            f"images must be uint8 [n, 3, {resolution}, {resolution}], n at least 1; got {n} of "
            f"{list(one.shape[1:])}, {str(one.dtype).removeprefix('torch.')}"
        )
    locations = check_tensor("locations", data.locations, (n, "most", 2), finite=False)
    colors = check_tensor("colors", data.colors, tuple(locations.shape[:2]))
    there, most = colors >= 0, len(conditions.COLORS) - 1
    # rendered centers may lie just outside, centers in pixels lie far outside
    placed = (locations >= -OUTSIDE) & (locations <= 1 + OUTSIDE)
    if not bool(torch.where(there[..., None], placed, locations.isnan()).all()):
        raise ValueError(
            f"locations must be shares of the image's side, {-OUTSIDE:g} to {1 + OUTSIDE:g}, where there is "
            "a color, NaN where the color is -1"
        )
    if bool((colors < -1).any() or (colors > most).any()):
        raise ValueError(f"colors must be 0..{most}, or -1 for no object; got {shown(colors)}")
