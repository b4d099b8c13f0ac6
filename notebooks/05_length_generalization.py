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
# Draws from the rows in `data/counts/tiny/earlier_counter.csv` (every sample counted by the counter before today's; notebook A1 has
# today's, with nulls) and the sheets of samples in `data/samples`.
# Preset `tiny`: half a minute on two CPU cores. Preset `paper` needs nets trained at that size; it says how.

# %% tags=["parameters"]
preset: str = "tiny"

# %%
from IPython.display import Markdown
from lcs_utils import checkpoints, notebooks, paths, plotting
from lcs_utils.evaluation import counter_cycles, counter_report, hand_counts, memorization, obeyed, rates, sheets, tables, verdicts
from lcs_utils.evaluation import length_generalization as lg
from lcs_utils.evaluation.counter import ObjectCounter
from lcs_utils.evaluation.rows import PLAUSIBLE, STANDARD, of_net, seeds_of, told_path
from lcs_utils.experiments import experiment
from lcs_utils.widgets import ConditionSampler
from lcs_utils.widgets.hand_count import HandCounter

notebooks.check_parameters(preset=preset)
plotting.use_style()
seed = STANDARD[0]  # of the stored samples

# %% [markdown]
# ## One condition, two nets
# The condition for K is the first K of the paper's 12 test locations (dots). The nets differ in nothing but the labels
# they were trained with, and the samples start from the same noise.

# %%
shown = [0, 1, 2, 3, 4, 5, 6, 8, 10]
names = ["exp1", "exp2"]
stored = lg.read_rows(told_path(preset))
kept = {name: sheets.read_sheet(name, preset).samples for name in names}
size = kept["exp1"][0].shape[-1]
dots = [sheets.asked(k, size) for k in shown]
rows = [[kept[name][k][i] for k in shown] for name in names for i in range(2)]
labels = ["Exp. 1\nall labels", "", "Exp. 2\none label", ""]
columns = [f"K = {k}" for k in shown]
figure = plotting.image_grid(rows, labels, columns, cell=0.95, marks=[dots] * 4)
counts = ["data/counts/tiny/earlier_counter.csv"]
used = [*(f"data/checkpoints/tiny/{name}" for name in names), *counts]
files = lambda nets: [sheets.sheet_path(name, preset).relative_to(paths.ROOT) for name in nets]
counted = {name: [[row.count for row in of_net(stored, name) if row.k == k and row.sample < 2] for k in shown] for name in names}
plotting.save_figure(figure, "exp1_exp2_samples", preset, {"K": shown, "counts": counted}, seed, [*files(names), *counts]);

# %% [markdown]
# ## The number: 64 samples for every K
# A sample succeeds when every conditioned cell holds an object center (within one cell; beyond the trained maximum all but one, and
# more than in training), fewer objects than the trained maximum stand elsewhere, and it looks like CLEVR. The paper judged 8 samples
# by eye; its tolerances are not known, these are ours. Bands are bootstrap 95 % intervals. Training showed at most three objects.
#
# Objects fill cells wherever they stand, which flatters a net that draws many. So the second figure counts the *conditions obeyed*: a net's
# samples are taken for a mixture of CLEVR scenes with as many objects, of which 0, 1, 2, ... stand where they were asked for, the others
# anywhere (`evaluation.obeyed`). No threshold enters. Beyond K = 8 the asked cells lie too close for it.

# %%
names += ["exp2/unit"]
titles = dict(zip(names, ["Exp. 1, all labels", "Exp. 2, one label", "Exp. 2, condition / sqrt(k)"]))
colors = plotting.EXPERIMENT_COLORS | {"exp2/unit": plotting.COLORS["purple"]}
measured = tables.net_rates(stored, names)
figure = tables.draw_rates(measured, ["filled", "success", "extras"], titles, colors)
plotting.save_figure(figure, "length_generalization", preset, measured, seed, used)
for name in names:
    print(f"{name:9s} success at K =", "  ".join(f"{k}: {values['success'].value:.2f}" for k, values in measured[name].items()))
