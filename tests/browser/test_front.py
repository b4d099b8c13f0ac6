"""The web edition in Chromium, from the file system: the nets on its front page draw what torch draws.

Sliders and pictures work, everything fits a phone.
"""

import re

import numpy as np
import pytest
import torch

from lcs_utils import paths, store
from lcs_utils.live import nets, page, runtime, stored
from lcs_utils.live.noise import normal
from lcs_utils.site import build as site

FIGURES = sorted((paths.FIGURES / "tiny").glob("fig0*.json"))
PHONE, DESK = {"width": 360, "height": 740}, {"width": 1280, "height": 900}
PATIENCE = 1_200_000  # ms that a busy machine may take for anything


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """The web edition with two notebooks and a few figures."""
    folder = tmp_path_factory.mktemp("web") / "site"
    warnings = site.build(folder, ["01_theory_cpc_is_lcs", "A1_is_it_real"], FIGURES)
    return folder, [warning for warning in warnings if not warning.startswith(site.NO_NETS)]


@pytest.fixture(scope="module")
def open_page(chromium, built):
    """open_page(place, viewport, ...): a page from the file system, with what was said and asked for."""
    contexts = []

    def opened(place="index.html", viewport=DESK, **options):
        context = chromium.new_context(viewport=viewport, **options)
        context.set_default_timeout(PATIENCE)
        contexts.append(context)
        tab = context.new_page()
        tab.said, tab.asked = [], []
        tab.on("console", lambda message: message.type == "error" and tab.said.append(message.text))
        tab.on("pageerror", lambda error: tab.said.append(str(error)))
        tab.on("request", lambda request: tab.asked.append(request.url))
        file, _, query = place.partition("?")
        tab.goto(f"{(built[0] / file).as_uri()}?{query}")
        return tab

    yield opened
    for context in contexts:
        context.close()


@pytest.fixture(scope="module")
def with_nets():
    """Skips where onnxruntime-web cannot be had, and says why."""
    try:
        runtime.archive()
    except runtime.RuntimeMissing as missing:
        pytest.skip(str(missing))


@pytest.fixture(scope="module")
def front(with_nets, open_page):
    """The front page with its nets."""
    return open_page()


def sideways(tab):
    """By how many pixels a page is wider than its window."""
    return tab.evaluate("document.documentElement.scrollWidth - innerWidth")


def test_noise_is_the_same_in_python_and_in_the_browser(open_page):
    drawn = open_page().evaluate("seed => Array.from(LCS.normal(seed, 3072))", 7)
    assert np.abs(np.array(drawn) - normal(7, 3072).numpy()).max() < 1e-6
    assert np.abs(np.array(drawn) - normal(8, 3072).numpy()).max() > 1


def test_the_sampler_is_torch_s(open_page):
    from lcs_utils.diffusion import final, karras_sigmas, sample

    script = """async () => {
      const denoise = async (x, sigma) => x.map((v) => Math.tanh(v / (1 + sigma)));
      return Array.from(await LCS.sample(denoise, LCS.normal(0, 64), LCS.sigmas(14), () => true));
    }"""
    drawn = np.array(open_page().evaluate(script))

    def denoise(x, sigma, cond):
        return torch.tanh(x / (1 + sigma[:, None]))

    def by(solver):
        return final(sample(denoise, normal(0, 1, 64), karras_sigmas(14), solver=solver))[0].numpy()

    assert np.abs(drawn - by("dpmpp_2m")).max() < 1e-5
    assert np.abs(drawn - by("heun")).max() > 1e-3, "the test would not see another solver"


def by_torch(net):
    """The sample that torch draws for the stored condition, noise and seed."""
    return stored.drawn(stored.pipeline_of(net), stored.cells_of(stored.ASKED), stored.SEED)


