// Standard normal noise from a seed: the same numbers as lcs_utils/live/noise.py, by the same hash.
(function () {
  "use strict";
  const LCS = (window.LCS = window.LCS || {});

  // A bijection of 32-bit words whose outputs look random (Wellons' lowbias32).
  function mixed(bits) {
    bits ^= bits >>> 16;
    bits = Math.imul(bits, 0x7feb352d);
    bits ^= bits >>> 15;
    bits = Math.imul(bits, 0x846ca68b);
    return (bits ^ (bits >>> 16)) >>> 0;
  }

  // `count` numbers: the i-th is Box and Muller's cosine of the i-th pair of uniform numbers.
  LCS.normal = function (seed, count) {
    const key = mixed(seed ^ 0x9e3779b9);
    const uniform = (j) => (mixed(mixed((j + key) | 0) ^ key) + 0.5) / 2 ** 32;
    const drawn = new Float32Array(count);
    for (let i = 0; i < count; i++) {
      drawn[i] = Math.sqrt(-2 * Math.log(uniform(2 * i))) * Math.cos(2 * Math.PI * uniform(2 * i + 1));
    }
    return drawn;
  };
})();
