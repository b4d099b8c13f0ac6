// A picture divided into rows x columns places. A click, or Enter at the place under the cursor, reports a place.
// Words beside, above and on it are HTML, so that they keep their size when the picture shrinks.
function render({ model, el }) {
  const canvas = document.createElement("canvas");
  canvas.tabIndex = 0;
  canvas.dataset.lmSuppressShortcuts = "true"; // else JupyterLab takes arrow keys and Enter before they arrive here
  canvas.setAttribute("role", "application");
  canvas.setAttribute("aria-roledescription", "picture with places to choose");
  const part = (className, parent, textContent = "") =>
    parent.appendChild(Object.assign(document.createElement("div"), { className, textContent }));
  const whole = part("lcs-picture", el);
  const corner = part("lcs-corner", whole), above = part("lcs-heads", whole);
  const beside = part("lcs-sides", whole), framed = part("lcs-framed", whole);
  const marks = document.createElement("div");
  marks.setAttribute("aria-hidden", "true"); // `here` says them
  const said = document.createElement("span");
  said.setAttribute("aria-live", "polite");
  said.className = "lcs-hidden";
  framed.append(canvas, said, marks);
  const image = new Image();
  let url = null;

  function draw() {
    const pen = canvas.getContext("2d");
    if (canvas.width !== image.width) {
      canvas.width = image.width;
      whole.style.gridTemplateColumns = `max-content minmax(0, ${image.width}px)`;
    }
    if (canvas.height !== image.height) canvas.height = image.height;
    pen.drawImage(image, 0, 0);
    if (!canvas.matches(":focus-visible")) return;
    const [row, column] = model.get("cursor");
    const width = canvas.width / model.get("columns"), height = canvas.height / model.get("rows");
    for (const [color, dash] of [["white", []], ["black", [3, 3]]]) {
      pen.strokeStyle = color;
      pen.lineWidth = 2;
      pen.setLineDash(dash);
      pen.strokeRect(column * width - 1, row * height - 1, width + 2, height + 2);
    }
  }
  function load() {
    if (url) URL.revokeObjectURL(url);
    url = URL.createObjectURL(new Blob([model.get("png")], { type: "image/png" }));
    image.src = url;
  }
  function choose(row, column) {
    model.set("cursor", [row, column]);
    model.set("chosen", [row, column, model.get("chosen")[2] + 1]);
    model.save_changes();
    canvas.dispatchEvent(new CustomEvent("lcs-asked", { bubbles: true }));
  }
  function words() {
    const heads = model.get("heads"), sides = model.get("sides");
    corner.textContent = model.get("corner");
    above.replaceChildren();
    for (const head of heads) part("", above, head);
    beside.replaceChildren();
    for (const lines of sides) {
      const row = part("", beside);
      for (const [line, bold] of lines) part(bold ? "lcs-bold" : "", row, line);
    }
    above.style.gridTemplateColumns = `repeat(${heads.length || 1}, minmax(0, 1fr))`;
    beside.style.gridTemplateRows = `repeat(${sides.length || 1}, minmax(min-content, 1fr))`;
  }
  function mark() {
    marks.replaceChildren();
    for (const [row, column, text] of model.get("marks")) {
      const at = { left: `${(100 * column) / model.get("columns")}%`, top: `${(100 * row) / model.get("rows")}%` };
      Object.assign(part("lcs-mark", marks, text).style, at);
    }
  }
  function label() {
    canvas.setAttribute("aria-label", model.get("label"));
    queueMicrotask(() => (said.textContent = model.get("status"))); // after `here`, which may come along in any order
  }
  image.onload = draw;
  canvas.onfocus = canvas.onblur = draw;
  canvas.onclick = (event) => {
    const box = canvas.getBoundingClientRect();
    const at = (offset, side, count) => Math.min(count - 1, Math.max(0, Math.floor((offset / side) * count)));
    const row = at(event.clientY - box.top, box.height, model.get("rows"));
    choose(row, at(event.clientX - box.left, box.width, model.get("columns")));
  };
  canvas.onkeydown = (event) => {
    const [row, column] = model.get("cursor");
    const step = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[event.key];
    if (step) {
      const inside = (value, count) => Math.min(count - 1, Math.max(0, value));
      model.set("cursor", [inside(row + step[0], model.get("rows")), inside(column + step[1], model.get("columns"))]);
      model.save_changes();
      draw();
    } else if (event.key === "Enter" || event.key === " ") choose(row, column);
    else return;
    event.preventDefault();
    event.stopPropagation(); // else the notebook moves to another cell
  };
  model.on("change:png", load);
  model.on("change:cursor", draw);
  model.on("change:here", () => canvas.matches(":focus") && (said.textContent = model.get("here")));
  model.on("change:label change:status", label);
  model.on("change:heads change:sides change:corner", words);
  model.on("change:marks", mark);
  label();
  words();
  mark();
  load();
  model.send({ seen: true });
  return () => url && URL.revokeObjectURL(url);
}
export default { render };
