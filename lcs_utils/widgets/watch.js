// Says after a second when the kernel does not answer what was asked of it, and dims what may be out of date.
// A control dispatches "lcs-asked" when it has sent something; the kernel answers through `answered`, in order.
const PATIENCE = 1000; // ms
const COMPUTING = "The kernel is computing; dimmed parts are not up to date yet.";
const SILENT =
  "No answer from the kernel: it is busy with another cell, or gone. Dimmed parts are out of date. " +
  "After a restart, run the cell again.";

function watch(model, box, line) {
  let timer = null, asked = 0, heard = 0; // when the oldest open question was asked; when the kernel was last heard from
  const open = () => model.get("answered") !== model.get("asked");
  function say(words) {
    if (line.textContent !== words) line.textContent = words; // else it would be read out again and again
    box.classList.toggle("lcs-stale", words !== "");
  }
  function look() {
    const now = performance.now();
    if (!open()) {
      clearInterval(timer);
      timer = null;
      say("");
    } else if (now - heard > PATIENCE) {
      say(SILENT);
      box.dispatchEvent(new CustomEvent("lcs-silent")); // whatever moves by itself stops
    } else if (now - asked > PATIENCE) say(COMPUTING);
  }
  function ask() {
    model.set("asked", model.get("asked") + 1);
    model.save_changes();
    if (timer) return;
    asked = heard = performance.now();
    timer = setInterval(look, 50);
  }
  model.on("change:beats", () => (heard = performance.now()));
  model.on("change:answered", () => {
    asked = heard = performance.now(); // one of several questions was answered
    look();
  });
  box.addEventListener("lcs-asked", ask);
  return () => {
    clearInterval(timer);
    box.removeEventListener("lcs-asked", ask);
  };
}

function watched_line(parent) {
  const line = parent.appendChild(document.createElement("div"));
  line.className = "lcs-watch";
  line.setAttribute("role", "status");
  return line;
}
