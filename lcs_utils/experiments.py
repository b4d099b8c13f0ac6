"""Every experiment of the paper is a value that differs from another in one field; one dial, the preset,
sets the size.
"""

import re
from dataclasses import asdict, dataclass, field, replace

from lcs_utils.checks import (
    check_choice,
    check_count,
    check_counts,
    check_flag,
    check_kind,
    check_number,
    check_text,
)
from lcs_utils.clevr.grid import MAX_OBJECTS
from lcs_utils.clevr.labels import LABEL_POLICIES

CONDITIONS = ("location", "color")


@dataclass(frozen=True)
class Experiment:
    """What is trained: objects per scene (lowest, highest), which of them are labeled, and how far the net
    sees.

    `radius` None is a net that sees the whole image (Exp. 1, 2); a number is the local patch net's r in
    cells (App. E.3).
    `condition` is "location" (a 16x16 grid of counts) or "color" (8 counts), App. E.1. `times` multiplies the
    preset's training images.
    """

    name: str
    objects: tuple[int, int] = (1, 3)
    labels: str = "all"
    radius: int | None = None
    condition: str = "location"
    normalize_label: bool = False
    times: int = 1

    def __post_init__(self):
        check_text("an experiment's name", self.name)
        check_kind(f"{self.name}: objects", self.objects, tuple, "(lowest, highest)")
        numbers = check_counts(f"{self.name}: objects", self.objects, 0, MAX_OBJECTS)
        if len(numbers) != 2 or numbers[0] > numbers[1]:
            raise ValueError(f"{self.name}: objects are (lowest, highest) >= 0, got {self.objects}")
        for name, value, allowed in (
            ("labels", self.labels, LABEL_POLICIES),
            ("condition", self.condition, CONDITIONS),
        ):
            if not isinstance(value, str) or value not in allowed:
                raise ValueError(f"{self.name}: {name} must be one of {', '.join(allowed)}, got {value!r}")
        check_flag(f"{self.name}: normalize_label", self.normalize_label)
        if check_count(f"{self.name}: times", self.times, None) < 1:
            raise ValueError(f"{self.name}: times must be at least 1, got {self.times}")
        radius = 1 if self.radius is None else check_count(f"{self.name}: radius", self.radius, None)
        if radius < 1 or (self.radius is not None and self.condition != "location"):
            raise ValueError(
                f"{self.name}: radius >= 1 cells, with location conditions; got {self.radius}, "
                f"{self.condition}"
            )

    def net(self, seed: int = 0) -> str:
        """The name of its net (`nets.Net.name`)."""
        check_count("seed", seed)
        return self.name if seed == 0 else f"{self.name}_seed{seed}"

    @property
    def labeled_share(self) -> float:
        """Expected share of all training objects that carry a label, with as many scenes of each number of
        objects.
        """
        low, high = self.objects
        objects = range(max(low, 1), high + 1)
        return sum(map(LABEL_POLICIES[self.labels].mean, objects)) / max(sum(objects), 1)


def scene_counts(experiment: Experiment) -> range:
    """The object counts of the scenes that serve an experiment: the empty floor, 1-3 or 1-6 for all of Tables
    1 and 2; its own for others.
    """
    low, high = experiment.objects
    folders = (range(1), range(1, 4), range(1, 7))
    return next((counts for counts in folders if low in counts and high in counts), range(low, high + 1))


# Choice: the paper's r is not known; 3 cells reach past the largest object (others: RADIUS_SWEEP, notebook
# 06)
RADIUS = 3

EXP1 = Experiment("exp1")
EXP2 = replace(EXP1, name="exp2", labels="single")
EXP3 = replace(EXP2, name="exp3", radius=RADIUS)


def _on(experiment: Experiment, low: int, high: int) -> Experiment:
    span = f"{low}" if low == high else f"{low}-{high}"
    return replace(experiment, name=f"{experiment.name}_{span}", objects=(low, high))


