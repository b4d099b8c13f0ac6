"""How far a local score must look (Def. 1): the error of a window of pixels, the smallest sufficient one."""

import torch

from lcs_utils.theory.checks import check_number, shown
from lcs_utils.theory.distributions import Distribution, check_distribution
from lcs_utils.theory.lcs_alternatives import window_subsets

OF = ("score", "denoiser")


def window_error(p: Distribution, sigma: float, radius: int, of: str = "denoiser") -> float:
    """Share of a Gaussian p's score or denoiser that N_i = [i - radius, i + radius] misses (Def. 1).

    E ||s_local - s||^2 / E ||s||^2 or, `of` the denoiser, E ||D_local - D||^2 / E ||D - E x||^2 under p_t, in
    closed form, for pixels on a line; sigma > 0. Both miss the same, sigma^2 apart, but of different wholes:
    at high noise s is nearly -(x - E x) / sigma^2, for which a pixel needs itself alone. Raises ValueError
    for a mixture and another `of`.
    """
    if of not in OF:
        raise ValueError(f"of must be one of {OF}, got {shown(of)}")
    if not check_distribution("p", p).is_gaussian:
        raise ValueError("window_error is in closed form for one Gaussian, got a mixture")
    check_number("sigma", sigma, 0, 1e40, above=True)
    cov, noisy = p.cov, p.noised(sigma).cov
    target = cov if of == "denoiser" else torch.eye(p.n, dtype=torch.float64)
    exact, local = target @ torch.linalg.inv(noisy), torch.zeros_like(cov)
    for i, N in enumerate(window_subsets(p.n, radius).N):
        near = list(N)
        local[i, near] = torch.linalg.solve(noisy[near][:, near], target[near, i])
    gap = local - exact
    return float(torch.trace(gap @ noisy @ gap.T) / torch.trace(exact @ noisy @ exact.T))


def smallest_window(p: Distribution, sigma: float, tolerance: float = 0.01, of: str = "denoiser") -> int:
    """Smallest radius with `window_error` <= `tolerance` in (0, 1): N_i that change with t (Def. 1)."""
    check_distribution("p", p)
    check_number("tolerance", tolerance, 0, 1, above=True)
    return next(r for r in range(p.n) if window_error(p, sigma, r, of) <= tolerance or r == p.n - 1)
