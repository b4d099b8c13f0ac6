"""Notebooks in a real browser: JupyterLab in Chromium, every notebook told to Restart and Run All.

They are copies in a temporary folder, where Lab and its settings live as well, and so do screenshots
(pytest's --basetemp says where). LCS_PATIENCE is how many seconds a machine may take for anything, by
default 240.
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
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import nbformat
import pytest

from lcs_utils import notebooks, store

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
PATIENCE = float(os.environ.get("LCS_PATIENCE", 240))
HARMLESS = (  # what JupyterLab says by itself; everything else fails a test
    "Could not restore the debugger state",  # the kernel was restarted while its debugger was asked
    "favicon",
    # not within 2 s, on a busy machine; it works as soon as it is there
    "[anywidget] Failed to initialize model",
)
SETTINGS = {
    # all cells in the page, also those out of view
    "notebook-extension/tracker": '{"windowingMode": "none"}',
    "apputils-extension/notification": '{"fetchNews": "false", "checkForUpdates": false}',
}
# What can be worked with, by role, in a page's accessibility tree: `- slider "its name": value`.
ROLES = "slider|button|combobox|spinbutton|application|checkbox|textbox|progressbar"
WORKABLE = re.compile(rf"""- '?({ROLES})\b(?: "(.*?)")?""")  # YAML quotes a line whose name holds a colon


def pytest_collection_modifyitems(items):
    for item in items:
        if Path(__file__).parent in item.path.parents and not CHROMIUM:
            item.add_marker(
                pytest.mark.skip(reason="no Chromium on this machine (Debian: apt install chromium)")
            )


@dataclass
class Lab:
    """Where JupyterLab answers, and the folder of its notebooks."""

    address: str
    token: str
    folder: Path


@dataclass
class Sheet:
    """A notebook's page, and what its console said."""

    page: Any
    name: str
    folder: Path
    said: list[str] = field(default_factory=list)

    def wait_for(self, what, found):
        """The first value of `found()` that counts as true."""
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            value = found()
            if value:
                return value
            self.page.wait_for_timeout(30)
        self.screenshot("stuck")
        pytest.fail(f"{self.name}: no {what} in {PATIENCE:g} s")

    def wait_until_run(self):
        """All cells have run, 1, 2, ..., none with an error or words on stderr."""
        prompts = self.page.locator(".jp-CodeCell .jp-InputPrompt")

        def shown():
            return [text.strip() for text in prompts.all_inner_texts()]

        wrong = self.page.locator('[data-mime-type$="jupyter.error"], [data-mime-type$="jupyter.stderr"]')

        def done():
            return wrong.count() or shown() == [f"[{i}]:" for i in range(1, len(shown()) + 1)]

        self.wait_for("end of Run All", done)
        assert wrong.count() == 0, wrong.first.inner_text()
        assert self.page.locator(".jupyter-widgets-error-widget").count() == 0, "a widget could not be drawn"

    def workable(self, part):
        """(role, name) of everything in `part` that one can work with, from the accessibility tree."""
        return [(role, name) for role, name in WORKABLE.findall(part.aria_snapshot())]

    def tab_to(self, element, most=40):
        """Reach `element` by the Tab key from where the focus is."""
        for _ in range(most + 1):
            if element.evaluate("e => e === document.activeElement"):
                return
            self.page.keyboard.press("Tab")
        pytest.fail(f"{self.name}: the Tab key does not reach {element}")

    def drag(self, slider, share):
        """Take a range input's thumb with the mouse and drop it at `share` of its length."""
        slider.scroll_into_view_if_needed()
        box, limits = slider.bounding_box(), [float(slider.get_attribute(name)) for name in ("min", "max")]
        at = (float(slider.input_value()) - limits[0]) / (limits[1] - limits[0])

        def place(share):
            return box["x"] + 8 + (box["width"] - 16) * share  # a thumb is about 16 px wide

        y = box["y"] + box["height"] / 2
        self.page.mouse.move(place(at), y)
        self.page.mouse.down()
        self.page.mouse.move(place(share), y, steps=5)
        self.page.mouse.up()

    def screenshot(self, what):
        self.page.screenshot(path=self.folder / f"{self.name}_{what}.png")

    def complaints(self):
        """What the console said that is not harmless."""
        return [text for text in self.said if not any(part in text for part in HARMLESS)]


