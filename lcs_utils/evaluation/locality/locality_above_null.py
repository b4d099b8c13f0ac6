"""Locality against composition at 64 px: does a net that hears nearby conditions fill cells beyond its null?

One point for each training that sees the whole image: conditional locality at high noise (eq. (10)), and the
share of random cells that it fills, less what its pictures fill of other samples' cells. Intervals of rank
correlations draw kinds of nets, since trainings of one net are alike.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from lcs_utils.evaluation import against_null, wording
from lcs_utils.evaluation.features import feature_ranks
from lcs_utils.evaluation.features.feature_ranks import Correlation
from lcs_utils.evaluation.locality import net_locality
from lcs_utils.evaluation.locality.locality_rates import at_high_noise, measured_nets
from lcs_utils.evaluation.rows import Row
from lcs_utils.evaluation.sentences import table
from lcs_utils.evaluation.tables import BEYOND
from lcs_utils.experiments import OURS, Experiment
from lcs_utils.nets import parts, trained
from lcs_utils.stats import Interval, say_interval

PRESET = "small"
LEAST = 8  # kinds of nets that an interval takes: drawn with replacement, fewer are often the same few
GROUPS: dict[str, Callable[[Experiment], bool]] = {
    "all": lambda exp: True,
    f"never shown {BEYOND} objects": lambda exp: exp.objects[1] < BEYOND,
    "told all labels": lambda exp: exp.labels == "all",
    "told one label": lambda exp: exp.labels == "single",
}


class AboveNull(NamedTuple):
    """Per net: conditional locality at high noise; cells filled above the null at K random cells; the
    null.
    """

    locality: dict[str, Interval]
    above: dict[str, Interval]
    null: dict[str, float]

    def numbers(self) -> dict:
        """All values as a dict, for the figure's JSON."""
        locality, above = ({net: list(i) for net, i in of.items()} for of in (self.locality, self.above))
        return {"locality": locality, "above": above, "null": self.null}

    def of(self, group: str) -> "AboveNull":
        """The nets of one of GROUPS alone."""
        belongs = GROUPS[group]
        return AboveNull(*({n: v for n, v in of.items() if belongs(trained(n, PRESET))} for of in self))

    def correlation(self, seed: int = 0) -> Correlation:
        """Spearman's correlation of the two, and its interval over kinds of nets. Raises ValueError for fewer
        than three nets.
        """
        locality, above = ({net: i.value for net, i in of.items()} for of in (self.locality, self.above))
        return feature_ranks.against_k(locality, above, seed)


def above_null(rows: Sequence[Row], seed: int = 0) -> AboveNull:
    """All 64 px nets of our experiments that see the whole image, are told places, and have rows at K random
    cells.

    Raises ValueError for a net whose locality was not measured with its present weights.
    """
    rows = [row for row in rows if parts(row.net)[0] in OURS]
    asked = {row.net for row in rows if row.family == "spread" and row.k == BEYOND}
    nets = [net for net in measured_nets(rows, PRESET) if net in asked]
    filled = {
        net: against_null.of_nets(rows, [net], "spread", ks=[BEYOND], seed=seed).at[BEYOND].filled
        for net in nets
    }
    locality = net_locality.current(net_locality.read(PRESET), nets, PRESET)
    above, null = {}, {}
    for net, of in filled.items():
        assert of.above is not None and of.null is not None  # random cells differ between samples
        above[net], null[net] = of.above, of.null.value
    return AboveNull({net: at_high_noise(locality[net]) for net in nets}, above, null)


def ranked(found: AboveNull, seed: int = 0) -> dict[str, Correlation]:
    """The correlation over all nets, and over those told alike where there are three that differ."""
    groups = {group: found.of(group) for group in GROUPS}

    def differ(values: Iterable[Interval]) -> bool:
        return len({of.value for of in values}) > 1

    there = {
        words: of
        for words, of in groups.items()
        if len(of.above) > 2 and differ(of.above.values()) and differ(of.locality.values())
    }
    return {words: of.correlation(seed) for words, of in there.items()}


def sentence(found: AboveNull, ranks: dict[str, Correlation]) -> str:
    """The correlations in words, and a table of the nets, most local first."""
    every = ranks["all"]
    among = {words: of for words, of in ranks.items() if words != "all"}
    said = {
        words: say_interval(of) if of.kinds >= LEAST else f"{of.value:.2f}" for words, of in among.items()
    }
    alike = "; ".join(
        f"{said[words]} in the {of.nets} {words} ({of.kinds} kinds)" for words, of in among.items()
    )
    lines = [
        [
            wording.net(net),
            say_interval(found.locality[net]),
            say_interval(found.above[net]),
            f"{found.null[net]:.2f}",
        ]
        for net in sorted(found.locality, key=lambda net: -found.locality[net].value)
    ]
    head = ["64 px", "locality", f"share of {BEYOND} random cells filled, above the null", "null"]
    return (
        f"Rank correlation {say_interval(every)} over {every.nets} trainings of {every.kinds} kinds of nets, "
        f"{alike} (intervals only for groups of at least {LEAST} kinds).\n\n{table(head, lines)}"
    )
