"""One dial, the preset, sets the size of everything: pixels, nets, length of training, scenes."""

import argparse
import re
from dataclasses import asdict, dataclass, field, replace

from lcs_utils.architectures import EDM2, check_settings, check_use
from lcs_utils.checks import check_choice, check_count, check_kind, check_number, check_text, unknown
from lcs_utils.clevr.grid import GRID_SIZE
from lcs_utils.clevr.labels import LABEL_POLICIES
from lcs_utils.experiments import EXP1, EXPERIMENTS, Experiment

OPTIMIZERS = ("adam", "muon")
SIDES = tuple(GRID_SIZE << level for level in range(8))  # cells of 1, 2, 4, ... px
NET_SETTINGS = (  # what an EDM2UNet takes besides its condition
    *("channels", "channel_mult", "num_blocks", "attention_levels", "head_channels", "unshuffle"),
    *("normalize_label", "dtype_inside"),
)
PIXELS = 2**20  # of patches larger than the image that go through the net together: as 64 images of 128 px


@dataclass(frozen=True)
class Preset:
    """Sizes: pixels, nets, training length (`patch_images` for local nets), `per_count` images of each object
    count.

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
    optimizer: str = "adam"  # EDM2's, or "muon"
    architecture: str = EDM2  # or the name of a class of one's own (`architectures`)

    def __post_init__(self):
        check_text("a preset's name", self.name)
        for name in ("resolution", "images", "patch_images", "batch", "per_count", "at_once"):
            check_count(f"{self.name}: {name}", getattr(self, name), 1)
        if self.resolution not in SIDES:
            sides = ", ".join(map(str, SIDES))
            raise ValueError(f"{self.name}: resolution must be one of {sides}, got {self.resolution}")
        for name in ("net", "patch_net"):
            words = "settings of a net by name"
            net = check_kind(f"{self.name}: {name}", getattr(self, name), dict, words)
            if self.architecture != EDM2:
                check_settings(self.architecture, f"{self.name}: {name}", net)
                continue
            for setting in net:
                check_choice(f"{self.name}: a setting of {name}", setting, NET_SETTINGS)
        check_choice(f"{self.name}: optimizer", self.optimizer, OPTIMIZERS)
        for name in ("learning_rate", "sigma_data"):
            check_number(f"{self.name}: {name}", getattr(self, name), 0, above=True)

    def length(self, exp: Experiment) -> int:
        """The number of training images of a net of this experiment."""
        check_kind("exp", exp, Experiment, "an Experiment")
        return exp.times * (self.images if exp.radius is None else self.patch_images)

    def config(self, exp: Experiment) -> dict:
        """The settings of an experiment's net, except its condition. Raises ValueError for crops larger than
        the images, and for an architecture that cannot serve the experiment.
        """
        check_kind("exp", exp, Experiment, "an Experiment")
        if exp.crop is not None:
            if exp.crop > self.resolution:
                raise ValueError(
                    f"{exp.name} cuts squares of {exp.crop} px, images of preset {self.name} have "
                    f"{self.resolution}"
                )
            if self.architecture == EDM2:
                return CROP_NET | (TRIAL_NET if is_trial(self.name) else {})
        net = self.net if exp.radius is None else self.patch_net
        if self.architecture != EDM2:
            of = f"{exp.name} at preset {self.name}"
            check_use(self.architecture, of, net, exp.radius is not None, exp.normalize_label)
        return net

    def stored(self) -> dict:
        """The fields, as rows and states hold them: the architecture only where it is not EDM2's."""
        return {name: v for name, v in asdict(self).items() if (name, v) != ("architecture", EDM2)}

    def side(self, exp: Experiment) -> int:
        """Side in px of what an experiment's net sees at once: the image, a patch with its surroundings
        (App. E.3), or a crop.
        """
        check_kind("exp", exp, Experiment, "an Experiment")
        if exp.crop is not None:
            return exp.crop
        cells = GRID_SIZE if exp.radius is None else 2 * exp.radius + 1
        return cells * self.resolution // GRID_SIZE

    def together(self, exp: Experiment) -> int:
        """How many images or patches go through the net together: `at_once`, fewer of patches larger than the
        image if, folded as the net sees them, they hold more than PIXELS.
        """
        side = self.side(exp)
        seen = (side // self.config(exp).get("unshuffle", 1)) ** 2
        return self.at_once if side <= self.resolution else min(self.at_once, max(PIXELS // seen, 1))


PATCH_NET = {
    "channels": 64,
    "channel_mult": [1],
    "num_blocks": 2,
    "attention_levels": [],
    "dtype_inside": "bfloat16",
}
# at full resolution, which no whole-image net can afford
CROP_NET = {
    "channels": 32,
    "channel_mult": [1, 2],
    "num_blocks": 1,
    "attention_levels": [],
    "dtype_inside": "bfloat16",
}
SMALL = Preset(
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
    patch_net=PATCH_NET | {"unshuffle": 4},
    images=400_000,
    patch_images=1_600_000,
    batch=64,
    learning_rate=0.008,
    per_count=20_000,
    sigma_data=0.14,
)
# Choice: in as many steps as `small`, each of a quarter of the images
MEDIUM = replace(
    SMALL,
    name="medium",
    images=SMALL.images // 4,
    patch_images=SMALL.patch_images // 4,
    batch=SMALL.batch // 4,
    learning_rate=0.012,
    optimizer="muon",
)
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
            patch_net=PATCH_NET | {"unshuffle": 2},
            images=176_000,
            patch_images=800_000,
            batch=64,
            learning_rate=0.008,
            per_count=40_000,
            sigma_data=0.14,
        ),
        SMALL,
        MEDIUM,
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
            at_once=64,  # 36 GiB of activations of the whole-image net, 7 of the patch net with r = 3
        ),
    )
}

