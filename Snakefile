# Scenes, nets, rows and figures as one graph of commands (Snakemake 9, pinned in requirements.lock).
#
#   snakemake --profile profiles/local                                 every figure of preset `tiny` (run.py reproduce)
#   snakemake --profile profiles/slurm --config preset=paper           from scenes to figures, at the paper's size
#   snakemake --profile profiles/local --config preset=tiny images=2000   the same way on few images, all of it under runs/
#   snakemake --profile profiles/local -n train                        what a target would run: render, train, measure, table1 ...
#   snakemake --profile profiles/local --report report.html            one page, after a run
#
# The settings of --config, with their defaults:
#   preset=tiny         the size: tiny, small, medium (no notebooks), paper
#   images=             a trial: narrow nets, this many training images, at most as many scenes of each count
#   nets= notebooks=    a selection, such as exp1,exp2 and A1,07, or `all`, `none` (a trial: Fig. 1's nets, and A1)
#   gpus=1              GPUs of one net (a trial: 0)
#   parts=1             jobs that render one folder (paper: 32), render_threads=8 each (a trial: 2)
#   max_runtime=1440    minutes of the longest job; training resumes in the next one
#   samples= locations= samples of each K, and which K, in place of the defaults (a trial: 8, and 1-3)
# Experiments of your own: `export LCS_EXPERIMENTS=mine.py` (CONTRIBUTING.md).
# Memory, runtime, threads and partition of each kind of job: `set-resources` of a profile, by the names of the rules.
import argparse
import math
import re
import shlex
import sys

sys.path.insert(0, str(workflow.basedir))
from lcs_utils import notebook_values, notebooks, paths
from lcs_utils.clevr.card import parse_counts
from lcs_utils.clevr.labels import LABEL_POLICIES
from lcs_utils.experiments import COLOR, CONTROLS, EXPERIMENTS, RADIUS_SWEEP, TABLE_1, TABLE_2, experiment, scene_counts
from lcs_utils.nets import parts
from lcs_utils.own import DATA
from lcs_utils.presets import PRESETS, preset
from lcs_utils.training.order import QUEUE


def chosen(key, everything, usual):
    """A setting as a list: some of `everything`; notebooks may be shortened to a unique beginning."""
    text = config.get(key, usual)
    text = f"{text:02d}" if isinstance(text, int) else str(text)  # notebooks=04 arrives as a number
    if text in ("all", "none"):
        return list(everything) if text == "all" else []
    words = text.split(",")
    if key == "notebooks":
        words = [notebooks.resolve(word) for word in words]
    if unknown := [word for word in words if word not in everything and not (key == "nets" and is_seed(word))]:
        raise WorkflowError(f"unknown {key} {', '.join(unknown)}; allowed: all, none, {', '.join(everything)}")
    return words


def is_seed(word):
    """Whether a word names a training of an experiment from another seed, as exp1_seed3."""
    base, seed, images, change = parts(word)
    return base in EXPERIMENTS and seed > 0 and images is None and change is None


def number(key, usual, least=0):
    """A setting that is a whole number."""
    value = config.get(key, usual)
    if not isinstance(value, int) or value < least:
        raise WorkflowError(f"{key} must be a whole number >= {least}, got {value!r}")
    return value


def of_net(name):
    """The experiment and the seed of a net."""
    base, seed, *_ = parts(name)
    return experiment(base), seed


SETTINGS = "preset images nets notebooks gpus parts render_threads max_runtime samples locations".split()
if unknown := [key for key in config if key not in SETTINGS]:
    raise WorkflowError(f"unknown settings {', '.join(unknown)}; allowed: {', '.join(SETTINGS)}")
TRIAL = "images" in config
PRESET = config.get("preset", "tiny")
if PRESET not in PRESETS:
    raise WorkflowError(f"unknown preset {PRESET!r}; allowed: {', '.join(PRESETS)} (with images=N: a trial of it)")
PRESET += f"_{number('images', 0, 1)}" if TRIAL else ""
try:
    SIZE = preset(PRESET)
except ValueError as error:
    raise WorkflowError(str(error))
PAPER = PRESET == "paper"
KNOWN = notebook_values.known(PRESET)  # no figure knows a preset of one's own, nor `medium` whole
SHIPPED = KNOWN and PRESET in paths.SHIPPED  # its nets and rows are in the repository, figures need no training
GPUS = number("gpus", 0 if TRIAL else 1)
if SIZE.batch % max(GPUS, 1):
    raise WorkflowError(f"a batch of {SIZE.batch} cannot be shared evenly by gpus={GPUS}")
