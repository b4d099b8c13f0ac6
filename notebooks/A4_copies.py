# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # A4 · Are samples copies?
#
# **Claim**: what our nets draw is not taken from their training images.
#
# An image is a copy when it lies half as far from its nearest training image as from the next
# nearest: an empty floor is near to many, a copy to one. Held-out renders, which no net saw, say
# what is usual. From the rows in `data/counts/memorization.csv`; training images are rendered again
# from their number. Half a minute on an idle core.

# %% tags=["parameters"]
preset: str = "tiny"

# %%
from IPython.display import Markdown
from lcs_utils import notebooks, plotting
from lcs_utils.evaluation import memorization, sentences, strips
from lcs_utils.evaluation.rows import STANDARD
from lcs_utils.evaluation.sheets import sheet_path

# %%
notebooks.check_parameters(preset=preset)
plotting.use_style()
seed = STANDARD.seed  # of the stored samples
nets = {"exp1": "Exp. 1", "exp2": "Exp. 2", "exp3": "Exp. 3"}

# %% [markdown]
# ## The twelve nearest
# Of all kept samples (K = 1 to 3) the twelve that are most like one training image, each above that
# image. At the right all samples and the held-out renders: does anything lie in the gray?

# %%
near = memorization.read_near()
copies = memorization.memorized(near)
numbers = {f"{net}, K = {k}": list(found) for (net, k), found in copies.items()}
files = strips.behind(memorization.ROWS, *(sheet_path(net, preset) for net in nets))
figure, said = memorization.plot(near, nets, preset), sentences.copies(near, nets)
path = plotting.save_figure(figure, "memorization", preset, numbers, seed, files, said)
# %%
Markdown(said)

# %% [markdown]
# ## The claim, checked

# %%
assert not any(found.copies for found in copies.values())
print(
    "images looked at:",
    sum(of.samples for of in copies.values()),
    " copies:",
    sum(of.copies for of in copies.values()),
)
