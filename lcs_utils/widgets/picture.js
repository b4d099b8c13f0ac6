// A picture with its alternative text.
function render({ model, el }) {
  const image = el.appendChild(document.createElement("img"));
  image.className = "lcs-image";
  let url = null;
  function show() {
    const last = url;
    url = URL.createObjectURL(new Blob([model.get("value")], { type: "image/png" }));
    image.src = url;
    image.alt = model.get("alt");
    if (last) URL.revokeObjectURL(last);
  }
  model.on("change:value change:alt", show);
  show();
  return () => URL.revokeObjectURL(url);
}
export default { render };