PARTS = number("parts", 32 if PAPER else 1, 1)
RENDER_THREADS = number("render_threads", 2 if TRIAL else 8, 1)
MAX_RUNTIME = number("max_runtime", 1440, 10)
# of one net on one device, with room; how long one of a preset of one's own takes is not known: all that it may have
HOURS = {"tiny": 1.5, "small": 6, "medium": 2.5, "paper": 90}.get(PRESET, 1 if TRIAL else max(GPUS, 1) * MAX_RUNTIME / 60)

ON_A_GPU = " --gpu" if GPUS and (PAPER or "gpus" in config) else ""  # stop rather than take days on a CPU

QUEUED = [experiment(name).net(seed) for name, seed in QUEUE]
ALONG = ("exp1_seed1", "exp2_seed1")  # nets kept along their training
ALL_NETS = list(dict.fromkeys([*QUEUED, *EXPERIMENTS]))
NETS = chosen("nets", ALL_NETS, "exp1,exp2,exp3" if TRIAL else "all")
CHANGES = {  # nets sampled another way, and the nets that this takes
    "exp1/low_noise": ("low_noise",), "exp1/stochastic": ("low_noise",), "exp1/flow": ("low_noise",),
    "exp2/unit": (), "exp2/near": (), "exp2/nearest": (), "exp2/swapped": (), "exp1_1/linear": (),
    "exp1_1/linear_empty": ("background_empty",), "exp1_1/linear_one": ("background_one",),
    "exp1_1/linear_cluttered": ("background_cluttered",), "exp2/linear_cluttered": ("background_cluttered",),
}
CHANGED = [net for net, also in CHANGES.items() if {net.partition("/")[0], *also} <= set(NETS)]
SEEN = ("A3_counter", "A4_copies")  # need counts by eye and copies, which exist for shipped nets only
EVERY = [name for name in notebooks.names() if SHIPPED or name not in SEEN]
USUAL = "A1" if {"exp1", "exp2", "exp3"} <= set(NETS) else "none"  # of a trial: A1 compares these
NOTEBOOKS = chosen("notebooks", EVERY, "none" if not KNOWN else USUAL if TRIAL else "all")
if NOTEBOOKS and not KNOWN:
    raise WorkflowError(f"notebooks know {', '.join(notebook_values.PRESET_NAMES)}, not {PRESET}; leave notebooks out")
MEASURED = {"locations": "1-3" if TRIAL else None, "samples": 8 if TRIAL else None}  # K and samples, where not the defaults
MEASURED = {key: config.get(key, usual) for key, usual in MEASURED.items()}
if "samples" in config:
    number("samples", 0, 1)
if "locations" in config:
    from lcs_utils.training.measured import check_locations  # takes seconds

    try:
        ks = parse_counts(str(config["locations"]))
        for name in NETS + CHANGED:
            check_locations(name, of_net(name)[0], ks)
    except (argparse.ArgumentTypeError, ValueError) as error:
        raise WorkflowError(f"locations: {error}")
SOME = "".join(f" --{key} {value}" for key, value in MEASURED.items() if value is not None)

PYTHON = shlex.quote(sys.executable)  # the folder's name may hold a space
TRAIN = f"{PYTHON} -m lcs_utils.training"
RUNS = paths.shown(paths.RUNS)
FIGURES = paths.shown(paths.FIGURES / PRESET if SHIPPED else paths.RUNS / PRESET / "figures")


# Snakemake removes a rule's outputs before it starts and when it fails. Finished figures must survive that (`update`),
# and so must shards, training states and rows, which resume: for them only a mark under runs/ says that all went well.
# The slash of NET/change is a plus there, which no name of an experiment may hold (`checks.check_name`).
def done(kind, name):
    return f"{RUNS}/{PRESET}/done/{kind}_{str(name).replace('/', '+')}"


def minutes(name):
    """How long training a net takes, from its estimate, the pixels of two patches of an image where these are more
    than the image's, and the GPUs that share it."""
    exp = of_net(name)[0]
    patches = 1 if exp.radius is None else 2 * (SIZE.side(exp) / SIZE.resolution) ** 2
    return math.ceil(60 * HOURS * exp.times * max(patches, 1) / max(GPUS, 1)) + 15


