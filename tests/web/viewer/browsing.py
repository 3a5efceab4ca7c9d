"""A browser on a service: what it complains about, where it goes, and what a page does to readers of all kinds."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from playwright.sync_api import Browser, BrowserContext, Page

from web.conftest import READ, WRITE, bearer
from web.serving import Server

AXE = (Path(__file__).parent / "axe.min.js").read_text(encoding="utf-8")
TOKENS = {"PROVML_READ_TOKEN": READ, "PROVML_WRITE_TOKEN": WRITE}
PHONE = {"width": 390, "height": 800}
DESKTOP = {"width": 1280, "height": 900}
TABS = 12
"""How often the key Tab is pressed on a page."""
FOCUS = """() => {
    const element = document.activeElement, style = getComputedStyle(element);
    const shape = element.querySelector?.('.q');
    const isVisible = style.outlineStyle !== 'none' || (shape && getComputedStyle(shape).strokeWidth === '3px');
    return [element.tagName + ' ' + (element.getAttribute('href') || element.name || element.id), Boolean(isVisible)];
}"""
SHIFTS = """() => { window.shifts = 0; new PerformanceObserver((list) => {
    for (const entry of list.getEntries()) window.shifts += entry.value;
}).observe({ type: 'layout-shift' }); }"""


class Visit:
    """A browser context on a service, which collects errors and requests to other hosts."""

    def __init__(self, browser: Browser, server: Server, **options: Any) -> None:
        self.base = server.url
        self.context: BrowserContext = browser.new_context(extra_http_headers=bearer(WRITE), **options)
        self.page: Page = self.context.new_page()
        self.problems: list[str] = []
        self.page.on("console", lambda message: self._note(message.type, message.text))
        self.page.on("pageerror", lambda error: self.problems.append(f"error: {error}"))
        self.page.on("request", self._check_host)
        self.page.on("dialog", lambda dialog: self._dismiss(dialog))

    def _note(self, kind: str, text: str) -> None:
        if kind in ("error", "warning"):
            self.problems.append(f"{kind}: {text}")

    def _check_host(self, request: Any) -> None:
        parts = urlsplit(request.url)
        if parts.scheme != "data" and parts.netloc != urlsplit(self.base).netloc:
            self.problems.append(f"request to {request.url}")

    def _dismiss(self, dialog: Any) -> None:
        self.problems.append(f"dialog: {dialog.message}")
        dialog.dismiss()

    def open(self, address: str) -> Page:
        """Open a page; while a large home is read, wait for it."""
        self.page.goto(self.base + address, wait_until="load")
        while self.page.locator("[data-reading]").count():
            self.page.wait_for_timeout(500)
            self.page.goto(self.base + address, wait_until="load")
        return self.page

    def transferred(self) -> list[int]:
        """Return a list that grows by the bytes of each answer."""
        sizes: list[int] = []
        session = self.context.new_cdp_session(self.page)
        session.send("Network.enable")
        session.on("Network.loadingFinished", lambda event: sizes.append(event["encodedDataLength"]))
        return sizes

    def __enter__(self) -> Visit:
        return self

    def __exit__(self, *error: object) -> None:
        self.context.close()


def axe_violations(page: Page, rules: str = "") -> list[str]:
    """Return the serious accessibility problems that axe-core finds."""
    options = f"{{runOnly: {{type: 'rule', values: ['{rules}']}}}}" if rules else "{}"
    results = page.evaluate(f"async () => {{ {AXE}; return (await axe.run(document, {options})).violations }}")
    return [
        f"{page.url}: {result['id']} {node['html'][:150]} {node.get('failureSummary', '')[:200]}"
        for result in results
        if result["impact"] in ("serious", "critical")
        for node in result["nodes"][:3]
    ]


def too_wide(page: Page) -> list[str]:
    """Return a complaint if the page is wider than the window."""
    width, window = page.evaluate("[document.documentElement.scrollWidth, window.innerWidth]")
    return [f"{page.url}: {width} pixels wide"] if width > window else []


def lost_focus(page: Page) -> list[str]:
    """Return a complaint if the key Tab does not go on, or goes where nothing shows it."""
    complaints, places = [], []
    for _ in range(TABS):
        page.keyboard.press("Tab")
        place, is_visible = page.evaluate(FOCUS)
        places.append(place)
        if place.startswith("BODY"):  # the end of a short page
            break
        if not is_visible:
            complaints.append(f"{page.url}: nothing shows the focus on {place}")
    return [*complaints, *([] if len(set(places)) > 3 else [f"{page.url}: the focus stays in {set(places)}"])]


def check_pages(browser: Browser, server: Server, addresses: Iterable[str], *, light: bool = False) -> None:
    """Look at pages on a phone in dark mode and on a desktop in light mode: errors, hosts, width, focus, axe-core.

    With `light`, axe-core also checks the contrast in light mode: its colours are the same in all homes.
    """
    complaints: list[str] = []
    with (
        Visit(browser, server, viewport=PHONE, color_scheme="dark", bypass_csp=True) as phone,
        Visit(browser, server, viewport=DESKTOP, color_scheme="light", bypass_csp=True) as desktop,
    ):
        for address in addresses:
            page = phone.open(address)
            complaints += [*too_wide(page), *axe_violations(page)]
            page = desktop.open(address)
            complaints += [*too_wide(page), *lost_focus(page)]
            complaints += axe_violations(page, "color-contrast") if light else []
        complaints += phone.problems + desktop.problems
    assert not complaints, "\n".join(complaints)


def check_without_scripts(browser: Browser, server: Server, addresses: Iterable[str]) -> None:
    """Look at pages without JavaScript: all that they show is there, and nothing waits for a script."""
    complaints: list[str] = []
    with (
        Visit(browser, server, viewport=PHONE) as visit,
        Visit(browser, server, viewport=PHONE, java_script_enabled=False) as plain,
    ):
        for address in addresses:
            expected = visit.open(address).locator("main").inner_text()
            text = plain.open(address).locator("main").inner_text()
            text += " ".join(area.input_value() for area in plain.page.locator("textarea").all())
            missing = {*expected.split()} - {*text.split()}
            if len(missing) > 0.1 * len({*expected.split()}) + 5:
                complaints.append(f"{address}: {sorted(missing)[:10]} need a script")
            pictures = plain.page.locator(".chart noscript svg, .picture svg")
            if visit.page.locator(".u-over, .picture").count() and not pictures.count():
                complaints.append(f"{address}: no picture without scripts")
    assert not complaints, "\n".join(complaints)
