"""The claim of section 3.1 that details are left to low noise, where nothing has to be told."""

from lcs_utils.claims import NO, UNDECIDED, YES, Claim
from lcs_utils.evaluation import against_null, sizes
from lcs_utils.evaluation.rows import read_rows, rows_path
from lcs_utils.evaluation.rules import LargestK
from lcs_utils.evaluation.tables import BEYOND, SEEN, say
from lcs_utils.stats import Interval, say_interval

DETAILS = ("exp1", "exp1/low_noise")  # the second below a noise of .3 by a net that is told nothing
NOTHING = 0.1  # Choice: a difference of cells filled that lies within it both ways counts as none


def details_matter(preset: str) -> tuple[Interval, Interval, list[LargestK]] | None:
    """How much more of its cells, above the null, Exp. 1 fills at SEEN and BEYOND than with a net for low
    noise that is told nothing, in the same draws, and K of both; None without rows.
    """
    rows = read_rows(rows_path("small"))
    if preset not in sizes.SIZES or not set(DETAILS) <= {row.net for row in rows}:
        return None
    within, beyond = (against_null.steps(rows, [[net] for net in DETAILS], k)[0] for k in (SEEN, BEYOND))
    return within, beyond, [against_null.ks_of_nets(rows, [net]).placed for net in DETAILS]


def changes_nothing(found: tuple[Interval, Interval, list[LargestK]]) -> tuple[str, str]:
    """Whether both differences lie within NOTHING: no if one lies beyond it, undecided if one may."""
    *differences, ks = found
    each = " and ".join(map(say_interval, differences))
    said = f"cells filled above the null, less with that net by {each} at K = {SEEN} and {BEYOND}"
    beyond = any(of.low > NOTHING or of.high < -NOTHING for of in differences)
    within = all(-NOTHING < of.low and of.high < NOTHING for of in differences)
    return (
        f"{said} (within {NOTHING} counts as nothing); K {' and '.join(map(say, ks))}",
        NO if beyond else YES if within else UNDECIDED,
    )


CLAIMS = (
    Claim(
        "Section 3.1 at 64 px: count and places are decided early; below a noise of .3 a net of crops that "
        "is told nothing can take over",
        "yes",
        "A7",
        details_matter,
        changes_nothing,
    ),
)
