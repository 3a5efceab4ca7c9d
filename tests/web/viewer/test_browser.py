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

import pytest
from playwright.sync_api import Browser, expect

import provml
from provml.demo import settings as demo
from provml.web.viewer.site import write_site
from web.serving import Server, running
from web.viewer.browsing import PHONE, SHIFTS, TOKENS, Visit, axe_violations, check_pages, check_without_scripts
from web.viewer.homes import record_flowers, record_hostile

pytestmark = pytest.mark.xdist_group("viewer")  # one browser and one service per home
DEMO_SETTINGS = (demo.SETTINGS[1], demo.SETTINGS[4], demo.SETTINGS[5])
TABS = ("epochs", "layers", "environment", "lineage", "validation", "artifacts", "rdf")
GENERAL_PAGES = (
    *("/", "/models", "/data", "/lineage", "/dataflow", "/build", "/questions", "/questions/q3", "/query"),
    *("/validation", "/ontology"),
)
"""The pages of the navigation, which every home has."""


def pages_of(first: str, second: str) -> tuple[str, ...]:
    """Return all kinds of pages of a home with two runs."""
    return (
        *GENERAL_PAGES,
        *(f"/compare?r={first}&r={second}&graph=1", f"/lineage?of={second}&dir=forward", f"/runs/{second}"),
        *(f"/runs/{second}/{tab}" for tab in TABS),
        *(f"/nodes?iri=https://w3id.org/provml/run/{first}/training", "/ontology/provml:TrainingExecution"),
        *("/ontology/prov:used", "/?where=nothing > ", "/compare"),
    )


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


def test_every_page_suits_all_readers(browser: Browser, flowers: Server):
    check_pages(browser, flowers, pages_of("monday", "tuesday"), light=True)


def test_pages_of_hostile_names_execute_nothing_and_suit_all_readers(browser: Browser, hostile: Server):
    check_pages(browser, hostile, pages_of("h1", "h2"))


def test_pages_of_an_empty_home_suit_all_readers(browser: Browser, tmp_path: Path):
    (tmp_path / "home").mkdir()
    with running(tmp_path / "home", env=TOKENS) as server:
        check_pages(browser, server, GENERAL_PAGES)


def test_every_page_shows_the_same_without_scripts(browser: Browser, flowers: Server):
    check_without_scripts(browser, flowers, pages_of("monday", "tuesday"))


def test_two_runs_are_compared_in_three_clicks_and_nothing_moves(browser: Browser, flowers: Server):
    with Visit(browser, flowers) as visit:
        page = visit.open("/")
        page.evaluate(SHIFTS)
        row = page.locator("tbody tr").last
        before = row.bounding_box()
        assert page.locator("[data-compare]").is_disabled()
        page.check('input[value="monday"]')
        page.check('input[value="tuesday"]')
        assert row.bounding_box() == before
        assert page.evaluate("window.shifts") == 0
        page.click("[data-compare]")
        page.wait_for_selector(".u-over")
        assert page.locator("h1").inner_text() == "Compare 2 runs"
        charts = page.locator(".plot")
        assert charts.count() >= 3
        charts.first.locator(".u-over").hover(position={"x": 60, "y": 40})
        cursors = page.evaluate("[...document.querySelectorAll('.u-cursor-x')].map(e => e.style.transform)")
        assert len(set(cursors)) == 1  # the cursors of all charts are linked
        assert not visit.problems


def test_two_runs_are_compared_by_keyboard_alone(browser: Browser, flowers: Server):
    with Visit(browser, flowers) as visit:
        page = visit.open("/")
        for _ in range(60):
            page.keyboard.press("Tab")
            if page.evaluate("document.activeElement.name") == "r":
                page.keyboard.press("Space")
            if page.locator('input[name="r"]:checked').count() == 2:
                break
        while page.evaluate("!document.activeElement.hasAttribute('data-compare')"):
            page.keyboard.press("Shift+Tab")
        page.keyboard.press("Enter")
        page.wait_for_url("**/compare?**")
        assert page.locator("h1").inner_text() == "Compare 2 runs"
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


def test_the_address_of_a_run_that_mlflow_prints_leads_to_its_page(browser: Browser, flowers: Server):
    with Visit(browser, flowers) as visit:
        page = visit.open("/#/experiments/1/runs/monday")
        page.wait_for_url("**/runs/monday")
        assert "flowers" in page.locator("h1").inner_text()


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
        assert page.locator(".ways pre:visible").all_inner_texts()[0].count("SELECT") > 0
        page.locator("#way-1").press("ArrowRight")
        assert "import provml" in page.locator(".ways pre:visible").inner_text()
        page.click("label:has-text('curl')")
        assert "curl -H" in page.locator(".ways pre:visible").inner_text()
        page.goto(visit.base + "/query")
        assert page.locator("textarea").evaluate("e => getComputedStyle(e).color") != "rgba(0, 0, 0, 0)"
        page.click("button:has-text('Run')")
        assert "row" in page.locator("main").inner_text()


