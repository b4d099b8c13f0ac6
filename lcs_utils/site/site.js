// All pages: sliders over stored frames, and pictures that open large. Pages are whole without it.
(function () {
  "use strict";

  function make(tag, parent, properties = {}) {
    return parent.appendChild(Object.assign(document.createElement(tag), properties));
  }

  // A range input over pictures next to the page (written by site/build.py; widgets/frames.js in a notebook).
  function slide(box) {
    const { frames, labels, shown, description } = JSON.parse(box.querySelector("script").textContent);
    const picture = box.querySelector("img"), row = document.createElement("label");
    make("span", row, { textContent: description });
    const input = make("input", row, { type: "range", min: 0, max: frames.length - 1, step: 1, value: shown });
    const stop = make("output", row);
    input.setAttribute("aria-label", description);
    stop.setAttribute("aria-live", "off"); // the slider itself is read out
    box.prepend(row);
    const kept = frames.map((place) => Object.assign(new Image(), { src: place })); // loaded before the first move
    function show() {
      const at = Number(input.value);
      picture.src = kept[at].src;
      picture.alt = `${description}: ${labels[at]}`;
      stop.textContent = labels[at];
      input.setAttribute("aria-valuetext", labels[at]);
    }
    input.oninput = show;
    show();
  }

  // Every picture of the text that is not a link yet opens in a dialog; the link works without the dialog, too.
  function enlarge(picture, dialog) {
    const link = Object.assign(document.createElement("a"), { href: picture.src, className: "enlarge" });
    link.setAttribute("aria-label", `${picture.alt || "picture"}, open large`);
    picture.replaceWith(link);
    link.append(picture);
    link.onclick = (event) => {
      if (event.ctrlKey || event.metaKey || event.shiftKey) return; // a new tab or window was asked for
      event.preventDefault();
      const large = dialog.querySelector("img");
      large.src = picture.src;
      large.alt = picture.alt;
      dialog.showModal();
    };
  }

  document.addEventListener("DOMContentLoaded", () => {
    document.querySelectorAll(".frames").forEach(slide);
    const dialog = make("dialog", document.body, { className: "large" });
    dialog.setAttribute("aria-label", "picture in full size");
    make("button", dialog, { textContent: "Close", type: "button", onclick: () => dialog.close() });
    make("img", dialog);
    dialog.onclick = (event) => event.target === dialog && dialog.close();
    for (const picture of document.querySelectorAll("div.body img")) {
      if (!picture.closest("a, .frames, .live")) enlarge(picture, dialog);
    }
  });
})();
