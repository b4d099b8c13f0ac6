"""A net as a value, its name, and what its files say about it; does not import torch."""

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from lcs_utils import paths, store
from lcs_utils.checks import check_text, shown, unknown
from lcs_utils.experiments import EXPERIMENTS, RADIUS, Experiment
from lcs_utils.presets import of_row
from lcs_utils.presets import preset as known

WEIGHTS = "net/diffusion_pytorch_model.safetensors"
NAME = re.compile(r"(?P<base>.+?)(_seed(?P<seed>\d+))?(@(?P<images>\d+))?(/(?P<change>\w+))?")
CHANGED = {  # what `evaluation.changes.CHANGES` does, in words
    "unit": "condition divided by sqrt(k) at sampling",
    "near": f"each cell sees the conditions within {RADIUS} cells",
    "nearest": "each cell sees the nearest condition only",
    "swapped": "each cell sees one condition only, the next after its nearest",
    "low_noise": "below a noise of 0.3 denoised by a second net, told nothing",
    "stochastic": "the same, drawn by the reverse SDE in 80 steps",
    "flow": "the same, drawn by the flow in as many steps as the SDE, 80",
    "linear": "single-object scores added on the net's own empty condition",
    "linear_empty": "single-object scores added on the empty floor",
    "linear_one": "single-object scores added on one object anywhere",
    "linear_cluttered": "single-object scores added on one to three objects anywhere",
}
COST = {  # of training one net; for `paper` estimated from parameters and FLOPs
    "tiny": "about an hour on one CPU core",
    "small": "one to five hours of one CPU core",
    "medium": "one to two hours of one CPU core",
    "paper": "an estimated 90 hours of an H200-class GPU, resumable, several through `--num-processes`",
}


class CheckpointError(RuntimeError):
    """A checkpoint is missing, truncated or altered; the message names the file and the command that
    restores it.
    """


@dataclass(frozen=True)
class Net:
    """A trained net: its preset, experiment and training seed, the images after which it was saved (None: at
    the end), and what is changed when it is sampled (a key of `evaluation.changes.CHANGES`).
    """

    experiment: Experiment
    preset: str = "tiny"
    seed: int = 0
    images: int | None = None
    change: str | None = None

    @property
    def trained(self) -> "Net":
        """The net as it was trained, without a change at sampling."""
        return replace(self, change=None)

    @property
    def name(self) -> str:
        """Its name in rows and folders: EXPERIMENT_seed1@IMAGES/CHANGE, each part only where it is needed."""
        seed = f"_seed{self.seed}" if self.seed else ""
        images = "" if self.images is None else f"@{self.images}"
        return f"{self.experiment.name}{seed}{images}" + (f"/{self.change}" if self.change else "")

    @property
    def plain(self) -> "Net | None":
        """The net that this one is a control of: unchanged at sampling, labels as they are, no longer
        training; itself if it is no control, None if the paper has no such experiment.
        """
        if self.change:
            return self.trained
        bare = replace(self.experiment, normalize_label=False, times=1)
        same = [e for e in EXPERIMENTS.values() if replace(e, name=bare.name) == bare]
        return self if bare == self.experiment else replace(self, experiment=same[0]) if same else None


def parts(name: str) -> tuple[str, int, int | None, str | None]:
    """(experiment's name, seed, images, change) of a net's name; a path to a checkpoint folder has no parts.

    A path is distinguished from NAME/CHANGE by its row.json. Raises TypeError or ValueError for other names.
    """
    check_text("the net's name", name)
    if "/" in name and (Path(name) / "row.json").exists():
        return name, 0, None, None
    found = NAME.fullmatch(name)
    if found is None:
        raise ValueError(f"a net is called EXPERIMENT_seed1@IMAGES/CHANGE, got {name!r}")
    seed, images = found["seed"], found["images"]
    return found["base"], int(seed or 0), None if images is None else int(images), found["change"]


def parse(name: str, preset: str = "tiny") -> Net:
    """The net that a name in rows or folders stands for; your own nets are as their row says.

    Raises ValueError for a net that is neither one of the paper's nor a checkpoint.
    """
    base, seed, images, change = parts(name)
    if base in EXPERIMENTS:
        return Net(EXPERIMENTS[base], preset, seed, images, change)
    trained = name.rpartition("/")[0] if change else name
    for where in dict.fromkeys((preset, *paths.SHIPPED)):
        for candidate in (trained, base):
            if (kept := row_or_none(candidate, where)) is not None:
                return Net(
                    replace(of_row({"experiment": base, "preset": where} | kept)[0], name=base),
                    preset,
                    seed,
                    images,
                    change,
                )
    added = f"experiments.EXPERIMENTS[{base!r}] = Experiment({base!r}, objects=(1, 3), labels='all')"
    raise ValueError(
        f"{unknown('experiment', base, EXPERIMENTS)}, your checkpoints, and what you add, here or in the "
        f"file that LCS_EXPERIMENTS names: {added}"
    )


def trained(name: str, preset: str = "tiny") -> Experiment:
    """The experiment behind a net's name. Raises as `parse`."""
    return parse(name, preset).experiment


def seeds_of(measured: Iterable[str], name: str) -> list[str]:
    """Those of `measured` that differ from `name` only in their training seed, by seed."""
    base, _, *rest = parts(name)
    alike = {parts(n)[1]: n for n in measured if (parts(n)[0], *parts(n)[2:]) == (base, *rest)}
    return [alike[seed] for seed in sorted(alike)]


