"""Eq. (3)'s cosines of every layer, pair by pair, as rows: the matrices of Figs. 5 and 11 (App. E.4).

    python -m lcs_utils.evaluation.features.feature_matrices exp1 exp2 color_1-3

Rows live in data/counts/tiny/cosines.csv.bz2. Each net is measured with its untrained twin and with two
controls, permuted labels and random vectors; rows of the same weights are reused.
"""

import argparse
import math
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor
from tqdm.auto import tqdm

from lcs_utils import nets, presets, store
from lcs_utils.evaluation.features.feature_nets import N, Subject, singles, subject, untrained_twin
from lcs_utils.evaluation.features.net_features import DRAWS, Setting, sums
from lcs_utils.evaluation.rows import rows_path
from lcs_utils.features.capture import Space
from lcs_utils.features.contexts import FITTED, KINDS, Sums
from lcs_utils.features.measures import cosine_matrices
from lcs_utils.presets import parse_preset

SETTING = Setting(2.0)  # Choice: the paper's sigma is lost; net_features sweeps it
COMMAND = "python -m lcs_utils.evaluation.features.feature_matrices NET ..."


class CosineRow(NamedTuple):
    """One cosine of eq. (3), of conditions i and j in a layer of side x side places (0: the denoiser)."""

    preset: str
    net: str
    weights: str
    layer: str
    side: int
    sigma: float
    inputs: str
    draws: int
    control: str
    i: int
    j: int
    value: float


def matrix(of: Sums, kind: int = FITTED) -> Float[Tensor, "n n"]:
    """Eq. (3)'s cosines of one layer, from disjoint halves of the draws (Fig. 5)."""
    weights = torch.full((1, len(of.projected)), 1 / len(of.projected), dtype=torch.float64)
    return cosine_matrices(of, weights, kind)[0]


def net_rows(of: Subject, preset: str, setting: Setting = SETTING) -> list[CosineRow]:
    """Rows of the pairs i < j for every layer (all channels and places flattened) and the denoiser."""
    found, rows = sums(of, setting, removals=()), []
    for space, of_space in found.items():
        if space.reading != "flat":
            continue
        mean = found.get(Space(space.layer, "mean"))
        side = math.isqrt(of_space.size // mean.size) if mean else 0
        how = (space.layer, side, setting.sigma, setting.inputs, setting.draws)
        for kind, control in enumerate(KINDS):
            values = matrix(of_space, kind).tolist()
            rows += [
                CosineRow(preset, of.net, of.weights, *how, control, i, j, round(values[i][j], 4))
                for j in range(N)
                for i in range(j)
            ]
    return rows


def path(preset: str = "tiny") -> Path:
    """Where a preset's rows are stored."""
    return rows_path(preset, "cosines")


def read(preset: str = "tiny") -> list[CosineRow]:
    """The stored rows. Warns and raises as `store.read_rows`."""
    return store.read_rows(path(preset), CosineRow)


def sides(rows: Iterable[CosineRow], net: str) -> dict[str, int]:
    """{layer: places per side}, in the order of the net: encoder, decoder, denoiser (side 0)."""

    def place(item: tuple[str, int]) -> tuple[int, int]:
        part, _, rest = item[0].partition(".")
        return ("encoder", "decoder", "denoiser").index(part), int(rest.partition(".")[0] or 0)

    return dict(sorted({(row.layer, row.side) for row in rows if row.net == net}, key=place))


def matrices(rows: Iterable[CosineRow], net: str, control: str = "") -> dict[str, Float[Tensor, "n n"]]:
    """{layer: its matrix of cosines}, in the order of the net: encoder, decoder, denoiser.

    Raises ValueError, with the command, for a net or control without rows.
    """
    mine = [row for row in rows if (row.net, row.control) == (net, control)]
    if not mine:
        of = f"{net!r}, control {control!r}" if control else repr(net)
        raise ValueError(f"no cosines of {of}: {COMMAND.replace('NET ...', net)}")

    found = {layer: torch.eye(N) for layer in sides(mine, net)}
    for row in mine:
        found[row.layer][row.i, row.j] = found[row.layer][row.j, row.i] = row.value
    return found


def measure(
    net: str,
    preset: str = "tiny",
    setting: Setting = SETTING,
    device: str = "cpu",
    file: Path | None = None,
) -> None:
    """Add the rows of a net and of its untrained twin, unless rows of the same weights are stored."""
    of, file = subject(net, preset, device), file or path(preset)
    singles(of.module.config.cond_dim)
    for one in (of, untrained_twin(of, presets.preset(preset).sigma_data)):
        how = (one.net, one.weights, setting.sigma, setting.inputs, setting.draws)
        if how in {(r.net, r.weights, r.sigma, r.inputs, r.draws) for r in store.read_rows(file, CosineRow)}:
            continue
        rows = net_rows(one, preset, setting)
        with store.exclusive(file):
            kept = [row for row in store.read_rows(file, CosineRow) if row.net != one.net]
            store.write_rows(file, COMMAND, CosineRow, kept + rows)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        prog="python -m lcs_utils.evaluation.features.feature_matrices", description=__doc__.splitlines()[0]
    )
    parser.add_argument("nets", nargs="+", help="checkpoints, or CHECKPOINT/unit")
    parser.add_argument("--preset", default="tiny", type=parse_preset)
    parser.add_argument("--draws", type=int, default=DRAWS, help="draws of x_t (default: %(default)s)")
    parser.add_argument("--rows", type=Path, help="a CSV of your own (default: the preset's)")
    args = parser.parse_args(arguments)
    try:
        for net in tqdm(args.nets, unit="net", disable=None):
            measure(net, args.preset, SETTING._replace(draws=args.draws), file=args.rows)
    except (ValueError, OSError, RuntimeError, nets.CheckpointError) as error:
        parser.error(str(error))


if __name__ == "__main__":
    main()
