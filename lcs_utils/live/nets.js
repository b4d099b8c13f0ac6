// Our nets in onnxruntime-web: unpacked from the scripts next to this page, one thread, nothing fetched.
(function () {
  "use strict";
  const LCS = (window.LCS = window.LCS || {});
  const packed = {}; // name -> base64 of a gzipped file; each data script puts one here
  const scripts = {}, sessions = {};
  let runtime = null;
  const CELLS_AT_ONCE = 32; // patches in one pass: the page answers in between

  LCS.put = (name, text) => (packed[name] = text);

  // Null if the nets can run here, else the reason why not.
  LCS.obstacle = function () {
    if (typeof WebAssembly !== "object") return "this browser has no WebAssembly";
    if (typeof DecompressionStream !== "function") return "this browser cannot unpack gzip (DecompressionStream)";
    return null;
  };

  // Run the data script beside this page, once; a <script> works from the file system, where fetch does not.
  function script(place) {
    scripts[place] ??= new Promise((resolve, reject) => {
      const element = document.createElement("script");
      element.src = place;
      element.onload = resolve;
      element.onerror = () => {
        delete scripts[place];
        reject(new Error(`${place} could not be loaded`));
      };
      document.head.append(element);
    });
    return scripts[place];
  }

  async function unpacked(file) {
    await script(file.place);
    const bytes = Uint8Array.from(atob(packed[file.name]), (letter) => letter.charCodeAt(0));
    delete packed[file.name]; // megabytes of text are not needed twice
    delete scripts[file.place]; // after a failure further on they are read again
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
    return new Uint8Array(await new Response(stream).arrayBuffer());
  }

  async function start(files) {
    const source = await unpacked(files.script), binary = await unpacked(files.binary);
    const address = URL.createObjectURL(new Blob([source], { type: "text/javascript" }));
    const ort = await import(address);
    ort.env.wasm.numThreads = 1; // more would need headers that a file system does not send
    ort.env.wasm.wasmBinary = binary;
    ort.env.logLevel = "error";
    return ort;
  }

  async function open(files, name) {
    runtime ??= start(files).catch((error) => {
      runtime = null; // so that it can be tried again
      throw error;
    });
    const ort = await runtime;
    return ort.InferenceSession.create(await unpacked(files[name]), { executionProviders: ["wasm"] });
  }

  // The session of a net or of the counter; `files` says where its parts are.
  LCS.session = function (files, name) {
    sessions[name] ??= open(files, name).catch((error) => {
      delete sessions[name];
      throw error;
    });
    return sessions[name];
  };

  // One pass at a time, in the order in which they were asked for: a session cannot run twice at once. Between
  // passes the page may draw and take clicks.
  let last = Promise.resolve();
  function run(session, inputs) {
    const pass = async () => {
      await new Promise((resolve) => setTimeout(resolve));
      const ort = await runtime, tensors = {};
      for (const [name, [values, shape]] of Object.entries(inputs)) {
        tensors[name] = new ort.Tensor("float32", values, shape);
      }
      return (await session.run(tensors)).y.data;
    };
    const done = last.then(pass);
    last = done.catch(() => {});
    return done;
  }

  // The counter's expected number of objects in one image [3 side side].
  LCS.count = async (session, image, side) => (await run(session, { x: [image, [1, 3, side, side]] }))[0];

  // D(x, sigma, cond) of a whole-image net, for one x [3 side side] and each of `conds` [cells].
  LCS.whole = async function (session, net, x, sigma, conds) {
    const n = conds.length, side = net.resolution, xs = new Float32Array(n * x.length);
    const grids = new Float32Array(n * conds[0].length);
    conds.forEach((cond, i) => {
      xs.set(x, i * x.length);
      grids.set(cond, i * cond.length);
    });
    const y = await run(session, {
      x: [xs, [n, 3, side, side]],
      sigma: [new Float32Array(n).fill(sigma), [n]],
      cond: [grids, [n, conds[0].length]],
    });
    return conds.map((_, i) => y.slice(i * x.length, (i + 1) * x.length));
  };

  // Inputs of a local net for `cells` (row * grid + column): patches of (2r+1)^2 cells with 0 outside the
  // image, their counts, the cell's place in [-1, 1], and which pixels are inside (App. E.3).
  function patches(net, grid, x, cells, cond) {
    const side = net.resolution, m = side / grid, r = net.radius, wide = 2 * r + 1, p = wide * m;
    const size = wide * wide + 2, n = cells.length;
    const out = {
      x: [new Float32Array(n * 3 * p * p), [n, 3, p, p]],
      cond: [new Float32Array(n * size), [n, size]],
      valid: [new Float32Array(n * p * p), [n, 1, p, p]],
    };
    cells.forEach((cell, i) => {
      const row = Math.floor(cell / grid), column = cell % grid;
      for (let dy = 0; dy < p; dy++) {
        for (let dx = 0; dx < p; dx++) {
          const y = (row - r) * m + dy, at = (column - r) * m + dx;
          if (y < 0 || y >= side || at < 0 || at >= side) continue;
          out.valid[0][i * p * p + dy * p + dx] = 1;
          for (let c = 0; c < 3; c++) out.x[0][((i * 3 + c) * p + dy) * p + dx] = x[(c * side + y) * side + at];
        }
      }
      for (let dy = -r; dy <= r; dy++) {
        for (let dx = -r; dx <= r; dx++) {
          const y = row + dy, at = column + dx;
          const inside = y >= 0 && y < grid && at >= 0 && at < grid;
          out.cond[0][i * size + (dy + r) * wide + dx + r] = inside ? cond[y * grid + at] : 0;
        }
      }
      out.cond[0][i * size + size - 2] = (column + 0.5) * (2 / grid) - 1;
      out.cond[0][i * size + size - 1] = (row + 0.5) * (2 / grid) - 1;
    });
    return out;
  }

  // D of a local net in `cells`, written into `into` [3 side side]: the central cell of every patch.
  LCS.local = async function (session, net, grid, x, sigma, cond, cells, into) {
    const side = net.resolution, m = side / grid, p = (2 * net.radius + 1) * m, from = net.radius * m;
    const inputs = patches(net, grid, x, cells, cond);
    const y = await run(session, { ...inputs, sigma: [new Float32Array(cells.length).fill(sigma), [cells.length]] });
    cells.forEach((cell, i) => {
      const top = Math.floor(cell / grid) * m, left = (cell % grid) * m;
      for (let c = 0; c < 3; c++) {
        for (let dy = 0; dy < m; dy++) {
          for (let dx = 0; dx < m; dx++) {
            into[(c * side + top + dy) * side + left + dx] = y[((i * 3 + c) * p + from + dy) * p + from + dx];
          }
        }
      }
    });
  };

  // denoise(x, sigma) for the sampler. A local net goes through all cells in parts; `part(done, of)` is called
  // after each part and may stop by returning false.
  LCS.denoiser = function (session, net, grid, cond, part) {
    if (net.radius === null) return async (x, sigma) => (await LCS.whole(session, net, x, sigma, [cond]))[0];
    return async (x, sigma) => {
      const into = new Float32Array(x.length), all = grid * grid;
      for (let first = 0; first < all; first += CELLS_AT_ONCE) {
        const cells = Array.from({ length: Math.min(CELLS_AT_ONCE, all - first) }, (_, i) => first + i);
        await LCS.local(session, net, grid, x, sigma, cond, cells, into);
        if ((await part(first + cells.length, all)) === false) return null;
      }
      return into;
    };
  };

  // Eq. (10) at one pixel: how much D there changes when each of the active `cells` is taken away.
  LCS.heard = async function (session, net, grid, x, sigma, cells, [row, column]) {
    const conds = [null, ...cells].map((gone) => {
      const cond = new Float32Array(grid * grid);
      for (const cell of cells) if (cell !== gone) cond[cell] = 1;
      return cond;
    });
    let means;
    if (net.radius === null) {
      means = await LCS.whole(session, net, x, sigma, conds);
    } else {
      const m = net.resolution / grid, cell = Math.floor(row / m) * grid + Math.floor(column / m);
      means = [];
      for (const cond of conds) {
        const into = new Float32Array(x.length);
        await LCS.local(session, net, grid, x, sigma, cond, [cell], into);
        means.push(into);
      }
    }
    const side = net.resolution, at = (c) => (c * side + row) * side + column;
    return means.slice(1).map((mean) => Math.hypot(...[0, 1, 2].map((c) => mean[at(c)] - means[0][at(c)])));
  };
})();
