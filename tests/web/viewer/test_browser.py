"""The viewer in a real browser: no error, no request to another host, by keyboard, without scripts, small and large.

One headless Chromium and one service per home serve all tests of this file.
"""

from __future__ import annotations

import contextlib
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect, sync_playwright

import provml
from provml.demo import settings as demo
from web.conftest import READ, WRITE, bearer
from web.serving import Server, running
from web.viewer.homes import record_flowers, record_hostile, record_long, record_many

AXE = (Path(__file__).parent / "axe.min.js").read_text(encoding="utf-8")
PAGES = (
    *("/", "/compare?r=monday&r=tuesday", "/models", "/data", "/lineage?of=tuesday", "/dataflow", "/build"),
    *("/questions", "/questions/q3", "/query", "/validation", "/ontology/provml:TrainingExecution", "/runs/tuesday"),
    *("/runs/tuesday/epochs", "/runs/tuesday/layers", "/runs/tuesday/environment", "/runs/tuesday/lineage"),
    *("/runs/tuesday/rdf", "/runs/tuesday/artifacts", "/nodes?iri=https://w3id.org/provml/run/monday/training"),
)
HOSTILE_PAGES = (
    "/",
    "/runs/h1",
    "/runs/h2/lineage",
    "/compare?r=h1&r=h2&r=h3&graph=1",
    "/dataflow",
    "/data",
    "/models",
)
TOKENS = {"PROVML_READ_TOKEN": READ, "PROVML_WRITE_TOKEN": WRITE}
DEMO_SETTINGS = (demo.SETTINGS[1], demo.SETTINGS[4], demo.SETTINGS[5])
PHONE = {"width": 390, "height": 800}


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    program = shutil.which("chromium")
    if program is None:
        pytest.skip("chromium is not installed; see .ci/programs")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def flowers_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("flowers") / "home"
    record_flowers(home)
    return home


@pytest.fixture(scope="module")
def flowers(flowers_home: Path) -> Iterator[Server]:
    with running(flowers_home, env=TOKENS) as server:
        yield server


