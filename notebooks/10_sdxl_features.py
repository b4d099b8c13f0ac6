# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # 10 · Do prompts compose in attention?
#
# **Claim** (section 4, Figs. 7, 13, App. G): differences of SDXL's cross-attention maps, a prompt's word
# minus "", are alike within a kind of concept and less so between kinds, and a composite prompt's map at a
# word resembles that of the single prompt: composition in feature space.
#
# **Here** the same on a small model with SDXL's architecture whose truth is known (notebook 09), beside
# two corrections. The paper's baseline, "" at its end token, is in every difference and may make all of them
# alike: a version without it stands beside. And its "step 1, 7, 15 for low, mid, high noise" is
# inverted, so that all axes say the noise level. `model` and `device` as in notebook 09. Under a
# minute on two idle cores.

# %% tags=["parameters"]
preset: str = "tiny"
model: str = "standin"
device: str = "cpu"
seed: int = 0

# %%
from IPython.display import Markdown
from lcs_utils import notebooks, plotting
from lcs_utils.text_to_image import alt_texts, figures, kinds, prompts, report, truth

# %%
notebooks.check_parameters(preset=preset, model=model, seed=seed)
plotting.use_style()
denoiser, study = prompts.load(model, device)
rows, files = truth.read(), report.files(model)

# %% [markdown]
# ## What does a word's token get? (Fig. 7)
# Attention to one word, mean over ten samples and the up blocks, the finest (the paper: the mid block, which
# has few places here and finds no object, below): minus that of "" at its end, as in the
# paper, and minus the mean over prompts. Purple: more than the baseline, orange: less, each map to its
# own largest value. The same is done once more from other noise, to see what chance in samples does.

# %%
both, again = (
    prompts.attended(denoiser, prompts.asked(study), study, seed=noise) for noise in (seed, seed + 1000)
)
found = prompts.of_singles(both, study)
figure = figures.plot_maps(found, study.singles)
said = report.map_numbers(found, study.singles)
alt = alt_texts.ALT["fig07"]
path = plotting.save_figure(figure, "fig07", preset, said, seed, files, alt=alt)

# %% [markdown]
# ## Cosines between prompts (Figs. 7, 13)
# The paper has blocks: related words attend alike, others less. So have we; but under either baseline part of
# that is there before any training (second table). Purple and orange between kinds are what orthogonal
# concepts would not have. A signed mean hides both, as they cancel, and without the mean of prompts it
# follows from their number alone if they are then of equal length: the absolute one stands beside.

# %%
figure = figures.plot_cosines(found, study.singles)
said = figures.mean_cosines(found, prompts.of_singles(again, study))
alt = alt_texts.ALT["fig13"]
path = plotting.save_figure(figure, "fig13", preset, said, seed, files, alt=alt)
# %%
Markdown(report.cosine_words(said, len(study.singles)))
# %%
nets = {"model": found} | ({"untrained": kinds.of_untrained(study, seed)} if model == "standin" else {})
Markdown(kinds.table(nets, study.singles))

# %% [markdown]
# ## Composite prompts at a word (App. G)
# The map at one word of a composite prompt against the single prompt of that word. Beside it the mean over
# the other prompts: a similarity to everything is no composition; and the single prompt against itself from
# other noise, which a composite, drawn from the single prompt's own noise, may surpass. The paper shows the
# mid block; the others stand beside. Hollow, in the mid block: a net that learned nothing, whose token for a
# word is the same vector in either prompt. Below: whether attention there knows a word's object at all.

# %%
composed = {part: prompts.composites(both, study, part, again) for part in figures.PARTS}
beside = {"mid": report.composites_untrained(rows)} if model == "standin" else {}
figure = figures.plot_composites(composed, beside)
said = {"model": composed, "untrained": beside}
alt = alt_texts.ALT["composite_prompts"]
path = plotting.save_figure(figure, "composite_prompts", preset, said, seed, files + report.stored(), alt=alt)
# %%
Markdown(report.composite_words(composed, rows if model == "standin" else ()))

# %% [markdown]
# ## Are attention maps explanations?
# Noised renders whose masks are known: does a word's attention find its own object? Beside it the other
# object's mask, an untrained net, shuffled maps. Raw attention of the down and up blocks does, and tells its
# own object from the other better than the word's influence (eq. (10), notebook 09). That of T2, which draws
# no two objects, finds it too, though worse. Less the paper's baseline T1's is a worse map.

# %%
figure = figures.plot_rows(rows, report.ATTENDED, report.NETS, report.CONTROLS, report.SIGMAS)
said = report.auc_numbers(rows, report.ATTENDED)
alt = alt_texts.ALT["attention_to_mask"]
path = plotting.save_figure(figure, "attention_to_mask", preset, said, seed, report.stored(), alt=alt)
# %%
Markdown(report.auc_words(rows, report.ATTENDED))

# %% [markdown]
# ## Are objects and styles additive?
# $R^2$ of the denoiser's answer to both by the sum of its answers to each (Lemma 1): for two objects, and
# for an object and a style, which touches every pixel and yet adds up, in pixels too. One half of the
# question is the caption's: told one object, this net learned that there is no other, so that two captions of
# one object contradict each other.
# Hollow, and in brackets below: the same net with the labels of neither, one and the other permuted, which
# in one of three cases leaves the sum as it was.

# %%
label = "additivity $R^2$"
nets, null = report.NETS, "permuted"
figure = figures.plot_by_noise(rows, "additivity", report.ADDED, nets, report.SIGMAS, label, control=null)
figure.axes[0].set_yscale("symlog", linthresh=1)
figure.axes[0].set_yticks([-5, -1, 0, 1], ["−5", "−1", "0", "1"])
said, alt = report.numbers(rows, "additivity", "effect"), alt_texts.ALT["prompt_additivity"]
path = plotting.save_figure(figure, "prompt_additivity", preset, said, seed, report.stored(), alt=alt)
# %%
Markdown(report.by_noise_words(rows, "additivity", report.ADDED, null))

# %% [markdown]
# ## Does a removal move along its own direction? (eq. (3))
# Of what changes when one of two is no longer told, the share along the direction that it has by itself.
# Dashed: one half. With the names of the two directions exchanged each share is one minus itself, so that
# this is the mean of a net that does not know which is which. An untrained net is no such, since its answers
# add up in part: it stands beside as what is there before any training.

# %%
label = "own share"
figure = figures.plot_by_noise(rows, "own share", report.ADDED, nets, report.SIGMAS, label, chance=0.5)
own = [row for row in rows if not row.control]
said, alt = report.numbers(own, "own share"), alt_texts.ALT["prompt_own_share"]
path = plotting.save_figure(figure, "prompt_own_share", preset, said, seed, report.stored(), alt=alt)
# %%
Markdown(report.by_noise_words(rows, "own share", report.ADDED))

# %% [markdown]
# ## Your own model
# Any SDXL-class pipeline of diffusers: `prompts.load(FOLDER)`, or these lines.

# %%
cond = denoiser.condition(study.scenes[0])
without = denoiser.without_words(study.scenes[0])
x_t = next(prompts.sampling(denoiser, study.scenes[0], 15, 1.0, 1, seed)).x_t[0]
heard = prompts.locality.condition_influence(denoiser, x_t, 9.0, cond, without, chunk=4)
print({word: round(float(map_.mean()), 4) for word, map_ in zip(without, heard)})

# %% [markdown]
# ## Checked

# %%
report.check_controls(rows, report.ATTENDED)
assert all(len(of) == len(study.singles) + 1 for of in found.values())
print("There is a map for each prompt; shuffled ones know nothing of the masks.")
