"""The pages of the viewer in a real browser: first paint, bytes and CPU time on many runs, and next to MLflow's UI.

    python tests/bench/viewer.py [--runs 2000] [--without-mlflow]

Each page is opened in a browser without a cache: `paint` is the first contentful paint in milliseconds, `transferred`
the page with its style sheet and scripts, and `CPU` what the server took, with its background threads. `first` is the
page while the home is read for the first time, `restarted` the first page after a restart. MLflow has 24 runs with the
same settings and a loss of ten epochs, as provml has in the rows next to it; its page is that of the experiment. Paints
depend on what else the machine does, so compare them within one run only. Nothing is asserted.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import shutil
import tempfile
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from playwright.sync_api import Browser, sync_playwright
from serve import cpu_seconds, create_mlflow_runs, mlflow_server, provml_server

import provml
from provml.web.viewer.render import STATIC_FILES, static_file

PAGES = (
    *("/", "/?where=learning_rate > 0.05 and optimizer == 'Adam'", "/?sort=train_loss&group=model", "/runs/s0001"),
    *("/runs/s0001/epochs", "/runs/s0001/lineage", "/runs/s0001/rdf", "/compare?r=s0001&r=s0002&graph=1", "/models"),
    *("/data", "/lineage?of=s0001", "/dataflow", "/build", "/questions", "/questions/q3?model=net", "/query"),
    *("/questions/q6?model=net", "/validation", "/ontology/provml:TrainingExecution"),
)
SMALL = 24
PAINT = "performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? -1"
BYTES = """[...performance.getEntriesByType('navigation'), ...performance.getEntriesByType('resource')]
    .reduce((sum, entry) => sum + entry.transferSize, 0)"""


class Visit(NamedTuple):
    """What opening a page took: milliseconds, bytes, and seconds of the server's CPU time."""

    paint: float
    size: int
    cpu: float
    text: str


def record(home: Path, runs: int) -> None:
    """Record a sweep over two hyperparameters."""
    for number in range(runs):
        rate, optimizer = (0.1, 0.01, 0.001)[number % 3], ("Adam", "SGD")[number % 2]
        with provml.record("sweep", model="net", home=home, run=f"s{number:04}", capture_environment=False) as run:
            data = run.dataset(b"training data", name="images", role="training")
            test_data = run.dataset(b"test data", name="test images", role="test")
            with run.training(using=data, learning_rate=rate, optimizer=optimizer) as training:
                for epoch in training.epochs(10):
                    epoch.measured(loss=rate * (1 + number % 7) / epoch.index)
                model = training.produced(f"weights {number}".encode())
            with run.evaluation(of=model, using=test_data) as test:
                test.measured(accuracy=0.5 + number % 50 / 100)


def visit(browser: Browser, server: tuple[str, int], address: str) -> Visit:
    """Open a page in a new context, whose cache is empty."""
    url, pid = server
    before = cpu_seconds(pid)
    with browser.new_context(viewport={"width": 1280, "height": 900}) as context:
        page = context.new_page()
        page.goto(url + address, wait_until="load")
        page.wait_for_function(f"() => ({PAINT}) >= 0", timeout=60_000)
        text = page.locator("body").inner_text()
        return Visit(page.evaluate(PAINT), page.evaluate(BYTES), cpu_seconds(pid) - before, text)


def show(name: str, result: Visit) -> None:
    """Print a row."""
    print(f"{name:55} {result.paint:8.0f} ms {result.size / 1000:9.1f} kB {result.cpu * 1000:8.0f} ms", flush=True)


def wait_until_read(browser: Browser, server: tuple[str, int]) -> None:
    """Wait until the home is read."""
    while "Reading the runs" in visit(browser, server, "/").text:
        time.sleep(0.5)


def measure_pages(browser: Browser, home: Path, pages: Iterable[str]) -> None:
    """Measure a home that no index exists of, then after a restart, then each page twice."""
    with provml_server(home) as server:
        show("first: / while the home is read", visit(browser, server, "/"))
        wait_until_read(browser, server)
    with provml_server(home) as server:
        show("restarted: /", visit(browser, server, "/"))
        wait_until_read(browser, server)
        time.sleep(5)  # the background reads what other pages need
        for page in pages:
            visit(browser, server, page)
            show(page, visit(browser, server, page))


def measure_mlflow(folder: Path) -> None:
    """Measure MLflow's page of an experiment. The browser starts after its server: both need an event loop."""
    with mlflow_server(folder) as server:
        experiment, _ = asyncio.run(create_mlflow_runs(server[0], SMALL))
        address = f"/#/experiments/{experiment}/runs"
        with started_browser() as browser:
            show("MLflow, just started", visit(browser, server, address))
            show("MLflow, again", visit(browser, server, address))


@contextlib.contextmanager
def started_browser() -> Iterator[Browser]:
    """Start the Chromium of the system."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        yield browser
        browser.close()


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=2000)
    parser.add_argument("--without-mlflow", action="store_true")
    args = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="viewer-bench-"))
    try:
        record(folder / "many", args.runs)
        record(folder / "few", SMALL)
        print(f"static files: {sum(len(static_file(name).content) for name in STATIC_FILES) / 1000:.0f} kB")
        with started_browser() as browser:
            print(f"\n{args.runs:,} runs{'paint':>58} {'transferred':>12} {'CPU':>10}")
            measure_pages(browser, folder / "many", PAGES)
            print(f"\n{SMALL} runs")
            measure_pages(browser, folder / "few", ("/", "/runs/s0001", "/compare?r=s0001&r=s0002"))
        if not args.without_mlflow:
            measure_mlflow(folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