FIGURE_1 = (EXP1, EXP2, EXP3)
FIGURE_4 = (_on(EXP1, 1, 1), _on(EXP3, 1, 1))
TABLE_1 = (
    FIGURE_1
    + FIGURE_4
    + tuple(_on(e, 1, high) for high in (2, 4, 5, 6) for e in (EXP1, EXP2))
    + (_on(EXP3, 1, 5),)
)
TABLE_2 = tuple(
    _on(replace(EXP1, name=policy, labels=policy), 1, high)
    for policy in ("random", "drop_one")
    for high in range(2, 7)
    if (policy, high) != ("drop_one", 2)
)
RADIUS_SWEEP = tuple(replace(EXP3, name=f"exp3_r{r}", radius=r) for r in (1, 2, 4, 5, 15))
# Controls that the paper lacks: the label's embedding of one size whatever the number of labels (for Exp.
# 2, which sees at most one, that is the same training; sampled as exp2/unit), and what is not labeled on
# its own: the empty floor, one object anywhere, one to three anywhere (s_b of Bradley et al. 2025); and six
# objects with three times the training, since on as many images as Exp. 1 such a net sees half as many of
# each count.
NORMALIZED = replace(EXP1, name="exp1_normalized", normalize_label=True)
BACKGROUNDS = tuple(
    Experiment(f"background_{name}", objects, labels="none")
    for name, objects in (("empty", (0, 0)), ("one", (1, 1)), ("cluttered", (1, 3)))
)
LONGER = replace(_on(EXP1, 1, 6), name="exp1_1-6_x3", times=3)
CONTROLS = (NORMALIZED, *BACKGROUNDS, LONGER)
# Color conditions (App. E.1, Figs. 5, 11): all colors told on 1-3 objects, and its control that is told
# one; then other numbers.
COLORED = replace(EXP1, name="color", condition="color")
ONE_COLOR = replace(COLORED, name="color_single", labels="single")
COLOR = (_on(COLORED, 1, 3), _on(ONE_COLOR, 1, 3), _on(COLORED, 1, 5), _on(COLORED, 1, 1))
EXPERIMENTS = {e.name: e for e in TABLE_1 + TABLE_2 + RADIUS_SWEEP + CONTROLS + COLOR}

# In which order nets are trained (`training_queue`), the most valuable first: (experiment, seed).
QUEUE = (
    ("exp1", 0), ("exp2", 0), ("exp3_r2", 0), ("exp3", 0), ("exp1_1", 0), ("exp3_1", 0),
    ("exp1", 1), ("exp2", 1), ("exp1", 2), ("exp2", 2),
    ("color_1-3", 0), ("color_single_1-3", 0), ("color_1-5", 0), ("color_1", 0),
    ("exp1_1-2", 0), ("exp1_1-6", 0), ("exp2_1-6", 0), ("drop_one_1-3", 0), ("random_1-3", 0),
    # text-to-CLEVR stands here: no Experiment takes text yet
    ("exp2_1-2", 0), ("exp1_1-4", 0), ("exp2_1-4", 0), ("exp1_1-5", 0), ("exp2_1-5", 0), ("exp3_1-5", 0),
    ("random_1-2", 0), ("random_1-4", 0), ("random_1-5", 0), ("random_1-6", 0),
    ("drop_one_1-4", 0), ("drop_one_1-5", 0), ("drop_one_1-6", 0),
    ("exp3_r1", 0), ("exp3_r4", 0), ("background_empty", 0), ("background_one", 0),
    ("background_cluttered", 0), ("exp1_normalized", 0),
    ("exp3", 1), ("exp3", 2), ("exp1_1-6_x3", 0), ("exp3_r5", 0), ("exp3_r15", 0),
)  # fmt: skip
ON_A_GPU = ("exp3_r5", "exp3_r15")  # patches of most of the image: hours of sampling on a processor


@dataclass(frozen=True)
class Preset:
    """How large: pixels, nets, training length (`patch_images` for local nets). `per_count` images of each
    object count.

    Choice: `sigma_data` of `tiny` and `small` is near the measured standard deviation of the images (0.16,
    CLEVR has little contrast); EDM2's 0.5, which `paper` keeps, makes short runs learn noise where they
    should learn the scene.
    """

    name: str
    resolution: int
    net: dict = field(repr=False)
    patch_net: dict = field(repr=False)
    images: int
    patch_images: int
    batch: int
    learning_rate: float
    per_count: int
    sigma_data: float
    at_once: int = 128  # images or patches that go through the net together on one device

    def __post_init__(self):
        check_text("a preset's name", self.name)
        for name in ("resolution", "images", "patch_images", "batch", "per_count", "at_once"):
            check_count(f"{self.name}: {name}", getattr(self, name), 1)
        for name in ("net", "patch_net"):
            check_kind(f"{self.name}: {name}", getattr(self, name), dict, "settings of an EDM2UNet by name")
        for name in ("learning_rate", "sigma_data"):
            check_number(f"{self.name}: {name}", getattr(self, name), 0, above=True)

    def length(self, exp: Experiment) -> int:
        """Training images of a net of this experiment."""
        check_kind("exp", exp, Experiment, "an Experiment")
        return exp.times * (self.images if exp.radius is None else self.patch_images)