mean = {name: rates.mean_over(stored, name, "success", range(4, 9)).value for name in names}
print("mean success for K = 4..8:", {name: round(rate, 2) for name, rate in mean.items()})
obeying = ["Exp. 1, all labels", "random number of labels", "one label dropped", "Exp. 2, one label", "Exp. 3, one label, local net"]
obeying = dict(zip(["exp1", "random_1-3", "drop_one_1-3", "exp2", "exp3"], obeying))
followed = obeyed.along_k(stored, obeying)
shades = colors | {"random_1-3": plotting.COLORS["sky"], "drop_one_1-3": plotting.COLORS["orange"]}
plotting.save_figure(obeyed.draw(followed, obeying, shades), "conditions_obeyed", preset, followed, seed, [*counts, "data/counts/obeyed.csv"])
for name, of in followed.items():
    print(f"{name:12s} conditions obeyed of K =", "  ".join(f"{k}: {at.obeyed.value:.1f}" for k, at in of.items()))

# %% [markdown]
# **A control that the paper lacks.** A condition with k labels has an embedding sqrt(k) times as large as any that Exp. 2
# was trained with. Divided by sqrt(k) at sampling, the same net still fills few of the cells: the failure is not the size
# of the condition. Undivided, its samples do not dissolve either (98 of 100 look right, below): there was no noise to repair.
#
# **How many conditions a net obeys.** Exp. 1 obeys 3.9 of 4, 4.5 of 6 and 6.3 of 8. Exp. 2 does not draw more objects when it is told of
# more, two to three up to K = 8 and then fewer, and obeys between none and two whatever K (0.2 to 1.8; with the two other trainings up to
# 2.0). Told of all but one of up to three objects, a net obeys 1.5 of 4, 2.6 of 6 and 3.6 of 8 and draws up to one more than Exp. 1 up to
# K = 5, then as many or fewer; Exp. 3 obeys like Exp. 1 up to K = 5 and 3.9 to 4.8 from there on (24 samples for each K, the others 64).

# %% [markdown]
# ## Tables 1 and 2, ours beside the paper's
# K is the largest number such that every k = 1..K succeeds: by the paper's rule (more than a quarter of 8 samples), by the same
# rule on all our samples, and by ours (more than half of all, and another limit on extras). Intervals are bootstrap. What was
# not measured says so: those nets are trained by `python -m lcs_utils.training table1` and `table2`.

# %%
table = tables.cells(stored)
plotting.save_figure(tables.draw_k(table), "tables_1_2", preset, [cell._asdict() for cell in table], seed, used)
differs = [cell for cell in table if verdicts.of_cell(stored, cell).verdict == verdicts.NO]
said = "; ".join(f"{cell.trained_on}, {cell.column}: {cell.paper.k}, ours {tables.say(cell.many)}" for cell in differs)
Markdown(f"**Where the paper's K lies outside our interval by its own rule:** {said}.\n\n{tables.markdown(table)}")

# %% [markdown]
# ## Fig. 8: more objects in training, more objects placed
# Nets told all locations, trained on up to one, two, ... six objects, and on up to six for three times as long. The same noise and the
# same K locations (dots) for each; every sample is one of the eight that `data/samples` shows for every K. From K = 7 on no net has seen
# as many objects.