def along(measured: Iterable[str], name: str, preset: str = "tiny") -> dict[int, str]:
    """{training images: name} of those of `measured` that are `name` or a snapshot of it, ascending."""
    base, seed, _, change = parts(name)
    alike = {n for n in measured if (parts(n)[0], parts(n)[1], parts(n)[3]) == (base, seed, change)}
    return dict(sorted((images_seen(n, preset), n) for n in alike))


def check_name(name: str | Path, preset: str) -> None:
    """Raise TypeError or ValueError unless these name a checkpoint (or are its path) and a preset."""
    if not isinstance(name, Path):
        check_text("the checkpoint's name", name)
    if "@" in Path(name).name and not re.fullmatch(r"[^@]+@\d+(/\w+)?", Path(name).name):
        raise ValueError(f"a snapshot is called NAME@IMAGES, got {shown(str(name))}")
    check_text("preset", preset)
    if "/" in preset or preset in (".", ".."):
        raise ValueError(f"preset must be a name, got {preset!r}")


def folder(name: str, preset: str = "tiny") -> Path:
    """Where checkpoint `name` is: in data/ when it is shipped, otherwise under runs/; a path stands for
    itself.

    NAME@IMAGES is a snapshot along the training of NAME, stored beside its state under runs/. Raises
    TypeError or ValueError for names of no checkpoint or preset.
    """
    check_name(name, preset)
    if "/" in str(name):
        return Path(name)
    name = str(name)
    if "@" in name:
        return paths.RUNS / preset / "training" / name.partition("@")[0] / name
    if any((paths.CHECKPOINTS / preset / name).rglob("*.safetensors")):
        return paths.CHECKPOINTS / preset / name
    return paths.RUNS / preset / "checkpoints" / name


def row_or_none(name: str, preset: str = "tiny") -> dict | None:
    """The row beside the weights of checkpoint `name`, else its copy in data/ (`checkpoints.record`), else
    None.
    """
    for place in (folder(name, preset), paths.CHECKPOINTS / preset / name):
        try:
            return json.loads((place / "row.json").read_text())
        except (OSError, ValueError):  # missing or broken, as `verified_row` says
            continue
    return None


def row(name: str, preset: str = "tiny") -> dict:
    """How checkpoint `name` was made, whether or not its weights are here. Raises CheckpointError without a
    row.
    """
    return row_or_none(name, preset) or verified_row(name, preset)


def training_command(name: str, preset: str = "tiny") -> str:
    """The command that trained checkpoint `name`, or would: from its row if there is one; a snapshot's is
    that of its net.
    """
    check_name(name, preset)
    base, seed, images, _ = parts(name)
    trained = base + (f"_seed{seed}" if seed else "")
    if command := (row_or_none(trained, preset) or {}).get("command"):
        return command
    words = [f"python -m lcs_utils.training {base} --preset {preset}"]
    words += [f"--seed {seed}"] * bool(seed) + ["--snapshots"] * (images is not None)
    return " ".join(words)


def verified_row(name: str, preset: str = "tiny") -> dict:
    """How checkpoint `name` was made, after checking its weights against the row's SHA-256.

    Raises CheckpointError when it is missing, truncated or altered.
    """
    path = folder(name, preset)
    cost = COST.get(preset, "a preset that is not ours")
    command = (row_or_none(name, preset) or {}).get("command")  # "": trained from Python
    train = f"train it with `{command or training_command(path.name, preset)}` ({cost})"
    # the command line trains the paper's
    if command == "" or (command is None and parts(path.name)[0] not in EXPERIMENTS):
        train = "a net of your own is trained by training.run.run"
    restore = f"delete {paths.shown(path)} and make it again: {train}"
    if path.absolute().is_relative_to(paths.CHECKPOINTS):
        restore = (
            f"restore it with `git checkout -- {paths.shown(path.absolute())}`, or, with --again, {train}"
        )
    if not (path / "row.json").exists():
        there = ", ".join(listed(preset, path.parent)) or "none"
        where = "" if paths.DATA.exists() else f"; or set LCS_ROOT to a clone: {paths.DATA} does not exist"
        place = f"in {path.parent}" if "/" in str(name) else f"of preset {preset!r}"
        if "/" not in str(name) and there == "none":
            try:
                known(preset)
            except ValueError as error:
                raise CheckpointError(f"no checkpoint {path.name!r}: {error}") from None
        raise CheckpointError(f"no checkpoint {path.name!r} {place} (there are: {there}); {train}{where}")
    try:
        value = json.loads((path / "row.json").read_text())
        found = store.sha256(path / WEIGHTS)
    except (ValueError, OSError) as error:
        raise CheckpointError(f"{path.name}: unreadable ({type(error).__name__}); {restore}") from error
    if found != value.get("sha256"):
        raise CheckpointError(
            f"{path.name}/{WEIGHTS} is truncated or altered (its SHA-256 differs from row.json); {restore}"
        )
    return value


def listed(preset: str = "tiny", also: Path | None = None) -> list[str]:
    """The nets of a preset whose weights are here, shipped or under runs/, by name."""
    places = (paths.CHECKPOINTS / preset, paths.RUNS / preset / "checkpoints", *([also] if also else ()))
    known = {path.parent.name for place in places for path in place.glob("*/row.json")}
    return sorted(name for name in known if folder(name, preset).exists())


def images_seen(name: str, preset: str = "tiny") -> int:
    """How many training images checkpoint `name`, or a snapshot, had seen. Raises as `row`."""
    check_name(name, preset)
    base, seed, images, change = parts(name)
    if images is not None:
        return images
    return row(name.rpartition("/")[0] if change else name, preset)["images"]
