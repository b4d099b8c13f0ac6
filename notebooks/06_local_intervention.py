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
# **Claim** (section 4, Fig. 1, Fig. 4, App. E.3): Exp. 3 keeps the scenes and labels of Exp. 2, but its
# net denoises each cell from the cells and conditions around it. Length generalization comes back.
# Trained on scenes of ONE object, a local net places several; a whole-image net does not (with our nets
# this holds at random cells; at the paper's cells our whole-image net places up to four, too).
#
# Our local net is also smaller, has no attention and saw more images. A cleaner test of the cause is
# Exp. 2's own net, told one local condition at each cell (below): nothing about the net changes there.
#
# Figs. 1 and 4 use stored samples at 64 px, beside their null. Changes at sampling are at 32 px, beside
# theirs. Added scores are by the earlier counter, without a null
# (`data/counts/tiny/earlier_counter.csv.bz2`). The radius is the subject of A6. Under a minute on two idle
# cores. Preset `paper` needs nets of that size and says how to get them.

# %% tags=["parameters"]
preset: str = "tiny"

# %%
from IPython.display import Markdown
from lcs_utils import checkpoints, notebooks, plotting
from lcs_utils.clevr.conditions import GRID_SIZE, TEST_LOCATIONS, test_condition
from lcs_utils.models.local_patch import extract_patches, patch_conditions
from lcs_utils.nets import trained
from lcs_utils.stats import as_dicts

# %%
from lcs_utils.evaluation import against_null, alt_texts, null_figures, rate_figures, rates, sentences
from lcs_utils.evaluation import sizes, strips, tables, tables_beyond_chance, wording
from lcs_utils.evaluation.rows import STANDARD, of_preset, read_rows, seeds_of, told_path
from lcs_utils.evaluation.samples import draw_samples
from lcs_utils.evaluation.studies import more_training

# %%
notebooks.check_parameters(preset=preset)
plotting.use_style()
seed, solver, steps = STANDARD  # of the stored samples
size, local = sizes.told(preset)
stored = of_preset(size)

# %% [markdown]
# ## What one cell is allowed to see
# The patch around a cell, the part of the condition inside it, and the position of the patch. Of the
# denoised patch only the central cell is kept. A net that is told the position is not equivariant (App.
# E.3): it may draw differently at another place. Whether it has to be told is not tested here.

# %%
net = checkpoints.load("exp3", sizes.sampled(preset))
radius, side = net.config.radius, net.config.resolution
image = draw_samples(net.denoiser, side, 4, 1, seed + 1, steps, solver)
patches, _ = extract_patches(image, radius, GRID_SIZE)
conditions = patch_conditions(test_condition(4)[None], radius, GRID_SIZE)[0, :, :-2]

# %%
cells = [int(16 * y) * GRID_SIZE + int(16 * x) for x, y in TEST_LOCATIONS[:4]]
pictures = [image[0], *(patches[0, cell] for cell in cells)]
grids = [
    test_condition(4).reshape(GRID_SIZE, -1),
    *(conditions[cell].reshape(2 * radius + 1, -1) for cell in cells),
]
columns = ["whole", *(f"cell {i}" for i in (1, 2, 3, 4))]
rows = [pictures, [2 * grid - 1 for grid in grids]]
figure = plotting.image_grid(rows, ["image", "condition"], columns, cell=1.1)
# %% [markdown]
# ## Fig. 1: three experiments, none of which saw more than three objects
# Marks are locations asked for: a dot where the counter finds an object within a cell of it, a cross where
# it finds none. Below each picture is the number of objects counted (fused ones count as several). The
# curves at the right are over all samples at the same cells. Dotted is the null: the same net's pictures
# that were asked for something else. Which net leaves crosses, and from which K? Cells of Exp. 3 see two
# cells around them; with three its K is smaller (05, A6). (The paper's figure goes from 0 to 10 locations; of
# ours K = 0 and 10 to 12 have no pictures.)

