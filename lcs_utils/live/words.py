"""Numbers and sentences of the live page's article, computed from the shipped rows at build time."""

from functools import cache

from lcs_utils import nets
from lcs_utils.evaluation import against_null
from lcs_utils.evaluation.locality import net_locality
from lcs_utils.evaluation.locality.locality_rates import chance_locality
from lcs_utils.evaluation.rows import read_rows, rows_path
from lcs_utils.evaluation.sentences import listed
from lcs_utils.live.nets import NETS, Net, counter_version

TOLD = (3, 6, 9)  # locations of the table
NOISE = 10.0  # the sigma of the sentence about locality: high noise, where the paper's argument wants it


@cache
def measured() -> dict[Net, against_null.Found] | None:
    """The page's nets at random cells, next to their null, as in notebook A1; None until all have been
    counted, with today's weights, by today's counter.
    """
    counter, rows = counter_version(), {}
    for net in NETS:  # rows of weights or a counter since replaced say nothing of what the page draws
        today = (net.name, net.weights, counter)
        stored = read_rows(rows_path(net.preset))
        rows[net] = [row for row in stored if (row.net, row.weights, row.counted_by) == today]
    if not all(set(TOLD) <= {row.k for row in of if row.family == "spread"} for of in rows.values()):
        return None
    return {net: against_null.of_nets(of, [net.name], "spread") for net, of in rows.items()}


def counted() -> str:
    """The table below the samples: number and places beside their null, and K (App. E.2)."""
    values = measured()
    if values is None:
        return ""
    lines = [
        f"| | {' | '.join(f'{k} asked for' for k in TOLD)} | largest K |",
        "|" + "---|" * (len(TOLD) + 2),
    ]
    for net, found in values.items():
        rates = (found.at[k].placed for k in TOLD)
        cells = [f"{rate.own.value:.2f} ({rate.null.value:.2f})" for rate in rates]
        largest = found.k.placed
        cells.append(f"{largest.value} [{largest.low}, {largest.high}]")
        lines.append(f"| {net.title} ({found.at[TOLD[1]].samples} samples) | {' | '.join(cells)} |")
    looks = [f"{net.title} {found.at[TOLD[1]].looks.value:.2f}" for net, found in values.items()]
    return "\n".join(
        [
            "Many samples say more than three. The share of images that are right: an object within one cell",
            "of each asked one, of random cells three apart, and no other; beyond the three of training one",
            "may be extra, from five on one missing, and a net that was told one label may draw two more. In",
            "brackets the null, the same nets' images of *other* conditions; K is the most up to which more",
            f"than a quarter is right ([notebook A1](notebooks/A1_is_it_real.ipynb), counter "
            f"`{counter_version()}`):",
            "",
            *lines,
            "",
            f"How an image *looks* is another matter: of those asked for {TOLD[1]}, the share that the",
            f"counter takes for a clean render is {listed(looks)}.",
        ]
    )


def local() -> str:
    """The sentence below the slider: conditional locality over eight scenes, next to its null."""
    preset = NETS[0].preset
    stored = net_locality.read(preset)  # which refuses damaged rows
    try:
        rows = net_locality.current(stored, [net.name for net in NETS], preset)
    except ValueError:  # not measured yet
        return ""
    said = []
    for net in NETS:
        shares = [row.within_2 for row in rows[net.name] if row.sigma == NOISE]
        radius = nets.verified_row(net.name, preset)["radius"]
        null = f"{100 * chance_locality(radius):.0f}%" + (
            ", its window's doing" if radius is not None else ""
        )
        said.append(f"{100 * sum(shares) / len(shares):.0f}% in {net.title} (alike: {null})")
    return (
        f"Over {net_locality.IMAGES} such scenes, at noise {NOISE:g}, the pixels around the objects take "
        f"from conditions within two cells {listed(said)} ([notebook 07](notebooks/07_locality.ipynb))."
    )


def verdict() -> str:
    """One sentence that combines both halves; it claims no more than the intervals of K allow."""
    values = measured()
    if values is None:
        return "The table will stand here when these nets have been counted at random cells."
    most = nets.verified_row(NETS[0].name, NETS[0].preset)["objects"][1]
    told: dict[str, list[str]] = {"beyond": [], "not": [], "open": []}
    for net, found in values.items():
        k, null = found.k.placed, found.k.placed_null
        above = k.low > max(most, null.high if null else 0)
        told["beyond" if above else "not" if k.high <= most else "open"].append(net.title)
    goes = "go" if len(told["beyond"]) > 1 else "goes"
    does = "do" if len(told["not"]) > 1 else "does"
    parts = (
        f"{listed(told['beyond'])} {goes} beyond the {most} objects of training" if told["beyond"] else "",
        f"{listed(told['not'])} {does} not" if told["not"] else "",
        f"few samples of {listed(told['open'])} leave it open" if told["open"] else "",
    )
    said = ", ".join(filter(None, parts))
    return (
        f"{said[0].upper()}{said[1:]}, by number and places; which of them listen nearby, the slider shows."
    )
