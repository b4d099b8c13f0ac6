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
# two objects it seldom draws right, and T2 never does. T1's words act at objects. Their own object gets
# somewhat more of this than the other one (*own part*; chance is one half) when the word is deleted from the
# prompt, and so from the pooled embedding, which has no place. It gets most when the pooled embedding keeps
# the word. T2's words do so less in either case: conditional locality in pixels is weaker where composition
# fails.
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
path = plotting.save_figure(figure, "text_to_image_success", preset, said, seed, report.stored(), alt=alt)
# %%
Markdown(report.success_words(rows))

# %% [markdown]
# ## Which word is heard where? (Fig. 6)
# We evaluate eq. (10), with the words of a prompt as conditions, while the prompt is sampled. At each place,
# words are ranked by how strongly they are heard. As in the paper, the first are *dominant* if each is heard
# at least twice as strongly as the next-ranked word. Of several such sets we take that with the
# largest ratio. A place has the color of its strongest dominant word, pale if others dominate with it. In the
# first picture, which has two cyan objects for the one asked for, places at the red object mostly hear red.
# At the cyan ones many hear cyan, but so does the floor. At the highest noise, in the prompts of two objects,
# "none" or a word of the whole picture covers nearly all. The single object's color is heard at the object
# then; at lower noise, on the floor, too.

# %%
settings = study.at, study.steps, study.guidance
found = [prompts.words_heard(denoiser, text, *settings, seed) for text in study.scenes]
figure = figures.plot_words(denoiser, study.scenes, found)
said = figures.words_numbers(study.scenes, found)
alt = alt_texts.said("fig06", model)
path = plotting.save_figure(figure, "fig06", preset, said, seed, files, alt=alt)

# %% [markdown]
# ## Where does a place look? (the pixel half of Fig. 6, eq. (9))
# At the same states as above, what do four places depend on? They are the middles of the picture's quarters,
# whatever is drawn there. Each map shows the influence of all latents on its place, at one noise level. A
# latent is what the VAE makes of some pixels, and the maps are of the net, without the VAE. The white square
# around a place holds 90 % of the squared influence; it may reach over the border. How large is it beside one
# that looks at all latents alike, and beside an untrained net at the same states? What the untrained net
# looks at is due to its architecture. The table is of all prompts of Fig. 6.

# %%
untrained = places.bare(study) if model == "standin" else None
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
# influence than one outside (one half knows nothing). The word leaves the prompt (*word*), or only its
# embedding, its attention or the pooled embedding. Beside them: the other object's mask, an untrained net and
# shuffled maps (the same shuffles for all nets and noise levels); in the table also the words of *another
# caption*, at this picture's objects, that is how much any word is heard at any object. Where T1's values for
# its own and the other object's mask are close, a word is heard at objects, not only at its own.
#
# **At its own object more than at the other?** A mask's AUC does not answer this question (conditional
# locality, Def. 2). Below: of what a word does inside the two objects, which share lies inside its own? T2
# was told one object of two, as in Exp. 2. Its words act only a little more at their own objects, and it
# never draws two objects as asked. The pooled embedding has no place: its part is one half.

# %%
ablated = report.ABLATED
figure = row_figures.plot_words_at_objects(rows, ablated, report.NETS, report.CONTROLS, report.SIGMAS)
said = report.numbers(rows, "AUC", "own part", cases=ablated)
alt = alt_texts.ALT["word_to_mask"]
path = plotting.save_figure(figure, "word_to_mask", preset, said, seed, report.stored(), alt=alt)
# %%
Markdown(report.auc_words(rows, ablated))
# %%
Markdown(report.by_noise_words(rows, "own part", ablated))

# %% [markdown]
# ## How far does any place look? (eq. (9))
# On noised renders, whose masks are known: the full Jacobian of the denoiser, all latents by all latents. We
# plot the side of the square around a place that holds nine tenths of what the place depends on. The picture
# has sixteen latents a side; a square is centered on its place and may reach over the border. What an
# untrained net looks at is due to its architecture. Dashed: a place that depends on all latents alike. Four
# pictures. Do background and objects look equally far?

# %%
label = "side in latents"
alike = structure.side_of_all_alike(16)
figure = row_figures.plot_by_noise(
    rows, "side", report.SIDES, report.NETS, report.SIGMAS, label, alike, chance_words="all latents alike"
)
said, alt = report.numbers(rows, "side"), alt_texts.ALT["text_to_image_jacobian"]
path = plotting.save_figure(figure, "text_to_image_jacobian", preset, said, seed, report.stored(), alt=alt)
# %%
Markdown(report.by_noise_words(rows, "side", report.SIDES))

# %% [markdown]
# ## Checked

# %%
said = report.check_controls(rows, report.ABLATED)
assert all(0 <= row.value <= 1 for row in rows if row.measure in ("AUC", "pointing"))
print(f"{len(rows)} rows; {said}.")
