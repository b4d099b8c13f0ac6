"""Claims about nets told colors (Table 1, Figs. 5, 11) and about eq. (3), decided from stored rows."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from lcs_utils.claims import NO, OPEN, UNDECIDED, YES, Claim, holds_if, judged
from lcs_utils.evaluation import sizes
from lcs_utils.evaluation.colors import color_figures, color_generalization, color_rates
from lcs_utils.evaluation.colors.color_rates import ColorFound
from lcs_utils.evaluation.features import feature_report, net_features
from lcs_utils.evaluation.features.feature_report import Cosines
from lcs_utils.evaluation.rows import STANDARD
from lcs_utils.evaluation.tables import COLOR_PAPER, say
from lcs_utils.nets import seeds_of


def _told_colors(preset: str) -> dict[str, ColorFound] | None:
    nets = color_figures.measured(color_generalization.read)
    return color_rates.of_nets(nets, "subsets", STANDARD.seed) if nets and preset in sizes.SIZES else None


def _largest(found: Mapping[str, Any], net: str) -> str | None:
    """The net's name in a figure at the largest size it was trained at; None if at none."""
    return next((name for name in (f"{net}, 64 px", net) if name in found), None)


def _color_ks(found: Mapping[str, ColorFound]) -> tuple[str, str]:
    there = {net: name for net in COLOR_PAPER if (name := _largest(found, net))}
    said = ", ".join(f"{name}: {say(found[name].k)}" for name in there.values())
    missing = [net for net in COLOR_PAPER if net not in there]
    near = [found[name].near(COLOR_PAPER[net]) for net, name in there.items()]
    verdict = NO if False in near else OPEN if missing else UNDECIDED if None in near else YES
    return said + (f"; not trained: {', '.join(missing)}" if missing else ""), verdict


def _colors_beyond(found: Mapping[str, ColorFound]) -> tuple[str, str]:
    name = _largest(found, "color_1-3")
    if name is None:
        return "not trained", OPEN
    of = found[name]
    return f"K = {say(of.k)} when trained on 1-3 objects, null {say(of.k_null)}", (
        OPEN if of.k_null is None else holds_if(of.k.low > max(3, of.k_null.high))
    )


def cosines(preset: str, reading: str = "flat") -> dict[str, list[list[Cosines]]] | None:
    """{net: cosines by part, for each of its trainings} of the 64 px nets, in one of
    `feature_report.READINGS`; None without rows.
    """
    rows = net_features.read("small") if preset in sizes.SIZES else []
    measured = {row.net for row in rows}
    found = {
        net: [
            feature_report.cosines_by_part(rows, training, twin, reading)
            for training in seeds_of(measured, net)
        ]
        for net, twin in (("exp1", "untrained"), ("color_1-3", "untrained_color"))
        if {net, twin} <= measured
    }
    return found or None


def _every_reading(preset: str) -> dict[str, dict[str, list[list[Cosines]]]] | None:
    found = {reading: of for reading in feature_report.READINGS if (of := cosines(preset, reading))}
    return found or None


def _orthogonal(net: str, parts: Sequence[str]) -> Callable[[Mapping[str, Mapping]], tuple[str, str]]:
    """Judge whether, in `parts` of a 64 px net, in all its trainings and readings, directions are nearer to
    orthogonal than in an untrained net.
    """

    def judge(found: Mapping[str, Mapping[str, Sequence[Sequence[Cosines]]]]) -> tuple[str, str]:
        each, smaller, trained = [], [], 0
        for reading, of in found.items():
            trainings, said = of.get(net, ()), []
            trained = max(trained, len(trainings))
            for same in zip(*trainings, strict=True):  # one part of all trainings
                values = " and ".join(f"{one.net.value:.2f}" for one in same)
                said.append(f"{same[0].part} {values} against {same[0].untrained.value:.2f}")
                if same[0].part in parts:
                    smaller.append(all(one.side == "smaller" for one in same))
            each += [f"{feature_report.READINGS[reading]}: {', '.join(said)}"] if said else []
        if not smaller:
            return "no numbers yet", OPEN
        verdict, held = judged(smaller, "parts and readings")
        words = f"mean absolute cosine of {trained} training{'s' * (trained > 1)} against an untrained net's"
        return f"{words}; {'; '.join(each)}{held}", verdict

    return judge


CLAIMS = (
    Claim(
        "Table 1, colors: trained on 1, 1-3 and 1-5 objects, K within one of the paper's",
        "1, 4, 7",
        "08",
        _told_colors,
        _color_ks,
    ),
    Claim(
        "Section 4, Fig. 5: trained with all colors as labels, a net draws more colors than it saw together",
        "yes",
        "08",
        _told_colors,
        _colors_beyond,
    ),
    Claim(
        "Figs. 5, 11, eq. (3): with colors as labels, mean differences in the encoder are closer "
        "to orthogonal than in an untrained net",
        "orthogonal",
        "08b",
        _every_reading,
        _orthogonal("color_1-3", ("encoder",)),
    ),
    Claim(
        "The same for locations, not in the paper: Exp. 1, in each part of the net",
        "–",
        "08b",
        _every_reading,
        _orthogonal("exp1", ("encoder", "decoder", "denoiser")),
    ),
)
