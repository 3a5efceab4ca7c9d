"""What all tests share: the same examples of hypothesis in every run, one cache of mypy, golden answers rewritten."""

from __future__ import annotations

import gc
import os
import tempfile
from collections.abc import Generator, Iterator
from typing import Any

import pytest
from hypothesis import settings

os.environ.setdefault("MYPY_CACHE_DIR", tempfile.mkdtemp(prefix="mypy-"))  # before the workers start, who share it
settings.register_profile("same", derandomize=True, deadline=None, print_blob=False)
settings.load_profile("same")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="rewrite the golden answers with what is given now")


@pytest.fixture(scope="session")
def update_golden(pytestconfig: pytest.Config) -> bool:
    return bool(pytestconfig.getoption("--update-golden"))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, Any, Any]:
    """Where everything must really run (PROVML_NO_SKIP, as in CI), a skip is a failure."""
    report = yield
    return _not_skipped(report)


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector: pytest.Collector) -> Generator[None, Any, Any]:
    """The same of a file that skips itself."""
    report = yield
    return _not_skipped(report)


def _not_skipped(report: Any) -> Any:
    if report.skipped and not hasattr(report, "wasxfail") and os.environ.get("PROVML_NO_SKIP"):
        report.outcome = "failed"
        report.longrepr = f"skipped where nothing may be: {report.longrepr}"
    return report


@pytest.fixture(autouse=True)
def _no_run_left_to_other_tests() -> Iterator[None]:
    """A run that a test leaves open would take in what the next one records, in this process and in its children."""
    before = os.environ.get("PROVML_RUN")
    yield
    left = os.environ.get("PROVML_RUN")
    if left != before and left is not None:
        del os.environ["PROVML_RUN"]
        pytest.fail(f"the test left the run {left} open: finish it")


@pytest.fixture(scope="module", autouse=True)
def _no_rows_left_to_another_thread() -> Iterator[None]:
    """Oxigraph's rows may be let go by their own thread only; a failed test's frames hold them until they are swept."""
    yield
    gc.collect()
