// One picture at a time, without its origin; a key or a click says how many objects it shows.
function render({ model, el }) {
  function make(tag, parent, properties = {}) {
    const element = Object.assign(document.createElement(tag), properties);
    element.dataset.lmSuppressShortcuts = "true"; // else JupyterLab inserts a cell at "a", deletes one at "d d", ...
    return parent.appendChild(element);
  }
  const box = make("div", el, { tabIndex: 0, role: "group", className: "lcs-count" });
  const help = "Count the objects: press 0 to 9, a to e for 10 to 14, or a button; ? marks an image that looks wrong";
  box.setAttribute("aria-label", help);
  const progress = make("div", box);
  progress.setAttribute("aria-live", "polite");
  make("div", box, { className: "lcs-hint", textContent: "keys: 0-9, a-e for 10-14, ? for not plausible, Backspace" });
  const image = make("img", box);
  Object.assign(image.style, { maxWidth: "100%", display: "block", margin: "4px 0" });
  const bar = make("div", box, { className: "lcs-keys" });
  const buttons = [];
  const line = watched_line(box);
  const end = watch(model, box, line);
  const ask = () => box.dispatchEvent(new CustomEvent("lcs-asked"));
  let doubtful = false;
  let url = null;

  function answer(count) {
    if (model.get("position") >= model.get("total")) return;
    model.set("answer", [model.get("position"), count, doubtful ? 0 : 1]);
    model.save_changes();
    ask();
    box.focus({ preventScroll: true }); // a pressed button would take the keys with it when disabled
  }
  function doubt(value) {
    doubtful = value;
    question.setAttribute("aria-pressed", String(value));
  }
  function back() {
    model.set("back", model.get("back") + 1);
    model.save_changes();
    ask();
  }
  const looks = { type: "button", className: "lcs-button" };
  const press = (textContent, onclick) => make("button", bar, { ...looks, textContent, onclick });
  for (let n = 0; n <= 14; n++) {
    buttons.push(press(String(n), () => answer(n)));
    buttons[n].setAttribute("aria-label", n === 1 ? "1 object" : `${n} objects`);
  }
  const question = press("? not plausible", () => doubt(!doubtful));
  press("back", back);
  box.onkeydown = (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (/^[0-9]$/.test(event.key)) answer(Number(event.key));
    else if (/^[a-e]$/.test(event.key)) answer(10 + event.key.charCodeAt(0) - 97); // a..e are 10..14
    else if (event.key === "?") doubt(!doubtful);
    else if (event.key === "Backspace") back();
    else return;
    event.preventDefault();
    event.stopPropagation();
  };
  function show() {
    const [position, total] = [model.get("position"), model.get("total")];
    progress.textContent = position < total ? `${position + 1} of ${total}` : `all ${total} counted`;
    if (url) URL.revokeObjectURL(url);
    url = URL.createObjectURL(new Blob([model.get("png")], { type: "image/png" }));
    image.style.visibility = position < total ? "visible" : "hidden";
    image.src = url;
    image.alt = `sample ${position + 1}`;
    for (const button of [...buttons, question]) button.disabled = position >= total;
    doubt(false);
  }
  model.on("change:position", show);
  show();
  return () => {
    end();
    if (url) URL.revokeObjectURL(url);
  };
}
export default { render };
