# The figures, the training data and the nets as one graph of commands (Snakemake 9, pinned in requirements.lock).
#
#   snakemake --profile profiles/local                       every figure of preset `tiny` (run.py reproduce)
#   snakemake --profile profiles/slurm train                 render and train every net, one GPU each
#   snakemake --profile profiles/slurm render                only the scenes
#   snakemake --profile profiles/local -n train              what that would run
#   snakemake --profile profiles/local --report report.html  one page, after a run
#
# --config preset=paper sets the size; gpus=8 trains one net on 8 GPUs; parts=32 renders each folder by 32 jobs.
import sys

sys.path.insert(0, str(workflow.basedir))
from lcs_utils import checkpoints, notebooks, paths
from lcs_utils.experiments import CONTROLS, EXPERIMENTS, PRESETS, RADIUS_SWEEP, TABLE_1, TABLE_2

PRESET = config.get("preset", "tiny")
GPUS = int(config.get("gpus", 1))
PARTS = int(config.get("parts", 8 if PRESET == "paper" else 1))
PYTHON = sys.executable
if PRESET not in PRESETS:
    raise WorkflowError(f"unknown preset {PRESET!r}; allowed: {', '.join(PRESETS)}")
SIZE = PRESETS[PRESET]
PAPER = PRESET == "paper"


FIGURES = paths.shown(paths.FIGURES / PRESET if PRESET in paths.SHIPPED else paths.RUNS / PRESET / "figures")


# Snakemake removes a rule's outputs before it starts and when it fails. Finished figures must survive that (`update`),
# and so must shards and training states, which resume: for them only a mark under runs/ says that all went well.
def done(kind, name):
    return f"runs/{PRESET}/done/{kind}_{name}"


rule reproduce:
    default_target: True
    input: [done("notebook", name) for name in notebooks.names()]


for NAME in notebooks.names():

    rule:
        name: f"notebook_{NAME}"
        input:
            [paths.shown(path) for path in notebooks.dependencies(NAME)],
            [paths.shown(path) for path in notebooks.data_files(NAME)],
        output:
            touch(done("notebook", NAME)),
            [report(update(f"{FIGURES}/{figure}.png"), category=NAME) for figure in notebooks.figures(NAME)],
            [update(f"{FIGURES}/{figure}.json") for figure in notebooks.figures(NAME)],
        params: command=f"{PYTHON} -m lcs_utils.notebooks run {NAME} -p preset {PRESET}"
        threads: 1
        resources: mem_mb=6000, runtime=720 if PAPER else 60, gpu=1 if PAPER else 0
        shell: "{params.command}"


# Each net is a job of its own; those whose checkpoint exists are left as they are.
TRAINED = {name for name in EXPERIMENTS if (checkpoints.folder(name, PRESET) / checkpoints.WEIGHTS).exists()}


rule train:
    input: [done("train", name) for name in EXPERIMENTS]


rule table1:
    input: [done("train", e.name) for e in TABLE_1]


rule table2:
    input: [done("train", e.name) for e in TABLE_2]


rule radius:
    input: [done("train", e.name) for e in RADIUS_SWEEP]


rule controls:
    input: [done("train", e.name) for e in CONTROLS]


rule render:
    input: [done("render", most) for most in (3, 6)]


for NAME, EXPERIMENT in EXPERIMENTS.items():

    rule:
        name: f"train_{NAME}"
        input: [] if NAME in TRAINED else done("render", 3 if EXPERIMENT.objects[1] <= 3 else 6)
        output: touch(done("train", NAME))
        params:
            launcher=f"-m accelerate.commands.launch --num_processes {GPUS} --multi_gpu --main_process_port 0" if GPUS > 1 else "",
            command=f"-m lcs_utils.training {NAME} --preset {PRESET} --missing",
        threads: 4
        resources: gpu=GPUS, mem_mb=64000 if PAPER else 12000, runtime=(2880 if PAPER else 360) * EXPERIMENT.times
        shell: PYTHON + " {params.launcher} {params.command}"


# The two folders of training_data.load_data; training renders by itself what is missing here. Parts are jobs of their own
# that render every n-th shard into one folder; the rule that waits for them records the checksums.
for MOST in (3, 6):

    RENDER = f"{PYTHON} -m lcs_utils.clevr.dataset --objects 1-{MOST} --per-count {SIZE.per_count} --resolution {SIZE.resolution}"

    for PART in range(1, PARTS + 1):

        rule:
            name: f"render_1_to_{MOST}_part_{PART}_of_{PARTS}"
            output: touch(done("render", f"{MOST}_part_{PART}_of_{PARTS}"))
            params: command=f"{RENDER} --part {PART}/{PARTS}"
            threads: 16
            resources: mem_mb=16000, runtime=720 if PAPER else 240
            shell: "{params.command} --workers {threads}"

    rule:
        name: f"render_1_to_{MOST}"
        input: [done("render", f"{MOST}_part_{PART}_of_{PARTS}") for PART in range(1, PARTS + 1)]
        output: touch(done("render", MOST))
        params: command=RENDER
        threads: 1
        resources: mem_mb=6000, runtime=240 if PAPER else 60
        shell: "{params.command} --workers {threads} && {params.command} --verify"