def is_rendered(name):
    """Whether a net is trained on rendered scenes, not on data of one's own."""
    return of_net(name)[0].name not in DATA


def trained_on(name):
    """The folder of scenes of a net, by its lowest and largest object counts."""
    counts = scene_counts(of_net(name)[0])
    return f"{counts[0]}-{counts[-1]}"


def is_trained(name):
    places = (paths.CHECKPOINTS / PRESET, paths.RUNS / PRESET / "checkpoints")
    return any(any((place / name).rglob("*.safetensors")) for place in places)


def definition(name):
    """What a net's name means. Snakemake runs a job again when it has changed; a net that is there is then refused."""
    size = {key: value for key, value in SIZE.stored().items() if key != "at_once"}  # which changes no result
    exp = of_net(name)[0]
    labels = [LABEL_POLICIES[exp.labels].mean(n) for n in range(8)]
    return f"{exp}, labels of 0 to 7 objects {labels}, {size}"


def also_read(name):
    """What a notebook reads besides `notebooks.data_files`: loss curves, pages of docs/, where its imports do."""
    texts = [path.read_text() for path in notebooks.dependencies(name)]
    curves = paths.CHECKPOINTS.rglob("loss.csv") if any("checkpoints.loss_curve(" in text for text in texts) else []
    pages = [page for text in texts for page in re.findall(r'paths\.ROOT / "docs" / "([^"]+)"', text)]
    return sorted({*curves, *(paths.ROOT / "docs" / page for page in pages)})


FOLDERS = {trained_on(name): of_net(name)[0].name for name in reversed(ALL_NETS) if is_rendered(name)}  # counts: an experiment that needs them
RETRIES = 2 + max(math.ceil(minutes(name) / MAX_RUNTIME) for name in ALL_NETS)


wildcard_constraints:
    net="[^/]+",
    counts="[0-9]+-[0-9]+",
    part="[0-9]+",


rule reproduce:
    default_target: True
    input: [done("notebook", name) for name in NOTEBOOKS], [] if SHIPPED else done("measured", "all")


rule train:
    input: [done("train", name) for name in NETS]


rule table1:
    input: [done("train", e.name) for e in TABLE_1]


rule table2:
    input: [done("train", e.name) for e in TABLE_2]


rule radius:
    input: [done("train", e.name) for e in RADIUS_SWEEP]


rule controls:
    input: [done("train", e.name) for e in CONTROLS]


rule color:
    input: [done("train", e.name) for e in COLOR]


rule render:
    input: [done("render", counts) for counts in sorted({trained_on(name) for name in NETS if is_rendered(name)})]


rule measure:
    input: [done("measure", net) for net in NETS + CHANGED]
    output: touch(done("measured", "all"))


# Parts are jobs of their own that render every n-th shard into one folder; the rule that waits for them records and checks
# the checksums, once for all trainings.
rule render_part:
    output: touch(done("render_part", "{counts}_{part}"))
    params: experiment=lambda wildcards: FOLDERS[wildcards.counts]
    threads: RENDER_THREADS
    retries: 2
    resources: nodes=1, mem_mb=lambda wildcards, threads: 1500 * threads + 2000, runtime=min(480, MAX_RUNTIME)
    shell: TRAIN + " scenes {params.experiment} --preset " + PRESET + f" --part {{wildcards.part}}/{PARTS} --workers {{threads}}"


rule render_scenes:
    input: lambda wildcards: [done("render_part", f"{wildcards.counts}_{part}") for part in range(1, PARTS + 1)] if PARTS > 1 else []
    output: touch(done("render", "{counts}"))
    params: experiment=lambda wildcards: FOLDERS[wildcards.counts]
    threads: RENDER_THREADS
    retries: 2
    resources: nodes=1, mem_mb=lambda wildcards, threads: 1500 * threads + 2000, runtime=min(480, MAX_RUNTIME)
    shell: TRAIN + " scenes {params.experiment} --preset " + PRESET + " --workers {threads}"


