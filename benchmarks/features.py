"""All measures of one net from one pass, compared with a loop over conditions: the ratio is the point.

    python benchmarks/features.py [--draws 4]

The loop evaluates every set of conditions separately, once for each measure that needs it (F1, F2, F3, F6).
The pass evaluates all sets of a draw together, once. Net of Exp. 1 (32 px); processor seconds, so that other
load hardly matters.
"""

import argparse

import torch
from timing import clock, memory

from lcs_utils.evaluation.features import feature_nets, net_features
from lcs_utils.evaluation.features.net_features import KS, REMOVALS, N, Setting
from lcs_utils.features.capture import NetResponse
from lcs_utils.features.contexts import contexts, gather
from lcs_utils.features.measures import all_measures
from lcs_utils.models.unet import MCScale

SIGMA = 2.0


def needed(order) -> list[frozenset[int]]:
    """The sets that the four measures ask for, one measure after the other, as a loop would run them."""
    single = [frozenset([j]) for j in order]
    first = [frozenset(order[:k]) for k in range(1, N + 1)]
    cosine = [frozenset(), *single]
    additive = [J for k in KS for J in (frozenset(), first[k - 1], *single[:k])]
    removals = [J for k in REMOVALS for j in order[:k] for J in (first[k - 1], first[k - 1] - {j})]
    return cosine + additive + removals + first


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--draws", type=int, default=4)
    args = parser.parse_args()
    torch.set_num_threads(1)
    of = feature_nets.subject("exp1")
    draw = net_features.draws_of(Setting(SIGMA, draws=args.draws), of.resolution)
    respond = NetResponse(of.denoise, of.module, feature_nets.singles(of.module.config.cond_dim), MCScale)
    respond(draw(0), SIGMA, [frozenset()])  # the first call allocates
    sets, distinct = needed(range(N)), contexts(range(N), REMOVALS)
    _, one = clock(lambda: [respond(draw(0), SIGMA, [J]) for J in sets])
    _, once = clock(lambda: [respond(draw(0), SIGMA, [J]) for J in distinct])
    (sums, together), rise = memory(
        lambda: clock(lambda: gather(respond, draw, args.draws, SIGMA, N, REMOVALS, shuffled=True))
    )
    together /= args.draws
    print(f"a draw of x_t, {len(sums)} spaces: the loop, {len(sets)} evaluations: {one:.2f} s")
    print(f"  each set once, {len(distinct)} evaluations: {once:.2f} s, ratio {one / once:.1f}")
    print(
        f"  one pass, all inner products too: {together:.2f} s, ratio {one / together:.1f}, memory "
        f"+{rise:.0f} MiB"
    )
    only = net_features.MEASURES

    def measure(space):
        return all_measures(sums[space], KS, REMOVALS, of.trained, 0, only[space.reading])

    _, numbers = clock(lambda: [measure(space) for space in sums])
    print(f"all stored measures of {len(sums)} spaces with their controls and intervals: {numbers:.1f} s")


if __name__ == "__main__":
    main()
