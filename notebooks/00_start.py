# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # Start here
#
# A diffusion model learned to draw scenes with a few objects. Why can one net then draw more objects than it
# ever saw together, while another, of the same architecture and trained on the same images with fewer labels,
# cannot? The paper (*Local Mechanisms of Compositional Generalization in Conditional Diffusion*,
# Bradley, ICML 2026, arXiv 2509.16447) answers that the first net's score is **local**: each pixel
# depends on the conditions and pixels around it. These notebooks recompute that, from the theorems to
# the nets. **Run → Run All Cells** works in each of them. None needs a GPU or a network, and none needs
# another to have run first.
#
# | number | question | what it shows |
# | --- | --- | --- |
# | [01](01_theory_cpc_is_lcs.ipynb) | Why should a model that composes be local? | Lemma 1 on exact distributions, and where it breaks; a slider over noise |
# | [01b](01b_theory_length_generalization.ipynb) | What does that buy? | a model fitted to at most two conditions composes nine, in closed form; sums of scores |
# | [02](02_theory_noise.ipynb) | What if the data compose only nearly? | Lemmas 2, 3, Claim 1: noise makes them more compositional |
# | [02b](02b_theory_feature_space.ipynb) | Does this hold in features too? | eq. (3), Corollary 1, Claim 2: composition hidden from pixels |
# | [02c](02c_toy_clevr.ipynb) | What does one label leave open? | Exps. 1, 2 and 3 in a toy CLEVR with exact scores |
# | [02d](02d_exp3_without_training.ipynb) | Is a local score enough? | the closed-form local score over training patches, on rendered scenes |
# | [03](03_clevr_generation.ipynb) | What do the nets see, and what are they told? | scenes to arrange and light by hand, our renderer beside Cycles, the conditions of Fig. 9 |
# | [04](04_training.ipynb) | How are the nets trained? | EDM2's recipe on a tiny net, live; the loss curves of the shipped nets |
# | [05](05_length_generalization.ipynb) | Who draws more objects than it ever saw? | Exp. 1 beside Exp. 2, Tables 1 and 2 with intervals; click where objects should stand |
# | [06](06_local_intervention.ipynb) | Does making a net local repair it? | Exp. 3, Fig. 1 in full, Fig. 4; locality imposed at sampling, without training |
# | [07](07_locality.ipynb) | Where does each pixel look? | Figs. 2, 10, 12, and an explorer: pick a pixel, slide the noise, switch conditions |
# | [08](08_color.ipynb) | Can a condition without a place be composed? | Fig. 5: nets told colors, against chance and a null |
# | [08b](08b_feature_space.ipynb) | Do conditions act separately in features? | Fig. 11 and its controls; additivity, own share, causes |
# | [09](09_sdxl_locality.ipynb) | Where does a text-to-image model hear its words? | Fig. 6 on a small model with SDXL's architecture, against known masks |
# | [10](10_sdxl_features.ipynb) | Do prompts compose in attention? | Figs. 7, 13, also for an untrained net; additivity |
# | [11](11_swing_by.ipynb) | Does composition, once learned, last? | Swing-by dynamics (arXiv 2410.08309) in closed form |
# | [11b](11b_swing_by_diffusion.ipynb) | Also in a diffusion model? | the same question for a small one, read by a classifier that may answer "neither" |
# | [A1](A1_is_it_real.ipynb) | Is it real? | what is measured, beside what a net that ignores its conditions would get, and beside the eye |
# | [A2](A2_training_sets.ipynb) | Do more objects or labels in training help? | Fig. 8, label completeness, longer training, Tables 1, 2 at 32 px |
# | [A3](A3_counter.ipynb) | Is the counter right? | tests on renders and against blind counts; count some yourself |
# | [A4](A4_copies.ipynb) | Are samples copies? | the twelve samples most like a single training image |
# | [A5](A5_our_trainings.ipynb) | Would another training say so too? | other seeds, other samplers, normalized labels, results along training |
# | [A6](A6_radius.ipynb) | How far should a local net see? | the radius, from one cell to the whole image |
# | [A7](A7_more_training.ipynb) | What does more training buy? | results along training, a net for low noise, blind judgments of looks, a second counter |
#
# *In a hurry*: 05, then the explorer in 07. *For the theory*: 01, 02. *In doubt*: A1. Each notebook
# takes about a minute or less on two idle cores.

