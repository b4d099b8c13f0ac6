"""Train the object counter and measure its accuracy: `python -m lcs_utils.counter --help`.

Saves its state every minute, resumes after a kill, and writes the checkpoint with its accuracy by count.
"""

import argparse
import hashlib
import json
from pathlib import Path

import torch

from lcs_utils import checkpoints, paths, store
from lcs_utils.checks import check_count
from lcs_utils.counter.card import export
from lcs_utils.counter.net import COMMAND, RESOLUTION, ObjectCounter, folder, verify
from lcs_utils.counter.scenes import training_data
from lcs_utils.counter.training import BATCH, as_data, begin_with, run, start
from lcs_utils.nets import CheckpointError


def is_counter(folder: Path) -> bool:
    """Whether a folder holds what `export` wrote; denoisers have a row.json, too."""
    try:
        config = json.loads((folder / "config.json").read_text())
    except (OSError, ValueError):
        return False
    return (folder / "row.json").exists() and config.get("_class_name") == ObjectCounter.__name__


def main(arguments=None) -> None:
    parser = argparse.ArgumentParser(prog=COMMAND, description=__doc__.splitlines()[0])
    parser.add_argument(
        "--resolution", type=int, default=RESOLUTION, help="input size in px; smaller images are enlarged"
    )
    parser.add_argument(
        "--scenes", type=int, default=40960, help="rendered training scenes; a resumed run may use more"
    )
    parser.add_argument(
        "--images", type=int, default=620_000, help="training images in all; a finished run is only measured"
    )
    parser.add_argument("--width", type=int, default=48, help="channels at 16x16")
    parser.add_argument("--blocks", type=int, default=1, help="residual blocks per stage")
    parser.add_argument(
        "--by-count", action="store_true", help="draw scenes in proportion to their object count + 2"
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--begin-with",
        help="folder of a counter to start from (without its stem if the resolution differs)",
    )
    parser.add_argument("--held-out", type=int, default=2000, help="held-out renders per count")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--device", default="cpu", help="where the net is trained: cpu, or cuda")
    parser.add_argument("--output", help="checkpoint folder")
    parser.add_argument("--note", help="remark on the training, for row.json and the card")
    args = parser.parse_args(arguments)
    if args.resolution < RESOLUTION and not args.output:
        parser.error(
            f"--resolution must be at least {RESOLUTION}, got {args.resolution}: smaller images are "
            f"enlarged to {RESOLUTION} px"
        )
    place = Path(args.output or folder(args.resolution))
    if place.exists() and not is_counter(place) and (place.is_file() or any(place.iterdir())):
        parser.error(
            f"{place} holds something that is no counter, which would be replaced; name another folder"
        )
    if args.images < BATCH or args.scenes < BATCH or args.held_out < 2:
        parser.error(f"--images and --scenes must be at least {BATCH} and --held-out at least 2")
    try:
        for name in ("threads", "width", "blocks"):
            check_count(f"--{name}", getattr(args, name), 1)
        checkpoints.check_device(args.device)
        torch.set_num_threads(args.threads)
        torch.manual_seed(args.seed)
        net = ObjectCounter(args.resolution, args.width, args.blocks)
        if args.begin_with:
            before, other = Path(args.begin_with), ObjectCounter.from_pretrained(args.begin_with)
            begin_with(net, other)
            parts = [part.numpy().tobytes() for part in other.state_dict().values()]
            weights = hashlib.sha256(b"".join(parts)).hexdigest()[:12]
        state = start(net.to(args.device), args.seed)
    except (ValueError, RuntimeError, OSError, CheckpointError) as error:
        parser.error(str(error))
    begun = (f"_blocks{args.blocks}" if args.blocks > 1 else "") + ("_by_count" if args.by_count else "")
    if args.begin_with:  # by its weights too: two folders may have one name
        begun += f"_from_{before.name}_{weights}"
    name = f"counter{args.resolution}_width{args.width}_seed{args.seed}{begun}"
    state_path = paths.RUNS / "training" / name / "state.pt"
    first = state_path.with_name("first.json")  # the command behind the counter that this one may replace
    with store.exclusive(state_path):  # two trainings of the same counter take turns
        if state_path.exists():
            try:
                state.load(state_path)
            except ValueError as error:
                parser.error(str(error))
        elif args.begin_with:
            # a folder of `save_pretrained` has no row that says how it was trained
            told = verify(before) if (before / "row.json").exists() else {"resolution": None}
            same = told["resolution"] == args.resolution
            store.write_json(first, [told["command"]] if same else [])
        steps = args.images // BATCH
        if state.seen[0] < steps:
            try:
                scenes = as_data(training_data(args.scenes, args.resolution))
                run(state, scenes, steps, args.by_count, state_path)
            except (ValueError, FloatingPointError, OSError) as error:  # a damaged shard, a full disk
                parser.exit(2, f"{parser.prog}: {error}\n")
    images = int(state.seen[0]) * BATCH
    command = (
        f"{COMMAND} --resolution {args.resolution} --scenes {args.scenes} --images {images} --width "
        f"{args.width}"
    )
    command += f" --seed {args.seed} --held-out {args.held_out}"
    command += (f" --blocks {args.blocks}" if args.blocks > 1 else "") + (
        " --by-count" if args.by_count else ""
    )
    command += f" --output {paths.shown(args.output)}" if args.output else ""
    if args.begin_with:
        commands = json.loads(first.read_text()) if first.exists() else []
        command = " && ".join([*commands, f"{command} --begin-with {args.begin_with}"])
    row = {
        "command": command,
        "images": images,
        "scenes": args.scenes,
        "seconds": round(float(state.seen[1])),
        "seed": args.seed,
    } | ({"note": args.note} if args.note else {})
    row = export(state.ema.cpu(), args.output or folder(args.resolution), row, args.held_out)
    for of in row["targets"]:
        asked = f"at least {of['at_least']:g}" if "at_least" in of else f"at most {of['at_most']:g}"
        print(
            f"{of['px']} px: {of['what']}: {of['reached']:g}, asked for "
            f"{asked}{'' if of['met'] else ': MISSED'}"
        )
