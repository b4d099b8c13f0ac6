# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # 7 · Where each pixel of the score looks
#
# **Claim** (section 4, App. F, Figs. 2, 10, 12): nets that length-generalize have *local conditional* scores: at high noise a
# pixel listens to the condition beside it. Nets that fail listen to conditions far away. Exp. 3 is local by construction.
#
# Two maps say so, on any denoiser. **Eq. (9)**: $G(u, v)$ = mean over channel pairs of $|\partial D_c(x_t)[u] / \partial x_{c'}[v]|$,
# what pixel $u$ listens to among pixels. **Eq. (10)**: $I_k(u) = \|D(x_t; C)[u] - D(x_t; C \setminus c_k)[u]\|$, among conditions. It is
# the denoiser $D$ that is differentiated: the Jacobian of a score is dominated by its own diagonal at high noise, whatever the
# distribution (first figure). Uses the shipped nets and the rows in `data/counts/tiny/locality.csv`. Preset `tiny`: under a minute on one
# idle core; preset `paper`: not timed, it needs nets trained at that size and says how. `cifar = True` downloads a CIFAR-10 net (143 MB).

# %% tags=["parameters"]
preset: str = "tiny"
seed: int = 0
cifar: bool = False

# %%
import torch
from lcs_utils import centered, checkpoints, diffusion, locality, notebooks, plotting, widgets
from lcs_utils.clevr.conditions import test_condition
from lcs_utils.evaluation import locality_rates, net_locality, rates
from lcs_utils.evaluation.rows import read_rows, told_path, seeds_of
from lcs_utils.experiments import LONGER, NORMALIZED, TABLE_1, TABLE_2
from lcs_utils.models.ddpm import load_ddpm
from lcs_utils.widgets import figures

notebooks.check_parameters(preset=preset)
plotting.use_style()

# %% [markdown]
# ## Before any net: a Gaussian field like the images
# It has their mean, variance and correlation between neighbors. Its denoiser is linear, its Jacobian known in closed form. It
# looks farther the more noise there is, for good reason: averaging over correlated pixels removes noise. The score of the
# same Gaussian seems to see one pixel only, once the noise is high.

# %%
sigmas = net_locality.SIGMAS
images = locality_rates.training_like(200)
(gauss, length), side = locality_rates.gaussian_twin(images), images.shape[-1]
names = ["exp1", "exp2", "exp3", "exp1_1", "exp3_1"]
targets = net_locality.cell_targets(locality.without_each(test_condition(net_locality.K)), side)
score = lambda x, s, cond: diffusion.score(gauss.denoise, x, s)
width = lambda D, s: locality.locality_window(locality.pixel_influence(D, images[:1].double(), s, None, targets), targets)
baseline = [float(width(gauss.denoise, s).double().mean()) for s in sigmas]
of_score = [float(width(score, s).double().mean()) for s in sigmas]
print(f"correlation length {length:.1f} px")
print("side of the 90 % square: D", [round(b) for b in baseline], " score", [round(b) for b in of_score])

# %% [markdown]
# ## Explore
# Choose a pixel, slide the noise, toggle conditions, sample. Without a kernel this is a picture.

# %%
explorer = widgets.LocalityExplorer(preset=preset, seed=seed)
explorer

# %% [markdown]
# ## Fig. 2: pixel and condition maps over the denoised image, at low and high noise
# White square: 90 % of the energy (squares) of the target's pixel influence. Each condition has a color; a pixel shows the colors of
# those it listens to; a disc is filled by its share of the *target's* condition influence.

# %%
levels = explorer.maps.sigmas
rows, columns, numbers = figures.fig02(explorer.maps, explorer.first, figures.nearest(levels, (0.2, 5.0)))
nets = [net.replace(": ", "\n") for net in explorer.maps.nets]
figure = plotting.image_grid(rows, nets, columns, cell=1.63)
used = [f"data/checkpoints/tiny/{name}" for name in ("exp1", "exp2", "exp3")]
plotting.save_figure(figure, "fig02", preset, numbers, seed, used);

# %% [markdown]
# ## Fig. 10: every condition over all noise levels
# For each net: where the target looks among pixels (white: the 90 % square, cut at the image's border), then each of the five
# conditions' influence on all pixels, brightness relative to the strongest of that net and noise level. The explorer has the
# other noise levels.

# %%
stops = figures.nearest(levels, (0.05, 0.2, 1, 10))
rows, labels, columns, nets, numbers = figures.fig10(explorer.maps, explorer.first, stops)
figure = plotting.image_grid(rows, labels, columns, cell=0.67, groups=nets)
plotting.save_figure(figure, "fig10", preset, numbers, seed, used);

