"""The viewer on a home with 2,000 runs and a run of 300 epochs and 60,000 batches, in a real browser."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser

from web.serving import Server, running
from web.viewer.browsing import SHIFTS, TOKENS, Visit, check_pages, check_without_scripts
from web.viewer.homes import record_long, record_many

pytestmark = pytest.mark.xdist_group("large home")  # one home for all
RUNS = 2000
EPOCH = "https://w3id.org/provml/run/long/training/300"
LONG_PAGES = (
    *("/runs/long", "/runs/long/epochs", f"/runs/long/epochs?of={EPOCH}&page=3", "/runs/long/lineage"),
    *("/runs/long/rdf", "/runs/long/environment", f"/nodes?iri={EPOCH}"),
)
PAGES = (
    *("/", "/?where=learning_rate > 0.05 and optimizer == 'Adam'&group=model&page=2", "/?sort=train_loss"),
    *("/compare?r=s0001&r=s0002&r=long", "/models?page=2", "/data", "/lineage?of=images&dir=forward", "/dataflow"),
    *("/build", "/questions/q5?model=net", "/query", "/validation", "/ontology/provml:TrainingExecution"),
)
MAX_BYTES = 60_000


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    home = tmp_path_factory.mktemp("large") / "home"
    record_many(home, RUNS)
    record_long(home, epochs=300, batches=200)
    with running(home, env=TOKENS) as server:
        yield server


def test_the_first_page_shows_the_progress_and_then_the_runs(browser: Browser, large: Server):
    with Visit(browser, large) as visit:
        page = visit.page
        page.goto(f"{visit.base}/")
        assert "Reading the runs" in page.locator("main").inner_text()
        assert page.locator("progress").is_visible()
        page.wait_for_selector('input[name="r"]', timeout=280_000)  # the page opens by itself
        assert page.locator('input[name="r"]').count() == 50
        assert f"{RUNS + 1:,} rows" in page.locator("main").inner_text()
        assert not visit.problems


def test_pages_of_many_runs_suit_all_readers(browser: Browser, large: Server):
    check_pages(browser, large, (*PAGES, *LONG_PAGES))


def test_pages_of_many_runs_show_the_same_without_scripts(browser: Browser, large: Server):
    check_without_scripts(browser, large, (PAGES[0], *LONG_PAGES))


def test_pages_of_many_runs_are_light(browser: Browser, large: Server):
    sizes = {}
    for address in (*PAGES[::2], *LONG_PAGES[::2]):
        with Visit(browser, large) as visit:  # with an empty cache
            visit.open("/api/v1/openapi.json")
            received = visit.transferred()
            visit.open(address)
            sizes[address] = sum(received)
    assert not {address: size for address, size in sizes.items() if not 0 < size <= MAX_BYTES}


def test_selecting_among_many_runs_moves_nothing(browser: Browser, large: Server):
    with Visit(browser, large) as visit:
        page = visit.open("/?sort=run")
        page.evaluate(SHIFTS)
        boxes = page.locator('input[name="r"]')
        boxes.nth(30).check()
        before = page.locator("tbody tr").nth(31).bounding_box()
        boxes.nth(31).check()
        boxes.nth(30).uncheck()
        boxes.nth(40).check()
        assert page.locator("tbody tr").nth(31).bounding_box() == before
        assert page.evaluate("window.shifts") == 0
        page.click("[data-compare]")
        assert page.locator("h1").inner_text() == "Compare 2 runs"


def test_batches_of_an_epoch_are_charts_and_epochs_are_folded(browser: Browser, large: Server):
    with Visit(browser, large) as visit:
        page = visit.open("/runs/long/epochs?page=3")
        assert page.locator("tbody tr").count() == 100
        page.locator("tbody tr").last.locator("a").first.click()
        page.wait_for_selector(".u-over")
        assert "200" in page.locator("main").inner_text()
        assert visit.open("/runs/long/lineage").locator(".picture .n").count() < 20
        assert not visit.problems
