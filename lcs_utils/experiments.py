"""The paper's experiments as values that differ from each other in one field; the preset sets their size."""

from dataclasses import dataclass, replace

from lcs_utils.checks import (
    check_choice,
    check_count,
    check_counts,
    check_flag,
    check_kind,
    check_name,
    check_number,
)
from lcs_utils.clevr.grid import MAX_OBJECTS
from lcs_utils.clevr.labels import LABEL_POLICIES, LabelPolicy

CONDITIONS = ("location", "color")


@dataclass(frozen=True)
class Experiment:
    """What is trained: objects per scene (lowest, highest), which of them are labeled, how far the net sees.

    With `radius` None the net sees the whole image (Exp. 1, 2); a number is the local patch net's r in cells
    (App. E.3). `condition` is "location" (a 16x16 grid of counts) or "color" (8 counts), App. E.1. `times`
    multiplies the preset's training images. With `crop` the net is trained without conditions on squares of
    that many pixels, mostly around objects. `sigmas` limits the noise levels (None: EDM2's).
    """

    name: str
    objects: tuple[int, int] = (1, 3)
    labels: str = "all"
    radius: int | None = None
    condition: str = "location"
    normalize_label: bool = False
    times: int = 1
    crop: int | None = None
    sigmas: tuple[float, float] | None = None

    def __post_init__(self):
        check_name("an experiment's name", self.name)
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
        policy = LABEL_POLICIES[self.labels]
        check_kind(f"label policy {self.labels}", policy, LabelPolicy, "a LabelPolicy(number, mean)")
        for n in range(numbers[0], numbers[1] + 1):
            what = f"label policy {self.labels}: the mean number of labels of {n} objects"
            check_number(what, policy.mean(n), 0, n)
        check_flag(f"{self.name}: normalize_label", self.normalize_label)
        if check_count(f"{self.name}: times", self.times, None) < 1:
            raise ValueError(f"{self.name}: times must be at least 1, got {self.times}")
        radius = 1 if self.radius is None else check_count(f"{self.name}: radius", self.radius, None)
        if radius < 1 or (self.radius is not None and self.condition != "location"):
            raise ValueError(
                f"{self.name}: radius >= 1 cells, with location conditions; got {self.radius}, "
                f"{self.condition}"
            )
        if self.normalize_label and self.radius is not None:  # a patch's label also says where it lies
            raise ValueError(f"{self.name}: normalize_label is for nets that see the whole image, got {self}")
        if self.crop is not None:
            check_count(f"{self.name}: crop", self.crop, 1)
            if self.labels != "none" or self.radius is not None or not numbers[1]:
                raise ValueError(
                    f"{self.name}: a net of crops has no labels, no radius, and objects to cut, got {self}"
                )
        if self.sigmas is not None:
            check_kind(f"{self.name}: sigmas", self.sigmas, tuple, "(lowest, highest)")  # as rows are read
            if len(self.sigmas) != 2:
                raise ValueError(f"{self.name}: sigmas are (lowest, highest), got {self.sigmas}")
            low, high = self.sigmas
            check_number(f"{self.name}: the highest of sigmas", high, 0, above=True)
            check_number(f"{self.name}: the lowest of sigmas", low, 0, high, above=True)

    def net(self, seed: int = 0) -> str:
        """The name of its net (`nets.Net.name`)."""
        check_count("seed", seed)
        return self.name if seed == 0 else f"{self.name}_seed{seed}"

    @property
    def labeled_share(self) -> float:
        """Expected share of all training objects that carry a label, with equally many scenes of each object
        count.
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


# Choice: the paper's r is not known; 3 cells reach past the largest object (others: RADIUS_SWEEP, in A6)
RADIUS = 3

EXP1 = Experiment("exp1")
EXP2 = replace(EXP1, name="exp2", labels="single")
EXP3 = replace(EXP2, name="exp3", radius=RADIUS)


def _on(experiment: Experiment, low: int, high: int) -> Experiment:
    span = f"{low}" if low == high else f"{low}-{high}"
    return replace(experiment, name=f"{experiment.name}_{span}", objects=(low, high))


FIGURE_1 = (EXP1, EXP2, EXP3)
FIGURE_4 = (_on(EXP1, 1, 1), _on(EXP3, 1, 1))
MORE_OBJECTS = tuple(_on(e, 1, high) for high in (2, 4, 5, 6) for e in (EXP1, EXP2))
TABLE_1 = (*FIGURE_1, *FIGURE_4, *MORE_OBJECTS, _on(EXP3, 1, 5))
TABLE_2 = tuple(
    _on(replace(EXP1, name=policy, labels=policy), 1, high)
    for policy in ("random", "drop_one")
    for high in range(2, 7)
    if (policy, high) != ("drop_one", 2)
)
# Choice: r = 15 for the paper's patches "the size of the image" (r lost): 31 cells hold all 16 from any cell.
RADIUS_SWEEP = tuple(replace(EXP3, name=f"exp3_r{r}", radius=r) for r in (1, 2, 4, 5, 15))
# Table 1's other two local nets with two cells, which compose farther on 1-3 objects
TWO_CELLS = tuple(replace(e, name=f"{e.name}_r2", radius=2) for e in (_on(EXP3, 1, 1), _on(EXP3, 1, 5)))
# Controls that the paper lacks: label embeddings of one size whatever the number of labels (for Exp. 2, which
# sees at most one, that is the same training; sampled as exp2/unit); unlabeled scenes: the empty floor, one
# object anywhere, one to three anywhere (s_b of sums of scores); and six objects with three times the
# training, since on as many images as Exp. 1 such a net sees half as many of each count.
# Choice: "cluttered" is 1-3 objects (Bradley et al. 2025: 0-4), the scenes in which Exp. 2's label stands.
NORMALIZED = replace(EXP1, name="exp1_normalized", normalize_label=True)
BACKGROUNDS = tuple(
    Experiment(f"background_{name}", objects, labels="none")
    for name, objects in (("empty", (0, 0)), ("one", (1, 1)), ("cluttered", (1, 3)))
)
LONGER = replace(_on(EXP1, 1, 6), name="exp1_1-6_x3", times=3)
CONTROLS = (NORMALIZED, *BACKGROUNDS, LONGER)
# Choice: an unconditional net for low noise alone that finishes another's sampling (`evaluation.changes`):
# what is left to decide there is local, and small nets of the whole image leave grain.
LOW_NOISE = Experiment("low_noise", labels="none", crop=32, sigmas=(0.01, 0.5))
# Color conditions (App. E.1, Figs. 5, 11): all told on 1-3 objects, one told (a control), other counts
COLORED = replace(EXP1, name="color", condition="color")
ONE_COLOR = replace(COLORED, name="color_single", labels="single")
COLOR = (_on(COLORED, 1, 3), _on(ONE_COLOR, 1, 3), _on(COLORED, 1, 5), _on(COLORED, 1, 1))
EXPERIMENTS = {
    e.name: e for e in (*TABLE_1, *TABLE_2, *RADIUS_SWEEP, *TWO_CELLS, *CONTROLS, *COLOR, LOW_NOISE)
}
OURS = frozenset(EXPERIMENTS)  # without those of one's own (`own.load`), which no figure of ours takes up


def experiment(name: str) -> Experiment:
    """The experiment called `name`. Raises ValueError listing the allowed names."""
    check_choice("experiment", name, EXPERIMENTS)
    return EXPERIMENTS[name]
