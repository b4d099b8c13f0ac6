// The sampler of lcs_utils/diffusion.py: EDM's noise levels and DPM-Solver++(2M), one evaluation a step.
(function () {
  "use strict";
  const LCS = (window.LCS = window.LCS || {});
  const SIGMA_MIN = 0.002, SIGMA_MAX = 80, RHO = 7; // EDM (Karras et al. 2022, Table 1)

  // `steps` noise levels from SIGMA_MAX down to SIGMA_MIN, evenly spaced in sigma^(1/RHO), then 0.
  LCS.sigmas = function (steps) {
    const high = SIGMA_MAX ** (1 / RHO), low = SIGMA_MIN ** (1 / RHO);
    const levels = [];
    for (let i = 0; i < steps; i++) levels.push((high + (steps > 1 ? i / (steps - 1) : 0) * (low - high)) ** RHO);
    return [...levels, 0];
  };

  // Sample from unit `noise` down `levels`; `denoise(x, sigma)` resolves to the posterior mean. After every step
  // `seen(x0_hat, step, of)` is called and may stop the sampler by returning false; then the result is null.
  LCS.sample = async function (denoise, noise, levels, seen) {
    let x = noise.map((value) => Math.fround(value * levels[0]));
    let previous = null;
    for (let i = 0; i + 1 < levels.length; i++) {
      const sigma = levels[i], following = levels[i + 1];
      const mean = await denoise(x, sigma);
      if (!mean) return null;
      if (following === 0) {
        x = mean; // the exact jump to the posterior mean
      } else {
        // dx/dh = D in h = -ln sigma after division by sigma: extrapolate D linearly to the step's middle
        const ratio = previous ? Math.log(levels[i - 1] / sigma) / Math.log(sigma / following) : 0;
        const kept = following / sigma, moved = new Float32Array(x.length);
        for (let j = 0; j < x.length; j++) {
          const middle = previous ? mean[j] + (mean[j] - previous[j]) / (2 * ratio) : mean[j];
          moved[j] = kept * x[j] + (1 - kept) * middle;
        }
        x = moved;
        previous = mean;
      }
      if ((await seen(mean, i + 1, levels.length - 1)) === false) return null;
    }
    return x;
  };
})();