# %%
beyond, trained_on = [7, 8, 9], ["exp1_1", "exp1_1-2", "exp1", "exp1_1-4", "exp1_1-5", "exp1_1-6", "exp1_1-6_x3"]
ranges = [cell for cell in tables.cells(stored, trained_on) if cell.ours and rates.mean_over(stored, cell.net, "filled", beyond)]
shown = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]
kept = {cell.net: sheets.read_sheet(cell.net, preset).samples for cell in ranges}
grid = [[kept[cell.net][k][0] if k in kept[cell.net] else None for k in shown] for cell in ranges]
marks = [[sheets.asked(k, size) if image is not None else [] for k, image in zip(shown, row)] for row in grid]
figure = plotting.image_grid(grid, [f"trained\non {cell.trained_on}" for cell in ranges], [f"K = {k}" for k in shown], cell=0.85, marks=marks)
nets = [cell.net for cell in ranges]
plotting.save_figure(figure, "fig08_samples", preset, {"nets": nets, "K": shown}, seed, files(nets))
share = {cell.net: [rates.mean_over(stored, cell.net, measure, beyond) for measure in ("within_one", "filled")] for cell in ranges}
shares = ("K-1 to K+1 objects", "cells filled")
figure = tables.draw_k_against(ranges, share, range(len(ranges)), [c.trained_on for c in ranges], "objects in a training image", "K = 7 to 9", shares)
even = lambda row, _: row.placed >= row.k - 1 and abs(row.count - row.k) <= 1 and row.plausibility >= PLAUSIBLE
tolerant = {cell.net: rates.largest_k(stored, cell.net, rates.PAPER_RULE_ALL._replace(succeeds=even)) for cell in ranges}
numbers = {cell.net: {"cell": cell._asdict(), "share": share[cell.net], "K_tolerant": tolerant[cell.net]} for cell in ranges}
plotting.save_figure(figure, "fig08", preset, numbers, seed, counts)
for cell in ranges:
    print(f"trained on {cell.trained_on}: K = {tables.say(cell.many)}; with K-1 to K+1 objects allowed at every K: {tables.say(tolerant[cell.net])}")
over = {"K = 1 to 3": [1, 2, 3], "K = 4 to 6": [4, 5, 6], "K = 7 to 9": beyond}
for name in ("exp1_1-6", "exp1_1-6_x3"):
    for images, stage in rates.stages(stored, name).items():
        elsewhere = {said: f"{rates.mean_over(stored, stage, 'extras', ks).value:.2f}" for said, ks in over.items()}
        print(f"{name:12s} {images:6d} images, objects elsewhere:", elsewhere)

# %% [markdown]
# **Not as in the paper**: its K grows from 1 to 5, 9, 10, 10 and 11. Ours grows up to three objects and then no more (1, 6, 8, 8, 4, 4):
# trained on up to four, five or six, a net fills 0.80, 0.83 and 0.82 of the cells for K = 7 to 9 (three trainings on up to three: 0.75 to
# 0.80), and by the paper's rule its K is no larger, or even smaller. That is the rule's doing: up to the trained maximum it asks for
# every cell filled and nothing elsewhere, beyond it allows one missing and one more, and for K = 4 to 10 all these nets but the first
# draw (our counter says) 0.6 to 1.7 objects elsewhere. With one object of tolerance at every K (a rule chosen after seeing this) the drop
# is gone: 2, 6, 8, 8, 9, 8. It is not the counter's doing: of eight samples at K = 5 and 6 each of the nets on 1-5 and 1-6 objects,
# counted blind by a vision-language model (below), one or two succeed.
#
# **Much of it is short training.** The nets on 1-2 to 1-6 objects saw as many images, so that one of six counts saw half as many of each
# as one of three. Trained three times as long, it puts 0.04 instead of 0.19 objects elsewhere for K = 1 to 3, 0.17 instead of 0.86 for K
# = 4 to 6 and 0.58 instead of 1.53 for K = 7 to 9, where it fills 0.84 of the cells; K is 5 [5, 9] instead of 4 [4, 5], with the
# tolerance 9 [9, 10]. Along that training the objects elsewhere at K = 4 to 6 go from 2.9 (66,000 images) to 1.1, 0.5 and 0.2, while the
# cells fill early.

# %% [markdown]
# ## Label completeness as a dose
# Trainings on the same images that differ in how many of the objects carry a label: all but one of them ("one label dropped"; of
# 1-3 objects that is as many labels as "one label", but up to two of them together), anything from one to all ("random"). First nets
# trained on 1-3 objects, then on 1-6, where the four shares differ and one dropped leaves *more* labels than a random number. Composition
# follows the share, as in the paper: on 1-3 objects random labels beat one dropped, on 1-6 they do not (0.72 and 0.74 of the cells, where
# one label fills 0.32 and all 0.82; the two in the middle are not told apart).

