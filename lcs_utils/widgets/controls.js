// Native HTML controls, which bring keys, focus and screen-reader output with them. Each carries its name.
// JupyterLab takes keys before they arrive here unless the focused element itself, not a parent, says otherwise.
function make(tag, parent, properties = {}) {
  const element = Object.assign(document.createElement(tag), properties);
  element.dataset.lmSuppressShortcuts = "true";
  return parent.appendChild(element);
}

function labeled(model, el, tag, properties) {
  const label = make("label", el, { className: "lcs-control" });
  make("span", label, { className: "lcs-name", textContent: model.get("description") });
  const input = make(tag, label, properties);
  input.setAttribute("aria-label", model.get("tooltip") || model.get("description"));
  return [input, label];
}

// Announces on the page that the kernel has been asked something (watch.js).
function ask(from) {
  from.dispatchEvent(new CustomEvent("lcs-asked", { bubbles: true }));
}

function put(model, from, values) {
  for (const [name, value] of Object.entries(values)) model.set(name, value);
  model.save_changes();
  ask(from);
}

function slider(model, el) {
  const labels = model.get("labels");
  const range = { type: "range", min: model.get("low"), max: model.get("high"), step: model.get("step") };
  const [input, row] = labeled(model, el, "input", range);
  const stop = make("span", row, { className: "lcs-stop" });
  stop.setAttribute("aria-hidden", "true"); // the slider itself says it
  const said = (at) => labels[at] ?? String(Number(at.toFixed(2)));
  function show() {
    const at = model.get("value");
    input.value = at;
    input.setAttribute("aria-valuetext", said(at));
    stop.textContent = said(at);
  }
  let held = false; // by the pointer: keys make one step at a time
  input.oninput = () => {
    put(model, input, { value: Number(input.value), dragged: held });
    show();
  };
  const drop = () => {
    held = false;
    if (model.get("dragged")) put(model, input, { dragged: false });
  };
  input.onpointerdown = () => (held = true);
  input.onpointerup = input.onpointercancel = input.onchange = input.onblur = drop;
  model.on("change:value", show);
  show();
  return model.get("play") ? player(model, row) : undefined;
}

// Moves the slider by itself, one stop at a time: waits until the kernel has drawn the last one, and stops when the
// kernel is silent.
function player(model, row) {
  const button = make("button", row, { type: "button", className: "lcs-button" });
  let timer = null;
  function show() {
    button.textContent = timer ? "❚❚" : "▶";
    button.setAttribute("aria-label", timer ? "pause" : model.get("play"));
    button.title = button.getAttribute("aria-label");
  }
  function stop() {
    clearInterval(timer);
    timer = null;
    show();
  }
  function advance() {
    const at = model.get("value");
    if (at >= model.get("high")) stop();
    else if (model.get("answered") === at) put(model, button, { value: at + model.get("step") });
  }
  button.onclick = () => {
    if (timer) return stop();
    if (model.get("value") >= model.get("high")) put(model, button, { value: model.get("low") });
    button.closest(".lcs-box")?.addEventListener("lcs-silent", stop, { once: true });
    ask(button); // it may be silent already
    timer = setInterval(advance, model.get("interval"));
    show();
  };
  show();
  return stop;
}

function choice(model, el) {
  const [input] = labeled(model, el, "select", {});
  function fill() {
    input.replaceChildren();
    model.get("options").forEach((name, value) => make("option", input, { value, textContent: name }));
    show();
  }
  const show = () => (input.value = model.get("value"));
  input.onchange = () => put(model, input, { value: Number(input.value) });
  model.on("change:options", fill);
  model.on("change:value", show);
  fill();
}

function number(model, el) {
  const limits = { type: "number", min: model.get("low"), max: model.get("high"), step: 1 };
  const [input] = labeled(model, el, "input", limits);
  const show = () => (input.value = model.get("value"));
  function commit() {
    if (input.value === "" || !input.checkValidity()) return show(); // reject what is not a number within the limits
    if (Number(input.value) !== model.get("value")) put(model, input, { value: Number(input.value) });
  }
  input.onchange = commit;
  input.onkeydown = (event) => event.key === "Enter" && commit(); // JupyterLab keeps "change" from coming then
  model.on("change:value", show);
  show();
}

function button(model, el) {
  const words = { textContent: model.get("description"), title: model.get("tooltip") };
  const input = make("button", el, { type: "button", className: "lcs-button", ...words });
  const show = () => (input.disabled = model.get("disabled"));
  input.onclick = () => put(model, input, { clicks: model.get("clicks") + 1 });
  model.on("change:disabled", show);
  show();
}

function progress(model, el) {
  const [bar, label] = labeled(model, el, "progress", {});
  function show() {
    bar.max = model.get("high");
    bar.value = model.get("value");
    label.style.visibility = model.get("visible") ? "visible" : "hidden";
  }
  model.on("change:value change:high change:visible", show);
  show();
}

function note(model, el) {
  const line = make("div", el, { className: "lcs-control" });
  line.setAttribute("role", "status");
  const show = () => (line.textContent = model.get("description"));
  model.on("change:description", show);
  show();
}

const KINDS = { slider, choice, number, button, progress, note };

function render({ model, el }) {
  return KINDS[model.get("kind")](model, el);
}
export default { render };
