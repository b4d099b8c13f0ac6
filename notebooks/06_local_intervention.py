# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # 6 · A local architecture repairs what one label broke
#
# **Claim** (section 4, Fig. 1, Fig. 4, App. E.3): Exp. 3 keeps Exp. 2's scenes and labels; its net
# denoises each cell from the cells and conditions around it. Length generalization comes back.
# Trained on scenes of ONE object, a local net places several; a whole-image net does not. Our local
# net is also smaller, has no attention and saw more images, so the cleaner test of the cause is
# Exp. 2's own net told one local condition at each cell (below): nothing of the net changes there.
# But each cell also hears one label, as in training; one that is not the nearest was not tried.
#
# Fig. 1 is today's counter's, over its null; all other rates are the earlier counter's, without one
# (`data/counts/tiny/earlier_counter.csv.gz`). The radius is notebook A6. Under a minute on two idle
# cores. Preset `paper` needs nets of that size; it says how.

# %% tags=["parameters"]
preset: str = "tiny"

# %%
from IPython.display import Markdown
from lcs_utils import nets
from lcs_utils.evaluation import rate_figures, row_claims, tables_beyond_chance
from lcs_utils import checkpoints, notebooks, plotting
from lcs_utils.clevr.conditions import GRID_SIZE, TEST_LOCATIONS, test_condition
from lcs_utils.evaluation import alt_texts, against_null, rates, sentences, strips, tables
from lcs_utils.evaluation.length_generalization import draw_samples
from lcs_utils.evaluation.rows import STANDARD, read_rows, rows_path, told_path
from lcs_utils.evaluation.sheets import sheet_path
from lcs_utils.models.local_patch import extract_patches, patch_conditions

# %%
notebooks.check_parameters(preset=preset)
plotting.use_style()
seed, solver, steps = STANDARD  # of the stored samples
stored, today = read_rows(told_path(preset)), read_rows(rows_path(preset))
counts = strips.behind(told_path(preset))

# %% [markdown]
# ## What one cell is allowed to see
# The patch around a cell, the part of the condition inside it, and where it lies. Of the denoised
# patch only the central cell is kept.

# %%
net = checkpoints.load("exp3", preset)
radius, size = net.config.radius, net.config.resolution
image = draw_samples(net.denoiser, size, 4, 1, seed + 1, steps, solver)
patches, _ = extract_patches(image, radius, GRID_SIZE)
local = patch_conditions(test_condition(4)[None], radius, GRID_SIZE)[0, :, :-2]

# %%
cells = [int(16 * y) * GRID_SIZE + int(16 * x) for x, y in TEST_LOCATIONS[:4]]
pictures = [image[0], *(patches[0, cell] for cell in cells)]
grids = [
    test_condition(4).reshape(GRID_SIZE, -1),
    *(local[cell].reshape(2 * radius + 1, -1) for cell in cells),
]
columns = ["whole", *(f"cell {i}" for i in (1, 2, 3, 4))]
rows = [pictures, [2 * grid - 1 for grid in grids]]
figure = plotting.image_grid(rows, ["image", "condition"], columns, cell=1.1)
# %% [markdown]
# ## Fig. 1: three experiments, none of which saw more than three objects
# A ring is where an object was asked for and today's counter finds one, a cross where it finds none;
# below each picture how many it finds. The curves beside are of all its samples. Dotted is chance:
# the same net's pictures that were asked for something else. Which net leaves crosses, from which K?

# %%
names = {"exp1": "Exp. 1: all labels", "exp2": "Exp. 2: one label", "exp3": "Exp. 3: one label,\nlocal net"}
shown = strips.strip(list(names), range(1, 10), today, preset)
found = {words[:6]: against_null.of_nets(today, [name], "test", 1) for name, words in names.items()}
curves = {label: {k: at.filled for k, at in of.at.items()} for label, of in found.items()}
figure = strips.figure_1(shown, names, curves, trained=3)
numbers = shown.numbers() | {
    "filled": {label: {k: at._asdict() for k, at in of.items()} for label, of in curves.items()}
}
files = strips.behind(rows_path(preset), *(sheet_path(name, preset) for name in names))
path = plotting.save_figure(figure, "fig01", preset, numbers, seed, files, alt_texts.figure_1(curves))
# %%
Markdown(sentences.beside_null(curves, (3, 6, 9)) + "\n" + sentences.above_null(curves, 6))

# %% [markdown]
# The same by the earlier counter, which judged more samples of Exp. 3, beside the stricter success.

# %%
titles = {name: words.replace("\n", " ") for name, words in names.items()}
measured = tables.net_rates(stored, names)
figure = rate_figures.plot_rates(measured, ["filled", "success"], titles, plotting.EXPERIMENT_COLORS)
for axes in figure.axes:
    axes.axvspan(0.5, 3.5, color="gray", alpha=0.12, lw=0)
figure.axes[0].text(2, 0.02, "trained", ha="center", fontsize=8)
used = counts + strips.behind(*(nets.folder(name, preset) for name in names))
path = plotting.save_figure(figure, "fig01_rates", preset, measured, seed, used)
# %% [markdown]
# Exp. 3 draws extra objects that nobody asked for: told of one of up to three objects, it has
# learned that a place without a label may still hold one. The paper has them too, 0 to 2; the last
# line says how many samples have more.

