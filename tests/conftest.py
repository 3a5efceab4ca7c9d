"""What all tests share: hypothesis draws the same examples in every run; `--update-golden` rewrites golden answers."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest
from hypothesis import settings

settings.register_profile("same", derandomize=True, deadline=None, print_blob=False)
settings.load_profile("same")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="rewrite the golden answers with what is given now")


@pytest.fixture(scope="session")
def update_golden(pytestconfig: pytest.Config) -> bool:
    return bool(pytestconfig.getoption("--update-golden"))


@pytest.fixture(scope="module", autouse=True)
def _no_rows_left_to_another_thread() -> Iterator[None]:
    """Oxigraph's rows may be let go by their own thread only; a failed test's frames hold them until they are swept."""
    yield
    gc.collect()
