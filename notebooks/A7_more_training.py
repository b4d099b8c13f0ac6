# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # A7 · What does more training buy?
#
# **Question**: the 32 px nets are small and draw speckled pictures (07, A2, A5, A6). What do nets of 64 px
# and longer training change? Does composition depend on it?
#
# We show the first training of Exp. 1 at 64 px (preset `small`; 05 has three), with the nets kept along its
# training, beside the 32 px net and beside the same net trained by another optimizer (preset `medium`). All
# are asked for K random cells at least three apart (family `spread`). Then comes what the eye says of
# Exp. 1 at both sizes and of Exps. 2 and 3 at 64 px. Nothing is sampled here. Under a minute on two idle
# cores.

# %% tags=["parameters"]
preset: str = "tiny"

# %%
from IPython.display import Markdown
from lcs_utils import nets, notebooks, plotting
from lcs_utils.evaluation import against_null, alt_texts, null_figures, strips
from lcs_utils.evaluation.eye import by_eye, by_eye_figures
from lcs_utils.evaluation.eye.hand_count_rows import read_counts
from lcs_utils.evaluation.locality import net_locality
from lcs_utils.evaluation.rows import STANDARD, of_preset, read_rows
from lcs_utils.evaluation.sizes import SIZES
from lcs_utils.evaluation.studies import flow_and_sde, more_training
from lcs_utils.stats import as_dicts

# %%
notebooks.check_parameters(preset=preset)
plotting.use_style()
seed = STANDARD.seed  # the stored samples'
# %%
found = {
    words: more_training.along_training(
        of_preset(name), "exp1", name, seed=seed, heard=net_locality.read(name)
    )
    for name, words in SIZES.items()
}
muon, heard = of_preset("medium"), net_locality.read("medium")
found[more_training.AGAIN] = more_training.along_training(
    muon, "exp1_seed1", "medium", seed=seed, heard=heard
)

# %% [markdown]
# ## Against the training images seen
# Number and places are judged by the paper's rule without looks, within one cell. Dotted is the null: the
# net's own pictures judged at the cells of another sample. The first three panels of the lower row need no
# composition. Asked for as many objects as training showed, how many are drawn? Do they look right to the
# counter? Are their pixels of one hue (cleanness; renders, clean and spoiled, beside)? Last, of all that
# pixels near a condition hear, the share from conditions at most two cells away; dashed, a net that hears
# all alike.

# %%
figure = more_training.plot(found)
path = plotting.save_figure(figure, "more_training", preset, more_training.numbers(found), seed)
# %%
Markdown(more_training.markdown(found))

# %% [markdown]
# Along Muon's training one step goes against the thesis of 07: from 100,000 to 240,000 images the net
# composes farther, and what it hears at high noise comes from farther away. After 400,000 it is more local
# than at any stage before, and composes no farther than after 240,000. How much is this step beside another
# training? Seed 1 (dashed), trained on as many images by the same schedule, differs from the first by more
# than the step, at one stage or another. So the step decides nothing.
#
# ## The pictures
# One sample of each at the paper's cells. A cross marks a place where the counter finds no object.

# %%
ks = range(1, 10)
shown = [strips.strip(["exp1"], ks, of_preset(name), name) for name in SIZES]
strip = shown[0]._replace(
    images=[row for one in shown for row in one.images],
    marks=[row for one in shown for row in one.marks],
    captions=[row for one in shown for row in one.captions],
)
figure = strip.grid([f"Exp. 1,\n{words}" for words in SIZES.values()])
said = {words: one.numbers() for words, one in zip(SIZES.values(), shown, strict=True)}
path = plotting.save_figure(figure, "more_training_samples", preset, said, seed)

