"""Take the pictures of the viewer for the docs, over a home that the demo records: python docs/screenshots.py

It needs the extras `serve` and `test`, and the program `chromium`. The pictures are committed; times and ids in them
change with every call, so no check compares them.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from playwright.sync_api import Browser, sync_playwright

import provml

PICTURES = Path(__file__).parent / "pictures"
TOKEN = "token-of-the-screenshots"
SHOWN_HOME = "./.provml"
"""The home that the pictures name, in place of a temporary folder."""
SIZE = {"width": 1360, "height": 800}


def addresses(home: Path) -> dict[str, tuple[str, str]]:
    """Return the colour scheme and the address of each picture."""
    with provml.open(home) as store:
        runs = [info.id for info in store.runs() if info.status == "FINISHED"]
    best, *others = runs
    return {
        "viewer-runs": ("light", "/?sort=test_accuracy&desc=1"),
        "viewer-run": ("light", f"/runs/{best}"),
        "viewer-compare": ("light", f"/compare?r={best}&r={others[-1]}&r={others[-2]}"),
        "viewer-lineage": ("light", f"/lineage?of={best}"),
        "viewer-dataflow": ("light", "/dataflow"),
        "viewer-dark": ("dark", f"/runs/{best}"),
    }


def take(browser: Browser, url: str, scheme: str, path: Path) -> None:
    """Take one picture."""
    headers = {"Authorization": f"Bearer {TOKEN}"}
    context = browser.new_context(viewport=SIZE, color_scheme=scheme, extra_http_headers=headers)
    page = context.new_page()
    page.goto(url)
    page.wait_for_timeout(500)
    page.evaluate(f"document.querySelector('.home').textContent = {SHOWN_HOME!r}")
    bottom = page.evaluate("document.querySelector('footer').getBoundingClientRect().top")
    height = min(SIZE["height"], int(bottom))
    page.screenshot(path=path, clip={"x": 0, "y": 0, "width": SIZE["width"], "height": height})
    context.close()


def main() -> None:
    """Record the demo, serve it, and take all pictures."""
    program = shutil.which("chromium")
    if program is None:
        sys.exit("chromium is not installed.")
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder) / "home"
        python = [sys.executable, "-m", "provml"]
        subprocess.run([*python, "demo", "--home", str(home)], check=True, stdout=subprocess.DEVNULL)
        pictures = addresses(home)
        command = [*python, "serve", "--home", str(home), "--port", "0", "--quiet"]
        env = {**os.environ, "PROVML_WRITE_TOKEN": TOKEN}
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=env) as server:
            assert server.stdout is not None
            match = re.search(r" at (\S+)", server.stdout.readline())
            assert match is not None
            with sync_playwright() as playwright:
                browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
                for name, (scheme, address) in pictures.items():
                    take(browser, match[1] + address, scheme, PICTURES / f"{name}.png")
                browser.close()
            server.terminate()


if __name__ == "__main__":
    main()