def test_sample_draws_torch_s_images_and_counts_alike(front):
    """Click Sample: all nets, step by step; nothing from another host, no word on the console."""
    front.get_by_role("button", name="Sample").click()
    front.wait_for_function("/^(Done|That failed)/.test(document.querySelector('#live-status').textContent)")
    notes, told = front.locator(".live-row [data-note]").all_inner_texts(), page.known()[0]
    assert not front.said and all(url.startswith(("file:", "blob:", "data:")) for url in front.asked)
    images = []
    for net, note in zip(nets.NETS, notes):
        assert f"counted {told['start']['counts'][net.key]} (live" in note
        drawn = front.evaluate("key => Array.from(LCS.drawn[key].image)", net.key)
        images.append((torch.tensor(drawn), by_torch(net).flatten()))
    for drawn, expected in images:
        assert (drawn - expected).abs().max() < 1e-3
    assert (images[0][0] - images[1][1]).abs().max() > 0.1, "another net's image would pass"
    print(*notes[: len(nets.NETS)], *((a - b).abs().max().item() for a, b in images), sep="\n")


def test_a_failed_load_can_be_tried_again_and_stop_keeps_what_was_said(with_nets, open_page):
    """Nets that were not begun keep their pictures and captions."""
    tab = open_page()
    tab.evaluate(
        """() => {
          const real = DecompressionStream;
          let first = true;
          window.DecompressionStream = function (kind) {
            if (!first) return new real(kind);
            first = false;
            throw new Error("no memory");
          };
        }"""
    )
    notes, status = tab.locator(".live-row [data-note]"), tab.locator("#live-status")
    of_nets, sample = slice(len(nets.NETS)), tab.get_by_role("button", name="Sample")
    before = notes.all_inner_texts()[of_nets]
    sample.click()
    tab.wait_for_function(
        "/^That failed: no memory/.test(document.querySelector('#live-status').textContent)"
    )
    assert notes.all_inner_texts()[of_nets] == before
    sample.click()
    tab.wait_for_function("/^step/.test(document.querySelector('.live-row [data-note]').textContent)")
    tab.get_by_role("button", name="Stop").click()
    tab.wait_for_function("!/drawing|Loading/.test(document.querySelector('#live-status').textContent)")
    assert status.inner_text() == "Stopped." and notes.all_inner_texts()[of_nets] == ["stopped", *before[1:]]


def test_live_answers_of_eq_10_are_torch_s(front):
    told = page.known()[0]
    for net in nets.NETS:
        for level, target in ((3, 0), (7, 2)):
            heard = front.evaluate("(asked) => LCS.listens(...asked)", [net.key, level, target])
            assert np.abs(np.array(heard) - told["looked"][net.key]["heard"][level][target]).max() < 1e-3


def test_sliding_by_keys_says_where_the_pixel_listens(open_page):
    tab = open_page()
    slider, summary = tab.get_by_role("slider", name="noise level"), tab.locator("#live-summary")
    slider.press("End")
    tab.wait_for_function("document.querySelector('#live-summary').textContent.startsWith('Noise 40')")
    before = summary.inner_text()
    tab.get_by_role("radio", name="3").check()
    tab.wait_for_function("document.querySelector('#live-summary').textContent.includes('object 3')")
    assert summary.inner_text() != before and slider.get_attribute("aria-valuetext") == "sigma 40"


def test_locations_by_mouse_and_keys_and_no_more_than_twelve(front):
    board, asked = front.get_by_role("application"), front.locator("#live-asked")
    front.get_by_role("button", name="none").click()
    box = board.bounding_box()
    board.click(position={"x": box["width"] * 0.53, "y": box["height"] * 0.53})
    assert "Row 9, column 9 on. 1 location asked for" in asked.inner_text()
    board.press("ArrowRight")
    board.press("Enter")
    assert "Row 9, column 10 on. 2 locations" in asked.inner_text()
    front.get_by_role("button", name="12", exact=True).click()
    for _ in range(9):
        board.press("ArrowUp")
    board.press("Enter")
    assert "12 locations are the most" in asked.inner_text()