# %%
by_labels = {3: ["exp2", "drop_one_1-3", "random_1-3", "exp1"], 6: ["exp2_1-6", "random_1-6", "drop_one_1-6", "exp1_1-6"]}
doses = [cell for cell in tables.cells(stored, sum(by_labels.values(), [])) if cell.ours]
dose, most = [experiment(cell.net).labeled_share for cell in doses], [experiment(cell.net).objects[1] for cell in doses]
dosed = {
    c.net: [rates.mean_over(stored, c.net, measure, range(m + 1, m + 4)) for measure in ("success", "filled")] for c, m in zip(doses, most)
}
ticks, place = [f"{c.trained_on}: {c.column} ({d:.2g})" for c, d in zip(doses, dose)], [i + 0.6 * (m == 6) for i, m in enumerate(most)]
words = "objects in training: labels (share of the objects that carry one)"
figure = tables.draw_k_against(doses, dosed, place, ticks, words, "K = 4-6 (1-3), 7-9 (1-6)")
numbers = {cell.net: {"labeled": d, "cell": cell._asdict(), "share": dosed[cell.net]} for cell, d in zip(doses, dose)}
plotting.save_figure(figure, "label_completeness", preset, numbers, seed, counts)
print("cells filled:", "  ".join(f"{net} {shares[1].value:.2f}" for net, shares in dosed.items()))
lenient = rates.PAPER_RULE_ALL._replace(succeeds=lambda row, _: row.placed >= row.k - 1 and row.plausibility >= PLAUSIBLE)
print("K if no extra object counted and one cell might stay empty:", {c.net: tables.say(rates.largest_k(stored, c.net, lenient)) for c in doses})

# %% [markdown]
# ## The same control in training: a label embedding of one size
# The label's embedding divided by sqrt(k) in training too. Exp. 2 sees at most one label, so for it that is the *same* training, and
# sampling with condition / sqrt(k) already is the control: it fails. Exp. 1 with normalized labels, on as many images, still composes, but
# less: 0.74 of the cells for K = 4 to 6 (three standard trainings: 0.84 to 0.87), and K = 5 by the paper's rule, not 8. After the
# division, what one label does depends on how many others there are, and beyond three each is weaker than training ever made it.

# %%
pairs = {"exp1": "Exp. 1", "exp1_normalized": "Exp. 1, normalized", "exp2": "Exp. 2", "exp2/unit": "Exp. 2, condition / sqrt(k)"}
shades = dict(zip(pairs, [colors["exp1"], plotting.COLORS["sky"], colors["exp2"], plotting.COLORS["purple"]]))
normalized = tables.net_rates(stored, pairs)
figure = tables.draw_rates(normalized, ["filled", "success", "extras"], pairs, shades)
plotting.save_figure(figure, "normalized_labels", preset, normalized, seed, counts)
Markdown(tables.markdown(tables.cells(stored, pairs)))

# %% [markdown]
# ## Training seeds, another sampler, other locations
# The nets of Fig. 1 trained again from other weights, on the same scenes in another order: one line per training. The first nets of
# Exp. 1 and 2 also saw those scenes in the renderer's first look, about one gray level from today's, which seeds 1 and 2 saw.
# All other numbers are of DPM-Solver++(2M), 14 steps, at the paper's 12 test locations, of which from K = 6 on some lie within two cells of
# each other. Printed here: the first two nets sampled by Heun with 32 steps (EDM2's own), and asked for the K centers of crowded scenes,
# other ones for each sample (32 samples for K = 1 to 9). By the paper's rule neither changes K (crowded scenes: 8 [2, 8]); by ours, which
# needs more than half of the samples, the closer objects of crowded scenes bring Exp. 1 from 6 to 3 [2, 6].