# %% [markdown]
# ## What another net for low noise mends, and what another sampler
# A small net of the whole image leaves grain. It falls short at low noise, where what is left to decide is
# local. So one more net, told nothing, was trained on crops of renders, only at noise up to .5. It works at
# full resolution, where the others fold 2x2 pixels into one (`python -m lcs_utils.training low_noise --preset
# small --images 208000 --again`). Below a noise of .3 it denoises in place of Exp. 1's net (`exp1/low_noise`,
# "low-noise net" in figures). All nets drawn by the SDE below share it. Noise, places and counter stay
# the same. What does it mend, and what does it leave (a cube of two colors at K = 3)? (It also tests section
# 3.1: number and places are decided early, and details are left to local denoising without conditions. K and
# cells filled, in the table below, stay as they are.)
#
# Such faulty objects are decided at higher noise, where a small net is a little wrong at each step, and the
# probability-flow ODE keeps every step's error. The reverse SDE (Karras et al. 2022, eq. 6) replaces old
# noise with fresh at each step, and so forgets these errors: `exp1/stochastic`, the same two nets in 80
# steps. How much noise was chosen by looks at K = 1 to 3, at last with other seeds than those below (first
# trials shared them). Does either change what composes?
#
# Then the optimizer. Here Adam (EDM2's) takes 6,250 steps of 64 images each; preset `medium` takes steps of
# 16 images by Muon (Jordan et al. 2024), with settings chosen by denoising errors before a picture of such a
# net was seen (LOG). Its Exps. 1 and 2 took as many steps and were measured (`exp1@100000`); training then
# went on at the full learning rate to 240,000 images (`exp1@240000`) and once more to 400,000, as many as
# Adam's. Does Muon draw shapes where Adam does not? Which composes farther (above)? The pictures are at the
# paper's cells, as in the figure above; the tables are at random cells.

# %%
large = of_preset("small")
ends = {"exp1": "Exp. 1", "exp1/low_noise": "Exp. 1,\nlow-noise net", "exp1/stochastic": "Exp. 1,\nSDE"}
by_muon = {"exp1": "Exp. 1\nby Muon", "exp1/stochastic": "Exp. 1 by\nMuon, SDE"}
by_muon |= {"exp2/stochastic": "Exp. 2 by\nMuon, SDE", "exp3_r2/stochastic": "Exp. 3 by\nMuon, SDE"}
trained = {"small": (large, ends), "medium": (muon, by_muon)}

# %%
made = [strips.strip(list(of), range(1, 7), rows, name) for name, (rows, of) in trained.items()]
images, drawn = (sum((list(getattr(one, of)) for one in made), []) for of in ("images", "captions"))
labels, heads = [*ends.values(), *by_muon.values()], [f"K = {k}" for k in made[0].ks]
figure = plotting.image_grid(images, labels, heads, cell=1.5, captions=drawn)  # no marks on objects
said = {SIZES[name]: one.numbers() for name, one in zip(trained, made)}
path = plotting.save_figure(figure, "low_noise_samples", preset, said, seed)
# %%
words = {" ".join(of[net].split()): (rows, net) for rows, of in trained.values() for net in of}
words |= {
    f"{words_} by Muon, SDE, 240,000 images": (muon, f"{net}@240000/stochastic")
    for net, words_ in {"exp1": "Exp. 1", "exp2": "Exp. 2"}.items()
}
words |= {
    f"Exp. 1 by Muon, SDE, 100,000 images, seed {i}": (muon, f"{net}@100000/stochastic")
    for i, net in enumerate(("exp1", "exp1_seed1"))
}
# %%
along = {}
for label, (rows, net) in words.items():
    along |= against_null.along_k(rows, {label: [net]}, "spread")
Markdown(more_training.ends(words) + null_figures.markdown(along))

# %% [markdown]
# ## Flow and SDE: do all noise levels agree?
# If a net's denoisers at all noise levels were those of one distribution, flow and SDE would draw the same.
# The flow keeps what high noise decided, the SDE lets lower noise decide again. One might expect the
# SDE to take objects from a net that sees the whole image, which may count, and none from a local one. The
# number drawn suggests so (Exp. 3 still draws as many as it is asked for), but the cells asked for do not:
# both nets fill fewer of them. Both lose most of their extras when asked for up to three, and a smaller part
# when asked for more. Exp. 3 is drawn by the SDE with the net for low noise, too; Exp. 1 by the flow with it
# is above. Last: Exp. 3 by Exp. 1's rule, no extra up to three.
#
# The SDE also takes more steps than the flow. What is it, steps or noise? The second table, by Muon, has the
# flow in as many steps with the SDE's two nets (`exp1/flow`). It leaves as much that nobody asked for as the
# flow in few steps: what takes it away is the noise.

