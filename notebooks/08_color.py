# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # 8 · Color: a condition without a place
#
# **Claim** (section 4, Figs. 5, 11, Table 1): nets told how many objects of each color to draw also draw
# more than they saw, though no pixel belongs to a color. The paper's K are 1, 4 and 7 for nets trained on
# 1, 1-3 and 1-5 objects, by eye, on eight samples.
#
# **Does the number of objects carry over beyond training? Do the colors?** The nets were told all colors of
# one to three, or of one to five, objects. Two controls were told the color of one object in each image, or
# only ever saw one object.
#
# | asked for | the number? | the colors? | K beyond training? |
# |---|---|---|---|
# | different colors | yes, up to about six | no: asked for six, at most one more is obeyed than asked for three | no |
# | one color | 1-3: up to about four on average; 1-5: yes, with extras | mostly | only the 64 px net of 1-3 |
# | different colors, the controls | no: fewer and fewer; from four on hardly any, from five on noise | no | no |
#
# - **Different colors** are often mixed up even at the three that a net saw. Why is open.
# - **One color**: asked for eight, nets of one to three draw about three. The net of one to five draws extras
#   at the four and five that it saw. From six to eight it has most of what is asked, and over a quarter of
#   its pictures are right, but few look right to the counter.
# - **The controls' noise** holds no objects. From six on the counter finds several in it (one color told),
#   but no such picture looks right to it (`looks`).
#
# So the number of different colors carries over to nets that were told all colors and saw several objects.
# All K, beside the null's and the paper's, are in the table below the last figure.
#
# A color says nothing about places, so random objects match many of the asked colors. The figures
# therefore show chance (random colors), the null, and what the counter makes of renders that show what
# was asked. From the rows in `data/counts/*/color_generalization.csv.bz2`. About a minute on two idle
# cores.

# %% tags=["parameters"]
preset: str = "tiny"

# %%
from IPython.display import Markdown
from lcs_utils import notebooks, plotting
from lcs_utils.clevr.scenes import COLORS
from lcs_utils.counter.net import ObjectCounter
from lcs_utils.counter.net import folder as counter_folder
from lcs_utils.stats import as_dicts

# %%
from lcs_utils.evaluation import sizes
from lcs_utils.evaluation.colors import color, color_figures, color_generalization, color_rates
from lcs_utils.evaluation.features import feature_figures, feature_matrices, feature_predictions
from lcs_utils.evaluation.features import feature_report
from lcs_utils.evaluation.rows import STANDARD

# %%
notebooks.check_parameters(preset=preset)
plotting.use_style()
seed, ks = STANDARD.seed, range(1, color.LARGEST_K + 1)  # the seed is the stored samples'
nets = color_figures.measured(color_generalization.read)

# %% [markdown]
# ## The pictures (Fig. 5)
# Each column asks for one more color, in the paper's order. Below each picture: how many of them the
# counter finds, and how many objects in all. The last row shows renders of what is asked. Up to which K
# does each row keep up?

# %%
counter = ObjectCounter.from_pretrained(counter_folder())
figure, said = color_figures.strips(nets, ks, counter, seed)
path = plotting.save_figure(figure, "fig05", preset, said, seed)

# %% [markdown]
# Beside the samples the paper shows eq. (3) in the encoder: cosines of the colors' mean differences, white
# where they are orthogonal. Ours are not orthogonal, and an untrained net's are closer to it (not
# reproduced). The two bottom rows are controls, explained in notebook 08b with all layers and what else they
# say.

# %%
cosines = sizes.of_both(feature_matrices.read)
shown = feature_report.labels(cosines, "64 px", "color")
every = feature_report.by_layer(cosines, "color_1-3, 64 px")
layers = [of for of in every if "encoder" in of.caption or "all layers" in of.caption]
figure = feature_figures.plot_cosines(cosines, shown, layers, dict.fromkeys(shown, COLORS))
said = feature_report.cosine_numbers(cosines, shown)
path = plotting.save_figure(figure, "fig05_features", preset, said, seed)

# %% [markdown]
# ## Against K
# Each sample is asked for its own K of the eight colors. Success is the paper's rule without looks: number
# and colors are right. Beyond training one may be extra, and one may be missing as soon as more are right
# than training showed, which makes five easier than four. As in notebook 05, a net's curve breaks where its
# training ends and the rule changes, shades show how many objects were in training, and the thin line is
# the quarter that K needs. Dotted is the null. Dashed on the left is what the counter makes of 64 px
# renders that show exactly what was asked. In *noise* it finds objects where there are none.

