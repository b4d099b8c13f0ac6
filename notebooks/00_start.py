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
# A diffusion model learned to draw scenes with a few objects. Why can one net then draw more objects than it ever saw
# together, and another, with the same architecture and the same images, cannot? The paper's answer (*Local Mechanisms of
# Compositional Generalization in Conditional Diffusion*, Bradley, ICML 2026, arXiv 2509.16447): the first one's score is
# **local**, each pixel listens to the conditions and pixels around it. These notebooks recompute that, from the theorems to
# the nets. **Run → Run All Cells** works in each of them; none needs a GPU or a network, and none waits for another.
#
# | number | question | what it shows |
# | --- | --- | --- |
# | [01](01_theory_cpc_is_lcs.ipynb) | Why should a model that composes be local? | Lemma 1 on exact distributions, and where it breaks; a slider over noise |
# | [01b](01b_theory_length_generalization.ipynb) | What does that buy? | fitted to two conditions it composes at nine, in closed form; sums of scores |
# | [02](02_theory_noise.ipynb) | What if it composes only nearly? | Lemmas 2, 3, Claim 1: noise makes it more compositional |
# | [02b](02b_theory_feature_space.ipynb) | And in features? | eq. (3), Corollary 1, Claim 2: composition hidden from pixels |
# | [02c](02c_toy_clevr.ipynb) | What does one label leave open? | Exp. 1, 2 and 3 in a toy CLEVR with exact scores |
# | [02d](02d_exp3_without_training.ipynb) | Is a local score enough? | the local score over training patches, on rendered scenes |
# | [03](03_clevr_generation.ipynb) | What do the nets see, and what are they told? | scenes to move and light by hand, the renderer beside Cycles, the conditions of Fig. 9 |
# | [04](04_training.ipynb) | How are the nets trained? | EDM2's recipe on a tiny net, live; the loss curves of the shipped nets |
# | [05](05_length_generalization.ipynb) | Who draws more objects than it ever saw? | Exp. 1 beside Exp. 2, Tables 1 and 2 with intervals; click where objects shall be |
# | [06](06_local_intervention.ipynb) | Does making a net local repair it? | Exp. 3, Fig. 1 in full, Fig. 4; locality without training |
# | [07](07_locality.ipynb) | Where does each pixel look? | Figs. 2, 10, 12, and an explorer: pick a pixel, slide the noise, switch conditions |
# | [08](08_color.ipynb) | Can a condition without a place be composed? | Fig. 5: nets told colors, over chance and null |
# | [08b](08b_feature_space.ipynb) | Do conditions act separately in features? | Fig. 11 and its controls; additivity, own share, causes |
# | [09](09_sdxl_locality.ipynb) | Where does a text-to-image model hear its words? | Fig. 6 on a small model with SDXL's architecture, against known masks |
# | [10](10_sdxl_features.ipynb) | Do prompts compose in attention? | Figs. 7, 13 and what an untrained net does there; additivity |
# | [11](11_swing_by.ipynb) | Does composition, once learned, stay? | Swing-by dynamics (arXiv 2410.08309) in closed form |
# | [11b](11b_swing_by_diffusion.ipynb) | Also in a diffusion model? | the same question to a small one, with a reader that can say neither |
# | [A1](A1_is_it_real.ipynb) | Is it real? | what is measured, beside what a net that does not listen would get, and beside the eye |
# | [A2](A2_training_sets.ipynb) | Do more objects or labels in training help? | Fig. 8, label completeness, longer training, Tables 1, 2 at 32 px |
# | [A3](A3_counter.ipynb) | Is the counter right? | on renders, against blind counts; count some yourself |
# | [A4](A4_copies.ipynb) | Are samples copies? | the twelve nearest training images |
# | [A5](A5_our_trainings.ipynb) | Would another training say so too? | other seeds, samplers, labels of one size, along training |
# | [A6](A6_radius.ipynb) | How far should a local net see? | the radius from one cell to the whole image |
# | [A7](A7_more_training.ipynb) | What does more training buy? | along training, a net for low noise, blind looks, a second counter |
#
# *In a hurry*: 05, then the explorer in 07. *For the theory*: 01, 02. *In doubt*: A1. Each takes about a minute or less on two idle cores.

# %% [markdown]
# ## In every notebook
# - The first code cell holds the **parameters**. `preset` is `"tiny"` (what comes with the repository: nets of 32 px; of 64 px
#   stored rows and samples, in 04 to 06, 08, 08b, A1, A2, A7), `"small"`
#   (64 px, of which some come with it) or `"paper"` (the paper's sizes, which need nets trained at them).
# - Widgets are worked by mouse or keys: Tab to one, then arrow keys or Enter. If the kernel does not answer, they say so.
# - Every figure is a PNG with its numbers beside it as JSON, under `figures/tiny/`; another seed or preset writes
#   under `figures/small/` or `runs/`, which git leaves out.
# - What came out, with all numbers, and where we differ from the paper: `README.md`, one folder up.

# %% tags=["parameters"]
preset: str = "tiny"

# %%
import matplotlib.pyplot as plt
from lcs_utils import notebooks, plotting
from lcs_utils.evaluation import changes
from lcs_utils.evaluation.length_generalization import draw_samples
from lcs_utils.widgets.explorer import LocalityExplorer

notebooks.check_parameters(preset=preset)
plotting.use_style()

# %% [markdown]
# ## Four samples, in a few lines
# Five places are asked for, two more than any training image had objects.

# %%
# Exp. 1 at 64 px, trained on 1-3 objects; below a noise of .3 a second net, told nothing (notebook A7)
denoise, side = changes.denoiser("exp1/low_noise", "small")
images = draw_samples(denoise, side, 5, 4)  # the paper's first five test locations, four samples
figure = plotting.image_grid([images], title="five locations asked for")
nets = [f"data/checkpoints/small/{name}" for name in ("exp1", "low_noise")]
path = plotting.save_figure(figure, "readme_samples", preset, {"locations": 5}, 0, nets)

# %% [markdown]
# ## The explorer, as a picture
# Live in notebook 07: slide the noise, pick a pixel, switch conditions.

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