# %%
ways = flow_and_sde.compare(large)
figure = flow_and_sde.plot(ways)
path = plotting.save_figure(figure, "flow_and_sde", preset, flow_and_sde.numbers(ways), seed)
# %%
strict = more_training.without_extras(large, "exp3_r2/stochastic")
alone = against_null.along_k(strict, {"Exp. 3, SDE, Exp. 1's rule": ["exp1"]}, "spread")
by_steps = flow_and_sde.compare(muon, ways=flow_and_sde.SAME_STEPS)
tables = [flow_and_sde.markdown(ways), flow_and_sde.markdown(by_steps), null_figures.markdown(alone)]
Markdown("\n".join(tables))

# %% [markdown]
# ## Fig. 1 again, by Muon and the SDE
# Muon's Exps. 1 and 2 saw 400,000 images, as many as Adam's; Exp. 3 saw 400,000 patches, a quarter of what
# Adam's saw. One training each; the table has two of Exp. 3. Drawn by the SDE, more of Exp. 1's pictures
# pass the eye than of Adam's Exp. 1 (same judges, below). Exp. 2 is the control: does the SDE make a net
# compose that does not compose by the flow? A dot marks a cell asked for that holds an object, a cross one
# that does not. All is at random cells, the first sample of each K; at the right the cells filled, with the
# null dotted.

# %%
three = {"exp1": "Exp. 1: all labels", "exp2": "Exp. 2: one label", "exp3_r2": "Exp. 3: one, r = 2"}
names = {f"{net}/stochastic": words for net, words in three.items()}
shown = strips.strip(list(names), (1, 2, 3, 5, 7, 9), muon, "medium", family="spread")
by_sde = {words[:6]: against_null.of_nets(muon, [net], "spread") for net, words in names.items()}
curves = {words: {k: at.filled for k, at in of.at.items()} for words, of in by_sde.items()}
figure = strips.figure_1(shown, names, curves, trained=3, family="spread")
said = shown.numbers() | {"filled": as_dicts(curves)}
words = alt_texts.figure_1(curves)
path = plotting.save_figure(figure, "fig01_by_muon", preset, said, seed, alt=words)
# %%
both = {
    f"{words[:6]}, {way}": nets.seeds_of({row.net for row in muon}, net + change)
    for way, change in flow_and_sde.WAYS.items()
    for net, words in three.items()
}
alone = {}  # by Exp. 1's rule, which allows no extra up to three
for label, net in {"Exp. 2": "exp2/stochastic", "Exp. 3": "exp3_r2/stochastic"}.items():
    strict = more_training.without_extras(muon, net)
    rule = {f"{label}, SDE, Exp. 1's rule": nets.seeds_of({row.net for row in strict}, "exp1")}
    alone |= against_null.along_k(strict, rule, "spread")
Markdown(null_figures.markdown(against_null.along_k(muon, both, "spread") | alone))

# %% [markdown]
# No: Exp. 2 obeys one label or so, both ways. **At the paper's cells**, which lie close together, Exp. 1 by
# Muon draws fewer than it is asked for, and neighbors of Exp. 3 grow together (pictures above); Adam's
# Exp. 1 goes farther there (05). The table has all three nets, by both ways:

# %%
both |= {f"Exp. 1, flow, 100,000, seed {i}": [f"exp1{s}@100000"] for i, s in enumerate(("", "_seed1"))}
Markdown(null_figures.markdown(against_null.along_k(muon, both, "test", ks=range(1, 13))))

