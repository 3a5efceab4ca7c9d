"""The pages of the viewer in a real browser: first paint, bytes and CPU time on many runs, and next to MLflow's UI.

    python tests/bench/viewer.py [--runs 2000] [--without-mlflow]

Each page is opened in a browser without a cache: `paint` is the first contentful paint in milliseconds, `shown` the
time until the first run can be read, `transferred` the page with its style sheet and scripts, and `server` and
`browser` the CPU time that each took, with its background threads. `first` is the page while the home is read for the
first time, `restarted` the first page after a restart. MLflow has the 24 runs that provml has in the rows next to it:
the same names, settings, losses of ten epochs and accuracies; its page is that of the experiment. Times by the clock
depend on what else the machine does: each row has the least of three visits. Compare within one run only. Nothing is
asserted.
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
from serve import call, cpu_seconds, mlflow_server, post, provml_server

import provml
from provml.web.viewer.render import STATIC_FILES, static_file

PAGES = (
    *("/", "/?where=learning_rate > 0.05 and optimizer == 'Adam'", "/?sort=train_loss&group=model", "/runs/s0001"),
    *("/runs/s0001/epochs", "/runs/s0001/lineage", "/runs/s0001/rdf", "/compare?r=s0001&r=s0002&graph=1", "/models"),
    *("/data", "/lineage?of=s0001", "/dataflow", "/build", "/questions", "/questions/q3?model=net", "/query"),
    *("/questions/q6?model=net", "/validation", "/ontology/provml:TrainingExecution"),
)
SMALL = 24
VISITS = 3
IDLE_SECONDS = 0.05
PAINT = "performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? -1"
BYTES = """[...performance.getEntriesByType('navigation'), ...performance.getEntriesByType('resource')]
    .reduce((sum, entry) => sum + entry.transferSize, 0)"""


class Visit(NamedTuple):
    """What opening a page took: milliseconds, bytes, and seconds of CPU time."""

    paint: float
    shown: float
    size: int
    server: float
    browser: float
    text: str


class Run(NamedTuple):
    """A run of a sweep over two hyperparameters."""

    name: str
    rate: float
    optimizer: str
    losses: list[float]
    accuracy: float


def sweep(count: int) -> Iterator[Run]:
    """Yield the runs that are recorded."""
    for number in range(count):
        rate, optimizer = (0.1, 0.01, 0.001)[number % 3], ("Adam", "SGD")[number % 2]
        losses = [rate * (1 + number % 7) / epoch for epoch in range(1, 11)]
        yield Run(f"s{number:04}", rate, optimizer, losses, 0.5 + number % 50 / 100)


def record(home: Path, count: int) -> None:
    """Record the sweep with provml."""
    for each in sweep(count):
        with provml.record("sweep", model="net", home=home, run=each.name, capture_environment=False) as run:
            data = run.dataset(b"training data", name="images", role="training")
            test_data = run.dataset(b"test data", name="test images", role="test")
            with run.training(using=data, learning_rate=each.rate, optimizer=each.optimizer) as training:
                for epoch in training.epochs(10):
                    epoch.measured(loss=each.losses[epoch.index - 1])
                model = training.produced(f"weights {each.name}".encode())
            with run.evaluation(of=model, using=test_data) as test:
                test.measured(accuracy=each.accuracy)


async def record_in_mlflow(url: str, count: int) -> str:
    """Record the sweep by MLflow's protocol; return the id of the experiment."""
    api, moment = "/api/2.0/mlflow", 1_700_000_000_000
    experiment = str((await call(url, post(f"{api}/experiments/create", {"name": "sweep"})))["experiment_id"])
    for number, each in enumerate(sweep(count)):
        body = {"experiment_id": experiment, "start_time": moment + number, "run_name": each.name}
        run = str((await call(url, post(f"{api}/runs/create", body)))["run"]["info"]["run_id"])  # type: ignore[index]
        settings = {"learning_rate": each.rate, "optimizer": each.optimizer}
        points = [("loss", value, step) for step, value in enumerate(each.losses, 1)] + [
            ("accuracy", each.accuracy, 10)
        ]
        log = {
            "run_id": run,
            "params": [{"key": key, "value": str(value)} for key, value in settings.items()],
            "metrics": [{"key": key, "value": value, "timestamp": moment, "step": step} for key, value, step in points],
        }
        await call(url, post(f"{api}/runs/log-batch", log))
        await call(url, post(f"{api}/runs/update", {"run_id": run, "status": "FINISHED", "end_time": moment + 1000}))
    return experiment