# narrow nets: a trial tests the pipeline, not the nets
TRIAL_NET = {"channels": 16, "head_channels": 16}


def is_trial(name: str) -> bool:
    """Whether a preset's name is PRESET_IMAGES: a trial of the pipeline on few images and narrow nets."""
    base, _, images = check_text("preset", name).rpartition("_")
    return base in PRESETS and re.fullmatch("[1-9][0-9]*", images) is not None


def preset(name: str) -> Preset:
    """The preset called `name`, or the trial PRESET_IMAGES of one. Raises ValueError listing the allowed
    names.

    A trial has the preset's resolution, batch and schedule, narrow nets (those of one's own as they are), and
    a scene of each count for every four images; all of it stays under runs/.
    """
    if not is_trial(name):
        if name not in PRESETS:
            raise ValueError(unknown("preset", name, PRESETS))
        return PRESETS[name]
    size, images = PRESETS[name.rpartition("_")[0]], int(name.rpartition("_")[2])
    if images < size.batch:
        raise ValueError(f"a trial of {images} images is less than one batch of {size.batch}")
    narrow = TRIAL_NET if size.architecture == EDM2 else {}
    nets = {kind: getattr(size, kind) | narrow for kind in ("net", "patch_net")}
    scenes = min(max(images // 4, 1), size.per_count)
    return replace(size, name=name, images=images, patch_images=images, per_count=scenes, **nets)


def parse_preset(text: str) -> str:
    """A preset's name, or a trial's, for argparse. Raises ArgumentTypeError listing the allowed names."""
    try:
        return preset(text).name
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def of_row(row: dict) -> tuple[Experiment, Preset]:
    """The experiment and preset that a checkpoint's row describes. Raises ValueError where it does not say.

    Older rows name some settings only; the others are those of today's experiment and preset of these names.
    """
    check_kind("row", row, dict, "a checkpoint's row")
    try:
        if (policy := row.get("labels", "all")) not in LABEL_POLICIES:
            raise ValueError(
                f"{row['experiment']} has the label policy {policy!r}, which the file that LCS_EXPERIMENTS "
                f"names must add; known: {', '.join(LABEL_POLICIES)}"
            )
        what = {name: row[name] for name in asdict(EXP1) if name in row and name != "name"} | {
            "objects": tuple(row["objects"])
        }
        what |= {"sigmas": tuple(row["sigmas"])} if row.get("sigmas") else {}
        exp = replace(EXPERIMENTS.get(row["experiment"], EXP1), name=row["experiment"], **what)
        size = PRESETS.get(row["preset"])
        settings = {"architecture": EDM2} | row.get("settings", {} if size else row["settings"])
        size = replace(size, **settings) if size else Preset(row["preset"], **settings)
    except (KeyError, TypeError) as error:
        raise ValueError(
            f"a row that names no experiment and preset of ours must store theirs whole; {error} is wrong "
            "there"
        ) from None
    return exp, size
