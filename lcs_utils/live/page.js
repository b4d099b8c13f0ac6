// The live page: its controls and what they draw. Without WebAssembly the stored pictures stay.
(function () {
  "use strict";
  const LCS = window.LCS, known = LCS.known, grid = known.grid, files = known.files;
  const MOST = 12; // conditions, as many as the paper asks for
  const SIDE = 320; // of a canvas in its own pixels
  const byId = (name) => document.getElementById(`live-${name}`);
  const words = (count, noun) => `${count} ${noun}${count === 1 ? "" : "s"}`;
  const colors = known.colors; // as the notebooks' condition maps

  function make(tag, parent, properties = {}) {
    return parent.appendChild(Object.assign(document.createElement(tag), properties));
  }

  // ---- drawing -------------------------------------------------------------------------------------------

  function paint(canvas, side, color) {
    const small = document.createElement("canvas");
    small.width = small.height = side;
    const pixels = new ImageData(side, side);
    for (let i = 0; i < side * side; i++) pixels.data.set([...color(i), 255], 4 * i);
    small.getContext("2d").putImageData(pixels, 0, 0);
    const pen = canvas.getContext("2d");
    pen.imageSmoothingEnabled = false;
    pen.drawImage(small, 0, 0, SIDE, SIDE);
  }

  const byte = (value) => Math.round((Math.min(1, Math.max(-1, value)) + 1) * 127.5);
  const paintImage = (canvas, image, side) =>
    paint(canvas, side, (i) => [0, 1, 2].map((c) => byte(image[c * side * side + i])));

  function ring(canvas, cell, color, radius = 5) {
    const pen = canvas.getContext("2d"), unit = SIDE / grid;
    pen.beginPath();
    pen.arc(((cell % grid) + 0.5) * unit, (Math.floor(cell / grid) + 0.5) * unit, radius, 0, 2 * Math.PI);
    pen.lineWidth = 4;
    pen.strokeStyle = "black";
    pen.stroke();
    pen.lineWidth = 2;
    pen.strokeStyle = color;
    pen.stroke();
  }

  // A disc whose filled part is the condition's share.
  function disc(canvas, cell, color, share) {
    const pen = canvas.getContext("2d"), unit = SIDE / grid, radius = 0.9 * unit;
    const x = ((cell % grid) + 0.5) * unit, y = (Math.floor(cell / grid) + 0.5) * unit;
    pen.fillStyle = "rgba(0, 0, 0, 0.65)";
    pen.beginPath();
    pen.arc(x, y, radius, 0, 2 * Math.PI);
    pen.fill();
    pen.fillStyle = color;
    pen.beginPath();
    pen.moveTo(x, y);
    pen.arc(x, y, radius, -Math.PI / 2, -Math.PI / 2 + 2 * Math.PI * share);
    pen.fill();
    pen.lineWidth = 2;
    pen.strokeStyle = color;
    pen.beginPath();
    pen.arc(x, y, radius, 0, 2 * Math.PI);
    pen.stroke();
  }

  // ---- the grid of conditions ----------------------------------------------------------------------------

  const asked = new Set(known.start.cells);
  const board = byId("grid"), askedText = byId("asked");
  let cursor = known.start.cells[0];

  function drawBoard() {
    const pen = board.getContext("2d"), unit = SIDE / grid;
    pen.fillStyle = "#808080"; // the floor of the scenes
    pen.fillRect(0, 0, SIDE, SIDE);
    pen.strokeStyle = "rgba(255, 255, 255, 0.25)";
    pen.lineWidth = 1;
    for (let i = 0; i <= grid; i++) {
      for (const [x, y, w, h] of [[i * unit, 0, 0, SIDE], [0, i * unit, SIDE, 0]]) pen.strokeRect(x, y, w, h);
    }
    for (const cell of asked) {
      pen.fillStyle = "#0b0b0b";
      pen.fillRect((cell % grid) * unit + 1, Math.floor(cell / grid) * unit + 1, unit - 2, unit - 2);
      ring(board, cell, "white");
    }
    if (!board.matches(":focus-visible")) return;
    for (const [color, width] of [["black", 5], ["#f0e442", 3]]) {
      pen.strokeStyle = color;
      pen.lineWidth = width;
      pen.strokeRect((cursor % grid) * unit, Math.floor(cursor / grid) * unit, unit, unit);
    }
  }

  function say(text) {
    askedText.textContent = text;
  }
  const sayAsked = (before = "") => say(`${before}${words(asked.size, "location")} asked for, of at most ${MOST}.`);

  function toggle(cell) {
    cursor = cell;
    if (asked.has(cell)) asked.delete(cell);
    else if (asked.size < MOST) asked.add(cell);
    else return say(`${MOST} locations are the most; take one away first.`), drawBoard();
    const place = `Row ${Math.floor(cell / grid) + 1}, column ${(cell % grid) + 1} ${asked.has(cell) ? "on" : "off"}. `;
    sayAsked(place);
    drawBoard();
  }

  board.onclick = (event) => {
    const box = board.getBoundingClientRect();
    const at = (offset, side) => Math.min(grid - 1, Math.max(0, Math.floor((offset / side) * grid)));
    toggle(at(event.clientY - box.top, box.height) * grid + at(event.clientX - box.left, box.width));
  };
  board.onfocus = board.onblur = drawBoard;
  board.onkeydown = (event) => {
    const step = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[event.key];
    if (step) {
      const moved = (value, by) => Math.min(grid - 1, Math.max(0, value + by));
      cursor = moved(Math.floor(cursor / grid), step[0]) * grid + moved(cursor % grid, step[1]);
      const state = asked.has(cursor) ? "on" : "off";
      say(`Row ${Math.floor(cursor / grid) + 1}, column ${(cursor % grid) + 1}, ${state}.`);
      drawBoard();
    } else if (event.key === "Enter" || event.key === " ") toggle(cursor);
    else return;
    event.preventDefault();
  };
  for (const button of document.querySelectorAll("[data-locations]")) {
    button.onclick = () => {
      asked.clear();
      for (const cell of known.locations.slice(0, Number(button.dataset.locations))) asked.add(cell);
      sayAsked();
      drawBoard();
    };
  }

  // ---- sampling ------------------------------------------------------------------------------------------

  const go = byId("go"), stop = byId("stop"), status = byId("status"), seedInput = byId("seed");
  let stopped = false;

  const panels = known.nets.map((net) => {
    const figure = byId(`net-${net.key}`), stored = figure.querySelector("img");
    const canvas = make("canvas", document.createElement("div"), { width: SIDE, height: SIDE });
    canvas.setAttribute("role", "img");
    canvas.setAttribute("aria-label", stored.alt);
    stored.replaceWith(canvas);
    const image = new Image();
    image.onload = () => {
      canvas.getContext("2d").imageSmoothingEnabled = false;
      canvas.getContext("2d").drawImage(image, 0, 0, SIDE, SIDE);
      for (const cell of known.start.cells) ring(canvas, cell, "white", 4);
    };
    image.src = stored.src;
    return { net, canvas, bar: figure.querySelector("progress"), note: figure.querySelector("[data-note]") };
  });

  const loaded = (name) => LCS.session(files, name);
  const seconds = (milliseconds) => `${Math.max(1, Math.round(milliseconds / 1000))} s`;

  function seed() {
    const value = Number(seedInput.value);
    return seedInput.value !== "" && seedInput.checkValidity() && Number.isInteger(value) ? value : null;
  }

  // One net's sample of `cells` from `noise`, drawn step by step; null when it was stopped.
  async function draw({ net, canvas, bar, note }, cells, number) {
    const session = await loaded(net.key), side = net.resolution, local = net.radius !== null;
    const cond = new Float32Array(grid * grid);
    for (const cell of cells) cond[cell] = 1;
    const began = performance.now();
    let step = 0;
    bar.hidden = false;
    bar.value = 0;
    const tell = (share) => {
      const left = ((performance.now() - began) / share) * (1 - share);
      bar.value = share;
      note.textContent = `step ${Math.min(step + 1, known.steps)} of ${known.steps}` + (local ? `, about ${seconds(left)} left` : "");
    };
    const part = (done, of) => (tell((step + done / of) / known.steps), !stopped);
    const seen = (mean) => {
      step += 1;
      tell(step / known.steps);
      paintImage(canvas, mean, side);
      return !stopped;
    };
    const denoise = LCS.denoiser(session, net, grid, cond, part);
    const noise = LCS.normal(number, 3 * side * side);
    const image = await LCS.sample(denoise, noise, LCS.sigmas(known.steps), seen);
    bar.hidden = true;
    if (!image) return null;
    const clipped = image.map((value) => Math.min(1, Math.max(-1, value)));
    const took = performance.now() - began;
    paintImage(canvas, clipped, side);
    for (const cell of cells) ring(canvas, cell, "white", 4);
    const count = Math.round(await LCS.count(await loaded("counter"), clipped, side));
    const found = `asked for ${cells.length}, counted ${count}`;
    canvas.setAttribute("aria-label", `${net.title}, ${net.told}, seed ${number}: ${found}`);
    note.textContent = `${found} (live, seed ${number}, ${(took / 1000).toFixed(1)} s)`;
    return { image: clipped, count, seconds: took / 1000 };
  }

  // Samples of all nets, from the same noise where their images have the same size.
  LCS.draw = async function (cells, number) {
    const found = {};
    for (const panel of panels) {
      status.textContent = `${panel.net.title} is drawing.`;
      const drawn = await draw(panel, cells, number);
      if (!drawn) return null;
      found[panel.net.key] = drawn;
    }
    return found;
  };

  function sampled(found, cells) {
    if (!found) return "Stopped.";
    const counts = panels.map(({ net }) => `${net.title} ${found[net.key].count}`).join(", ");
    return `Done. Asked for ${cells.length}; the counter finds: ${counts}.`;
  }

  async function busy(task) {
    go.disabled = answer.disabled = true;
    try {
      return await task();
    } catch (error) {
      console.error(error);
      status.textContent = `That failed: ${error.message}.`;
    } finally {
      go.disabled = answer.disabled = false;
      stop.disabled = true;
      for (const { bar } of panels) bar.hidden = true;
    }
  }

  go.onclick = () =>
    busy(async () => {
      const number = seed(), cells = [...asked].sort((a, b) => a - b);
      if (number === null) return (status.textContent = "The seed is a whole number from 0 to 2147483647.");
      stopped = false;
      stop.disabled = false;
      status.textContent = "Loading the nets.";
      await load();
      const before = panels.map(({ note }) => note.textContent);
      for (const { note } of panels) note.textContent = "waiting";
      let found = null;
      try {
        found = await LCS.draw(cells, number);
      } finally {
        if (!found) {
          // a net that was not begun keeps its picture, and what was said of it
          panels.forEach(({ note }, i) => {
            if (note.textContent === "waiting") note.textContent = before[i];
            else if (note.textContent.startsWith("step")) note.textContent = "stopped";
          });
        }
      }
      status.textContent = sampled(found, cells);
      LCS.drawn = found; // the numbers behind the pictures, for the console
      await slide(); // the loaded nets can now answer there, too
    });
  stop.onclick = () => (stopped = true);

  let ready = false;
  async function load() {
    for (const name of [...known.nets.map((net) => net.key), "counter"]) await loaded(name);
    if (ready) return;
    ready = true;
    answer.hidden = true;
    byId("loads").textContent = "The nets are loaded.";
  }

  // ---- sliding the noise ---------------------------------------------------------------------------------

  const scene = known.scene, side = scene.resolution, slider = byId("sigma"), stopText = byId("sigma-value");
  const answer = byId("answer"), summary = byId("summary");
  const bytes = (text) => Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  const pixels = bytes(scene.pixels), noise = LCS.normal(scene.seed, 3 * side * side);
  const clean = Float32Array.from({ length: 3 * side * side }, (_, i) => {
    const c = Math.floor(i / (side * side));
    return Math.fround(pixels[(i % (side * side)) * 3 + c] / 127.5) - 1;
  });
  const maps = Object.fromEntries(known.nets.map((net) => [net.key, bytes(known.looked[net.key].pixels)]));
  const views = known.nets.map((net) => {
    const box = byId(`looks-${net.key}`), [conditions, pixelMap] = box.querySelectorAll("canvas");
    return { net, conditions, pixelMap, notes: box.querySelectorAll("[data-note]") };
  });
  const noisyCanvas = byId("noisy"), answers = new Map();
  let level = Number(slider.value), target = 0;

  const noisy = (at) => clean.map((value, i) => value + Math.fround(scene.sigmas[at] * noise[i]));
  // inferno at five places, straight lines between: dark for nothing, bright for much
  const INFERNO = [[0, 0, 4], [87, 16, 110], [188, 55, 84], [249, 142, 9], [252, 255, 164]];
  function heat(share) {
    const at = Math.min(3.9999, share * 4), low = Math.floor(at);
    return INFERNO[low].map((value, c) => value + (at - low) * (INFERNO[low + 1][c] - value));
  }

  function square(canvas, [row, column], window) {
    const pen = canvas.getContext("2d"), unit = SIDE / side, reach = Math.floor(window / 2);
    const box = (r) => [(column - r) * unit, (row - r) * unit, (2 * r + 1) * unit, (2 * r + 1) * unit];
    pen.lineWidth = 2;
    pen.strokeStyle = "#56b4e9";
    pen.strokeRect(...box(reach));
    pen.strokeStyle = "white";
    pen.strokeRect(...box(0));
  }

  // Eq. (10) of a net at the target, computed live; loads the net if necessary.
  LCS.listens = async (key, at, which) =>
    LCS.heard(await loaded(key), known.nets.find((net) => net.key === key), grid, noisy(at), scene.sigmas[at], scene.cells, scene.targets[which]);

  const percent = (share) => `${Math.round(100 * share)} %`;

  function show(view, heard, live) {
    const { net, conditions, pixelMap, notes } = view, looked = known.looked[net.key];
    const total = heard.reduce((sum, value) => sum + value, 0);
    const share = heard.map((value) => (total > 0 ? value / total : 0));
    const own = share[target], alike = 1 / share.length;
    paint(conditions, side, (i) => {
      const gray = 0.3 * pixels[3 * i] + 0.59 * pixels[3 * i + 1] + 0.11 * pixels[3 * i + 2];
      return [gray, gray, gray];
    });
    scene.cells.forEach((cell, k) => disc(conditions, cell, colors[k], share[k]));
    ring(conditions, scene.cells[target], "white", 19);
    const first = (level * scene.cells.length + target) * side * side;
    paint(pixelMap, side, (i) => heat(maps[net.key][first + i] / 255));
    const window = looked.windows[level][target];
    square(pixelMap, scene.targets[target], window);
    notes[0].textContent = `${percent(own)} from its own condition (alike: ${percent(alike)}), ${live ? "live" : "stored"}`;
    notes[1].textContent = `90 % within ${window} px`;
    const list = share.map((value, k) => `object ${k + 1} ${percent(value)}`).join(", ");
    conditions.setAttribute("aria-label", `${net.title}: share of each condition: ${list}`);
    pixelMap.setAttribute("aria-label", `${net.title}: pixel influence, 90 % in a square of ${window} pixels`);
    return `${net.title} ${percent(own)}`;
  }

  let asking = 0;
  async function slide() {
    const mine = ++asking, sigma = scene.sigmas[level];
    slider.setAttribute("aria-valuetext", `sigma ${sigma}`);
    stopText.textContent = sigma;
    const x = noisy(level), size = Math.sqrt(1 + sigma * sigma);
    paintImage(noisyCanvas, x.map((value) => value / size), side);
    ring(noisyCanvas, scene.cells[target], "white", 12);
    noisyCanvas.setAttribute("aria-label", `the image with noise of sigma ${sigma}`);
    const said = [];
    for (const view of views) said.push(show(view, known.looked[view.net.key].heard[level][target], false));
    for (const [i, view] of views.entries()) {
      if (!ready) break;
      const name = [view.net.key, level, target].join();
      if (!answers.has(name)) {
        const heard = await LCS.listens(view.net.key, level, target);
        answers.set(name, heard);
      }
      if (mine !== asking) return; // the slider has moved on
      said[i] = show(view, answers.get(name), true);
    }
    summary.textContent = `Noise ${sigma}, object ${target + 1}: from its own condition ${said.join(", ")}.`;
  }
  slider.oninput = () => {
    level = Number(slider.value);
    slide();
  };
  for (const choice of document.querySelectorAll("input[name=live-target]")) {
    choice.onchange = () => {
      target = Number(choice.value);
      slide();
    };
  }
  answer.onclick = () =>
    busy(async () => {
      status.textContent = "Loading the nets.";
      await load();
      status.textContent = "The nets are loaded and answer.";
      await slide();
    });

  // ---- start ---------------------------------------------------------------------------------------------

  const obstacle = files ? LCS.obstacle() : known.why;
  for (const element of document.querySelectorAll(".live-needs-script")) element.hidden = false;
  for (const element of document.querySelectorAll(".live-needs-nets")) element.hidden = Boolean(obstacle);
  if (obstacle) status.textContent = `The nets do not run here (${obstacle}); these are stored pictures.`;
  else sayAsked();
  drawBoard();
  slide();
})();
