"""Samples of a net, each a function of its condition, seed and number, saved as they come (App. E.2)."""

import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from tqdm.auto import tqdm

from lcs_utils import paths, store
from lcs_utils.checks import check_count
from lcs_utils.diffusion import SDE, Denoiser, karras_sigmas, sample
from lcs_utils.evaluation import family_grids
from lcs_utils.evaluation.rows import STANDARD
from lcs_utils.progress import quiet

BATCH = 8  # samples drawn, and saved, together


def _generator(seed: int, k: int, i: int) -> torch.Generator:
    (state,) = np.random.SeedSequence([seed, k, i]).generate_state(1, np.uint64)
    return torch.Generator().manual_seed(int(state))


@torch.no_grad()
def draw_samples(
    denoise: Denoiser,
    resolution: int,
    k: int,
    n: int,
    seed: int = STANDARD.seed,
    steps: int = STANDARD.steps,
    solver: str = STANDARD.solver,
    batch: int = BATCH,
    family: str = "test",
    first: int = 0,
    cond: Tensor | None = None,
) -> Tensor:
    """Samples `first`..n-1 at k locations, [n-first 3 resolution resolution] in [-1, 1] (App. E.2).

    `cond` [n ...] replaces the family's conditions. A sample is a function of (seed, k, condition) and its
    number: drawing more samples begins with the same ones. The noise that solver SDE adds is each sample's
    own. Raises TypeError for a pipeline in place of its denoiser, ValueError for no sample, and as `sample`.
    """
    if hasattr(denoise, "denoiser"):
        raise TypeError(f"denoise must be a denoiser, got a {type(denoise).__name__}; pass its .denoiser")
    for name, value, low in (("resolution", resolution, 1), ("first", first, 0), ("batch", batch, 1)):
        check_count(name, value, low)
    check_count("n", n, first + 1)
    generator = torch.Generator().manual_seed(1_000_003 * seed + k)
    noise = torch.randn(n, 3, resolution, resolution, generator=generator)[first:]
    cond = (family_grids.grids(family_grids.locations(family, k, n, seed)) if cond is None else cond)[first:]
    sigmas, parts, begins = karras_sigmas(steps), [], range(0, len(noise), batch)
    bar = tqdm(total=steps * len(begins), desc="sampling", unit="step", disable=quiet(), leave=False, delay=2)
    with bar:
        for begin in begins:
            some = slice(begin, begin + batch)
            own = [_generator(seed, k, first + i) for i in range(len(noise))[some]] if solver == SDE else None
            for step in sample(denoise, noise[some], sigmas, cond[some], solver, own):
                bar.update()
            parts.append(step.x_t)
    return torch.cat(parts).clamp(-1, 1)


def samples_path(net: str, preset: str = "tiny", **key) -> Path:
    """Where samples of one net and one K are saved: runs/<preset>/samples, not in the repository."""
    name = "-".join([net.strip("/").replace("/", "_"), *(f"{value}" for _, value in sorted(key.items()))])
    return paths.RUNS / preset / "samples" / f"{name}.npy"


def keep_drawing(
    path: Path,
    denoise: Denoiser,
    resolution: int,
    k: int,
    n: int,
    seed: int,
    steps: int,
    solver: str,
    family: str = "test",
    cond: Tensor | None = None,
) -> Iterator[Tensor]:
    """Yield the first `n` samples of `draw_samples` in batches: first those saved in `path`, then new ones.

    New samples are saved as they come. A file at `path` that cannot be read is drawn again.
    """
    kept = torch.empty(0, 3, resolution, resolution)
    try:
        kept = torch.from_numpy(np.load(path, allow_pickle=False))
    except (OSError, ValueError, EOFError):
        pass
    kept = kept[: len(kept) // BATCH * BATCH] if len(kept) < n else kept
    if len(kept):
        yield kept[:n]
    for first in range(len(kept), n, BATCH):
        last = min(first + BATCH, n)
        asked = None if cond is None else cond[:last]
        new = draw_samples(denoise, resolution, k, last, seed, steps, solver, BATCH, family, first, asked)
        kept = torch.cat([kept, new])
        with store.atomic_path(path) as temporary, open(temporary, "wb") as file:
            np.save(file, kept.numpy(), allow_pickle=False)
        yield kept[first:]


def on(device: str, denoise: Denoiser) -> Denoiser:
    """Wrap `denoise`, whose net is on `device`, to take and return CPU tensors: noise is drawn on the CPU on
    every machine.
    """
    if device == "cpu":
        return denoise
    return lambda x, sigma, cond: denoise(x.to(device), sigma.to(device), cond.to(device)).cpu()


def kept_samples(path: Path) -> int:
    """The number of samples saved in a file; 0 when it cannot be read."""
    try:
        return len(np.load(path, mmap_mode="r", allow_pickle=False))
    except (OSError, ValueError, EOFError):
        return 0


def expected_seconds(denoise: Denoiser, resolution: int, ks, steps: int, solver: str) -> float:
    """Estimated seconds to draw one sample, from one evaluation at the smallest and the largest `ks`."""
    evaluations = 2 * steps - 1 if solver == "heun" else steps
    cost = []
    for k in {min(ks), max(ks)}:
        cond = family_grids.grids(family_grids.locations("test", k, 2))
        with torch.no_grad():
            for _ in range(2):  # the first call allocates
                begun = time.perf_counter()
                denoise(torch.randn(2, 3, resolution, resolution), torch.ones(2), cond)
        cost.append((time.perf_counter() - begun) / 2)
    return sum(cost) / len(cost) * evaluations