def test_forms_that_change_a_home_work_in_a_browser(browser: Browser, tmp_path: Path):
    record_flowers(tmp_path / "home")
    with running(tmp_path / "home", env=TOKENS) as server, Visit(browser, server) as visit:
        page = visit.open("/runs/monday")
        page.fill('input[aria-label="Tag"]', "baseline, good")
        page.click("text=Add the tag")
        expect(page.locator(".subtitle .tag")).to_have_text(["baseline", "good"])
        page.fill("textarea", "first line\nsecond line")
        page.click("text=Add the note")
        expect(page.locator("[data-part=notes] .card p")).to_have_text("first line\nsecond line", use_inner_text=True)
        page = visit.open("/build")
        page.locator(".picture a", has_text="training settings").click()
        page.locator("label.tick", has_text="learning_rate").locator("input").check()
        page.locator('select[name="where"]').select_option(label="learning_rate")
        page.locator('select[name="op"]').select_option("<")
        page.fill('input[name="value"]', "1")
        page.press('input[name="value"]', "Enter")  # as the button Run does
        page.fill('input[name="name"]', "small-rates")
        page.fill('input[name="summary"]', "Which rates were small?")
        page.click("button:has-text('Save')")
        expect(page.locator("h1")).to_have_text("Which rates were small?")
        assert page.locator("tbody tr").count() == 2
        assert visit.open("/questions").locator("text=Which rates were small?").count() == 1
        command = [sys.executable, "-m", "provml", "ask", "small-rates", "--home", str(tmp_path / "home")]
        answer = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
        assert "0.2" in answer.stdout
        assert not visit.problems


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


def test_the_pages_of_the_demo_are_light_and_show_its_filters_and_scores(browser: Browser, digits: Server):
    with Visit(browser, digits, viewport=PHONE) as visit:
        page = visit.open("/")
        assert page.locator('input[name="r"]').count() == len(DEMO_SETTINGS)
        runs = page.eval_on_selector_all('input[name="r"]', "boxes => boxes.map(box => box.value)")
        texts = {}
        pages = ("/", f"/runs/{runs[0]}", f"/compare?r={runs[0]}&r={runs[1]}&graph=1", "/models", "/data", "/lineage")
        for address in (*pages, "/dataflow", "/questions/q6"):
            visit.page.goto("about:blank")
            sizes = visit.transferred()
            page = visit.open(address)
            texts[address] = page.locator("main").inner_text()
            assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"], address
            assert 0 < sum(sizes) < 60_000, address
        assert "gray" in texts["/data"] or "contrast" in texts["/data"]
        assert "accuracy" in texts["/models"]
        assert not visit.problems


def test_a_static_site_is_read_from_files(browser: Browser, flowers_home: Path, tmp_path: Path):
    home = tmp_path / "home"
    shutil.copytree(flowers_home / "runs", home / "runs")
    with provml.open(home) as store:
        write_site(store, tmp_path / "site", validate=False)
    with contextlib.closing(browser.new_context(viewport=PHONE)) as context:
        page = context.new_page()
        problems: list[str] = []
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.on("request", lambda request: problems.append(request.url) if request.url[:5] == "http:" else None)
        page.goto((tmp_path / "site" / "index.html").as_uri())
        page.click("text=tuesday")
        page.wait_for_selector(".u-over")
        page.click("text=Dataflow")
        assert page.locator(".picture .role-input").count() > 0
        page.click("text=Runs")
        page.click("text=Compare all")
        page.wait_for_selector(".u-over")
        page.click("text=Runs")
        rows = page.locator("tbody tr:visible")
        for text, runs in (
            ("learning_rate > 0.15 and status == finished", ["tuesday"]),
            ("optimizer == 'adam' and mon", ["monday"]),
            ("learning_rate >= 9", ["wednesday"]),
        ):
            page.fill("[data-filter]", text)
            assert [each.split()[0] for each in rows.locator(".run").all_inner_texts()] == runs
        page.fill("[data-filter]", "")
        assert rows.count() == page.locator("tbody tr").count() >= 3
        page.fill("[data-filter]", "nothing > 1")
        assert "No column is named nothing" in page.locator("[data-filter-hint]").inner_text()
        assert not problems


def test_answers_can_be_read_in_a_light_notebook_of_a_dark_system(browser: Browser, flowers_home: Path, tmp_path: Path):
    home = tmp_path / "home"
    shutil.copytree(flowers_home / "runs", home / "runs")
    with provml.open(home) as store:
        answer = store.ask("q3", model="net", run="tuesday")
        parts = [answer, store, store.runs()[0], store.lineage("tuesday")]
        html = "".join(getattr(part, "_repr_html_", getattr(part, "_repr_svg_", None))() for part in parts)
    for scheme in ("light", "dark"):
        with contextlib.closing(browser.new_context(color_scheme=scheme)) as context:
            page = context.new_page()
            page.set_content(f"<!doctype html><html lang=en><title>notebook</title><main>{html}</main>")
            assert page.locator("table.provml-table").count() == 3
            assert not axe_violations(page, "color-contrast")


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