# %%
third = f"Exp. 3: one, r = {trained(local).radius}"
names = {"exp1": "Exp. 1: all labels", "exp2": "Exp. 2: one label", local: third}
shown = strips.strip(list(names), range(1, 10), stored, size)
trainings = {words: seeds_of(stored, net) for net, words in names.items()}  # apart in their seed alone
of = {words[:6]: against_null.of_nets(stored, nets, "test") for words, nets in trainings.items()}
curves = {words: {k: at.filled for k, at in each.at.items()} for words, each in of.items()}
figure = strips.figure_1(shown, names, curves, trained=3)
said = shown.numbers() | {"filled": as_dicts(curves)}
path = plotting.save_figure(figure, "fig01", preset, said, seed, alt=alt_texts.figure_1(curves))
# %% [markdown]
# Number and places again, now at random cells. Exp. 3 may draw two objects more than it is asked for, as
# in the paper's Table 1: told one of up to three objects, it has learned that a place without a label may
# still hold one. The last two lines judge it by Exp. 1's rule (none extra up to three, one beyond), and
# with so few samples they leave its K within one cell open. Where the intervals of cells filled
# overlap, the nets are not told apart (and a net fills more cells just by drawing more objects).

# %%
apart = against_null.along_k(stored, trainings, "spread")
strict = more_training.without_extras(stored, local)
alone = against_null.along_k(strict, {"Exp. 3, by Exp. 1's rule": seeds_of(strict, "exp1")}, "spread")
near = {words: of[1] for words, of in apart.items()}
Markdown(null_figures.markdown(apart | alone) + "\n" + null_figures.told_apart(near, 6))

# %% [markdown]
# ## Locality without training
# The paper changes the architecture and trains again. Here we take Exp. 2's own net as it is. At each
# cell we give it only the conditioned cell *nearest* to that cell, or only those within r cells, *near*.
# If it then places what it was asked for, it could draw the objects all along, and what it lacked was the
# ability to ignore far conditions. The control gives the same cells *another* single label, the one next to
# their nearest in the list (`composition.swapped`). At 32 px, random cells; `lcs_utils.evaluation.changes`.

# %%
changes = {"exp2": "Exp. 2", "exp2/nearest": "nearest label", "exp2/near": "near labels, 32 samples"}
changes |= {"exp2/swapped": "another label", "exp3": "Exp. 3, r = 3, 8 samples"}
shades = ("vermilion", "orange", "sky", "purple", "green")
colors = {words: plotting.PALETTE[shade] for words, shade in zip(changes.values(), shades)}
little = sizes.sampled(preset)  # where Exp. 2's weights are, to be told otherwise
small = of_preset(little)
changed = {words: against_null.of_nets(small, [net], "spread") for net, words in changes.items()}
figure = null_figures.plot(
    changed, colors, trained=3, title="32 px, random cells; 64 samples per K unless named otherwise"
)
values = {words: as_dicts(each.at) for words, each in changed.items()}
path = plotting.save_figure(figure, "interventions", preset, values, seed)
# %%
Markdown(null_figures.markdown({words: {1: each} for words, each in changed.items()}))

# %% [markdown]
# *Near* uses Exp. 3's own window. In a crowd a cell hears several labels in that window, and *near* obeys far
# fewer conditions than *nearest*. So near labels repair much of this net, and one near label per cell, as in
# its training, more. *Another* label in its place fills hardly more than its null: it has to be the near one.
# Exp. 3 has eight samples for each K here, *near* has 32, the others 64.
#
# ## Fig. 4: trained on ONE object
# Neither net ever saw two objects in one image. Which of them places a second one? The pictures are at the
# paper's cells, which lie in the middle; the curves are at random cells, and the table has both. The paper's
# whole-image net draws one object however many it is asked for. Does ours?

# %%
ones = {"exp1_1": "Exp. 1: one object", "exp3_1": "Exp. 3: one object, r = 3"}
single = strips.strip(list(ones), range(1, 8), stored, size)
told = {words[:6]: [net] for net, words in ones.items()}
one, listed = (against_null.along_k(stored, told, family) for family in wording.CELLS)
curves_1 = {words: {k: at.filled for k, at in each[1].at.items()} for words, each in one.items()}
figure = strips.figure_1(single, ones, curves_1, trained=1, family="spread")
values = single.numbers() | {"rates": {words: as_dicts(each[1].at) for words, each in one.items()}}
path = plotting.save_figure(figure, "fig04", preset, values, seed)
# %%
found = tables_beyond_chance.cells(stored)
at = dict(zip(wording.CELLS.values(), (one, listed)))
both = {f"{words}, {where}": {1: each[1]} for where, of in at.items() for words, each in of.items()}
whole = {words: of[1] for words, of in both.items() if words.startswith("Exp. 1")}
said = f"{tables_beyond_chance.one_object(found)[0]}.\n\n{sentences.drawn(whole, (2, 3, 4, 5))}"
Markdown(null_figures.markdown(both, (2, 3, 4, 5)) + f"\n{said}")