PRESETS = {
    p.name: p
    for p in (
        Preset(
            "tiny",
            resolution=32,
            net=dict(
                channels=64,
                channel_mult=[1, 2],
                num_blocks=1,
                attention_levels=[1],
                unshuffle=2,
                dtype_inside="bfloat16",
            ),
            patch_net=dict(
                channels=64,
                channel_mult=[1],
                num_blocks=2,
                attention_levels=[],
                unshuffle=2,
                dtype_inside="bfloat16",
            ),
            images=176_000,
            patch_images=800_000,
            batch=64,
            learning_rate=0.008,
            per_count=40_000,
            sigma_data=0.14,
        ),
        Preset(
            "small",
            resolution=64,
            net=dict(
                channels=32,
                channel_mult=[1, 2, 4],
                num_blocks=1,
                attention_levels=[2],
                unshuffle=2,
                dtype_inside="bfloat16",
            ),
            patch_net=dict(
                channels=64,
                channel_mult=[1],
                num_blocks=2,
                attention_levels=[],
                unshuffle=4,
                dtype_inside="bfloat16",
            ),
            images=400_000,
            patch_images=1_600_000,
            batch=64,
            learning_rate=0.008,
            per_count=20_000,
            sigma_data=0.14,
        ),
        Preset(
            "paper",
            resolution=128,
            # Choice: not EDM2's float16, where gradients of a mean vanish
            net=dict(channels=128, dtype_inside="bfloat16"),
            patch_net=dict(channels=128, dtype_inside="bfloat16"),
            images=128 * 2**20,
            patch_images=128 * 2**20,
            batch=2048,
            learning_rate=0.012,
            per_count=500_000,
            sigma_data=0.5,
            at_once=64,  # 36 GiB of activations of the whole-image net, 7 of the patch net
        ),
    )
}


def experiment(name: str) -> Experiment:
    """The experiment called `name`. Raises ValueError listing the allowed names."""
    check_choice("experiment", name, EXPERIMENTS)
    return EXPERIMENTS[name]


# narrow nets, for a trial tries the way and not the nets
TRIAL_NET = {"channels": 16, "head_channels": 16}


def is_trial(name: str) -> bool:
    """Whether a preset's name is PRESET_IMAGES: a trial of the whole way on few images and narrow nets."""
    base, _, images = check_text("preset", name).rpartition("_")
    return base in PRESETS and re.fullmatch("[1-9][0-9]*", images) is not None


def preset(name: str) -> Preset:
    """The preset called `name`, or the trial PRESET_IMAGES of one. Raises ValueError listing the allowed
    names.

    A trial has the preset's resolution, batch and schedule, narrow nets, a scene of each count for
    every four images, and everything of it under runs/.
    """
    if not is_trial(name):
        if name not in PRESETS:
            raise ValueError(f"unknown preset {name!r}; allowed: {', '.join(PRESETS)}")
        return PRESETS[name]
    size, images = PRESETS[name.rpartition("_")[0]], int(name.rpartition("_")[2])
    if images < size.batch:
        raise ValueError(f"a trial of {images} images is less than one batch of {size.batch}")
    nets = {kind: getattr(size, kind) | TRIAL_NET for kind in ("net", "patch_net")}
    scenes = min(max(images // 4, 1), size.per_count)
    return replace(size, name=name, images=images, patch_images=images, per_count=scenes, **nets)


def of_row(row: dict) -> tuple[Experiment, Preset]:
    """The experiment and the preset that a checkpoint's row was written for. Raises ValueError where it
    does not say.

    Rows of before name some settings only; the others are those of today's experiment and preset of these
    names.
    """
    check_kind("row", row, dict, "a checkpoint's row")
    try:
        what = {name: row[name] for name in asdict(EXP1) if name in row and name != "name"} | {
            "objects": tuple(row["objects"])
        }
        exp = replace(EXPERIMENTS.get(row["experiment"], EXP1), name=row["experiment"], **what)
        size = PRESETS.get(row["preset"])
        size = replace(size, **row.get("settings", {})) if size else Preset(row["preset"], **row["settings"])
    except (KeyError, TypeError) as error:
        raise ValueError(
            f"a row that names no experiment and preset of ours must store theirs whole; {error} is wrong "
            "there"
        ) from None
    return exp, size
