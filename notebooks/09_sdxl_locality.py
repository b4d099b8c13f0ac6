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
# **Claim** (section 4, Fig. 6, App. G; abstract of the last version): in SDXL's pixel space a place looks
# at its neighborhood, but which words it hears is mostly no matter of where their objects are. The paper
# compares with where objects end up in the finished picture; here they are known from the start.
#
# **Here it is checked** on a small model with SDXL's architecture, trained on captions of renders whose
# objects, masks and captions are known: T1 was told all objects, T2 one of them, as Exp. 2 was. T1 draws
# styles and one object mostly as told, also of pairs that it never saw; two seldom, T2 never. T1's words
# act at objects. Of that, their own gets somewhat more than the other (*own part*; chance is one half) where
# the word leaves the prompt, and with it the pooled embedding, which has no place; most where the pooled
# embedding keeps it. T2's words do so less, either way: conditional locality in pixels is weaker where
# composition fails. A map like the paper's does not tell.
#
# `model` may be `"stabilityai/stable-diffusion-xl-base-1.0"` (some gigabytes: `hf download` first, the error
# says with which revision; its maps take hours, or `device="cuda"`), or a folder. SDXL itself was not run
# here: tables from rows, below, are of the small model whatever `model` is. Rows:
# `python -m lcs_utils.text_to_image.study`. Under a minute on two idle cores.

# %% tags=["parameters"]
preset: str = "tiny"
model: str = "standin"
device: str = "cpu"
seed: int = 0

# %%
from IPython.display import Markdown
from lcs_utils import notebooks, plotting
from lcs_utils.text_to_image import alt_texts, figures, prompts, report, structure, truth

# %%
notebooks.check_parameters(preset=preset, model=model, seed=seed)
plotting.use_style()
denoiser, study = prompts.load(model, device)
rows, files = truth.read(), report.files(model)

# %% [markdown]
# ## What does it draw?
# Pictures of the captions above them, by the pipeline's own sampler with guidance.

# %%
figure, said = report.plot_samples(denoiser, study, seed)
alt = alt_texts.ALT["text_to_image_samples"]
path = plotting.save_figure(figure, "text_to_image_samples", preset, said, seed, files, alt=alt)

# %% [markdown]
# A reader that was trained on renders says what pictures show. Filled: pictures that show what was told;
# hollow: the same pictures judged by another caption, which asks for as many objects, so that of their number
# it says nothing. "objects" asks for each color with its shape. The most that this VAE and this reader can
# reach, on the VAE's copies of renders, ends the table.

# %%
figure = figures.plot_success(rows, report.NETS, report.KINDS, report.WHATS)
said = report.success_numbers(rows)
alt = alt_texts.ALT["text_to_image_success"]
path = plotting.save_figure(figure, "text_to_image_success", preset, said, seed, report.stored(), alt=alt)
# %%
Markdown(report.success_words(rows))

# %% [markdown]
# ## Which word is heard where? (Fig. 6)
# Eq. (10) with the words of a prompt as conditions, while it is sampled: a place has a word's color where
# that word is heard at least twice as much as the next one. Of two objects' words some
# are heard so at their objects, most nowhere; the color of a single object is heard on the floor, too.

# %%
steps, at = report.STEPS, report.AT
found = [prompts.words_heard(denoiser, text, at, steps, study.guidance, seed) for text in study.scenes]
figure = figures.plot_words(denoiser, study.scenes, found)
said = figures.words_numbers(study.scenes, found)
alt = alt_texts.ALT["fig06"]
path = plotting.save_figure(figure, "fig06", preset, said, seed, files, alt=alt)

# %% [markdown]
# ## Is it heard where its object is?
# Noised renders, whose masks are known: the chance that a place inside a word's own object has a
# larger influence than one outside (AUC; one half knows nothing). Four ways to take the word away; the
# other object's mask, an untrained net and shuffled maps beside them. Where T1's own mask and the other
# object's are close together, a word is heard at objects, not at its own alone.

# %%
figure = figures.plot_rows(rows, report.ABLATED, report.NETS, report.CONTROLS, report.SIGMAS)
said = report.auc_numbers(rows, report.ABLATED)
alt = alt_texts.ALT["word_to_mask"]
path = plotting.save_figure(figure, "word_to_mask", preset, said, seed, report.stored(), alt=alt)
# %%
Markdown(report.auc_words(rows, report.ABLATED))

# %% [markdown]
# ## At its own object more than at the other?
# The question that a mask's AUC does not ask (conditional locality, Def. 2): of what a word does inside the
# two objects, the share inside its own. T2 was told one object of two, as Exp. 2 was: its words act little more
# at their own objects, and it draws no two objects as told. The pooled embedding has no place: its part is
# one half.

# %%
figure = figures.plot_by_noise(
    rows, "own part", report.ABLATED, report.NETS, report.SIGMAS, "own part", chance=0.5
)
said, alt = report.numbers(rows, "own part"), alt_texts.ALT["own_part"]
path = plotting.save_figure(figure, "own_part", preset, said, seed, report.stored(), alt=alt)
# %%
Markdown(report.by_noise_words(rows, "own part", report.ABLATED))

# %% [markdown]
# ## How far does a place look? (eq. (9))
# The full Jacobian of the denoiser, all latents by all latents: the side of the square around a place that
# holds nine tenths of what it depends on. The picture has sixteen latents a side, and a square, centered on
# its place, may reach over the border; what an untrained net looks at is its architecture. Dashed: a place
# that depends on all latents alike. Four pictures. Do background and objects look equally far?

# %%
label = "side in latents"
alike = structure.side_of_all_alike(16)
figure = figures.plot_by_noise(
    rows, "side", report.SIDES, report.NETS, report.SIGMAS, label, alike, chance_words="all latents alike"
)
said, alt = report.numbers(rows, "side"), alt_texts.ALT["text_to_image_jacobian"]
path = plotting.save_figure(figure, "text_to_image_jacobian", preset, said, seed, report.stored(), alt=alt)
# %%
Markdown(report.by_noise_words(rows, "side", report.SIDES))

# %% [markdown]
# ## Checked

# %%
report.check_controls(rows, report.ABLATED)
assert all(0 <= row.value <= 1 for row in rows if row.measure in ("AUC", "pointing"))
print(f"{len(rows)} rows; shuffled maps know nothing: their AUC is one half within its interval.")