# %% [markdown]
# ## The same as numbers
# Eight images, five conditions, targets at all five. *Conditional locality*: of all the condition influence on pixels within two
# cells of a condition, the share that comes from conditions at most two cells away. Bands: 95 % bootstrap intervals over images.

# %%
local = net_locality.current(net_locality.read(preset), names, preset)
fields = ("window", "window_1", "within_1", "within_2")
curves = {n: {field: locality_rates.against_noise(local[n], field) for field in fields} for n in names}
titles = {"exp1": "Exp. 1", "exp2": "Exp. 2", "exp3": "Exp. 3", "exp1_1": "Exp. 1, one object", "exp3_1": "Exp. 3, one object"}
references = {"Gaussian, denoiser": baseline, "Gaussian, score": of_score}
figure = locality_rates.draw_against_noise(curves, titles, references)
counts = ["data/counts/tiny/locality.csv", "data/counts/tiny/earlier_counter.csv"]
used = [f"data/checkpoints/tiny/{name}" for name in names] + counts
numbers = {n: {field: [list(i) for i in curve.values()] for field, curve in of.items()} for n, of in curves.items()}
plotting.save_figure(figure, "locality_against_noise", preset, {"sigmas": sigmas, "gaussian": baseline, "nets": numbers}, seed, used);

# %% [markdown]
# ## The thesis in one picture: conditional locality at high noise against K
# **K here**: the largest K at which, and below which, at least three quarters of the conditioned cells hold an object on average (64 or
# 24 samples for every K). Extra objects and looks do not count. This rule was chosen after its numbers were known; two others are
# printed beside it, and the share of cells filled at K = 4 to 6 needs no rule. One point per trained net; color is the labels and
# the architecture, shape what else differs. **Chance** (dashed): a net that responds equally to all conditions would score 24 %; with the
# window of r = 3, which holds few others, 73 %. Exp. 3's 78 % therefore says little about what it learned, and rank
# correlations are over the nets that see the whole image. Local nets with r <= 2 hear nothing beyond two cells at all and are left out.

# %%
counted = read_rows(told_path(preset))
points = [net for exp in (*TABLE_1, *TABLE_2, NORMALIZED, LONGER) for net in seeds_of(counted, exp.name)]
found = locality_rates.against_k(counted, points, preset)
rho = found.rank_correlations()
figure = locality_rates.draw_against_k(found)
numbers = {"locality": {n: list(s) for n, s in found.locality.items()}, "chance": found.chance, "K": found.k, "obeyed": found.obeyed, "spearman": rho}
plotting.save_figure(figure, "locality_against_k", preset, numbers, seed, used)
for rule, k in found.k.items():
    print(f"{rule:29s}", k)
whole = [n for n in points if rates.trained(n).radius is None]
print({rule: round(r, 2) for rule, r in rho.items()}, f"rank correlations, {len(whole)} nets that see the whole image")
at_noise = locality_rates.by_noise(counted, whole, preset)
print("with the share of cells filled, by noise:", {s: round(r, 2) for s, r in at_noise.items()})

# %% [markdown]
# ## Along training
# Exp. 1 and 2 trained once more (seed 1), with nets kept along the way; the same two numbers of each. Both start alike. In Exp. 1
# locality and composition grow together (0.24 to 0.53, 0.04 to 0.84); in Exp. 2 both rise a little, then stall or fall back (0.24, 0.35,
# 0.29; 0.04, 0.33, 0.30).

# %%
again = {"exp1_seed1": "Exp. 1", "exp2_seed1": "Exp. 2"}
rows, over = net_locality.read(preset), {"filled": [4, 5, 6]}
along = {n: {"conditional locality at σ ≥ 1": locality_rates.along_training(rows, n)} for n in again}
for n in again:
    along[n]["cells filled, K = 4 to 6"] = {i: v["filled"] for i, v in rates.along_training(counted, n, over).items()}
figure = locality_rates.draw_along_training(along, again)
plotting.save_figure(figure, "locality_along_training", preset, along, seed, counts);

# %% [markdown]
# ## Fig. 12: why a CIFAR-10 net delocalizes
# The paper's explanation: CIFAR-10 shows one centered subject, CLEVR several objects. Two small nets of ours put it to the
# test. Both were trained on scenes of ONE object, told nothing, the same number of steps; in one the object is always in
# the middle, in the other anywhere. Both now denoise the same images (centered, unseen), the target is the middle.

# %%
tests = list(diffusion.from_uint8(centered.data("centered", 6, seed + 1).images))
singles, images_of = {name: checkpoints.load(name).denoiser for name in centered.SPREAD}, {}
if cifar:  # on its own samples, for it knows no CLEVR
    singles["CIFAR-10"] = load_ddpm()
    start = torch.randn(6, 3, 32, 32, generator=torch.Generator().manual_seed(seed))
    path = diffusion.sample(singles["CIFAR-10"], start, diffusion.karras_sigmas(18, 0.02, 80.0))
    images_of["CIFAR-10"] = list(diffusion.final(path))
