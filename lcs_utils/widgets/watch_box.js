// The status line of a box of controls. It is added to the box before the box is added to the page.
function render({ model, el }) {
  const line = watched_line(el);
  let end = () => {};
  function attach() {
    const box = el.closest(".lcs-box");
    if (box) end = watch(model, box, line);
    else if (waiting > 0) waiting = requestAnimationFrame(attach);
  }
  let waiting = requestAnimationFrame(attach);
  return () => {
    cancelAnimationFrame(waiting);
    waiting = 0;
    end();
  };
}
export default { render };
