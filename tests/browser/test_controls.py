"""The controls alone, in an empty page with a model that only remembers: what keys and clicks set, what is
read.
"""

import pytest

from lcs_utils import paths

FAKE = """
class Model {
  constructor(state) { this.state = state; this.observers = {}; this.saved = 0; }
  get(name) { return this.state[name]; }
  set(name, value) {
    if (this.state[name] === value) return;
    this.state[name] = value;
    (this.observers[name] ?? []).forEach((f) => f());
  }
  on(events, f) {
    for (const event of events.split(" ")) (this.observers[event.replace("change:", "")] ??= []).push(f);
  }
  save_changes() { this.saved += 1; }
}
window.models = {};
for (const state of STATES) {
  const el = document.body.appendChild(document.createElement("div"));
  models[state.kind] = new Model({ tooltip: "", ...state });
  render({ model: models[state.kind], el });
}
"""
STATES = """[
  { kind: "slider", description: "noise", value: 1, low: 0, high: 3, step: 1, labels: ["a", "b", "c", "d"],
    play: "play over noise", interval: 30, answered: 1 },
  { kind: "choice", description: "color", value: 1, options: ["red", "green", "blue"] },
  { kind: "number", description: "seed", value: 7, low: 0, high: 9 },
  { kind: "button", description: "Sample", tooltip: "sample all nets", disabled: false, clicks: 0 },
  { kind: "progress", description: "", tooltip: "sampling", value: 0, high: 4, visible: true },
  { kind: "note", description: "all is well" },
]"""


@pytest.fixture(scope="module")
def page(chromium):
    page = chromium.new_page()
    folder = paths.ROOT / "lcs_utils" / "widgets"
    script = (folder / "controls.js").read_text().replace("export default { render };", "")
    style = (folder / "controls.css").read_text()
    page.set_content(f"<style>{style}</style><body></body>")
    page.add_script_tag(content=script + FAKE.replace("STATES", STATES))
    yield page
    page.close()


def state(page, kind, name="value"):
    return page.evaluate(f"models.{kind}.state.{name}")


def test_everything_has_its_role_name_and_value(page):
    tree = page.locator("body").aria_snapshot()
    for line in (
        '- slider "noise": "1"',
        '- button "play over noise"',
        '- combobox "color"',
        '- option "green" [selected]',
        '- spinbutton "seed": "7"',
        '- button "Sample"',
        '- progressbar "sampling"',
        "- status: all is well",
    ):
        assert line in tree, tree
    for control in page.locator("input, select, button").all():  # itself: JupyterLab looks no further
        assert control.get_attribute("data-lm-suppress-shortcuts"), (
            "JupyterLab would take this control's keys"
        )


def test_keys_set_values_and_what_is_no_number_is_not_taken(page):
    page.get_by_role("slider").press("ArrowRight")
    assert state(page, "slider") == 2 and page.get_by_role("slider").get_attribute("aria-valuetext") == "c"
    page.get_by_role("combobox").press("b")
    assert state(page, "choice") == 2
    seed = page.get_by_role("spinbutton")
    for text, expected in (("5", 5), ("12", 5), ("", 5), ("2.5", 5), ("0", 0)):
        seed.fill(text)
        seed.press("Enter")
        assert state(page, "number") == expected and seed.input_value() == str(expected)
    page.get_by_role("button", name="Sample").press("Enter")
    page.get_by_role("button", name="Sample").click()
    assert state(page, "button", "clicks") == 2
    page.evaluate("models.button.set('disabled', true)")
    assert page.get_by_role("button", name="Sample").is_disabled()
    page.evaluate("models.progress.set('visible', false)")
    assert page.get_by_role("progressbar").count() == 0


def test_play_waits_for_the_picture_and_stops_at_the_end(page):
    page.evaluate("models.slider.set('value', 0)")
    page.get_by_role("button", name="play over noise").click()
    page.wait_for_timeout(200)
    assert state(page, "slider") == 0, "nobody has drawn the first one yet"
    page.evaluate("models.slider.set('answered', 0)")
    page.wait_for_function("models.slider.state.value === 1")
    page.get_by_role("button", name="pause").click()
    page.evaluate("models.slider.set('answered', 1)")
    page.wait_for_timeout(100)
    assert state(page, "slider") == 1
    page.evaluate(
        "models.slider.on('change:value', () => models.slider.set('answered', models.slider.get('value')))"
    )
    page.get_by_role("button", name="play over noise").click()
    page.wait_for_function("models.slider.state.value === 3")
    page.get_by_role("button", name="play over noise").wait_for()  # it has stopped by itself