noise = [torch.randn(3, 32, 32, generator=torch.Generator().manual_seed(seed + i)) for i in range(6)]
steps, middle, none = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 20.0), [(16, 16)], torch.zeros(256)
look = lambda D, x, e: locality.profile(D, x, e, steps, none, {}, middle)
profiles = {n: [look(D, x, e) for x, e in zip(images_of.get(n, tests), noise)] for n, D in singles.items()}
sides = {n: torch.stack([q.windows[:, 0] for q in p]).double() for n, p in profiles.items()}
used = [f"data/checkpoints/tiny/{name}" for name in centered.SPREAD]
rows, labels = figures.fig12(profiles)
figure = plotting.image_grid(rows, labels, [f"σ = {s:g}" for s in steps], cell=1.0)
plotting.save_figure(figure, "fig12", preset, {"sigmas": steps, "sides": sides}, seed, used);

# %%
for name, side in sides.items():
    print(f"{name:10s} side of the 90 % square at sigma =", "  ".join(f"{s:g}: {v:.1f}" for s, v in zip(steps, side.mean(0).tolist())))

# %% [markdown]
# ## The claims, checked

# %%
at = {n: (found.locality[n].low, found.locality[n].high) for n in names}
assert at["exp1"][0] > max(at["exp2"][1], at["exp1_1"][1]) + 0.1 and at["exp1"][0] > found.chance["exp1"] + 0.2
assert all(at[n][0] > found.chance[n] - 0.05 for n in names)
assert max(i.high for n in ("exp1", "exp2") for i in curves[n]["window"].values()) < 16  # pixels, half of the image
assert abs(float(sides["centered"].mean(0)[-1] - sides["scattered"].mean(0)[-1])) < 3  # Fig. 12
assert baseline == sorted(baseline) and of_score[-1] == 1 and baseline[-1] > 15  # the field itself is not local
assert min(rho.values()) > 0
last = {n: {name: list(curve.values())[-1] for name, curve in curves.items()} for n, curves in along.items()}
assert all(last["exp1_seed1"][name].low > last["exp2_seed1"][name].high for name in last["exp1_seed1"])  # locality, cells filled
print("Exp. 1 hears conditions nearby, Exp. 2 and the net of one object hardly more than chance:", at["exp1"][0] > at["exp2"][1] + 0.1)

# %% [markdown]
# **What to look for**: Exp. 1 hears its conditions from nearby (0.54 to 0.60 for σ ≥ 1), Exp. 2 and the net of one object hardly more
# than chance (0.23 to 0.34, and 0.27 to 0.31, where hearing all conditions alike gives 0.24). Exp. 3's 0.73 to 0.80 is its window's: the
# same net with conditions heard alike would have 0.73. One image and target vary more: in Fig. 2 the target of Exp. 1 takes 69 and 68 %
# from nearby at the two noise levels shown, and 34 % at σ = 1 between them; in Exp. 2 at σ = 5 a far disc fills, as the paper says.
# **Pixels**: as in the paper, Exp. 1 and 2 look at nearby pixels at all noise levels: the 90 % square of energy (squared influence) has a
# side of 1 px at σ = 0.05, 5 px at 0.2, 11 and 12 px at 5 and 13 px at 40, of 32. A Gaussian field with the images' mean, variance and
# correlation, whose denoiser has no reason to be local, looks at 7 px at σ = 0.2 and 25 at 5 and at 40. Exp. 3 is local by construction.
# **It hangs on the word "energy"**: with absolute values in place of squares, our reading until late, the same squares are 15 to 30 px. The
# centers of the maps are bright, the rest is faint but wide.
# **Fig. 12**: the paper's guess names centered subjects and the absence of several nearly independent objects. Our pair of one-object nets
# tests the first only: at σ = 20 the squares are 11 px (centered) and 12 px (anywhere), so centering alone does not delocalize nets of this
# size. On the second, Exp. 1 trained on one object looks farther than on one to three (16 against 11 px at σ = 5).
# **High noise matters**: the share of cells filled goes with locality at high noise, hardly with that at the lowest (the last line
# printed).
# **Few points**: the rank correlation is an illustration; it depends on the rule for K (all are printed). Exp. 1 with normalized
# labels is as local as Exp. 1 (0.56; three trainings: 0.53 to 0.57) and composes less (notebook 05): this number alone does not decide.
# **Missing**: the CIFAR-10 net itself was not run here (`cifar = True` does), only a small random one of the same classes, in the tests.
