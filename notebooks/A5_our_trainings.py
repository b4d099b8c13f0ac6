# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # A5 · Our trainings: normalized labels, other seeds, other samplers, along the way
#
# **Question**: does the difference between Exp. 1 and Exp. 2 depend on how we trained and sampled them?
#
# These are 32 px nets, counted by the earlier counter, without a null: pictures judged by what another sample
# was asked for (05 has three trainings at 64 px with theirs). The rows are in
# `data/counts/tiny/earlier_counter.csv.bz2` and `locality.csv.bz2`; nothing is sampled here. Under a minute on
# two idle cores.

# %% tags=["parameters"]
preset: str = "tiny"

# %%
from IPython.display import Markdown
from lcs_utils import notebooks, plotting
from lcs_utils.evaluation import rate_figures, rates, sentences, tables, wording
from lcs_utils.evaluation.locality import locality_figures, locality_rates, net_locality
from lcs_utils.evaluation.rows import STANDARD, read_rows, seeds_of, told_path

# %%
notebooks.check_parameters(preset=preset)
plotting.use_style()
seed, colors = STANDARD.seed, plotting.EXPERIMENT_COLORS  # the seed is the stored samples'
stored = read_rows(told_path(preset))

# %% [markdown]
# ## A label embedding of one size
# Here the label embedding is divided by sqrt(k), for k labels, in training too. Exp. 2 sees at most one
# label, so for it that is the *same* training, and sampling it with condition / sqrt(k) already is the
# control. After the division, what one label does depends on how many others there are. Beyond three labels
# each is weaker than training ever made it. Does Exp. 1 still compose?

# %%
pairs = {
    "exp1": "Exp. 1",
    "exp1_normalized": "Exp. 1, normalized labels",
    "exp2": "Exp. 2",
    "exp2/unit": "Exp. 2, labels / √k",
}
shades = colors | {"exp1_normalized": plotting.PALETTE["black"]}
normalized = tables.net_rates(stored, pairs)
figure = rate_figures.plot_rates(normalized, ["filled", "success", "extras"], pairs, shades)
path = plotting.save_figure(figure, "normalized_labels", preset, normalized, seed)
# %%
Markdown(
    sentences.means(
        stored, pairs | {net: f"Exp. 1, {net[5:]}" for net in seeds_of(stored, "exp1")[1:]}, [4, 5, 6]
    )
)

# %% [markdown]
# ## Other seeds
# Exps. 1, 2 and 3 (r = 3) are trained again from other weights, on the same scenes in another order: one line
# per training. The first nets of Exps. 1 and 2 also differ in their images: an earlier version of the
# renderer drew the scenes, hardly different from today's, which the other seeds saw. Do lines of one
# color stay together?

# %%
groups = {net: seeds_of(stored, net) for net in ("exp1", "exp2", "exp3")}
seeded = {net: base for base, group in groups.items() for net in group}
labels = dict.fromkeys(seeded, "_") | {"exp1": "Exp. 1", "exp2": "Exp. 2", "exp3": "Exp. 3, r = 3"}
every = tables.net_rates(stored, seeded)
shades = {net: colors[base] for net, base in seeded.items()}
figure = rate_figures.plot_rates(every, ["filled", "success", "extras"], labels, shades)
path = plotting.save_figure(figure, "seeds", preset, every, seed)
# %%
Markdown(tables.markdown(tables.cells(stored, seeded)))

# %% [markdown]
# ## Another sampler, other locations
# All other numbers here come from DPM-Solver++(2M) with 14 steps, at the paper's 12 test locations. From K =
# 6 on some of these lie within two cells of each other. Here the first nets of Exps. 1 and 2 are sampled by
# Heun's method with 32 steps (EDM2's own), or asked for the K centers of crowded scenes, others for each
# sample. Compare with the first line of each experiment in the table above.

# %%
Markdown(sentences.ways(stored))

# %% [markdown]
# ## Along training
# The two trainings once more from other weights, with the nets kept along the way. K follows the paper's
# rule; only K = 1 to 6 were asked along the way. Both begin alike: where do they part?

# %%
again = {"exp1_seed1": "Exp. 1, all labels", "exp2_seed1": "Exp. 2, one label"}
over = {"success": [4, 5, 6], "extras": [1, 2, 3]}
along = {net: rates.with_k(stored, rates.along_training(stored, net, over), net) for net in again}
said = {name: f"\nK = {ks[0]} to {ks[-1]}" for name, ks in over.items()} | {"K": "\n(at most 6 asked)"}
shades = {net: plotting.color_of(net) for net in again}
figure = rate_figures.plot_rates(along, [*over, "K"], again, shades, along_training=True, said=said)
path = plotting.save_figure(figure, "along_training", preset, along, seed)
# %%
words = {"success": "success, K = 4 to 6", "extras": f"{wording.EXTRAS}, K = 1 to 3", "K": "K"}
Markdown(sentences.along(along, again, words))

# %% [markdown]
# The conditional locality of the same nets at high noise (notebook 07), and the cells that they fill: does
# one rise where the other does?

# %%
places = net_locality.read(preset)
local = {net: locality_rates.beside_composition(places, stored, net) for net in again}
figure = locality_figures.plot_along_training(local, again)
path = plotting.save_figure(figure, "locality_along_training", preset, local, seed)
# %%
Markdown(
    sentences.along(locality_rates.by_images(local), again, {name: name for name in local["exp1_seed1"]})
)

# %% [markdown]
# ## Checked
# From every seed Exp. 1 fills more cells than Exp. 2 does from any. With normalized labels it still does. At
# the end of training it is more local and it composes more.

# %%
filled = {net: rates.mean_over(stored, net, "filled", [4, 5, 6]) for net in {**seeded, **pairs}}
assert min(filled[net].low for net in groups["exp1"]) > max(filled[net].high for net in groups["exp2"]) + 0.2
assert filled["exp1_normalized"].low > filled["exp2/unit"].high + 0.2
last = {net: list(stages.values())[-1] for net, stages in along.items()}
assert last["exp1_seed1"]["success"].low > last["exp2_seed1"]["success"].high + 0.3
ends = {net: list(stages.values())[-1] for net, stages in locality_rates.by_images(local).items()}
assert all(ends["exp1_seed1"][name].low > ends["exp2_seed1"][name].high for name in ends["exp1_seed1"])
print(
    "Exp. 1 fills over half of the cells from every seed (no null):",
    min(filled[net].low for net in groups["exp1"]) > 0.5,
)
