"""Predictions for a feature space in which conditions compose, each with the measured value (section 4,
eq. (3)): reached or missed, none is left out.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from lcs_utils.evaluation.colors.color_rates import ColorFound
from lcs_utils.evaluation.features.feature_causal_report import causes
from lcs_utils.evaluation.features.feature_ranks import Correlation
from lcs_utils.evaluation.features.feature_report import pick
from lcs_utils.evaluation.features.net_features import FeatureRow
from lcs_utils.evaluation.net_labels import UNTRAINED, label
from lcs_utils.evaluation.sizes import bare
from lcs_utils.evaluation.tables import COLOR_PAPER, say

ADDED, NOT_ADDED = 0.8, 0.3  # additivity of D at K = 3, of a net that composes and of its control
OWN, NOT_OWN = 0.7, 0.4  # own share in D at K = 4
CAUSES, LEAK, REST = 0.5, 0.2, 1.0  # of an object
RANKS = 0.7
LAYERS = ("encoder", "decoder")


class Prediction(NamedTuple):
    """A prediction, the threshold it asks for, what was found, and whether that reaches it (None: open)."""

    name: str
    wanted: str
    found: str
    reached: bool | None


def of_features(
    rows: Sequence[FeatureRow], composes: str, control: str, untrained: str = UNTRAINED
) -> list[Prediction]:
    """F1 to F3: a net trained with all conditions (`composes`) against one trained with a single one
    (`control`), and against an untrained net.
    """
    cosines = {
        net: [pick(rows, net, "cosine_abs", 1, part).value for part in LAYERS]
        for net in (composes, untrained)
    }
    added, not_added = (pick(rows, net, "additivity", 3).value for net in (composes, control))
    own, not_own = (pick(rows, net, "own_share", 4).value for net in (composes, control))
    bare = pick(rows, untrained, "additivity", 3).value
    return [
        Prediction(
            f"{composes}: cosines of eq. (3) smaller than an untrained net's",
            "encoder and decoder",
            ", ".join(
                f"{part} {a:.2f} against {b:.2f}"
                for part, a, b in zip(LAYERS, *cosines.values(), strict=True)
            ),
            all(a < b for a, b in zip(*cosines.values(), strict=True)),
        ),
        Prediction(
            f"{composes}: the denoiser adds three conditions",
            f"≥ {ADDED}; an untrained net less",
            f"{added:.2f}; untrained {bare:.2f}",
            added >= ADDED > bare,
        ),
        Prediction(
            f"{control}: the denoiser does not add three",
            f"≤ {NOT_ADDED}",
            f"{not_added:.2f}",
            not_added <= NOT_ADDED,
        ),
        Prediction(
            f"{composes}: removing one of four moves along its own direction",
            f"≥ {OWN}",
            f"{own:.2f}",
            own >= OWN,
        ),
        Prediction(
            f"{control}: removing one of four does not", f"≤ {NOT_OWN}", f"{not_own:.2f}", not_own <= NOT_OWN
        ),
    ]


def of_causes(rows: Sequence[FeatureRow], net: str, layers: Sequence[str]) -> list[Prediction]:
    """F5 at the best of the layers: adding a direction draws its object, removing it takes it away, and
    neither changes the rest by more than an object or by much more than the condition itself does. Raises
    ValueError without rows.
    """
    found = []
    for way, words in (
        ("add", "adding a direction draws its object"),
        ("remove", "removing it takes it away"),
    ):
        at = [r for r in rows if r.net == net and r.layer in layers and r.measure == f"{way}_effect"]
        if not at:
            raise ValueError(
                f"no rows of {net!r}: "
                f"python -m lcs_utils.evaluation.features.feature_causal {net} --preset ..."
            )
        best = max((row for row in at if not row.control), key=lambda row: row.value)
        leaks = causes(rows, net, best.layer, f"{way}_leak")
        leak, own_leak = (leaks[control].value for control in ("", "condition"))
        others = [r.value for r in at if r.layer == best.layer and r.control not in ("", "condition")]
        found.append(
            Prediction(
                f"{net}: {words}",
                f"≥ {CAUSES} of an object, controls less; the rest at most {REST:g}, and {LEAK} beyond the "
                "condition's",
                f"{best.value:z.2f} at {best.layer.removesuffix('.scale')}, controls up to "
                f"{max(others):z.2f}, the rest {leak:.2f} (condition {own_leak:.2f})",
                best.value >= CAUSES > max(others) and leak <= min(REST, own_leak + LEAK),
            )
        )
    return found


def of_colors(found: Mapping[str, ColorFound]) -> list[Prediction]:
    """Color nets: K above its null and, with its interval, within one of the paper's; one or two for the net
    told one color.
    """
    tests = []
    for name, of in found.items():
        k, null = say(of.k), say(of.k_null)
        if bare(name) in COLOR_PAPER:
            paper = COLOR_PAPER[bare(name)]
            words = f"{name}: K, with its interval, is the paper's, within one"
            found_k = f"{k}, its null {null}"
            tests.append(Prediction(words, str(paper), found_k, of.near(paper)))
        else:
            tests.append(Prediction(f"{name}: K of a net told one color", "≤ 2", k, 1 <= of.k.value <= 2))
    return tests


def of_ranks(found: Mapping[str, Mapping[str, Correlation]]) -> list[Prediction]:
    """F7: each measure ranks the nets as each outcome does."""
    return [
        Prediction(
            f"{words} ranks nets as {outcome} does",
            f"≥ {RANKS}, its interval above 0",
            f"{of.value:.2f} [{of.low:.2f}, {of.high:.2f}], {of.nets} trained nets",
            of.value >= RANKS and of.low > 0,
        )
        for outcome, of_words in found.items()
        for words, of in of_words.items()
    ]


def markdown(found: Sequence[Prediction]) -> str:
    """All predictions as a Markdown table."""
    lines = ["| prediction | predicted | found | |", "|---|---|---|---|"]
    said = {True: "reached", False: "**missed**", None: "open"}
    for p in found:
        net, of, what = p.name.partition(": ")
        name = label(net) + of + what if of else p.name
        lines.append(f"| {name} | {p.wanted} | {p.found} | {said[p.reached]} |")
    return "\n".join(lines) + "\n"