def visit(browser: Browser, server: tuple[str, int], address: str, wanted: str = "") -> Visit:
    """Open a page in a new context, whose cache is empty, and wait until it shows a text."""
    url, pid = server
    session = browser.new_browser_cdp_session()

    def browser_seconds() -> float:
        processes = session.send("SystemInfo.getProcessInfo")["processInfo"]
        return sum(float(each["cpuTime"]) for each in processes)

    with browser.new_context(viewport={"width": 1280, "height": 900}) as context:
        page = context.new_page()
        before, browser_before = cpu_seconds(pid), browser_seconds()
        page.goto(url + address, wait_until="load")
        page.wait_for_function(f"() => ({PAINT}) >= 0", timeout=60_000)
        shown = -1.0
        if wanted:
            page.wait_for_function("text => document.body.innerText.includes(text)", arg=wanted, timeout=120_000)
            shown = page.evaluate("performance.now()")
        text = page.locator("body").inner_text()
        time.sleep(0.5)  # what the page and the server do after the first paint counts too
        costs = cpu_seconds(pid) - before, browser_seconds() - browser_before
        return Visit(page.evaluate(PAINT), shown, page.evaluate(BYTES), *costs, text)


def show(name: str, result: Visit) -> None:
    """Print a row."""
    shown = f"{result.shown:8.0f} ms" if result.shown >= 0 else " " * 11
    costs = f"{result.server * 1000:8.0f} ms {result.browser * 1000:8.0f} ms"
    print(f"{name:55} {result.paint:8.0f} ms {shown} {result.size / 1000:9.1f} kB {costs}", flush=True)


def wait_until_read(browser: Browser, server: tuple[str, int]) -> None:
    """Wait until the home is read."""
    while "Reading the runs" in visit(browser, server, "/").text:
        time.sleep(0.5)


def wait_until_idle(server: tuple[str, int]) -> None:
    """Wait until the server has read in the background what other pages need."""
    last = -1.0
    while (used := cpu_seconds(server[1])) - last > IDLE_SECONDS:
        last = used
        time.sleep(3)


def best(visits: Iterable[Visit]) -> Visit:
    """Return the least of each figure: what else the machine does only adds to them."""
    all_visits = list(visits)
    return Visit(*(min(values) for values in zip(*all_visits, strict=True)))


def measure_pages(browser: Browser, home: Path, pages: Iterable[str], wanted: str = "") -> None:
    """Measure a home that no index exists of, then after a restart, then the best of three visits of each page."""
    with provml_server(home) as server:
        show("first: / while the home is read", visit(browser, server, "/"))
        wait_until_read(browser, server)
    with provml_server(home) as server:
        show("restarted: /", visit(browser, server, "/"))
        wait_until_read(browser, server)
        wait_until_idle(server)
        for page in pages:
            visit(browser, server, page)
            show(page, best(visit(browser, server, page, wanted) for _ in range(VISITS)))


def measure_mlflow(folder: Path) -> None:
    """Measure MLflow's page of an experiment. The browser starts after its server: both need an event loop."""
    with mlflow_server(folder) as server:
        experiment = asyncio.run(record_in_mlflow(server[0], SMALL))
        address = f"/#/experiments/{experiment}/runs"
        with started_browser() as browser:
            show("MLflow, just started", visit(browser, server, address, "s0001"))
            show("MLflow, again", best(visit(browser, server, address, "s0001") for _ in range(VISITS)))


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
            print(f"\n{args.runs:,} runs{'paint':>56} {'shown':>11} {'transferred':>12} {'server':>11} {'browser':>11}")
            measure_pages(browser, folder / "many", PAGES)
            print(f"\n{SMALL} runs")
            measure_pages(browser, folder / "few", ("/", "/runs/s0001", "/compare?r=s0001&r=s0002"), "s0001")
        if not args.without_mlflow:
            measure_mlflow(folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