# %%
groups = {name: seeds_of(stored, name) for name in ["exp1", "exp2", "exp3"]}
seeded = [net for group in groups.values() for net in group]
shades = {net: plotting.EXPERIMENT_COLORS[net[:4]] for net in seeded}
labels = {net: "_" for net in seeded} | {"exp1": "Exp. 1", "exp2": "Exp. 2", "exp3": "Exp. 3, r = 3"}
every = tables.net_rates(stored, seeded)
figure = tables.draw_rates(every, ["filled", "success", "extras"], labels, shades)
plotting.save_figure(figure, "seeds", preset, every, seed, counts)
print("net and way | K, paper's rule | K, ours | cells filled, K = 4-6 | success, K = 4-6 | objects elsewhere, K = 1-3")
print("\n".join(line.strip("| ") for line in verdicts.ways(stored)))
Markdown(tables.markdown(tables.cells(stored, seeded)))

# %% [markdown]
# ## Along training, from another seed
# The two trainings once more from other weights (seed 1), with the nets kept along the way. For a while both fill few of the cells;
# then Exp. 1 learns to place and loses its extra objects, while Exp. 2 stays at a third of the cells and keeps more than one
# extra object. K is by the paper's rule; only K = 1 to 6 were measured along the way, 32 samples each (64 of the finished nets).

# %%
again = {"exp1_seed1": titles["exp1"], "exp2_seed1": titles["exp2"]}
over = {"filled": [4, 5, 6], "success": [4, 5, 6], "extras": [1, 2, 3]}
along = {name: rates.along_training(stored, name, over) for name in again}
for name, stages in along.items():
    early = [row for row in stored if row.k <= 6]
    for images, stage in rates.stages(stored, name).items():
        stages[images]["K"] = rates.Interval(*rates.largest_k(early, stage, rates.PAPER_RULE_ALL)[:3])
said = {name: f"\nK = {ks[0]} to {ks[-1]}" for name, ks in over.items()} | {"K": "\n(at most 6 asked)"}
shades = {name: colors[name[:4]] for name in again}
figure = tables.draw_rates(along, [*over, "K"], again, shades, along_training=True, said=said)
plotting.save_figure(figure, "along_training", preset, along, seed, counts);

# %% [markdown]
# ## Is the counter right?
# 360 samples of six nets, enlarged, in random order, counted by a vision-language model blind to net and K (the column `counted_by`
# of `data/counts/hand_counts.csv`). Up to five conditioned locations the counter agrees on average; where objects crowd it counts more,
# for Exp. 1 at K = 7 to 9 by 1.4 objects. Exp. 1's images look right in 40 of 40 for K = 0 to 3, 22 of 30 for 4 to 6 and 14 of 30 for 7
# to 9 (the counter: 40, 30, 28), so by that judgment its K is smaller; of all 65 samples that look wrong the counter's plausibility
# passes 63. Printed: K by the paper's rule on these samples, judged by that model (places by the counter), by its count alone, and by the
# counter.
#
# The counter that saw these samples had learned from renders that our nets drew over, so it was replaced. The lines show how often
# today's is exact where the truth is known: on renders of each count that training never saw, at CLEVR's distances, in the paper's
# layouts and crowded. At 32 px many objects, and more so crowded ones, cost accuracy.

# %%
figure, exact = counter_report.draw(counter_cycles.read())
plotting.save_figure(figure, "counter_accuracy", preset, exact, seed, ["data/checkpoints/counter", "data/counts/counter_cycles.csv"])
hands = hand_counts.agreement(hand_counts.read_counts(), lg.read_rows(told_path("tiny")))
print("\n".join(hands.lines()))
for name in ["exp1", "exp2", "exp2/nearest", "exp3"]:
    seen = [(hand, row) for hand, row in hands.pairs if row.net == name]
    number = [row._replace(count=hand.count, placed=min(row.placed, hand.count)) for hand, row in seen]
    looks = [row._replace(plausibility=float(hand.plausible)) for (hand, _), row in zip(seen, number)]
    judged = [tables.say(rates.largest_k(of, name, rates.PAPER_RULE_ALL)) for of in (looks, number, [row for _, row in seen])]
    print(f"{name:12s} K as judged blind {judged[0]}, by the blind count {judged[1]}, by the counter {judged[2]}")
