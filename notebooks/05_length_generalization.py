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
# **Claim** (section 2, Fig. 1, Table 1): trained on 1-3 objects, a net that was told *all* locations (Exp. 1) draws
# objects at more locations than it ever saw together; the same net on the same images, told *one* location per image
# (Exp. 2), does not.
#
# Draws from the rows in `data/counts` (every sample counted by our object counter) and samples two strips afresh. About
# a minute on two CPU cores. Preset `paper` needs nets trained at that size; it says how.

# %% tags=["parameters"]
preset: str = "small"
seed: int = 0
steps: int = 14

# %%
import matplotlib.pyplot as plt
import torch
from lcs_utils import checkpoints, experiments, notebooks, plotting
from lcs_utils.clevr.conditions import TEST_LOCATIONS
from lcs_utils.evaluation import length_generalization as lg
from lcs_utils.evaluation.counter import ObjectCounter

notebooks.check_parameters(preset=preset)
plotting.use_style()

# %% [markdown]
# ## One condition, two nets
# The condition for K is the first K of the paper's 12 test locations (circles). The nets differ in nothing but the labels
# they were trained with, and the samples start from the same noise.

# %%
shown = [0, 1, 2, 3, 4, 5, 6, 8, 10]
names = ["exp1", "exp2"]
strips = {}
for name in names:
    net = checkpoints.load(name, preset)
    size = net.config.resolution
    strips[name] = [lg.draw_samples(net.denoiser, size, k, 2, seed + 1, steps, "dpmpp_2m") for k in shown]
circles = [[((size - 1) * x, (size - 1) * y) for x, y in TEST_LOCATIONS[:k]] for k in shown]
rows = [[pair[i] for pair in strips[name]] for name in names for i in range(2)]
labels = ["Exp. 1\nall labels", "", "Exp. 2\none label", ""]
columns = [f"K = {k}" for k in shown]
figure = plotting.image_grid(rows, labels, columns, cell=0.95, marks=[circles] * 4)
counter = ObjectCounter.from_pretrained(checkpoints.folder("counter"))
counted = {name: [counter(pair).count.tolist() for pair in strips[name]] for name in names}
used = [f"data/checkpoints/{name}" for name in [*names, "counter"]]
plotting.save_figure(figure, "exp1_exp2_samples", preset, {"K": shown, "counts": counted}, seed, used);

# %% [markdown]
# ## The number: 64 samples for every K
# A sample succeeds when at least K - 1 of the K conditioned cells hold an object center (within one cell), at most
# (trained maximum - 1) objects stand elsewhere, and it looks like CLEVR. The paper judged 8 samples by eye; its tolerances
# are not known, these are ours.

# %%
stored = lg.read_rows(lg.rows_path(preset))
summary = {name: lg.summarize(stored, name, experiments.experiment(name).objects[1]) for name in names}
figure, axes = plt.subplots(1, 2, figsize=(8, 3.2))
for name, label in zip(names, ["Exp. 1, all labels", "Exp. 2, one label"]):
    color, values = plotting.EXPERIMENT_COLORS[name], summary[name]
    axes[0].plot(values["K"], values["success_rate"], "o-", color=color, label=label)
    axes[1].plot(values["K"], values["mean_count"], "o-", color=color, label=label)
axes[1].plot([0, 12], [0, 12], ":", color="gray", label="as asked")
for ax, title in zip(axes, ["share of samples that succeed", "objects in the image"]):
    ax.axvspan(0, 3, color="gray", alpha=0.12, lw=0)
    ax.set(xlabel="K, conditioned locations", title=title)
axes[0].set_ylim(-0.03, 1.03)
axes[1].legend()
plotting.save_figure(figure, "length_generalization", preset, summary, seed, [*used, "data/counts/length_generalization.csv"]);

# %% [markdown]
# The gray band is what training showed: scenes of at most three objects.

# %%
for name in names:
    rates = dict(zip(summary[name]["K"], summary[name]["success_rate"], strict=True))
    print(name, " success at K =", "  ".join(f"{k}: {rate:.2f}" for k, rate in rates.items()))
beyond = {name: [r for k, r in zip(v["K"], v["success_rate"]) if 4 <= k <= 6] for name, v in summary.items()}
mean = {name: sum(rates) / len(rates) for name, rates in beyond.items()}
print("mean success for K = 4..6:", {name: round(rate, 2) for name, rate in mean.items()})

# %% [markdown]
# ## The claim, checked

# %%
assert mean["exp1"] > mean["exp2"] + 0.3
print("Exp. 1 succeeds beyond what it was trained on far more often than Exp. 2:", mean["exp1"] > mean["exp2"] + 0.3)

# %% [markdown]
# **What to look for**: Exp. 2 draws two or three objects wherever it likes, whatever K; Exp. 1 draws one at nearly every
# location, until they crowd. **What differs from the paper**: its Exp. 1 reaches K = 9 by eye at 128 px; ours, a small 32 px
# net trained for an hour on one core, meets our stricter rule less often from K = 6 on, where objects touch, extras appear
# and the counter itself is less sure (its accuracy by count stands in `data/checkpoints/counter/row.json`).
