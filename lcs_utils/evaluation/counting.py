"""Count samples with the object counter, one row per image, from new samples or from the stored sheet
(App. E.2).
"""

from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from lcs_utils import nets, paths, store
from lcs_utils.checks import check_tensor
from lcs_utils.clevr.conditions import GRID_SIZE
from lcs_utils.counter import loading, shipped
from lcs_utils.diffusion import from_uint8
from lcs_utils.evaluation import family_grids, placement
from lcs_utils.evaluation.cleanness import cleanness, takes
from lcs_utils.evaluation.rows import (
    STANDARD,
    Row,
    check_inside,
    decode,
    encode,
    read_rows,
    rows_path,
    write_rows,
)
from lcs_utils.evaluation.sheets import read_sheet
from lcs_utils.experiments import EXPERIMENTS

if TYPE_CHECKING:
    from lcs_utils.counter.net import ObjectCounter
    from lcs_utils.models.pipeline import ConditionalPipeline


def count_rows(
    images: Tensor, counter: "ObjectCounter", k: int, where: Tensor | None = None, **key
) -> list[Row]:
    """One Row per image sampled at `k` locations of `key["family"]`; `key` holds the Row fields that identify
    the net.

    `where` [n k 2] (x right, y down, in [0, 1)) replaces the locations of the family. Raises ValueError for
    locations outside the image, such as in pixels.
    """
    if where is not None:
        check_tensor("where", where, (len(images), k, 2), True, "float")
        check_inside("where", where.detach().cpu().numpy())
    seed, solver, steps = STANDARD
    key = dict(weights="", counted_by="", seed=seed, solver=solver, steps=steps) | key
    counts = counter(images)
    clean = (
        cleanness(images)
        if takes(images.shape[-1])
        else torch.full((len(images),), Row._field_defaults["cleanness"])
    )
    where = (
        family_grids.locations(key.get("family", "test"), k, len(images), key["seed"])
        if where is None
        else where
    )
    centers = [c[~c.isnan().any(-1)] for c in counts.centers.cpu()]
    rows = []
    for i in range(len(images)):
        asked, found = encode(where[i].cpu().numpy()), encode(centers[i].numpy())
        # from the stored text, so that anyone can recompute it
        placed = len(placement.assigned(decode(asked), decode(found)))
        plausibility = round(float(counts.plausibility[i]), 4)
        seen = Row(**key, k=k, sample=i, count=int(counts.count[i]), placed=placed, plausibility=plausibility)
        rows.append(seen._replace(asked=asked, centers=found, cleanness=round(float(clean[i]), 4)))
    return rows


def counter_hash(resolution: int = 32, folder: str | Path | None = None) -> str:
    """First 12 digits of the SHA-256 of a resolution's counter, or of the one in `folder`; rows of another
    counter are stale. Raises CheckpointError, with the command that trains it, if there is none.
    """
    where = shipped.folder(resolution) if folder is None else Path(folder)
    weights = where / nets.WEIGHTS.partition("/")[2]
    if not weights.exists():
        train = f"python -m lcs_utils.counter --resolution {max(resolution, shipped.RESOLUTION)}"
        raise nets.CheckpointError(f"no counter in {paths.shown(where)}; train it: {train}")
    return store.sha256(weights)[:12]


def check_fit(net: str, pipeline: "ConditionalPipeline", counter: "ObjectCounter", told: bool = True) -> None:
    """Raise ValueError, naming both numbers, unless the counter reads the net's images and the net takes
    locations (App. E.1); a net without conditions passes if not `told`, since it may assist another.
    """
    drawn, read = pipeline.config.resolution, shipped.sizes(counter.config.resolution)
    if drawn not in read:
        sides = "16 times 2, 4, 8, ... px"
        train = f"train a counter for it ({sides}): python -m lcs_utils.counter --resolution {drawn}"
        raise ValueError(
            f"{net} draws images of {drawn} px and the counter reads {' or '.join(map(str, read))} px; "
            + (train if drawn > max(read) else f"counters read {sides} only")
        )
    if pipeline.config.grid_size != GRID_SIZE:
        raise ValueError(
            f"{net} has a grid of {pipeline.config.grid_size} cells a side, the test locations one of "
            f"{GRID_SIZE}"
        )
    radius, takes = pipeline.config.radius, pipeline.net.config.cond_dim
    given = GRID_SIZE**2 if radius is None else (2 * radius + 1) ** 2 + 2
    if takes != given and (told or takes != 1):
        raise ValueError(f"{net} takes conditions of {takes} numbers, the test locations give {given}")


def count_sheet(net: str, preset: str = "tiny") -> None:
    """Count the samples of the net's sheet that have not been counted yet; its weights are not needed.

    Raises FileNotFoundError or ValueError as `read_sheet`, and ValueError if this counter's rows are of other
    weights than the sheet's.
    """
    exp = EXPERIMENTS.get(nets.parts(net)[0])
    if exp is not None and exp.condition != "location":
        raise ValueError(f"{net} is told {exp.condition}s; sheets are counted of nets told locations")
    sheet, path = read_sheet(net, preset), rows_path(preset)
    side = next(iter(sheet.samples.values())).shape[-1]
    counter = loading.load(side)
    key = {name: sheet.about[name] for name in ("net", "weights", "seed", "solver", "steps")}
    key |= {"preset": preset, "family": "test", "counted_by": counter_hash(side)}
    counted = [row for k, x in sheet.samples.items() for row in count_rows(from_uint8(x), counter, k, **key)]
    with store.exclusive(path):
        stored = [row for row in read_rows(path) if row.net != net or row.counted_by == key["counted_by"]]
        others = {row.weights for row in stored if row.net == net} - {key["weights"]}
        if others:
            raise ValueError(
                f"the sheet of {net} shows weights {key['weights']}, its rows are of {', '.join(others)}; "
                f"draw it again: python -m lcs_utils.evaluation.length_generalization {net} --preset {preset}"
            )
        there = {
            (row.net, row.weights, row.family, row.seed, row.solver, row.steps, row.k, row.sample)
            for row in stored
        }
        now = [
            r
            for r in counted
            if (r.net, r.weights, r.family, r.seed, r.solver, r.steps, r.k, r.sample) not in there
        ]
        write_rows(stored + now, path)
    print(f"{net}: {len(now)} samples of its sheet counted", flush=True)