plotting.save_figure(hands.draw(), "hand_counts", preset, {"confusion": hands.counts.tolist()}, seed, [*counts, "data/counts/hand_counts.csv"]);

# %% [markdown]
# Count some yourself: a key 0-9 or a click is an answer, `?` says that a picture does not look like CLEVR. Answers are stored one by
# one under `runs/`; `hand_counts.agreement` compares them with the counter as above.

# %%
blind = hand_counts.choose(["exp1", "exp2", "exp3"], [1, 4, 7], 2, order=seed, preset=preset)
session = hand_counts.session(blind, "me", paths.RUNS / "hand_counts.csv", preset)
HandCounter(session.pictures, session.record, session.done)

# %% [markdown]
# ## Are samples copies?
# Every kept sample of each net (K = 1 to 3, the most copy-like first) above the training image that is most like it. The number is the
# distance from it as a share of that from the next nearest image; below a half it would be called a copy. Of these and as many more, which
# are counted but not shown, not one is, as no held-out render is.

# %%
seen = memorization.read_near()
copies = memorization.memorized(seen)
figure = memorization.draw(seen, {"exp1": "Exp. 1", "exp2": "Exp. 2", "exp3": "Exp. 3"}, preset)
used = ["data/counts/memorization.csv", *files(["exp1", "exp2", "exp3"])]
plotting.save_figure(figure, "memorization", preset, {f"{net}, K = {k}": list(m) for (net, k), m in copies.items()}, seed, used)
print({f"{net}, K = {k}": f"{m.copies} of {m.samples}" for (net, k), m in copies.items()})

# %% [markdown]
# ## Ask for objects yourself
# Choose cells, press Sample, and read what the counter finds.

# %%
denoisers = {titles[name]: checkpoints.load(name, preset).denoiser for name in ["exp1", "exp2"]}
counter = ObjectCounter.from_pretrained()
ConditionSampler(denoisers, counter, k=5, resolution=size, seed=seed)

# %% [markdown]
# ## The claim, checked

# %%
assert mean["exp1"] > mean["exp2"] + 0.3
assert mean["exp1"] > mean["exp2/unit"] + 0.3
one = obeyed.along_k(stored, seeds_of(stored, "exp2"), range(3, 9))
assert all(at.obeyed.high < 2.5 and at.obeyed.high < followed["exp1"][k].obeyed.low for of in one.values() for k, at in of.items())
assert not any(m.copies for m in copies.values())
last = {name: list(stages.values())[-1] for name, stages in along.items()}
assert last["exp1_seed1"]["success"].low > last["exp2_seed1"]["success"].high + 0.3
of = {name: rates.mean_over(stored, name, "filled", [4, 5, 6]) for name in pairs}
assert of["exp1_normalized"].low > of["exp2/unit"].high + 0.2
fewer, *others = [dosed[net][1] for net in by_labels[3]]  # cells filled, from one label to all
for higher in others:
    assert higher.low > fewer.high
    fewer = higher
assert share["exp1_1-6"][1].low > share["exp1_1-2"][1].high  # K = 7..9
print("Exp. 1 succeeds beyond what it was trained on far more often than Exp. 2:", mean["exp1"] > mean["exp2"] + 0.3)

# %% [markdown]
# **What to look for**: Exp. 2 draws about two objects whatever K and obeys two conditions at most; Exp. 1 draws one at nearly every
# location, until they crowd. **What differs from the paper**: its Exp. 1 reaches K = 9 by eye at 128 px; ours, a small 32 px
# net trained for an hour on one core, seldom has more than half of its samples succeed from K = 6 on, where objects touch, extras appear
# and the counter itself is less sure (its own figure is above).