@pytest.fixture(scope="session")
def lab(tmp_path_factory):
    """JupyterLab; everything it writes is temporary."""
    folder, token = tmp_path_factory.mktemp("lab"), secrets.token_hex(16)
    for name, text in SETTINGS.items():
        store.write_text(folder / "settings" / "@jupyterlab" / f"{name}.jupyterlab-settings", text)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    options = [
        f"--ServerApp.root_dir={folder}",
        f"--port={port}",
        f"--IdentityProvider.token={token}",
        "--no-browser",
        "--FileContentsManager.pre_save_hook=lcs_utils.lab.before_saving",  # as `run.py lab` has it
    ]
    options += ["--ip=127.0.0.1", "--ServerApp.port_retries=0", "--allow-root", "--log-level=WARN"]
    own = {f"JUPYTER_{kind}_DIR": str(folder / kind.lower()) for kind in ("CONFIG", "DATA", "RUNTIME")}
    own |= {f"JUPYTERLAB_{kind}_DIR": str(folder / kind.lower()) for kind in ("SETTINGS", "WORKSPACES")}
    own |= {"LCS_FIGURES": str(folder / "figures"), "IPYTHONDIR": str(folder / "ipython")}
    log = open(folder / "lab.log", "w")
    command = [sys.executable, "-m", "jupyterlab", *options]
    server = subprocess.Popen(
        command, env=os.environ | own, cwd=folder, stdout=log, stderr=log, start_new_session=True
    )
    address = f"http://127.0.0.1:{port}"
    try:
        deadline = time.monotonic() + PATIENCE
        while True:
            try:
                urllib.request.urlopen(f"{address}/api/status?token={token}", timeout=30)
                break
            except OSError:
                said = (folder / "lab.log").read_text()[-2000:]
                assert server.poll() is None and time.monotonic() < deadline, said
                time.sleep(0.5)
        yield Lab(address, token, folder)
    finally:
        os.killpg(server.pid, signal.SIGTERM)
        try:
            server.wait(20)
        except subprocess.TimeoutExpired:
            os.killpg(server.pid, signal.SIGKILL)
        log.close()


def source(name, cells):
    """A notebook without outputs: those `cells`, or when None the whole source of that name."""
    if cells is None:
        return notebooks.read(name)
    notebook = notebooks.read("01_theory_cpc_is_lcs")
    notebook.cells = [nbformat.v4.new_code_cell(cell) if isinstance(cell, str) else cell for cell in cells]
    return notebook


@pytest.fixture(scope="session")
def chromium():
    """The browser; without its sandbox where root runs it, as in a container."""
    from playwright.sync_api import sync_playwright

    options = ["--no-sandbox"] if hasattr(os, "geteuid") and os.geteuid() == 0 else []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=options)
        yield browser
        browser.close()


def restart_and_run_all(page):
    """Ask for it in the menu, once the notebook of the page and its kernel are there."""
    page.locator(".jp-Notebook .jp-CodeCell").first.wait_for()
    page.get_by_text("Python 3 (ipykernel) | Idle").wait_for()  # there is a kernel to restart
    page.get_by_role("menuitem", name="Run", exact=True).click()
    page.get_by_role("menuitem", name=re.compile("Restart Kernel and Run All Cells")).click()
    page.get_by_role("button", name="Confirm Kernel Restart").click()


@pytest.fixture(scope="module")
def sheets(lab, chromium, request):
    """Name -> Sheet, for the notebooks of the module's chosen tests, all running by now: kernels start side
    by side.
    """
    wanted = {}
    for item in request.session.items:
        if item.path == request.path and "sheets" in item.fixturenames:
            wanted |= {item.callspec.params["name"]: item.callspec.params["cells"]}
    context = chromium.new_context(viewport={"width": 1200, "height": 900})
    context.set_default_timeout(PATIENCE * 1000)
    opened = {}
    for name, cells in wanted.items():
        nbformat.write(source(name, cells), lab.folder / f"{name}.ipynb")
        sheet = opened[name] = Sheet(context.new_page(), name, lab.folder)
        page, said = sheet.page, sheet.said
        page.on("console", lambda m, said=said: m.type == "error" and said.append(f"{m.text} {m.location}"))
        page.on("pageerror", lambda error, said=said: said.append(str(error)))
        try:
            page.goto(f"{lab.address}/doc/tree/{name}.ipynb?token={lab.token}")
            restart_and_run_all(page)
        except Exception:
            sheet.screenshot("stuck")
            raise
    yield opened
    context.close()
