# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # 9 · Where does a text-to-image model hear its words?
#
# **Claims**, of SDXL's pixel space. Version 2 (section 4, Fig. 6, App. G): there is "some degree of locality
# even at high noise", and words are heard somewhat sparsely. Where the horse ends up being drawn, the word
# "horse" is heard most at most noise levels; this is "far from perfect", and the cat is not drawn. The
# abstract of version 3: "spatial locality is present but conditional-locality is mostly absent". A word is
# *heard* where removing it changes the denoiser's output. The paper compares with where objects end up in the
# finished picture; here their places are known from the start.
#
# **Here we check this** on a small model with SDXL's architecture. It was trained on captions of renders, so
# that objects, masks and captions are known. Net T1 was told all objects; net T2, like Exp. 2, only one of
# them. With guidance T1 mostly draws styles and single objects as asked, including pairs that it never saw;
# two objects it seldom draws right, and T2 in none of the pictures below.
#
# **What deleting a word does, as in the paper, is not all that word's.** Deletion also moves and rewrites all
# later tokens. In prompts of two objects, to delete "and", which names nothing, changes T1's answer nearly as
# much, and at the objects, too. Beside this null most places lose the word that the paper's rule calls
# dominant; what is left of colors lies mostly at their objects. T1's words act at objects. Of two, their own
# gets somewhat more (*own part*; chance is one half) by deletion, and much more when only the word's
# embeddings or its attention are taken away. T2's words do so less in either case: conditional locality in
# pixels is weaker where composition fails.
#
# `model` may be `"stabilityai/stable-diffusion-xl-base-1.0"` (7 GB in half precision, 14 GB on a CPU: run the
# `hf download` that the error names; its pictures and maps take hours on a CPU, or use `device="cuda"` with
# 16 GB), or a folder. SDXL itself was not run here: the tables made from stored rows are of the small model
# whatever `model` is. To make the rows: `python -m lcs_utils.text_to_image.study`. Under a minute on two idle
# cores.

# %% tags=["parameters"]
preset: str = "tiny"
model: str = "standin"
device: str = "cpu"
seed: int = 0

# %%
from IPython.display import Markdown
from lcs_utils import notebooks, plotting
from lcs_utils.text_to_image import alt_texts, figures, places, prompts, report, row_figures, structure
from lcs_utils.text_to_image import truth

# %%
notebooks.check_parameters(preset=preset, model=model, seed=seed)
plotting.use_style()
denoiser, study = prompts.load(model, device)
rows, files = truth.read(), report.files(model)

# %% [markdown]
# ## What does it draw?
# Pictures of the captions above them, drawn by the pipeline's own sampler with guidance.

# %%
figure, said = report.plot_samples(denoiser, study, seed)
alt = alt_texts.said("text_to_image_samples", model)
path = plotting.save_figure(figure, "text_to_image_samples", preset, said, seed, files, alt=alt)

# %% [markdown]
# A reader, trained on renders, says what the pictures show. Filled: pictures that show what was asked for.
# Hollow: the same pictures judged by another caption. It asks for as many objects, so the hollow marks say
# nothing about number. In the figure, "objects right" needs each color with its shape. The table ends with
# the most that this VAE and this reader can reach: what the reader says of the VAE's copies of renders.

# %%
figure = row_figures.plot_success(rows, report.NETS, report.KINDS, report.WHATS)
said = report.success_numbers(rows)
alt = alt_texts.ALT["text_to_image_success"]
path = plotting.save_figure(figure, "text_to_image_success", preset, said, seed, alt=alt)
# %%
Markdown(report.success_words(rows))

# %% [markdown]
# ## Which word is heard where? (Fig. 6)
# We evaluate eq. (10), with the words of a prompt as conditions, while the prompt is sampled. At each place,
# words are ranked by how strongly they are heard. As in the paper, the first are *dominant* if each is heard
# at least twice as strongly as the next-ranked word. Of several such sets we take that with the
# largest ratio. The paper skips common words ("a", "and", "at"). They are the null here: a dominant word has
# to be heard at least twice as strongly as each of them, too (our choice), and as each place of a word that
# stands there twice: deleted together, the two can cancel. A place has the color of its strongest dominant
# word, pale if others dominate with it.
#
# This changes the picture. In prompts of two objects, "night" apart, most places lose the word that is
# dominant by the paper's rule (table: the share of places, beside the null in brackets). What is left lies
# mostly about objects: red at the red one, yellow about its cube and, at lower noise, at the picture's edges;
# hardly any shape. The cyan that covered the floor is gone: there the second "a" does as much. "night" covers
# nearly all at the highest noise. The single object's color is heard at the object then; at lower noise it is
# heard on the floor, too. Its only common word, "a", does half as much at the highest noise, about a quarter
# below.

# %%
settings = study.at, study.steps, study.guidance
found = [prompts.words_heard(denoiser, text, *settings, seed) for text in study.scenes]
figure = figures.plot_words(denoiser, study.scenes, found)
said = figures.words_numbers(study.scenes, found)
alt = alt_texts.said("fig06", model)
path = plotting.save_figure(figure, "fig06", preset, said, seed, files, alt=alt)
# %%
Markdown(figures.null_words(study.scenes, found))

