# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # A2 · What was in training: more objects, more labels
#
# **Claim** (Fig. 8, Table 2): the more objects a training image shows, and the more of them carry a
# label, the more a net places beyond its training.
#
# Fig. 8 comes first: 64 px nets, counted by today's counter, beside their null. Everything below it is
# earlier: 32 px nets, counted by an earlier counter (`data/counts/tiny/earlier_counter.csv.bz2`), without
# nulls. Nothing is sampled here. Under a minute on two idle cores.

# %% tags=["parameters"]
preset: str = "tiny"

# %%
from IPython.display import Markdown
from lcs_utils import notebooks, plotting
from lcs_utils.claims import fig08, from_rows
from lcs_utils.evaluation import alt_texts, sentences, strips, table_figures, tables, training_sets
from lcs_utils.evaluation.eye import hand_counts
from lcs_utils.evaluation.rows import STANDARD, of_preset, read_rows, told_path
from lcs_utils.evaluation.studies import more_objects
from lcs_utils.evaluation.wording import EARLIER
from lcs_utils.experiments import experiment
from lcs_utils.stats import as_dicts

# %%
notebooks.check_parameters(preset=preset)
plotting.use_style()
seed = STANDARD.seed  # of the stored samples
stored, hands = read_rows(told_path(preset)), hand_counts.read_counts()

# %% [markdown]
# ## Fig. 8: more objects in training, at 64 px beside the null
# The nets were told all locations and trained on up to one, two, ... six objects. (All saw as many images,
# so those of more objects fewer of each count.) Dotted is the null: the same pictures judged at other
# samples' cells. Left is K, ours at random cells and at the paper's, and the paper's own. At K = 9 every net
# is beyond its training and is judged by the same rule: one may be missing, one extra. From which net on
# does the distance to the null no longer grow? (The paper's figure shows pictures. Ours of these nets are
# below, of 32 px; at 64 px those on one, two and three objects are in `data/samples/small`.)

# %%
large = of_preset("small")
at_64 = more_objects.of_nets(large, (*more_objects.NETS, "exp2_1-6"), seed)
all_told = {net: at_64[net] for net in more_objects.NETS}
figure = more_objects.plot(all_told)
numbers = as_dicts(more_objects.numbers(all_told))
path = plotting.save_figure(figure, "fig08", preset, numbers, seed)
# %% [markdown]
# As numbers, the null in parentheses (at the paper's cells: pictures asked for random ones). The sentence
# is what the verdict judges: each net against the one before, at a K between the paper's two K, nine at most
# (two nets with the same K in the paper are not compared). The last line of the table was trained on six
# objects and told one of them: do six objects help it? (Labels of three objects as a dose, beside the null,
# are in 05.) At the paper's cells the net of six objects stops early: at six, still in training, all must be
# there and nothing else.

# %%
pairs = fig08.pairs(large)
Markdown(f"{fig08.composes_farther(pairs)[0]}.\n\n{more_objects.markdown(at_64)}")

# %% [markdown]
# Two of these nets by Muon (preset `medium`, a quarter of the images), all else alike: does it hang on the
# recipe? Again the net of six objects fills more of nine random cells above its null. But its K is no larger:
# at five and six, still in its training, all must be there and nothing else. The last line judges it as the
# net of three is judged. (Of three there are two trainings, of six one.)

# %%
muon = of_preset("medium")
by_muon = more_objects.of_nets(muon, ("exp1@100000", "exp1_1-6"), seed)
three_muon, six_muon = by_muon.values()
assert six_muon.random.at[9].filled.above.low > three_muon.random.at[9].filled.above.high
assert six_muon.listed.k.placed.value < three_muon.listed.k.placed.value
by_three = tables.say(more_objects.by_rule_of_three(muon))
Markdown(f"{more_objects.markdown(by_muon)}\nBy three's rule, K at the paper's cells: {by_three}.")

# %% [markdown]
# ## Earlier: the same at 32 px, earlier counter, no null
# A column has the same noise and the same K locations (dots). Every sample is one of the eight that
# `data/samples` shows for every K. From K = 7 on no net has seen as many objects. Look down a column: from
# which row on do objects stand at the dots?

# %%
ranges = training_sets.by_objects(stored)
nets = [of.cell.net for of in ranges if "_x3" not in of.cell.net]
shown = strips.strip(nets, range(1, 11), preset=preset)
figure = shown.grid([f"trained\non {of.cell.trained_on}" for of in ranges[: len(nets)]], cell=0.85)
path = plotting.save_figure(figure, "fig08_samples", preset, {"nets": nets, "K": shown.ks}, seed)
# %% [markdown]
# As numbers, still of 32 px by the earlier counter: K by the paper's rule beside the paper's own, and two
# shares that need no rule.

# %%
words = [f"trained on {of.cell.trained_on}" for of in ranges]
shares = {"filled": "cells filled", "within_one": "K-1 to K+1 objects"}
figure = table_figures.plot_rows(ranges, words, shares, f"share, K = 7 to 9\n({EARLIER})")
numbers = {of.cell.net: of._asdict() for of in ranges}
path = plotting.save_figure(figure, "fig08_32", preset, numbers, seed, alt=alt_texts.shares(ranges))
# %% [markdown]
# Up to the trained maximum the paper's rule asks for every cell filled and nothing elsewhere. Beyond it
# one more object may be there, and one may be missing as soon as more stand in place than training
# showed. The last column allows both at every K, a rule chosen after seeing these numbers. And is it the
# counter's doing? The line below the table is of samples that a vision-language model counted blind.

# %%
many = {"exp1_1-5": "on 1-5 objects", "exp1_1-6": "on 1-6 objects"}
Markdown(sentences.training_sets(ranges) + "\n" + sentences.blind(hands, stored, many, (5, 6)))

