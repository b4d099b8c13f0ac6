# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # 3 · CLEVR scenes, conditions and where objects can stand
#
# **Claim** (App. E.1, Fig. 9): a condition is a 16×16 grid of counts of object centers; what a net is told is chosen by a
# *label policy*, the only difference between Exp. 1 (all objects labeled) and Exp. 2 (one of them).
#
# Scenes follow CLEVR's own procedure (Johnson et al. 2017: placement, margins, jitter, visibility); images come from an
# analytic renderer instead of Blender. Needs nothing trained. About 20 seconds, the same for both presets.

# %% tags=["parameters"]
preset: str = "small"
seed: int = 0
scenes_per_count: int = 400

# %%
import matplotlib.pyplot as plt
import numpy as np
import torch
from lcs_utils import notebooks, plotting
from lcs_utils.clevr import conditions, scenes
from lcs_utils.clevr.render import object_ids, render

notebooks.check_parameters(preset=preset)
plotting.use_style()

# %% [markdown]
# ## Scenes
# Every scene is a function of `(seed, index)`: camera and lamps jitter, objects are rejected until CLEVR's margins hold
# and each shows enough pixels. The same call gives the same bytes.

# %%
sheet = [[scenes.sample_scene(seed, 10 * n + i, n) for i in range(5)] for n in (1, 2, 3, 6)]
images = [render(row, 128).transpose(0, 3, 1, 2) for row in sheet]
plotting.image_grid(images, row_labels=["1 object", "2 objects", "3 objects", "6 objects"], cell=1.2);

# %% [markdown]
# The nets of preset `small` see such scenes at 32 px, where a small object is three pixels wide. Object masks come from
# the same ray tracer.

# %%
scene = sheet[3][0]
mask = object_ids(scene, 128)
small, colored = render([scene], 32)[0].transpose(2, 0, 1), np.where(mask < 0, 0.9, (mask % 6) / 6)[None] * 2 - 1
plotting.image_grid([[images[3][0], small, colored]], column_labels=["128 px", "32 px", "masks"], cell=1.6);

# %% [markdown]
# ## Fig. 9: the condition
# The image, its grid of counts when all objects are labeled (Exp. 1), and when one is (Exp. 2, 3). The rest of the scene
# is the same: the net of Exp. 2 sees two more objects that nobody told it of.

# %%
shown = sheet[2]
locations = torch.from_numpy(np.stack([scenes.project(s) for s in shown])).float()
present, generator = torch.ones(len(shown), 3, dtype=torch.bool), torch.Generator().manual_seed(seed)
labeled = {policy: conditions.choose_labels(present, policy, generator) for policy in conditions.LABEL_POLICIES}
grids = {policy: conditions.location_grid(locations, labeled[policy]).reshape(-1, 16, 16) for policy in labeled}
rows = [images[2], 2 * grids["all"] - 1, 2 * grids["single"] - 1]
centers = [[(127 * x, 127 * y) for x, y in row.tolist()] for row in locations]
marks = [centers, [[] for _ in shown], [[] for _ in shown]]
figure = plotting.image_grid(rows, ["scene", "all labels\n(Exp. 1)", "single label\n(Exp. 2, 3)"], cell=1.2, marks=marks)
labels_per_image = {policy: grid.sum((1, 2)).tolist() for policy, grid in grids.items()}
plotting.save_figure(figure, "fig09", preset, {"labels_per_image": labels_per_image}, seed);

# %% [markdown]
# ## Where objects stand, and where the tests put them
# A location that no training scene occupies stays empty whatever the net learned. The paper's 12 test locations (App.
# E.1), read as x to the right and y down in a centered square crop, all lie where objects are common.

# %%
counts = torch.zeros(256)
for n in (1, 2, 3):
    some = [scenes.sample_scene(seed + 1, i, n) for i in range(scenes_per_count)]
    where = torch.from_numpy(np.stack([scenes.project(s) for s in some])).float()
    counts += conditions.location_grid(where, torch.ones(where.shape[:2], dtype=torch.bool)).sum(0)
share = (counts / counts.sum()).reshape(16, 16)
figure, axes = plt.subplots(figsize=(4.2, 3.6))
picture = axes.imshow(100 * share, cmap="cividis", extent=(0, 1, 1, 0))
for k, (x, y) in enumerate(conditions.TEST_LOCATIONS):
    axes.text(x, y, str(k + 1), ha="center", va="center", color="white", fontsize=9, fontweight="bold")
axes.set(xlabel="x (right)", ylabel="y (down)", title="object centers and the 12 test locations")
axes.grid(False)
figure.colorbar(picture, label="% of centers per cell")
at_tests = [float(share[int(16 * y), int(16 * x)]) for x, y in conditions.TEST_LOCATIONS]
values = {"share_at_test_locations": at_tests, "scenes": 3 * scenes_per_count, "uniform_share": 1 / 256}
plotting.save_figure(figure, "object_centers", preset, values, seed);

# %% [markdown]
# ## Twelve objects at the test locations
# From K = 6 on these layouts break CLEVR's own margins: the test asks for more crowding than any training scene has.

# %%
layouts = [scenes.scene_at(conditions.TEST_LOCATIONS[:k], seed, k) for k in (1, 3, 6, 9, 12)]
pictures = render(layouts, 128).transpose(0, 3, 1, 2)
plotting.image_grid([pictures], column_labels=[f"K = {k}" for k in (1, 3, 6, 9, 12)], cell=1.3);

# %% [markdown]
# ## The claim, checked

# %%
assert all(n == 3 for n in labels_per_image["all"]) and all(n == 1 for n in labels_per_image["single"])
assert all(n == 2 for n in labels_per_image["drop_one"]) and min(at_tests) > 0
again = render([scenes.sample_scene(seed, 10, 1)], 128).transpose(0, 3, 1, 2)
assert np.array_equal(again[0], images[0][0])  # same (seed, index), same bytes
print("test locations that no training scene occupies:", sum(s == 0 for s in at_tests))

# %% [markdown]
# **What to look for**: single-label grids carry no trace of the other objects. **What differs from the paper**: the
# renderer (analytic instead of Blender's Cycles; `lcs_utils.clevr.fidelity` measures how close) and the resolution of the nets; the
# crop is our reading of the paper's test locations.
