// A range input over pictures that are already loaded: it moves at once, with or without a kernel.
function render({ model, el }) {
  const description = model.get("description"), labels = model.get("labels");
  const urls = model.get("frames").map((png) => URL.createObjectURL(new Blob([png], { type: "image/png" })));
  const row = document.createElement("label");
  const name = document.createElement("span"), input = document.createElement("input");
  const stop = document.createElement("output"), picture = document.createElement("img");
  const line = { display: "flex", alignItems: "center", gap: "0.7em", maxWidth: "34em", margin: "0.3em 0" };
  Object.assign(row.style, line, { fontSize: "var(--jp-ui-font-size1, 13px)" });
  Object.assign(stop.style, { minWidth: "4em", fontVariantNumeric: "tabular-nums" });
  Object.assign(picture.style, { display: "block", maxWidth: "100%" });
  Object.assign(input, { type: "range", min: 0, max: labels.length - 1, step: 1 });
  input.style.flex = "1";
  input.setAttribute("aria-label", description);
  stop.setAttribute("aria-live", "off"); // the slider itself says it
  name.textContent = description;
  row.append(name, input, stop);
  el.append(row, picture);
  input.dataset.lmSuppressShortcuts = "true"; // JupyterLab has its own use for arrow keys; it asks the focused element

  function show() {
    const at = model.get("shown");
    input.value = at;
    input.setAttribute("aria-valuetext", labels[at]);
    stop.textContent = labels[at];
    picture.src = urls[at];
    picture.alt = `${description}: ${labels[at]}`;
  }
  function move() {
    model.set("shown", Number(input.value));
    show();
    model.save_changes();
  }
  input.addEventListener("input", move);
  model.on("change:shown", show);
  show();
  return () => urls.forEach((url) => URL.revokeObjectURL(url));
}
export default { render };
