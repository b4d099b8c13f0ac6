# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # A1 · Is it real? What is measured, against its null and against the eye
#
# **Question**: objects fill cells wherever they stand. How much of what notebooks 05 and 06 call right
# would a net get that does not listen, and does the counter see what an eye sees?
#
# The null of a net is the net itself: its own pictures that were asked for something else, judged at
# these cells. A net that does not listen scores the same on both, wherever it crowds its objects. Objects
# are assigned to asked cells one to one, within one cell or in the exact cell. The paper's 12 locations
# lie close together in the middle. So in a second family (`spread`) every sample is asked for K random
# cells of its own, at least three apart, where training scenes have objects. Intervals cover noise and
# conditions.

# %% tags=["parameters"]
preset: str = "tiny"

# %%
from IPython.display import Markdown
from lcs_utils import notebooks, plotting
from lcs_utils.evaluation.eye import by_eye, hand_counts
from lcs_utils.evaluation.is_it_real import is_it_real, markdown, plot
from lcs_utils.evaluation.rows import STANDARD, of_preset, seeds_of

notebooks.check_parameters(preset=preset)
plotting.use_style()
seed = STANDARD.seed  # of the stored samples

# %%
labels = ("Exp. 1, all labels", "Exp. 2, one label", "Exp. 3, local, r = 2")
stored, hands = of_preset("small"), hand_counts.read_counts()
names = ("exp1", "exp2", "exp3_r2")
nets = {words: seeds_of(stored, net) for words, net in zip(labels, names)}  # apart in their seed alone
colors = {words: plotting.color_of(net) for words, net in zip(labels, names)}
real = is_it_real(stored, nets, by_eye.of_size(hands, "64 px"), seed)

# %% [markdown]
# ## At 64 px: number and places and their null, cells filled above it, and the eye
# The rule is the paper's but for looks (`rules.number_and_places`). Dotted: the null. Dash-dotted: the
# share of samples that look right to the counter, which rejects strong faults (speckle, confetti, rings,
# fading) but not objects grown together (A3); the eye passes none of Exp. 1's (A7). Third row: cells filled
# minus the null's. Thin: how much room there is above the null, since at large K a net that was asked for
# something else also fills many cells. Last row: mean number of objects in the samples (fewer, at the
# paper's cells) that a vision-language model also counted blind: its count and the counter's.

# %%
path = plotting.save_figure(plot(real, colors), "is_it_real_64", preset, real.numbers(), seed)
# %% [markdown]
# ## The numbers
# The null is in parentheses. After the semicolon, at the paper's cells, is the share of the cells it was *not*
# asked for that it fills. *Conditions obeyed* are objects that stand where they do because they were asked
# for there, estimated as objects near asked cells, minus those near cells that other samples were asked for,
# divided by the share of asked cells that two conditions do not share. A dash: objects stand near asked
# cells so often anyway that nothing can be said. K is looked at up to nine (≥ 9: all of these succeed);
# the tables in 05 go on to twelve.

# %%
Markdown(markdown(real))

# %% [markdown]
# ## At 32 px
# The same for the small nets of notebooks 07, A2, A5 and A6, which draw with speckle. The local one sees
# three cells around each, two at 64 px. What does their size cost?

# %%
nets = {words: [name] for words, name in zip((*labels[:2], "Exp. 3, local, r = 3"), ("exp1", "exp2", "exp3"))}
colors |= {words: plotting.color_of(net) for words, (net,) in nets.items()}
tiny = is_it_real(of_preset(preset), nets, hands, seed)
path = plotting.save_figure(plot(tiny, colors), "is_it_real", preset, tiny.numbers(), seed)
# %%
Markdown(markdown(tiny))

# %% [markdown]
# ## Checked

# %%
for found in (real, tiny):
    one, two = (found.measured["spread"][label][1].at for label in labels[:2])
    assert all(one[k].filled.above.low > max(0, two[k].filled.above.high) for k in (4, 5, 6))
print("At K = 4, 5, 6 Exp. 1 places more than its null, further above it than Exp. 2 above its own.")
