"""Claims decided by preset `medium`, 64 px nets trained by Muon: Fig. 1 by the flow and the SDE, Table 1's
other local nets by the flow.
"""

from collections.abc import Callable, Sequence
from functools import cache

from lcs_utils.claims import Claim
from lcs_utils.claims.nets_64 import FIGURE_1, entry
from lcs_utils.evaluation import sizes, tables_beyond_chance
from lcs_utils.evaluation.rows import read_rows, rows_path
from lcs_utils.evaluation.studies.flow_and_sde import WAYS
from lcs_utils.evaluation.tables import NEAR
from lcs_utils.evaluation.tables_beyond_chance import NETS, TWO_CELLS, Cell

ENTRIES = {f"{net}{change}": NETS[net] for change in WAYS.values() for net in FIGURE_1} | TWO_CELLS
LOCAL = {"exp3_1_r2": "one object", "exp3_1-5_r2": "1-5 objects"}


@cache
def _cells(preset: str) -> list[Cell] | None:
    if preset not in sizes.SIZES:
        return None
    return tables_beyond_chance.cells(read_rows(rows_path("medium")), ENTRIES)


def _claim(net: str, way: str, judge: Callable[[Sequence[Cell]], tuple[str, str]]) -> Claim:
    name = {"exp1": "Exp. 1", "exp2": "Exp. 2", "exp3_r2": "Exp. 3, r = 2"}[net]
    words = f"Fig. 1 by Muon, {name}, by the {way}, at 64 px: within {NEAR} of the paper's K"
    return Claim(words, str(NETS[net].k), "A7", _cells, judge)


def _table_claim(net: str, objects: str) -> Claim:
    words = f"Table 1 by Muon, local net of {objects}, r = 2, at 64 px: within {NEAR} of the paper's K"
    return Claim(words, str(TWO_CELLS[net].k), "A6", _cells, entry(net))


CLAIMS = (
    *(_claim(net, way, entry(f"{net}{change}")) for way, change in WAYS.items() for net in FIGURE_1),
    *(_table_claim(net, objects) for net, objects in LOCAL.items()),
)
