"""Claims decided by preset `medium`, 64 px nets trained by Muon: Fig. 1 by the flow and the SDE, Fig. 4 and
Table 1's other local nets by the flow.
"""

from collections.abc import Callable, Sequence
from functools import cache

from lcs_utils.claims import Claim
from lcs_utils.claims.nets_64 import FIGURE_1, entry, one_object
from lcs_utils.evaluation import sizes, tables_beyond_chance
from lcs_utils.evaluation.rows import read_rows, rows_path
from lcs_utils.evaluation.studies.flow_and_sde import WAYS
from lcs_utils.evaluation.tables import NEAR
from lcs_utils.evaluation.tables_beyond_chance import NETS, TWO_CELLS, Cell

OTHERS = {
    "exp3_1_r2": "local net of one object, r = 2",
    "exp3_1-5_r2": "local net of 1-5 objects, r = 2",
    "exp1_1": "whole-image net of one object",
}
ENTRIES = {f"{net}{change}": NETS[net] for change in WAYS.values() for net in FIGURE_1}
ENTRIES |= {net: (TWO_CELLS | NETS)[net] for net in OTHERS}


@cache
def _cells(preset: str) -> list[Cell] | None:
    if preset not in sizes.SIZES:
        return None
    return tables_beyond_chance.cells(read_rows(rows_path("medium")), ENTRIES)


def _claim(net: str, way: str, judge: Callable[[Sequence[Cell]], tuple[str, str]]) -> Claim:
    name = {"exp1": "Exp. 1", "exp2": "Exp. 2", "exp3_r2": "Exp. 3, r = 2"}[net]
    words = f"Fig. 1 by Muon, {name}, by the {way}, at 64 px: within {NEAR} of the paper's K"
    return Claim(words, str(NETS[net].k), "A7", _cells, judge)


def _table_claim(net: str, words: str) -> Claim:
    words = f"Table 1 by Muon, {words}, at 64 px: within {NEAR} of the paper's K"
    return Claim(words, str(ENTRIES[net].k), "A6", _cells, entry(net))


CLAIMS = (
    *(_claim(net, way, entry(f"{net}{change}")) for way, change in WAYS.items() for net in FIGURE_1),
    *(_table_claim(net, words) for net, words in OTHERS.items()),
    Claim(
        "Fig. 4 by Muon at 64 px: trained on one object, a local net (r = 2) places several, a whole-image "
        "net does not",
        "yes",
        "A6",
        _cells,
        one_object,
    ),
)
