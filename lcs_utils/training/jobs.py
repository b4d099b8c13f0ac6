"""The steps before and after a training as commands, for graphs of jobs: render scenes, measure nets.

    python -m lcs_utils.training scenes exp1 --preset paper --part 1/8   # what its net is trained on
    python -m lcs_utils.training measure exp1 exp2/unit --preset paper   # counts, samples, locality, features

Counts cover every K and family of locations (`measured.todo`); existing measurements are kept.
"""

import argparse

import torch

from lcs_utils import nets, paths
from lcs_utils.checks import check_count
from lcs_utils.clevr.card import parse_counts, parse_part
from lcs_utils.evaluation import changes, length_generalization
from lcs_utils.evaluation.colors import color_generalization
from lcs_utils.evaluation.locality import net_locality
from lcs_utils.experiments import EXPERIMENTS, Experiment, experiment, scene_counts
from lcs_utils.own import data_of
from lcs_utils.presets import Preset, preset
from lcs_utils.training.measured import check_locations, device, measure, todo
from lcs_utils.training.rendered import render_scenes, verify_once
from lcs_utils.training.state import check_made

ALONG = (range(1, 7), 32)  # K and samples of snapshots
PRESET = "tiny, small, medium, paper, or a trial of one, as tiny_2000"


def snapshots(net: str, size: Preset) -> list[str]:
    """The nets kept along a training, as NET@IMAGES, in its order."""
    folder = paths.RUNS / size.name / "training" / net
    found = [path.parent.name for path in folder.glob(f"{net}@*/row.json")]
    return sorted(found, key=lambda name: int(name.partition("@")[2]))


def measurable(net: str, size: Preset, ks=None) -> Experiment:
    """The experiment of NET or NET/CHANGE. Raises ValueError for an unknown name or `ks` at which it is not
    measured, CheckpointError for a net that is missing, or one that its change needs.
    """
    base, _ = changes.split(net)
    exp = nets.trained(base, size.name)
    check_made(nets.row(base, size.name), exp, size)
    changes.weights(net, size.name)
    if ks is not None:
        check_locations(net, exp, ks)
    return exp


def measure_net(net: str, size: Preset, ks=None, samples: int | None = None) -> None:
    """Measure and store all of a net, of NET/CHANGE only at the paper's locations or colors, and of its
    snapshots; `ks` and `samples` replace the usual ones, of what is counted: features are then left out.

    Raises as `measurable`, and CheckpointError for a net that is altered.
    """
    exp, change = measurable(net, size, ks), changes.split(net)[1]
    color = exp.condition == "color"
    counted = color_generalization if color else length_generalization
    if ks is None and samples is None and not change:
        measure(exp, net, size)
    else:
        for family, (usual, number) in todo(exp).items():
            chosen = [k for k in usual if ks is None or k in ks]
            if not change or family == ("colors" if color else "test"):
                counted.measure(net, chosen, samples or number, size.name, family=family, device=device())
        if todo(exp) and not change:
            net_locality.measure(net, size.name, device())
    for along in snapshots(net, size) if todo(exp) else []:
        few, number = ALONG
        counted.measure(
            along, [k for k in few if ks is None or k in ks], samples or number, size.name, device=device()
        )
        net_locality.measure(along, size.name, device())


def main(arguments=None) -> None:
    """Command line: scenes or measure, and their options."""
    parser = argparse.ArgumentParser(prog="python -m lcs_utils.training", description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    scenes = commands.add_parser("scenes", help="render the scenes a net is trained on")
    scenes.add_argument("experiment", help=f"one of: {', '.join(EXPERIMENTS)}")
    scenes.add_argument("--workers", type=int, default=1, help="processes that render")
    scenes.add_argument("--part", type=parse_part, default=(1, 1), help="i/n: every n-th shard")
    measures = commands.add_parser("measure", help="count objects in nets' samples, and measure locality")
    measures.add_argument("nets", nargs="+", help="checkpoints, or CHECKPOINT/CHANGE")
    measures.add_argument(
        "--locations", type=parse_counts, help="values of K, such as 4, 0-12 or 1,4 (default: all)"
    )
    measures.add_argument("--samples", type=int, help="samples of each K (default: 64, local nets 24)")
    measures.add_argument("--threads", type=int, help="CPU threads")
    measures.add_argument("--gpu", action="store_true", help="stop rather than measure on the CPU")
    for command in (scenes, measures):
        command.add_argument("--preset", default="tiny", help=PRESET)
    args = parser.parse_args(arguments)
    try:
        size = preset(args.preset)
        if args.command == "scenes":
            exp = experiment(args.experiment)
            if data_of(exp.name):
                raise ValueError(f"{exp.name} is trained on data of your own: there are no scenes to render")
            folder = render_scenes(exp, size, args.workers, args.part)
            if args.part == (1, 1):
                verify_once(folder, scene_counts(exp))
            print(f"{paths.shown(folder)} is there")
            return
        if args.samples is not None and args.samples < 1:
            raise ValueError(f"--samples must be at least 1, got {args.samples}")
        if args.gpu and not torch.cuda.is_available():
            raise ValueError("--gpu: torch finds no GPU here (leave it out to measure on the CPU)")
        if args.threads is not None:
            torch.set_num_threads(check_count("--threads", args.threads, 1))
        for net in args.nets:  # all names first: measuring one takes minutes to hours
            measurable(net, size, args.locations)
        for net in args.nets:
            measure_net(net, size, args.locations, args.samples)
    except (ValueError, RuntimeError, OSError, nets.CheckpointError) as error:
        parser.exit(2, f"{parser.prog} {args.command}: {error}\n")