# %% [markdown]
# ## Where does a place look? (the pixel half of Fig. 6, eq. (9))
# At the same states as above, what do four places depend on? They are the middles of the picture's quarters,
# whatever is drawn there. Each map shows the influence of all latents on its place, at one noise level. A
# latent is what the VAE makes of some pixels, and the maps are of the net, without the VAE. The white square
# around a place holds 90% of the squared influence; it may reach over the border. How large is it beside one
# that looks at all latents alike, and beside an untrained net at the same states? That shows what is due to
# the architecture. Of the untrained net we take what it computes, the noise: its denoiser
# $x_t-\sigma\epsilon$ would look at its own place because of the $x_t$, which an untrained $\epsilon$ does
# not cancel. The table is of all prompts of Fig. 6.

# %%
untrained = places.bare(study, device=device) if model == "standin" else None
found = [places.looks(denoiser, study, text, seed, untrained) for text in study.scenes]
figure = places.plot_looks(denoiser, study.scenes[0], *found[0])
said = places.numbers(study.scenes, found)
alt = alt_texts.said("fig06_pixels", model)
path = plotting.save_figure(figure, "fig06_pixels", preset, said, seed, files, alt=alt)
# %%
Markdown(places.words(said))

# %% [markdown]
# ## Is it heard where its object is?
# Noised renders, whose masks are known. AUC: the chance that a place inside a word's own object has a larger
# influence than one outside (one half knows nothing). The word leaves the prompt (*word*); it does so, but
# the pooled embedding keeps it (*tokens*); or only its embedding, its attention or the pooled embedding
# changes. Beside them: the other object's mask, an untrained net, and *another picture's* mask, which knows
# where objects tend to be. In the table also the words of *another caption*, at this picture's objects, and
# "and", which names none of them. Shuffled maps are at one half by construction. By deletion T1's "and" finds
# the objects nearly as well as their own words do: a word is heard at objects, not only at its own. Half or
# more of what lifts the untrained net above one half is where objects tend to be.
#
# **At its own object more than at the other?** A mask's AUC does not answer this question (conditional
# locality, Def. 2). Below: of what a word does per place inside the two objects (means over each), which
# share lies inside its own? T2 was told one object of two, as in Exp. 2. Its words act only a little more at
# their own objects, and it draws two objects as asked in none of the pictures above. The pooled embedding
# has no place: its part is one half. In brackets, for the nets whose weights are here: of what the word and
# "and" do inside the word's own object, the word's share. Above two thirds a word does more than twice what
# "and" does there: T1's do by embedding and attention, not by deletion, with or without the pooled
# embedding.
#
# **Which word is heard most at an object?** The paper says of its picture that "horse" is, where the horse
# is drawn, at most noise levels. Last table: the share of objects at which one of their own two words does
# more, per place, than each of the five others, "a" and "and" included; by chance it is two of seven. In
# brackets: the same words at an object of another picture. T2's weights are not kept. So the paper's
# sentence holds here, although words are heard elsewhere, too.

# %%
ablated, nets = report.ABLATED, report.NETS
figure = row_figures.plot_words_at_objects(rows, report.OF_ALL, nets, report.CONTROLS, report.SIGMAS)
said = report.numbers(rows, "AUC", "own part", "heard most", cases=ablated)
alt = alt_texts.ALT["word_to_mask"]
path = plotting.save_figure(figure, "word_to_mask", preset, said, seed, alt=alt)
# %%
Markdown(report.auc_words(rows, ablated))
# %%
Markdown(report.by_noise_words(rows, "own part", ablated, "common word"))
# %%
Markdown(report.by_noise_words(rows, "heard most", ablated, "another picture"))

# %% [markdown]
# ## How far does any place look? (eq. (9))
# On noised renders, whose masks are known: the full Jacobian of the denoiser, all latents by all latents. We
# plot the side of the square around a place that holds nine tenths of what the place depends on. The picture
# has sixteen latents a side; a square is centered on its place and may reach over the border. What an
# untrained net looks at (of what it computes, as above) is due to its architecture. Dashed: a place that
# depends on all latents alike. Four pictures. Objects look less far than the architecture does, the
# background farther.

# %%
label = "side in latents"
alike = structure.side_of_all_alike(16)
figure = row_figures.plot_by_noise(
    rows, "side", report.SIDES, nets, report.SIGMAS, label, alike, chance_words="all latents alike"
)
said, alt = report.numbers(rows, "side"), alt_texts.ALT["text_to_image_jacobian"]
path = plotting.save_figure(figure, "text_to_image_jacobian", preset, said, seed, alt=alt)
# %%
Markdown(report.by_noise_words(rows, "side", report.SIDES))

# %% [markdown]
# ## Checked

# %%
said = report.check_controls(rows, report.ABLATED)
assert all(0 <= row.value <= 1 for row in rows if row.measure in ("AUC", "pointing"))
print(f"{len(rows)} rows; {said}.")