# %% [markdown]
# **Is it short training?** All nets saw as many images, except the first (one object, fewer images) and
# the last. So the net of six counts saw half as many of each count as the net of three. Objects that
# nobody asked for, along the two trainings on six:

# %%
spans = {"K = 1 to 3": (1, 2, 3), "K = 4 to 6": (4, 5, 6), "K = 7 to 9": (7, 8, 9)}
six = ("exp1_1-6", "exp1_1-6_x3")
stages = {net: training_sets.elsewhere_along_training(stored, net, spans) for net in six}
Markdown(sentences.longer(stages))

# %% [markdown]
# ## Label completeness as a dose (32 px, no null)
# These trainings have the same images and differ in how many of the objects carry a label: one; all but
# one ("one label dropped"); anything from one to all ("random"); all. On 1-3 objects one label dropped
# leaves as many labels as "one label", but up to two of them together. On 1-6 objects it leaves *more*
# labels than a random number. (A sample *succeeds* if number and places are right by the paper's rule and it
# looks right to the counter.) Does composition follow the share, or how many are told together?

# %%
doses = training_sets.by_labels(stored)
share = [experiment(of.cell.net).labeled_share for of in doses]
names = {of.cell.net: f"{of.cell.trained_on}: {of.cell.column}" for of in doses}
words = [f"{name}\n({part:.0%} of objects labeled)" for name, part in zip(names.values(), share)]
title = f"share, one to three more objects than\nin training ({EARLIER})"
shares = {"filled": "cells filled", "success": "samples that succeed"}
free = "one may be missing at every K, extras not counted"
figure = table_figures.plot_rows(doses, words, shares, title, [4], tolerant=free, shape="s")

# %%
numbers = {of.cell.net: {"labeled": part} | of._asdict() for of, part in zip(doses, share)}
path = plotting.save_figure(figure, "label_completeness", preset, numbers, seed, alt=alt_texts.shares(doses))
# %% [markdown]
# In the last column one cell may stay empty and extra objects do not count. This rule was chosen after
# seeing these numbers. It shows what the paper's rule costs the nets that draw too many.

# %%
Markdown(sentences.training_sets(doses, names, "K, extras not counted"))

# %% [markdown]
# ## Tables 1 and 2 at 32 px
# K is the largest number such that every k = 1..K succeeds. The figure shows K by the paper's rule (more
# than a quarter of the samples) on all of ours. The table below adds the same rule on 8 samples, and our
# own (more than half, another limit on extras). Look at how far apart the two marks of a line are.

# %%
table = tables.cells(stored)
figure = table_figures.plot_tables(table)
numbers = [cell._asdict() for cell in table]
path = plotting.save_figure(figure, "tables_1_2_32", preset, numbers, seed, alt=alt_texts.tables(table))
# %%
Markdown(from_rows.outside(stored, table))

# %% [markdown]
# ## The claim, checked
# On 1-3 objects, nets told one label, all but one, a random number and all fill more cells at K = 4 to 6 in
# this order, and no two intervals touch (first trainings, no null). At K = 2 and 3 other trainings with one
# label fill as many as one dropped, or more (`figures/tiny/verdicts.md`). The first two are told the same
# share, half of the objects, so the share alone does not decide. At 64 px each step up to four objects
# fills more above the null (two against one at K = 3, three against two at 7, four against three at 9); six
# fill no more than five at 9. At the paper's cells K is smaller with six objects than with three, but only by
# the rule: six cells are within its training, where nothing may be extra or missing. By three's rule it is
# not smaller.

# %%
by_labels, by_objects = ({of.cell.net: of.filled for of in found} for found in (doses, ranges))
ladder = [by_labels[net] for net in training_sets.BY_LABELS[3]]  # from one label to all
assert all(higher.low > fewer.high for fewer, higher in zip(ladder, ladder[1:]))
few, many = by_objects["exp1_1-2"], by_objects["exp1_1-6"]
assert many.low > few.high and many.low < by_objects["exp1"].high  # from three objects on, no more
grows = [of.by.low > 0 for of in pairs]  # six objects against five first, two against one last
assert all(grows[1:]) and not grows[0]  # up to four objects
three, six_objects = (at_64[net] for net in ("exp1", "exp1_1-6"))
assert six_objects.random.at[9].filled.above.low > three.random.at[9].filled.above.high
more = all(b.low > a.high for a, b in zip(ladder, ladder[1:]))
print("one label, one dropped, a random number, all: each fills more cells:", more)
# %%
six, threes = (of.listed.k.placed for of in (six_objects, three))
alike = more_objects.by_rule_of_three(large)
assert six.high < threes.low and alike.low >= threes.value
others = {n: tables.say(more_objects.by_rule_of_three(large, f"exp1_1-{n}")) for n in (4, 5)}
by_rule = f"of six objects {tables.say(six)}, by three's rule {tables.say(alike)}; by it of four {others[4]}"
Markdown(f"K at the paper's cells: {by_rule}, of five {others[5]}; of three {tables.say(threes)}.")

# %% [markdown]
# **What differs from the paper**: its K goes on growing with the objects in training. At 64 px ours at
# random cells grows to the most that was asked for; whether it would grow on was not asked. At the paper's
# cells, by three's rule, it is no smaller from four objects on (printed above). At 32 px ours fills no more
# cells from three objects on. How much of that is due to the rule or to short training is in the two tables
# at 32 px.
#
# **Not tested here**: the paper's hypothesis for why it grows (App. E.2). A net trained on up to N objects
# could learn clusters of objects and how to compose clusters, say 12 objects from four clusters of three,
# which would help where objects are crowded. Nothing here tells a cluster from single objects.