# %% [markdown]
# ## What does the eye say?
# A vision-language model ("the eye") judged samples of these nets and of those of 05 and A2, among clean and
# spoiled renders. They came in random order, enlarged, without a word on where they come from (`counted_by`
# in `data/counts/hand_counts.csv.bz2`). How far do the nets stand from both controls? Does the counter, whose
# rates all figures show, see more or fewer objects than the eye? Diamonds: a second counter, trained after
# the rows were counted, also on objects of one color that stand in one another. It mostly counts them as one,
# and about every second time it says that the picture is not CLEVR (`data/checkpoints/counter64/README.md`).
# Nets were judged by several groups of judges, who differ: compare nets in the tables by judges below, not
# here.

# %%
looked = by_eye.compare_everywhere(read_counts())
second = by_eye.compare(read_counts(), stored=by_eye.second_rows())
figure = by_eye_figures.plot(looked, second)
path = plotting.save_figure(figure, "by_eye", preset, looked.numbers(), seed)
# %%
Markdown(by_eye_figures.markdown(looked, by_eye.twice(read_counts(), looked), second))

# %% [markdown]
# Judges (separate runs of the eye) differ: one group was stricter than the others, even on renders. So nets
# are compared by the same judges on the same sheets, one table for each group, all at random cells.

# %%
Markdown(by_eye_figures.by_judges(read_counts()))

# %% [markdown]
# K by the paper's rule on exactly these pictures, few for each K, at the paper's cells and at random ones.
# The eye counts; places are the counter's. There is no null. The paper's own cells lie close together: is
# it crowding that stops Exp. 1? Where the eye passes hardly a sample, K with looks says something about
# looks and not about composition.

# %%
Markdown(by_eye.largest(read_counts()))

# %% [markdown]
# The table of 06 again, on random cells, counted by the second counter, for the first trainings alone.

# %%
names = {"Exp. 1: all labels": ["exp1"], "Exp. 2: one label": ["exp2"], "Exp. 3: one, local": ["exp3_r2"]}
again = against_null.along_k(read_rows(by_eye.SECOND), names, "spread")
Markdown(null_figures.markdown(again))

# %% [markdown]
# ## Checked

# %%
last = {words: list(stages.values())[-1] for words, stages in found.items()}
first = next(iter(found["64 px"].values()))
assert last["64 px"].at[3].placed.above.low > 0 and last["64 px"].at[5].placed.above.low > 0
assert last["64 px"].at[3].looks.low > max(last["32 px"].at[3].looks.high, first.at[3].looks.high)
clean = {net: more_training.cleanness(large, net, (1, 2, 3)) for net in ends}
assert min(clean["exp1/low_noise"].low, clean["exp1/stochastic"].low) > clean["exp1"].high
k1, k2, _ = (of[1].k.placed for of in again.values())
assert k1.low > k2.high
# %%
before, after = (found["64 px by Muon"][images] for images in (100_000, 240_000))
assert after.at[6].filled.above.low > before.at[6].filled.above.value
step = before.local.value - after.local.value
assert after.local.high < before.local.value < found["64 px by Muon"][400_000].local.low
one, again = (found[words] for words in ("64 px by Muon", more_training.AGAIN))
assert max(abs(one[n].local.value - again[n].local.value) for n in again) > step
# %%
for net in flow_and_sde.NETS:
    assert ways[net, "SDE"][8].filled.high < ways[net, "flow"][8].filled.low
    assert flow_and_sde.extras(ways[net, "SDE"]) < flow_and_sde.extras(ways[net, "flow"]) / 2
    few, many, noise = (flow_and_sde.extras(by_steps[net, way]) for way in flow_and_sde.SAME_STEPS)
    assert noise < min(few, many) / 2 and many > 0.9 * few  # not the steps
k6 = {words: of.at[6].filled for words, of in by_sde.items()}
assert min(k6[words].above.low for words in ("Exp. 1", "Exp. 3")) > k6["Exp. 2"].above.high
print(
    "With longer training at 64 px more pictures look right to the counter; places are far above their null."
)
