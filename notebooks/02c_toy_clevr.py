# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # 2c · Why one label is not enough: a toy CLEVR with exact scores
#
# **Claim.** Two *Bayes-optimal* models of scenes with one label agree on everything that training
# shows. One length-generalizes and is local at the labeled cells (between them it still counts over the
# whole image). The other looks far at the labeled cells and does not length-generalize. Enforcing
# locality takes the choice away.
#
# Paper: Figs. 1 and 2, Exps. 1-3 (App. E.1), here in closed form (`theory.blobs`). Nothing is trained.
# Under a minute on two CPU cores, the same for every preset.

# %% tags=["parameters"]
preset: str = "tiny"
seed: int = 0

# %%
from IPython.display import Markdown

from lcs_utils import plotting
from lcs_utils.notebooks import check_parameters
from lcs_utils.theory_examples import toy_clevr
from lcs_utils.theory_examples.toy_clevr import ANY, EACH, EXP_1, LOCAL

check_parameters(preset=preset)
plotting.use_style()
low, high = 0.1, 3.0  # noise levels

# %% [markdown]
# ## Fig. 1 in the toy
# What should a model do with nine labels if it never saw two? Scenes are colored blobs on the paper's
# grid, up to three per scene. Exp. 1 is told all occupied cells. Exp. 2 is told one and must infer the
# others from the whole image. Several labels can be read in two ways: *any* one of them may hold the
# labeled object, or *each* does. Both fit its training data perfectly. Exp. 3 infers from the
# neighboring cells; a label whose window holds no other need not choose. Rings are the labels: look for
# rings without an object.

# %%
samples = toy_clevr.sample([1, 4, 9], seed)

# %%
words = (
    "Four exact models at one, four and nine labels: all of them fill every ring, but for Exp. 2 read"
    " as 'any', which draws at most three objects whatever is asked."
)
values = {"labels": samples.asked, "objects": samples.objects}
figure = toy_clevr.plot_samples(samples)
path = plotting.save_figure(figure, "theory_toy_fig01", preset, values, seed, alt=words)

# %%
lines = [f"| {name} | " + " | ".join(map(str, found)) + " |" for name, found in samples.objects.items()]
Markdown("\n".join(["| objects drawn at | 1 label | 4 labels | 9 labels |\n|---|---|---|---|", *lines]))

# %%
objects = {name: found[2] for name, found in samples.objects.items()}  # at nine labels
assert samples.objects[EXP_1] == samples.asked and objects[ANY] <= 3
assert min(objects[EACH], objects[LOCAL]) >= 9

# %% [markdown]
# ## How local must it be?
# Where does composition end? Nine labels stand three cells apart on a smaller grid. One-label models,
# read as *any*, see from radius zero (each cell alone) to the whole image, which is Exp. 2. Look where
# a label's window begins to hold a second one.

# %%
swept = toy_clevr.sweep([0, 1, 2, 3, 4, 5, 7], seed)

# %%
words = (
    "Objects drawn at nine labels against the window's radius: all nine as long as a window holds one"
    " label, then hardly three, down to Exp. 2 at the whole image."
)
figure = toy_clevr.plot_sweep(swept.placed)
path = plotting.save_figure(figure, "theory_toy_radius", preset, {"placed": swept.placed}, seed, alt=words)

# %%
said = ", ".join(f"{radius}: {placed:.1f}" for radius, placed in swept.placed.items())
Markdown(f"Objects at the nine labels, by radius: {said}.")

# %%
assert swept.placed[0] == 9 and swept.placed[7] <= 3

# %% [markdown]
# ## Fig. 2 from exact scores
# Where does the denoiser of the middle object look (eq. (9)), and where does the middle label act
# (eq. (10))? Exp. 1 looks nowhere else, at any noise level. At high noise Exp. 2, read as *any*, looks
# at all labeled places, since any of them may be *the* one. Read as *each* it is, **at a labeled
# cell**, as local as Exp. 1. At low noise the pixels decide and the label no longer acts (except in
# Exp. 1, which trusts nothing else).

# %%
influences = toy_clevr.influences(samples.pictures[EXP_1][2], (low, high), seed)
at_high = {name: levels[high] for name, levels in influences.items()}

# %%
words = (
    "Influence maps around nine labels: only Exp. 2 read as 'any' looks, and lets its label act, at "
    "all of them; the other models at their own cell only; at low noise only Exp. 1's label acts."
)
values = {
    f"{name}, sigma {sigma}": {"far": level.far, "condition": level.strength}
    for name, levels in influences.items()
    for sigma, level in levels.items()
}
figure = toy_clevr.plot_influences(influences)
path = plotting.save_figure(figure, "theory_toy_fig02", preset, values, seed, alt=words)

# %%
heading = "| at high noise, from outside the cell | pixels | condition |\n|---|---|---|"
lines = [f"| {name} | {level.far[0]:.1%} | {level.far[1]:.1%} |" for name, level in at_high.items()]
Markdown("\n".join([heading, *lines]).replace("-0.0%", "0.0%"))

# %%
composing = [name for name in objects if objects[name] >= 9]
assert all(max(at_high[name].far) < 0.01 for name in composing) and min(at_high[ANY].far) > 0.3
for name in (ANY, EACH, LOCAL):  # at low noise the pixels decide
    assert influences[name][low].strength < 1e-3 * at_high[name].strength

# %% [markdown]
# ## At the labels this is trivial: the whole Jacobian
# Is the model that composes local *everywhere*? At a labeled cell the label decides, and nothing is
# left to look for. So here is the whole Jacobian, of all cells with respect to all cells, on the
# smaller grid. Below the line are the *unlabeled* cells. There the composing model must count how many
# extra objects there are already, so it looks over the whole image; Exp. 1 does not. Composing needs
# locality where conditions act, not everywhere.

# %%
jacobians = toy_clevr.jacobians(swept.scene, (0.5, 1.0, 3.0), 1.0, seed)
elsewhere = jacobians.elsewhere

# %%
words = (
    "Jacobians, cells by cells: Exp. 1 only on the diagonal; Exp. 2 read as 'any' far from labeled cells;"
    " read as 'each' only on the diagonal at labeled cells and everywhere at unlabeled ones; Exp. 3 in a "
    "narrow band."
)
values = {f"{name}, sigma {s}": e._asdict() for name, each in elsewhere.items() for s, e in each.items()}
figure = toy_clevr.plot_jacobians(jacobians)
path = plotting.save_figure(figure, "theory_toy_jacobian", preset, values, seed, alt=words)

# %%
heading = "| from outside the cell | σ | labeled, at most | unlabeled, least | most |\n|---|---|---|---|---|"
lines = [
    f"| {name} | {sigma:g} | {found.labeled:.0%} | {found.least:.0%} | {found.most:.0%} |"
    for name, each in elsewhere.items()
    for sigma, found in each.items()
]
Markdown("\n".join([heading, *lines]))

# %%
assert all(found.most < 1e-9 for found in elsewhere[EXP_1].values())  # Exp. 1 nowhere else
assert all(found.labeled < 1e-9 for found in elsewhere[EACH].values())  # nor 'each', where it is told
assert max(found.most for found in elsewhere[EACH].values()) > 0.05  # but between the labels it counts

# %% [markdown]
# **What to look for.** In this toy Exp. 2 does not fail for lack of data or capacity: nothing in its
# data says what two labels mean. Of the two exact models of one label, the one that composes is local
# where the labels are and counts between them; the other, at the labels, looks far away. A network
# picks a reading; locality takes the choice away.
#
# **What differs from the paper.** The toy CLEVR, the two readings and the radius sweep are ours.