# %% [markdown]
# ## In every notebook
# - The first code cell holds the **parameters**. `preset` is `"tiny"` (what comes with the repository:
#   nets of 32 px and, in 00, 04 to 08b, A1, A2, A6 and A7, stored nets, measurements or samples
#   of 64 px), `"small"` (64 px; rows and samples come with the repository, weights do not) or `"paper"`
#   (the paper's sizes). Both need nets trained at them. `medium` is `small` by another optimizer (A7): three
#   of its nets come with the repository, and are loaded by name, as below.
# - Widgets work by mouse or keyboard: Tab to one, then use the arrow keys or Enter. If the kernel does
#   not answer, they say so.
# - Every figure is saved as a PNG, with its numbers beside it as JSON, under `figures/tiny/`. With
#   another seed or preset it goes to `figures/small/` or `runs/`, which git ignores.
# - For what came out, with all numbers, and where we differ from the paper, see `README.md`, one folder
#   up.

# %% tags=["parameters"]
preset: str = "tiny"

# %%
import matplotlib.pyplot as plt
from lcs_utils import notebooks, plotting
from lcs_utils.evaluation import changes, family_grids
from lcs_utils.evaluation.samples import draw_samples
from lcs_utils.widgets.explorer import LocalityExplorer

notebooks.check_parameters(preset=preset)
plotting.use_style()

# %% [markdown]
# ## Words that all notebooks use
# - **Cells**: images have 16x16 of them, a condition says in which an object stands. *The paper's cells* are
#   twelve, in the paper's order; *random cells* lie at least three apart, other ones for each sample.
# - **Filled**: the share of cells asked for that hold an object, within one cell. **Right in number and
#   places** (*placed*): as many objects as asked for, each cell filled, by the rule in `README.md`. Looks do
#   not count.
# - **K**: up to how many locations more than a quarter of the samples are right.
# - **Null**: the same pictures judged by what other samples were asked for. Drawing much fills cells, too.
# - **Conditions obeyed**: how many of K, beyond what objects drawn without listening would fill.
# - **Extras**: objects at cells that nobody asked for.
# - **Looks right**, *to the counter* (a small net that counts objects, A3) or *to the eye* (a vision-language
#   model that judges blind, A7): the two disagree. **Cleanness**: whether an object's pixels are of one hue.
#
# ## Four samples, in a few lines
# We ask for objects at five places (dots), two more than any training image had objects. Is one missing?

# %%
# Exp. 1, of 1-3 objects, by the reverse SDE, at 64 px; below noise .3 an unconditional net takes over (A7)
denoise, side = changes.denoiser("exp1/stochastic", "medium")
images = draw_samples(denoise, side, 5, 4, steps=80, solver="sde_dpmpp_2m", family="spread")  # random cells
asked = [plotting.in_pixels(places, side) for places in family_grids.locations("spread", 5, 4)]
figure = plotting.image_grid([images], title="dots: locations asked for", marks=[asked])
nets = [f"data/checkpoints/medium/{name}" for name in ("exp1", "low_noise")]
path = plotting.save_figure(figure, "readme_samples", preset, {"locations": 5}, 0, nets)

# %% [markdown]
# ## The explorer, as a picture
# It is live in notebook 07: slide the noise, pick a pixel, switch conditions.

# %%
explorer = LocalityExplorer()
explorer.draw_samples()
figure, axes = plt.subplots(figsize=(9, 4.96), subplot_kw={"frame_on": False, "xticks": [], "yticks": []})
axes.imshow(explorer.frame)
nets = [f"data/checkpoints/tiny/{name}" for name in ("exp1", "exp2", "exp3")]
path = plotting.save_figure(figure, "explorer", preset, {"nets": ["exp1", "exp2", "exp3"]}, 0, nets)

# %% [markdown]
# ## The map is complete

# %%
table = notebooks.read("00_start").cells[0].source
missing = [name for name in notebooks.names() if name != "00_start" and f"({name}.ipynb)" not in table]
assert not missing, f"the map lacks {', '.join(missing)}"
print("This environment is ready, and the map above names every notebook.")