# %%
more = row_claims.extras(stored, "exp3")
Markdown(
    sentences.by_k(measured, titles, "success")
    + f"\nObjects elsewhere, K = 1 to 3, three trainings: {more.ours}."
)

# %% [markdown]
# ## Locality without training
# The paper changes the architecture and trains again. Here Exp. 2's own net, as it stands, is asked
# at each cell with only the conditioned cell *nearest* to it, or with only those within r cells,
# *near*. If it then places what it was asked for, it lacks not the look of objects, but deafness to
# far conditions. `lcs_utils.evaluation.changes`.

# %%
changes = {
    "exp2": "Exp. 2",
    "exp2/nearest": "Exp. 2, nearest label only",
    "exp2/near": "Exp. 2, near labels only",
    "exp3": "Exp. 3",
}
colors = dict(zip(changes, (plotting.PALETTE[color] for color in ("vermilion", "orange", "sky", "green"))))
changed = tables.net_rates(stored, changes)
figure = rate_figures.plot_rates(changed, ["filled", "success", "extras"], changes, colors)
path = plotting.save_figure(figure, "interventions", preset, changed, seed, used)
# %%
Markdown(sentences.means(stored, changes, [4, 5, 6], ("filled", "success", "extras")))

# %% [markdown]
# ## Fig. 4: trained on ONE object
# Neither net ever saw two objects in one image. Which of them places a second one?

# %%
ones = {"exp1_1": "Exp. 1, one object", "exp3_1": "Exp. 3, one object"}
alone = strips.strip(list(ones), range(1, 7), today, preset)
figure = alone.grid(list(ones.values()), cell=1.1)
files = counts + strips.behind(rows_path(preset), *(sheet_path(name, preset) for name in ones))
single = tables.net_rates(stored, ones)
path = plotting.save_figure(figure, "fig04", preset, alone.numbers() | {"rates": single}, seed, files)
# %%
Markdown(sentences.means(stored, ones, range(3, 7)))
# %%
large = tables_beyond_chance.cells(read_rows(rows_path("small")))
Markdown(f"At 64 px (A1), trained on one object: {tables_beyond_chance.one_object(large)[0]}.")

# %% [markdown]
# ## Adding scores instead
# The older repair (Bradley et al. 2025; Liu et al. 2022) adds single-object scores on a background,
# s_b + sum of (s_j - s_b): on the empty floor, on "one object anywhere", the common choice, or on
# "one to three anywhere", which fits Exp. 2, whose single label stands among other objects. Look at
# the middle panel too: where images burn out, what a counter finds there means little.

# %%
added = {"exp1_1": "Exp. 1, one object", "exp3_1": "Exp. 3, one object", "exp2": "Exp. 2"}
added["exp1_1/linear_empty"] = "added on the empty floor"
added["exp1_1/linear_one"] = "added on one object anywhere"
added["exp1_1/linear_cluttered"] = "added on one to three anywhere"
added["exp2/linear_cluttered"] = "Exp. 2, added on one to three anywhere"
shades = ("blue", "green", "vermilion", "orange", "sky", "black", "purple")
colors = {name: plotting.PALETTE[shade] for name, shade in zip(added, shades)}

# %%
sums = tables.net_rates(stored, added)
figure = rate_figures.plot_rates(sums, ["filled", "plausible", "success"], added, colors)
path = plotting.save_figure(figure, "linear_composition", preset, sums, seed, counts)
# %%
Markdown(sentences.adding(sums, added))

# %% [markdown]
# ## The claim, checked
# Objects at their cells, as a share of K, is the gentler reading; success adds the limits on extras
# and looks. For nets trained on one object this notebook was drafted to assert a margin of three
# tenths of success; the printed means say what it is, and it asserts that the intervals do not
# touch.

# %%
over = dict.fromkeys(names, range(4, 9)) | dict.fromkeys(ones, range(3, 7))
mean = {name: rates.mean_over(stored, name, "success", ks) for name, ks in over.items()}
placed = {name: rates.mean_over(stored, name, "filled", ks).value for name, ks in over.items()}
print("mean success:", {name: tuple(value) for name, value in mean.items()})
assert min(mean["exp1"].value, mean["exp3"].value) > mean["exp2"].value + 0.3
assert mean["exp3_1"].low > mean["exp1_1"].high
assert placed["exp3"] > placed["exp2"] + 0.3 and placed["exp3_1"] > placed["exp1_1"] + 0.3
print("local architecture restores length generalization:", mean["exp3"].low > mean["exp2"].high)

# %%
few = {name: rates.mean_over(stored, name, "filled", [2, 3, 4]) for name in added}
assert few["exp2/linear_cluttered"].low > few["exp2"].high
assert few["exp1_1/linear_empty"].low > max(few["exp1_1"].high, few["exp1_1/linear_one"].high)
print("added on the background that fits it:", few["exp2/linear_cluttered"].value, "not", few["exp2"].value)

# %% [markdown]
# **What differs from the paper, first**: its Exp. 3 reaches K = 9 by eye, 10 when trained on up to
# five objects; ours, with r = 3, which we chose before sweeping, does not get there (Tables 1 and
# 2, notebook 05; the sweep, notebook A6).