def test_names_for_a_screen_reader(with_nets, open_page):
    tree = open_page().locator("div.body").aria_snapshot()
    for name in ("application", "spinbutton", "slider", "radio"):
        assert re.search(rf'- {name} ".+"', tree), name
    assert not re.search(r"- (application|slider|button|img|radio)\s*$", tree, re.M), "something has no name"


def test_without_webassembly_pictures_stand_there(with_nets, open_page, chromium, built):
    context = chromium.new_context(viewport=DESK)
    context.add_init_script("delete window.WebAssembly")
    tab = context.new_page()
    tab.goto((built[0] / "index.html").as_uri())
    assert "no WebAssembly" in tab.locator("#live-status").inner_text()
    assert not tab.get_by_role("button", name="Sample").is_visible()
    assert tab.locator(".live-row canvas").first.is_visible()
    context.close()
    plain = open_page(java_script_enabled=False)
    assert plain.locator(".live-row img").count() == len(nets.NETS)
    assert not plain.get_by_role("button", name="Sample").is_visible()


@pytest.mark.parametrize("viewport", [PHONE, DESK], ids=["phone", "desk"])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_pages_fit_and_indexes_are_short(open_page, built, viewport, scheme):
    for place in (
        "index.html",
        "figures/index.html",
        "figures/tiny/fig01.html",
        "notebooks/A1_is_it_real.html",
    ):
        tab = open_page(place, viewport, color_scheme=scheme)
        name = f"{place.replace('/', '_')[:-5]}_{viewport['width']}_{scheme}.png"
        tab.screenshot(path=built[0].parent / name, full_page=place.endswith("index.html"))
        assert sideways(tab) <= 0, f"{place} is {sideways(tab)} px too wide"
        if place.endswith("index.html"):
            assert tab.evaluate("document.documentElement.scrollHeight") < 8000, place


def test_the_menu_stands_on_top_of_a_phone_and_opens(open_page):
    tab = open_page("figures/tiny/fig01.html", PHONE)
    menu, switch = tab.locator(".menu"), tab.locator("#menu-switch")
    assert not menu.is_visible()
    assert tab.locator(".menu-head").bounding_box()["y"] < 60
    switch.focus()
    switch.press("Space")
    assert menu.is_visible() and menu.get_by_role("link", name="All figures").is_visible()


def test_pictures_open_large_and_close(open_page):
    tab = open_page("figures/tiny/fig01.html")
    picture = tab.locator("a.enlarge")
    picture.first.press("Enter")
    large = tab.locator("dialog.large img")
    assert large.is_visible() and large.evaluate("e => e.complete && e.naturalWidth") > 300
    tab.keyboard.press("Escape")
    assert not large.is_visible()


def test_search_finds_pages_from_the_file_system(open_page):
    tab = open_page("search.html?q=locality")
    tab.wait_for_function("document.querySelectorAll('ul.search li').length > 0")
    assert not tab.said


def test_a_slider_over_stored_frames(chromium, tmp_path):
    from nbformat.v4 import new_output

    from lcs_utils.widgets.frames import MIME, frame_slider

    shades = [np.full((8, 8, 3), shade, np.uint8) for shade in (0, 100, 200)]
    data, _metadata = frame_slider(shades, ["a", "b", "c"], "a shade")._repr_mimebundle_()
    output = new_output("display_data", {MIME: data[MIME]})
    site.live_frames(output, tmp_path / "_static/frames/x_", "")
    html = output.data["text/html"]
    script = site.SCRIPT.read_text()
    store.write_text(tmp_path / "page.html", f"<!doctype html><body>{html}<script>{script}</script>")
    tab = chromium.new_page()
    tab.goto((tmp_path / "page.html").as_uri())
    slider, picture = tab.get_by_role("slider", name="a shade"), tab.locator("img").first
    assert slider.get_attribute("aria-valuetext") == "b"
    slider.press("ArrowRight")
    assert picture.get_attribute("alt") == "a shade: c" and picture.get_attribute("src").endswith("x_2.png")
    assert picture.evaluate("e => e.decode().then(() => e.naturalWidth)") == 8
    tab.close()
