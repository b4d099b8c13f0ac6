"""Notebooks in a real browser: JupyterLab in Chromium, Restart and Run All, then the sliders by mouse and by keys.

Each notebook is copied up to its last widget (nbval runs the rest) into a temporary folder, where Lab lives as well.
"""

import os
import re
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.request

import nbformat
import pytest

from lcs_utils import notebooks, paths

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
pytestmark = pytest.mark.skipif(not CHROMIUM, reason="no Chromium on this machine (Debian: apt install chromium)")
PATIENCE = 120  # seconds; on an idle machine nothing takes longer than 20
SLIDERS = {  # the slider's accessible name
    "01_theory_cpc_is_lcs": "noise level sigma",
    "02_theory_noise_and_features": "coupling",
    "11_swing_by": "training time",
}
LIVE = (  # widgets that need the kernel, alone: their notebooks take longer than a browser test should
    "from lcs_utils import widgets\nwidgets.LocalityExplorer(sigmas=(0.2, 1.0, 5.0))",
    "from lcs_utils.widgets.scene_controls import scene_controls\nscene_controls(seed=1, count=2)",
)
HARMLESS = (  # what JupyterLab says by itself; everything else fails a test
    "Could not restore the debugger state",  # the kernel was restarted while its debugger was asked
    "favicon",
)
SETTINGS = {
    "notebook-extension/tracker": '{"windowingMode": "none"}',  # all cells in the page, also those out of view
    "apputils-extension/notification": '{"fetchNews": "false", "checkForUpdates": false}',
}


def shortened(name):
    """The notebook's source up to its last widget, without outputs."""
    notebook = notebooks.read(name)
    last = max(i for i, cell in enumerate(notebook.cells) if cell.cell_type == "code" and "widgets." in cell.source)
    notebook.cells = notebook.cells[: last + 1]
    return notebook


@pytest.fixture(scope="module")
def lab(tmp_path_factory):
    """JupyterLab's address and token, for copies of the notebooks; everything it writes is temporary."""
    folder, token = tmp_path_factory.mktemp("lab"), secrets.token_hex(16)
    for name in SLIDERS:
        nbformat.write(shortened(name), folder / f"{name}.ipynb")
    live = shortened(next(iter(SLIDERS)))
    live.cells = [nbformat.v4.new_code_cell(source) for source in LIVE]
    nbformat.write(live, folder / "live.ipynb")
    for name, text in SETTINGS.items():
        paths.write_text(folder / "settings" / "@jupyterlab" / f"{name}.jupyterlab-settings", text)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    options = [f"--ServerApp.root_dir={folder}", f"--port={port}", f"--IdentityProvider.token={token}", "--no-browser"]
    options += ["--ip=127.0.0.1", "--ServerApp.port_retries=0", "--allow-root", "--log-level=WARN"]
    own = {f"JUPYTER_{kind}_DIR": str(folder / kind.lower()) for kind in ("CONFIG", "DATA", "RUNTIME")}
    own |= {f"JUPYTERLAB_{kind}_DIR": str(folder / kind.lower()) for kind in ("SETTINGS", "WORKSPACES")}
    own |= {"LCS_FIGURES": str(folder / "figures"), "IPYTHONDIR": str(folder / "ipython")}
    log = open(folder / "lab.log", "w")
    command = [sys.executable, "-m", "jupyterlab", *options]
    server = subprocess.Popen(command, env=os.environ | own, cwd=folder, stdout=log, stderr=log, start_new_session=True)
    address = f"http://127.0.0.1:{port}"
    try:
        deadline = time.monotonic() + PATIENCE
        while True:
            try:
                urllib.request.urlopen(f"{address}/api/status?token={token}", timeout=30)
                break
            except OSError:
                assert server.poll() is None and time.monotonic() < deadline, (folder / "lab.log").read_text()[-2000:]
                time.sleep(0.5)
        yield address, token, folder
    finally:
        os.killpg(server.pid, signal.SIGTERM)
        try:
            server.wait(20)
        except subprocess.TimeoutExpired:
            os.killpg(server.pid, signal.SIGKILL)
        log.close()


@pytest.fixture(scope="module")
def pages(lab):
    """One browser page per notebook, every one of them told to restart and run all: kernels start side by side."""
    from playwright.sync_api import sync_playwright

    address, token, _ = lab
    options = ["--no-sandbox"] if hasattr(os, "geteuid") and os.geteuid() == 0 else []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=options)
        context = browser.new_context(viewport={"width": 1200, "height": 900})
        context.set_default_timeout(PATIENCE * 1000)
        opened = {}
        for name in (*SLIDERS, "live"):
            page = context.new_page()
            said = []
            page.on("console", lambda m, said=said: m.type == "error" and said.append(f"{m.text} {m.location}"))
            page.on("pageerror", lambda error, said=said: said.append(str(error)))
            try:
                page.goto(f"{address}/doc/tree/{name}.ipynb?token={token}")
                page.locator(".jp-Notebook .jp-CodeCell").first.wait_for()
                page.get_by_text("Python 3 (ipykernel) | Idle").wait_for()  # there is a kernel to restart
                page.get_by_role("menuitem", name="Run", exact=True).click()
                page.get_by_role("menuitem", name=re.compile("Restart Kernel and Run All Cells")).click()
                page.get_by_role("button", name="Confirm Kernel Restart").click()
            except Exception:
                page.screenshot(path=lab[2] / f"{name}_stuck.png")
                raise
            opened[name] = page, said
        yield opened
        browser.close()


