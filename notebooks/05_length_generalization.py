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
# **Claim** (section 2, Fig. 1, Table 1): trained on 1-3 objects, a net that is told *all* locations
# (Exp. 1) draws objects at more locations than it ever saw together. The same net, trained on the same
# images but told *one* location per image (Exp. 2), does not.
#
# The numbers come from stored samples of the 64 px nets (the size of the label: 32 px), counted by the
# current counter and set beside a null: the same net's pictures that were asked for something else. How
# pictures look is judged by eye in A7; they look bad. Only the section "Ask for objects yourself" samples,
# from 32 px nets. Under a minute on two idle cores. Preset `paper` needs nets of that size and says how to
# get them.
#
# See also 06 (Exp. 3), A1 (both families of locations, both tolerances), A2 (what was in training), A3
# (is the counter right), A4 (are samples copies), A5 (other seeds and samplers, 32 px), A7 (along
# training, and by eye).

# %% tags=["parameters"]
preset: str = "tiny"

# %%
from IPython.display import Markdown
from itertools import pairwise
from lcs_utils import checkpoints, notebooks, plotting
from lcs_utils.claims import extra_objects
from lcs_utils.evaluation import against_null, null_figures, sentences, sizes, strips, tables_beyond_chance
from lcs_utils.evaluation import wording
from lcs_utils.evaluation.rows import STANDARD, of_preset, seeds_of
from lcs_utils.stats import as_dicts

# %%
notebooks.check_parameters(preset=preset)
plotting.use_style()
seed = STANDARD.seed  # of the stored samples
numbers = range(1, tables_beyond_chance.MOST + 1)  # of the paper's locations
size, _ = sizes.told(preset)
stored = of_preset(size)

# %% [markdown]
# ## One condition, two nets
# The condition for K is the first K of the paper's 12 test locations. The nets differ only in the labels
# they were trained with, and samples in one column start from the same noise. Look at the crosses from
# K = 4 on: which net leaves more of the asked places empty?

# %%
two = {"exp1": "Exp. 1\nall labels", "exp2": "Exp. 2\none label"}
shown = strips.strip(list(two), range(1, 10), stored, size)
figure = shown.grid(list(two.values()))
path = plotting.save_figure(figure, "exp1_exp2_samples", preset, shown.numbers(), seed)
# %%
Markdown(sentences.of_strip(shown, {net: words.partition("\n")[0] for net, words in two.items()}))

# %% [markdown]
# ## As numbers, beside the null
# Each of 64 samples for each K and training is asked for its own random cells, at least three apart,
# where training scenes have objects (family `spread`). A picture is right when an object stands within a
# cell of each asked one and there are no others. (Nets with unlabeled objects may draw as many extras as
# Tables 1 and 2 list.) Beyond training one may be extra, and from five on one missing. At four none may
# be missing, since more must be in place than training showed.
#
# Objects fill cells wherever they stand, so the dotted lines show the null: the same pictures judged at the
# cells of other samples. *Conditions obeyed* counts objects that stand where they do because they were asked
# for there (`judged.obeyed`; a dash, and nine: the cells asked for are too close to tell). A net's K is the
# largest up to which its share stays above the thin line at a quarter; the jump after four comes from the
# rule. Does Exp. 2 draw more, or obey more, when told more?
#
# Between the two lie nets told a random number of an image's locations, or all but one (Table 2). The net
# told all but one draws one object too many up to three. Of its pictures fewer than a quarter are right
# at four, more than half at five, so its K is due to our clause about four. Below the table is each K
# without it.

# %%
names = {"exp1": "Exp. 1", "exp2": "Exp. 2"}
between = {"random_1-3": "random number of labels", "drop_one_1-3": "one label dropped"}
colors = {words: plotting.color_of(net) for net, words in (names | between).items()}
trainings = {words: seeds_of(stored, net) for net, words in names.items()}  # apart in their seed alone
trainings |= {words: nets for net, words in between.items() if (nets := seeds_of(stored, net))}
found = {words: against_null.of_nets(stored, nets, "spread") for words, nets in trainings.items()}
title = "64 px, random cells, 64 samples per K and training"
figure = null_figures.plot(found, colors, trained=3, title=title)
values = {words: as_dicts(of.at) for words, of in found.items()}
path = plotting.save_figure(figure, "length_generalization", preset, values, seed)
# %%
each = {
    f"{words}, {said}": {1: against_null.of_nets(stored, nets, family, ks=numbers)}
    for words, nets in trainings.items()
    for family, said in wording.CELLS.items()
}
apart = {
    f"{words}, random cells, seed {i}": {1: against_null.of_nets(stored, [net], "spread")}
    for words, nets in trainings.items()
    for i, net in enumerate(nets if len(nets) > 1 else ())
}
Markdown(null_figures.markdown(each | apart) + "\n" + sentences.without_clause(stored, trainings))

# %% [markdown]
# ## A control that the paper lacks: the size of the label
# A condition with k labels has an embedding sqrt(k) times as large as any that Exp. 2 was trained with.
# Does the same net do better when the condition is divided by sqrt(k) at sampling? This is at 32 px,
# where the nets are smaller and draw with speckle; counter and null are the same.