# %% [markdown]
# ## Adding scores instead
# The older repair (Bradley et al. 2025; Liu et al. 2022) adds single-object scores to a background, s_b +
# sum of (s_j - s_b). Bradley et al. find that an empty background works, that a cluttered one of none to
# four objects works, and that the unconditional one fails more the more objects are added. We use three:
# the empty floor; "one object anywhere", the common choice; and "one to three anywhere", less wide than
# theirs, since it has to fit Exp. 2, whose single label stands among other objects. Look at the middle
# panel too: where images burn out, what a counter finds there means little. (A sample *succeeds* if number
# and places are right by the paper's rule and it looks right to the counter.) A high value says little as
# well: this counter passes nearly all pictures that look wrong to the eye (A3). At 32 px, by the earlier
# counter, without a null.

# %%
added = {"exp1_1": "Exp. 1, one object", "exp3_1": "Exp. 3, r = 3, one object", "exp2": "Exp. 2"}
added["exp1_1/linear_empty"] = "added on the empty floor"
added["exp1_1/linear_one"] = "added on one object anywhere"
added["exp1_1/linear_cluttered"] = "added on one to three anywhere"
added["exp2/linear_cluttered"] = "Exp. 2, added on one to three anywhere"
shades = ("blue", "green", "vermilion", "orange", "sky", "black", "purple")
colors = {name: plotting.PALETTE[shade] for name, shade in zip(added, shades)}

# %%
old = read_rows(told_path(preset))
sums = tables.net_rates(old, added)
figure = rate_figures.plot_rates(sums, ["filled", "plausible", "success"], added, colors)
path = plotting.save_figure(figure, "linear_composition", preset, sums, seed)
# %%
Markdown(sentences.adding(sums, added))

# %% [markdown]
# So neither of their two backgrounds works here, at 32 px: on the empty floor pictures burn out from K = 3
# on, on one to three objects hardly a cell is filled.

# %% [markdown]
# ## The claim, checked

# %%
told_all, told_one, with_patches = (each[1] for each in apart.values())
assert min(told_all.k.placed.low, with_patches.k.placed.low) > 3 >= told_one.k.placed.high
local_one, whole_one = one["Exp. 3"][1], one["Exp. 1"][1]
assert local_one.k.placed.low > max(whole_one.k.placed.high, local_one.k.placed_null.high)
alone = ", ".join(f"{words} {of[1].k.placed.value}" for words, of in listed.items())
print(f"K of nets trained on one object, at the paper's cells: {alone}")
plain, nearest = changed["Exp. 2"], changed["nearest label"]
assert all(nearest.at[k].filled.above.low > plain.at[k].filled.above.high for k in (4, 5, 6))
assert all(changed["another label"].at[k].filled.above.high < 0.1 for k in (4, 5, 6))
print("local nets, and Exp. 2's own told the nearest label, place beyond their training and their null")

# %%
few = {name: rates.mean_over(old, name, "filled", [2, 3, 4]) for name in added}
assert few["exp2/linear_cluttered"].low > few["exp2"].high
assert few["exp1_1/linear_empty"].low > max(few["exp1_1"].high, few["exp1_1/linear_one"].high)
more, less = few["exp2/linear_cluttered"].value, few["exp2"].value
print(f"Cells filled at K = 2 to 4: Exp. 2 with added scores {more:.2f}, without {less:.2f} (no null);")
# %%
burnt = [rates.mean_over(old, "exp2/linear_cluttered", "plausible", [k]).value for k in (3, 4)]
shares = " and ".join(f"{share:.2f}" for share in burnt)
print(f"of these {shares} look right to the earlier counter, at K = 3 and 4")

# %% [markdown]
# **What differs from the paper, first**: hardly any picture of these nets looks right to a vision-language
# model that judges blind (A7; by Muon and an SDE more do). The paper's Exp. 3 draws up to two objects more
# than asked, ours more than that in a share of its samples that 05 prints. The paper does not state its
# radius. Our Exp. 3 reaches the paper's K with two cells around each, not with three, which we chose before
# sweeping (05, A6).
