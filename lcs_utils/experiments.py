"""Every experiment of the paper is a value that differs from another in one field; one dial, the preset, sets the size."""

from dataclasses import dataclass, field, replace

from lcs_utils.clevr.conditions import LABEL_POLICIES
from lcs_utils.diffusion import SIGMA_DATA


CONDITIONS = ("location", "color")


@dataclass(frozen=True)
class Experiment:
    """What is trained: objects per scene (lowest, highest), which of them are labeled, and how far the net sees.

    `radius` None is a net that sees the whole image (Exp. 1, 2); a number is the local patch net's r in cells (App. E.3).
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
        low, high = self.objects
        if not 0 <= low <= high:
            raise ValueError(f"{self.name}: objects are (lowest, highest) >= 0, got {self.objects}")
        for name, value, allowed in (("labels", self.labels, LABEL_POLICIES), ("condition", self.condition, CONDITIONS)):
            if value not in allowed:
                raise ValueError(f"{self.name}: {name} must be one of {', '.join(allowed)}, got {value!r}")
        if self.times < 1:
            raise ValueError(f"{self.name}: times must be at least 1, got {self.times}")
        if self.radius is not None and (self.radius < 1 or self.condition != "location"):
            raise ValueError(f"{self.name}: radius >= 1 cells, with location conditions; got {self.radius}, {self.condition}")

    def net(self, seed: int = 0) -> str:
        """The name of its net: the experiment's, and the seed's unless it is the first."""
        return self.name if seed == 0 else f"{self.name}_seed{seed}"

    @property
    def labeled_share(self) -> float:
        """Expected share of all training objects that carry a label, with as many scenes of each number of objects."""
        low, high = self.objects
        objects = range(max(low, 1), high + 1)
        return sum(map(LABEL_POLICIES[self.labels].mean, objects)) / max(sum(objects), 1)


RADIUS = 3  # Choice: the paper's r is not known; 3 cells reach past the largest object (others: RADIUS_SWEEP, notebook 06)

EXP1 = Experiment("exp1")
EXP2 = replace(EXP1, name="exp2", labels="single")
EXP3 = replace(EXP2, name="exp3", radius=RADIUS)


def _on(experiment: Experiment, low: int, high: int) -> Experiment:
    span = f"{low}" if low == high else f"{low}-{high}"
    return replace(experiment, name=f"{experiment.name}_{span}", objects=(low, high))


FIGURE_1 = (EXP1, EXP2, EXP3)
FIGURE_4 = (_on(EXP1, 1, 1), _on(EXP3, 1, 1))
TABLE_1 = (
    FIGURE_1 + FIGURE_4 + tuple(_on(e, 1, high) for high in (2, 4, 5, 6) for e in (EXP1, EXP2)) + (_on(EXP3, 1, 5),)
)
TABLE_2 = tuple(
    _on(replace(EXP1, name=policy, labels=policy), 1, high) for policy in ("random", "drop_one") for high in range(2, 7)
    if (policy, high) != ("drop_one", 2)
)
RADIUS_SWEEP = tuple(replace(EXP3, name=f"exp3_r{r}", radius=r) for r in (1, 2, 4, 5, 15))
# Controls that the paper lacks: the label's embedding of one size whatever the number of labels (for Exp. 2, which sees at most
# one, that is the same training; sampled as exp2/unit), and what is not labeled on its own: the empty floor, one object
# anywhere, one to three anywhere (s_b of Bradley et al. 2025); and six objects with three times the training, since on as many
# images as Exp. 1 such a net sees half as many of each count.
NORMALIZED = replace(EXP1, name="exp1_normalized", normalize_label=True)
BACKGROUNDS = tuple(
    Experiment(f"background_{name}", objects, labels="none")
    for name, objects in (("empty", (0, 0)), ("one", (1, 1)), ("cluttered", (1, 3)))
)
LONGER = replace(_on(EXP1, 1, 6), name="exp1_1-6_x3", times=3)
CONTROLS = (NORMALIZED, *BACKGROUNDS, LONGER)
EXPERIMENTS = {e.name: e for e in TABLE_1 + TABLE_2 + RADIUS_SWEEP + CONTROLS}


@dataclass(frozen=True)
class Preset:
    """How large: pixels, nets, training length (`patch_images` for local nets). `per_count` images of each object count.

    Choice: `sigma_data` of `tiny` and `small` is near the measured standard deviation of the images (0.16, CLEVR has little contrast);
    EDM2's 0.5, which `paper` keeps, makes short runs learn noise where they should learn the scene.
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

    def length(self, exp: Experiment) -> int:
        """Training images of a net of this experiment."""
        return exp.times * (self.images if exp.radius is None else self.patch_images)


PRESETS = {
    p.name: p
    for p in (
        Preset(
            "tiny",
            resolution=32,
            net=dict(
                channels=64, channel_mult=[1, 2], num_blocks=1, attention_levels=[1], unshuffle=2, dtype_inside="bfloat16"
            ),
            patch_net=dict(
                channels=64, channel_mult=[1], num_blocks=2, attention_levels=[], unshuffle=2, dtype_inside="bfloat16"
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
                channels=32, channel_mult=[1, 2, 4], num_blocks=1, attention_levels=[2], unshuffle=2, dtype_inside="bfloat16"
            ),
            patch_net=dict(
                channels=64, channel_mult=[1], num_blocks=2, attention_levels=[], unshuffle=4, dtype_inside="bfloat16"
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
            net=dict(channels=128, dtype_inside="bfloat16"),  # Choice: not EDM2's float16, where gradients of a mean vanish
            patch_net=dict(channels=128, dtype_inside="bfloat16"),
            images=128 * 2**20,
            patch_images=128 * 2**20,
            batch=2048,
            learning_rate=0.012,
            per_count=500_000,
            sigma_data=SIGMA_DATA,
            at_once=64,  # 36 GiB of activations of the whole-image net, 7 of the patch net
        ),
    )
}


def experiment(name: str) -> Experiment:
    """The experiment called `name`. Raises ValueError listing the allowed names."""
    if name not in EXPERIMENTS:
        raise ValueError(f"unknown experiment {name!r}; allowed: {', '.join(EXPERIMENTS)}")
    return EXPERIMENTS[name]


def preset(name: str) -> Preset:
    """The preset called `name`. Raises ValueError listing the allowed names."""
    if name not in PRESETS:
        raise ValueError(f"unknown preset {name!r}; allowed: {', '.join(PRESETS)}")
    return PRESETS[name]