@pytest.fixture(scope="module")
def digits(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """The home of `provml demo`, without what the command does after the trainings."""
    home = tmp_path_factory.mktemp("demo") / "home"
    for setting in DEMO_SETTINGS:
        with contextlib.suppress(demo.TrainingDiverged):  # one of them shall fail
            for _ in demo.train(setting, home):
                pass
    with running(home, env=TOKENS) as server:
        yield server


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    home = tmp_path_factory.mktemp("hostile") / "home"
    record_hostile(home)
    with running(home, env=TOKENS) as server:
        yield server


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
        """Open a page."""
        self.page.goto(self.base + address, wait_until="load")
        return self.page

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


def test_pages_have_no_error_and_no_accessibility_problem(browser: Browser, flowers: Server):
    violations = []
    with Visit(browser, flowers, viewport={"width": 1280, "height": 900}, bypass_csp=True) as visit:
        for address in PAGES:
            violations += axe_violations(visit.open(address))
        assert not visit.problems
    assert not violations, "\n".join(violations)


def test_pages_fit_a_phone_in_the_dark_with_enough_contrast(browser: Browser, flowers: Server):
    violations, wide = [], []
    with Visit(browser, flowers, viewport=PHONE, color_scheme="dark", bypass_csp=True) as visit:
        for address in PAGES:
            page = visit.open(address)
            width = page.evaluate("document.documentElement.scrollWidth")
            wide += [f"{address}: {width}"] if width > PHONE["width"] else []
            violations += axe_violations(page, "color-contrast")
        assert not visit.problems
    assert not wide
    assert not violations, "\n".join(violations)


def test_hostile_names_execute_nothing_and_fit(browser: Browser, hostile: Server):
    wide = []
    with Visit(browser, hostile, viewport=PHONE) as visit:
        for address in HOSTILE_PAGES:
            page = visit.open(address)
            page.wait_for_timeout(50)
            width = page.evaluate("document.documentElement.scrollWidth")
            wide += [f"{address}: {width}"] if width > PHONE["width"] else []
        assert not visit.problems
    assert not wide


def test_two_runs_are_compared_in_three_clicks_and_nothing_moves(browser: Browser, flowers: Server):
    with Visit(browser, flowers) as visit:
        page = visit.open("/")
        row = page.locator("tbody tr").last
        before = row.bounding_box()
        assert page.locator("[data-compare]").is_disabled()
        page.check('input[value="monday"]')
        page.check('input[value="tuesday"]')
        assert row.bounding_box() == before
        page.click("[data-compare]")
        page.wait_for_selector(".u-over")
        assert page.locator("h1").inner_text() == "Compare 2 runs"
        charts = page.locator(".plot")
        assert charts.count() >= 3
        charts.first.locator(".u-over").hover(position={"x": 60, "y": 40})
        cursors = page.evaluate("[...document.querySelectorAll('.u-cursor-x')].map(e => e.style.transform)")
        assert len(set(cursors)) == 1  # the cursors of all charts are linked
        assert not visit.problems


def test_a_running_training_is_followed(browser: Browser, flowers: Server, flowers_home: Path):
    with (
        provml.record("live", model="net", home=flowers_home, run="live", capture_environment=False) as run,
        run.training(learning_rate=0.1, epochs=9) as training,
        Visit(browser, flowers) as visit,
    ):
        epochs = iter(training.epochs(9))
        next(epochs).measured(loss=2.0)
        next(epochs).measured(loss=1.5)
        page = visit.open("/runs/live")
        page.wait_for_selector(".legend b")
        next(epochs).measured(loss=0.25)
        next(epochs)
        expect(page.locator(".legend b").first).to_have_text("0.25", timeout=5_000)
        listing = visit.open("/?where=run == 'live'")
        assert "running 4/9" in listing.locator("tbody").inner_text()
        assert not visit.problems


def test_everything_can_be_read_and_sent_without_scripts(browser: Browser, flowers: Server):
    with Visit(browser, flowers, java_script_enabled=False) as visit:
        page = visit.open("/runs/tuesday")
        assert page.locator(".chart svg.provml-picture").first.is_visible()
        assert not page.locator(".chart .plot").first.is_visible()
        page.goto(visit.base + "/")
        page.fill('input[name="where"]', "learning_rate > 0.15 and optimizer == 'Adam'")
        page.press('input[name="where"]', "Enter")
        assert page.locator("tbody tr").count() == 1
        page.goto(visit.base + "/")
        page.check('input[value="monday"]')
        page.check('input[value="tuesday"]')
        page.click("[data-compare]")
        assert page.locator("h1").inner_text() == "Compare 2 runs"
        page.goto(visit.base + "/questions/q6")
        page.fill('input[name="model"]', "net")
        page.click("text=Ask")
        assert "step decay" in page.locator("table").inner_text()
        page.goto(visit.base + "/query")
        assert page.locator("textarea").evaluate("e => getComputedStyle(e).color") != "rgba(0, 0, 0, 0)"
        page.click("button:has-text('Run')")
        assert "row" in page.locator("main").inner_text()


def test_a_graph_is_walked_by_keyboard_and_its_path_stands_out(browser: Browser, flowers: Server):
    with Visit(browser, flowers) as visit:
        page = visit.open("/lineage?of=tuesday")
        reached: set[str] = set()
        page.locator(".picture a").first.focus()
        for _ in range(20):
            address = page.evaluate(
                "document.activeElement.closest('.picture') && document.activeElement.getAttribute('href')"
            )
            if address is None:
                break
            reached.add(address)
            if page.evaluate("document.activeElement.querySelector('[data-node]') !== null"):  # not the title of a box
                assert page.locator(".picture.tracing .n.on").count() > 0
            page.keyboard.press("Tab")
        assert reached == set(
            page.evaluate("[...document.querySelectorAll('.picture a')].map(e => e.getAttribute('href'))")
        )
        page.locator(".picture a").first.focus()
        page.keyboard.press("Enter")
        page.wait_for_url("**/nodes?**")
        assert not visit.problems


def test_the_editor_completes_and_runs_by_keyboard(browser: Browser, flowers: Server):
    with Visit(browser, flowers) as visit:
        page = visit.open("/query")
        area = page.locator("textarea")
        area.fill("SELECT ?x { ?x a provml:TrainingExec")
        area.press("End")
        area.press("Control+Space")
        page.wait_for_selector(".completion:not([hidden])")
        area.press("Enter")
        assert area.input_value().endswith("provml:TrainingExecution")
        assert page.locator(".editor pre .t-keyword").first.inner_text() == "SELECT"
        page.keyboard.type(" }")
        area.press("Control+Enter")
        page.wait_for_selector("text=/\\d rows? in/")
        assert not visit.problems


def test_the_query_builder_previews_at_once(browser: Browser, flowers: Server):
    with Visit(browser, flowers) as visit:
        page = visit.open("/build")
        page.locator("label.tick", has_text="learning_rate").first.locator("input").check()
        page.wait_for_selector("text=SELECT DISTINCT ?run ?learning_rate")
        assert not visit.problems


def transferred(visit: Visit) -> list[int]:
    """Return a list that grows by the bytes of each answer."""
    sizes: list[int] = []
    session = visit.context.new_cdp_session(visit.page)
    session.send("Network.enable")
    session.on("Network.loadingFinished", lambda event: sizes.append(event["encodedDataLength"]))
    return sizes


def test_the_pages_of_the_demo_are_light_and_show_its_filters_and_scores(browser: Browser, digits: Server):
    with Visit(browser, digits, viewport=PHONE) as visit:
        page = visit.open("/")
        assert page.locator('input[name="r"]').count() == len(DEMO_SETTINGS)
        runs = page.eval_on_selector_all('input[name="r"]', "boxes => boxes.map(box => box.value)")
        texts = {}
        pages = ("/", f"/runs/{runs[0]}", f"/compare?r={runs[0]}&r={runs[1]}&graph=1", "/models", "/data", "/lineage")
        for address in (*pages, "/dataflow", "/questions/q6"):
            visit.page.goto("about:blank")
            sizes = transferred(visit)
            page = visit.open(address)
            texts[address] = page.locator("main").inner_text()
            assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"], address
            assert 0 < sum(sizes) < 60_000, address
        assert "gray" in texts["/data"] or "contrast" in texts["/data"]
        assert "accuracy" in texts["/models"]
        assert not visit.problems


def test_a_run_of_60000_batches_opens_when_it_is_read(browser: Browser, tmp_path: Path):
    record_long(tmp_path / "home", epochs=300, batches=200)
    with running(tmp_path / "home", env=TOKENS) as server, Visit(browser, server) as visit:
        page = visit.open("/runs/long")
        assert "Reading the runs" in page.locator("main").inner_text()
        assert page.locator("progress").is_visible()
        page.wait_for_selector(".legend b", timeout=90_000)  # the page opens by itself
        sizes = transferred(visit)
        page = visit.open("/runs/long/epochs?page=3")
        assert page.locator("tbody tr").count() == 100
        page.locator("tbody tr").last.locator("a").first.click()
        page.wait_for_selector(".u-over")
        assert "200" in page.locator("main").inner_text()
        page = visit.open("/runs/long/lineage")
        assert page.locator(".picture .n").count() < 20  # epochs are folded
        assert sum(sizes) < 120_000
        assert not visit.problems


def test_the_command_ui_prints_a_link_that_works_once(browser: Browser, flowers_home: Path, tmp_path: Path):
    home = tmp_path / "home"
    shutil.copytree(flowers_home / "runs", home / "runs")
    command = [sys.executable, "-m", "provml", "ui", "--no-browser", "--port", "0", "--home", str(home)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        assert process.stdout is not None
        try:
            link = next(line.split()[1] for line in process.stdout if line.startswith("Browser: "))
            second = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
            assert "already" in second.stdout
            context = browser.new_context()
            page = context.new_page()
            page.goto(link)
            assert page.locator("h1").inner_text().startswith("Runs")
            assert "ticket" not in page.url
            stranger = browser.new_context().new_page()
            answer = stranger.goto(link)
            assert answer is not None
            assert answer.status in (401, 403)
            assert "provml" in stranger.locator("main").inner_text()
            stranger.context.close()
            context.close()
        finally:
            process.send_signal(signal.SIGINT)
            assert process.wait(timeout=30) in (0, 130)


def test_a_page_of_many_runs_is_light(browser: Browser, tmp_path: Path):
    record_many(tmp_path / "home", 150)
    with running(tmp_path / "home", env=TOKENS) as server, Visit(browser, server) as visit:
        sizes = transferred(visit)
        page = visit.open("/")
        page.wait_for_timeout(100)
        assert page.locator('input[name="r"]').count() == 50
        assert 0 < sum(sizes) < 60_000
        assert not visit.problems
