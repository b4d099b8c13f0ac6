// A picture divided into rows x columns places. A click, or Enter at the place that the arrow keys chose, reports it.
function render({ model, el }) {
  const canvas = document.createElement("canvas");
  canvas.tabIndex = 0;
  canvas.dataset.lmSuppressShortcuts = "true"; // else JupyterLab takes arrow keys and Enter before they arrive here
  canvas.setAttribute("role", "application");
  canvas.setAttribute("aria-roledescription", "picture with places to choose");
  const look = { display: "block", maxWidth: "100%", height: "auto", imageRendering: "pixelated", cursor: "crosshair" };
  Object.assign(canvas.style, look);
  const said = document.createElement("span");
  said.setAttribute("aria-live", "polite");
  const hidden = { position: "absolute", width: "1px", height: "1px", overflow: "hidden", clipPath: "inset(50%)" };
  Object.assign(said.style, hidden);
  el.append(canvas, said);
  const image = new Image();
  let url = null;

  function draw() {
    const pen = canvas.getContext("2d");
    if (canvas.width !== image.width) canvas.width = image.width;
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
  }
  function label() {
    canvas.setAttribute("aria-label", model.get("label"));
    said.textContent = model.get("status");
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
  label();
  load();
  model.send({ seen: true });
  return () => url && URL.revokeObjectURL(url);
}
export default { render };