def shown(page):
    """What the slider says, what is heard, the stop beside it, and the picture's address and name."""
    slider, picture = page.get_by_role("slider"), page.locator(".jp-OutputArea-output img[src^=blob]")
    heard = slider.get_attribute("aria-valuetext"), page.locator(".jp-OutputArea-output output").inner_text()
    return *heard, picture.get_attribute("src"), picture.get_attribute("alt")


def wait_for_change(page, before):
    """What the slider shows once everything about it differs from `before`."""
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        now = shown(page)
        if all(new != old for new, old in zip(now, before)):
            return now
        page.wait_for_timeout(50)
    pytest.fail(f"the slider still shows {before}, now {shown(page)}")


@pytest.mark.parametrize("name", SLIDERS)
def test_run_all_then_slide_by_keys_and_mouse(pages, lab, name):
    page, said = pages[name]
    page.bring_to_front()
    slider = page.get_by_role("slider", name=SLIDERS[name])
    slider.wait_for()
    prompts = [text.strip() for text in page.locator(".jp-CodeCell .jp-InputPrompt").all_inner_texts()]
    assert prompts == [f"[{i}]:" for i in range(1, len(prompts) + 1)] and len(prompts) >= 4
    assert page.locator('[data-mime-type$="jupyter.error"], [data-mime-type$="jupyter.stderr"]').count() == 0
    slider.scroll_into_view_if_needed()
    page.screenshot(path=lab[2] / f"{name}_1.png")

    first = shown(page)
    assert first[0] == first[1] and first[3] == f"{SLIDERS[name]}: {first[0]}"
    slider.focus()
    page.keyboard.press("ArrowRight")
    second = wait_for_change(page, first)
    page.keyboard.press("ArrowLeft")
    assert wait_for_change(page, second) == first
    page.keyboard.press("Shift+Tab")
    assert not slider.evaluate("e => e === document.activeElement")
    page.keyboard.press("Tab")
    assert slider.evaluate("e => e === document.activeElement"), "the slider cannot be reached with the Tab key"

    box = slider.bounding_box()
    stops = int(slider.get_attribute("max"))
    at, y = box["x"] + box["width"] * (0.02 + 0.96 * int(slider.input_value()) / stops), box["y"] + box["height"] / 2
    page.mouse.move(at, y)
    page.mouse.down()
    page.mouse.move(box["x"] + 0.99 * box["width"], y, steps=5)
    page.mouse.up()
    wait_for_change(page, first)
    assert slider.input_value() == str(stops)
    natural = page.locator(".jp-OutputArea-output img[src^=blob]").evaluate("e => e.naturalWidth")
    assert natural > 300, "the picture is not drawn"
    page.screenshot(path=lab[2] / f"{name}_2.png")
    assert not [text for text in said if not any(part in text for part in HARMLESS)]


def test_explorer_and_scene_answer_to_clicks_and_keys(pages, lab):
    page, said = pages["live"]
    page.bring_to_front()
    canvas = page.get_by_role("application", name=re.compile("target pixel"))
    color = page.get_by_label("color", exact=True)
    color.wait_for()
    assert page.locator(".jupyter-widgets-error-widget").count() == 0, "a widget could not be drawn"
    assert page.get_by_role("application", name=re.compile("Condition grid")).count() == 1
    status = canvas.locator("xpath=following-sibling::*[@aria-live]")

    def target(before):
        """Row and column of the target that is read out, once they differ from `before`."""
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            found = re.search(r"target row (\d+), column (\d+)", status.inner_text())
            if found and tuple(map(int, found.groups())) != before:
                return tuple(map(int, found.groups()))
            page.wait_for_timeout(50)
        pytest.fail(f"the target stays at {before}")

    canvas.scroll_into_view_if_needed()
    box, first = canvas.bounding_box(), target(None)
    canvas.click(position={"x": 0.2 * box["width"], "y": 0.2 * box["height"]})
    clicked = target(first)
    for key in ("ArrowRight", "ArrowRight", "ArrowDown", "Enter"):
        page.keyboard.press(key)
    assert target(clicked) == (clicked[0] + 1, clicked[1] + 2)
    page.screenshot(path=lab[2] / "live_explorer.png")

    picture = page.locator("img.widget-image")
    assert picture.evaluate("e => e.naturalWidth") > 100 and "yellow" not in picture.get_attribute("title")
    color.select_option("yellow")
    page.locator('img.widget-image[title*="yellow"]').wait_for()
    picture.scroll_into_view_if_needed()
    page.screenshot(path=lab[2] / "live_scene.png")
    assert not [text for text in said if not any(part in text for part in HARMLESS)]