# %%
found = color_rates.of_nets(nets, "subsets", seed)
limits = {of: {k: color.ceiling(counter, of, k, 64, seed) for k in ks} for of in ("subsets", "repeated")}
figure = color_figures.plot_success(found, limits["subsets"])
path = plotting.save_figure(
    figure, "color_success", preset, as_dicts(found), seed, ["data/checkpoints/counter"]
)
# %% [markdown]
# ## Adding colors, or adding objects
# Left: how many of the objects asked for are there. (At seven, other samples are asked for nearly the same
# colors, so compare with random colors, not with the null.) On the right all K are asked to be of one
# color: a count above one, which few training scenes show. Here the null is as low as it can be, since
# other samples are asked for other colors. And here the 64 px net of one to three objects goes beyond its
# training, as the paper reports for different colors. What fails for different colors is keeping the colors
# of one picture apart; for one color, in nets of one to three, it is the number.

# %%
same = color_rates.of_nets(nets, "repeated", seed)
families = {"K colors, one object each": found, "K objects of one color": same}
figure = color_figures.plot_families(families, dict(zip(families, limits.values())))
said = as_dicts(families)
path = plotting.save_figure(figure, "color_families", preset, said, seed)
# %%
listed = color_rates.of_nets(nets, "colors", seed)
Markdown(color_figures.markdown(found, listed, same))

# %% [markdown]
# ## Objects beyond the border
# An object may be cut off by the border. Is its color in the label, and how often does that matter?

# %%
Markdown(color_figures.outside(512))

# %% [markdown]
# ## Checked

# %%
tests = feature_predictions.of_colors(found)
Markdown(feature_predictions.markdown(tests))
# %%
large, small = found["color_1-3, 64 px"].at[3], found["color_1-3"].at[3]
assert large.right.above.low > 0 and small.right.above.low > 0
several = [of for net, of in found.items() if net.startswith("color_1-")]
assert all(of.at[6].obeyed.value - of.at[3].obeyed.value < 1.1 for of in several)
assert all(abs(of.at[5].drawn.value - 5) < 1 for of in several)
assert found["color_1-3, 64 px"].k.high < 4 <= same["color_1-3, 64 px"].k.low  # four is the paper's
one, control = found["color_1, 64 px"], found["color_single_1-3, 64 px"]
assert one.k == control.k == (1, 1, 1, False) and max(one.at[5].drawn.high, control.at[5].drawn.high) < 1
print("Colors above their null at K = 3; asked for five, about five are drawn; K is below the paper's.")
said = f"{control.at[5].looks.value:.0%} of these look right to the counter"
print(f"Nets of one object, or told one color, asked for five, draw noise without objects; {said}.")
# %%
few = [of for net, of in same.items() if net.startswith("color_1-3")]
told = [of for net, of in same.items() if net.startswith("color_1-")]
assert all(of.at[k].right.own.value > 0.5 > of.at[k].chance for of in told for k in range(1, 6))
assert [net for net, of in same.items() if of.k.low > of.trained] == ["color_1-3, 64 px"]
assert all(of.at[k].drawn.high < k for of in few for k in (5, 6, 7, 8))
assert all(of.at[8].drawn.value < 3.5 for of in few)
assert max(at.drawn.value for of in few for at in of.at.values()) < 4
assert all(abs(of.at[k].drawn.value - k) < 1 for of in several for k in range(1, 7))
parts = (", ".join(f"{of.at[k].drawn.value:.1f}" for k in (5, 6, 7, 8)) for of in few)
print("Asked for 5, 6, 7, 8 of one color, nets of one to three draw:", *parts, sep="\n  ")
# %%
more = [same["color_1-5, 64 px"].at[k] for k in (6, 7, 8)]
assert all(of.success.own.value > 0.25 for of in more) and max(of.looks.value for of in more) < 0.25
parts = (f"{of.right.own.value:.2f}, {of.success.own.value:.2f}, {of.looks.value:.2f}" for of in more)
print("Of one to five, asked for 6, 7, 8 of one color: has, right, looks right:", *parts, sep="\n  ")
