"""Fixtures and options of all tests: repeatable examples of hypothesis, one mypy cache, isolation, golden answers."""

from __future__ import annotations

import atexit
import gc
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from markers import is_left_out, mark

from provml.recording.inherit import RANK_VARIABLES

MEMORY = Path("/dev/shm")
MIN_FREE_BYTES = 4 << 30


def use_memory_as_disk() -> None:
    """Have temporary directories in memory: creating an index takes 0.1 s there, and five times as long on a disk.

    TMPDIR chooses another place.
    """
    if "TMPDIR" in os.environ or not MEMORY.is_dir():
        return
    allows_programs = not os.statvfs(MEMORY).f_flag & getattr(os, "ST_NOEXEC", 0)
    if allows_programs and shutil.disk_usage(MEMORY).free >= MIN_FREE_BYTES:
        os.environ["TMPDIR"] = tempfile.tempdir = str(MEMORY)


def share_mypy_cache() -> None:
    """Let all tests, in all workers, use one cache of mypy, which the process that started them removes."""
    if "MYPY_CACHE_DIR" not in os.environ:
        os.environ["MYPY_CACHE_DIR"] = tempfile.mkdtemp(prefix="mypy-")
        atexit.register(shutil.rmtree, os.environ["MYPY_CACHE_DIR"], ignore_errors=True)


def keep_compiled_modules() -> None:
    """Write `__pycache__` even where PYTHONDONTWRITEBYTECODE is set, as in many containers: without it, each of the
    processes that tests start compiles all of provml, and each worker rewrites the assertions of all tests."""
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    sys.dont_write_bytecode = False


def accept_interrupts() -> None:
    """Let SIGINT interrupt the tests and their processes, also where a script started them in the background: a shell
    makes such a command, and all that it starts, ignore the signal."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


accept_interrupts()
keep_compiled_modules()
use_memory_as_disk()
share_mypy_cache()
for _name in [*RANK_VARIABLES, *(name for name in os.environ if name.startswith("PROVML_"))]:
    if _name not in ("PROVML_NO_SKIP", "PROVML_SUITES"):  # settings of the tests
        os.environ.pop(_name, None)  # settings of the developer must not change what a test records
os.environ["PROVML_CAPTURE_CODE"] = "0"  # what is not committed here must not change what a test records
for _name in ("COLUMNS", "LINES"):  # GNU readline exports them, so that the workers of xdist inherit a terminal size
    os.environ.pop(_name, None)
    os.unsetenv(_name)  # readline sets them behind the back of `os.environ`
settings.register_profile("same", derandomize=True, deadline=None, print_blob=False)
settings.register_profile("quick", settings.get_profile("same"), max_examples=15)
settings.load_profile("same")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="rewrite the golden answers with what is given now")


def pytest_configure(config: pytest.Config) -> None:
    if "not slow" in config.option.markexpr:  # `make quick`
        settings.load_profile("quick")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    return is_left_out(collection_path, config.option.markexpr) or None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    mark(items)


def pytest_collection_finish() -> None:
    """Exempt what was imported from garbage collection: stores collect garbage when they are closed, and would look at
    a million objects each time."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session")
def update_golden(pytestconfig: pytest.Config) -> bool:
    return bool(pytestconfig.getoption("--update-golden"))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, Any, Any]:
    """Turn a skip into a failure if PROVML_NO_SKIP is set, as in CI."""
    report = yield
    return _not_skipped(report)


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector: pytest.Collector) -> Generator[None, Any, Any]:
    """Do the same for a file that skips itself."""
    report = yield
    return _not_skipped(report)


def _not_skipped(report: Any) -> Any:
    if report.skipped and not hasattr(report, "wasxfail") and os.environ.get("PROVML_NO_SKIP"):
        report.outcome = "failed"
        report.longrepr = f"skipped although PROVML_NO_SKIP is set: {report.longrepr}"
    return report


@pytest.fixture
def isolated_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Run a test in a directory of its own, which holds its default home, and outside of any run."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PROVML_RUN", raising=False)
    return tmp_path


@pytest.fixture(autouse=True)
def _no_open_run_after_a_test() -> Iterator[None]:
    """Fail a test that does not finish its run: the next test and its child processes would join it."""
    before = os.environ.get("PROVML_RUN")
    yield
    after = os.environ.get("PROVML_RUN")
    if after != before and after is not None:
        del os.environ["PROVML_RUN"]
        pytest.fail(f"The test did not finish its run {after}.")


@pytest.fixture(scope="module", autouse=True)
def _collect_query_results() -> Iterator[None]:
    """Collect garbage after each file: Oxigraph's rows must be freed by their own thread, also after a failure.

    What is left (frameworks that a test imported, caches) is exempt from then on, as after the collection of the tests.
    """
    yield
    gc.collect()
    gc.freeze()
