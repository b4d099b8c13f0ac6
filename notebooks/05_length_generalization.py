# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # 5 · Length generalization: Exp. 1 against Exp. 2
#
# **Claim** (section 2, Fig. 1, Table 1): trained on 1-3 objects, a net that was told *all*
# locations (Exp. 1) draws objects at more locations than it ever saw together; the same net on the
# same images, told *one* location per image (Exp. 2), does not.
#
# Rates, K and tables are told from the rows of the counter before today's
# (`data/counts/tiny/earlier_counter.csv.gz`); the marks of the first figure are today's counter's,
# which also has nulls (notebook A1). Nothing is sampled but in the last section. Under a minute on
# two idle cores. Preset `paper` needs nets of that size; it says how.
#
# On: A2 (what was in training), A3 (is the counter right), A4 (are samples copies), A5 (other
# seeds, samplers, sizes of the label, along training).

# %% tags=["parameters"]
preset: str = "tiny"

# %%
from IPython.display import Markdown
from lcs_utils import nets
from lcs_utils import checkpoints, notebooks, plotting
from lcs_utils.evaluation import alt_texts, hand_counts, obeyed, rate_figures, rates
from lcs_utils.evaluation import sentences, strips, table_figures, tables
from lcs_utils.evaluation.rows import STANDARD, read_rows, rows_path, seeds_of, told_path
from lcs_utils.evaluation.sheets import sheet_path

# %%
notebooks.check_parameters(preset=preset)
plotting.use_style()
seed = STANDARD.seed  # of the stored samples
stored, today = read_rows(told_path(preset)), read_rows(rows_path(preset))
counts = strips.behind(told_path(preset))

# %% [markdown]
# ## One condition, two nets
# The condition for K is the first K of the paper's 12 test locations. The nets differ in nothing
# but the labels they were trained with, and samples in one column start from the same noise. Look
# at the crosses from K = 4 on: which net leaves an asked place empty?

# %%
two = {"exp1": "Exp. 1\nall labels", "exp2": "Exp. 2\none label"}
shown = strips.strip(list(two), range(1, 10), today, preset)
figure = shown.grid(list(two.values()))
files = strips.behind(rows_path(preset), *(sheet_path(net, preset) for net in two))
path = plotting.save_figure(figure, "exp1_exp2_samples", preset, shown.numbers(), seed, files)
# %%
Markdown(sentences.of_strip(shown, {net: words.partition("\n")[0] for net, words in two.items()}))

# %% [markdown]
# ## As numbers: many samples for every K
# A sample succeeds when every asked cell holds an object (within one cell; beyond the trained
# maximum all but one, and more than in training), fewer objects than the trained maximum stand
# elsewhere, and it looks like CLEVR. The paper judged 8 samples by eye; its tolerances are not
# known, these are ours. Bands are bootstrap intervals over samples.
#
# **A control that the paper lacks.** A condition with k labels has an embedding sqrt(k) times as
# large as any that Exp. 2 was trained with. Does the same net do better when the condition is
# divided by sqrt(k) at sampling?

# %%
names = {
    "exp1": "Exp. 1, all labels",
    "exp2": "Exp. 2, one label",
    "exp2/unit": "Exp. 2, condition / sqrt(k)",
}
colors = plotting.EXPERIMENT_COLORS | {"exp2/unit": plotting.PALETTE["purple"]}
measured = tables.net_rates(stored, names)
figure = rate_figures.plot_rates(measured, ["filled", "success", "extras"], names, colors)
used = counts + strips.behind(*(nets.folder(name, preset) for name in ("exp1", "exp2")))
path = plotting.save_figure(figure, "length_generalization", preset, measured, seed, used)
# %%
looks = sentences.looks_right(hand_counts.read_counts(), "exp2", "Exp. 2")
Markdown(sentences.means(stored, names, range(4, 9)) + "\n" + looks)

# %% [markdown]
# ## How many conditions does a net obey?
# Objects fill cells wherever they stand, which flatters a net that draws many. So a net's samples
# are taken for a mixture of CLEVR scenes with as many objects, of which 0, 1, 2, ... stand where
# they were asked for, the others anywhere (`evaluation.obeyed`). No threshold enters. From K = 9 on
# the asked cells lie too close for it. Look at Exp. 2: does it draw more, or obey more, when it is
# told of more?

# %%
obeying = names | {"exp3": "Exp. 3, local net", "random_1-3": "random number of labels"}
obeying = obeying | {"drop_one_1-3": "one label dropped"}
del obeying["exp2/unit"]
followed = obeyed.along_k(stored, obeying)
shades = colors | {"random_1-3": plotting.PALETTE["sky"], "drop_one_1-3": plotting.PALETTE["orange"]}
figure = obeyed.plot(followed, obeying, shades)
table = counts + strips.behind(obeyed.TABLE)
path = plotting.save_figure(figure, "conditions_obeyed", preset, followed, seed, table)
# %%
Markdown(sentences.obeyed(followed, obeying))

# %% [markdown]
# ## Tables 1 and 2, ours beside the paper's
# K is the largest number such that every k = 1..K succeeds. Drawn is K by the paper's rule (more
# than a quarter of the samples) on all of ours; the table below adds its rule on 8 samples and our
# own (more than half, another limit on extras). What was not measured says so: `python -m
# lcs_utils.training table1`, `table2` train those nets. Look at how far apart the two marks of a
# line are, and at which training sets.

# %%
table = tables.cells(stored)
figure = table_figures.plot_tables(table)
numbers = [cell._asdict() for cell in table]
path = plotting.save_figure(figure, "tables_1_2", preset, numbers, seed, used, alt_texts.tables(table))
# %%
Markdown(sentences.outside(stored, table))

# %% [markdown]
# ## Ask for objects yourself
# Choose cells, press Sample, and read what the counter finds.

# %%
from lcs_utils.counter.net import ObjectCounter
from lcs_utils.widgets import ConditionSampler

denoisers = {names[name]: checkpoints.load(name, preset).denoiser for name in ("exp1", "exp2")}
size = shown.images[0][0].shape[-1]
ConditionSampler(denoisers, ObjectCounter.from_pretrained(), k=5, resolution=size, seed=seed)

# %% [markdown]
# ## The claim, checked
# Exp. 1 succeeds beyond its training far more often than Exp. 2, with the condition rescaled or
# not; and no training of Exp. 2 obeys as many conditions as Exp. 1.

# %%
mean = {name: rates.mean_over(stored, name, "success", range(4, 9)).value for name in names}
assert mean["exp1"] > max(mean["exp2"], mean["exp2/unit"]) + 0.3
for of in obeyed.along_k(stored, seeds_of(stored, "exp2"), range(3, 9)).values():
    assert all(at.obeyed.high < min(2.5, followed["exp1"][k].obeyed.low) for k, at in of.items())
print(
    "Exp. 1 succeeds beyond what it was trained on far more often than Exp. 2:",
    mean["exp1"] > mean["exp2"] + 0.3,
)

# %% [markdown]
# **What differs from the paper**: its Exp. 1 is judged by eye at 128 px; ours is a small 32 px net
# trained on one core, whose objects touch and multiply where many are asked for, and there the
# counter itself is less sure (notebook A3).