# A net whose checkpoint exists is left as it is. A job that the cluster ended resumes from the saved state on the next try.
rule train_net:
    input: lambda wildcards: [] if is_trained(wildcards.net) or not is_rendered(wildcards.net) else done("render", trained_on(wildcards.net))
    output: touch(done("train", "{net}"))
    params:
        experiment=lambda wildcards: of_net(wildcards.net)[0].name,
        seed=lambda wildcards: f" --seed {of_net(wildcards.net)[1]}" if of_net(wildcards.net)[1] else "",
        along=lambda wildcards: " --snapshots" if wildcards.net in ALONG else "",
        definition=lambda wildcards: definition(wildcards.net),
    threads: 4 * max(GPUS, 1) if not TRIAL else 1
    priority: 1
    retries: RETRIES
    resources:
        gpu=GPUS,
        nodes=1,
        processes=max(GPUS, 1),  # not in the command's text: another number must not train or measure anything again
        mem_mb=32000 + 16000 * GPUS if PAPER else 6000 * max(GPUS, 1),
        runtime=lambda wildcards: min(minutes(wildcards.net), MAX_RUNTIME),
    shell:
        TRAIN + " {params.experiment} --preset " + PRESET + "{params.seed} --missing{params.along}"
        + (" --num-processes {resources.processes}" if GPUS else " --threads {threads}")
        + ON_A_GPU


# Up to 64 px the counter is in the repository; the next larger size gets its own.
COUNTER = [done("counter", SIZE.resolution)] if SIZE.resolution > 64 else []


rule train_counter:
    output: touch(done("counter", SIZE.resolution))
    params: device="--device cuda" if GPUS else ""
    threads: 8
    retries: 2
    resources: gpu=min(GPUS, 1), nodes=1, mem_mb=32000, runtime=MAX_RUNTIME
    shell: f"{PYTHON} -m lcs_utils.counter --resolution {SIZE.resolution} --threads {{threads}} {{params.device}}"


def nets_behind(wildcards):
    """Marks of the nets that a measurement takes, and their rows: a net trained again by hand is measured again."""
    net = wildcards.net.replace("+", "/")
    names = (net.partition("/")[0], *CHANGES.get(net, ()))
    rows = (paths.RUNS / PRESET / "checkpoints" / name / "row.json" for name in names)
    return [done("train", name) for name in names] + [paths.shown(row) for row in rows if row.exists()]


# Length generalization in all families of conditions (objects and their centers, from which K and conditions obeyed are told),
# the sheet of samples, locality and, unless `samples` or `locations` is given, features.
rule measure_net:
    input: nets_behind, COUNTER
    output: touch(done("measure", "{net}"))
    params:
        net=lambda wildcards: wildcards.net.replace("+", "/"),
        definition=lambda wildcards: definition(wildcards.net.partition("+")[0]),
    threads: 4 if not TRIAL else 1
    retries: 2
    resources: gpu=min(GPUS, 1), nodes=1, mem_mb=16000 if PAPER else 4000, runtime=min(720, MAX_RUNTIME)
    shell: TRAIN + " measure {params.net} --preset " + PRESET + SOME + " --threads {threads}" + ON_A_GPU


# Rows that exist, which may have been measured by hand after the mark. Like nets' rows, they are no inputs of the first run
# and are some of the next, so the profiles leave out the rerun trigger `input`.
KINDS = ("length_generalization", "color_generalization", "locality")
MEASUREMENTS = [paths.shown(path) for kind in KINDS for path in (paths.RUNS / PRESET).glob(f"{kind}.csv.bz2")]


# Notebooks draw from rows and samples and need no GPU. For shipped presets they assert their claims; for new nets they print
# the claims that do not hold.
for NAME in NOTEBOOKS:

    rule:
        name: f"notebook_{NAME}"
        input:
            [paths.shown(path) for path in notebooks.dependencies(NAME)],
            [paths.shown(path) for path in (*notebooks.data_files(NAME), *also_read(NAME))],
            [] if SHIPPED else [done("measured", "all"), *MEASUREMENTS],
        output:
            touch(done("notebook", NAME)),
            [report(update(f"{FIGURES}/{figure}.png"), category=NAME) for figure in notebooks.figures(NAME)],
            [update(f"{FIGURES}/{figure}.json") for figure in notebooks.figures(NAME)],
        params:
            threads="export OMP_NUM_THREADS={0} MKL_NUM_THREADS={0} NUMBA_NUM_THREADS={0} && ".format(8) if PAPER else "",
            tell="" if SHIPPED else " --tell-claims",
        threads: 8 if PAPER else 1
        resources: nodes=1, mem_mb=16000 if PAPER else 6000, runtime=min(720 if PAPER else 60, MAX_RUNTIME)
        shell: "{params.threads}" + f"{PYTHON} -m lcs_utils.notebooks run {NAME} -p preset {PRESET}" + "{params.tell}"