# %%
scaled = {"exp1": "Exp. 1", "exp2": "Exp. 2", "exp2/unit": "Exp. 2, labels / √k"}
little = sizes.sampled(preset)  # where Exp. 2's weights are, to be told otherwise
small = of_preset(little)
rescaled = {words: against_null.of_nets(small, [net], "spread") for net, words in scaled.items()}
colors |= {words: plotting.color_of(net) for net, words in scaled.items()}
figure = null_figures.plot(rescaled, colors, trained=3, title="32 px, random cells, 64 samples per K")
values = {words: as_dicts(of.at) for words, of in rescaled.items()}
path = plotting.save_figure(figure, "label_size", preset, values, seed)
# %%
Markdown(null_figures.markdown({words: {1: of} for words, of in rescaled.items()}))

# %% [markdown]
# ## Tables 1 and 2, ours beside the paper's
# K by number and places at random cells, beside that of the null and beside the paper's, which comes from
# eight samples judged by eye. Nets that were not trained are marked so.
# `python -m lcs_utils.training queue` trains them, and A2 has most of them at 32 px. At random cells up
# to nine objects were asked for; at the paper's cells up to twelve from whole-image nets and up to nine
# from local ones (06). The paper has one local net on 1-3 objects and does not state its radius. Both of
# ours stand beside it. At the paper's cells, which lie close together, the counter sees more objects than the
# eye from K = 7 on, and K by eye is smaller (A7). *Open*: the interval is partly within one. *Not asked*: K
# is the most that was asked for, so that it may be larger, and decides nothing.

# %%
table = tables_beyond_chance.cells(stored, seed=seed)
figure = tables_beyond_chance.plot(table, sizes.SIZES[size])
said = as_dicts({cell.net: cell for cell in table if cell.own})
path = plotting.save_figure(figure, "tables_1_2", preset, said, seed)
# %%
lines = (tables_beyond_chance.sentence(table), tables_beyond_chance.shorter(table))
Markdown("\n\n".join([*filter(None, lines), tables_beyond_chance.markdown(table)]))

# %% [markdown]
# ## Objects that nobody asked for
# The paper gives ranges of them. Table 2's second half has, as we read it, the objects drawn when no
# location is asked for. Tables 1 and 2 have the extra objects in parentheses (none: no extras), for every K
# at which the paper's net succeeds and which a training image holds. Here all are asked for the paper's
# cells. The bound on the share of samples outside a range is ours (`from_rows.OUTSIDE`). A check is
# reproduced if the exact 95% interval of that share ends at the bound or below, not reproduced if it
# begins above, and undecided otherwise. In parentheses is the null: the same net's pictures that were
# asked for as many objects as in training. Which nets leave their range, and which are only undecided?

# %%
unasked = extra_objects.checks(stored, table)
Markdown(extra_objects.sentence(unasked) + "\n\n" + extra_objects.markdown(unasked))

# %% [markdown]
# ## Ask for objects yourself
# Choose cells, press Sample, and read what the counter finds. Shown first: one sample of each net from the
# same noise. Squares are the cells asked for, discs the objects found.

# %%
from lcs_utils.counter.net import ObjectCounter
from lcs_utils.widgets import ConditionSampler

pipelines = {words: checkpoints.load(net, little) for net, words in names.items()}
denoisers = {words: pipeline.denoiser for words, pipeline in pipelines.items()}
side = pipelines["Exp. 1"].config.resolution
sampler = ConditionSampler(denoisers, ObjectCounter.from_pretrained(), k=5, resolution=side, seed=seed)
sampler.draw_samples()
sampler

# %% [markdown]
# ## The claim, checked
# Beyond its training Exp. 1 is right far more often than its null and than Exp. 2, and it obeys more
# conditions. In the paper's order for 1-3 objects (all labels, a random number, all but one, one) each net
# fills fewer cells above its null than the one before. The intervals of the first two overlap, but compared
# in the same draws of conditions and noise the difference is above zero. Dividing the condition by sqrt(k)
# does not bring Exp. 2 near Exp. 1.

# %%
one, two = (found[words] for words in names.values())
assert one.k.placed.low > max(3, one.k.placed_null.high) and two.k.placed.high <= 3
assert all(one.at[k].placed.above.low > max(0, two.at[k].placed.above.high) for k in (4, 5, 6))
assert all(one.at[k].obeyed.low > two.at[k].obeyed.high for k in (4, 5, 6))
told = [words for words in ("Exp. 1", *between.values(), "Exp. 2") if words in found]
assert all(more.low > 0 for more in against_null.steps(stored, [trainings[words] for words in told], 6))
above = [found[words].at[6].filled.above for words in told[1:]]
assert all(more.low > fewer.high for more, fewer in pairwise(above))
if dropped := found.get("one label dropped"):
    assert all(abs(dropped.at[k].drawn.value - k - 1) < 0.1 for k in (1, 2, 3))
    assert dropped.at[4].placed.own.value < 0.25 and dropped.at[5].placed.own.value > 0.5
# %%
whole, _, unit = (of.at[6].placed.own for of in rescaled.values())
assert unit.high < whole.low
print(f"Exp. 1 composes, Exp. 2 does not, nor with its labels / √k: share right at six: {unit.value:.2f}")

# %% [markdown]
# **What differs from the paper**: it judges Exp. 1 by eye at likely 128 px, on eight samples. We use a counter,
# on 64, and judge number and places alone, since hardly any picture of these nets looks right to a
# vision-language model that judges blind (A7; by Muon and an SDE more do).
